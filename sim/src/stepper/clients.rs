//! What people do, and what they make of what they read.

use std::collections::BTreeMap;

use holdfast_checker::format::{self, Record};
use holdfast_core::client::replica::{self, Mode, Replica, SyncFrame};
use holdfast_core::client::{Backoff, SyncCapability};
use holdfast_core::ids::{ArtifactId, ChannelId, Now};
use holdfast_core::node::ConnId;
use holdfast_core::nostr::{ClientMessage, RelayFrame, SubId};
use holdfast_world::events::{self, STATUS};
use holdfast_world::links::{Reader, Sent};

use super::people::{Known, Line, Syncer, draw_filter};
use super::perform::RELAY;
use super::{Stepper, is_line, record};
use crate::options::Options;
use crate::tape::Tape;

/// First and longest delay of a replica, in milliseconds.
const BACKOFF_MS: (u64, u64) = (20, 1_600);
/// Milliseconds a replica waits for EOSE.
const SILENCE_MS: u64 = 15_000;

/// The replicas of a run. Some want the same set with the same key, so that their copies can be compared.
pub(super) fn draw_syncers(
    options: &Options,
    channels: &[ChannelId],
    tape: &mut Tape,
) -> Vec<Syncer> {
    let mut syncers: Vec<Syncer> = Vec::new();
    for id in 0..u64::from(options.syncers) {
        let twin = (!syncers.is_empty() && tape.percent(35)).then(|| {
            let twin = &syncers[tape.choose(syncers.len())];
            (twin.key, twin.filter.clone())
        });
        let (key, filter) = twin.unwrap_or_else(|| {
            let key = events::person(50 + id as u8);
            (key, draw_filter(options, channels, tape))
        });
        let mut config = replica::Config::new(filter.clone(), &format!("r{id}-"))
            .expect("drawn filters can be synced");
        config.silence_ms = SILENCE_MS;
        config.backoff = Backoff::new(BACKOFF_MS.0, BACKOFF_MS.1);
        config.refresh_ms = tape.percent(10).then(|| tape.between(2_000, 6_000));
        syncers.push(Syncer {
            id,
            key,
            filter,
            replica: Replica::new(config),
            mode: Mode::Follow,
            line: Line::Down,
            wants_line: false,
            attempt: None,
            ended: None,
            merged: BTreeMap::new(),
        });
    }
    syncers
}

