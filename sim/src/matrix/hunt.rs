//! Runs the seeded bugs and the controls and judges what happened to them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use super::{CONTROLS, Control, INVARIANTS, MUTANTS, Mutant};
use crate::explore::{Draw, Ended, Plan, Run, run_seed, work};
use crate::folder::{self, FolderError};
use crate::outcome::Outcome;

/// Disjoint ranges of seeds in which each bug must be found.
pub const RANGES: u64 = 3;

/// Distance of the ranges.
const RANGE_SEEDS: u64 = 1_000_000;

/// Runs of a range even when the bug is found at once, so that the clean build is tried with the same shape.
const SEEDS_MIN: u64 = 4;

/// Failures without a bug after which a range or a control is given up.
const CLEAN_FAILURES_MAX: usize = 5;

/// The n-th seed of a range, from 0.
pub fn seed_of(range: u64, n: u64) -> u64 {
    1 + range * RANGE_SEEDS + n
}

/// How to hunt.
pub struct Hunt {
    /// Runs per bug and range, and per control.
    pub seeds: u64,
    /// Worker threads.
    pub jobs: usize,
    /// A run that takes longer hangs.
    pub stall: Duration,
    /// The bugs and controls to try, by name; all when empty.
    pub only: BTreeSet<String>,
    /// Makes the options of a seed.
    pub draw: Draw,
    /// Runs one.
    pub run: Run,
    /// Where the folders of clean runs that fail go.
    pub out: PathBuf,
}

/// What one run says about a bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing was noticed.
    Unharmed,
    /// A listed invariant was violated, and no unlisted one before it.
    Killed,
    /// An unlisted invariant was violated first.
    WrongReason(String),
    /// Only invariants fired that may fire beside a listed one.
    Beside,
    /// The run broke and no invariant noticed.
    Lethal,
}

/// Judges the run of a seeded bug.
pub fn judge(mutant: &Mutant, outcome: &Outcome) -> Judgement {
    let mut listed: Option<u64> = None;
    let mut unlisted: Option<(u64, &str)> = None;
    for (invariant, judged) in &outcome.verdict {
        let name = invariant.as_str();
        let Some(line) = judged.violations.iter().map(|v| v.line).min() else {
            continue;
        };
        if mutant.killers.contains(&name) {
            listed = Some(listed.map_or(line, |first| first.min(line)));
        } else if !mutant.beside.contains(&name) {
            let found = (line, name);
            unlisted = Some(unlisted.map_or(found, |first| first.min(found)));
        }
    }
    match (listed, unlisted) {
        (None, Some((_, name))) => Judgement::WrongReason(name.to_owned()),
        (Some(line), Some((before, name))) if before < line => {
            Judgement::WrongReason(name.to_owned())
        }
        (Some(_), _) => Judgement::Killed,
        (None, None) if outcome.violated().next().is_some() => Judgement::Beside,
        (None, None) if outcome.broken.is_some() => Judgement::Lethal,
        (None, None) => Judgement::Unharmed,
    }
}

/// How a bug was found in one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// In the run of this seed.
    pub seed: u64,
    /// Runs up to it, itself included.
    pub seeds: u64,
    /// Simulated milliseconds up to it.
    pub simulated_ms: u64,
    /// Every invariant that was violated.
    pub fired: Vec<String>,
}

/// A run without a bug that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanFailure {
    /// Its seed.
    pub seed: u64,
    /// What it is called.
    pub failure: String,
    /// Its folder.
    pub folder: PathBuf,
}

/// What became of a bug.
#[derive(Clone, Debug)]
pub struct MutantReport {
    /// The bug.
    pub mutant: &'static Mutant,
    /// Per range: how it was found, or that it survived.
    pub kills: Vec<Option<Kill>>,
    /// Runs in which an unlisted invariant fired first.
    pub wrong_reasons: Vec<(u64, String)>,
    /// Runs that broke unnoticed by an invariant.
    pub lethal_runs: u64,
    /// Runs with the bug.
    pub runs: u64,
    /// Runs without the bug that reached what it needs.
    pub needs_reached: u64,
    /// Listed invariants that fired in a run that counts.
    pub killed_by: BTreeSet<String>,
    /// Runs without the bug that failed.
    pub clean_failures: Vec<CleanFailure>,
    /// A seed that hangs, with the bug or without.
    pub hangs: Option<u64>,
}

