//! What a decision may know: the view, and the description of it that a store reads. Values only.

use std::collections::{BTreeMap, BTreeSet};

use super::Standing;
use super::write::Slot;
use crate::channel::{Channel, Member, Role};
use crate::ids::{ArtifactId, ChannelId, Position, UnixSeconds};
use crate::nostr::{EventId, Kind, PubKey};

/// What a store reads for one submission, after the locks are held. Every part is read for the submission's community and,
/// where a membership is meant, for the event's author. How much is known of the event's own id, and whether its author deleted
/// that id or its slot in advance, is always read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ViewSpec {
    /// Channels whose row and author's membership are wanted.
    pub channels: BTreeSet<ChannelId>,
    /// The artifact whose head is wanted; its home's row and membership come with it.
    pub artifact: Option<ArtifactId>,
    /// The event wanted as a conversation anchor (AR-ID-21).
    pub anchor: Option<EventId>,
    /// Events that a deletion or removal names by id.
    pub targets: BTreeSet<EventId>,
    /// Replaceable or addressable slots that an `a` deletion names.
    pub target_slots: BTreeSet<Slot>,
    /// The slot the event itself would fill.
    pub slot: Option<Slot>,
    /// The channel whose active members are wanted, ordered by `joined_at_us`, then key.
    pub roster: Option<ChannelId>,
    /// The channel whose stored 39000-39002 are wanted.
    pub state: Option<ChannelId>,
    /// Recipients whose newest notice stamp is wanted.
    pub recipients: BTreeSet<PubKey>,
    /// Every member of `roster` may receive a notice: their stamps are wanted as well, and they are locked like the
    /// recipients of [`super::Locks`].
    pub roster_notices: bool,
    /// Most ledger positions the decision uses; with `roster_notices`, one more per roster member.
    pub positions: u32,
}

/// How much the store knows of the submitted event's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Known {
    /// Nothing.
    New,
    /// Accepted before and by this author: stored, superseded, withheld, or expired with only its ledger entry left (H19).
    Accepted,
}

/// One channel as the author meets it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelView {
    /// The stored row, deleted ones included.
    pub channel: Channel,
    /// The author's active role, if any.
    pub role: Option<Role>,
}

/// The acceptance state of one artifact; it holds what later checks compare, since a body may be withheld (H21).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// The current accepted revision.
    pub event: EventId,
    /// Its home channel.
    pub home: ChannelId,
    /// The artifact's immutable type.
    pub artifact_type: String,
    /// The conversation anchor, if any.
    pub root: Option<EventId>,
    /// The current revision is a deletion.
    pub deleted: bool,
    /// The current revision is redacted: the artifact is retired.
    pub redacted: bool,
}

/// What is known of an anchor candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnchorFacts {
    /// Its kind.
    pub kind: Kind,
    /// Its channel.
    pub channel: Option<ChannelId>,
    /// Deleted, redacted or expired.
    pub withheld: bool,
}

/// What is known of an event that a kind 5 or 9005 names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetFacts {
    /// Its id.
    pub id: EventId,
    /// Its author.
    pub author: PubKey,
    /// Its kind.
    pub kind: Kind,
    /// Its created_at.
    pub created_at: UnixSeconds,
    /// Its channel.
    pub channel: Option<ChannelId>,
    /// Already deleted, redacted or expired.
    pub withheld: bool,
    /// The artifact of which it is a revision (45010).
    pub artifact: Option<ArtifactId>,
    /// It is the current revision of that artifact.
    pub current: bool,
}

/// The event that fills a replaceable or addressable slot: neither superseded nor deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotFacts {
    /// The stored event.
    pub id: EventId,
    /// Its created_at.
    pub created_at: UnixSeconds,
    /// Its channel.
    pub channel: Option<ChannelId>,
}

/// The stored channel-state events of a channel; their successors are later than they are (H33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateStamps {
    /// 39000.
    pub metadata: Option<SlotFacts>,
    /// 39001.
    pub admins: Option<SlotFacts>,
    /// 39002.
    pub members: Option<SlotFacts>,
}

/// What a store read for one submission, under the locks of its plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Database clock in microseconds since the Unix epoch.
    pub clock_us: u64,
    /// First of the ledger positions reserved for this decision, as many as `positions` asks for.
    pub first_position: Position,
    /// The principal's restrictions.
    pub standing: Standing,
    /// How much is known of the event's id.
    pub known: Known,
    /// The event's author deleted its id with a kind 5, before it came or afterwards (NIP-09).
    pub deleted: bool,
    /// Wanted channels that exist, the artifact's home included.
    pub channels: BTreeMap<ChannelId, ChannelView>,
    /// Head of the wanted artifact, if its id was ever used.
    pub head: Option<Head>,
    /// The wanted anchor, if stored.
    pub anchor: Option<AnchorFacts>,
    /// Wanted targets that are stored.
    pub targets: BTreeMap<EventId, TargetFacts>,
    /// What fills the wanted target slots.
    pub target_slots: BTreeMap<Slot, SlotFacts>,
    /// What fills the event's own slot.
    pub slot: Option<SlotFacts>,
    /// For the event's own slot: created_at up to which its author deleted it with an `a` tag (NIP-09).
    pub slot_deleted_until: Option<UnixSeconds>,
    /// Active members of the wanted roster.
    pub roster: Vec<Member>,
    /// Stamps of the wanted channel state.
    pub state: StateStamps,
    /// Newest notice created_at of the wanted recipients; absent: none.
    pub notice_stamps: BTreeMap<PubKey, UnixSeconds>,
}

impl View {
    /// Database clock in seconds.
    pub fn clock_secs(&self) -> UnixSeconds {
        self.clock_us / 1_000_000
    }
}
