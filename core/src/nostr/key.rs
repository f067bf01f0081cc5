//! Keys: signing and checking BIP-340 signatures, without any source of chance.
//!
//! What a key may do does not belong here.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use secp256k1::{Keypair, XOnlyPublicKey, schnorr};

use super::event::compute_id;
use super::{Event, Kind, PubKey, Signature, Tag, hex};
use crate::ids::UnixSeconds;

/// A secret key. Neither its debug form nor any error shows it; only [`SecretKey::reveal_hex`] does.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(Keypair);

/// The text or the bytes are no secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("a secret key is 64 lowercase hex characters, not zero and below the order of the curve")]
pub struct SecretKeyError;

impl SecretKey {
    /// The key with these bytes.
    ///
    /// # Errors
    /// [`SecretKeyError`] for zero and for values that are not below the curve's order.
    pub fn from_bytes(bytes: [u8; 32]) -> Result<SecretKey, SecretKeyError> {
        Keypair::from_secret_bytes(bytes)
            .map(SecretKey)
            .map_err(|_| SecretKeyError)
    }

    /// The key others know it by.
    pub fn public_key(&self) -> PubKey {
        PubKey::from_bytes(self.0.x_only_public_key().0.to_byte_array())
    }

    /// The secret itself, for the one file it is kept in.
    pub fn reveal_hex(&self) -> String {
        hex::encode(&self.0.to_secret_bytes(), &mut [0; 64]).to_owned()
    }

    /// Signs a message of 32 bytes. The same key and message always give the same signature.
    pub fn sign(&self, message: &[u8; 32]) -> Signature {
        Signature::from_bytes(schnorr::sign_no_aux_rand(message, &self.0).to_byte_array())
    }
}

impl Hash for SecretKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_secret_bytes().hash(state);
    }
}

impl FromStr for SecretKey {
    type Err = SecretKeyError;

    fn from_str(text: &str) -> Result<SecretKey, SecretKeyError> {
        SecretKey::from_bytes(hex::decode(text).ok_or(SecretKeyError)?)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public_key())
    }
}

/// Checks BIP-340 signatures. A handle without state: copies cost nothing and work from any thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Verifier;

impl Verifier {
    /// Whether `sig` is `key`'s signature over `message`; false as well when `key` is no point of the curve.
    pub fn verifies(&self, message: &[u8; 32], key: &PubKey, sig: &Signature) -> bool {
        let Ok(key) = XOnlyPublicKey::from_byte_array(*key.as_bytes()) else {
            return false;
        };
        schnorr::verify(
            &schnorr::Signature::from_byte_array(*sig.as_bytes()),
            message,
            &key,
        )
        .is_ok()
    }
}

/// What an author is about to sign.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Draft {
    /// Seconds since the Unix epoch, at most [`CREATED_AT_MAX`](super::event::CREATED_AT_MAX).
    pub created_at: UnixSeconds,
    /// The kind.
    pub kind: Kind,
    /// The tags, none of them empty.
    pub tags: Vec<Tag>,
    /// The content.
    pub content: String,
}

impl Draft {
    /// The event, signed. The same draft and key always give the same event.
    pub fn sign(self, key: &SecretKey) -> Event {
        let Draft {
            created_at,
            kind,
            tags,
            content,
        } = self;
        let pubkey = key.public_key();
        let id = compute_id(&pubkey, created_at, kind, &tags, &content);
        Event {
            id,
            pubkey,
            created_at,
            kind,
            tags,
            content,
            sig: key.sign(id.as_bytes()),
        }
    }
}
