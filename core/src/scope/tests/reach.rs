//! Which channels a filter reaches: naming, asking for system channels, unlisted channels, and the readers' rule.

use super::*;

#[test]
fn a_filter_that_names_nothing_reaches_the_ordinary_types_alone() {
    crate::rules!("CL-SYS-5", "CL-SYS-6", "CL-SYS-7", "CL-UNL-2");
    let town = Town::new();
    // ANN is a member everywhere, and still sees neither system channels nor the board.
    assert_eq!(
        town.answer(&[ANN], r#"{"kinds":[9]}"#),
        ["plaza/9", "club/9", "side/9"]
    );
    assert_eq!(
        town.answer(&[ANN], r#"{"kinds":[39000]}"#),
        ["plaza/39000", "club/39000", "side/39000"]
    );
    let message = |name: &str| {
        let row = town.rows.iter().find(|row| row.name == name).unwrap();
        format!(r#"{{"ids":["{}"]}}"#, row.event.id)
    };
    assert_eq!(town.answer(&[ANN], &message("club/9")), ["club/9"]);
    for hidden in ["vault/9", "lobby/9", "shed/9", "board/9", "board/39000"] {
        assert!(town.answer(&[ANN], &message(hidden)).is_empty(), "{hidden}");
    }
    for filter in [
        "{}",
        r#"{"authors":["$ann"]}"#,
        r#"{"since":1}"#,
        r##"{"#P":["$ann"]}"##,
    ] {
        let seen = town.answer(&[ANN], filter);
        assert!(!seen.is_empty(), "{filter}");
        for name in seen {
            let ordinary = ["plaza/", "club/", "side/"];
            assert!(
                ordinary.iter().any(|channel| name.starts_with(channel)),
                "{filter} {name}"
            );
        }
    }
}

#[test]
fn a_member_finds_system_channels_only_by_asking() {
    crate::rules!("CL-SYS-8", "CL-ASK-1", "CL-ASK-7");
    let town = Town::new();
    assert_eq!(
        town.answer(&[BOB], r##"{"kinds":[39002],"#p":["$bob"]}"##),
        ["club/39002", "side/39002"]
    );
    assert_eq!(
        town.answer(
            &[BOB],
            r##"{"kinds":[39002],"#p":["$bob"],"#t":["system"]}"##
        ),
        ["vault/39002"]
    );
    assert_eq!(
        town.answer(&[BOB], r##"{"kinds":[39000],"#d":["$vault"]}"##),
        ["vault/39000"]
    );
}

#[test]
fn h_names_a_channel_of_any_type_and_then_only_reading_counts() {
    crate::rules!("CL-SYS-13", "CL-SYS-16", "CL-SYS-17", "AR-ACC-1");
    let town = Town::new();
    for (channel, bob, eve) in [
        ("vault", true, false),
        ("lobby", true, true),
        ("shed", true, true),
        ("board", true, true),
        ("club", true, false),
        ("side", true, true),
        ("gone", false, false),
    ] {
        let filter = format!(r##"{{"kinds":[9],"#h":["${channel}"]}}"##);
        let expected = format!("{channel}/9");
        for (reader, sees) in [(BOB, bob), (EVE, eve)] {
            let seen = town.answer(&[reader], &filter);
            assert_eq!(
                seen,
                if sees {
                    vec![expected.as_str()]
                } else {
                    vec![]
                },
                "{channel}"
            );
        }
    }
}

#[test]
fn d_names_a_channel_on_filters_of_channel_state_only() {
    crate::rules!("CL-SYS-14", "CL-SYS-15");
    let town = Town::new();
    for kinds in ["[39000]", "[39000,39001,39002,39003]"] {
        let filter = format!(r##"{{"kinds":{kinds},"#d":["$vault","$board"]}}"##);
        assert!(
            town.answer(&[BOB], &filter).contains(&"vault/39000"),
            "{kinds}"
        );
        assert!(
            town.answer(&[BOB], &filter).contains(&"board/39000"),
            "{kinds}"
        );
        assert!(
            !town.answer(&[EVE], &filter).contains(&"vault/39000"),
            "{kinds}"
        );
    }
    for rest in [
        r#""kinds":[39000,9],"#,
        r#""kinds":[39000,38999],"#,
        r#""kinds":[39000,39004],"#,
        "",
    ] {
        let filter = format!(r##"{{{rest}"#d":["$vault","$lobby","$plaza"]}}"##);
        let seen = town.answer(&[BOB], &filter);
        assert!(!seen.is_empty(), "{filter}");
        assert!(
            seen.iter().all(|name| name.starts_with("plaza/")),
            "{filter}"
        );
    }
    assert!(
        town.answer(&[BOB], r##"{"kinds":[],"#d":["$vault"]}"##)
            .is_empty()
    );
}

#[test]
fn a_channel_named_in_one_filter_stays_out_of_the_next() {
    crate::rules!("CL-SYS-18");
    let town = Town::new();
    let named = r##"{"kinds":[9],"#h":["$vault"]}"##;
    assert_eq!(town.answer(&[BOB], named), ["vault/9"]);
    assert!(!town.answer(&[BOB], r#"{"kinds":[9]}"#).contains(&"vault/9"));
    // Naming one channel does not open another one of the same sort either.
    assert!(!town.answer(&[BOB], named).contains(&"lobby/9"));
    // The same for a plan with both conditions: what `#d` names, `#h` does not let through, and the other way round.
    let both = r##"{"kinds":[39000],"#h":["$vault"],"#d":["$lobby"]}"##;
    assert!(town.answer(&[BOB], both).is_empty());
}

#[test]
fn asking_brings_system_channels_and_no_later_type() {
    crate::rules!("CL-SYS-19", "CL-ASK-2", "CL-ASK-3", "CL-ASK-8", "CL-FIND-1");
    let town = Town::new();
    let asked = town.answer(&[BOB], r##"{"kinds":[39000],"#P":["$ann"]}"##);
    assert_eq!(
        asked,
        ["plaza/39000", "side/39000", "vault/39000", "lobby/39000"]
    );
    assert_eq!(
        town.answer(&[BOB], r##"{"kinds":[39000],"#P":["$bob"]}"##),
        ["club/39000"]
    );
    assert_eq!(
        town.answer(&[EVE], r##"{"kinds":[39000],"#t":["system"]}"##),
        ["lobby/39000"]
    );
    assert_eq!(
        town.answer(&[ANN], r##"{"kinds":[39000,39002],"#t":["system"]}"##),
        [
            "vault/39000",
            "vault/39002",
            "lobby/39000",
            "lobby/39002",
            "shed/39000",
            "shed/39002"
        ]
    );
    let later = r##"{"kinds":[39000],"#t":["kanban","system"],"#P":["$ann"]}"##;
    assert!(!town.answer(&[ANN], later).contains(&"board/39000"));
}

#[test]
fn a_label_alone_does_not_ask() {
    crate::rules!(
        "CL-ASK-4",
        "CL-ASK-6",
        "CL-ASK-9",
        "CL-FIND-2",
        "CL-FIND-3",
        "CL-FIND-4"
    );
    let town = Town::new();
    let seen = |filter: &str| town.answer(&[BOB], filter);
    assert_eq!(
        seen(r##"{"kinds":[39000],"#t":["config"]}"##),
        ["club/39000"]
    );
    assert_eq!(
        seen(r##"{"kinds":[39000],"#t":["config","system"]}"##),
        ["club/39000", "vault/39000", "lobby/39000"]
    );
    assert_eq!(
        seen(r##"{"kinds":[39000],"#t":["config"],"#P":["$ann"]}"##),
        ["vault/39000"]
    );
    assert_eq!(
        seen(r##"{"kinds":[39000],"#t":["forum"]}"##),
        ["side/39000"]
    );
    assert_eq!(
        seen(r##"{"kinds":[39000],"#t":["kanban"]}"##),
        Vec::<&str>::new()
    );
}

#[test]
fn other_kinds_no_kinds_and_empty_lists_do_not_ask() {
    crate::rules!("CL-ASK-5");
    let asks = |filter: &str| plan(&[BOB], filter).unwrap().scope.system;
    assert!(asks(r##"{"kinds":[39000],"#t":["system"]}"##));
    assert!(asks(r##"{"kinds":[39000,39003],"#P":["x"]}"##));
    for filter in [
        r##"{"kinds":[39000,9],"#t":["system"]}"##,
        r##"{"kinds":[39004],"#P":["$ann"]}"##,
        r##"{"kinds":[38999],"#P":["$ann"]}"##,
        r##"{"kinds":[],"#t":["system"],"#P":["$ann"]}"##,
        r##"{"#t":["system"]}"##,
        r##"{"#P":["$ann"]}"##,
        r##"{"kinds":[39000],"#P":[]}"##,
        r##"{"kinds":[39000],"#t":[]}"##,
        r##"{"kinds":[39000],"#t":["System"]}"##,
        r##"{"kinds":[39000],"#T":["system"],"#p":["$ann"]}"##,
    ] {
        assert!(!asks(filter), "{filter}");
    }
}

#[test]
fn private_channels_stay_closed_however_they_are_asked_for() {
    crate::rules!("CL-ASK-10", "CL-SYS-16");
    let town = Town::new();
    for filter in [
        r##"{"kinds":[39000],"#t":["system"]}"##,
        r##"{"kinds":[39000],"#P":["$ann","$bob"]}"##,
        r##"{"kinds":[39000,39002],"#d":["$vault","$club"]}"##,
        r##"{"#h":["$vault","$club"]}"##,
        r##"{}"##,
    ] {
        for reader in [&[EVE][..], &[]] {
            for name in town.answer(reader, filter) {
                assert!(
                    !name.starts_with("vault") && !name.starts_with("club"),
                    "{filter} {name}"
                );
            }
        }
    }
}

#[test]
fn an_unlisted_channel_is_found_by_its_members_or_by_its_name() {
    crate::rules!("CL-UNL-1", "CL-UNL-2", "CL-UNL-3");
    let town = Town::new();
    let side = |reader, filter| town.answer(&[reader], filter).contains(&"side/39000");
    assert!(side(BOB, r#"{"kinds":[39000]}"#));
    assert!(!side(EVE, r#"{"kinds":[39000]}"#));
    assert!(!side(EVE, r##"{"kinds":[39000],"#P":["$ann"]}"##));
    assert!(side(EVE, r##"{"kinds":[39000],"#h":["$side"]}"##));
    assert!(side(EVE, r##"{"kinds":[39000],"#d":["$side"]}"##));
    let shed = |reader, filter| town.answer(&[reader], filter).contains(&"shed/39000");
    for ask in [
        r##"{"kinds":[39000],"#t":["system"]}"##,
        r##"{"kinds":[39000],"#P":["$ann"]}"##,
    ] {
        assert!(shed(ANN, ask));
        assert!(!shed(EVE, ask));
    }
    assert!(shed(EVE, r##"{"kinds":[39000],"#d":["$shed"]}"##));
}

#[test]
fn a_missing_or_foreign_channel_row_admits_nothing() {
    crate::rules!("AR-ACC-1");
    let mut town = Town::new();
    let all = r##"{"kinds":[9],"#h":["$plaza"]}"##;
    assert_eq!(town.answer(&[ANN], all), ["plaza/9"]);
    let plaza = town.channels.remove(&id("plaza")).unwrap();
    assert!(town.answer(&[ANN], all).is_empty());
    // The facts of an open, listed channel say nothing about a row of another channel.
    let unnamed = r#"{"kinds":[9]}"#;
    town.channels.insert(id("board"), plaza);
    assert!(!town.answer(&[ANN], unnamed).contains(&"board/9"));
}

#[test]
fn access_of_the_moment_decides_and_the_role_does_not() {
    let mut town = Town::new();
    let filter = r##"{"kinds":[9],"#h":["$club"]}"##;
    for role in [
        Role::Owner,
        Role::Admin,
        Role::Member,
        Role::Bot,
        Role::Guest,
    ] {
        town.roles.insert((id("club"), BOB), role);
        assert_eq!(town.answer(&[BOB], filter), ["club/9"]);
    }
    town.roles.remove(&(id("club"), BOB));
    assert!(town.answer(&[BOB], filter).is_empty());
    town.channels.get_mut(&id("club")).unwrap().visibility = Visibility::Open;
    assert_eq!(town.answer(&[BOB], filter), ["club/9"]);
    town.channels.get_mut(&id("club")).unwrap().archived = true;
    assert_eq!(town.answer(&[BOB], filter), ["club/9"]);
    town.channels.get_mut(&id("club")).unwrap().deleted = true;
    assert!(town.answer(&[BOB], filter).is_empty());
}

#[test]
fn values_of_h_that_are_no_channel_ids_name_nothing() {
    let broken = plan(
        &[BOB],
        r##"{"#h":["no uuid","$plaza","00000000-0000-0000-0000-000000000000"]}"##,
    );
    let expected = BTreeSet::from([id("plaza")]);
    assert_eq!(broken.clone().unwrap().channels, Some(expected.clone()));
    assert_eq!(broken.unwrap().scope.named, expected);
    let town = Town::new();
    for nothing in [r##"{"#h":["plaza"]}"##, r##"{"#h":[]}"##] {
        assert_eq!(
            plan(&[BOB], nothing).unwrap().channels,
            Some(BTreeSet::new())
        );
        assert!(town.answer(&[BOB], nothing).is_empty(), "{nothing}");
    }
    let upper = id("board").to_string().to_uppercase();
    assert!(
        town.answer(&[BOB], &format!(r##"{{"#h":["{upper}"]}}"##))
            .is_empty()
    );
}

#[test]
fn h_is_the_channel_of_a_row_and_not_what_its_tags_say() {
    let mut town = Town::new();
    town.rows.clear();
    let (plaza, lobby) = (id("plaza").to_string(), id("lobby").to_string());
    town.put("plaza", event(1, 9, ANN, &[&["h", &lobby], &["h", &plaza]]));
    assert_eq!(town.answer(&[EVE], r##"{"#h":["$plaza"]}"##), ["plaza/9"]);
    assert!(town.answer(&[EVE], r##"{"#h":["$lobby"]}"##).is_empty());
    // State events carry no `h` tag, and are found all the same.
    assert_eq!(
        Town::new().answer(&[EVE], r##"{"kinds":[39000],"#h":["$plaza"]}"##),
        ["plaza/39000"]
    );
}
