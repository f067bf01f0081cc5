//! The rows of the simulated store as one snapshot sees them, and how writes change them. A clone is a snapshot: tables are
//! shared until one side writes. What may be written is decided by the core; when it becomes visible is not decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_core::accept::{
    Head, LedgerRow, Slot, StoredEvent, TombstoneTarget, WithheldCause, Write,
};
use holdfast_core::channel::{Channel, Member, Role};
use holdfast_core::ids::{ArtifactId, ChannelId, CommunityId, Position, UnixSeconds};
use holdfast_core::node::Signal;
use holdfast_core::nostr::{Event, EventId, PubKey, kinds};
use holdfast_core::scope::{Access, Audience, ReadPlan, Row, admits};

/// A table; every key begins with the community.
type Table<K, V> = Arc<BTreeMap<(CommunityId, K), V>>;

/// One stored event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventRow {
    pub(super) event: Arc<Event>,
    pub(super) json: Arc<str>,
    pub(super) channel: Option<ChannelId>,
    pub(super) audience: Audience,
    pub(super) expires_at: Option<UnixSeconds>,
    pub(super) slot: Option<Slot>,
    pub(super) artifact: Option<ArtifactId>,
    pub(super) position: Position,
    pub(super) xid: u64,
    pub(super) withheld: Option<WithheldCause>,
}

impl EventRow {
    /// Neither withheld nor expired.
    pub(super) fn is_served(&self, clock_secs: UnixSeconds) -> bool {
        self.withheld.is_none() && self.expires_at.is_none_or(|at| clock_secs < at)
    }
}

/// A membership, present or former.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct MemberRow {
    /// With the stamp of the change that began or ended it.
    pub(super) member: Member,
    pub(super) removed: bool,
}

/// A ledger row with its transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LedgerEntry {
    pub(super) community: CommunityId,
    pub(super) row: LedgerRow,
    pub(super) xid: u64,
}

/// Why writes do not fit what is stored; the decision is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Misfit(pub(super) &'static str);

/// Under which conditions writes are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) community: CommunityId,
    pub(super) xid: u64,
    /// False only in the variant that does not compare `prev` (M25).
    pub(super) compares_prev: bool,
}

/// All rows that one snapshot sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) events: Table<EventId, EventRow>,
    positions: Table<Position, EventId>,
    slots: Table<Slot, EventId>,
    channels: Table<ChannelId, Channel>,
    members: Table<(ChannelId, PubKey), MemberRow>,
    tombstones: Table<(PubKey, TombstoneTarget), UnixSeconds>,
    pub(super) heads: Table<ArtifactId, Head>,
    revisions: Table<EventId, PubKey>,
    notice_stamps: Table<PubKey, UnixSeconds>,
    pub(super) ledger: Arc<BTreeMap<Position, LedgerEntry>>,
}

impl State {
    pub(super) fn event(&self, at: CommunityId, id: EventId) -> Option<&EventRow> {
        self.events.get(&(at, id))
    }

    pub(super) fn at_position(&self, at: CommunityId, position: Position) -> Option<&EventRow> {
        self.event(at, *self.positions.get(&(at, position))?)
    }

    /// The unwithheld event that fills a slot.
    pub(super) fn in_slot(&self, at: CommunityId, slot: &Slot) -> Option<&EventRow> {
        self.event(at, *self.slots.get(&(at, slot.clone()))?)
    }

    pub(super) fn channel(&self, at: CommunityId, id: ChannelId) -> Option<&Channel> {
        self.channels.get(&(at, id))
    }

    /// A membership, present or former.
    pub(super) fn member(
        &self,
        at: CommunityId,
        channel: ChannelId,
        key: PubKey,
    ) -> Option<&MemberRow> {
        self.members.get(&(at, (channel, key)))
    }

    /// The active role of a key.
    pub(super) fn role(&self, at: CommunityId, channel: ChannelId, key: PubKey) -> Option<Role> {
        let row = self.member(at, channel, key)?;
        (!row.removed).then_some(row.member.role)
    }

    /// Active members by the time they joined, then by key.
    pub(super) fn roster(&self, at: CommunityId, channel: ChannelId) -> Vec<Member> {
        let mut roster: Vec<Member> = self
            .members
            .iter()
            .filter(|((community, (of, _)), row)| {
                *community == at && *of == channel && !row.removed
            })
            .map(|(_, row)| row.member.clone())
            .collect();
        roster.sort_unstable();
        roster
    }

    /// The head record, with `redacted` as the event table says.
    pub(super) fn head(&self, at: CommunityId, artifact: ArtifactId) -> Option<Head> {
        let head = self.heads.get(&(at, artifact))?.clone();
        let redacted = self
            .event(at, head.event)
            .is_some_and(|row| row.withheld.is_some());
        Some(Head { redacted, ..head })
    }

