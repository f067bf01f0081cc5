//! Notices of joining and leaving: what they say, who gets them, and the rule by which filters match them, on every read path.

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Draft, Event, EventId, PubKey, kinds};
use holdfast_tests::build::{self, tag};
use holdfast_tests::offline::Offline;
use holdfast_tests::person::{Person, ids};
use holdfast_tests::reads::{everywhere, ids_everywhere, with};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::{Value, json};

const LEGACY: [&str; 4] = ["stream", "forum", "dm", "workflow"];
const NOTICES: [u16; 2] = [kinds::MEMBER_ADDED, kinds::MEMBER_REMOVED];

async fn channel_of_type(person: &mut Person, channel_type: &str) -> ChannelId {
    let channel = build::fresh_channel();
    let event = build::create_channel(&person.key, channel, &[&["channel_type", channel_type]]);
    person.ws.accept(event).await;
    channel
}

/// A filter for somebody's notices with further keys.
fn notices_of(who: PubKey, more: Value) -> Value {
    with(json!({"kinds": NOTICES, "#p": [who]}), &more)
}

/// Every notice of a person, of the five known types.
async fn all_notices(person: &mut Person) -> Vec<Event> {
    let mut types = LEGACY.to_vec();
    types.push("system");
    let filter = notices_of(person.pubkey, json!({"#t": types}));
    let mut notices = everywhere(person, &[filter]).await;
    notices.sort_by_key(|notice| notice.created_at);
    notices
}

fn content(notice: &Event) -> Value {
    serde_json::from_str(&notice.content).expect("the content of a notice is JSON")
}

/// What a notice says, as (kind, channel, actor).
fn said(notice: &Event) -> (u16, String, String) {
    let content = content(notice);
    let text = |name: &str| content[name].as_str().expect("a text").to_owned();
    let word = match notice.kind {
        kinds::MEMBER_ADDED => "member_added",
        _ => "member_removed",
    };
    assert_eq!(content["type"], json!(word));
    assert_eq!(notice.first_value("h"), Some(text("channel_id").as_str()));
    (notice.kind, text("channel_id"), text("actor"))
}

#[tokio::test]
async fn every_command_that_moves_a_member_sends_one_typed_notice() {
    rules!("CL-NTC-1", "CL-NTC-2", "CL-NTC-4");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    for channel_type in ["stream", "forum", "workflow", "system"] {
        let mut a = Person::arrive(&relay.endpoint()).await;
        let mut b = Person::arrive(&relay.endpoint()).await;
        let channel = channel_of_type(&mut a, channel_type).await;
        a.add(channel, b.pubkey, Some("bot")).await;
        a.remove(channel, b.pubkey).await;
        let open = build::edit_channel(&a.key, channel, &[&["visibility", "open"]]);
        a.ws.accept(open).await;
        let join = build::join(&b.key, channel);
        b.ws.accept(join).await;
        let leave = build::leave(&b.key, channel);
        b.ws.accept(leave).await;
        let (key_a, key_b) = (a.pubkey.to_string(), b.pubkey.to_string());
        let of_a = all_notices(&mut a).await;
        let of_b = all_notices(&mut b).await;
        let expected_tags = |who: &str| {
            [
                tag(&["p", who]),
                tag(&["h", &channel.to_string()]),
                tag(&["t", channel_type]),
            ]
        };
        for (who, notices) in [(&key_a, &of_a), (&key_b, &of_b)] {
            for notice in notices {
                assert_eq!(notice.tags, expected_tags(who));
            }
        }
        let id = channel.to_string();
        assert_eq!(
            of_a.iter().map(said).collect::<Vec<_>>(),
            [(44100, id.clone(), key_a.clone())]
        );
        let mut of_b: Vec<_> = of_b.iter().map(said).collect();
        of_b.sort();
        let mut expected = vec![
            (44100, id.clone(), key_a.clone()),
            (44101, id.clone(), key_a),
            (44100, id.clone(), key_b.clone()),
            (44101, id, key_b),
        ];
        expected.sort();
        assert_eq!(of_b, expected);
    }
}

