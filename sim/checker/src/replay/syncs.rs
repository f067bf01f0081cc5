//! What is known about each sync, connection, node and operation, gathered from the records.
//!
//! What belongs here: plain values and lookups in them. What must not: how they are gathered (`build`), what they prove.

use std::collections::BTreeMap;

use crate::format::{
    Attempt, Conn, Filter, Intent, Node, Outcome, Party, ReadResult, Replica, StoreFault,
};

use super::ledger::{At, K};

/// One frame as a client received it.
pub(crate) struct Frame<'a> {
    pub(crate) at: At,
    pub(crate) what: FrameKind<'a>,
}

/// What a frame says.
#[derive(Clone, Copy)]
pub(crate) enum FrameKind<'a> {
    Event {
        kind: u32,
        id: &'a str,
        d: &'a str,
        h: &'a str,
        raw: Option<&'a str>,
    },
    Eose,
    Closed(&'a str),
}

/// A sync snapshot.
pub(crate) struct Snapshot {
    pub(crate) at: At,
    pub(crate) k: K,
    pub(crate) closed: Option<At>,
}

/// A step of a head read.
pub(crate) enum ReadStep<'a> {
    Begin(At, &'a [String]),
    End {
        at: At,
        d: &'a str,
        k: K,
        result: &'a ReadResult,
    },
    Queued {
        d: &'a str,
    },
}

/// Why an attempt ended, as its client saw it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndedBy {
    Closed,
    Client,
    Replaced,
    Disconnect,
}

/// One attempt.
pub(crate) struct Sync<'a> {
    pub(crate) attempt: Attempt,
    pub(crate) conn: Conn,
    pub(crate) sub: &'a str,
    pub(crate) node: Node,
    pub(crate) reader: Option<&'a str>,
    pub(crate) replica: Option<Replica>,
    pub(crate) filter: &'a Filter,
    /// Index of the filter among the different ones.
    pub(crate) scope: usize,
    pub(crate) req: At,
    pub(crate) received: Option<At>,
    pub(crate) frames: Vec<Frame<'a>>,
    pub(crate) eose: Option<At>,
    pub(crate) ended: Option<(At, EndedBy)>,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) reads: Vec<ReadStep<'a>>,
    /// The largest number of held and of waiting artifacts.
    pub(crate) held: Option<(At, u64)>,
    pub(crate) dirty: Option<(At, u64)>,
}

impl Sync<'_> {
    /// Whether its client still counts on it at a record.
    pub(crate) fn open_at(&self, at: At) -> bool {
        self.req < at && self.ended.is_none_or(|(ended, _)| ended > at)
    }

    /// The last record at which the relay may not yet have had the REQ.
    pub(crate) fn asked(&self) -> At {
        self.received.unwrap_or(self.req)
    }
}

/// One connection.
pub(crate) struct Connection<'a> {
    pub(crate) node: Node,
    pub(crate) opened: At,
    pub(crate) keys: Vec<&'a str>,
    pub(crate) gone: Option<(At, Party, &'a str)>,
    /// Syncs by subscription id.
    pub(crate) subs: BTreeMap<&'a str, Vec<usize>>,
    pub(crate) refused: Vec<At>,
    pub(crate) queue: Vec<(At, u64, u64)>,
}

/// One write as a client sent it.
pub(crate) struct Operation<'a> {
    pub(crate) submitted: At,
    pub(crate) key: &'a str,
    pub(crate) event: &'a str,
    pub(crate) intent: Option<&'a Intent>,
    pub(crate) outcome: Option<(At, Outcome, &'a str)>,
}

/// A loss that a node notices.
pub(crate) struct Loss<'a> {
    pub(crate) at: At,
    pub(crate) what: LossKind<'a>,
}

/// What was lost.
#[derive(Clone, Copy)]
pub(crate) enum LossKind<'a> {
    BusDown,
    BusUp,
    Lag(Option<&'a str>),
    Undecodable(Option<&'a str>),
    Lookup(&'a [Attempt]),
    Store,
    /// A frame that the send queue did not take, and its sync.
    Refused(Option<Attempt>),
}

/// A record about a store request that failed or waited.
pub(crate) struct Trouble {
    pub(crate) at: At,
    pub(crate) what: StoreFault,
    pub(crate) attempt: Option<Attempt>,
}

/// One node.
#[derive(Default)]
pub(crate) struct NodeLife<'a> {
    pub(crate) losses: Vec<Loss<'a>>,
    pub(crate) troubles: Vec<Trouble>,
    /// When it began to serve.
    pub(crate) births: Vec<At>,
    /// When it crashed or stopped.
    pub(crate) deaths: Vec<At>,
    pub(crate) generation: Option<u64>,
    /// Periods without a bus connection; the last may be open.
    pub(crate) down: Vec<(At, Option<At>)>,
    /// Changes in the number of open snapshots.
    pub(crate) slots: Vec<(At, i64)>,
}

impl<'a> NodeLife<'a> {
    /// The first death after a record.
    pub(crate) fn death_after(&self, at: At) -> Option<At> {
        let first = self.deaths.partition_point(|&death| death <= at);
        self.deaths.get(first).copied()
    }

    /// The death after which a process had not started again by a record, if there is one.
    pub(crate) fn dead_at(&self, at: At) -> Option<At> {
        let death = *self.deaths[..self.deaths.partition_point(|&death| death <= at)].last()?;
        let is_reborn = self
            .births
            .iter()
            .any(|&birth| death < birth && birth <= at);
        (!is_reborn).then_some(death)
    }

    /// Whether the bus was down somewhere from one record to another.
    pub(crate) fn down_between(&self, from: At, to: At) -> bool {
        let overlaps =
            |&(down, up): &(At, Option<At>)| down <= to && up.is_none_or(|up| up >= from);
        self.down.iter().any(overlaps)
    }

    /// Losses after one record and before another.
    pub(crate) fn losses_between(&self, from: At, to: At) -> &[Loss<'a>] {
        let first = self.losses.partition_point(|loss| loss.at <= from);
        let last = self.losses.partition_point(|loss| loss.at < to).max(first);
        &self.losses[first..last]
    }
}
