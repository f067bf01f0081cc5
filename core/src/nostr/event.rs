//! The event of NIP-01: its seven fields, the one form in which it is read, stored and served, and its id.
//!
//! Keys and signing are in `key`. What a kind or a tag means to a channel or an artifact does not belong here.

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Verifier, hex, json};
use crate::ids::{ChannelId, UnixSeconds};

/// The largest `created_at`, because databases keep times in signed 64-bit columns.
pub const CREATED_AT_MAX: UnixSeconds = i64::MAX as u64;

/// An event's kind (NIP-01: 0 to 65535).
pub type Kind = u16;
/// One tag: the name, then its values. Never empty in an event that was read.
pub type Tag = Vec<String>;

/// The text is not lowercase hexadecimal of the right length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("expected {digits} lowercase hex characters")]
pub struct HexError {
    /// Digits that the type is written with.
    pub digits: usize,
}

macro_rules! hex_bytes {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $len]);

        impl $name {
            /// Wraps the bytes; every value is accepted.
            pub const fn from_bytes(bytes: [u8; $len]) -> $name {
                $name(bytes)
            }

            /// The bytes.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = HexError;

            fn from_str(text: &str) -> Result<$name, HexError> {
                hex::decode(text).map($name).ok_or(HexError { digits: 2 * $len })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                hex::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                hex::fmt(&self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(hex::encode(&self.0, &mut [0; 2 * $len]))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                struct HexVisitor;

                impl Visitor<'_> for HexVisitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "{} lowercase hex characters", 2 * $len)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(HexVisitor)
            }
        }
    };
}

hex_bytes!(
    /// An event's id: the SHA-256 of its canonical form (NIP-01).
    EventId,
    32
);
hex_bytes!(
    /// A public key: the x coordinate of BIP-340. Not every value is a point; one that is not never verifies anything.
    PubKey,
    32
);
hex_bytes!(
    /// A BIP-340 signature.
    Signature,
    64
);

/// A NIP-01 event. Reading checks its form, not its id or signature: see [`Event::verify`].
///
/// The order of the fields is the order in which an event is stored and served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Event {
    /// The id its sender claims.
    pub id: EventId,
    /// The author.
    pub pubkey: PubKey,
    /// The author's time in seconds, at most [`CREATED_AT_MAX`].
    pub created_at: UnixSeconds,
    /// The kind.
    pub kind: Kind,
    /// The tags in the author's order, repetitions kept.
    pub tags: Vec<Tag>,
    /// The content, every character kept.
    pub content: String,
    /// The author's signature over the id.
    pub sig: Signature,
}

/// Why a text is no event, or an event is not its author's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EventError {
    /// The text is not one JSON object with exactly the seven fields, each of its own form; says which and where.
    #[error("{0}")]
    Malformed(String),
    /// The id is not the hash of the canonical form.
    #[error("invalid event id: computed {computed}, got {got}")]
    WrongId {
        /// The id the fields have.
        computed: EventId,
        /// The id the event claims.
        got: EventId,
    },
    /// The signature is not the author's signature over the id, or the author's key is no key.
    #[error("invalid schnorr signature")]
    BadSignature,
}

/// The seven fields as serde reads them: unknown, missing and repeated names are refused by the derived code.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    id: EventId,
    pubkey: PubKey,
    created_at: UnixSeconds,
    kind: Kind,
    tags: Vec<Tag>,
    content: String,
    sig: Signature,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Event, D::Error> {
        // Asking for a map refuses the array of seven values that derived code would take for a struct as well.
        struct EventVisitor;

        impl<'de> Visitor<'de> for EventVisitor {
            type Value = Event;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Event, A::Error> {
                let Fields {
                    id,
                    pubkey,
                    created_at,
                    kind,
                    tags,
                    content,
                    sig,
                } = Fields::deserialize(MapAccessDeserializer::new(map))?;
                if created_at > CREATED_AT_MAX {
                    return Err(de::Error::custom("created_at is too large"));
                }
                if tags.iter().any(Vec::is_empty) {
                    return Err(de::Error::custom("a tag needs one or more strings"));
                }
                Ok(Event {
                    id,
                    pubkey,
                    created_at,
                    kind,
                    tags,
                    content,
                    sig,
                })
            }
        }

        deserializer.deserialize_map(EventVisitor)
    }
}

