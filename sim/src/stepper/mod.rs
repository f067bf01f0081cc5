//! Tier A: several nodes, one simulated world, one scheduler, no executor. Every choice comes from the tape.
//!
//! What belongs here: the loop that chooses what happens next, and the faults that strike. What happens then is in `perform`,
//! what people do in `people`, the quiet phase in `quiet`, configurations in `setting`.

mod clients;
mod machine;
mod people;
mod perform;
mod quiet;
mod record;
mod setting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_checker::format::{Attempt, Conn, Op, Record};
use holdfast_core::ids::{ArtifactId, ChannelId};
use holdfast_core::node::{ConnId, Effect, Generation, Input, OpId};
use holdfast_core::nostr::EventId;
use holdfast_core::sync::StoreGeneration;
use holdfast_world::bus::{Bus, BusFault, BusStep};
use holdfast_world::links::{LinkStep, Links, Reader};
use holdfast_world::store::{ProcessId, StepId, StepKind, Store, StoreFault, StoreTime, TxId};
use sha2::{Digest, Sha256};

use crate::options::{Family, Options};
use crate::outcome::Outcome;
use crate::tape::Tape;
use machine::{EPOCH_SECS, Machine};
use people::{Line, People};
use record::{Attempts, Recorder};
use setting::Bug;

/// Steps after which a run counts as stuck.
const STEPS_MAX: u64 = 60_000;

/// Runs to the end, the quiet phase included, and judges what happened.
///
/// An unknown mutant makes a broken outcome, as does a world that does not come to rest.
pub fn run(options: &Options, tape: Tape) -> Outcome {
    let bug = match &options.mutant {
        None => Bug::default(),
        Some(name) => match Bug::named(name) {
            Some(bug) => bug,
            None => return quiet::broken(options, format!("no mutant {name} in this build")),
        },
    };
    let mut stepper = Stepper::new(options, tape, bug);
    stepper.found();
    for _ in 0..options.steps {
        stepper.tick();
    }
    let broken = stepper.quieten();
    stepper.finish(broken)
}

/// What was measured of one sync.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    held_max: u64,
    dirty_max: u64,
}

struct Stepper<'o> {
    options: &'o Options,
    tape: Tape,
    bug: Bug,
    now_ms: u64,
    steps: u64,
    is_quiet: bool,
    hash: Sha256,
    store: Store,
    commits_seen: usize,
    /// The ledger positions of all commits.
    committed: BTreeSet<u64>,
    foreign: Option<TxId>,
    bus: Bus,
    machines: Vec<Machine>,
    links: Vec<Links>,
    people: People,
    record: Recorder,
    goals: BTreeMap<&'static str, u64>,
    faults: BTreeMap<String, u64>,
    next_process: u32,
    next_conn: u64,
    next_op: Op,
    /// Operations of the history by the event they carry, for the next submission of that event.
    sent_ops: BTreeMap<EventId, VecDeque<Op>>,
    store_ops: BTreeMap<TxId, Op>,
    /// Operations whose commit others can see.
    committed_ops: BTreeSet<Op>,
    /// OKs that a seeded bug gave before the commit, until it comes.
    held_oks: BTreeMap<Op, Record>,
    attempts: Attempts,
    asked: BTreeMap<Attempt, Asked>,
    by_generation: BTreeMap<(ConnId, Generation), Attempt>,
    by_sub: BTreeMap<(ConnId, String), Attempt>,
    refusals: BTreeMap<(ConnId, String), VecDeque<Attempt>>,
    /// REQs by the number of the message on their connection.
    requests: BTreeMap<(ConnId, u64), Attempt>,
    /// Initial reads with their attempts, and whether their snapshot was seen open.
    reads: BTreeMap<(usize, OpId), (Attempt, bool)>,
    /// The newest commit that each snapshot sees, until its first page is taken.
    snapshot_index: BTreeMap<(usize, OpId), u64>,
    /// The machine of each connection.
    conn_machine: BTreeMap<ConnId, usize>,
    /// The attempt whose REQ is being handled.
    handling: Option<Attempt>,
    /// The operation of the submission that is about to begin.
    submit_op: Option<Op>,
    /// The newest commit that each read saw.
    read_index: BTreeMap<(usize, OpId), u64>,
    /// The same of the read whose answer is being handed over.
    head_index: u64,
    /// Which node each process was or is.
    process_node: BTreeMap<ProcessId, u32>,
    queue_max: BTreeMap<Conn, (u64, u64)>,
    /// Frames that found no room, by connection.
    refused: BTreeMap<ConnId, u64>,
    store_seen: BTreeMap<usize, StoreGeneration>,
    /// Every accepted revision, oldest first, with its home.
    chains: BTreeMap<ArtifactId, Vec<(EventId, ChannelId)>>,
    writes: u64,
    eoses: u64,
    competing: u64,
    prevs: BTreeMap<EventId, u64>,
    resyncs: BTreeMap<String, u64>,
}

