//! CHAIN: accepted revisions form one chain per artifact, and outcomes tell the truth about it (AR-ID-*, AR-DEL-*, AR-MOVE-*).

use std::collections::BTreeMap;

use crate::format::{Change, Op, Outcome, RevisionOp};
use crate::replay::Story;
use crate::replay::ledger::{K, Revision};
use crate::replay::syncs::Operation;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    chains(story, bench);
    repeated(story, bench);
    outcomes(story, bench);
    end(story, bench);
}

fn chains(story: &Story<'_>, bench: &mut Bench) {
    for d in story.ledger.artifacts() {
        let mut before: Option<&Revision<'_>> = None;
        for &rev in story.ledger.chain(d) {
            let next = &story.ledger.revisions[rev];
            bench.count(1);
            if let Some((rule, wants)) = broken_link(before, next) {
                let head = before.map_or("nothing", |before| before.id);
                bench.violated(
                    rule,
                    story.line(story.commit_at(next.accepted)),
                    [
                        format!(
                            "Commit {} accepted {} of {d} ({:?}) over {head}.",
                            next.accepted, next.id, next.op
                        ),
                        wants.to_owned(),
                    ],
                );
            }
            before = Some(next);
        }
    }
}

/// The rule that a revision breaks as the successor of another, and what it wants.
fn broken_link(
    before: Option<&Revision<'_>>,
    next: &Revision<'_>,
) -> Option<(&'static str, &'static str)> {
    let Some(before) = before else {
        let wrong = next.op != RevisionOp::Create || next.prev.is_some();
        return wrong.then_some((
            "AR-ID-6",
            "An artifact begins with a create that names no earlier revision.",
        ));
    };
    let deleted = before.op == RevisionOp::Delete;
    let checks = [
        (
            next.op == RevisionOp::Create,
            "AR-ID-5",
            "A d that was ever used is not created again.",
        ),
        (
            next.prev != Some(before.id),
            "AR-ID-7",
            "A revision names the current accepted revision; of two with the same prev one is accepted.",
        ),
        (
            next.artifact_type != before.artifact_type,
            "AR-ID-2",
            "The type never changes.",
        ),
        (
            deleted && next.op != RevisionOp::Restore,
            "AR-DEL-7",
            "After a deletion only restore is accepted.",
        ),
        (
            !deleted && next.op == RevisionOp::Restore,
            "AR-DEL-11",
            "Restore is accepted only after a deletion.",
        ),
        (
            next.op == RevisionOp::Move && next.h == before.h,
            "AR-ID-17",
            "A move changes the home.",
        ),
        (
            next.op == RevisionOp::Update && next.h != before.h,
            "AR-ID-16",
            "An update keeps the home.",
        ),
        (
            next.op == RevisionOp::Delete && next.h != before.h,
            "AR-DEL-2",
            "A deletion keeps the home.",
        ),
        (
            next.op == RevisionOp::Delete && next.root != before.root,
            "AR-DEL-2",
            "A deletion keeps the root.",
        ),
        (
            next.op == RevisionOp::Restore && next.h != before.h,
            "AR-DEL-9",
            "Restore keeps the home.",
        ),
    ];
    checks
        .into_iter()
        .find(|&(broken, ..)| broken)
        .map(|(_, rule, wants)| (rule, wants))
}

/// An event is accepted once, and a ledger whose order contradicts what clients saw is no order of acceptance.
fn repeated(story: &Story<'_>, bench: &mut Bench) {
    for (index, commit) in story.ledger.commits.iter().enumerate() {
        let k = index + 1;
        for change in commit.changes {
            let Change::Revision { rev, d, .. } = change else {
                continue;
            };
            let first = story
                .ledger
                .revision(rev)
                .map_or(k, |revision| revision.accepted);
            if first != k {
                bench.violated(
                    "AR-ID-11",
                    story.line(commit.at),
                    [
                        format!(
                            "Commit {k} accepted {rev} of {d}, which commit {first} had accepted."
                        ),
                        "An accepted event is not applied again.".to_owned(),
                    ],
                );
            }
        }
        if commit.earliest > commit.latest {
            bench.violated(
                "AR-CUR-7",
                story.line(commit.at),
                [
                    format!(
                        "Commit {k} cannot be earlier than line {} nor later than line {}.",
                        story.line(commit.earliest),
                        story.line(commit.latest)
                    ),
                    "The ledger records the order in which changes were accepted.".to_owned(),
                ],
            );
        }
    }
}

