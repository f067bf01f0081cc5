//! Mutants of what relays and replicas do inside.

use holdfast_checker::format::{Commits, Knows, Outcome, ReadResult, Record, Tier};
use holdfast_checker::{History, Invariant};

use super::{accepted, choose, edited, places, syncs, with, without};
use crate::toy::Dice;

pub(super) fn read_redacted(history: &History, dice: &mut Dice) -> Option<History> {
    use holdfast_checker::format::Change;
    let redactions = places(history, |record| match record {
        Record::Commit { index, changes, .. } => changes.iter().find_map(|change| match change {
            Change::Redaction {
                rev, current: true, ..
            } => Some((*index, rev.clone())),
            _ => None,
        }),
        _ => None,
    });
    let (_, (k, rev)) = choose(redactions, dice)?;
    let d = accepted(history)[rev.as_str()].d.to_owned();
    let reads = places(history, |record| match record {
        Record::ReadEnd {
            d: other, index, ..
        } if *other == d && *index == k => Some(()),
        _ => None,
    });
    let (at, ()) = choose(reads, dice)?;
    Some(edited(history, at, |record| {
        if let Record::ReadEnd { result, .. } = record {
            *result = ReadResult::Head(rev);
        }
    }))
}

pub(super) fn read_older(history: &History, dice: &mut Dice) -> Option<History> {
    let revisions = accepted(history);
    let reads = places(history, |record| match record {
        Record::ReadEnd {
            result: ReadResult::Head(id),
            ..
        } => revisions[id.as_str()].prev,
        _ => None,
    });
    let (at, older) = choose(reads, dice)?;
    Some(edited(history, at, |record| {
        if let Record::ReadEnd { result, .. } = record {
            *result = ReadResult::Head(older.to_owned());
        }
    }))
}

pub(super) fn read_twice(history: &History, dice: &mut Dice) -> Option<History> {
    let begins = places(history, |record| {
        matches!(record, Record::ReadBegin { .. }).then(|| record.clone())
    });
    let (at, again) = choose(begins, dice)?;
    Some(with(history, at + 1, again))
}

pub(super) fn held_too_much(history: &History, dice: &mut Dice) -> Option<History> {
    let all = syncs(history)
        .into_iter()
        .filter(|sync| sync.eose.is_some());
    let sync = choose(all.collect(), dice)?;
    let (attempt, count) = (sync.attempt, history.header.max_events + 1);
    Some(with(history, sync.eose?, Record::Held { attempt, count }))
}

pub(super) fn long_queue(history: &History, dice: &mut Dice) -> Option<History> {
    let sync = choose(syncs(history), dice)?;
    let (frames, bytes) = if dice.once_in(2) {
        (history.header.queue_frames_max + 1, 1)
    } else {
        (1, history.header.queue_bytes_max + 1)
    };
    Some(with(
        history,
        sync.req + 1,
        Record::Queue {
            conn: sync.conn,
            frames,
            bytes,
        },
    ))
}

pub(super) fn slow_snapshot(history: &History, dice: &mut Dice) -> Option<History> {
    let all = syncs(history).into_iter().filter_map(|sync| sync.snapshot);
    let (at, _) = choose(all.collect(), dice)?;
    Some(later(
        history,
        at + 1,
        history.header.snapshot_budget_ms + history.header.slack_ms + 1,
    ))
}

/// Everything from a record on happens later.
fn later(history: &History, at: usize, by_ms: u64) -> History {
    let mut changed = history.clone();
    for line in &mut changed.lines[at..] {
        line.at_ms += by_ms;
    }
    changed
}

pub(super) fn kept_snapshot(history: &History, dice: &mut Dice) -> Option<History> {
    let all = syncs(history);
    let ended = places(history, |record| match record {
        Record::SnapshotClosed { attempt } => all
            .iter()
            .find(|sync| sync.attempt == *attempt && sync.ended.is_some())
            .map(|_| ()),
        _ => None,
    });
    let (at, ()) = choose(ended, dice)?;
    Some(without(history, at))
}

pub(super) fn kept_session(history: &History, dice: &mut Dice) -> Option<History> {
    let all = syncs(history)
        .into_iter()
        .filter(|sync| sync.ended.is_some());
    let attempt = choose(all.collect(), dice)?.attempt;
    Some(edited(history, history.lines.len() - 1, |record| {
        if let Record::End {
            open: Some(open), ..
        } = record
        {
            let lists = &mut open[0];
            let list = match dice.roll(4) {
                0 => &mut lists.snapshots,
                1 => &mut lists.reads,
                2 => &mut lists.sessions,
                _ => &mut lists.queued,
            };
            list.push(attempt);
        }
    }))
}

pub(super) fn forgetful(history: &History, dice: &mut Dice) -> Option<History> {
    let sets = places(history, |record| match record {
        Record::LocalSet { entries, .. } if !entries.is_empty() => Some(()),
        _ => None,
    });
    let (at, ()) = choose(sets, dice)?;
    Some(edited(history, at, |record| {
        if let Record::LocalSet { entries, .. } = record {
            entries.pop();
        }
    }))
}

pub(super) fn wrong_digest(history: &History, dice: &mut Dice) -> Option<History> {
    let sets = places(history, |record| {
        matches!(record, Record::LocalSet { .. }).then_some(())
    });
    let (at, ()) = choose(sets, dice)?;
    Some(edited(history, at, |record| {
        if let Record::LocalSet { digest, .. } = record {
            digest.replace_range(..1, if digest.starts_with('0') { "1" } else { "0" });
        }
    }))
}

