//! The records of a history, version 1. `docs/history.md` is the page for people; this file is the definition.
//!
//! What belongs here: the shape of each record and what its fields mean. What must not: reading and writing of files
//! (`lines`), any judgement about what a record says (`judges`).
//!
//! Names of channels, artifacts, revisions and keys are opaque text; artifacts are ordered by the bytes of their `d`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Invariant;

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

/// One record. Line order is the order of observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Record {
    // -- writes
    /// A client sends a write.
    Submit {
        /// The operation.
        op: Op,
        /// The client's key.
        key: String,
        /// The node it is sent to.
        node: Node,
        /// Id of the event.
        event: String,
        /// What an artifact revision wants to do; none for every other event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<Intent>,
    },
    /// The client learns the outcome.
    Outcome {
        /// The operation.
        op: Op,
        /// What it learns.
        result: Outcome,
        /// The relay's text, empty where there is none.
        text: String,
    },
    /// A transaction committed. Indexes start at 1 and have no gap.
    Commit {
        /// Its place in the order of commits.
        index: u64,
        /// The operations it answers, where known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ops: Vec<Op>,
        /// The node that committed it.
        node: Node,
        /// What it changed, in ledger order.
        changes: Vec<Change>,
    },
    /// The bus took the signals of these ledger positions.
    Published {
        /// The node that published.
        node: Node,
        /// Ledger positions.
        positions: Vec<u64>,
    },

    // -- nodes
    /// A node serves.
    NodeUp {
        /// The node.
        node: Node,
    },
    /// A node died: what it committed and had not published stays unpublished. Its connections end with `disconnect`.
    NodeCrash {
        /// The node.
        node: Node,
    },
    /// A node stopped in good order.
    NodeStop {
        /// The node.
        node: Node,
    },
    /// A node stood still.
    Pause {
        /// The node.
        node: Node,
        /// For how many milliseconds.
        for_ms: u64,
    },
    /// A node's wall clock jumped.
    ClockJump {
        /// The node.
        node: Node,
        /// By how many milliseconds.
        by_ms: i64,
    },

    // -- losses: each written where an honest adapter tells the node
    /// The node's bus connection is down.
    BusDown {
        /// The node.
        node: Node,
    },
    /// The node has a new bus connection.
    BusUp {
        /// The node.
        node: Node,
        /// Its number; grows with each connection of this node.
        generation: u64,
    },
    /// The node's local fan-out lagged or dropped entries.
    Lag {
        /// The node.
        node: Node,
        /// The channel of the lost entries; none when it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    /// The node got a message it cannot decode.
    Undecodable {
        /// The node.
        node: Node,
        /// The channel on whose topic it came; none when it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
    },
    /// A read of heads or access failed for good.
    LookupFailed {
        /// The node.
        node: Node,
        /// The syncs for which it was done.
        attempts: Vec<Attempt>,
    },
    /// The store is another one than before.
    StoreGeneration {
        /// The node that noticed.
        node: Node,
    },
    /// The send queue of a connection refused a frame.
    QueueRefused {
        /// The connection.
        conn: Conn,
        /// The sync whose frame it was; none for another frame.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
    },
    /// The store failed or kept somebody waiting.
    StoreFault {
        /// The node whose request it was.
        node: Node,
        /// What happened.
        what: StoreFault,
        /// The sync for which the request was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        /// The operation for which the request was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        op: Option<Op>,
    },
    /// Something was done to the world.
    Fault {
        /// Its family, such as `bus`, `store`, `node`, `link`.
        family: String,
        /// What was done, in a few words.
        what: String,
        /// The node it was done to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<Node>,
        /// The connection it was done to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conn: Option<Conn>,
    },

    // -- connections and syncs, as clients see them
    /// A client connected.
    Connect {
        /// The connection.
        conn: Conn,
        /// The node it reached.
        node: Node,
    },
    /// The relay accepted an AUTH.
    Auth {
        /// The connection.
        conn: Conn,
        /// The key.
        key: String,
    },
    /// A connection ended; nothing of it arrives afterwards.
    Disconnect {
        /// The connection.
        conn: Conn,
        /// Who ended it.
        who: Party,
        /// Why, in a few words.
        why: String,
    },
    /// A client sends a REQ for a sync. An older attempt with this subscription id on this connection ends.
    Req {
        /// The attempt.
        attempt: Attempt,
        /// The connection.
        conn: Conn,
        /// The subscription id.
        sub: String,
        /// The key that authenticated last on the connection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reader: Option<String>,
        /// The replica for which it is; none for a client that keeps no copy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replica: Option<Replica>,
        /// What it asks for.
        filter: Filter,
    },
    /// The relay took a REQ out of its socket.
    Received {
        /// The attempt.
        attempt: Attempt,
    },
    /// A client sends CLOSE.
    Close {
        /// The attempt.
        attempt: Attempt,
    },
    /// A client received an EVENT.
    Event {
        /// The connection.
        conn: Conn,
        /// The subscription id.
        sub: String,
        /// The attempt. May be left out where the subscription id was used once on the connection.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        /// 45010 or 45011.
        kind: u32,
        /// Id of the event.
        id: String,
        /// The artifact.
        d: String,
        /// The channel in the event's `h` tag.
        h: String,
        /// The event as it came, where its bytes are to be judged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<String>,
    },
    /// A client received EOSE.
    Eose {
        /// The connection.
        conn: Conn,
        /// The subscription id.
        sub: String,
        /// As in `event`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
    },
    /// A client received CLOSED.
    Closed {
        /// The connection.
        conn: Conn,
        /// The subscription id.
        sub: String,
        /// As in `event`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        /// The relay's text.
        text: String,
    },

    // -- inside a relay
    /// The first statement of a sync's snapshot was answered.
    SnapshotOpen {
        /// The attempt.
        attempt: Attempt,
        /// The newest commit it sees.
        index: u64,
    },
    /// A sync's snapshot was given back.
    SnapshotClosed {
        /// The attempt.
        attempt: Attempt,
    },
    /// A head read for a sync begins.
    ReadBegin {
        /// The attempt.
        attempt: Attempt,
        /// The artifacts it asks for.
        ds: Vec<String>,
    },
    /// A head read answered for one artifact.
    ReadEnd {
        /// The attempt.
        attempt: Attempt,
        /// The artifact.
        d: String,
        /// The newest commit the read saw.
        index: u64,
        /// What it returned.
        result: ReadResult,
    },
    /// The result of a head read is in the outbound queue, or there was nothing to send.
    Queued {
        /// The attempt.
        attempt: Attempt,
        /// The artifact.
        d: String,
    },
    /// A sync holds as many changed artifacts before EOSE as never before.
    Held {
        /// The attempt.
        attempt: Attempt,
        /// Distinct artifacts.
        count: u64,
    },
    /// As many artifacts of a sync wait for their head read as never before.
    Dirty {
        /// The attempt.
        attempt: Attempt,
        /// Distinct artifacts.
        count: u64,
    },
    /// A connection's send queue is as full as never before.
    Queue {
        /// The connection.
        conn: Conn,
        /// Unsent frames.
        frames: u64,
        /// Unsent bytes.
        bytes: u64,
    },

    // -- replicas
    /// A replica wants its set from here on.
    Want {
        /// The replica.
        replica: Replica,
        /// The set.
        filter: Filter,
        /// The key with which it asks.
        reader: String,
    },
    /// A replica wants its set no longer.
    Unwant {
        /// The replica.
        replica: Replica,
    },
    /// The local set of a replica: after it was replaced, after an attempt ended, and before each `settled`.
    LocalSet {
        /// The replica.
        replica: Replica,
        /// Its digest as the client computes it.
        digest: String,
        /// Whether the client calls it possibly stale.
        stale: bool,
        /// Artifact and head, in any order.
        entries: Vec<(String, String)>,
    },
    /// A replica waits before its next attempt.
    RetryDelay {
        /// The replica.
        replica: Replica,
        /// Failures in a row so far.
        failures: u32,
        /// How long it waits, in milliseconds.
        delay_ms: u64,
        /// The shortest delay it could have drawn.
        least_ms: u64,
        /// The longest delay it could have drawn.
        most_ms: u64,
    },

    // -- the end
    /// Healing began: no new fault from here on.
    Quiet {},
    /// Nothing is under way: every signal arrived, every read is answered, every queue is empty. Judged here: what must have
    /// come by then.
    Settled {},
    /// The history is complete.
    End {
        /// The store's final state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<EndState>,
        /// What each living node still has open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        open: Option<Vec<NodeOpen>>,
    },
}

