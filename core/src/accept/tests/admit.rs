//! What is refused before any store is asked, and with which words.

use std::collections::BTreeSet;

use crate::accept::model::{BEGIN_SECS, channel_id, key, policy, pubkey, tag};
use crate::accept::{Profile, Rejection, Submission, admit};
use crate::ids::{CommunityId, Uuid};
use crate::limits::{CONTENT_BYTES_MAX, EVENT_TAGS_MAX};
use crate::nostr::{Draft, Kind};
use crate::rules;

const PROFILES: [Profile; 2] = [Profile::Workspace, Profile::Open];

/// An event by key 1, brought by key 1 at the second it was made, unless a test says otherwise.
struct Sent {
    profile: Profile,
    kind: Kind,
    tags: Vec<Vec<String>>,
    content: String,
    created_at: u64,
    keys: Vec<u8>,
}

fn sent(profile: Profile, kind: Kind, tags: &[&[&str]]) -> Sent {
    Sent {
        profile,
        kind,
        tags: tags.iter().map(|elements| tag(elements)).collect(),
        content: String::new(),
        created_at: BEGIN_SECS,
        keys: vec![1],
    }
}

impl Sent {
    fn admitted(self) -> Result<(), Rejection> {
        let Sent {
            profile,
            kind,
            tags,
            content,
            created_at,
            keys,
        } = self;
        let submission = Submission {
            community: CommunityId(Uuid::from_bytes([1; 16]).unwrap()),
            event: Draft {
                created_at,
                kind,
                tags,
                content,
            }
            .sign(&key(1)),
            keys: keys.into_iter().map(pubkey).collect::<BTreeSet<_>>(),
            received_at: BEGIN_SECS,
        };
        admit(&submission, &policy(profile))
    }

    fn by(mut self, keys: &[u8]) -> Sent {
        self.keys = keys.to_vec();
        self
    }

    fn at(mut self, created_at: u64) -> Sent {
        self.created_at = created_at;
        self
    }
}

fn invalid(text: &str) -> Result<(), Rejection> {
    Err(Rejection::Invalid(text.to_owned()))
}

fn denied(text: &str) -> Result<(), Rejection> {
    Err(Rejection::Denied(text.to_owned()))
}

#[test]
fn kinds_that_nobody_submits_are_refused_in_both_profiles() {
    let relay_only = [
        39000, 39001, 39002, 39003, 39005, 39006, 39007, 39008, 39009, 45011, 13534, 30622, 40099,
        40901, 40902,
    ];
    for profile in PROFILES {
        for kind in [22242, 27235] {
            let text = "invalid: AUTH events cannot be submitted";
            assert_eq!(sent(profile, kind, &[]).admitted(), invalid(text), "{kind}");
        }
        for kind in [44100, 44101] {
            let text = "invalid: membership notifications are relay-signed only";
            assert_eq!(sent(profile, kind, &[]).admitted(), invalid(text), "{kind}");
        }
        for kind in relay_only {
            let text = "restricted: relay-only kind";
            assert_eq!(sent(profile, kind, &[]).admitted(), invalid(text), "{kind}");
        }
        for kind in [9030, 9033, 9040, 9044, 28936, 41010, 41011, 41012] {
            let text = format!("invalid: not supported: kind {kind}");
            assert_eq!(
                sent(profile, kind, &[]).admitted(),
                invalid(&text),
                "{kind}"
            );
        }
    }
}

#[test]
fn a_workspace_takes_its_table_of_kinds_and_no_other() {
    let e = "aa".repeat(32);
    for kind in [
        0, 3, 7, 1059, 10_000, 19_999, 20_000, 29_999, 30_000, 38_999,
    ] {
        assert_eq!(
            sent(Profile::Workspace, kind, &[]).admitted(),
            Ok(()),
            "{kind}"
        );
    }
    assert_eq!(
        sent(Profile::Workspace, 5, &[&["e", &e]]).admitted(),
        Ok(())
    );
    for kind in [
        1, 4, 6, 8, 42, 1984, 9009, 9010, 9999, 39_004, 40_001, 45_002, 45_012, 65_535,
    ] {
        let text = "restricted: unknown event kind";
        assert_eq!(
            sent(Profile::Workspace, kind, &[]).admitted(),
            invalid(text),
            "{kind}"
        );
    }
    for kind in [1, 4, 6, 42, 1984, 9999, 39_004, 40_001, 65_535] {
        assert_eq!(sent(Profile::Open, kind, &[]).admitted(), Ok(()), "{kind}");
    }
    let text = "invalid: not supported: kind 9009";
    assert_eq!(sent(Profile::Open, 9009, &[]).admitted(), invalid(text));
}

