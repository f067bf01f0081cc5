//! A run that simulates nothing: what it reports follows from its options and tape, so that campaigns can be tested alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use holdfast_sim::cli::{Shell, dispatch};
use holdfast_sim::explore::Run;
use holdfast_sim::goals;
use holdfast_sim::matrix::{self, INVARIANTS};
use holdfast_sim::options::Options;
use holdfast_sim::outcome::{Judged, Outcome, Violation};
use holdfast_sim::tape::Tape;
use sha2::{Digest, Sha256};

/// A green run that reaches every goal and finds every bug in about one run of three.
pub(crate) fn good(options: &Options, mut tape: Tape) -> Outcome {
    let drawn: u64 = (0..20).map(|_| tape.between(0, 9)).sum();
    let mut hash = Sha256::new();
    hash.update(format!("{options:?} {:?}", tape.taken()));
    let trace_hash = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    let judged = |name: &str| {
        let judged = Judged {
            evaluated: 1 + drawn,
            violations: Vec::new(),
        };
        (name.to_owned(), judged)
    };
    let mut outcome = Outcome {
        options: options.clone(),
        tape: tape.taken().to_vec(),
        history: b"{\"fake\":true}\n".to_vec(),
        trace_hash,
        verdict: INVARIANTS.iter().map(|name| judged(name)).collect(),
        broken: None,
        goals: goals::ALL.iter().map(|goal| (goal.name, 1)).collect(),
        faults: BTreeMap::from([("crash kill".to_owned(), 3 + drawn % 5)]),
        writes: 40 + drawn,
        eoses: 4 + drawn % 3,
        competing_edits: 1,
        resyncs: BTreeMap::from([("access".to_owned(), 1)]),
        simulated_ms: 1_000 + drawn,
        steps: 900,
    };
    if options.canary {
        violate(&mut outcome, "NO-LOSS", 7);
    }
    if let Some(id) = &options.mutant
        && drawn.is_multiple_of(3)
    {
        let mutant = matrix::find(id).expect("a known bug");
        violate(&mut outcome, mutant.killers[0], 9);
    }
    outcome
}

/// Adds a violation at a line.
pub(crate) fn violate(outcome: &mut Outcome, invariant: &str, line: u64) {
    let judged = outcome.verdict.entry(invariant.to_owned()).or_default();
    judged.violations.push(Violation {
        rule: "AR-SYNC-5a".to_owned(),
        line,
        story: "a change was never sent".to_owned(),
    });
}

/// What a command printed and how it ended.
pub(crate) struct Said {
    pub(crate) exit: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs a command with a fake in the place of the simulator.
pub(crate) fn say(run: Run, args: &[&str]) -> Said {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut shell = Shell {
        run,
        is_for_people: false,
        has_progress: false,
        out: &mut out,
        err: &mut err,
    };
    let words = std::iter::once("holdfast-sim").chain(args.iter().copied());
    let exit = dispatch(words.map(OsString::from), &mut shell);
    Said {
        exit,
        out: String::from_utf8(out).expect("text"),
        err: String::from_utf8(err).expect("text"),
    }
}

/// An empty directory that goes away at the end of the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("a directory for the test");
        Scratch(dir)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
