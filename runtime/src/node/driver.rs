//! The one driver: the only caller of [`Node::step`]. It turns what happens into inputs and performs the effects, in order,
//! through the ports.
//!
//! What belongs here: the loop, the operations in flight, who waits for which answer. What must not: any decision of the
//! protocol, and anything of a particular executor, clock, socket or store; the simulator runs this very code.
//!
//! No source of inputs can lose one: connections and requests wait for room in the inbox, each operation in flight has one
//! answer and the queue of answers takes all of them, and the bus is asked directly and reports its own losses (B3).

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use holdfast_core::accept::Submission;
use holdfast_core::ids::{CommunityId, Now};
use holdfast_core::node::{
    BusMessage, ConnId, Effect, Generation, Input, LiveQuery, Node, OpId, QueryKind, ReadFailure,
    Reply, Settled, SubmitOutcome, TicketId, Topic,
};
use holdfast_core::scope::{Cut, ReadPlan};
use holdfast_core::sync::{HeadQuery, SyncRequest};
use tokio::sync::{mpsc, oneshot};

use super::answer::Answer;
use super::handle::{DriverHandle, Item};
use super::ports::{Bus, BusEvent, Clock, History, Links, NoteSink, Spawn, Store};
use super::spool::{Spool, read_sync};

/// Inputs of connections and requests that wait for the driver. A step was measured at about 2 µs, so the last one waits well
/// under a millisecond; more room would only hide a backlog from the readers that should feel it.
const INBOX_ITEMS_MAX: usize = 256;

/// Inputs taken from each of the three sources in one turn; then the executor's thread is given back, after less than half a
/// millisecond at about 2 µs a step.
const SOURCE_STEPS_MAX: usize = 64;

/// The answer in the name of a submission whose task died: it may have been committed (S3).
const LOST_SUBMISSION: SubmitOutcome = SubmitOutcome::Unknown {
    xid: 0,
    signals: Vec::new(),
};

/// What the driver needs from the world.
#[derive(Clone)]
pub struct Ports {
    /// Durable state.
    pub store: Arc<dyn Store>,
    /// Signals between processes.
    pub bus: Arc<dyn Bus>,
    /// The way to the peers.
    pub links: Arc<dyn Links>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Tasks for store and bus work.
    pub spawn: Arc<dyn Spawn>,
    /// Where observations go.
    pub notes: Arc<dyn NoteSink>,
}

/// The owner of the node.
pub struct Driver {
    node: Node,
    ports: Ports,
    inbox: mpsc::Receiver<Item>,
    answers: mpsc::UnboundedReceiver<Input>,
    /// Bounded by the operations in flight, which the node bounds: each gives one answer.
    answer: mpsc::UnboundedSender<Input>,
    histories: BTreeMap<OpId, mpsc::Sender<Want>>,
    syncs: BTreeMap<OpId, mpsc::Sender<()>>,
    spool: Spool,
    tickets: BTreeMap<TicketId, oneshot::Sender<Reply>>,
    /// Inputs that effects of this very driver caused.
    own: VecDeque<Input>,
    /// When a stopping driver ends at the latest, on the monotonic clock.
    stop_at_ms: Option<u64>,
    /// Every handle is gone, so nobody can connect, ask or stop.
    abandoned: bool,
}

/// One page wanted of an open history.
#[derive(Clone, Copy, Debug)]
struct Want {
    rows_max: u32,
    bytes_max: usize,
}

impl Driver {
    /// A driver of `node` and the handle that adapters use. [`Driver::run`] must be polled for anything to happen.
    pub fn new(node: Node, ports: Ports) -> (Driver, DriverHandle) {
        let (inbox_in, inbox) = mpsc::channel(INBOX_ITEMS_MAX);
        let (answer, answers) = mpsc::unbounded_channel();
        let driver = Driver {
            node,
            ports,
            inbox,
            answers,
            answer,
            histories: BTreeMap::new(),
            syncs: BTreeMap::new(),
            spool: Spool::default(),
            tickets: BTreeMap::new(),
            own: VecDeque::new(),
            stop_at_ms: None,
            abandoned: false,
        };
        (driver, DriverHandle::new(inbox_in))
    }

