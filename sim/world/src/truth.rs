//! What really happened in the simulated store, for whoever judges a history: the commits in the order in which others could
//! see them, and the final state. Plain values; nothing here is read by the node.

use std::collections::BTreeMap;

use holdfast_core::accept::{Change, Head, LedgerRow, StoredEvent, Write};
use holdfast_core::channel::{Channel, ChannelType, Role, Visibility};
use holdfast_core::ids::{ArtifactId, ChannelId, CommunityId, Position};
use holdfast_core::nostr::{EventId, Kind, PubKey, Tag};

use crate::store::{ProcessId, TxId};

/// One visible commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Commit {
    /// The transaction.
    pub xid: u64,
    /// The process whose transaction it was.
    pub process: ProcessId,
    /// Database clock in microseconds when others could first see it.
    pub clock_us: u64,
    /// The submissions that wrote, each with its event.
    pub submissions: Vec<(TxId, EventId)>,
    /// What changed, in position order within each submission.
    pub changes: Vec<CommittedChange>,
    /// A failover lost it.
    pub is_forgotten: bool,
}

/// One ledger row and what it means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommittedChange {
    /// Its place in the ledger.
    pub position: Position,
    /// What changed.
    pub what: What,
}

/// What a ledger row stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A revision was accepted and is current.
    Revision {
        /// Its artifact.
        artifact: ArtifactId,
        /// Itself.
        event: EventId,
        /// The revision it replaced; none for a creation.
        prev: Option<EventId>,
        /// The value of its `op` tag.
        op: String,
        /// Its home from here on.
        home: ChannelId,
        /// The artifact's type.
        artifact_type: String,
        /// The anchor.
        root: Option<EventId>,
        /// Its author.
        author: PubKey,
        /// All its tags.
        tags: Vec<Tag>,
    },
    /// A 45011 says that an artifact left a channel.
    MoveSource {
        /// The artifact.
        artifact: ArtifactId,
        /// The channel that it left.
        source: ChannelId,
        /// The 45011.
        marker: EventId,
        /// The value of its `prev` tag: the revision that was current in the source.
        replaced: String,
    },
    /// A revision was redacted.
    Redaction {
        /// Its artifact.
        artifact: ArtifactId,
        /// Itself.
        event: EventId,
        /// It was the current one.
        current: bool,
    },
    /// A membership began, ended or changed.
    Membership {
        /// The channel.
        channel: ChannelId,
        /// Whose.
        key: PubKey,
        /// The role from here on; none when it ended.
        role: Option<Role>,
        /// False where only the role changed.
        alters_reads: bool,
    },
    /// Who may read without membership changed.
    Visibility {
        /// The channel.
        channel: ChannelId,
        /// From here on.
        visibility: Visibility,
    },
    /// A channel was archived or unarchived.
    Archive {
        /// The channel.
        channel: ChannelId,
        /// From here on.
        archived: bool,
    },
    /// Name or texts of a channel changed.
    Metadata {
        /// The channel.
        channel: ChannelId,
    },
    /// A channel was created.
    Created {
        /// The channel.
        channel: ChannelId,
        /// Its type.
        channel_type: ChannelType,
        /// Who may read without membership.
        visibility: Visibility,
        /// It is unlisted.
        unlisted: bool,
    },
    /// A channel was deleted.
    Deleted {
        /// The channel.
        channel: ChannelId,
    },
    /// An event of another kind was stored.
    Event {
        /// Itself.
        event: EventId,
        /// Its kind.
        kind: Kind,
        /// Its channel.
        channel: Option<ChannelId>,
    },
    /// An event of another kind was deleted or removed.
    Withheld {
        /// Itself.
        event: EventId,
        /// Its channel.
        channel: Option<ChannelId>,
    },
}

/// The state at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FinalState {
    /// The head of every artifact that was ever created, retired ones with `redacted`.
    pub heads: BTreeMap<(CommunityId, ArtifactId), Head>,
    /// Every channel, deleted ones included.
    pub channels: BTreeMap<(CommunityId, ChannelId), Channel>,
    /// Active roles.
    pub roles: BTreeMap<(CommunityId, ChannelId, PubKey), Role>,
}

