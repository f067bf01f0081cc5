//! 9005: removal of a message, redaction of an artifact revision.

use super::*;
use crate::accept::{Change, WithheldCause};
use crate::ids::{ArtifactId, Uuid};
use crate::nostr::{EventId, kinds};
use crate::rules;
use crate::scope::Audience;

const NOT_FOUND: &str = "invalid: target event not found";

fn message(model: &mut Model, by: u8, channel: ChannelId) -> EventId {
    let event = model.event(by, kinds::CHAT, &[&["h", &channel.to_string()]]);
    let id = event.id;
    assert_eq!(model.submit(event), done());
    id
}

fn take_out(
    model: &mut Model,
    by: u8,
    channel: ChannelId,
    target: EventId,
) -> Result<String, String> {
    model.send(
        by,
        9005,
        &[&["h", &channel.to_string()], &["e", &target.to_string()]],
    )
}

fn artifact() -> ArtifactId {
    ArtifactId(Uuid::from_bytes([7; 16]).unwrap())
}

/// An artifact revision; a create without `prev`, an update with it.
fn revision(model: &mut Model, by: u8, channel: ChannelId, prev: Option<EventId>) -> EventId {
    let (d, h) = (artifact().to_string(), channel.to_string());
    let prev = prev.map(|prev| prev.to_string());
    let mut tags: Vec<&[&str]> = vec![&["ar", "1"], &["type", "a.b"], &["title", "t"]];
    let named: [[&str; 2]; 2] = [["d", &d], ["h", &h]];
    tags.extend(named.iter().map(|tag| tag.as_slice()));
    let update: [[&str; 2]; 2] = [["op", "update"], ["prev", prev.as_deref().unwrap_or("")]];
    let create: [&str; 2] = ["op", "create"];
    match prev {
        Some(_) => tags.extend(update.iter().map(|tag| tag.as_slice())),
        None => tags.push(&create),
    }
    let event = model.event(by, kinds::ARTIFACT, &tags);
    let id = event.id;
    assert_eq!(model.submit(event), done());
    id
}

#[test]
fn authors_owners_and_admins_remove_what_stands_in_the_channel() {
    for by in EVERYONE {
        let mut model = community();
        let foreign = message(&mut model, BOT, open());
        let own = if by == GUEST {
            foreign
        } else {
            message(&mut model, by, open())
        };
        let expected = match by {
            GUEST => refused(NOT_A_MEMBER),
            OWNER | ADMIN | BOT => done(),
            _ => refused("invalid: must be event author or channel owner/admin"),
        };
        assert_eq!(take_out(&mut model, by, open(), foreign), expected, "{by}");
        if ![GUEST, BOT].contains(&by) {
            assert_eq!(take_out(&mut model, by, open(), own), done(), "{by}");
            assert_eq!(model.events[&own].withheld, Some(WithheldCause::Removed));
            let row = model.ledger.last().unwrap();
            assert_eq!(
                (row.change, row.channel, row.event),
                (Change::Withheld, Some(open()), Some(own))
            );
        }
    }
}

#[test]
fn exactly_one_event_of_the_channel_is_named() {
    let mut model = community();
    let h = open().to_string();
    let here = message(&mut model, MEMBER, open());
    let elsewhere = message(&mut model, MEMBER, private());
    let (e, other) = (here.to_string(), elsewhere.to_string());
    let mut with = |tags: &[&[&str]]| {
        let h: [&str; 2] = ["h", &h];
        let mut all: Vec<&[&str]> = vec![&h];
        all.extend(tags);
        model.send(OWNER, 9005, &all)
    };
    let count = |e, a| {
        refused(&format!(
            "invalid: deletion events must reference exactly one target via e or a tag (got e={e}, a={a})"
        ))
    };
    assert_eq!(with(&[]), count(0, 0));
    assert_eq!(with(&[&["e", &e], &["e", &e]]), count(2, 0));
    assert_eq!(with(&[&["e", &e], &["a", "1:x:y"]]), count(1, 1));
    assert_eq!(
        with(&[&["a", "1:x:y"]]),
        refused("invalid: missing e tag for target event")
    );
    assert_eq!(
        with(&[&["e"]]),
        refused("invalid: missing e tag for target event")
    );
    let malformed = refused("invalid: e tag must name an event in 64 lowercase hex characters");
    assert_eq!(with(&[&["e", "x"]]), malformed);
    for unknown in ["ab".repeat(32), other] {
        assert_eq!(
            with(&[&["e", &unknown]]),
            refused(NOT_FOUND),
            "what stands elsewhere looks unknown"
        );
    }
    assert_eq!(with(&[&["e", &e]]), done());
    assert_eq!(with(&[&["e", &e]]), refused(NOT_FOUND), "removed before");
}

