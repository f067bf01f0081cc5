//! Reads of one statement: queries, heads, live reads, the ledger, the fate of a commit. What they return is in `read`.

use holdfast_core::node::{ReadFailure, Settled};
use holdfast_core::scope::Cut;

use super::config::{StoreConfig, StoreFault, StoreVariant};
use super::read::Snapshot;
use super::snapshot::failure_of;
use super::steps::{StepKind, StoreAnswer, StoreOp};
use super::{Engine, Pool, Ready, Store};

/// A read that waits for its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReadTx {
    op: StoreOp,
    since_ms: u64,
}

impl ReadTx {
    /// A read that begins to wait.
    pub(super) fn new(op: StoreOp, since_ms: u64) -> ReadTx {
        ReadTx { op, since_ms }
    }

    pub(super) fn pool(&self) -> Pool {
        match self.op {
            StoreOp::Query { .. } => Pool::Queries,
            _ => Pool::Live,
        }
    }

    fn budget_ms(&self, config: &StoreConfig) -> u64 {
        match self.op {
            StoreOp::Query { budget_ms, .. } => budget_ms,
            _ => config.live_budget_ms,
        }
    }

    /// When it is ended for its age, by the shorter of waiting time and budget.
    pub(super) fn deadline_ms(&self, config: &StoreConfig) -> u64 {
        let most_ms = config.wait_ms.min(self.budget_ms(config));
        self.since_ms.saturating_add(most_ms)
    }

    /// Its next step; `has_place` tells whether a place of its pool is free.
    pub(super) fn kind(
        &self,
        now_ms: u64,
        config: &StoreConfig,
        has_place: bool,
    ) -> Option<StepKind> {
        let age_ms = now_ms.saturating_sub(self.since_ms);
        if age_ms >= self.budget_ms(config) {
            Some(StepKind::Expire)
        } else if has_place {
            Some(StepKind::Statement)
        } else {
            (age_ms >= config.wait_ms).then_some(StepKind::GiveUp)
        }
    }

    /// Its answer when it fails.
    pub(super) fn failed(&self, failure: ReadFailure) -> StoreAnswer {
        match self.op {
            StoreOp::Heads { .. } => StoreAnswer::Heads(Err(failure)),
            StoreOp::Live { .. } => StoreAnswer::Live(Err(failure)),
            StoreOp::Query { .. } => StoreAnswer::Query(Err(failure)),
            StoreOp::Ledger { .. } => StoreAnswer::Ledger(Err(failure)),
            _ => StoreAnswer::Settled(Settled::Open),
        }
    }
}

impl Store {
    /// Runs the statement, or ends the read.
    pub(super) fn read(
        &mut self,
        read: ReadTx,
        kind: StepKind,
        fault: Option<StoreFault>,
    ) -> Ready {
        let ended = match kind {
            StepKind::Expire => Some(ReadFailure::Budget),
            StepKind::GiveUp => Some(ReadFailure::Busy),
            _ => failure_of(fault, ReadFailure::Store),
        };
        if let Some(failure) = ended {
            return Ready::unread(read.failed(failure));
        }
        let snapshot = self.snapshot();
        let seen_commits = Some(snapshot.commits);
        let pool = Some(read.pool());
        let answer = self.statement(&read, snapshot, fault);
        Ready {
            answer,
            pool,
            seen_commits,
        }
    }

    fn statement(
        &self,
        read: &ReadTx,
        snapshot: Snapshot,
        fault: Option<StoreFault>,
    ) -> StoreAnswer {
        let is_known = |community| self.config.communities.contains(community);
        match &read.op {
            StoreOp::Heads { community, query } if is_known(community) => {
                StoreAnswer::Heads(Ok(snapshot.heads(*community, query)))
            }
            StoreOp::Live { community, query } if is_known(community) => {
                StoreAnswer::Live(Ok(snapshot.live(*community, query)))
            }
            StoreOp::Query { kind, plans, .. }
                if !plans.is_empty() && plans.iter().all(|plan| is_known(&plan.community)) =>
            {
                StoreAnswer::Query(Ok(snapshot.query(*kind, plans)))
            }
            StoreOp::Ledger { after } => self.ledger(after.as_ref(), snapshot),
            StoreOp::Settle { .. } if fault == Some(StoreFault::Forgotten) => {
                StoreAnswer::Settled(Settled::Forgotten)
            }
            StoreOp::Settle { xid } => StoreAnswer::Settled(self.fate(*xid)),
            _ => read.failed(ReadFailure::Store),
        }
    }

    /// What became of a transaction. An id that was never given out decides nothing.
    fn fate(&self, xid: u64) -> Settled {
        if self.open_xids.contains(&xid) || xid >= self.next_xid {
            Settled::Open
        } else if self.committed_xids.contains(&xid) {
            Settled::Committed
        } else {
            Settled::Aborted
        }
    }

    fn ledger(&self, after: Option<&Cut>, mut snapshot: Snapshot) -> StoreAnswer {
        let variant = self.config.variant;
        let mut after = after.cloned();
        let is_own = match (self.config.engine, &after) {
            (_, None) => true,
            (Engine::OneWriter, Some(cut)) => matches!(cut, Cut::Position(_)),
            (Engine::ManyWriters, Some(Cut::Snapshot { .. })) => true,
            (Engine::ManyWriters, Some(Cut::Position(_))) => {
                variant.is(StoreVariant::PositionWatermarkCursor)
            }
        };
        if !is_own {
            // A cursor of another kind of store says nothing here.
            return StoreAnswer::Ledger(Err(ReadFailure::Store));
        }
        if variant.is(StoreVariant::PositionWatermarkCursor) {
            snapshot.cut = Cut::Position(snapshot.newest_position());
        }
        if variant.is(StoreVariant::XminWatermarkCursor) {
            after = after.as_ref().map(below_xmin);
            snapshot.cut = below_xmin(&snapshot.cut);
            snapshot.hide_above_cut();
        }
        StoreAnswer::Ledger(Ok(
            snapshot.ledger(after.as_ref(), self.config.ledger_rows_max)
        ))
    }
}

/// The cursor of the variant that knows only the lowest transaction in progress.
fn below_xmin(cut: &Cut) -> Cut {
    match cut {
        Cut::Snapshot { xmin, .. } => Cut::Snapshot {
            xmin: *xmin,
            xmax: *xmin,
            in_progress: Default::default(),
        },
        Cut::Position(position) => Cut::Position(*position),
    }
}
