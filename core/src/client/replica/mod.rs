//! The client side of a NIP-AR Sync: a local copy of one set of artifacts that is exact, or known not to be.
//!
//! What belongs here: everything between what the client hears and what it must do, over all attempts. What must not: sockets,
//! signature checks, and what a filter means (`scope`).
//!
//! Run loop of a driver: build a [`Replica`]; say [`Input::Start`]; for every thing that happens call [`Replica::step`] with the
//! time and an [`Input`]; perform the appended effects in order; then ask [`Replica::next_wakeup`] when [`Input::Woken`] is due.
//! Nothing stays queued inside; an effect that is not performed is lost. Every `Connect` gets exactly one `Connected` or
//! `Disconnected`, and a connection exactly one `Disconnected` when it ends by itself; after `HangUp` nothing more is reported of
//! it. Frames of other subscriptions of the connection may be passed in; they are noted and change nothing.
//!
//! | phase | waits for | leaves when |
//! | --- | --- | --- |
//! | Idle | `Start` | started → Linking, or Loading if there is a connection |
//! | Linking | the connection | connected → REQ, Loading; not connected, or no sync offered → failed |
//! | Loading | EOSE | EOSE → set replaced; Follow → Live, Once → CLOSE, Idle; CLOSED, disconnect, silence, breach → failed |
//! | Live | entries | CLOSED, disconnect, breach → failed; refresh due → CLOSE, REQ, Loading |
//! | Waiting | the end of the delay | woken → as a start |
//!
//! *Failed* keeps the set of the last EOSE, marks it stale and leads to Waiting, or to Idle where `Once` is given up: at once after
//! `restricted:`, which no waiting cures soon, else after the tries that the configuration allows. What a failed attempt has
//! received is discarded. `restricted:` in Follow is waited out like an error, as access may be granted again.

mod io;
mod set;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use io::{Breach, Effect, Failure, Input, Mode, Note, Outcome, SyncFrame, WakeReason, Wakeup};
pub use set::LocalSet;

use super::{Backoff, SyncCapability};
use crate::ids::Now;
use crate::limits;
use crate::nostr::{ArtifactFilter, ArtifactView, Event, SubId, kinds};
use set::Applied;

/// What a replica holds a copy of, and how patient it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    filter: Arc<ArtifactFilter>,
    sub_prefix: String,
    /// Milliseconds that the relay may say nothing between REQ and EOSE.
    pub silence_ms: u64,
    /// Milliseconds after an EOSE at which Follow syncs anew, to bound what a crash of a relay node can hide (AR-SYNC-5p).
    pub refresh_ms: Option<u64>,
    /// The delays before a new attempt.
    pub backoff: Backoff,
    /// Failures in a row after which `Once` is given up; at least 1.
    pub once_tries_max: u32,
}

/// Why a filter or a prefix makes no replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ConfigError {
    /// Only the current view can be synced (AR-SYNC-REQ-7).
    #[error("only current artifacts can be synced")]
    View,
    /// A sync names its channels (AR-SYNC-REQ-9).
    #[error("a sync needs at least one channel")]
    NoChannel,
    /// A sync has no pages (AR-SYNC-REQ-13).
    #[error("a sync takes no limit and no offset")]
    Paged,
    /// The prefix leaves no room for a number in a subscription id.
    #[error("the prefix of the subscription ids is too long")]
    Prefix,
}

/// Digits of the largest attempt number.
const ATTEMPT_DIGITS_MAX: usize = 20;

