//! What goes into the node and what comes out: inputs, effects, and the values they carry. Values only; every decision is in
//! the other files of this room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accept::{Change, Rejection, Submission};
use crate::channel::{Channel, Role};
use crate::ids::{ArtifactId, ChannelId, CommunityId, Position};
use crate::nostr::{
    ArtifactFilter, ClientMessage, Event, EventId, Filter, FrameProblem, PubKey, RelayFrame, WebUrl,
};
use crate::scope::{Audience, Cut, ReadPlan, Stamp};
use crate::sync::{Ending, HeadQuery, HeadRows, StoreGeneration, SyncPage, SyncRequest};

/// One WebSocket connection of this process; never reused while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// One HTTP request of this process; never reused while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId(pub u64);

/// One incarnation of a subscription id on one connection; never reused while the process lives. Frames of an older
/// generation are never sent after a newer one began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// The name of a read, a submission or a publish in flight. Exactly one answer comes for each; an answer whose owner is gone
/// is noted and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// One numbered connection to the bus; a higher number is a later connection (B2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BusGeneration(pub u64);

/// What signals are published on and listened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Everything that happens in a community; filters without `#h` listen here.
    Community(CommunityId),
    /// What happens in one channel.
    Channel(CommunityId, ChannelId),
}

impl Topic {
    /// The tenant of the topic.
    pub fn community(&self) -> CommunityId {
        match self {
            Topic::Community(community) | Topic::Channel(community, _) => *community,
        }
    }
}

/// A hint that a committed change exists. It carries no truth: whoever hears it reads the store (B1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal {
    /// The ledger row.
    pub position: Position,
    /// The transaction that wrote it; 0 in stores whose position order is commit order.
    pub xid: u64,
    /// Its kind.
    pub change: Change,
    /// Its channel.
    pub channel: Option<ChannelId>,
    /// Its artifact.
    pub artifact: Option<ArtifactId>,
    /// Its key.
    pub key: Option<PubKey>,
}

/// What travels on the bus.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BusMessage {
    /// Committed changes of one community.
    Signals(Vec<Signal>),
    /// An ephemeral event; it is never stored, so it travels whole.
    Ephemeral {
        /// The channel it was accepted for.
        channel: Option<ChannelId>,
        /// The event.
        event: Arc<Event>,
    },
}

/// One stored event as live reads return it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredRow {
    /// Where and by which transaction it was stored.
    pub stamp: Stamp,
    /// The event.
    pub event: Arc<Event>,
    /// Its channel.
    pub channel: Option<ChannelId>,
    /// Who may see it.
    pub audience: Audience,
}

/// One row of a history or query answer: the serialised event, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HistoryRow {
    /// Its id; a row that several filters return is sent once.
    pub id: EventId,
    /// The seven fields as one JSON object.
    pub json: Arc<str>,
}

/// One page of a history answer; pages of all filters come in filter order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HistoryPage {
    /// Rows, in the order of the filter they belong to.
    pub rows: Vec<HistoryRow>,
    /// Present on the last page: what the snapshot saw. The snapshot is closed.
    pub end: Option<Cut>,
    /// Which of the plans' named channels the readers may read, judged in the snapshot; the same on every page.
    pub readable: BTreeSet<ChannelId>,
}

/// What a live read asks for: events and access at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LiveQuery {
    /// Ledger positions whose events are wanted; withheld and superseded ones are left out of the answer.
    pub positions: BTreeSet<Position>,
    /// Channels whose rows are wanted besides the channels of the returned events.
    pub channels: BTreeSet<ChannelId>,
    /// Keys whose active roles in all these channels are wanted.
    pub keys: BTreeSet<PubKey>,
    /// Bytes of serialised events after which no further event is read; the first one is always read.
    pub bytes_max: usize,
}

/// What a live read returns, all from one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LiveRows {
    /// Stored events by position.
    pub rows: BTreeMap<Position, StoredRow>,
    /// Channels: those asked for and those of the rows, deleted ones included.
    pub channels: BTreeMap<ChannelId, Channel>,
    /// Active roles of the asked keys in these channels.
    pub roles: BTreeMap<(ChannelId, PubKey), Role>,
    /// Asked positions that the byte bound left unread.
    pub left: BTreeSet<Position>,
    /// Database clock in seconds, for expiry (NIP-40).
    pub clock_secs: u64,
}

/// Ledger rows committed since a cursor (S6), as signals of their communities.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LedgerPage {
    /// The rows, in position order.
    pub signals: Vec<(CommunityId, Signal)>,
    /// The cursor for the next read.
    pub cursor: Cut,
    /// More rows are waiting: read again from `cursor`.
    pub more: bool,
    /// Which database answered.
    pub store: StoreGeneration,
}