    /// Runs until a stop is complete: every connection is gone, every request answered and nothing in flight, or the grace time
    /// is over. Also ends when every handle is dropped.
    pub async fn run(mut self) {
        let mut bus_event = self.ports.bus.next();
        while !self.is_over() {
            if self.take_ready(&mut bus_event) {
                yield_once().await;
            } else {
                self.wait(&mut bus_event).await;
            }
        }
    }

    fn is_over(&self) -> bool {
        let stopped = self.stop_at_ms.is_some_and(|at| {
            let quiet = self.node.is_idle() && self.node.load().0 == 0 && self.tickets.is_empty();
            quiet || self.ports.clock.now().mono_ms >= at
        });
        stopped || self.abandoned
    }

    /// One turn for every source; false if none had anything.
    fn take_ready(
        &mut self,
        bus_event: &mut Pin<Box<dyn Future<Output = BusEvent> + Send>>,
    ) -> bool {
        let mut any = self.wake_if_due();
        for _ in 0..SOURCE_STEPS_MAX {
            let Ok(answer) = self.answers.try_recv() else {
                break;
            };
            self.step(answer);
            any = true;
        }
        for _ in 0..SOURCE_STEPS_MAX {
            let Some(event) = (&mut *bus_event).now_or_never() else {
                break;
            };
            *bus_event = self.ports.bus.next();
            self.step(bus_input(event));
            any = true;
        }
        for _ in 0..SOURCE_STEPS_MAX {
            let Ok(item) = self.inbox.try_recv() else {
                break;
            };
            self.take(item);
            any = true;
        }
        any
    }

