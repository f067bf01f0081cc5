//! How fast the embedded store takes small events: kind 1 without tags, many waiting at a time, every commit synced.
//!
//! `cargo bench -p holdfast-tests --bench sqlite_writes`. The database lies in the system's temporary directory; `TMPDIR` names
//! another one.

use std::collections::BTreeSet;
use std::time::Instant;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use holdfast_core::accept::{Profile, Submission};
use holdfast_core::node::SubmitOutcome;
use holdfast_core::nostr::{Event, Signature};
use holdfast_relay::node::ports::Store;
use holdfast_relay::store::sqlite::{SqliteSettings, SqliteStore};
use holdfast_tests::build;
use holdfast_tests::contract::store::policy;
use holdfast_tests::contract::wait;

const IN_FLIGHT: usize = 256;
const CONTENT_BYTES: usize = 100;

fn main() {
    // `cargo test --benches` passes `--test`: then the bench only shows that it runs.
    let smoke = std::env::args().any(|arg| arg == "--test");
    let count = if smoke { 2_000 } else { 200_000 };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = SqliteStore::open(SqliteSettings::new(dir.path(), policy(Profile::Open)));
    let store = store.expect("an empty directory opens");
    let community = wait(store.ensure_community("bench.example".to_owned())).expect("a community");
    let author = build::key(1).public_key();
    let now = build::now();
    let mut events = (0..count).map(|number| {
        // The store checks no signature, so none is made.
        let mut event = Event {
            id: holdfast_core::nostr::EventId::from_bytes([0; 32]),
            pubkey: author,
            created_at: now - (number % 600) as u64,
            kind: 1,
            tags: Vec::new(),
            content: format!("{number:0>CONTENT_BYTES$}"),
            sig: Signature::from_bytes([7; 64]),
        };
        event.id = event.compute_id();
        Submission {
            community,
            event,
            keys: BTreeSet::from([author]),
            received_at: now,
        }
    });
    let began = Instant::now();
    let mut waiting: FuturesUnordered<_> = events
        .by_ref()
        .take(IN_FLIGHT)
        .map(|event| store.submit(event))
        .collect();
    wait(async {
        while let Some(outcome) = waiting.next().await {
            assert!(
                matches!(outcome, SubmitOutcome::Stored { .. }),
                "{outcome:?}"
            );
            waiting.extend(events.next().map(|event| store.submit(event)));
        }
    });
    let rate = count as f64 / began.elapsed().as_secs_f64();
    println!(
        "{count} events in {:.2} s: {rate:.0} per second",
        began.elapsed().as_secs_f64()
    );
}
