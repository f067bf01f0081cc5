//! The toy's clients: writers, and replicas that keep a copy and come back after every failure.

use std::collections::{BTreeMap, VecDeque};

use holdfast_checker::format::{
    Attempt, Conn, Filter, Intent, Node, Op, Outcome, Party, Record, Replica,
};

use super::relay::{Link, Phase, Session};
use super::world::{KEYS, World, digest};
use super::{NODES, Toy};

/// A write under way.
pub(crate) struct Writing {
    node: Node,
    event: String,
    key: String,
    intent: Intent,
    project: String,
    /// The answer that is under way.
    answer: Option<Outcome>,
}

/// A replica.
pub(crate) struct Replicant {
    pub(crate) key: String,
    pub(crate) filter: Filter,
    conn: Option<(Conn, Node)>,
    attempt: Option<Attempt>,
    complete: bool,
    loading: BTreeMap<String, String>,
    local: BTreeMap<String, String>,
    stale: bool,
    failures: u32,
    /// When it may try again.
    ready_ms: u64,
    /// Why its last attempt cannot be repeated with success.
    hopeless: bool,
}

fn filter(channels: &[&str], project: Option<&str>) -> Filter {
    let values = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let tags = project.map(|project| ("project".to_owned(), values(&[project])));
    Filter {
        h: values(channels),
        tags: tags.into_iter().collect(),
        malformed: None,
    }
}

impl Toy {
    pub(crate) fn found_replicas(&mut self) {
        let wishes = [
            filter(&["c1"], None),
            filter(&["c1", "c2"], None),
            filter(&["c1"], Some("p1")),
            filter(&["c3"], None),
            filter(&["c2", "c3"], Some("p0")),
        ];
        for (index, filter) in wishes.into_iter().enumerate() {
            let replica = index as u64 + 1;
            let key = KEYS[index % KEYS.len()].to_owned();
            self.record(Record::Want {
                replica,
                filter: filter.clone(),
                reader: key.clone(),
            });
            let replicant = Replicant {
                key,
                filter,
                conn: None,
                attempt: None,
                complete: false,
                loading: BTreeMap::new(),
                local: BTreeMap::new(),
                stale: false,
                failures: 0,
                ready_ms: 0,
                hopeless: false,
            };
            self.replicas.insert(replica, replicant);
        }
    }

    pub(crate) fn submit(&mut self) {
        let (intent, project) = self.intend();
        let (op, node) = (self.fresh(), *self.dice.pick(&NODES));
        let (event, key) = (format!("r{op}"), (*self.dice.pick(&KEYS)).to_owned());
        let revision = Some(intent.clone());
        self.record(Record::Submit {
            op,
            key: key.clone(),
            node,
            event: event.clone(),
            revision,
        });
        self.writes.insert(
            op,
            Writing {
                node,
                event,
                key,
                intent,
                project,
                answer: None,
            },
        );
    }

    /// Commits or answers one write.
    pub(crate) fn advance_write(&mut self) {
        let ops: Vec<Op> = self.writes.keys().copied().collect();
        if ops.is_empty() {
            return;
        }
        let op = *self.dice.pick(&ops);
        let mut writing = self.writes.remove(&op).expect("it is listed");
        if let Some(result) = writing.answer {
            let text = match result {
                Outcome::Conflict => "conflict: artifact head unavailable",
                _ => "",
            };
            self.record(Record::Outcome {
                op,
                result,
                text: text.to_owned(),
            });
            // Sometimes an accepted event is sent again.
            if result == Outcome::Ok && self.dice.once_in(6) {
                self.resubmit(writing);
            }
            return;
        }
        let Writing {
            node,
            event,
            key,
            intent,
            project,
            ..
        } = &writing;
        let known = self.world.accepted.contains(event);
        let accepted = !known && self.accept(*node, op, event, key, intent, project);
        writing.answer = Some(match (known, accepted) {
            (true, _) => Outcome::Duplicate,
            (_, true) if self.weather.faults && self.dice.once_in(8) => Outcome::Error,
            (_, true) => Outcome::Ok,
            _ => Outcome::Conflict,
        });
        self.writes.insert(op, writing);
    }

