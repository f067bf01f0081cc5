//! Acceptance: atomic, durable, once, recorded (S2, S2b, S3, S5, S7).

use std::collections::BTreeSet;

use futures::future::join_all;
use holdfast_core::accept::{Change, Rejection};
use holdfast_core::channel::Role;
use holdfast_core::ids::{ChannelId, CommunityId, Position, Uuid};
use holdfast_core::node::{Signal, SubmitOutcome};
use holdfast_core::nostr::{Draft, Event, EventId, SecretKey, kinds};

use super::{Bounds, Subject, Subjects, by_author, live_query, notes, texts};
use crate::build::{self, Revision, now, tag};
use crate::contract::{eventually, wait};

/// How many compete in the tests of competition.
const COMPETITORS: usize = 50;

/// A stored event is served as it was sent, and a second submission changes nothing.
pub fn an_event_is_stored_once_and_served_unchanged(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let key = build::fresh_key();
    let content = "quotes \" back\\slash \u{0} \u{1} \u{7f} \u{2028} \u{1f980} é e\u{301}";
    let tags = vec![
        tag(&["t", "x"]),
        tag(&["t", "x"]),
        tag(&["t"]),
        tag(&["other", "", ""]),
    ];
    let event = build::event(&key, kinds::TEXT, tags, content);
    let signals = subject.stored(&event);
    assert_eq!(signals.len(), 1);
    assert!(matches!(
        subject.submit(event.clone()),
        SubmitOutcome::Already { .. }
    ));
    let filter = format!(r#"{{"ids":["{}"]}}"#, event.id);
    assert_eq!(
        texts(&subject.rows(vec![subject.plan(&[], &filter)])),
        [event.to_json()]
    );
    let row = subject
        .live(live_query([signals[0].position]))
        .rows
        .remove(&signals[0].position);
    assert_eq!(*row.expect("a live row").event, event);
    assert_eq!(subject.ledger().len(), 1);
}

/// A channel with one artifact of its owner.
fn with_artifact(subject: &Subject, owner: &SecretKey) -> (ChannelId, Event) {
    let channel = subject.channel(owner, &[]);
    let first = Revision::create(build::fresh_artifact(), channel).sign(owner);
    subject.stored(&first);
    (channel, first)
}

/// Of many revisions on one `prev`, sent at once, exactly one is stored; the others are conflicts and leave no trace.
pub fn one_of_many_competing_revisions_wins(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let (_, first) = with_artifact(&subject, &owner);
    let before = subject.ledger().len();
    let revisions: Vec<Event> = (0..COMPETITORS)
        .map(|number| Revision::update(&first, &format!("version {number}")).sign(&owner))
        .collect();
    let outcomes =
        wait(join_all(revisions.iter().map(|event| {
            subject.store.submit(by_author(subject.one, event.clone()))
        })));
    let stored: Vec<usize> = outcomes
        .iter()
        .enumerate()
        .filter(|(_, outcome)| matches!(outcome, SubmitOutcome::Stored { .. }))
        .map(|(number, _)| number)
        .collect();
    let conflicts = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, SubmitOutcome::Rejected(Rejection::Conflict(_))))
        .count();
    assert_eq!(
        (stored.len(), conflicts),
        (1, COMPETITORS - 1),
        "{outcomes:?}"
    );
    assert_eq!(subject.ledger().len(), before + 1);
    let winner = &revisions[stored[0]];
    let filter = format!(
        r#"{{"kinds":[45010],"authors":["{}"]}}"#,
        owner.public_key()
    );
    let heads = subject.rows(vec![subject.plan(&[owner.public_key()], &filter)]);
    assert_eq!(texts(&heads), [winner.to_json()]);
    let loser = revisions
        .iter()
        .find(|event| event.id != winner.id)
        .expect("many competed");
    let filter = format!(r#"{{"ids":["{}"]}}"#, loser.id);
    assert_eq!(
        subject.count(vec![subject.plan(&[owner.public_key()], &filter)]),
        0
    );
}

/// Of many creations of one artifact id, sent at once, exactly one is stored.
pub fn one_of_many_competing_creations_wins(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let channel = subject.channel(&owner, &[]);
    let artifact = build::fresh_artifact();
    let outcomes = wait(join_all((0..COMPETITORS).map(|number| {
        let content = format!("creation {number}");
        let event = Revision::create(artifact, channel)
            .content(&content)
            .sign(&owner);
        subject.store.submit(by_author(subject.one, event))
    })));
    let is_stored = |outcome: &&SubmitOutcome| matches!(outcome, SubmitOutcome::Stored { .. });
    assert_eq!(outcomes.iter().filter(is_stored).count(), 1, "{outcomes:?}");
}

