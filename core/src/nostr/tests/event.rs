//! Events: the canonical form, strict reading, signatures, tags.

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::{bob, secret, signed, tags};
use crate::nostr::event::CREATED_AT_MAX;
use crate::nostr::{
    Draft, Event, EventError, EventId, PubKey, SecretKey, Signature, Verifier, kinds,
};

const BOB: &str = "5bc683a5d12133a96ac5502c15fe1c2287986cff7baf6283600360e6bb01f627";

/// Contents with the id over the form every mainstream library writes, and the id over another form.
const VECTORS: [(&str, &str, Option<&str>); 6] = [
    (
        "Hi ' \" \u{8} \t \r \n 🎉 #nostr",
        "bb5d2fe5b2c16c676d87ef446fa38581b9fa45e2e50ba89568664abf4e1d1396",
        None,
    ),
    (
        "\u{1}",
        "e0dadcd2bb93ddb1b4f77c77f269d8d87dd972a067306c14505a583679b9bbdb",
        Some("5c9f3d6aabe8b9f67cf44785456056106840404924c70a84205df774e63f725f"),
    ),
    (
        "\u{7f}",
        "a3b19cf5ed115f0a68d2a38e6eaa672c26a573db938445dd105d032ee8e7e769",
        Some("fa47e99dfc4df5884f802df91845cd3de2a741cb07f5c922930b47489842956f"),
    ),
    (
        "\u{2028}",
        "ca763048a72676acb520576a8c21dad35839f41e05a27a3e2c4974b833f9b7d7",
        Some("3059eadde81bc31c26f9e05e69792c7440d8bc5d68800074fac852f187e3ca0a"),
    ),
    (
        "/",
        "a7fe67a72186061f87b45e5bac2f60e2157d9fcac11f631e7d0663ebb7005279",
        Some("9212435eb0f608674b74fbe39edf881f1f97d8fbc31db8374da69f1f1bf3f7bf"),
    ),
    (
        "<>&",
        "2872c75430150aa31ecea55a8bdc9e2a60e4a0d9d21a6ebe820d42074ac7d428",
        Some("735f32e1d6ad5b84a40ead0c23f38ad81ec94bea07d8b3591ec2445c4998e1dc"),
    ),
];

fn vector_draft(content: &str) -> Draft {
    Draft {
        created_at: 1_722_337_838,
        kind: kinds::TEXT,
        tags: Vec::new(),
        content: content.to_owned(),
    }
}

#[test]
fn vectors_have_the_ids_that_mainstream_libraries_compute() {
    assert_eq!(bob().public_key().to_string(), BOB);
    for (content, accepted, _) in VECTORS {
        let event = vector_draft(content).sign(&bob());
        assert_eq!(event.id.to_string(), accepted, "{content:?}");
        assert_eq!(event.verify(&Verifier), Ok(()));
        let served = Event::from_json(&event.to_json()).unwrap();
        assert_eq!(
            served.verify(&Verifier),
            Ok(()),
            "what is served hashes to the same id"
        );
    }
}

#[test]
fn ids_over_another_form_are_refused_though_they_are_signed() {
    for (content, accepted, refused) in VECTORS {
        let Some(refused) = refused else { continue };
        let mut event = vector_draft(content).sign(&bob());
        event.id = refused.parse().unwrap();
        event.sig = bob().sign(event.id.as_bytes());
        let error = event.verify(&Verifier).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("invalid event id: computed {accepted}, got {refused}")
        );
    }
}

