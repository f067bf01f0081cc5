//! Tests of the simulated store: what every schedule must keep, under every fault; scripted moments; the wrong variants.
//!
//! This file holds what they share: a store that is driven step by step, events of people, and a generator of choices.

mod contract;
mod moments;
mod snapshots;
mod troubles;
#[cfg(feature = "mutants")]
mod variants;

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::accept::{Policy, Profile, RelayKey, Submission};
use holdfast_core::ids::{ArtifactId, ChannelId, CommunityId, Uuid};
use holdfast_core::node::{LiveQuery, LiveRows, SubmitOutcome};
use holdfast_core::nostr::{ArtifactFilter, Draft, Event, EventId, Kind, PubKey, SecretKey, kinds};
use holdfast_core::scope::{Cut, ReadPlan, compile_artifact};
use holdfast_core::sync::{HeadQuery, HeadRows, SyncPage, SyncRequest};

use super::*;

/// The second at which every test begins.
const BEGIN_SECS: u64 = 1_800_000_000;
/// The one process of most tests.
const ONE: ProcessId = ProcessId(1);

/// A small generator (splitmix64): equal seeds give equal choices.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).expect("31 bits fit") % bound
    }

    pub(super) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

pub(super) fn key(n: u8) -> SecretKey {
    SecretKey::from_bytes([n; 32]).expect("equal bytes from 1 to 254 are below the order")
}

pub(super) fn pubkey(n: u8) -> PubKey {
    key(n).public_key()
}

fn uuid(space: u8, n: u8) -> Uuid {
    let mut bytes = [0x40; 16];
    (bytes[0], bytes[15]) = (space, n);
    Uuid::from_bytes(bytes).expect("not nil")
}

pub(super) fn community() -> CommunityId {
    CommunityId(uuid(1, 1))
}

pub(super) fn channel(n: u8) -> ChannelId {
    ChannelId(uuid(2, n))
}

pub(super) fn artifact(n: u8) -> ArtifactId {
    ArtifactId(uuid(3, n))
}

pub(super) fn config(engine: Engine) -> StoreConfig {
    let policy = Policy {
        profile: Profile::Open,
        relay_key: RelayKey::new(key(200)),
    };
    StoreConfig::new(policy, engine, [community()])
}

/// A store that is driven, and the events that people send it.
#[derive(Clone)]
pub(super) struct Driven {
    pub(super) store: Store,
    pub(super) time: StoreTime,
    sent: u64,
    /// Answers that nobody asked for yet.
    pub(super) answers: BTreeMap<TxId, Vec<Answered>>,
}

impl Driven {
    pub(super) fn new(config: StoreConfig) -> Driven {
        Driven {
            store: Store::new(config),
            time: StoreTime {
                mono_ms: 0,
                clock_us: BEGIN_SECS * 1_000_000,
            },
            sent: 0,
            answers: BTreeMap::new(),
        }
    }

    pub(super) fn begin(&mut self, op: StoreOp) -> TxId {
        self.store.begin(self.time, ONE, op)
    }

    pub(super) fn submit(&mut self, event: &Event) -> TxId {
        self.submit_from(ONE, event)
    }

    pub(super) fn submit_from(&mut self, process: ProcessId, event: &Event) -> TxId {
        let submission = Submission {
            community: community(),
            keys: BTreeSet::from([event.pubkey]),
            event: event.clone(),
            received_at: self.time.clock_us / 1_000_000,
        };
        let op = StoreOp::Submit(Box::new(submission));
        self.store.begin(self.time, process, op)
    }

    /// Takes a step and keeps its answer.
    pub(super) fn step(&mut self, tx: TxId, fault: Option<StoreFault>) -> Option<Answered> {
        self.time.clock_us += 1;
        let answer = self.store.step(self.time, tx, fault);
        if let Some(answered) = &answer {
            self.answers
                .entry(answered.tx)
                .or_default()
                .push(answered.clone());
        }
        answer
    }

    pub(super) fn kind(&self, tx: TxId) -> Option<StepKind> {
        self.store.next_step(self.time, tx)
    }

    /// Steps one operation until its next step is of this kind.
    pub(super) fn step_until(&mut self, tx: TxId, kind: StepKind) {
        for _ in 0..100 {
            if self.kind(tx) == Some(kind) {
                return;
            }
            assert!(self.kind(tx).is_some(), "{tx:?} waits, wanted {kind:?}");
            self.step(tx, None);
        }
        panic!("{tx:?} never comes to {kind:?}");
    }

