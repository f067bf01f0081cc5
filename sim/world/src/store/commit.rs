//! The end of a write transaction: commit, visibility, loss of its client, retries and answers. What is written is not decided
//! here.

use holdfast_core::accept::Write;
use holdfast_core::node::SubmitOutcome;

use super::config::StoreVariant;
use super::steps::{ProcessId, StoreAnswer, TxId};
use super::write::{Client, Item, Phase, RETRIES_MAX, Waiting, WriteTx};
use super::{Ready, Store, Tx};
use crate::truth::{self, Commit};

impl Store {
    /// The transaction is durable; others do not see it yet.
    pub(super) fn commit(&mut self, write: &mut WriteTx) {
        let xid = write.xid.expect("a transaction that wrote has an id");
        self.committed_xids.insert(xid);
        write.phase = Phase::Visible;
    }

    /// Others see the commit from here on; the locks are free and the answers on their way.
    pub(super) fn show(&mut self, leader: TxId, process: ProcessId, mut write: Box<WriteTx>) {
        let xid = write.xid.take().expect("a commit has an id");
        let before = self.committed.clone();
        let written = std::mem::take(&mut write.written);
        let mut changes = Vec::new();
        for item in 0..write.items.len() {
            let of_item = written.iter().filter(|group| group.item == item);
            let writes: Vec<Write> = of_item.flat_map(|group| group.writes.clone()).collect();
            changes.extend(truth::changes(&writes));
        }
        let last = changes.last().map(|change| change.position);
        for mut group in written {
            if changes.len() > 1 && self.config.variant.is(StoreVariant::LedgerRowMissing) {
                group.writes.retain(
                    |write| !matches!(write, Write::Ledger(row) if Some(row.position) == last),
                );
            }
            let origin = self.origin(group.community, Some(xid));
            self.committed
                .apply(origin, &group.writes)
                .expect("written rows are locked until the transaction ends");
        }
        self.open_xids.remove(&xid);
        let wrote = write.items.iter().filter(|item| !item.signals.is_empty());
        let commit = Commit {
            xid,
            process,
            clock_us: self.now.clock_us,
            submissions: wrote
                .map(|item| (item.tx, item.submission.event.id))
                .collect(),
            changes,
            is_forgotten: false,
        };
        self.note_commit(before, commit);
        if write.at < write.items.len() {
            // Only the variant that commits a move in two halves has something left.
            write.phase = Phase::Write;
            return self.put(leader, process, Tx::Write(write));
        }
        self.locks.release(write.session);
        if write.client == Client::Waits {
            self.answer_all(process, &write, Item::outcome);
        }
    }

    /// COMMIT was sent, and the connection is gone (S3).
    pub(super) fn leave_unanswered(&mut self, process: ProcessId, mut write: Box<WriteTx>) {
        write.phase = Phase::LateCommit;
        let xid = write.xid.expect("a transaction that wrote has an id");
        let is_failed = self.config.variant.is(StoreVariant::UnknownIsFailed);
        if write.client == Client::Waits {
            self.answer_all(process, &write, |item| match item.outcome() {
                SubmitOutcome::Stored { .. } if is_failed => SubmitOutcome::Failed,
                SubmitOutcome::Stored { signals, .. } => SubmitOutcome::Unknown { xid, signals },
                other => other,
            });
        }
        self.detach(process, write, Client::Gone);
    }

    /// The connection is gone before COMMIT: nothing will be stored, and the server notices later.
    pub(super) fn lose_connection(&mut self, process: ProcessId, mut write: Box<WriteTx>) {
        if write.client == Client::Waits {
            self.answer_all(process, &write, Item::undone);
        }
        write.phase = Phase::Rollback;
        self.detach(process, write, Client::Gone);
    }

    /// The client of the transaction is gone with its process; what COMMIT was not sent for is rolled back.
    pub(super) fn orphan(&mut self, process: ProcessId, mut write: Box<WriteTx>) {
        if !write.sent_commit() {
            write.phase = Phase::Rollback;
        }
        self.detach(process, write, Client::Gone);
    }

    /// The server is gone: what it had not shown to others is lost (S8).
    pub(super) fn fail_over_write(&mut self, process: ProcessId, write: &WriteTx) {
        if write.client != Client::Waits {
            return;
        }
        let (xid, was_sent) = (write.xid.unwrap_or(0), write.is_committed());
        self.answer_all(process, write, |item| match item.outcome() {
            SubmitOutcome::Stored { signals, .. } if was_sent => {
                SubmitOutcome::Unknown { xid, signals }
            }
            _ => item.undone(),
        });
    }

    /// Goes on without anybody who waits for it, under a name of its own.
    pub(super) fn detach(&mut self, process: ProcessId, mut write: Box<WriteTx>, client: Client) {
        write.client = client;
        let tx = self.fresh_tx();
        self.put(tx, process, Tx::Write(write));
    }

    pub(super) fn roll_back(&mut self, write: WriteTx) {
        self.locks.release(write.session);
        if let Some(xid) = write.xid {
            self.open_xids.remove(&xid);
        }
    }

    /// The database ended the transaction: each submission is tried again, alone.
    pub(super) fn try_again(&mut self, process: ProcessId, write: WriteTx) {
        for item in &write.items {
            let deadlocks = item.deadlocks + 1;
            let again = if deadlocks > RETRIES_MAX {
                let outcome = StoreAnswer::Submitted(SubmitOutcome::Failed);
                Tx::Ready(Box::new(Ready::unread(outcome)))
            } else {
                Tx::Waiting(Box::new(Waiting {
                    submission: item.submission.clone(),
                    deadlocks,
                }))
            };
            if write.client == Client::Waits {
                self.put(item.tx, process, again);
            }
        }
        self.roll_back(write);
    }

    pub(super) fn answer_all(
        &mut self,
        process: ProcessId,
        write: &WriteTx,
        outcome: impl Fn(&Item) -> SubmitOutcome,
    ) {
        for item in &write.items {
            let answer = StoreAnswer::Submitted(outcome(item));
            self.put(item.tx, process, Tx::Ready(Box::new(Ready::unread(answer))));
        }
    }
}
