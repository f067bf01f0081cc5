//! The envelope of a revision against a running relay: what is refused leaves no trace, what is accepted comes back as it was
//! sent, and a client's own tags change nothing of access.

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, EventId};
use holdfast_tests::build::{Revision, fresh_artifact};
use holdfast_tests::lookup::{live, shown};
use holdfast_tests::person::{Person, artifact_of, ids, only};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

/// A wrong revision and the reason it gets, without `invalid: `.
type Wrong = (Revision, &'static str);

const VERSION: &str = "unsupported artifact envelope version";
const UUID: &str = "UUID must be canonical lowercase and non-nil";
const FORM: &str = "envelope tags must occur once with exactly two elements";
const MISSING: &str = "missing required envelope tag";
const TYPE: &str = "invalid namespaced artifact type";
const TITLE: &str = "title must be nonblank and at most 512 UTF-8 bytes";
const OPERATION: &str = "invalid artifact operation";
const EVENT_ID: &str = "event ID must be 64 lowercase hex characters";
const PREV: &str = "prev required exactly on non-create revisions";
const DELETE_BODY: &str = "delete must omit title and have empty content";
const DELETE_TAGS: &str = "delete allows only envelope and verified auth tags";

/// Sends each wrong revision over WebSocket and HTTP and expects its reason, then checks that none left anything behind: no
/// event, no count, nothing live, and no memory of an accepted id.
async fn leave_no_trace(ann: &mut Person, bob: &mut Person, home: ChannelId, wrong: Vec<Wrong>) {
    let before = everything(bob, home).await;
    let live = bob.ws.fresh_sub();
    let any_channel = json!({"kinds": [45010, 45011], "limit": 1});
    bob.ws.subscribe(&live, &any_channel).await;
    for (revision, reason) in wrong {
        let event = revision.sign(&ann.key);
        let reason = format!("invalid: {reason}");
        for _ in 0..2 {
            let tags = &event.tags;
            assert_eq!(ann.ws.refuse(event.clone()).await, reason, "{tags:?}");
            let answer = ann.http.submit(&event).await;
            assert_eq!((answer.status, answer.error()), (400, reason.clone()));
        }
        let found = bob.ws.stored(&[json!({"ids": [event.id]})]).await;
        assert_eq!(found, []);
    }
    assert_eq!(everything(bob, home).await, before);
    let marker = ann.artifact(home).await;
    assert_eq!(bob.ws.next_event(&live).await, marker);
    bob.ws.close(&live).await;
}

/// The artifacts of a channel as rows and counts show them.
async fn everything(bob: &mut Person, home: ChannelId) -> (Vec<EventId>, u64, Vec<EventId>, u64) {
    let plain = json!({"kinds": [45010, 45011], "#h": [home]});
    let by_home = json!({"#h": [home]});
    (
        ids(&bob.ws.stored(&plain).await),
        bob.ws.count(&plain).await.expect("a count"),
        ids(&bob.current(by_home.clone()).await),
        bob.current_count(by_home).await,
    )
}

fn without(revision: &Revision, name: &str) -> Revision {
    let mut revision = revision.clone();
    *field(&mut revision, name) = None;
    revision
}

fn set(revision: &Revision, name: &str, value: &str) -> Revision {
    let mut revision = revision.clone();
    *field(&mut revision, name) = Some(value.to_owned());
    revision
}

fn field<'r>(revision: &'r mut Revision, name: &str) -> &'r mut Option<String> {
    match name {
        "ar" => &mut revision.ar,
        "d" => &mut revision.d,
        "h" => &mut revision.h,
        "type" => &mut revision.kind_of,
        "title" => &mut revision.title,
        "op" => &mut revision.op,
        "root" => &mut revision.root,
        "prev" => &mut revision.prev,
        other => panic!("{other} is no envelope tag"),
    }
}

#[tokio::test]
async fn versions_ids_and_homes_of_another_form_leave_no_trace() {
    rules!("AR-ENV-2", "AR-ENV-3", "AR-ENV-4", "AR-ENV-5", "AR-ENV-20");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let create = || Revision::create(fresh_artifact(), home);
    let mut wrong = vec![(without(&create(), "ar"), MISSING)];
    for version in ["0", "2", "01", "1 ", ""] {
        wrong.push((set(&create(), "ar", version), VERSION));
    }
    let uuid = "04737c81-e5e8-4412-bb47-f446813cfeba";
    let ill_formed = [
        uuid.to_uppercase(),
        uuid.replace('-', ""),
        format!("{{{uuid}}}"),
        "00000000-0000-0000-0000-000000000000".to_owned(),
        "general".to_owned(),
        String::new(),
    ];
    for name in ["d", "h"] {
        wrong.push((without(&create(), name), MISSING));
        for value in &ill_formed {
            wrong.push((set(&create(), name, value), UUID));
        }
    }
    leave_no_trace(&mut ann, &mut bob, home, wrong).await;
}

