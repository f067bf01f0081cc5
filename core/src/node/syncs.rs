//! Syncs as the node serves them: requests, topics, snapshot places, room, shared head reads, endings. What one sync says and
//! when it ends is decided in `sync::session`; this file only carries its wishes out.
//!
//! A change costs as much as the syncs that listen to its channel: those become ready, and at the end of the step the ready ones
//! share as few reads as possible.

use std::collections::{BTreeMap, BTreeSet};

use super::conn::{Room, Sync};
use super::inspect::HeadReadView;
use super::io::{ConnId, Effect, Generation, Note, OpId, ReadFailure, Signal, Topic};
use super::topics::User;
use super::{Deadline, Node, Owner};
use crate::accept::Change;
use crate::ids::{ArtifactId, CommunityId};
use crate::limits::{REGISTER_DEADLINE_MS, SUBSCRIPTIONS_MAX, SYNC_HEADS_SHARED_MAX};
use crate::nostr::{ArtifactFilter, ArtifactFilterError, ArtifactView, RelayFrame, SubId};
use crate::scope::{self, ReadPlan, Stamp};
use crate::seeded::Mutant;
use crate::sync::{
    Ending, HeadQuery, HeadRows, ResyncCause, StoreGeneration, SyncError, SyncOutput, SyncPage,
    SyncRequest, SyncSession, SyncSignal, SyncWant,
};

/// One sync that takes part in a head read, and what it gets from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HeadTaker {
    conn: ConnId,
    sub: SubId,
    generation: Generation,
    artifacts: BTreeSet<ArtifactId>,
    room: Room,
}

impl HeadTaker {
    /// What an observer may see of it.
    pub(super) fn view(&self) -> HeadReadView<'_> {
        HeadReadView {
            conn: self.conn,
            generation: self.generation,
            artifacts: &self.artifacts,
        }
    }
}

/// What the syncs of a process share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Syncs {
    /// Snapshots that are open or not yet reported closed.
    open: BTreeSet<OpId>,
    /// Syncs that lack nothing but a snapshot place, oldest first.
    waiting: BTreeSet<(Generation, ConnId, SubId)>,
    /// Syncs that may start a head read at the end of the step.
    ready: BTreeSet<User>,
    /// Artifacts held or dirty over all sessions.
    artifacts_waiting: usize,
}

impl Node {
    /// Takes a REQ with an `artifact` filter: a sync request, whose refusals begin with `restricted: ` or `error: `
    /// (AR-SYNC-REQ-15, AR-SYNC-REQ-29). What the id named before ends first.
    pub(super) fn sync_req(
        &mut self,
        conn: ConnId,
        sub: SubId,
        filter: Result<ArtifactFilter, ArtifactFilterError>,
        effects: &mut Vec<Effect>,
    ) {
        self.replace(conn, &sub, effects);
        match self.sync_plan(conn, filter) {
            Ok(plan) => self.register_sync(conn, sub, plan, effects),
            Err(text) => {
                effects.push(Effect::Note(Note::SyncRefused));
                self.send_closed(conn, sub.into(), None, &text, effects);
            }
        }
    }

    /// Judges a request by what it says and by who asks; channels are judged in the snapshot.
    fn sync_plan(
        &self,
        conn: ConnId,
        filter: Result<ArtifactFilter, ArtifactFilterError>,
    ) -> Result<ReadPlan, String> {
        let state = self.conns.get(&conn).ok_or_else(String::new)?;
        let refuse = |reason: &str| Err(format!("error: filter: {reason}"));
        let filter = match filter {
            Err(error) => return refuse(&error.to_string()),
            Ok(_) if !self.config.sync.is_enabled => {
                return refuse("not supported: sync is switched off");
            }
            Ok(filter) => filter,
        };
        if filter.view != ArtifactView::Current {
            return refuse("only \"current\" can be subscribed to; use HTTP /query");
        }
        if filter.limit.is_some() || filter.offset.is_some() {
            return refuse("a sync takes no limit and no offset");
        }
        let Some(channels) = filter.predicates.get("h") else {
            return refuse("a sync names its channels with #h");
        };
        let busy = Err(Ending::Error(SyncError::Busy).to_string());
        if state.subs.len() + state.syncs.len() >= SUBSCRIPTIONS_MAX
            || self.syncs.artifacts_waiting >= self.config.sync.waiting_max
        {
            return busy;
        }
        let nobody = state.keys.is_empty() && !self.is_open_profile();
        let unreadable = nobody
            || channels
                .iter()
                .any(|id| id.parse::<crate::ids::ChannelId>().is_err());
        if unreadable {
            // A value that is no channel id names a channel that does not exist (H16); without a key nothing is readable.
            return Err(Ending::Restricted.to_string());
        }
        let reader = state.last_key.into_iter().collect();
        scope::compile_artifact(state.community, &reader, &filter)
            .map_err(|refusal| format!("error: filter: {}", refusal.text()))
    }

