//! Identity and edits against a running relay: what `d` and `prev` mean, who wins, and what is sent again.

use std::collections::BTreeMap;

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, EventId, Kind};
use holdfast_tests::build::{self, Revision, fresh_artifact, fresh_channel, now};
use holdfast_tests::client::{Client, Verdict};
use holdfast_tests::person::{Person, artifact_of, ids, only};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

const TAKEN: &str = "conflict: artifact identity is taken";
const UNAVAILABLE: &str = "conflict: artifact head unavailable";
const CHANGED: &str = "conflict: artifact head changed";
const HOME: &str = "invalid: only move changes home and move must change home";
const ROOT: &str = "invalid: root must be an existing conversation anchor in home";

fn success() -> Verdict {
    Verdict {
        accepted: true,
        message: String::new(),
    }
}

/// Refused alike over WebSocket and HTTP: the reason, and the status of HTTP.
async fn refused(person: &mut Person, revision: &Revision) -> (String, u16) {
    let event = revision.sign(&person.key);
    let reason = person.ws.refuse(event.clone()).await;
    let answer = person.http.submit(&event).await;
    assert_eq!(answer.error(), reason);
    (reason, answer.status)
}

fn conflict(reason: &str) -> (String, u16) {
    (reason.to_owned(), 409)
}

fn invalid(reason: &str) -> (String, u16) {
    (reason.to_owned(), 400)
}

#[tokio::test]
async fn each_community_has_artifacts_of_its_own() {
    rules!("AR-ID-1", "AR-ID-5");
    let relay = RelayProcess::start(Profile::Workspace, &["--community-host", "second.example"]);
    let first = relay.endpoint();
    let second = first.with_host("second.example");
    let key = build::fresh_key();
    let mut here = Person::with_key(&first, key.clone()).await;
    let mut there = Person::with_key(&second, key).await;
    let mut bob = Person::arrive(&first).await;
    let (d, home) = (fresh_artifact(), fresh_channel());
    for person in [&mut here, &mut there] {
        let channel = build::create_channel(&person.key, home, &[]);
        person.ws.accept(channel).await;
    }
    let event = Revision::create(d, home).sign(&here.key);
    here.ws.accept(event.clone()).await;
    assert_eq!(there.head(d).await, []);
    assert_eq!(there.ws.stored(&[json!({"ids": [event.id]})]).await, []);
    assert_eq!(bob.refused(&Revision::create(d, home)).await, TAKEN);

    // The very same event begins another artifact there, and each goes its own way.
    there.ws.accept(event.clone()).await;
    let live = there.ws.fresh_sub();
    let artifacts = json!({"kinds": [45010]});
    there.ws.subscribe(&live, &artifacts).await;
    let edited = bob.write(&Revision::update(&event, "edited here")).await;
    assert_eq!(here.head(d).await, only(&edited));
    assert_eq!(there.head(d).await, only(&event));
    let reason = there.refused(&Revision::update(&edited, "x")).await;
    assert_eq!(reason, CHANGED);
    let deleted = there.write(&Revision::delete(&event)).await;
    assert_eq!(there.ws.next_event(&live).await, deleted);
    assert_eq!(here.current(json!({"#h": [home]})).await, only(&edited));
    assert_eq!(there.current_count(json!({})).await, 0);
    assert_eq!(ids(&there.history(d).await), ids([&event, &deleted]));
    assert_eq!(ids(&here.history(d).await), ids([&event, &edited]));
}

#[tokio::test]
async fn the_type_is_fixed_for_life() {
    rules!("AR-ID-2");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let head = ann.artifact(home).await;
    let reason = "invalid: artifact type is immutable";
    for revision in [
        Revision::update(&head, "x"),
        Revision::move_to(&head, other),
        Revision::delete(&head),
    ] {
        let changed = revision.of_type("test.notes");
        assert_eq!(refused(&mut ann, &changed).await, invalid(reason));
    }
    let gone = ann.write(&Revision::delete(&head)).await;
    let changed = Revision::restore(&gone, "x").of_type("test");
    assert_eq!(
        ann.refused(&changed).await,
        "invalid: invalid namespaced artifact type"
    );
    let changed = Revision::restore(&gone, "x").of_type("test.notes");
    assert_eq!(refused(&mut ann, &changed).await, invalid(reason));
    assert_eq!(ann.head(artifact_of(&head)).await, [gone]);
}

