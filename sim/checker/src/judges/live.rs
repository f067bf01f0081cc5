//! LIVE: after healing the world comes to rest, every wanted sync that can be served has reached EOSE, and every commit of a
//! living node is announced (AR-SYNC-5k, AR-SYNC-1d).

use std::collections::BTreeMap;

use crate::format::{Filter, Knows, Record, Replica};
use crate::replay::Story;
use crate::replay::ledger::At;
use crate::report::Bench;

type Wants<'a> = BTreeMap<Replica, (&'a Filter, &'a str)>;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    let Some(quiet) = story.quiet else { return };
    if story.rest_after(quiet).is_none() {
        bench.count(1);
        bench.violated(
            "AR-SYNC-5k",
            story.line(story.end),
            [
                format!("Healing began at line {}.", story.line(quiet)),
                "The world never came to rest.".to_owned(),
            ],
        );
    }
    let mut wants = Wants::new();
    for (at, line) in story.lines.iter().enumerate() {
        match &line.record {
            Record::Want {
                replica,
                filter,
                reader,
            } => {
                wants.insert(*replica, (filter, reader));
            }
            Record::Unwant { replica } => {
                wants.remove(replica);
            }
            Record::Settled {} if at > quiet => served(story, bench, &wants, at),
            _ => {}
        }
    }
    if let Some(&rest) = story
        .rests
        .last()
        .filter(|&&rest| rest > quiet && story.knows(Knows::Published))
    {
        announced(story, bench, rest);
    }
}

fn served(story: &Story<'_>, bench: &mut Bench, wants: &Wants<'_>, rest: At) {
    let k = story.ledger.possible(rest);
    let open = story
        .syncs
        .iter()
        .filter(|sync| sync.open_at(rest) && sync.eose.is_some_and(|eose| eose < rest));
    let open: std::collections::BTreeSet<Replica> = open.filter_map(|sync| sync.replica).collect();
    for (replica, &(filter, reader)) in wants {
        let readable = filter
            .h
            .iter()
            .all(|channel| story.channels.readable(Some(reader), channel, k));
        let fits = story.scopes[story.scope_of[filter]].at(k).1 <= story.header.max_events;
        if filter.malformed.is_some() || !readable || !fits {
            continue;
        }
        bench.count(1);
        if !open.contains(replica) {
            bench.violated("AR-SYNC-7d", story.line(rest), [
                format!("Replica {replica} wants a set that its reader {reader} can read and that is not too large."),
                "At rest after healing it has no open sync with EOSE.".to_owned(),
            ]);
        }
    }
}

fn announced(story: &Story<'_>, bench: &mut Bench, rest: At) {
    for (index, commit) in story.ledger.commits.iter().enumerate() {
        let life = story.node(commit.node);
        let died = life.dead_at(commit.at).is_some()
            || life
                .death_after(commit.at)
                .is_some_and(|death| death < rest);
        if died || commit.at > rest {
            continue;
        }
        for change in commit
            .changes
            .iter()
            .filter(|change| story.announces(change))
        {
            bench.count(1);
            if story
                .published_at(index + 1, change)
                .is_none_or(|at| at > rest)
            {
                bench.violated("AR-SYNC-5k", story.line(rest), [
                    format!("Node {} committed position {} (line {}) and lives.", commit.node, change.pos(), story.line(commit.at)),
                    "At rest after healing it has not published it; a failed publish is retried until it succeeds.".to_owned(),
                ]);
            }
        }
    }
}
