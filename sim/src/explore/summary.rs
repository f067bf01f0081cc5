//! The summary of a campaign, as JSON and for people. Everything but [`Speed`] depends on the seeds alone.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// What a campaign found and what it proved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The first seed.
    pub from: u64,
    /// Seeds run.
    pub seeds: u64,
    /// Failed runs, in the order of their seeds.
    pub failures: Vec<FailureLine>,
    /// Figures per seed.
    pub means: Means,
    /// Seeds without a store or bus fault and without a `resync:` but access and retired.
    pub undisturbed_seeds: u64,
    /// Every invariant that was judged.
    pub invariants: BTreeMap<String, InvariantLine>,
    /// Every goal of the catalogue.
    pub goals: BTreeMap<String, GoalLine>,
    /// Faults fired, by family and name.
    pub faults: BTreeMap<String, u64>,
    /// `resync:` endings, by cause word.
    pub resyncs: BTreeMap<String, u64>,
    /// Simulated milliseconds.
    pub simulated_ms: u64,
    /// Scheduler steps.
    pub steps: u64,
    /// SHA-256 over the trace hashes of all seeds in order, in hex.
    pub trace_hash: String,
    /// What the campaign failed to prove, in plain words.
    pub too_little: Vec<String>,
    /// What it cost; the one part that differs between two equal campaigns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
}

/// Figures per seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Means {
    /// Accepted writes.
    pub writes: f64,
    /// EOSE frames.
    pub eoses: f64,
    /// Faults.
    pub faults: f64,
    /// Pairs of edits with the same `prev`.
    pub competing_edits: f64,
}

/// A failed run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailureLine {
    /// Its seed.
    pub seed: u64,
    /// What it is called.
    pub failure: String,
    /// Every violated invariant.
    pub violated: Vec<String>,
    /// What was wrong beside the invariants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
    /// Its folder, while there are not too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// An invariant over a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct InvariantLine {
    /// Evaluations.
    pub evaluated: u64,
    /// Seeds in which it was evaluated.
    pub seeds: u64,
    /// Seeds in which it was violated.
    pub violated_seeds: u64,
}

/// A goal over a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GoalLine {
    /// How often it was reached.
    pub reached: u64,
    /// In how many seeds.
    pub seeds: u64,
}

/// What a campaign cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speed {
    /// Worker threads.
    pub jobs: usize,
    /// Seconds.
    pub seconds: f64,
    /// Seeds a second.
    pub seeds_per_second: f64,
    /// Simulated hours an hour.
    pub simulated_per_real: f64,
}

impl Speed {
    /// From what was done in a time.
    pub fn new(jobs: usize, took: Duration, seeds: u64, simulated_ms: u64) -> Speed {
        let seconds = took.as_secs_f64().max(0.001);
        Speed {
            jobs,
            seconds: round(seconds, 1_000.0),
            seeds_per_second: round(seeds as f64 / seconds, 10.0),
            simulated_per_real: round(simulated_ms as f64 / 1_000.0 / seconds, 10.0),
        }
    }
}

/// Rounded to parts of a unit.
pub(super) fn round(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hours = self.simulated_ms as f64 / 3_600_000.0;
        writeln!(
            f,
            "{} seeds from {}: {} failed; {hours:.2} simulated hours, {} steps",
            self.seeds,
            self.from,
            self.failures.len(),
            self.steps
        )?;
        if let Some(speed) = &self.speed {
            writeln!(
                f,
                "{:.1} s with {} jobs: {} seeds a second, {} simulated seconds a second",
                speed.seconds, speed.jobs, speed.seeds_per_second, speed.simulated_per_real
            )?;
        }
        writeln!(
            f,
            "per seed: {} writes, {} EOSE, {} faults, {} competing edits; {} seeds undisturbed",
            self.means.writes,
            self.means.eoses,
            self.means.faults,
            self.means.competing_edits,
            self.undisturbed_seeds
        )?;
        writeln!(f, "\ninvariant          evaluated     seeds  violated")?;
        for (name, line) in &self.invariants {
            let (evaluated, seeds) = (line.evaluated, line.seeds);
            writeln!(
                f,
                "{name:<16} {evaluated:>11} {seeds:>9} {:>9}",
                line.violated_seeds
            )?;
        }
        writeln!(f, "\ngoal                          reached     seeds")?;
        for (name, line) in &self.goals {
            writeln!(f, "{name:<26} {:>10} {:>9}", line.reached, line.seeds)?;
        }
        counts(f, "fault", &self.faults)?;
        counts(f, "resync", &self.resyncs)?;
        for failure in &self.failures {
            let folder = failure.folder.as_deref().unwrap_or("no folder");
            let (seed, name) = (failure.seed, &failure.failure);
            writeln!(f, "\nFAILED seed {seed}: {name} ({folder})")?;
            if let Some(broken) = &failure.broken {
                writeln!(f, "    {broken}")?;
            }
        }
        for reason in &self.too_little {
            writeln!(f, "\nPROVED TOO LITTLE: {reason}")?;
        }
        Ok(())
    }
}

fn counts(f: &mut fmt::Formatter<'_>, what: &str, counts: &BTreeMap<String, u64>) -> fmt::Result {
    writeln!(f, "\n{what:<26}      count")?;
    for (name, count) in counts {
        writeln!(f, "{name:<26} {count:>10}")?;
    }
    Ok(())
}