    /// Steps one operation alone until it answers.
    pub(super) fn finish(&mut self, tx: TxId) -> StoreAnswer {
        for _ in 0..100 {
            assert!(self.kind(tx).is_some(), "{tx:?} waits");
            if let Some(answered) = self.step(tx, None) {
                return answered.answer;
            }
        }
        panic!("{tx:?} never answers");
    }

    pub(super) fn finish_submit(&mut self, tx: TxId) -> SubmitOutcome {
        match self.finish(tx) {
            StoreAnswer::Submitted(outcome) => outcome,
            other => panic!("not of a submission: {other:?}"),
        }
    }

    /// What is runnable of the operations that began with this one or later.
    fn steps_from(&self, first: TxId) -> Vec<StepId> {
        let mut steps = self.store.runnable(self.time);
        steps.retain(|step| step.tx >= first);
        steps
    }

    /// Submits what has to be stored, while no other submission is under way.
    pub(super) fn stored(&mut self, event: &Event) {
        let tx = self.submit(event);
        // What is detached from it has a later name.
        while let Some(step) = self.steps_from(tx).first() {
            self.step(step.tx, None);
        }
        let outcome = self.outcome(tx);
        let is_stored = matches!(outcome, Some(SubmitOutcome::Stored { .. }));
        assert!(is_stored, "{outcome:?}");
    }

    /// Steps everything, by chance, until nothing is runnable. Foreign transactions end as well.
    pub(super) fn run(&mut self, chance: &mut Chance) {
        loop {
            let steps = self.store.runnable(self.time);
            if steps.is_empty() {
                return;
            }
            let step = chance.pick(&steps);
            self.step(step.tx, None);
        }
    }

