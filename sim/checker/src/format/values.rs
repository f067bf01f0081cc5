//! Values inside records. What belongs here: what more than one record, or only part of one, says. What must not: records.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Attempt, Node, Visibility};

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
