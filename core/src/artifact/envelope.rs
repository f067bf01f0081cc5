//! The envelope of an artifact revision: its tags, their grammar and limits, and what one event alone may say.
//!
//! Everything here is judged on the event itself. What needs the head, a channel or an anchor is judged in `accept`.

use std::str::FromStr;

use crate::ids::{ArtifactId, ChannelId, UuidError};
use crate::limits::{
    ARTIFACT_TAG_BYTES_MAX, ARTIFACT_TAG_NAME_BYTES_MAX, ARTIFACT_TAG_VALUE_BYTES_MAX,
    ARTIFACT_TAGS_MAX, ARTIFACT_TITLE_BYTES_MAX, ARTIFACT_TYPE_BYTES_MAX,
};
use crate::nostr::oa::{Attestation, KindClauses, OaError};
use crate::nostr::{Event, EventId, HexError, Tag, Verifier};

/// The tags whose meaning is the relay's; each occurs at most once, with exactly two elements (AR-ENV-18, AR-ENV-19).
pub const ENVELOPE_TAGS: [&str; 8] = ["ar", "d", "h", "type", "title", "op", "root", "prev"];

/// The one envelope version (AR-ENV-2).
const VERSION: &str = "1";

/// What a revision does to its artifact (AR-ENV-13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Begins an artifact; the only op without `prev`.
    Create,
    /// Replaces the snapshot and keeps the home.
    Update,
    /// Replaces the snapshot and changes the home.
    Move,
    /// Retires the artifact from current state; its id stays reserved.
    Delete,
    /// Makes a deleted artifact live again.
    Restore,
}

impl Op {
    /// The tag value.
    pub fn as_str(self) -> &'static str {
        match self {
            Op::Create => "create",
            Op::Update => "update",
            Op::Move => "move",
            Op::Delete => "delete",
            Op::Restore => "restore",
        }
    }
}

impl FromStr for Op {
    type Err = EnvelopeError;

    fn from_str(text: &str) -> Result<Op, EnvelopeError> {
        [Op::Create, Op::Update, Op::Move, Op::Delete, Op::Restore]
            .into_iter()
            .find(|op| op.as_str() == text)
            .ok_or(EnvelopeError::Operation)
    }
}

/// What the envelope of a revision says. Its form is checked; nothing about it is true yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The artifact (`d`).
    pub artifact: ArtifactId,
    /// The home channel (`h`).
    pub home: ChannelId,
    /// The namespaced type, at most [`ARTIFACT_TYPE_BYTES_MAX`] bytes.
    pub artifact_type: String,
    /// The display title, at most [`ARTIFACT_TITLE_BYTES_MAX`] bytes; none exactly on a deletion.
    pub title: Option<String>,
    /// What the revision does.
    pub op: Op,
    /// The conversation it is attached to.
    pub root: Option<EventId>,
    /// The revision it follows; none exactly on a creation.
    pub prev: Option<EventId>,
}

/// What is wrong with an envelope, in the words the sender gets after `invalid: `.
///
/// The variants stand in the order of the checks: of several faults the first is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum EnvelopeError {
    /// More than [`ARTIFACT_TAGS_MAX`] tags (AR-ENV-21).
    #[error("too many tags")]
    TooManyTags,
    /// A tag without elements.
    #[error("empty tag")]
    EmptyTag,
    /// A tag name of more than [`ARTIFACT_TAG_NAME_BYTES_MAX`] bytes (AR-CUR-18).
    #[error("tag name too long")]
    TagNameTooLong,
    /// A tag element of more than [`ARTIFACT_TAG_VALUE_BYTES_MAX`] bytes (AR-CUR-18).
    #[error("tag value too long")]
    TagValueTooLong,
    /// A repeated envelope tag, or one with fewer or more than two elements (AR-ENV-18, AR-ENV-19, AR-ENV-26).
    #[error("envelope tags must occur once with exactly two elements")]
    EnvelopeTagForm,
    /// Names and values of more than [`ARTIFACT_TAG_BYTES_MAX`] bytes (AR-CUR-18).
    #[error("total tag bytes exceeded")]
    TagBytes,
    /// `ar`, `d`, `h`, `type` or `op` is missing.
    #[error("missing required envelope tag")]
    MissingTag,
    /// `ar` is not `1` (AR-ENV-3).
    #[error("unsupported artifact envelope version")]
    Version,
    /// `d` or `h` is not a lowercase, hyphenated, non-nil UUID (AR-ENV-4, AR-ENV-5).
    #[error("UUID must be canonical lowercase and non-nil")]
    Uuid,
    /// `type` does not follow the grammar of [`is_type_name`] (AR-ENV-7, AR-ENV-8).
    #[error("invalid namespaced artifact type")]
    Type,
    /// `op` is none of the five (AR-ENV-13).
    #[error("invalid artifact operation")]
    Operation,
    /// `root` or `prev` is no event id (AR-ENV-14, AR-ENV-17).
    #[error("event ID must be 64 lowercase hex characters")]
    EventId,
    /// `prev` on a creation, or none on another op (AR-ENV-15, AR-ENV-16).
    #[error("prev required exactly on non-create revisions")]
    Prev,
    /// A deletion with a title or content (AR-ENV-12, AR-DEL-1).
    #[error("delete must omit title and have empty content")]
    DeleteBody,
    /// A deletion with a client-defined tag (AR-DEL-3).
    #[error("delete allows only envelope and verified auth tags")]
    DeleteTags,
    /// No title, a blank one, or one of more than [`ARTIFACT_TITLE_BYTES_MAX`] bytes (AR-ENV-9, AR-ENV-10, AR-ENV-11).
    #[error("title must be nonblank and at most 512 UTF-8 bytes")]
    Title,
    /// An `auth` tag that is malformed, repeated, or not the owner's word for this author and time (AR-DEL-4).
    #[error("unverified artifact auth tag")]
    UnverifiedAuth,
    /// An attestation for other kinds only.
    #[error("artifact auth kind mismatch")]
    AuthKind,
}