impl Stepper<'_> {
    /// Every replica wants its set from here on.
    pub(super) fn begin_replicas(&mut self) {
        for at in 0..self.people.syncers.len() {
            let syncer = &self.people.syncers[at];
            self.write(Record::Want {
                replica: syncer.id,
                filter: record::filter(&syncer.filter),
                reader: syncer.key.to_string(),
            });
            let mode = self.people.syncers[at].mode;
            let jitter = self.jitter();
            self.replica_step(at, replica::Input::Start { mode, jitter });
        }
    }

    fn jitter(&mut self) -> u64 {
        self.tape.choose(1 << 16) as u64
    }

    /// Replicas whose time has come are woken.
    pub(super) fn wake_replicas(&mut self) {
        for at in 0..self.people.syncers.len() {
            let wakeup = self.people.syncers[at].replica.next_wakeup();
            if wakeup.is_some_and(|wakeup| wakeup.at_mono_ms <= self.now_ms) {
                let jitter = self.jitter();
                self.replica_step(at, replica::Input::Woken { jitter });
            }
        }
    }

    fn replica_step(&mut self, at: usize, input: replica::Input) {
        let now = Now {
            mono_ms: self.now_ms,
            wall_secs: self.wall_secs(),
        };
        let failures = self.people.syncers[at].replica.failures_in_row();
        let mut effects = Vec::new();
        self.people.syncers[at]
            .replica
            .step(now, input, &mut effects);
        let _ = failures;
        for effect in effects {
            self.replica_effect(at, effect);
        }
    }

    fn replica_effect(&mut self, at: usize, effect: replica::Effect) {
        let id = self.people.syncers[at].id;
        match effect {
            replica::Effect::Connect => self.people.syncers[at].wants_line = true,
            replica::Effect::HangUp => {
                if let Some(conn) = self.people.syncers[at].line.conn() {
                    self.hang_up(conn);
                }
            }
            replica::Effect::Req { sub, filter } => {
                let syncer = &mut self.people.syncers[at];
                syncer.ended = None;
                syncer.merged.clear();
                let (key, line) = (syncer.key.to_string(), syncer.line);
                if let Some(conn) = line.conn() {
                    let name = sub.as_str().to_owned();
                    let message = ClientMessage::ArtifactReq {
                        sub,
                        filter: Ok((*filter).clone()),
                    };
                    let recorded = record::filter(&filter);
                    let attempt = self.ask(conn, &name, key, Some(id), recorded, Ok(message));
                    self.people.syncers[at].attempt = attempt;
                }
            }
            replica::Effect::Close { sub } => {
                let (line, attempt) = (
                    self.people.syncers[at].line,
                    self.people.syncers[at].attempt,
                );
                if let (Some(conn), Some(attempt)) = (line.conn(), attempt) {
                    self.write(Record::Close { attempt });
                    self.say(conn, ClientMessage::Close { sub });
                }
            }
            replica::Effect::Replaced => {
                self.local_set(at);
            }
            replica::Effect::Failed(failure) => {
                self.people.syncers[at].ended = Some(failure.to_string());
                self.local_set(at);
            }
            replica::Effect::RetryAt { at_mono_ms } => {
                let replica = &self.people.syncers[at].replica;
                let failures = replica.failures_in_row();
                let backoff = Backoff::new(BACKOFF_MS.0, BACKOFF_MS.1);
                let (least_ms, most_ms) = backoff.range_ms(failures);
                self.write(Record::RetryDelay {
                    replica: id,
                    failures,
                    delay_ms: at_mono_ms.saturating_sub(self.now_ms),
                    least_ms,
                    most_ms,
                });
            }
            replica::Effect::Upserted { .. }
            | replica::Effect::Removed { .. }
            | replica::Effect::Stale
            | replica::Effect::Done(_)
            | replica::Effect::Note(_) => {}
        }
    }

    /// Writes the local set of a replica down.
    pub(super) fn local_set(&mut self, at: usize) {
        let syncer = &self.people.syncers[at];
        let Some(set) = syncer.replica.set() else {
            return;
        };
        let mut entries: BTreeMap<String, String> = set
            .iter()
            .map(|(artifact, head)| (artifact.to_string(), head.id.to_string()))
            .collect();
        entries.extend(syncer.merged.clone());
        let digest =
            if syncer.merged.is_empty() {
                set.digest().to_string()
            } else {
                holdfast_core::artifact::set_digest(entries.iter().filter_map(|(d, rev)| {
                    Some((d.parse::<ArtifactId>().ok()?, rev.parse().ok()?))
                }))
                .to_string()
            };
        let record = Record::LocalSet {
            replica: syncer.id,
            digest,
            stale: syncer.replica.stale().is_some(),
            entries: entries.into_iter().collect(),
        };
        self.write(record);
    }

    fn hang_up(&mut self, conn: ConnId) {
        if let Some(machine) = self.conn_machine.get(&conn).copied() {
            self.links[machine].cut(conn);
        }
        for syncer in &mut self.people.syncers {
            if is_line(syncer.line, conn) {
                syncer.line = Line::Down;
            }
        }
    }

    /// The connection of a replica is gone.
    pub(super) fn syncer_lost(&mut self, conn: ConnId) {
        let at = self
            .people
            .syncers
            .iter()
            .position(|syncer| is_line(syncer.line, conn));
        if let Some(at) = at {
            self.people.syncers[at].line = Line::Down;
            self.replica_step(at, replica::Input::Disconnected);
        }
    }

    /// The relay took the key of a connection.
    pub(super) fn line_is_up(&mut self, conn: ConnId) {
        let at = self
            .people
            .syncers
            .iter()
            .position(|syncer| syncer.line == Line::Up(conn));
        if let Some(at) = at {
            let max_events = std::num::NonZeroU32::new(self.options.max_events)
                .expect("options have a set size of at least 1");
            let sync = Some(SyncCapability { max_events });
            self.replica_step(at, replica::Input::Connected { sync });
        }
    }

    /// A replica hears a frame of its connection.
    pub(super) fn tell_syncer(&mut self, conn: ConnId, frame: RelayFrame) {
        let at = self
            .people
            .syncers
            .iter()
            .position(|syncer| syncer.line == Line::Up(conn));
        let Some(at) = at else { return };
        if self.bug.client {
            self.merge_early(at, &frame);
        }
        let frame = SyncFrame::of(frame).expect("relays send whole events");
        if let Some(frame) = frame {
            self.replica_step(at, replica::Input::Heard(frame));
        }
    }

    /// M39: a replica takes an event over before EOSE, and forgets to undo that when the attempt fails.
    fn merge_early(&mut self, at: usize, frame: &RelayFrame) {
        let syncer = &mut self.people.syncers[at];
        let is_loading = syncer.replica.received().is_some();
        if let (true, RelayFrame::Event { json, .. }) = (is_loading, frame)
            && let Ok(event) = holdfast_core::nostr::Event::from_json(json)
        {
            let d = event.first_value("d").unwrap_or_default().to_owned();
            syncer.merged.insert(d, event.id.to_string());
            if syncer.replica.set().is_some() {
                self.local_set(at);
            }
        } else if matches!(frame, RelayFrame::Eose { .. }) {
            syncer.merged.clear();
        }
    }

    /// A writer sends something, or comes back first.
    pub(super) fn let_write(&mut self, writer: usize) {
        if !self.ensure_writer(writer) {
            return;
        }
        let known = self.known();
        let now_secs = self.wall_secs();
        let chains = self.chains.clone();
        let event = self.people.next_event(
            writer,
            self.options,
            now_secs,
            &known,
            &chains,
            &mut self.tape,
        );
        let by = self
            .people
            .writers
            .iter()
            .position(|writer| writer.key == event.pubkey)
            .unwrap_or(writer);
        if by != writer && !self.ensure_writer(by) {
            return;
        }
        let Line::Up(conn) = self.people.writers[by].line else {
            return;
        };
        let Some(machine) = self.conn_machine.get(&conn).copied() else {
            return;
        };
        self.next_op += 1;
        let op = self.next_op;
        if let Some(prev) = event.first_value("prev").and_then(|prev| prev.parse().ok()) {
            let count = self.prevs.entry(prev).or_default();
            *count += 1;
            if *count == 2 {
                self.competing += 1;
            }
        }
        let record = Record::Submit {
            op,
            key: event.pubkey.to_string(),
            node: self.machines[machine].number,
            event: event.id.to_string(),
            revision: record::intent(&event),
        };
        self.write(record);
        self.sent_ops.entry(event.id).or_default().push_back(op);
        self.people.writers[by]
            .waiting
            .push_back((op, event.clone()));
        self.say(conn, ClientMessage::Event(Box::new(event)));
    }

    /// Whether the writer has a proven connection; opens one otherwise.
    fn ensure_writer(&mut self, writer: usize) -> bool {
        match self.people.writers[writer].line {
            Line::Up(_) => return true,
            Line::Opening(_) => return false,
            Line::Down => {}
        }
        let key = self.people.writers[writer].key;
        if let Some((machine, conn)) = self.connect() {
            self.people.writers[writer].line = Line::Opening(conn);
            self.prove(machine, conn, key);
        }
        false
    }

    fn prove(&mut self, machine: usize, conn: ConnId, key: holdfast_core::nostr::PubKey) {
        let now = self.machines[machine].now(self.now_ms).wall_secs;
        let event = events::auth(key, now, RELAY, &"c".repeat(64));
        self.say(conn, ClientMessage::Auth(Box::new(event)));
    }

    fn known(&self) -> BTreeMap<ArtifactId, Known> {
        let state = self.store.final_state();
        state
            .heads
            .iter()
            .map(|((_, artifact), head)| {
                let known = Known {
                    head: head.event,
                    home: head.home,
                    is_deleted: head.deleted,
                    is_redacted: head.redacted,
                };
                (*artifact, known)
            })
            .collect()
    }

    /// A replica or a hostile client does something of its own.
    pub(super) fn let_client_act(&mut self) {
        self.connect_waiting();
        if self.people.hostile.is_some() && self.tape.percent(40) {
            self.let_hostile_act();
        } else if self.tape.percent(4) && !self.is_quiet {
            let at = self.tape.choose(self.people.syncers.len());
            let mode = self.people.syncers[at].mode;
            let jitter = self.jitter();
            self.replica_step(at, replica::Input::Start { mode, jitter });
        }
    }

    /// Replicas that wait for a connection get one.
    pub(super) fn connect_waiting(&mut self) {
        for at in 0..self.people.syncers.len() {
            if !self.people.syncers[at].wants_line {
                continue;
            }
            let key = self.people.syncers[at].key;
            if let Some((machine, conn)) = self.connect() {
                self.people.syncers[at].wants_line = false;
                self.people.syncers[at].line = Line::Opening(conn);
                self.prove(machine, conn, key);
            } else if self.tape.percent(20) {
                self.people.syncers[at].wants_line = false;
                self.replica_step(at, replica::Input::Disconnected);
            }
        }
    }

    fn let_hostile_act(&mut self) {
        let Some(hostile) = &self.people.hostile else {
            return;
        };
        let (key, line) = (hostile.key, hostile.line);
        match line {
            Line::Opening(_) => {}
            Line::Down => {
                if let Some((machine, conn)) = self.connect() {
                    if let Some(hostile) = &mut self.people.hostile {
                        hostile.line = Line::Opening(conn);
                    }
                    self.prove(machine, conn, key);
                }
            }
            Line::Up(conn) => self.hostile_move(conn, key.to_string()),
        }
    }

    fn hostile_move(&mut self, conn: ConnId, key: String) {
        let machine = self.conn_machine.get(&conn).copied();
        match self.tape.choose(12) {
            0..=4 => {
                let sub = ["a", "b", "c"][self.tape.choose(3)];
                let channels = self.people.channels.clone();
                let filter = draw_filter(self.options, &channels, &mut self.tape);
                let recorded = record::filter(&filter);
                let message = ClientMessage::ArtifactReq {
                    sub: SubId::new(sub).expect("a short id"),
                    filter: Ok(filter),
                };
                self.hostile_ask(conn, sub, key, recorded, Ok(message));
            }
            5 | 6 => self.hostile_nonsense(conn, key),
            7..=9 => {
                let open = self.people.hostile.as_ref().and_then(|hostile| {
                    let (sub, attempt) = hostile.subs.iter().next()?;
                    Some((sub.clone(), *attempt))
                });
                if let Some((sub, attempt)) = open {
                    self.write(Record::Close { attempt });
                    if let Some(hostile) = &mut self.people.hostile {
                        hostile.subs.remove(&sub);
                    }
                    let sub = SubId::new(&sub).expect("it was one before");
                    self.say(conn, ClientMessage::Close { sub });
                }
            }
            10 => {
                if let Some(machine) = machine {
                    let reader = if self.tape.percent(50) {
                        Reader::Stalled
                    } else {
                        Reader::Fast
                    };
                    self.links[machine].set_reader(conn, reader);
                }
            }
            _ => {
                if let Some(machine) = machine {
                    self.links[machine].cut(conn);
                }
            }
        }
    }

    fn hostile_ask(
        &mut self,
        conn: ConnId,
        sub: &str,
        key: String,
        recorded: format::Filter,
        message: Sent,
    ) {
        if let Some(attempt) = self.ask(conn, sub, key, None, recorded, message)
            && let Some(hostile) = &mut self.people.hostile
        {
            hostile.subs.insert(sub.to_owned(), attempt);
        }
    }

    /// A request that every relay refuses.
    fn hostile_nonsense(&mut self, conn: ConnId, key: String) {
        let sub = ["a", "b", "x"][self.tape.choose(3)];
        let channel = self.people.channels[0];
        let texts = [
            r##"{"artifact":"current"}"##.to_owned(),
            format!(r##"{{"artifact":"current","#h":["{channel}"],"limit":5}}"##),
            format!(r##"{{"artifact":"current","#h":["{channel}"],"offset":0}}"##),
            format!(r##"{{"artifact":"current","#h":["{channel}"],"since":1}}"##),
            format!(r##"{{"artifact":"current","#h":["{channel}"],"kinds":[45011]}}"##),
            format!(r##"{{"artifact":"current","#h":["{channel}"],"#{STATUS}":[]}}"##),
            format!(r##"{{"artifact":"current","#h":["{channel}"]}},{{"kinds":[9]}}"##),
        ];
        let text = &texts[self.tape.choose(texts.len())];
        let frame = format!(r#"["REQ","{sub}",{text}]"#);
        let message = ClientMessage::parse(&frame);
        let recorded = record::malformed(text);
        self.hostile_ask(conn, sub, key, recorded, message);
    }
}
