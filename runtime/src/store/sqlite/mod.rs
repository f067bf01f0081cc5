//! The embedded store: one SQLite file in a locked data directory.
//!
//! One thread writes; small pools of threads read, each thread with a connection of its own. A transaction never leaves its thread
//! and no thread waits for a future, so a dropped future cannot leave one open (S7). Files: `open` (lock, settings, migrations),
//! `writer` (batches), `view` and `write` (one submission), `plan_sql`, `driver` and `read` (queries), `sync` (initial sets and
//! heads), `paged`, `pool` and `budget` (open snapshots and threads), `communities`, `codes` (columns). Decisions belong to the core.

mod budget;
mod codes;
mod communities;
mod driver;
mod open;
mod paged;
mod plan_sql;
mod pool;
mod read;
mod sync;
mod view;
mod write;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use holdfast_core::accept::{Policy, Submission};
use holdfast_core::ids::CommunityId;
use holdfast_core::limits::{HISTORY_BUDGET_MS, QUERY_BUDGET_MS, SYNC_SNAPSHOTS_MAX};
use holdfast_core::node::{
    HistoryPage, HistoryRow, LedgerPage, LiveQuery, LiveRows, QueryAnswer, QueryKind, ReadFailure,
    Settled, SubmitOutcome,
};
use holdfast_core::scope::{Cut, ReadPlan};
use holdfast_core::sync::{HeadQuery, HeadRows, SyncPage, SyncRequest};
use rusqlite::Connection;
use tokio::sync::oneshot;

use self::budget::Budget;
use self::communities::Communities;
pub use self::open::OpenError;
pub(crate) use self::open::writing_connection;
use self::paged::{OpenRead, OpenReads, Paged};
use self::pool::{Pool, PoolSettings};
use self::read::{PageBounds, QUERY_BYTES_MAX, ReadError, Snapshot};
use self::sync::InitialSet;
use self::writer::{Job, Writer};
use crate::node::ports::{BoxFuture, History, Store, SyncSnapshot};

/// What an embedded store is opened with.
#[derive(Clone, Debug)]
pub struct SqliteSettings {
    /// The data directory; it is made if it does not exist.
    pub dir: PathBuf,
    /// Profile and relay key, for decisions. The key is recorded in a new database and compared with an existing one.
    pub policy: Policy,
    /// Submissions that wait for the writing thread; further ones are `Busy`.
    pub submits_waiting_max: usize,
    /// Threads for one-shot queries.
    pub query_threads: usize,
    /// Threads for live, head and ledger reads.
    pub live_threads: usize,
    /// Histories that are open at the same time.
    pub snapshots_max: usize,
    /// Initial reads of syncs that are open at the same time.
    pub sync_snapshots_max: usize,
    /// Reads that wait for a thread of each pool; further ones are `Busy` at once.
    pub reads_waiting_max: usize,
    /// Milliseconds a read waits for a thread before it is `Busy`.
    pub wait_ms: u64,
    /// Milliseconds a history may stay open.
    pub snapshot_budget_ms: u64,
    /// Milliseconds a live, head or ledger read may take.
    pub live_budget_ms: u64,
    /// Milliseconds a statement waits for the lock of a foreign process.
    pub busy_timeout_ms: u64,
    /// Largest size of the database in pages of 4096 bytes, where it is bounded.
    pub pages_max: Option<u32>,
}

impl SqliteSettings {
    /// The settings of a relay.
    pub fn new(dir: impl Into<PathBuf>, policy: Policy) -> SqliteSettings {
        SqliteSettings {
            dir: dir.into(),
            policy,
            submits_waiting_max: 1_024,
            query_threads: 4,
            live_threads: 2,
            snapshots_max: 16,
            sync_snapshots_max: SYNC_SNAPSHOTS_MAX,
            reads_waiting_max: 256,
            wait_ms: 2_000,
            snapshot_budget_ms: HISTORY_BUDGET_MS,
            live_budget_ms: QUERY_BUDGET_MS,
            busy_timeout_ms: 1_000,
            pages_max: None,
        }
    }
}

