//! `holdfast check`: the verdict on a recorded history.

use std::fs::File;
use std::io::{self, BufReader, IsTerminal};
use std::path::PathBuf;

use holdfast_checker::{History, Report, Status, Unreadable, Verdict, judge};
use serde_json::json;

use super::client::{printable, say};
use super::exit::{Exit, Failure};

/// What the help says about exit codes.
pub(super) const EXIT_CODES: &str = "Exit codes: 0 no violation, 2 wrong usage or a file that cannot be judged, 3 no such file, 5 violation found.";

/// Arguments of `check`.
#[derive(clap::Args)]
pub(super) struct CheckArgs {
    /// A history: JSON lines as docs/history.md describes them
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Prints JSON lines, as in a pipe
    #[arg(long)]
    json: bool,
}

/// Judges the history and prints a verdict per invariant.
pub(super) fn check(args: &CheckArgs) -> Result<Exit, Failure> {
    let shown = args.file.display();
    let missing = |error: io::Error| Failure::unreachable(format_args!("{shown}: {error}"));
    let file = File::open(&args.file).map_err(missing)?;
    let history = match History::read(BufReader::new(file)) {
        Ok(history) => history,
        Err(error) => {
            return Err(match error.what {
                Unreadable::Io(error) if error.kind() != io::ErrorKind::InvalidData => {
                    missing(error)
                }
                _ => Failure::usage(format_args!("{shown}, {error}")),
            });
        }
    };
    let report =
        judge(&history).map_err(|error| Failure::usage(format_args!("{shown}, {error}")))?;
    if args.json || !io::stdout().is_terminal() {
        report.verdicts.iter().for_each(print_json);
    } else {
        print_for_people(&report);
    }
    Ok(if report.violated().is_empty() {
        Exit::Done
    } else {
        Exit::Violated
    })
}

fn status(verdict: &Verdict) -> &'static str {
    match verdict.status {
        Status::Evaluated => "evaluated",
        Status::NotApplicable => "not applicable",
        Status::Violated => "violated",
    }
}

/// One line per verdict.
fn print_json(verdict: &Verdict) {
    let violations: Vec<_> = verdict.violations.iter().map(|violation| {
        json!({"rule": violation.rule, "line": violation.line, "story": violation.story})
    }).collect();
    say(json!({
        "invariant": verdict.invariant.name(),
        "verdict": status(verdict),
        "evaluated": verdict.evaluated,
        "found": verdict.found,
        "violations": violations,
    }));
}

fn print_for_people(report: &Report) {
    for verdict in &report.verdicts {
        let name = verdict.invariant.name();
        let times = match verdict.status {
            Status::NotApplicable => String::new(),
            Status::Evaluated => format!(" {} times", verdict.evaluated),
            Status::Violated => format!(
                " {} times, evaluated {} times",
                verdict.found, verdict.evaluated
            ),
        };
        say(format_args!("{name:<14} {}{times}", status(verdict)));
        for violation in &verdict.violations {
            say(format_args!(
                "  line {}, {}",
                violation.line, violation.rule
            ));
            for sentence in &violation.story {
                say(format_args!("    {}", printable(sentence)));
            }
        }
    }
}
