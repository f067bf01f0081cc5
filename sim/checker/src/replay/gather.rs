//! Takes one record into the story.
//!
//! What belongs here: what a record adds, and what it may refer to. What must not: what only the whole history shows (`build`).

use std::collections::BTreeMap;

use crate::format::{Attempt, Conn, Filter, Node, Record};

use super::Story;
use super::build::Step;
use super::ledger::{At, Commit, K};
use super::syncs::{
    Connection, EndedBy, Frame, FrameKind, Loss, LossKind, NodeLife, Operation, ReadStep, Snapshot,
    Sync, Trouble,
};

impl<'a> Story<'a> {
    pub(super) fn take_write(&mut self, at: At, at_ms: u64, record: &'a Record) -> Step {
        match record {
            Record::Submit {
                op,
                key,
                node,
                event,
                revision,
            } => {
                self.life(*node)?;
                let (event, intent, outcome) = (event.as_str(), revision.as_ref(), None);
                let operation = Operation {
                    submitted: at,
                    key,
                    event,
                    intent,
                    outcome,
                };
                match self.ops.insert(*op, operation) {
                    None => Ok(()),
                    Some(_) => Err(format!("operation {op} is submitted twice")),
                }
            }
            Record::Outcome { op, result, text } => {
                let operation = self.ops.get_mut(op);
                let operation =
                    operation.ok_or_else(|| format!("operation {op} was not submitted"))?;
                match operation.outcome.replace((at, *result, text)) {
                    None => Ok(()),
                    Some(_) => Err(format!("operation {op} has two outcomes")),
                }
            }
            Record::Commit {
                index,
                ops,
                node,
                changes,
            } => {
                self.life(*node)?;
                if let Some(op) = ops.iter().find(|op| !self.ops.contains_key(op)) {
                    return Err(format!("operation {op} was not submitted"));
                }
                let (earliest, latest) = (at, at);
                let commit = Commit {
                    at,
                    at_ms,
                    node: *node,
                    ops,
                    changes,
                    earliest,
                    latest,
                };
                self.ledger.push(*index, commit)?;
                let k = self.ledger.commits.len();
                changes
                    .iter()
                    .try_for_each(|change| self.channels.take(k, change))
            }
            Record::Published { node, positions } => {
                self.life(*node)?;
                for &pos in positions {
                    self.published.entry(pos).or_insert((at, at)).1 = at;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn take_node(&mut self, at: At, record: &'a Record) -> Step {
        let loss = |what| Loss { at, what };
        match record {
            Record::NodeCrash { node } | Record::NodeStop { node } => {
                let life = self.life(*node)?;
                life.deaths.push(at);
                life.generation = None;
                // With the process its bus connection is gone; the next one begins with its own `bus_up`.
                if let Some((_, up @ None)) = life.down.last_mut() {
                    *up = Some(at);
                }
            }
            Record::NodeUp { node } => self.life(*node)?.births.push(at),
            Record::Pause { node, .. } | Record::ClockJump { node, .. } => {
                self.life(*node)?;
            }
            Record::BusDown { .. } | Record::BusUp { .. } => self.take_bus(at, record)?,
            Record::Lag { node, channel } => self
                .life(*node)?
                .losses
                .push(loss(LossKind::Lag(channel.as_deref()))),
            Record::Undecodable { node, channel } => {
                let what = LossKind::Undecodable(channel.as_deref());
                self.life(*node)?.losses.push(loss(what));
            }
            Record::LookupFailed { node, attempts } => {
                attempts
                    .iter()
                    .try_for_each(|attempt| self.known(*attempt).map(|_| ()))?;
                self.life(*node)?
                    .losses
                    .push(loss(LossKind::Lookup(attempts)));
            }
            Record::StoreGeneration { node } => {
                self.life(*node)?.losses.push(loss(LossKind::Store))
            }
            Record::StoreFault {
                node,
                what,
                attempt,
                ..
            } => {
                if let Some(attempt) = attempt {
                    self.known(*attempt)?;
                }
                let trouble = Trouble {
                    at,
                    what: *what,
                    attempt: *attempt,
                };
                self.life(*node)?.troubles.push(trouble);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_bus(&mut self, at: At, record: &'a Record) -> Step {
        match record {
            Record::BusDown { node } => {
                let life = self.life(*node)?;
                life.losses.push(Loss {
                    at,
                    what: LossKind::BusDown,
                });
                if life.down.last().is_none_or(|(_, up)| up.is_some()) {
                    life.down.push((at, None));
                }
            }
            Record::BusUp { node, generation } => {
                let life = self.life(*node)?;
                if life.generation.is_some_and(|before| before >= *generation) {
                    return Err(format!(
                        "bus generation {generation} of node {node} is not new"
                    ));
                }
                if life.generation.replace(*generation).is_some() {
                    life.losses.push(Loss {
                        at,
                        what: LossKind::BusUp,
                    });
                }
                if let Some((_, up @ None)) = life.down.last_mut() {
                    *up = Some(at);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn take_connection(&mut self, at: At, record: &'a Record) -> Step {
        match record {
            Record::Connect { conn, node } => {
                self.life(*node)?;
                let connection = Connection {
                    node: *node,
                    opened: at,
                    keys: Vec::new(),
                    gone: None,
                    subs: BTreeMap::new(),
                    refused: Vec::new(),
                    queue: Vec::new(),
                };
                return match self.conns.insert(*conn, connection) {
                    None => Ok(()),
                    Some(_) => Err(format!("connection {conn} is opened twice")),
                };
            }
            Record::Auth { conn, key } => self.alive(*conn)?.keys.push(key),
            Record::Disconnect { conn, who, why } => {
                self.alive(*conn)?.gone = Some((at, *who, why));
                let subs = self.conns[conn].subs.values().flatten();
                for &index in subs {
                    self.syncs[index]
                        .ended
                        .get_or_insert((at, EndedBy::Disconnect));
                }
            }
            // A relay may note these about a connection of which the client has already heard the end.
            Record::QueueRefused { conn, attempt } => {
                if let Some(attempt) = attempt {
                    self.known(*attempt)?;
                }
                let connection = self.conn(*conn)?;
                connection.refused.push(at);
                let (node, what) = (connection.node, LossKind::Refused(*attempt));
                self.life(node)?.losses.push(Loss { at, what });
            }
            Record::Queue {
                conn,
                frames,
                bytes,
            } => self.conn(*conn)?.queue.push((at, *frames, *bytes)),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn take_req(&mut self, at: At, record: &'a Record) -> Step {
        let Record::Req {
            attempt,
            conn,
            sub,
            reader,
            replica,
            filter,
        } = record
        else {
            return Ok(());
        };
        let index = self.syncs.len();
        let scope = self.number_of(filter);
        let connection = self.alive(*conn)?;
        let node = connection.node;
        let same = connection.subs.entry(sub).or_default();
        let replaced = same.last().copied();
        same.push(index);
        if let Some(replaced) = replaced {
            self.syncs[replaced]
                .ended
                .get_or_insert((at, EndedBy::Replaced));
        }
        if self.by_attempt.insert(*attempt, index).is_some() {
            return Err(format!("attempt {attempt} is asked for twice"));
        }
        self.syncs.push(Sync {
            attempt: *attempt,
            conn: *conn,
            sub,
            node,
            reader: reader.as_deref(),
            replica: *replica,
            filter,
            scope,
            req: at,
            received: None,
            frames: Vec::new(),
            eose: None,
            ended: None,
            snapshots: Vec::new(),
            reads: Vec::new(),
            held: None,
            dirty: None,
        });
        Ok(())
    }

    pub(super) fn take_frame(&mut self, at: At, record: &'a Record) -> Step {
        let (conn, sub, attempt, what) = match record {
            Record::Event {
                conn,
                sub,
                attempt,
                kind,
                id,
                d,
                h,
                raw,
            } => {
                let (kind, raw) = (*kind, raw.as_deref());
                (
                    conn,
                    sub,
                    attempt,
                    FrameKind::Event {
                        kind,
                        id,
                        d,
                        h,
                        raw,
                    },
                )
            }
            Record::Eose { conn, sub, attempt } => (conn, sub, attempt, FrameKind::Eose),
            Record::Closed {
                conn,
                sub,
                attempt,
                text,
            } => (conn, sub, attempt, FrameKind::Closed(text)),
            _ => return Ok(()),
        };
        let given = attempt.map(|attempt| self.known(attempt)).transpose()?;
        let subs = &self.alive(*conn)?.subs;
        let used = subs.get(sub.as_str()).map_or(&[][..], Vec::as_slice);
        let index = match (given, used) {
            (_, []) => Err(format!("connection {conn} has no subscription {sub}")),
            (Some(index), used) if used.contains(&index) => Ok(index),
            (Some(_), _) => Err(format!(
                "the attempt does not have the subscription {sub} of connection {conn}"
            )),
            (None, &[index]) => Ok(index),
            (None, _) => Err(format!(
                "subscription {sub} was used twice, and no attempt is given"
            )),
        }?;
        let sync = &mut self.syncs[index];
        sync.frames.push(Frame { at, what });
        match what {
            FrameKind::Eose => {
                sync.eose.get_or_insert(at);
            }
            FrameKind::Closed(_) => {
                sync.ended.get_or_insert((at, EndedBy::Closed));
            }
            FrameKind::Event { .. } => {}
        }
        Ok(())
    }

    pub(super) fn take_of_sync(&mut self, at: At, record: &'a Record) -> Step {
        let attempt = match record {
            Record::Received { attempt }
            | Record::Close { attempt }
            | Record::SnapshotOpen { attempt, .. }
            | Record::SnapshotClosed { attempt }
            | Record::ReadBegin { attempt, .. }
            | Record::ReadEnd { attempt, .. }
            | Record::Queued { attempt, .. }
            | Record::Held { attempt, .. }
            | Record::Dirty { attempt, .. } => *attempt,
            _ => return Ok(()),
        };
        let committed = self.ledger.commits.len() as u64;
        let index = self.known(attempt)?;
        let sync = &mut self.syncs[index];
        let mut slot = 0;
        match record {
            Record::Received { .. } if sync.received.replace(at).is_some() => {
                return Err(format!("attempt {attempt} is received twice"));
            }
            Record::Close { .. } => {
                sync.ended.get_or_insert((at, EndedBy::Client));
            }
            Record::SnapshotOpen { index, .. } => {
                let k = commit_number(*index, committed)?;
                sync.snapshots.push(Snapshot {
                    at,
                    k,
                    closed: None,
                });
                slot = 1;
            }
            Record::SnapshotClosed { .. } => {
                match sync.snapshots.iter_mut().find(|one| one.closed.is_none()) {
                    Some(open) => {
                        open.closed = Some(at);
                        slot = -1;
                    }
                    None => return Err(format!("attempt {attempt} has no open snapshot")),
                }
            }
            Record::ReadBegin { ds, .. } => sync.reads.push(ReadStep::Begin(at, ds)),
            Record::ReadEnd {
                d, index, result, ..
            } => {
                let k = commit_number(*index, committed)?;
                sync.reads.push(ReadStep::End { at, d, k, result });
            }
            Record::Queued { d, .. } => sync.reads.push(ReadStep::Queued { d }),
            Record::Held { count, .. } => raise(&mut sync.held, at, *count),
            Record::Dirty { count, .. } => raise(&mut sync.dirty, at, *count),
            _ => {}
        }
        let node = sync.node;
        if slot != 0 {
            self.life(node)?.slots.push((at, slot));
        }
        Ok(())
    }

    pub(super) fn take_rest(&mut self, at: At) -> Step {
        for (conn, connection) in &self.conns {
            let died = self.node(connection.node).death_after(connection.opened);
            if connection.gone.is_none() && died.is_some() {
                return Err(format!(
                    "connection {conn} is still open, and its node is gone"
                ));
            }
        }
        self.rests.push(at);
        Ok(())
    }

    pub(super) fn number_of(&mut self, filter: &'a Filter) -> usize {
        let next = self.scope_of.len();
        *self.scope_of.entry(filter).or_insert(next)
    }

    fn life(&mut self, node: Node) -> Result<&mut NodeLife<'a>, String> {
        self.nodes
            .get_mut(&node)
            .ok_or_else(|| format!("the header has no node {node}"))
    }

    fn conn(&mut self, conn: Conn) -> Result<&mut Connection<'a>, String> {
        self.conns
            .get_mut(&conn)
            .ok_or_else(|| format!("connection {conn} was never opened"))
    }

    fn alive(&mut self, conn: Conn) -> Result<&mut Connection<'a>, String> {
        let connection = self.conn(conn)?;
        match connection.gone {
            None => Ok(connection),
            Some(_) => Err(format!("connection {conn} has ended")),
        }
    }

    fn known(&self, attempt: Attempt) -> Result<usize, String> {
        let index = self.by_attempt.get(&attempt).copied();
        index.ok_or_else(|| format!("attempt {attempt} was never asked for"))
    }
}

fn raise(most: &mut Option<(At, u64)>, at: At, count: u64) {
    if most.is_none_or(|(_, before)| count > before) {
        *most = Some((at, count));
    }
}

fn commit_number(index: u64, committed: u64) -> Result<K, String> {
    let k = usize::try_from(index).ok().filter(|_| index <= committed);
    k.ok_or_else(|| format!("commit {index} has not happened yet"))
}
