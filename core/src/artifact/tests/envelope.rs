//! The envelope: every tag, every limit, every text, and the order of the checks.

use proptest::prelude::*;

use super::{ARTIFACT, HOME, ID_A, ID_B, OPS, Rev, SIGNED_AT, key};
use crate::artifact::{ENVELOPE_TAGS, Envelope, EnvelopeError, Op, is_type_name};
use crate::nostr::Tag;
use crate::rules;

const LATER_OPS: [&str; 4] = ["update", "move", "delete", "restore"];
const TITLED_OPS: [&str; 4] = ["create", "update", "move", "restore"];
const NOT_UUIDS: [&str; 7] = [
    "",
    "task",
    "00000000-0000-0000-0000-000000000000",
    "04737C81-E5E8-4412-BB47-F446813CFEBA",
    "04737c81e5e84412bb47f446813cfeba",
    "{04737c81-e5e8-4412-bb47-f446813cfeba}",
    "04737c81-e5e8-4412-bb47-f446813cfeba ",
];
const NOT_IDS: [&str; 4] = [
    "",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ARTIFACT,
];

fn parsed(rev: &Rev) -> Envelope {
    Envelope::parse(&rev.event()).unwrap_or_else(|error| panic!("{error}: {rev:?}"))
}

fn fault(rev: &Rev) -> String {
    Envelope::parse(&rev.event())
        .expect_err(&format!("{rev:?}"))
        .to_string()
}

#[test]
fn a_valid_revision_of_each_op_is_read_whole() {
    rules!("AR-ENV-2", "AR-ENV-13", "AR-ENV-30");
    for op in OPS {
        let envelope = parsed(&Rev::new(op).set("root", ID_B));
        assert_eq!(envelope.op.as_str(), op);
        assert_eq!(envelope.artifact.to_string(), ARTIFACT);
        assert_eq!(envelope.home.to_string(), HOME);
        assert_eq!(envelope.artifact_type, "buzz.task");
        assert_eq!(
            envelope.title.as_deref(),
            (op != "delete").then_some("Fix the payment timeout")
        );
        assert_eq!(envelope.root.unwrap().to_string(), ID_B);
        assert_eq!(
            envelope.prev.map(|id| id.to_string()).as_deref(),
            (op != "create").then_some(ID_A)
        );
    }
    let bare = Rev::new("create").content("");
    assert_eq!(bare.tags.len(), 6, "envelope tags alone");
    assert_eq!(parsed(&bare).op, Op::Create);
}

#[test]
fn the_version_is_one() {
    rules!("AR-ENV-2", "AR-ENV-3");
    for version in ["0", "2", "01", "", "1 ", "1.0"] {
        assert_eq!(
            fault(&Rev::new("create").set("ar", version)),
            "unsupported artifact envelope version"
        );
    }
}

#[test]
fn five_tags_are_required_on_every_op() {
    rules!("AR-ENV-2", "AR-ENV-4", "AR-ENV-5", "AR-ENV-6", "AR-ENV-13");
    for op in OPS {
        for name in ["ar", "d", "h", "type", "op"] {
            assert_eq!(
                fault(&Rev::new(op).without(name)),
                "missing required envelope tag"
            );
        }
    }
}

#[test]
fn d_and_h_are_canonical_uuids() {
    rules!("AR-ENV-4", "AR-ENV-5");
    for name in ["d", "h"] {
        for value in NOT_UUIDS {
            assert_eq!(
                fault(&Rev::new("create").set(name, value)),
                "UUID must be canonical lowercase and non-nil",
                "{name} {value:?}"
            );
        }
    }
}

#[test]
fn type_examples() {
    rules!("AR-ENV-7", "AR-ENV-8");
    let longest = format!("a.{}", "b".repeat(126));
    for accepted in [
        "a.b_c-1",
        "buzz.task",
        "org.example.sub.type",
        "a.b-",
        "a1.b",
        longest.as_str(),
    ] {
        assert_eq!(
            parsed(&Rev::new("create").set("type", accepted)).artifact_type,
            accepted
        );
    }
    let too_long = format!("{longest}b");
    assert_eq!((longest.len(), too_long.len()), (128, 129));
    for refused in [
        "",
        "task",
        "Buzz.task",
        "buzz.Task",
        "buzz..x",
        "buzz.1x",
        "1buzz.x",
        ".a",
        "a.",
        ".",
        "a.b!",
        "a.-b",
        "a._b",
        "a.b c",
        "a.é",
        "a.b\n",
        too_long.as_str(),
    ] {
        for op in OPS {
            assert_eq!(
                fault(&Rev::new(op).set("type", refused)),
                "invalid namespaced artifact type",
                "{refused:?}"
            );
        }
    }
}

