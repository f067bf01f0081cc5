//! The driver under an executor of the test's own: every task is polled by hand, the clock stands still until it is moved, and the
//! store answers when the test says so.

mod syncs;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use holdfast_core::accept::{Policy, Profile, RelayKey, Submission};
use holdfast_core::ids::{CommunityId, Now, Position};
use holdfast_core::node::{
    BusGeneration, BusMessage, CloseReason, Config, ConnId, Generation, HistoryPage, HistoryRow,
    LedgerPage, LiveQuery, LiveRows, Node, Note, QueryAnswer, QueryKind, ReadFailure, Reply,
    Request, Settled, SubmitOutcome, Topic,
};
use holdfast_core::nostr::{
    ClientMessage, Draft, Event, EventId, Filter, RelayFrame, SecretKey, SubId,
};
use holdfast_core::scope::{Cut, ReadPlan};
use holdfast_core::sync::{HeadQuery, HeadRows, StoreGeneration, SyncPage, SyncRequest};
use tokio::sync::oneshot;

use super::ports::{
    BoxFuture, Bus, BusEvent, Clock, History, Links, NoteSink, Spawn, Store, SyncSnapshot,
};
use super::{Driver, DriverHandle, NoteCounts, Ports};
use crate::links::{Outbound, Tally};

type Pages<P> = Vec<oneshot::Sender<Result<P, ReadFailure>>>;

/// A store whose answers are given by the test.
#[derive(Default)]
struct FakeStore {
    submits: Mutex<Vec<oneshot::Sender<SubmitOutcome>>>,
    queries: Mutex<Vec<oneshot::Sender<Result<QueryAnswer, ReadFailure>>>>,
    pages: Arc<Mutex<Pages<HistoryPage>>>,
    histories_open: Arc<AtomicUsize>,
    sync_pages: Arc<Mutex<Pages<SyncPage>>>,
    syncs_open: Arc<AtomicUsize>,
    heads: Mutex<Pages<HeadRows>>,
    settles: Mutex<Vec<oneshot::Sender<Settled>>>,
}

/// An open read of a fake store; it is counted as long as it lives.
struct FakeRead<P> {
    pages: Arc<Mutex<Pages<P>>>,
    open: Arc<AtomicUsize>,
}

impl<P> FakeRead<P> {
    fn new(pages: &Arc<Mutex<Pages<P>>>, open: &Arc<AtomicUsize>) -> FakeRead<P> {
        open.fetch_add(1, Ordering::SeqCst);
        FakeRead {
            pages: Arc::clone(pages),
            open: Arc::clone(open),
        }
    }
}

/// An answer that comes when its sender speaks; a sender that is dropped kills the task, as a panic would.
fn later<T: Send + 'static>(list: &Mutex<Vec<oneshot::Sender<T>>>) -> BoxFuture<T> {
    let (give, answer) = oneshot::channel();
    list.lock().unwrap().push(give);
    Box::pin(async move { answer.await.expect("the test kills this task") })
}

impl Store for FakeStore {
    fn submit(&self, _: Submission) -> BoxFuture<SubmitOutcome> {
        later(&self.submits)
    }

    fn open_history(&self, _: Vec<ReadPlan>) -> BoxFuture<Result<Box<dyn History>, ReadFailure>> {
        let history = FakeRead::new(&self.pages, &self.histories_open);
        Box::pin(std::future::ready(
            Ok(Box::new(history) as Box<dyn History>),
        ))
    }

    fn open_sync(&self, _: SyncRequest) -> BoxFuture<Result<Box<dyn SyncSnapshot>, ReadFailure>> {
        let sync = FakeRead::new(&self.sync_pages, &self.syncs_open);
        Box::pin(std::future::ready(Ok(
            Box::new(sync) as Box<dyn SyncSnapshot>
        )))
    }

    fn heads(&self, _: CommunityId, _: HeadQuery) -> BoxFuture<Result<HeadRows, ReadFailure>> {
        later(&self.heads)
    }