/// Why a read gave no answer. The text for a client is chosen by the node and discloses nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadFailure {
    /// No place in the pool within the waiting bound.
    Busy,
    /// The execution budget ran out.
    Budget,
    /// The snapshot was lost after it was opened.
    SnapshotLost,
    /// Anything else: the disk, the connection, a corrupt row.
    Store,
}

/// What became of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SubmitOutcome {
    /// Committed and durable.
    Stored {
        /// Text of the OK.
        message: String,
        /// What to publish.
        signals: Vec<Signal>,
    },
    /// Nothing had to be written.
    Already {
        /// Text of the OK.
        message: String,
    },
    /// Accepted, not stored.
    Ephemeral {
        /// The channel it belongs to.
        channel: Option<ChannelId>,
    },
    /// Refused by the decision.
    Rejected(Rejection),
    /// Not attempted: too many wait.
    Busy,
    /// Rolled back: nothing of it is stored.
    Failed,
    /// The commit may or may not have happened, or may still happen (S3). The signals are kept until that is settled.
    Unknown {
        /// The transaction.
        xid: u64,
        /// What to publish if it was committed, or if that can no longer be told.
        signals: Vec<Signal>,
    },
}

/// What became of a transaction whose COMMIT was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Settled {
    /// It was committed.
    Committed,
    /// It was rolled back and will never be committed.
    Aborted,
    /// The store no longer knows: it counts as committed, since a signal too many is harmless.
    Forgotten,
    /// It is still in progress, or the store could not be asked: ask again.
    Open,
}

/// What a one-shot query wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueryKind {
    /// Rows of all plans: each in its own order, one plan after the other, each event once.
    Rows,
    /// Number of distinct events over all plans; page bounds are ignored.
    Count,
}

/// The answer of a one-shot query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueryAnswer {
    /// The rows.
    Rows(Vec<HistoryRow>),
    /// The number.
    Count(u64),
}

/// What an HTTP request wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// `POST /events`.
    Submit(Box<Event>),
    /// `POST /query` with ordinary filters.
    Query(Vec<Filter>),
    /// `POST /query` with an artifact filter.
    ArtifactQuery(ArtifactFilter),
    /// `POST /count` with ordinary filters.
    Count(Vec<Filter>),
    /// `POST /count` with an artifact filter.
    ArtifactCount(ArtifactFilter),
}

/// What an HTTP request gets; the adapter turns it into a status and a body.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// An event was taken (or was known, or changed nothing).
    Accepted {
        /// Text.
        message: String,
    },
    /// An event was refused: 400, 403 or 409 by class.
    Rejected(Rejection),
    /// A query was refused, text with prefix.
    Refused {
        /// True: 403, false: 400.
        denied: bool,
        /// The text.
        text: String,
    },
    /// Rows.
    Rows(Vec<HistoryRow>),
    /// A number.
    Count(u64),
    /// 503 with this text.
    Unavailable(String),
}

/// Why the relay closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloseReason {
    /// No key within the timeout of the workspace profile.
    AuthTimeout,
    /// Too many failed AUTH attempts.
    AuthTries,
    /// The peer takes its frames too slowly and the queue is full.
    SlowReader,
    /// The relay stops.
    Restarting,
}

