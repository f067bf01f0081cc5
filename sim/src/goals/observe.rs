//! Finds the goals that a history reached, in one walk. What clients received is in `frames`; here is what happened to nodes, writes
//! and the world.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_checker::History;
use holdfast_checker::format::{
    Attempt, Change, Conn, Filter, Intent, Node, Op, Outcome, Party, Record, Replica, RevisionOp,
    StoreFault,
};

use super::world::World;
use crate::goals;
use crate::options::Options;

/// Milliseconds in which several clients come back at once.
const TOGETHER_MS: u64 = 100;
/// Milliseconds after which a reader that reads nothing has stalled for good.
const STALLED_MS: u64 = 3_000;

/// How far a sync is, as far as the history shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Asked for, and perhaps received.
    Registering,
    /// Its snapshot sees the commits up to this one.
    Reading(u64),
    /// Its client has EOSE.
    Live,
    /// Nothing comes any more.
    Ended,
}

/// One attempt.
#[derive(Clone, Debug)]
pub(super) struct Sync<'h> {
    pub(super) conn: Conn,
    pub(super) node: Node,
    pub(super) reader: Option<&'h str>,
    pub(super) replica: Option<Replica>,
    pub(super) filter: &'h Filter,
    pub(super) phase: Phase,
    pub(super) is_received: bool,
    pub(super) is_snapshot_closed: bool,
    /// The newest commit that its snapshot sees.
    pub(super) opened_at: Option<u64>,
    pub(super) had_eose: bool,
    /// Events before EOSE.
    pub(super) loaded: u64,
    pub(super) has_held: bool,
    pub(super) has_read_heads: bool,
    /// Artifacts that changed while the set was read.
    pub(super) changed: BTreeSet<&'h str>,
    /// Artifacts whose head is being read.
    pub(super) being_read: BTreeSet<&'h str>,
    /// The last revision that the client got, by artifact, while it is in the set.
    pub(super) copy: BTreeMap<&'h str, &'h str>,
    /// The last revision that the client got, by artifact.
    pub(super) sent: BTreeMap<&'h str, &'h str>,
    /// Artifacts that entered after EOSE.
    pub(super) entered: BTreeSet<&'h str>,
}

impl Sync<'_> {
    pub(super) fn is_reading(&self) -> bool {
        matches!(self.phase, Phase::Reading(_))
    }

    /// Received and not ended.
    fn is_open(&self) -> bool {
        self.is_received && self.phase != Phase::Ended
    }
}

/// A node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeView {
    /// Without a bus connection, as it knows.
    is_bus_down: bool,
    /// Without a bus connection that works.
    is_bus_broken: bool,
    /// Ledger positions that it committed and did not publish, each with its refused publishes before that.
    unpublished: BTreeMap<u64, u64>,
    /// Publishes that were refused so far.
    refused: u64,
    /// The same since one was taken.
    refused_in_row: u64,
    /// Syncs ended by the last loss.
    pub(super) resynced: u64,
}

/// The walk.
pub(super) struct Observer<'h> {
    pub(super) options: &'h Options,
    goals: BTreeMap<&'static str, u64>,
    pub(super) world: World<'h>,
    pub(super) nodes: BTreeMap<Node, NodeView>,
    conns: BTreeMap<Conn, Node>,
    stalled: BTreeMap<Conn, u64>,
    pub(super) syncs: BTreeMap<Attempt, Sync<'h>>,
    by_sub: BTreeMap<(Conn, &'h str), Attempt>,
    intents: BTreeMap<Op, &'h Intent>,
    /// Operations whose commit was in doubt, and whether it came.
    in_doubt: BTreeMap<Op, bool>,
    settled: BTreeSet<u64>,
    /// Home of the last commit, once its client knows that it was accepted.
    acknowledged: Option<&'h str>,
    last_commit: Option<(Op, &'h str)>,
    newest_position: u64,
    /// The artifact of each position.
    positions: BTreeMap<u64, &'h str>,
    lost_conns: u64,
    returned: VecDeque<u64>,
    pub(super) resynced: BTreeSet<Replica>,
    has_sweep: bool,
}

/// Counts the goals that a history shows; every goal of the catalogue is a key.
pub fn observe(history: &History, options: &Options) -> BTreeMap<&'static str, u64> {
    let mut observer = Observer {
        options,
        goals: goals::none_reached(),
        world: World::default(),
        nodes: BTreeMap::new(),
        conns: BTreeMap::new(),
        stalled: BTreeMap::new(),
        syncs: BTreeMap::new(),
        by_sub: BTreeMap::new(),
        intents: BTreeMap::new(),
        in_doubt: BTreeMap::new(),
        settled: BTreeSet::new(),
        acknowledged: None,
        last_commit: None,
        newest_position: 0,
        positions: BTreeMap::new(),
        lost_conns: 0,
        returned: VecDeque::new(),
        resynced: BTreeSet::new(),
        has_sweep: history.header.sweep_ms.is_some(),
    };
    for line in &history.lines {
        observer.take(line.at_ms, &line.record);
    }
    let never = observer.in_doubt.values().filter(|came| !**came).count();
    observer.count(goals::UNKNOWN_NEVER_COMMITTED, never as u64);
    observer.goals
}

