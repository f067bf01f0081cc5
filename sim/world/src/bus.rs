//! The simulated bus: a server with topics, and one numbered subscriber connection per process. It keeps the bus contract and
//! is as bad as the contract allows:
//!
//! - B1: messages may be doubled, reordered and delayed; that one is lost without any report is a fault of its own, since only
//!   the sweep finds what it announced;
//! - B2: SUBSCRIBE takes effect at the server in one step and its confirmation reaches the process in a later one;
//! - B3: every loss on a subscriber connection is reported as `BusDown`, at once or by the beacon, before any later message;
//! - B4: a half-open connection delivers nothing until the beacon's deadline, then it is reported;
//! - B5: a publish that the server did not take is answered `false`.
//!
//! It may consist of several servers: a message reaches the subscribers of the publisher's server at once and those of another
//! server in a later step. Connections for publishing and for subscribing are different ones, as in a real process.
//!
//! What belongs here: connections, topics, messages under way. What must not: time and chance of its own, meaning of messages.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use holdfast_core::node::{BusGeneration, BusMessage, Effect, Input, OpId, Topic};

/// A process as the bus names it.
pub type Peer = u32;

/// How the bus is set.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BusConfig {
    /// Messages in the server's buffer of one subscriber; one more breaks its connection.
    pub buffer_max: usize,
    /// The deliberately broken line, if any.
    pub variant: Variant,
}

/// A broken line of the bus contract, for testing the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BusVariant {
    /// B2: a subscription is confirmed before it takes effect.
    ConfirmsBeforeEffect,
    /// B3 (M17): the client library reconnects and subscribes again by itself, and says nothing.
    ReconnectsSilently,
    /// B3 (M18): a lag or an undecodable message is not reported.
    LagUnreported,
    /// B2: a new connection has the number of the old one.
    GenerationNotRaised,
    /// B5: a publish that was dropped is acknowledged.
    DroppedPublishAcknowledged,
    /// B4: a half-open connection is never found.
    HalfOpenNeverFound,
}

impl BusVariant {
    /// All of them.
    pub const ALL: [BusVariant; 6] = [
        BusVariant::ConfirmsBeforeEffect,
        BusVariant::ReconnectsSilently,
        BusVariant::LagUnreported,
        BusVariant::GenerationNotRaised,
        BusVariant::DroppedPublishAcknowledged,
        BusVariant::HalfOpenNeverFound,
    ];
}

/// Which line is broken, if any. Without the feature `mutants` it is empty and every question about it is answered no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variant {
    #[cfg(feature = "mutants")]
    broken: Option<BusVariant>,
}

impl Variant {
    /// Breaks one line.
    #[cfg(feature = "mutants")]
    pub fn broken(line: BusVariant) -> Variant {
        Variant { broken: Some(line) }
    }

    /// Whether this line is the broken one.
    #[cfg(feature = "mutants")]
    pub fn is(self, line: BusVariant) -> bool {
        self.broken == Some(line)
    }

    /// Whether this line is the broken one; never, in this build.
    #[cfg(not(feature = "mutants"))]
    #[inline(always)]
    pub fn is(self, _line: BusVariant) -> bool {
        false
    }
}

/// A step that can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BusStep {
    /// The process learns that its connection is gone.
    Report(Peer),
    /// The process connects.
    Connect(Peer),
    /// The server takes the next SUBSCRIBE or UNSUBSCRIBE of a connection.
    Request(Peer),
    /// The server of this subscriber takes the next message that another server forwards.
    Forward(Peer),
    /// The process takes the next thing out of its connection.
    Deliver(Peer),
    /// The server takes the next publish of a process.
    Publish(Peer),
    /// The process learns what became of a publish.
    Acknowledge(Peer),
}

impl BusStep {
    /// The process concerned.
    pub fn peer(self) -> Peer {
        match self {
            BusStep::Report(peer)
            | BusStep::Connect(peer)
            | BusStep::Request(peer)
            | BusStep::Forward(peer)
            | BusStep::Deliver(peer)
            | BusStep::Publish(peer)
            | BusStep::Acknowledge(peer) => peer,
        }
    }
}

/// What strikes at a step; at any other step, or where there is nothing to strike, a fault has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BusFault {
    /// `Deliver`: the message is lost inside the process, which knows it (local lag).
    Lag,
    /// `Deliver`: the message cannot be decoded.
    Undecodable,
    /// `Deliver`: the message comes once more later.
    Duplicate,
    /// `Deliver`: the next message overtakes it.
    Reorder,
    /// `Publish`: the server does not take it.
    PublishRefused,
    /// `Publish`: the server takes it and the answer is lost.
    PublishAnswerLost,
    /// `Publish`: it never reaches this one subscriber, and nobody is told; only the sweep finds what it announced.
    LostForOne(Peer),
    /// `Publish`: a server that nobody listens to takes it, as a stale one after a failover; only the sweep finds it.
    LostForAll,
    /// `Request`: the server refuses, and the connection is given up.
    RequestRefused,
}

