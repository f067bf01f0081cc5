//! Removal of revisions against a running relay: what kind 5 may not do, what kind 9005 does, and what it never gives away.

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, EventId};
use holdfast_tests::build::{self, Revision};
use holdfast_tests::client::Verdict;
use holdfast_tests::lookup::{live, older, shown};
use holdfast_tests::person::{Person, artifact_of, ids, only};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

const NOT_BY_KIND_5: &str =
    "invalid: artifacts cannot be deleted with kind 5; use op=delete or kind 9005 redaction";

async fn redact(moderator: &mut Person, channel: ChannelId, target: EventId) {
    let removal = build::remove_event(&moderator.key, channel, target);
    moderator.ws.accept(removal).await;
}

#[tokio::test]
async fn kind_5_deletes_no_revision_and_says_so() {
    rules!("AR-MOD-1");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let first = ann.artifact(home).await;
    let head = ann.write(&Revision::update(&first, "2")).await;
    let moving = ann.artifact(home).await;
    ann.write(&Revision::move_to(&moving, other)).await;
    let removed = json!({"kinds": [45011], "#h": [home]});
    let marker = ann.ws.stored(&removed).await[0].clone();
    let message = ann.chat(home, "a message").await;
    let address = format!("45010:{}:{}", ann.pubkey, artifact_of(&head));
    let by_address = vec![build::tag(&["a", &address])];
    let mut mixed_with_kinds = build::deletion(&ann.key, &[message.id, head.id]);
    mixed_with_kinds.tags.push(build::tag(&["k", "9"]));
    let mixed_with_kinds = build::event(&ann.key, 5, mixed_with_kinds.tags, "");
    let requests = [
        build::deletion(&ann.key, &[head.id]),
        build::deletion(&ann.key, &[first.id]),
        build::deletion(&ann.key, &[marker.id]),
        build::deletion(&ann.key, &[message.id, head.id]),
        build::deletion(&ann.key, &[first.id, message.id]),
        mixed_with_kinds,
        build::event(&ann.key, 5, by_address, ""),
    ];
    for request in requests {
        assert_eq!(ann.ws.refuse(request.clone()).await, NOT_BY_KIND_5);
        let answer = ann.http.submit(&request).await;
        assert_eq!(
            (answer.status, answer.error()),
            (400, NOT_BY_KIND_5.to_owned())
        );
    }
    // Somebody else's request gets no further.
    let foreign = build::deletion(&bob.key, &[head.id]);
    assert_eq!(bob.ws.refuse(foreign).await, NOT_BY_KIND_5);
    assert_eq!(shown(&mut bob, &head).await, live());
    assert_eq!(shown(&mut bob, &first).await, older());
    assert_eq!(bob.ws.stored(&removed).await, [marker]);
    let chat = json!({"ids": [message.id]});
    assert_eq!(bob.ws.stored(&chat).await, [message]);
}

#[tokio::test]
async fn a_revision_is_redacted_by_those_who_may_remove_messages() {
    rules!("AR-MOD-2", "AR-MOD-3");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut owner = Person::arrive(&relay.endpoint()).await;
    let mut author = Person::arrive(&relay.endpoint()).await;
    let mut admin = Person::arrive(&relay.endpoint()).await;
    let mut member = Person::arrive(&relay.endpoint()).await;
    let home = owner.private_channel(&[author.pubkey, member.pubkey]).await;
    owner.add(home, admin.pubkey, Some("admin")).await;
    let wrong = author.open_channel().await;
    let may_not = "invalid: must be event author or channel owner/admin";
    for may in [true, false] {
        for who in 0..4 {
            let revision = author.artifact(home).await;
            let message = author.chat(home, &format!("{may} {who}")).await;
            let person = match who {
                0 => &mut owner,
                1 => &mut admin,
                2 => &mut author,
                _ => &mut member,
            };
            let channel = if may { home } else { wrong };
            let removal = |target: EventId| build::remove_event(&person.key, channel, target);
            let (of_message, of_revision) = (removal(message.id), removal(revision.id));
            let oracle = person.ws.publish(&of_message).await;
            let verdict = person.ws.publish(&of_revision).await;
            assert_eq!(verdict, oracle, "person {who}");
            assert_eq!(verdict.accepted, may && who < 3, "person {who}");
            if may && who == 3 {
                assert_eq!(verdict.message, may_not);
            }
            let expected = if verdict.accepted { [].into() } else { live() };
            assert_eq!(
                shown(&mut member, &revision).await,
                expected,
                "person {who}"
            );
        }
    }
    // The removal that the relay recorded of a move is nobody's to remove.
    let moving = owner.artifact(home).await;
    owner.write(&Revision::move_to(&moving, wrong)).await;
    let removed = json!({"kinds": [45011], "#h": [home]});
    let marker = owner.ws.stored(&removed).await;
    let removal = build::remove_event(&owner.key, home, marker[0].id);
    owner.ws.refuse(removal).await;
    assert_eq!(owner.ws.stored(&removed).await, marker);
}

