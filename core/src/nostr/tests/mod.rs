//! Tests of the wire, written from NIP-01 and its companions, from public bug reports and from the decisions of this relay.

mod artifact_filter;
mod auth;
mod event;
mod filter;
mod host;
mod http_auth;
mod message;
mod oa;
mod relay_frame;

use super::{Draft, Event, Kind, SecretKey, Tag};

/// The published test key of the public bug reports' vectors.
fn bob() -> SecretKey {
    "3551fc7617f76632e4542992c0bc01fecb224de639c4b6a1e0956946e8bb8a29"
        .parse()
        .unwrap()
}

fn secret(last_byte: u8) -> SecretKey {
    let mut bytes = [0; 32];
    bytes[31] = last_byte;
    SecretKey::from_bytes(bytes).unwrap()
}

fn tags(list: &[&[&str]]) -> Vec<Tag> {
    list.iter()
        .map(|tag| tag.iter().map(|&item| item.to_owned()).collect())
        .collect()
}

fn signed(kind: Kind, created_at: u64, list: &[&[&str]], content: &str) -> Event {
    Draft {
        created_at,
        kind,
        tags: tags(list),
        content: content.to_owned(),
    }
    .sign(&secret(1))
}
