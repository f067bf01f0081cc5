//! The standard derivation of an artifact id from a name. Who may create or trust such an artifact is not decided here.

use sha2::{Digest, Sha256};

use crate::ids::{ArtifactId, ChannelId, Uuid};

/// The id of the artifact that clients call `key` within one type and the channel it is created in (AR-DRV-1, AR-DRV-5).
///
/// `home` is the channel at creation; a move does not change the id (AR-DRV-4). The result is a name and proves nothing about
/// who created the artifact (AR-DRV-6).
pub fn derive_id(home: ChannelId, artifact_type: &str, key: &str) -> ArtifactId {
    let mut hasher = Sha256::new();
    for part in [
        "nip-ar-artifact\0",
        &home.to_string(),
        "\0",
        artifact_type,
        "\0",
        key,
    ] {
        hasher.update(part.as_bytes());
    }
    // The bits that version and variant leave are the hash's (AR-DRV-3).
    ArtifactId(Uuid::from_hash(&hasher.finalize().into()))
}
