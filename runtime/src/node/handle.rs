//! The way into the driver for adapters. Every call waits for room and none is refused, so no input can be lost while the driver
//! runs; after its end nothing has an effect.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_core::ids::CommunityId;
use holdfast_core::node::{ConnId, Input, Reply, Request, TicketId};
use holdfast_core::nostr::{ClientMessage, FrameProblem, PubKey, WebUrl};
use tokio::sync::{mpsc, oneshot};

use crate::links::Tally;

/// What adapters put into the driver's inbox.
#[derive(Debug)]
pub(super) enum Item {
    /// An input of a connection.
    Input(Input),
    /// An HTTP request and where its reply goes.
    Request {
        ticket: TicketId,
        community: CommunityId,
        keys: BTreeSet<PubKey>,
        request: Request,
        reply: oneshot::Sender<Reply>,
    },
    /// Stop: close the connections, then end when nothing is in flight or the grace time is over.
    Stop { grace_ms: u64 },
}

/// The driver has ended; the request was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the relay has stopped")]
pub struct Stopped;

/// A cheap copy speaks to the same driver.
#[derive(Clone, Debug)]
pub struct DriverHandle {
    inbox: mpsc::Sender<Item>,
    names: Arc<Names>,
}

/// Names given out so far.
#[derive(Debug, Default)]
struct Names {
    conn: AtomicU64,
    ticket: AtomicU64,
}

impl DriverHandle {
    pub(super) fn new(inbox: mpsc::Sender<Item>) -> DriverHandle {
        DriverHandle {
            inbox,
            names: Arc::default(),
        }
    }

    /// A name for a new connection, never given out before.
    pub fn name_connection(&self) -> ConnId {
        ConnId(self.names.conn.fetch_add(1, Ordering::Relaxed))
    }

    /// A connection was accepted. Its link must be open: the first frame is sent at once.
    ///
    /// `relay_url` is what its AUTH events must name, `challenge` 64 random hex characters.
    pub async fn connected(
        &self,
        conn: ConnId,
        community: CommunityId,
        relay_url: WebUrl,
        challenge: String,
    ) {
        self.input(Input::Connected {
            conn,
            community,
            relay_url,
            challenge,
        })
        .await;
    }

    /// A message arrived; event ids and signatures are checked.
    pub async fn message(&self, conn: ConnId, message: Result<ClientMessage, FrameProblem>) {
        self.input(Input::Message { conn, message }).await;
    }

    /// A connection is gone; the last input of it.
    pub async fn disconnected(&self, conn: ConnId) {
        self.input(Input::Disconnected { conn }).await;
    }

    /// Frames left for the peer.
    pub async fn drained(&self, conn: ConnId, left: Tally) {
        self.input(Input::Drained {
            conn,
            bytes: left.bytes,
            frames: left.frames,
        })
        .await;
    }

    /// Answers an HTTP request. Dropping the future leaves the request to its end; a submission is decided in any case.
    ///
    /// # Errors
    /// [`Stopped`] if the driver ended before the answer.
    pub async fn request(
        &self,
        community: CommunityId,
        keys: BTreeSet<PubKey>,
        request: Request,
    ) -> Result<Reply, Stopped> {
        let (reply, answer) = oneshot::channel();
        let ticket = TicketId(self.names.ticket.fetch_add(1, Ordering::Relaxed));
        let item = Item::Request {
            ticket,
            community,
            keys,
            request,
            reply,
        };
        self.inbox.send(item).await.map_err(|_| Stopped)?;
        answer.await.map_err(|_| Stopped)
    }

    /// Asks the driver to close every connection and to end when nothing is in flight, at the latest after `grace_ms`.
    pub async fn stop(&self, grace_ms: u64) {
        // An error says that the driver has ended, which is what was asked for.
        let _ = self.inbox.send(Item::Stop { grace_ms }).await;
    }

    /// Waits until the driver has ended. A connection that was on its way when a stop was complete learns it only here.
    pub async fn ended(&self) {
        self.inbox.closed().await;
    }

    async fn input(&self, input: Input) {
        // An error says that the driver has ended: the node's state is gone, and with it all that this input could change.
        let _ = self.inbox.send(Item::Input(input)).await;
    }
}
