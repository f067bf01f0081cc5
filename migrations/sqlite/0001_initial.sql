-- The embedded database of a relay.
--
-- Every key of content begins with the community. The one exception is the ledger, whose positions are shared by all
-- communities; an event is stored under the position of the ledger row that announces it.
--
-- What is checked here repeats what was decided before: a wrong decision fails its transaction (the second wall).

-- Facts about the file itself: the public key of the relay it belongs to, and when it was last seen to be writable.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- Tenants. `number` stands for the id in all other tables, so that their keys stay small.
CREATE TABLE community (
    number INTEGER PRIMARY KEY,
    id     BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    host   TEXT NOT NULL UNIQUE
) STRICT;

-- One row per stored event and per change of state (S5). One writer, so position order is commit order and no transaction id
-- is needed; `xid` is there so that ledgers of all stores have the same columns.
CREATE TABLE ledger (
    position  INTEGER PRIMARY KEY CHECK (position > 0),
    xid       INTEGER NOT NULL DEFAULT 0 CHECK (xid = 0),
    stamp_us  INTEGER NOT NULL,
    community INTEGER NOT NULL REFERENCES community (number),
    change    INTEGER NOT NULL CHECK (change BETWEEN 1 AND 13),
    channel   BLOB,
    key       BLOB,
    artifact  BLOB,
    event     BLOB
) STRICT;

CREATE TABLE channel (
    community    INTEGER NOT NULL REFERENCES community (number),
    id           BLOB NOT NULL CHECK (length(id) = 16),
    channel_type TEXT NOT NULL CHECK (channel_type <> ''),
    visibility   TEXT NOT NULL CHECK (visibility IN ('open', 'private')),
    unlisted     INTEGER NOT NULL CHECK (unlisted IN (0, 1)),
    archived     INTEGER NOT NULL CHECK (archived IN (0, 1)),
    deleted      INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    created_at   INTEGER NOT NULL,
    access_stamp INTEGER NOT NULL,
    creator      BLOB CHECK (length(creator) = 32),
    name         TEXT NOT NULL,
    about        TEXT NOT NULL,
    topic        TEXT NOT NULL,
    purpose      TEXT NOT NULL,
    PRIMARY KEY (community, id)
) STRICT, WITHOUT ROWID;

-- Active and former members; `access_stamp` is the position of the change that began or ended the membership.
CREATE TABLE member (
    community    INTEGER NOT NULL,
    channel      BLOB NOT NULL,
    pubkey       BLOB NOT NULL CHECK (length(pubkey) = 32),
    removed      INTEGER NOT NULL CHECK (removed IN (0, 1)),
    role         TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'bot', 'guest')),
    joined_at_us INTEGER NOT NULL,
    access_stamp INTEGER NOT NULL,
    PRIMARY KEY (community, channel, pubkey),
    FOREIGN KEY (community, channel) REFERENCES channel (community, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX member_roster ON member (community, channel, joined_at_us, pubkey) WHERE removed = 0;

-- Stored events. A withheld event keeps its id and its facts and loses its body and its index terms.
-- An untyped notice is a 44100 or 44101 without `t`; it counts as having every legacy channel type.
CREATE TABLE event (
    position       INTEGER PRIMARY KEY,
    community      INTEGER NOT NULL REFERENCES community (number),
    id             BLOB NOT NULL CHECK (length(id) = 32),
    pubkey         BLOB NOT NULL CHECK (length(pubkey) = 32),
    created_at     INTEGER NOT NULL CHECK (created_at >= 0),
    kind           INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 65535),
    audience       INTEGER NOT NULL CHECK (audience IN (0, 1)),
    untyped_notice INTEGER NOT NULL CHECK (untyped_notice IN (0, 1)),
    channel        BLOB,
    expires_at     INTEGER,
    withheld       INTEGER CHECK (withheld BETWEEN 1 AND 3),
    artifact       BLOB CHECK (length(artifact) = 16),
    slot_d         TEXT,
    body           TEXT,
    UNIQUE (community, id),
    FOREIGN KEY (community, channel) REFERENCES channel (community, id),
    CHECK ((withheld IS NULL) = (body IS NOT NULL)),
    CHECK ((kind IN (45010, 45011)) = (artifact IS NOT NULL))
) STRICT;
CREATE INDEX event_by_kind ON event (community, kind, created_at DESC) WHERE withheld IS NULL;
CREATE INDEX event_by_author ON event (community, pubkey, kind, created_at DESC) WHERE withheld IS NULL;
CREATE INDEX event_by_channel ON event (community, channel, kind, created_at DESC)
    WHERE channel IS NOT NULL AND withheld IS NULL;
CREATE INDEX event_by_artifact ON event (community, artifact, kind) WHERE artifact IS NOT NULL AND withheld IS NULL;
-- One event per slot.
CREATE UNIQUE INDEX event_by_slot ON event (community, pubkey, kind, slot_d)
    WHERE slot_d IS NOT NULL AND withheld IS NULL;

