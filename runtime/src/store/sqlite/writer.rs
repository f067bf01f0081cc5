//! The one writing thread: group commit, savepoints, and the clock and position counter of the ledger. What is read for a
//! decision and what is written belongs to `view` and `write`.
//!
//! A transaction begins and ends on this thread without waiting for anything but the disk, so no caller can leave it open (S7).
//! A batch is what waits, at most [`BATCH_MAX`] submissions, each behind its own savepoint; answers leave after COMMIT returned
//! (S2b, S3).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;

use holdfast_core::accept::{self, Decision, Policy, Submission};
use holdfast_core::ids::Position;
use holdfast_core::node::SubmitOutcome;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use super::communities::Communities;
use super::view::{self, Moment};
use super::write::{self, WriteError};
use super::{codes, read};

/// Submissions of one batch.
const BATCH_MAX: usize = 32;

/// Work for the writing thread.
pub(super) enum Job {
    /// Decide and write an event.
    Submit(Box<Submission>, oneshot::Sender<SubmitOutcome>),
    /// Use the connection between two batches, outside any transaction.
    Other(Box<dyn FnOnce(&Connection) + Send>),
}

/// The state of the writing thread.
#[derive(Debug)]
pub(super) struct Writer {
    db: Connection,
    policy: Policy,
    communities: Communities,
    /// Largest stamp given so far; the clock of the ledger rises with every submission, so that a stamp names one.
    clock_us: u64,
}

/// The transaction is gone: the database ended it, or COMMIT failed.
struct TransactionLost;

impl Writer {
    /// Takes over a prepared connection.
    ///
    /// # Errors
    /// What SQLite says.
    pub(super) fn new(
        db: Connection,
        policy: Policy,
        communities: Communities,
    ) -> rusqlite::Result<Writer> {
        let clock_us = db.query_row(
            "SELECT coalesce((SELECT stamp_us FROM ledger ORDER BY position DESC LIMIT 1), 0)",
            [],
            |row| codes::number(row, 0),
        )?;
        Ok(Writer {
            db,
            policy,
            communities,
            clock_us,
        })
    }

