//! Any text is a filter, an artifact filter or an error; a filter compiles to a plan or a refusal with a prefix.
#![no_main]

use std::collections::BTreeSet;

use holdfast_core::nostr::{AnyFilter, PubKey};
use holdfast_core::scope;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let community = "11111111-1111-4111-8111-111111111111".parse().expect("a canonical UUID");
    let readers: BTreeSet<PubKey> = [PubKey::from_bytes([7; 32])].into();
    let compiled = match AnyFilter::from_json(text) {
        Ok(AnyFilter::Plain(filter)) => scope::compile(community, &readers, &filter),
        Ok(AnyFilter::Artifact(filter)) => scope::compile_artifact(community, &readers, &filter),
        Err(_) => return,
    };
    if let Err(refusal) = compiled {
        assert!(refusal.text().contains(": "));
    }
});
