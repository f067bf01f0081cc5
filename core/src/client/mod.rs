//! What a client of the relay must do: hold an exact copy of a set of artifacts, wait between attempts, read what a relay
//! offers.
//!
//! What belongs here: the client's side of the protocols, as plain values that the `holdfast` commands and the simulated
//! clients drive. What must not: sockets, signatures on demand, clocks, and any second opinion about matching (`scope`) or the
//! digest (`artifact`).

mod backoff;
mod capability;
pub mod replica;

pub use backoff::Backoff;
pub use capability::{CapabilityError, SyncCapability};
