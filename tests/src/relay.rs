//! A relay process under test: the real binary on a free port, with a data directory of its own.
//!
//! What belongs here: starting, signalling, stopping and restarting `holdfast serve`, and what it prints. What must
//! not: talking to it, which is for `client` and `http`, and any database or bus server.

mod binary;
mod output;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Endpoint;

pub use binary::binary;
use output::{Line, Missing, Output, Stream};

/// How long a relay may take to name its address, or to end after SIGTERM. Long enough for a busy machine; a passing test
/// never comes near it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Time between two looks at a process that is about to end.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What stands before the URL in the line with which a relay names its address.
const ADDRESS_PREFIX: &str = "listening on ";

/// The two profiles a relay can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// AUTH before everything, one table of kinds.
    Workspace,
    /// Any kind but relay-signed ones, reading and plain writing without AUTH.
    Open,
}

impl Profile {
    /// The value of `--profile`.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Workspace => "workspace",
            Profile::Open => "open",
        }
    }
}

/// How a relay is started: profile, further arguments, settings from the environment, data directory.
///
/// The process sees no `HOLDFAST_*` variable but those set here, so that what a developer has exported cannot change a test.
#[derive(Clone, Debug)]
pub struct Launch {
    binary: Option<PathBuf>,
    profile: Profile,
    listen: SocketAddr,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
    data_dir: Option<PathBuf>,
}

impl Launch {
    /// The default relay of a profile: embedded store in a new temporary directory, free port on 127.0.0.1.
    pub fn new(profile: Profile) -> Launch {
        Launch {
            binary: None,
            profile,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            args: Vec::new(),
            envs: Vec::new(),
            data_dir: None,
        }
    }

    /// Adds one argument after those the harness passes.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Launch {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments after those the harness passes.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Launch {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets one environment variable, such as `HOLDFAST_SWEEP_INTERVAL_MS`.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Launch {
        self.envs.push((name.into(), value.into()));
        self
    }

    /// Uses this data directory, which the caller owns and which stays when the relay is dropped.
    #[must_use]
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Launch {
        self.data_dir = Some(path.into());
        self
    }

    /// Runs this program in place of [`binary`].
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Launch {
        self.binary = Some(path.into());
        self
    }

    /// Starts the relay and waits until it names its address.
    ///
    /// # Panics
    /// If it does not; the message holds what it printed.
    #[track_caller]
    pub fn start(self) -> RelayProcess {
        match self.try_start() {
            Ok(relay) => relay,
            Err(error) => panic!("the relay did not start: {error}"),
        }
    }

    /// Starts the relay and waits until it names its address.
    ///
    /// # Errors
    /// [`StartError`], with what the process printed; the process has ended by then.
    pub fn try_start(self) -> Result<RelayProcess, StartError> {
        let (data_dir, own_dir) = match &self.data_dir {
            Some(path) => (path.clone(), None),
            None => {
                let dir = TempDir::with_prefix("holdfast-").map_err(StartError::Io)?;
                (dir.path().to_owned(), Some(dir))
            }
        };
        let running = Running::start(&self, &data_dir)?;
        Ok(RelayProcess {
            running,
            launch: self,
            data_dir,
            _own_dir: own_dir,
        })
    }
}

/// Why a relay did not come up.
#[derive(Debug)]
pub enum StartError {
    /// The directory or the process could not be made.
    Io(io::Error),
    /// The process ended before it named its address, as a refused configuration makes it do.
    Exited {
        /// How it ended.
        status: ExitStatus,
        /// What it printed on both streams.
        output: String,
    },
    /// The process named no address within [`DEADLINE`] and was killed.
    Silent {
        /// What it printed on both streams.
        output: String,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Io(error) => write!(f, "{error}"),
            StartError::Exited { status, output } => {
                write!(
                    f,
                    "{status} before it named its address; it printed:\n{output}"
                )
            }
            StartError::Silent { output } => {
                write!(f, "no address within {DEADLINE:?}; it printed:\n{output}")
            }
        }
    }
}

impl std::error::Error for StartError {}

