//! The people of a run: writers, replicas and hostile clients, with what they know and wait for. They decide what to do next from
//! the tape; how it reaches a relay is the stepper's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_checker::format::{Attempt, Op};
use holdfast_core::client::replica::{Mode, Replica};
use holdfast_core::ids::{ArtifactId, ChannelId};
use holdfast_core::node::ConnId;
use holdfast_core::nostr::{ArtifactFilter, ArtifactView, Event, EventId, PubKey, kinds};
use holdfast_world::events::{self, Revision, STATUS, TYPE, tag};

use crate::options::Options;
use crate::tape::Tape;

/// Where a client's connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// None.
    Down,
    /// Open; the key is not proven yet.
    Opening(ConnId),
    /// Open and proven.
    Up(ConnId),
}

impl Line {
    pub(super) fn conn(self) -> Option<ConnId> {
        match self {
            Line::Down => None,
            Line::Opening(conn) | Line::Up(conn) => Some(conn),
        }
    }
}

/// Somebody who writes.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) key: PubKey,
    pub(super) line: Line,
    /// Writes that are not answered yet, with their events.
    pub(super) waiting: VecDeque<(Op, Event)>,
    /// Events whose outcome this writer did not learn: it sends one of them again.
    pub(super) unsure: Vec<Event>,
}

/// Somebody who keeps a copy.
#[derive(Clone, Debug)]
pub(super) struct Syncer {
    pub(super) id: u64,
    pub(super) key: PubKey,
    pub(super) filter: ArtifactFilter,
    pub(super) replica: Replica,
    pub(super) mode: Mode,
    pub(super) line: Line,
    /// The replica asked for a connection.
    pub(super) wants_line: bool,
    /// The attempt of its newest REQ.
    pub(super) attempt: Option<Attempt>,
    /// Why the newest attempt ended, if it did.
    pub(super) ended: Option<String>,
    /// M39: what it took over before EOSE.
    pub(super) merged: BTreeMap<String, String>,
}

/// Somebody who behaves badly.
#[derive(Clone, Debug)]
pub(super) struct Hostile {
    pub(super) key: PubKey,
    pub(super) line: Line,
    /// Open attempts by subscription id.
    pub(super) subs: BTreeMap<String, Attempt>,
}

/// Everybody.
#[derive(Clone, Debug)]
pub(super) struct People {
    pub(super) owner: PubKey,
    pub(super) writers: Vec<Writer>,
    pub(super) syncers: Vec<Syncer>,
    pub(super) hostile: Option<Hostile>,
    pub(super) channels: Vec<ChannelId>,
    pub(super) artifacts: Vec<ArtifactId>,
    serial: u64,
}

/// What is known of an artifact, for somebody who wants to write on it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) head: EventId,
    pub(super) home: ChannelId,
    pub(super) is_deleted: bool,
    pub(super) is_redacted: bool,
}

/// A filter over some channels, perhaps one value of the status tag, perhaps the type.
pub(super) fn draw_filter(
    options: &Options,
    channels: &[ChannelId],
    tape: &mut Tape,
) -> ArtifactFilter {
    let mut named = BTreeSet::new();
    for _ in 0..tape.between(1, 2) {
        named.insert(channels[tape.choose(channels.len())].to_string());
    }
    let mut predicates = BTreeMap::from([("h".to_owned(), named)]);
    if tape.percent(65) {
        let mut values = BTreeSet::from([status(tape.choose(options.tag_values as usize))]);
        if tape.percent(20) {
            values.insert(status(tape.choose(options.tag_values as usize)));
        }
        predicates.insert(STATUS.to_owned(), values);
    } else if tape.percent(50) {
        predicates.insert("type".to_owned(), BTreeSet::from([TYPE.to_owned()]));
    }
    ArtifactFilter {
        view: ArtifactView::Current,
        predicates,
        limit: None,
        offset: None,
        kinds_given: tape.percent(30),
    }
}

fn status(n: usize) -> String {
    format!("s{n}")
}

impl People {
    pub(super) fn new(options: &Options, syncers: Vec<Syncer>) -> People {
        let writers = (0..options.writers)
            .map(|n| Writer {
                // The first writer owns the channels.
                key: events::person(1 + n as u8),
                line: Line::Down,
                waiting: VecDeque::new(),
                unsure: Vec::new(),
            })
            .collect();
        let is_hostile = options.has(crate::options::Family::Hostile);
        People {
            owner: events::person(1),
            writers,
            syncers,
            hostile: is_hostile.then(|| Hostile {
                key: events::person(90),
                line: Line::Down,
                subs: BTreeMap::new(),
            }),
            channels: (0..options.channels).map(events::channel).collect(),
            artifacts: (0..options.artifacts).map(events::artifact).collect(),
            serial: 0,
        }
    }