    fn register_sync(
        &mut self,
        conn: ConnId,
        sub: SubId,
        plan: ReadPlan,
        effects: &mut Vec<Effect>,
    ) {
        let community = plan.community;
        let config = &self.config;
        let session = SyncSession::new(plan, config.sync.max_events, config.seeded);
        let topics: BTreeSet<Topic> = session
            .named()
            .iter()
            .map(|channel| Topic::Channel(community, *channel))
            .collect();
        let generation = Generation(self.next_generation);
        self.next_generation += 1;
        for topic in &topics {
            self.topics.join_sync(*topic, (conn, sub.clone()), effects);
        }
        let register = Deadline::SyncRegister(conn, sub.clone(), generation);
        let deadline = self.at(REGISTER_DEADLINE_MS, register);
        let confirmed = topics
            .iter()
            .filter(|topic| self.topics.is_active(topic))
            .copied()
            .collect();
        let sync = Sync {
            generation,
            session,
            topics,
            confirmed,
            op: None,
            page_in_flight: false,
            snapshot_deadline: Some(deadline),
            delivery_deadline: None,
        };
        if let Some(state) = self.conns.get_mut(&conn) {
            state.syncs.insert(sub.clone(), sync);
        }
        effects.push(Effect::Note(Note::SyncOpened));
        self.move_sync(conn, &sub, effects);
    }

    /// Carries out what a sync wants next, as far as there is room.
    pub(super) fn move_sync(&mut self, conn: ConnId, sub: &SubId, effects: &mut Vec<Effect>) {
        let Some(sync) = self.conns.get(&conn).and_then(|conn| conn.syncs.get(sub)) else {
            return;
        };
        match sync.session.wants() {
            SyncWant::Nothing => {}
            SyncWant::Snapshot => self.try_open_sync(conn, sub, effects),
            SyncWant::Page => self.next_sync_page(conn, sub, effects),
            SyncWant::Heads | SyncWant::Access => {
                self.syncs.ready.insert((conn, sub.clone()));
            }
        }
    }

    /// What one page of an initial set may need.
    fn sync_page_room(&self) -> Room {
        Room {
            bytes: self.config.sync_page_room_bytes(),
            frames: self.config.sync.page_rows_max as usize,
        }
    }

    /// Whether every topic of a sync is confirmed on the bus connection that is up now (AR-SYNC-1a to AR-SYNC-1c).
    fn is_interest_active(&self, sync: &Sync) -> bool {
        let seeded = self.config.seeded;
        seeded.is(Mutant::M01)
            || (seeded.is(Mutant::M02) && sync.topics.is_subset(&sync.confirmed))
            || sync.topics.iter().all(|topic| self.topics.is_active(topic))
    }

    /// Opens the snapshot once the interest is active, a place is free and a page has room; a sync that lacks only the place
    /// queues for it.
    fn try_open_sync(&mut self, conn: ConnId, sub: &SubId, effects: &mut Vec<Effect>) {
        let room = self.sync_page_room();
        let Some(state) = self.conns.get(&conn) else {
            return;
        };
        let Some(sync) = state.syncs.get(sub) else {
            return;
        };
        if !self.is_interest_active(sync) || !state.has_room(room, &self.config) {
            return;
        }
        let generation = sync.generation;
        let place = (generation, conn, sub.clone());
        if self.syncs.open.len() >= self.config.sync.snapshots_max {
            if self.syncs.waiting.insert(place) {
                effects.push(Effect::Note(Note::SyncWaitsForSnapshot));
            }
            return;
        }
        self.syncs.waiting.remove(&place);
        let op = self.op(Owner::Sync {
            conn,
            sub: sub.clone(),
            generation,
        });
        self.syncs.open.insert(op);
        let budget_ms = self.config.sync.snapshot_budget_ms;
        let snapshot = Deadline::SyncSnapshot(conn, sub.clone(), generation);
        let delivery = Deadline::SyncDelivery(conn, sub.clone(), generation);
        let snapshot_deadline = self.at(budget_ms, snapshot);
        let delivery_deadline = self.at(self.config.sync.delivery_budget_ms, delivery);
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        state.reserve(room);
        let Some(sync) = state.syncs.get_mut(sub) else {
            return;
        };
        sync.session.snapshot_opens();
        sync.op = Some(op);
        sync.page_in_flight = true;
        let register = sync.snapshot_deadline.replace(snapshot_deadline);
        sync.delivery_deadline = Some(delivery_deadline);
        let plan = sync.session.plan().clone();
        if let Some(at) = register {
            let register = Deadline::SyncRegister(conn, sub.clone(), generation);
            self.deadlines.remove(&(at, register));
        }
        effects.push(Effect::OpenSync {
            op,
            request: Box::new(SyncRequest {
                plan,
                rows_max: self.config.sync.page_rows_max,
                bytes_max: self.config.sync.page_bytes_max,
                budget_ms,
            }),
        });
    }

