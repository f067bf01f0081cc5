//! NIP-98: what a proof for one HTTP request has to say.

use sha2::{Digest, Sha256};

use super::{secret, signed};
use crate::nostr::http_auth::{
    HttpAuthProblem, check_http_auth, credentials, read_http_auth, require_payload,
};
use crate::nostr::{EventError, WebUrl, kinds};

const NOW: u64 = 1_700_000_000;
const BODY: &[u8] = b"[{}]";
const FAILED: &str = "NIP-98: NIP-98 HTTP Auth verification failed: ";

fn base(text: &str) -> WebUrl {
    text.parse().unwrap()
}

fn body_sha256() -> [u8; 32] {
    Sha256::digest(BODY).into()
}

/// Checks an event with these tags against `POST /query` at this base.
fn check(tags: &[&[&str]], own: &str) -> Result<(), String> {
    let event = signed(kinds::HTTP_AUTH, NOW, tags, "");
    check_http_auth(
        &event,
        "POST",
        &base(own).http("/query"),
        &body_sha256(),
        NOW,
    )
    .map(|key| assert_eq!(key, secret(1).public_key()))
    .map_err(|problem| problem.to_string())
}

fn names(u: &str, own: &str) -> bool {
    check(&[&["u", u], &["method", "POST"]], own).is_ok()
}

#[test]
fn the_url_is_exactly_that_of_the_request() {
    let own = "wss://example.com:3443";
    assert!(names("https://example.com:3443/query", own));
    assert!(
        names("https://EXAMPLE.com:3443/query", own),
        "host names have no case"
    );
    for other in [
        "https://example.com/query",
        "http://example.com:3443/query",
        "wss://example.com:3443/query",
        "https://other.example:3443/query",
        "https://example.com:3443/query/",
        "https://example.com:3443/query?x=1",
        "https://example.com:3443/Query",
        "https://example.com:3443/",
        "https://example.com:3443//query",
        "https://example.com:3443/query#x",
        "https://user@example.com:3443/query",
        "/query",
        "",
    ] {
        assert!(!names(other, own), "{other}");
    }
    assert!(names("https://example.com:443/query", "wss://example.com"));
    assert!(names("http://example.com/query", "ws://example.com:80"));
    assert!(!names("http://example.com:443/query", "ws://example.com"));
    assert!(
        !names("http://127.0.0.1:7447/query", "ws://localhost:7447"),
        "loopback names are no aliases here"
    );
}

#[test]
fn query_parameters_belong_to_the_url() {
    let url = base("wss://example.com").http("/query?a=1");
    let check = |u: &str| {
        let event = signed(kinds::HTTP_AUTH, NOW, &[&["u", u], &["method", "POST"]], "");
        check_http_auth(&event, "POST", &url, &body_sha256(), NOW).is_ok()
    };
    assert!(check("https://example.com/query?a=1"));
    assert!(!check("https://example.com/query") && !check("https://example.com/query?a=2"));
}

#[test]
fn a_wrong_url_is_answered_with_both() {
    let error = check(
        &[&["u", "https://example.com/query"], &["method", "POST"]],
        "wss://example.com:3443",
    );
    let detail = "u must be https://example.com:3443/query, got https://example.com/query";
    assert_eq!(error, Err(format!("{FAILED}{detail}")));
}

#[test]
fn method_payload_and_tags_are_judged() {
    let own = "wss://example.com";
    let u: &[&str] = &["u", "https://example.com/query"];
    let method: &[&str] = &["method", "POST"];
    let hash = body_sha256()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    assert_eq!(check(&[u, &["method", "post"]], own), Ok(()));
    assert_eq!(
        check(&[u, method, &["payload", &hash], &["nonce", "1"]], own),
        Ok(())
    );
    for (tags, detail) in [
        (&[u, &["method", "GET"]][..], "method must be POST, got GET"),
        (&[u], "exactly one method tag is required"),
        (&[method], "exactly one u tag is required"),
        (&[u, u, method], "exactly one u tag is required"),
        (
            &[u, method, &["payload", &hash.to_uppercase()]],
            "payload does not match the body",
        ),
        (
            &[u, method, &["payload", &"0".repeat(64)]],
            "payload does not match the body",
        ),
        (
            &[u, method, &["payload", ""]],
            "payload does not match the body",
        ),
        (
            &[u, method, &["payload"]],
            "exactly one payload tag is required",
        ),
        (
            &[u, method, &["payload", &hash], &["payload", &hash]],
            "exactly one payload tag is required",
        ),
    ] {
        assert_eq!(check(tags, own), Err(format!("{FAILED}{detail}")));
    }
}

#[test]
fn some_requests_need_the_payload() {
    let bare = signed(kinds::HTTP_AUTH, NOW, &[&["u", "x"]], "");
    let problem = require_payload(&bare).unwrap_err();
    assert_eq!(problem.to_string(), "NIP-98: missing payload tag");
    assert_eq!(
        require_payload(&signed(kinds::HTTP_AUTH, NOW, &[&["payload", "x"]], "")),
        Ok(())
    );
}

#[test]
fn kind_and_time_are_judged() {
    let tags: &[&[&str]] = &[&["u", "https://example.com/query"], &["method", "POST"]];
    let url = base("wss://example.com").http("/query");
    let check = |kind: u16, created_at: u64| {
        check_http_auth(
            &signed(kind, created_at, tags, ""),
            "POST",
            &url,
            &body_sha256(),
            NOW,
        )
        .is_ok()
    };
    assert!(check(27_235, NOW - 60) && check(27_235, NOW + 60));
    assert!(!check(27_235, NOW - 61) && !check(27_235, NOW + 61) && !check(22_242, NOW));
}

#[test]
fn headers_are_read_strictly() {
    assert_eq!(credentials(Some("Nostr abc")), Ok("abc"));
    assert_eq!(
        credentials(Some("nostr  abc ")),
        Ok("abc"),
        "schemes have no case"
    );
    for missing in [
        None,
        Some(""),
        Some("Nostr"),
        Some("Bearer abc"),
        Some("Nostrabc"),
    ] {
        assert_eq!(
            credentials(missing).unwrap_err().to_string(),
            "missing Nostr auth"
        );
    }
    let event = signed(kinds::HTTP_AUTH, NOW, &[], "");
    assert_eq!(read_http_auth(event.to_json().as_bytes()), Ok(event));
    assert_eq!(
        read_http_auth(b"\xff").unwrap_err().to_string(),
        "invalid UTF-8 in Nostr auth"
    );
    assert_eq!(
        read_http_auth(b"{}").unwrap_err().to_string(),
        "invalid NIP-98 event JSON"
    );
    assert_eq!(
        HttpAuthProblem::Base64.to_string(),
        "invalid base64 in Nostr auth"
    );
    let forged = HttpAuthProblem::Failed(EventError::BadSignature.into());
    assert_eq!(
        forged.to_string(),
        format!("{FAILED}invalid schnorr signature")
    );
}
