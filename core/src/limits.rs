//! Every bound of the relay, once. The same constants feed enforcement and the NIP-11 document; relations between bounds are
//! checked when the crate compiles. Nothing else belongs here.

/// Largest WebSocket frame in bytes (NIP-11 `max_message_length`).
pub const FRAME_BYTES_MAX: usize = 524_288;
/// Largest HTTP request body in bytes.
pub const BODY_BYTES_MAX: usize = 1_048_576;
/// Largest event content in UTF-8 bytes.
pub const CONTENT_BYTES_MAX: usize = 262_144;
/// Open subscriptions per connection (NIP-11 `max_subscriptions`).
pub const SUBSCRIPTIONS_MAX: usize = 1_024;
/// Filters per REQ, COUNT or query (NIP-11 `max_filters`).
pub const FILTERS_MAX: usize = 10;
/// Most events one filter's history returns, and the default where no limit is given (NIP-11 `max_limit`, `default_limit`).
pub const LIMIT_MAX: u32 = 1_000;
/// Subscription id length in Unicode characters (NIP-01, NIP-11 `max_subid_length`).
pub const SUB_ID_CHARS_MAX: usize = 64;
/// Values over all lists of one filter: ids, authors, kinds and tag values together.
pub const FILTER_VALUES_MAX: usize = 2_048;
/// Explicit `#h` values over all filters of one request.
pub const NAMED_CHANNELS_MAX: usize = 128;
/// Tags per event (AR-ENV-21 for artifacts; NIP-11 `max_event_tags` for the others).
pub const EVENT_TAGS_MAX: usize = 5_000;
/// Keys one connection may authenticate.
pub const KEYS_MAX: usize = 4;
/// AUTH attempts per connection.
pub const AUTH_TRIES_MAX: u32 = 8;
/// An AUTH or NIP-98 event may be this many seconds away from the relay's clock.
pub const AUTH_WINDOW_SECS: u64 = 60;
/// An EVENT's created_at may be this many seconds away from the relay's clock (workspace profile: both ways; open: future only).
pub const EVENT_WINDOW_SECS: u64 = 900;

/// Tags per artifact revision (AR-ENV-21).
pub const ARTIFACT_TAGS_MAX: usize = 256;
/// Bytes of an artifact tag name.
pub const ARTIFACT_TAG_NAME_BYTES_MAX: usize = 128;
/// Bytes of any artifact tag element after the name.
pub const ARTIFACT_TAG_VALUE_BYTES_MAX: usize = 4_096;
/// Bytes of all artifact tag names and values together.
pub const ARTIFACT_TAG_BYTES_MAX: usize = 65_536;
/// Bytes of an artifact `type` (AR-ENV-8).
pub const ARTIFACT_TYPE_BYTES_MAX: usize = 128;
/// Bytes of an artifact `title` (AR-ENV-11).
pub const ARTIFACT_TITLE_BYTES_MAX: usize = 512;
/// `#name` predicates of one artifact query.
pub const ARTIFACT_PREDICATES_MAX: usize = 32;
/// Values over all predicates of one artifact query.
pub const ARTIFACT_VALUES_MAX: usize = 256;
/// Largest artifact query page.
pub const ARTIFACT_PAGE_MAX: u32 = 1_000;
/// Artifact query page where no limit is given.
pub const ARTIFACT_PAGE_DEFAULT: u32 = 100;
/// Artifact head query page where no limit is given: a row for each artifact that such a query can name (AR-HEAD-3, AR-HEAD-8).
pub const ARTIFACT_HEAD_PAGE_DEFAULT: u32 = ARTIFACT_VALUES_MAX as u32;
/// Largest artifact query offset.
pub const ARTIFACT_OFFSET_MAX: u32 = 10_000;
/// Execution budget of an artifact query in milliseconds (AR-CUR-20).
pub const ARTIFACT_QUERY_BUDGET_MS: u64 = 2_000;
/// Execution budget of an ordinary history read or count in milliseconds.
pub const QUERY_BUDGET_MS: u64 = 5_000;

