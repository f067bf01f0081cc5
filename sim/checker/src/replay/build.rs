//! Puts a history together in one pass.
//!
//! What belongs here: what a record may refer to, and what is missing. Each contradiction is an error with its line, since a
//! verdict on half a story would be worth nothing.

use std::collections::BTreeMap;

use crate::format::{Commits, Knows, Op, Outcome, Record};
use crate::invariant::Invariant;
use crate::lines::{History, HistoryError, Unreadable};

use super::Story;
use super::access::Channels;
use super::copies::Copy;
use super::ledger::{At, K, Ledger};
use super::scopes::Scope;
use super::signals::{Announced, announced};
use super::syncs::NodeLife;

/// What a record may be wrong in, in words.
pub(super) type Step = Result<(), String>;

impl<'a> Story<'a> {
    /// Puts the history together.
    ///
    /// # Errors
    /// [`HistoryError`] at the first record that contradicts the header or the records before it.
    pub(crate) fn new(history: &'a History) -> Result<Story<'a>, HistoryError> {
        let wrong = |line: usize, text| HistoryError {
            line,
            what: Unreadable::Inconsistent(text),
        };
        check_header(history).map_err(|text| wrong(1, text))?;
        let mut story = Story {
            header: &history.header,
            lines: &history.lines,
            ledger: Ledger::default(),
            channels: Channels::default(),
            syncs: Vec::new(),
            scopes: Vec::new(),
            scope_of: BTreeMap::new(),
            copies: Vec::new(),
            faults: Vec::new(),
            conns: BTreeMap::new(),
            nodes: history
                .header
                .nodes
                .iter()
                .map(|&node| (node, NodeLife::default()))
                .collect(),
            ops: BTreeMap::new(),
            published: BTreeMap::new(),
            acknowledged: Vec::new(),
            rests: Vec::new(),
            quiet: None,
            end: 0,
            state: None,
            open: None,
            announced: Announced::new(),
            by_attempt: BTreeMap::new(),
        };
        let mut committed_from: Option<At> = None;
        for (at, line) in history.lines.iter().enumerate() {
            let late = committed_from.is_some()
                && !matches!(line.record, Record::Commit { .. } | Record::End { .. });
            if late {
                let text = "commits stand at the end, and another record follows one".to_owned();
                return Err(wrong(at + 2, text));
            }
            if history.header.commits == Commits::AtEnd
                && matches!(line.record, Record::Commit { .. })
            {
                committed_from.get_or_insert(at);
            }
            story
                .take(at, line.at_ms, &line.record)
                .map_err(|text| wrong(at + 2, text))?;
        }
        story.finish().map_err(|(at, text)| wrong(at + 2, text))?;
        Ok(story)
    }

    fn take(&mut self, at: At, at_ms: u64, record: &'a Record) -> Step {
        if let Some(needed) = announced_by(record)
            && !self.knows(needed)
        {
            return Err(format!(
                "the header does not announce records of the kind {needed:?}"
            ));
        }
        match record {
            Record::Submit { .. }
            | Record::Outcome { .. }
            | Record::Commit { .. }
            | Record::Published { .. } => self.take_write(at, at_ms, record),
            Record::Connect { .. }
            | Record::Auth { .. }
            | Record::Disconnect { .. }
            | Record::QueueRefused { .. }
            | Record::Queue { .. } => self.take_connection(at, record),
            Record::Req { .. } => self.take_req(at, record),
            Record::Event { .. } | Record::Eose { .. } | Record::Closed { .. } => {
                self.take_frame(at, record)
            }
            Record::Received { .. }
            | Record::Close { .. }
            | Record::SnapshotOpen { .. }
            | Record::SnapshotClosed { .. }
            | Record::ReadBegin { .. }
            | Record::ReadEnd { .. }
            | Record::Queued { .. }
            | Record::Held { .. }
            | Record::Dirty { .. } => self.take_of_sync(at, record),
            Record::Quiet {} => {
                self.quiet.get_or_insert(at);
                Ok(())
            }
            Record::Settled {} => self.take_rest(at),
            Record::End { state, open } => {
                self.end = at;
                (self.state, self.open) = (state.as_ref(), open.as_deref());
                let announced = [
                    (state.is_some(), Knows::EndState),
                    (open.is_some(), Knows::EndOpen),
                ];
                match announced
                    .iter()
                    .find(|&&(given, knows)| given != self.knows(knows))
                {
                    Some((_, knows)) => Err(format!("end and header disagree about {knows:?}")),
                    None => Ok(()),
                }
            }
            Record::Want { filter, .. } => {
                self.number_of(filter);
                Ok(())
            }
            Record::Unwant { .. } | Record::LocalSet { .. } | Record::RetryDelay { .. } => Ok(()),
            Record::Fault { node, conn, .. } => {
                let conn_known = conn.is_none_or(|conn| self.conns.contains_key(&conn));
                let node_known = node.is_none_or(|node| self.nodes.contains_key(&node));
                if !conn_known || !node_known {
                    return Err("a fault was done to something that does not exist".to_owned());
                }
                self.faults.push((at, *node, *conn));
                Ok(())
            }
            _ => self.take_node(at, record),
        }
    }

    fn finish(&mut self) -> Result<(), (At, String)> {
        if self.header.commits == Commits::AtEnd {
            let ops = std::mem::take(&mut self.ops);
            let outcome = |op: Op| {
                ops[&op]
                    .outcome
                    .filter(|(_, result, _)| is_ok(*result))
                    .map(|(at, ..)| at)
            };
            self.ledger.place(|op| Some(ops[&op].submitted), outcome);
            self.ops = ops;
        }
        if let Some((pos, &(at, _))) = self
            .published
            .iter()
            .find(|(pos, _)| self.ledger.position(**pos).is_none())
        {
            return Err((at, format!("no commit has the ledger position {pos}")));
        }
        self.announced = announced(self);
        self.acknowledged = self.acknowledgements();
        let mut filters: Vec<_> = self
            .scope_of
            .iter()
            .map(|(&filter, &number)| (number, filter))
            .collect();
        filters.sort_unstable();
        self.scopes = filters
            .into_iter()
            .map(|(_, filter)| Scope::new(&self.ledger, filter))
            .collect();
        let copies: Vec<Copy<'a>> = self
            .syncs
            .iter()
            .map(|sync| Copy::new(self, sync))
            .collect();
        self.copies = copies;
        Ok(())
    }

    /// Acknowledged commits in the order of their outcomes.
    fn acknowledgements(&self) -> Vec<(At, K)> {
        let mut committed: BTreeMap<&str, K> = BTreeMap::new();
        let mut by_op: BTreeMap<Op, K> = BTreeMap::new();
        for (number, commit) in self.ledger.commits.iter().enumerate() {
            by_op.extend(commit.ops.iter().map(|&op| (op, number + 1)));
        }
        committed.extend(
            self.ledger
                .revisions
                .iter()
                .map(|revision| (revision.id, revision.accepted)),
        );
        let outcomes = self.ops.iter().filter_map(|(op, operation)| {
            let (at, ..) = operation.outcome.filter(|(_, result, _)| is_ok(*result))?;
            let k = by_op.get(op).or_else(|| committed.get(operation.event))?;
            Some((at, *k))
        });
        let mut list: Vec<(At, K)> = outcomes.collect();
        list.sort_unstable();
        let mut newest = 0;
        for (_, k) in &mut list {
            newest = newest.max(*k);
            *k = newest;
        }
        list
    }
}

/// Whether the client was told that its write is accepted.
pub(crate) fn is_ok(result: Outcome) -> bool {
    matches!(result, Outcome::Ok | Outcome::Duplicate)
}

/// Which entry of `knows` announces a record.
fn announced_by(record: &Record) -> Option<Knows> {
    match record {
        Record::Received { .. } => Some(Knows::Received),
        Record::BusDown { .. }
        | Record::BusUp { .. }
        | Record::Lag { .. }
        | Record::Undecodable { .. }
        | Record::LookupFailed { .. }
        | Record::StoreGeneration { .. }
        | Record::QueueRefused { .. }
        | Record::StoreFault { .. } => Some(Knows::Losses),
        Record::Published { .. } => Some(Knows::Published),
        Record::SnapshotOpen { .. } | Record::SnapshotClosed { .. } => Some(Knows::Snapshots),
        Record::ReadBegin { .. } | Record::ReadEnd { .. } | Record::Queued { .. } => {
            Some(Knows::Reads)
        }
        Record::Held { .. } | Record::Dirty { .. } | Record::Queue { .. } => Some(Knows::Gauges),
        Record::Want { .. } | Record::Unwant { .. } | Record::LocalSet { .. } => {
            Some(Knows::Replicas)
        }
        Record::RetryDelay { .. } => Some(Knows::Retries),
        _ => None,
    }
}

/// A tier may only offer what its records can carry.
fn check_header(history: &History) -> Step {
    let header = &history.header;
    let needs = [
        (Invariant::LossResync, Knows::Losses),
        (Invariant::Clean, Knows::EndOpen),
        (Invariant::Client, Knows::Replicas),
        (Invariant::Digest, Knows::Replicas),
        (Invariant::Live, Knows::Replicas),
    ];
    for (invariant, knows) in needs {
        if header.judges.contains(&invariant) && !header.knows.contains(&knows) {
            return Err(format!(
                "{invariant} cannot be judged without records of the kind {knows:?}"
            ));
        }
    }
    let inside = [Knows::Snapshots, Knows::Reads, Knows::Published];
    let commit_numbers = inside.iter().find(|knows| header.knows.contains(knows));
    match (header.commits, commit_numbers) {
        (Commits::AtEnd, Some(knows)) => Err(format!("{knows:?} needs commits in place")),
        _ => Ok(()),
    }
}
