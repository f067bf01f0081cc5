//! Campaigns: many seeds, their failures and what they proved. The figures of a campaign, the threads that run it and the rules
//! of what proves enough belong here; a single run does not.

mod guarded;
mod pool;
mod summary;
mod tally;

use std::ops::ControlFlow;
use std::path::PathBuf;

pub use guarded::{Run, broken, run_caught};
pub use pool::{Ended, Plan, work};
pub use summary::{FailureLine, GoalLine, InvariantLine, Means, Speed, Summary};
pub use tally::{GOALS_FROM_SEEDS, MEANS_FROM_SEEDS, Tally};

use crate::folder;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::tape::Tape;

/// Failure folders that one campaign writes at most; later failures are counted and listed without one.
pub const FOLDERS_MAX: usize = 200;

/// Makes the options of a seed.
pub type Draw = fn(u64) -> Options;

/// A campaign.
pub struct Campaign {
    /// The seeds and the threads.
    pub plan: Plan,
    /// Makes the options of a seed.
    pub draw: Draw,
    /// Runs one.
    pub run: Run,
    /// Where the folders of failures go.
    pub out: PathBuf,
}

/// Runs a campaign to its end, failures or not. `watch` is called after each seed, in order.
///
/// # Errors
/// A failure folder that cannot be written.
pub fn explore(
    campaign: &Campaign,
    watch: &mut dyn FnMut(&Tally),
) -> Result<Tally, folder::FolderError> {
    let mut tally = Tally::new(campaign.plan.from);
    let mut unwritten = None;
    let (run, draw) = (campaign.run, campaign.draw);
    let one = move |seed: u64| light(run_seed(run, &draw(seed)));
    let ended = work(campaign.plan, one, |_, outcome| {
        let took = take(&mut tally, campaign, &outcome);
        watch(&tally);
        match took {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                unwritten = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(error) = unwritten {
        return Err(error);
    }
    if let Ended::Hangs(seed) = ended {
        let limit_s = campaign.plan.stall.as_secs();
        let reason = format!("hangs: not done after {limit_s} s");
        take(&mut tally, campaign, &broken(&draw(seed), reason))?;
    }
    Ok(tally)
}

fn take(
    tally: &mut Tally,
    campaign: &Campaign,
    outcome: &Outcome,
) -> Result<(), folder::FolderError> {
    let wants_folder = outcome.has_failed() && tally.folders() < FOLDERS_MAX;
    let folder = match wants_folder {
        true => Some(folder::write(&campaign.out, outcome)?),
        false => None,
    };
    tally.add(outcome, folder);
    Ok(())
}

/// One seed with the tape that belongs to it.
pub fn run_seed(run: Run, options: &Options) -> Outcome {
    run_caught(run, options, Tape::from_seed(options.seed))
}

/// Without the bulk that only a failure needs.
fn light(mut outcome: Outcome) -> Outcome {
    if !outcome.has_failed() {
        outcome.history = Vec::new();
        outcome.tape = Vec::new();
    }
    outcome
}
