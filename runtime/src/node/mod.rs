//! The shell around the core's node: its ports, the driver that owns it, and the handle through which adapters reach it.

mod answer;
mod driver;
mod handle;
mod notes;
pub mod ports;
mod spool;
#[cfg(test)]
mod tests;

pub use driver::{Driver, Ports};
pub use handle::{DriverHandle, Stopped};
pub use notes::NoteCounts;
