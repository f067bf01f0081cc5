//! How a simulated store is set: its engine, its bounds, what may go wrong at a step, and the deliberately wrong variants.
//! Values only; what follows from them is in the other files.

use std::collections::BTreeSet;

use holdfast_core::accept::Policy;
use holdfast_core::ids::CommunityId;
use holdfast_core::limits::{HISTORY_BUDGET_MS, QUERY_BUDGET_MS};

use super::steps::StepKind;

/// Which real store it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Engine {
    /// Many writers with locks, READ COMMITTED for writes, transaction ids (Postgres). Positions are handed out before commit.
    ManyWriters,
    /// One writer at a time; position order is commit order and positions have no gaps (SQLite).
    OneWriter,
}

/// Places of one process: how many transactions of each sort it has open at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Places {
    /// Write transactions.
    pub writes: usize,
    /// Histories.
    pub histories: usize,
    /// Snapshots of syncs.
    pub syncs: usize,
    /// One-shot queries.
    pub queries: usize,
    /// Head, live, ledger and settle reads.
    pub live: usize,
}

/// What a simulated store is made with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreConfig {
    /// Profile and relay key, for decisions.
    pub policy: Policy,
    /// Which real store it stands for.
    pub engine: Engine,
    /// The tenants; what names another one fails.
    pub communities: BTreeSet<CommunityId>,
    /// Places of each process.
    pub places: Places,
    /// Submissions and reads of one process that wait for a place; further ones are `Busy` at once.
    pub waiting_max: usize,
    /// Milliseconds that a read waits for a place before it is `Busy`.
    pub wait_ms: u64,
    /// Milliseconds that a history may stay open.
    pub history_budget_ms: u64,
    /// Milliseconds that a head, live or ledger read may take, waiting included.
    pub live_budget_ms: u64,
    /// Submissions of one write transaction (S2b); at least 1.
    pub batch_max: usize,
    /// Rows of one ledger page; at least 1. A page holds whole transactions and at least one.
    pub ledger_rows_max: usize,
    /// Newest commits that a failover can make undone.
    pub failover_lost_max: usize,
    /// The contract line that is deliberately broken, if any.
    pub variant: Variant,
}

impl StoreConfig {
    /// The bounds of a relay, for these tenants; nothing can be lost by a failover.
    pub fn new(
        policy: Policy,
        engine: Engine,
        communities: impl IntoIterator<Item = CommunityId>,
    ) -> StoreConfig {
        StoreConfig {
            policy,
            engine,
            communities: communities.into_iter().collect(),
            places: Places {
                writes: 4,
                histories: 16,
                syncs: 16,
                queries: 4,
                live: 4,
            },
            waiting_max: 1_024,
            wait_ms: 2_000,
            history_budget_ms: HISTORY_BUDGET_MS,
            live_budget_ms: QUERY_BUDGET_MS,
            batch_max: 32,
            ledger_rows_max: 1_000,
            failover_lost_max: 0,
            variant: Variant::default(),
        }
    }
}

/// What strikes at a step, instead of the step or in its midst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreFault {
    /// Every place is taken by somebody else: the operation is `Busy`.
    Exhausted,
    /// The connection is lost. A read fails, a snapshot is lost, a write transaction without COMMIT is rolled back, at a later
    /// step of its own. At [`StepKind::LateCommit`] the commit never happens.
    ConnectionLost,
    /// The database ends the transaction for a deadlock or a serialisation failure; each submission is tried again, alone.
    Deadlock,
    /// COMMIT is sent and its answer never comes (S3): the outcome is `Unknown`, and [`StepKind::LateCommit`] decides later.
    CommitUnanswered,
    /// The execution budget runs out in this statement.
    Budget,
    /// The database no longer knows the transaction that it is asked about.
    Forgotten,
}

impl StoreFault {
    /// All of them.
    pub const ALL: [StoreFault; 6] = [
        StoreFault::Exhausted,
        StoreFault::ConnectionLost,
        StoreFault::Deadlock,
        StoreFault::CommitUnanswered,
        StoreFault::Budget,
        StoreFault::Forgotten,
    ];

