//! What the tests of this crate share: rule tracing, a relay under test, clients. No test lives in this file.

pub mod build;
pub mod client;
pub mod contract;
pub mod fake;
pub mod frame;
pub mod generate;
pub mod http;
pub mod lookup;
pub mod naive;
pub mod offline;
pub mod person;
pub mod raw;
pub mod reads;
pub mod relay;
pub mod strace;
pub mod sync_process;
pub mod trace;

pub use holdfast_core::rules;