#[test]
fn the_examples_of_nip_70_and_nip_98_are_well_formed_but_not_hashed_right() {
    let http_auth = r#"{"id":"fe964e758903360f28d8424d092da8494ed207cba823110be3a57dfe4b578734",
        "pubkey":"63fe6318dc58583cfe16810f86dd09e18bfd76aabc24a0081ce2856f330504ed","content":"","kind":27235,
        "created_at":1682327852,"tags":[["u","https://api.snort.social/api/v1/n5sp/list"],["method","GET"]],
        "sig":"5ed9d8ec958bc854f997bdc24ac337d005af372324747efe4a00e24f4c30437ff4dd8308684bed467d9d6be3e5a517bb43b1732cc7d33949a3aaf86705c22184"}"#;
    let protected = r#"{"id":"cb8feca582979d91fe90455867b34dbf4d65e4b86e86b3c68c368ca9f9eef6f2",
        "pubkey":"79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798","created_at":1707409439,"kind":1,
        "tags":[["-"]],"content":"hello members of the secret group",
        "sig":"fa163f5cfb75d77d9b6269011872ee22b34fb48d23251e9879bb1e4ccbdd8aaaf4b6dc5f5084a65ef42c52fbcde8f3178bac3ba207de827ec513a6aa39fa684c"}"#;
    for (text, computed) in [
        (
            http_auth,
            "2dd2dfec3df85dd0d4c32af50241f56a077b0969cb508f987afac1e25b0d4c76",
        ),
        (
            protected,
            "f017727ad7c6b4c872639506b75ad7c8f85e0896f71610fb491625e1c0b8b2e6",
        ),
    ] {
        let error = Event::from_json(text)
            .unwrap()
            .verify(&Verifier)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with(&format!("invalid event id: computed {computed}"))
        );
    }
}

#[test]
fn signing_is_deterministic_and_as_bip_340_says() {
    let signature = secret(3).sign(&[0; 32]);
    let expected = "e907831f80848d1069a5371b402410364bdf1c5f8307b0084c55f1ce2dca8215\
                    25f66a4a85ea8b71e482a74f382d2ce5ebeee8fdb2172f477df4900d310536c0";
    assert_eq!(signature.to_string(), expected, "vector 0 of BIP-340");
    assert!(Verifier.verifies(&[0; 32], &secret(3).public_key(), &signature));
}

#[test]
fn a_signature_holds_for_its_key_and_event_only() {
    let event = signed(1, 5, &[], "a");
    let mut other_author = event.clone();
    other_author.pubkey = secret(2).public_key();
    other_author.id = other_author.compute_id();
    assert_eq!(
        other_author.verify(&Verifier),
        Err(EventError::BadSignature)
    );

    let mut no_key = event.clone();
    no_key.pubkey = PubKey::from_bytes([0xff; 32]);
    no_key.id = no_key.compute_id();
    let error = no_key.verify(&Verifier).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid schnorr signature",
        "a key that is no point verifies nothing"
    );

    let mut bad_sig = event.clone();
    bad_sig.sig = Signature::from_bytes([0xff; 64]);
    assert_eq!(bad_sig.verify(&Verifier), Err(EventError::BadSignature));

    let mut changed = event.clone();
    changed.content.push('b');
    assert_eq!(
        changed.verify(&Verifier),
        Err(EventError::WrongId {
            computed: changed.compute_id(),
            got: event.id
        })
    );
}

#[test]
fn wire_escapes_never_change_the_event() {
    for (content, _, _) in VECTORS {
        let event = vector_draft(content).sign(&bob());
        let escaped: String = content
            .encode_utf16()
            .map(|unit| format!("\\u{unit:04X}"))
            .collect();
        let plain = serde_json::to_string(content).unwrap();
        let text = event.to_json().replace(
            &format!("\"content\":{plain}"),
            &format!("\"content\":\"{escaped}\""),
        );
        assert_eq!(Event::from_json(&text), Ok(event));
    }
}

#[test]
fn tags_keep_their_repetitions_and_characters() {
    let event = signed(
        1,
        5,
        &[
            &["t", "bitcoin"],
            &["t", "bitcoin"],
            &["x", "a\nb", ""],
            &["-"],
        ],
        "line\nline",
    );
    let read = Event::from_json(&event.to_json()).unwrap();
    assert_eq!(read.tags.len(), 4);
    assert_eq!(read.to_json(), event.to_json());
    assert_eq!(read.verify(&Verifier), Ok(()));
}

