//! CAUSE: each CLOSED, and each connection that the relay ends while a sync is open on it, has a cause that the history shows.
//!
//! A relay that resyncs without cause keeps every other promise and is useless, so nothing is taken on trust here: the words on
//! the wire are looked up in the history since the REQ (AR-SYNC-REQ-29, AR-SYNC-5h, AR-SYNC-9e, H7, H9, H17).

use std::collections::BTreeSet;

use crate::format::{Change, Knows, Party, StoreFault};
use crate::replay::Story;
use crate::replay::access::Why;
use crate::replay::ledger::{At, K};
use crate::replay::scopes::member;
use crate::replay::syncs::{EndedBy, FrameKind, LossKind, Sync};
use crate::report::Bench;

/// What the history says about a cause.
enum Shown {
    Yes,
    /// Not shown; with the rule and what it wants.
    No(&'static str, &'static str),
    /// The tier does not write what could show it.
    Unknowable,
}

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (index, sync) in story.syncs.iter().enumerate() {
        let closed = sync.frames.iter().find_map(|frame| match frame.what {
            FrameKind::Closed(text) => Some((frame.at, text)),
            _ => None,
        });
        if let Some((at, text)) = closed {
            let case = Case {
                story,
                sync,
                index,
                at,
            };
            match case.shown(text) {
                Shown::Yes => bench.count(1),
                Shown::Unknowable => {}
                Shown::No(rule, wants) => {
                    bench.count(1);
                    bench.violated(
                        rule,
                        story.line(at),
                        [
                            format!(
                                "{} was asked for at line {} and closed with {text:?}.",
                                super::name(sync),
                                story.line(sync.req)
                            ),
                            wants.to_owned(),
                        ],
                    );
                }
            }
        }
        hang_up(story, bench, sync);
    }
}

/// One CLOSED.
struct Case<'s, 'a> {
    story: &'s Story<'a>,
    sync: &'s Sync<'a>,
    index: usize,
    at: At,
}

impl Case<'_, '_> {
    fn shown(&self, text: &str) -> Shown {
        if self.sync.filter.malformed.is_some() && self.sync.reader.is_some() {
            return if text.starts_with("error: ") {
                Shown::Yes
            } else {
                Shown::No("AR-SYNC-REQ-15", "Its filter must be refused, with error:.")
            };
        }
        if text.starts_with("restricted: ") {
            return self.restricted();
        }
        if text == "error: filter" || text.starts_with("error: filter:") {
            return Shown::No("AR-SYNC-REQ-6", "Its filter is well formed.");
        }
        match text {
            "resync: signals" => self.signals(),
            "resync: backlog" => self.backlog(),
            "resync: lookup" => self.lookup(),
            "resync: store" => self.store_changed(),
            "resync: access" => self.access(),
            "resync: retired" => self.retired(),
            "error: too-large" => self.too_large(),
            "error: busy" | "error: budget" | "error: store" | "error: bus"
                if self.after_eose() =>
            {
                Shown::No(
                    "AR-SYNC-REQ-25",
                    "After EOSE a sync that cannot go on ends with resync:.",
                )
            }
            "error: busy" => self.busy(),
            "error: budget" => self.budget(),
            "error: store" => self.store(),
            "error: bus" => self.bus(),
            _ => Shown::No(
                "AR-SYNC-REQ-29",
                "That is none of the texts with which a sync is closed.",
            ),
        }
    }

    fn after_eose(&self) -> bool {
        self.sync.eose.is_some_and(|eose| eose < self.at)
    }

    /// The earliest commit that the cut can be; before EOSE and without a known snapshot, the earliest at all.
    fn cut(&self) -> K {
        let cut = self.story.copies[self.index]
            .cut
            .as_ref()
            .map(|cut| cut.first);
        let snapshot = self.sync.snapshots.first().map(|snapshot| snapshot.k);
        cut.or(snapshot)
            .unwrap_or_else(|| self.story.ledger.certain(self.sync.asked()))
    }

    fn now(&self) -> K {
        self.story.ledger.possible(self.at)
    }

