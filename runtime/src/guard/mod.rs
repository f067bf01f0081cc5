//! The guards: one file per medium, each implementing [`crate::node::ports::Guard`]. What a key or a bucket stands for does not
//! belong here.

pub mod local;
