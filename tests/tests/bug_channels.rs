//! Public bug reports about channels, their members and what refusals give away. The cases are listed in `docs/bug-reports.md`.

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, PubKey, SecretKey};
use holdfast_tests::build::{self, Revision, tag};
use holdfast_tests::offline::Offline;
use holdfast_tests::person::Person;
use holdfast_tests::reads::{channels_everywhere, everywhere};
use holdfast_tests::relay::{Launch, Profile, RelayProcess};
use serde_json::json;

/// Everything that can be written to a channel, as a stranger sends it.
fn writes(key: &SecretKey, channel: &str) -> Vec<Event> {
    let h = tag(&["h", channel]);
    let p = tag(&["p", &build::fresh_key().public_key().to_string()]);
    let e = tag(&["e", &"e".repeat(64)]);
    let artifact = Revision {
        h: Some(channel.to_owned()),
        ..Revision::create(build::fresh_artifact(), build::fresh_channel())
    };
    let mut events: Vec<Event> = [
        (7, vec![h.clone(), e.clone()]),
        (9, vec![h.clone()]),
        (40_002, vec![h.clone()]),
        (45_001, vec![h.clone()]),
        (9000, vec![h.clone(), p.clone()]),
        (9001, vec![h.clone(), p]),
        (9002, vec![h.clone(), tag(&["name", "mine"])]),
        (9005, vec![h.clone(), e]),
        (9008, vec![h.clone()]),
        (9021, vec![h.clone()]),
        (9022, vec![h.clone()]),
        (20_001, vec![h]),
    ]
    .into_iter()
    .map(|(kind, tags)| build::event(key, kind, tags, "let me in"))
    .collect();
    events.push(artifact.sign(key));
    events
}

#[tokio::test]
async fn b13_what_is_unknown_and_what_is_unreadable_are_refused_in_the_same_bytes() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let private = a.private_channel(&[]).await;
    let archived = a.private_channel(&[]).await;
    let archive = build::archive(&a.key, archived, true);
    a.ws.accept(archive).await;
    let deleted = a.open_channel().await;
    let delete = build::delete_channel(&a.key, deleted);
    a.ws.accept(delete).await;
    let left = a.private_channel(&[b.pubkey]).await;
    a.remove(left, b.pubkey).await;
    let unknown = build::fresh_channel().to_string();
    let refusals = refusals_of(&mut b, &unknown).await;
    for (kind, reason, status, _) in &refusals {
        assert!(reason.starts_with("restricted: "), "kind {kind}: {reason}");
        assert_eq!(*status, 400, "kind {kind}");
        assert!(!reason.contains(&unknown), "kind {kind}: {reason}");
    }
    for (what, channel) in [
        ("private", private),
        ("archived", archived),
        ("deleted", deleted),
        ("left", left),
    ] {
        assert_eq!(
            refusals_of(&mut b, &channel.to_string()).await,
            refusals,
            "{what}"
        );
        for filter in [
            json!({"kinds": [9], "#h": [channel]}),
            // Without kinds, whoever left would find the notice of it, which is theirs to read.
            json!({"kinds": [7, 9], "#h": [channel, unknown]}),
        ] {
            assert_eq!(
                b.ws.refused_req(&filter).await,
                "restricted: not a channel member",
                "{what}"
            );
            assert_eq!(b.http.query(&filter).await.text(), "[]", "{what}");
            assert_eq!(b.http.count(&filter).await.count(), 0, "{what}");
            assert_eq!(b.ws.count(&filter).await, Ok(0), "{what}");
        }
    }
}

/// For each write its kind, the reason over WebSocket, and status and body over HTTP, without the event's own id.
async fn refusals_of(person: &mut Person, channel: &str) -> Vec<(u16, String, u16, String)> {
    let mut refusals = Vec::new();
    for event in writes(&person.key, channel) {
        let reason = person.ws.refuse(event.clone()).await;
        let answer = person.http.submit(&event).await;
        let body = answer.text().replace(&event.id.to_string(), "ID");
        refusals.push((event.kind, reason, answer.status, body));
    }
    refusals
}

