//! PRIVACY: what is sent was readable when it was read, and no text tells what its reader cannot read (AR-SYNC-3e, AR-SYNC-2n,
//! AR-SYNC-REQ-22, AR-SYNC-REQ-27, AR-MOVE-6, AR-MOD-9, AR-ACC-18, H4).

use crate::format::{Change, Outcome, RevisionOp};
use crate::replay::Story;
use crate::replay::copies::{Copy, Entry, Found, LiveStep};
use crate::replay::ledger::K;
use crate::replay::syncs::{FrameKind, Operation, Sync};
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (sync, copy) in story.syncs.iter().zip(&story.copies) {
        initial(story, bench, sync, copy);
        for step in &copy.steps {
            bench.count(1);
            live(story, bench, sync, step);
        }
    }
    restricted(story, bench);
    answers(story, bench);
}

fn initial(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>, copy: &Copy<'_>) {
    if let (Some(eose), Some(cut)) = (sync.eose, copy.cut.as_ref()) {
        bench.count(1);
        let unreadable = cut.found == Found::Unreadable
            || cut.found == Found::Nowhere
                && cut.first == cut.last
                && !story.admitted(sync, cut.last);
        if unreadable {
            bench.violated(
                "AR-SYNC-2n",
                story.line(eose),
                [
                    format!("{} got EOSE.", super::name(sync)),
                    "Its reader could not read every channel it names at the commit of that set."
                        .to_owned(),
                    "Such a sync is closed with restricted: and gets no EOSE.".to_owned(),
                ],
            );
        }
    }
    let from = sync.snapshots.first().map_or_else(
        || story.acknowledged_before(sync.asked()),
        |snapshot| snapshot.k,
    );
    for frame in sync
        .frames
        .iter()
        .take_while(|frame| sync.eose.is_none_or(|eose| frame.at < eose))
    {
        let FrameKind::Event {
            kind: 45_010, id, ..
        } = frame.what
        else {
            continue;
        };
        bench.count(1);
        let Some(revision) = story.ledger.revision(id) else {
            continue;
        };
        let to = story.ledger.possible(frame.at);
        readable(
            story,
            bench,
            sync,
            story.line(frame.at),
            (id, revision.h),
            (from.max(revision.accepted), to),
        );
    }
}

fn live(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>, step: &LiveStep<'_>) {
    let line = story.line(step.at);
    let now = story.ledger.possible(step.at);
    match step.entry {
        Entry::Head(rev) => {
            let revision = &story.ledger.revisions[rev];
            let from = step.seen.max(revision.accepted);
            let to = revision
                .replaced
                .map_or(now, |replaced| (replaced - 1).min(now));
            // A head that was replaced before it can have been read is another invariant's.
            if from <= to {
                readable(story, bench, sync, line, (step.id, revision.h), (from, to));
            }
        }
        Entry::Marker => marker(story, bench, sync, step, line),
        Entry::Unknown => {}
    }
}

/// Whether an event of this channel was readable at some commit of the period.
fn readable(
    story: &Story<'_>,
    bench: &mut Bench,
    sync: &Sync<'_>,
    line: usize,
    (id, h): (&str, &str),
    (from, to): (K, K),
) {
    let reaches = |k| story.channels.reaches(sync.reader, &sync.filter.h, h, k);
    if from <= to && !story.channels.somewhere(sync.reader, h, from, to, reaches) {
        let reader = sync.reader.unwrap_or("nobody");
        bench.violated("AR-SYNC-3e", line, [
            format!("{} got {id}, an event of channel {h}.", super::name(sync)),
            format!("Its reader {reader} could not read {h} from commit {from} to commit {to}, when it was read."),
            "A sync never sends anything about an artifact that its reader cannot read.".to_owned(),
        ]);
    }
}

fn marker(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>, step: &LiveStep<'_>, line: usize) {
    let stored = &story.ledger.markers[step.id];
    let home = step.before.map(|held| story.ledger.revisions[held.rev].h);
    if stored.h != step.h || home.is_some_and(|home| home != stored.h) {
        bench.violated("AR-SYNC-3d", line, [
            format!("{} got the removal of {} out of channel {}.", super::name(sync), step.d, stored.h),
            format!("Its copy had {} in channel {}.", step.d, home.unwrap_or("none")),
            "The removal is the one stored in the channel that the client knows; another would tell it of a channel.".to_owned(),
        ]);
    }
    let now = story.ledger.possible(step.at);
    readable(
        story,
        bench,
        sync,
        line,
        (step.id, stored.h),
        (stored.k.max(step.seen), now),
    );
    let Some(raw) = step.raw else { return };
    for change in story.ledger.commit(stored.k).changes {
        let Change::Revision { d, rev, h, .. } = change else {
            continue;
        };
        if d == step.d && (raw.contains(rev.as_str()) || raw.contains(h.as_str())) {
            bench.violated(
                "AR-MOVE-6",
                line,
                [
                    format!(
                        "{} got the removal of {d} out of channel {}.",
                        super::name(sync),
                        stored.h
                    ),
                    format!("Its text names {h} or {rev}, where the artifact went."),
                    "A removal carries nothing of the destination.".to_owned(),
                ],
            );
        }
    }
}

