//! What a sync reads and what it says: requests, rows, endings. Values only; the transitions are in `session`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::channel::{Channel, Role};
use crate::ids::{ArtifactId, ChannelId, Position};
use crate::nostr::{Event, EventId, PubKey};
use crate::scope::{Cut, ReadPlan};

/// Which incarnation of the database answered (S8). Another value than before means that commits may have been forgotten: a
/// loss for every sync. Stores that cannot fail over always give the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreGeneration(pub u64);

/// The initial read of one sync: one snapshot, all its pages (AR-SYNC-2a, AR-SYNC-2g).
///
/// The rows are those that the plan admits, in ascending order of `d`; each page starts after the last `d` of the page before
/// it, in the same snapshot (AR-SYNC-2e, AR-SYNC-2f). The page bounds of the plan itself are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SyncRequest {
    /// The filter and its one reader, or none for an anonymous one; the view is `Current` and `channels` names each channel.
    pub plan: ReadPlan,
    /// Most rows of a page, at least 1.
    pub rows_max: u32,
    /// Most bytes of serialised events of a page; one row is always let through.
    pub bytes_max: usize,
    /// Milliseconds after which the snapshot is ended, finished or not (AR-SYNC-2j).
    pub budget_ms: u64,
}

/// One page of the initial read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SyncPage {
    /// Rows in ascending order of `d`; at least one unless none is left.
    pub rows: Vec<SyncRow>,
    /// No row is left: the snapshot is closed.
    pub is_last: bool,
    /// On the first page, and only there.
    pub opened: Option<SnapshotFacts>,
    /// Which database answered.
    pub store: StoreGeneration,
}

/// What a sync snapshot says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotFacts {
    /// The reader's access to every named channel, read by the first statement of the snapshot (H1). A channel that does not
    /// exist is absent.
    pub access: AccessRows,
    /// What the snapshot saw.
    pub cut: Cut,
}

/// One current artifact of the initial set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SyncRow {
    /// Its `d`.
    pub artifact: ArtifactId,
    /// Its home, one of the named channels.
    pub home: ChannelId,
    /// The current revision.
    pub event: EventId,
    /// The revision's seven fields as one JSON object.
    pub json: Arc<str>,
}

/// Who may read what, as one snapshot saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessRows {
    /// The channels asked for, deleted ones included.
    pub channels: BTreeMap<ChannelId, Channel>,
    /// Present and former memberships of the keys asked for in these channels.
    pub members: BTreeMap<(ChannelId, PubKey), Membership>,
}

/// One membership, active or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    /// The active role; none when the membership has ended.
    pub role: Option<Role>,
    /// Position of the change that began or ended it.
    pub stamp: Position,
}

impl AccessRows {
    /// The active role of a key in a channel.
    pub fn role(&self, channel: ChannelId, key: PubKey) -> Option<Role> {
        self.members.get(&(channel, key))?.role
    }

    /// The access stamp of (channel, reader): the position of the last change that could alter what this reader may read there.
    /// None when the reader cannot read the channel, or it does not exist. Role, label, name, archive and unlisted changes do
    /// not move it (H17).
    pub fn readable_stamp(&self, channel: ChannelId, reader: Option<PubKey>) -> Option<Position> {
        let row = self.channels.get(&channel)?;
        let member = reader.and_then(|key| self.members.get(&(channel, key)));
        if !row.readable_by(member.and_then(|member| member.role)) {
            return None;
        }
        Some(member.map_or(row.access_stamp, |member| {
            row.access_stamp.max(member.stamp)
        }))
    }
}

