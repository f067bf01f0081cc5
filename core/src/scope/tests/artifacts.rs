//! The views of artifacts: which revisions they contain, and that they name channels by `#h` alone.

use super::*;
use crate::limits::{ARTIFACT_HEAD_PAGE_DEFAULT, ARTIFACT_PAGE_DEFAULT, ARTIFACT_VALUES_MAX};

const D: &str = "6d0f2a5e-3b1c-4c8e-9f47-0a2b7c9d1e35";
const E: &str = "04737c81-e5e8-4412-bb47-f446813cfeba";

/// A revision: number, op, artifact and project.
fn revision(number: u8, channel: &str, op: &str, d: &str, project: &str) -> Event {
    let here = id(channel).to_string();
    event(
        number,
        45_010,
        ANN,
        &[
            &["d", d],
            &["h", &here],
            &["op", op],
            &["type", "acme.task"],
            &["project", project, "second"],
            &["t", "red"],
        ],
    )
}

/// `D` was created in `club`, moved to `plaza`, and edited there; `E` was created and deleted in `plaza`; one more artifact
/// stands in each other channel. Rows are named by their event's number.
fn town() -> Town {
    let mut town = Town::new();
    town.rows.clear();
    let mut put = |number: u8, channel: &str, op: &str, d: &str, project: &str, is_head: bool| {
        let row = town.put(channel, revision(number, channel, op, d, project));
        row.name = number.to_string();
        row.is_head = is_head;
    };
    put(1, "club", "create", D, "A", false);
    put(2, "plaza", "move", D, "A", false);
    put(3, "plaza", "update", D, "B", true);
    put(4, "plaza", "create", E, "B", false);
    put(5, "plaza", "delete", E, "B", true);
    for (number, channel) in [
        (6, "club"),
        (7, "side"),
        (8, "vault"),
        (9, "lobby"),
        (10, "board"),
        (11, "gone"),
    ] {
        put(
            number,
            channel,
            "create",
            &id(channel).to_string(),
            "B",
            true,
        );
    }
    town
}

