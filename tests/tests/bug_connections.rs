//! Public bug reports about connections that are slow, quiet or stuck, and what they must not do to others. The cases are listed
//! in `docs/bug-reports.md`.

use std::time::Duration;

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, SecretKey};
use holdfast_tests::build;
use holdfast_tests::client::{Client, Endpoint};
use holdfast_tests::frame::Frame;
use holdfast_tests::person::Person;
use holdfast_tests::raw::Raw;
use holdfast_tests::relay::{Launch, Profile, RelayProcess};
use serde_json::json;

const QUEUE_BYTES: usize = 2_097_152;
const CONTENT_BYTES: usize = 100_000;

fn relay_with_small_queues() -> RelayProcess {
    Launch::new(Profile::Workspace)
        .args(["--send-queue-bytes", &QUEUE_BYTES.to_string()])
        .start()
}

/// A connection that subscribed to a channel and reads nothing from then on.
async fn stalled(endpoint: &Endpoint, key: &SecretKey, channel: ChannelId) -> Raw {
    let mut raw = Raw::login(endpoint, key).await;
    for sub in ["s1", "s2", "s3"] {
        let req = json!(["REQ", sub, {"kinds": [9], "#h": [channel], "limit": 0}]);
        raw.text(&req.to_string()).await;
        assert!(matches!(raw.next_message().await, Frame::Eose { .. }));
    }
    raw
}

/// Publishes much more than a queue and the kernel's buffers hold, three times over for the three subscriptions.
async fn flood(writer: &mut Person, channel: ChannelId) {
    let content = "x".repeat(CONTENT_BYTES);
    let events: Vec<Event> = (0..8 * QUEUE_BYTES / CONTENT_BYTES)
        .map(|n| build::chat(&writer.key, channel, &format!("{n} {content}")))
        .collect();
    writer.ws.accept_all(&events).await;
}

#[tokio::test]
async fn s10_a_stuck_reader_of_one_channel_stops_no_other_channel() {
    let relay = relay_with_small_queues();
    let endpoint = relay.endpoint();
    let mut a = Person::arrive(&endpoint).await;
    let mut b = Person::arrive(&endpoint).await;
    let (noisy, quiet) = (a.open_channel().await, a.open_channel().await);
    let _stalled = stalled(&endpoint, &b.key, noisy).await;
    b.ws.subscribe("quiet", &json!({"kinds": [9], "#h": [quiet], "limit": 0}))
        .await;
    b.ws.subscribe(
        "both",
        &json!({"kinds": [9], "limit": 0, "authors": [a.pubkey]}),
    )
    .await;
    let mut c = Person::arrive(&endpoint).await;
    let flooding = async {
        flood(&mut c, noisy).await;
    };
    let talking = async {
        for n in 0..20 {
            let message = a.chat(quiet, &format!("{n}")).await;
            assert_eq!(b.ws.next_event("quiet").await, message);
            assert_eq!(b.ws.next_event("both").await, message);
        }
    };
    tokio::join!(flooding, talking);
}

/// What a stuck reader says is read although nothing can be sent to it.
#[tokio::test]
async fn s13_a_full_queue_towards_a_peer_does_not_stop_reading_from_it() {
    let relay = relay_with_small_queues();
    let endpoint = relay.endpoint();
    let mut a = Person::arrive(&endpoint).await;
    let mut c = Person::arrive(&endpoint).await;
    let key = build::fresh_key();
    let channel = a.open_channel().await;
    let quiet = a.open_channel().await;
    let mut stalled = stalled(&endpoint, &key, channel).await;
    a.ws.subscribe("quiet", &json!({"kinds": [9], "#h": [quiet]}))
        .await;
    flood(&mut c, channel).await;
    let said = build::chat(&key, quiet, "I can still speak");
    stalled.text(&json!(["CLOSE", "s1"]).to_string()).await;
    stalled
        .text(&format!(r#"["EVENT",{}]"#, said.to_json()))
        .await;
    assert_eq!(a.ws.next_event("quiet").await, said);
    // Once it reads again, its answer comes, behind nothing but what was on its way.
    let mut events = 0;
    loop {
        match stalled.next_message().await {
            Frame::Event { .. } => events += 1,
            Frame::Ok { id, verdict } => {
                assert_eq!((id, verdict.accepted), (said.id, true));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let all = 3 * 8 * QUEUE_BYTES / CONTENT_BYTES;
    assert!(events < all, "the answer waited behind all {events} events");
}

/// Longer than the usual timeouts of HTTP, and longer than the time between two pings.
#[tokio::test]
async fn s18_a_quiet_connection_outlives_every_timeout_of_http() {
    const QUIET: Duration = Duration::from_secs(32);
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let mut b = Client::login(&relay.endpoint(), &build::fresh_key()).await;
    b.subscribe("quiet", &json!({"kinds": [9], "#h": [channel]}))
        .await;
    tokio::time::sleep(QUIET).await;
    let message = a.chat(channel, "still here?").await;
    assert_eq!(b.next_event("quiet").await, message);
}
