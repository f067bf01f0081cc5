//! Goals: situations that a campaign must really have been in, one for each rule and race window. The catalogue and how a history
//! shows them; what a campaign makes of them is not decided here.

mod frames;
mod observe;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;

pub use observe::observe;

/// One goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Goal {
    /// Its name: a key of [`crate::outcome::Outcome::goals`].
    pub name: &'static str,
    /// The situation.
    pub what: &'static str,
}

macro_rules! goals {
    ($($constant:ident = $name:literal: $what:literal;)+) => {
        $(#[doc = $what] pub const $constant: &str = $name;)+

        /// Every goal, in the order of the sync rules.
        pub const ALL: &[Goal] = &[$(Goal { name: $name, what: $what }),+];
    };
}

goals! {
    // Rule 1: live before stored.
    CONFIRM_GAP_COMMIT = "confirm-gap-commit": "A change in its channels commits between the receipt of a REQ and the first statement of its snapshot.";
    BUS_LOST_WHILE_REGISTERING = "bus-lost-while-registering": "The bus is lost while a sync waits for its confirmation or its snapshot.";
    SYNC_WAITS_BUS_DOWN = "sync-waits-bus-down": "A sync is asked for while the bus is down: it waits or gets an error.";
    REGISTER_DEADLINE = "register-deadline": "No confirmation comes in time: the sync ends with an error.";
    CHANGE_HELD = "change-held": "A change arrives while the set is read, and its artifact is held.";
    HELD_TWICE = "held-twice": "One artifact changes twice while the set is read.";
    HELD_DRAINED = "held-drained": "What was held is read and sent after EOSE.";
    HELD_DURING_DRAIN = "held-during-drain": "A change arrives while what was held is being read.";
    HELD_ALREADY_IN_SNAPSHOT = "held-already-in-snapshot": "A held change is already in the snapshot.";
    HELD_OVERFLOW = "held-overflow": "More artifacts are held than max_events.";
    SLOT_WAIT = "slot-wait": "A sync waits for a snapshot place.";
    // Rule 2: one cut.
    PAGE_BORDER_CHANGE = "page-border-change": "A change commits between two pages of one set.";
    PAGE_BORDER_MOVE = "page-border-move": "A move commits between two pages of one set that it belongs to.";
    MANY_PAGES = "many-pages": "A set takes three pages or more.";
    EMPTY_SET = "empty-set": "A set is empty and ends with EOSE.";
    REQ_AFTER_OK = "req-after-ok": "A REQ is sent after the OK of a change in its channels and before anything else commits.";
    SNAPSHOT_LOST = "snapshot-lost": "A snapshot is lost while the set is read.";
    PAGE_READ_FAILED = "page-read-failed": "A page cannot be read.";
    BUDGET_OVER = "budget-over": "A set is not read or not delivered within its budget.";
    SPOOLED = "spooled": "A snapshot closes before the last event of its set has arrived.";
    RESTRICTED = "restricted": "A named channel is unreadable or does not exist.";
    // Rule 3: live changes.
    LIVE_CREATE = "live-create": "An artifact enters an open sync by its creation.";
    LIVE_UPDATE = "live-update": "An artifact of an open sync is updated and still matches.";
    LEAVING_HEAD = "leaving-head": "A head that no longer matches is sent for an artifact that was in scope.";
    ENTERED_LIVE_THEN_LEFT = "entered-live-then-left": "An artifact enters an open sync live and then stops matching.";
    LIVE_DELETE = "live-delete": "An artifact of an open sync is deleted.";
    RESTORE_ENTERS = "restore-enters": "A restored artifact enters the set of an open sync.";
    NEVER_MATCHING_SILENT = "never-matching-silent": "An artifact changes in a named channel and is in scope neither before nor after.";
    MOVE_IN = "move-in": "A move brings an artifact into an open sync.";
    MOVE_BETWEEN_NAMED = "move-between-named": "An artifact moves between two named channels of an open sync.";
    MOVE_OUT_READABLE = "move-out-readable": "An artifact of an open sync moves to an unnamed channel that the reader can read.";
    MOVE_OUT_UNREADABLE = "move-out-unreadable": "An artifact of an open sync moves to a channel that the reader cannot read.";
    MARKER_SENT = "marker-sent": "The record of a move out of the source is sent to an open sync.";
    UNREADABLE_CHANGED = "unreadable-changed": "An artifact that a reader cannot read changes while the reader has a sync open.";
    // Rule 4: heads only, never older.
    REVISIONS_SKIPPED = "revisions-skipped": "A sync sends a head and has skipped a revision before it.";
    SAME_HEAD_TWICE = "same-head-twice": "A sync sends the same head twice.";
    CHANGED_DURING_HEAD_READ = "changed-during-head-read": "An artifact changes again while its head is read.";
    LATE_SIGNAL = "late-signal": "The signal of a revision arrives after a newer one was accepted.";
    LATE_RETRY = "late-retry": "A publish that failed before is repeated after a newer head was accepted.";
    SHARED_HEAD_READ = "shared-head-read": "Several syncs share one head read.";
    HEAD_BATCH_CUT = "head-batch-cut": "More artifacts are dirty than one head read may ask for.";
    // Rule 5: no silent loss.
    BUS_LOST_WHILE_READING = "bus-lost-while-reading": "The bus is lost while a sync reads its set.";
    BUS_LOST_WHILE_LIVE = "bus-lost-while-live": "The bus is lost while a sync is live.";
    COMMIT_WHILE_BUS_LOST = "commit-while-bus-lost": "A change in the channels of an open sync commits while the bus connection of its node is broken.";
    BUS_HALF_OPEN = "bus-half-open": "A bus connection carries nothing any more without saying so.";
    LAGGED = "lagged": "A node's local queue of signals overflows.";
    UNDECODABLE = "undecodable": "A node gets a message that it cannot read.";
    LOOKUP_FAILED = "lookup-failed": "The access of a reader cannot be looked up, and the sync ends with resync.";
    STORE_CHANGED = "store-changed": "Another database answers, and the open syncs end with resync.";
    NODE_WIDE_RESYNC = "node-wide-resync": "Two or more syncs of a node end with resync for one loss.";
    PUBLISH_RETRIED = "publish-retried": "A publish fails and is repeated until it succeeds.";
    PUBLISH_RETRIED_OFTEN = "publish-retried-often": "A publish succeeds after more than three failures.";
    PUBLISH_LOST_BY_STOP = "publish-lost-by-stop": "A node stops while it still repeats a publish.";
    COMMIT_PUBLISH_CRASH = "commit-publish-crash": "A node crashes between a commit and its publish.";
    HEAD_READ_BEFORE_PUBLISH = "head-read-before-publish": "A head is read after a commit and before its publish.";
    LATE_UNKNOWN_COMMIT = "late-unknown-commit": "A commit of unknown outcome commits later.";
    UNKNOWN_NEVER_COMMITTED = "unknown-never-committed": "A commit of unknown outcome turns out to be none.";
    SETTLED = "settled": "The outcome of an unknown commit is settled and its signals are published.";
    DIRTY_OVERFLOW = "dirty-overflow": "More artifacts of a live sync are dirty than max_events.";
    // Rule 6: redaction.
    RETIRED_IN_COPY = "retired-in-copy": "The current revision of an artifact in the copy of a live sync is redacted.";
    RETIRED_WHILE_READING = "retired-while-reading": "A current revision in a named channel is redacted while the set is read.";
    OLD_REVISION_REDACTED = "old-revision-redacted": "A revision that is not current is redacted while a sync is open.";
    // Rule 7: clients.
    DROPPED_BEFORE_EOSE = "dropped-before-eose": "A connection ends after some events of a set and before EOSE.";
    STALE_KEPT = "stale-kept": "A client keeps its set as stale after an error.";
    BACKOFF_GROWN = "backoff-grown": "A client fails twice in a row and waits longer.";
    RESYNCED_CLEAN = "resynced-clean": "A client gets EOSE after a resync.";
    // Rule 8: bounds and ends.
    TOO_LARGE = "too-large": "A set is larger than max_events.";
    COPY_OUTGROWN = "copy-outgrown": "The copy of a live sync grows beyond max_events.";
    QUEUE_FULL = "queue-full": "A send queue has no room for a further data frame, and reads wait.";
    STALL_CLOSE = "stall-close": "A connection is closed because its client reads nothing.";
    CLOSED_NOT_QUEUED = "closed-not-queued": "A CLOSED finds no room, and the connection is closed instead.";
    REREQ_WHILE_READING = "rereq-while-reading": "A client repeats a subscription id while its set is read.";
    CLOSE_WHILE_READING = "close-while-reading": "A client sends CLOSE while its set is read.";
    CLOSE_DURING_HEAD_READ = "close-during-head-read": "A client sends CLOSE while a head is read for it.";
    LATE_ANSWER = "late-answer": "An answer of the store comes for a sync that has ended.";
    SIGNAL_REPEATED = "signal-repeated": "A signal names a change that is already being handled or was handled.";
    STALE_CONFIRMATION = "stale-confirmation": "A confirmation comes of an older bus connection, or of interest that nobody has any more.";
    BUSY = "busy": "A sync finds no room and ends with an error.";
    STORE_FAILED = "store-failed": "A sync ends with an error of the store.";
    MALFORMED_SYNC = "malformed-sync": "A client asks for a sync that is no valid filter.";
    // Rule 9: access.
    ACCESS_LOST = "access-lost": "A reader loses a named channel while a sync is open.";
    ACCESS_GAINED = "access-gained": "A membership of the reader in a named channel begins while a sync is open.";
    ACCESS_LOST_OF_MANY = "access-lost-of-many": "A reader loses one of several named channels.";
    ACCESS_WHILE_READING = "access-while-reading": "The access of the reader changes while the set is read.";
    VISIBILITY_CHANGED = "visibility-changed": "The visibility of a named channel changes while a sync is open.";
    CHANNEL_DELETED = "channel-deleted": "A named channel is deleted while a sync is open.";
    ROLE_CHANGED = "role-changed": "A role changes in a named channel, and the syncs stay open.";
    ARCHIVED_OPEN = "archived-open": "A named channel is archived, and the syncs stay open.";
    // Chains of revisions.
    COMPETING_EDITS = "competing-edits": "Two edits name the same prev, and one wins.";
    DUPLICATE_SUBMITTED = "duplicate-submitted": "An accepted event is submitted again.";
    UPDATE_AFTER_DELETE = "update-after-delete": "An update of a deleted artifact is refused.";
    MOVE_RACES_EDIT = "move-races-edit": "A move and an update name the same prev.";
    COMMIT_OUT_OF_ORDER = "commit-out-of-order": "Commits become visible in another order than their positions.";
    DEADLOCK_RETRIED = "deadlock-retried": "A transaction is a deadlock's victim and is tried again.";
    // Time and the sweep.
    SWEEP_FOUND = "sweep-found": "The sweep brings rows.";
    LONG_TRANSACTION = "long-transaction": "A sweep runs while a foreign transaction is open.";
    NODE_PAUSED = "node-paused": "A node with an open sync pauses.";
    CLOCK_JUMPED = "clock-jumped": "The clock of a node jumps.";
    MASS_RECONNECT = "mass-reconnect": "Three or more clients come back at once.";
}

/// Goals that a history does not show: whoever runs the nodes tells them.
pub const TOLD: &[&str] = &[
    SLOT_WAIT,
    SHARED_HEAD_READ,
    SWEEP_FOUND,
    LATE_ANSWER,
    SIGNAL_REPEATED,
    STALE_CONFIRMATION,
];

/// A counter of every goal, at 0.
pub fn none_reached() -> BTreeMap<&'static str, u64> {
    ALL.iter().map(|goal| (goal.name, 0)).collect()
}
