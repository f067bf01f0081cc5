//! Access to artifacts against a running relay: who reads them, who writes them, and from which moment on.

use std::collections::BTreeSet;

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, PubKey, SecretKey};
use holdfast_tests::build::{self, Revision, fresh_artifact, fresh_channel};
use holdfast_tests::client::Verdict;
use holdfast_tests::lookup::{live, older, shown};
use holdfast_tests::person::{Person, artifact_of, ids};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

const NOT_A_MEMBER: &str = "restricted: not a channel member";

fn nothing() -> BTreeSet<&'static str> {
    BTreeSet::new()
}

#[tokio::test]
async fn the_channel_governs_every_lookup() {
    rules!("AR-ACC-1", "AR-ACC-6");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.private_channel(&[]).await;
    let first = ann.artifact(home).await;
    let head = ann.write(&Revision::update(&first, "2")).await;
    assert_eq!(shown(&mut ann, &head).await, live());
    for _ in 0..2 {
        assert_eq!(shown(&mut bob, &head).await, nothing());
        assert_eq!(shown(&mut bob, &first).await, nothing());
        let by_d = json!({"#d": [artifact_of(&head)]});
        assert_eq!(bob.current_count(by_d.clone()).await, 0);
        for role in [None, Some("guest")] {
            ann.add(home, bob.pubkey, role).await;
            assert_eq!(shown(&mut bob, &head).await, live());
            assert_eq!(shown(&mut bob, &first).await, older());
            assert_eq!(bob.current_count(by_d.clone()).await, 1);
        }
        ann.remove(home, bob.pubkey).await;
    }
    assert_eq!(shown(&mut bob, &head).await, nothing());
}

#[tokio::test]
async fn a_change_of_visibility_holds_for_the_next_read() {
    rules!("AR-ACC-6", "AR-ACC-1");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let head = ann.artifact(home).await;
    for _ in 0..2 {
        assert_eq!(shown(&mut bob, &head).await, live());
        let close = build::edit_channel(&ann.key, home, &[&["visibility", "private"]]);
        ann.ws.accept(close).await;
        assert_eq!(shown(&mut bob, &head).await, nothing());
        assert_eq!(shown(&mut ann, &head).await, live());
        let open = build::edit_channel(&ann.key, home, &[&["visibility", "open"]]);
        ann.ws.accept(open).await;
    }
    assert_eq!(shown(&mut bob, &head).await, live());
}

#[tokio::test]
async fn each_revision_of_the_history_is_judged_by_its_own_channel() {
    rules!("AR-ACC-2", "AR-MOVE-9");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut reader_of_a = Person::arrive(&relay.endpoint()).await;
    let mut reader_of_b = Person::arrive(&relay.endpoint()).await;
    let a = ann.private_channel(&[reader_of_a.pubkey]).await;
    let b = ann.private_channel(&[reader_of_b.pubkey]).await;
    let in_a = ann.artifact(a).await;
    let edited_in_a = ann.write(&Revision::update(&in_a, "2")).await;
    let in_b = ann.write(&Revision::move_to(&edited_in_a, b)).await;
    let edited_in_b = ann.write(&Revision::update(&in_b, "4")).await;
    let back_in_a = ann.write(&Revision::move_to(&edited_in_b, a)).await;
    let d = artifact_of(&in_a);
    let of_a = [&in_a, &edited_in_a, &back_in_a];
    let of_b = [&in_b, &edited_in_b];
    assert_eq!(ids(&reader_of_a.history(d).await), ids(of_a));
    assert_eq!(ids(&reader_of_b.history(d).await), ids(of_b));
    assert_eq!(ann.history(d).await.len(), 5);
    for revision in of_b {
        assert_eq!(shown(&mut reader_of_a, revision).await, nothing());
        assert_eq!(shown(&mut reader_of_b, revision).await, older());
    }
    for revision in of_a {
        assert_eq!(shown(&mut reader_of_b, revision).await, nothing());
    }
    assert_eq!(shown(&mut reader_of_a, &back_in_a).await, live());
}