    /// The outcome of a submission that was answered.
    pub(super) fn outcome(&self, tx: TxId) -> Option<SubmitOutcome> {
        match &self.answers.get(&tx)?.first()?.answer {
            StoreAnswer::Submitted(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }

    pub(super) fn heads(
        &mut self,
        artifacts: &[ArtifactId],
        markers: &[(ArtifactId, ChannelId)],
    ) -> HeadRows {
        let query = HeadQuery {
            artifacts: artifacts.iter().copied().collect(),
            markers: markers.iter().copied().collect(),
            bytes_max: usize::MAX,
            ..HeadQuery::default()
        };
        let community = community();
        let tx = self.begin(StoreOp::Heads { community, query });
        match self.finish(tx) {
            StoreAnswer::Heads(Ok(rows)) => rows,
            other => panic!("no heads: {other:?}"),
        }
    }

    pub(super) fn live(&mut self, query: LiveQuery) -> LiveRows {
        let community = community();
        let tx = self.begin(StoreOp::Live { community, query });
        match self.finish(tx) {
            StoreAnswer::Live(Ok(rows)) => rows,
            other => panic!("no rows: {other:?}"),
        }
    }

    /// Every ledger row after a cursor, page by page, and the cursor behind them.
    pub(super) fn ledger(&mut self, after: Option<Cut>) -> (Vec<holdfast_core::node::Signal>, Cut) {
        let (mut rows, mut after) = (Vec::new(), after);
        loop {
            let tx = self.begin(StoreOp::Ledger { after });
            let page = match self.finish(tx) {
                StoreAnswer::Ledger(Ok(page)) => page,
                other => panic!("no page: {other:?}"),
            };
            rows.extend(page.signals.into_iter().map(|(_, signal)| signal));
            if !page.more {
                return (rows, page.cursor);
            }
            after = Some(page.cursor);
        }
    }

    /// Opens a sync and steps it to its first page.
    pub(super) fn open_sync(&mut self, request: SyncRequest) -> (TxId, SyncPage) {
        let tx = self.begin(StoreOp::Sync {
            request: Box::new(request),
            first: true,
        });
        match self.finish(tx) {
            StoreAnswer::SyncPage(Ok(page)) => (tx, page),
            other => panic!("no page: {other:?}"),
        }
    }

    pub(super) fn next_sync_page(&mut self, tx: TxId) -> SyncPage {
        assert!(self.store.next_sync_page(tx));
        match self.finish(tx) {
            StoreAnswer::SyncPage(Ok(page)) => page,
            other => panic!("no page: {other:?}"),
        }
    }

    // Events of people. Each differs from every other one by its content.

    pub(super) fn event(&mut self, by: u8, kind: Kind, tags: &[&[&str]]) -> Event {
        self.sent += 1;
        let tags = tags.iter().map(|elements| tag(elements)).collect();
        Draft {
            created_at: self.time.clock_us / 1_000_000,
            kind,
            tags,
            content: format!("#{}", self.sent),
        }
        .sign(&key(by))
    }

    pub(super) fn in_channel(
        &mut self,
        by: u8,
        kind: Kind,
        of: ChannelId,
        tags: &[&[&str]],
    ) -> Event {
        let h = of.to_string();
        let own: [&[&str]; 1] = [&["h", &h]];
        self.event(by, kind, &[&own, tags].concat())
    }

    pub(super) fn chat(&mut self, by: u8, of: ChannelId) -> Event {
        self.in_channel(by, kinds::CHAT, of, &[])
    }

    /// Creates a channel of key 1, with further members.
    pub(super) fn make_channel(&mut self, n: u8, visibility: &str, members: &[u8]) -> ChannelId {
        let of = channel(n);
        let tags: [&[&str]; 2] = [&["name", "a channel"], &["visibility", visibility]];
        let creation = self.in_channel(1, kinds::GROUP_CREATE, of, &tags);
        self.stored(&creation);
        for member in members {
            let put = self.put_user(1, of, *member, "member");
            self.stored(&put);
        }
        of
    }

    pub(super) fn put_user(&mut self, by: u8, of: ChannelId, who: u8, role: &str) -> Event {
        let p = pubkey(who).to_string();
        self.in_channel(
            by,
            kinds::GROUP_PUT_USER,
            of,
            &[&["p", &p], &["role", role]],
        )
    }

    pub(super) fn remove_user(&mut self, by: u8, of: ChannelId, who: u8) -> Event {
        let p = pubkey(who).to_string();
        self.in_channel(by, kinds::GROUP_REMOVE_USER, of, &[&["p", &p]])
    }

    pub(super) fn edit(&mut self, by: u8, of: ChannelId, name: &str, value: &str) -> Event {
        self.in_channel(by, kinds::GROUP_EDIT, of, &[&[name, value]])
    }

    pub(super) fn remove_event(&mut self, by: u8, of: ChannelId, target: EventId) -> Event {
        let e = target.to_string();
        self.in_channel(by, kinds::GROUP_DELETE_EVENT, of, &[&["e", &e]])
    }

    /// A revision; `prev` is the revision it follows.
    pub(super) fn revision(
        &mut self,
        by: u8,
        of: ArtifactId,
        op: &str,
        home: ChannelId,
        prev: Option<EventId>,
    ) -> Event {
        let (d, h) = (of.to_string(), home.to_string());
        let prev = prev.map(|prev| prev.to_string()).unwrap_or_default();
        let mut tags: Vec<&[&str]> = Vec::new();
        let (d, h, op): ([&str; 2], [&str; 2], [&str; 2]) = (["d", &d], ["h", &h], ["op", op]);
        let prev: [&str; 2] = ["prev", &prev];
        tags.extend([&["ar", "1"][..], &d, &h, &["type", "test.note"]]);
        if op[1] != "delete" {
            tags.push(&["title", "a note"]);
        }
        tags.push(&op);
        if !prev[1].is_empty() {
            tags.push(&prev);
        }
        let event = self.event(by, kinds::ARTIFACT, &tags);
        if op[1] != "delete" {
            return event;
        }
        Draft {
            created_at: event.created_at,
            kind: event.kind,
            tags: event.tags,
            content: String::new(),
        }
        .sign(&key(by))
    }

    /// Creates an artifact of key 1.
    pub(super) fn make_artifact(&mut self, n: u8, home: ChannelId) -> Event {
        let creation = self.revision(1, artifact(n), "create", home, None);
        self.stored(&creation);
        creation
    }
}

fn tag(elements: &[&str]) -> Vec<String> {
    elements
        .iter()
        .map(|element| (*element).to_owned())
        .collect()
}

/// The plan of a sync of these channels by one reader.
pub(super) fn sync_plan(reader: u8, channels: &[ChannelId]) -> ReadPlan {
    let names: Vec<String> = channels.iter().map(|id| format!("\"{id}\"")).collect();
    let text = format!(r##"{{"artifact":"current","#h":[{}]}}"##, names.join(","));
    let filter = ArtifactFilter::from_json(&text).expect("a filter");
    compile_artifact(community(), &BTreeSet::from([pubkey(reader)]), &filter).expect("a plan")
}

/// A sync of these channels in pages of two rows.
pub(super) fn sync_request(reader: u8, channels: &[ChannelId]) -> SyncRequest {
    SyncRequest {
        plan: sync_plan(reader, channels),
        rows_max: 2,
        bytes_max: usize::MAX,
        budget_ms: 60_000,
    }
}
