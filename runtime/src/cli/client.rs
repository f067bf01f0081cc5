//! What the client commands share: where the relay is, who asks, and one HTTP request to it.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{StatusCode, header};
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

/// The tag conditions of a filter, as arguments.
#[derive(clap::Args)]
pub(super) struct Which {
    /// A channel; may be repeated
    #[arg(long, value_name = "CHANNEL")]
    h: Vec<String>,
    /// An artifact type; asks for artifacts; may be repeated
    #[arg(long = "type", value_name = "TYPE")]
    artifact_type: Vec<String>,
    /// A tag that has to be there; more values of one name are alternatives; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    tag: Vec<(String, String)>,
}

impl Which {
    /// The conditions as keys of a filter, `#` included, with their values.
    pub(super) fn predicates(&self) -> BTreeMap<String, Vec<String>> {
        let channels = self.h.iter().map(|value| ("h", value));
        let types = self.artifact_type.iter().map(|value| ("type", value));
        let further = self.tag.iter().map(|(name, value)| (name.as_str(), value));
        let mut predicates: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in channels.chain(types).chain(further) {
            let values = predicates.entry(format!("#{name}")).or_default();
            values.push(value.clone());
        }
        predicates
    }

    /// Whether a type is among the conditions.
    pub(super) fn has_type(&self) -> bool {
        !self.artifact_type.is_empty()
    }
}

/// A relay to talk to.
pub(super) struct Client {
    pub(super) relay: WebUrl,
    /// Signs events and requests.
    pub(super) key: Option<SecretKey>,
    /// Print JSON, not text for people.
    pub(super) json: bool,
    /// How long the relay may take for one answer.
    pub(super) timeout: Duration,
}

/// What the relay answered.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: String,
}

impl ClientArgs {
    /// Milliseconds to wait for the relay.
    pub(super) fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

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
    /// Runs a command that waits for the relay.
    ///
    /// # Errors
    /// What the command says, or that there is no runtime for it.
    pub(super) fn block_on<T>(
        &self,
        command: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Exit::Refused, error))?;
        runtime.block_on(command)
    }

    /// Sends `body` to `path` of the relay, signed if there is a key (NIP-98), and waits for the answer.
    ///
    /// # Errors
    /// [`Exit::Unreachable`] if the relay does not answer in time.
    pub(super) fn post(&self, path: &str, body: String) -> Result<Answer, Failure> {
        self.block_on(self.in_time(async {
            let request =
                hyper::Request::post(path).header(header::CONTENT_TYPE, "application/json");
            let request = match &self.key {
                Some(key) => {
                    let proof = authorisation(key, &self.relay.http(path), &body)?;
                    request.header(header::AUTHORIZATION, proof)
                }
                None => request,
            };
            self.send(request, body).await
        }))
    }

    /// The relay's information document (NIP-11).
    ///
    /// # Errors
    /// [`Exit::Unreachable`] if the relay does not answer in time.
    pub(super) async fn document(&self) -> Result<Answer, Failure> {
        let request = hyper::Request::get(self.relay.target())
            .header(header::ACCEPT, "application/nostr+json");
        self.in_time(self.send(request, String::new())).await
    }

    /// Waits for something of the relay, but not for ever.
    ///
    /// # Errors
    /// [`Exit::Unreachable`] if it fails or does not come in time.
    pub(super) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, SendError>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => Err(self.unreachable(&"no answer in time")),
        }
    }

    /// A TCP connection to the relay.
    pub(super) async fn dial(&self) -> io::Result<TcpStream> {
        // The authority leaves the scheme's own port out.
        let authority = self.relay.authority();
        let address = match authority.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => authority.clone(),
            _ => format!("{authority}:80"),
        };
        TcpStream::connect(address).await
    }

    async fn send(
        &self,
        request: hyper::http::request::Builder,
        body: String,
    ) -> Result<Answer, SendError> {
        let stream = self.dial().await?;
        let (mut requests, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = tokio::spawn(connection);
        let request = request
            .header(header::HOST, self.relay.authority())
            .body(Full::new(Bytes::from(body)))?;
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

    /// That the relay cannot be reached, and why.
    pub(super) fn unreachable(&self, why: &dyn std::fmt::Display) -> Failure {
        Failure::unreachable(format_args!("{}: {why}", self.relay))
    }
}

/// Why something did not get to the relay or back.
pub(super) type SendError = Box<dyn std::error::Error + Send + Sync>;

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

/// A stranger's text on a terminal: control characters are shown, not obeyed.
pub(super) fn printable(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' => "\n  ".to_owned(),
        other if other.is_control() => other.escape_default().to_string(),
        other => other.to_string(),
    };
    text.chars().map(shown).collect()
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
