//! 9000, 9001, 9021 and 9022: who may do what to whom, and with which words the rest is refused.

use super::*;
use crate::accept::model::{BEGIN_SECS, key};
use crate::accept::{Change, Standing};
use crate::channel::{Member, Role};
use crate::limits::{CHANNEL_MEMBERS_MAX, FRAME_BYTES_MAX};
use crate::nostr::Draft;

const NEW: u8 = 9;

#[test]
fn a_new_member_is_added_by_anyone_in_an_open_channel_and_by_members_in_a_private_one() {
    for by in EVERYONE {
        let mut model = community();
        let guest = refused("invalid: actor not authorized");
        let expected = if by == GUEST { guest.clone() } else { done() };
        assert_eq!(put(&mut model, by, open(), NEW, ""), expected, "{by}");
        let expected = match by {
            GUEST => guest,
            STRANGER => refused(NOT_A_MEMBER),
            _ => done(),
        };
        assert_eq!(
            put(&mut model, by, private(), NEW, "guest"),
            expected,
            "{by}"
        );
    }
}

#[test]
fn only_owners_and_admins_give_elevated_roles_or_change_a_role() {
    for by in [OWNER, ADMIN, MEMBER, BOT, STRANGER] {
        let elevated = [OWNER, ADMIN].contains(&by);
        let or = |text: &str| if elevated { done() } else { refused(text) };
        for role in ["owner", "admin"] {
            let expected = or("invalid: only owners/admins may grant elevated roles");
            assert_eq!(
                put(&mut community(), by, open(), NEW, role),
                expected,
                "{by}"
            );
            assert_eq!(
                put(&mut community(), by, open(), GUEST, role),
                expected,
                "{by}"
            );
        }
        for (target, role) in [
            (GUEST, "member"),
            (MEMBER, "guest"),
            (ADMIN, "bot"),
            (BOT, "member"),
        ] {
            let expected = or("invalid: only owners/admins may change an active member's role");
            assert_eq!(
                put(&mut community(), by, open(), target, role),
                expected,
                "{by} {target}"
            );
        }
        let mut model = community();
        let same = unchanged("already a member with this role");
        assert_eq!(
            put(&mut model, by, open(), GUEST, ""),
            same,
            "no role keeps the role"
        );
        assert_eq!(put(&mut model, by, open(), GUEST, "guest"), same);
        assert_eq!(model.role(open(), pubkey(GUEST)), Some(Role::Guest));
    }
}

#[test]
fn a_role_stands_in_p_or_in_a_tag_of_its_own_and_both_agree() {
    let mut model = community();
    let (h, p) = (open().to_string(), pubkey(NEW).to_string());
    let mut with = |p_tag: &[&str], role: Option<&str>| {
        let role = role.map(|role| ["role", role]);
        let h: [&str; 2] = ["h", &h];
        let mut tags: Vec<&[&str]> = vec![&h, p_tag];
        tags.extend(role.iter().map(|tag| tag.as_slice()));
        model.send(OWNER, 9000, &tags)
    };
    assert_eq!(with(&["p", &p, "bot"], None), done());
    assert_eq!(with(&["p", &p], Some("admin")), done());
    assert_eq!(with(&["p", &p, ""], Some("owner")), done());
    assert_eq!(with(&["p", &p, "guest"], Some("guest")), done());
    let differ = refused("invalid: the role in the p tag and the role tag differ");
    assert_eq!(with(&["p", &p, "admin"], Some("owner")), differ);
    assert_eq!(
        with(&["p", &p, "king"], None),
        refused("invalid: invalid role: king")
    );
    assert_eq!(
        with(&["p", &p], Some("Owner")),
        refused("invalid: invalid role: Owner")
    );
    assert_eq!(with(&["q", &p], None), refused("invalid: missing p tag"));
    assert_eq!(with(&["p"], None), refused("invalid: missing p tag"));
    let malformed = refused("invalid: p tag must name a public key in 64 lowercase hex characters");
    assert_eq!(with(&["p", &p.to_uppercase()], None), malformed);
    assert_eq!(
        model.role(open(), pubkey(NEW)),
        Some(Role::Guest),
        "the last of the four"
    );
}

#[test]
fn one_owner_always_stays() {
    let demote = refused("invalid: cannot demote the last owner — transfer ownership first");
    let leave = refused("invalid: cannot remove the last owner");
    let mut model = community();
    for by in [OWNER, ADMIN] {
        assert_eq!(put(&mut model, by, open(), OWNER, "admin"), demote);
        assert_eq!(remove(&mut model, by, open(), OWNER), leave);
    }
    assert_eq!(bare(&mut model, OWNER, 9022, open()), leave);
    assert_eq!(put(&mut model, OWNER, open(), NEW, "owner"), done());
    assert_eq!(bare(&mut model, OWNER, 9022, open()), done());
    assert_eq!(bare(&mut model, NEW, 9022, open()), leave);
    assert_eq!(put(&mut model, NEW, open(), NEW, "member"), demote);
}

