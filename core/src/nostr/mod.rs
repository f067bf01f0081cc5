//! The wire: events and their signatures, filters, frames, and the signed proofs of identity (NIP-42, NIP-98, NIP-OA).
//!
//! What belongs here: reading and writing what NIP-01 and its companions put on the wire, strictly, and deciding whether a
//! signature or a signed proof holds. What must not: anything that needs a channel, a reader, a connection or a store.

pub mod artifact_filter;
pub mod auth;
pub mod event;
pub mod filter;
mod hex;
pub mod host;
pub mod http_auth;
mod json;
pub mod key;
pub mod kinds;
pub mod message;
pub mod oa;
pub mod relay_frame;
pub mod url;

pub use artifact_filter::{ArtifactFilter, ArtifactFilterError, ArtifactView};
pub use event::{Event, EventError, EventId, HexError, Kind, PubKey, Signature, Tag};
pub use filter::{AnyFilter, AnyFilterError, Filter, FilterError};
pub use key::{Draft, SecretKey, SecretKeyError, Verifier};
pub use message::{ClientMessage, FrameProblem, SubId, SubIdText};
pub use relay_frame::{RelayFrame, RelayFrameError};
pub use url::{UrlError, WebUrl};

#[cfg(test)]
mod tests;
