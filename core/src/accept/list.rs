//! A list of writes under construction: it hands out ledger positions and keeps each announced change beside its row. What
//! is decided does not belong here.

use super::{Change, Decision, LedgerRow, StoredEvent, View, WithheldCause, Write};
use crate::ids::{ArtifactId, ChannelId, Position};
use crate::nostr::{EventId, kinds};

/// The writes of one decision, in the order in which a store applies them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WriteList {
    writes: Vec<Write>,
    next: Position,
}

impl WriteList {
    /// An empty list that numbers its rows from the view's first position.
    pub(crate) fn new(view: &View) -> WriteList {
        WriteList {
            writes: Vec::new(),
            next: view.first_position,
        }
    }

    /// Appends a write that has no ledger row of its own.
    pub(crate) fn push(&mut self, write: Write) {
        self.writes.push(write);
    }

    /// The position of the next row.
    pub(crate) fn next(&self) -> Position {
        self.next
    }

    /// Appends a ledger row made for the next position, and returns the position.
    pub(crate) fn row(&mut self, row: impl FnOnce(Position) -> LedgerRow) -> Position {
        let position = self.next;
        self.next = position.plus(1);
        self.writes.push(Write::Ledger(row(position)));
        position
    }

    /// Appends an event made for the next position, and the row that announces it.
    pub(crate) fn store(&mut self, stored: impl FnOnce(Position) -> StoredEvent) -> Position {
        let stored = stored(self.next);
        let row = LedgerRow {
            position: self.next,
            change: match stored.event.kind {
                kinds::ARTIFACT => Change::Revision,
                kinds::ARTIFACT_MOVED => Change::MoveSource,
                _ => Change::Event,
            },
            channel: stored.channel,
            key: None,
            artifact: stored.artifact,
            event: Some(stored.event.id),
        };
        self.writes.push(Write::Store(Box::new(stored)));
        self.row(|_| row)
    }

    /// Withholds a stored event, and announces it where it is stored.
    pub(crate) fn withhold(
        &mut self,
        event: EventId,
        channel: Option<ChannelId>,
        artifact: Option<ArtifactId>,
        cause: WithheldCause,
        change: Change,
    ) {
        self.push(Write::Withhold { event, cause });
        self.row(|position| LedgerRow {
            position,
            change,
            channel,
            key: None,
            artifact,
            event: Some(event),
        });
    }

    /// The decision to write all of it and to answer without a text.
    pub(crate) fn decision(self) -> Decision {
        Decision::Write {
            writes: self.writes,
            message: String::new(),
        }
    }
}
