//! The beginning and the end of a run: channels are founded, and after the faults the world heals and must come to rest.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checker::format::{
    Commits, EndChannel, EndDigest, EndHead, EndState, FORMAT, Header, Knows, NodeOpen, Record,
    Tier,
};
use holdfast_checker::{History, Invariant, judge};
use holdfast_core::accept::Submission;
use holdfast_core::artifact::set_digest;
use holdfast_core::limits::REGISTER_DEADLINE_MS;
use holdfast_core::nostr::ArtifactFilter;
use holdfast_world::links::Reader;
use holdfast_world::store::{ProcessId, StepId, StoreAnswer, StoreOp};
use holdfast_world::truth::What;
use sha2::Digest;

use super::{STEPS_MAX, Stepper, machine::EPOCH_SECS, record, setting};
use crate::options::Options;
use crate::outcome::{Judged, Outcome, Violation};
use crate::{canary, goals};

/// Longest that healing may take, in simulated milliseconds.
const QUIET_MAX_MS: u64 = 240_000;

impl Stepper<'_> {
    /// Founds the channels and starts the processes.
    pub(super) fn found(&mut self) {
        let founding = self
            .people
            .founding(self.options, EPOCH_SECS, &mut self.tape);
        for event in founding {
            let submission = Submission {
                community: setting::community(),
                keys: BTreeSet::from([event.pubkey]),
                event,
                received_at: EPOCH_SECS,
            };
            self.submit_at_once(submission);
        }
        self.announce_founding();
        self.writes = 0;
        for machine in 0..self.machines.len() {
            self.start(machine);
        }
        self.begin_replicas();
    }

    /// Stores one event before anything else runs.
    fn submit_at_once(&mut self, submission: Submission) {
        let time = self.store_time();
        let op = StoreOp::Submit(Box::new(submission));
        let tx = self.store.begin(time, ProcessId(0), op);
        loop {
            let runnable = self.store.runnable(time);
            let Some(step) = runnable.into_iter().find(|step: &StepId| step.tx == tx) else {
                break;
            };
            if let Some(answered) = self.store.step(time, step.tx, None)
                && let StoreAnswer::Submitted(outcome) = answered.answer
            {
                let is_stored = matches!(
                    outcome,
                    holdfast_core::node::SubmitOutcome::Stored { .. }
                        | holdfast_core::node::SubmitOutcome::Already { .. }
                );
                assert!(is_stored, "the founding is accepted: {outcome:?}");
            }
        }
        self.note_commits();
    }

    fn announce_founding(&mut self) {
        let positions: Vec<u64> = self
            .store
            .commits()
            .iter()
            .flat_map(|commit| commit.changes.iter().map(|change| change.position.0))
            .collect();
        if !positions.is_empty() {
            self.write(Record::Published { node: 1, positions });
        }
    }

    /// Heals the world and lets everything come to rest. Says what did not.
    pub(super) fn quieten(&mut self) -> Option<String> {
        self.write(Record::Quiet {});
        self.is_quiet = true;
        for machine in 0..self.machines.len() {
            self.machines[machine].paused_until_ms = None;
            self.machines[machine].wall_ahead_secs = 0;
            if self.machines[machine].node.is_none() {
                self.start(machine);
            }
        }
        self.end_hostile();
        let began_ms = self.now_ms;
        let sweeps_ms = 3 * self.options.sweep_interval_ms;
        loop {
            if self.run_dry().is_none() {
                return Some(format!("not at rest after {STEPS_MAX} steps"));
            }
            let is_late = self.now_ms >= began_ms + sweeps_ms + REGISTER_DEADLINE_MS;
            if is_late && self.is_at_rest() {
                break;
            }
            if self.now_ms > began_ms + QUIET_MAX_MS {
                return Some(self.unrest());
            }
            let next = self.next_deadline_ms().unwrap_or(self.now_ms + 100);
            self.now_ms = next.min(self.now_ms + 500).max(self.now_ms + 1);
            self.tell_time();
        }
        for at in 0..self.people.syncers.len() {
            self.local_set(at);
        }
        self.write(Record::Settled {});
        // A transaction of somebody else may last for ever; it delays nothing but its own rows (S6).
        if let Some(tx) = self.foreign.take() {
            self.end_foreign(tx);
        }
        None
    }

    fn end_hostile(&mut self) {
        let conn = self
            .people
            .hostile
            .as_ref()
            .and_then(|hostile| hostile.line.conn());
        if let Some(conn) = conn
            && let Some(machine) = self.conn_machine.get(&conn).copied()
        {
            self.links[machine].cut(conn);
        }
        self.people.hostile = None;
    }

    /// Takes every step that can be taken, in a fixed order. `None` when that never ends.
    fn run_dry(&mut self) -> Option<()> {
        loop {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return None;
            }
            for machine in 0..self.machines.len() {
                let conns: Vec<_> = self.links[machine].conns().collect();
                for conn in conns {
                    self.links[machine].set_reader(conn, Reader::Fast);
                }
            }
            self.connect_waiting();
            let time = self.store_time();
            if let Some(step) = self.store.runnable(time).first() {
                self.store_step(*step, None);
            } else if let Some(step) = self.bus_runnable().first() {
                self.bus_step(*step, None);
            } else if let Some((machine, step)) = self.link_runnable().first() {
                self.link_step(*machine, *step);
            } else if let Some(machine) =
                (0..self.machines.len()).find(|m| !self.machines[*m].inbox.is_empty())
            {
                self.catch_up(machine);
            } else {
                return Some(());
            }
        }
    }

    /// Nothing is under way, and every replica is served or hopeless for a reason that stays.
    fn is_at_rest(&self) -> bool {
        self.unrest().is_empty()
    }

    fn unrest(&self) -> String {
        let mut unrest = Vec::new();
        let open = self.store.open_work();
        // An idle snapshot is no work: whose it is, is judged from what is open at the end.
        if open.writes > 0 || open.others > usize::from(self.foreign.is_some()) {
            unrest.push(format!("the store still works: {open:?}"));
        }
        if !self.bus.is_quiet() {
            unrest.push("the bus is not quiet".to_owned());
        }
        if !self.links.iter().all(|links| links.is_quiet()) {
            unrest.push("a link is not quiet".to_owned());
        }
        for writer in &self.people.writers {
            if !writer.waiting.is_empty() {
                unrest.push(format!("{} waits for an answer", writer.key));
            }
        }
        for syncer in &self.people.syncers {
            let is_hopeless = syncer
                .ended
                .as_deref()
                .is_some_and(|text| text.starts_with("restricted:") || text == "error: too-large");
            if !syncer.replica.is_live() && !is_hopeless {
                unrest.push(format!(
                    "replica {} is not served: {:?}",
                    syncer.id, syncer.ended
                ));
            }
        }
        unrest.join("; ")
    }

    /// Judges the run.
    pub(super) fn finish(mut self, broken: Option<String>) -> Outcome {
        let end = Record::End {
            state: Some(self.end_state()),
            open: Some(self.end_open()),
        };
        self.write(end);
        let mut history = History {
            header: self.header(),
            lines: std::mem::take(&mut self.record).into_lines(&self.committed),
        };
        let mut goals = goals::observe(&history, self.options);
        for (goal, times) in &self.goals {
            *goals.entry(goal).or_default() += times;
        }
        if self.options.canary {
            canary::blind(&mut history);
        }
        let (verdict, unjudged) = verdict(&history);
        let bytes = history.write(Vec::new()).expect("memory takes every line");
        let clean = |text: Option<String>| text.filter(|text| !text.is_empty());
        Outcome {
            options: self.options.clone(),
            tape: self.tape.taken().to_vec(),
            history: bytes,
            trace_hash: hex(&self.hash.finalize()),
            verdict,
            broken: clean(broken).or(unjudged),
            goals,
            faults: self.faults,
            writes: self.writes,
            eoses: self.eoses,
            competing_edits: self.competing,
            resyncs: self.resyncs,
            simulated_ms: self.now_ms,
            steps: self.steps,
        }
    }

    fn header(&self) -> Header {
        let config = setting::node(self.options, self.bug);
        Header {
            format: FORMAT,
            tier: Tier::Stepper,
            seed: self.options.seed,
            commits: Commits::InPlace,
            knows: BTreeSet::from([
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
            ]),
            judges: Invariant::ALL.into_iter().collect(),
            nodes: self.machines.iter().map(|machine| machine.number).collect(),
            max_events: config.sync.max_events as u64,
            snapshot_budget_ms: config.sync.snapshot_budget_ms,
            delivery_budget_ms: config.sync.delivery_budget_ms,
            register_deadline_ms: REGISTER_DEADLINE_MS,
            snapshots_max: config.sync.snapshots_max as u64,
            queue_frames_max: 2 * config.bounds.send_queue_frames_max as u64,
            queue_bytes_max: (config.send_queue_bytes + config.bounds.control_reserve_bytes) as u64,
            sweep_ms: (self.options.sweep_interval_ms > 0)
                .then_some(self.options.sweep_interval_ms),
            signal_delay_ms: 60_000,
            slack_ms: 3_000,
        }
    }

    fn end_state(&self) -> EndState {
        let state = self.store.final_state();
        let mut members: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for (_, channel, key) in state.roles.keys() {
            members.entry(*channel).or_default().push(key.to_string());
        }
        EndState {
            heads: state
                .heads
                .iter()
                .map(|((_, artifact), head)| EndHead {
                    d: artifact.to_string(),
                    rev: head.event.to_string(),
                    h: head.home.to_string(),
                    deleted: head.deleted,
                    redacted: head.redacted,
                })
                .collect(),
            channels: state
                .channels
                .values()
                .map(|channel| EndChannel {
                    channel: channel.id.to_string(),
                    visibility: record::visible(channel.visibility),
                    deleted: channel.deleted,
                    unlisted: channel.unlisted,
                    members: if channel.deleted {
                        Vec::new()
                    } else {
                        members.get(&channel.id).cloned().unwrap_or_default()
                    },
                })
                .collect(),
            digests: self.end_digests(),
        }
    }

    /// The digest of every wanted set, from the commits themselves.
    fn end_digests(&self) -> Vec<EndDigest> {
        let filters: BTreeSet<&ArtifactFilter> = self
            .people
            .syncers
            .iter()
            .map(|syncer| &syncer.filter)
            .collect();
        let state = self.store.final_state();
        let mut bodies = BTreeMap::new();
        for commit in self.store.commits() {
            for change in &commit.changes {
                if let What::Revision { event, tags, .. } = &change.what {
                    bodies.insert(*event, tags.clone());
                }
            }
        }
        filters
            .into_iter()
            .map(|filter| {
                let heads = state.heads.iter().filter(|(_, head)| {
                    let tags = bodies.get(&head.event);
                    let matches = |name: &String, values: &BTreeSet<String>| {
                        tags.is_some_and(|tags| {
                            tags.iter().any(|tag| {
                                tag.len() > 1 && &tag[0] == name && values.contains(&tag[1])
                            })
                        })
                    };
                    !head.deleted
                        && !head.redacted
                        && filter
                            .predicates
                            .iter()
                            .all(|(name, values)| matches(name, values))
                });
                let digest = set_digest(heads.map(|((_, artifact), head)| (*artifact, head.event)));
                EndDigest {
                    filter: record::filter(filter),
                    digest: digest.to_string(),
                }
            })
            .collect()
    }

    fn end_open(&self) -> Vec<NodeOpen> {
        (0..self.machines.len())
            .filter(|machine| self.machines[*machine].node.is_some())
            .map(|machine| {
                let node = self.machines[machine].node.as_ref();
                let named = |key: &(_, _)| self.by_generation.get(key).copied();
                let sessions = node
                    .into_iter()
                    .flat_map(|node| node.syncs())
                    .filter_map(|view| named(&(view.conn, view.generation)))
                    .collect();
                let snapshots = self
                    .reads
                    .iter()
                    .filter(|((of, _), _)| *of == machine)
                    .map(|(_, (attempt, _))| *attempt)
                    .collect();
                NodeOpen {
                    node: self.machines[machine].number,
                    snapshots,
                    reads: Vec::new(),
                    sessions,
                    queued: self.links[machine]
                        .unsent_generations()
                        .filter_map(|key| named(&key))
                        .collect(),
                }
            })
            .collect()
    }
}

