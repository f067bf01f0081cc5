//! The runtime of the relay: ports, the one driver, and the adapters to sockets, disks and buses.

pub mod bus;
pub mod guard;
pub mod node;
pub mod store;
