//! What a relay does about peers that take nothing or answer nothing, and about too many of them. The relay runs inside the test
//! with times and bounds that no operator sets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use holdfast_core::accept::{Policy, Profile, RelayKey};
use holdfast_core::node::{Config, Node, SyncConfig};
use holdfast_relay::bus::local::LocalBus;
use holdfast_relay::exec::{TokioClock, TokioSpawn};
use holdfast_relay::guard::local::{KEYS_MAX, LocalGuard};
use holdfast_relay::http::{App, Hosts, Settings, info_document, serve};
use holdfast_relay::links::Registry;
use holdfast_relay::node::{Driver, DriverHandle, NoteCounts, Ports};
use holdfast_relay::store::sqlite::{SqliteSettings, SqliteStore};
use holdfast_relay::verify::VerifyPool;
use holdfast_tests::build::{event, fresh_key, key};
use holdfast_tests::client::{Client, Endpoint, within};
use holdfast_tests::frame::Frame;
use holdfast_tests::http::send;
use holdfast_tests::raw::{Raw, opcode};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;

const FIN: u8 = 0x80;

/// A relay of the open profile inside the test.
struct Inside {
    endpoint: Endpoint,
    driver: DriverHandle,
    // Both end with the test.
    _stop: watch::Sender<bool>,
    _dir: TempDir,
}

async fn start(settings: Settings) -> Inside {
    let dir = TempDir::with_prefix("holdfast-").expect("a directory can be made");
    let relay_key = RelayKey::new(key(1));
    let public = relay_key.public();
    let profile = Profile::Open;
    let policy = Policy { profile, relay_key };
    let store = SqliteStore::open(SqliteSettings::new(dir.path(), policy.clone()));
    let store = Arc::new(store.expect("the directory is new"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let endpoint = Endpoint::new(listener.local_addr().expect("it is bound"));
    let community = store.ensure_community(endpoint.host.clone()).await;
    let community = community.expect("a new community");
    let links = Arc::new(Registry::default());
    let clock = Arc::new(TokioClock::default());
    let ports = Ports {
        store: store.clone(),
        bus: Arc::new(LocalBus::default()),
        links: links.clone(),
        clock: clock.clone(),
        spawn: Arc::new(TokioSpawn),
        notes: Arc::new(NoteCounts::default()),
    };
    let (driver, handle) = Driver::new(Node::new(Config::new(policy)), ports);
    tokio::spawn(driver.run());
    let guard = LocalGuard::open(dir.path(), KEYS_MAX).expect("the directory is new");
    let app = App {
        hosts: Hosts {
            communities: BTreeMap::from([(endpoint.host.clone(), community)]),
            relay_url: endpoint.ws_url().parse().expect("a URL"),
        },
        info: info_document(profile, public, &SyncConfig::default()),
        profile,
        settings,
        driver: handle.clone(),
        links,
        verify: VerifyPool::start().expect("threads can be made"),
        guard: Arc::new(guard),
        clock,
        store,
        stopping: AtomicBool::new(false),
    };
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(serve(listener, Arc::new(app), stopped));
    Inside {
        endpoint,
        driver: handle,
        _stop: stop,
        _dir: dir,
    }
}

/// B19: a peer that takes no byte for the stall time is given up; one that reads slowly is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_takes_nothing_is_given_up_after_the_stall_time() {
    const EVENTS: usize = 60;
    let stall = Duration::from_millis(1_500);
    let relay = start(Settings {
        stall,
        ..Settings::default()
    })
    .await;
    let subscribe = json!(["REQ", "s", { "kinds": [1] }]).to_string();
    let mut peers = Vec::new();
    for _ in 0..2 {
        let mut peer = Raw::open(&relay.endpoint, &[]).await;
        peer.text(&subscribe).await;
        while !matches!(peer.next_message().await, Frame::Eose { .. }) {}
        peers.push(peer);
    }
    let (mut slow, mut stalled) = (peers.remove(0), peers.remove(0));
    let mut writer = Client::open(&relay.endpoint).await;
    let author = fresh_key();
    for number in 0..EVENTS {
        let content = format!("{number}{}", "x".repeat(250_000));
        writer.accept(event(&author, 1, Vec::new(), &content)).await;
    }
    // 15 MB are due to each; no socket buffer holds that much.
    for _ in 0..EVENTS {
        assert!(matches!(slow.next_message().await, Frame::Event { .. }));
        tokio::time::sleep(stall / 20).await;
    }
    let (messages, closing) = stalled.until_end().await;
    assert_eq!(
        closing, None,
        "a peer that takes nothing cannot be told why"
    );
    assert!(messages.len() < EVENTS, "{} events", messages.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_answers_no_ping_is_closed_at_the_third_one_it_missed() {
    let relay = start(Settings {
        ping_interval: Duration::from_millis(100),
        ..Settings::default()
    })
    .await;
    let mut silent = Raw::open(&relay.endpoint, &[]).await;
    let mut pings = 0;
    while let Some(frame) = silent.next_frame().await {
        pings += usize::from(frame.first == FIN | opcode::PING);
    }
    assert_eq!(pings, 3);

    let mut polite = Raw::open(&relay.endpoint, &[]).await;
    let mut answered = 0;
    while answered < 10 {
        let frame = polite.next_frame().await.expect("it answers every ping");
        if frame.first == FIN | opcode::PING {
            polite.message(opcode::PONG, &frame.payload).await;
            answered += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_bound_are_told_so_and_room_that_is_left_is_used() {
    let relay = start(Settings {
        connections_max: 2,
        ..Settings::default()
    })
    .await;
    let first = Client::open(&relay.endpoint).await;
    let mut second = Client::open(&relay.endpoint).await;
    for _ in 0..3 {
        let answer = send(&relay.endpoint, "GET", "/info", &[], b"").await;
        assert_eq!(
            (answer.status, answer.error().as_str()),
            (503, "too many connections")
        );
    }
    drop(first);
    within("room", async {
        while send(&relay.endpoint, "GET", "/info", &[], b"").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(
        second.count(&json!({})).await,
        Ok(0),
        "those inside notice nothing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_comes_when_a_stop_is_complete_is_told_so() {
    let relay = start(Settings::default()).await;
    relay.driver.stop(0).await;
    within("the end of the driver", relay.driver.ended()).await;
    let mut late = Raw::open(&relay.endpoint, &[]).await;
    let (messages, closing) = late.until_end().await;
    assert!(messages.is_empty());
    assert_eq!(closing, Some((1012, "relay restarting".to_owned())));
}
