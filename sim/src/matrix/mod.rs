//! Testing the tester: each seeded bug must be found by an invariant that is listed for it, and what the rules allow must not be
//! flagged. The tables, the hunt and the page of results belong here; the bugs themselves live where they are seeded.

mod controls;
mod hunt;
mod page;
mod shape;
mod table;

pub use controls::{CONTROLS, Control};
pub use hunt::{
    CleanFailure, ControlReport, Hunt, Judgement, Kill, MutantReport, RANGES, Report, judge,
    seed_of,
};
pub use page::page;
pub use table::{MUTANTS, Mutant, find};

/// The names of the invariants that a run is judged by.
pub const INVARIANTS: [&str; 18] = [
    "CUT",
    "FRESH",
    "NEVER-OLDER",
    "NO-LOSS",
    "ORDER",
    "SCOPE",
    "PRIVACY",
    "BOUND",
    "LOSS->RESYNC",
    "ACCESS->RESYNC",
    "RETIRE",
    "CHAIN",
    "ATOMIC",
    "CAUSE",
    "CLIENT",
    "DIGEST",
    "CLEAN",
    "LIVE",
];
