//! Random scenes: any order of changes, signals, reads, failures and losses keeps every promise of a sync.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::client::Breach;
use super::play::Play;
use super::world::*;
use crate::channel::{Role, Visibility};
use crate::seeded::Seeded;
use crate::sync::{Ending, ResyncCause, SyncError};

/// One step of a random scene; numbers choose among what is on its way.
#[derive(Clone, Debug)]
pub(super) enum Move {
    Commit(Change),
    Deliver(usize),
    Repeat(usize),
    Serve(usize),
    Snapshot,
    Page(usize, bool),
    PageFails(SyncError),
    Execute(usize),
    Answer(usize, usize),
    AnswerFails(usize),
    Lose,
    Deadline(SyncError),
}

fn change() -> impl Strategy<Value = Change> {
    let home = prop_oneof![4 => Just(HALL), 3 => Just(DEN), 1 => PLAZA..CHANNELS];
    let write =
        (0..ARTIFACTS, home, prop::bool::weighted(0.7)).prop_map(|(artifact, home, is_wanted)| {
            Change::Write {
                artifact,
                home,
                is_wanted,
            }
        });
    let role = prop_oneof![
        Just(None),
        Just(Some(Role::Member)),
        Just(Some(Role::Guest))
    ];
    let visibility = prop_oneof![Just(Visibility::Open), Just(Visibility::Private)];
    prop_oneof![
        40 => write,
        6 => (0..ARTIFACTS).prop_map(Change::Delete),
        5 => (0..ARTIFACTS, 0..3usize).prop_map(|(artifact, back)| Change::Redact(artifact, back)),
        2 => (0..CHANNELS, visibility).prop_map(|(channel, to)| Change::Visibility(channel, to)),
        2 => (0..CHANNELS, role).prop_map(|(channel, role)| Change::Member(channel, role)),
        1 => (0..CHANNELS).prop_map(Change::OtherJoins),
        1 => (0..CHANNELS).prop_map(Change::Archive),
        1 => (0..CHANNELS).prop_map(Change::Unlist),
        1 => (HALL..CHANNELS).prop_map(Change::DeleteChannel),
        1 => Just(Change::Failover),
    ]
}

fn one_move() -> impl Strategy<Value = Move> {
    let error = prop_oneof![
        Just(SyncError::Store),
        Just(SyncError::Busy),
        Just(SyncError::Budget),
    ];
    prop_oneof![
        30 => change().prop_map(Move::Commit),
        24 => (0..8usize).prop_map(Move::Deliver),
        4 => (0..8usize).prop_map(Move::Repeat),
        30 => (1..4usize).prop_map(Move::Serve),
        4 => Just(Move::Snapshot),
        20 => (1..4usize, any::<bool>()).prop_map(|(rows, lazy)| Move::Page(rows, lazy)),
        10 => (0..2usize).prop_map(Move::Execute),
        20 => (0..2usize, 1..4usize).prop_map(|(read, most)| Move::Answer(read, most)),
        1 => (0..2usize).prop_map(Move::AnswerFails),
        1 => error.clone().prop_map(Move::PageFails),
        1 => error.prop_map(Move::Deadline),
        1 => Just(Move::Lose),
    ]
}

/// Random scenes: the bound of the sync, what is there before it begins, and what happens then.
pub(super) fn scenes() -> impl Strategy<Value = (usize, Vec<Change>, Vec<Move>)> {
    (
        1..8usize,
        prop::collection::vec(change(), 0..8),
        prop::collection::vec(one_move(), 1..100),
    )
}

/// Plays a scene to its end; the client then holds the set, or was told that it does not.
pub(super) fn play(
    max_events: usize,
    seeded: Seeded,
    begin: &[Change],
    moves: &[Move],
) -> Result<Play, Breach> {
    let mut play = Play::new(max_events, seeded);
    for change in begin {
        if !matches!(change, Change::Visibility(..) | Change::DeleteChannel(_)) {
            play.commit(*change);
        }
    }
    for one in moves {
        step(&mut play, one)?;
    }
    play.settle()?;
    Ok(play)
}

fn step(play: &mut Play, one: &Move) -> Result<(), Breach> {
    match one {
        Move::Commit(change) => play.commit(*change),
        Move::Deliver(at) if !play.wire.is_empty() => {
            let (signal, stamp) = play.wire.remove(at % play.wire.len());
            play.hear(signal, stamp)?;
        }
        Move::Repeat(at) if !play.wire.is_empty() => {
            let (signal, stamp) = play.wire[at % play.wire.len()];
            play.hear(signal, stamp)?;
        }
        Move::Deliver(_) | Move::Repeat(_) => {}
        Move::Serve(most) => {
            play.serve(*most)?;
        }
        Move::Snapshot => play.take_snapshot(),
        Move::Page(rows, is_lazy) => play.page(*rows, *is_lazy)?,
        Move::PageFails(error) => play.page_fails(*error)?,
        Move::Execute(read) => play.execute(*read),
        Move::Answer(read, most) => play.answer(*read, *most)?,
        Move::AnswerFails(read) => play.answer_fails(*read)?,
        Move::Lose => play.lose(ResyncCause::Signals)?,
        Move::Deadline(error) => play.fail(*error)?,
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_keeps_every_promise((max_events, begin, moves) in scenes()) {
        crate::rules!("AR-SYNC-1e", "AR-SYNC-2g", "AR-SYNC-3g", "AR-SYNC-4a", "AR-SYNC-5a", "AR-SYNC-5l");
        if let Err(breach) = play(max_events, Seeded::default(), &begin, &moves) {
            return Err(TestCaseError::fail(breach.to_string()));
        }
    }
}

/// A run that reaches nothing proves nothing: every ending and every sort of message occurs in a fixed number of scenes.
#[test]
fn the_scenes_reach_what_they_are_about() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut reached: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..1_500 {
        let tree = scenes().new_tree(&mut runner).expect("nothing is filtered");
        let (max_events, begin, moves) = proptest::strategy::ValueTree::current(&tree);
        let play = play(max_events, Seeded::default(), &begin, &moves).expect("no breach");
        let ending = play
            .client
            .closed
            .map_or("open".to_owned(), |ending| ending.to_string());
        *reached.entry(ending).or_default() += 1;
        if play.client.has_eose {
            *reached.entry("EOSE".to_owned()).or_default() += 1;
        }
        let is_removal = |said: &Said| matches!(said, Said::Removal { .. });
        if play.client.heard.iter().any(is_removal) {
            *reached.entry("45011".to_owned()).or_default() += 1;
        }
    }
    let endings = [
        Ending::Resync(ResyncCause::Signals),
        Ending::Resync(ResyncCause::Backlog),
        Ending::Resync(ResyncCause::Lookup),
        Ending::Resync(ResyncCause::Store),
        Ending::Resync(ResyncCause::Access),
        Ending::Resync(ResyncCause::Retired),
        Ending::Restricted,
        Ending::Error(SyncError::TooLarge),
        Ending::Error(SyncError::Store),
        Ending::Error(SyncError::Budget),
    ];
    let wanted = endings.iter().map(ToString::to_string);
    let wanted = wanted.chain(["open", "EOSE", "45011"].map(str::to_owned));
    for goal in wanted {
        let times = reached.get(&goal).copied().unwrap_or(0);
        assert!(times >= 5, "{goal} was reached {times} times: {reached:?}");
    }
}
