//! An HTTP/1.1 client for tests: one connection per request, NIP-98 signing, the relay's routes by name. It shows status,
//! headers and body bytes as they came. Expectations belong to the tests.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use holdfast_core::nostr::{Draft, Event, SecretKey, kinds};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::build::{now, tag};
use crate::client::{Endpoint, Filters, within};
use crate::frame::read_event;

/// Headers of an answer that are read.
const HEADERS_MAX: usize = 64;

/// An answer as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case, values as they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of the first header with this lowercase name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(of, _)| of == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body as text.
    ///
    /// # Panics
    /// If it is no UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("status {}: {error}: {}", self.status, self.text()))
    }

    /// The text of an error body, which must be exactly `{"error": TEXT}`.
    ///
    /// # Panics
    /// If the body is anything else.
    pub fn error(&self) -> String {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            error: String,
        }
        let body: Body = serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("status {}: {error}: {}", self.status, self.text()));
        body.error
    }

    /// The events of a `/query` answer, each in its stored form and verified.
    ///
    /// # Panics
    /// If the status is not 200 or the body is no such list.
    pub fn events(&self) -> Vec<Event> {
        assert_eq!(self.status, 200, "{}", self.text());
        let rows: Vec<&RawValue> = serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()));
        rows.into_iter().map(|row| read_event(row.get())).collect()
    }

    /// The number of a `/count` answer, which must be exactly `{"count": N}`.
    ///
    /// # Panics
    /// If the status is not 200 or the body is anything else.
    pub fn count(&self) -> u64 {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            count: u64,
        }
        assert_eq!(self.status, 200, "{}", self.text());
        let body: Body = serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()));
        body.count
    }
}

/// Sends one request and reads the whole answer. `Host` comes from the endpoint; `Content-Length` is added.
///
/// # Panics
/// If the relay does not answer with complete HTTP/1.1.
pub async fn send(
    endpoint: &Endpoint,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let mut head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n",
        endpoint.host,
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    exchange(endpoint, head.as_bytes(), body).await
}

/// Sends the bytes of a request as they are and reads the whole answer.
///
/// # Panics
/// If the relay does not answer with complete HTTP/1.1 and close the connection.
pub async fn exchange(endpoint: &Endpoint, head: &[u8], body: &[u8]) -> Answer {
    let bytes = within("an HTTP exchange", async {
        let mut tcp = TcpStream::connect(endpoint.addr)
            .await
            .expect("the relay listens");
        tcp.write_all(head).await.expect("the relay reads the head");
        // A relay may refuse a body before it has read all of it: then the answer counts and not the failed write.
        let written = tcp.write_all(body).await;
        let mut bytes = Vec::new();
        let read = tcp.read_to_end(&mut bytes).await;
        assert!(
            !bytes.is_empty(),
            "no answer: written {written:?}, read {read:?}"
        );
        bytes
    })
    .await;
    read_answer(&bytes)
}

fn read_answer(bytes: &[u8]) -> Answer {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_len) =
        response.parse(bytes).expect("the answer is HTTP/1.1")
    else {
        panic!("the head of the answer is not complete");
    };
    let headers: Vec<(String, String)> = response
        .headers
        .iter()
        .map(|header| {
            let value = std::str::from_utf8(header.value).expect("header values are UTF-8");
            (header.name.to_ascii_lowercase(), value.to_owned())
        })
        .collect();
    let answer = Answer {
        status: response.code.expect("a complete head has a status"),
        headers,
        body: bytes[head_len..].to_vec(),
    };
    assert_eq!(
        answer.header("transfer-encoding"),
        None,
        "answers have a known length"
    );
    if let Some(length) = answer.header("content-length") {
        assert_eq!(
            length,
            answer.body.len().to_string(),
            "the body has the length that was announced"
        );
    }
    answer
}

/// The value of an `Authorization` header (NIP-98) for this request. Every call signs another event.
pub fn authorization(key: &SecretKey, method: &str, url: &str, body: &[u8]) -> String {
    let payload = Sha256::digest(body)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    authorization_of(
        key,
        vec![
            tag(&["u", url]),
            tag(&["method", method]),
            tag(&["payload", &payload]),
        ],
    )
}

/// The value of an `Authorization` header with exactly these tags and a nonce.
pub fn authorization_of(key: &SecretKey, mut tags: Vec<Vec<String>>) -> String {
    static NONCE: AtomicU64 = AtomicU64::new(0);
    let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
    tags.push(tag(&["nonce", &format!("{}-{nonce}", std::process::id())]));
    let event = Draft {
        created_at: now(),
        kind: kinds::HTTP_AUTH,
        tags,
        content: String::new(),
    }
    .sign(key);
    format!("Nostr {}", STANDARD.encode(event.to_json()))
}

/// One key that calls one relay over HTTP.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The relay.
    pub endpoint: Endpoint,
    /// The key that signs.
    pub key: SecretKey,
}

impl Caller {
    /// A caller.
    pub fn new(endpoint: &Endpoint, key: &SecretKey) -> Caller {
        Caller {
            endpoint: endpoint.clone(),
            key: key.clone(),
        }
    }

    /// A signed POST of this body.
    pub async fn post(&self, path: &str, body: &str) -> Answer {
        let url = self.endpoint.http_url(path);
        let authorization = authorization(&self.key, "POST", &url, body.as_bytes());
        send(
            &self.endpoint,
            "POST",
            path,
            &[
                ("Authorization", &authorization),
                ("Content-Type", "application/json"),
            ],
            body.as_bytes(),
        )
        .await
    }

    /// Submits an event.
    pub async fn submit(&self, event: &Event) -> Answer {
        self.post("/events", &event.to_json()).await
    }

    /// `/query` with these filters.
    pub async fn query(&self, filters: &(impl Filters + ?Sized)) -> Answer {
        self.post("/query", &Value::from(filters.list()).to_string())
            .await
    }

    /// The events that `/query` returns for one filter.
    ///
    /// # Panics
    /// If the relay refuses it.
    pub async fn rows(&self, filter: Value) -> Vec<Event> {
        self.query(&filter).await.events()
    }

    /// `/count` with these filters.
    pub async fn count(&self, filters: &(impl Filters + ?Sized)) -> Answer {
        self.post("/count", &Value::from(filters.list()).to_string())
            .await
    }
}

/// The NIP-11 document.
///
/// # Panics
/// If the relay does not serve it.
pub async fn info(endpoint: &Endpoint) -> Value {
    let accept = [("Accept", "application/nostr+json")];
    let answer = send(endpoint, "GET", "/", &accept, b"").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}
