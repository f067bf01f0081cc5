//! After EOSE: rules 3 to 6 and 9.

use std::collections::BTreeSet;

use super::play::Play;
use super::world::*;
use crate::channel::{Role, Visibility};
use crate::rules;
use crate::sync::{Ending, ResyncCause, SyncError, SyncWant};

const fn write(artifact: Art, home: Chan, is_wanted: bool) -> Change {
    Change::Write {
        artifact,
        home,
        is_wanted,
    }
}

const fn head(artifact: Art, number: usize) -> Said {
    Said::Head { artifact, number }
}

/// Artifact 0 is in the set, artifact 1 is not.
fn scene() -> Play {
    Play::live(5, &[write(0, HALL, true), write(1, HALL, false)])
}

fn ending_after(play: &mut Play, changes: &[Change]) -> Option<Ending> {
    for change in changes {
        play.commit(*change);
    }
    play.rest();
    play.client.closed
}

#[test]
fn a_change_is_told_when_the_artifact_is_in_the_set_before_or_after_it() {
    rules!(
        "AR-SYNC-3c",
        "AR-SYNC-3g",
        "AR-SYNC-3h",
        "AR-SYNC-3j",
        "AR-SYNC-3k"
    );
    let mut play = scene();
    assert_eq!(
        play.tell(write(0, HALL, true)),
        [head(0, 1)],
        "before and after"
    );
    assert_eq!(
        play.tell(write(0, HALL, false)),
        [head(0, 2)],
        "before only"
    );
    assert_eq!(play.tell(write(0, HALL, true)), [head(0, 3)], "after only");
    assert_eq!(play.tell(write(1, HALL, false)), [], "neither");
    assert_eq!(play.tell(Change::Delete(1)), [], "neither");
    // What entered live counts as before.
    assert_eq!(play.tell(write(2, DEN, true)), [head(2, 0)]);
    assert_eq!(play.tell(write(2, DEN, false)), [head(2, 1)]);
}

#[test]
fn once_it_has_left_an_artifact_is_not_told_again() {
    rules!("AR-SYNC-3l");
    for leave in [
        write(0, HALL, false),
        Change::Delete(0),
        write(0, CLUB, true),
    ] {
        let mut play = scene();
        assert_eq!(play.tell(leave).len(), 1, "{leave:?}");
        for _ in 0..3 {
            let home = play.truth.head(0).expect("it exists").home;
            assert_eq!(play.tell(write(0, home, false)), [], "{leave:?}");
        }
        assert_eq!(play.tell(Change::Delete(0)), [], "{leave:?}");
    }
}

#[test]
fn deletions_are_told_and_restored_artifacts_enter() {
    rules!("AR-SYNC-3b", "AR-SYNC-3f", "AR-SYNC-3i");
    let mut play = scene();
    assert_eq!(play.tell(Change::Delete(0)), [head(0, 1)]);
    assert!(play.client.holds.is_empty());
    assert_eq!(play.tell(write(0, HALL, true)), [head(0, 2)], "a restore");
    assert_eq!(
        play.tell(write(0, DEN, true)),
        [head(0, 3)],
        "a move between named channels"
    );
    assert_eq!(play.tell(write(3, DEN, true)), [head(3, 0)], "a creation");
    assert_eq!(play.tell(write(4, PLAZA, true)), [], "elsewhere");
    assert_eq!(play.tell(write(4, HALL, true)), [head(4, 1)], "a move in");
}

#[test]
fn a_move_out_of_sight_brings_the_removal_of_the_source() {
    rules!("AR-SYNC-3d", "AR-SYNC-3e", "AR-SYNC-REQ-22");
    // Private without the reader; unlisted and system channels are not reached without their names (H6).
    for to in [CLUB, SIDE, VAULT] {
        let mut play = scene();
        let removal = Said::Removal {
            artifact: 0,
            from: HALL,
            number: 1,
        };
        assert_eq!(play.tell(write(0, to, true)), [removal], "to {to}");
        assert_eq!(play.tell(write(0, to, true)), []);
        assert_eq!(play.tell(write(1, to, true)), [], "never in the set");
    }
    // A listed channel that is readable brings the head, and so does an unlisted one that the reader has joined.
    let mut play = scene();
    assert_eq!(play.tell(write(0, PLAZA, true)), [head(0, 1)]);
    assert!(play.client.holds.is_empty());
    let mut play = scene();
    play.commit(Change::Member(SIDE, Some(Role::Guest)));
    assert_eq!(play.tell(write(0, SIDE, true)), [head(0, 1)]);
}

