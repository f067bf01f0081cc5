//! What the replica hears, what it wants done, and why an attempt failed. Values only; the transitions are in `mod`.

use std::fmt;
use std::sync::Arc;

use crate::client::SyncCapability;
use crate::ids::ArtifactId;
use crate::nostr::{ArtifactFilter, Event, EventError, RelayFrame, SubId};

/// What the user wants of the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The set once: REQ, EOSE, CLOSE (AR-SYNC-ONE-1). Changes after the cut are not seen; a writer meets them through `prev`
    /// (AR-SYNC-ONE-3).
    Once,
    /// The set, and every change of it until told to stop.
    Follow,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The user asks. A sync that runs is ended and a new one begun, so that the answer has every change accepted before the
    /// request; a wait between attempts is not cut short.
    Start {
        /// What for.
        mode: Mode,
        /// Any random value: the delay after a failure of this attempt is drawn from it.
        jitter: u64,
    },
    /// The user asks for nothing more.
    Stop,
    /// The connection that [`Effect::Connect`] asked for is there, its key authenticated if there is one.
    Connected {
        /// What the relay's information document says, read for this connection.
        sync: Option<SyncCapability>,
    },
    /// The connection is lost, or the one that was asked for could not be made.
    Disconnected,
    /// A frame about a subscription.
    Heard(SyncFrame),
    /// A text that is no relay frame, or an event that is not its author's: an entry of this sync may be lost in it.
    Unreadable,
    /// The time of [`Replica::next_wakeup`](super::Replica::next_wakeup) has come.
    Woken {
        /// Any random value, as in `Start`.
        jitter: u64,
    },
}

/// A frame about a subscription, read. Who drives the replica has verified the event's id and signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SyncFrame {
    /// EVENT.
    Event {
        /// The subscription.
        sub: SubId,
        /// The event.
        event: Arc<Event>,
    },
    /// EOSE.
    Eose {
        /// The subscription.
        sub: SubId,
    },
    /// CLOSED.
    Closed {
        /// The subscription, as the relay writes it.
        sub: String,
        /// The reason with its prefix.
        message: String,
    },
}

impl SyncFrame {
    /// The part of a relay frame that concerns subscriptions; `None` for OK, NOTICE, AUTH and COUNT.
    ///
    /// # Errors
    /// [`EventError::Malformed`] if the frame carries an event that cannot be read.
    pub fn of(frame: RelayFrame) -> Result<Option<SyncFrame>, EventError> {
        Ok(match frame {
            RelayFrame::Event { sub, json } => Some(SyncFrame::Event {
                sub,
                event: Arc::new(Event::from_json(&json)?),
            }),
            RelayFrame::Eose { sub } => Some(SyncFrame::Eose { sub }),
            RelayFrame::Closed { sub, message } => Some(SyncFrame::Closed {
                sub: sub.as_str().to_owned(),
                message,
            }),
            RelayFrame::Ok { .. }
            | RelayFrame::Notice { .. }
            | RelayFrame::Auth { .. }
            | RelayFrame::Count { .. } => None,
        })
    }

    /// The subscription.
    pub fn sub(&self) -> &str {
        match self {
            SyncFrame::Event { sub, .. } | SyncFrame::Eose { sub } => sub.as_str(),
            SyncFrame::Closed { sub, .. } => sub,
        }
    }
}

/// What must be done, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Make a connection and answer with `Connected` or `Disconnected`. Asked for only while there is none.
    Connect,
    /// Drop the connection, and report nothing more of it.
    HangUp,
    /// Send REQ.
    Req {
        /// An id that was never used before (H10).
        sub: SubId,
        /// The filter.
        filter: Arc<ArtifactFilter>,
    },
    /// Send CLOSE.
    Close {
        /// The subscription.
        sub: SubId,
    },
    /// The local set is a new one, complete at one cut, and exact (AR-SYNC-7a).
    Replaced,
    /// An artifact of the local set has this head (AR-SYNC-7c).
    Upserted {
        /// The artifact.
        artifact: ArtifactId,
        /// Its head.
        head: Arc<Event>,
    },
    /// An artifact left the local set.
    Removed {
        /// The artifact.
        artifact: ArtifactId,
    },
    /// An attempt failed, before or after its EOSE. The local set is kept as it was.
    Failed(Failure),
    /// The local set may differ from the relay's from here on. Follows the `Failed` that made it so.
    Stale,
    /// The next attempt begins then; [`Replica::next_wakeup`](super::Replica::next_wakeup) says the same.
    RetryAt {
        /// Monotonic milliseconds.
        at_mono_ms: u64,
    },
    /// Nothing more happens until the next `Start`.
    Done(Outcome),
    /// Something worth counting.
    Note(Note),
}

