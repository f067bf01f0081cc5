//! The one table of kinds: what the relay does with each, and which of them a workspace takes. Checks of tags and senders do
//! not belong here.

use super::Profile;
use crate::nostr::{Kind, kinds};

/// What becomes of an event by its kind alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// A proof of identity for a connection or a request; as a published event it would hand the proof to others.
    Proof,
    /// A membership notice: only the relay signs it.
    Notice,
    /// Any other kind that only the relay signs.
    RelayOnly,
    /// A command that the relay has no meaning for; to store it would let its sender believe it was obeyed.
    NotSupported,
    /// A channel command.
    Command,
    /// An artifact revision.
    Artifact,
    /// Passed on, never stored.
    Ephemeral,
    /// Stored.
    Ordinary,
    /// Not in the table of the workspace profile.
    Unknown,
}

/// The class of a kind in a profile.
pub(crate) fn class_of(kind: Kind, profile: Profile) -> Class {
    match kind {
        kinds::AUTH | kinds::HTTP_AUTH => Class::Proof,
        kinds::MEMBER_ADDED | kinds::MEMBER_REMOVED => Class::Notice,
        kind if kinds::is_relay_signed(kind) => Class::RelayOnly,
        kinds::ARTIFACT => Class::Artifact,
        kind if is_command(kind) => Class::Command,
        kinds::RELAY_ADD_MEMBER..=kinds::RELAY_SET_ICON
        | kinds::BAN..=kinds::RESOLVE_REPORT
        | kinds::DM_OPEN..=kinds::DM_HIDE
        | kinds::RELAY_LEAVE => Class::NotSupported,
        kind if profile == Profile::Workspace && !workspace_takes(kind) => Class::Unknown,
        // The moderation events of NIP-29 that are no command here.
        kinds::GROUP_PUT_USER..=9020 => Class::NotSupported,
        kind if kinds::is_ephemeral(kind) => Class::Ephemeral,
        _ => Class::Ordinary,
    }
}

/// The channel commands (NIP-29).
pub(crate) fn is_command(kind: Kind) -> bool {
    matches!(
        kind,
        kinds::GROUP_PUT_USER
            | kinds::GROUP_REMOVE_USER
            | kinds::GROUP_EDIT
            | kinds::GROUP_DELETE_EVENT
            | kinds::GROUP_CREATE
            | kinds::GROUP_DELETE
            | kinds::GROUP_JOIN
            | kinds::GROUP_LEAVE
    )
}

/// Kinds that a workspace takes only with an `h` tag, besides the commands.
pub(crate) fn needs_channel(kind: Kind) -> bool {
    matches!(
        kind,
        kinds::CHAT
            | kinds::STREAM_MESSAGE
            | kinds::STREAM_MESSAGE_EDIT
            | kinds::FORUM_POST
            | kinds::FORUM_COMMENT
    )
}

/// The kinds of the workspace profile besides commands and artifacts.
fn workspace_takes(kind: Kind) -> bool {
    matches!(
        kind,
        kinds::METADATA
            | kinds::CONTACTS
            | kinds::DELETION
            | kinds::REACTION
            | kinds::GIFT_WRAP
            | 10_000..=19_999
            | 20_000..=29_999
            | 30_000..=38_999
    ) || needs_channel(kind)
}
