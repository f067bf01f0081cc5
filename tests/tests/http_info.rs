//! What a relay says about itself, to whom, and that it is true.

use holdfast_core::limits;
use holdfast_core::nostr::{PubKey, SecretKey};
use holdfast_tests::client::{Client, Endpoint};
use holdfast_tests::frame::Frame;
use holdfast_tests::http::{Answer, info, send};
use holdfast_tests::relay::{Launch, Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::{Value, json};

async fn get(endpoint: &Endpoint, path: &str, accept: &str) -> Answer {
    send(endpoint, "GET", path, &[("Accept", accept)], b"").await
}

/// What the relay's own key file says its public key is.
fn public_key(relay: &RelayProcess) -> PubKey {
    let text = std::fs::read_to_string(relay.data_dir().join("relay.key")).expect("it is there");
    let secret: SecretKey = text.trim().parse().expect("it is a key");
    secret.public_key()
}

#[tokio::test]
async fn the_document_is_the_answer_to_everything_but_a_browser() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let document = get(&endpoint, "/", "application/nostr+json").await;
    assert_eq!(document.status, 200);
    assert_eq!(
        document.header("content-type"),
        Some("application/nostr+json")
    );
    for (path, accept) in [
        ("/", "*/*"),
        ("/", "application/json"),
        ("/", "text/html, application/nostr+json"),
        ("/info", "text/html"),
        ("/info", "*/*"),
    ] {
        let answer = get(&endpoint, path, accept).await;
        assert_eq!(answer.body, document.body, "{path} for {accept}");
    }
    let plain = send(&endpoint, "GET", "/", &[], b"").await;
    assert_eq!(plain.body, document.body);
    let page = get(&endpoint, "/", "text/html,application/xhtml+xml;q=0.9").await;
    assert_eq!(
        page.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(page.text().starts_with("<!doctype html>"));
    assert!(page.text().contains(&endpoint.ws_url()), "{}", page.text());
}

/// S22: pages of any origin may use the relay; every path answers their preflight request.
#[tokio::test]
async fn s22_pages_of_any_origin_may_read_and_ask() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let origin = [("Origin", "https://client.example")];
    let mut answers = vec![get(&endpoint, "/", "application/nostr+json").await];
    for path in ["/", "/info", "/events", "/query", "/count"] {
        let preflight = send(&endpoint, "OPTIONS", path, &origin, b"").await;
        assert_eq!((preflight.status, preflight.body.len()), (204, 0), "{path}");
        answers.push(preflight);
    }
    answers.push(send(&endpoint, "POST", "/query", &origin, b"[]").await);
    for answer in answers {
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        let headers = answer
            .header("access-control-allow-headers")
            .expect("named");
        for name in ["Accept", "Authorization", "Content-Type"] {
            assert!(headers.contains(name), "{headers}");
        }
        let methods = answer
            .header("access-control-allow-methods")
            .expect("named");
        for name in ["GET", "POST", "OPTIONS"] {
            assert!(methods.contains(name), "{methods}");
        }
    }
}

#[tokio::test]
async fn the_document_of_each_profile_names_its_limits_and_nips() {
    rules!(
        "AR-CUR-17",
        "AR-INFO-1",
        "AR-INFO-2",
        "AR-INFO-3",
        "AR-INFO-4",
        "AR-INFO-8"
    );
    for (profile, is_workspace) in [(Profile::Workspace, true), (Profile::Open, false)] {
        let relay = RelayProcess::start(profile, &[]);
        let document = info(&relay.endpoint()).await;
        assert_eq!(document["self"], json!(public_key(&relay)));
        assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(
            document["supported_nips"],
            json!([1, 9, 11, 29, 40, 42, 45, 70, 98])
        );
        assert_eq!(document["supported_extensions"], json!(["nip-ar"]));
        let limitation = json!({
            "max_message_length": limits::FRAME_BYTES_MAX,
            "max_subscriptions": limits::SUBSCRIPTIONS_MAX,
            "max_filters": limits::FILTERS_MAX,
            "max_limit": limits::LIMIT_MAX,
            "default_limit": limits::LIMIT_MAX,
            "max_subid_length": 64,
            "max_event_tags": limits::EVENT_TAGS_MAX,
            "max_content_length": limits::CONTENT_BYTES_MAX,
            "created_at_upper_limit": 900,
            "auth_required": is_workspace,
            "restricted_writes": is_workspace,
            "payment_required": false,
        });
        let mut named = document["limitation"].clone();
        let lower = named
            .as_object_mut()
            .expect("an object")
            .remove("created_at_lower_limit");
        assert_eq!(lower, is_workspace.then(|| json!(900)));
        assert_eq!(named, limitation);
        assert_eq!(
            document["artifacts"],
            json!({
                "version": 1,
                "revision_kind": 45010,
                "removal_kind": 45011,
                "query": "/query",
                "count": "/count",
                "modes": ["current", "history", "head"],
                "websocket_query_extensions": true,
                "sync": { "version": 1, "max_events": 4096 },
                "max_tags": 256,
                "max_tag_name_bytes": 128,
                "max_tag_value_bytes": 4096,
                "max_tag_bytes": 65536,
                "max_predicates": 32,
                "max_values": 256,
                "max_page_size": 1000,
                "max_offset": 10000,
                "max_filters": 1,
                "query_timeout_ms": 2000,
            })
        );
    }
}