    /// Whether a loss of a kind met the sync while it depended on signals.
    fn loss(&self, kind: impl Fn(LossKind<'_>) -> bool, wants: &'static str) -> Shown {
        if !self.story.knows(Knows::Losses) {
            return Shown::Unknowable;
        }
        let life = self.story.node(self.sync.node);
        let from = match self.story.began(self.index) {
            Some((began, _)) if self.story.knows(Knows::Snapshots) => self.shortly_before(began),
            None if self.story.knows(Knows::Snapshots) => {
                return Shown::No(
                    "AR-SYNC-1d",
                    "Its snapshot was not open yet; until then a loss only restarts its registration.",
                );
            }
            _ => self.sync.asked(),
        };
        let met = life
            .losses_between(from, self.at)
            .iter()
            .any(|loss| kind(loss.what))
            || kind(LossKind::BusDown) && life.down_between(from, from);
        if met {
            Shown::Yes
        } else {
            Shown::No("AR-SYNC-5h", wants)
        }
    }

    /// Where tasks and timers have a granularity, a node may act on a loss that it was told of just before.
    fn shortly_before(&self, at: At) -> At {
        let slack_ms = self.story.header.slack_ms;
        if slack_ms == 0 {
            return at;
        }
        let early = |line: &crate::lines::Line| line.at_ms + slack_ms < self.story.ms(at);
        self.story.lines[..at]
            .partition_point(early)
            .saturating_sub(1)
    }

    fn signals(&self) -> Shown {
        let (named, attempt) = (&self.sync.filter.h, self.sync.attempt);
        let kind = |what: LossKind<'_>| match what {
            LossKind::BusDown | LossKind::BusUp => true,
            LossKind::Lag(channel) | LossKind::Undecodable(channel) => {
                channel.is_none_or(|channel| named.contains(channel))
            }
            LossKind::Refused(refused) => refused == Some(attempt),
            LossKind::Lookup(_) | LossKind::Store => false,
        };
        // Resyncing every sync after one loss is allowed, whatever it was on the node.
        let anything = |what: LossKind<'_>| {
            kind(what) || matches!(what, LossKind::Lag(_) | LossKind::Undecodable(_))
        };
        self.loss(
            anything,
            "Its node lost no signal since its snapshot was opened.",
        )
    }

    fn lookup(&self) -> Shown {
        let attempt = self.sync.attempt;
        let kind = |what: LossKind<'_>| matches!(what, LossKind::Lookup(attempts) if attempts.contains(&attempt));
        self.loss(kind, "No read for it failed.")
    }

    fn store_changed(&self) -> Shown {
        self.loss(
            |what| matches!(what, LossKind::Store),
            "Its node found no other store.",
        )
    }

    /// The artifacts in named channels whose signals can have met the sync, newest first.
    fn signalled(&self) -> impl Iterator<Item = &str> {
        let (cut, now, asked) = (self.cut(), self.now(), self.sync.asked());
        let touches = &self.story.scopes[self.sync.scope].touches;
        let until = touches.partition_point(|touch| touch.k <= now);
        let arrives = move |k: K, d: &str| {
            k > cut
                || self.story.ledger.commit(k).changes.iter().any(|change| {
                    concerns(change, d) && self.story.may_arrive_after(k, change, asked)
                })
        };
        touches[..until]
            .iter()
            .rev()
            .filter(move |touch| arrives(touch.k, touch.d))
            .map(|touch| touch.d)
    }

    fn backlog(&self) -> Shown {
        let mut distinct = BTreeSet::new();
        let most = self.story.header.max_events;
        let over = self
            .signalled()
            .any(|d| distinct.insert(d) && distinct.len() as u64 > most);
        if over {
            Shown::Yes
        } else {
            Shown::No(
                "AR-SYNC-1k",
                "No more than max_events distinct artifacts changed in its channels.",
            )
        }
    }

    fn access(&self) -> Shown {
        let (cut, now) = (self.cut(), self.now());
        let touched = self.sync.filter.h.iter().any(|channel| {
            let changes = self
                .story
                .channels
                .changes(self.sync.reader, channel, cut, now.max(cut));
            changes.iter().any(|(_, why)| *why != Why::Unlisted)
        });
        if touched {
            Shown::Yes
        } else {
            Shown::No(
                "AR-SYNC-9e",
                "Since its cut no membership of its reader, no visibility and no deletion changed in a channel it names.",
            )
        }
    }

    fn retired(&self) -> Shown {
        let (cut, now, asked) = (self.cut(), self.now(), self.sync.asked());
        let ledger = &self.story.ledger;
        let until = ledger
            .redactions
            .partition_point(|redaction| redaction.k <= now);
        let copy = &self.story.copies[self.index];
        let met = ledger.redactions[..until].iter().rev().any(|redaction| {
            let named = redaction
                .home
                .is_some_and(|home| self.sync.filter.h.contains(home));
            let late = || {
                let change = ledger.position(redaction.pos).map(|(_, change)| change);
                change.is_some_and(|change| self.story.may_arrive_after(redaction.k, change, asked))
            };
            let reading = !self.after_eose() && named && (redaction.k > cut || late());
            // After EOSE only an artifact that the client was or could have been told of.
            let live = self.after_eose()
                && redaction.k > cut
                && (copy.held.contains_key(redaction.d)
                    || self.was_in_scope(redaction.d, cut, redaction.k));
            redaction.current && (reading || live)
        });
        if met {
            Shown::Yes
        } else {
            Shown::No(
                "AR-SYNC-6a",
                "No current revision of an artifact in its scope was redacted since its cut.",
            )
        }
    }

    /// Whether the artifact was in scope somewhere from commit `from` to before commit `to`.
    fn was_in_scope(&self, d: &str, from: K, to: K) -> bool {
        let scope = &self.story.scopes[self.sync.scope];
        member(&self.story.ledger, self.sync.filter, d, from).is_some()
            || scope
                .between(from, to - 1)
                .iter()
                .any(|step| step.d == d && step.after.is_some())
    }

    fn restricted(&self) -> Shown {
        if self.after_eose() {
            return Shown::No(
                "AR-SYNC-9d",
                "After EOSE a reader that loses access gets resync:.",
            );
        }
        let (from, to) = (self.story.ledger.certain(self.sync.asked()), self.now());
        let reader = self.sync.reader;
        let unreadable = self.sync.filter.h.iter().any(|channel| {
            self.story
                .channels
                .somewhere(reader, channel, from, to.max(from), |k| {
                    !self.story.channels.readable(reader, channel, k)
                })
        });
        if unreadable || reader.is_none() {
            Shown::Yes
        } else {
            Shown::No(
                "AR-SYNC-REQ-26",
                "Its reader could read every channel it names since it was asked for.",
            )
        }
    }

    fn too_large(&self) -> Shown {
        let scope = &self.story.scopes[self.sync.scope];
        let (from, now) = (self.cut(), self.now());
        let most = self.story.header.max_events;
        // The relay's copy may hold artifacts that have left the set and of which it has not told the client.
        let mut copy: BTreeSet<&str> = self.story.copies[self.index].held.keys().copied().collect();
        if self.after_eose() {
            copy.extend(
                scope
                    .between(from, now)
                    .iter()
                    .filter(|step| step.after.is_some())
                    .map(|step| step.d),
            );
        }
        if scope.largest(from, now) > most || copy.len() as u64 > most {
            Shown::Yes
        } else {
            Shown::No(
                "AR-SYNC-8a",
                "Neither the set nor its copy had more than max_events artifacts since it was asked for.",
            )
        }
    }

    fn trouble(&self, kinds: &[StoreFault]) -> bool {
        let troubles = &self.story.node(self.sync.node).troubles;
        let first = troubles.partition_point(|trouble| trouble.at <= self.sync.req);
        let since = troubles[first..]
            .iter()
            .take_while(|trouble| trouble.at < self.at);
        since.into_iter().any(|trouble| {
            kinds.contains(&trouble.what)
                && trouble
                    .attempt
                    .is_none_or(|attempt| attempt == self.sync.attempt)
        })
    }

    fn busy(&self) -> Shown {
        if !self.story.knows(Knows::Losses) || !self.story.knows(Knows::Snapshots) {
            return Shown::Unknowable;
        }
        let mut open = 0;
        let full = self
            .story
            .node(self.sync.node)
            .slots
            .iter()
            .take_while(|(at, _)| *at < self.at)
            .any(|&(at, by)| {
                open += by;
                at >= self.sync.req && open.unsigned_abs() >= self.story.header.snapshots_max
            });
        let before = self
            .story
            .node(self.sync.node)
            .slots
            .iter()
            .take_while(|(at, _)| *at < self.sync.req);
        let full = full
            || before.map(|(_, by)| by).sum::<i64>().unsigned_abs()
                >= self.story.header.snapshots_max;
        if full || self.trouble(&[StoreFault::Busy]) {
            Shown::Yes
        } else {
            Shown::No(
                "AR-SYNC-2l",
                "Its node had a snapshot to spare all the time, and no store request found the store busy.",
            )
        }
    }

    /// Milliseconds since a record, with the granularity of the tier.
    fn passed_ms(&self, since: At) -> u64 {
        self.story.ms(self.at) - self.story.ms(since) + self.story.header.slack_ms
    }

    fn budget(&self) -> Shown {
        let since = self
            .sync
            .snapshots
            .first()
            .map_or(self.sync.asked(), |snapshot| snapshot.at);
        let header = self.story.header;
        if self.passed_ms(since) >= header.snapshot_budget_ms.min(header.delivery_budget_ms) {
            Shown::Yes
        } else {
            Shown::No("AR-SYNC-2l", "Neither budget had run out.")
        }
    }

    fn store(&self) -> Shown {
        if !self.story.knows(Knows::Losses) {
            return Shown::Unknowable;
        }
        if self.trouble(&[StoreFault::ReadFailed, StoreFault::SnapshotLost]) {
            Shown::Yes
        } else {
            Shown::No(
                "AR-SYNC-2l",
                "No read of its initial set failed and no snapshot was lost.",
            )
        }
    }

    fn bus(&self) -> Shown {
        if !self.story.knows(Knows::Losses) {
            return Shown::Unknowable;
        }
        let down = self
            .story
            .node(self.sync.node)
            .down_between(self.sync.asked(), self.at);
        if down || self.passed_ms(self.sync.asked()) >= self.story.header.register_deadline_ms {
            Shown::Yes
        } else {
            Shown::No(
                "AR-SYNC-1d",
                "The bus was up all the time, and the deadline of its registration had not passed.",
            )
        }
    }
}