/// The grammar once more, as an automaton over characters.
fn is_type_by_automaton(text: &str) -> bool {
    let (mut dots, mut at_start) = (0, true);
    for character in text.chars() {
        match character {
            'a'..='z' => at_start = false,
            '0'..='9' | '_' | '-' if !at_start => {}
            '.' if !at_start => {
                dots += 1;
                at_start = true;
            }
            _ => return false,
        }
    }
    dots > 0 && !at_start && text.chars().count() <= 128
}

proptest! {
    #[test]
    fn type_grammar(text in prop_oneof!["[ab1_.A!-]{0,8}", "[a-z]{1,3}(\\.[a-z][a-z0-9_-]{0,60}){1,3}", ".{0,6}"]) {
        rules!("AR-ENV-7", "AR-ENV-8");
        prop_assert_eq!(is_type_name(&text), is_type_by_automaton(&text));
    }

    #[test]
    fn client_tags_and_content_change_nothing_of_the_envelope(
        tags in prop::collection::vec(prop::collection::vec(".{0,9}", 1..4), 0..6),
        content in ".{0,40}",
    ) {
        rules!("AR-ENV-24", "AR-ENV-26");
        let mut rev = Rev::new("update").content(&content);
        let plain = parsed(&rev);
        rev.tags.extend(tags.into_iter().filter(|tag: &Tag| !ENVELOPE_TAGS.contains(&tag[0].as_str()) && tag[0] != "auth"));
        prop_assert_eq!(parsed(&rev), plain);
    }
}

#[test]
fn client_tags_of_any_name_are_taken() {
    rules!("AR-ENV-24", "AR-ENV-30", "AR-ACC-15");
    let rev = Rev::new("create")
        .push(&["assignee", "someone"])
        .push(&["x-y", ""])
        .push(&["P"])
        .push(&["P", "p", "q"])
        .push(&["t", "dm"])
        .push(&["D", HOME]);
    assert_eq!(parsed(&rev), parsed(&Rev::new("create")));
}

#[test]
fn titles() {
    rules!("AR-ENV-9", "AR-ENV-10", "AR-ENV-11", "AR-ENV-12");
    let text = "title must be nonblank and at most 512 UTF-8 bytes";
    for op in TITLED_OPS {
        assert_eq!(fault(&Rev::new(op).without("title")), text);
    }
    for blank in ["", " ", "\t\n", "\u{a0}", "\u{2003}\u{3000}\u{85}"] {
        assert_eq!(
            fault(&Rev::new("create").set("title", blank)),
            text,
            "{blank:?}"
        );
    }
    for (title, accepted) in [
        ("x".repeat(512), true),
        ("x".repeat(513), false),
        ("€".repeat(170), true),
        ("€".repeat(171), false),
        (format!("{}x", " ".repeat(511)), true),
        (format!("{}x", " ".repeat(512)), false),
        ("\u{200b}".to_owned(), true),
    ] {
        let rev = Rev::new("create").set("title", &title);
        if accepted {
            assert_eq!(parsed(&rev).title, Some(title));
        } else {
            assert_eq!(fault(&rev), text);
        }
    }
    for title in ["Fix the payment timeout", ""] {
        assert_eq!(
            fault(&Rev::new("delete").set("title", title)),
            "delete must omit title and have empty content"
        );
    }
}

#[test]
fn ops_are_five_words() {
    rules!("AR-ENV-13");
    for op in ["Create", "purge", "", " create", "CREATE", "archive"] {
        assert_eq!(
            fault(&Rev::new("create").set("op", op)),
            "invalid artifact operation"
        );
    }
}

#[test]
fn root_and_prev_are_event_ids() {
    rules!("AR-ENV-14", "AR-ENV-17");
    for value in NOT_IDS {
        for op in LATER_OPS {
            for name in ["root", "prev"] {
                assert_eq!(
                    fault(&Rev::new(op).set(name, value)),
                    "event ID must be 64 lowercase hex characters",
                    "{name} {value:?}"
                );
            }
        }
    }
}

