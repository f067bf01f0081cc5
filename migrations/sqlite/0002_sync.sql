-- Syncs read the artifacts of a channel in ascending order of their ids.
CREATE INDEX head_by_home_artifact ON head (community, home, artifact);
