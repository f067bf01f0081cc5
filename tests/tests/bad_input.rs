//! Events that are refused for what they say: each in its documented words on its own id, over WebSocket and HTTP alike, and
//! without a trace in the database. Frames, headers and bodies that cannot be read are tried in `ws_frames` and `http_bridge`.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::nostr::{Draft, Event, Tag};
use holdfast_tests::build::{self, Revision, tag};
use holdfast_tests::offline::DATABASE_FILE;
use holdfast_tests::person::{Person, artifact_of};
use holdfast_tests::relay::{Profile, RelayProcess};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

fn database(relay: &RelayProcess, flags: OpenFlags) -> Connection {
    let path = relay.data_dir().join(DATABASE_FILE);
    let db = Connection::open_with_flags(path, flags).expect("the relay has a database");
    db.busy_timeout(Duration::from_secs(10))
        .expect("a timeout can be set");
    db
}

/// The rows of every table of a running relay.
fn rows(relay: &RelayProcess) -> BTreeMap<String, i64> {
    let db = database(relay, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let mut tables = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .expect("the schema is readable");
    let names = tables
        .query_map([], |row| row.get::<_, String>(0))
        .expect("the schema has rows");
    names
        .map(|name| {
            let name = name.expect("a table has a name");
            let count = db.query_row(&format!("SELECT count(*) FROM \"{name}\""), [], |row| {
                row.get(0)
            });
            (name, count.expect("rows can be counted"))
        })
        .collect()
}

/// One event that must be refused: what is wrong with it, the reason, and the status over HTTP.
struct Case {
    what: &'static str,
    event: Event,
    reason: String,
    status: u16,
}

/// The cases of one sender.
struct Cases<'a> {
    sender: &'a Person,
    list: Vec<Case>,
}

impl Cases<'_> {
    fn add(&mut self, what: &'static str, kind: u16, tags: Vec<Tag>, content: &str, reason: &str) {
        let event = build::event(&self.sender.key, kind, tags, content);
        self.push(what, event, reason, 400);
    }

    fn push(&mut self, what: &'static str, event: Event, reason: &str, status: u16) {
        let reason = reason.to_owned();
        self.list.push(Case {
            what,
            event,
            reason,
            status,
        });
    }

    fn revision(&mut self, what: &'static str, revision: &Revision, reason: &str, status: u16) {
        self.push(what, revision.sign(&self.sender.key), reason, status);
    }
}

/// Times, sizes, kinds and authors.
fn ordinary_cases(cases: &mut Cases<'_>, h: &Tag) {
    const WINDOW: &str = "invalid: event timestamp too far from server time";
    let key = &cases.sender.key;
    let at = |created_at: u64| Draft {
        created_at,
        kind: 9,
        tags: vec![h.clone()],
        content: String::new(),
    };
    // A minute more than the window, so that the time the test takes does not matter.
    let (old, new) = (at(build::now() - 960), at(build::now() + 960));
    let (old, new) = (old.sign(key), new.sign(key));
    let foreign = build::event(&build::fresh_key(), 9, vec![h.clone()], "");
    let protected = build::event(&build::fresh_key(), 1059, vec![tag(&["-"])], "");
    cases.push("too old", old, WINDOW, 400);
    cases.push("too new", new, WINDOW, 400);
    cases.push(
        "another author",
        foreign,
        "invalid: event pubkey does not match authenticated identity",
        403,
    );
    cases.push(
        "protected and another author",
        protected,
        "restricted: this event may only be published by its author",
        403,
    );
    let many = vec![h.clone()].into_iter().chain(vec![tag(&["t"]); 5_000]);
    cases.add(
        "too many tags",
        9,
        many.collect(),
        "",
        "invalid: too many tags",
    );
    cases.add(
        "too much content",
        9,
        vec![h.clone()],
        &"x".repeat(262_145),
        "invalid: content exceeds maximum size of 262144 bytes (got 262145)",
    );
    let missing = "invalid: channel-scoped events must include an h tag";
    cases.add("no channel", 9, vec![], "", missing);
    cases.add("an h without value", 9, vec![tag(&["h"])], "", missing);
    cases.add(
        "two channels",
        9,
        vec![h.clone(), h.clone()],
        "",
        "invalid: an event belongs to one channel: more than one h tag",
    );
    cases.add(
        "expired",
        9,
        vec![h.clone(), tag(&["expiration", "1"])],
        "",
        "invalid: event has expired",
    );
    cases.add(
        "a channel that cannot exist",
        9,
        vec![tag(&["h", "general"])],
        "",
        "restricted: not a channel member",
    );
    for (what, kind, reason) in [
        ("a kind of no meaning", 1, "restricted: unknown event kind"),
        ("an invitation", 9009, "restricted: unknown event kind"),
        ("an AUTH", 22242, "invalid: AUTH events cannot be submitted"),
        ("a proof", 27235, "invalid: AUTH events cannot be submitted"),
        ("a removal marker", 45011, "restricted: relay-only kind"),
        ("a member list", 13534, "restricted: relay-only kind"),
        ("a ban", 9040, "invalid: not supported: kind 9040"),
        (
            "a direct message channel",
            41010,
            "invalid: not supported: kind 41010",
        ),
    ] {
        cases.add(what, kind, vec![h.clone()], "", reason);
    }
    cases.add(
        "a deletion of nothing",
        5,
        vec![],
        "",
        "invalid: a deletion must name an event by an e or a tag",
    );
}

