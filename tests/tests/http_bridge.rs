//! The HTTP bridge: who may ask (NIP-98), what a body may be, and with which status and text each thing is refused.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use holdfast_core::limits::{BODY_BYTES_MAX, FRAME_BYTES_MAX};
use holdfast_core::nostr::{Draft, Event, SecretKey, Tag, kinds};
use holdfast_tests::build::{self, event, fresh_channel, fresh_key, tag};
use holdfast_tests::client::{Client, Endpoint};
use holdfast_tests::http::{Answer, Caller, authorization, authorization_of, exchange, send};
use holdfast_tests::person::Person;
use holdfast_tests::relay::{Launch, Profile, RelayProcess};
use serde_json::json;

const BODY: &[u8] = br#"[{"kinds":[9]}]"#;

/// `POST /query` with this `Authorization`.
async fn ask(endpoint: &Endpoint, authorization: &str) -> Answer {
    let headers = [("Authorization", authorization)];
    send(endpoint, "POST", "/query", &headers, BODY).await
}

/// The header's value for this event.
fn header(event: &Event) -> String {
    format!("Nostr {}", STANDARD.encode(event.to_json()))
}

fn proof(key: &SecretKey, kind: u16, created_at: u64, tags: Vec<Tag>) -> Event {
    Draft {
        created_at,
        kind,
        tags,
        content: String::new(),
    }
    .sign(key)
}

/// A proof for `POST /query` that holds, as far as `tags` and `created_at` do.
fn query_proof(key: &SecretKey, created_at: u64, tags: &[&[&str]]) -> Event {
    let tags = tags.iter().map(|elements| tag(elements)).collect();
    proof(key, kinds::HTTP_AUTH, created_at, tags)
}

#[tokio::test]
async fn what_is_no_proof_at_all_is_a_401_with_its_own_text() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let cases = [
        ("Basic eDp5".to_owned(), "missing Nostr auth"),
        ("Nostr".to_owned(), "missing Nostr auth"),
        ("Nostr !!!".to_owned(), "invalid base64 in Nostr auth"),
        (
            format!("Nostr {}", STANDARD.encode(b"\xff\xfe")),
            "invalid UTF-8 in Nostr auth",
        ),
        (
            format!("Nostr {}", STANDARD.encode("{}")),
            "invalid NIP-98 event JSON",
        ),
    ];
    for (authorization, expected) in cases {
        let answer = ask(&endpoint, &authorization).await;
        assert_eq!((answer.status, answer.error().as_str()), (401, expected));
        assert_eq!(answer.header("www-authenticate"), Some("Nostr"));
    }
    let public = fresh_key().public_key().to_string();
    for headers in [&[][..], &[("X-Pubkey", public.as_str())]] {
        let answer = send(&endpoint, "POST", "/query", headers, BODY).await;
        let told = (answer.status, answer.error());
        assert_eq!(told, (401, "missing Nostr auth".to_owned()), "{headers:?}");
    }
}

#[tokio::test]
async fn a_proof_that_does_not_hold_is_a_401_that_says_why() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let key = fresh_key();
    let now = build::now();
    let url = endpoint.http_url("/query");
    let (u, method) = (["u", &url], ["method", "POST"]);
    let good: [&[&str]; 2] = [&u, &method];
    let mut forged = query_proof(&key, now, &good);
    forged.pubkey = fresh_key().public_key();
    forged.id = forged.compute_id();
    let mut renamed = query_proof(&key, now, &good);
    renamed.created_at += 1;
    let mut of_auth = query_proof(&key, now, &good);
    of_auth = proof(&key, kinds::AUTH, now, of_auth.tags);
    let payload = ["payload", &"0".repeat(64)];
    let window = "created_at must be within 60 s of ";
    let cases = [
        (forged, "invalid schnorr signature"),
        (renamed, "invalid event id: computed "),
        (of_auth, "kind must be 27235, got 22242"),
        (query_proof(&key, now - 70, &good), window),
        (query_proof(&key, now + 70, &good), window),
        (
            query_proof(&key, now, &[&method]),
            "exactly one u tag is required",
        ),
        (
            query_proof(&key, now, &[&u, &u, &method]),
            "exactly one u tag is required",
        ),
        (
            query_proof(&key, now, &[&u]),
            "exactly one method tag is required",
        ),
        (
            query_proof(&key, now, &[&u, &["method", "GET"]]),
            "method must be POST, got GET",
        ),
        (
            query_proof(&key, now, &[&u, &method, &payload]),
            "payload does not match the body",
        ),
    ];
    for (proof, expected) in cases {
        let answer = ask(&endpoint, &header(&proof)).await;
        assert_eq!(answer.status, 401, "{expected}: {}", answer.text());
        let expected = format!("NIP-98: NIP-98 HTTP Auth verification failed: {expected}");
        let error = answer.error();
        assert!(error.starts_with(&expected), "{error} is not {expected}");
    }
}

