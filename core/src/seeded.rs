//! Seeded protocol bugs, for testing the tests: the simulator and its checker must find each of them (docs/simulation.md).
//!
//! What belongs here: the names of the bugs that live in this crate, and the value that chooses one. The value is part of a
//! configuration, never a global. Without the feature `mutants` it is empty and every question about it is answered no, so
//! that nothing of a bug is left in a relay.

/// True when this crate was built with seeded bugs; a relay refuses to serve then.
pub const IS_COMPILED_IN: bool = cfg!(feature = "mutants");

/// One seeded bug of the core. The numbers are those of docs/mutants.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// The snapshot opens before the bus confirmed the interest.
    M01,
    /// The bus connection is not looked at again between confirmation and snapshot.
    M02,
    /// A live entry is sent straight through before EOSE.
    M03,
    /// What was held during the read is forgotten at EOSE.
    M04,
    /// Too many held artifacts: the oldest is dropped and the sync goes on.
    M05,
    /// A failed or late read sends EOSE on a partial set.
    M09,
    /// The revision that was announced is sent instead of the head.
    M10,
    /// A head that no longer matches is suppressed.
    M11,
    /// Only the initial set counts as "before".
    M12,
    /// Heads that never matched are sent.
    M13,
    /// A move to an unreadable channel sends nothing.
    M14,
    /// A move to an unreadable channel sends the new head.
    M15,
    /// Two reads of one artifact run at once.
    M16,
    /// A failed lookup counts as "not readable", and nothing is sent.
    M19,
    /// A CLOSED that cannot be queued is dropped and the connection stays open.
    M20,
    /// A publish is given up after three tries.
    M21,
    /// Redacting a head sends no resync.
    M23,
    /// Loss of access only stops delivery.
    M24,
    /// The held bound counts changes, not artifacts.
    M27,
    /// CLOSE and disconnect leave the snapshot open.
    M42,
    /// Every sync is resynced on a timer.
    MX1,
    /// With the sweep on, a loss of the bus does not resync.
    MX3,
    /// Cause words are exchanged.
    MX4,
}

/// Which bug is seeded, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seeded {
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

impl Seeded {
    /// Seeds one bug.
    #[cfg(feature = "mutants")]
    pub fn with(mutant: Mutant) -> Seeded {
        Seeded {
            mutant: Some(mutant),
        }
    }

    /// Whether this bug is the seeded one.
    #[cfg(feature = "mutants")]
    pub fn is(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether this bug is the seeded one; never, in this build.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub fn is(self, _mutant: Mutant) -> bool {
        false
    }
}
