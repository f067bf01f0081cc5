//! Client frames: what is read, and which answer is due to what is not.

use proptest::prelude::*;

use super::{bob, signed, tags};
use crate::limits::{FILTERS_MAX, FRAME_BYTES_MAX, NAMED_CHANNELS_MAX};
use crate::nostr::{
    ArtifactFilterError, ArtifactView, ClientMessage, Draft, Event, Filter, FrameProblem, SubId,
    SubIdText, Verifier,
};
use crate::rules;

fn parse(text: &str) -> Result<ClientMessage, FrameProblem> {
    ClientMessage::parse(text)
}

fn notice(text: &str) -> String {
    match parse(text) {
        Err(FrameProblem::Notice { text }) => text,
        other => panic!("{text}: {other:?}"),
    }
}

fn closed(text: &str) -> (String, String) {
    match parse(text) {
        Err(FrameProblem::Closed { sub, reason }) => (sub.as_str().to_owned(), reason),
        other => panic!("{text}: {other:?}"),
    }
}

fn closed_s(text: &str) -> String {
    let (sub, reason) = closed(text);
    assert_eq!(sub, "s");
    reason
}

fn ok_false(text: &str) -> (String, String) {
    match parse(text) {
        Err(FrameProblem::OkFalse { id, reason }) => (id.to_string(), reason),
        other => panic!("{text}: {other:?}"),
    }
}

fn sub(text: &str) -> SubId {
    SubId::new(text).unwrap()
}

