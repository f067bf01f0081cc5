//! Scenarios of the node, one file per concern, and the harness they share: a node whose every input is written out.

mod bus;
mod connections;
mod properties;
mod requests;
mod subscriptions;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::accept::{Change, Policy, Profile, RelayKey};
use crate::channel::{Channel, ChannelType, Role, Visibility};
use crate::ids::{ChannelId, Position};
use crate::nostr::{ClientMessage, Draft, Event, Filter, PubKey, SecretKey, SubId, WebUrl};
use crate::scope::{Audience, Cut, Stamp};
use crate::sync::StoreGeneration;

pub(super) const COMMUNITY: &str = "11111111-1111-4111-8111-111111111111";
pub(super) const CHANNEL: &str = "9b353519-f4fe-4757-aef4-bec6cc0ae54c";
pub(super) const RELAY: &str = "ws://relay.example";

/// A node under test with the time and the effects of its last input.
pub(super) struct Bench {
    pub(super) node: Node,
    pub(super) now: Now,
}

pub(super) fn secret(n: u8) -> SecretKey {
    SecretKey::from_bytes([n; 32]).expect("a small number is a valid secret key")
}

pub(super) fn config(profile: Profile) -> Config {
    Config::new(Policy {
        profile,
        relay_key: RelayKey::new(secret(200)),
    })
}

pub(super) fn community() -> CommunityId {
    COMMUNITY.parse().expect("a canonical UUID")
}

pub(super) fn channel_id() -> ChannelId {
    CHANNEL.parse().expect("a canonical UUID")
}

pub(super) fn sub(id: &str) -> SubId {
    SubId::new(id).expect("a short id")
}

pub(super) fn note(author: u8, created_at: u64, tags: &[&[&str]], content: &str) -> Event {
    let tags = tags
        .iter()
        .map(|tag| tag.iter().map(|part| (*part).to_owned()).collect())
        .collect();
    Draft {
        created_at,
        kind: 9,
        tags,
        content: content.to_owned(),
    }
    .sign(&secret(author))
}

pub(super) fn channel(visibility: Visibility) -> Channel {
    Channel {
        id: channel_id(),
        channel_type: ChannelType::Stream,
        visibility,
        unlisted: false,
        name: "general".to_owned(),
        about: String::new(),
        topic: String::new(),
        purpose: String::new(),
        creator: Some(secret(1).public_key()),
        created_at: 1,
        archived: false,
        deleted: false,
        access_stamp: Position(1),
    }
}

impl Bench {
    /// A node with the bus up on generation 1 and a first ledger cursor at position 0.
    pub(super) fn new(profile: Profile) -> Bench {
        Bench::with(config(profile))
    }

    pub(super) fn with(config: Config) -> Bench {
        let mut bench = Bench {
            node: Node::new(config),
            now: Now {
                mono_ms: 1_000,
                wall_secs: 1_800_000_000,
            },
        };
        let effects = bench.step(Input::BusUp {
            generation: BusGeneration(1),
        });
        let op = ledger_op(&effects).expect("a fresh node asks for a cursor");
        let page = LedgerPage {
            store: StoreGeneration(0),
            signals: Vec::new(),
            cursor: Cut::Position(Position(0)),
            more: false,
        };
        bench.step(Input::Ledger { op, page: Ok(page) });
        bench
    }

    pub(super) fn step(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.node.step(self.now, input, &mut effects);
        effects
    }

    pub(super) fn after(&mut self, ms: u64) -> Vec<Effect> {
        self.now.mono_ms += ms;
        self.step(Input::Woken)
    }

    pub(super) fn connect(&mut self, conn: u64) -> Vec<Effect> {
        self.step(Input::Connected {
            conn: ConnId(conn),
            community: community(),
            relay_url: RELAY.parse::<WebUrl>().expect("a relay URL"),
            challenge: "c".repeat(64),
        })
    }

    pub(super) fn auth_event(&self, key: u8) -> Event {
        let tags = vec![
            vec!["relay".to_owned(), RELAY.to_owned()],
            vec!["challenge".to_owned(), "c".repeat(64)],
        ];
        Draft {
            created_at: self.now.wall_secs,
            kind: 22_242,
            tags,
            content: String::new(),
        }
        .sign(&secret(key))
    }

    pub(super) fn auth(&mut self, conn: u64, key: u8) -> Vec<Effect> {
        let event = Box::new(self.auth_event(key));
        self.say(conn, ClientMessage::Auth(event))
    }

    pub(super) fn say(&mut self, conn: u64, message: ClientMessage) -> Vec<Effect> {
        self.step(Input::Message {
            conn: ConnId(conn),
            message: Ok(message),
        })
    }

    pub(super) fn req(&mut self, conn: u64, id: &str, filters: &[&str]) -> Vec<Effect> {
        let filters = filters
            .iter()
            .map(|text| Filter::from_json(text).expect("a valid filter"))
            .collect();
        self.say(
            conn,
            ClientMessage::Req {
                sub: sub(id),
                filters,
            },
        )
    }

