//! Tier A: several nodes, one simulated world, one scheduler, no executor. Every choice comes from the tape.

use crate::options::Options;
use crate::outcome::Outcome;
use crate::tape::Tape;

/// Runs to the end, the quiet phase included, and judges what happened.
pub fn run(options: &Options, tape: Tape) -> Outcome {
    let _ = (options, tape);
    unimplemented_stepper()
}

fn unimplemented_stepper() -> Outcome {
    panic!("the stepper is not built into this revision")
}
