//! The bus contract against random schedules and faults. An observer knows what processes asked for and heard, and what the
//! servers took; it says which line of the contract is broken. Every wrong variant must be caught by its own line.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::accept::Change;
use holdfast_core::ids::{ChannelId, CommunityId, Position, Uuid};
use holdfast_core::node::Signal;
use proptest::prelude::*;

use super::*;

/// A line of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    B1,
    B2,
    B3,
    B4,
    B5,
}

type Broken = (Line, String);

fn topic(number: u8) -> Topic {
    let id = |byte| Uuid::from_bytes([byte; 16]).expect("not nil");
    Topic::Channel(CommunityId(id(1)), ChannelId(id(number)))
}

fn message(number: u64) -> BusMessage {
    BusMessage::Signals(vec![Signal {
        position: Position(number),
        xid: 0,
        change: Change::Event,
        channel: None,
        artifact: None,
        key: None,
    }])
}

fn number(message: &BusMessage) -> u64 {
    match message {
        BusMessage::Signals(signals) => signals[0].position.0,
        BusMessage::Ephemeral { .. } => panic!("not made by this test"),
    }
}

fn subscribe(bus: &mut Bus, peer: Peer, number: u8) {
    let topic = topic(number);
    bus.perform(peer, &Effect::Subscribe { topic });
}

fn unsubscribe(bus: &mut Bus, peer: Peer, number: u8) {
    let topic = topic(number);
    bus.perform(peer, &Effect::Unsubscribe { topic });
}

fn publish(bus: &mut Bus, peer: Peer, number: u8, position: u64) {
    let effect = Effect::Publish {
        op: OpId(position),
        topic: topic(number),
        message: message(position),
    };
    bus.perform(peer, &effect);
}

fn config(buffer_max: usize) -> BusConfig {
    BusConfig {
        buffer_max,
        variant: Variant::default(),
    }
}

/// What one process relies on for one topic.
#[derive(Debug, Default)]
struct Interest {
    /// SUBSCRIBEs of this connection without confirmation.
    outstanding: u32,
    is_wanted: bool,
    is_active: bool,
    /// Taken while it was active, and neither delivered nor excused by a reported loss.
    missing: BTreeSet<u64>,
}

/// What one process asked for and heard.
#[derive(Debug, Default)]
struct View {
    up: Option<BusGeneration>,
    last: BusGeneration,
    interests: BTreeMap<Topic, Interest>,
    /// A loss happened and was not reported.
    loss_due: Option<Line>,
    /// The newest loss of this connection, reported or not.
    lost: Option<Line>,
}

#[derive(Default)]
struct Observer {
    views: BTreeMap<Peer, View>,
    taken: BTreeMap<u64, Topic>,
    published: BTreeMap<OpId, u64>,
    answers: BTreeMap<OpId, bool>,
}

impl Observer {
    fn view(&mut self, peer: Peer) -> &mut View {
        self.views.entry(peer).or_default()
    }

    fn asked(&mut self, peer: Peer, topic: Topic) {
        let view = self.view(peer);
        let interest = view.interests.entry(topic).or_default();
        interest.is_wanted = true;
        interest.is_active = false;
        interest.outstanding += u32::from(view.up.is_some());
    }

    fn left(&mut self, peer: Peer, topic: Topic) {
        let interest = self.view(peer).interests.entry(topic).or_default();
        interest.is_wanted = false;
        interest.is_active = false;
        interest.missing.clear();
    }

    fn lost(&mut self, peer: Peer, line: Line) {
        let view = self.view(peer);
        view.loss_due = Some(line);
        view.lost = Some(line);
    }

    /// What a step brought.
    fn saw(&mut self, peer: Peer, outcome: &BusOutcome) -> Result<(), Broken> {
        if let Some((topic, message)) = &outcome.taken {
            let number = number(message);
            self.taken.insert(number, *topic);
            for view in self.views.values_mut() {
                if let Some(interest) = view.interests.get_mut(topic).filter(|i| i.is_active) {
                    interest.missing.insert(number);
                }
            }
        }
        for (loser, loss) in &outcome.losses {
            match loss {
                Loss::Lag | Loss::Undecodable => self.lost(*loser, Line::B3),
                Loss::Down => {
                    self.view(*loser).lost.get_or_insert(Line::B3);
                }
                Loss::Up(_) => {}
            }
        }
        outcome
            .inputs
            .iter()
            .try_for_each(|input| self.heard(peer, input))
    }

