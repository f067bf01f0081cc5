//! Messages and other ordinary events: who may post where, and which version of a replaceable event stays.

use std::collections::{BTreeMap, BTreeSet};

use crate::accept::model::{Model, channel_id, key, pubkey};
use crate::accept::{Change, Decision, Profile, Standing, Write};
use crate::nostr::{Draft, Event, kinds};

/// Key 1 owns the open channel 1 and the private channel 2; key 2 is a member and key 3 a guest of both; channel 3 is deleted.
fn community() -> Model {
    let mut model = Model::new(Profile::Workspace);
    for (n, visibility) in [(1, "open"), (2, "private"), (3, "open")] {
        let h = channel_id(n).to_string();
        let tags: &[&[&str]] = &[&["h", &h], &["name", "x"], &["visibility", visibility]];
        assert_eq!(model.send(1, 9007, tags), Ok(String::new()));
        for (member, role) in [(2, "member"), (3, "guest")] {
            let p = pubkey(member).to_string();
            assert_eq!(
                model.send(1, 9000, &[&["h", &h], &["p", &p, role]]),
                Ok(String::new())
            );
        }
    }
    let h = channel_id(3).to_string();
    assert_eq!(model.send(1, 9008, &[&["h", &h]]), Ok(String::new()));
    model
}

fn post(model: &mut Model, by: u8, h: &str) -> Result<String, String> {
    model.send(by, kinds::CHAT, &[&["h", h]])
}

#[test]
fn members_and_in_open_channels_everyone_but_guests_may_post() {
    let mut model = community();
    let (open, private) = (channel_id(1).to_string(), channel_id(2).to_string());
    let refused = Err("restricted: not a channel member".to_owned());
    for (by, in_open, in_private) in [
        (1, true, true),
        (2, true, true),
        (3, false, false),
        (4, true, false),
    ] {
        for (h, may) in [(&open, in_open), (&private, in_private)] {
            let expected = if may {
                Ok(String::new())
            } else {
                refused.clone()
            };
            assert_eq!(post(&mut model, by, h), expected, "key {by} in {h}");
        }
    }
    let nowhere = [
        channel_id(3).to_string(),
        channel_id(9).to_string(),
        "general".to_owned(),
    ];
    for h in nowhere {
        assert_eq!(
            post(&mut model, 1, &h),
            refused,
            "deleted, unknown and impossible ones look alike: {h}"
        );
        assert_eq!(model.send(1, 7, &[&["h", &h]]), refused);
        assert_eq!(model.send(1, 20_001, &[&["h", &h]]), refused);
    }
}

#[test]
fn scope_ban_timeout_channel_and_archive_are_checked_in_this_order() {
    let mut model = community();
    let (open, unknown) = (channel_id(1).to_string(), channel_id(9).to_string());
    let now = model.now();
    let standing = |scope: bool, banned, timed_out_until| Standing {
        banned,
        timed_out_until,
        missing_scopes: scope
            .then(|| "messages:write".to_owned())
            .into_iter()
            .collect(),
    };
    let cases = [
        (
            standing(true, true, Some(now + 9)),
            "restricted: insufficient scope (need messages:write)".to_owned(),
        ),
        (
            standing(false, true, Some(now + 9)),
            "blocked: you are banned from this community".to_owned(),
        ),
        (
            standing(false, false, Some(now + 9)),
            format!("restricted: you are timed out until {}", now + 9),
        ),
        (
            standing(false, false, Some(now)),
            "restricted: not a channel member".to_owned(),
        ),
    ];
    for (standing, text) in cases {
        model.standings.insert(pubkey(4), standing.clone());
        assert_eq!(post(&mut model, 4, &unknown), Err(text.clone()));
        let elsewhere = model.send(4, 7, &[]);
        assert_eq!(
            elsewhere.is_ok(),
            text.ends_with("member"),
            "the standing holds everywhere: {elsewhere:?}"
        );
    }
    assert_eq!(
        post(&mut model, 4, &open),
        Ok(String::new()),
        "the timeout is over"
    );
    assert_eq!(
        model.send(1, 9002, &[&["h", &open], &["archived", "true"]]),
        Ok(String::new())
    );
    assert_eq!(
        post(&mut model, 1, &open),
        Err("invalid: channel is archived".to_owned())
    );
    assert_eq!(
        post(&mut model, 3, &open),
        Err("restricted: not a channel member".to_owned())
    );
    assert_eq!(
        model.send(1, 20_001, &[&["h", &open]]),
        Err("invalid: channel is archived".to_owned())
    );
    assert_eq!(
        model.send(1, 9002, &[&["h", &open], &["archived", "false"]]),
        Ok(String::new())
    );
    assert_eq!(post(&mut model, 4, &open), Ok(String::new()));
}

#[test]
fn a_known_event_is_a_duplicate_even_where_its_author_may_not_post_any_more() {
    let mut model = community();
    let private = channel_id(2).to_string();
    let event = model.event(2, kinds::CHAT, &[&["h", &private]]);
    assert_eq!(model.submit(event.clone()), Ok(String::new()));
    let p = pubkey(2).to_string();
    assert_eq!(
        model.send(1, 9001, &[&["h", &private], &["p", &p]]),
        Ok(String::new())
    );
    let before = model.ledger.len();
    assert_eq!(
        model.submit(event),
        Ok("duplicate: already have this event".to_owned())
    );
    assert_eq!(model.ledger.len(), before);
}

