//! Ordinary subscriptions up to EOSE: register interest, wait for its confirmation, read the history in one snapshot, say EOSE.
//!
//! Interest is registered before the history is read, so an event that is committed between the two is either in the history or
//! announced afterwards. What is announced meanwhile is held and released after EOSE (`live`).

use std::collections::{BTreeSet, VecDeque};

use super::conn::Room;
use super::conn::{Phase, Sub};
use super::io::{
    ConnId, Effect, Generation, HistoryPage, Note, OpId, QueryKind, ReadFailure, Topic,
};
use super::{Deadline, Node, Owner};
use crate::limits::{HISTORY_BUDGET_MS, QUERY_BUDGET_MS, REGISTER_DEADLINE_MS, SUBSCRIPTIONS_MAX};
use crate::nostr::{Filter, RelayFrame, SubId};
use crate::scope::{self, Cut, ReadPlan};

impl Node {
    /// Compiles the filters of a request for the keys of its connection, or answers CLOSED.
    fn plans(
        &mut self,
        conn: ConnId,
        sub: &SubId,
        filters: &[Filter],
        words: fn(scope::Refusal) -> &'static str,
        effects: &mut Vec<Effect>,
    ) -> Option<Vec<ReadPlan>> {
        let state = self.conns.get(&conn)?;
        let result: Result<Vec<ReadPlan>, String> =
            if state.keys.is_empty() && !self.is_open_profile() {
                Err("auth-required: not authenticated".to_owned())
            } else {
                filters
                    .iter()
                    .map(|filter| scope::compile(state.community, &state.keys, filter))
                    .collect::<Result<_, _>>()
                    .map_err(|refusal| words(refusal).to_owned())
            };
        match result {
            Ok(plans) => Some(plans),
            Err(text) => {
                self.send_closed(conn, sub.clone().into(), None, &text, effects);
                None
            }
        }
    }

    /// Takes a COUNT; true when its answer comes later.
    pub(super) fn count(
        &mut self,
        conn: ConnId,
        sub: SubId,
        filters: &[Filter],
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(plans) = self.plans(conn, &sub, filters, scope::Refusal::query_text, effects)
        else {
            return false;
        };
        let op = self.op(Owner::Count { conn, sub });
        effects.push(Effect::Query {
            op,
            kind: QueryKind::Count,
            plans,
            budget_ms: QUERY_BUDGET_MS,
        });
        true
    }

    /// Takes a REQ: the former subscription of this id ends first, whatever becomes of the new one (B08).
    pub(super) fn req(
        &mut self,
        conn: ConnId,
        sub: SubId,
        filters: &[Filter],
        effects: &mut Vec<Effect>,
    ) {
        self.replace(conn, &sub, effects);
        let Some(plans) = self.plans(conn, &sub, filters, scope::Refusal::text, effects) else {
            return;
        };
        let Some(state) = self.conns.get(&conn) else {
            return;
        };
        if state.subs.len() + state.syncs.len() >= SUBSCRIPTIONS_MAX {
            self.send_closed(
                conn,
                sub.into(),
                None,
                "error: too many subscriptions",
                effects,
            );
            return;
        }
        let community = state.community;
        let topics: BTreeSet<Topic> = plans.iter().flat_map(topics_of_plan).collect();
        debug_assert!(topics.iter().all(|topic| topic.community() == community));
        let generation = Generation(self.next_generation);
        self.next_generation += 1;
        for topic in &topics {
            self.topics.join(*topic, (conn, sub.clone()), effects);
        }
        let deadline = self.at(
            REGISTER_DEADLINE_MS,
            Deadline::Register(conn, sub.clone(), generation),
        );
        let new = Sub {
            generation,
            plans,
            topics,
            phase: Phase::Registering,
            deadline: Some(deadline),
            held: BTreeSet::new(),
            held_ephemeral: VecDeque::new(),
            sent_positions: BTreeSet::new(),
            sent_ephemeral: VecDeque::new(),
        };
        if let Some(state) = self.conns.get_mut(&conn) {
            state.subs.insert(sub.clone(), new);
        }
        effects.push(Effect::Note(Note::SubscriptionOpened));
        self.try_open_history(conn, &sub, effects);
    }

    /// Ends what the id named before: an ordinary subscription or a sync.
    pub(super) fn replace(&mut self, conn: ConnId, sub: &SubId, effects: &mut Vec<Effect>) {
        if self.end_sub(conn, sub, effects) || self.end_sync(conn, sub, effects) {
            effects.push(Effect::Note(Note::SubscriptionReplaced));
        }
    }

    /// What one history page may need.
    pub(super) fn page_room(&self) -> Room {
        Room {
            bytes: self.config.page_room_bytes(),
            frames: self.config.bounds.page_rows_max as usize,
        }
    }

