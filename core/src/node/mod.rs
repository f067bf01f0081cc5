//! The node: one value per process that owns connections, subscriptions, the topic registry and the publish queue.
//!
//! What belongs here: everything between an input and its effects. What must not: what a filter may see (`scope`), what becomes
//! of an event (`accept`), parsing, waiting.
//!
//! Run loop of a driver: build a [`Node`]; for every thing that happens call [`Node::step`] with the time and an [`Input`];
//! perform the appended effects in order (those of one connection must not overtake each other); then ask
//! [`Node::next_wakeup`] when [`Input::Woken`] is due. Nothing stays queued inside the node; an effect that is not performed is
//! lost. Every `Submit`, `OpenHistory`, `NextPage`, `ReadLive`, `Query`, `ReadLedger` and `Publish` gets exactly one answer,
//! except that a history ended by `EndHistory` gets no further page.

mod bus;
mod config;
mod conn;
mod http;
mod inspect;
mod io;
mod live;
mod outbound;
mod publish;
mod session;
mod settle;
mod subs;
mod syncs;
#[cfg(test)]
mod tests;
mod topics;

use std::collections::{BTreeMap, BTreeSet};

pub use config::{Bounds, Config, SyncConfig};
pub use inspect::{HeadReadView, SyncView};
pub use io::*;
pub use outbound::{Outbound, Tally};

use crate::accept::Profile;
use crate::ids::{CommunityId, Now, Position};
use crate::nostr::{Event, EventId, RelayFrame, SubId, SubIdText};
use crate::scope::Cut;
use crate::seeded::Mutant;
use crate::sync::{ResyncCause, StoreGeneration};
use conn::Conn;
use publish::Publisher;
use syncs::{HeadTaker, Syncs};
use topics::Topics;

/// Who waits for an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owner {
    /// An EVENT of a connection.
    Event {
        conn: ConnId,
        community: CommunityId,
        id: EventId,
        ephemeral: Option<Box<Event>>,
    },
    /// An HTTP submission.
    Ticket {
        ticket: TicketId,
        community: CommunityId,
        ephemeral: Option<Box<Event>>,
    },
    /// An HTTP query.
    TicketQuery { ticket: TicketId, artifact: bool },
    /// A COUNT.
    Count { conn: ConnId, sub: SubId },
    /// A history of a subscription.
    History {
        conn: ConnId,
        sub: SubId,
        generation: Generation,
    },
    /// The release of held positions of a subscription.
    CatchUp {
        conn: ConnId,
        sub: SubId,
        generation: Generation,
        /// What was asked for; more may be held by the time of the answer.
        positions: BTreeSet<Position>,
    },
    /// The initial read of a sync.
    Sync {
        conn: ConnId,
        sub: SubId,
        generation: Generation,
    },
    /// A head read, for the syncs that share it.
    Heads { takers: Vec<HeadTaker> },
    /// A commit whose outcome is not known, with what to announce if it happened.
    Settle {
        community: CommunityId,
        xid: u64,
        signals: Vec<Signal>,
        /// Milliseconds until it is asked again.
        delay_ms: u64,
    },
    /// A topic's live read.
    Topic { topic: Topic },
    /// The cursor refresh.
    Cursor,
    /// Catching up after a bus loss.
    Recover,
}

/// A deadline: what happens when its time has come.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Deadline {
    Auth(ConnId),
    Register(ConnId, SubId, Generation),
    History(ConnId, SubId, Generation),
    CatchUp(ConnId, SubId, Generation),
    SyncRegister(ConnId, SubId, Generation),
    SyncSnapshot(ConnId, SubId, Generation),
    SyncDelivery(ConnId, SubId, Generation),
    Settle(OpId),
    Topic(Topic),
    Publish(Topic),
    Cursor,
    Recover,
}

impl Deadline {
    fn reason(&self) -> WakeReason {
        match self {
            Deadline::Auth(_) => WakeReason::AuthDeadline,
            Deadline::Register(..) => WakeReason::RegisterDeadline,
            Deadline::History(..) => WakeReason::HistoryDeadline,
            Deadline::SyncRegister(..) => WakeReason::RegisterDeadline,
            Deadline::SyncSnapshot(..) | Deadline::SyncDelivery(..) => WakeReason::HistoryDeadline,
            Deadline::Publish(_) => WakeReason::PublishRetry,
            Deadline::Settle(_)
            | Deadline::CatchUp(..)
            | Deadline::Topic(_)
            | Deadline::Cursor
            | Deadline::Recover => WakeReason::ReadRetry,
        }
    }
}

