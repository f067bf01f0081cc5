//! Lowercase hexadecimal, as ids, keys and signatures are written. Nothing else belongs here.

use std::fmt;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The `N` bytes that `text` writes as exactly `2 * N` lowercase digits; `None` for anything else.
pub(crate) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let raw = text.as_bytes();
    if raw.len() != 2 * N {
        return None;
    }
    let mut bytes = [0u8; N];
    for (byte, pair) in bytes.iter_mut().zip(raw.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(bytes)
}

/// Writes `bytes` into `out`, which is twice as long, and returns the text.
pub(crate) fn encode<'a>(bytes: &[u8], out: &'a mut [u8]) -> &'a str {
    assert_eq!(out.len(), 2 * bytes.len(), "two digits for each byte");
    for (pair, byte) in out.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0x0f)];
    }
    std::str::from_utf8(out).expect("hexadecimal digits are ASCII")
}

/// Writes `bytes` to a formatter.
pub(crate) fn fmt(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}