impl<'h> Observer<'h> {
    pub(super) fn reach(&mut self, goal: &'static str) {
        self.count(goal, 1);
    }

    fn count(&mut self, goal: &'static str, times: u64) {
        *self.goals.entry(goal).or_default() += times;
    }

    pub(super) fn reach_if(&mut self, goal: &'static str, is_reached: bool) {
        self.count(goal, u64::from(is_reached));
    }

    /// Counts the open syncs of which something is true.
    fn reach_for(
        &mut self,
        goal: &'static str,
        is_reached: impl Fn(&Sync<'h>, &World<'h>) -> bool,
    ) {
        let open = self.syncs.values().filter(|sync| sync.is_open());
        let times = open.filter(|sync| is_reached(sync, &self.world)).count();
        self.count(goal, times as u64);
    }

    fn take(&mut self, at_ms: u64, record: &'h Record) {
        match record {
            Record::Submit { op, revision, .. } => {
                if let Some(intent) = revision {
                    self.intents.insert(*op, intent);
                }
            }
            Record::Outcome { op, result, .. } => self.outcome(*op, *result),
            Record::Commit {
                index,
                ops,
                node,
                changes,
            } => self.commit(*index, ops, *node, changes),
            Record::Published { node, positions } => self.published(*node, positions),
            Record::Connect { conn, node } => self.connected(at_ms, *conn, *node),
            Record::Disconnect { conn, who, .. } => self.disconnected(at_ms, *conn, *who),
            Record::Req { .. }
            | Record::Received { .. }
            | Record::Close { .. }
            | Record::Event { .. }
            | Record::Eose { .. }
            | Record::Closed { .. }
            | Record::SnapshotOpen { .. }
            | Record::SnapshotClosed { .. }
            | Record::ReadBegin { .. }
            | Record::ReadEnd { .. }
            | Record::Held { .. }
            | Record::Dirty { .. } => self.take_sync(record),
            Record::Queue { frames, .. } => {
                let room = u64::from(self.options.queue_frames);
                self.reach_if(goals::QUEUE_FULL, *frames >= room);
            }
            Record::QueueRefused { .. } => self.reach(goals::CLOSED_NOT_QUEUED),
            Record::LocalSet { stale, .. } => self.reach_if(goals::STALE_KEPT, *stale),
            Record::RetryDelay { failures, .. } => {
                self.reach_if(goals::BACKOFF_GROWN, *failures >= 2);
            }
            Record::Fault {
                what, node, conn, ..
            } => self.fault(at_ms, what, *node, *conn),
            Record::StoreFault {
                what, attempt, op, ..
            } => self.store_fault(*what, *attempt, *op),
            _ => self.node_record(record),
        }
    }

    // -- nodes

    fn node_record(&mut self, record: &Record) {
        match record {
            Record::NodeUp { node } => {
                self.nodes.insert(*node, NodeView::default());
            }
            Record::NodeCrash { node } => self.node_ended(*node, true),
            Record::NodeStop { node } => self.node_ended(*node, false),
            Record::Pause { node, .. } => {
                self.reach_for(goals::NODE_PAUSED, |sync, _| sync.node == *node);
            }
            Record::ClockJump { .. } => self.reach(goals::CLOCK_JUMPED),
            Record::BusDown { node } => {
                let node = *node;
                self.reach_for(goals::BUS_LOST_WHILE_REGISTERING, |sync, _| {
                    sync.node == node && sync.phase == Phase::Registering
                });
                self.reach_for(goals::BUS_LOST_WHILE_READING, |sync, _| {
                    sync.node == node && sync.is_reading()
                });
                self.reach_for(goals::BUS_LOST_WHILE_LIVE, |sync, _| {
                    sync.node == node && sync.phase == Phase::Live
                });
                let view = self.nodes.entry(node).or_default();
                view.is_bus_down = true;
                view.is_bus_broken = true;
                view.resynced = 0;
            }
            Record::BusUp { node, .. } => {
                let view = self.nodes.entry(*node).or_default();
                view.is_bus_down = false;
                view.is_bus_broken = false;
            }
            Record::Lag { node, .. } => {
                self.nodes.entry(*node).or_default().resynced = 0;
                self.reach(goals::LAGGED);
            }
            Record::Undecodable { node, .. } => {
                self.nodes.entry(*node).or_default().resynced = 0;
                self.reach(goals::UNDECODABLE);
            }
            _ => {}
        }
    }

