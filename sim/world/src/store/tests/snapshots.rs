//! Histories and syncs step by step: when a snapshot begins, what it says, how it ends.

use holdfast_core::channel::Role;
use holdfast_core::node::HistoryPage;
use holdfast_core::rules;
use holdfast_core::sync::Membership;

use super::*;

/// A store with one open channel and five artifacts.
fn with_artifacts(limits: impl FnOnce(&mut StoreConfig)) -> (Driven, ChannelId) {
    let mut limited = config(Engine::ManyWriters);
    limits(&mut limited);
    let mut driven = Driven::new(limited);
    let home = driven.make_channel(1, "open", &[2]);
    for n in 1..=5 {
        driven.make_artifact(n, home);
    }
    (driven, home)
}

fn begin_sync(driven: &mut Driven, request: SyncRequest) -> TxId {
    driven.begin(StoreOp::Sync {
        request: Box::new(request),
        first: true,
    })
}

/// Steps a snapshot to its end and counts how often its close was reported.
fn closes(driven: &mut Driven, tx: TxId) -> usize {
    while driven.kind(tx).is_some() {
        driven.step(tx, None);
    }
    let answers = driven.answers.get(&tx).into_iter().flatten();
    answers
        .filter(|answered| answered.answer == StoreAnswer::SnapshotClosed)
        .count()
}

fn failed(driven: &Driven, tx: TxId) -> Option<ReadFailure> {
    driven
        .answers
        .get(&tx)?
        .iter()
        .find_map(|answered| match answered.answer {
            StoreAnswer::SyncPage(Err(failure)) | StoreAnswer::Page(Err(failure)) => Some(failure),
            _ => None,
        })
}

#[test]
fn a_snapshot_begins_with_its_first_statement() {
    let (mut driven, home) = with_artifacts(|_| {});
    let tx = begin_sync(&mut driven, sync_request(2, &[home]));
    driven.step(tx, None);
    assert_eq!(
        driven.kind(tx),
        Some(StepKind::Snapshot),
        "its place is taken"
    );
    driven.make_artifact(0, home);
    driven.step(tx, None);
    driven.make_artifact(6, home);
    let StoreAnswer::SyncPage(Ok(page)) = driven.finish(tx) else {
        panic!("no page");
    };
    assert_eq!(
        page.rows[0].artifact,
        artifact(0),
        "committed before the first statement"
    );
    let mut rows = page.rows;
    loop {
        let page = driven.next_sync_page(tx);
        assert!(page.opened.is_none(), "only on the first page");
        rows.extend(page.rows);
        if page.is_last {
            break;
        }
    }
    let ds: Vec<ArtifactId> = rows.iter().map(|row| row.artifact).collect();
    assert_eq!(
        ds,
        [0, 1, 2, 3, 4, 5].map(artifact),
        "and not what was committed after it"
    );
    assert_eq!(closes(&mut driven, tx), 1);
}

#[test]
fn a_snapshot_tells_access_and_its_cut() {
    rules!("AR-SYNC-2g");
    let (mut driven, home) = with_artifacts(|_| {});
    let stamp = |driven: &mut Driven, event: &Event| {
        let tx = driven.submit(event);
        match driven.finish_submit(tx) {
            SubmitOutcome::Stored { signals, .. } => signals
                .into_iter()
                .find(|signal| signal.change == holdfast_core::accept::Change::Membership)
                .expect("a membership change"),
            other => panic!("not stored: {other:?}"),
        }
    };
    let removal = driven.remove_user(1, home, 2);
    let left = stamp(&mut driven, &removal);
    let addition = driven.put_user(1, home, 3, "guest");
    let joined = stamp(&mut driven, &addition);
    for (reader, role, at) in [(2, None, left), (3, Some(Role::Guest), joined)] {
        let (_, page) = driven.open_sync(sync_request(reader, &[home, channel(9)]));
        let facts = page.opened.expect("on the first page");
        let known: Vec<ChannelId> = facts.access.channels.keys().copied().collect();
        assert_eq!(known, [home], "a channel that does not exist is absent");
        let membership = Membership {
            role,
            stamp: at.position,
        };
        assert_eq!(
            facts.access.members.get(&(home, pubkey(reader))),
            Some(&membership)
        );
        let seen = holdfast_core::scope::Stamp {
            position: at.position,
            xid: at.xid,
        };
        assert!(facts.cut.covers(&seen));
    }
}

