//! ORDER: no live entry before EOSE, one EOSE, nothing after CLOSED, and the initial set in the order of `d`.

use crate::replay::Story;
use crate::replay::syncs::{Frame, FrameKind, Sync};
use crate::report::Bench;

#[derive(Default)]
struct Seen<'a> {
    eose: Option<usize>,
    closed: Option<usize>,
    last: Option<&'a str>,
    given: std::collections::BTreeSet<&'a str>,
}

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for sync in &story.syncs {
        let mut seen = Seen::default();
        for frame in &sync.frames {
            bench.count(1);
            look(story, bench, sync, frame, &mut seen);
        }
    }
}

fn look<'a>(
    story: &Story<'a>,
    bench: &mut Bench,
    sync: &Sync<'a>,
    frame: &Frame<'a>,
    seen: &mut Seen<'a>,
) {
    let (line, who) = (story.line(frame.at), super::name(sync));
    if let Some(closed) = seen.closed {
        bench.violated(
            "AR-SYNC-REQ-24",
            line,
            [
                format!("{who} got CLOSED at line {closed}, and another frame after it."),
                "CLOSED is the last frame of a sync.".to_owned(),
            ],
        );
    }
    match frame.what {
        FrameKind::Closed(_) => seen.closed = Some(line),
        FrameKind::Eose => {
            if let Some(first) = seen.eose.replace(line) {
                bench.violated(
                    "AR-SYNC-REQ-24",
                    line,
                    [
                        format!("{who} got EOSE at line {first} and again."),
                        "EOSE is sent once.".to_owned(),
                    ],
                );
            }
            if let Some(fault) = &sync.filter.malformed {
                bench.violated(
                    "AR-SYNC-REQ-15",
                    line,
                    [
                        format!("The filter of {who} must be refused: {fault}."),
                        "It got EOSE.".to_owned(),
                    ],
                );
            }
        }
        FrameKind::Event { kind, .. } if kind != 45_010 && kind != 45_011 => {
            bench.violated(
                "AR-SYNC-REQ-17",
                line,
                [
                    format!("{who} got an event of kind {kind}."),
                    "A sync sends revisions (45010) and removals (45011).".to_owned(),
                ],
            );
        }
        FrameKind::Event { kind, d, .. } if seen.eose.is_none() => {
            initial(bench, line, &who, kind, d, seen);
        }
        FrameKind::Event { .. } => {}
    }
}

/// An event before EOSE.
fn initial<'a>(
    bench: &mut Bench,
    line: usize,
    who: &str,
    kind: u32,
    d: &'a str,
    seen: &mut Seen<'a>,
) {
    if kind == 45_011 {
        bench.violated(
            "AR-SYNC-REQ-21",
            line,
            [
                format!("{who} got the removal of {d} before EOSE."),
                "Removals are live entries; none is sent before EOSE.".to_owned(),
            ],
        );
    } else if !seen.given.insert(d) {
        bench.violated(
            "AR-SYNC-1f",
            line,
            [
                format!("{who} got {d} twice before EOSE."),
                "The initial set has each artifact once; changes wait until after EOSE.".to_owned(),
            ],
        );
    } else if let Some(last) = seen.last.filter(|&last| last > d) {
        bench.violated(
            "AR-SYNC-2e",
            line,
            [
                format!("{who} got {d} after {last}, before EOSE."),
                "The initial set is read and sent in the order of d.".to_owned(),
            ],
        );
    }
    seen.last = Some(d);
}
