//! From a filter and the keys that ask to a read plan, or to a refusal. Each filter is compiled by itself, so that nothing one
//! filter names or asks for reaches another (CL-SYS-18, H29).
//!
//! What belongs here: which channels a filter names, whether it asks for system channels, which filters are refused as a
//! whole. What must not: facts about channels, members or rows; `eval` judges those.

use std::collections::BTreeSet;

use super::plan::{Gate, Page, PlanView, ReadPlan, Scope, gate_of};
use crate::ids::{ChannelId, CommunityId};
use crate::limits::{ARTIFACT_HEAD_PAGE_DEFAULT, ARTIFACT_PAGE_DEFAULT, LIMIT_MAX};
use crate::nostr::{ArtifactFilter, ArtifactView, Filter, PubKey, kinds};

/// Why a filter is refused as a whole. It asks for nothing but kinds that only some keys may read, and not in the one way
/// that can return any: for the reader's own (CL-NTC-17, B12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The reader is anonymous; a key would help.
    AuthRequired,
    /// The reader's keys are known, and the filter is not about them.
    Denied,
}

impl Refusal {
    /// The text for a REQ, with its prefix.
    pub const fn text(self) -> &'static str {
        match self {
            Refusal::AuthRequired => "auth-required: p-gated events require authentication",
            Refusal::Denied => "restricted: p-gated events require #p matching your pubkey",
        }
    }

    /// The text for COUNT and HTTP, where deployed clients know other words than in a REQ.
    pub const fn query_text(self) -> &'static str {
        match self {
            Refusal::AuthRequired => "auth-required: p-gated kinds require authentication",
            Refusal::Denied => "restricted: p-gated kinds require #p tag matching your pubkey",
        }
    }
}

/// Compiles a NIP-01 filter for a set of reader keys; none means an anonymous reader of the open profile.
///
/// The page has at most [`LIMIT_MAX`] rows, which is also what a filter without `limit` gets.
///
/// # Errors
/// [`Refusal`], if all kinds of the filter are gated and it is not about the readers themselves. A filter that has other
/// kinds as well, or names none, is compiled: its foreign gated rows are no part of the answer. `ids` changes none of this
/// (CL-NTC-18).
pub fn compile(
    community: CommunityId,
    readers: &BTreeSet<PubKey>,
    filter: &Filter,
) -> Result<ReadPlan, Refusal> {
    if asks_for_foreign_private_kinds(readers, filter) {
        return Err(if readers.is_empty() {
            Refusal::AuthRequired
        } else {
            Refusal::Denied
        });
    }
    let mut terms = filter.tags.clone();
    let channels = terms.remove("h").map(|values| channel_ids(&values));
    let t_values = terms.remove("t");
    Ok(ReadPlan {
        community,
        readers: readers.clone(),
        view: PlanView::Events,
        ids: filter.ids.clone(),
        authors: filter.authors.clone(),
        kinds: filter.kinds.clone(),
        since: filter.since,
        until: filter.until,
        channels,
        terms,
        t_values,
        scope: scope_of(filter),
        page: Page {
            limit: filter.limit.map_or(LIMIT_MAX, |limit| limit.min(LIMIT_MAX)),
            offset: 0,
        },
    })
}

/// Compiles an artifact filter for a set of reader keys.
///
/// `#h` names channels and every other predicate, `#t` and `#d` among them, is an ordinary term: an artifact's `d` is never a
/// channel's (H28), and no artifact filter asks for system channels. Without a limit, current and history have
/// [`ARTIFACT_PAGE_DEFAULT`] rows, and head [`ARTIFACT_HEAD_PAGE_DEFAULT`], so that no named artifact is cut off in silence.
///
/// # Errors
/// None: revisions are no gated kind. The form is that of [`compile`], so that callers treat both alike.
pub fn compile_artifact(
    community: CommunityId,
    readers: &BTreeSet<PubKey>,
    filter: &ArtifactFilter,
) -> Result<ReadPlan, Refusal> {
    let mut terms = filter.predicates.clone();
    let channels = terms.remove("h").map(|values| channel_ids(&values));
    let (view, rows_default) = match filter.view {
        ArtifactView::Current => (PlanView::Current, ARTIFACT_PAGE_DEFAULT),
        ArtifactView::History => (PlanView::History, ARTIFACT_PAGE_DEFAULT),
        ArtifactView::Head => (PlanView::Head, ARTIFACT_HEAD_PAGE_DEFAULT),
    };
    Ok(ReadPlan {
        community,
        readers: readers.clone(),
        view,
        ids: None,
        authors: None,
        kinds: Some(BTreeSet::from([kinds::ARTIFACT])),
        since: None,
        until: None,
        scope: Scope {
            named: channels.clone().unwrap_or_default(),
            system: false,
        },
        channels,
        terms,
        t_values: None,
        page: Page {
            limit: filter.limit.unwrap_or(rows_default),
            offset: filter.offset.unwrap_or(0),
        },
    })
}

/// The values that can be channels. Any other value names a channel that does not exist.
fn channel_ids(values: &BTreeSet<String>) -> BTreeSet<ChannelId> {
    values
        .iter()
        .filter_map(|value| value.parse().ok())
        .collect()
}

fn scope_of(filter: &Filter) -> Scope {
    let mut scope = Scope::default();
    if let Some(values) = filter.tags.get("h") {
        scope.named = channel_ids(values);
    }
    if asks_for_channel_state_only(filter) {
        if let Some(values) = filter.tags.get("d") {
            scope.named.append(&mut channel_ids(values));
        }
        let types = filter.tags.get("t");
        let creators = filter.tags.get("P");
        scope.system = types.is_some_and(|values| values.contains("system"))
            || creators.is_some_and(|values| !values.is_empty());
    }
    scope
}

/// Whether the filter's kinds are given and all in 39000-39003: only then `#d` names channels (CL-SYS-14, CL-SYS-15), and `#t`
/// or `#P` ask for system channels (CL-ASK-5).
fn asks_for_channel_state_only(filter: &Filter) -> bool {
    filter.kinds.as_ref().is_some_and(|wanted| {
        !wanted.is_empty()
            && wanted
                .iter()
                .all(|kind| (kinds::CHANNEL_METADATA..=kinds::CHANNEL_ROLES).contains(kind))
    })
}

/// Whether all kinds of the filter are gated and one of them is not asked for in the way its gate allows: with the reader's
/// own keys, and no others, in `#p`, or for 4 in `authors`. An empty list of kinds asks for nothing and is no such filter.
fn asks_for_foreign_private_kinds(readers: &BTreeSet<PubKey>, filter: &Filter) -> bool {
    let Some(wanted) = &filter.kinds else {
        return false;
    };
    let Some(gates) = wanted
        .iter()
        .map(|kind| gate_of(*kind))
        .collect::<Option<Vec<Gate>>>()
    else {
        return false;
    };
    let to_own = filter.tags.get("p").is_some_and(|values| {
        !values.is_empty()
            && values
                .iter()
                .all(|value| value.parse().is_ok_and(|key| readers.contains(&key)))
    });
    let from_own = filter
        .authors
        .as_ref()
        .is_some_and(|authors| !authors.is_empty() && authors.is_subset(readers));
    !gates.iter().all(|gate| match gate {
        Gate::Recipient => to_own,
        Gate::RecipientOrAuthor => to_own || from_own,
    })
}
