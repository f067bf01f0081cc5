//! What syncs read: initial sets of one snapshot, bounded in rows, bytes, time and number, and heads with access at one moment
//! (S1, S4, S7). That initial sets have the right rows is asked in `agreement`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use holdfast_core::accept::Change;
use holdfast_core::channel::Role;
use holdfast_core::ids::{ArtifactId, ChannelId, Position, Uuid};
use holdfast_core::node::{ReadFailure, Signal};
use holdfast_core::nostr::{
    ArtifactFilter, ArtifactView, Event, EventId, PubKey, SecretKey, kinds,
};
use holdfast_core::scope::{ReadPlan, Stamp, compile_artifact};
use holdfast_core::sync::{HeadQuery, HeadRows, SnapshotFacts, SyncPage, SyncRequest};
use holdfast_relay::node::ports::SyncSnapshot;

use super::{AMPLE_MS, Bounds, Subject, Subjects};
use crate::build::{self, Revision, now};
use crate::contract::{wait, wait_at_most};

/// A fresh artifact id; ids of different numbers come in the order of these numbers.
fn artifact(number: u8) -> ArtifactId {
    let mut bytes = *build::fresh_artifact().0.as_bytes();
    bytes[0] = number;
    ArtifactId(Uuid::from_bytes(bytes).expect("not nil"))
}

/// The plan of a sync of these channels with further predicates.
pub(super) fn sync_plan(
    subject: &Subject,
    reader: Option<PubKey>,
    channels: &[ChannelId],
    further: &[(&str, &str)],
) -> ReadPlan {
    let named = channels.iter().map(ToString::to_string).collect();
    let mut predicates = BTreeMap::from([("h".to_owned(), named)]);
    for (name, value) in further {
        let values: &mut BTreeSet<String> = predicates.entry((*name).to_owned()).or_default();
        values.insert((*value).to_owned());
    }
    let filter = ArtifactFilter {
        view: ArtifactView::Current,
        predicates,
        limit: None,
        offset: None,
        kinds_given: false,
    };
    compile_artifact(subject.one, &reader.into_iter().collect(), &filter).expect("a plan")
}

/// A request for pages of so many rows, without other bounds that matter.
fn request(plan: &ReadPlan, rows_max: u32) -> SyncRequest {
    SyncRequest {
        plan: plan.clone(),
        rows_max,
        bytes_max: usize::MAX,
        budget_ms: AMPLE_MS,
    }
}

fn open(subject: &Subject, request: SyncRequest) -> Result<Box<dyn SyncSnapshot>, ReadFailure> {
    wait_at_most(Duration::from_secs(10), subject.store.open_sync(request))
}

fn next(snapshot: &mut dyn SyncSnapshot) -> Result<SyncPage, ReadFailure> {
    wait_at_most(Duration::from_secs(10), snapshot.next())
}

/// The pages up to the last one.
fn rest(snapshot: &mut dyn SyncSnapshot) -> Vec<SyncPage> {
    let mut pages = Vec::new();
    loop {
        pages.push(next(snapshot).expect("a page"));
        if pages.last().is_some_and(|page| page.is_last) {
            return pages;
        }
    }
}

/// Every page of an initial read.
pub(super) fn pages(subject: &Subject, request: SyncRequest) -> Vec<SyncPage> {
    rest(&mut *open(subject, request).expect("a snapshot"))
}

/// The revisions on these pages by artifact, as they came.
fn rows(pages: &[SyncPage]) -> Vec<(ArtifactId, EventId)> {
    pages
        .iter()
        .flat_map(|page| &page.rows)
        .map(|row| (row.artifact, row.event))
        .collect()
}

/// What a snapshot of these channels says about itself.
fn facts(subject: &Subject, reader: PubKey, channels: &[ChannelId]) -> SnapshotFacts {
    let plan = sync_plan(subject, Some(reader), channels, &[]);
    let first = pages(subject, request(&plan, 1)).remove(0);
    first.opened.expect("on the first page")
}

fn heads(subject: &Subject, query: HeadQuery) -> HeadRows {
    wait(subject.store.heads(subject.one, query)).expect("heads")
}

/// A head query without byte bound.
fn head_query(artifacts: impl IntoIterator<Item = ArtifactId>) -> HeadQuery {
    HeadQuery {
        artifacts: artifacts.into_iter().collect(),
        bytes_max: usize::MAX,
        ..HeadQuery::default()
    }
}

