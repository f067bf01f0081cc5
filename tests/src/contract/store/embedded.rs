//! The embedded store as a subject of the contract.

use std::sync::Arc;

use holdfast_relay::store::sqlite::{SqliteSettings, SqliteStore};
use tempfile::TempDir;

use super::{Bounds, Subject, Subjects, policy};
use crate::contract::wait;

/// Stores of their own directories.
#[derive(Clone, Copy, Debug)]
pub struct Sqlite;

impl Subjects for Sqlite {
    fn open(&self, bounds: Bounds) -> Subject {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let settings = SqliteSettings {
            snapshots_max: bounds.snapshots_max,
            sync_snapshots_max: bounds.sync_snapshots_max,
            wait_ms: bounds.wait_ms,
            snapshot_budget_ms: bounds.snapshot_budget_ms,
            ..SqliteSettings::new(dir.path(), policy(bounds.profile))
        };
        subject(settings, dir)
    }
}

/// An embedded store with these settings; the directory lives as long.
///
/// # Panics
/// When it does not open.
pub fn subject(settings: SqliteSettings, dir: TempDir) -> Subject {
    let store = SqliteStore::open(settings).expect("an empty directory opens");
    let community =
        |host: &str| wait(store.ensure_community(host.to_owned())).expect("a community");
    let (one, two) = (community("one.example"), community("two.example"));
    Subject {
        store: Arc::new(store),
        one,
        two,
        holds: Box::new(dir),
    }
}
