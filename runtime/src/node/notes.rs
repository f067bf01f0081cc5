//! Counts what the node observes. How the counts are shown does not belong here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use holdfast_core::node::Note;

use super::ports::NoteSink;

/// A count per note since the process began.
#[derive(Debug, Default)]
pub struct NoteCounts(Mutex<BTreeMap<Note, u64>>);

impl NoteCounts {
    /// The counts of every note seen so far.
    pub fn snapshot(&self) -> BTreeMap<Note, u64> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl NoteSink for NoteCounts {
    fn note(&self, note: Note) {
        tracing::debug!(?note);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(note).or_default() += 1;
    }
}
