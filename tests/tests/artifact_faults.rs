//! Artifacts on a relay whose database misbehaves, and what its database records. The file is changed while the relay is
//! stopped.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use holdfast_core::nostr::Event;
use holdfast_tests::build::{Revision, fresh_artifact};
use holdfast_tests::person::{Person, artifact_of, ids, only};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

/// The database in a relay's data directory.
fn database(relay: &RelayProcess) -> Connection {
    let path = relay.data_dir().join("holdfast.sqlite");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    Connection::open_with_flags(path, flags).expect("the data directory has a database")
}

/// Stops the relay, applies a statement to its database, and starts it again.
fn with_fault(relay: &mut RelayProcess, sql: &str) {
    relay.terminate();
    let connection = database(relay);
    connection.execute_batch(sql).expect("the fault is applied");
    drop(connection);
    relay.restart();
}

#[tokio::test]
async fn a_move_whose_removal_cannot_be_stored_does_not_happen() {
    rules!("AR-MOVE-4", "AR-MOVE-8");
    let mut relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let (source, target) = (ann.open_channel().await, ann.open_channel().await);
    let head = ann.artifact(source).await;
    with_fault(
        &mut relay,
        "CREATE TRIGGER no_removals BEFORE INSERT ON event WHEN new.kind = 45011
         BEGIN SELECT raise(ABORT, 'no room for a removal'); END;",
    );
    let mut ann = Person::with_key(&relay.endpoint(), ann.key).await;
    let live = json!({"kinds": [45010, 45011], "#h": [source, target]});
    ann.ws.subscribe("live", &live).await;
    let moved = Revision::move_to(&head, target);
    let reason = ann.refused(&moved).await;
    assert!(reason.starts_with("error: "), "{reason}");
    let d = artifact_of(&head);
    assert_eq!(ann.head(d).await, only(&head));
    assert_eq!(ann.history(d).await, only(&head));
    assert_eq!(ann.ws.stored(&live).await, only(&head));
    // The head has not moved: an update of it is accepted, and it is the next that anybody hears of.
    let update = ann.write(&Revision::update(&head, "stays")).await;
    assert_eq!(ann.ws.next_event("live").await, update);

    with_fault(&mut relay, "DROP TRIGGER no_removals;");
    let mut ann = Person::with_key(&relay.endpoint(), ann.key).await;
    let moved = ann.write(&Revision::move_to(&update, target)).await;
    assert_eq!(ann.head(d).await, [moved]);
    let removals = json!({"kinds": [45011], "#h": [source]});
    assert_eq!(ann.ws.stored(&removals).await.len(), 1);
}

#[tokio::test]
async fn a_query_beyond_its_time_fails_and_returns_no_part() {
    rules!("AR-CUR-20", "AR-CUR-23");
    /// The budget is 2 s; the rest is for a busy machine.
    const PATIENCE: Duration = Duration::from_secs(20);
    let mut relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    // The oldest does not match: it is where the search goes on for ever, when all matches are found.
    let other = ann.artifact(home).await;
    let mut written = Vec::new();
    for n in 0..3 {
        let revision = Revision::create(fresh_artifact(), home)
            .with(&["k", "v"])
            .content(&n.to_string());
        written.push(ann.write(&revision).await);
    }
    let filter = json!({"artifact": "current", "#k": ["v"]});
    assert_eq!(ids(&ann.http.rows(filter.clone()).await), ids(&written));
    // Reading a tag yields what is stored, and then searches for ever.
    with_fault(
        &mut relay,
        "ALTER TABLE event_tag RENAME TO stored_tag;
         CREATE VIEW event_tag AS
             SELECT community, name, value, created_at, position FROM stored_tag
             UNION ALL
             SELECT n, CAST(n AS TEXT), CAST(n AS TEXT), n, n FROM
                 (WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
                  SELECT n FROM numbers);",
    );
    let ann = Person::with_key(&relay.endpoint(), ann.key).await;
    for answer in [
        {
            let began = Instant::now();
            let answer = ann.http.query(&filter).await;
            assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
            answer
        },
        ann.http.count(&filter).await,
    ] {
        let text = "artifact query failed or execution budget exceeded";
        assert_eq!((answer.status, answer.error().as_str()), (503, text));
    }
    // What needs no tag is answered as before.
    let by_home = ann.current(json!({"#h": [home]})).await;
    written.push(other);
    assert_eq!(ids(&by_home), ids(&written));
}

#[tokio::test]
async fn the_order_of_acceptance_is_recorded() {
    rules!("AR-CUR-7", "AR-CUR-1");
    const PEOPLE: usize = 3;
    const EDITS_EACH: usize = 20;
    let mut relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let shared = ann.artifact(home).await;
    let mut tasks = Vec::new();
    for _ in 0..PEOPLE {
        let mut person = Person::arrive(&relay.endpoint()).await;
        let shared = shared.clone();
        // Each edits an artifact of its own, and all fight over one.
        tasks.push(tokio::spawn(async move {
            let mut accepted = vec![person.artifact(home).await];
            for n in 0..EDITS_EACH {
                let own = &accepted[accepted.len() - 1];
                let edit = Revision::update(own, &n.to_string());
                accepted.push(person.write(&edit).await);
                let head = person.head(artifact_of(&shared)).await;
                person.try_write(&Revision::update(&head[0], "mine")).await;
            }
            accepted
        }));
    }
    let mut lines: Vec<Vec<Event>> = Vec::new();
    for task in tasks {
        lines.push(task.await.expect("the task ends"));
    }
    let mut fought = ann.history(artifact_of(&shared)).await;
    assert!(fought.len() > 1, "some of the edits were accepted");
    let last = ann.head(artifact_of(&shared)).await[0].id;
    relay.terminate();
    let connection = database(&relay);
    let mut rows = connection
        .prepare("SELECT lower(hex(event)) FROM revision ORDER BY position")
        .expect("the table is there");
    let order: BTreeMap<String, usize> = rows
        .query_map([], |row| row.get::<_, String>(0))
        .expect("the rows are readable")
        .map(|id| id.expect("an id"))
        .zip(0..)
        .collect();
    let place = |event: &Event| order[&event.id.to_string()];
    for line in &lines {
        assert!(line.is_sorted_by_key(place));
    }
    fought.sort_by_key(place);
    assert_eq!(fought[0], shared);
    for pair in fought.windows(2) {
        let prev = pair[1].first_value("prev");
        assert_eq!(prev, Some(pair[0].id.to_string().as_str()));
    }
    assert_eq!(fought.last().map(|event| event.id), Some(last));
    let accepted = lines.iter().map(Vec::len).sum::<usize>() + fought.len();
    assert_eq!(order.len(), accepted);
}
