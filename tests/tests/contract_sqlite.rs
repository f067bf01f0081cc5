//! The contracts of store, bus and guard, kept by the adapters of a relay that runs as one process; and what only the embedded
//! store promises: its file, its lock, its disk.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use futures::future::join_all;
use holdfast_core::accept::{Profile, RelayKey};
use holdfast_core::ids::Position;
use holdfast_core::node::{Settled, SubmitOutcome};
use holdfast_core::nostr::{Event, EventId};
use holdfast_core::rules;
use holdfast_relay::bus::local::LocalBus;
use holdfast_relay::guard::local::LocalGuard;
use holdfast_relay::node::ports::{Bus, Claim, Guard, Spend};
use holdfast_relay::store::sqlite::{Durability, OpenError, SqliteSettings, SqliteStore};
use holdfast_tests::build;
use holdfast_tests::contract::bus::{self, Buses};
use holdfast_tests::contract::guard::{self, Guards};
use holdfast_tests::contract::store::{
    Bounds, Subject, Subjects, agreement, by_author, policy, reads, syncs, writes,
};
use holdfast_tests::contract::wait;
use rusqlite::Connection;
use tempfile::TempDir;

struct Sqlite;

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

fn subject(settings: SqliteSettings, dir: TempDir) -> Subject {
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

struct Local;

impl Buses for Local {
    fn open(&self, events_max: usize) -> Arc<dyn Bus> {
        Arc::new(LocalBus::new(events_max))
    }
}

struct LocalGuards {
    dir: TempDir,
}

impl LocalGuards {
    fn new() -> LocalGuards {
        LocalGuards {
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn guard(&self, keys_max: usize) -> LocalGuard {
        LocalGuard::open(self.dir.path(), keys_max).expect("a guard")
    }
}

impl Guards for LocalGuards {
    fn open(&self, keys_max: usize) -> Arc<dyn Guard> {
        Arc::new(self.guard(keys_max))
    }

    fn reopen(&self, guard: Arc<dyn Guard>) -> Arc<dyn Guard> {
        drop(guard);
        Arc::new(self.guard(100))
    }
}

#[test]
fn an_event_is_stored_once_and_served_unchanged() {
    writes::an_event_is_stored_once_and_served_unchanged(&Sqlite);
}

#[test]
fn one_of_many_competing_revisions_wins() {
    rules!("AR-ID-9", "AR-ID-10", "AR-ID-11");
    writes::one_of_many_competing_revisions_wins(&Sqlite);
}

#[test]
fn one_of_many_competing_creations_wins() {
    rules!("AR-ID-5");
    writes::one_of_many_competing_creations_wins(&Sqlite);
}

#[test]
fn a_move_is_one_commit() {
    rules!("AR-MOVE-4", "AR-MOVE-5");
    writes::a_move_is_one_commit(&Sqlite);
}

#[test]
fn one_event_stays_in_a_slot() {
    writes::one_event_stays_in_a_slot(&Sqlite);
}

#[test]
fn a_failing_submission_hurts_no_other() {
    writes::a_failing_submission_hurts_no_other(&Sqlite);
}

#[test]
fn the_ledger_holds_every_change_once() {
    rules!("AR-CUR-7");
    writes::the_ledger_holds_every_change_once(&Sqlite);
}

#[test]
fn dropped_futures_leave_nothing_open() {
    writes::dropped_futures_leave_nothing_open(&Sqlite);
}

#[test]
fn an_untaken_page_ends_the_history() {
    writes::an_untaken_page_ends_the_history(&Sqlite);
}

#[test]
fn communities_are_separate() {
    writes::communities_are_separate(&Sqlite);
}

#[test]
fn memberships_end_and_begin_again() {
    writes::memberships_end_and_begin_again(&Sqlite);
}

#[test]
fn deletions_hold_for_late_events() {
    writes::deletions_hold_for_late_events(&Sqlite);
}

#[test]
fn a_redacted_head_stays_the_head() {
    rules!("AR-MOD-3", "AR-MOD-8");
    writes::a_redacted_head_stays_the_head(&Sqlite);
}

#[test]
fn a_history_shows_one_moment() {
    reads::a_history_shows_one_moment(&Sqlite);
}

#[test]
fn a_query_shows_one_moment() {
    reads::a_query_shows_one_moment(&Sqlite);
}

#[test]
fn pages_keep_their_bounds() {
    reads::pages_keep_their_bounds(&Sqlite);
}

#[test]
fn nothing_follows_the_last_page() {
    reads::nothing_follows_the_last_page(&Sqlite);
}

#[test]
fn a_history_has_a_deadline() {
    reads::a_history_has_a_deadline(&Sqlite);
}

#[test]
fn histories_are_bounded() {
    reads::histories_are_bounded(&Sqlite);
}

#[test]
fn a_query_has_a_budget() {
    rules!("AR-CUR-20", "AR-CUR-23");
    reads::a_query_has_a_budget(&Sqlite);
}

#[test]
fn reads_are_fresh() {
    rules!("AR-ACC-6");
    reads::reads_are_fresh(&Sqlite);
}

#[test]
fn a_chain_of_cursors_misses_nothing() {
    reads::a_chain_of_cursors_misses_nothing(&Sqlite);
}

#[test]
fn live_reads_return_events_and_access() {
    reads::live_reads_return_events_and_access(&Sqlite);
}

#[test]
fn rows_come_in_order_and_once() {
    rules!("CL-FIND-7");
    reads::rows_come_in_order_and_once(&Sqlite);
}

#[test]
fn expired_events_are_not_served() {
    reads::expired_events_are_not_served(&Sqlite);
}

#[test]
fn artifact_views_follow_acceptance() {
    rules!(
        "AR-CUR-2",
        "AR-CUR-3",
        "AR-CUR-4",
        "AR-CUR-5",
        "AR-HEAD-4",
        "AR-HEAD-8"
    );
    reads::artifact_views_follow_acceptance(&Sqlite);
}

#[test]
fn a_working_store_is_healthy() {
    reads::a_working_store_is_healthy(&Sqlite);
}

#[test]
fn every_read_agrees_with_the_evaluator() {
    rules!(
        "AR-CUR-14",
        "AR-CUR-15",
        "AR-ACC-1",
        "CL-SYS-9",
        "CL-NTC-14",
        "CL-NTC-18"
    );
    agreement::every_read_agrees_with_the_evaluator(&Sqlite);
}

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
    syncs::head_reads_return_heads_markers_and_access(&Sqlite);
}

#[test]
fn a_head_read_keeps_its_byte_bound() {
    rules!("AR-SYNC-8c");
    syncs::a_head_read_keeps_its_byte_bound(&Sqlite);
}

#[test]
fn sync_reads_are_fresh() {
    rules!("AR-SYNC-2c", "AR-SYNC-2d", "AR-SYNC-4g");
    syncs::sync_reads_are_fresh(&Sqlite);
}

#[test]
fn access_stamps_move_with_access_only() {
    syncs::access_stamps_move_with_access_only(&Sqlite);
}

#[test]
fn syncs_of_communities_are_separate() {
    syncs::syncs_of_communities_are_separate(&Sqlite);
}

#[test]
fn a_confirmed_topic_delivers() {
    bus::a_confirmed_topic_delivers(&Local);
}

#[test]
fn only_active_topics_deliver() {
    bus::only_active_topics_deliver(&Local);
}

#[test]
fn next_waits() {
    bus::next_waits(&Local);
}

#[test]
fn a_refused_message_is_a_reported_loss() {
    bus::a_refused_message_is_a_reported_loss(&Local);
}

#[test]
fn no_gap_goes_unreported() {
    bus::no_gap_goes_unreported(&Local);
}

#[test]
fn a_key_is_claimed_once() {
    guard::a_key_is_claimed_once(&LocalGuards::new());
}

#[test]
fn one_of_many_claimants_is_the_first() {
    guard::one_of_many_claimants_is_the_first(&LocalGuards::new());
}

#[test]
fn claims_outlive_the_process() {
    guard::claims_outlive_the_process(&LocalGuards::new());
}

#[test]
fn a_bucket_holds_its_units() {
    guard::a_bucket_holds_its_units(&LocalGuards::new());
}

/// The database of a subject's directory, opened by a foreign hand.
fn foreign(dir: &Path) -> Connection {
    Connection::open(dir.join("holdfast.sqlite")).expect("the file is there")
}

fn settings(dir: &TempDir) -> SqliteSettings {
    SqliteSettings {
        busy_timeout_ms: 100,
        ..SqliteSettings::new(dir.path(), policy(Profile::Open))
    }
}

fn note(number: usize) -> Event {
    build::event(&build::key(1), 1, vec![], &format!("note {number}"))
}

#[test]
fn the_live_writer_syncs_every_commit() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = SqliteStore::open(settings(&dir)).expect("opens");
    let expected = Durability {
        journal_mode: "wal".to_owned(),
        synchronous: 2,
        foreign_keys: true,
    };
    assert_eq!(wait(store.durability()), Ok(expected));
}

#[test]
fn a_directory_serves_one_process() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = SqliteStore::open(settings(&dir)).expect("opens");
    let error = SqliteStore::open(settings(&dir)).expect_err("the directory is in use");
    let text = error.to_string();
    assert!(matches!(error, OpenError::InUse { .. }), "{text}");
    assert!(
        text.contains(&std::process::id().to_string()) && text.contains("stop that relay"),
        "{text}"
    );
    drop(store);
    SqliteStore::open(settings(&dir)).expect("opens again");
}

