//! The mutants. What belongs here: the list, and what they need to find a place in a history. What must not: judging.

mod frames;
mod inside;
mod ledger;

use std::collections::BTreeMap;

use holdfast_checker::format::{Attempt, Change, Filter, Record, Replica, RevisionOp};
use holdfast_checker::{History, Invariant};

use super::toy::Dice;
use Invariant::*;

/// One labelled change.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// One of these must object; empty for what the rules allow.
    pub(crate) breaks: &'static [Invariant],
    /// It needs a history without faults, where nothing excuses a loss.
    pub(crate) calm: bool,
    /// The changed history, if the history has a place for it.
    pub(crate) apply: fn(&History, &mut Dice) -> Option<History>,
}

type Apply = fn(&History, &mut Dice) -> Option<History>;

const fn breaking(name: &'static str, breaks: &'static [Invariant], apply: Apply) -> Mutant {
    Mutant {
        name,
        breaks,
        calm: true,
        apply,
    }
}

const fn stormy(name: &'static str, breaks: &'static [Invariant], apply: Apply) -> Mutant {
    Mutant {
        name,
        breaks,
        calm: false,
        apply,
    }
}

pub(crate) const BREAKING: &[Mutant] = &[
    breaking(
        "an event of the initial set is dropped",
        &[Cut],
        frames::drop_initial,
    ),
    breaking(
        "an initial event names another artifact",
        &[Cut],
        frames::rename_initial,
    ),
    breaking(
        "EOSE comes before the last initial event",
        &[Cut],
        frames::early_eose,
    ),
    breaking(
        "EOSE comes after a live entry",
        &[Cut, Order],
        frames::late_eose,
    ),
    breaking(
        "an empty set that was once right",
        &[Fresh],
        frames::stale_set,
    ),
    breaking(
        "an older head is inserted",
        &[NeverOlder],
        frames::older_head,
    ),
    breaking(
        "two heads of one artifact are swapped",
        &[NeverOlder],
        frames::swap_heads,
    ),
    breaking(
        "the last head of an artifact is dropped",
        &[NoLoss],
        frames::drop_last_head,
    ),
    breaking("EOSE comes twice", &[Order], frames::second_eose),
    breaking(
        "an initial event comes twice",
        &[Order],
        frames::repeat_initial,
    ),
    breaking(
        "two initial events are swapped",
        &[Order],
        frames::swap_initial,
    ),
    breaking(
        "an event follows CLOSED",
        &[Order],
        frames::event_after_closed,
    ),
    breaking(
        "a head that never matched is sent",
        &[Scope],
        frames::stranger,
    ),
    breaking(
        "a head in an unreadable channel is sent",
        &[Privacy],
        frames::secret,
    ),
    breaking(
        "restricted names the channel",
        &[Privacy],
        frames::telling_restricted,
    ),
    breaking(
        "a conflict tells the hidden head",
        &[Privacy],
        ledger::telling_conflict,
    ),
    breaking(
        "a sync is closed without cause",
        &[Cause],
        frames::spurious_resync,
    ),
    stormy(
        "a cause is called by another name",
        &[Cause],
        frames::wrong_cause,
    ),
    breaking(
        "a backlog that never was",
        &[Cause],
        frames::spurious_backlog,
    ),
    stormy(
        "CLOSED after a loss is deleted",
        &[LossResync],
        frames::delete_signals,
    ),
    stormy(
        "CLOSED after a failed lookup is deleted",
        &[LossResync],
        frames::delete_lookup,
    ),
    breaking(
        "CLOSED after a change of access is deleted",
        &[AccessResync],
        frames::delete_access,
    ),
    breaking(
        "CLOSED after a redaction is deleted",
        &[Retire, NoLoss],
        frames::delete_retired,
    ),
    breaking(
        "a redaction of the head says it is none",
        &[Retire],
        ledger::not_current,
    ),
    breaking("a redacted head is read", &[Retire], inside::read_redacted),
    breaking(
        "a read returns an older head",
        &[NeverOlder],
        inside::read_older,
    ),
    breaking(
        "two reads of one artifact at once",
        &[NeverOlder],
        inside::read_twice,
    ),
    breaking("more is held than may be", &[Bound], inside::held_too_much),
    breaking(
        "a queue is longer than its bound",
        &[Bound],
        inside::long_queue,
    ),
    breaking(
        "a snapshot stays open too long",
        &[Bound],
        inside::slow_snapshot,
    ),
    breaking(
        "a snapshot is not given back",
        &[Clean],
        inside::kept_snapshot,
    ),
    breaking(
        "a session outlives its sync",
        &[Clean],
        inside::kept_session,
    ),
    breaking(
        "a revision skips its predecessor",
        &[Chain],
        ledger::wrong_prev,
    ),
    breaking("an update changes the home", &[Chain], ledger::update_moves),
    breaking("a conflict is answered with OK", &[Chain], ledger::false_ok),
    breaking(
        "an accepted event is answered with a conflict",
        &[Chain],
        ledger::false_conflict,
    ),
    breaking(
        "the final state has an older head",
        &[Chain],
        ledger::final_head,
    ),
    breaking("a move stores no removal", &[Atomic], ledger::no_removal),
    breaking("a removal without a move", &[Atomic], ledger::only_removal),
    breaking(
        "a local set lacks an artifact",
        &[Client],
        inside::forgetful,
    ),
    breaking("a digest is wrong", &[Client], inside::wrong_digest),
    stormy(
        "a client comes back too early",
        &[Client],
        inside::impatient,
    ),
    stormy(
        "a client counts its failures wrongly",
        &[Client],
        inside::miscounts,
    ),
    stormy(
        "a client trusts its set after an error",
        &[Client],
        inside::trusting,
    ),
    breaking(
        "the store lists another digest",
        &[Digest],
        ledger::final_digest,
    ),
    breaking("a change is never published", &[Live], inside::unpublished),
    breaking("a wanted sync is never served", &[Live], frames::unserved),
];

