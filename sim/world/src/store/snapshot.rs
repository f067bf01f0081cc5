//! Histories and syncs: snapshots that stay open for several pages. What a page holds is in `read`.
//!
//! A snapshot begins with its first statement, not when its place is taken. Everything it will return is read then, which no
//! caller can tell from reading page by page out of one snapshot.

use holdfast_core::ids::ArtifactId;
use holdfast_core::node::{HistoryPage, HistoryRow, ReadFailure};
use holdfast_core::scope::{Cut, ReadPlan};
use holdfast_core::sync::{SnapshotFacts, StoreGeneration, SyncPage, SyncRequest, SyncRow};

use super::config::{StoreFault, StoreVariant};
use super::read::Snapshot;
use super::steps::{Answered, PageBounds, ProcessId, StepKind, StoreAnswer, TxId};
use super::{Pool, Store, Tx};

/// One snapshot transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SnapshotTx {
    what: What,
    phase: Phase,
    since_ms: u64,
    /// From when on it is ended; known once its place is taken.
    deadline_ms: u64,
    wanted: Option<PageBounds>,
    /// Its caller wants nothing more.
    is_ended: bool,
    /// The end of a sync's snapshot was reported.
    is_reported: bool,
    seen_commits: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum What {
    History {
        plans: Vec<ReadPlan>,
        read: Option<Box<ReadHistory>>,
    },
    Sync {
        request: Box<SyncRequest>,
        read: Option<Box<ReadSync>>,
    },
}

/// What a history's snapshot holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ReadHistory {
    rows: Vec<HistoryRow>,
    sent: usize,
    page: HistoryPage,
    cut: Cut,
}

/// What a sync's snapshot holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ReadSync {
    rows: Vec<SyncRow>,
    sent: usize,
    last: Option<ArtifactId>,
    facts: Option<SnapshotFacts>,
    store: StoreGeneration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Waiting,
    Begun,
    Open,
    /// The last page is handed over.
    Finished,
    /// Nothing comes any more but this, once, for whoever asks.
    Failed(ReadFailure),
}

impl SnapshotTx {
    /// A history that waits for its place.
    pub(super) fn history(plans: Vec<ReadPlan>, first: Option<PageBounds>, now_ms: u64) -> Self {
        SnapshotTx::new(What::History { plans, read: None }, first, now_ms)
    }

    /// A sync that waits for its place.
    pub(super) fn sync(request: Box<SyncRequest>, first: bool, now_ms: u64) -> Self {
        let bounds = first.then_some(bounds(&request));
        SnapshotTx::new(
            What::Sync {
                request,
                read: None,
            },
            bounds,
            now_ms,
        )
    }

    fn new(what: What, wanted: Option<PageBounds>, since_ms: u64) -> SnapshotTx {
        SnapshotTx {
            what,
            phase: Phase::Waiting,
            since_ms,
            deadline_ms: u64::MAX,
            wanted,
            is_ended: false,
            is_reported: false,
            seen_commits: None,
        }
    }

    /// The same, failed from the beginning.
    pub(super) fn failed(mut self, failure: ReadFailure) -> SnapshotTx {
        self.phase = Phase::Failed(failure);
        self
    }