#[tokio::test]
async fn revisions_are_events_of_their_own_and_replace_nothing() {
    rules!("AR-ID-3", "AR-ID-10", "AR-CUR-1", "AR-CUR-5");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let d = fresh_artifact();
    // Each later revision claims an earlier time: the order of acceptance counts.
    let time = now();
    let mut written = vec![ann.write(&Revision::create(d, home).at(time + 300)).await];
    for step in 1..5_u64 {
        let last = &written[written.len() - 1];
        let update = Revision::update(last, &step.to_string()).at(time + 300 - 100 * step);
        written.push(ann.write(&update).await);
    }
    let last = written.last().expect("five were written").clone();
    assert_eq!(ids(&ann.history(d).await), ids(&written));
    assert_eq!(ann.current(json!({"#h": [home]})).await, only(&last));
    assert_eq!(ann.head(d).await, only(&last));
    let all: Vec<EventId> = written.iter().map(|event| event.id).collect();
    let by_id = ann.ws.stored(&[json!({"ids": all})]).await;
    assert_eq!(ids(&by_id), ids(&written));
    let plain = ann
        .ws
        .stored(&[json!({"kinds": [45010], "#h": [home]})])
        .await;
    assert_eq!(plain, [last]);
}

#[tokio::test]
async fn revisions_follow_no_forum_rule() {
    rules!("AR-ID-4", "AR-ID-21");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let forum = build::fresh_channel();
    let create = build::create_channel(&ann.key, forum, &[&["channel_type", "forum"]]);
    ann.ws.accept(create).await;
    let h = forum.to_string();
    let post = build::event(&ann.key, 45001, vec![build::tag(&["h", &h])], "a post");
    let post = ann.ws.accept(post).await;
    let posts = json!({"kinds": [45001, 45003], "#h": [forum]});
    let range: Vec<Kind> = (45001..=45009).chain(45012..=45020).collect();
    let others = json!({"kinds": range, "#h": [forum]});
    let mut head = ann
        .write(&Revision::create(fresh_artifact(), forum).root(Some(post.id)))
        .await;
    for content in ["1", "2"] {
        head = ann.write(&Revision::update(&head, content)).await;
    }
    let stream = ann.open_channel().await;
    let moved = ann.write(&Revision::move_to(&head, stream)).await;
    assert_eq!(ann.head(artifact_of(&head)).await, [moved]);
    for filter in [posts, others] {
        assert_eq!(ann.ws.stored(&filter).await, only(&post));
        assert_eq!(ann.ws.count(&filter).await, Ok(1));
    }
}

#[tokio::test]
async fn an_identity_in_use_stays_taken_whatever_became_of_it() {
    rules!("AR-ID-5", "AR-ID-18", "AR-DEL-12", "AR-DRV-14");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let doomed = ann.open_channel().await;

    let live = ann.artifact(home).await;
    let deleted = ann.artifact(home).await;
    ann.write(&Revision::delete(&deleted)).await;
    let moved = ann.artifact(home).await;
    ann.write(&Revision::move_to(&moved, other)).await;
    let redacted = ann.artifact(home).await;
    let removal = build::remove_event(&ann.key, home, redacted.id);
    ann.ws.accept(removal).await;
    let lost = ann.artifact(doomed).await;
    let end = build::delete_channel(&ann.key, doomed);
    ann.ws.accept(end).await;

    for used in [&live, &deleted, &moved, &redacted, &lost] {
        let again = Revision::create(artifact_of(used), other).content("mine");
        assert_eq!(refused(&mut ann, &again).await, conflict(TAKEN));
        assert_eq!(refused(&mut bob, &again).await, conflict(TAKEN));
    }
    assert_eq!(ids(&bob.current(json!({"#h": [home]})).await), [live.id]);
}

#[tokio::test]
async fn an_artifact_begins_with_a_create() {
    rules!("AR-ID-6", "AR-ID-14");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let head = ann.artifact(home).await;
    let d = fresh_artifact();
    for revision in [
        Revision::update(&head, "x"),
        Revision::move_to(&head, other),
        Revision::delete(&head),
        Revision::restore(&head, "x"),
    ] {
        let mut first = revision;
        first.d = Some(d.to_string());
        assert_eq!(refused(&mut ann, &first).await, conflict(UNAVAILABLE));
    }
    assert_eq!(ann.history(d).await, []);
    ann.write(&Revision::create(d, home)).await;
}

