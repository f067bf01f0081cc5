//! 9007, 9002 and 9008: what a channel starts with, who changes what, and what deletion leaves.

use super::*;
use crate::accept::{Change, WithheldCause};
use crate::channel::{ChannelType, Role, Visibility, derived_channel_id};
use crate::limits::{CHANNEL_NAME_BYTES_MAX, CHANNEL_TEXT_BYTES_MAX};
use crate::rules;

#[test]
fn anyone_creates_a_channel_and_owns_it() {
    let mut model = community();
    let h = channel_id(9).to_string();
    let tags: &[&[&str]] = &[
        &["h", &h],
        &["name", " ##general chat "],
        &["about", "a"],
        &["topic", "t"],
        &["purpose", "p"],
        &["channel_type", "forum"],
        &["visibility", "private"],
    ];
    assert_eq!(model.send(STRANGER, 9007, tags), done());
    let channel = &model.channels[&channel_id(9)];
    assert_eq!(
        (channel.name.as_str(), channel.about.as_str()),
        ("general chat", "a")
    );
    assert_eq!(
        (channel.topic.as_str(), channel.purpose.as_str()),
        ("t", "p")
    );
    assert_eq!(
        (&channel.channel_type, channel.visibility),
        (&ChannelType::Forum, Visibility::Private)
    );
    assert_eq!(
        (channel.creator, channel.created_at),
        (Some(pubkey(STRANGER)), model.now())
    );
    assert!(!channel.archived && !channel.deleted && !channel.unlisted);
    let row = model
        .ledger
        .iter()
        .find(|row| row.position == channel.access_stamp)
        .unwrap();
    assert_eq!(
        (row.change, row.channel),
        (Change::Created, Some(channel_id(9)))
    );
    let roster = model.roster(channel_id(9));
    assert_eq!(roster.len(), 1);
    assert_eq!(
        (roster[0].pubkey, roster[0].role),
        (pubkey(STRANGER), Role::Owner)
    );
    let create = model.newest(9007, channel_id(9)).unwrap();
    assert_eq!(model.events[&create.id].stored.channel, Some(channel_id(9)));
}

#[test]
fn a_system_channel_is_private_unless_it_says_open() {
    rules!("CL-SYS-1", "CL-SYS-2");
    let mut model = Model::new(Profile::Workspace);
    let cases: [(&str, &[&[&str]], Visibility); 6] = [
        ("system", &[], Visibility::Private),
        ("system", &[&["visibility", "open"]], Visibility::Open),
        ("system", &[&["visibility", "private"]], Visibility::Private),
        ("stream", &[], Visibility::Open),
        ("forum", &[], Visibility::Open),
        ("workflow", &[], Visibility::Open),
    ];
    for (n, (channel_type, extra, visibility)) in cases.into_iter().enumerate() {
        let id = channel_id(20 + n as u8);
        let mut tags: Vec<&[&str]> = vec![];
        let own = ["channel_type", channel_type];
        tags.push(&own);
        tags.extend(extra);
        create(&mut model, id, &tags);
        assert_eq!(
            model.channels[&id].visibility, visibility,
            "{channel_type} {extra:?}"
        );
        let state = model.newest(39000, id).unwrap();
        assert_eq!(values(&state, "t"), [channel_type]);
    }
}

#[test]
fn a_used_id_is_taken_whoever_asks() {
    let mut model = community();
    let taken = refused("duplicate: channel already exists");
    for channel in [open(), private(), gone()] {
        for by in EVERYONE {
            let answer = model.send(by, 9007, &[&["h", &channel.to_string()], &["name", "x"]]);
            assert_eq!(answer, taken, "{by}");
        }
    }
    let answer = model.send(OWNER, 9007, &[&["h", "general"], &["name", "x"]]);
    assert_eq!(
        answer,
        refused("invalid: h must be a canonical lowercase UUID")
    );
}

