//! Commits whose outcome is not known (S3): their signals are kept until the store can tell. A signal announced too early would
//! be used up before the commit, so nothing is announced while it may still happen.

use super::io::{Effect, Note, OpId, Settled, Signal};
use super::{Deadline, Node, Owner};
use crate::ids::CommunityId;
use crate::limits::RETRY_DELAY_MS;

impl Node {
    /// Asks what became of a transaction.
    pub(super) fn settle(
        &mut self,
        community: CommunityId,
        xid: u64,
        signals: Vec<Signal>,
        delay_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        let op = self.op(Owner::Settle {
            community,
            xid,
            signals,
            delay_ms,
        });
        effects.push(Effect::Settle { op, xid });
    }

    /// Takes the answer: announce, drop, or ask again.
    pub(super) fn settled(&mut self, op: OpId, outcome: Settled, effects: &mut Vec<Effect>) {
        let delay_ms = match self.ops.get(&op) {
            Some(Owner::Settle { delay_ms, .. }) => *delay_ms,
            _ => {
                effects.push(Effect::Note(Note::LateAnswer));
                return;
            }
        };
        if outcome == Settled::Open {
            effects.push(Effect::Note(Note::CommitOpen));
            self.at(delay_ms, Deadline::Settle(op));
            return;
        }
        let owner = self.ops.remove(&op);
        if outcome == Settled::Aborted {
            return;
        }
        if let Some(Owner::Settle {
            community, signals, ..
        }) = owner
        {
            effects.push(Effect::Note(Note::CommitSettled));
            self.publisher
                .announce(community, signals, &mut self.next_op, effects);
        }
    }

    /// The time to ask again has come.
    pub(super) fn settle_again(&mut self, op: OpId, effects: &mut Vec<Effect>) {
        if let Some(Owner::Settle {
            community,
            xid,
            signals,
            delay_ms,
        }) = self.ops.remove(&op)
        {
            let delay_ms = (delay_ms * 2).min(RETRY_DELAY_MS.1);
            self.settle(community, xid, signals, delay_ms, effects);
        }
    }
}
