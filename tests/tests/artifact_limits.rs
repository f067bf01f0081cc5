//! Limits of artifact tags and queries against a running relay: what is advertised, what holds at the bound and what does not
//! beyond it, and that nothing a query asks for is ignored.

use holdfast_tests::build::{Revision, fresh_artifact};
use holdfast_tests::http;
use holdfast_tests::person::Person;
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::{Map, Value, json};

const VALUES: &str = "predicate values must be non-empty arrays";
const TOO_MANY: &str = "artifact predicate limits exceeded";
const PAGE: &str = "invalid limit or offset";
const PAGE_LIMIT: &str = "artifact page limit exceeded";
const UNSUPPORTED: &str = "unsupported artifact predicate";
const ALONE: &str = "artifact queries require exactly one filter";
const KINDS: &str = "artifact queries accept only kinds [45010]";
const VIEW: &str = "artifact must be \"current\", \"history\" or \"head\"";

/// A limit as the NIP-11 document states it.
fn limit(info: &Value, name: &str) -> usize {
    let value = info["artifacts"][name].as_u64();
    usize::try_from(value.unwrap_or_else(|| panic!("{name} is advertised"))).expect("it fits")
}

/// Both HTTP reads accept the filter, or both refuse it with this text.
async fn judged(person: &Person, filters: &[Value], refusal: Option<&str>) {
    for answer in [
        person.http.query(filters).await,
        person.http.count(filters).await,
    ] {
        let case = Value::from(filters).to_string();
        let case = &case[..case.len().min(200)];
        match refusal {
            None => assert_eq!(answer.status, 200, "{case}: {}", answer.text()),
            Some(text) => {
                assert_eq!(
                    (answer.status, answer.error().as_str()),
                    (400, text),
                    "{case}"
                );
            }
        }
    }
}

#[tokio::test]
async fn the_document_states_the_limits() {
    rules!("AR-CUR-17");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let info = http::info(&relay.endpoint()).await;
    for (name, value) in [
        ("version", 1),
        ("revision_kind", 45010),
        ("removal_kind", 45011),
        ("max_tags", 256),
        ("max_tag_name_bytes", 128),
        ("max_tag_value_bytes", 4096),
        ("max_tag_bytes", 65536),
        ("max_predicates", 32),
        ("max_values", 256),
        ("max_page_size", 1000),
        ("max_offset", 10000),
        ("max_filters", 1),
        ("query_timeout_ms", 2000),
    ] {
        assert_eq!(limit(&info, name), value, "{name}");
    }
    let artifacts = &info["artifacts"];
    assert_eq!(
        (&artifacts["query"], &artifacts["count"]),
        (&json!("/query"), &json!("/count"))
    );
    for mode in ["current", "history"] {
        let modes = artifacts["modes"].as_array().expect("a list");
        assert!(modes.contains(&json!(mode)), "{mode}");
    }
}

#[tokio::test]
async fn tag_limits_hold_at_the_stated_bound_and_not_beyond() {
    rules!("AR-CUR-18", "AR-ENV-21");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let info = http::info(&relay.endpoint()).await;
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let create = || Revision::create(fresh_artifact(), home);
    let envelope = create();
    let envelope_bytes: usize = envelope.tags().iter().flatten().map(String::len).sum();

    let (name, value) = (
        limit(&info, "max_tag_name_bytes"),
        limit(&info, "max_tag_value_bytes"),
    );
    let (tags, bytes) = (limit(&info, "max_tags"), limit(&info, "max_tag_bytes"));
    let named = |len: usize| create().with(&[&"n".repeat(len), "v"]);
    let valued = |len: usize| create().with(&["n", "first", &"v".repeat(len)]);
    let many = |count: usize| {
        let mut revision = create();
        while revision.tags().len() < count {
            revision = revision.with(&["n", "v"]);
        }
        revision
    };
    let heavy = |total: usize| {
        let mut revision = create();
        let mut left = total - envelope_bytes;
        while left > 0 {
            let len = left.min(value + 1);
            revision = revision.with(&["n", &"v".repeat(len - 1)]);
            left -= len;
        }
        revision
    };
    for (at_limit, beyond, reason) in [
        (named(name), named(name + 1), "invalid: tag name too long"),
        (
            valued(value),
            valued(value + 1),
            "invalid: tag value too long",
        ),
        (many(tags), many(tags + 1), "invalid: too many tags"),
        (
            heavy(bytes),
            heavy(bytes + 1),
            "invalid: total tag bytes exceeded",
        ),
    ] {
        let written = ann.write(&at_limit).await;
        assert!(
            ann.http
                .rows(json!({"ids": [written.id]}))
                .await
                .contains(&written)
        );
        assert_eq!(ann.refused(&beyond).await, reason);
    }
}

