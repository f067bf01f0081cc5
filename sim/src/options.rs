//! What one run is like: topology, limits, workload and fault families, drawn from the seed (swarm) or given. Values and their
//! drawing only.

use serde::{Deserialize, Serialize};

use crate::tape::Tape;

/// A family of faults that a run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// The bus drops, doubles, reorders or delays single messages, and reports what it lost.
    BusMessages,
    /// The bus connection breaks, hangs or is killed, SUBSCRIBE is refused, PUBLISH fails.
    BusConnection,
    /// Reads and snapshots fail, are lost or find no place.
    StoreReads,
    /// Commits of unknown outcome, deadlocks, long foreign transactions, late visibility.
    StoreCommits,
    /// The database fails over and forgets its last commits.
    Failover,
    /// Nodes crash and restart, also between commit and publish.
    Crash,
    /// Nodes pause and their clocks jump.
    Pause,
    /// Readers are slow, stall or are cut off.
    Readers,
    /// Clients repeat ids, close at bad moments and ask for nonsense.
    Hostile,
}

impl Family {
    /// All families.
    pub const ALL: [Family; 9] = [
        Family::BusMessages,
        Family::BusConnection,
        Family::StoreReads,
        Family::StoreCommits,
        Family::Failover,
        Family::Crash,
        Family::Pause,
        Family::Readers,
        Family::Hostile,
    ];

    /// Whether it makes the store or the bus misbehave.
    pub fn is_store_or_bus(self) -> bool {
        matches!(
            self,
            Family::BusMessages
                | Family::BusConnection
                | Family::StoreReads
                | Family::StoreCommits
                | Family::Failover
        )
    }
}

/// How often each sort of write occurs, as weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Workload {
    /// Creates of new or used ids.
    pub create: u32,
    /// Updates, competing ones among them.
    pub update: u32,
    /// Moves.
    pub relocate: u32,
    /// Deletions and restores.
    pub delete: u32,
    /// Redactions of current and old revisions.
    pub redact: u32,
    /// Memberships that begin and end, roles.
    pub membership: u32,
    /// Visibility, archive, rename.
    pub channel: u32,
    /// Deletion of channels.
    pub channel_delete: u32,
    /// Plain messages.
    pub message: u32,
}

/// Everything that a run is made of beside its tape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Options {
    /// Version of this format.
    pub version: u32,
    /// Where the choices come from.
    pub seed: u64,
    /// Scheduler steps before the quiet phase.
    pub steps: u32,
    /// Relay nodes.
    pub nodes: u32,
    /// Channels.
    pub channels: u32,
    /// Artifact ids in play.
    pub artifacts: u32,
    /// Writing keys.
    pub writers: u32,
    /// Syncing clients.
    pub syncers: u32,
    /// Values of the filtered tag in play.
    pub tag_values: u32,
    /// `max_events` of every node.
    pub max_events: u32,
    /// Data frames in a send queue.
    pub queue_frames: u32,
    /// Rows of a page.
    pub page_rows: u32,
    /// Artifacts of a head read.
    pub heads: u32,
    /// Snapshots open at once.
    pub snapshots: u32,
    /// Milliseconds between two sweeps; 0 is off.
    pub sweep_interval_ms: u64,
    /// Milliseconds of the snapshot and delivery budgets.
    pub budget_ms: u64,
    /// Faults in a hundred steps, while a family has something to break.
    pub fault_percent: u32,
    /// The families of this run.
    pub families: Vec<Family>,
    /// The workload.
    pub workload: Workload,
    /// The seeded bug, if any.
    pub mutant: Option<String>,
    /// Leaves one EVENT of a complete initial set out of the history, so that the run must be found wrong.
    pub canary: bool,
}

/// Version of [`Options`].
pub const OPTIONS_VERSION: u32 = 1;

impl Options {
    /// Draws a run for a seed: a subset of the fault families (none of store and bus in at least 30 of 100), small limits, an
    /// uneven workload. The drawing has a tape of its own, so that options can be edited and the run repeated.
    pub fn draw(seed: u64) -> Options {
        let mut tape = Tape::from_seed(seed ^ 0x6f70_7469_6f6e_7331);
        let tape = &mut tape;
        let is_clean = tape.percent(35);
        let families = Family::ALL
            .into_iter()
            .filter(|family| {
                let wanted = tape.percent(45);
                wanted && !(is_clean && family.is_store_or_bus())
            })
            .collect();
        let some = |tape: &mut Tape, percent: u32, weight: u32| {
            if tape.percent(percent) { weight } else { 0 }
        };
        let workload = Workload {
            create: 6,
            update: 8,
            relocate: some(tape, 75, 4),
            delete: some(tape, 75, 3),
            redact: some(tape, 60, 2),
            membership: some(tape, 55, 2),
            channel: some(tape, 55, 2),
            channel_delete: some(tape, 20, 1),
            message: some(tape, 40, 1),
        };
        let artifacts = tape.between(2, 8) as u32;
        Options {
            version: OPTIONS_VERSION,
            seed,
            steps: tape.between(2_600, 4_200) as u32,
            nodes: tape.between(1, 3) as u32,
            channels: tape.between(2, 4) as u32,
            artifacts,
            writers: tape.between(2, 4) as u32,
            syncers: tape.between(2, 4) as u32,
            tag_values: tape.between(1, 3) as u32,
            max_events: if tape.percent(40) {
                tape.between(1, 4) as u32
            } else {
                8
            },
            queue_frames: tape.between(1, 4) as u32,
            page_rows: tape.between(1, 3) as u32,
            heads: tape.between(1, 3) as u32,
            snapshots: tape.between(1, 3) as u32,
            sweep_interval_ms: if tape.percent(35) {
                tape.between(200, 2_000)
            } else {
                0
            },
            budget_ms: if tape.percent(30) {
                tape.between(50, 400)
            } else {
                10_000
            },
            fault_percent: tape.between(1, 8) as u32,
            families,
            workload,
            mutant: None,
            canary: false,
        }
    }

    /// Whether a family belongs to this run.
    pub fn has(&self, family: Family) -> bool {
        self.families.contains(&family)
    }

    /// Free of store and bus faults.
    pub fn is_free_of_store_and_bus_faults(&self) -> bool {
        !self.families.iter().any(|family| family.is_store_or_bus())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_run_and_seeds_draw_different_ones() {
        assert_eq!(Options::draw(3), Options::draw(3));
        let distinct: std::collections::BTreeSet<String> = (0..200)
            .map(|seed| format!("{:?}", Options::draw(seed)))
            .collect();
        assert_eq!(distinct.len(), 200);
    }

    #[test]
    fn three_in_ten_runs_are_free_of_store_and_bus_faults_and_half_are_without_sweep() {
        let runs: Vec<Options> = (0..2_000).map(Options::draw).collect();
        let clean = runs.iter().filter(|o| o.is_free_of_store_and_bus_faults());
        assert!(clean.count() >= 600);
        assert!(runs.iter().filter(|o| o.sweep_interval_ms == 0).count() >= 1_000);
        for family in Family::ALL {
            assert!(runs.iter().any(|o| o.has(family)), "{family:?}");
        }
    }
}
