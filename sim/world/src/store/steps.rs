//! The vocabulary between the simulated store and whoever steps it: operations, steps, answers. Values only.

use holdfast_core::accept::Submission;
use holdfast_core::ids::CommunityId;
use holdfast_core::node::{
    Effect, HistoryPage, Input, LedgerPage, LiveQuery, LiveRows, OpId, QueryAnswer, QueryKind,
    ReadFailure, Settled, SubmitOutcome,
};
use holdfast_core::scope::{Cut, ReadPlan};
use holdfast_core::sync::{HeadQuery, HeadRows, SyncPage, SyncRequest};

/// One operation of the store; never reused. The number says in which order they began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u64);

/// A process that uses the store: places and batches are its own, and a crash ends what is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// The time at a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime {
    /// Milliseconds of a clock that never goes back, for waiting and budgets.
    pub mono_ms: u64,
    /// The database clock in microseconds since the Unix epoch.
    pub clock_us: u64,
}

/// Bounds of one history page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageBounds {
    /// Most rows.
    pub rows_max: u32,
    /// Most bytes; at least one row is returned.
    pub bytes_max: usize,
}

/// What is asked of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreOp {
    /// Decide and write an event.
    Submit(Box<Submission>),
    /// Open one snapshot for all plans.
    History {
        /// The filters, all of one community.
        plans: Vec<ReadPlan>,
        /// The first page, where it is wanted at once.
        first: Option<PageBounds>,
    },
    /// Open the snapshot of a sync.
    Sync {
        /// What.
        request: Box<SyncRequest>,
        /// Whether the first page is wanted at once.
        first: bool,
    },
    /// Read heads and access.
    Heads {
        /// Tenant.
        community: CommunityId,
        /// What.
        query: HeadQuery,
    },
    /// Read events and access for live delivery.
    Live {
        /// Tenant.
        community: CommunityId,
        /// What.
        query: LiveQuery,
    },
    /// Answer a one-shot query.
    Query {
        /// Rows or number.
        kind: QueryKind,
        /// The filters, all of one community.
        plans: Vec<ReadPlan>,
        /// Execution budget in milliseconds.
        budget_ms: u64,
    },
    /// Read the ledger rows committed since a cursor; without one, only the present cursor.
    Ledger {
        /// Since.
        after: Option<Cut>,
    },
    /// Ask what became of a commit.
    Settle {
        /// The transaction.
        xid: u64,
    },
    /// A transaction of somebody else: it takes a transaction id and keeps it until it is told to end.
    Foreign,
}

impl StoreOp {
    /// The operation that an effect of a node begins, with its name in the node; none for effects that begin none.
    pub fn of(effect: &Effect) -> Option<(OpId, StoreOp)> {
        Some(match effect.clone() {
            Effect::Submit { op, submission } => (op, StoreOp::Submit(submission)),
            Effect::OpenHistory {
                op,
                plans,
                rows_max,
                bytes_max,
            } => {
                let first = Some(PageBounds {
                    rows_max,
                    bytes_max,
                });
                (op, StoreOp::History { plans, first })
            }
            Effect::OpenSync { op, request } => (
                op,
                StoreOp::Sync {
                    request,
                    first: true,
                },
            ),
            Effect::ReadHeads {
                op,
                community,
                query,
            } => (op, StoreOp::Heads { community, query }),
            Effect::ReadLive {
                op,
                community,
                query,
            } => (op, StoreOp::Live { community, query }),
            Effect::Query {
                op,
                kind,
                plans,
                budget_ms,
            } => (
                op,
                StoreOp::Query {
                    kind,
                    plans,
                    budget_ms,
                },
            ),
            Effect::ReadLedger { op, after } => (op, StoreOp::Ledger { after }),
            Effect::Settle { op, xid } => (op, StoreOp::Settle { xid }),
            _ => return None,
        })
    }
}

/// What the next step of an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StepKind {
    /// Takes a place. A snapshot does not begin with it; a submission takes along what waits with it.
    Begin,
    /// Ends the waiting for a place.
    GiveUp,
    /// Ends what exceeded its budget.
    Expire,
    /// Reads, without a lock, where the artifact of a move lives.
    PreRead,
    /// Takes locks in ascending order, as many as are free.
    Lock,
    /// Breaks a circle of waiting transactions by ending this one.
    Deadlock,
    /// One statement of the view; the last one decides.
    View,
    /// Writes one group.
    Write,
    /// COMMIT becomes durable.
    Commit,
    /// A COMMIT without an answer takes place after all.
    LateCommit,
    /// Others see the commit, and the locks are free.
    Visible,
    /// A transaction that lost its client is rolled back.
    Rollback,
    /// The first statement of a snapshot: the snapshot begins here.
    Snapshot,
    /// Reads one page and hands it over.
    Page,
    /// Closes a snapshot and frees its place.
    Close,
    /// The one statement of a read.
    Statement,
    /// Hands an answer over.
    Answer,
    /// Begins a foreign transaction.
    ForeignBegin,
    /// Ends a foreign transaction.
    ForeignEnd,
}

/// A step that can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId {
    /// Of which operation.
    pub tx: TxId,
    /// What it does.
    pub kind: StepKind,
}

/// What an operation comes to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreAnswer {
    /// Of [`StoreOp::Submit`].
    Submitted(SubmitOutcome),
    /// A page of [`StoreOp::History`].
    Page(Result<HistoryPage, ReadFailure>),
    /// A page of [`StoreOp::Sync`].
    SyncPage(Result<SyncPage, ReadFailure>),
    /// The snapshot of a sync is closed and its place is free; exactly one for each [`StoreOp::Sync`].
    SnapshotClosed,
    /// Of [`StoreOp::Heads`].
    Heads(Result<HeadRows, ReadFailure>),
    /// Of [`StoreOp::Live`].
    Live(Result<LiveRows, ReadFailure>),
    /// Of [`StoreOp::Query`].
    Query(Result<QueryAnswer, ReadFailure>),
    /// Of [`StoreOp::Ledger`].
    Ledger(Result<LedgerPage, ReadFailure>),
    /// Of [`StoreOp::Settle`].
    Settled(Settled),
}

impl StoreAnswer {
    /// The input by which a node that named the operation `op` hears of it.
    pub fn input(self, op: OpId) -> Input {
        match self {
            StoreAnswer::Submitted(outcome) => Input::Submitted { op, outcome },
            StoreAnswer::Page(page) => Input::Page { op, page },
            StoreAnswer::SyncPage(page) => Input::SyncPage { op, page },
            StoreAnswer::SnapshotClosed => Input::SnapshotClosed { op },
            StoreAnswer::Heads(rows) => Input::Heads { op, rows },
            StoreAnswer::Live(rows) => Input::Live { op, rows },
            StoreAnswer::Query(answer) => Input::Answer { op, answer },
            StoreAnswer::Ledger(page) => Input::Ledger { op, page },
            StoreAnswer::Settled(outcome) => Input::Settled { op, outcome },
        }
    }
}

/// An answer on its way to whoever asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answered {
    /// Whose.
    pub tx: TxId,
    /// In which process.
    pub process: ProcessId,
    /// What.
    pub answer: StoreAnswer,
    /// Number of visible commits that the read saw; none where nothing was read.
    pub seen_commits: Option<u64>,
}
