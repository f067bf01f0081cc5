//! LOSS->RESYNC: after a loss on a node every sync that it can affect has ended at the next rest (AR-SYNC-5b to 5g, 5i, 1d).

use crate::replay::Story;
use crate::replay::ledger::At;
use crate::replay::syncs::{LossKind, Sync};
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (index, sync) in story.syncs.iter().enumerate() {
        let Some((began, _)) = story.began(index) else {
            continue;
        };
        let life = story.node(sync.node);
        let ended = sync.ended.map_or(story.end, |(ended, _)| ended);
        // A snapshot on dead interest is a loss of its own.
        let dead = life
            .down_between(began, began)
            .then_some((began, "was down", "AR-SYNC-1d"));
        let losses = life.losses_between(began, ended).iter();
        let losses = losses
            .filter_map(|loss| affects(loss.what, sync).map(|(what, rule)| (loss.at, what, rule)));
        let mut told = false;
        for (at, what, rule) in dead.into_iter().chain(losses) {
            let Some(rest) = story.rest_after(at) else {
                continue;
            };
            bench.count(1);
            if rest < ended && !told {
                told = true;
                report(story, bench, sync, (at, what, rule), rest);
            }
        }
    }
}

/// What to call a loss and the rule about it, if it can affect the sync.
fn affects(loss: LossKind<'_>, sync: &Sync<'_>) -> Option<(&'static str, &'static str)> {
    let named =
        |channel: Option<&str>| channel.is_none_or(|channel| sync.filter.h.contains(channel));
    match loss {
        LossKind::BusDown => Some(("lost its bus connection", "AR-SYNC-5b")),
        LossKind::BusUp => Some(("got a new bus connection", "AR-SYNC-5b")),
        LossKind::Lag(channel) => named(channel).then_some(("lagged in its fan-out", "AR-SYNC-5c")),
        LossKind::Undecodable(channel) => {
            named(channel).then_some(("got a message it could not decode", "AR-SYNC-5d"))
        }
        LossKind::Lookup(attempts) => attempts
            .contains(&sync.attempt)
            .then_some(("could not read heads or access for it", "AR-SYNC-5e")),
        LossKind::Store => Some(("found another store behind it", "AR-SYNC-5a")),
        LossKind::Refused(attempt) => (attempt == Some(sync.attempt))
            .then_some(("could not queue a frame for it", "AR-SYNC-5f")),
    }
}

fn report(
    story: &Story<'_>,
    bench: &mut Bench,
    sync: &Sync<'_>,
    (at, what, rule): (At, &str, &'static str),
    rest: At,
) {
    bench.violated(
        rule,
        story.line(rest),
        [
            format!("At line {} node {} {what}.", story.line(at), sync.node),
            format!(
                "{} depended on its signals by then and is still open at rest.",
                super::name(sync)
            ),
            "Such a sync gets CLOSED resync:, or its connection is closed.".to_owned(),
        ],
    );
}
