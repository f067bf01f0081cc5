//! `holdfast sync` against a relay that says what the test wants: what it asks, what it prints in a pipe, how it comes back, and
//! how it exits.

use holdfast_core::artifact::set_digest;
use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, SecretKey, Verifier, kinds};
use holdfast_tests::build::{self, Revision, fresh_artifact, fresh_channel, fresh_key};
use holdfast_tests::fake::{FakeRelay, Session};
use holdfast_tests::person::artifact_of;
use holdfast_tests::rules;
use holdfast_tests::sync_process::SyncProcess;
use serde_json::{Value, json};

/// A channel, who writes there, and a relay without a mind.
struct Desk {
    relay: FakeRelay,
    key: SecretKey,
    channel: ChannelId,
    h: String,
}

impl Desk {
    async fn new() -> Desk {
        let channel = fresh_channel();
        Desk {
            relay: FakeRelay::start(None).await,
            key: fresh_key(),
            channel,
            h: channel.to_string(),
        }
    }

    /// The command on this channel.
    fn sync(&self, further: &[&str]) -> SyncProcess {
        let args = [&["sync", "--h", &self.h], further].concat();
        SyncProcess::start(&self.relay.url(), &args)
    }

    /// A first revision of a new artifact.
    fn created(&self) -> Event {
        Revision::create(fresh_artifact(), self.channel).sign(&self.key)
    }

    fn updated(&self, prev: &Event) -> Event {
        Revision::update(prev, "more").sign(&self.key)
    }
}

/// The line of a complete set.
fn set_line(heads: &[&Event]) -> Value {
    let mut heads = heads.to_vec();
    heads.sort_by_key(|head| artifact_of(head));
    let digest = set_digest(heads.iter().map(|head| (artifact_of(head), head.id)));
    json!({ "set": heads, "digest": digest.to_string() })
}

async fn send_set(session: &mut Session, sub: &str, heads: &[&Event]) {
    for head in heads {
        session.say(&json!(["EVENT", sub, head])).await;
    }
    session.say(&json!(["EOSE", sub])).await;
}

/// Serves one sync up to EOSE and returns its subscription.
async fn serve_set(session: &mut Session, heads: &[&Event]) -> String {
    let (sub, _) = session.req().await;
    send_set(session, &sub, heads).await;
    sub
}

#[tokio::test]
async fn a_set_asked_for_once_is_req_eose_close() {
    rules!("AR-SYNC-ONE-1", "AR-DIGEST-1");
    let mut desk = Desk::new().await;
    let process = desk.sync(&[
        "--once",
        "--type",
        "test.note",
        "--tag",
        "p=x",
        "--tag",
        "p=y",
    ]);
    let mut session = desk.relay.accept().await;
    let (sub, filter) = session.req().await;
    let expected = json!({
        "artifact": "current", "#h": [desk.h], "#type": ["test.note"], "#p": ["x", "y"],
    });
    assert_eq!(filter, expected);
    let with = |elements: &[&str]| {
        Revision::create(fresh_artifact(), desk.channel)
            .with(elements)
            .sign(&desk.key)
    };
    let (one, two) = (with(&["p", "y"]), with(&["p", "x", "z"]));
    send_set(&mut session, &sub, &[&one, &two, &desk.created()]).await;
    assert_eq!(session.next().await, Some(json!(["CLOSE", sub])));
    assert_eq!(session.next().await, None, "and then it goes");
    let (code, lines, errors) = process.end().await;
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(lines, [set_line(&[&one, &two])], "the third does not match");
}

