//! From the request to EOSE: rules 1, 2 and 8, and what of rules 5, 6 and 9 happens before EOSE.

use super::play::Play;
use super::world::*;
use crate::channel::{Role, Visibility};
use crate::rules;
use crate::seeded::Seeded;
use crate::sync::{
    Ending, ResyncCause, SnapshotFacts, StoreGeneration, SyncError, SyncOutput, SyncPage,
    SyncSession, SyncWant,
};

const fn write(artifact: Art, home: Chan, is_wanted: bool) -> Change {
    Change::Write {
        artifact,
        home,
        is_wanted,
    }
}

/// A scene before its snapshot, with these artifacts in the hall.
fn before_snapshot(max_events: usize, artifacts: usize) -> Play {
    let mut play = Play::new(max_events, Seeded::default());
    for artifact in 0..artifacts {
        play.commit(write(artifact, HALL, true));
    }
    play.wire.clear();
    play
}

/// The same scene when one row of the set has come.
fn half_read(max_events: usize, artifacts: usize) -> Play {
    let mut play = before_snapshot(max_events, artifacts);
    play.serve(1).expect("the snapshot opens");
    play.page(1, true).expect("a row comes");
    assert!(!play.client.has_eose);
    play
}

fn closed(play: &mut Play) -> Option<Ending> {
    play.rest();
    play.client.closed
}

#[test]
fn until_the_snapshot_opens_nothing_is_held_and_nothing_is_lost() {
    rules!("AR-SYNC-1d", "AR-SYNC-2b", "AR-SYNC-2d");
    let mut play = before_snapshot(1, 3);
    assert_eq!(play.session.wants(), SyncWant::Snapshot);
    for artifact in 0..3 {
        play.commit(write(artifact, HALL, true));
    }
    play.commit(Change::Redact(2, 0));
    play.deliver();
    play.lose(ResyncCause::Signals)
        .expect("registration only begins again");
    assert!(play.session.is_registering());
    assert_eq!(play.session.waiting(), 0, "the snapshot will see it all");
    play.commit(Change::Redact(1, 0));
    assert_eq!(
        play.rest(),
        [Said::Head {
            artifact: 0,
            number: 1
        }]
    );
    assert!(play.client.has_eose && play.client.closed.is_none());
}

#[test]
fn the_set_is_one_stream_in_order_of_d_and_eose_comes_last() {
    rules!(
        "AR-SYNC-REQ-8",
        "AR-SYNC-REQ-21",
        "AR-SYNC-REQ-24",
        "AR-SYNC-2e",
        "AR-SYNC-2f",
        "AR-SYNC-2h"
    );
    let mut session = SyncSession::new(plan(), 5, Seeded::default());
    let mut truth = Truth::new();
    for change in [
        write(3, HALL, true),
        write(1, HALL, true),
        write(4, HALL, false),
        write(0, DEN, true),
        write(2, HALL, true),
        // A removal is stored in the hall, and one artifact is deleted.
        write(1, DEN, true),
        Change::Delete(2),
    ] {
        truth.commit(change);
    }
    let mut out = Vec::new();
    session.snapshot_opens();
    for (at, artifact) in [0, 1, 3].into_iter().enumerate() {
        assert_eq!(
            session.wants(),
            if at == 0 {
                SyncWant::Nothing
            } else {
                SyncWant::Page
            }
        );
        session.page_starts();
        assert_eq!(session.wants(), SyncWant::Nothing, "one page at a time");
        let number = truth.head_number(artifact).expect("it exists");
        let page = SyncPage {
            rows: vec![truth.row(artifact, number)],
            is_last: at == 2,
            opened: (at == 0).then(|| truth.facts()),
            store: truth.store(),
        };
        session.page(Ok(page), &mut out);
    }
    let said: Vec<SyncOutput> = [(0, 0), (1, 1), (3, 0)]
        .map(|(artifact, number)| SyncOutput::Event(Said::Head { artifact, number }.json()))
        .into();
    assert_eq!(out[..3], said);
    assert_eq!(out[3..], [SyncOutput::Eose]);
    assert!(session.is_live());
}