    fn next_sync_page(&mut self, conn: ConnId, sub: &SubId, effects: &mut Vec<Effect>) {
        let room = self.sync_page_room();
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        if !state.has_room(room, &self.config) {
            return;
        }
        let Some(sync) = state.syncs.get_mut(sub) else {
            return;
        };
        let Some(op) = sync.op else {
            return;
        };
        sync.session.page_starts();
        sync.page_in_flight = true;
        state.reserve(room);
        effects.push(Effect::NextSyncPage { op });
    }

    /// Takes a page of an initial set.
    pub(super) fn sync_page(
        &mut self,
        op: OpId,
        page: Result<SyncPage, ReadFailure>,
        effects: &mut Vec<Effect>,
    ) {
        if let Ok(page) = &page {
            self.note_store(page.store, effects);
        }
        let owner = self.ops.get(&op).cloned();
        let Some(Owner::Sync {
            conn,
            sub,
            generation,
        }) = owner
        else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        let is_over = page.as_ref().map_or(true, |page| page.is_last);
        if is_over {
            self.ops.remove(&op);
        }
        let room = self.sync_page_room();
        let Some(state) = self.conns.get_mut(&conn) else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        let sync = state
            .syncs
            .get_mut(&sub)
            .filter(|sync| sync.generation == generation);
        let Some(sync) = sync else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        let was_asked = std::mem::replace(&mut sync.page_in_flight, false);
        if is_over {
            sync.op = None;
        }
        if was_asked {
            state.release(room);
        }
        let page = page.map_err(|failure| match failure {
            ReadFailure::Busy => SyncError::Busy,
            ReadFailure::Budget => SyncError::Budget,
            ReadFailure::SnapshotLost | ReadFailure::Store => SyncError::Store,
        });
        self.with_sync(conn, &sub, effects, |session, out| session.page(page, out));
    }

    /// A snapshot is closed: its place goes to the sync that has waited longest and can use it.
    pub(super) fn snapshot_closed(&mut self, op: OpId, effects: &mut Vec<Effect>) {
        if !self.syncs.open.remove(&op) {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        }
        if let Some(Owner::Sync {
            conn,
            sub,
            generation,
        }) = self.ops.get(&op).cloned()
            && let Some(sync) = self
                .conns
                .get_mut(&conn)
                .and_then(|state| state.syncs.get_mut(&sub))
                .filter(|sync| sync.generation == generation)
            && let Some(at) = sync.snapshot_deadline.take()
        {
            let deadline = Deadline::SyncSnapshot(conn, sub, generation);
            self.deadlines.remove(&(at, deadline));
        }
        let waiting: Vec<_> = self.syncs.waiting.iter().cloned().collect();
        for (_, conn, sub) in waiting {
            if self.syncs.open.len() >= self.config.sync.snapshots_max {
                break;
            }
            self.move_sync(conn, &sub, effects);
        }
    }

