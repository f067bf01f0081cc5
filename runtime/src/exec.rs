//! The tokio side of the ports: time and tasks. Nothing of the protocol belongs here.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_core::ids::Now;

use crate::node::ports::{BoxFuture, Clock, Spawn};

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    started: Instant,
}

impl Default for TokioClock {
    fn default() -> TokioClock {
        TokioClock {
            started: Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Now {
            mono_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            // A wall clock before 1970 is read as 1970: every protocol window then refuses.
            wall_secs: wall.map_or(0, |since| since.as_secs()),
        }
    }

    fn sleep_until(&self, mono_ms: u64) -> BoxFuture<()> {
        let at = self.started + Duration::from_millis(mono_ms);
        Box::pin(tokio::time::sleep_until(at.into()))
    }
}

/// Tasks of the tokio runtime in whose context they are spawned.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioSpawn;

impl Spawn for TokioSpawn {
    fn spawn(&self, future: BoxFuture<()>) {
        tokio::spawn(future);
    }
}
