//! Head reads of syncs: heads, markers and access at one moment, bounded in bytes, and the stamps of access (S4).

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::accept::Change;
use holdfast_core::channel::Role;
use holdfast_core::ids::{ArtifactId, ChannelId, Position};
use holdfast_core::node::Signal;
use holdfast_core::nostr::{Event, EventId, PubKey, SecretKey, kinds};
use holdfast_core::sync::{HeadQuery, HeadRows};

use super::syncs::{artifact, created, d, facts};
use super::{Bounds, Subject, Subjects};
use crate::build::{self, Revision, now};
use crate::contract::wait;

/// The answer of a head read in `one.example`.
pub(super) fn heads(subject: &Subject, query: HeadQuery) -> HeadRows {
    wait(subject.store.heads(subject.one, query)).expect("heads")
}

/// A head query without byte bound.
pub(super) fn head_query(artifacts: impl IntoIterator<Item = ArtifactId>) -> HeadQuery {
    HeadQuery {
        artifacts: artifacts.into_iter().collect(),
        bytes_max: usize::MAX,
        ..HeadQuery::default()
    }
}

/// Position of the change of this key's membership.
pub(super) fn membership(signals: &[Signal], key: PubKey) -> Position {
    let found = signals
        .iter()
        .find(|signal| signal.change == Change::Membership && signal.key == Some(key));
    found.expect("a change of membership").position
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
