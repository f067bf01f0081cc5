//! What a store keeps of an event's tags so that a read plan can be answered without reading the event again.
//!
//! What belongs here: which tags are index terms, and from when an event is expired. What must not: how terms are compared
//! with a plan (that is `eval`), and how a store keeps them.

use std::collections::BTreeSet;

use crate::ids::UnixSeconds;
use crate::nostr::event::CREATED_AT_MAX;
use crate::nostr::{Event, kinds};

/// The index terms of an event: (tag name, first value) in tag order, each pair once (S03).
///
/// Names are single ASCII letters; on 45010 and 45011 every name counts (AR-CUR-10). A tag without a value has no term, and
/// later values of a tag have none (AR-CUR-13, S04). Names and values stand as they are: case counts and nothing is taken for
/// hex (CL-FIND-9, B05). `h` is among the names, for rows without channel.
pub fn index_terms(event: &Event) -> Vec<(String, String)> {
    let every_name = matches!(event.kind, kinds::ARTIFACT | kinds::ARTIFACT_MOVED);
    let mut seen = BTreeSet::new();
    event
        .tags
        .iter()
        .filter_map(|tag| match tag.as_slice() {
            [name, value, ..] if every_name || is_letter(name) => Some((name, value)),
            _ => None,
        })
        .filter(|term| seen.insert(*term))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn is_letter(name: &str) -> bool {
    matches!(name.as_bytes(), [letter] if letter.is_ascii_alphabetic())
}

/// The time from which an event is not served (NIP-40): the first `expiration` value, if it is a decimal number of seconds
/// up to [`CREATED_AT_MAX`]; any other value is a time that never comes.
///
/// On artifact revisions and removals, on all that the relay signs and on group commands (9000-9022) the tag means nothing:
/// their lifetime is a matter of their own rules, and an expiring command would leave its effect without a record.
pub fn expires_at(event: &Event) -> Option<UnixSeconds> {
    let lasting = event.kind == kinds::ARTIFACT
        || kinds::is_relay_signed(event.kind)
        || matches!(event.kind, kinds::GROUP_PUT_USER..=kinds::GROUP_LEAVE);
    if lasting {
        return None;
    }
    let value = event.first_value("expiration")?;
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value
        .parse()
        .ok()
        .filter(|at| digits && *at <= CREATED_AT_MAX)
}
