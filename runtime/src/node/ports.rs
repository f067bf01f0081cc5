//! The ports: what the driver needs from the world, and the contracts an adapter keeps. Only traits and their values belong
//! here; nothing of sockets, SQL or a particular executor.

use std::future::Future;
use std::pin::Pin;

use holdfast_core::accept::Submission;
use holdfast_core::ids::{CommunityId, Now};
use holdfast_core::node::{
    BusGeneration, BusMessage, CloseReason, ConnId, Generation, HistoryPage, LedgerPage, LiveQuery,
    LiveRows, Note, QueryAnswer, QueryKind, ReadFailure, Settled, SubmitOutcome, Topic,
};
use holdfast_core::nostr::RelayFrame;
use holdfast_core::scope::{Cut, ReadPlan};
use holdfast_core::sync::{HeadQuery, HeadRows, SyncPage, SyncRequest};

use crate::links::Tally;

/// A boxed future that may move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// Durable state of all communities.
///
/// The contract, one suite for every store:
///
/// - **S1** one query, one snapshot: all plans of one call see the same committed state; a history keeps its snapshot for all
///   its pages, is read only and has a deadline.
/// - **S2** acceptance is atomic: the store calls `accept::plan`, takes the locks, reads the view, calls `accept::decide` and
///   applies the writes in one transaction; two competitors for one `prev` never both win.
/// - **S2b** group commit: submissions that wait together commit together, at most 32; an error in one rolls back that one only.
/// - **S3** `Stored` is answered only after a durable commit. A commit whose outcome is not known is `Unknown`.
/// - **S4** a read that begins after a signal sees at least the commit that caused it.
/// - **S5** every stored event and every change of state has one ledger row.
/// - **S6** a ledger read returns each committed row exactly once along a chain of cursors.
/// - **S7** dropping a returned future never leaves a transaction open; a submission whose future is dropped is still
///   decided and committed or rolled back as a whole.
/// - **S9** rows are exactly those that `scope::admits` admits.
///
/// Every answer of the outcome types may be given, also those that a particular store never gives.
pub trait Store: Send + Sync + 'static {
    /// Decides and writes one event.
    fn submit(&self, submission: Submission) -> BoxFuture<SubmitOutcome>;

    /// Opens one snapshot for all plans. Errors: `Busy` when no place became free in time, `Store`.
    fn open_history(
        &self,
        plans: Vec<ReadPlan>,
    ) -> BoxFuture<Result<Box<dyn History>, ReadFailure>>;

    /// Answers a one-shot query in one snapshot within `budget_ms`; nothing partial is ever returned (AR-CUR-23).
    fn query(
        &self,
        kind: QueryKind,
        plans: Vec<ReadPlan>,
        budget_ms: u64,
    ) -> BoxFuture<Result<QueryAnswer, ReadFailure>>;

    /// Opens the snapshot of a sync; the first statement after its start reads access. Errors: `Busy` when no connection became
    /// free in time, `Store`.
    fn open_sync(
        &self,
        request: SyncRequest,
    ) -> BoxFuture<Result<Box<dyn SyncSnapshot>, ReadFailure>>;

    /// Reads heads, move markers and access in one snapshot, on the writer's newest committed state (S4, AR-SYNC-4g).
    fn heads(
        &self,
        community: CommunityId,
        query: HeadQuery,
    ) -> BoxFuture<Result<HeadRows, ReadFailure>>;

    /// Tells what became of the transaction of an `Unknown` outcome (S3). `Open` also when the store cannot be asked.
    fn settle(&self, xid: u64) -> BoxFuture<Settled>;

    /// Reads events by position and access facts, in one snapshot, on the writer's newest committed state.
    fn live(
        &self,
        community: CommunityId,
        query: LiveQuery,
    ) -> BoxFuture<Result<LiveRows, ReadFailure>>;

    /// Reads the ledger rows committed since a cursor, at most a bounded page; without a cursor, only the present one.
    fn ledger(&self, after: Option<Cut>) -> BoxFuture<Result<LedgerPage, ReadFailure>>;

    /// Whether the store can write and read at this moment; the text says what is wrong.
    fn health(&self) -> BoxFuture<Result<(), String>>;
}

