//! Three readings of one filter on random events of ordinary kinds without channels: the stored query, live matching, and a
//! plain reading of NIP-01 that shares no code with either. And four readings of one current-state filter on random artifacts: the
//! query, the initial set of a sync, the evaluator on the heads that a sync reads, and a plain reading of NIP-AR.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use holdfast_core::accept::{Policy, Profile, RelayKey, Submission};
use holdfast_core::ids::{ChannelId, CommunityId, Uuid};
use holdfast_core::limits::{LIVE_BYTES_MAX, PAGE_BYTES_MAX, QUERY_BUDGET_MS};
use holdfast_core::node::{LiveQuery, QueryAnswer, QueryKind, SubmitOutcome};
use holdfast_core::nostr::{AnyFilter, Event, EventId, Filter, PubKey, SecretKey};
use holdfast_core::scope::{
    Access, Audience, Page, ReadPlan, Row, admits, compile, compile_artifact,
};
use holdfast_core::sync::{HeadQuery, SyncRequest};
use holdfast_relay::node::ports::Store;
use holdfast_relay::store::sqlite::{SqliteSettings, SqliteStore};
use holdfast_tests::build::{self, Revision};
use holdfast_tests::contract::store::by_author;
use holdfast_tests::contract::wait;
use holdfast_tests::generate::{CREATED_AT, Case, case, key};
use holdfast_tests::{naive, rules};
use proptest::collection::vec;
use proptest::prelude::Strategy;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

/// The clock of evaluations; nothing in these cases depends on it.
const CLOCK_SECS: u64 = *CREATED_AT.end();

/// A runner whose cases are the same in every run.
fn runner(cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// Pairs of a filter and an event, by whether they match.
#[derive(Default)]
struct Pairs {
    matching: Cell<u32>,
    others: Cell<u32>,
}

impl Pairs {
    fn count(&self, matching: bool) {
        let counter = if matching {
            &self.matching
        } else {
            &self.others
        };
        counter.set(counter.get() + 1);
    }

    /// A comparison of answers that are nearly all empty, or nearly all full, says little.
    fn assert_mixed(&self) {
        let (matching, others) = (self.matching.get(), self.others.get());
        let all = matching + others;
        assert!(all >= 1_000, "{all} pairs");
        assert!(matching * 5 >= all, "{matching} of {all} match");
        assert!(others * 5 >= all, "{others} of {all} do not match");
    }
}

fn as_json(events: &[Event]) -> Vec<Value> {
    let parse = |event: &Event| serde_json::from_str(&event.to_json()).expect("an event is JSON");
    events.iter().map(parse).collect()
}

/// The plan of a filter that is read from its text, as a client sends it.
fn plan(community: CommunityId, readers: &BTreeSet<PubKey>, filter: &Value) -> ReadPlan {
    let read = Filter::from_json(&filter.to_string()).expect("a filter of NIP-01");
    compile(community, readers, &read).expect("no kind of these cases is gated")
}

fn is_admitted(plan: &ReadPlan, event: &Event, live: bool) -> bool {
    let row = Row {
        event,
        channel: None,
        audience: Audience::Readers,
        is_head: false,
        live,
    };
    let access = Access {
        channel: None,
        roles: &|_| None,
    };
    admits(plan, &row, &access, CLOCK_SECS)
}

#[test]
fn the_evaluator_agrees_with_a_plain_reading() {
    rules!("CL-FIND-6", "CL-FIND-9");
    let community = CommunityId(Uuid::from_bytes([1; 16]).unwrap());
    let pairs = Pairs::default();
    let compare = |Case { events, filters }: Case| {
        let plain = as_json(&events);
        for readers in [BTreeSet::new(), BTreeSet::from([key(1).public_key()])] {
            for filter in &filters {
                let plan = plan(community, &readers, filter);
                for (event, json) in events.iter().zip(&plain) {
                    let expected = naive::matches(filter, json);
                    pairs.count(expected);
                    for live in [false, true] {
                        let admitted = is_admitted(&plan, event, live);
                        assert_eq!(admitted, expected, "live: {live}, {filter} on {json}");
                    }
                }
            }
        }
        Ok(())
    };
    runner(600).run(&case(), compare).unwrap();
    pairs.assert_mixed();
}

/// Submits the events at once, so that some are committed together, and returns the positions that were announced.
async fn submit(store: &impl Store, community: CommunityId, events: &[Event]) -> LiveQuery {
    let outcomes = events.iter().map(|event| {
        store.submit(Submission {
            community,
            event: event.clone(),
            keys: BTreeSet::from([event.pubkey]),
            received_at: CLOCK_SECS,
        })
    });
    let mut query = LiveQuery {
        bytes_max: LIVE_BYTES_MAX,
        ..LiveQuery::default()
    };
    for outcome in join_all(outcomes).await {
        let SubmitOutcome::Stored { signals, .. } = outcome else {
            panic!("not stored: {outcome:?}");
        };
        query
            .positions
            .extend(signals.iter().map(|signal| signal.position));
    }
    assert_eq!(
        query.positions.len(),
        events.len(),
        "one position for each event"
    );
    query
}

/// The ids of a history of these plans, read in pages of so many rows.
async fn history(store: &impl Store, plans: &[ReadPlan], rows_max: u32) -> Vec<String> {
    let mut history = store
        .open_history(plans.to_vec())
        .await
        .expect("a snapshot");
    let mut ids = Vec::new();
    loop {
        let page = history
            .next(rows_max, PAGE_BYTES_MAX)
            .await
            .expect("a page");
        assert!(
            page.rows.len() <= rows_max as usize,
            "{} rows",
            page.rows.len()
        );
        ids.extend(page.rows.iter().map(|row| row.id.to_string()));
        if page.end.is_some() {
            return ids;
        }
    }
}

/// Compares everything the store says about these plans with the expected rows, in their order, and the expected number.
async fn compare_stored(
    store: &impl Store,
    plans: &[ReadPlan],
    rows: &[&str],
    number: usize,
    events: &BTreeMap<String, &Event>,
) {
    let query = |kind| store.query(kind, plans.to_vec(), QUERY_BUDGET_MS);
    let Ok(QueryAnswer::Rows(found)) = query(QueryKind::Rows).await else {
        panic!("no rows for {plans:?}");
    };
    let ids: Vec<String> = found.iter().map(|row| row.id.to_string()).collect();
    assert_eq!(ids, rows, "query {plans:?}");
    for row in &found {
        assert_eq!(
            *row.json,
            events[&row.id.to_string()].to_json(),
            "as it was sent"
        );
    }
    assert_eq!(
        query(QueryKind::Count).await,
        Ok(QueryAnswer::Count(number as u64)),
        "count {plans:?}"
    );
    for rows_max in [1, 3, 100] {
        assert_eq!(
            history(store, plans, rows_max).await,
            rows,
            "pages of {rows_max}, {plans:?}"
        );
    }
}

/// Keeps the first of equal ids.
fn once<'a>(ids: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    ids.filter(|id| seen.insert(*id)).collect()
}

