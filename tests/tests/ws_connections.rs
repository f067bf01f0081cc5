//! The life of a connection: who it is, in which order its messages count, what a slow or silent peer costs, and how it ends.

use std::time::{Duration, Instant};

use holdfast_core::limits::MESSAGES_IN_FLIGHT_MAX;
use holdfast_core::nostr::{Draft, Event, SecretKey, kinds};
use holdfast_tests::build::{self, event, fresh_key, tag};
use holdfast_tests::client::Client;
use holdfast_tests::frame::{Frame, Verdict};
use holdfast_tests::person::Person;
use holdfast_tests::raw::Raw;
use holdfast_tests::relay::{Launch, Profile, RelayProcess};
use serde_json::json;

/// An AUTH event of this second.
fn auth_event(key: &SecretKey, challenge: &str, relay_url: &str) -> Event {
    Draft {
        created_at: build::now(),
        kind: kinds::AUTH,
        tags: vec![tag(&["relay", relay_url]), tag(&["challenge", challenge])],
        content: String::new(),
    }
    .sign(key)
}

/// Offers an AUTH event and returns what the relay says.
async fn offer(client: &mut Client, auth: &Event) -> Verdict {
    client.send(&json!(["AUTH", auth])).await;
    client.answer(auth.id).await
}

/// Signatures are checked on all cores, yet what was said first counts first: a REQ right behind an AUTH is never too early,
/// and an EVENT right behind its channel's creation finds the channel's sender authenticated.
#[tokio::test]
async fn messages_count_in_the_order_in_which_they_were_sent() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    for _ in 0..20 {
        let key = fresh_key();
        let mut client = Client::open(&endpoint).await;
        let auth = auth_event(&key, client.challenge(), &endpoint.ws_url());
        client.send(&json!(["AUTH", auth])).await;
        client.send(&json!(["REQ", "s", { "kinds": [9] }])).await;
        client.send(&json!(["COUNT", "c", { "kinds": [9] }])).await;
        assert!(client.answer(auth.id).await.accepted);
        assert!(matches!(client.next_of("s").await, Frame::Eose { .. }));
        assert!(matches!(client.next_of("c").await, Frame::Count { .. }));
    }
}

#[tokio::test]
async fn frames_that_need_a_check_and_frames_that_need_none_keep_their_order() {
    const PAIRS: usize = 200;
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut client = Client::open(&relay.endpoint()).await;
    let key = fresh_key();
    let other = event(&key, 1, Vec::new(), "other");
    let wrong: Vec<Event> = (0..PAIRS)
        .map(|number| {
            let mut wrong = event(&key, 1, Vec::new(), &number.to_string());
            wrong.sig = other.sig;
            wrong
        })
        .collect();
    for event in &wrong {
        client.submit(event).await;
        client.send(&json!(["PUBLISH"])).await;
    }
    for event in &wrong {
        let Frame::Ok { id, verdict } = client.next_frame().await else {
            panic!("the EVENT was first");
        };
        assert_eq!((id, verdict.accepted), (event.id, false));
        assert_eq!(verdict.message, "invalid: invalid schnorr signature");
        assert!(matches!(client.next_frame().await, Frame::Notice { .. }));
    }
}

#[tokio::test]
async fn a_client_may_send_far_more_than_is_in_flight_before_it_reads() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut client = Client::open(&relay.endpoint()).await;
    let key = fresh_key();
    let events: Vec<Event> = (0..10 * MESSAGES_IN_FLIGHT_MAX)
        .map(|number| event(&key, 1, Vec::new(), &number.to_string()))
        .collect();
    for event in &events {
        client.submit(event).await;
    }
    for event in &events {
        let verdict = client.answer(event.id).await;
        assert!(verdict.accepted, "{}", verdict.message);
    }
}