#[test]
fn a_snapshot_has_a_deadline() {
    rules!("AR-SYNC-2j");
    let (mut driven, home) = with_artifacts(|limits| limits.places.syncs = 1);
    let request = SyncRequest {
        budget_ms: 500,
        ..sync_request(2, &[home])
    };
    let (tx, _) = driven.open_sync(request.clone());
    assert_eq!(driven.kind(tx), None, "nothing is asked of it");
    assert_eq!(driven.store.next_deadline_ms(), Some(500));
    let waiting = begin_sync(&mut driven, request);
    assert_eq!(driven.kind(waiting), None, "the place is taken");
    driven.time.mono_ms = 500;
    driven.step_until(tx, StepKind::Close);
    assert_eq!(
        driven.kind(waiting),
        Some(StepKind::Begin),
        "the place is free"
    );
    assert_eq!(closes(&mut driven, tx), 1);
    assert!(driven.store.next_sync_page(tx), "a late caller is told");
    assert_eq!(closes(&mut driven, tx), 1);
    assert_eq!(failed(&driven, tx), Some(ReadFailure::Budget));
    assert!(!driven.store.next_sync_page(tx));
}

#[test]
fn a_sync_without_a_place_is_busy_in_the_end() {
    let (mut driven, home) = with_artifacts(|limits| {
        limits.places.syncs = 1;
        limits.waiting_max = 1;
    });
    let (open, _) = driven.open_sync(sync_request(2, &[home]));
    let waits = begin_sync(&mut driven, sync_request(2, &[home]));
    let crowded = begin_sync(&mut driven, sync_request(2, &[home]));
    assert_eq!(closes(&mut driven, crowded), 1);
    assert_eq!(failed(&driven, crowded), Some(ReadFailure::Busy), "at once");
    assert_eq!(driven.kind(waits), None);
    driven.time.mono_ms = driven.store.config().wait_ms;
    assert_eq!(driven.kind(waits), Some(StepKind::GiveUp));
    assert_eq!(closes(&mut driven, waits), 1);
    assert_eq!(failed(&driven, waits), Some(ReadFailure::Busy));
    driven.store.end(open);
    assert_eq!(closes(&mut driven, open), 1);
    assert_eq!(driven.store.open_work(), OpenWork::default());
}

#[test]
fn a_lost_snapshot_says_so_once() {
    rules!("AR-SYNC-2m");
    for (kind, failure) in [
        (StepKind::Begin, ReadFailure::Busy),
        (StepKind::Snapshot, ReadFailure::Store),
        (StepKind::Page, ReadFailure::SnapshotLost),
    ] {
        let (mut driven, home) = with_artifacts(|_| {});
        let tx = begin_sync(&mut driven, sync_request(2, &[home]));
        driven.step_until(tx, kind);
        let fault = match kind {
            StepKind::Begin => StoreFault::Exhausted,
            _ => StoreFault::ConnectionLost,
        };
        driven.step(tx, Some(fault));
        assert_eq!(closes(&mut driven, tx), 1, "{kind:?}");
        assert_eq!(failed(&driven, tx), Some(failure), "{kind:?}");
        assert_eq!(driven.store.open_work(), OpenWork::default());
    }
}

#[test]
fn an_ended_sync_hands_nothing_over() {
    rules!("AR-SYNC-8d");
    for kind in [StepKind::Begin, StepKind::Snapshot, StepKind::Page] {
        let (mut driven, home) = with_artifacts(|_| {});
        let tx = begin_sync(&mut driven, sync_request(2, &[home]));
        driven.step_until(tx, kind);
        driven.store.end(tx);
        assert_eq!(closes(&mut driven, tx), 1, "{kind:?}");
        assert_eq!(driven.answers[&tx].len(), 1, "nothing but the close");
        assert_eq!(driven.store.open_work(), OpenWork::default());
    }
}

