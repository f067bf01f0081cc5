//! From an event to the locks and the view its decision needs. Pure reading of the event's own tags.

use std::collections::BTreeSet;

use super::Submission;
use super::view::ViewSpec;
use super::write::Slot;
use crate::ids::{ArtifactId, ChannelId};
use crate::nostr::PubKey;

/// What a store with concurrent writers locks before it reads the view (S2a); a store with one writer holds them all by nature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locks {
    /// Channels posted to.
    pub shared_channels: BTreeSet<ChannelId>,
    /// Channels whose membership, visibility, archive, deletion or metadata change.
    pub exclusive_channels: BTreeSet<ChannelId>,
    /// Artifacts whose head advances or whose revision is redacted.
    pub artifacts: BTreeSet<ArtifactId>,
    /// Slots that are filled or deleted.
    pub slots: BTreeSet<Slot>,
    /// Recipients of notices, besides all members of the view's roster.
    pub recipients: BTreeSet<PubKey>,
}

/// What must be locked and read for one submission.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Taken first, in one statement.
    pub locks: Locks,
    /// Read afterwards.
    pub view: ViewSpec,
}

/// The plan of a submission that [`super::admit`] let through.
pub fn plan(submission: &Submission) -> Plan {
    let _ = submission;
    Plan::default()
}