fn id(event: &Value) -> &str {
    event["id"].as_str().expect("an id")
}

async fn compare(store: &SqliteStore, host: String, case: &Case, pairs: &Pairs) {
    let community = store.ensure_community(host).await.expect("a community");
    let anyone = BTreeSet::new();
    let positions = submit(store, community, &case.events).await;
    let live = store.live(community, positions).await.expect("a live read");
    assert_eq!(
        live.rows.len(),
        case.events.len(),
        "every event is read back live"
    );
    let events: BTreeMap<String, &Event> = case
        .events
        .iter()
        .map(|event| (event.id.to_string(), event))
        .collect();
    let plain = as_json(&case.events);
    let mut plans = Vec::new();
    for filter in &case.filters {
        let plan = plan(community, &anyone, filter);
        let matching = plain
            .iter()
            .filter(|event| naive::matches(filter, event))
            .map(id);
        let matching: BTreeSet<&str> = matching.collect();
        for event in events.keys() {
            pairs.count(matching.contains(event.as_str()));
        }
        let admitted = live
            .rows
            .values()
            .filter(|row| is_admitted(&plan, &row.event, true));
        let admitted: BTreeSet<EventId> = admitted.map(|row| row.event.id).collect();
        let expected = matching.iter().map(|id| events[*id].id).collect();
        assert_eq!(admitted, expected, "live {filter}");
        let rows: Vec<&str> = naive::answer(filter, &plain).into_iter().map(id).collect();
        compare_stored(
            store,
            std::slice::from_ref(&plan),
            &rows,
            matching.len(),
            &events,
        )
        .await;
        plans.push(plan);
    }
    let answers = case
        .filters
        .iter()
        .flat_map(|filter| naive::answer(filter, &plain));
    let rows = once(answers.map(id));
    let in_any = |event: &&Value| {
        case.filters
            .iter()
            .any(|filter| naive::matches(filter, event))
    };
    compare_stored(
        store,
        &plans,
        &rows,
        plain.iter().filter(in_any).count(),
        &events,
    )
    .await;
}

