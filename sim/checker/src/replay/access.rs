//! Who can read which channel at which commit.
//!
//! What belongs here: channels, their visibility and members over time. What must not: artifacts, filters beyond the channels
//! they name.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::{Change, Visibility};

use super::ledger::K;

/// Channel types that a query reaches without naming the channel.
const REACHED_UNNAMED: [&str; 4] = ["stream", "forum", "dm", "workflow"];

/// A channel over time.
struct Channel<'a> {
    created: K,
    channel_type: &'a str,
    visibility: Vec<(K, Visibility)>,
    unlisted: Vec<(K, bool)>,
    deleted: Option<K>,
    members: BTreeMap<&'a str, Vec<(K, bool)>>,
}

/// All channels over time.
#[derive(Default)]
pub(crate) struct Channels<'a> {
    by_id: BTreeMap<&'a str, Channel<'a>>,
}

/// Why a reader's access may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    Created,
    Visibility,
    Membership,
    Deleted,
    Unlisted,
}

fn value_at<T: Copy>(steps: &[(K, T)], k: K) -> Option<T> {
    let until = steps.partition_point(|&(at, _)| at <= k);
    until.checked_sub(1).map(|last| steps[last].1)
}

fn push<T: PartialEq>(steps: &mut Vec<(K, T)>, k: K, value: T) {
    if steps.last().is_none_or(|(_, last)| *last != value) {
        steps.push((k, value));
    }
}

impl<'a> Channels<'a> {
    /// Takes one change of commit `k`.
    ///
    /// # Errors
    /// What makes it no possible change.
    pub(crate) fn take(&mut self, k: K, change: &'a Change) -> Result<(), String> {
        if let Change::ChannelCreated {
            channel,
            channel_type,
            visibility,
            unlisted,
            ..
        } = change
        {
            let created = Channel {
                created: k,
                channel_type,
                visibility: vec![(k, *visibility)],
                unlisted: vec![(k, *unlisted)],
                deleted: None,
                members: BTreeMap::new(),
            };
            return match self.by_id.insert(channel, created) {
                None => Ok(()),
                Some(_) => Err(format!("channel {channel} is created twice")),
            };
        }
        let id = match change {
            Change::Membership { channel, .. }
            | Change::Visibility { channel, .. }
            | Change::Unlisted { channel, .. }
            | Change::Archive { channel, .. }
            | Change::ChannelDeleted { channel, .. } => channel,
            Change::Revision { h, .. } | Change::MoveSource { h, .. } => h,
            _ => return Ok(()),
        };
        let channel = self.by_id.get_mut(id.as_str());
        let channel = channel.ok_or_else(|| format!("no commit created the channel {id}"))?;
        match change {
            Change::Membership { key, role, .. } => {
                let steps = channel.members.entry(key).or_default();
                if role.is_some() || !steps.is_empty() {
                    push(steps, k, role.is_some());
                }
            }
            Change::Visibility { visibility, .. } => push(&mut channel.visibility, k, *visibility),
            Change::Unlisted { unlisted, .. } => push(&mut channel.unlisted, k, *unlisted),
            Change::ChannelDeleted { .. } => {
                channel.deleted.get_or_insert(k);
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a commit created the channel.
    pub(crate) fn exists(&self, channel: &str) -> bool {
        self.by_id.contains_key(channel)
    }

    /// Every channel.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.by_id.keys().copied()
    }

    /// The channel's visibility at `k`, whether it is unlisted, and its members; none if it does not exist then.
    pub(crate) fn state(
        &self,
        channel: &str,
        k: K,
    ) -> Option<(Visibility, bool, BTreeSet<&'a str>)> {
        let found = self.alive(channel, k)?;
        let members = found.members.iter();
        let members = members.filter(|(_, steps)| value_at(steps, k) == Some(true));
        Some((
            value_at(&found.visibility, k)?,
            value_at(&found.unlisted, k)?,
            members.map(|(&key, _)| key).collect(),
        ))
    }

    fn alive(&self, channel: &str, k: K) -> Option<&Channel<'a>> {
        let found = self.by_id.get(channel)?;
        let alive = found.created <= k && found.deleted.is_none_or(|at| at > k);
        alive.then_some(found)
    }

    fn member(channel: &Channel<'_>, reader: Option<&str>, k: K) -> bool {
        let steps = reader.and_then(|key| channel.members.get(key));
        steps.is_some_and(|steps| value_at(steps, k) == Some(true))
    }

    /// Whether the reader can read the channel at `k`.
    pub(crate) fn readable(&self, reader: Option<&str>, channel: &str, k: K) -> bool {
        self.alive(channel, k).is_some_and(|found| {
            value_at(&found.visibility, k) == Some(Visibility::Open)
                || Self::member(found, reader, k)
        })
    }

    /// Whether a sync of this reader that names `named` can read an artifact homed in the channel at `k`: a channel it names, or
    /// one that a query reaches without naming it (H6).
    pub(crate) fn reaches(
        &self,
        reader: Option<&str>,
        named: &BTreeSet<String>,
        channel: &str,
        k: K,
    ) -> bool {
        if !self.readable(reader, channel, k) {
            return false;
        }
        self.alive(channel, k).is_some_and(|found| {
            let listed = value_at(&found.unlisted, k) == Some(false);
            let unnamed = REACHED_UNNAMED.contains(&found.channel_type)
                && (listed || Self::member(found, reader, k));
            named.contains(channel) || unnamed
        })
    }

    /// The commits after `from` and up to `to` that changed something on which the reader's access to the channel depends.
    pub(crate) fn changes(
        &self,
        reader: Option<&str>,
        channel: &str,
        from: K,
        to: K,
    ) -> Vec<(K, Why)> {
        fn between<T>(
            steps: &[(K, T)],
            from: K,
            to: K,
            why: Why,
        ) -> impl Iterator<Item = (K, Why)> {
            let first = steps.partition_point(|&(at, _)| at <= from);
            let last = steps.partition_point(|&(at, _)| at <= to).max(first);
            steps[first..last].iter().map(move |&(at, _)| (at, why))
        }
        let Some(found) = self.by_id.get(channel) else {
            return Vec::new();
        };
        let once = |at: K, why| (at > from && at <= to).then_some((at, why));
        let members = reader.and_then(|key| found.members.get(key));
        // The first visibility and listing came with the creation.
        let mut changes: Vec<(K, Why)> = once(found.created, Why::Created)
            .into_iter()
            .chain(between(&found.visibility[1..], from, to, Why::Visibility))
            .chain(between(&found.unlisted[1..], from, to, Why::Unlisted))
            .chain(
                members
                    .into_iter()
                    .flat_map(|steps| between(steps, from, to, Why::Membership)),
            )
            .chain(found.deleted.and_then(|at| once(at, Why::Deleted)))
            .collect();
        changes.sort_unstable();
        changes
    }

    /// Whether `holds` is true at some commit from `from` to `to` as far as it depends on access to the channel.
    pub(crate) fn somewhere(
        &self,
        reader: Option<&str>,
        channel: &str,
        from: K,
        to: K,
        holds: impl Fn(K) -> bool,
    ) -> bool {
        from <= to
            && (holds(from)
                || self
                    .changes(reader, channel, from, to)
                    .iter()
                    .any(|&(k, _)| holds(k)))
    }
}
