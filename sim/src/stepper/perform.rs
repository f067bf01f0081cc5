//! What happens at a step: inputs are handed to nodes, effects to the world, and both are written down.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checker::format::{self, Attempt, Party, ReadResult, Record};
use holdfast_core::ids::ArtifactId;
use holdfast_core::node::{
    BusMessage, ConnId, Effect, Generation, Input, Note, OpId, ReadFailure, Topic,
};
use holdfast_core::nostr::{ClientMessage, EventId, RelayFrame, SubId};
use holdfast_core::sync::{HeadRows, StoreGeneration};
use holdfast_world::bus::{BusFault, BusStep, Loss};
use holdfast_world::links::{LinkStep, Sent};
use holdfast_world::store::{
    Answered, ProcessId, StepId, StoreAnswer, StoreFault, StoreOp, StoreTime,
};
use holdfast_world::truth::What;
use sha2::Digest;

use super::machine::SyncCall;
use super::people::Line;
use super::{Asked, Stepper, Work, is_line, record, setting};
use crate::goals;
use crate::options::Family;

impl Stepper<'_> {
    // -- nodes

    /// Starts a process.
    pub(super) fn start(&mut self, machine: usize) {
        self.bury(machine);
        self.next_process += 1;
        let process = ProcessId(self.next_process);
        let config = setting::node(self.options, self.bug);
        let number = self.machines[machine].number;
        self.machines[machine].start(process, config);
        self.process_node.insert(process, number);
        self.bus.start(number);
        self.store_seen.remove(&machine);
        self.write(Record::NodeUp { node: number });
    }

    /// The database is done with what a dead process left there before the next one starts.
    fn bury(&mut self, machine: usize) {
        let time = self.store_time();
        let dead = self.machines[machine].process;
        loop {
            let runnable = self.store.runnable(time);
            let left = runnable
                .into_iter()
                .find(|step| self.store.process(step.tx) == Some(dead));
            match left {
                Some(step) => self.store_step(step, None),
                None => return,
            }
        }
    }

    /// A process dies, with everything that it had in memory.
    pub(super) fn crash(&mut self, machine: usize) {
        let number = self.machines[machine].number;
        self.fault(Family::Crash, "crash", Some(machine), None);
        self.write(Record::NodeCrash { node: number });
        self.store.crash(self.machines[machine].process);
        self.note_commits();
        self.bus.crash(number);
        self.machines[machine].die();
        self.reads.retain(|(of, _), _| *of != machine);
        self.snapshot_index.retain(|(of, _), _| *of != machine);
        self.read_index.retain(|(of, _), _| *of != machine);
        for conn in self.links[machine].crash() {
            self.connection_ended(conn, Party::Relay, "the process died");
        }
    }

    /// Hands one input to a node, or keeps it for a process that stands still.
    pub(super) fn feed(&mut self, machine: usize, input: Input) {
        if self.machines[machine].node.is_none() {
            return;
        }
        let is_behind = !self.machines[machine].inbox.is_empty();
        if is_behind || self.machines[machine].paused_until_ms.is_some() {
            self.machines[machine].inbox.push_back(input);
            return;
        }
        self.deliver(machine, input);
    }

    /// A process that stood still takes the oldest input that waits for it.
    pub(super) fn catch_up(&mut self, machine: usize) {
        if let Some(input) = self.machines[machine].inbox.pop_front() {
            self.deliver(machine, input);
        }
    }

    fn deliver(&mut self, machine: usize, input: Input) {
        let mut work = Work::new();
        self.take(machine, input, &mut work);
        while let Some((machine, effect)) = work.pop_front() {
            self.perform(machine, effect, &mut work);
        }
    }

    /// Lets a node take an input, writes down what that means, and queues the effects.
    fn take(&mut self, machine: usize, input: Input, work: &mut Work) {
        self.hash.update([machine as u8]);
        self.hash.update(self.now_ms.to_be_bytes());
        self.hash.update(format!("{input:?}").as_bytes());
        let req = match &input {
            Input::Message {
                conn,
                message: Ok(ClientMessage::ArtifactReq { sub, .. }),
            } => Some((*conn, sub.clone())),
            _ => None,
        };
        self.note_generation(machine, &input);
        if let Input::SnapshotClosed { op } = &input
            && let Some((attempt, true)) = self.reads.remove(&(machine, *op))
        {
            self.write(Record::SnapshotClosed { attempt });
        }
        let node = self.machines[machine].number;
        match &input {
            Input::BusDown => self.write(Record::BusDown { node }),
            Input::BusUp { generation } => self.write(Record::BusUp {
                node,
                generation: generation.0,
            }),
            _ => {}
        }
        let taken = self.snapshot_before(machine, &input);
        let heads = self.heads_before(machine, &input);
        let effects = self.machines[machine].step(self.now_ms, input);
        self.hash.update(format!("{effects:?}").as_bytes());
        self.snapshot_after(machine, taken, &effects);
        if let Some((conn, sub)) = req {
            self.name_generation(machine, conn, &sub);
        }
        if let Some((takers, rows)) = heads {
            self.heads_after(&takers, rows.as_ref(), &effects);
        }
        self.gauge(machine);
        work.extend(effects.into_iter().map(|effect| (machine, effect)));
    }

    /// Connects the generation that a node gave a sync with the attempt it is for.
    fn name_generation(&mut self, machine: usize, conn: ConnId, sub: &SubId) {
        let view = self.machines[machine]
            .node
            .as_ref()
            .and_then(|node| node.sync(conn, sub));
        if let (Some(view), Some(attempt)) = (view, self.handling) {
            self.by_generation.insert((conn, view.generation), attempt);
        }
    }

    /// The sync that still wants the snapshot whose first page comes, and the newest commit it sees.
    fn snapshot_before(&mut self, machine: usize, input: &Input) -> Option<(OpId, Attempt, u64)> {
        let Input::SyncPage { op, page: Ok(page) } = input else {
            return None;
        };
        page.opened.as_ref()?;
        let index = self.snapshot_index.remove(&(machine, *op))?;
        let node = self.machines[machine].node.as_ref()?;
        node.syncs().find(|view| view.read == Some(*op))?;
        let (attempt, _) = *self.reads.get(&(machine, *op))?;
        Some((*op, attempt, index))
    }

    /// A snapshot counts as open when its first page was taken, and as closed when the node hears so.
    fn snapshot_after(
        &mut self,
        machine: usize,
        taken: Option<(OpId, Attempt, u64)>,
        effects: &[Effect],
    ) {
        let is_given_up = effects.contains(&Effect::Note(Note::SyncRestarted));
        if let Some((op, attempt, index)) = taken.filter(|_| !is_given_up) {
            self.reads.insert((machine, op), (attempt, true));
            self.write(Record::SnapshotOpen { attempt, index });
        }
    }

    fn note_generation(&mut self, machine: usize, input: &Input) {
        let store = match input {
            Input::SyncPage { page: Ok(page), .. } => page.store,
            Input::Heads { rows: Ok(rows), .. } => rows.store,
            Input::Ledger { page: Ok(page), .. } => page.store,
            _ => return,
        };
        let former: Option<StoreGeneration> = self.store_seen.insert(machine, store);
        if former.is_some_and(|former| former != store) {
            let node = self.machines[machine].number;
            self.write(Record::StoreGeneration { node });
        }
    }

    /// Who takes part in a head read whose answer comes.
    #[allow(clippy::type_complexity)]
    fn heads_before(
        &mut self,
        machine: usize,
        input: &Input,
    ) -> Option<(
        Vec<(ConnId, Generation, Attempt, BTreeSet<ArtifactId>)>,
        Option<HeadRows>,
    )> {
        let Input::Heads { op, rows } = input else {
            return None;
        };
        let takers = self.takers(machine, *op);
        self.head_index = {
            let seen = self.read_index.remove(&(machine, *op));
            seen.unwrap_or(self.commits_seen as u64)
        };
        if rows.is_err() {
            let node = self.machines[machine].number;
            let attempts: Vec<Attempt> = takers.iter().map(|(_, _, attempt, _)| *attempt).collect();
            if !attempts.is_empty() {
                self.write(Record::LookupFailed { node, attempts });
            }
        }
        Some((takers, rows.clone().ok()))
    }

    /// The syncs of a head read that are still there, with their attempts.
    fn takers(
        &self,
        machine: usize,
        op: OpId,
    ) -> Vec<(ConnId, Generation, Attempt, BTreeSet<ArtifactId>)> {
        let Some(node) = &self.machines[machine].node else {
            return Vec::new();
        };
        let is_alive = |conn: ConnId, generation: Generation| {
            node.syncs()
                .any(|view| view.conn == conn && view.generation == generation)
        };
        node.head_read(op)
            .into_iter()
            .filter(|view| is_alive(view.conn, view.generation))
            .filter_map(|view| {
                let attempt = self.by_generation.get(&(view.conn, view.generation))?;
                Some((view.conn, view.generation, *attempt, view.artifacts.clone()))
            })
            .collect()
    }

    /// What each sync made of a head read.
    fn heads_after(
        &mut self,
        takers: &[(ConnId, Generation, Attempt, BTreeSet<ArtifactId>)],
        rows: Option<&HeadRows>,
        effects: &[Effect],
    ) {
        for (conn, generation, attempt, artifacts) in takers {
            let said: Vec<&RelayFrame> = effects
                .iter()
                .filter_map(|effect| match effect {
                    Effect::Send {
                        conn: to,
                        generation: Some(of),
                        frame,
                    } if to == conn && of == generation => Some(frame),
                    _ => None,
                })
                .collect();
            let is_closed = said
                .iter()
                .any(|frame| matches!(frame, RelayFrame::Closed { .. }));
            let sent: BTreeMap<String, (u32, String)> =
                said.iter().filter_map(|frame| read_event(frame)).collect();
            for artifact in artifacts {
                let result = match (rows, sent.get(&artifact.to_string())) {
                    (None, _) => ReadResult::Failed,
                    (Some(rows), _) if rows.left.contains(artifact) => ReadResult::Left,
                    (_, Some((45_011, id))) => ReadResult::Marker(id.clone()),
                    (_, Some((_, id))) => ReadResult::Head(id.clone()),
                    (_, None) if is_closed => ReadResult::Ends,
                    (_, None) => ReadResult::Nothing,
                };
                let is_over = !matches!(result, ReadResult::Failed);
                self.write(Record::ReadEnd {
                    attempt: *attempt,
                    d: artifact.to_string(),
                    index: self.head_index,
                    result,
                });
                if is_over && !is_closed {
                    self.write(Record::Queued {
                        attempt: *attempt,
                        d: artifact.to_string(),
                    });
                }
            }
        }
    }

    fn gauge(&mut self, machine: usize) {
        let Some(node) = &self.machines[machine].node else {
            return;
        };
        let mut seen = Vec::new();
        for view in node.syncs() {
            if let Some(attempt) = self.by_generation.get(&(view.conn, view.generation)) {
                let waiting = view.session.waiting() as u64;
                seen.push((*attempt, waiting, view.session.is_live()));
            }
        }
        let refused: Vec<_> = node.refused().collect();
        for (conn, count, generation) in refused {
            if self.refused.insert(conn, count) != Some(count) {
                let attempt = generation
                    .and_then(|generation| self.by_generation.get(&(conn, generation)))
                    .copied();
                self.write(Record::QueueRefused {
                    conn: conn.0,
                    attempt,
                });
            }
        }
        for (attempt, waiting, is_live) in seen {
            let Some(asked) = self.asked.get_mut(&attempt) else {
                continue;
            };
            let record = if is_live && waiting > asked.dirty_max {
                asked.dirty_max = waiting;
                Record::Dirty {
                    attempt,
                    count: waiting,
                }
            } else if !is_live && waiting > asked.held_max {
                asked.held_max = waiting;
                Record::Held {
                    attempt,
                    count: waiting,
                }
            } else {
                continue;
            };
            self.write(record);
        }
    }

    // -- effects

    fn perform(&mut self, machine: usize, effect: Effect, work: &mut Work) {
        if let Effect::Note(note) = &effect {
            self.note(*note);
            return;
        }
        if let Effect::Submit { submission, .. } = &effect {
            self.prepare_submit(submission.event.id);
        }
        if let Some((op, asked)) = StoreOp::of(&effect) {
            self.begin(machine, op, asked, &effect);
            return;
        }
        match &effect {
            Effect::NextSyncPage { op } => {
                let (inputs, call) = self.machines[machine].next_sync_page(*op);
                self.call(call);
                self.take_all(machine, inputs, work);
            }
            Effect::EndSync { op } => {
                let call = self.machines[machine].end_sync(*op);
                self.call(call);
            }
            Effect::EndHistory { op } => {
                if let Some(tx) = self.machines[machine].tx(*op) {
                    self.store.end(tx);
                }
            }
            Effect::Subscribe { .. } | Effect::Unsubscribe { .. } | Effect::Publish { .. } => {
                let number = self.machines[machine].number;
                self.bus.perform(number, &effect);
            }
            Effect::Send {
                conn,
                generation,
                frame,
            } => {
                self.refusal(*conn, *generation, frame);
                self.links[machine].perform(&effect);
                self.gauge_queue(machine, *conn);
            }
            Effect::Purge { .. } | Effect::Close { .. } | Effect::Credit { .. } => {
                let inputs = self.links[machine].perform(&effect);
                self.take_all(machine, inputs, work);
            }
            _ => {}
        }
    }

    fn take_all(&mut self, machine: usize, inputs: Vec<Input>, work: &mut Work) {
        for input in inputs {
            self.take(machine, input, work);
        }
    }

    fn call(&mut self, call: Option<SyncCall>) {
        match call {
            Some(SyncCall::Next(tx)) => {
                self.store.next_sync_page(tx);
            }
            Some(SyncCall::End(tx)) => self.store.end(tx),
            None => {}
        }
    }

    /// A CLOSED without a generation refuses the REQ that is being handled.
    fn refusal(&mut self, conn: ConnId, generation: Option<Generation>, frame: &RelayFrame) {
        if let (None, RelayFrame::Closed { sub, .. }) = (generation, frame)
            && let Some(attempt) = self.handling
        {
            let key = (conn, sub.as_str().to_owned());
            self.refusals.entry(key).or_default().push_back(attempt);
        }
    }

    fn gauge_queue(&mut self, machine: usize, conn: ConnId) {
        let (bytes, frames) = self.links[machine].unsent(conn);
        let (bytes, frames) = (bytes as u64, frames as u64);
        let most = self.queue_max.entry(conn.0).or_default();
        if frames > most.0 || bytes > most.1 {
            *most = (most.0.max(frames), most.1.max(bytes));
            let (frames, bytes) = *most;
            self.write(Record::Queue {
                conn: conn.0,
                frames,
                bytes,
            });
        }
    }

    fn prepare_submit(&mut self, event: EventId) {
        self.submit_op = self
            .sent_ops
            .get_mut(&event)
            .and_then(|ops| ops.pop_front());
    }

    fn begin(&mut self, machine: usize, op: OpId, asked: StoreOp, effect: &Effect) {
        let time = self.store_time();
        let process = self.machines[machine].process;
        let is_sync = matches!(effect, Effect::OpenSync { .. });
        let tx = self.store.begin(time, process, asked);
        self.machines[machine].began(op, tx, is_sync);
        match effect {
            Effect::Submit { .. } => {
                if let Some(op) = self.submit_op.take() {
                    self.store_ops.insert(tx, op);
                }
            }
            Effect::OpenSync { .. } => {
                let node = self.machines[machine].node.as_ref();
                let view = node.and_then(|node| node.syncs().find(|view| view.read == Some(op)));
                let attempt =
                    view.and_then(|view| self.by_generation.get(&(view.conn, view.generation)));
                if let Some(attempt) = attempt {
                    self.reads.insert((machine, op), (*attempt, false));
                }
            }
            Effect::ReadHeads { .. } => {
                let takers = self.takers(machine, op);
                if takers.len() > 1 {
                    self.goal(goals::SHARED_HEAD_READ);
                }
                for (_, _, attempt, artifacts) in takers {
                    let ds = artifacts.iter().map(ToString::to_string).collect();
                    self.write(Record::ReadBegin { attempt, ds });
                }
            }
            _ => {}
        }
    }

    // -- the store

    pub(super) fn store_step(&mut self, step: StepId, fault: Option<StoreFault>) {
        let time = self.store_time();
        self.hash.update(format!("{step:?}{fault:?}").as_bytes());
        if let Some(fault) = fault {
            let family = match fault {
                StoreFault::CommitUnanswered | StoreFault::Deadlock | StoreFault::Forgotten => {
                    Family::StoreCommits
                }
                _ => Family::StoreReads,
            };
            self.fault(family, &format!("{fault:?} at {:?}", step.kind), None, None);
        }
        let answered = self.store.step(time, step.tx, fault);
        self.note_commits();
        if let Some(answered) = answered {
            self.store_answered(answered);
        }
    }

    fn store_answered(&mut self, answered: Answered) {
        let Some(machine) = self
            .machines
            .iter()
            .position(|machine| machine.node.is_some() && machine.process == answered.process)
        else {
            return;
        };
        let Some(op) = self.machines[machine].op(answered.tx) else {
            return;
        };
        let node = self.machines[machine].number;
        let attempt = self.reads.get(&(machine, op)).map(|(attempt, _)| *attempt);
        match &answered.answer {
            StoreAnswer::SyncPage(Ok(page)) => {
                if let (Some(index), true) = (answered.seen_commits, page.opened.is_some()) {
                    self.snapshot_index.insert((machine, op), index);
                }
            }
            StoreAnswer::SyncPage(Err(failure)) => {
                let what = match failure {
                    ReadFailure::Busy => format::StoreFault::Busy,
                    ReadFailure::Budget => format::StoreFault::Slow,
                    ReadFailure::SnapshotLost => format::StoreFault::SnapshotLost,
                    ReadFailure::Store => format::StoreFault::ReadFailed,
                };
                self.write(Record::StoreFault {
                    node,
                    what,
                    attempt,
                    op: None,
                });
            }
            StoreAnswer::Submitted(holdfast_core::node::SubmitOutcome::Unknown { .. }) => {
                let op = self.store_ops.get(&answered.tx).copied();
                self.write(Record::StoreFault {
                    node,
                    what: format::StoreFault::UnknownCommit,
                    attempt: None,
                    op,
                });
            }
            _ => {}
        }
        if let Some(index) = answered.seen_commits {
            self.read_index.insert((machine, op), index);
        }
        let (inputs, call) = self.machines[machine].answered(op, answered.answer);
        self.call(call);
        for input in inputs {
            self.feed(machine, input);
        }
    }

    /// Commits that others can see since the last look.
    pub(super) fn note_commits(&mut self) {
        while let Some(commit) = self.store.commits().get(self.commits_seen).cloned() {
            self.commits_seen += 1;
            let ops: Vec<_> = commit
                .submissions
                .iter()
                .filter_map(|(tx, _)| self.store_ops.get(tx).copied())
                .collect();
            let node = self.process_node.get(&commit.process).copied().unwrap_or(1);
            self.writes += commit.submissions.len() as u64;
            for change in &commit.changes {
                self.committed.insert(change.position.0);
                if let What::Revision {
                    artifact,
                    event,
                    home,
                    ..
                } = &change.what
                {
                    self.chains
                        .entry(*artifact)
                        .or_default()
                        .push((*event, *home));
                }
            }
            self.record.commit(self.now_ms, node, ops.clone(), &commit);
            for op in ops {
                self.committed_ops.insert(op);
                if let Some(outcome) = self.held_oks.remove(&op) {
                    self.write(outcome);
                }
            }
        }
    }

    pub(super) fn fail_over(&mut self, time: StoreTime, lost: usize) {
        self.fault(Family::Failover, "failover", None, None);
        self.foreign = None;
        self.store.fail_over(time, lost);
        self.note_commits();
    }

    // -- the bus

    pub(super) fn bus_step(&mut self, step: BusStep, fault: Option<BusFault>) {
        self.hash.update(format!("{step:?}{fault:?}").as_bytes());
        let machine = step.peer() as usize - 1;
        let outcome = self.bus.step(step, fault);
        if outcome.has_struck
            && let Some(fault) = fault
        {
            let family = match fault {
                BusFault::Lag
                | BusFault::Undecodable
                | BusFault::Duplicate
                | BusFault::Reorder
                | BusFault::LostForOne(_)
                | BusFault::LostForAll => Family::BusMessages,
                BusFault::PublishRefused
                | BusFault::PublishAnswerLost
                | BusFault::RequestRefused => Family::BusConnection,
            };
            self.fault(family, &format!("{fault:?}"), Some(machine), None);
        }
        for (peer, loss) in &outcome.losses {
            let node = *peer;
            let is_told = |told: fn(&Input) -> bool| outcome.inputs.iter().any(told);
            let record = match loss {
                // Written when the node is told, which may be later; here when it is not told at all.
                Loss::Down if is_told(|input| matches!(input, Input::BusDown)) => continue,
                Loss::Up(_) if is_told(|input| matches!(input, Input::BusUp { .. })) => continue,
                Loss::Down => Record::BusDown { node },
                Loss::Up(generation) => Record::BusUp {
                    node,
                    generation: generation.0,
                },
                Loss::Lag => Record::Lag {
                    node,
                    channel: None,
                },
                Loss::Undecodable => Record::Undecodable {
                    node,
                    channel: None,
                },
            };
            self.write(record);
        }
        if let Some((topic, message)) = &outcome.taken {
            self.note_published(machine, topic, message);
        }
        for input in outcome.inputs {
            self.feed(machine, input);
        }
    }

    fn note_published(&mut self, machine: usize, topic: &Topic, message: &BusMessage) {
        let BusMessage::Signals(signals) = message else {
            return;
        };
        let is_of_channel = matches!(topic, Topic::Channel(..));
        let positions: Vec<u64> = signals
            .iter()
            .filter(|signal| is_of_channel || signal.channel.is_none())
            .map(|signal| signal.position.0)
            .collect();
        if !positions.is_empty() {
            let node = self.machines[machine].number;
            self.write(Record::Published { node, positions });
        }
    }

    // -- links and clients

    pub(super) fn link_step(&mut self, machine: usize, step: LinkStep) {
        self.hash.update(format!("{step:?}").as_bytes());
        let conn = step.conn();
        let outcome = self.links[machine].step(step);
        if let Some(number) = outcome.received
            && let Some(attempt) = self.requests.remove(&(conn, number))
        {
            self.handling = Some(attempt);
            self.write(Record::Received { attempt });
        }
        for (generation, frame) in outcome.read {
            self.client_read(conn, generation, frame);
        }
        if outcome.is_over {
            self.connection_ended(conn, Party::Network, "the connection ended");
        }
        for input in outcome.inputs {
            self.feed(machine, input);
        }
        self.handling = None;
    }

    /// Opens a connection of a client to some process that runs.
    pub(super) fn connect(&mut self) -> Option<(usize, ConnId)> {
        let running: Vec<usize> = (0..self.machines.len())
            .filter(|machine| self.machines[*machine].is_running())
            .collect();
        if running.is_empty() {
            return None;
        }
        let machine = running[self.tape.choose(running.len())];
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        self.links[machine].open(conn);
        self.conn_machine.insert(conn, machine);
        let node = self.machines[machine].number;
        self.write(Record::Connect { conn: conn.0, node });
        self.feed(
            machine,
            Input::Connected {
                conn,
                community: setting::community(),
                relay_url: RELAY.parse().expect("a relay URL"),
                challenge: "c".repeat(64),
            },
        );
        Some((machine, conn))
    }

    pub(super) fn say(&mut self, conn: ConnId, message: ClientMessage) -> Option<u64> {
        self.send(conn, Ok(message))
    }

    fn send(&mut self, conn: ConnId, message: Sent) -> Option<u64> {
        let machine = *self.conn_machine.get(&conn)?;
        self.links[machine].send(conn, message)
    }

    /// A REQ for a sync goes out.
    pub(super) fn ask(
        &mut self,
        conn: ConnId,
        sub: &str,
        reader: String,
        replica: Option<u64>,
        filter: format::Filter,
        message: Sent,
    ) -> Option<Attempt> {
        let attempt = self.attempts.fresh();
        let number = self.send(conn, message)?;
        self.requests.insert((conn, number), attempt);
        let key = (conn, sub.to_owned());
        self.by_sub.insert(key, attempt);
        self.asked.insert(attempt, Asked::default());
        self.write(Record::Req {
            attempt,
            conn: conn.0,
            sub: sub.to_owned(),
            reader: Some(reader),
            replica,
            filter,
        });
        Some(attempt)
    }

    /// A client has read a frame.
    fn client_read(&mut self, conn: ConnId, generation: Option<Generation>, frame: RelayFrame) {
        self.hash.update(frame.to_text().as_bytes());
        let attempt = match (&frame, generation) {
            (_, Some(generation)) => self.by_generation.get(&(conn, generation)).copied(),
            (RelayFrame::Closed { sub, .. }, None) => self
                .refusals
                .get_mut(&(conn, sub.as_str().to_owned()))
                .and_then(|attempts| attempts.pop_front()),
            _ => None,
        };
        match &frame {
            RelayFrame::Event { sub, json } => {
                let (d, h, kind, id) = read_json(json);
                self.write(Record::Event {
                    conn: conn.0,
                    sub: sub.as_str().to_owned(),
                    attempt,
                    kind,
                    id,
                    d,
                    h,
                    raw: None,
                });
            }
            RelayFrame::Eose { sub } => {
                self.eoses += 1;
                self.write(Record::Eose {
                    conn: conn.0,
                    sub: sub.as_str().to_owned(),
                    attempt,
                });
            }
            RelayFrame::Closed { sub, message } => {
                if let Some(word) = message.strip_prefix("resync: ") {
                    *self.resyncs.entry(word.to_owned()).or_default() += 1;
                }
                self.write(Record::Closed {
                    conn: conn.0,
                    sub: sub.as_str().to_owned(),
                    attempt,
                    text: message.clone(),
                });
            }
            RelayFrame::Ok {
                id,
                accepted,
                message,
            } => self.client_ok(conn, *id, *accepted, message),
            RelayFrame::Notice { .. } | RelayFrame::Auth { .. } | RelayFrame::Count { .. } => {}
        }
        self.tell_syncer(conn, frame);
    }

    fn client_ok(&mut self, conn: ConnId, id: EventId, accepted: bool, text: &str) {
        let opens = |line: Line| line == Line::Opening(conn);
        let is_proof = self.people.writers.iter().any(|writer| opens(writer.line))
            || self.people.syncers.iter().any(|syncer| opens(syncer.line))
            || self
                .people
                .hostile
                .as_ref()
                .is_some_and(|hostile| opens(hostile.line));
        if is_proof && !accepted {
            // The relay's clock jumped while the proof was on its way.
            if let Some(machine) = self.conn_machine.get(&conn).copied() {
                self.links[machine].cut(conn);
            }
            return;
        }
        let mut authed = None;
        for writer in &mut self.people.writers {
            if writer.line == Line::Opening(conn) {
                writer.line = Line::Up(conn);
                authed = Some(writer.key);
            }
        }
        for syncer in &mut self.people.syncers {
            if syncer.line == Line::Opening(conn) {
                syncer.line = Line::Up(conn);
                authed = Some(syncer.key);
            }
        }
        if let Some(hostile) = &mut self.people.hostile
            && hostile.line == Line::Opening(conn)
        {
            hostile.line = Line::Up(conn);
            authed = Some(hostile.key);
        }
        if let Some(key) = authed {
            self.write(Record::Auth {
                conn: conn.0,
                key: key.to_string(),
            });
            self.line_is_up(conn);
            return;
        }
        let writer = self
            .people
            .writers
            .iter_mut()
            .find(|writer| is_line(writer.line, conn));
        let Some(writer) = writer else {
            return;
        };
        let Some(at) = writer.waiting.iter().position(|(_, event)| event.id == id) else {
            return;
        };
        let Some((op, event)) = writer.waiting.remove(at) else {
            return;
        };
        let result = record::outcome(accepted, text);
        if matches!(result, format::Outcome::Error) {
            writer.unsure.push(event);
        }
        let outcome = Record::Outcome {
            op,
            result,
            text: text.to_owned(),
        };
        let is_early = self.bug.holds_ok && result == format::Outcome::Ok;
        if is_early && !self.committed_ops.contains(&op) {
            self.held_oks.insert(op, outcome);
        } else {
            self.write(outcome);
        }
    }

    /// A connection is over, as its client sees it.
    pub(super) fn connection_ended(&mut self, conn: ConnId, who: Party, why: &str) {
        self.conn_machine.remove(&conn);
        let mut lost = Vec::new();
        for writer in &mut self.people.writers {
            if is_line(writer.line, conn) {
                writer.line = Line::Down;
                lost.extend(writer.waiting.drain(..).map(|(op, event)| {
                    writer.unsure.push(event);
                    op
                }));
            }
        }
        for op in lost {
            self.write(Record::Outcome {
                op,
                result: format::Outcome::None,
                text: String::new(),
            });
        }
        self.write(Record::Disconnect {
            conn: conn.0,
            who,
            why: why.to_owned(),
        });
        if let Some(hostile) = &mut self.people.hostile
            && is_line(hostile.line, conn)
        {
            hostile.line = Line::Down;
            hostile.subs.clear();
        }
        self.syncer_lost(conn);
    }

    fn note(&mut self, note: Note) {
        let goal = match note {
            Note::SyncWaitsForSnapshot => goals::SLOT_WAIT,
            Note::StaleConfirmation => goals::STALE_CONFIRMATION,
            Note::Swept => goals::SWEEP_FOUND,
            Note::SignalRepeated => goals::SIGNAL_REPEATED,
            Note::LateAnswer => goals::LATE_ANSWER,
            _ => return,
        };
        self.goal(goal);
    }
}

/// URL of every simulated relay.
pub(super) const RELAY: &str = "wss://relay.sim";

/// The artifact, kind and id of an EVENT frame.
fn read_event(frame: &RelayFrame) -> Option<(String, (u32, String))> {
    let RelayFrame::Event { json, .. } = frame else {
        return None;
    };
    let (d, _, kind, id) = read_json(json);
    Some((d, (kind, id)))
}

/// `d`, `h`, kind and id of an event.
fn read_json(json: &str) -> (String, String, u32, String) {
    let event = holdfast_core::nostr::Event::from_json(json).expect("relays send whole events");
    let value = |name: &str| event.first_value(name).unwrap_or_default().to_owned();
    (
        value("d"),
        value("h"),
        u32::from(event.kind),
        event.id.to_string(),
    )
}
