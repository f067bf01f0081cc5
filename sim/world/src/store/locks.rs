//! The lock table of the simulated store: advisory locks of plans and row locks of writes. Who asks for which lock, and when,
//! does not belong here.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::accept::{Locks as Planned, Slot, TombstoneTarget, Write};
use holdfast_core::ids::{ArtifactId, ChannelId, CommunityId};
use holdfast_core::nostr::{EventId, PubKey};

/// One write transaction as the lock table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Session(pub(super) u64);

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Mode {
    /// Beside other shared ones.
    Shared,
    /// Alone.
    Exclusive,
}

/// What is locked. The order of the variants and their values is the order in which a statement takes them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum LockKey {
    /// The one writer of a store that has only one.
    Writer,
    /// An advisory lock (S2a).
    Advisory(CommunityId, Thing),
    /// A row that is written.
    Row(CommunityId, Thing),
}

/// A thing within a community.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Thing {
    Channel(ChannelId),
    Artifact(ArtifactId),
    Event(EventId),
    Slot(Slot),
    Recipient(PubKey),
    Member(ChannelId, PubKey),
    Tombstone(PubKey, TombstoneTarget),
}

/// A set of locks to take, in order.
pub(super) type Wanted = BTreeMap<LockKey, Mode>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Holders {
    exclusive: Option<Session>,
    shared: BTreeSet<Session>,
}

/// All locks that are held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LockTable {
    held: BTreeMap<LockKey, Holders>,
}

impl LockTable {
    /// The other sessions that keep `session` from taking a lock.
    pub(super) fn blockers(
        &self,
        session: Session,
        key: &LockKey,
        mode: Mode,
    ) -> BTreeSet<Session> {
        let Some(holders) = self.held.get(key) else {
            return BTreeSet::new();
        };
        let sharing = holders.shared.iter().copied();
        let against = sharing.filter(|_| mode == Mode::Exclusive);
        against
            .chain(holders.exclusive)
            .filter(|holder| *holder != session)
            .collect()
    }

    /// Whether `session` could take a lock at once.
    pub(super) fn is_free(&self, session: Session, key: &LockKey, mode: Mode) -> bool {
        self.blockers(session, key, mode).is_empty()
    }

    /// Takes a free lock.
    pub(super) fn take(&mut self, session: Session, key: LockKey, mode: Mode) {
        debug_assert!(
            self.is_free(session, &key, mode),
            "a lock is taken when it is free"
        );
        let holders = self.held.entry(key).or_default();
        match mode {
            Mode::Exclusive => holders.exclusive = Some(session),
            Mode::Shared => {
                holders.shared.insert(session);
            }
        }
    }

    /// Gives back everything that `session` holds.
    pub(super) fn release(&mut self, session: Session) {
        self.held.retain(|_, holders| {
            holders.shared.remove(&session);
            if holders.exclusive == Some(session) {
                holders.exclusive = None;
            }
            holders.exclusive.is_some() || !holders.shared.is_empty()
        });
    }

    /// Whether nothing is locked.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// The advisory locks of a plan.
pub(super) fn planned(at: CommunityId, locks: &Planned) -> Wanted {
    let Planned {
        shared_channels,
        exclusive_channels,
        artifacts,
        events,
        slots,
        recipients,
    } = locks;
    let shared = shared_channels.iter().copied().map(Thing::Channel);
    let channels = exclusive_channels.iter().copied().map(Thing::Channel);
    let alone = channels
        .chain(artifacts.iter().copied().map(Thing::Artifact))
        .chain(events.iter().copied().map(Thing::Event))
        .chain(slots.iter().cloned().map(Thing::Slot))
        .chain(recipients.iter().copied().map(Thing::Recipient));
    let mut wanted: Wanted = shared
        .map(|thing| (LockKey::Advisory(at, thing), Mode::Shared))
        .collect();
    wanted.extend(alone.map(|thing| (LockKey::Advisory(at, thing), Mode::Exclusive)));
    wanted
}

/// The rows that writes lock. `locks_heads` is false only in the variant that does not (M25).
pub(super) fn written(at: CommunityId, writes: &[Write], locks_heads: bool) -> Wanted {
    let mut things = BTreeSet::new();
    for write in writes {
        match write {
            Write::Store(stored) => {
                things.insert(Thing::Event(stored.event.id));
                things.extend(stored.slot.clone().map(Thing::Slot));
            }
            Write::Withhold { event, .. } | Write::Accept { event, .. } => {
                things.insert(Thing::Event(*event));
            }
            Write::Tombstone { author, target, .. } => {
                things.insert(Thing::Tombstone(*author, target.clone()));
            }
            Write::CreateChannel(channel) | Write::UpdateChannel(channel) => {
                things.insert(Thing::Channel(channel.id));
            }
            Write::PutMember { channel, member } => {
                things.insert(Thing::Member(*channel, member.pubkey));
            }
            Write::RemoveMember {
                channel, pubkey, ..
            } => {
                things.insert(Thing::Member(*channel, *pubkey));
            }
            Write::CreateHead { artifact, .. } | Write::AdvanceHead { artifact, .. } => {
                things.extend(locks_heads.then_some(Thing::Artifact(*artifact)));
            }
            Write::NoticeStamp { recipient, .. } => {
                things.insert(Thing::Recipient(*recipient));
            }
            Write::Ledger(_) => {}
        }
    }
    things
        .into_iter()
        .map(|thing| (LockKey::Row(at, thing), Mode::Exclusive))
        .collect()
}

/// Whether two sets could be held by two transactions at once.
pub(super) fn are_disjoint(one: &Wanted, other: &Wanted) -> bool {
    one.iter().all(|(key, mode)| {
        other
            .get(key)
            .is_none_or(|theirs| (*mode, *theirs) == (Mode::Shared, Mode::Shared))
    })
}
