//! The way of a submission through the simulated store: batch, locks, view, decision, writes, commit, visibility.
//!
//! As in the real one, every view statement reads what is committed when it runs, locks are held from the first statement
//! until others see the commit, constraints are checked once more as rows are written, and a transaction that lost its client
//! goes on holding what it holds until the server notices. What an event may write is the core's decision.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::accept::{self, Decision, Plan, Rejection, Submission, View, Write};
use holdfast_core::artifact::Op;
use holdfast_core::ids::{ChannelId, CommunityId};
use holdfast_core::node::{Signal, SubmitOutcome};
use holdfast_core::nostr::kinds;

use super::config::{Engine, StoreFault, StoreVariant};
use super::locks::{self, LockKey, Mode, Session, Thing, Wanted};
use super::state::{self, Origin, State};
use super::steps::{ProcessId, StepKind, TxId};
use super::view::{self, Reading, ViewStatement};
use super::{Entry, Store, Tx};

/// How often a submission is tried again after a deadlock, or a move after its artifact moved meanwhile.
pub(super) const RETRIES_MAX: u32 = 3;

/// A submission that waits for a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    pub(super) submission: Box<Submission>,
    /// Deadlocks that hit it; from the first one on it goes alone.
    pub(super) deadlocks: u32,
}

/// One write transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WriteTx {
    pub(super) session: Session,
    pub(super) items: Vec<Item>,
    /// Which item is being read or written.
    pub(super) at: usize,
    pub(super) phase: Phase,
    pub(super) xid: Option<u64>,
    /// What is written, in order.
    pub(super) written: Vec<Group>,
    pub(super) client: Client,
}

/// Whoever waits for a write transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Client {
    /// Still waits.
    Waits,
    /// Was answered too early, by a variant, and goes on.
    Answered,
    /// Lost its connection, or is gone itself.
    Gone,
}

/// One submission of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) tx: TxId,
    pub(super) submission: Box<Submission>,
    plan: Plan,
    pub(super) deadlocks: u32,
    /// Moves: how often the home had changed under them, and the home that is locked.
    home_changes: u32,
    source: Option<ChannelId>,
    view: View,
    /// Groups that are decided and not yet written, first one last.
    groups: Vec<Vec<Write>>,
    message: String,
    pub(super) signals: Vec<Signal>,
    /// What is answered instead of `Stored`.
    outcome: Option<SubmitOutcome>,
}

/// What one step wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Group {
    pub(super) community: CommunityId,
    pub(super) item: usize,
    pub(super) writes: Vec<Write>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    PreRead,
    Lock { wanted: Wanted, then: ViewStatement },
    View(ViewStatement),
    Write,
    Commit,
    LateCommit,
    Visible,
    Rollback,
}

impl Item {
    fn new(tx: TxId, waiting: Waiting) -> Item {
        let submission = waiting.submission;
        Item {
            tx,
            plan: accept::plan(&submission),
            submission,
            deadlocks: waiting.deadlocks,
            home_changes: 0,
            source: None,
            view: view::unread(),
            groups: Vec::new(),
            message: String::new(),
            signals: Vec::new(),
            outcome: None,
        }
    }

    fn is_move(&self) -> bool {
        let event = &self.submission.event;
        event.kind == kinds::ARTIFACT && event.first_value("op") == Some(Op::Move.as_str())
    }

    /// Its locks are known only from a read, or it met a deadlock: it shares no transaction.
    fn goes_alone(&self) -> bool {
        self.is_move() || self.plan.view.roster_notices || self.deadlocks > 0
    }

    /// The outcome once its transaction is committed.
    pub(super) fn outcome(&self) -> SubmitOutcome {
        self.outcome.clone().unwrap_or(SubmitOutcome::Stored {
            message: self.message.clone(),
            signals: self.signals.clone(),
        })
    }

    /// The outcome when the transaction came to nothing.
    pub(super) fn undone(&self) -> SubmitOutcome {
        self.outcome.clone().unwrap_or(SubmitOutcome::Failed)
    }
}

impl WriteTx {
    /// The next step, if nothing is in its way. Lock waits are judged by the store.
    fn kind(&self) -> StepKind {
        match self.phase {
            Phase::PreRead => StepKind::PreRead,
            Phase::Lock { .. } => StepKind::Lock,
            Phase::View(_) => StepKind::View,
            Phase::Write => StepKind::Write,
            Phase::Commit => StepKind::Commit,
            Phase::LateCommit => StepKind::LateCommit,
            Phase::Visible => StepKind::Visible,
            Phase::Rollback => StepKind::Rollback,
        }
    }

    fn item(&mut self) -> &mut Item {
        &mut self.items[self.at]
    }

