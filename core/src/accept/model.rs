//! A store for tests, in memory and with one writer: it reads the view of a plan, applies writes in order, and insists on what
//! every store guarantees and on what a plan promised. Decisions do not belong here.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    AnchorFacts, Change, ChannelView, Decision, Head, Known, LedgerRow, Locks, Plan, Policy,
    Profile, RelayKey, Slot, SlotFacts, Standing, StateStamps, StoredEvent, Submission,
    TargetFacts, TombstoneTarget, View, WithheldCause, Write, admit, decide, plan,
};
use crate::channel::{Channel, Member, Role};
use crate::ids::{ArtifactId, ChannelId, CommunityId, Position, UnixSeconds, Uuid};
use crate::nostr::{Draft, Event, EventId, Kind, PubKey, SecretKey, kinds};

/// The second at which a model begins.
pub(crate) const BEGIN_SECS: UnixSeconds = 1_800_000_000;

/// A key that is the same in every run; `n` is not 0.
pub(crate) fn key(n: u8) -> SecretKey {
    SecretKey::from_bytes([n; 32]).expect("equal bytes from 1 to 254 are below the order")
}

/// The public half of [`key`].
pub(crate) fn pubkey(n: u8) -> PubKey {
    key(n).public_key()
}

/// A channel id that is the same in every run.
pub(crate) fn channel_id(n: u8) -> ChannelId {
    ChannelId(Uuid::from_bytes([0x10 + n; 16]).expect("not nil"))
}

/// A policy with the model's relay key.
pub(crate) fn policy(profile: Profile) -> Policy {
    Policy {
        profile,
        relay_key: RelayKey::new(key(200)),
    }
}

/// Strings as one tag.
pub(crate) fn tag(elements: &[&str]) -> Vec<String> {
    elements
        .iter()
        .map(|element| (*element).to_owned())
        .collect()
}

/// A stored event and whether it is withheld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) stored: StoredEvent,
    pub(crate) withheld: Option<WithheldCause>,
}

/// One community's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) policy: Policy,
    /// The database clock.
    pub(crate) clock_us: u64,
    pub(crate) events: BTreeMap<EventId, Kept>,
    pub(crate) channels: BTreeMap<ChannelId, Channel>,
    pub(crate) members: BTreeMap<(ChannelId, PubKey), Member>,
    pub(crate) removed: BTreeMap<(ChannelId, PubKey), Position>,
    pub(crate) tombstones: BTreeMap<(PubKey, TombstoneTarget), UnixSeconds>,
    pub(crate) heads: BTreeMap<ArtifactId, Head>,
    pub(crate) accepted: BTreeMap<EventId, PubKey>,
    pub(crate) notice_stamps: BTreeMap<PubKey, UnixSeconds>,
    pub(crate) standings: BTreeMap<PubKey, Standing>,
    pub(crate) ledger: Vec<LedgerRow>,
    sent: u64,
}

impl Model {
    /// An empty community.
    pub(crate) fn new(profile: Profile) -> Model {
        Model {
            policy: policy(profile),
            clock_us: BEGIN_SECS * 1_000_000,
            events: BTreeMap::new(),
            channels: BTreeMap::new(),
            members: BTreeMap::new(),
            removed: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            heads: BTreeMap::new(),
            accepted: BTreeMap::new(),
            notice_stamps: BTreeMap::new(),
            standings: BTreeMap::new(),
            ledger: Vec::new(),
            sent: 0,
        }
    }

    /// The database clock in seconds.
    pub(crate) fn now(&self) -> UnixSeconds {
        self.clock_us / 1_000_000
    }

    /// A signed event of this moment; its content makes it differ from every other one.
    pub(crate) fn event(&mut self, by: u8, kind: Kind, tags: &[&[&str]]) -> Event {
        self.sent += 1;
        let tags = tags.iter().map(|elements| tag(elements)).collect();
        let draft = Draft {
            created_at: self.now(),
            kind,
            tags,
            content: format!("#{}", self.sent),
        };
        draft.sign(&key(by))
    }

    /// Signs and submits an event: the text of a true answer, or of a false one.
    pub(crate) fn send(&mut self, by: u8, kind: Kind, tags: &[&[&str]]) -> Result<String, String> {
        let event = self.event(by, kind, tags);
        self.submit(event)
    }

    /// Submits an event as its author.
    pub(crate) fn submit(&mut self, event: Event) -> Result<String, String> {
        let keys = BTreeSet::from([event.pubkey]);
        match self.submit_as(event, keys) {
            Decision::Write { message, .. } | Decision::Already { message } => Ok(message),
            Decision::Ephemeral { .. } => Ok(String::new()),
            Decision::Reject(rejection) => Err(rejection.text().to_owned()),
        }
    }

