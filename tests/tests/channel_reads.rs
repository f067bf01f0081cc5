//! Which channels a filter reaches: naming, leaving out, asking for system channels, each filter alone, on every read path.

use std::slice::from_ref;

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::Event;
use holdfast_tests::build::{self, Revision, tag};
use holdfast_tests::client::Endpoint;
use holdfast_tests::offline::Offline;
use holdfast_tests::person::{Person, artifact_of, ids, view};
use holdfast_tests::reads::{channels_everywhere, everywhere, ids_everywhere, with};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::{Value, json};

const NOT_A_MEMBER: &str = "restricted: not a channel member";

async fn channel_of_type(person: &mut Person, channel_type: &str, visibility: &str) -> ChannelId {
    let channel = build::fresh_channel();
    let tags: &[&[&str]] = &[&["channel_type", channel_type], &["visibility", visibility]];
    let event = build::create_channel(&person.key, channel, tags);
    person.ws.accept(event).await;
    channel
}

/// A, who owns an ordinary channel `c` and a private system channel `s`, with a message and an artifact in each.
struct Pair {
    a: Person,
    c: ChannelId,
    s: ChannelId,
    message_c: Event,
    message_s: Event,
    artifact_c: Event,
    artifact_s: Event,
}

impl Pair {
    async fn make(endpoint: &Endpoint) -> Pair {
        let mut a = Person::arrive(endpoint).await;
        let c = channel_of_type(&mut a, "stream", "open").await;
        let s = channel_of_type(&mut a, "system", "private").await;
        let thread = build::chat(&a.key, c, "a thread");
        let thread = a.ws.accept(thread).await;
        let message_c = build::reply(&a.key, c, thread.id, "in C");
        let message_s = build::reply(&a.key, s, thread.id, "in S");
        Pair {
            message_c: a.ws.accept(message_c).await,
            message_s: a.ws.accept(message_s).await,
            artifact_c: a.artifact(c).await,
            artifact_s: a.artifact(s).await,
            a,
            c,
            s,
        }
    }
}

