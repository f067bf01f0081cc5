//! The guard of a relay that runs as one process: claims and buckets in bounded memory, and the claims also in a small SQLite
//! file, so that a replay is refused after a restart. Quotas begin anew with the process.
//!
//! What does not fit is `Unavailable`: the guard fails closed rather than forget a claim.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use crate::node::ports::{BoxFuture, Claim, Guard, Spend};
use crate::store::sqlite::writing_connection;

/// The database inside the data directory.
const DATABASE_FILE: &str = "guard.sqlite";
/// Claims and buckets that are held at the same time, each.
pub const KEYS_MAX: usize = 65_536;
/// Bytes of a key or of a bucket's name.
pub const KEY_BYTES_MAX: usize = 256;
/// Claims that wait for the disk.
const WAITING_MAX: usize = 1_024;
/// Claims that are made durable together.
const BATCH_MAX: usize = 128;
/// How long a statement waits for the lock of a foreign process.
const BUSY_TIMEOUT: Duration = Duration::from_millis(1_000);

/// Why the guard's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// SQLite refuses the file.
    #[error("cannot open the guard's database: {0}")]
    Database(#[from] rusqlite::Error),
    /// The system gives no thread.
    #[error("cannot start the guard: {0}")]
    Thread(#[from] std::io::Error),
}

/// A guard in memory and on disk. Dropping it makes durable what was claimed.
#[derive(Debug)]
pub struct LocalGuard {
    state: Arc<Mutex<State>>,
    keys_max: usize,
    writes: Option<SyncSender<NewClaim>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// Taken keys and the time until which they are.
    claims: BTreeMap<String, u64>,
    buckets: BTreeMap<String, Bucket>,
}

/// What was taken of a bucket in its present window.
#[derive(Debug)]
struct Bucket {
    began_secs: u64,
    ends_secs: u64,
    spent: u32,
}

#[derive(Debug)]
struct NewClaim {
    key: String,
    now_secs: u64,
    until_secs: u64,
    durable: oneshot::Sender<bool>,
}

impl LocalGuard {
    /// Opens the guard of a locked data directory. `keys_max` bounds claims and buckets, usually [`KEYS_MAX`].
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn open(dir: &Path, keys_max: usize) -> Result<LocalGuard, GuardError> {
        let db = writing_connection(&dir.join(DATABASE_FILE), BUSY_TIMEOUT)?;
        db.execute_batch(
            "CREATE TABLE IF NOT EXISTS claim (key TEXT PRIMARY KEY, until_secs INTEGER NOT NULL) STRICT, WITHOUT ROWID;
             CREATE INDEX IF NOT EXISTS claim_by_end ON claim (until_secs);",
        )?;
        let claims = load_claims(&db)?;
        let state = Arc::new(Mutex::new(State {
            claims,
            buckets: BTreeMap::new(),
        }));
        let (writes, queue) = mpsc::sync_channel(WAITING_MAX);
        let thread = thread::Builder::new()
            .name("guard".to_owned())
            .spawn(move || make_durable(&db, &queue))?;
        Ok(LocalGuard {
            state,
            keys_max,
            writes: Some(writes),
            thread: Some(thread),
        })
    }

    /// Takes the key in memory.
    fn take(&self, key: &str, now_secs: u64, until_secs: u64) -> Claim {
        let mut state = lock(&self.state);
        if state.claims.get(key).is_some_and(|until| now_secs < *until) {
            return Claim::Seen;
        }
        if state.claims.len() >= self.keys_max {
            state.claims.retain(|_, until| now_secs < *until);
        }
        if state.claims.len() >= self.keys_max {
            return Claim::Unavailable;
        }
        state.claims.insert(key.to_owned(), until_secs);
        Claim::First
    }

    fn spend_one(&self, bucket: &str, now_secs: u64, limit: u32, window_secs: u64) -> Spend {
        let mut state = lock(&self.state);
        if !state.buckets.contains_key(bucket) && state.buckets.len() >= self.keys_max {
            state
                .buckets
                .retain(|_, bucket| now_secs < bucket.ends_secs);
            if state.buckets.len() >= self.keys_max {
                return Spend::Unavailable;
            }
        }
        let ends_secs = now_secs.saturating_add(window_secs);
        let fresh = || Bucket {
            began_secs: now_secs,
            ends_secs,
            spent: 0,
        };
        let bucket = state.buckets.entry(bucket.to_owned()).or_insert_with(fresh);
        // A clock that went back begins a new window too; otherwise the present one could last for ever.
        if now_secs >= bucket.ends_secs || now_secs < bucket.began_secs {
            *bucket = fresh();
        }
        if bucket.spent >= limit {
            return Spend::RetryIn {
                secs: (bucket.ends_secs - now_secs).max(1),
            };
        }
        bucket.spent += 1;
        Spend::Ok
    }
}

impl Guard for LocalGuard {
    fn claim(&self, key: String, now_secs: u64, until_secs: u64) -> BoxFuture<Claim> {
        let answered = |claim| -> BoxFuture<Claim> { Box::pin(std::future::ready(claim)) };
        if key.len() > KEY_BYTES_MAX {
            return answered(Claim::Unavailable);
        }
        match self.take(&key, now_secs, until_secs) {
            Claim::First => {}
            other => return answered(other),
        }
        let (durable, on_disk) = oneshot::channel();
        let write = NewClaim {
            key: key.clone(),
            now_secs,
            until_secs,
            durable,
        };
        let queued = self
            .writes
            .as_ref()
            .is_some_and(|writes| writes.try_send(write).is_ok());
        let state = Arc::clone(&self.state);
        Box::pin(async move {
            if queued && on_disk.await == Ok(true) {
                return Claim::First;
            }
            // The claimant is refused, so its key is free for another try.
            lock(&state).claims.remove(&key);
            Claim::Unavailable
        })
    }

    fn spend(
        &self,
        bucket: String,
        now_secs: u64,
        limit: u32,
        window_secs: u64,
    ) -> BoxFuture<Spend> {
        let spend = if bucket.len() > KEY_BYTES_MAX {
            Spend::Unavailable
        } else {
            self.spend_one(&bucket, now_secs, limit, window_secs)
        };
        Box::pin(std::future::ready(spend))
    }
}

impl Drop for LocalGuard {
    fn drop(&mut self) {
        self.writes = None;
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            tracing::error!("the guard's thread ended with a panic");
        }
    }
}