#[test]
fn the_author_is_among_the_senders_keys() {
    let h = channel_id(1).to_string();
    let mismatch = denied("invalid: event pubkey does not match authenticated identity");
    let anonymous = denied("auth-required: not authenticated");
    for profile in PROFILES {
        for (kind, tags) in [
            (9, vec!["h", h.as_str()]),
            (9021, vec!["h", &h]),
            (45010, vec!["x", "y"]),
        ] {
            let event = || sent(profile, kind, &[&tags]);
            assert_eq!(event().by(&[2, 1]).admitted(), Ok(()), "{kind}");
            assert_eq!(event().by(&[2, 3]).admitted(), mismatch, "{kind}");
            assert_eq!(event().by(&[]).admitted(), anonymous, "{kind}");
        }
        // A gift wrap is signed by a key that is used once.
        assert_eq!(sent(profile, 1059, &[]).by(&[2]).admitted(), Ok(()));
        assert_eq!(sent(profile, 1059, &[]).by(&[]).admitted(), anonymous);
    }
    assert_eq!(
        sent(Profile::Workspace, 7, &[]).by(&[2]).admitted(),
        mismatch
    );
    assert_eq!(
        sent(Profile::Workspace, 7, &[]).by(&[]).admitted(),
        anonymous
    );
    assert_eq!(
        sent(Profile::Open, 4, &[]).by(&[]).admitted(),
        anonymous,
        "private data"
    );
    assert_eq!(sent(Profile::Open, 1, &[]).by(&[]).admitted(), Ok(()));
    assert_eq!(
        sent(Profile::Open, 1, &[]).by(&[2]).admitted(),
        Ok(()),
        "an import"
    );
    assert_eq!(
        sent(Profile::Open, 1, &[&["h", "x"]]).by(&[2]).admitted(),
        mismatch
    );
}

#[test]
fn a_protected_event_comes_from_its_author_alone() {
    for profile in PROFILES {
        assert_eq!(sent(profile, 7, &[&["-"]]).admitted(), Ok(()));
    }
    assert_eq!(
        sent(Profile::Open, 1, &[&["-"]]).by(&[]).admitted(),
        denied("auth-required: this event may only be published by its author")
    );
    let other = denied("restricted: this event may only be published by its author");
    assert_eq!(sent(Profile::Open, 1, &[&["-"]]).by(&[2]).admitted(), other);
    assert_eq!(
        sent(Profile::Workspace, 1059, &[&["-"]])
            .by(&[2])
            .admitted(),
        other
    );
}

#[test]
fn the_window_is_fifteen_minutes_both_ways_and_open_to_old_notes() {
    let h = channel_id(1).to_string();
    let refused = invalid("invalid: event timestamp too far from server time");
    for profile in PROFILES {
        for kind in [7, 9021, 20_001] {
            let event = |at| sent(profile, kind, &[&["h", &h]]).at(at).admitted();
            assert_eq!(event(BEGIN_SECS + 900), Ok(()), "{kind}");
            assert_eq!(event(BEGIN_SECS + 901), refused, "{kind}");
            assert_eq!(event(BEGIN_SECS - 900), Ok(()), "{kind}");
            let imported = profile == Profile::Open && kind == 7;
            assert_eq!(
                event(BEGIN_SECS - 901),
                if imported { Ok(()) } else { refused.clone() },
                "{kind}"
            );
        }
        assert_eq!(
            sent(profile, 45010, &[]).at(1).admitted(),
            Ok(()),
            "a revision may be a resubmission, so its time is looked at later"
        );
    }
    assert_eq!(sent(Profile::Open, 1, &[]).at(0).admitted(), Ok(()));
}