    /// Opens the history once every topic is confirmed on the bus connection that is up now.
    pub(super) fn try_open_history(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        effects: &mut Vec<Effect>,
    ) {
        let Some(state) = self.conns.get(&conn) else {
            return;
        };
        let Some(sub) = state.subs.get(sub_id) else {
            return;
        };
        let ready = matches!(sub.phase, Phase::Registering)
            && sub.topics.iter().all(|topic| self.topics.is_active(topic))
            && state.has_room(self.page_room(), &self.config);
        if !ready {
            return;
        }
        let generation = sub.generation;
        let plans = sub.plans.clone();
        let former = sub.deadline;
        let op = self.op(Owner::History {
            conn,
            sub: sub_id.clone(),
            generation,
        });
        if let Some(at) = former {
            self.deadlines
                .remove(&(at, Deadline::Register(conn, sub_id.clone(), generation)));
        }
        let deadline = self.at(
            HISTORY_BUDGET_MS,
            Deadline::History(conn, sub_id.clone(), generation),
        );
        let room = self.page_room();
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        state.reserve(room);
        if let Some(sub) = state.subs.get_mut(sub_id) {
            sub.deadline = Some(deadline);
            sub.phase = Phase::Reading {
                op,
                judged: false,
                page_in_flight: true,
                sent: BTreeSet::new(),
            };
        }
        effects.push(Effect::OpenHistory {
            op,
            plans,
            rows_max: self.config.bounds.page_rows_max,
            bytes_max: self.config.bounds.page_bytes_max,
        });
    }

    /// Takes a page of a history.
    pub(super) fn page(
        &mut self,
        op: OpId,
        page: Result<HistoryPage, ReadFailure>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(Owner::History {
            conn,
            sub: sub_id,
            generation,
        }) = self.ops.get(&op).cloned()
        else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        if page.as_ref().map_or(true, |page| page.end.is_some()) {
            self.ops.remove(&op);
        }
        let room = self.page_room();
        let Some(state) = self.conns.get_mut(&conn) else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        let Some(sub) = state
            .subs
            .get_mut(&sub_id)
            .filter(|sub| sub.generation == generation)
        else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        let Phase::Reading {
            judged,
            page_in_flight,
            sent,
            ..
        } = &mut sub.phase
        else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        *page_in_flight = false;
        let page = match page {
            Ok(page) => page,
            Err(failure) => {
                state.release(room);
                effects.push(Effect::Note(Note::HistoryFailed));
                self.fail_sub(conn, &sub_id, history_failure(failure), effects);
                return;
            }
        };
        let first = !std::mem::replace(judged, true);
        let fresh: Vec<_> = page
            .rows
            .into_iter()
            .filter(|row| sent.insert(row.id))
            .collect();
        let unreadable = first
            && sub
                .named_only()
                .is_some_and(|named| named.is_disjoint(&page.readable));
        state.release(room);
        if unreadable {
            self.fail_sub(conn, &sub_id, "restricted: not a channel member", effects);
            return;
        }
        for row in fresh {
            let frame = RelayFrame::Event {
                sub: sub_id.clone(),
                json: row.json,
            };
            self.send(conn, Some(generation), frame, effects);
        }
        match page.end {
            Some(cut) => self.finish_history(conn, &sub_id, generation, cut, effects),
            None => self.use_room(conn, effects),
        }
    }

    fn finish_history(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        generation: Generation,
        cut: Cut,
        effects: &mut Vec<Effect>,
    ) {
        self.send(
            conn,
            Some(generation),
            RelayFrame::Eose {
                sub: sub_id.clone(),
            },
            effects,
        );
        let Some(sub) = self
            .conns
            .get_mut(&conn)
            .and_then(|state| state.subs.get_mut(sub_id))
        else {
            return;
        };
        if let Some(at) = sub.deadline.take() {
            self.deadlines
                .remove(&(at, Deadline::History(conn, sub_id.clone(), generation)));
        }
        sub.phase = Phase::Live {
            cut,
            catch_up: None,
        };
        effects.push(Effect::Note(Note::HistoryDone));
        self.release_ephemeral(conn, sub_id, effects);
        self.use_room(conn, effects);
    }

    /// Room became free, or may be: open what waits, ask for pages, release held positions, oldest subscription first.
    pub(super) fn use_room(&mut self, conn: ConnId, effects: &mut Vec<Effect>) {
        let Some(state) = self.conns.get(&conn) else {
            return;
        };
        if state.closing {
            return;
        }
        let syncs = state.syncs.iter();
        let syncs: Vec<_> = syncs
            .map(|(id, sync)| (sync.generation, id.clone()))
            .collect();
        let mut waiting: Vec<(Generation, SubId)> = state
            .subs
            .iter()
            .filter(|(_, sub)| match &sub.phase {
                Phase::Registering => true,
                Phase::Reading { page_in_flight, .. } => !page_in_flight,
                Phase::Live { catch_up, .. } => catch_up.is_none() && !sub.held.is_empty(),
            })
            .map(|(id, sub)| (sub.generation, id.clone()))
            .collect();
        waiting.extend(syncs);
        waiting.sort_unstable();
        for (_, sub_id) in waiting {
            self.move_sync(conn, &sub_id, effects);
            let Some(sub) = self
                .conns
                .get(&conn)
                .and_then(|state| state.subs.get(&sub_id))
            else {
                continue;
            };
            match &sub.phase {
                Phase::Registering => self.try_open_history(conn, &sub_id, effects),
                Phase::Reading { op, .. } => self.next_page(conn, &sub_id, *op, effects),
                Phase::Live { .. } => self.catch_up(conn, &sub_id, effects),
            }
        }
    }

