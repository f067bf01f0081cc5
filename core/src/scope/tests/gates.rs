//! Kinds that only some keys may read, the audience of removals, and several keys on one connection.

use super::*;

/// A message to BOB from ANN, of each private kind, among public ones.
fn letters() -> Town {
    let bob = BOB.to_string();
    let rows = [
        ("wrap", event(1, 1_059, EVE, &[&["p", &bob]])),
        ("letter", event(2, 4, ANN, &[&["p", &bob]])),
        (
            "added",
            event(3, 44_100, EVE, &[&["p", &bob], &["t", "stream"]]),
        ),
        (
            "removed",
            event(4, 44_101, EVE, &[&["p", &bob], &["t", "stream"]]),
        ),
        ("note", event(5, 1, ANN, &[&["p", &bob]])),
    ];
    Town {
        rows: rows.map(|(name, event)| Stored::global(name, event)).into(),
        ..Town::default()
    }
}

#[test]
fn a_filter_of_private_kinds_must_be_about_the_reader() {
    crate::rules!("CL-NTC-17");
    for kind in ["44100", "44101", "1059", "44100,44101", "1059,4"] {
        for rest in [
            "",
            r##","#p":[]"##,
            r##","#p":["$ann"]"##,
            r##","#p":["$bob","$ann"]"##,
            r##","#p":["x"]"##,
            r##","#P":["$bob"]"##,
            r##","authors":["$bob"]"##,
            r##","#h":["$club"]"##,
        ] {
            let filter = format!(r##"{{"kinds":[{kind}]{rest}}}"##);
            assert_eq!(plan(&[BOB], &filter), Err(Refusal::Denied), "{filter}");
            assert_eq!(plan(&[], &filter), Err(Refusal::AuthRequired), "{filter}");
        }
        let own = format!(r##"{{"kinds":[{kind}],"#p":["$bob"]}}"##);
        assert!(plan(&[BOB], &own).is_ok(), "{own}");
        assert!(plan(&[ANN, BOB], &own).is_ok(), "{own}");
        assert_eq!(plan(&[EVE], &own), Err(Refusal::Denied), "{own}");
        assert_eq!(plan(&[], &own), Err(Refusal::AuthRequired), "{own}");
    }
}

#[test]
fn old_direct_messages_may_also_be_asked_for_by_their_author() {
    assert!(plan(&[ANN], r##"{"kinds":[4],"authors":["$ann"]}"##).is_ok());
    assert!(
        plan(
            &[ANN],
            r##"{"kinds":[4],"#p":["$ann"],"authors":["$bob"]}"##
        )
        .is_ok()
    );
    for filter in [
        r##"{"kinds":[4]}"##,
        r##"{"kinds":[4],"authors":[]}"##,
        r##"{"kinds":[4],"authors":["$ann","$bob"]}"##,
        r##"{"kinds":[4,1059],"authors":["$ann"]}"##,
    ] {
        assert_eq!(plan(&[ANN], filter), Err(Refusal::Denied), "{filter}");
    }
    let town = letters();
    assert_eq!(
        town.answer(&[ANN], r##"{"kinds":[4],"authors":["$ann"]}"##),
        ["letter"]
    );
    assert_eq!(
        town.answer(&[BOB], r##"{"kinds":[4],"#p":["$bob"]}"##),
        ["letter"]
    );
}

#[test]
fn refusals_have_the_words_that_clients_know() {
    let texts = [Refusal::AuthRequired, Refusal::Denied].map(|it| (it.text(), it.query_text()));
    assert!(texts[0].0.starts_with("auth-required: ") && texts[0].1.starts_with("auth-required: "));
    assert_eq!(
        texts[1].0,
        "restricted: p-gated events require #p matching your pubkey"
    );
    assert_eq!(
        texts[1].1,
        "restricted: p-gated kinds require #p tag matching your pubkey"
    );
}

#[test]
fn in_mixed_filters_foreign_private_rows_are_left_out() {
    crate::rules!("CL-NTC-17", "CL-NTC-18");
    let town = letters();
    let all = [1, 2, 3, 4, 5].map(|number| EventId::from_bytes([number; 32]).to_string());
    let by_id = format!(r#"{{"ids":["{}"]}}"#, all.join("\",\""));
    let mixed = [
        r#"{"kinds":[1,4,1059,44100,44101]}"#,
        "{}",
        &by_id,
        r##"{"#p":["$bob"]}"##,
    ];
    assert!(town.answer(&[EVE], r#"{"kinds":[]}"#).is_empty());
    for filter in mixed {
        let seen = |readers: &[PubKey]| town.answer(readers, filter);
        assert_eq!(
            seen(&[BOB]),
            ["wrap", "letter", "added", "removed", "note"],
            "{filter}"
        );
        assert_eq!(seen(&[ANN]), ["letter", "note"], "{filter}");
        assert_eq!(seen(&[EVE]), ["note"], "{filter}");
        assert_eq!(seen(&[]), ["note"], "{filter}");
        assert_eq!(seen(&[EVE, BOB]), seen(&[BOB]), "{filter}");
    }
}

#[test]
fn an_id_opens_nothing_that_a_gate_closes() {
    crate::rules!("CL-NTC-18");
    let town = letters();
    for (number, kind) in [(1, 1_059), (2, 4), (3, 44_100), (4, 44_101)] {
        let id = EventId::from_bytes([number; 32]);
        let bare = format!(r#"{{"ids":["{id}"]}}"#);
        assert!(town.answer(&[EVE], &bare).is_empty(), "{kind}");
        assert_eq!(town.answer(&[BOB], &bare).len(), 1, "{kind}");
        let with_kind = format!(r#"{{"ids":["{id}"],"kinds":[{kind}]}}"#);
        assert_eq!(plan(&[BOB], &with_kind), Err(Refusal::Denied), "{kind}");
    }
}

#[test]
fn a_gate_looks_at_first_values_of_p_tags_only() {
    let bob = BOB.to_string();
    let upper = bob.to_uppercase();
    let town = Town {
        rows: [
            ("later", event(1, 1_059, EVE, &[&["p", "x", &bob]])),
            ("other", event(2, 1_059, EVE, &[&["P", &bob], &["e", &bob]])),
            ("upper", event(3, 1_059, EVE, &[&["p", &upper]])),
            ("second", event(4, 1_059, EVE, &[&["p", "x"], &["p", &bob]])),
        ]
        .map(|(name, event)| Stored::global(name, event))
        .into(),
        ..Town::default()
    };
    assert_eq!(town.answer(&[BOB], "{}"), ["second"]);
}

#[test]
fn a_removal_of_an_artifact_revision_is_for_moderators() {
    let mut town = Town::new();
    town.rows.clear();
    let removal = town.put("plaza", event(1, 9_005, BOB, &[&["e", "the redacted id"]]));
    removal.audience = Audience::Moderators;
    let seen =
        |town: &Town, readers: &[PubKey]| !town.answer(readers, r#"{"kinds":[9005]}"#).is_empty();
    for (role, sees) in [
        (Some(Role::Owner), true),
        (Some(Role::Admin), true),
        (Some(Role::Member), false),
        (Some(Role::Bot), false),
        (Some(Role::Guest), false),
        (None, false),
    ] {
        town.roles.remove(&(id("plaza"), EVE));
        town.roles
            .extend(role.map(|role| ((id("plaza"), EVE), role)));
        assert_eq!(seen(&town, &[EVE]), sees, "{role:?}");
    }
    assert!(seen(&town, &[BOB]), "its author, in an open channel");
    assert!(!seen(&town, &[]), "an anonymous reader");
}

#[test]
fn a_row_for_moderators_without_channel_is_its_authors() {
    let mut row = Stored::global("removal", event(1, 9_005, BOB, &[]));
    row.audience = Audience::Moderators;
    let town = Town {
        rows: vec![row],
        ..Town::default()
    };
    assert_eq!(town.answer(&[BOB], "{}"), ["removal"]);
    assert!(town.answer(&[ANN], "{}").is_empty());
}

#[test]
fn keys_of_one_connection_add_up_but_do_not_mix() {
    let mut town = Town::new();
    // Each key brings what it may read.
    town.roles.insert((id("club"), EVE), Role::Member);
    town.roles.remove(&(id("club"), BOB));
    let filter = r##"{"kinds":[9],"#h":["$club","$vault"]}"##;
    assert_eq!(town.answer(&[BOB], filter), ["vault/9"]);
    assert_eq!(town.answer(&[EVE], filter), ["club/9"]);
    assert_eq!(town.answer(&[EVE, BOB], filter), ["club/9", "vault/9"]);
    // The author of a removal who left the private channel does not see it through a plain member's eyes.
    let removal = town.put("club", event(99, 9_005, BOB, &[]));
    removal.audience = Audience::Moderators;
    let removals = r##"{"kinds":[9005],"#h":["$club"]}"##;
    assert!(town.answer(&[EVE, BOB], removals).is_empty());
    town.roles.insert((id("club"), BOB), Role::Member);
    assert_eq!(town.answer(&[EVE, BOB], removals), ["club/9005"]);
    // The recipient of a private event in a channel has to be able to read the channel.
    let ann = ANN.to_string();
    town.rows.clear();
    town.put("club", event(98, 1_059, BOB, &[&["p", &ann]]));
    town.roles.remove(&(id("club"), ANN));
    assert!(town.answer(&[EVE, ANN], r##"{"#h":["$club"]}"##).is_empty());
}
