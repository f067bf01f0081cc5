//! Identity, the chain of revisions, roots, and what an accepted revision leaves in the store.

use super::desk::{Desk, furnished, hall, home, refusal, room};
use super::{ARTIFACT, ID_A, ID_B, OPS, Rev, SIGNED_AT, key};
use crate::accept::{Change, Decision, Rejection, Standing};
use crate::channel::Role;
use crate::ids::ChannelId;
use crate::nostr::{Draft, EventId, Kind, kinds};
use crate::rules;

const TAKEN: &str = "conflict: artifact identity is taken";
const CHANGED: &str = "conflict: artifact head changed";
const UNAVAILABLE: &str = "conflict: artifact head unavailable";
const BAD_ROOT: &str = "invalid: root must be an existing conversation anchor in home";

fn created() -> (Desk, EventId) {
    let mut desk = furnished();
    let first = desk.accept(&Rev::new("create").event());
    (desk, first)
}

fn update(prev: EventId) -> Rev {
    Rev::new("update").after(prev)
}

fn rooted(rev: Rev, root: EventId) -> Rev {
    rev.set("root", &root.to_string())
}

#[test]
fn an_artifact_begins_with_a_create() {
    rules!("AR-ID-6", "AR-ENV-16");
    let desk = furnished();
    for op in ["update", "delete", "restore"] {
        assert_eq!(refusal(&desk.decide(&Rev::new(op).event())), UNAVAILABLE);
    }
    assert_eq!(
        refusal(&desk.decide(&Rev::new("move").at(room()).event())),
        UNAVAILABLE
    );
    let with_prev = Rev::new("create").set("prev", ID_A).event();
    assert_eq!(
        refusal(&desk.decide(&with_prev)),
        "invalid: prev required exactly on non-create revisions"
    );
}

#[test]
fn an_identity_is_used_once_whatever_becomes_of_the_artifact() {
    rules!("AR-ID-5", "AR-ID-18", "AR-DEL-12", "AR-ID-1");
    let (live, first) = created();
    let (mut deleted, mut redacted, mut moved, mut gone) =
        (live.clone(), live.clone(), live.clone(), live.clone());
    deleted.accept(&Rev::new("delete").after(first).event());
    redacted.withhold(first);
    moved.accept(&Rev::new("move").after(first).at(room()).event());
    gone.accept(&Rev::new("move").after(first).at(room()).event());
    gone.edit(room(), |channel| channel.deleted = true);
    let mut forgotten = deleted.clone();
    forgotten.expire();
    for desk in [live, deleted, redacted, moved, gone, forgotten] {
        for author in [1, 2] {
            for channel in [home(), hall()] {
                let again = Rev::new("create")
                    .at(channel)
                    .set("title", "Another")
                    .by(&key(author));
                let decision = desk.decide(&again);
                assert_eq!(
                    decision,
                    Decision::Reject(Rejection::Conflict(TAKEN.to_owned()))
                );
            }
        }
    }
}

#[test]
fn prev_names_the_current_revision() {
    rules!("AR-ID-7", "AR-ID-9", "AR-ID-14", "AR-DEL-8");
    let (mut desk, first) = created();
    let other = desk.accept(&Rev::new("create").set("d", &room().to_string()).event());
    let second = desk.accept(&update(first).event());
    let strange: EventId = ID_A.parse().unwrap();
    for op in ["update", "move", "delete", "restore"] {
        for prev in [first, other, strange] {
            // Signed later than the accepted ones, so that none is a resubmission.
            let mut rev = Rev::new(op).after(prev);
            rev.created_at += 1;
            let rev = if op == "move" { rev.at(room()) } else { rev };
            let decision = desk.decide(&rev.event());
            assert_eq!(
                decision,
                Decision::Reject(Rejection::Conflict(CHANGED.to_owned()))
            );
        }
    }
    // Of two edits of one revision the second conflicts, and stays in conflict.
    let (one, two) = (update(second).content("one"), update(second).content("two"));
    desk.accept(&one.event());
    for _ in 0..2 {
        assert_eq!(refusal(&desk.submit(&two.by(&key(2)))), CHANGED);
    }
    let delete = desk.accept(&Rev::new("delete").after(desk.head().event).event());
    assert_eq!(
        refusal(&desk.decide(&Rev::new("restore").after(second).event())),
        CHANGED
    );
    desk.accept(&Rev::new("restore").after(delete).event());
}