#[tokio::test]
async fn a_redacted_head_is_withheld_and_none_comes_back_in_its_place() {
    rules!("AR-MOD-3", "AR-MOD-4", "AR-MOD-6", "AR-MOD-8", "AR-HEAD-7");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.private_channel(&[bob.pubkey]).await;
    let first = ann.artifact(home).await;
    let d = artifact_of(&first);
    let second = ann.write(&Revision::update(&first, "2")).await;
    let third = ann.write(&Revision::update(&second, "3")).await;
    let by_h = json!({"#h": [home]});
    assert_eq!(bob.current_count(by_h.clone()).await, 1);
    redact(&mut ann, home, third.id).await;
    for person in [&mut ann, &mut bob] {
        assert_eq!(shown(person, &third).await, [].into());
        for earlier in [&first, &second] {
            assert_eq!(shown(person, earlier).await, older());
        }
        assert_eq!(person.head(d).await, []);
        assert_eq!(person.current(by_h.clone()).await, []);
        assert_eq!(person.current_count(by_h.clone()).await, 0);
        assert_eq!(ids(&person.history(d).await), ids([&first, &second]));
        let plain = json!({"kinds": [45010], "#h": [home]});
        assert_eq!(person.ws.stored(&plain).await, []);
        assert_eq!(person.ws.count(&plain).await, Ok(0));
    }
    let stale = Revision::update(&second, "on top of the one before");
    assert_eq!(ann.refused(&stale).await, "conflict: artifact head changed");
    let again = Revision::create(d, home).content("again");
    assert_eq!(
        ann.refused(&again).await,
        "conflict: artifact identity is taken"
    );
}

#[tokio::test]
async fn redaction_of_an_older_revision_leaves_the_head_alone() {
    rules!("AR-MOD-4", "AR-MOD-6");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let first = ann.artifact(home).await;
    let second = ann.write(&Revision::update(&first, "2")).await;
    let third = ann.write(&Revision::update(&second, "3")).await;
    redact(&mut ann, home, second.id).await;
    assert_eq!(shown(&mut bob, &second).await, [].into());
    assert_eq!(shown(&mut bob, &first).await, older());
    assert_eq!(shown(&mut bob, &third).await, live());
    let stale = Revision::update(&second, "x");
    assert_eq!(bob.refused(&stale).await, "conflict: artifact head changed");
    let fourth = bob.write(&Revision::update(&third, "4")).await;
    assert_eq!(bob.head(artifact_of(&first)).await, [fourth]);
}

