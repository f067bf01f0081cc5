//! Moves against a running relay: arrival and removal, what each side learns, and what stays behind.

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, PubKey};
use holdfast_tests::build::{self, Revision, fresh_artifact};
use holdfast_tests::http;
use holdfast_tests::lookup::{live, older, shown};
use holdfast_tests::person::{Person, artifact_of, ids, only};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

const ROOT: &str = "invalid: root must be an existing conversation anchor in home";

/// Ann, who is in both channels, and one reader of each.
struct Stage {
    _relay: RelayProcess,
    relay_key: PubKey,
    ann: Person,
    in_source: Person,
    in_target: Person,
    source: ChannelId,
    target: ChannelId,
}

async fn stage() -> Stage {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let info = http::info(&endpoint).await;
    let mut ann = Person::arrive(&endpoint).await;
    let in_source = Person::arrive(&endpoint).await;
    let in_target = Person::arrive(&endpoint).await;
    Stage {
        relay_key: info["self"]
            .as_str()
            .expect("the relay names its key")
            .parse()
            .expect("a key"),
        source: ann.private_channel(&[in_source.pubkey]).await,
        target: ann.private_channel(&[in_target.pubkey]).await,
        _relay: relay,
        ann,
        in_source,
        in_target,
    }
}

/// The removals stored in a channel, as this person reads them.
async fn removals(person: &mut Person, channel: ChannelId) -> Vec<Event> {
    let filter = json!({"kinds": [45011], "#h": [channel]});
    person.ws.stored(&filter).await
}

#[tokio::test]
async fn a_move_carries_the_whole_state_under_the_same_identity() {
    rules!("AR-MOVE-1", "AR-MOVE-10");
    let mut stage = stage().await;
    let create = Revision::create(fresh_artifact(), stage.source)
        .with(&["project", "p"])
        .content("the content");
    let first = stage.ann.write(&create).await;
    let d = artifact_of(&first);
    let edited = stage.ann.write(&Revision::update(&first, "edited")).await;
    let moved = stage
        .ann
        .write(&Revision::move_to(&edited, stage.target))
        .await;
    assert_eq!(shown(&mut stage.in_target, &moved).await, live());
    let by_tag = json!({"#project": ["p"], "#type": ["test.note"]});
    assert_eq!(stage.in_target.current(by_tag.clone()).await, only(&moved));
    assert_eq!(stage.in_target.head(d).await, only(&moved));
    assert_eq!(stage.in_target.history(d).await, only(&moved));
    assert_eq!(moved.channel_tag(), Some(stage.target));
    assert_eq!(moved.first_value("type"), first.first_value("type"));
    assert_eq!(stage.in_source.current(by_tag).await, []);
    assert_eq!(stage.in_source.head(d).await, []);
    let next = stage
        .in_target
        .write(&Revision::update(&moved, "goes on here"))
        .await;
    assert_eq!(stage.ann.head(d).await, [next]);
}

#[tokio::test]
async fn a_root_does_not_come_along() {
    rules!("AR-MOVE-2");
    let mut stage = stage().await;
    let (source, target) = (stage.source, stage.target);
    let ann = &mut stage.ann;
    let here = ann.chat(source, "a root of the source").await.id;
    let there = ann.chat(target, "a root of the target").await.id;
    let gone = ann.chat(target, "a deleted root of the target").await.id;
    let deletion = build::deletion(&ann.key, &[gone]);
    ann.ws.accept(deletion).await;
    let create = Revision::create(fresh_artifact(), source).root(Some(here));
    let head = ann.write(&create).await;
    let artifact = ann.artifact(target).await.id;
    for root in [here, gone, artifact] {
        let moved = Revision::move_to(&head, target).root(Some(root));
        assert_eq!(ann.refused(&moved).await, ROOT);
    }
    let moved = Revision::move_to(&head, target).root(Some(there));
    let moved = ann.write(&moved).await;
    let back = ann.write(&Revision::move_to(&moved, source)).await;
    assert_eq!(back.first_value("root"), None);
    assert_eq!(ann.head(artifact_of(&head)).await, [back]);
}

