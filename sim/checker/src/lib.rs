//! Judges a recorded history with its own reading of the rules.
//!
//! What belongs here: the history format and one judge per named invariant, linear in the history. What must not: any
//! dependency on another crate of this workspace, since a judge that shares code with the accused proves nothing.

pub mod format;
mod invariant;
mod lines;

pub use invariant::Invariant;
pub use lines::{History, HistoryError, Line, Unreadable, Writer};
