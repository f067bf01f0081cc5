//! Which changes were announced, which announcements a crash took along, and which may still arrive later.
//!
//! What belongs here: the one exemption that the rules give (AR-SYNC-5o) and its exact extent. What must not: what an announced
//! change demands of a sync.

use std::collections::BTreeMap;

use crate::format::{Change, Knows};

use super::Story;
use super::ledger::{At, K};

/// Announcements of one subject may be merged: the latest speaks for the earlier ones (AR-SYNC-5l).
type Subject<'a> = (&'a str, &'a str);

/// For each subject its commits in order, each with the first record that published it or a later one.
pub(crate) type Announced<'a> = BTreeMap<Subject<'a>, Vec<(K, At)>>;

/// What a change announces: a channel, and an artifact or a key in it.
fn subject<'a>(story: &Story<'a>, change: &'a Change) -> Option<Subject<'a>> {
    match change {
        Change::Revision { h, d, .. } | Change::MoveSource { h, d, .. } => Some((h, d)),
        Change::Redaction { d, rev, .. } => Some((story.ledger.revision(rev)?.h, d)),
        Change::Membership { channel, key, .. } => Some((channel, key)),
        Change::Visibility { channel, .. } | Change::ChannelDeleted { channel, .. } => {
            Some((channel, ""))
        }
        _ => None,
    }
}

/// Sorts the published positions by subject.
pub(crate) fn announced<'a>(story: &Story<'a>) -> Announced<'a> {
    let mut announced: Announced<'a> = BTreeMap::new();
    for (&pos, &(at, _)) in &story.published {
        let found = story.ledger.position(pos);
        if let Some((k, subject)) = found.and_then(|(k, change)| Some((k, subject(story, change)?)))
        {
            announced.entry(subject).or_default().push((k, at));
        }
    }
    for list in announced.values_mut() {
        list.sort_unstable();
        let mut first = At::MAX;
        for (_, at) in list.iter_mut().rev() {
            first = first.min(*at);
            *at = first;
        }
    }
    announced
}

impl<'a> Story<'a> {
    /// The channel to whose listeners a change is announced.
    pub(crate) fn heard_in(&self, change: &'a Change) -> Option<&'a str> {
        subject(self, change).map(|(channel, _)| channel)
    }

    /// Whether a change has to be announced at all.
    pub(crate) fn announces(&self, change: &'a Change) -> bool {
        subject(self, change).is_some()
    }

    /// The record that published a change of commit `k`, or a later one that speaks for it.
    pub(crate) fn published_at(&self, k: K, change: &'a Change) -> Option<At> {
        let list = self.announced.get(&subject(self, change)?)?;
        let first = list.partition_point(|&(other, _)| other < k);
        list.get(first).map(|&(_, at)| at)
    }

    /// The record with which the node of commit `k` died before it published the change, if that is what happened.
    pub(crate) fn lost_with(&self, k: K, change: &'a Change) -> Option<At> {
        let commit = self.ledger.commit(k);
        let life = self.node(commit.node);
        if self.knows(Knows::Published) {
            // A COMMIT that was sent may take place after its process died.
            if let Some(death) = life.dead_at(commit.earliest) {
                return Some(death);
            }
            let death = life.death_after(commit.earliest)?;
            let published = self.published_at(k, change);
            return published.is_none_or(|at| at > death).then_some(death);
        }
        let window_ms = self.commit_ms(k) + self.header.signal_delay_ms;
        let death = life.death_after(commit.earliest)?;
        (self.ms(death) <= window_ms).then_some(death)
    }

    /// Whether nothing can be asked of syncs at a record because of a change of commit `k`: it was lost with its node, and no
    /// sweep has found it since.
    pub(crate) fn excused(&self, k: K, change: &'a Change, at: At) -> bool {
        let swept = self
            .header
            .sweep_ms
            .is_some_and(|interval_ms| self.ms(at) > self.commit_ms(k) + 2 * interval_ms);
        !swept && self.lost_with(k, change).is_some()
    }

    /// Whether an announcement of a change of commit `k` may reach a node after a record.
    pub(crate) fn may_arrive_after(&self, k: K, change: &'a Change, at: At) -> bool {
        if k > self.ledger.certain(at) {
            return true;
        }
        let late_ms = self
            .header
            .sweep_ms
            .map_or(0, |interval_ms| 2 * interval_ms);
        let late_ms = late_ms.max(self.header.signal_delay_ms);
        // Its own announcement may come after that of a later change of the same subject.
        let own = self.published.get(&change.pos()).map(|&(_, last)| last);
        let sent_ms = match own.or_else(|| self.published_at(k, change)) {
            Some(published) if published > at => return true,
            Some(published) => self.ms(published),
            None if self.knows(Knows::Published) && self.header.sweep_ms.is_none() => {
                // Never published in this history, so nobody can have heard of it.
                return false;
            }
            None => self.commit_ms(k),
        };
        sent_ms + late_ms >= self.ms(at)
    }
}