    fn next_page(&mut self, conn: ConnId, sub_id: &SubId, op: OpId, effects: &mut Vec<Effect>) {
        let room = self.page_room();
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        if !state.has_room(room, &self.config) {
            return;
        }
        state.reserve(room);
        if let Some(Sub {
            phase: Phase::Reading { page_in_flight, .. },
            ..
        }) = state.subs.get_mut(sub_id)
        {
            *page_in_flight = true;
        }
        effects.push(Effect::NextPage {
            op,
            rows_max: self.config.bounds.page_rows_max,
            bytes_max: self.config.bounds.page_bytes_max,
        });
    }

    /// Takes a CLOSE. It gets no answer; nothing of the subscription is sent afterwards.
    pub(super) fn close_sub(&mut self, conn: ConnId, sub: &SubId, effects: &mut Vec<Effect>) {
        if self.end_sub(conn, sub, effects) || self.end_sync(conn, sub, effects) {
            effects.push(Effect::Note(Note::SubscriptionClosed));
        }
    }

    pub(super) fn sub_deadline(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        generation: Generation,
        text: &str,
        effects: &mut Vec<Effect>,
    ) {
        let Some(sub) = self
            .conns
            .get_mut(&conn)
            .and_then(|state| state.subs.get_mut(sub_id))
        else {
            return;
        };
        if sub.generation == generation {
            sub.deadline = None;
            effects.push(Effect::Note(Note::HistoryFailed));
            self.fail_sub(conn, sub_id, text, effects);
        }
    }

    /// Ends a subscription with CLOSED; frames of it that are still queued go first.
    pub(super) fn fail_sub(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        text: &str,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(sub) = self.take_sub(conn, sub_id, effects) {
            self.send_closed(
                conn,
                sub_id.clone().into(),
                Some(sub.generation),
                text,
                effects,
            );
            effects.push(Effect::Note(Note::SubscriptionEnded));
        }
    }

    /// Ends a subscription silently and drops its unsent frames; false when there was none.
    pub(super) fn end_sub(
        &mut self,
        conn: ConnId,
        sub_id: &SubId,
        effects: &mut Vec<Effect>,
    ) -> bool {
        match self.take_sub(conn, sub_id, effects) {
            Some(sub) => {
                effects.push(Effect::Purge {
                    conn,
                    generation: sub.generation,
                });
                true
            }
            None => false,
        }
    }

    pub(super) fn end_all_subs(&mut self, conn: ConnId, effects: &mut Vec<Effect>) {
        let ids: Vec<SubId> = self
            .conns
            .get(&conn)
            .map(|state| state.subs.keys().cloned().collect())
            .unwrap_or_default();
        for id in ids {
            self.take_sub(conn, &id, effects);
        }
        self.end_all_syncs(conn, effects);
    }

    /// Removes a subscription with everything that runs for it.
    fn take_sub(&mut self, conn: ConnId, sub_id: &SubId, effects: &mut Vec<Effect>) -> Option<Sub> {
        let room = self.page_room();
        let state = self.conns.get_mut(&conn)?;
        let sub = state.subs.remove(sub_id)?;
        let deadline = match &sub.phase {
            Phase::Registering => Deadline::Register(conn, sub_id.clone(), sub.generation),
            Phase::Reading {
                op, page_in_flight, ..
            } => {
                if *page_in_flight {
                    state.release(room);
                }
                if self.ops.remove(op).is_some() {
                    effects.push(Effect::EndHistory { op: *op });
                }
                Deadline::History(conn, sub_id.clone(), sub.generation)
            }
            Phase::Live { .. } => Deadline::CatchUp(conn, sub_id.clone(), sub.generation),
        };
        if let Some(at) = sub.deadline {
            self.deadlines.remove(&(at, deadline));
        }
        let user = (conn, sub_id.clone());
        for topic in &sub.topics {
            self.topics.leave(*topic, &user, effects);
        }
        Some(sub)
    }
}

/// Where a plan's events are announced: the channels it names, or the whole community.
fn topics_of_plan(plan: &ReadPlan) -> Vec<Topic> {
    match &plan.channels {
        Some(channels) => channels
            .iter()
            .map(|channel| Topic::Channel(plan.community, *channel))
            .collect(),
        None => vec![Topic::Community(plan.community)],
    }
}

fn history_failure(failure: ReadFailure) -> &'static str {
    match failure {
        ReadFailure::Busy => "error: the relay is busy, try again",
        ReadFailure::Budget => "error: history budget exceeded",
        ReadFailure::SnapshotLost | ReadFailure::Store => "error: database error",
    }
}