impl MutantReport {
    /// Found in every range, for a listed reason only, and the clean build passed.
    pub fn is_green(&self) -> bool {
        self.kills.iter().all(Option::is_some)
            && self.wrong_reasons.is_empty()
            && self.clean_failures.is_empty()
            && self.hangs.is_none()
    }

    /// The median of the runs to find it; none if it survived a range.
    pub fn median_seeds(&self) -> Option<u64> {
        self.median(|kill| kill.seeds)
    }

    /// The median of the simulated milliseconds to find it; none if it survived a range.
    pub fn median_simulated_ms(&self) -> Option<u64> {
        self.median(|kill| kill.simulated_ms)
    }

    fn median(&self, figure: impl Fn(&Kill) -> u64) -> Option<u64> {
        let all: Option<Vec<u64>> = self.kills.iter().map(|k| k.as_ref().map(&figure)).collect();
        let mut all = all?;
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }
}

/// What became of a control.
#[derive(Clone, Debug)]
pub struct ControlReport {
    /// The control.
    pub control: &'static Control,
    /// Runs.
    pub runs: u64,
    /// Runs that contained the situation.
    pub contained: u64,
    /// Runs that were flagged.
    pub failures: Vec<CleanFailure>,
    /// A seed that hangs.
    pub hangs: Option<u64>,
}

impl ControlReport {
    /// The situation occurred and was not flagged.
    pub fn is_green(&self) -> bool {
        self.contained > 0 && self.failures.is_empty() && self.hangs.is_none()
    }
}

/// What a hunt came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// Runs per bug and range, and per control.
    pub seeds: u64,
    /// The bugs, in the order of the table.
    pub mutants: Vec<MutantReport>,
    /// The controls.
    pub controls: Vec<ControlReport>,
    /// Invariants that found no bug. Judged only when every bug was tried.
    pub idle: Vec<&'static str>,
}

impl Report {
    /// Nothing survived, nothing was flagged without need and no invariant is idle.
    pub fn is_green(&self) -> bool {
        self.mutants.iter().all(MutantReport::is_green)
            && self.controls.iter().all(ControlReport::is_green)
            && self.idle.is_empty()
    }
}

impl Hunt {
    /// Tries every wanted bug and control. `watch` is called with the name of what was tried and whether all is well with it.
    ///
    /// # Errors
    /// A failure folder that cannot be written.
    pub fn hunt(&self, watch: &mut dyn FnMut(&str, bool)) -> Result<Report, FolderError> {
        let is_wanted = |id: &str| self.only.is_empty() || self.only.contains(id);
        let mut report = Report {
            seeds: self.seeds,
            mutants: Vec::new(),
            controls: Vec::new(),
            idle: Vec::new(),
        };
        for mutant in MUTANTS.iter().filter(|mutant| is_wanted(mutant.id)) {
            let tried = self.try_mutant(mutant)?;
            watch(mutant.id, tried.is_green());
            report.mutants.push(tried);
        }
        for control in CONTROLS.iter().filter(|control| is_wanted(control.id)) {
            let tried = self.try_control(control)?;
            watch(control.id, tried.is_green());
            report.controls.push(tried);
        }
        if self.only.is_empty() {
            report.idle = self.idle_invariants(&mut report.mutants);
        }
        Ok(report)
    }

    fn plan(&self, range: u64) -> Plan {
        Plan {
            from: seed_of(range, 0),
            seeds: self.seeds,
            jobs: self.jobs,
            time: None,
            stall: self.stall,
        }
    }

    fn try_mutant(&self, mutant: &'static Mutant) -> Result<MutantReport, FolderError> {
        let mut report = MutantReport {
            mutant,
            kills: Vec::new(),
            wrong_reasons: Vec::new(),
            lethal_runs: 0,
            runs: 0,
            needs_reached: 0,
            killed_by: BTreeSet::new(),
            clean_failures: Vec::new(),
            hangs: None,
        };
        for range in 0..RANGES {
            self.try_range(range, &mut report)?;
        }
        Ok(report)
    }

