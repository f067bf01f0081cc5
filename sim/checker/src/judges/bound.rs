//! BOUND: sets, held lists, queues and snapshots stay within their bounds, or the sync is closed (AR-SYNC-1j, 2j, 8a, 8c).

use crate::replay::Story;
use crate::replay::syncs::Sync;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (sync, copy) in story.syncs.iter().zip(&story.copies) {
        if let Some(eose) = sync.eose {
            bench.count(1);
            let size = copy.initial.len() as u64;
            if size > story.header.max_events {
                bench.violated(
                    "AR-SYNC-8a",
                    story.line(eose),
                    [
                        format!("{} got EOSE after {size} artifacts.", super::name(sync)),
                        format!(
                            "A set of more than {} is not served: CLOSED, and no EOSE.",
                            story.header.max_events
                        ),
                    ],
                );
            }
        }
        waiting(story, bench, sync);
        snapshots(story, bench, sync);
    }
    queues(story, bench);
    slots(story, bench);
}

fn waiting(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>) {
    let most = story.header.max_events;
    if let Some((at, count)) = sync.held {
        bench.count(1);
        if count > most && sync.eose.is_some() {
            bench.violated(
                "AR-SYNC-1j",
                story.line(at),
                [
                    format!(
                        "{} held {count} changed artifacts before EOSE, and got EOSE.",
                        super::name(sync)
                    ),
                    format!("With more than {most} it gets resync: and no EOSE."),
                ],
            );
        }
    }
    if let Some((at, count)) = sync.dirty {
        bench.count(1);
        let open = story.rest_after(at).is_some_and(|rest| sync.open_at(rest));
        if count > most && open {
            bench.violated(
                "AR-SYNC-8c",
                story.line(at),
                [
                    format!(
                        "{count} artifacts of {} waited to be read, and it stayed open.",
                        super::name(sync)
                    ),
                    format!("With more than {most} it gets resync:."),
                ],
            );
        }
    }
}

fn snapshots(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>) {
    for snapshot in &sync.snapshots {
        bench.count(1);
        let closed = snapshot.closed.unwrap_or(story.end);
        let died = story.node(sync.node).death_after(snapshot.at);
        let closed = died.map_or(closed, |died| closed.min(died));
        let held_ms = story.ms(closed) - story.ms(snapshot.at);
        let budget_ms = story.header.snapshot_budget_ms + story.header.slack_ms;
        if held_ms > budget_ms {
            bench.violated(
                "AR-SYNC-2j",
                story.line(closed),
                [
                    format!(
                        "The snapshot of {} was open for {held_ms} ms.",
                        super::name(sync)
                    ),
                    format!("Its budget is {} ms.", story.header.snapshot_budget_ms),
                ],
            );
        }
    }
}

fn queues(story: &Story<'_>, bench: &mut Bench) {
    for (conn, connection) in &story.conns {
        for &(at, frames, bytes) in &connection.queue {
            bench.count(1);
            let (frames_max, bytes_max) =
                (story.header.queue_frames_max, story.header.queue_bytes_max);
            if frames > frames_max || bytes > bytes_max {
                bench.violated(
                    "AR-SYNC-8c",
                    story.line(at),
                    [
                        format!("Connection {conn} had {frames} frames and {bytes} bytes unsent."),
                        format!("Its bounds are {frames_max} frames and {bytes_max} bytes."),
                    ],
                );
            }
        }
    }
}

fn slots(story: &Story<'_>, bench: &mut Bench) {
    for (node, life) in &story.nodes {
        let (mut open, mut deaths) = (0_i64, life.deaths.iter().peekable());
        for &(at, by) in &life.slots {
            while deaths.next_if(|&&death| death < at).is_some() {
                open = 0;
            }
            open = (open + by).max(0);
            bench.count(1);
            if by > 0 && open.unsigned_abs() > story.header.snapshots_max {
                bench.violated(
                    "AR-SYNC-8c",
                    story.line(at),
                    [
                        format!("Node {node} has {open} sync snapshots open."),
                        format!("Its bound is {}.", story.header.snapshots_max),
                    ],
                );
            }
        }
    }
}
