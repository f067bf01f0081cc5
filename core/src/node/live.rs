//! Live delivery to ordinary subscriptions: a signal is a hint, so the events and the access of the moment are read together,
//! and every filter is then matched with its own scope (AR-ACC-4, AR-ACC-6).
//!
//! One read per topic is in flight. What a subscription cannot take at once (before EOSE, or without room in its queue) it holds
//! by position and reads again later, so that access is judged when it is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::conn::{Phase, Room, Sub};
use super::io::{
    BusMessage, ConnId, Effect, Generation, LiveQuery, LiveRows, Note, OpId, ReadFailure, Signal,
    StoredRow, Topic,
};
use super::topics::{LiveRead, User};
use super::{Deadline, Node, Owner};
use crate::accept::Change;
use crate::channel::Channel;
use crate::ids::{ChannelId, Position};
use crate::limits::{
    EPHEMERAL_WAITING_MAX, HELD_POSITIONS_MAX, LIVE_BATCH_MAX, LIVE_BYTES_MAX,
    LIVE_RETRY_DEADLINE_MS, RETRY_DELAY_MS,
};
use crate::nostr::{Event, PubKey, RelayFrame, SubId};
use crate::scope::{self, Access, Audience, Row};

/// Ephemeral events that one subscription holds before EOSE.
const HELD_EPHEMERAL_MAX: usize = 64;

impl Node {
    pub(super) fn bus_message(
        &mut self,
        topic: Topic,
        message: BusMessage,
        effects: &mut Vec<Effect>,
    ) {
        match message {
            BusMessage::Signals(signals) => self.signals(topic, &signals, effects),
            BusMessage::Ephemeral { channel, event } => {
                let Some(state) = self.topics.map.get_mut(&topic) else {
                    return;
                };
                if state.users.is_empty() {
                    return;
                }
                if state.ephemeral.len() >= EPHEMERAL_WAITING_MAX {
                    effects.push(Effect::Note(Note::EphemeralDropped));
                    return;
                }
                state.ephemeral.push_back((channel, event));
                self.pump_topic(topic, effects);
            }
        }
    }

    pub(super) fn signals(&mut self, topic: Topic, signals: &[Signal], effects: &mut Vec<Effect>) {
        let Some(state) = self.topics.map.get_mut(&topic) else {
            return;
        };
        if !state.users.is_empty() {
            for signal in signals {
                match signal.change {
                    Change::Event | Change::Revision | Change::MoveSource => {
                        if !state.note_position(signal.position) {
                            effects.push(Effect::Note(Note::SignalRepeated));
                        }
                    }
                    Change::Membership | Change::Visibility | Change::ChannelDeleted => {
                        state.access = true
                    }
                    Change::Redaction { .. }
                    | Change::Withheld
                    | Change::Role
                    | Change::Metadata
                    | Change::Archive
                    | Change::Created => {}
                }
            }
            self.pump_topic(topic, effects);
        }
        self.signal_syncs(topic, signals, effects);
    }

    /// Starts the next read of a topic, unless one is in flight or nothing waits.
    pub(super) fn pump_topic(&mut self, topic: Topic, effects: &mut Vec<Effect>) {
        let Some(state) = self.topics.map.get(&topic) else {
            return;
        };
        if state.read.is_some() || !state.has_work() {
            return;
        }
        let mut keys: BTreeSet<PubKey> = BTreeSet::new();
        let mut named: BTreeSet<ChannelId> = BTreeSet::new();
        for (conn, sub_id) in &state.users {
            let Some(sub) = self.conns.get(conn).and_then(|conn| conn.subs.get(sub_id)) else {
                continue;
            };
            keys.extend(
                sub.plans
                    .iter()
                    .flat_map(|plan| plan.readers.iter().copied()),
            );
            if state.access {
                named.extend(sub.named_only().into_iter().flatten());
            }
        }
        let op = self.op(Owner::Topic { topic });
        let Some(state) = self.topics.map.get_mut(&topic) else {
            return;
        };
        let positions: BTreeSet<Position> =
            state.pending.iter().copied().take(LIVE_BATCH_MAX).collect();
        state
            .pending
            .retain(|position| !positions.contains(position));
        let ephemeral: Vec<_> = state.ephemeral.drain(..).collect();
        named.extend(ephemeral.iter().filter_map(|(channel, _)| *channel));
        let access = std::mem::take(&mut state.access);
        state.read = Some(LiveRead {
            op,
            positions: positions.clone(),
            ephemeral,
            access,
        });
        let query = LiveQuery {
            positions,
            channels: named,
            keys,
            bytes_max: LIVE_BYTES_MAX,
        };
        effects.push(Effect::ReadLive {
            op,
            community: topic.community(),
            query,
        });
    }