#[tokio::test]
async fn as_many_subscriptions_and_filters_as_the_document_says_are_open_and_no_more() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    let limitation = info(&endpoint).await["limitation"].clone();
    let number = |name: &str| usize::try_from(limitation[name].as_u64().expect(name)).expect(name);
    let mut client = Client::open(&endpoint).await;
    let filters = |count: usize| vec![json!({ "ids": [] }); count];
    let most = number("max_filters");
    assert!(client.subscribe("f", &filters(most)[..]).await.is_empty());
    let refused = client.refused_req(&filters(most + 1)[..]).await;
    assert!(refused.starts_with("invalid: "), "{refused}");
    client.close("f").await;

    let open = number("max_subscriptions");
    for name in 0..open {
        client
            .subscribe(&name.to_string(), &json!({ "ids": [] }))
            .await;
    }
    let refused = client.refused_req(&json!({ "ids": [] })).await;
    assert_eq!(refused, "error: too many subscriptions");
    client.subscribe("0", &json!({ "ids": [] })).await;
    client.close("1").await;
    client.subscribe("one more", &json!({ "ids": [] })).await;
}

#[tokio::test]
async fn health_checks_depend_on_no_host_and_need_no_key() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let nobody = relay.endpoint().with_host("10.0.0.7:8080");
    let alive = send(&nobody, "GET", "/_liveness", &[], b"").await;
    assert_eq!(
        (alive.status, alive.json()),
        (200, json!({ "status": "alive" }))
    );
    let ready = send(&nobody, "GET", "/_readiness", &[], b"").await;
    assert_eq!(
        (ready.status, ready.json()),
        (200, json!({ "status": "ready" }))
    );
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_in_json() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    for (method, path, status, error) in [
        ("GET", "/nothing", 404, "not found"),
        ("POST", "/query/", 404, "not found"),
        ("GET", "/query", 405, "method not allowed"),
        ("PUT", "/events", 405, "method not allowed"),
        ("POST", "/", 405, "method not allowed"),
    ] {
        let answer = send(&endpoint, method, path, &[], b"").await;
        assert_eq!(
            (answer.status, answer.error().as_str()),
            (status, error),
            "{method} {path}"
        );
    }
}

/// An artifact filter of this view that names an artifact and a channel nobody knows.
fn artifact_filter(view: &str) -> Value {
    json!({
        "artifact": view,
        "#d": [holdfast_tests::build::fresh_artifact()],
        "#h": [holdfast_tests::build::fresh_channel()],
    })
}

#[tokio::test]
async fn sync_and_head_are_advertised_and_served_together_or_not_at_all() {
    rules!("AR-HEAD-1", "AR-INFO-4", "AR-INFO-9", "AR-SYNC-REQ-2");
    for switch in ["true", "off"] {
        let relay = Launch::new(Profile::Open)
            .env("HOLDFAST_ARTIFACT_SYNC_ENABLED", switch)
            .start();
        let is_on = switch == "true";
        let endpoint = relay.endpoint();
        let artifacts = info(&endpoint).await["artifacts"].clone();
        assert_eq!(artifacts.get("sync").is_some(), is_on);
        assert_eq!(artifacts["websocket_query_extensions"], json!(is_on));
        let modes = artifacts["modes"].as_array().expect("a list");
        assert_eq!(modes.contains(&json!("head")), is_on);
        for view in ["current", "history", "head"] {
            for path in ["/query", "/count"] {
                let body = json!([artifact_filter(view)]).to_string();
                let answer = send(&endpoint, "POST", path, &[], body.as_bytes()).await;
                if modes.contains(&json!(view)) {
                    assert_eq!(answer.status, 200, "{view}");
                } else {
                    let text = "invalid: not supported: the head view is switched off";
                    assert_eq!((answer.status, answer.error().as_str()), (400, text));
                }
            }
        }
        let mut client = Client::open(&endpoint).await;
        client
            .send(&json!(["REQ", "s", artifact_filter("current")]))
            .await;
        let Frame::Closed { message, .. } = client.next_of("s").await else {
            panic!("not closed");
        };
        let expected = if is_on {
            "restricted: "
        } else {
            "error: filter: "
        };
        assert!(message.starts_with(expected), "{message}");
    }
}

#[tokio::test]
async fn the_document_names_the_largest_set_that_is_set() {
    rules!("AR-INFO-2");
    let relay = RelayProcess::start(Profile::Open, &["--sync-max-events", "7"]);
    let document = info(&relay.endpoint()).await;
    let sync = json!({ "version": 1, "max_events": 7 });
    assert_eq!(document["artifacts"]["sync"], sync);
}
