//! What the relay says: the seven frames of NIP-01, NIP-42 and NIP-45, as text, as a length, and read again by clients. Queues do
//! not belong here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{EventId, SubId, SubIdText, json};

/// One frame to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RelayFrame {
    /// An event of a subscription.
    Event {
        /// The subscription.
        sub: SubId,
        /// The stored form of the event ([`Event::to_json`](super::Event::to_json)), shared by all who get it.
        json: Arc<str>,
    },
    /// The stored events of a subscription are complete.
    Eose {
        /// The subscription.
        sub: SubId,
    },
    /// A subscription ended or was refused.
    Closed {
        /// The subscription's id as it was given, cut.
        sub: SubIdText,
        /// The reason: one word, a colon, and text.
        message: String,
    },
    /// The answer to an EVENT or AUTH.
    Ok {
        /// The event.
        id: EventId,
        /// Whether it was accepted.
        accepted: bool,
        /// Empty, or the reason: one word, a colon, and text.
        message: String,
    },
    /// Text for people.
    Notice {
        /// The text.
        text: String,
    },
    /// What a proof of identity must name (NIP-42).
    Auth {
        /// The challenge.
        challenge: String,
    },
    /// The answer to a COUNT (NIP-45).
    Count {
        /// The name of the count.
        sub: SubId,
        /// Events that match.
        count: u64,
    },
}

/// Why a text is no relay frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RelayFrameError {
    /// The text is not one JSON array that begins with a string.
    #[error("a frame is an array that begins with its type")]
    Malformed,
    /// The type is none of the seven: the frame says nothing about a subscription.
    #[error("unknown message type: {0}")]
    UnknownType(String),
    /// The frame is of one of the seven types and has other elements than that type.
    #[error("wrong elements of {0}")]
    Elements(String),
}

impl RelayFrame {
    /// Reads one frame, for clients. Of an event only that it is JSON is checked: [`Event::from_json`](super::Event::from_json)
    /// reads the rest.
    ///
    /// # Errors
    /// [`RelayFrameError`].
    pub fn parse(text: &str) -> Result<RelayFrame, RelayFrameError> {
        let parts: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|_| RelayFrameError::Malformed)?;
        let (first, rest) = parts.split_first().ok_or(RelayFrameError::Malformed)?;
        let verb: String =
            serde_json::from_str(first.get()).map_err(|_| RelayFrameError::Malformed)?;
        match verb.as_str() {
            "EVENT" | "EOSE" | "CLOSED" | "OK" | "NOTICE" | "AUTH" | "COUNT" => {
                read_elements(&verb, rest).ok_or(RelayFrameError::Elements(verb))
            }
            other => Err(RelayFrameError::UnknownType(json::echo(other))),
        }
    }

    /// The text of the frame.
    pub fn to_text(&self) -> String {
        match self {
            // The event is JSON already, so it is joined and not serialised again.
            RelayFrame::Event { sub, json } => {
                let mut text = String::with_capacity(self.len_bytes());
                text.push_str(EVENT_OPEN);
                text.push_str(&json_text(sub));
                text.push(',');
                text.push_str(json);
                text.push(']');
                text
            }
            RelayFrame::Eose { sub } => json_text(&("EOSE", sub)),
            RelayFrame::Closed { sub, message } => json_text(&("CLOSED", sub, message)),
            RelayFrame::Ok {
                id,
                accepted,
                message,
            } => json_text(&("OK", id, accepted, message)),
            RelayFrame::Notice { text } => json_text(&("NOTICE", text)),
            RelayFrame::Auth { challenge } => json_text(&("AUTH", challenge)),
            RelayFrame::Count { sub, count } => {
                json_text(&("COUNT", sub, CountBody { count: *count }))
            }
        }
    }

    /// The exact length of [`RelayFrame::to_text`] in bytes, without building it.
    pub fn len_bytes(&self) -> usize {
        match self {
            RelayFrame::Event { sub, json } => {
                EVENT_OPEN.len() + string_len(sub.as_str()) + json.len() + ",]".len()
            }
            RelayFrame::Eose { sub } => r#"["EOSE",]"#.len() + string_len(sub.as_str()),
            RelayFrame::Closed { sub, message } => {
                r#"["CLOSED",,]"#.len() + string_len(sub.as_str()) + string_len(message)
            }
            RelayFrame::Ok {
                accepted, message, ..
            } => {
                let verdict = if *accepted { "true" } else { "false" };
                r#"["OK","",,]"#.len() + EVENT_ID_DIGITS + verdict.len() + string_len(message)
            }
            RelayFrame::Notice { text } => r#"["NOTICE",]"#.len() + string_len(text),
            RelayFrame::Auth { challenge } => r#"["AUTH",]"#.len() + string_len(challenge),
            RelayFrame::Count { sub, count } => {
                let digits = count.checked_ilog10().unwrap_or(0) as usize + 1;
                r#"["COUNT",,{"count":}]"#.len() + string_len(sub.as_str()) + digits
            }
        }
    }

    /// Whether the frame may use the reserve of a send queue: all but events.
    pub fn is_control(&self) -> bool {
        !matches!(self, RelayFrame::Event { .. })
    }
}

const EVENT_OPEN: &str = r#"["EVENT","#;
const EVENT_ID_DIGITS: usize = 64;

#[derive(Serialize, Deserialize)]
struct CountBody {
    count: u64,
}

/// The frame of one of the seven types with these elements, if they are its elements.
fn read_elements(verb: &str, elements: &[&RawValue]) -> Option<RelayFrame> {
    fn read<'a, T: Deserialize<'a>>(raw: &&'a RawValue) -> Option<T> {
        serde_json::from_str(raw.get()).ok()
    }
    let sub = |raw| SubId::new(&read::<String>(raw)?);
    Some(match (verb, elements) {
        ("EVENT", [id, event]) => RelayFrame::Event {
            sub: sub(id)?,
            json: event.get().into(),
        },
        ("EOSE", [id]) => RelayFrame::Eose { sub: sub(id)? },
        ("CLOSED", [id, message]) => RelayFrame::Closed {
            sub: SubIdText::new(&read::<String>(id)?),
            message: read(message)?,
        },
        ("OK", [id, accepted, message]) => RelayFrame::Ok {
            id: read(id)?,
            accepted: read(accepted)?,
            message: read(message)?,
        },
        ("NOTICE", [text]) => RelayFrame::Notice { text: read(text)? },
        ("AUTH", [challenge]) => RelayFrame::Auth {
            challenge: read(challenge)?,
        },
        ("COUNT", [id, body]) => RelayFrame::Count {
            sub: sub(id)?,
            count: read::<CountBody>(body)?.count,
        },
        _ => return None,
    })
}

fn json_text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("strings, integers and booleans always serialise")
}

/// Bytes of `text` as a JSON string, quotes included.
fn string_len(text: &str) -> usize {
    let escaped: usize = text
        .bytes()
        .map(|byte| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
            0x00..=0x1f => 6,
            _ => 1,
        })
        .sum();
    escaped + 2
}