#[tokio::test]
async fn deletion_tells_every_member_and_so_does_the_end_of_an_archive() {
    rules!("CL-NTC-1");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let mut left = Person::arrive(&relay.endpoint()).await;
    let channel = a.private_channel(&[b.pubkey, left.pubkey]).await;
    a.remove(channel, left.pubkey).await;
    for archived in [true, false] {
        let command = build::archive(&a.key, channel, archived);
        a.ws.accept(command).await;
    }
    let delete = build::delete_channel(&a.key, channel);
    a.ws.accept(delete).await;
    for person in [&mut a, &mut b] {
        let kinds: Vec<u16> = all_notices(person).await.iter().map(|n| n.kind).collect();
        let added = kinds.iter().filter(|kind| **kind == 44100).count();
        let removed = kinds.iter().filter(|kind| **kind == 44101).count();
        assert_eq!((added, removed), (2, 1), "added, unarchived, deleted");
    }
    let kinds: Vec<u16> = all_notices(&mut left)
        .await
        .iter()
        .map(|n| n.kind)
        .collect();
    assert_eq!(kinds.len(), 2, "who has left hears nothing more: {kinds:?}");
}

/// H33 and CL-NTC-21: equal notices of one second are different events, and their times never run backwards.
#[tokio::test]
async fn equal_notices_of_one_second_are_all_kept_and_since_misses_none() {
    rules!("CL-NTC-4", "CL-NTC-12");
    const ROUNDS: usize = 8;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = a.private_channel(&[]).await;
    let live = notices_of(b.pubkey, json!({"limit": 0}));
    b.ws.subscribe("live", &[live]).await;
    let began = build::now();
    let mut arrived: Vec<Event> = Vec::new();
    for _ in 0..ROUNDS {
        a.add(channel, b.pubkey, None).await;
        arrived.push(b.ws.next_event("live").await);
        a.remove(channel, b.pubkey).await;
        arrived.push(b.ws.next_event("live").await);
    }
    let took_secs = build::now() - began;
    assert!(
        took_secs < ROUNDS as u64,
        "no two shared a second: {took_secs} s"
    );
    let mut distinct: Vec<EventId> = ids(&arrived);
    distinct.dedup();
    assert_eq!(distinct.len(), 2 * ROUNDS);
    assert!(arrived.is_sorted_by_key(|notice| notice.created_at));
    assert_eq!(ids(&all_notices(&mut b).await), distinct);
    // A client that comes back with the time of any notice finds all that followed it.
    for (at, notice) in arrived.iter().enumerate() {
        let missed = notices_of(b.pubkey, json!({"since": notice.created_at}));
        let seen = ids_everywhere(&mut b, &[missed]).await;
        assert!(arrived[at..].iter().all(|later| seen.contains(&later.id)));
    }
}

/// One notice each of a stream, a forum and a system channel for B.
struct Noticed {
    relay: RelayProcess,
    a: Person,
    b: Person,
    stream: EventId,
    forum: EventId,
    system: EventId,
    system_channel: ChannelId,
}

fn sorted(mut ids: Vec<EventId>) -> Vec<EventId> {
    ids.sort();
    ids
}

impl Noticed {
    async fn make() -> Noticed {
        let relay = RelayProcess::start(Profile::Workspace, &[]);
        let mut a = Person::arrive(&relay.endpoint()).await;
        let mut b = Person::arrive(&relay.endpoint()).await;
        let mut channels = Vec::new();
        for channel_type in ["stream", "forum", "system"] {
            let channel = channel_of_type(&mut a, channel_type).await;
            a.add(channel, b.pubkey, None).await;
            channels.push(channel);
        }
        let notices = all_notices(&mut b).await;
        let about = |channel: &ChannelId| {
            let found = notices.iter().find(|n| n.channel_tag() == Some(*channel));
            found.expect("one notice for each channel").id
        };
        Noticed {
            stream: about(&channels[0]),
            forum: about(&channels[1]),
            system: about(&channels[2]),
            system_channel: channels[2],
            relay,
            a,
            b,
        }
    }
}