    pub(super) fn live_read(
        &mut self,
        op: OpId,
        rows: Result<LiveRows, ReadFailure>,
        effects: &mut Vec<Effect>,
    ) {
        match self.ops.remove(&op) {
            Some(Owner::Topic { topic }) => self.topic_read(topic, op, rows, effects),
            Some(Owner::CatchUp {
                conn,
                sub,
                generation,
                positions,
            }) => self.caught_up(conn, &sub, generation, &positions, rows, effects),
            _ => effects.push(Effect::Note(Note::LateAnswer)),
        }
    }

    fn topic_read(
        &mut self,
        topic: Topic,
        op: OpId,
        rows: Result<LiveRows, ReadFailure>,
        effects: &mut Vec<Effect>,
    ) {
        let now = self.now.mono_ms;
        let Some(state) = self.topics.map.get_mut(&topic) else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        if state.read.as_ref().map(|read| read.op) != Some(op) {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        }
        let Some(read) = state.read.take() else {
            return;
        };
        let rows = match rows {
            Ok(rows) => rows,
            Err(_) => {
                state.pending.extend(read.positions);
                state.access |= read.access;
                state.ephemeral.extend(read.ephemeral);
                let since = *state.failing_since_ms.get_or_insert(now);
                effects.push(Effect::Note(Note::LiveRetried));
                if now.saturating_sub(since) >= LIVE_RETRY_DEADLINE_MS {
                    self.fail_topic(topic, effects);
                } else {
                    self.at(RETRY_DELAY_MS.0, Deadline::Topic(topic));
                }
                return;
            }
        };
        state.failing_since_ms = None;
        state.settle(read.positions.difference(&rows.left).copied());
        state.pending.extend(rows.left.iter().copied());
        let users: Vec<User> = state.users.iter().cloned().collect();
        for (conn, sub_id) in users {
            if read.access {
                self.judge_access(conn, &sub_id, &rows, effects);
            }
            for position in &read.positions {
                if let Some(row) = rows.rows.get(position) {
                    self.offer(conn, &sub_id, *position, row, &rows, effects);
                }
            }
            for (channel, event) in &read.ephemeral {
                self.offer_ephemeral(conn, &sub_id, *channel, event, &rows, effects);
            }
        }
        self.pump_topic(topic, effects);
    }

    /// Live delivery of a topic cannot be read: its subscriptions end, which their clients can see.
    fn fail_topic(&mut self, topic: Topic, effects: &mut Vec<Effect>) {
        let users: Vec<User> = self
            .topics
            .map
            .get(&topic)
            .map(|state| state.users.iter().cloned().collect())
            .unwrap_or_default();
        for (conn, sub_id) in users {
            self.fail_sub(
                conn,
                &sub_id,
                "error: live delivery failed, subscribe again",
                effects,
            );
        }
    }

    /// A subscription that names channels and can read none of them any more ends.
    fn judge_access(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        rows: &LiveRows,
        effects: &mut Vec<Effect>,
    ) {
        let Some(sub) = self
            .conns
            .get(&conn)
            .and_then(|state| state.subs.get(sub_id))
        else {
            return;
        };
        if matches!(sub.phase, Phase::Registering) {
            return;
        }
        let Some(named) = sub.named_only() else {
            return;
        };
        let readable = named.iter().any(|id| {
            let Some(channel) = rows.channels.get(id) else {
                return false;
            };
            let mut readers = sub.plans.iter().flat_map(|plan| plan.readers.iter());
            channel.readable_by(None)
                || readers.any(|key| channel.readable_by(rows.roles.get(&(*id, *key)).copied()))
        });
        if !readable {
            self.purge_and_fail(conn, sub_id, "restricted: channel access revoked", effects);
        }
    }

    /// Ends a subscription that may read nothing any more: what is queued of it is not sent either.
    fn purge_and_fail(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        text: &str,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(sub) = self
            .conns
            .get(&conn)
            .and_then(|state| state.subs.get(sub_id))
        {
            effects.push(Effect::Purge {
                conn,
                generation: sub.generation,
            });
        }
        self.fail_sub(conn, sub_id, text, effects);
    }