#[tokio::test]
async fn types_and_operations_of_another_form_leave_no_trace() {
    rules!("AR-ENV-6", "AR-ENV-7", "AR-ENV-8", "AR-ENV-13", "AR-ENV-20");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let head = ann.artifact(home).await;
    let create = || Revision::create(fresh_artifact(), home);
    let mut wrong = vec![
        (without(&create(), "type"), MISSING),
        (without(&Revision::delete(&head), "type"), MISSING),
        (without(&create(), "op"), MISSING),
    ];
    let too_long = format!("a.{}", "b".repeat(127));
    for name in [
        "Buzz.task",
        "task",
        "buzz..x",
        "buzz.1x",
        ".a",
        "a.",
        "a.b!",
        "a.é",
        "a. b",
        "",
        &too_long,
    ] {
        wrong.push((create().of_type(name), TYPE));
    }
    for op in ["Create", "purge", "", "create "] {
        wrong.push((set(&create(), "op", op), OPERATION));
    }
    leave_no_trace(&mut ann, &mut bob, home, wrong).await;
    let longest = format!("a.{}", "b".repeat(126));
    for name in ["a.b_c-1", "buzz.task", &longest] {
        ann.write(&create().of_type(name)).await;
    }
}

#[tokio::test]
async fn titles_of_another_form_leave_no_trace() {
    rules!(
        "AR-ENV-9",
        "AR-ENV-10",
        "AR-ENV-11",
        "AR-ENV-12",
        "AR-ENV-20"
    );
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let head = ann.artifact(home).await;
    let gone = ann.artifact(home).await;
    let gone = ann.write(&Revision::delete(&gone)).await;
    let create = || Revision::create(fresh_artifact(), home);
    let mut wrong = vec![
        (without(&create(), "title"), TITLE),
        (without(&Revision::update(&head, "x"), "title"), TITLE),
        (without(&Revision::move_to(&head, other), "title"), TITLE),
        (without(&Revision::restore(&gone, "x"), "title"), TITLE),
        (Revision::delete(&head).title("a note"), DELETE_BODY),
    ];
    for title in [
        "",
        "  ",
        "\t",
        "\u{a0}",
        "\u{2003}\u{3000}",
        &"x".repeat(513),
        &"€".repeat(171),
    ] {
        wrong.push((create().title(title), TITLE));
    }
    leave_no_trace(&mut ann, &mut bob, home, wrong).await;
    for title in ["x".repeat(512), "€".repeat(170), " \u{a0}x".to_owned()] {
        let written = ann.write(&create().title(&title)).await;
        assert_eq!(written.first_value("title"), Some(title.as_str()));
    }
}

#[tokio::test]
async fn roots_and_prevs_of_another_form_are_malformed_and_no_conflicts() {
    rules!(
        "AR-ENV-14",
        "AR-ENV-15",
        "AR-ENV-16",
        "AR-ENV-17",
        "AR-ENV-20"
    );
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let head = ann.artifact(home).await;
    let gone = ann.artifact(home).await;
    let gone = ann.write(&Revision::delete(&gone)).await;
    let create = || Revision::create(fresh_artifact(), home);
    let update = || Revision::update(&head, "x");
    let mut wrong = vec![(set(&create(), "prev", &head.id.to_string()), PREV)];
    for revision in [
        update(),
        Revision::move_to(&head, other),
        Revision::delete(&head),
        Revision::restore(&gone, "x"),
    ] {
        wrong.push((without(&revision, "prev"), PREV));
    }
    let id = head.id.to_string();
    let ill_formed = [
        id[1..].to_owned(),
        format!("{id}0"),
        id.to_uppercase(),
        artifact_of(&head).to_string(),
        String::new(),
    ];
    for value in &ill_formed {
        wrong.push((set(&update(), "prev", value), EVENT_ID));
        wrong.push((set(&create(), "root", value), EVENT_ID));
    }
    leave_no_trace(&mut ann, &mut bob, home, wrong).await;
}

#[tokio::test]
async fn envelope_tags_that_are_repeated_or_of_another_length_leave_no_trace() {
    rules!(
        "AR-ENV-18",
        "AR-ENV-19",
        "AR-ENV-20",
        "AR-ENV-26",
        "AR-DEL-1",
        "AR-DEL-3"
    );
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let head = ann.artifact(home).await;
    let message = ann.chat(home, "the anchor").await;
    let update = || Revision::update(&head, "x").root(Some(message.id));
    let values = [
        ("ar", "2".to_owned()),
        ("d", fresh_artifact().to_string()),
        ("h", other.to_string()),
        ("type", "test.other".to_owned()),
        ("title", "another".to_owned()),
        ("op", "delete".to_owned()),
        ("root", head.id.to_string()),
        ("prev", message.id.to_string()),
    ];
    let mut wrong = Vec::new();
    for (name, other_value) in &values {
        let mut whole = update();
        let same_value = field(&mut whole, name)
            .clone()
            .expect("all eight are there");
        wrong.push((whole.clone().with(&[name, &same_value]), FORM));
        wrong.push((whole.clone().with(&[name, other_value]), FORM));
        let alone = without(&whole, name);
        wrong.push((alone.clone().with(&[name]), FORM));
        wrong.push((alone.with(&[name, &same_value, "more"]), FORM));
    }
    wrong.push((Revision::delete(&head).content("x"), DELETE_BODY));
    for name in ["assignee", "p", "x"] {
        wrong.push((Revision::delete(&head).with(&[name, "x"]), DELETE_TAGS));
    }
    leave_no_trace(&mut ann, &mut bob, home, wrong).await;
    assert_eq!(ann.head(artifact_of(&head)).await, only(&head));
    assert_eq!(ann.current(json!({"#h": [other]})).await, []);
}

