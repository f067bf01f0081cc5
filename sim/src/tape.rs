//! The tape of choices: the one place where a simulated run gets its decisions from. A seed makes a tape; a recorded tape can
//! be played again. Nothing else belongs here, and nothing else may choose.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

/// A source of choices that remembers them.
#[derive(Clone, Debug)]
pub struct Tape {
    rng: Pcg64,
    /// Choices to give first, in order.
    script: Vec<u32>,
    /// Every choice given, in order.
    taken: Vec<u32>,
}

impl Tape {
    /// A tape whose choices all come from the seed.
    pub fn from_seed(seed: u64) -> Tape {
        Tape {
            rng: Pcg64::seed_from_u64(seed),
            script: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// A tape that plays recorded choices and goes on with those of the seed when they are used up.
    pub fn replay(seed: u64, script: Vec<u32>) -> Tape {
        Tape {
            script,
            ..Tape::from_seed(seed)
        }
    }

    /// One of `0..n`. A recorded choice that is too large for this `n` is folded into it.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn choose(&mut self, n: usize) -> usize {
        assert!(n > 0, "a choice among nothing");
        let n = u32::try_from(n).expect("fewer than 2^32 things to choose from");
        let drawn = match self.script.get(self.taken.len()) {
            Some(recorded) => recorded % n,
            // The high half of a 64-bit product: even to within n / 2^32, and free of a loop whose length could vary.
            None => ((u64::from(self.rng.next_u32()) * u64::from(n)) >> 32) as u32,
        };
        self.taken.push(drawn);
        drawn as usize
    }

    /// True in about `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        percent > 0 && self.choose(100) < percent as usize
    }

    /// One of `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.choose((high - low + 1) as usize) as u64
    }

    /// The index of a weight, chosen in proportion; none if all are 0.
    pub fn weighted(&mut self, weights: &[u32]) -> Option<usize> {
        let total: u32 = weights.iter().sum();
        if total == 0 {
            return None;
        }
        let mut at = self.choose(total as usize) as u32;
        for (index, weight) in weights.iter().enumerate() {
            if at < *weight {
                return Some(index);
            }
            at -= weight;
        }
        None
    }

    /// The choices given so far.
    pub fn taken(&self) -> &[u32] {
        &self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_choices_again_and_a_recording_replays_them() {
        let draw = |tape: &mut Tape| -> Vec<usize> { (2..200).map(|n| tape.choose(n)).collect() };
        let mut first = Tape::from_seed(7);
        let choices = draw(&mut first);
        assert_eq!(draw(&mut Tape::from_seed(7)), choices);
        assert_ne!(draw(&mut Tape::from_seed(8)), choices);
        let mut again = Tape::replay(8, first.taken().to_vec());
        assert_eq!(draw(&mut again), choices);
        assert_eq!(again.taken(), first.taken());
    }

    #[test]
    fn choices_stay_in_range_and_reach_every_value() {
        let mut tape = Tape::from_seed(1);
        let mut seen = [false; 7];
        for _ in 0..1_000 {
            seen[tape.choose(7)] = true;
        }
        assert_eq!(seen, [true; 7]);
        let mut folded = Tape::replay(1, vec![u32::MAX; 10]);
        assert!((1..10).all(|n| folded.choose(n) < n));
        assert_eq!(tape.weighted(&[0, 0]), None);
        assert!((0..50).all(|_| tape.weighted(&[0, 3, 0]) == Some(1)));
        assert!(!tape.percent(0) && (0..50).all(|_| tape.percent(100)));
    }
}
