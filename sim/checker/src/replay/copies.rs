//! What each client was told: its set at EOSE, found again among the commits, and every live entry on top of it.
//!
//! What belongs here: replaying the frames of one sync. What must not: whether a frame was allowed (`judges`).

use std::collections::BTreeMap;

use super::Story;
use super::ledger::{At, K, Rev, pair_sum};
use super::scopes::matches;
use super::syncs::{FrameKind, Sync};

/// How well the set at EOSE was found among the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// In the window that the rules give.
    Yes,
    /// Only before the newest commit acknowledged before the REQ.
    Stale,
    /// Only while a named channel was not readable.
    Unreadable,
    /// Nowhere.
    Nowhere,
}

/// Where the cut of a sync lies.
pub(crate) struct Cut {
    pub(crate) found: Found,
    /// The first and the last commit that it can be.
    pub(crate) first: K,
    pub(crate) last: K,
}

/// An artifact in a client's copy.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) rev: Rev,
}

/// What a live entry says.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    /// This accepted revision is the head.
    Head(Rev),
    /// The artifact left this sync's sight.
    Marker,
    /// Something that the ledger does not know under this id and artifact.
    Unknown,
}

/// One live entry.
pub(crate) struct LiveStep<'a> {
    pub(crate) at: At,
    pub(crate) id: &'a str,
    pub(crate) d: &'a str,
    pub(crate) h: &'a str,
    pub(crate) raw: Option<&'a str>,
    pub(crate) entry: Entry,
    /// What the copy held of the artifact before.
    pub(crate) before: Option<Held>,
    /// The newest commit that an earlier frame of this sync proves to have been seen for this artifact; at least the cut.
    pub(crate) seen: K,
}

/// An artifact for which a copy at rest differs from the set.
pub(crate) struct Difference<'a> {
    pub(crate) d: &'a str,
    pub(crate) held: Option<Rev>,
    pub(crate) wanted: Option<Rev>,
    /// The newest commit of which the client knows for this artifact.
    pub(crate) seen: K,
}

/// A copy compared with the set at a `settled`.
pub(crate) struct Rest<'a> {
    pub(crate) at: At,
    /// The newest commit by then.
    pub(crate) k: K,
    pub(crate) differences: Vec<Difference<'a>>,
}

/// What one client was told.
#[derive(Default)]
pub(crate) struct Copy<'a> {
    /// Head ids as delivered before EOSE, by artifact.
    pub(crate) initial: BTreeMap<&'a str, &'a str>,
    /// Where the cut lies; none without EOSE.
    pub(crate) cut: Option<Cut>,
    pub(crate) steps: Vec<LiveStep<'a>>,
    pub(crate) rests: Vec<Rest<'a>>,
    /// The copy after the last frame.
    pub(crate) held: BTreeMap<&'a str, Held>,
}

struct Walk<'s, 'a> {
    story: &'s Story<'a>,
    sync: &'s Sync<'a>,
    copy: Copy<'a>,
    sum: u128,
    seen: BTreeMap<&'a str, K>,
}

impl<'a> Copy<'a> {
    /// Replays one sync.
    pub(crate) fn new(story: &Story<'a>, sync: &Sync<'a>) -> Copy<'a> {
        let (copy, sum, seen) = (Copy::default(), 0, BTreeMap::new());
        let mut walk = Walk {
            story,
            sync,
            copy,
            sum,
            seen,
        };
        let mut rests = story.rests[story.rests.partition_point(|&at| at <= sync.req)..]
            .iter()
            .peekable();
        for frame in &sync.frames {
            while let Some(&rest) = rests.next_if(|&&rest| rest < frame.at) {
                walk.rest(rest);
            }
            match frame.what {
                FrameKind::Event {
                    kind: 45_010,
                    id,
                    d,
                    ..
                } if walk.copy.cut.is_none() => {
                    walk.copy.initial.insert(d, id);
                }
                FrameKind::Event {
                    kind,
                    id,
                    d,
                    h,
                    raw,
                } if walk.copy.cut.is_some() => {
                    walk.live(frame.at, kind, id, d, h, raw);
                }
                FrameKind::Eose if walk.copy.cut.is_none() => walk.eose(frame.at),
                _ => {}
            }
        }
        for &rest in rests {
            if !sync.open_at(rest) {
                break;
            }
            walk.rest(rest);
        }
        walk.copy
    }
}

