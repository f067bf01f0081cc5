//! The life of a channel: archive and deletion, and what a command changes for those who read and listen at that moment.

use std::slice::from_ref;

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, SecretKey, kinds};
use holdfast_tests::build::{self, tag};
use holdfast_tests::person::Person;
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

const NOT_A_MEMBER: &str = "restricted: not a channel member";
const NOT_ELEVATED: &str =
    "invalid: actor not authorized for name/about/archived/visibility/ttl changes";

#[tokio::test]
async fn an_archived_channel_takes_nothing_but_the_end_of_the_archive() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut owner = Person::arrive(&relay.endpoint()).await;
    let mut admin = Person::arrive(&relay.endpoint()).await;
    let mut member = Person::arrive(&relay.endpoint()).await;
    let channel = owner.open_channel().await;
    owner.add(channel, admin.pubkey, Some("admin")).await;
    owner.add(channel, member.pubkey, None).await;
    let message = member.chat(channel, "before").await;
    let archive = build::archive(&owner.key, channel, true);
    owner.ws.accept(archive).await;
    let stranger = build::fresh_key().public_key();
    let refused = [
        build::chat(&owner.key, channel, "after"),
        build::edit_channel(&owner.key, channel, &[&["name", "x"]]),
        build::edit_channel(&owner.key, channel, &[&["topic", "x"]]),
        build::archive(&owner.key, channel, true),
        build::put_user(&owner.key, channel, stranger, None),
        build::remove_user(&owner.key, channel, member.pubkey),
        build::remove_event(&owner.key, channel, message.id),
        build::delete_channel(&owner.key, channel),
        build::join(&owner.key, channel),
    ];
    for command in refused {
        assert_eq!(
            owner.ws.refuse(command.clone()).await,
            "invalid: channel is archived",
            "kind {}",
            command.kind
        );
    }
    let leave = build::leave(&member.key, channel);
    assert_eq!(
        member.ws.refuse(leave).await,
        "invalid: channel is archived"
    );
    let filter = json!({"kinds": [9], "#h": [channel]});
    assert_eq!(member.ws.stored(&[filter]).await, [message]);
    let unarchive = build::archive(&member.key, channel, false);
    assert_eq!(member.ws.refuse(unarchive).await, NOT_ELEVATED);
    let unarchive = build::archive(&admin.key, channel, false);
    admin.ws.accept(unarchive).await;
    member.chat(channel, "after").await;
}

/// The effect of a command holds for writes, stored reads and counts on every connection from the moment of its OK.
#[tokio::test]
async fn what_a_command_changes_holds_from_its_ok() {
    rules!("AR-ACC-6");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = a.private_channel(&[]).await;
    let message = a.chat(channel, "members only").await;
    let by_id = json!({"ids": [message.id]});
    for round in 0..20 {
        a.add(channel, b.pubkey, None).await;
        assert_eq!(b.ws.count(&by_id).await, Ok(1), "round {round}");
        b.chat(channel, "in").await;
        a.remove(channel, b.pubkey).await;
        assert_eq!(b.ws.count(&by_id).await, Ok(0), "round {round}");
        let out = build::chat(&b.key, channel, "out");
        assert_eq!(b.ws.refuse(out).await, NOT_A_MEMBER, "round {round}");
        let opened = build::edit_channel(&a.key, channel, &[&["visibility", "open"]]);
        a.ws.accept(opened).await;
        assert_eq!(b.http.rows(by_id.clone()).await, from_ref(&message));
        let closed = build::edit_channel(&a.key, channel, &[&["visibility", "private"]]);
        a.ws.accept(closed).await;
        assert_eq!(b.http.rows(by_id.clone()).await, []);
    }
}

