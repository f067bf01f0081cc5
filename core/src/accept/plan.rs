//! From an event to the locks and the view its decision needs. Pure reading of the event's own tags.

use std::collections::BTreeSet;

use super::view::ViewSpec;
use super::{Slot, Submission, deletion, is_command, message};
use crate::ids::{ArtifactId, ChannelId};
use crate::nostr::{EventId, PubKey, kinds};
use crate::{artifact, channel};

/// What a store with concurrent writers locks before it reads the view (S2a); a store with one writer holds them all by nature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locks {
    /// Channels posted to.
    pub shared_channels: BTreeSet<ChannelId>,
    /// Channels whose membership, visibility, archive, deletion or metadata change, and channels from which a moderator
    /// removes an event: what it names must not cease to be an artifact's head meanwhile.
    pub exclusive_channels: BTreeSet<ChannelId>,
    /// Artifacts whose head advances or whose revision is redacted.
    pub artifacts: BTreeSet<ArtifactId>,
    /// Ids that are stored, deleted or removed: a deletion and the event it names never miss each other, and of two
    /// submissions of one event the second finds the first.
    pub events: BTreeSet<EventId>,
    /// Slots that are filled or deleted.
    pub slots: BTreeSet<Slot>,
    /// Recipients of notices.
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
    let event = &submission.event;
    let mut plan = Plan::default();
    if !kinds::is_ephemeral(event.kind) {
        plan.locks.events.insert(event.id);
    }
    match event.kind {
        kinds::ARTIFACT => artifact::plan_into(event, &mut plan),
        kinds::DELETION => deletion::plan_into(event, &mut plan),
        kind if is_command(kind) => channel::plan_into(event, &mut plan),
        _ => message::plan_into(event, &mut plan),
    }
    plan
}
