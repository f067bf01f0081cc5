//! Mutants of what clients receive.

use holdfast_checker::History;
use holdfast_checker::format::Record;

use super::{
    Accepted, Sync, accepted, choose, edited, event, first_rest, reads, syncs, with, without,
};
use crate::toy::Dice;

/// The syncs with a complete set of at least `least` artifacts.
fn complete(history: &History, least: usize) -> Vec<Sync<'_>> {
    let all = syncs(history).into_iter();
    all.filter(|sync| sync.eose.is_some() && sync.initial.len() >= least)
        .collect()
}

fn head(sync: &Sync<'_>, revision: &Accepted<'_>) -> Record {
    Record::Event {
        conn: sync.conn,
        sub: sync.sub.to_owned(),
        attempt: None,
        kind: 45_010,
        id: revision.id.to_owned(),
        d: revision.d.to_owned(),
        h: revision.h.to_owned(),
        raw: None,
    }
}

fn closed(sync: &Sync<'_>, text: &str) -> Record {
    Record::Closed {
        conn: sync.conn,
        sub: sync.sub.to_owned(),
        attempt: None,
        text: text.to_owned(),
    }
}

fn closed_text(history: &History, at: usize) -> &str {
    match &history.lines[at].record {
        Record::Closed { text, .. } => text,
        other => panic!("not closed: {other:?}"),
    }
}

pub(super) fn drop_initial(history: &History, dice: &mut Dice) -> Option<History> {
    let sync = choose(complete(history, 1), dice)?;
    Some(without(history, choose(sync.initial, dice)?))
}

pub(super) fn rename_initial(history: &History, dice: &mut Dice) -> Option<History> {
    let sync = choose(complete(history, 1), dice)?;
    let at = choose(sync.initial, dice)?;
    Some(edited(history, at, |record| {
        if let Record::Event { d, .. } = record {
            d.push('x');
        }
    }))
}

pub(super) fn early_eose(history: &History, dice: &mut Dice) -> Option<History> {
    let sync = choose(complete(history, 1), dice)?;
    let (last, eose) = (*sync.initial.last()?, sync.eose?);
    let mut changed = history.clone();
    let (last_ms, eose_ms) = (changed.lines[last].at_ms, changed.lines[eose].at_ms);
    changed.lines.swap(last, eose);
    (changed.lines[last].at_ms, changed.lines[eose].at_ms) = (last_ms, eose_ms);
    Some(changed)
}

pub(super) fn late_eose(history: &History, dice: &mut Dice) -> Option<History> {
    let all = complete(history, 0);
    let sync = choose(
        all.into_iter()
            .filter(|sync| !sync.live.is_empty())
            .collect(),
        dice,
    )?;
    let (first, eose) = (*sync.live.first()?, sync.eose?);
    let mut changed = history.clone();
    let moved = changed.lines.remove(eose);
    changed.lines.insert(
        first,
        holdfast_checker::Line {
            at_ms: changed.lines[first - 1].at_ms,
            ..moved
        },
    );
    Some(changed)
}

/// The client gets the empty set of the beginning, although writes were acknowledged before it asked.
pub(super) fn stale_set(history: &History, dice: &mut Dice) -> Option<History> {
    let acknowledged = |sync: &Sync<'_>| {
        history.lines[..sync.req].iter().any(|line| {
            matches!(
                line.record,
                Record::Outcome {
                    result: holdfast_checker::format::Outcome::Ok,
                    ..
                }
            )
        })
    };
    let all = complete(history, 1)
        .into_iter()
        .filter(acknowledged)
        .collect();
    let sync = choose(all, dice)?;
    let (snapshot, _) = sync.snapshot?;
    let mut changed = edited(history, snapshot, |record| {
        if let Record::SnapshotOpen { index, .. } = record {
            // Channels exist there, artifacts do not.
            *index = 3;
        }
    });
    for &at in sync.initial.iter().rev() {
        changed.lines.remove(at);
    }
    Some(changed)
}