pub(super) fn impatient(history: &History, dice: &mut Dice) -> Option<History> {
    let all = syncs(history);
    let delays = places(history, |record| match record {
        Record::RetryDelay { replica, .. } => Some(*replica),
        _ => None,
    });
    // Another attempt follows.
    let delays = delays.into_iter().filter(|(at, replica)| {
        all.iter()
            .any(|sync| sync.replica == *replica && sync.req > *at)
    });
    let (at, _) = choose(delays.collect(), dice)?;
    Some(edited(history, at, |record| {
        if let Record::RetryDelay {
            delay_ms, most_ms, ..
        } = record
        {
            (*delay_ms, *most_ms) = (1_000_000, 1_000_000);
        }
    }))
}

pub(super) fn miscounts(history: &History, dice: &mut Dice) -> Option<History> {
    let delays = places(history, |record| {
        matches!(record, Record::RetryDelay { .. }).then_some(())
    });
    let (at, ()) = choose(delays, dice)?;
    Some(edited(history, at, |record| {
        if let Record::RetryDelay { failures, .. } = record {
            *failures += 1;
        }
    }))
}

pub(super) fn trusting(history: &History, dice: &mut Dice) -> Option<History> {
    let sets = places(history, |record| {
        matches!(record, Record::LocalSet { stale: true, .. }).then_some(())
    });
    let (at, ()) = choose(sets, dice)?;
    Some(edited(history, at, |record| {
        if let Record::LocalSet { stale, .. } = record {
            *stale = false;
        }
    }))
}

/// One record of publication vanishes, and no later one speaks for it.
pub(super) fn unpublished(history: &History, dice: &mut Dice) -> Option<History> {
    use holdfast_checker::format::Change;
    let visibility = places(history, |record| match record {
        Record::Commit { changes, .. } => changes.iter().find_map(|change| match change {
            Change::Revision { pos, .. } => Some(*pos),
            _ => None,
        }),
        _ => None,
    });
    let last = visibility.into_iter().map(|(_, pos)| pos).max()?;
    let (at, ()) = choose(
        places(history, |record| match record {
            Record::Published { positions, .. } if positions.contains(&last) => Some(()),
            _ => None,
        }),
        dice,
    )?;
    Some(without(history, at))
}

/// A long time passes where no snapshot is open and no replica waits for its turn.
pub(super) fn idle(history: &History, dice: &mut Dice) -> Option<History> {
    let at = history
        .lines
        .iter()
        .position(|line| line.record == Record::Settled {})?;
    Some(later(history, at + 1, 1_000 + dice.roll(1_000_000)))
}

pub(super) fn no_gauges(history: &History, _: &mut Dice) -> Option<History> {
    let mut changed = history.clone();
    changed.header.knows.remove(&Knows::Gauges);
    changed.lines.retain(|line| {
        !matches!(
            line.record,
            Record::Held { .. } | Record::Dirty { .. } | Record::Queue { .. }
        )
    });
    Some(changed)
}

pub(super) fn named_attempts(history: &History, _: &mut Dice) -> Option<History> {
    let subs: std::collections::BTreeMap<String, u64> = syncs(history)
        .iter()
        .map(|sync| (sync.sub.to_owned(), sync.attempt))
        .collect();
    let mut changed = history.clone();
    for line in &mut changed.lines {
        if let Record::Event { sub, attempt, .. }
        | Record::Eose { sub, attempt, .. }
        | Record::Closed { sub, attempt, .. } = &mut line.record
        {
            *attempt = subs.get(sub).copied();
        }
    }
    Some(changed)
}

/// The history as test clients and a ledger dump would have written it.
pub(super) fn from_outside(history: &History, _: &mut Dice) -> Option<History> {
    // Without records of publication a crash excuses what was committed just before it; here nothing crashes.
    let crashes = history.lines.iter().any(|line| {
        matches!(
            line.record,
            Record::NodeCrash { .. } | Record::NodeStop { .. }
        )
    });
    if crashes {
        return None;
    }
    let mut changed = history.clone();
    changed.header.tier = Tier::Real;
    changed.header.commits = Commits::AtEnd;
    changed.header.knows = [Knows::Replicas, Knows::Retries, Knows::EndState].into();
    changed.header.judges.remove(&Invariant::LossResync);
    changed.header.judges.remove(&Invariant::Clean);
    let end = changed.lines.pop()?;
    let (commits, others): (Vec<_>, Vec<_>) = changed
        .lines
        .into_iter()
        .partition(|line| matches!(line.record, Record::Commit { .. }));
    let seen = |record: &Record| {
        let inside = matches!(
            record,
            Record::Published { .. }
                | Record::NodeUp { .. }
                | Record::BusDown { .. }
                | Record::BusUp { .. }
                | Record::Lag { .. }
                | Record::LookupFailed { .. }
                | Record::Received { .. }
                | Record::SnapshotOpen { .. }
                | Record::SnapshotClosed { .. }
                | Record::ReadBegin { .. }
                | Record::ReadEnd { .. }
                | Record::Queued { .. }
                | Record::Held { .. }
                | Record::Dirty { .. }
                | Record::Queue { .. }
        );
        !inside
    };
    changed.lines = others
        .into_iter()
        .filter(|line| seen(&line.record))
        .chain(commits)
        .chain([end])
        .collect();
    if let Record::End { open, .. } = &mut changed.lines.last_mut()?.record {
        *open = None;
    }
    // A write of unknown fate leaves its commit without a bound; there must still be something to judge.
    let told = changed.lines.iter().any(|line| {
        matches!(
            line.record,
            Record::Outcome {
                result: Outcome::Ok,
                ..
            }
        )
    });
    told.then_some(changed)
}
