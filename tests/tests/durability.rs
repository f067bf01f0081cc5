//! What was acknowledged is there again, whatever end the process came to; and no acknowledgement leaves before its commit is on
//! the disk.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use holdfast_core::nostr::{Draft, EventId, SecretKey};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::strace::{Call, calls};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use tokio_tungstenite::tungstenite::Message;

const ROUNDS: usize = 50;
const WRITERS: usize = 6;
/// The kill comes after a number of acknowledgements below this, drawn per round.
const ACKS_BEFORE_KILL_MAX: usize = 120;
const SEED: u64 = 0x5eed_d15c;

/// A small generator, so that a printed seed repeats the moments of the kills (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Publishes one event after the other and notes each acknowledged id, until the connection breaks.
async fn write_until_killed(
    url: String,
    writer: usize,
    round: usize,
    acked: Arc<Mutex<BTreeSet<EventId>>>,
    acks: Arc<AtomicUsize>,
) {
    let key = SecretKey::from_bytes([writer as u8 + 1; 32]).expect("a valid secret key");
    let Ok((mut socket, _)) = tokio_tungstenite::connect_async(url).await else {
        return;
    };
    for n in 0.. {
        let draft = Draft {
            created_at: holdfast_tests::build::now(),
            kind: 1,
            tags: Vec::new(),
            content: format!("round {round} writer {writer} event {n}"),
        };
        let event = draft.sign(&key);
        let frame = format!(r#"["EVENT",{}]"#, event.to_json());
        if socket.send(Message::text(frame)).await.is_err() {
            return;
        }
        let wanted = format!(r#"["OK","{}",true,"#, event.id);
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) if text.starts_with(&wanted) => break,
                Some(Ok(Message::Text(text))) => {
                    assert!(!text.starts_with(r#"["OK""#), "refused: {text}");
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return,
            }
        }
        acked
            .lock()
            .expect("no writer panics with the lock")
            .insert(event.id);
        acks.fetch_add(1, Ordering::SeqCst);
    }
}

fn stored_ids(relay: &RelayProcess) -> BTreeSet<EventId> {
    let path = relay.data_dir().join("holdfast.sqlite");
    let db = Connection::open(path).expect("the database opens");
    let mut rows = db
        .prepare("SELECT id FROM event WHERE withheld IS NULL")
        .expect("events can be listed");
    let ids = rows
        .query_map([], |row| row.get::<_, Vec<u8>>(0))
        .expect("events can be listed");
    ids.map(|id| {
        let bytes = id.expect("an id").try_into().expect("32 bytes");
        EventId::from_bytes(bytes)
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_event_is_lost_in_fifty_kills_under_concurrent_writers() {
    println!("seed {SEED:#x}");
    let mut draw = Draw(SEED);
    let mut relay = RelayProcess::start(Profile::Open, &[]);
    let acked = Arc::new(Mutex::new(BTreeSet::new()));
    let mut with_writes_in_flight = 0;
    for round in 0..ROUNDS {
        let acks = Arc::new(AtomicUsize::new(0));
        let wanted = 1 + draw.below(ACKS_BEFORE_KILL_MAX);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let url = relay.url().to_owned();
                let (acked, acks) = (Arc::clone(&acked), Arc::clone(&acks));
                tokio::spawn(write_until_killed(url, writer, round, acked, acks))
            })
            .collect();
        let reached = async {
            while acks.load(Ordering::SeqCst) < wanted {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reached)
            .await
            .expect("the writers are acknowledged");
        relay.kill9();
        for writer in writers {
            writer.await.expect("no writer panics");
        }
        relay.restart();
        let stored = stored_ids(&relay);
        let acked = acked.lock().expect("no writer panics with the lock");
        let lost: Vec<_> = acked.difference(&stored).collect();
        assert!(
            lost.is_empty(),
            "round {round}: acknowledged and lost: {lost:?}"
        );
        with_writes_in_flight += usize::from(stored.len() > acked.len());
    }
    let total = acked.lock().expect("no writer panics with the lock").len();
    println!("{total} events acknowledged in {ROUNDS} rounds");
    assert!(
        total >= 20 * ROUNDS,
        "too few writes to prove anything: {total}"
    );
    assert!(
        with_writes_in_flight > 0,
        "no kill met a commit whose acknowledgement had not arrived: the kills come too late"
    );
}

/// Events written one after the other, then by several connections at once.
const TRACED_ALONE: usize = 20;
const TRACED_TOGETHER: usize = 40;

async fn publish_marked(url: String, range: std::ops::Range<usize>) -> Vec<(String, EventId)> {
    let (mut socket, _) = tokio_tungstenite::connect_async(url)
        .await
        .expect("the relay accepts a connection");
    let key = SecretKey::from_bytes([77; 32]).expect("a valid secret key");
    let mut done = Vec::new();
    for n in range {
        let mark = format!("mark-{n:05}-mark");
        let draft = Draft {
            created_at: holdfast_tests::build::now(),
            kind: 1,
            tags: Vec::new(),
            content: mark.clone(),
        };
        let event = draft.sign(&key);
        let frame = format!(r#"["EVENT",{}]"#, event.to_json());
        socket
            .send(Message::text(frame))
            .await
            .expect("the relay reads");
        let wanted = format!(r#"["OK","{}",true,"#, event.id);
        loop {
            match socket.next().await.expect("it lives").expect("a frame") {
                Message::Text(text) if text.starts_with(&wanted) => break,
                _ => {}
            }
        }
        done.push((mark, event.id));
    }
    done
}

/// For every acknowledged event: it was written into the log, a sync of the log began after that write ended, and that sync had
/// ended with success before the call that sent the OK began.
fn assert_synced_before_ok(trace: &[Call], events: &[(String, EventId)]) {
    let wal = "holdfast.sqlite-wal";
    for (mark, id) in events {
        let ok = trace
            .iter()
            .find(|call| {
                ["write", "sendto", "writev"].contains(&call.name.as_str())
                    && call.args.contains("OK")
                    && call.args.contains(&id.to_string())
            })
            .unwrap_or_else(|| panic!("no OK of {id} in the trace"));
        let written = trace
            .iter()
            .filter(|call| call.name == "pwrite64" && call.on_file(wal))
            .find(|call| call.args.contains(mark.as_str()))
            .unwrap_or_else(|| panic!("{mark} was never written into the log"));
        let written_at = written.ended.expect("the write ended");
        let synced = trace.iter().any(|call| {
            ["fdatasync", "fsync"].contains(&call.name.as_str())
                && call.on_file(wal)
                && call.result == Some(0)
                && call.began > written_at
                && call.ended.is_some_and(|ended| ended < ok.began)
        });
        assert!(synced, "the OK of {mark} left before its commit was synced");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_ok_leaves_before_the_sync_of_its_batch() {
    let relay = RelayProcess::start(Profile::Open, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trace");
    let mut strace = Command::new("strace")
        .args(["-f", "-y", "-s", "8192"])
        .args(["-e", "trace=pwrite64,fdatasync,fsync,write,sendto,writev"])
        .arg("-o")
        .arg(&file)
        .args(["-p", &relay.pid().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace can be started; ./test installs it");
    let mut lines = BufReader::new(strace.stderr.take().expect("a pipe")).lines();
    let attached = lines
        .by_ref()
        .map(|line| line.expect("a line of strace"))
        .find(|line| line.contains("attached") || line.contains("ptrace"))
        .expect("strace says something");
    assert!(attached.contains("attached"), "{attached}");
    let drained = std::thread::spawn(move || lines.count());
    let mut events = publish_marked(relay.url().to_owned(), 0..TRACED_ALONE).await;
    let tasks: Vec<_> = (0..4)
        .map(|part| {
            let each = TRACED_TOGETHER / 4;
            let first = TRACED_ALONE + part * each;
            tokio::spawn(publish_marked(relay.url().to_owned(), first..first + each))
        })
        .collect();
    for task in tasks {
        events.extend(task.await.expect("no writer panics"));
    }
    let pid = Pid::from_child(&strace);
    kill_process(pid, Signal::INT).expect("strace can be told to let go");
    strace.wait().expect("strace ends");
    drained.join().expect("the reader of strace's words ends");
    assert_eq!(events.len(), TRACED_ALONE + TRACED_TOGETHER);
    let text = std::fs::read_to_string(&file).expect("the trace can be read");
    assert_synced_before_ok(&calls(&text), &events);
}
