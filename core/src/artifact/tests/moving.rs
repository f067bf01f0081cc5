//! Moves: what they write, who may move, and what the source's readers are told.

use super::desk::{Desk, furnished, hall, home, kind_9, refusal, room, vault};
use super::{ARTIFACT, Rev, key};
use crate::accept::{Change, Decision, Rejection, Standing, Write};
use crate::channel::Role;
use crate::ids::ChannelId;
use crate::nostr::{Event, EventId, Verifier, kinds};
use crate::rules;

fn created() -> (Desk, EventId) {
    let mut desk = furnished();
    let first = desk.accept(&Rev::new("create").event());
    (desk, first)
}

fn moving(prev: EventId, destination: ChannelId) -> Rev {
    Rev::new("move")
        .after(prev)
        .at(destination)
        .set("title", "Arrived")
        .content("arrival")
}

fn removals(desk: &Desk) -> Vec<&Event> {
    desk.events
        .values()
        .map(|kept| &kept.stored.event)
        .filter(|event| event.kind == kinds::ARTIFACT_MOVED)
        .collect()
}

#[test]
fn a_move_is_one_decision_with_arrival_removal_and_head() {
    rules!("AR-MOVE-1", "AR-MOVE-4", "AR-MOVE-7");
    let (desk, first) = created();
    let arrival = moving(first, room()).event();
    let Decision::Write { writes, .. } = desk.decide(&arrival) else {
        panic!("refused")
    };
    let stored: Vec<_> = writes
        .iter()
        .filter_map(|write| match write {
            Write::Store(stored) => Some((
                stored.event.kind,
                stored.channel,
                stored.artifact,
                stored.position,
            )),
            _ => None,
        })
        .collect();
    let artifact = Some(ARTIFACT.parse().unwrap());
    let (at, after) = (stored[0].3, stored[0].3.plus(1));
    assert_eq!(
        stored,
        [
            (kinds::ARTIFACT, Some(room()), artifact, at),
            (kinds::ARTIFACT_MOVED, Some(home()), artifact, after),
        ]
    );
    let rows: Vec<_> = writes
        .iter()
        .filter_map(|write| match write {
            Write::Ledger(row) => Some((row.change, row.channel, row.artifact, row.position)),
            _ => None,
        })
        .collect();
    assert_eq!(
        rows,
        [
            (Change::Revision, Some(room()), artifact, at),
            (Change::MoveSource, Some(home()), artifact, after),
        ]
    );
    let advance = writes.iter().find_map(|write| match write {
        Write::AdvanceHead { prev, head, .. } => {
            Some((*prev, head.event, head.home, head.artifact_type.as_str()))
        }
        _ => None,
    });
    assert_eq!(advance, Some((first, arrival.id, room(), "buzz.task")));
    let accepted = writes
        .iter()
        .filter(|write| matches!(write, Write::Accept { .. }))
        .count();
    assert_eq!(accepted, 1, "the removal is no revision");
}

#[test]
fn the_removal_names_the_source_and_nothing_of_the_destination() {
    rules!("AR-MOVE-5", "AR-MOVE-6");
    let (mut desk, first) = created();
    let moved = desk.accept(
        &moving(first, room())
            .push(&["project", "elsewhere"])
            .by(&key(1)),
    );
    let [removal] = removals(&desk)[..] else {
        panic!("one removal")
    };
    removal.verify(&Verifier).unwrap();
    assert_eq!(removal.pubkey, desk.policy.relay_key.public());
    assert_eq!(removal.content, "");
    assert_eq!(removal.created_at, desk.now());
    let (source, prev) = (home().to_string(), first.to_string());
    let expected = [
        ["ar", "1"],
        ["d", ARTIFACT],
        ["h", &source],
        ["reason", "moved"],
        ["prev", &prev],
    ];
    assert_eq!(
        removal.tags,
        expected.map(|tag| tag.map(str::to_owned).to_vec())
    );
    let bytes = removal.to_json();
    let author = key(1).public_key().to_string();
    for hidden in [
        room().to_string(),
        moved.to_string(),
        author,
        "Arrived".into(),
        "arrival".into(),
        "elsewhere".into(),
    ] {
        assert!(!bytes.contains(&hidden), "{hidden}");
    }
}

#[test]
fn every_hop_has_its_own_removal_and_no_other_op_has_one() {
    rules!("AR-MOVE-5", "AR-MOVE-9", "AR-MOVE-11");
    let (mut desk, first) = created();
    let message = desk.message(home(), kinds::CHAT);
    let there = desk.accept(&moving(first, room()).event());
    let back = desk.accept(&moving(there, home()).event());
    let away = desk.accept(&moving(back, hall()).event());
    let edit = desk.accept(&Rev::new("update").after(away).at(hall()).event());
    let deletion = desk.accept(&Rev::new("delete").after(edit).at(hall()).event());
    desk.accept(&Rev::new("restore").after(deletion).at(hall()).event());
    let mut told: Vec<_> = removals(&desk)
        .iter()
        .map(|event| {
            (
                event.channel_tag().unwrap(),
                event.first_value("prev").unwrap(),
            )
        })
        .collect();
    told.sort();
    let hops = [(home(), first), (room(), there), (home(), back)]
        .map(|(source, prev)| (source, prev.to_string()));
    let mut expected: Vec<_> = hops
        .iter()
        .map(|(source, prev)| (*source, prev.as_str()))
        .collect();
    expected.sort();
    assert_eq!(told, expected);
    // Nothing of the source is rewritten.
    for (id, channel) in [
        (first, home()),
        (there, room()),
        (back, home()),
        (message, home()),
    ] {
        assert_eq!(desk.body(id).channel, Some(channel));
    }
}

