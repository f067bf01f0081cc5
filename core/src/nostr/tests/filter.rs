//! Plain filters: strict reading, bounds, and which kind of filter an object is.

use proptest::prelude::*;

use crate::limits::{FILTER_VALUES_MAX, LIMIT_MAX};
use crate::nostr::event::CREATED_AT_MAX;
use crate::nostr::{AnyFilter, AnyFilterError, ArtifactFilterError, Filter, FilterError};

const HEX: &str = "5bc683a5d12133a96ac5502c15fe1c2287986cff7baf6283600360e6bb01f627";

fn read(text: &str) -> Filter {
    Filter::from_json(text).unwrap()
}

fn refused(text: &str) -> String {
    Filter::from_json(text).unwrap_err().to_string()
}

#[test]
fn every_field_is_read() {
    let filter = read(&format!(
        r##"{{"ids":["{HEX}"],"authors":["{HEX}"],"kinds":[1,65535,0],"since":1,"until":2,"limit":3,"#e":["{HEX}"],"#P":["x","y","x"]}}"##
    ));
    assert_eq!(filter.ids, Some([HEX.parse().unwrap()].into()));
    assert_eq!(filter.authors, Some([HEX.parse().unwrap()].into()));
    assert_eq!(filter.kinds, Some([0, 1, 65_535].into()));
    assert_eq!(
        (filter.since, filter.until, filter.limit),
        (Some(1), Some(2), Some(3))
    );
    assert_eq!(filter.tags["e"], [HEX.to_owned()].into());
    assert_eq!(filter.tags["P"], ["x".to_owned(), "y".to_owned()].into());
    assert_eq!(read("{}"), Filter::default());
    assert_eq!(
        read(r#"{"\u006binds":[1]}"#).kinds,
        Some([1].into()),
        "an escaped key is the same key"
    );
}

#[test]
fn unknown_fields_are_never_the_firehose() {
    let text = format!(r#"{{"kind":3,"tags":[["p","{HEX}"]],"content":""}}"#);
    assert_eq!(refused(&text), "unknown filter field kind");
    for (key, reason) in [
        ("IDS", "unknown filter field IDS"),
        ("", "unknown filter field "),
        ("#", "unknown filter field #"),
        ("#1", "unknown filter field #1"),
        ("#é", "unknown filter field #é"),
        ("before_id", "unknown filter field before_id"),
        (
            "#ab",
            "multi-character tag predicates need an artifact query",
        ),
        (
            "#project",
            "multi-character tag predicates need an artifact query",
        ),
        ("##", "unknown filter field ##"),
        ("search", "not supported"),
    ] {
        assert_eq!(refused(&format!(r#"{{"kinds":[1],"{key}":[]}}"#)), reason);
    }
    let long = refused(&format!(r#"{{"{}":1}}"#, "k".repeat(100_000)));
    assert!(long.len() < 300, "a reason does not repeat the request");
}

#[test]
fn empty_lists_are_kept() {
    let filter = read(r##"{"kinds":[],"authors":[],"ids":[],"#e":[],"limit":1}"##);
    assert_eq!(filter.kinds, Some([].into()));
    assert_eq!(filter.authors, Some([].into()));
    assert_eq!(filter.ids, Some([].into()));
    assert_eq!(filter.tags["e"], [].into());
}

#[test]
fn tag_letters_and_values_are_opaque_and_case_sensitive() {
    let filter = read(r##"{"#t":["abc","ABCD","abcd",""],"#T":["x"],"#p":["not hex"]}"##);
    assert_eq!(filter.tags["t"].len(), 4);
    assert_eq!(filter.tags["T"], ["x".to_owned()].into());
    assert_eq!(filter.tags["p"], ["not hex".to_owned()].into());
}

#[test]
fn ids_and_authors_are_exact_lowercase_hex() {
    for field in ["ids", "authors"] {
        for bad in [
            HEX.to_uppercase(),
            HEX[..63].to_owned(),
            HEX[..8].to_owned(),
            format!("{HEX}0"),
            String::new(),
        ] {
            let expected = format!("{field} must be a list of 64 lowercase hex characters each");
            assert_eq!(
                refused(&format!(r#"{{"{field}":["{HEX}","{bad}"]}}"#)),
                expected
            );
        }
        for bad in ["null", "1", "\"x\"", "{}", "[1]", "[null]", "[[]]"] {
            assert!(
                Filter::from_json(&format!(r#"{{"{field}":{bad}}}"#)).is_err(),
                "{field} {bad}"
            );
        }
    }
}

#[test]
fn kinds_are_16_bit_integers() {
    for bad in [
        "[-1]",
        "[65536]",
        "[1.0]",
        "[1.5]",
        "[\"1\"]",
        "[null]",
        "1",
        "null",
        "[1e1]",
        "[99999999999999999999]",
    ] {
        assert_eq!(
            refused(&format!(r#"{{"kinds":{bad}}}"#)),
            "kinds must be a list of integers between 0 and 65535"
        );
    }
}

#[test]
fn times_and_limits_are_bounded_integers() {
    for field in ["since", "until"] {
        for bad in [
            "-1",
            "1.0",
            "1e3",
            "\"1\"",
            "null",
            "9223372036854775808",
            "1e400",
        ] {
            let expected = format!("{field} must be an integer between 0 and 9223372036854775807");
            assert_eq!(
                refused(&format!(r#"{{"{field}":{bad}}}"#)),
                expected,
                "{bad}"
            );
        }
    }
    for bad in ["-1", "1.5", "\"1\"", "null", "[1]", "18446744073709551616"] {
        assert!(
            refused(&format!(r#"{{"limit":{bad}}}"#)).starts_with("limit must be an integer"),
            "{bad}"
        );
    }
    let backwards = read(&format!(r#"{{"since":{CREATED_AT_MAX},"until":0}}"#));
    assert_eq!(
        (backwards.since, backwards.until),
        (Some(CREATED_AT_MAX), Some(0)),
        "legal, and matches nothing"
    );
}

#[test]
fn a_limit_above_the_maximum_is_cut_and_zero_stays_zero() {
    let limit = |text: &str| read(&format!(r#"{{"limit":{text}}}"#)).limit;
    assert_eq!(limit("0"), Some(0));
    assert_eq!(limit("1000"), Some(LIMIT_MAX));
    assert_eq!(limit("1001"), Some(LIMIT_MAX));
    assert_eq!(
        limit("4294967296"),
        Some(LIMIT_MAX),
        "no bits are lost on the way"
    );
    assert_eq!(limit("18446744073709551615"), Some(LIMIT_MAX));
    assert_eq!(read("{}").limit, None);
}

#[test]
fn keys_occur_once() {
    assert_eq!(
        refused(r#"{"kinds":[1],"kinds":[1]}"#),
        "duplicate filter field kinds"
    );
    assert_eq!(
        refused(r##"{"#t":["a"],"limit":1,"\u0023t":["b"]}"##),
        "duplicate filter field #t"
    );
    assert!(Filter::from_json(r##"{"#t":["a"],"#T":["b"]}"##).is_ok());
}

#[test]
fn values_of_all_lists_count_together() {
    let kinds = |count: usize| vec!["7"; count].join(",");
    let most = FILTER_VALUES_MAX - 2;
    assert!(
        Filter::from_json(&format!(
            r##"{{"#t":["a","b"],"kinds":[{}]}}"##,
            kinds(most)
        ))
        .is_ok()
    );
    let error = refused(&format!(
        r##"{{"#t":["a","b"],"kinds":[{}]}}"##,
        kinds(most + 1)
    ));
    assert_eq!(
        error,
        format!("too many filter values, maximum is {FILTER_VALUES_MAX}")
    );
}

#[test]
fn only_one_object_is_a_filter() {
    for bad in [
        "",
        "null",
        "5",
        "\"x\"",
        "[]",
        "[{}]",
        "{}{}",
        "{\"kinds\":[1],}",
        "{",
        "{\"a\\ud800\":1}",
    ] {
        assert!(
            matches!(Filter::from_json(bad), Err(FilterError::Malformed(_))),
            "{bad}"
        );
    }
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for key in ["ids", "kinds", "since", "#t", "artifact", "x"] {
        assert!(
            AnyFilter::from_json(&format!(r#"{{"{key}":{deep}}}"#)).is_err(),
            "{key}"
        );
    }
}

#[test]
fn the_key_artifact_routes_before_anything_else_is_judged() {
    for text in [
        r#"{"artifact":"current"}"#,
        r#"{"foo":1,"artifact":7}"#,
        r#"{"kinds":[1],"kinds":[1],"artifact":"current"}"#,
        r#"{"ids":["short"],"artifact":null}"#,
    ] {
        assert_eq!(
            Filter::from_json(text),
            Err(FilterError::Artifact),
            "{text}"
        );
        assert!(!matches!(
            AnyFilter::from_json(text),
            Err(AnyFilterError::Plain(_)) | Ok(AnyFilter::Plain(_))
        ));
    }
    assert_eq!(
        AnyFilter::from_json("{}"),
        Ok(AnyFilter::Plain(Filter::default()))
    );
    assert_eq!(
        AnyFilter::from_json(r#"{"artifact":"now"}"#),
        Err(AnyFilterError::Artifact(ArtifactFilterError::View))
    );
}

proptest! {
    #[test]
    fn what_is_accepted_is_what_was_written(
        kinds in prop::option::of(prop::collection::btree_set(any::<u16>(), 0..5)),
        since in prop::option::of(0..=CREATED_AT_MAX),
        until in prop::option::of(0..=CREATED_AT_MAX),
        limit in prop::option::of(any::<u64>()),
        tags in prop::collection::btree_map("[a-zA-Z]", prop::collection::btree_set(".*", 0..3), 0..3),
    ) {
        let mut object = serde_json::Map::new();
        let mut put = |key: &str, value: serde_json::Value| object.insert(key.to_owned(), value);
        if let Some(kinds) = &kinds { put("kinds", serde_json::json!(kinds)); }
        if let Some(since) = since { put("since", serde_json::json!(since)); }
        if let Some(until) = until { put("until", serde_json::json!(until)); }
        if let Some(limit) = limit { put("limit", serde_json::json!(limit)); }
        for (name, values) in &tags { put(&format!("#{name}"), serde_json::json!(values)); }
        let filter = read(&serde_json::Value::Object(object).to_string());
        let limit = limit.map(|limit| limit.min(u64::from(LIMIT_MAX)) as u32);
        prop_assert_eq!(filter, Filter { ids: None, authors: None, kinds, since, until, limit, tags });
    }

    #[test]
    fn keys_nobody_defined_are_refused(key in "[a-z_]{1,12}") {
        let known = ["ids", "authors", "kinds", "since", "until", "limit", "artifact", "search"];
        prop_assume!(!known.contains(&key.as_str()));
        prop_assert_eq!(refused(&format!(r#"{{"{key}":[]}}"#)), format!("unknown filter field {key}"));
    }

    #[test]
    fn id_prefixes_are_refused(length in 0usize..64) {
        let text = format!(r#"{{"ids":["{}"]}}"#, &HEX[..length]);
        prop_assert!(Filter::from_json(&text).is_err());
    }
}
