//! Syncs through the driver: initial sets page by page, ahead of slow readers, and their ends. How the spool divides its bytes
//! is tested beside it.

use holdfast_core::channel::{Channel, ChannelType, Visibility};
use holdfast_core::ids::{ArtifactId, ChannelId, Uuid};
use holdfast_core::limits::{SEND_QUEUE_BYTES_DEFAULT, SYNC_SNAPSHOTS_MAX};
use holdfast_core::nostr::{ArtifactFilter, ArtifactView};
use holdfast_core::rules;
use holdfast_core::sync::{AccessRows, SnapshotFacts, SyncRow};

use super::*;

/// Bytes of an event that leaves no room for another page in a queue of the default size.
const HUGE_BYTES: usize = SEND_QUEUE_BYTES_DEFAULT - 100_000;

fn channel() -> ChannelId {
    ChannelId(Uuid::from_bytes([2; 16]).expect("not nil"))
}

fn sync_req(name: &str) -> ClientMessage {
    let named = BTreeSet::from([channel().to_string()]);
    ClientMessage::ArtifactReq {
        sub: SubId::new(name).expect("short"),
        filter: Ok(ArtifactFilter {
            view: ArtifactView::Current,
            predicates: BTreeMap::from([("h".to_owned(), named)]),
            limit: None,
            offset: None,
            kinds_given: false,
        }),
    }
}

/// A page with one row for each text.
fn sync_page(first: u8, texts: &[&str], is_last: bool) -> SyncPage {
    let row = |(number, json): (u8, &&str)| SyncRow {
        artifact: ArtifactId(Uuid::from_bytes([number; 16]).expect("not nil")),
        home: channel(),
        event: EventId::from_bytes([number; 32]),
        json: (*json).into(),
    };
    let stored = Channel {
        id: channel(),
        channel_type: ChannelType::from_stored("stream"),
        visibility: Visibility::Open,
        unlisted: false,
        archived: false,
        deleted: false,
        created_at: 0,
        access_stamp: Position(1),
        creator: None,
        name: String::new(),
        about: String::new(),
        topic: String::new(),
        purpose: String::new(),
    };
    let facts = SnapshotFacts {
        access: AccessRows {
            channels: BTreeMap::from([(channel(), stored)]),
            members: BTreeMap::new(),
        },
        cut: Cut::Position(Position(9)),
    };
    SyncPage {
        rows: (first..).zip(texts).map(row).collect(),
        is_last,
        opened: (first == 1).then_some(facts),
        store: StoreGeneration::default(),
    }
}

impl Bench {
    fn answer_sync(&mut self, page: SyncPage) {
        let give = self.store.sync_pages.lock().unwrap().remove(0);
        give.send(Ok(page)).expect("the task waits");
        self.settle();
    }

    fn open_syncs(&self) -> usize {
        self.store.syncs_open.load(Ordering::SeqCst)
    }

    fn wanted_pages(&self) -> usize {
        self.store.sync_pages.lock().unwrap().len()
    }

    /// Lets everything leave that waits for a connection.
    fn drain(&mut self, conn: ConnId) -> Vec<String> {
        let (mut texts, mut left) = (Vec::new(), Tally::default());
        {
            let mut queues = self.links.queues.lock().unwrap();
            let queue = queues.entry(conn).or_default();
            while let Some(frame) = queue.pop() {
                left.bytes += frame.len_bytes();
                left.frames += 1;
                texts.push(frame.to_text());
            }
        }
        let handle = self.handle.clone();
        self.hand_in(handle.drained(conn, left));
        texts
    }
}

#[test]
fn an_initial_set_is_sent_page_by_page_and_ends_with_eose() {
    rules!("AR-SYNC-2h");
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.drain(conn);
    bench.say(conn, sync_req("s"));
    assert_eq!((bench.open_syncs(), bench.wanted_pages()), (1, 1));
    bench.answer_sync(sync_page(1, &["1", "2"], false));
    bench.answer_sync(sync_page(3, &["3"], true));
    let expected = [
        "[\"EVENT\",\"s\",1]",
        "[\"EVENT\",\"s\",2]",
        "[\"EVENT\",\"s\",3]",
        "[\"EOSE\",\"s\"]",
    ];
    assert_eq!(bench.drain(conn), expected);
    assert_eq!(bench.open_syncs(), 0, "the last page ends the snapshot");
}