/// How far the ledger is known, for making a loss good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Cursor {
    /// The cursor before the newest one: old enough that every signal of an earlier commit has arrived.
    safe: Option<Cut>,
    /// The newest cursor.
    newest: Option<Cut>,
    /// Since when a loss waits to be made good; none while the bus is whole.
    lost_since_ms: Option<u64>,
    /// A sweep or refresh is in flight.
    reading: bool,
    /// A recovery read is in flight.
    recovering: bool,
    /// Since when recovery reads fail.
    failing_since_ms: Option<u64>,
}

/// One process's protocol state. A plain value: equal inputs give equal states and equal effects.
///
/// Methods: [`Node::step`] applies one input; [`Node::next_wakeup`] and [`Node::is_idle`] only look.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    config: Config,
    /// The greatest monotonic time seen: an input with an older one is read as this one.
    now: Now,
    next_op: u64,
    next_generation: u64,
    conns: BTreeMap<ConnId, Conn>,
    ops: BTreeMap<OpId, Owner>,
    topics: Topics,
    publisher: Publisher,
    syncs: Syncs,
    /// The database that answered last (S8).
    store: Option<StoreGeneration>,
    deadlines: BTreeSet<(u64, Deadline)>,
    cursor: Cursor,
    stopping: bool,
}

impl Node {
    /// A node without connections, before the bus is up.
    ///
    /// # Panics
    /// If a page or a head read could never find its room in the send queue, or a bound is 0.
    pub fn new(config: Config) -> Node {
        assert!(
            config.is_consistent(),
            "send queue smaller than one page, or a bound of 0"
        );
        Node {
            config,
            now: Now::default(),
            next_op: 1,
            next_generation: 1,
            conns: BTreeMap::new(),
            ops: BTreeMap::new(),
            topics: Topics::default(),
            publisher: Publisher::default(),
            syncs: Syncs::default(),
            store: None,
            deadlines: BTreeSet::new(),
            cursor: Cursor::default(),
            stopping: false,
        }
    }

    /// Applies one input and appends what must be done to `effects`, in order.
    pub fn step(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        let before_ms = self.now.mono_ms;
        self.now = Now {
            mono_ms: now.mono_ms.max(before_ms),
            wall_secs: now.wall_secs,
        };
        if self.config.seeded.is(Mutant::MX1) && before_ms / 5_000 < self.now.mono_ms / 5_000 {
            self.lose_syncs(ResyncCause::Signals, effects);
        }
        self.fire_deadlines(effects);
        match input {
            Input::Connected {
                conn,
                community,
                relay_url,
                challenge,
            } => {
                self.connected(conn, community, relay_url, challenge, effects);
            }
            Input::Message { conn, message } => self.message(conn, message, effects),
            Input::Disconnected { conn } => self.disconnected(conn, effects),
            Input::Drained {
                conn,
                bytes,
                frames,
            } => self.drained(conn, bytes, frames, effects),
            Input::Request {
                ticket,
                community,
                keys,
                request,
            } => self.request(ticket, community, keys, request, effects),
            Input::Submitted { op, outcome } => self.submitted(op, outcome, effects),
            Input::Page { op, page } => self.page(op, page, effects),
            Input::SyncPage { op, page } => self.sync_page(op, page, effects),
            Input::SnapshotClosed { op } => self.snapshot_closed(op, effects),
            Input::Heads { op, rows } => self.heads_read(op, rows, effects),
            Input::Settled { op, outcome } => self.settled(op, outcome, effects),
            Input::Live { op, rows } => self.live_read(op, rows, effects),
            Input::Answer { op, answer } => self.answered(op, answer, effects),
            Input::Ledger { op, page } => self.ledger(op, page, effects),
            Input::BusUp { generation } => self.bus_up(generation, effects),
            Input::BusDown => self.bus_down(effects),
            Input::TopicActive { topic, generation } => {
                self.topic_active(topic, generation, effects)
            }
            Input::BusMessage { topic, message } => self.bus_message(topic, message, effects),
            Input::Published { op, ok } => self.published(op, ok, effects),
            Input::Woken => {}
            Input::Stop => self.stop(effects),
        }
        self.start_head_reads(effects);
    }

    /// When this state wants [`Input::Woken`], and why. Pure.
    pub fn next_wakeup(&self) -> Option<Wakeup> {
        self.deadlines.first().map(|(at, deadline)| Wakeup {
            at_mono_ms: *at,
            reason: deadline.reason(),
        })
    }

    /// Nothing waits to be published, no submission is in flight and no commit is unsettled: a process that stops now loses no
    /// signal and owes no answer.
    pub fn is_idle(&self) -> bool {
        let owes = |owner: &Owner| {
            matches!(
                owner,
                Owner::Event { .. } | Owner::Ticket { .. } | Owner::Settle { .. }
            )
        };
        self.publisher.is_idle() && !self.ops.values().any(owes)
    }

