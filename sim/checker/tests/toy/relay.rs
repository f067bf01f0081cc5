//! The toy's sessions: registration, one snapshot, held artifacts, head reads one at a time, and every reason to close.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_checker::format::{Attempt, Conn, Filter, Node, NodeOpen, Party, ReadResult, Record};

use super::world::{Head, Signal, World, matches};
use super::{REGISTER_DEADLINE_MS, SLOT_WAIT_MS, SNAPSHOT_BUDGET_MS, SNAPSHOTS_MAX, Toy};

/// A connection with its frames under way.
pub(crate) struct Link {
    pub(crate) node: Node,
    pub(crate) frames: VecDeque<(Attempt, Record)>,
}

/// Where a session stands.
pub(crate) enum Phase {
    Waiting,
    Reading {
        snapshot: Box<World>,
        rows: VecDeque<(String, Head)>,
        since_ms: u64,
        held: BTreeSet<String>,
    },
    Live {
        cut: u64,
        dirty: BTreeSet<String>,
    },
}

/// One sync at the relay.
pub(crate) struct Session {
    pub(crate) conn: Conn,
    pub(crate) sub: String,
    pub(crate) node: Node,
    pub(crate) reader: String,
    pub(crate) filter: Filter,
    pub(crate) asked_ms: u64,
    pub(crate) phase: Phase,
    /// What the client's copy holds: the revision's commit and the home.
    pub(crate) copy: BTreeMap<String, (u64, String)>,
}

impl Session {
    pub(crate) fn busy(&self) -> bool {
        match &self.phase {
            Phase::Waiting | Phase::Reading { .. } => true,
            Phase::Live { dirty, .. } => !dirty.is_empty(),
        }
    }
}

impl Toy {
    fn send(&mut self, attempt: Attempt, record: Record) {
        let conn = self.sessions[&attempt].conn;
        if let Some(link) = self.links.get_mut(&conn) {
            link.frames.push_back((attempt, record));
        }
    }

    fn event(&mut self, attempt: Attempt, kind: u32, id: String, d: String, h: String) {
        let session = &self.sessions[&attempt];
        let (conn, sub) = (session.conn, session.sub.clone());
        let raw =
            (kind == 45_011).then(|| format!("{{\"id\":\"{id}\",\"d\":\"{d}\",\"h\":\"{h}\"}}"));
        self.send(
            attempt,
            Record::Event {
                conn,
                sub,
                attempt: None,
                kind,
                id,
                d,
                h,
                raw,
            },
        );
    }

    /// Ends a session without a word; its unsent frames stay under way.
    pub(crate) fn drop_session(&mut self, attempt: Attempt) {
        if let Some(session) = self.sessions.remove(&attempt)
            && matches!(session.phase, Phase::Reading { .. })
        {
            self.record(Record::SnapshotClosed { attempt });
        }
    }

    fn close(&mut self, attempt: Attempt, text: &str) {
        let session = &self.sessions[&attempt];
        let (conn, sub, text) = (session.conn, session.sub.clone(), text.to_owned());
        self.send(
            attempt,
            Record::Closed {
                conn,
                sub,
                attempt: None,
                text,
            },
        );
        self.drop_session(attempt);
    }

    pub(crate) fn sessions_at(&self, node: Node) -> Vec<Attempt> {
        self.sessions
            .iter()
            .filter(|(_, session)| session.node == node)
            .map(|(&attempt, _)| attempt)
            .collect()
    }

    /// A loss of signals: every session that depends on them ends.
    pub(crate) fn lose(&mut self, node: Node) {
        for attempt in self.sessions_at(node) {
            if !matches!(self.sessions[&attempt].phase, Phase::Waiting) {
                self.close(attempt, "resync: signals");
            }
        }
    }

    pub(crate) fn fail_lookup(&mut self, node: Node) {
        let live = self
            .sessions_at(node)
            .into_iter()
            .find(|attempt| matches!(self.sessions[attempt].phase, Phase::Live { .. }));
        if let Some(attempt) = live {
            self.record(Record::LookupFailed {
                node,
                attempts: vec![attempt],
            });
            self.close(attempt, "resync: lookup");
        }
    }

    /// A node dies, or stops in good order without having published everything.
    pub(crate) fn die(&mut self, node: Node, crashes: bool) {
        self.record(if crashes {
            Record::NodeCrash { node }
        } else {
            Record::NodeStop { node }
        });
        self.pending.insert(node, Vec::new());
        self.down.remove(&node);
        let conns: Vec<Conn> = self
            .links
            .iter()
            .filter(|(_, link)| link.node == node)
            .map(|(&conn, _)| conn)
            .collect();
        // Snapshots die with their node; nobody gives them back.
        self.sessions.retain(|_, session| session.node != node);
        for conn in conns {
            self.cut(conn, Party::Relay);
        }
        self.record(Record::NodeUp { node });
    }