fn concerns(change: &Change, d: &str) -> bool {
    match change {
        Change::Revision { d: other, .. }
        | Change::MoveSource { d: other, .. }
        | Change::Redaction { d: other, .. } => other == d,
        _ => false,
    }
}

/// A relay that ends the connection under an open sync.
fn hang_up(story: &Story<'_>, bench: &mut Bench, sync: &Sync<'_>) {
    let connection = &story.conns[&sync.conn];
    let (Some((at, Party::Relay, why)), Some((_, EndedBy::Disconnect))) =
        (connection.gone, sync.ended)
    else {
        return;
    };
    if !story.knows(Knows::Losses) {
        return;
    }
    bench.count(1);
    let died = story
        .node(sync.node)
        .death_after(connection.opened)
        .is_some_and(|death| death <= at);
    let refused = connection.refused.iter().any(|&refused| refused <= at);
    let done_to = story
        .faults
        .iter()
        .any(|&(fault, _, conn)| fault <= at && conn == Some(sync.conn));
    if !died && !refused && !done_to {
        bench.violated("AR-SYNC-5i", story.line(at), [
            format!("The relay ended connection {} under {} ({why}).", sync.conn, super::name(sync)),
            "Its node lived, its queue refused nothing, and nothing was done to the connection.".to_owned(),
        ]);
    }
}
