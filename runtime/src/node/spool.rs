//! The initial read of one sync, ahead of its reader. Pages are read as fast as the store gives them into a spool that all syncs
//! share, so that a snapshot closes at database speed and a slow reader does not hold it (AR-SYNC-2k). Only a full spool makes
//! a snapshot wait. What a page says and when one is wanted does not belong here.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use holdfast_core::limits::{FRAME_BYTES_MAX, SYNC_SPOOL_BYTES_MAX};
use holdfast_core::node::{Input, OpId, ReadFailure};
use holdfast_core::sync::SyncPage;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::answer::Answer;
use super::ports::{BoxFuture, SyncSnapshot};

type Page = Result<SyncPage, ReadFailure>;
type Opened = Result<Box<dyn SyncSnapshot>, ReadFailure>;

/// The bytes that pages read ahead may take, over all syncs of a process.
#[derive(Clone, Debug)]
pub(super) struct Spool {
    bytes: Arc<Semaphore>,
    bytes_max: usize,
}

impl Spool {
    /// A spool of this many bytes.
    pub(super) fn new(bytes_max: usize) -> Spool {
        let bytes_max = bytes_max.min(u32::MAX as usize);
        Spool {
            bytes: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
        }
    }

    /// Waits until the largest page fits.
    fn room(&self, page_bytes_max: usize) -> BoxFuture<OwnedSemaphorePermit> {
        let bytes = page_bytes_max.min(self.bytes_max);
        let count = u32::try_from(bytes).expect("the spool has at most that many bytes");
        let room = Arc::clone(&self.bytes).acquire_many_owned(count);
        Box::pin(async move { room.await.expect("this semaphore is never closed") })
    }
}

impl Default for Spool {
    fn default() -> Spool {
        Spool::new(SYNC_SPOOL_BYTES_MAX)
    }
}

/// Says that the snapshot is closed, once, also when the task that held it dies.
struct Closed {
    op: OpId,
    to: Option<mpsc::UnboundedSender<Input>>,
}

impl Closed {
    fn say(&mut self) {
        if let Some(to) = self.to.take() {
            // An error says that the driver has ended; nobody counts places any more.
            let _ = to.send(Input::SnapshotClosed { op: self.op });
        }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.say();
    }
}

/// A page and the room it takes in the spool; a page that its reader waited for takes none.
struct Spooled {
    page: Page,
    _room: Option<OwnedSemaphorePermit>,
}

/// Reads one initial set ahead of its reader and hands one page over for each want; the first page is wanted from the start.
/// Ends after the last page, or when the wants end; the snapshot ends with it at once, also in the midst of a statement.
pub(super) async fn read_sync(
    op: OpId,
    page_bytes_max: usize,
    open: impl Future<Output = Opened> + Send + 'static,
    mut wants: mpsc::Receiver<()>,
    spool: Spool,
    answers: mpsc::UnboundedSender<Input>,
) {
    // Declared first and so dropped last: a place is reported free only after its snapshot is gone.
    let mut closed = Closed {
        op,
        to: Some(answers.clone()),
    };
    let owe = || {
        let page = Err(ReadFailure::Store);
        Answer::new(&answers, Input::SyncPage { op, page })
    };
    let largest = page_bytes_max + FRAME_BYTES_MAX;
    let mut owed = Some(owe());
    let mut ready: VecDeque<Spooled> = VecDeque::new();
    let mut idle: Option<Box<dyn SyncSnapshot>> = None;
    let mut held: Option<OwnedSemaphorePermit> = None;
    let mut room: Option<BoxFuture<OwnedSemaphorePermit>> = None;
    let first: BoxFuture<(Option<Box<dyn SyncSnapshot>>, Page)> = Box::pin(async move {
        match open.await {
            Ok(snapshot) => read(snapshot).await,
            Err(failure) => (None, Err(failure)),
        }
    });
    let mut reading = Some(first);
    loop {
        if let Some(mut answer) = owed.take() {
            match ready.pop_front() {
                Some(Spooled { page, .. }) => {
                    let is_last = page.as_ref().map_or(true, |page| page.is_last);
                    answer.give(Input::SyncPage { op, page });
                    if is_last {
                        return;
                    }
                }
                None => owed = Some(answer),
            }
        }
        if owed.is_some() && idle.is_some() {
            // The reader waits, and its connection has promised the room.
            room = None;
            reading = idle.take().map(|snapshot| Box::pin(read(snapshot)) as _);
        } else if idle.is_some() && room.is_none() {
            room = Some(spool.room(largest));
        }
        tokio::select! {
            biased;
            want = wants.recv() => match want {
                Some(()) => owed = Some(owe()),
                None => {
                    if let Some(mut answer) = owed.take() {
                        answer.withdraw();
                    }
                    return;
                }
            },
            (snapshot, page) = wait_for(&mut reading) => {
                reading = None;
                idle = snapshot;
                if idle.is_none() {
                    closed.say();
                }
                let room = held.take().map(|room| give_back(room, &page));
                ready.push_back(Spooled { page, _room: room });
            }
            permit = wait_for(&mut room) => {
                room = None;
                held = Some(permit);
                reading = idle.take().map(|snapshot| Box::pin(read(snapshot)) as _);
            }
        }
    }
}

