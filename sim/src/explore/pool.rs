//! Worker threads that run seeds. Results come back in the order of the seeds, whatever order the threads finish in, so that one
//! thread and many tell the same story. What a seed means belongs elsewhere.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Seeds that may be started before the oldest unfinished one is done; bounds the results that wait.
const AHEAD_PER_JOB: u64 = 64;

/// How a campaign is worked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The first seed.
    pub from: u64,
    /// How many seeds.
    pub seeds: u64,
    /// Worker threads, at least 1.
    pub jobs: usize,
    /// No seed is started after this time; none is no bound.
    pub time: Option<Duration>,
    /// A seed that takes longer than this hangs.
    pub stall: Duration,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every seed was run, or the time was up.
    Done,
    /// The receiver of the results wanted no more.
    Stopped,
    /// This seed hangs. Its thread cannot be ended and lives until the process ends.
    Hangs(u64),
}

/// What the threads share.
struct Desk {
    state: Mutex<State>,
    moved: Condvar,
    end: u64,
    ahead: u64,
    deadline: Option<Instant>,
}

struct State {
    next: u64,
    /// Every seed below it was handed to the receiver.
    done: u64,
    running: BTreeMap<u64, Instant>,
    is_stopped: bool,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No thread can panic while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next seed for a worker; none when there is no more to do.
    fn take(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            let is_late = self.deadline.is_some_and(|at| Instant::now() >= at);
            if state.is_stopped || is_late || state.next >= self.end {
                return None;
            }
            if state.next - state.done < self.ahead {
                let seed = state.next;
                state.next += 1;
                state.running.insert(seed, Instant::now());
                return Some(seed);
            }
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finished(&self, seed: u64) {
        self.lock().running.remove(&seed);
    }

    /// The seed that has run for too long, if any.
    fn hanging(&self, stall: Duration) -> Option<u64> {
        let state = self.lock();
        let is_over = |began: &Instant| began.elapsed() > stall;
        state
            .running
            .iter()
            .find(|(_, began)| is_over(began))
            .map(|(seed, _)| *seed)
    }

    fn handed_over(&self, below: u64) {
        self.lock().done = below;
        self.moved.notify_all();
    }

    fn stop(&self) {
        self.lock().is_stopped = true;
        self.moved.notify_all();
    }
}

/// Runs every seed of the plan and gives each result to `receive`, in the order of the seeds.
pub fn work<T: Send + 'static>(
    plan: Plan,
    run: impl Fn(u64) -> T + Send + Sync + 'static,
    mut receive: impl FnMut(u64, T) -> ControlFlow<()>,
) -> Ended {
    let jobs = plan.jobs.max(1);
    let desk = Arc::new(Desk {
        state: Mutex::new(State {
            next: plan.from,
            done: plan.from,
            running: BTreeMap::new(),
            is_stopped: false,
        }),
        moved: Condvar::new(),
        end: plan.from.saturating_add(plan.seeds),
        ahead: AHEAD_PER_JOB * jobs as u64,
        deadline: plan.time.map(|time| Instant::now() + time),
    });
    let (results, inbox) = channel();
    let run = Arc::new(run);
    let workers: Vec<_> = (0..jobs)
        .map(|_| {
            let (desk, run, results) = (desk.clone(), run.clone(), results.clone());
            thread::spawn(move || worker(&desk, &*run, &results))
        })
        .collect();
    drop(results);
    let ended = collect(&desk, plan, &inbox, &mut receive);
    if !matches!(ended, Ended::Hangs(_)) {
        for worker in workers {
            // A worker catches the panics of its seeds; what is left ends it, and its seed has no result.
            let _ = worker.join();
        }
    }
    ended
}

fn worker<T>(desk: &Desk, run: &dyn Fn(u64) -> T, results: &Sender<(u64, T)>) {
    while let Some(seed) = desk.take() {
        let result = run(seed);
        desk.finished(seed);
        if results.send((seed, result)).is_err() {
            return;
        }
    }
}

fn collect<T>(
    desk: &Desk,
    plan: Plan,
    inbox: &Receiver<(u64, T)>,
    receive: &mut dyn FnMut(u64, T) -> ControlFlow<()>,
) -> Ended {
    let look = plan.stall.min(Duration::from_secs(1));
    let mut waiting = BTreeMap::new();
    let mut next = plan.from;
    loop {
        match inbox.recv_timeout(look) {
            Ok((seed, result)) => {
                waiting.insert(seed, result);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                // The workers are gone: every seed they took has its result, unless one ended with its thread.
                return match waiting.is_empty() && desk.lock().running.is_empty() {
                    true => Ended::Done,
                    false => Ended::Hangs(next),
                };
            }
        }
        while let Some(result) = waiting.remove(&next) {
            if receive(next, result).is_break() {
                desk.stop();
                return Ended::Stopped;
            }
            next += 1;
        }
        desk.handed_over(next);
        if let Some(seed) = desk.hanging(plan.stall) {
            desk.stop();
            return Ended::Hangs(seed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seeds: u64, jobs: usize) -> Plan {
        Plan {
            from: 10,
            seeds,
            jobs,
            time: None,
            stall: Duration::from_secs(60),
        }
    }

    fn order(plan: Plan) -> Vec<(u64, u64)> {
        let mut got = Vec::new();
        let slow_first = |seed: u64| {
            // Uneven work, so that later seeds are ready before earlier ones.
            let rounds = if seed.is_multiple_of(7) { 20_000 } else { 10 };
            (0..rounds).fold(seed, |sum: u64, n| sum.wrapping_mul(31).wrapping_add(n))
        };
        let ended = work(plan, slow_first, |seed, result| {
            got.push((seed, result));
            ControlFlow::Continue(())
        });
        assert_eq!(ended, Ended::Done);
        got
    }

    #[test]
    fn one_thread_and_many_give_the_same_results_in_the_same_order() {
        let one = order(plan(500, 1));
        assert_eq!(one.len(), 500);
        assert!(one.iter().map(|(seed, _)| *seed).eq(10..510));
        assert_eq!(one, order(plan(500, 4)));
    }

    #[test]
    fn a_receiver_can_stop_the_work_at_a_seed() {
        let mut got = Vec::new();
        let ended = work(
            plan(10_000, 3),
            |seed| seed,
            |seed, _| {
                got.push(seed);
                match seed {
                    15 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            },
        );
        assert_eq!(ended, Ended::Stopped);
        assert_eq!(got, vec![10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn a_seed_that_hangs_is_named_and_the_caller_goes_on() {
        let plan = Plan {
            stall: Duration::from_millis(50),
            ..plan(5, 2)
        };
        let run = |seed: u64| {
            if seed == 12 {
                loop {
                    thread::park();
                }
            }
        };
        let mut got = 0;
        let ended = work(plan, run, |_, ()| {
            got += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(ended, Ended::Hangs(12));
        assert_eq!(got, 2);
    }

    #[test]
    fn nothing_starts_after_the_time_is_up() {
        let plan = Plan {
            time: Some(Duration::ZERO),
            ..plan(5, 2)
        };
        let ended = work(plan, |_| (), |_, ()| ControlFlow::Continue(()));
        assert_eq!(ended, Ended::Done);
    }
}
