//! Threads with one reading connection each, and the bounded queue before them. What is read does not belong here.
//!
//! A job runs on one thread from its first statement to its last and is never cut by a dropped future (S7). A connection that
//! cannot leave its transaction is closed.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdfast_core::node::ReadFailure;
use rusqlite::Connection;

use super::open;

/// Work for one thread: it gets a connection outside any transaction, or the reason why there is none.
pub(super) type Job = Box<dyn FnOnce(Result<&Connection, ReadFailure>) + Send>;

/// Size and patience of a pool.
#[derive(Clone, Debug)]
pub(super) struct PoolSettings {
    /// Name of the threads.
    pub(super) name: &'static str,
    /// The database.
    pub(super) path: PathBuf,
    /// Threads, and so connections.
    pub(super) threads: usize,
    /// Jobs that wait at most; further ones are refused at once.
    pub(super) waiting_max: usize,
    /// How long a job waits at most.
    pub(super) wait: Duration,
    /// How long a statement waits for a lock of another process.
    pub(super) busy_timeout: Duration,
}

/// A pool; dropping it lets running jobs end and refuses waiting ones.
#[derive(Debug)]
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    settings: PoolSettings,
    state: Mutex<State>,
    /// Told when a job was queued, or the pool ends.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    ended: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("waiting", &self.waiting.len())
            .field("ended", &self.ended)
            .finish()
    }
}

struct Waiting {
    job: Job,
    until: Instant,
}

impl Pool {
    /// Starts the threads; connections are opened when first needed.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(settings: PoolSettings) -> std::io::Result<Pool> {
        let shared = Arc::new(Shared {
            settings,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let mut pool = Pool {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        let name = shared.settings.name;
        for number in 0..shared.settings.threads {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || work(&shared))?;
            pool.threads.push(thread);
        }
        let watch = thread::Builder::new()
            .name(format!("{name}-wait"))
            .spawn(move || refuse_late_jobs(&shared))?;
        pool.threads.push(watch);
        Ok(pool)
    }

    /// Queues a job; it is called with [`ReadFailure::Busy`] when no thread becomes free in time or too many wait.
    pub(super) fn run(&self, job: Job) {
        let mut state = lock(&self.shared.state);
        if state.waiting.len() >= self.shared.settings.waiting_max {
            drop(state);
            return job(Err(ReadFailure::Busy));
        }
        let until = Instant::now() + self.shared.settings.wait;
        state.waiting.push_back(Waiting { job, until });
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.ended = true;
        let refused = std::mem::take(&mut state.waiting);
        drop(state);
        self.shared.changed.notify_all();
        for waiting in refused {
            (waiting.job)(Err(ReadFailure::Store));
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reading thread ended with a panic");
            }
        }
    }
}

/// A panic while the lock is held leaves the queue as it was, so a poisoned lock is as good as any.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Takes jobs until the pool ends.
fn work(shared: &Shared) {
    let mut connection: Option<Connection> = None;
    while let Some(job) = next_job(shared) {
        if connection.is_none() {
            let settings = &shared.settings;
            connection = open::reading_connection(&settings.path, settings.busy_timeout)
                .inspect_err(|error| tracing::error!(%error, "cannot open a reading connection"))
                .ok();
        }
        let given = connection.as_ref().ok_or(ReadFailure::Store);
        let done = catch_unwind(AssertUnwindSafe(|| job(given)));
        let clean = connection.as_ref().is_some_and(is_outside_transaction);
        if done.is_err() || !clean {
            connection = None;
        }
    }
}

/// Leaves a transaction that a job left open, and takes its progress handler away.
fn is_outside_transaction(db: &Connection) -> bool {
    let handler_gone = db.progress_handler(0, None::<fn() -> bool>).is_ok();
    handler_gone && (db.is_autocommit() || db.execute_batch("ROLLBACK").is_ok())
}

fn next_job(shared: &Shared) -> Option<Job> {
    let mut state = lock(&shared.state);
    loop {
        if let Some(waiting) = state.waiting.pop_front() {
            return Some(waiting.job);
        }
        if state.ended {
            return None;
        }
        state = shared
            .changed
            .wait(state)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

/// Refuses jobs whose time has come, until the pool ends. All jobs wait equally long, so the first one is the next.
fn refuse_late_jobs(shared: &Shared) {
    let mut state = lock(&shared.state);
    while !state.ended {
        let now = Instant::now();
        match state.waiting.front().map(|waiting| waiting.until) {
            Some(until) if until <= now => {
                if let Some(late) = state.waiting.pop_front() {
                    drop(state);
                    (late.job)(Err(ReadFailure::Busy));
                    state = lock(&shared.state);
                }
            }
            Some(until) => {
                let waited = shared.changed.wait_timeout(state, until - now);
                state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            }
            None => {
                let waited = shared.changed.wait(state);
                state = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            }
        }
    }
}