#[tokio::test]
async fn query_limits_hold_at_the_stated_bound_and_not_beyond() {
    rules!("AR-CUR-19", "AR-CUR-21");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let info = http::info(&relay.endpoint()).await;
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    ann.artifact(home).await;
    let current = |key: &str, value: Value| {
        let mut filter = Map::from_iter([("artifact".to_owned(), json!("current"))]);
        filter.insert(key.to_owned(), value);
        Value::Object(filter)
    };
    let predicates = |count: usize| {
        let mut filter = Map::from_iter([("artifact".to_owned(), json!("current"))]);
        for n in 0..count {
            filter.insert(format!("#n{n}"), json!(["v"]));
        }
        Value::Object(filter)
    };
    let values = |count: usize| {
        let half: Vec<String> = (0..count / 2).map(|n| n.to_string()).collect();
        let rest: Vec<String> = (count / 2..count).map(|n| n.to_string()).collect();
        json!({"artifact": "current", "#a": half, "#b": rest})
    };
    let max = |name: &str| limit(&info, name);
    let name = |len: usize| current(&format!("#{}", "n".repeat(len)), json!(["v"]));
    let value = |len: usize| current("#n", json!(["v".repeat(len)]));
    let (tag_name, tag_value) = (max("max_tag_name_bytes"), max("max_tag_value_bytes"));
    let (page, offset) = (max("max_page_size"), max("max_offset"));
    for (at_limit, beyond, refusal) in [
        (
            predicates(max("max_predicates")),
            predicates(max("max_predicates") + 1),
            TOO_MANY,
        ),
        (
            values(max("max_values")),
            values(max("max_values") + 1),
            TOO_MANY,
        ),
        (
            name(tag_name),
            name(tag_name + 1),
            "invalid predicate name size",
        ),
        (
            value(tag_value),
            value(tag_value + 1),
            "predicate value too large",
        ),
        (
            current("limit", json!(page)),
            current("limit", json!(page + 1)),
            PAGE_LIMIT,
        ),
        (current("limit", json!(1)), current("limit", json!(0)), PAGE),
        (
            current("offset", json!(offset)),
            current("offset", json!(offset + 1)),
            PAGE_LIMIT,
        ),
        (
            current("offset", json!(0)),
            current("offset", json!(-1)),
            PAGE,
        ),
    ] {
        judged(&ann, &[at_limit], None).await;
        judged(&ann, &[beyond], Some(refusal)).await;
    }
}