/// What can happen next.
enum Next {
    Store(Vec<StepId>),
    Bus(Vec<BusStep>),
    Link(Vec<(usize, LinkStep)>),
    Inbox(Vec<usize>),
    Write(Vec<usize>),
    Client,
    Time,
}

impl<'o> Stepper<'o> {
    fn new(options: &'o Options, mut tape: Tape, bug: Bug) -> Stepper<'o> {
        let channels: Vec<ChannelId> = (0..options.channels)
            .map(holdfast_world::events::channel)
            .collect();
        let syncers = clients::draw_syncers(options, &channels, &mut tape);
        let machines = (0..options.nodes)
            .map(|n| Machine::new(n + 1, ProcessId(n + 1), setting::AHEAD_MAX))
            .collect();
        let links = (0..options.nodes)
            .map(|_| Links::new(setting::CREDITS, setting::STALL_MS))
            .collect();
        Stepper {
            options,
            tape,
            bug,
            now_ms: 0,
            steps: 0,
            is_quiet: false,
            hash: Sha256::new(),
            store: Store::new(setting::store(options, bug)),
            commits_seen: 0,
            committed: BTreeSet::new(),
            foreign: None,
            bus: Bus::new(setting::bus(bug)),
            machines,
            links,
            people: People::new(options, syncers),
            record: Recorder::default(),
            goals: BTreeMap::new(),
            faults: BTreeMap::new(),
            next_process: 100,
            next_conn: 0,
            next_op: 0,
            sent_ops: BTreeMap::new(),
            store_ops: BTreeMap::new(),
            committed_ops: BTreeSet::new(),
            held_oks: BTreeMap::new(),
            attempts: Attempts::default(),
            asked: BTreeMap::new(),
            by_generation: BTreeMap::new(),
            by_sub: BTreeMap::new(),
            refusals: BTreeMap::new(),
            requests: BTreeMap::new(),
            reads: BTreeMap::new(),
            snapshot_index: BTreeMap::new(),
            conn_machine: BTreeMap::new(),
            handling: None,
            submit_op: None,
            read_index: BTreeMap::new(),
            head_index: 0,
            process_node: BTreeMap::new(),
            queue_max: BTreeMap::new(),
            refused: BTreeMap::new(),
            store_seen: BTreeMap::new(),
            chains: BTreeMap::new(),
            writes: 0,
            eoses: 0,
            competing: 0,
            prevs: BTreeMap::new(),
            resyncs: BTreeMap::new(),
        }
    }

    fn write(&mut self, record: Record) {
        self.record.write(self.now_ms, record);
    }

    fn goal(&mut self, name: &'static str) {
        *self.goals.entry(name).or_default() += 1;
    }

    fn fault(&mut self, family: Family, what: &str, machine: Option<usize>, conn: Option<ConnId>) {
        let family = serde_json::to_value(family).expect("a family is a word");
        let family = family.as_str().unwrap_or_default().to_owned();
        *self.faults.entry(format!("{family}: {what}")).or_default() += 1;
        let node = machine.map(|machine| self.machines[machine].number);
        self.write(Record::Fault {
            family,
            what: what.to_owned(),
            node,
            conn: conn.map(|conn| conn.0),
        });
    }

    fn wall_secs(&self) -> u64 {
        EPOCH_SECS + self.now_ms / 1_000
    }

    fn store_time(&self) -> StoreTime {
        StoreTime {
            mono_ms: self.now_ms,
            clock_us: EPOCH_SECS * 1_000_000 + self.now_ms * 1_000,
        }
    }

    /// One step of the scheduler: perhaps a fault, then one thing that can happen.
    fn tick(&mut self) {
        self.steps += 1;
        self.now_ms += self.tape.choose(3) as u64;
        self.tell_time();
        if self.tape.percent(self.options.fault_percent) {
            self.strike();
        }
        let (weights, mut nexts) = self.nexts();
        let Some(chosen) = self.tape.weighted(&weights) else {
            return;
        };
        match nexts.swap_remove(chosen) {
            Next::Store(steps) => {
                let step = steps[self.tape.choose(steps.len())];
                let fault = self.store_fault(step);
                self.store_step(step, fault);
            }
            Next::Bus(steps) => {
                let step = steps[self.tape.choose(steps.len())];
                let fault = self.bus_fault(step);
                self.bus_step(step, fault);
            }
            Next::Link(steps) => {
                let (machine, step) = steps[self.tape.choose(steps.len())];
                self.link_step(machine, step);
            }
            Next::Inbox(machines) => {
                let machine = machines[self.tape.choose(machines.len())];
                self.catch_up(machine);
            }
            Next::Write(writers) => {
                let writer = writers[self.tape.choose(writers.len())];
                self.let_write(writer);
            }
            Next::Client => self.let_client_act(),
            Next::Time => self.let_time_pass(),
        }
    }

    fn nexts(&mut self) -> (Vec<u32>, Vec<Next>) {
        let time = self.store_time();
        let store = self.store.runnable(time);
        let bus = self.bus_runnable();
        let links = self.link_runnable();
        let inboxes: Vec<usize> = (0..self.machines.len())
            .filter(|m| self.machines[*m].is_running() && !self.machines[*m].inbox.is_empty())
            .collect();
        let writers: Vec<usize> = (0..self.people.writers.len())
            .filter(|w| self.people.writers[*w].waiting.len() < 2)
            .collect();
        let some = |is_there: bool, weight: u32| if is_there { weight } else { 0 };
        let weights = vec![
            some(!store.is_empty(), 30),
            some(!bus.is_empty(), 16),
            some(!links.is_empty(), 18),
            some(!inboxes.is_empty(), 60),
            some(!writers.is_empty(), 17),
            7,
            4,
        ];
        let nexts = vec![
            Next::Store(store),
            Next::Bus(bus),
            Next::Link(links),
            Next::Inbox(inboxes),
            Next::Write(writers),
            Next::Client,
            Next::Time,
        ];
        (weights, nexts)
    }

    fn bus_runnable(&self) -> Vec<BusStep> {
        let mut steps = self.bus.runnable(self.now_ms);
        // What reaches a process that stands still waits in its connection.
        steps.retain(|step| {
            let reaches = !matches!(
                step,
                BusStep::Request(_) | BusStep::Forward(_) | BusStep::Publish(_)
            );
            let machine = &self.machines[step.peer() as usize - 1];
            machine.is_running() || (machine.node.is_some() && !reaches)
        });
        steps
    }

    fn link_runnable(&self) -> Vec<(usize, LinkStep)> {
        // A process that is behind takes nothing new before it has caught up.
        (0..self.machines.len())
            .filter(|machine| {
                let machine = &self.machines[*machine];
                machine.is_running() && machine.inbox.is_empty()
            })
            .flat_map(|machine| {
                let steps = self.links[machine].runnable(self.now_ms);
                steps.into_iter().map(move |step| (machine, step))
            })
            .collect()
    }

    /// Time passes until something is due, or a little.
    fn let_time_pass(&mut self) {
        let next = self.next_deadline_ms();
        // Waiting is long only where nothing is under way: computers are faster than deadlines.
        let is_standing =
            |machine: &Machine| machine.paused_until_ms.is_some() || !machine.inbox.is_empty();
        let is_idle = !self.machines.iter().any(is_standing)
            && self.store.runnable(self.store_time()).is_empty()
            && self.bus_runnable().is_empty()
            && self.link_runnable().is_empty();
        let far = is_idle && self.tape.percent(60);
        let at = match next {
            Some(at) if far => at,
            _ => self.now_ms + self.tape.between(5, 60),
        };
        self.now_ms = self.now_ms.max(at);
        self.tell_time();
    }

    /// The next time at which somebody wants to be woken.
    fn next_deadline_ms(&self) -> Option<u64> {
        let nodes = self.machines.iter().filter_map(|machine| {
            let wakeup = machine.node.as_ref()?.next_wakeup()?;
            machine.is_running().then_some(wakeup.at_mono_ms)
        });
        let pauses = self.machines.iter().filter_map(|m| m.paused_until_ms);
        let links = self.links.iter().filter_map(Links::next_deadline_ms);
        let replicas = self.people.syncers.iter();
        let replicas = replicas.filter_map(|s| Some(s.replica.next_wakeup()?.at_mono_ms));
        nodes
            .chain(pauses)
            .chain(links)
            .chain(replicas)
            .chain(self.store.next_deadline_ms())
            .chain(self.bus.next_deadline_ms())
            .filter(|at| *at > self.now_ms)
            .min()
    }

    /// Everybody whose time has come is woken.
    fn tell_time(&mut self) {
        for machine in 0..self.machines.len() {
            self.links[machine].tell_time(self.now_ms);
            if self.machines[machine]
                .paused_until_ms
                .is_some_and(|until| until <= self.now_ms)
            {
                self.machines[machine].paused_until_ms = None;
            }
            let is_due = self.machines[machine].is_running()
                && self.machines[machine]
                    .node
                    .as_ref()
                    .and_then(|node| node.next_wakeup())
                    .is_some_and(|wakeup| wakeup.at_mono_ms <= self.now_ms);
            if is_due {
                self.feed(machine, Input::Woken);
            }
        }
        self.wake_replicas();
    }

    // -- faults

    fn store_fault(&mut self, step: StepId) -> Option<StoreFault> {
        if self.is_quiet || !self.tape.percent(self.options.fault_percent) {
            return None;
        }
        let (reads, commits) = (
            self.options.has(Family::StoreReads),
            self.options.has(Family::StoreCommits),
        );
        let candidates: Vec<StoreFault> = StoreFault::ALL
            .into_iter()
            .filter(|fault| fault.strikes(step.kind))
            .filter(|fault| match fault {
                StoreFault::CommitUnanswered | StoreFault::Deadlock | StoreFault::Forgotten => {
                    commits
                }
                StoreFault::ConnectionLost => match step.kind {
                    StepKind::Snapshot | StepKind::Page | StepKind::Statement => reads,
                    _ => commits,
                },
                StoreFault::Exhausted => reads,
                // A snapshot's budget is over when its time is; only one-shot reads have another one.
                StoreFault::Budget => reads && step.kind == StepKind::Statement,
            })
            .collect();
        if candidates.is_empty() {
            return None;
        }
        Some(candidates[self.tape.choose(candidates.len())])
    }

    fn bus_fault(&mut self, step: BusStep) -> Option<BusFault> {
        if self.is_quiet || !self.tape.percent(3 * self.options.fault_percent) {
            return None;
        }
        let messages = self.options.has(Family::BusMessages);
        let connection = self.options.has(Family::BusConnection);
        let has_sweep = self.options.sweep_interval_ms > 0;
        let mut candidates = Vec::new();
        match step {
            BusStep::Deliver(_) if messages => candidates.extend([
                BusFault::Lag,
                BusFault::Undecodable,
                BusFault::Duplicate,
                BusFault::Duplicate,
                BusFault::Reorder,
                BusFault::Reorder,
            ]),
            BusStep::Publish(peer) => {
                if connection {
                    candidates.extend([BusFault::PublishRefused, BusFault::PublishAnswerLost]);
                }
                if messages && has_sweep {
                    candidates.push(BusFault::LostForOne(peer));
                }
            }
            BusStep::Request(_) if connection => candidates.push(BusFault::RequestRefused),
            _ => {}
        }
        if candidates.is_empty() {
            return None;
        }
        Some(candidates[self.tape.choose(candidates.len())])
    }

    /// A fault of the world, of one of the families of this run.
    fn strike(&mut self) {
        let families: Vec<Family> = self
            .options
            .families
            .iter()
            .copied()
            .filter(|family| {
                !matches!(
                    family,
                    Family::BusMessages | Family::StoreReads | Family::Hostile
                )
            })
            .collect();
        if families.is_empty() {
            return;
        }
        let family = families[self.tape.choose(families.len())];
        let machine = self.tape.choose(self.machines.len());
        match family {
            Family::BusConnection => self.strike_bus(machine),
            Family::StoreCommits => self.strike_foreign(),
            Family::Failover => {
                if self.tape.percent(15) {
                    let time = self.store_time();
                    self.fail_over(time, 0);
                }
            }
            Family::Crash => {
                if self.tape.percent(40) {
                    self.crash_or_restart(machine);
                }
            }
            Family::Pause => self.strike_pause(machine),
            Family::Readers => self.strike_reader(machine),
            Family::BusMessages | Family::StoreReads | Family::Hostile => {}
        }
    }

    fn strike_bus(&mut self, machine: usize) {
        let peer = self.machines[machine].number;
        if self.tape.percent(60) {
            if self.bus.disconnect(peer) {
                self.fault(Family::BusConnection, "disconnect", Some(machine), None);
            }
        } else {
            let found_at_ms = self.now_ms + setting::BEACON_MS;
            if self.bus.half_open(peer, found_at_ms) {
                self.fault(Family::BusConnection, "half-open", Some(machine), None);
            }
        }
    }

    fn strike_foreign(&mut self) {
        let time = self.store_time();
        match self.foreign.take() {
            None => {
                let tx =
                    self.store
                        .begin(time, ProcessId(0), holdfast_world::store::StoreOp::Foreign);
                let fault = None;
                if let Some(kind) = self.store.next_step(time, tx) {
                    self.store_step(StepId { tx, kind }, fault);
                }
                self.foreign = Some(tx);
                self.fault(Family::StoreCommits, "long foreign transaction", None, None);
            }
            Some(tx) => self.end_foreign(tx),
        }
    }

    fn end_foreign(&mut self, tx: TxId) {
        let time = self.store_time();
        if let Some(kind) = self.store.next_step(time, tx) {
            self.store_step(StepId { tx, kind }, None);
        }
    }

    fn strike_pause(&mut self, machine: usize) {
        if !self.machines[machine].is_running() {
            return;
        }
        let number = self.machines[machine].number;
        if self.tape.percent(60) {
            let for_ms = self.tape.between(20, 900);
            self.machines[machine].paused_until_ms = Some(self.now_ms + for_ms);
            self.write(Record::Pause {
                node: number,
                for_ms,
            });
            self.fault(Family::Pause, "pause", Some(machine), None);
        } else {
            let by_secs = self.tape.between(0, 240) as i64 - 120;
            self.machines[machine].wall_ahead_secs = by_secs;
            self.write(Record::ClockJump {
                node: number,
                by_ms: by_secs * 1_000,
            });
            self.fault(Family::Pause, "clock jump", Some(machine), None);
        }
    }

    fn strike_reader(&mut self, machine: usize) {
        let conns: Vec<ConnId> = self.links[machine].conns().collect();
        if conns.is_empty() {
            return;
        }
        let conn = conns[self.tape.choose(conns.len())];
        let what = match self.tape.choose(6) {
            0 => {
                self.links[machine].set_reader(conn, Reader::Stalled);
                "stalled"
            }
            1 | 2 => {
                let bytes = self.tape.between(40, 700) as usize;
                self.links[machine].set_reader(conn, Reader::Slow { bytes });
                "slow"
            }
            3 | 4 => {
                self.links[machine].set_reader(conn, Reader::Fast);
                return;
            }
            _ => {
                self.links[machine].cut(conn);
                "cut"
            }
        };
        self.fault(Family::Readers, what, Some(machine), Some(conn));
    }

    /// A machine that runs dies, most often while something that it committed is not announced; one that is down starts.
    fn crash_or_restart(&mut self, machine: usize) {
        if self.machines[machine].node.is_none() {
            self.start(machine);
            return;
        }
        let number = self.machines[machine].number;
        let has_unpublished = self.bus.unpublished(number) > 0;
        if !has_unpublished && self.tape.percent(50) {
            return;
        }
        self.crash(machine);
    }
}

/// Ordered pairs of effects and the machine that asked for them.
type Work = VecDeque<(usize, Effect)>;

/// The line of a client whose connection this is.
fn is_line(line: Line, conn: ConnId) -> bool {
    line.conn() == Some(conn)
}
