//! The stores: one room per database, each implementing [`crate::node::ports::Store`]. Decisions about events do not belong
//! here; a store reads views, calls the core and applies what it decided.

pub mod sqlite;