    /// The locks that its next step needs at once: the first one that is wanted, or all rows of the next group.
    fn needs(&self, locks_heads: bool) -> Wanted {
        match &self.phase {
            Phase::Lock { wanted, .. } => wanted
                .first_key_value()
                .map(|(key, mode)| (key.clone(), *mode))
                .into_iter()
                .collect(),
            Phase::Write => {
                let item = &self.items[self.at];
                let next = item.groups.last().map_or(&[][..], Vec::as_slice);
                locks::written(item.submission.community, next, locks_heads)
            }
            _ => Wanted::new(),
        }
    }

    /// What the transaction did is on its way to the disk or beyond.
    pub(super) fn sent_commit(&self) -> bool {
        matches!(self.phase, Phase::LateCommit | Phase::Visible)
    }

    pub(super) fn is_committed(&self) -> bool {
        self.phase == Phase::Visible
    }
}

impl Store {
    /// The next step of a write transaction, none while it waits for a lock.
    pub(super) fn write_kind(&self, write: &WriteTx) -> Option<StepKind> {
        if self.blockers(write).is_empty() {
            Some(write.kind())
        } else {
            self.is_in_circle(write).then_some(StepKind::Deadlock)
        }
    }

    fn locks_heads(&self) -> bool {
        !self.config.variant.is(StoreVariant::HeadCheckNotAtomic)
    }

    fn blockers(&self, write: &WriteTx) -> BTreeSet<Session> {
        write
            .needs(self.locks_heads())
            .iter()
            .flat_map(|(key, mode)| self.locks.blockers(write.session, key, *mode))
            .collect()
    }

    /// Whether the transaction waits, through others, for itself.
    fn is_in_circle(&self, write: &WriteTx) -> bool {
        let waiting: BTreeMap<Session, &WriteTx> = self
            .txs
            .values()
            .filter_map(|entry| match &entry.tx {
                Tx::Write(other) => Some((other.session, &**other)),
                _ => None,
            })
            .collect();
        let mut ahead = self.blockers(write);
        let mut met = BTreeSet::new();
        while let Some(next) = ahead.pop_first() {
            if next == write.session {
                return true;
            }
            if met.insert(next) {
                ahead.extend(
                    waiting
                        .get(&next)
                        .into_iter()
                        .flat_map(|tx| self.blockers(tx)),
                );
            }
        }
        false
    }

    /// Begins a transaction for a waiting submission and for what waits with it.
    pub(super) fn begin_write(&mut self, leader: TxId, process: ProcessId, waiting: Waiting) {
        let mut items = vec![Item::new(leader, waiting)];
        if !items[0].goes_alone() {
            self.gather(process, &mut items);
        }
        self.next_session += 1;
        let session = Session(self.next_session);
        let is_single = self.config.engine == Engine::OneWriter;
        let phase = if is_single {
            let wanted = Wanted::from([(LockKey::Writer, Mode::Exclusive)]);
            Phase::Lock {
                wanted,
                then: ViewStatement::FIRST,
            }
        } else if items[0].is_move() {
            Phase::PreRead
        } else {
            self.lock_all(&items)
        };
        let write = WriteTx {
            session,
            items,
            at: 0,
            phase,
            xid: None,
            written: Vec::new(),
            client: Client::Waits,
        };
        self.put(leader, process, Tx::Write(Box::new(write)));
    }

    /// Adds waiting submissions of the same process that can share the transaction.
    fn gather(&mut self, process: ProcessId, items: &mut Vec<Item>) {
        let is_single = self.config.engine == Engine::OneWriter;
        let mut held = self.planned(&items[0]);
        let waiting: Vec<TxId> = self
            .txs
            .iter()
            .filter(|(_, entry)| entry.process == process && matches!(entry.tx, Tx::Waiting(_)))
            .map(|(tx, _)| *tx)
            .collect();
        for tx in waiting {
            if items.len() >= self.config.batch_max {
                break;
            }
            let Some(Entry {
                tx: Tx::Waiting(other),
                ..
            }) = self.txs.get(&tx)
            else {
                continue;
            };
            let item = Item::new(tx, (**other).clone());
            let wanted = self.planned(&item);
            if !item.goes_alone() && (is_single || locks::are_disjoint(&held, &wanted)) {
                held.extend(wanted);
                items.push(item);
                self.put(tx, process, Tx::Following);
            }
        }
    }

    fn planned(&self, item: &Item) -> Wanted {
        if self.config.variant.is(StoreVariant::LocksNotTaken) {
            return Wanted::new();
        }
        let at = item.submission.community;
        let mut wanted = locks::planned(at, &item.plan.locks);
        if !self.locks_heads() {
            wanted.retain(|key, _| !matches!(key, LockKey::Advisory(_, Thing::Artifact(_))));
        }
        if let Some(source) = item.source {
            let key = LockKey::Advisory(at, Thing::Channel(source));
            wanted.entry(key).or_insert(Mode::Shared);
        }
        wanted
    }

