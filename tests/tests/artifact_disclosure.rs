//! What a refusal gives away against a running relay: nothing about an artifact that the sender cannot read.

use std::collections::BTreeSet;

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, EventId};
use holdfast_tests::build::{self, Revision, fresh_artifact};
use holdfast_tests::person::{Person, artifact_of};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

/// What ann hides from eve: artifacts in every state, each by its current revision.
struct Hidden {
    heads: Vec<(&'static str, Event)>,
}

async fn hide(ann: &mut Person, insider: &Person) -> Hidden {
    let a = ann.private_channel(&[insider.pubkey]).await;
    let b = ann.private_channel(&[]).await;
    let archived = ann.private_channel(&[]).await;
    let deleted = ann.private_channel(&[]).await;
    let mut heads = Vec::new();
    heads.push(("in private A", ann.artifact(a).await));
    heads.push(("in private B", ann.artifact(b).await));
    let gone = ann.artifact(a).await;
    heads.push(("deleted", ann.write(&Revision::delete(&gone)).await));
    let redacted = ann.artifact(a).await;
    let removal = build::remove_event(&ann.key, a, redacted.id);
    ann.ws.accept(removal).await;
    heads.push(("redacted", redacted));
    let moved = ann.artifact(a).await;
    heads.push(("moved", ann.write(&Revision::move_to(&moved, b)).await));
    let root = ann.chat(a, "a root").await.id;
    let rooted = Revision::create(fresh_artifact(), a).root(Some(root));
    heads.push(("with a root", ann.write(&rooted).await));
    heads.push(("in an archived home", ann.artifact(archived).await));
    heads.push(("in a deleted home", ann.artifact(deleted).await));
    for command in [
        build::archive(&ann.key, archived, true),
        build::delete_channel(&ann.key, deleted),
    ] {
        ann.ws.accept(command).await;
    }
    Hidden { heads }
}

/// The bytes that eve gets for a write, over WebSocket and HTTP, her own event's id taken out.
async fn answers(eve: &mut Person, revision: &Revision) -> (String, u16, Vec<u8>) {
    let event = revision.sign(&eve.key);
    let reason = eve.ws.refuse(event.clone()).await;
    let answer = eve.http.submit(&event).await;
    (reason, answer.status, answer.body)
}

/// Every op that is no create, on this head, as eve can write it: into a channel of her own, or into one she names.
fn attempts(head: &Event, h: ChannelId, prev: EventId) -> Vec<(&'static str, Revision)> {
    let delete = || Revision::delete(head).root(None).home(h).prev(prev);
    let mut attempts = vec![("delete", delete())];
    for op in ["update", "move", "restore"] {
        let mut revision = delete().title("a title").content("content");
        revision.op = Some(op.to_owned());
        attempts.push((op, revision.clone()));
        attempts.push((op, revision.of_type("test.other")));
    }
    attempts
}

#[tokio::test]
async fn an_unreadable_artifact_answers_like_an_unknown_one_on_every_op() {
    rules!("AR-ACC-18", "AR-MOVE-12", "AR-MOVE-13");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut eve = Person::arrive(&relay.endpoint()).await;
    let hidden = hide(&mut ann, &eve).await;
    let own = eve.open_channel().await;
    // Eve was a member of A and knows the ids of everything in it.
    let a = hidden.heads[0].1.channel_tag().expect("a home");
    ann.remove(a, eve.pubkey).await;
    let random = build::chat(&eve.key, own, "an id of no revision").id;
    let unknown = Revision::create(fresh_artifact(), own).sign(&eve.key);
    for (op, revision) in attempts(&unknown, own, random) {
        let expected = answers(&mut eve, &revision).await;
        assert_eq!(expected.0, "conflict: artifact head unavailable", "{op}");
        assert_eq!(expected.1, 409, "{op}");
    }
    let expected = answers(&mut eve, &attempts(&unknown, own, random)[0].1).await;
    for (state, head) in &hidden.heads {
        for prev in [head.id, random] {
            for (op, revision) in attempts(head, own, prev) {
                let got = answers(&mut eve, &revision).await;
                assert_eq!(got, expected, "{op} on an artifact {state}");
            }
        }
    }
}

#[tokio::test]
async fn a_named_channel_that_is_unreadable_answers_like_an_unknown_one() {
    rules!("AR-ACC-18", "AR-ACC-8");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let bob = Person::arrive(&relay.endpoint()).await;
    let mut eve = Person::arrive(&relay.endpoint()).await;
    let hidden = hide(&mut ann, &bob).await;
    let nowhere = build::fresh_channel();
    let unknown = Revision::create(fresh_artifact(), nowhere).sign(&eve.key);
    let (_, attempt) = &attempts(&unknown, nowhere, unknown.id)[0];
    let expected = answers(&mut eve, attempt).await;
    assert_eq!(expected.0, "restricted: not a channel member");
    for (state, head) in &hidden.heads {
        let home = head.channel_tag().expect("a home");
        let mut tried = attempts(head, home, head.id);
        tried.push(("create", Revision::create(artifact_of(head), home)));
        tried.push(("create", Revision::create(fresh_artifact(), home)));
        for (op, revision) in tried {
            let got = answers(&mut eve, &revision).await;
            assert_eq!(got, expected, "{op} into the home of one {state}");
        }
    }
    assert_eq!(bob.current_count(json!({})).await, 2);
}

#[tokio::test]
async fn a_create_says_only_that_the_identity_is_taken() {
    rules!("AR-ID-19", "AR-ID-18", "AR-ACC-18");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let mut eve = Person::arrive(&relay.endpoint()).await;
    let hidden = hide(&mut ann, &bob).await;
    let own = eve.open_channel().await;
    let anchor = eve.chat(own, "an anchor").await.id;
    let mut got = BTreeSet::new();
    for (_, head) in &hidden.heads {
        let d = artifact_of(head);
        for revision in [
            Revision::create(d, own),
            Revision::create(d, own).of_type("test.other"),
            Revision::create(d, own).root(Some(anchor)),
        ] {
            got.insert(answers(&mut eve, &revision).await);
        }
        // A reader gets the same words.
        let revision = Revision::create(d, own);
        got.insert(answers(&mut bob, &revision).await);
    }
    let body = br#"{"error":"conflict: artifact identity is taken"}"#;
    let taken = "conflict: artifact identity is taken".to_owned();
    assert_eq!(got, [(taken, 409, body.to_vec())].into());
}

#[tokio::test]
async fn a_removal_of_an_unreadable_revision_answers_like_that_of_an_unknown_event() {
    rules!("AR-ACC-18", "AR-MOD-2");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let bob = Person::arrive(&relay.endpoint()).await;
    let mut eve = Person::arrive(&relay.endpoint()).await;
    let hidden = hide(&mut ann, &bob).await;
    let own = eve.open_channel().await;
    let never = build::chat(&eve.key, own, "never sent").id;
    let mut answers = BTreeSet::new();
    for id in hidden.heads.iter().map(|(_, head)| head.id).chain([never]) {
        let removal = build::remove_event(&eve.key, own, id);
        let reason = eve.ws.refuse(removal.clone()).await;
        let answer = eve.http.submit(&removal).await;
        answers.insert((reason, answer.status, answer.body));
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[tokio::test]
async fn a_query_for_the_unreadable_equals_one_for_the_unknown() {
    rules!("AR-HEAD-6", "AR-HEAD-5", "AR-ACC-1");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let bob = Person::arrive(&relay.endpoint()).await;
    let eve = Person::arrive(&relay.endpoint()).await;
    let hidden = hide(&mut ann, &bob).await;
    let mut known: Vec<_> = hidden
        .heads
        .iter()
        .map(|(_, head)| artifact_of(head))
        .collect();
    known.push(fresh_artifact());
    for name in ["head", "history", "current"] {
        for d in &known {
            let filter = json!({"artifact": name, "#d": [d]});
            let answer = eve.http.query(&filter).await;
            assert_eq!((answer.status, answer.text()), (200, "[]"), "{name}");
            let answer = eve.http.count(&filter).await;
            assert_eq!(
                (answer.status, answer.text()),
                (200, r#"{"count":0}"#),
                "{name}"
            );
        }
        let answer = eve
            .http
            .query(&[json!({"artifact": name, "#d": known})])
            .await;
        assert_eq!((answer.status, answer.text()), (200, "[]"), "{name}");
    }
}
