//! The bus connection as the node sees it: confirmations, publishes, losses, and how a loss is made good from the ledger.
//!
//! After a loss the ledger is read once from a cursor that is older than any signal still on its way; what was already sent is
//! recognised by its position. If that read goes on failing, every subscription ends with CLOSED, never with silence.

use super::io::{
    BusGeneration, ConnId, Effect, LedgerPage, Note, OpId, ReadFailure, Signal, Topic,
};
use super::publish::topics_of;
use super::{Deadline, Node, Owner};
use crate::ids::CommunityId;
use crate::limits::{CURSOR_REFRESH_MS, LIVE_RETRY_DEADLINE_MS, RETRY_DELAY_MS};
use crate::nostr::SubId;
use crate::seeded::Mutant;
use crate::sync::ResyncCause;

impl Node {
    pub(super) fn bus_up(&mut self, generation: BusGeneration, effects: &mut Vec<Effect>) {
        if self.topics.up.is_some() {
            // A connection that takes the place of another one is a loss too (AR-SYNC-5b).
            self.bus_down(effects);
        }
        self.topics.bus_up(generation, effects);
        if self.cursor.newest.is_none() {
            self.refresh_cursor(effects);
        }
        self.recover(effects);
    }

    pub(super) fn bus_down(&mut self, effects: &mut Vec<Effect>) {
        self.topics.down();
        self.cursor.lost_since_ms.get_or_insert(self.now.mono_ms);
        effects.push(Effect::Note(Note::BusLost));
        let is_swallowed = self.config.seeded.is(Mutant::MX3) && self.config.sweep_interval_ms > 0;
        if !is_swallowed {
            self.lose_syncs(ResyncCause::Signals, effects);
        }
    }

    pub(super) fn topic_active(
        &mut self,
        topic: Topic,
        generation: BusGeneration,
        effects: &mut Vec<Effect>,
    ) {
        if !self.topics.confirm(topic, generation) {
            effects.push(Effect::Note(Note::StaleConfirmation));
            return;
        }
        let users: Vec<(ConnId, SubId)> = self
            .topics
            .map
            .get(&topic)
            .map(|state| state.users.iter().cloned().collect())
            .unwrap_or_default();
        for (conn, sub) in users {
            self.try_open_history(conn, &sub, effects);
        }
        let syncs: Vec<(ConnId, SubId)> = self
            .topics
            .map
            .get(&topic)
            .map(|state| state.syncs.iter().cloned().collect())
            .unwrap_or_default();
        for (conn, sub) in syncs {
            if let Some(sync) = self
                .conns
                .get_mut(&conn)
                .and_then(|state| state.syncs.get_mut(&sub))
            {
                sync.confirmed.insert(topic);
            }
            self.move_sync(conn, &sub, effects);
        }
        self.recover(effects);
    }

    pub(super) fn published(&mut self, op: OpId, ok: bool, effects: &mut Vec<Effect>) {
        let now = self.now.mono_ms;
        let seeded = self.config.seeded;
        if let Some((at, topic)) =
            self.publisher
                .answered(op, ok, now, seeded, &mut self.next_op, effects)
        {
            self.deadlines.insert((at, Deadline::Publish(topic)));
        }
    }

    /// The ledger's turn: sweeps the rows committed since the newest cursor, or without the sweep only asks for a newer one.
    ///
    /// While a loss waits to be made good, recovery reads the rows.
    pub(super) fn refresh_cursor(&mut self, effects: &mut Vec<Effect>) {
        let sweep_ms = self.config.sweep_interval_ms;
        let interval_ms = if sweep_ms > 0 {
            sweep_ms
        } else {
            CURSOR_REFRESH_MS
        };
        self.at(interval_ms, Deadline::Cursor);
        if self.cursor.lost_since_ms.is_none() && !self.cursor.reading {
            self.read_cursor(effects);
        }
    }

    fn read_cursor(&mut self, effects: &mut Vec<Effect>) {
        self.cursor.reading = true;
        let after = if self.config.sweep_interval_ms > 0 {
            self.cursor.newest.clone()
        } else {
            None
        };
        let op = self.op(Owner::Cursor);
        effects.push(Effect::ReadLedger { op, after });
    }