fn history_page(driven: &mut Driven, tx: TxId, rows_max: u32, bytes_max: usize) -> HistoryPage {
    let bounds = PageBounds {
        rows_max,
        bytes_max,
    };
    assert!(driven.store.next_page(tx, bounds));
    match driven.finish(tx) {
        StoreAnswer::Page(Ok(page)) => page,
        other => panic!("no page: {other:?}"),
    }
}

#[test]
fn a_history_is_one_moment_in_pages_of_any_size() {
    let (mut driven, home) = with_artifacts(|_| {});
    let plans = vec![sync_plan(2, &[home])];
    let tx = driven.begin(StoreOp::History { plans, first: None });
    assert_eq!(driven.store.opened(tx), None);
    driven.step(tx, None);
    driven.step(tx, None);
    assert_eq!(driven.store.opened(tx), Some(Ok(())));
    let one = history_page(&mut driven, tx, 9, 1);
    assert_eq!(one.rows.len(), 1, "one row is let through");
    assert_eq!(one.readable, BTreeSet::from([home]));
    let removal = driven.in_channel(1, kinds::GROUP_DELETE, home, &[]);
    driven.stored(&removal);
    let two = history_page(&mut driven, tx, 2, usize::MAX);
    assert_eq!((two.rows.len(), two.end), (2, None));
    let rest = history_page(&mut driven, tx, 9, usize::MAX);
    assert_eq!(rest.rows.len(), 2, "the deletion of the channel came later");
    assert_eq!(rest.readable, BTreeSet::from([home]));
    assert!(rest.end.is_some());
    assert_eq!(driven.kind(tx), Some(StepKind::Close));
    driven.step(tx, None);
    let bounds = PageBounds {
        rows_max: 1,
        bytes_max: 1,
    };
    assert!(
        !driven.store.next_page(tx, bounds),
        "nothing follows the last page"
    );
    assert_eq!(driven.store.open_work(), OpenWork::default());
}

#[test]
fn heads_are_read_with_markers_access_and_within_bytes() {
    rules!("AR-SYNC-4g");
    let (mut driven, home) = with_artifacts(|_| {});
    let away = driven.make_channel(2, "private", &[]);
    let head = |driven: &Driven, n: u8| {
        driven.store.final_state().heads[&(community(), artifact(n))].event
    };
    let first = head(&driven, 1);
    let moved = driven.revision(1, artifact(1), "move", away, Some(first));
    driven.stored(&moved);
    let second = head(&driven, 2);
    let redaction = driven.remove_event(1, home, second);
    driven.stored(&redaction);
    let wanted = [1, 2, 3, 9].map(artifact);
    let rows = driven.heads(&wanted, &[(artifact(1), home), (artifact(3), home)]);
    let known: Vec<ArtifactId> = rows.heads.keys().copied().collect();
    assert_eq!(known, [1, 2, 3].map(artifact), "an unknown one is absent");
    assert_eq!(rows.heads[&artifact(1)].home, away);
    assert!(rows.heads[&artifact(2)].body.is_none(), "it is redacted");
    assert_eq!(rows.heads[&artifact(2)].event, second, "and still the head");
    let marked: Vec<_> = rows.markers.keys().copied().collect();
    assert_eq!(marked, [(artifact(1), home)]);
    let homes: Vec<ChannelId> = rows.access.channels.keys().copied().collect();
    assert_eq!(homes, [home, away], "of the homes");
    let query = HeadQuery {
        artifacts: wanted.into(),
        bytes_max: 1,
        keys: BTreeSet::from([pubkey(1)]),
        ..HeadQuery::default()
    };
    let community = community();
    let tx = driven.begin(StoreOp::Heads { community, query });
    let StoreAnswer::Heads(Ok(rows)) = driven.finish(tx) else {
        panic!("no heads");
    };
    assert_eq!(rows.heads.len(), 1);
    assert_eq!(rows.left, BTreeSet::from([2, 3, 9].map(artifact)));
    assert_eq!(rows.access.role(away, pubkey(1)), Some(Role::Owner));
}
