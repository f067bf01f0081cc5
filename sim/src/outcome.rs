//! What one simulated run leaves behind: its history, its verdict, what it reached and what it cost. Values only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::options::Options;

/// How one invariant fared in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// How often it was really evaluated.
    pub evaluated: u64,
    /// Its violations: rule id, line of the history, the story in plain words.
    pub violations: Vec<Violation>,
}

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The rule.
    pub rule: String,
    /// The line of the history, from 1.
    pub line: u64,
    /// What happened, in plain words.
    pub story: String,
}

/// One finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What it was made of.
    pub options: Options,
    /// Its choices: with the options they repeat it exactly.
    pub tape: Vec<u32>,
    /// The history, one JSON object a line.
    pub history: Vec<u8>,
    /// SHA-256 over every step the run took, in hex; equal runs have equal hashes.
    pub trace_hash: String,
    /// The verdict by invariant, every one that this tier can judge.
    pub verdict: BTreeMap<String, Judged>,
    /// A run that could not be judged or did not come to its end: what was wrong. It is a failure of its own.
    pub broken: Option<String>,
    /// How often each goal was reached; every goal of the catalogue is a key.
    pub goals: BTreeMap<&'static str, u64>,
    /// Faults fired, by family and name.
    pub faults: BTreeMap<String, u64>,
    /// Accepted writes.
    pub writes: u64,
    /// EOSE frames that clients got.
    pub eoses: u64,
    /// Pairs of edits that named the same `prev`.
    pub competing_edits: u64,
    /// `resync:` endings by cause word.
    pub resyncs: BTreeMap<String, u64>,
    /// Simulated milliseconds.
    pub simulated_ms: u64,
    /// Scheduler steps.
    pub steps: u64,
}

impl Outcome {
    /// Whether anything is wrong with it.
    pub fn has_failed(&self) -> bool {
        self.broken.is_some() || self.violated().next().is_some()
    }

    /// The violated invariants, in order.
    pub fn violated(&self) -> impl Iterator<Item = &str> {
        self.verdict
            .iter()
            .filter(|(_, judged)| !judged.violations.is_empty())
            .map(|(invariant, _)| invariant.as_str())
    }
}