#[test]
fn acceptance_decides_not_the_time_of_signing() {
    rules!("AR-ID-10", "AR-CUR-1");
    let (mut desk, first) = created();
    let later = Rev {
        created_at: SIGNED_AT + 800,
        ..update(first)
    };
    let earlier = Rev {
        created_at: SIGNED_AT - 800,
        ..update(desk.accept(&later.event()))
    };
    let second = desk.accept(&earlier.event());
    assert_eq!(desk.head().event, second);
    assert_eq!(
        refusal(
            &desk.decide(
                &Rev {
                    created_at: SIGNED_AT + 900,
                    ..update(first)
                }
                .event()
            )
        ),
        CHANGED
    );
}

#[test]
fn type_is_immutable() {
    rules!("AR-ID-2");
    let (mut desk, first) = created();
    let retyped = |op: &str, prev| Rev::new(op).after(prev).set("type", "buzz.project");
    let text = "invalid: artifact type is immutable";
    assert_eq!(
        refusal(&desk.decide(&retyped("update", first).event())),
        text
    );
    assert_eq!(
        refusal(&desk.decide(&retyped("delete", first).event())),
        text
    );
    assert_eq!(
        refusal(&desk.decide(&retyped("move", first).at(room()).event())),
        text
    );
    let deletion = desk.accept(&Rev::new("delete").after(first).event());
    assert_eq!(
        refusal(&desk.decide(&retyped("restore", deletion).event())),
        text
    );
}

#[test]
fn only_a_move_changes_home() {
    rules!("AR-ID-16", "AR-ID-17");
    let (desk, first) = created();
    let text = "invalid: only move changes home and move must change home";
    for channel in [room(), hall()] {
        assert_eq!(
            refusal(&desk.decide(&update(first).at(channel).event())),
            text
        );
    }
    assert_eq!(
        refusal(&desk.decide(&Rev::new("move").after(first).event())),
        text
    );
}

#[test]
fn a_resubmission_succeeds_silently_whatever_happened_since() {
    rules!("AR-ID-11", "AR-ID-12", "AR-ID-13", "AR-MOD-10", "AR-MOD-13");
    let author = key(2);
    let mut desk = furnished();
    let event = Rev::new("create").by(&author);
    let first = desk.accept(&event);
    let mut worlds = vec![desk.clone()];
    desk.accept(&Rev::new("move").after(first).at(room()).event());
    worlds.push(desk.clone());
    desk.withhold(first);
    worlds.push(desk.clone());
    desk.expire();
    worlds.push(desk.clone());
    desk.leave(home(), &author);
    worlds.push(desk.clone());
    desk.edit(home(), |channel| channel.archived = true);
    worlds.push(desk.clone());
    desk.edit(home(), |channel| channel.deleted = true);
    worlds.push(desk.clone());
    desk.standings.insert(
        author.public_key(),
        Standing {
            banned: true,
            ..Standing::fine()
        },
    );
    worlds.push(desk);
    for mut desk in worlds {
        let before = desk.clone();
        assert_eq!(
            desk.submit(&event),
            Decision::Already {
                message: String::new()
            }
        );
        assert_eq!(desk, before);
    }
}

#[test]
fn a_resubmission_is_known_before_its_time_is_judged() {
    rules!("AR-ID-11");
    let mut desk = furnished();
    let old = Rev {
        created_at: SIGNED_AT - 10_000,
        ..Rev::new("create")
    }
    .event();
    assert_eq!(
        refusal(&desk.decide(&old)),
        "invalid: event timestamp too far from server time"
    );
    desk.accepted.insert(old.id, old.pubkey);
    assert_eq!(
        desk.decide(&old),
        Decision::Already {
            message: String::new()
        }
    );
}

#[test]
fn a_revision_deleted_by_its_author_before_it_came_is_refused() {
    let mut desk = furnished();
    let event = Rev::new("create").event();
    let deletion = Draft {
        created_at: SIGNED_AT,
        kind: kinds::DELETION,
        tags: vec![vec!["e".to_owned(), event.id.to_string()]],
        content: String::new(),
    };
    desk.accept(&deletion.sign(&key(1)));
    assert_eq!(
        refusal(&desk.decide(&event)),
        "blocked: this event was deleted by its author"
    );
    // Once accepted it stays accepted.
    desk.accepted.insert(event.id, event.pubkey);
    assert_eq!(
        desk.decide(&event),
        Decision::Already {
            message: String::new()
        }
    );
}

