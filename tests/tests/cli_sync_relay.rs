//! `holdfast sync` against `holdfast serve`: what others write appears, a lost relay or lost access is overcome, and the copy is
//! what `/query` says.

use holdfast_core::artifact::set_digest;
use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::Event;
use holdfast_tests::build::{self, Revision};
use holdfast_tests::person::{Person, artifact_of};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use holdfast_tests::sync_process::SyncProcess;
use serde_json::{Value, json};

/// A relay with a private channel: its owner, who writes, and a member, who syncs.
struct Desk {
    relay: RelayProcess,
    writer: Person,
    reader: Person,
    channel: ChannelId,
}

impl Desk {
    async fn new() -> Desk {
        let relay = RelayProcess::start(Profile::Workspace, &[]);
        let mut writer = Person::arrive(&relay.endpoint()).await;
        let reader = Person::arrive(&relay.endpoint()).await;
        let channel = writer.private_channel(&[reader.pubkey]).await;
        Desk {
            relay,
            writer,
            reader,
            channel,
        }
    }

    /// The command with the reader's key.
    fn sync(&self, further: &[&str]) -> SyncProcess {
        let h = self.channel.to_string();
        let args = [&["sync", "--h", &h], further].concat();
        SyncProcess::start_with_key(self.relay.url(), &args, &self.reader.key)
    }

    /// The line of the complete set as `/query` gives it to the reader.
    async fn queried(&self) -> Value {
        let filter = json!({ "#h": [self.channel], "limit": 1_000 });
        let mut heads = self.reader.current(filter).await;
        heads.sort_by_key(artifact_of);
        let digest = set_digest(heads.iter().map(|head| (artifact_of(head), head.id)));
        json!({ "set": heads, "digest": digest.to_string() })
    }

    async fn artifact(&mut self) -> Event {
        self.writer.artifact(self.channel).await
    }
}

/// The first line that is a set, after lines that say why there is a new one.
async fn next_set(process: &mut SyncProcess) -> Value {
    loop {
        let line = process.line().await;
        if line["set"].is_array() {
            return line;
        }
        let why = ["stale", "resync"].map(|what| line[what].is_string());
        assert!(why.contains(&true), "{line}");
    }
}

#[tokio::test]
async fn changes_of_others_appear_and_the_copy_is_what_a_query_returns() {
    rules!("AR-SYNC-REQ-3", "AR-SYNC-7c", "AR-DIGEST-7");
    let mut desk = Desk::new().await;
    let (one, two) = (desk.artifact().await, desk.artifact().await);
    let mut process = desk.sync(&["--follow"]);
    assert_eq!(process.line().await, desk.queried().await);

    let newer = desk.writer.write(&Revision::update(&one, "more")).await;
    assert_eq!(process.line().await, json!({ "upsert": newer }));
    let three = desk.artifact().await;
    assert_eq!(process.line().await, json!({ "upsert": three }));
    desk.writer.write(&Revision::delete(&newer)).await;
    assert_eq!(process.line().await, json!({ "remove": artifact_of(&one) }));
    let vault = desk.writer.private_channel(&[]).await;
    desk.writer.write(&Revision::move_to(&two, vault)).await;
    assert_eq!(process.line().await, json!({ "remove": artifact_of(&two) }));

    let redaction = build::remove_event(&desk.writer.key, desk.channel, three.id);
    desk.writer.ws.accept(redaction).await;
    assert_eq!(process.line().await["resync"], "retired");
    let four = desk.artifact().await;
    let set = next_set(&mut process).await;
    if set["set"] == json!([]) {
        assert_eq!(process.line().await, json!({ "upsert": four }));
    }
    let mut again = desk.sync(&["--once"]);
    assert_eq!(
        again.line().await,
        desk.queried().await,
        "another client, the same set"
    );
}

