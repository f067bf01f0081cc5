//! The simulated WebSocket links: for each connection the messages on their way to the relay, the relay's outbound queue, a
//! window of bytes that are written and not read, and a reader that takes bytes as fast as it is told to. Frames leave in the
//! production order ([`Outbound`]), a frame may leave in parts, and the relay hears what left only after the whole frame did.
//!
//! What belongs here: queues, bytes, who is slow or gone. What must not: what frames say, time and chance of its own.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use holdfast_core::node::{CloseReason, ConnId, Effect, Generation, Input, Outbound, Tally};
use holdfast_core::nostr::{ClientMessage, FrameProblem, RelayFrame};

/// What a client sends: a message, or a frame that the relay cannot read.
pub type Sent = Result<ClientMessage, FrameProblem>;

/// A frame on its way to the client, with the incarnation of its subscription; none for OK, AUTH and NOTICE.
pub type Outgoing = (Option<Generation>, RelayFrame);

/// How a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// Everything that waits, at once.
    Fast,
    /// This many bytes at a time; 0 is taken as 1.
    Slow {
        /// Bytes of one step.
        bytes: usize,
    },
    /// Nothing.
    Stalled,
}

impl Reader {
    /// Bytes of one step.
    fn pace_bytes(self) -> usize {
        match self {
            Reader::Fast => usize::MAX,
            Reader::Slow { bytes } => bytes.max(1),
            Reader::Stalled => 0,
        }
    }
}

/// A step that can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkStep {
    /// The relay takes the next message out of the socket.
    Receive(ConnId),
    /// The writer writes what the window has room for; without a window the client reads it in the same step.
    Flush(ConnId),
    /// The client reads from the window.
    Read(ConnId),
    /// Both sides learn that the connection is over.
    End(ConnId),
}

impl LinkStep {
    /// The connection concerned.
    pub fn conn(self) -> ConnId {
        match self {
            LinkStep::Receive(conn)
            | LinkStep::Flush(conn)
            | LinkStep::Read(conn)
            | LinkStep::End(conn) => conn,
        }
    }
}

/// What a step brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkOutcome {
    /// For the node of the connection.
    pub inputs: Vec<Input>,
    /// Frames that the client has read in full, in order.
    pub read: Vec<Outgoing>,
    /// The message that the relay took, by the number under which it was sent.
    pub received: Option<u64>,
    /// The connection is over.
    pub is_over: bool,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    /// Nothing moves any more in either direction.
    Cut,
    /// The client is gone; what it had sent still arrives.
    HungUp,
}

/// One connection.
#[derive(Clone, Debug)]
struct Link {
    to_relay: VecDeque<(u64, Sent)>,
    next_sent: u64,
    queue: Outbound,
    /// The frame that is being written, and how much of it is out.
    current: Option<(Outgoing, usize)>,
    /// Frames that are written in full and not read in full.
    written: VecDeque<Outgoing>,
    /// Bytes that are written and not read, those of `current` among them.
    unread_bytes: usize,
    /// Bytes that are read of the frame that the client reads.
    read_bytes: usize,
    window_bytes: usize,
    reader: Reader,
    /// Messages that the relay may still take.
    credits: u32,
    /// The relay closes it when its last control frames are out.
    closing: Option<CloseReason>,
    /// It is over and the relay does not know yet.
    fate: Option<Fate>,
    /// Since when nothing moved although something waits.
    stuck_since_ms: Option<u64>,
}

/// All links of one process.
#[derive(Clone, Debug)]
pub struct Links {
    links: BTreeMap<ConnId, Link>,
    credits: u32,
    stall_ms: u64,
    window_bytes: usize,
}

impl Links {
    /// Links with these bounds: messages of one connection that may wait for their answers, and milliseconds without any byte
    /// taken after which a connection ends. They have no window.
    pub fn new(credits: u32, stall_ms: u64) -> Links {
        Links {
            links: BTreeMap::new(),
            credits,
            stall_ms,
            window_bytes: 0,
        }
    }

    /// Bytes that lie between writer and reader of every link opened from here on: what is there can no longer be purged.
    pub fn set_window(&mut self, window_bytes: usize) {
        self.window_bytes = window_bytes;
    }