    /// One stored event for one subscription: send it, hold it, or pass it over.
    fn offer(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        position: Position,
        row: &StoredRow,
        rows: &LiveRows,
        effects: &mut Vec<Effect>,
    ) {
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        let Some(sub) = state.subs.get(sub_id) else {
            return;
        };
        if matches!(sub.phase, Phase::Registering)
            || sub.sent_positions.contains(&position)
            || sub.held.contains(&position)
        {
            return;
        }
        if !admitted(sub, row, rows) {
            return;
        }
        let frame = || RelayFrame::Event {
            sub: sub_id.clone(),
            json: Arc::from(row.event.to_json()),
        };
        let (now, generation) = match &sub.phase {
            Phase::Live { cut, .. } if cut.covers(&row.stamp) => return,
            Phase::Live { .. } if sub.held.is_empty() => {
                let frame = frame();
                let fits = state.has_room(Room::of(&frame), &self.config);
                (fits.then_some(frame), sub.generation)
            }
            _ => (None, sub.generation),
        };
        match now {
            Some(frame) => {
                if let Some(sub) = state.subs.get_mut(sub_id) {
                    sub.mark_sent(position);
                }
                effects.push(Effect::Note(Note::LiveDelivered));
                self.send(conn, Some(generation), frame, effects);
            }
            None => self.hold(conn, sub_id, position, effects),
        }
    }

    fn hold(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        position: Position,
        effects: &mut Vec<Effect>,
    ) {
        let Some(sub) = self
            .conns
            .get_mut(&conn)
            .and_then(|state| state.subs.get_mut(sub_id))
        else {
            return;
        };
        sub.held.insert(position);
        effects.push(Effect::Note(Note::LiveHeld));
        if sub.held.len() > HELD_POSITIONS_MAX {
            self.fail_sub(
                conn,
                sub_id,
                "error: too many events wait for this subscription",
                effects,
            );
        }
    }

    fn offer_ephemeral(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        channel: Option<ChannelId>,
        event: &Arc<Event>,
        rows: &LiveRows,
        effects: &mut Vec<Effect>,
    ) {
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        let Some(sub) = state.subs.get(sub_id) else {
            return;
        };
        let row = StoredRow {
            stamp: scope::Stamp {
                position: Position(0),
                xid: 0,
            },
            event: Arc::clone(event),
            channel,
            audience: Audience::Readers,
        };
        if !admitted(sub, &row, rows) {
            return;
        }
        let live = matches!(sub.phase, Phase::Live { .. });
        let generation = sub.generation;
        let frame = RelayFrame::Event {
            sub: sub_id.clone(),
            json: Arc::from(event.to_json()),
        };
        let fits = state.has_room(Room::of(&frame), &self.config);
        let Some(sub) = state.subs.get_mut(sub_id) else {
            return;
        };
        if live && fits {
            if sub.mark_ephemeral_sent(event.id) {
                effects.push(Effect::Note(Note::LiveDelivered));
                self.send(conn, Some(generation), frame, effects);
            }
        } else if !live && sub.held_ephemeral.len() < HELD_EPHEMERAL_MAX {
            if !sub.held_ephemeral.iter().any(|held| held.id == event.id) {
                sub.held_ephemeral.push_back(Arc::clone(event));
            }
        } else {
            effects.push(Effect::Note(Note::EphemeralDropped));
        }
    }

    /// Ephemeral events that came before EOSE take the ordinary way again, so that access is judged when they are sent.
    pub(super) fn release_ephemeral(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        effects: &mut Vec<Effect>,
    ) {
        let Some(sub) = self
            .conns
            .get_mut(&conn)
            .and_then(|state| state.subs.get_mut(sub_id))
        else {
            return;
        };
        let held: Vec<Arc<Event>> = sub.held_ephemeral.drain(..).collect();
        let topics: Vec<Topic> = sub.topics.iter().copied().collect();
        for event in held {
            let channel = event.channel_tag();
            let topic = topics.iter().find(|topic| match topic {
                Topic::Community(_) => true,
                Topic::Channel(_, of) => Some(*of) == channel,
            });
            let Some(topic) = topic else { continue };
            let Some(state) = self.topics.map.get_mut(topic) else {
                continue;
            };
            if state.ephemeral.len() < EPHEMERAL_WAITING_MAX {
                state.ephemeral.push_back((channel, event));
                self.pump_topic(*topic, effects);
            } else {
                effects.push(Effect::Note(Note::EphemeralDropped));
            }
        }
    }

    /// Reads what a subscription holds, once there is room for it.
    pub(super) fn catch_up(&mut self, conn: ConnId, sub_id: &SubId, effects: &mut Vec<Effect>) {
        let room = self.page_room();
        let Some(state) = self.conns.get(&conn) else {
            return;
        };
        let Some(sub) = state.subs.get(sub_id) else {
            return;
        };
        if !state.has_room(room, &self.config) {
            return;
        }
        let community = state.community;
        let generation = sub.generation;
        let positions: BTreeSet<Position> = sub.held.iter().copied().take(room.frames).collect();
        let keys = sub
            .plans
            .iter()
            .flat_map(|plan| plan.readers.iter().copied())
            .collect();
        let query = LiveQuery {
            positions: positions.clone(),
            channels: BTreeSet::new(),
            keys,
            bytes_max: room.bytes / 2,
        };
        let op = self.op(Owner::CatchUp {
            conn,
            sub: sub_id.clone(),
            generation,
            positions,
        });
        if let Some(Sub {
            phase: Phase::Live { catch_up, .. },
            ..
        }) = self
            .conns
            .get_mut(&conn)
            .and_then(|state| state.subs.get_mut(sub_id))
        {
            *catch_up = Some(op);
        }
        effects.push(Effect::ReadLive {
            op,
            community,
            query,
        });
    }

