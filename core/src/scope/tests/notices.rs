//! Notices follow the channel type they carry, in place of naming and of plain `#t` matching.

use super::*;

/// Notices for BOB about a channel of each type, one without a type, and a chat message and a state event with `t` tags.
fn notices(kind: Kind) -> Town {
    let (bob, plaza, vault) = (
        BOB.to_string(),
        id("plaza").to_string(),
        id("vault").to_string(),
    );
    let notice = |number: u8, type_name: &str| {
        let here = if type_name == "system" {
            &vault
        } else {
            &plaza
        };
        event(
            number,
            kind,
            EVE,
            &[&["p", &bob], &["h", here], &["t", type_name]],
        )
    };
    let rows = [
        ("stream", notice(1, "stream")),
        ("forum", notice(2, "forum")),
        ("dm", notice(3, "dm")),
        ("workflow", notice(4, "workflow")),
        ("system", notice(5, "system")),
        ("kanban", notice(6, "kanban")),
        ("old", event(7, kind, EVE, &[&["p", &bob], &["h", &plaza]])),
        ("note", event(8, 1, EVE, &[&["t", "system"]])),
        ("bare note", event(9, 1, EVE, &[])),
    ];
    Town {
        rows: rows.map(|(name, event)| Stored::global(name, event)).into(),
        ..Town::default()
    }
}

/// What BOB's filter for both kinds of notice returns, alike for both.
fn seen(rest: &str) -> Vec<String> {
    let filter = format!(r##"{{"kinds":[44100,44101],"#p":["$bob"]{rest}}}"##);
    let [added, removed] = [44_100, 44_101].map(|kind| {
        let town = notices(kind);
        let names = town.answer(&[BOB], &filter);
        names.into_iter().map(str::to_owned).collect::<Vec<_>>()
    });
    assert_eq!(added, removed, "{filter}");
    added
}

#[test]
fn without_t_a_filter_sees_the_frozen_list_of_types() {
    crate::rules!("CL-NTC-6", "CL-NTC-7", "CL-NTC-8", "CL-NTC-16");
    assert_eq!(seen(""), ["stream", "forum", "dm", "workflow", "old"]);
    assert_eq!(seen(r#","since":1"#), seen(""));
}

#[test]
fn with_t_a_filter_sees_the_types_it_lists() {
    crate::rules!("CL-NTC-5", "CL-NTC-7");
    assert_eq!(seen(r##","#t":["system"]"##), ["system"]);
    assert_eq!(seen(r##","#t":["kanban"]"##), ["kanban"]);
    assert_eq!(
        seen(r##","#t":["stream","system"]"##),
        ["stream", "system", "old"]
    );
    assert_eq!(
        seen(r##","#t":["stream","forum","dm","workflow","system"]"##),
        ["stream", "forum", "dm", "workflow", "system", "old"]
    );
    assert!(seen(r##","#t":["Stream"]"##).is_empty());
    assert!(seen(r##","#t":[]"##).is_empty());
}

#[test]
fn a_notice_without_a_type_counts_as_every_ordinary_type() {
    crate::rules!("CL-NTC-8", "CL-NTC-9", "CL-NTC-10");
    for legacy in ["stream", "forum", "dm", "workflow"] {
        assert_eq!(seen(&format!(r##","#t":["{legacy}"]"##)), [legacy, "old"]);
    }
    for other in ["system", "kanban", "config"] {
        let seen = seen(&format!(r##","#t":["{other}"]"##));
        assert!(!seen.contains(&"old".to_owned()), "{other}");
    }
}

#[test]
fn other_kinds_of_the_same_filter_are_matched_by_their_tags() {
    crate::rules!("CL-NTC-11");
    let town = notices(44_100);
    let mixed = |rest: &str| format!(r#"{{"kinds":[1,44100]{rest}}}"#);
    assert_eq!(
        town.answer(&[BOB], &mixed(r##","#t":["system"]"##)),
        ["system", "note"]
    );
    assert_eq!(
        town.answer(&[BOB], &mixed(r##","#t":["stream"]"##)),
        ["stream", "old"]
    );
    assert_eq!(
        town.answer(&[BOB], &mixed("")),
        [
            "stream",
            "forum",
            "dm",
            "workflow",
            "old",
            "note",
            "bare note"
        ]
    );
}

#[test]
fn naming_a_channel_does_not_replace_the_type() {
    crate::rules!("CL-NTC-5", "CL-NTC-6");
    assert!(seen(r##","#h":["$vault"]"##).is_empty());
    assert_eq!(seen(r##","#h":["$vault"],"#t":["system"]"##), ["system"]);
    assert_eq!(
        seen(r##","#h":["$plaza"]"##),
        ["stream", "forum", "dm", "workflow", "old"]
    );
    assert!(seen(r##","#h":["$lobby"]"##).is_empty());
    assert!(seen(r##","#h":[]"##).is_empty());
}

#[test]
fn an_id_replaces_neither_the_type_nor_the_recipient() {
    crate::rules!("CL-NTC-6", "CL-NTC-18");
    let town = notices(44_101);
    let system = EventId::from_bytes([5; 32]);
    let bare = format!(r#"{{"ids":["{system}"]}}"#);
    assert!(town.answer(&[BOB], &bare).is_empty());
    let asked = format!(r##"{{"ids":["{system}"],"#t":["system"]}}"##);
    assert_eq!(town.answer(&[BOB], &asked), ["system"]);
    assert!(town.answer(&[ANN], &asked).is_empty());
}