    /// Waits for one thing to happen and takes it.
    async fn wait(&mut self, bus_event: &mut Pin<Box<dyn Future<Output = BusEvent> + Send>>) {
        let wakeup = self.node.next_wakeup().map(|wakeup| wakeup.at_mono_ms);
        let until = wakeup.into_iter().chain(self.stop_at_ms).min();
        let clock = Arc::clone(&self.ports.clock);
        let sleep = async move {
            match until {
                Some(at) => clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = sleep => {}
            answer = self.answers.recv() => {
                self.step(answer.expect("the driver itself holds a sender of its answers"));
            }
            event = &mut *bus_event => {
                *bus_event = self.ports.bus.next();
                self.step(bus_input(event));
            }
            item = self.inbox.recv() => match item {
                Some(item) => self.take(item),
                None => self.abandoned = true,
            }
        }
    }

    fn wake_if_due(&mut self) -> bool {
        let now_ms = self.ports.clock.now().mono_ms;
        let due = self
            .node
            .next_wakeup()
            .is_some_and(|wakeup| wakeup.at_mono_ms <= now_ms);
        if due {
            self.step(Input::Woken);
        }
        due
    }

    fn take(&mut self, item: Item) {
        match item {
            Item::Input(input) => self.step(input),
            Item::Request {
                ticket,
                community,
                keys,
                request,
                reply,
            } => {
                self.tickets.insert(ticket, reply);
                self.step(Input::Request {
                    ticket,
                    community,
                    keys,
                    request,
                });
            }
            Item::Stop { grace_ms } => {
                let at = self.ports.clock.now().mono_ms + grace_ms;
                if self.stop_at_ms.replace(at).is_none() {
                    self.step(Input::Stop);
                }
            }
        }
    }

    fn step(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.own.push_back(input);
        while let Some(input) = self.own.pop_front() {
            if let Input::Page { op, page } = &input
                && page.as_ref().map_or(true, |page| page.end.is_some())
            {
                self.histories.remove(op);
            }
            if let Input::SyncPage { op, page } = &input
                && page.as_ref().map_or(true, |page| page.is_last)
            {
                self.syncs.remove(op);
            }
            let now: Now = self.ports.clock.now();
            self.node.step(now, input, &mut effects);
            for effect in effects.drain(..) {
                self.perform(effect);
            }
        }
    }

    fn perform(&mut self, effect: Effect) {
        let Ports {
            bus, links, notes, ..
        } = &self.ports;
        match effect {
            Effect::Send {
                conn,
                generation,
                frame,
            } => links.send(conn, generation, frame),
            Effect::Purge { conn, generation } => self.purge(conn, generation),
            Effect::Close { conn, reason } => links.close(conn, reason),
            Effect::Credit { conn } => links.credit(conn),
            Effect::Submit { op, submission } => self.submit(op, *submission),
            Effect::OpenHistory {
                op,
                plans,
                rows_max,
                bytes_max,
            } => self.open_history(
                op,
                plans,
                Want {
                    rows_max,
                    bytes_max,
                },
            ),
            Effect::NextPage {
                op,
                rows_max,
                bytes_max,
            } => self.next_page(
                op,
                Want {
                    rows_max,
                    bytes_max,
                },
            ),
            // The task sees the end of its wants and drops the history at once, in the midst of a read as well.
            Effect::EndHistory { op } => drop(self.histories.remove(&op)),
            Effect::OpenSync { op, request } => self.open_sync(op, *request),
            Effect::NextSyncPage { op } => self.next_sync_page(op),
            // As for a history: the task ends with its wants, and the snapshot with the task.
            Effect::EndSync { op } => drop(self.syncs.remove(&op)),
            Effect::ReadHeads {
                op,
                community,
                query,
            } => self.read_heads(op, community, query),
            Effect::Settle { op, xid } => self.settle(op, xid),
            Effect::ReadLive {
                op,
                community,
                query,
            } => self.read_live(op, community, query),
            Effect::Query {
                op,
                kind,
                plans,
                budget_ms,
            } => self.query(op, kind, plans, budget_ms),
            Effect::ReadLedger { op, after } => self.read_ledger(op, after),
            Effect::Subscribe { topic } => bus.subscribe(topic),
            Effect::Unsubscribe { topic } => bus.unsubscribe(topic),
            Effect::Publish { op, topic, message } => self.publish(op, topic, message),
            Effect::Reply { ticket, reply } => self.reply(ticket, reply),
            Effect::Note(note) => notes.note(note),
        }
    }

    fn submit(&self, op: OpId, submission: Submission) {
        let work = self.ports.store.submit(submission);
        self.answer_with(work, LOST_SUBMISSION, move |outcome| Input::Submitted {
            op,
            outcome,
        });
    }

    fn read_heads(&self, op: OpId, community: CommunityId, query: HeadQuery) {
        let work = self.ports.store.heads(community, query);
        let lost = Err(ReadFailure::Store);
        self.answer_with(work, lost, move |rows| Input::Heads { op, rows });
    }

    fn settle(&self, op: OpId, xid: u64) {
        let work = self.ports.store.settle(xid);
        self.answer_with(work, Settled::Open, move |outcome| Input::Settled {
            op,
            outcome,
        });
    }

    fn read_live(&self, op: OpId, community: CommunityId, query: LiveQuery) {
        let work = self.ports.store.live(community, query);
        let lost = Err(ReadFailure::Store);
        self.answer_with(work, lost, move |rows| Input::Live { op, rows });
    }

    fn query(&self, op: OpId, kind: QueryKind, plans: Vec<ReadPlan>, budget_ms: u64) {
        let work = self.ports.store.query(kind, plans, budget_ms);
        let lost = Err(ReadFailure::Store);
        self.answer_with(work, lost, move |answer| Input::Answer { op, answer });
    }

    fn read_ledger(&self, op: OpId, after: Option<Cut>) {
        let work = self.ports.store.ledger(after);
        let lost = Err(ReadFailure::Store);
        self.answer_with(work, lost, move |page| Input::Ledger { op, page });
    }

    fn publish(&self, op: OpId, topic: Topic, message: BusMessage) {
        let work = self.ports.bus.publish(topic, message);
        self.answer_with(work, false, move |ok| Input::Published { op, ok });
    }

    fn purge(&mut self, conn: ConnId, generation: Generation) {
        let purged = self.ports.links.purge(conn, generation);
        if purged.frames > 0 {
            self.own.push_back(Input::Drained {
                conn,
                bytes: purged.bytes,
                frames: purged.frames,
            });
        }
    }

    fn reply(&mut self, ticket: TicketId, reply: Reply) {
        if let Some(waiting) = self.tickets.remove(&ticket) {
            // An error says that the client has gone; the answer was for nobody else.
            let _ = waiting.send(reply);
        }
    }

    /// Runs `work` in a task of its own and answers with its output, or with `lost` should the task end without one.
    fn answer_with<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        lost: T,
        input: impl Fn(T) -> Input + Send + 'static,
    ) {
        let mut answer = Answer::new(&self.answer, input(lost));
        self.ports.spawn.spawn(Box::pin(async move {
            let output = work.await;
            answer.give(input(output));
        }));
    }