    /// Whether it can strike at such a step; elsewhere it has no effect. `Budget` and `Forgotten` have none either where the
    /// operation has no budget, or asks about no transaction.
    pub fn strikes(self, kind: StepKind) -> bool {
        use StepKind as K;
        match self {
            StoreFault::Exhausted => matches!(kind, K::Begin | K::Statement),
            StoreFault::ConnectionLost => matches!(
                kind,
                K::PreRead
                    | K::Lock
                    | K::View
                    | K::Write
                    | K::LateCommit
                    | K::Snapshot
                    | K::Page
                    | K::Statement
            ),
            StoreFault::Deadlock => matches!(kind, K::Lock | K::View | K::Write),
            StoreFault::CommitUnanswered => kind == K::Commit,
            StoreFault::Budget => matches!(kind, K::Snapshot | K::Page | K::Statement),
            StoreFault::Forgotten => kind == K::Statement,
        }
    }
}

/// A broken line of the store contract, for testing the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreVariant {
    /// S1 (M06): every page reads a snapshot of its own.
    PagesOnNewSnapshot,
    /// S1 (M07): a page begins one row too late.
    KeysetSkipsOne,
    /// S2 (M48): a move's arrival and its removal are two commits.
    MoveInTwoTransactions,
    /// S2 (M25): the head is neither locked nor compared when it is written.
    HeadCheckNotAtomic,
    /// S2a: the locks of the plan are not taken; only the rows themselves are locked as they are written.
    LocksNotTaken,
    /// S3: `Stored` is answered before COMMIT.
    AnswerBeforeCommit,
    /// S3: a commit whose answer is lost counts as failed, and its signals are forgotten.
    UnknownIsFailed,
    /// S4 (M22): `Stored`, with its signals, is answered after COMMIT and before others see the commit.
    AnswerBeforeVisible,
    /// S4: reads are served from a replica that lags one commit behind.
    StaleReplicaReads,
    /// S4 (M08): snapshots of syncs are opened on a replica that lags one commit behind.
    StaleSyncSnapshots,
    /// S5: of several changes in one transaction the last has no ledger row.
    LedgerRowMissing,
    /// S6 (MX2): the ledger cursor is the lowest transaction in progress, so a foreign transaction holds every row back.
    XminWatermarkCursor,
    /// S6: the ledger cursor is the highest position returned, so what commits out of order is missed.
    PositionWatermarkCursor,
    /// S7 (M42): ending a snapshot does not close it.
    SnapshotOutlivesEnd,
    /// S8: a failover does not change the reported generation.
    GenerationNotReported,
    /// S9: reads take every channel for an open one.
    ReadIgnoresScope,
}

impl StoreVariant {
    /// All of them.
    pub const ALL: [StoreVariant; 16] = [
        StoreVariant::PagesOnNewSnapshot,
        StoreVariant::KeysetSkipsOne,
        StoreVariant::MoveInTwoTransactions,
        StoreVariant::HeadCheckNotAtomic,
        StoreVariant::LocksNotTaken,
        StoreVariant::AnswerBeforeCommit,
        StoreVariant::UnknownIsFailed,
        StoreVariant::AnswerBeforeVisible,
        StoreVariant::StaleReplicaReads,
        StoreVariant::StaleSyncSnapshots,
        StoreVariant::LedgerRowMissing,
        StoreVariant::XminWatermarkCursor,
        StoreVariant::PositionWatermarkCursor,
        StoreVariant::SnapshotOutlivesEnd,
        StoreVariant::GenerationNotReported,
        StoreVariant::ReadIgnoresScope,
    ];
}

/// Which line is broken, if any. Without the feature `mutants` it is empty and every question about it is answered no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    #[cfg(feature = "mutants")]
    broken: Option<StoreVariant>,
}

impl Variant {
    /// Breaks one line.
    #[cfg(feature = "mutants")]
    pub fn broken(line: StoreVariant) -> Variant {
        Variant { broken: Some(line) }
    }

    /// Whether this line is the broken one.
    #[cfg(feature = "mutants")]
    pub fn is(self, line: StoreVariant) -> bool {
        self.broken == Some(line)
    }

    /// Whether this line is the broken one; never, in this build.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub fn is(self, _line: StoreVariant) -> bool {
        false
    }
}