pub(super) fn older_head(history: &History, dice: &mut Dice) -> Option<History> {
    let revisions = accepted(history);
    let all = syncs(history);
    let places = all
        .iter()
        .flat_map(|sync| sync.live.iter().map(move |&at| (sync, at)));
    let places = places.filter_map(|(sync, at)| {
        let prev = revisions.get(event(history, at).0)?.prev?;
        Some((at, head(sync, &revisions[prev])))
    });
    let (at, older) = choose(places.collect(), dice)?;
    Some(with(history, at + 1, older))
}

pub(super) fn swap_heads(history: &History, dice: &mut Dice) -> Option<History> {
    let revisions = accepted(history);
    let mut places = Vec::new();
    for sync in syncs(history) {
        for (index, &first) in sync.live.iter().enumerate() {
            let (id, d) = event(history, first);
            let second = sync.live[index + 1..]
                .iter()
                .find(|&&second| event(history, second).1 == d);
            let second = second.filter(|&&second| event(history, second).0 != id);
            let heads = |at: usize| revisions.contains_key(event(history, at).0);
            places.extend(
                second
                    .filter(|&&second| heads(first) && heads(second))
                    .map(|&second| (first, second)),
            );
        }
    }
    let (first, second) = choose(places, dice)?;
    let mut changed = history.clone();
    let (first_ms, second_ms) = (changed.lines[first].at_ms, changed.lines[second].at_ms);
    changed.lines.swap(first, second);
    (changed.lines[first].at_ms, changed.lines[second].at_ms) = (first_ms, second_ms);
    Some(changed)
}

pub(super) fn drop_last_head(history: &History, dice: &mut Dice) -> Option<History> {
    let mut places = Vec::new();
    for sync in syncs(history).into_iter().filter(Sync::open) {
        for (index, &at) in sync.live.iter().enumerate() {
            let (id, d) = event(history, at);
            let last = !sync.live[index + 1..]
                .iter()
                .any(|&later| event(history, later).1 == d);
            let earlier = sync.initial.iter().chain(&sync.live[..index]).rev();
            let before = earlier
                .map(|&before| event(history, before))
                .find(|(_, other)| *other == d);
            // A repeated head may be missing; all others tell something new.
            if last && before.is_none_or(|(before, _)| before != id) {
                places.push(at);
            }
        }
    }
    Some(without(history, choose(places, dice)?))
}

pub(super) fn second_eose(history: &History, dice: &mut Dice) -> Option<History> {
    let sync = choose(complete(history, 0), dice)?;
    let eose = sync.eose?;
    Some(with(history, eose + 1, history.lines[eose].record.clone()))
}

pub(super) fn repeat_initial(history: &History, dice: &mut Dice) -> Option<History> {
    let sync = choose(complete(history, 1), dice)?;
    let at = choose(sync.initial, dice)?;
    Some(with(history, at + 1, history.lines[at].record.clone()))
}

pub(super) fn swap_initial(history: &History, dice: &mut Dice) -> Option<History> {
    let sync = choose(complete(history, 2), dice)?;
    let (first, second) = (sync.initial[0], sync.initial[1]);
    let mut changed = history.clone();
    let (first_ms, second_ms) = (changed.lines[first].at_ms, changed.lines[second].at_ms);
    changed.lines.swap(first, second);
    (changed.lines[first].at_ms, changed.lines[second].at_ms) = (first_ms, second_ms);
    Some(changed)
}

pub(super) fn event_after_closed(history: &History, dice: &mut Dice) -> Option<History> {
    let all = syncs(history)
        .into_iter()
        .filter(|sync| sync.closed.is_some() && sync.ended == sync.closed);
    let sync = choose(all.filter(|sync| !sync.initial.is_empty()).collect(), dice)?;
    let record = history.lines[*sync.initial.first()?].record.clone();
    Some(with(history, sync.closed? + 1, record))
}

