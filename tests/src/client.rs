//! A WebSocket client for tests: it signs in, publishes, subscribes, counts, and waits for what must come. It never sleeps:
//! every wait ends with a frame, with the end of the connection, or with a panic at a generous deadline. Rules and expectations
//! about what the relay answers belong to the tests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use holdfast_core::nostr::{Draft, Event, EventId, SecretKey, kinds};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::build;
pub use crate::frame::{Frame, Verdict};

/// How long any single wait may take. Long enough for a busy machine; a passing test never comes near it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Events that [`Client::accept_all`] sends before it waits for their answers.
const PUBLISHED_TOGETHER: usize = 64;

/// Where a relay listens and the Host under which it is addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The socket.
    pub addr: SocketAddr,
    /// The Host header, with a port where it is not 80.
    pub host: String,
}

impl Endpoint {
    /// A relay at a socket, addressed by the socket's own address.
    pub fn new(addr: SocketAddr) -> Endpoint {
        Endpoint {
            addr,
            host: addr.to_string(),
        }
    }

    /// The same socket under another Host.
    pub fn with_host(&self, host: &str) -> Endpoint {
        Endpoint {
            addr: self.addr,
            host: host.to_owned(),
        }
    }

    /// The URL an AUTH event names.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/", self.host)
    }

    /// The URL a NIP-98 event names for a path that begins with a slash.
    pub fn http_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }
}

/// Filters of a request: one filter, or a list of them.
pub trait Filters {
    /// The filters.
    fn list(&self) -> &[Value];
}

impl Filters for Value {
    fn list(&self) -> &[Value] {
        std::slice::from_ref(self)
    }
}

impl Filters for [Value] {
    fn list(&self) -> &[Value] {
        self
    }
}

impl<const N: usize> Filters for [Value; N] {
    fn list(&self) -> &[Value] {
        self
    }
}

/// How the stored part of a subscription ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With EOSE: the subscription is open.
    Eose,
    /// With CLOSED and this reason: it is not.
    Closed(String),
}

/// One connection. Frames that nobody has waited for yet are kept in the order in which they came.
pub struct Client {
    socket: WebSocketStream<TcpStream>,
    relay_url: String,
    challenge: String,
    inbox: VecDeque<Frame>,
    asked: u64,
}

impl Client {
    /// Connects and takes the challenge that every connection begins with.
    ///
    /// # Panics
    /// If the relay does not accept the connection, or says anything before the challenge.
    pub async fn open(endpoint: &Endpoint) -> Client {
        let tcp = within("a connection", TcpStream::connect(endpoint.addr))
            .await
            .expect("the relay listens");
        tcp.set_nodelay(true).expect("a TCP option is settable");
        let upgrade = tokio_tungstenite::client_async(endpoint.ws_url(), tcp);
        let (socket, _) = within("the upgrade", upgrade)
            .await
            .expect("the relay upgrades to WebSocket");
        let mut client = Client {
            socket,
            relay_url: endpoint.ws_url(),
            challenge: String::new(),
            inbox: VecDeque::new(),
            asked: 0,
        };
        match client.next_frame().await {
            Frame::Auth { challenge } => client.challenge = challenge,
            other => panic!("a connection begins with AUTH, got {other:?}"),
        }
        client
    }

    /// Connects and authenticates one key.
    ///
    /// # Panics
    /// If the relay refuses the key.
    pub async fn login(endpoint: &Endpoint, key: &SecretKey) -> Client {
        let mut client = Client::open(endpoint).await;
        let verdict = client.auth(key).await;
        assert!(verdict.accepted, "AUTH is refused: {}", verdict.message);
        client
    }

    /// The challenge of this connection.
    pub fn challenge(&self) -> &str {
        &self.challenge
    }

    /// Authenticates a key and returns what the relay says.
    pub async fn auth(&mut self, key: &SecretKey) -> Verdict {
        self.auth_with(key, Vec::new()).await
    }

    /// Authenticates a key with further tags on the AUTH event, such as a NIP-OA `auth` tag.
    pub async fn auth_with(&mut self, key: &SecretKey, further: Vec<Vec<String>>) -> Verdict {
        let mut tags = vec![
            build::tag(&["relay", &self.relay_url]),
            build::tag(&["challenge", &self.challenge]),
        ];
        tags.extend(further);
        let event = Draft {
            created_at: build::now(),
            kind: kinds::AUTH,
            tags,
            content: String::new(),
        }
        .sign(key);
        self.send(&json!(["AUTH", event])).await;
        self.answer(event.id).await
    }

