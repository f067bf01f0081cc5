//! One judge per invariant, each with its own reading of the rules.
//!
//! What belongs here: what a rule asks of the story of a run. What must not: the story itself (`replay`), and any judge that
//! asks another one.

mod access_resync;
mod atomic;
mod bound;
mod cause;
mod chain;
mod clean;
mod client;
mod cut;
mod digest;
mod fresh;
mod live;
mod loss_resync;
mod never_older;
mod no_loss;
mod order;
mod privacy;
mod retire;
mod scope;

use crate::invariant::Invariant;
use crate::replay::Story;
use crate::replay::syncs::Sync;
use crate::report::{Bench, Report};

type Judge = fn(&Story<'_>, &mut Bench);

fn judge_of(invariant: Invariant) -> Judge {
    match invariant {
        Invariant::Cut => cut::judge,
        Invariant::Fresh => fresh::judge,
        Invariant::NeverOlder => never_older::judge,
        Invariant::NoLoss => no_loss::judge,
        Invariant::Order => order::judge,
        Invariant::Scope => scope::judge,
        Invariant::Privacy => privacy::judge,
        Invariant::Bound => bound::judge,
        Invariant::LossResync => loss_resync::judge,
        Invariant::AccessResync => access_resync::judge,
        Invariant::Retire => retire::judge,
        Invariant::Chain => chain::judge,
        Invariant::Atomic => atomic::judge,
        Invariant::Cause => cause::judge,
        Invariant::Client => client::judge,
        Invariant::Digest => digest::judge,
        Invariant::Clean => clean::judge,
        Invariant::Live => live::judge,
    }
}

/// Asks every judge that the header admits.
pub(crate) fn all(story: &Story<'_>) -> Report {
    let verdict = |invariant| {
        let mut bench = Bench::new(story.header, invariant);
        if bench.judged() {
            judge_of(invariant)(story, &mut bench);
        }
        bench.verdict()
    };
    Report {
        verdicts: Invariant::ALL.into_iter().map(verdict).collect(),
    }
}

/// How stories call a sync.
fn name(sync: &Sync<'_>) -> String {
    format!(
        "sync {} (subscription {} on connection {}, node {})",
        sync.attempt, sync.sub, sync.conn, sync.node
    )
}
