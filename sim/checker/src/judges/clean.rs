//! CLEAN: nothing is left open for a sync that ended (AR-SYNC-8d).

use crate::format::{Attempt, Knows};
use crate::replay::Story;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for open in story.open.unwrap_or_default() {
        let kinds = [
            ("a snapshot", &open.snapshots),
            ("a read", &open.reads),
            ("a session", &open.sessions),
            ("a frame in a send queue", &open.queued),
        ];
        for (what, attempts) in kinds {
            for &attempt in attempts {
                left(story, bench, open.node, what, attempt);
            }
        }
    }
    for sync in &story.syncs {
        let Some((ended, _)) = sync.ended else {
            continue;
        };
        let Some(rest) = story.rest_after(ended) else {
            continue;
        };
        bench.count(1);
        let died = |at| {
            story
                .node(sync.node)
                .death_after(at)
                .is_some_and(|death| death < rest)
        };
        let open = sync.snapshots.iter().any(|snapshot| {
            snapshot.closed.is_none_or(|closed| closed > rest) && !died(snapshot.at)
        });
        if open && story.knows(Knows::Snapshots) {
            bench.violated(
                "AR-SYNC-8d",
                story.line(rest),
                [
                    format!("{} ended at line {}.", super::name(sync), story.line(ended)),
                    "Its snapshot is still open at rest; snapshot and reads end with the sync."
                        .to_owned(),
                ],
            );
        }
    }
}

fn left(story: &Story<'_>, bench: &mut Bench, node: u32, what: &str, attempt: Attempt) {
    let line = story.line(story.end);
    let Some(sync) = story.sync(attempt) else {
        bench.violated(
            "AR-SYNC-8d",
            line,
            [
                format!("Node {node} has {what} for attempt {attempt}."),
                "Nobody asked for such a sync.".to_owned(),
            ],
        );
        return;
    };
    bench.count(1);
    let ended = sync
        .ended
        .filter(|&(ended, _)| story.rest_after(ended).is_some());
    if let Some((ended, _)) = ended {
        bench.violated(
            "AR-SYNC-8d",
            line,
            [
                format!("{} ended at line {}.", super::name(sync), story.line(ended)),
                format!("At the end node {node} still has {what} for it."),
            ],
        );
    } else if let Some(eose) = sync
        .eose
        .filter(|&eose| what == "a snapshot" && story.rest_after(eose).is_some())
    {
        bench.violated(
            "AR-SYNC-2j",
            line,
            [
                format!(
                    "{} got EOSE at line {}.",
                    super::name(sync),
                    story.line(eose)
                ),
                "At the end its snapshot is still open.".to_owned(),
            ],
        );
    }
}
