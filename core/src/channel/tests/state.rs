//! The state events that the relay signs: their tags, their order, and that the newest always wins.

use super::*;
use crate::accept::model::policy;
use crate::accept::{StoredEvent, WithheldCause};
use crate::nostr::{Event, Verifier};
use crate::rules;

const STATE: [u16; 3] = [39000, 39001, 39002];

fn hex(n: u8) -> String {
    pubkey(n).to_string()
}

#[test]
fn each_state_event_has_the_whole_tags_in_their_order() {
    rules!("CL-ID-1", "CL-ID-2", "CL-ID-3", "CL-ID-10");
    let mut model = Model::new(Profile::Workspace);
    let created = model.now().to_string();
    create(
        &mut model,
        open(),
        &[&["about", "talk"], &["topic", "now"], &["purpose", "why"]],
    );
    put(&mut model, OWNER, open(), MEMBER, "member").unwrap();
    put(&mut model, OWNER, open(), ADMIN, "admin").unwrap();
    let d = open().to_string();
    let (owner, admin, member) = (hex(OWNER), hex(ADMIN), hex(MEMBER));
    let expected: [Vec<Tag>; 3] = [
        tags(&[
            &["d", &d],
            &["name", "general"],
            &["t", "stream"],
            &["P", &owner],
            &["about", "talk"],
            &["public"],
            &["closed"],
            &["topic", "now"],
            &["purpose", "why"],
            &["created_at", &created],
        ]),
        tags(&[
            &["d", &d],
            &["t", "stream"],
            &["P", &owner],
            &["p", &owner, "owner"],
            &["p", &admin, "admin"],
        ]),
        tags(&[
            &["d", &d],
            &["t", "stream"],
            &["P", &owner],
            &["p", &owner, "", "owner"],
            &["p", &member, "", "member"],
            &["p", &admin, "", "admin"],
        ]),
    ];
    for (kind, expected) in STATE.into_iter().zip(expected) {
        let event = model.newest(kind, open()).unwrap();
        assert_eq!(event.tags, expected, "{kind}");
        assert_eq!(event.content, "");
        assert_eq!(event.pubkey, policy(Profile::Workspace).relay_key.public());
        assert_eq!(event.verify(&Verifier), Ok(()));
        assert_eq!(
            model.events[&event.id].stored.channel,
            Some(open()),
            "rosters stay in the channel"
        );
    }
}

#[test]
fn archive_and_visibility_show_in_bare_tags() {
    rules!("CL-SYS-4");
    let mut model = Model::new(Profile::Workspace);
    let bare_tags = |model: &Model, channel| -> Vec<String> {
        let event = model.newest(39000, channel).unwrap();
        event
            .tags
            .iter()
            .filter(|tag| tag.len() == 1)
            .map(|tag| tag[0].clone())
            .collect()
    };
    create(&mut model, open(), &[]);
    create(&mut model, private(), &[&["channel_type", "system"]]);
    assert_eq!(bare_tags(&model, open()), ["public", "closed"]);
    assert_eq!(
        bare_tags(&model, private()),
        ["private", "hidden", "closed"]
    );
    edit(&mut model, OWNER, private(), &["visibility", "open"]).unwrap();
    assert_eq!(bare_tags(&model, private()), ["public", "closed"]);
    edit(&mut model, OWNER, private(), &["visibility", "private"]).unwrap();
    assert_eq!(
        bare_tags(&model, private()),
        ["private", "hidden", "closed"]
    );
    edit(&mut model, OWNER, open(), &["visibility", "private"]).unwrap();
    assert_eq!(bare_tags(&model, open()), ["private", "closed"]);
    edit(&mut model, OWNER, open(), &["archived", "true"]).unwrap();
    assert_eq!(
        values(&model.newest(39000, open()).unwrap(), "archived"),
        ["true"]
    );
    edit(&mut model, OWNER, open(), &["archived", "false"]).unwrap();
    assert!(values(&model.newest(39000, open()).unwrap(), "archived").is_empty());
}

#[test]
fn the_first_t_is_the_type_of_the_channel() {
    rules!("CL-ID-1", "CL-ID-4");
    let mut model = Model::new(Profile::Workspace);
    for (n, channel_type) in ["stream", "forum", "workflow", "system"]
        .into_iter()
        .enumerate()
    {
        let channel = channel_id(20 + n as u8);
        create(&mut model, channel, &[&["channel_type", channel_type]]);
        for kind in STATE {
            let event = model.newest(kind, channel).unwrap();
            assert_eq!(event.first_value("t"), Some(channel_type), "{kind}");
        }
    }
}