#[test]
fn ephemeral_events_pass_the_gate_and_leave_nothing() {
    let mut model = community();
    let before = model.clone();
    let open = channel_id(1);
    for (tags, channel) in [
        (vec![], None),
        (vec![vec!["h".to_owned(), open.to_string()]], Some(open)),
    ] {
        let draft = Draft {
            created_at: model.now(),
            kind: 20_001,
            tags,
            content: String::new(),
        };
        let event = draft.sign(&key(4));
        let decision = model.submit_as(event, BTreeSet::from([pubkey(4)]));
        assert_eq!(decision, Decision::Ephemeral { channel });
    }
    assert_eq!((model.events, model.ledger), (before.events, before.ledger));
}

fn note(kind: u16, d: Option<&str>, created_at: u64, content: &str) -> Event {
    let tags = d
        .iter()
        .map(|d| vec!["d".to_owned(), (*d).to_owned()])
        .collect();
    Draft {
        created_at,
        kind,
        tags,
        content: content.to_owned(),
    }
    .sign(&key(4))
}

#[test]
fn of_two_versions_the_later_stays_and_of_one_second_the_lowest_id() {
    // B06: the order of arrival decides nothing.
    for (kind, d) in [(0, None), (10_002, None), (30_023, Some("x"))] {
        let now = Model::new(Profile::Open).now();
        let mut versions = vec![note(kind, d, now - 5, "old")];
        versions.extend((0..4).map(|n| note(kind, d, now, &format!("new {n}"))));
        let winner = versions[1..]
            .iter()
            .min_by_key(|event| event.id)
            .unwrap()
            .id;
        for first in 0..versions.len() {
            let mut model = Model::new(Profile::Open);
            versions.rotate_left(first);
            for event in &versions {
                let text = model.submit(event.clone()).unwrap();
                assert!(["", "duplicate: a newer version is stored"].contains(&text.as_str()));
            }
            let stored: Vec<_> = model
                .visible()
                .iter()
                .map(|stored| stored.event.id)
                .collect();
            assert_eq!(stored, [winner], "{kind}");
            assert_eq!(
                model
                    .ledger
                    .iter()
                    .filter(|row| row.change != Change::Event)
                    .count(),
                0
            );
        }
    }
}

#[test]
fn slots_of_other_authors_kinds_and_d_values_are_apart() {
    let mut model = Model::new(Profile::Open);
    let now = model.now();
    let two_d = Draft {
        created_at: now,
        kind: 30_000,
        tags: vec![
            vec!["d".to_owned(), "b".to_owned()],
            vec!["d".to_owned(), "a".to_owned()],
        ],
        content: String::new(),
    };
    let mine = [
        note(30_000, Some("a"), now, ""),
        two_d.sign(&key(4)),
        note(30_000, None, now, ""),
        note(30_001, Some("a"), now, ""),
        note(10_000, Some("a"), now, ""),
        note(1, Some("a"), now, "1"),
        note(1, Some("a"), now, "2"),
    ];
    for event in &mine {
        assert_eq!(model.submit(event.clone()), Ok(String::new()));
    }
    let other = Draft {
        created_at: now,
        kind: 10_000,
        tags: vec![],
        content: String::new(),
    };
    assert_eq!(model.submit(other.sign(&key(5))), Ok(String::new()));
    assert_eq!(model.visible().len(), mine.len() + 1);
    assert_eq!(
        model.submit(note(10_000, Some("b"), now + 1, "")),
        Ok(String::new())
    );
    assert_eq!(
        model.visible().len(),
        mine.len() + 1,
        "d means nothing on a replaceable kind"
    );
}

#[test]
fn the_stored_form_says_all_that_a_store_indexes() {
    let mut model = community();
    let h = channel_id(1).to_string();
    let until = (model.now() + 60).to_string();
    let event = model.event(
        2,
        30_023,
        &[
            &["h", &h],
            &["d", "x"],
            &["p", "1", "2"],
            &["expiration", &until],
        ],
    );
    let keys = BTreeSet::from([pubkey(2)]);
    let Decision::Write { writes, message } = model.submit_as(event, keys) else {
        panic!("written")
    };
    assert_eq!(message, "");
    let [Write::Store(stored), Write::Ledger(row)] = writes.as_slice() else {
        panic!("{writes:?}")
    };
    assert_eq!(
        (stored.channel, stored.artifact),
        (Some(channel_id(1)), None)
    );
    assert_eq!(stored.expires_at, Some(model.now() + 60));
    let terms: BTreeMap<&str, &str> = stored
        .terms
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        terms,
        BTreeMap::from([("h", h.as_str()), ("d", "x"), ("p", "1")])
    );
    assert_eq!(stored.slot.as_ref().unwrap().d, "x");
    assert_eq!(
        (row.position, row.change, row.channel),
        (stored.position, Change::Event, stored.channel)
    );
}