    /// A number that no event had before.
    pub(super) fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// The events that make the channels and memberships of the beginning.
    pub(super) fn founding(
        &mut self,
        options: &Options,
        now_secs: u64,
        tape: &mut Tape,
    ) -> Vec<Event> {
        let mut founding = Vec::new();
        let owner = self.owner;
        for (n, channel) in self.channels.clone().into_iter().enumerate() {
            let visibility = if n > 0 && tape.percent(60) {
                "private"
            } else {
                "open"
            };
            let further = vec![tag(&["name", "sim"]), tag(&["visibility", visibility])];
            let serial = self.serial();
            founding.push(events::command(
                owner,
                now_secs,
                kinds::GROUP_CREATE,
                channel,
                further,
                serial,
            ));
            let members = (1..options.writers)
                .map(|n| events::person(1 + n as u8))
                .chain(self.syncers.iter().map(|syncer| syncer.key))
                .collect::<BTreeSet<PubKey>>();
            for member in members {
                if member != owner && tape.percent(if n == 0 { 90 } else { 65 }) {
                    let further = vec![tag(&["p", &member.to_string()])];
                    let serial = self.serial();
                    founding.push(events::command(
                        owner,
                        now_secs,
                        kinds::GROUP_PUT_USER,
                        channel,
                        further,
                        serial,
                    ));
                }
            }
        }
        founding
    }

    /// The next event of a writer.
    pub(super) fn next_event(
        &mut self,
        writer: usize,
        options: &Options,
        now_secs: u64,
        known: &BTreeMap<ArtifactId, Known>,
        history: &BTreeMap<ArtifactId, Vec<(EventId, ChannelId)>>,
        tape: &mut Tape,
    ) -> Event {
        let again = !self.writers[writer].unsure.is_empty() && tape.percent(50);
        if again {
            let at = tape.choose(self.writers[writer].unsure.len());
            return self.writers[writer].unsure.swap_remove(at);
        }
        let w = options.workload;
        let weights = [
            w.create,
            w.update,
            w.relocate,
            w.delete,
            w.redact,
            w.membership,
            w.channel,
            w.channel_delete,
            w.message,
        ];
        match tape.weighted(&weights) {
            Some(0) => self.create(writer, options, now_secs, known, tape),
            Some(1) => self.revise(writer, "update", options, now_secs, known, history, tape),
            Some(2) => self.revise(writer, "move", options, now_secs, known, history, tape),
            Some(3) => self.revise(writer, "delete", options, now_secs, known, history, tape),
            Some(4) => self.redact(now_secs, history, tape),
            Some(5) => self.membership(now_secs, tape),
            Some(6) => self.channel_change(now_secs, tape),
            Some(7) => self.channel_command(now_secs, kinds::GROUP_DELETE, Vec::new(), tape),
            _ => self.message(writer, now_secs, tape),
        }
    }

    fn draw_channel(&self, tape: &mut Tape) -> ChannelId {
        self.channels[tape.choose(self.channels.len())]
    }

    fn create(
        &mut self,
        writer: usize,
        options: &Options,
        now_secs: u64,
        known: &BTreeMap<ArtifactId, Known>,
        tape: &mut Tape,
    ) -> Event {
        let unused: Vec<ArtifactId> = self
            .artifacts
            .iter()
            .copied()
            .filter(|artifact| !known.contains_key(artifact))
            .collect();
        let artifact = if unused.is_empty() || tape.percent(10) {
            self.artifacts[tape.choose(self.artifacts.len())]
        } else {
            unused[tape.choose(unused.len())]
        };
        let revision = Revision {
            artifact,
            home: self.draw_channel(tape),
            op: "create",
            prev: None,
            status: Some(status(tape.choose(options.tag_values as usize))),
        };
        let serial = self.serial();
        revision.event(self.writers[writer].key, now_secs, serial)
    }