    /// The ledger is another one: what was read of the former says nothing about it.
    pub(super) fn restart_cursor(&mut self, effects: &mut Vec<Effect>) {
        self.cursor.newest = None;
        self.cursor.safe = None;
        if self.cursor.lost_since_ms.is_none() && !self.cursor.reading {
            self.read_cursor(effects);
        }
    }

    /// A sweep or refresh came back. Swept rows are signals like those of the bus; what was seen is recognised by its position.
    fn cursor_read(&mut self, page: LedgerPage, effects: &mut Vec<Effect>) {
        if self.cursor.lost_since_ms.is_some() {
            return;
        }
        let former = self.cursor.newest.replace(page.cursor.clone());
        self.cursor.safe = Some(former.unwrap_or(page.cursor));
        if !page.signals.is_empty() {
            effects.push(Effect::Note(Note::Swept));
            self.announce_rows(page.signals, effects);
        }
        if page.more {
            self.read_cursor(effects);
        }
    }

    fn announce_rows(&mut self, signals: Vec<(CommunityId, Signal)>, effects: &mut Vec<Effect>) {
        for (community, signal) in signals {
            for topic in topics_of(community, signal.channel) {
                self.signals(topic, std::slice::from_ref(&signal), effects);
            }
        }
    }

    /// Makes a loss good once every topic is confirmed again.
    pub(super) fn recover(&mut self, effects: &mut Vec<Effect>) {
        if self.cursor.lost_since_ms.is_none()
            || self.cursor.recovering
            || !self.topics.all_active()
        {
            return;
        }
        let Some(after) = self.cursor.safe.clone() else {
            // No cursor was ever read, so nothing tells what was missed.
            self.give_up_recovery(effects);
            return;
        };
        self.cursor.recovering = true;
        let op = self.op(Owner::Recover);
        effects.push(Effect::ReadLedger {
            op,
            after: Some(after),
        });
    }

    pub(super) fn ledger(
        &mut self,
        op: OpId,
        page: Result<LedgerPage, ReadFailure>,
        effects: &mut Vec<Effect>,
    ) {
        if let Ok(page) = &page {
            self.note_store(page.store, effects);
        }
        let owner = self.ops.remove(&op);
        if owner == Some(Owner::Cursor) {
            self.cursor.reading = false;
        }
        match (owner, page) {
            (Some(Owner::Cursor), Ok(page)) => self.cursor_read(page, effects),
            (Some(Owner::Cursor), Err(_)) => effects.push(Effect::Note(Note::LiveRetried)),
            (Some(Owner::Recover), Ok(page)) => {
                self.cursor.recovering = false;
                self.cursor.failing_since_ms = None;
                self.cursor.safe = Some(page.cursor.clone());
                self.announce_rows(page.signals, effects);
                if page.more || !self.topics.all_active() {
                    self.recover(effects);
                } else {
                    self.cursor.newest = Some(page.cursor);
                    self.cursor.lost_since_ms = None;
                    effects.push(Effect::Note(Note::LedgerCaughtUp));
                }
            }
            (Some(Owner::Recover), Err(_)) => {
                self.cursor.recovering = false;
                let now = self.now.mono_ms;
                let since = *self.cursor.failing_since_ms.get_or_insert(now);
                effects.push(Effect::Note(Note::LiveRetried));
                if now.saturating_sub(since) >= LIVE_RETRY_DEADLINE_MS {
                    self.give_up_recovery(effects);
                } else {
                    self.at(RETRY_DELAY_MS.0, Deadline::Recover);
                }
            }
            _ => effects.push(Effect::Note(Note::LateAnswer)),
        }
    }

    /// What was missed cannot be told: subscriptions that may have missed something end, which their clients can see.
    fn give_up_recovery(&mut self, effects: &mut Vec<Effect>) {
        self.cursor.lost_since_ms = None;
        self.cursor.failing_since_ms = None;
        let subs: Vec<(ConnId, SubId)> = self
            .conns
            .iter()
            .flat_map(|(conn, state)| {
                state
                    .subs
                    .iter()
                    .filter(|(_, sub)| sub.opened())
                    .map(|(id, _)| (*conn, id.clone()))
            })
            .collect();
        for (conn, sub) in subs {
            self.fail_sub(
                conn,
                &sub,
                "error: live delivery was interrupted, subscribe again",
                effects,
            );
        }
    }
}
