//! The checks of a write that need no store, in the order that clients of this protocol family know: kind, author, time, size,
//! tags. Whatever depends on a channel or on stored events does not belong here.

use super::class::{Class, class_of, needs_channel};
use super::deletion::DeletionTargets;
use super::gate::{self, Place};
use super::{Policy, Profile, Rejection, Submission};
use crate::channel::Command;
use crate::limits;
use crate::nostr::{Event, kinds};
use crate::scope::{expires_at, gate_of};

/// Decides whether a submission may go to the store at all.
///
/// Of an artifact revision only the author is checked: a resubmission succeeds before its time, its envelope or its channel
/// are looked at (H18, H19), so the rest follows in [`super::decide`].
///
/// # Errors
/// The refusal: by kind; then author and NIP-70; then the window of created_at, content size and number of tags; then what
/// the tags ask for and NIP-40.
pub fn admit(submission: &Submission, policy: &Policy) -> Result<(), Rejection> {
    let event = &submission.event;
    let class = class_of(event.kind, policy.profile);
    check_kind(event, class)?;
    check_author(submission, class, policy.profile)?;
    if class == Class::Artifact {
        return Ok(());
    }
    gate::window(submission, policy)?;
    gate::content_size(event)?;
    if event.tags.len() > limits::EVENT_TAGS_MAX {
        return Err(invalid("too many tags"));
    }
    check_tags(event, class, policy.profile)?;
    match expires_at(event) {
        Some(until) if until <= submission.received_at => Err(invalid("event has expired")),
        _ => Ok(()),
    }
}

fn invalid(reason: &str) -> Rejection {
    Rejection::Invalid(format!("invalid: {reason}"))
}

fn check_kind(event: &Event, class: Class) -> Result<(), Rejection> {
    let text = match class {
        Class::Proof => "invalid: AUTH events cannot be submitted".to_owned(),
        Class::Notice => "invalid: membership notifications are relay-signed only".to_owned(),
        Class::RelayOnly => "restricted: relay-only kind".to_owned(),
        Class::NotSupported => format!("invalid: not supported: kind {}", event.kind),
        Class::Unknown => "restricted: unknown event kind".to_owned(),
        Class::Command | Class::Artifact | Class::Ephemeral | Class::Ordinary => return Ok(()),
    };
    Err(Rejection::Invalid(text))
}

/// The author is one of the sender's keys. Two exceptions: a gift wrap is signed by a key made for it alone, so any
/// authenticated sender brings it; and in the open profile everyone brings events without a channel that are neither
/// commands, artifacts nor private. NIP-70's `-` tag takes both exceptions back.
fn check_author(submission: &Submission, class: Class, profile: Profile) -> Result<(), Rejection> {
    let event = &submission.event;
    if submission.keys.contains(&event.pubkey) {
        return Ok(());
    }
    let anonymous = submission.keys.is_empty();
    let public = !matches!(class, Class::Command | Class::Artifact)
        && gate_of(event.kind).is_none()
        && event.tags_named("h").next().is_none();
    let by_others = if profile == Profile::Open && public {
        true
    } else {
        event.kind == kinds::GIFT_WRAP && !anonymous
    };
    if by_others && event.tags_named("-").next().is_none() {
        return Ok(());
    }
    Err(Rejection::Denied(match (by_others, anonymous) {
        (true, true) => "auth-required: this event may only be published by its author".to_owned(),
        (true, false) => "restricted: this event may only be published by its author".to_owned(),
        (false, true) => "auth-required: not authenticated".to_owned(),
        (false, false) => "invalid: event pubkey does not match authenticated identity".to_owned(),
    }))
}

/// What the tags alone decide: the one channel, and that a command or a deletion can be understood.
fn check_tags(event: &Event, class: Class, profile: Profile) -> Result<(), Rejection> {
    if class == Class::Command {
        return Command::parse(event).map(|_| ());
    }
    let place = gate::place(event)?;
    if place == Place::Global && profile == Profile::Workspace && needs_channel(event.kind) {
        return Err(gate::missing_channel());
    }
    if event.kind == kinds::DELETION {
        return DeletionTargets::parse(event).map(|_| ());
    }
    Ok(())
}
