//! The conditions of NIP-01, page bounds, and NIP-40.

use super::*;
use crate::limits::LIMIT_MAX;
use crate::nostr::kinds;

/// A town without channels, with these rows.
fn global(rows: Vec<(&str, Event)>) -> Town {
    Town {
        rows: rows
            .into_iter()
            .map(|(name, event)| Stored::global(name, event))
            .collect(),
        ..Town::default()
    }
}

#[test]
fn an_empty_list_matches_nothing() {
    let town = global(vec![(
        "note",
        event(1, 1, ANN, &[&["e", "x"], &["t", "y"]]),
    )]);
    assert_eq!(town.answer(&[EVE], "{}"), ["note"]);
    for list in ["ids", "authors", "kinds", "#e", "#t", "#h", "#P"] {
        let filter = format!(r#"{{"{list}":[]}}"#);
        assert!(town.answer(&[EVE], &filter).is_empty(), "{filter}");
        assert!(town.answer(&[], &filter).is_empty(), "{filter}");
    }
}

#[test]
fn both_bounds_of_time_are_inclusive() {
    let mut note = event(1, 1, ANN, &[]);
    note.created_at = 50;
    let town = global(vec![("note", note)]);
    for (bounds, inside) in [
        (r#""since":50"#, true),
        (r#""since":51"#, false),
        (r#""until":50"#, true),
        (r#""until":49"#, false),
        (r#""since":50,"until":50"#, true),
        (r#""since":51,"until":49"#, false),
    ] {
        let seen = town.answer(&[EVE], &format!("{{{bounds}}}"));
        assert_eq!(!seen.is_empty(), inside, "{bounds}");
    }
}

#[test]
fn ids_authors_and_kinds_are_compared_exactly_and_all_must_hold() {
    let town = global(vec![
        ("a1", event(1, 1, ANN, &[])),
        ("b1", event(2, 1, BOB, &[])),
        ("a7", event(3, 7, ANN, &[])),
    ]);
    assert_eq!(town.answer(&[EVE], r#"{"authors":["$ann"]}"#), ["a1", "a7"]);
    assert_eq!(town.answer(&[EVE], r#"{"kinds":[1]}"#), ["a1", "b1"]);
    assert_eq!(
        town.answer(&[EVE], r#"{"authors":["$ann","$bob"],"kinds":[1,7]}"#),
        ["a1", "b1", "a7"]
    );
    assert_eq!(
        town.answer(&[EVE], r#"{"authors":["$ann"],"kinds":[1]}"#),
        ["a1"]
    );
    let third = EventId::from_bytes([3; 32]);
    assert_eq!(
        town.answer(&[EVE], &format!(r#"{{"ids":["{third}"]}}"#)),
        ["a7"]
    );
    assert!(
        town.answer(&[EVE], &format!(r#"{{"ids":["{third}"],"kinds":[1]}}"#))
            .is_empty()
    );
}

#[test]
fn tag_names_and_values_are_compared_as_they_stand() {
    crate::rules!("CL-FIND-9", "AR-CUR-13");
    let ann = ANN.to_string();
    let town = global(vec![
        ("lower", event(1, 1, EVE, &[&["t", "abc"]])),
        ("upper", event(2, 1, EVE, &[&["t", "ABCD"]])),
        ("even", event(3, 1, EVE, &[&["t", "abcd"]])),
        ("creator", event(4, 1, EVE, &[&["P", &ann]])),
        ("person", event(5, 1, EVE, &[&["p", &ann]])),
        ("second", event(6, 1, EVE, &[&["t", "first", "later"]])),
        ("bare", event(7, 1, EVE, &[&["t"]])),
        ("empty", event(8, 1, EVE, &[&["t", ""]])),
        ("apart", event(9, 1, EVE, &[&["e", "abc"], &["t", "other"]])),
    ]);
    for (filter, expected) in [
        (r##"{"#t":["abc"]}"##, &["lower"][..]),
        (r##"{"#t":["ABCD"]}"##, &["upper"]),
        (r##"{"#t":["abcd"]}"##, &["even"]),
        (r##"{"#t":["ABC"]}"##, &[]),
        (r##"{"#t":["ab"]}"##, &[]),
        (r##"{"#T":["abc"]}"##, &[]),
        (r##"{"#P":["$ann"]}"##, &["creator"]),
        (r##"{"#p":["$ann"]}"##, &["person"]),
        (r##"{"#t":["first"]}"##, &["second"]),
        (r##"{"#t":["later"]}"##, &[]),
        (r##"{"#t":[""]}"##, &["empty"]),
        (r##"{"#e":["other"]}"##, &[]),
    ] {
        assert_eq!(town.answer(&[EVE], filter), expected, "{filter}");
    }
}

#[test]
fn values_of_one_name_are_alternatives_and_different_names_all_hold() {
    crate::rules!("CL-FIND-6", "CL-FIND-3");
    let town = global(vec![
        (
            "work",
            event(1, 1, EVE, &[&["t", "workspace"], &["e", "1"]]),
        ),
        ("notes", event(2, 1, EVE, &[&["t", "notes"], &["e", "2"]])),
        (
            "both",
            event(
                3,
                1,
                EVE,
                &[&["t", "notes"], &["t", "workspace"], &["e", "1"]],
            ),
        ),
        ("none", event(4, 1, EVE, &[&["t", "x"]])),
    ]);
    assert_eq!(
        town.answer(&[EVE], r##"{"#t":["workspace","notes"]}"##),
        ["work", "notes", "both"]
    );
    assert_eq!(
        town.answer(&[EVE], r##"{"#t":["notes","x"],"#e":["1","2"]}"##),
        ["notes", "both"]
    );
}

#[test]
fn the_limit_is_cut_to_the_advertised_one_and_zero_means_no_rows() {
    let limit = |filter: &str| plan(&[EVE], filter).unwrap().page.limit;
    assert_eq!(limit("{}"), LIMIT_MAX);
    assert_eq!(limit(r#"{"limit":0}"#), 0);
    assert_eq!(limit(r#"{"limit":7}"#), 7);
    assert_eq!(limit(r#"{"limit":4294967296}"#), LIMIT_MAX);
    let unread = Filter {
        limit: Some(LIMIT_MAX + 5),
        ..Filter::default()
    };
    let plan = compile(community(), &keys(&[EVE]), &unread).unwrap();
    assert_eq!((plan.page.limit, plan.page.offset), (LIMIT_MAX, 0));
}

#[test]
fn an_expired_event_is_not_served_from_its_very_second_on() {
    let at = |secs: u64| secs.to_string();
    let (past, present, next) = (at(CLOCK_SECS - 1), at(CLOCK_SECS), at(CLOCK_SECS + 1));
    let town = global(vec![
        ("past", event(1, 1, EVE, &[&["expiration", &past]])),
        ("present", event(2, 1, EVE, &[&["expiration", &present]])),
        ("next", event(3, 1, EVE, &[&["expiration", &next]])),
        ("none", event(4, 1, EVE, &[])),
    ]);
    assert_eq!(town.answer(&[EVE], "{}"), ["next", "none"]);
    assert_eq!(town.answer(&[], "{}"), ["next", "none"]);
}

#[test]
fn rows_without_channel_are_for_every_reader() {
    let town = global(vec![
        ("profile", event(1, kinds::METADATA, ANN, &[])),
        ("note", event(2, 1, BOB, &[])),
    ]);
    for reader in [&[][..], &[EVE], &[ANN, BOB]] {
        assert_eq!(town.answer(reader, "{}"), ["profile", "note"]);
    }
}