/// How the writing connection keeps its promises, as SQLite reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durability {
    /// `wal`.
    pub journal_mode: String,
    /// 2 is FULL: a commit is on disk when it returns.
    pub synchronous: i64,
    /// Foreign keys are enforced.
    pub foreign_keys: bool,
}

/// Why an administrative call failed; details are in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database refused.
    #[error("the database refused; the log says why")]
    Database,
    /// Too many submissions wait, or the store has ended.
    #[error("the store takes no work at this moment")]
    Busy,
}

/// The embedded store. Dropping it does what is queued for writing, ends open histories and releases the data directory.
#[derive(Debug)]
pub struct SqliteStore {
    settings: SqliteSettings,
    communities: Communities,
    // Dropped in this order: threads first, the lock of the directory last.
    writer: WriterThread,
    queries: Pool,
    live: Pool,
    histories: OpenReads,
    syncs: OpenReads,
    _lock: open::DirectoryLock,
}

/// The writing thread's queue; closing it ends the thread.
#[derive(Debug)]
struct WriterThread {
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Locks the data directory, opens the database and brings it up to date, and starts the threads.
    ///
    /// # Errors
    /// [`OpenError`]; nothing stays locked or running.
    pub fn open(settings: SqliteSettings) -> Result<SqliteStore, OpenError> {
        let dir = settings.dir.clone();
        let database = |source| OpenError::Database {
            dir: dir.clone(),
            source,
        };
        let system = |source| OpenError::Directory {
            dir: dir.clone(),
            source,
        };
        let lock = open::lock(&dir)?;
        let path = open::database_path(&dir);
        let busy_timeout = Duration::from_millis(settings.busy_timeout_ms);
        let mut db = open::writing_connection(&path, busy_timeout).map_err(database)?;
        if let Some(pages) = settings.pages_max {
            db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
                .map_err(database)?;
        }
        open::prepare(&mut db, &dir, settings.policy.relay_key.public())?;
        let communities = Communities::load(&db).map_err(database)?;
        let writer =
            Writer::new(db, settings.policy.clone(), communities.clone()).map_err(database)?;
        let pool = |name, threads| PoolSettings {
            name,
            path: path.clone(),
            threads,
            waiting_max: settings.reads_waiting_max,
            wait: Duration::from_millis(settings.wait_ms),
            busy_timeout,
        };
        let histories = pool("history", settings.snapshots_max);
        let syncs = pool("sync", settings.sync_snapshots_max);
        Ok(SqliteStore {
            communities,
            writer: WriterThread::start(writer, settings.submits_waiting_max).map_err(system)?,
            queries: Pool::start(pool("query", settings.query_threads)).map_err(system)?,
            live: Pool::start(pool("live", settings.live_threads)).map_err(system)?,
            histories: OpenReads::start(histories).map_err(system)?,
            syncs: OpenReads::start(syncs).map_err(system)?,
            settings,
            _lock: lock,
        })
    }

    /// The communities of this database, by host.
    pub fn communities(&self) -> BTreeMap<String, CommunityId> {
        self.communities.list()
    }

    /// The community of a host, with its port as the relay is addressed; it is made if there is none.
    pub fn ensure_community(&self, host: String) -> BoxFuture<Result<CommunityId, StoreError>> {
        let communities = self.communities.clone();
        self.on_writer(move |db| communities.ensure(db, &host))
    }

    /// How the live writing connection is set.
    pub fn durability(&self) -> BoxFuture<Result<Durability, StoreError>> {
        self.on_writer(|db| {
            Ok(Durability {
                journal_mode: db.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
                synchronous: db.pragma_query_value(None, "synchronous", |row| row.get(0))?,
                foreign_keys: db.pragma_query_value(None, "foreign_keys", |row| row.get(0))?,
            })
        })
    }

