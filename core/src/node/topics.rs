//! The topic registry: who listens to what, and whether the bus has confirmed it on the connection that is up now (B2).
//!
//! A topic that is being left is never reported active; interest that arrives meanwhile subscribes anew and waits for the
//! confirmation of that later request.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::io::{BusGeneration, ConnId, Effect, OpId, Topic};
use crate::ids::{ChannelId, Position};
use crate::limits::RECENT_POSITIONS_MAX;
use crate::nostr::{Event, SubId};

/// A subscription as the registry names it.
pub(super) type User = (ConnId, SubId);

/// One topic of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TopicState {
    /// Ordinary subscriptions that listen.
    pub(super) users: BTreeSet<User>,
    /// Syncs that listen.
    pub(super) syncs: BTreeSet<User>,
    /// Requests of the current bus connection that are not yet confirmed.
    outstanding: u32,
    /// The newest request of the current bus connection is confirmed.
    active: bool,
    /// Positions to read next.
    pub(super) pending: BTreeSet<Position>,
    /// Ephemeral events to deliver with the next access read.
    pub(super) ephemeral: VecDeque<(Option<ChannelId>, Arc<Event>)>,
    /// An access change was signalled: named channels are judged again with the next read.
    pub(super) access: bool,
    /// The read in flight.
    pub(super) read: Option<LiveRead>,
    /// When reads began to fail.
    pub(super) failing_since_ms: Option<u64>,
    /// Positions dealt with lately, to recognise repeats.
    recent: BTreeSet<Position>,
    /// Positions lately told to the syncs.
    told: BTreeSet<Position>,
}

/// What a read in flight will settle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LiveRead {
    pub(super) op: OpId,
    pub(super) positions: BTreeSet<Position>,
    pub(super) ephemeral: Vec<(Option<ChannelId>, Arc<Event>)>,
    pub(super) access: bool,
}

impl TopicState {
    /// Something waits for a read.
    pub(super) fn has_work(&self) -> bool {
        !self.pending.is_empty() || !self.ephemeral.is_empty() || self.access
    }

    /// Takes a position; false when it is being dealt with or was lately.
    pub(super) fn note_position(&mut self, position: Position) -> bool {
        if self.recent.contains(&position)
            || self
                .read
                .as_ref()
                .is_some_and(|read| read.positions.contains(&position))
        {
            return false;
        }
        self.pending.insert(position)
    }

    /// Takes a position for the syncs; false when they were told lately.
    pub(super) fn tell(&mut self, position: Position) -> bool {
        if !self.told.insert(position) {
            return false;
        }
        while self.told.len() > RECENT_POSITIONS_MAX {
            self.told.pop_first();
        }
        true
    }

    /// Forgets which positions were seen: another database gives them out again.
    pub(super) fn forget_positions(&mut self) {
        self.recent.clear();
        self.told.clear();
    }

    /// Anybody listens.
    pub(super) fn is_wanted(&self) -> bool {
        !self.users.is_empty() || !self.syncs.is_empty()
    }

    /// Remembers positions as dealt with.
    pub(super) fn settle(&mut self, positions: impl Iterator<Item = Position>) {
        self.recent.extend(positions);
        while self.recent.len() > RECENT_POSITIONS_MAX {
            self.recent.pop_first();
        }
    }
}

/// All topics of this process and the bus connection they live on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Topics {
    pub(super) map: BTreeMap<Topic, TopicState>,
    pub(super) up: Option<BusGeneration>,
}

impl Topics {
    /// Adds an ordinary subscription.
    pub(super) fn join(&mut self, topic: Topic, user: User, effects: &mut Vec<Effect>) {
        self.want(topic, effects).users.insert(user);
    }

    /// Adds a sync.
    pub(super) fn join_sync(&mut self, topic: Topic, user: User, effects: &mut Vec<Effect>) {
        self.want(topic, effects).syncs.insert(user);
    }

    /// The state of a topic that gets a listener; the first one asks the bus for it.
    fn want(&mut self, topic: Topic, effects: &mut Vec<Effect>) -> &mut TopicState {
        let is_up = self.up.is_some();
        let state = self.map.entry(topic).or_default();
        if !state.is_wanted() && is_up {
            state.outstanding += 1;
            state.active = false;
            effects.push(Effect::Subscribe { topic });
        }
        state
    }

    /// Removes a listener of either sort; the last one gives the topic up.
    pub(super) fn leave(&mut self, topic: Topic, user: &User, effects: &mut Vec<Effect>) {
        let Some(state) = self.map.get_mut(&topic) else {
            return;
        };
        let was_there = state.users.remove(user) | state.syncs.remove(user);
        if !was_there || state.is_wanted() {
            return;
        }
        let outstanding = state.outstanding;
        *state = TopicState {
            outstanding,
            ..TopicState::default()
        };
        if self.up.is_some() {
            effects.push(Effect::Unsubscribe { topic });
        }
        if outstanding == 0 {
            self.map.remove(&topic);
        }
    }

    /// Whether the topic is confirmed on the bus connection that is up now.
    pub(super) fn is_active(&self, topic: &Topic) -> bool {
        self.up.is_some() && self.map.get(topic).is_some_and(|state| state.active)
    }

    /// Takes a confirmation; true when the topic became active by it.
    pub(super) fn confirm(&mut self, topic: Topic, generation: BusGeneration) -> bool {
        if self.up != Some(generation) {
            return false;
        }
        let Some(state) = self.map.get_mut(&topic) else {
            return false;
        };
        if state.outstanding == 0 {
            return false;
        }
        state.outstanding -= 1;
        if state.outstanding > 0 {
            return false;
        }
        if !state.is_wanted() {
            self.map.remove(&topic);
            return false;
        }
        state.active = true;
        true
    }

    /// The bus connection is gone: nothing is confirmed any more.
    pub(super) fn down(&mut self) {
        self.up = None;
        self.map.retain(|_, state| {
            state.outstanding = 0;
            state.active = false;
            state.is_wanted()
        });
    }

    /// A new bus connection: every wanted topic is asked for again.
    pub(super) fn bus_up(&mut self, generation: BusGeneration, effects: &mut Vec<Effect>) {
        self.down();
        self.up = Some(generation);
        for (topic, state) in &mut self.map {
            state.outstanding = 1;
            effects.push(Effect::Subscribe { topic: *topic });
        }
    }

    /// Whether every topic with listeners is confirmed.
    pub(super) fn all_active(&self) -> bool {
        self.up.is_some()
            && self
                .map
                .values()
                .all(|state| !state.is_wanted() || state.active)
    }
}