#[test]
fn a_new_root_is_a_conversation_message_of_the_home() {
    rules!("AR-ID-21", "AR-ID-22");
    let (mut desk, first) = created();
    let anchors = kinds::ANCHORS.map(|kind| desk.message(home(), kind));
    let withheld = desk.message(home(), kinds::CHAT);
    desk.withhold(withheld);
    let not_anchors: [Kind; 3] = [
        kinds::REACTION,
        kinds::STREAM_MESSAGE_EDIT,
        kinds::MEMBER_ADDED,
    ];
    let mut wrong: Vec<EventId> = not_anchors.map(|kind| desk.message(home(), kind)).into();
    wrong.extend([
        withheld,
        first,
        desk.message(room(), kinds::CHAT),
        ID_B.parse().unwrap(),
    ]);
    let another = Rev::new("create").set("d", &room().to_string());
    let rooted_head = desk.accept(&rooted(update(first), anchors[0]).event());
    for root in wrong {
        for rev in [another.clone(), update(rooted_head)] {
            assert_eq!(refusal(&desk.decide(&rooted(rev, root).event())), BAD_ROOT);
        }
    }
    for root in anchors {
        for rev in [another.clone(), update(rooted_head)] {
            desk.clone().accept(&rooted(rev, root).event());
        }
    }
    let deletion = desk.accept(&rooted(Rev::new("delete").after(rooted_head), anchors[0]).event());
    let restore = Rev::new("restore").after(deletion);
    assert_eq!(
        refusal(&desk.decide(&rooted(restore.clone(), withheld).event())),
        BAD_ROOT
    );
    desk.accept(&rooted(restore, anchors[1]).event());
}

#[test]
fn a_kept_root_outlives_its_message_and_may_always_be_dropped() {
    rules!("AR-ID-23");
    let mut desk = furnished();
    let anchor = desk.message(home(), kinds::CHAT);
    let first = desk.accept(&rooted(Rev::new("create"), anchor).event());
    desk.withhold(anchor);
    let second = desk.accept(&rooted(update(first), anchor).event());
    desk.expire();
    let third = desk.accept(&rooted(update(second), anchor).by(&key(2)));
    let deletion = desk.accept(&rooted(Rev::new("delete").after(third), anchor).event());
    let restored = desk.accept(&rooted(Rev::new("restore").after(deletion), anchor).event());
    let dropped = desk.accept(&update(restored).event());
    assert_eq!(
        refusal(&desk.decide(&rooted(update(dropped), anchor).event())),
        BAD_ROOT
    );
}

#[test]
fn nothing_but_the_identity_is_unique() {
    rules!("AR-ENV-29");
    let mut desk = furnished();
    let anchor = desk.message(home(), kinds::CHAT);
    for d in [ARTIFACT.to_owned(), room().to_string(), hall().to_string()] {
        desk.accept(&rooted(Rev::new("create").set("d", &d), anchor).event());
    }
    assert_eq!(desk.heads.len(), 3);
}

#[test]
fn an_accepted_revision_is_stored_whole_beside_the_earlier_ones() {
    rules!(
        "AR-ENV-1",
        "AR-ENV-24",
        "AR-ENV-25",
        "AR-ID-3",
        "AR-CUR-7",
        "AR-ENV-27"
    );
    let mut desk = furnished();
    let tagged = |rev: Rev| {
        rev.push(&["assignee", "someone", "extra"])
            .push(&["x-y", ""])
            .push(&["P"])
            .push(&["p", &room().to_string()])
    };
    let create = tagged(Rev::new("create").content("not { json")).event();
    let first = desk.accept(&create);
    let edit = tagged(update(first).content("\u{1f680}\u{7}")).event();
    let second = desk.accept(&edit);
    let third = desk.accept(&update(second).content("").event());

    assert_eq!(desk.accepted.len(), 3);
    for (event, id) in [(&create, first), (&edit, second)] {
        let stored = desk.body(id);
        assert_eq!(
            stored.event, *event,
            "the signed event itself, the whole state of the artifact"
        );
        assert_eq!(stored.channel, Some(home()));
        assert_eq!(stored.artifact.unwrap().to_string(), ARTIFACT);
        assert_eq!((stored.slot.clone(), stored.expires_at), (None, None));
        for term in [
            ("assignee", "someone"),
            ("x-y", ""),
            ("type", "buzz.task"),
            ("op", event.first_value("op").unwrap()),
        ] {
            assert!(
                stored
                    .terms
                    .contains(&(term.0.to_owned(), term.1.to_owned())),
                "{term:?}"
            );
        }
        assert!(
            stored
                .terms
                .iter()
                .all(|(name, value)| name != "P" && value != "extra")
        );
    }
    let rows: Vec<_> = desk
        .ledger
        .iter()
        .map(|row| (row.change, row.channel, row.event, row.artifact))
        .collect();
    let artifact = Some(ARTIFACT.parse().unwrap());
    assert_eq!(
        rows,
        [first, second, third].map(|id| (Change::Revision, Some(home()), Some(id), artifact))
    );
    // A person or channel named in a tag gains nothing.
    assert_eq!(desk.members, furnished().members);
    assert_eq!(desk.channels, furnished().channels);
}

