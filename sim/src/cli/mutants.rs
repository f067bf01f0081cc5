//! `holdfast-sim mutants`: the test of the tester.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::progress::Progress;
use super::{Failure, GREEN, Shell, VIOLATION, WorkArgs, need_mutants, write_file};
use crate::folder::FAILURES_DIR;
use crate::matrix::{CONTROLS, Hunt, MUTANTS, page};
use crate::options::Options;

/// Arguments of `mutants`.
#[derive(clap::Args)]
pub(super) struct MutantsArgs {
    /// Runs per bug and range of seeds, and per control
    #[arg(long, value_name = "N", default_value_t = 200)]
    seeds: u64,
    /// Only these bugs and controls
    #[arg(long, value_name = "ID", num_args = 1.., value_delimiter = ',')]
    only: Vec<String>,
    /// Where to write the page of results
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Where the folders of runs go that fail without a bug
    #[arg(long, value_name = "DIR", default_value = FAILURES_DIR)]
    out: PathBuf,
    #[command(flatten)]
    work: WorkArgs,
}

/// Tries the seeded bugs and the controls and prints the page of results.
pub(super) fn run(args: &MutantsArgs, shell: &mut Shell<'_>) -> Result<u8, Failure> {
    need_mutants()?;
    let mutants = MUTANTS.iter().map(|mutant| mutant.id);
    let known: BTreeSet<&str> = mutants.chain(CONTROLS.iter().map(|c| c.id)).collect();
    if let Some(id) = args.only.iter().find(|id| !known.contains(id.as_str())) {
        return Err(Failure::usage(format!("no seeded bug or control {id}")));
    }
    let hunt = Hunt {
        seeds: args.seeds,
        jobs: args.work.jobs(),
        stall: args.work.stall(),
        only: args.only.iter().cloned().collect(),
        draw: Options::draw,
        run: shell.run,
        out: args.out.clone(),
    };
    let wanted = match args.only.is_empty() {
        true => known.len(),
        false => hunt.only.len(),
    };
    let mut progress = Progress::new(shell.has_progress, Some(wanted as u64));
    let report = hunt.hunt(&mut |id, is_green| {
        let told = if is_green {
            "as it should be"
        } else {
            "FAILED"
        };
        progress.step(format!("{id} {told}"));
    })?;
    progress.end();
    let text = page(&report);
    shell.out.write_all(text.as_bytes())?;
    if let Some(path) = &args.page {
        write_file(path, text.as_bytes())?;
    }
    Ok(match report.is_green() {
        true => GREEN,
        false => VIOLATION,
    })
}