#[tokio::test]
async fn the_removal_is_the_relays_word_and_names_only_what_the_source_knew() {
    rules!("AR-MOVE-5", "AR-MOVE-6");
    let mut stage = stage().await;
    let create = Revision::create(fresh_artifact(), stage.source).title("a secret title");
    let first = stage.ann.write(&create).await;
    let removed = json!({"kinds": [45010, 45011], "#h": [stage.source]});
    stage.in_source.ws.subscribe("live", &removed).await;
    let root = stage.ann.chat(stage.target, "a root").await.id;
    let moved = Revision::move_to(&first, stage.target)
        .title("a new title")
        .content("new content")
        .root(Some(root))
        .with(&["project", "a new project"]);
    let moved = stage.ann.write(&moved).await;
    let removal = stage.in_source.ws.next_event("live").await;
    assert_eq!(removal.kind, 45011);
    assert_eq!(removal.pubkey, stage.relay_key);
    let (d, h) = (artifact_of(&first).to_string(), stage.source.to_string());
    let expected = [
        build::tag(&["ar", "1"]),
        build::tag(&["d", &d]),
        build::tag(&["h", &h]),
        build::tag(&["reason", "moved"]),
        build::tag(&["prev", &first.id.to_string()]),
    ];
    assert_eq!(removal.tags, expected);
    assert_eq!(removal.content, "");
    let bytes = removal.to_json();
    for secret in [
        stage.target.to_string(),
        moved.id.to_string(),
        root.to_string(),
        stage.ann.pubkey.to_string(),
        "title".to_owned(),
        "a new".to_owned(),
    ] {
        assert!(!bytes.contains(&secret), "{secret} is in {bytes}");
    }
    assert_eq!(
        removals(&mut stage.in_source, stage.source).await,
        [removal]
    );
    assert_eq!(removals(&mut stage.ann, stage.target).await, []);
}

#[tokio::test]
async fn who_was_away_finds_arrival_and_removal_in_the_channels() {
    rules!("AR-MOVE-7", "AR-MOVE-4");
    let mut stage = stage().await;
    let (source, target) = (stage.source, stage.target);
    let first = stage.ann.artifact(source).await;
    let stays = stage.ann.artifact(source).await;
    let moved = stage.ann.write(&Revision::move_to(&first, target)).await;
    let replay = |channel: ChannelId| json!({"kinds": [45010, 45011], "#h": [channel]});
    let in_source = stage.in_source.ws.stored(&[replay(source)]).await;
    let removal = in_source
        .iter()
        .find(|event| event.kind == 45011)
        .expect("the removal is stored")
        .clone();
    assert_eq!(ids(&in_source), ids([&stays, &removal]));
    assert_eq!(
        removal.first_value("prev"),
        Some(first.id.to_string().as_str())
    );
    let rows = stage.in_source.http.rows(replay(source)).await;
    assert_eq!(ids(&rows), ids([&stays, &removal]));
    let by_d = json!({"kinds": [45011], "#d": [artifact_of(&first)]});
    assert_eq!(stage.in_source.ws.stored(&by_d).await, only(&removal));
    assert_eq!(stage.in_target.ws.stored(&[replay(target)]).await, [moved]);
    let by_id = json!({"ids": [removal.id]});
    assert_eq!(stage.in_target.ws.stored(&by_id).await, []);
}

#[tokio::test]
async fn earlier_revisions_stay_where_they_were_written() {
    rules!("AR-MOVE-9", "AR-MOVE-10", "AR-MOVE-7");
    let mut stage = stage().await;
    let first = stage.ann.artifact(stage.source).await;
    let edited = stage.ann.write(&Revision::update(&first, "edited")).await;
    let moved = stage
        .ann
        .write(&Revision::move_to(&edited, stage.target))
        .await;
    let later = stage.ann.write(&Revision::update(&moved, "later")).await;
    for revision in [&first, &edited] {
        assert_eq!(shown(&mut stage.in_target, revision).await, [].into());
        assert_eq!(shown(&mut stage.in_source, revision).await, older());
    }
    assert_eq!(shown(&mut stage.in_target, &moved).await, older());
    assert_eq!(shown(&mut stage.in_target, &later).await, live());
    for revision in [&moved, &later] {
        assert_eq!(shown(&mut stage.in_source, revision).await, [].into());
    }
}

