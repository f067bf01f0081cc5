//! What all handlers share, and the routes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use holdfast_core::accept::Profile;
use holdfast_core::limits;

use super::answer::{Refusal, with_type};
use super::host::{Hosts, UNMAPPED};
use super::{bridge, health, page, ws};
use crate::links::Registry;
use crate::node::DriverHandle;
use crate::node::ports::{Clock, Guard, Store};
use crate::verify::VerifyPool;

/// Times and bounds of the HTTP side.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Most TCP connections; more are answered 503.
    pub connections_max: usize,
    /// Between two pings of a WebSocket.
    pub ping_interval: Duration,
    /// Without a byte taken by a peer for which something waits, before it is given up.
    pub stall: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            connections_max: limits::CONNECTIONS_MAX,
            ping_interval: Duration::from_millis(limits::PING_INTERVAL_MS),
            stall: Duration::from_millis(limits::SEND_STALL_MS),
        }
    }
}

/// What the handlers use.
pub struct App {
    /// Which hosts are answered.
    pub hosts: Hosts,
    /// The NIP-11 document as JSON.
    pub info: String,
    /// What an anonymous client may do.
    pub profile: Profile,
    /// Times and bounds.
    pub settings: Settings,
    /// The driver.
    pub driver: DriverHandle,
    /// The links of its connections.
    pub links: Arc<Registry>,
    /// Signature checks.
    pub verify: VerifyPool,
    /// Replay protection.
    pub guard: Arc<dyn Guard>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// For readiness only; everything else reaches the store through the driver.
    pub store: Arc<dyn Store>,
    /// The relay is about to stop.
    pub stopping: AtomicBool,
}

impl App {
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// All routes.
pub(super) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(root))
        .route("/info", get(info))
        .route("/events", post(bridge::events))
        .route("/query", post(bridge::query))
        .route("/count", post(bridge::count))
        .route("/_liveness", get(health::liveness))
        .route("/_readiness", get(health::readiness))
        .fallback(async || Refusal::new(StatusCode::NOT_FOUND, "not found").into_response())
        .method_not_allowed_fallback(async || {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed").into_response()
        })
        .layer(from_fn(cross_origin))
        .with_state(app)
}

/// Lets pages of any origin use the relay (NIP-11), and answers their preflight requests.
async fn cross_origin(request: Request, next: Next) -> Response {
    let mut response = if request.method() == Method::OPTIONS {
        with_type("text/plain", StatusCode::NO_CONTENT, String::new())
    } else {
        next.run(request).await
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let headers = response.headers_mut();
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
            (
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                "Accept, Authorization, Content-Type",
            ),
            (
                header::ACCESS_CONTROL_ALLOW_METHODS,
                "GET, HEAD, POST, OPTIONS",
            ),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

/// The address of the relay: a WebSocket, the NIP-11 document, or a page for people.
async fn root(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bound = app.hosts.bind(&parts);
    if names(&parts.headers, &header::UPGRADE, "websocket") {
        return match bound {
            Some(bound) => ws::upgrade(app, bound, Request::from_parts(parts, body)),
            None => with_type("text/plain", StatusCode::NOT_FOUND, UNMAPPED.to_owned()),
        };
    }
    let wants_document = names(&parts.headers, &header::ACCEPT, "application/nostr+json");
    if !wants_document && names(&parts.headers, &header::ACCEPT, "text/html") {
        let url = bound.map(|bound| bound.relay.to_string());
        let html = page::page(url.as_deref());
        return with_type("text/html; charset=utf-8", StatusCode::OK, html);
    }
    info(State(app)).await
}

async fn info(State(app): State<Arc<App>>) -> Response {
    with_type("application/nostr+json", StatusCode::OK, app.info.clone())
}

/// Whether a header has `word` in one of its values.
fn names(headers: &HeaderMap, header: &header::HeaderName, word: &str) -> bool {
    headers
        .get_all(header)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.to_ascii_lowercase().contains(word))
}