    #[allow(clippy::too_many_arguments)]
    fn revise(
        &mut self,
        writer: usize,
        op: &'static str,
        options: &Options,
        now_secs: u64,
        known: &BTreeMap<ArtifactId, Known>,
        history: &BTreeMap<ArtifactId, Vec<(EventId, ChannelId)>>,
        tape: &mut Tape,
    ) -> Event {
        let Some((artifact, known)) = (!known.is_empty())
            .then(|| known.iter().nth(tape.choose(known.len())))
            .flatten()
        else {
            return self.create(writer, options, now_secs, known, tape);
        };
        let op = if known.is_deleted { "restore" } else { op };
        let earlier = history.get(artifact).map_or(&[][..], Vec::as_slice);
        let is_stale = !earlier.is_empty() && tape.percent(8);
        let prev = if is_stale {
            earlier[tape.choose(earlier.len())].0
        } else {
            known.head
        };
        let home = if op == "move" {
            self.draw_channel(tape)
        } else {
            known.home
        };
        let revision = Revision {
            artifact: *artifact,
            home,
            op,
            prev: Some(prev),
            status: Some(status(tape.choose(options.tag_values as usize))),
        };
        let _ = known.is_redacted;
        let serial = self.serial();
        // Deletions of one head by one author in one second would be one event.
        let created_at = if op == "delete" {
            now_secs + serial % 600
        } else {
            now_secs
        };
        revision.event(self.writers[writer].key, created_at, serial)
    }

    fn redact(
        &mut self,
        now_secs: u64,
        history: &BTreeMap<ArtifactId, Vec<(EventId, ChannelId)>>,
        tape: &mut Tape,
    ) -> Event {
        let all: Vec<&(EventId, ChannelId)> = history.values().flatten().collect();
        let newest: Vec<&(EventId, ChannelId)> =
            history.values().filter_map(|chain| chain.last()).collect();
        let from = if tape.percent(70) { &newest } else { &all };
        if from.is_empty() {
            return self.membership(now_secs, tape);
        }
        let (target, home) = *from[tape.choose(from.len())];
        let further = vec![tag(&["e", &target.to_string()])];
        let serial = self.serial();
        events::command(
            self.owner,
            now_secs,
            kinds::GROUP_DELETE_EVENT,
            home,
            further,
            serial,
        )
    }

    fn membership(&mut self, now_secs: u64, tape: &mut Tape) -> Event {
        let channel = self.draw_channel(tape);
        let mut everybody: Vec<PubKey> = self.syncers.iter().map(|syncer| syncer.key).collect();
        everybody.extend(self.writers.iter().skip(1).map(|writer| writer.key));
        let who = everybody[tape.choose(everybody.len())];
        let serial = self.serial();
        let p = tag(&["p", &who.to_string()]);
        match tape.choose(5) {
            0 | 1 => events::command(
                self.owner,
                now_secs,
                kinds::GROUP_PUT_USER,
                channel,
                vec![p],
                serial,
            ),
            2 => {
                let role = tag(&["role", ["guest", "member", "admin"][tape.choose(3)]]);
                events::command(
                    self.owner,
                    now_secs,
                    kinds::GROUP_PUT_USER,
                    channel,
                    vec![p, role],
                    serial,
                )
            }
            _ => events::command(
                self.owner,
                now_secs,
                kinds::GROUP_REMOVE_USER,
                channel,
                vec![p],
                serial,
            ),
        }
    }

    fn channel_change(&mut self, now_secs: u64, tape: &mut Tape) -> Event {
        let edit = match tape.choose(6) {
            0 => tag(&["visibility", "open"]),
            1 => tag(&["visibility", "private"]),
            2 => tag(&["archived", "true"]),
            3 | 4 => tag(&["archived", "false"]),
            _ => tag(&["topic", "another topic"]),
        };
        self.channel_command(now_secs, kinds::GROUP_EDIT, vec![edit], tape)
    }

    fn channel_command(
        &mut self,
        now_secs: u64,
        kind: holdfast_core::nostr::Kind,
        further: Vec<holdfast_core::nostr::Tag>,
        tape: &mut Tape,
    ) -> Event {
        let channel = self.draw_channel(tape);
        let serial = self.serial();
        events::command(self.owner, now_secs, kind, channel, further, serial)
    }

    fn message(&mut self, writer: usize, now_secs: u64, tape: &mut Tape) -> Event {
        let channel = self.draw_channel(tape);
        let serial = self.serial();
        events::command(
            self.writers[writer].key,
            now_secs,
            kinds::CHAT,
            channel,
            Vec::new(),
            serial,
        )
    }
}
