//! The set that a filter selects, at every commit. This is the checker's own reading of a match.
//!
//! What belongs here: matching and the sums of sets. What must not: who may read the set (`access`).

use crate::format::{Filter, RevisionOp};

use super::ledger::{K, Ledger, Rev, Revision, Touch};

/// One change of the set.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) k: K,
    pub(crate) d: &'a str,
    pub(crate) after: Option<Rev>,
    /// Sum and size of the set after it.
    pub(crate) sum: u128,
    pub(crate) size: u64,
}

/// A filter's set over time.
pub(crate) struct Scope<'a> {
    pub(crate) steps: Vec<Step<'a>>,
    /// Every commit that changed an artifact homed in a named channel, whether it matches or not.
    pub(crate) touches: Vec<Touch<'a>>,
}

/// Whether a revision is in the set of a filter while it is the current one: it is no deletion, its home is named, and every
/// predicate finds the first value of a tag with its name among its values (AR-SYNC-3i).
pub(crate) fn matches(filter: &Filter, revision: &Revision<'_>) -> bool {
    let field = |name: &str| match name {
        "d" => Some(revision.d),
        "type" => Some(revision.artifact_type),
        "op" => Some(op_name(revision.op)),
        _ => None,
    };
    let predicate = |(name, values): (&String, &std::collections::BTreeSet<String>)| {
        let optional = match name.as_str() {
            "prev" => revision.prev,
            "root" => revision.root,
            other => field(other),
        };
        optional.is_some_and(|value| values.contains(value))
            || revision
                .tags
                .iter()
                .any(|(tag, value)| tag == name && values.contains(value))
    };
    filter.malformed.is_none()
        && revision.op != RevisionOp::Delete
        && filter.h.contains(revision.h)
        && filter.tags.iter().all(predicate)
}

fn op_name(op: RevisionOp) -> &'static str {
    match op {
        RevisionOp::Create => "create",
        RevisionOp::Update => "update",
        RevisionOp::Move => "move",
        RevisionOp::Delete => "delete",
        RevisionOp::Restore => "restore",
    }
}

/// The revision of the artifact that is in the set at `k`.
pub(crate) fn member(ledger: &Ledger<'_>, filter: &Filter, d: &str, k: K) -> Option<Rev> {
    let rev = ledger.head(d, k)?;
    let revision = &ledger.revisions[rev];
    (!revision.redacted_at(k) && matches(filter, revision)).then_some(rev)
}

impl<'a> Scope<'a> {
    /// Replays the commits for one filter.
    pub(crate) fn new(ledger: &Ledger<'a>, filter: &'a Filter) -> Scope<'a> {
        let named = filter.h.iter().flat_map(|channel| ledger.touched(channel));
        let mut touches: Vec<Touch<'a>> = named.copied().collect();
        touches.sort_unstable();
        touches.dedup();
        let mut steps: Vec<Step<'a>> = Vec::new();
        let (mut sum, mut size) = (0_u128, 0_u64);
        for &Touch { k, d } in &touches {
            let before = member(ledger, filter, d, k - 1);
            let after = member(ledger, filter, d, k);
            if before == after {
                continue;
            }
            if let Some(rev) = before {
                sum = sum.wrapping_sub(ledger.revisions[rev].sum);
                size -= 1;
            }
            if let Some(rev) = after {
                sum = sum.wrapping_add(ledger.revisions[rev].sum);
                size += 1;
            }
            steps.push(Step {
                k,
                d,
                after,
                sum,
                size,
            });
        }
        Scope { steps, touches }
    }

    /// The index of the first step after commit `k`.
    fn after(&self, k: K) -> usize {
        self.steps.partition_point(|step| step.k <= k)
    }

    /// Sum and size of the set at `k`.
    pub(crate) fn at(&self, k: K) -> (u128, u64) {
        let last = self.after(k).checked_sub(1);
        last.map_or((0, 0), |last| (self.steps[last].sum, self.steps[last].size))
    }

    /// The steps after commit `from` up to commit `to`.
    pub(crate) fn between(&self, from: K, to: K) -> &[Step<'a>] {
        let first = self.after(from);
        &self.steps[first..self.after(to).max(first)]
    }

    /// The largest size of the set from commit `from` to commit `to`.
    pub(crate) fn largest(&self, from: K, to: K) -> u64 {
        let later = self.between(from, to).iter().map(|step| step.size);
        later.fold(self.at(from).1, u64::max)
    }

    /// The periods within `from..=to`, newest first, in which the set has this sum.
    pub(crate) fn when(&self, sum: u128, from: K, to: K) -> Vec<(K, K)> {
        let mut periods = Vec::new();
        let mut until = to;
        for step in self.between(from, to).iter().rev() {
            // Several artifacts may change in one commit; only the state after the whole commit was ever there.
            if step.k <= until {
                if step.sum == sum {
                    periods.push((step.k, until));
                }
                until = step.k - 1;
            }
        }
        if until >= from && self.at(from).0 == sum {
            periods.push((from, until));
        }
        periods
    }

    /// The whole set at `k`. Costs as much as the set's history.
    pub(crate) fn set(&self, k: K) -> std::collections::BTreeMap<&'a str, Rev> {
        let mut set = std::collections::BTreeMap::new();
        for step in &self.steps[..self.after(k)] {
            match step.after {
                Some(rev) => set.insert(step.d, rev),
                None => set.remove(step.d),
            };
        }
        set
    }
}
