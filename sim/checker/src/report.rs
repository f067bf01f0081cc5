//! What the judges found.
//!
//! What belongs here: counting and keeping. What must not: how a report is printed.

use crate::format::Header;
use crate::invariant::Invariant;

/// Violations kept per invariant; further ones are only counted.
const KEPT_MAX: usize = 20;

/// One violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// The rule of the protocol that is broken.
    pub rule: &'static str,
    /// Line of the file, from 1, at which it shows.
    pub line: usize,
    /// What happened in order, and what the rule wants; a sentence each.
    pub story: Vec<String>,
}

/// What became of one invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was looked at, [`Verdict::evaluated`] times, and holds. Zero times says nothing.
    Evaluated,
    /// The tier cannot judge it.
    NotApplicable,
    /// It was broken.
    Violated,
}

/// The verdict on one invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The invariant.
    pub invariant: Invariant,
    /// What became of it.
    pub status: Status,
    /// How often the history gave occasion to break it.
    pub evaluated: u64,
    /// How many violations there are.
    pub found: u64,
    /// The first of them, in the order of the judge.
    pub violations: Vec<Violation>,
}

/// The verdicts on a history, one per invariant in the order of [`Invariant::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The verdicts.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// The verdict on one invariant.
    pub fn of(&self, invariant: Invariant) -> &Verdict {
        let found = self
            .verdicts
            .iter()
            .find(|verdict| verdict.invariant == invariant);
        found.expect("a report has a verdict on every invariant")
    }

    /// The invariants that were broken.
    pub fn violated(&self) -> Vec<Invariant> {
        let broken = self
            .verdicts
            .iter()
            .filter(|verdict| verdict.status == Status::Violated);
        broken.map(|verdict| verdict.invariant).collect()
    }
}

/// Takes down what one judge says.
pub(crate) struct Bench {
    verdict: Verdict,
}

impl Bench {
    pub(crate) fn new(header: &Header, invariant: Invariant) -> Bench {
        let judged = header.judges.contains(&invariant);
        let status = if judged {
            Status::Evaluated
        } else {
            Status::NotApplicable
        };
        let (evaluated, found, violations) = (0, 0, Vec::new());
        Bench {
            verdict: Verdict {
                invariant,
                status,
                evaluated,
                found,
                violations,
            },
        }
    }

    /// The history gave this many occasions.
    pub(crate) fn count(&mut self, times: usize) {
        self.verdict.evaluated += times as u64;
    }

    /// A violation.
    pub(crate) fn violated<const N: usize>(
        &mut self,
        rule: &'static str,
        line: usize,
        story: [String; N],
    ) {
        let verdict = &mut self.verdict;
        verdict.status = Status::Violated;
        verdict.found += 1;
        if verdict.violations.len() < KEPT_MAX {
            let (invariant, story) = (verdict.invariant, story.into());
            verdict.violations.push(Violation {
                invariant,
                rule,
                line,
                story,
            });
        }
    }

    pub(crate) fn judged(&self) -> bool {
        self.verdict.status != Status::NotApplicable
    }

    pub(crate) fn verdict(self) -> Verdict {
        self.verdict
    }
}