/// Positions an ordinary subscription holds back before it is closed with `error:`.
pub const HELD_POSITIONS_MAX: usize = 4_096;
/// Milliseconds a subscription waits for its topics to be confirmed before `error:`.
pub const REGISTER_DEADLINE_MS: u64 = 5_000;
/// Milliseconds a history read may take from REQ to EOSE, a slow reader included.
pub const HISTORY_BUDGET_MS: u64 = 60_000;
/// Milliseconds live reads of a topic may go on failing before the affected subscriptions get `error:`.
pub const LIVE_RETRY_DEADLINE_MS: u64 = 5_000;
/// Rows of one history page.
pub const PAGE_ROWS_MAX: u32 = 100;
/// Bytes of one history page (one row is always let through).
pub const PAGE_BYTES_MAX: usize = 262_144;
/// Positions read by one live read.
pub const LIVE_BATCH_MAX: usize = 256;
/// Bytes of serialised events read by one live read.
pub const LIVE_BYTES_MAX: usize = 1_048_576;
/// Positions a subscription or topic remembers to recognise a repeated signal.
pub const RECENT_POSITIONS_MAX: usize = 1_024;
/// Ephemeral events that wait for one access read.
pub const EPHEMERAL_WAITING_MAX: usize = 256;
/// Milliseconds between two refreshes of the ledger cursor from which a loss is made good.
pub const CURSOR_REFRESH_MS: u64 = 30_000;
/// First and largest delay in milliseconds before a failed publish or read is tried again.
pub const RETRY_DELAY_MS: (u64, u64) = (50, 5_000);
/// Unsent bytes per connection (`HOLDFAST_SEND_QUEUE_BYTES`).
pub const SEND_QUEUE_BYTES_DEFAULT: usize = 4_194_304;
/// Unsent frames per connection.
pub const SEND_QUEUE_FRAMES_MAX: usize = 4_096;
/// Bytes kept free for control frames (OK, CLOSED, EOSE, AUTH, NOTICE, COUNT) in every send queue.
pub const CONTROL_RESERVE_BYTES: usize = 65_536;
/// Milliseconds without any byte taken by a peer whose queue is not empty, after which its connection is closed.
pub const SEND_STALL_MS: u64 = 30_000;
/// Messages of one connection that are not yet dealt with; the reader pauses beyond it.
pub const MESSAGES_IN_FLIGHT_MAX: usize = 64;
/// Largest set that a sync serves (AR-INFO-2, AR-INFO-5; `HOLDFAST_SYNC_MAX_EVENTS`). The same number bounds the artifacts that
/// one sync holds before EOSE and that wait to be read after it.
pub const SYNC_MAX_EVENTS_DEFAULT: usize = 4_096;
/// Sync snapshots open at once in one process; further syncs wait for a place.
pub const SYNC_SNAPSHOTS_MAX: usize = 16;
/// Milliseconds one sync snapshot stays open at most (`HOLDFAST_SYNC_SNAPSHOT_BUDGET_MS`).
pub const SYNC_SNAPSHOT_BUDGET_MS_DEFAULT: u64 = 30_000;
/// Milliseconds from the opening of a sync's snapshot to EOSE.
pub const SYNC_DELIVERY_BUDGET_MS: u64 = 120_000;
/// Bytes of initial sets that one process reads ahead of their readers.
pub const SYNC_SPOOL_BYTES_MAX: usize = 67_108_864;
/// Rows of one page of an initial set.
pub const SYNC_PAGE_ROWS_MAX: u32 = 256;
/// Artifacts of one head read.
pub const SYNC_HEADS_MAX: usize = 64;
/// Syncs that share one head read.
pub const SYNC_HEADS_SHARED_MAX: usize = 1_024;
/// Artifacts held or dirty over all syncs of one process, beyond which new syncs are refused; about 32 bytes each.
pub const SYNC_WAITING_MAX: usize = 1_000_000;
/// Milliseconds between two sweeps of the ledger (`HOLDFAST_SWEEP_INTERVAL_MS`).
pub const SWEEP_INTERVAL_MS_DEFAULT: u64 = 2_000;
/// Members of one channel; a roster that lists them all still fits into one frame.
pub const CHANNEL_MEMBERS_MAX: usize = 6_000;
/// Bytes that one member takes in a serialised 39002: a `p` tag with key and the longest role.
const ROSTER_ENTRY_BYTES_MAX: usize = 86;
/// Bytes of a serialised 39002 beside its members, the frame around it included.
const ROSTER_REST_BYTES_MAX: usize = 4_096;
/// Bytes of a channel name.
pub const CHANNEL_NAME_BYTES_MAX: usize = 256;
/// Bytes of a channel's about, topic or purpose.
pub const CHANNEL_TEXT_BYTES_MAX: usize = 4_096;
/// Milliseconds a connection of the workspace profile may stay without a key (`--auth-timeout`).
pub const AUTH_TIMEOUT_MS_DEFAULT: u64 = 10_000;
/// TCP connections of one process; more are answered 503.
pub const CONNECTIONS_MAX: usize = 10_000;
/// Milliseconds between pings.
pub const PING_INTERVAL_MS: u64 = 30_000;
/// Pings without an answer after which a connection is closed.
pub const PONGS_MISSED_MAX: u32 = 3;

