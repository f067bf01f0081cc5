//! ATOMIC: a move is its arrival, its removal and the new head in one commit (AR-MOVE-4, AR-MOVE-5).

use crate::format::{Change, RevisionOp};
use crate::replay::Story;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (index, commit) in story.ledger.commits.iter().enumerate() {
        let line = story.line(commit.at);
        let moved = commit.changes.iter().filter_map(|change| match change {
            Change::Revision {
                d,
                rev,
                op: RevisionOp::Move,
                prev,
                ..
            } => Some((d, rev, prev.as_deref())),
            _ => None,
        });
        for (d, rev, prev) in moved {
            bench.count(1);
            let home = prev
                .and_then(|prev| story.ledger.revision(prev))
                .map(|before| before.h);
            let stored = commit.changes.iter().any(|change| match change {
                Change::MoveSource {
                    d: other,
                    h,
                    replaced,
                    ..
                } => other == d && Some(h.as_str()) == home && Some(replaced.as_str()) == prev,
                _ => false,
            });
            if !stored {
                bench.violated("AR-MOVE-4", line, [
                    format!("Commit {} moved {d} with {rev} out of channel {}.", index + 1, home.unwrap_or("nowhere")),
                    "It stored no removal of the replaced revision in that channel; arrival and removal are one step.".to_owned(),
                ]);
            }
        }
        let removals = commit.changes.iter().filter_map(|change| match change {
            Change::MoveSource { d, marker, .. } => Some((d, marker)),
            _ => None,
        });
        for (d, marker) in removals {
            bench.count(1);
            let arrived = commit.changes.iter().any(|change| {
                matches!(change, Change::Revision { d: other, op: RevisionOp::Move, .. } if other == d)
            });
            if !arrived {
                bench.violated("AR-MOVE-4", line, [
                    format!("Commit {} stored the removal {marker} of {d}.", index + 1),
                    "The same commit has no move of that artifact; arrival and removal are one step.".to_owned(),
                ]);
            }
        }
    }
}
