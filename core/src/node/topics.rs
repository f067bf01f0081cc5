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
    /// Subscriptions that listen.
    pub(super) users: BTreeSet<User>,
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
    /// Adds a listener.
    pub(super) fn join(&mut self, topic: Topic, user: User, effects: &mut Vec<Effect>) {
        let state = self.map.entry(topic).or_default();
        let first = state.users.is_empty();
        state.users.insert(user);
        if first && self.up.is_some() {
            state.outstanding += 1;
            state.active = false;
            effects.push(Effect::Subscribe { topic });
        }
    }

    /// Removes a listener; the last one gives the topic up.
    pub(super) fn leave(&mut self, topic: Topic, user: &User, effects: &mut Vec<Effect>) {
        let Some(state) = self.map.get_mut(&topic) else {
            return;
        };
        if !state.users.remove(user) || !state.users.is_empty() {
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
        if state.users.is_empty() {
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
            !state.users.is_empty()
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
                .all(|state| state.users.is_empty() || state.active)
    }
}