#[tokio::test]
async fn changes_are_printed_as_they_come_until_it_is_stopped() {
    rules!("AR-SYNC-7c", "AR-SYNC-REQ-19", "AR-SYNC-REQ-23");
    let mut desk = Desk::new().await;
    let mut process = desk.sync(&["--follow"]);
    let mut session = desk.relay.accept().await;
    let (one, two) = (desk.created(), desk.created());
    let sub = serve_set(&mut session, &[&one, &two]).await;
    assert_eq!(process.line().await, set_line(&[&one, &two]));

    let (newer, three) = (desk.updated(&one), desk.created());
    let deletion = Revision::delete(&newer).sign(&desk.key);
    let marker = vec![
        build::tag(&["d", &artifact_of(&two).to_string()]),
        build::tag(&["h", &desk.h]),
    ];
    let removal = build::event(&fresh_key(), kinds::ARTIFACT_MOVED, marker, "");
    let away = Revision::move_to(&three, fresh_channel()).sign(&desk.key);
    for (entry, line) in [
        (&newer, Some(json!({ "upsert": newer }))),
        (&newer, None),
        (&three, Some(json!({ "upsert": three }))),
        (&deletion, Some(json!({ "remove": artifact_of(&one) }))),
        (&deletion, None),
        (&removal, Some(json!({ "remove": artifact_of(&two) }))),
        (&away, Some(json!({ "remove": artifact_of(&three) }))),
        (&one, Some(json!({ "upsert": one }))),
    ] {
        session.say(&json!(["EVENT", sub, entry])).await;
        if let Some(line) = line {
            assert_eq!(process.line().await, line);
        }
    }
    process.terminate();
    assert_eq!(session.next().await, Some(json!(["CLOSE", sub])));
    let (code, lines, errors) = process.end().await;
    assert_eq!((code, lines, errors), (Some(0), Vec::new(), String::new()));
}

#[tokio::test]
async fn resync_is_a_new_sync_under_another_id_and_old_frames_mean_nothing() {
    rules!("AR-SYNC-REQ-25", "AR-SYNC-7a", "AR-SYNC-7d");
    let mut desk = Desk::new().await;
    let mut process = desk.sync(&[]);
    let mut session = desk.relay.accept().await;
    let (one, two) = (desk.created(), desk.created());
    let old = serve_set(&mut session, &[&one]).await;
    assert_eq!(process.line().await, set_line(&[&one]));
    session
        .say(&json!(["CLOSED", old, "resync: signals"]))
        .await;
    let line = process.line().await;
    assert_eq!(line["resync"], "signals");
    assert!(
        (250..=500).contains(&line["retry_in_ms"].as_u64().unwrap()),
        "{line}"
    );
    session.say(&json!(["EVENT", old, two])).await;
    let (new, filter) = session.req().await;
    assert_ne!(new, old);
    assert_eq!(
        filter,
        json!({ "artifact": "current", "#h": [desk.h] }),
        "no cursor"
    );
    session.say(&json!(["EOSE", old])).await;
    session.say(&json!(["EVENT", "elsewhere", two])).await;
    session.say(&json!(["CLOSED", old, "error: late"])).await;
    send_set(&mut session, &new, &[&two]).await;
    assert_eq!(process.line().await, set_line(&[&two]));
}

#[tokio::test]
async fn a_connection_lost_in_mid_set_is_made_again_and_leaves_nothing_behind() {
    rules!("AR-SYNC-5j", "AR-SYNC-7b", "AR-SYNC-8b");
    let mut desk = Desk::new().await;
    let mut process = desk.sync(&[]);
    let mut session = desk.relay.accept().await;
    let (one, two, three) = (desk.created(), desk.created(), desk.created());
    let (first, _) = session.req().await;
    session.say(&json!(["EVENT", first, one])).await;
    drop(session);
    assert!(
        process.line().await["failed"].is_string(),
        "there is no set that could be stale"
    );
    let mut session = desk.relay.accept().await;
    let second = serve_set(&mut session, &[&two]).await;
    assert_ne!(first, second);
    assert_eq!(process.line().await, set_line(&[&two]));
    drop(session);
    assert!(process.line().await["stale"].is_string());
    let mut session = desk.relay.accept().await;
    let (third, _) = session.req().await;
    session.say(&json!(["EVENT", third, three])).await;
    session.say(&json!(["CLOSED", third, "error: store"])).await;
    let line = process.line().await;
    assert_eq!(line["stale"], "error: store");
    assert!(
        (500..=1_000).contains(&line["retry_in_ms"].as_u64().unwrap()),
        "the second in a row: {line}"
    );
    serve_set(&mut session, &[]).await;
    assert_eq!(
        process.line().await,
        set_line(&[]),
        "empty because EOSE says so"
    );
}

