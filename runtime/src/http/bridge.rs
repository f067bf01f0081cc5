//! The HTTP bridge: `POST /events`, `/query` and `/count`. One way for all three: bind the Host, read the body within its bound,
//! prove who asks (NIP-98), refuse a replay, read what is asked, and let the node answer it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use holdfast_core::accept::Profile;
use holdfast_core::ids::CommunityId;
use holdfast_core::limits::{AUTH_WINDOW_SECS, BODY_BYTES_MAX, FRAME_BYTES_MAX};
use holdfast_core::node::Request as Wanted;
use holdfast_core::nostr::host::BoundHost;
use holdfast_core::nostr::http_auth::{
    HttpAuthFailure, HttpAuthProblem, check_http_auth, credentials, read_http_auth,
};
use holdfast_core::nostr::{Event, EventId, PubKey};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use sha2::{Digest, Sha256};

use super::answer::{self, Refusal};
use super::app::App;
use super::filters::{self, Asked};
use super::host::UNMAPPED;
use crate::node::ports::Claim;

/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a NIP-98 event is remembered: its whole window on both sides of the relay's clock.
const REPLAY_SECS: u64 = 2 * AUTH_WINDOW_SECS;
/// Bytes of `["EVENT",]`, with which an event must fit into one frame.
const EVENT_FRAME_BYTES: usize = 10;

/// Standard base64, with or without padding: NIP-98's own example has none.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// `POST /events`.
pub(super) async fn events(State(app): State<Arc<App>>, request: Request) -> Response {
    let answer = async {
        let asker = Asker::admit(&app, request).await?;
        let event = read_event(&app, &asker.body).await?;
        let id = event.id;
        app.answer(asker, Some(id), Wanted::Submit(event)).await
    };
    answer.await.unwrap_or_else(Refusal::into_response)
}

/// `POST /query`.
pub(super) async fn query(State(app): State<Arc<App>>, request: Request) -> Response {
    read(&app, request, Wanted::Query, Wanted::ArtifactQuery).await
}

/// `POST /count`.
pub(super) async fn count(State(app): State<Arc<App>>, request: Request) -> Response {
    read(&app, request, Wanted::Count, Wanted::ArtifactCount).await
}

async fn read(
    app: &App,
    request: Request,
    plain: fn(Vec<holdfast_core::nostr::Filter>) -> Wanted,
    artifact: fn(holdfast_core::nostr::ArtifactFilter) -> Wanted,
) -> Response {
    let answer = async {
        let asker = Asker::admit(app, request).await?;
        let wanted = match filters::read(&asker.body).map_err(Refusal::bad_request)? {
            Asked::Plain(filters) => plain(filters),
            Asked::Artifact(filter) => artifact(filter),
        };
        app.answer(asker, None, wanted).await
    };
    answer.await.unwrap_or_else(Refusal::into_response)
}

impl App {
    async fn answer(
        &self,
        asker: Asker,
        event_id: Option<EventId>,
        wanted: Wanted,
    ) -> Result<Response, Refusal> {
        let reply = self
            .driver
            .request(asker.community, asker.keys, wanted)
            .await
            .map_err(|_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "relay restarting"))?;
        Ok(answer::reply(event_id, reply))
    }
}

/// A request whose Host is bound and whose signer is known.
struct Asker {
    community: CommunityId,
    /// The signer; empty for an anonymous request of the open profile.
    keys: BTreeSet<PubKey>,
    body: Vec<u8>,
}

impl Asker {
    async fn admit(app: &App, request: Request) -> Result<Asker, Refusal> {
        let (parts, body) = request.into_parts();
        let bound = app
            .hosts
            .bind(&parts)
            .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, UNMAPPED))?;
        let proof = named_proof(app.profile, &parts).map_err(unauthorised)?;
        let body = read_body(body).await?;
        let mut keys = BTreeSet::new();
        if let Some(proof) = proof {
            keys.insert(prove(app, &bound, &parts, &proof, &body).await?);
        }
        Ok(Asker {
            community: bound.community,
            keys,
            body,
        })
    }
}

/// The proof of identity a request carries; none for an anonymous request of the open profile.
fn named_proof(profile: Profile, parts: &Parts) -> Result<Option<Event>, HttpAuthProblem> {
    let header = parts.headers.get(header::AUTHORIZATION);
    if header.is_none() && profile == Profile::Open {
        return Ok(None);
    }
    let encoded = credentials(header.and_then(|value| value.to_str().ok()))?;
    let decoded = BASE64
        .decode(encoded)
        .map_err(|_| HttpAuthProblem::Base64)?;
    read_http_auth(&decoded).map(Some)
}

/// The key that the proof holds for, once.
async fn prove(
    app: &App,
    bound: &BoundHost,
    parts: &Parts,
    proof: &Event,
    body: &[u8],
) -> Result<PubKey, Refusal> {
    let checked = app.verify.verify(Box::new(proof.clone())).await;
    let proof = checked
        .map_err(|(_, error)| HttpAuthProblem::Failed(HttpAuthFailure::Event(error)))
        .map_err(unauthorised)?;
    let target = parts
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    let url = bound.relay.http(target);
    let now_secs = app.clock.now().wall_secs;
    let hash = Sha256::digest(body).into();
    let key = check_http_auth(&proof, parts.method.as_str(), &url, &hash, now_secs)
        .map_err(unauthorised)?;
    let claim = format!("nip98:{}:{}", bound.community, proof.id);
    match app
        .guard
        .claim(claim, now_secs, now_secs + REPLAY_SECS)
        .await
    {
        Claim::First => Ok(key),
        Claim::Seen => Err(unauthorised(
            "NIP-98: replay detected: sign a new event for each request; a nonce tag makes two of one second differ",
        )),
        Claim::Unavailable => Err(unauthorised("NIP-98: replay check unavailable")),
    }
}

fn unauthorised(text: impl std::fmt::Display) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, text.to_string())
}

/// The body, at most [`BODY_BYTES_MAX`] bytes within [`BODY_TIMEOUT`].
async fn read_body(body: Body) -> Result<Vec<u8>, Refusal> {
    let too_large = || {
        let text = format!("request body exceeds {BODY_BYTES_MAX} bytes");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text)
    };
    // What is announced as too large is not waited for.
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let body = Limited::new(body, BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes().into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refusal::bad_request("the request body could not be read")),
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "the request body took too long",
        )),
    }
}

/// The event in a body, its id and signature checked.
async fn read_event(app: &App, body: &[u8]) -> Result<Box<Event>, Refusal> {
    let invalid =
        |why: &dyn std::fmt::Display| Refusal::bad_request(format!("invalid event JSON: {why}"));
    let text = std::str::from_utf8(body).map_err(|_| invalid(&"the body is not UTF-8"))?;
    let event = Event::from_json(text).map_err(|error| invalid(&error))?;
    // What no socket could carry, no subscriber could get.
    if event.to_json().len() + EVENT_FRAME_BYTES > FRAME_BYTES_MAX {
        let text = format!("invalid: event exceeds a frame of {FRAME_BYTES_MAX} bytes");
        return Err(Refusal::bad_request(text));
    }
    let checked = app.verify.verify(Box::new(event)).await;
    checked.map_err(|(_, error)| Refusal::bad_request(format!("invalid: {error}")))
}
