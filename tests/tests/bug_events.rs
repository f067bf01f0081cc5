//! Public bug reports about single events: their ids, their tags, which version stays, what a deletion reaches. The cases are
//! listed in `docs/bug-reports.md`.

use std::slice::from_ref;

use holdfast_core::nostr::{Draft, Event, SecretKey, kinds};
use holdfast_tests::build::{self, tag};
use holdfast_tests::client::Client;
use holdfast_tests::frame::Frame;
use holdfast_tests::person::{Person, ids};
use holdfast_tests::reads::{everywhere, ids_everywhere};
use holdfast_tests::relay::{Profile, RelayProcess};
use serde_json::{Value, json};

/// The published test key of the vectors.
const BOB: &str = "3551fc7617f76632e4542992c0bc01fecb224de639c4b6a1e0956946e8bb8a29";

/// Content, the id every mainstream library computes, and an id over another form where there is one.
const VECTORS: [(&str, &str, Option<&str>); 6] = [
    (
        "Hi ' \" \u{8} \t \r \n 🎉 #nostr",
        "bb5d2fe5b2c16c676d87ef446fa38581b9fa45e2e50ba89568664abf4e1d1396",
        None,
    ),
    (
        "\u{1}",
        "e0dadcd2bb93ddb1b4f77c77f269d8d87dd972a067306c14505a583679b9bbdb",
        Some("5c9f3d6aabe8b9f67cf44785456056106840404924c70a84205df774e63f725f"),
    ),
    (
        "\u{7f}",
        "a3b19cf5ed115f0a68d2a38e6eaa672c26a573db938445dd105d032ee8e7e769",
        Some("fa47e99dfc4df5884f802df91845cd3de2a741cb07f5c922930b47489842956f"),
    ),
    (
        "\u{2028}",
        "ca763048a72676acb520576a8c21dad35839f41e05a27a3e2c4974b833f9b7d7",
        Some("3059eadde81bc31c26f9e05e69792c7440d8bc5d68800074fac852f187e3ca0a"),
    ),
    (
        "/",
        "a7fe67a72186061f87b45e5bac2f60e2157d9fcac11f631e7d0663ebb7005279",
        Some("9212435eb0f608674b74fbe39edf881f1f97d8fbc31db8374da69f1f1bf3f7bf"),
    ),
    (
        "<>&",
        "2872c75430150aa31ecea55a8bdc9e2a60e4a0d9d21a6ebe820d42074ac7d428",
        Some("735f32e1d6ad5b84a40ead0c23f38ad81ec94bea07d8b3591ec2445c4998e1dc"),
    ),
];

fn bob() -> SecretKey {
    BOB.parse().expect("a secret key")
}

fn vector(content: &str) -> Event {
    Draft {
        created_at: 1_722_337_838,
        kind: kinds::TEXT,
        tags: Vec::new(),
        content: content.to_owned(),
    }
    .sign(&bob())
}

/// A relay that takes events of any age and kind without AUTH, and somebody who is logged in.
async fn open_relay() -> (RelayProcess, Person) {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let person = Person::arrive(&relay.endpoint()).await;
    (relay, person)
}

/// An event of a kind that keeps only its newest version.
fn version(key: &SecretKey, kind: u16, tags: &[&[&str]], created_at: u64, content: &str) -> Event {
    Draft {
        created_at,
        kind,
        tags: tags.iter().map(|elements| tag(elements)).collect(),
        content: content.to_owned(),
    }
    .sign(key)
}

