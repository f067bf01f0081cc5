//! What a commit changed. What belongs here: one variant per row of the ledger. What must not: which changes the rules allow.

use serde::{Deserialize, Serialize};

use super::RevisionOp;

/// One change of a commit. `pos` is its ledger position, unique in the history; positions need not follow the commits' order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A revision was accepted and is the head.
    Revision {
        /// Ledger position.
        pos: u64,
        /// The artifact.
        d: String,
        /// Id of the revision.
        rev: String,
        /// The revision it replaces.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prev: Option<String>,
        /// The operation.
        op: RevisionOp,
        /// The home.
        h: String,
        /// The artifact's type.
        #[serde(rename = "type")]
        artifact_type: String,
        /// Name and first value of every other tag.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tags: Vec<(String, String)>,
        /// The author's key.
        author: String,
        /// The conversation anchor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        root: Option<String>,
    },
    /// A move's 45011 was stored in the channel that the artifact left.
    MoveSource {
        /// Ledger position.
        pos: u64,
        /// The artifact.
        d: String,
        /// The channel that it left.
        h: String,
        /// Id of the 45011.
        marker: String,
        /// The revision that the move replaced.
        replaced: String,
    },
    /// A revision was redacted.
    Redaction {
        /// Ledger position.
        pos: u64,
        /// The revision.
        rev: String,
        /// The artifact.
        d: String,
        /// Whether it is the current one.
        current: bool,
    },
    /// A key's place in a channel changed.
    Membership {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// The key.
        key: String,
        /// Its role from here on; none when it is no member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    /// A channel's visibility changed.
    Visibility {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// Its visibility from here on.
        visibility: Visibility,
    },
    /// A channel was unlisted or listed.
    Unlisted {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// Whether it is unlisted.
        unlisted: bool,
    },
    /// A channel was archived or unarchived.
    Archive {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// Whether it is archived.
        archived: bool,
    },
    /// A channel was created. Its first members follow as `membership`.
    ChannelCreated {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// `stream`, `forum`, `dm`, `workflow`, `system`, or a later one.
        channel_type: String,
        /// Its visibility.
        visibility: Visibility,
        /// Whether it is unlisted.
        #[serde(default)]
        unlisted: bool,
    },
    /// A channel was deleted.
    ChannelDeleted {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
    },
    /// Any other stored event.
    Other {
        /// Ledger position.
        pos: u64,
        /// Id of the event.
        event: String,
    },
}

impl Change {
    /// The ledger position.
    pub fn pos(&self) -> u64 {
        match self {
            Change::Revision { pos, .. }
            | Change::MoveSource { pos, .. }
            | Change::Redaction { pos, .. }
            | Change::Membership { pos, .. }
            | Change::Visibility { pos, .. }
            | Change::Unlisted { pos, .. }
            | Change::Archive { pos, .. }
            | Change::ChannelCreated { pos, .. }
            | Change::ChannelDeleted { pos, .. }
            | Change::Other { pos, .. } => *pos,
        }
    }
}

/// Who can read a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Everybody the relay admits.
    Open,
    /// Its members.
    Private,
}