    pub(super) fn pool(&self) -> Pool {
        match self.what {
            What::History { .. } => Pool::Histories,
            What::Sync { .. } => Pool::Syncs,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting
    }

    pub(super) fn holds_place(&self) -> bool {
        matches!(self.phase, Phase::Begun | Phase::Open | Phase::Finished)
    }

    pub(super) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    pub(super) fn failure(&self) -> Option<ReadFailure> {
        match self.phase {
            Phase::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    pub(super) fn want(&mut self, history: Option<PageBounds>) {
        self.wanted = match &self.what {
            What::History { .. } => history,
            What::Sync { request, .. } => Some(bounds(request)),
        };
    }

    pub(super) fn end(&mut self) {
        self.is_ended = true;
    }

    /// When time alone makes its next step possible.
    pub(super) fn deadline_ms(&self, wait_ms: u64) -> Option<u64> {
        match self.phase {
            _ if self.is_ended => None,
            Phase::Waiting => Some(self.since_ms + wait_ms),
            Phase::Begun | Phase::Open => Some(self.deadline_ms),
            Phase::Finished | Phase::Failed(_) => None,
        }
    }

    /// Its next step; `has_place` tells whether a place of its pool is free.
    pub(super) fn kind(&self, now_ms: u64, wait_ms: u64, has_place: bool) -> Option<StepKind> {
        let is_sync = matches!(self.what, What::Sync { .. });
        let is_over = now_ms >= self.deadline_ms;
        match self.phase {
            _ if self.is_ended => Some(StepKind::Close),
            Phase::Waiting if now_ms >= self.since_ms + wait_ms => Some(StepKind::GiveUp),
            Phase::Waiting => has_place.then_some(StepKind::Begin),
            Phase::Begun | Phase::Open if is_over => Some(StepKind::Expire),
            Phase::Begun => Some(StepKind::Snapshot),
            Phase::Open => self.wanted.map(|_| StepKind::Page),
            Phase::Finished => Some(StepKind::Close),
            Phase::Failed(_) if self.wanted.is_some() => Some(StepKind::Page),
            Phase::Failed(_) => (is_sync && !self.is_reported).then_some(StepKind::Close),
        }
    }

    /// The server is gone: an open snapshot is lost.
    pub(super) fn lose(&mut self) {
        if matches!(self.phase, Phase::Begun | Phase::Open) {
            self.phase = Phase::Failed(ReadFailure::SnapshotLost);
        }
    }

    fn open(&mut self, snapshot: &Snapshot) {
        self.seen_commits = Some(snapshot.commits);
        self.phase = Phase::Open;
        match &mut self.what {
            What::History { plans, read } => {
                let page = HistoryPage {
                    rows: Vec::new(),
                    end: None,
                    readable: snapshot.readable(plans),
                };
                *read = Some(Box::new(ReadHistory {
                    rows: snapshot.rows(plans),
                    sent: 0,
                    page,
                    cut: snapshot.cut.clone(),
                }));
            }
            What::Sync { request, read } => {
                let plan = &request.plan;
                let named = plan.channels.clone().unwrap_or_default();
                let access = snapshot.access(plan.community, &named, &plan.readers);
                *read = Some(Box::new(ReadSync {
                    rows: snapshot.sync_rows(plan, None),
                    sent: 0,
                    last: None,
                    facts: Some(SnapshotFacts {
                        access,
                        cut: snapshot.cut.clone(),
                    }),
                    store: snapshot.store,
                }));
            }
        }
    }

    /// Reads again what is still to come, on another snapshot: the variant without one snapshot for all pages (M06).
    fn refresh(&mut self, snapshot: &Snapshot) {
        match &mut self.what {
            What::History {
                plans,
                read: Some(read),
            } => read.rows = snapshot.rows(plans),
            What::Sync {
                request,
                read: Some(read),
            } => {
                read.rows = snapshot.sync_rows(&request.plan, read.last);
                read.sent = 0;
            }
            _ => {}
        }
    }

    /// The next page and whether it is the last one.
    fn page(&mut self, bounds: PageBounds) -> (StoreAnswer, bool) {
        match &mut self.what {
            What::History { read, .. } => {
                let read = read.as_mut().expect("an open history has read its rows");
                let taken = fitting(read.rows.get(read.sent..), bounds, |row| row.json.len());
                read.sent += taken.len();
                let is_last = read.sent >= read.rows.len();
                let page = HistoryPage {
                    rows: taken,
                    end: is_last.then(|| read.cut.clone()),
                    ..read.page.clone()
                };
                (StoreAnswer::Page(Ok(page)), is_last)
            }
            What::Sync { read, .. } => {
                let read = read.as_mut().expect("an open sync has read its rows");
                let taken = fitting(read.rows.get(read.sent..), bounds, |row| row.json.len());
                read.sent += taken.len();
                read.last = taken.last().map(|row| row.artifact).or(read.last);
                let is_last = read.sent >= read.rows.len();
                let page = SyncPage {
                    rows: taken,
                    is_last,
                    opened: read.facts.take(),
                    store: read.store,
                };
                (StoreAnswer::SyncPage(Ok(page)), is_last)
            }
        }
    }

    /// For the variant whose keyset is off by one: the next page leaves its first row out.
    fn skip_one(&mut self) {
        if let What::Sync {
            read: Some(read), ..
        } = &mut self.what
            && read.sent + 1 < read.rows.len()
        {
            read.sent += 1;
        }
    }

    fn failed_page(&self, failure: ReadFailure) -> StoreAnswer {
        match self.what {
            What::History { .. } => StoreAnswer::Page(Err(failure)),
            What::Sync { .. } => StoreAnswer::SyncPage(Err(failure)),
        }
    }
}

fn bounds(request: &SyncRequest) -> PageBounds {
    PageBounds {
        rows_max: request.rows_max,
        bytes_max: request.bytes_max,
    }
}

/// The first rows that fit, at least one unless there is none.
fn fitting<R: Clone>(rows: Option<&[R]>, bounds: PageBounds, len: impl Fn(&R) -> usize) -> Vec<R> {
    let mut bytes = 0usize;
    rows.unwrap_or_default()
        .iter()
        .take(bounds.rows_max.max(1) as usize)
        .enumerate()
        .take_while(|(count, row)| {
            bytes = bytes.saturating_add(len(row));
            *count == 0 || bytes <= bounds.bytes_max
        })
        .map(|(_, row)| row.clone())
        .collect()
}

impl Store {
    /// Takes one step of a snapshot that is not in its place in the table meanwhile.
    pub(super) fn step_snapshot(
        &mut self,
        tx: TxId,
        process: ProcessId,
        mut snapshot: Box<SnapshotTx>,
        kind: StepKind,
        fault: Option<StoreFault>,
    ) -> Option<Answered> {
        match kind {
            StepKind::GiveUp => snapshot.phase = Phase::Failed(ReadFailure::Busy),
            StepKind::Expire => snapshot.phase = Phase::Failed(ReadFailure::Budget),
            StepKind::Begin if fault == Some(StoreFault::Exhausted) => {
                snapshot.phase = Phase::Failed(ReadFailure::Busy);
            }
            StepKind::Begin => {
                let budget_ms = match &snapshot.what {
                    What::History { .. } => self.config.history_budget_ms,
                    What::Sync { request, .. } => request.budget_ms,
                };
                snapshot.deadline_ms = self.now.mono_ms.saturating_add(budget_ms);
                snapshot.phase = Phase::Begun;
            }
            StepKind::Snapshot => match failure_of(fault, ReadFailure::Store) {
                Some(failure) => snapshot.phase = Phase::Failed(failure),
                None => snapshot.open(&self.sync_snapshot(&snapshot.what)),
            },
            StepKind::Page => return self.hand_page(tx, process, snapshot, fault),
            StepKind::Close => return self.close(tx, process, snapshot),
            other => unreachable!("{other:?} is no step of a snapshot"),
        }
        self.put(tx, process, Tx::Snapshot(snapshot));
        None
    }

    /// What a snapshot that opens at this moment sees.
    fn sync_snapshot(&self, what: &What) -> Snapshot {
        let is_stale = matches!(what, What::Sync { .. })
            && self.config.variant.is(StoreVariant::StaleSyncSnapshots);
        if is_stale {
            Snapshot {
                state: self.lagging.clone(),
                commits: (self.commits.len() as u64).saturating_sub(1),
                ..self.snapshot()
            }
        } else {
            self.snapshot()
        }
    }

    fn hand_page(
        &mut self,
        tx: TxId,
        process: ProcessId,
        mut snapshot: Box<SnapshotTx>,
        fault: Option<StoreFault>,
    ) -> Option<Answered> {
        let bounds = snapshot
            .wanted
            .take()
            .expect("a page is handed over when it is wanted");
        let failed = snapshot.failure();
        let failure = failed.or_else(|| failure_of(fault, ReadFailure::SnapshotLost));
        if let Some(failure) = failure {
            snapshot.phase = Phase::Failed(failure);
        } else if snapshot.seen_commits.is_some()
            && self.config.variant.is(StoreVariant::PagesOnNewSnapshot)
        {
            snapshot.refresh(&self.snapshot());
        }
        let seen_commits = snapshot.seen_commits;
        let answer = match failure {
            Some(failure) => snapshot.failed_page(failure),
            None => {
                let (answer, is_last) = snapshot.page(bounds);
                if self.config.variant.is(StoreVariant::KeysetSkipsOne) {
                    snapshot.skip_one();
                }
                if is_last {
                    snapshot.phase = Phase::Finished;
                }
                answer
            }
        };
        let is_over = snapshot.failure().is_some();
        let reports = matches!(snapshot.what, What::Sync { .. }) && !snapshot.is_reported;
        if is_over {
            snapshot.is_ended = true;
        }
        if !is_over || reports {
            self.put(tx, process, Tx::Snapshot(snapshot));
        }
        Some(Answered {
            tx,
            process,
            answer,
            seen_commits,
        })
    }

    /// Frees the place; for a sync whose end was not reported yet, reports it.
    fn close(
        &mut self,
        tx: TxId,
        process: ProcessId,
        mut snapshot: Box<SnapshotTx>,
    ) -> Option<Answered> {
        let reports = matches!(snapshot.what, What::Sync { .. }) && !snapshot.is_reported;
        snapshot.is_reported = true;
        let leaks = snapshot.is_ended
            && snapshot.is_open()
            && self.config.variant.is(StoreVariant::SnapshotOutlivesEnd);
        let may_be_asked = !snapshot.is_ended && snapshot.failure().is_some();
        if leaks {
            snapshot.is_ended = false;
            snapshot.deadline_ms = u64::MAX;
        }
        if leaks || may_be_asked {
            self.put(tx, process, Tx::Snapshot(snapshot));
        }
        reports.then_some(Answered {
            tx,
            process,
            answer: StoreAnswer::SnapshotClosed,
            seen_commits: None,
        })
    }
}

/// The failure that a fault brings.
pub(super) fn failure_of(fault: Option<StoreFault>, lost: ReadFailure) -> Option<ReadFailure> {
    match fault? {
        StoreFault::Exhausted => Some(ReadFailure::Busy),
        StoreFault::ConnectionLost => Some(lost),
        StoreFault::Budget => Some(ReadFailure::Budget),
        StoreFault::Deadlock | StoreFault::CommitUnanswered | StoreFault::Forgotten => None,
    }
}