/// Artifact revisions and what names them.
fn artifact_cases(cases: &mut Cases<'_>, head: &Event, h: &Tag) {
    let d = artifact_of(head);
    let home = head.channel_tag().expect("a revision has a home");
    let mut untyped = Revision::create(build::fresh_artifact(), home);
    untyped.kind_of = None;
    cases.revision(
        "a missing envelope tag",
        &untyped,
        "invalid: missing required envelope tag",
        400,
    );
    let mut version = Revision::create(build::fresh_artifact(), home);
    version.ar = Some("2".to_owned());
    cases.revision(
        "another envelope version",
        &version,
        "invalid: unsupported artifact envelope version",
        400,
    );
    cases.revision(
        "an artifact id in use",
        &Revision::create(d, home).content("a second one"),
        "conflict: artifact identity is taken",
        409,
    );
    let stale = Revision::update(head, "on top of nothing").prev(cases.list[0].event.id);
    cases.revision(
        "a stale update",
        &stale,
        "conflict: artifact head changed",
        409,
    );
    let unknown = Revision::update(head, "of nothing");
    let unknown = Revision {
        d: Some(build::fresh_artifact().to_string()),
        ..unknown
    };
    cases.revision(
        "an unknown artifact",
        &unknown,
        "conflict: artifact head unavailable",
        409,
    );
    cases.revision(
        "another type",
        &Revision::update(head, "typed").of_type("test.other"),
        "invalid: artifact type is immutable",
        400,
    );
    cases.add(
        "a deletion of a revision",
        5,
        vec![tag(&["e", &head.id.to_string()])],
        "",
        "invalid: artifacts cannot be deleted with kind 5; use op=delete or kind 9005 redaction",
    );
    cases.add(
        "a removal of an unknown event",
        9005,
        vec![h.clone(), tag(&["e", &"0".repeat(64)])],
        "",
        "invalid: target event not found",
    );
}

#[tokio::test]
async fn every_refusal_has_its_words_and_leaves_no_row() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let h = tag(&["h", &channel.to_string()]);
    let head = a.artifact(channel).await;
    let mut cases = Cases {
        sender: &a,
        list: Vec::new(),
    };
    ordinary_cases(&mut cases, &h);
    artifact_cases(&mut cases, &head, &h);
    let list = cases.list;
    let mut b = Person::arrive(&relay.endpoint()).await;
    b.ws.subscribe("live", &json!({"limit": 0})).await;
    let before = rows(&relay);
    for case in &list {
        let reason = a.ws.refuse(case.event.clone()).await;
        assert_eq!(reason, case.reason, "{}", case.what);
    }
    assert_eq!(rows(&relay), before, "nothing of it is stored");
    for case in &list {
        let answer = a.http.submit(&case.event).await;
        assert_eq!(answer.error(), case.reason, "{}", case.what);
        assert_eq!(answer.status, case.status, "{}", case.what);
    }
    // The used proofs of these requests are rows of the guard, in a table of its own.
    let after = rows(&relay);
    for (table, count) in &before {
        let is_guard = after[table] - count == list.len() as i64;
        assert!(after[table] == *count || is_guard, "{table} grew");
    }
    // Nothing was delivered either: the next event is the first one.
    let message = a.chat(channel, "a good one").await;
    assert_eq!(b.ws.next_event("live").await, message);
}

/// Another process holds the write lock of the database: writes fail with a reason, reads go on, and the same event is accepted
/// later on the same connection.
#[tokio::test]
async fn a_locked_database_fails_writes_and_nothing_else() {
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut a = Person::arrive(&relay.endpoint()).await;
    let channel = a.open_channel().await;
    let before = a.chat(channel, "before").await;
    let foreign = database(&relay, OpenFlags::SQLITE_OPEN_READ_WRITE);
    foreign
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the lock is free");
    let event = build::chat(&a.key, channel, "not while it is locked");
    let reason = a.ws.refuse(event.clone()).await;
    assert!(reason.starts_with("error: "), "{reason}");
    let filter = json!({"kinds": [9], "#h": [channel]});
    assert_eq!(a.ws.stored(&filter).await, std::slice::from_ref(&before));
    assert_eq!(a.ws.count(&filter).await, Ok(1));
    foreign
        .execute_batch("ROLLBACK")
        .expect("the lock is given back");
    a.ws.accept(event.clone()).await;
    assert_eq!(a.ws.count(&filter).await, Ok(2));
    assert_eq!(a.http.count(&filter).await.count(), 2);
}