/// Stores the create of an artifact with a project.
fn created(subject: &Subject, author: &SecretKey, number: u8, home: ChannelId) -> Event {
    let revision = Revision::create(artifact(number), home).with(&["project", "x"]);
    let event = revision.sign(author);
    subject.stored(&event);
    event
}

fn d(event: &Event) -> ArtifactId {
    event.d_value().parse().expect("an artifact id")
}

/// An initial set shows one moment on all its pages, whatever is written between them: nothing is skipped and nothing comes twice,
/// and its cut says which moment.
pub fn an_initial_set_shows_one_moment(subjects: &dyn Subjects) {
    for further in [&[][..], &[("project", "x")]] {
        let subject = subjects.open(Bounds::ample());
        let owner = build::fresh_key();
        let (home, other) = (subject.channel(&owner, &[]), subject.channel(&owner, &[]));
        let events: Vec<Event> = (0..80)
            .map(|number| created(&subject, &owner, 10 + 2 * number, home))
            .collect();
        let before = subject.ledger().last().map(|(_, row)| row.position);
        let expected: Vec<_> = events.iter().map(|event| (d(event), event.id)).collect();
        let plan = sync_plan(&subject, Some(owner.public_key()), &[home], further);
        let mut snapshot = open(&subject, request(&plan, 2)).expect("a snapshot");
        let mut seen = vec![next(&mut *snapshot).expect("a page")];
        // Behind, within and before what was read: all ways in and out of the set.
        let mut after = Vec::new();
        for (number, event) in events.iter().enumerate().skip(number_of(&seen) - 1) {
            let changed = match number % 5 {
                0 => Revision::delete(event).sign(&owner),
                1 => Revision::move_to(event, other).sign(&owner),
                2 => Revision::update(event, "").only_with(&[]).sign(&owner),
                3 => build::remove_event(&owner, home, event.id),
                _ => Revision::create(artifact(11 + 2 * number as u8), home)
                    .with(&["project", "x"])
                    .sign(&owner),
            };
            after.extend(subject.stored(&changed));
            if number % 7 == 0 {
                seen.push(next(&mut *snapshot).expect("a page"));
            }
        }
        seen.extend(rest(&mut *snapshot));
        assert_eq!(rows(&seen), expected, "{further:?}");
        assert!(seen.iter().all(|page| page.rows.len() <= 2));
        let opened: Vec<bool> = seen.iter().map(|page| page.opened.is_some()).collect();
        assert!(opened[0] && !opened[1..].contains(&true));
        let cut = &seen[0].opened.as_ref().expect("on the first page").cut;
        let covers = |position: Option<Position>| {
            let position = position.expect("a row of the ledger");
            cut.covers(&Stamp { position, xid: 0 })
        };
        assert!(covers(before));
        assert!(!after.iter().any(|signal| covers(Some(signal.position))));
        // A later snapshot shows the later moment.
        let found: BTreeMap<_, _> = rows(&pages(&subject, request(&plan, 2)))
            .into_iter()
            .collect();
        assert!(!found.contains_key(&d(&events[40])), "it is deleted");
        assert!(!found.contains_key(&d(&events[41])), "it has moved");
        let changed = found.get(&d(&events[42]));
        assert_eq!(changed.is_some(), further.is_empty(), "it lost its project");
        assert!(!found.contains_key(&d(&events[43])), "it is redacted");
        assert!(
            found.contains_key(&d(&events[44])),
            "nothing happened to it"
        );
    }
}

/// Rows on these pages.
fn number_of(pages: &[SyncPage]) -> usize {
    pages.iter().map(|page| page.rows.len()).sum()
}

