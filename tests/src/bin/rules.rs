//! Writes the generated parts of `docs/rules.md`; with `--check` it compares only. The checks themselves are in `trace`.

use std::fs;
use std::io;
use std::process::ExitCode;

use holdfast_tests::trace::{PAGE_PATH, RULES_TOTAL, trace, workspace_root};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let check_only = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => false,
        ["--check"] => true,
        _ => {
            eprintln!("usage: rules [--check]");
            return ExitCode::from(2);
        }
    };
    match run(check_only) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            findings.iter().for_each(|finding| eprintln!("{finding}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What is left to be mended by a person, or with `check_only` everything that was found.
fn run(check_only: bool) -> io::Result<Vec<String>> {
    let root = workspace_root();
    let report = trace(&root, RULES_TOTAL)?;
    if check_only {
        return Ok(report.findings());
    }
    if !report.stale.is_empty() {
        fs::write(root.join(PAGE_PATH), &report.page)?;
        println!("{PAGE_PATH}: {} lines written", report.stale.len());
    }
    Ok(report.faults)
}
