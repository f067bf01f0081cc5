//! The command line of the simulator: arguments, text for people and for programs, exit codes. No run, campaign or verdict is
//! decided here.

mod explore;
mod mutants;
mod progress;
mod replay;
mod single;

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::explore::Run;
use crate::folder::FolderError;
use crate::matrix;

/// What the help of every command says about exit codes.
const EXIT_CODES: &str = "Exit codes: 0 green; 2 wrong usage; 3 a file cannot be written; 5 a violation, a broken run or a surviving bug; \
                          6 a campaign that proved too little, or a replay that took another way.";

/// Nothing wrong was found.
pub const GREEN: u8 = 0;
/// Wrong arguments, or files that cannot be used.
pub const USAGE: u8 = 2;
/// A file cannot be written.
pub const UNWRITABLE: u8 = 3;
/// A violation, a broken run, a surviving bug.
pub const VIOLATION: u8 = 5;
/// A campaign that proved too little; a replay that took another way than what it replays.
pub const TOO_LITTLE: u8 = 6;

/// What the commands work with.
pub struct Shell<'a> {
    /// Runs one seed.
    pub run: Run,
    /// Results are text for people; otherwise JSON.
    pub is_for_people: bool,
    /// Progress is drawn on standard error.
    pub has_progress: bool,
    /// Results.
    pub out: &'a mut dyn Write,
    /// One line about what went wrong.
    pub err: &'a mut dyn Write,
}

/// Simulated relays, stores, buses and clients in one process: repeats a seed, searches many, tests the tester.
#[derive(Parser)]
#[command(name = "holdfast-sim", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs one seed.
    #[command(after_help = EXIT_CODES)]
    Run(single::RunArgs),
    /// Runs many seeds, goes on after failures and says what that proved.
    #[command(after_help = EXIT_CODES)]
    Explore(explore::ExploreArgs),
    /// Repeats a failed run from its folder: exit 5 if it fails as recorded, 0 if it passes, 6 if it takes another way.
    #[command(after_help = EXIT_CODES)]
    Replay(replay::ReplayArgs),
    /// Tries every seeded bug and every control; needs a build with the feature `mutants`.
    #[command(after_help = EXIT_CODES)]
    Mutants(mutants::MutantsArgs),
}

/// Why a command stopped: an exit code and one line.
struct Failure {
    exit: u8,
    text: String,
}

impl Failure {
    fn usage(text: impl Display) -> Failure {
        Failure {
            exit: USAGE,
            text: text.to_string().replace('\n', " "),
        }
    }

    fn unwritable(text: impl Display) -> Failure {
        Failure {
            exit: UNWRITABLE,
            ..Failure::usage(text)
        }
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Failure {
        Failure::unwritable(error.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::unwritable(error)
    }
}

/// Does what the arguments say, the first being the program's name, and returns the exit code.
pub fn dispatch(args: impl IntoIterator<Item = OsString>, shell: &mut Shell<'_>) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let is_help = !error.use_stderr();
            let to = if is_help {
                &mut shell.out
            } else {
                &mut shell.err
            };
            // A reader that is gone needs no help.
            let _ = write!(to, "{error}");
            return if is_help { GREEN } else { USAGE };
        }
    };
    let done = match cli.command {
        Command::Run(args) => single::run(&args, shell),
        Command::Explore(args) => explore::run(&args, shell),
        Command::Replay(args) => replay::run(&args, shell),
        Command::Mutants(args) => mutants::run(&args, shell),
    };
    match done {
        Ok(exit) => exit,
        Err(failure) => {
            let _ = writeln!(shell.err, "holdfast-sim: {}", failure.text);
            failure.exit
        }
    }
}

/// How a campaign is worked through.
#[derive(clap::Args)]
struct WorkArgs {
    /// Worker threads [default: one per processor]
    #[arg(long, value_name = "J", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    jobs: Option<u32>,
    /// Seconds after which a single run counts as hanging
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    stall: u64,
}

impl WorkArgs {
    fn jobs(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(processors, |jobs| jobs as usize)
    }

    fn stall(&self) -> Duration {
        Duration::from_secs(self.stall)
    }
}

/// Refuses a seeded bug that does not exist or is not in this build.
fn check_mutant(id: &str) -> Result<(), Failure> {
    if matrix::find(id).is_none() {
        return Err(Failure::usage(format!("there is no seeded bug {id}")));
    }
    need_mutants()
}

fn need_mutants() -> Result<(), Failure> {
    match cfg!(feature = "mutants") {
        true => Ok(()),
        false => Err(Failure::usage(
            "this build has no seeded bugs: build it with --features mutants",
        )),
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let text = |error| Failure::unwritable(format!("{}: {error}", path.display()));
    fs::write(path, bytes).map_err(text)
}

/// One JSON object and a newline.
fn json_line<T: serde::Serialize>(value: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("plain values without maps of odd keys");
    line.push(b'\n');
    line
}
