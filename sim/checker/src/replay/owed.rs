//! What an open sync at rest still owes its client: a change that must have reached it.
//!
//! What belongs here: which differences between a copy at rest and the set are excused by AR-SYNC-5o, and which are not. What
//! must not: words about it (`judges`).

use crate::format::Change;

use super::Story;
use super::copies::{Difference, Rest};
use super::ledger::K;
use super::scopes::member;
use super::syncs::Sync;

/// A change that the client had to be told of, by its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    /// A change of the set.
    Change(K),
    /// A redaction of the head, which had to end the sync.
    Retirement(K),
}

/// What is owed because of one difference; none if it is excused.
pub(crate) fn owed(
    story: &Story<'_>,
    sync: &Sync<'_>,
    rest: &Rest<'_>,
    difference: &Difference<'_>,
) -> Option<Owed> {
    let Difference { d, held, seen, .. } = *difference;
    let head = story
        .ledger
        .head(d, rest.k)
        .map(|rev| &story.ledger.revisions[rev])?;
    if let Some(k) = head.redacted.filter(|&k| k <= rest.k) {
        let announces =
            |change: &&Change| matches!(change, Change::Redaction { rev, .. } if rev == head.id);
        let mut changes = story.ledger.commit(k).changes.iter().filter(announces);
        return changes
            .any(|change| !story.excused(k, change, rest.at))
            .then_some(Owed::Retirement(k));
    }
    let scope = &story.scopes[sync.scope];
    let first = scope.touches.partition_point(|touch| touch.k <= seen);
    let last = scope
        .touches
        .partition_point(|touch| touch.k <= rest.k)
        .max(first);
    let touches = scope.touches[first..last]
        .iter()
        .rev()
        .filter(|touch| touch.d == d);
    for touch in touches {
        if demanded(story, sync, touch.k, d, rest.at) {
            return Some(Owed::Change(touch.k));
        }
        // Of an artifact that the client does not hold a read may find it out of scope and send nothing.
        if held.is_none() && member(&story.ledger, sync.filter, d, touch.k - 1).is_none() {
            return None;
        }
    }
    // Differences without any change since the cut come from a wrong cut, which is told there.
    None
}

/// Whether some signal about the artifact out of this commit has to have reached this sync.
fn demanded(story: &Story<'_>, sync: &Sync<'_>, k: K, d: &str, rest: usize) -> bool {
    let about = |change: &&Change| match change {
        Change::Revision { d: other, .. }
        | Change::MoveSource { d: other, .. }
        | Change::Redaction { d: other, .. } => other == d,
        _ => false,
    };
    let mut changes = story.ledger.commit(k).changes.iter().filter(about);
    changes.any(|change| {
        let heard = story
            .heard_in(change)
            .is_some_and(|channel| sync.filter.h.contains(channel));
        heard && !story.excused(k, change, rest)
    })
}
