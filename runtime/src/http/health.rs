//! What orchestrators ask: does the process run, and can it serve. Neither depends on the Host.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

use super::answer::json;
use super::app::App;

/// How long the store may take to show that it works.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Status {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
}

/// `GET /_liveness`.
pub(super) async fn liveness() -> Response {
    let status = Status {
        status: "alive",
        store: None,
    };
    json(StatusCode::OK, &status)
}

/// `GET /_readiness`.
pub(super) async fn readiness(State(app): State<Arc<App>>) -> Response {
    let unready = |status, store| json(StatusCode::SERVICE_UNAVAILABLE, &Status { status, store });
    if app.is_stopping() {
        return unready("shutting_down", None);
    }
    match tokio::time::timeout(CHECK_TIMEOUT, app.store.health()).await {
        Ok(Ok(())) => {
            let status = Status {
                status: "ready",
                store: None,
            };
            json(StatusCode::OK, &status)
        }
        Ok(Err(problem)) => unready("not_ready", Some(problem)),
        Err(_) => unready("not_ready", Some("the store does not answer".to_owned())),
    }
}