/// A current head in a named channel that does not match, for an artifact that the sync was never told of.
pub(super) fn stranger(history: &History, dice: &mut Dice) -> Option<History> {
    let revisions = accepted(history);
    let mut places = Vec::new();
    for sync in syncs(history).into_iter().filter(Sync::open) {
        let told = |d: &str| {
            sync.initial
                .iter()
                .chain(&sync.live)
                .any(|&at| event(history, at).1 == d)
        };
        let end = first_rest(history);
        for revision in revisions.values() {
            let replaced = revisions
                .values()
                .any(|next| next.prev == Some(revision.id) && next.at < end);
            let fits = revision.at < end && !replaced && sync.filter.h.contains(revision.h);
            if fits && sync.eose? < end && !revision.matches(sync.filter) && !told(revision.d) {
                places.push((end, head(&sync, revision)));
            }
        }
    }
    let (at, record) = choose(places, dice)?;
    Some(with(history, at, record))
}

/// A current head in a channel that the reader cannot read, neither then nor when it was written.
pub(super) fn secret(history: &History, dice: &mut Dice) -> Option<History> {
    let revisions = accepted(history);
    let end = first_rest(history);
    let mut places = Vec::new();
    for sync in syncs(history).into_iter().filter(Sync::open) {
        let Some(eose) = sync.eose.filter(|&eose| eose < end) else {
            continue;
        };
        for revision in revisions.values().filter(|revision| revision.at < end) {
            let replaced = revisions
                .values()
                .any(|next| next.prev == Some(revision.id) && next.at < end);
            let hidden = (revision.at.min(eose)..=end)
                .all(|at| !reads(history, sync.reader, revision.h, at));
            if !replaced && hidden {
                places.push((end, head(&sync, revision)));
            }
        }
    }
    let (at, record) = choose(places, dice)?;
    Some(with(history, at, record))
}

pub(super) fn telling_restricted(history: &History, dice: &mut Dice) -> Option<History> {
    let all = syncs(history).into_iter();
    let all = all.filter(|sync| {
        sync.closed
            .is_some_and(|at| closed_text(history, at).starts_with("restricted:"))
    });
    let sync = choose(all.collect(), dice)?;
    let channel = sync.filter.h.first()?.clone();
    Some(edited(history, sync.closed?, |record| {
        if let Record::Closed { text, .. } = record {
            *text = format!("restricted: cannot read {channel}");
        }
    }))
}

pub(super) fn spurious_resync(history: &History, dice: &mut Dice) -> Option<History> {
    let all = syncs(history).into_iter().filter(Sync::open).collect();
    let sync = choose(all, dice)?;
    let text = *dice.pick(&[
        "resync: signals",
        "resync: lookup",
        "resync: store",
        "error: busy",
        "resync: nothing",
    ]);
    Some(with(history, history.lines.len() - 1, closed(&sync, text)))
}

pub(super) fn spurious_backlog(history: &History, dice: &mut Dice) -> Option<History> {
    // A sync in whose channels there were never more artifacts than may wait.
    let quiet = |sync: &Sync<'_>| {
        let revisions = accepted(history);
        let homed = revisions
            .values()
            .filter(|revision| sync.filter.h.contains(revision.h));
        let distinct: std::collections::BTreeSet<&str> = homed.map(|revision| revision.d).collect();
        distinct.len() as u64 <= history.header.max_events
    };
    let all = syncs(history)
        .into_iter()
        .filter(Sync::open)
        .filter(quiet)
        .collect();
    let sync = choose(all, dice)?;
    Some(with(
        history,
        history.lines.len() - 1,
        closed(&sync, "resync: backlog"),
    ))
}

fn closed_with<'a>(history: &'a History, text: &str) -> Vec<(usize, Sync<'a>)> {
    let all = syncs(history)
        .into_iter()
        .filter_map(|sync| Some((sync.closed?, sync)));
    all.filter(|(at, _)| closed_text(history, *at) == text)
        .collect()
}