#[test]
fn only_the_state_at_the_read_counts_on_chains_of_moves() {
    rules!("AR-SYNC-3d", "AR-SYNC-3e", "AR-SYNC-4a", "AR-SYNC-4b");
    // Through an unreadable channel to a readable one: the head, and nothing about the stay between.
    let mut play = scene();
    play.commit(write(0, CLUB, true));
    assert_eq!(play.tell(write(0, PLAZA, true)), [head(0, 2)]);
    // Through one unreadable channel to another, or through a named one: the removal stored in the home that the copy knows.
    for hop in [SIDE, DEN] {
        let mut play = scene();
        play.commit(write(0, hop, true));
        let removal = Said::Removal {
            artifact: 0,
            from: HALL,
            number: 1,
        };
        assert_eq!(play.tell(write(0, CLUB, true)), [removal], "through {hop}");
    }
    // There and back: a stale removal is stored in the hall, and the head is told.
    let mut play = scene();
    play.commit(write(0, CLUB, true));
    assert_eq!(play.tell(write(0, HALL, true)), [head(0, 2)]);
    // Told at home again, it leaves a second time: the newer removal.
    let removal = Said::Removal {
        artifact: 0,
        from: HALL,
        number: 3,
    };
    assert_eq!(play.tell(write(0, CLUB, true)), [removal]);
}

#[test]
fn a_signal_says_only_that_something_changed() {
    rules!(
        "AR-SYNC-3a",
        "AR-SYNC-4a",
        "AR-SYNC-4b",
        "AR-SYNC-5m",
        "AR-SYNC-5n"
    );
    let mut play = scene();
    play.commit(write(0, HALL, true));
    let first = play.wire.remove(0);
    play.commit(write(0, HALL, true));
    play.commit(write(0, HALL, true));
    play.wire.clear();
    // The signal of the first change comes last: the head of the moment is told.
    play.hear(first.0, first.1).expect("dirty");
    assert_eq!(play.rest(), [head(0, 3)]);
    play.hear(first.0, first.1).expect("dirty again");
    assert_eq!(play.rest(), [head(0, 3)], "the current head or nothing");
}

#[test]
fn heads_are_read_one_after_the_other_and_again_when_they_change_meanwhile() {
    rules!("AR-SYNC-4d", "AR-SYNC-4e", "AR-SYNC-4f");
    let mut play = scene();
    play.commit(write(0, HALL, true));
    play.deliver();
    assert!(play.serve(2).expect("a read begins"));
    play.execute(0);
    play.commit(write(0, HALL, true));
    play.commit(write(2, HALL, true));
    play.deliver();
    assert_eq!(
        play.session.wants(),
        SyncWant::Nothing,
        "one read at a time"
    );
    play.answer(0, 2).expect("the older head is told first");
    assert_eq!(play.client.heard, [head(0, 1)]);
    assert_eq!(play.session.wants(), SyncWant::Heads);
    assert_eq!(play.rest(), [head(0, 2), head(2, 0)]);
    assert_eq!(play.session.wants(), SyncWant::Nothing);
}

#[test]
fn what_the_store_did_not_reach_is_read_again() {
    rules!("AR-SYNC-5a");
    let mut play = scene();
    for artifact in 0..4 {
        play.commit(write(artifact, DEN, true));
    }
    play.deliver();
    play.serve(3).expect("a read begins");
    play.answer(0, 1).expect("one of three is reached");
    assert_eq!(play.client.heard, [head(0, 1)]);
    assert_eq!(play.session.waiting(), 3);
    assert_eq!(play.rest(), [head(1, 1), head(2, 0), head(3, 0)]);
}

#[test]
fn a_failed_lookup_and_every_loss_end_the_sync() {
    rules!("AR-SYNC-5a", "AR-SYNC-5b", "AR-SYNC-5c", "AR-SYNC-5e");
    let mut play = scene();
    play.commit(write(0, HALL, true));
    play.deliver();
    play.serve(1).expect("a read begins");
    play.answer_fails(0).expect("the sync ends");
    assert_eq!(
        play.client.closed,
        Some(Ending::Resync(ResyncCause::Lookup))
    );
    for cause in [ResyncCause::Signals, ResyncCause::Store] {
        let mut play = scene();
        play.lose(cause).expect("the sync ends");
        assert_eq!(play.client.closed, Some(Ending::Resync(cause)));
    }
    let mut play = scene();
    let ending = ending_after(&mut play, &[Change::Failover, write(0, HALL, true)]);
    assert_eq!(ending, Some(Ending::Resync(ResyncCause::Store)));
}

#[test]
fn more_artifacts_than_may_wait_end_the_sync() {
    rules!("AR-SYNC-8c");
    let begin = [write(0, HALL, true), write(1, HALL, false)];
    let mut play = Play::live(2, &begin);
    for artifact in [0, 1, 0, 1] {
        play.commit(write(artifact, HALL, false));
    }
    play.deliver();
    assert_eq!(play.client.closed, None);
    play.commit(write(2, HALL, false));
    play.deliver();
    assert_eq!(
        play.client.closed,
        Some(Ending::Resync(ResyncCause::Backlog))
    );
    // The copy itself grows too large: a new sync could not succeed either (H7).
    let mut play = Play::live(2, &begin);
    assert_eq!(play.tell(write(1, HALL, true)), [head(1, 1)]);
    play.tell(write(2, HALL, true));
    assert_eq!(play.client.closed, Some(Ending::Error(SyncError::TooLarge)));
}