impl Config {
    /// A configuration with the default patience. Subscription ids are `sub_prefix` and a number; replicas that share a
    /// connection need different prefixes of which none continues another with digits.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(filter: ArtifactFilter, sub_prefix: &str) -> Result<Config, ConfigError> {
        if filter.view != ArtifactView::Current {
            return Err(ConfigError::View);
        }
        if !filter.predicates.contains_key("h") {
            return Err(ConfigError::NoChannel);
        }
        if filter.limit.is_some() || filter.offset.is_some() {
            return Err(ConfigError::Paged);
        }
        if sub_prefix.chars().count() + ATTEMPT_DIGITS_MAX > limits::SUB_ID_CHARS_MAX {
            return Err(ConfigError::Prefix);
        }
        let (first_ms, cap_ms) = limits::CLIENT_BACKOFF_MS;
        Ok(Config {
            filter: Arc::new(filter),
            sub_prefix: sub_prefix.to_owned(),
            silence_ms: limits::CLIENT_SILENCE_MS,
            refresh_ms: None,
            backoff: Backoff::new(first_ms, cap_ms),
            once_tries_max: limits::CLIENT_ONCE_TRIES,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Link {
    Down,
    Connecting,
    Up(Option<SyncCapability>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Linking,
    Loading {
        sub: SubId,
        max_events: usize,
        /// What this attempt has received; nobody sees it before EOSE.
        received: LocalSet,
        silent_at_ms: u64,
    },
    Live {
        sub: SubId,
        max_events: usize,
        refresh_at_ms: Option<u64>,
    },
    Waiting {
        retry_at_ms: u64,
    },
}

/// One client's copy of one set. A plain value: equal inputs give equal states and equal effects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    config: Config,
    /// The greatest monotonic time seen: an input with an older one is read as this one.
    now_ms: u64,
    next_attempt: u64,
    link: Link,
    mode: Mode,
    phase: Phase,
    /// The set of the last EOSE and what came live after it; none before the first EOSE.
    set: Option<LocalSet>,
    stale: Option<Failure>,
    failures_in_row: u32,
    /// The random value of the attempt that runs.
    jitter: u64,
}

impl Replica {
    /// A replica that has nothing and asks for nothing.
    pub fn new(config: Config) -> Replica {
        Replica {
            config,
            now_ms: 0,
            next_attempt: 1,
            link: Link::Down,
            mode: Mode::Once,
            phase: Phase::Idle,
            set: None,
            stale: None,
            failures_in_row: 0,
            jitter: 0,
        }
    }

    /// Applies one input and appends what must be done to `effects`, in order.
    pub fn step(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        self.now_ms = self.now_ms.max(now.mono_ms);
        match input {
            Input::Start { mode, jitter } => self.start(mode, jitter, effects),
            Input::Stop => self.stop(effects),
            Input::Connected { sync } => self.connected(sync, effects),
            Input::Disconnected => self.disconnected(effects),
            Input::Heard(frame) => self.heard(frame, effects),
            Input::Unreadable if self.sub().is_some() => {
                self.fail(Failure::Breach(Breach::Unreadable), effects);
            }
            Input::Unreadable => effects.push(Effect::Note(Note::NothingRuns)),
            Input::Woken { jitter } => self.woken(jitter, effects),
        }
    }

    /// When this state wants [`Input::Woken`], and why. Pure.
    pub fn next_wakeup(&self) -> Option<Wakeup> {
        let (at_mono_ms, reason) = match &self.phase {
            Phase::Waiting { retry_at_ms } => (*retry_at_ms, WakeReason::Retry),
            Phase::Loading { silent_at_ms, .. } => (*silent_at_ms, WakeReason::Silence),
            Phase::Live { refresh_at_ms, .. } => ((*refresh_at_ms)?, WakeReason::Refresh),
            Phase::Idle | Phase::Linking => return None,
        };
        Some(Wakeup { at_mono_ms, reason })
    }

    /// The local set: what was complete at the last EOSE, and the live entries since. None before the first EOSE, which is not
    /// the same as an empty set (AR-SYNC-8b).
    pub fn set(&self) -> Option<&LocalSet> {
        self.set.as_ref()
    }

    /// Whether every change that reaches the client is being applied to the local set.
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live { .. })
    }

    /// Why the local set may differ from the relay's; none while it is kept exact, was asked for once, or is being refreshed
    /// without a failure (AR-SYNC-REQ-28).
    pub fn stale(&self) -> Option<&Failure> {
        self.stale.as_ref()
    }

    /// Artifacts that the attempt under way has received, before its EOSE; for showing progress.
    pub fn received(&self) -> Option<usize> {
        match &self.phase {
            Phase::Loading { received, .. } => Some(received.len()),
            _ => None,
        }
    }

    /// Failures since the last EOSE or the last `Start` from rest.
    pub fn failures_in_row(&self) -> u32 {
        self.failures_in_row
    }

    /// What the replica holds a copy of.
    pub fn filter(&self) -> &ArtifactFilter {
        &self.config.filter
    }

    /// The open subscription.
    pub fn sub(&self) -> Option<&SubId> {
        match &self.phase {
            Phase::Loading { sub, .. } | Phase::Live { sub, .. } => Some(sub),
            Phase::Idle | Phase::Linking | Phase::Waiting { .. } => None,
        }
    }

    fn start(&mut self, mode: Mode, jitter: u64, effects: &mut Vec<Effect>) {
        self.mode = mode;
        match self.phase {
            Phase::Linking | Phase::Waiting { .. } => {
                effects.push(Effect::Note(Note::AlreadyTrying));
                return;
            }
            Phase::Idle => self.failures_in_row = 0,
            Phase::Loading { .. } | Phase::Live { .. } => self.close_sub(effects),
        }
        self.begin(jitter, effects);
    }

    fn stop(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Idle {
            effects.push(Effect::Note(Note::NothingRuns));
            return;
        }
        self.close_sub(effects);
        self.phase = Phase::Idle;
        effects.push(Effect::Done(Outcome::Stopped));
    }

    /// Begins an attempt: every attempt is a whole new sync, there is no resume (AR-SYNC-7d).
    fn begin(&mut self, jitter: u64, effects: &mut Vec<Effect>) {
        self.jitter = jitter;
        match self.link {
            Link::Up(sync) => self.request(sync, effects),
            Link::Connecting => self.phase = Phase::Linking,
            Link::Down => {
                self.link = Link::Connecting;
                self.phase = Phase::Linking;
                effects.push(Effect::Connect);
            }
        }
    }

    /// Sends REQ under an id of its own (H10), if the relay offers what is asked for.
    fn request(&mut self, sync: Option<SyncCapability>, effects: &mut Vec<Effect>) {
        let Some(sync) = sync else {
            self.fail(Failure::Unsupported, effects);
            return;
        };
        let id = format!("{}{}", self.config.sub_prefix, self.next_attempt);
        let sub = SubId::new(&id).expect("the prefix leaves room for every number");
        self.next_attempt += 1;
        effects.push(Effect::Req {
            sub: sub.clone(),
            filter: Arc::clone(&self.config.filter),
        });
        self.phase = Phase::Loading {
            sub,
            max_events: sync.max_events.get() as usize,
            received: LocalSet::default(),
            silent_at_ms: self.silent_at_ms(),
        };
    }

    fn connected(&mut self, sync: Option<SyncCapability>, effects: &mut Vec<Effect>) {
        if self.link != Link::Connecting {
            effects.push(Effect::Note(Note::UnaskedLink));
            return;
        }
        self.link = Link::Up(sync);
        if self.phase == Phase::Linking {
            self.request(sync, effects);
        }
    }

    fn disconnected(&mut self, effects: &mut Vec<Effect>) {
        if self.link == Link::Down {
            effects.push(Effect::Note(Note::UnaskedLink));
            return;
        }
        self.link = Link::Down;
        match self.phase {
            Phase::Linking | Phase::Loading { .. } | Phase::Live { .. } => {
                self.fail(Failure::Disconnected, effects);
            }
            Phase::Idle | Phase::Waiting { .. } => {}
        }
    }

    fn heard(&mut self, frame: SyncFrame, effects: &mut Vec<Effect>) {
        if self.sub().is_none_or(|sub| sub.as_str() != frame.sub()) {
            effects.push(Effect::Note(Note::UnknownSub));
            return;
        }
        match frame {
            SyncFrame::Event { event, .. } => self.entry(event, effects),
            SyncFrame::Eose { .. } => self.complete(effects),
            SyncFrame::Closed { message, .. } => {
                self.fail(Failure::of_message(&message), effects);
            }
        }
    }

    /// A head or a removal: before EOSE it goes to what the attempt has received, afterwards to the local set (AR-SYNC-7a,
    /// AR-SYNC-7c).
    fn entry(&mut self, event: Arc<Event>, effects: &mut Vec<Effect>) {
        let silent_next_ms = self.silent_at_ms();
        let filter = &self.config.filter;
        let applied = match (&mut self.phase, &mut self.set) {
            (Phase::Loading { .. }, _) if event.kind == kinds::ARTIFACT_MOVED => {
                Err(Breach::EarlyRemoval)
            }
            (
                Phase::Loading {
                    max_events,
                    received,
                    silent_at_ms,
                    ..
                },
                _,
            ) => {
                *silent_at_ms = silent_next_ms;
                received.apply(filter, *max_events, event).map(|_| None)
            }
            (Phase::Live { max_events, .. }, Some(set)) => {
                set.apply(filter, *max_events, event).map(Some)
            }
            _ => unreachable!("entries belong to an open subscription, live ones to one past EOSE"),
        };
        match applied {
            Ok(None) => {}
            Ok(Some(Applied::Stored(artifact, head))) => {
                effects.push(Effect::Upserted { artifact, head });
            }
            Ok(Some(Applied::Removed(artifact))) => effects.push(Effect::Removed { artifact }),
            Ok(Some(Applied::Same)) => effects.push(Effect::Note(Note::SameHead)),
            Ok(Some(Applied::Absent)) => effects.push(Effect::Note(Note::NothingToRemove)),
            Err(breach) => self.fail(Failure::Breach(breach), effects),
        }
    }

    /// EOSE: the one place where the local set is replaced (AR-SYNC-7a).
    fn complete(&mut self, effects: &mut Vec<Effect>) {
        let Phase::Loading {
            sub,
            max_events,
            received,
            ..
        } = &mut self.phase
        else {
            effects.push(Effect::Note(Note::RepeatedEose));
            return;
        };
        let (sub, max_events) = (sub.clone(), *max_events);
        self.set = Some(std::mem::take(received));
        self.stale = None;
        self.failures_in_row = 0;
        effects.push(Effect::Replaced);
        self.phase = match self.mode {
            Mode::Follow => Phase::Live {
                sub,
                max_events,
                refresh_at_ms: self
                    .config
                    .refresh_ms
                    .map(|after_ms| self.now_ms.saturating_add(after_ms)),
            },
            Mode::Once => {
                effects.push(Effect::Close { sub });
                effects.push(Effect::Done(Outcome::Complete));
                Phase::Idle
            }
        };
    }

    /// Ends the attempt without success. What it received is dropped with its phase (AR-SYNC-7b); the local set stays and is
    /// stale (AR-SYNC-REQ-28).
    fn fail(&mut self, failure: Failure, effects: &mut Vec<Effect>) {
        match failure {
            Failure::Resync(_)
            | Failure::Restricted(_)
            | Failure::Error(_)
            | Failure::Disconnected => {}
            Failure::Breach(_) => self.close_sub(effects),
            // Only another connection can tell anything else.
            Failure::Silent | Failure::Unsupported => {
                self.link = Link::Down;
                effects.push(Effect::HangUp);
            }
        }
        self.failures_in_row = self.failures_in_row.saturating_add(1);
        effects.push(Effect::Failed(failure.clone()));
        if self.set.is_some() && self.stale.replace(failure.clone()).is_none() {
            effects.push(Effect::Stale);
        }
        let is_final = matches!(failure, Failure::Restricted(_) | Failure::Unsupported)
            || self.failures_in_row >= self.config.once_tries_max;
        if self.mode == Mode::Once && is_final {
            self.phase = Phase::Idle;
            effects.push(Effect::Done(Outcome::GaveUp(failure)));
            return;
        }
        let delay_ms = self
            .config
            .backoff
            .delay_ms(self.failures_in_row, self.jitter);
        let retry_at_ms = self.now_ms + delay_ms;
        self.phase = Phase::Waiting { retry_at_ms };
        effects.push(Effect::RetryAt {
            at_mono_ms: retry_at_ms,
        });
    }

    fn woken(&mut self, jitter: u64, effects: &mut Vec<Effect>) {
        let due = self
            .next_wakeup()
            .filter(|wakeup| wakeup.at_mono_ms <= self.now_ms);
        match due.map(|wakeup| wakeup.reason) {
            None => effects.push(Effect::Note(Note::EarlyWake)),
            Some(WakeReason::Retry) => self.begin(jitter, effects),
            Some(WakeReason::Silence) => self.fail(Failure::Silent, effects),
            Some(WakeReason::Refresh) => {
                self.close_sub(effects);
                self.begin(jitter, effects);
            }
        }
    }

    fn silent_at_ms(&self) -> u64 {
        self.now_ms.saturating_add(self.config.silence_ms)
    }

    fn close_sub(&self, effects: &mut Vec<Effect>) {
        if let Some(sub) = self.sub() {
            effects.push(Effect::Close { sub: sub.clone() });
        }
    }
}
