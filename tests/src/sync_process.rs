//! A running `holdfast sync` with its output as lines.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use holdfast_core::nostr::SecretKey;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::sync::mpsc;

use crate::client::within;
use crate::relay::binary;

/// The process; it is killed when the test lets go of it.
pub struct SyncProcess {
    child: Child,
    lines: mpsc::UnboundedReceiver<Value>,
    errors: Option<JoinHandle<String>>,
    _key: Option<NamedTempFile>,
}

impl SyncProcess {
    /// Starts the command without a key.
    pub fn start(url: &str, args: &[&str]) -> SyncProcess {
        SyncProcess::spawn(url, args, None)
    }

    /// Starts the command with a key.
    pub fn start_with_key(url: &str, args: &[&str], key: &SecretKey) -> SyncProcess {
        let file = NamedTempFile::new().expect("a file can be made");
        std::fs::write(file.path(), key.reveal_hex()).expect("it can be written");
        SyncProcess::spawn(url, args, Some(file))
    }

    fn spawn(url: &str, args: &[&str], key: Option<NamedTempFile>) -> SyncProcess {
        let mut command = Command::new(binary());
        command
            .args(args)
            .env("HOLDFAST_RELAY", url)
            .env_remove("HOLDFAST_KEY_FILE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(file) = &key {
            command.env("HOLDFAST_KEY_FILE", file.path());
        }
        let mut child = command.spawn().expect("the binary runs");
        let (sender, lines) = mpsc::unbounded_channel();
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        thread::spawn(move || {
            for line in stdout.lines() {
                let line = line.expect("output is UTF-8");
                let value = serde_json::from_str(&line).expect("a pipe gets JSON lines");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().expect("it is piped");
        let errors = thread::spawn(move || {
            let mut text = String::new();
            stderr
                .read_to_string(&mut text)
                .expect("messages are UTF-8");
            text
        });
        SyncProcess {
            child,
            lines,
            errors: Some(errors),
            _key: key,
        }
    }

    /// The next line.
    ///
    /// # Panics
    /// If none comes.
    pub async fn line(&mut self) -> Value {
        within("a line", self.lines.recv())
            .await
            .expect("the command runs")
    }

    /// Lets go of its output, as `head` does when it has seen enough: the line that comes next has no reader any more.
    pub fn stop_reading(&mut self) {
        self.lines.close();
    }

    /// Asks it to stop.
    ///
    /// # Panics
    /// If it has ended.
    pub fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM)
            .expect("a process may signal its own child");
    }

    /// Waits for its end: exit code, lines not read before, standard error.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn end(mut self) -> (Option<i32>, Vec<Value>, String) {
        let mut rest = Vec::new();
        while let Some(line) = within("the end", self.lines.recv()).await {
            rest.push(line);
        }
        let status = self.child.wait().expect("a child can be waited for");
        let errors = self.errors.take().expect("nobody took it");
        let errors = errors.join().expect("it only reads");
        (status.code(), rest, errors)
    }

    /// Expects it to end with this code and one line that holds this text.
    ///
    /// # Panics
    /// If it does otherwise.
    pub async fn fails(self, code: i32, text: &str) {
        let (found, _, errors) = self.end().await;
        assert_eq!(found, Some(code), "{errors}");
        assert!(
            errors.starts_with("holdfast: ") && errors.contains(text),
            "{text}: {errors}"
        );
        assert_eq!(errors.matches('\n').count(), 1, "{errors}");
    }
}

impl Drop for SyncProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
