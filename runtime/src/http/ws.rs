//! One WebSocket: the handshake, the reader that hands messages to the driver in the order they came, the pings, and a close that
//! the peer gets to see. What a message means is decided in the node; what is said to the peer comes through its link.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::stream::{FuturesOrdered, SplitSink, SplitStream};
use futures::{FutureExt, StreamExt};
use holdfast_core::limits::{FRAME_BYTES_MAX, PONGS_MISSED_MAX};
use holdfast_core::node::{CloseReason, ConnId};
use holdfast_core::nostr::host::BoundHost;
use holdfast_core::nostr::{ClientMessage, FrameProblem, RelayFrame};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::answer::with_type;
use super::app::App;
use super::server::{Connection, Socket};
use crate::links::{Link, WriteEnd, run_writer};
use crate::node::ports::BoxFuture;
use crate::random;

/// Bytes of the read buffer, and bytes that are gathered before the socket is written to. Ten thousand idle connections have
/// both, so they are one page each. The library keeps what a larger message made them grow to, at most a frame each.
const BUFFER_BYTES: usize = 4_096;
/// How long the rest of what a peer sends is read and dropped after the close frame: a socket closed with unread bytes is
/// reset, and the peer may then lose the last frames.
const LINGER: Duration = Duration::from_secs(2);

type Sink = SplitSink<WebSocketStream<Socket>, Message>;
type Stream = SplitStream<WebSocketStream<Socket>>;

/// Answers a handshake and serves the connection in a task of its own.
pub(super) fn upgrade(app: Arc<App>, bound: BoundHost, mut request: Request) -> Response {
    if app.is_stopping() {
        let text = "relay restarting".to_owned();
        return with_type("text/plain", StatusCode::SERVICE_UNAVAILABLE, text);
    }
    let response = match create_response_with_body(&request, Body::empty) {
        Ok(response) => response,
        Err(error) => return refuse_handshake(&error),
    };
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let connection = request.extensions_mut().remove::<Connection>();
    let (Some(upgrade), Some(connection)) = (upgrade, connection) else {
        let text = "this connection cannot be upgraded".to_owned();
        return with_type("text/plain", StatusCode::BAD_REQUEST, text);
    };
    tokio::spawn(async move {
        match upgrade
            .await
            .map(|upgraded| upgraded.downcast::<TokioIo<Socket>>())
        {
            Ok(Ok(parts)) => {
                let config = WebSocketConfig::default()
                    .read_buffer_size(BUFFER_BYTES)
                    .write_buffer_size(BUFFER_BYTES)
                    .max_write_buffer_size(BUFFER_BYTES + 2 * FRAME_BYTES_MAX)
                    .max_message_size(Some(FRAME_BYTES_MAX))
                    .max_frame_size(Some(FRAME_BYTES_MAX));
                let socket = WebSocketStream::from_partially_read(
                    parts.io.into_inner(),
                    parts.read_buf.to_vec(),
                    Role::Server,
                    Some(config),
                )
                .await;
                serve(&app, bound, socket, &connection).await;
            }
            Ok(Err(_)) => tracing::error!("an upgraded connection is not one of this server"),
            Err(error) => tracing::debug!(%error, "the peer left during the handshake"),
        }
        drop(connection);
    });
    response
}

fn refuse_handshake(error: &Error) -> Response {
    let is_version = matches!(
        error,
        Error::Protocol(ProtocolError::MissingSecWebSocketVersionHeader)
    );
    let status = if is_version {
        StatusCode::UPGRADE_REQUIRED
    } else {
        StatusCode::BAD_REQUEST
    };
    let mut response = with_type("text/plain", status, error.to_string());
    let version = HeaderValue::from_static("13");
    response
        .headers_mut()
        .insert(header::SEC_WEBSOCKET_VERSION, version);
    response
}

/// Announces the connection, serves it, and announces its end whatever happened.
async fn serve(
    app: &App,
    bound: BoundHost,
    socket: WebSocketStream<Socket>,
    connection: &Connection,
) {
    let challenge = match random::challenge() {
        Ok(challenge) => challenge,
        Err(error) => {
            tracing::error!(%error, "no random bytes, a connection is dropped");
            return;
        }
    };
    let conn = app.driver.name_connection();
    let link = app.links.open(conn);
    app.driver
        .connected(conn, bound.community, bound.relay, challenge)
        .await;
    let served = AssertUnwindSafe(converse(app, conn, &link, socket, connection))
        .catch_unwind()
        .await;
    app.links.forget(conn);
    app.driver.disconnected(conn).await;
    match served {
        Ok(Some(socket)) => linger(socket).await,
        Ok(None) => {}
        Err(_) => tracing::error!(?conn, "the task of a connection panicked"),
    }
}

/// Reads and writes until one side ends. Gives the socket back if a close frame was sent and the peer may still be sending.
async fn converse(
    app: &App,
    conn: ConnId,
    link: &Link,
    socket: WebSocketStream<Socket>,
    connection: &Connection,
) -> Option<WebSocketStream<Socket>> {
    let (mut sink, mut stream): (Sink, Stream) = socket.split();
    let driver = &app.driver;
    let end = {
        let stall = app.settings.stall;
        let mut reader = Box::pin(Reader::new(app, conn, link).run(&mut stream));
        let mut writer = Box::pin(run_writer(
            &mut sink,
            link,
            &connection.meter,
            stall,
            conn,
            driver,
        ));
        tokio::select! {
            biased;
            end = &mut writer => Some(end),
            end = &mut reader => match end {
                ReadEnd::Gone => None,
                ReadEnd::Refused { code, reason, notice } => {
                    if let Some(text) = notice {
                        link.send_own(RelayFrame::Notice { text });
                    }
                    link.close(code, reason);
                    Some(writer.await)
                }
            },
            () = driver.ended() => {
                let (code, reason) = CloseReason::Restarting.code_and_text();
                link.close(code, reason);
                Some(writer.await)
            }
        }
    };
    match end {
        Some(WriteEnd::Closed) => stream.reunite(sink).ok(),
        Some(WriteEnd::Stalled | WriteEnd::Failed) | None => None,
    }
}

