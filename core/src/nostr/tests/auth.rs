//! NIP-42: what a proof of identity has to say.

use super::{secret, signed};
use crate::nostr::auth::{AuthProblem, check_auth};
use crate::nostr::{WebUrl, kinds};

const NOW: u64 = 1_700_000_000;

fn url(text: &str) -> WebUrl {
    text.parse().unwrap()
}

fn check(tags: &[&[&str]], relay: &str) -> Result<(), String> {
    let event = signed(kinds::AUTH, NOW, tags, "");
    check_auth(&event, "c0ffee", &url(relay), NOW)
        .map(|_| ())
        .map_err(|problem| problem.to_string())
}

fn names(relay: &str, own: &str) -> bool {
    check(&[&["relay", relay], &["challenge", "c0ffee"]], own).is_ok()
}

#[test]
fn the_author_is_the_key_that_is_proven() {
    let event = signed(
        kinds::AUTH,
        NOW,
        &[&["relay", "wss://r.example/"], &["challenge", "c0ffee"]],
        "",
    );
    assert_eq!(
        check_auth(&event, "c0ffee", &url("wss://r.example"), NOW),
        Ok(secret(1).public_key())
    );
}

#[test]
fn urls_are_compared_as_urls() {
    let own = "ws://host:7777/relay";
    for same in [
        own,
        "ws://host:7777/relay/",
        "WS://HOST:7777/relay",
        "ws://host.:7777/relay",
    ] {
        assert!(names(same, own), "{same}");
    }
    for other in [
        "ws://evil/relay",
        "ws://host/relay",
        "ws://host:7778/relay",
        "wss://host:7777/relay",
        "http://host:7777/relay",
        "ws://host:7777",
        "ws://host:7777/",
        "ws://host:7777/relay//",
        "ws://host:7777/RELAY",
        "ws://host:7777/relay?x=1",
        "ws://host:7777/relay#x",
        "ws://evil@host:7777/relay",
        "ws://host:7777/relay ",
        " ws://host:7777/relay",
        "host:7777/relay",
        "",
    ] {
        assert!(!names(other, own), "{other}");
    }
    for (a, b) in [
        ("ws://host:80", "ws://host/"),
        ("wss://host:443/", "wss://host"),
        ("ws://[::1]:80", "ws://[0::1]"),
    ] {
        assert!(names(a, b) && names(b, a), "{a} {b}");
    }
    assert!(
        !names("ws://host:443", "ws://host"),
        "another scheme's port is no default"
    );
    assert!(!names("wss://host:80", "wss://host"));
}

#[test]
fn loopback_names_are_no_aliases_in_signed_content() {
    let locals = [
        "ws://localhost:7447",
        "ws://127.0.0.1:7447",
        "ws://[::1]:7447",
    ];
    for own in locals {
        for named in locals {
            assert_eq!(names(named, own), named == own, "{named} {own}");
        }
    }
}

#[test]
fn refusals_start_with_one_word_and_say_what_is_wrong() {
    let relay: &[&str] = &["relay", "wss://r.example"];
    let challenge: &[&str] = &["challenge", "c0ffee"];
    let own = "wss://r.example";
    let failed = "auth-required: verification failed: ";
    for (tags, detail) in [
        (&[relay][..], "exactly one challenge tag is required"),
        (&[challenge], "exactly one relay tag is required"),
        (
            &[relay, relay, challenge],
            "exactly one relay tag is required",
        ),
        (
            &[relay, challenge, &["challenge", "other"]],
            "exactly one challenge tag is required",
        ),
        (
            &[relay, &["challenge"]],
            "exactly one challenge tag is required",
        ),
        (
            &[relay, &["challenge", "C0FFEE"]],
            "challenge does not match",
        ),
        (&[relay, &["challenge", ""]], "challenge does not match"),
        (
            &[&["relay", "wss://evil.example"], challenge],
            "relay must be wss://r.example/, got wss://evil.example",
        ),
    ] {
        assert_eq!(check(tags, own), Err(format!("{failed}{detail}")));
    }
    let long = format!("wss://{}", "x".repeat(100_000));
    assert!(
        check(&[&["relay", &long], challenge], own)
            .unwrap_err()
            .len()
            < 300
    );
    let wrong_kind = signed(kinds::HTTP_AUTH, NOW, &[relay, challenge], "");
    assert_eq!(
        check_auth(&wrong_kind, "c0ffee", &url(own), NOW),
        Err(AuthProblem::Kind(27_235))
    );
}

#[test]
fn the_time_may_differ_by_a_minute_either_way() {
    let at = |created_at: u64, now: u64| {
        let tags: &[&[&str]] = &[&["relay", "wss://r.example"], &["challenge", "c"]];
        check_auth(
            &signed(kinds::AUTH, created_at, tags, ""),
            "c",
            &url("wss://r.example"),
            now,
        )
        .is_ok()
    };
    assert!(at(NOW - 60, NOW) && at(NOW + 60, NOW) && at(0, 60));
    assert!(!at(NOW - 61, NOW) && !at(NOW + 61, NOW) && !at(i64::MAX as u64, 0));
}
