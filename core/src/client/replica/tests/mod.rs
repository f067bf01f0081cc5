//! Scenarios of the replica, one file per concern, and the harness they share: a replica whose every input is written out.

mod attempts;
mod entries;
mod properties;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::*;
use crate::ids::ArtifactId;
use crate::nostr::{Event, EventId, Kind, PubKey, Signature};
use crate::rules;

const CHANNEL: &str = "9b353519-f4fe-4757-aef4-bec6cc0ae54c";
const ELSEWHERE: &str = "5b7e3c1a-0d2f-4e6b-8a9c-1f2e3d4c5b6a";

fn filter() -> ArtifactFilter {
    let text = format!(r##"{{"artifact":"current","#h":["{CHANNEL}"],"#project":["A","B"]}}"##);
    ArtifactFilter::from_json(&text).unwrap()
}

fn config() -> Config {
    Config::new(filter(), "t").unwrap()
}

/// The nth artifact.
fn artifact(n: u8) -> ArtifactId {
    format!("04737c81-e5e8-4412-bb47-f446813cfe{n:02x}")
        .parse()
        .unwrap()
}

fn event(id: u8, kind: Kind, tags: &[[&str; 2]]) -> Arc<Event> {
    Arc::new(Event {
        id: EventId::from_bytes([id; 32]),
        pubkey: PubKey::from_bytes([7; 32]),
        created_at: 1_700_000_000,
        kind,
        tags: tags
            .iter()
            .map(|tag| tag.map(str::to_owned).to_vec())
            .collect(),
        content: String::new(),
        sig: Signature::from_bytes([0; 64]),
    })
}

/// A head of the nth artifact with this id, op, home and project.
fn revision(n: u8, id: u8, op: &str, h: &str, project: &str) -> Arc<Event> {
    let d = artifact(n).to_string();
    event(
        id,
        kinds::ARTIFACT,
        &[
            ["d", &d],
            ["h", h],
            ["op", op],
            ["type", "acme.task"],
            ["project", project],
        ],
    )
}

/// A head of the nth artifact that matches.
fn head(n: u8, id: u8) -> Arc<Event> {
    revision(n, id, "update", CHANNEL, "A")
}

/// The relay's word that the nth artifact left the channel.
fn moved(n: u8) -> Arc<Event> {
    let d = artifact(n).to_string();
    event(200 + n, kinds::ARTIFACT_MOVED, &[["d", &d], ["h", CHANNEL]])
}

fn offer(max_events: u32) -> Option<SyncCapability> {
    NonZeroU32::new(max_events).map(|max_events| SyncCapability { max_events })
}

/// A replica with the time and a random value that changes with every use.
struct Desk {
    replica: Replica,
    now_ms: u64,
    jitter: u64,
}

impl Desk {
    fn new(config: Config) -> Desk {
        Desk {
            replica: Replica::new(config),
            now_ms: 1_000,
            jitter: 1,
        }
    }

    /// A replica that follows and has reached EOSE with these heads.
    fn live(config: Config, heads: &[Arc<Event>]) -> Desk {
        let mut desk = Desk::new(config);
        desk.open(Mode::Follow);
        for head in heads {
            desk.hear_event(Arc::clone(head));
        }
        assert_eq!(desk.hear_eose(), [Effect::Replaced]);
        desk
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        let now = Now {
            mono_ms: self.now_ms,
            wall_secs: 0,
        };
        let mut effects = Vec::new();
        self.replica.step(now, input, &mut effects);
        effects
    }

    fn random(&mut self) -> u64 {
        self.jitter = self
            .jitter
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        self.jitter
    }

    fn start(&mut self, mode: Mode) -> Vec<Effect> {
        let jitter = self.random();
        self.step(Input::Start { mode, jitter })
    }

    /// Starts, connects, and returns the id of the REQ.
    fn open(&mut self, mode: Mode) -> SubId {
        assert_eq!(self.start(mode), [Effect::Connect]);
        self.connect()
    }

    fn connect(&mut self) -> SubId {
        let effects = self.step(Input::Connected { sync: offer(100) });
        request(&effects)
    }

    fn wake(&mut self) -> Vec<Effect> {
        let jitter = self.random();
        self.step(Input::Woken { jitter })
    }

    /// Lets the time pass until the replica wants to be woken, and wakes it.
    fn wake_when_due(&mut self) -> Vec<Effect> {
        self.now_ms = self.replica.next_wakeup().unwrap().at_mono_ms;
        self.wake()
    }

    fn sub(&self) -> SubId {
        self.replica.sub().unwrap().clone()
    }

    fn hear_event(&mut self, event: Arc<Event>) -> Vec<Effect> {
        let sub = self.sub();
        self.step(Input::Heard(SyncFrame::Event { sub, event }))
    }

    fn hear_eose(&mut self) -> Vec<Effect> {
        let sub = self.sub();
        self.step(Input::Heard(SyncFrame::Eose { sub }))
    }

    fn hear_closed(&mut self, message: &str) -> Vec<Effect> {
        let sub = self.sub().to_string();
        let message = message.to_owned();
        self.step(Input::Heard(SyncFrame::Closed { sub, message }))
    }

    /// The local set as artifact and head id.
    fn held(&self) -> Option<BTreeMap<ArtifactId, EventId>> {
        let set = self.replica.set()?;
        Some(
            set.iter()
                .map(|(artifact, head)| (artifact, head.id))
                .collect(),
        )
    }
}

/// The id of the one REQ among the effects.
fn request(effects: &[Effect]) -> SubId {
    let subs: Vec<&SubId> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Req { sub, .. } => Some(sub),
            _ => None,
        })
        .collect();
    let [sub] = subs[..] else {
        panic!("one REQ: {effects:?}");
    };
    sub.clone()
}

fn ids(pairs: &[(u8, u8)]) -> Option<BTreeMap<ArtifactId, EventId>> {
    let pair = |(n, id): &(u8, u8)| (artifact(*n), EventId::from_bytes([*id; 32]));
    Some(pairs.iter().map(pair).collect())
}