    /// Whether an event is the current revision of its artifact.
    pub(super) fn is_head(&self, at: CommunityId, row: &EventRow) -> bool {
        row.event.kind == kinds::ARTIFACT
            && row
                .artifact
                .and_then(|artifact| self.heads.get(&(at, artifact)))
                .is_some_and(|head| head.event == row.event.id)
    }

    /// Whether an id was accepted from this author: stored, or entered as a revision.
    pub(super) fn is_known(&self, at: CommunityId, event: &Event) -> bool {
        let stored = self.event(at, event.id).map(|row| row.event.pubkey);
        let entered = self.revisions.get(&(at, event.id)).copied();
        stored == Some(event.pubkey) || entered == Some(event.pubkey)
    }

    pub(super) fn tombstone(
        &self,
        at: CommunityId,
        author: PubKey,
        target: TombstoneTarget,
    ) -> Option<UnixSeconds> {
        self.tombstones.get(&(at, (author, target))).copied()
    }

    pub(super) fn notice_stamp(&self, at: CommunityId, recipient: PubKey) -> Option<UnixSeconds> {
        self.notice_stamps.get(&(at, recipient)).copied()
    }

    /// Whether the plan admits an unwithheld event (S9). `takes_all_for_open` is the variant that ignores access.
    pub(super) fn admits(
        &self,
        plan: &ReadPlan,
        row: &EventRow,
        clock_secs: UnixSeconds,
        takes_all_for_open: bool,
    ) -> bool {
        let at = plan.community;
        let stored = row.channel.and_then(|id| self.channel(at, id));
        let opened = stored.filter(|_| takes_all_for_open).map(|channel| {
            let mut open = channel.clone();
            open.visibility = holdfast_core::channel::Visibility::Open;
            open
        });
        let roles = |key: PubKey| row.channel.and_then(|id| self.role(at, id, key));
        let access = Access {
            channel: opened.as_ref().or(stored),
            roles: &roles,
        };
        let judged = Row {
            event: &row.event,
            channel: row.channel,
            audience: row.audience,
            is_head: self.is_head(at, row),
            live: false,
        };
        row.withheld.is_none() && admits(plan, &judged, &access, clock_secs)
    }

    /// The highest position in the ledger.
    pub(super) fn newest_position(&self) -> Position {
        self.ledger
            .last_key_value()
            .map_or(Position(0), |(position, _)| *position)
    }

    /// Applies writes in order. After an error part of them is applied; the caller drops the value.
    pub(super) fn apply(&mut self, origin: Origin, writes: &[Write]) -> Result<(), Misfit> {
        writes
            .iter()
            .try_for_each(|write| self.apply_one(origin, write))
    }

    fn apply_one(&mut self, origin: Origin, write: &Write) -> Result<(), Misfit> {
        let at = origin.community;
        match write.clone() {
            Write::Store(stored) => self.store(origin, *stored),
            Write::Withhold { event, cause } => self.withhold(at, event, cause),
            Write::Tombstone {
                author,
                target,
                until,
            } => {
                let key = (at, (author, target));
                let stamp = Arc::make_mut(&mut self.tombstones).entry(key).or_default();
                *stamp = (*stamp).max(until);
                Ok(())
            }
            Write::CreateChannel(channel) => {
                let before = Arc::make_mut(&mut self.channels).insert((at, channel.id), *channel);
                unless(before.is_some(), "creates a channel whose id is used")
            }
            Write::UpdateChannel(channel) => {
                let before = Arc::make_mut(&mut self.channels).insert((at, channel.id), *channel);
                unless(before.is_none(), "updates a channel that is not there")
            }
            Write::PutMember { channel, member } => {
                let key = (at, (channel, member.pubkey));
                let row = MemberRow {
                    member,
                    removed: false,
                };
                Arc::make_mut(&mut self.members).insert(key, row);
                unless(
                    self.channel(at, channel).is_none(),
                    "a member of a channel that is not there",
                )
            }
            Write::RemoveMember {
                channel,
                pubkey,
                access_stamp,
            } => self.remove_member(at, (channel, pubkey), access_stamp),
            Write::CreateHead { artifact, head } => {
                let before = Arc::make_mut(&mut self.heads).insert((at, artifact), *head);
                unless(
                    before.is_some() && origin.compares_prev,
                    "creates a head that is there",
                )
            }
            Write::AdvanceHead {
                artifact,
                prev,
                head,
            } => {
                let before = Arc::make_mut(&mut self.heads).insert((at, artifact), *head);
                let from_prev = before.is_some_and(|before| before.event == prev);
                unless(
                    !from_prev && origin.compares_prev,
                    "advances a head whose current revision is another",
                )
            }
            Write::Accept { event, author, .. } => {
                let before = Arc::make_mut(&mut self.revisions).insert((at, event), author);
                unless(before.is_some(), "enters a revision twice")
            }
            Write::NoticeStamp {
                recipient,
                created_at,
            } => {
                let key = (at, recipient);
                let stamp = Arc::make_mut(&mut self.notice_stamps)
                    .entry(key)
                    .or_default();
                *stamp = (*stamp).max(created_at);
                Ok(())
            }
            Write::Ledger(row) => {
                let entry = LedgerEntry {
                    community: at,
                    xid: origin.xid,
                    row,
                };
                let before = Arc::make_mut(&mut self.ledger).insert(entry.row.position, entry);
                unless(before.is_some(), "a position is used twice")
            }
        }
    }

