//! What the client commands share: where the relay is, who asks, and one HTTP request to it.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{Method, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_core::ids::UnixSeconds;
use holdfast_core::nostr::kinds::HTTP_AUTH;
use holdfast_core::nostr::url::Scheme;
use holdfast_core::nostr::{Draft, SecretKey, WebUrl};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;

use super::exit::{Exit, Failure};
use super::files;
use crate::random;

/// Bytes of an answer: a full page of the largest events.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// Arguments of every client command.
#[derive(clap::Args)]
pub(super) struct ClientArgs {
    /// The relay
    #[arg(
        long,
        env = "HOLDFAST_RELAY",
        value_name = "URL",
        default_value = "ws://127.0.0.1:7447"
    )]
    relay: String,
    /// File with the secret key that signs
    #[arg(long, env = "HOLDFAST_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Prints JSON lines, as in a pipe
    #[arg(long)]
    json: bool,
    /// Milliseconds to wait for the relay
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    timeout_ms: u64,
}

/// A relay to talk to.
pub(super) struct Client {
    relay: WebUrl,
    /// Signs events and requests.
    pub(super) key: Option<SecretKey>,
    /// Print JSON, not text for people.
    pub(super) json: bool,
    timeout: Duration,
}

/// What the relay answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: String,
}

impl ClientArgs {
    /// Reads the key and checks the URL.
    ///
    /// # Errors
    /// A [`Failure`] that names the argument.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let relay: WebUrl = self
            .relay
            .parse()
            .map_err(|error| Failure::usage(format_args!("--relay {}: {error}", self.relay)))?;
        if matches!(relay.scheme(), Scheme::Wss | Scheme::Https) {
            let text = "--relay: this version speaks ws:// and http:// only, not TLS";
            return Err(Failure::usage(text));
        }
        Ok(Client {
            relay,
            key: self.key_file.as_deref().map(files::read_key).transpose()?,
            json: self.json || !io::stdout().is_terminal(),
            timeout: Duration::from_millis(self.timeout_ms),
        })
    }
}

impl Client {
    /// Sends `body` to `path` of the relay, signed if there is a key (NIP-98), and waits for the answer.
    ///
    /// # Errors
    /// [`Exit::Unreachable`] if the relay does not answer in time.
    pub(super) fn post(&self, path: &str, body: String) -> Result<Answer, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Exit::Refused, error))?;
        let sent = async { tokio::time::timeout(self.timeout, self.send(path, body)).await };
        match runtime.block_on(sent) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => Err(self.unreachable(&"no answer in time")),
        }
    }

    async fn send(&self, path: &str, body: String) -> Result<Answer, SendError> {
        let url = self.relay.http(path);
        // The authority leaves the scheme's own port out.
        let authority = url.authority();
        let address = match authority.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => authority.clone(),
            _ => format!("{authority}:80"),
        };
        let stream = TcpStream::connect(address).await?;
        let (mut requests, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let mut request = hyper::Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, authorisation(key, &url, &body)?);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let answer = requests.send_request(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await?.to_bytes();
        connection.abort();
        Ok(Answer {
            status,
            body: String::from_utf8(body.into())?,
        })
    }

    fn unreachable(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::unreachable(format_args!("{}: {why}", self.relay))
    }
}

type SendError = Box<dyn std::error::Error + Send + Sync>;

/// The `Authorization` header of a request. A random nonce keeps two equal requests of one second apart.
fn authorisation(key: &SecretKey, url: &WebUrl, body: &str) -> io::Result<String> {
    let hash = Sha256::digest(body.as_bytes());
    let payload: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = |name: &str, value: String| vec![name.to_owned(), value];
    let draft = Draft {
        created_at: now_secs(),
        kind: HTTP_AUTH,
        tags: vec![
            tag("u", url.to_string()),
            tag("method", "POST".to_owned()),
            tag("payload", payload),
            tag("nonce", random::challenge()?),
        ],
        content: String::new(),
    };
    let event = draft.sign(key).to_json();
    Ok(format!("Nostr {}", STANDARD.encode(event)))
}

impl Answer {
    /// The answer of a request that was served; every other one is a failure with the relay's own text.
    ///
    /// # Errors
    /// [`Exit::Conflict`] for 409, [`Exit::Unreachable`] for 5xx, else [`Exit::Refused`].
    pub(super) fn served(self) -> Result<String, Failure> {
        if self.status == StatusCode::OK {
            return Ok(self.body);
        }
        #[derive(Deserialize)]
        struct Error {
            error: String,
        }
        let text = serde_json::from_str(&self.body).map_or_else(
            |_| format!("the relay answered {}", self.status),
            |body: Error| body.error,
        );
        let exit = match self.status {
            StatusCode::CONFLICT => Exit::Conflict,
            status if status.is_server_error() => Exit::Unreachable,
            _ => Exit::Refused,
        };
        Err(Failure::new(exit, text))
    }
}

/// The wall clock.
pub(super) fn now_secs() -> UnixSeconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Prints a line; a reader that has seen enough and closed the pipe is no error.
pub(super) fn say(line: impl std::fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Splits `name=value`.
///
/// # Errors
/// If there is no `=`, or nothing before it.
pub(super) fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected name=value".to_owned()),
    }
}
