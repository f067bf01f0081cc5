//! What a process under test prints, collected while it runs. What the lines mean does not belong here.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Where the address is named.
    Stdout,
    /// Where logs may go.
    Stderr,
}

#[derive(Debug)]
pub(super) struct Line {
    pub(super) stream: Stream,
    pub(super) text: String,
}

/// What a process printed so far. Threads of its own read both streams to their ends, so that a full pipe never blocks the
/// relay.
#[derive(Default)]
pub(super) struct Output {
    state: Mutex<OutputState>,
    changed: Condvar,
}

#[derive(Default)]
struct OutputState {
    lines: Vec<Line>,
    open_streams: u32,
}

/// Why a line was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// Both streams ended.
    Ended,
    /// The deadline passed.
    Late,
}

impl Output {
    pub(super) fn collect(self: &Arc<Self>, stream: Stream, source: impl Read + Send + 'static) {
        self.state().open_streams += 1;
        let output = Arc::clone(self);
        thread::spawn(move || {
            let mut source = BufReader::new(source);
            let mut bytes = Vec::new();
            // A read error ends the stream like its end does: the process is gone either way.
            while matches!(source.read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
                let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                output.state().lines.push(Line { stream, text });
                output.changed.notify_all();
                bytes.clear();
            }
            output.state().open_streams -= 1;
            output.changed.notify_all();
        });
    }

    /// The first answer of `find` over the lines in their order, which waits for lines still to come.
    pub(super) fn wait<T>(
        &self,
        limit: Duration,
        find: impl Fn(&Line) -> Option<T>,
    ) -> Result<T, Missing> {
        let end = Instant::now() + limit;
        let mut state = self.state();
        loop {
            if let Some(found) = state.lines.iter().find_map(&find) {
                return Ok(found);
            }
            if state.open_streams == 0 {
                return Err(Missing::Ended);
            }
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return Err(Missing::Late);
            };
            (state, _) = self.changed.wait_timeout(state, left).expect(UNPOISONED);
        }
    }

    pub(super) fn text(&self) -> String {
        let lines: Vec<String> = self
            .state()
            .lines
            .iter()
            .map(|line| line.text.clone())
            .collect();
        lines.join("\n")
    }

    fn state(&self) -> MutexGuard<'_, OutputState> {
        self.state.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "no thread panics while it holds this lock";
