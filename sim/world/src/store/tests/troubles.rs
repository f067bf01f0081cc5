//! Faults, one by one: what is answered, what is stored in the end, what stays locked meanwhile.

use holdfast_core::node::{QueryKind, Settled};

use super::*;

const TWO: ProcessId = ProcessId(2);

/// A store with one open channel, and a chat message on its way to it.
fn with_chat(engine: Engine) -> (Driven, Event, TxId) {
    let mut limits = config(engine);
    limits.failover_lost_max = 3;
    let mut driven = Driven::new(limits);
    let home = driven.make_channel(1, "open", &[]);
    let chat = driven.chat(1, home);
    let tx = driven.submit(&chat);
    (driven, chat, tx)
}

fn is_stored(driven: &Driven, event: &Event) -> bool {
    driven
        .store
        .committed
        .event(community(), event.id)
        .is_some()
}

fn settle(driven: &mut Driven, xid: u64) -> Settled {
    let tx = driven.begin(StoreOp::Settle { xid });
    match driven.finish(tx) {
        StoreAnswer::Settled(settled) => settled,
        other => panic!("not of a settle: {other:?}"),
    }
}

/// Loses the answer of a COMMIT and returns the transaction's id and the abandoned transaction.
fn unanswered(driven: &mut Driven, tx: TxId) -> (u64, TxId) {
    driven.step_until(tx, StepKind::Commit);
    driven.step(tx, Some(StoreFault::CommitUnanswered));
    let SubmitOutcome::Unknown { xid, signals } = driven.finish_submit(tx) else {
        panic!("known");
    };
    assert_eq!(signals.len(), 1, "kept until it is settled");
    let steps = driven.store.runnable(driven.time);
    let late = steps.iter().find(|step| step.kind == StepKind::LateCommit);
    (xid, late.expect("it may still commit").tx)
}

#[test]
fn an_unanswered_commit_may_come_late() {
    for engine in [Engine::ManyWriters, Engine::OneWriter] {
        let (mut driven, chat, tx) = with_chat(engine);
        let (xid, late) = unanswered(&mut driven, tx);
        assert_eq!(settle(&mut driven, xid), Settled::Open);
        let again = driven.submit(&chat);
        driven.step(again, None);
        while driven.kind(again).is_some() {
            driven.step(again, None);
        }
        assert!(!is_stored(&driven, &chat));
        driven.step(late, None);
        assert_eq!(
            settle(&mut driven, xid),
            Settled::Open,
            "nobody sees it yet"
        );
        driven.step(late, None);
        assert!(is_stored(&driven, &chat));
        assert_eq!(settle(&mut driven, xid), Settled::Committed);
        let outcome = driven.finish_submit(again);
        assert!(
            matches!(outcome, SubmitOutcome::Already { .. }),
            "{outcome:?}"
        );
    }
}

#[test]
fn an_unanswered_commit_may_never_come() {
    let (mut driven, chat, tx) = with_chat(Engine::ManyWriters);
    let (xid, late) = unanswered(&mut driven, tx);
    driven.step(late, Some(StoreFault::ConnectionLost));
    assert_eq!(settle(&mut driven, xid), Settled::Aborted);
    assert_eq!(
        settle(&mut driven, xid + 1_000),
        Settled::Open,
        "never given out: nothing is decided"
    );
    assert!(!is_stored(&driven, &chat));
    assert_eq!(driven.store.open_work(), OpenWork::default());
    let asked = driven.begin(StoreOp::Settle { xid });
    driven.step(asked, Some(StoreFault::Forgotten));
    assert_eq!(
        driven.finish(asked),
        StoreAnswer::Settled(Settled::Forgotten)
    );
    let asked = driven.begin(StoreOp::Settle { xid });
    driven.step(asked, Some(StoreFault::ConnectionLost));
    assert_eq!(driven.finish(asked), StoreAnswer::Settled(Settled::Open));
}

