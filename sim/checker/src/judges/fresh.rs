//! FRESH: the set is not older than the last change acknowledged before the relay had the REQ (AR-SYNC-2b, 2d, AR-SYNC-ONE-2).

use crate::replay::Story;
use crate::replay::copies::Found;
use crate::report::Bench;

pub(super) fn judge(story: &Story<'_>, bench: &mut Bench) {
    for (sync, copy) in story.syncs.iter().zip(&story.copies) {
        let (Some(eose), Some(cut)) = (sync.eose, copy.cut.as_ref()) else {
            continue;
        };
        let least = story.acknowledged_before(sync.asked());
        if least == 0 {
            continue;
        }
        bench.count(1);
        let stale = match sync.snapshots.first() {
            Some(snapshot) => snapshot.k < least,
            None => cut.found == Found::Stale,
        };
        if stale {
            bench.violated("AR-SYNC-2d", story.line(eose), [
                format!("Commit {least} was acknowledged with OK before line {}.", story.line(sync.asked())),
                format!("There {} was asked for; the set it got at EOSE is that of commit {}.", super::name(sync), cut.last),
                "Every change accepted with OK before the relay received the REQ is in the set.".to_owned(),
            ]);
        }
    }
}
