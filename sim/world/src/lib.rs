//! The simulated world: store, bus, links and clients as plain step machines.
//!
//! What lives here: a multi-version store that runs lock wait, view statements, writes, commit and visibility as separate
//! steps with several transactions in flight, a bus that may lose, repeat, reorder and delay, links that count bytes and
//! partial flushes, and the clients. What must not: an executor, a clock of its own, or a store kinder than the real ones.

#![deny(missing_docs)]

pub mod store;
pub mod truth;