#[test]
fn stored_form_has_the_seven_fields_in_order() {
    let event = vector_draft("\u{1}/<").sign(&bob());
    let expected = format!(
        r#"{{"id":"{}","pubkey":"{BOB}","created_at":1722337838,"kind":1,"tags":[],"content":"\u0001/<","sig":"{}"}}"#,
        event.id, event.sig
    );
    assert_eq!(event.to_json(), expected);
}

/// The fields of a valid event as JSON texts, to be spoilt one at a time.
fn fields() -> Vec<(&'static str, String)> {
    let event = signed(1, 5, &[&["t", "x"]], "c");
    vec![
        ("id", format!("\"{}\"", event.id)),
        ("pubkey", format!("\"{}\"", event.pubkey)),
        ("created_at", "5".to_owned()),
        ("kind", "1".to_owned()),
        ("tags", r#"[["t","x"]]"#.to_owned()),
        ("content", "\"c\"".to_owned()),
        ("sig", format!("\"{}\"", event.sig)),
    ]
}

fn object(fields: &[(&str, String)]) -> String {
    let body: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", body.join(","))
}

fn with(name: &str, value: &str) -> String {
    let mut changed = fields();
    let slot = changed
        .iter_mut()
        .find(|(field, _)| *field == name)
        .unwrap();
    slot.1 = value.to_owned();
    object(&changed)
}

#[test]
fn each_field_is_needed_once_and_nothing_else() {
    assert!(Event::from_json(&object(&fields())).is_ok());
    for at in 0..7 {
        let mut missing = fields();
        let (name, _) = missing.remove(at);
        let error = Event::from_json(&object(&missing)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("missing field `{name}`")),
            "{error}"
        );

        let mut repeated = fields();
        repeated.push(repeated[at].clone());
        let error = Event::from_json(&object(&repeated)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&format!("duplicate field `{name}`")),
            "{error}"
        );
    }
    let mut unknown = fields();
    unknown.push(("relays", "[]".to_owned()));
    let error = Event::from_json(&object(&unknown)).unwrap_err();
    assert!(
        error.to_string().contains("unknown field `relays`"),
        "{error}"
    );
}

#[test]
fn fields_have_exactly_their_own_form() {
    let id = "ab".repeat(32);
    for bad in [
        id.to_uppercase(),
        id[1..].to_owned(),
        format!("{id}0"),
        format!(" {}", &id[1..]),
        "é".repeat(32),
    ] {
        assert!(
            Event::from_json(&with("id", &format!("\"{bad}\""))).is_err(),
            "id {bad}"
        );
        assert!(
            Event::from_json(&with("pubkey", &format!("\"{bad}\""))).is_err(),
            "pubkey {bad}"
        );
        assert!(
            Event::from_json(&with("sig", &format!("\"{bad}{bad}\""))).is_err(),
            "sig {bad}"
        );
    }
    for bad in [
        "-1",
        "65536",
        "1.0",
        "1.5",
        "1e2",
        "-0",
        "\"1\"",
        "null",
        "true",
        "99999999999999999999",
        "01",
    ] {
        assert!(Event::from_json(&with("kind", bad)).is_err(), "kind {bad}");
    }
    for bad in [
        "-1",
        "9223372036854775808",
        "18446744073709551616",
        "1.0",
        "1e3",
        "\"1\"",
        "null",
        "[]",
    ] {
        assert!(
            Event::from_json(&with("created_at", bad)).is_err(),
            "created_at {bad}"
        );
    }
    for bad in [
        "[[]]",
        r#"[["t","x"],[]]"#,
        r#"["t"]"#,
        "[[1]]",
        "[[null]]",
        r#"[[["t"]]]"#,
        "{}",
        "null",
        "[null]",
    ] {
        assert!(Event::from_json(&with("tags", bad)).is_err(), "tags {bad}");
    }
    for bad in [
        "null",
        "1",
        "[]",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800x\"",
        "\"\\x41\"",
        "\"a\nb\"",
        "\"\u{1}\"",
    ] {
        assert!(
            Event::from_json(&with("content", bad)).is_err(),
            "content {bad:?}"
        );
    }
    assert!(Event::from_json(&with("tags", "[[\"\\udfff\"]]")).is_err());
}