#[tokio::test]
async fn a_filter_without_t_sees_the_four_old_types_and_one_with_t_what_it_names() {
    rules!(
        "CL-NTC-5",
        "CL-NTC-6",
        "CL-NTC-12",
        "CL-NTC-14",
        "CL-NTC-15",
        "CL-NTC-16"
    );
    let mut world = Noticed::make().await;
    let me = world.b.pubkey;
    let (stream, forum, system) = (world.stream, world.forum, world.system);
    let s = world.system_channel;
    let cases = [
        (json!({}), vec![stream, forum]),
        (json!({"#t": LEGACY}), vec![stream, forum]),
        (json!({"#t": ["system"]}), vec![system]),
        (json!({"#t": ["forum"]}), vec![forum]),
        (json!({"#t": ["system", "stream"]}), vec![system, stream]),
        (json!({"#t": ["dm", "workflow", "holo"]}), vec![]),
        (json!({"#t": []}), vec![]),
        // H30: naming the channel does not stand in for its type, and the type is enough.
        (json!({"#h": [s]}), vec![]),
        (json!({"#h": [s], "#t": ["system"]}), vec![system]),
        (json!({"ids": [stream, system]}), vec![stream]),
        (
            json!({"ids": [stream, system], "#t": ["system"]}),
            vec![system],
        ),
    ];
    for (more, expected) in cases {
        let filter = notices_of(me, more.clone());
        let expected = sorted(expected);
        assert_eq!(
            ids_everywhere(&mut world.b, &[filter]).await,
            expected,
            "{more}"
        );
    }
    // Filters that ask for notices among other kinds, or for any kind, follow the same rule.
    let kindless = json!({"#p": [me], "ids": [stream, system]});
    assert_eq!(ids_everywhere(&mut world.b, &[kindless]).await, [stream]);
    let own_ids = json!({"ids": [stream, system]});
    assert_eq!(ids_everywhere(&mut world.b, &[own_ids]).await, [stream]);
}

#[tokio::test]
async fn live_notices_follow_the_same_rule() {
    rules!("CL-NTC-13");
    let mut world = Noticed::make().await;
    let me = world.b.pubkey;
    let subs = [
        ("old", notices_of(me, json!({"limit": 0}))),
        (
            "system",
            notices_of(me, json!({"#t": ["system"], "limit": 0})),
        ),
        (
            "forum",
            notices_of(me, json!({"#t": ["forum"], "limit": 0})),
        ),
        (
            "all",
            notices_of(
                me,
                json!({"#t": ["stream", "forum", "dm", "workflow", "system"], "limit": 0}),
            ),
        ),
    ];
    for (sub, filter) in &subs {
        world.b.ws.subscribe(sub, filter).await;
    }
    // The order of the channels lets each subscription meet what it must not see before what it must.
    let (a, b) = (&mut world.a, &mut world.b);
    let mut seen = Vec::new();
    for channel_type in ["system", "forum", "stream", "system", "forum"] {
        let channel = channel_of_type(a, channel_type).await;
        a.add(channel, me, None).await;
        let notice = b.ws.next_event("all").await;
        assert_eq!(notice.first_value("t"), Some(channel_type));
        seen.push(notice);
    }
    for (sub, expected) in [
        ("old", [1, 2, 4].as_slice()),
        ("system", &[0, 3]),
        ("forum", &[1, 4]),
    ] {
        for &at in expected {
            assert_eq!(b.ws.next_event(sub).await, seen[at], "{sub}");
        }
    }
    assert_eq!(b.ws.unread().count(), 0);
}

/// A channel of a type that a later release invents.
#[tokio::test]
async fn notices_of_later_types_need_a_t_that_names_them() {
    rules!("CL-NTC-7");
    let mut world = Noticed::make().await;
    let (key_a, key_b) = (world.a.key.clone(), world.b.key.clone());
    let channel = world.a.open_channel().await;
    Offline::open(&mut world.relay).set_type(channel, "holo");
    world.relay.restart();
    let mut a = Person::with_key(&world.relay.endpoint(), key_a).await;
    let mut b = Person::with_key(&world.relay.endpoint(), key_b).await;
    let me = b.pubkey;
    b.ws.subscribe("old", &[notices_of(me, json!({"limit": 0}))])
        .await;
    let named = notices_of(me, json!({"#t": ["holo"]}));
    assert_eq!(b.ws.subscribe("holo", &named).await, []);
    a.add(channel, me, None).await;
    let notice = b.ws.next_event("holo").await;
    assert_eq!(notice.first_value("t"), Some("holo"));
    assert_eq!(ids_everywhere(&mut b, &[named]).await, [notice.id]);
    for more in [
        json!({}),
        json!({"#t": LEGACY}),
        json!({"#t": ["system"]}),
        json!({"#h": [channel]}),
    ] {
        let seen = ids_everywhere(&mut b, &[notices_of(me, more.clone())]).await;
        assert!(!seen.contains(&notice.id), "{more}");
    }
    let stream = a.open_channel().await;
    a.add(stream, me, None).await;
    let old = b.ws.next_event("old").await;
    assert_eq!(
        old.channel_tag(),
        Some(stream),
        "the later type came before"
    );
}

