//! Open histories: a read transaction that a thread of its own keeps open between pages. How pages are read does not belong
//! here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use holdfast_core::node::{HistoryPage, ReadFailure};
use holdfast_core::scope::ReadPlan;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::budget::Budget;
use super::read::{ReadError, Snapshot};
use crate::node::ports::{BoxFuture, History};

/// How often an idle snapshot looks whether the store has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

type Page = Result<HistoryPage, ReadFailure>;

/// A wish for one page.
#[derive(Debug)]
pub(super) struct PageRequest {
    rows_max: u32,
    bytes_max: usize,
    reply: oneshot::Sender<Page>,
}

/// The caller's end of a snapshot. Dropping it raises the stop flag and closes the channel, so that the thread leaves the
/// transaction at once, also from within a statement.
#[derive(Debug)]
pub(super) struct SqliteHistory {
    requests: Sender<PageRequest>,
    stop: Arc<AtomicBool>,
}

impl SqliteHistory {
    pub(super) fn new(requests: Sender<PageRequest>, stop: Arc<AtomicBool>) -> SqliteHistory {
        SqliteHistory { requests, stop }
    }
}

impl History for SqliteHistory {
    fn next(&mut self, rows_max: u32, bytes_max: usize) -> BoxFuture<Page> {
        let (reply, page) = oneshot::channel();
        // A thread that has left answers nothing; its end of the reply is gone with the request.
        let _ = self.requests.send(PageRequest {
            rows_max,
            bytes_max,
            reply,
        });
        Box::pin(async move { page.await.unwrap_or(Err(ReadFailure::SnapshotLost)) })
    }
}

impl Drop for SqliteHistory {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What a thread needs to serve one history.
#[derive(Debug)]
pub(super) struct Serving {
    /// Number of the plans' community.
    pub(super) community: i64,
    /// The plans.
    pub(super) plans: Vec<ReadPlan>,
    /// Deadline and stop flag.
    pub(super) budget: Budget,
    /// Raised when the store ends.
    pub(super) store_ended: Arc<AtomicBool>,
    /// The caller's wishes.
    pub(super) requests: Receiver<PageRequest>,
    /// Told whether the snapshot is open.
    pub(super) opened: oneshot::Sender<Result<(), ReadFailure>>,
}

impl Serving {
    /// Serves pages until the last one, a failure, the deadline, or the caller's end. The transaction is rolled back in every
    /// case; a page that nobody takes ends the history too, as its rows would be missing from the next one.
    pub(super) fn run(self, db: &Connection) {
        let Serving {
            community,
            plans,
            budget,
            store_ended,
            requests,
            opened,
        } = self;
        let begun = begin(db, &budget, community, plans);
        let (tx, mut snapshot) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                // Without a listener there is nobody to tell.
                let _ = opened.send(Err(error.into()));
                return;
            }
        };
        if opened.send(Ok(())).is_err() {
            return;
        }
        while !store_ended.load(Ordering::Relaxed) && !budget.is_over() {
            let request = match requests.recv_timeout(LOOK_INTERVAL.min(budget.left())) {
                Ok(request) => request,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let page: Page = snapshot
                .next_page(&tx, &budget, request.rows_max, request.bytes_max)
                .map_err(ReadFailure::from);
            let is_last = page.as_ref().map_or(true, |page| page.end.is_some());
            if request.reply.send(page).is_err() || is_last {
                return;
            }
        }
    }
}

fn begin<'db>(
    db: &'db Connection,
    budget: &Budget,
    community: i64,
    plans: Vec<ReadPlan>,
) -> Result<(rusqlite::Transaction<'db>, Snapshot), ReadError> {
    budget.watch(db)?;
    let tx = db.unchecked_transaction()?;
    let snapshot = Snapshot::open(&tx, community, plans)?;
    Ok((tx, snapshot))
}
