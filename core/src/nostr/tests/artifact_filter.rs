//! Artifact filters: the views, the predicates and their bounds.

use crate::nostr::{ArtifactFilter, ArtifactFilterError, ArtifactView};
use crate::rules;

fn read(text: &str) -> ArtifactFilter {
    ArtifactFilter::from_json(text).unwrap()
}

fn refused(text: &str) -> String {
    ArtifactFilter::from_json(text).unwrap_err().to_string()
}

fn list(count: usize) -> String {
    let values: Vec<String> = (0..count).map(|n| format!("\"{n}\"")).collect();
    format!("[{}]", values.join(","))
}

#[test]
fn every_part_of_a_query_stays_visible() {
    let filter = read(
        r##"{"artifact":"current","kinds":[45010],"limit":1,"offset":0,"#h":["c"],"#project":["A","B","A"],"#P":["x"]}"##,
    );
    assert_eq!(filter.view, ArtifactView::Current);
    assert_eq!(
        (filter.limit, filter.offset, filter.kinds_given),
        (Some(1), Some(0), true)
    );
    assert_eq!(
        filter.predicates.keys().collect::<Vec<_>>(),
        ["P", "h", "project"]
    );
    assert_eq!(
        filter.predicates["project"],
        ["A".to_owned(), "B".to_owned()].into()
    );
    let bare = read(r#"{"artifact":"current"}"#);
    assert_eq!(
        (bare.limit, bare.offset, bare.kinds_given),
        (None, None, false)
    );
    assert!(bare.predicates.is_empty());
}

#[test]
fn a_filter_is_written_as_it_is_read() {
    for text in [
        r##"{"artifact":"current"}"##,
        r##"{"artifact":"current","kinds":[45010],"limit":1,"offset":0,"#h":["c"],"#project":["A","\"B"],"#é":["x"]}"##,
        r##"{"artifact":"history","#d":["x","y"]}"##,
        r##"{"artifact":"head","#d":["\u0000"]}"##,
    ] {
        assert_eq!(read(&read(text).to_json()), read(text), "{text}");
    }
}

#[test]
fn views_are_three_and_two_of_them_need_ids() {
    rules!("AR-HEAD-2");
    assert_eq!(
        read(r##"{"artifact":"history","#d":["x"]}"##).view,
        ArtifactView::History
    );
    assert_eq!(
        read(r##"{"#d":["x"],"artifact":"head"}"##).view,
        ArtifactView::Head
    );
    assert_eq!(refused(r#"{"artifact":"history"}"#), "history requires #d");
    assert_eq!(
        refused(r##"{"artifact":"head","#h":["c"]}"##),
        "head requires #d"
    );
    assert_eq!(
        refused(r##"{"artifact":"head","#d":[]}"##),
        "predicate values must be non-empty arrays"
    );
    for bad in [
        "\"Current\"",
        "\"\"",
        "null",
        "1",
        "[\"current\"]",
        "\"incremental\"",
    ] {
        let expected = "artifact must be \"current\", \"history\" or \"head\"";
        assert_eq!(refused(&format!(r#"{{"artifact":{bad}}}"#)), expected);
    }
    assert_eq!(
        ArtifactFilter::from_json(r#"{"limit":5}"#),
        Err(ArtifactFilterError::View)
    );
}

#[test]
fn kinds_can_only_be_the_revision_kind() {
    rules!("AR-SYNC-REQ-12");
    assert!(read(r#"{"artifact":"current","kinds":[45010]}"#).kinds_given);
    for bad in [
        "[]",
        "[45011]",
        "[45010,9]",
        "[45010,45010]",
        "45010",
        "[\"45010\"]",
        "null",
        "[45010.0]",
        "[110546]",
    ] {
        let text = format!(r#"{{"artifact":"current","kinds":{bad}}}"#);
        assert_eq!(refused(&text), "artifact queries accept only kinds [45010]");
    }
}

#[test]
fn unknown_keys_are_never_ignored() {
    rules!("AR-CUR-21", "AR-CUR-22");
    for key in [
        "since", "until", "authors", "ids", "search", "foo", "", "h", "query",
    ] {
        let text = format!(r#"{{"artifact":"current","{key}":["x"]}}"#);
        assert_eq!(refused(&text), "unsupported artifact predicate", "{key}");
    }
    let twice = r##"{"artifact":"current","#h":["a"],"#h":["b"]}"##;
    assert_eq!(refused(twice), "duplicate artifact query field #h");
    assert_eq!(
        refused(r#"{"artifact":"current","artifact":"current"}"#),
        "duplicate artifact query field artifact"
    );
}

#[test]
fn predicate_values_are_strings_in_lists() {
    rules!("AR-CUR-21");
    for bad in ["[]", "\"x\"", "null", "{}", "1"] {
        let text = format!(r##"{{"artifact":"current","#t":{bad}}}"##);
        assert_eq!(
            refused(&text),
            "predicate values must be non-empty arrays",
            "{bad}"
        );
    }
    for bad in ["[1]", "[\"x\",null]", "[[\"x\"]]", "[\"\\ud800\"]"] {
        let text = format!(r##"{{"artifact":"current","#t":{bad}}}"##);
        assert_eq!(refused(&text), "predicate values must be strings", "{bad}");
    }
}

#[test]
fn predicate_bounds_hold_at_the_limit_and_not_beyond() {
    rules!("AR-CUR-19", "AR-CUR-21");
    let predicates = |count: usize| {
        let names: Vec<String> = (0..count)
            .map(|n| format!("\"#name{n}\":[\"v\"]"))
            .collect();
        format!(r#"{{"artifact":"current",{}}}"#, names.join(","))
    };
    assert_eq!(read(&predicates(32)).predicates.len(), 32);
    assert_eq!(
        refused(&predicates(33)),
        "artifact predicate limits exceeded"
    );

    let values = |a: usize, b: usize| {
        format!(
            r##"{{"artifact":"current","#a":{},"#b":{}}}"##,
            list(a),
            list(b)
        )
    };
    assert!(ArtifactFilter::from_json(&values(200, 56)).is_ok());
    assert_eq!(
        refused(&values(200, 57)),
        "artifact predicate limits exceeded"
    );

    let sized = |name: usize, value: usize| {
        format!(
            r##"{{"artifact":"current","#{}":["{}"]}}"##,
            "n".repeat(name),
            "v".repeat(value)
        )
    };
    assert!(ArtifactFilter::from_json(&sized(128, 4_096)).is_ok());
    assert_eq!(refused(&sized(129, 1)), "invalid predicate name size");
    assert_eq!(refused(&sized(0, 1)), "invalid predicate name size");
    assert_eq!(refused(&sized(1, 4_097)), "predicate value too large");
    let wide = format!(
        r##"{{"artifact":"current","#a":["{}"]}}"##,
        "é".repeat(2_049)
    );
    assert_eq!(
        refused(&wide),
        "predicate value too large",
        "sizes are bytes"
    );
}

#[test]
fn page_bounds_hold_at_the_limit_and_not_beyond() {
    rules!("AR-CUR-19", "AR-CUR-21");
    let page = |key: &str, value: &str| format!(r#"{{"artifact":"current","{key}":{value}}}"#);
    assert_eq!(read(&page("limit", "1000")).limit, Some(1_000));
    assert_eq!(read(&page("offset", "10000")).offset, Some(10_000));
    for (key, value) in [
        ("limit", "0"),
        ("limit", "-1"),
        ("offset", "-1"),
        ("limit", "1.5"),
        ("offset", "\"1\""),
    ] {
        assert_eq!(
            refused(&page(key, value)),
            "invalid limit or offset",
            "{key} {value}"
        );
    }
    for (key, value) in [
        ("limit", "1001"),
        ("offset", "10001"),
        ("limit", "4294967297"),
        ("offset", "4294967296"),
    ] {
        assert_eq!(
            refused(&page(key, value)),
            "artifact page limit exceeded",
            "{key} {value}"
        );
    }
}
