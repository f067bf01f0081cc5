//! One run behind a wall: a panic becomes a broken outcome of that seed. Nothing else is decided here.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::goals;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::tape::Tape;

/// What runs and judges one simulated run.
pub type Run = fn(&Options, Tape) -> Outcome;

thread_local! {
    /// Where and why this thread panicked; none while no run is under way.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs to the end; a panic is told in [`Outcome::broken`].
pub fn run_caught(run: Run, options: &Options, tape: Tape) -> Outcome {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let is_mine = CAUGHT.with_borrow_mut(|caught| {
                if let Some(text) = caught {
                    *text = info.to_string().replace('\n', " ");
                }
                caught.is_some()
            });
            if !is_mine {
                before(info);
            }
        }));
    });
    CAUGHT.set(Some(String::new()));
    let result = catch_unwind(AssertUnwindSafe(|| run(options, tape)));
    let caught = CAUGHT.take().unwrap_or_default();
    result.unwrap_or_else(|_| broken(options, format!("panic: {caught}")))
}

/// The outcome of a run that left nothing but a reason.
pub fn broken(options: &Options, reason: String) -> Outcome {
    Outcome {
        options: options.clone(),
        tape: Vec::new(),
        history: Vec::new(),
        trace_hash: String::new(),
        verdict: BTreeMap::new(),
        broken: Some(reason),
        goals: goals::none_reached(),
        faults: BTreeMap::new(),
        writes: 0,
        eoses: 0,
        competing_edits: 0,
        resyncs: BTreeMap::new(),
        simulated_ms: 0,
        steps: 0,
    }
}