/// A move commits both its sides or none: the head in the destination and the removal in the source (AR-MOVE-4).
pub fn a_move_is_one_commit(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let (source, first) = with_artifact(&subject, &owner);
    let destination = subject.channel(&owner, &[]);
    let moved = Revision::move_to(&first, destination).sign(&owner);
    let signals = subject.stored(&moved);
    let changes: Vec<Change> = signals.iter().map(|signal| signal.change).collect();
    assert_eq!(changes, [Change::Revision, Change::MoveSource]);
    assert_eq!(signals[0].channel, Some(destination));
    assert_eq!(signals[1].channel, Some(source));
    let rows = subject
        .live(live_query(signals.iter().map(|signal| signal.position)))
        .rows;
    let kinds: Vec<u16> = rows.values().map(|row| row.event.kind).collect();
    assert_eq!(kinds, [kinds::ARTIFACT, kinds::ARTIFACT_MOVED]);
}

/// Of many versions of one replaceable event, of one second and sent at once, the one with the lowest id stays (B06).
pub fn one_event_stays_in_a_slot(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let key = build::fresh_key();
    let created_at = now();
    let versions: Vec<Event> = (0..COMPETITORS)
        .map(|number| {
            let content = format!("profile {number}");
            Draft {
                created_at,
                kind: kinds::METADATA,
                tags: Vec::new(),
                content,
            }
            .sign(&key)
        })
        .collect();
    let outcomes =
        wait(join_all(versions.iter().map(|event| {
            subject.store.submit(by_author(subject.one, event.clone()))
        })));
    for outcome in &outcomes {
        let fine = matches!(
            outcome,
            SubmitOutcome::Stored { .. } | SubmitOutcome::Already { .. }
        );
        assert!(fine, "{outcome:?}");
    }
    let lowest = versions
        .iter()
        .min_by_key(|event| event.id)
        .expect("many versions");
    let filter = format!(r#"{{"kinds":[0],"authors":["{}"]}}"#, key.public_key());
    assert_eq!(
        texts(&subject.rows(vec![subject.plan(&[], &filter)])),
        [lowest.to_json()]
    );
}

/// Among submissions that wait together, one that cannot be decided hurts no other.
pub fn a_failing_submission_hurts_no_other(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let key = build::fresh_key();
    let nowhere = CommunityId(Uuid::from_bytes([0xee; 16]).expect("not nil"));
    let events = notes(&key, (0..60).map(|second| now() - second));
    let outcomes = wait(join_all(events.iter().enumerate().map(
        |(number, event)| {
            let community = if number % 7 == 3 {
                nowhere
            } else {
                subject.one
            };
            subject.store.submit(by_author(community, event.clone()))
        },
    )));
    for (number, outcome) in outcomes.iter().enumerate() {
        match outcome {
            SubmitOutcome::Failed => assert_eq!(number % 7, 3),
            SubmitOutcome::Stored { .. } => assert_ne!(number % 7, 3),
            other => panic!("{number}: {other:?}"),
        }
    }
    let filter = format!(r#"{{"authors":["{}"]}}"#, key.public_key());
    let expected = (0..60).filter(|number| number % 7 != 3).count() as u64;
    assert_eq!(subject.count(vec![subject.plan(&[], &filter)]), expected);
}

/// Every stored event and every change has one ledger row, the rows are the signals of the answers, and positions have no gap.
pub fn the_ledger_holds_every_change_once(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let (owner, guest) = (build::fresh_key(), build::fresh_key());
    let mut signals: Vec<Signal> = Vec::new();
    let channel = build::fresh_channel();
    let chat = build::chat(&owner, channel, "hello");
    let artifact = Revision::create(build::fresh_artifact(), channel).sign(&owner);
    let events = [
        build::create_private(&owner, channel),
        build::put_user(&owner, channel, guest.public_key(), Some("guest")),
        chat.clone(),
        artifact.clone(),
        Revision::update(&artifact, "second").sign(&owner),
        build::archive(&owner, channel, true),
        build::archive(&owner, channel, false),
        build::remove_event(&owner, channel, chat.id),
        build::remove_user(&owner, channel, guest.public_key()),
        build::delete_channel(&owner, channel),
    ];
    for event in &events {
        signals.extend(subject.stored(event));
    }
    assert!(matches!(
        subject.submit(build::chat(&owner, channel, "late")),
        SubmitOutcome::Rejected(_)
    ));
    let ledger = subject.ledger();
    assert!(
        ledger
            .iter()
            .all(|(community, _)| *community == subject.one)
    );
    let ledger: Vec<Signal> = ledger.into_iter().map(|(_, signal)| signal).collect();
    assert_eq!(ledger, signals);
    let positions: Vec<u64> = ledger.iter().map(|signal| signal.position.0).collect();
    assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>());
    let changes: BTreeSet<Change> = ledger.iter().map(|signal| signal.change).collect();
    for change in [
        Change::Created,
        Change::Membership,
        Change::Event,
        Change::Revision,
        Change::Archive,
        Change::Withheld,
        Change::ChannelDeleted,
    ] {
        assert!(changes.contains(&change), "{change:?} is missing");
    }
}

/// A submission whose future is dropped is decided and stored as a whole; reads and histories that are dropped leave nothing open.
pub fn dropped_futures_leave_nothing_open(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds {
        snapshots_max: 2,
        ..Bounds::ample()
    });
    let key = build::fresh_key();
    let events = notes(&key, (0..40).map(|second| now() - second));
    let plan = subject.plan(&[], r#"{"kinds":[1]}"#);
    for event in &events {
        drop(subject.store.submit(by_author(subject.one, event.clone())));
        drop(subject.store.open_history(vec![plan.clone()]));
        let kind = holdfast_core::node::QueryKind::Rows;
        drop(
            subject
                .store
                .query(kind, vec![plan.clone()], super::AMPLE_MS),
        );
    }
    eventually("every dropped submission is stored", || {
        subject.count(vec![plan.clone()]) == events.len() as u64
    });
    for _ in 0..20 {
        let mut history = wait(subject.store.open_history(vec![plan.clone()])).expect("a place");
        drop(history.next(3, usize::MAX));
    }
    // Both places are free again, and a history sees all of it.
    let first = wait(subject.store.open_history(vec![plan.clone()])).expect("a place");
    let pages = subject
        .pages(vec![plan], 7, usize::MAX)
        .expect("a second place");
    drop(first);
    let rows: usize = pages.iter().map(|page| page.rows.len()).sum();
    assert_eq!(rows, events.len());
    assert_eq!(subject.ledger().len(), events.len());
}

/// A page whose answer nobody took is missing from no later one: the history ends.
pub fn an_untaken_page_ends_the_history(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    for event in notes(&build::fresh_key(), (0..9).map(|second| now() - second)) {
        subject.stored(&event);
    }
    let plan = subject.plan(&[], r#"{"kinds":[1]}"#);
    let mut history = wait(subject.store.open_history(vec![plan])).expect("a history");
    drop(history.next(3, usize::MAX));
    let mut rows = BTreeSet::new();
    while let Ok(page) = wait(history.next(3, usize::MAX)) {
        rows.extend(page.rows.into_iter().map(|row| row.id));
        if page.end.is_some() {
            assert_eq!(
                rows.len(),
                9,
                "the last page came, and an earlier one is missing"
            );
        }
    }
    assert_eq!(rows.len(), 0);
}

/// What is stored in one community exists in no other, also under equal ids.
pub fn communities_are_separate(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let channel = build::fresh_channel();
    let creation = build::create_private(&owner, channel);
    let chat = build::chat(&owner, channel, "in the first");
    subject.stored(&creation);
    subject.stored(&chat);
    let in_two = |event: &Event| wait(subject.store.submit(by_author(subject.two, event.clone())));
    assert!(
        matches!(in_two(&chat), SubmitOutcome::Rejected(_)),
        "the channel is not there"
    );
    assert!(
        matches!(in_two(&creation), SubmitOutcome::Stored { .. }),
        "the same id is free"
    );
    let other = build::chat(&owner, channel, "in the second");
    assert!(matches!(in_two(&other), SubmitOutcome::Stored { .. }));
    let plan = subject.plan(
        &[owner.public_key()],
        &format!(r##"{{"kinds":[9],"#h":["{channel}"]}}"##),
    );
    assert_eq!(texts(&subject.rows(vec![plan.clone()])), [chat.to_json()]);
    let elsewhere = holdfast_core::scope::ReadPlan {
        community: subject.two,
        ..plan
    };
    assert_eq!(texts(&subject.rows(vec![elsewhere])), [other.to_json()]);
    let positions: Vec<Position> = subject
        .ledger()
        .iter()
        .map(|(_, row)| row.position)
        .collect();
    let here = wait(
        subject
            .store
            .live(subject.one, live_query(positions.clone())),
    )
    .expect("rows");
    let there = wait(subject.store.live(subject.two, live_query(positions))).expect("rows");
    let ids = |rows: &holdfast_core::node::LiveRows| -> BTreeSet<EventId> {
        rows.rows.values().map(|row| row.event.id).collect()
    };
    assert!(ids(&here).contains(&chat.id) && !ids(&here).contains(&other.id));
    assert!(ids(&there).contains(&other.id) && !ids(&there).contains(&chat.id));
}

/// A membership that ends and begins again is one membership with a new stamp, and roles are read as they are.
pub fn memberships_end_and_begin_again(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let (owner, member) = (build::fresh_key(), build::fresh_key());
    let channel = subject.channel(&owner, &[&["visibility", "private"]]);
    let role = || {
        let mut query = live_query([]);
        query.channels.insert(channel);
        query.keys.insert(member.public_key());
        subject
            .live(query)
            .roles
            .get(&(channel, member.public_key()))
            .copied()
    };
    assert_eq!(role(), None);
    subject.stored(&build::put_user(
        &owner,
        channel,
        member.public_key(),
        Some("guest"),
    ));
    assert_eq!(role(), Some(Role::Guest));
    subject.stored(&build::put_user(
        &owner,
        channel,
        member.public_key(),
        Some("admin"),
    ));
    assert_eq!(role(), Some(Role::Admin));
    subject.stored(&build::remove_user(&owner, channel, member.public_key()));
    assert_eq!(role(), None);
    subject.stored(&build::put_user(&owner, channel, member.public_key(), None));
    assert_eq!(role(), Some(Role::Member));
}

/// A deletion is remembered for events that come later, by id and by address, and only for its author's (NIP-09, B07).
pub fn deletions_hold_for_late_events(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let (key, other) = (build::fresh_key(), build::fresh_key());
    let note = build::event(&key, kinds::TEXT, vec![], "deleted in advance");
    subject.stored(&build::deletion(&key, &[note.id]));
    assert!(matches!(subject.submit(note), SubmitOutcome::Rejected(_)));
    let foreign = build::event(&key, kinds::TEXT, vec![], "deleted by a stranger");
    subject.stored(&build::deletion(&other, &[foreign.id]));
    subject.stored(&foreign);
    let d = "wss://r.example:7777";
    let article = |created_at, content: &str| {
        let tags = vec![tag(&["d", d])];
        Draft {
            created_at,
            kind: 30_402,
            tags,
            content: content.to_owned(),
        }
        .sign(&key)
    };
    let (first, late) = (article(now() - 20, "first"), article(now() - 10, "late"));
    subject.stored(&first);
    let address = format!("30402:{}:{d}", key.public_key());
    let deletion = Draft {
        created_at: now() - 5,
        kind: kinds::DELETION,
        tags: vec![tag(&["a", &address])],
        content: String::new(),
    };
    subject.stored(&deletion.sign(&key));
    let plan = || subject.plan(&[], r#"{"kinds":[30402]}"#);
    assert_eq!(subject.count(vec![plan()]), 0);
    assert!(matches!(subject.submit(late), SubmitOutcome::Rejected(_)));
    let newer = article(now(), "newer");
    subject.stored(&newer);
    assert_eq!(texts(&subject.rows(vec![plan()])), [newer.to_json()]);
}

/// A redacted head stays the head: it is served nowhere and still named by `prev` (AR-MOD-8).
pub fn a_redacted_head_stays_the_head(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let (channel, first) = with_artifact(&subject, &owner);
    let signals = subject.stored(&build::remove_event(&owner, channel, first.id));
    assert!(
        signals
            .iter()
            .any(|signal| signal.change == Change::Redaction { current: true })
    );
    let filter = format!(r#"{{"ids":["{}"]}}"#, first.id);
    assert_eq!(
        subject.count(vec![subject.plan(&[owner.public_key()], &filter)]),
        0
    );
    assert!(matches!(
        subject.submit(first.clone()),
        SubmitOutcome::Already { .. }
    ));
    let next = Revision::update(&first, "on top of the redacted one").sign(&owner);
    subject.stored(&next);
    let filter = format!(
        r#"{{"kinds":[45010],"authors":["{}"]}}"#,
        owner.public_key()
    );
    let heads = subject.rows(vec![subject.plan(&[owner.public_key()], &filter)]);
    assert_eq!(texts(&heads), [next.to_json()]);
}
