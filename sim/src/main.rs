//! The `holdfast-sim` binary: the command line around the simulator. Nothing else belongs here.

use std::io::{IsTerminal, stderr, stdout};
use std::process::ExitCode;

use holdfast_sim::cli::{Shell, dispatch};
use holdfast_sim::stepper;

fn main() -> ExitCode {
    let mut shell = Shell {
        run: stepper::run,
        is_for_people: stdout().is_terminal(),
        has_progress: stderr().is_terminal(),
        out: &mut stdout(),
        err: &mut stderr(),
    };
    ExitCode::from(dispatch(std::env::args_os(), &mut shell))
}