impl From<UuidError> for EnvelopeError {
    fn from(_: UuidError) -> EnvelopeError {
        EnvelopeError::Uuid
    }
}

impl From<HexError> for EnvelopeError {
    fn from(_: HexError) -> EnvelopeError {
        EnvelopeError::EventId
    }
}

impl From<OaError> for EnvelopeError {
    fn from(error: OaError) -> EnvelopeError {
        match error {
            OaError::Kind => EnvelopeError::AuthKind,
            OaError::Repeated
            | OaError::Malformed
            | OaError::Condition
            | OaError::SelfOwned
            | OaError::BadSignature
            | OaError::CreatedAt => EnvelopeError::UnverifiedAuth,
        }
    }
}

impl Envelope {
    /// Reads the envelope of a revision whose id and signature are verified, and verifies its `auth` tag if it has one.
    /// That the kind is 45010 is the caller's to know.
    ///
    /// # Errors
    /// The first fault in the order of [`EnvelopeError`] (AR-ENV-20).
    pub fn parse(event: &Event) -> Result<Envelope, EnvelopeError> {
        check_tags(&event.tags)?;
        let required = |name| event.first_value(name).ok_or(EnvelopeError::MissingTag);
        let (version, d, h) = (required("ar")?, required("d")?, required("h")?);
        let (artifact_type, op) = (required("type")?, required("op")?);
        if version != VERSION {
            return Err(EnvelopeError::Version);
        }
        let (artifact, home) = (d.parse()?, h.parse()?);
        if !is_type_name(artifact_type) {
            return Err(EnvelopeError::Type);
        }
        let op: Op = op.parse()?;
        let event_id = |name| event.first_value(name).map(EventId::from_str).transpose();
        let (root, prev) = (event_id("root")?, event_id("prev")?);
        if prev.is_none() != (op == Op::Create) {
            return Err(EnvelopeError::Prev);
        }
        let title = event.first_value("title");
        if op == Op::Delete {
            check_deletion(event, title)?;
        } else if title.is_none_or(|title| !is_title(title)) {
            return Err(EnvelopeError::Title);
        }
        if let Some(attestation) = Attestation::of_event(event)? {
            let kinds = KindClauses::Judge(event.kind);
            attestation.verify(&event.pubkey, event.created_at, kinds, &Verifier)?;
        }
        let (artifact_type, title) = (artifact_type.to_owned(), title.map(str::to_owned));
        Ok(Envelope {
            artifact,
            home,
            artifact_type,
            title,
            op,
            root,
            prev,
        })
    }
}

/// Whether a type name has at least two dot-separated components, each a lowercase ASCII letter followed by letters, digits,
/// `_` or `-`, and at most [`ARTIFACT_TYPE_BYTES_MAX`] bytes in all (AR-ENV-7, AR-ENV-8, H24). Reserved namespaces are a matter
/// between clients (AR-ENV-23).
pub fn is_type_name(text: &str) -> bool {
    text.len() <= ARTIFACT_TYPE_BYTES_MAX
        && text.contains('.')
        && text.split('.').all(is_type_component)
}

/// Whether this is the name of an envelope tag.
pub(super) fn is_envelope_tag(name: &str) -> bool {
    ENVELOPE_TAGS.contains(&name)
}

fn is_type_component(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

/// Nonblank means that something is left after trimming Unicode White_Space; the bound is on the raw value (H24).
fn is_title(text: &str) -> bool {
    text.len() <= ARTIFACT_TITLE_BYTES_MAX && !text.trim().is_empty()
}

fn check_tags(tags: &[Tag]) -> Result<(), EnvelopeError> {
    if tags.len() > ARTIFACT_TAGS_MAX {
        return Err(EnvelopeError::TooManyTags);
    }
    if tags.iter().any(Vec::is_empty) {
        return Err(EnvelopeError::EmptyTag);
    }
    if tags
        .iter()
        .any(|tag| tag[0].len() > ARTIFACT_TAG_NAME_BYTES_MAX)
    {
        return Err(EnvelopeError::TagNameTooLong);
    }
    if tags.iter().any(|tag| {
        tag[1..]
            .iter()
            .any(|value| value.len() > ARTIFACT_TAG_VALUE_BYTES_MAX)
    }) {
        return Err(EnvelopeError::TagValueTooLong);
    }
    let well_formed = |name: &&str| {
        let mut named = tags.iter().filter(|tag| tag[0] == **name);
        named.next().is_none_or(|tag| tag.len() == 2) && named.next().is_none()
    };
    if !ENVELOPE_TAGS.iter().all(well_formed) {
        return Err(EnvelopeError::EnvelopeTagForm);
    }
    if tags.iter().flatten().map(String::len).sum::<usize>() > ARTIFACT_TAG_BYTES_MAX {
        return Err(EnvelopeError::TagBytes);
    }
    Ok(())
}

/// A deletion carries envelope and `auth` tags alone, so that nothing filterable outlives the content (AR-DEL-1, AR-DEL-3).
fn check_deletion(event: &Event, title: Option<&str>) -> Result<(), EnvelopeError> {
    if title.is_some() || !event.content.is_empty() {
        return Err(EnvelopeError::DeleteBody);
    }
    if event
        .tags
        .iter()
        .any(|tag| !is_envelope_tag(&tag[0]) && tag[0] != "auth")
    {
        return Err(EnvelopeError::DeleteTags);
    }
    Ok(())
}