#[test]
fn a_refused_revision_leaves_no_trace() {
    rules!("AR-ENV-20", "AR-ENV-3");
    let (mut desk, first) = created();
    let before = desk.clone();
    for op in OPS {
        let rev = if op == "create" {
            Rev::new(op)
        } else {
            Rev::new(op).after(first)
        };
        for bad in [
            rev.clone().set("ar", "2"),
            rev.clone().without("ar"),
            rev.clone().without("d"),
            rev.clone().without("h"),
            rev.clone().set("h", "x"),
            rev.clone().set("d", "x"),
            rev.clone().set("type", "task"),
            rev.clone().push(&["h", &room().to_string()]),
            rev.clone().push(&["auth", "x"]),
        ] {
            let decision = desk.submit(&bad.event());
            assert!(
                matches!(decision, Decision::Reject(Rejection::Invalid(_))),
                "{decision:?}"
            );
            assert_eq!(desk, before);
        }
    }
}

#[test]
fn size_and_time_are_those_of_any_event() {
    rules!("AR-ACC-8");
    let desk = furnished();
    let large = "x".repeat(crate::limits::CONTENT_BYTES_MAX);
    let fits = Rev::new("create").content(&large);
    assert!(matches!(desk.decide(&fits.event()), Decision::Write { .. }));
    assert_eq!(
        refusal(&desk.decide(&fits.content(&format!("{large}x")).event())),
        "invalid: content exceeds maximum size of 262144 bytes (got 262145)"
    );
    let now = desk.now();
    for (created_at, taken) in [
        (now + 900, true),
        (now - 900, true),
        (now + 901, false),
        (now - 901, false),
    ] {
        let decision = desk.decide(
            &Rev {
                created_at,
                ..Rev::new("create")
            }
            .event(),
        );
        assert_eq!(matches!(decision, Decision::Write { .. }), taken);
    }
}

#[test]
fn the_gate_of_the_named_channel_comes_before_the_envelope_and_that_before_prev() {
    rules!("AR-ACC-8", "AR-ENV-17");
    let (mut desk, _) = created();
    let outsider = key(5);
    let malformed = Rev::new("update").set("prev", "x");
    assert_eq!(
        refusal(&desk.decide(&malformed.by(&outsider))),
        "restricted: not a channel member"
    );
    assert_eq!(
        refusal(&desk.decide(&malformed.event())),
        "invalid: event ID must be 64 lowercase hex characters"
    );
    // The first h that is a channel id is the one the gate judges; without any, the envelope is next.
    let unreadable: ChannelId = "55555555-5555-4555-8555-555555555555".parse().unwrap();
    let mut two = Rev::new("create");
    two.tags
        .insert(0, vec!["h".to_owned(), unreadable.to_string()]);
    assert_eq!(
        refusal(&desk.decide(&two.event())),
        "restricted: not a channel member"
    );
    two.tags[0][1] = "no channel".to_owned();
    let text = "invalid: envelope tags must occur once with exactly two elements";
    assert_eq!(refusal(&desk.decide(&two.event())), text);
    let homeless = Rev::new("create").without("h");
    assert_eq!(
        refusal(&desk.decide(&homeless.event())),
        "invalid: missing required envelope tag"
    );
    desk.standings.insert(
        key(1).public_key(),
        Standing {
            banned: true,
            ..Standing::fine()
        },
    );
    assert_eq!(
        refusal(&desk.decide(&homeless.event())),
        "blocked: you are banned from this community"
    );
}

#[test]
fn anyone_who_may_write_in_the_home_may_revise() {
    rules!("AR-ACC-13", "AR-ACC-14", "AR-ACC-15");
    for channel_type in ["stream", "forum", "dm", "workflow", "system", "later"] {
        let mut desk = furnished();
        desk.edit(home(), |channel| {
            channel.channel_type = crate::channel::ChannelType::from_stored(channel_type);
        });
        desk.join(room(), &key(2), Role::Bot);
        let first = desk.accept(&Rev::new("create").push(&["t", "dm"]).event());
        let second = desk.accept(&update(first).by(&key(2)));
        let there = desk.accept(&Rev::new("move").after(second).at(room()).by(&key(2)));
        let back = desk.accept(&Rev::new("move").after(there).event());
        let deletion = desk.accept(&Rev::new("delete").after(back).by(&key(2)));
        desk.accept(&Rev::new("restore").after(deletion).event());
    }
}