#[tokio::test]
async fn a_stored_notice_without_type_counts_as_every_old_type() {
    rules!("CL-NTC-8", "CL-NTC-9", "CL-NTC-10");
    let mut world = Noticed::make().await;
    let key_b = world.b.key.clone();
    let me = world.b.pubkey;
    let old = Draft {
        created_at: build::now(),
        kind: kinds::MEMBER_ADDED,
        tags: vec![
            tag(&["p", &me.to_string()]),
            tag(&["h", &build::fresh_channel().to_string()]),
        ],
        content: r#"{"type":"member_added"}"#.to_owned(),
    }
    .sign(&build::fresh_key());
    Offline::open(&mut world.relay).insert(&old, None);
    world.relay.restart();
    let mut b = Person::with_key(&world.relay.endpoint(), key_b).await;
    for found_by in [
        json!({}),
        json!({"#t": ["dm"]}),
        json!({"#t": ["system", "workflow"]}),
        json!({"ids": [old.id]}),
    ] {
        let seen = ids_everywhere(&mut b, &[notices_of(me, found_by.clone())]).await;
        assert!(seen.contains(&old.id), "{found_by}");
    }
    for missed_by in [
        json!({"#t": ["system"]}),
        json!({"#t": ["holo"]}),
        json!({"#t": []}),
    ] {
        let seen = ids_everywhere(&mut b, &[notices_of(me, missed_by.clone())]).await;
        assert!(!seen.contains(&old.id), "{missed_by}");
    }
}

#[tokio::test]
async fn other_kinds_in_the_same_filter_are_compared_by_their_tags() {
    rules!("CL-NTC-11");
    let mut world = Noticed::make().await;
    let me = world.b.pubkey;
    let channel = world.a.open_channel().await;
    let h = channel.to_string();
    let p = me.to_string();
    let a = &mut world.a;
    let tagged = build::event(
        &a.key,
        9,
        vec![tag(&["h", &h]), tag(&["p", &p]), tag(&["t", "forum"])],
        "tagged",
    );
    let tagged = a.ws.accept(tagged).await;
    let plain = build::event(&a.key, 9, vec![tag(&["h", &h]), tag(&["p", &p])], "plain");
    let plain = a.ws.accept(plain).await;
    let mixed = |more: &Value| with(json!({"kinds": [9, 44100], "#p": [me]}), more);
    let cases = [
        (
            json!({}),
            vec![tagged.id, plain.id, world.stream, world.forum],
        ),
        (json!({"#t": ["forum"]}), vec![tagged.id, world.forum]),
        (json!({"#t": ["x"]}), vec![]),
        (
            json!({"#t": ["system", "forum"]}),
            vec![tagged.id, world.forum, world.system],
        ),
    ];
    for (more, expected) in cases {
        let expected = sorted(expected);
        let seen = ids_everywhere(&mut world.b, &[mixed(&more)]).await;
        assert_eq!(seen, expected, "{more}");
    }
}

