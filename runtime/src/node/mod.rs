//! The driver and its ports. Nothing here names a socket, a database or an executor.

pub mod ports;