/// What an artifact revision wants to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The artifact.
    pub d: String,
    /// The operation.
    pub op: RevisionOp,
    /// The revision it names as current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<String>,
    /// The channel it names.
    pub h: String,
}

/// The operation of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevisionOp {
    /// The first revision.
    Create,
    /// A change that keeps the home.
    Update,
    /// A change of home.
    Move,
    /// A soft deletion.
    Delete,
    /// The revision after a deletion.
    Restore,
}

/// What a client learns about its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// OK true.
    Ok,
    /// OK true, and the relay said that it had the event.
    Duplicate,
    /// OK false, `conflict:`.
    Conflict,
    /// OK false for any other reason that will not change by itself.
    Refused,
    /// OK false, `error:`: it may or may not have been committed.
    Error,
    /// The client gave up waiting.
    Unknown,
    /// The connection was lost.
    None,
}

/// What a store request met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreFault {
    /// It took longer.
    Slow,
    /// No slot or connection became free in time.
    Busy,
    /// A read failed.
    ReadFailed,
    /// An open snapshot was lost.
    SnapshotLost,
    /// The fate of a commit is unknown.
    UnknownCommit,
    /// A deadlock or serialisation failure.
    Deadlock,
}

/// Who ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// The client.
    Client,
    /// The relay, dying included.
    Relay,
    /// Neither.
    Network,
}

/// What a sync asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// The values of `#h`.
    pub h: BTreeSet<String>,
    /// The values of every other `#name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, BTreeSet<String>>,
    /// What is wrong with it, where the client wrote something that a relay must refuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
}

