//! Holdfast core: every protocol decision of the relay, as arithmetic on values.
//!
//! What belongs here: decisions about events, filters, channels, artifacts, subscriptions and connections. What must not:
//! I/O, clocks, random numbers, threads, logging frameworks, unordered maps. Whatever a rule needs from outside arrives as
//! an argument or an input; whatever must happen outside leaves as an effect.

#![deny(missing_docs)]

pub mod accept;
pub mod artifact;
pub mod channel;
pub mod client;
pub mod ids;
pub mod limits;
pub mod node;
pub mod nostr;
pub mod scope;
pub mod seeded;
pub mod sync;

/// States are plain values: this line makes replay, diffing and exhaustive checking possible.
const fn assert_value<T: Clone + std::fmt::Debug + Eq + std::hash::Hash>() {}

const _: () = {
    assert_value::<node::Node>();
    assert_value::<node::Config>();
    assert_value::<node::Input>();
    assert_value::<node::Effect>();
    assert_value::<accept::Submission>();
    assert_value::<accept::View>();
    assert_value::<accept::Decision>();
    assert_value::<scope::ReadPlan>();
    assert_value::<sync::SyncSession>();
    assert_value::<client::replica::Replica>();
    assert_value::<client::replica::Input>();
    assert_value::<client::replica::Effect>();
};

/// Names the rules a test demonstrates, one to six ids of `docs/rules.md`, in the body of the test.
///
/// The rule check reads these calls from the source text; at run time the macro does nothing.
#[macro_export]
macro_rules! rules {
    ($($id:literal),+ $(,)?) => {
        const { assert!([$($id),+].len() <= 6, "a test names at most six rules") }
    };
}