/// B10: keys accumulate, and a prefix is the first word of the reason.
#[tokio::test]
async fn b10_a_second_key_is_added_and_both_are_served() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let mut both = Client::open(&endpoint).await;
    let refused = both.refused_req(&json!({})).await;
    assert!(refused.starts_with("auth-required: "), "{refused}");
    let early = both.refuse(event(&fresh_key(), 1, Vec::new(), "x")).await;
    assert!(early.starts_with("auth-required: "), "{early}");
    let (mut ann, mut ben) = (
        Person::arrive(&endpoint).await,
        Person::arrive(&endpoint).await,
    );
    let of_ann = ann.private_channel(&[]).await;
    let of_ben = ben.private_channel(&[]).await;
    let (said_ann, said_ben) = (ann.chat(of_ann, "a").await, ben.chat(of_ben, "b").await);
    for key in [&ann.key, &ben.key] {
        assert!(both.auth(key).await.accepted);
    }
    for (channel, said) in [(of_ann, said_ann), (of_ben, said_ben)] {
        let filter = json!({ "kinds": [9], "#h": [channel.to_string()] });
        assert_eq!(both.stored(&filter).await, [said]);
    }
}

/// B11: scheme, case of the host, default port and one final slash are no differences; host, port and path are.
#[tokio::test]
async fn b11_auth_names_this_relay_and_no_other() {
    let launch = Launch::new(Profile::Workspace)
        .arg("--relay-url")
        .arg("ws://Relay.Example:80/relay");
    let relay = launch.start();
    let endpoint = relay.endpoint().with_host("relay.example");
    let cases = [
        ("ws://relay.example/relay", true),
        ("ws://relay.example/relay/", true),
        ("WS://RELAY.EXAMPLE/relay", true),
        ("ws://relay.example:80/relay", true),
        ("ws://relay.example/", false),
        ("ws://relay.example/Relay", false),
        ("ws://relay.example:7777/relay", false),
        ("wss://relay.example/relay", false),
        ("ws://evil/relay", false),
        ("ws://relay.example.evil/relay", false),
        ("relay.example/relay", false),
        ("", false),
    ];
    for (url, expected) in cases {
        let mut client = Client::open(&endpoint).await;
        let auth = auth_event(&fresh_key(), client.challenge(), url);
        let verdict = offer(&mut client, &auth).await;
        assert_eq!(verdict.accepted, expected, "{url}: {}", verdict.message);
        if !expected {
            assert!(
                verdict.message.starts_with("auth-required: "),
                "{}",
                verdict.message
            );
        }
    }
}

#[tokio::test]
async fn a_refused_auth_changes_nothing_and_the_challenge_stays_for_eight_tries() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let key = fresh_key();
    let mut client = Client::open(&endpoint).await;
    for try_number in 0..7 {
        let auth = auth_event(
            &key,
            &format!("no challenge {try_number}"),
            &endpoint.ws_url(),
        );
        assert!(!offer(&mut client, &auth).await.accepted);
    }
    assert!(client.auth(&key).await.accepted);
    let auth = auth_event(&key, "no challenge", &endpoint.ws_url());
    assert!(!offer(&mut client, &auth).await.accepted);
    client.until_end().await;
}

#[tokio::test]
async fn two_connections_have_two_challenges_and_one_does_not_do_for_the_other() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let mut here = Client::open(&endpoint).await;
    let there = Client::open(&endpoint).await;
    assert_eq!(here.challenge().len(), 64);
    assert_ne!(here.challenge(), there.challenge());
    let auth = auth_event(&fresh_key(), there.challenge(), &endpoint.ws_url());
    assert!(!offer(&mut here, &auth).await.accepted);
}

#[tokio::test]
async fn a_connection_without_a_key_is_closed_after_the_auth_timeout_and_one_with_a_key_stays() {
    let relay = RelayProcess::start(Profile::Workspace, &["--auth-timeout-ms", "300"]);
    let endpoint = relay.endpoint();
    let mut member = Client::login(&endpoint, &fresh_key()).await;
    let mut silent = Raw::open(&endpoint, &[]).await;
    let begun = Instant::now();
    let (_, closing) = silent.until_end().await;
    let (code, text) = closing.expect("a close frame says why");
    assert_eq!(
        (code, text.as_str()),
        (1008, "auth-required: no authentication in time")
    );
    assert!(begun.elapsed() >= Duration::from_millis(250));
    assert_eq!(member.count(&json!({})).await, Ok(0));
}