#[test]
fn bounds_themselves_are_accepted() {
    let event = Event::from_json(&with("created_at", "9223372036854775807")).unwrap();
    assert_eq!(event.created_at, CREATED_AT_MAX);
    assert_eq!(
        Event::from_json(&with("created_at", "0"))
            .unwrap()
            .created_at,
        0
    );
    assert_eq!(
        Event::from_json(&with("kind", "65535")).unwrap().kind,
        65_535
    );
    assert_eq!(Event::from_json(&with("kind", "0")).unwrap().kind, 0);
    assert_eq!(
        Event::from_json(&with("tags", r#"[["-"],["",""]]"#))
            .unwrap()
            .tags,
        tags(&[&["-"], &["", ""]])
    );
    assert_eq!(
        Event::from_json(&with("content", "\"\\ud83c\\udf89\\u0000\""))
            .unwrap()
            .content,
        "🎉\0"
    );
}

#[test]
fn only_one_object_is_an_event() {
    let text = object(&fields());
    let values: Vec<String> = fields().into_iter().map(|(_, value)| value).collect();
    for bad in [
        format!("[{text}]"),
        format!("{text}{text}"),
        format!("{text},"),
        format!("[{}]", values.join(",")),
        "null".to_owned(),
        String::new(),
        text[..text.len() - 1].to_owned(),
    ] {
        assert!(
            matches!(Event::from_json(&bad), Err(EventError::Malformed(_))),
            "{bad}"
        );
    }
    assert!(
        Event::from_json(&format!(" \n\t{text}\r\n")).is_ok(),
        "JSON white space around it means nothing"
    );
}

#[test]
fn reading_survives_depth_and_bounds_its_reason() {
    let deep = "[".repeat(200_000);
    for text in [
        deep.clone(),
        with("tags", &deep),
        with("content", &deep),
        format!("{{\"x\":{deep}"),
    ] {
        assert!(Event::from_json(&text).is_err());
    }
    let error =
        Event::from_json(&with("kind", &format!("\"{}\"", "x".repeat(100_000)))).unwrap_err();
    assert!(
        error.to_string().chars().count() <= 200,
        "a reason does not repeat the request"
    );
}

#[test]
fn only_the_first_value_of_a_tag_counts() {
    let event = signed(
        1,
        5,
        &[
            &["v", "x", "y"],
            &["V", "z"],
            &["v"],
            &["v", "w"],
            &["d"],
            &["d", "a"],
        ],
        "",
    );
    assert_eq!(event.tag_values("v").collect::<Vec<_>>(), ["x", "w"]);
    assert_eq!(event.tags_named("v").count(), 3);
    assert_eq!(
        event.first_value("V"),
        Some("z"),
        "names are case-sensitive"
    );
    assert_eq!(event.first_value("none"), None);
    assert_eq!(event.only_value("V"), Some("z"));
    assert_eq!(
        event.only_value("v"),
        None,
        "a repeated tag has no only value"
    );
    assert_eq!(
        event.d_value(),
        "",
        "the first d tag decides, even without a value"
    );
    assert_eq!(signed(1, 5, &[&["d", "b"], &["d", "a"]], "").d_value(), "b");
    assert_eq!(signed(1, 5, &[], "").d_value(), "");
}

#[test]
fn the_channel_is_the_first_h_value_that_is_one() {
    let id = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    let event = signed(
        9,
        5,
        &[
            &["h"],
            &["h", "no"],
            &["h", id],
            &["h", "6ba7b811-9dad-11d1-80b4-00c04fd430c8"],
        ],
        "",
    );
    assert_eq!(event.channel_tag(), Some(id.parse().unwrap()));
    let upper = id.to_uppercase();
    assert_eq!(
        signed(9, 5, &[&["h", upper.as_str()]], "").channel_tag(),
        None
    );
}

#[test]
fn kinds_fall_into_the_ranges_of_nip_01() {
    for kind in 0..=u16::MAX {
        let replaceable = kind == 0 || kind == 3 || (10_000..20_000).contains(&kind);
        assert_eq!(kinds::is_replaceable(kind), replaceable, "{kind}");
        assert_eq!(
            kinds::is_ephemeral(kind),
            (20_000..30_000).contains(&kind),
            "{kind}"
        );
        assert_eq!(
            kinds::is_addressable(kind),
            (30_000..40_000).contains(&kind),
            "{kind}"
        );
    }
}

#[test]
fn secret_keys_are_strict_and_stay_secret() {
    let hex = bob().reveal_hex();
    assert_eq!(hex.parse::<SecretKey>().unwrap(), bob());
    let order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    for bad in [
        hex.to_uppercase(),
        hex[2..].to_owned(),
        format!("{hex}\n"),
        "0".repeat(64),
        order.to_owned(),
    ] {
        let error = bad.parse::<SecretKey>().unwrap_err();
        assert!(!error.to_string().contains(&hex));
    }
    assert!(!format!("{:?}", bob()).contains(&hex));
    assert!(format!("{:?}", bob()).contains(BOB));
}

/// The canonical form, written from the text of NIP-01 and the decision about other control characters.
fn canonical(event: &Event) -> String {
    let string = |text: &str| {
        let mut out = String::from("\"");
        for c in text.chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => out.push(c),
            }
        }
        out + "\""
    };
    let tag = |tag: &Vec<String>| {
        format!(
            "[{}]",
            tag.iter()
                .map(|item| string(item))
                .collect::<Vec<_>>()
                .join(",")
        )
    };
    let tags = event.tags.iter().map(tag).collect::<Vec<_>>().join(",");
    format!(
        "[0,\"{}\",{},{},[{tags}],{}]",
        event.pubkey,
        event.created_at,
        event.kind,
        string(&event.content)
    )
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC*",
        "[\\x00-\\x7f\u{80}-\u{a0}\u{2028}\u{2029}\"\\\\]{0,12}"
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let tags = prop::collection::vec(prop::collection::vec(any_text(), 1..4), 0..4);
    (1u8.., 0..=CREATED_AT_MAX, any::<u16>(), tags, any_text()).prop_map(
        |(key, created_at, kind, tags, content)| {
            Draft {
                created_at,
                kind,
                tags,
                content,
            }
            .sign(&secret(key))
        },
    )
}

