//! Tests of this room, written from the rules. This file builds the town they share: channels of every sort, three people, and
//! the same few events in each channel.

mod artifacts;
mod conditions;
mod gates;
mod index;
mod notices;
mod properties;
mod reach;

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Access, Audience, ReadPlan, Refusal, Row, admits, compile, compile_artifact, head_matches,
};
use crate::channel::{Channel, ChannelType, Role, Visibility};
use crate::ids::{ChannelId, CommunityId, Position, UnixSeconds, Uuid};
use crate::nostr::{ArtifactFilter, Event, EventId, Filter, Kind, PubKey, Signature, Tag};

/// Owner and creator of every channel but `club`.
pub(super) const ANN: PubKey = PubKey::from_bytes([0xa1; 32]);
/// Member of `club`, `side`, `vault`, `board` and `gone`; creator of `club`.
pub(super) const BOB: PubKey = PubKey::from_bytes([0xb2; 32]);
/// Member of nothing.
pub(super) const EVE: PubKey = PubKey::from_bytes([0xe3; 32]);

/// The database clock of these tests.
pub(super) const CLOCK_SECS: UnixSeconds = 1_700_000_000;

pub(super) fn community() -> CommunityId {
    CommunityId(Uuid::from_bytes([7; 16]).unwrap())
}

pub(super) fn keys(list: &[PubKey]) -> BTreeSet<PubKey> {
    list.iter().copied().collect()
}

/// An event with an id of its own; nothing in this room looks at signatures.
pub(super) fn event(number: u8, kind: Kind, author: PubKey, tags: &[&[&str]]) -> Event {
    Event {
        id: EventId::from_bytes([number; 32]),
        pubkey: author,
        created_at: CLOCK_SECS - 100,
        kind,
        tags: tags
            .iter()
            .map(|tag| tag.iter().map(|&part| part.to_owned()).collect::<Tag>())
            .collect(),
        content: String::new(),
        sig: Signature::from_bytes([0; 64]),
    }
}

/// A row under a name by which tests speak of it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) event: Event,
    pub(super) channel: Option<ChannelId>,
    pub(super) audience: Audience,
    pub(super) is_head: bool,
}

impl Stored {
    /// A row in no channel.
    pub(super) fn global(name: &str, event: Event) -> Stored {
        Stored {
            name: name.to_owned(),
            event,
            channel: None,
            audience: Audience::Readers,
            is_head: false,
        }
    }

    pub(super) fn row(&self, live: bool) -> Row<'_> {
        Row {
            event: &self.event,
            channel: self.channel,
            audience: self.audience,
            is_head: self.is_head,
            live,
        }
    }
}

/// Channels, memberships and rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Town {
    pub(super) channels: BTreeMap<ChannelId, Channel>,
    pub(super) roles: BTreeMap<(ChannelId, PubKey), Role>,
    pub(super) rows: Vec<Stored>,
}

/// The channels by name. `board` has a type that a later release invented.
const CHANNELS: [(&str, &str, Visibility, bool); 8] = [
    ("plaza", "stream", Visibility::Open, false),
    ("club", "stream", Visibility::Private, false),
    ("side", "forum", Visibility::Open, true),
    ("vault", "system", Visibility::Private, false),
    ("lobby", "system", Visibility::Open, false),
    ("shed", "system", Visibility::Open, true),
    ("board", "kanban", Visibility::Open, false),
    ("gone", "stream", Visibility::Open, false),
];

/// The id of a channel of the town.
pub(super) fn id(name: &str) -> ChannelId {
    let number = CHANNELS.iter().position(|entry| entry.0 == name).unwrap();
    ChannelId(Uuid::from_bytes([0xa0 + u8::try_from(number).unwrap(); 16]).unwrap())
}

