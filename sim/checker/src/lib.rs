//! Judges a recorded history with its own reading of the rules.
//!
//! What belongs here: the history format and one judge per named invariant, linear in the history. What must not: any
//! dependency on another crate of this workspace, since a judge that shares code with the accused proves nothing.

pub mod format;
mod invariant;
mod judges;
mod lines;
mod replay;
mod report;

pub use invariant::Invariant;
pub use lines::{History, HistoryError, Line, Unreadable, Writer};
pub use report::{Report, Status, Verdict, Violation};

/// Judges a complete history.
///
/// Time grows with the records, times a logarithm; a commit costs once per different filter that names its channel, and a
/// broken history more, since what is wrong is told in detail.
///
/// # Errors
/// [`HistoryError`] if the records contradict the header or one another. Such a history has no verdict.
pub fn judge(history: &History) -> Result<Report, HistoryError> {
    replay::Story::new(history).map(|story| judges::all(&story))
}
