//! ACCESS->RESYNC: when the reader's access to a named channel changes after the cut, the whole sync has ended at the next rest
//! (AR-SYNC-9a to 9d).

use crate::format::Change;
use crate::replay::Story;
use crate::replay::access::Why;
use crate::replay::ledger::K;
use crate::replay::syncs::Sync;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (index, sync) in story.syncs.iter().enumerate() {
        let Some((began, snapshot)) = story.began(index) else {
            continue;
        };
        let cut = story.copies[index]
            .cut
            .as_ref()
            .map_or(snapshot, |cut| cut.last);
        let rests = story.rests[story.rests.partition_point(|&rest| rest <= began)..].iter();
        let Some(&rest) = rests.take_while(|&&rest| sync.open_at(rest)).last() else {
            // It ended before any rest: each change since may be why.
            bench.count(
                altered(story, sync, cut, story.ledger.possible(story.end))
                    .count()
                    .min(1),
            );
            continue;
        };
        let found = altered(story, sync, cut, story.ledger.certain(rest))
            .inspect(|_| bench.count(1))
            .find(|&(k, why, channel)| {
                let first = story
                    .rest_after(story.commit_at(k))
                    .unwrap_or(rest)
                    .min(rest);
                let mut causes = story
                    .ledger
                    .commit(k)
                    .changes
                    .iter()
                    .filter(|change| is_cause(change, why, sync.reader, channel));
                causes.any(|change| !story.excused(k, change, first))
            });
        if let Some((k, why, channel)) = found {
            report(story, bench, sync, rest, (k, why, channel));
        }
    }
}

/// The commits up to `to` after which the reader can read a named channel that it could not read before, or the other way round.
fn altered<'s>(
    story: &'s Story<'_>,
    sync: &'s Sync<'_>,
    cut: K,
    to: K,
) -> impl Iterator<Item = (K, Why, &'s str)> {
    sync.filter.h.iter().flat_map(move |channel| {
        let changes = story
            .channels
            .changes(sync.reader, channel, cut, to.max(cut));
        let reads = |k| story.channels.readable(sync.reader, channel, k);
        changes
            .into_iter()
            .filter(move |&(k, _)| reads(k - 1) != reads(k))
            .map(move |(k, why)| (k, why, channel.as_str()))
    })
}

fn is_cause(change: &Change, why: Why, reader: Option<&str>, id: &str) -> bool {
    match (change, why) {
        (Change::Membership { channel, key, .. }, Why::Membership) => {
            channel == id && reader == Some(key)
        }
        (Change::Visibility { channel, .. }, Why::Visibility)
        | (Change::ChannelDeleted { channel, .. }, Why::Deleted)
        | (Change::ChannelCreated { channel, .. }, Why::Created) => channel == id,
        _ => false,
    }
}

fn report(
    story: &Story<'_>,
    bench: &mut Bench,
    sync: &Sync<'_>,
    rest: usize,
    (k, why, channel): (K, Why, &str),
) {
    let (what, rule) = match why {
        Why::Membership => ("the reader's membership in", "AR-SYNC-9a"),
        Why::Deleted => ("the existence of", "AR-SYNC-9c"),
        Why::Visibility | Why::Created | Why::Unlisted => ("the visibility of", "AR-SYNC-9b"),
    };
    bench.violated(rule, story.line(rest), [
        format!("Commit {k} (line {}) changed {what} channel {channel}, and with it what the reader can read.", story.line(story.commit_at(k))),
        format!("{} names that channel and is still open at rest.", super::name(sync)),
        "Such a sync is closed as a whole with resync:.".to_owned(),
    ]);
}