pub(crate) const ALLOWED: &[Mutant] = &[
    stormy("nothing is changed", &[], |history, _| {
        Some(history.clone())
    }),
    stormy("a head is repeated", &[], frames::repeat_head),
    stormy(
        "an intermediate revision is skipped",
        &[],
        frames::skip_revision,
    ),
    stormy("a long time passes", &[], inside::idle),
    stormy("gauges are not written", &[], inside::no_gauges),
    stormy("every frame names its attempt", &[], inside::named_attempts),
    stormy(
        "only clients and the ledger are known",
        &[],
        inside::from_outside,
    ),
    stormy(
        "an accepted event is answered with error",
        &[],
        ledger::ok_becomes_error,
    ),
];

/// What a history says about one attempt.
pub(crate) struct Sync<'a> {
    pub(crate) attempt: Attempt,
    pub(crate) req: usize,
    pub(crate) conn: u64,
    pub(crate) sub: &'a str,
    pub(crate) reader: &'a str,
    pub(crate) replica: Replica,
    pub(crate) filter: &'a Filter,
    /// Indexes of its events before and after EOSE.
    pub(crate) initial: Vec<usize>,
    pub(crate) live: Vec<usize>,
    pub(crate) eose: Option<usize>,
    pub(crate) closed: Option<usize>,
    pub(crate) ended: Option<usize>,
    pub(crate) snapshot: Option<(usize, u64)>,
}

impl Sync<'_> {
    pub(crate) fn open(&self) -> bool {
        self.eose.is_some() && self.ended.is_none()
    }
}

/// Every attempt of a history.
pub(crate) fn syncs(history: &History) -> Vec<Sync<'_>> {
    let mut syncs: Vec<Sync<'_>> = Vec::new();
    let mut subs: BTreeMap<(u64, &str), usize> = BTreeMap::new();
    let mut attempts: BTreeMap<Attempt, usize> = BTreeMap::new();
    for (at, line) in history.lines.iter().enumerate() {
        match &line.record {
            Record::Req {
                attempt,
                conn,
                sub,
                reader,
                replica,
                filter,
            } => {
                subs.insert((*conn, sub), syncs.len());
                attempts.insert(*attempt, syncs.len());
                syncs.push(Sync {
                    attempt: *attempt,
                    req: at,
                    conn: *conn,
                    sub,
                    reader: reader.as_deref().expect("the toy authenticates"),
                    replica: replica.expect("the toy has only replicas"),
                    filter,
                    initial: Vec::new(),
                    live: Vec::new(),
                    eose: None,
                    closed: None,
                    ended: None,
                    snapshot: None,
                });
            }
            Record::Event { conn, sub, .. } => {
                let sync = &mut syncs[subs[&(*conn, sub.as_str())]];
                let list = if sync.eose.is_some() {
                    &mut sync.live
                } else {
                    &mut sync.initial
                };
                list.push(at);
            }
            Record::Eose { conn, sub, .. } => syncs[subs[&(*conn, sub.as_str())]].eose = Some(at),
            Record::Closed { conn, sub, .. } => {
                let sync = &mut syncs[subs[&(*conn, sub.as_str())]];
                sync.closed = Some(at);
                sync.ended.get_or_insert(at);
            }
            Record::Close { attempt } => {
                syncs[attempts[attempt]].ended.get_or_insert(at);
            }
            Record::Disconnect { conn, .. } => {
                for sync in syncs.iter_mut().filter(|sync| sync.conn == *conn) {
                    sync.ended.get_or_insert(at);
                }
            }
            Record::SnapshotOpen { attempt, index } => {
                syncs[attempts[attempt]].snapshot = Some((at, *index))
            }
            _ => {}
        }
    }
    syncs
}

