//! NO-LOSS: at rest, an open sync has been told of every change in scope, except of those that died with their node before they
//! were announced (AR-SYNC-1e, 5a, 5o).

use crate::replay::Story;
use crate::replay::copies::{Difference, Rest};
use crate::replay::ledger::K;
use crate::replay::owed::{Owed, owed};
use crate::replay::syncs::Sync;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (sync, copy) in story.syncs.iter().zip(&story.copies) {
        let Some(cut) = copy.cut.as_ref() else {
            continue;
        };
        let scope = &story.scopes[sync.scope];
        let mut from = cut.last;
        for rest in &copy.rests {
            bench.count(scope.between(from, rest.k).len());
            from = from.max(rest.k);
            let lost = rest.differences.iter().find_map(|difference| {
                match owed(story, sync, rest, difference) {
                    Some(Owed::Change(k)) => Some((difference, k)),
                    _ => None,
                }
            });
            // What is lost at one rest is lost at each later one.
            if let Some((difference, k)) = lost {
                report(story, bench, sync, rest, difference, k);
                break;
            }
        }
    }
}

fn report(
    story: &Story<'_>,
    bench: &mut Bench,
    sync: &Sync<'_>,
    rest: &Rest<'_>,
    difference: &Difference<'_>,
    k: K,
) {
    let Difference {
        d, held, wanted, ..
    } = *difference;
    let id = |rev: Option<usize>| rev.map_or("nothing", |rev| story.ledger.revisions[rev].id);
    bench.violated(
        "AR-SYNC-5a",
        story.line(rest.at),
        [
            format!(
                "Commit {k} (line {}) changed {d}, which is in the scope of {}.",
                story.line(story.commit_at(k)),
                super::name(sync)
            ),
            format!(
                "At rest the sync is open; its client holds {} of {d} and the set has {}.",
                id(held),
                id(wanted)
            ),
            "A sync that is open and got no resync has received every change in its scope."
                .to_owned(),
        ],
    );
}