fn texts(channels: &[ChannelId]) -> Vec<String> {
    let mut texts: Vec<String> = channels.iter().map(ChannelId::to_string).collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn a_member_of_a_system_channel_meets_it_only_by_name() {
    rules!("CL-SYS-5", "CL-SYS-7", "CL-SYS-8", "CL-SYS-9", "CL-SYS-13");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut pair = Pair::make(&relay.endpoint()).await;
    let (c, s) = (pair.c, pair.s);
    let me = pair.a.pubkey;
    let (in_c, in_s) = (pair.message_c.id, pair.message_s.id);
    let thread = pair.message_c.first_value("e").expect("a reply").to_owned();
    let a = &mut pair.a;
    let only_c = [
        json!({"ids": [in_c, in_s]}),
        json!({"#e": [thread]}),
        json!({"authors": [me], "kinds": [9], "#e": [thread]}),
        json!({"kinds": [9], "since": 1, "#e": [thread]}),
    ];
    for filter in only_c {
        assert_eq!(ids_everywhere(a, &filter).await, [in_c], "{filter}");
    }
    let unnamed = [
        json!({"kinds": [39000]}),
        json!({"kinds": [39002], "#p": [me]}),
        json!({"kinds": [39001, 9007], "authors": [me]}),
        json!({"kinds": [45010], "authors": [me]}),
        json!({"authors": [me]}),
        json!({}),
    ];
    for filter in unnamed {
        let seen = everywhere(a, &filter).await;
        assert!(
            seen.iter().all(|event| {
                let names_s = |name| event.tag_values(name).any(|value| value == s.to_string());
                !names_s("h") && !names_s("d")
            }),
            "{filter} reaches S: {seen:?}"
        );
    }
    assert_eq!(
        channels_everywhere(a, &[json!({"kinds": [39002], "#p": [me]})]).await,
        texts(&[c])
    );
    let named = json!({"kinds": [9], "#h": [s]});
    assert_eq!(ids_everywhere(a, &[named]).await, [in_s]);
    let named_id = json!({"ids": [in_c, in_s], "#h": [s]});
    assert_eq!(ids_everywhere(a, &[named_id]).await, [in_s]);
}

#[tokio::test]
async fn artifact_views_leave_system_channels_out_unless_h_names_them() {
    rules!("CL-SYS-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut pair = Pair::make(&relay.endpoint()).await;
    let (artifact_c, artifact_s) = (pair.artifact_c.clone(), pair.artifact_s.clone());
    let (d_c, d_s) = (artifact_of(&artifact_c), artifact_of(&artifact_s));
    let s = pair.s;
    let http = pair.a.http.clone();
    for name in ["current", "history", "head"] {
        let of = |more: Value| view(name, with(json!({"#d": [d_c, d_s]}), &more));
        let unnamed = of(json!({}));
        assert_eq!(
            http.rows(unnamed.clone()).await,
            from_ref(&artifact_c),
            "{name}"
        );
        assert_eq!(http.count(&[unnamed]).await.count(), 1, "{name}");
        let named = of(json!({"#h": [s]}));
        assert_eq!(
            http.rows(named.clone()).await,
            from_ref(&artifact_s),
            "{name}"
        );
        assert_eq!(http.count(&[named]).await.count(), 1, "{name}");
    }
    // An artifact whose id is a channel's id does not name that channel.
    let twin = holdfast_core::ids::ArtifactId(s.0);
    let revision = Revision::create(twin, s);
    pair.a.write(&revision).await;
    assert_eq!(pair.a.head(twin).await, []);
}

/// A control subscription that names S shows when the node has dealt with an event of S; a later event of C on the same
/// subscription shows that nothing of S came before it.
#[tokio::test]
async fn live_delivery_leaves_out_what_stored_reads_leave_out() {
    rules!("CL-SYS-12", "CL-SYS-18");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut pair = Pair::make(&relay.endpoint()).await;
    let (c, s) = (pair.c, pair.s);
    let me = pair.a.pubkey;
    let a = &mut pair.a;
    let tests = [
        ("kinds", vec![json!({"kinds": [9], "limit": 0})]),
        ("all", vec![json!({"limit": 0})]),
        ("authors", vec![json!({"authors": [me], "limit": 0})]),
        (
            "beside",
            vec![
                json!({"kinds": [7], "#h": [s], "limit": 0}),
                json!({"kinds": [9], "limit": 0}),
            ],
        ),
    ];
    for (sub, filters) in &tests {
        a.ws.subscribe(sub, filters.as_slice()).await;
    }
    let control = json!({"kinds": [9, 45010], "#h": [s], "limit": 0});
    a.ws.subscribe("control", &[control]).await;
    let in_s = a.chat(s, "live in S").await;
    assert_eq!(a.ws.next_event("control").await, in_s);
    let artifact_s = a.artifact(s).await;
    assert_eq!(a.ws.next_event("control").await, artifact_s);
    let in_c = a.chat(c, "live in C").await;
    for (sub, _) in &tests {
        assert_eq!(a.ws.next_event(sub).await, in_c, "{sub}");
    }
    // What names S by its own filter is delivered there, once.
    let reaction = build::event(
        &a.key,
        7,
        vec![
            tag(&["h", &s.to_string()]),
            tag(&["e", &in_s.id.to_string()]),
        ],
        "+",
    );
    let reaction = a.ws.accept(reaction).await;
    assert_eq!(a.ws.next_event("beside").await, reaction);
    let last = a.chat(c, "last").await;
    for (sub, _) in &tests {
        assert_eq!(a.ws.next_event(sub).await, last, "{sub}");
    }
}

#[tokio::test]
async fn d_names_a_channel_only_where_all_kinds_are_channel_state() {
    rules!("CL-SYS-14", "CL-SYS-15");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut pair = Pair::make(&relay.endpoint()).await;
    let s = pair.s;
    let a = &mut pair.a;
    for kinds in [json!([39000]), json!([39002, 39000]), json!([39003, 39001])] {
        let filter = json!({"kinds": kinds, "#d": [s]});
        let seen = everywhere(a, &filter).await;
        assert!(!seen.is_empty(), "{filter}");
        assert!(seen.iter().all(|event| event.d_value() == s.to_string()));
    }
    let naming_nothing = [
        json!({"kinds": [39000, 9], "#d": [s]}),
        json!({"kinds": [39000, 39002, 39004], "#d": [s]}),
        json!({"#d": [s]}),
        json!({"kinds": [], "#d": [s]}),
    ];
    for filter in naming_nothing {
        assert_eq!(ids_everywhere(a, &filter).await, [], "{filter}");
    }
}

#[tokio::test]
async fn a_named_system_channel_follows_the_plain_read_rule() {
    rules!("CL-SYS-16", "CL-ASK-10");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let open = channel_of_type(&mut a, "system", "open").await;
    let private = channel_of_type(&mut a, "system", "private").await;
    let in_open = a.chat(open, "for all").await;
    a.chat(private, "for members").await;
    let named = json!({"kinds": [9], "#h": [open]});
    assert_eq!(ids_everywhere(&mut b, &[named]).await, [in_open.id]);
    let both = json!({"kinds": [9], "#h": [open, private]});
    assert_eq!(ids_everywhere(&mut b, &[both]).await, [in_open.id]);
    let closed = json!({"kinds": [9], "#h": [private]});
    assert_eq!(b.ws.refused_req(&closed).await, NOT_A_MEMBER);
    assert_eq!(b.http.rows(closed.clone()).await, []);
    assert_eq!(b.http.count(&[closed]).await.count(), 0);
    let asking = [
        json!({"kinds": [39000], "#d": [private]}),
        json!({"kinds": [39000, 39001, 39002], "#t": ["system"], "#d": [private]}),
        json!({"kinds": [39000], "#t": ["system"]}),
        json!({"kinds": [39000], "#P": [a.pubkey]}),
        json!({"kinds": [39000], "#P": [a.pubkey], "#t": ["system"]}),
        json!({"kinds": [39002], "#p": [a.pubkey], "#t": ["system"]}),
    ];
    for filter in asking {
        let seen = channels_everywhere(&mut b, &filter).await;
        assert!(!seen.contains(&private.to_string()), "{filter}");
    }
    a.add(private, b.pubkey, Some("guest")).await;
    let member = json!({"kinds": [39000], "#t": ["system"]});
    assert_eq!(
        channels_everywhere(&mut b, &[member]).await,
        texts(&[open, private])
    );
}

#[tokio::test]
async fn naming_in_one_filter_adds_nothing_to_its_neighbours() {
    rules!("CL-SYS-18");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut pair = Pair::make(&relay.endpoint()).await;
    let (c, s) = (pair.c, pair.s);
    let message_c = pair.message_c.clone();
    let a = &mut pair.a;
    let newest = build::event(&a.key, 9, vec![tag(&["h", &s.to_string()])], "newest in S");
    let newest = a.ws.accept(newest).await;
    let filters = [
        json!({"kinds": [9], "#h": [s], "limit": 1}),
        json!({"kinds": [9], "#e": [message_c.first_value("e")]}),
    ];
    let seen = ids_everywhere(a, &filters).await;
    let limited = json!({"kinds": [9], "#h": [s], "limit": 1});
    let [first] = a.ws.stored(&[limited]).await.try_into().expect("limit 1");
    assert_eq!(seen, ids([&first, &message_c]));
    // Counts are of the union, each event once.
    let union = [
        json!({"ids": [newest.id], "#h": [s]}),
        json!({"ids": [newest.id, message_c.id]}),
        json!({"ids": [message_c.id], "#h": [c]}),
    ];
    assert_eq!(ids_everywhere(a, &union).await, ids([&newest, &message_c]));
    // Nor does asking in one filter open the door for the next.
    let beside = [
        json!({"kinds": [39000], "#t": ["system"]}),
        json!({"kinds": [39002], "#p": [a.pubkey]}),
    ];
    let seen = everywhere(a, &beside).await;
    let rosters: Vec<&str> = seen
        .iter()
        .filter(|event| event.kind == 39002)
        .map(Event::d_value)
        .collect();
    assert_eq!(rosters, [c.to_string()]);
}

/// A store that a later release has written holds a channel of a type this release does not know.
#[tokio::test]
async fn types_of_later_releases_are_named_only_for_members_too() {
    rules!("CL-SYS-6", "CL-SYS-17", "CL-SYS-19");
    let mut relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let key = a.key.clone();
    let c = channel_of_type(&mut a, "stream", "open").await;
    let x = channel_of_type(&mut a, "stream", "open").await;
    let in_c = a.chat(c, "in C").await;
    let in_x = a.chat(x, "in X").await;
    drop(a);
    Offline::open(&mut relay).set_type(x, "holo");
    relay.restart();
    let mut a = Person::with_key(&relay.endpoint(), key.clone()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    // The state says so from the next change on.
    let rename = build::edit_channel(&a.key, x, &[&["name", "holo"]]);
    a.ws.accept(rename).await;
    for person in [&mut a, &mut b] {
        let unnamed = json!({"kinds": [9], "ids": [in_c.id, in_x.id]});
        assert_eq!(ids_everywhere(person, &[unnamed]).await, [in_c.id]);
        let asking = [
            json!({"kinds": [39000]}),
            json!({"kinds": [39000], "#t": ["system", "stream", "holo"]}),
            json!({"kinds": [39000, 39002], "#P": [key.public_key()]}),
            json!({"kinds": [39002], "#p": [key.public_key()]}),
        ];
        for filter in asking {
            let seen = channels_everywhere(person, &filter).await;
            assert!(seen.contains(&c.to_string()), "{filter}");
            assert!(!seen.contains(&x.to_string()), "{filter}");
        }
        let named = json!({"kinds": [9], "#h": [x]});
        assert_eq!(ids_everywhere(person, &[named]).await, [in_x.id]);
        let named = everywhere(person, &[json!({"kinds": [39000], "#d": [x]})]).await;
        assert_eq!(named[0].first_value("t"), Some("holo"));
    }
    b.ws.subscribe("unnamed", &[json!({"kinds": [9], "limit": 0})])
        .await;
    b.ws.subscribe("named", &[json!({"kinds": [9], "#h": [x], "limit": 0})])
        .await;
    let live_x = a.chat(x, "live in X").await;
    assert_eq!(b.ws.next_event("named").await, live_x);
    let live_c = a.chat(c, "live in C").await;
    assert_eq!(b.ws.next_event("unnamed").await, live_c);
}

#[tokio::test]
async fn asking_by_type_or_creator_opens_the_door_and_the_filter_still_holds() {
    rules!("CL-ASK-1", "CL-ASK-2", "CL-ASK-3", "CL-ASK-5", "CL-ASK-8");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let c_a = channel_of_type(&mut a, "stream", "open").await;
    let open_a = channel_of_type(&mut a, "system", "open").await;
    let private_a = channel_of_type(&mut a, "system", "private").await;
    let c_b = channel_of_type(&mut b, "forum", "open").await;
    let open_b = channel_of_type(&mut b, "system", "open").await;
    let private_b = channel_of_type(&mut b, "system", "private").await;
    b.add(private_b, a.pubkey, None).await;
    let by_type = json!({"kinds": [39000], "#t": ["system"]});
    assert_eq!(
        channels_everywhere(&mut a, &by_type).await,
        texts(&[open_a, private_a, open_b, private_b])
    );
    assert_eq!(
        channels_everywhere(&mut b, &[by_type]).await,
        texts(&[open_a, open_b, private_b])
    );
    let by_a = json!({"kinds": [39000], "#P": [a.pubkey]});
    let by_b = json!({"kinds": [39000], "#P": [b.pubkey]});
    assert_eq!(
        channels_everywhere(&mut a, &[by_a]).await,
        texts(&[c_a, open_a, private_a])
    );
    assert_eq!(
        channels_everywhere(&mut a, &[by_b]).await,
        texts(&[c_b, open_b, private_b])
    );
    let wrong_type =
        json!({"kinds": [39000], "#t": ["system"], "#P": [b.pubkey], "#p": [a.pubkey]});
    assert_eq!(channels_everywhere(&mut a, &[wrong_type]).await, texts(&[]));
    let not_asking = [
        json!({"kinds": [39000, 9], "#t": ["system"]}),
        json!({"kinds": [39000, 39004], "#P": [a.pubkey]}),
        json!({"#P": [a.pubkey]}),
        json!({"#t": ["system"], "#P": [a.pubkey]}),
        json!({"kinds": [39000], "#P": []}),
        json!({"kinds": [], "#P": [a.pubkey]}),
        json!({"kinds": [39000], "#p": [a.pubkey]}),
    ];
    for filter in not_asking {
        let seen = everywhere(&mut a, &filter).await;
        let system = seen
            .iter()
            .find(|event| event.first_value("t") == Some("system"));
        assert_eq!(system, None, "{filter}");
    }
}

/// A label alone is no way of asking. The labelled state is put into the store as a relay with labels would have signed it.
#[tokio::test]
async fn a_label_alone_asks_for_nothing() {
    rules!("CL-ASK-4");
    let mut relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let key = a.key.clone();
    let c = channel_of_type(&mut a, "stream", "open").await;
    let s = channel_of_type(&mut a, "system", "open").await;
    drop(a);
    let offline = Offline::open(&mut relay);
    for (channel, channel_type) in [(c, "stream"), (s, "system")] {
        let tags = vec![
            tag(&["d", &channel.to_string()]),
            tag(&["t", channel_type]),
            tag(&["t", "config"]),
            tag(&["P", &key.public_key().to_string()]),
        ];
        let labelled = build::event(&build::fresh_key(), 39000, tags, "");
        offline.insert(&labelled, Some(channel));
    }
    drop(offline);
    relay.restart();
    let mut a = Person::with_key(&relay.endpoint(), key).await;
    let label = json!({"kinds": [39000], "#t": ["config"]});
    assert_eq!(channels_everywhere(&mut a, &[label]).await, texts(&[c]));
    let label_of_creator = json!({"kinds": [39000], "#t": ["config"], "#P": [a.pubkey]});
    assert_eq!(
        channels_everywhere(&mut a, &[label_of_creator]).await,
        texts(&[c, s])
    );
}

#[tokio::test]
async fn ones_own_system_channels_are_found_in_two_steps() {
    rules!("CL-ASK-7");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let theirs = channel_of_type(&mut a, "system", "open").await;
    let mine = channel_of_type(&mut a, "system", "private").await;
    let stream = channel_of_type(&mut a, "stream", "private").await;
    a.add(mine, b.pubkey, None).await;
    a.add(stream, b.pubkey, None).await;
    let first = json!({"kinds": [39002], "#p": [b.pubkey], "#t": ["system"]});
    let found = channels_everywhere(&mut b, &[first]).await;
    assert_eq!(found, texts(&[mine]), "{theirs} is not B's");
    let second = json!({"kinds": [39000], "#d": found});
    let described = everywhere(&mut b, &[second]).await;
    assert_eq!(described.len(), 1);
    assert_eq!(described[0].first_value("t"), Some("system"));
}

#[tokio::test]
async fn channels_are_found_by_creator_and_type_as_far_as_the_reader_may_read() {
    rules!(
        "CL-FIND-1",
        "CL-FIND-3",
        "CL-FIND-4",
        "CL-FIND-6",
        "CL-FIND-9"
    );
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let stream = channel_of_type(&mut a, "stream", "open").await;
    let forum = channel_of_type(&mut a, "forum", "open").await;
    let secret = channel_of_type(&mut a, "stream", "private").await;
    let foreign = channel_of_type(&mut b, "forum", "open").await;
    let workflow = channel_of_type(&mut b, "workflow", "open").await;
    let find = |more: &Value| with(json!({"kinds": [39000]}), more);
    let (key_a, key_b) = (a.pubkey, b.pubkey);
    let for_a = [
        (json!({"#P": [key_a]}), texts(&[stream, forum, secret])),
        (json!({"#t": ["stream"]}), texts(&[stream, secret])),
        (
            json!({"#P": [key_a], "#t": ["stream"]}),
            texts(&[stream, secret]),
        ),
    ];
    for (more, expected) in for_a {
        assert_eq!(
            channels_everywhere(&mut a, &[find(&more)]).await,
            expected,
            "{more}"
        );
    }
    let for_b = [
        (json!({"#P": [key_a]}), texts(&[stream, forum])),
        (json!({"#t": ["forum"]}), texts(&[forum, foreign])),
        (json!({"#t": ["forum"], "#P": [key_a]}), texts(&[forum])),
        (
            json!({"#t": ["forum", "workflow"]}),
            texts(&[forum, foreign, workflow]),
        ),
        (
            json!({"#P": [key_a, key_b], "#t": ["forum"]}),
            texts(&[forum, foreign]),
        ),
        (json!({"#t": ["Forum"]}), texts(&[])),
        (json!({"#p": [key_a]}), texts(&[])),
        (json!({"#T": ["forum"]}), texts(&[])),
    ];
    for (more, expected) in for_b {
        assert_eq!(
            channels_everywhere(&mut b, &[find(&more)]).await,
            expected,
            "{more}"
        );
    }
}

#[tokio::test]
async fn a_channel_without_a_known_creator_answers_no_creator_query() {
    rules!("CL-FIND-5");
    let mut relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let key = a.key.clone();
    let old = channel_of_type(&mut a, "stream", "open").await;
    let new = channel_of_type(&mut a, "stream", "open").await;
    drop(a);
    Offline::open(&mut relay).forget_creator(old);
    relay.restart();
    let mut a = Person::with_key(&relay.endpoint(), key).await;
    let edit = build::edit_channel(&a.key, old, &[&["name", "old"]]);
    a.ws.accept(edit).await;
    let all = everywhere(&mut a, &[json!({"kinds": [39000], "#d": [old]})]).await;
    assert_eq!(all[0].tag_values("P").count(), 0, "no creator is invented");
    let by_creator = json!({"kinds": [39000], "#P": [a.pubkey]});
    assert_eq!(
        channels_everywhere(&mut a, &[by_creator]).await,
        texts(&[new])
    );
}

/// 7 forums and one foreign channel under 1,300 newer channels that match nothing.
#[tokio::test]
async fn limits_count_what_matches() {
    rules!("CL-FIND-7", "CL-FIND-8");
    const FORUMS: usize = 7;
    const NEWER: usize = 1_300;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let mut forums = Vec::new();
    for _ in 0..FORUMS {
        forums.push(channel_of_type(&mut a, "forum", "open").await);
    }
    let single = channel_of_type(&mut b, "stream", "open").await;
    let newer = (0..NEWER).map(|_| build::create_channel(&a.key, build::fresh_channel(), &[]));
    let newer: Vec<Event> = newer.collect();
    a.ws.accept_all(&newer).await;

    let find = |more: Value, limit: u32| with(json!({"kinds": [39000], "limit": limit}), &more);
    for limit in [1, 5, 7, 10] {
        let filter = find(json!({"#t": ["forum"]}), limit);
        let seen = channels_everywhere(&mut b, &[filter]).await;
        assert_eq!(seen.len(), FORUMS.min(limit as usize), "limit {limit}");
        assert!(seen.iter().all(|d| texts(&forums).contains(d)));
    }
    let by_creator = find(json!({"#P": [b.pubkey]}), 10);
    assert_eq!(
        channels_everywhere(&mut a, &[by_creator]).await,
        texts(&[single])
    );
    let both = find(json!({"#P": [a.pubkey], "#t": ["forum"]}), 10);
    assert_eq!(channels_everywhere(&mut b, &[both]).await, texts(&forums));
    let roster = json!({"kinds": [39002], "#p": [b.pubkey], "limit": 1});
    assert_eq!(
        channels_everywhere(&mut b, &[roster]).await,
        texts(&[single])
    );
    let full = json!({"kinds": [39000], "limit": 1_000});
    assert_eq!(b.ws.stored(&[full]).await.len(), 1_000);
}