#[test]
fn members_leave_and_owners_and_admins_remove_others() {
    for by in EVERYONE {
        for target in [ADMIN, MEMBER, BOT, GUEST] {
            let expected = match by {
                STRANGER => refused("invalid: actor is not an active member"),
                by if by == target || [OWNER, ADMIN].contains(&by) => done(),
                _ => refused("invalid: actor not authorized"),
            };
            assert_eq!(
                remove(&mut community(), by, open(), target),
                expected,
                "{by} {target}"
            );
            let expected = if by == STRANGER {
                refused(NOT_A_MEMBER)
            } else {
                expected
            };
            assert_eq!(
                remove(&mut community(), by, private(), target),
                expected,
                "{by} {target}"
            );
        }
    }
    let mut model = community();
    assert_eq!(
        remove(&mut model, OWNER, open(), STRANGER),
        unchanged("not a member")
    );
    let stranger = refused("invalid: actor is not an active member");
    assert_eq!(bare(&mut model, STRANGER, 9022, open()), stranger);
    assert_eq!(
        bare(&mut model, STRANGER, 9022, private()),
        refused(NOT_A_MEMBER)
    );
    assert_eq!(bare(&mut model, GUEST, 9022, open()), done());
    assert_eq!(model.role(open(), pubkey(GUEST)), None);
    assert_eq!(
        model.role(private(), pubkey(GUEST)),
        Some(Role::Guest),
        "other channels stay"
    );
}

#[test]
fn anyone_joins_an_open_channel_once() {
    let mut model = community();
    assert_eq!(bare(&mut model, STRANGER, 9021, open()), done());
    assert_eq!(model.role(open(), pubkey(STRANGER)), Some(Role::Member));
    for who in EVERYONE {
        assert_eq!(
            bare(&mut model, who, 9021, open()),
            unchanged("already a member")
        );
    }
    assert_eq!(
        bare(&mut model, GUEST, 9021, private()),
        unchanged("already a member")
    );
    assert_eq!(model.role(private(), pubkey(GUEST)), Some(Role::Guest));
}

#[test]
fn channels_that_the_sender_cannot_read_look_like_none_at_all() {
    // B13
    let mut model = community();
    let p = pubkey(NEW).to_string();
    let e = "ab".repeat(32);
    for h in [
        private().to_string(),
        gone().to_string(),
        channel_id(9).to_string(),
        "general".to_owned(),
    ] {
        let h: &[&str] = &["h", &h];
        for (kind, tag) in [
            (9000, ["p", p.as_str()]),
            (9001, ["p", &p]),
            (9002, ["name", "x"]),
            (9002, ["topic", "x"]),
            (9005, ["e", &e]),
            (9008, ["x", "y"]),
            (9022, ["x", "y"]),
        ] {
            assert_eq!(
                model.send(STRANGER, kind, &[h, &tag]),
                refused(NOT_A_MEMBER),
                "{kind} {h:?}"
            );
        }
        let private = refused("restricted: channel is private");
        assert_eq!(model.send(STRANGER, 9021, &[h]), private);
    }
}

#[test]
fn an_archived_channel_takes_no_command_but_the_end_of_the_archive() {
    let mut model = community();
    let e = "ab".repeat(32);
    let h = open().to_string();
    assert_eq!(
        edit(&mut model, OWNER, open(), &["archived", "true"]),
        done()
    );
    let before = model.clone();
    assert_eq!(put(&mut model, OWNER, open(), NEW, ""), refused(ARCHIVED));
    assert_eq!(
        put(&mut model, OWNER, open(), MEMBER, "member"),
        refused(ARCHIVED)
    );
    assert_eq!(remove(&mut model, OWNER, open(), MEMBER), refused(ARCHIVED));
    assert_eq!(bare(&mut model, MEMBER, 9022, open()), refused(ARCHIVED));
    assert_eq!(bare(&mut model, STRANGER, 9021, open()), refused(ARCHIVED));
    assert_eq!(bare(&mut model, OWNER, 9008, open()), refused(ARCHIVED));
    assert_eq!(
        model.send(OWNER, 9005, &[&["h", &h], &["e", &e]]),
        refused(ARCHIVED)
    );
    assert_eq!(
        edit(&mut model, OWNER, open(), &["name", "x"]),
        refused(ARCHIVED)
    );
    assert_eq!(
        edit(&mut model, OWNER, open(), &["archived", "true"]),
        refused(ARCHIVED)
    );
    assert_eq!(
        (&model.events, &model.members),
        (&before.events, &before.members)
    );
    assert_eq!(
        edit(&mut model, ADMIN, open(), &["archived", "false"]),
        done()
    );
    assert_eq!(put(&mut model, OWNER, open(), NEW, ""), done());
}

