//! The read plan: a closed description of one filter as one reader set may ask it. Values only; no decision lives here.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{ChannelId, CommunityId, Position, UnixSeconds};
use crate::nostr::{EventId, Kind, PubKey};

/// Which rows a plan ranges over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanView {
    /// Ordinary events. Artifact revisions (45010) appear only as current, unredacted heads, tombstones included, unless the
    /// plan has `ids`; then any unredacted revision appears.
    Events,
    /// Current artifacts: unredacted heads that are not deletions (AR-CUR-2, AR-CUR-3).
    Current,
    /// The unredacted current revision of each named artifact, deletions included (AR-HEAD-3, AR-HEAD-4).
    Head,
    /// Every unredacted revision, each judged by its own channel (AR-ACC-2, AR-CUR-5).
    History,
}

/// Who may see a row beyond the channel's readers' rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Audience {
    /// Everyone who may read the row's channel (or, without a channel, everyone the relay admits).
    Readers,
    /// The row's author and the channel's owners and admins: the stored removal of an artifact revision (H22).
    Moderators,
}

/// Kinds whose rows only some keys may read, on every path, `ids` included (CL-NTC-17, CL-NTC-18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// Only a key named in a `p` tag: 44100, 44101, 1059.
    Recipient,
    /// A key named in a `p` tag or the author: 4.
    RecipientOrAuthor,
}

/// The gate of a kind, if it has one.
pub fn gate_of(kind: Kind) -> Option<Gate> {
    match kind {
        44_100 | 44_101 | 1_059 => Some(Gate::Recipient),
        4 => Some(Gate::RecipientOrAuthor),
        _ => None,
    }
}

/// Which channels a filter reaches. One scope per filter; a channel named in one filter adds nothing to another (CL-SYS-18).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Channels the filter names by `#h`, or by `#d` when all its kinds are in 39000-39003 (CL-SYS-13, CL-SYS-14).
    pub named: BTreeSet<ChannelId>,
    /// The filter also reaches readable system channels it does not name (CL-ASK-1, CL-ASK-2), never later types (CL-SYS-19).
    pub system: bool,
}

/// Page bounds of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page {
    /// Most rows.
    pub limit: u32,
    /// Rows left out first; artifact views only.
    pub offset: u32,
}

/// One filter, compiled for one set of reader keys. Every store answers it alike, and [`crate::scope::admits`] says for one row
/// whether it belongs to the answer.
///
/// A row belongs to the answer when all present conditions hold; an empty set is a present condition that nothing meets (B04).
/// Order: `Events`: created_at descending, then id ascending. Artifact views: acceptance position descending.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadPlan {
    /// The tenant.
    pub community: CommunityId,
    /// The keys that ask; a row is returned if any of them may read it. Empty: an anonymous reader of the open profile.
    pub readers: BTreeSet<PubKey>,
    /// Which rows it ranges over.
    pub view: PlanView,
    /// Event ids.
    pub ids: Option<BTreeSet<EventId>>,
    /// Authors.
    pub authors: Option<BTreeSet<PubKey>>,
    /// Kinds.
    pub kinds: Option<BTreeSet<Kind>>,
    /// Lowest created_at, inclusive.
    pub since: Option<UnixSeconds>,
    /// Highest created_at, inclusive.
    pub until: Option<UnixSeconds>,
    /// `#h`: the row's channel, or for a row without channel its `h` tag, is one of these. Values that are no channel id are
    /// left out here, since no row has such a channel; the set may be empty and then matches nothing.
    pub channels: Option<BTreeSet<ChannelId>>,
    /// Tag conditions but `h` and, on notices, `t`: for each name, some tag with this name has one of the values as its first
    /// value (AR-CUR-10 to AR-CUR-13).
    pub terms: BTreeMap<String, BTreeSet<String>>,
    /// `#t` of the filter, kept apart because 44100 and 44101 match it by the notice rule (CL-NTC-5 to CL-NTC-11) and every
    /// other kind as an ordinary term. Never repeated in `terms`.
    pub t_values: Option<BTreeSet<String>>,
    /// Channels the filter reaches.
    pub scope: Scope,
    /// Page bounds; live matching and counts ignore them.
    pub page: Page,
}

/// The identity of a committed change, enough to decide whether a snapshot saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Ledger position.
    pub position: Position,
    /// Transaction id, 64 bits; 0 in stores whose position order is commit order.
    pub xid: u64,
}

/// What one snapshot saw.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Every change up to this position and none after it: stores with one writer.
    Position(Position),
    /// A transaction snapshot: everything below `xmin`, and below `xmax` what is not in `in_progress`.
    Snapshot {
        /// Lowest transaction that may be in progress.
        xmin: u64,
        /// First transaction that had not begun.
        xmax: u64,
        /// Transactions in progress.
        in_progress: BTreeSet<u64>,
    },
}

impl Cut {
    /// Whether the snapshot saw the change.
    pub fn covers(&self, stamp: &Stamp) -> bool {
        match self {
            Cut::Position(upto) => stamp.position <= *upto,
            Cut::Snapshot {
                xmin,
                xmax,
                in_progress,
            } => stamp.xid < *xmin || (stamp.xid < *xmax && !in_progress.contains(&stamp.xid)),
        }
    }
}