    /// The bus connection of a node goes down, or comes back.
    pub(crate) fn toggle_bus(&mut self, node: Node) {
        if self.down.remove(&node) {
            let generation = self.fresh();
            self.record(Record::BusUp { node, generation });
        } else {
            self.down.insert(node);
            self.record(Record::BusDown { node });
            self.lose(node);
        }
    }

    /// One step of one session.
    pub(crate) fn advance_session(&mut self) {
        let attempts: Vec<Attempt> = self.sessions.keys().copied().collect();
        if attempts.is_empty() {
            return;
        }
        let attempt = *self.dice.pick(&attempts);
        match self.sessions[&attempt].phase {
            Phase::Waiting => self.open(attempt),
            Phase::Reading { .. } => self.read_on(attempt),
            Phase::Live { .. } => self.read_head(attempt),
        }
    }

    /// Time passes; snapshots that are open too long are given up.
    pub(crate) fn pass(&mut self, until_ms: u64) {
        while self.now_ms < until_ms {
            self.now_ms += 1;
            let over = self
                .sessions
                .iter()
                .filter(|(_, session)| match session.phase {
                    Phase::Reading { since_ms, .. } => self.now_ms >= since_ms + SNAPSHOT_BUDGET_MS,
                    _ => false,
                });
            for attempt in over.map(|(&attempt, _)| attempt).collect::<Vec<_>>() {
                self.close(attempt, "error: budget");
            }
        }
    }

    fn open(&mut self, attempt: Attempt) {
        let Some(session) = self.sessions.get(&attempt) else {
            return;
        };
        let node = session.node;
        if self.down.contains(&node) {
            if self.now_ms >= session.asked_ms + REGISTER_DEADLINE_MS {
                self.close(attempt, "error: bus");
            }
            return;
        }
        let reading = |session: &&Session| {
            session.node == node && matches!(session.phase, Phase::Reading { .. })
        };
        if self.sessions.values().filter(reading).count() as u64 >= SNAPSHOTS_MAX {
            if self.now_ms >= session.asked_ms + SLOT_WAIT_MS {
                self.close(attempt, "error: busy");
            }
            return;
        }
        let snapshot = Box::new(self.world.clone());
        if !snapshot.admits(&session.reader, &session.filter) {
            self.close(attempt, "restricted: a named channel cannot be read");
            return;
        }
        let rows: VecDeque<_> = snapshot.set(&session.filter).into();
        let large = rows.len() as u64 > self.weather.max_events;
        let (since_ms, held) = (self.now_ms, BTreeSet::new());
        let index = snapshot.k;
        self.record(Record::SnapshotOpen { attempt, index });
        let session = self
            .sessions
            .get_mut(&attempt)
            .expect("it was just looked up");
        session.phase = Phase::Reading {
            snapshot,
            rows,
            since_ms,
            held,
        };
        if large {
            self.close(attempt, "error: too-large");
        }
    }

    fn read_on(&mut self, attempt: Attempt) {
        let Some(session) = self.sessions.get_mut(&attempt) else {
            return;
        };
        let Phase::Reading {
            snapshot,
            rows,
            held,
            ..
        } = &mut session.phase
        else {
            return;
        };
        if let Some((d, head)) = rows.pop_front() {
            session.copy.insert(d.clone(), (head.k, head.h.clone()));
            return self.event(attempt, 45_010, head.rev, d, head.h);
        }
        let (cut, dirty) = (snapshot.k, std::mem::take(held));
        session.phase = Phase::Live { cut, dirty };
        let (conn, sub) = (session.conn, session.sub.clone());
        self.record(Record::SnapshotClosed { attempt });
        self.send(
            attempt,
            Record::Eose {
                conn,
                sub,
                attempt: None,
            },
        );
    }

    fn read_head(&mut self, attempt: Attempt) {
        let Some(session) = self.sessions.get_mut(&attempt) else {
            return;
        };
        let Phase::Live { dirty, .. } = &mut session.phase else {
            return;
        };
        let Some(d) = dirty.pop_first() else { return };
        let (reader, filter) = (session.reader.clone(), session.filter.clone());
        let before = session.copy.get(&d).cloned();
        let head = self.world.heads.get(&d).cloned();
        self.record(Record::ReadBegin {
            attempt,
            ds: vec![d.clone()],
        });
        let index = self.world.k;
        let (result, frame) = match (head, before) {
            _ if !self.world.admits(&reader, &filter) => (ReadResult::Ends, Some("resync: access")),
            (Some(head), Some(_)) if head.redacted => (ReadResult::Ends, Some("resync: retired")),
            (Some(head), before) if !head.redacted && self.world.reads(&reader, &head.h) => {
                let after = matches(&filter, &head);
                let result = if after || before.is_some() {
                    ReadResult::Head(head.rev.clone())
                } else {
                    ReadResult::Nothing
                };
                (result, None)
            }
            (_, Some((_, home))) => {
                let (marker, _) = self.world.markers[&(d.clone(), home)].clone();
                (ReadResult::Marker(marker), None)
            }
            _ => (ReadResult::Nothing, None),
        };
        self.record(Record::ReadEnd {
            attempt,
            d: d.clone(),
            index,
            result: result.clone(),
        });
        match frame {
            Some(text) => self.close(attempt, text),
            None => self.give(attempt, &d, result),
        }
        self.record(Record::Queued { attempt, d });
    }