/// First and largest delay in milliseconds before a client syncs again after a failure (AR-SYNC-7e).
pub const CLIENT_BACKOFF_MS: (u64, u64) = (250, 60_000);
/// Milliseconds a client lets the relay say nothing between REQ and EOSE, unless told otherwise.
pub const CLIENT_SILENCE_MS: u64 = 30_000;
/// Failures in a row after which a client that wants a set once gives up.
pub const CLIENT_ONCE_TRIES: u32 = 4;

const _: () = {
    assert!(CONTENT_BYTES_MAX < FRAME_BYTES_MAX);
    assert!(FRAME_BYTES_MAX <= BODY_BYTES_MAX);
    assert!(PAGE_BYTES_MAX + FRAME_BYTES_MAX + CONTROL_RESERVE_BYTES < SEND_QUEUE_BYTES_DEFAULT);
    assert!(ARTIFACT_PAGE_DEFAULT <= ARTIFACT_PAGE_MAX);
    assert!(ARTIFACT_HEAD_PAGE_DEFAULT <= ARTIFACT_PAGE_MAX);
    assert!(ARTIFACT_TAGS_MAX <= EVENT_TAGS_MAX);
    assert!(ARTIFACT_TAG_VALUE_BYTES_MAX < ARTIFACT_TAG_BYTES_MAX);
    assert!(ARTIFACT_TITLE_BYTES_MAX < ARTIFACT_TAG_VALUE_BYTES_MAX);
    assert!(LIVE_BATCH_MAX <= HELD_POSITIONS_MAX);
    assert!(
        CHANNEL_MEMBERS_MAX * ROSTER_ENTRY_BYTES_MAX + ROSTER_REST_BYTES_MAX <= FRAME_BYTES_MAX
    );
    assert!((PAGE_ROWS_MAX as usize) < SEND_QUEUE_FRAMES_MAX);
    assert!((SYNC_PAGE_ROWS_MAX as usize) < SEND_QUEUE_FRAMES_MAX);
    assert!(SYNC_HEADS_MAX < SEND_QUEUE_FRAMES_MAX);
    assert!(PAGE_BYTES_MAX + FRAME_BYTES_MAX <= SYNC_SPOOL_BYTES_MAX);
    assert!(SYNC_SNAPSHOT_BUDGET_MS_DEFAULT <= SYNC_DELIVERY_BUDGET_MS);
    assert!(SWEEP_INTERVAL_MS_DEFAULT < CURSOR_REFRESH_MS);
};
