//! How long a client waits before it tries again. Only the arithmetic belongs here; what counts as a failure is its user's.

/// Delays that grow with each failure in a row, with jitter, up to a cap (AR-SYNC-7e).
///
/// After failure `n` the delay lies between `f` and `2f`, where `f` is `first_ms` doubled `n - 1` times and at most half the cap:
/// until the cap is near, a later failure in a row never waits less than an earlier one, and clients that failed together
/// spread over a range as wide as their shortest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    first_ms: u64,
    cap_ms: u64,
}

impl Backoff {
    /// Delays from `first_ms` milliseconds, at least 1, to `cap_ms`, at least twice that.
    ///
    /// # Panics
    /// If the two bounds are not such.
    pub const fn new(first_ms: u64, cap_ms: u64) -> Backoff {
        assert!(first_ms >= 1 && cap_ms / 2 >= first_ms, "no room to grow");
        Backoff { first_ms, cap_ms }
    }

    /// Least and greatest delay in milliseconds after this many failures in a row; 0 is read as 1.
    pub fn range_ms(self, failures_in_row: u32) -> (u64, u64) {
        let doublings = failures_in_row.saturating_sub(1);
        let grown = 1u64
            .checked_shl(doublings)
            .map_or(u64::MAX, |factor| self.first_ms.saturating_mul(factor));
        let least = grown.min(self.cap_ms / 2);
        (least, 2 * least)
    }

    /// The delay in milliseconds after this many failures in a row; `jitter` is any random value.
    pub fn delay_ms(self, failures_in_row: u32, jitter: u64) -> u64 {
        let (least, greatest) = self.range_ms(failures_in_row);
        least + jitter % (greatest - least + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn delays_grow_and_are_capped(first in 1u64..5_000, times in 2u64..500, failures in 1u32..200, a: u64, b: u64) {
            rules!("AR-SYNC-7e");
            let cap = first * times;
            let backoff = Backoff::new(first, cap);
            let (earlier, later) = (backoff.delay_ms(failures, a), backoff.delay_ms(failures + 1, b));
            prop_assert!(earlier >= first && earlier <= cap);
            let (least, next_least) = (backoff.range_ms(failures).0, backoff.range_ms(failures + 1).0);
            let doubles = next_least == 2 * least;
            prop_assert!(doubles || next_least == cap / 2, "grows until the cap is near");
            prop_assert!(next_least >= least && (!doubles || later >= earlier));
        }

        #[test]
        fn jitter_reaches_the_whole_range(failures in 1u32..12, jitter: u64) {
            rules!("AR-SYNC-7e");
            let backoff = Backoff::new(250, 60_000);
            let (least, greatest) = backoff.range_ms(failures);
            let width = greatest - least;
            prop_assert_eq!(backoff.delay_ms(failures, jitter % (width + 1)), least + jitter % (width + 1));
            prop_assert!(width >= least, "clients that failed together spread");
        }
    }

    #[test]
    fn the_first_delays_are_these() {
        let backoff = Backoff::new(250, 60_000);
        let ranges: Vec<_> = [1, 2, 3, 8, 9, 65, u32::MAX]
            .map(|failures| backoff.range_ms(failures))
            .to_vec();
        assert_eq!(
            ranges,
            [
                (250, 500),
                (500, 1_000),
                (1_000, 2_000),
                (30_000, 60_000),
                (30_000, 60_000),
                (30_000, 60_000),
                (30_000, 60_000),
            ]
        );
    }
}
