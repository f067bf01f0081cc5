//! How fast durable events are taken, as a share of what one core can verify, in one run on one machine.
//!
//! Prints signature checks per second on one core; then, three times for ten seconds, durable EVENTs per second over WebSocket:
//! 50 connections, each sending the next pre-signed kind 1 (300 bytes of content) after the OK of the one before, profile `open`;
//! then the ratio of the median to the checks, and the CPU seconds that the generator itself used.
//!
//! `cargo bench -p holdfast-tests --bench durable_events`. `HOLDFAST_BENCH_SECS` shortens a run.

use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt};
use holdfast_core::nostr::{Draft, Event, SecretKey, Verifier};
use holdfast_tests::relay::{Profile, RelayProcess};
use tokio_tungstenite::tungstenite::Message;

const CONNECTIONS: usize = 50;
const RUNS: usize = 3;
/// Events signed in advance for one run; a run that uses them up ends early and is divided by its real time.
const EVENTS_PER_RUN: usize = 200_000;
const CONTENT_BYTES: usize = 300;

fn main() {
    // `cargo test --benches` passes `--test`: then the bench only shows that it runs.
    let smoke = std::env::args().any(|arg| arg == "--test");
    let secs = match std::env::var("HOLDFAST_BENCH_SECS") {
        Ok(text) => text
            .parse()
            .expect("HOLDFAST_BENCH_SECS is a number of seconds"),
        Err(_) if smoke => 1,
        Err(_) => 10,
    };
    let per_run = if smoke { 5_000 } else { EVENTS_PER_RUN };
    println!("signing {} events in advance", per_run * RUNS);
    let frames = sign(per_run * RUNS);

    let checks = checks_per_second(if smoke { 2_000 } else { 50_000 });
    println!("signature checks per second on one core: {checks:.0}");

    let relay = RelayProcess::start(Profile::Open, &[]);
    let url = relay.url().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let mut rates = Vec::new();
    for (run, frames) in frames.chunks(per_run).enumerate() {
        let cpu_before = cpu_secs();
        let (taken, elapsed) = runtime.block_on(drive(&url, frames, Duration::from_secs(secs)));
        let rate = taken as f64 / elapsed.as_secs_f64();
        println!(
            "run {}: {taken} durable events in {:.2} s = {rate:.0} per second (generator used {:.1} CPU seconds)",
            run + 1,
            elapsed.as_secs_f64(),
            cpu_secs() - cpu_before,
        );
        rates.push(rate);
    }
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    println!("median: {median:.0} durable events per second");
    println!(
        "ratio of durable events to signature checks of one core: {:.2} (target 0.30)",
        median / checks
    );
}

/// Pre-signed EVENT frames, made on all cores.
fn sign(count: usize) -> Vec<String> {
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let parts: Vec<Vec<String>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || {
                    (worker..count)
                        .step_by(workers)
                        .map(|n| format!(r#"["EVENT",{}]"#, event(n, now).to_json()))
                        .collect()
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| handle.join().expect("a signing thread ends"))
            .collect()
    });
    parts.into_iter().flatten().collect()
}

fn event(n: usize, created_at: u64) -> Event {
    let key = SecretKey::from_bytes([(n % CONNECTIONS) as u8 + 1; 32]).expect("a valid secret key");
    let content = format!("{n:0>CONTENT_BYTES$}");
    Draft {
        created_at,
        kind: 1,
        tags: Vec::new(),
        content,
    }
    .sign(&key)
}

fn checks_per_second(count: usize) -> f64 {
    let events: Vec<Event> = (0..count.min(2_000))
        .map(|n| event(n, 1_700_000_000))
        .collect();
    let began = Instant::now();
    for n in 0..count {
        events[n % events.len()]
            .verify(&Verifier)
            .expect("a fresh signature verifies");
    }
    count as f64 / began.elapsed().as_secs_f64()
}

async fn drive(url: &str, frames: &[String], limit: Duration) -> (usize, Duration) {
    let per_connection = frames.len() / CONNECTIONS;
    let mut sockets = Vec::new();
    for _ in 0..CONNECTIONS {
        let (socket, _) = tokio_tungstenite::connect_async(url)
            .await
            .expect("the relay accepts a connection");
        sockets.push(socket);
    }
    let began = Instant::now();
    let tasks = sockets.into_iter().zip(frames.chunks(per_connection)).map(
        |(mut socket, frames)| async move {
            let mut taken = 0usize;
            for frame in frames {
                if began.elapsed() >= limit {
                    break;
                }
                socket
                    .send(Message::text(frame.as_str()))
                    .await
                    .expect("the relay reads");
                loop {
                    let answer = socket
                        .next()
                        .await
                        .expect("the connection lives")
                        .expect("a frame arrives");
                    let Message::Text(text) = answer else {
                        continue;
                    };
                    if text.starts_with(r#"["OK""#) {
                        assert!(text.contains(",true,"), "refused: {text}");
                        break;
                    }
                }
                taken += 1;
            }
            let _ = socket.close(None).await;
            taken
        },
    );
    let taken: usize = futures::future::join_all(tasks).await.into_iter().sum();
    (taken, began.elapsed())
}

/// User and system CPU seconds of this process, from /proc; 0 where there is none.
fn cpu_secs() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else {
        return 0.0;
    };
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|text| text.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    // Fields 14 and 15 of proc(5), counted after the name; Linux reports them in hundredths of a second.
    (ticks(11) + ticks(12)) / 100.0
}