    fn store(&mut self, origin: Origin, stored: StoredEvent) -> Result<(), Misfit> {
        let at = origin.community;
        let id = stored.event.id;
        if let Some(channel) = stored.channel {
            unless(
                self.channel(at, channel).is_none(),
                "an event in a channel that is not there",
            )?;
        }
        if let Some(slot) = stored.slot.clone() {
            let before = Arc::make_mut(&mut self.slots).insert((at, slot), id);
            unless(before.is_some(), "a second event in a slot")?;
        }
        Arc::make_mut(&mut self.positions).insert((at, stored.position), id);
        let row = EventRow {
            json: Arc::from(stored.event.to_json()),
            event: Arc::new(stored.event),
            channel: stored.channel,
            audience: stored.audience,
            expires_at: stored.expires_at,
            slot: stored.slot,
            artifact: stored.artifact,
            position: stored.position,
            xid: origin.xid,
            withheld: None,
        };
        let before = Arc::make_mut(&mut self.events).insert((at, id), row);
        unless(before.is_some(), "stores an event twice")
    }

    fn withhold(
        &mut self,
        at: CommunityId,
        id: EventId,
        cause: WithheldCause,
    ) -> Result<(), Misfit> {
        let row = Arc::make_mut(&mut self.events)
            .get_mut(&(at, id))
            .filter(|row| row.withheld.is_none())
            .ok_or(Misfit("withholds an event that is not there"))?;
        row.withheld = Some(cause);
        if let Some(slot) = row.slot.clone() {
            Arc::make_mut(&mut self.slots).remove(&(at, slot));
        }
        Ok(())
    }

    fn remove_member(
        &mut self,
        at: CommunityId,
        key: (ChannelId, PubKey),
        access_stamp: Position,
    ) -> Result<(), Misfit> {
        let row = Arc::make_mut(&mut self.members)
            .get_mut(&(at, key))
            .filter(|row| !row.removed)
            .ok_or(Misfit("removes a member that is not there"))?;
        row.removed = true;
        row.member.access_stamp = access_stamp;
        Ok(())
    }

    /// Every channel of every community.
    pub(super) fn channels(&self) -> impl Iterator<Item = (CommunityId, &Channel)> {
        self.channels
            .iter()
            .map(|((community, _), channel)| (*community, channel))
    }

    /// Every membership, present and former, with its community and channel.
    pub(super) fn members(&self) -> impl Iterator<Item = (CommunityId, ChannelId, &MemberRow)> {
        self.members
            .iter()
            .map(|((community, (channel, _)), row)| (*community, *channel, row))
    }
}

fn unless(wrong: bool, why: &'static str) -> Result<(), Misfit> {
    if wrong { Err(Misfit(why)) } else { Ok(()) }
}

/// The signals of the ledger rows among these writes.
pub(super) fn signals(writes: &[Write], xid: u64) -> Vec<Signal> {
    writes
        .iter()
        .filter_map(|write| match write {
            Write::Ledger(row) => Some(signal(row, xid)),
            _ => None,
        })
        .collect()
}

/// The signal of one ledger row.
pub(super) fn signal(row: &LedgerRow, xid: u64) -> Signal {
    Signal {
        position: row.position,
        xid,
        change: row.change,
        channel: row.channel,
        artifact: row.artifact,
        key: row.key,
    }
}

/// What a store insists on before it writes: ledger rows are numbered from the reserved position without a gap, each stored
/// event has its row, and each head names a revision stored beside it (S5).
pub(super) fn check(first: Position, writes: &[Write]) -> Result<(), Misfit> {
    let rows: Vec<&LedgerRow> = writes
        .iter()
        .filter_map(|write| match write {
            Write::Ledger(row) => Some(row),
            _ => None,
        })
        .collect();
    unless(rows.is_empty(), "no ledger row")?;
    for (n, row) in rows.iter().enumerate() {
        unless(
            row.position != first.plus(n as u64),
            "ledger positions with a gap",
        )?;
    }
    for write in writes {
        match write {
            Write::Store(stored) => unless(
                !rows.iter().any(|row| {
                    row.position == stored.position && row.event == Some(stored.event.id)
                }),
                "a stored event without its ledger row",
            )?,
            Write::CreateHead { artifact, head } | Write::AdvanceHead { artifact, head, .. } => {
                let is_revision = |write: &Write| match write {
                    Write::Store(stored) => {
                        stored.event.id == head.event
                            && stored.artifact == Some(*artifact)
                            && stored.channel == Some(head.home)
                    }
                    _ => false,
                };
                unless(
                    !writes.iter().any(is_revision),
                    "a head without its revision",
                )?;
            }
            _ => {}
        }
    }
    Ok(())
}
