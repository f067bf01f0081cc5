//! Mutants of writes, of the ledger and of the final state.

use holdfast_checker::History;
use holdfast_checker::format::{Change, Outcome, Record, RevisionOp};

use super::{accepted, choose, edited, places};
use crate::toy::Dice;

/// The places of changes that a question picks out: record and index in the commit.
fn changes(history: &History, ask: impl Fn(&Change) -> bool) -> Vec<(usize, usize)> {
    let lines = history.lines.iter().enumerate();
    let commits = lines.filter_map(|(at, line)| match &line.record {
        Record::Commit { changes, .. } => Some((at, changes)),
        _ => None,
    });
    let found = commits.flat_map(|(at, changes)| {
        changes
            .iter()
            .enumerate()
            .map(move |(index, change)| (at, index, change))
    });
    found
        .filter(|(_, _, change)| ask(change))
        .map(|(at, index, _)| (at, index))
        .collect()
}

fn change(history: &History, at: usize, index: usize, edit: impl FnOnce(&mut Change)) -> History {
    edited(history, at, |record| {
        if let Record::Commit { changes, .. } = record {
            edit(&mut changes[index]);
        }
    })
}

fn outcomes(history: &History, result: Outcome) -> Vec<usize> {
    let found = places(history, |record| match record {
        Record::Outcome { result: other, .. } if *other == result => Some(()),
        _ => None,
    });
    found.into_iter().map(|(at, ())| at).collect()
}

fn answered(history: &History, at: usize, with: Outcome) -> History {
    edited(history, at, |record| {
        if let Record::Outcome { result, .. } = record {
            *result = with;
        }
    })
}

pub(super) fn telling_conflict(history: &History, dice: &mut Dice) -> Option<History> {
    let at = choose(outcomes(history, Outcome::Conflict), dice)?;
    let revisions = accepted(history);
    let Record::Outcome { op, .. } = &history.lines[at].record else {
        return None;
    };
    let intents = places(history, |record| match record {
        Record::Submit {
            op: other,
            event,
            revision: Some(intent),
            ..
        } if other == op => Some((event, intent)),
        _ => None,
    });
    let (_, (event, intent)) = intents.into_iter().next()?;
    let others = revisions.values().filter(|revision| {
        revision.d == intent.d
            && Some(revision.id) != intent.prev.as_deref()
            && revision.id != event
    });
    let id = choose(others.map(|revision| revision.id).collect(), dice)?;
    Some(edited(history, at, |record| {
        if let Record::Outcome { text, .. } = record {
            *text = format!("conflict: current revision is {id}");
        }
    }))
}

pub(super) fn not_current(history: &History, dice: &mut Dice) -> Option<History> {
    let (at, index) = choose(
        changes(history, |change| matches!(change, Change::Redaction { .. })),
        dice,
    )?;
    Some(change(history, at, index, |change| {
        if let Change::Redaction { current, .. } = change {
            *current = !*current;
        }
    }))
}

pub(super) fn wrong_prev(history: &History, dice: &mut Dice) -> Option<History> {
    let revisions = accepted(history);
    let grandchild = |change: &Change| match change {
        Change::Revision {
            prev: Some(prev), ..
        } => revisions[prev.as_str()].prev.is_some(),
        _ => false,
    };
    let (at, index) = choose(changes(history, grandchild), dice)?;
    Some(change(history, at, index, |change| {
        if let Change::Revision { prev, .. } = change {
            let grandparent = prev.as_deref().and_then(|prev| revisions[prev].prev);
            *prev = grandparent.map(str::to_owned);
        }
    }))
}

pub(super) fn update_moves(history: &History, dice: &mut Dice) -> Option<History> {
    let moves = |change: &Change| {
        matches!(
            change,
            Change::Revision {
                op: RevisionOp::Move,
                ..
            }
        )
    };
    let (at, index) = choose(changes(history, moves), dice)?;
    Some(change(history, at, index, |change| {
        if let Change::Revision { op, .. } = change {
            *op = RevisionOp::Update;
        }
    }))
}

pub(super) fn false_ok(history: &History, dice: &mut Dice) -> Option<History> {
    let at = choose(outcomes(history, Outcome::Conflict), dice)?;
    Some(answered(history, at, Outcome::Ok))
}

pub(super) fn false_conflict(history: &History, dice: &mut Dice) -> Option<History> {
    let mut told = outcomes(history, Outcome::Ok);
    told.extend(outcomes(history, Outcome::Duplicate));
    let at = choose(told, dice)?;
    Some(answered(history, at, Outcome::Conflict))
}

pub(super) fn ok_becomes_error(history: &History, dice: &mut Dice) -> Option<History> {
    let at = choose(outcomes(history, Outcome::Ok), dice)?;
    Some(answered(history, at, Outcome::Error))
}

pub(super) fn final_head(history: &History, dice: &mut Dice) -> Option<History> {
    let revisions = accepted(history);
    let mut replaced: Vec<&str> = revisions
        .values()
        .filter_map(|revision| revision.prev)
        .collect();
    replaced.sort_unstable();
    let older = choose(replaced, dice)?;
    Some(edited(history, history.lines.len() - 1, |record| {
        if let Record::End {
            state: Some(state), ..
        } = record
        {
            for head in &mut state.heads {
                if head.d == revisions[older].d {
                    older.clone_into(&mut head.rev);
                }
            }
        }
    }))
}

pub(super) fn final_digest(history: &History, dice: &mut Dice) -> Option<History> {
    Some(edited(history, history.lines.len() - 1, |record| {
        if let Record::End {
            state: Some(state), ..
        } = record
        {
            let index = usize::try_from(dice.roll(state.digests.len() as u64)).expect("an index");
            let digest = &mut state.digests[index].digest;
            digest.replace_range(..1, if digest.starts_with('0') { "1" } else { "0" });
        }
    }))
}

pub(super) fn no_removal(history: &History, dice: &mut Dice) -> Option<History> {
    let unsent = |change: &Change| match change {
        Change::MoveSource { marker, .. } => !history.lines.iter().any(|line| match &line.record {
            Record::Event { id, .. } => id == marker,
            Record::ReadEnd { result, .. } => {
                *result == holdfast_checker::format::ReadResult::Marker(marker.clone())
            }
            _ => false,
        }),
        _ => false,
    };
    let (at, index) = choose(changes(history, unsent), dice)?;
    // Its ledger position stays, as that of another event.
    Some(change(history, at, index, |change| {
        *change = Change::Other {
            pos: change.pos(),
            event: "x".to_owned(),
        };
    }))
}

pub(super) fn only_removal(history: &History, dice: &mut Dice) -> Option<History> {
    let updates = |change: &Change| {
        matches!(
            change,
            Change::Revision {
                op: RevisionOp::Update,
                ..
            }
        )
    };
    let (at, index) = choose(changes(history, updates), dice)?;
    Some(edited(history, at, |record| {
        if let Record::Commit { changes, .. } = record
            && let Change::Revision {
                d,
                h,
                prev: Some(prev),
                ..
            } = &changes[index]
        {
            let (d, h, replaced) = (d.clone(), h.clone(), prev.clone());
            changes.push(Change::MoveSource {
                pos: 1_000_000,
                d,
                h,
                marker: "mx".to_owned(),
                replaced,
            });
        }
    }))
}