    /// Tells the syncs of a topic what may have changed; what they were told lately is not told again.
    pub(super) fn signal_syncs(
        &mut self,
        topic: Topic,
        signals: &[Signal],
        effects: &mut Vec<Effect>,
    ) {
        let Some(state) = self.topics.map.get_mut(&topic) else {
            return;
        };
        if state.syncs.is_empty() {
            return;
        }
        let mut news = Vec::new();
        for signal in signals {
            let Some(meaning) = meaning_of(signal) else {
                continue;
            };
            if state.tell(signal.position) {
                let stamp = Stamp {
                    position: signal.position,
                    xid: signal.xid,
                };
                news.push((meaning, stamp));
            } else {
                effects.push(Effect::Note(Note::SignalRepeated));
            }
        }
        if news.is_empty() {
            return;
        }
        let users: Vec<User> = state.syncs.iter().cloned().collect();
        for (conn, sub) in users {
            self.with_sync(conn, &sub, effects, |session, out| {
                for (meaning, stamp) in &news {
                    session.signal(*meaning, *stamp, out);
                }
            });
        }
    }

    /// Starts the head and access reads that ready syncs want and have room for. Syncs of one community that want the same
    /// artifacts share a read.
    pub(super) fn start_head_reads(&mut self, effects: &mut Vec<Effect>) {
        if self.syncs.ready.is_empty() {
            return;
        }
        let ready = std::mem::take(&mut self.syncs.ready);
        let mut communities: BTreeMap<CommunityId, Vec<User>> = BTreeMap::new();
        for (conn, sub) in ready {
            let Some(state) = self.conns.get(&conn) else {
                continue;
            };
            let Some(sync) = state.syncs.get(&sub) else {
                continue;
            };
            let has_room = match sync.session.wants() {
                SyncWant::Heads => state.has_room(self.heads_room(), &self.config),
                SyncWant::Access => true,
                SyncWant::Nothing | SyncWant::Snapshot | SyncWant::Page => false,
            };
            if has_room {
                communities
                    .entry(state.community)
                    .or_default()
                    .push((conn, sub));
            }
        }
        for (community, users) in communities {
            for group in self.group_by_artifacts(&users) {
                self.start_head_read(community, group, effects);
            }
        }
    }

    /// What one head read may need for one sync.
    fn heads_room(&self) -> Room {
        Room {
            bytes: self.config.heads_room_bytes(),
            frames: self.config.sync.heads_max,
        }
    }

    /// Divides ready syncs into reads of at most `heads_max` artifacts. Each sync takes part in one read; what it wants of another
    /// one stays dirty.
    fn group_by_artifacts(&self, users: &[User]) -> Vec<BTreeMap<User, BTreeSet<ArtifactId>>> {
        let most = self.config.sync.heads_max;
        let mut wanted: BTreeMap<ArtifactId, Vec<&User>> = BTreeMap::new();
        let mut groups: Vec<BTreeMap<User, BTreeSet<ArtifactId>>> = Vec::new();
        let mut access_only: BTreeMap<User, BTreeSet<ArtifactId>> = BTreeMap::new();
        for user in users {
            let sync = self.conns.get(&user.0).and_then(|s| s.syncs.get(&user.1));
            let Some(sync) = sync else { continue };
            let mut any = false;
            for artifact in sync.session.next_heads(most) {
                wanted.entry(artifact).or_default().push(user);
                any = true;
            }
            if !any {
                access_only.insert(user.clone(), BTreeSet::new());
            }
        }
        let mut group_of: BTreeMap<&User, usize> = BTreeMap::new();
        let mut artifacts_in_last = most;
        for (artifact, users) in wanted {
            let is_new = |user: &&&User| !group_of.contains_key(**user);
            let is_last =
                |user: &&User| group_of.get(*user) == groups.len().checked_sub(1).as_ref();
            let begins = users.iter().filter(is_new).count();
            let goes_on = users
                .iter()
                .any(|user| group_of.contains_key(user) && is_last(user));
            if begins == 0 && !goes_on {
                continue;
            }
            let is_full = groups
                .last()
                .is_none_or(|group| group.len() + begins > SYNC_HEADS_SHARED_MAX);
            if artifacts_in_last >= most || is_full {
                if begins == 0 {
                    continue;
                }
                groups.push(BTreeMap::new());
                artifacts_in_last = 0;
            }
            artifacts_in_last += 1;
            let number = groups.len() - 1;
            for user in users {
                if *group_of.entry(user).or_insert(number) == number {
                    groups[number]
                        .entry(user.clone())
                        .or_default()
                        .insert(artifact);
                }
            }
        }
        if !access_only.is_empty() {
            groups.push(access_only);
        }
        groups
    }

