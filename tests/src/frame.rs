//! What a relay says on a WebSocket, read strictly. Sending, waiting and queues belong to `client`.

use holdfast_core::nostr::{Event, EventId, Verifier};
use serde::Deserialize;
use serde_json::value::RawValue;

/// One frame of the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// An event of a subscription; its id and signature hold.
    Event {
        /// The subscription.
        sub: String,
        /// The event.
        event: Event,
    },
    /// The stored events of a subscription are complete.
    Eose {
        /// The subscription.
        sub: String,
    },
    /// A subscription or count was refused or ended.
    Closed {
        /// The subscription.
        sub: String,
        /// The reason.
        message: String,
    },
    /// The answer to an EVENT or AUTH.
    Ok {
        /// The event.
        id: EventId,
        /// Whether it was accepted, and the reason.
        verdict: Verdict,
    },
    /// Text for people.
    Notice {
        /// The text.
        text: String,
    },
    /// A challenge (NIP-42).
    Auth {
        /// The challenge.
        challenge: String,
    },
    /// The answer to a COUNT (NIP-45).
    Count {
        /// The name of the count.
        sub: String,
        /// Events that match.
        count: u64,
    },
}

/// What the relay says to a submitted event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it was accepted.
    pub accepted: bool,
    /// The reason; often empty when accepted.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CountBody {
    count: u64,
}

impl Frame {
    /// Reads one frame.
    ///
    /// # Panics
    /// If the text is not exactly one of the seven frames, or an event in it is not in its stored form or not its author's.
    pub fn parse(text: &str) -> Frame {
        let parts: Vec<&RawValue> =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("no frame: {error}: {text}"));
        let name: String = field(&parts, 0, text);
        let expect_len = |len: usize| assert_eq!(parts.len(), len, "wrong length: {text}");
        match name.as_str() {
            "EVENT" => {
                expect_len(3);
                Frame::Event {
                    sub: field(&parts, 1, text),
                    event: read_event(parts[2].get()),
                }
            }
            "EOSE" => {
                expect_len(2);
                Frame::Eose {
                    sub: field(&parts, 1, text),
                }
            }
            "CLOSED" => {
                expect_len(3);
                Frame::Closed {
                    sub: field(&parts, 1, text),
                    message: field(&parts, 2, text),
                }
            }
            "OK" => {
                expect_len(4);
                Frame::Ok {
                    id: field(&parts, 1, text),
                    verdict: Verdict {
                        accepted: field(&parts, 2, text),
                        message: field(&parts, 3, text),
                    },
                }
            }
            "NOTICE" => {
                expect_len(2);
                Frame::Notice {
                    text: field(&parts, 1, text),
                }
            }
            "AUTH" => {
                expect_len(2);
                Frame::Auth {
                    challenge: field(&parts, 1, text),
                }
            }
            "COUNT" => {
                expect_len(3);
                let body: CountBody = field(&parts, 2, text);
                Frame::Count {
                    sub: field(&parts, 1, text),
                    count: body.count,
                }
            }
            _ => panic!("unknown frame: {text}"),
        }
    }

    /// The subscription or count the frame is about.
    pub fn sub(&self) -> Option<&str> {
        match self {
            Frame::Event { sub, .. }
            | Frame::Eose { sub }
            | Frame::Closed { sub, .. }
            | Frame::Count { sub, .. } => Some(sub),
            Frame::Ok { .. } | Frame::Notice { .. } | Frame::Auth { .. } => None,
        }
    }
}

/// Reads an event as a relay serves it.
///
/// # Panics
/// If the text is no event, not in the stored form, or its id or signature does not hold.
pub fn read_event(json: &str) -> Event {
    let event = Event::from_json(json).unwrap_or_else(|error| panic!("no event: {error}: {json}"));
    assert_eq!(
        event.to_json(),
        json,
        "an event is served in its stored form"
    );
    event
        .verify(&Verifier)
        .unwrap_or_else(|error| panic!("{error}: {json}"));
    event
}

fn field<'a, T: Deserialize<'a>>(parts: &[&'a RawValue], at: usize, text: &str) -> T {
    let part = parts
        .get(at)
        .unwrap_or_else(|| panic!("element {at} is missing: {text}"));
    serde_json::from_str(part.get()).unwrap_or_else(|error| panic!("element {at}: {error}: {text}"))
}