#[tokio::test]
async fn what_cannot_be_read_or_is_not_signed_ends_the_sync_and_other_messages_do_not() {
    rules!("AR-SYNC-7b", "AR-SYNC-8b");
    let mut desk = Desk::new().await;
    let mut process = desk.sync(&[]);
    let mut session = desk.relay.accept().await;
    let one = desk.created();
    let mut forged = desk.created();
    forged.sig = one.sig;
    let mut sub = serve_set(&mut session, &[&one]).await;
    assert_eq!(process.line().await, set_line(&[&one]));
    for text in [
        "garbage",
        "[]",
        r#"["EVENT","sync-1"]"#,
        "forged",
        "wrong kind",
    ] {
        let said = match text {
            "forged" => json!(["EVENT", sub, forged]).to_string(),
            "wrong kind" => {
                json!(["EVENT", sub, build::chat(&desk.key, desk.channel, "hi")]).to_string()
            }
            other => other.to_owned(),
        };
        session.say_text(&said).await;
        assert_eq!(session.next().await, Some(json!(["CLOSE", sub])), "{text}");
        let line = process.line().await;
        let why = line["stale"].as_str().expect("the set may be stale");
        assert!(why.starts_with("the relay broke the protocol: "), "{why}");
        sub = serve_set(&mut session, &[&one]).await;
        assert_eq!(process.line().await, set_line(&[&one]));
    }
    session.say(&json!(["NOTICE", "hello"])).await;
    session.say(&json!(["NEG-MSG", sub, "00"])).await;
    session.say(&json!(["COUNT", sub, { "count": 1 }])).await;
    let newer = desk.updated(&one);
    session.say(&json!(["EVENT", sub, newer])).await;
    assert_eq!(process.line().await, json!({ "upsert": newer }));
}

#[tokio::test]
async fn a_relay_that_says_nothing_is_left_for_another_connection() {
    rules!("AR-SYNC-8b", "AR-SYNC-7b");
    let mut desk = Desk::new().await;
    let mut process = desk.sync(&["--timeout-ms", "2000"]);
    let mut session = desk.relay.accept().await;
    let one = desk.created();
    let (sub, _) = session.req().await;
    session.say(&json!(["EVENT", sub, one])).await;
    let line = process.line().await;
    let why = line["failed"].as_str().expect("there is no set");
    assert!(why.ends_with("the relay says nothing"), "{why}");
    assert_eq!(session.next().await, None, "it hangs up");
    let mut session = desk.relay.accept().await;
    serve_set(&mut session, &[&one]).await;
    assert_eq!(process.line().await, set_line(&[&one]));
}

#[tokio::test]
async fn a_challenge_is_answered_with_the_key_before_the_request() {
    let mut desk = Desk::new().await;
    let reader = fresh_key();
    let mut process =
        SyncProcess::start_with_key(&desk.relay.url(), &["sync", "--h", &desk.h], &reader);
    let mut session = desk.relay.accept().await;
    session.say(&json!(["AUTH", "c0ffee"])).await;
    let frame = session.next().await.expect("an AUTH");
    assert_eq!(frame[0], "AUTH");
    let proof = Event::from_json(&frame[1].to_string()).expect("an event");
    proof.verify(&Verifier).expect("it is signed");
    assert_eq!(
        (proof.kind, proof.pubkey),
        (kinds::AUTH, reader.public_key())
    );
    assert_eq!(proof.first_value("challenge"), Some("c0ffee"));
    assert_eq!(
        proof.first_value("relay"),
        Some(format!("{}/", desk.relay.url()).as_str())
    );
    session.say(&json!(["OK", proof.id, true, ""])).await;
    serve_set(&mut session, &[]).await;
    assert_eq!(process.line().await, set_line(&[]));

    let process = SyncProcess::start_with_key(
        &desk.relay.url(),
        &["sync", "--once", "--h", &desk.h],
        &reader,
    );
    let mut session = desk.relay.accept().await;
    session.say(&json!(["AUTH", "c0ffee"])).await;
    let frame = session.next().await.expect("an AUTH");
    session
        .say(&json!(["OK", frame[1]["id"], false, "restricted: banned"]))
        .await;
    process
        .fails(1, "the relay refuses the key: restricted: banned")
        .await;
}

#[tokio::test]
async fn a_relay_without_sync_is_not_asked_for_it() {
    rules!("AR-SYNC-REQ-4");
    let mut desk = Desk::new().await;
    let incremental = json!({ "artifacts": { "version": 1, "incremental": { "version": 1 } } });
    for document in ["{}".to_owned(), incremental.to_string()] {
        desk.relay.set_document(&document);
        for mode in ["--once", "--follow"] {
            let process = desk.sync(&[mode]);
            process.fails(1, "the relay does not offer sync").await;
        }
    }
    desk.relay.set_document("<html>");
    desk.sync(&["--once"])
        .fails(1, "information document")
        .await;

    let offer = json!({ "artifacts": { "sync": { "version": 1, "max_events": 100 } } }).to_string();
    desk.relay.set_document(&offer);
    let mut process = desk.sync(&[]);
    let mut session = desk.relay.accept().await;
    serve_set(&mut session, &[]).await;
    process.line().await;
    desk.relay.set_document("{}");
    drop(session);
    assert!(process.line().await["stale"].is_string());
    assert_eq!(
        process.line().await["stale"],
        "the relay does not offer sync"
    );
    desk.relay.set_document(&offer);
    let mut session = desk.relay.accept().await;
    serve_set(&mut session, &[]).await;
    assert_eq!(process.line().await, set_line(&[]));
}

