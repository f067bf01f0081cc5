//! What the commits of a history made of the world: revisions, channels, members. Its own small reading of them, for goals only; no
//! verdict rests on it.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checker::format::{Change, Filter, RevisionOp, Visibility};

/// An accepted revision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Revision<'h> {
    pub(super) d: &'h str,
    pub(super) rev: &'h str,
    pub(super) op: RevisionOp,
    pub(super) home: &'h str,
    pub(super) tags: &'h [(String, String)],
    /// The index of its commit.
    pub(super) index: u64,
    /// Its place in the chain of its artifact, from 0.
    pub(super) place: usize,
}

impl Revision<'_> {
    /// Whether it belongs to the set of a filter.
    pub(super) fn matches(&self, filter: &Filter) -> bool {
        let has = |(name, values): (&String, &BTreeSet<String>)| {
            let is_one = |(tag, value): &(String, String)| tag == name && values.contains(value);
            self.tags.iter().any(is_one)
        };
        self.op != RevisionOp::Delete && filter.h.contains(self.home) && filter.tags.iter().all(has)
    }
}

/// A channel.
#[derive(Clone, Debug, Default)]
struct Channel<'h> {
    is_open: bool,
    is_deleted: bool,
    roles: BTreeMap<&'h str, &'h str>,
}

/// The state after the commits so far.
#[derive(Clone, Debug, Default)]
pub(super) struct World<'h> {
    revisions: BTreeMap<&'h str, Revision<'h>>,
    chains: BTreeMap<&'h str, Vec<&'h str>>,
    channels: BTreeMap<&'h str, Channel<'h>>,
}

impl<'h> World<'h> {
    /// A revision by its id.
    pub(super) fn revision(&self, rev: &str) -> Option<Revision<'h>> {
        self.revisions.get(rev).copied()
    }

    /// The newest revision of an artifact.
    pub(super) fn head(&self, d: &str) -> Option<Revision<'h>> {
        self.revision(self.chains.get(d)?.last()?)
    }

    /// The revision that replaced this one.
    pub(super) fn successor(&self, rev: &str) -> Option<Revision<'h>> {
        let revision = self.revision(rev)?;
        let chain = self.chains.get(revision.d)?;
        self.revision(chain.get(revision.place + 1)?)
    }

    /// Whether a key can read a channel.
    pub(super) fn can_read(&self, key: Option<&str>, channel: &str) -> bool {
        self.channels.get(channel).is_some_and(|channel| {
            let is_member = key.is_some_and(|key| channel.roles.contains_key(key));
            !channel.is_deleted && (channel.is_open || is_member)
        })
    }

    /// The role of a key in a channel.
    pub(super) fn role(&self, key: &str, channel: &str) -> Option<&'h str> {
        self.channels.get(channel)?.roles.get(key).copied()
    }

    /// Whether everybody can read a channel.
    pub(super) fn is_open(&self, channel: &str) -> bool {
        self.channels.get(channel).is_some_and(|c| c.is_open)
    }

    /// Takes one change of a commit.
    pub(super) fn apply(&mut self, index: u64, change: &'h Change) {
        match change {
            Change::Revision {
                d,
                rev,
                op,
                h,
                tags,
                ..
            } => {
                let chain = self.chains.entry(d).or_default();
                let revision = Revision {
                    d,
                    rev,
                    op: *op,
                    home: h,
                    tags,
                    index,
                    place: chain.len(),
                };
                chain.push(rev);
                self.revisions.insert(rev, revision);
            }
            Change::ChannelCreated {
                channel,
                visibility,
                ..
            } => {
                self.channels.entry(channel).or_default().is_open = *visibility == Visibility::Open;
            }
            Change::ChannelDeleted { channel, .. } => {
                self.channels.entry(channel).or_default().is_deleted = true;
            }
            Change::Visibility {
                channel,
                visibility,
                ..
            } => {
                self.channels.entry(channel).or_default().is_open = *visibility == Visibility::Open;
            }
            Change::Membership {
                channel, key, role, ..
            } => {
                let roles = &mut self.channels.entry(channel).or_default().roles;
                match role {
                    Some(role) => roles.insert(key, role),
                    None => roles.remove(key.as_str()),
                };
            }
            Change::MoveSource { .. }
            | Change::Redaction { .. }
            | Change::Unlisted { .. }
            | Change::Archive { .. }
            | Change::Other { .. } => {}
        }
    }
}