/// What a store still holds; after all work is done and every snapshot ended, nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpenWork {
    /// Histories and syncs that hold a place.
    pub snapshots: usize,
    /// Write transactions, abandoned ones included.
    pub writes: usize,
    /// Operations that wait, or whose answer is on its way.
    pub others: usize,
    /// Something is locked.
    pub has_locks: bool,
}

/// The changes that the writes of one submission make, one for each of its ledger rows.
pub(crate) fn changes(writes: &[Write]) -> Vec<CommittedChange> {
    writes
        .iter()
        .filter_map(|write| match write {
            Write::Ledger(row) => Some(row),
            _ => None,
        })
        .map(|row| CommittedChange {
            position: row.position,
            what: what(row, writes)
                .expect("a ledger row stands beside the write that it announces"),
        })
        .collect()
}

fn what(row: &LedgerRow, writes: &[Write]) -> Option<What> {
    Some(match row.change {
        Change::Revision => revision(row, writes)?,
        Change::MoveSource => {
            let stored = stored_by(row, writes)?;
            What::MoveSource {
                artifact: row.artifact?,
                source: row.channel?,
                marker: stored.event.id,
                replaced: stored.event.first_value("prev")?.to_owned(),
            }
        }
        Change::Event => {
            let stored = stored_by(row, writes)?;
            What::Event {
                event: stored.event.id,
                kind: stored.event.kind,
                channel: stored.channel,
            }
        }
        Change::Redaction { current } => What::Redaction {
            artifact: row.artifact?,
            event: row.event?,
            current,
        },
        Change::Withheld => What::Withheld {
            event: row.event?,
            channel: row.channel,
        },
        Change::Membership | Change::Role => {
            let (channel, key) = (row.channel?, row.key?);
            What::Membership {
                channel,
                key,
                role: role_after(channel, key, writes),
                alters_reads: row.change == Change::Membership,
            }
        }
        Change::Visibility
        | Change::Archive
        | Change::Metadata
        | Change::Created
        | Change::ChannelDeleted => of_channel(row.change, channel_after(row.channel?, writes)?),
    })
}

fn revision(row: &LedgerRow, writes: &[Write]) -> Option<What> {
    let stored = stored_by(row, writes)?;
    let (prev, head) = writes.iter().find_map(|write| match write {
        Write::CreateHead { head, .. } => Some((None, head)),
        Write::AdvanceHead { head, prev, .. } => Some((Some(*prev), head)),
        _ => None,
    })?;
    Some(What::Revision {
        artifact: row.artifact?,
        event: stored.event.id,
        prev,
        op: stored.event.first_value("op")?.to_owned(),
        home: head.home,
        artifact_type: head.artifact_type.clone(),
        root: head.root,
        author: stored.event.pubkey,
        tags: stored.event.tags.clone(),
    })
}

fn stored_by<'w>(row: &LedgerRow, writes: &'w [Write]) -> Option<&'w StoredEvent> {
    writes.iter().find_map(|write| match write {
        Write::Store(stored) if stored.position == row.position => Some(&**stored),
        _ => None,
    })
}

fn role_after(channel: ChannelId, key: PubKey, writes: &[Write]) -> Option<Role> {
    writes.iter().find_map(|write| match write {
        Write::PutMember {
            channel: of,
            member,
        } if (*of, member.pubkey) == (channel, key) => Some(member.role),
        _ => None,
    })
}

fn channel_after(channel: ChannelId, writes: &[Write]) -> Option<&Channel> {
    writes.iter().find_map(|write| match write {
        Write::CreateChannel(after) | Write::UpdateChannel(after) if after.id == channel => {
            Some(&**after)
        }
        _ => None,
    })
}

fn of_channel(change: Change, after: &Channel) -> What {
    let channel = after.id;
    match change {
        Change::Visibility => What::Visibility {
            channel,
            visibility: after.visibility,
        },
        Change::Archive => What::Archive {
            channel,
            archived: after.archived,
        },
        Change::Created => What::Created {
            channel,
            channel_type: after.channel_type.clone(),
            visibility: after.visibility,
            unlisted: after.unlisted,
        },
        Change::ChannelDeleted => What::Deleted { channel },
        _ => What::Metadata { channel },
    }
}