    fn try_range(&self, range: u64, report: &mut MutantReport) -> Result<(), FolderError> {
        let (mutant, run, draw) = (report.mutant, self.run, self.draw);
        let both = move |seed: u64| {
            let seeded = run_seed(run, &mutant.options(draw(seed), true));
            let clean = run_seed(run, &mutant.options(draw(seed), false));
            (seeded, clean)
        };
        let mut kill = None;
        let (mut seeds, mut simulated_ms) = (0, 0);
        let mut unwritten = None;
        let ended = work(self.plan(range), both, |seed, (seeded, clean)| {
            seeds += 1;
            simulated_ms += seeded.simulated_ms;
            let judgement = report.take(&seeded);
            report.needs_reached += u64::from(has_reached(&clean, mutant.needs));
            if let Err(error) = self.flag(&clean, &mut report.clean_failures) {
                unwritten = Some(error);
                return ControlFlow::Break(());
            }
            if judgement == Judgement::Killed && kill.is_none() {
                kill = Some(Kill {
                    seed,
                    seeds,
                    simulated_ms,
                    fired: seeded.violated().map(str::to_owned).collect(),
                });
            }
            let is_hopeless = report.clean_failures.len() >= CLEAN_FAILURES_MAX;
            match is_hopeless || (kill.is_some() && seeds >= SEEDS_MIN) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if let Ended::Hangs(seed) = ended {
            report.hangs = Some(seed);
        }
        report.kills.push(kill);
        unwritten.map_or(Ok(()), Err)
    }

    /// Notes a run without a bug if it failed.
    fn flag(&self, clean: &Outcome, failures: &mut Vec<CleanFailure>) -> Result<(), FolderError> {
        if let Some(failure) = folder::failure(clean) {
            let folder = folder::write(&self.out, clean)?;
            let seed = clean.options.seed;
            failures.push(CleanFailure {
                seed,
                failure,
                folder,
            });
        }
        Ok(())
    }

    fn try_control(&self, control: &'static Control) -> Result<ControlReport, FolderError> {
        let mut report = ControlReport {
            control,
            runs: 0,
            contained: 0,
            failures: Vec::new(),
            hangs: None,
        };
        let (run, draw) = (self.run, self.draw);
        let one = move |seed: u64| run_seed(run, &control.options(draw(seed)));
        let mut unwritten = None;
        let ended = work(self.plan(0), one, |_, outcome| {
            report.runs += 1;
            report.contained += u64::from(has_reached(&outcome, control.goal));
            match self.flag(&outcome, &mut report.failures) {
                Ok(()) if report.failures.len() >= CLEAN_FAILURES_MAX => ControlFlow::Break(()),
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    unwritten = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        if let Ended::Hangs(seed) = ended {
            report.hangs = Some(seed);
        }
        unwritten.map_or(Ok(report), Err)
    }

    /// The invariants that found nothing, after a longer look at the bugs they are listed for.
    fn idle_invariants(&self, mutants: &mut [MutantReport]) -> Vec<&'static str> {
        let mut idle = Vec::new();
        for invariant in INVARIANTS {
            let has_killed = |report: &MutantReport| report.killed_by.contains(invariant);
            let is_busy = mutants.iter().any(has_killed)
                || mutants.iter_mut().any(|report| {
                    report.mutant.killers.contains(&invariant) && self.pursue(report, invariant)
                });
            if !is_busy {
                idle.push(invariant);
            }
        }
        idle
    }

    /// Runs a bug until one invariant fires in a run that counts.
    fn pursue(&self, report: &mut MutantReport, invariant: &str) -> bool {
        let (mutant, run, draw) = (report.mutant, self.run, self.draw);
        let one = move |seed: u64| run_seed(run, &mutant.options(draw(seed), true));
        let ended = work(self.plan(0), one, |_, outcome| {
            report.take(&outcome);
            match report.killed_by.contains(invariant) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        if let Ended::Hangs(seed) = ended {
            report.hangs = Some(seed);
        }
        report.killed_by.contains(invariant)
    }
}

impl MutantReport {
    /// Takes one run with the bug.
    fn take(&mut self, seeded: &Outcome) -> Judgement {
        self.runs += 1;
        let judgement = judge(self.mutant, seeded);
        match &judgement {
            Judgement::Killed => {
                let is_listed = |name: &&str| self.mutant.killers.contains(name);
                let fired = seeded.violated().filter(is_listed).map(str::to_owned);
                self.killed_by.extend(fired);
            }
            Judgement::WrongReason(invariant) => {
                let found = (seeded.options.seed, invariant.clone());
                if !self.wrong_reasons.contains(&found) {
                    self.wrong_reasons.push(found);
                }
            }
            Judgement::Lethal => self.lethal_runs += 1,
            Judgement::Unharmed | Judgement::Beside => {}
        }
        judgement
    }
}

fn has_reached(outcome: &Outcome, goal: &str) -> bool {
    outcome.goals.get(goal).is_some_and(|reached| *reached > 0)
}
