//! What a decision asks of a store: the closed list of writes, and the answer for the sender. Values only.

use std::fmt;

use super::view::Head;
use crate::channel::{Channel, Member};
use crate::ids::{ArtifactId, ChannelId, Position, UnixSeconds};
use crate::nostr::{Event, EventId, Kind, PubKey, SecretKey, kinds};
use crate::scope::{self, Audience};

/// The relay's signing key, with its public half at hand. Debug output shows the public half only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RelayKey {
    secret: SecretKey,
    public: PubKey,
}

impl RelayKey {
    /// Wraps a secret key.
    pub fn new(secret: SecretKey) -> RelayKey {
        let public = secret.public_key();
        RelayKey { secret, public }
    }

    /// The relay's public key (NIP-11 `self`).
    pub fn public(&self) -> PubKey {
        self.public
    }

    /// The secret half, for signing.
    pub fn secret(&self) -> &SecretKey {
        &self.secret
    }
}

impl fmt::Debug for RelayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayKey")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

/// The place of a replaceable (kind, author) or addressable (kind, author, d) event. `d` is empty for replaceable kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Kind.
    pub kind: Kind,
    /// Author.
    pub author: PubKey,
    /// First `d` value of an addressable event.
    pub d: String,
}

impl Slot {
    /// The slot that an event fills: of a replaceable or addressable kind, by its first `d` tag only (NIP-01, S07).
    pub fn of(event: &Event) -> Option<Slot> {
        let d = if kinds::is_replaceable(event.kind) {
            ""
        } else if kinds::is_addressable(event.kind) {
            event.d_value()
        } else {
            return None;
        };
        Some(Slot {
            kind: event.kind,
            author: event.pubkey,
            d: d.to_owned(),
        })
    }
}

/// What a kind 5 deletes for good.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TombstoneTarget {
    /// One event by id.
    Event(EventId),
    /// Every version of a slot up to the deletion's created_at.
    Slot(Slot),
}

/// An event to store, with everything the store indexes; a store reads no tag itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredEvent {
    /// The event.
    pub event: Event,
    /// The channel it lives in; none for events without channel and for notices, which are found by `p`.
    pub channel: Option<ChannelId>,
    /// Who may see it beyond the channel rule.
    pub audience: Audience,
    /// Index terms in tag order, each once: (name, first value); single-letter names on all kinds, every name on 45010 and
    /// 45011.
    pub terms: Vec<(String, String)>,
    /// Not served from this time on (NIP-40); none for kinds on which `expiration` means nothing to the relay.
    pub expires_at: Option<UnixSeconds>,
    /// The slot it fills, if it is replaceable or addressable. The store guarantees one unwithheld event per slot.
    pub slot: Option<Slot>,
    /// The artifact it is a revision of (45010) or was moved away from (45011).
    pub artifact: Option<ArtifactId>,
    /// Position of the ledger row that announces it.
    pub position: Position,
}

impl StoredEvent {
    /// The event with all that its own tags say to the store: index terms, expiry and slot. Readers of the channel see it, and it
    /// belongs to no artifact; the caller changes what differs.
    pub fn new(event: Event, channel: Option<ChannelId>, position: Position) -> StoredEvent {
        let terms = scope::index_terms(&event);
        let expires_at = scope::expires_at(&event);
        let slot = Slot::of(&event);
        StoredEvent {
            event,
            channel,
            audience: Audience::Readers,
            terms,
            expires_at,
            slot,
            artifact: None,
            position,
        }
    }
}

/// Why an event is withheld from every read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WithheldCause {
    /// A newer event took its slot.
    Superseded,
    /// Its author deleted it (kind 5).
    Deleted,
    /// A channel moderator or its author removed it (9005), for an artifact revision this is redaction; or it described a
    /// channel that was deleted (9008).
    Removed,
}

/// The kind of a ledger row (S5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// A stored event of any kind but 45010 and 45011.
    Event,
    /// An accepted artifact revision of any op.
    Revision,
    /// A 45011 stored in the source of a move.
    MoveSource,
    /// An artifact revision was redacted; `current` tells whether it was the head.
    Redaction {
        /// It was the current revision: the artifact is retired (AR-MOD-8).
        current: bool,
    },
    /// A message was deleted or removed.
    Withheld,
    /// A membership began or ended, or a role changed in a way that alters reads.
    Membership,
    /// A role changed and reads did not.
    Role,
    /// Visibility changed.
    Visibility,
    /// Name, about, topic or purpose changed.
    Metadata,
    /// Archived or unarchived.
    Archive,
    /// The channel was created.
    Created,
    /// The channel was deleted.
    ChannelDeleted,
}