    fn heard(&mut self, peer: Peer, input: &Input) -> Result<(), Broken> {
        if let Input::Published { op, ok } = input {
            if self.answers.insert(*op, *ok).is_some() {
                return Err((Line::B5, format!("two answers for {op:?}")));
            }
            let is_taken = self.taken.contains_key(&self.published[op]);
            if *ok && !is_taken {
                return Err((Line::B5, format!("{op:?} acknowledged and not taken")));
            }
            return Ok(());
        }
        let taken = self.taken.clone();
        let view = self.view(peer);
        if let Some(line) = view.loss_due
            && *input != Input::BusDown
        {
            return Err((line, format!("{input:?} before the report of a loss")));
        }
        match input {
            Input::BusUp { generation } => {
                if view.up.is_some() || *generation <= view.last {
                    return Err((Line::B2, format!("{generation:?} after {:?}", view.last)));
                }
                (view.up, view.last) = (Some(*generation), *generation);
                view.lost = None;
            }
            Input::BusDown => {
                (view.up, view.loss_due) = (None, None);
                for interest in view.interests.values_mut() {
                    (interest.outstanding, interest.is_active) = (0, false);
                    interest.missing.clear();
                }
            }
            Input::TopicActive { topic, generation } => {
                let Some(interest) = view.interests.get_mut(topic) else {
                    return Err((Line::B2, "nobody asked".to_owned()));
                };
                if view.up != Some(*generation) || interest.outstanding == 0 {
                    return Err((Line::B2, format!("{topic:?} confirmed on {generation:?}")));
                }
                interest.outstanding -= 1;
                interest.is_active = interest.outstanding == 0 && interest.is_wanted;
            }
            Input::BusMessage { topic, message } => {
                let number = number(message);
                if taken.get(&number) != Some(topic) || view.up.is_none() {
                    return Err((Line::B1, format!("{number} from nowhere")));
                }
                if let Some(interest) = view.interests.get_mut(topic) {
                    interest.missing.remove(&number);
                }
            }
            other => panic!("not of the bus: {other:?}"),
        }
        Ok(())
    }

    /// Nothing is under way: whatever is missing now will never come.
    fn at_rest(&self) -> Result<(), Broken> {
        for (peer, view) in &self.views {
            if let Some(line) = view.loss_due {
                return Err((line, format!("a loss of {peer} is never reported")));
            }
            for (topic, interest) in &view.interests {
                if let Some(missed) = interest.missing.first() {
                    let line = view.lost.unwrap_or(Line::B2);
                    return Err((line, format!("{peer} never got {missed} of {topic:?}")));
                }
            }
        }
        match self
            .published
            .keys()
            .find(|op| !self.answers.contains_key(op))
        {
            Some(op) => Err((Line::B5, format!("{op:?} is never answered"))),
            None => Ok(()),
        }
    }
}

const PEERS: u32 = 3;
const BEACON_MS: u64 = 3_000;

/// A run: a script of small numbers chooses what happens; then everything under way is brought to its end.
fn run(config: BusConfig, script: &[(u8, u8)]) -> Result<Observer, Broken> {
    let mut bus = Bus::new(config);
    let mut observer = Observer::default();
    let mut now_ms = 0;
    for peer in 0..PEERS {
        bus.start_on(peer, peer % 2);
        observer.view(peer);
    }
    for (serial, (what, which)) in (1u64..).zip(script) {
        let peer = u32::from(*which) % PEERS;
        let about = 2 + *which / 16 % 2;
        match what % 16 {
            0 => {
                subscribe(&mut bus, peer, about);
                observer.asked(peer, topic(about));
            }
            1 => {
                unsubscribe(&mut bus, peer, about);
                observer.left(peer, topic(about));
            }
            2..=4 => {
                publish(&mut bus, peer, about, serial);
                observer.published.insert(OpId(serial), serial);
            }
            5 if which % 4 == 0 && bus.disconnect(peer) => observer.lost(peer, Line::B3),
            6 if which % 4 == 0 && bus.half_open(peer, now_ms + BEACON_MS) => {
                observer.lost(peer, Line::B4);
            }
            7 => now_ms += 1_000,
            _ => take_step(&mut bus, &mut observer, now_ms, *what, *which)?,
        }
    }
    loop {
        while !bus.runnable(now_ms).is_empty() {
            take_step(&mut bus, &mut observer, now_ms, 0, 0)?;
        }
        match bus.next_deadline_ms() {
            Some(deadline) => now_ms = deadline,
            None => break,
        }
    }
    assert!(bus.is_quiet(), "nothing can be done, yet it is not quiet");
    observer.at_rest()?;
    Ok(observer)
}