pub(super) fn wrong_cause(history: &History, dice: &mut Dice) -> Option<History> {
    let (at, _) = choose(closed_with(history, "resync: signals"), dice)?;
    Some(edited(history, at, |record| {
        if let Record::Closed { text, .. } = record {
            "resync: store".clone_into(text);
        }
    }))
}

/// Deletes a CLOSED with this text while the connection stays open until the world comes to rest.
fn delete(
    history: &History,
    dice: &mut Dice,
    text: &str,
    admits: impl Fn(&Sync<'_>) -> bool,
) -> Option<History> {
    let rest = first_rest(history);
    let stays = |sync: &Sync<'_>| {
        let mut gone = history
            .lines
            .iter()
            .position(|line| match line.record {
                Record::Disconnect { conn, .. } => conn == sync.conn,
                _ => false,
            })
            .into_iter();
        sync.ended == sync.closed && gone.all(|gone| gone > rest)
    };
    let all = closed_with(history, text)
        .into_iter()
        .filter(|(at, sync)| *at < rest && stays(sync) && admits(sync));
    let (at, _) = choose(all.collect(), dice)?;
    Some(without(history, at))
}

pub(super) fn delete_signals(history: &History, dice: &mut Dice) -> Option<History> {
    delete(history, dice, "resync: signals", |_| true)
}

pub(super) fn delete_lookup(history: &History, dice: &mut Dice) -> Option<History> {
    delete(history, dice, "resync: lookup", |_| true)
}

pub(super) fn delete_access(history: &History, dice: &mut Dice) -> Option<History> {
    delete(history, dice, "resync: access", |sync| {
        let Some((snapshot, _)) = sync.snapshot else {
            return false;
        };
        let unreadable = |at| {
            sync.filter
                .h
                .iter()
                .any(|channel| !reads(history, sync.reader, channel, at))
        };
        sync.closed
            .is_some_and(|closed| (snapshot..=closed).any(unreadable))
    })
}

pub(super) fn delete_retired(history: &History, dice: &mut Dice) -> Option<History> {
    delete(history, dice, "resync: retired", |sync| sync.eose.is_some())
}

pub(super) fn repeat_head(history: &History, dice: &mut Dice) -> Option<History> {
    let revisions = accepted(history);
    let all = syncs(history);
    let places = all
        .iter()
        .flat_map(|sync| sync.live.iter().map(move |&at| (sync, at)));
    let places = places.filter(|&(sync, at)| {
        // A head that left the set is not sent again: the artifact is no longer in scope.
        revisions
            .get(event(history, at).0)
            .is_some_and(|revision| revision.matches(sync.filter))
    });
    let at = choose(places.map(|(_, at)| at).collect(), dice)?;
    Some(with(history, at + 1, history.lines[at].record.clone()))
}

/// Drops a head that another one of the same artifact follows before anybody looks at the copy.
pub(super) fn skip_revision(history: &History, dice: &mut Dice) -> Option<History> {
    let revisions = accepted(history);
    let mut places = Vec::new();
    for sync in syncs(history) {
        for (index, &at) in sync.live.iter().enumerate() {
            let d = event(history, at).1;
            let next = sync.live[index + 1..]
                .iter()
                .find(|&&next| event(history, next).1 == d);
            let fits = |next: usize| {
                let looked = history.lines[at..next]
                    .iter()
                    .any(|line| match line.record {
                        Record::Settled {} => true,
                        Record::LocalSet { replica, .. } => replica == sync.replica,
                        _ => false,
                    });
                !looked
                    && revisions
                        .get(event(history, next).0)
                        .is_some_and(|head| head.matches(sync.filter))
            };
            places.extend(next.filter(|&&next| fits(next)).map(|_| at));
        }
    }
    Some(without(history, choose(places, dice)?))
}

/// The last attempt of a replica never gets its EOSE, nor anything after it.
pub(super) fn unserved(history: &History, dice: &mut Dice) -> Option<History> {
    let all = syncs(history).into_iter().filter(Sync::open);
    let sync = choose(all.filter(|sync| sync.live.is_empty()).collect(), dice)?;
    Some(without(history, sync.eose?))
}
