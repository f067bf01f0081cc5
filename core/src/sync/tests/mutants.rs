//! The seeded bugs of the session: each breaks a named invariant in a fixed number of scenes, and none is found without one.

use std::collections::BTreeSet;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::property::{play, scenes};
use crate::seeded::{Mutant, Seeded};

/// Scenes that every bug must be found in.
const SCENES: usize = 1_500;

/// The invariants that are broken in the first scenes.
fn broken_by(seeded: Seeded) -> BTreeSet<&'static str> {
    let mut runner = TestRunner::deterministic();
    let mut found = BTreeSet::new();
    for _ in 0..SCENES {
        let tree = scenes().new_tree(&mut runner).expect("nothing is filtered");
        let (max_events, begin, moves) = tree.current();
        if let Err(breach) = play(max_events, seeded, &begin, &moves) {
            found.insert(breach.invariant);
        }
    }
    found
}

#[test]
fn every_seeded_bug_of_the_session_is_found() {
    assert_eq!(broken_by(Seeded::default()), BTreeSet::new());
    let table = [
        (Mutant::M03, "ORDER"),
        (Mutant::M04, "NO-LOSS"),
        (Mutant::M05, "BOUND"),
        (Mutant::M09, "CUT"),
        (Mutant::M11, "NO-LOSS"),
        (Mutant::M12, "COPY"),
        (Mutant::M13, "SCOPE"),
        (Mutant::M14, "NO-LOSS"),
        (Mutant::M15, "PRIVACY"),
        (Mutant::M16, "NEVER-OLDER"),
        (Mutant::M19, "LOSS"),
        (Mutant::M23, "RETIRE"),
        (Mutant::M24, "ACCESS"),
        (Mutant::M27, "CAUSE"),
    ];
    for (mutant, invariant) in table {
        let found = broken_by(Seeded::with(mutant));
        assert!(
            found.contains(invariant),
            "{mutant:?} breaks {found:?} and not {invariant}"
        );
    }
}