fn outcomes(story: &Story<'_>, bench: &mut Bench) {
    let mut by_op: BTreeMap<Op, K> = BTreeMap::new();
    for (index, commit) in story.ledger.commits.iter().enumerate() {
        by_op.extend(commit.ops.iter().map(|&op| (op, index + 1)));
    }
    for (op, operation) in &story.ops {
        let Some((at, result, _)) = operation.outcome else {
            continue;
        };
        let own = by_op.get(op).copied();
        let accepted = story
            .ledger
            .revision(operation.event)
            .map(|revision| revision.accepted);
        let any = own.or(accepted);
        let line = story.line(at);
        match result {
            Outcome::Ok | Outcome::Duplicate if any.is_some() || operation.intent.is_some() => {
                bench.count(1);
                if any.is_none_or(|k| k > story.ledger.possible(at)) {
                    bench.violated(
                        "AR-ID-8",
                        line,
                        [
                            format!(
                                "The write of event {} was answered with OK.",
                                operation.event
                            ),
                            "No commit up to there stored it.".to_owned(),
                        ],
                    );
                }
            }
            Outcome::Conflict | Outcome::Refused => {
                bench.count(1);
                refused(story, bench, operation, line, own, accepted);
            }
            _ => {}
        }
    }
}

fn refused(
    story: &Story<'_>,
    bench: &mut Bench,
    operation: &Operation<'_>,
    line: usize,
    own: Option<K>,
    accepted: Option<K>,
) {
    if let Some(k) = own {
        bench.violated("AR-ID-14", line, [
            format!("Commit {k} (line {}) accepted event {}.", story.line(story.commit_at(k)), operation.event),
            "The same write was answered with OK false; a write of unknown fate is answered error:.".to_owned(),
        ]);
        return;
    }
    let author = story
        .ledger
        .revision(operation.event)
        .map(|revision| revision.author);
    let before = accepted.filter(|&k| k <= story.ledger.certain(operation.submitted));
    if let Some(k) = before.filter(|_| author == Some(operation.key)) {
        bench.violated("AR-ID-11", line, [
            format!("Commit {k} (line {}) had accepted event {}.", story.line(story.commit_at(k)), operation.event),
            "Its author sent it again and was answered with OK false; resubmitting an accepted event succeeds.".to_owned(),
        ]);
    }
}

/// The store's own list of heads.
fn end(story: &Story<'_>, bench: &mut Bench) {
    let Some(state) = story.state else { return };
    let (line, k) = (story.line(story.end), story.ledger.commits.len());
    let listed: BTreeMap<&str, _> = state
        .heads
        .iter()
        .map(|head| (head.d.as_str(), head))
        .collect();
    for d in story.ledger.artifacts().filter(|d| !listed.contains_key(d)) {
        bench.violated(
            "AR-CUR-1",
            line,
            [
                format!("The final state has no head of {d}."),
                "An accepted artifact never vanishes.".to_owned(),
            ],
        );
    }
    for (d, listed) in listed {
        bench.count(1);
        let head = story
            .ledger
            .head(d, k)
            .map(|rev| &story.ledger.revisions[rev]);
        let agrees = head.is_some_and(|head| {
            (
                head.id,
                head.h,
                head.op == RevisionOp::Delete,
                head.redacted.is_some(),
            ) == (&listed.rev, &listed.h, listed.deleted, listed.redacted)
        });
        if !agrees {
            let last = head.map_or("nothing", |head| head.id);
            bench.violated("AR-CUR-1", line, [
                format!("The final state has {} in {} as the head of {d} (deleted {}, redacted {}).", listed.rev, listed.h, listed.deleted, listed.redacted),
                format!("The last accepted revision is {last}; the head is the last accepted one, as it was accepted."),
            ]);
        }
    }
    channels(story, bench);
}

/// The store's own list of channels.
fn channels(story: &Story<'_>, bench: &mut Bench) {
    let Some(state) = story.state else { return };
    let (line, k) = (story.line(story.end), story.ledger.commits.len());
    let listed: BTreeMap<&str, _> = state
        .channels
        .iter()
        .map(|channel| (channel.channel.as_str(), channel))
        .collect();
    let created = story.channels.ids().chain(listed.keys().copied());
    for id in created.collect::<std::collections::BTreeSet<_>>() {
        bench.count(1);
        let ours = story.channels.state(id, k);
        let theirs = listed.get(id).filter(|channel| !channel.deleted);
        let theirs = theirs.map(|channel| {
            let members = channel.members.iter().map(String::as_str).collect();
            (channel.visibility, channel.unlisted, members)
        });
        if ours != theirs {
            bench.violated(
                "AR-ACC-6",
                line,
                [
                    format!("The final state of channel {id} is not what its commits made of it."),
                    format!("By the commits: {ours:?}; by the store: {theirs:?}."),
                ],
            );
        }
    }
}