#[test]
fn a_database_belongs_to_its_relay_key() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(SqliteStore::open(settings(&dir)).expect("opens"));
    let mut other = settings(&dir);
    other.policy.relay_key = RelayKey::new(build::key(5));
    let error = SqliteStore::open(other).expect_err("another key");
    assert!(matches!(error, OpenError::OtherKey { .. }), "{error}");
    SqliteStore::open(settings(&dir)).expect("the right key opens it");
}

#[test]
fn a_database_of_a_later_release_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(SqliteStore::open(settings(&dir)).expect("opens"));
    foreign(dir.path())
        .pragma_update(None, "user_version", 1_000)
        .expect("a pragma");
    let error = SqliteStore::open(settings(&dir)).expect_err("unknown schema");
    assert!(matches!(error, OpenError::Migration { .. }), "{error}");
}

#[test]
fn communities_and_events_outlive_the_process() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let first = subject(settings(&dir), tempfile::tempdir().expect("another one"));
    let event = note(1);
    first.stored(&event);
    let one = first.one;
    drop(first);
    let again = subject(settings(&dir), tempfile::tempdir().expect("another one"));
    assert_eq!(again.one, one);
    assert!(matches!(again.submit(event), SubmitOutcome::Already { .. }));
    assert_eq!(again.stored(&note(2))[0].position, Position(2));
}

