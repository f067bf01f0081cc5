//! Who may write artifacts: exactly who may write messages, with the same words.

use super::desk::{Desk, furnished, hall, home, kind_9, room};
use super::{Rev, SIGNED_AT, key};
use crate::accept::{Decision, Standing};
use crate::channel::{Role, Visibility};
use crate::rules;

/// Standings a writer may have.
fn standings() -> [Standing; 5] {
    let fine = Standing::fine;
    [
        fine(),
        Standing {
            banned: true,
            ..fine()
        },
        Standing {
            timed_out_until: Some(SIGNED_AT + 60),
            ..fine()
        },
        Standing {
            timed_out_until: Some(SIGNED_AT - 60),
            ..fine()
        },
        Standing {
            missing_scopes: ["messages:write".to_owned()].into(),
            ..fine()
        },
    ]
}

/// Worlds that differ in the home's state and in the writer's role and standing. The artifact is there already, live in one
/// half of them and deleted in the other, by someone else.
fn worlds() -> Vec<(Desk, Rev, Rev)> {
    let mut worlds = Vec::new();
    let roles = [
        None,
        Some(Role::Owner),
        Some(Role::Admin),
        Some(Role::Member),
        Some(Role::Bot),
        Some(Role::Guest),
    ];
    for (visibility, state) in [Visibility::Open, Visibility::Private]
        .into_iter()
        .flat_map(|v| (0..3).map(move |s| (v, s)))
    {
        for role in roles {
            for standing in standings() {
                let mut live = furnished();
                let first = live.accept(&Rev::new("create").by(&key(1)));
                let mut deleted = live.clone();
                let deletion = deleted.accept(&Rev::new("delete").after(first).by(&key(1)));
                for (mut desk, revs) in [
                    (
                        live,
                        (
                            Rev::new("update").after(first),
                            Rev::new("delete").after(first),
                        ),
                    ),
                    (
                        deleted,
                        (
                            Rev::new("restore").after(deletion),
                            Rev::new("create").set("d", &room().to_string()),
                        ),
                    ),
                ] {
                    desk.edit(home(), |channel| {
                        channel.visibility = visibility;
                        channel.archived = state == 1;
                        channel.deleted = state == 2;
                    });
                    desk.leave(home(), &key(2));
                    if let Some(role) = role {
                        desk.join(home(), &key(2), role);
                    }
                    desk.standings.insert(key(2).public_key(), standing.clone());
                    worlds.push((desk, revs.0, revs.1));
                }
            }
        }
    }
    worlds
}

#[test]
fn a_revision_is_taken_exactly_where_a_message_is_and_refused_in_the_same_words() {
    rules!(
        "AR-ACC-7",
        "AR-ACC-8",
        "AR-ACC-9",
        "AR-ACC-10",
        "AR-ACC-11",
        "AR-LIFE-1"
    );
    let (mut taken, mut refused) = (0, 0);
    for (desk, one, other) in worlds() {
        let message = desk.decide(&kind_9(&key(2), home()));
        for rev in [one, other] {
            let revision = desk.decide(&rev.by(&key(2)));
            match &message {
                Decision::Reject(_) => {
                    assert_eq!(revision, message);
                    refused += 1;
                }
                Decision::Write { .. } => {
                    assert!(matches!(revision, Decision::Write { .. }), "{revision:?}");
                    taken += 1;
                }
                other => panic!("a message is neither: {other:?}"),
            }
        }
    }
    // Five roles in a private channel, five (all but guest) in an open one; alive, unarchived, of two standings out of five.
    assert_eq!(
        (taken, taken + refused),
        ((4 + 5) * 2 * 4, 2 * 3 * 6 * 5 * 4)
    );
}

#[test]
fn the_words_are_those_of_messages() {
    rules!("AR-ACC-8", "AR-LIFE-1", "AR-LIFE-4", "AR-LIFE-5");
    let mut desk = furnished();
    let first = desk.accept(&Rev::new("create").event());
    let update = |author: u8| Rev::new("update").after(first).by(&key(author));
    let text =
        |desk: &Desk, author: u8| super::desk::refusal(&desk.decide(&update(author))).to_owned();
    assert_eq!(
        text(&desk, 3),
        "restricted: not a channel member",
        "a guest only reads"
    );
    assert_eq!(text(&desk, 5), "restricted: not a channel member");
    desk.edit(home(), |channel| channel.archived = true);
    assert_eq!(text(&desk, 1), "invalid: channel is archived");
    assert_eq!(text(&desk, 5), "restricted: not a channel member");
    desk.edit(home(), |channel| channel.archived = false);
    assert!(matches!(desk.decide(&update(1)), Decision::Write { .. }));
    desk.edit(home(), |channel| channel.deleted = true);
    assert_eq!(text(&desk, 1), "restricted: not a channel member");
}

#[test]
fn a_nonmember_writes_in_an_open_channel() {
    rules!("AR-ACC-9");
    let mut desk = furnished();
    let first = desk.accept(&Rev::new("create").at(hall()).by(&key(5)));
    let second = desk.accept(&Rev::new("update").at(hall()).after(first).by(&key(6)));
    desk.accept(&Rev::new("delete").at(hall()).after(second).by(&key(5)));
}