/// What a step brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BusOutcome {
    /// For the node of the step's process, in this order.
    pub inputs: Vec<Input>,
    /// Losses that happened, as an honest adapter reports them, whoever is told.
    pub losses: Vec<(Peer, Loss)>,
    /// A message that a server took: its topic and itself.
    pub taken: Option<(Topic, BusMessage)>,
    /// Subscribers of its topic that will never get the message that was taken, and are not told.
    pub silently_lost: Vec<Peer>,
    /// The fault had an effect.
    pub has_struck: bool,
}

/// A loss of a subscriber connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// The connection is down.
    Down,
    /// A new connection with this number.
    Up(BusGeneration),
    /// The process lost a message.
    Lag,
    /// A message could not be decoded.
    Undecodable,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Delivery {
    Active(Topic),
    Message(Topic, BusMessage),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Subscribe(Topic),
    Unsubscribe(Topic),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum State {
    /// No connection; the process knows it.
    #[default]
    Down,
    Up,
    /// Looks like a connection and delivers nothing; found at this time.
    HalfOpen {
        found_at_ms: u64,
    },
    /// Gone; the process has not learnt it yet.
    Broken,
}

/// The side of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Side {
    /// The server of both its connections.
    server: u32,
    state: State,
    generation: BusGeneration,
    /// Requests on their way to the server.
    requests: VecDeque<Request>,
    /// What the server serves this connection.
    subscribed: BTreeSet<Topic>,
    /// Messages on their way from other servers; they are the servers', so they outlast a connection.
    forwarded: VecDeque<(Topic, BusMessage)>,
    /// On its way from the server, confirmations and messages in one order.
    buffer: VecDeque<Delivery>,
    publishes: VecDeque<(OpId, Topic, BusMessage)>,
    answers: VecDeque<(OpId, bool)>,
}

/// The bus.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bus {
    config: BusConfig,
    sides: BTreeMap<Peer, Side>,
}

impl Bus {
    /// A bus that nobody uses.
    pub fn new(config: BusConfig) -> Bus {
        Bus {
            config,
            sides: BTreeMap::new(),
        }
    }

    /// A process starts: it will connect to the first server.
    pub fn start(&mut self, peer: Peer) {
        self.start_on(peer, 0);
    }

    /// A process starts: it will connect to this server.
    pub fn start_on(&mut self, peer: Peer, server: u32) {
        let side = Side {
            server,
            ..Side::default()
        };
        self.sides.insert(peer, side);
    }

    /// A process is gone with everything under way to and from it. What it had published is published.
    pub fn crash(&mut self, peer: Peer) {
        self.sides.remove(&peer);
    }

    /// Performs an effect of a process; other effects are not the bus's. A request without a connection is lost: the next
    /// `BusUp` asks again.
    pub fn perform(&mut self, peer: Peer, effect: &Effect) {
        let confirms_early = self.config.variant.is(BusVariant::ConfirmsBeforeEffect);
        let Some(side) = self.sides.get_mut(&peer) else {
            return;
        };
        let is_down = side.state == State::Down;
        match effect {
            Effect::Subscribe { .. } | Effect::Unsubscribe { .. } if is_down => {}
            Effect::Subscribe { topic } => {
                if confirms_early && side.state == State::Up {
                    side.buffer.push_back(Delivery::Active(*topic));
                }
                side.requests.push_back(Request::Subscribe(*topic));
            }
            Effect::Unsubscribe { topic } => {
                side.requests.push_back(Request::Unsubscribe(*topic));
            }
            Effect::Publish { op, topic, message } => {
                side.publishes.push_back((*op, *topic, message.clone()));
            }
            _ => {}
        }
    }

    /// Breaks a connection. The process learns it by a step of its own; until then nothing is delivered. False if there was no
    /// connection to break.
    pub fn disconnect(&mut self, peer: Peer) -> bool {
        match self.sides.get_mut(&peer) {
            Some(side) if side.state == State::Up => {
                side.break_off();
                true
            }
            _ => false,
        }
    }

    /// Makes a connection half-open: it delivers nothing and is found by the beacon at this time. False if there was no connection.
    pub fn half_open(&mut self, peer: Peer, found_at_ms: u64) -> bool {
        match self.sides.get_mut(&peer) {
            Some(side) if side.state == State::Up => {
                side.break_off();
                side.state = State::HalfOpen { found_at_ms };
                true
            }
            _ => false,
        }
    }

