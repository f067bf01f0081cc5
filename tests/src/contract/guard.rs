//! The contract of [`Guard`]: claims are given once, buckets hold what they hold, and what is not known is refused.

use std::sync::Arc;

use futures::future::join_all;
use holdfast_relay::node::ports::{Claim, Guard, Spend};

use super::wait;

/// Makes empty guards, and opens one again after its process ended.
pub trait Guards {
    /// A new one that holds about this many keys.
    fn open(&self, keys_max: usize) -> Arc<dyn Guard>;

    /// The state that `guard` left behind, opened by a new process.
    fn reopen(&self, guard: Arc<dyn Guard>) -> Arc<dyn Guard>;
}

const NOW: u64 = 1_700_000_000;

/// A key is given to the first who claims it, until its time.
pub fn a_key_is_claimed_once(guards: &dyn Guards) {
    let guard = guards.open(100);
    let claim = |key: &str, now, until| wait(guard.claim(key.to_owned(), now, until));
    assert_eq!(claim("a", NOW, NOW + 60), Claim::First);
    assert_eq!(claim("a", NOW, NOW + 60), Claim::Seen);
    assert_eq!(claim("b", NOW, NOW + 60), Claim::First);
    assert_eq!(claim("a", NOW + 59, NOW + 100), Claim::Seen);
    assert_eq!(claim("a", NOW + 60, NOW + 120), Claim::First);
    assert_eq!(claim("a", NOW + 61, NOW + 120), Claim::Seen);
}

/// Of many who claim a key at once exactly one is the first.
pub fn one_of_many_claimants_is_the_first(guards: &dyn Guards) {
    let guard = guards.open(100);
    let claims = wait(join_all(
        (0..50).map(|_| guard.claim("key".to_owned(), NOW, NOW + 60)),
    ));
    assert_eq!(
        claims
            .iter()
            .filter(|claim| **claim == Claim::First)
            .count(),
        1
    );
    assert_eq!(
        claims.iter().filter(|claim| **claim == Claim::Seen).count(),
        49
    );
}

/// A claim is remembered by the next process.
pub fn claims_outlive_the_process(guards: &dyn Guards) {
    let guard = guards.open(100);
    assert_eq!(
        wait(guard.claim("replayed".to_owned(), NOW, NOW + 60)),
        Claim::First
    );
    let guard = guards.reopen(guard);
    assert_eq!(
        wait(guard.claim("replayed".to_owned(), NOW + 1, NOW + 60)),
        Claim::Seen
    );
    assert_eq!(
        wait(guard.claim("replayed".to_owned(), NOW + 60, NOW + 120)),
        Claim::First
    );
}

/// A bucket gives its units and then says when the next one is there; other buckets are not concerned.
pub fn a_bucket_holds_its_units(guards: &dyn Guards) {
    let guard = guards.open(100);
    let spend = |bucket: &str, now| wait(guard.spend(bucket.to_owned(), now, 5, 60));
    for _ in 0..5 {
        assert_eq!(spend("a", NOW), Spend::Ok);
    }
    let Spend::RetryIn { secs } = spend("a", NOW) else {
        panic!("the bucket is empty")
    };
    assert!((1..=60).contains(&secs));
    assert_eq!(spend("b", NOW), Spend::Ok);
    assert_eq!(spend("a", NOW + secs), Spend::Ok);
    assert_eq!(
        wait(guard.spend("none".to_owned(), NOW, 0, 60)),
        Spend::RetryIn { secs: 60 }
    );
}