#[tokio::test]
async fn who_holds_the_id_of_a_redacted_head_may_go_on_from_it() {
    rules!("AR-MOD-7");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    for step in 0..3 {
        let first = ann.artifact(home).await;
        let second = ann.write(&Revision::update(&first, "2")).await;
        redact(&mut ann, home, second.id).await;
        // What is compared with the withheld revision is still compared.
        let changed = Revision::update(&second, "x").of_type("test.other");
        assert_eq!(
            ann.refused(&changed).await,
            "invalid: artifact type is immutable"
        );
        let next = match step {
            0 => Revision::update(&second, "goes on"),
            1 => Revision::move_to(&second, other),
            _ => Revision::delete(&second),
        };
        let next = ann.write(&next).await;
        let d = artifact_of(&first);
        assert_eq!(bob.head(d).await, only(&next));
        assert_eq!(ids(&bob.history(d).await), ids([&first, &next]));
        assert_eq!(shown(&mut bob, &second).await, [].into());
    }
}

#[tokio::test]
async fn no_answer_and_no_notice_names_a_redacted_head() {
    rules!("AR-MOD-9");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let first = ann.artifact(home).await;
    let d = artifact_of(&first);
    ann.add(home, bob.pubkey, None).await;
    let secret = ann.write(&Revision::update(&first, "2")).await;
    let in_home = json!({"#h": [home]});
    // Bob comes after the revision: his connection is live when it is redacted.
    bob.ws
        .subscribe("live", &[json!({"#h": [home], "limit": 1})])
        .await;
    redact(&mut ann, home, secret.id).await;
    let marker = ann.chat(home, "a marker").await;

    let mut heard = String::new();
    loop {
        let event = bob.ws.next_event("live").await;
        heard.push_str(&event.to_json());
        if event == marker {
            break;
        }
    }
    for filter in [
        in_home.clone(),
        json!({}),
        json!({"kinds": [9005, 40099, 45010, 45011], "#h": [home]}),
        json!({"kinds": [9005]}),
        json!({"#e": [secret.id]}),
        json!({"#d": [d]}),
    ] {
        for event in bob.ws.stored(&filter).await {
            heard.push_str(&event.to_json());
        }
        heard.push_str(bob.http.query(&filter).await.text());
    }
    for name in ["current", "head", "history"] {
        let filter = json!({"artifact": name, "#d": [d], "#h": [home]});
        heard.push_str(bob.http.query(&filter).await.text());
    }
    for revision in [
        Revision::update(&first, "x"),
        Revision::create(d, home),
        Revision::delete(&first),
        Revision::restore(&first, "x"),
    ] {
        heard.push_str(&bob.refused(&revision).await);
        let answer = bob.http.submit(&revision.sign(&bob.key)).await;
        heard.push_str(answer.text());
    }
    for frame in bob.ws.unread() {
        heard.push_str(&format!("{frame:?}"));
    }
    assert!(
        heard.contains(&first.id.to_string()),
        "bob does hear of the artifact"
    );
    assert!(!heard.contains(&secret.id.to_string()), "{heard}");
}

#[tokio::test]
async fn a_redacted_event_that_is_sent_again_succeeds_and_stays_redacted() {
    rules!("AR-MOD-10", "AR-ID-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.private_channel(&[bob.pubkey]).await;
    let watch = json!({"kinds": [45010], "#h": [home], "limit": 1});
    ann.ws.subscribe("live", &watch).await;
    let first = bob.artifact(home).await;
    let second = bob.write(&Revision::update(&first, "2")).await;
    for expected in [&first, &second] {
        assert_eq!(ann.ws.next_event("live").await, *expected);
    }
    for target in [&first, &second] {
        redact(&mut ann, home, target.id).await;
        for _ in 0..2 {
            send_again(&mut bob, target).await;
            assert_eq!(shown(&mut ann, target).await, [].into());
        }
    }
    ann.remove(home, bob.pubkey).await;
    send_again(&mut bob, &second).await;
    let last = ann.artifact(home).await;
    assert_eq!(ann.ws.next_event("live").await, last);
}

async fn send_again(author: &mut Person, event: &Event) {
    let success = Verdict {
        accepted: true,
        message: String::new(),
    };
    assert_eq!(author.ws.publish(event).await, success);
    let answer = author.http.submit(event).await;
    let body = json!({"event_id": event.id, "accepted": true, "message": ""});
    assert_eq!((answer.status, answer.json()), (200, body));
}
