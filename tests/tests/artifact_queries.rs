//! Current-state queries against a running relay: what matches, over which channels, and before which cut.

use holdfast_core::nostr::Event;
use holdfast_tests::build::{self, Revision, fresh_artifact, fresh_channel};
use holdfast_tests::lookup::{live, shown};
use holdfast_tests::person::{Person, artifact_of, ids, only, view};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::{Value, json};

/// Rows and count of a current-state query, which must agree.
async fn current(person: &Person, filter: Value) -> Vec<Event> {
    let rows = person.current(filter.clone()).await;
    assert_eq!(person.current_count(filter).await, rows.len() as u64);
    rows
}

#[tokio::test]
async fn a_current_state_query_returns_the_newest_revision_alone() {
    rules!("AR-CUR-2", "AR-CUR-4", "AR-CUR-16", "AR-CUR-5");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let (a, b) = ("project-a", "project-b");
    let create = Revision::create(fresh_artifact(), home)
        .title("the first title")
        .with(&["project", a])
        .with(&["only-old", "yes"]);
    let first = ann.write(&create).await;
    let d = artifact_of(&first);
    assert_eq!(current(&ann, json!({"#project": [a]})).await, only(&first));
    let second = Revision::update(&first, "2").only_with(&[&["project", b]]);
    let second = ann.write(&second.title("the second title")).await;
    let third = ann.write(&Revision::update(&second, "3")).await;
    for by_new in [
        json!({"#project": [b]}),
        json!({"#project": [a, b]}),
        json!({"#d": [d]}),
        json!({"#h": [home]}),
        json!({"#title": ["the second title"]}),
        json!({"#op": ["update"]}),
        json!({"#prev": [second.id]}),
    ] {
        assert_eq!(
            current(&ann, by_new.clone()).await,
            only(&third),
            "{by_new}"
        );
    }
    for by_old in [
        json!({"#project": [a]}),
        json!({"#only-old": ["yes"]}),
        json!({"#title": ["the first title"]}),
        json!({"#op": ["create"]}),
        json!({"#prev": [first.id]}),
        json!({"#d": [d], "#project": [a]}),
    ] {
        assert_eq!(current(&ann, by_old.clone()).await, [], "{by_old}");
    }
    // The history is the view that matches older revisions, and it matches each by its own tags.
    let old = view("history", json!({"#d": [d], "#project": [a]}));
    assert_eq!(ann.http.rows(old).await, [first]);
}

#[tokio::test]
async fn one_query_reaches_every_channel_that_the_reader_can_read() {
    rules!("AR-CUR-9", "AR-CUR-14");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let open = ann.open_channel().await;
    let joint = ann.private_channel(&[bob.pubkey]).await;
    let own = bob.private_channel(&[]).await;
    let secret = ann.private_channel(&[]).await;
    let note = |home| Revision::create(fresh_artifact(), home).with(&["k", "v"]);
    let mut readable = vec![
        ann.write(&note(open)).await,
        ann.write(&note(joint)).await,
        bob.write(&note(own)).await,
    ];
    // The newest rows are the unreadable ones: they take no place in a page and no part in a count.
    let mut hidden = Vec::new();
    for _ in 0..3 {
        hidden.push(ann.write(&note(secret)).await);
    }
    assert_eq!(
        ids(&current(&bob, json!({"#k": ["v"]})).await),
        ids(&readable)
    );
    let mut paged = Vec::new();
    for offset in 0..4 {
        let page = json!({"#k": ["v"], "limit": 1, "offset": offset});
        paged.extend(bob.current(page.clone()).await);
        assert_eq!(bob.current_count(page).await, 3, "a count knows no page");
    }
    assert_eq!(ids(&paged), ids(&readable));
    let two = json!({"#k": ["v"], "#h": [open, secret]});
    assert_eq!(current(&bob, two).await, [readable[0].clone()]);
    readable.remove(2);
    readable.extend(hidden);
    assert_eq!(
        ids(&current(&ann, json!({"#k": ["v"]})).await),
        ids(&readable)
    );
}

