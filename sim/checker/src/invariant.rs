//! The names of the invariants. What each means is said once, here and in `docs/history.md`; how it is judged is in `judges`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A named invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Invariant {
    /// The set at EOSE is the scope at one commit, each artifact once.
    Cut,
    /// That commit is not before the last change acknowledged before the REQ was received.
    Fresh,
    /// Heads of one artifact never step back.
    NeverOlder,
    /// Each change in scope after the cut was sent, or the sync ended.
    NoLoss,
    /// Frames of a sync come in the order the protocol knows.
    Order,
    /// Nothing is sent about an artifact that is in scope neither before nor after the change.
    Scope,
    /// Everything sent was readable when it was read, and no text tells what cannot be read.
    Privacy,
    /// Sets, buffers and snapshots stay within their bounds.
    Bound,
    /// A loss on a node ends every sync it can affect.
    LossResync,
    /// A change of the reader's access to a named channel ends the sync.
    AccessResync,
    /// Redacting a head in scope ends the sync; the redacted revision does not come back.
    Retire,
    /// Accepted revisions form one chain per artifact, and outcomes tell the truth about it.
    Chain,
    /// A move is its arrival, its removal and the new head, all or none.
    Atomic,
    /// Each CLOSED has a cause that the history shows.
    Cause,
    /// Replicas keep their local sets as the protocol says.
    Client,
    /// Copies that are at rest have the digest of the store's set.
    Digest,
    /// Nothing is left open for a sync that ended.
    Clean,
    /// After healing every wanted sync is served and every commit is published.
    Live,
}

impl Invariant {
    /// All of them, in the order of the reports.
    pub const ALL: [Invariant; 18] = [
        Invariant::Cut,
        Invariant::Fresh,
        Invariant::NeverOlder,
        Invariant::NoLoss,
        Invariant::Order,
        Invariant::Scope,
        Invariant::Privacy,
        Invariant::Bound,
        Invariant::LossResync,
        Invariant::AccessResync,
        Invariant::Retire,
        Invariant::Chain,
        Invariant::Atomic,
        Invariant::Cause,
        Invariant::Client,
        Invariant::Digest,
        Invariant::Clean,
        Invariant::Live,
    ];

    /// Its name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Invariant::Cut => "CUT",
            Invariant::Fresh => "FRESH",
            Invariant::NeverOlder => "NEVER-OLDER",
            Invariant::NoLoss => "NO-LOSS",
            Invariant::Order => "ORDER",
            Invariant::Scope => "SCOPE",
            Invariant::Privacy => "PRIVACY",
            Invariant::Bound => "BOUND",
            Invariant::LossResync => "LOSS->RESYNC",
            Invariant::AccessResync => "ACCESS->RESYNC",
            Invariant::Retire => "RETIRE",
            Invariant::Chain => "CHAIN",
            Invariant::Atomic => "ATOMIC",
            Invariant::Cause => "CAUSE",
            Invariant::Client => "CLIENT",
            Invariant::Digest => "DIGEST",
            Invariant::Clean => "CLEAN",
            Invariant::Live => "LIVE",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
