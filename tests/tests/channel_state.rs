//! What the relay signs about a channel: identity tags, their order and their life, and the stamps of state events.

use std::slice::from_ref;

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, Kind, PubKey, kinds};
use holdfast_tests::build::{self, Revision, tag};
use holdfast_tests::http;
use holdfast_tests::person::Person;
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

const STATE_KINDS: [Kind; 3] = [
    kinds::CHANNEL_METADATA,
    kinds::CHANNEL_ADMINS,
    kinds::CHANNEL_MEMBERS,
];

/// The three state events of a channel, in the order of their kinds. There must be exactly three.
async fn state(person: &mut Person, channel: ChannelId) -> [Event; 3] {
    let filter = json!({"kinds": STATE_KINDS, "#d": [channel]});
    let mut events = person.ws.stored(&[filter]).await;
    events.sort_by_key(|event| event.kind);
    let kinds: Vec<Kind> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, STATE_KINDS, "one state event of each kind");
    events.try_into().expect("there are three")
}

async fn metadata(person: &mut Person, channel: ChannelId) -> Event {
    let [metadata, _, _] = state(person, channel).await;
    metadata
}

/// The tags named `t` and `P`, in their order.
fn identity(event: &Event) -> Vec<Vec<String>> {
    let named = |tag: &&Vec<String>| tag[0] == "t" || tag[0] == "P";
    event.tags.iter().filter(named).cloned().collect()
}

fn has_bare(event: &Event, name: &str) -> bool {
    event.tags.contains(&tag(&[name]))
}

/// Creates a channel with these tags beside `h` and `name`.
async fn channel_with(person: &mut Person, further: &[&[&str]]) -> ChannelId {
    let channel = build::fresh_channel();
    let event = build::create_channel(&person.key, channel, further);
    person.ws.accept(event).await;
    channel
}

async fn edit(person: &mut Person, channel: ChannelId, edits: &[&[&str]]) {
    let event = build::edit_channel(&person.key, channel, edits);
    person.ws.accept(event).await;
}

#[tokio::test]
async fn each_state_event_tells_type_then_creator_before_any_other_t_or_p() {
    rules!("CL-ID-1", "CL-ID-2", "CL-ID-3", "CL-ID-4", "CL-ID-6");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let relay_key = http::info(&relay.endpoint()).await["self"].clone();
    for channel_type in ["stream", "forum", "workflow", "system"] {
        let channel = channel_with(&mut a, &[&["channel_type", channel_type]]).await;
        for event in state(&mut a, channel).await {
            assert_eq!(
                identity(&event),
                [
                    tag(&["t", channel_type]),
                    tag(&["P", &a.pubkey.to_string()])
                ],
                "kind {} of a {channel_type}",
                event.kind
            );
            assert_eq!(json!(event.pubkey), relay_key, "the relay signs it");
            assert_eq!(event.content, "");
            assert_eq!(event.d_value(), channel.to_string());
        }
    }
    let default = channel_with(&mut a, &[]).await;
    let [metadata, _, _] = state(&mut a, default).await;
    assert_eq!(identity(&metadata)[0], tag(&["t", "stream"]));
}

#[tokio::test]
async fn a_p_tag_in_a_command_makes_nobody_the_creator() {
    rules!("CL-ID-7");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let other = build::fresh_key().public_key().to_string();
    let creator = [tag(&["t", "stream"]), tag(&["P", &a.pubkey.to_string()])];
    let channel = channel_with(&mut a, &[&["P", &other]]).await;
    for event in state(&mut a, channel).await {
        assert_eq!(identity(&event), creator);
    }
    edit(&mut a, channel, &[&["name", "renamed"], &["P", &other]]).await;
    for event in state(&mut a, channel).await {
        assert_eq!(identity(&event), creator);
    }
}

#[tokio::test]
async fn the_creator_stays_when_the_channel_goes_to_another_owner_who_edits_it() {
    rules!("CL-ID-8", "CL-ID-9");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let creator = tag(&["P", &a.pubkey.to_string()]);
    a.add(channel, b.pubkey, Some("admin")).await;
    edit(&mut b, channel, &[&["name", "renamed by an admin"]]).await;
    assert_eq!(identity(&metadata(&mut b, channel).await)[1], creator);
    a.add(channel, b.pubkey, Some("owner")).await;
    let leave = build::leave(&a.key, channel);
    a.ws.accept(leave).await;
    edit(&mut b, channel, &[&["about", "mine now"]]).await;
    let [metadata, admins, members] = state(&mut b, channel).await;
    assert_eq!(metadata.first_value("about"), Some("mine now"));
    for event in [&metadata, &admins, &members] {
        assert_eq!(&identity(event)[1..], from_ref(&creator));
        let lists_a = event.tag_values("p").any(|p| p == a.pubkey.to_string());
        assert!(!lists_a, "A has left: {}", event.to_json());
    }
    assert_eq!(
        admins.tags.last(),
        Some(&tag(&["p", &b.pubkey.to_string(), "owner"]))
    );
}

