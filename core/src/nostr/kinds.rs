//! The kinds this relay gives a meaning to, and the kind ranges of NIP-01. Decisions about events do not belong here.

use super::Kind;

/// Profile of a key (NIP-01).
pub const METADATA: Kind = 0;
/// Text note (NIP-01).
pub const TEXT: Kind = 1;
/// Contact list.
pub const CONTACTS: Kind = 3;
/// Old direct message.
pub const OLD_DIRECT_MESSAGE: Kind = 4;
/// Deletion request (NIP-09).
pub const DELETION: Kind = 5;
/// Reaction.
pub const REACTION: Kind = 7;
/// Chat message: may be an artifact's root, and the measure of who may write in a channel.
pub const CHAT: Kind = 9;
/// Gift wrap; only the key in `p` reads it.
pub const GIFT_WRAP: Kind = 1059;

/// Adds a member or changes a role (NIP-29).
pub const GROUP_PUT_USER: Kind = 9000;
/// Removes a member (NIP-29).
pub const GROUP_REMOVE_USER: Kind = 9001;
/// Edits a channel (NIP-29).
pub const GROUP_EDIT: Kind = 9002;
/// Removes one event of a channel (NIP-29); redacts an artifact revision (AR-MOD-2).
pub const GROUP_DELETE_EVENT: Kind = 9005;
/// Creates a channel (NIP-29).
pub const GROUP_CREATE: Kind = 9007;
/// Deletes a channel (NIP-29).
pub const GROUP_DELETE: Kind = 9008;
/// Invites to a channel (NIP-29).
pub const GROUP_INVITE: Kind = 9009;
/// Asks to join a channel (NIP-29).
pub const GROUP_JOIN: Kind = 9021;
/// Leaves a channel (NIP-29).
pub const GROUP_LEAVE: Kind = 9022;

/// Adds a relay member.
pub const RELAY_ADD_MEMBER: Kind = 9030;
/// Removes a relay member.
pub const RELAY_REMOVE_MEMBER: Kind = 9031;
/// Changes a relay member's role.
pub const RELAY_CHANGE_ROLE: Kind = 9032;
/// Sets the community's icon.
pub const RELAY_SET_ICON: Kind = 9033;
/// Bans a key from the community.
pub const BAN: Kind = 9040;
/// Lifts a ban.
pub const UNBAN: Kind = 9041;
/// Keeps a key from writing until a time.
pub const TIMEOUT: Kind = 9042;
/// Lifts a timeout.
pub const UNTIMEOUT: Kind = 9043;
/// Resolves a report.
pub const RESOLVE_REPORT: Kind = 9044;
/// The relay's member list, relay-signed.
pub const RELAY_MEMBERS: Kind = 13534;
/// Asks to leave the relay.
pub const RELAY_LEAVE: Kind = 28936;

/// Proof of identity on a connection (NIP-42).
pub const AUTH: Kind = 22242;
/// Proof of identity on an HTTP request (NIP-98).
pub const HTTP_AUTH: Kind = 27235;

/// A channel's metadata, relay-signed (NIP-29, NIP-CL).
pub const CHANNEL_METADATA: Kind = 39000;
/// A channel's owners and admins, relay-signed (NIP-29, NIP-CL).
pub const CHANNEL_ADMINS: Kind = 39001;
/// A channel's members, relay-signed (NIP-29, NIP-CL).
pub const CHANNEL_MEMBERS: Kind = 39002;
/// A channel's roles (NIP-29); names a channel by `d` like its neighbours (CL-SYS-14), never made by this relay.
pub const CHANNEL_ROLES: Kind = 39003;
/// The signer's own memberships, made on demand (NIP-CL).
pub const MEMBERSHIP_SNAPSHOT: Kind = 39008;
/// Another key's public memberships, made on demand (NIP-CL).
pub const MEMBERSHIP_PUBLIC: Kind = 39009;

/// Channel message that may be an artifact's root.
pub const STREAM_MESSAGE: Kind = 40002;
/// Edit of a channel message.
pub const STREAM_MESSAGE_EDIT: Kind = 40003;
/// System message of a channel, relay-signed.
pub const SYSTEM_MESSAGE: Kind = 40099;
/// Opens a direct message channel.
pub const DM_OPEN: Kind = 41010;
/// Opens a larger direct message channel.
pub const DM_ADD_MEMBER: Kind = 41011;
/// Hides a direct message channel from its sender.
pub const DM_HIDE: Kind = 41012;
/// A key became a member of a channel, relay-signed; only the key in `p` reads it (NIP-CL).
pub const MEMBER_ADDED: Kind = 44100;
/// A key ceased to be a member of a channel, relay-signed; only the key in `p` reads it (NIP-CL).
pub const MEMBER_REMOVED: Kind = 44101;

/// Forum post that may be an artifact's root.
pub const FORUM_POST: Kind = 45001;
/// Forum comment that may be an artifact's root.
pub const FORUM_COMMENT: Kind = 45003;
/// Artifact revision (NIP-AR, AR-ENV-1).
pub const ARTIFACT: Kind = 45010;
/// An artifact left a channel, relay-signed (NIP-AR, AR-MOVE-5).
pub const ARTIFACT_MOVED: Kind = 45011;

/// Kinds an artifact's `root` may name.
pub const ANCHORS: [Kind; 4] = [CHAT, STREAM_MESSAGE, FORUM_POST, FORUM_COMMENT];

/// Kinds that only the key in `p` reads: a filter that can match one must name nobody but its own reader in `#p`.
/// The three without a name of their own are Buzz's, for events this relay only stores.
pub const P_GATED: [Kind; 6] = [
    GIFT_WRAP,
    24_200,
    30_622,
    MEMBER_ADDED,
    MEMBER_REMOVED,
    44_200,
];

/// Whether only the newest event of a key and kind is kept (NIP-01).
pub const fn is_replaceable(kind: Kind) -> bool {
    matches!(kind, 0 | 3 | 10_000..=19_999)
}

/// Whether an event is passed on but not stored (NIP-01).
pub const fn is_ephemeral(kind: Kind) -> bool {
    matches!(kind, 20_000..=29_999)
}

/// Whether only the newest event of a key, kind and `d` is kept (NIP-01).
pub const fn is_addressable(kind: Kind) -> bool {
    matches!(kind, 30_000..=39_999)
}

/// Whether only the relay signs events of this kind. 39005 to 39007 are overlays of channel state, 30622 lists hidden direct
/// message channels, 40901 and 40902 are summaries: reserved, although this relay makes none.
pub const fn is_relay_signed(kind: Kind) -> bool {
    matches!(
        kind,
        CHANNEL_METADATA..=CHANNEL_ROLES
            | 39_005..=MEMBERSHIP_PUBLIC
            | MEMBER_ADDED
            | MEMBER_REMOVED
            | ARTIFACT_MOVED
            | RELAY_MEMBERS
            | SYSTEM_MESSAGE
            | 30_622
            | 40_901
            | 40_902
    )
}
