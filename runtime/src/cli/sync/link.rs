//! One WebSocket of a client to a relay: sign-in, frames in, texts out, and finding out that it is dead.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use holdfast_core::client::replica::SyncFrame;
use holdfast_core::limits;
use holdfast_core::nostr::{
    Draft, EventId, RelayFrame, RelayFrameError, SecretKey, Verifier, kinds,
};
use tokio::net::TcpStream;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::super::client::{Client, now_secs};
use super::super::exit::{Exit, Failure};

/// How long the challenge of a relay may take that sends one. A relay that asks for no proof sends none.
const CHALLENGE_WAIT: Duration = Duration::from_secs(1);
/// Bytes of one message of a relay.
const MESSAGE_BYTES_MAX: usize = 4 * limits::FRAME_BYTES_MAX;

/// What came from the relay.
pub(super) enum Word {
    /// A frame about a subscription.
    Frame(SyncFrame),
    /// A text that is no frame, or an event that is none, or bytes.
    Unreadable,
    /// What a proof of identity must name.
    Challenge(String),
    /// The answer to an AUTH.
    Answer {
        id: EventId,
        accepted: bool,
        message: String,
    },
    /// Something that does not concern a sync.
    Other,
    /// It is time for a ping.
    Quiet,
    /// The connection has ended, or says nothing any more.
    Lost,
}

/// A connection.
pub(super) struct Link {
    socket: WebSocketStream<TcpStream>,
    pings: Interval,
    /// Something came since the last ping.
    was_heard: bool,
}

impl Link {
    /// Connects and, if there is a key and the relay asks for one, proves who asks (NIP-42).
    ///
    /// # Errors
    /// [`Exit::Unreachable`] if there is no connection in time, [`Exit::Refused`] if the relay refuses the key.
    pub(super) async fn open(client: &Client) -> Result<Link, Failure> {
        let socket = client.in_time(async {
            let tcp = client.dial().await?;
            tcp.set_nodelay(true)?;
            let config = WebSocketConfig::default()
                .max_message_size(Some(MESSAGE_BYTES_MAX))
                .max_frame_size(Some(MESSAGE_BYTES_MAX));
            let url = client.relay.web_socket().to_string();
            let upgrade = tokio_tungstenite::client_async_with_config(url, tcp, Some(config));
            Ok(upgrade.await?.0)
        });
        let between = Duration::from_millis(limits::PING_INTERVAL_MS);
        let mut pings = interval_at(Instant::now() + between, between);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut link = Link {
            socket: socket.await?,
            pings,
            was_heard: true,
        };
        if let Some(key) = &client.key {
            link.sign_in(key, client).await?;
        }
        Ok(link)
    }

    async fn sign_in(&mut self, key: &SecretKey, client: &Client) -> Result<(), Failure> {
        let lost = || client.unreachable(&"the connection is lost");
        let challenge_end = Instant::now() + CHALLENGE_WAIT;
        let challenge = loop {
            match timeout_at(challenge_end, self.next()).await {
                Ok(Word::Challenge(challenge)) => break challenge,
                Ok(Word::Lost) => return Err(lost()),
                Ok(_) => {}
                Err(_) => return Ok(()),
            }
        };
        let asked = self.answer(key, &challenge, client).await;
        let asked = asked.ok_or_else(lost)?;
        let answer_end = Instant::now() + client.timeout;
        loop {
            match timeout_at(answer_end, self.next()).await {
                Ok(Word::Answer {
                    id,
                    accepted,
                    message,
                }) if id == asked => {
                    let text = format!("the relay refuses the key: {message}");
                    return if accepted {
                        Ok(())
                    } else {
                        Err(Failure::new(Exit::Refused, text))
                    };
                }
                Ok(Word::Lost) => return Err(lost()),
                Ok(_) => {}
                Err(_) => return Err(client.unreachable(&"no answer to AUTH in time")),
            }
        }
    }

    /// Sends the proof of identity that a challenge asks for, and returns its id; `None` if the connection is lost.
    pub(super) async fn answer(
        &mut self,
        key: &SecretKey,
        challenge: &str,
        client: &Client,
    ) -> Option<EventId> {
        let relay = client.relay.web_socket().to_string();
        let tag = |name: &str, value: &str| vec![name.to_owned(), value.to_owned()];
        let event = Draft {
            created_at: now_secs(),
            kind: kinds::AUTH,
            tags: vec![tag("relay", &relay), tag("challenge", challenge)],
            content: String::new(),
        }
        .sign(key);
        let text = format!(r#"["AUTH",{}]"#, event.to_json());
        let is_sent = self.send(text, client.timeout).await;
        is_sent.then_some(event.id)
    }

    /// Sends a text; false if the connection does not take it in time.
    pub(super) async fn send(&mut self, text: String, limit: Duration) -> bool {
        self.put(Message::text(text), limit).await
    }

    /// Sends a ping; false if the connection does not take it in time, or nothing came since the one before.
    pub(super) async fn ping(&mut self, limit: Duration) -> bool {
        std::mem::take(&mut self.was_heard)
            && self.put(Message::Ping(Vec::new().into()), limit).await
    }

    /// Says goodbye and hangs up.
    pub(super) async fn close(mut self, limit: Duration) {
        // A peer that is gone needs no goodbye.
        let _ = timeout(limit, self.socket.close(None)).await;
    }

    async fn put(&mut self, message: Message, limit: Duration) -> bool {
        matches!(timeout(limit, self.socket.send(message)).await, Ok(Ok(())))
    }

    /// The next word of the relay. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> Word {
        let message = tokio::select! {
            message = self.socket.next() => message,
            _ = self.pings.tick() => return Word::Quiet,
        };
        self.was_heard = true;
        match message {
            Some(Ok(Message::Text(text))) => read(&text),
            Some(Ok(Message::Binary(_))) => Word::Unreadable,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Word::Other,
            Some(Ok(Message::Close(_)) | Err(_)) | None => Word::Lost,
        }
    }
}

fn read(text: &str) -> Word {
    match RelayFrame::parse(text) {
        Ok(RelayFrame::Auth { challenge }) => Word::Challenge(challenge),
        Ok(RelayFrame::Ok {
            id,
            accepted,
            message,
        }) => Word::Answer {
            id,
            accepted,
            message,
        },
        Ok(frame) => match SyncFrame::of(frame) {
            Ok(Some(frame)) => Word::Frame(frame),
            Ok(None) => Word::Other,
            Err(_) => Word::Unreadable,
        },
        // Another protocol's message says nothing about a subscription.
        Err(RelayFrameError::UnknownType(_)) => Word::Other,
        Err(RelayFrameError::Malformed | RelayFrameError::Elements(_)) => Word::Unreadable,
    }
}

/// Whether a frame's event, if it has one, is its author's.
pub(super) fn is_signed(frame: &SyncFrame) -> bool {
    match frame {
        SyncFrame::Event { event, .. } => event.verify(&Verifier).is_ok(),
        SyncFrame::Eose { .. } | SyncFrame::Closed { .. } => true,
    }
}