/// Pages keep their bounds of rows and bytes, let a large row through alone, and together are the whole set in ascending order.
pub fn pages_of_an_initial_set_keep_their_bounds(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let home = subject.channel(&owner, &[]);
    let mut expected = Vec::new();
    for (number, bytes) in (0..).zip([10, 4_000, 10, 50_000, 10, 10, 10, 9_000, 9_000]) {
        // Created in another order than that of their ids.
        let revision = Revision::create(artifact(200 - number), home).content(&"x".repeat(bytes));
        let event = revision.sign(&owner);
        subject.stored(&event);
        expected.insert(0, event.to_json());
    }
    let plan = sync_plan(&subject, Some(owner.public_key()), &[home], &[]);
    for (rows_max, bytes_max) in [
        (1, usize::MAX),
        (4, usize::MAX),
        (100, 10_000),
        (2, 5_000),
        (3, 1),
    ] {
        let bounded = SyncRequest {
            bytes_max,
            ..request(&plan, rows_max)
        };
        let pages = pages(&subject, bounded);
        for page in &pages {
            let bytes: usize = page.rows.iter().map(|row| row.json.len()).sum();
            assert!(!page.rows.is_empty() && page.rows.len() <= rows_max as usize);
            assert!(page.rows.len() == 1 || bytes <= bytes_max, "{bytes} bytes");
        }
        let found = pages.iter().flat_map(|page| &page.rows);
        let found: Vec<String> = found.map(|row| row.json.to_string()).collect();
        assert_eq!(found, expected);
    }
    let none = sync_plan(
        &subject,
        Some(owner.public_key()),
        &[home],
        &[("project", "none")],
    );
    let mut snapshot = open(&subject, request(&none, 5)).expect("a snapshot");
    let page = next(&mut *snapshot).expect("one empty page");
    assert!(page.is_last && page.rows.is_empty() && page.opened.is_some());
    assert!(
        next(&mut *snapshot).is_err(),
        "nothing follows the last page"
    );
}

/// A snapshot tells the reader's access to every named channel, former memberships and deleted channels included.
pub fn an_initial_read_tells_access(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let (owner, reader) = (build::fresh_key(), build::fresh_key());
    let key = reader.public_key();
    let private: &[&[&str]] = &[&["visibility", "private"]];
    let open = subject.channel(&owner, &[]);
    let joined = subject.channel(&owner, private);
    let left = subject.channel(&owner, private);
    let foreign = subject.channel(&owner, private);
    let deleted = subject.channel(&owner, &[]);
    let unknown = build::fresh_channel();
    let member = |channel| build::put_user(&owner, channel, key, Some("guest"));
    let joins = subject.stored(&member(joined));
    subject.stored(&member(left));
    let leaves = subject.stored(&build::remove_user(&owner, left, key));
    subject.stored(&build::delete_channel(&owner, deleted));
    let named = [open, joined, left, foreign, deleted, unknown];
    let access = facts(&subject, key, &named).access;
    let channels: BTreeSet<ChannelId> = access.channels.keys().copied().collect();
    let exist = BTreeSet::from([open, joined, left, foreign, deleted]);
    assert_eq!(channels, exist);
    assert!(access.channels[&deleted].deleted && !access.channels[&open].deleted);
    let members: Vec<_> = access.members.keys().copied().collect();
    let both = BTreeSet::from([(joined, key), (left, key)]);
    assert_eq!(
        members,
        both.into_iter().collect::<Vec<_>>(),
        "no other key"
    );
    assert_eq!(access.role(joined, key), Some(Role::Guest));
    let (in_joined, in_left) = (access.members[&(joined, key)], access.members[&(left, key)]);
    assert_eq!(in_joined.stamp, membership(&joins, key));
    assert_eq!(
        (in_left.role, in_left.stamp),
        (None, membership(&leaves, key))
    );
    let stamps = named.map(|channel| access.readable_stamp(channel, Some(key)).is_some());
    assert_eq!(stamps, [true, true, false, false, false, false]);
}

/// Position of the change of this key's membership.
fn membership(signals: &[Signal], key: PubKey) -> Position {
    let found = signals
        .iter()
        .find(|signal| signal.change == Change::Membership && signal.key == Some(key));
    found.expect("a change of membership").position
}

/// An initial read that is not ended in time is closed, and says so.
pub fn an_initial_read_has_a_deadline(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds {
        sync_snapshots_max: 1,
        ..Bounds::ample()
    });
    let owner = build::fresh_key();
    let home = subject.channel(&owner, &[]);
    for number in 0..4 {
        created(&subject, &owner, number, home);
    }
    let plan = sync_plan(&subject, Some(owner.public_key()), &[home], &[]);
    let short = SyncRequest {
        budget_ms: 300,
        ..request(&plan, 1)
    };
    let mut snapshot = open(&subject, short).expect("a snapshot");
    next(&mut *snapshot).expect("the first page");
    std::thread::sleep(Duration::from_millis(600));
    let failure = next(&mut *snapshot).expect_err("closed");
    assert!(
        matches!(failure, ReadFailure::SnapshotLost | ReadFailure::Budget),
        "{failure:?}"
    );
    // Its place is free, although the late reader still holds its end.
    open(&subject, request(&plan, 1)).expect("a place");
}

