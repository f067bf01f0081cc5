//! What the relay says to the peers of its WebSocket connections: one queue per connection, filled by the driver and emptied by
//! the connection's writer. What a frame says and whether it may be queued is decided in the node; sockets are in `http`.

mod writer;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_core::limits::MESSAGES_IN_FLIGHT_MAX;
use holdfast_core::node::{CloseReason, ConnId, Generation};
use holdfast_core::nostr::RelayFrame;
use tokio::sync::{Notify, Semaphore};

pub use holdfast_core::node::{Outbound, Tally};
pub use writer::{ByteMeter, WriteEnd, run_writer};

use crate::node::ports::Links;

/// The driver's and the adapter's view of one connection.
pub struct Link {
    state: Mutex<LinkState>,
    /// Wakes the writer.
    filled: Notify,
    /// Messages that the reader may still hand in.
    credits: Semaphore,
}

#[derive(Default)]
struct LinkState {
    queue: Outbound,
    /// Frames of the adapter itself; the node does not account for them.
    own: VecDeque<RelayFrame>,
    ping_due: bool,
    close: Option<(u16, String)>,
    close_taken: bool,
}

/// What the writer sends next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A frame that the node accounts for.
    Counted(RelayFrame),
    /// A frame of the adapter.
    Own(RelayFrame),
    /// A ping.
    Ping,
    /// The end: nothing is taken after it.
    Close {
        /// WebSocket close code.
        code: u16,
        /// Its text, at most 123 bytes.
        reason: String,
    },
}

impl Default for Link {
    fn default() -> Link {
        Link {
            state: Mutex::default(),
            filled: Notify::new(),
            credits: Semaphore::new(MESSAGES_IN_FLIGHT_MAX),
        }
    }
}

impl Link {
    /// Queues a frame that the node does not account for; only for a connection that is about to be closed by its adapter.
    pub fn send_own(&self, frame: RelayFrame) {
        self.lock().own.push_back(frame);
        self.filled.notify_one();
    }

    /// Asks for a ping.
    pub fn ping(&self) {
        self.lock().ping_due = true;
        self.filled.notify_one();
    }

    /// Drops the frames that belong to a generation and closes after the others; the first call decides the reason.
    pub fn close(&self, code: u16, reason: &str) {
        let mut state = self.lock();
        state.queue.keep_control();
        state.close.get_or_insert_with(|| (code, reason.to_owned()));
        drop(state);
        self.filled.notify_one();
    }

    /// Takes what leaves next, if something waits.
    pub fn take(&self) -> Option<Outgoing> {
        let mut state = self.lock();
        if state.close_taken {
            return None;
        }
        if std::mem::take(&mut state.ping_due) {
            return Some(Outgoing::Ping);
        }
        if let Some(frame) = state.queue.pop() {
            return Some(Outgoing::Counted(frame));
        }
        if let Some(frame) = state.own.pop_front() {
            return Some(Outgoing::Own(frame));
        }
        let (code, reason) = state.close.take()?;
        state.close_taken = true;
        Some(Outgoing::Close { code, reason })
    }

    /// Waits until something may have been queued since the last call.
    pub async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Waits for leave to hand in one message, and uses it.
    pub async fn credited(&self) {
        let permit = self.credits.acquire().await;
        permit.expect("this semaphore is never closed").forget();
    }

    /// Whether the reader may hand in a message.
    pub fn has_credit(&self) -> bool {
        self.credits.available_permits() > 0
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        // Every change of the state is complete before the lock is let go, also when a panic lets it go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All connections of this process by name.
#[derive(Default)]
pub struct Registry {
    links: Mutex<HashMap<ConnId, Arc<Link>>>,
}

impl Registry {
    /// Opens the link of a new connection, before the node hears of it.
    pub fn open(&self, conn: ConnId) -> Arc<Link> {
        let link = Arc::new(Link::default());
        self.lock().insert(conn, Arc::clone(&link));
        link
    }

    /// Forgets a connection, before the node hears that it is gone.
    pub fn forget(&self, conn: ConnId) {
        self.lock().remove(&conn);
    }

    fn get(&self, conn: ConnId) -> Option<Arc<Link>> {
        self.lock().get(&conn).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ConnId, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Links for Registry {
    fn send(&self, conn: ConnId, generation: Option<Generation>, frame: RelayFrame) {
        if let Some(link) = self.get(conn) {
            link.lock().queue.push(generation, frame);
            link.filled.notify_one();
        }
    }

    fn purge(&self, conn: ConnId, generation: Generation) -> Tally {
        self.get(conn)
            .map(|link| link.lock().queue.purge(generation))
            .unwrap_or_default()
    }

    fn close(&self, conn: ConnId, reason: CloseReason) {
        if let Some(link) = self.get(conn) {
            let (code, text) = reason.code_and_text();
            link.close(code, text);
        }
    }

    fn credit(&self, conn: ConnId) {
        if let Some(link) = self.get(conn) {
            link.credits.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn notice(text: &str) -> RelayFrame {
        RelayFrame::Notice {
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_close_lets_control_frames_and_own_frames_out_and_nothing_after_it() {
        let registry = Registry::default();
        let conn = ConnId(7);
        let link = registry.open(conn);
        registry.send(conn, Some(Generation(1)), notice("data"));
        registry.send(conn, None, notice("control"));
        registry.close(conn, CloseReason::Restarting);
        registry.close(conn, CloseReason::SlowReader);
        link.send_own(notice("own"));
        assert_eq!(link.take(), Some(Outgoing::Counted(notice("control"))));
        assert_eq!(link.take(), Some(Outgoing::Own(notice("own"))));
        let close = Outgoing::Close {
            code: 1012,
            reason: "relay restarting".to_owned(),
        };
        assert_eq!(link.take(), Some(close));
        registry.send(conn, None, notice("late"));
        assert_eq!(link.take(), None);
    }

    #[test]
    fn a_connection_that_is_gone_takes_everything_and_does_nothing() {
        let registry = Registry::default();
        let conn = ConnId(1);
        registry.open(conn);
        registry.forget(conn);
        registry.send(conn, None, notice("x"));
        registry.credit(conn);
        registry.close(conn, CloseReason::SlowReader);
        assert_eq!(registry.purge(conn, Generation(1)), Tally::default());
    }

    #[test]
    fn the_reader_stops_after_its_credits_and_goes_on_with_each_new_one() {
        let registry = Registry::default();
        let link = registry.open(ConnId(1));
        for _ in 0..MESSAGES_IN_FLIGHT_MAX {
            assert!(link.credited().now_or_never().is_some());
        }
        assert!(!link.has_credit());
        assert!(link.credited().now_or_never().is_none());
        registry.credit(ConnId(1));
        assert!(link.credited().now_or_never().is_some());
        assert!(link.credited().now_or_never().is_none());
    }
}
