//! Outages: a process that is gone, a server that another one replaces.

use std::collections::BTreeMap;

use super::config::{Engine, StoreVariant};
use super::locks::LockTable;
use super::steps::{ProcessId, StoreTime, TxId};
use super::write::Client;
use super::{Entry, Store, Tx};

/// Ids that a failover leaves unused: a server that crashed goes on above what it had reserved.
const FAILOVER_GAP: u64 = 32;

impl Store {
    /// A process is gone, between two of its steps. Its reads and snapshots are over and nothing is answered; its write
    /// transactions are rolled back at a later step, unless COMMIT was sent: those commit. Returns what was cut off.
    pub fn crash(&mut self, process: ProcessId) -> Vec<TxId> {
        let (own, others) = std::mem::take(&mut self.txs)
            .into_iter()
            .partition(|(_, entry)| entry.process == process);
        self.txs = others;
        let own: BTreeMap<TxId, Entry> = own;
        let mut cut_off = Vec::new();
        for (tx, entry) in own {
            match entry.tx {
                Tx::Write(write) if write.client == Client::Gone => {
                    self.put(tx, process, Tx::Write(write));
                    continue;
                }
                Tx::Write(write) => self.orphan(process, write),
                Tx::Foreign { .. } => {
                    self.put(tx, process, entry.tx);
                    continue;
                }
                _ => {}
            }
            cut_off.push(tx);
        }
        cut_off
    }

    /// The server is gone and another one takes over: the newest `lost` commits, at most
    /// [`StoreConfig::failover_lost_max`], and everything open are gone, and another generation is reported (S8). Positions and
    /// transaction ids go on above the old ones.
    ///
    /// # Panics
    /// On a store with one writer, which is one file and cannot fail over.
    pub fn fail_over(&mut self, now: StoreTime, lost: usize) {
        assert_eq!(
            self.config.engine,
            Engine::ManyWriters,
            "one file cannot fail over"
        );
        self.tell_time(now);
        for _ in 0..lost.min(self.undo.len()) {
            let newest = self
                .commits
                .iter_mut()
                .rev()
                .find(|commit| !commit.is_forgotten);
            if let (Some(before), Some(commit)) = (self.undo.pop_back(), newest) {
                self.committed = before;
                self.committed_xids.remove(&commit.xid);
                commit.is_forgotten = true;
            }
        }
        self.lagging = self.committed.clone();
        for xid in std::mem::take(&mut self.open_xids) {
            self.committed_xids.remove(&xid);
        }
        self.locks = LockTable::default();
        for (tx, mut entry) in std::mem::take(&mut self.txs) {
            match &mut entry.tx {
                Tx::Write(write) => {
                    self.fail_over_write(entry.process, write);
                    continue;
                }
                Tx::Foreign { .. } => continue,
                // Their transaction answers for them.
                Tx::Following => continue,
                Tx::Snapshot(snapshot) => snapshot.lose(),
                Tx::Waiting(_) | Tx::Read(_) | Tx::Ready(_) => {}
            }
            self.txs.insert(tx, entry);
        }
        self.next_position = self.next_position.plus(FAILOVER_GAP);
        self.next_xid += FAILOVER_GAP;
        if !self.config.variant.is(StoreVariant::GenerationNotReported) {
            self.generation.0 += 1;
        }
    }
}
