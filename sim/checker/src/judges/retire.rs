//! RETIRE: redacting a head in scope ends the sync; a redacted revision does not come back; redaction never changes which
//! revision is current (AR-SYNC-6a, 6b, AR-MOD-5, AR-MOD-6, H8, H9).

use crate::format::ReadResult;
use crate::replay::Story;
use crate::replay::copies::{Copy, Entry};
use crate::replay::owed::{Owed, owed};
use crate::replay::syncs::{ReadStep, Sync};
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for redaction in &story.ledger.redactions {
        bench.count(1);
        if redaction.said_current != redaction.current {
            let (said, is) = (redaction.said_current, redaction.current);
            bench.violated("AR-MOD-6", story.line(story.commit_at(redaction.k)), [
                format!("Commit {} redacts {} of {}; current according to the ledger: {said}, to the chain: {is}.", redaction.k, redaction.rev, redaction.d),
                "A redaction never changes which revision is current.".to_owned(),
            ]);
        }
    }
    for (sync, copy) in story.syncs.iter().zip(&story.copies) {
        silent(story, bench, sync, copy);
        resurrected(story, bench, sync, copy);
        reads(story, bench, sync);
    }
}

/// An open sync at rest whose client still holds an artifact with a redacted head.
fn silent(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>, copy: &Copy<'_>) {
    for rest in &copy.rests {
        let held = rest
            .differences
            .iter()
            .filter(|difference| difference.held.is_some());
        let retired = held.filter_map(|difference| match owed(story, sync, rest, difference) {
            Some(Owed::Retirement(k)) => Some((difference.d, k)),
            _ => None,
        });
        // What is held at one rest is held at each later one.
        let Some((d, k)) = retired.inspect(|_| bench.count(1)).last() else {
            continue;
        };
        bench.violated(
            "AR-SYNC-6a",
            story.line(rest.at),
            [
                format!(
                    "Commit {k} (line {}) redacted the current revision of {d}.",
                    story.line(story.commit_at(k))
                ),
                format!(
                    "{} is open at rest and its client still holds {d}.",
                    super::name(sync)
                ),
                "Retiring an artifact in scope closes the sync with resync:.".to_owned(),
            ],
        );
        break;
    }
}

/// A redacted revision in what was read after its redaction.
fn resurrected(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>, copy: &Copy<'_>) {
    let from = sync.snapshots.first().map_or_else(
        || story.acknowledged_before(sync.asked()),
        |snapshot| snapshot.k,
    );
    let initial = copy
        .initial
        .values()
        .map(|&id| (id, from, sync.eose.unwrap_or(sync.req)));
    let live = copy
        .steps
        .iter()
        .filter(|step| matches!(step.entry, Entry::Head(_)));
    for (id, from, at) in initial.chain(live.map(|step| (step.id, step.seen, step.at))) {
        let redacted = story
            .ledger
            .revision(id)
            .and_then(|revision| revision.redacted);
        let Some(k) = redacted else { continue };
        bench.count(1);
        if k <= from {
            withheld(story, bench, sync, story.line(at), id, k);
        }
    }
}

fn reads(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>) {
    for step in &sync.reads {
        let ReadStep::End {
            at,
            k: seen,
            result: ReadResult::Head(id),
            ..
        } = step
        else {
            continue;
        };
        let revision = story
            .ledger
            .revision(id)
            .filter(|revision| revision.redacted_at(*seen));
        if let Some(k) = revision.and_then(|revision| revision.redacted) {
            withheld(story, bench, sync, story.line(*at), id, k);
        }
    }
}

fn withheld(
    story: &Story<'_>,
    bench: &mut Bench,
    sync: &Sync<'_>,
    line: usize,
    id: &str,
    k: usize,
) {
    bench.violated(
        "AR-MOD-5",
        line,
        [
            format!(
                "Commit {k} (line {}) redacted {id}.",
                story.line(story.commit_at(k))
            ),
            format!("{} read it afterwards.", super::name(sync)),
            "A redacted revision is withheld from every surface.".to_owned(),
        ],
    );
}
