//! What a relay answers to frames that are wrong, large, split or odd, and that the connection, or at least every other one,
//! lives on.

use holdfast_core::limits::{FRAME_BYTES_MAX, SUB_ID_CHARS_MAX};
use holdfast_core::nostr::Event;
use holdfast_tests::build::{event, fresh_key};
use holdfast_tests::client::Client;
use holdfast_tests::frame::{Frame, Verdict};
use holdfast_tests::http::exchange;
use holdfast_tests::raw::{RSV1, Raw, opcode};
use holdfast_tests::relay::{Profile, RelayProcess};

const FIN: u8 = 0x80;

fn note(content: &str) -> Event {
    event(&fresh_key(), 1, Vec::new(), content)
}

fn event_frame(event: &Event) -> String {
    format!(r#"["EVENT",{}]"#, event.to_json())
}

/// A connection past its challenge.
async fn connect(relay: &RelayProcess) -> Raw {
    let mut raw = Raw::open(&relay.endpoint(), &[]).await;
    assert!(matches!(raw.next_message().await, Frame::Auth { .. }));
    raw
}

/// The connection still takes and stores an event.
async fn lives(raw: &mut Raw) {
    let event = note("still here");
    raw.text(&event_frame(&event)).await;
    let Frame::Ok { id, verdict } = raw.next_message().await else {
        panic!("an EVENT is answered with OK");
    };
    assert_eq!(
        (id, verdict.accepted),
        (event.id, true),
        "{}",
        verdict.message
    );
}

/// The close frame with which the relay ends the connection, and how many messages came before.
async fn closing(raw: &mut Raw) -> (Vec<Frame>, u16) {
    let (messages, closing) = raw.until_end().await;
    (messages, closing.expect("a close frame says why").0)
}

#[tokio::test]
async fn a_frame_that_names_nothing_gets_a_notice_and_the_connection_lives() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut raw = connect(&relay).await;
    let notices = [
        ("", "invalid message: JSON parse error"),
        ("[", "invalid message: JSON parse error"),
        ("{\"EVENT\":1}", "invalid message: expected JSON array"),
        (
            "[]",
            "invalid message: the first element must be the message type",
        ),
        (
            "[1]",
            "invalid message: the first element must be the message type",
        ),
        (
            "[\"PUBLISH\",{}]",
            "invalid message: unknown message type: PUBLISH",
        ),
        ("[\"EVENT\"]", "invalid message: EVENT requires an event"),
        (
            "[\"EVENT\",{}]",
            "invalid message: invalid event: missing field `id`",
        ),
        ("[\"REQ\"]", "invalid message: REQ requires a sub_id string"),
        (
            "[\"REQ\",7,{}]",
            "invalid message: REQ requires a sub_id string",
        ),
        (
            "[\"CLOSE\"]",
            "invalid message: CLOSE requires a sub_id string",
        ),
        (
            "[\"EVENT\",{\"content\":\"a\nb\"}]",
            "invalid message: JSON parse error",
        ),
    ];
    for (text, expected) in notices {
        raw.text(text).await;
        match raw.next_message().await {
            Frame::Notice { text: notice } => {
                assert!(notice.starts_with(expected), "{text}: {notice}")
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    lives(&mut raw).await;
}

#[tokio::test]
async fn a_frame_that_names_its_subscription_is_refused_on_it_and_the_connection_lives() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut raw = connect(&relay).await;
    let long = "x".repeat(SUB_ID_CHARS_MAX + 1);
    let closed = [
        ("[\"REQ\",\"s\"]", "s", "invalid: REQ requires a filter"),
        (
            "[\"REQ\",\"s\",7]",
            "s",
            "invalid: filter must be one object",
        ),
        (
            "[\"REQ\",\"s\",{\"kind\":1}]",
            "s",
            "invalid: unknown filter field kind",
        ),
        (
            "[\"REQ\",\"\",{}]",
            "",
            "invalid: REQ sub_id must not be empty",
        ),
        ("[\"COUNT\",\"c\"]", "c", "invalid: COUNT requires a filter"),
        (
            "[\"REQ\",\"s\",{\"search\":\"x\"}]",
            "s",
            "invalid: not supported",
        ),
        (
            &format!("[\"REQ\",\"{long}\",{{}}]"),
            &long[1..],
            "invalid: REQ sub_id exceeds",
        ),
    ];
    for (text, expected_sub, expected) in closed {
        raw.text(text).await;
        match raw.next_message().await {
            Frame::Closed { sub, message } => {
                assert_eq!(sub, expected_sub, "{text}");
                assert!(message.starts_with(expected), "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    lives(&mut raw).await;
}

#[tokio::test]
async fn a_wrong_event_is_refused_on_the_id_it_claims_and_the_connection_lives() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut raw = connect(&relay).await;
    let event = note("right");
    let json = event.to_json();
    let wrong_sig = {
        let mut other = note("other");
        other.sig = event.sig;
        other
    };
    let long_tag = json.replace("\"tags\":[]", "\"tags\":[[]]");
    let with_extra = json.replacen('{', "{\"extra\":1,", 1);
    let cases = [
        (
            json.replace("\"content\":\"right\"", "\"content\":\"wrong\""),
            event.id,
            "invalid: invalid event id: computed ",
        ),
        (
            wrong_sig.to_json(),
            wrong_sig.id,
            "invalid: invalid schnorr signature",
        ),
        (
            long_tag,
            event.id,
            "invalid: invalid event: a tag needs one or more strings",
        ),
        (
            with_extra,
            event.id,
            "invalid: invalid event: unknown field `extra`",
        ),
        (
            json.replace("\"kind\":1", "\"kind\":70000"),
            event.id,
            "invalid: invalid event: invalid value",
        ),
        (
            format!("{json},7"),
            event.id,
            "invalid: EVENT takes one event",
        ),
    ];
    for (body, expected_id, expected) in cases {
        raw.text(&format!("[\"EVENT\",{body}]")).await;
        match raw.next_message().await {
            Frame::Ok {
                id,
                verdict: Verdict { accepted, message },
            } => {
                assert_eq!((id, accepted), (expected_id, false), "{body}");
                assert!(message.starts_with(expected), "{body}: {message}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    raw.text(&event_frame(&event)).await;
    let Frame::Ok { id, verdict } = raw.next_message().await else {
        panic!("an EVENT is answered with OK");
    };
    assert_eq!((id, verdict.accepted), (event.id, true));
}

#[tokio::test]
async fn a_binary_frame_is_read_as_text_and_one_that_is_no_text_gets_a_notice() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut raw = connect(&relay).await;
    let event = note("in binary");
    raw.message(opcode::BINARY, event_frame(&event).as_bytes())
        .await;
    let Frame::Ok { id, verdict } = raw.next_message().await else {
        panic!("an EVENT is answered with OK");
    };
    assert_eq!((id, verdict.accepted), (event.id, true));
    raw.message(opcode::BINARY, b"[\"EVENT\",\xff]").await;
    let Frame::Notice { text } = raw.next_message().await else {
        panic!("nothing in it can be read");
    };
    assert_eq!(text, "invalid message: a frame must be UTF-8");
    lives(&mut raw).await;
}

#[tokio::test]
async fn the_largest_frame_is_read_and_one_byte_more_ends_the_connection_with_its_size() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut raw = connect(&relay).await;
    let largest = format!("[\"{}\"]", "x".repeat(FRAME_BYTES_MAX - 4));
    raw.text(&largest).await;
    let Frame::Notice { text } = raw.next_message().await else {
        panic!("this is no message");
    };
    assert!(text.starts_with("invalid message: unknown message type: xxx"));
    lives(&mut raw).await;

    raw.text(&format!("{largest} ")).await;
    let (messages, code) = closing(&mut raw).await;
    let text = format!(
        "error: frame too large ({} bytes, limit {FRAME_BYTES_MAX})",
        FRAME_BYTES_MAX + 1
    );
    assert_eq!((messages, code), (vec![Frame::Notice { text }], 1009));
}

#[tokio::test]
async fn a_frame_that_only_claims_to_be_huge_is_refused_by_its_head() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut raw = connect(&relay).await;
    let mut head = vec![FIN | opcode::TEXT, 0x80 | 127];
    head.extend((1_u64 << 40).to_be_bytes());
    head.extend([0; 4]);
    raw.bytes(&head).await.expect("the connection takes it");
    let (messages, code) = closing(&mut raw).await;
    assert_eq!(code, 1009);
    assert_eq!(messages.len(), 1);
    assert!(
        relay.resident_kib() < 1 << 20,
        "nothing was set aside for it"
    );
}

#[tokio::test]
async fn fragments_together_are_bounded_like_one_frame() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut raw = connect(&relay).await;
    let half = vec![b'x'; FRAME_BYTES_MAX / 2 + 1];
    raw.frame(0, opcode::TEXT, &half).await;
    raw.frame(FIN, opcode::CONTINUATION, &half).await;
    let (messages, code) = closing(&mut raw).await;
    let text = format!(
        "error: frame too large ({} bytes, limit {FRAME_BYTES_MAX})",
        FRAME_BYTES_MAX + 2
    );
    assert_eq!((messages, code), (vec![Frame::Notice { text }], 1009));
}

/// B16 (a): a reserved bit without a negotiated extension.
#[tokio::test]
async fn a_reserved_bit_closes_that_connection_only() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut other = connect(&relay).await;
    let mut raw = connect(&relay).await;
    raw.frame(FIN | RSV1, opcode::TEXT, b"[\"REQ\",\"s\",{}]")
        .await;
    assert_eq!(closing(&mut raw).await, (Vec::new(), 1002));
    lives(&mut other).await;
}

/// B16 (b): continuation frames, and a ping between them.
#[tokio::test]
async fn a_split_event_is_put_together_and_a_ping_between_its_parts_is_answered() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut raw = connect(&relay).await;
    let event = note("in three parts, one of them cut inside a character: \u{20ac}");
    let text = event_frame(&event);
    let cut = text.find('\u{20ac}').expect("it is there") + 1;
    let (head, tail) = text.as_bytes().split_at(cut);
    raw.frame(0, opcode::TEXT, &head[..20]).await;
    raw.frame(0, opcode::CONTINUATION, &head[20..]).await;
    raw.message(opcode::PING, b"are you there").await;
    let pong = raw.next_frame().await.expect("the connection is open");
    assert_eq!(pong.first, FIN | opcode::PONG);
    assert_eq!(pong.payload, b"are you there");
    raw.frame(FIN, opcode::CONTINUATION, tail).await;
    let Frame::Ok { id, verdict } = raw.next_message().await else {
        panic!("an EVENT is answered with OK");
    };
    assert_eq!(
        (id, verdict.accepted),
        (event.id, true),
        "{}",
        verdict.message
    );
}

/// B16 (c): no compression is offered, so none can be negotiated.
#[tokio::test]
async fn an_offered_extension_is_not_accepted() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits";
    let mut raw = Raw::open(&relay.endpoint(), &[offer]).await;
    assert!(raw.head.starts_with("HTTP/1.1 101 "), "{}", raw.head);
    assert!(
        !raw.head.to_ascii_lowercase().contains("extensions"),
        "{}",
        raw.head
    );
    assert!(matches!(raw.next_message().await, Frame::Auth { .. }));
    lives(&mut raw).await;
}

#[tokio::test]
async fn breaking_the_websocket_protocol_ends_the_connection_with_its_code() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    // First byte, second byte and payload as they stand on the wire; a zero mask leaves the payload as it is.
    let masked = |first: u8, payload: &[u8]| {
        let length = 0x80 | u8::try_from(payload.len()).expect("short");
        [&[first, length, 0, 0, 0, 0], payload].concat()
    };
    let cases = [
        ("not masked", vec![FIN | opcode::TEXT, 2, b'[', b']'], 1002),
        ("reserved operation", masked(FIN | 0x3, b"x"), 1002),
        ("reserved control operation", masked(FIN | 0xb, b"x"), 1002),
        (
            "nothing to continue",
            masked(FIN | opcode::CONTINUATION, b"x"),
            1002,
        ),
        ("a ping in parts", masked(opcode::PING, b"x"), 1002),
        (
            "a text that is no UTF-8",
            masked(FIN | opcode::TEXT, b"[\"\xff\"]"),
            1007,
        ),
    ];
    for (what, bytes, expected) in cases {
        let mut raw = connect(&relay).await;
        raw.bytes(&bytes).await.expect("the connection takes it");
        assert_eq!(closing(&mut raw).await, (Vec::new(), expected), "{what}");
    }
    lives(&mut connect(&relay).await).await;
}

#[tokio::test]
async fn a_close_is_answered_with_a_close() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let mut raw = connect(&relay).await;
    raw.message(opcode::CLOSE, &1000_u16.to_be_bytes()).await;
    assert_eq!(closing(&mut raw).await, (Vec::new(), 1000));
    assert_eq!(raw.next_frame().await, None);
}

#[tokio::test]
async fn a_bad_handshake_is_refused_and_says_why() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let endpoint = relay.endpoint();
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let version = "Sec-WebSocket-Version: 13\r\n";
    let upgrade = "Connection: Upgrade, close\r\nUpgrade: websocket\r\n";
    let cases = [
        (
            "another version",
            426,
            [upgrade, key, "Sec-WebSocket-Version: 8\r\n"],
        ),
        ("no key", 400, [upgrade, version, ""]),
        (
            "a short key",
            400,
            [upgrade, version, "Sec-WebSocket-Key: abc\r\n"],
        ),
        (
            "no upgrade asked for",
            400,
            ["Connection: close\r\nUpgrade: websocket\r\n", key, version],
        ),
    ];
    for (what, expected, lines) in cases {
        let head = format!(
            "GET / HTTP/1.1\r\nHost: {}\r\n{}\r\n",
            endpoint.host,
            lines.concat()
        );
        let answer = exchange(&endpoint, head.as_bytes(), b"").await;
        assert_eq!(answer.status, expected, "{what}: {}", answer.text());
        assert_eq!(answer.header("sec-websocket-version"), Some("13"), "{what}");
    }
    Client::open(&endpoint).await;
}
