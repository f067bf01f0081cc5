//! Adds up a campaign, seed by seed and in order, and says what it failed to prove. Pure arithmetic.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::summary::{FailureLine, GoalLine, InvariantLine, Means, Summary, round};
use crate::folder;
use crate::goals;
use crate::matrix::INVARIANTS;
use crate::outcome::Outcome;

/// From this many seeds on the means of a campaign must be reached: fewer seeds say little about a mean.
pub const MEANS_FROM_SEEDS: u64 = 100;

/// From this many seeds on every goal must have been reached and every invariant evaluated.
pub const GOALS_FROM_SEEDS: u64 = 1_000;

/// Least accepted writes per seed.
const WRITES_PER_SEED: f64 = 40.0;
/// Least EOSE frames per seed.
const EOSES_PER_SEED: f64 = 4.0;
/// Least faults per seed.
const FAULTS_PER_SEED: f64 = 3.0;
/// Least competing edits per seed.
const COMPETING_PER_SEED: f64 = 1.0;
/// Least seeds of a hundred that no store or bus fault disturbs and in which nothing resyncs without need.
const UNDISTURBED_PERCENT: u64 = 30;

/// A growing campaign.
pub struct Tally {
    from: u64,
    seeds: u64,
    writes: u64,
    eoses: u64,
    fired: u64,
    competing_edits: u64,
    undisturbed_seeds: u64,
    simulated_ms: u64,
    steps: u64,
    failures: Vec<FailureLine>,
    invariants: BTreeMap<String, InvariantLine>,
    goals: BTreeMap<String, GoalLine>,
    faults: BTreeMap<String, u64>,
    resyncs: BTreeMap<String, u64>,
    traces: Sha256,
}

impl Tally {
    /// An empty one.
    pub fn new(from: u64) -> Tally {
        let goal = |goal: &goals::Goal| (goal.name.to_owned(), GoalLine::default());
        let invariant = |name: &&str| ((*name).to_owned(), InvariantLine::default());
        Tally {
            from,
            seeds: 0,
            writes: 0,
            eoses: 0,
            fired: 0,
            competing_edits: 0,
            undisturbed_seeds: 0,
            simulated_ms: 0,
            steps: 0,
            failures: Vec::new(),
            invariants: INVARIANTS.iter().map(invariant).collect(),
            goals: goals::ALL.iter().map(goal).collect(),
            faults: BTreeMap::new(),
            resyncs: BTreeMap::new(),
            traces: Sha256::new(),
        }
    }

    /// Takes the next seed; `folder` is where its failure was written.
    pub fn add(&mut self, outcome: &Outcome, folder: Option<PathBuf>) {
        self.seeds += 1;
        self.writes += outcome.writes;
        self.eoses += outcome.eoses;
        self.competing_edits += outcome.competing_edits;
        self.simulated_ms += outcome.simulated_ms;
        self.steps += outcome.steps;
        self.fired += outcome.faults.values().sum::<u64>();
        self.undisturbed_seeds += u64::from(is_undisturbed(outcome));
        self.traces.update(outcome.trace_hash.as_bytes());
        self.traces.update(b"\n");
        for (name, judged) in &outcome.verdict {
            let line = self.invariants.entry(name.clone()).or_default();
            line.evaluated += judged.evaluated;
            line.seeds += u64::from(judged.evaluated > 0);
            line.violated_seeds += u64::from(!judged.violations.is_empty());
        }
        for (name, reached) in &outcome.goals {
            let line = self.goals.entry((*name).to_owned()).or_default();
            line.reached += reached;
            line.seeds += u64::from(*reached > 0);
        }
        for (sums, counts) in [
            (&mut self.faults, &outcome.faults),
            (&mut self.resyncs, &outcome.resyncs),
        ] {
            for (name, count) in counts {
                *sums.entry(name.clone()).or_default() += count;
            }
        }
        if let Some(failure) = folder::failure(outcome) {
            self.failures.push(FailureLine {
                seed: outcome.options.seed,
                failure,
                violated: outcome.violated().map(str::to_owned).collect(),
                broken: outcome.broken.clone(),
                folder: folder.map(|path| path.display().to_string()),
            });
        }
    }

