//! The seeded bugs, which invariants must find each, and what a run needs for it. A table.

use super::shape::{
    access, entering_and_leaving, many_pages, moving, only, quick, redacting, sweeping, two_nodes,
};
use crate::goals;
use crate::options::{Family, Options};

/// A seeded bug.
#[derive(Debug)]
pub struct Mutant {
    /// Its name in [`Options::mutant`].
    pub id: &'static str,
    /// What is wrong.
    pub bug: &'static str,
    /// The goal that a run must reach for the bug to show.
    pub needs: &'static str,
    /// The invariants that count as finding it.
    pub killers: &'static [&'static str],
    /// Invariants that may fire as well, also before; alone they do not count.
    pub beside: &'static [&'static str],
    /// Whether it is a bug of the sweep or beside it. The sweep is off for every other one, lest it hides a missing resync.
    pub has_sweep: bool,
    /// What the runs are narrowed to.
    pub shape: fn(&mut Options),
}

impl Mutant {
    /// The options of one run, with the bug or without.
    pub fn options(&self, drawn: Options, is_seeded: bool) -> Options {
        let mut options = drawn;
        options.sweep_interval_ms = 0;
        (self.shape)(&mut options);
        options.mutant = is_seeded.then(|| self.id.to_owned());
        options
    }
}

/// The bug of a name.
pub fn find(id: &str) -> Option<&'static Mutant> {
    MUTANTS.iter().find(|mutant| mutant.id == id)
}

const DIGEST: &[&str] = &["DIGEST"];

