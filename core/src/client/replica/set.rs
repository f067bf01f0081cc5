//! One set of artifacts as a client holds it. What may replace it, and when, is the machine's.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::io::Breach;
use crate::artifact::{SetDigest, set_digest};
use crate::ids::ArtifactId;
use crate::nostr::{ArtifactFilter, Event, kinds};
use crate::scope::head_matches;

/// Artifacts by their `d`, each with its head.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LocalSet {
    heads: BTreeMap<ArtifactId, Arc<Event>>,
}

/// What an entry did to a set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Applied {
    /// The artifact has this head, and had another one or none.
    Stored(ArtifactId, Arc<Event>),
    /// The artifact has this head as before (AR-SYNC-4c).
    Same,
    /// The artifact was there and is not.
    Removed(ArtifactId),
    /// The artifact was not there and is not.
    Absent,
}

impl LocalSet {
    /// The head of an artifact.
    pub fn get(&self, artifact: ArtifactId) -> Option<&Arc<Event>> {
        self.heads.get(&artifact)
    }

    /// The artifacts in the order of `d`.
    pub fn iter(&self) -> impl Iterator<Item = (ArtifactId, &Arc<Event>)> {
        self.heads.iter().map(|(artifact, head)| (*artifact, head))
    }

    /// How many artifacts there are.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The content identifier of the set (AR-DIGEST-1); of a part of it: [`set_digest`] over that part.
    pub fn digest(&self) -> SetDigest {
        set_digest(self.iter().map(|(artifact, head)| (artifact, head.id)))
    }

    /// Applies a head or a removal: a head that is a deletion or does not match leaves the set, any other takes the place of
    /// the one before, a removal removes by `d` whatever revision is held (AR-SYNC-REQ-19, AR-SYNC-REQ-20, AR-SYNC-REQ-23, H5).
    ///
    /// # Errors
    /// The breach, if the event is neither, names no artifact, or would make the set larger than `max_events`; the set is then
    /// what it was.
    pub(super) fn apply(
        &mut self,
        filter: &ArtifactFilter,
        max_events: usize,
        event: Arc<Event>,
    ) -> Result<Applied, Breach> {
        let named = event.only_value("d").and_then(|value| value.parse().ok());
        let artifact = named.ok_or(Breach::NoArtifact)?;
        let belongs = match event.kind {
            kinds::ARTIFACT => head_matches(filter, &event),
            kinds::ARTIFACT_MOVED => false,
            _ => return Err(Breach::Kind),
        };
        if !belongs {
            let removed = self.heads.remove(&artifact);
            return Ok(removed.map_or(Applied::Absent, |_| Applied::Removed(artifact)));
        }
        match self.heads.get(&artifact) {
            Some(held) if held.id == event.id => return Ok(Applied::Same),
            Some(_) => {}
            None if self.heads.len() >= max_events => return Err(Breach::TooMany),
            None => {}
        }
        self.heads.insert(artifact, Arc::clone(&event));
        Ok(Applied::Stored(artifact, event))
    }
}
