//! Reads: one snapshot, whole pages, bounded, fresh, in the plan's order (S1, S4, S6).

use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::ids::Position;
use holdfast_core::node::{QueryKind, ReadFailure, SubmitOutcome};
use holdfast_core::nostr::{Draft, Event, EventId, kinds};
use holdfast_core::scope::{Cut, Stamp};

use super::{
    AMPLE_MS, Bounds, Subject, Subjects, by_author, by_position, live_query, notes, texts,
};
use crate::build::{self, Revision, now, tag};
use crate::contract::{wait, wait_at_most};

/// A history shows one moment on all its pages, whatever is written between them, and its cut says which.
pub fn a_history_shows_one_moment(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let reader = owner.public_key();
    let channel = subject.channel(&owner, &[&["visibility", "private"]]);
    let events = notes(&owner, (0..30).map(|second| now() - second));
    let mut before = Vec::new();
    for event in &events {
        before.extend(subject.stored(event));
    }
    let plans = || {
        let named = format!(r##"{{"kinds":[9],"#h":["{channel}"]}}"##);
        vec![
            subject.plan(&[reader], r#"{"kinds":[1]}"#),
            subject.plan(&[reader], &named),
        ]
    };
    let chat = build::chat(&owner, channel, "before");
    before.extend(subject.stored(&chat));
    let mut history = wait(subject.store.open_history(plans())).expect("a history");
    let first = wait(history.next(10, usize::MAX)).expect("a page");
    let mut after = Vec::new();
    for event in notes(&owner, (100..120).map(|second| now() - second)) {
        after.extend(subject.stored(&event));
    }
    after.extend(subject.stored(&build::deletion(&owner, &[events[25].id, events[3].id])));
    after.extend(subject.stored(&build::delete_channel(&owner, channel)));
    let mut rows = first.rows.clone();
    let mut end = first.end;
    while end.is_none() {
        let page = wait(history.next(10, usize::MAX)).expect("a page");
        assert_eq!(
            page.readable,
            BTreeSet::from([channel]),
            "judged in the snapshot"
        );
        rows.extend(page.rows);
        end = page.end;
    }
    let expected: Vec<String> = events.iter().chain([&chat]).map(Event::to_json).collect();
    assert_eq!(texts(&rows), expected);
    let end = end.expect("the last page");
    let covers = |position: Position| end.covers(&Stamp { position, xid: 0 });
    assert!(
        by_position(&before)
            .keys()
            .all(|position| covers(*position))
    );
    assert!(!by_position(&after).keys().any(|position| covers(*position)));
    let pages = subject
        .pages(plans(), 100, usize::MAX)
        .expect("a later history");
    assert_eq!(
        pages.iter().map(|page| page.rows.len()).sum::<usize>(),
        30 - 2 + 20
    );
    assert!(
        pages.iter().all(|page| page.readable.is_empty()),
        "the channel is deleted"
    );
}

/// One query sees one moment: a replaceable event is never missing and never there twice while it is being replaced.
pub fn a_query_shows_one_moment(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let key = build::fresh_key();
    let profile = |number: u64| {
        let content = format!("version {number}");
        Draft {
            created_at: now() - 500 + number,
            kind: 0,
            tags: vec![],
            content,
        }
        .sign(&key)
    };
    subject.stored(&profile(0));
    let store = std::sync::Arc::clone(&subject.store);
    let versions: Vec<Event> = (1..300).map(profile).collect();
    let one = subject.one;
    let writer = std::thread::spawn(move || {
        for event in versions {
            wait(store.submit(by_author(one, event)));
        }
    });
    let by_author = subject.plan(&[], &format!(r#"{{"authors":["{}"]}}"#, key.public_key()));
    let by_kind = subject.plan(&[], r#"{"kinds":[0]}"#);
    while !writer.is_finished() {
        let rows = subject.rows(vec![by_author.clone(), by_kind.clone()]);
        assert_eq!(rows.len(), 1, "both filters see the same version");
    }
    writer.join().expect("the writer ends");
}

/// Pages keep their bounds of rows and bytes, let a large row through alone, and together are the whole answer.
pub fn pages_keep_their_bounds(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let key = build::fresh_key();
    let mut expected = Vec::new();
    for (number, bytes) in [10, 4_000, 10, 50_000, 10, 10, 10, 9_000, 9_000]
        .into_iter()
        .enumerate()
    {
        let created_at = now() - number as u64;
        let event = Draft {
            created_at,
            kind: 1,
            tags: vec![],
            content: "x".repeat(bytes),
        }
        .sign(&key);
        subject.stored(&event);
        expected.push(event.to_json());
    }
    let plan = || vec![subject.plan(&[], r#"{"kinds":[1]}"#)];
    for (rows_max, bytes_max) in [
        (1, usize::MAX),
        (4, usize::MAX),
        (100, 10_000),
        (2, 5_000),
        (3, 1),
    ] {
        let pages = subject.pages(plan(), rows_max, bytes_max).expect("pages");
        for page in &pages {
            let bytes: usize = page.rows.iter().map(|row| row.json.len()).sum();
            assert!(page.rows.len() <= rows_max as usize);
            assert!(page.rows.len() == 1 || bytes <= bytes_max, "{bytes} bytes");
            assert!(!page.rows.is_empty());
        }
        let rows: Vec<String> = pages.iter().flat_map(|page| texts(&page.rows)).collect();
        assert_eq!(rows, expected);
    }
    let none = vec![subject.plan(&[], r#"{"kinds":[1],"limit":0}"#)];
    let pages = subject.pages(none, 5, usize::MAX).expect("one empty page");
    assert!(pages.len() == 1 && pages[0].rows.is_empty());
}

/// After its last page a history is closed.
pub fn nothing_follows_the_last_page(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    subject.stored(&build::event(&build::fresh_key(), 1, vec![], ""));
    let plan = subject.plan(&[], r#"{"kinds":[1]}"#);
    let mut history = wait(subject.store.open_history(vec![plan])).expect("a history");
    assert!(
        wait(history.next(5, usize::MAX))
            .expect("the page")
            .end
            .is_some()
    );
    assert!(wait(history.next(5, usize::MAX)).is_err());
}

/// A history that is not read in time is closed, and says so.
pub fn a_history_has_a_deadline(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds {
        snapshots_max: 1,
        snapshot_budget_ms: 300,
        ..Bounds::ample()
    });
    for event in notes(&build::fresh_key(), [now(), now() - 1]) {
        subject.stored(&event);
    }
    let plan = subject.plan(&[], r#"{"kinds":[1]}"#);
    let mut history = wait(subject.store.open_history(vec![plan.clone()])).expect("a history");
    wait(history.next(1, usize::MAX)).expect("the first page");
    std::thread::sleep(Duration::from_millis(600));
    let failure = wait(history.next(1, usize::MAX)).expect_err("closed");
    assert!(
        matches!(failure, ReadFailure::SnapshotLost | ReadFailure::Budget),
        "{failure:?}"
    );
    // Its place is free, although the late reader still holds its end.
    wait(subject.store.open_history(vec![plan])).expect("a place");
}

/// Beyond its places a store makes histories wait, and not for ever; an ended one frees its place at once.
pub fn histories_are_bounded(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds {
        snapshots_max: 2,
        wait_ms: 200,
        ..Bounds::ample()
    });
    subject.stored(&build::event(&build::fresh_key(), 1, vec![], ""));
    let plan = subject.plan(&[], r#"{"kinds":[1]}"#);
    let open = || {
        wait_at_most(
            Duration::from_secs(10),
            subject.store.open_history(vec![plan.clone()]),
        )
    };
    let first = open().expect("a place");
    let _second = open().expect("a place");
    assert_eq!(open().err(), Some(ReadFailure::Busy));
    drop(first);
    open().expect("a free place");
    // Queries and writes have places of their own.
    assert_eq!(subject.count(vec![plan.clone()]), 1);
    subject.stored(&build::event(&build::fresh_key(), 1, vec![], ""));
}

/// A query that cannot end within its budget fails; nothing partial is returned.
pub fn a_query_has_a_budget(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    for event in notes(&build::fresh_key(), (0..200).map(|second| now() - second)) {
        subject.stored(&event);
    }
    for kind in [QueryKind::Rows, QueryKind::Count] {
        let plan = subject.plan(&[], r#"{"kinds":[1]}"#);
        let answer = wait(subject.store.query(kind, vec![plan], 0));
        assert_eq!(answer.expect_err("no time"), ReadFailure::Budget);
    }
    assert_eq!(
        subject.count(vec![subject.plan(&[], r#"{"kinds":[1]}"#)]),
        200
    );
}

/// A read that begins after an answer sees what was answered for, on every way of reading.
pub fn reads_are_fresh(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let key = build::fresh_key();
    let plan = subject.plan(&[], &format!(r#"{{"authors":["{}"]}}"#, key.public_key()));
    for (number, event) in notes(&key, (0..200).map(|second| now() - second))
        .iter()
        .enumerate()
    {
        let signals = subject.stored(event);
        let position = signals[0].position;
        assert_eq!(subject.count(vec![plan.clone()]), number as u64 + 1);
        assert!(
            subject
                .live(live_query([position]))
                .rows
                .contains_key(&position)
        );
        let page = wait(
            subject
                .store
                .ledger(Some(Cut::Position(Position(position.0 - 1)))),
        )
        .expect("rows");
        assert_eq!(page.signals.len(), 1);
        let pages = subject
            .pages(vec![plan.clone()], 1_000, usize::MAX)
            .expect("pages");
        assert_eq!(pages[0].rows.len(), number + 1);
    }
}

/// A chain of ledger cursors returns each row once and misses none, while many write.
pub fn a_chain_of_cursors_misses_nothing(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let start = wait(subject.store.ledger(None)).expect("the present cursor");
    assert!(start.signals.is_empty() && !start.more);
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (store, one, key) = (
                std::sync::Arc::clone(&subject.store),
                subject.one,
                build::fresh_key(),
            );
            std::thread::spawn(move || {
                let events = notes(&key, (0..400).map(|second| now() - second));
                for some in events.chunks(50) {
                    let submitted = some
                        .iter()
                        .map(|event| store.submit(by_author(one, event.clone())));
                    let outcomes = wait(futures::future::join_all(submitted));
                    let stored =
                        |outcome: &SubmitOutcome| matches!(outcome, SubmitOutcome::Stored { .. });
                    assert!(outcomes.iter().all(stored), "{outcomes:?}");
                }
            })
        })
        .collect();
    let mut cursor = start.cursor;
    let mut seen: Vec<Position> = Vec::new();
    loop {
        let ended = writers.iter().all(std::thread::JoinHandle::is_finished);
        let page = wait(subject.store.ledger(Some(cursor))).expect("a page");
        seen.extend(page.signals.iter().map(|(_, signal)| signal.position));
        cursor = page.cursor;
        if ended && !page.more && page.signals.is_empty() {
            break;
        }
    }
    for writer in writers {
        writer.join().expect("a writer stores all of its events");
    }
    let distinct: BTreeSet<Position> = seen.iter().copied().collect();
    assert_eq!((distinct.len(), seen.len()), (1_600, 1_600));
    assert!(seen.is_sorted());
}

/// A live read returns events by position with their channels and roles, up to its bytes; withheld ones are left out.
pub fn live_reads_return_events_and_access(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let (owner, stranger) = (build::fresh_key(), build::fresh_key());
    let channel = subject.channel(&owner, &[&["visibility", "private"]]);
    let chats: Vec<Event> = (0..5)
        .map(|number| build::chat(&owner, channel, &format!("{number}")))
        .collect();
    let positions: Vec<Position> = chats
        .iter()
        .map(|chat| subject.stored(chat)[0].position)
        .collect();
    subject.stored(&build::remove_event(&owner, channel, chats[1].id));
    let mut query = live_query(positions.iter().copied().chain([Position(1_000_000)]));
    query.keys = BTreeSet::from([owner.public_key(), stranger.public_key()]);
    let rows = subject.live(query.clone());
    let found: Vec<Position> = rows.rows.keys().copied().collect();
    assert_eq!(
        found,
        [positions[0], positions[2], positions[3], positions[4]]
    );
    assert_eq!(rows.rows[&positions[2]].channel, Some(channel));
    assert_eq!(rows.channels.keys().copied().collect::<Vec<_>>(), [channel]);
    let roles: Vec<_> = rows.roles.keys().copied().collect();
    assert_eq!(roles, [(channel, owner.public_key())]);
    assert!(rows.left.is_empty() && rows.clock_secs.abs_diff(now()) <= 5);
    // One byte: the first event is read, what is beyond the bound is named.
    query.bytes_max = 1;
    let rows = subject.live(query.clone());
    assert_eq!(
        rows.rows.keys().copied().collect::<Vec<_>>(),
        [positions[0]]
    );
    assert!(
        rows.left
            .is_superset(&positions[2..].iter().copied().collect())
    );
    // In steps of one all are read.
    let mut read = BTreeSet::new();
    while !query.positions.is_empty() {
        let rows = subject.live(query.clone());
        read.extend(rows.rows.keys().copied());
        query.positions = rows.left;
    }
    assert_eq!(read, found.into_iter().collect());
}

/// Rows come newest first, ties by id; a page is the first of them; each event comes once; counts ignore the limit.
pub fn rows_come_in_order_and_once(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let key = build::fresh_key();
    let time = now();
    let mut events: Vec<Event> = (0..40)
        .map(|number| {
            let tags = vec![
                tag(&["t", if number % 2 == 0 { "even" } else { "odd" }]),
                tag(&["t", "all"]),
            ];
            let created_at = time - number / 8;
            Draft {
                created_at,
                kind: 1,
                tags,
                content: number.to_string(),
            }
            .sign(&key)
        })
        .collect();
    for event in &events {
        subject.stored(event);
    }
    events.sort_by_key(|event| (std::cmp::Reverse(event.created_at), event.id));
    let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
    let found = |filters: &[&str]| -> Vec<EventId> {
        let plans = filters
            .iter()
            .map(|filter| subject.plan(&[], filter))
            .collect();
        subject.rows(plans).iter().map(|row| row.id).collect()
    };
    assert_eq!(found(&[r#"{"kinds":[1]}"#]), ids);
    assert_eq!(found(&[r#"{"kinds":[1],"limit":11}"#]), ids[..11]);
    assert_eq!(found(&[r##"{"#t":["even","all"],"limit":11}"##]), ids[..11]);
    assert_eq!(
        found(&[
            r#"{"kinds":[1],"limit":5}"#,
            r##"{"#t":["all"],"limit":9}"##
        ]),
        ids[..9]
    );
    let plan = |filter: &str| subject.plan(&[], filter);
    assert_eq!(
        subject.count(vec![plan(r##"{"#t":["even","odd"],"limit":1}"##)]),
        40
    );
    assert_eq!(
        subject.count(vec![
            plan(r##"{"#t":["even"]}"##),
            plan(r##"{"#t":["all"]}"##)
        ]),
        40
    );
    let since = format!(r#"{{"since":{},"until":{}}}"#, time - 2, time - 1);
    assert_eq!(
        subject.count(vec![plan(&since)]),
        16,
        "both bounds are inclusive"
    );
}

/// An expiring event is served until its time and not from then on (NIP-40).
pub fn expired_events_are_not_served(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let key = build::fresh_key();
    let at = now() + 2;
    let event = build::event(
        &key,
        kinds::TEXT,
        vec![tag(&["expiration", &at.to_string()])],
        "",
    );
    let position = subject.stored(&event)[0].position;
    let plan = subject.plan(&[], &format!(r#"{{"authors":["{}"]}}"#, key.public_key()));
    let served = || {
        let before = now();
        let rows = subject.rows(vec![plan.clone()]).len();
        let count = subject.count(vec![plan.clone()]);
        (before, rows, count, now())
    };
    let (_, rows, count, after) = served();
    assert!(after >= at || (rows, count) == (1, 1));
    while now() <= at {
        std::thread::sleep(Duration::from_millis(50));
    }
    let (_, rows, count, _) = served();
    assert_eq!((rows, count), (0, 0));
    assert!(subject.live(live_query([position])).rows.is_empty());
}

/// Artifact views: current, head and history, newest acceptance first, whatever the signers' clocks said.
pub fn artifact_views_follow_acceptance(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let channel = subject.channel(&owner, &[]);
    let first = Revision::create(build::fresh_artifact(), channel)
        .with(&["project", "a"])
        .sign(&owner);
    let second = Revision::update(&first, "second")
        .only_with(&[&["project", "b"]])
        .at(now() - 60)
        .sign(&owner);
    let other = Revision::create(build::fresh_artifact(), channel)
        .with(&["project", "a"])
        .sign(&owner);
    let deleted = Revision::delete(&other).sign(&owner);
    for event in [&first, &other, &second, &deleted] {
        subject.stored(event);
    }
    let view = |text: &str| artifact_rows(&subject, &owner, text);
    assert_eq!(view(r#"{"artifact":"current"}"#), [second.to_json()]);
    assert!(view(r##"{"artifact":"current","#project":["a"]}"##).is_empty());
    assert_eq!(
        view(r##"{"artifact":"current","#project":["b"]}"##),
        [second.to_json()]
    );
    let both = format!(r##""#d":["{}","{}"]"##, first.d_value(), other.d_value());
    assert_eq!(
        view(&format!(r#"{{"artifact":"head",{both}}}"#)),
        [deleted.to_json(), second.to_json()]
    );
    let all = [&deleted, &second, &other, &first].map(Event::to_json);
    assert_eq!(view(&format!(r#"{{"artifact":"history",{both}}}"#)), all);
    assert_eq!(
        view(&format!(
            r#"{{"artifact":"history",{both},"limit":2,"offset":1}}"#
        )),
        all[1..3]
    );
}

fn artifact_rows(
    subject: &Subject,
    reader: &holdfast_core::nostr::SecretKey,
    filter: &str,
) -> Vec<String> {
    let filter = holdfast_core::nostr::ArtifactFilter::from_json(filter).expect("a filter");
    let readers = BTreeSet::from([reader.public_key()]);
    let plan =
        holdfast_core::scope::compile_artifact(subject.one, &readers, &filter).expect("a plan");
    let rows = subject.rows(vec![plan.clone()]);
    let unpaged = holdfast_core::scope::ReadPlan {
        page: holdfast_core::scope::Page {
            limit: 1_000,
            offset: 0,
        },
        ..plan
    };
    let whole = subject.rows(vec![unpaged.clone()]).len() as u64;
    assert_eq!(subject.count(vec![unpaged]), whole, "rows and count agree");
    texts(&rows)
}

/// A store that works says so.
pub fn a_working_store_is_healthy(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    assert_eq!(wait(subject.store.health()), Ok(()));
    assert_eq!(
        wait_at_most(Duration::from_millis(AMPLE_MS), subject.store.health()),
        Ok(())
    );
}