/// All `restricted:` texts are one text, and it names no channel.
fn restricted(story: &Story<'_>, bench: &mut Bench) {
    let mut first: Option<(usize, &str)> = None;
    for sync in &story.syncs {
        for frame in &sync.frames {
            let FrameKind::Closed(text) = frame.what else {
                continue;
            };
            if !text.starts_with("restricted:") {
                continue;
            }
            bench.count(1);
            let line = story.line(frame.at);
            let (other_line, other) = *first.get_or_insert((line, text));
            if other != text {
                bench.violated(
                    "AR-SYNC-REQ-27",
                    line,
                    [
                        format!(
                            "{} was closed with {text:?}; line {other_line} says {other:?}.",
                            super::name(sync)
                        ),
                        "An unreadable channel and one that does not exist get the same bytes."
                            .to_owned(),
                    ],
                );
            }
            if let Some(named) = sync
                .filter
                .h
                .iter()
                .find(|named| words(text).any(|word| word == named.as_str()))
            {
                bench.violated("AR-SYNC-REQ-27", line, [
                    format!("{} was closed with {text:?}.", super::name(sync)),
                    format!("The text names the channel {named}; it does not say which channel cannot be read."),
                ]);
            }
        }
    }
}

/// Answers to writes name no channel, artifact or revision that the write did not name itself, and conflicts about artifacts
/// that the client cannot read say the same as those about artifacts that do not exist.
fn answers(story: &Story<'_>, bench: &mut Bench) {
    let mut hidden: Option<(usize, &str)> = None;
    for operation in story.ops.values() {
        let Some((at, result, text)) = operation.outcome else {
            continue;
        };
        let line = story.line(at);
        bench.count(1);
        let told = words(text).find(|word| secret(story, operation, word));
        if let Some(word) = told {
            bench.violated(
                "AR-MOD-9",
                line,
                [
                    format!(
                        "The write of event {} by {} was answered {text:?}.",
                        operation.event, operation.key
                    ),
                    format!("The write did not name {word}; no answer tells it."),
                ],
            );
        }
        if result == Outcome::Conflict && unseen(story, operation, at) {
            let (other_line, other) = *hidden.get_or_insert((line, text));
            if other != text {
                bench.violated("AR-ACC-18", line, [
                    format!("The write of event {} by {} was answered {text:?}; line {other_line} says {other:?}.", operation.event, operation.key),
                    "Both are about artifacts that the client cannot read or that do not exist; the answers are equal.".to_owned(),
                ]);
            }
        }
    }
}

/// Whether a word is the id of something that the operation did not name.
fn secret(story: &Story<'_>, operation: &Operation<'_>, word: &str) -> bool {
    let known = story.ledger.revision(word).is_some()
        || story.ledger.markers.contains_key(word)
        || story.channels.exists(word);
    let intent = operation.intent;
    let named = operation.event == word
        || intent.is_some_and(|intent| {
            intent.h == word || intent.d == word || intent.prev.as_deref() == Some(word)
        });
    known && !named
}

/// Whether the artifact of a later revision was unknown or unreadable to its writer all the time from submit to outcome.
fn unseen(story: &Story<'_>, operation: &Operation<'_>, outcome: usize) -> bool {
    let Some(intent) = operation
        .intent
        .filter(|intent| intent.op != RevisionOp::Create)
    else {
        return false;
    };
    let (from, to) = (
        story.ledger.certain(operation.submitted),
        story.ledger.possible(outcome),
    );
    let chain = story
        .ledger
        .chain(&intent.d)
        .iter()
        .map(|&rev| &story.ledger.revisions[rev]);
    let mut heads = chain
        .filter(|head| head.accepted <= to && head.replaced.is_none_or(|replaced| replaced > from));
    !heads.any(|head| {
        let reader = Some(operation.key);
        let reads = |k| story.channels.readable(reader, head.h, k);
        story.channels.somewhere(reader, head.h, from, to, reads)
    })
}

/// The parts of a text that can be ids.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
        .filter(|word| !word.is_empty())
}