#[tokio::test]
async fn the_creation_time_stands_on_the_metadata_and_no_edit_moves_it() {
    rules!("CL-ID-10", "CL-ID-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let before = build::now();
    let channel = a.open_channel().await;
    let after = build::now();
    let first = metadata(&mut a, channel).await;
    let created_at = first.only_value("created_at").expect("one tag").to_owned();
    let seconds: u64 = created_at.parse().expect("decimal seconds");
    assert_eq!(
        seconds.to_string(),
        created_at,
        "written as a plain decimal"
    );
    assert!((before..=after).contains(&seconds));
    let mut newest = first;
    for name in ["second name", "third name"] {
        edit(&mut a, channel, &[&["name", name], &["created_at", "1"]]).await;
        let next = metadata(&mut a, channel).await;
        assert_eq!(next.first_value("name"), Some(name));
        assert_eq!(next.only_value("created_at"), Some(created_at.as_str()));
        assert!(next.created_at > newest.created_at);
        newest = next;
    }
}

/// H33: an edit replaces the state before it also when both fall into one second, and a reader never sees two.
#[tokio::test]
async fn state_stamps_rise_within_one_second() {
    rules!("CL-ID-1", "CL-ID-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let live = json!({"kinds": STATE_KINDS, "#h": [channel], "limit": 0});
    a.ws.subscribe("live", &[live]).await;
    let began = build::now();
    let mut newest = metadata(&mut a, channel).await;
    const EDITS: u64 = 12;
    for round in 0..EDITS {
        let name = format!("name {round}");
        edit(&mut a, channel, &[&["name", &name]]).await;
        let next = metadata(&mut a, channel).await;
        assert_eq!(next.first_value("name"), Some(name.as_str()));
        assert!(next.created_at > newest.created_at, "round {round}");
        assert_eq!(a.ws.next_event("live").await, next, "live and stored agree");
        newest = next;
    }
    let took_secs = build::now() - began;
    assert!(
        took_secs < EDITS,
        "{EDITS} edits took {took_secs} s, so no two need have shared a second"
    );
    // Rosters rise alike.
    let mut newest = state(&mut a, channel).await;
    for _ in 0..3 {
        let who = build::fresh_key().public_key();
        a.add(channel, who, Some("admin")).await;
        let next = state(&mut a, channel).await;
        for at in [1, 2] {
            assert!(next[at].created_at > newest[at].created_at);
            assert!(next[at].tag_values("p").any(|p| p == who.to_string()));
        }
        newest = next;
    }
}

#[tokio::test]
async fn rosters_list_everyone_with_their_role_in_order_of_joining() {
    rules!("CL-ID-20");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let people: Vec<(PubKey, &str)> = ["admin", "bot", "guest", "member"]
        .into_iter()
        .map(|role| (build::fresh_key().public_key(), role))
        .collect();
    for &(who, role) in &people {
        a.add(channel, who, Some(role)).await;
    }
    let join = build::join(&b.key, channel);
    b.ws.accept(join).await;
    let mut all = vec![(a.pubkey, "owner")];
    all.extend(&people);
    all.push((b.pubkey, "member"));
    let [metadata, admins, members] = state(&mut b, channel).await;
    let listed = |event: &Event| -> Vec<Vec<String>> { event.tags_named("p").cloned().collect() };
    let expected: Vec<_> = all
        .iter()
        .map(|(who, role)| tag(&["p", &who.to_string(), "", role]))
        .collect();
    assert_eq!(listed(&members), expected);
    let expected: Vec<_> = all[..2]
        .iter()
        .map(|(who, role)| tag(&["p", &who.to_string(), role]))
        .collect();
    assert_eq!(listed(&admins), expected);
    assert_eq!(listed(&metadata), Vec::<Vec<String>>::new());
    // `#p` finds rosters that list a key, `#P` what a key created.
    let of = |name: &str, who: PubKey| json!({"kinds": STATE_KINDS, name: [who]});
    let by_p = b.ws.stored(&[of("#p", a.pubkey)]).await;
    assert_eq!(by_p.len(), 2, "A is listed as an admin and as a member");
    let by_creator = b.ws.stored(&[of("#P", a.pubkey)]).await;
    assert_eq!(by_creator.len(), 3, "A created what all three describe");
    assert_eq!(b.ws.stored(&[of("#p", b.pubkey)]).await.len(), 1);
    assert_eq!(b.ws.stored(&[of("#P", b.pubkey)]).await.len(), 0);
}

#[tokio::test]
async fn a_private_roster_is_read_by_members_only() {
    rules!("CL-SYS-16");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = a.private_channel(&[]).await;
    let by_d = json!({"kinds": STATE_KINDS, "#d": [channel]});
    assert_eq!(b.ws.stored(&by_d).await, []);
    assert_eq!(b.http.rows(by_d.clone()).await, []);
    a.add(channel, b.pubkey, None).await;
    assert_eq!(b.ws.stored(&by_d).await.len(), 3);
    a.remove(channel, b.pubkey).await;
    assert_eq!(b.ws.stored(&[by_d]).await, []);
}

#[tokio::test]
async fn a_system_channel_is_private_unless_told_and_hidden_while_private() {
    rules!("CL-SYS-1", "CL-SYS-2", "CL-SYS-4");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let silent = channel_with(&mut a, &[&["channel_type", "system"]]).await;
    let event = metadata(&mut a, silent).await;
    assert_eq!(event.first_value("t"), Some("system"));
    assert!(has_bare(&event, "private") && has_bare(&event, "hidden"));
    assert!(!has_bare(&event, "public"));

    let open: &[&[&str]] = &[&["channel_type", "system"], &["visibility", "open"]];
    let open = channel_with(&mut a, open).await;
    let event = metadata(&mut a, open).await;
    assert!(has_bare(&event, "public"));
    assert!(!has_bare(&event, "private") && !has_bare(&event, "hidden"));

    // The other types start open, and privacy does not hide them.
    for channel_type in ["stream", "forum", "workflow"] {
        let channel = channel_with(&mut a, &[&["channel_type", channel_type]]).await;
        assert!(has_bare(&metadata(&mut a, channel).await, "public"));
        edit(&mut a, channel, &[&["visibility", "private"]]).await;
        let event = metadata(&mut a, channel).await;
        assert!(has_bare(&event, "private") && !has_bare(&event, "hidden"));
    }

    for (visibility, hidden) in [("open", false), ("private", true), ("open", false)] {
        edit(&mut a, silent, &[&["visibility", visibility]]).await;
        let event = metadata(&mut a, silent).await;
        assert_eq!(has_bare(&event, "hidden"), hidden, "after {visibility}");
    }
}

#[tokio::test]
async fn a_system_channel_has_people_roles_messages_and_artifacts_like_any_other() {
    rules!("CL-SYS-3");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = channel_with(&mut a, &[&["channel_type", "system"]]).await;
    a.add(channel, b.pubkey, Some("guest")).await;
    let refused = build::chat(&b.key, channel, "a guest");
    assert_eq!(
        b.ws.refuse(refused).await,
        "restricted: not a channel member"
    );
    a.add(channel, b.pubkey, Some("member")).await;
    let message = b.chat(channel, "a member").await;
    let created = b
        .write(&Revision::create(build::fresh_artifact(), channel))
        .await;
    let updated = a.write(&Revision::update(&created, "more")).await;
    let by_h = json!({"kinds": [9, 45010], "#h": [channel]});
    let mut events = b.ws.stored(&[by_h]).await;
    events.sort_by_key(|event| event.kind);
    assert_eq!(events, [message, updated]);
    edit(&mut a, channel, &[&["topic", "settings"]]).await;
    assert_eq!(
        metadata(&mut b, channel).await.first_value("topic"),
        Some("settings")
    );
    a.remove(channel, b.pubkey).await;
    let gone = b.ws.refused_req(&[json!({"#h": [channel]})]).await;
    assert_eq!(gone, "restricted: not a channel member");
}

#[tokio::test]
async fn no_client_publishes_what_only_the_relay_signs() {
    rules!("CL-SNAP-33", "CL-NTC-2");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let tags = vec![
        tag(&["d", &channel.to_string()]),
        tag(&["h", &channel.to_string()]),
        tag(&["p", &a.pubkey.to_string()]),
        tag(&["t", "stream"]),
    ];
    let before = state(&mut a, channel).await;
    for kind in [39000, 39001, 39002, 39003, 39008, 39009, 45011] {
        let forged = build::event(&a.key, kind, tags.clone(), "");
        assert_eq!(
            a.ws.refuse(forged.clone()).await,
            "restricted: relay-only kind",
            "kind {kind}"
        );
        let over_http = a.http.submit(&forged).await;
        assert_eq!(over_http.status, 400, "kind {kind}");
        assert_eq!(over_http.error(), "restricted: relay-only kind");
    }
    for kind in [kinds::MEMBER_ADDED, kinds::MEMBER_REMOVED] {
        let forged = build::event(&a.key, kind, tags.clone(), "");
        assert_eq!(
            a.ws.refuse(forged).await,
            "invalid: membership notifications are relay-signed only"
        );
    }
    assert_eq!(state(&mut a, channel).await, before);
}

#[tokio::test]
async fn the_information_document_names_nip_cl_by_no_number_and_not_before_it_is_whole() {
    rules!("CL-ADV-1");
    for profile in [Profile::Workspace, Profile::Open] {
        let relay = RelayProcess::start(profile, &[]);
        let info = http::info(&relay.endpoint()).await;
        let extensions = info["supported_extensions"].as_array().expect("a list");
        // Labels are refused, so a client that looks for the extension must not find it.
        assert!(!extensions.contains(&json!("nip-cl")), "{info}");
        let nips = info["supported_nips"].as_array().expect("a list");
        assert!(nips.iter().all(|nip| nip.is_u64()), "{info}");
        assert!(nips.contains(&json!(1)), "{info}");
        assert!(!nips.contains(&json!("CL")) && !nips.contains(&json!("cl")));
    }
}
