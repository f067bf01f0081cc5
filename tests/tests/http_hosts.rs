//! The Host of a request binds its community before anything else: two hosts are two worlds, and an unknown one is none.

use holdfast_core::nostr::Event;
use holdfast_tests::build::{event, fresh_key};
use holdfast_tests::client::{Client, Endpoint};
use holdfast_tests::http::{Caller, exchange, send};
use holdfast_tests::person::Person;
use holdfast_tests::raw::Raw;
use holdfast_tests::relay::{Launch, Profile, RelayProcess};
use serde_json::json;

const UNMAPPED: &str = "relay: no community is configured for this host";

/// A relay with its own host, under which it is addressed first, and two further ones.
fn three_hosts(profile: Profile) -> (RelayProcess, [Endpoint; 3]) {
    let hosts = "one.example:8080,two.example";
    let relay = Launch::new(profile)
        .args(["--community-host", hosts])
        .start();
    let own = relay.endpoint();
    let one = own.with_host("one.example:8080");
    let two = own.with_host("two.example");
    (relay, [own, one, two])
}

async fn publish(endpoint: &Endpoint, content: &str) -> Event {
    let mut client = Client::open(endpoint).await;
    client
        .accept(event(&fresh_key(), 1, Vec::new(), content))
        .await
}

#[tokio::test]
async fn each_host_has_its_own_events_counts_and_live_delivery() {
    let (_relay, hosts) = three_hosts(Profile::Open);
    let notes = json!({ "kinds": [1] });
    let mut watchers = Vec::new();
    for host in &hosts {
        let mut watcher = Client::open(host).await;
        assert!(watcher.subscribe("live", &notes).await.is_empty());
        watchers.push(watcher);
    }
    let mut said = Vec::new();
    for host in &hosts {
        said.push(publish(host, &host.host).await);
    }
    for ((host, watcher), said) in hosts.iter().zip(&mut watchers).zip(&said) {
        assert_eq!(watcher.next_event("live").await, *said);
        assert_eq!(watcher.stored(&notes).await, std::slice::from_ref(said));
        assert_eq!(watcher.count(&notes).await, Ok(1));
        let caller = Caller::new(host, &fresh_key());
        assert_eq!(caller.rows(notes.clone()).await, std::slice::from_ref(said));
        assert_eq!(caller.count(&notes).await.count(), 1);
        let by_id = json!({ "ids": [said.id] });
        for other in hosts.iter().filter(|other| *other != host) {
            assert!(Client::open(other).await.stored(&by_id).await.is_empty());
        }
        assert_eq!(watcher.unread().count(), 0, "nothing of the others came");
    }
}

#[tokio::test]
async fn a_channel_and_its_members_exist_in_one_community_only() {
    let (_relay, [own, one, _]) = three_hosts(Profile::Workspace);
    let key = fresh_key();
    let mut here = Person::with_key(&own, key.clone()).await;
    let mut there = Person::with_key(&one, key).await;
    let channel = here.private_channel(&[]).await;
    here.chat(channel, "here").await;
    let filter = json!({ "kinds": [9], "#h": [channel.to_string()] });
    let refused = there.ws.refused_req(&filter).await;
    assert_eq!(refused, "restricted: not a channel member");
    let post = holdfast_tests::build::chat(&there.key, channel, "there");
    assert_eq!(
        there.ws.refuse(post).await,
        "restricted: not a channel member"
    );
}

#[tokio::test]
async fn a_host_is_found_however_it_is_written_and_only_its_own_port_matters() {
    let (_relay, [own, ..]) = three_hosts(Profile::Open);
    let ask = async |host: &str| {
        let answer = send(&own.with_host(host), "POST", "/count", &[], b"[{}]").await;
        answer.status
    };
    for known in [
        "one.example:8080",
        "ONE.example:8080",
        "two.example",
        "two.example:80",
        "two.example:443",
        "Two.Example.",
    ] {
        assert_eq!(ask(known).await, 200, "{known}");
    }
    for unknown in [
        "one.example",
        "one.example:8081",
        "two.example:8080",
        "sub.two.example",
        "two.example.evil",
        "",
    ] {
        assert_eq!(ask(unknown).await, 404, "{unknown:?}");
    }
}