    /// A member's connection 1 that has authenticated with key 1.
    pub(super) fn member(profile: Profile) -> Bench {
        let mut bench = Bench::new(profile);
        bench.connect(1);
        bench.auth(1, 1);
        bench
    }

    /// Opens subscription `id` on `{"#h":[channel]}` up to its open history; returns the read's name.
    pub(super) fn open(&mut self, conn: u64, id: &str) -> OpId {
        let filter = format!(r##"{{"kinds":[9],"#h":["{CHANNEL}"]}}"##);
        let mut effects = self.req(conn, id, &[&filter]);
        if history_op(&effects).is_none() {
            effects = self.step(Input::TopicActive {
                topic: topic(),
                generation: BusGeneration(1),
            });
        }
        history_op(&effects).expect("the history opens once the topic is confirmed")
    }

    /// Answers a history with no rows and a cut at `upto`.
    pub(super) fn end_history(&mut self, op: OpId, upto: u64) -> Vec<Effect> {
        self.step(Input::Page {
            op,
            page: Ok(last_page(&[], upto)),
        })
    }

    /// Announces positions on the channel's topic.
    pub(super) fn announce(&mut self, positions: &[u64]) -> Vec<Effect> {
        let signals = positions
            .iter()
            .map(|position| signal(*position, Change::Event))
            .collect();
        self.step(Input::BusMessage {
            topic: topic(),
            message: BusMessage::Signals(signals),
        })
    }

    /// Answers a live read with these events, all in the open channel.
    pub(super) fn live(&mut self, op: OpId, events: &[(u64, &Event)]) -> Vec<Effect> {
        self.step(Input::Live {
            op,
            rows: Ok(rows(events, Visibility::Open, &[])),
        })
    }
}

pub(super) fn topic() -> Topic {
    Topic::Channel(community(), channel_id())
}

pub(super) fn signal(position: u64, change: Change) -> Signal {
    Signal {
        xid: 0,
        position: Position(position),
        change,
        channel: Some(channel_id()),
        artifact: None,
        key: None,
    }
}

pub(super) fn rows(
    events: &[(u64, &Event)],
    visibility: Visibility,
    roles: &[(PubKey, Role)],
) -> LiveRows {
    LiveRows {
        rows: events
            .iter()
            .map(|(position, event)| {
                let stamp = Stamp {
                    position: Position(*position),
                    xid: 0,
                };
                let event = Arc::new((*event).clone());
                let row = StoredRow {
                    stamp,
                    event,
                    channel: Some(channel_id()),
                    audience: Audience::Readers,
                };
                (Position(*position), row)
            })
            .collect(),
        channels: [(channel_id(), channel(visibility))].into(),
        roles: roles
            .iter()
            .map(|(key, role)| ((channel_id(), *key), *role))
            .collect(),
        left: BTreeSet::new(),
        clock_secs: 1_800_000_000,
    }
}

pub(super) fn history_rows(events: &[&Event]) -> Vec<HistoryRow> {
    events
        .iter()
        .map(|event| HistoryRow {
            id: event.id,
            json: Arc::from(event.to_json()),
        })
        .collect()
}

pub(super) fn last_page(events: &[&Event], upto: u64) -> HistoryPage {
    HistoryPage {
        rows: history_rows(events),
        end: Some(Cut::Position(Position(upto))),
        readable: [channel_id()].into(),
    }
}

pub(super) fn history_op(effects: &[Effect]) -> Option<OpId> {
    effects.iter().find_map(|effect| match effect {
        Effect::OpenHistory { op, .. } => Some(*op),
        _ => None,
    })
}

pub(super) fn live_op(effects: &[Effect]) -> Option<OpId> {
    effects.iter().find_map(|effect| match effect {
        Effect::ReadLive { op, .. } => Some(*op),
        _ => None,
    })
}

pub(super) fn submit_op(effects: &[Effect]) -> Option<OpId> {
    effects.iter().find_map(|effect| match effect {
        Effect::Submit { op, .. } => Some(*op),
        _ => None,
    })
}

pub(super) fn ledger_op(effects: &[Effect]) -> Option<OpId> {
    effects.iter().find_map(|effect| match effect {
        Effect::ReadLedger { op, .. } => Some(*op),
        _ => None,
    })
}

/// The frames of a list of effects, as text.
pub(super) fn frames(effects: &[Effect]) -> Vec<String> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { frame, .. } => Some(frame.to_text()),
            _ => None,
        })
        .collect()
}

pub(super) fn has_note(effects: &[Effect], note: Note) -> bool {
    effects.contains(&Effect::Note(note))
}

pub(super) fn credits(effects: &[Effect]) -> usize {
    effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Credit { .. }))
        .count()
}