#[tokio::test]
async fn a_proof_may_be_a_little_off_and_needs_no_payload_and_no_padding() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let key = fresh_key();
    let now = build::now();
    let url = endpoint.http_url("/query");
    let in_lower_case = query_proof(&key, now, &[&["u", &url], &["method", "post"]]);
    let early = query_proof(&key, now - 55, &[&["u", &url], &["method", "POST"]]);
    let late = query_proof(&key, now + 55, &[&["u", &url], &["method", "POST"]]);
    let unpadded = query_proof(&key, now + 1, &[&["u", &url], &["method", "POST"]]);
    for authorization in [
        header(&in_lower_case),
        header(&early),
        header(&late),
        format!("nostr  {}", STANDARD_NO_PAD.encode(unpadded.to_json())),
    ] {
        let answer = ask(&endpoint, &authorization).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

/// B17: scheme, authority with its port, path and query count; the refusal shows both URLs.
#[tokio::test]
async fn b17_the_url_of_a_proof_is_that_of_the_very_request() {
    let launch = Launch::new(Profile::Workspace).args(["--relay-url", "wss://example.com:3443"]);
    let relay = launch.start();
    let endpoint = relay.endpoint().with_host("example.com:3443");
    let key = fresh_key();
    let ask = async |target: &str, url: &str| {
        let authorization = authorization(&key, "POST", url, BODY);
        let headers = [("Authorization", authorization.as_str())];
        send(&endpoint, "POST", target, &headers, BODY).await
    };
    for (target, url) in [
        ("/query", "https://example.com:3443/query"),
        ("/query", "HTTPS://EXAMPLE.com:3443/query"),
        ("/query?a=1", "https://example.com:3443/query?a=1"),
    ] {
        let answer = ask(target, url).await;
        assert_eq!(answer.status, 200, "{url}: {}", answer.text());
    }
    for (target, url) in [
        ("/query", "https://example.com/query"),
        ("/query", "http://example.com:3443/query"),
        ("/query", "wss://example.com:3443/query"),
        ("/query", "https://example.com:3443/query/"),
        ("/query", "https://example.com:3443/count"),
        ("/query", "https://example.com:3443/query?a=1"),
        ("/query?a=1", "https://example.com:3443/query"),
        ("/query", "https://other.example:3443/query"),
    ] {
        let answer = ask(target, url).await;
        assert_eq!(answer.status, 401, "{url}");
        let expected = format!("u must be https://example.com:3443{target}, got {url}");
        assert!(answer.error().ends_with(&expected), "{}", answer.error());
    }
    let elsewhere = authorization(&key, "POST", "https://example.com:3443/query", BODY);
    let headers = [("Authorization", elsewhere.as_str())];
    let other_host = relay.endpoint().with_host("example.com");
    assert_eq!(
        send(&other_host, "POST", "/query", &headers, BODY)
            .await
            .status,
        404
    );
}

/// B18: one proof is good for one request, on every path and after a restart; a nonce makes the next one differ.
#[tokio::test]
async fn b18_a_proof_is_taken_once() {
    let mut relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let key = fresh_key();
    let url = endpoint.http_url("/query");
    let once = authorization(&key, "POST", &url, BODY);
    assert_eq!(ask(&endpoint, &once).await.status, 200);
    let again = ask(&endpoint, &once).await;
    assert_eq!(again.status, 401);
    assert!(
        again.error().starts_with("NIP-98: replay detected"),
        "{}",
        again.error()
    );
    assert!(again.error().contains("nonce"), "{}", again.error());
    assert_eq!(
        ask(&endpoint, &authorization(&key, "POST", &url, BODY))
            .await
            .status,
        200
    );
    relay.restart();
    assert_eq!(
        ask(&endpoint, &once).await.status,
        401,
        "a restart forgets no proof"
    );
}

/// The order is proof, replay, body: a body that cannot be read uses the proof up.
#[tokio::test]
async fn a_proof_is_used_up_by_a_request_whose_body_is_wrong() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let proof = authorization_of(
        &fresh_key(),
        vec![
            tag(&["u", &endpoint.http_url("/query")]),
            tag(&["method", "POST"]),
        ],
    );
    let headers = [("Authorization", proof.as_str())];
    let wrong = send(&endpoint, "POST", "/query", &headers, b"[").await;
    assert_eq!(wrong.status, 400);
    assert_eq!(ask(&endpoint, &proof).await.status, 401);
    let unproven = send(&endpoint, "POST", "/query", &[], b"[").await;
    assert_eq!(unproven.status, 401, "the body is not judged for nobody");
}

