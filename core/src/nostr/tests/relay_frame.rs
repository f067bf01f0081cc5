//! Relay frames: their text, their length, and which of them are control frames.

use proptest::prelude::*;

use super::signed;
use crate::nostr::{RelayFrame, RelayFrameError, SubId, SubIdText};

fn sub(text: &str) -> SubId {
    SubId::new(text).unwrap()
}

#[test]
fn frames_are_written_as_the_nips_say() {
    let event = signed(1, 5, &[], "c");
    let json = event.to_json();
    let id = event.id;
    let cases = [
        (
            RelayFrame::Event {
                sub: sub("s\""),
                json: json.as_str().into(),
            },
            format!(r#"["EVENT","s\"",{json}]"#),
        ),
        (
            RelayFrame::Eose { sub: sub("s") },
            r#"["EOSE","s"]"#.to_owned(),
        ),
        (
            RelayFrame::Closed {
                sub: SubIdText::new(""),
                message: "error: x".to_owned(),
            },
            r#"["CLOSED","","error: x"]"#.to_owned(),
        ),
        (
            RelayFrame::Ok {
                id,
                accepted: true,
                message: String::new(),
            },
            format!(r#"["OK","{id}",true,""]"#),
        ),
        (
            RelayFrame::Ok {
                id,
                accepted: false,
                message: "invalid: y".to_owned(),
            },
            format!(r#"["OK","{id}",false,"invalid: y"]"#),
        ),
        (
            RelayFrame::Notice {
                text: "n\n".to_owned(),
            },
            r#"["NOTICE","n\n"]"#.to_owned(),
        ),
        (
            RelayFrame::Auth {
                challenge: "c0ffee".to_owned(),
            },
            r#"["AUTH","c0ffee"]"#.to_owned(),
        ),
        (
            RelayFrame::Count {
                sub: sub("s"),
                count: 10,
            },
            r#"["COUNT","s",{"count":10}]"#.to_owned(),
        ),
    ];
    for (frame, text) in cases {
        assert_eq!(frame.to_text(), text);
        assert_eq!(RelayFrame::parse(&text), Ok(frame.clone()));
        assert_eq!(frame.len_bytes(), text.len());
        assert_eq!(
            frame.is_control(),
            !matches!(frame, RelayFrame::Event { .. })
        );
    }
}

#[test]
fn what_is_no_frame_is_refused_whole() {
    for text in ["", "{}", "[]", "[1]", r#"["EOSE","s"] x"#, r#""EOSE""#, "["] {
        assert_eq!(
            RelayFrame::parse(text),
            Err(RelayFrameError::Malformed),
            "{text}"
        );
    }
    for text in [
        r#"["EOSE"]"#,
        r#"["EOSE",1]"#,
        r#"["EOSE",""]"#,
        r#"["EOSE","s","t"]"#,
        r#"["EVENT","s"]"#,
        r#"["EVENT",{"id":1}]"#,
        r#"["CLOSED","s"]"#,
        r#"["CLOSED","s",null]"#,
        r#"["OK","00",true,""]"#,
        r#"["OK","s"]"#,
        r#"["NOTICE"]"#,
        r#"["AUTH",7]"#,
        r#"["COUNT","s",3]"#,
        r#"["COUNT","s",{"count":-1}]"#,
    ] {
        let verb = text.split('"').nth(1).unwrap().to_owned();
        assert_eq!(
            RelayFrame::parse(text),
            Err(RelayFrameError::Elements(verb)),
            "{text}"
        );
    }
    assert_eq!(
        RelayFrame::parse(r#"["NEG-MSG","s","00"]"#),
        Err(RelayFrameError::UnknownType("NEG-MSG".to_owned()))
    );
}

fn any_frame() -> impl Strategy<Value = RelayFrame> {
    let sub = || {
        prop_oneof![".{1,64}", "[\\x00-\\x7f]{1,64}"].prop_map(|text| SubId::new(&text).unwrap())
    };
    let text = || prop_oneof![".*", "[\\x00-\\x7f]*"];
    prop_oneof![
        (sub(), text()).prop_map(|(sub, content)| {
            RelayFrame::Event {
                sub,
                json: signed(1, 5, &[], &content).to_json().into(),
            }
        }),
        sub().prop_map(|sub| RelayFrame::Eose { sub }),
        (text(), text()).prop_map(|(sub, message)| RelayFrame::Closed {
            sub: SubIdText::new(&sub),
            message
        }),
        (any::<bool>(), text()).prop_map(|(accepted, message)| {
            RelayFrame::Ok {
                id: signed(1, 5, &[], "").id,
                accepted,
                message,
            }
        }),
        text().prop_map(|text| RelayFrame::Notice { text }),
        text().prop_map(|challenge| RelayFrame::Auth { challenge }),
        (sub(), any::<u64>()).prop_map(|(sub, count)| RelayFrame::Count { sub, count }),
    ]
}

proptest! {
    #[test]
    fn lengths_are_exact_and_texts_are_json(frame in any_frame()) {
        let text = frame.to_text();
        prop_assert_eq!(frame.len_bytes(), text.len());
        prop_assert_eq!(RelayFrame::parse(&text), Ok(frame));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::to_string(&value).unwrap().len(), text.len(), "no byte is superfluous");
    }

    #[test]
    fn counts_have_as_many_digits_as_they_need(power in 0u32..20) {
        for count in [10u64.pow(power) - 1, 10u64.pow(power)] {
            let frame = RelayFrame::Count { sub: sub("s"), count };
            prop_assert_eq!(frame.len_bytes(), frame.to_text().len());
        }
    }
}
