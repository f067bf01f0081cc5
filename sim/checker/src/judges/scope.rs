//! SCOPE: a live entry is about an artifact that is in scope before or after the change, and a removal is sent only where the
//! head cannot be (AR-SYNC-3b, 3d, 3g to 3l).

use crate::replay::Story;
use crate::replay::copies::{Entry, LiveStep};
use crate::replay::ledger::K;
use crate::replay::scopes::matches;
use crate::replay::syncs::Sync;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (sync, copy) in story.syncs.iter().zip(&story.copies) {
        for step in &copy.steps {
            bench.count(1);
            look(story, bench, sync, step);
        }
    }
}

fn look(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>, step: &LiveStep<'_>) {
    let line = story.line(step.at);
    let (d, id) = (step.d, step.id);
    let after = matches!(step.entry, Entry::Head(rev) if matches(sync.filter, &story.ledger.revisions[rev]));
    let removal = matches!(step.entry, Entry::Marker);
    if step.before.is_none() && !after && !matches!(step.entry, Entry::Unknown) {
        let what = if removal { "a removal of" } else { "a head of" };
        bench.violated(
            "AR-SYNC-3j",
            line,
            [
                format!("{} got {id}, {what} {d}.", super::name(sync)),
                format!("Its copy does not hold {d}, and the event does not match its filter."),
                "Nothing is sent about an artifact in scope neither before nor after the change."
                    .to_owned(),
            ],
        );
    }
    if removal {
        let stored = story.ledger.markers[id].k;
        let (from, to) = (stored.max(step.seen), story.ledger.possible(step.at));
        if from <= to && !out_of_reach(story, sync, d, from, to) {
            bench.violated(
                "AR-SYNC-3b",
                line,
                [
                    format!(
                        "{} got a removal of {d} (commit {stored}).",
                        super::name(sync)
                    ),
                    "Its reader could read the channel of the current head all the time since."
                        .to_owned(),
                    "A readable head is sent itself; a removal is for heads that cannot be read."
                        .to_owned(),
                ],
            );
        }
    }
}

/// Whether the head of the artifact was out of this sync's reach at some commit of the period.
fn out_of_reach(story: &Story<'_>, sync: &Sync<'_>, d: &str, from: K, to: K) -> bool {
    let ledger = &story.ledger;
    let Some(first) = ledger.head(d, from) else {
        return false;
    };
    let chain = ledger.chain(d);
    chain[ledger.order(first)..]
        .iter()
        .map(|&rev| &ledger.revisions[rev])
        .take_while(|head| head.accepted <= to)
        .any(|head| {
            let start = head.accepted.max(from);
            let end = head.replaced.map_or(to, |replaced| (replaced - 1).min(to));
            let hidden = |k| {
                !story
                    .channels
                    .reaches(sync.reader, &sync.filter.h, head.h, k)
            };
            story
                .channels
                .somewhere(sync.reader, head.h, start, end, hidden)
        })
}