    fn on_writer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<Result<T, StoreError>> {
        let (reply, done) = oneshot::channel();
        let job = Job::Other(Box::new(move |db| {
            // Nobody may be waiting any more; the work is done all the same.
            let _ = reply.send(work(db));
        }));
        let queued = self.writer.queue(job).is_ok();
        Box::pin(async move {
            if !queued {
                return Err(StoreError::Busy);
            }
            match done.await {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(error)) => {
                    tracing::error!(%error, "work on the writing connection failed");
                    Err(StoreError::Database)
                }
                Err(_) => Err(StoreError::Database),
            }
        })
    }

    /// Runs a read in one snapshot on a thread of `pool`.
    fn read<T: Send + 'static>(
        pool: &Pool,
        budget_ms: u64,
        read: impl FnOnce(&Connection, &Budget) -> Result<T, ReadError> + Send + 'static,
    ) -> BoxFuture<Result<T, ReadFailure>> {
        let budget = Budget::of(Duration::from_millis(budget_ms));
        let (reply, answer) = oneshot::channel();
        pool.run(Box::new(move |db| {
            let answer = db.and_then(|db| in_snapshot(db, &budget, read));
            // Whoever asked may be gone.
            let _ = reply.send(answer);
        }));
        Box::pin(async move { answer.await.unwrap_or(Err(ReadFailure::Store)) })
    }

    /// Number of the community of the plans, which is one and the same.
    fn community_of(&self, plans: &[ReadPlan]) -> Option<i64> {
        let community = plans.first()?.community;
        let same = plans.iter().all(|plan| plan.community == community);
        self.communities.number(community).filter(|_| same)
    }
}

/// One read transaction, rolled back at its end.
fn in_snapshot<T>(
    db: &Connection,
    budget: &Budget,
    read: impl FnOnce(&Connection, &Budget) -> Result<T, ReadError>,
) -> Result<T, ReadFailure> {
    budget.watch(db).map_err(ReadError::from)?;
    let tx = db.unchecked_transaction().map_err(ReadError::from)?;
    Ok(read(&tx, budget)?)
}

fn refused<T: Send + 'static>(failure: ReadFailure) -> BoxFuture<Result<T, ReadFailure>> {
    Box::pin(std::future::ready(Err(failure)))
}

impl Store for SqliteStore {
    fn submit(&self, submission: Submission) -> BoxFuture<SubmitOutcome> {
        let (reply, outcome) = oneshot::channel();
        if self
            .writer
            .queue(Job::Submit(Box::new(submission), reply))
            .is_err()
        {
            return Box::pin(std::future::ready(SubmitOutcome::Busy));
        }
        Box::pin(async move {
            // No answer: the thread ended with a panic, before or after a commit.
            outcome.await.unwrap_or(SubmitOutcome::Unknown {
                xid: 0,
                signals: Vec::new(),
            })
        })
    }

    fn open_history(
        &self,
        plans: Vec<ReadPlan>,
    ) -> BoxFuture<Result<Box<dyn History>, ReadFailure>> {
        let Some(community) = self.community_of(&plans) else {
            return refused(ReadFailure::Store);
        };
        let budget = Budget::of(Duration::from_millis(self.settings.snapshot_budget_ms));
        let opening = self
            .histories
            .open(budget, move |tx, _| Snapshot::open(tx, community, plans));
        Box::pin(async move { Ok(Box::new(opening.await?) as Box<dyn History>) })
    }

    fn open_sync(
        &self,
        request: SyncRequest,
    ) -> BoxFuture<Result<Box<dyn SyncSnapshot>, ReadFailure>> {
        let Some(community) = self.community_of(std::slice::from_ref(&request.plan)) else {
            return refused(ReadFailure::Store);
        };
        let budget = Budget::of(Duration::from_millis(request.budget_ms));
        let opening = self.syncs.open(budget, move |tx, budget| {
            InitialSet::open(tx, budget, community, request)
        });
        Box::pin(async move { Ok(Box::new(opening.await?) as Box<dyn SyncSnapshot>) })
    }

    fn heads(
        &self,
        community: CommunityId,
        query: HeadQuery,
    ) -> BoxFuture<Result<HeadRows, ReadFailure>> {
        let Some(community) = self.communities.number(community) else {
            return refused(ReadFailure::Store);
        };
        SqliteStore::read(
            &self.live,
            self.settings.live_budget_ms,
            move |db, budget| sync::heads(db, budget, community, &query),
        )
    }

    fn settle(&self, xid: u64) -> BoxFuture<Settled> {
        let read = SqliteStore::read(&self.live, self.settings.live_budget_ms, move |db, _| {
            read::settled(db, xid)
        });
        Box::pin(async move { read.await.unwrap_or(Settled::Open) })
    }