#[tokio::test]
async fn a_later_revision_names_the_current_one() {
    rules!("AR-ID-7", "AR-ID-14", "AR-DEL-8");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let first = ann.artifact(home).await;
    let second = ann.write(&Revision::update(&first, "2")).await;
    let third = ann.write(&Revision::update(&second, "3")).await;
    let stranger = ann.artifact(home).await;
    let never = build::chat(&ann.key, home, "never sent");
    for wrong in [first.id, second.id, stranger.id, never.id] {
        for revision in [
            Revision::update(&third, "4"),
            Revision::move_to(&third, other),
            Revision::delete(&third),
            Revision::restore(&third, "4"),
            Revision::update(&third, "4").of_type("test.other"),
        ] {
            let stale = revision.prev(wrong);
            assert_eq!(refused(&mut ann, &stale).await, conflict(CHANGED));
        }
    }
    let gone = ann.write(&Revision::delete(&third)).await;
    let stale = Revision::restore(&gone, "4").prev(third.id);
    assert_eq!(refused(&mut ann, &stale).await, conflict(CHANGED));
    assert_eq!(ann.history(artifact_of(&first)).await.len(), 4);
}

#[tokio::test]
async fn of_fifty_edits_of_one_head_one_is_accepted() {
    rules!("AR-ID-9", "AR-ID-8");
    const PEOPLE: usize = 5;
    const EDITS_EACH: usize = 10;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let head = ann.artifact(home).await;
    let mut people = Vec::new();
    for _ in 0..PEOPLE {
        people.push(Person::arrive(&relay.endpoint()).await);
    }
    let tasks: Vec<_> = people
        .into_iter()
        .map(|mut person| {
            let edits: Vec<Event> = (0..EDITS_EACH)
                .map(|n| Revision::update(&head, &format!("edit {n}")).sign(&person.key))
                .collect();
            tokio::spawn(async move {
                for edit in &edits {
                    person.ws.submit(edit).await;
                }
                let mut verdicts = Vec::new();
                for edit in edits {
                    let verdict = person.ws.answer(edit.id).await;
                    verdicts.push((edit, verdict));
                }
                verdicts
            })
        })
        .collect();
    let mut accepted = Vec::new();
    for task in tasks {
        for (edit, verdict) in task.await.expect("the task ends") {
            if verdict.accepted {
                accepted.push(edit);
            } else {
                assert_eq!(verdict.message, CHANGED);
            }
        }
    }
    assert_eq!(accepted.len(), 1, "of {} edits", PEOPLE * EDITS_EACH);
    let d = artifact_of(&head);
    assert_eq!(ids(&ann.history(d).await), ids([&head, &accepted[0]]));
    assert_eq!(ann.head(d).await, accepted);
}

#[tokio::test]
async fn permission_and_advance_are_one_step() {
    rules!("AR-ID-8", "AR-ACC-6");
    const EDITS: usize = 30;
    const ROUNDS: usize = 5;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    for round in 0..ROUNDS {
        let home = ann.private_channel(&[bob.pubkey]).await;
        let first = ann.artifact(home).await;
        let mut edits = vec![first.clone()];
        for n in 0..EDITS {
            let edit = Revision::update(&edits[n], &format!("edit {n}")).sign(&bob.key);
            edits.push(edit);
        }
        let removal = build::remove_user(&ann.key, home, bob.pubkey);
        // The removal falls somewhere among the edits; each round at another place.
        let before = round * EDITS / ROUNDS;
        let (verdicts, _) = tokio::join!(
            async {
                for edit in &edits[1..] {
                    bob.ws.submit(edit).await;
                }
                let mut verdicts = Vec::new();
                for edit in &edits[1..] {
                    verdicts.push(bob.ws.answer(edit.id).await);
                }
                verdicts
            },
            async {
                for n in 0..before {
                    ann.chat(home, &format!("round {round}, message {n}")).await;
                }
                ann.ws.accept(removal).await;
            },
        );
        let accepted = verdicts
            .iter()
            .take_while(|verdict| verdict.accepted)
            .count();
        for refused in &verdicts[accepted..] {
            assert_eq!(
                *refused,
                Verdict {
                    accepted: false,
                    message: "restricted: not a channel member".to_owned(),
                },
                "an edit after the removal"
            );
        }
        let head = ann.head(artifact_of(&first)).await;
        assert_eq!(head, [edits[accepted].clone()]);
    }
}

