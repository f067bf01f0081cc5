//! Channels: their stored state, who may read and write them, and the commands that change them.
//!
//! What belongs here: types, visibility, roles, permission questions, decisions for the group commands (kinds 9000-9022) and
//! the events the relay signs about a channel. What must not: how rows are found (that is the read plan of `scope`), and
//! anything about artifacts.

mod command;
mod decide;
mod members;
mod removal;
mod settings;
pub mod state;

pub use command::{Action, Command, Settings, derived_channel_id};
pub use decide::{decide, plan_into};

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::ids::{ChannelId, Position, UnixSeconds};
use crate::nostr::PubKey;

/// What kind of place a channel is. It never changes after creation (CL-NTC-3).
///
/// `Later` stands for a type this release does not know: a store that was written by a later release may hold such rows, and
/// every read that does not name such a channel leaves it out (CL-SYS-6).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelType {
    /// A chat.
    Stream,
    /// Posts with replies.
    Forum,
    /// A direct conversation.
    Dm,
    /// A workflow.
    Workflow,
    /// A group that exists only to control who reads some data (CL-SYS-1).
    System,
    /// A type of a later release, by its stored name.
    Later(String),
}

impl ChannelType {
    /// The stored and published name.
    pub fn as_str(&self) -> &str {
        match self {
            ChannelType::Stream => "stream",
            ChannelType::Forum => "forum",
            ChannelType::Dm => "dm",
            ChannelType::Workflow => "workflow",
            ChannelType::System => "system",
            ChannelType::Later(name) => name,
        }
    }

    /// The type with this stored name; an unknown name is a later type.
    pub fn from_stored(name: &str) -> ChannelType {
        match name {
            "stream" => ChannelType::Stream,
            "forum" => ChannelType::Forum,
            "dm" => ChannelType::Dm,
            "workflow" => ChannelType::Workflow,
            "system" => ChannelType::System,
            other => ChannelType::Later(other.to_owned()),
        }
    }

    /// One of the four types that every client knew before system channels; the list is frozen (CL-SYS-5, CL-NTC-7).
    pub fn is_legacy(&self) -> bool {
        is_legacy_type_name(self.as_str())
    }
}

/// Whether a type name is on the frozen legacy list (CL-SYS-6, CL-NTC-7).
pub fn is_legacy_type_name(name: &str) -> bool {
    matches!(name, "stream" | "forum" | "dm" | "workflow")
}

/// The legacy type names, in the order of their names.
pub const LEGACY_TYPE_NAMES: [&str; 4] = ["dm", "forum", "stream", "workflow"];

/// Who may read without membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Visibility {
    /// Everyone the relay admits.
    Open,
    /// Active members only.
    Private,
}

impl Visibility {
    /// The stored and published name.
    pub fn as_str(self) -> &'static str {
        match self {
            Visibility::Open => "open",
            Visibility::Private => "private",
        }
    }
}

impl FromStr for Visibility {
    type Err = ();
    fn from_str(text: &str) -> Result<Visibility, ()> {
        match text {
            "open" => Ok(Visibility::Open),
            "private" => Ok(Visibility::Private),
            _ => Err(()),
        }
    }
}

/// What a member may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Everything, deletion of the channel included.
    Owner,
    /// Edits metadata, manages members, removes messages.
    Admin,
    /// Reads and writes.
    Member,
    /// Reads and writes, and is shown as a program.
    Bot,
    /// Reads only.
    Guest,
}

impl Role {
    /// The stored and published name.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Owner => "owner",
            Role::Admin => "admin",
            Role::Member => "member",
            Role::Bot => "bot",
            Role::Guest => "guest",
        }
    }

    /// Owner or admin.
    pub fn is_elevated(self) -> bool {
        matches!(self, Role::Owner | Role::Admin)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = ();
    fn from_str(text: &str) -> Result<Role, ()> {
        match text {
            "owner" => Ok(Role::Owner),
            "admin" => Ok(Role::Admin),
            "member" => Ok(Role::Member),
            "bot" => Ok(Role::Bot),
            "guest" => Ok(Role::Guest),
            _ => Err(()),
        }
    }
}

/// The stored state of one channel. Deleted channels stay stored, so that their ids stay used and reads stay refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Channel {
    /// Its id.
    pub id: ChannelId,
    /// Its type.
    pub channel_type: ChannelType,
    /// Who may read without membership.
    pub visibility: Visibility,
    /// An open channel that only members read without naming it (CL-UNL-1).
    pub unlisted: bool,
    /// Display name, without a leading `#`.
    pub name: String,
    /// Description; empty when unset.
    pub about: String,
    /// Current topic; empty when unset.
    pub topic: String,
    /// Purpose; empty when unset.
    pub purpose: String,
    /// The key that signed the 9007 (CL-ID-6); none only for rows without a record (H31).
    pub creator: Option<PubKey>,
    /// Creation time (CL-ID-10).
    pub created_at: UnixSeconds,
    /// Refuses writes while true; reads go on (AR-LIFE-1, AR-LIFE-2).
    pub archived: bool,
    /// Refuses everything (AR-LIFE-5, AR-LIFE-6).
    pub deleted: bool,
    /// Position of the last change that altered what a nonmember or everyone may read: creation, visibility, deletion.
    pub access_stamp: Position,
}

/// One active member of a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// When the membership began, in microseconds of the database clock; rosters are ordered by it, then by key.
    pub joined_at_us: u64,
    /// The member's key.
    pub pubkey: PubKey,
    /// What the member may do.
    pub role: Role,
    /// Position of the change that began this membership.
    pub access_stamp: Position,
}

impl Channel {
    /// Whether a reader with this role (none: no active membership) may read the channel at all (AR-ACC-1). Whether a read
    /// that does not name the channel reaches it is the read scope's question.
    pub fn readable_by(&self, role: Option<Role>) -> bool {
        !self.deleted && (role.is_some() || self.visibility == Visibility::Open)
    }

    /// Whether a principal with this role may post an ordinary message, the archive aside: any active role but guest, or no
    /// membership in an open channel (AR-ACC-7, AR-ACC-9). Guests are read-only.
    pub fn writable_by(&self, role: Option<Role>) -> bool {
        !self.deleted
            && match role {
                Some(Role::Guest) => false,
                Some(_) => true,
                None => self.visibility == Visibility::Open,
            }
    }
}

/// Channel ids in a defined order.
pub type ChannelIds = BTreeSet<ChannelId>;

#[cfg(test)]
mod tests;