#[tokio::test]
async fn what_a_query_cannot_apply_is_an_error_and_no_empty_list() {
    rules!("AR-CUR-21", "AR-CUR-22");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let note = ann.artifact(home).await;
    let pubkey = ann.pubkey;
    let cases = [
        (json!({"artifact": "current", "since": 1}), UNSUPPORTED),
        (json!({"artifact": "current", "until": 1}), UNSUPPORTED),
        (
            json!({"artifact": "current", "authors": [pubkey]}),
            UNSUPPORTED,
        ),
        (
            json!({"artifact": "current", "ids": [note.id]}),
            UNSUPPORTED,
        ),
        (
            json!({"artifact": "current", "search": "note"}),
            UNSUPPORTED,
        ),
        (json!({"artifact": "current", "cursor": "x"}), UNSUPPORTED),
        (
            json!({"artifact": "current", "incremental": true}),
            UNSUPPORTED,
        ),
        (
            json!({"artifact": "current", "#": ["v"]}),
            "invalid predicate name size",
        ),
        (json!({"artifact": "current", "#n": []}), VALUES),
        (json!({"artifact": "current", "#n": "v"}), VALUES),
        (json!({"artifact": "current", "#n": null}), VALUES),
        (json!({"artifact": "current", "#n": {"v": 1}}), VALUES),
        (
            json!({"artifact": "current", "#n": ["v", 1]}),
            "predicate values must be strings",
        ),
        (
            json!({"artifact": "current", "#n": [null]}),
            "predicate values must be strings",
        ),
        (json!({"artifact": "current", "limit": "10"}), PAGE),
        (json!({"artifact": "current", "limit": 1.5}), PAGE),
        (json!({"artifact": "current", "limit": null}), PAGE),
        (json!({"artifact": "current", "offset": "0"}), PAGE),
        (json!({"artifact": "current", "kinds": []}), KINDS),
        (json!({"artifact": "current", "kinds": [45011]}), KINDS),
        (json!({"artifact": "current", "kinds": [45010, 9]}), KINDS),
        (json!({"artifact": "current", "kinds": 45010}), KINDS),
        (json!({"artifact": "Current"}), VIEW),
        (json!({"artifact": "all"}), VIEW),
        (json!({"artifact": true}), VIEW),
        (json!({"artifact": null}), VIEW),
    ];
    for (filter, refusal) in cases {
        judged(&ann, &[filter], Some(refusal)).await;
    }
    let current = json!({"artifact": "current"});
    judged(&ann, &[current.clone(), current.clone()], Some(ALONE)).await;
    judged(&ann, &[json!({"kinds": [9]}), current.clone()], Some(ALONE)).await;
    judged(&ann, &[current, json!({"kinds": [9]})], Some(ALONE)).await;
    let kinds = json!({"artifact": "current", "kinds": [45010]});
    judged(&ann, &[kinds], None).await;
    let repeated = r##"[{"artifact":"current","#n":["a"],"#n":["b"]}]"##;
    let answer = ann.http.post("/query", repeated).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
}

#[tokio::test]
async fn views_by_id_need_ids() {
    rules!("AR-HEAD-2", "AR-CUR-21");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    ann.artifact(home).await;
    for (name, refusal) in [
        ("head", "head requires #d"),
        ("history", "history requires #d"),
    ] {
        judged(&ann, &[json!({"artifact": name})], Some(refusal)).await;
        judged(
            &ann,
            &[json!({"artifact": name, "#h": [home]})],
            Some(refusal),
        )
        .await;
        judged(&ann, &[json!({"artifact": name, "#d": []})], Some(VALUES)).await;
    }
}

#[tokio::test]
async fn a_long_tag_name_on_a_plain_filter_is_refused_and_not_left_out() {
    rules!("AR-CUR-22", "AR-CUR-21");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    ann.artifact(home).await;
    let long = "multi-character tag predicates on artifacts require an artifact query";
    for filter in [
        json!({"#project": ["A"]}),
        json!({"kinds": [45010], "#project": ["A"]}),
        json!({"kinds": [45010, 45011], "#h": [home], "#type": ["test.note"]}),
    ] {
        let reason = ann.ws.refused_req(&filter).await;
        assert!(reason.starts_with("invalid: "), "{reason}");
        let reason = ann.ws.count(&filter).await;
        let reason = reason.expect_err("a count is refused as well");
        assert!(reason.starts_with("invalid: "), "{reason}");
        judged(&ann, &[filter], Some(long)).await;
    }
    // The other views have no form on the socket; whatever is asked there ends on its own subscription.
    for name in ["history", "head"] {
        let filter = json!({"artifact": name, "#d": [fresh_artifact()]});
        ann.ws.refused_req(&filter).await;
    }
}
