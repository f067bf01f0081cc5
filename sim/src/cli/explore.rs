//! `holdfast-sim explore`: a campaign.

use std::path::PathBuf;
use std::time::Duration;

use super::progress::Progress;
use super::{Failure, GREEN, Shell, TOO_LITTLE, VIOLATION, WorkArgs, json_line, write_file};
use crate::explore::{Campaign, Draw, Plan, Speed, Summary, explore};
use crate::folder::FAILURES_DIR;
use crate::options::Options;

/// Seeds of a campaign that names neither a number nor a time.
const SEEDS_DEFAULT: u64 = 1_000;

/// Arguments of `explore`.
#[derive(clap::Args)]
pub(super) struct ExploreArgs {
    /// How many seeds [default: 1000, or as many as --minutes allow]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    from: u64,
    /// Minutes after which no seed is begun
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// Where to write the summary as JSON as well
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the folders of failed runs go
    #[arg(long, value_name = "DIR", default_value = FAILURES_DIR)]
    out: PathBuf,
    #[command(flatten)]
    work: WorkArgs,
    /// Makes every run wrong on purpose
    #[arg(long, hide = true)]
    canary: bool,
}

/// Runs a campaign and prints its summary.
pub(super) fn run(args: &ExploreArgs, shell: &mut Shell<'_>) -> Result<u8, Failure> {
    let draw: Draw = match args.canary {
        true => wrong_on_purpose,
        false => Options::draw,
    };
    let seeds = match (args.seeds, args.minutes) {
        (Some(seeds), _) => Some(seeds),
        (None, None) => Some(SEEDS_DEFAULT),
        (None, Some(_)) => None,
    };
    let minutes = |minutes: u64| Duration::from_secs(minutes.saturating_mul(60));
    let campaign = Campaign {
        plan: Plan {
            from: args.from,
            seeds: seeds.unwrap_or(u64::MAX),
            jobs: args.work.jobs(),
            time: args.minutes.map(minutes),
            stall: args.work.stall(),
        },
        draw,
        run: shell.run,
        out: args.out.clone(),
    };
    let mut progress = Progress::new(shell.has_progress, seeds);
    let tally = explore(&campaign, &mut |tally| progress.show(tally))?;
    let took = progress.end();
    let mut summary = tally.summary();
    let (jobs, simulated_ms) = (campaign.plan.jobs, summary.simulated_ms);
    summary.speed = Some(Speed::new(jobs, took, summary.seeds, simulated_ms));
    let line = json_line(&summary);
    if let Some(path) = &args.json {
        write_file(path, &line)?;
    }
    match shell.is_for_people {
        true => write!(shell.out, "{summary}")?,
        false => shell.out.write_all(&line)?,
    }
    Ok(exit(&summary))
}

fn wrong_on_purpose(seed: u64) -> Options {
    Options {
        canary: true,
        ..Options::draw(seed)
    }
}

fn exit(summary: &Summary) -> u8 {
    match (summary.failures.is_empty(), summary.too_little.is_empty()) {
        (false, _) => VIOLATION,
        (true, false) => TOO_LITTLE,
        (true, true) => GREEN,
    }
}