#[test]
fn a_move_needs_write_permission_at_both_ends() {
    rules!("AR-ACC-12", "AR-MOVE-12");
    let (mut desk, first) = created();
    // The second key writes in the source only.
    assert_eq!(
        refusal(&desk.decide(&moving(first, room()).by(&key(2)))),
        "restricted: not a channel member"
    );
    // The third reads the source, and shall write in the destination only.
    desk.join(room(), &key(3), Role::Member);
    let by_guest = desk.decide(&moving(first, room()).by(&key(3)));
    assert_eq!(
        by_guest,
        desk.decide(&kind_9(&key(3), home())),
        "as a message in the source"
    );
    assert!(matches!(by_guest, Decision::Reject(_)));
    desk.accept(&moving(first, room()).by(&key(1)));
}

#[test]
fn a_readable_source_answers_as_it_does_to_a_message_but_a_stale_prev_comes_first() {
    rules!("AR-ACC-12", "AR-LIFE-1", "AR-LIFE-3", "AR-ID-14");
    let (mut desk, first) = created();
    let second = desk.accept(&Rev::new("update").after(first).event());
    desk.edit(home(), |channel| channel.archived = true);
    let current = desk.decide(&moving(second, room()).event());
    assert_eq!(current, desk.decide(&kind_9(&key(1), home())));
    assert_eq!(refusal(&current), "invalid: channel is archived");
    assert_eq!(
        refusal(&desk.decide(&moving(first, room()).event())),
        "conflict: artifact head changed"
    );
    desk.edit(home(), |channel| channel.archived = false);
    desk.accept(&moving(second, room()).event());
}

#[test]
fn source_permission_is_judged_on_the_stored_home() {
    rules!("AR-MOVE-12", "AR-MOVE-13");
    let mut desk = furnished();
    let first = desk.accept(&Rev::new("create").at(vault()).by(&key(4)));
    for named in [home(), room(), hall()] {
        let decision = desk.decide(
            &moving(first, named)
                .push(&["from", &home().to_string()])
                .event(),
        );
        assert_eq!(
            decision,
            Decision::Reject(Rejection::Conflict(
                "conflict: artifact head unavailable".to_owned()
            ))
        );
    }
}

#[test]
fn no_artifact_moves_into_or_out_of_a_deleted_channel() {
    rules!("AR-LIFE-5");
    let (mut desk, first) = created();
    desk.edit(room(), |channel| channel.deleted = true);
    assert_eq!(
        refusal(&desk.decide(&moving(first, room()).event())),
        "restricted: not a channel member"
    );
    desk.edit(home(), |channel| channel.deleted = true);
    assert_eq!(
        refusal(&desk.decide(&moving(first, hall()).event())),
        "conflict: artifact head unavailable"
    );
    assert_eq!(
        refusal(&desk.decide(&Rev::new("update").after(first).event())),
        "restricted: not a channel member"
    );
}

#[test]
fn the_standing_of_the_author_holds_for_moves() {
    rules!("AR-ACC-10");
    let (mut desk, first) = created();
    let standing = Standing {
        missing_scopes: ["messages:write".to_owned()].into(),
        ..Standing::fine()
    };
    desk.standings.insert(key(1).public_key(), standing);
    assert_eq!(
        refusal(&desk.decide(&moving(first, room()).event())),
        "restricted: insufficient scope (need messages:write)"
    );
}

#[test]
fn the_root_of_a_moved_artifact_belongs_to_the_destination() {
    rules!("AR-MOVE-2");
    let mut desk = furnished();
    let (source, destination) = (
        desk.message(home(), kinds::CHAT),
        desk.message(room(), kinds::FORUM_POST),
    );
    let withheld = desk.message(room(), kinds::CHAT);
    desk.withhold(withheld);
    let rooted = |rev: Rev, root: EventId| rev.set("root", &root.to_string());
    let first = desk.accept(&rooted(Rev::new("create"), source).event());
    for root in [source, withheld] {
        assert_eq!(
            refusal(&desk.decide(&rooted(moving(first, room()), root).event())),
            "invalid: root must be an existing conversation anchor in home"
        );
    }
    desk.clone().accept(&moving(first, room()).event());
    desk.accept(&rooted(moving(first, room()), destination).event());
    assert_eq!(desk.head().root, Some(destination));
}
