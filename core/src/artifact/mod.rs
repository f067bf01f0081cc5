//! Artifacts (NIP-AR): the envelope of a revision, acceptance along the `prev` chain, derived ids and the set digest.
//!
//! What belongs here: what a 45010 event must look like, which revision is accepted, what its acceptance writes, and the
//! few computations relay and clients share. What must not: which revisions a read returns (that is `scope`), sync sessions,
//! incremental reads, and channel permissions (those are `channel`'s and the write gate's).

mod accept;
mod derive;
mod digest;
mod ensure;
mod envelope;

pub use accept::{decide, plan_into};
pub use derive::derive_id;
pub use digest::{SetDigest, set_digest};
pub use ensure::same_content_and_tags;
pub use envelope::{ENVELOPE_TAGS, Envelope, EnvelopeError, Op, is_type_name};

#[cfg(test)]
mod tests;