/// A running relay, or one that was killed and can be restarted. Dropping it kills the process and removes its own data
/// directory; if the test is failing, what the relay printed is shown.
pub struct RelayProcess {
    running: Running,
    launch: Launch,
    data_dir: PathBuf,
    // Dropped last, after the process has ended.
    _own_dir: Option<TempDir>,
}

impl RelayProcess {
    /// Starts a relay with an embedded store in a new temporary directory.
    ///
    /// # Panics
    /// If it does not name its address; the message holds what it printed.
    #[track_caller]
    pub fn start(profile: Profile, extra_args: &[&str]) -> RelayProcess {
        Launch::new(profile)
            .args(extra_args.iter().copied())
            .start()
    }

    /// The URL it named, such as `ws://127.0.0.1:41967`; the same after a restart.
    pub fn url(&self) -> &str {
        &self.running.url
    }

    /// Where it listens, for the clients of this crate.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.running.addr)
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Everything it printed since its last start, both streams in the order in which they were read.
    pub fn output(&self) -> String {
        self.running.output.text()
    }

    /// Waits until it has printed a line that holds this text, and returns the line.
    ///
    /// # Panics
    /// At the [`DEADLINE`], or when the relay ends without it.
    #[track_caller]
    pub fn printed(&self, text: &str) -> String {
        let found = self.running.output.wait(DEADLINE, |line| {
            line.text.contains(text).then(|| line.text.clone())
        });
        match found {
            Ok(line) => line,
            Err(missing) => panic!("{text:?} was not printed ({missing:?}):\n{}", self.output()),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// Memory it keeps resident, in KiB, as the kernel counts it.
    ///
    /// # Panics
    /// If the kernel does not tell, as for a process that has ended.
    pub fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.pid());
        let status = std::fs::read_to_string(&path).expect("a running process has a status");
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
            .and_then(|kib| kib.parse().ok())
            .expect("the status names the resident memory")
    }

    /// Kills it with SIGKILL, as a crash would, and waits for its end. Does nothing if it has ended.
    pub fn kill9(&mut self) {
        self.running.kill();
    }

    /// Stops it with SIGTERM, as an operator does, and waits for its end.
    ///
    /// # Panics
    /// If it has ended before, or is still there at the [`DEADLINE`].
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        match self.running.ended_within(DEADLINE) {
            Some(status) => status,
            None => panic!(
                "the relay goes on {DEADLINE:?} after SIGTERM:\n{}",
                self.output()
            ),
        }
    }

    /// Stops its execution (SIGSTOP): its sockets stay open and nothing answers.
    ///
    /// # Panics
    /// If it has ended.
    #[track_caller]
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Continues after [`RelayProcess::pause`].
    ///
    /// # Panics
    /// If it has ended.
    #[track_caller]
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Kills it if it runs, and starts it again with the same settings, data directory and address, so that clients find it
    /// under the URL they know.
    ///
    /// # Panics
    /// If it does not come up again.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill9();
        self.launch.listen = self.running.addr;
        match Running::start(&self.launch, &self.data_dir) {
            Ok(running) => self.running = running,
            Err(error) => panic!("the relay did not restart: {error}"),
        }
    }

    #[track_caller]
    fn signal(&mut self, signal: Signal) {
        let ended = self.running.ended_within(Duration::ZERO);
        assert!(
            ended.is_none(),
            "the relay has ended ({ended:?}):\n{}",
            self.output()
        );
        // Its id is still its own: it was not waited for.
        kill_process(Pid::from_child(&self.running.child), signal)
            .expect("a process may signal its own child");
    }
}

impl Drop for RelayProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the relay on {} printed:\n{}", self.url(), self.output());
        }
    }
}

/// One life of the process.
struct Running {
    child: Child,
    output: Arc<Output>,
    url: String,
    addr: SocketAddr,
}