    /// Every step that can be taken, in the order of the processes.
    pub fn runnable(&self, now_ms: u64) -> Vec<BusStep> {
        let is_found = |at: u64| at <= now_ms && self.finds_half_open();
        let mut steps = Vec::new();
        for (peer, side) in &self.sides {
            match side.state {
                State::Down => steps.push(BusStep::Connect(*peer)),
                State::Broken => steps.push(BusStep::Report(*peer)),
                State::HalfOpen { found_at_ms } if is_found(found_at_ms) => {
                    steps.push(BusStep::Report(*peer));
                }
                State::HalfOpen { .. } => {}
                State::Up => {
                    if !side.requests.is_empty() {
                        steps.push(BusStep::Request(*peer));
                    }
                    if !side.buffer.is_empty() {
                        steps.push(BusStep::Deliver(*peer));
                    }
                }
            }
            if !side.forwarded.is_empty() {
                steps.push(BusStep::Forward(*peer));
            }
            if !side.publishes.is_empty() {
                steps.push(BusStep::Publish(*peer));
            }
            if !side.answers.is_empty() {
                steps.push(BusStep::Acknowledge(*peer));
            }
        }
        steps
    }

    /// The earliest time at which the beacon finds something.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.sides
            .values()
            .filter_map(|side| match side.state {
                State::HalfOpen { found_at_ms } if self.finds_half_open() => Some(found_at_ms),
                _ => None,
            })
            .min()
    }

    /// Nothing is under way and every connection is up, or looks so for ever.
    pub fn is_quiet(&self) -> bool {
        self.sides.values().all(|side| {
            let is_settled = match side.state {
                State::Up => side.requests.is_empty() && side.buffer.is_empty(),
                State::HalfOpen { .. } => !self.finds_half_open(),
                State::Down | State::Broken => false,
            };
            is_settled
                && side.forwarded.is_empty()
                && side.publishes.is_empty()
                && side.answers.is_empty()
        })
    }

    fn finds_half_open(&self) -> bool {
        !self.config.variant.is(BusVariant::HalfOpenNeverFound)
    }

    /// Publishes of a process that the server has not taken.
    pub fn unpublished(&self, peer: Peer) -> usize {
        self.sides.get(&peer).map_or(0, |side| side.publishes.len())
    }

    /// Takes a step, with a fault that may strike there.
    pub fn step(&mut self, step: BusStep, fault: Option<BusFault>) -> BusOutcome {
        match step {
            BusStep::Report(peer) => self.report(peer),
            BusStep::Connect(peer) => self.connect(peer),
            BusStep::Request(peer) => self.request(peer, fault),
            BusStep::Forward(peer) => self.forward(peer),
            BusStep::Deliver(peer) => self.deliver(peer, fault),
            BusStep::Publish(peer) => self.publish(peer, fault),
            BusStep::Acknowledge(peer) => self.acknowledge(peer),
        }
    }

    fn report(&mut self, peer: Peer) -> BusOutcome {
        let is_silent = self.config.variant.is(BusVariant::ReconnectsSilently);
        let mut outcome = BusOutcome::default();
        let Some(side) = self.sides.get_mut(&peer) else {
            return outcome;
        };
        outcome.losses.push((peer, Loss::Down));
        if is_silent {
            // It subscribes to everything again; what was published meanwhile is gone.
            side.state = State::Up;
            outcome.losses.push((peer, Loss::Up(side.generation)));
        } else {
            side.give_up();
            outcome.inputs.push(Input::BusDown);
        }
        outcome
    }

    fn connect(&mut self, peer: Peer) -> BusOutcome {
        let keeps_number = self.config.variant.is(BusVariant::GenerationNotRaised);
        let mut outcome = BusOutcome::default();
        let Some(side) = self.sides.get_mut(&peer) else {
            return outcome;
        };
        if !keeps_number || side.generation == BusGeneration(0) {
            side.generation.0 += 1;
        }
        side.state = State::Up;
        let generation = side.generation;
        outcome.losses.push((peer, Loss::Up(generation)));
        outcome.inputs.push(Input::BusUp { generation });
        outcome
    }

    fn request(&mut self, peer: Peer, fault: Option<BusFault>) -> BusOutcome {
        let confirms_early = self.config.variant.is(BusVariant::ConfirmsBeforeEffect);
        let mut outcome = BusOutcome::default();
        let Some(side) = self.sides.get_mut(&peer) else {
            return outcome;
        };
        let Some(request) = side.requests.pop_front() else {
            return outcome;
        };
        if fault == Some(BusFault::RequestRefused) {
            side.break_off();
            outcome.has_struck = true;
            return outcome;
        }
        match request {
            Request::Subscribe(topic) => {
                side.subscribed.insert(topic);
                if !confirms_early {
                    side.buffer.push_back(Delivery::Active(topic));
                }
            }
            Request::Unsubscribe(topic) => {
                side.subscribed.remove(&topic);
            }
        }
        outcome
    }

    fn deliver(&mut self, peer: Peer, fault: Option<BusFault>) -> BusOutcome {
        let hides_lag = self.config.variant.is(BusVariant::LagUnreported);
        let mut outcome = BusOutcome::default();
        let Some(side) = self.sides.get_mut(&peer) else {
            return outcome;
        };
        let generation = side.generation;
        if fault == Some(BusFault::Reorder) && side.buffer.len() > 1 {
            side.buffer.swap(0, 1);
            outcome.has_struck = true;
        }
        let Some(delivery) = side.buffer.pop_front() else {
            return outcome;
        };
        let (topic, message) = match delivery {
            Delivery::Active(topic) => {
                outcome
                    .inputs
                    .push(Input::TopicActive { topic, generation });
                return outcome;
            }
            Delivery::Message(topic, message) => (topic, message),
        };
        let lost = match fault {
            Some(BusFault::Lag) => Some(Loss::Lag),
            Some(BusFault::Undecodable) => Some(Loss::Undecodable),
            _ => None,
        };
        if let Some(loss) = lost {
            outcome.has_struck = true;
            outcome.losses.push((peer, loss));
            if !hides_lag {
                // The process knows it: it gives the connection up, so that every topic is confirmed anew.
                side.break_off();
                side.give_up();
                outcome.losses.push((peer, Loss::Down));
                outcome.inputs.push(Input::BusDown);
            }
            return outcome;
        }
        if fault == Some(BusFault::Duplicate) {
            outcome.has_struck = true;
            side.buffer
                .push_back(Delivery::Message(topic, message.clone()));
        }
        outcome.inputs.push(Input::BusMessage { topic, message });
        outcome
    }

    fn publish(&mut self, peer: Peer, fault: Option<BusFault>) -> BusOutcome {
        let lies = self
            .config
            .variant
            .is(BusVariant::DroppedPublishAcknowledged);
        let mut outcome = BusOutcome::default();
        let Some(side) = self.sides.get_mut(&peer) else {
            return outcome;
        };
        let Some((op, topic, message)) = side.publishes.pop_front() else {
            return outcome;
        };
        if fault == Some(BusFault::PublishRefused) {
            side.answers.push_back((op, lies));
            outcome.has_struck = true;
            return outcome;
        }
        let is_answer_lost = fault == Some(BusFault::PublishAnswerLost);
        outcome.has_struck = is_answer_lost;
        side.answers.push_back((op, !is_answer_lost));
        let (server, buffer_max) = (side.server, self.config.buffer_max);
        for (subscriber, side) in &mut self.sides {
            let is_lost = match fault {
                Some(BusFault::LostForOne(unlucky)) => unlucky == *subscriber,
                Some(BusFault::LostForAll) => true,
                _ => false,
            };
            if is_lost {
                if side.listens_to(&topic) {
                    outcome.silently_lost.push(*subscriber);
                }
            } else if side.server == server {
                side.take(topic, message.clone(), buffer_max);
            } else {
                side.forwarded.push_back((topic, message.clone()));
            }
        }
        outcome.has_struck |= !outcome.silently_lost.is_empty();
        outcome.taken = Some((topic, message));
        outcome
    }

    fn forward(&mut self, peer: Peer) -> BusOutcome {
        let buffer_max = self.config.buffer_max;
        if let Some(side) = self.sides.get_mut(&peer)
            && let Some((topic, message)) = side.forwarded.pop_front()
        {
            side.take(topic, message, buffer_max);
        }
        BusOutcome::default()
    }

    fn acknowledge(&mut self, peer: Peer) -> BusOutcome {
        let mut outcome = BusOutcome::default();
        let answer = self
            .sides
            .get_mut(&peer)
            .and_then(|side| side.answers.pop_front());
        if let Some((op, ok)) = answer {
            outcome.inputs.push(Input::Published { op, ok });
        }
        outcome
    }
}

impl Side {
    /// The server serves it this topic on a connection that works.
    fn listens_to(&self, topic: &Topic) -> bool {
        self.state == State::Up && self.subscribed.contains(topic)
    }

    /// The server has a message for it; one too many in its buffer breaks the connection.
    fn take(&mut self, topic: Topic, message: BusMessage, buffer_max: usize) {
        if self.listens_to(&topic) {
            self.buffer.push_back(Delivery::Message(topic, message));
            if self.buffer.len() > buffer_max {
                self.break_off();
            }
        }
    }

    /// The connection is gone with all that was on its way to the process. Requests under way are lost with it, which shows when
    /// the process learns of it.
    fn break_off(&mut self) {
        self.state = State::Broken;
        self.buffer.clear();
    }

    /// The process knows that the connection is gone.
    fn give_up(&mut self) {
        self.state = State::Down;
        self.subscribed.clear();
        self.requests.clear();
    }
}
