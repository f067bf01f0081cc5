//! How a command ends.

use std::fmt::Display;
use std::process::ExitCode;

/// What the help of every command that talks to a relay, or is one, says about exit codes.
pub(super) const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 refused, 2 wrong usage, 3 unreachable or missing, 4 conflict.";

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Done.
    Done = 0,
    /// The relay refused, or something unexpected went wrong.
    Refused = 1,
    /// The arguments or settings are wrong.
    Usage = 2,
    /// A relay does not answer; a file or directory cannot be used.
    Unreachable = 3,
    /// Something else is there already: a newer revision, a process on the port or in the data directory, a file.
    Conflict = 4,
    /// A history breaks an invariant.
    Violated = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command did not do what it was asked: one line and an exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(exit: Exit, text: impl Display) -> Failure {
        let text = text.to_string().replace('\n', " ");
        Failure { exit, text }
    }

    pub(super) fn usage(text: impl Display) -> Failure {
        Failure::new(Exit::Usage, text)
    }

    pub(super) fn unreachable(text: impl Display) -> Failure {
        Failure::new(Exit::Unreachable, text)
    }
}