#[test]
fn a_foreign_write_lock_fails_writes_and_loses_none() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let subject = subject(settings(&dir), tempfile::tempdir().expect("another one"));
    subject.stored(&note(1));
    let lock = foreign(dir.path());
    lock.execute_batch("BEGIN IMMEDIATE")
        .expect("the lock is free");
    assert_eq!(subject.submit(note(2)), SubmitOutcome::Failed);
    assert!(
        wait(subject.store.health())
            .expect_err("cannot write")
            .contains("write")
    );
    let plan = || subject.plan(&[], r#"{"kinds":[1]}"#);
    assert_eq!(subject.count(vec![plan()]), 1, "reads go on");
    lock.execute_batch("ROLLBACK")
        .expect("the lock is given back");
    assert_eq!(subject.stored(&note(2))[0].position, Position(2));
    assert_eq!(wait(subject.store.health()), Ok(()));
    assert_eq!(subject.count(vec![plan()]), 2);
}

#[test]
fn a_full_queue_is_busy_and_what_was_queued_is_stored() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let bounds = SqliteSettings {
        submits_waiting_max: 8,
        busy_timeout_ms: 10_000,
        ..settings(&dir)
    };
    let subject = subject(bounds, tempfile::tempdir().expect("another one"));
    let lock = foreign(dir.path());
    lock.execute_batch("BEGIN IMMEDIATE")
        .expect("the lock is free");
    let submitted: Vec<_> = (0..60)
        .map(|number| subject.store.submit(by_author(subject.one, note(number))))
        .collect();
    lock.execute_batch("ROLLBACK")
        .expect("the lock is given back");
    let outcomes = wait(join_all(submitted));
    let busy = outcomes
        .iter()
        .filter(|outcome| **outcome == SubmitOutcome::Busy)
        .count();
    let stored = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, SubmitOutcome::Stored { .. }))
        .count();
    assert_eq!(busy + stored, 60, "{outcomes:?}");
    assert!(
        busy >= 60 - 8 - 33 && stored >= 8,
        "{busy} busy, {stored} stored"
    );
    assert_eq!(
        subject.count(vec![subject.plan(&[], r#"{"kinds":[1]}"#)]),
        stored as u64
    );
}

/// The stamp in the ledger is the name of a transaction whose outcome was not known.
#[test]
fn what_became_of_a_commit_is_read_from_the_ledger() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let subject = subject(settings(&dir), tempfile::tempdir().expect("another one"));
    let submitted: Vec<_> = (0..40)
        .map(|number| subject.store.submit(by_author(subject.one, note(number))))
        .collect();
    wait(join_all(submitted));
    let db = foreign(dir.path());
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

/// The database refuses one event of a batch after part of it was written.
#[test]
fn a_refused_row_undoes_its_own_event_only() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let subject = subject(
        SqliteSettings {
            busy_timeout_ms: 10_000,
            ..settings(&dir)
        },
        tempfile::tempdir().expect("another one"),
    );
    let events: Vec<Event> = (0..20).map(note).collect();
    let refused = events[7].id;
    let lock = foreign(dir.path());
    lock.execute_batch(&format!(
        "CREATE TRIGGER refuse BEFORE INSERT ON ledger WHEN new.event = x'{refused}' BEGIN SELECT raise(ABORT, 'refused'); END;
         BEGIN IMMEDIATE;"
    ))
    .expect("a trigger");
    let submitted: Vec<_> = events
        .iter()
        .map(|event| subject.store.submit(by_author(subject.one, event.clone())))
        .collect();
    lock.execute_batch("ROLLBACK")
        .expect("the lock is given back");
    let outcomes = wait(join_all(submitted));
    for (number, outcome) in outcomes.iter().enumerate() {
        match outcome {
            SubmitOutcome::Failed => assert_eq!(number, 7),
            SubmitOutcome::Stored { .. } => assert_ne!(number, 7),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        subject.count(vec![subject.plan(&[], r#"{"kinds":[1]}"#)]),
        19
    );
    let positions: Vec<u64> = subject
        .ledger()
        .iter()
        .map(|(_, row)| row.position.0)
        .collect();
    assert_eq!(
        positions,
        (1..=19).collect::<Vec<_>>(),
        "the undone event left no gap"
    );
    lock.execute_batch("DROP TRIGGER refuse").expect("dropped");
    subject.stored(&events[7]);
}

/// The database ends the whole transaction at one event of a batch.
#[test]
fn a_lost_transaction_is_repeated_without_what_broke_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let subject = subject(
        SqliteSettings {
            busy_timeout_ms: 10_000,
            ..settings(&dir)
        },
        tempfile::tempdir().expect("another one"),
    );
    let events: Vec<Event> = (0..20).map(note).collect();
    let lock = foreign(dir.path());
    lock.execute_batch(&format!(
        "CREATE TRIGGER refuse BEFORE INSERT ON ledger WHEN new.event = x'{}' BEGIN SELECT raise(ROLLBACK, 'refused'); END;
         BEGIN IMMEDIATE;",
        events[7].id
    ))
    .expect("a trigger");
    let submitted: Vec<_> = events
        .iter()
        .map(|event| subject.store.submit(by_author(subject.one, event.clone())))
        .collect();
    lock.execute_batch("ROLLBACK")
        .expect("the lock is given back");
    let outcomes = wait(join_all(submitted));
    let failed: Vec<usize> = outcomes
        .iter()
        .enumerate()
        .filter(|(_, outcome)| !matches!(outcome, SubmitOutcome::Stored { .. }))
        .map(|(number, _)| number)
        .collect();
    assert_eq!(failed, [7], "{outcomes:?}");
    assert_eq!(outcomes[7], SubmitOutcome::Failed);
    assert_eq!(
        subject.count(vec![subject.plan(&[], r#"{"kinds":[1]}"#)]),
        19
    );
}

#[test]
fn a_full_disk_fails_writes_and_keeps_what_was_acknowledged() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let small = SqliteSettings {
        pages_max: Some(120),
        ..settings(&dir)
    };
    let full = subject(small, tempfile::tempdir().expect("another one"));
    let events: Vec<Event> = (0..400)
        .map(|number| build::event(&build::key(1), 1, vec![], &format!("{number:0>3000}")))
        .collect();
    let outcomes =
        wait(join_all(events.iter().map(|event| {
            full.store.submit(by_author(full.one, event.clone()))
        })));
    let stored: BTreeSet<EventId> = events
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| matches!(outcome, SubmitOutcome::Stored { .. }))
        .map(|(event, _)| event.id)
        .collect();
    assert!(
        outcomes.iter().all(|outcome| matches!(
            outcome,
            SubmitOutcome::Stored { .. } | SubmitOutcome::Failed
        )),
        "{outcomes:?}"
    );
    assert!(
        stored.len() > 20 && stored.len() < 300,
        "{} stored",
        stored.len()
    );
    assert_eq!(full.submit(events[399].clone()), SubmitOutcome::Failed);
    let served = |subject: &Subject| -> BTreeSet<EventId> {
        let rows = subject.rows(vec![subject.plan(&[], r#"{"kinds":[1]}"#)]);
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(served(&full), stored);
    drop(full);
    let larger = subject(settings(&dir), tempfile::tempdir().expect("another one"));
    assert_eq!(served(&larger), stored);
    larger.stored(&events[399]);
    let positions: Vec<u64> = larger
        .ledger()
        .iter()
        .map(|(_, row)| row.position.0)
        .collect();
    assert_eq!(positions, (1..=stored.len() as u64 + 1).collect::<Vec<_>>());
}

#[test]
fn a_full_guard_refuses_and_works_again_when_claims_end() {
    let guards = LocalGuards::new();
    let guard = guards.open(10);
    let claim = |key: String, now| wait(guard.claim(key, now, now + 60));
    for number in 0..10 {
        assert_eq!(claim(number.to_string(), 1_000), Claim::First);
        assert_eq!(
            wait(guard.spend(number.to_string(), 1_000, 1, 60)),
            Spend::Ok
        );
    }
    assert_eq!(claim("one more".to_owned(), 1_000), Claim::Unavailable);
    assert_eq!(claim("3".to_owned(), 1_000), Claim::Seen);
    assert_eq!(
        wait(guard.spend("one more".to_owned(), 1_000, 1, 60)),
        Spend::Unavailable
    );
    assert_eq!(claim("one more".to_owned(), 1_060), Claim::First);
    assert_eq!(
        wait(guard.spend("one more".to_owned(), 1_060, 1, 60)),
        Spend::Ok
    );
    assert_eq!(claim("x".repeat(10_000), 1_060), Claim::Unavailable);
}

#[test]
fn a_guard_that_cannot_write_refuses() {
    let guards = LocalGuards::new();
    let guard = guards.open(10);
    let lock = Connection::open(guards.dir.path().join("guard.sqlite")).expect("the file is there");
    lock.execute_batch("BEGIN IMMEDIATE")
        .expect("the lock is free");
    assert_eq!(
        wait(guard.claim("key".to_owned(), 1_000, 1_060)),
        Claim::Unavailable
    );
    lock.execute_batch("ROLLBACK")
        .expect("the lock is given back");
    assert_eq!(
        wait(guard.claim("key".to_owned(), 1_000, 1_060)),
        Claim::First
    );
}