#[test]
fn commands_need_the_scope_of_their_kind() {
    let (h, p, e) = (open().to_string(), pubkey(NEW).to_string(), "ab".repeat(32));
    let cases: [(u16, &[&str], &str); 9] = [
        (9000, &["p", &p], "admin:channels"),
        (9001, &["p", &p], "admin:channels"),
        (9002, &["name", "x"], "channels:write"),
        (9002, &["archived", "true"], "admin:channels"),
        (9005, &["e", &e], "messages:write"),
        (9007, &["name", "x"], "channels:write"),
        (9008, &["x"], "admin:channels"),
        (9021, &["x"], "channels:read"),
        (9022, &["x"], "channels:read"),
    ];
    let scopes = [
        "admin:channels",
        "channels:write",
        "messages:write",
        "channels:read",
    ];
    for (kind, tag, needed) in cases {
        for scope in scopes {
            let mut model = community();
            let missing_scopes = [scope.to_owned()].into();
            model.standings.insert(
                pubkey(OWNER),
                Standing {
                    missing_scopes,
                    ..Standing::fine()
                },
            );
            let answer = model.send(OWNER, kind, &[&["h", &h], tag]);
            let text = refused(&format!("restricted: insufficient scope (need {needed})"));
            assert_eq!(
                answer == text,
                scope == needed,
                "{kind} without {scope}: {answer:?}"
            );
        }
        let mut model = community();
        model.standings.insert(
            pubkey(OWNER),
            Standing {
                banned: true,
                ..Standing::fine()
            },
        );
        let answer = model.send(OWNER, kind, &[&["h", &h], tag]);
        assert_eq!(
            answer,
            refused("blocked: you are banned from this community"),
            "{kind}"
        );
    }
}

#[test]
fn a_role_alone_moves_no_access_and_a_new_membership_begins_anew() {
    let mut model = community();
    let entry = |model: &Model| model.members.get(&(open(), pubkey(GUEST))).cloned();
    let first = entry(&model).unwrap();
    assert_eq!(put(&mut model, OWNER, open(), GUEST, "member"), done());
    assert_eq!(
        entry(&model).unwrap(),
        Member {
            role: Role::Member,
            ..first.clone()
        }
    );
    assert_eq!(changes_of(&model, GUEST).last(), Some(&Change::Role));
    assert_eq!(remove(&mut model, OWNER, open(), GUEST), done());
    let removed = model.removed[&(open(), pubkey(GUEST))];
    assert_eq!(changes_of(&model, GUEST).last(), Some(&Change::Membership));
    assert_eq!(put(&mut model, OWNER, open(), GUEST, ""), done());
    let again = entry(&model).unwrap();
    assert_eq!(again.role, Role::Member, "the former role is forgotten");
    assert!(first.access_stamp < removed && removed < again.access_stamp);
    assert!(first.joined_at_us < again.joined_at_us);
    let row = model
        .ledger
        .iter()
        .find(|row| row.position == again.access_stamp)
        .unwrap();
    assert_eq!(
        (row.change, row.key),
        (Change::Membership, Some(pubkey(GUEST)))
    );
}

/// Changes of this key in the open channel, notices aside.
fn changes_of(model: &Model, key: u8) -> Vec<Change> {
    let of = |row: &&crate::accept::LedgerRow| {
        row.channel == Some(open()) && row.key == Some(pubkey(key)) && row.event.is_none()
    };
    model
        .ledger
        .iter()
        .filter(of)
        .map(|row| row.change)
        .collect()
}

#[test]
fn a_full_channel_refuses_to_grow() {
    // B14: never a silent cut.
    let mut model = community();
    let already = model.roster(open()).len();
    for n in already..CHANNEL_MEMBERS_MAX - 1 {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&(n as u64).to_be_bytes());
        let member = Member {
            joined_at_us: BEGIN_SECS,
            pubkey: crate::nostr::PubKey::from_bytes(bytes),
            role: Role::Member,
            access_stamp: crate::ids::Position(1),
        };
        model.members.insert((open(), member.pubkey), member);
    }
    assert_eq!(bare(&mut model, STRANGER, 9021, open()), done());
    let list = model.newest(39002, open()).unwrap();
    assert_eq!(values(&list, "p").len(), CHANNEL_MEMBERS_MAX);
    assert!(
        list.to_json().len() < FRAME_BYTES_MAX,
        "the whole roster fits into one frame"
    );
    let full = refused("invalid: channel is full");
    assert_eq!(bare(&mut model, NEW, 9021, open()), full);
    assert_eq!(put(&mut model, OWNER, open(), NEW, ""), full);
    assert_eq!(
        put(&mut model, OWNER, open(), STRANGER, "guest"),
        done(),
        "a role makes no one more"
    );
}

#[test]
fn a_command_sent_again_is_a_duplicate_and_not_a_second_change() {
    let mut model = community();
    let tags = tags(&[&["h", &open().to_string()]]);
    let draft = Draft {
        created_at: model.now(),
        kind: 9022,
        tags,
        content: String::new(),
    };
    let leave = draft.sign(&key(MEMBER));
    assert_eq!(model.submit(leave.clone()), done());
    assert_eq!(put(&mut model, OWNER, open(), MEMBER, ""), done());
    let before = model.ledger.len();
    assert_eq!(model.submit(leave), unchanged("already have this event"));
    assert_eq!(model.ledger.len(), before);
    assert_eq!(model.role(open(), pubkey(MEMBER)), Some(Role::Member));
}
