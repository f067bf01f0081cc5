//! The second wall: what a wrong decision or a foreign hand cannot do to the file.

use holdfast_core::accept::{Head, StoredEvent, WithheldCause, Write};
use holdfast_core::nostr::{Event, EventId, PubKey, Signature};
use holdfast_core::rules;

use super::world::{World, artifact_id, channel_id};

fn event(number: u8, kind: u16, created_at: u64) -> Event {
    Event {
        id: EventId::from_bytes([number; 32]),
        pubkey: PubKey::from_bytes([1; 32]),
        created_at,
        kind,
        tags: vec![],
        content: String::new(),
        sig: Signature::from_bytes([0; 64]),
    }
}

fn head(number: u8) -> Box<Head> {
    Box::new(Head {
        event: EventId::from_bytes([number; 32]),
        home: channel_id(1),
        artifact_type: "x.y".to_owned(),
        root: None,
        deleted: false,
        redacted: false,
    })
}

fn store(world: &World, event: Event) -> Write {
    Write::Store(Box::new(StoredEvent::new(
        event,
        None,
        world.moment().first_position,
    )))
}

fn revision(world: &World, number: u8) -> Write {
    Write::Store(Box::new(StoredEvent {
        artifact: Some(artifact_id(1)),
        ..StoredEvent::new(
            event(number, 45_010, 1),
            Some(channel_id(1)),
            world.moment().first_position,
        )
    }))
}

fn world_with_head() -> World {
    let mut world = World::empty(3);
    world.add_channel(1);
    let create = Write::CreateHead {
        artifact: artifact_id(1),
        head: head(1),
    };
    let position = world.moment().first_position;
    let accept = Write::Accept {
        event: EventId::from_bytes([1; 32]),
        artifact: artifact_id(1),
        author: PubKey::from_bytes([1; 32]),
        position,
    };
    world
        .apply(vec![revision(&world, 1), create, accept])
        .expect("the first revision");
    world
}

#[test]
fn a_head_advances_only_from_its_current_revision() {
    rules!("AR-ID-7", "AR-ID-9");
    let world = world_with_head();
    let artifact = artifact_id(1);
    let stale = Write::AdvanceHead {
        artifact,
        prev: EventId::from_bytes([9; 32]),
        head: head(2),
    };
    assert!(world.apply(vec![revision(&world, 2), stale]).is_err());
    let of_other_type = Box::new(Head {
        artifact_type: "x.z".to_owned(),
        ..*head(2)
    });
    let prev = EventId::from_bytes([1; 32]);
    let retyped = Write::AdvanceHead {
        artifact,
        prev,
        head: of_other_type,
    };
    assert!(world.apply(vec![revision(&world, 2), retyped]).is_err());
    let without_revision = Write::AdvanceHead {
        artifact,
        prev,
        head: head(2),
    };
    assert!(world.apply(vec![without_revision]).is_err());
    let right = Write::AdvanceHead {
        artifact,
        prev,
        head: head(2),
    };
    world
        .apply(vec![revision(&world, 2), right])
        .expect("the second revision");
}

#[test]
fn an_artifact_id_is_created_once() {
    rules!("AR-ID-5");
    let world = world_with_head();
    let again = Write::CreateHead {
        artifact: artifact_id(1),
        head: head(2),
    };
    assert!(world.apply(vec![revision(&world, 2), again]).is_err());
}

#[test]
fn one_event_fills_a_slot() {
    let world = World::empty(3);
    world
        .apply(vec![store(&world, event(1, 0, 1))])
        .expect("a profile");
    assert!(world.apply(vec![store(&world, event(2, 0, 2))]).is_err());
    let emptied = Write::Withhold {
        event: EventId::from_bytes([1; 32]),
        cause: WithheldCause::Superseded,
    };
    world
        .apply(vec![emptied, store(&world, event(2, 0, 2))])
        .expect("the next profile");
}

#[test]
fn ids_are_stored_once_and_every_event_has_its_ledger_row() {
    let world = World::empty(3);
    world
        .apply(vec![store(&world, event(1, 1, 1))])
        .expect("a note");
    assert!(world.apply(vec![store(&world, event(1, 1, 1))]).is_err());
    let skipped = StoredEvent::new(event(2, 1, 1), None, world.moment().first_position.plus(1));
    assert!(
        world.apply(vec![Write::Store(Box::new(skipped))]).is_err(),
        "a gap in the ledger"
    );
}

#[test]
fn a_revision_is_hidden_by_redaction_only_and_once() {
    rules!("AR-MOD-3");
    let world = world_with_head();
    let id = EventId::from_bytes([1; 32]);
    for cause in [WithheldCause::Superseded, WithheldCause::Deleted] {
        assert!(
            world
                .apply(vec![Write::Withhold { event: id, cause }])
                .is_err()
        );
    }
    let redaction = Write::Withhold {
        event: id,
        cause: WithheldCause::Removed,
    };
    world.apply(vec![redaction.clone()]).expect("a redaction");
    assert!(world.apply(vec![redaction]).is_err());
    let (body, tags): (Option<String>, i64) = world
        .reader
        .query_row(
            "SELECT body, (SELECT count(*) FROM event_tag) FROM event",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .expect("the row");
    assert_eq!((body, tags), (None, 0));
}

#[test]
fn nothing_of_the_record_can_be_deleted_or_rewritten() {
    rules!("AR-DEL-12", "AR-MOD-13");
    let world = world_with_head();
    for statement in [
        "DELETE FROM head",
        "DELETE FROM ledger",
        "DELETE FROM revision",
        "DELETE FROM channel",
        "DELETE FROM member",
        "DELETE FROM event",
        "UPDATE ledger SET stamp_us = 0",
        "UPDATE revision SET author = x'00'",
        "UPDATE channel SET channel_type = 'other'",
        "UPDATE event SET created_at = 0",
    ] {
        world.writer.execute_batch("INSERT OR IGNORE INTO member SELECT 1, id, zeroblob(32), 0, 'guest', 1, 1 FROM channel")
            .expect("a member");
        assert!(
            world.writer.execute_batch(statement).is_err(),
            "{statement}"
        );
    }
}
