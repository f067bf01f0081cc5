//! Three readings of one filter on random events of ordinary kinds without channels: the stored query, live matching, and a
//! plain reading of NIP-01 that shares no code with either.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use holdfast_core::accept::{Policy, Profile, RelayKey, Submission};
use holdfast_core::ids::{CommunityId, Uuid};
use holdfast_core::limits::{LIVE_BYTES_MAX, PAGE_BYTES_MAX, QUERY_BUDGET_MS};
use holdfast_core::node::{LiveQuery, QueryAnswer, QueryKind, SubmitOutcome};
use holdfast_core::nostr::{Event, EventId, Filter, PubKey};
use holdfast_core::scope::{Access, Audience, ReadPlan, Row, admits, compile};
use holdfast_relay::node::ports::Store;
use holdfast_relay::store::sqlite::{SqliteSettings, SqliteStore};
use holdfast_tests::contract::wait;
use holdfast_tests::generate::{CREATED_AT, Case, case, key};
use holdfast_tests::{naive, rules};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

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
