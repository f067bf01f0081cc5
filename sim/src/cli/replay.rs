//! `holdfast-sim replay`: a failed run once more.

use std::path::PathBuf;

use super::{Failure, GREEN, Shell, TOO_LITTLE, VIOLATION, check_mutant, json_line, single};
use crate::explore::run_caught;
use crate::folder::{Recorded, Verdict, read};
use crate::tape::Tape;

/// Arguments of `replay`.
#[derive(clap::Args)]
pub(super) struct ReplayArgs {
    /// The folder of a failed run
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// How a repetition compares with what was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
enum Compared {
    /// Same steps, same verdict.
    Same,
    /// It passes.
    Passes,
    /// It fails, but not as recorded.
    Differs,
}

/// Runs the options and the tape of a folder and compares trace hash and verdict.
pub(super) fn run(args: &ReplayArgs, shell: &mut Shell<'_>) -> Result<u8, Failure> {
    let Recorded {
        options,
        tape,
        verdict: recorded,
    } = read(&args.dir).map_err(|error| Failure::usage(error.0))?;
    if let Some(id) = &options.mutant {
        check_mutant(id)?;
    }
    let tape = Tape::replay(options.seed, tape);
    let outcome = run_caught(shell.run, &options, tape);
    let repeated = Verdict::of(&outcome);
    let compared = match (repeated == recorded, outcome.has_failed()) {
        (true, _) => Compared::Same,
        (false, false) => Compared::Passes,
        (false, true) => Compared::Differs,
    };
    if shell.is_for_people {
        let told = match compared {
            Compared::Same => "repeated exactly: same trace hash, same verdict".to_owned(),
            Compared::Passes => "the run passes".to_owned(),
            Compared::Differs => format!(
                "took another way: recorded {} with trace {}, got {} with trace {}",
                recorded.failure, recorded.trace_hash, repeated.failure, repeated.trace_hash
            ),
        };
        writeln!(shell.out, "{}{told}", single::text(&outcome))?;
    } else {
        let line = serde_json::json!({
            "compared": compared, "recorded": recorded, "repeated": repeated,
        });
        shell.out.write_all(&json_line(&line))?;
    }
    Ok(match compared {
        Compared::Same => VIOLATION,
        Compared::Passes => GREEN,
        Compared::Differs => TOO_LITTLE,
    })
}