    fn start_head_read(
        &mut self,
        community: CommunityId,
        group: BTreeMap<User, BTreeSet<ArtifactId>>,
        effects: &mut Vec<Effect>,
    ) {
        let heads_room = self.heads_room();
        let mut query = HeadQuery {
            bytes_max: self.config.sync.heads_bytes_max,
            ..HeadQuery::default()
        };
        let mut takers = Vec::new();
        for ((conn, sub), artifacts) in group {
            let Some(state) = self.conns.get_mut(&conn) else {
                continue;
            };
            let Some(sync) = state.syncs.get_mut(&sub) else {
                continue;
            };
            let session = &mut sync.session;
            query.artifacts.extend(artifacts.iter().copied());
            query.channels.extend(session.named().iter().copied());
            query.keys.extend(session.reader());
            query.markers.extend(
                artifacts
                    .iter()
                    .filter_map(|artifact| Some((*artifact, session.home_in_copy(*artifact)?))),
            );
            #[cfg(feature = "mutants")]
            if self.config.seeded.is(Mutant::M10) {
                let announced =
                    |artifact: &ArtifactId| Some((*artifact, session.announced(*artifact)?));
                query.pinned.extend(artifacts.iter().filter_map(announced));
            }
            session.read_starts(artifacts.clone());
            let generation = sync.generation;
            let room = if artifacts.is_empty() {
                Room::default()
            } else {
                heads_room
            };
            state.reserve(room);
            takers.push(HeadTaker {
                conn,
                sub,
                generation,
                artifacts,
                room,
            });
        }
        effects.push(Effect::Note(if takers.len() > 1 {
            Note::HeadReadShared
        } else {
            Note::HeadReadStarted
        }));
        let op = self.op(Owner::Heads { takers });
        effects.push(Effect::ReadHeads {
            op,
            community,
            query,
        });
    }

    /// Takes a head read's answer: each sync judges it for itself, and queues what it has to say before anything else is read for
    /// it (AR-SYNC-4f).
    pub(super) fn heads_read(
        &mut self,
        op: OpId,
        rows: Result<HeadRows, ReadFailure>,
        effects: &mut Vec<Effect>,
    ) {
        if let Ok(rows) = &rows {
            self.note_store(rows.store, effects);
        }
        let Some(Owner::Heads { takers }) = self.ops.remove(&op) else {
            effects.push(Effect::Note(Note::LateAnswer));
            return;
        };
        let rows = rows.ok();
        for taker in takers {
            let Some(state) = self.conns.get_mut(&taker.conn) else {
                effects.push(Effect::Note(Note::LateAnswer));
                continue;
            };
            state.release(taker.room);
            let is_same = state
                .syncs
                .get(&taker.sub)
                .is_some_and(|sync| sync.generation == taker.generation);
            if !is_same {
                effects.push(Effect::Note(Note::LateAnswer));
                self.use_room(taker.conn, effects);
                continue;
            }
            self.with_sync(taker.conn, &taker.sub, effects, |session, out| {
                session.heads(&taker.artifacts, rows.as_ref(), out)
            });
            self.use_room(taker.conn, effects);
        }
    }

    /// Something was lost that every sync may have needed (AR-SYNC-5b, AR-SYNC-5h).
    pub(super) fn lose_syncs(&mut self, cause: ResyncCause, effects: &mut Vec<Effect>) {
        let users: Vec<User> = self
            .conns
            .iter()
            .flat_map(|(conn, state)| state.syncs.keys().map(|sub| (*conn, sub.clone())))
            .collect();
        for (conn, sub) in users {
            self.with_sync(conn, &sub, effects, |session, out| session.lost(cause, out));
        }
    }

    /// Compares which database answered with which answered before; a change is a loss for every sync and makes positions
    /// mean something else (S8).
    pub(super) fn note_store(&mut self, store: StoreGeneration, effects: &mut Vec<Effect>) {
        match self.store.replace(store) {
            Some(former) if former != store => {
                effects.push(Effect::Note(Note::StoreChanged));
                for state in self.topics.map.values_mut() {
                    state.forget_positions();
                }
                self.lose_syncs(ResyncCause::Store, effects);
                self.restart_cursor(effects);
            }
            _ => {}
        }
    }