#[test]
fn the_five_verbs_are_read() {
    let event = signed(1, 5, &[&["t", "x"]], "c");
    let json = event.to_json();
    assert_eq!(
        parse(&format!(r#"["EVENT",{json}]"#)),
        Ok(ClientMessage::Event(Box::new(event.clone())))
    );
    assert_eq!(
        parse(&format!(" [ \"AUTH\" , {json} ] ")),
        Ok(ClientMessage::Auth(Box::new(event)))
    );
    let one = Filter {
        kinds: Some([1].into()),
        ..Filter::default()
    };
    let filters = vec![one, Filter::default()];
    let req = ClientMessage::Req {
        sub: sub("s"),
        filters: filters.clone(),
    };
    assert_eq!(parse(r#"["REQ","s",{"kinds":[1]},{}]"#), Ok(req.clone()));
    assert_eq!(parse(r#"["\u0052EQ","\u0073",{"kinds":[1]},{}]"#), Ok(req));
    assert_eq!(
        parse(r#"["COUNT","s",{"kinds":[1]},{}]"#),
        Ok(ClientMessage::Count {
            sub: sub("s"),
            filters
        })
    );
    assert_eq!(
        parse(r#"["CLOSE","s"]"#),
        Ok(ClientMessage::Close { sub: sub("s") })
    );
}

#[test]
fn frames_that_name_nothing_get_a_notice() {
    for (text, start) in [
        ("", "invalid message: JSON parse error: "),
        ("[", "invalid message: JSON parse error: "),
        (r#"["REQ","s",{}"#, "invalid message: JSON parse error: "),
        (r#"["CLOSE","s"]]"#, "invalid message: JSON parse error: "),
        (
            r#"["CLOSE","s"]["CLOSE","s"]"#,
            "invalid message: JSON parse error: ",
        ),
        (r#"["CLOSE","s",]"#, "invalid message: JSON parse error: "),
        (
            "[\"CLOSE\",\"a\nb\"]",
            "invalid message: JSON parse error: ",
        ),
        ("{}", "invalid message: expected JSON array"),
        ("\"REQ\"", "invalid message: expected JSON array"),
        ("null", "invalid message: expected JSON array"),
        (
            "[]",
            "invalid message: the first element must be the message type",
        ),
        (
            "[1]",
            "invalid message: the first element must be the message type",
        ),
        (
            r#"[["REQ"],"s",{}]"#,
            "invalid message: the first element must be the message type",
        ),
        (
            r#"["req","s",{}]"#,
            "invalid message: unknown message type: req",
        ),
        (
            r#"["NEG-OPEN","s",{},""]"#,
            "invalid message: unknown message type: NEG-OPEN",
        ),
        (
            r#"["REQ"]"#,
            "invalid message: REQ requires a sub_id string",
        ),
        (
            r#"["COUNT",1,{}]"#,
            "invalid message: COUNT requires a sub_id string",
        ),
        (
            r#"["CLOSE",null]"#,
            "invalid message: CLOSE requires a sub_id string",
        ),
        (
            r#"["REQ",["s"],{}]"#,
            "invalid message: REQ requires a sub_id string",
        ),
        (
            r#"["REQ","\ud800",{}]"#,
            "invalid message: REQ requires a sub_id string",
        ),
        (r#"["EVENT"]"#, "invalid message: EVENT requires an event"),
        (
            r#"["EVENT",{}]"#,
            "invalid message: invalid event: missing field",
        ),
        (r#"["EVENT",[]]"#, "invalid message: invalid event: "),
        (
            r#"["AUTH","challenge"]"#,
            "invalid message: invalid event: ",
        ),
    ] {
        let got = notice(text);
        assert!(got.starts_with(start), "{text}: {got}");
    }
}

#[test]
fn an_event_that_names_its_id_gets_its_refusal_there() {
    let event = signed(1, 5, &[], "c");
    let (id, json) = (event.id.to_string(), event.to_json());
    for verb in ["EVENT", "AUTH"] {
        let (got, reason) = ok_false(&format!(
            r#"["{verb}",{}]"#,
            json.replace("\"kind\":1", "\"kind\":70000")
        ));
        assert_eq!(got, id);
        assert!(reason.starts_with("invalid: invalid event: "), "{reason}");
        let (got, reason) = ok_false(&format!(r#"["{verb}",{json},{{}}]"#));
        assert_eq!(
            (got, reason),
            (
                id.clone(),
                format!("invalid: {verb} takes one event and nothing else")
            )
        );
    }
    for spoilt in [
        json.replace("\"content\":\"c\"", "\"content\":\"\\ud800\""),
        json.replace("\"content\":\"c\"", "\"content\":\"c\",\"content\":\"c\""),
        json.replace("\"tags\":[]", "\"tags\":[[]]"),
        json.replace("\"created_at\":5,", ""),
        format!(
            "{{\"extra\":{}{},{}",
            "[".repeat(50_000),
            "]".repeat(50_000),
            &json[1..]
        ),
    ] {
        let (got, reason) = ok_false(&format!(r#"["EVENT",{spoilt}]"#));
        assert_eq!(got, id);
        assert!(reason.starts_with("invalid: invalid event: "), "{reason}");
    }
    let two_ids = json.replace("\"kind\":1", &format!("\"kind\":1,\"id\":\"{id}\""));
    assert!(notice(&format!(r#"["EVENT",{two_ids}]"#)).contains("duplicate field `id`"));
    let upper = json.replace(&id, &id.to_uppercase());
    assert!(
        notice(&format!(r#"["EVENT",{upper}]"#)).starts_with("invalid message: invalid event: ")
    );
}

#[test]
fn a_raw_control_character_is_refused_and_the_next_frame_is_read() {
    let event = Draft {
        created_at: 1_722_337_838,
        kind: 1,
        tags: Vec::new(),
        content: "a\nb".to_owned(),
    }
    .sign(&bob());
    let json = event.to_json();
    let raw = json.replace("a\\nb", "a\nb");
    assert!(
        notice(&format!(r#"["EVENT",{raw}]"#)).starts_with("invalid message: JSON parse error: ")
    );
    let Ok(ClientMessage::Event(read)) = parse(&format!(r#"["EVENT",{json}]"#)) else {
        panic!("a valid event")
    };
    assert_eq!(read.verify(&Verifier), Ok(()));
    assert_eq!(*read, event);
}

#[test]
fn subscription_ids_have_1_to_64_characters() {
    for good in [
        "x".to_owned(),
        "x".repeat(64),
        "🎉".repeat(64),
        "\\u0000".repeat(64),
        " ".to_owned(),
    ] {
        assert!(
            parse(&format!(r#"["REQ","{good}",{{}}]"#)).is_ok(),
            "{good}"
        );
    }
    for verb in ["REQ", "COUNT", "CLOSE"] {
        let (sub, reason) = closed(&format!(r#"["{verb}","",{{}}]"#));
        assert_eq!(
            (sub, reason),
            (
                String::new(),
                format!("invalid: {verb} sub_id must not be empty")
            )
        );
        for long in ["x".repeat(65), "🎉".repeat(65), "x".repeat(100_000)] {
            let (sub, reason) = closed(&format!(r#"["{verb}","{long}",{{}}]"#));
            assert_eq!(sub, long.chars().take(64).collect::<String>());
            assert_eq!(
                reason,
                format!("invalid: {verb} sub_id exceeds maximum length of 64 characters")
            );
        }
    }
}

#[test]
fn filter_problems_close_the_subscription_they_name() {
    assert_eq!(closed_s(r#"["REQ","s"]"#), "invalid: REQ requires a filter");
    assert_eq!(
        closed_s(r#"["COUNT","s"]"#),
        "invalid: COUNT requires a filter"
    );
    assert_eq!(
        closed_s(r#"["CLOSE","s","x"]"#),
        "invalid: CLOSE takes one sub_id and nothing else"
    );
    assert_eq!(
        closed_s(r#"["REQ","s",{"kind":3,"content":""}]"#),
        "invalid: unknown filter field kind"
    );
    assert_eq!(
        closed_s(r#"["COUNT","s",{},{"search":"x"}]"#),
        "invalid: not supported"
    );
    let long_name = "invalid: multi-character tag predicates need an artifact query";
    assert_eq!(closed_s(r##"["REQ","s",{"#project":["x"]}]"##), long_name);
    for bad in ["null", "1", "[]", "\"x\""] {
        let reason = closed_s(&format!(r#"["REQ","s",{bad}]"#));
        assert!(
            reason.starts_with("invalid: filter must be one object: "),
            "{reason}"
        );
    }
    let two = r#"["REQ","s",{"kinds":[70000]},{"foo":1}]"#;
    assert_eq!(
        closed_s(two),
        "invalid: kinds must be a list of integers between 0 and 65535"
    );
}

#[test]
fn filters_are_counted_exactly() {
    let req = |verb: &str, count: usize| format!(r#"["{verb}","s"{}]"#, ",{}".repeat(count));
    assert!(parse(&req("REQ", FILTERS_MAX)).is_ok());
    assert_eq!(
        closed_s(&req("REQ", 11)),
        "invalid: REQ contains 11 filters, maximum is 10"
    );
    assert_eq!(
        closed_s(&req("COUNT", 12)),
        "invalid: COUNT contains 12 filters, maximum is 10"
    );
    assert_eq!(
        closed_s(&req("REQ", 100_000)),
        "invalid: REQ contains 100000 filters, maximum is 10"
    );
}

#[test]
fn explicit_channels_are_counted_over_all_filters() {
    let filter = |from: usize, count: usize| {
        let values: Vec<String> = (from..from + count).map(|n| format!("\"{n}\"")).collect();
        format!(r##"{{"#h":[{}]}}"##, values.join(","))
    };
    let half = NAMED_CHANNELS_MAX / 2;
    for verb in ["REQ", "COUNT"] {
        assert!(
            parse(&format!(
                r#"["{verb}","s",{},{}]"#,
                filter(0, half),
                filter(half, half)
            ))
            .is_ok()
        );
        let over = format!(
            r#"["{verb}","s",{},{}]"#,
            filter(0, half),
            filter(half, half + 1)
        );
        assert_eq!(closed_s(&over), "restricted: too many explicit channels");
    }
}

#[test]
fn a_sync_is_one_filter_with_the_current_view() {
    rules!("AR-SYNC-REQ-5", "AR-SYNC-REQ-7");
    match parse(r##"["REQ","s",{"artifact":"current","#h":["c"],"limit":5}]"##) {
        Ok(ClientMessage::ArtifactReq {
            sub: got,
            filter: Ok(filter),
        }) => {
            assert_eq!(got, sub("s"));
            assert_eq!(filter.view, ArtifactView::Current);
            assert_eq!(filter.limit, Some(5), "for the sync to refuse");
        }
        other => panic!("{other:?}"),
    }
    let alone = "error: filter: artifact queries require exactly one filter";
    assert_eq!(
        closed_s(r##"["REQ","s",{"artifact":"current","#h":["c"]},{}]"##),
        alone
    );
    assert_eq!(
        closed_s(r#"["REQ","s",{"foo":1},{"artifact":"current"}]"#),
        alone
    );
    assert_eq!(
        closed_s(r#"["REQ","s",{"artifact":"current"},{"artifact":"current"}]"#),
        alone
    );
    let no_form = "error: filter: history and head have no REQ form";
    assert_eq!(
        closed_s(r##"["REQ","s",{"artifact":"history","#d":["x"]}]"##),
        no_form
    );
    assert_eq!(
        closed_s(r##"["REQ","s",{"artifact":"head","#d":["x"]}]"##),
        no_form
    );
}

#[test]
fn a_sync_with_a_bad_filter_keeps_its_subscription_and_its_reason() {
    for (filter, error) in [
        (
            r#"{"artifact":"current","since":1}"#,
            ArtifactFilterError::UnknownField,
        ),
        (
            r#"{"since":1,"artifact":"now"}"#,
            ArtifactFilterError::UnknownField,
        ),
        (r#"{"artifact":"now"}"#, ArtifactFilterError::View),
        (
            r##"{"artifact":"current","#h":[]}"##,
            ArtifactFilterError::NotValues,
        ),
        (
            r#"{"artifact":"current","kinds":[9]}"#,
            ArtifactFilterError::Kinds,
        ),
        (
            r#"{"artifact":"current","limit":0}"#,
            ArtifactFilterError::BadPage,
        ),
        (r#"{"artifact":"head"}"#, ArtifactFilterError::HeadWithoutId),
    ] {
        let expected = ClientMessage::ArtifactReq {
            sub: sub("s"),
            filter: Err(error),
        };
        assert_eq!(
            parse(&format!(r#"["REQ","s",{filter}]"#)),
            Ok(expected),
            "{filter}"
        );
    }
    for (filter, key) in [
        (r#"{"artifact":"current","limit":7}"#, "limit"),
        (r#"{"artifact":"current","offset":0}"#, "offset"),
    ] {
        let Ok(ClientMessage::ArtifactReq {
            filter: Ok(read), ..
        }) = parse(&format!(r#"["REQ","s",{filter}]"#))
        else {
            panic!("{filter}")
        };
        let given = if key == "limit" {
            read.limit
        } else {
            read.offset
        };
        assert!(
            given.is_some(),
            "{key} stays visible, so that a sync can refuse it"
        );
    }
}

#[test]
fn artifact_views_are_counted_over_http_only() {
    let reason = "invalid: artifact queries require HTTP /query or /count";
    for filters in [
        r#"{"artifact":"current"}"#,
        r##"{"artifact":"history","#d":["x"]}"##,
        r#"{"artifact":7}"#,
        r#"{},{"artifact":"current"}"#,
    ] {
        assert_eq!(closed_s(&format!(r#"["COUNT","s",{filters}]"#)), reason);
    }
}

#[test]
fn depth_costs_nothing() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(
        notice(&deep),
        "invalid message: the first element must be the message type"
    );
    assert!(
        notice(&format!(r#"["EVENT",{deep}]"#)).starts_with("invalid message: invalid event: ")
    );
    assert!(
        closed_s(&format!(r#"["REQ","s",{deep}]"#))
            .starts_with("invalid: filter must be one object: ")
    );
    assert_eq!(
        closed_s(&format!(r#"["CLOSE","s",{deep}]"#)),
        "invalid: CLOSE takes one sub_id and nothing else"
    );
    assert!(notice(&"{\"a\":".repeat(100_000)).starts_with("invalid message: "));
    assert!(
        notice(&"[".repeat(FRAME_BYTES_MAX)).starts_with("invalid message: JSON parse error: ")
    );
}

#[test]
fn problems_become_the_frames_they_name() {
    let texts = [
        (
            r#"["REQ","",{}]"#,
            r#"["CLOSED","","invalid: REQ sub_id must not be empty"]"#,
        ),
        ("{}", r#"["NOTICE","invalid message: expected JSON array"]"#),
    ];
    for (frame, answer) in texts {
        assert_eq!(parse(frame).unwrap_err().into_frame().to_text(), answer);
    }
    let event = signed(1, 5, &[], "");
    let answer = parse(&format!(r#"["EVENT",{},1]"#, event.to_json()))
        .unwrap_err()
        .into_frame()
        .to_text();
    assert_eq!(
        answer,
        format!(
            r#"["OK","{}",false,"invalid: EVENT takes one event and nothing else"]"#,
            event.id
        )
    );
}

#[test]
fn one_event_is_the_same_however_it_arrives() {
    let draft = Draft {
        created_at: 7,
        kind: 9,
        tags: tags(&[&["h", "x"]]),
        content: "é/\u{2028}".to_owned(),
    };
    let event = draft.sign(&bob());
    let spaced = event
        .to_json()
        .replace("\",\"", "\" ,\n\t\"")
        .replace('é', "\\u00E9")
        .replace('/', "\\/");
    let Ok(ClientMessage::Event(read)) = parse(&format!(r#"["EVENT",{spaced}]"#)) else {
        panic!("a valid event")
    };
    assert_eq!(
        (read.to_json(), read.verify(&Verifier)),
        (event.to_json(), Ok(()))
    );
}

/// JSON-like texts: verbs, ids, filters and events put together rightly and wrongly.
fn any_frame() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("\"REQ\"".to_owned()),
        Just("\"COUNT\"".to_owned()),
        Just("\"CLOSE\"".to_owned()),
        Just("\"EVENT\"".to_owned()),
        Just("{\"artifact\":\"current\"}".to_owned()),
        Just("{}".to_owned()),
        Just(Event::to_json(&signed(1, 5, &[&["t", "x"]], "c"))),
        Just("null".to_owned()),
        ".{0,80}".prop_map(|text| serde_json::to_string(&text).unwrap()),
        ("[a-z#]{1,8}", ".*")
            .prop_map(|(key, value)| serde_json::json!({ key: [value] }).to_string()),
        (-2i64..70_000).prop_map(|kind| format!("{{\"kinds\":[{kind}]}}")),
        ".{0,200}",
    ];
    prop::collection::vec(value, 0..14).prop_map(|values| format!("[{}]", values.join(",")))
}

proptest! {
    #[test]
    fn every_frame_gets_a_message_or_a_bounded_answer(frame in prop_oneof![any_frame(), ".*"]) {
        match parse(&frame) {
            Ok(ClientMessage::Req { filters, .. } | ClientMessage::Count { filters, .. }) => {
                prop_assert!((1..=FILTERS_MAX).contains(&filters.len()));
            }
            Ok(_) => {}
            Err(problem) => {
                let reason = match &problem {
                    FrameProblem::Closed { reason, .. } | FrameProblem::OkFalse { reason, .. } => reason,
                    FrameProblem::Notice { text } => text,
                };
                let (prefix, _) = reason.split_once(": ").unwrap();
                prop_assert!(["invalid", "invalid message", "error", "restricted"].contains(&prefix), "{}", reason);
                prop_assert!(problem.into_frame().len_bytes() <= 2_048);
            }
        }
    }

    #[test]
    fn spoiling_one_byte_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let event = signed(1, 5, &[&["t", "é"]], "c\n");
        let mut raw = format!(r#"["EVENT",{}]"#, event.to_json()).into_bytes();
        let at = at.index(raw.len());
        raw[at] = byte;
        if let Ok(text) = String::from_utf8(raw) && let Ok(ClientMessage::Event(read)) = parse(&text) {
            prop_assert!(read.verify(&Verifier).is_err() || *read == event, "only the very event verifies");
        }
    }

    #[test]
    fn subscription_ids_are_counted_in_characters(text in ".{0,80}") {
        let count = text.chars().count();
        prop_assert_eq!(SubId::new(&text).is_some(), (1..=64).contains(&count));
        let echoed = SubIdText::new(&text);
        prop_assert_eq!(echoed.as_str().chars().count(), count.min(64));
        prop_assert!(text.starts_with(echoed.as_str()));
    }
}