#[test]
fn current_returns_live_heads_alone() {
    crate::rules!("AR-CUR-2", "AR-CUR-3", "AR-CUR-4", "AR-CUR-9", "AR-CUR-16");
    let town = town();
    assert_eq!(
        town.artifacts(&[BOB], r#"{"artifact":"current"}"#),
        ["3", "6", "7"]
    );
    assert_eq!(town.artifacts(&[EVE], r#"{"artifact":"current"}"#), ["3"]);
    let a = r##"{"artifact":"current","#project":["A"]}"##;
    assert!(town.artifacts(&[BOB], a).is_empty());
    let b = r##"{"artifact":"current","#project":["B"],"#h":["$plaza"]}"##;
    assert_eq!(town.artifacts(&[BOB], b), ["3"]);
}

#[test]
fn head_returns_tombstones_as_well_and_one_row_for_each_artifact() {
    crate::rules!("AR-HEAD-3", "AR-HEAD-4", "AR-HEAD-8");
    let town = town();
    let head = |reader, d: &str| {
        town.artifacts(&[reader], &format!(r##"{{"artifact":"head","#d":[{d}]}}"##))
    };
    assert_eq!(head(EVE, &format!(r#""{D}","{E}""#)), ["3", "5"]);
    assert_eq!(head(BOB, &format!(r#""{E}""#)), ["5"]);
    assert!(head(BOB, r#""11111111-1111-4111-8111-111111111111""#).is_empty());
    assert_eq!(head(BOB, r#""$club""#), ["6"]);
    assert!(head(EVE, r#""$club""#).is_empty());
}

#[test]
fn history_judges_every_revision_by_its_own_channel() {
    crate::rules!("AR-ACC-2", "AR-CUR-5");
    let town = town();
    let history = |reader| {
        town.artifacts(
            &[reader],
            &format!(r##"{{"artifact":"history","#d":["{D}","{E}"]}}"##),
        )
    };
    assert_eq!(history(BOB), ["1", "2", "3", "4", "5"]);
    assert_eq!(history(EVE), ["2", "3", "4", "5"]);
}

#[test]
fn a_view_names_channels_by_h_only() {
    crate::rules!("CL-SYS-11", "CL-SYS-13", "CL-SYS-15");
    let town = town();
    // The artifacts in `vault`, `lobby` and `board` have the id of their channel as their own `d`: it names nothing.
    let d = r##""#d":["$vault","$lobby","$board"]"##;
    for view in ["current", "head", "history"] {
        let unnamed = format!(r#"{{"artifact":"{view}",{d}}}"#);
        assert!(town.artifacts(&[ANN], &unnamed).is_empty(), "{view}");
        let named = format!(r##"{{"artifact":"{view}",{d},"#h":["$vault","$lobby","$board"]}}"##);
        assert_eq!(town.artifacts(&[ANN], &named), ["8", "9", "10"], "{view}");
        assert_eq!(town.artifacts(&[EVE], &named), ["9", "10"], "{view}");
        let asked = format!(r##"{{"artifact":"{view}",{d},"#t":["system"],"#P":["$ann"]}}"##);
        assert_eq!(
            artifact_plan(&[ANN], &asked).scope,
            super::super::Scope::default(),
            "{view}"
        );
    }
    // Deleted channels and unlisted ones as everywhere.
    let gone = r##"{"artifact":"current","#h":["$gone"]}"##;
    assert!(town.artifacts(&[ANN], gone).is_empty());
    assert!(
        town.artifacts(&[EVE], r##"{"artifact":"current"}"##)
            .iter()
            .all(|name| *name != "7")
    );
    assert_eq!(
        town.artifacts(&[EVE], r##"{"artifact":"current","#h":["$side"]}"##),
        ["7"]
    );
}

#[test]
fn predicates_compare_names_and_first_values_exactly() {
    crate::rules!("AR-CUR-10", "AR-CUR-11", "AR-CUR-12", "AR-CUR-13");
    let town = town();
    for (predicates, found) in [
        (r##""#project":["B"]"##, true),
        (r##""#project":["A","B"]"##, true),
        (r##""#project":["b"]"##, false),
        (r##""#Project":["B"]"##, false),
        (r##""#projec":["B"]"##, false),
        (r##""#project":["second"]"##, false),
        (r##""#project":["B"],"#type":["acme.task"]"##, true),
        (r##""#project":["B"],"#type":["acme.note"]"##, false),
        (r##""#t":["red"]"##, true),
        (r##""#t":["blue"]"##, false),
        (r##""#t":["system"]"##, false),
        (
            r##""#op":["update"],"#d":["6d0f2a5e-3b1c-4c8e-9f47-0a2b7c9d1e35"]"##,
            true,
        ),
    ] {
        let filter = format!(r##"{{"artifact":"current","#h":["$plaza"],{predicates}}}"##);
        let expected = if found { vec!["3"] } else { vec![] };
        assert_eq!(town.artifacts(&[EVE], &filter), expected, "{predicates}");
    }
}

#[test]
fn plain_reads_find_heads_and_with_ids_any_revision() {
    let town = town();
    let heads = plan(&[EVE], r#"{"kinds":[45010]}"#).unwrap();
    assert_eq!(town.select(&heads, false), ["3", "5"]);
    assert_eq!(town.select(&heads, true), ["2", "3", "4", "5"]);
    let old = EventId::from_bytes([4; 32]);
    let by_id = plan(&[EVE], &format!(r#"{{"ids":["{old}"]}}"#)).unwrap();
    assert_eq!(town.select(&by_id, false), ["4"]);
    let by_d = plan(&[EVE], &format!(r##"{{"kinds":[45010],"#d":["{E}"]}}"##)).unwrap();
    assert_eq!(town.select(&by_d, false), ["5"]);
    let private = EventId::from_bytes([1; 32]);
    let foreign = plan(&[EVE], &format!(r#"{{"ids":["{private}"]}}"#)).unwrap();
    assert!(town.select(&foreign, false).is_empty());
}

#[test]
fn artifact_views_contain_revisions_only() {
    let mut town = town();
    let here = id("plaza").to_string();
    let removal = event(
        20,
        45_011,
        EVE,
        &[&["d", D], &["h", &here], &["op", "create"]],
    );
    town.put("plaza", removal).is_head = true;
    for view in ["current", "head", "history"] {
        let filter = format!(r##"{{"artifact":"{view}","#d":["{D}"]}}"##);
        let seen = town.artifacts(&[EVE], &filter);
        assert!(!seen.is_empty() && !seen.contains(&"plaza/45011"), "{view}");
    }
    let removals = plan(&[EVE], r#"{"kinds":[45011]}"#).unwrap();
    assert_eq!(town.select(&removals, false), ["plaza/45011"]);
}

#[test]
fn an_expiration_tag_does_not_hide_a_head() {
    let mut town = town();
    for row in &mut town.rows {
        row.event
            .tags
            .push(vec!["expiration".to_owned(), "1".to_owned()]);
    }
    assert_eq!(town.artifacts(&[EVE], r#"{"artifact":"current"}"#), ["3"]);
}

#[test]
fn pages_are_what_the_filter_says_and_a_head_query_is_never_cut_unasked() {
    crate::rules!("AR-HEAD-3");
    let page = |filter: &str| artifact_plan(&[EVE], filter).page;
    let current = page(r#"{"artifact":"current"}"#);
    assert_eq!((current.limit, current.offset), (ARTIFACT_PAGE_DEFAULT, 0));
    let asked = page(r##"{"artifact":"history","#d":["x"],"limit":3,"offset":20}"##);
    assert_eq!((asked.limit, asked.offset), (3, 20));
    let head = page(r##"{"artifact":"head","#d":["x"]}"##);
    assert_eq!(head.limit, ARTIFACT_HEAD_PAGE_DEFAULT);
    assert!(head.limit as usize >= ARTIFACT_VALUES_MAX);
}

#[test]
fn a_client_keeps_exactly_the_heads_that_a_current_query_would_give_it() {
    crate::rules!("AR-SYNC-REQ-19", "AR-SYNC-3i");
    let plaza = id("plaza").to_string();
    let club = id("club").to_string();
    let predicates = [
        format!(r##""#h":["{plaza}"]"##),
        format!(r##""#h":["{plaza}","{club}"],"#project":["B"]"##),
        format!(r##""#h":["{plaza}"],"#project":["A","B"],"#t":["red"]"##),
        format!(r##""#h":["{plaza}"],"#project":["second"]"##),
        format!(r##""#h":["{club}"],"#d":["{D}"]"##),
        r##""#h":["no-channel"]"##.to_owned(),
    ];
    let town = town();
    for predicates in predicates {
        let text = format!(r##"{{"artifact":"current",{predicates}}}"##);
        let filter = ArtifactFilter::from_json(&text).unwrap();
        let heads = town.rows.iter().filter(|row| row.is_head);
        let kept: Vec<String> = heads
            .filter(|row| head_matches(&filter, &row.event))
            .map(|row| row.name.clone())
            .collect();
        assert_eq!(kept, town.artifacts(&[ANN], &text), "{text}");
    }
}