    pub(super) fn sync_register_due(
        &mut self,
        conn: ConnId,
        sub: &SubId,
        generation: Generation,
        effects: &mut Vec<Effect>,
    ) {
        let Some(sync) = self.sync_of(conn, sub, generation) else {
            return;
        };
        sync.snapshot_deadline = None;
        let sync = sync.clone();
        let error = if self.is_interest_active(&sync) {
            SyncError::Busy
        } else {
            SyncError::Bus
        };
        self.with_sync(conn, sub, effects, |session, out| session.fail(error, out));
    }

    pub(super) fn sync_budget_over(
        &mut self,
        conn: ConnId,
        sub: &SubId,
        generation: Generation,
        effects: &mut Vec<Effect>,
    ) {
        if self.sync_of(conn, sub, generation).is_some() {
            self.with_sync(conn, sub, effects, |session, out| {
                session.fail(SyncError::Budget, out)
            });
        }
    }

    fn sync_of(&mut self, conn: ConnId, sub: &SubId, generation: Generation) -> Option<&mut Sync> {
        self.conns
            .get_mut(&conn)
            .and_then(|state| state.syncs.get_mut(sub))
            .filter(|sync| sync.generation == generation)
    }

    /// Lets a session take something, performs what it says, and goes on with what it wants.
    fn with_sync(
        &mut self,
        conn: ConnId,
        sub: &SubId,
        effects: &mut Vec<Effect>,
        act: impl FnOnce(&mut SyncSession, &mut Vec<SyncOutput>),
    ) {
        let Some(sync) = self
            .conns
            .get_mut(&conn)
            .and_then(|state| state.syncs.get_mut(sub))
        else {
            return;
        };
        let mut out = Vec::new();
        let before = sync.session.waiting();
        act(&mut sync.session, &mut out);
        let generation = sync.generation;
        let after = sync.session.waiting();
        let waiting = &mut self.syncs.artifacts_waiting;
        *waiting = (*waiting + after).saturating_sub(before);
        for output in out {
            match output {
                SyncOutput::Event(json) => {
                    let frame = RelayFrame::Event {
                        sub: sub.clone(),
                        json,
                    };
                    self.send(conn, Some(generation), frame, effects);
                }
                SyncOutput::Eose => self.sync_is_live(conn, sub, effects),
                SyncOutput::Restart => self.restart_sync(conn, sub, effects),
                SyncOutput::Closed(ending) => {
                    self.close_sync(conn, sub, ending, effects);
                    return;
                }
            }
        }
        self.move_sync(conn, sub, effects);
    }

    /// Gives up a snapshot that has said nothing yet; the sync registers again.
    fn restart_sync(&mut self, conn: ConnId, sub: &SubId, effects: &mut Vec<Effect>) {
        let room = self.sync_page_room();
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        let Some(sync) = state.syncs.get_mut(sub) else {
            return;
        };
        let generation = sync.generation;
        let op = sync.op.take();
        let was_asked = std::mem::replace(&mut sync.page_in_flight, false);
        let snapshot = sync.snapshot_deadline.take();
        let delivery = sync.delivery_deadline.take();
        if was_asked {
            state.release(room);
        }
        if let Some(op) = op
            && self.ops.remove(&op).is_some()
        {
            effects.push(Effect::EndSync { op });
        }
        self.forget_sync_deadlines(conn, sub, generation, snapshot, delivery);
        let register = Deadline::SyncRegister(conn, sub.clone(), generation);
        let deadline = self.at(REGISTER_DEADLINE_MS, register);
        if let Some(sync) = self.sync_of(conn, sub, generation) {
            sync.snapshot_deadline = Some(deadline);
        }
        effects.push(Effect::Note(Note::SyncRestarted));
    }

    fn sync_is_live(&mut self, conn: ConnId, sub: &SubId, effects: &mut Vec<Effect>) {
        let Some(sync) = self
            .conns
            .get_mut(&conn)
            .and_then(|state| state.syncs.get_mut(sub))
        else {
            return;
        };
        let generation = sync.generation;
        let snapshot = sync.snapshot_deadline.take();
        let delivery = sync.delivery_deadline.take();
        self.forget_sync_deadlines(conn, sub, generation, snapshot, delivery);
        let frame = RelayFrame::Eose { sub: sub.clone() };
        self.send(conn, Some(generation), frame, effects);
        effects.push(Effect::Note(Note::SyncLive));
    }

