//! The simulator: several relay nodes, one simulated world, one scheduler, one history, one verdict.
//!
//! What will live here: the stepper (tier A: core and world without any executor, every choice drawn from one tape), the
//! cluster (tier B: the production driver on simulated machines), the explorer and the shrinker, and the `holdfast-sim`
//! binary. What must not: a second copy of a protocol decision, of the simulated store or of the checker.

#[cfg(not(madsim))]
compile_error!(
    "holdfast-sim builds only with --cfg madsim, which .cargo/config.toml sets: an exported RUSTFLAGS hides that file, unset it"
);

pub mod canary;
pub mod cli;
pub mod explore;
pub mod folder;
pub mod goals;
pub mod matrix;
pub mod options;
pub mod outcome;
pub mod stepper;
pub mod tape;