    fn settle(&self, _: u64) -> BoxFuture<Settled> {
        later(&self.settles)
    }

    fn query(
        &self,
        _: QueryKind,
        _: Vec<ReadPlan>,
        _: u64,
    ) -> BoxFuture<Result<QueryAnswer, ReadFailure>> {
        later(&self.queries)
    }

    fn live(&self, _: CommunityId, _: LiveQuery) -> BoxFuture<Result<LiveRows, ReadFailure>> {
        Box::pin(std::future::ready(Ok(LiveRows::default())))
    }

    fn ledger(&self, _: Option<Cut>) -> BoxFuture<Result<LedgerPage, ReadFailure>> {
        Box::pin(std::future::ready(Ok(LedgerPage {
            signals: Vec::new(),
            cursor: Cut::Position(Position(0)),
            more: false,
            store: StoreGeneration::default(),
        })))
    }

    fn health(&self) -> BoxFuture<Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl History for FakeRead<HistoryPage> {
    fn next(&mut self, _: u32, _: usize) -> BoxFuture<Result<HistoryPage, ReadFailure>> {
        later(&self.pages)
    }
}

impl SyncSnapshot for FakeRead<SyncPage> {
    fn next(&mut self) -> BoxFuture<Result<SyncPage, ReadFailure>> {
        later(&self.pages)
    }
}

impl<P> Drop for FakeRead<P> {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A bus that is up, confirms everything at once and takes what is published.
struct FakeBus {
    events: Arc<Mutex<Vec<BusEvent>>>,
}

impl Bus for FakeBus {
    fn subscribe(&self, topic: Topic) {
        let active = BusEvent::Active(topic, BusGeneration(1));
        self.events.lock().unwrap().insert(0, active);
    }

    fn unsubscribe(&self, _: Topic) {}

    fn publish(&self, _: Topic, _: BusMessage) -> BoxFuture<bool> {
        Box::pin(std::future::ready(true))
    }

    fn next(&self) -> BoxFuture<BusEvent> {
        let events = Arc::clone(&self.events);
        Box::pin(std::future::poll_fn(move |_| {
            events
                .lock()
                .unwrap()
                .pop()
                .map_or(Poll::Pending, Poll::Ready)
        }))
    }
}

/// Links that keep what was sent, in the order it would leave.
#[derive(Default)]
struct FakeLinks {
    queues: Mutex<BTreeMap<ConnId, Outbound>>,
    closed: Mutex<BTreeMap<ConnId, CloseReason>>,
    credits: AtomicUsize,
}

impl Links for FakeLinks {
    fn send(&self, conn: ConnId, generation: Option<Generation>, frame: RelayFrame) {
        let mut queues = self.queues.lock().unwrap();
        queues.entry(conn).or_default().push(generation, frame);
    }

    fn purge(&self, conn: ConnId, generation: Generation) -> Tally {
        let mut queues = self.queues.lock().unwrap();
        queues.entry(conn).or_default().purge(generation)
    }

    fn close(&self, conn: ConnId, reason: CloseReason) {
        self.closed.lock().unwrap().insert(conn, reason);
    }

    fn credit(&self, _: ConnId) {
        self.credits.fetch_add(1, Ordering::SeqCst);
    }
}

/// A clock that is moved by hand. Sleeping is looking again at every poll.
#[derive(Default)]
struct FakeClock {
    mono_ms: Arc<AtomicU64>,
}

const WALL_SECS: u64 = 1_800_000_000;

impl Clock for FakeClock {
    fn now(&self) -> Now {
        Now {
            mono_ms: self.mono_ms.load(Ordering::SeqCst),
            wall_secs: WALL_SECS,
        }
    }