#[tokio::test]
async fn an_event_is_answered_by_class() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let mut ann = Person::arrive(&endpoint).await;
    let channel = ann.open_channel().await;
    let said = build::chat(&ann.key, channel, "hello");
    let taken = json!({ "event_id": said.id, "accepted": true, "message": "" });
    let answer = ann.http.submit(&said).await;
    assert_eq!((answer.status, answer.json()), (200, taken));
    let again = ann.http.submit(&said).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json()["accepted"], true, "{}", again.text());

    let other = Caller::new(&endpoint, &fresh_key());
    let not_hers = other.submit(&build::chat(&ann.key, channel, "again")).await;
    assert_eq!(not_hers.status, 403);
    assert_eq!(
        not_hers.error(),
        "invalid: event pubkey does not match authenticated identity"
    );
    let mut wrong = build::chat(&ann.key, channel, "a");
    wrong.content = "b".to_owned();
    let wrong = ann.http.submit(&wrong).await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong
            .error()
            .starts_with("invalid: invalid event id: computed ")
    );
    let old = Draft {
        created_at: build::now() - 1000,
        kind: kinds::CHAT,
        tags: vec![tag(&["h", &channel.to_string()])],
        content: String::new(),
    };
    let old = ann.http.submit(&old.sign(&ann.key)).await;
    assert_eq!(
        (old.status, old.error().as_str()),
        (400, "invalid: event timestamp too far from server time")
    );

    let taken = build::create_channel(&ann.key, channel, &[]);
    let duplicate = ann.http.submit(&taken).await;
    let expected = json!({
        "event_id": taken.id,
        "accepted": false,
        "message": "duplicate: channel already exists",
    });
    assert_eq!((duplicate.status, duplicate.json()), (200, expected));

    let revision = ann.artifact(channel).await;
    let d = holdfast_tests::person::artifact_of(&revision);
    let mut stale = build::Revision::create(d, channel);
    stale.content = "another".to_owned();
    let conflict = ann.http.submit(&stale.sign(&ann.key)).await;
    assert_eq!(
        (conflict.status, conflict.error().as_str()),
        (409, "conflict: artifact identity is taken")
    );
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_a_400_that_says_where() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    let event = event(&fresh_key(), 1, Vec::new(), "x").to_json();
    let twice = event.replacen('{', "{\"kind\":1,", 1);
    let cases: [(&str, &[u8], &str); 9] = [
        ("/events", b"", "invalid event JSON: EOF"),
        ("/events", b"[]", "invalid event JSON: invalid type"),
        (
            "/events",
            b"\xff",
            "invalid event JSON: the body is not UTF-8",
        ),
        (
            "/events",
            twice.as_bytes(),
            "invalid event JSON: duplicate field `kind`",
        ),
        ("/query", b"", "invalid filters: EOF"),
        ("/query", b"{}", "invalid filters: expected JSON array"),
        (
            "/query",
            b"[]",
            "invalid filters: at least one filter is required",
        ),
        (
            "/count",
            b"[{\"kind\":1}]",
            "invalid filters: unknown filter field kind",
        ),
        (
            "/count",
            b"[{},{\"artifact\":\"current\"}]",
            "artifact queries require exactly one filter",
        ),
    ];
    for (path, body, expected) in cases {
        let answer = send(&endpoint, "POST", path, &[], body).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        let error = answer.error();
        assert!(
            error.starts_with(expected),
            "{path}: {error} is not {expected}"
        );
    }
    let many: Vec<String> = (0..129).map(|_| fresh_channel().to_string()).collect();
    let filters = json!([{ "#h": many }]).to_string();
    let answer = send(&endpoint, "POST", "/query", &[], filters.as_bytes()).await;
    assert_eq!(
        (answer.status, answer.error().as_str()),
        (400, "too many explicit channels")
    );
}