#[tokio::test]
async fn access_is_judged_at_the_moment_of_delivery() {
    rules!("AR-ACC-4", "AR-ACC-6");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.private_channel(&[bob.pubkey]).await;
    let named = json!({"kinds": [45010], "#h": [home]});
    let anywhere = json!({"kinds": [45010]});
    ann.ws.subscribe("ann", &named).await;
    bob.ws.subscribe("named", &named).await;
    bob.ws.subscribe("anywhere", &anywhere).await;
    let first = ann.artifact(home).await;
    for sub in ["named", "anywhere"] {
        assert_eq!(bob.ws.next_event(sub).await, first);
    }
    assert_eq!(ann.ws.next_event("ann").await, first);

    ann.remove(home, bob.pubkey).await;
    let closed = bob.ws.next_closed("named").await;
    assert_eq!(closed, "restricted: channel access revoked");
    let unseen = ann.write(&Revision::update(&first, "unseen")).await;
    // When it has reached its author, it has been delivered to all whom it reaches.
    assert_eq!(ann.ws.next_event("ann").await, unseen);
    ann.add(home, bob.pubkey, None).await;
    let seen = ann.write(&Revision::update(&unseen, "seen")).await;
    assert_eq!(bob.ws.next_event("anywhere").await, seen);

    let mut last = seen;
    for visibility in ["open", "private"] {
        let edit = build::edit_channel(&ann.key, home, &[&["visibility", visibility]]);
        ann.ws.accept(edit).await;
        last = ann.write(&Revision::update(&last, visibility)).await;
        assert_eq!(bob.ws.next_event("anywhere").await, last);
    }
}

#[tokio::test]
async fn a_root_adds_no_reader_and_removes_none() {
    rules!("AR-ACC-5", "AR-ACC-17");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let mut cat = Person::arrive(&relay.endpoint()).await;
    let home = ann.private_channel(&[bob.pubkey, cat.pubkey]).await;
    let root = bob.chat(home, "bob begins a thread").await;
    ann.remove(home, bob.pubkey).await;
    let create = Revision::create(fresh_artifact(), home)
        .root(Some(root.id))
        .with(&["p", &bob.pubkey.to_string()]);
    let head = ann.write(&create).await;
    assert_eq!(shown(&mut bob, &head).await, nothing());
    assert_eq!(shown(&mut cat, &head).await, live());

    // What an artifact refers to is as closed to its readers as without it.
    let open = ann.open_channel().await;
    let refers = Revision::create(fresh_artifact(), open)
        .with(&["e", &root.id.to_string()])
        .with(&["artifact", &artifact_of(&head).to_string()])
        .with(&["repo", &format!("30617:{}:repo", ann.pubkey)]);
    let refers = ann.write(&refers).await;
    assert_eq!(shown(&mut bob, &refers).await, live());
    assert_eq!(bob.ws.stored(&[json!({"ids": [root.id]})]).await, []);
    assert_eq!(bob.head(artifact_of(&head)).await, []);
}

#[tokio::test]
async fn a_link_moves_nothing_and_shares_nothing() {
    rules!("AR-ACC-16");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (secret, shared) = (
        ann.private_channel(&[]).await,
        ann.private_channel(&[bob.pubkey]).await,
    );
    let project = ann.artifact(shared).await;
    let name = artifact_of(&project).to_string();
    let task = Revision::create(fresh_artifact(), secret).with(&["project", &name]);
    let task = ann.write(&task).await;
    let linked = Revision::update(&project, "lists its tasks")
        .with(&["task", &artifact_of(&task).to_string()]);
    let linked = ann.write(&linked).await;
    assert_eq!(shown(&mut bob, &task).await, nothing());
    assert_eq!(bob.current(json!({"#project": [name]})).await, []);
    assert_eq!(bob.current_count(json!({"#project": [name]})).await, 0);
    assert_eq!(shown(&mut bob, &linked).await, live());
    assert_eq!(ann.current(json!({"#h": [secret]})).await, [task]);
    assert_eq!(ann.current(json!({"#h": [shared]})).await, [linked]);
}