    fn sleep_until(&self, at_ms: u64) -> BoxFuture<()> {
        let mono_ms = Arc::clone(&self.mono_ms);
        Box::pin(std::future::poll_fn(move |_| {
            if mono_ms.load(Ordering::SeqCst) >= at_ms {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }))
    }
}

#[derive(Default)]
struct FakeSpawn {
    tasks: Mutex<Vec<BoxFuture<()>>>,
}

impl Spawn for FakeSpawn {
    fn spawn(&self, future: BoxFuture<()>) {
        self.tasks.lock().unwrap().push(future);
    }
}

/// A driver with its fake world.
struct Bench {
    handle: DriverHandle,
    store: Arc<FakeStore>,
    links: Arc<FakeLinks>,
    clock: Arc<FakeClock>,
    spawn: Arc<FakeSpawn>,
    notes: Arc<NoteCounts>,
    driver: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
    tasks: Vec<BoxFuture<()>>,
}

impl Bench {
    fn new(profile: Profile) -> Bench {
        let relay_key = RelayKey::new(secret());
        let node = Node::new(Config::new(Policy { profile, relay_key }));
        let store = Arc::new(FakeStore::default());
        let links = Arc::new(FakeLinks::default());
        let clock = Arc::new(FakeClock::default());
        let spawn = Arc::new(FakeSpawn::default());
        let notes = Arc::new(NoteCounts::default());
        let events = Arc::new(Mutex::new(vec![BusEvent::Up(BusGeneration(1))]));
        let (driver, handle) = Driver::new(
            node,
            Ports {
                store: store.clone(),
                bus: Arc::new(FakeBus { events }),
                links: links.clone(),
                clock: clock.clone(),
                spawn: spawn.clone(),
                notes: notes.clone() as Arc<dyn NoteSink>,
            },
        );
        Bench {
            handle,
            store,
            links,
            clock,
            spawn,
            notes,
            driver: Box::pin(driver.run()),
            ended: false,
            tasks: Vec::new(),
        }
    }

    /// Polls the driver and every task until nothing changes any more.
    fn settle(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..200 {
            if !self.ended && self.driver.as_mut().poll(&mut context).is_ready() {
                self.ended = true;
            }
            self.tasks.append(&mut self.spawn.tasks.lock().unwrap());
            self.tasks.retain_mut(|task| {
                let poll = std::panic::AssertUnwindSafe(|| task.as_mut().poll(&mut context));
                matches!(std::panic::catch_unwind(poll), Ok(Poll::Pending))
            });
        }
    }

    /// Hands something in and lets it take effect.
    fn hand_in(&mut self, call: impl Future<Output = ()>) {
        call.now_or_never().expect("there is room in the inbox");
        self.settle();
    }

    fn connect(&mut self) -> ConnId {
        let conn = self.handle.name_connection();
        let handle = self.handle.clone();
        let url = "ws://relay.example".parse().expect("a URL");
        self.hand_in(handle.connected(conn, community(), url, "0".repeat(64)));
        conn
    }

    fn say(&mut self, conn: ConnId, message: ClientMessage) {
        let handle = self.handle.clone();
        self.hand_in(handle.message(conn, Ok(message)));
    }

    /// Everything that waits for a connection, as text; the queue is empty afterwards.
    fn sent(&mut self, conn: ConnId) -> Vec<String> {
        let mut queues = self.links.queues.lock().unwrap();
        let queue = queues.entry(conn).or_default();
        std::iter::from_fn(|| queue.pop())
            .map(|frame| frame.to_text())
            .collect()
    }

    fn answer_submit(&mut self, outcome: SubmitOutcome) {
        let give = self.store.submits.lock().unwrap().remove(0);
        give.send(outcome).expect("the task waits");
        self.settle();
    }

    fn answer_page(&mut self, page: HistoryPage) {
        let give = self.store.pages.lock().unwrap().remove(0);
        give.send(Ok(page)).expect("the task waits");
        self.settle();
    }

