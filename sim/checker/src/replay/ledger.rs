//! The commits as one growing state: chains of revisions, markers, redactions, and which commit can have happened by which line.
//!
//! What belongs here: reading state at a commit. What must not: whether the commits keep the rules (`judges::chain`), who may
//! read a channel (`access`).
//!
//! `K` counts commits: state at `k` is the state after commit `k`, state at 0 is the empty relay. `At` is an index of a record.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::format::{Change, Node, Op, RevisionOp};

/// A number of commits.
pub(crate) type K = usize;
/// The index of a record.
pub(crate) type At = usize;
/// The index of a revision.
pub(crate) type Rev = usize;

/// One commit.
pub(crate) struct Commit<'a> {
    pub(crate) at: At,
    pub(crate) at_ms: u64,
    pub(crate) node: Node,
    pub(crate) ops: &'a [Op],
    pub(crate) changes: &'a [Change],
    /// The first record by which it can have happened.
    pub(crate) earliest: At,
    /// The first record by which it must have happened.
    pub(crate) latest: At,
}

/// One accepted revision.
pub(crate) struct Revision<'a> {
    pub(crate) id: &'a str,
    pub(crate) d: &'a str,
    pub(crate) h: &'a str,
    pub(crate) op: RevisionOp,
    pub(crate) artifact_type: &'a str,
    pub(crate) prev: Option<&'a str>,
    pub(crate) root: Option<&'a str>,
    pub(crate) author: &'a str,
    pub(crate) tags: &'a [(String, String)],
    /// The commit that accepted it.
    pub(crate) accepted: K,
    /// The commit that replaced it.
    pub(crate) replaced: Option<K>,
    /// The commit that redacted it.
    pub(crate) redacted: Option<K>,
    /// Its share of a set's sum.
    pub(crate) sum: u128,
}

impl Revision<'_> {
    /// Whether it was withheld at `k`.
    pub(crate) fn redacted_at(&self, k: K) -> bool {
        self.redacted.is_some_and(|at| at <= k)
    }
}

/// A stored 45011.
pub(crate) struct Marker<'a> {
    pub(crate) d: &'a str,
    /// The channel that the artifact left.
    pub(crate) h: &'a str,
    /// The commit that stored it.
    pub(crate) k: K,
}

/// A redaction as the ledger has it.
pub(crate) struct Redaction<'a> {
    pub(crate) k: K,
    pub(crate) pos: u64,
    pub(crate) d: &'a str,
    pub(crate) rev: &'a str,
    /// What the ledger says about it.
    pub(crate) said_current: bool,
    /// Whether it hit the head.
    pub(crate) current: bool,
    /// Home of the revision; none if no such revision was accepted.
    pub(crate) home: Option<&'a str>,
}

/// A commit that changed an artifact whose old or new home is a given channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Touch<'a> {
    pub(crate) k: K,
    pub(crate) d: &'a str,
}

/// All commits.
#[derive(Default)]
pub(crate) struct Ledger<'a> {
    pub(crate) commits: Vec<Commit<'a>>,
    pub(crate) revisions: Vec<Revision<'a>>,
    pub(crate) markers: BTreeMap<&'a str, Marker<'a>>,
    pub(crate) redactions: Vec<Redaction<'a>>,
    by_id: BTreeMap<&'a str, Rev>,
    chains: BTreeMap<&'a str, Vec<Rev>>,
    touched: BTreeMap<&'a str, Vec<Touch<'a>>>,
    /// Commit and change index of each ledger position.
    positions: BTreeMap<u64, (K, usize)>,
}

impl<'a> Ledger<'a> {
    /// Takes the next commit.
    ///
    /// # Errors
    /// What makes it no possible commit.
    pub(crate) fn push(&mut self, index: u64, commit: Commit<'a>) -> Result<(), String> {
        let k = self.commits.len() + 1;
        if index != k as u64 {
            return Err(format!("commit {index} stands where commit {k} belongs"));
        }
        for (number, change) in commit.changes.iter().enumerate() {
            let pos = change.pos();
            if self.positions.insert(pos, (k, number)).is_some() {
                return Err(format!("ledger position {pos} is used twice"));
            }
            self.take(k, change);
        }
        self.commits.push(commit);
        Ok(())
    }

    fn take(&mut self, k: K, change: &'a Change) {
        match change {
            Change::Revision { .. } => self.take_revision(k, change),
            Change::MoveSource { d, h, marker, .. } => {
                let stored = Marker { d, h, k };
                self.markers.entry(marker.as_str()).or_insert(stored);
                self.touch(h, k, d);
            }
            Change::Redaction {
                pos,
                rev,
                d,
                current,
            } => {
                let head = self.head(d, k);
                let found = self.by_id.get(rev.as_str()).copied();
                let redaction = Redaction {
                    k,
                    pos: *pos,
                    d,
                    rev,
                    said_current: *current,
                    current: found.is_some() && head == found,
                    home: found.map(|rev| self.revisions[rev].h),
                };
                if let Some(rev) = found {
                    self.revisions[rev].redacted.get_or_insert(k);
                    self.touch(self.revisions[rev].h, k, d);
                }
                self.redactions.push(redaction);
            }
            _ => {}
        }
    }

