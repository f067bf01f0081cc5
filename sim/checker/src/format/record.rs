//! The records. What belongs here: one variant per record. What must not: values that several records share (`values`).

use serde::{Deserialize, Serialize};

use super::{
    Attempt, Change, Conn, EndState, Filter, Intent, Node, NodeOpen, Op, Outcome, Party,
    ReadResult, Replica, StoreFault,
};

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