/// Lets the checker judge a history.
fn verdict(history: &History) -> (BTreeMap<String, Judged>, Option<String>) {
    match judge(history) {
        Ok(report) => {
            let judged = report
                .verdicts
                .into_iter()
                .map(|verdict| {
                    let violations = verdict
                        .violations
                        .into_iter()
                        .map(|violation| Violation {
                            rule: violation.rule.to_owned(),
                            line: violation.line as u64,
                            story: violation.story.join(" "),
                        })
                        .collect();
                    let judged = Judged {
                        evaluated: verdict.evaluated,
                        violations,
                    };
                    (verdict.invariant.to_string(), judged)
                })
                .collect();
            (judged, None)
        }
        Err(error) => (
            BTreeMap::new(),
            Some(format!("the history cannot be judged: {error}")),
        ),
    }
}

/// The outcome of a run that could not begin.
pub(super) fn broken(options: &Options, why: String) -> Outcome {
    Outcome {
        options: options.clone(),
        tape: Vec::new(),
        history: Vec::new(),
        trace_hash: String::new(),
        verdict: BTreeMap::new(),
        broken: Some(why),
        goals: BTreeMap::new(),
        faults: BTreeMap::new(),
        writes: 0,
        eoses: 0,
        competing_edits: 0,
        resyncs: BTreeMap::new(),
        simulated_ms: 0,
        steps: 0,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
