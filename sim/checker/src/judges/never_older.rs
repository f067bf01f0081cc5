//! NEVER-OLDER: every revision sent was the head when it was read, and heads of one artifact never step back (AR-SYNC-4a, 4d to
//! 4g, 5m, AR-SYNC-REQ-18).

use std::collections::{BTreeMap, BTreeSet};

use crate::format::ReadResult;
use crate::replay::Story;
use crate::replay::copies::{Entry, LiveStep};
use crate::replay::ledger::K;
use crate::replay::syncs::{FrameKind, ReadStep, Sync};
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (sync, copy) in story.syncs.iter().zip(&story.copies) {
        initial(story, bench, sync);
        for step in &copy.steps {
            bench.count(1);
            live(story, bench, sync, step);
        }
        reads(story, bench, sync);
    }
}

/// Before EOSE a repeated artifact must not come older than before, and nothing comes that was never accepted.
fn initial(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>) {
    let mut newest: BTreeMap<&str, K> = BTreeMap::new();
    for frame in &sync.frames {
        let FrameKind::Event {
            kind: 45_010,
            id,
            d,
            h,
            ..
        } = frame.what
        else {
            continue;
        };
        if sync.eose.is_some_and(|eose| frame.at > eose) {
            break;
        }
        bench.count(1);
        let line = story.line(frame.at);
        let revision = story
            .ledger
            .revision(id)
            .filter(|revision| revision.d == d && revision.h == h);
        let revision =
            revision.filter(|revision| revision.accepted <= story.ledger.possible(frame.at));
        let Some(revision) = revision else {
            unknown(bench, sync, line, id, d, h);
            continue;
        };
        let before = newest.insert(d, revision.accepted);
        if before.is_some_and(|before| before > revision.accepted) {
            back(bench, sync, line, "AR-SYNC-4a", d, id);
        }
    }
}

fn live(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>, step: &LiveStep<'_>) {
    let line = story.line(step.at);
    let (d, id) = (step.d, step.id);
    match step.entry {
        Entry::Unknown => unknown(bench, sync, line, id, d, step.h),
        Entry::Head(rev) => {
            let revision = &story.ledger.revisions[rev];
            if revision.h != step.h || revision.accepted > story.ledger.possible(step.at) {
                unknown(bench, sync, line, id, d, step.h);
            } else if let Some(replaced) =
                revision.replaced.filter(|&replaced| replaced <= step.seen)
            {
                bench.violated("AR-SYNC-4a", line, [
                    format!("{} got {id} as the head of {d}.", super::name(sync)),
                    format!("It was replaced at commit {replaced}, and this sync had seen commit {} of {d}.", step.seen),
                    "The relay sends the current head, never an older revision.".to_owned(),
                ]);
            }
        }
        Entry::Marker => {
            let stored = story.ledger.markers[id].k;
            if stored > story.ledger.possible(step.at) {
                unknown(bench, sync, line, id, d, step.h);
            }
            let older = step
                .before
                .is_some_and(|held| story.ledger.revisions[held.rev].accepted > stored);
            if older {
                back(bench, sync, line, "AR-SYNC-4d", d, id);
            }
        }
    }
}

fn unknown(bench: &mut Bench, sync: &Sync<'_>, line: usize, id: &str, d: &str, h: &str) {
    bench.violated(
        "AR-SYNC-REQ-18",
        line,
        [
            format!("{} got {id} of {d} in {h}.", super::name(sync)),
            "No commit up to there stored such an event.".to_owned(),
            "Everything a sync sends is what the store holds.".to_owned(),
        ],
    );
}

fn back(bench: &mut Bench, sync: &Sync<'_>, line: usize, rule: &'static str, d: &str, id: &str) {
    bench.violated(
        rule,
        line,
        [
            format!(
                "{} got {id} of {d}, which is older than what it had got of {d} before.",
                super::name(sync)
            ),
            "What a sync sends about one artifact never steps back.".to_owned(),
        ],
    );
}

/// Reads of one artifact for one sync follow one another, each after the result of the one before is queued.
fn reads(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>) {
    let mut under_way: BTreeSet<&str> = BTreeSet::new();
    let mut stamps: BTreeMap<&str, K> = BTreeMap::new();
    for step in &sync.reads {
        match step {
            ReadStep::Begin(at, ds) => {
                for d in ds.iter() {
                    bench.count(1);
                    if !under_way.insert(d) {
                        bench.violated("AR-SYNC-4f", story.line(*at), [
                            format!("A read of {d} for {} begins before the result of the one before is queued.", super::name(sync)),
                            "A sync reads the head of one artifact one read at a time.".to_owned(),
                        ]);
                    }
                }
            }
            ReadStep::Queued { d, .. } => {
                under_way.remove(d);
            }
            ReadStep::End { at, d, k, result } => {
                let before = stamps.insert(d, *k);
                if before.is_some_and(|before| before > *k) {
                    bench.violated("AR-SYNC-4d", story.line(*at), [
                        format!("A read of {d} for {} saw commit {k}; an earlier one had seen commit {}.", super::name(sync), before.unwrap_or(0)),
                        "What a sync reads of one artifact never steps back.".to_owned(),
                    ]);
                }
                if let ReadResult::Head(id) = result
                    && story.ledger.head(d, *k) != story.ledger.rev(id)
                {
                    bench.violated(
                        "AR-SYNC-4g",
                        story.line(*at),
                        [
                            format!(
                                "A read of {d} for {} at commit {k} returned {id}.",
                                super::name(sync)
                            ),
                            "That is not the head there; head reads see the writer's newest state."
                                .to_owned(),
                        ],
                    );
                }
            }
        }
    }
}
