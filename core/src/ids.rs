//! Identifiers and instants that every room of the core shares. No behaviour beyond parsing and printing belongs here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A 16-byte identifier written as a lowercase, hyphenated, non-nil UUID (AR-ENV-4, AR-ENV-5).
///
/// The byte order equals the text order, so every store sorts alike (AR-SYNC-2e).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

/// The text is not a canonical UUID: lowercase, hyphenated, 36 characters, not nil.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("UUID must be canonical lowercase and non-nil")]
pub struct UuidError;

impl Uuid {
    /// Wraps sixteen bytes; the nil UUID is refused.
    pub fn from_bytes(bytes: [u8; 16]) -> Result<Uuid, UuidError> {
        if bytes == [0; 16] {
            Err(UuidError)
        } else {
            Ok(Uuid(bytes))
        }
    }

    /// The UUID of version 8 that a hash names: its first sixteen bytes with the version and variant of RFC 9562 set.
    pub fn from_hash(hash: &[u8; 32]) -> Uuid {
        let mut bytes = [0u8; 16];
        bytes.copy_from_slice(&hash[..16]);
        bytes[6] = (bytes[6] & 0x0f) | 0x80;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uuid(bytes)
    }

    /// The sixteen bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Uuid, UuidError> {
        let raw = text.as_bytes();
        if raw.len() != 36 {
            return Err(UuidError);
        }
        let mut bytes = [0u8; 16];
        let mut nibbles = 0usize;
        for (at, &byte) in raw.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return Err(UuidError);
                }
                continue;
            }
            let value = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return Err(UuidError),
            };
            bytes[nibbles / 2] = (bytes[nibbles / 2] << 4) | value;
            nibbles += 1;
        }
        Uuid::from_bytes(bytes)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Uuid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl FromStr for $name {
            type Err = UuidError;
            fn from_str(text: &str) -> Result<$name, UuidError> {
                text.parse().map($name)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

uuid_id!(
    /// One community: the tenant that a request's Host is bound to. Every stored key begins with it.
    CommunityId
);
uuid_id!(
    /// One channel, the value of an `h` tag. Unique within its community.
    ChannelId
);
uuid_id!(
    /// One artifact, the value of a 45010 `d` tag. Unique within its community for ever (AR-ID-1, AR-DEL-12).
    ArtifactId
);

/// A place in a community-independent, strictly rising ledger of committed changes (S5). Positions start at 1; 0 is before all.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// The position `n` places further on.
    pub fn plus(self, n: u64) -> Position {
        Position(self.0 + n)
    }
}

/// Seconds since the Unix epoch, as events carry them.
pub type UnixSeconds = u64;

/// The time an input carries: a monotonic reading for deadlines and a wall reading for protocol windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now {
    /// Milliseconds on a clock that never goes back; its zero is arbitrary. Deadlines use it.
    pub mono_ms: u64,
    /// Wall clock in seconds since the Unix epoch; it may jump. Protocol windows use it.
    pub wall_secs: UnixSeconds,
}