    /// Seeds taken.
    pub fn seeds(&self) -> u64 {
        self.seeds
    }

    /// Failed runs.
    pub fn failures(&self) -> usize {
        self.failures.len()
    }

    /// Failures that have a folder.
    pub fn folders(&self) -> usize {
        let has_folder = |failure: &&FailureLine| failure.folder.is_some();
        self.failures.iter().filter(has_folder).count()
    }

    /// Faults fired.
    pub fn faults_fired(&self) -> u64 {
        self.fired
    }

    /// Simulated milliseconds.
    pub fn simulated_ms(&self) -> u64 {
        self.simulated_ms
    }

    /// Goals reached at least once.
    pub fn goals_reached(&self) -> usize {
        self.goals.values().filter(|goal| goal.reached > 0).count()
    }

    /// What the campaign came to.
    pub fn summary(&self) -> Summary {
        let seeds = self.seeds.max(1) as f64;
        let mean = |sum: u64| round(sum as f64 / seeds, 100.0);
        let means = Means {
            writes: mean(self.writes),
            eoses: mean(self.eoses),
            faults: mean(self.fired),
            competing_edits: mean(self.competing_edits),
        };
        Summary {
            from: self.from,
            seeds: self.seeds,
            failures: self.failures.clone(),
            means,
            undisturbed_seeds: self.undisturbed_seeds,
            invariants: self.invariants.clone(),
            goals: self.goals.clone(),
            faults: self.faults.clone(),
            resyncs: self.resyncs.clone(),
            simulated_ms: self.simulated_ms,
            steps: self.steps,
            trace_hash: hex(self.traces.clone()),
            too_little: self.too_little(means),
            speed: None,
        }
    }

    fn too_little(&self, means: Means) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.seeds == 0 {
            reasons.push("no seed was run".to_owned());
        }
        if self.seeds >= MEANS_FROM_SEEDS {
            let wanted = [
                ("accepted writes", means.writes, WRITES_PER_SEED),
                ("EOSE", means.eoses, EOSES_PER_SEED),
                ("faults", means.faults, FAULTS_PER_SEED),
                ("competing edits", means.competing_edits, COMPETING_PER_SEED),
            ];
            for (what, got, least) in wanted {
                if got < least {
                    reasons.push(format!("{got} {what} per seed, wanted {least}"));
                }
            }
            if self.undisturbed_seeds * 100 < self.seeds * UNDISTURBED_PERCENT {
                let (got, seeds) = (self.undisturbed_seeds, self.seeds);
                reasons.push(format!(
                    "{got} of {seeds} seeds undisturbed, wanted {UNDISTURBED_PERCENT} %"
                ));
            }
        }
        if self.seeds >= GOALS_FROM_SEEDS {
            let goals = self.goals.iter().filter(|(_, line)| line.reached == 0);
            reasons.extend(goals.map(|(name, _)| format!("goal {name} never reached")));
            let silent = self
                .invariants
                .iter()
                .filter(|(_, line)| line.evaluated == 0);
            reasons.extend(silent.map(|(name, _)| format!("invariant {name} never evaluated")));
        }
        reasons
    }
}

/// Free of store and bus faults, and whatever was resynced had to be.
fn is_undisturbed(outcome: &Outcome) -> bool {
    let is_fine =
        |(cause, count): (&String, &u64)| *count == 0 || cause == "access" || cause == "retired";
    outcome.options.is_free_of_store_and_bus_faults()
        && outcome.broken.is_none()
        && outcome.resyncs.iter().all(is_fine)
}

fn hex(hash: Sha256) -> String {
    let digits = hash.finalize();
    digits.iter().map(|byte| format!("{byte:02x}")).collect()
}
