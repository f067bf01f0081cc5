//! The gates that every write passes: who may write at all, who may write in a channel, when, and how much. One function per
//! gate, so that messages, commands and artifact revisions are refused with the same words (AR-ACC-7, AR-ACC-8, H18).
//!
//! What an event means does not belong here.

use super::class::{self, Class};
use super::{ChannelView, Policy, Profile, Rejection, Submission, View};
use crate::channel::Role;
use crate::ids::ChannelId;
use crate::limits;
use crate::nostr::Event;

/// The scope of ordinary writes (AR-ACC-10).
pub const SCOPE_MESSAGES_WRITE: &str = "messages:write";

/// The refusal of a channel that does not exist, is deleted, is closed to the sender or only read by the sender: one text for
/// all, so that it discloses none of these (B13, AR-ACC-18). Over HTTP it is a 400 like every refusal of an event's content:
/// clients of this protocol family expect 403 only where the key itself is refused.
pub fn not_a_member() -> Rejection {
    Rejection::Invalid("restricted: not a channel member".to_owned())
}

/// The refusal of a write in an archived channel (AR-LIFE-1).
pub fn archived() -> Rejection {
    Rejection::Invalid("invalid: channel is archived".to_owned())
}

/// Whether the author may write at all: holds the scope, is not banned and not timed out, judged by the database clock.
///
/// # Errors
/// The refusal, in this order.
pub fn standing(view: &View, scope: &str) -> Result<(), Rejection> {
    if view.standing.missing_scopes.contains(scope) {
        return Err(Rejection::Denied(format!(
            "restricted: insufficient scope (need {scope})"
        )));
    }
    if view.standing.banned {
        return Err(Rejection::Denied(
            "blocked: you are banned from this community".to_owned(),
        ));
    }
    match view.standing.timed_out_until {
        Some(until) if view.clock_secs() < until => Err(Rejection::Denied(format!(
            "restricted: you are timed out until {until}"
        ))),
        _ => Ok(()),
    }
}

/// The channel, if the author may know that it exists: a member, or an open channel. Deleted channels are as if they had never
/// been.
///
/// # Errors
/// [`not_a_member`].
pub fn readable(view: &View, channel: ChannelId) -> Result<&ChannelView, Rejection> {
    view.channels
        .get(&channel)
        .filter(|found| found.channel.readable_by(found.role))
        .ok_or_else(not_a_member)
}

/// Whether the author may post a message in the channel, which is also who may write artifacts there: the standing, then the
/// channel (members but guests; anyone in an open channel), then the archive.
///
/// # Errors
/// The refusal, in this order (AR-ACC-7, AR-ACC-9, AR-LIFE-1, AR-LIFE-5).
pub fn write_gate(view: &View, channel: ChannelId) -> Result<&ChannelView, Rejection> {
    standing(view, SCOPE_MESSAGES_WRITE)?;
    let found = readable(view, channel)?;
    if found.role == Some(Role::Guest) {
        return Err(not_a_member());
    }
    if found.channel.archived {
        return Err(archived());
    }
    Ok(found)
}

/// Whether the author's time is near the relay's: [`limits::EVENT_WINDOW_SECS`] both ways. In the open profile stored events
/// may be of any age, so that old notes can be imported; commands, artifact revisions and ephemeral events may not.
///
/// # Errors
/// The refusal.
pub fn window(submission: &Submission, policy: &Policy) -> Result<(), Rejection> {
    let event = &submission.event;
    let too_new = event.created_at
        > submission
            .received_at
            .saturating_add(limits::EVENT_WINDOW_SECS);
    let too_old = event.created_at
        < submission
            .received_at
            .saturating_sub(limits::EVENT_WINDOW_SECS);
    let may_be_old = policy.profile == Profile::Open
        && class::class_of(event.kind, policy.profile) == Class::Ordinary;
    if too_new || (too_old && !may_be_old) {
        return Err(Rejection::Invalid(
            "invalid: event timestamp too far from server time".to_owned(),
        ));
    }
    Ok(())
}

/// Whether the content fits into [`limits::CONTENT_BYTES_MAX`].
///
/// # Errors
/// The refusal.
pub fn content_size(event: &Event) -> Result<(), Rejection> {
    let (bytes, most) = (event.content.len(), limits::CONTENT_BYTES_MAX);
    if bytes > most {
        return Err(Rejection::Invalid(format!(
            "invalid: content exceeds maximum size of {most} bytes (got {bytes})"
        )));
    }
    Ok(())
}

/// Where an event asks to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In no channel.
    Global,
    /// In this channel.
    Channel(ChannelId),
    /// In a channel that cannot exist: its `h` is no canonical UUID.
    Nowhere,
}

impl Place {
    /// The channel whose row a decision needs.
    pub fn channel(self) -> Option<ChannelId> {
        match self {
            Place::Channel(channel) => Some(channel),
            Place::Global | Place::Nowhere => None,
        }
    }
}

/// The place that the event's `h` tags name.
///
/// # Errors
/// An `h` tag without a value, or more than one `h` tag.
pub fn place(event: &Event) -> Result<Place, Rejection> {
    let mut tags = event.tags_named("h");
    let Some(tag) = tags.next() else {
        return Ok(Place::Global);
    };
    if tags.next().is_some() {
        return Err(Rejection::Invalid(
            "invalid: an event belongs to one channel: more than one h tag".to_owned(),
        ));
    }
    let Some(value) = tag.get(1) else {
        return Err(missing_channel());
    };
    Ok(value.parse().map_or(Place::Nowhere, Place::Channel))
}

/// The refusal of a channel event without a channel.
pub(crate) fn missing_channel() -> Rejection {
    Rejection::Invalid("invalid: channel-scoped events must include an h tag".to_owned())
}