    fn take_revision(&mut self, k: K, change: &'a Change) {
        let Change::Revision {
            d,
            rev,
            prev,
            op,
            h,
            artifact_type,
            tags,
            author,
            root,
            ..
        } = change
        else {
            return;
        };
        if self.by_id.contains_key(rev.as_str()) {
            return;
        }
        let index = self.revisions.len();
        if let Some(before) = self.head(d, k) {
            self.revisions[before].replaced = Some(k);
            let home = self.revisions[before].h;
            self.touch(home, k, d);
        }
        self.touch(h, k, d);
        self.by_id.insert(rev, index);
        self.chains.entry(d).or_default().push(index);
        self.revisions.push(Revision {
            id: rev,
            d,
            h,
            op: *op,
            artifact_type,
            prev: prev.as_deref(),
            root: root.as_deref(),
            author,
            tags,
            accepted: k,
            replaced: None,
            redacted: None,
            sum: pair_sum(d, rev),
        });
    }

    fn touch(&mut self, channel: &'a str, k: K, d: &'a str) {
        let list = self.touched.entry(channel).or_default();
        if list.last() != Some(&Touch { k, d }) {
            list.push(Touch { k, d });
        }
    }

    /// The revision with this id.
    pub(crate) fn revision(&self, id: &str) -> Option<&Revision<'a>> {
        self.by_id.get(id).map(|&rev| &self.revisions[rev])
    }

    /// The index of the revision with this id.
    pub(crate) fn rev(&self, id: &str) -> Option<Rev> {
        self.by_id.get(id).copied()
    }

    /// Every revision of an artifact in the order of acceptance.
    pub(crate) fn chain(&self, d: &str) -> &[Rev] {
        self.chains.get(d).map_or(&[], Vec::as_slice)
    }

    /// Every artifact.
    pub(crate) fn artifacts(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.chains.keys().copied()
    }

    /// The current revision at `k`, redacted or not.
    pub(crate) fn head(&self, d: &str, k: K) -> Option<Rev> {
        let chain = self.chain(d);
        let until = chain.partition_point(|&rev| self.revisions[rev].accepted <= k);
        until.checked_sub(1).map(|last| chain[last])
    }

    /// Where in its chain a revision stands.
    pub(crate) fn order(&self, rev: Rev) -> usize {
        let Revision { d, accepted, .. } = self.revisions[rev];
        self.chain(d)
            .partition_point(|&other| self.revisions[other].accepted < accepted)
    }

    /// Commits that touched artifacts homed in a channel, in order.
    pub(crate) fn touched(&self, channel: &str) -> &[Touch<'a>] {
        self.touched.get(channel).map_or(&[], Vec::as_slice)
    }

    /// The commit and the change at a ledger position.
    pub(crate) fn position(&self, pos: u64) -> Option<(K, &'a Change)> {
        let &(k, number) = self.positions.get(&pos)?;
        Some((k, &self.commits[k - 1].changes[number]))
    }

    /// The commit with number `k`, from 1.
    pub(crate) fn commit(&self, k: K) -> &Commit<'a> {
        &self.commits[k - 1]
    }

    /// How many commits can have happened by a record.
    pub(crate) fn possible(&self, at: At) -> K {
        self.commits.partition_point(|commit| commit.earliest <= at)
    }

    /// How many commits must have happened by a record.
    pub(crate) fn certain(&self, at: At) -> K {
        self.commits.partition_point(|commit| commit.latest <= at)
    }

    /// Fills `earliest` and `latest` of commits whose true place is not known, from the operations they answer.
    pub(crate) fn place(
        &mut self,
        submitted: impl Fn(Op) -> Option<At>,
        acknowledged: impl Fn(Op) -> Option<At>,
    ) {
        let mut bound = 0;
        for commit in &mut self.commits {
            bound = commit
                .ops
                .iter()
                .filter_map(|&op| submitted(op))
                .fold(bound, At::max);
            commit.earliest = bound;
        }
        let mut bound = At::MAX;
        for commit in self.commits.iter_mut().rev() {
            bound = commit
                .ops
                .iter()
                .filter_map(|&op| acknowledged(op))
                .fold(bound, At::min);
            commit.latest = bound;
        }
    }
}

/// The share of one artifact and its head in the sum of a set. Sums of equal sets are equal, and sums of different sets differ
/// as surely as hashes of 128 bits do.
pub(crate) fn pair_sum(d: &str, rev: &str) -> u128 {
    let mut hasher = Sha256::new();
    hasher.update((d.len() as u64).to_le_bytes());
    hasher.update(d);
    hasher.update(rev);
    let hash = hasher.finalize();
    hash.iter()
        .take(16)
        .fold(0, |sum, &byte| sum << 8 | u128::from(byte))
}

/// The digest of a set as NIP-AR defines it (AR-DIGEST-1).
pub(crate) fn set_digest<'s>(pairs: impl IntoIterator<Item = (&'s str, &'s str)>) -> String {
    let sorted: BTreeMap<&str, &str> = pairs.into_iter().collect();
    let mut hasher = Sha256::new();
    hasher.update(b"nip-ar-set-v1");
    hasher.update([0]);
    for (d, rev) in sorted {
        hasher.update([d, ":", rev, "\n"].concat());
    }
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