    /// Submits an event as a sender with these keys: the whole way of a write, one microsecond long.
    pub(crate) fn submit_as(&mut self, event: Event, keys: BTreeSet<PubKey>) -> Decision {
        let community = CommunityId(Uuid::from_bytes([1; 16]).expect("not nil"));
        let submission = Submission {
            community,
            event,
            keys,
            received_at: self.now(),
        };
        if let Err(rejection) = admit(&submission, &self.policy) {
            return Decision::Reject(rejection);
        }
        let plan = plan(&submission);
        let view = self.view(&plan, &submission.event);
        let decision = decide(&submission, &view, &self.policy);
        assert_eq!(
            decision,
            decide(&submission, &view, &self.policy),
            "a decision repeats"
        );
        if let Decision::Write { writes, .. } = &decision {
            self.apply(&submission.event, &plan, &view, writes);
        }
        self.clock_us += 1;
        decision
    }

    /// Active members in the order of a view.
    pub(crate) fn roster(&self, channel: ChannelId) -> Vec<Member> {
        let mut roster: Vec<Member> = self
            .members
            .iter()
            .filter(|((of, _), _)| *of == channel)
            .map(|(_, member)| member.clone())
            .collect();
        roster.sort_unstable();
        roster
    }

    /// The role of a key in a channel.
    pub(crate) fn role(&self, channel: ChannelId, of: PubKey) -> Option<Role> {
        self.members.get(&(channel, of)).map(|member| member.role)
    }

    /// Events that reads may return, in the order of acceptance.
    pub(crate) fn visible(&self) -> Vec<&StoredEvent> {
        let mut visible: Vec<&StoredEvent> = self
            .events
            .values()
            .filter(|kept| kept.withheld.is_none())
            .map(|kept| &kept.stored)
            .collect();
        visible.sort_unstable_by_key(|stored| stored.position);
        visible
    }

    /// The newest readable event of a kind in a channel or, for notices, about it.
    pub(crate) fn newest(&self, kind: Kind, channel: ChannelId) -> Option<Event> {
        let about = |stored: &&&StoredEvent| {
            stored.event.kind == kind
                && (stored.channel == Some(channel) || stored.event.channel_tag() == Some(channel))
        };
        self.visible()
            .iter()
            .rev()
            .find(about)
            .map(|stored| stored.event.clone())
    }

    /// The view that the plan asks for, as the event's author.
    pub(crate) fn view(&self, plan: &Plan, event: &Event) -> View {
        let spec = &plan.view;
        let author = event.pubkey;
        let head = spec.artifact.and_then(|artifact| self.head(artifact));
        let mut wanted = spec.channels.clone();
        wanted.extend(head.iter().map(|head| head.home));
        let recipients = spec.recipients.iter().copied();
        let roster = spec
            .roster
            .map(|channel| self.roster(channel))
            .unwrap_or_default();
        let notified = roster
            .iter()
            .filter(|_| spec.roster_notices)
            .map(|member| member.pubkey);
        let stamps = recipients.chain(notified).filter_map(|recipient| {
            self.notice_stamps
                .get(&recipient)
                .map(|stamp| (recipient, *stamp))
        });
        let tombstone = |target| self.tombstones.get(&(author, target)).copied();
        let known = self.events.contains_key(&event.id) || self.accepted.contains_key(&event.id);
        View {
            clock_us: self.clock_us,
            first_position: self.next_position(),
            standing: self
                .standings
                .get(&author)
                .cloned()
                .unwrap_or_else(Standing::fine),
            known: if known { Known::Accepted } else { Known::New },
            deleted: tombstone(TombstoneTarget::Event(event.id)).is_some(),
            channels: wanted
                .iter()
                .filter_map(|id| self.channel_view(*id, author))
                .collect(),
            head,
            anchor: spec.anchor.and_then(|id| self.anchor(id)),
            targets: spec
                .targets
                .iter()
                .filter_map(|id| self.target(*id).map(|facts| (*id, facts)))
                .collect(),
            target_slots: spec
                .target_slots
                .iter()
                .filter_map(|slot| self.in_slot(slot).map(|facts| (slot.clone(), facts)))
                .collect(),
            slot: spec.slot.as_ref().and_then(|slot| self.in_slot(slot)),
            slot_deleted_until: spec
                .slot
                .clone()
                .and_then(|slot| tombstone(TombstoneTarget::Slot(slot))),
            notice_stamps: stamps.collect(),
            state: spec
                .state
                .map(|channel| self.state(channel))
                .unwrap_or_default(),
            roster,
        }
    }