    fn lock_all(&self, items: &[Item]) -> Phase {
        let mut wanted = Wanted::new();
        for item in items {
            for (key, mode) in self.planned(item) {
                let entry = wanted.entry(key).or_insert(mode);
                *entry = (*entry).max(mode);
            }
        }
        Phase::Lock {
            wanted,
            then: ViewStatement::FIRST,
        }
    }

    /// What a statement of the transaction sees: what is committed, and its own writes.
    fn seen_by(&self, write: &WriteTx) -> State {
        let mut state = self.committed.clone();
        for group in &write.written {
            let origin = self.origin(group.community, write.xid);
            state
                .apply(origin, &group.writes)
                .expect("written rows are locked until the transaction ends");
        }
        state
    }

    pub(super) fn origin(&self, community: CommunityId, xid: Option<u64>) -> Origin {
        Origin {
            community,
            xid: xid.unwrap_or(0),
            compares_prev: self.locks_heads(),
        }
    }

    /// Takes one step of a write transaction that is not in its place in the table meanwhile.
    pub(super) fn step_write(
        &mut self,
        leader: TxId,
        process: ProcessId,
        mut write: Box<WriteTx>,
        kind: StepKind,
        fault: Option<StoreFault>,
    ) {
        match fault {
            _ if kind == StepKind::Deadlock => return self.try_again(process, *write),
            Some(StoreFault::Deadlock) => return self.try_again(process, *write),
            Some(StoreFault::ConnectionLost) if kind == StepKind::LateCommit => {
                return self.roll_back(*write);
            }
            Some(StoreFault::ConnectionLost) => return self.lose_connection(process, write),
            Some(StoreFault::CommitUnanswered) => return self.leave_unanswered(process, write),
            _ => {}
        }
        match kind {
            StepKind::PreRead => self.pre_read(&mut write),
            StepKind::Lock => self.take_locks(&mut write),
            StepKind::View => self.read_view(&mut write),
            StepKind::Write => self.write_group(&mut write),
            StepKind::Commit | StepKind::LateCommit => self.commit(&mut write),
            StepKind::Visible => return self.show(leader, process, write),
            StepKind::Rollback => return self.roll_back(*write),
            other => unreachable!("{other:?} is no step of a write transaction"),
        }
        if write.at == write.items.len() && write.written.is_empty() {
            // Nothing was written: there is nothing to commit.
            self.answer_all(process, &write, Item::undone);
            return self.roll_back(*write);
        }
        let variant = self.config.variant;
        let is_early = (write.phase == Phase::Commit
            && variant.is(StoreVariant::AnswerBeforeCommit))
            || (write.phase == Phase::Visible && variant.is(StoreVariant::AnswerBeforeVisible));
        if is_early && write.client == Client::Waits {
            self.answer_all(process, &write, Item::outcome);
            self.detach(process, write, Client::Answered);
        } else {
            self.put(leader, process, Tx::Write(write));
        }
    }

    fn pre_read(&mut self, write: &mut WriteTx) {
        let item = write.item();
        let at = item.submission.community;
        item.source = item
            .plan
            .view
            .artifact
            .and_then(|artifact| self.committed.head(at, artifact))
            .map(|head| head.home);
        write.phase = self.lock_all(&write.items);
    }

    fn take_locks(&mut self, write: &mut WriteTx) {
        let Phase::Lock { wanted, then } = &mut write.phase else {
            unreachable!("locks are taken in the phase of locks");
        };
        while let Some((key, mode)) = wanted.pop_first() {
            if !self.locks.is_free(write.session, &key, mode) {
                wanted.insert(key, mode);
                return;
            }
            self.locks.take(write.session, key, mode);
        }
        write.phase = Phase::View(*then);
    }

    fn read_view(&mut self, write: &mut WriteTx) {
        let Phase::View(statement) = write.phase else {
            unreachable!("views are read in the phase of views");
        };
        let seen = self.seen_by(write);
        let first_position = match self.config.engine {
            Engine::OneWriter => seen.newest_position().plus(1),
            Engine::ManyWriters => self.next_position,
        };
        let clock_us = self.now.clock_us;
        let relay = self.config.policy.relay_key.public();
        let item = write.item();
        if !self.config.communities.contains(&item.submission.community) {
            return self.finish_item(write, Some(SubmitOutcome::Failed));
        }
        let reading = Reading {
            submission: &item.submission,
            spec: &item.plan.view,
            relay,
            clock_us,
            first_position,
        };
        view::read(&seen, statement, &reading, &mut item.view);
        match statement.next() {
            Some(next) => self.after_statement(write, statement, next),
            None => {
                let item = write.item();
                let mut reserved = u64::from(item.plan.view.positions);
                if item.plan.view.roster_notices {
                    reserved += item.view.roster.len() as u64;
                }
                self.next_position = self.next_position.plus(reserved);
                self.decide(write);
            }
        }
    }

