//! The forms of HTTP answers: bodies, statuses, and what the node's replies become.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use holdfast_core::accept::Rejection;
use holdfast_core::node::{HistoryRow, Reply};
use holdfast_core::nostr::EventId;
use serde::Serialize;

/// A refusal: a status and the text of `{"error": …}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Refusal {
        Refusal {
            status,
            text: text.into(),
        }
    }

    pub(super) fn bad_request(text: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, text)
    }

    pub(super) fn into_response(self) -> Response {
        let mut response = json(self.status, &Error { error: &self.text });
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Nostr");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

#[derive(Serialize)]
struct Error<'a> {
    error: &'a str,
}

#[derive(Serialize)]
struct Submitted<'a> {
    event_id: EventId,
    accepted: bool,
    message: &'a str,
}

#[derive(Serialize)]
struct Counted {
    count: u64,
}

/// What the node replied to a request; `event_id` names the event of a submission.
///
/// A refusal whose text begins with `duplicate:` is no error of the request: 200 with `accepted` false.
pub(super) fn reply(event_id: Option<EventId>, reply: Reply) -> Response {
    let submitted = |accepted, message: &str| {
        let event_id = event_id.expect("only a submission is accepted or rejected");
        json(
            StatusCode::OK,
            &Submitted {
                event_id,
                accepted,
                message,
            },
        )
    };
    match reply {
        Reply::Accepted { message } => submitted(true, &message),
        Reply::Rejected(rejection) if rejection.text().starts_with("duplicate:") => {
            submitted(false, rejection.text())
        }
        Reply::Rejected(rejection) => {
            let status = match rejection {
                Rejection::Conflict(_) => StatusCode::CONFLICT,
                Rejection::Denied(_) => StatusCode::FORBIDDEN,
                Rejection::Invalid(_) => StatusCode::BAD_REQUEST,
            };
            Refusal::new(status, rejection.text()).into_response()
        }
        Reply::Refused { denied, text } => {
            let status = if denied {
                StatusCode::FORBIDDEN
            } else {
                StatusCode::BAD_REQUEST
            };
            Refusal::new(status, text).into_response()
        }
        Reply::Rows(rows) => with_type("application/json", StatusCode::OK, joined(&rows)),
        Reply::Count(count) => json(StatusCode::OK, &Counted { count }),
        Reply::Unavailable(text) => {
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// One JSON array of the stored forms, joined and not serialised again.
fn joined(rows: &[HistoryRow]) -> String {
    let length: usize = rows.iter().map(|row| row.json.len() + 1).sum();
    let mut text = String::with_capacity(length + 2);
    text.push('[');
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&row.json);
    }
    text.push(']');
    text
}

/// A JSON answer.
pub(super) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    let body = serde_json::to_string(value).expect("strings, numbers and flags always serialise");
    with_type("application/json", status, body)
}

/// An answer of this type.
pub(super) fn with_type(content_type: &'static str, status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_joined_as_they_are_stored() {
        let row = |json: &str| HistoryRow {
            id: EventId::from_bytes([0; 32]),
            json: json.into(),
        };
        assert_eq!(joined(&[]), "[]");
        assert_eq!(joined(&[row("{\"a\":1}")]), "[{\"a\":1}]");
        assert_eq!(joined(&[row("1"), row("2"), row("3")]), "[1,2,3]");
    }

    #[test]
    fn each_class_of_refusal_has_its_status() {
        let id = Some(EventId::from_bytes([1; 32]));
        let status = |rejection| reply(id, Reply::Rejected(rejection)).status().as_u16();
        assert_eq!(status(Rejection::Conflict("conflict: x".into())), 409);
        assert_eq!(status(Rejection::Denied("restricted: x".into())), 403);
        assert_eq!(status(Rejection::Invalid("invalid: x".into())), 400);
        assert_eq!(status(Rejection::Invalid("duplicate: x".into())), 200);
    }
}
