//! The simulated store: all communities' state, multi-version, with several transactions in flight, as a step machine.
//!
//! It answers what the store port asks, no better than a real store may and as badly as the contract allows: operations begin
//! with [`Store::begin`], every lock wait, view statement, write, commit and visibility is a step of its own, and whoever drives
//! it chooses which step is taken next and which fault strikes there. No read sees what is not committed, signals exist only
//! after the commit, and what the contract (S1-S9) promises holds under every order of steps and every fault:
//!
//! - S1: the pages of a history or sync come from one snapshot, which begins with its first statement and has a deadline;
//! - S2: locks first, then the view, statement by statement on what is committed by then, then the decision, then the writes,
//!   whose constraints are checked once more; all of it commits together;
//! - S2b: what waits in one process with disjoint locks shares a transaction; an error undoes one submission only;
//! - S3: a COMMIT without an answer takes place later or never, and [`StoreOp::Settle`] says `Open` until that is final;
//! - S4: reads see the newest commit that others can see when their statement runs;
//! - S5, S6: the ledger has one row for each change; a cursor is a transaction snapshot, since rows commit out of order;
//! - S7: what is ended or crashes frees its place; a write that lost its client is rolled back, unless COMMIT was sent;
//! - S8: a failover loses the newest commits and everything open, and another generation is reported from then on;
//! - S9: the rows of every read are those that `scope::admits` admits.
//!
//! What belongs in this room: transactions, locks, versions, faults. What must not: decisions about events (the core's), time and
//! chance of its own, knowledge of nodes beyond the number of a process.

mod commit;
mod config;
mod locks;
mod oneshot;
mod outage;
mod read;
mod snapshot;
mod state;
mod steps;
mod view;
mod write;

#[cfg(test)]
mod tests;

pub use config::{Engine, Places, StoreConfig, StoreFault, StoreVariant, Variant};
pub use steps::{
    Answered, PageBounds, ProcessId, StepId, StepKind, StoreAnswer, StoreOp, StoreTime, TxId,
};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_core::ids::Position;
use holdfast_core::node::{ReadFailure, SubmitOutcome};
use holdfast_core::scope::{Cut, ReadPlan};
use holdfast_core::sync::StoreGeneration;

use self::locks::LockTable;
use self::oneshot::ReadTx;
use self::read::Snapshot;
use self::snapshot::SnapshotTx;
use self::state::State;
use self::write::{Client, Waiting, WriteTx};
use crate::truth::{Commit, FinalState, OpenWork};

/// The simulated store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    config: StoreConfig,
    now: StoreTime,
    next_tx: u64,
    next_session: u64,
    next_xid: u64,
    next_position: Position,
    generation: StoreGeneration,
    /// What a snapshot that begins at this moment sees.
    committed: State,
    /// What it would have seen before the newest commit, for the variant with a lagging replica.
    lagging: State,
    /// What was visible before each of the newest commits, for a failover.
    undo: VecDeque<State>,
    txs: BTreeMap<TxId, Entry>,
    locks: LockTable,
    open_xids: BTreeSet<u64>,
    committed_xids: BTreeSet<u64>,
    commits: Vec<Commit>,
}

/// One operation and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    process: ProcessId,
    tx: Tx,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Tx {
    /// A submission that waits for a place.
    Waiting(Box<Waiting>),
    /// A submission that shares another one's transaction.
    Following,
    Write(Box<WriteTx>),
    Read(Box<ReadTx>),
    Snapshot(Box<SnapshotTx>),
    /// An answer that is not handed over yet.
    Ready(Box<Ready>),
    Foreign {
        xid: Option<u64>,
    },
}

/// An answer, and the place that is held until it is handed over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ready {
    answer: StoreAnswer,
    pool: Option<Pool>,
    seen_commits: Option<u64>,
}