#[test]
fn creator_and_creation_time_stay_whatever_happens() {
    rules!("CL-ID-6", "CL-ID-7", "CL-ID-8", "CL-ID-9", "CL-ID-11");
    let mut model = Model::new(Profile::Workspace);
    let created = model.now().to_string();
    // A client's own `P` and `created_at` tags mean nothing.
    create(
        &mut model,
        open(),
        &[&["P", &hex(ADMIN)], &["created_at", "1"]],
    );
    let mut last = 0;
    let mut look = |model: &Model| {
        for kind in STATE {
            assert_eq!(
                values(&model.newest(kind, open()).unwrap(), "P"),
                [hex(OWNER)],
                "{kind}"
            );
        }
        let event = model.newest(39000, open()).unwrap();
        assert_eq!(values(&event, "created_at"), [created.as_str()]);
        assert!(event.created_at > last);
        last = event.created_at;
    };
    look(&model);
    model.clock_us += 60_000_000;
    put(&mut model, OWNER, open(), ADMIN, "owner").unwrap();
    edit(&mut model, ADMIN, open(), &["name", "first"]).unwrap();
    look(&model);
    bare(&mut model, OWNER, 9022, open()).unwrap();
    let h = open().to_string();
    let p = hex(ADMIN);
    model
        .send(
            ADMIN,
            9002,
            &[
                &["h", &h],
                &["name", "second"],
                &["P", &p],
                &["created_at", "1"],
            ],
        )
        .unwrap();
    look(&model);
}

#[test]
fn of_several_changes_in_one_second_the_last_wins() {
    // H33
    let mut model = Model::new(Profile::Workspace);
    create(&mut model, open(), &[]);
    let mut seen: Vec<Event> = vec![];
    for n in 0..5 {
        edit(&mut model, OWNER, open(), &["topic", &format!("topic {n}")]).unwrap();
        put(&mut model, OWNER, open(), 10 + n, "admin").unwrap();
        for kind in STATE {
            let now = model.newest(kind, open()).unwrap();
            if let Some(before) = seen.iter().rev().find(|event| event.kind == kind) {
                assert!(before.created_at < now.created_at, "{kind}");
                assert_eq!(
                    model.events[&before.id].withheld,
                    Some(WithheldCause::Superseded)
                );
            }
            seen.push(now);
        }
    }
    assert_eq!(
        model.now(),
        crate::accept::model::BEGIN_SECS,
        "all within one second"
    );
    assert_eq!(
        values(
            seen.iter().rfind(|event| event.kind == 39000).unwrap(),
            "topic"
        ),
        ["topic 4"]
    );
    model.clock_us += 3_600_000_000;
    edit(&mut model, OWNER, open(), &["topic", "later"]).unwrap();
    assert_eq!(model.newest(39000, open()).unwrap().created_at, model.now());
}

#[test]
fn what_did_not_change_is_not_signed_again() {
    let mut model = community();
    let ids = |model: &Model| STATE.map(|kind| model.newest(kind, open()).unwrap().id);
    let before = ids(&model);
    edit(&mut model, OWNER, open(), &["topic", "x"]).unwrap();
    let [metadata, admins, members] = ids(&model);
    assert_ne!(metadata, before[0]);
    assert_eq!([admins, members], before[1..]);
    bare(&mut model, STRANGER, 9021, open()).unwrap();
    let joined = ids(&model);
    assert_eq!(joined[..2], [metadata, admins]);
    assert_ne!(joined[2], members);
    put(&mut model, OWNER, open(), STRANGER, "admin").unwrap();
    let promoted = ids(&model);
    assert_eq!(promoted[0], metadata);
    assert!(promoted[1] != admins && promoted[2] != joined[2]);
}

#[test]
fn the_relays_own_key_is_listed_like_any_other() {
    // S15
    let mut model = Model::new(Profile::Workspace);
    create(&mut model, open(), &[]);
    put(&mut model, OWNER, open(), 200, "admin").unwrap();
    for kind in [39001, 39002] {
        let listed: Vec<String> = [OWNER, 200].map(hex).into();
        assert_eq!(values(&model.newest(kind, open()).unwrap(), "p"), listed);
    }
}

#[test]
fn a_channel_without_a_recorded_creator_has_no_creator_tag() {
    // H31: missing means unknown, a guess would be believed.
    let mut model = Model::new(Profile::Workspace);
    create(&mut model, open(), &[]);
    model.channels.get_mut(&open()).unwrap().creator = None;
    edit(&mut model, OWNER, open(), &["name", "x"]).unwrap();
    let event = model.newest(39000, open()).unwrap();
    assert!(values(&event, "P").is_empty());
    assert_eq!(values(&event, "t"), ["stream"]);
}

#[test]
fn state_is_addressed_by_the_channel_and_found_by_its_tags() {
    let mut model = Model::new(Profile::Workspace);
    create(&mut model, open(), &[]);
    let event = model.newest(39002, open()).unwrap();
    let StoredEvent {
        slot,
        terms,
        expires_at,
        ..
    } = &model.events[&event.id].stored;
    let slot = slot.as_ref().unwrap();
    assert_eq!(
        (slot.kind, slot.d.as_str()),
        (39002, open().to_string().as_str())
    );
    assert_eq!(*expires_at, None);
    let names: Vec<&str> = terms.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["d", "t", "P", "p"]);
}