impl Running {
    fn start(launch: &Launch, data_dir: &Path) -> Result<Running, StartError> {
        let mut command = Command::new(launch.binary.as_deref().unwrap_or_else(|| binary()));
        command
            .args(["serve", "--listen", &launch.listen.to_string()])
            .args(["--profile", launch.profile.name(), "--data-dir"])
            .arg(data_dir)
            .args(&launch.args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOLDFAST_") {
                command.env_remove(name);
            }
        }
        command.envs(launch.envs.iter().map(|(name, value)| (name, value)));
        let mut child = command.spawn().map_err(StartError::Io)?;
        let output = Arc::new(Output::default());
        output.collect(
            Stream::Stdout,
            child.stdout.take().expect("stdout is piped"),
        );
        output.collect(
            Stream::Stderr,
            child.stderr.take().expect("stderr is piped"),
        );
        let mut running = Running {
            child,
            output,
            url: String::new(),
            addr: launch.listen,
        };
        match running.output.wait(DEADLINE, address) {
            Ok((url, addr)) => {
                running.url = url;
                running.addr = addr;
                Ok(running)
            }
            Err(missing) => Err(running.start_error(missing)),
        }
    }

    fn start_error(&mut self, missing: Missing) -> StartError {
        let ended = match missing {
            Missing::Ended => self.ended_within(DEADLINE),
            Missing::Late => None,
        };
        self.kill();
        let output = self.output.text();
        match ended {
            Some(status) => StartError::Exited { status, output },
            None => StartError::Silent { output },
        }
    }

    fn ended_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            let status = self.child.try_wait().expect("a child can be waited for");
            if status.is_some() || Instant::now() >= end {
                return status;
            }
            thread::sleep(EXIT_POLL_INTERVAL);
        }
    }

    fn kill(&mut self) {
        // An error of kill means that the process has ended by itself; then wait returns at once.
        let _ = self.child.kill();
        self.child.wait().expect("a child can be waited for");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// URL and socket address, if this is the line that names them.
fn address(line: &Line) -> Option<(String, SocketAddr)> {
    if line.stream != Stream::Stdout {
        return None;
    }
    let (_, rest) = line.text.split_once(ADDRESS_PREFIX)?;
    let url = rest.split_whitespace().next()?.trim_end_matches('/');
    let (_, authority) = url.split_once("://")?;
    Some((url.to_owned(), authority.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stand_in() -> Launch {
        Launch::new(Profile::Open).binary(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/relay/stand-in.sh"
        ))
    }

    #[test]
    fn a_relay_is_started_killed_and_restarted_under_one_address() {
        let mut relay = stand_in().args(["--more", "of it"]).start();
        assert_eq!(relay.url(), "ws://127.0.0.1:7447");
        assert_eq!(relay.endpoint().host, "127.0.0.1:7447");
        let arguments = format!(
            "arguments: serve --listen 127.0.0.1:0 --profile open --data-dir {} --more of it",
            relay.data_dir().display()
        );
        assert_eq!(relay.printed("arguments"), arguments);
        assert_eq!(relay.printed("life"), "life 1");
        relay.kill9();
        relay.kill9();
        relay.restart();
        assert_eq!(relay.url(), "ws://127.0.0.1:7447");
        assert!(
            relay
                .printed("arguments")
                .contains("--listen 127.0.0.1:7447")
        );
        assert_eq!(relay.printed("life"), "life 2");
        relay.pause();
        relay.resume();
        assert_eq!(relay.terminate().code(), None, "ended by the signal");
        let data_dir = relay.data_dir().to_owned();
        assert!(data_dir.exists());
        drop(relay);
        assert!(!data_dir.exists(), "the temporary data directory stays");
    }

    #[test]
    fn a_relay_that_refuses_to_start_hands_over_its_status_and_words() {
        match stand_in().arg("--refuse").try_start() {
            Err(StartError::Exited { status, output }) => {
                assert_eq!(status.code(), Some(2));
                for words in ["arguments: serve", "needs --relay-url"] {
                    assert!(output.contains(words), "{output}");
                }
            }
            other => panic!("{:?}", other.err()),
        }
    }

    #[test]
    fn a_given_data_directory_stays_and_the_launch_sets_the_environment() {
        let kept = TempDir::new().unwrap();
        let relay = stand_in()
            .env("HOLDFAST_SWEEP_INTERVAL_MS", "0")
            .data_dir(kept.path())
            .start();
        assert_eq!(relay.printed("variable:"), "variable: 0");
        assert_eq!(relay.data_dir(), kept.path());
        drop(relay);
        assert!(kept.path().join("lives").exists());
        let relay = stand_in().start();
        assert_eq!(relay.printed("variable:"), "variable:");
    }
}