#[tokio::test]
async fn b14_a_roster_lists_1501_members_and_each_of_them_finds_it() {
    const MEMBERS: usize = 1_500;
    let mut relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let key = a.key.clone();
    let channel = a.private_channel(&[]).await;
    let members: Vec<SecretKey> = (1..MEMBERS).map(|_| build::fresh_key()).collect();
    let keys: Vec<PubKey> = members.iter().map(SecretKey::public_key).collect();
    drop(a);
    Offline::open(&mut relay).add_members(channel, &keys);
    relay.restart();
    let mut a = Person::with_key(&relay.endpoint(), key).await;
    let last = build::fresh_key();
    a.add(channel, last.public_key(), None).await;
    let roster = everywhere(&mut a, &json!({"kinds": [39002], "#d": [channel]})).await;
    let listed: Vec<&str> = roster[0].tag_values("p").collect();
    assert_eq!(listed.len(), MEMBERS + 1);
    for (at, key) in [(0, &members[0]), (1_400, &members[1_400]), (MEMBERS, &last)] {
        let mut person = Person::with_key(&relay.endpoint(), key.clone()).await;
        assert!(
            listed.contains(&person.pubkey.to_string().as_str()),
            "member {at}"
        );
        let mine = json!({"kinds": [39002], "#p": [person.pubkey]});
        assert_eq!(
            channels_everywhere(&mut person, &mine).await,
            [channel.to_string()]
        );
        person.chat(channel, "here I am").await;
    }
}

#[tokio::test]
async fn s15_the_relays_own_key_is_a_member_like_any_other() {
    let own = build::key(77);
    let relay = Launch::new(Profile::Workspace)
        .env("HOLDFAST_RELAY_SECRET_KEY", own.reveal_hex())
        .start();
    let mut owner = Person::with_key(&relay.endpoint(), own).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = owner.open_channel().await;
    let join = build::join(&b.key, channel);
    b.ws.accept(join).await;
    for (kind, expected) in [(39001, 1), (39002, 2)] {
        let filter = json!({"kinds": [kind], "#d": [channel]});
        let state = everywhere(&mut b, &filter).await;
        let listed: Vec<&str> = state[0].tag_values("p").collect();
        assert_eq!(listed.len(), expected);
        assert_eq!(listed[0], owner.pubkey.to_string());
    }
}

#[tokio::test]
async fn s16_a_removal_counts_in_its_own_channel_and_commands_without_one_are_refused() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let first = a.private_channel(&[b.pubkey]).await;
    let second = a.private_channel(&[b.pubkey]).await;
    a.remove(first, b.pubkey).await;
    b.chat(second, "still a member here").await;
    let refused = build::chat(&b.key, first, "not here");
    b.ws.refuse(refused).await;
    // A removal that names an event of no channel, or no channel, is refused and harms nothing.
    let profile = build::event(&b.key, 0, Vec::new(), "{}");
    let profile = b.ws.accept(profile).await;
    let removal = build::remove_event(&b.key, second, profile.id);
    assert_eq!(
        b.ws.refuse(removal).await,
        "invalid: target event not found"
    );
    let nowhere = build::event(&b.key, 9005, vec![tag(&["e", &profile.id.to_string()])], "");
    assert_eq!(
        b.ws.refuse(nowhere).await,
        "invalid: channel-scoped events must include an h tag"
    );
    // An open channel is open and a private one is not.
    let open = a.open_channel().await;
    let join = build::join(&b.key, open);
    b.ws.accept(join).await;
    let join = build::join(&b.key, first);
    assert_eq!(b.ws.refuse(join).await, "restricted: channel is private");
    // A member moderates nobody, an admin does.
    let message = a.chat(second, "the owner's").await;
    let removal = build::remove_event(&b.key, second, message.id);
    b.ws.refuse(removal).await;
    let demote = build::put_user(&b.key, second, a.pubkey, Some("member"));
    b.ws.refuse(demote).await;
    assert_eq!(
        role_of(&mut b, second, a.pubkey).await.as_deref(),
        Some("owner")
    );
}

async fn role_of(person: &mut Person, channel: ChannelId, who: PubKey) -> Option<String> {
    let filter = json!({"kinds": [39002], "#d": [channel]});
    let roster = everywhere(person, &filter).await;
    let who = who.to_string();
    let listed = roster[0].tags_named("p").find(|tag| tag[1] == who);
    listed.map(|tag| tag[3].clone())
}