    fn caught_up(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        generation: Generation,
        asked: &BTreeSet<Position>,
        rows: Result<LiveRows, ReadFailure>,
        effects: &mut Vec<Effect>,
    ) {
        let queue_bytes = self.config.send_queue_bytes;
        let queue_frames = self.config.bounds.send_queue_frames_max;
        let Some(state) = self.conns.get_mut(&conn) else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        // Catch-ups of other subscriptions may have used the room that was there when this one was asked for.
        let used_bytes = state.queued_bytes + state.reserved_bytes;
        let used_frames = state.queued_frames + state.reserved_frames;
        let Some(sub) = state
            .subs
            .get_mut(sub_id)
            .filter(|sub| sub.generation == generation)
        else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        let Phase::Live { cut, catch_up } = &mut sub.phase else {
            return;
        };
        let cut = cut.clone();
        let rows = match rows {
            Ok(rows) => rows,
            Err(_) => {
                // The read stays marked as in flight until its retry is due.
                effects.push(Effect::Note(Note::LiveRetried));
                let first = sub.deadline.is_none();
                if first {
                    let at = self.at(
                        LIVE_RETRY_DEADLINE_MS,
                        Deadline::CatchUp(conn, sub_id.clone(), generation),
                    );
                    if let Some(sub) = self
                        .conns
                        .get_mut(&conn)
                        .and_then(|state| state.subs.get_mut(sub_id))
                    {
                        sub.deadline = Some(at);
                    }
                    return;
                }
                self.fail_sub(
                    conn,
                    sub_id,
                    "error: live delivery failed, subscribe again",
                    effects,
                );
                return;
            }
        };
        let op = catch_up.take();
        debug_assert!(op.is_some(), "a catch-up answer has an owner that waits");
        if let Some(at) = sub.deadline.take() {
            self.deadlines
                .remove(&(at, Deadline::CatchUp(conn, sub_id.clone(), generation)));
        }
        let mut frames = Vec::new();
        let mut room = 0usize;
        for position in asked {
            if rows.left.contains(position) {
                break;
            }
            let row = rows
                .rows
                .get(position)
                .filter(|row| !cut.covers(&row.stamp) && admitted(sub, row, &rows));
            if let Some(row) = row {
                let frame = RelayFrame::Event {
                    sub: sub_id.clone(),
                    json: Arc::from(row.event.to_json()),
                };
                let fits = used_bytes + room + frame.len_bytes() <= queue_bytes
                    && used_frames + frames.len() < queue_frames;
                if !fits {
                    break;
                }
                room += frame.len_bytes();
                if sub.mark_sent(*position) {
                    frames.push(frame);
                }
            }
            sub.held.remove(position);
        }
        for frame in frames {
            effects.push(Effect::Note(Note::LiveDelivered));
            self.send(conn, Some(generation), frame, effects);
        }
        self.use_room(conn, effects);
    }

    /// The retry of a failed catch-up is due.
    pub(super) fn catch_up_due(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        generation: Generation,
        effects: &mut Vec<Effect>,
    ) {
        let Some(sub) = self
            .conns
            .get_mut(&conn)
            .and_then(|state| state.subs.get_mut(sub_id))
        else {
            return;
        };
        if sub.generation != generation {
            return;
        }
        if let Phase::Live { catch_up, .. } = &mut sub.phase {
            *catch_up = None;
        }
        self.catch_up(conn, sub_id, effects);
    }
}

/// Whether any filter of the subscription admits the row, each with its own scope (CL-SYS-18).
fn admitted(sub: &Sub, row: &StoredRow, rows: &LiveRows) -> bool {
    let channel: Option<&Channel> = row.channel.and_then(|id| rows.channels.get(&id));
    let role_of = |key: PubKey| rows.roles.get(&(row.channel?, key)).copied();
    let access = Access {
        channel,
        roles: &role_of,
    };
    let row = Row {
        event: &row.event,
        channel: row.channel,
        audience: row.audience,
        is_head: false,
        live: true,
    };
    sub.plans
        .iter()
        .any(|plan| scope::admits(plan, &row, &access, rows.clock_secs))
}
