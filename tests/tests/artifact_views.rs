//! The head view, and artifacts on ordinary subscriptions, against a running relay.

use holdfast_core::nostr::Event;
use holdfast_tests::build::{self, Revision, fresh_artifact};
use holdfast_tests::lookup::{deletion, live, older, shown};
use holdfast_tests::person::{Person, artifact_of, ids, only, view};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

#[tokio::test]
async fn the_head_view_returns_one_current_revision_for_each_artifact_it_may_show() {
    rules!(
        "AR-HEAD-3",
        "AR-HEAD-4",
        "AR-HEAD-5",
        "AR-HEAD-6",
        "AR-HEAD-7",
        "AR-HEAD-8"
    );
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (open, secret) = (ann.open_channel().await, ann.private_channel(&[]).await);
    let mut edited = ann.artifact(open).await;
    for content in ["2", "3", "4", "5"] {
        edited = ann.write(&Revision::update(&edited, content)).await;
    }
    let gone = ann.artifact(open).await;
    let gone = ann.write(&Revision::delete(&gone)).await;
    let hidden = ann.artifact(secret).await;
    let redacted = ann.artifact(open).await;
    let redacted = ann.write(&Revision::update(&redacted, "2")).await;
    let removal = build::remove_event(&ann.key, open, redacted.id);
    ann.ws.accept(removal).await;
    let mut asked: Vec<_> = [&edited, &gone, &hidden, &redacted].map(artifact_of).into();
    asked.push(fresh_artifact());
    let filter = view("head", json!({"#d": asked}));
    let rows = bob.http.rows(filter.clone()).await;
    assert_eq!(ids(&rows), ids([&edited, &gone]));
    assert_eq!(bob.http.count(&filter).await.count(), 2);
    let rows = ann.http.rows(filter.clone()).await;
    assert_eq!(ids(&rows), ids([&edited, &gone, &hidden]));
    // The other predicates hold for the head and not for what was before it.
    let by_op = view("head", json!({"#d": asked, "#op": ["create"]}));
    assert_eq!(ann.http.rows(by_op).await, [hidden]);
    let by_home = view("head", json!({"#d": asked, "#h": [open], "limit": 1}));
    assert_eq!(bob.http.rows(by_home).await.len(), 1);
    for revision in [&edited, &gone] {
        let expected = if revision == &gone {
            deletion()
        } else {
            live()
        };
        assert_eq!(shown(&mut bob, revision).await, expected);
    }
}

#[tokio::test]
async fn a_head_query_without_a_limit_returns_every_artifact_it_names() {
    rules!("AR-HEAD-3", "AR-HEAD-8");
    const NAMED: usize = 256;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let written: Vec<Event> = (0..NAMED)
        .map(|_| Revision::create(fresh_artifact(), home).sign(&ann.key))
        .collect();
    for event in &written {
        ann.ws.submit(event).await;
    }
    for event in &written {
        assert!(ann.ws.answer(event.id).await.accepted);
    }
    let asked: Vec<_> = written.iter().map(artifact_of).collect();
    let rows = ann.http.rows(view("head", json!({"#d": asked}))).await;
    assert_eq!(ids(&rows), ids(&written));
}

#[tokio::test]
async fn the_history_is_a_view_of_its_own() {
    rules!("AR-CUR-5", "AR-DEL-6", "AR-ID-3");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let first = ann.artifact(home).await;
    let second = bob.write(&Revision::update(&first, "2")).await;
    let gone = ann.write(&Revision::delete(&second)).await;
    let other = ann.artifact(home).await;
    let d = artifact_of(&first);
    let revisions = [&first, &second, &gone];
    assert_eq!(ids(&bob.history(d).await), ids(revisions));
    let both = view("history", json!({"#d": [d, artifact_of(&other)]}));
    assert_eq!(bob.http.count(&both).await.count(), 4);
    let all = ids(revisions.into_iter().chain([&other]));
    assert_eq!(ids(&bob.http.rows(both).await), all);
    assert_eq!(bob.current(json!({"#h": [home]})).await, [other]);
    for revision in [&first, &second] {
        assert_eq!(shown(&mut bob, revision).await, older());
    }
}

#[tokio::test]
async fn ordinary_subscriptions_replay_heads_and_hear_every_revision_and_removal() {
    rules!("AR-CUR-2", "AR-MOVE-7", "AR-DEL-6");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.private_channel(&[]).await);
    let mut early = Person::arrive(&relay.endpoint()).await;
    let client = json!({"kinds": [45010, 45011], "#h": [home], "limit": 500});
    assert_eq!(early.ws.subscribe("early", &client).await, []);
    let first = ann.artifact(home).await;
    let second = ann.write(&Revision::update(&first, "2")).await;
    let third = ann.write(&Revision::update(&second, "3")).await;
    let doomed = ann.artifact(home).await;
    let gone = ann.write(&Revision::delete(&doomed)).await;
    let moving = ann.artifact(home).await;
    ann.write(&Revision::move_to(&moving, other)).await;
    for expected in [&first, &second, &third, &doomed, &gone, &moving] {
        assert_eq!(early.ws.next_event("early").await, *expected);
    }
    let removal = early.ws.next_event("early").await;
    assert_eq!(removal.kind, 45011);

    let replay = bob.ws.subscribe("late", &client).await;
    assert_eq!(ids(&replay), ids([&third, &gone, &removal]));
    assert_eq!(ids(&bob.http.rows(client.clone()).await), ids(&replay));
    assert_eq!(bob.ws.count(&client).await, Ok(3));
    let by_d = json!({"kinds": [45010], "#h": [home], "#d": [artifact_of(&third)], "limit": 10});
    assert_eq!(bob.ws.stored(&by_d).await, only(&third));
    let all = [&first, &second, &third, &doomed, &gone].map(|event| event.id);
    assert_eq!(bob.ws.stored(&[json!({"ids": all})]).await.len(), all.len());
    let mut stale = vec![third.clone()];
    for content in ["4", "5", "6"] {
        let edit = Revision::update(&stale[stale.len() - 1], content).sign(&ann.key);
        ann.ws.submit(&edit).await;
        stale.push(edit);
    }
    for edit in &stale[1..] {
        assert!(ann.ws.answer(edit.id).await.accepted);
    }
    // Each accepted revision comes, although newer ones are stored when it is delivered. In which order is not promised.
    let mut heard = Vec::new();
    for _ in &stale[1..] {
        heard.push(bob.ws.next_event("late").await);
    }
    assert_eq!(ids(&heard), ids(&stale[1..]));
}