#[test]
fn size_and_number_of_tags_are_bounded() {
    let mut event = sent(Profile::Workspace, 7, &[]);
    event.content = "é".repeat(CONTENT_BYTES_MAX / 2);
    assert_eq!(event.admitted(), Ok(()));
    let mut event = sent(Profile::Workspace, 7, &[]);
    event.content = "x".repeat(CONTENT_BYTES_MAX + 1);
    let text = "invalid: content exceeds maximum size of 262144 bytes (got 262145)";
    assert_eq!(event.admitted(), invalid(text));
    let mut event = sent(Profile::Workspace, 7, &[]);
    event.tags = vec![tag(&["x"]); EVENT_TAGS_MAX];
    assert_eq!(event.admitted(), Ok(()));
    let mut event = sent(Profile::Workspace, 7, &[]);
    event.tags = vec![tag(&["x"]); EVENT_TAGS_MAX + 1];
    assert_eq!(event.admitted(), invalid("invalid: too many tags"));
}

#[test]
fn an_expired_event_is_refused() {
    for profile in PROFILES {
        let until = |text: &str| sent(profile, 7, &[&["expiration", text]]).admitted();
        assert_eq!(until(&(BEGIN_SECS + 1).to_string()), Ok(()));
        assert_eq!(
            until(&BEGIN_SECS.to_string()),
            invalid("invalid: event has expired")
        );
        assert_eq!(until("0"), invalid("invalid: event has expired"));
        for never in ["", "soon", "-1", "+1", "99999999999999999999"] {
            assert_eq!(until(never), Ok(()), "{never}");
        }
    }
}

#[test]
fn channel_kinds_name_one_channel() {
    let (a, b) = (channel_id(1).to_string(), channel_id(2).to_string());
    let missing = invalid("invalid: channel-scoped events must include an h tag");
    for kind in [9, 40_002, 40_003, 45_001, 45_003] {
        assert_eq!(
            sent(Profile::Workspace, kind, &[]).admitted(),
            missing,
            "{kind}"
        );
        assert_eq!(
            sent(Profile::Workspace, kind, &[&["h"]]).admitted(),
            missing,
            "{kind}"
        );
        assert_eq!(
            sent(Profile::Workspace, kind, &[&["h", &a]]).admitted(),
            Ok(()),
            "{kind}"
        );
        assert_eq!(sent(Profile::Open, kind, &[]).admitted(), Ok(()), "{kind}");
    }
    for profile in PROFILES {
        for kind in [9000, 9001, 9002, 9005, 9008, 9022] {
            assert_eq!(sent(profile, kind, &[]).admitted(), missing, "{kind}");
        }
        assert_eq!(
            sent(profile, 9021, &[]).admitted(),
            invalid("invalid: join request must include an h tag")
        );
        for kind in [7, 9, 9021] {
            let text = "invalid: an event belongs to one channel: more than one h tag";
            assert_eq!(
                sent(profile, kind, &[&["h", &a], &["h", &b]]).admitted(),
                invalid(text),
                "{kind}"
            );
        }
    }
}

#[test]
fn what_this_relay_does_not_have_is_refused_and_never_ignored() {
    rules!("CL-NTC-3");
    let h = channel_id(1).to_string();
    for kind in [9002, 9007] {
        for name in [
            "t",
            "ttl",
            "unlisted",
            "auto_join",
            "private",
            "hidden",
            "picture",
            "parent",
        ] {
            let event = sent(
                Profile::Workspace,
                kind,
                &[&["h", &h], &["name", "x"], &[name, "1"]],
            );
            let text = format!("invalid: not supported: {name} tag on kind:{kind}");
            assert_eq!(event.admitted(), invalid(&text));
        }
    }
    let create = |channel_type: &str| {
        sent(
            Profile::Workspace,
            9007,
            &[&["name", "x"], &["channel_type", channel_type]],
        )
        .admitted()
    };
    for known in ["stream", "forum", "workflow", "system"] {
        assert_eq!(create(known), Ok(()), "{known}");
    }
    assert_eq!(
        create("dm"),
        invalid("invalid: not supported: channel_type dm")
    );
    assert_eq!(
        create("Stream"),
        invalid("invalid: invalid channel_type: Stream")
    );
    assert_eq!(
        sent(
            Profile::Workspace,
            9002,
            &[&["h", &h], &["channel_type", "forum"]]
        )
        .admitted(),
        invalid("invalid: not supported: channel_type tag on kind:9002")
    );
    assert_eq!(
        sent(
            Profile::Workspace,
            9000,
            &[&["h", &h], &["p", &h], &["p", &h]]
        )
        .admitted(),
        invalid("invalid: not supported: more than one p tag")
    );
}