#[tokio::test]
async fn a_deleted_channel_is_gone_for_everyone_and_its_id_stays_used() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let message = a.chat(channel, "soon gone").await;
    let named = json!({"#h": [channel]});
    b.ws.subscribe("named", &named).await;
    b.ws.subscribe("all", &[json!({"kinds": [9], "limit": 0})])
        .await;
    let delete = build::delete_channel(&a.key, channel);
    a.ws.accept(delete).await;
    assert_eq!(
        b.ws.next_closed("named").await,
        "restricted: channel access revoked"
    );
    for person in [&mut a, &mut b] {
        assert_eq!(person.ws.refused_req(&named).await, NOT_A_MEMBER);
        let by_id = json!({"ids": [message.id]});
        assert_eq!(person.ws.stored(&by_id).await, []);
        assert_eq!(person.http.rows(by_id).await, []);
        let state = json!({"kinds": [39000, 39001, 39002], "#d": [channel]});
        assert_eq!(person.ws.stored(&[state]).await, []);
        let post = build::chat(&person.key, channel, "anyone?");
        assert_eq!(person.ws.refuse(post).await, NOT_A_MEMBER);
    }
    let again = build::create_channel(&a.key, channel, &[]);
    assert_eq!(
        a.ws.refuse(again).await,
        "duplicate: channel already exists"
    );
    // A subscription that reaches other channels as well goes on.
    let elsewhere = a.open_channel().await;
    let seen = a.chat(elsewhere, "still here").await;
    assert_eq!(b.ws.next_event("all").await, seen);
}

/// A subscription loses a channel the moment its reader loses it, and a named one says so.
#[tokio::test]
async fn subscriptions_end_with_the_access_to_their_only_channel() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    type Loss = fn(&SecretKey, &SecretKey, ChannelId) -> Event;
    let losses: [(&str, bool, Loss); 3] = [
        ("removed", true, |a, b, channel| {
            build::remove_user(a, channel, b.public_key())
        }),
        ("left", true, |_, b, channel| build::leave(b, channel)),
        ("closed", false, |a, _, channel| {
            build::edit_channel(a, channel, &[&["visibility", "private"]])
        }),
    ];
    for (how, private_member, loss) in losses {
        let channel = if private_member {
            a.private_channel(&[b.pubkey]).await
        } else {
            a.open_channel().await
        };
        let kept = a.open_channel().await;
        let only = json!({"kinds": [9], "#h": [channel]});
        let both = json!({"kinds": [9], "#h": [channel, kept]});
        b.ws.subscribe("only", &[only]).await;
        b.ws.subscribe("both", &[both]).await;
        let command = loss(&a.key, &b.key, channel);
        let actor = if command.pubkey == a.pubkey {
            &mut a
        } else {
            &mut b
        };
        actor.ws.accept(command).await;
        assert_eq!(
            b.ws.next_closed("only").await,
            "restricted: channel access revoked",
            "{how}"
        );
        a.chat(channel, "not for B").await;
        let seen = a.chat(kept, "for B").await;
        assert_eq!(b.ws.next_event("both").await, seen, "{how}");
        b.ws.close("both").await;
    }
}

#[tokio::test]
async fn a_channel_joined_later_reaches_a_subscription_that_names_nothing() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let mut b = Person::arrive(&relay.endpoint()).await;
    b.ws.subscribe("all", &[json!({"kinds": [9], "limit": 0})])
        .await;
    let channel = a.private_channel(&[]).await;
    a.chat(channel, "before B came").await;
    a.add(channel, b.pubkey, None).await;
    let seen = a.chat(channel, "B is here").await;
    assert_eq!(b.ws.next_event("all").await, seen);
}

/// The channel of a create command without `h` gets an id of the relay's, which its maker learns from the notice.
#[tokio::test]
async fn a_channel_without_an_id_of_its_makers_gets_one() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let create = build::event(
        &a.key,
        kinds::GROUP_CREATE,
        vec![tag(&["name", "#general"])],
        "",
    );
    a.ws.accept(create.clone()).await;
    let mine = json!({"kinds": [44100], "#p": [a.pubkey]});
    let [notice] = &a.ws.stored(&mine).await[..] else {
        panic!("one notice tells of the creation");
    };
    let channel = notice.channel_tag().expect("the notice names the channel");
    let named =
        a.ws.stored(&[json!({"kinds": [39000], "#d": [channel]})])
            .await;
    assert_eq!(named[0].first_value("name"), Some("general"));
    a.chat(channel, "it works").await;
    // Sent again it makes no second channel.
    assert!(a.ws.publish(&create).await.accepted);
    assert_eq!(a.ws.stored(&[mine]).await.len(), 1);
}