#[test]
fn the_redaction_of_a_current_revision_in_the_copy_ends_the_sync() {
    rules!("AR-SYNC-6a", "AR-SYNC-5a");
    let retired = Some(Ending::Resync(ResyncCause::Retired));
    assert_eq!(ending_after(&mut scene(), &[Change::Redact(0, 0)]), retired);
    // The copy has the revision before the redacted one.
    let mut play = scene();
    assert_eq!(
        ending_after(&mut play, &[write(0, HALL, true), Change::Redact(0, 0)]),
        retired
    );
    assert!(
        play.client.heard.is_empty(),
        "the redacted revision is withheld"
    );
    // The signal is lost: any read of the artifact finds it (H8).
    let mut play = scene();
    play.commit(write(0, HALL, true));
    play.deliver();
    assert_eq!(ending_after(&mut play, &[Change::Redact(0, 0)]), retired);
    let changes = [Change::Redact(0, 0), write(1, HALL, true)];
    assert_eq!(ending_after(&mut scene(), &changes), retired);
}

#[test]
fn other_redactions_end_nothing_and_say_nothing() {
    rules!("AR-SYNC-3j", "AR-SYNC-6a");
    let mut play = Play::live(
        5,
        &[
            write(0, HALL, true),
            write(0, HALL, true),
            write(1, HALL, false),
        ],
    );
    assert_eq!(play.tell(Change::Redact(0, 1)), [], "an older revision");
    assert_eq!(play.tell(Change::Redact(1, 0)), [], "never in the set");
    assert_eq!(play.client.closed, None);
    // Written again before anybody looked, the artifact is visible again: an ordinary change (H9).
    play.commit(Change::Redact(0, 0));
    assert_eq!(play.tell(write(0, HALL, true)), [head(0, 2)]);
    assert_eq!(play.client.closed, None);
}

#[test]
fn a_change_of_access_ends_the_whole_sync() {
    rules!("AR-SYNC-9a", "AR-SYNC-9b", "AR-SYNC-9c", "AR-SYNC-9d");
    let access = Some(Ending::Resync(ResyncCause::Access));
    for change in [
        Change::Member(DEN, None),
        Change::Visibility(HALL, Visibility::Private),
        Change::DeleteChannel(HALL),
        Change::DeleteChannel(DEN),
    ] {
        assert_eq!(ending_after(&mut scene(), &[change]), access, "{change:?}");
        // Lost and regained between two reads: what was missed in between cannot be told.
        let back = match change {
            Change::Member(..) => Change::Member(DEN, Some(Role::Member)),
            _ => Change::Visibility(HALL, Visibility::Open),
        };
        assert_eq!(
            ending_after(&mut scene(), &[change, back]),
            access,
            "{change:?}"
        );
        // The signal of it is lost: the next read of anything finds it (H3).
        let mut play = scene();
        play.commit(change);
        play.wire.clear();
        let next = [write(1, HALL, true), write(0, DEN, true)];
        assert_eq!(ending_after(&mut play, &next), access, "{change:?}");
        assert!(
            play.client.heard.is_empty(),
            "nothing is said after the loss of access"
        );
    }
}

#[test]
fn what_does_not_alter_access_ends_nothing() {
    rules!("AR-SYNC-9e");
    let mut play = scene();
    for change in [
        Change::Archive(HALL),
        Change::Archive(HALL),
        Change::Unlist(HALL),
        Change::Member(DEN, Some(Role::Guest)),
        Change::OtherJoins(DEN),
        Change::Member(CLUB, Some(Role::Member)),
        Change::DeleteChannel(PLAZA),
    ] {
        assert_eq!(play.tell(change), [], "{change:?}");
        assert_eq!(play.client.closed, None, "{change:?}");
    }
    assert_eq!(play.tell(write(0, HALL, true)), [head(0, 1)]);
}

#[test]
fn an_idle_sync_reads_nothing() {
    rules!("AR-SYNC-5q");
    let mut play = scene();
    assert_eq!(play.session.wants(), SyncWant::Nothing);
    play.commit(Change::OtherJoins(HALL));
    play.deliver();
    assert_eq!(
        play.session.wants(),
        SyncWant::Nothing,
        "what is about others is no reason"
    );
    assert_eq!(
        play.session.next_heads(64).collect::<BTreeSet<_>>(),
        BTreeSet::new()
    );
}
