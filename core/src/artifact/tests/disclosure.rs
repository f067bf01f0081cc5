//! A writer learns nothing of an artifact in a channel it cannot read, whatever it sends.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::desk::{Desk, furnished, hall, home, room, vault};
use super::{ID_A, OPS, Rev, SIGNED_AT, key};
use crate::accept::{Decision, Rejection};
use crate::channel::Role;
use crate::ids::ChannelId;
use crate::nostr::kinds;
use crate::rules;

/// Worlds in which the second key, who writes in `home` and `hall`, cannot read the artifact, and one in which it never was.
/// All hold the same channels as the second key sees them.
fn worlds() -> Vec<Desk> {
    let mut desk = furnished();
    desk.message(home(), kinds::CHAT);
    desk.message(vault(), kinds::CHAT);
    desk.join(home(), &key(4), Role::Member);
    let unknown = desk.clone();
    // Begun where the second key reads it, then moved away.
    let first = desk.accept(&Rev::new("create").by(&key(4)));
    let moved = desk.accept(&Rev::new("move").after(first).at(vault()).by(&key(4)));
    let live = desk.clone();
    let mut redacted = desk.clone();
    redacted.withhold(moved);
    let (mut archived, mut gone) = (desk.clone(), desk.clone());
    archived.edit(vault(), |channel| channel.archived = true);
    gone.edit(vault(), |channel| channel.deleted = true);
    let mut deleted = desk.clone();
    deleted.accept(&Rev::new("delete").after(moved).at(vault()).by(&key(4)));
    let mut elsewhere = desk;
    elsewhere.join(room(), &key(4), Role::Member);
    elsewhere.accept(&Rev::new("move").after(moved).at(room()).by(&key(4)));
    let mut begun_there = unknown.clone();
    begun_there.accept(
        &Rev::new("create")
            .at(vault())
            .set("type", "buzz.project")
            .by(&key(4)),
    );
    vec![
        unknown,
        live,
        redacted,
        archived,
        gone,
        deleted,
        elsewhere,
        begun_there,
    ]
}

/// Every id that any of the worlds holds, and one that none does.
fn ids(worlds: &[Desk]) -> Vec<String> {
    let known: BTreeSet<String> = worlds
        .iter()
        .flat_map(|desk| desk.events.keys())
        .map(|id| id.to_string())
        .collect();
    known.into_iter().chain([ID_A.to_owned()]).collect()
}

fn taken() -> Decision {
    Decision::Reject(Rejection::Conflict(
        "conflict: artifact identity is taken".to_owned(),
    ))
}

#[derive(Clone, Debug)]
struct Attempt {
    op: &'static str,
    home: ChannelId,
    artifact_type: &'static str,
    prev: prop::sample::Index,
    root: Option<prop::sample::Index>,
    spoilt: bool,
}

fn attempts() -> impl Strategy<Value = Attempt> {
    let homes = vec![home(), hall(), vault(), room()];
    let parts = (
        prop::sample::select(&OPS[..]),
        prop::sample::select(homes),
        prop::sample::select(&["buzz.task", "buzz.project"][..]),
        any::<prop::sample::Index>(),
        prop::option::of(any::<prop::sample::Index>()),
        prop::bool::weighted(0.1),
    );
    parts.prop_map(|(op, home, artifact_type, prev, root, spoilt)| Attempt {
        op,
        home,
        artifact_type,
        prev,
        root,
        spoilt,
    })
}

fn revision(attempt: &Attempt, ids: &[String]) -> Rev {
    let mut rev = Rev::new(attempt.op)
        .at(attempt.home)
        .set("type", attempt.artifact_type);
    // Unlike every stored revision, so that none of the attempts is a resubmission.
    rev.created_at = SIGNED_AT + 60;
    if attempt.op != "create" {
        rev = rev.set("prev", &ids[attempt.prev.index(ids.len())]);
    }
    if let Some(root) = attempt.root {
        rev = rev.set("root", &ids[root.index(ids.len())]);
    }
    if attempt.spoilt {
        rev.push(&["ar", "1"])
    } else {
        rev
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_unreadable_artifact_answers_like_an_unknown_one(attempt in attempts()) {
        rules!("AR-ACC-18", "AR-ID-19", "AR-MOVE-12", "AR-MOVE-13");
        let worlds = worlds();
        let event = revision(&attempt, &ids(&worlds)).by(&key(2));
        let answers: Vec<Decision> = worlds.iter().map(|desk| desk.decide(&event)).collect();
        let (unknown, held) = answers.split_first().unwrap();
        if attempt.op == "create" {
            // Only that the identity is taken, and only where a creation is looked at so far.
            let gate_or_envelope = attempt.spoilt || ![home(), hall()].contains(&attempt.home);
            let expected = if gate_or_envelope { unknown.clone() } else { taken() };
            prop_assert!(held.iter().all(|answer| *answer == expected), "{answers:?}");
        } else {
            prop_assert!(matches!(unknown, Decision::Reject(_)));
            prop_assert!(held.iter().all(|answer| answer == unknown), "{answers:?}");
        }
    }
}

#[test]
fn the_right_prev_opens_nothing() {
    rules!("AR-ACC-18", "AR-MOVE-13");
    for desk in &worlds()[1..] {
        let current = desk.head().event;
        for op in ["update", "move", "delete", "restore"] {
            for channel in [home(), hall()] {
                let decision = desk.decide(&Rev::new(op).after(current).at(channel).by(&key(2)));
                let text = "conflict: artifact head unavailable".to_owned();
                assert_eq!(decision, Decision::Reject(Rejection::Conflict(text)));
            }
        }
    }
}
