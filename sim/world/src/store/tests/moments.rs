//! Scripted moments of write transactions: what waits for what, what sees what, who wins.

use holdfast_core::accept::Rejection;
use holdfast_core::rules;
use holdfast_core::scope::Stamp;

use super::*;

const TWO: ProcessId = ProcessId(2);

fn many() -> Driven {
    Driven::new(config(Engine::ManyWriters))
}

/// Number of chat messages that a live read of everything returns.
fn visible(driven: &mut Driven) -> usize {
    let query = LiveQuery {
        positions: (1..1_000).map(Position).collect(),
        bytes_max: usize::MAX,
        ..LiveQuery::default()
    };
    let rows = driven.live(query).rows;
    rows.values()
        .filter(|row| row.event.kind == kinds::CHAT)
        .count()
}

fn conflict(outcome: &SubmitOutcome) -> Option<&str> {
    match outcome {
        SubmitOutcome::Rejected(Rejection::Conflict(text)) => Some(text),
        _ => None,
    }
}

#[test]
fn a_write_is_seen_when_it_is_visible_and_not_before() {
    let mut driven = many();
    let home = driven.make_channel(1, "open", &[]);
    let chat = driven.chat(1, home);
    let tx = driven.submit(&chat);
    driven.step_until(tx, StepKind::Commit);
    assert_eq!(visible(&mut driven), 0, "written");
    driven.step(tx, None);
    assert_eq!(driven.kind(tx), Some(StepKind::Visible));
    assert_eq!(
        visible(&mut driven),
        0,
        "committed, and others do not see it yet"
    );
    assert_eq!(driven.step(tx, None), None);
    assert_eq!(visible(&mut driven), 1, "visible before it is answered");
    let outcome = driven.finish_submit(tx);
    assert!(matches!(outcome, SubmitOutcome::Stored { .. }));
    assert_eq!(driven.store.open_work(), OpenWork::default());
}

#[test]
fn a_rival_waits_and_finds_another_head() {
    rules!("AR-ID-9", "AR-ID-10");
    let mut driven = many();
    let home = driven.make_channel(1, "open", &[]);
    let first = driven.make_artifact(1, home);
    let mine = driven.revision(1, artifact(1), "update", home, Some(first.id));
    let theirs = driven.revision(1, artifact(1), "update", home, Some(first.id));
    let (one, other) = (driven.submit(&mine), driven.submit_from(TWO, &theirs));
    driven.step_until(one, StepKind::Commit);
    driven.step(other, None);
    assert_eq!(
        driven.kind(other),
        Some(StepKind::Lock),
        "the lock before is free"
    );
    driven.step(other, None);
    assert_eq!(driven.kind(other), None, "the artifact is locked");
    driven.step(one, None);
    assert_eq!(driven.kind(other), None, "until others see the commit");
    driven.step(one, None);
    let outcome = driven.finish_submit(other);
    assert_eq!(conflict(&outcome), Some("conflict: artifact head changed"));
    assert!(matches!(
        driven.finish_submit(one),
        SubmitOutcome::Stored { .. }
    ));
}

#[test]
fn a_removal_waits_for_posts_and_later_posts_for_the_removal() {
    let mut driven = many();
    let home = driven.make_channel(1, "private", &[2]);
    let before = driven.chat(2, home);
    let removal = driven.remove_user(1, home, 2);
    let after = driven.chat(2, home);
    let post = driven.submit(&before);
    driven.step_until(post, StepKind::Write);
    let removing = driven.submit_from(TWO, &removal);
    driven.step(removing, None);
    while driven.kind(removing).is_some() {
        driven.step(removing, None);
    }
    assert!(matches!(
        driven.finish_submit(post),
        SubmitOutcome::Stored { .. }
    ));
    driven.step_until(removing, StepKind::Commit);
    let late = driven.submit(&after);
    driven.step(late, None);
    while driven.kind(late).is_some() {
        driven.step(late, None);
    }
    assert!(matches!(
        driven.finish_submit(removing),
        SubmitOutcome::Stored { .. }
    ));
    assert!(matches!(
        driven.finish_submit(late),
        SubmitOutcome::Rejected(_)
    ));
}

#[test]
fn commit_order_differs_from_position_order() {
    let mut driven = many();
    let home = driven.make_channel(1, "open", &[]);
    let (_, start) = driven.ledger(None);
    let (early, late) = (driven.chat(1, home), driven.chat(1, home));
    let (one, other) = (driven.submit(&early), driven.submit_from(TWO, &late));
    driven.step_until(one, StepKind::Commit);
    driven.step_until(other, StepKind::Commit);
    driven.finish_submit(other);
    let (between, cursor) = driven.ledger(Some(start));
    let outcome = driven.finish_submit(one);
    let (rest, _) = driven.ledger(Some(cursor.clone()));
    let SubmitOutcome::Stored { signals, .. } = outcome else {
        panic!("not stored: {outcome:?}");
    };
    assert_eq!(rest, signals);
    assert!(
        rest[0].position < between[0].position,
        "the later row has the lower position"
    );
    assert!(rest[0].xid < between[0].xid);
    let stamp = |signal: &holdfast_core::node::Signal| Stamp {
        position: signal.position,
        xid: signal.xid,
    };
    assert!(cursor.covers(&stamp(&between[0])) && !cursor.covers(&stamp(&rest[0])));
}