#[tokio::test]
async fn an_accepted_event_that_is_sent_again_succeeds_and_changes_nothing() {
    rules!("AR-ID-11", "AR-ID-12");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let live = bob.ws.fresh_sub();
    let revisions = json!({"kinds": [45010], "#h": [home]});
    bob.ws.subscribe(&live, &revisions).await;
    let first = ann.artifact(home).await;
    assert_eq!(bob.ws.next_event(&live).await, first);
    send_again(&mut ann, &first).await;
    let second = ann.write(&Revision::update(&first, "2")).await;
    for event in [&first, &second] {
        send_again(&mut ann, event).await;
    }
    let third = ann.write(&Revision::delete(&second)).await;
    for event in [&first, &second, &third] {
        send_again(&mut ann, event).await;
    }
    let last = ann.artifact(home).await;
    for expected in [&second, &third, &last] {
        assert_eq!(bob.ws.next_event(&live).await, *expected);
    }
    let d = artifact_of(&first);
    assert_eq!(ann.head(d).await, only(&third));
    let history = ann.history(d).await;
    assert_eq!(ids(&history), ids([&first, &second, &third]));
}

/// Sends an accepted event again over WebSocket and HTTP: a plain success both times.
async fn send_again(author: &mut Person, event: &Event) {
    assert_eq!(author.ws.publish(event).await, success());
    let answer = author.http.submit(event).await;
    let body = json!({"event_id": event.id, "accepted": true, "message": ""});
    assert_eq!((answer.status, answer.json()), (200, body));
}

#[tokio::test]
async fn the_success_of_an_event_sent_again_tells_nothing() {
    rules!("AR-ID-13", "AR-ID-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.private_channel(&[bob.pubkey]).await;
    let secret = ann.private_channel(&[]).await;
    let first = bob.artifact(home).await;
    ann.remove(home, bob.pubkey).await;
    send_again(&mut bob, &first).await;
    let moved = ann.write(&Revision::move_to(&first, secret)).await;
    send_again(&mut bob, &first).await;
    let archive = build::archive(&ann.key, home, true);
    ann.ws.accept(archive).await;
    send_again(&mut bob, &first).await;
    ann.write(&Revision::delete(&moved)).await;
    let end = build::delete_channel(&ann.key, secret);
    ann.ws.accept(end).await;
    send_again(&mut bob, &first).await;

    // Only the author is told so; anyone else is refused for being another, whether the event was ever accepted or not.
    let never = Revision::create(fresh_artifact(), home).sign(&bob.key);
    for event in [&first, &never] {
        let reason = "invalid: event pubkey does not match authenticated identity";
        assert_eq!(ann.ws.refuse(event.clone()).await, reason);
        let answer = ann.http.submit(event).await;
        assert_eq!((answer.status, answer.error()), (403, reason.to_owned()));
    }
}

#[tokio::test]
async fn only_a_move_changes_the_home_and_a_move_must() {
    rules!("AR-ID-16", "AR-ID-17", "AR-DEL-2", "AR-DEL-9");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let head = ann.artifact(home).await;
    for revision in [
        Revision::update(&head, "x").home(other),
        Revision::delete(&head).home(other),
        Revision::move_to(&head, home),
    ] {
        assert_eq!(refused(&mut ann, &revision).await, invalid(HOME));
    }
    let gone = ann.write(&Revision::delete(&head)).await;
    let elsewhere = Revision::restore(&gone, "x").home(other);
    assert_eq!(refused(&mut ann, &elsewhere).await, invalid(HOME));
    assert_eq!(ann.head(artifact_of(&head)).await, [gone]);
    assert_eq!(ann.current(json!({"#h": [other]})).await, []);
}

/// Everything that could stand in a `root` tag, by what it is. The first four are anchors.
async fn candidates(ann: &mut Person, home: ChannelId) -> BTreeMap<&'static str, (bool, EventId)> {
    let other = ann.open_channel().await;
    let h = home.to_string();
    let in_home = || vec![build::tag(&["h", &h])];
    let mut found = BTreeMap::new();
    for (name, kind) in [
        ("chat", 9),
        ("message", 40002),
        ("post", 45001),
        ("comment", 45003),
    ] {
        let event = build::event(&ann.key, kind, in_home(), name);
        found.insert(name, (true, ann.ws.accept(event).await.id));
    }
    let chat = ann.chat(home, "to be reacted to").await;
    let mut tags = in_home();
    tags.push(build::tag(&["e", &chat.id.to_string()]));
    let reaction = build::event(&ann.key, 7, tags, "+");
    found.insert("reaction", (false, ann.ws.accept(reaction).await.id));
    found.insert("artifact", (false, ann.artifact(home).await.id));
    found.insert("elsewhere", (false, ann.chat(other, "elsewhere").await.id));
    let unknown = build::chat(&ann.key, home, "never sent");
    found.insert("unknown", (false, unknown.id));
    let deleted = ann.chat(home, "deleted by its author").await.id;
    let deletion = build::deletion(&ann.key, &[deleted]);
    ann.ws.accept(deletion).await;
    found.insert("deleted", (false, deleted));
    let removed = ann.chat(home, "removed by a moderator").await.id;
    let removal = build::remove_event(&ann.key, home, removed);
    ann.ws.accept(removal).await;
    found.insert("removed", (false, removed));
    found
}