#[tokio::test]
async fn a_stop_closes_with_1012_and_ends_with_code_0_and_nothing_acknowledged_is_lost() {
    let mut relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    let mut writer = Client::open(&endpoint).await;
    let said = writer
        .accept(event(&fresh_key(), 1, Vec::new(), "kept"))
        .await;
    let mut watcher = Raw::open(&endpoint, &[]).await;
    let status = relay.terminate();
    assert_eq!(status.code(), Some(0), "{}", relay.output());
    let (_, closing) = watcher.until_end().await;
    assert_eq!(closing, Some((1012, "relay restarting".to_owned())));
    relay.restart();
    let mut reader = Client::open(&endpoint).await;
    assert_eq!(reader.stored(&json!({ "kinds": [1] })).await, [said]);
}

/// B19: a peer that stops reading costs bounded memory, and a second reader misses nothing.
#[tokio::test]
async fn b19_a_reader_that_stops_costs_bounded_memory_and_harms_nobody() {
    const EVENTS: usize = 400;
    const CONTENT_BYTES: usize = 100_000;
    const SUBSCRIPTIONS: usize = 20;
    let launch = Launch::new(Profile::Open).args(["--send-queue-bytes", "2097152"]);
    let relay = launch.start();
    let endpoint = relay.endpoint();
    let mut stalled = Raw::open(&endpoint, &[]).await;
    for number in 0..SUBSCRIPTIONS {
        stalled
            .text(&json!(["REQ", number.to_string(), { "kinds": [1] }]).to_string())
            .await;
    }
    let mut eoses = 0;
    while eoses < SUBSCRIPTIONS {
        eoses += usize::from(matches!(stalled.next_message().await, Frame::Eose { .. }));
    }
    let mut reader = Client::open(&endpoint).await;
    reader.subscribe("all", &json!({ "kinds": [1] })).await;
    let mut writer = Client::open(&endpoint).await;
    let key = fresh_key();
    let before_kib = relay.resident_kib();
    let mut most_kib = before_kib;
    let mut sent = Vec::new();
    for number in 0..EVENTS {
        let content = format!("{number}{}", "x".repeat(CONTENT_BYTES));
        sent.push(writer.accept(event(&key, 1, Vec::new(), &content)).await.id);
        if number % 20 == 0 {
            most_kib = most_kib.max(relay.resident_kib());
        }
    }
    let mut got = Vec::new();
    for _ in 0..EVENTS {
        got.push(reader.next_event("all").await.id);
    }
    got.sort_unstable();
    sent.sort_unstable();
    assert_eq!(got, sent, "each event exactly once");
    // 800 MB were due to the stalled peer; its queue holds 2 MB, the rest is what storing 40 MB costs.
    let grown_mib = (most_kib - before_kib) / 1024;
    assert!(grown_mib < 200, "{grown_mib} MiB more than before");
}

#[tokio::test]
async fn an_idle_connection_costs_at_most_24_kib() {
    const CONNECTIONS: usize = 800;
    let relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    // The first connections pay for what all share.
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(Client::open(&endpoint).await);
    }
    let before_kib = relay.resident_kib();
    for _ in 0..CONNECTIONS {
        held.push(Client::open(&endpoint).await);
    }
    let each_kib = (relay.resident_kib() - before_kib) as f64 / CONNECTIONS as f64;
    assert!(each_kib <= 24.0, "{each_kib} KiB for each");
}

#[tokio::test]
async fn what_an_anonymous_client_of_the_open_profile_may_do_is_bounded() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut client = Client::open(&relay.endpoint()).await;
    let said = client.accept(event(&fresh_key(), 1, Vec::new(), "x")).await;
    let filter = json!({ "ids": [said.id] });
    assert_eq!(client.stored(&filter).await, [said]);
    let command = build::create_channel(&fresh_key(), build::fresh_channel(), &[]);
    let refused = client.refuse(command).await;
    assert!(refused.starts_with("auth-required: "), "{refused}");
}