#[test]
fn stored_queries_and_live_matching_agree_with_a_plain_reading() {
    rules!("CL-FIND-6", "CL-FIND-7", "CL-FIND-9");
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy {
        profile: Profile::Open,
        relay_key: RelayKey::new(key(9)),
    };
    let store = SqliteStore::open(SqliteSettings::new(dir.path(), policy)).unwrap();
    let (pairs, number) = (Pairs::default(), Cell::new(0u32));
    runner(120)
        .run(&case(), |case| {
            // Each case has a community of its own, so that the events of one are not in the answers of the next.
            number.set(number.get() + 1);
            wait(compare(
                &store,
                format!("case{}.example", number.get()),
                &case,
                &pairs,
            ));
            Ok(())
        })
        .unwrap();
    pairs.assert_mixed();
}

/// One change of an artifact, as far as it is possible when its turn comes: a creation, a restoration, or one of the others.
#[derive(Clone, Debug)]
struct Change {
    artifact: u8,
    op: u8,
    home: usize,
    tags: Vec<(&'static str, &'static str)>,
}

/// Channels of each case; the last one is private.
const HOMES: usize = 3;
const NAMES: [&str; 3] = ["project", "label", "t"];
const VALUES: [&str; 3] = ["x", "X", "\u{e9}"];

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let tags = || vec((select(&NAMES[..]), select(&VALUES[..])), 0..4);
    let change = (0..6u8, 0..5u8, 0..HOMES, tags());
    vec(
        change.prop_map(|(artifact, op, home, tags)| Change {
            artifact,
            op,
            home,
            tags,
        }),
        1..30,
    )
}

/// Conditions of a current-state filter beside its channels.
fn conditions() -> impl Strategy<Value = Vec<(&'static str, Vec<&'static str>)>> {
    let condition = |name| {
        let values = subsequence(VALUES.to_vec(), 1..=VALUES.len());
        proptest::option::weighted(0.3, values)
            .prop_map(move |values| values.map(|values| (name, values)))
    };
    NAMES
        .map(condition)
        .prop_map(|found| found.into_iter().flatten().collect())
}

impl Change {
    /// The revision that makes this change, after `head` where there is one.
    fn revision(&self, head: Option<&Event>, homes: &[ChannelId]) -> Revision {
        let home = homes[self.home];
        let tags: Vec<[&str; 2]> = self
            .tags
            .iter()
            .map(|(name, value)| [*name, *value])
            .collect();
        let tags: Vec<&[&str]> = tags.iter().map(|tag| &tag[..]).collect();
        let Some(head) = head else {
            return Revision::create(build::fresh_artifact(), home).only_with(&tags);
        };
        match (head.first_value("op"), self.op) {
            (Some("delete"), _) => Revision::restore(head, "").only_with(&tags),
            (_, 0) => Revision::delete(head),
            (_, 1) if head.channel_tag() != Some(home) => Revision::move_to(head, home),
            _ => Revision::update(head, "").only_with(&tags),
        }
    }
}

/// Three channels of `owner`, the last one private.
async fn channels(
    store: &SqliteStore,
    community: CommunityId,
    owner: &SecretKey,
) -> Vec<ChannelId> {
    let homes: Vec<ChannelId> = (0..HOMES).map(|_| build::fresh_channel()).collect();
    for (number, home) in homes.iter().enumerate() {
        let command = if number == HOMES - 1 {
            build::create_private(owner, *home)
        } else {
            build::create_channel(owner, *home, &[])
        };
        let outcome = store.submit(by_author(community, command)).await;
        assert!(
            matches!(outcome, SubmitOutcome::Stored { .. }),
            "{outcome:?}"
        );
    }
    homes
}

/// The ids in the initial set of a sync, in the order of their artifacts.
async fn initial_set(store: &SqliteStore, plan: &ReadPlan, rows_max: u32) -> Vec<EventId> {
    let request = SyncRequest {
        plan: plan.clone(),
        rows_max,
        bytes_max: PAGE_BYTES_MAX,
        budget_ms: QUERY_BUDGET_MS,
    };
    let mut snapshot = store.open_sync(request).await.expect("a snapshot");
    let mut ids = Vec::new();
    loop {
        let page = snapshot.next().await.expect("a page");
        ids.extend(page.rows.iter().map(|row| row.event));
        if page.is_last {
            return ids;
        }
    }
}

/// The ids of these heads that the evaluator admits, with the access that the same head read tells.
async fn admitted_heads(
    store: &SqliteStore,
    plan: &ReadPlan,
    heads: &BTreeMap<u8, Event>,
) -> Vec<EventId> {
    let artifacts = heads.values().map(|head| head.d_value().parse());
    let query = HeadQuery {
        artifacts: artifacts.map(|d| d.expect("an artifact id")).collect(),
        keys: plan.readers.clone(),
        bytes_max: usize::MAX,
        ..HeadQuery::default()
    };
    let rows = store.heads(plan.community, query).await.expect("heads");
    assert_eq!(rows.heads.len(), heads.len());
    let admitted = rows.heads.values().filter(|head| {
        let (event, _) = head.body.as_ref().expect("nothing is redacted");
        let row = Row {
            event,
            channel: Some(head.home),
            audience: Audience::Readers,
            is_head: true,
            live: false,
        };
        let access = Access {
            channel: rows.access.channels.get(&head.home),
            roles: &|key| rows.access.role(head.home, key),
        };
        admits(plan, &row, &access, rows.clock_secs)
    });
    admitted.map(|head| head.event).collect()
}

