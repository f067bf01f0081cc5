//! A store of the simplest kind for these tests: it answers the view of a plan, applies writes, and checks what every store
//! guarantees. Channels and memberships are set directly.

use std::collections::{BTreeMap, BTreeSet};

use super::{ARTIFACT, HOME, SIGNED_AT, key};
use crate::accept::{
    AnchorFacts, ChannelView, Decision, Head, Known, LedgerRow, Policy, Profile, RelayKey,
    Standing, StateStamps, StoredEvent, Submission, View, Write, admit, decide, plan,
};
use crate::channel::{Channel, ChannelType, Role, Visibility};
use crate::ids::{ArtifactId, ChannelId, CommunityId, Position, Uuid};
use crate::nostr::{Draft, Event, EventId, Kind, PubKey, SecretKey, kinds};

/// Microseconds of the store's clock; not the second the revisions are signed at.
pub(super) const CLOCK_US: u64 = (SIGNED_AT + 7) * 1_000_000 + 345;

/// The relay's own key.
pub(super) fn relay_key() -> RelayKey {
    RelayKey::new(key(200))
}

/// What the store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Desk {
    pub(super) channels: BTreeMap<ChannelId, Channel>,
    pub(super) roles: BTreeMap<(ChannelId, PubKey), Role>,
    pub(super) standings: BTreeMap<PubKey, Standing>,
    pub(super) heads: BTreeMap<ArtifactId, Head>,
    /// Accepted revisions in their order.
    pub(super) accepted: Vec<EventId>,
    pub(super) bodies: BTreeMap<EventId, StoredEvent>,
    pub(super) withheld: BTreeSet<EventId>,
    pub(super) deleted_in_advance: BTreeSet<EventId>,
    pub(super) rows: Vec<LedgerRow>,
}

impl Desk {
    /// Puts an empty channel there.
    pub(super) fn channel(&mut self, id: ChannelId, visibility: Visibility) -> &mut Channel {
        let channel = Channel {
            id,
            channel_type: ChannelType::Stream,
            visibility,
            unlisted: false,
            name: "channel".to_owned(),
            about: String::new(),
            topic: String::new(),
            purpose: String::new(),
            creator: None,
            created_at: SIGNED_AT,
            archived: false,
            deleted: false,
            access_stamp: Position(1),
        };
        self.channels.entry(id).insert_entry(channel).into_mut()
    }

    /// Changes a channel that is there.
    pub(super) fn edit(&mut self, id: ChannelId, change: impl FnOnce(&mut Channel)) {
        change(
            self.channels
                .get_mut(&id)
                .expect("the test made the channel"),
        );
    }

    /// Gives a key a role in a channel.
    pub(super) fn join(&mut self, channel: ChannelId, member: &SecretKey, role: Role) {
        self.roles.insert((channel, member.public_key()), role);
    }

    /// Ends a membership.
    pub(super) fn leave(&mut self, channel: ChannelId, member: &SecretKey) {
        self.roles.remove(&(channel, member.public_key()));
    }

    /// Stores a channel event of this kind by the first key, whoever may write there.
    pub(super) fn message(&mut self, channel: ChannelId, kind: Kind) -> EventId {
        let event = chat(
            &key(1),
            channel,
            kind,
            &format!("message {}", self.bodies.len()),
        );
        let stored = StoredEvent::new(event.clone(), Some(channel), self.next_position());
        self.bodies.insert(event.id, stored);
        event.id
    }

    /// What becomes of an event, without applying it.
    pub(super) fn decide(&self, event: &Event) -> Decision {
        let policy = Policy {
            profile: Profile::Workspace,
            relay_key: relay_key(),
        };
        let submission = submission(event);
        if let Err(rejection) = admit(&submission, &policy) {
            return Decision::Reject(rejection);
        }
        decide(&submission, &self.view(&submission), &policy)
    }

    /// Decides about an event and applies what is to be written.
    pub(super) fn submit(&mut self, event: &Event) -> Decision {
        let decision = self.decide(event);
        if let Decision::Write { writes, message } = &decision {
            assert_eq!(message, "");
            let positions = plan(&submission(event)).view.positions;
            let rows = writes
                .iter()
                .filter(|write| matches!(write, Write::Ledger(_)))
                .count();
            assert!(rows >= 1 && rows as u32 <= positions);
            writes.iter().for_each(|write| self.apply(write));
        }
        decision
    }

    /// Decides about a revision that must be accepted.
    pub(super) fn accept(&mut self, event: &Event) -> EventId {
        let decision = self.submit(event);
        assert!(matches!(decision, Decision::Write { .. }), "{decision:?}");
        event.id
    }

    /// The redaction of a revision (9005), as the store leaves it.
    pub(super) fn redact(&mut self, revision: EventId) {
        self.withheld.insert(revision);
        for head in self
            .heads
            .values_mut()
            .filter(|head| head.event == revision)
        {
            head.redacted = true;
        }
    }

    /// The end of a body under a retention policy, as the store leaves it.
    pub(super) fn expire(&mut self, revision: EventId) {
        self.bodies.remove(&revision);
    }

    /// The head of the artifact that revisions speak of unless they say otherwise.
    pub(super) fn head(&self) -> &Head {
        &self.heads[&ARTIFACT.parse::<ArtifactId>().unwrap()]
    }