impl Town {
    /// The town with a 9, a 39000 and a 39002 in each channel, named like `plaza/9`. The 39000 of `vault` and of `club` are
    /// labelled `config`.
    pub(super) fn new() -> Town {
        let mut town = Town::default();
        for (number, (name, type_name, visibility, unlisted)) in CHANNELS.into_iter().enumerate() {
            let (at, creator) = (id(name), if name == "club" { BOB } else { ANN });
            town.channels
                .insert(at, channel(at, type_name, visibility, unlisted));
            town.roles.insert((at, ANN), Role::Owner);
            if matches!(name, "club" | "side" | "vault" | "board" | "gone") {
                town.roles.insert((at, BOB), Role::Guest);
            }
            let first = u8::try_from(10 * number + 10).unwrap();
            let (here, ann, bob) = (at.to_string(), ANN.to_string(), BOB.to_string());
            let made_by = creator.to_string();
            let mut state: Vec<&[&str]> = Vec::new();
            let identity = [["d", &here], ["t", type_name], ["P", &made_by]];
            state.extend(identity.iter().map(|tag| tag.as_slice()));
            let (first_member, second_member) = (["p", &ann], ["p", &bob]);
            let mut roster = state.clone();
            roster.push(&first_member);
            if town.roles.contains_key(&(at, BOB)) {
                roster.push(&second_member);
            }
            if matches!(name, "vault" | "club") {
                state.push(&["t", "config"]);
            }
            town.put(name, event(first, 9, ANN, &[&["h", &here]]));
            town.put(name, event(first + 1, 39_000, EVE, &state));
            town.put(name, event(first + 2, 39_002, EVE, &roster));
        }
        let gone = town.channels.get_mut(&id("gone")).unwrap();
        gone.deleted = true;
        town
    }

    /// Adds a row to a channel, named after channel and kind.
    pub(super) fn put(&mut self, channel: &str, event: Event) -> &mut Stored {
        let name = format!("{channel}/{}", event.kind);
        self.rows.push(Stored {
            channel: Some(id(channel)),
            ..Stored::global(&name, event)
        });
        self.rows.last_mut().unwrap()
    }

    /// Whether the row belongs to the plan's answer.
    pub(super) fn admits(&self, plan: &ReadPlan, stored: &Stored, live: bool) -> bool {
        let roles = |key: PubKey| {
            let channel = stored
                .channel
                .expect("roles are asked for rows with a channel only");
            self.roles.get(&(channel, key)).copied()
        };
        let access = Access {
            channel: stored.channel.and_then(|at| self.channels.get(&at)),
            roles: &roles,
        };
        admits(plan, &stored.row(live), &access, CLOCK_SECS)
    }

    /// The names of the rows that the plan returns.
    pub(super) fn select(&self, plan: &ReadPlan, live: bool) -> Vec<&str> {
        let answer = self.rows.iter().filter(|row| self.admits(plan, row, live));
        answer.map(|row| row.name.as_str()).collect()
    }

    /// The names of the rows that a filter returns, which must be the same from the store and live.
    pub(super) fn answer(&self, readers: &[PubKey], filter: &str) -> Vec<&str> {
        let plan = plan(readers, filter).unwrap();
        let stored = self.select(&plan, false);
        assert_eq!(
            stored,
            self.select(&plan, true),
            "stored and live: {filter}"
        );
        stored
    }

    /// The names of the rows that an artifact filter returns.
    pub(super) fn artifacts(&self, readers: &[PubKey], filter: &str) -> Vec<&str> {
        self.select(&artifact_plan(readers, filter), false)
    }
}

fn channel(id: ChannelId, type_name: &str, visibility: Visibility, unlisted: bool) -> Channel {
    Channel {
        id,
        channel_type: ChannelType::from_stored(type_name),
        visibility,
        unlisted,
        name: String::new(),
        about: String::new(),
        topic: String::new(),
        purpose: String::new(),
        creator: Some(ANN),
        created_at: 1,
        archived: false,
        deleted: false,
        access_stamp: Position(1),
    }
}

/// The plan of a filter in which `$name` stands for the id of a channel, and `$ann`, `$bob`, `$eve` for keys.
pub(super) fn plan(readers: &[PubKey], filter: &str) -> Result<ReadPlan, Refusal> {
    let filter = Filter::from_json(&spelled(filter)).unwrap();
    compile(community(), &keys(readers), &filter)
}

/// The plan of an artifact filter, written like that of [`plan`].
pub(super) fn artifact_plan(readers: &[PubKey], filter: &str) -> ReadPlan {
    let filter = ArtifactFilter::from_json(&spelled(filter)).unwrap();
    compile_artifact(community(), &keys(readers), &filter).unwrap()
}

fn spelled(filter: &str) -> String {
    let mut text = filter.to_owned();
    for (name, ..) in CHANNELS {
        text = text.replace(&format!("${name}"), &id(name).to_string());
    }
    for (name, key) in [("$ann", ANN), ("$bob", BOB), ("$eve", EVE)] {
        text = text.replace(name, &key.to_string());
    }
    assert!(!text.contains('$'), "an unknown name in {filter}");
    text
}