#[tokio::test]
async fn a_loopback_name_reaches_the_relay_of_a_loopback_url_with_any_port() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let own = relay.endpoint();
    let said = publish(&own, "x").await;
    for name in [
        "localhost",
        "localhost:9",
        "127.0.0.1",
        "127.1.2.3:80",
        "[::1]:7447",
    ] {
        let stored = Client::open(&own.with_host(name))
            .await
            .stored(&json!({}))
            .await;
        assert_eq!(stored, std::slice::from_ref(&said), "{name}");
    }

    let public = Launch::new(Profile::Open)
        .args(["--relay-url", "wss://relay.example"])
        .start();
    let answer = send(&public.endpoint(), "POST", "/count", &[], b"[{}]").await;
    assert_eq!(
        answer.status, 404,
        "a loopback Host is none of a public relay's hosts"
    );
    let named = public.endpoint().with_host("relay.example");
    assert_eq!(
        send(&named, "POST", "/count", &[], b"[{}]").await.status,
        200
    );
}

#[tokio::test]
async fn an_unknown_host_gets_404_before_anything_else_but_the_document() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let own = relay.endpoint();
    let nobody = own.with_host("evil.example");
    let refused = Raw::open(&nobody, &[]).await;
    assert!(
        refused.head.starts_with("HTTP/1.1 404 "),
        "{}",
        refused.head
    );
    for path in ["/events", "/query", "/count"] {
        let answer = send(&nobody, "POST", path, &[("Authorization", "Nostr x")], b"{").await;
        assert_eq!(
            (answer.status, answer.error().as_str()),
            (404, UNMAPPED),
            "{path}"
        );
    }
    let accept = [("Accept", "application/nostr+json")];
    let document = send(&nobody, "GET", "/", &accept, b"").await;
    assert_eq!(document.status, 200);
    assert_eq!(
        document.body,
        send(&own, "GET", "/", &accept, b"").await.body
    );
    let page = send(&nobody, "GET", "/", &[("Accept", "text/html")], b"").await;
    assert!(
        page.text()
            .contains("No community is configured for this host")
    );
    assert!(!page.text().contains("evil"), "{}", page.text());
}

#[tokio::test]
async fn a_request_that_names_two_hosts_or_none_is_for_nobody() {
    let (_relay, [own, ..]) = three_hosts(Profile::Open);
    let ask = async |lines: &str, target: &str| {
        let head = format!(
            "POST {target} HTTP/1.1\r\n{lines}Connection: close\r\nContent-Length: 4\r\n\r\n"
        );
        exchange(&own, head.as_bytes(), b"[{}]").await.status
    };
    assert_eq!(ask("Host: two.example\r\n", "/count").await, 200);
    assert_eq!(
        ask("Host: two.example\r\nHost: one.example:8080\r\n", "/count").await,
        404
    );
    assert_eq!(ask("", "/count").await, 404);
    let absolute = "http://two.example/count";
    assert_eq!(
        ask("Host: evil.example\r\n", absolute).await,
        200,
        "the target goes before the Host"
    );
    assert_eq!(
        ask("Host: two.example\r\n", "http://evil.example/count").await,
        404
    );
}

#[tokio::test]
async fn a_signature_for_one_host_is_none_for_another() {
    let (_relay, [own, one, _]) = three_hosts(Profile::Workspace);
    let key = fresh_key();
    let body = br#"[{"kinds":[9]}]"#;
    let for_own = holdfast_tests::http::authorization(&key, "POST", &own.http_url("/query"), body);
    let headers = [("Authorization", for_own.as_str())];
    let answer = send(&one, "POST", "/query", &headers, body).await;
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert_eq!(
        send(&own, "POST", "/query", &headers, body).await.status,
        200
    );
}

#[tokio::test]
async fn the_communities_stay_apart_after_a_restart_and_on_another_port() {
    let (mut relay, [own, one, two]) = three_hosts(Profile::Open);
    let said = publish(&one, "kept").await;
    let said_own = publish(&own, "own").await;
    relay.restart();
    let all = json!({});
    assert_eq!(
        Client::open(&one).await.stored(&all).await,
        std::slice::from_ref(&said)
    );
    assert!(Client::open(&two).await.stored(&all).await.is_empty());
    relay.terminate();
    let moved = Launch::new(Profile::Open)
        .data_dir(relay.data_dir())
        .start();
    assert_ne!(moved.endpoint(), own);
    let stored = Client::open(&moved.endpoint()).await.stored(&all).await;
    assert_eq!(
        stored,
        [said_own],
        "a loopback relay keeps its community whatever its port"
    );
}