#[tokio::test]
async fn a_revision_is_the_whole_state_and_comes_back_byte_for_byte() {
    rules!("AR-ENV-1", "AR-ENV-24", "AR-ENV-25", "AR-ENV-30");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let d = fresh_artifact();
    let bare = ann.write(&Revision::create(d, home)).await;
    assert_eq!(ann.head(d).await, only(&bare));
    let mut head = bare;
    for content in ["{\"not\": json", "", "🦀 \u{7f}\u{1}\n\t\\\"", "\u{2028}é"] {
        let tags: [&[&str]; 5] = [
            &["assignee", "someone"],
            &["x-y", content],
            &["P", "a key that is none"],
            &["valueless"],
            &["e", "no event", "more", ""],
        ];
        let update = Revision::update(&head, content).only_with(&tags);
        head = ann.write(&update).await;
        assert_eq!(ann.head(d).await, only(&head));
        for name in ["assignee", "x-y", "P", "e"] {
            let value = head.first_value(name).expect("the tag is there");
            let name = format!("#{name}");
            assert_eq!(ann.current(json!({name: [value]})).await, only(&head));
        }
    }
    let last = ann
        .write(&Revision::update(&head, "changed").only_with(&[&["assignee", "other"]]))
        .await;
    assert_eq!(ann.head(d).await, [last]);
    assert_eq!(ann.current(json!({"#P": ["a key that is none"]})).await, []);
}

#[tokio::test]
async fn artifacts_may_look_alike_and_share_a_thread() {
    rules!("AR-ENV-29");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let message = ann.chat(home, "the anchor").await;
    let mut written = Vec::new();
    for _ in 0..3 {
        let revision = Revision::create(fresh_artifact(), home)
            .root(Some(message.id))
            .with(&["project", "the same"]);
        written.push(ann.write(&revision).await);
    }
    let by_root = ann.current(json!({"#root": [message.id]})).await;
    assert_eq!(ids(&by_root), ids(&written));
    assert_eq!(ann.current_count(json!({"#h": [home]})).await, 3);
}

#[tokio::test]
async fn tags_of_a_client_open_a_private_home_to_nobody() {
    rules!("AR-ENV-27", "AR-ACC-1");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut eve = Person::arrive(&relay.endpoint()).await;
    let home = ann.private_channel(&[]).await;
    let open = ann.open_channel().await;
    let named = eve.pubkey.to_string();
    let mut revision = Revision::create(fresh_artifact(), home);
    for name in ["p", "P", "assignee", "owner", "reader", "member"] {
        revision = revision.with(&[name, &named]);
    }
    let written = ann
        .write(&revision.with(&["channel", &open.to_string()]))
        .await;
    assert_eq!(shown(&mut ann, &written).await, live());
    assert_eq!(shown(&mut eve, &written).await, [].into());
    assert_eq!(eve.current(json!({"#p": [named]})).await, []);
    let inbox = json!({"kinds": [45010], "#p": [named]});
    assert_eq!(eve.ws.stored(&inbox).await, []);
}

#[tokio::test]
async fn one_channel_is_the_home_at_every_moment_and_decides_who_reads() {
    rules!("AR-ENV-31", "AR-CUR-1");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let mut eve = Person::arrive(&relay.endpoint()).await;
    let a = ann.private_channel(&[bob.pubkey]).await;
    let b = ann.private_channel(&[eve.pubkey]).await;
    let mut head = ann.artifact(a).await;
    let d = artifact_of(&head);
    let steps: [fn(&Event, [ChannelId; 2]) -> Revision; 8] = [
        |head, _| Revision::update(head, "1"),
        |head, [_, b]| Revision::move_to(head, b),
        |head, _| Revision::update(head, "2"),
        |head, _| Revision::delete(head),
        |head, _| Revision::restore(head, "3"),
        |head, [a, _]| Revision::move_to(head, a),
        |head, _| Revision::delete(head),
        |head, _| Revision::restore(head, "4"),
    ];
    for step in steps {
        head = ann.write(&step(&head, [a, b])).await;
        let home = head.channel_tag().expect("a revision has a home");
        assert_eq!(ann.head(d).await, only(&head));
        let (inside, outside) = if home == a {
            (&bob, &eve)
        } else {
            (&eve, &bob)
        };
        assert_eq!(inside.head(d).await, only(&head));
        assert_eq!(outside.head(d).await, []);
    }
    assert_eq!(shown(&mut bob, &head).await, live());
    assert_eq!(shown(&mut eve, &head).await, [].into());
}
