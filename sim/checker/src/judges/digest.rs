//! DIGEST: at rest, replicas with an open sync hold the store's set and its digest (AR-DIGEST-1, AR-DIGEST-4).

use std::collections::BTreeMap;

use crate::format::{Record, Replica};
use crate::replay::Story;
use crate::replay::copies::Rest;
use crate::replay::ledger::{At, pair_sum, set_digest};
use crate::replay::owed::owed;
use crate::replay::syncs::Sync;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    let mut sets: BTreeMap<Replica, Vec<At>> = BTreeMap::new();
    for (at, line) in story.lines.iter().enumerate() {
        if let Record::LocalSet { replica, .. } = line.record {
            sets.entry(replica).or_default().push(at);
        }
    }
    for (sync, copy) in story.syncs.iter().zip(&story.copies) {
        let recorded = sync
            .replica
            .and_then(|replica| sets.get(&replica))
            .map_or(&[][..], Vec::as_slice);
        for rest in &copy.rests {
            let last = recorded
                .partition_point(|&at| at < rest.at)
                .checked_sub(1)
                .map(|last| recorded[last]);
            if let Some(at) = last.filter(|&at| sync.eose.is_some_and(|eose| eose < at)) {
                compare(story, bench, sync, rest, at);
            }
        }
    }
    end(story, bench);
}

fn compare(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>, rest: &Rest<'_>, at: At) {
    let Record::LocalSet {
        replica,
        digest,
        entries,
        ..
    } = story.record(at)
    else {
        return;
    };
    let excused = rest
        .differences
        .iter()
        .all(|difference| owed(story, sync, rest, difference).is_none());
    if !rest.differences.is_empty() && excused {
        return;
    }
    bench.count(1);
    let share = |(d, rev): &(String, String)| pair_sum(d, rev);
    let sum = entries.iter().map(share).fold(0, u128::wrapping_add);
    let least = story.ledger.certain(rest.at).min(rest.k);
    let held = story.scopes[sync.scope].when(sum, least, rest.k);
    let set = entries.iter().map(|(d, rev)| (d.as_str(), rev.as_str()));
    if held.is_empty() || set_digest(set) != *digest {
        bench.violated(
            "AR-DIGEST-4",
            story.line(rest.at),
            [
                format!(
                    "At rest replica {replica} holds {} artifacts with digest {digest} (line {}).",
                    entries.len(),
                    story.line(at)
                ),
                format!(
                    "The store's set at commit {} has digest {}.",
                    rest.k,
                    own(story, sync.scope, rest.k)
                ),
                "Copies of one set at rest have one digest.".to_owned(),
            ],
        );
    }
}

/// The digest of a scope's set at `k`, computed anew.
fn own(story: &Story<'_>, scope: usize, k: usize) -> String {
    let set = story.scopes[scope].set(k);
    set_digest(
        set.into_iter()
            .map(|(d, rev)| (d, story.ledger.revisions[rev].id)),
    )
}

/// The store's own digests.
fn end(story: &Story<'_>, bench: &mut Bench) {
    let Some(state) = story.state else { return };
    for listed in &state.digests {
        let Some(&scope) = story.scope_of.get(&listed.filter) else {
            continue;
        };
        bench.count(1);
        let own = own(story, scope, story.ledger.commits.len());
        if own != listed.digest {
            bench.violated(
                "AR-DIGEST-4",
                story.line(story.end),
                [
                    format!(
                        "The store lists a set of {:?} with digest {}.",
                        listed.filter, listed.digest
                    ),
                    format!("By its commits the digest is {own}."),
                ],
            );
        }
    }
}
