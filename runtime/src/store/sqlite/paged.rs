//! Open reads: a read transaction that a thread of its own keeps open between pages, for histories and syncs alike. How pages
//! are read does not belong here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use holdfast_core::node::ReadFailure;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::budget::Budget;
use super::pool::{Pool, PoolSettings};
use super::read::ReadError;
use crate::node::ports::BoxFuture;

/// How often an idle read looks whether the store has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What is read page by page in one transaction.
pub(super) trait Paged {
    /// Bounds of one page.
    type Want: Send + 'static;
    /// One page.
    type Page: Send + 'static;

    /// The next page, in the transaction that all pages share.
    ///
    /// # Errors
    /// The read is over; no page follows.
    fn next_page(
        &mut self,
        tx: &Connection,
        budget: &Budget,
        want: Self::Want,
    ) -> Result<Self::Page, ReadError>;

    /// Whether no page follows this one.
    fn is_last(page: &Self::Page) -> bool;
}

/// A wish for one page, and where the page goes.
type Wish<W, P> = (W, oneshot::Sender<Result<P, ReadFailure>>);

/// The caller's end of an open read. Dropping it raises the stop flag and closes the channel, so that the thread leaves the
/// transaction at once, also from within a statement.
#[derive(Debug)]
pub(super) struct OpenRead<W, P> {
    wishes: Sender<Wish<W, P>>,
    stop: Arc<AtomicBool>,
}

impl<W: Send + 'static, P: Send + 'static> OpenRead<W, P> {
    /// The next page; `SnapshotLost` when the read has ended. Dropping the future ends the read: the rows of a page that nobody
    /// takes would be missing from the next one.
    pub(super) fn page(&self, want: W) -> BoxFuture<Result<P, ReadFailure>> {
        let (reply, page) = oneshot::channel();
        // A thread that has left answers nothing; its end of the reply is gone with the wish.
        let _ = self.wishes.send((want, reply));
        let untaken = Untaken(Some(Arc::clone(&self.stop)));
        Box::pin(async move {
            let page = page.await;
            untaken.taken();
            page.unwrap_or(Err(ReadFailure::SnapshotLost))
        })
    }
}

/// Ends a read when it is dropped, until the page it waits for is taken.
#[derive(Debug)]
struct Untaken(Option<Arc<AtomicBool>>);

impl Untaken {
    fn taken(mut self) {
        self.0 = None;
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

impl<W, P> Drop for OpenRead<W, P> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// An open read that is on its way.
type Opening<W, P> = BoxFuture<Result<OpenRead<W, P>, ReadFailure>>;

/// The threads of open reads of one sort; dropping them ends the reads.
#[derive(Debug)]
pub(super) struct OpenReads {
    ended: Ended,
    pool: Pool,
}

/// The flag that ends all reads of a pool; raised by its drop, before the pool waits for its threads.
#[derive(Debug, Default)]
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl OpenReads {
    /// Starts the threads: as many reads are open at a time.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(settings: PoolSettings) -> std::io::Result<OpenReads> {
        Ok(OpenReads {
            ended: Ended::default(),
            pool: Pool::start(settings)?,
        })
    }

    /// Opens a read: `begin` makes the first statements of its transaction. It ends with its last page, a failure, the end of the
    /// budget or the drop of what is returned, the future itself included.
    pub(super) fn open<R: Paged>(
        &self,
        budget: Budget,
        begin: impl FnOnce(&Connection, &Budget) -> Result<R, ReadError> + Send + 'static,
    ) -> Opening<R::Want, R::Page> {
        let (wishes, wished) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        // Made before the thread starts, so that dropping the returned future ends the read too.
        let read = OpenRead {
            wishes,
            stop: budget.stop_flag(),
        };
        let store_ended = Arc::clone(&self.ended.0);
        self.pool.run(Box::new(move |db| match db {
            Ok(db) => {
                let serving = Serving::<R> {
                    budget,
                    store_ended,
                    wished,
                };
                serving.run(db, begin, opened);
            }
            Err(failure) => {
                // Whoever asked may be gone.
                let _ = opened.send(Err(failure));
            }
        }));
        Box::pin(async move {
            is_open.await.unwrap_or(Err(ReadFailure::Store))?;
            Ok(read)
        })
    }
}

/// What a thread needs to serve one read.
#[derive(Debug)]
struct Serving<R: Paged> {
    /// Deadline and stop flag.
    budget: Budget,
    /// Raised when the store ends.
    store_ended: Arc<AtomicBool>,
    /// The caller's wishes.
    wished: Receiver<Wish<R::Want, R::Page>>,
}

impl<R: Paged> Serving<R> {
    /// Serves pages until the last one, a failure, the deadline, or the caller's end. The transaction is rolled back in every
    /// case.
    fn run(
        self,
        db: &Connection,
        begin: impl FnOnce(&Connection, &Budget) -> Result<R, ReadError>,
        opened: oneshot::Sender<Result<(), ReadFailure>>,
    ) {
        let Serving {
            budget,
            store_ended,
            wished,
        } = self;
        let begun = budget
            .watch(db)
            .and_then(|()| db.unchecked_transaction())
            .map_err(ReadError::from)
            .and_then(|tx| Ok((begin(&tx, &budget)?, tx)));
        let (mut read, tx) = match begun {
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
            let (want, reply) = match wished.recv_timeout(LOOK_INTERVAL.min(budget.left())) {
                Ok(wish) => wish,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if budget.is_over() {
                return;
            }
            let page = read
                .next_page(&tx, &budget, want)
                .map_err(ReadFailure::from);
            let is_last = page.as_ref().map_or(true, R::is_last);
            if is_last {
                // The last page is the word that the snapshot is closed.
                drop(tx);
                let _ = reply.send(page);
                return;
            }
            if reply.send(page).is_err() {
                return;
            }
        }
    }
}