/// An accepted revision.
pub(crate) struct Accepted<'a> {
    pub(crate) at: usize,
    pub(crate) id: &'a str,
    pub(crate) d: &'a str,
    pub(crate) h: &'a str,
    pub(crate) op: RevisionOp,
    pub(crate) project: Option<&'a str>,
    pub(crate) prev: Option<&'a str>,
}

impl Accepted<'_> {
    pub(crate) fn matches(&self, filter: &Filter) -> bool {
        let project = filter.tags.get("project");
        let fits = project
            .is_none_or(|wanted| self.project.is_some_and(|project| wanted.contains(project)));
        self.op != RevisionOp::Delete && filter.h.contains(self.h) && fits
    }
}

/// Every accepted revision by its id.
pub(crate) fn accepted(history: &History) -> BTreeMap<&str, Accepted<'_>> {
    let mut all = BTreeMap::new();
    for (at, line) in history.lines.iter().enumerate() {
        let Record::Commit { changes, .. } = &line.record else {
            continue;
        };
        for change in changes {
            if let Change::Revision {
                d,
                rev,
                prev,
                op,
                h,
                tags,
                ..
            } = change
            {
                let project = tags.first().map(|(_, value)| value.as_str());
                let (op, prev) = (*op, prev.as_deref());
                all.insert(
                    rev.as_str(),
                    Accepted {
                        at,
                        id: rev,
                        d,
                        h,
                        op,
                        project,
                        prev,
                    },
                );
            }
        }
    }
    all
}

/// Whether a reader can read a channel before record `until`.
pub(crate) fn reads(history: &History, reader: &str, id: &str, until: usize) -> bool {
    use holdfast_checker::format::Visibility;
    let (mut open, mut member, mut alive) = (false, false, false);
    let commits = history.lines[..until]
        .iter()
        .filter_map(|line| match &line.record {
            Record::Commit { changes, .. } => Some(changes),
            _ => None,
        });
    for change in commits.flatten() {
        match change {
            Change::ChannelCreated {
                channel,
                visibility,
                ..
            } if channel == id => {
                (open, alive) = (*visibility == Visibility::Open, true);
            }
            Change::Visibility {
                channel,
                visibility,
                ..
            } if channel == id => open = *visibility == Visibility::Open,
            Change::Membership {
                channel, key, role, ..
            } if channel == id && key == reader => member = role.is_some(),
            Change::ChannelDeleted { channel, .. } if channel == id => alive = false,
            _ => {}
        }
    }
    alive && (open || member)
}

/// Id and artifact of the event at a record.
pub(crate) fn event(history: &History, at: usize) -> (&str, &str) {
    match &history.lines[at].record {
        Record::Event { id, d, .. } => (id, d),
        other => panic!("no event: {other:?}"),
    }
}

/// One of the places, if there is any.
pub(crate) fn choose<T>(places: Vec<T>, dice: &mut Dice) -> Option<T> {
    if places.is_empty() {
        return None;
    }
    let index = usize::try_from(dice.roll(places.len() as u64)).expect("an index");
    places.into_iter().nth(index)
}

/// The history without one record.
pub(crate) fn without(history: &History, at: usize) -> History {
    let mut changed = history.clone();
    changed.lines.remove(at);
    changed
}

/// The history with one more record, at the time of the record before it.
pub(crate) fn with(history: &History, at: usize, record: Record) -> History {
    let mut changed = history.clone();
    let at_ms = changed.lines[at - 1].at_ms;
    changed
        .lines
        .insert(at, holdfast_checker::Line { at_ms, record });
    changed
}

/// The history with one record changed.
pub(crate) fn edited(history: &History, at: usize, edit: impl FnOnce(&mut Record)) -> History {
    let mut changed = history.clone();
    edit(&mut changed.lines[at].record);
    changed
}

/// The records for which a question has an answer.
pub(crate) fn places<'a, T>(
    history: &'a History,
    ask: impl Fn(&'a Record) -> Option<T>,
) -> Vec<(usize, T)> {
    let lines = history.lines.iter().enumerate();
    lines
        .filter_map(|(at, line)| ask(&line.record).map(|answer| (at, answer)))
        .collect()
}

/// The first `settled`.
pub(crate) fn first_rest(history: &History) -> usize {
    let rest = history
        .lines
        .iter()
        .position(|line| line.record == Record::Settled {});
    rest.expect("the toy comes to rest")
}
