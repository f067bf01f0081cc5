//! Deletion requests of kind 5.

use crate::accept::model::{Kept, Model, channel_id, key, policy, pubkey};
use crate::accept::{Change, Head, Profile, StoredEvent, WithheldCause};
use crate::ids::{ArtifactId, Position, Uuid};
use crate::nostr::{Draft, Event, EventId, kinds};
use crate::rules;

const TOO_LATE: &str = "blocked: this event was deleted by its author";
const NOT_BY_KIND_5: &str =
    "invalid: artifacts cannot be deleted with kind 5; use op=delete or kind 9005 redaction";

fn addressable(by: u8, d: &str, created_at: u64) -> Event {
    let tags = vec![vec!["d".to_owned(), d.to_owned()]];
    Draft {
        created_at,
        kind: 30_402,
        tags,
        content: String::new(),
    }
    .sign(&key(by))
}

fn withheld(model: &Model, id: EventId) -> Option<WithheldCause> {
    model.events[&id].withheld
}

/// An artifact revision of key 2 that is the head, and a move's removal, both in channel 1.
fn with_artifact(model: &mut Model) -> (EventId, EventId) {
    let h = channel_id(1);
    assert_eq!(
        model.send(1, 9007, &[&["h", &h.to_string()], &["name", "x"]]),
        Ok(String::new())
    );
    let artifact = ArtifactId(Uuid::from_bytes([7; 16]).unwrap());
    let revision = model.event(2, kinds::ARTIFACT, &[&["h", &h.to_string()]]);
    let draft = Draft {
        created_at: model.now(),
        kind: kinds::ARTIFACT_MOVED,
        tags: vec![],
        content: String::new(),
    };
    let moved = draft.sign(policy(Profile::Workspace).relay_key.secret());
    let ids = (revision.id, moved.id);
    for (n, event) in [revision, moved].into_iter().enumerate() {
        let position = Position(900 + n as u64);
        let mut stored = StoredEvent::new(event, Some(h), position);
        stored.artifact = Some(artifact);
        model.events.insert(
            stored.event.id,
            Kept {
                stored,
                withheld: None,
            },
        );
    }
    let head = Head {
        event: ids.0,
        home: h,
        artifact_type: "a.b".to_owned(),
        root: None,
        deleted: false,
        redacted: false,
    };
    model.heads.insert(artifact, head);
    ids
}

#[test]
fn authors_delete_their_own_events_before_and_after_they_come() {
    let mut model = Model::new(Profile::Open);
    let (mine, later, foreign) = (
        model.event(1, 1, &[]),
        model.event(1, 1, &[]),
        model.event(2, 1, &[]),
    );
    model.submit(mine.clone()).unwrap();
    model.submit(foreign.clone()).unwrap();
    let ids = [mine.id, later.id, foreign.id].map(|id| id.to_string());
    let deletion = model.event(
        1,
        5,
        &[
            &["e", &ids[0]],
            &["e", &ids[1]],
            &["e", &ids[2]],
            &["e", "x"],
        ],
    );
    assert_eq!(model.submit(deletion.clone()), Ok(String::new()));
    assert_eq!(withheld(&model, mine.id), Some(WithheldCause::Deleted));
    assert_eq!(withheld(&model, foreign.id), None);
    assert_eq!(
        withheld(&model, deletion.id),
        None,
        "the request itself is stored"
    );
    assert_eq!(model.submit(mine), Err(TOO_LATE.to_owned()));
    assert_eq!(model.submit(later), Err(TOO_LATE.to_owned()));
    assert_eq!(
        model.submit(foreign),
        Ok("duplicate: already have this event".to_owned())
    );
    let changes: Vec<Change> = model.ledger.iter().map(|row| row.change).collect();
    assert_eq!(
        changes,
        [
            Change::Event,
            Change::Event,
            Change::Event,
            Change::Withheld
        ]
    );
}

#[test]
fn an_address_may_contain_colons_and_reaches_up_to_the_deletion() {
    // B07
    let mut model = Model::new(Profile::Open);
    let d = "wss://r.example:7777";
    let now = model.now();
    model.submit(addressable(1, d, now - 10)).unwrap();
    model.submit(addressable(2, d, now - 10)).unwrap();
    let address = format!("30402:{}:{d}", pubkey(1));
    assert_eq!(model.send(1, 5, &[&["a", &address]]), Ok(String::new()));
    assert_eq!(
        withheld(&model, addressable(1, d, now - 10).id),
        Some(WithheldCause::Deleted)
    );
    assert_eq!(withheld(&model, addressable(2, d, now - 10).id), None);
    assert_eq!(
        model.submit(addressable(1, d, now - 11)),
        Err(TOO_LATE.to_owned())
    );
    assert_eq!(
        model.submit(addressable(1, d, now)),
        Err(TOO_LATE.to_owned())
    );
    assert_eq!(
        model.submit(addressable(1, "other", now)),
        Ok(String::new())
    );
    assert_eq!(
        model.submit(addressable(1, d, now + 1)),
        Ok(String::new()),
        "a newer version"
    );
    assert_eq!(model.send(1, 5, &[&["a", &address]]), Ok(String::new()));
    assert_eq!(
        withheld(&model, addressable(1, d, now + 1).id),
        None,
        "newer than the deletion"
    );
}