    fn resubmit(&mut self, writing: Writing) {
        let (op, node) = (self.fresh(), *self.dice.pick(&NODES));
        let (event, key, revision) = (
            writing.event.clone(),
            writing.key.clone(),
            Some(writing.intent.clone()),
        );
        self.record(Record::Submit {
            op,
            key,
            node,
            event,
            revision,
        });
        self.writes.insert(
            op,
            Writing {
                node,
                answer: None,
                ..writing
            },
        );
    }

    /// Hands the next frame of one connection to its client.
    pub(crate) fn deliver(&mut self) {
        let conns: Vec<Conn> = self
            .links
            .iter()
            .filter(|(_, link)| !link.frames.is_empty())
            .map(|(&conn, _)| conn)
            .collect();
        if conns.is_empty() {
            return;
        }
        let conn = *self.dice.pick(&conns);
        let link = self.links.get_mut(&conn).expect("it is listed");
        let (attempt, frame) = link.frames.pop_front().expect("it has frames");
        self.record(frame.clone());
        let found = self
            .replicas
            .iter()
            .find(|(_, replica)| replica.attempt == Some(attempt));
        let Some(replica) = found.map(|(&replica, _)| replica) else {
            return;
        };
        self.take_frame(replica, &frame);
    }

    fn take_frame(&mut self, replica: Replica, frame: &Record) {
        let own = self.replicas.get_mut(&replica).expect("it is known");
        match frame {
            Record::Event { kind, id, d, .. } => {
                let stays = *kind == 45_010 && is_member(&self.lines, &own.filter, id);
                let set = if own.complete {
                    &mut own.local
                } else {
                    &mut own.loading
                };
                if stays {
                    set.insert(d.clone(), id.clone());
                } else {
                    set.remove(d);
                }
            }
            Record::Eose { .. } => {
                own.complete = true;
                own.local = std::mem::take(&mut own.loading);
                (own.stale, own.failures) = (false, 0);
                self.note_local_set(replica);
            }
            Record::Closed { text, .. } => {
                own.stale |= text.starts_with("error:");
                own.hopeless = text.starts_with("restricted:") || text == "error: too-large";
                self.fail(replica);
            }
            _ => {}
        }
    }

    pub(crate) fn note_local_set(&mut self, replica: Replica) {
        let own = &self.replicas[&replica];
        let entries = own
            .local
            .iter()
            .map(|(d, rev)| (d.clone(), rev.clone()))
            .collect();
        let (digest, stale) = (digest(&own.local), own.stale);
        self.record(Record::LocalSet {
            replica,
            digest,
            stale,
            entries,
        });
    }

    /// An attempt failed: the replica keeps its set and waits, longer after each failure in a row.
    fn fail(&mut self, replica: Replica) {
        let own = self.replicas.get_mut(&replica).expect("it is known");
        (own.attempt, own.complete) = (None, false);
        own.loading.clear();
        own.failures += 1;
        let failures = own.failures;
        let most_ms = 4 << failures.min(4);
        let least_ms = most_ms / 2;
        let delay_ms = least_ms + self.dice.roll(most_ms - least_ms + 1);
        let own = self.replicas.get_mut(&replica).expect("it is known");
        own.ready_ms = self.now_ms + delay_ms;
        self.record(Record::RetryDelay {
            replica,
            failures,
            delay_ms,
            least_ms,
            most_ms,
        });
        self.note_local_set(replica);
    }