#[test]
fn commands_and_what_the_relay_signed_stay() {
    let mut model = community();
    let command = model.newest(9007, open()).unwrap().id;
    let state = model.newest(39002, open()).unwrap().id;
    let text = refused("invalid: this kind of event cannot be removed");
    for target in [command, state] {
        assert_eq!(take_out(&mut model, OWNER, open(), target), text);
    }
    let notice = model.newest(44100, open()).unwrap().id;
    assert_eq!(
        take_out(&mut model, OWNER, open(), notice),
        refused(NOT_FOUND)
    );
}

#[test]
fn a_revision_is_redacted_by_the_rules_for_messages_and_named_to_moderators_only() {
    rules!("AR-MOD-2", "AR-MOD-6", "AR-MOD-7", "AR-MOD-10");
    let mut model = community();
    let first = revision(&mut model, MEMBER, open(), None);
    let second = revision(&mut model, BOT, open(), Some(first));
    let not_yours = refused("invalid: must be event author or channel owner/admin");
    assert_eq!(take_out(&mut model, MEMBER, open(), second), not_yours);
    assert_eq!(take_out(&mut model, STRANGER, open(), second), not_yours);
    assert_eq!(
        take_out(&mut model, OWNER, private(), second),
        refused(NOT_FOUND)
    );
    let before = model.events.len();
    assert_eq!(take_out(&mut model, BOT, open(), second), done());
    assert_eq!(
        model.events.len(),
        before + 1,
        "nothing but the command itself speaks of it"
    );
    let row = model.ledger.last().unwrap();
    let expected = (
        Change::Redaction { current: true },
        Some(artifact()),
        Some(second),
    );
    assert_eq!((row.change, row.artifact, row.event), expected);
    let command = model.newest(9005, open()).unwrap();
    assert_eq!(
        model.events[&command.id].stored.audience,
        Audience::Moderators
    );
    assert_eq!(model.events[&second].withheld, Some(WithheldCause::Removed));
    assert_eq!(model.events[&first].withheld, None);
    assert_eq!(
        model.heads[&artifact()].event,
        second,
        "the one before does not come back"
    );
    let again = model.events[&second].stored.event.clone();
    assert_eq!(model.submit(again), done());
    assert!(model.events[&second].withheld.is_some());
    assert_eq!(take_out(&mut model, ADMIN, open(), first), done());
    assert_eq!(
        model.ledger.last().unwrap().change,
        Change::Redaction { current: false }
    );
    let third = revision(&mut model, MEMBER, open(), Some(second));
    assert_eq!(model.heads[&artifact()].event, third);
}

#[test]
fn a_moves_removal_cannot_be_removed() {
    let mut model = community();
    let first = revision(&mut model, MEMBER, open(), None);
    let (d, h, prev) = (
        artifact().to_string(),
        private().to_string(),
        first.to_string(),
    );
    let tags: &[&[&str]] = &[
        &["ar", "1"],
        &["d", &d],
        &["h", &h],
        &["type", "a.b"],
        &["title", "t"],
        &["op", "move"],
        &["prev", &prev],
    ];
    assert_eq!(model.send(MEMBER, kinds::ARTIFACT, tags), done());
    let marker = model.newest(kinds::ARTIFACT_MOVED, open()).unwrap().id;
    let text = refused("invalid: this kind of event cannot be removed");
    assert_eq!(take_out(&mut model, OWNER, open(), marker), text);
    assert_eq!(
        take_out(&mut model, OWNER, private(), marker),
        refused(NOT_FOUND)
    );
}