impl<'a> Walk<'_, 'a> {
    fn eose(&mut self, at: At) {
        let story = self.story;
        let share = |(d, id): (&&'a str, &&'a str)| match story.ledger.revision(id) {
            Some(revision) if revision.d == *d => revision.sum,
            _ => pair_sum(d, id),
        };
        let sum = self
            .copy
            .initial
            .iter()
            .map(share)
            .fold(0, u128::wrapping_add);
        let cut = find(story, self.sync, sum, at);
        for (&d, id) in &self.copy.initial {
            let rev = story.ledger.rev(id).filter(|&rev| {
                let revision = &story.ledger.revisions[rev];
                revision.d == d && matches(self.sync.filter, revision)
            });
            if let Some(rev) = rev {
                self.copy.held.insert(d, Held { rev });
                self.sum = self.sum.wrapping_add(story.ledger.revisions[rev].sum);
            }
        }
        self.copy.cut = Some(cut);
    }

    fn live(
        &mut self,
        at: At,
        kind: u32,
        id: &'a str,
        d: &'a str,
        h: &'a str,
        raw: Option<&'a str>,
    ) {
        let ledger = &self.story.ledger;
        let cut = self.copy.cut.as_ref().map_or(0, |cut| cut.first);
        let seen = self.seen.get(d).copied().unwrap_or(0).max(cut);
        let before = self.copy.held.get(d).copied();
        let (entry, news) = match kind {
            45_010 => match ledger.rev(id).filter(|&rev| ledger.revisions[rev].d == d) {
                Some(rev) => (Entry::Head(rev), ledger.revisions[rev].accepted),
                None => (Entry::Unknown, 0),
            },
            _ => match ledger.markers.get(id).filter(|marker| marker.d == d) {
                Some(marker) => (Entry::Marker, marker.k),
                None => (Entry::Unknown, 0),
            },
        };
        self.copy.steps.push(LiveStep {
            at,
            id,
            d,
            h,
            raw,
            entry,
            before,
            seen,
        });
        let stays = match entry {
            Entry::Head(rev) if matches(self.sync.filter, &ledger.revisions[rev]) => Some(rev),
            Entry::Head(_) | Entry::Marker => None,
            // A client cannot know better than to take what it is sent; the copy says nothing about it.
            Entry::Unknown => before.map(|held| held.rev),
        };
        self.seen.insert(d, seen.max(news));
        self.put(d, stays);
    }

    fn put(&mut self, d: &'a str, rev: Option<Rev>) {
        let share = |rev: Rev| self.story.ledger.revisions[rev].sum;
        let old = match rev {
            Some(rev) => self.copy.held.insert(d, Held { rev }),
            None => self.copy.held.remove(d),
        };
        self.sum = self.sum.wrapping_sub(old.map_or(0, |held| share(held.rev)));
        self.sum = self.sum.wrapping_add(rev.map_or(0, share));
    }

    fn rest(&mut self, at: At) {
        let Some(cut) = self.copy.cut.as_ref().map(|cut| cut.last) else {
            return;
        };
        if !self.sync.open_at(at) {
            return;
        }
        let story = self.story;
        let scope = &story.scopes[self.sync.scope];
        let (least, k) = (story.ledger.certain(at), story.ledger.possible(at));
        let mut differences = Vec::new();
        if scope.when(self.sum, least.min(k), k).is_empty() {
            let mut wanted = scope.set(k);
            let seen = |d| self.seen.get(d).copied().unwrap_or(0).max(cut);
            for (&d, held) in &self.copy.held {
                let want = wanted.remove(d);
                if want != Some(held.rev) {
                    let (held, seen) = (Some(held.rev), seen(d));
                    differences.push(Difference {
                        d,
                        held,
                        wanted: want,
                        seen,
                    });
                }
            }
            differences.extend(wanted.into_iter().map(|(d, rev)| {
                let (held, wanted) = (None, Some(rev));
                Difference {
                    d,
                    held,
                    wanted,
                    seen: seen(d),
                }
            }));
        }
        self.copy.rests.push(Rest { at, k, differences });
    }
}

/// Looks for the commit whose set the client was given.
fn find(story: &Story<'_>, sync: &Sync<'_>, sum: u128, eose: At) -> Cut {
    let scope = &story.scopes[sync.scope];
    let (first, last) = match sync.snapshots.first() {
        Some(snapshot) => (snapshot.k, snapshot.k),
        None => {
            let last = story.ledger.possible(eose);
            (story.acknowledged_before(sync.asked()).min(last), last)
        }
    };
    let mut found = Found::Nowhere;
    let (mut from, mut to) = (first, last);
    for (start, end) in scope.when(sum, first, last) {
        for (start, end) in admitted_periods(story, sync, start, end) {
            (from, to) = match found {
                Found::Yes => (from.min(start), to.max(end)),
                _ => (start, end),
            };
            found = Found::Yes;
        }
        if found == Found::Nowhere {
            found = Found::Unreadable;
        }
    }
    if found == Found::Nowhere && sync.snapshots.is_empty() && first > 0 {
        let older = scope.when(sum, 0, first - 1);
        if let Some(&(start, end)) = older.first() {
            return Cut {
                found: Found::Stale,
                first: start,
                last: end,
            };
        }
    }
    Cut {
        found,
        first: from,
        last: to,
    }
}

/// The parts of a period in which the reader can read every named channel.
fn admitted_periods(story: &Story<'_>, sync: &Sync<'_>, from: K, to: K) -> Vec<(K, K)> {
    let named = sync.filter.h.iter();
    let changes = named.flat_map(|channel| story.channels.changes(sync.reader, channel, from, to));
    let mut points: Vec<K> = changes.map(|(k, _)| k).chain([from]).collect();
    points.sort_unstable();
    points.dedup();
    let ends = points.iter().skip(1).map(|next| next - 1).chain([to]);
    let periods = points.iter().copied().zip(ends);
    periods
        .filter(|&(start, _)| story.admitted(sync, start))
        .collect()
}
