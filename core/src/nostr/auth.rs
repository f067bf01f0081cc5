//! Proof of identity on a connection (NIP-42): what the signed event has to say. Signatures are checked before, bans and
//! memberships after; neither belongs here.

use super::kinds::AUTH;
use super::{Event, Kind, PubKey, WebUrl};
use crate::ids::UnixSeconds;
use crate::limits::AUTH_WINDOW_SECS;

/// Why an AUTH event proves nothing. The text carries its prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AuthProblem {
    /// Another kind than 22242.
    #[error("auth-required: verification failed: kind must be {AUTH}, got {0}")]
    Kind(Kind),
    /// Too far from the relay's clock.
    #[error(
        "auth-required: verification failed: created_at must be within {AUTH_WINDOW_SECS} s of {now}, got {created_at}"
    )]
    Window {
        /// The relay's clock.
        now: UnixSeconds,
        /// The event's.
        created_at: UnixSeconds,
    },
    /// A tag that has to be there once, with a value, is not.
    #[error("auth-required: verification failed: exactly one {0} tag is required")]
    Tag(&'static str),
    /// Not the challenge of this connection.
    #[error("auth-required: verification failed: challenge does not match")]
    Challenge,
    /// Not the URL of this connection.
    #[error("auth-required: verification failed: relay must be {expected}, got {got}")]
    Relay {
        /// The URL under the Host of this connection.
        expected: WebUrl,
        /// What the event names, cut.
        got: String,
    },
}

/// The key that `event` proves on a connection with this `challenge`, opened at this URL.
///
/// The event's id and signature must have been verified. URLs are compared by scheme, host, port and path; one final slash
/// does not count.
///
/// # Errors
/// [`AuthProblem`], the first in the order of its variants.
pub fn check_auth(
    event: &Event,
    challenge: &str,
    relay: &WebUrl,
    now_wall: UnixSeconds,
) -> Result<PubKey, AuthProblem> {
    if event.kind != AUTH {
        return Err(AuthProblem::Kind(event.kind));
    }
    if event.created_at.abs_diff(now_wall) > AUTH_WINDOW_SECS {
        return Err(AuthProblem::Window {
            now: now_wall,
            created_at: event.created_at,
        });
    }
    let named_challenge = event
        .only_value("challenge")
        .ok_or(AuthProblem::Tag("challenge"))?;
    let named_relay = event.only_value("relay").ok_or(AuthProblem::Tag("relay"))?;
    if named_challenge != challenge {
        return Err(AuthProblem::Challenge);
    }
    if !named_relay
        .parse()
        .is_ok_and(|named: WebUrl| named.equals_but_slash(relay))
    {
        return Err(AuthProblem::Relay {
            expected: relay.clone(),
            got: super::json::echo(named_relay),
        });
    }
    Ok(event.pubkey)
}
