//! CUT: the set at EOSE is the scope at one commit, each artifact once, out of one snapshot (AR-SYNC-2a, 2f, 2g, 2m).

use crate::format::Knows;
use crate::replay::Story;
use crate::replay::copies::{Copy, Found};
use crate::replay::ledger::K;
use crate::replay::syncs::Sync;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (sync, copy) in story.syncs.iter().zip(&story.copies) {
        let Some(eose) = sync.eose else { continue };
        bench.count(1);
        let line = story.line(eose);
        if story.knows(Knows::Snapshots) && sync.snapshots.len() != 1 {
            let count = sync.snapshots.len();
            bench.violated(
                "AR-SYNC-2m",
                line,
                [
                    format!("{} got EOSE after {count} snapshots.", super::name(sync)),
                    "The initial set comes out of exactly one snapshot.".to_owned(),
                ],
            );
        }
        let cut = copy.cut.as_ref();
        if let Some(cut) = cut.filter(|cut| cut.found == Found::Nowhere) {
            let where_to = if cut.first == cut.last {
                format!("The set at commit {}", cut.first)
            } else {
                format!(
                    "No set from commit {} to commit {} is the one delivered; the last",
                    cut.first, cut.last
                )
            };
            bench.violated("AR-SYNC-2g", line, [
                format!("{} got EOSE after {} artifacts.", super::name(sync), copy.initial.len()),
                format!("{where_to} differs: {}.", difference(story, sync, copy, cut.last)),
                "At EOSE the client holds all heads in scope as they were together at one commit.".to_owned(),
            ]);
        }
    }
}

/// The first few artifacts in which the delivered set differs from the set at `k`.
fn difference(story: &Story<'_>, sync: &Sync<'_>, copy: &Copy<'_>, k: K) -> String {
    let mut wanted = story.scopes[sync.scope].set(k);
    let mut parts = Vec::new();
    for (&d, &id) in &copy.initial {
        match wanted.remove(d).map(|rev| story.ledger.revisions[rev].id) {
            Some(head) if head == id => {}
            Some(head) => parts.push(format!("{d} came as {id} and is {head}")),
            None => parts.push(format!("{d} came as {id} and is not in the set")),
        }
    }
    let missing = wanted.into_iter();
    parts.extend(
        missing.map(|(d, rev)| format!("{d} ({}) is missing", story.ledger.revisions[rev].id)),
    );
    let more = parts.len().saturating_sub(3);
    parts.truncate(3);
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join(", ")
}
