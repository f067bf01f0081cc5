//! The simulated WebSocket links: for each connection the messages on their way to the relay, the relay's outbound queue, and a
//! reader that takes bytes as fast as it is told to. Frames leave in the production order ([`Outbound`]), a frame may leave in
//! parts, and the relay hears what left only after the whole frame did.
//!
//! What belongs here: queues, bytes, who is slow or gone. What must not: what frames say, time and chance of its own.

use std::collections::{BTreeMap, VecDeque};

use holdfast_core::node::{CloseReason, ConnId, Effect, Generation, Input, Outbound};
use holdfast_core::nostr::{ClientMessage, FrameProblem, RelayFrame};

/// What a client sends: a message, or a frame that the relay cannot read.
pub type Sent = Result<ClientMessage, FrameProblem>;

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// Everything that waits, at once.
    Fast,
    /// This many bytes at a time.
    Slow {
        /// Bytes of one step.
        bytes: usize,
    },
    /// Nothing.
    Stalled,
}

/// A step that can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkStep {
    /// The relay takes the next message out of the socket.
    Receive(ConnId),
    /// The writer writes, and the client reads.
    Flush(ConnId),
    /// Both sides learn that the connection is over.
    End(ConnId),
}

/// What a step brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOutcome {
    /// For the node of the connection.
    pub inputs: Vec<Input>,
    /// Frames that the client has read in full, with the incarnation of their subscription.
    pub read: Vec<(Option<Generation>, RelayFrame)>,
    /// The message that the relay took, by the number under which it was sent.
    pub received: Option<u64>,
    /// The connection is over.
    pub is_over: bool,
}

/// One connection.
#[derive(Clone, Debug)]
struct Link {
    to_relay: VecDeque<(u64, Sent)>,
    next_sent: u64,
    queue: Outbound,
    /// Which generation each queued frame has, in the order in which frames of one lane were queued.
    lanes: BTreeMap<Option<Generation>, usize>,
    /// The frame that is being written, and how much of it is out.
    current: Option<(Option<Generation>, RelayFrame, usize)>,
    reader: Reader,
    /// Messages that the relay may still take.
    credits: u32,
    /// The relay closes it when its last control frames are out.
    closing: Option<CloseReason>,
    /// It is over and nobody knows yet.
    is_cut: bool,
    /// Since when nothing moved although something waits.
    stuck_since_ms: Option<u64>,
}

/// All links of one process.
#[derive(Clone, Debug)]
pub struct Links {
    links: BTreeMap<ConnId, Link>,
    credits: u32,
    stall_ms: u64,
}

impl Links {
    /// Links with these bounds: messages of one connection that may wait for their answers, and milliseconds without any byte
    /// taken after which a connection ends.
    pub fn new(credits: u32, stall_ms: u64) -> Links {
        Links {
            links: BTreeMap::new(),
            credits,
            stall_ms,
        }
    }

    /// Opens a link.
    pub fn open(&mut self, conn: ConnId) {
        let link = Link {
            to_relay: VecDeque::new(),
            next_sent: 0,
            queue: Outbound::default(),
            lanes: BTreeMap::new(),
            current: None,
            reader: Reader::Fast,
            credits: self.credits,
            closing: None,
            is_cut: false,
            stuck_since_ms: None,
        };
        self.links.insert(conn, link);
    }

    /// Whether the connection exists.
    pub fn is_open(&self, conn: ConnId) -> bool {
        self.links.get(&conn).is_some_and(|link| !link.is_cut)
    }

