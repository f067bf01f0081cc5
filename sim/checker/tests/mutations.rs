//! History mutations: a valid history with one labelled change. What breaks a rule must be found by the invariant that is about
//! it; what the rules allow must not be flagged.

mod mutants;
mod toy;

use holdfast_checker::{History, Invariant, judge};
use mutants::{ALLOWED, BREAKING, Mutant};
use toy::{Dice, Weather, history};

/// How many different applications of each mutant are judged.
const APPLICATIONS: usize = 12;
/// How many histories are tried to find them.
const SEEDS: u64 = 1_500;

fn sample(seed: u64, calm: bool) -> History {
    let weather = Weather {
        faults: !calm,
        changes: !seed.is_multiple_of(3),
        max_events: 4 + seed % 3,
    };
    history(seed, weather, 300)
}

/// Applies a mutant to one history after another and hands each result to `look`.
fn each(mutant: &Mutant, mut look: impl FnMut(u64, &History)) {
    let mut applied = 0;
    for seed in 0..SEEDS {
        let mut dice = Dice(seed.wrapping_mul(31) + 7);
        if let Some(mutated) = (mutant.apply)(&sample(seed, mutant.calm), &mut dice) {
            look(seed, &mutated);
            applied += 1;
            if applied == APPLICATIONS {
                return;
            }
        }
    }
    panic!(
        "{}: only {applied} applications in {SEEDS} histories",
        mutant.name
    );
}

#[test]
fn what_breaks_a_rule_is_found_by_the_right_invariant() {
    for mutant in BREAKING {
        each(mutant, |seed, mutated| {
            let report = judge(mutated)
                .unwrap_or_else(|error| panic!("{}, seed {seed}: {error}", mutant.name));
            let violated = report.violated();
            let right = violated
                .iter()
                .any(|invariant| mutant.breaks.contains(invariant));
            assert!(
                right,
                "{}, seed {seed}: {violated:?} instead of {:?}",
                mutant.name, mutant.breaks
            );
        });
    }
}

#[test]
fn what_the_rules_allow_is_not_flagged() {
    for mutant in ALLOWED {
        each(mutant, |seed, mutated| {
            let report = judge(mutated)
                .unwrap_or_else(|error| panic!("{}, seed {seed}: {error}", mutant.name));
            let violations: Vec<_> = report
                .verdicts
                .iter()
                .flat_map(|verdict| &verdict.violations)
                .collect();
            assert!(
                violations.is_empty(),
                "{}, seed {seed}: {violations:#?}",
                mutant.name
            );
        });
    }
}

#[test]
fn every_invariant_has_a_mutant() {
    let broken =
        |invariant: &Invariant| BREAKING.iter().any(|mutant| mutant.breaks == [*invariant]);
    let without: Vec<_> = Invariant::ALL
        .into_iter()
        .filter(|invariant| !broken(invariant))
        .collect();
    assert_eq!(
        without,
        [],
        "each of them needs a mutant that only it has to find"
    );
}