    /// Opens a link.
    pub fn open(&mut self, conn: ConnId) {
        let link = Link {
            to_relay: VecDeque::new(),
            next_sent: 0,
            queue: Outbound::default(),
            current: None,
            written: VecDeque::new(),
            unread_bytes: 0,
            read_bytes: 0,
            window_bytes: self.window_bytes,
            reader: Reader::Fast,
            credits: self.credits,
            closing: None,
            fate: None,
            stuck_since_ms: None,
        };
        self.links.insert(conn, link);
    }

    /// Whether the client may still use the connection.
    pub fn is_open(&self, conn: ConnId) -> bool {
        self.links
            .get(&conn)
            .is_some_and(|link| link.fate.is_none())
    }

    /// The connections, those included whose end the relay has yet to learn.
    pub fn conns(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.links.keys().copied()
    }

    /// The client sends a message; the number under which its arrival is reported.
    pub fn send(&mut self, conn: ConnId, message: Sent) -> Option<u64> {
        let link = self
            .links
            .get_mut(&conn)
            .filter(|link| link.fate.is_none())?;
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
            link.fate = Some(Fate::Cut);
        }
    }

    /// The client goes: it reads nothing more, and what it had sent still arrives before the relay learns of it.
    pub fn hang_up(&mut self, conn: ConnId) {
        if let Some(link) = self.links.get_mut(&conn) {
            link.fate.get_or_insert(Fate::HungUp);
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
                    link.queue.push(*generation, frame.clone());
                }
                Vec::new()
            }
            Effect::Purge { conn, generation } => self.purge(*conn, *generation),
            Effect::Close { conn, reason } => {
                if let Some(link) = self.links.get_mut(conn) {
                    link.queue.keep_control();
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
        self.links
            .get_mut(&conn)
            .map(|link| link.queue.purge(generation))
            .and_then(|purged| drained(conn, purged))
            .into_iter()
            .collect()
    }

    /// Unsent bytes and frames, the frame that is being written among them.
    pub fn unsent(&self, conn: ConnId) -> (usize, usize) {
        let Some(link) = self.links.get(&conn) else {
            return (0, 0);
        };
        let mut unsent = link.queue.waiting();
        if let Some(((_, frame), _)) = &link.current {
            unsent.add(frame);
        }
        (unsent.bytes, unsent.frames)
    }

    /// The incarnations with unsent frames.
    pub fn unsent_generations(&self) -> impl Iterator<Item = (ConnId, Generation)> + '_ {
        self.links.iter().flat_map(|(conn, link)| {
            let current = link
                .current
                .as_ref()
                .and_then(|((generation, _), _)| *generation);
            let queued = link.queue.generations();
            queued.chain(current).map(|generation| (*conn, generation))
        })
    }

    /// Every step that can be taken, in the order of the connections.
    pub fn runnable(&self, now_ms: u64) -> Vec<LinkStep> {
        let mut steps = Vec::new();
        for (conn, link) in &self.links {
            let is_given_up = link
                .stuck_since_ms
                .is_some_and(|since| now_ms >= since + self.stall_ms);
            if is_given_up || link.is_over() {
                steps.push(LinkStep::End(*conn));
                continue;
            }
            if link.credits > 0 && !link.to_relay.is_empty() && link.closing.is_none() {
                steps.push(LinkStep::Receive(*conn));
            }
            if link.can_flush() {
                steps.push(LinkStep::Flush(*conn));
            }
            if link.can_read() {
                steps.push(LinkStep::Read(*conn));
            }
        }
        steps
    }

    /// Notes which connections are stuck; called whenever time passes. A reader that is slow is not stuck.
    pub fn tell_time(&mut self, now_ms: u64) {
        for link in self.links.values_mut() {
            let is_stuck = link.has_unsent() && !link.can_flush() && link.reader == Reader::Stalled;
            if is_stuck {
                link.stuck_since_ms.get_or_insert(now_ms);
            } else {
                link.stuck_since_ms = None;
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
            link.fate.is_none()
                && link.closing.is_none()
                && link.to_relay.is_empty()
                && !link.has_unsent()
                && link.unread_bytes == 0
        })
    }

    /// Takes a step.
    pub fn step(&mut self, step: LinkStep) -> LinkOutcome {
        match step {
            LinkStep::Receive(conn) => self.receive(conn),
            LinkStep::Flush(conn) => self.flush(conn),
            LinkStep::Read(conn) => {
                let mut outcome = LinkOutcome::default();
                if let Some(link) = self.links.get_mut(&conn) {
                    link.read(link.reader.pace_bytes(), &mut outcome.read);
                }
                outcome
            }
            LinkStep::End(conn) => self.end(conn),
        }
    }

    fn receive(&mut self, conn: ConnId) -> LinkOutcome {
        let mut outcome = LinkOutcome::default();
        if let Some(link) = self.links.get_mut(&conn)
            && let Some((number, message)) = link.to_relay.pop_front()
        {
            link.credits = link.credits.saturating_sub(1);
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
        let sent = link.write(link.room_bytes());
        if link.window_bytes == 0 {
            link.read(usize::MAX, &mut outcome.read);
        }
        link.stuck_since_ms = None;
        outcome.inputs.extend(drained(conn, sent));
        outcome
    }

    /// The end: after a close in good order the client still reads what was written.
    fn end(&mut self, conn: ConnId) -> LinkOutcome {
        let mut outcome = LinkOutcome::default();
        let Some(mut link) = self.links.remove(&conn) else {
            return outcome;
        };
        if link.fate.is_none() && link.closing.is_some() && !link.has_unsent() {
            link.read(usize::MAX, &mut outcome.read);
        }
        outcome.inputs.push(Input::Disconnected { conn });
        outcome.is_over = true;
        outcome
    }
}