/// Who tries to write: what the person is in the channel.
const PRINCIPALS: [&str; 7] = [
    "owner", "admin", "member", "bot", "guest", "removed", "stranger",
];

/// A channel in a state, and one artifact of its owner's for each principal and each op but create.
struct Place {
    name: &'static str,
    home: ChannelId,
    prepared: Vec<[Event; 3]>,
}

/// Makes a channel, lets the principals join it, and prepares the artifacts.
async fn place(owner: &mut Person, people: &[PubKey], name: &'static str) -> Place {
    let home = if name.starts_with("open") {
        owner.open_channel().await
    } else {
        owner.private_channel(&[]).await
    };
    for (principal, &who) in PRINCIPALS.iter().zip(people) {
        match *principal {
            "owner" | "stranger" => {}
            "removed" => {
                owner.add(home, who, None).await;
                owner.remove(home, who).await;
            }
            role => owner.add(home, who, Some(role)).await,
        }
    }
    let mut prepared = Vec::new();
    for _ in people {
        let (updated, deleted) = (owner.artifact(home).await, owner.artifact(home).await);
        let restored = owner.artifact(home).await;
        let restored = owner.write(&Revision::delete(&restored)).await;
        prepared.push([updated, deleted, restored]);
    }
    let last = match name.rsplit(' ').next() {
        Some("archived") => Some(build::archive(&owner.key, home, true)),
        Some("deleted") => Some(build::delete_channel(&owner.key, home)),
        _ => None,
    };
    if let Some(command) = last {
        owner.ws.accept(command).await;
    }
    Place {
        name,
        home,
        prepared,
    }
}