#[test]
fn prev_stands_on_every_op_but_create() {
    rules!("AR-ENV-15", "AR-ENV-16", "AR-ID-6");
    let text = "prev required exactly on non-create revisions";
    for op in LATER_OPS {
        assert_eq!(fault(&Rev::new(op).without("prev")), text);
    }
    assert_eq!(fault(&Rev::new("create").set("prev", ID_A)), text);
}

#[test]
fn envelope_tags_occur_once_with_two_elements() {
    rules!("AR-ENV-18", "AR-ENV-19", "AR-ENV-26");
    let text = "envelope tags must occur once with exactly two elements";
    let whole = Rev::new("update").set("root", ID_B);
    for name in ENVELOPE_TAGS {
        let at = whole.tags.iter().position(|tag| tag[0] == name).unwrap();
        let mut short = whole.clone();
        short.tags[at].truncate(1);
        let mut long = whole.clone();
        long.tags[at].push("x".to_owned());
        let mut repeated = whole.clone();
        repeated.tags.push(whole.tags[at].clone());
        let mut differing = whole.clone();
        differing
            .tags
            .insert(0, vec![name.to_owned(), "another".to_owned()]);
        for rev in [
            short,
            long,
            repeated,
            differing,
            whole.clone().push(&[name]),
            whole.clone().push(&[name, "x", "y"]),
        ] {
            assert_eq!(fault(&rev), text, "{name}");
        }
    }
}

#[test]
fn tag_limits() {
    rules!("AR-ENV-21", "AR-CUR-18");
    let filled = |count: usize| {
        let mut rev = Rev::new("create");
        while rev.tags.len() < count {
            rev = rev.push(&["x", "y"]);
        }
        rev
    };
    assert!(Envelope::parse(&filled(256).event()).is_ok());
    assert_eq!(fault(&filled(257)), "too many tags");

    let named = |length: usize| Rev::new("create").push(&[&"n".repeat(length), "y"]);
    assert!(Envelope::parse(&named(128).event()).is_ok());
    assert_eq!(fault(&named(129)), "tag name too long");

    for valued in [
        |value: &str| Rev::new("create").push(&["x", value]),
        |value: &str| Rev::new("create").push(&["x", "y", value]),
        |value: &str| Rev::new("create").push(&["x", "y", "z", value, ""]),
    ] {
        assert!(Envelope::parse(&valued(&"v".repeat(4096)).event()).is_ok());
        assert_eq!(fault(&valued(&"v".repeat(4097))), "tag value too long");
    }

    let bytes = |rev: &Rev| rev.tags.iter().flatten().map(String::len).sum::<usize>();
    let heavy = |total: usize| {
        let mut rev = Rev::new("create");
        while total - bytes(&rev) > 4000 {
            rev = rev.push(&["four", &"v".repeat(1996), &"v".repeat(2000)]);
        }
        let rest = total - bytes(&rev);
        rev.push(&["x", &"v".repeat(rest - 1)])
    };
    assert_eq!(bytes(&heavy(65_536)), 65_536);
    assert!(Envelope::parse(&heavy(65_536).event()).is_ok());
    assert_eq!(fault(&heavy(65_537)), "total tag bytes exceeded");
}

#[test]
fn an_empty_tag_is_refused() {
    let mut event = Rev::new("create").event();
    event.tags.push(Vec::new());
    assert_eq!(Envelope::parse(&event), Err(EnvelopeError::EmptyTag));
}

#[test]
fn deletions_carry_neither_content_nor_client_tags() {
    rules!("AR-DEL-1", "AR-DEL-3", "AR-ENV-12");
    assert_eq!(parsed(&Rev::new("delete")).op, Op::Delete);
    for content in ["x", " ", "{}"] {
        assert_eq!(
            fault(&Rev::new("delete").content(content)),
            "delete must omit title and have empty content"
        );
    }
    for name in ["assignee", "p", "Title", ""] {
        assert_eq!(
            fault(&Rev::new("delete").push(&[name, "value"])),
            "delete allows only envelope and verified auth tags"
        );
    }
}