/// Every seeded bug.
pub static MUTANTS: &[Mutant] = &[
    Mutant {
        id: "M01",
        bug: "The snapshot opens before the bus confirmed the interest.",
        needs: goals::CONFIRM_GAP_COMMIT,
        killers: &["NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[Family::BusMessages]);
            two_nodes(o);
        },
    },
    Mutant {
        id: "M02",
        bug: "The bus connection is not looked at again between confirmation and snapshot.",
        needs: goals::BUS_LOST_WHILE_REGISTERING,
        killers: &["NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[Family::BusConnection]);
            o.snapshots = 1;
            o.syncers = 4;
        },
    },
    Mutant {
        id: "M03",
        bug: "A live entry is sent straight through before EOSE.",
        needs: goals::CHANGE_HELD,
        killers: &["ORDER"],
        beside: &[],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            many_pages(o);
        },
    },
    Mutant {
        id: "M04",
        bug: "What was held during the read is forgotten at EOSE.",
        needs: goals::CHANGE_HELD,
        killers: &["NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            many_pages(o);
        },
    },
    Mutant {
        id: "M05",
        bug: "Too many held artifacts: the oldest is dropped and the sync goes on.",
        needs: goals::HELD_OVERFLOW,
        killers: &["NO-LOSS", "BOUND"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            entering_and_leaving(o);
            o.artifacts = 8;
            o.max_events = 2;
            o.page_rows = 1;
        },
    },
    Mutant {
        id: "M06",
        bug: "Each page reads a snapshot of its own.",
        needs: goals::PAGE_BORDER_CHANGE,
        killers: &["CUT"],
        beside: &[],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            many_pages(o);
            o.workload.relocate = 4;
            o.workload.update = 14;
        },
    },
    Mutant {
        id: "M07",
        bug: "The first row after the border of a page is skipped.",
        needs: goals::MANY_PAGES,
        killers: &["CUT"],
        beside: &["NO-LOSS", "DIGEST"],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            many_pages(o);
        },
    },
    Mutant {
        id: "M08",
        bug: "Reads are served by a replica that lags.",
        needs: goals::REQ_AFTER_OK,
        killers: &["FRESH"],
        beside: &["NO-LOSS", "DIGEST", "NEVER-OLDER"],
        has_sweep: false,
        shape: |o| only(o, &[]),
    },
    Mutant {
        id: "M09",
        bug: "A failed or late read sends EOSE on a partial set.",
        needs: goals::SNAPSHOT_LOST,
        killers: &["CUT", "BOUND"],
        beside: &["NO-LOSS", "DIGEST"],
        has_sweep: false,
        shape: |o| {
            only(o, &[Family::StoreReads, Family::Readers]);
            many_pages(o);
            o.budget_ms = o.budget_ms.min(200);
        },
    },
    Mutant {
        id: "M10",
        bug: "The revision that was announced is sent instead of the head.",
        needs: goals::LATE_SIGNAL,
        killers: &["NEVER-OLDER"],
        beside: &["NO-LOSS", "DIGEST"],
        has_sweep: false,
        shape: |o| {
            only(o, &[Family::BusMessages]);
            quick(o);
        },
    },
    Mutant {
        id: "M11",
        bug: "A head that no longer matches is suppressed.",
        needs: goals::LEAVING_HEAD,
        killers: &["NO-LOSS", "DIGEST"],
        beside: &[],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            entering_and_leaving(o);
        },
    },
    Mutant {
        id: "M12",
        bug: "Only the initial set counts as before.",
        needs: goals::ENTERED_LIVE_THEN_LEFT,
        killers: &["NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            entering_and_leaving(o);
        },
    },
    Mutant {
        id: "M13",
        bug: "Heads that never matched are sent.",
        needs: goals::NEVER_MATCHING_SILENT,
        killers: &["SCOPE"],
        beside: &[],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            entering_and_leaving(o);
        },
    },
    Mutant {
        id: "M14",
        bug: "A move to an unreadable channel sends nothing.",
        needs: goals::MOVE_OUT_UNREADABLE,
        killers: &["NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            moving(o);
        },
    },
    Mutant {
        id: "M15",
        bug: "A move to an unreadable channel sends the new head.",
        needs: goals::MOVE_OUT_UNREADABLE,
        killers: &["PRIVACY"],
        beside: &[],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            moving(o);
        },
    },
    Mutant {
        id: "M16",
        bug: "Two reads of one artifact run at once, and the older result is queued last.",
        needs: goals::CHANGED_DURING_HEAD_READ,
        killers: &["NEVER-OLDER"],
        beside: &["NO-LOSS", "DIGEST"],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            quick(o);
        },
    },
    Mutant {
        id: "M17",
        bug: "The bus connection comes back and subscribes again in silence.",
        needs: goals::COMMIT_WHILE_BUS_LOST,
        killers: &["LOSS->RESYNC", "NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| only(o, &[Family::BusConnection]),
    },
    Mutant {
        id: "M18",
        bug: "A full queue of signals and an unreadable message are ignored.",
        needs: goals::LAGGED,
        killers: &["LOSS->RESYNC"],
        beside: &["NO-LOSS", "DIGEST"],
        has_sweep: false,
        shape: |o| only(o, &[Family::BusMessages]),
    },
    Mutant {
        id: "M19",
        bug: "A failed look-up counts as unreadable, and nothing is sent.",
        needs: goals::LOOKUP_FAILED,
        killers: &["LOSS->RESYNC", "NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| only(o, &[Family::StoreReads]),
    },
    Mutant {
        id: "M20",
        bug: "A CLOSED that finds no room is dropped, and the connection stays open.",
        needs: goals::CLOSED_NOT_QUEUED,
        killers: &["LOSS->RESYNC", "NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[Family::Readers, Family::BusConnection]);
            o.queue_frames = 1;
            o.syncers = 4;
        },
    },
    Mutant {
        id: "M21",
        bug: "A publish is given up after three tries.",
        needs: goals::PUBLISH_RETRIED_OFTEN,
        killers: &["LIVE", "NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[Family::BusConnection]);
            two_nodes(o);
        },
    },
    Mutant {
        id: "M22",
        bug: "Changes are published before they are committed.",
        needs: goals::HEAD_READ_BEFORE_PUBLISH,
        killers: &["NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            quick(o);
        },
    },
    Mutant {
        id: "M23",
        bug: "Redacting a head sends no resync.",
        needs: goals::RETIRED_IN_COPY,
        killers: &["RETIRE"],
        beside: &["NEVER-OLDER", "DIGEST"],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            redacting(o);
        },
    },
    Mutant {
        id: "M24",
        bug: "Loss of access only stops delivery.",
        needs: goals::ACCESS_LOST,
        killers: &["ACCESS->RESYNC"],
        beside: &["PRIVACY", "DIGEST"],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            access(o);
        },
    },
    Mutant {
        id: "M25",
        bug: "The head is checked and written without one atomic step: both rivals are accepted.",
        needs: goals::COMPETING_EDITS,
        killers: &["CHAIN"],
        beside: &[],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            quick(o);
        },
    },
    Mutant {
        id: "M27",
        bug: "The held bound counts changes, not artifacts.",
        needs: goals::HELD_TWICE,
        killers: &["CAUSE"],
        beside: &[],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            quick(o);
            o.artifacts = 2;
            o.max_events = 2;
            o.page_rows = 1;
        },
    },
    Mutant {
        id: "M39",
        bug: "The client takes events before EOSE into its set.",
        needs: goals::DROPPED_BEFORE_EOSE,
        killers: &["CLIENT", "DIGEST"],
        beside: &[],
        has_sweep: false,
        shape: |o| {
            only(o, &[Family::Readers, Family::Hostile]);
            many_pages(o);
        },
    },
    Mutant {
        id: "M42",
        bug: "CLOSE and a lost connection leave the snapshot open.",
        needs: goals::CLOSE_WHILE_READING,
        killers: &["CLEAN", "BOUND"],
        beside: &["LIVE"],
        has_sweep: false,
        shape: |o| {
            only(o, &[Family::Readers, Family::Hostile]);
            many_pages(o);
            // Places for every snapshot, and no budget that would close what was left open.
            o.snapshots = 64;
            o.budget_ms = 600_000;
        },
    },
    Mutant {
        id: "M48",
        bug: "A move's arrival and removal are two transactions.",
        needs: goals::MOVE_OUT_UNREADABLE,
        killers: &["ATOMIC", "NO-LOSS"],
        beside: DIGEST,
        has_sweep: false,
        shape: |o| {
            only(o, &[Family::Crash, Family::StoreCommits]);
            moving(o);
        },
    },
    Mutant {
        id: "MX1",
        bug: "Every sync is resynced on a timer.",
        needs: goals::LIVE_UPDATE,
        killers: &["CAUSE"],
        beside: &[],
        has_sweep: false,
        shape: |o| only(o, &[]),
    },
    Mutant {
        id: "MX2",
        bug: "The sweep remembers the oldest open transaction and skips what committed late.",
        needs: goals::COMMIT_OUT_OF_ORDER,
        killers: &["NO-LOSS"],
        beside: DIGEST,
        has_sweep: true,
        shape: |o| {
            only(o, &[Family::StoreCommits, Family::Crash]);
            sweeping(o);
            two_nodes(o);
            o.fault_percent = 14;
        },
    },
    Mutant {
        id: "MX3",
        bug: "With the sweep on, a loss of the bus does not resync.",
        needs: goals::BUS_LOST_WHILE_LIVE,
        killers: &["LOSS->RESYNC"],
        beside: &[],
        has_sweep: true,
        shape: |o| {
            only(o, &[Family::BusConnection]);
            sweeping(o);
        },
    },
    Mutant {
        id: "MX4",
        bug: "The cause words of two endings are exchanged.",
        needs: goals::ACCESS_LOST,
        killers: &["CAUSE"],
        beside: &[],
        has_sweep: false,
        shape: |o| {
            only(o, &[]);
            access(o);
            redacting(o);
        },
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::matrix::INVARIANTS;

    #[test]
    fn every_invariant_is_meant_to_find_a_bug_and_nothing_else_is_listed() {
        let killers: BTreeSet<&str> = MUTANTS.iter().flat_map(|m| m.killers).copied().collect();
        assert_eq!(killers, BTreeSet::from(INVARIANTS));
        for mutant in MUTANTS {
            let listed = mutant.killers.iter().chain(mutant.beside);
            assert!(listed.clone().all(|name| INVARIANTS.contains(name)));
            let distinct: BTreeSet<_> = listed.clone().collect();
            assert_eq!(distinct.len(), listed.count(), "{}", mutant.id);
            assert!(goals::ALL.iter().any(|goal| goal.name == mutant.needs));
        }
        let names: BTreeSet<&str> = MUTANTS.iter().map(|m| m.id).collect();
        assert_eq!(names.len(), MUTANTS.len());
    }

    #[test]
    fn the_sweep_is_off_but_for_its_own_bugs_and_the_clean_run_is_alike() {
        for mutant in MUTANTS {
            for seed in 0..40 {
                let seeded = mutant.options(Options::draw(seed), true);
                let clean = mutant.options(Options::draw(seed), false);
                assert_eq!(
                    seeded.sweep_interval_ms > 0,
                    mutant.has_sweep,
                    "{}",
                    mutant.id
                );
                assert_eq!(seeded.mutant.as_deref(), Some(mutant.id));
                assert_eq!(
                    Options {
                        mutant: None,
                        ..seeded
                    },
                    clean
                );
            }
        }
    }
}