#[test]
fn what_changes_while_the_set_is_read_is_held_by_its_d_and_read_after_eose() {
    rules!("AR-SYNC-1f", "AR-SYNC-1g", "AR-SYNC-1h", "AR-SYNC-2g");
    let mut play = half_read(5, 3);
    for _ in 0..10 {
        play.commit(write(2, HALL, true));
    }
    play.commit(write(0, HALL, false));
    play.deliver();
    assert_eq!(play.session.waiting(), 2);
    let said = play.rest();
    let head = |artifact, number| Said::Head { artifact, number };
    assert_eq!(
        said,
        [head(1, 0), head(2, 0), head(0, 1), head(2, 10)],
        "the set as the snapshot saw it, then the heads of what was held"
    );
}

#[test]
fn a_change_that_the_snapshot_saw_may_be_told_again_and_is_never_older() {
    rules!("AR-SYNC-1i", "AR-SYNC-4c");
    let mut play = before_snapshot(5, 1);
    play.serve(1).expect("the snapshot opens");
    play.commit(write(0, HALL, true));
    let signal = play.wire[0];
    // It comes before the first page, when nobody can tell whether the snapshot saw it; and once more afterwards.
    play.hear(signal.0, signal.1).expect("held");
    play.page(1, false).expect("the set comes");
    play.hear(signal.0, signal.1).expect("dirty");
    let told = Said::Head {
        artifact: 0,
        number: 1,
    };
    assert_eq!(play.rest(), [told]);
    assert_eq!(play.client.heard, [told, told]);
}

#[test]
fn the_held_list_is_bounded_by_distinct_artifacts() {
    rules!("AR-SYNC-1j", "AR-SYNC-1k");
    for (artifacts, ending) in [(4, None), (5, Some(Ending::Resync(ResyncCause::Backlog)))] {
        let mut play = half_read(4, 3);
        for turn in 0..100 {
            play.commit(write(turn % artifacts, HALL, false));
            play.deliver();
        }
        assert_eq!(closed(&mut play), ending, "{artifacts} artifacts");
        assert_eq!(play.client.has_eose, ending.is_none());
    }
}

#[test]
fn a_set_that_cannot_be_read_ends_with_error_and_without_eose() {
    rules!("AR-SYNC-2l", "AR-SYNC-8a");
    for error in [SyncError::Store, SyncError::Busy, SyncError::Budget] {
        for pages in 0..3 {
            let mut play = before_snapshot(5, 4);
            play.serve(1).expect("the snapshot opens");
            for _ in 0..pages {
                play.page(1, false).expect("a row comes");
                play.serve(1).expect("the next page is asked for");
            }
            let mut late = play.clone();
            play.page_fails(error).expect("the sync ends");
            assert_eq!(closed(&mut play), Some(Ending::Error(error)));
            late.fail(error).expect("the sync ends");
            assert_eq!(closed(&mut late), Some(Ending::Error(error)));
            assert!(!play.client.has_eose && !late.client.has_eose);
        }
    }
}

#[test]
fn a_set_above_max_events_is_refused_and_never_cut() {
    rules!("AR-SYNC-8a");
    let mut fits = before_snapshot(3, 3);
    assert_eq!(closed(&mut fits), None);
    let mut large = before_snapshot(3, 4);
    assert_eq!(closed(&mut large), Some(Ending::Error(SyncError::TooLarge)));
    assert!(!large.client.has_eose);
}