#[tokio::test]
async fn conversations_stay_in_their_channel() {
    rules!("AR-MOVE-11");
    let mut stage = stage().await;
    let (source, target) = (stage.source, stage.target);
    let root = stage.ann.chat(source, "the root").await;
    let answer = build::reply(&stage.in_source.key, source, root.id, "an answer");
    let answer = stage.in_source.ws.accept(answer).await;
    let create = Revision::create(fresh_artifact(), source).root(Some(root.id));
    let head = stage.ann.write(&create).await;
    stage.ann.write(&Revision::move_to(&head, target)).await;
    let chat = |channel: ChannelId| json!({"kinds": [9], "#h": [channel]});
    let stayed = stage.in_source.ws.stored(&[chat(source)]).await;
    assert_eq!(ids(&stayed), ids([&root, &answer]));
    assert_eq!(stage.in_target.ws.stored(&[chat(target)]).await, []);
}

#[tokio::test]
async fn of_two_moves_one_happens_and_each_that_happens_leaves_one_removal() {
    rules!("AR-MOVE-4", "AR-MOVE-5");
    const ROUNDS: usize = 10;
    let mut stage = stage().await;
    let (source, target) = (stage.source, stage.target);
    let third = stage.ann.private_channel(&[stage.in_source.pubkey]).await;
    stage.ann.add(target, stage.in_source.pubkey, None).await;
    for round in 0..ROUNDS {
        let head = stage.ann.artifact(source).await;
        let (first, second) = (
            Revision::move_to(&head, target),
            Revision::move_to(&head, third).content("the other way"),
        );
        let (a, b) = tokio::join!(
            stage.ann.try_write(&first),
            stage.in_source.try_write(&second),
        );
        assert!(a.accepted != b.accepted, "{a:?} {b:?}");
        let (won, lost) = if a.accepted {
            (first.sign(&stage.ann.key), b)
        } else {
            (second.sign(&stage.in_source.key), a)
        };
        assert_eq!(lost.message, "conflict: artifact head changed");
        let d = artifact_of(&head);
        assert_eq!(stage.ann.head(d).await, [won]);
        assert_eq!(stage.ann.history(d).await.len(), 2);
        let removals = removals(&mut stage.ann, source).await;
        assert_eq!(removals.len(), round + 1);
        let of_this = |event: &&Event| event.first_value("d") == Some(d.to_string().as_str());
        assert_eq!(removals.iter().filter(of_this).count(), 1);
    }
}

#[tokio::test]
async fn every_hop_of_a_way_back_leaves_its_own_removal() {
    rules!("AR-MOVE-5", "AR-MOVE-7", "AR-MOVE-9");
    let mut stage = stage().await;
    let (source, target) = (stage.source, stage.target);
    let all = json!({"kinds": [45010, 45011]});
    stage.ann.ws.subscribe("live", &all).await;
    stage.in_source.ws.subscribe("live", &all).await;
    let first = stage.ann.artifact(source).await;
    let there = stage.ann.write(&Revision::move_to(&first, target)).await;
    let back = stage.ann.write(&Revision::move_to(&there, source)).await;
    let from_source = removals(&mut stage.in_source, source).await;
    let from_target = removals(&mut stage.in_target, target).await;
    let left = |event: &Event| event.first_value("prev").map(str::to_owned);
    assert_eq!(from_source.len(), 1);
    assert_eq!(left(&from_source[0]), Some(first.id.to_string()));
    assert_eq!(from_target.len(), 1);
    assert_eq!(left(&from_target[0]), Some(there.id.to_string()));
    assert_eq!(shown(&mut stage.in_source, &back).await, live());
    // Live, each reader gets what happened in its channels, each event once.
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(stage.ann.ws.next_event("live").await);
    }
    let (left_source, left_target) = (&from_source[0], &from_target[0]);
    assert_eq!(
        ids(&seen),
        ids([&first, &there, left_source, &back, left_target])
    );
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(stage.in_source.ws.next_event("live").await);
    }
    assert_eq!(ids(&seen), ids([&first, left_source, &back]));
}