    fn query(
        &self,
        kind: QueryKind,
        plans: Vec<ReadPlan>,
        budget_ms: u64,
    ) -> BoxFuture<Result<QueryAnswer, ReadFailure>> {
        let Some(community) = self.community_of(&plans) else {
            return refused(ReadFailure::Store);
        };
        SqliteStore::read(&self.queries, budget_ms, move |db, budget| match kind {
            QueryKind::Rows => all_rows(db, budget, community, plans).map(QueryAnswer::Rows),
            QueryKind::Count => read::count(db, budget, community, read::clock_secs(), &plans)
                .map(QueryAnswer::Count),
        })
    }

    fn live(
        &self,
        community: CommunityId,
        query: LiveQuery,
    ) -> BoxFuture<Result<LiveRows, ReadFailure>> {
        let Some(community) = self.communities.number(community) else {
            return refused(ReadFailure::Store);
        };
        SqliteStore::read(
            &self.live,
            self.settings.live_budget_ms,
            move |db, budget| read::live(db, budget, community, &query),
        )
    }

    fn ledger(&self, after: Option<Cut>) -> BoxFuture<Result<LedgerPage, ReadFailure>> {
        let after = match after {
            None => None,
            Some(Cut::Position(position)) => Some(position),
            // A cursor of another kind of store says nothing here.
            Some(Cut::Snapshot { .. }) => return refused(ReadFailure::Store),
        };
        SqliteStore::read(&self.live, self.settings.live_budget_ms, move |db, _| {
            read::ledger(db, after)
        })
    }

    fn health(&self) -> BoxFuture<Result<(), String>> {
        let written = self.on_writer(|db| {
            db.execute_batch(
                "INSERT INTO meta (name, value) VALUES ('writable_at', unixepoch())
                 ON CONFLICT DO UPDATE SET value = excluded.value",
            )
        });
        let read = SqliteStore::read(&self.queries, self.settings.live_budget_ms, |db, _| {
            Ok(read::newest_position(db)?)
        });
        Box::pin(async move {
            written
                .await
                .map_err(|error| format!("cannot write: {error}"))?;
            read.await
                .map_err(|failure| format!("cannot read: {failure:?}"))?;
            Ok(())
        })
    }
}

/// All rows of a query; more than [`QUERY_BYTES_MAX`] bytes are a failure.
fn all_rows(
    db: &Connection,
    budget: &Budget,
    community: i64,
    plans: Vec<ReadPlan>,
) -> Result<Vec<HistoryRow>, ReadError> {
    let all = PageBounds {
        rows_max: u32::MAX,
        bytes_max: QUERY_BYTES_MAX,
    };
    let page = Snapshot::open(db, community, plans)?.next_page(db, budget, all)?;
    if page.end.is_none() {
        Err(ReadError::OutOfBudget)
    } else {
        Ok(page.rows)
    }
}

impl WriterThread {
    fn start(writer: Writer, waiting_max: usize) -> std::io::Result<WriterThread> {
        let (jobs, queue) = mpsc::sync_channel(waiting_max);
        let thread = thread::Builder::new()
            .name("writer".to_owned())
            .spawn(move || writer.run(&queue))?;
        Ok(WriterThread {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    fn queue(&self, job: Job) -> Result<(), TrySendError<Job>> {
        match &self.jobs {
            Some(jobs) => jobs.try_send(job),
            None => Err(TrySendError::Disconnected(job)),
        }
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.jobs = None;
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            tracing::error!("the writing thread ended with a panic");
        }
    }
}

impl History for OpenRead<PageBounds, HistoryPage> {
    fn next(
        &mut self,
        rows_max: u32,
        bytes_max: usize,
    ) -> BoxFuture<Result<HistoryPage, ReadFailure>> {
        self.page(PageBounds {
            rows_max,
            bytes_max,
        })
    }
}

impl SyncSnapshot for OpenRead<(), SyncPage> {
    fn next(&mut self) -> BoxFuture<Result<SyncPage, ReadFailure>> {
        self.page(())
    }
}
