//! The store of these tests: the model of the acceptance room with four channels, and with what happens to revisions outside
//! their acceptance: redaction and retention.

use std::ops::{Deref, DerefMut};

use super::{ARTIFACT, HOME, SIGNED_AT, key};
use crate::accept::model::{Kept, Model};
use crate::accept::{Decision, Head, Profile, StoredEvent, WithheldCause};
use crate::channel::{Channel, ChannelType, Member, Role, Visibility};
use crate::ids::{ArtifactId, ChannelId, Position};
use crate::nostr::{Draft, Event, EventId, Kind, SecretKey, kinds};

/// A [`Model`] whose clock stands still, so that two of them are equal when nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Desk(Model);

impl Deref for Desk {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.0
    }
}

impl DerefMut for Desk {
    fn deref_mut(&mut self) -> &mut Model {
        &mut self.0
    }
}

impl Desk {
    /// Puts an empty channel there.
    fn channel(&mut self, id: ChannelId, visibility: Visibility) {
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
        self.channels.insert(id, channel);
    }

    /// Changes a channel that is there.
    pub(super) fn edit(&mut self, id: ChannelId, change: impl FnOnce(&mut Channel)) {
        change(self.channels.get_mut(&id).unwrap());
    }

    /// Gives a key a role in a channel.
    pub(super) fn join(&mut self, channel: ChannelId, member: &SecretKey, role: Role) {
        let pubkey = member.public_key();
        let member = Member {
            joined_at_us: 0,
            pubkey,
            role,
            access_stamp: Position(1),
        };
        self.members.insert((channel, pubkey), member);
    }

    /// Ends a membership.
    pub(super) fn leave(&mut self, channel: ChannelId, member: &SecretKey) {
        self.members.remove(&(channel, member.public_key()));
    }

    /// Stores a channel event of this kind by the first key, whoever may write there.
    pub(super) fn message(&mut self, channel: ChannelId, kind: Kind) -> EventId {
        let event = chat(
            &key(1),
            channel,
            kind,
            &format!("message {}", self.events.len()),
        );
        let id = event.id;
        let stored = StoredEvent::new(event, Some(channel), Position(0));
        self.events.insert(
            id,
            Kept {
                stored,
                withheld: None,
            },
        );
        id
    }

    /// Sends an event and applies what is to be written.
    pub(super) fn submit(&mut self, event: &Event) -> Decision {
        let clock_us = self.clock_us;
        let decision = self.submit_as(event.clone(), [event.pubkey].into());
        self.clock_us = clock_us;
        decision
    }

    /// What would become of an event.
    pub(super) fn decide(&self, event: &Event) -> Decision {
        self.clone().submit(event)
    }

    /// Sends a revision that must be accepted.
    pub(super) fn accept(&mut self, event: &Event) -> EventId {
        let decision = self.submit(event);
        assert!(matches!(decision, Decision::Write { .. }), "{decision:?}");
        event.id
    }

    /// Withholds an event: the redaction of a revision, the removal of a message.
    pub(super) fn withhold(&mut self, event: EventId) {
        if let Some(kept) = self.events.get_mut(&event) {
            kept.withheld = Some(WithheldCause::Removed);
        }
    }

    /// Expires the bodies of all events but current revisions.
    pub(super) fn expire(&mut self) {
        let current: Vec<EventId> = self.heads.values().map(|head| head.event).collect();
        self.events.retain(|id, _| current.contains(id));
    }

    /// The head of the artifact that revisions speak of unless they say otherwise.
    pub(super) fn head(&self) -> &Head {
        &self.heads[&ARTIFACT.parse::<ArtifactId>().unwrap()]
    }

    /// A stored event.
    pub(super) fn body(&self, id: EventId) -> &StoredEvent {
        &self.events[&id].stored
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
    let mut desk = Desk(Model::new(Profile::Workspace));
    // Not the second at which the revisions are signed.
    desk.clock_us += 7_000_000;
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
