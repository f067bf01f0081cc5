//! Deletion requests (kind 5, NIP-09): what they name, what of it they delete, and what they forbid for later. Removal by a
//! moderator (9005) does not belong here.

use std::collections::BTreeSet;

use super::message::write_place;
use super::plan::Plan;
use super::{
    Change, Decision, Rejection, Slot, SlotFacts, StoredEvent, Submission, TombstoneTarget, View,
    WithheldCause, Write, WriteList, gate, is_command,
};
use crate::nostr::{Event, EventId, Kind, PubKey, kinds};

/// What a deletion names, as far as its author could own it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct DeletionTargets {
    events: BTreeSet<EventId>,
    slots: BTreeSet<Slot>,
}

impl DeletionTargets {
    /// Reads the `e` and `a` tags. Values that are no id or no address, and addresses of other authors, name nothing; so do
    /// kinds that only the relay signs.
    ///
    /// # Errors
    /// No `e` or `a` tag at all; an address of an artifact kind, which refuses the whole request (H20).
    pub(super) fn parse(event: &Event) -> Result<DeletionTargets, Rejection> {
        let events = event
            .tag_values("e")
            .filter_map(|value| value.parse().ok())
            .collect();
        let mut slots = BTreeSet::new();
        for value in event.tag_values("a") {
            let Some((kind, author, d)) = address(value) else {
                continue;
            };
            if is_artifact_kind(kind) {
                return Err(not_by_kind_5());
            }
            slots.extend(own_slot(kind, author, d).filter(|slot| slot.author == event.pubkey));
        }
        if event
            .tags_named("e")
            .chain(event.tags_named("a"))
            .next()
            .is_none()
        {
            return Err(Rejection::Invalid(
                "invalid: a deletion must name an event by an e or a tag".to_owned(),
            ));
        }
        Ok(DeletionTargets { events, slots })
    }
}

/// Whether an author's deletion keeps an event of this kind out. A deletion of a deletion has no effect (S21), and commands
/// are the record of what happened to a channel.
pub(super) fn may_be_deleted(kind: Kind) -> bool {
    kind != kinds::DELETION && !is_command(kind) && !kinds::is_relay_signed(kind)
}

/// Adds to a plan what a deletion needs: its place, the events and slots it names, a ledger position for each.
pub(super) fn plan_into(event: &Event, plan: &mut Plan) {
    if let Ok(place) = gate::place(event) {
        plan.locks.shared_channels.extend(place.channel());
        plan.view.channels.extend(place.channel());
    }
    let Ok(DeletionTargets { events, slots }) = DeletionTargets::parse(event) else {
        return;
    };
    let named = u32::try_from(events.len() + slots.len()).expect("fewer targets than tags");
    plan.view.positions += 1 + named;
    plan.locks.events.extend(&events);
    plan.locks.slots.extend(slots.iter().cloned());
    plan.view.targets = events;
    plan.view.target_slots = slots;
}

/// Decides a deletion: it is stored itself, withholds what its author owns of what it names, and keeps those events from
/// coming later.
pub(super) fn decide(submission: &Submission, view: &View) -> Result<Decision, Rejection> {
    let event = &submission.event;
    let channel = write_place(event, view)?;
    let targets = DeletionTargets::parse(event)?;
    if view
        .targets
        .values()
        .any(|facts| is_artifact_kind(facts.kind))
    {
        return Err(not_by_kind_5());
    }
    let (author, until) = (event.pubkey, event.created_at);
    let mut list = WriteList::new(view);
    list.store(|position| StoredEvent::new(event.clone(), channel, position));
    for id in targets.events {
        let facts = view.targets.get(&id);
        if facts.is_some_and(|facts| facts.author != author || !may_be_deleted(facts.kind)) {
            continue;
        }
        list.push(Write::Tombstone {
            author,
            target: TombstoneTarget::Event(id),
            until,
        });
        if let Some(facts) = facts.filter(|facts| !facts.withheld) {
            list.withhold(
                id,
                facts.channel,
                None,
                WithheldCause::Deleted,
                Change::Withheld,
            );
        }
    }
    for slot in targets.slots {
        // Every version up to the deletion's time goes; a newer one stays.
        let stored = view.target_slots.get(&slot).copied();
        list.push(Write::Tombstone {
            author,
            target: TombstoneTarget::Slot(slot),
            until,
        });
        if let Some(SlotFacts { id, channel, .. }) =
            stored.filter(|facts| facts.created_at <= until)
        {
            list.withhold(id, channel, None, WithheldCause::Deleted, Change::Withheld);
        }
    }
    Ok(list.decision())
}

fn is_artifact_kind(kind: Kind) -> bool {
    matches!(kind, kinds::ARTIFACT | kinds::ARTIFACT_MOVED)
}

fn not_by_kind_5() -> Rejection {
    Rejection::Invalid(
        "invalid: artifacts cannot be deleted with kind 5; use op=delete or kind 9005 redaction"
            .to_owned(),
    )
}

/// The three parts of an address; only the first two colons divide it, as `d` may contain more (B07).
fn address(value: &str) -> Option<(Kind, &str, &str)> {
    let mut parts = value.splitn(3, ':');
    let kind = parts.next()?.parse().ok()?;
    Some((kind, parts.next()?, parts.next().unwrap_or("")))
}

fn own_slot(kind: Kind, author: &str, d: &str) -> Option<Slot> {
    let author: PubKey = author.parse().ok()?;
    let named = kinds::is_addressable(kind) || (kinds::is_replaceable(kind) && d.is_empty());
    (named && may_be_deleted(kind)).then(|| Slot {
        kind,
        author,
        d: d.to_owned(),
    })
}