/// Says that no more is sent, then reads and drops what the peer still sends.
async fn linger(mut socket: WebSocketStream<Socket>) {
    let raw = socket.get_mut();
    let mut dropped = [0; 512];
    let rest = async {
        raw.shutdown().await?;
        while raw.read(&mut dropped).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whether the peer left, failed or is still sending: the connection ends here.
    let _ = tokio::time::timeout(LINGER, rest).await;
}

/// Why nothing more is read.
enum ReadEnd {
    /// The peer closed or is lost.
    Gone,
    /// The peer broke the protocol: close with this.
    Refused {
        code: u16,
        reason: &'static str,
        notice: Option<String>,
    },
}

type Checked = Result<ClientMessage, FrameProblem>;

/// The reading half of a connection.
struct Reader<'a> {
    app: &'a App,
    conn: ConnId,
    link: &'a Link,
    /// Messages read and not yet handed in, in the order they came; some wait for a signature check.
    checks: FuturesOrdered<BoxFuture<Checked>>,
    /// Leave to hand in one more message, not yet used.
    has_credit: bool,
    pings_unanswered: u32,
}

impl<'a> Reader<'a> {
    fn new(app: &'a App, conn: ConnId, link: &'a Link) -> Reader<'a> {
        Reader {
            app,
            conn,
            link,
            checks: FuturesOrdered::new(),
            has_credit: false,
            pings_unanswered: 0,
        }
    }

    async fn run(mut self, stream: &mut Stream) -> ReadEnd {
        let interval = self.app.settings.ping_interval;
        let mut pings = tokio::time::interval_at(Instant::now() + interval, interval);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                Some(message) = self.checks.next(), if !self.checks.is_empty() => {
                    self.app.driver.message(self.conn, message).await;
                }
                () = self.link.credited(), if !self.has_credit => self.has_credit = true,
                next = stream.next(), if self.has_credit => {
                    if let Some(end) = self.take(next).await {
                        return end;
                    }
                }
                // While nothing may be read, an answer cannot be seen, and the peer is not to blame.
                _ = pings.tick(), if self.has_credit => {
                    if self.pings_unanswered >= PONGS_MISSED_MAX {
                        tracing::debug!(conn = ?self.conn, "no answer to pings");
                        return ReadEnd::Gone;
                    }
                    self.pings_unanswered += 1;
                    self.link.ping();
                }
            }
        }
    }

    /// Deals with what the socket gave; says so if it was the last.
    async fn take(&mut self, next: Option<Result<Message, Error>>) -> Option<ReadEnd> {
        let message = match next.unwrap_or(Err(Error::ConnectionClosed)) {
            Ok(message) => message,
            Err(error) => return Some(end_of(error)),
        };
        let parsed = match &message {
            Message::Text(text) => ClientMessage::parse(text),
            Message::Binary(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => ClientMessage::parse(text),
                Err(_) => Err(FrameProblem::Notice {
                    text: "invalid message: a frame must be UTF-8".to_owned(),
                }),
            },
            Message::Pong(_) => {
                self.pings_unanswered = 0;
                return None;
            }
            Message::Ping(_) | Message::Close(_) | Message::Frame(_) => return None,
        };
        self.has_credit = false;
        match parsed {
            Ok(ClientMessage::Event(event)) => self.check(event, ClientMessage::Event),
            Ok(ClientMessage::Auth(event)) => self.check(event, ClientMessage::Auth),
            other if self.checks.is_empty() => self.app.driver.message(self.conn, other).await,
            other => self.checks.push_back(Box::pin(std::future::ready(other))),
        }
        None
    }

    /// Puts an event behind the messages before it, to be handed in once it is checked.
    fn check(
        &mut self,
        event: Box<holdfast_core::nostr::Event>,
        message: fn(Box<holdfast_core::nostr::Event>) -> ClientMessage,
    ) {
        let pool = self.app.verify.clone();
        self.checks.push_back(Box::pin(async move {
            pool.verify(event)
                .await
                .map(message)
                .map_err(|(event, error)| FrameProblem::OkFalse {
                    id: event.id,
                    reason: format!("invalid: {error}"),
                })
        }));
    }
}

/// What an error of the socket means for the connection.
fn end_of(error: Error) -> ReadEnd {
    let refused = |code, reason| ReadEnd::Refused {
        code,
        reason,
        notice: None,
    };
    match error {
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => ReadEnd::Refused {
            code: 1009,
            reason: "frame too large",
            notice: Some(format!(
                "error: frame too large ({size} bytes, limit {max_size})"
            )),
        },
        Error::Utf8(_) => refused(1007, "text must be UTF-8"),
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => ReadEnd::Gone,
        Error::Protocol(ProtocolError::NonZeroReservedBits) => {
            refused(1002, "reserved bit set, no extension was negotiated")
        }
        Error::Protocol(_) => refused(1002, "protocol error"),
        _ => ReadEnd::Gone,
    }
}