fn take_step(
    bus: &mut Bus,
    observer: &mut Observer,
    now_ms: u64,
    what: u8,
    which: u8,
) -> Result<(), Broken> {
    let steps = bus.runnable(now_ms);
    if steps.is_empty() {
        return Ok(());
    }
    let step = steps[usize::from(which) % steps.len()];
    let faults = [
        BusFault::Lag,
        BusFault::Undecodable,
        BusFault::Duplicate,
        BusFault::Reorder,
        BusFault::PublishRefused,
        BusFault::PublishAnswerLost,
        BusFault::RequestRefused,
    ];
    let fault = (what >= 0xd0).then(|| faults[usize::from(what) % faults.len()]);
    let outcome = bus.step(step, fault);
    observer.saw(step.peer(), &outcome)?;
    // As the core does: a new connection asks again for every topic that is wanted.
    if matches!(outcome.inputs.first(), Some(Input::BusUp { .. })) {
        for about in [2, 3] {
            let is_wanted = observer
                .view(step.peer())
                .interests
                .get(&topic(about))
                .is_some_and(|interest| interest.is_wanted);
            if is_wanted {
                subscribe(bus, step.peer(), about);
                observer.asked(step.peer(), topic(about));
            }
        }
    }
    Ok(())
}

proptest! {
    /// B1 to B5 hold for every schedule and every fault that the contract allows.
    #[test]
    fn the_contract_holds(script in prop::collection::vec(any::<(u8, u8)>(), 0..160), buffer_max in 1usize..6) {
        if let Err(broken) = run(config(buffer_max), &script) {
            prop_assert!(false, "{:?}", broken);
        }
    }
}

/// Fixed scripts that look like chance.
#[cfg(feature = "mutants")]
fn scripts() -> impl Iterator<Item = Vec<(u8, u8)>> {
    let mut state = 1u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..400).map(move |_| (0..120).map(|_| (next(), next())).collect())
}

#[cfg(feature = "mutants")]
#[test]
fn every_wrong_variant_is_caught_by_its_line() {
    let lines = [
        (BusVariant::ConfirmsBeforeEffect, Line::B2),
        (BusVariant::ReconnectsSilently, Line::B3),
        (BusVariant::LagUnreported, Line::B3),
        (BusVariant::GenerationNotRaised, Line::B2),
        (BusVariant::DroppedPublishAcknowledged, Line::B5),
        (BusVariant::HalfOpenNeverFound, Line::B4),
    ];
    assert_eq!(lines.map(|(variant, _)| variant), BusVariant::ALL);
    for script in scripts() {
        assert!(run(config(4), &script).is_ok(), "the clean bus is blamed");
    }
    for (variant, line) in lines {
        let broken = |script: Vec<(u8, u8)>| {
            let config = BusConfig {
                buffer_max: 4,
                variant: Variant::broken(variant),
            };
            run(config, &script).err()
        };
        let found: Vec<Line> = scripts().filter_map(broken).map(|(line, _)| line).collect();
        assert!(!found.is_empty(), "{variant:?} survives");
        // A silent reconnection hides what the beacon found as well.
        let wanted = |found: &&Line| {
            **found == line || (variant == BusVariant::ReconnectsSilently && **found == Line::B4)
        };
        let other = found.iter().find(|found| !wanted(found));
        assert_eq!(other, None, "{variant:?} caught by another line");
        assert!(found.contains(&line), "{variant:?} not caught by {line:?}");
    }
}

/// Takes every step there is, without faults, and returns the inputs of each process.
fn settle(bus: &mut Bus, now_ms: u64) -> BTreeMap<Peer, Vec<Input>> {
    let mut heard: BTreeMap<Peer, Vec<Input>> = BTreeMap::new();
    while let Some(step) = bus.runnable(now_ms).first().copied() {
        let inputs = bus.step(step, None).inputs;
        heard.entry(step.peer()).or_default().extend(inputs);
    }
    heard
}

fn two_processes(buffer_max: usize) -> Bus {
    let mut bus = Bus::new(config(buffer_max));
    bus.start(0);
    bus.start(1);
    settle(&mut bus, 0);
    subscribe(&mut bus, 0, 2);
    settle(&mut bus, 0);
    bus
}