#[tokio::test]
async fn who_may_post_a_message_may_write_artifacts_and_nobody_else() {
    rules!("AR-ACC-8", "AR-ACC-9", "AR-ACC-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut people = Vec::new();
    for _ in PRINCIPALS {
        people.push(Person::arrive(&relay.endpoint()).await);
    }
    let keys: Vec<PubKey> = people.iter().map(|person| person.pubkey).collect();
    let mut places = Vec::new();
    for name in [
        "open",
        "private",
        "open archived",
        "private archived",
        "open deleted",
        "private deleted",
    ] {
        places.push(place(&mut people[0], &keys, name).await);
    }
    for place in &places {
        let mut writers = Vec::new();
        for (at, principal) in PRINCIPALS.into_iter().enumerate() {
            let case = format!("{principal} in a channel that is {}", place.name);
            let person = &mut people[at];
            let message = build::chat(&person.key, place.home, &case);
            let oracle = person.ws.publish(&message).await;
            let [updated, deleted, restored] = &place.prepared[at];
            for revision in [
                Revision::create(fresh_artifact(), place.home),
                Revision::update(updated, &case),
                Revision::delete(deleted),
                Revision::restore(restored, &case),
            ] {
                assert_eq!(person.try_write(&revision).await, oracle, "{case}");
            }
            if oracle.accepted {
                writers.push(principal);
            }
        }
        let expected: &[&str] = match place.name {
            "open" => &["owner", "admin", "member", "bot", "removed", "stranger"],
            "private" => &["owner", "admin", "member", "bot"],
            _ => &[],
        };
        assert_eq!(writers, expected, "{}", place.name);
    }
}

#[tokio::test]
async fn the_answer_and_the_status_are_those_of_a_message() {
    rules!("AR-ACC-8", "AR-ACC-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let private = ann.private_channel(&[]).await;
    let archived = ann.open_channel().await;
    let archive = build::archive(&ann.key, archived, true);
    ann.ws.accept(archive).await;
    let unknown = fresh_channel();
    for (home, reason) in [
        (private, NOT_A_MEMBER),
        (unknown, NOT_A_MEMBER),
        (archived, "invalid: channel is archived"),
    ] {
        let message = build::chat(&bob.key, home, "may I?");
        let create = Revision::create(fresh_artifact(), home).sign(&bob.key);
        assert_eq!(bob.ws.refuse(message.clone()).await, reason);
        let oracle = bob.http.submit(&message).await;
        let answer = bob.http.submit(&create).await;
        assert_eq!(answer.error(), reason);
        assert_eq!((answer.status, answer.body), (oracle.status, oracle.body));
    }
    // The gates come before the envelope, as they come before a message is looked at.
    let mut broken = Revision::create(fresh_artifact(), private);
    broken.title = None;
    assert_eq!(bob.refused(&broken).await, NOT_A_MEMBER);
    // Time and size are judged before both.
    let late = Revision::create(fresh_artifact(), private).at(build::now() - 1000);
    assert_eq!(
        bob.refused(&late).await,
        "invalid: event timestamp too far from server time"
    );
}

#[tokio::test]
async fn a_connection_without_a_key_writes_nothing() {
    rules!("AR-ACC-8");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let mut nobody = holdfast_tests::client::Client::open(&relay.endpoint()).await;
    let key: &SecretKey = &ann.key;
    for event in [
        build::chat(key, home, "unsigned in"),
        Revision::create(fresh_artifact(), home).sign(key),
    ] {
        let verdict = nobody.publish(&event).await;
        let refused = Verdict {
            accepted: false,
            message: "auth-required: not authenticated".to_owned(),
        };
        assert_eq!(verdict, refused);
    }
}

#[tokio::test]
async fn a_move_needs_the_right_to_write_at_both_ends() {
    rules!("AR-ACC-12", "AR-MOVE-12");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let source = ann.private_channel(&[]).await;
    let target = ann.private_channel(&[]).await;
    let roles = [None, Some("guest"), Some("member")];
    let mut head = ann.artifact(source).await;
    for in_source in roles {
        for in_target in roles {
            for (channel, role) in [(source, in_source), (target, in_target)] {
                if role.is_some() {
                    ann.add(channel, bob.pubkey, role).await;
                }
            }
            let verdict = bob.try_write(&Revision::move_to(&head, target)).await;
            let reason = match (in_source, in_target) {
                (Some("member"), Some("member")) => "",
                // In the source a reader gets the answer that a message would get; to others the artifact is unknown.
                (None, Some("member")) => "conflict: artifact head unavailable",
                _ => NOT_A_MEMBER,
            };
            let expected = Verdict {
                accepted: reason.is_empty(),
                message: reason.to_owned(),
            };
            assert_eq!(verdict, expected, "{in_source:?} to {in_target:?}");
            if verdict.accepted {
                let d = artifact_of(&head);
                let moved = ann.head(d).await;
                head = ann.write(&Revision::move_to(&moved[0], source)).await;
            }
            for (channel, role) in [(source, in_source), (target, in_target)] {
                if role.is_some() {
                    ann.remove(channel, bob.pubkey).await;
                }
            }
        }
    }
    assert_eq!(ann.head(artifact_of(&head)).await, [head]);
}

#[tokio::test]
async fn every_writer_may_edit_move_and_delete_what_another_created() {
    rules!("AR-ACC-13", "AR-ACC-15");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let mut cat = Person::arrive(&relay.endpoint()).await;
    let home = ann.private_channel(&[bob.pubkey]).await;
    let open = ann.open_channel().await;
    for name in ["buzz.task", "test.note", "a.b"] {
        let create = Revision::create(fresh_artifact(), home)
            .of_type(name)
            .with(&["t", "dm"])
            .with(&["channel_type", "system"]);
        let first = ann.write(&create).await;
        let second = bob.write(&Revision::update(&first, "bob's")).await;
        let gone = bob.write(&Revision::delete(&second)).await;
        let mut back = Revision::restore(&gone, "bob's again");
        back.further = create.further.clone();
        let back = bob.write(&back).await;
        let moved = bob.write(&Revision::move_to(&back, open)).await;
        // The home is an open stream, whatever the tags say: anyone may write there.
        let last = cat.write(&Revision::update(&moved, "cat's")).await;
        assert_eq!(shown(&mut ann, &last).await, live());
    }
}
