//! HTTP and WebSocket on one port: NIP-11, the page for people, the bridge, the health checks, and the sockets of clients.
//!
//! What belongs here: bytes, headers, statuses, frames, and the proof of who asks. What must not: what an event or a filter means,
//! who may read or write, SQL.

mod answer;
mod app;
mod bridge;
mod filters;
mod health;
mod host;
mod info;
mod page;
mod server;
mod ws;

pub use app::{App, Settings};
pub use host::Hosts;
pub use info::document as info_document;
pub use server::serve;
