//! What the rules allow and must not be flagged: a situation, the runs that contain it, and the goal that proves they did.

use super::shape::{entering_and_leaving, many_pages, only, quick, redacting, two_nodes};
use crate::goals;
use crate::options::{Family, Options};

/// A situation that is no violation.
#[derive(Debug)]
pub struct Control {
    /// Its name.
    pub id: &'static str,
    /// What is allowed.
    pub allowed: &'static str,
    /// The goal that shows that a run contained it.
    pub goal: &'static str,
    /// What the runs are narrowed to.
    pub shape: fn(&mut Options),
}

impl Control {
    /// The options of one run. The sweep is off, since it repairs some of these situations.
    pub fn options(&self, drawn: Options) -> Options {
        let mut options = drawn;
        options.sweep_interval_ms = 0;
        (self.shape)(&mut options);
        options
    }
}

/// Every control.
pub static CONTROLS: &[Control] = &[
    Control {
        id: "N1",
        allowed: "A node crashes after a commit and before its publish: that change alone may be missed.",
        goal: goals::COMMIT_PUBLISH_CRASH,
        shape: |o| {
            only(o, &[Family::Crash]);
            two_nodes(o);
        },
    },
    Control {
        id: "N2",
        allowed: "The same head is sent twice.",
        goal: goals::SAME_HEAD_TWICE,
        shape: |o| only(o, &[Family::BusMessages]),
    },
    Control {
        id: "N3",
        allowed: "Intermediate revisions are skipped.",
        goal: goals::REVISIONS_SKIPPED,
        shape: |o| {
            only(o, &[]);
            quick(o);
        },
    },
    Control {
        id: "N4",
        allowed: "Every sync of a node is resynced after one loss.",
        goal: goals::NODE_WIDE_RESYNC,
        shape: |o| {
            only(o, &[Family::BusConnection]);
            o.nodes = 1;
            o.syncers = 4;
        },
    },
    Control {
        id: "N5",
        allowed: "A late retry of an older change sends the current head again.",
        goal: goals::LATE_RETRY,
        shape: |o| {
            only(o, &[Family::BusConnection]);
            quick(o);
            two_nodes(o);
        },
    },
    Control {
        id: "N6",
        allowed: "A held change is already in the snapshot.",
        goal: goals::HELD_ALREADY_IN_SNAPSHOT,
        shape: |o| {
            only(o, &[Family::BusMessages]);
            many_pages(o);
        },
    },
    Control {
        id: "N7",
        allowed: "Publishes that were still being retried are lost because the node stopped.",
        goal: goals::PUBLISH_LOST_BY_STOP,
        shape: |o| {
            only(o, &[Family::BusConnection, Family::Crash]);
            two_nodes(o);
        },
    },
    Control {
        id: "N8",
        allowed: "A new sync waits, or gets an error, while the bus is down.",
        goal: goals::SYNC_WAITS_BUS_DOWN,
        shape: |o| only(o, &[Family::BusConnection]),
    },
    Control {
        id: "N9",
        allowed: "A head that no longer matches is sent for an artifact that was in scope.",
        goal: goals::LEAVING_HEAD,
        shape: |o| {
            only(o, &[]);
            entering_and_leaving(o);
        },
    },
    Control {
        id: "N10",
        allowed: "An old revision is redacted, and nothing is to be seen of it.",
        goal: goals::OLD_REVISION_REDACTED,
        shape: |o| {
            only(o, &[]);
            redacting(o);
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_control_has_a_goal_of_the_catalogue_and_no_bug() {
        assert_eq!(CONTROLS.len(), 10);
        for control in CONTROLS {
            assert!(goals::ALL.iter().any(|goal| goal.name == control.goal));
            let options = control.options(Options::draw(1));
            assert_eq!((options.mutant, options.sweep_interval_ms), (None, 0));
        }
    }
}
