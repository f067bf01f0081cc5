//! Proof of identity on an HTTP request (NIP-98): reading the header's event and what it has to say. Signatures, the replay
//! guard and quotas do not belong here.

use super::kinds::HTTP_AUTH;
use super::{Event, Kind, PubKey, WebUrl, hex, json};
use crate::ids::UnixSeconds;
use crate::limits::AUTH_WINDOW_SECS;

/// Why a request proves nothing: the `error` text of its 401.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HttpAuthProblem {
    /// No `Authorization` header of the scheme `Nostr`.
    #[error("missing Nostr auth")]
    Missing,
    /// The credentials are no standard base64.
    #[error("invalid base64 in Nostr auth")]
    Base64,
    /// The decoded credentials are no UTF-8.
    #[error("invalid UTF-8 in Nostr auth")]
    Utf8,
    /// The decoded credentials are no event.
    #[error("invalid NIP-98 event JSON")]
    Json,
    /// The event carries no `payload`, and this request needs one.
    #[error("NIP-98: missing payload tag")]
    PayloadMissing,
    /// The event does not hold for this request.
    #[error("NIP-98: NIP-98 HTTP Auth verification failed: {0}")]
    Failed(#[from] HttpAuthFailure),
}

/// What about a NIP-98 event does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HttpAuthFailure {
    /// The id or the signature is wrong; which, as [`Event::verify`] says.
    #[error("{0}")]
    Event(#[from] super::EventError),
    /// Another kind than 27235.
    #[error("kind must be {HTTP_AUTH}, got {0}")]
    Kind(Kind),
    /// Too far from the relay's clock.
    #[error("created_at must be within {AUTH_WINDOW_SECS} s of {now}, got {created_at}")]
    Window {
        /// The relay's clock.
        now: UnixSeconds,
        /// The event's.
        created_at: UnixSeconds,
    },
    /// A tag that has to be there once, with a value, is not.
    #[error("exactly one {0} tag is required")]
    Tag(&'static str),
    /// Not the URL of this request.
    #[error("u must be {expected}, got {got}")]
    Url {
        /// The URL of this request.
        expected: WebUrl,
        /// What the event names, cut.
        got: String,
    },
    /// Not the method of this request.
    #[error("method must be {expected}, got {got}")]
    Method {
        /// The method of this request.
        expected: String,
        /// What the event names, cut.
        got: String,
    },
    /// Not the hash of this request's body.
    #[error("payload does not match the body")]
    Payload,
}

/// The base64 text of an `Authorization` header's value.
///
/// # Errors
/// [`HttpAuthProblem::Missing`] if there is no header or it is of another scheme.
pub fn credentials(authorization: Option<&str>) -> Result<&str, HttpAuthProblem> {
    let (scheme, rest) = authorization
        .and_then(|value| value.split_once(' '))
        .ok_or(HttpAuthProblem::Missing)?;
    if scheme.eq_ignore_ascii_case("Nostr") {
        Ok(rest.trim_matches(' '))
    } else {
        Err(HttpAuthProblem::Missing)
    }
}

/// The event in decoded credentials.
///
/// # Errors
/// [`HttpAuthProblem::Utf8`] or [`HttpAuthProblem::Json`].
pub fn read_http_auth(decoded: &[u8]) -> Result<Event, HttpAuthProblem> {
    let text = std::str::from_utf8(decoded).map_err(|_| HttpAuthProblem::Utf8)?;
    Event::from_json(text).map_err(|_| HttpAuthProblem::Json)
}

/// The key that `event` proves for a request with this method, URL and body.
///
/// The event's id and signature must have been verified. `url` comes from [`WebUrl::http`] on the bound host; scheme, host,
/// port, path and query all count. The method is compared without regard to case. `payload` is judged where it is present;
/// requests that need it call [`require_payload`] as well.
///
/// # Errors
/// [`HttpAuthProblem::Failed`]: kind, time, URL, method and payload are judged in this order.
pub fn check_http_auth(
    event: &Event,
    method: &str,
    url: &WebUrl,
    body_sha256: &[u8; 32],
    now_wall: UnixSeconds,
) -> Result<PubKey, HttpAuthProblem> {
    if event.kind != HTTP_AUTH {
        return Err(HttpAuthFailure::Kind(event.kind).into());
    }
    if event.created_at.abs_diff(now_wall) > AUTH_WINDOW_SECS {
        return Err(HttpAuthFailure::Window {
            now: now_wall,
            created_at: event.created_at,
        }
        .into());
    }
    let named_url = event.only_value("u").ok_or(HttpAuthFailure::Tag("u"))?;
    let named_method = event
        .only_value("method")
        .ok_or(HttpAuthFailure::Tag("method"))?;
    if !named_url.parse().is_ok_and(|named: WebUrl| named == *url) {
        return Err(HttpAuthFailure::Url {
            expected: url.clone(),
            got: json::echo(named_url),
        }
        .into());
    }
    if !named_method.eq_ignore_ascii_case(method) {
        return Err(HttpAuthFailure::Method {
            expected: method.to_owned(),
            got: json::echo(named_method),
        }
        .into());
    }
    if event.tags_named("payload").next().is_some() {
        let payload = event
            .only_value("payload")
            .ok_or(HttpAuthFailure::Tag("payload"))?;
        if hex::decode(payload) != Some(*body_sha256) {
            return Err(HttpAuthFailure::Payload.into());
        }
    }
    Ok(event.pubkey)
}

/// Refuses an event without a `payload` tag (CL-SNAP, CL-PUB: the body must be bound).
///
/// # Errors
/// [`HttpAuthProblem::PayloadMissing`].
pub fn require_payload(event: &Event) -> Result<(), HttpAuthProblem> {
    event
        .tags_named("payload")
        .next()
        .map(|_| ())
        .ok_or(HttpAuthProblem::PayloadMissing)
}
