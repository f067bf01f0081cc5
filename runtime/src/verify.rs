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

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use holdfast_core::nostr::{Draft, SecretKey};

    fn event(content: String) -> Event {
        let key = SecretKey::from_bytes([9; 32]).expect("a key");
        let draft = Draft {
            created_at: 1,
            kind: 1,
            tags: Vec::new(),
            content,
        };
        draft.sign(&key)
    }

    #[tokio::test]
    async fn more_events_than_wait_at_once_each_get_their_own_verdict() {
        let pool = VerifyPool::start().expect("threads can be made");
        let events: Vec<Event> = (0..3 * WAITING_MAX)
            .map(|number| {
                let mut event = event(number.to_string());
                match number % 3 {
                    0 => {}
                    1 => event.content.push('x'),
                    _ => event.sig = event_of_another().sig,
                }
                event
            })
            .collect();
        let checks = events
            .iter()
            .cloned()
            .map(|event| pool.verify(Box::new(event)));
        for (number, (checked, event)) in join_all(checks).await.into_iter().zip(events).enumerate()
        {
            match (number % 3, checked) {
                (0, Ok(same)) => assert_eq!(*same, event),
                (1, Err((same, EventError::WrongId { .. })))
                | (2, Err((same, EventError::BadSignature))) => assert_eq!(*same, event),
                (_, other) => panic!("{number}: {other:?}"),
            }
        }
    }

    fn event_of_another() -> Event {
        event("of another".to_owned())
    }

    #[tokio::test]
    async fn who_stops_waiting_harms_nobody() {
        let pool = VerifyPool::start().expect("threads can be made");
        for number in 0..100 {
            let check = pool.verify(Box::new(event(number.to_string())));
            drop(tokio::time::timeout(std::time::Duration::ZERO, check).await);
        }
        let last = event("last".to_owned());
        assert_eq!(
            pool.verify(Box::new(last.clone())).await,
            Ok(Box::new(last))
        );
    }
}