#[test]
fn auth_tags_are_verified_against_author_time_and_kind() {
    rules!("AR-DEL-4");
    let (agent, owner) = (key(1), key(2));
    let before = format!("kind=45010&created_at<{}", SIGNED_AT + 1);
    let attested = |op: &str, conditions: &str| Rev::new(op).attested(&owner, &agent, conditions);
    for op in OPS {
        for conditions in ["", "kind=45010", &before] {
            assert_eq!(parsed(&attested(op, conditions)).op.as_str(), op);
        }
        let unverified = "unverified artifact auth tag";
        let expired = format!("created_at<{SIGNED_AT}");
        let mut forged = attested(op, "");
        forged.tags.last_mut().unwrap()[2] = "kind=45010".to_owned();
        for rev in [
            forged,
            attested(op, &expired),
            attested(op, "kind=045010"),
            attested(op, "color=red"),
            attested(op, "").attested(&owner, &agent, ""),
            Rev::new(op).attested(&agent, &agent, ""),
            Rev::new(op).attested(&owner, &key(3), ""),
            Rev::new(op).push(&["auth"]),
            attested(op, "").push(&["auth", "x"]),
        ] {
            assert_eq!(fault(&rev), unverified, "{rev:?}");
        }
        assert_eq!(
            fault(&attested(op, "kind=9")),
            "artifact auth kind mismatch"
        );
        let unverified_too = format!("kind=9&created_at<{SIGNED_AT}");
        assert_eq!(fault(&attested(op, &unverified_too)), unverified);
    }
}

/// Each fault alone, in the order in which they are looked for. The empty tag has its own test, since no parsed event has one.
#[test]
fn the_first_of_two_faults_is_named() {
    type Spoil = fn(Rev) -> Rev;
    let faults: [(Spoil, EnvelopeError); 14] = [
        (
            |rev| (0..260).fold(rev, |rev, _| rev.push(&["x"])),
            EnvelopeError::TooManyTags,
        ),
        (
            |rev| rev.push(&[&"n".repeat(129)]),
            EnvelopeError::TagNameTooLong,
        ),
        (
            |rev| rev.push(&["x", &"v".repeat(4097)]),
            EnvelopeError::TagValueTooLong,
        ),
        (
            |rev| rev.push(&["root", "x", "y"]),
            EnvelopeError::EnvelopeTagForm,
        ),
        (
            |rev| (0..17).fold(rev, |rev, _| rev.push(&["x", &"v".repeat(4096)])),
            EnvelopeError::TagBytes,
        ),
        (|rev| rev.without("type"), EnvelopeError::MissingTag),
        (|rev| rev.set("ar", "2"), EnvelopeError::Version),
        (|rev| rev.set("d", "x"), EnvelopeError::Uuid),
        (
            |rev| {
                if rev.tags.iter().any(|tag| tag[0] == "type") {
                    rev.set("type", "x")
                } else {
                    rev
                }
            },
            EnvelopeError::Type,
        ),
        (|rev| rev.set("op", "x"), EnvelopeError::Operation),
        (|rev| rev.set("prev", "x"), EnvelopeError::EventId),
        (|rev| rev.without("prev"), EnvelopeError::Prev),
        (|rev| rev.without("title"), EnvelopeError::Title),
        (
            |rev| rev.push(&["auth", "x"]),
            EnvelopeError::UnverifiedAuth,
        ),
    ];
    for (at, (first, error)) in faults.iter().enumerate() {
        let rev = first(Rev::new("update"));
        assert_eq!(Envelope::parse(&rev.event()), Err(*error));
        for (second, later) in &faults[at + 1..] {
            // Without a prev there is no malformed one.
            if (*error, *later) != (EnvelopeError::EventId, EnvelopeError::Prev) {
                assert_eq!(
                    Envelope::parse(&first(second(Rev::new("update"))).event()),
                    Err(*error),
                    "then {later:?}"
                );
            }
        }
    }
    let delete = |rev: Rev| Envelope::parse(&rev.push(&["x", "y"]).event());
    assert_eq!(
        delete(Rev::new("delete").content("x")),
        Err(EnvelopeError::DeleteBody)
    );
    assert_eq!(
        delete(Rev::new("delete").without("prev")),
        Err(EnvelopeError::Prev)
    );
}
