//! What a store keeps of an event's tags.

use super::*;
use crate::scope::{expires_at, index_terms};

fn terms(kind: Kind, tags: &[&[&str]]) -> Vec<(String, String)> {
    index_terms(&event(1, kind, EVE, tags))
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    list.iter().map(owned).collect()
}

#[test]
fn single_letters_are_indexed_on_every_kind_and_all_names_on_artifacts() {
    crate::rules!("AR-CUR-10");
    let tags: &[&[&str]] = &[
        &["t", "x"],
        &["P", "y"],
        &["project", "z"],
        &["é", "w"],
        &["1", "v"],
        &["h", "plaza"],
    ];
    for kind in [1, 9, 39_000, 44_100, 45_009, 45_012] {
        assert_eq!(
            terms(kind, tags),
            pairs(&[("t", "x"), ("P", "y"), ("h", "plaza")]),
            "{kind}"
        );
    }
    for kind in [45_010, 45_011] {
        let all = [
            ("t", "x"),
            ("P", "y"),
            ("project", "z"),
            ("é", "w"),
            ("1", "v"),
            ("h", "plaza"),
        ];
        assert_eq!(terms(kind, tags), pairs(&all), "{kind}");
    }
}

#[test]
fn a_term_is_a_name_with_its_first_value_and_stands_once() {
    crate::rules!("AR-CUR-13");
    let tags: &[&[&str]] = &[
        &["t", "a", "b"],
        &["t"],
        &["t", ""],
        &["t", "a"],
        &["T", "a"],
        &["t", "A"],
        &["t", "a", "c"],
    ];
    assert_eq!(
        terms(1, tags),
        pairs(&[("t", "a"), ("t", ""), ("T", "a"), ("t", "A")])
    );
}

#[test]
fn an_expiration_is_a_plain_number_of_seconds() {
    let at = |value: &str| expires_at(&event(1, 1, EVE, &[&["expiration", value]]));
    assert_eq!(at("0"), Some(0));
    assert_eq!(at("1600000000"), Some(1_600_000_000));
    assert_eq!(at("9223372036854775807"), Some(i64::MAX as u64));
    for never in [
        "",
        "+5",
        "-5",
        " 5",
        "5.0",
        "0x5",
        "5s",
        "9223372036854775808",
        "99999999999999999999",
    ] {
        assert_eq!(at(never), None, "{never:?}");
    }
    assert_eq!(expires_at(&event(1, 1, EVE, &[&["expiration"]])), None);
    assert_eq!(expires_at(&event(1, 1, EVE, &[])), None);
    let two: &[&[&str]] = &[&["expiration", "7"], &["expiration", "5"]];
    assert_eq!(expires_at(&event(1, 1, EVE, two)), Some(7));
}

#[test]
fn an_expiration_means_nothing_on_what_the_relay_keeps_for_its_own_rules() {
    let tags: &[&[&str]] = &[&["expiration", "5"]];
    let lasting = [
        45_010, 45_011, 9_000, 9_005, 9_007, 9_009, 9_022, 39_000, 39_002, 40_099, 44_100, 44_101,
        13_534,
    ];
    for kind in lasting {
        assert_eq!(expires_at(&event(1, kind, EVE, tags)), None, "{kind}");
    }
    for kind in [
        0, 1, 4, 5, 9, 1_059, 8_999, 9_023, 9_040, 30_023, 45_001, 45_009, 45_012,
    ] {
        assert_eq!(expires_at(&event(1, kind, EVE, tags)), Some(5), "{kind}");
    }
}