    fn open_history(&mut self, op: OpId, plans: Vec<ReadPlan>, first: Want) {
        let (want_in, wants) = mpsc::channel(1);
        self.histories.insert(op, want_in);
        let open = self.ports.store.open_history(plans);
        let task = run_history(op, open, first, wants, self.answer.clone());
        self.ports.spawn.spawn(Box::pin(task));
    }

    fn open_sync(&mut self, op: OpId, request: SyncRequest) {
        let (want_in, wants) = mpsc::channel(1);
        self.syncs.insert(op, want_in);
        let bytes_max = request.bytes_max;
        let open = self.ports.store.open_sync(request);
        let (spool, answers) = (self.spool.clone(), self.answer.clone());
        let task = read_sync(op, bytes_max, open, wants, spool, answers);
        self.ports.spawn.spawn(Box::pin(task));
    }

    fn next_sync_page(&mut self, op: OpId) {
        let sync = self.syncs.get(&op);
        let sync = sync.expect("the node asks for pages of open syncs only");
        if sync.try_send(()).is_err() {
            // The task died while it read ahead and owed nothing; this want is the first one that it cannot answer.
            let page = Err(ReadFailure::SnapshotLost);
            self.own.push_back(Input::SyncPage { op, page });
        }
    }

    fn next_page(&mut self, op: OpId, want: Want) {
        let history = self.histories.get(&op);
        let history = history.expect("the node asks for pages of open histories only");
        history
            .try_send(want)
            .expect("the node asks for a page after it got the one before, and the task ends only after a last page");
    }
}

/// One open history: gives a page for each want and ends with the last page, a failure, or its wants.
async fn run_history(
    op: OpId,
    open: impl Future<Output = Result<Box<dyn History>, ReadFailure>>,
    mut want: Want,
    mut wants: mpsc::Receiver<Want>,
    answers: mpsc::UnboundedSender<Input>,
) {
    let lost = || Input::Page {
        op,
        page: Err(ReadFailure::Store),
    };
    let mut history: Option<Box<dyn History>> = None;
    let mut open = Some(Box::pin(open));
    loop {
        let mut answer = Answer::new(&answers, lost());
        let work = async {
            if let Some(open) = open.take() {
                history = Some(open.await?);
            }
            let history = history.as_mut().expect("opened by the first want");
            history.next(want.rows_max, want.bytes_max).await
        };
        let page = tokio::select! {
            biased;
            next = wants.recv() => {
                assert!(next.is_none(), "a page is wanted after the one before came");
                answer.withdraw();
                return;
            }
            page = work => page,
        };
        let is_last = page.as_ref().map_or(true, |page| page.end.is_some());
        answer.give(Input::Page { op, page });
        if is_last {
            return;
        }
        match wants.recv().await {
            Some(next) => want = next,
            None => return,
        }
    }
}

fn bus_input(event: BusEvent) -> Input {
    match event {
        BusEvent::Up(generation) => Input::BusUp { generation },
        BusEvent::Down => Input::BusDown,
        BusEvent::Active(topic, generation) => Input::TopicActive { topic, generation },
        BusEvent::Message(topic, message) => Input::BusMessage { topic, message },
    }
}

/// Gives the executor's thread back once.
async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            Poll::Ready(())
        } else {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
