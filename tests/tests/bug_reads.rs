//! Public bug reports about subscriptions and queries: what a filter means, how a subscription is replaced, what limits are true.
//! The cases are listed in `docs/bug-reports.md`.

use std::collections::BTreeSet;
use std::slice::from_ref;

use holdfast_core::nostr::{Event, EventId};
use holdfast_tests::build::{self, tag};
use holdfast_tests::client::{Client, End};
use holdfast_tests::frame::Frame;
use holdfast_tests::http;
use holdfast_tests::person::Person;
use holdfast_tests::reads::ids_everywhere;
use holdfast_tests::relay::{Profile, RelayProcess};
use serde_json::{Value, json};

/// A relay that is read and written without AUTH, and somebody who is logged in.
async fn open_relay() -> (RelayProcess, Person) {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let person = Person::arrive(&relay.endpoint()).await;
    (relay, person)
}

fn note(person: &Person, content: &str) -> Event {
    build::event(&person.key, 1, Vec::new(), content)
}

#[tokio::test]
async fn b03_unknown_filter_keys_are_refused_and_never_the_firehose() {
    let (_relay, mut a) = open_relay().await;
    let event = note(&a, "not for every reader");
    a.ws.accept(event).await;
    let hex = "a".repeat(64);
    let filter = json!({"kind": 3, "tags": [["p", hex]], "content": ""});
    let reason = a.ws.refused_req(&filter).await;
    // The first unknown key in the order of the filter.
    let first = filter
        .as_object()
        .and_then(|keys| keys.keys().next().cloned());
    let expected = format!("invalid: unknown filter field {}", first.expect("a key"));
    assert_eq!(reason, expected);
    assert_eq!(a.ws.count(&filter).await, Err(expected.clone()));
    for path in ["/query", "/count"] {
        let answer = a.http.post(path, &json!([filter]).to_string()).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(
            answer.error().starts_with("invalid filters: "),
            "{path}: {}",
            answer.error()
        );
    }
}

#[tokio::test]
async fn b04_empty_lists_match_nothing() {
    let (_relay, mut a) = open_relay().await;
    let e = "e".repeat(64);
    let event = build::event(&a.key, 1, vec![tag(&["e", &e])], "stored");
    a.ws.accept(event).await;
    let filters = [
        json!({"kinds": [1], "authors": [], "limit": 1}),
        json!({"ids": []}),
        json!({"#e": []}),
        json!({"kinds": []}),
        json!({"kinds": [1], "#e": [], "since": 1}),
    ];
    for (at, filter) in filters.iter().enumerate() {
        assert_eq!(ids_everywhere(&mut a, filter).await, [], "{filter}");
        assert_eq!(a.ws.subscribe(&format!("s{at}"), filter).await, []);
    }
    a.ws.subscribe("control", &[json!({"kinds": [1], "limit": 0})])
        .await;
    let later = build::event(&a.key, 1, vec![tag(&["e", &e])], "later");
    let later = a.ws.accept(later).await;
    assert_eq!(a.ws.next_event("control").await, later);
    // The subscriptions are open: one more that matches arrives on a replaced one, and on no other.
    a.ws.subscribe("s0", &[json!({"kinds": [1], "limit": 0})])
        .await;
    let last = note(&a, "last");
    let last = a.ws.accept(last).await;
    assert_eq!(a.ws.next_event("s0").await, last);
    assert_eq!(a.ws.next_event("control").await, last);
    assert_eq!(a.ws.unread().collect::<Vec<_>>(), Vec::<&Frame>::new());
}