/// An open history. Dropping it ends the snapshot at once.
pub trait History: Send + 'static {
    /// The next page: at most `rows_max` rows and `bytes_max` bytes, at least one row unless none is left. After the page with
    /// `end`, or after a failure, the snapshot is closed and no page follows.
    fn next(
        &mut self,
        rows_max: u32,
        bytes_max: usize,
    ) -> BoxFuture<Result<HistoryPage, ReadFailure>>;
}

/// The open snapshot of a sync. Dropping it ends the transaction at once, in the midst of a statement as well (S7).
pub trait SyncSnapshot: Send + 'static {
    /// The next page within the bounds of the request. After the last page, a failure, or the deadline the snapshot is closed
    /// and no page follows.
    fn next(&mut self) -> BoxFuture<Result<SyncPage, ReadFailure>>;
}

/// Signals between processes.
///
/// - **B1** at most once: it may lose, repeat, reorder and delay.
/// - **B2** a subscription is active only when its `Active` event came, on a numbered connection.
/// - **B3** loss is reported: a disconnect, a refused or undecodable message, a local lag come as `Down`, before any later
///   message; a new `Up` with a higher generation follows, and all topics must be subscribed again.
pub trait Bus: Send + Sync + 'static {
    /// Asks for a topic on the current connection; without one the call is lost, as the next `Up` asks again.
    fn subscribe(&self, topic: Topic);

    /// Gives a topic up. Messages may still come for a while.
    fn unsubscribe(&self, topic: Topic);

    /// Publishes; true when the server took the message.
    fn publish(&self, topic: Topic, message: BusMessage) -> BoxFuture<bool>;

    /// The next event; waits. After `Down` nothing of the old connection comes.
    fn next(&self) -> BoxFuture<BusEvent>;
}

/// What comes from the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    /// Connected.
    Up(BusGeneration),
    /// Disconnected, or something was lost.
    Down,
    /// A topic is active.
    Active(Topic, BusGeneration),
    /// A message.
    Message(Topic, BusMessage),
}

/// The way to the peers of the WebSocket connections.
///
/// No call waits and none fails: the node has accounted for the room of every frame, and what is said to a connection that is
/// gone has no effect, as its `Disconnected` is on the way.
///
/// After a completed flush the adapter reports what left as `Input::Drained`; it never reports a frame twice.
pub trait Links: Send + Sync + 'static {
    /// Queues a frame. Frames without generation leave first, in their order; those of one generation keep their order.
    fn send(&self, conn: ConnId, generation: Option<Generation>, frame: RelayFrame);

    /// Drops the unsent frames of a generation and returns what they were; the caller reports them as drained.
    fn purge(&self, conn: ConnId, generation: Generation) -> Tally;

    /// Drops all unsent frames that belong to a generation, sends the others, then closes.
    fn close(&self, conn: ConnId, reason: CloseReason);

    /// Lets the connection hand in one more message.
    fn credit(&self, conn: ConnId);
}

/// Where the node's observations go. Never waits.
pub trait NoteSink: Send + Sync + 'static {
    /// Takes one observation.
    fn note(&self, note: Note);
}

/// Answer of [`Guard::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The key was free and is taken until its time.
    First,
    /// The key is taken.
    Seen,
    /// Nothing is known; the caller refuses (fails closed).
    Unavailable,
}

/// Answer of [`Guard::spend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spend {
    /// One unit was taken.
    Ok,
    /// The bucket is empty.
    RetryIn {
        /// Seconds until a unit is there.
        secs: u64,
    },
    /// Nothing is known; the caller refuses (fails closed).
    Unavailable,
}

/// Counters that several requests share: NIP-98 replay protection and quotas.
pub trait Guard: Send + Sync + 'static {
    /// Takes `key` until `until_secs` (wall clock, `now_secs` is the present); exactly one of several claimants gets `First`.
    fn claim(&self, key: String, now_secs: u64, until_secs: u64) -> BoxFuture<Claim>;

    /// Takes one unit of a bucket that holds `limit` units per `window_secs`.
    fn spend(
        &self,
        bucket: String,
        now_secs: u64,
        limit: u32,
        window_secs: u64,
    ) -> BoxFuture<Spend>;
}

/// The time.
pub trait Clock: Send + Sync + 'static {
    /// The present.
    fn now(&self) -> Now;

    /// Completes at a monotonic time, at once if it has passed.
    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<()>;
}

/// Tasks beside the driver's own.
pub trait Spawn: Send + Sync + 'static {
    /// Runs a future to its end, independent of who asked.
    fn spawn(&self, future: BoxFuture<()>);
}