    fn node_ended(&mut self, node: Node, is_crash: bool) {
        let view = self.nodes.remove(&node).unwrap_or_default();
        self.reach_if(
            goals::COMMIT_PUBLISH_CRASH,
            is_crash && !view.unpublished.is_empty(),
        );
        let is_retried = |before: &u64| *before < view.refused;
        let was_retrying = view.unpublished.values().any(is_retried);
        self.reach_if(goals::PUBLISH_LOST_BY_STOP, was_retrying);
    }

    /// Whether the node of a new sync knows that it has no bus.
    pub(super) fn is_bus_down(&self, node: Node) -> bool {
        self.nodes.get(&node).is_some_and(|view| view.is_bus_down)
    }

    fn fault(&mut self, at_ms: u64, what: &str, node: Option<Node>, conn: Option<Conn>) {
        if let (true, Some(conn)) = (what == "stalled", conn) {
            self.stalled.insert(conn, at_ms);
        }
        self.reach_if(goals::BUS_HALF_OPEN, what == "half-open");
        self.reach_if(goals::DEADLOCK_RETRIED, what.starts_with("Deadlock"));
        let is_foreign = what == "long foreign transaction";
        self.reach_if(goals::LONG_TRANSACTION, is_foreign && self.has_sweep);
        let Some(view) = node.and_then(|node| self.nodes.get_mut(&node)) else {
            return;
        };
        if what.starts_with("Publish") {
            view.refused += 1;
            view.refused_in_row += 1;
        }
        view.is_bus_broken |= what == "half-open" || what == "disconnect";
    }

    fn store_fault(&mut self, what: StoreFault, attempt: Option<Attempt>, op: Option<Op>) {
        let has_sync = attempt.is_some();
        self.reach_if(
            goals::SNAPSHOT_LOST,
            has_sync && what == StoreFault::SnapshotLost,
        );
        self.reach_if(
            goals::PAGE_READ_FAILED,
            has_sync && what == StoreFault::ReadFailed,
        );
        if let (StoreFault::UnknownCommit, Some(op)) = (what, op) {
            self.in_doubt.entry(op).or_insert(false);
        }
    }

    fn published(&mut self, node: Node, positions: &[u64]) {
        let view = self.nodes.entry(node).or_default();
        let in_row = std::mem::take(&mut view.refused_in_row);
        let refused = view.refused;
        for position in positions {
            let Some(before) = view.unpublished.remove(position) else {
                continue;
            };
            let is_retried = before < refused;
            let rev = self.positions.get(position).copied();
            let is_late = rev.is_some_and(|rev| self.world.successor(rev).is_some());
            let is_settled = self.settled.remove(position);
            for (goal, is_reached) in [
                (goals::PUBLISH_RETRIED, is_retried),
                (goals::PUBLISH_RETRIED_OFTEN, is_retried && in_row > 3),
                (goals::LATE_SIGNAL, is_late),
                (goals::LATE_RETRY, is_late && is_retried),
                (goals::SETTLED, is_settled),
            ] {
                *self.goals.entry(goal).or_default() += u64::from(is_reached);
            }
        }
    }

    /// Whether the signal of a position is still owed by the node that committed it.
    pub(super) fn is_unpublished(&self, rev: &str) -> bool {
        self.nodes.values().any(|view| {
            let mut owed = view.unpublished.keys();
            owed.any(|position| self.positions.get(position).is_some_and(|of| *of == rev))
        })
    }

    // -- connections

    fn connected(&mut self, at_ms: u64, conn: Conn, node: Node) {
        self.conns.insert(conn, node);
        if self.lost_conns == 0 {
            return;
        }
        self.lost_conns -= 1;
        self.returned.push_back(at_ms);
        while self
            .returned
            .front()
            .is_some_and(|at| at + TOGETHER_MS < at_ms)
        {
            self.returned.pop_front();
        }
        self.reach_if(goals::MASS_RECONNECT, self.returned.len() == 3);
    }

