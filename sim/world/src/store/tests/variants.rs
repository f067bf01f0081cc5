//! Each wrong variant is caught by the check of its contract line, within a few seeds. A variant that is not would show that the
//! check proves nothing.

use super::contract::{self, *};
use super::*;

type Check = fn(Variant, u64) -> Result<(), String>;

fn caught_by(line: StoreVariant) -> Check {
    match line {
        StoreVariant::PagesOnNewSnapshot | StoreVariant::KeysetSkipsOne => {
            contract::pages_show_one_moment
        }
        StoreVariant::MoveInTwoTransactions => moves_are_whole,
        StoreVariant::HeadCheckNotAtomic => revisions_are_chains,
        StoreVariant::LocksNotTaken => commits_are_serial,
        StoreVariant::AnswerBeforeCommit | StoreVariant::UnknownIsFailed => answers_are_true,
        StoreVariant::AnswerBeforeVisible
        | StoreVariant::StaleReplicaReads
        | StoreVariant::StaleSyncSnapshots => contract::reads_are_fresh,
        StoreVariant::LedgerRowMissing
        | StoreVariant::XminWatermarkCursor
        | StoreVariant::PositionWatermarkCursor => cursors_miss_nothing,
        StoreVariant::SnapshotOutlivesEnd => ended_syncs_are_closed,
        StoreVariant::GenerationNotReported => failovers_are_reported,
        StoreVariant::ReadIgnoresScope => reads_keep_their_scope,
    }
}

#[test]
fn every_wrong_variant_is_caught() {
    for line in StoreVariant::ALL {
        let check = caught_by(line);
        let caught = (0..40).find_map(|seed| check(Variant::broken(line), seed).err());
        assert!(
            caught.is_some(),
            "{line:?} passes the check of its own line"
        );
    }
}

/// Without the locks of the plans the rows' own locks and constraints are what is left: no two rivals win (S2, the second wall).
#[test]
fn the_second_wall_holds_without_the_first() {
    for seed in 0..40 {
        let verdict = revisions_are_chains(Variant::broken(StoreVariant::LocksNotTaken), seed);
        assert_eq!(verdict, Ok(()), "seed {seed}");
    }
}

/// Two transactions that lock rows in opposite order wait for each other until one of them is ended and tried again.
#[test]
fn a_circle_of_waiting_transactions_is_broken() {
    let mut limits = config(Engine::ManyWriters);
    limits.variant = Variant::broken(StoreVariant::LocksNotTaken);
    let mut driven = Driven::new(limits);
    driven.make_channel(1, "open", &[2, 3]);
    let creation = driven.in_channel(4, kinds::GROUP_CREATE, channel(2), &[&["name", "another"]]);
    driven.stored(&creation);
    for member in [3, 2] {
        let put = driven.put_user(4, channel(2), member, "member");
        driven.stored(&put);
    }
    let deletions = [
        driven.in_channel(1, kinds::GROUP_DELETE, channel(1), &[]),
        driven.in_channel(4, kinds::GROUP_DELETE, channel(2), &[]),
    ];
    // The notices go to 1, 2, 3 in the first and to 4, 3, 2 in the second.
    let both = [
        driven.submit(&deletions[0]),
        driven.submit_from(ProcessId(2), &deletions[1]),
    ];
    while both
        .iter()
        .any(|tx| driven.kind(*tx) != Some(StepKind::Deadlock))
    {
        for tx in both {
            if driven
                .kind(tx)
                .is_some_and(|kind| kind != StepKind::Deadlock)
            {
                assert_ne!(driven.kind(tx), Some(StepKind::Commit), "no circle");
                driven.step(tx, None);
            }
        }
    }
    driven.run(&mut Chance(0));
    for tx in both {
        let outcome = driven.outcome(tx);
        assert!(
            matches!(outcome, Some(SubmitOutcome::Stored { .. })),
            "{outcome:?}"
        );
    }
}
