//! The runtime of the relay: ports, the one driver, and the adapters to sockets, disks and buses.

pub mod bus;
pub mod cli;
pub mod exec;
pub mod guard;
pub mod http;
pub mod links;
pub mod node;
pub mod random;
pub mod store;
pub mod verify;
