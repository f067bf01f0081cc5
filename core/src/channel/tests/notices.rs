//! The notices to members, 44100 and 44101: who gets which, when, and that none equals another.

use std::collections::BTreeSet;

use super::*;
use crate::accept::Change;
use crate::accept::model::policy;
use crate::nostr::{PubKey, Verifier};
use crate::rules;

/// (kind, recipient, actor) of the notices since a ledger length, each checked whole.
fn notices(model: &Model, since: usize) -> Vec<(u16, PubKey, String)> {
    let rows = model.ledger[since..].iter();
    let mut found = vec![];
    for row in rows.filter(|row| row.change == Change::Event) {
        let stored = &model.events[&row.event.unwrap()].stored;
        let event = &stored.event;
        if ![44100, 44101].contains(&event.kind) {
            continue;
        }
        assert_eq!(event.verify(&Verifier), Ok(()));
        assert_eq!(event.pubkey, policy(Profile::Workspace).relay_key.public());
        let channel = row.channel.unwrap();
        let names: Vec<&str> = event.tags.iter().map(|tag| tag[0].as_str()).collect();
        assert_eq!(names, ["p", "h", "t"]);
        assert_eq!(event.first_value("h"), Some(channel.to_string().as_str()));
        let channel_type = model.channels[&channel].channel_type.as_str();
        assert_eq!(event.first_value("t"), Some(channel_type));
        let recipient: PubKey = event.first_value("p").unwrap().parse().unwrap();
        assert_eq!(row.key, Some(recipient));
        assert_eq!(
            stored.channel, None,
            "its recipient may have lost the channel"
        );
        let content: serde_json::Value = serde_json::from_str(&event.content).unwrap();
        let name = if event.kind == 44100 {
            "member_added"
        } else {
            "member_removed"
        };
        assert_eq!(content["type"], name);
        assert_eq!(content["channel_id"], channel.to_string());
        assert_eq!(content["position"], row.position.0);
        found.push((
            event.kind,
            recipient,
            content["actor"].as_str().unwrap().to_owned(),
        ));
    }
    found
}

fn sent(kind: u16, to: u8, by: u8) -> (u16, PubKey, String) {
    (kind, pubkey(to), pubkey(by).to_string())
}

#[test]
fn each_change_of_a_membership_is_told_to_whom_it_concerns() {
    rules!("CL-NTC-1", "CL-NTC-2", "CL-NTC-4");
    let mut model = Model::new(Profile::Workspace);
    let mut step = |change: &dyn Fn(&mut Model) -> Result<String, String>, expected: &[_]| {
        let before = model.ledger.len();
        assert_eq!(change(&mut model), done());
        assert_eq!(notices(&model, before), expected);
    };
    let h = open().to_string();
    for channel_type in ["stream", "system"] {
        let h = if channel_type == "stream" {
            h.clone()
        } else {
            private().to_string()
        };
        step(
            &|model| {
                let tags: &[&[&str]] = &[
                    &["h", &h],
                    &["name", "x"],
                    &["channel_type", channel_type],
                    &["visibility", "open"],
                ];
                model.send(OWNER, 9007, tags)
            },
            &[sent(44100, OWNER, OWNER)],
        );
        let id = h.parse().unwrap();
        step(
            &|model| put(model, OWNER, id, MEMBER, ""),
            &[sent(44100, MEMBER, OWNER)],
        );
        step(
            &|model| put(model, OWNER, id, MEMBER, "guest"),
            &[sent(44100, MEMBER, OWNER)],
        );
        step(
            &|model| remove(model, OWNER, id, MEMBER),
            &[sent(44101, MEMBER, OWNER)],
        );
        step(
            &|model| bare(model, MEMBER, 9021, id),
            &[sent(44100, MEMBER, MEMBER)],
        );
        step(
            &|model| bare(model, MEMBER, 9022, id),
            &[sent(44101, MEMBER, MEMBER)],
        );
        step(
            &|model| bare(model, MEMBER, 9021, id),
            &[sent(44100, MEMBER, MEMBER)],
        );
        step(&|model| edit(model, OWNER, id, &["archived", "true"]), &[]);
        let both = |kind| [sent(kind, OWNER, OWNER), sent(kind, MEMBER, OWNER)];
        step(
            &|model| edit(model, OWNER, id, &["archived", "false"]),
            &both(44100),
        );
        step(
            &|model| edit(model, OWNER, id, &["visibility", "private"]),
            &[],
        );
        step(&|model| bare(model, OWNER, 9008, id), &both(44101));
    }
}

#[test]
fn equal_notices_of_one_second_are_two_events() {
    let mut model = Model::new(Profile::Workspace);
    create(&mut model, open(), &[]);
    for _ in 0..5 {
        bare(&mut model, MEMBER, 9021, open()).unwrap();
        bare(&mut model, MEMBER, 9022, open()).unwrap();
    }
    let sent: Vec<_> = notices(&model, 0)
        .into_iter()
        .filter(|(_, to, _)| *to == pubkey(MEMBER))
        .collect();
    assert_eq!(sent.len(), 10);
    let stored = model.visible();
    let ids: BTreeSet<_> = stored.iter().map(|stored| stored.event.id).collect();
    assert_eq!(ids.len(), stored.len());
}

#[test]
fn a_notice_is_never_older_than_the_one_before_it() {
    // A client that asks `since` its newest notice misses none, also after the clock of the database went back.
    let mut model = Model::new(Profile::Workspace);
    create(&mut model, open(), &[]);
    let newest = |model: &Model, who: u8| {
        let told = |stored: &&&crate::accept::StoredEvent| {
            let event = &stored.event;
            event.kind >= 44100 && event.first_value("p") == Some(pubkey(who).to_string().as_str())
        };
        model
            .visible()
            .iter()
            .rev()
            .find(told)
            .unwrap()
            .event
            .created_at
    };
    bare(&mut model, MEMBER, 9021, open()).unwrap();
    let first = newest(&model, MEMBER);
    model.clock_us -= 30_000_000;
    bare(&mut model, MEMBER, 9022, open()).unwrap();
    assert_eq!(newest(&model, MEMBER), first);
    bare(&mut model, STRANGER, 9021, open()).unwrap();
    assert_eq!(
        newest(&model, STRANGER),
        model.now(),
        "recipients do not wait for each other"
    );
    model.clock_us += 90_000_000;
    bare(&mut model, MEMBER, 9021, open()).unwrap();
    assert_eq!(newest(&model, MEMBER), model.now());
    let stamps = [MEMBER, STRANGER].map(|who| model.notice_stamps[&pubkey(who)]);
    assert_eq!(stamps, [MEMBER, STRANGER].map(|who| newest(&model, who)));
}

#[test]
fn a_refused_or_empty_command_tells_nobody() {
    let mut model = community();
    let before = model.ledger.len();
    put(&mut model, STRANGER, private(), STRANGER, "").unwrap_err();
    put(&mut model, MEMBER, open(), GUEST, "member").unwrap_err();
    put(&mut model, OWNER, open(), GUEST, "guest").unwrap();
    bare(&mut model, MEMBER, 9021, open()).unwrap();
    remove(&mut model, OWNER, open(), STRANGER).unwrap();
    edit(&mut model, OWNER, open(), &["archived", "false"]).unwrap();
    assert_eq!(model.ledger.len(), before);
}
