//! Which index a plan is read by. What the statement then says belongs to `plan_sql`; a wrong choice here costs time and no row.

use std::collections::BTreeSet;

use holdfast_core::channel::is_legacy_type_name;
use holdfast_core::nostr::{Kind, kinds};
use holdfast_core::scope::{PlanView, ReadPlan};

/// The condition whose index drives a part.
#[derive(Clone, Copy, Debug)]
pub(super) enum Driver<'a> {
    Ids,
    Term(&'a str, &'a BTreeSet<String>),
    Authors,
    /// Rows stored in the named channels.
    Channels,
    /// Rows without channel whose `h` tag names one.
    ChannelTags,
    Kinds,
    /// Revisions of the artifacts that `d` names.
    Revisions,
    /// Heads of the artifacts that `d` names.
    Heads,
    /// Heads whose home is a named channel.
    Homes,
    /// Every head.
    AllHeads,
}

/// How well the index of a term name tells rows apart: names of one thing, of one person, of a sort of things.
fn coarseness(name: &str) -> u8 {
    match name {
        "d" | "e" | "a" | "root" | "prev" => 0,
        "t" | "k" | "l" | "L" | "type" | "ar" | "op" => 2,
        _ => 1,
    }
}

/// The term with the best index among those up to a coarseness.
fn best_term(plan: &ReadPlan, coarseness_max: u8) -> Option<Driver<'_>> {
    plan.terms
        .iter()
        .filter(|(name, _)| coarseness(name) <= coarseness_max)
        .min_by_key(|(name, values)| (coarseness(name), values.len()))
        .map(|(name, values)| Driver::Term(name, values))
}

/// The parts a plan needs, each with the index that leads to the fewest rows.
pub(super) fn drivers(plan: &ReadPlan) -> Vec<Driver<'_>> {
    if plan.ids.is_some() {
        return vec![Driver::Ids];
    }
    match plan.view {
        PlanView::Events => event_drivers(plan),
        PlanView::Current | PlanView::Head => vec![if plan.terms.contains_key("d") {
            Driver::Heads
        } else if let Some(term) = best_term(plan, 1) {
            term
        } else if plan.channels.is_some() {
            Driver::Homes
        } else {
            Driver::AllHeads
        }],
        PlanView::History => vec![if plan.terms.contains_key("d") {
            Driver::Revisions
        } else if let Some(term) = best_term(plan, 1) {
            term
        } else if plan.channels.is_some() {
            Driver::Channels
        } else {
            Driver::Kinds
        }],
    }
}

/// Whether an index has the rows of an artifact plan in ascending order of their artifact ids.
pub(super) fn is_indexed_by_artifact(plan: &ReadPlan) -> bool {
    matches!(drivers(plan).as_slice(), [Driver::Homes | Driver::AllHeads])
}

fn event_drivers(plan: &ReadPlan) -> Vec<Driver<'_>> {
    if let Some(term) = best_term(plan, 1) {
        return vec![term];
    }
    let authors = plan.authors.as_ref().map_or(usize::MAX, BTreeSet::len);
    let channels = plan.channels.as_ref().map_or(usize::MAX, BTreeSet::len);
    if plan.authors.is_some() && authors <= channels {
        return vec![Driver::Authors];
    }
    if plan.channels.is_some() {
        return vec![Driver::Channels, Driver::ChannelTags];
    }
    match &plan.t_values {
        // No index finds what is absent.
        Some(values) if !may_match_untyped(plan) => vec![Driver::Term("t", values)],
        _ => vec![best_term(plan, u8::MAX).unwrap_or(Driver::Kinds)],
    }
}

/// A membership notice.
pub(super) fn is_notice(kind: Kind) -> bool {
    matches!(kind, kinds::MEMBER_ADDED | kinds::MEMBER_REMOVED)
}

/// Whether `#t` may be met by a notice that has no `t` (CL-NTC-9).
pub(super) fn may_match_untyped(plan: &ReadPlan) -> bool {
    let legacy = |values: &BTreeSet<String>| values.iter().any(|value| is_legacy_type_name(value));
    plan.t_values.as_ref().is_some_and(legacy) && may_be(plan, is_notice)
}

/// Whether the plan's kinds leave room for one of these.
pub(super) fn may_be(plan: &ReadPlan, wanted: impl Fn(Kind) -> bool) -> bool {
    match (&plan.kinds, plan.view) {
        (Some(some), _) => some.iter().any(|kind| wanted(*kind)),
        (None, PlanView::Events) => true,
        (None, _) => wanted(kinds::ARTIFACT),
    }
}
