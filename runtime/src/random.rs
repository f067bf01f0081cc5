//! The system's random source: challenges, keys and jitter. Nothing else of the runtime draws chance.

use holdfast_core::nostr::{EventId, SecretKey};

/// 32 random bytes.
///
/// # Errors
/// If the system's source fails.
fn bytes_32() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(std::io::Error::from)?;
    Ok(bytes)
}

/// 64 random hexadecimal characters.
///
/// # Errors
/// If the system's source fails.
pub fn challenge() -> std::io::Result<String> {
    // An id is written as 64 lowercase hexadecimal characters.
    Ok(EventId::from_bytes(bytes_32()?).to_string())
}

/// Any number.
///
/// # Errors
/// If the system's source fails.
pub fn number() -> std::io::Result<u64> {
    getrandom::u64().map_err(std::io::Error::from)
}

/// A new secret key.
///
/// # Errors
/// If the system's source fails.
pub fn secret_key() -> std::io::Result<SecretKey> {
    loop {
        // Fewer than one value in 2^127 is no key.
        if let Ok(key) = SecretKey::from_bytes(bytes_32()?) {
            return Ok(key);
        }
    }
}
