//! From a submission and what a store knows to what must be written. This file only chooses who decides.

use super::{Decision, Known, Policy, Rejection, Submission, View, message};
use crate::nostr::kinds;

/// Decides a submission that [`super::admit`] let through, on the view of its [`super::plan`]. Pure: equal arguments give
/// equal decisions, signatures included.
pub fn decide(submission: &Submission, view: &View, _policy: &Policy) -> Decision {
    if submission.event.kind == kinds::ARTIFACT {
        return Decision::Reject(Rejection::Invalid(
            "invalid: not supported: kind 45010".to_owned(),
        ));
    }
    if view.deleted {
        return Decision::Reject(message::deleted());
    }
    match view.known {
        Known::Accepted => Decision::Already {
            message: "duplicate: already have this event".to_owned(),
        },
        Known::New => message::decide(submission, view).unwrap_or_else(Decision::Reject),
    }
}
