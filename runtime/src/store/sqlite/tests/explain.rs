//! How SQLite runs the statements: by the intended index, in its order, and never by reading whole tables.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::ids::{CommunityId, Uuid};
use holdfast_core::nostr::{EventId, PubKey};
use holdfast_core::scope::{Page, PlanView, ReadPlan, Scope};

use super::world::{World, artifact_id, channel_id};
use crate::store::sqlite::driver::is_indexed_by_artifact;
use crate::store::sqlite::plan_sql::{Purpose, compile};

fn plan(view: PlanView) -> ReadPlan {
    ReadPlan {
        community: CommunityId(Uuid::from_bytes([1; 16]).expect("not nil")),
        readers: BTreeSet::from([PubKey::from_bytes([1; 32])]),
        view,
        ids: None,
        authors: None,
        kinds: None,
        since: None,
        until: None,
        channels: None,
        terms: BTreeMap::new(),
        t_values: None,
        scope: Scope::default(),
        page: Page {
            limit: 10,
            offset: 0,
        },
    }
}

fn term(name: &str, value: &str) -> BTreeMap<String, BTreeSet<String>> {
    BTreeMap::from([(name.to_owned(), BTreeSet::from([value.to_owned()]))])
}

/// The lines of EXPLAIN QUERY PLAN for each part.
fn explained(world: &World, plan: &ReadPlan, purpose: Purpose) -> Vec<String> {
    compile(plan, 1, 1_000, purpose)
        .into_iter()
        .map(|part| {
            let sql = format!("EXPLAIN QUERY PLAN {}", part.sql);
            let mut statement = world.reader.prepare(&sql).expect("a statement");
            let lines = statement.raw_query().mapped(|row| row.get::<_, String>(3));
            lines
                .map(|line| line.expect("a line"))
                .collect::<Vec<_>>()
                .join("\n")
        })
        .collect()
}

#[test]
fn every_sort_of_filter_is_driven_by_its_index() {
    let world = World::empty(1);
    let events = plan(PlanView::Events);
    let channels = Some(BTreeSet::from([channel_id(1)]));
    let d = artifact_id(1).to_string();
    let cases = [
        (
            ReadPlan {
                ids: Some(BTreeSet::from([EventId::from_bytes([1; 32])])),
                ..events.clone()
            },
            "(community=? AND id=?)",
        ),
        (
            ReadPlan {
                authors: Some(BTreeSet::from([PubKey::from_bytes([1; 32])])),
                ..events.clone()
            },
            "event_by_author (community=? AND pubkey=? AND kind=? AND created_at>?)",
        ),
        (
            ReadPlan {
                channels: channels.clone(),
                ..events.clone()
            },
            "event_by_channel (community=? AND channel=? AND kind=? AND created_at>?)",
        ),
        (
            ReadPlan {
                kinds: Some(BTreeSet::from([1])),
                since: Some(5),
                until: Some(9),
                ..events.clone()
            },
            "event_by_kind (community=? AND kind=? AND created_at>? AND created_at<?)",
        ),
        (
            events.clone(),
            "event_by_kind (community=? AND kind=? AND created_at>?)",
        ),
        (
            ReadPlan {
                terms: term("e", "x"),
                ..events.clone()
            },
            "PRIMARY KEY (community=? AND name=? AND value=? AND created_at>?)",
        ),
        (
            ReadPlan {
                terms: term("d", &d),
                ..plan(PlanView::Head)
            },
            "PRIMARY KEY (community=? AND artifact=?)",
        ),
        (
            ReadPlan {
                channels: channels.clone(),
                ..plan(PlanView::Current)
            },
            "head_by_home (community=? AND home=? AND position>?)",
        ),
        (
            plan(PlanView::Current),
            "head_by_position (community=? AND position>?)",
        ),
        (
            ReadPlan {
                terms: term("project", "x"),
                ..plan(PlanView::Current)
            },
            "PRIMARY KEY (community=? AND name=? AND value=?)",
        ),
        (
            ReadPlan {
                terms: term("d", &d),
                ..plan(PlanView::History)
            },
            "event_by_artifact (community=? AND artifact=? AND kind=? AND rowid>?)",
        ),
        (
            ReadPlan {
                channels,
                ..plan(PlanView::History)
            },
            "event_by_channel (community=? AND channel=? AND kind=?)",
        ),
    ];
    for (plan, expected) in cases {
        let parts = explained(&world, &plan, Purpose::Page);
        let text = parts.join("\n--\n");
        assert!(
            parts.first().is_some_and(|part| part
                .lines()
                .next()
                .is_some_and(|line| line.contains(expected))),
            "wanted {expected} first:\n{text}"
        );
        assert!(
            !text.contains("SCAN e")
                && !text.contains("SCAN t")
                && !text.contains("SCAN h")
                && !text.contains("SCAN c"),
            "{text}"
        );
        if plan.view == PlanView::Events && plan.ids.is_none() {
            assert!(
                !text.contains("B-TREE FOR ORDER BY"),
                "rows come in order:\n{text}"
            );
        }
    }
}

#[test]
fn initial_sets_are_read_by_their_index() {
    let world = World::empty(1);
    let current = |terms| ReadPlan {
        channels: Some(BTreeSet::from([channel_id(1), channel_id(2)])),
        terms,
        ..plan(PlanView::Current)
    };
    let cases = [
        (
            current(BTreeMap::new()),
            "head_by_home_artifact (community=? AND home=? AND artifact>?)",
            true,
        ),
        (
            current(term("type", "x")),
            "head_by_home_artifact (community=? AND home=? AND artifact>?)",
            true,
        ),
        (
            current(term("project", "x")),
            "PRIMARY KEY (community=? AND name=? AND value=?)",
            false,
        ),
        (
            plan(PlanView::Current),
            "PRIMARY KEY (community=? AND artifact>?)",
            true,
        ),
    ];
    for (plan, expected, in_order) in cases {
        let parts = explained(&world, &plan, Purpose::ByArtifact);
        let text = parts.join("\n--\n");
        let first = text.lines().next().unwrap_or_default();
        assert!(first.contains(expected), "wanted {expected} first:\n{text}");
        assert_eq!(is_indexed_by_artifact(&plan), in_order);
        assert_eq!(!text.contains("B-TREE FOR ORDER BY"), in_order, "{text}");
    }
}

#[test]
fn slots_and_rosters_are_found_by_their_index() {
    let world = World::empty(1);
    let cases = [
        (
            "SELECT id, created_at, channel FROM event WHERE community = ?1 AND pubkey = ?2 AND kind = ?3 AND slot_d = ?4 AND withheld IS NULL",
            "event_by_slot",
        ),
        (
            "SELECT joined_at_us, pubkey FROM member WHERE community = ?1 AND channel = ?2 AND removed = 0 ORDER BY joined_at_us, pubkey",
            "member_roster",
        ),
    ];
    for (sql, index) in cases {
        let mut statement = world
            .reader
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .expect("a statement");
        let lines: Vec<String> = statement
            .raw_query()
            .mapped(|row| row.get(3))
            .collect::<rusqlite::Result<_>>()
            .expect("lines");
        let text = lines.join("\n");
        assert!(
            text.contains(index) && !text.contains("TEMP B-TREE"),
            "{text}"
        );
    }
}