#[tokio::test]
async fn who_asks_for_notices_names_their_own_key_and_no_other() {
    rules!("CL-NTC-17");
    let mut world = Noticed::make().await;
    let (key_a, key_b) = (world.a.pubkey, world.b.pubkey);
    let own = world.stream;
    let b = &mut world.b;
    let refused = [
        json!({"kinds": [44100]}),
        json!({"kinds": [44100, 44101], "#p": [key_a]}),
        json!({"kinds": [44101], "#p": [key_b, key_a]}),
        json!({"kinds": [44100], "#p": []}),
        json!({"kinds": [44100, 1059]}),
        json!({"kinds": [44100], "ids": [own]}),
        json!({"kinds": [44100], "#h": [world.system_channel], "#t": ["system"]}),
    ];
    for filter in refused {
        assert_eq!(
            b.ws.refused_req(&filter).await,
            "restricted: p-gated events require #p matching your pubkey",
            "{filter}"
        );
        let text = "restricted: p-gated kinds require #p tag matching your pubkey";
        assert_eq!(b.ws.count(&filter).await, Err(text.to_owned()), "{filter}");
        for answer in [b.http.query(&filter).await, b.http.count(&filter).await] {
            assert_eq!(
                (answer.status, answer.error().as_str()),
                (403, text),
                "{filter}"
            );
        }
        // One such filter refuses the request it stands in.
        let beside = [json!({"kinds": [9]}), filter];
        b.ws.refused_req(&beside).await;
    }
}

/// Knowing the id, the channel or the author of somebody else's notice does not help, stored or live.
#[tokio::test]
async fn anothers_notice_is_neither_returned_nor_counted_nor_delivered() {
    rules!("CL-NTC-18");
    let mut world = Noticed::make().await;
    let (stream, system) = (world.stream, world.system);
    let key_b = world.b.pubkey;
    let s = world.system_channel;
    let a = &mut world.a;
    let relay_key = holdfast_tests::http::info(&world.relay.endpoint()).await["self"].clone();
    let probes = [
        json!({"ids": [stream, system]}),
        json!({"ids": [stream, system], "#t": ["system", "stream"]}),
        json!({"ids": [system], "#h": [s], "#t": ["system"]}),
        json!({"#p": [key_b], "#t": ["stream", "system"], "ids": [stream, system]}),
        json!({"kinds": [9, 44100], "ids": [stream]}),
        json!({"authors": [relay_key], "ids": [stream]}),
    ];
    for filter in &probes {
        assert_eq!(ids_everywhere(a, filter).await, [], "{filter}");
    }
    let kindless = json!({"#t": ["stream", "forum", "system"], "limit": 0});
    a.ws.subscribe("kindless", &[kindless]).await;
    a.ws.subscribe(
        "author",
        &[json!({"authors": [relay_key], "kinds": [9, 44100, 44101], "limit": 0})],
    )
    .await;
    let mine = notices_of(key_b, json!({"limit": 0}));
    world.b.ws.subscribe("mine", &[mine]).await;
    let channel = channel_of_type(a, "stream").await;
    for sub in ["kindless", "author"] {
        let own = next_notice(a, sub).await;
        assert_eq!(own.first_value("p"), Some(a.pubkey.to_string().as_str()));
    }
    a.add(channel, key_b, None).await;
    world.b.ws.next_event("mine").await;
    // A's own next notice comes after B's, which A must not have seen.
    let second = channel_of_type(a, "stream").await;
    for sub in ["kindless", "author"] {
        let own = next_notice(a, sub).await;
        assert_eq!(
            own.first_value("p"),
            Some(a.pubkey.to_string().as_str()),
            "{sub}"
        );
        assert_eq!(own.channel_tag(), Some(second), "{sub}");
    }
}

/// The next notice on a subscription that gets other kinds too.
async fn next_notice(person: &mut Person, sub: &str) -> Event {
    loop {
        let event = person.ws.next_event(sub).await;
        if NOTICES.contains(&event.kind) {
            return event;
        }
    }
}

/// A second key on the same connection gets its own notices as well.
#[tokio::test]
async fn every_key_of_a_connection_gets_its_own_notices() {
    rules!("CL-NTC-17");
    let mut world = Noticed::make().await;
    let (key_a, key_b) = (world.a.pubkey, world.b.pubkey);
    let verdict = world.a.ws.auth(&world.b.key).await;
    assert!(verdict.accepted, "{verdict:?}");
    let both = json!({"kinds": [44100], "#p": [key_a, key_b]});
    let seen = world.a.ws.stored(&[both]).await;
    let of = |who: PubKey| {
        let named = seen
            .iter()
            .filter(|n| n.first_value("p") == Some(who.to_string().as_str()));
        named.count()
    };
    assert_eq!((of(key_a), of(key_b)), (2, 2), "{seen:?}");
}