#[test]
fn an_unreadable_named_channel_is_answered_alike_whatever_the_cause() {
    rules!("AR-SYNC-2n", "AR-SYNC-REQ-26", "AR-SYNC-REQ-27");
    let mut texts = Vec::new();
    for change in [
        Change::Member(DEN, None),
        Change::DeleteChannel(HALL),
        Change::DeleteChannel(DEN),
        Change::Visibility(HALL, Visibility::Private),
    ] {
        let mut play = before_snapshot(5, 2);
        play.commit(change);
        let ending = closed(&mut play).expect("refused");
        assert!(play.client.heard.is_empty() && !play.client.has_eose);
        texts.push(ending.to_string());
    }
    // A channel that does not exist is absent from what the snapshot says.
    let truth = Truth::new();
    let mut facts = truth.facts();
    facts.access.channels.remove(&channel_id(DEN));
    let out = first_page(Some(facts));
    let [SyncOutput::Closed(ending)] = out.as_slice() else {
        panic!("{out:?}");
    };
    texts.push(ending.to_string());
    texts.dedup();
    assert_eq!(texts, ["restricted: a named channel cannot be read"]);
}

/// What is said to a first page without rows.
fn first_page(opened: Option<SnapshotFacts>) -> Vec<SyncOutput> {
    let mut session = SyncSession::new(plan(), 5, Seeded::default());
    session.snapshot_opens();
    let mut out = Vec::new();
    let page = SyncPage {
        rows: Vec::new(),
        is_last: true,
        opened,
        store: StoreGeneration(1),
    };
    session.page(Ok(page), &mut out);
    out
}

#[test]
fn a_set_is_never_continued_on_another_snapshot() {
    rules!("AR-SYNC-2a", "AR-SYNC-2m");
    let store = Ending::Error(SyncError::Store);
    assert_eq!(
        first_page(None),
        [SyncOutput::Closed(store)],
        "no snapshot is known"
    );
    let truth = Truth::new();
    for (opened, generation, ending) in [
        (Some(truth.facts()), 1, store),
        (None, 2, Ending::Resync(ResyncCause::Store)),
    ] {
        let mut play = half_read(5, 3);
        play.session.page_starts();
        let page = SyncPage {
            rows: Vec::new(),
            is_last: true,
            opened,
            store: StoreGeneration(generation),
        };
        let mut out = Vec::new();
        play.session.page(Ok(page), &mut out);
        assert_eq!(out, [SyncOutput::Closed(ending)]);
    }
}

#[test]
fn a_loss_while_the_set_is_read_ends_the_sync() {
    rules!("AR-SYNC-5a", "AR-SYNC-5b", "AR-SYNC-5c");
    for pages in 1..3 {
        let mut play = before_snapshot(5, 3);
        play.serve(1).expect("the snapshot opens");
        for _ in 0..pages {
            play.page(1, false).expect("a row comes");
        }
        play.lose(ResyncCause::Signals).expect("the sync ends");
        assert_eq!(
            closed(&mut play),
            Some(Ending::Resync(ResyncCause::Signals))
        );
        assert!(!play.client.has_eose);
    }
}

/// Nothing was said yet, so nothing has to be taken back: the registration begins again and another snapshot is opened.
#[test]
fn a_loss_before_the_first_page_only_restarts_the_registration() {
    rules!("AR-SYNC-1c", "AR-SYNC-1d");
    let mut play = before_snapshot(5, 3);
    play.serve(1).expect("the snapshot opens");
    let mut out = Vec::new();
    play.session.lost(ResyncCause::Signals, &mut out);
    assert_eq!(out, [SyncOutput::Restart]);
    assert_eq!(play.session.wants(), SyncWant::Snapshot);
    let mut play = before_snapshot(5, 3);
    play.serve(1).expect("the snapshot opens");
    play.lose(ResyncCause::Signals).expect("nothing ends");
    play.rest();
    assert!(play.client.has_eose, "{:?}", play.client.closed);
}

