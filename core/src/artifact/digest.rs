//! The content identifier of a set of artifacts. The relay never sends it (AR-DIGEST-8); clients and checks compute it.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::ids::ArtifactId;
use crate::nostr::EventId;

/// A set's digest, written as 64 lowercase hex characters (AR-DIGEST-3).
///
/// It can be compared for equality and printed, nothing else: it is no counter, no `prev` and no position (AR-DIGEST-6), so
/// it has no order and converts to no event id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetDigest([u8; 32]);

impl fmt::Display for SetDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SetDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The digest of a set of heads: SHA-256 over `nip-ar-set-v1`, a zero byte, and a line `<d>:<head id>\n` per artifact in the
/// order of `d` (AR-DIGEST-1, AR-DIGEST-2, AR-DIGEST-4). Any order of `heads` gives the same digest; of several heads of one
/// artifact the last counts, as in any copy that replaces heads.
pub fn set_digest(heads: impl IntoIterator<Item = (ArtifactId, EventId)>) -> SetDigest {
    let sorted: BTreeMap<ArtifactId, EventId> = heads.into_iter().collect();
    let mut hasher = Sha256::new();
    hasher.update(b"nip-ar-set-v1\0");
    for (artifact, head) in sorted {
        hasher.update(format!("{artifact}:{head}\n").as_bytes());
    }
    SetDigest(hasher.finalize().into())
}