#[test]
fn without_an_id_the_relay_picks_one_that_the_event_determines() {
    let mut model = Model::new(Profile::Workspace);
    let first = model.event(OWNER, 9007, &[&["name", "x"]]);
    let second = model.event(OWNER, 9007, &[&["name", "x"]]);
    let ids = [first.id, second.id].map(derived_channel_id);
    assert_ne!(ids[0], ids[1]);
    assert_eq!(model.submit(first), done());
    assert_eq!(model.submit(second), done());
    assert_eq!(model.channels.keys().copied().collect::<Vec<_>>(), {
        let mut sorted = ids;
        sorted.sort_unstable();
        sorted
    });
    for id in ids {
        let text = id.to_string();
        assert_eq!(
            (&text[14..15], text.parse()),
            ("8", Ok(id)),
            "a UUID of version 8"
        );
        let told = model.newest(44100, id).unwrap();
        assert_eq!(values(&told, "h"), [text.as_str()], "the creator learns it");
        let state = model.newest(39000, id).unwrap();
        assert_eq!(values(&state, "d"), [text.as_str()]);
    }
}

#[test]
fn malformed_settings_are_refused_with_the_value() {
    let mut model = community();
    let h = open().to_string();
    let mut both = |tag: &[&str], text: &str| {
        let name: &[&str] = &["name", "x"];
        let mut create: Vec<&[&str]> = vec![tag];
        if tag[0] != "name" {
            create.push(name);
        }
        assert_eq!(
            model.send(OWNER, 9007, &create),
            refused(text),
            "create {tag:?}"
        );
        assert_eq!(
            model.send(OWNER, 9002, &[&["h", &h], tag]),
            refused(text),
            "edit {tag:?}"
        );
    };
    for empty in ["", "#", " # ## ", "\u{a0}"] {
        both(&["name", empty], "invalid: channel name is required");
    }
    both(&["name"], "invalid: channel name is required");
    both(
        &["name", &"n".repeat(CHANNEL_NAME_BYTES_MAX + 1)],
        "invalid: name exceeds 256 bytes",
    );
    for name in ["about", "topic", "purpose"] {
        let long = "é".repeat(CHANNEL_TEXT_BYTES_MAX / 2 + 1);
        both(
            &[name, &long],
            &format!("invalid: {name} exceeds 4096 bytes"),
        );
    }
    assert_eq!(
        model.send(OWNER, 9007, &[&["about", "x"]]),
        refused("invalid: channel name is required")
    );
    assert_eq!(
        model.send(OWNER, 9007, &[&["name", "x"], &["visibility", "Open"]]),
        refused("invalid: invalid visibility: Open")
    );
    for (tag, text) in [
        (
            ["visibility", ""],
            "invalid visibility value:  (must be \"open\" or \"private\")",
        ),
        (
            ["archived", "yes"],
            "invalid archived value: yes (must be \"true\" or \"false\")",
        ),
    ] {
        assert_eq!(
            edit(&mut model, OWNER, open(), &tag),
            refused(&format!("invalid: {text}"))
        );
    }
    let none = bare(&mut model, OWNER, 9002, open());
    assert!(
        none.unwrap_err()
            .starts_with("invalid: kind:9002 must include at least one metadata tag (")
    );
    let twice = model.send(OWNER, 9002, &[&["h", &h], &["topic", "a"], &["topic", "a"]]);
    assert_eq!(twice, refused("invalid: more than one topic tag"));
    let long = "x".repeat(5_000);
    let echoed = edit(&mut model, OWNER, open(), &["archived", &long]).unwrap_err();
    assert!(
        echoed.len() < 200,
        "an answer does not grow with the request"
    );
}

