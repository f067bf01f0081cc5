//! The translation of plans compared with the core's evaluator on random data (S9).

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use holdfast_core::ids::{ArtifactId, Position};
use holdfast_core::nostr::{EventId, PubKey, kinds};
use holdfast_core::rules;
use holdfast_core::scope::{Access, PlanView, ReadPlan, Row, admits};

use super::world::{CLOCK_SECS, ModelRow, World};
use crate::store::sqlite::budget::Budget;
use crate::store::sqlite::read;

const WORLDS: u64 = 40;
const PLANS_PER_WORLD: usize = 150;

/// Rows of the model that the core admits, in the plan's order.
fn admitted<'a>(world: &'a World, plan: &ReadPlan) -> Vec<&'a ModelRow> {
    let mut rows: Vec<&ModelRow> = world
        .rows
        .iter()
        .filter(|row| {
            let roles = |key: PubKey| {
                let channel = row.channel.expect("asked only for rows with a channel");
                world.roles.get(&(channel, key)).copied()
            };
            let access = Access {
                channel: row.channel.and_then(|id| world.channels.get(&id)),
                roles: &roles,
            };
            let candidate = Row {
                event: &row.event,
                channel: row.channel,
                audience: row.audience,
                is_head: row.event.kind == kinds::ARTIFACT
                    && world.heads.values().any(|head| *head == row.event.id),
                live: false,
            };
            admits(plan, &candidate, &access, CLOCK_SECS)
        })
        .collect();
    match plan.view {
        PlanView::Events => rows.sort_by_key(|row| (Reverse(row.event.created_at), row.event.id)),
        _ => rows.sort_by_key(|row| Reverse(row.position)),
    }
    rows
}

fn count(world: &World, budget: &Budget, community: i64, plan: &ReadPlan) -> u64 {
    let plans = std::slice::from_ref(plan);
    read::count(&world.reader, budget, community, CLOCK_SECS, plans).expect("a count")
}

#[test]
fn statements_return_what_the_core_admits() {
    rules!(
        "AR-CUR-14",
        "AR-CUR-15",
        "CL-FIND-7",
        "CL-SYS-5",
        "CL-NTC-9",
        "CL-UNL-1"
    );
    let budget = Budget::of(Duration::from_secs(600));
    let (mut pages, mut rows) = (0, 0);
    for seed in 0..WORLDS {
        let mut world = World::random(seed);
        for _ in 0..PLANS_PER_WORLD {
            let plan = world.random_plan();
            let expected = admitted(&world, &plan);
            let counted = count(&world, &budget, 1, &plan);
            assert_eq!(counted, expected.len() as u64, "seed {seed}, {plan:#?}");
            let page: Vec<Position> = expected
                .iter()
                .map(|row| row.position)
                .skip(plan.page.offset as usize)
                .take(plan.page.limit as usize)
                .collect();
            let found = read::first_rows(&world.reader, &budget, &plan, 1, CLOCK_SECS);
            let found: Vec<Position> = found
                .expect("a page")
                .into_iter()
                .map(|position| Position(position.unsigned_abs()))
                .collect();
            assert_eq!(found, page, "seed {seed}, {plan:#?}");
            pages += usize::from(!page.is_empty());
            rows += page.len();
        }
    }
    assert!(
        pages > 1_000 && rows > 5_000,
        "{pages} pages with {rows} rows: the data is too thin"
    );
}

/// The artifacts of a plan as initial sets read them: keyset pages of so many rows.
fn by_artifact(world: &World, budget: &Budget, plan: &ReadPlan, most: usize) -> Vec<ArtifactId> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let at = (1, CLOCK_SECS);
        let rows = read::by_artifact(&world.reader, budget, plan, at, after, most);
        let rows = rows.expect("a page");
        found.extend(rows.iter().map(|(artifact, _)| *artifact));
        after = found.last().copied();
        if rows.len() < most {
            return found;
        }
    }
}

#[test]
fn initial_sets_have_the_rows_that_the_core_admits_in_order() {
    rules!("AR-SYNC-2e", "AR-SYNC-2f");
    let budget = Budget::of(Duration::from_secs(600));
    let mut rows = 0;
    for seed in 0..WORLDS {
        let mut world = World::random(seed);
        for number in 0..PLANS_PER_WORLD {
            // What an artifact filter can ask for.
            let plan = ReadPlan {
                view: PlanView::Current,
                ids: None,
                authors: None,
                kinds: Some(BTreeSet::from([kinds::ARTIFACT])),
                since: None,
                until: None,
                ..world.random_plan()
            };
            let admitted: BTreeSet<EventId> = admitted(&world, &plan)
                .iter()
                .map(|row| row.event.id)
                .collect();
            let expected: Vec<ArtifactId> = world
                .heads
                .iter()
                .filter(|(_, head)| admitted.contains(head))
                .map(|(artifact, _)| *artifact)
                .collect();
            let found = by_artifact(&world, &budget, &plan, 1 + number % 4);
            assert_eq!(found, expected, "seed {seed}, {plan:#?}");
            rows += found.len();
        }
    }
    assert!(rows > 1_000, "{rows} rows: the data is too thin");
}

#[test]
fn another_community_sees_nothing() {
    let budget = Budget::of(Duration::from_secs(60));
    let mut world = World::random(7);
    for _ in 0..PLANS_PER_WORLD {
        let plan = world.random_plan();
        let counted = count(&world, &budget, 2, &plan);
        assert_eq!(counted, 0, "{plan:#?}");
    }
}