fn arrival(number: u64) -> Input {
    Input::BusMessage {
        topic: topic(2),
        message: message(number),
    }
}

#[test]
fn a_subscription_takes_effect_before_its_confirmation_arrives() {
    let mut bus = Bus::new(config(10));
    bus.start(0);
    bus.step(BusStep::Connect(0), None);
    subscribe(&mut bus, 0, 2);
    publish(&mut bus, 0, 2, 1);
    bus.step(BusStep::Publish(0), None);
    bus.step(BusStep::Request(0), None);
    publish(&mut bus, 0, 2, 2);
    bus.step(BusStep::Publish(0), None);
    let heard = settle(&mut bus, 0).remove(&0).expect("it hears something");
    let generation = BusGeneration(1);
    let topic = topic(2);
    assert!(heard.contains(&Input::TopicActive { topic, generation }));
    assert!(!heard.contains(&arrival(1)), "published before the effect");
    assert!(
        heard.contains(&arrival(2)),
        "published before the confirmation arrived"
    );
}

#[test]
fn a_server_kills_a_subscriber_that_reads_too_slowly() {
    let mut bus = two_processes(3);
    for position in 1..=4 {
        publish(&mut bus, 1, 2, position);
        bus.step(BusStep::Publish(1), None);
    }
    let heard = settle(&mut bus, 0);
    let second = Input::BusUp {
        generation: BusGeneration(2),
    };
    assert_eq!(heard[&0], [Input::BusDown, second]);
}

#[test]
fn a_half_open_connection_is_silent_until_the_beacon_finds_it() {
    let mut bus = two_processes(10);
    assert!(bus.half_open(0, 3_000));
    assert!(!bus.half_open(0, 9_000), "there is no connection to harm");
    publish(&mut bus, 1, 2, 1);
    let heard = settle(&mut bus, 2_999);
    assert!(!heard.contains_key(&0));
    assert_eq!(bus.next_deadline_ms(), Some(3_000));
    assert_eq!(settle(&mut bus, 3_000)[&0][0], Input::BusDown);
}

#[test]
fn a_silent_loss_is_named_to_whoever_judges_and_to_nobody_else() {
    let mut bus = two_processes(10);
    for (position, fault) in [(1, BusFault::LostForOne(0)), (2, BusFault::LostForAll)] {
        publish(&mut bus, 1, 2, position);
        let outcome = bus.step(BusStep::Publish(1), Some(fault));
        assert_eq!(outcome.silently_lost, [0]);
        assert!(outcome.has_struck && outcome.taken.is_some() && outcome.losses.is_empty());
    }
    publish(&mut bus, 1, 2, 3);
    let heard = settle(&mut bus, 0);
    assert_eq!(heard[&0], [arrival(3)]);
    let answers = heard[&1]
        .iter()
        .filter(|input| matches!(input, Input::Published { ok: true, .. }));
    assert_eq!(answers.count(), 3);
}

#[test]
fn a_message_reaches_another_server_later_and_a_process_that_is_gone_never() {
    let mut bus = Bus::new(config(10));
    bus.start_on(0, 1);
    bus.start_on(1, 0);
    settle(&mut bus, 0);
    subscribe(&mut bus, 0, 2);
    settle(&mut bus, 0);
    publish(&mut bus, 1, 2, 1);
    bus.step(BusStep::Publish(1), None);
    assert_eq!(
        bus.runnable(0),
        [BusStep::Forward(0), BusStep::Acknowledge(1)]
    );
    assert_eq!(settle(&mut bus, 0)[&0], [arrival(1)]);
    publish(&mut bus, 1, 2, 2);
    assert_eq!(bus.unpublished(1), 1);
    bus.crash(1);
    assert_eq!((bus.unpublished(1), bus.runnable(0)), (0, Vec::new()));
}

#[test]
fn a_request_without_a_connection_is_lost() {
    let mut bus = Bus::new(config(10));
    bus.start(0);
    subscribe(&mut bus, 0, 2);
    let up = Input::BusUp {
        generation: BusGeneration(1),
    };
    assert_eq!(settle(&mut bus, 0)[&0], [up]);
}

#[test]
fn an_unsubscribe_may_be_late() {
    let mut bus = two_processes(10);
    unsubscribe(&mut bus, 0, 2);
    publish(&mut bus, 1, 2, 1);
    bus.step(BusStep::Publish(1), None);
    publish(&mut bus, 1, 2, 2);
    assert_eq!(settle(&mut bus, 0)[&0], [arrival(1)]);
}
