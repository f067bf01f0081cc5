//! The store contract as questions that any schedule must answer well. Each check takes a seed and a variant, drives a store by
//! chance, and says what is wrong; the clean store passes for every seed, and each wrong variant fails the check of its line.

use holdfast_core::accept::Change;
use holdfast_core::node::Signal;
use holdfast_core::rules;
use holdfast_core::sync::SyncRow;

use super::*;
use crate::truth::What;

type Verdict = Result<(), String>;

/// Fails unless something holds.
fn demand(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

fn driven(variant: Variant) -> Driven {
    Driven::new(StoreConfig {
        variant,
        ..config(Engine::ManyWriters)
    })
}

/// A store with three channels, four people and five artifacts, and a workload by chance.
struct Crowd {
    driven: Driven,
    chance: Chance,
    submitted: Vec<(TxId, Event)>,
}

impl Crowd {
    fn new(seed: u64, config: StoreConfig) -> Crowd {
        let mut driven = Driven::new(config);
        driven.make_channel(1, "open", &[2, 3]);
        driven.make_channel(2, "private", &[2, 3]);
        driven.make_channel(3, "private", &[2]);
        for n in 1..=5 {
            driven.make_artifact(n, channel(1 + n % 3));
        }
        Crowd {
            driven,
            chance: Chance(seed),
            submitted: Vec::new(),
        }
    }

    /// Somebody's next event, after a look at what is stored.
    fn invent(&mut self) -> Event {
        let chance = &mut self.chance;
        let (by, home) = (
            1 + chance.below(4) as u8,
            channel(1 + chance.below(3) as u8),
        );
        let d = artifact(1 + chance.below(6) as u8);
        let who = 2 + chance.below(3) as u8;
        let head = self
            .driven
            .store
            .final_state()
            .heads
            .get(&(community(), d))
            .cloned();
        let driven = &mut self.driven;
        match (chance.below(12), head) {
            (0, _) => driven.put_user(1, home, who, "member"),
            (1, _) => driven.remove_user(1, home, who),
            (2, _) => {
                let visibility = if chance.one_in(2) { "open" } else { "private" };
                driven.edit(1, home, "visibility", visibility)
            }
            (3, _) => driven.edit(
                1,
                home,
                "archived",
                if chance.one_in(3) { "true" } else { "false" },
            ),
            (4 | 5, _) => driven.chat(by, home),
            (6, Some(head)) => driven.remove_event(1, head.home, head.event),
            (7 | 8, Some(head)) if head.home != home => {
                driven.revision(by, d, "move", home, Some(head.event))
            }
            (9, Some(head)) if !head.deleted => {
                driven.revision(by, d, "delete", head.home, Some(head.event))
            }
            (_, Some(head)) => {
                let op = if head.deleted { "restore" } else { "update" };
                driven.revision(by, d, op, head.home, Some(head.event))
            }
            (_, None) => driven.revision(by, d, "create", home, None),
        }
    }

    fn submit(&mut self) {
        let event = self.invent();
        let process = ProcessId(1 + self.chance.below(2) as u32);
        let tx = self.driven.submit_from(process, &event);
        self.submitted.push((tx, event));
    }

    /// One step by chance, with a fault now and then; false when nothing is runnable.
    fn step(&mut self, faults: &[StoreFault]) -> bool {
        let steps = self.driven.store.runnable(self.driven.time);
        if steps.is_empty() {
            return false;
        }
        let step = self.chance.pick(&steps);
        let strikes = !faults.is_empty() && self.chance.one_in(12);
        let fault = strikes.then(|| self.chance.pick(faults));
        self.driven.step(step.tx, fault);
        true
    }

    /// Submissions and steps mixed, then everything to its end.
    fn work(&mut self, submissions: usize, faults: &[StoreFault]) {
        for _ in 0..submissions {
            self.submit();
            for _ in 0..self.chance.below(12) {
                self.step(faults);
            }
        }
        while self.step(faults) {}
    }
}

const WRITE_FAULTS: [StoreFault; 4] = [
    StoreFault::Exhausted,
    StoreFault::ConnectionLost,
    StoreFault::Deadlock,
    StoreFault::CommitUnanswered,
];

/// S2: the commits, in the order in which they became visible, are a serial execution: submitted one after the other to an empty
/// store of the same history they are all accepted and lead to the same state.
pub(super) fn commits_are_serial(variant: Variant, seed: u64) -> Verdict {
    let mut crowd = Crowd::new(
        seed,
        StoreConfig {
            variant,
            ..config(Engine::ManyWriters)
        },
    );
    let mut serial = crowd.driven.clone();
    crowd.work(30, &WRITE_FAULTS);
    let events: BTreeMap<EventId, &Event> = crowd
        .submitted
        .iter()
        .map(|(_, event)| (event.id, event))
        .collect();
    let before = serial.store.commits().len();
    for commit in &crowd.driven.store.commits()[before..] {
        for (_, id) in &commit.submissions {
            let tx = serial.submit(events[id]);
            let outcome = serial.finish_submit(tx);
            demand(matches!(outcome, SubmitOutcome::Stored { .. }), || {
                format!("{id} is stored and could not be, one after the other: {outcome:?}")
            })?;
        }
    }
    let (one, other) = (crowd.driven.store.final_state(), serial.store.final_state());
    demand(one.heads == other.heads && one.roles == other.roles, || {
        "another state than one after the other".to_owned()
    })
}

/// S2, CHAIN: per artifact there is one creation, and each later revision names the one before it.
pub(super) fn revisions_are_chains(variant: Variant, seed: u64) -> Verdict {
    let mut driven = driven(variant);
    let home = driven.make_channel(1, "open", &[2, 3]);
    let mut chance = Chance(seed);
    let first = driven.make_artifact(1, home);
    for round in 0..3 {
        for by in 1..=3 {
            let event = driven.revision(by, artifact(1), "update", home, Some(first.id));
            driven.submit_from(ProcessId(u32::from(by)), &event);
            let fresh = driven.revision(by, artifact(2 + round), "create", home, None);
            driven.submit_from(ProcessId(u32::from(by)), &fresh);
        }
        driven.run(&mut chance);
    }
    let mut current: BTreeMap<ArtifactId, EventId> = BTreeMap::new();
    for change in driven
        .store
        .commits()
        .iter()
        .flat_map(|commit| &commit.changes)
    {
        if let What::Revision {
            artifact,
            event,
            prev,
            ..
        } = &change.what
        {
            let before = current.insert(*artifact, *event);
            demand(before == *prev, || {
                format!("{event} follows {prev:?}, current was {before:?}")
            })?;
        }
    }
    Ok(())
}

/// S2, ATOMIC: whoever reads head and marker in one statement sees both sides of a move or none, whatever strikes.
pub(super) fn moves_are_whole(variant: Variant, seed: u64) -> Verdict {
    let mut driven = driven(variant);
    let mut chance = Chance(seed);
    let (source, destination) = (
        driven.make_channel(1, "open", &[]),
        driven.make_channel(2, "open", &[]),
    );
    let first = driven.make_artifact(1, source);
    let moved = driven.revision(1, artifact(1), "move", destination, Some(first.id));
    let tx = driven.submit(&moved);
    loop {
        let rows = driven.heads(&[artifact(1)], &[(artifact(1), source)]);
        let has_left = rows.heads[&artifact(1)].home == destination;
        demand(has_left != rows.markers.is_empty(), || {
            "a head without its marker, or a marker without its head".to_owned()
        })?;
        if driven.kind(tx).is_none() {
            return Ok(());
        }
        let fault = chance.one_in(20).then_some(StoreFault::ConnectionLost);
        driven.step(tx, fault);
    }
}

/// S3: what is answered `Stored` is committed whatever happens afterwards; what is answered `Failed` never is; what is `Unknown`
/// is `Open` until it is final.
pub(super) fn answers_are_true(variant: Variant, seed: u64) -> Verdict {
    let mut crowd = Crowd::new(
        seed,
        StoreConfig {
            variant,
            ..config(Engine::ManyWriters)
        },
    );
    for _ in 0..12 {
        crowd.submit();
        for _ in 0..crowd.chance.below(14) {
            crowd.step(&WRITE_FAULTS);
        }
        check_unknowns(&mut crowd)?;
    }
    // One of both processes is gone in the midst of its work.
    crowd.driven.store.crash(ProcessId(2));
    while crowd.step(&[StoreFault::ConnectionLost]) {}
    check_unknowns(&mut crowd)?;
    let committed = committed_events(&crowd.driven.store);
    for (tx, event) in &crowd.submitted {
        let is_committed = committed.contains(&event.id);
        let is_wrong = match crowd.driven.outcome(*tx) {
            Some(SubmitOutcome::Stored { .. }) => !is_committed,
            Some(SubmitOutcome::Failed | SubmitOutcome::Busy | SubmitOutcome::Rejected(_)) => {
                is_committed
            }
            _ => false,
        };
        demand(!is_wrong, || {
            let outcome = crowd.driven.outcome(*tx);
            format!("{outcome:?}, committed: {is_committed}")
        })?;
    }
    Ok(())
}

fn committed_events(store: &Store) -> BTreeSet<EventId> {
    let commits = store.commits().iter().filter(|commit| !commit.is_forgotten);
    commits
        .flat_map(|commit| &commit.submissions)
        .map(|(_, event)| *event)
        .collect()
}

fn check_unknowns(crowd: &mut Crowd) -> Verdict {
    for (tx, event) in crowd.submitted.clone() {
        let Some(SubmitOutcome::Unknown { xid, .. }) = crowd.driven.outcome(tx) else {
            continue;
        };
        let asked =
            crowd
                .driven
                .store
                .begin(crowd.driven.time, ProcessId(9), StoreOp::Settle { xid });
        let settled = crowd.driven.finish(asked);
        let is_committed = committed_events(&crowd.driven.store).contains(&event.id);
        use holdfast_core::node::Settled;
        let is_right = match settled {
            StoreAnswer::Settled(Settled::Committed) => is_committed,
            StoreAnswer::Settled(Settled::Aborted | Settled::Open) => !is_committed,
            _ => false,
        };
        demand(is_right, || {
            format!("{settled:?}, committed: {is_committed}")
        })?;
    }
    Ok(())
}

/// S4: whoever reads after an answer sees what was answered for.
pub(super) fn reads_are_fresh(variant: Variant, seed: u64) -> Verdict {
    let mut crowd = Crowd::new(
        seed,
        StoreConfig {
            variant,
            ..config(Engine::ManyWriters)
        },
    );
    let mut judged = BTreeSet::new();
    for _ in 0..400 {
        if crowd.submitted.len() < 15 && crowd.chance.one_in(8) {
            crowd.submit();
        }
        if !crowd.step(&[]) {
            continue;
        }
        let answered: Vec<TxId> = crowd.driven.answers.keys().copied().collect();
        for tx in answered {
            let Some(SubmitOutcome::Stored { signals, .. }) = crowd.driven.outcome(tx) else {
                continue;
            };
            if judged.insert(tx) {
                sees(&mut crowd.driven, &signals)?;
            }
        }
    }
    Ok(())
}

/// Reads what these signals announce, right after they were given.
fn sees(driven: &mut Driven, signals: &[Signal]) -> Verdict {
    for signal in signals {
        if !matches!(
            signal.change,
            Change::Revision | Change::MoveSource | Change::Event
        ) {
            continue;
        }
        let query = LiveQuery {
            positions: BTreeSet::from([signal.position]),
            bytes_max: usize::MAX,
            ..LiveQuery::default()
        };
        let at_hand = driven
            .store
            .commits()
            .iter()
            .flat_map(|commit| &commit.changes)
            .any(|change| change.position == signal.position);
        // An event that a later commit withheld is rightly missing.
        let withheld = is_withheld_later(&driven.store, signal);
        let rows = driven.live(query).rows;
        demand(
            at_hand && (withheld || rows.contains_key(&signal.position)),
            || format!("{signal:?} is announced and cannot be read"),
        )?;
    }
    Ok(())
}

fn is_withheld_later(store: &Store, signal: &Signal) -> bool {
    let row = store.committed.ledger.get(&signal.position);
    let event = row.and_then(|entry| entry.row.event);
    event
        .and_then(|event| store.committed.event(community(), event))
        .is_some_and(|row| row.withheld.is_some())
}

/// S5, S6: along a chain of cursors each change of each commit comes exactly once, whatever is in flight, and nothing else does.
pub(super) fn cursors_miss_nothing(variant: Variant, seed: u64) -> Verdict {
    let limits = StoreConfig {
        variant,
        ledger_rows_max: 3,
        ..config(Engine::ManyWriters)
    };
    let mut crowd = Crowd::new(seed, limits);
    let (_, mut cursor) = crowd.driven.ledger(None);
    let before = crowd.driven.store.commits().len();
    let foreign = crowd
        .driven
        .store
        .begin(crowd.driven.time, ProcessId(7), StoreOp::Foreign);
    crowd.driven.step(foreign, None);
    let mut seen: Vec<Signal> = Vec::new();
    for _ in 0..25 {
        crowd.submit();
        for _ in 0..crowd.chance.below(20) {
            let steps = crowd.driven.store.runnable(crowd.driven.time);
            let own: Vec<StepId> = steps
                .into_iter()
                .filter(|step| step.tx != foreign)
                .collect();
            if own.is_empty() {
                break;
            }
            let step = crowd.chance.pick(&own);
            let lost = crowd
                .chance
                .one_in(40)
                .then_some(StoreFault::ConnectionLost);
            crowd.driven.step(step.tx, lost);
        }
        if crowd.chance.one_in(3) {
            // The foreign transaction is open all the time and delays nothing.
            let rows;
            (rows, cursor) = crowd.driven.ledger(Some(cursor));
            seen.extend(rows);
            same_rows(&crowd.driven.store, before, &seen)?;
        }
    }
    while crowd.step(&[]) {}
    let (rows, _) = crowd.driven.ledger(Some(cursor));
    seen.extend(rows);
    same_rows(&crowd.driven.store, before, &seen)
}

fn same_rows(store: &Store, before: usize, seen: &[Signal]) -> Verdict {
    let mut expected: Vec<_> = store.commits()[before..]
        .iter()
        .flat_map(|commit| &commit.changes)
        .map(|change| change.position)
        .collect();
    let mut seen: Vec<_> = seen.iter().map(|signal| signal.position).collect();
    expected.sort_unstable();
    seen.sort_unstable();
    demand(expected == seen, || {
        format!("committed {expected:?}, seen {seen:?}")
    })
}

/// S1: the pages of a sync are the set of the moment of its first statement, whatever commits between them.
pub(super) fn pages_show_one_moment(variant: Variant, seed: u64) -> Verdict {
    let mut crowd = Crowd::new(
        seed,
        StoreConfig {
            variant,
            ..config(Engine::ManyWriters)
        },
    );
    crowd.work(4, &[]);
    let channels = [channel(1), channel(2), channel(3)];
    let (tx, first) = crowd.driven.open_sync(sync_request(1, &channels));
    let expected = current_set(&crowd.driven.store, &channels);
    let mut rows: Vec<SyncRow> = first.rows;
    let mut is_last = first.is_last;
    while !is_last {
        crowd.work(3, &[]);
        let page = crowd.driven.next_sync_page(tx);
        rows.extend(page.rows);
        is_last = page.is_last;
    }
    let got: Vec<(ArtifactId, EventId)> =
        rows.iter().map(|row| (row.artifact, row.event)).collect();
    demand(got == expected, || {
        format!("wanted {expected:?}, got {got:?}")
    })
}

/// The live heads of these channels, for a reader of all of them, by the truth.
fn current_set(store: &Store, channels: &[ChannelId]) -> Vec<(ArtifactId, EventId)> {
    let heads = store.final_state().heads;
    heads
        .into_iter()
        .filter(|(_, head)| !head.deleted && !head.redacted && channels.contains(&head.home))
        .map(|((_, artifact), head)| (artifact, head.event))
        .collect()
}

/// S7: an ended sync frees its place and leaves nothing open.
pub(super) fn ended_syncs_are_closed(variant: Variant, _seed: u64) -> Verdict {
    let mut limits = config(Engine::ManyWriters);
    limits.places.syncs = 1;
    limits.variant = variant;
    let mut driven = Driven::new(limits);
    let home = driven.make_channel(1, "open", &[]);
    for n in 1..=5 {
        driven.make_artifact(n, home);
    }
    let (tx, _) = driven.open_sync(sync_request(1, &[home]));
    driven.store.end(tx);
    let closed = driven.finish(tx);
    demand(closed == StoreAnswer::SnapshotClosed, || {
        format!("{closed:?}")
    })?;
    let open = driven.store.open_work();
    demand(open == OpenWork::default(), || {
        format!("left open: {open:?}")
    })
}

/// S8: after a failover another generation is reported by every read that reports one.
pub(super) fn failovers_are_reported(variant: Variant, _seed: u64) -> Verdict {
    let mut driven = driven(variant);
    let home = driven.make_channel(1, "open", &[]);
    driven.make_artifact(1, home);
    let before = driven.heads(&[artifact(1)], &[]).store;
    driven.store.fail_over(driven.time, 0);
    let heads = driven.heads(&[artifact(1)], &[]).store;
    let (_, page) = driven.open_sync(sync_request(1, &[home]));
    demand(before < heads && heads == page.store, || {
        format!("{before:?}, then {heads:?} and {:?}", page.store)
    })
}

/// S9: who is no member of a private channel gets nothing of it, and its members get everything.
pub(super) fn reads_keep_their_scope(variant: Variant, _seed: u64) -> Verdict {
    let mut driven = driven(variant);
    let home = driven.make_channel(1, "private", &[2]);
    driven.make_artifact(1, home);
    for (reader, expected) in [(1, 1), (2, 1), (3, 0)] {
        let (_, page) = driven.open_sync(sync_request(reader, &[home]));
        demand(page.rows.len() == expected, || {
            format!("reader {reader}: {} rows", page.rows.len())
        })?;
        let plans = vec![sync_plan(reader, &[home])];
        let tx = driven.begin(StoreOp::Query {
            kind: holdfast_core::node::QueryKind::Count,
            plans,
            budget_ms: 1_000,
        });
        let count = driven.finish(tx);
        let right =
            StoreAnswer::Query(Ok(holdfast_core::node::QueryAnswer::Count(expected as u64)));
        demand(count == right, || format!("reader {reader}: {count:?}"))?;
    }
    Ok(())
}

/// Runs a check for many seeds on the clean store.
fn always(check: fn(Variant, u64) -> Verdict, seeds: u64) {
    for seed in 0..seeds {
        if let Err(what) = check(Variant::default(), seed) {
            panic!("seed {seed}: {what}");
        }
    }
}

#[test]
fn every_schedule_is_serial() {
    rules!("AR-ID-7", "AR-ID-9", "AR-MOVE-4");
    always(commits_are_serial, 60);
}

#[test]
fn every_schedule_keeps_chains() {
    rules!("AR-ID-5", "AR-ID-9");
    always(revisions_are_chains, 40);
}

#[test]
fn every_move_is_whole() {
    rules!("AR-MOVE-4");
    always(moves_are_whole, 30);
}

#[test]
fn every_answer_is_true() {
    always(answers_are_true, 60);
}

#[test]
fn every_read_is_fresh() {
    always(reads_are_fresh, 20);
}

#[test]
fn every_cursor_misses_nothing() {
    always(cursors_miss_nothing, 40);
}

#[test]
fn every_sync_shows_one_moment() {
    rules!("AR-SYNC-2a", "AR-SYNC-2f");
    always(pages_show_one_moment, 30);
}

#[test]
fn every_ended_sync_is_closed() {
    rules!("AR-SYNC-8d");
    always(ended_syncs_are_closed, 1);
}

#[test]
fn every_failover_is_reported() {
    always(failovers_are_reported, 1);
}

#[test]
fn every_read_keeps_its_scope() {
    rules!("AR-ACC-1");
    always(reads_keep_their_scope, 1);
}
