//! The contract of [`Bus`]: B1 to B3 of the port's page.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_core::accept::Change;
use holdfast_core::ids::{ChannelId, CommunityId, Position, Uuid};
use holdfast_core::node::{BusGeneration, BusMessage, Signal, Topic};
use holdfast_relay::node::ports::{Bus, BusEvent};

use super::{wait, wait_at_most};

/// Makes connected buses that hold about this many unread events.
pub trait Buses {
    /// A new one.
    fn open(&self, events_max: usize) -> Arc<dyn Bus>;
}

fn topic(number: u8) -> Topic {
    let id = |byte| Uuid::from_bytes([byte; 16]).expect("not nil");
    Topic::Channel(CommunityId(id(1)), ChannelId(id(number)))
}

fn message(position: u64) -> BusMessage {
    BusMessage::Signals(vec![Signal {
        position: Position(position),
        xid: 0,
        change: Change::Event,
        channel: None,
        artifact: None,
        key: None,
    }])
}

/// The next event; to wait for one that never comes is a failure and no standstill.
fn next(bus: &Arc<dyn Bus>) -> BusEvent {
    wait_at_most(Duration::from_secs(10), bus.next())
}

fn up(bus: &Arc<dyn Bus>) -> BusGeneration {
    match next(bus) {
        BusEvent::Up(generation) => generation,
        other => panic!("not up: {other:?}"),
    }
}

/// A topic is confirmed on the generation that is up, and what is published afterwards arrives.
pub fn a_confirmed_topic_delivers(buses: &dyn Buses) {
    let bus = buses.open(100);
    let generation = up(&bus);
    bus.subscribe(topic(2));
    assert_eq!(next(&bus), BusEvent::Active(topic(2), generation));
    for position in 1..=3 {
        assert!(wait(bus.publish(topic(2), message(position))));
    }
    for position in 1..=3 {
        assert_eq!(next(&bus), BusEvent::Message(topic(2), message(position)));
    }
}

/// Messages of other topics, and of a topic that was given up, do not arrive; to publish them is no error.
pub fn only_active_topics_deliver(buses: &dyn Buses) {
    let bus = buses.open(100);
    let generation = up(&bus);
    assert!(
        wait(bus.publish(topic(2), message(1))),
        "nobody listens, and nothing is wrong"
    );
    bus.subscribe(topic(2));
    assert_eq!(next(&bus), BusEvent::Active(topic(2), generation));
    assert!(wait(bus.publish(topic(3), message(2))));
    bus.unsubscribe(topic(2));
    assert!(wait(bus.publish(topic(2), message(3))));
    bus.subscribe(topic(3));
    assert_eq!(next(&bus), BusEvent::Active(topic(3), generation));
}

/// `next` waits for something to happen.
pub fn next_waits(buses: &dyn Buses) {
    let bus = buses.open(100);
    let generation = up(&bus);
    let waiting = Arc::clone(&bus);
    let reader = std::thread::spawn(move || wait(waiting.next()));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!reader.is_finished());
    bus.subscribe(topic(2));
    assert_eq!(
        reader.join().expect("the reader ends"),
        BusEvent::Active(topic(2), generation)
    );
}

/// A reader that falls behind is told so before anything later: down, then up on a later generation without topics.
pub fn a_refused_message_is_a_reported_loss(buses: &dyn Buses) {
    let bus = buses.open(16);
    let first = up(&bus);
    bus.subscribe(topic(2));
    assert_eq!(next(&bus), BusEvent::Active(topic(2), first));
    for position in 1..=40 {
        assert!(wait(bus.publish(topic(2), message(position))));
    }
    // What arrives before the report is a beginning of what was published, without a gap.
    let mut due = 1;
    loop {
        match next(&bus) {
            BusEvent::Message(_, arrived) => assert_eq!(arrived, message(due)),
            BusEvent::Down => break,
            other => panic!("{other:?}"),
        }
        due += 1;
    }
    assert!(due <= 40, "nothing was lost, so the test shows nothing");
    let second = up(&bus);
    assert!(second > first);
    assert!(
        wait(bus.publish(topic(2), message(50))),
        "its topic is not active any more"
    );
    bus.subscribe(topic(2));
    assert_eq!(next(&bus), BusEvent::Active(topic(2), second));
    assert!(wait(bus.publish(topic(2), message(51))));
    assert_eq!(next(&bus), BusEvent::Message(topic(2), message(51)));
}

/// While many publish and the reader is slow, every gap in what arrives is reported.
pub fn no_gap_goes_unreported(buses: &dyn Buses) {
    const MESSAGES: u64 = 5_000;
    let bus = buses.open(64);
    let read_to_the_end = Arc::new(AtomicBool::new(false));
    let publisher = {
        let (bus, read_to_the_end) = (Arc::clone(&bus), Arc::clone(&read_to_the_end));
        std::thread::spawn(move || {
            for position in 1..=MESSAGES {
                assert!(wait(bus.publish(topic(2), message(position))));
                if position % 256 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            // The mark of the end may be lost like anything else.
            while !read_to_the_end.load(Ordering::Relaxed) {
                bus.subscribe(topic(9));
                std::thread::sleep(Duration::from_millis(5));
            }
        })
    };
    let (mut last, mut gaps, mut losses) = (None, 0, 0);
    let mut generations = BTreeSet::new();
    let mut reported = true;
    loop {
        match next(&bus) {
            BusEvent::Up(generation) => {
                assert!(generations.last().is_none_or(|last| *last < generation));
                generations.insert(generation);
                bus.subscribe(topic(2));
            }
            BusEvent::Down => {
                losses += 1;
                reported = true;
            }
            BusEvent::Active(active, generation) => {
                assert_eq!(generations.last(), Some(&generation));
                if active == topic(9) {
                    break;
                }
            }
            BusEvent::Message(_, BusMessage::Signals(signals)) => {
                let position = signals[0].position.0;
                let is_gap = last.is_some_and(|last: u64| last + 1 != position);
                assert!(
                    !is_gap || reported,
                    "a gap before {position} without a report"
                );
                gaps += u64::from(is_gap);
                (last, reported) = (Some(position), false);
            }
            BusEvent::Message(_, other) => panic!("{other:?}"),
        }
    }
    read_to_the_end.store(true, Ordering::Relaxed);
    publisher.join().expect("the publisher ends");
    assert!(gaps <= losses);
}
