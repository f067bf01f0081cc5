//! The publish queue: signals of committed changes, kept until the bus has taken them (B5, AR-SYNC-5k). Nothing is dropped for
//! space; what waits for one topic leaves in one message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::io::{BusMessage, Effect, Note, OpId, Signal, Topic};
use crate::ids::{ChannelId, CommunityId};
use crate::limits::RETRY_DELAY_MS;
use crate::nostr::Event;
use crate::seeded::{Mutant, Seeded};

/// Signals of one topic on their way out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Outgoing {
    /// Not yet sent.
    waiting: BTreeSet<Signal>,
    /// Sent and not yet answered.
    in_flight: Option<(OpId, BTreeSet<Signal>)>,
    /// When a failed publish is tried again, and the delay after the next failure.
    retry: Option<(u64, u64)>,
}

/// The queue of all topics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Publisher {
    topics: BTreeMap<Topic, Outgoing>,
    ops: BTreeMap<OpId, Topic>,
}

/// The topics that a change is announced on: its community, and its channel if it has one.
pub(super) fn topics_of(community: CommunityId, channel: Option<ChannelId>) -> Vec<Topic> {
    let mut topics = vec![Topic::Community(community)];
    topics.extend(channel.map(|channel| Topic::Channel(community, channel)));
    topics
}

impl Publisher {
    /// Queues signals and sends what can go at once.
    pub(super) fn announce(
        &mut self,
        community: CommunityId,
        signals: Vec<Signal>,
        next_op: &mut u64,
        effects: &mut Vec<Effect>,
    ) {
        let mut touched = BTreeSet::new();
        for signal in signals {
            for topic in topics_of(community, signal.channel) {
                self.topics
                    .entry(topic)
                    .or_default()
                    .waiting
                    .insert(signal.clone());
                touched.insert(topic);
            }
        }
        for topic in touched {
            self.send(topic, next_op, effects);
        }
    }

    /// Sends an ephemeral event once per topic; it is not kept if the bus refuses it.
    pub(super) fn announce_ephemeral(
        &mut self,
        community: CommunityId,
        channel: Option<ChannelId>,
        event: Arc<Event>,
        next_op: &mut u64,
        effects: &mut Vec<Effect>,
    ) {
        for topic in topics_of(community, channel) {
            let op = OpId(*next_op);
            *next_op += 1;
            let message = BusMessage::Ephemeral {
                channel,
                event: Arc::clone(&event),
            };
            effects.push(Effect::Publish { op, topic, message });
        }
    }

    fn send(&mut self, topic: Topic, next_op: &mut u64, effects: &mut Vec<Effect>) {
        let Some(outgoing) = self.topics.get_mut(&topic) else {
            return;
        };
        if outgoing.in_flight.is_some()
            || outgoing.retry.is_some_and(|(at, _)| at > 0)
            || outgoing.waiting.is_empty()
        {
            return;
        }
        let op = OpId(*next_op);
        *next_op += 1;
        let batch = std::mem::take(&mut outgoing.waiting);
        let message = BusMessage::Signals(batch.iter().cloned().collect());
        outgoing.in_flight = Some((op, batch));
        self.ops.insert(op, topic);
        effects.push(Effect::Publish { op, topic, message });
    }

    /// Takes a publish's answer; a refused batch waits and is tried again. Returns the time of the retry.
    pub(super) fn answered(
        &mut self,
        op: OpId,
        ok: bool,
        now_ms: u64,
        seeded: Seeded,
        next_op: &mut u64,
        effects: &mut Vec<Effect>,
    ) -> Option<(u64, Topic)> {
        let Some(topic) = self.ops.remove(&op) else {
            // An ephemeral publish has no owner: whether the bus took it changes nothing.
            return None;
        };
        let outgoing = self.topics.get_mut(&topic)?;
        let (_, batch) = outgoing.in_flight.take()?;
        if ok {
            outgoing.retry = None;
            if outgoing.waiting.is_empty() {
                self.topics.remove(&topic);
            } else {
                self.send(topic, next_op, effects);
            }
            return None;
        }
        outgoing.waiting.extend(batch);
        let delay = outgoing.retry.map_or(RETRY_DELAY_MS.0, |(_, delay)| delay);
        if seeded.is(Mutant::M21) && delay >= 4 * RETRY_DELAY_MS.0 {
            self.topics.remove(&topic);
            return None;
        }
        let at = now_ms + delay;
        outgoing.retry = Some((at, (delay * 2).min(RETRY_DELAY_MS.1)));
        effects.push(Effect::Note(Note::PublishRetried));
        Some((at, topic))
    }

    /// The time of a retry has come.
    pub(super) fn retry(&mut self, topic: Topic, next_op: &mut u64, effects: &mut Vec<Effect>) {
        if let Some(outgoing) = self.topics.get_mut(&topic)
            && let Some((at, _)) = &mut outgoing.retry
        {
            *at = 0;
        }
        self.send(topic, next_op, effects);
    }

    /// Nothing waits and nothing is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.topics.is_empty()
    }
}
