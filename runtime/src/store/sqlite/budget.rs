//! How long a read may take, and who may stop it. Statements stop by themselves when the time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdfast_core::node::ReadFailure;
use rusqlite::{Connection, Error, ErrorCode};

/// Virtual machine instructions between two looks at the clock; some tens of microseconds.
const INSTRUCTIONS_PER_LOOK: i32 = 2_000;

/// The end of a read: a time, or an owner that went away.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    until: Instant,
    stop: Arc<AtomicBool>,
}

impl Budget {
    /// A budget that ends this long from the present.
    pub(super) fn of(duration: Duration) -> Budget {
        Budget {
            until: Instant::now() + duration,
            stop: Arc::default(),
        }
    }

    /// The flag that ends the read at once when raised.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Time that is left.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Whether the read goes on.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.until
    }

    /// Makes every statement of the connection stop when the budget is over.
    ///
    /// # Errors
    /// The connection is not ours.
    pub(super) fn watch(&self, db: &Connection) -> rusqlite::Result<()> {
        let budget = self.clone();
        db.progress_handler(INSTRUCTIONS_PER_LOOK, Some(move || budget.is_over()))
    }
}

/// What a failed statement means for the reader; anything but an ended budget is logged.
pub(super) fn failure(error: &Error) -> ReadFailure {
    if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
        return ReadFailure::Budget;
    }
    tracing::error!(%error, "a read failed");
    ReadFailure::Store
}