#[test]
fn a_change_of_access_while_the_set_is_read_ends_the_sync_without_eose() {
    rules!("AR-SYNC-9a", "AR-SYNC-9b", "AR-SYNC-9c", "AR-SYNC-9d");
    for change in [
        Change::Member(DEN, None),
        Change::Visibility(HALL, Visibility::Private),
        Change::DeleteChannel(HALL),
    ] {
        for pages in 0..4 {
            let mut play = before_snapshot(5, 3);
            play.serve(1).expect("the snapshot opens");
            play.take_snapshot();
            for _ in 0..pages {
                play.page(1, true).expect("a row comes");
                play.serve(1).expect("the next page is asked for");
            }
            play.commit(change);
            play.deliver();
            let access = Ending::Resync(ResyncCause::Access);
            assert_eq!(
                closed(&mut play),
                Some(access),
                "{change:?} after {pages} pages"
            );
            assert!(!play.client.has_eose);
        }
    }
}

#[test]
fn a_signal_of_access_that_the_snapshot_saw_or_that_is_about_others_ends_nothing() {
    rules!("AR-SYNC-9e");
    let mut play = before_snapshot(5, 2);
    play.serve(1).expect("the snapshot opens");
    play.commit(Change::Member(DEN, None));
    play.commit(Change::Member(DEN, Some(Role::Member)));
    let late = play.wire.clone();
    play.take_snapshot();
    play.deliver();
    play.page(1, false).expect("a row comes");
    for (signal, stamp) in late {
        play.hear(signal, stamp).expect("the snapshot saw it");
    }
    for change in [
        Change::OtherJoins(DEN),
        Change::Archive(HALL),
        Change::Unlist(HALL),
    ] {
        play.commit(change);
    }
    play.commit(Change::Member(DEN, Some(Role::Guest)));
    assert_eq!(closed(&mut play), None);
    assert!(play.client.has_eose);
}

#[test]
fn a_retirement_after_the_cut_ends_the_sync_and_one_before_it_does_not() {
    rules!("AR-SYNC-6a");
    let retired = Some(Ending::Resync(ResyncCause::Retired));
    // Heard before the first page, committed before or after the cut.
    for (is_after, ending) in [(false, None), (true, retired)] {
        let mut play = before_snapshot(5, 3);
        play.serve(1).expect("the snapshot opens");
        if is_after {
            play.take_snapshot();
        }
        play.commit(Change::Redact(1, 0));
        play.deliver();
        assert_eq!(closed(&mut play), ending);
        assert_eq!(play.client.has_eose, !is_after);
    }
    // Heard between two pages.
    let mut play = half_read(5, 3);
    play.commit(Change::Redact(2, 0));
    play.deliver();
    assert_eq!(closed(&mut play), retired);
    // The redaction of an older revision retires nothing.
    let mut play = half_read(5, 3);
    play.commit(write(2, HALL, true));
    play.commit(Change::Redact(2, 1));
    play.deliver();
    assert_eq!(closed(&mut play), None);
}

#[test]
fn retirements_heard_before_the_cut_is_known_count_by_artifact() {
    rules!("AR-SYNC-1k");
    let mut play = before_snapshot(2, 2);
    play.serve(1).expect("the snapshot opens");
    for _ in 0..3 {
        play.commit(Change::Redact(0, 0));
        play.commit(write(0, HALL, true));
        play.commit(Change::Redact(1, 0));
        play.commit(write(1, HALL, true));
    }
    play.deliver();
    assert_eq!(closed(&mut play), None, "the snapshot saw them all");
    assert!(play.client.has_eose);
}

#[test]
fn nothing_is_said_after_closed() {
    rules!("AR-SYNC-8d");
    let mut play = half_read(5, 3);
    play.serve(1).expect("the next page is asked for");
    play.commit(write(2, HALL, true));
    play.lose(ResyncCause::Signals).expect("the sync ends");
    assert!(play.session.is_ended());
    let heard = play.client.heard.len();
    play.commit(write(1, HALL, true));
    play.commit(Change::Member(DEN, None));
    play.deliver();
    play.page(2, false).expect("a late page means nothing");
    play.fail(SyncError::Budget)
        .expect("a late deadline means nothing");
    play.lose(ResyncCause::Store)
        .expect("a later loss means nothing");
    assert_eq!(play.session.wants(), SyncWant::Nothing);
    assert_eq!(play.client.heard.len(), heard);
}