#[test]
fn a_reader_that_takes_nothing_holds_no_snapshot() {
    rules!("AR-SYNC-2k");
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.drain(conn);
    bench.say(conn, sync_req("s"));
    let huge = "1".repeat(HUGE_BYTES);
    bench.answer_sync(sync_page(1, &[&huge], false));
    bench.answer_sync(sync_page(2, &["2"], false));
    bench.answer_sync(sync_page(3, &["3"], true));
    assert_eq!(bench.open_syncs(), 0, "all was read ahead");
    assert_eq!(bench.drain(conn).len(), 1, "the rest waits for room");
    let rest = [
        "[\"EVENT\",\"s\",2]",
        "[\"EVENT\",\"s\",3]",
        "[\"EOSE\",\"s\"]",
    ];
    assert_eq!(bench.drain(conn), rest);
}

#[test]
fn close_ends_an_initial_read_at_once_and_frees_its_place() {
    rules!("AR-SYNC-8d");
    let mut bench = Bench::new(Profile::Open);
    // A queue has room for the pages of few syncs, so each has a connection of its own.
    let conns: Vec<ConnId> = (0..=SYNC_SNAPSHOTS_MAX)
        .map(|_| {
            let conn = bench.connect();
            bench.drain(conn);
            bench.say(conn, sync_req("s"));
            conn
        })
        .collect();
    assert_eq!(bench.open_syncs(), SYNC_SNAPSHOTS_MAX, "the last one waits");
    assert_eq!(bench.wanted_pages(), SYNC_SNAPSHOTS_MAX);
    bench.say(conns[0], close("s"));
    let pages = bench.store.sync_pages.lock().unwrap();
    let ended = pages.iter().filter(|page| page.is_closed()).count();
    assert_eq!(
        (ended, pages.len()),
        (1, SYNC_SNAPSHOTS_MAX + 1),
        "one read is dropped in its midst, the waiting one begins"
    );
    drop(pages);
    assert_eq!(bench.open_syncs(), SYNC_SNAPSHOTS_MAX);
    assert!(bench.drain(conns[0]).is_empty(), "nothing answers a CLOSE");
}

#[test]
fn a_dead_task_ends_its_sync_and_frees_its_place() {
    rules!("AR-SYNC-2l", "AR-SYNC-8a");
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.drain(conn);
    bench.say(conn, sync_req("s"));
    drop(bench.store.sync_pages.lock().unwrap().remove(0));
    bench.settle();
    assert_eq!(bench.drain(conn), ["[\"CLOSED\",\"s\",\"error: store\"]"]);
    assert_eq!(bench.open_syncs(), 0);
}

#[test]
fn a_task_that_dies_reading_ahead_fails_the_next_page() {
    rules!("AR-SYNC-2l", "AR-SYNC-2m");
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.drain(conn);
    bench.say(conn, sync_req("s"));
    let huge = "1".repeat(HUGE_BYTES);
    bench.answer_sync(sync_page(1, &[&huge], false));
    drop(bench.store.sync_pages.lock().unwrap().remove(0));
    bench.settle();
    assert_eq!(bench.open_syncs(), 0);
    assert_eq!(bench.drain(conn).len(), 1, "no page is asked for until now");
    assert_eq!(bench.drain(conn), ["[\"CLOSED\",\"s\",\"error: store\"]"]);
}

#[test]
fn the_end_of_the_driver_ends_every_initial_read() {
    let mut bench = Bench::new(Profile::Open);
    let conn = bench.connect();
    bench.drain(conn);
    bench.say(conn, sync_req("s"));
    assert_eq!(bench.open_syncs(), 1);
    bench.driver = Box::pin(std::future::ready(()));
    bench.settle();
    assert_eq!(bench.open_syncs(), 0);
}
