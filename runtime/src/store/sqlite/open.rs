//! Opening the data directory: its lock, the connections and their settings, migrations, and the key the file belongs to.
//! Statements of the relay's work do not belong here.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use holdfast_core::nostr::PubKey;
use rusqlite::{Connection, OptionalExtension};
use rusqlite_migration::{M, Migrations};

/// The database inside the data directory.
const DATABASE_FILE: &str = "holdfast.sqlite";
/// The file whose lock says that a process uses the data directory.
const LOCK_FILE: &str = "holdfast.lock";
/// Prepared statements each connection keeps.
const STATEMENTS_CACHED_MAX: usize = 128;
/// Pages of the write-ahead log after which they are copied into the database: each page once, however often it was written.
const WAL_PAGES_MAX: u32 = 4_096;
/// Bytes of the write-ahead log file that are kept after a checkpoint.
const WAL_KEPT_BYTES: i64 = 64 * 1024 * 1024;

static MIGRATIONS: LazyLock<Migrations<'static>> = LazyLock::new(|| {
    Migrations::new(vec![
        M::up(include_str!(
            "../../../../migrations/sqlite/0001_initial.sql"
        )),
        M::up(include_str!("../../../../migrations/sqlite/0002_sync.sql")),
    ])
});

/// Why a data directory cannot be used; the text says what to do where something can be done.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory or its lock file cannot be created.
    #[error("cannot use the data directory {dir}: {source}", dir = dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process holds the lock.
    #[error(
        "the data directory {dir} is in use by another relay (process {holder}): stop that relay or choose another data directory",
        dir = dir.display()
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process id that the holder wrote, or `unknown`.
        holder: String,
    },
    /// SQLite refuses the file.
    #[error("cannot open the database in {dir}: {source}", dir = dir.display())]
    Database {
        /// The directory.
        dir: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// The schema cannot be brought up to date.
    #[error("cannot migrate the database in {dir}: {source}", dir = dir.display())]
    Migration {
        /// The directory.
        dir: PathBuf,
        /// Why; a file of a later release is one reason.
        source: rusqlite_migration::Error,
    },
    /// The database was made with another relay key.
    #[error(
        "the database in {dir} belongs to the relay key {recorded}, not to {given}: start with that relay's secret key or choose another data directory",
        dir = dir.display()
    )]
    OtherKey {
        /// The directory.
        dir: PathBuf,
        /// The recorded key.
        recorded: PubKey,
        /// The key in use.
        given: PubKey,
    },
}

/// The lock of a data directory; released when dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

/// Creates the directory if needed, readable by its owner only, and takes its lock.
///
/// # Errors
/// [`OpenError::Directory`], [`OpenError::InUse`].
pub(super) fn lock(dir: &Path) -> Result<DirectoryLock, OpenError> {
    let failed = |source| OpenError::Directory {
        dir: dir.to_owned(),
        source,
    };
    create_directory(dir).map_err(failed)?;
    let path = dir.join(LOCK_FILE);
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = fs::read_to_string(&path).unwrap_or_default();
            let holder = holder.trim();
            return Err(OpenError::InUse {
                dir: dir.to_owned(),
                holder: if holder.is_empty() { "unknown" } else { holder }.to_owned(),
            });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0).map_err(failed)?;
    writeln!(file, "{}", std::process::id()).map_err(failed)?;
    Ok(DirectoryLock { _file: file })
}

fn create_directory(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Path of the database of a data directory.
pub(super) fn database_path(dir: &Path) -> PathBuf {
    dir.join(DATABASE_FILE)
}

/// Opens a database for writing: write-ahead log, every commit synced to disk before it returns, foreign keys enforced.
///
/// # Errors
/// What SQLite says; also when the file system allows no write-ahead log.
pub(crate) fn writing_connection(
    path: &Path,
    busy_timeout: Duration,
) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_timeout(busy_timeout)?;
    db.pragma_update_and_check(None, "journal_mode", "wal", |row| {
        let mode: String = row.get(0)?;
        if mode == "wal" {
            return Ok(());
        }
        Err(super::codes::corrupt(
            0,
            "journal mode: the file system allows no write-ahead log",
        ))
    })?;
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "trusted_schema", false)?;
    db.pragma_update(None, "cache_size", -32 * 1024)?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", WAL_PAGES_MAX, |_| Ok(()))?;
    db.pragma_update_and_check(None, "journal_size_limit", WAL_KEPT_BYTES, |_| Ok(()))?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
    Ok(db)
}

/// Opens a connection that can only read.
///
/// # Errors
/// What SQLite says.
pub(super) fn reading_connection(
    path: &Path,
    busy_timeout: Duration,
) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_timeout(busy_timeout)?;
    db.pragma_update(None, "query_only", true)?;
    db.pragma_update(None, "trusted_schema", false)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_CACHED_MAX);
    rusqlite::vtab::array::load_module(&db)?;
    Ok(db)
}

/// Brings the schema up to date and checks that the file belongs to the relay key; a new file is given to it.
///
/// # Errors
/// [`OpenError::Migration`], [`OpenError::Database`], [`OpenError::OtherKey`].
pub(super) fn prepare(db: &mut Connection, dir: &Path, relay: PubKey) -> Result<(), OpenError> {
    MIGRATIONS
        .to_latest(db)
        .map_err(|source| OpenError::Migration {
            dir: dir.to_owned(),
            source,
        })?;
    let recorded = owner_of(db, relay).map_err(|source| OpenError::Database {
        dir: dir.to_owned(),
        source,
    })?;
    if recorded == relay {
        Ok(())
    } else {
        Err(OpenError::OtherKey {
            dir: dir.to_owned(),
            recorded,
            given: relay,
        })
    }
}

/// The recorded relay key; `relay` is recorded where none is.
fn owner_of(db: &Connection, relay: PubKey) -> rusqlite::Result<PubKey> {
    let recorded: Option<[u8; 32]> = db
        .query_row(
            "SELECT value FROM meta WHERE name = 'relay_key'",
            [],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(bytes) = recorded {
        return Ok(PubKey::from_bytes(bytes));
    }
    db.execute(
        "INSERT INTO meta (name, value) VALUES ('relay_key', ?1)",
        [relay.as_bytes()],
    )?;
    Ok(relay)
}

#[cfg(test)]
mod tests {
    use super::MIGRATIONS;

    #[test]
    fn migrations_apply_to_an_empty_file() {
        MIGRATIONS
            .validate()
            .expect("every migration applies in order");
    }
}
