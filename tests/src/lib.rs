//! What the tests of this crate share: rule tracing, a relay under test, clients. No test lives in this file.

/// Names the rules a test demonstrates, one to six ids of `docs/rules.md`, in the body of the test.
///
/// The rule check reads these calls from the source text; at run time the macro does nothing.
#[macro_export]
macro_rules! rules {
    ($($id:literal),+ $(,)?) => {
        const { assert!([$($id),+].len() <= 6, "a test names at most six rules") }
    };
}
