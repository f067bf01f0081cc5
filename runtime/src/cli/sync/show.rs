//! What `holdfast sync` prints: JSON lines in a pipe, lines for people on a terminal. Every method says whether somebody still
//! reads.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use holdfast_core::client::replica::{Failure, LocalSet};
use holdfast_core::ids::ArtifactId;
use holdfast_core::nostr::Event;
use serde_json::json;

use super::super::client::printable;

/// Milliseconds between two looks at a growing number; more often nobody can read it.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The output.
pub(super) struct Show {
    json: bool,
    /// Progress goes to standard error, and only to a terminal.
    progress: bool,
    shown_at: Option<Instant>,
}

impl Show {
    pub(super) fn new(json: bool) -> Show {
        Show {
            json,
            progress: !json && io::stderr().is_terminal(),
            shown_at: None,
        }
    }

    /// How many artifacts have arrived of a set that is not complete.
    pub(super) fn loading(&mut self, received: usize) {
        let is_due = self
            .shown_at
            .is_none_or(|at| at.elapsed() >= PROGRESS_INTERVAL);
        if self.progress && is_due {
            self.shown_at = Some(Instant::now());
            eprint!("\rloading: {received} artifacts\x1b[K");
        }
    }

    /// A complete set.
    pub(super) fn set(&mut self, set: &LocalSet) -> bool {
        let digest = set.digest();
        if self.json {
            let heads: Vec<String> = set.iter().map(|(_, head)| head.to_json()).collect();
            return self.line(&format!(
                r#"{{"set":[{}],"digest":"{digest}"}}"#,
                heads.join(",")
            ));
        }
        let rows = set.iter().map(|(artifact, head)| row(artifact, head));
        let last = format!("{} artifacts, digest {digest}", set.len());
        let all: Vec<String> = rows.chain([last]).collect();
        self.line(&all.join("\n"))
    }

    /// An artifact came or changed.
    pub(super) fn upsert(&mut self, artifact: ArtifactId, head: &Event) -> bool {
        if self.json {
            self.line(&format!(r#"{{"upsert":{}}}"#, head.to_json()))
        } else {
            self.line(&format!("+ {}", row(artifact, head)))
        }
    }

    /// An artifact left.
    pub(super) fn remove(&mut self, artifact: ArtifactId) -> bool {
        if self.json {
            self.line(&json!({ "remove": artifact }).to_string())
        } else {
            self.line(&format!("- {artifact}"))
        }
    }

    /// An attempt failed for a reason that `text` says; another one follows after `wait`.
    pub(super) fn failed(
        &mut self,
        failure: &Failure,
        text: &str,
        has_set: bool,
        wait: Duration,
    ) -> bool {
        let (what, why) = match failure {
            Failure::Resync(why) => ("resync", why.as_str()),
            _ if has_set => ("stale", text),
            _ => ("failed", text),
        };
        if self.json {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let mut line = json!({ "retry_in_ms": wait_ms });
            line[what] = why.into();
            return self.line(&line.to_string());
        }
        let seconds = wait.as_secs_f64();
        let why = printable(why);
        self.line(&format!("{what}: {why}; trying again in {seconds:.1} s"))
    }

    fn line(&mut self, text: &str) -> bool {
        if self.shown_at.take().is_some() {
            eprint!("\r\x1b[K");
        }
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
    }
}

fn row(artifact: ArtifactId, head: &Event) -> String {
    let type_name = head.first_value("type").unwrap_or_default();
    let title = head.first_value("title").unwrap_or_default();
    printable(&format!("{artifact}  {type_name}  {title}"))
}