    /// The connections.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.links.keys().copied()
    }

    /// The client sends a message; the number under which its arrival is reported.
    pub fn send(&mut self, conn: ConnId, message: Sent) -> Option<u64> {
        let link = self.links.get_mut(&conn).filter(|link| !link.is_cut)?;
        link.next_sent += 1;
        link.to_relay.push_back((link.next_sent, message));
        Some(link.next_sent)
    }

    /// How the client reads from here on.
    pub fn set_reader(&mut self, conn: ConnId, reader: Reader) {
        if let Some(link) = self.links.get_mut(&conn) {
            link.reader = reader;
        }
    }

    /// How the client reads.
    pub fn reader(&self, conn: ConnId) -> Option<Reader> {
        self.links.get(&conn).map(|link| link.reader)
    }

    /// Cuts the connection: nothing moves any more, and a later step tells both sides.
    pub fn cut(&mut self, conn: ConnId) {
        if let Some(link) = self.links.get_mut(&conn) {
            link.is_cut = true;
        }
    }

    /// Every connection is cut at once: the process died, and only the clients will learn it.
    pub fn crash(&mut self) -> Vec<ConnId> {
        let gone = self.links.keys().copied().collect();
        self.links.clear();
        gone
    }

    /// Performs an effect; others than the links' do nothing. A purge brings its credit back as an input.
    pub fn perform(&mut self, effect: &Effect) -> Vec<Input> {
        match effect {
            Effect::Send {
                conn,
                generation,
                frame,
            } => {
                if let Some(link) = self.links.get_mut(conn) {
                    link.push(*generation, frame.clone());
                }
                Vec::new()
            }
            Effect::Purge { conn, generation } => self.purge(*conn, *generation),
            Effect::Close { conn, reason } => {
                if let Some(link) = self.links.get_mut(conn) {
                    link.queue.keep_control();
                    link.lanes.retain(|lane, _| lane.is_none());
                    link.closing.get_or_insert(*reason);
                }
                Vec::new()
            }
            Effect::Credit { conn } => {
                if let Some(link) = self.links.get_mut(conn) {
                    link.credits += 1;
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn purge(&mut self, conn: ConnId, generation: Generation) -> Vec<Input> {
        let Some(link) = self.links.get_mut(&conn) else {
            return Vec::new();
        };
        let purged = link.queue.purge(generation);
        link.lanes.remove(&Some(generation));
        if purged.frames == 0 {
            return Vec::new();
        }
        vec![Input::Drained {
            conn,
            bytes: purged.bytes,
            frames: purged.frames,
        }]
    }

    /// Unsent bytes and frames, and the frame being written among them.
    pub fn unsent(&self, conn: ConnId) -> (usize, usize) {
        let Some(link) = self.links.get(&conn) else {
            return (0, 0);
        };
        let waiting = link.queue.waiting();
        let current = link
            .current
            .as_ref()
            .map_or(0, |(_, frame, _)| frame.len_bytes());
        let one = usize::from(link.current.is_some());
        (waiting.bytes + current, waiting.frames + one)
    }

    /// The incarnations with unsent frames.
    pub fn unsent_generations(&self) -> impl Iterator<Item = (ConnId, Generation)> + '_ {
        self.links.iter().flat_map(|(conn, link)| {
            let current = link
                .current
                .as_ref()
                .and_then(|(generation, _, _)| *generation);
            let queued = link.lanes.keys().filter_map(|lane| *lane);
            queued.chain(current).map(|generation| (*conn, generation))
        })
    }

    /// Every step that can be taken, in the order of the connections.
    pub fn runnable(&self, now_ms: u64) -> Vec<LinkStep> {
        let mut steps = Vec::new();
        for (conn, link) in &self.links {
            let is_stuck = link
                .stuck_since_ms
                .is_some_and(|since| now_ms >= since + self.stall_ms);
            if link.is_cut || is_stuck {
                steps.push(LinkStep::End(*conn));
                continue;
            }
            if link.credits > 0 && !link.to_relay.is_empty() && link.closing.is_none() {
                steps.push(LinkStep::Receive(*conn));
            }
            let has_frames = link.current.is_some() || link.queue.waiting().frames > 0;
            if has_frames && link.reader != Reader::Stalled {
                steps.push(LinkStep::Flush(*conn));
            }
            if link.closing.is_some() && !has_frames {
                steps.push(LinkStep::End(*conn));
            }
        }
        steps
    }

    /// Notes which connections are stuck; called whenever time passes.
    pub fn tell_time(&mut self, now_ms: u64) {
        for link in self.links.values_mut() {
            let waits = link.current.is_some() || link.queue.waiting().frames > 0;
            if !waits || link.reader != Reader::Stalled {
                link.stuck_since_ms = None;
            } else {
                link.stuck_since_ms.get_or_insert(now_ms);
            }
        }
    }

    /// The earliest time at which a stuck connection ends.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.links
            .values()
            .filter_map(|link| link.stuck_since_ms)
            .min()
            .map(|since| since + self.stall_ms)
    }

    /// Nothing waits in either direction.
    pub fn is_quiet(&self) -> bool {
        self.links.values().all(|link| {
            !link.is_cut
                && link.closing.is_none()
                && link.to_relay.is_empty()
                && link.current.is_none()
                && link.queue.waiting().frames == 0
        })
    }

    /// Takes a step.
    pub fn step(&mut self, step: LinkStep) -> LinkOutcome {
        match step {
            LinkStep::Receive(conn) => self.receive(conn),
            LinkStep::Flush(conn) => self.flush(conn),
            LinkStep::End(conn) => {
                self.links.remove(&conn);
                LinkOutcome {
                    inputs: vec![Input::Disconnected { conn }],
                    is_over: true,
                    ..LinkOutcome::default()
                }
            }
        }
    }

    fn receive(&mut self, conn: ConnId) -> LinkOutcome {
        let mut outcome = LinkOutcome::default();
        if let Some(link) = self.links.get_mut(&conn)
            && let Some((number, message)) = link.to_relay.pop_front()
        {
            link.credits -= 1;
            outcome.received = Some(number);
            outcome.inputs.push(Input::Message { conn, message });
        }
        outcome
    }

    fn flush(&mut self, conn: ConnId) -> LinkOutcome {
        let mut outcome = LinkOutcome::default();
        let Some(link) = self.links.get_mut(&conn) else {
            return outcome;
        };
        let mut budget = match link.reader {
            Reader::Fast => usize::MAX,
            Reader::Slow { bytes } => bytes,
            Reader::Stalled => 0,
        };
        let (mut bytes, mut frames) = (0, 0);
        while budget > 0 {
            if link.current.is_none() {
                link.current = link.pop();
            }
            let Some((generation, frame, written)) = &mut link.current else {
                break;
            };
            let length = frame.len_bytes();
            let now = budget.min(length - *written);
            *written += now;
            budget -= now;
            if *written < length {
                break;
            }
            bytes += length;
            frames += 1;
            outcome.read.push((*generation, frame.clone()));
            link.current = None;
        }
        if frames > 0 {
            outcome.inputs.push(Input::Drained {
                conn,
                bytes,
                frames,
            });
        }
        outcome
    }
}

impl Link {
    fn push(&mut self, generation: Option<Generation>, frame: RelayFrame) {
        *self.lanes.entry(generation).or_default() += 1;
        self.queue.push(generation, frame);
    }

    fn pop(&mut self) -> Option<(Option<Generation>, RelayFrame, usize)> {
        let (generation, frame) = self.queue.pop_with_generation()?;
        if let Some(count) = self.lanes.get_mut(&generation) {
            *count -= 1;
            if *count == 0 {
                self.lanes.remove(&generation);
            }
        }
        Some((generation, frame, 0))
    }
}