/// What one head read asks for; several syncs may share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeadQuery {
    /// The artifacts whose heads are wanted; may be empty when only access is wanted.
    pub artifacts: BTreeSet<ArtifactId>,
    /// For artifacts in a copy: the channels whose newest 45011 of this artifact is wanted, the homes in the copies.
    pub markers: BTreeSet<(ArtifactId, ChannelId)>,
    /// Channels whose rows are wanted beside the homes of the heads.
    pub channels: BTreeSet<ChannelId>,
    /// Keys whose memberships in all these channels, the homes included, are wanted.
    pub keys: BTreeSet<PubKey>,
    /// Bytes of serialised events after which no further artifact is read; the first one is always read.
    pub bytes_max: usize,
    /// For a seeded bug: the revision stored at this position is wanted instead of the head.
    #[cfg(feature = "mutants")]
    pub pinned: BTreeMap<ArtifactId, Position>,
}

/// What a head read returns, all from one snapshot of the writer's newest committed state (AR-SYNC-4g, S4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeadRows {
    /// The heads of the artifacts that exist.
    pub heads: BTreeMap<ArtifactId, HeadRow>,
    /// The newest unwithheld 45011 of each wanted (artifact, source channel), where one is stored.
    pub markers: BTreeMap<(ArtifactId, ChannelId), Arc<str>>,
    /// Access to the channels asked for and to the homes of the heads.
    pub access: AccessRows,
    /// Wanted artifacts that the byte bound left unread, each with its markers.
    pub left: BTreeSet<ArtifactId>,
    /// Database clock in seconds.
    pub clock_secs: u64,
    /// Which database answered.
    pub store: StoreGeneration,
}

/// The current revision of one artifact.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeadRow {
    /// Its id.
    pub event: EventId,
    /// Its home channel.
    pub home: ChannelId,
    /// The revision itself and its seven fields as one JSON object; none when it is redacted.
    pub body: Option<(Arc<Event>, Arc<str>)>,
}

/// Why a sync is closed. The words are the whole vocabulary; a relay that resyncs without cause is wrong, even if it is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResyncCause {
    /// Signals were or may have been lost: the bus went down, came back, lagged, or brought something undecodable.
    Signals,
    /// More distinct artifacts changed than may wait (AR-SYNC-1j).
    Backlog,
    /// A read of heads or access failed (AR-SYNC-5e).
    Lookup,
    /// The database is another one than before (S8).
    Store,
    /// The reader's access to a named channel changed (AR-SYNC-9a to AR-SYNC-9c).
    Access,
    /// The current revision of an artifact was redacted (AR-SYNC-6a).
    Retired,
}

/// Why a sync cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncError {
    /// The set, or the copy as it grew, exceeds `max_events` (H7, AR-SYNC-8a).
    TooLarge,
    /// No snapshot slot became free in time, or the process holds too much for its syncs.
    Busy,
    /// The snapshot or the delivery took longer than its budget (AR-SYNC-2l).
    Budget,
    /// The initial read failed or its snapshot was lost (AR-SYNC-2l, AR-SYNC-2m).
    Store,
    /// Interest could not be confirmed in time (AR-SYNC-1d).
    Bus,
}

/// The last word of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// The copy may be inexact; the client starts anew.
    Resync(ResyncCause),
    /// A named channel is not readable or does not exist; which one and why is not said (AR-SYNC-REQ-27).
    Restricted,
    /// The set cannot be delivered.
    Error(SyncError),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ending::Resync(ResyncCause::Signals) => "resync: signals",
            Ending::Resync(ResyncCause::Backlog) => "resync: backlog",
            Ending::Resync(ResyncCause::Lookup) => "resync: lookup",
            Ending::Resync(ResyncCause::Store) => "resync: store",
            Ending::Resync(ResyncCause::Access) => "resync: access",
            Ending::Resync(ResyncCause::Retired) => "resync: retired",
            Ending::Restricted => "restricted: a named channel cannot be read",
            Ending::Error(SyncError::TooLarge) => "error: too-large",
            Ending::Error(SyncError::Busy) => "error: busy",
            Ending::Error(SyncError::Budget) => "error: budget",
            Ending::Error(SyncError::Store) => "error: store",
            Ending::Error(SyncError::Bus) => "error: bus",
        })
    }
}