/// REQ and CLOSE with one id, sent without waiting in between.
#[tokio::test]
async fn b08_a_replaced_subscription_says_nothing_more() {
    let (relay, mut a) = open_relay().await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let events: Vec<Event> = (0..PAGES_OF_A)
        .map(|n| note(&a, &format!("A {n}")))
        .collect();
    a.ws.accept_all(&events).await;
    let of_b: Vec<Event> = (0..2).map(|n| note(&b, &format!("B {n}"))).collect();
    b.ws.accept_all(&of_b).await;
    let by = |who: &Person| json!(["REQ", "s", {"kinds": [1], "authors": [who.pubkey]}]);
    let (req_a, req_b, close) = (by(&a), by(&b), json!(["CLOSE", "s"]));
    for sequence in [
        vec![&req_a, &req_b],
        vec![&req_a, &close, &req_b],
        vec![&req_a, &close, &req_a, &req_b],
    ] {
        for round in 0..10 {
            let mut reader = Client::open(&relay.endpoint()).await;
            for frame in &sequence {
                reader.send(frame).await;
            }
            let requests_of_a = sequence.iter().filter(|frame| ***frame == req_a).count();
            read_replaced(&mut reader, &b, of_b.len(), requests_of_a).await;
            // CLOSE has no answer, and the subscription is gone.
            reader.send(&close).await;
            reader.subscribe("end", &[json!({"ids": []})]).await;
            assert_eq!(reader.unread().count(), 0, "round {round} of {sequence:?}");
            let again = json!({"kinds": [1], "authors": [b.pubkey]});
            assert_eq!(reader.subscribe("s", &[again]).await.len(), of_b.len());
        }
    }
}

const PAGES_OF_A: usize = 1_000;