impl Event {
    /// Reads one event. Anything but the seven fields, each once and of its own form, is refused; escapes in strings are
    /// decoded, so two texts that mean the same event give the same value.
    ///
    /// # Errors
    /// [`EventError::Malformed`].
    pub fn from_json(text: &str) -> Result<Event, EventError> {
        serde_json::from_str(text).map_err(|error| EventError::Malformed(json::reason(&error)))
    }

    /// The one form in which an event is stored and served: the seven fields in NIP-01 order, no white space.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings, integers and lists always serialise")
    }

    /// The id that the fields have: SHA-256 over `[0,pubkey,created_at,kind,tags,content]`.
    ///
    /// Control characters that NIP-01 does not name are written `\u00XX`, as raw ones would be no JSON and every mainstream
    /// library writes them so; all other characters stand for themselves.
    pub fn compute_id(&self) -> EventId {
        compute_id(
            &self.pubkey,
            self.created_at,
            self.kind,
            &self.tags,
            &self.content,
        )
    }

    /// Whether the claimed id is the computed one.
    ///
    /// # Errors
    /// [`EventError::WrongId`].
    pub fn check_id(&self) -> Result<(), EventError> {
        let computed = self.compute_id();
        if computed == self.id {
            Ok(())
        } else {
            Err(EventError::WrongId {
                computed,
                got: self.id,
            })
        }
    }

    /// Whether the id is right and the author signed it.
    ///
    /// # Errors
    /// [`EventError::WrongId`] or [`EventError::BadSignature`], in this order.
    pub fn verify(&self, verifier: &Verifier) -> Result<(), EventError> {
        self.check_id()?;
        if verifier.verifies(self.id.as_bytes(), &self.pubkey, &self.sig) {
            Ok(())
        } else {
            Err(EventError::BadSignature)
        }
    }

    /// The tags with this name, in order.
    pub fn tags_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Tag> {
        self.tags
            .iter()
            .filter(move |tag| tag.first().is_some_and(|first| first == name))
    }

    /// The first value of each tag with this name that has one; later values of a tag never match anything (NIP-01).
    pub fn tag_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.tags_named(name)
            .filter_map(|tag| tag.get(1))
            .map(String::as_str)
    }

    /// The first of [`Event::tag_values`].
    pub fn first_value<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.tag_values(name).next()
    }

    /// The value of the only tag with this name; `None` if the tag is missing, has no value, or occurs again.
    pub fn only_value<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let mut tags = self.tags_named(name);
        match (tags.next(), tags.next()) {
            (Some(tag), None) => tag.get(1).map(String::as_str),
            _ => None,
        }
    }

    /// The `d` part of an address (NIP-01): the value of the first `d` tag, empty where there is none.
    pub fn d_value(&self) -> &str {
        self.tags_named("d")
            .next()
            .and_then(|tag| tag.get(1))
            .map_or("", String::as_str)
    }

    /// The channel the event is posted to: the first `h` value that is a channel id.
    pub fn channel_tag(&self) -> Option<ChannelId> {
        self.tag_values("h").find_map(|value| value.parse().ok())
    }
}

/// The id of an event with these fields, signed or not.
pub(crate) fn compute_id(
    pubkey: &PubKey,
    created_at: UnixSeconds,
    kind: Kind,
    tags: &[Tag],
    content: &str,
) -> EventId {
    let canonical = serde_json::to_vec(&(0, pubkey, created_at, kind, tags, content))
        .expect("strings, integers and lists always serialise");
    EventId(Sha256::digest(&canonical).into())
}