#[test]
fn addresses_of_others_and_malformed_ones_delete_nothing() {
    let mut model = Model::new(Profile::Open);
    let now = model.now();
    let foreign = addressable(2, "x", now);
    model.submit(foreign.clone()).unwrap();
    let (one, two) = (pubkey(1), pubkey(2));
    for address in [
        format!("30402:{two}:x"),
        format!("30402:{one}"),
        format!("1:{one}:"),
        format!("10002:{one}:x"),
        format!("99999:{one}:x"),
        "30402".to_owned(),
        String::new(),
    ] {
        assert_eq!(
            model.send(1, 5, &[&["a", &address]]),
            Ok(String::new()),
            "{address}"
        );
    }
    assert_eq!(withheld(&model, foreign.id), None);
    assert_eq!(
        model.send(1, 5, &[&["k", "1"]]),
        Err("invalid: a deletion must name an event by an e or a tag".to_owned())
    );
}

#[test]
fn a_deletion_of_a_deletion_has_no_effect() {
    // S21: in either order of arrival.
    let mut model = Model::new(Profile::Open);
    let target = model.event(1, 1, &[]);
    let first = model.event(1, 5, &[&["e", &target.id.to_string()]]);
    let second = model.event(1, 5, &[&["e", &first.id.to_string()]]);
    let mut reversed = model.clone();
    for event in [&target, &first, &second] {
        assert_eq!(model.submit(event.clone()), Ok(String::new()));
    }
    for event in [&second, &first] {
        assert_eq!(reversed.submit(event.clone()), Ok(String::new()));
    }
    assert_eq!(
        reversed.submit(first.clone()),
        Ok("duplicate: already have this event".to_owned())
    );
    for model in [&mut model, &mut reversed] {
        assert_eq!(withheld(model, first.id), None);
        assert_eq!(model.submit(target.clone()), Err(TOO_LATE.to_owned()));
    }
}

#[test]
fn commands_and_what_the_relay_signed_cannot_be_deleted() {
    let mut model = Model::new(Profile::Workspace);
    let h = channel_id(1).to_string();
    let create = model.event(1, 9007, &[&["h", &h], &["name", "x"]]);
    model.submit(create.clone()).unwrap();
    let state = model
        .newest(kinds::CHANNEL_METADATA, channel_id(1))
        .unwrap();
    let notice = model.newest(kinds::MEMBER_ADDED, channel_id(1)).unwrap();
    let ids = [create.id, state.id, notice.id];
    let [a, b, c] = ids.map(|id| id.to_string());
    let address = format!("39000:{}:{h}", state.pubkey);
    let tags: &[&[&str]] = &[&["e", &a], &["e", &b], &["e", &c], &["a", &address]];
    assert_eq!(model.send(1, 5, tags), Ok(String::new()));
    for id in ids {
        assert_eq!(withheld(&model, id), None);
    }
    assert_eq!(
        model.submit(create),
        Ok("duplicate: already have this event".to_owned())
    );
}

#[test]
fn a_request_that_names_an_artifact_is_refused_whole() {
    rules!("AR-MOD-1");
    let mut model = Model::new(Profile::Workspace);
    let (revision, moved) = with_artifact(&mut model);
    let h = channel_id(1).to_string();
    let message = model.event(2, kinds::CHAT, &[&["h", &h]]);
    model.submit(message.clone()).unwrap();
    let message_id = message.id.to_string();
    let before = model.clone();
    for target in [revision, moved] {
        let target = target.to_string();
        for by in [1, 2] {
            let answer = model.send(by, 5, &[&["e", &message_id], &["e", &target]]);
            assert_eq!(answer, Err(NOT_BY_KIND_5.to_owned()));
        }
    }
    for kind in [45010, 45011] {
        let address = format!("{kind}:{}:x", pubkey(2));
        let answer = model.send(2, 5, &[&["e", &message_id], &["a", &address]]);
        assert_eq!(answer, Err(NOT_BY_KIND_5.to_owned()));
    }
    assert_eq!((model.events, model.ledger), (before.events, before.ledger));
}

#[test]
fn a_deletion_with_a_channel_passes_the_gate_of_that_channel() {
    let mut model = Model::new(Profile::Workspace);
    let h = channel_id(1).to_string();
    model
        .send(
            1,
            9007,
            &[&["h", &h], &["name", "x"], &["visibility", "private"]],
        )
        .unwrap();
    let e = "ab".repeat(32);
    let tags: &[&[&str]] = &[&["h", &h], &["e", &e]];
    assert_eq!(
        model.send(2, 5, tags),
        Err("restricted: not a channel member".to_owned())
    );
    let deletion = model.event(1, 5, tags);
    let id = deletion.id;
    assert_eq!(model.submit(deletion), Ok(String::new()));
    assert_eq!(model.events[&id].stored.channel, Some(channel_id(1)));
}

#[test]
fn a_deletion_is_found_in_the_channel_of_what_it_withholds() {
    let mut model = Model::new(Profile::Workspace);
    let h = channel_id(1).to_string();
    model.send(1, 9007, &[&["h", &h], &["name", "x"]]).unwrap();
    let message = model.event(2, kinds::CHAT, &[&["h", &h]]);
    model.submit(message.clone()).unwrap();
    let note = model.event(2, 30_023, &[&["h", &h], &["d", "n"]]);
    model.submit(note.clone()).unwrap();
    let address = format!("30023:{}:n", pubkey(2));
    model
        .send(2, 5, &[&["e", &message.id.to_string()], &["a", &address]])
        .unwrap();
    let rows: Vec<_> = model
        .ledger
        .iter()
        .filter(|row| row.change == Change::Withheld)
        .collect();
    let rows: Vec<_> = rows.iter().map(|row| (row.channel, row.event)).collect();
    assert_eq!(
        rows,
        [
            (Some(channel_id(1)), Some(message.id)),
            (Some(channel_id(1)), Some(note.id))
        ]
    );
}