#[test]
fn owners_and_admins_change_everything_and_members_topic_and_purpose() {
    for by in EVERYONE {
        let elevated = [OWNER, ADMIN].contains(&by);
        let member = elevated || [MEMBER, BOT].contains(&by);
        for tag in [
            ["name", "new"],
            ["about", "new"],
            ["visibility", "private"],
            ["archived", "true"],
        ] {
            let text =
                "invalid: actor not authorized for name/about/archived/visibility/ttl changes";
            let expected = if elevated { done() } else { refused(text) };
            assert_eq!(
                edit(&mut community(), by, open(), &tag),
                expected,
                "{by} {tag:?}"
            );
        }
        for tag in [["topic", "new"], ["purpose", "new"]] {
            let expected = if member {
                done()
            } else {
                refused("invalid: not a member")
            };
            assert_eq!(
                edit(&mut community(), by, open(), &tag),
                expected,
                "{by} {tag:?}"
            );
        }
    }
    let mut model = community();
    let tags: &[&[&str]] = &[
        &["h", &open().to_string()],
        &["topic", "new"],
        &["name", "new"],
    ];
    assert!(
        model.send(MEMBER, 9002, tags).is_err(),
        "one forbidden part refuses the whole"
    );
    assert_eq!(model.channels[&open()].topic, "");
}

#[test]
fn an_edit_changes_what_it_names_and_announces_each_change() {
    let mut model = community();
    let before = model.channels[&open()].clone();
    let first = model.ledger.len();
    let h = open().to_string();
    let tags: &[&[&str]] = &[
        &["h", &h],
        &["name", "#new"],
        &["about", ""],
        &["visibility", "private"],
        &["archived", "true"],
    ];
    assert_eq!(model.send(ADMIN, 9002, tags), done());
    let changes: Vec<Change> = model.ledger[first..].iter().map(|row| row.change).collect();
    use Change::{Archive, Event, Metadata, Visibility as Seen};
    assert_eq!(changes, [Event, Seen, Archive, Metadata, Event]);
    assert!(
        model.ledger[first..]
            .iter()
            .all(|row| row.channel == Some(open()))
    );
    let after = model.channels[&open()].clone();
    assert_eq!(after.access_stamp, model.ledger[first + 1].position);
    let expected = crate::channel::Channel {
        name: "new".to_owned(),
        visibility: Visibility::Private,
        archived: true,
        access_stamp: after.access_stamp,
        ..before
    };
    assert_eq!(after, expected);
    let text = unchanged("nothing to change");
    assert_eq!(
        edit(&mut model, ADMIN, private(), &["name", "general"]),
        text
    );
    assert_eq!(
        edit(&mut model, ADMIN, private(), &["archived", "false"]),
        text
    );
    assert_eq!(edit(&mut model, ADMIN, private(), &["topic", "x"]), done());
    assert_eq!(model.channels[&private()].access_stamp, {
        let created = model
            .ledger
            .iter()
            .find(|row| row.channel == Some(private()))
            .unwrap();
        created.position
    });
}

#[test]
fn only_owners_delete_and_nothing_but_the_id_stays() {
    for by in [ADMIN, MEMBER, BOT, GUEST, STRANGER] {
        let text = refused("invalid: only owner can delete group");
        assert_eq!(bare(&mut community(), by, 9008, open()), text, "{by}");
    }
    let mut model = community();
    let state: Vec<_> = [39000, 39001, 39002]
        .map(|kind| model.newest(kind, open()).unwrap().id)
        .into();
    assert_eq!(bare(&mut model, OWNER, 9008, open()), done());
    let channel = &model.channels[&open()];
    assert!(channel.deleted);
    let row = model
        .ledger
        .iter()
        .find(|row| row.position == channel.access_stamp)
        .unwrap();
    assert_eq!(
        (row.change, row.channel),
        (Change::ChannelDeleted, Some(open()))
    );
    for id in state {
        assert_eq!(model.events[&id].withheld, Some(WithheldCause::Removed));
    }
    for kind in [39000, 39001, 39002] {
        assert_eq!(model.newest(kind, open()), None);
    }
    for by in EVERYONE {
        assert_eq!(bare(&mut model, by, 9008, open()), refused(NOT_A_MEMBER));
        assert_eq!(bare(&mut model, by, 9, open()), refused(NOT_A_MEMBER));
        assert_eq!(
            edit(&mut model, by, open(), &["archived", "false"]),
            refused(NOT_A_MEMBER)
        );
    }
}
