//! What a client says: one text frame becomes one message, or the answer that is due to it.
//!
//! The frame is split once; an event in it is parsed once. What the relay does with a message is decided in `node`.
//!
//! Which answer: on the subscription where its id can be read, on the event where its id can be read, and a NOTICE only
//! where neither can.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::filter::{AnyFilter, AnyFilterError};
use super::{
    ArtifactFilter, ArtifactFilterError, ArtifactView, Event, EventId, Filter, FilterError,
    RelayFrame, json,
};
use crate::limits::{FILTERS_MAX, NAMED_CHANNELS_MAX, SUB_ID_CHARS_MAX};

/// A subscription id: 1 to [`SUB_ID_CHARS_MAX`] Unicode characters. Copies are cheap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubId(Arc<str>);

/// A subscription id as an answer repeats it: cut to [`SUB_ID_CHARS_MAX`] characters, perhaps empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubIdText(Arc<str>);

impl SubId {
    /// The id with this text; `None` if it is empty or too long.
    pub fn new(text: &str) -> Option<SubId> {
        let fits = !text.is_empty() && json::cut(text, SUB_ID_CHARS_MAX).len() == text.len();
        fits.then(|| SubId(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl SubIdText {
    /// `text`, cut.
    pub fn new(text: &str) -> SubIdText {
        SubIdText(json::cut(text, SUB_ID_CHARS_MAX).into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SubId> for SubIdText {
    fn from(sub: SubId) -> SubIdText {
        SubIdText(sub.0)
    }
}

/// One client message. Events in it are well formed; their ids and signatures are not checked yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientMessage {
    /// Publishes an event.
    Event(Box<Event>),
    /// Opens or replaces a subscription with 1 to [`FILTERS_MAX`] filters.
    Req {
        /// The subscription.
        sub: SubId,
        /// Its filters; at most [`NAMED_CHANNELS_MAX`] `#h` values over all of them.
        filters: Vec<Filter>,
    },
    /// Opens or replaces a subscription whose only filter has the key `artifact` (AR-SYNC-REQ-5).
    ArtifactReq {
        /// The subscription.
        sub: SubId,
        /// The filter, whose view is current, or what is wrong with it.
        filter: Result<ArtifactFilter, ArtifactFilterError>,
    },
    /// Counts the events that match any of the filters (NIP-45).
    Count {
        /// The name of the count.
        sub: SubId,
        /// The filters, bounded as in a REQ.
        filters: Vec<Filter>,
    },
    /// Ends a subscription.
    Close {
        /// The subscription.
        sub: SubId,
    },
    /// Offers a proof of identity (NIP-42).
    Auth(Box<Event>),
}

/// The answer due to a frame that is no client message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FrameProblem {
    /// CLOSED on the subscription that the frame names.
    Closed {
        /// The id, cut.
        sub: SubIdText,
        /// The reason with its prefix.
        reason: String,
    },
    /// OK false on the event that the frame carries.
    OkFalse {
        /// The id the event claims.
        id: EventId,
        /// The reason with its prefix.
        reason: String,
    },
    /// NOTICE, as the frame names neither.
    Notice {
        /// The whole text.
        text: String,
    },
}

impl FrameProblem {
    /// The answer as a frame.
    pub fn into_frame(self) -> RelayFrame {
        match self {
            FrameProblem::Closed { sub, reason } => RelayFrame::Closed {
                sub,
                message: reason,
            },
            FrameProblem::OkFalse { id, reason } => RelayFrame::Ok {
                id,
                accepted: false,
                message: reason,
            },
            FrameProblem::Notice { text } => RelayFrame::Notice { text },
        }
    }

    fn notice(why: impl fmt::Display) -> FrameProblem {
        FrameProblem::Notice {
            text: format!("invalid message: {why}"),
        }
    }

    fn closed(sub: &SubId, prefix: &str, why: impl fmt::Display) -> FrameProblem {
        FrameProblem::Closed {
            sub: sub.clone().into(),
            reason: format!("{prefix}: {why}"),
        }
    }
}

impl ClientMessage {
    /// Reads one text frame.
    ///
    /// # Errors
    /// The answer that is due instead. Its length has a bound that does not depend on the frame's.
    pub fn parse(text: &str) -> Result<ClientMessage, FrameProblem> {
        let frame = Frame::read(text)?;
        match frame.verb.as_str() {
            "EVENT" => Ok(ClientMessage::Event(frame.event()?)),
            "AUTH" => Ok(ClientMessage::Auth(frame.event()?)),
            "REQ" | "COUNT" => frame.request(),
            "CLOSE" => {
                let sub = frame.sub()?;
                match frame.parts {
                    2 => Ok(ClientMessage::Close { sub }),
                    _ => Err(FrameProblem::closed(
                        &sub,
                        "invalid",
                        "CLOSE takes one sub_id and nothing else",
                    )),
                }
            }
            other => Err(FrameProblem::notice(format_args!(
                "unknown message type: {}",
                json::echo(other)
            ))),
        }
    }
}

/// `#h` values over all filters, which a request may have at most [`NAMED_CHANNELS_MAX`] of.
pub fn named_channels(filters: &[Filter]) -> usize {
    filters
        .iter()
        .filter_map(|filter| filter.tags.get("h"))
        .map(|values| values.len())
        .sum()
}

/// Parts of a frame that are kept: the verb, the subscription id, the filters that are allowed, and one more.
const PARTS_KEPT_MAX: usize = 2 + FILTERS_MAX + 1;

/// A frame, split but not read.
struct Frame<'a> {
    verb: String,
    /// What follows the verb, at most [`PARTS_KEPT_MAX`] less one.
    rest: Vec<&'a RawValue>,
    /// Parts of the frame, the verb included.
    parts: usize,
}

impl<'a> Frame<'a> {
    fn read(text: &'a str) -> Result<Frame<'a>, FrameProblem> {
        let split: Split<'a> = serde_json::from_str(text).map_err(|error| {
            if error.is_data() {
                FrameProblem::notice("expected JSON array")
            } else {
                FrameProblem::notice(format_args!("JSON parse error: {}", json::reason(&error)))
            }
        })?;
        let mut kept = split.kept.into_iter();
        let verb = kept
            .next()
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .ok_or_else(|| FrameProblem::notice("the first element must be the message type"))?;
        Ok(Frame {
            verb,
            rest: kept.collect(),
            parts: split.parts,
        })
    }

    /// The one event of an EVENT or AUTH.
    fn event(&self) -> Result<Box<Event>, FrameProblem> {
        let Some(raw) = self.rest.first() else {
            return Err(FrameProblem::notice(format_args!(
                "{} requires an event",
                self.verb
            )));
        };
        let why = if self.parts == 2 {
            match Event::from_json(raw.get()) {
                Ok(event) => return Ok(Box::new(event)),
                Err(error) => format!("invalid event: {error}"),
            }
        } else {
            format!("{} takes one event and nothing else", self.verb)
        };
        Err(match claimed_id(raw.get()) {
            Some(id) => FrameProblem::OkFalse {
                id,
                reason: format!("invalid: {why}"),
            },
            None => FrameProblem::notice(why),
        })
    }

    /// The subscription id of a REQ, COUNT or CLOSE.
    fn sub(&self) -> Result<SubId, FrameProblem> {
        let text: String = self
            .rest
            .first()
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .ok_or_else(|| {
                FrameProblem::notice(format_args!("{} requires a sub_id string", self.verb))
            })?;
        SubId::new(&text).ok_or_else(|| {
            let why = if text.is_empty() {
                "must not be empty".to_owned()
            } else {
                format!("exceeds maximum length of {SUB_ID_CHARS_MAX} characters")
            };
            FrameProblem::Closed {
                sub: SubIdText::new(&text),
                reason: format!("invalid: {} sub_id {why}", self.verb),
            }
        })
    }

    /// A REQ or COUNT.
    fn request(&self) -> Result<ClientMessage, FrameProblem> {
        let sub = self.sub()?;
        let given = self.parts - 2;
        let (mut filters, mut artifact, mut problem) = (Vec::new(), None, None);
        for raw in &self.rest[1..] {
            match AnyFilter::from_json(raw.get()) {
                Ok(AnyFilter::Plain(filter)) => filters.push(filter),
                Ok(AnyFilter::Artifact(filter)) => artifact = Some(Ok(filter)),
                Err(AnyFilterError::Artifact(error)) => artifact = Some(Err(error)),
                Err(AnyFilterError::Plain(error)) => problem = problem.or(Some(error)),
            }
        }
        if let Some(artifact) = artifact {
            return self.artifact_request(sub, artifact, given);
        }
        if given == 0 {
            return Err(FrameProblem::closed(
                &sub,
                "invalid",
                format_args!("{} requires a filter", self.verb),
            ));
        }
        if given > FILTERS_MAX {
            let why = format_args!(
                "{} contains {given} filters, maximum is {FILTERS_MAX}",
                self.verb
            );
            return Err(FrameProblem::closed(&sub, "invalid", why));
        }
        if let Some(error) = problem {
            return Err(FrameProblem::closed(&sub, "invalid", error));
        }
        if named_channels(&filters) > NAMED_CHANNELS_MAX {
            return Err(FrameProblem::closed(
                &sub,
                "restricted",
                "too many explicit channels",
            ));
        }
        Ok(match self.verb.as_str() {
            "COUNT" => ClientMessage::Count { sub, filters },
            _ => ClientMessage::Req { sub, filters },
        })
    }

    /// A REQ or COUNT with an artifact filter among its `given` filters.
    fn artifact_request(
        &self,
        sub: SubId,
        filter: Result<ArtifactFilter, ArtifactFilterError>,
        given: usize,
    ) -> Result<ClientMessage, FrameProblem> {
        if self.verb == "COUNT" {
            return Err(FrameProblem::closed(&sub, "invalid", FilterError::Artifact));
        }
        if given != 1 {
            return Err(FrameProblem::closed(
                &sub,
                "error: filter",
                ArtifactFilterError::NotAlone,
            ));
        }
        match filter {
            Ok(ArtifactFilter {
                view: ArtifactView::History | ArtifactView::Head,
                ..
            }) => {
                let why = "history and head have no REQ form";
                Err(FrameProblem::closed(&sub, "error: filter", why))
            }
            filter => Ok(ClientMessage::ArtifactReq { sub, filter }),
        }
    }
}

/// The id that a refused event claims, if it claims exactly one.
fn claimed_id(text: &str) -> Option<EventId> {
    let entries = json::object(text).ok()?;
    let mut ids = entries.iter().filter(|(key, _)| key == "id");
    match (ids.next(), ids.next()) {
        (Some((_, raw)), None) => serde_json::from_str(raw.get()).ok(),
        _ => None,
    }
}

/// The parts of a frame, of which the first [`PARTS_KEPT_MAX`] are kept.
struct Split<'a> {
    kept: Vec<&'a RawValue>,
    parts: usize,
}

impl<'de> Deserialize<'de> for Split<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Split<'de>, D::Error> {
        struct SplitVisitor;

        impl<'de> Visitor<'de> for SplitVisitor {
            type Value = Split<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Split<'de>, A::Error> {
                let mut split = Split {
                    kept: Vec::new(),
                    parts: 0,
                };
                while split.kept.len() < PARTS_KEPT_MAX {
                    let Some(raw) = seq.next_element()? else {
                        return Ok(split);
                    };
                    split.kept.push(raw);
                    split.parts += 1;
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    split.parts += 1;
                }
                Ok(split)
            }
        }

        deserializer.deserialize_seq(SplitVisitor)
    }
}

impl Serialize for SubId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Serialize for SubIdText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
