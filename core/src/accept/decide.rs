//! From a submission and what a store knows to what must be written. This file only chooses who decides.

use super::deletion;
use super::{Decision, Known, Policy, Rejection, Submission, View, is_command, message};
use crate::nostr::kinds;
use crate::{artifact, channel};

/// Decides a submission that [`super::admit`] let through, on the view of its [`super::plan`]. Pure: equal arguments give
/// equal decisions, signatures included.
pub fn decide(submission: &Submission, view: &View, policy: &Policy) -> Decision {
    if submission.event.kind == kinds::ARTIFACT {
        return artifact::decide(submission, view, policy);
    }
    if message::is_deleted(submission, view) {
        return Decision::Reject(message::deleted());
    }
    match view.known {
        Known::Accepted => Decision::Already {
            message: "duplicate: already have this event".to_owned(),
        },
        Known::New => decide_new(submission, view, policy).unwrap_or_else(Decision::Reject),
    }
}

fn decide_new(
    submission: &Submission,
    view: &View,
    policy: &Policy,
) -> Result<Decision, Rejection> {
    match submission.event.kind {
        kinds::DELETION => deletion::decide(submission, view),
        kind if is_command(kind) => channel::decide(submission, view, policy),
        _ => message::decide(submission, view),
    }
}
