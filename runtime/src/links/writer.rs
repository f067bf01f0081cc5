//! The writer of one connection: empties its queue into the socket, reports what left, and notices a peer that takes nothing.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{Sink, SinkExt};
use holdfast_core::node::ConnId;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{Link, Outgoing, Tally};
use crate::node::DriverHandle;

/// Bytes fed to the socket before it is flushed and the frames are reported. Small, as what was fed can no longer be purged;
/// large enough that short frames share a system call.
const BATCH_BYTES: usize = 16_384;

/// When the peer of a connection last took a byte; the socket's own write calls keep it.
#[derive(Debug)]
pub struct ByteMeter {
    opened: Instant,
    last_taken_ms: AtomicU64,
}

impl Default for ByteMeter {
    fn default() -> ByteMeter {
        ByteMeter {
            opened: Instant::now(),
            last_taken_ms: AtomicU64::new(0),
        }
    }
}

impl ByteMeter {
    /// Bytes were taken at this moment.
    pub fn tick(&self) {
        let ms = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_taken_ms.store(ms, Ordering::Relaxed);
    }

    fn last_taken(&self) -> Instant {
        self.opened + Duration::from_millis(self.last_taken_ms.load(Ordering::Relaxed))
    }
}

/// How a writer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteEnd {
    /// It sent a close frame.
    Closed,
    /// The peer took no byte for the stall time.
    Stalled,
    /// The socket failed.
    Failed,
}

/// Sends what the link holds until a close frame is out or the peer is lost.
///
/// Frames are reported as drained after the flush that follows them. `stall` is the time without a byte taken, while something
/// waits, after which the peer is given up.
pub async fn run_writer<S>(
    sink: &mut S,
    link: &Link,
    meter: &ByteMeter,
    stall: Duration,
    conn: ConnId,
    driver: &DriverHandle,
) -> WriteEnd
where
    S: Sink<Message, Error = Error> + Unpin,
{
    loop {
        let mut counted = Tally::default();
        let batch = unless_stalled(meter, stall, send_batch(sink, link, &mut counted)).await;
        if counted != Tally::default() {
            driver.drained(conn, counted).await;
        }
        match batch {
            None => return WriteEnd::Stalled,
            Some(Err(_)) => return WriteEnd::Failed,
            Some(Ok(Batch::Close)) => return WriteEnd::Closed,
            Some(Ok(Batch::Some)) => {}
            Some(Ok(Batch::Empty)) => link.filled().await,
        }
    }
}

/// What a batch held.
enum Batch {
    Empty,
    Some,
    Close,
}

async fn send_batch<S>(sink: &mut S, link: &Link, counted: &mut Tally) -> Result<Batch, Error>
where
    S: Sink<Message, Error = Error> + Unpin,
{
    let (mut fed, mut batch) = (Tally::default(), Batch::Empty);
    while fed.bytes < BATCH_BYTES {
        let Some(next) = link.take() else { break };
        batch = Batch::Some;
        match next {
            Outgoing::Counted(frame) => {
                sink.feed(Message::text(frame.to_text())).await?;
                fed.add(&frame);
            }
            Outgoing::Own(frame) => sink.feed(Message::text(frame.to_text())).await?,
            Outgoing::Ping => sink.feed(Message::Ping(Default::default())).await?,
            Outgoing::Close { code, reason } => {
                let frame = CloseFrame {
                    code: code.into(),
                    reason: reason.into(),
                };
                sink.feed(Message::Close(Some(frame))).await?;
                batch = Batch::Close;
                break;
            }
        }
    }
    if !matches!(batch, Batch::Empty) {
        sink.flush().await?;
        *counted = fed;
    }
    Ok(batch)
}

/// The result of `work`, or `None` if no byte was taken for `stall` while it went on.
async fn unless_stalled<F: Future>(
    meter: &ByteMeter,
    stall: Duration,
    work: F,
) -> Option<F::Output> {
    let begun = Instant::now();
    tokio::pin!(work);
    loop {
        let deadline = begun.max(meter.last_taken()) + stall;
        tokio::select! {
            biased;
            output = &mut work => return Some(output),
            () = tokio::time::sleep_until(deadline) => {
                if begun.max(meter.last_taken()) + stall <= Instant::now() {
                    return None;
                }
            }
        }
    }
}