#[tokio::test]
async fn a_new_sync_comes_on_the_schedule_that_was_asked_for() {
    rules!("AR-SYNC-5p");
    let mut desk = Desk::new().await;
    let mut process = desk.sync(&["--refresh-ms", "200"]);
    let mut session = desk.relay.accept().await;
    let one = desk.created();
    let mut used = Vec::new();
    for _ in 0..3 {
        let sub = serve_set(&mut session, &[&one]).await;
        assert_eq!(process.line().await, set_line(&[&one]));
        assert_eq!(session.next().await, Some(json!(["CLOSE", sub])));
        assert!(!used.contains(&sub));
        used.push(sub);
    }
}

#[tokio::test]
async fn it_ends_when_nobody_reads_its_output_any_more() {
    let mut desk = Desk::new().await;
    let mut process = desk.sync(&["--follow"]);
    let mut session = desk.relay.accept().await;
    let sub = serve_set(&mut session, &[]).await;
    assert_eq!(process.line().await, set_line(&[]));
    process.stop_reading();
    let mut said = 0;
    // The pipe is closed by the reader of the line that nobody took.
    while session
        .try_say(&json!(["EVENT", sub, desk.created()]))
        .await
        && said < 100
    {
        said += 1;
        tokio::task::yield_now().await;
    }
    while session.next().await.is_some() {}
    let (code, _, errors) = process.end().await;
    assert_eq!((code, errors.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn each_way_to_fail_has_its_code_and_one_line() {
    rules!("AR-SYNC-8b");
    let mut desk = Desk::new().await;
    for mode in ["--once", "--follow"] {
        let process = desk.sync(&[mode]);
        let mut session = desk.relay.accept().await;
        let (sub, _) = session.req().await;
        session
            .say(&json!(["CLOSED", sub, "restricted: cannot be read"]))
            .await;
        process.fails(1, "restricted: cannot be read").await;

        let process = desk.sync(&[mode]);
        let mut session = desk.relay.accept().await;
        let (sub, _) = session.req().await;
        session
            .say(&json!(["CLOSED", sub, "auth-required: who"]))
            .await;
        if mode == "--follow" {
            process.fails(1, "auth-required: who").await;
        }
    }
    let url = desk.relay.url();
    for (args, text) in [
        (&["sync"][..], "at least one channel"),
        (&["sync", "{"], "filter"),
        (
            &["sync", r##"{"artifact":"history","#d":["x"]}"##],
            "only current",
        ),
        (
            &["sync", r##"{"artifact":"current","#h":["x"],"limit":3}"##],
            "no limit",
        ),
        (&["sync", "{}", "--h", "x"], "cannot be used with"),
        (
            &["sync", "--once", "--follow", "--h", "x"],
            "cannot be used with",
        ),
    ] {
        SyncProcess::start(&url, args).fails(2, text).await;
    }
    drop(desk.relay);
    SyncProcess::start(&url, &["sync", "--h", "x"])
        .fails(3, &url)
        .await;
}

#[tokio::test]
async fn once_is_tried_again_and_given_up_with_the_words_of_the_relay() {
    rules!("AR-SYNC-7e", "AR-SYNC-8b");
    let mut desk = Desk::new().await;
    let process = desk.sync(&["--once"]);
    let mut session = desk.relay.accept().await;
    let mut used = Vec::new();
    for _ in 0..4 {
        let (sub, _) = session.req().await;
        session
            .say(&json!(["CLOSED", sub, "error: too-large"]))
            .await;
        assert!(!used.contains(&sub));
        used.push(sub);
    }
    assert_eq!(session.next().await, None);
    let (code, lines, errors) = process.end().await;
    assert_eq!(
        (code, errors.as_str()),
        (Some(1), "holdfast: error: too-large\n")
    );
    assert_eq!(lines.len(), 3);
    assert!(
        lines
            .iter()
            .all(|line| line["failed"] == "error: too-large"),
        "{lines:?}"
    );
}