#[tokio::test]
async fn a_new_root_is_a_conversation_message_of_the_home() {
    rules!("AR-ID-21", "AR-ID-22");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let mut head = ann.artifact(home).await;
    for (name, (is_anchor, root)) in candidates(&mut ann, home).await {
        let create = Revision::create(fresh_artifact(), home).root(Some(root));
        let update = Revision::update(&head, name).root(Some(root));
        let gone = ann.artifact(home).await;
        let gone = ann.write(&Revision::delete(&gone)).await;
        let restore = Revision::restore(&gone, name).root(Some(root));
        if is_anchor {
            ann.write(&create).await;
            ann.write(&restore).await;
            head = ann.write(&update).await;
        } else {
            for revision in [create, update, restore] {
                assert_eq!(refused(&mut ann, &revision).await, invalid(ROOT), "{name}");
            }
        }
    }
    let without = Revision::update(&head, "no root any more").root(None);
    ann.write(&without).await;
}

#[tokio::test]
async fn an_unchanged_root_outlives_its_message() {
    rules!("AR-ID-23", "AR-ID-22");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let other = ann.open_channel().await;
    let anchor = ann.chat(home, "the anchor").await.id;
    let create = Revision::create(fresh_artifact(), home).root(Some(anchor));
    let first = ann.write(&create).await;
    let deletion = build::deletion(&ann.key, &[anchor]);
    ann.ws.accept(deletion).await;
    let second = ann.write(&Revision::update(&first, "still here")).await;
    let gone = ann.write(&Revision::delete(&second)).await;
    assert_eq!(gone.first_value("root"), Some(anchor.to_string().as_str()));
    let back = ann.write(&Revision::restore(&gone, "back")).await;
    let moved = Revision::move_to(&back, other).root(Some(anchor));
    assert_eq!(ann.refused(&moved).await, ROOT);
    let bare = ann.write(&Revision::update(&back, "bare").root(None)).await;
    let again = Revision::update(&bare, "again").root(Some(anchor));
    assert_eq!(ann.refused(&again).await, ROOT);
}

#[tokio::test]
async fn replies_belong_to_the_conversation_and_edits_leave_it_alone() {
    rules!("AR-ID-24", "AR-CUR-24", "AR-MOVE-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let anchor = ann.chat(home, "the anchor").await;
    let mut thread = Vec::new();
    for text in ["first reply", "second reply"] {
        let reply = build::reply(&bob.key, home, anchor.id, text);
        thread.push(bob.ws.accept(reply).await);
    }
    let create = Revision::create(fresh_artifact(), home).root(Some(anchor.id));
    let first = ann.write(&create).await;
    let counts = counts(&mut bob.ws, home, anchor.id).await;
    assert_eq!(counts, [3, 2, 2]);
    let second = ann.write(&Revision::update(&first, "edited")).await;
    let gone = ann.write(&Revision::delete(&second)).await;
    let back = ann.write(&Revision::restore(&gone, "back")).await;
    ann.write(&Revision::move_to(&back, other)).await;
    let replies = json!({"kinds": [9], "#e": [anchor.id]});
    assert_eq!(ids(&bob.ws.stored(&replies).await), ids(&thread));
    assert_eq!(
        bob.ws.count(&[json!({"kinds": [9], "#h": [other]})]).await,
        Ok(0)
    );
    assert_eq!(self::counts(&mut bob.ws, home, anchor.id).await, counts);
}

/// Messages of the channel, replies to the anchor by kind, and everything that refers to it.
async fn counts(ws: &mut Client, home: ChannelId, anchor: EventId) -> [u64; 3] {
    let mut counts = [0; 3];
    let filters = [
        json!({"kinds": [9], "#h": [home]}),
        json!({"kinds": [9], "#e": [anchor]}),
        json!({"#e": [anchor]}),
    ];
    for (count, filter) in counts.iter_mut().zip(filters) {
        *count = ws.count(&filter).await.expect("a count");
    }
    counts
}
