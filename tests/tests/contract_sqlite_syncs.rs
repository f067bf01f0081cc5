//! The contract of stores about syncs, kept by the embedded store; and how it tells what became of a commit.

use futures::future::join_all;
use holdfast_core::accept::Profile;
use holdfast_core::node::Settled;
use holdfast_core::rules;
use holdfast_relay::store::sqlite::SqliteSettings;
use holdfast_tests::build;
use holdfast_tests::contract::store::embedded::{Sqlite, subject};
use holdfast_tests::contract::store::{agreement, by_author, heads, policy, syncs};
use holdfast_tests::contract::wait;
use rusqlite::Connection;

#[test]
fn initial_sets_agree_with_the_evaluator() {
    rules!("AR-CUR-14", "AR-SYNC-2e", "AR-SYNC-2h");
    agreement::initial_sets_agree_with_the_evaluator(&Sqlite);
}

#[test]
fn an_initial_set_shows_one_moment() {
    rules!(
        "AR-SYNC-2a",
        "AR-SYNC-2e",
        "AR-SYNC-2f",
        "AR-SYNC-2g",
        "AR-SYNC-6b"
    );
    syncs::an_initial_set_shows_one_moment(&Sqlite);
}

#[test]
fn pages_of_an_initial_set_keep_their_bounds() {
    rules!("AR-SYNC-2e", "AR-SYNC-8c");
    syncs::pages_of_an_initial_set_keep_their_bounds(&Sqlite);
}

#[test]
fn an_initial_read_tells_access() {
    syncs::an_initial_read_tells_access(&Sqlite);
}

#[test]
fn an_initial_read_has_a_deadline() {
    rules!("AR-SYNC-2j");
    syncs::an_initial_read_has_a_deadline(&Sqlite);
}

#[test]
fn initial_reads_are_bounded() {
    syncs::initial_reads_are_bounded(&Sqlite);
}

#[test]
fn dropped_initial_reads_leave_nothing_open() {
    rules!("AR-SYNC-8d");
    syncs::dropped_initial_reads_leave_nothing_open(&Sqlite);
}

#[test]
fn head_reads_return_heads_markers_and_access() {
    heads::head_reads_return_heads_markers_and_access(&Sqlite);
}

#[test]
fn a_head_read_keeps_its_byte_bound() {
    rules!("AR-SYNC-8c");
    heads::a_head_read_keeps_its_byte_bound(&Sqlite);
}

#[test]
fn sync_reads_are_fresh() {
    rules!("AR-SYNC-2c", "AR-SYNC-2d", "AR-SYNC-4g");
    syncs::sync_reads_are_fresh(&Sqlite);
}

#[test]
fn access_stamps_move_with_access_only() {
    heads::access_stamps_move_with_access_only(&Sqlite);
}

#[test]
fn syncs_of_communities_are_separate() {
    syncs::syncs_of_communities_are_separate(&Sqlite);
}

/// The stamp in the ledger is the name of a transaction whose outcome was not known.
#[test]
fn what_became_of_a_commit_is_read_from_the_ledger() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let subject = subject(
        SqliteSettings::new(dir.path(), policy(Profile::Open)),
        tempfile::tempdir().expect("another one"),
    );
    let submitted: Vec<_> = (0..40)
        .map(|number| {
            subject.store.submit(by_author(
                subject.one,
                build::event(&build::key(1), 1, vec![], &number.to_string()),
            ))
        })
        .collect();
    wait(join_all(submitted));
    let db = Connection::open(dir.path().join("holdfast.sqlite")).expect("the file is there");
    let mut statement = db
        .prepare("SELECT stamp_us FROM ledger ORDER BY position")
        .expect("a statement");
    let stamps = statement.query_map([], |row| row.get::<_, i64>(0));
    let stamps: Vec<u64> = stamps
        .expect("rows")
        .map(|stamp| stamp.expect("a stamp").unsigned_abs())
        .collect();
    assert_eq!(stamps.len(), 40);
    assert!(
        stamps.windows(2).all(|pair| pair[0] < pair[1]),
        "also within a batch: {stamps:?}"
    );
    let settle = |stamp| wait(subject.store.settle(stamp));
    for stamp in &stamps {
        assert_eq!(settle(*stamp), Settled::Committed);
    }
    assert_eq!(settle(stamps[39] + 1), Settled::Aborted);
    assert_eq!(settle(stamps[0] - 1), Settled::Aborted);
    assert_eq!(settle(0), Settled::Forgotten, "no transaction was named");
}
