//! A history put together: one value that judges ask. It is built once, in one pass, and fails closed on a missing step.
//!
//! What belongs here: everything two judges need in the same way. What must not: violations; what a rule asks is said in
//! `judges`.

pub(crate) mod access;
mod build;
pub(crate) mod copies;
mod gather;
pub(crate) mod ledger;
pub(crate) mod owed;
pub(crate) mod scopes;
pub(crate) mod signals;
pub(crate) mod syncs;

use std::collections::BTreeMap;

use crate::format::{Attempt, Conn, EndState, Filter, Header, Knows, Node, NodeOpen, Op, Record};
use crate::lines::Line;

use access::Channels;
use copies::Copy;
use ledger::{At, K, Ledger};
use scopes::Scope;
use signals::Announced;
use syncs::{Connection, NodeLife, Operation, Sync};

/// A history put together.
pub(crate) struct Story<'a> {
    pub(crate) header: &'a Header,
    pub(crate) lines: &'a [Line],
    pub(crate) ledger: Ledger<'a>,
    pub(crate) channels: Channels<'a>,
    pub(crate) syncs: Vec<Sync<'a>>,
    /// One scope per different filter.
    pub(crate) scopes: Vec<Scope<'a>>,
    /// The scope of each filter.
    pub(crate) scope_of: BTreeMap<&'a Filter, usize>,
    /// What each sync's client was told, in the order of `syncs`.
    pub(crate) copies: Vec<Copy<'a>>,
    pub(crate) conns: BTreeMap<Conn, Connection<'a>>,
    pub(crate) nodes: BTreeMap<Node, NodeLife<'a>>,
    pub(crate) ops: BTreeMap<Op, Operation<'a>>,
    /// The first and the last `published` of each ledger position.
    pub(crate) published: BTreeMap<u64, (At, At)>,
    /// For each outcome with OK, in order: its record and the newest commit acknowledged by then.
    pub(crate) acknowledged: Vec<(At, K)>,
    /// Every `fault`: its record, and the node or connection it was done to.
    pub(crate) faults: Vec<(At, Option<Node>, Option<Conn>)>,
    /// Every `settled`.
    pub(crate) rests: Vec<At>,
    /// The first `quiet`.
    pub(crate) quiet: Option<At>,
    pub(crate) end: At,
    pub(crate) state: Option<&'a EndState>,
    pub(crate) open: Option<&'a [NodeOpen]>,
    announced: Announced<'a>,
    by_attempt: BTreeMap<Attempt, usize>,
}

impl<'a> Story<'a> {
    /// Whether the tier writes these records.
    pub(crate) fn knows(&self, what: Knows) -> bool {
        self.header.knows.contains(&what)
    }

    /// The line in the file of a record.
    pub(crate) fn line(&self, at: At) -> usize {
        at + 2
    }

    /// The time of a record.
    pub(crate) fn ms(&self, at: At) -> u64 {
        self.lines[at].at_ms
    }

    /// The time by which a commit had happened.
    pub(crate) fn commit_ms(&self, k: K) -> u64 {
        let commit = self.ledger.commit(k);
        self.lines
            .get(commit.latest)
            .map_or(commit.at_ms, |line| line.at_ms)
    }

    /// The record of a commit.
    pub(crate) fn commit_at(&self, k: K) -> At {
        self.ledger.commit(k).at
    }

    /// The first `settled` after a record.
    pub(crate) fn rest_after(&self, at: At) -> Option<At> {
        let first = self.rests.partition_point(|&rest| rest <= at);
        self.rests.get(first).copied()
    }

    /// The sync of an attempt.
    pub(crate) fn sync(&self, attempt: Attempt) -> Option<&Sync<'a>> {
        self.by_attempt
            .get(&attempt)
            .map(|&index| &self.syncs[index])
    }

    /// The node of an identifier; the header names all of them.
    pub(crate) fn node(&self, node: Node) -> &NodeLife<'a> {
        self.nodes
            .get(&node)
            .expect("every node of a record is in the header, which `build` checks")
    }

    /// The newest commit that was acknowledged with OK before a record.
    pub(crate) fn acknowledged_before(&self, at: At) -> K {
        let until = self
            .acknowledged
            .partition_point(|&(outcome, _)| outcome < at);
        until
            .checked_sub(1)
            .map_or(0, |last| self.acknowledged[last].1)
    }

    /// Whether the reader can read every channel that the sync names at `k`.
    pub(crate) fn admitted(&self, sync: &Sync<'_>, k: K) -> bool {
        let mut named = sync.filter.h.iter();
        named.all(|channel| self.channels.readable(sync.reader, channel, k))
    }

    /// The record at an index.
    pub(crate) fn record(&self, at: At) -> &'a Record {
        &self.lines[at].record
    }

    /// From which record and commit on a sync depends on signals: the opening of its snapshot, or where that is not known its
    /// EOSE. None if it never came so far.
    pub(crate) fn began(&self, index: usize) -> Option<(At, K)> {
        let sync = &self.syncs[index];
        let cut = self.copies[index].cut.as_ref();
        match sync.snapshots.first() {
            Some(snapshot) => Some((snapshot.at, snapshot.k)),
            None if self.knows(Knows::Snapshots) => None,
            None => Some((sync.eose?, cut?.last)),
        }
    }
}
