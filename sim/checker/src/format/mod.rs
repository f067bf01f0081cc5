//! The records of a history, version 1. `docs/history.md` is the page for people; this file is the definition.
//!
//! What belongs here: the shape of each record and what its fields mean; the header here, the records beside it. What must not: reading and writing of files
//! (`lines`), any judgement about what a record says (`judges`).
//!
//! Names of channels, artifacts, revisions and keys are opaque text; artifacts are ordered by the bytes of their `d`.

mod change;
mod record;
mod values;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::Invariant;

pub use change::{Change, Visibility};
pub use record::Record;
pub use values::{
    EndChannel, EndDigest, EndHead, EndState, Filter, Intent, NodeOpen, Outcome, Party, ReadResult,
    RevisionOp, StoreFault,
};

/// The version of the format that this crate reads and writes.
pub const FORMAT: u32 = 1;

/// A node of the cluster.
pub type Node = u32;
/// A connection, unique in the history.
pub type Conn = u64;
/// One REQ for a sync, unique in the history; a repeated REQ of one subscription id is another attempt.
pub type Attempt = u64;
/// A client that wants one set and keeps a copy of it.
pub type Replica = u64;
/// One write as a client sent it, unique in the history; the same event sent twice is two operations.
pub type Op = u64;

/// Where a history comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The stepper: one thread that knows everything.
    Stepper,
    /// The production driver on simulated nodes.
    Cluster,
    /// Test clients of real processes, and a dump of the ledger.
    Real,
}

/// Where the commits stand in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commits {
    /// Each at the line where it became visible.
    InPlace,
    /// All of them behind the last other record but `end`; when each happened is only known from submits and outcomes.
    AtEnd,
}

/// Records that a tier can write beside what every client sees. A record of a kind that the header does not list is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knows {
    /// `received` for every REQ that reached its relay.
    Received,
    /// Every loss a node can notice: `bus_down`, `bus_up`, `lag`, `undecodable`, `lookup_failed`, `store_generation`,
    /// `queue_refused`, and every `store_fault`.
    Losses,
    /// `published` for every signal that the bus took.
    Published,
    /// `snapshot_open` and `snapshot_closed` for every sync snapshot.
    Snapshots,
    /// `read_begin`, `read_end` and `queued` for every head read.
    Reads,
    /// `held`, `dirty` and `queue` whenever a new maximum is reached.
    Gauges,
    /// `local_set` and `want`.
    Replicas,
    /// `retry_delay` before every new attempt that follows a failure.
    Retries,
    /// `end.state`.
    EndState,
    /// `end.open`.
    EndOpen,
}

/// The first record: what follows, and the configuration that verdicts depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// Where the history comes from.
    pub tier: Tier,
    /// Seed of the run; 0 where there is none.
    pub seed: u64,
    /// Where the commits stand.
    pub commits: Commits,
    /// What the tier can write.
    pub knows: BTreeSet<Knows>,
    /// The invariants this tier can judge. The others are reported as not applicable.
    pub judges: BTreeSet<Invariant>,
    /// The nodes of the cluster.
    pub nodes: BTreeSet<Node>,
    /// Largest set, and most distinct artifacts held or waiting, of one sync.
    pub max_events: u64,
    /// Milliseconds one sync snapshot may stay open.
    pub snapshot_budget_ms: u64,
    /// Milliseconds from the opening of the snapshot to EOSE.
    pub delivery_budget_ms: u64,
    /// Milliseconds a sync waits for its topics before `error: bus`.
    pub register_deadline_ms: u64,
    /// Sync snapshots open at once on one node.
    pub snapshots_max: u64,
    /// Unsent frames of one connection.
    pub queue_frames_max: u64,
    /// Unsent bytes of one connection.
    pub queue_bytes_max: u64,
    /// Milliseconds between two sweeps of the ledger; none when the sweep is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_ms: Option<u64>,
    /// The longest a signal is under way from `published` to the node it reaches, in milliseconds.
    pub signal_delay_ms: u64,
    /// Milliseconds a measured time may exceed its budget: the granularity of timers in this tier.
    pub slack_ms: u64,
}