#[tokio::test]
async fn a_body_is_bounded_and_an_event_as_large_as_a_frame() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    let fits = vec![b' '; BODY_BYTES_MAX];
    let answer = send(&endpoint, "POST", "/query", &[], &fits).await;
    assert!(
        answer.error().starts_with("invalid filters: EOF"),
        "{}",
        answer.text()
    );
    let more = vec![b' '; BODY_BYTES_MAX + 1];
    let answer = send(&endpoint, "POST", "/query", &[], &more).await;
    let text = format!("request body exceeds {BODY_BYTES_MAX} bytes");
    assert_eq!((answer.status, answer.error()), (413, text));
    let head = format!(
        "POST /query HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: 9999999999\r\n\r\n",
        endpoint.host
    );
    assert_eq!(exchange(&endpoint, head.as_bytes(), b"[").await.status, 413);

    // As large as a frame can carry it, and one byte more.
    let of_length = |length: usize| {
        let bare = event(&fresh_key(), 1, vec![tag(&["x", ""])], "")
            .to_json()
            .len();
        let values = vec![tag(&["x", &"y".repeat(length - bare)])];
        event(&fresh_key(), 1, values, "")
    };
    let frame_bytes = r#"["EVENT",]"#.len();
    let caller = Caller::new(&endpoint, &fresh_key());
    let post = async |event: &Event| {
        send(
            &caller.endpoint,
            "POST",
            "/events",
            &[],
            event.to_json().as_bytes(),
        )
        .await
    };
    let largest = of_length(FRAME_BYTES_MAX - frame_bytes);
    let answer = post(&largest).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let by_id = json!({ "ids": [largest.id] });
    assert_eq!(
        Client::open(&endpoint).await.stored(&by_id).await,
        [largest]
    );
    let answer = post(&of_length(FRAME_BYTES_MAX - frame_bytes + 1)).await;
    let text = format!("invalid: event exceeds a frame of {FRAME_BYTES_MAX} bytes");
    assert_eq!((answer.status, answer.error()), (400, text));
}

#[tokio::test]
async fn in_the_open_profile_nobody_asks_like_an_anonymous_socket() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    let said = event(&fresh_key(), 1, Vec::new(), "from nobody");
    let answer = send(&endpoint, "POST", "/events", &[], said.to_json().as_bytes()).await;
    assert_eq!(
        answer.json(),
        json!({ "event_id": said.id, "accepted": true, "message": "" })
    );
    let rows = send(&endpoint, "POST", "/query", &[], br#"[{"kinds":[1]}]"#).await;
    assert_eq!(rows.events(), std::slice::from_ref(&said));
    assert_eq!(
        rows.text(),
        format!("[{}]", said.to_json()),
        "the stored form, joined"
    );
    let count = send(&endpoint, "POST", "/count", &[], br#"[{"kinds":[1]}]"#).await;
    assert_eq!(count.count(), 1);

    let command = build::create_channel(&fresh_key(), fresh_channel(), &[]);
    let refused = send(
        &endpoint,
        "POST",
        "/events",
        &[],
        command.to_json().as_bytes(),
    )
    .await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(
        refused.error().starts_with("auth-required: "),
        "{}",
        refused.text()
    );
    let broken = [("Authorization", "Nostr !!!")];
    let answer = send(&endpoint, "POST", "/query", &broken, b"[{}]").await;
    assert_eq!(answer.status, 401, "a broken proof is not the same as none");
}

/// S18: no time limit of HTTP reaches a WebSocket, and an idle HTTP connection is kept open for the next request.
#[tokio::test]
async fn several_requests_share_one_connection() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    let mut tcp = tokio::net::TcpStream::connect(endpoint.addr)
        .await
        .expect("the relay listens");
    for _ in 0..3 {
        let request = format!(
            "POST /count HTTP/1.1\r\nHost: {}\r\nContent-Length: 4\r\n\r\n[{{}}]",
            endpoint.host
        );
        tcp.write_all(request.as_bytes()).await.expect("it is open");
        let mut answer = Vec::new();
        while !answer.ends_with(b"{\"count\":0}") {
            answer.push(tcp.read_u8().await.expect("it is open"));
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
    }
}
