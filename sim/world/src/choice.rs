//! Where the decisions of the world come from: an argument, never chance of its own.

/// A source of choices; the simulator's tape is one.
pub trait Choice {
    /// One of `0..n`; `n` is at least 1. `what` names the decision, for whoever reads a recorded tape.
    fn choose(&mut self, what: &'static str, n: usize) -> usize;
}
