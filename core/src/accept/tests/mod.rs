//! The way of a write, from the texts that senders get to the rows that a store keeps.

mod admit;
mod deletion;
mod message;