#[test]
fn what_waits_together_commits_together() {
    let mut driven = many();
    let home = driven.make_channel(1, "open", &[]);
    let first = driven.make_artifact(1, home);
    let before = driven.store.commits().len();
    let chats = [driven.chat(1, home), driven.chat(1, home)];
    let update = driven.revision(1, artifact(1), "update", home, Some(first.id));
    let rival = driven.revision(1, artifact(1), "update", home, Some(first.id));
    let txs: Vec<TxId> = [&chats[0], &update, &chats[1], &rival]
        .into_iter()
        .map(|event| driven.submit(event))
        .collect();
    driven.step(txs[0], None);
    assert_eq!(
        driven.kind(txs[1]),
        None,
        "it is part of the first one's transaction"
    );
    assert_eq!(
        driven.kind(txs[3]),
        Some(StepKind::Begin),
        "its artifact is locked in there"
    );
    driven.step_until(txs[0], StepKind::Answer);
    let commits = &driven.store.commits()[before..];
    assert_eq!(commits.len(), 1);
    let of: Vec<TxId> = commits[0].submissions.iter().map(|(tx, _)| *tx).collect();
    assert_eq!(of, txs[..3]);
    for tx in &txs[..3] {
        assert!(matches!(
            driven.finish_submit(*tx),
            SubmitOutcome::Stored { .. }
        ));
    }
    assert!(conflict(&driven.finish_submit(txs[3])).is_some());
}

#[test]
fn a_refused_submission_hurts_no_other_of_its_batch() {
    let mut driven = many();
    let (home, closed) = (
        driven.make_channel(1, "open", &[]),
        driven.make_channel(2, "private", &[]),
    );
    let events = [
        driven.chat(3, home),
        driven.chat(3, closed),
        driven.chat(3, home),
    ];
    let txs = events.each_ref().map(|event| driven.submit(event));
    driven.run(&mut Chance(1));
    let outcomes = txs.map(|tx| driven.outcome(tx).expect("an answer"));
    assert!(matches!(outcomes[0], SubmitOutcome::Stored { .. }));
    assert!(matches!(outcomes[1], SubmitOutcome::Rejected(_)));
    assert!(matches!(outcomes[2], SubmitOutcome::Stored { .. }));
}

#[test]
fn a_move_whose_artifact_moved_meanwhile_looks_again() {
    rules!("AR-MOVE-12");
    let mut driven = many();
    let homes = [1, 2, 3].map(|n| driven.make_channel(n, "open", &[]));
    let mut head = driven.make_artifact(1, homes[0]);
    let stale = driven.revision(1, artifact(1), "move", homes[2], Some(head.id));
    let tx = driven.submit(&stale);
    driven.step_until(tx, StepKind::PreRead);
    for round in 0..4 {
        driven.step(tx, None);
        assert_eq!(driven.kind(tx), Some(StepKind::Lock), "round {round}");
        let next = driven.revision(
            1,
            artifact(1),
            "move",
            homes[(round + 1) % 2],
            Some(head.id),
        );
        let other = driven.submit_from(TWO, &next);
        let outcome = driven.finish_submit(other);
        assert!(
            matches!(outcome, SubmitOutcome::Stored { .. }),
            "{outcome:?}"
        );
        head = next;
        if round < 3 {
            driven.step_until(tx, StepKind::PreRead);
        }
    }
    let outcome = driven.finish_submit(tx);
    assert_eq!(conflict(&outcome), Some("conflict: artifact home changed"));
    assert_eq!(driven.store.open_work(), OpenWork::default());
}

#[test]
fn notices_lock_the_members_that_the_view_names() {
    let mut driven = many();
    let (one, other) = (
        driven.make_channel(1, "open", &[2, 3]),
        driven.make_channel(2, "open", &[3, 2]),
    );
    let deletions = [one, other].map(|of| driven.in_channel(1, kinds::GROUP_DELETE, of, &[]));
    let first = driven.submit(&deletions[0]);
    driven.step_until(first, StepKind::Commit);
    let second = driven.submit_from(TWO, &deletions[1]);
    while driven.kind(second).is_some() {
        driven.step(second, None);
    }
    assert_ne!(
        driven.kind(first),
        None,
        "the other one waits for the recipients"
    );
    driven.run(&mut Chance(2));
    for tx in [first, second] {
        let outcome = driven.outcome(tx);
        assert!(
            matches!(outcome, Some(SubmitOutcome::Stored { .. })),
            "{outcome:?}"
        );
    }
}

#[test]
fn one_writer_writes_one_after_the_other_without_gaps() {
    let mut driven = Driven::new(config(Engine::OneWriter));
    let home = driven.make_channel(1, "open", &[2]);
    let chats = [driven.chat(1, home), driven.chat(2, home)];
    let one = driven.submit(&chats[0]);
    driven.step_until(one, StepKind::Write);
    let other = driven.submit(&chats[1]);
    driven.step(other, None);
    assert_eq!(driven.kind(other), None, "there is one writer");
    driven.run(&mut Chance(3));
    let (rows, cursor) = driven.ledger(Some(Cut::Position(Position(0))));
    let positions: Vec<u64> = rows.iter().map(|row| row.position.0).collect();
    assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row.xid == 0));
    assert_eq!(cursor, Cut::Position(Position(positions.len() as u64)));
    // A cursor of the other engine is refused.
    let foreign = Cut::Snapshot {
        xmin: 1,
        xmax: 1,
        in_progress: BTreeSet::new(),
    };
    let tx = driven.begin(StoreOp::Ledger {
        after: Some(foreign),
    });
    assert_eq!(
        driven.finish(tx),
        StoreAnswer::Ledger(Err(ReadFailure::Store))
    );
}