#[tokio::test]
async fn system_channels_are_left_out_where_they_are_not_named() {
    rules!("AR-CUR-9", "AR-HEAD-3", "CL-SYS-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let system = fresh_channel();
    let create = build::create_channel(&ann.key, system, &[&["channel_type", "system"]]);
    ann.ws.accept(create).await;
    let open = ann.open_channel().await;
    let in_open = ann.artifact(open).await;
    // An artifact whose id is that of the channel names the channel no more than any other.
    let d = system.to_string().parse().expect("an id");
    let hidden = ann.write(&Revision::create(d, system)).await;
    assert_eq!(current(&ann, json!({})).await, only(&in_open));
    assert_eq!(current(&ann, json!({"#d": [d]})).await, []);
    assert_eq!(ann.head(d).await, []);
    assert_eq!(ann.history(d).await, []);
    for plain in [
        json!({"ids": [hidden.id]}),
        json!({"kinds": [45010], "#d": [d]}),
    ] {
        assert_eq!(ann.ws.stored(&plain).await, []);
        assert_eq!(ann.http.rows(plain.clone()).await, []);
        assert_eq!(ann.ws.count(&plain).await, Ok(0));
    }
    let named = json!({"#h": [system]});
    assert_eq!(current(&ann, named.clone()).await, only(&hidden));
    let both = json!({"#h": [system, open]});
    assert_eq!(ids(&current(&ann, both).await), ids([&hidden, &in_open]));
    for name in ["head", "history"] {
        let filter = view(name, json!({"#d": [d], "#h": [system]}));
        assert_eq!(ann.http.rows(filter).await, only(&hidden));
    }
    let by_id = json!({"ids": [hidden.id], "#h": [system]});
    assert_eq!(ann.ws.stored(&by_id).await, [hidden]);
}

/// Artifacts for the matching tests, each with its name in a `name` tag.
async fn shelf(ann: &mut Person) -> Vec<Event> {
    let home = ann.open_channel().await;
    let shelf: [(&str, &[&[&str]]); 8] = [
        ("both", &[&["assignee", "x"], &["project", "A"]]),
        ("other project", &[&["assignee", "x"], &["project", "B"]]),
        ("other assignee", &[&["assignee", "y"], &["project", "A"]]),
        ("second value", &[&["project", "C", "A"]]),
        ("two projects", &[&["project", "D"], &["project", "A"]]),
        ("name and value apart", &[&["project", "E"], &["team", "A"]]),
        ("without value", &[&["project"], &["A", "project"]]),
        (
            "close",
            &[
                &["project", "a"],
                &["Project", "A"],
                &["projects", "A"],
                &["projec", "A"],
            ],
        ),
    ];
    let mut written = Vec::new();
    for (name, tags) in shelf {
        let revision = Revision::create(fresh_artifact(), home).only_with(tags);
        written.push(ann.write(&revision.with(&["name", name])).await);
    }
    written
}

/// The names of the artifacts that match, sorted.
async fn named(person: &Person, filter: Value) -> Vec<String> {
    let mut names: Vec<String> = current(person, filter)
        .await
        .iter()
        .map(|event| event.first_value("name").expect("a name").to_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn predicates_match_exactly_and_are_joined_by_and_their_values_by_or() {
    rules!("AR-CUR-10", "AR-CUR-11", "AR-CUR-12", "AR-CUR-13");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    shelf(&mut ann).await;
    let cases: [(Value, &[&str]); 14] = [
        (
            json!({"#project": ["A"]}),
            &["both", "other assignee", "two projects"],
        ),
        (json!({"#project": ["B"]}), &["other project"]),
        (
            json!({"#project": ["A", "B"]}),
            &["both", "other assignee", "other project", "two projects"],
        ),
        (json!({"#assignee": ["x"], "#project": ["A"]}), &["both"]),
        (
            json!({"#assignee": ["x", "y"], "#project": ["A"]}),
            &["both", "other assignee"],
        ),
        (
            json!({"#assignee": ["x"], "#project": ["A", "B"]}),
            &["both", "other project"],
        ),
        (json!({"#assignee": ["y"], "#project": ["B"]}), &[]),
        (json!({"#project": ["C"]}), &["second value"]),
        (json!({"#team": ["A"]}), &["name and value apart"]),
        (json!({"#project": ["a"]}), &["close"]),
        (json!({"#Project": ["A"]}), &["close"]),
        (json!({"#project": ["", "A ", " A", "proj"]}), &[]),
        (json!({"#proj": ["A"]}), &[]),
        (json!({"#A": ["project"]}), &["without value"]),
    ];
    for (filter, expected) in cases {
        assert_eq!(named(&ann, filter.clone()).await, expected, "{filter}");
    }
    let type_and_tag = json!({"#type": ["test.note"], "#assignee": ["y"]});
    assert_eq!(named(&ann, type_and_tag).await, ["other assignee"]);
    let no_type = json!({"#type": ["test"], "#assignee": ["y"]});
    assert_eq!(named(&ann, no_type).await, [] as [&str; 0]);
}

#[tokio::test]
async fn matching_comes_before_pages_and_counts() {
    rules!("AR-CUR-15", "AR-CUR-14");
    const NEWER: usize = 130;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let note = |value: &str| Revision::create(fresh_artifact(), home).with(&["k", value]);
    let wanted = ann.write(&note("wanted")).await;
    let newer: Vec<Event> = (0..NEWER).map(|_| note("other").sign(&ann.key)).collect();
    for event in &newer {
        ann.ws.submit(event).await;
    }
    for event in &newer {
        assert!(ann.ws.answer(event.id).await.accepted);
    }
    // More rows than the page that is given where none is asked for, all of them newer than the one that matches.
    let page = json!({"#k": ["wanted"], "limit": 10});
    assert_eq!(current(&ann, page).await, only(&wanted));
    assert_eq!(
        current(&ann, json!({"#k": ["wanted"]})).await,
        only(&wanted)
    );
    let by_type = json!({"#k": ["wanted"], "#type": ["test.note"], "limit": 1});
    assert_eq!(ann.current(by_type).await, [wanted]);
    assert_eq!(
        ann.current_count(json!({"#k": ["other"]})).await,
        NEWER as u64
    );
    assert_eq!(ann.current(json!({"#k": ["other"]})).await.len(), 100);
    let mut paged = Vec::new();
    for offset in (0..NEWER).step_by(50) {
        let page = json!({"#k": ["other"], "limit": 50, "offset": offset});
        paged.extend(ann.current(page).await);
    }
    assert_eq!(ids(&paged), ids(&newer));
}

#[tokio::test]
async fn revisions_raise_no_count_of_messages_or_replies() {
    rules!("AR-CUR-24");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let root = ann.chat(home, "the root").await.id;
    let reply = build::reply(&bob.key, home, root, "a reply");
    bob.ws.accept(reply).await;
    let filters = [
        json!({"kinds": [9], "#h": [home]}),
        json!({"kinds": [9], "#h": [other]}),
        json!({"#e": [root]}),
        json!({"kinds": [9, 7, 40002, 40003, 45001, 45003, 40099], "#h": [home, other]}),
        json!({"#p": [bob.pubkey], "kinds": [9, 44100, 44101]}),
    ];
    let mut before = Vec::new();
    for filter in &filters {
        before.push((
            bob.ws.count(filter).await.ok(),
            bob.http.count(filter).await.body,
        ));
    }
    // Chats are watched live as well: the next message is all that comes.
    let chats = json!({"kinds": [9, 40002, 45001, 45003], "#h": [home, other], "limit": 1});
    bob.ws.subscribe("chats", &chats).await;
    let create = Revision::create(fresh_artifact(), home)
        .root(Some(root))
        .with(&["p", &bob.pubkey.to_string()])
        .with(&["q", &root.to_string()]);
    let first = ann.write(&create).await;
    let second = ann.write(&Revision::update(&first, "2")).await;
    let gone = ann.write(&Revision::delete(&second)).await;
    let back = ann.write(&Revision::restore(&gone, "3")).await;
    ann.write(&Revision::move_to(&back, other)).await;
    for (filter, before) in filters.iter().zip(before) {
        let after = (
            bob.ws.count(filter).await.ok(),
            bob.http.count(filter).await.body,
        );
        assert_eq!(after, before, "{filter}");
    }
    let message = ann.chat(other, "the next message").await;
    assert_eq!(bob.ws.next_event("chats").await, message);
}

#[tokio::test]
async fn the_current_revision_is_the_one_accepted_last() {
    rules!("AR-CUR-1", "AR-CUR-2", "AR-CUR-3");
    const STEPS: usize = 60;
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let homes = [ann.open_channel().await, ann.open_channel().await];
    let mut heads = vec![ann.artifact(homes[0]).await, ann.artifact(homes[1]).await];
    let mut accepted = heads.clone();
    // A fixed sequence that visits every op in every state; what is refused changes nothing.
    for step in 0..STEPS {
        let at = step * 7 % heads.len();
        let head = &heads[at];
        let stale = &accepted[step * 5 % accepted.len()];
        let revision = match step * 11 % 6 {
            0 | 1 => Revision::update(head, &step.to_string()),
            2 => Revision::delete(head),
            3 => Revision::restore(head, &step.to_string()),
            4 => Revision::move_to(head, homes[step % 2]),
            _ => Revision::update(stale, &step.to_string()),
        };
        let event = revision.sign(&ann.key);
        let verdict = ann.ws.publish(&event).await;
        if verdict.accepted {
            let of = heads
                .iter()
                .position(|head| artifact_of(head) == artifact_of(&event))
                .expect("both artifacts are known");
            heads[of] = event.clone();
            accepted.push(event);
        }
    }
    assert!(accepted.len() > STEPS / 4, "{} accepted", accepted.len());
    let live_heads: Vec<&Event> = heads
        .iter()
        .filter(|head| head.first_value("op") != Some("delete"))
        .collect();
    assert_eq!(
        ids(&current(&ann, json!({"#h": homes})).await),
        ids(live_heads)
    );
    for head in &heads {
        let d = artifact_of(head);
        assert_eq!(ann.head(d).await, only(head));
        let revisions = accepted.iter().filter(|event| artifact_of(event) == d);
        assert_eq!(ids(&ann.history(d).await), ids(revisions));
        if head.first_value("op") != Some("delete") {
            assert_eq!(shown(&mut ann, head).await, live());
        }
    }
}
