//! Ordinary events: what is stored, in which channel, and which of two versions of a replaceable event stays (NIP-01).
//! Commands, deletions and artifact revisions do not belong here.

use super::deletion::may_be_deleted;
use super::gate::{self, Place};
use super::list::WriteList;
use super::plan::Plan;
use super::{
    Decision, Rejection, Slot, SlotFacts, StoredEvent, Submission, View, WithheldCause, Write,
};
use crate::ids::ChannelId;
use crate::nostr::{Event, kinds};

/// Adds to a plan what an event of its own needs: its place, its slot, one ledger position.
pub(super) fn plan_into(event: &Event, plan: &mut Plan) {
    if let Ok(place) = gate::place(event) {
        plan.locks.shared_channels.extend(place.channel());
        plan.view.channels.extend(place.channel());
    }
    if kinds::is_ephemeral(event.kind) {
        return;
    }
    let slot = Slot::of(event);
    plan.locks.slots.extend(slot.clone());
    plan.view.slot = slot;
    plan.view.positions += 1;
}

/// Decides an event that is neither a deletion, a command nor an artifact revision.
pub(super) fn decide(submission: &Submission, view: &View) -> Result<Decision, Rejection> {
    let event = &submission.event;
    let channel = write_place(event, view)?;
    if kinds::is_ephemeral(event.kind) {
        return Ok(Decision::Ephemeral { channel });
    }
    let mut list = WriteList::new(view);
    if let Some(stored) = view.slot {
        if !replaces(event, &stored) {
            return Ok(Decision::Already {
                message: "duplicate: a newer version is stored".to_owned(),
            });
        }
        list.push(Write::Withhold {
            event: stored.id,
            cause: WithheldCause::Superseded,
        });
    }
    list.store(|position| StoredEvent::new(event.clone(), channel, position));
    Ok(list.decision())
}

/// The channel the event is stored in, once the author may write there.
pub(super) fn write_place(event: &Event, view: &View) -> Result<Option<ChannelId>, Rejection> {
    match gate::place(event)? {
        Place::Global => gate::standing(view, gate::SCOPE_MESSAGES_WRITE).map(|()| None),
        Place::Channel(channel) => gate::write_gate(view, channel).map(|_| Some(channel)),
        Place::Nowhere => {
            gate::standing(view, gate::SCOPE_MESSAGES_WRITE).and(Err(gate::not_a_member()))
        }
    }
}

/// Whether the author's kind 5 keeps the event out, by its id or as a version of a deleted address. A copy that was stored before
/// the deletion is refused too: it is no longer there to be a duplicate of (NIP-09, B07).
pub(super) fn is_deleted(submission: &Submission, view: &View) -> bool {
    let event = &submission.event;
    let by_address = view
        .slot_deleted_until
        .is_some_and(|until| event.created_at <= until);
    (view.deleted || by_address) && may_be_deleted(event.kind)
}

/// The refusal of an event that its author deleted before.
pub(crate) fn deleted() -> Rejection {
    Rejection::Invalid("blocked: this event was deleted by its author".to_owned())
}

/// Whether the event takes the place of the stored one: the later, and of two of one second the one with the lowest id (B06).
fn replaces(event: &Event, stored: &SlotFacts) -> bool {
    (event.created_at, stored.id) > (stored.created_at, event.id)
}