/// One change of a commit. `pos` is its ledger position, unique in the history; positions need not follow the commits' order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A revision was accepted and is the head.
    Revision {
        /// Ledger position.
        pos: u64,
        /// The artifact.
        d: String,
        /// Id of the revision.
        rev: String,
        /// The revision it replaces.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prev: Option<String>,
        /// The operation.
        op: RevisionOp,
        /// The home.
        h: String,
        /// The artifact's type.
        #[serde(rename = "type")]
        artifact_type: String,
        /// Name and first value of every other tag.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tags: Vec<(String, String)>,
        /// The author's key.
        author: String,
        /// The conversation anchor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        root: Option<String>,
    },
    /// A move's 45011 was stored in the channel that the artifact left.
    MoveSource {
        /// Ledger position.
        pos: u64,
        /// The artifact.
        d: String,
        /// The channel that it left.
        h: String,
        /// Id of the 45011.
        marker: String,
        /// The revision that the move replaced.
        replaced: String,
    },
    /// A revision was redacted.
    Redaction {
        /// Ledger position.
        pos: u64,
        /// The revision.
        rev: String,
        /// The artifact.
        d: String,
        /// Whether it is the current one.
        current: bool,
    },
    /// A key's place in a channel changed.
    Membership {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// The key.
        key: String,
        /// Its role from here on; none when it is no member.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
    },
    /// A channel's visibility changed.
    Visibility {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// Its visibility from here on.
        visibility: Visibility,
    },
    /// A channel was unlisted or listed.
    Unlisted {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// Whether it is unlisted.
        unlisted: bool,
    },
    /// A channel was archived or unarchived.
    Archive {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// Whether it is archived.
        archived: bool,
    },
    /// A channel was created. Its first members follow as `membership`.
    ChannelCreated {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
        /// `stream`, `forum`, `dm`, `workflow`, `system`, or a later one.
        channel_type: String,
        /// Its visibility.
        visibility: Visibility,
        /// Whether it is unlisted.
        #[serde(default)]
        unlisted: bool,
    },
    /// A channel was deleted.
    ChannelDeleted {
        /// Ledger position.
        pos: u64,
        /// The channel.
        channel: String,
    },
    /// Any other stored event.
    Other {
        /// Ledger position.
        pos: u64,
        /// Id of the event.
        event: String,
    },
}

impl Change {
    /// The ledger position.
    pub fn pos(&self) -> u64 {
        match self {
            Change::Revision { pos, .. }
            | Change::MoveSource { pos, .. }
            | Change::Redaction { pos, .. }
            | Change::Membership { pos, .. }
            | Change::Visibility { pos, .. }
            | Change::Unlisted { pos, .. }
            | Change::Archive { pos, .. }
            | Change::ChannelCreated { pos, .. }
            | Change::ChannelDeleted { pos, .. }
            | Change::Other { pos, .. } => *pos,
        }
    }
}

/// Who can read a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    /// Everybody the relay admits.
    Open,
    /// Its members.
    Private,
}

/// What a head read returned for one artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReadResult {
    /// The current revision.
    Head(String),
    /// A stored 45011.
    Marker(String),
    /// Nothing that the sync may send.
    Nothing,
    /// It was left for a later read.
    Left,
    /// The sync ends because of what the read found.
    Ends,
    /// The read failed.
    Failed,
}

/// The store's final state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndState {
    /// Every artifact.
    pub heads: Vec<EndHead>,
    /// Every channel that was ever created.
    pub channels: Vec<EndChannel>,
    /// Digests of sets as the store itself lists them.
    pub digests: Vec<EndDigest>,
}

/// The final head of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndHead {
    /// The artifact.
    pub d: String,
    /// Its current revision.
    pub rev: String,
    /// Its home.
    pub h: String,
    /// Whether the current revision is a deletion.
    #[serde(default)]
    pub deleted: bool,
    /// Whether the current revision is redacted.
    #[serde(default)]
    pub redacted: bool,
}

/// The final state of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndChannel {
    /// The channel.
    pub channel: String,
    /// Its visibility.
    pub visibility: Visibility,
    /// Whether it is deleted.
    #[serde(default)]
    pub deleted: bool,
    /// Whether it is unlisted.
    #[serde(default)]
    pub unlisted: bool,
    /// The keys of its members, in any order; of a deleted channel none.
    pub members: Vec<String>,
}

/// The digest of one set at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndDigest {
    /// The set, as a reader sees it that can read every channel in `h`.
    pub filter: Filter,
    /// Its digest.
    pub digest: String,
}

/// What a living node still has open at the end, each with the attempt for which it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeOpen {
    /// The node.
    pub node: Node,
    /// Sync snapshots.
    pub snapshots: Vec<Attempt>,
    /// Reads and tasks under way.
    pub reads: Vec<Attempt>,
    /// Sync sessions, with their interest in topics.
    pub sessions: Vec<Attempt>,
    /// Frames in send queues.
    pub queued: Vec<Attempt>,
}