impl CloseReason {
    /// WebSocket close code and text.
    pub fn code_and_text(self) -> (u16, &'static str) {
        match self {
            CloseReason::AuthTimeout => (1008, "auth-required: no authentication in time"),
            CloseReason::AuthTries => (1008, "auth-required: too many failed attempts"),
            CloseReason::SlowReader => (
                1008,
                "error: send queue full, read faster or subscribe to less",
            ),
            CloseReason::Restarting => (1012, "relay restarting"),
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A WebSocket connection was accepted and bound to a community.
    Connected {
        /// Its name.
        conn: ConnId,
        /// Bound from the Host.
        community: CommunityId,
        /// The URL that AUTH events of this connection must name: scheme of the relay URL, Host of this request.
        relay_url: WebUrl,
        /// The challenge: 64 hex characters from the runtime's random source.
        challenge: String,
    },
    /// A frame arrived. Event ids and signatures are already checked; a frame that failed comes as its problem.
    Message {
        /// From.
        conn: ConnId,
        /// The message, or which answer its problem is due.
        message: Result<ClientMessage, FrameProblem>,
    },
    /// The connection is gone.
    Disconnected {
        /// Which.
        conn: ConnId,
    },
    /// Frames left for the peer: a flush completed, or unsent frames were purged.
    Drained {
        /// Which connection.
        conn: ConnId,
        /// Bytes of the frames that left, as `RelayFrame::len_bytes` counts them.
        bytes: usize,
        /// Number of the frames that left.
        frames: usize,
    },
    /// An HTTP request; NIP-98 and the replay guard have passed.
    Request {
        /// Its name.
        ticket: TicketId,
        /// Bound from the Host.
        community: CommunityId,
        /// The signer; empty for an anonymous request of the open profile.
        keys: BTreeSet<PubKey>,
        /// What it wants.
        request: Request,
    },
    /// A submission's answer.
    Submitted {
        /// Which.
        op: OpId,
        /// What became of it.
        outcome: SubmitOutcome,
    },
    /// A page of an open history read.
    Page {
        /// Which.
        op: OpId,
        /// The page; after a failure the snapshot is closed.
        page: Result<HistoryPage, ReadFailure>,
    },
    /// A page of the initial read of a sync.
    SyncPage {
        /// Which.
        op: OpId,
        /// The page; nothing more comes after a failure.
        page: Result<SyncPage, ReadFailure>,
    },
    /// The snapshot of a sync is closed and its place is free. Comes exactly once for each `OpenSync`, however it ended.
    SnapshotClosed {
        /// Which.
        op: OpId,
    },
    /// A head read's answer.
    Heads {
        /// Which.
        op: OpId,
        /// The rows.
        rows: Result<HeadRows, ReadFailure>,
    },
    /// What became of a commit whose outcome was not known.
    Settled {
        /// Which.
        op: OpId,
        /// What.
        outcome: Settled,
    },
    /// A live read's answer.
    Live {
        /// Which.
        op: OpId,
        /// The rows.
        rows: Result<LiveRows, ReadFailure>,
    },
    /// A one-shot query's answer.
    Answer {
        /// Which.
        op: OpId,
        /// The answer.
        answer: Result<QueryAnswer, ReadFailure>,
    },
    /// A ledger read's answer.
    Ledger {
        /// Which.
        op: OpId,
        /// The rows.
        page: Result<LedgerPage, ReadFailure>,
    },
    /// The bus is connected.
    BusUp {
        /// The connection's number.
        generation: BusGeneration,
    },
    /// The bus connection is gone, or it lost messages it cannot name (B3). A new generation follows.
    BusDown,
    /// The server confirmed a subscription (B2).
    TopicActive {
        /// Which.
        topic: Topic,
        /// On which connection.
        generation: BusGeneration,
    },
    /// A message arrived.
    BusMessage {
        /// On which topic.
        topic: Topic,
        /// What.
        message: BusMessage,
    },
    /// A publish's answer (B5).
    Published {
        /// Which.
        op: OpId,
        /// Whether the server took it.
        ok: bool,
    },
    /// The time of the last reported wake-up has come.
    Woken,
    /// The process stops: close every connection.
    Stop,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Queue a frame. Frames of one subscription keep their order; frames without generation go first.
    Send {
        /// To.
        conn: ConnId,
        /// The subscription generation it belongs to; none for OK, AUTH and NOTICE.
        generation: Option<Generation>,
        /// The frame.
        frame: RelayFrame,
    },
    /// Drop the unsent frames of this generation and report them as drained.
    Purge {
        /// Of.
        conn: ConnId,
        /// Which.
        generation: Generation,
    },
    /// Send what is queued of the control frames, then close.
    Close {
        /// Which.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// One message of this connection is dealt with; the reader may take one more. Each `Input::Message` of a living
    /// connection brings exactly one credit.
    Credit {
        /// Whose.
        conn: ConnId,
    },
    /// Decide and write an event.
    Submit {
        /// Name.
        op: OpId,
        /// What.
        submission: Box<Submission>,
    },
    /// Open one snapshot for all plans and return the first page.
    OpenHistory {
        /// Name; further pages carry it too.
        op: OpId,
        /// The filters.
        plans: Vec<ReadPlan>,
        /// Most rows of the page.
        rows_max: u32,
        /// Most bytes of the page; at least one row is returned.
        bytes_max: usize,
    },
    /// Return the next page of an open snapshot.
    NextPage {
        /// Which.
        op: OpId,
        /// Most rows of the page.
        rows_max: u32,
        /// Most bytes of the page; at least one row is returned.
        bytes_max: usize,
    },
    /// End a snapshot; no page follows.
    EndHistory {
        /// Which.
        op: OpId,
    },
    /// Open the snapshot of a sync and return its first page.
    OpenSync {
        /// Name; further pages carry it too.
        op: OpId,
        /// What.
        request: Box<SyncRequest>,
    },
    /// Return the next page of a sync.
    NextSyncPage {
        /// Which.
        op: OpId,
    },
    /// End the initial read of a sync at once; no page follows (AR-SYNC-8d).
    EndSync {
        /// Which.
        op: OpId,
    },
    /// Read heads and access at one moment, on the writer.
    ReadHeads {
        /// Name.
        op: OpId,
        /// Tenant.
        community: CommunityId,
        /// What.
        query: HeadQuery,
    },
    /// Ask what became of a commit (S3).
    Settle {
        /// Name.
        op: OpId,
        /// The transaction.
        xid: u64,
    },
    /// Read events and access for live delivery.
    ReadLive {
        /// Name.
        op: OpId,
        /// Tenant.
        community: CommunityId,
        /// What.
        query: LiveQuery,
    },
    /// Answer a one-shot query.
    Query {
        /// Name.
        op: OpId,
        /// Rows or number.
        kind: QueryKind,
        /// The filters.
        plans: Vec<ReadPlan>,
        /// Execution budget in milliseconds.
        budget_ms: u64,
    },
    /// Read the ledger rows committed since a cursor; without one, only the present cursor.
    ReadLedger {
        /// Name.
        op: OpId,
        /// Since.
        after: Option<Cut>,
    },
    /// Ask the bus for a topic on its current connection.
    Subscribe {
        /// Which.
        topic: Topic,
    },
    /// Give a topic up.
    Unsubscribe {
        /// Which.
        topic: Topic,
    },
    /// Publish.
    Publish {
        /// Name.
        op: OpId,
        /// Where.
        topic: Topic,
        /// What.
        message: BusMessage,
    },
    /// Answer an HTTP request.
    Reply {
        /// Which.
        ticket: TicketId,
        /// What.
        reply: Reply,
    },
    /// Something worth counting happened.
    Note(Note),
}

/// What the node observed; the shell counts it, the simulator uses it as a goal. An ignored input is a note, never silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// A key was added to a connection.
    Authenticated,
    /// An AUTH was refused.
    AuthRefused,
    /// A frame could not be read.
    BadFrame,
    /// A submission was sent to the store.
    SubmitStarted,
    /// A submission was refused without the store.
    SubmitRefused,
    /// A subscription was registered.
    SubscriptionOpened,
    /// A subscription was replaced by the same id.
    SubscriptionReplaced,
    /// A subscription was closed by its client.
    SubscriptionClosed,
    /// A subscription was ended by the relay.
    SubscriptionEnded,
    /// A history was sent in full.
    HistoryDone,
    /// A history failed.
    HistoryFailed,
    /// A sync request was refused for what it says, or for want of room.
    SyncRefused,
    /// A sync was registered.
    SyncOpened,
    /// A sync waits for a snapshot place.
    SyncWaitsForSnapshot,
    /// A sync's snapshot was given up before it said anything, and its registration began again.
    SyncRestarted,
    /// A sync's initial set is complete.
    SyncLive,
    /// The relay ended a sync.
    SyncEnded(Ending),
    /// A head or access read of one sync began.
    HeadReadStarted,
    /// A head or access read began that several syncs share.
    HeadReadShared,
    /// Another database answered than before.
    StoreChanged,
    /// A commit of unknown outcome is still open.
    CommitOpen,
    /// A commit of unknown outcome counts as committed.
    CommitSettled,
    /// The ledger was swept and brought rows.
    Swept,
    /// A live read failed and is tried again.
    LiveRetried,
    /// A live event was sent.
    LiveDelivered,
    /// A live event waits for EOSE or for room.
    LiveHeld,
    /// An ephemeral event was dropped for a subscription whose hold is full.
    EphemeralDropped,
    /// A signal named a position that is already being handled or was handled.
    SignalRepeated,
    /// A publish failed and is tried again.
    PublishRetried,
    /// An answer came for an owner that is gone.
    LateAnswer,
    /// An input named a connection that is gone.
    UnknownConnection,
    /// A topic confirmation of an older bus connection, or of a topic nobody wants.
    StaleConfirmation,
    /// The bus connection was lost.
    BusLost,
    /// Missed signals were read from the ledger.
    LedgerCaughtUp,
    /// A connection was closed by the relay.
    ConnectionClosed,
}

/// When the node wants to be woken, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wakeup {
    /// On the monotonic clock.
    pub at_mono_ms: u64,
    /// What for.
    pub reason: WakeReason,
}

/// Why a wake-up is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeReason {
    /// A connection must have authenticated by then.
    AuthDeadline,
    /// A subscription's topics must be confirmed by then.
    RegisterDeadline,
    /// A history must be sent by then.
    HistoryDeadline,
    /// A failed live or ledger read is tried again.
    ReadRetry,
    /// A failed publish is tried again.
    PublishRetry,
}