-- Index terms of events that are not withheld.
CREATE TABLE event_tag (
    community  INTEGER NOT NULL,
    name       TEXT NOT NULL,
    value      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    position   INTEGER NOT NULL,
    PRIMARY KEY (community, name, value, created_at DESC, position)
) STRICT, WITHOUT ROWID;

-- The current revision of every artifact id ever used; `position` is that of the revision's event.
CREATE TABLE head (
    community     INTEGER NOT NULL,
    artifact      BLOB NOT NULL CHECK (length(artifact) = 16),
    event         BLOB NOT NULL CHECK (length(event) = 32),
    position      INTEGER NOT NULL REFERENCES event (position),
    home          BLOB NOT NULL,
    deleted       INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    artifact_type TEXT NOT NULL,
    root          BLOB,
    PRIMARY KEY (community, artifact),
    FOREIGN KEY (community, home) REFERENCES channel (community, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX head_by_position ON head (community, position DESC);
CREATE INDEX head_by_home ON head (community, home, position DESC);

-- Every accepted revision; entries outlive the bodies, and their order is acceptance order.
CREATE TABLE revision (
    community INTEGER NOT NULL,
    event     BLOB NOT NULL CHECK (length(event) = 32),
    artifact  BLOB NOT NULL,
    author    BLOB NOT NULL,
    position  INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (community, event)
) STRICT, WITHOUT ROWID;

-- Ids that their author deleted, also in advance.
CREATE TABLE tombstone_event (
    community INTEGER NOT NULL,
    event     BLOB NOT NULL,
    author    BLOB NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (community, event, author)
) STRICT, WITHOUT ROWID;

-- Slots of which an author deleted all versions up to a time.
CREATE TABLE tombstone_slot (
    community INTEGER NOT NULL,
    author    BLOB NOT NULL,
    kind      INTEGER NOT NULL,
    d         TEXT NOT NULL,
    until     INTEGER NOT NULL,
    PRIMARY KEY (community, author, kind, d)
) STRICT, WITHOUT ROWID;

-- created_at of the newest notice of each recipient.
CREATE TABLE notice_stamp (
    community  INTEGER NOT NULL,
    recipient  BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (community, recipient)
) STRICT, WITHOUT ROWID;

-- What is never taken back.

CREATE TRIGGER ledger_is_kept BEFORE DELETE ON ledger
BEGIN SELECT raise(ABORT, 'ledger rows are never deleted'); END;
CREATE TRIGGER ledger_is_fixed BEFORE UPDATE ON ledger
BEGIN SELECT raise(ABORT, 'ledger rows never change'); END;

CREATE TRIGGER revision_is_kept BEFORE DELETE ON revision
BEGIN SELECT raise(ABORT, 'accepted revisions are never forgotten'); END;
CREATE TRIGGER revision_is_fixed BEFORE UPDATE ON revision
BEGIN SELECT raise(ABORT, 'accepted revisions never change'); END;

CREATE TRIGGER head_is_kept BEFORE DELETE ON head
BEGIN SELECT raise(ABORT, 'heads are never deleted'); END;
CREATE TRIGGER head_is_bound BEFORE UPDATE ON head
WHEN new.community <> old.community OR new.artifact <> old.artifact OR new.artifact_type <> old.artifact_type
    OR new.position <= old.position
BEGIN SELECT raise(ABORT, 'a head keeps its identity and type and only advances'); END;

CREATE TRIGGER channel_is_kept BEFORE DELETE ON channel
BEGIN SELECT raise(ABORT, 'channel ids stay used'); END;
CREATE TRIGGER channel_is_bound BEFORE UPDATE ON channel
WHEN new.community <> old.community OR new.id <> old.id OR new.channel_type <> old.channel_type
    OR new.creator IS NOT old.creator OR new.created_at <> old.created_at
    OR new.deleted < old.deleted OR new.access_stamp < old.access_stamp
BEGIN SELECT raise(ABORT, 'a channel keeps its type, its creator and its end'); END;

CREATE TRIGGER member_is_kept BEFORE DELETE ON member
BEGIN SELECT raise(ABORT, 'memberships end and stay recorded'); END;

CREATE TRIGGER event_is_bound BEFORE UPDATE ON event
WHEN old.withheld IS NOT NULL OR new.withheld IS NULL OR new.position <> old.position
    OR new.community <> old.community OR new.id <> old.id OR new.pubkey <> old.pubkey
    OR new.created_at <> old.created_at OR new.kind <> old.kind OR new.channel IS NOT old.channel
BEGIN SELECT raise(ABORT, 'an event is withheld once and changes in no other way'); END;
-- 3 is removal: no other cause hides an artifact revision.
CREATE TRIGGER event_is_redacted_only BEFORE UPDATE ON event
WHEN old.kind = 45010 AND new.withheld <> 3
BEGIN SELECT raise(ABORT, 'an artifact revision is withheld by redaction only'); END;
