//! One connection: its keys, its credit in the send queue, its subscriptions. State only; the decisions about messages are in
//! `session`, those about subscriptions in `subs` and `live`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::config::Config;
use super::io::{Generation, OpId, Topic};
use crate::ids::{ChannelId, CommunityId, Position};
use crate::limits::RECENT_POSITIONS_MAX;
use crate::nostr::{Event, EventId, PubKey, RelayFrame, SubId, WebUrl};
use crate::scope::{Cut, ReadPlan};
use crate::sync::SyncSession;

/// One WebSocket connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Conn {
    pub(super) community: CommunityId,
    pub(super) relay_url: WebUrl,
    pub(super) challenge: String,
    /// Authenticated keys (NIP-42: they accumulate).
    pub(super) keys: BTreeSet<PubKey>,
    pub(super) failed_tries: u32,
    /// When a key must be there, while that is still open.
    pub(super) auth_deadline: Option<u64>,
    /// The key that authenticated last: the reader of a sync that is asked for next.
    pub(super) last_key: Option<PubKey>,
    pub(super) subs: BTreeMap<SubId, Sub>,
    pub(super) syncs: BTreeMap<SubId, Sync>,
    /// Bytes queued for the peer and not yet flushed.
    pub(super) queued_bytes: usize,
    /// Frames queued for the peer and not yet flushed.
    pub(super) queued_frames: usize,
    /// Room promised to reads in flight.
    pub(super) reserved_bytes: usize,
    /// Frames promised to reads in flight.
    pub(super) reserved_frames: usize,
    /// Frames that found no room, and whose the newest one was.
    pub(super) refused_frames: u64,
    pub(super) refused_of: Option<Generation>,
    /// A close was ordered; nothing more is sent or taken.
    pub(super) closing: bool,
}

/// Room in a send queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Room {
    pub(super) bytes: usize,
    pub(super) frames: usize,
}

impl Room {
    /// What one frame takes.
    pub(super) fn of(frame: &RelayFrame) -> Room {
        Room {
            bytes: frame.len_bytes(),
            frames: 1,
        }
    }
}

/// One sync.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sync {
    pub(super) generation: Generation,
    pub(super) session: SyncSession,
    pub(super) topics: BTreeSet<Topic>,
    /// Topics confirmed at any time, for a seeded bug.
    pub(super) confirmed: BTreeSet<Topic>,
    /// The initial read, while it runs.
    pub(super) op: Option<OpId>,
    /// A page was asked for: room is promised to it.
    pub(super) page_in_flight: bool,
    /// When it must have its snapshot, while it waits for one; afterwards when the snapshot must be closed.
    pub(super) snapshot_deadline: Option<u64>,
    /// When EOSE must be queued.
    pub(super) delivery_deadline: Option<u64>,
}

/// One ordinary subscription.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sub {
    pub(super) generation: Generation,
    pub(super) plans: Vec<ReadPlan>,
    pub(super) topics: BTreeSet<Topic>,
    pub(super) phase: Phase,
    /// When the present phase must be over, for phases that have a bound.
    pub(super) deadline: Option<u64>,
    /// Matching positions that wait for EOSE or for room.
    pub(super) held: BTreeSet<Position>,
    /// Ephemeral events that wait for EOSE.
    pub(super) held_ephemeral: VecDeque<Arc<Event>>,
    /// Positions sent lately: a change can be announced on several topics.
    pub(super) sent_positions: BTreeSet<Position>,
    /// Ephemeral events sent lately.
    pub(super) sent_ephemeral: VecDeque<EventId>,
}

/// Where a subscription stands. A phase carries what exists in it and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Its topics are not all confirmed on the present bus connection.
    Registering,
    /// Its history is being read.
    Reading {
        /// The read.
        op: OpId,
        /// The first page has come and the access answer was judged.
        judged: bool,
        /// A page was asked for and has not come.
        page_in_flight: bool,
        /// Ids sent: an event that several filters return is sent once.
        sent: BTreeSet<EventId>,
    },
    /// EOSE is sent.
    Live {
        /// What the history saw; nothing it covers is sent again.
        cut: Cut,
        /// The read that releases held positions.
        catch_up: Option<OpId>,
    },
}

impl Conn {
    /// Whether this much has room beside everything queued and promised.
    pub(super) fn has_room(&self, room: Room, config: &Config) -> bool {
        self.queued_bytes + self.reserved_bytes + room.bytes <= config.send_queue_bytes
            && self.queued_frames + self.reserved_frames + room.frames
                <= config.bounds.send_queue_frames_max
    }

    /// Promises room to a read in flight.
    pub(super) fn reserve(&mut self, room: Room) {
        self.reserved_bytes += room.bytes;
        self.reserved_frames += room.frames;
    }

    /// Takes the promise back.
    pub(super) fn release(&mut self, room: Room) {
        self.reserved_bytes = self.reserved_bytes.saturating_sub(room.bytes);
        self.reserved_frames = self.reserved_frames.saturating_sub(room.frames);
    }
}

impl Sub {
    /// Its history was asked for: from here on it depends on every announcement.
    pub(super) fn opened(&self) -> bool {
        !matches!(self.phase, Phase::Registering)
    }

    /// Remembers a position as sent; false when it was sent already.
    pub(super) fn mark_sent(&mut self, position: Position) -> bool {
        if !self.sent_positions.insert(position) {
            return false;
        }
        while self.sent_positions.len() > RECENT_POSITIONS_MAX {
            self.sent_positions.pop_first();
        }
        true
    }

    /// Remembers an ephemeral event as sent; false when it was sent already.
    pub(super) fn mark_ephemeral_sent(&mut self, id: EventId) -> bool {
        if self.sent_ephemeral.contains(&id) {
            return false;
        }
        if self.sent_ephemeral.len() >= 64 {
            self.sent_ephemeral.pop_front();
        }
        self.sent_ephemeral.push_back(id);
        true
    }

    /// The channels the filters name by `#h`, when each of them does and at least one asks for more than notices; none
    /// otherwise. A subscription that only names channels ends when it can read none of them.
    pub(super) fn named_only(&self) -> Option<BTreeSet<ChannelId>> {
        let mut named = BTreeSet::new();
        for plan in &self.plans {
            let notices_only = plan.kinds.as_ref().is_some_and(|kinds| {
                !kinds.is_empty() && kinds.iter().all(|k| matches!(k, 44_100 | 44_101))
            });
            match &plan.channels {
                Some(channels) if !notices_only => named.extend(channels.iter().copied()),
                _ => return None,
            }
        }
        Some(named)
    }
}