/// What the node is told of frames that left; nothing if none did.
fn drained(conn: ConnId, left: Tally) -> Option<Input> {
    (left.frames > 0).then_some(Input::Drained {
        conn,
        bytes: left.bytes,
        frames: left.frames,
    })
}

impl Link {
    fn has_unsent(&self) -> bool {
        self.current.is_some() || self.queue.waiting().frames > 0
    }

    /// Bytes that can be written now.
    fn room_bytes(&self) -> usize {
        if self.window_bytes == 0 {
            self.reader.pace_bytes()
        } else {
            self.window_bytes.saturating_sub(self.unread_bytes)
        }
    }

    fn can_flush(&self) -> bool {
        self.fate.is_none() && self.has_unsent() && self.room_bytes() > 0
    }

    fn can_read(&self) -> bool {
        self.fate.is_none()
            && self.unread_bytes > 0
            && self.reader != Reader::Stalled
            && self.window_bytes > 0
    }

    /// Nothing remains to be done but to tell both sides.
    fn is_over(&self) -> bool {
        match self.fate {
            Some(Fate::Cut) => true,
            Some(Fate::HungUp) => self.to_relay.is_empty() || self.closing.is_some(),
            None => self.closing.is_some() && !self.has_unsent(),
        }
    }

    /// Writes so many bytes, if there are as many; the frames that are out in full by it.
    fn write(&mut self, mut room_bytes: usize) -> Tally {
        let mut sent = Tally::default();
        while room_bytes > 0 {
            let next = match self.current.take() {
                Some(current) => Some(current),
                None => self.queue.pop_with_generation().map(|frame| (frame, 0)),
            };
            let Some((frame, out)) = next else {
                break;
            };
            let length = frame.1.len_bytes();
            let bytes = room_bytes.min(length - out);
            room_bytes -= bytes;
            self.unread_bytes += bytes;
            if out + bytes < length {
                self.current = Some((frame, out + bytes));
            } else {
                sent.add(&frame.1);
                self.written.push_back(frame);
            }
        }
        sent
    }

    /// Reads at most so many bytes; what is read in full goes to `read`.
    fn read(&mut self, pace_bytes: usize, read: &mut Vec<Outgoing>) {
        let bytes = pace_bytes.min(self.unread_bytes);
        self.unread_bytes -= bytes;
        self.read_bytes += bytes;
        while let Some((_, frame)) = self.written.front()
            && frame.len_bytes() <= self.read_bytes
        {
            self.read_bytes -= frame.len_bytes();
            read.extend(self.written.pop_front());
        }
    }
}