#[tokio::test]
async fn b01_ids_are_over_the_one_form_that_libraries_write() {
    let (relay, mut reader) = open_relay().await;
    let mut writer = Client::open(&relay.endpoint()).await;
    for (content, accepted, refused) in VECTORS {
        let event = vector(content);
        assert_eq!(event.id.to_string(), accepted);
        writer.accept(event.clone()).await;
        if let Some(refused) = refused {
            let mut other = event.clone();
            other.id = refused.parse().expect("an id");
            other.sig = bob().sign(other.id.as_bytes());
            let reason = writer.refuse(other).await;
            assert!(reason.starts_with("invalid: "), "{content:?}: {reason}");
        }
        // Reading verifies the id over the served form.
        let stored = everywhere(&mut reader, &[json!({"ids": [accepted]})]).await;
        assert_eq!(stored, [event], "{content:?}");
    }
    let raw_newline = vector("line\nbreak");
    let text = format!(r#"["EVENT",{}]"#, raw_newline.to_json());
    writer.send_text(&text.replace("\\n", "\n")).await;
    match writer.next_frame().await {
        Frame::Notice { text } => assert!(text.starts_with("invalid message: "), "{text}"),
        other => panic!("a raw control character is no JSON: {other:?}"),
    }
    writer.accept(raw_newline).await;
}

#[tokio::test]
async fn b02_escapes_on_the_wire_do_not_change_an_id() {
    let (relay, mut reader) = open_relay().await;
    let mut writer = Client::open(&relay.endpoint()).await;
    let event = vector(VECTORS[0].0);
    writer.accept(event.clone()).await;
    let escaped: String = event
        .content
        .encode_utf16()
        .map(|unit| format!("\\u{unit:04x}"))
        .collect();
    let plain = serde_json::to_string(&event.content).expect("a text");
    let text = event.to_json().replace(&plain, &format!("\"{escaped}\""));
    assert!(text.contains("\\ud83c\\udf89"), "{text}");
    writer.send_text(&format!(r#"["EVENT",{text}]"#)).await;
    let verdict = writer.answer(event.id).await;
    assert!(verdict.accepted, "{verdict:?}");
    assert!(verdict.message.starts_with("duplicate: "), "{verdict:?}");
    let stored = everywhere(&mut reader, &[json!({"ids": [event.id]})]).await;
    assert_eq!(stored, [event]);
}

#[tokio::test]
async fn b05_tag_values_are_opaque_and_tag_letters_have_a_case() {
    let (_relay, mut a) = open_relay().await;
    let hex = "ab".repeat(32);
    let odd = format!("{hex}a");
    let upper = hex.to_uppercase();
    let tags: [(&str, &str); 8] = [
        ("t", "abc"),
        ("t", "ABCD"),
        ("t", "abcd"),
        ("t", &odd),
        ("t", &upper),
        ("P", &hex),
        ("p", &hex),
        ("t", ""),
    ];
    let mut events = Vec::new();
    for (name, value) in tags {
        let event = build::event(&a.key, 1, vec![tag(&[name, value])], value);
        events.push(a.ws.accept(event).await);
    }
    for (event, (name, value)) in events.iter().zip(tags) {
        let filter = json!({"kinds": [1], format!("#{name}"): [value]});
        let found = everywhere(&mut a, &filter).await;
        assert_eq!(&found, from_ref(event), "{filter}");
    }
}

#[tokio::test]
async fn b06_of_two_versions_of_one_second_the_lowest_id_stays() {
    let (_relay, mut a) = open_relay().await;
    let now = build::now();
    for (kind, tags) in [(0, vec![]), (10_002, vec![]), (30_000, vec![["d", "x"]])] {
        for order in ["low first", "high first", "together"] {
            let key = build::fresh_key();
            let tags: Vec<&[&str]> = tags.iter().map(|tag| tag.as_slice()).collect();
            let mut versions: Vec<Event> = ["one", "two"]
                .map(|content| version(&key, kind, &tags, now, content))
                .into();
            versions.sort_by_key(|event| event.id);
            assert!(a.ws.auth(&key).await.accepted);
            let lowest = versions[0].clone();
            match order {
                "low first" => {}
                _ => versions.reverse(),
            }
            if order == "together" {
                a.ws.accept_all(&versions).await;
            } else {
                for event in versions {
                    a.ws.accept(event).await;
                }
            }
            let filter = json!({"kinds": [kind], "authors": [key.public_key()]});
            assert_eq!(
                ids_everywhere(&mut a, &[filter]).await,
                [lowest.id],
                "{order}"
            );
            a = Person::with_key(&a.http.endpoint, a.key).await;
        }
    }
}

#[tokio::test]
async fn b07_a_deletion_by_address_splits_at_the_first_two_colons() {
    let (_relay, mut a) = open_relay().await;
    let d = "wss://r.example:7777";
    let now = build::now();
    let of = |created_at, content| version(&a.key, 30_402, &[&["d", d]], created_at, content);
    let (old, stored, later) = (
        of(now - 100, "old"),
        of(now - 50, "stored"),
        of(now, "later"),
    );
    let stored = a.ws.accept(stored).await;
    let bystander = version(&a.key, 30_402, &[&["d", "wss"]], now - 50, "bystander");
    let bystander = a.ws.accept(bystander).await;
    let address = format!("30402:{}:{d}", a.pubkey);
    let deletion = version(&a.key, 5, &[&["a", &address]], now - 20, "");
    a.ws.accept(deletion).await;
    let filter = json!({"kinds": [30_402], "authors": [a.pubkey]});
    assert_eq!(ids_everywhere(&mut a, &filter).await, [bystander.id]);
    for deleted in [old, stored] {
        let reason = a.ws.refuse(deleted).await;
        assert!(reason.starts_with("blocked: "), "{reason}");
    }
    let later = a.ws.accept(later).await;
    assert_eq!(
        ids_everywhere(&mut a, &[filter]).await,
        ids([&later, &bystander])
    );
}

#[tokio::test]
async fn s01_repeated_tags_and_line_breaks_are_kept_as_they_were_signed() {
    let (_relay, mut a) = open_relay().await;
    let tags = vec![
        tag(&["t", "bitcoin"]),
        tag(&["t", "bitcoin"]),
        tag(&["t"]),
        tag(&["", ""]),
        tag(&["t", "bitcoin", "", "fourth"]),
    ];
    let event = build::event(&a.key, 1, tags, "one\ntwo\r\n\ttabbed");
    let event = a.ws.accept(event).await;
    let found = everywhere(&mut a, &[json!({"#t": ["bitcoin"]})]).await;
    assert_eq!(found, [event]);
}

#[tokio::test]
async fn s02_an_event_whose_id_is_another_hash_is_refused() {
    let (_relay, mut a) = open_relay().await;
    let mut event = build::event(&a.key, 1, Vec::new(), "as signed");
    event.content = "as sent".to_owned();
    let reason = a.ws.refuse(event.clone()).await;
    let expected = format!(
        "invalid: invalid event id: computed {}, got {}",
        event.compute_id(),
        event.id
    );
    assert_eq!(reason, expected);
    assert_eq!(
        ids_everywhere(&mut a, &[json!({"ids": [event.id]})]).await,
        []
    );
}

#[tokio::test]
async fn s03_an_event_that_matches_twice_is_sent_once() {
    let (_relay, mut a) = open_relay().await;
    let (p, q) = ("a".repeat(64), "b".repeat(64));
    let tags = vec![tag(&["p", &p]), tag(&["p", &q]), tag(&["p", &p])];
    let both = json!({"kinds": [1], "#p": [p, q]});
    a.ws.subscribe("live", &[both.clone(), json!({"kinds": [1]})])
        .await;
    let event = build::event(&a.key, 1, tags, "both");
    let event = a.ws.accept(event).await;
    let plain = build::event(&a.key, 1, Vec::new(), "next");
    let plain = a.ws.accept(plain).await;
    assert_eq!(a.ws.next_event("live").await, event);
    assert_eq!(a.ws.next_event("live").await, plain, "not the same again");
    assert_eq!(ids_everywhere(&mut a, &[both]).await, [event.id]);
}

#[tokio::test]
async fn s04_only_the_first_value_of_a_tag_is_matched() {
    let (_relay, mut a) = open_relay().await;
    let event = build::event(&a.key, 1, vec![tag(&["v", "x", "y"])], "");
    let event = a.ws.accept(event).await;
    assert_eq!(
        ids_everywhere(&mut a, &[json!({"#v": ["x"]})]).await,
        [event.id]
    );
    assert_eq!(ids_everywhere(&mut a, &[json!({"#v": ["y"]})]).await, []);
}

#[tokio::test]
async fn s07_the_first_d_is_the_address() {
    let (_relay, mut a) = open_relay().await;
    let now = build::now();
    let first = version(&a.key, 30_000, &[&["d", "b"], &["d", "a"]], now - 1, "b");
    let second = version(&a.key, 30_000, &[&["d", "a"]], now, "a");
    let first = a.ws.accept(first).await;
    let second = a.ws.accept(second).await;
    let filter = json!({"kinds": [30_000], "authors": [a.pubkey]});
    assert_eq!(
        ids_everywhere(&mut a, &[filter]).await,
        ids([&first, &second])
    );
    let replacing = version(&a.key, 30_000, &[&["d", "b"]], now + 1, "b again");
    let replacing = a.ws.accept(replacing).await;
    let filter = json!({"kinds": [30_000], "authors": [a.pubkey]});
    assert_eq!(
        ids_everywhere(&mut a, &[filter]).await,
        ids([&second, &replacing])
    );
}

#[tokio::test]
async fn s19_long_tag_values_and_malformed_signatures_hurt_nobody() {
    let (_relay, mut a) = open_relay().await;
    let long = "é".repeat(3_000);
    let event = build::event(&a.key, 1, vec![tag(&["r", &long])], "long");
    let event = a.ws.accept(event).await;
    assert_eq!(
        ids_everywhere(&mut a, &[json!({"#r": [long]})]).await,
        [event.id]
    );
    let signed = build::event(&a.key, 1, Vec::new(), "signature");
    for sig in [
        "00".repeat(64),
        "ff".repeat(64),
        "0".repeat(127),
        "zz".repeat(64),
        String::new(),
    ] {
        let text = signed.to_json().replace(&signed.sig.to_string(), &sig);
        a.ws.send_text(&format!(r#"["EVENT",{text}]"#)).await;
        let verdict = a.ws.answer(signed.id).await;
        assert!(!verdict.accepted, "{sig}");
        assert!(verdict.message.starts_with("invalid: "), "{verdict:?}");
    }
    a.ws.accept(signed).await;
}

/// `since` and `until` include their own second, in history and live alike.
#[tokio::test]
async fn s21_both_bounds_of_time_are_inclusive_everywhere() {
    let (_relay, mut a) = open_relay().await;
    let now = build::now();
    let bounded = |since: u64, until: u64| json!({"kinds": [1], "since": since, "until": until});
    a.ws.subscribe("live", &[bounded(now, now)]).await;
    let mut events = Vec::new();
    for created_at in [now - 1, now, now + 1] {
        let event = version(&a.key, 1, &[], created_at, "bounds");
        events.push(a.ws.accept(event).await);
    }
    let after = version(&a.key, 1, &[], now, "after");
    let after = a.ws.accept(after).await;
    assert_eq!(a.ws.next_event("live").await, events[1]);
    assert_eq!(a.ws.next_event("live").await, after);
    let seen = ids_everywhere(&mut a, &[bounded(now, now)]).await;
    assert_eq!(seen, ids([&events[1], &after]));
    let seen = ids_everywhere(&mut a, &[bounded(now - 1, now + 1)]).await;
    assert_eq!(seen, ids(events.iter().chain([&after])));
    assert_eq!(ids_everywhere(&mut a, &[bounded(now + 1, now)]).await, []);
}

#[tokio::test]
async fn s21_ephemeral_events_are_answered_and_delivered_and_not_stored() {
    let (_relay, mut a) = open_relay().await;
    let filter = json!({"kinds": [20_001]});
    a.ws.subscribe("live", &filter).await;
    let event = build::event(&a.key, 20_001, Vec::new(), "gone soon");
    let verdict = a.ws.publish(&event).await;
    assert_eq!((verdict.accepted, verdict.message.as_str()), (true, ""));
    assert_eq!(a.ws.next_event("live").await, event);
    assert_eq!(everywhere(&mut a, &[filter]).await, []);
}

#[tokio::test]
async fn s21_deletions_reach_later_events_and_no_deletions() {
    let (_relay, mut a) = open_relay().await;
    let mut b = Person::arrive(&a.http.endpoint).await;
    let early = build::event(&a.key, 1, Vec::new(), "deleted before it came");
    let deletion = build::deletion(&a.key, &[early.id]);
    a.ws.accept(deletion.clone()).await;
    let reason = a.ws.refuse(early.clone()).await;
    assert!(reason.starts_with("blocked: "), "{reason}");
    // A deletion of the deletion brings nothing back, and the deletion stays.
    let undo = build::deletion(&a.key, &[deletion.id]);
    a.ws.accept(undo).await;
    assert!(!a.ws.publish(&early).await.accepted);
    let stored = ids_everywhere(&mut a, &[json!({"ids": [deletion.id]})]).await;
    assert_eq!(stored, [deletion.id]);
    // Another author's deletion deletes nothing, before or after.
    let mine = build::event(&b.key, 1, Vec::new(), "B's");
    let foreign = build::deletion(&a.key, &[mine.id]);
    a.ws.accept(foreign).await;
    b.ws.accept(mine.clone()).await;
    let again = build::event(&a.key, 5, vec![tag(&["e", &mine.id.to_string()])], "again");
    a.ws.accept(again).await;
    let stored = ids_everywhere(&mut b, &[json!({"ids": [mine.id]})]).await;
    assert_eq!(stored, [mine.id]);
}

#[tokio::test]
async fn s24_a_message_without_previous_tags_is_taken() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let message = a.chat(channel, "no previous tag").await;
    let found: Value = json!({"ids": [message.id]});
    assert_eq!(ids_everywhere(&mut a, &[found]).await, [message.id]);
}
