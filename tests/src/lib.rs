//! What the tests of this crate share: rule tracing, a relay under test, clients. No test lives in this file.

pub mod build;
pub mod client;
pub mod frame;
pub mod http;
pub mod lookup;
pub mod person;
pub mod relay;
pub mod trace;

pub use holdfast_core::rules;
