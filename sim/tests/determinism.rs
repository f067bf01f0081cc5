//! Equal seeds give equal runs: in two processes, alone and among others, with one thread and with many. Everything else that is
//! said about a seed rests on it, so it is tested first.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use holdfast_sim::explore::run_seed;
use holdfast_sim::options::Options;
use holdfast_sim::stepper;
use serde_json::Value;

/// Seeds that are compared; each draws other faults and limits.
const SEEDS: u64 = 8;

fn sim(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_holdfast-sim");
    let mut command = Command::new(program);
    command.args(args).current_dir(env!("CARGO_TARGET_TMPDIR"));
    command.output().expect("the simulator starts")
}

fn json(output: &Output) -> Value {
    let told = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a seed in a process of its own.
fn alone(seed: u64, name: &str) -> (Value, Vec<u8>) {
    let history = scratch(name);
    let path = history.display().to_string();
    let seed = seed.to_string();
    let output = sim(&["run", "--seed", &seed, "--history", &path]);
    let bytes = std::fs::read(&history).expect("a history");
    let _ = std::fs::remove_file(&history);
    (json(&output), bytes)
}

#[test]
fn a_seed_is_the_same_run_in_two_processes_and_as_the_last_of_many() {
    let mut many: Vec<_> = (1..=SEEDS)
        .map(|seed| run_seed(stepper::run, &Options::draw(seed)))
        .collect();
    let nth = many.pop().expect("at least one seed");
    let (first, first_history) = alone(SEEDS, "determinism-1.jsonl");
    let (second, second_history) = alone(SEEDS, "determinism-2.jsonl");
    assert_eq!(first, second);
    assert!(first_history == second_history, "two histories differ");
    assert_eq!(first["verdict"]["trace_hash"], nth.trace_hash);
    assert!(
        first_history == nth.history,
        "the history of the n-th run differs"
    );
    assert_eq!((nth.trace_hash.len(), nth.broken.as_deref()), (64, None));
    assert!(!nth.history.is_empty());
}

#[test]
fn seeds_are_different_runs() {
    let hashes = (1..=SEEDS).map(|seed| run_seed(stepper::run, &Options::draw(seed)).trace_hash);
    let distinct: std::collections::BTreeSet<String> = hashes.collect();
    assert_eq!(distinct.len() as u64, SEEDS);
}

#[test]
fn a_recorded_tape_is_the_same_run() {
    let options = Options::draw(3);
    let drawn = run_seed(stepper::run, &options);
    let other_seed = holdfast_sim::tape::Tape::replay(99, drawn.tape.clone());
    let played = stepper::run(&options, other_seed);
    assert_eq!(played.trace_hash, drawn.trace_hash);
    assert!(
        played.history == drawn.history,
        "the history of the tape differs"
    );
}

#[test]
fn one_thread_and_many_come_to_the_same_summary() {
    let out = scratch("determinism-failures").display().to_string();
    let summary = |jobs: &str| {
        let seeds = (SEEDS * 4).to_string();
        let mut summary = json(&sim(&[
            "explore", "--seeds", &seeds, "--jobs", jobs, "--out", &out,
        ]));
        let object = summary.as_object_mut().expect("a JSON object");
        object.remove("speed").expect("speed figures");
        summary.to_string()
    };
    let one = summary("1");
    assert_eq!(one, summary("4"));
    assert!(one.contains(&format!("\"seeds\":{}", SEEDS * 4)));
}
