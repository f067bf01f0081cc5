//! Signature checks on all cores. A check costs more than everything else a message needs together, so it has threads of its
//! own; who asks keeps the order of its messages. What a wrong signature means to a client is decided where messages are read.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use holdfast_core::nostr::{Event, EventError, Verifier};
use tokio::sync::{mpsc, oneshot};

/// Checks that wait for a thread. At about 36 µs each and on two cores the last one waits some 5 ms; who finds no room waits.
const WAITING_MAX: usize = 256;

/// An event that was checked: right, or what is wrong with it.
pub type Checked = Result<Box<Event>, (Box<Event>, EventError)>;

struct Job {
    event: Box<Event>,
    checked: oneshot::Sender<Checked>,
}

/// A pool of checking threads. They end when the last copy is dropped.
#[derive(Clone, Debug)]
pub struct VerifyPool {
    jobs: mpsc::Sender<Job>,
}

impl VerifyPool {
    /// Starts one thread per core.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub fn start() -> std::io::Result<VerifyPool> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..threads {
            let waiting = Arc::clone(&waiting);
            thread::Builder::new()
                .name(format!("verify-{number}"))
                .spawn(move || check_all(&waiting))?;
        }
        Ok(VerifyPool { jobs })
    }

    /// Whether the event's id is right and its author signed it; gives the event back in any case.
    ///
    /// # Errors
    /// [`EventError::WrongId`] or [`EventError::BadSignature`], with the event.
    pub async fn verify(&self, event: Box<Event>) -> Checked {
        let (checked, result) = oneshot::channel();
        let sent = self.jobs.send(Job { event, checked }).await;
        assert!(sent.is_ok(), "the threads live as long as this sender");
        result
            .await
            .expect("a thread answers every job it takes: a check does not panic")
    }
}

fn check_all(waiting: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        // One thread waits for the next job, the others for the lock; the check itself is outside.
        let job = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .blocking_recv();
        let Some(Job { event, checked }) = job else {
            return;
        };
        let result = match event.verify(&Verifier) {
            Ok(()) => Ok(event),
            Err(error) => Err((event, error)),
        };
        // An error says that the connection has gone.
        let _ = checked.send(result);
    }
}