#[test]
fn current_queries_initial_sets_and_heads_agree_with_a_plain_reading() {
    rules!(
        "AR-CUR-2",
        "AR-CUR-10",
        "AR-CUR-11",
        "AR-CUR-12",
        "AR-SYNC-2e",
        "AR-SYNC-2h"
    );
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy {
        profile: Profile::Open,
        relay_key: RelayKey::new(key(9)),
    };
    let store = SqliteStore::open(SqliteSettings::new(dir.path(), policy)).unwrap();
    let (pairs, number) = (Pairs::default(), Cell::new(0u32));
    let filters = vec((subsequence(vec![0, 1, 2], 1..=HOMES), conditions()), 1..4);
    let compare = |(changes, filters): (Vec<Change>, Vec<(Vec<usize>, Vec<_>)>)| {
        number.set(number.get() + 1);
        wait(compare_current(
            &store,
            number.get(),
            &changes,
            &filters,
            &pairs,
        ));
        Ok(())
    };
    runner(120).run(&(changes(), filters), compare).unwrap();
    pairs.assert_mixed();
}

type Conditions = Vec<(&'static str, Vec<&'static str>)>;

async fn compare_current(
    store: &SqliteStore,
    number: u32,
    changes: &[Change],
    filters: &[(Vec<usize>, Conditions)],
    pairs: &Pairs,
) {
    let community = store.ensure_community(format!("current{number}.example"));
    let community = community.await.expect("a community");
    let (owner, stranger) = (key(1), key(2).public_key());
    let homes = channels(store, community, &owner).await;
    let mut heads: BTreeMap<u8, Event> = BTreeMap::new();
    for change in changes {
        let head = heads.get(&change.artifact);
        let event = change.revision(head, &homes).sign(&owner);
        let outcome = store.submit(by_author(community, event.clone())).await;
        let is_stored = matches!(outcome, SubmitOutcome::Stored { .. });
        assert!(is_stored, "{outcome:?}: {event:?}");
        heads.insert(change.artifact, event);
    }
    let mut by_artifact: Vec<&Event> = heads.values().collect();
    by_artifact.sort_by_key(|head| head.d_value().to_owned());
    for (named, conditions) in filters {
        let named: Vec<ChannelId> = named.iter().map(|home| homes[*home]).collect();
        let mut filter = json!({ "artifact": "current", "#h": named });
        for (name, values) in conditions {
            filter[format!("#{name}")] = json!(values);
        }
        let Ok(AnyFilter::Artifact(read)) = AnyFilter::from_json(&filter.to_string()) else {
            panic!("no artifact filter: {filter}");
        };
        for reader in [Some(owner.public_key()), Some(stranger), None] {
            let readers = reader.into_iter().collect();
            let plan = ReadPlan {
                page: Page {
                    limit: 1_000,
                    offset: 0,
                },
                ..compile_artifact(community, &readers, &read).expect("a plan")
            };
            let expected: Vec<EventId> = by_artifact
                .iter()
                .filter(|head| {
                    let is_private = head.channel_tag() == homes.last().copied();
                    let is_readable = !is_private || reader == Some(owner.public_key());
                    let json = serde_json::from_str(&head.to_json()).expect("JSON");
                    let is_found = is_readable && naive::is_current(&filter, &json);
                    pairs.count(is_found);
                    is_found
                })
                .map(|head| head.id)
                .collect();
            for rows_max in [1, 2, 100] {
                let found = initial_set(store, &plan, rows_max).await;
                assert_eq!(found, expected, "initial set: {filter} of {reader:?}");
            }
            let admitted = admitted_heads(store, &plan, &heads).await;
            assert_eq!(admitted, expected, "heads: {filter} of {reader:?}");
            let plans = vec![plan];
            let Ok(QueryAnswer::Rows(rows)) =
                store.query(QueryKind::Rows, plans, QUERY_BUDGET_MS).await
            else {
                panic!("no rows for {filter}");
            };
            let rows: BTreeSet<EventId> = rows.into_iter().map(|row| row.id).collect();
            assert_eq!(rows, expected.into_iter().collect(), "query: {filter}");
        }
    }
}