    /// The last word of a sync. Before a resync its unsent frames are dropped: the client discards the copy anyway. Before an
    /// error they stay, since the client keeps its set.
    fn close_sync(&mut self, conn: ConnId, sub: &SubId, ending: Ending, effects: &mut Vec<Effect>) {
        let Some(sync) = self.take_sync(conn, sub, effects) else {
            return;
        };
        if matches!(ending, Ending::Resync(_)) {
            effects.push(Effect::Purge {
                conn,
                generation: sync.generation,
            });
        }
        effects.push(Effect::Note(Note::SyncEnded(ending)));
        let word = match ending {
            Ending::Resync(ResyncCause::Signals) if self.config.seeded.is(Mutant::MX4) => {
                Ending::Resync(ResyncCause::Access)
            }
            Ending::Resync(ResyncCause::Access) if self.config.seeded.is(Mutant::MX4) => {
                Ending::Resync(ResyncCause::Signals)
            }
            other => other,
        };
        self.send_closed(
            conn,
            sub.clone().into(),
            Some(sync.generation),
            &word.to_string(),
            effects,
        );
    }

    /// Ends a sync silently and drops its unsent frames (CLOSE, the same id again); false when there was none.
    pub(super) fn end_sync(
        &mut self,
        conn: ConnId,
        sub: &SubId,
        effects: &mut Vec<Effect>,
    ) -> bool {
        match self.take_sync(conn, sub, effects) {
            Some(sync) => {
                effects.push(Effect::Purge {
                    conn,
                    generation: sync.generation,
                });
                true
            }
            None => false,
        }
    }

    pub(super) fn end_all_syncs(&mut self, conn: ConnId, effects: &mut Vec<Effect>) {
        let ids: Vec<SubId> = self
            .conns
            .get(&conn)
            .map(|state| state.syncs.keys().cloned().collect())
            .unwrap_or_default();
        for id in ids {
            self.take_sync(conn, &id, effects);
        }
    }

    /// Removes a sync with everything that runs for it (AR-SYNC-8d).
    fn take_sync(&mut self, conn: ConnId, sub: &SubId, effects: &mut Vec<Effect>) -> Option<Sync> {
        let room = self.sync_page_room();
        let state = self.conns.get_mut(&conn)?;
        let sync = state.syncs.remove(sub)?;
        if sync.page_in_flight {
            state.release(room);
        }
        if let Some(op) = sync.op
            && self.ops.remove(&op).is_some()
            && !self.config.seeded.is(Mutant::M42)
        {
            effects.push(Effect::EndSync { op });
        }
        let generation = sync.generation;
        self.syncs.waiting.remove(&(generation, conn, sub.clone()));
        let waiting = &mut self.syncs.artifacts_waiting;
        *waiting = waiting.saturating_sub(sync.session.waiting());
        self.forget_sync_deadlines(
            conn,
            sub,
            generation,
            sync.snapshot_deadline,
            sync.delivery_deadline,
        );
        let user = (conn, sub.clone());
        for topic in &sync.topics {
            self.topics.leave(*topic, &user, effects);
        }
        Some(sync)
    }

    fn forget_sync_deadlines(
        &mut self,
        conn: ConnId,
        sub: &SubId,
        generation: Generation,
        snapshot: Option<u64>,
        delivery: Option<u64>,
    ) {
        if let Some(at) = snapshot {
            let key = |deadline| (at, deadline);
            self.deadlines
                .remove(&key(Deadline::SyncSnapshot(conn, sub.clone(), generation)));
            self.deadlines
                .remove(&key(Deadline::SyncRegister(conn, sub.clone(), generation)));
        }
        if let Some(at) = delivery {
            self.deadlines
                .remove(&(at, Deadline::SyncDelivery(conn, sub.clone(), generation)));
        }
    }
}

/// What a change means to a sync that listens to its channel; none for what no sync can see (H17).
fn meaning_of(signal: &Signal) -> Option<SyncSignal> {
    match signal.change {
        Change::Revision | Change::MoveSource => signal.artifact.map(SyncSignal::Changed),
        Change::Redaction { current: true } => signal.artifact.map(SyncSignal::Retired),
        Change::Membership => Some(SyncSignal::Access(signal.channel?, signal.key)),
        Change::Visibility | Change::ChannelDeleted => {
            Some(SyncSignal::Access(signal.channel?, None))
        }
        Change::Redaction { current: false }
        | Change::Event
        | Change::Withheld
        | Change::Role
        | Change::Metadata
        | Change::Archive
        | Change::Created => None,
    }
}