    fn next_position(&self) -> Position {
        self.ledger
            .last()
            .map_or(Position(1), |row| row.position.plus(1))
    }

    fn channel_view(&self, id: ChannelId, author: PubKey) -> Option<(ChannelId, ChannelView)> {
        let channel = self.channels.get(&id)?.clone();
        Some((
            id,
            ChannelView {
                channel,
                role: self.role(id, author),
            },
        ))
    }

    fn head(&self, artifact: ArtifactId) -> Option<Head> {
        let head = self.heads.get(&artifact)?.clone();
        let redacted = self.events[&head.event].withheld.is_some();
        Some(Head { redacted, ..head })
    }

    fn anchor(&self, id: EventId) -> Option<AnchorFacts> {
        let Kept { stored, withheld } = self.events.get(&id)?;
        let expired = stored.expires_at.is_some_and(|at| at <= self.now());
        Some(AnchorFacts {
            kind: stored.event.kind,
            channel: stored.channel,
            withheld: withheld.is_some() || expired,
        })
    }

    fn target(&self, id: EventId) -> Option<TargetFacts> {
        let Kept { stored, withheld } = self.events.get(&id)?;
        let revision = stored
            .artifact
            .filter(|_| stored.event.kind == kinds::ARTIFACT);
        let expired = stored.expires_at.is_some_and(|at| at <= self.now());
        Some(TargetFacts {
            id,
            author: stored.event.pubkey,
            kind: stored.event.kind,
            created_at: stored.event.created_at,
            channel: stored.channel,
            withheld: withheld.is_some() || expired,
            artifact: revision,
            current: revision.is_some_and(|artifact| self.heads[&artifact].event == id),
        })
    }

    fn in_slot(&self, slot: &Slot) -> Option<SlotFacts> {
        let kept = self
            .events
            .values()
            .find(|kept| kept.withheld.is_none() && kept.stored.slot.as_ref() == Some(slot))?;
        Some(SlotFacts {
            id: kept.stored.event.id,
            created_at: kept.stored.event.created_at,
            channel: kept.stored.channel,
        })
    }

    fn state(&self, channel: ChannelId) -> StateStamps {
        let author = self.policy.relay_key.public();
        let slot = |kind| {
            self.in_slot(&Slot {
                kind,
                author,
                d: channel.to_string(),
            })
        };
        StateStamps {
            metadata: slot(kinds::CHANNEL_METADATA),
            admins: slot(kinds::CHANNEL_ADMINS),
            members: slot(kinds::CHANNEL_MEMBERS),
        }
    }

    fn apply(&mut self, event: &Event, plan: &Plan, view: &View, writes: &[Write]) {
        let first = self.ledger.len();
        for write in writes {
            self.check_lock(plan, view, write);
            self.apply_one(write);
        }
        let rows = &self.ledger[first..];
        let mut reserved = plan.view.positions as usize;
        if plan.view.roster_notices {
            reserved += view.roster.len();
        }
        assert!(!rows.is_empty(), "every decision that writes has a row");
        assert!(
            rows.len() <= reserved,
            "{} rows, {reserved} reserved: {event:?}",
            rows.len()
        );
        for (n, row) in rows.iter().enumerate() {
            assert_eq!(
                row.position,
                view.first_position.plus(n as u64),
                "rows are numbered in order"
            );
        }
        for write in writes {
            let Write::Store(stored) = write else {
                continue;
            };
            let announced: Vec<_> = rows
                .iter()
                .filter(|row| row.position == stored.position)
                .collect();
            assert_eq!(announced.len(), 1, "one row for each stored event");
            assert_eq!(announced[0].event, Some(stored.event.id));
            assert_eq!(stored.event.verify(&crate::nostr::Verifier), Ok(()));
        }
    }

