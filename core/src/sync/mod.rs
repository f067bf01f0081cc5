//! The relay side of a NIP-AR Sync: one session keeps one client's copy exact, or says that it no longer is.
//!
//! What belongs here: the state of one sync and all its transitions. What must not: sockets, other sessions, topics, queues
//! (those are the node's), how rows are found (the store's), and any second opinion about access or matching (`scope`).

mod copy;
mod io;
mod session;
#[cfg(test)]
mod tests;

pub use io::{
    AccessRows, Ending, HeadQuery, HeadRow, HeadRows, Membership, ResyncCause, SnapshotFacts,
    StoreGeneration, SyncError, SyncPage, SyncRequest, SyncRow,
};
pub use session::{SyncOutput, SyncSession, SyncSignal, SyncWant};