    fn open_histories(&self) -> usize {
        self.store.histories_open.load(Ordering::SeqCst)
    }
}

fn secret() -> SecretKey {
    SecretKey::from_bytes([7; 32]).expect("a key")
}

fn community() -> CommunityId {
    "11111111-1111-4111-8111-111111111111"
        .parse()
        .expect("a UUID")
}

fn note(content: &str) -> Event {
    let draft = Draft {
        created_at: WALL_SECS,
        kind: 1,
        tags: Vec::new(),
        content: content.to_owned(),
    };
    draft.sign(&secret())
}

fn req(name: &str) -> ClientMessage {
    ClientMessage::Req {
        sub: SubId::new(name).expect("short"),
        filters: vec![Filter::default()],
    }
}

fn close(name: &str) -> ClientMessage {
    ClientMessage::Close {
        sub: SubId::new(name).expect("short"),
    }
}

fn page(rows: &[u8], is_last: bool) -> HistoryPage {
    HistoryPage {
        rows: rows
            .iter()
            .map(|number| HistoryRow {
                id: EventId::from_bytes([*number; 32]),
                json: format!("{number}").into(),
            })
            .collect(),
        end: is_last.then_some(Cut::Position(Position(9))),
        readable: BTreeSet::new(),
    }
}

fn stored() -> SubmitOutcome {
    SubmitOutcome::Stored {
        message: String::new(),
        signals: Vec::new(),
    }
}

#[test]
fn a_history_is_read_page_by_page_and_ends_with_eose() {
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.sent(conn);
    bench.say(conn, req("s"));
    assert_eq!(bench.open_histories(), 1);
    bench.answer_page(page(&[1, 2], false));
    bench.answer_page(page(&[3], true));
    let frames = bench.sent(conn);
    let expected = [
        "[\"EVENT\",\"s\",1]",
        "[\"EVENT\",\"s\",2]",
        "[\"EVENT\",\"s\",3]",
        "[\"EOSE\",\"s\"]",
    ];
    assert_eq!(frames, expected);
    assert_eq!(bench.open_histories(), 0, "the last page ends the snapshot");
}

#[test]
fn close_ends_the_history_at_once_also_in_the_midst_of_a_read() {
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.sent(conn);
    bench.say(conn, req("s"));
    assert_eq!(
        (
            bench.open_histories(),
            bench.store.pages.lock().unwrap().len()
        ),
        (1, 1)
    );
    bench.say(conn, close("s"));
    assert_eq!(bench.open_histories(), 0);
    assert!(bench.sent(conn).is_empty(), "nothing answers a CLOSE");
}

#[test]
fn a_repeated_subscription_id_purges_what_was_queued_and_credits_it() {
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.sent(conn);
    bench.say(conn, req("s"));
    bench.answer_page(page(&[1, 2], false));
    bench.say(conn, req("s"));
    let abandoned = bench.store.pages.lock().unwrap().remove(0);
    assert!(
        abandoned.is_closed(),
        "the old history is dropped in the midst of its read"
    );
    bench.answer_page(page(&[3], true));
    let frames = bench.sent(conn);
    assert_eq!(frames, ["[\"EVENT\",\"s\",3]", "[\"EOSE\",\"s\"]"]);
}

#[test]
fn every_operation_gets_one_answer_even_if_its_task_dies() {
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.sent(conn);
    let event = note("x");
    let id = event.id;
    bench.say(conn, ClientMessage::Event(Box::new(event)));
    let credits = bench.links.credits.load(Ordering::SeqCst);
    drop(bench.store.submits.lock().unwrap().remove(0));
    bench.settle();
    let frames = bench.sent(conn);
    assert_eq!(frames.len(), 1);
    assert!(
        frames[0].starts_with(&format!("[\"OK\",\"{id}\",false,\"error: ")),
        "{frames:?}"
    );
    assert_eq!(bench.links.credits.load(Ordering::SeqCst), credits + 1);

    bench.say(conn, req("s"));
    drop(bench.store.pages.lock().unwrap().remove(0));
    bench.settle();
    let frames = bench.sent(conn);
    assert_eq!(frames.len(), 1);
    assert!(
        frames[0].starts_with("[\"CLOSED\",\"s\",\"error: "),
        "{frames:?}"
    );
    assert_eq!(bench.open_histories(), 0);
}

#[test]
fn a_flood_of_messages_does_not_keep_an_answer_waiting() {
    let mut bench = Bench::new(Profile::Open);
    let (writer, flooder) = (bench.connect(), bench.connect());
    bench.sent(writer);
    bench.say(writer, ClientMessage::Event(Box::new(note("x"))));
    let give = bench.store.submits.lock().unwrap().remove(0);
    for number in 0..200 {
        let message = Ok(close(&number.to_string()));
        let handed_in = bench.handle.message(flooder, message).now_or_never();
        handed_in.expect("there is room");
    }
    let credits_before = bench.links.credits.load(Ordering::SeqCst);
    give.send(stored()).expect("the task waits");
    let mut context = Context::from_waker(Waker::noop());
    for task in &mut bench.tasks {
        assert!(task.as_mut().poll(&mut context).is_ready());
    }
    bench.tasks.clear();
    assert!(bench.driver.as_mut().poll(&mut context).is_pending());
    assert_eq!(bench.sent(writer).len(), 1, "the OK is out after one turn");
    let flood_taken = bench.links.credits.load(Ordering::SeqCst) - credits_before - 1;
    assert!(flood_taken < 200, "the thread is given back in between");
    bench.settle();
    assert_eq!(
        bench.links.credits.load(Ordering::SeqCst),
        credits_before + 201
    );
}

#[test]
fn a_deadline_is_kept_without_any_input() {
    let mut bench = Bench::new(Profile::Workspace);
    let conn = bench.connect();
    bench.clock.mono_ms.store(9_999, Ordering::SeqCst);
    bench.settle();
    assert!(bench.links.closed.lock().unwrap().is_empty());
    bench.clock.mono_ms.store(10_000, Ordering::SeqCst);
    bench.settle();
    let closed = bench.links.closed.lock().unwrap().clone();
    assert_eq!(closed, BTreeMap::from([(conn, CloseReason::AuthTimeout)]));
    assert_eq!(
        bench.notes.snapshot().get(&Note::ConnectionClosed),
        Some(&1)
    );
}

#[test]
fn a_request_is_answered_and_a_client_that_left_disturbs_nothing() {
    let mut bench = Bench::new(Profile::Open);
    let handle = bench.handle.clone();
    let ask = || {
        let request = Request::Count(vec![Filter::default()]);
        Box::pin(handle.request(community(), BTreeSet::new(), request))
    };
    let (mut first, mut second) = (ask(), ask());
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    bench.settle();
    drop(first);
    let waiting = std::mem::take(&mut *bench.store.queries.lock().unwrap());
    for (count, give) in (41..).zip(waiting) {
        give.send(Ok(QueryAnswer::Count(count)))
            .expect("the task waits");
    }
    bench.settle();
    assert_eq!((&mut second).now_or_never(), Some(Ok(Reply::Count(42))));
}

#[test]
fn a_stop_closes_every_connection_and_waits_for_the_write_in_flight() {
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.say(conn, ClientMessage::Event(Box::new(note("x"))));
    let handle = bench.handle.clone();
    bench.hand_in(handle.stop(5_000));
    let closed = bench.links.closed.lock().unwrap().clone();
    assert_eq!(closed, BTreeMap::from([(conn, CloseReason::Restarting)]));
    bench.hand_in(handle.disconnected(conn));
    assert!(!bench.ended, "a write is in flight");
    bench.answer_submit(stored());
    assert!(bench.ended);
    let request = Request::Count(vec![Filter::default()]);
    let late = handle.request(community(), BTreeSet::new(), request);
    assert_eq!(late.now_or_never(), Some(Err(super::Stopped)));
}

#[test]
fn a_stop_does_not_wait_longer_than_its_grace() {
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.say(conn, ClientMessage::Event(Box::new(note("x"))));
    let handle = bench.handle.clone();
    bench.hand_in(handle.stop(5_000));
    bench.clock.mono_ms.store(4_999, Ordering::SeqCst);
    bench.settle();
    assert!(!bench.ended);
    bench.clock.mono_ms.store(5_000, Ordering::SeqCst);
    bench.settle();
    assert!(bench.ended);
}