    /// Whatever is written was locked.
    fn check_lock(&self, plan: &Plan, view: &View, write: &Write) {
        let Locks {
            shared_channels,
            exclusive_channels,
            artifacts,
            events,
            slots,
            recipients,
        } = &plan.locks;
        let locked = match write {
            // A move's removal goes to a home that is known only from the view.
            Write::Store(stored) if stored.event.kind == kinds::ARTIFACT_MOVED => true,
            Write::Store(stored) => {
                let own = stored.event.pubkey == self.policy.relay_key.public()
                    || events.contains(&stored.event.id);
                let slot = stored.slot.as_ref().is_none_or(|slot| {
                    slots.contains(slot)
                        || stored
                            .channel
                            .is_some_and(|channel| exclusive_channels.contains(&channel))
                });
                let channel = stored.channel.is_none_or(|channel| {
                    shared_channels.contains(&channel) || exclusive_channels.contains(&channel)
                });
                own && slot && channel
            }
            Write::Withhold { event, .. } => {
                let stored = &self.events[event].stored;
                events.contains(event)
                    || stored
                        .slot
                        .as_ref()
                        .is_some_and(|slot| slots.contains(slot))
                    || stored
                        .channel
                        .is_some_and(|channel| exclusive_channels.contains(&channel))
            }
            Write::Tombstone {
                target: TombstoneTarget::Event(id),
                ..
            } => events.contains(id),
            Write::Tombstone {
                target: TombstoneTarget::Slot(slot),
                ..
            } => slots.contains(slot),
            Write::CreateChannel(channel) | Write::UpdateChannel(channel) => {
                exclusive_channels.contains(&channel.id)
            }
            Write::PutMember { channel, .. } | Write::RemoveMember { channel, .. } => {
                exclusive_channels.contains(channel)
            }
            Write::CreateHead { artifact, .. }
            | Write::AdvanceHead { artifact, .. }
            | Write::Accept { artifact, .. } => artifacts.contains(artifact),
            Write::NoticeStamp { recipient, .. } => {
                let member = view.roster.iter().any(|member| member.pubkey == *recipient);
                recipients.contains(recipient) || (plan.view.roster_notices && member)
            }
            Write::Ledger(_) => true,
        };
        assert!(locked, "not locked: {write:?}");
    }

    fn apply_one(&mut self, write: &Write) {
        match write.clone() {
            Write::Store(stored) => self.store(*stored),
            Write::Withhold { event, cause } => {
                let kept = self
                    .events
                    .get_mut(&event)
                    .expect("only stored events are withheld");
                assert_eq!(kept.withheld, None, "withheld once");
                kept.withheld = Some(cause);
            }
            Write::Tombstone {
                author,
                target,
                until,
            } => {
                let stamp = self.tombstones.entry((author, target)).or_default();
                *stamp = (*stamp).max(until);
            }
            Write::CreateChannel(channel) => {
                let before = self.channels.insert(channel.id, *channel);
                assert_eq!(before, None, "the id is unused");
            }
            Write::UpdateChannel(channel) => {
                let before = self.channels.insert(channel.id, *channel.clone());
                let before = before.expect("the channel exists");
                assert!(!before.deleted, "a deleted channel stays as it is");
                assert!(
                    before.access_stamp <= channel.access_stamp,
                    "access stamps rise"
                );
            }
            Write::PutMember { channel, member } => {
                assert!(self.channels.contains_key(&channel));
                self.members.insert((channel, member.pubkey), member);
            }
            Write::RemoveMember {
                channel,
                pubkey,
                access_stamp,
            } => {
                let before = self.members.remove(&(channel, pubkey)).expect("a member");
                assert!(before.access_stamp < access_stamp, "access stamps rise");
                self.removed.insert((channel, pubkey), access_stamp);
            }
            Write::CreateHead { artifact, head } => {
                assert_eq!(
                    self.heads.insert(artifact, *head),
                    None,
                    "the id was never used"
                );
            }
            Write::AdvanceHead {
                artifact,
                prev,
                head,
            } => {
                let before = self
                    .heads
                    .insert(artifact, *head)
                    .expect("the artifact exists");
                assert_eq!(before.event, prev, "prev is current");
            }
            Write::Accept { event, author, .. } => {
                assert_eq!(self.accepted.insert(event, author), None, "accepted once");
            }
            Write::NoticeStamp {
                recipient,
                created_at,
            } => {
                let stamp = self.notice_stamps.entry(recipient).or_default();
                assert!(
                    *stamp <= created_at,
                    "notices of one recipient do not go back"
                );
                *stamp = created_at;
            }
            Write::Ledger(row) => {
                assert!(self.next_position() <= row.position, "positions rise");
                assert!(row.change != Change::Event || row.event.is_some());
                self.ledger.push(row);
            }
        }
    }

    fn store(&mut self, stored: StoredEvent) {
        if let Some(slot) = &stored.slot {
            assert_eq!(self.in_slot(slot), None, "one readable event in a slot");
        }
        if let Some(channel) = stored.channel {
            assert!(
                self.channels.contains_key(&channel),
                "a channel's event needs the channel"
            );
        }
        let id = stored.event.id;
        let before = self.events.insert(
            id,
            Kept {
                stored,
                withheld: None,
            },
        );
        assert_eq!(before, None, "ids are new");
    }
}
