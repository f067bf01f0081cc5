//! Removal of one event from a channel by its author or a moderator (9005). For an artifact revision this is redaction
//! (AR-MOD-2). Deletion requests of kind 5 do not belong here.

use super::command::invalid;
use super::decide::{Done, Script};
use crate::accept::{Change, Rejection, gate, is_command};
use crate::channel::Role;
use crate::ids::ChannelId;
use crate::nostr::{EventId, kinds};
use crate::scope::Audience;

/// Kind 9005. The sender may post in the channel, and is the target's author or an owner or admin.
///
/// A target that is stored elsewhere answers like one that does not exist: its channel may be one that the sender cannot read
/// (AR-ACC-18). The stored command names a redacted revision, so plain members do not see it (H22).
pub(super) fn remove(
    script: &mut Script<'_>,
    channel: ChannelId,
    target: EventId,
) -> Result<Done, Rejection> {
    let found = gate::write_gate(script.view, channel)?;
    let facts = match script.view.targets.get(&target) {
        Some(facts) if facts.channel == Some(channel) && !facts.withheld => facts,
        _ => return Err(invalid("target event not found")),
    };
    if kinds::is_relay_signed(facts.kind) || is_command(facts.kind) {
        return Err(invalid("this kind of event cannot be removed"));
    }
    if facts.author != script.actor() && !found.role.is_some_and(Role::is_elevated) {
        return Err(invalid("must be event author or channel owner/admin"));
    }
    let (audience, change) = match facts.kind {
        kinds::ARTIFACT => (
            Audience::Moderators,
            Change::Redaction {
                current: facts.current,
            },
        ),
        _ => (Audience::Readers, Change::Withheld),
    };
    script.store_command(channel, audience);
    script.remove(facts, change);
    Ok(Done::Changed)
}
