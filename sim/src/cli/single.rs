//! `holdfast-sim run`: one seed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::{Failure, GREEN, Shell, VIOLATION, check_mutant, json_line, write_file};
use crate::explore::run_seed;
use crate::folder::{Verdict, read_json};
use crate::options::{OPTIONS_VERSION, Options};
use crate::outcome::Outcome;

/// Arguments of `run`.
#[derive(clap::Args)]
pub(super) struct RunArgs {
    /// The seed
    #[arg(long, value_name = "N")]
    seed: u64,
    /// A seeded bug, in builds that have them
    #[arg(long, value_name = "ID")]
    mutant: Option<String>,
    /// Options of the run as JSON, instead of those that the seed draws
    #[arg(long, value_name = "FILE")]
    options: Option<PathBuf>,
    /// Where to write the history
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Makes the run wrong on purpose
    #[arg(long, hide = true)]
    canary: bool,
}

/// A run as one JSON object.
#[derive(Serialize)]
struct RunLine<'a> {
    seed: u64,
    verdict: Verdict,
    goals: &'a BTreeMap<&'static str, u64>,
    faults: &'a BTreeMap<String, u64>,
    resyncs: &'a BTreeMap<String, u64>,
    writes: u64,
    eoses: u64,
    competing_edits: u64,
    simulated_ms: u64,
    steps: u64,
}

/// Runs one seed and prints its verdict, its goals and its trace hash.
pub(super) fn run(args: &RunArgs, shell: &mut Shell<'_>) -> Result<u8, Failure> {
    let options = options(args)?;
    let outcome = run_seed(shell.run, &options);
    if let Some(path) = &args.history {
        write_file(path, &outcome.history)?;
    }
    match shell.is_for_people {
        true => shell.out.write_all(text(&outcome).as_bytes())?,
        false => shell.out.write_all(&json_line(&line(&outcome)))?,
    }
    Ok(exit(&outcome))
}

/// The exit code of one run.
pub(super) fn exit(outcome: &Outcome) -> u8 {
    match outcome.has_failed() {
        true => VIOLATION,
        false => GREEN,
    }
}

fn options(args: &RunArgs) -> Result<Options, Failure> {
    let mut options = match &args.options {
        None => Options::draw(args.seed),
        Some(path) => {
            let read: Options = read_json(path).map_err(|error| Failure::usage(error.0))?;
            if read.version != OPTIONS_VERSION {
                let (path, version) = (path.display(), read.version);
                let text = format!("{path}: options of version {version}, not {OPTIONS_VERSION}");
                return Err(Failure::usage(text));
            }
            Options {
                seed: args.seed,
                ..read
            }
        }
    };
    options.canary |= args.canary;
    if let Some(id) = &args.mutant {
        options.mutant = Some(id.clone());
    }
    if let Some(id) = &options.mutant {
        check_mutant(id)?;
    }
    Ok(options)
}

fn line(outcome: &Outcome) -> RunLine<'_> {
    RunLine {
        seed: outcome.options.seed,
        verdict: Verdict::of(outcome),
        goals: &outcome.goals,
        faults: &outcome.faults,
        resyncs: &outcome.resyncs,
        writes: outcome.writes,
        eoses: outcome.eoses,
        competing_edits: outcome.competing_edits,
        simulated_ms: outcome.simulated_ms,
        steps: outcome.steps,
    }
}

/// A run for people.
pub(super) fn text(outcome: &Outcome) -> String {
    let mut text = format!(
        "seed {}: {} writes, {} EOSE, {} faults, {} steps, {} simulated ms\n",
        outcome.options.seed,
        outcome.writes,
        outcome.eoses,
        outcome.faults.values().sum::<u64>(),
        outcome.steps,
        outcome.simulated_ms
    );
    // Writing to a string cannot fail.
    for (goal, reached) in outcome.goals.iter().filter(|(_, reached)| **reached > 0) {
        let _ = writeln!(text, "goal {goal:<26} {reached:>6}");
    }
    for (invariant, judged) in &outcome.verdict {
        let (evaluated, violated) = (judged.evaluated, judged.violations.len());
        let _ = writeln!(
            text,
            "{invariant:<16} {evaluated:>8} evaluated {violated:>6} violated"
        );
    }
    for (invariant, judged) in &outcome.verdict {
        for violation in &judged.violations {
            let (rule, line, story) = (&violation.rule, violation.line, &violation.story);
            let _ = writeln!(
                text,
                "\nVIOLATED {invariant} ({rule}), line {line}:\n{story}"
            );
        }
    }
    if let Some(broken) = &outcome.broken {
        let _ = writeln!(text, "\nBROKEN: {broken}");
    }
    let _ = writeln!(text, "trace {}", outcome.trace_hash);
    text
}
