//! nostr