/// Keeps of the promised room what the page really takes.
fn give_back(mut room: OwnedSemaphorePermit, page: &Page) -> OwnedSemaphorePermit {
    let rows = page.as_ref().map(|page| page.rows.as_slice());
    let bytes: usize = rows
        .unwrap_or_default()
        .iter()
        .map(|row| row.json.len())
        .sum();
    let spare = room.num_permits().saturating_sub(bytes);
    drop(room.split(spare));
    room
}

async fn wait_for<T>(future: &mut Option<BoxFuture<T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn read(mut snapshot: Box<dyn SyncSnapshot>) -> (Option<Box<dyn SyncSnapshot>>, Page) {
    let page = snapshot.next().await;
    let is_open = page.as_ref().is_ok_and(|page| !page.is_last);
    (is_open.then_some(snapshot), page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use holdfast_core::ids::{ArtifactId, ChannelId};
    use holdfast_core::nostr::EventId;
    use holdfast_core::rules;
    use holdfast_core::sync::{StoreGeneration, SyncRow};
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    const OP: OpId = OpId(7);
    const UUID: &str = "9b353519-f4fe-4757-aef4-bec6cc0ae54c";

    impl Spool {
        fn free_bytes(&self) -> usize {
            self.bytes.available_permits()
        }
    }

    /// A snapshot whose pages come when the test gives them.
    struct Fake {
        pages: Arc<Mutex<VecDeque<Page>>>,
        open: Arc<AtomicBool>,
    }

    impl SyncSnapshot for Fake {
        fn next(&mut self) -> BoxFuture<Page> {
            let pages = Arc::clone(&self.pages);
            Box::pin(std::future::poll_fn(move |_| {
                let next = pages.lock().expect("no test panics with it").pop_front();
                next.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
            }))
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            self.open.store(false, Ordering::SeqCst);
        }
    }

    fn page(bytes: usize, is_last: bool) -> Page {
        let row = SyncRow {
            artifact: UUID.parse::<ArtifactId>().expect("a UUID"),
            home: UUID.parse::<ChannelId>().expect("a UUID"),
            event: EventId::from_bytes([1; 32]),
            json: "x".repeat(bytes).into(),
        };
        Ok(SyncPage {
            rows: vec![row],
            is_last,
            opened: None,
            store: StoreGeneration(0),
        })
    }

    struct Bench {
        task: Pin<Box<dyn Future<Output = ()>>>,
        pages: Arc<Mutex<VecDeque<Page>>>,
        open: Arc<AtomicBool>,
        want: Option<mpsc::Sender<()>>,
        answers: mpsc::UnboundedReceiver<Input>,
        spool: Spool,
    }

    impl Bench {
        fn new(spool_bytes: usize) -> Bench {
            let spool = Spool::new(spool_bytes);
            let pages = Arc::new(Mutex::new(VecDeque::new()));
            let open = Arc::new(AtomicBool::new(true));
            let (want, wants) = mpsc::channel(1);
            let (give, answers) = mpsc::unbounded_channel();
            let snapshot: Box<dyn SyncSnapshot> = Box::new(Fake {
                pages: Arc::clone(&pages),
                open: Arc::clone(&open),
            });
            let opened = std::future::ready(Ok(snapshot));
            let task = read_sync(OP, 1_000, opened, wants, spool.clone(), give);
            Bench {
                task: Box::pin(task),
                pages,
                open,
                want: Some(want),
                answers,
                spool,
            }
        }

        fn give(&mut self, page: Page) {
            self.pages.lock().expect("whole").push_back(page);
        }

        fn run(&mut self) -> bool {
            self.task.as_mut().now_or_never().is_some()
        }

        fn want(&mut self) {
            let want = self.want.as_ref().expect("not ended");
            want.try_send(()).expect("one want at a time");
        }

        /// Pages and closed notices that came, as `p` and `c`.
        fn came(&mut self) -> String {
            std::iter::from_fn(|| self.answers.try_recv().ok())
                .map(|input| match input {
                    Input::SyncPage { page: Ok(_), .. } => 'p',
                    Input::SyncPage { page: Err(_), .. } => 'f',
                    Input::SnapshotClosed { op: OP } => 'c',
                    other => panic!("not of this task: {other:?}"),
                })
                .collect()
        }

        fn is_open(&self) -> bool {
            self.open.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn a_snapshot_closes_before_a_slow_reader_got_its_pages() {
        rules!("AR-SYNC-2k");
        let mut bench = Bench::new(10_000_000);
        for is_last in [false, false, true] {
            bench.give(page(500, is_last));
        }
        assert!(!bench.run());
        assert_eq!(bench.came(), "pc", "one page was wanted, all were read");
        assert!(!bench.is_open());
        assert_eq!(bench.spool.free_bytes(), 10_000_000 - 1_000);
        bench.want();
        assert!(!bench.run());
        bench.want();
        assert!(bench.run(), "the task ends with its last page");
        assert_eq!(bench.came(), "pp");
        drop(bench.task);
        assert_eq!(bench.spool.free_bytes(), 10_000_000);
    }

    #[test]
    fn a_full_spool_makes_the_snapshot_wait_for_its_reader() {
        rules!("AR-SYNC-8c");
        // Room for one page of any size and not for a second one.
        let mut bench = Bench::new(FRAME_BYTES_MAX + 1_000);
        for is_last in [false, false, false, true] {
            bench.give(page(500, is_last));
        }
        assert!(!bench.run());
        assert_eq!(bench.came(), "p");
        assert!(bench.is_open());
        assert_eq!(bench.pages.lock().expect("whole").len(), 2, "one ahead");
        bench.want();
        bench.run();
        assert_eq!(bench.came(), "p");
        assert_eq!(bench.pages.lock().expect("whole").len(), 1, "one ahead");
    }

    #[test]
    fn a_reader_that_waits_needs_no_room_in_the_spool() {
        let mut bench = Bench::new(FRAME_BYTES_MAX + 1_000);
        let other = bench.spool.room(usize::MAX).now_or_never();
        assert!(other.is_some() && bench.spool.free_bytes() == 0);
        for is_last in [false, false, true] {
            bench.give(page(500, is_last));
        }
        for turn in 0..2 {
            assert!(!bench.run());
            assert_eq!(bench.came(), "p", "turn {turn}");
            bench.want();
        }
        assert!(bench.run());
        assert_eq!(bench.came(), "cp");
    }

    #[test]
    fn an_end_drops_the_snapshot_and_what_was_read_ahead_at_once() {
        rules!("AR-SYNC-8d");
        let mut bench = Bench::new(10_000_000);
        bench.give(page(500, false));
        bench.give(page(500, false));
        assert!(!bench.run());
        assert_eq!(bench.came(), "p");
        bench.want = None;
        assert!(bench.run());
        assert_eq!(bench.came(), "c", "no page after the end");
        assert!(!bench.is_open());
        assert_eq!(bench.spool.free_bytes(), 10_000_000);
    }

    #[test]
    fn a_task_that_dies_answers_with_a_failure_and_frees_its_place() {
        let mut bench = Bench::new(10_000_000);
        assert!(!bench.run());
        bench.task = Box::pin(std::future::ready(()));
        assert_eq!(bench.came(), "fc");
        assert!(!bench.is_open());
    }

    #[test]
    fn a_failure_is_the_last_page() {
        rules!("AR-SYNC-2l");
        let mut bench = Bench::new(10_000_000);
        bench.give(page(500, false));
        bench.give(Err(ReadFailure::SnapshotLost));
        assert!(!bench.run());
        assert_eq!(bench.came(), "pc");
        bench.want();
        assert!(bench.run());
        assert_eq!(bench.came(), "f");
    }
}