proptest! {
    #[test]
    fn events_round_trip_and_their_ids_are_the_hash_of_the_canonical_form(event in any_event()) {
        let text = event.to_json();
        let read = Event::from_json(&text).unwrap();
        prop_assert_eq!(&read, &event);
        prop_assert_eq!(read.to_json(), text);
        let id: [u8; 32] = Sha256::digest(canonical(&event)).into();
        prop_assert_eq!(event.id, EventId::from_bytes(id));
        prop_assert_eq!(event.verify(&Verifier), Ok(()));
    }

    #[test]
    fn hex_is_read_exactly_as_it_is_written(bytes in any::<[u8; 32]>(), at in 0usize..64, spoilt in "[^0-9a-f]") {
        let id = EventId::from_bytes(bytes);
        let text = id.to_string();
        prop_assert_eq!(text.parse::<EventId>(), Ok(id));
        prop_assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{text}\""));
        let mut changed = text.clone();
        changed.replace_range(at..=at, &spoilt);
        prop_assert!(changed.parse::<EventId>().is_err());
        prop_assert!(text[..at].parse::<EventId>().is_err());
        prop_assert!(text.parse::<Signature>().is_err());
    }

    #[test]
    fn byte_order_is_text_order(a in any::<[u8; 32]>(), b in any::<[u8; 32]>()) {
        let (a, b) = (EventId::from_bytes(a), EventId::from_bytes(b));
        prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
    }

    #[test]
    fn arbitrary_text_is_never_misread(text in any_text()) {
        prop_assert!(Event::from_json(&text).is_err());
    }
}