/// Beyond its places a store makes initial reads wait, and not for ever; an ended one frees its place at once, also to one that
/// waits. No other read or write needs these places.
pub fn initial_reads_are_bounded(subjects: &dyn Subjects) {
    let bounds = Bounds {
        wait_ms: 200,
        ..Bounds::ample()
    };
    let subject = subjects.open(bounds);
    let owner = build::fresh_key();
    let home = subject.channel(&owner, &[]);
    let event = created(&subject, &owner, 1, home);
    let plan = sync_plan(&subject, Some(owner.public_key()), &[home], &[]);
    let mut snapshots: Vec<_> = (0..bounds.sync_snapshots_max)
        .map(|_| open(&subject, request(&plan, 1)).expect("a place"))
        .collect();
    assert_eq!(
        open(&subject, request(&plan, 1)).err(),
        Some(ReadFailure::Busy)
    );
    // These have places of their own.
    assert_eq!(subject.count(vec![plan.clone()]), 1);
    assert_eq!(heads(&subject, head_query([d(&event)])).heads.len(), 1);
    let chats = subject.plan(&[], r#"{"kinds":[9]}"#);
    assert_eq!(
        subject.pages(vec![chats], 1, 1).map(|pages| pages.len()),
        Ok(1)
    );
    subject.stored(&build::chat(&owner, home, "still written"));
    let waiting = subject.store.open_sync(request(&plan, 1));
    snapshots.pop();
    let mut snapshot =
        wait_at_most(Duration::from_secs(10), waiting).expect("the place that became free");
    assert_eq!(number_of(&rest(&mut *snapshot)), 1);
    open(&subject, request(&plan, 1)).expect("the last page freed the place");
}

/// Dropped futures and snapshots leave no transaction open, at whatever point they are dropped.
pub fn dropped_initial_reads_leave_nothing_open(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds {
        sync_snapshots_max: 1,
        ..Bounds::ample()
    });
    let owner = build::fresh_key();
    let home = subject.channel(&owner, &[]);
    for number in 0..40 {
        created(&subject, &owner, number, home);
    }
    let plan = sync_plan(
        &subject,
        Some(owner.public_key()),
        &[home],
        &[("project", "x")],
    );
    for _ in 0..50 {
        drop(subject.store.open_sync(request(&plan, 1)));
        let mut snapshot = open(&subject, request(&plan, 1)).expect("a place");
        next(&mut *snapshot).expect("a page");
        let asked = snapshot.next();
        drop(asked);
        drop(snapshot);
        let mut snapshot = open(&subject, request(&plan, 1)).expect("a place");
        // A page that nobody takes would be missing from the set.
        drop(snapshot.next());
        let failure = next(&mut *snapshot).expect_err("the read has ended");
        assert!(matches!(failure, ReadFailure::SnapshotLost), "{failure:?}");
    }
    let all = pages(&subject, request(&plan, 7));
    assert_eq!(number_of(&all), 40);
}