    /// A connection ends.
    pub(crate) fn cut(&mut self, conn: Conn, who: Party) {
        self.links.remove(&conn);
        self.record(Record::Disconnect {
            conn,
            who,
            why: "cut".to_owned(),
        });
        let attempts = self
            .sessions
            .iter()
            .filter(|(_, session)| session.conn == conn);
        for attempt in attempts.map(|(&attempt, _)| attempt).collect::<Vec<_>>() {
            self.drop_session(attempt);
        }
        let found = self
            .replicas
            .iter_mut()
            .find(|(_, own)| own.conn.is_some_and(|(own, _)| own == conn));
        if let Some((&replica, own)) = found {
            own.conn = None;
            own.hopeless = false;
            if own.attempt.is_some() {
                self.fail(replica);
            }
        }
    }

    /// Lets one replica do what it wants: begin, wait, or now and then give up its sync and begin again.
    pub(crate) fn advance_replica(&mut self) {
        let replicas: Vec<Replica> = self.replicas.keys().copied().collect();
        let replica = *self.dice.pick(&replicas);
        let own = &self.replicas[&replica];
        match own.attempt {
            None if own.ready_ms <= self.now_ms => self.attempt(replica),
            Some(attempt) if self.dice.once_in(40) => {
                self.record(Record::Close { attempt });
                self.drop_session(attempt);
                let own = self.replicas.get_mut(&replica).expect("it is known");
                (own.attempt, own.complete) = (None, false);
                own.loading.clear();
            }
            _ => {}
        }
    }

    /// Begins a new sync, on a new connection if need be.
    pub(crate) fn attempt(&mut self, replica: Replica) {
        let own = &self.replicas[&replica];
        if own.attempt.is_some() {
            return;
        }
        let ready_ms = own.ready_ms;
        self.pass(ready_ms);
        let own = &self.replicas[&replica];
        let (reader, filter) = (own.key.clone(), own.filter.clone());
        let (conn, node) = match own.conn {
            Some(conn) => conn,
            None => {
                let (conn, node) = (self.fresh(), *self.dice.pick(&NODES));
                self.links.insert(
                    conn,
                    Link {
                        node,
                        frames: VecDeque::new(),
                    },
                );
                self.record(Record::Connect { conn, node });
                self.record(Record::Auth {
                    conn,
                    key: reader.clone(),
                });
                (conn, node)
            }
        };
        let attempt = self.fresh();
        let sub = format!("s{attempt}");
        let own = self.replicas.get_mut(&replica).expect("it is known");
        (own.conn, own.attempt, own.complete) = (Some((conn, node)), Some(attempt), false);
        self.record(Record::Req {
            attempt,
            conn,
            sub: sub.clone(),
            reader: Some(reader.clone()),
            replica: Some(replica),
            filter: filter.clone(),
        });
        self.record(Record::Received { attempt });
        let (asked_ms, phase, copy) = (self.now_ms, Phase::Waiting, BTreeMap::new());
        self.sessions.insert(
            attempt,
            Session {
                conn,
                sub,
                node,
                reader,
                filter,
                asked_ms,
                phase,
                copy,
            },
        );
    }

    /// Whether a replica is served, or cannot be.
    pub(crate) fn at_rest(&self, replica: Replica) -> bool {
        let own = &self.replicas[&replica];
        let servable = |world: &World| {
            world.admits(&own.key, &own.filter)
                && world.set(&own.filter).len() as u64 <= self.weather.max_events
        };
        own.complete || own.attempt.is_none() && !servable(&self.world)
    }
}

/// Whether a revision matches a filter, by the history so far.
fn is_member(lines: &[holdfast_checker::Line], filter: &Filter, id: &str) -> bool {
    use holdfast_checker::format::{Change, RevisionOp};
    let commits = lines.iter().rev().filter_map(|line| match &line.record {
        Record::Commit { changes, .. } => Some(changes),
        _ => None,
    });
    commits.flatten().any(|change| match change {
        Change::Revision {
            rev, h, op, tags, ..
        } => {
            let wanted = filter.tags.get("project");
            let has = |values: &std::collections::BTreeSet<String>| {
                tags.iter().any(|(_, value)| values.contains(value))
            };
            rev == id && *op != RevisionOp::Delete && filter.h.contains(h) && wanted.is_none_or(has)
        }
        _ => false,
    })
}
