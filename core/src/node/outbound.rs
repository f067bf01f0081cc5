//! The frames of one connection that wait for its writer, in the order in which they may leave. A pure value: no lock, no task,
//! no bound of its own, as the node accounts for every byte and frame before it sends one.

use std::collections::{BTreeMap, VecDeque};

use super::io::Generation;
use crate::nostr::RelayFrame;

/// Frames that left a queue or wait in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tally {
    /// Their bytes, as [`RelayFrame::len_bytes`] counts them.
    pub bytes: usize,
    /// Their number.
    pub frames: usize,
}

impl Tally {
    /// Counts one more frame.
    pub fn add(&mut self, frame: &RelayFrame) {
        self.bytes += frame.len_bytes();
        self.frames += 1;
    }

    fn take(&mut self, frame: &RelayFrame) {
        self.bytes -= frame.len_bytes();
        self.frames -= 1;
    }
}

/// The queue of one connection.
///
/// Frames without generation leave first, in their order. The others leave in turns, one frame of each generation that has
/// any, so that a long history does not hold up the other subscriptions; within a generation the order is kept, so an EOSE
/// or CLOSED never overtakes an event of its own subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbound {
    control: VecDeque<RelayFrame>,
    lanes: BTreeMap<Generation, VecDeque<RelayFrame>>,
    /// The generations of `lanes`, each once; the first is next.
    turns: VecDeque<Generation>,
    waiting: Tally,
}

impl Outbound {
    /// Adds a frame behind those of its generation.
    pub fn push(&mut self, generation: Option<Generation>, frame: RelayFrame) {
        self.waiting.add(&frame);
        let Some(generation) = generation else {
            self.control.push_back(frame);
            return;
        };
        let lane = self.lanes.entry(generation).or_default();
        if lane.is_empty() {
            self.turns.push_back(generation);
        }
        lane.push_back(frame);
    }

    /// Takes the frame that leaves next.
    pub fn pop(&mut self) -> Option<RelayFrame> {
        self.pop_with_generation().map(|(_, frame)| frame)
    }

    /// Takes the frame that leaves next, with the generation it belongs to.
    pub fn pop_with_generation(&mut self) -> Option<(Option<Generation>, RelayFrame)> {
        let control = self.control.pop_front().map(|frame| (None, frame));
        let (generation, frame) = control.or_else(|| self.pop_turn())?;
        self.waiting.take(&frame);
        Some((generation, frame))
    }

    /// Drops the frames of a generation and says what they were.
    pub fn purge(&mut self, generation: Generation) -> Tally {
        let mut purged = Tally::default();
        if let Some(lane) = self.lanes.remove(&generation) {
            self.turns.retain(|turn| *turn != generation);
            lane.iter().for_each(|frame| purged.add(frame));
        }
        self.waiting.bytes -= purged.bytes;
        self.waiting.frames -= purged.frames;
        purged
    }

    /// Drops everything but the frames without generation.
    pub fn keep_control(&mut self) {
        self.lanes.clear();
        self.turns.clear();
        self.waiting = Tally::default();
        for frame in &self.control {
            self.waiting.add(frame);
        }
    }

