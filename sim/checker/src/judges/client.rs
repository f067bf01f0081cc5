//! CLIENT: replicas replace their local set at EOSE only, keep it through every failure, apply live entries as they come, use a
//! fresh subscription id for every attempt, and wait longer after each failure in a row (AR-SYNC-7a to 7e, 8b, AR-SYNC-REQ-19,
//! 20, 23, 28, H10).

use std::collections::{BTreeMap, BTreeSet};

use crate::format::{Conn, Filter, Knows, Party, Record, Replica};
use crate::replay::Story;
use crate::replay::ledger::{At, set_digest};
use crate::replay::scopes::matches;
use crate::replay::syncs::{EndedBy, FrameKind};
use crate::report::Bench;

type Set<'a> = BTreeMap<&'a str, &'a str>;

/// Something that happens to a replica.
#[derive(Clone, Copy)]
enum Step<'a> {
    Asks(usize),
    Frame(usize, FrameKind<'a>),
    Dropped(usize),
    Leaves(usize),
    Record(&'a Record),
}

/// A replica as the protocol wants it.
struct Model<'s, 'a> {
    story: &'s Story<'a>,
    bench: &'s mut Bench,
    replica: Replica,
    attempt: Option<usize>,
    loading: Set<'a>,
    complete: bool,
    local: Set<'a>,
    /// An error came, and no EOSE since.
    stale: bool,
    /// The last failure, if no attempt followed it.
    failed: Option<At>,
    /// The delay that the replica has drawn since its last attempt, and where.
    waits: Option<(At, u64)>,
    /// Delays drawn since the last EOSE.
    failures: u32,
    used: BTreeSet<(Conn, &'a str)>,
}

/// The largest possible delay after each number of failures, with a line that shows it.
type Longest = BTreeMap<u32, (u64, usize)>;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    let mut longest = Longest::new();
    for (replica, steps) in steps(story) {
        let mut model = Model {
            story,
            bench: &mut *bench,
            replica,
            attempt: None,
            loading: Set::new(),
            complete: false,
            local: Set::new(),
            stale: false,
            failed: None,
            waits: None,
            failures: 0,
            used: BTreeSet::new(),
        };
        for (at, step) in steps {
            model.step(at, step, &mut longest);
        }
    }
    grows(bench, &longest);
}

/// What happens to each replica, in order.
fn steps<'a>(story: &Story<'a>) -> BTreeMap<Replica, Vec<(At, Step<'a>)>> {
    let mut all: BTreeMap<Replica, Vec<(At, Step<'a>)>> = BTreeMap::new();
    for (index, sync) in story.syncs.iter().enumerate() {
        let Some(replica) = sync.replica else {
            continue;
        };
        let list = all.entry(replica).or_default();
        list.push((sync.req, Step::Asks(index)));
        list.extend(
            sync.frames
                .iter()
                .map(|frame| (frame.at, Step::Frame(index, frame.what))),
        );
        if let Some((at, EndedBy::Client)) = sync.ended {
            list.push((at, Step::Leaves(index)));
        }
        if let Some((at, who, _)) = story.conns[&sync.conn].gone
            && who != Party::Client
        {
            list.push((at, Step::Dropped(index)));
        }
    }
    for (at, line) in story.lines.iter().enumerate() {
        if let Record::LocalSet { replica, .. } | Record::RetryDelay { replica, .. } = &line.record
        {
            all.entry(*replica)
                .or_default()
                .push((at, Step::Record(&line.record)));
        }
    }
    for list in all.values_mut() {
        list.sort_by_key(|(at, _)| *at);
    }
    all
}

impl<'a> Model<'_, 'a> {
    fn step(&mut self, at: At, step: Step<'a>, longest: &mut Longest) {
        match step {
            Step::Asks(index) => self.asks(at, index),
            Step::Frame(index, what) if self.attempt == Some(index) => {
                let filter = self.story.syncs[index].filter;
                self.frame(filter, at, what);
            }
            Step::Dropped(index) if self.attempt == Some(index) => {
                self.leaves();
                self.failed = Some(at);
            }
            Step::Leaves(index) if self.attempt == Some(index) => self.leaves(),
            Step::Record(Record::LocalSet {
                digest,
                stale,
                entries,
                ..
            }) => {
                self.bench.count(1);
                self.compare(at, digest, *stale, entries);
            }
            Step::Record(Record::RetryDelay {
                failures,
                delay_ms,
                least_ms,
                most_ms,
                ..
            }) => {
                self.bench.count(1);
                self.waits = Some((at, *delay_ms));
                self.counts(at, *failures);
                self.draws(at, *delay_ms, (*least_ms, *most_ms));
                let entry = longest
                    .entry(*failures)
                    .or_insert((*most_ms, self.story.line(at)));
                entry.0 = entry.0.max(*most_ms);
            }
            _ => {}
        }
    }

    fn asks(&mut self, at: At, index: usize) {
        let (story, replica) = (self.story, self.replica);
        let sync = &story.syncs[index];
        let line = story.line(at);
        self.bench.count(1);
        if !self.used.insert((sync.conn, sync.sub)) {
            self.bench.violated("AR-SYNC-7d", line, [
                format!("Replica {replica} uses subscription {} on connection {} again.", sync.sub, sync.conn),
                "Every attempt has a fresh id, so that no frame of an older one is taken for its own (H10).".to_owned(),
            ]);
        }
        let failed = self.failed.take().filter(|_| story.knows(Knows::Retries));
        let waits = self.waits.take();
        let early = match (failed, waits) {
            (Some(failed), None) => Some((failed, 0)),
            (Some(_), Some((since, delay_ms))) if story.ms(at) - story.ms(since) < delay_ms => {
                Some((since, delay_ms))
            }
            _ => None,
        };
        if let Some((since, delay_ms)) = early {
            let passed_ms = story.ms(at) - story.ms(since);
            self.bench.violated("AR-SYNC-7e", line, [
                format!("Replica {replica} failed by line {} and asks again {passed_ms} ms later.", story.line(since)),
                format!("It had drawn a delay of {delay_ms} ms; before a new attempt a client waits for its random delay."),
            ]);
        }
        self.leaves();
        self.attempt = Some(index);
    }

    /// The attempt is over; what it loaded and did not complete is discarded.
    fn leaves(&mut self) {
        (self.attempt, self.complete) = (None, false);
        self.loading.clear();
    }

    fn frame(&mut self, filter: &Filter, at: At, what: FrameKind<'a>) {
        match what {
            FrameKind::Event { kind, id, d, .. } => {
                let revision = self.story.ledger.revision(id);
                let stays =
                    kind == 45_010 && revision.is_none_or(|revision| matches(filter, revision));
                let set = if self.complete {
                    &mut self.local
                } else {
                    &mut self.loading
                };
                if stays {
                    set.insert(d, id);
                } else {
                    set.remove(d);
                }
            }
            FrameKind::Eose if !self.complete => {
                self.complete = true;
                self.local = std::mem::take(&mut self.loading);
                (self.stale, self.failures) = (false, 0);
            }
            FrameKind::Eose => {}
            FrameKind::Closed(text) => {
                let known = text.starts_with("resync:") || text.starts_with("restricted:");
                // An unknown prefix counts as an error (H16).
                self.stale |= !known;
                self.leaves();
                self.failed = Some(at);
            }
        }
    }

    fn compare(&mut self, at: At, digest: &str, stale: bool, entries: &'a [(String, String)]) {
        let (line, replica) = (self.story.line(at), self.replica);
        let held: Set<'a> = entries
            .iter()
            .map(|(d, rev)| (d.as_str(), rev.as_str()))
            .collect();
        if held != self.local || held.len() != entries.len() {
            let odd = held.iter().find(|&(d, rev)| self.local.get(d) != Some(rev));
            let odd = odd.or_else(|| self.local.iter().find(|&(d, _)| !held.contains_key(d)));
            let (d, has) = odd.map_or(("nothing", None), |(d, _)| (*d, held.get(d)));
            let (size, wanted) = (self.local.len(), self.local.get(d));
            self.bench.violated("AR-SYNC-7a", line, [
                format!("Replica {replica} holds {} artifacts; it has {has:?} of {d}.", held.len()),
                format!("By what it received it has {size} artifacts, and {wanted:?} of {d}."),
                "A local set is replaced at EOSE only, kept through every failure, and takes each live entry as it comes.".to_owned(),
            ]);
        }
        if set_digest(held) != digest {
            self.bench.violated(
                "AR-DIGEST-1",
                line,
                [
                    format!("Replica {replica} computes the digest {digest}."),
                    "Its entries have another one.".to_owned(),
                ],
            );
        }
        if self.stale && !stale {
            self.bench.violated(
                "AR-SYNC-REQ-28",
                line,
                [
                    format!("Replica {replica} got an error and no EOSE since."),
                    "It does not call its set possibly stale.".to_owned(),
                ],
            );
        }
    }

    fn counts(&mut self, at: At, failures: u32) {
        let before = self.failures;
        self.failures = failures;
        if failures != before + 1 {
            self.bench.violated("AR-SYNC-7e", self.story.line(at), [
                format!("Replica {} counts {failures} failures in a row; since its last EOSE it counted {before}.", self.replica),
                "The delay grows after each failure in a row, and starts anew after a success.".to_owned(),
            ]);
        }
    }

    fn draws(&mut self, at: At, delay_ms: u64, (least_ms, most_ms): (u64, u64)) {
        if delay_ms < least_ms || delay_ms > most_ms || least_ms >= most_ms {
            self.bench.violated(
                "AR-SYNC-7e",
                self.story.line(at),
                [
                    format!(
                        "Replica {} waits {delay_ms} ms, drawn from {least_ms} to {most_ms} ms.",
                        self.replica
                    ),
                    "The delay is random within a range.".to_owned(),
                ],
            );
        }
    }
}

/// Longer delays after more failures, up to a cap.
fn grows(bench: &mut Bench, longest: &Longest) {
    let mut steps = longest.iter().peekable();
    while let (Some((fewer, &(before_ms, _))), Some(&(more, &(after_ms, line)))) =
        (steps.next(), steps.peek())
    {
        let stands = *fewer == 1 && after_ms == before_ms;
        if after_ms < before_ms || stands {
            bench.violated("AR-SYNC-7e", line, [
                format!("After {fewer} failures a replica waits up to {before_ms} ms, after {more} up to {after_ms} ms."),
                "The delay grows after each failure in a row.".to_owned(),
            ]);
        }
    }
}