    fn disconnected(&mut self, at_ms: u64, conn: Conn, who: Party) {
        self.conns.remove(&conn);
        self.lost_conns += 1;
        let stalled_at = self.stalled.remove(&conn);
        let has_stalled = stalled_at.is_some_and(|at| at + STALLED_MS <= at_ms);
        self.reach_if(goals::STALL_CLOSE, has_stalled && who != Party::Client);
        let mut cut_short = false;
        for sync in self.syncs.values_mut().filter(|sync| sync.conn == conn) {
            if sync.phase != Phase::Ended {
                cut_short |= sync.loaded > 0 && !sync.had_eose;
                sync.phase = Phase::Ended;
            }
        }
        self.reach_if(goals::DROPPED_BEFORE_EOSE, cut_short);
    }

    pub(super) fn node_of(&self, conn: Conn) -> Option<Node> {
        self.conns.get(&conn).copied()
    }

    /// The attempt of a frame.
    pub(super) fn attempt(&self, named: Option<Attempt>, conn: Conn, sub: &str) -> Option<Attempt> {
        named.or_else(|| self.by_sub.get(&(conn, sub)).copied())
    }

    /// Notes a REQ and returns the attempt that its subscription id had before.
    pub(super) fn name(&mut self, conn: Conn, sub: &'h str, attempt: Attempt) -> Option<Attempt> {
        self.by_sub.insert((conn, sub), attempt)
    }

