//! The buses: one file per medium, each implementing [`crate::node::ports::Bus`]. What a signal means does not belong here.

pub mod local;