    fn after_statement(&mut self, write: &mut WriteTx, done: ViewStatement, next: ViewStatement) {
        write.phase = Phase::View(next);
        if self.config.engine == Engine::OneWriter {
            return;
        }
        let item = write.item();
        let home = item.view.head.as_ref().map(|head| head.home);
        if done == ViewStatement::Head && item.is_move() && home != item.source {
            item.home_changes += 1;
            if item.home_changes > RETRIES_MAX {
                let text = "conflict: artifact home changed".to_owned();
                let rejection = SubmitOutcome::Rejected(Rejection::Conflict(text));
                return self.finish_item(write, Some(rejection));
            }
            item.view = view::unread();
            self.locks.release(write.session);
            write.phase = Phase::PreRead;
        } else if done == ViewStatement::Access && item.plan.view.roster_notices {
            let at = item.submission.community;
            let members = item.view.roster.iter().map(|member| member.pubkey);
            let wanted: Wanted = members
                .map(|key| {
                    (
                        LockKey::Advisory(at, Thing::Recipient(key)),
                        Mode::Exclusive,
                    )
                })
                .collect();
            if !wanted.is_empty() && !self.config.variant.is(StoreVariant::LocksNotTaken) {
                write.phase = Phase::Lock { wanted, then: next };
            }
        }
    }

    fn decide(&mut self, write: &mut WriteTx) {
        let item = write.item();
        let decision = accept::decide(&item.submission, &item.view, &self.config.policy);
        let outcome = match decision {
            Decision::Write { writes, message } => {
                match state::check(item.view.first_position, &writes) {
                    Ok(()) => {
                        item.message = message;
                        item.groups = groups_of(writes);
                        write.phase = Phase::Write;
                        return;
                    }
                    Err(_) => SubmitOutcome::Failed,
                }
            }
            Decision::Already { message } => SubmitOutcome::Already { message },
            Decision::Ephemeral { channel } => SubmitOutcome::Ephemeral { channel },
            Decision::Reject(rejection) => SubmitOutcome::Rejected(rejection),
        };
        self.finish_item(write, Some(outcome));
    }

    /// Goes on to the next item, or to COMMIT.
    fn finish_item(&mut self, write: &mut WriteTx, outcome: Option<SubmitOutcome>) {
        write.item().outcome = outcome;
        write.at += 1;
        write.phase = if write.at < write.items.len() {
            Phase::View(ViewStatement::FIRST)
        } else {
            Phase::Commit
        };
    }

    fn write_group(&mut self, write: &mut WriteTx) {
        for (key, mode) in write.needs(self.locks_heads()) {
            self.locks.take(write.session, key, mode);
        }
        let xid = *write.xid.get_or_insert_with(|| {
            let xid = self.next_xid;
            self.next_xid += 1;
            self.open_xids.insert(xid);
            xid
        });
        let mut seen = self.seen_by(write);
        let at = write.at;
        let item = write.item();
        let community = item.submission.community;
        let writes = item.groups.pop().expect("a group is due in this phase");
        if seen
            .apply(self.origin(community, Some(xid)), &writes)
            .is_err()
        {
            // Back to the savepoint: this item only.
            item.groups.clear();
            write.written.retain(|group| group.item != at);
            return self.finish_item(write, Some(SubmitOutcome::Failed));
        }
        let shown = match self.config.engine {
            Engine::ManyWriters => xid,
            Engine::OneWriter => 0,
        };
        item.signals.extend(state::signals(&writes, shown));
        let is_last = item.groups.is_empty();
        let is_split = item.is_move()
            && !is_last
            && self.config.variant.is(StoreVariant::MoveInTwoTransactions);
        write.written.push(Group {
            community,
            item: at,
            writes,
        });
        if is_split {
            write.phase = Phase::Commit;
        } else if is_last {
            self.finish_item(write, None);
        }
    }
}

/// The groups of a list, one for each stored event with what follows it; the first one last.
fn groups_of(writes: Vec<Write>) -> Vec<Vec<Write>> {
    let mut groups: Vec<Vec<Write>> = Vec::new();
    for write in writes {
        let is_stored = matches!(write, Write::Store(_));
        match groups.last_mut() {
            Some(group) if !is_stored => group.push(write),
            _ => groups.push(vec![write]),
        }
    }
    groups.reverse();
    groups
}