#[test]
fn a_lost_connection_stores_nothing_and_holds_its_locks_for_a_while() {
    for kind in [StepKind::Lock, StepKind::View, StepKind::Write] {
        let (mut driven, chat, tx) = with_chat(Engine::ManyWriters);
        driven.step_until(tx, kind);
        driven.step(tx, Some(StoreFault::ConnectionLost));
        assert_eq!(driven.finish_submit(tx), SubmitOutcome::Failed, "{kind:?}");
        let again = driven.submit(&chat);
        if kind != StepKind::Lock {
            driven.step(again, None);
            while driven.kind(again).is_some() {
                driven.step(again, None);
            }
            assert!(!is_stored(&driven, &chat), "the id is still locked");
        }
        driven.run(&mut Chance(4));
        assert!(is_stored(&driven, &chat));
        let outcome = driven.outcome(again);
        assert!(
            matches!(outcome, Some(SubmitOutcome::Stored { .. })),
            "{outcome:?}"
        );
        assert_eq!(driven.store.open_work(), OpenWork::default());
    }
}

#[test]
fn a_deadlock_is_tried_again_and_not_for_ever() {
    let (mut driven, chat, tx) = with_chat(Engine::ManyWriters);
    let other = driven.chat(1, channel(1));
    let beside = driven.submit(&other);
    for _ in 0..3 {
        driven.step_until(tx, StepKind::Write);
        driven.step(tx, Some(StoreFault::Deadlock));
        assert_eq!(driven.kind(tx), Some(StepKind::Begin));
    }
    assert_eq!(driven.kind(beside), Some(StepKind::Begin), "each alone");
    driven.finish_submit(beside);
    assert!(is_stored(&driven, &other) && !is_stored(&driven, &chat));
    driven.step_until(tx, StepKind::Write);
    driven.step(tx, Some(StoreFault::Deadlock));
    assert_eq!(driven.finish_submit(tx), SubmitOutcome::Failed);
    driven.stored(&chat);
}

#[test]
fn exhausted_places_are_busy() {
    let (mut driven, _, tx) = with_chat(Engine::ManyWriters);
    driven.step(tx, Some(StoreFault::Exhausted));
    assert_eq!(driven.finish_submit(tx), SubmitOutcome::Busy);
    let community = community();
    for (fault, failure) in [
        (StoreFault::Exhausted, ReadFailure::Busy),
        (StoreFault::ConnectionLost, ReadFailure::Store),
        (StoreFault::Budget, ReadFailure::Budget),
    ] {
        let heads = driven.begin(StoreOp::Heads {
            community,
            query: HeadQuery::default(),
        });
        driven.step(heads, Some(fault));
        assert_eq!(driven.finish(heads), StoreAnswer::Heads(Err(failure)));
        let live = driven.begin(StoreOp::Live {
            community,
            query: LiveQuery::default(),
        });
        driven.step(live, Some(fault));
        assert_eq!(driven.finish(live), StoreAnswer::Live(Err(failure)));
        let ledger = driven.begin(StoreOp::Ledger { after: None });
        driven.step(ledger, Some(fault));
        assert_eq!(driven.finish(ledger), StoreAnswer::Ledger(Err(failure)));
    }
}

#[test]
fn reads_wait_for_places_and_for_no_longer_than_they_may() {
    let mut limits = config(Engine::ManyWriters);
    limits.places.live = 1;
    limits.waiting_max = 1;
    limits.wait_ms = 100;
    let mut driven = Driven::new(limits);
    let ask = StoreOp::Ledger { after: None };
    let first = driven.begin(ask.clone());
    driven.step(first, None);
    let second = driven.begin(ask.clone());
    assert_eq!(
        driven.kind(second),
        None,
        "the place is held until the answer is handed over"
    );
    let crowded = driven.begin(ask);
    assert_eq!(
        driven.finish(crowded),
        StoreAnswer::Ledger(Err(ReadFailure::Busy))
    );
    assert_eq!(driven.store.next_deadline_ms(), Some(100));
    driven.time.mono_ms = 100;
    assert_eq!(
        driven.finish(second),
        StoreAnswer::Ledger(Err(ReadFailure::Busy))
    );
    let plans = vec![sync_plan(1, &[channel(1)])];
    let hurried = driven.begin(StoreOp::Query {
        kind: QueryKind::Count,
        plans,
        budget_ms: 0,
    });
    assert_eq!(
        driven.finish(hurried),
        StoreAnswer::Query(Err(ReadFailure::Budget))
    );
}