    /// Works until every sender is gone; what was queued by then is still done.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        let mut next = jobs.recv().ok();
        while let Some(job) = next.take() {
            match job {
                Job::Other(work) => {
                    if catch_unwind(AssertUnwindSafe(|| work(&self.db))).is_err() {
                        tracing::error!("work on the writing connection ended with a panic");
                    }
                    self.leave_transaction();
                }
                Job::Submit(submission, reply) => {
                    let mut batch = vec![(*submission, reply)];
                    while batch.len() < BATCH_MAX && next.is_none() {
                        match jobs.try_recv() {
                            Ok(Job::Submit(submission, reply)) => batch.push((*submission, reply)),
                            Ok(other) => next = Some(other),
                            Err(_) => break,
                        }
                    }
                    self.commit_batch(batch);
                }
            }
            next = next.or_else(|| jobs.recv().ok());
        }
    }

    /// Decides and commits a batch and answers. When the transaction is lost before COMMIT, each submission is tried alone, so
    /// that what broke it hurts no other (S2b).
    fn commit_batch(&mut self, batch: Vec<(Submission, oneshot::Sender<SubmitOutcome>)>) {
        let (submissions, replies): (Vec<Submission>, Vec<_>) = batch.into_iter().unzip();
        let outcomes = self
            .attempt(&submissions)
            .unwrap_or_else(|TransactionLost| {
                submissions
                    .iter()
                    .map(|one| {
                        let alone = self.attempt(std::slice::from_ref(one)).ok();
                        alone
                            .and_then(|mut outcomes| outcomes.pop())
                            .unwrap_or(SubmitOutcome::Failed)
                    })
                    .collect()
            });
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // The sender of an event may be gone; what became of it is stored all the same.
            let _ = reply.send(outcome);
        }
    }

    /// One transaction for all submissions: one outcome each, or none if the transaction was lost before COMMIT.
    fn attempt(
        &mut self,
        submissions: &[Submission],
    ) -> Result<Vec<SubmitOutcome>, TransactionLost> {
        let failed = || vec![SubmitOutcome::Failed; submissions.len()];
        if let Err(error) = self.execute("BEGIN IMMEDIATE") {
            // Mostly a foreign process that holds the lock; each further try would wait as long.
            tracing::error!(%error, "cannot begin a write transaction");
            return Ok(failed());
        }
        let mut next = match read::newest_position(&self.db) {
            Ok(newest) => newest.plus(1),
            Err(error) => {
                tracing::error!(%error, "cannot read the ledger");
                self.leave_transaction();
                return Ok(failed());
            }
        };
        let mut outcomes = Vec::with_capacity(submissions.len());
        for submission in submissions {
            let outcome = self.accept(submission, &mut next)?;
            outcomes.push((outcome, self.clock_us));
        }
        match self.execute("COMMIT") {
            Ok(()) => Ok(outcomes.into_iter().map(|(outcome, _)| outcome).collect()),
            Err(error) => {
                tracing::error!(%error, "COMMIT failed");
                self.leave_transaction();
                Ok(outcomes
                    .into_iter()
                    .map(|(outcome, stamp_us)| uncommitted(outcome, stamp_us, &error))
                    .collect())
            }
        }
    }

    /// Decides one submission and applies what was decided. An error undoes this submission only.
    fn accept(
        &mut self,
        submission: &Submission,
        next: &mut Position,
    ) -> Result<SubmitOutcome, TransactionLost> {
        let decided = catch_unwind(AssertUnwindSafe(|| self.decide(submission, *next)));
        let (at, decision) = match decided {
            Ok(Ok(decided)) => decided,
            Ok(Err(error)) => {
                tracing::error!(%error, "a view could not be read");
                return self.unless_lost(SubmitOutcome::Failed);
            }
            Err(_) => {
                tracing::error!(event = %submission.event.id, "a decision ended with a panic");
                return self.unless_lost(SubmitOutcome::Failed);
            }
        };
        let (writes, message) = match decision {
            Decision::Write { writes, message } => (writes, message),
            Decision::Already { message } => return Ok(SubmitOutcome::Already { message }),
            Decision::Ephemeral { channel } => return Ok(SubmitOutcome::Ephemeral { channel }),
            Decision::Reject(rejection) => return Ok(SubmitOutcome::Rejected(rejection)),
        };
        let applied = self
            .execute("SAVEPOINT one")
            .map_err(WriteError::from)
            .and_then(|()| {
                let signals = write::apply(&self.db, &at, &writes)?;
                self.execute("RELEASE one")?;
                Ok(signals)
            });
        match applied {
            Ok(signals) => {
                *next = next.plus(signals.len() as u64);
                Ok(SubmitOutcome::Stored { message, signals })
            }
            Err(error) => {
                tracing::error!(%error, "a submission was undone");
                self.undo();
                self.unless_lost(SubmitOutcome::Failed)
            }
        }
    }

    fn decide(
        &mut self,
        submission: &Submission,
        first_position: Position,
    ) -> Result<(Moment, Decision), WriteError> {
        let community = self
            .communities
            .number(submission.community)
            .ok_or(WriteError::Wrong("the community is not in this database"))?;
        self.clock_us = read::clock_us().max(self.clock_us + 1);
        let at = Moment {
            community,
            relay: self.policy.relay_key.public(),
            clock_us: self.clock_us,
            first_position,
        };
        let plan = accept::plan(submission);
        let view = view::read(&self.db, &at, submission, &plan.view)?;
        Ok((at, accept::decide(submission, &view, &self.policy)))
    }

    /// Goes back to the savepoint, or out of the transaction where that is impossible.
    fn undo(&self) {
        let undone = self
            .execute("ROLLBACK TO one")
            .and_then(|()| self.execute("RELEASE one"));
        if undone.is_err() {
            self.leave_transaction();
        }
    }

    /// The outcome, as long as the transaction lives: after some errors the database ends it by itself.
    fn unless_lost(&self, outcome: SubmitOutcome) -> Result<SubmitOutcome, TransactionLost> {
        if self.db.is_autocommit() {
            Err(TransactionLost)
        } else {
            Ok(outcome)
        }
    }

    fn execute(&self, statement: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(statement)?.execute([]).map(|_| ())
    }

    /// Makes sure that no transaction stays open.
    fn leave_transaction(&self) {
        if !self.db.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(%error, "ROLLBACK failed");
        }
    }
}

/// What becomes of an outcome whose COMMIT failed. Nothing of the transaction is stored, except after an error of the disk: then
/// the log may hold the whole commit and give it back after a crash (S3), and the stamp is what the outcome is asked by.
fn uncommitted(outcome: SubmitOutcome, stamp_us: u64, error: &rusqlite::Error) -> SubmitOutcome {
    match (outcome, error.sqlite_error_code()) {
        (SubmitOutcome::Stored { signals, .. }, Some(ErrorCode::SystemIoFailure)) => {
            SubmitOutcome::Unknown {
                xid: stamp_us,
                signals,
            }
        }
        _ => SubmitOutcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn only_an_error_of_the_disk_leaves_a_commit_open() {
        let stored = || SubmitOutcome::Stored {
            message: String::new(),
            signals: Vec::new(),
        };
        let error = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        let unknown = SubmitOutcome::Unknown {
            xid: 7,
            signals: Vec::new(),
        };
        let disk = error(ffi::SQLITE_IOERR_FSYNC);
        assert_eq!(uncommitted(stored(), 7, &disk), unknown);
        let refused = SubmitOutcome::Already {
            message: String::new(),
        };
        assert_eq!(uncommitted(refused, 7, &disk), SubmitOutcome::Failed);
        let full = error(ffi::SQLITE_FULL);
        assert_eq!(uncommitted(stored(), 7, &full), SubmitOutcome::Failed);
    }
}
