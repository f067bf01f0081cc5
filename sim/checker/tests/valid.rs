//! Histories of a relay that keeps the rules: no judge may object, and every judge must have had something to look at.

mod toy;

use holdfast_checker::{Invariant, Report, Status, judge};
use toy::{Weather, history};

fn weather(seed: u64) -> Weather {
    Weather {
        faults: !seed.is_multiple_of(3),
        changes: !seed.is_multiple_of(4),
        max_events: 3 + seed % 4,
    }
}

fn explain(report: &Report) -> String {
    let violations = report
        .verdicts
        .iter()
        .flat_map(|verdict| &verdict.violations);
    violations
        .map(|violation| format!("{violation:#?}\n"))
        .collect()
}

#[test]
fn no_judge_objects_to_the_toy_relay() {
    let mut evaluated = [0_u64; Invariant::ALL.len()];
    for seed in 0..400 {
        let history = history(seed, weather(seed), 400);
        let report = judge(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(report.violated(), [], "seed {seed}: {}", explain(&report));
        for (sum, verdict) in evaluated.iter_mut().zip(&report.verdicts) {
            assert_eq!(verdict.status, Status::Evaluated);
            *sum += verdict.evaluated;
        }
    }
    for (invariant, sum) in Invariant::ALL.into_iter().zip(evaluated) {
        assert!(sum > 100, "{invariant} was evaluated {sum} times");
    }
}
