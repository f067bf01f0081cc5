//! The one way of a write: what a submitted event needs to know (`plan`), what becomes of it (`decide`), and what must be
//! written (`Write`).
//!
//! What belongs here: the order of checks on a write, the view a store reads for it, and the closed list of writes a store
//! applies. What must not: SQL, signature checks, knowledge of sockets. Channel commands are decided in `channel`, artifact
//! revisions in `artifact`; this room calls them.

mod admit;
mod class;
mod decide;
mod deletion;
pub mod gate;
mod list;
mod message;
#[cfg(test)]
pub(crate) mod model;
mod plan;
mod view;
mod write;

pub use admit::admit;
pub(crate) use class::is_command;
pub use decide::decide;
pub(crate) use list::WriteList;
pub(crate) use message::deleted;
pub use plan::{Locks, Plan, plan};
pub use view::{
    AnchorFacts, ChannelView, Head, Known, SlotFacts, StateStamps, TargetFacts, View, ViewSpec,
};
pub use write::{
    Change, Decision, LedgerRow, Rejection, RelayKey, Slot, StoredEvent, TombstoneTarget,
    WithheldCause, Write,
};

use std::collections::BTreeSet;

use crate::ids::{CommunityId, UnixSeconds};
use crate::nostr::{Event, PubKey};

/// Which events the relay takes (profiles `workspace` and `open`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// Every connection authenticates; one table of kinds.
    Workspace,
    /// Anonymous readers and writers of kinds without a channel; any kind but relay-signed ones.
    Open,
}

/// What a principal may do, as far as the relay restricts it beyond channels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Banned from the community.
    pub banned: bool,
    /// May not write before this time.
    pub timed_out_until: Option<UnixSeconds>,
    /// Scope names the principal lacks, for example `messages:write`; empty when it holds all (AR-ACC-10).
    pub missing_scopes: BTreeSet<String>,
}

impl Standing {
    /// A principal without restrictions.
    pub fn fine() -> Standing {
        Standing {
            banned: false,
            timed_out_until: None,
            missing_scopes: BTreeSet::new(),
        }
    }
}

/// One event on its way into the store, with everything about its sender that the decision may use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Submission {
    /// The tenant, bound from the request's Host.
    pub community: CommunityId,
    /// The event; its id and signature are already checked.
    pub event: Event,
    /// The keys the sender has authenticated; empty for an anonymous sender of the open profile.
    pub keys: BTreeSet<PubKey>,
    /// Wall clock when the event arrived, for the window of created_at.
    pub received_at: UnixSeconds,
}

/// What of the relay's configuration decides about writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Which kinds are taken.
    pub profile: Profile,
    /// Signs channel state, notices and move markers.
    pub relay_key: RelayKey,
}

#[cfg(test)]
mod tests;
