//! A relay without a mind: it serves an information document and hands every WebSocket connection to the test, which says each
//! word itself. What a relay ought to say is the test's to know.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::client::within;

/// Bytes of a request's head that are read.
const HEAD_BYTES_MAX: usize = 8_192;

/// The listener.
pub struct FakeRelay {
    addr: SocketAddr,
    document: Arc<Mutex<String>>,
    sessions: mpsc::UnboundedReceiver<Session>,
    task: JoinHandle<()>,
}

/// One WebSocket connection of a client.
pub struct Session {
    socket: WebSocketStream<TcpStream>,
}

impl FakeRelay {
    /// Listens on a free port, or on this address if one is given, and offers sync of at most 100 artifacts.
    ///
    /// # Panics
    /// If it cannot listen.
    pub async fn start(at: Option<SocketAddr>) -> FakeRelay {
        let at = at.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = TcpListener::bind(at).await.expect("a port is free");
        let addr = listener.local_addr().expect("it is bound");
        let offer = json!({ "artifacts": { "sync": { "version": 1, "max_events": 100 } } });
        let document = Arc::new(Mutex::new(offer.to_string()));
        let (sender, sessions) = mpsc::unbounded_channel();
        let task = tokio::spawn(serve(listener, Arc::clone(&document), sender));
        FakeRelay {
            addr,
            document,
            sessions,
            task,
        }
    }

    /// The URL of the relay.
    pub fn url(&self) -> String {
        format!("ws://{}", self.addr)
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves this document from here on.
    ///
    /// # Panics
    /// If a thread that served one has panicked.
    pub fn set_document(&self, text: &str) {
        text.clone_into(&mut self.document.lock().expect("nobody panics with it"));
    }

    /// The next connection.
    ///
    /// # Panics
    /// If none comes.
    pub async fn accept(&mut self) -> Session {
        within("a connection", self.sessions.recv())
            .await
            .expect("the relay listens")
    }
}

impl Drop for FakeRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    listener: TcpListener,
    document: Arc<Mutex<String>>,
    sessions: mpsc::UnboundedSender<Session>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let document = document.lock().expect("nobody panics with it").clone();
        if let Some(session) = greet(stream, &document).await
            && sessions.send(session).is_err()
        {
            return;
        }
    }
}

/// Answers a request for the document, or takes up a WebSocket.
async fn greet(mut stream: TcpStream, document: &str) -> Option<Session> {
    let mut head = [0; HEAD_BYTES_MAX];
    loop {
        let seen = stream.peek(&mut head).await.ok()?;
        let text = String::from_utf8_lossy(&head[..seen]).to_lowercase();
        if seen == 0 {
            return None;
        }
        if !text.contains("\r\n\r\n") {
            continue;
        }
        if text.contains("upgrade: websocket") {
            let socket = tokio_tungstenite::accept_async(stream).await.ok()?;
            return Some(Session { socket });
        }
        let asked = text.contains("accept: application/nostr+json");
        let status = if asked {
            "200 OK"
        } else {
            "406 Not Acceptable"
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{document}",
            document.len()
        );
        stream.read_exact(&mut head[..seen]).await.ok()?;
        stream.write_all(answer.as_bytes()).await.ok()?;
        return None;
    }
}

impl Session {
    /// The next frame of the client; `None` once it has closed the connection.
    ///
    /// # Panics
    /// If nothing comes, or something that is no JSON.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            match within("a frame of the client", self.socket.next()).await {
                Some(Ok(Message::Text(text))) => {
                    return Some(serde_json::from_str(&text).expect("clients send JSON"));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// Waits for a REQ with one filter; its subscription and its filter.
    ///
    /// # Panics
    /// If another frame comes.
    pub async fn req(&mut self) -> (String, Value) {
        let frame = self.next().await.expect("the client is there");
        let parts = frame.as_array().expect("frames are arrays");
        assert!(parts.len() == 3 && parts[0] == "REQ", "{frame}");
        let sub = parts[1].as_str().expect("ids are strings").to_owned();
        (sub, parts[2].clone())
    }

    /// Says something.
    ///
    /// # Panics
    /// If the client is gone.
    pub async fn say(&mut self, frame: &Value) {
        self.say_text(&frame.to_string()).await;
    }

    /// Says something, and whether the client took it.
    pub async fn try_say(&mut self, frame: &Value) -> bool {
        let text = Message::text(frame.to_string());
        within("a send", self.socket.send(text)).await.is_ok()
    }

    /// Says a text as it is.
    ///
    /// # Panics
    /// If the client is gone.
    pub async fn say_text(&mut self, text: &str) {
        within("a send", self.socket.send(Message::text(text)))
            .await
            .expect("the client takes a frame");
    }
}
