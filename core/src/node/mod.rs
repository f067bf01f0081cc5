//! The node: one value per process that owns connections, subscriptions, the topic registry and the publish queue.
//!
//! What belongs here: everything between an input and its effects. What must not: what a filter may see (`scope`), what becomes
//! of an event (`accept`), parsing, waiting.

mod io;

pub use io::*;