/// Reads `s` up to the EOSE behind B's events. Before them may stand what was sent for A before it was replaced, with an EOSE only
/// if it is complete; after the first of them nothing of A follows.
async fn read_replaced(reader: &mut Client, b: &Person, of_b: usize, requests_of_a: usize) {
    let (mut seen_a, mut seen_b, mut complete) = (0, 0, 0);
    loop {
        match reader.next_frame().await {
            Frame::Event { sub, event } if sub == "s" && event.pubkey == b.pubkey => seen_b += 1,
            Frame::Event { sub, .. } if sub == "s" => {
                assert_eq!(seen_b, 0, "an event of the replaced filter came late");
                seen_a += 1;
            }
            Frame::Eose { sub } if sub == "s" && seen_b == of_b => return,
            Frame::Eose { sub } if sub == "s" && seen_b == 0 => {
                complete += 1;
                assert!(
                    seen_a >= complete * PAGES_OF_A,
                    "EOSE after {seen_a} events"
                );
                assert!(complete <= requests_of_a, "one EOSE for each REQ");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn b09_subscription_ids_have_1_to_64_characters_and_others_are_refused_by_name() {
    let (relay, mut a) = open_relay().await;
    let info = http::info(&relay.endpoint()).await;
    assert_eq!(info["limitation"]["max_subid_length"], json!(64));
    for id in [
        "x".to_owned(),
        "x".repeat(64),
        "🎉".repeat(64),
        "\" \\\n".to_owned(),
    ] {
        assert_eq!(a.ws.subscribe(&id, &[json!({"ids": []})]).await, []);
        a.ws.close(&id).await;
    }
    let refused = [
        (String::new(), String::new()),
        ("x".repeat(65), "x".repeat(64)),
        ("🎉".repeat(65), "🎉".repeat(64)),
        ("x".repeat(100_000), "x".repeat(64)),
    ];
    for (id, cut) in refused {
        for verb in ["REQ", "COUNT"] {
            a.ws.send(&json!([verb, id, {"kinds": [1]}])).await;
            let frame = a.ws.next_frame().await;
            let Frame::Closed { sub, message } = &frame else {
                panic!("{verb} with {} bytes: {frame:?}", id.len());
            };
            assert_eq!(*sub, cut);
            assert!(message.starts_with("invalid: "), "{message}");
        }
    }
}

#[tokio::test]
async fn b09_ten_thousand_requests_are_counted_and_cost_little() {
    const REQUESTS: usize = 10_000;
    const GROWTH_KIB_MAX: u64 = 64 * 1024;
    let (relay, mut a) = open_relay().await;
    let info = http::info(&relay.endpoint()).await;
    let most = info["limitation"]["max_subscriptions"]
        .as_u64()
        .expect("a number");
    let before_kib = relay.resident_kib();
    let (mut opened, mut refused) = (0, 0);
    let ids: Vec<String> = (0..REQUESTS).map(|n| format!("{n:064}")).collect();
    for some in ids.chunks(64) {
        for id in some {
            a.ws.send(&json!(["REQ", id, {"kinds": [2], "limit": 0}]))
                .await;
        }
        for id in some {
            match a.ws.next_of(id).await {
                Frame::Eose { .. } => opened += 1,
                Frame::Closed { message, .. } => {
                    assert_eq!(message, "error: too many subscriptions");
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(opened, most);
    assert_eq!(refused, REQUESTS as u64 - most);
    let growth_kib = relay.resident_kib().saturating_sub(before_kib);
    assert!(growth_kib < GROWTH_KIB_MAX, "grew by {growth_kib} KiB");
    a.ws.close(&ids[0]).await;
    a.ws.subscribe("room again", &[json!({"ids": []})]).await;
}

/// Kinds that only some keys read, for somebody without a key and for the wrong key; 44100, 44101 and private channels have tests of
/// their own.
#[tokio::test]
async fn b12_private_kinds_leak_on_no_path() {
    let (relay, mut a) = open_relay().await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let mut c = Person::arrive(&relay.endpoint()).await;
    let mut anonymous = Client::open(&relay.endpoint()).await;
    let to_b = vec![tag(&["p", &b.pubkey.to_string()])];
    anonymous
        .subscribe("live", &[json!({"kinds": [1, 4, 1059], "limit": 0})])
        .await;
    c.ws.subscribe("live", &[json!({"kinds": [1, 4, 1059], "limit": 0})])
        .await;
    b.ws.subscribe(
        "live",
        &[json!({"kinds": [1, 4, 1059], "#p": [b.pubkey], "limit": 0})],
    )
    .await;
    let old = build::event(&a.key, 4, to_b.clone(), "for B");
    let old = a.ws.accept(old).await;
    let wrap = build::event(&a.key, 1059, to_b.clone(), "wrapped for B");
    let wrap = a.ws.accept(wrap).await;
    let public = build::event(&a.key, 1, to_b, "for all");
    let public = a.ws.accept(public).await;
    for expected in [&old, &wrap, &public] {
        assert_eq!(&b.ws.next_event("live").await, expected);
    }
    assert_eq!(c.ws.next_event("live").await, public, "only the public one");
    assert_eq!(
        anonymous.next_event("live").await,
        public,
        "only the public one"
    );

    let all = [old.id, wrap.id, public.id];
    for kinds in [json!([4]), json!([1059]), json!([4, 1059])] {
        let reason = anonymous.refused_req(&[json!({"kinds": kinds})]).await;
        assert!(reason.starts_with("auth-required: "), "{reason}");
        let count = anonymous.count(&[json!({"kinds": kinds})]).await;
        assert!(
            matches!(&count, Err(reason) if reason.starts_with("auth-required: ")),
            "{count:?}"
        );
        let reason =
            c.ws.refused_req(&[json!({"kinds": kinds, "#p": [b.pubkey]})])
                .await;
        assert!(reason.starts_with("restricted: "), "{reason}");
    }
    for filter in [
        json!({"kinds": [1, 4, 1059], "ids": all}),
        json!({"ids": all}),
        json!({"#p": [b.pubkey]}),
        json!({"authors": [a.pubkey]}),
    ] {
        assert_eq!(
            anonymous.stored(&filter).await,
            from_ref(&public),
            "{filter}"
        );
        assert_eq!(anonymous.count(&filter).await, Ok(1), "{filter}");
        assert_eq!(
            ids_everywhere(&mut c, &filter).await,
            [public.id],
            "{filter}"
        );
        assert_eq!(ids_everywhere(&mut b, &filter).await.len(), 3, "{filter}");
    }
    // The author of an old direct message reads it, the signer of a wrap does not.
    let of_a: BTreeSet<EventId> = ids_everywhere(&mut a, &[json!({"ids": all})])
        .await
        .into_iter()
        .collect();
    assert_eq!(of_a, BTreeSet::from([old.id, public.id]));
}

#[tokio::test]
async fn b15_the_limit_in_the_document_is_the_limit_that_is_enforced() {
    let (relay, mut a) = open_relay().await;
    let info = http::info(&relay.endpoint()).await;
    let most = info["limitation"]["max_limit"].as_u64().expect("a number");
    let by_default = info["limitation"]["default_limit"]
        .as_u64()
        .expect("a number");
    let stored = most + 5;
    let events: Vec<Event> = (0..stored).map(|n| note(&a, &format!("{n}"))).collect();
    a.ws.accept_all(&events).await;
    let mut cases = vec![
        (json!({"kinds": [1], "limit": stored}), most),
        (json!({"kinds": [1], "limit": most}), most),
        (json!({"kinds": [1], "limit": most - 1}), most - 1),
        (json!({"kinds": [1]}), by_default),
        (json!({"kinds": [1], "limit": 0}), 0),
    ];
    for (filter, expected) in cases.drain(..) {
        let rows = a.ws.stored(&filter).await;
        assert_eq!(rows.len() as u64, expected, "{filter}");
        let rows = a.http.rows(filter.clone()).await;
        assert_eq!(rows.len() as u64, expected, "{filter} over HTTP");
    }
    assert_eq!(a.ws.count(&[json!({"kinds": [1]})]).await, Ok(stored));
    // So are the number of filters and the size of a frame.
    let filters = info["limitation"]["max_filters"]
        .as_u64()
        .expect("a number") as usize;
    let empty = json!({"ids": []});
    a.ws.subscribe("filters", vec![empty.clone(); filters].as_slice())
        .await;
    let reason = a.ws.refused_req(vec![empty; filters + 1].as_slice()).await;
    assert_eq!(
        reason,
        format!(
            "invalid: REQ contains {} filters, maximum is {filters}",
            filters + 1
        )
    );
}

#[tokio::test]
async fn s05_a_second_auth_and_repeated_ids_do_no_harm_and_one_bad_filter_ends_the_request_at_once()
{
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    for _ in 0..3 {
        assert!(a.ws.auth(&a.key).await.accepted);
    }
    let channel = a.open_channel().await;
    for round in 0..50 {
        a.ws.subscribe(
            "same",
            &[json!({"kinds": [9], "#h": [channel], "limit": 0})],
        )
        .await;
        let message = a.chat(channel, &format!("round {round}")).await;
        assert_eq!(a.ws.next_event("same").await, message);
    }
    let bad = [
        json!({"kinds": [9]}),
        json!({"kinds": [44100]}),
        json!({"kinds": [9]}),
    ];
    a.ws.refused_req(&bad).await;
    let (_, end) =
        a.ws.req("same", &[json!({"kinds": [9]}), json!({"nonsense": 1})])
            .await;
    assert!(matches!(end, End::Closed(reason) if reason.starts_with("invalid: ")));
}

/// Publishing and the end of subscriptions at the same time on many connections: all of it gets its answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s06_delivery_and_closing_do_not_wait_for_each_other() {
    const READERS: usize = 8;
    const ROUNDS: usize = 60;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let mut a = Person::arrive(&endpoint).await;
    let channel = a.open_channel().await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut reader = Person::arrive(&endpoint).await;
        readers.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                let filter = json!({"kinds": [9], "#h": [channel]});
                reader.ws.subscribe("s", &filter).await;
                if round % 2 == 0 {
                    reader.ws.close("s").await;
                }
            }
            reader.ws.close("s").await;
            reader
        }));
    }
    for round in 0..ROUNDS {
        a.chat(channel, &format!("round {round}")).await;
    }
    let last = json!({"kinds": [9], "#h": [channel], "limit": 0});
    for (n, reader) in readers.into_iter().enumerate() {
        let mut reader = reader.await.expect("no reader panics");
        reader.ws.subscribe("last", &last).await;
        let message = a.chat(channel, &format!("last {n}")).await;
        assert_eq!(reader.ws.next_event("last").await, message);
    }
}

/// Subscriptions that are opened while somebody publishes: what their history does not have comes afterwards, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b20_an_event_between_history_and_eose_comes_exactly_once() {
    const EVENTS: usize = 300;
    const SUBSCRIPTIONS_MAX: usize = 400;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let events: Vec<Event> = (0..EVENTS)
        .map(|n| build::chat(&a.key, channel, &format!("{n}")))
        .collect();
    let mut expected: Vec<EventId> = events.iter().map(|event| event.id).collect();
    expected.sort();
    let writer = tokio::spawn(async move {
        for event in events {
            a.ws.accept(event).await;
        }
    });
    let filter = json!({"kinds": [9], "#h": [channel]});
    let mut subs = Vec::new();
    while !writer.is_finished() && subs.len() < SUBSCRIPTIONS_MAX {
        let sub = format!("{}", subs.len());
        let stored = b.ws.subscribe(&sub, &filter).await;
        subs.push((sub, stored));
    }
    writer.await.expect("every event is accepted");
    let mut under_way = 0;
    for (sub, stored) in subs {
        let mut seen: Vec<EventId> = stored.iter().map(|event| event.id).collect();
        under_way += usize::from(seen.len() < EVENTS);
        while seen.len() < EVENTS {
            seen.push(b.ws.next_event(&sub).await.id);
        }
        seen.sort();
        assert_eq!(seen, expected, "subscription {sub}");
    }
    assert!(
        under_way > 0,
        "no subscription was opened while events came"
    );
    b.ws.subscribe("end", &json!({"ids": []})).await;
    assert_eq!(b.ws.unread().count(), 0, "nothing came twice");
}

/// More requests at once than the store has readers for: each is answered, with its rows or with a reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s08_a_burst_of_requests_is_served_or_refused_and_never_forgotten() {
    const CONNECTIONS: usize = 40;
    const REQUESTS: usize = 40;
    const STORED: usize = 20;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let endpoint = relay.endpoint();
    let mut a = Person::arrive(&endpoint).await;
    let channel = a.open_channel().await;
    let events: Vec<Event> = (0..STORED)
        .map(|n| build::chat(&a.key, channel, &format!("{n}")))
        .collect();
    a.ws.accept_all(&events).await;
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = Client::login(&endpoint, &build::fresh_key()).await;
        tasks.push(tokio::spawn(async move {
            let filter = json!({"kinds": [9], "#h": [channel]});
            for n in 0..REQUESTS {
                client.send(&json!(["REQ", format!("{n}"), filter])).await;
            }
            let mut served = 0;
            for n in 0..REQUESTS {
                let (mut rows, sub) = (0, format!("{n}"));
                loop {
                    match client.next_of(&sub).await {
                        Frame::Event { .. } => rows += 1,
                        Frame::Eose { .. } => {
                            assert_eq!(rows, STORED, "an answer with EOSE is whole");
                            served += 1;
                            break;
                        }
                        Frame::Closed { message, .. } => {
                            assert!(message.starts_with("error: "), "{message}");
                            break;
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            served
        }));
    }
    let mut served = 0;
    for task in tasks {
        served += task.await.expect("every request is answered");
    }
    assert!(served > 0, "nothing was served");
    a.chat(channel, "after the burst").await;
}

#[tokio::test]
async fn s12_a_channel_named_twice_and_overlapping_filters_give_each_event_once() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let filters = [
        json!({"kinds": [9, 9], "#h": [channel, channel]}),
        json!({"kinds": [9], "authors": [a.pubkey, a.pubkey]}),
        json!({"kinds": [9, 45010]}),
    ];
    a.ws.subscribe("live", &filters).await;
    let first = a.chat(channel, "first").await;
    let artifact = a.artifact(channel).await;
    let second = a.chat(channel, "second").await;
    for expected in [&first, &artifact, &second] {
        assert_eq!(&a.ws.next_event("live").await, expected);
    }
    let seen = ids_everywhere(&mut a, &filters).await;
    let mut expected = vec![first.id, artifact.id, second.id];
    expected.sort();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn s23_eose_names_its_subscription() {
    let (_relay, mut a) = open_relay().await;
    let sub = "with \"quotes\" and 🎉";
    a.ws.send(&json!(["REQ", sub, {"ids": []}])).await;
    let expected = Frame::Eose {
        sub: sub.to_owned(),
    };
    assert_eq!(a.ws.next_frame().await, expected);
}

#[tokio::test]
async fn answers_are_sorted_newest_first_and_by_id_within_a_second() {
    let (_relay, mut a) = open_relay().await;
    let events: Vec<Event> = (0..40).map(|n| note(&a, &format!("{n}"))).collect();
    a.ws.accept_all(&events).await;
    let filter: Value = json!({"kinds": [1]});
    for rows in [
        a.ws.stored(&filter).await,
        a.http.rows(filter.clone()).await,
    ] {
        assert_eq!(rows.len(), 40);
        assert!(rows.is_sorted_by_key(|event| (std::cmp::Reverse(event.created_at), event.id)));
    }
}