    /// The channel of the newest commit, if its client knows about it.
    pub(super) fn acknowledged(&self) -> Option<&'h str> {
        self.acknowledged
    }

    // -- writes

    fn outcome(&mut self, op: Op, result: Outcome) {
        self.reach_if(goals::DUPLICATE_SUBMITTED, result == Outcome::Duplicate);
        if let (Outcome::Ok, Some((last, home))) = (result, self.last_commit)
            && last == op
        {
            self.acknowledged = Some(home);
        }
        let Some(intent) = self.intents.get(&op).copied() else {
            return;
        };
        let is_accepted = matches!(result, Outcome::Ok | Outcome::Duplicate);
        if is_accepted {
            return;
        }
        let head = self.world.head(&intent.d);
        let is_deleted = head.is_some_and(|head| head.op == RevisionOp::Delete);
        let is_change = matches!(intent.op, RevisionOp::Update | RevisionOp::Move);
        self.reach_if(goals::UPDATE_AFTER_DELETE, is_deleted && is_change);
        let prev = intent.prev.as_deref();
        let winner = prev.and_then(|prev| self.world.successor(prev));
        if let (Outcome::Conflict, Some(winner)) = (result, winner) {
            self.reach(goals::COMPETING_EDITS);
            let has_move = (winner.op == RevisionOp::Move) != (intent.op == RevisionOp::Move);
            self.reach_if(goals::MOVE_RACES_EDIT, has_move);
        }
    }

    fn commit(&mut self, index: u64, ops: &[Op], node: Node, changes: &'h [Change]) {
        self.acknowledged = None;
        self.last_commit = None;
        let mut was_in_doubt = false;
        for op in ops {
            if let Some(came) = self.in_doubt.get_mut(op) {
                *came = true;
                was_in_doubt = true;
            }
        }
        self.reach_if(goals::LATE_UNKNOWN_COMMIT, was_in_doubt);
        for change in changes {
            let position = change.pos();
            self.reach_if(goals::COMMIT_OUT_OF_ORDER, position < self.newest_position);
            self.newest_position = self.newest_position.max(position);
            if let Some(view) = self.nodes.get_mut(&node) {
                view.unpublished.insert(position, view.refused);
            }
            if was_in_doubt {
                self.settled.insert(position);
            }
            self.before(change);
            let former_home = match change {
                Change::Revision { d, rev, .. } => {
                    self.positions.insert(position, rev);
                    self.world.head(d).map(|head| head.home)
                }
                _ => None,
            };
            self.world.apply(index, change);
            if let Change::Revision { rev, .. } = change {
                self.revised(rev, former_home, ops);
            }
        }
    }

    /// An artifact changed.
    fn revised(&mut self, rev: &str, former_home: Option<&'h str>, ops: &[Op]) {
        let Some(revision) = self.world.revision(rev) else {
            return;
        };
        if let [op] = ops {
            self.last_commit = Some((*op, revision.home));
        }
        let (d, home) = (revision.d, revision.home);
        let is_move = revision.op == RevisionOp::Move;
        let mut reached = Vec::new();
        for sync in self.syncs.values_mut().filter(|sync| sync.is_open()) {
            let names = |channel: &str| sync.filter.h.contains(channel);
            let is_named = names(home) || former_home.is_some_and(names);
            if !self.world.can_read(sync.reader, home) {
                reached.push(goals::UNREADABLE_CHANGED);
                let was_in_copy = sync.copy.contains_key(d) && sync.phase == Phase::Live;
                if is_move && was_in_copy {
                    reached.push(goals::MOVE_OUT_UNREADABLE);
                }
            }
            if !is_named {
                continue;
            }
            match sync.phase {
                Phase::Registering => reached.push(goals::CONFIRM_GAP_COMMIT),
                Phase::Reading(_) => {
                    if !sync.is_snapshot_closed {
                        reached.push(goals::PAGE_BORDER_CHANGE);
                        reached.extend(is_move.then_some(goals::PAGE_BORDER_MOVE));
                    }
                    if !sync.has_read_heads && !sync.changed.insert(d) {
                        reached.push(goals::HELD_TWICE);
                    }
                }
                _ => {}
            }
            if sync.being_read.contains(d) {
                reached.push(goals::CHANGED_DURING_HEAD_READ);
            } else if !sync.being_read.is_empty() && sync.has_held {
                reached.push(goals::HELD_DURING_DRAIN);
            }
            if self.nodes.get(&sync.node).is_some_and(|n| n.is_bus_broken) {
                reached.push(goals::COMMIT_WHILE_BUS_LOST);
            }
        }
        for goal in reached {
            self.reach(goal);
        }
    }

    /// What a change of access or a redaction meets, looked at before it takes effect.
    fn before(&mut self, change: &Change) {
        match change {
            Change::Redaction { d, current, .. } => self.redacted(d, *current),
            Change::Membership {
                channel, key, role, ..
            } => {
                let former = self.world.role(key, channel);
                let concerns = |sync: &Sync<'h>| {
                    sync.filter.h.contains(channel) && sync.reader == Some(key.as_str())
                };
                match (former, role) {
                    (None, Some(_)) => {
                        self.reach_for(goals::ACCESS_GAINED, |sync, _| concerns(sync));
                    }
                    (Some(former), Some(role)) if former != role => {
                        self.reach_for(goals::ROLE_CHANGED, |sync, _| {
                            sync.filter.h.contains(channel)
                        });
                    }
                    (Some(_), None) if !self.world.is_open(channel) => {
                        self.access_lost(concerns);
                    }
                    _ => {}
                }
            }
            Change::Visibility { channel, .. } => {
                self.reach_for(goals::VISIBILITY_CHANGED, |sync, _| {
                    sync.filter.h.contains(channel)
                });
            }
            Change::ChannelDeleted { channel, .. } => {
                self.reach_for(goals::CHANNEL_DELETED, |sync, _| {
                    sync.filter.h.contains(channel)
                });
            }
            Change::Archive {
                channel,
                archived: true,
                ..
            } => {
                self.reach_for(goals::ARCHIVED_OPEN, |sync, _| {
                    sync.filter.h.contains(channel)
                });
            }
            _ => {}
        }
    }

    fn access_lost(&mut self, concerns: impl Fn(&Sync<'h>) -> bool + Copy) {
        self.reach_for(goals::ACCESS_LOST, |sync, _| concerns(sync));
        self.reach_for(goals::ACCESS_LOST_OF_MANY, |sync, _| {
            concerns(sync) && sync.filter.h.len() > 1
        });
        self.reach_for(goals::ACCESS_WHILE_READING, |sync, _| {
            concerns(sync) && sync.is_reading()
        });
    }

    fn redacted(&mut self, d: &str, is_current: bool) {
        let home = self.world.head(d).map(|head| head.home).unwrap_or_default();
        let goal = if is_current {
            self.reach_for(goals::RETIRED_WHILE_READING, |sync, _| {
                sync.is_reading() && sync.filter.h.contains(home)
            });
            goals::RETIRED_IN_COPY
        } else {
            goals::OLD_REVISION_REDACTED
        };
        self.reach_for(goal, |sync, _| {
            sync.phase == Phase::Live && sync.copy.contains_key(d)
        });
    }
}
