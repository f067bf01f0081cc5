//! The evaluation of a read plan on one row: the single definition of who sees what. Live matching calls it; every store's
//! translation of a plan must return exactly the rows it admits (S9).
//!
//! What belongs here: conditions of the filter, reach of the plan, gates, audience, expiry. What must not: how rows are found,
//! ordered or cut into pages.

use std::collections::BTreeSet;

use super::index::expires_at;
use super::plan::{Audience, Gate, PlanView, ReadPlan, Scope, gate_of};
use crate::channel::{Channel, ChannelType, LEGACY_TYPE_NAMES, Role, is_legacy_type_name};
use crate::ids::{ChannelId, UnixSeconds};
use crate::nostr::{ArtifactFilter, Event, PubKey, kinds};

/// One event of the plan's community as it is stored or, if it is ephemeral, as it was accepted. Withheld events (superseded,
/// deleted, removed, redacted) are no rows: they must not be evaluated at all (AR-MOD-3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row<'a> {
    /// The event.
    pub event: &'a Event,
    /// The channel it lives in.
    pub channel: Option<ChannelId>,
    /// Who may see it beyond the channel rule.
    pub audience: Audience,
    /// It is the current revision of its artifact; false for every kind but 45010.
    pub is_head: bool,
    /// It is being delivered to an open subscription: each accepted revision is news, also if a later one is current by then.
    pub live: bool,
}

/// What is known about access at the moment of evaluation, from the same snapshot as the row.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    /// The stored state of the row's channel; none for a row without channel. Where it is missing for a row with a channel,
    /// the row is not admitted.
    pub channel: Option<&'a Channel>,
    /// The active role of a key in the row's channel; asked only for rows with a channel.
    pub roles: &'a dyn Fn(PubKey) -> Option<Role>,
}

/// Whether the row belongs to the answer of the plan, page bounds aside. `clock_secs` is the database clock, for NIP-40.
///
/// A row belongs to the answer if the plan's view contains it, it meets every condition, it has not expired, and one and the
/// same reader key (or the anonymous reader) passes channel, audience and gate.
pub fn admits(
    plan: &ReadPlan,
    row: &Row<'_>,
    access: &Access<'_>,
    clock_secs: UnixSeconds,
) -> bool {
    in_view(plan, row)
        && meets_conditions(plan, row)
        && expires_at(row.event).is_none_or(|at| clock_secs < at)
        && is_readable(plan, row, access)
}

/// Whether one reader key of the plan (or the anonymous reader) may see the row under the plan's reach, whatever the conditions
/// of the filter say: in a named channel it can read, or in one that the plan reaches without naming it (H6, AR-SYNC-3b).
pub fn is_readable(plan: &ReadPlan, row: &Row<'_>, access: &Access<'_>) -> bool {
    let anonymous = plan.readers.is_empty().then_some(None);
    let mut readers = plan.readers.iter().copied().map(Some).chain(anonymous);
    readers.any(|reader| sees(reader, plan, row, access))
}

/// Whether the plan's view contains the row (AR-CUR-2, AR-CUR-3, AR-CUR-5, AR-HEAD-4). A revision's `op` occurs once and is
/// one of five words, as nothing else is accepted.
fn in_view(plan: &ReadPlan, row: &Row<'_>) -> bool {
    let revision = row.event.kind == kinds::ARTIFACT;
    match plan.view {
        PlanView::Events => !revision || row.is_head || row.live || plan.ids.is_some(),
        PlanView::Current => revision && row.is_head && !is_deletion(row.event),
        PlanView::Head => revision && row.is_head,
        PlanView::History => revision,
    }
}

fn is_deletion(revision: &Event) -> bool {
    revision.first_value("op") == Some("delete")
}

/// Whether an artifact whose current revision this is belongs to the set of a current-state filter, access aside: it is no
/// deletion and matches every predicate (AR-SYNC-3i). A client that was sent a head judges by this whether it keeps it
/// (AR-SYNC-REQ-19). The one `h` of an accepted revision is the artifact's home.
pub fn head_matches(filter: &ArtifactFilter, head: &Event) -> bool {
    let has = |(name, values): (&String, &BTreeSet<String>)| has_term(head, name, values);
    head.kind == kinds::ARTIFACT && !is_deletion(head) && filter.predicates.iter().all(has)
}

