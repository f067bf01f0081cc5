//! A toy relay that keeps the rules by construction and writes histories of itself.
//!
//! What belongs here: the smallest relay with everything the judges look at: paged snapshots, frames under way, late signals,
//! crashes, losses, replicas with backoff. What must not: any code of the checker but its format, or of the relay.

mod clients;
mod relay;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checker::format::{Commits, FORMAT, Header, Knows, Node, Op, Record, Replica, Tier};
use holdfast_checker::{History, Invariant, Line};

use clients::{Replicant, Writing};
use relay::{Link, Session};
use world::{Signal, World};

/// Numbers that look random and follow from the seed (splitmix64).
#[derive(Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// True once in `sides` times.
    pub(crate) fn once_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    /// One of the items; there is at least one.
    pub(crate) fn pick<'s, T>(&mut self, items: &'s [T]) -> &'s T {
        &items[usize::try_from(self.roll(items.len() as u64)).expect("an index")]
    }
}

/// What happens beside writes and reads.
#[derive(Clone, Copy)]
pub(crate) struct Weather {
    /// Nodes crash, connections break, signals are lost.
    pub(crate) faults: bool,
    /// Memberships, visibility and channels change, revisions are redacted.
    pub(crate) changes: bool,
    /// The largest set, and the bound of held and waiting artifacts.
    pub(crate) max_events: u64,
}

pub(crate) const SNAPSHOT_BUDGET_MS: u64 = 150;
pub(crate) const REGISTER_DEADLINE_MS: u64 = 30;
pub(crate) const SLOT_WAIT_MS: u64 = 40;
pub(crate) const SNAPSHOTS_MAX: u64 = 2;
pub(crate) const NODES: [Node; 2] = [1, 2];

/// The toy and everything around it.
pub(crate) struct Toy {
    pub(crate) dice: Dice,
    pub(crate) weather: Weather,
    pub(crate) now_ms: u64,
    pub(crate) lines: Vec<Line>,
    pub(crate) world: World,
    /// Signals that a node has not published.
    pub(crate) pending: BTreeMap<Node, Vec<(u64, Signal)>>,
    pub(crate) links: BTreeMap<u64, Link>,
    pub(crate) sessions: BTreeMap<u64, Session>,
    pub(crate) replicas: BTreeMap<Replica, Replicant>,
    pub(crate) writes: BTreeMap<Op, Writing>,
    pub(crate) next: u64,
    /// Nodes without a bus connection.
    pub(crate) down: BTreeSet<Node>,
}

/// A valid history.
pub(crate) fn history(seed: u64, weather: Weather, steps: usize) -> History {
    let mut toy = Toy::new(seed, weather);
    toy.found_channels();
    toy.found_replicas();
    for _ in 0..steps {
        toy.step();
    }
    toy.record(Record::Quiet {});
    for node in toy.down.clone() {
        toy.toggle_bus(node);
    }
    toy.come_to_rest();
    // One more change for the copies at rest.
    for _ in 0..3 {
        toy.submit();
    }
    toy.come_to_rest();
    toy.end();
    History {
        header: toy.header(seed),
        lines: toy.lines,
    }
}

impl Toy {
    fn new(seed: u64, weather: Weather) -> Toy {
        Toy {
            dice: Dice(seed),
            weather,
            now_ms: 0,
            lines: Vec::new(),
            world: World::default(),
            pending: NODES.into_iter().map(|node| (node, Vec::new())).collect(),
            links: BTreeMap::new(),
            sessions: BTreeMap::new(),
            replicas: BTreeMap::new(),
            writes: BTreeMap::new(),
            next: 0,
            down: BTreeSet::new(),
        }
    }

    fn header(&self, seed: u64) -> Header {
        let knows = [
            Knows::Received,
            Knows::Losses,
            Knows::Published,
            Knows::Snapshots,
            Knows::Reads,
            Knows::Gauges,
            Knows::Replicas,
            Knows::Retries,
            Knows::EndState,
            Knows::EndOpen,
        ];
        Header {
            format: FORMAT,
            tier: Tier::Stepper,
            seed,
            commits: Commits::InPlace,
            knows: knows.into(),
            judges: Invariant::ALL.into(),
            nodes: NODES.into(),
            max_events: self.weather.max_events,
            snapshot_budget_ms: SNAPSHOT_BUDGET_MS,
            delivery_budget_ms: SNAPSHOT_BUDGET_MS,
            register_deadline_ms: REGISTER_DEADLINE_MS,
            snapshots_max: SNAPSHOTS_MAX,
            queue_frames_max: 1_000,
            queue_bytes_max: 1_000_000,
            sweep_ms: None,
            signal_delay_ms: 0,
            slack_ms: 2,
        }
    }

    pub(crate) fn record(&mut self, record: Record) {
        self.lines.push(Line {
            at_ms: self.now_ms,
            record,
        });
    }

    /// A fresh number.
    pub(crate) fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn step(&mut self) {
        self.pass(self.now_ms + 1);
        match self.dice.roll(12) {
            0 | 1 => self.submit(),
            2 | 3 => self.advance_write(),
            4 => self.publish_some(),
            5 if self.weather.changes && self.dice.once_in(3) => self.change_something(),
            6 if self.weather.faults && self.dice.once_in(6) => self.break_something(),
            7 | 8 => self.advance_session(),
            9 | 10 => self.deliver(),
            _ => self.advance_replica(),
        }
    }

    /// Lets everything that is under way arrive, and then says so.
    fn come_to_rest(&mut self) {
        loop {
            self.pass(self.now_ms + 1);
            while self.busy() {
                self.advance_write();
                self.publish_some();
                self.advance_session();
                self.deliver();
            }
            let waiting: Vec<Replica> = self
                .replicas
                .keys()
                .copied()
                .filter(|&replica| !self.at_rest(replica))
                .collect();
            if waiting.is_empty() {
                break;
            }
            for replica in waiting {
                self.attempt(replica);
            }
        }
        for replica in self.replicas.keys().copied().collect::<Vec<_>>() {
            self.note_local_set(replica);
        }
        self.record(Record::Settled {});
    }

    fn busy(&self) -> bool {
        !self.writes.is_empty()
            || self.pending.values().any(|pending| !pending.is_empty())
            || self.links.values().any(|link| !link.frames.is_empty())
            || self.sessions.values().any(Session::busy)
    }

    fn break_something(&mut self) {
        let node = *self.dice.pick(&NODES);
        match self.dice.roll(5) {
            0 => {
                let crashes = self.dice.once_in(2);
                self.die(node, crashes);
            }
            1 => {
                let links: Vec<u64> = self.links.keys().copied().collect();
                if !links.is_empty() {
                    let conn = *self.dice.pick(&links);
                    self.cut(conn, holdfast_checker::format::Party::Network);
                }
            }
            2 => {
                self.record(Record::Lag {
                    node,
                    channel: None,
                });
                self.lose(node);
            }
            3 => self.toggle_bus(node),
            _ => self.fail_lookup(node),
        }
    }

    fn end(&mut self) {
        let state = self.world.end_state(self.filters());
        let open = NODES.into_iter().map(|node| self.open_at(node)).collect();
        self.record(Record::End {
            state: Some(state),
            open: Some(open),
        });
    }

    fn filters(&self) -> BTreeSet<holdfast_checker::format::Filter> {
        self.replicas
            .values()
            .map(|replica| replica.filter.clone())
            .collect()
    }
}