    /// Sends a text frame as it is.
    ///
    /// # Panics
    /// If the connection does not take it.
    pub async fn send_text(&mut self, text: &str) {
        within("a send", self.socket.send(Message::text(text)))
            .await
            .expect("the connection takes a frame");
    }

    /// Sends one JSON value.
    pub async fn send(&mut self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    /// Sends an EVENT and does not wait.
    pub async fn submit(&mut self, event: &Event) {
        let text = format!(r#"["EVENT",{}]"#, event.to_json());
        self.send_text(&text).await;
    }

    /// Waits for the OK on this id.
    pub async fn answer(&mut self, id: EventId) -> Verdict {
        let frame = self
            .wait_for(
                "OK",
                |frame| matches!(frame, Frame::Ok { id: of, .. } if *of == id),
            )
            .await;
        match frame {
            Frame::Ok { verdict, .. } => verdict,
            other => unreachable!("only an OK was waited for, got {other:?}"),
        }
    }

    /// Sends an EVENT and waits for its OK.
    pub async fn publish(&mut self, event: &Event) -> Verdict {
        self.submit(event).await;
        self.answer(event.id).await
    }

    /// Publishes an event that must be accepted, and returns it.
    ///
    /// # Panics
    /// If it is refused.
    #[track_caller]
    pub fn accept(&mut self, event: Event) -> impl Future<Output = Event> {
        let caller = std::panic::Location::caller();
        async move {
            let verdict = self.publish(&event).await;
            assert!(
                verdict.accepted,
                "at {caller}: refused with {:?}: {}",
                verdict.message,
                event.to_json()
            );
            event
        }
    }

    /// Publishes many events that must all be accepted, some of them at the same time.
    ///
    /// # Panics
    /// If one is refused.
    pub async fn accept_all(&mut self, events: &[Event]) {
        for some in events.chunks(PUBLISHED_TOGETHER) {
            for event in some {
                self.submit(event).await;
            }
            for event in some {
                let verdict = self.answer(event.id).await;
                assert!(verdict.accepted, "refused with {:?}", verdict.message);
            }
        }
    }

    /// Publishes an event that must be refused, and returns the reason.
    ///
    /// # Panics
    /// If it is accepted.
    #[track_caller]
    pub fn refuse(&mut self, event: Event) -> impl Future<Output = String> {
        let caller = std::panic::Location::caller();
        async move {
            let verdict = self.publish(&event).await;
            assert!(
                !verdict.accepted,
                "at {caller}: accepted: {}",
                event.to_json()
            );
            verdict.message
        }
    }

    /// Opens a subscription and collects its stored events until EOSE or CLOSED.
    pub async fn req(&mut self, sub: &str, filters: &(impl Filters + ?Sized)) -> (Vec<Event>, End) {
        self.send(&request("REQ", sub, filters)).await;
        let mut events = Vec::new();
        loop {
            match self.next_of(sub).await {
                Frame::Event { event, .. } => events.push(event),
                Frame::Eose { .. } => return (events, End::Eose),
                Frame::Closed { message, .. } => return (events, End::Closed(message)),
                other => panic!("{other:?} answers no REQ"),
            }
        }
    }

    /// Opens a subscription that must reach EOSE, and returns its stored events; it stays open.
    ///
    /// # Panics
    /// If the relay closes it.
    pub async fn subscribe(&mut self, sub: &str, filters: &(impl Filters + ?Sized)) -> Vec<Event> {
        let (events, end) = self.req(sub, filters).await;
        assert_eq!(
            end,
            End::Eose,
            "the subscription to {:?} ended",
            filters.list()
        );
        events
    }

    /// The stored events that match, by a subscription of its own that is closed again.
    ///
    /// # Panics
    /// If the relay refuses it.
    pub async fn stored(&mut self, filters: &(impl Filters + ?Sized)) -> Vec<Event> {
        let sub = self.fresh_sub();
        let events = self.subscribe(&sub, filters).await;
        self.close(&sub).await;
        events
    }

    /// Opens a subscription that the relay must refuse without any event or EOSE, and returns the reason.
    ///
    /// # Panics
    /// If it is not refused.
    pub async fn refused_req(&mut self, filters: &(impl Filters + ?Sized)) -> String {
        let sub = self.fresh_sub();
        match self.req(&sub, filters).await {
            (events, End::Closed(message)) if events.is_empty() => message,
            other => panic!("not refused: {:?} got {other:?}", filters.list()),
        }
    }

    /// The next frame about this subscription or count: EVENT, EOSE, CLOSED or COUNT.
    pub async fn next_of(&mut self, sub: &str) -> Frame {
        self.wait_for(sub, |frame| frame.sub() == Some(sub)).await
    }

    /// The next event of an open subscription.
    ///
    /// # Panics
    /// If something else comes on the subscription.
    pub async fn next_event(&mut self, sub: &str) -> Event {
        match self.next_of(sub).await {
            Frame::Event { event, .. } => event,
            other => panic!("expected an event on {sub}, got {other:?}"),
        }
    }

    /// The reason with which the relay ends an open subscription.
    ///
    /// # Panics
    /// If something else comes on the subscription first.
    pub async fn next_closed(&mut self, sub: &str) -> String {
        match self.next_of(sub).await {
            Frame::Closed { message, .. } => message,
            other => panic!("expected CLOSED on {sub}, got {other:?}"),
        }
    }

    /// Counts.
    ///
    /// # Errors
    /// The reason of CLOSED.
    pub async fn count(&mut self, filters: &(impl Filters + ?Sized)) -> Result<u64, String> {
        let sub = self.fresh_sub();
        self.send(&request("COUNT", &sub, filters)).await;
        match self.next_of(&sub).await {
            Frame::Count { count, .. } => Ok(count),
            Frame::Closed { message, .. } => Err(message),
            other => panic!("{other:?} answers no COUNT"),
        }
    }

    /// Sends CLOSE and forgets frames of the subscription that came and were not read.
    pub async fn close(&mut self, sub: &str) {
        self.send(&json!(["CLOSE", sub])).await;
        self.inbox.retain(|frame| frame.sub() != Some(sub));
    }

    /// Frames that came and were not waited for.
    pub fn unread(&self) -> impl Iterator<Item = &Frame> {
        self.inbox.iter()
    }

    /// The next frame of any kind.
    ///
    /// # Panics
    /// If the connection ends.
    pub async fn next_frame(&mut self) -> Frame {
        if let Some(frame) = self.inbox.pop_front() {
            return frame;
        }
        self.receive()
            .await
            .expect("the connection stays open while a frame is awaited")
    }

    /// Waits until the relay ends the connection, and returns the frames that came before and were not read.
    pub async fn until_end(mut self) -> Vec<Frame> {
        while let Some(frame) = self.receive().await {
            self.inbox.push_back(frame);
        }
        self.inbox.into()
    }

    /// An id for a subscription that this connection has not used.
    pub fn fresh_sub(&mut self) -> String {
        self.asked += 1;
        format!("one-shot-{}", self.asked)
    }

    async fn wait_for(&mut self, what: &str, wanted: impl Fn(&Frame) -> bool) -> Frame {
        if let Some(at) = self.inbox.iter().position(&wanted) {
            return self.inbox.remove(at).expect("the position was just found");
        }
        loop {
            let Some(frame) = self.receive().await else {
                panic!(
                    "the connection ended while {what} was awaited; unread: {:?}",
                    self.inbox
                );
            };
            if wanted(&frame) {
                return frame;
            }
            self.inbox.push_back(frame);
        }
    }

    /// Reads one frame from the socket; `None` when the peer ended the connection.
    async fn receive(&mut self) -> Option<Frame> {
        // Pings do not put the deadline off.
        let deadline = Instant::now() + DEADLINE;
        loop {
            let message = match timeout_at(deadline, self.socket.next()).await {
                Ok(message) => message,
                Err(_) => panic!("no frame within {DEADLINE:?}; unread: {:?}", self.inbox),
            };
            match message {
                Some(Ok(Message::Text(text))) => return Some(Frame::parse(text.as_str())),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | None => return None,
                Some(Ok(other)) => panic!("a relay speaks text, got {other:?}"),
                Some(Err(Error::ConnectionClosed | Error::Io(_) | Error::Protocol(_))) => {
                    return None;
                }
                Some(Err(error)) => panic!("the connection failed: {error}"),
            }
        }
    }
}

fn request(verb: &str, sub: &str, filters: &(impl Filters + ?Sized)) -> Value {
    let mut frame = vec![json!(verb), json!(sub)];
    frame.extend(filters.list().iter().cloned());
    Value::Array(frame)
}

/// Waits for a future at most [`DEADLINE`].
///
/// # Panics
/// At the deadline.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} took longer than {DEADLINE:?}"),
    }
}