#[tokio::test]
async fn a_relay_that_is_killed_and_started_again_is_synced_with_by_itself() {
    rules!("AR-SYNC-5j", "AR-SYNC-7d", "AR-SYNC-7e");
    let mut desk = Desk::new().await;
    desk.artifact().await;
    let mut process = desk.sync(&[]);
    let before = process.line().await;
    assert_eq!(before, desk.queried().await);
    desk.relay.kill9();
    assert!(process.line().await["stale"].is_string());
    // One attempt more fails at a relay that is not there.
    assert!(process.line().await["stale"].is_string());
    desk.relay.restart();
    let endpoint = desk.relay.endpoint();
    assert_eq!(
        next_set(&mut process).await,
        before,
        "nothing changed, same digest"
    );
    desk.writer = Person::with_key(&endpoint, desk.writer.key.clone()).await;
    let two = desk.artifact().await;
    assert_eq!(process.line().await, json!({ "upsert": two }));
}

#[tokio::test]
async fn access_that_is_lost_makes_the_copy_stale_and_comes_back_with_it() {
    rules!("AR-SYNC-9a", "AR-SYNC-REQ-26");
    let mut desk = Desk::new().await;
    desk.artifact().await;
    let mut process = desk.sync(&[]);
    let before = process.line().await;
    desk.writer.remove(desk.channel, desk.reader.pubkey).await;
    assert_eq!(process.line().await["resync"], "access");
    let why = process.line().await;
    assert!(
        why["stale"]
            .as_str()
            .is_some_and(|why| why.starts_with("restricted: ")),
        "{why}"
    );
    desk.writer
        .add(desk.channel, desk.reader.pubkey, None)
        .await;
    assert_eq!(next_set(&mut process).await, before);
}

#[tokio::test]
async fn a_set_asked_for_once_has_all_that_was_accepted_and_later_changes_are_met_through_prev() {
    rules!("AR-SYNC-ONE-1", "AR-SYNC-ONE-2", "AR-SYNC-ONE-3");
    let mut desk = Desk::new().await;
    for _ in 0..20 {
        let head = desk.artifact().await;
        let (code, lines, errors) = desk.sync(&["--once"]).end().await;
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert_eq!(lines, [desk.queried().await]);
        let heads = lines[0]["set"].as_array().expect("a set");
        assert!(heads.contains(&json!(head)), "accepted before the request");
    }
    let (_, lines, _) = desk.sync(&["--once"]).end().await;
    let seen = Event::from_json(&lines[0]["set"][0].to_string()).expect("an event");
    desk.writer.write(&Revision::update(&seen, "later")).await;
    let reason = desk
        .writer
        .refused(&Revision::update(&seen, "too late"))
        .await;
    assert!(reason.starts_with("conflict: "), "{reason}");
}

#[tokio::test]
async fn a_set_of_several_pages_is_one_set() {
    rules!("AR-SYNC-REQ-8", "AR-SYNC-2g");
    let mut desk = Desk::new().await;
    let heads: Vec<Event> = (0..700)
        .map(|_| Revision::create(build::fresh_artifact(), desk.channel).sign(&desk.writer.key))
        .collect();
    desk.writer.ws.accept_all(&heads).await;
    let (code, lines, errors) = desk.sync(&["--once"]).end().await;
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(lines, [desk.queried().await]);
    assert_eq!(lines[0]["set"].as_array().map(Vec::len), Some(700));
}

#[tokio::test]
async fn who_may_not_read_is_told_so_and_nothing_else() {
    rules!("AR-SYNC-REQ-26", "AR-SYNC-8b");
    let desk = Desk::new().await;
    let (h, url) = (desk.channel.to_string(), desk.relay.url());
    let stranger = build::fresh_key();
    for mode in ["--once", "--follow"] {
        let args = ["sync", mode, "--h", &h];
        let process = SyncProcess::start_with_key(url, &args, &stranger);
        process.fails(1, "restricted: ").await;
    }
    let process = SyncProcess::start(url, &["sync", "--follow", "--h", &h]);
    process.fails(1, "restricted: ").await;
}