    fn view(&self, submission: &Submission) -> View {
        let (event, plan) = (&submission.event, plan(submission));
        let head = plan
            .view
            .artifact
            .and_then(|artifact| self.heads.get(&artifact))
            .cloned();
        let mut wanted = plan.view.channels.clone();
        wanted.extend(head.as_ref().map(|head| head.home));
        let known = if self.accepted.contains(&event.id) || self.bodies.contains_key(&event.id) {
            Known::Accepted
        } else {
            Known::New
        };
        View {
            clock_us: CLOCK_US,
            first_position: self.next_position(),
            standing: self
                .standings
                .get(&event.pubkey)
                .cloned()
                .unwrap_or_else(Standing::fine),
            known,
            deleted: self.deleted_in_advance.contains(&event.id),
            channels: wanted
                .into_iter()
                .filter_map(|id| Some((id, self.seen(id, event)?)))
                .collect(),
            head,
            anchor: plan.view.anchor.and_then(|id| self.anchor(id)),
            targets: BTreeMap::new(),
            target_slots: BTreeMap::new(),
            slot: None,
            slot_deleted_until: None,
            roster: Vec::new(),
            state: StateStamps::default(),
            notice_stamps: BTreeMap::new(),
        }
    }

    fn seen(&self, id: ChannelId, event: &Event) -> Option<ChannelView> {
        let role = self.roles.get(&(id, event.pubkey)).copied();
        Some(ChannelView {
            channel: self.channels.get(&id)?.clone(),
            role,
        })
    }

    fn anchor(&self, id: EventId) -> Option<AnchorFacts> {
        let stored = self.bodies.get(&id)?;
        Some(AnchorFacts {
            kind: stored.event.kind,
            channel: stored.channel,
            withheld: self.withheld.contains(&id),
        })
    }

    fn next_position(&self) -> Position {
        self.rows
            .last()
            .map_or(Position(1), |row| row.position.plus(1))
    }

    fn apply(&mut self, write: &Write) {
        match write {
            Write::Store(stored) => {
                let old = self.bodies.insert(stored.event.id, (**stored).clone());
                assert_eq!(old, None, "a stored id is new");
            }
            Write::Accept { event, .. } => {
                assert!(!self.accepted.contains(event), "accepted once");
                self.accepted.push(*event);
            }
            Write::CreateHead { artifact, head } => {
                let old = self.heads.insert(*artifact, (**head).clone());
                assert_eq!(old, None, "an id is used once");
            }
            Write::AdvanceHead {
                artifact,
                prev,
                head,
            } => {
                let old = self.heads.insert(*artifact, (**head).clone());
                assert_eq!(old.map(|old| old.event), Some(*prev), "prev is current");
            }
            Write::Ledger(row) => {
                assert!(row.position >= self.next_position());
                self.rows.push(row.clone());
            }
            other => panic!("not a write of a revision: {other:?}"),
        }
    }
}

fn submission(event: &Event) -> Submission {
    Submission {
        community: CommunityId(Uuid::from_bytes([9; 16]).unwrap()),
        event: event.clone(),
        keys: [event.pubkey].into(),
        received_at: SIGNED_AT,
    }
}

/// The private channel the tests begin in: the first two keys write, the third only reads.
pub(super) fn home() -> ChannelId {
    HOME.parse().unwrap()
}

/// A private channel that only the first key may write in; the third reads.
pub(super) fn room() -> ChannelId {
    "22222222-2222-4222-8222-222222222222".parse().unwrap()
}

/// An open channel without members.
pub(super) fn hall() -> ChannelId {
    "33333333-3333-4333-8333-333333333333".parse().unwrap()
}

/// A private channel of the fourth key, who is nowhere else.
pub(super) fn vault() -> ChannelId {
    "44444444-4444-4444-8444-444444444444".parse().unwrap()
}

/// The four channels with their members.
pub(super) fn furnished() -> Desk {
    let mut desk = Desk::default();
    for channel in [home(), room(), vault()] {
        desk.channel(channel, Visibility::Private);
    }
    desk.channel(hall(), Visibility::Open);
    for (channel, member, role) in [
        (home(), 1, Role::Owner),
        (home(), 2, Role::Member),
        (home(), 3, Role::Guest),
        (room(), 1, Role::Member),
        (room(), 3, Role::Guest),
        (vault(), 4, Role::Owner),
    ] {
        desk.join(channel, &key(member), role);
    }
    desk
}

/// A channel event, signed at the time of the revisions.
pub(super) fn chat(author: &SecretKey, channel: ChannelId, kind: Kind, content: &str) -> Event {
    let tags = vec![vec!["h".to_owned(), channel.to_string()]];
    Draft {
        created_at: SIGNED_AT,
        kind,
        tags,
        content: content.to_owned(),
    }
    .sign(author)
}

/// A chat message, the measure of who may write (AR-ACC-7).
pub(super) fn kind_9(author: &SecretKey, channel: ChannelId) -> Event {
    chat(author, channel, kinds::CHAT, "hello")
}

/// The text of a refusal.
pub(super) fn refusal(decision: &Decision) -> &str {
    match decision {
        Decision::Reject(rejection) => rejection.text(),
        other => panic!("not refused: {other:?}"),
    }
}