impl Effect {
    /// The text of the frame to send, for `Req` and `Close`.
    pub fn frame_text(&self) -> Option<String> {
        let quoted = |sub: &SubId| serde_json::Value::from(sub.as_str());
        match self {
            Effect::Req { sub, filter } => {
                Some(format!(r#"["REQ",{},{}]"#, quoted(sub), filter.to_json()))
            }
            Effect::Close { sub } => Some(format!(r#"["CLOSE",{}]"#, quoted(sub))),
            _ => None,
        }
    }
}

/// How a request of the user ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The set is there, as [`Mode::Once`] asked.
    Complete,
    /// [`Mode::Once`] was given up. Nothing follows from it about the set, least of all that it is empty (AR-SYNC-8b).
    GaveUp(Failure),
    /// The user said so.
    Stopped,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// CLOSED `resync:`; the text that follows (AR-SYNC-REQ-25).
    Resync(String),
    /// CLOSED `restricted:`; the text that follows.
    Restricted(String),
    /// CLOSED `error:`; the text that follows. Any other prefix counts as this one, and the whole message is the text (H16).
    Error(String),
    /// The connection was lost or could not be made (AR-SYNC-5j).
    Disconnected,
    /// The relay said nothing for as long as the configuration lets it.
    Silent,
    /// The relay does not offer sync (AR-SYNC-REQ-4).
    Unsupported,
    /// The relay broke the protocol, so that the set cannot be relied on.
    Breach(Breach),
}

/// How a relay broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breach {
    /// A frame or event that cannot be read, or that nobody signed.
    Unreadable,
    /// An event that is neither a head nor a removal.
    Kind,
    /// A head or removal without exactly one `d` that is an artifact id.
    NoArtifact,
    /// A removal before EOSE, where only heads of the cut may stand (AR-SYNC-REQ-21).
    EarlyRemoval,
    /// More artifacts than the relay itself says a sync may have (AR-INFO-5).
    TooMany,
}

impl Failure {
    /// What a CLOSED message says.
    pub fn of_message(message: &str) -> Failure {
        let (prefix, text) = message.split_once(':').unwrap_or(("", message));
        let text = text.trim_start().to_owned();
        match prefix {
            "resync" => Failure::Resync(text),
            "restricted" => Failure::Restricted(text),
            "error" => Failure::Error(text),
            _ => Failure::Error(message.to_owned()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Resync(text) => write!(f, "resync: {text}"),
            Failure::Restricted(text) => write!(f, "restricted: {text}"),
            Failure::Error(text) => write!(f, "error: {text}"),
            Failure::Disconnected => f.write_str("the connection is lost"),
            Failure::Silent => f.write_str("the relay says nothing"),
            Failure::Unsupported => f.write_str("the relay does not offer sync"),
            Failure::Breach(breach) => write!(f, "the relay broke the protocol: {breach}"),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Breach::Unreadable => "an unreadable frame or event",
            Breach::Kind => "an event that is no artifact",
            Breach::NoArtifact => "an artifact without its id",
            Breach::EarlyRemoval => "a removal before EOSE",
            Breach::TooMany => "more artifacts than it says a sync has",
        })
    }
}

/// Inputs that change nothing, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// A frame of a subscription that is not the open one (H10).
    UnknownSub,
    /// EOSE after EOSE.
    RepeatedEose,
    /// A head that the set has already (AR-SYNC-4c).
    SameHead,
    /// A removal, or a head that does not belong to the set, of an artifact that is not in it.
    NothingToRemove,
    /// Woken before the time.
    EarlyWake,
    /// A start while an attempt waits for its time or for its connection: only the mode is taken over.
    AlreadyTrying,
    /// A stop, or an unreadable frame, while nothing is going on.
    NothingRuns,
    /// A connection or its end that nobody asked about.
    UnaskedLink,
}

/// When the replica wants [`Input::Woken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wakeup {
    /// Monotonic milliseconds.
    pub at_mono_ms: u64,
    /// What for.
    pub reason: WakeReason,
}

/// Why the replica wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeReason {
    /// The delay after a failure ends.
    Retry,
    /// The relay may not be silent for longer before EOSE.
    Silence,
    /// The periodic new sync is due (AR-SYNC-5p).
    Refresh,
}
