//! The bus of a relay that runs as one process: a bounded queue in memory that keeps the contract of a real one, generations,
//! confirmations and reported loss (B1, B2, B3). Persistence and other processes do not belong here.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdfast_core::node::{BusGeneration, BusMessage, Topic};
use tokio::sync::Notify;

use crate::node::ports::{BoxFuture, Bus, BusEvent};

/// Events that wait for the driver.
pub const QUEUE_EVENTS_MAX: usize = 8_192;

/// An in-process bus for one reader.
///
/// Where its queue is full the refused event is a loss: what waits is dropped, and the reader sees `Down` and then `Up` with the
/// next generation before anything that happened later. Topics of the lost generation are no longer active.
#[derive(Clone, Debug)]
pub struct LocalBus {
    shared: std::sync::Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    events_max: usize,
    state: Mutex<State>,
    /// Told after something was queued.
    queued: Notify,
}

#[derive(Debug)]
struct State {
    generation: BusGeneration,
    active: BTreeSet<Topic>,
    events: VecDeque<BusEvent>,
}

impl Default for LocalBus {
    fn default() -> LocalBus {
        LocalBus::new(QUEUE_EVENTS_MAX)
    }
}

impl LocalBus {
    /// A connected bus whose queue holds `events_max` events, and two more that report a loss.
    pub fn new(events_max: usize) -> LocalBus {
        let generation = BusGeneration(1);
        let state = State {
            generation,
            active: BTreeSet::new(),
            events: VecDeque::from([BusEvent::Up(generation)]),
        };
        let shared = Shared {
            events_max,
            state: Mutex::new(state),
            queued: Notify::new(),
        };
        LocalBus {
            shared: std::sync::Arc::new(shared),
        }
    }

    /// A panic while the lock is held leaves a queue that is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Queues an event, or loses the connection.
    fn push(&mut self, event: BusEvent, events_max: usize) {
        if self.events.len() < events_max {
            self.events.push_back(event);
            return;
        }
        self.generation = BusGeneration(self.generation.0 + 1);
        self.active.clear();
        self.events.clear();
        self.events
            .extend([BusEvent::Down, BusEvent::Up(self.generation)]);
    }
}

impl Bus for LocalBus {
    fn subscribe(&self, topic: Topic) {
        let mut state = self.lock();
        state.active.insert(topic);
        let confirmation = BusEvent::Active(topic, state.generation);
        state.push(confirmation, self.shared.events_max);
        drop(state);
        self.shared.queued.notify_one();
    }

    fn unsubscribe(&self, topic: Topic) {
        self.lock().active.remove(&topic);
    }

    fn publish(&self, topic: Topic, message: BusMessage) -> BoxFuture<bool> {
        let mut state = self.lock();
        if state.active.contains(&topic) {
            state.push(BusEvent::Message(topic, message), self.shared.events_max);
        }
        drop(state);
        self.shared.queued.notify_one();
        Box::pin(std::future::ready(true))
    }

    fn next(&self) -> BoxFuture<BusEvent> {
        let bus = self.clone();
        Box::pin(async move {
            loop {
                // Registered before the look into the queue, so that an event queued in between is not slept through.
                let queued = bus.shared.queued.notified();
                if let Some(event) = bus.lock().events.pop_front() {
                    return event;
                }
                queued.await;
            }
        })
    }
}