    /// Sends the result of a head read and keeps account of the client's copy.
    fn give(&mut self, attempt: Attempt, d: &str, result: ReadResult) {
        let head = self.world.heads[d].clone();
        let session = self.sessions.get_mut(&attempt).expect("it is reading");
        match result {
            ReadResult::Head(_) if matches(&session.filter, &head) => {
                session.copy.insert(d.to_owned(), (head.k, head.h.clone()));
                let large = session.copy.len() as u64 > self.weather.max_events;
                self.event(attempt, 45_010, head.rev, d.to_owned(), head.h);
                if large {
                    self.close(attempt, "error: too-large");
                }
            }
            ReadResult::Head(_) => {
                session.copy.remove(d);
                self.event(attempt, 45_010, head.rev, d.to_owned(), head.h);
            }
            ReadResult::Marker(marker) => {
                let (_, home) = session
                    .copy
                    .remove(d)
                    .expect("removals are for artifacts in the copy");
                self.event(attempt, 45_011, marker, d.to_owned(), home);
            }
            _ => {}
        }
    }

    /// Publishes the pending signals of one node, or only one of them, and hands them to every session.
    pub(crate) fn publish_some(&mut self) {
        let node = *self.dice.pick(&super::NODES);
        if self.down.contains(&node) {
            return;
        }
        let mut pending = self.pending.remove(&node).unwrap_or_default();
        let only_one = self.dice.once_in(3);
        // Order does not matter, so the newest may go first.
        let taken = if only_one {
            pending.pop().into_iter().collect()
        } else {
            std::mem::take(&mut pending)
        };
        self.pending.insert(node, pending);
        if taken.is_empty() {
            return;
        }
        let positions = taken.iter().map(|(pos, _)| *pos).collect();
        self.record(Record::Published { node, positions });
        for (_, signal) in taken {
            for attempt in self.sessions.keys().copied().collect::<Vec<_>>() {
                self.hear(attempt, &signal);
            }
        }
    }

    fn hear(&mut self, attempt: Attempt, signal: &Signal) {
        let most = self.weather.max_events;
        let Some(session) = self.sessions.get_mut(&attempt) else {
            return;
        };
        let channel = match signal {
            Signal::Changed { channel, .. }
            | Signal::Retired { channel, .. }
            | Signal::Access { channel, .. } => channel,
        };
        if !session.filter.h.contains(channel) {
            return;
        }
        let text = match (&mut session.phase, signal) {
            (Phase::Waiting, _) => return,
            (Phase::Reading { snapshot, .. }, Signal::Access { key, k, .. })
                if *k > snapshot.k && key.as_ref().is_none_or(|key| *key == session.reader) =>
            {
                "resync: access"
            }
            (Phase::Live { cut, .. }, Signal::Access { key, k, .. })
                if k > cut && key.as_ref().is_none_or(|key| *key == session.reader) =>
            {
                "resync: access"
            }
            (_, Signal::Access { .. }) => return,
            (Phase::Reading { snapshot, .. }, Signal::Retired { k, .. }) if *k > snapshot.k => {
                "resync: retired"
            }
            (
                Phase::Reading { held: set, .. },
                Signal::Changed { d, .. } | Signal::Retired { d, .. },
            )
            | (
                Phase::Live { dirty: set, .. },
                Signal::Changed { d, .. } | Signal::Retired { d, .. },
            ) => {
                set.insert(d.clone());
                let count = set.len() as u64;
                let reading = matches!(session.phase, Phase::Reading { .. });
                self.record(if reading {
                    Record::Held { attempt, count }
                } else {
                    Record::Dirty { attempt, count }
                });
                if count <= most {
                    return;
                }
                "resync: backlog"
            }
        };
        self.close(attempt, text);
    }

    pub(crate) fn open_at(&self, node: Node) -> NodeOpen {
        let sessions = self.sessions_at(node);
        NodeOpen {
            node,
            snapshots: vec![],
            reads: vec![],
            sessions,
            queued: vec![],
        }
    }
}