impl Ready {
    /// An answer for which nothing was read.
    fn unread(answer: StoreAnswer) -> Ready {
        Ready {
            answer,
            pool: None,
            seen_commits: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Pool {
    Writes,
    Histories,
    Syncs,
    Queries,
    Live,
}

impl Tx {
    /// The pool in which it holds a place.
    fn holds(&self) -> Option<Pool> {
        match self {
            Tx::Write(write) => (write.client != Client::Gone).then_some(Pool::Writes),
            Tx::Snapshot(snapshot) => snapshot.holds_place().then(|| snapshot.pool()),
            Tx::Ready(ready) => ready.pool,
            Tx::Waiting(_) | Tx::Following | Tx::Read(_) | Tx::Foreign { .. } => None,
        }
    }

    /// The pool for whose place it waits.
    fn waits_for(&self) -> Option<Pool> {
        match self {
            Tx::Waiting(_) => Some(Pool::Writes),
            Tx::Read(read) => Some(read.pool()),
            Tx::Snapshot(snapshot) => snapshot.is_waiting().then(|| snapshot.pool()),
            Tx::Following | Tx::Write(_) | Tx::Ready(_) | Tx::Foreign { .. } => None,
        }
    }
}

impl Store {
    /// An empty store.
    pub fn new(config: StoreConfig) -> Store {
        Store {
            config,
            now: StoreTime::default(),
            next_tx: 0,
            next_session: 0,
            next_xid: 1,
            next_position: Position(1),
            generation: StoreGeneration(1),
            committed: State::default(),
            lagging: State::default(),
            undo: VecDeque::new(),
            txs: BTreeMap::new(),
            locks: LockTable::default(),
            open_xids: BTreeSet::new(),
            committed_xids: BTreeSet::new(),
            commits: Vec::new(),
        }
    }

    /// How it is set.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Begins an operation of a process. Nothing is read or written yet; what finds too many others waiting is answered `Busy`.
    pub fn begin(&mut self, now: StoreTime, process: ProcessId, op: StoreOp) -> TxId {
        self.tell_time(now);
        let now_ms = now.mono_ms;
        let known = |plans: &[ReadPlan]| {
            let named = |plan: &ReadPlan| self.config.communities.contains(&plan.community);
            let is_one = plans
                .windows(2)
                .all(|two| two[0].community == two[1].community);
            !plans.is_empty() && is_one && plans.iter().all(named)
        };
        let tx = match op {
            StoreOp::Submit(submission) => Tx::Waiting(Box::new(Waiting {
                submission,
                deadlocks: 0,
            })),
            StoreOp::History { plans, first } => {
                let is_known = known(&plans);
                let history = SnapshotTx::history(plans, first, now_ms);
                Tx::Snapshot(Box::new(unless_unknown(history, is_known)))
            }
            StoreOp::Sync { request, first } => {
                let is_known = known(std::slice::from_ref(&request.plan));
                let sync = SnapshotTx::sync(request, first, now_ms);
                Tx::Snapshot(Box::new(unless_unknown(sync, is_known)))
            }
            StoreOp::Foreign => Tx::Foreign { xid: None },
            one_shot => Tx::Read(Box::new(ReadTx::new(one_shot, now_ms))),
        };
        let tx = self.unless_crowded(process, tx);
        let id = self.fresh_tx();
        self.put(id, process, tx);
        id
    }

    /// Refuses what finds too many others waiting for the same places.
    fn unless_crowded(&self, process: ProcessId, tx: Tx) -> Tx {
        let Some(pool) = tx.waits_for() else {
            return tx;
        };
        let waiting = self
            .txs
            .values()
            .filter(|entry| entry.process == process && entry.tx.waits_for() == Some(pool));
        if waiting.count() < self.config.waiting_max {
            return tx;
        }
        match tx {
            Tx::Waiting(_) => {
                let busy = StoreAnswer::Submitted(SubmitOutcome::Busy);
                Tx::Ready(Box::new(Ready::unread(busy)))
            }
            Tx::Read(read) => {
                let busy = read.failed(ReadFailure::Busy);
                Tx::Ready(Box::new(Ready::unread(busy)))
            }
            Tx::Snapshot(snapshot) => Tx::Snapshot(Box::new(snapshot.failed(ReadFailure::Busy))),
            other => other,
        }
    }

    /// Asks for the next page of a history; false when the history is gone and nothing will come.
    pub fn next_page(&mut self, tx: TxId, bounds: PageBounds) -> bool {
        self.want(tx, Some(bounds))
    }

    /// Asks for the next page of a sync; false when the sync is gone and nothing will come.
    pub fn next_sync_page(&mut self, tx: TxId) -> bool {
        self.want(tx, None)
    }

    fn want(&mut self, tx: TxId, bounds: Option<PageBounds>) -> bool {
        match self.txs.get_mut(&tx).map(|entry| &mut entry.tx) {
            Some(Tx::Snapshot(snapshot)) => {
                snapshot.want(bounds);
                true
            }
            _ => false,
        }
    }

    /// Ends a history or a sync: no page follows, and its place is freed by a step of its own. Anything else is left alone: a
    /// read is answered, and a submission outlives whoever sent it.
    pub fn end(&mut self, tx: TxId) {
        if let Some(Tx::Snapshot(snapshot)) = self.txs.get_mut(&tx).map(|entry| &mut entry.tx) {
            snapshot.end();
        }
    }

    /// Whether a history or sync has its snapshot, and how it failed if it did; none while neither is decided.
    pub fn opened(&self, tx: TxId) -> Option<Result<(), ReadFailure>> {
        match self.txs.get(&tx).map(|entry| &entry.tx) {
            Some(Tx::Snapshot(snapshot)) => snapshot
                .failure()
                .map(Err)
                .or_else(|| snapshot.is_open().then_some(Ok(()))),
            _ => None,
        }
    }

    /// Every step that can be taken at this time, in the order of the operations.
    pub fn runnable(&self, now: StoreTime) -> Vec<StepId> {
        self.txs
            .iter()
            .filter_map(|(tx, entry)| {
                let kind = self.kind(now, entry)?;
                Some(StepId { tx: *tx, kind })
            })
            .collect()
    }

    /// Whose an operation is; none when it is over.
    pub fn process(&self, tx: TxId) -> Option<ProcessId> {
        self.txs.get(&tx).map(|entry| entry.process)
    }

    /// What the next step of an operation would do; none while it waits, or is over.
    pub fn next_step(&self, now: StoreTime, tx: TxId) -> Option<StepKind> {
        self.kind(now, self.txs.get(&tx)?)
    }

    /// The earliest time at which a waiting or open operation can be ended for its age.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let wait_ms = self.config.wait_ms;
        self.txs
            .values()
            .filter_map(|entry| match &entry.tx {
                Tx::Read(read) => Some(read.deadline_ms(&self.config)),
                Tx::Snapshot(snapshot) => snapshot.deadline_ms(wait_ms),
                _ => None,
            })
            .min()
    }

    fn kind(&self, now: StoreTime, entry: &Entry) -> Option<StepKind> {
        let has_place = |pool| self.has_place(entry.process, pool);
        match &entry.tx {
            Tx::Waiting(_) => has_place(Pool::Writes).then_some(StepKind::Begin),
            Tx::Following => None,
            Tx::Write(write) => self.write_kind(write),
            Tx::Read(read) => read.kind(now.mono_ms, &self.config, has_place(read.pool())),
            Tx::Snapshot(snapshot) => {
                let has_place = has_place(snapshot.pool());
                snapshot.kind(now.mono_ms, self.config.wait_ms, has_place)
            }
            Tx::Ready(_) => Some(StepKind::Answer),
            Tx::Foreign { xid: None } => Some(StepKind::ForeignBegin),
            Tx::Foreign { xid: Some(_) } => Some(StepKind::ForeignEnd),
        }
    }

    fn has_place(&self, process: ProcessId, pool: Pool) -> bool {
        let places = self.config.places;
        let most = match pool {
            Pool::Writes => places.writes,
            Pool::Histories => places.histories,
            Pool::Syncs => places.syncs,
            Pool::Queries => places.queries,
            Pool::Live => places.live,
        };
        let taken = self
            .txs
            .values()
            .filter(|entry| entry.process == process && entry.tx.holds() == Some(pool));
        taken.count() < most
    }

    /// Takes the next step of an operation. A fault that cannot strike at this step has no effect ([`StoreFault::strikes`]).
    ///
    /// # Panics
    /// When the operation has no step to take at this time.
    pub fn step(
        &mut self,
        now: StoreTime,
        tx: TxId,
        fault: Option<StoreFault>,
    ) -> Option<Answered> {
        self.tell_time(now);
        let kind = self
            .next_step(now, tx)
            .expect("only steps that are runnable are taken");
        let fault = fault.filter(|fault| fault.strikes(kind));
        let Entry {
            process,
            tx: content,
        } = self.txs.remove(&tx).expect("it has a next step");
        match content {
            Tx::Waiting(waiting) => {
                if fault == Some(StoreFault::Exhausted) {
                    let busy = StoreAnswer::Submitted(SubmitOutcome::Busy);
                    self.put(tx, process, Tx::Ready(Box::new(Ready::unread(busy))));
                } else {
                    self.begin_write(tx, process, *waiting);
                }
                None
            }
            Tx::Following => None,
            Tx::Write(write) => {
                self.step_write(tx, process, write, kind, fault);
                None
            }
            Tx::Read(read) => {
                let ready = self.read(*read, kind, fault);
                self.put(tx, process, Tx::Ready(Box::new(ready)));
                None
            }
            Tx::Snapshot(snapshot) => self.step_snapshot(tx, process, snapshot, kind, fault),
            Tx::Ready(ready) => Some(Answered {
                tx,
                process,
                answer: ready.answer,
                seen_commits: ready.seen_commits,
            }),
            Tx::Foreign { xid } => {
                self.step_foreign(tx, process, xid);
                None
            }
        }
    }

    fn step_foreign(&mut self, tx: TxId, process: ProcessId, xid: Option<u64>) {
        match xid {
            Some(xid) => {
                self.open_xids.remove(&xid);
                self.committed_xids.insert(xid);
            }
            None => {
                let xid = self.next_xid;
                self.next_xid += 1;
                self.open_xids.insert(xid);
                self.put(tx, process, Tx::Foreign { xid: Some(xid) });
            }
        }
    }

    /// The commits in the order in which others could see them, forgotten ones included.
    pub fn commits(&self) -> &[Commit] {
        &self.commits
    }

    /// What is stored and visible at this moment.
    pub fn final_state(&self) -> FinalState {
        let heads = self
            .committed
            .heads
            .keys()
            .filter_map(|(community, artifact)| {
                let head = self.committed.head(*community, *artifact)?;
                Some(((*community, *artifact), head))
            });
        let channels = self.committed.channels();
        let members = self.committed.members().filter(|(_, _, row)| !row.removed);
        FinalState {
            heads: heads.collect(),
            channels: channels
                .map(|(community, channel)| ((community, channel.id), channel.clone()))
                .collect(),
            roles: members
                .map(|(community, channel, row)| {
                    ((community, channel, row.member.pubkey), row.member.role)
                })
                .collect(),
        }
    }

    /// What is still open.
    pub fn open_work(&self) -> OpenWork {
        let count = |is: fn(&Tx) -> bool| self.txs.values().filter(|entry| is(&entry.tx)).count();
        let snapshots = count(|tx| matches!(tx, Tx::Snapshot(snapshot) if snapshot.holds_place()));
        let writes = count(|tx| matches!(tx, Tx::Write(_)));
        OpenWork {
            snapshots,
            writes,
            others: self.txs.len() - snapshots - writes,
            has_locks: !self.locks.is_empty(),
        }
    }

    fn tell_time(&mut self, now: StoreTime) {
        let is_single = self.config.engine == Engine::OneWriter;
        let clock_us = if is_single {
            // The clock of its ledger never goes back.
            self.now.clock_us.max(now.clock_us)
        } else {
            now.clock_us
        };
        self.now = StoreTime {
            mono_ms: now.mono_ms,
            clock_us,
        };
    }

    fn fresh_tx(&mut self) -> TxId {
        self.next_tx += 1;
        TxId(self.next_tx)
    }

    fn put(&mut self, tx: TxId, process: ProcessId, content: Tx) {
        let entry = Entry {
            process,
            tx: content,
        };
        self.txs.insert(tx, entry);
    }

    fn note_commit(&mut self, before: State, commit: Commit) {
        if self.config.failover_lost_max > 0 {
            self.undo.push_back(before.clone());
            if self.undo.len() > self.config.failover_lost_max {
                self.undo.pop_front();
            }
        }
        self.lagging = before;
        self.commits.push(commit);
    }

    /// The snapshot of a statement that runs at this moment.
    fn snapshot(&self) -> Snapshot {
        let variant = self.config.variant;
        let state = if variant.is(StoreVariant::StaleReplicaReads) {
            &self.lagging
        } else {
            &self.committed
        };
        Snapshot {
            state: state.clone(),
            cut: self.cut(),
            clock_secs: self.now.clock_us / 1_000_000,
            store: self.generation,
            commits: self.commits.len() as u64,
            has_xids: self.config.engine == Engine::ManyWriters,
            ignores_scope: variant.is(StoreVariant::ReadIgnoresScope),
        }
    }

    fn cut(&self) -> Cut {
        match self.config.engine {
            Engine::OneWriter => Cut::Position(self.committed.newest_position()),
            Engine::ManyWriters => {
                // As `pg_current_snapshot()` has it: the first id above the newest one that ended.
                let is_open = |xid: &u64| self.open_xids.contains(xid);
                let ended = (1..self.next_xid).rev().find(|xid| !is_open(xid));
                let xmax = ended.map_or(1, |xid| xid + 1);
                let in_progress: BTreeSet<u64> = self.open_xids.range(..xmax).copied().collect();
                Cut::Snapshot {
                    xmin: in_progress.first().copied().unwrap_or(xmax),
                    xmax,
                    in_progress,
                }
            }
        }
    }
}

fn unless_unknown(snapshot: SnapshotTx, is_known: bool) -> SnapshotTx {
    if is_known {
        snapshot
    } else {
        snapshot.failed(ReadFailure::Store)
    }
}