/// A head read returns at one moment the heads that exist, deletions included and redacted ones without body, the newest markers,
/// and access.
pub fn head_reads_return_heads_markers_and_access(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let (owner, member, stranger) = (build::fresh_key(), build::fresh_key(), build::fresh_key());
    let private: &[&[&str]] = &[&["visibility", "private"]];
    let [x, y] = [
        subject.channel(&owner, private),
        subject.channel(&owner, private),
    ];
    subject.stored(&build::put_user(&owner, y, member.public_key(), None));
    subject.stored(&build::remove_user(&owner, y, member.public_key()));
    let [kept, moved, deleted, redacted] = [1, 2, 3, 4].map(|n| created(&subject, &owner, n, x));
    let deletion = Revision::delete(&deleted).sign(&owner);
    subject.stored(&deletion);
    subject.stored(&build::remove_event(&owner, x, redacted.id));
    let mut at_y = moved.clone();
    let mut marker = None;
    for home in [y, x, y] {
        let earlier = at_y.id;
        at_y = Revision::move_to(&at_y, home).sign(&owner);
        subject.stored(&at_y);
        let of_move = format!(r##"{{"kinds":[45011],"#e":["{earlier}","{}"]}}"##, at_y.id);
        if home == y {
            let found = subject.rows(vec![subject.plan(&[owner.public_key()], &of_move)]);
            marker = found.first().map(|row| row.json.clone()).or(marker);
        }
    }
    let unknown = artifact(5);
    let events = [&kept, &moved, &deleted, &redacted];
    let mut query = head_query(events.iter().map(|event| d(event)).chain([unknown]));
    query.markers = BTreeSet::from([
        (d(&moved), x),
        (d(&kept), x),
        (d(&moved), build::fresh_channel()),
    ]);
    query.keys = [&owner, &member, &stranger]
        .map(SecretKey::public_key)
        .into();
    let rows = heads(&subject, query);
    let found: BTreeMap<ArtifactId, (EventId, ChannelId)> = rows
        .heads
        .iter()
        .map(|(artifact, head)| (*artifact, (head.event, head.home)))
        .collect();
    let expected = BTreeMap::from([
        (d(&kept), (kept.id, x)),
        (d(&moved), (at_y.id, y)),
        (d(&deleted), (deletion.id, x)),
        (d(&redacted), (redacted.id, x)),
    ]);
    assert_eq!(found, expected);
    let body = |event: &Event| rows.heads[&d(event)].body.clone();
    assert_eq!(body(&redacted), None);
    let (event, json) = body(&deleted).expect("a deletion is a head");
    assert_eq!((*event).clone(), deletion);
    assert_eq!(json.to_string(), deletion.to_json());
    assert_eq!(
        rows.markers.keys().copied().collect::<Vec<_>>(),
        [(d(&moved), x)]
    );
    let newest = Event::from_json(&rows.markers[&(d(&moved), x)]).expect("an event");
    assert_eq!(
        (newest.kind, newest.d_value()),
        (kinds::ARTIFACT_MOVED, moved.d_value())
    );
    assert!(
        marker.is_none_or(|json| *json == *newest.to_json()),
        "the newest one"
    );
    let access = &rows.access;
    assert_eq!(
        access.channels.keys().copied().collect::<BTreeSet<_>>(),
        BTreeSet::from([x, y])
    );
    assert_eq!(access.role(x, owner.public_key()), Some(Role::Owner));
    let former = access.members[&(y, member.public_key())];
    assert_eq!(former.role, None);
    assert_eq!(
        access.members.len(),
        3,
        "the owner twice, the former member once"
    );
    assert!(rows.left.is_empty() && rows.clock_secs.abs_diff(now()) <= 5);
    let asked = HeadQuery {
        channels: BTreeSet::from([y]),
        keys: BTreeSet::from([owner.public_key()]),
        ..head_query([])
    };
    let rows = heads(&subject, asked);
    assert!(rows.heads.is_empty() && rows.access.channels.contains_key(&y));
}

/// A head read reads on up to its bytes, names what it left, and always reads one.
pub fn a_head_read_keeps_its_byte_bound(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let home = subject.channel(&owner, &[]);
    let events: Vec<Event> = (1..=6)
        .map(|number| {
            let revision = Revision::create(artifact(number), home);
            revision.content(&"x".repeat(10_000)).sign(&owner)
        })
        .collect();
    for event in &events {
        subject.stored(event);
    }
    let all: BTreeSet<ArtifactId> = events.iter().map(d).collect();
    for (bytes_max, expected) in [(1, 1), (15_000, 2), (usize::MAX, 6)] {
        let mut wanted = all.clone();
        let mut reads = 0;
        while !wanted.is_empty() {
            let query = HeadQuery {
                bytes_max,
                ..head_query(wanted.clone())
            };
            let rows = heads(&subject, query);
            let read: BTreeSet<ArtifactId> = rows.heads.keys().copied().collect();
            assert_eq!(read.len(), expected.min(wanted.len()), "{bytes_max}");
            assert_eq!(rows.left, &wanted - &read);
            wanted = rows.left;
            reads += 1;
        }
        assert_eq!(reads, 6_usize.div_ceil(expected));
    }
}

/// What is acknowledged is seen by every read of a sync that begins after it.
pub fn sync_reads_are_fresh(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let home = subject.channel(&owner, &[]);
    let mut head = created(&subject, &owner, 1, home);
    let plan = sync_plan(&subject, Some(owner.public_key()), &[home], &[]);
    for number in 0..100 {
        head = Revision::update(&head, &number.to_string()).sign(&owner);
        let signals = subject.stored(&head);
        let position = signals[0].position;
        let read = heads(&subject, head_query([d(&head)]));
        assert_eq!(read.heads[&d(&head)].event, head.id);
        let pages = pages(&subject, request(&plan, 10));
        assert_eq!(rows(&pages), [(d(&head), head.id)]);
        let cut = &pages[0].opened.as_ref().expect("on the first page").cut;
        assert!(cut.covers(&Stamp { position, xid: 0 }));
        assert_eq!(read.store, pages[0].store, "one database answers");
    }
}

/// The stamp of a reader's access moves with membership, visibility and deletion, to the position of the change, and with nothing
/// else that happens in the channel (H17).
pub fn access_stamps_move_with_access_only(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let (owner, reader, third) = (build::fresh_key(), build::fresh_key(), build::fresh_key());
    let key = reader.public_key();
    let channel = subject.channel(&owner, &[]);
    let stamp = || {
        let query = HeadQuery {
            channels: BTreeSet::from([channel]),
            keys: BTreeSet::from([key]),
            ..head_query([])
        };
        let by_heads = heads(&subject, query).access;
        assert_eq!(by_heads, facts(&subject, key, &[channel]).access);
        by_heads.readable_stamp(channel, Some(key))
    };
    let visibility = |name| build::edit_channel(&owner, channel, &[&["visibility", name]]);
    let moved_by = |signals: &[Signal]| {
        let of_all = |signal: &&Signal| signal.change == Change::Visibility;
        let found = signals.iter().find(of_all).map(|signal| signal.position);
        Some(found.unwrap_or_else(|| membership(signals, key)))
    };
    let put = |role| build::put_user(&owner, channel, key, role);
    assert!(stamp().is_some(), "the channel is open");
    let joined = subject.stored(&put(None));
    assert_eq!(stamp(), moved_by(&joined));
    let at = stamp();
    let of_third = third.public_key();
    let without_effect = [
        put(Some("admin")),
        put(Some("guest")),
        build::edit_channel(&owner, channel, &[&["name", "another name"]]),
        build::archive(&owner, channel, true),
        build::archive(&owner, channel, false),
        build::put_user(&owner, channel, of_third, None),
        build::remove_user(&owner, channel, of_third),
        build::chat(&owner, channel, "a message"),
    ];
    for event in without_effect {
        subject.stored(&event);
        assert_eq!(stamp(), at, "{event:?}");
    }
    created(&subject, &owner, 1, channel);
    assert_eq!(stamp(), at);
    let removed = subject.stored(&build::remove_user(&owner, channel, key));
    assert_eq!(
        stamp(),
        moved_by(&removed),
        "it still reads the open channel"
    );
    let closed = subject.stored(&visibility("private"));
    assert_eq!(stamp(), None);
    assert!(moved_by(&closed) > moved_by(&removed));
    let again = subject.stored(&put(Some("member")));
    assert_eq!(stamp(), moved_by(&again));
    let opened = subject.stored(&visibility("open"));
    assert_eq!(stamp(), moved_by(&opened));
    subject.stored(&build::delete_channel(&owner, channel));
    assert_eq!(stamp(), None);
}

/// Plans of one community read nothing of another one.
pub fn syncs_of_communities_are_separate(subjects: &dyn Subjects) {
    let subject = subjects.open(Bounds::ample());
    let owner = build::fresh_key();
    let home = subject.channel(&owner, &[]);
    let event = created(&subject, &owner, 1, home);
    let plan = ReadPlan {
        community: subject.two,
        ..sync_plan(&subject, Some(owner.public_key()), &[home], &[])
    };
    let pages = pages(&subject, request(&plan, 5));
    assert_eq!(number_of(&pages), 0);
    let access = &pages[0].opened.as_ref().expect("on the first page").access;
    assert!(access.channels.is_empty() && access.members.is_empty());
    let query = HeadQuery {
        channels: BTreeSet::from([home]),
        keys: BTreeSet::from([owner.public_key()]),
        ..head_query([d(&event)])
    };
    let store = Arc::clone(&subject.store);
    let rows = wait(store.heads(subject.two, query)).expect("heads");
    assert!(rows.heads.is_empty() && rows.access.channels.is_empty());
}