#[test]
fn another_tenant_fails_alone() {
    let mut driven = Driven::new(config(Engine::ManyWriters));
    let nowhere = CommunityId(uuid(9, 9));
    let event = driven.event(1, kinds::TEXT, &[]);
    let submission = Submission {
        community: nowhere,
        keys: BTreeSet::from([event.pubkey]),
        event: event.clone(),
        received_at: BEGIN_SECS,
    };
    let lost = driven.begin(StoreOp::Submit(Box::new(submission)));
    let beside = driven.submit(&event);
    driven.run(&mut Chance(5));
    assert_eq!(driven.outcome(lost), Some(SubmitOutcome::Failed));
    assert!(matches!(
        driven.outcome(beside),
        Some(SubmitOutcome::Stored { .. })
    ));
    let mut plan = sync_plan(1, &[channel(1)]);
    plan.community = nowhere;
    let tx = driven.begin(StoreOp::History {
        plans: vec![plan],
        first: None,
    });
    assert_eq!(driven.store.opened(tx), Some(Err(ReadFailure::Store)));
}

#[test]
fn a_crash_undoes_what_had_not_sent_commit() {
    for (kind, survives) in [
        (StepKind::Begin, false),
        (StepKind::View, false),
        (StepKind::Commit, false),
        (StepKind::Visible, true),
    ] {
        let (mut driven, chat, tx) = with_chat(Engine::ManyWriters);
        driven.step_until(tx, kind);
        assert_eq!(driven.store.crash(TWO), [], "another process");
        assert_eq!(driven.store.crash(ONE), [tx]);
        driven.run(&mut Chance(6));
        assert_eq!(is_stored(&driven, &chat), survives, "{kind:?}");
        assert_eq!(driven.outcome(tx), None, "nobody is answered");
        assert_eq!(driven.store.open_work(), OpenWork::default());
    }
}

#[test]
fn a_failover_loses_the_newest_commits_and_everything_open() {
    let (mut driven, chat, tx) = with_chat(Engine::ManyWriters);
    let outcome = driven.finish_submit(tx);
    let SubmitOutcome::Stored { signals, .. } = outcome else {
        panic!("not stored");
    };
    let (sync, _) = driven.open_sync(sync_request(1, &[channel(1)]));
    assert_eq!(
        driven.kind(sync),
        Some(StepKind::Close),
        "nothing is left to read"
    );
    let home = channel(1);
    for n in 1..=3 {
        driven.make_artifact(n, home);
    }
    let (open, _) = driven.open_sync(sync_request(1, &[home]));
    let late = driven.chat(1, home);
    let committed = driven.submit(&late);
    driven.step_until(committed, StepKind::Visible);
    let half = driven.chat(1, home);
    let written = driven.submit(&half);
    driven.step_until(written, StepKind::Commit);
    driven.store.fail_over(driven.time, 2);
    driven.run(&mut Chance(7));
    // The newest two visible commits are gone, the ones before stay.
    let heads = driven.store.final_state().heads;
    assert_eq!(
        heads.keys().map(|(_, d)| *d).collect::<Vec<_>>(),
        [artifact(1)]
    );
    assert!(is_stored(&driven, &chat) && !is_stored(&driven, &late) && !is_stored(&driven, &half));
    let forgotten = driven
        .store
        .commits()
        .iter()
        .filter(|commit| commit.is_forgotten);
    assert_eq!(forgotten.count(), 2);
    // What was durable and not visible may have been anything; what was not committed is nothing.
    let Some(SubmitOutcome::Unknown { xid, .. }) = driven.outcome(committed) else {
        panic!("{:?}", driven.outcome(committed));
    };
    assert_eq!(settle(&mut driven, xid), Settled::Aborted);
    assert_eq!(driven.outcome(written), Some(SubmitOutcome::Failed));
    // The open snapshot is lost.
    assert!(driven.store.next_sync_page(open));
    driven.run(&mut Chance(8));
    let told = driven.answers[&open]
        .iter()
        .map(|answered| &answered.answer);
    let lost =
        told.filter(|answer| **answer == StoreAnswer::SyncPage(Err(ReadFailure::SnapshotLost)));
    assert_eq!(lost.count(), 1);
    // Positions and ids go on above the old ones.
    let again = driven.submit(&late);
    let SubmitOutcome::Stored { signals: after, .. } = driven.finish_submit(again) else {
        panic!("not stored");
    };
    assert!(after[0].xid > xid && after[0].position > signals[0].position.plus(5));
    assert_eq!(driven.store.open_work(), OpenWork::default());
}