/// One row of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LedgerRow {
    /// Its place.
    pub position: Position,
    /// What changed.
    pub change: Change,
    /// The channel concerned.
    pub channel: Option<ChannelId>,
    /// The key concerned (membership, notices).
    pub key: Option<PubKey>,
    /// The artifact concerned.
    pub artifact: Option<ArtifactId>,
    /// The event stored or withheld.
    pub event: Option<EventId>,
}

/// One primitive write. A store applies the list in order, in the transaction that read the view, or not at all (S2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Insert an event. Its id is new; its slot, if any, was emptied by an earlier write.
    Store(Box<StoredEvent>),
    /// Withhold a stored event from every read; its id stays known.
    Withhold {
        /// The event.
        event: EventId,
        /// Why.
        cause: WithheldCause,
    },
    /// Remember a kind-5 deletion for later arrivals. For a slot, `until` only grows.
    Tombstone {
        /// Whose events it speaks of.
        author: PubKey,
        /// Which of them.
        target: TombstoneTarget,
        /// created_at of the deletion.
        until: UnixSeconds,
    },
    /// Insert a channel whose id is unused.
    CreateChannel(Box<Channel>),
    /// Replace the row of an existing channel.
    UpdateChannel(Box<Channel>),
    /// Insert or replace an active membership.
    PutMember {
        /// The channel.
        channel: ChannelId,
        /// The membership.
        member: Member,
    },
    /// End a membership; the row stays as removed, with the position of the removal.
    RemoveMember {
        /// The channel.
        channel: ChannelId,
        /// The former member.
        pubkey: PubKey,
        /// Position of the change that ended it.
        access_stamp: Position,
    },
    /// Insert the head of an artifact id that was never used (AR-ID-5).
    CreateHead {
        /// The artifact.
        artifact: ArtifactId,
        /// Its first head.
        head: Box<Head>,
    },
    /// Advance a head; the store checks again that `prev` is the current revision and fails the transaction otherwise
    /// (AR-ID-7, AR-ID-9).
    AdvanceHead {
        /// The artifact.
        artifact: ArtifactId,
        /// The revision that must be current.
        prev: EventId,
        /// The head from now on.
        head: Box<Head>,
    },
    /// Enter an accepted revision; the entry outlives the body (AR-MOD-13, H19). Order of entries is acceptance order.
    Accept {
        /// The revision.
        event: EventId,
        /// Its artifact.
        artifact: ArtifactId,
        /// Its author.
        author: PubKey,
        /// Acceptance order.
        position: Position,
    },
    /// Remember the newest notice of a recipient; the stamp only grows.
    NoticeStamp {
        /// The recipient.
        recipient: PubKey,
        /// created_at of the notice.
        created_at: UnixSeconds,
    },
    /// Append a ledger row. Every decision that writes has at least one.
    Ledger(LedgerRow),
}

/// Why an event is refused, with the whole text for the sender: a one-word prefix, a colon, a space and a reason.
///
/// The class decides the HTTP status: conflict 409, denied 403, all others 400.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// The event is wrong, not supported, or in the wrong place: `invalid: …`, `restricted: …` by kind or channel.
    Invalid(String),
    /// The sender's key may not, wherever the event goes: `restricted: …` by scope, `blocked: …`, `auth-required: …`.
    Denied(String),
    /// Another revision is current or the identity is taken: `conflict: …`.
    Conflict(String),
}

impl Rejection {
    /// The text for the sender.
    pub fn text(&self) -> &str {
        match self {
            Rejection::Invalid(text) | Rejection::Denied(text) | Rejection::Conflict(text) => text,
        }
    }
}

/// What becomes of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Write these, then answer true with `message`.
    Write {
        /// In order.
        writes: Vec<Write>,
        /// Usually empty.
        message: String,
    },
    /// Nothing to write; answer true. A resubmission, or an event that changes nothing.
    Already {
        /// Empty for artifact revisions (AR-ID-13), `duplicate: …` otherwise.
        message: String,
    },
    /// Not stored; deliver it to live subscriptions, then answer true.
    Ephemeral {
        /// The channel it belongs to.
        channel: Option<ChannelId>,
    },
    /// Refuse.
    Reject(Rejection),
}