    /// Open connections and open subscriptions, for metrics.
    pub fn load(&self) -> (usize, usize) {
        (
            self.conns.len(),
            self.conns
                .values()
                .map(|conn| conn.subs.len() + conn.syncs.len())
                .sum(),
        )
    }

    fn op(&mut self, owner: Owner) -> OpId {
        let op = OpId(self.next_op);
        self.next_op += 1;
        self.ops.insert(op, owner);
        op
    }

    /// Sets a deadline and returns its time, by which it can be taken back.
    fn at(&mut self, after_ms: u64, deadline: Deadline) -> u64 {
        let at = self.now.mono_ms + after_ms;
        self.deadlines.insert((at, deadline));
        at
    }

    fn fire_deadlines(&mut self, effects: &mut Vec<Effect>) {
        while let Some((at, _)) = self.deadlines.first()
            && *at <= self.now.mono_ms
        {
            let Some((_, deadline)) = self.deadlines.pop_first() else {
                break;
            };
            match deadline {
                Deadline::Auth(conn) => self.auth_deadline(conn, effects),
                Deadline::Register(conn, sub, generation) => {
                    self.sub_deadline(
                        conn,
                        &sub,
                        generation,
                        "error: live delivery is not available, try again",
                        effects,
                    );
                }
                Deadline::History(conn, sub, generation) => {
                    self.sub_deadline(
                        conn,
                        &sub,
                        generation,
                        "error: history budget exceeded",
                        effects,
                    );
                }
                Deadline::SyncRegister(conn, sub, generation) => {
                    self.sync_register_due(conn, &sub, generation, effects)
                }
                Deadline::SyncSnapshot(conn, sub, generation)
                | Deadline::SyncDelivery(conn, sub, generation) => {
                    self.sync_budget_over(conn, &sub, generation, effects)
                }
                Deadline::Settle(op) => self.settle_again(op, effects),
                Deadline::CatchUp(conn, sub, generation) => {
                    self.catch_up_due(conn, &sub, generation, effects)
                }
                Deadline::Topic(topic) => self.pump_topic(topic, effects),
                Deadline::Publish(topic) => self.publisher.retry(topic, &mut self.next_op, effects),
                Deadline::Cursor => self.refresh_cursor(effects),
                Deadline::Recover => self.recover(effects),
            }
        }
    }

    /// Queues a frame; a control frame that does not even fit into the reserve closes the connection.
    fn send(
        &mut self,
        conn_id: ConnId,
        generation: Option<Generation>,
        frame: RelayFrame,
        effects: &mut Vec<Effect>,
    ) {
        let Some(conn) = self.conns.get_mut(&conn_id) else {
            return;
        };
        if conn.closing {
            return;
        }
        let bytes = frame.len_bytes();
        let bounds = &self.config.bounds;
        let bound = self.config.send_queue_bytes + bounds.control_reserve_bytes;
        if conn.queued_bytes + bytes > bound
            || conn.queued_frames >= 2 * bounds.send_queue_frames_max
        {
            conn.refused_frames += 1;
            conn.refused_of = generation;
            if self.config.seeded.is(Mutant::M20) {
                return;
            }
            self.close(conn_id, CloseReason::SlowReader, effects);
            return;
        }
        conn.queued_bytes += bytes;
        conn.queued_frames += 1;
        effects.push(Effect::Send {
            conn: conn_id,
            generation,
            frame,
        });
    }

    fn send_closed(
        &mut self,
        conn: ConnId,
        sub: SubIdText,
        generation: Option<Generation>,
        message: &str,
        effects: &mut Vec<Effect>,
    ) {
        self.send(
            conn,
            generation,
            RelayFrame::Closed {
                sub,
                message: message.to_owned(),
            },
            effects,
        );
    }

    /// Orders a close once; state of the connection ends with its `Disconnected`.
    fn close(&mut self, conn_id: ConnId, reason: CloseReason, effects: &mut Vec<Effect>) {
        let Some(conn) = self.conns.get_mut(&conn_id) else {
            return;
        };
        if std::mem::replace(&mut conn.closing, true) {
            return;
        }
        effects.push(Effect::Close {
            conn: conn_id,
            reason,
        });
        effects.push(Effect::Note(Note::ConnectionClosed));
        self.end_all_subs(conn_id, effects);
    }

    fn stop(&mut self, effects: &mut Vec<Effect>) {
        self.stopping = true;
        let conns: Vec<ConnId> = self.conns.keys().copied().collect();
        for conn in conns {
            self.close(conn, CloseReason::Restarting, effects);
        }
    }

    fn is_open_profile(&self) -> bool {
        self.config.policy.profile == Profile::Open
    }
}