    /// The generations with frames that wait, in order.
    pub fn generations(&self) -> impl Iterator<Item = Generation> + '_ {
        self.lanes.keys().copied()
    }

    /// What waits.
    pub fn waiting(&self) -> Tally {
        self.waiting
    }

    fn pop_turn(&mut self) -> Option<(Option<Generation>, RelayFrame)> {
        let generation = self.turns.pop_front()?;
        let lane = self
            .lanes
            .get_mut(&generation)
            .expect("a turn has a lane: both are made and removed together");
        let frame = lane.pop_front();
        if lane.is_empty() {
            self.lanes.remove(&generation);
        } else {
            self.turns.push_back(generation);
        }
        frame.map(|frame| (Some(generation), frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nostr::SubId;
    use proptest::prelude::*;

    fn notice(text: &str) -> RelayFrame {
        RelayFrame::Notice {
            text: text.to_owned(),
        }
    }

    fn event(sub: &str, json: &str) -> RelayFrame {
        RelayFrame::Event {
            sub: SubId::new(sub).expect("short"),
            json: json.into(),
        }
    }

    fn eose(sub: &str) -> RelayFrame {
        RelayFrame::Eose {
            sub: SubId::new(sub).expect("short"),
        }
    }

    #[test]
    fn control_frames_leave_first_and_generations_take_turns() {
        let mut queue = Outbound::default();
        let (a, b) = (Some(Generation(1)), Some(Generation(2)));
        queue.push(a, event("a", "1"));
        queue.push(a, event("a", "2"));
        queue.push(a, eose("a"));
        queue.push(b, event("b", "3"));
        queue.push(None, notice("n"));
        let order: Vec<RelayFrame> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(
            order,
            [
                notice("n"),
                event("a", "1"),
                event("b", "3"),
                event("a", "2"),
                eose("a")
            ]
        );
        assert_eq!(queue, Outbound::default());
    }

    #[test]
    fn a_purge_drops_one_generation_and_credits_it() {
        let mut queue = Outbound::default();
        queue.push(Some(Generation(1)), event("s", "old"));
        queue.push(Some(Generation(1)), eose("s"));
        queue.push(Some(Generation(2)), event("s", "new"));
        let mut expected = Tally::default();
        expected.add(&event("s", "old"));
        expected.add(&eose("s"));
        assert_eq!(queue.purge(Generation(1)), expected);
        assert_eq!(queue.purge(Generation(1)), Tally::default());
        assert_eq!(queue.pop(), Some(event("s", "new")));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn a_closing_queue_keeps_its_control_frames() {
        let mut queue = Outbound::default();
        queue.push(Some(Generation(1)), event("s", "x"));
        queue.push(None, notice("bye"));
        queue.keep_control();
        assert_eq!(queue.waiting().frames, 1);
        assert_eq!(queue.pop(), Some(notice("bye")));
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.waiting(), Tally::default());
    }

    #[derive(Clone, Debug)]
    enum Op {
        Push(Option<u64>),
        Pop,
        Purge(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => prop::option::of(0u64..4).prop_map(Op::Push),
            3 => Just(Op::Pop),
            1 => (0u64..4).prop_map(Op::Purge),
        ]
    }

    /// The number a test frame carries.
    fn number(frame: &RelayFrame) -> u64 {
        match frame {
            RelayFrame::Event { json, .. } => json.parse().expect("a number"),
            RelayFrame::Notice { text } => text.parse().expect("a number"),
            other => panic!("not made by this test: {other:?}"),
        }
    }

    proptest! {
        /// Against a plain list of what waits: nothing is lost, doubled or reordered within a generation, control frames go
        /// first, purged frames never leave, and a generation with frames is served within one round.
        #[test]
        fn order_credit_and_fairness_hold_for_any_sequence(ops in prop::collection::vec(op(), 0..200)) {
            let mut queue = Outbound::default();
            let mut model: Vec<(Option<u64>, u64)> = Vec::new();
            // Frames that others sent since this generation, which had frames all the while, sent its own.
            let mut passed_over: BTreeMap<u64, usize> = BTreeMap::new();
            for (number_pushed, op) in (0u64..).zip(ops) {
                match op {
                    Op::Push(generation) => {
                        let text = number_pushed.to_string();
                        let frame = if generation.is_some() { event("s", &text) } else { notice(&text) };
                        queue.push(generation.map(Generation), frame);
                        model.push((generation, number_pushed));
                    }
                    Op::Purge(generation) => {
                        let gone: Vec<_> = model.iter().filter(|(of, _)| *of == Some(generation)).copied().collect();
                        model.retain(|(of, _)| *of != Some(generation));
                        passed_over.remove(&generation);
                        prop_assert_eq!(queue.purge(Generation(generation)).frames, gone.len());
                    }
                    Op::Pop => {
                        let Some(frame) = queue.pop() else {
                            prop_assert!(model.is_empty());
                            continue;
                        };
                        let at = model.iter().position(|(_, pushed)| *pushed == number(&frame)).expect("was waiting");
                        let (of, _) = model[at];
                        prop_assert!(!model[..at].iter().any(|(other, _)| *other == of), "order within {:?}", of);
                        prop_assert!(of.is_none() || !model.iter().any(|(other, _)| other.is_none()));
                        model.remove(at);
                        if let Some(of) = of {
                            passed_over.insert(of, 0);
                            for other in 0..4u64 {
                                let waits = model.iter().any(|(generation, _)| *generation == Some(other));
                                if !waits {
                                    passed_over.remove(&other);
                                } else if other != of {
                                    let count = passed_over.entry(other).or_default();
                                    *count += 1;
                                    prop_assert!(*count <= 4, "generation {} starves", other);
                                }
                            }
                        }
                    }
                }
                prop_assert_eq!(queue.waiting().frames, model.len());
                prop_assert_eq!(queue.waiting() == Tally::default(), queue == Outbound::default());
            }
        }
    }
}
