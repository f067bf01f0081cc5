//! The statements that read the view of one submission. Each reads what is committed when it runs, and what its own transaction
//! wrote. What follows from the view is the core's decision.

use std::collections::BTreeMap;

use holdfast_core::accept::{
    AnchorFacts, ChannelView, Known, Slot, SlotFacts, Standing, StateStamps, Submission,
    TargetFacts, TombstoneTarget, View, ViewSpec,
};
use holdfast_core::ids::{ChannelId, CommunityId, Position};
use holdfast_core::nostr::{EventId, PubKey, kinds};

use super::state::{EventRow, State};

/// One statement of a view, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ViewStatement {
    /// The submitted id, its tombstone, and what fills its slot.
    Identity,
    /// The artifact's head and the anchor.
    Head,
    /// Channels, the author's roles, the roster.
    Access,
    /// What a deletion names.
    Targets,
    /// Clock, positions, the stored channel state, notice stamps.
    Stamps,
}

impl ViewStatement {
    /// The first one.
    pub(super) const FIRST: ViewStatement = ViewStatement::Identity;

    /// The one after this.
    pub(super) fn next(self) -> Option<ViewStatement> {
        match self {
            ViewStatement::Identity => Some(ViewStatement::Head),
            ViewStatement::Head => Some(ViewStatement::Access),
            ViewStatement::Access => Some(ViewStatement::Targets),
            ViewStatement::Targets => Some(ViewStatement::Stamps),
            ViewStatement::Stamps => None,
        }
    }
}

/// What a statement needs beside the rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a> {
    pub(super) submission: &'a Submission,
    pub(super) spec: &'a ViewSpec,
    /// The relay's own key, which fills the slots of channel state.
    pub(super) relay: PubKey,
    pub(super) clock_us: u64,
    /// First of the positions reserved for this submission.
    pub(super) first_position: Position,
}

/// A view of which nothing is read yet.
pub(super) fn unread() -> View {
    View {
        clock_us: 0,
        first_position: Position(0),
        standing: Standing::fine(),
        known: Known::New,
        deleted: false,
        channels: BTreeMap::new(),
        head: None,
        anchor: None,
        targets: BTreeMap::new(),
        target_slots: BTreeMap::new(),
        slot: None,
        slot_deleted_until: None,
        roster: Vec::new(),
        state: StateStamps::default(),
        notice_stamps: BTreeMap::new(),
    }
}

/// Runs one statement on what it sees.
pub(super) fn read(state: &State, statement: ViewStatement, on: &Reading<'_>, view: &mut View) {
    match statement {
        ViewStatement::Identity => identity(state, on, view),
        ViewStatement::Head => head(state, on, view),
        ViewStatement::Access => access(state, on, view),
        ViewStatement::Targets => targets(state, on, view),
        ViewStatement::Stamps => stamps(state, on, view),
    }
}

fn identity(state: &State, on: &Reading<'_>, view: &mut View) {
    let at = on.submission.community;
    let event = &on.submission.event;
    let author = event.pubkey;
    view.known = if state.is_known(at, event) {
        Known::Accepted
    } else {
        Known::New
    };
    view.deleted = state
        .tombstone(at, author, TombstoneTarget::Event(event.id))
        .is_some();
    if let Some(slot) = &on.spec.slot {
        view.slot = slot_facts(state, at, slot);
        view.slot_deleted_until = state.tombstone(at, author, TombstoneTarget::Slot(slot.clone()));
    }
}

fn head(state: &State, on: &Reading<'_>, view: &mut View) {
    let at = on.submission.community;
    view.head = on
        .spec
        .artifact
        .and_then(|artifact| state.head(at, artifact));
    view.anchor = on
        .spec
        .anchor
        .and_then(|id| state.event(at, id))
        .map(|row| AnchorFacts {
            kind: row.event.kind,
            channel: row.channel,
            withheld: !row.is_served(on.clock_us / 1_000_000),
        });
}

fn access(state: &State, on: &Reading<'_>, view: &mut View) {
    let at = on.submission.community;
    let home = view.head.as_ref().map(|head| head.home);
    for id in on.spec.channels.iter().copied().chain(home) {
        if let Some(channel) = state.channel(at, id) {
            let found = ChannelView {
                channel: channel.clone(),
                role: state.role(at, id, on.submission.event.pubkey),
            };
            view.channels.insert(id, found);
        }
    }
    if let Some(channel) = on.spec.roster {
        view.roster = state.roster(at, channel);
    }
}

fn targets(state: &State, on: &Reading<'_>, view: &mut View) {
    let at = on.submission.community;
    for &id in &on.spec.targets {
        if let Some(row) = state.event(at, id) {
            view.targets
                .insert(id, target_facts(state, at, id, row, on.clock_us));
        }
    }
    for slot in &on.spec.target_slots {
        if let Some(facts) = slot_facts(state, at, slot) {
            view.target_slots.insert(slot.clone(), facts);
        }
    }
}

fn target_facts(
    state: &State,
    at: CommunityId,
    id: EventId,
    row: &EventRow,
    clock_us: u64,
) -> TargetFacts {
    TargetFacts {
        id,
        author: row.event.pubkey,
        kind: row.event.kind,
        created_at: row.event.created_at,
        channel: row.channel,
        withheld: !row.is_served(clock_us / 1_000_000),
        artifact: row.artifact.filter(|_| row.event.kind == kinds::ARTIFACT),
        current: state.is_head(at, row),
    }
}

fn stamps(state: &State, on: &Reading<'_>, view: &mut View) {
    let at = on.submission.community;
    view.clock_us = on.clock_us;
    view.first_position = on.first_position;
    if let Some(channel) = on.spec.state {
        view.state = state_stamps(state, at, on.relay, channel);
    }
    let members = view.roster.iter().map(|member| member.pubkey);
    let notified = members.filter(|_| on.spec.roster_notices);
    view.notice_stamps = on
        .spec
        .recipients
        .iter()
        .copied()
        .chain(notified)
        .filter_map(|key| Some((key, state.notice_stamp(at, key)?)))
        .collect();
}

fn state_stamps(state: &State, at: CommunityId, relay: PubKey, channel: ChannelId) -> StateStamps {
    let stamp = |kind| {
        let d = channel.to_string();
        slot_facts(
            state,
            at,
            &Slot {
                kind,
                author: relay,
                d,
            },
        )
    };
    StateStamps {
        metadata: stamp(kinds::CHANNEL_METADATA),
        admins: stamp(kinds::CHANNEL_ADMINS),
        members: stamp(kinds::CHANNEL_MEMBERS),
    }
}

fn slot_facts(state: &State, at: CommunityId, slot: &Slot) -> Option<SlotFacts> {
    let row = state.in_slot(at, slot)?;
    Some(SlotFacts {
        id: row.event.id,
        created_at: row.event.created_at,
        channel: row.channel,
    })
}