/// Whether the row meets every condition that is present (NIP-01); both bounds of time are inclusive (S21).
fn meets_conditions(plan: &ReadPlan, row: &Row<'_>) -> bool {
    let event = row.event;
    permits(&plan.ids, &event.id)
        && permits(&plan.authors, &event.pubkey)
        && permits(&plan.kinds, &event.kind)
        && plan.since.is_none_or(|since| since <= event.created_at)
        && plan.until.is_none_or(|until| event.created_at <= until)
        && meets_h(plan, row)
        && meets_t(plan, event)
        && plan
            .terms
            .iter()
            .all(|(name, values)| has_term(event, name, values))
}

/// An absent condition permits everything, an empty one nothing (B04).
fn permits<T: Ord>(condition: &Option<BTreeSet<T>>, value: &T) -> bool {
    condition.as_ref().is_none_or(|set| set.contains(value))
}

/// Whether some tag of this name has one of the values as its first value (AR-CUR-10 to AR-CUR-13).
fn has_term(event: &Event, name: &str, values: &BTreeSet<String>) -> bool {
    event.tag_values(name).any(|value| values.contains(value))
}

/// `#h` is about the channel a row lives in, whatever its tags say; only rows without channel, such as notices, are found by
/// their `h` tag.
fn meets_h(plan: &ReadPlan, row: &Row<'_>) -> bool {
    plan.channels
        .as_ref()
        .is_none_or(|wanted| match row.channel {
            Some(channel) => wanted.contains(&channel),
            None => row
                .event
                .tag_values("h")
                .any(|value| value.parse().is_ok_and(|id| wanted.contains(&id))),
        })
}

/// `#t` is an ordinary condition, except on notices: there the channel type in the notice must be among the values or, without
/// `#t`, on the frozen list; a notice without a type counts as every type of that list (CL-NTC-5 to CL-NTC-11, H30).
fn meets_t(plan: &ReadPlan, event: &Event) -> bool {
    if !matches!(event.kind, kinds::MEMBER_ADDED | kinds::MEMBER_REMOVED) {
        return plan
            .t_values
            .as_ref()
            .is_none_or(|values| has_term(event, "t", values));
    }
    let known = |name: &str| match &plan.t_values {
        Some(values) => values.contains(name),
        None => is_legacy_type_name(name),
    };
    let mut types = event.tag_values("t").peekable();
    match types.peek() {
        Some(_) => types.any(known),
        None => LEGACY_TYPE_NAMES.into_iter().any(known),
    }
}

/// Whether this reader may see the row. One key has to pass everything: the membership of one key and the authorship of
/// another make no reader.
fn sees(reader: Option<PubKey>, plan: &ReadPlan, row: &Row<'_>, access: &Access<'_>) -> bool {
    let role = match row.channel {
        Some(_) => reader.and_then(access.roles),
        None => None,
    };
    let in_reach = match row.channel {
        Some(id) => access.channel.is_some_and(|channel| {
            channel.id == id && channel.readable_by(role) && reaches(&plan.scope, channel, role)
        }),
        None => true,
    };
    let in_audience = match row.audience {
        Audience::Readers => true,
        Audience::Moderators => {
            reader == Some(row.event.pubkey) || role.is_some_and(Role::is_elevated)
        }
    };
    in_reach && in_audience && passes_gate(reader, row.event)
}

/// Whether the plan reaches a channel for a reader with this role: by its name, or because its type is one that the plan
/// reaches without naming, and it is listed or the reader is a member (CL-SYS-5, CL-SYS-13, CL-SYS-19, CL-UNL-1, CL-UNL-2).
fn reaches(scope: &Scope, channel: &Channel, role: Option<Role>) -> bool {
    let type_asked = channel.channel_type.is_legacy()
        || (scope.system && channel.channel_type == ChannelType::System);
    scope.named.contains(&channel.id) || (type_asked && (!channel.unlisted || role.is_some()))
}

/// Whether the gate of the row's kind, if any, lets this reader pass (CL-NTC-17, CL-NTC-18, B12).
fn passes_gate(reader: Option<PubKey>, event: &Event) -> bool {
    let Some(gate) = gate_of(event.kind) else {
        return true;
    };
    reader.is_some_and(|key| {
        let named = event.tag_values("p").any(|value| value.parse() == Ok(key));
        match gate {
            Gate::Recipient => named,
            Gate::RecipientOrAuthor => named || event.pubkey == key,
        }
    })
}
