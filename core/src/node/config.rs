//! What of the configuration the node uses. Values and their relations only; the defaults are the constants of `limits`.

use crate::accept::Policy;
use crate::limits;
use crate::seeded::Seeded;

/// The configuration of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Profile and relay key.
    pub policy: Policy,
    /// Milliseconds a workspace connection may stay without a key.
    pub auth_timeout_ms: u64,
    /// Unsent data bytes per connection; at least [`Config::SEND_QUEUE_BYTES_MIN`] with the default [`Bounds`].
    pub send_queue_bytes: usize,
    /// Milliseconds between two sweeps of the ledger; 0 is off.
    pub sweep_interval_ms: u64,
    /// Bounds of frames, pages and queues.
    pub bounds: Bounds,
    /// The Sync subscription.
    pub sync: SyncConfig,
    /// A seeded protocol bug; none in a relay.
    pub seeded: Seeded,
}

/// Bounds of frames, pages and queues. A relay uses the defaults; simulations draw small ones, so that every bound is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bounds {
    /// Bytes of the largest event with its frame.
    pub frame_bytes_max: usize,
    /// Rows of one history page.
    pub page_rows_max: u32,
    /// Bytes of one history page; one row is always let through.
    pub page_bytes_max: usize,
    /// Unsent data frames per connection; as many again are kept for control frames.
    pub send_queue_frames_max: usize,
    /// Bytes kept free for control frames.
    pub control_reserve_bytes: usize,
}

/// The Sync subscription (NIP-AR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncConfig {
    /// Whether sync requests are served.
    pub is_enabled: bool,
    /// Largest set, copy, and number of distinct artifacts held or dirty (AR-INFO-5, AR-INFO-6).
    pub max_events: usize,
    /// Snapshots open at once.
    pub snapshots_max: usize,
    /// Milliseconds one snapshot stays open at most (AR-SYNC-2j).
    pub snapshot_budget_ms: u64,
    /// Milliseconds from the opening of the snapshot to EOSE, a slow reader included (H14).
    pub delivery_budget_ms: u64,
    /// Rows of one page of the initial set.
    pub page_rows_max: u32,
    /// Bytes of one page of the initial set; one row is always let through.
    pub page_bytes_max: usize,
    /// Artifacts of one head read.
    pub heads_max: usize,
    /// Bytes of one head read; one artifact is always let through.
    pub heads_bytes_max: usize,
    /// Artifacts held or dirty over all syncs of the process, beyond which new syncs are refused.
    pub waiting_max: usize,
}

impl Config {
    /// Least send queue with the default bounds: one history page, or one largest event, fits.
    pub const SEND_QUEUE_BYTES_MIN: usize =
        2 * limits::FRAME_BYTES_MAX + limits::CONTROL_RESERVE_BYTES;

    /// The defaults for a policy.
    pub fn new(policy: Policy) -> Config {
        Config {
            policy,
            auth_timeout_ms: limits::AUTH_TIMEOUT_MS_DEFAULT,
            send_queue_bytes: limits::SEND_QUEUE_BYTES_DEFAULT,
            sweep_interval_ms: limits::SWEEP_INTERVAL_MS_DEFAULT,
            bounds: Bounds::default(),
            sync: SyncConfig::default(),
            seeded: Seeded::default(),
        }
    }

    /// Room that one history page may need: its byte bound, and one largest event with its frame.
    pub(super) fn page_room_bytes(&self) -> usize {
        self.bounds.frame_bytes_max + self.bounds.page_bytes_max
    }

    /// Room that one page of an initial set may need.
    pub(super) fn sync_page_room_bytes(&self) -> usize {
        self.bounds.frame_bytes_max + self.sync.page_bytes_max
    }

    /// Room that one head read may need for one sync.
    pub(super) fn heads_room_bytes(&self) -> usize {
        self.bounds.frame_bytes_max + self.sync.heads_bytes_max
    }

    /// Whether every read can ever find its room in an empty queue; a read that cannot would wait for ever.
    pub(super) fn is_consistent(&self) -> bool {
        let frames = self.bounds.send_queue_frames_max;
        let largest = self
            .page_room_bytes()
            .max(self.sync_page_room_bytes())
            .max(self.heads_room_bytes());
        largest <= self.send_queue_bytes
            && self.bounds.page_rows_max as usize <= frames
            && self.sync.page_rows_max as usize <= frames
            && self.sync.heads_max <= frames
            && self.bounds.page_rows_max >= 1
            && self.sync.page_rows_max >= 1
            && self.sync.heads_max >= 1
            && self.sync.snapshots_max >= 1
            && self.sync.max_events >= 1
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            frame_bytes_max: limits::FRAME_BYTES_MAX,
            page_rows_max: limits::PAGE_ROWS_MAX,
            page_bytes_max: limits::PAGE_BYTES_MAX,
            send_queue_frames_max: limits::SEND_QUEUE_FRAMES_MAX,
            control_reserve_bytes: limits::CONTROL_RESERVE_BYTES,
        }
    }
}

impl Default for SyncConfig {
    fn default() -> SyncConfig {
        SyncConfig {
            is_enabled: true,
            max_events: limits::SYNC_MAX_EVENTS_DEFAULT,
            snapshots_max: limits::SYNC_SNAPSHOTS_MAX,
            snapshot_budget_ms: limits::SYNC_SNAPSHOT_BUDGET_MS_DEFAULT,
            delivery_budget_ms: limits::SYNC_DELIVERY_BUDGET_MS,
            page_rows_max: limits::SYNC_PAGE_ROWS_MAX,
            page_bytes_max: limits::PAGE_BYTES_MAX,
            heads_max: limits::SYNC_HEADS_MAX,
            heads_bytes_max: limits::PAGE_BYTES_MAX,
            waiting_max: limits::SYNC_WAITING_MAX,
        }
    }
}
