//! One simulated process: its node, the operations in flight at the store, and the pages read ahead of slow readers. It stands
//! where the production driver stands: it performs effects and hands answers over. What it does not do: choose.

use std::collections::{BTreeMap, VecDeque};

use holdfast_core::ids::Now;
use holdfast_core::node::{Config, Effect, Input, Node, OpId, ReadFailure};
use holdfast_core::sync::SyncPage;
use holdfast_world::store::{ProcessId, StoreAnswer, TxId};

/// Wall clock at simulated time 0, in seconds.
pub(crate) const EPOCH_SECS: u64 = 1_800_000_000;

/// Pages of one initial read, read ahead of its reader.
#[derive(Clone, Debug, Default)]
pub(super) struct Spool {
    /// Pages that the node has not asked for yet.
    ready: VecDeque<Result<SyncPage, ReadFailure>>,
    /// The node waits for a page.
    is_wanted: bool,
    /// A page is being read.
    is_reading: bool,
}

/// One process.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Its number in the cluster; a restarted process keeps it.
    pub(super) number: u32,
    /// Its name at the store; another one after each restart.
    pub(super) process: ProcessId,
    /// None while it is down.
    pub(super) node: Option<Node>,
    /// It stands still until then.
    pub(super) paused_until_ms: Option<u64>,
    /// Seconds that its wall clock is ahead.
    pub(super) wall_ahead_secs: i64,
    /// Inputs that wait for it to go on.
    pub(super) inbox: VecDeque<Input>,
    ops: BTreeMap<TxId, OpId>,
    txs: BTreeMap<OpId, TxId>,
    spools: BTreeMap<OpId, Spool>,
    /// Pages that one initial read may be ahead.
    ahead_max: usize,
}

/// What a machine asks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncCall {
    /// Read the next page.
    Next(TxId),
    /// End the snapshot.
    End(TxId),
}

impl Machine {
    pub(super) fn new(number: u32, process: ProcessId, ahead_max: usize) -> Machine {
        Machine {
            number,
            process,
            node: None,
            paused_until_ms: None,
            wall_ahead_secs: 0,
            inbox: VecDeque::new(),
            ops: BTreeMap::new(),
            txs: BTreeMap::new(),
            spools: BTreeMap::new(),
            ahead_max,
        }
    }

    /// Starts a fresh process.
    pub(super) fn start(&mut self, process: ProcessId, config: Config) {
        *self = Machine {
            node: Some(Node::new(config)),
            ..Machine::new(self.number, process, self.ahead_max)
        };
    }

    /// Dies: everything in memory is gone.
    pub(super) fn die(&mut self) {
        *self = Machine::new(self.number, self.process, self.ahead_max);
    }

    pub(super) fn is_running(&self) -> bool {
        self.node.is_some() && self.paused_until_ms.is_none()
    }

    /// The time as this process reads it.
    pub(super) fn now(&self, now_ms: u64) -> Now {
        let wall = i64::try_from(EPOCH_SECS + now_ms / 1_000).unwrap_or(i64::MAX);
        Now {
            mono_ms: now_ms,
            wall_secs: u64::try_from(wall + self.wall_ahead_secs).unwrap_or(0),
        }
    }

    /// Lets the node take one input.
    pub(super) fn step(&mut self, now_ms: u64, input: Input) -> Vec<Effect> {
        let now = self.now(now_ms);
        let mut effects = Vec::new();
        if let Some(node) = &mut self.node {
            node.step(now, input, &mut effects);
        }
        effects
    }

    /// Remembers which operation of the store answers which of the node.
    pub(super) fn began(&mut self, op: OpId, tx: TxId, is_sync: bool) {
        self.ops.insert(tx, op);
        self.txs.insert(op, tx);
        if is_sync {
            let spool = Spool {
                is_wanted: true,
                is_reading: true,
                ..Spool::default()
            };
            self.spools.insert(op, spool);
        }
    }

    /// The store's name of a node's operation.
    pub(super) fn tx(&self, op: OpId) -> Option<TxId> {
        self.txs.get(&op).copied()
    }

    /// The node's name of a store's operation.
    pub(super) fn op(&self, tx: TxId) -> Option<OpId> {
        self.ops.get(&tx).copied()
    }

    fn forget(&mut self, op: OpId) {
        if let Some(tx) = self.txs.remove(&op) {
            self.ops.remove(&tx);
        }
        self.spools.remove(&op);
    }

    /// An answer of the store: the inputs it becomes, and whether a page is to be read ahead.
    pub(super) fn answered(
        &mut self,
        op: OpId,
        answer: StoreAnswer,
    ) -> (Vec<Input>, Option<SyncCall>) {
        match answer {
            StoreAnswer::SyncPage(page) => {
                let Some(spool) = self.spools.get_mut(&op) else {
                    return (Vec::new(), None);
                };
                spool.is_reading = false;
                spool.ready.push_back(page);
                (self.hand_over(op), self.read_ahead(op))
            }
            StoreAnswer::SnapshotClosed => {
                let is_over = !self.spools.contains_key(&op);
                if is_over {
                    self.forget(op);
                }
                (vec![Input::SnapshotClosed { op }], None)
            }
            StoreAnswer::Page(page) => {
                if page.as_ref().map_or(true, |page| page.end.is_some()) {
                    self.forget(op);
                }
                (vec![Input::Page { op, page }], None)
            }
            other => {
                self.forget(op);
                (vec![other.input(op)], None)
            }
        }
    }

    /// The node asks for the next page of an initial read.
    pub(super) fn next_sync_page(&mut self, op: OpId) -> (Vec<Input>, Option<SyncCall>) {
        if let Some(spool) = self.spools.get_mut(&op) {
            spool.is_wanted = true;
        }
        (self.hand_over(op), self.read_ahead(op))
    }

    /// The node ends an initial read; its snapshot is still to be reported closed.
    pub(super) fn end_sync(&mut self, op: OpId) -> Option<SyncCall> {
        self.spools.remove(&op)?;
        self.tx(op).map(SyncCall::End)
    }

    fn hand_over(&mut self, op: OpId) -> Vec<Input> {
        let Some(spool) = self.spools.get_mut(&op) else {
            return Vec::new();
        };
        if !spool.is_wanted {
            return Vec::new();
        }
        let Some(page) = spool.ready.pop_front() else {
            return Vec::new();
        };
        spool.is_wanted = false;
        if page.as_ref().map_or(true, |page| page.is_last) {
            self.spools.remove(&op);
        }
        vec![Input::SyncPage { op, page }]
    }

    fn read_ahead(&mut self, op: OpId) -> Option<SyncCall> {
        let tx = self.tx(op)?;
        let ahead_max = self.ahead_max;
        let spool = self.spools.get_mut(&op)?;
        let is_over = spool
            .ready
            .back()
            .is_some_and(|page| page.as_ref().map_or(true, |page| page.is_last));
        let has_room = spool.is_wanted || spool.ready.len() < ahead_max;
        if spool.is_reading || is_over || !has_room {
            return None;
        }
        spool.is_reading = true;
        Some(SyncCall::Next(tx))
    }
}
