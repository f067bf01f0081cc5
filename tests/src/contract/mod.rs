//! The contracts of the ports as functions over any implementation. Each function is one test; `tests/contract_*.rs` names
//! the implementations. What only one implementation promises belongs there.

pub mod bus;
pub mod guard;
pub mod store;

use std::time::{Duration, Instant};

/// Runs a future to its end on this thread.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

/// Runs a future to its end, but not for ever: a contract that makes a caller wait without bound is broken.
///
/// # Panics
/// After `limit`.
pub fn wait_at_most<T: Send + 'static>(
    limit: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(wait(future)));
    receiver
        .recv_timeout(limit)
        .expect("an answer within the limit")
}

/// Waits until something is so.
///
/// # Panics
/// After ten seconds.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "never came: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