/// A panic while the lock is held leaves the maps as they were.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load_claims(db: &Connection) -> rusqlite::Result<BTreeMap<String, u64>> {
    let mut statement = db.prepare("SELECT key, until_secs FROM claim")?;
    let rows = statement.query_map([], |row| {
        let until: i64 = row.get(1)?;
        Ok((row.get(0)?, u64::try_from(until).unwrap_or(0)))
    })?;
    rows.collect()
}

/// Writes claims in batches until every sender is gone, and forgets those that have ended.
fn make_durable(db: &Connection, queue: &Receiver<NewClaim>) {
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX
            && let Ok(next) = queue.try_recv()
        {
            batch.push(next);
        }
        let written = write_claims(db, &batch)
            .inspect_err(|error| tracing::error!(%error, "claims could not be written"));
        for claim in batch {
            // A claimant that is gone keeps its claim.
            let _ = claim.durable.send(written.is_ok());
        }
    }
}

fn write_claims(db: &Connection, batch: &[NewClaim]) -> rusqlite::Result<()> {
    let tx = db.unchecked_transaction()?;
    for claim in batch {
        let until = i64::try_from(claim.until_secs).unwrap_or(i64::MAX);
        tx.prepare_cached(
            "INSERT INTO claim (key, until_secs) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET until_secs = excluded.until_secs",
        )?
        .execute(params![claim.key, until])?;
        let now = i64::try_from(claim.now_secs).unwrap_or(i64::MAX);
        tx.prepare_cached("DELETE FROM claim WHERE until_secs <= ?1")?
            .execute([now])?;
    }
    tx.commit()
}
