//! What each read returns, as a pure function of the rows that one snapshot sees. Which rows belong to an answer is asked of the
//! core (S9); when a statement runs, and on which snapshot, is not decided here.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use holdfast_core::ids::{ArtifactId, ChannelId, CommunityId, Position, UnixSeconds};
use holdfast_core::node::{
    HistoryRow, LedgerPage, LiveQuery, LiveRows, QueryAnswer, QueryKind, StoredRow,
};
use holdfast_core::nostr::{EventId, PubKey, kinds};
use holdfast_core::scope::{Cut, PlanView, ReadPlan, Stamp};
use holdfast_core::sync::{
    AccessRows, HeadQuery, HeadRow, HeadRows, Membership, StoreGeneration, SyncRow,
};

use super::state::{EventRow, State, signal};

/// One snapshot and the moment in which it is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Snapshot {
    pub(super) state: State,
    pub(super) cut: Cut,
    pub(super) clock_secs: UnixSeconds,
    pub(super) store: StoreGeneration,
    /// Number of visible commits.
    pub(super) commits: u64,
    /// Transaction ids mean something in this store.
    pub(super) has_xids: bool,
    /// The variant that takes every channel for an open one.
    pub(super) ignores_scope: bool,
}

impl Snapshot {
    /// All rows that a plan admits, in the plan's order, page bounds aside.
    fn admitted(&self, plan: &ReadPlan) -> Vec<&EventRow> {
        let at = plan.community;
        let mut rows: Vec<&EventRow> = self
            .state
            .events
            .iter()
            .filter(|((community, _), _)| *community == at)
            .map(|(_, row)| row)
            .filter(|row| {
                self.state
                    .admits(plan, row, self.clock_secs, self.ignores_scope)
            })
            .collect();
        match plan.view {
            PlanView::Events => {
                rows.sort_by_key(|row| (Reverse(row.event.created_at), row.event.id));
            }
            PlanView::Current | PlanView::Head | PlanView::History => {
                rows.sort_by_key(|row| Reverse(row.position));
            }
        }
        rows
    }

    /// The rows of all plans, each plan's page in its order, one plan after the other, each event once.
    pub(super) fn rows(&self, plans: &[ReadPlan]) -> Vec<HistoryRow> {
        let mut seen = BTreeSet::new();
        let mut rows = Vec::new();
        for plan in plans {
            let admitted = self.admitted(plan);
            let page = admitted
                .into_iter()
                .skip(plan.page.offset as usize)
                .take(plan.page.limit as usize);
            for row in page.filter(|row| seen.insert(row.event.id)) {
                rows.push(HistoryRow {
                    id: row.event.id,
                    json: Arc::clone(&row.json),
                });
            }
        }
        rows
    }

    /// The answer of a one-shot query.
    pub(super) fn query(&self, kind: QueryKind, plans: &[ReadPlan]) -> QueryAnswer {
        match kind {
            QueryKind::Rows => QueryAnswer::Rows(self.rows(plans)),
            QueryKind::Count => {
                let distinct: BTreeSet<EventId> = plans
                    .iter()
                    .flat_map(|plan| self.admitted(plan))
                    .map(|row| row.event.id)
                    .collect();
                QueryAnswer::Count(distinct.len() as u64)
            }
        }
    }

    /// The named channels that some reader of the naming plan may read.
    pub(super) fn readable(&self, plans: &[ReadPlan]) -> BTreeSet<ChannelId> {
        let can_read = |plan: &ReadPlan, id: &ChannelId| {
            let at = plan.community;
            self.state.channel(at, *id).is_some_and(|channel| {
                let anonymous = plan.readers.is_empty() && channel.readable_by(None);
                let mut readers = plan.readers.iter();
                anonymous || readers.any(|key| channel.readable_by(self.state.role(at, *id, *key)))
            })
        };
        plans
            .iter()
            .flat_map(|plan| {
                let named = plan.scope.named.iter().copied();
                named.filter(move |id| can_read(plan, id))
            })
            .collect()
    }

    /// Current artifacts after `last`, in ascending order of `d`.
    pub(super) fn sync_rows(&self, plan: &ReadPlan, last: Option<ArtifactId>) -> Vec<SyncRow> {
        let mut rows: Vec<SyncRow> = self
            .admitted(plan)
            .into_iter()
            .filter_map(|row| {
                let (artifact, home) = (row.artifact?, row.channel?);
                let is_new = last.is_none_or(|last| last < artifact);
                is_new.then(|| SyncRow {
                    artifact,
                    home,
                    event: row.event.id,
                    json: Arc::clone(&row.json),
                })
            })
            .collect();
        rows.sort_by_key(|row| row.artifact);
        rows
    }

    /// Rows of channels and memberships of keys in them, former ones included.
    pub(super) fn access(
        &self,
        at: CommunityId,
        channels: &BTreeSet<ChannelId>,
        keys: &BTreeSet<PubKey>,
    ) -> AccessRows {
        let mut access = AccessRows::default();
        for &id in channels {
            let Some(channel) = self.state.channel(at, id) else {
                continue;
            };
            access.channels.insert(id, channel.clone());
            for &key in keys {
                if let Some(row) = self.state.member(at, id, key) {
                    let membership = Membership {
                        role: (!row.removed).then_some(row.member.role),
                        stamp: row.member.access_stamp,
                    };
                    access.members.insert((id, key), membership);
                }
            }
        }
        access
    }

    /// The answer of a head read.
    pub(super) fn heads(&self, at: CommunityId, query: &HeadQuery) -> HeadRows {
        let mut answer = HeadRows {
            clock_secs: self.clock_secs,
            store: self.store,
            ..HeadRows::default()
        };
        let mut bytes = 0usize;
        let mut homes = query.channels.clone();
        for (count, &artifact) in query.artifacts.iter().enumerate() {
            if count > 0 && bytes >= query.bytes_max {
                answer.left.insert(artifact);
                continue;
            }
            if let Some(row) = self.head_row(at, artifact, query) {
                bytes += row.body.as_ref().map_or(0, |(_, json)| json.len());
                homes.insert(row.home);
                answer.heads.insert(artifact, row);
            }
            for &wanted in query.markers.iter().filter(|(of, _)| *of == artifact) {
                if let Some(json) = self.newest_marker(at, wanted) {
                    bytes += json.len();
                    answer.markers.insert(wanted, json);
                }
            }
        }
        answer.access = self.access(at, &homes, &query.keys);
        answer
    }

    /// The current revision of an artifact; for a node with a seeded bug, the revision that it pinned.
    fn head_row(
        &self,
        at: CommunityId,
        artifact: ArtifactId,
        query: &HeadQuery,
    ) -> Option<HeadRow> {
        #[cfg(feature = "mutants")]
        let pinned = query.pinned.get(&artifact).copied();
        #[cfg(not(feature = "mutants"))]
        let pinned: Option<Position> = {
            let _ = query;
            None
        };
        let announced = pinned
            .and_then(|position| self.state.at_position(at, position))
            .filter(|row| row.event.kind == kinds::ARTIFACT);
        let revision = match announced {
            Some(row) => row,
            None => self.state.event(at, self.state.head(at, artifact)?.event)?,
        };
        let body = (Arc::clone(&revision.event), Arc::clone(&revision.json));
        Some(HeadRow {
            event: revision.event.id,
            home: revision.channel?,
            body: revision.withheld.is_none().then_some(body),
        })
    }

    /// The newest unwithheld 45011 of an artifact in a source channel.
    fn newest_marker(
        &self,
        at: CommunityId,
        (artifact, source): (ArtifactId, ChannelId),
    ) -> Option<Arc<str>> {
        let of_community = self
            .state
            .events
            .iter()
            .filter(|((community, _), _)| *community == at);
        of_community
            .map(|(_, row)| row)
            .filter(|row| {
                row.event.kind == kinds::ARTIFACT_MOVED
                    && row.artifact == Some(artifact)
                    && row.channel == Some(source)
                    && row.withheld.is_none()
            })
            .max_by_key(|row| row.position)
            .map(|row| Arc::clone(&row.json))
    }

    /// The answer of a live read.
    pub(super) fn live(&self, at: CommunityId, query: &LiveQuery) -> LiveRows {
        let mut answer = LiveRows {
            clock_secs: self.clock_secs,
            ..LiveRows::default()
        };
        let mut bytes = 0usize;
        for &position in &query.positions {
            if bytes >= query.bytes_max && !answer.rows.is_empty() {
                answer.left.insert(position);
                continue;
            }
            let found = self.state.at_position(at, position);
            if let Some(row) = found.filter(|row| row.is_served(self.clock_secs)) {
                bytes += row.json.len();
                answer.rows.insert(position, self.stored_row(row));
            }
        }
        let of_rows = answer.rows.values().filter_map(|row| row.channel);
        let wanted: BTreeSet<ChannelId> = query.channels.iter().copied().chain(of_rows).collect();
        let access = self.access(at, &wanted, &query.keys);
        answer.roles = access
            .members
            .iter()
            .filter_map(|(key, membership)| Some((*key, membership.role?)))
            .collect();
        answer.channels = access.channels;
        answer
    }

    fn stored_row(&self, row: &EventRow) -> StoredRow {
        StoredRow {
            stamp: Stamp {
                position: row.position,
                xid: self.shown(row.xid),
            },
            event: Arc::clone(&row.event),
            channel: row.channel,
            audience: row.audience,
        }
    }

    /// The transaction id as callers see it.
    pub(super) fn shown(&self, xid: u64) -> u64 {
        if self.has_xids { xid } else { 0 }
    }

    /// The ledger rows that `after` did not see and this snapshot sees (S6): whole transactions, as many as fit into
    /// `rows_max` and at least one. What is left out counts as in progress in the returned cursor, so that it comes later.
    pub(super) fn ledger(&self, after: Option<&Cut>, rows_max: usize) -> LedgerPage {
        let mut page = LedgerPage {
            signals: Vec::new(),
            cursor: self.cut.clone(),
            more: false,
            store: self.store,
        };
        let Some(after) = after else {
            return page;
        };
        let mut left: BTreeSet<u64> = BTreeSet::new();
        let mut taken = 0;
        for xid in self.unseen_xids(after) {
            let rows = self.state.ledger.values().filter(|entry| entry.xid == xid);
            let signals: Vec<_> = rows
                .map(|entry| (entry.community, signal(&entry.row, self.shown(xid))))
                .collect();
            if taken > 0 && (!left.is_empty() || taken + signals.len() > rows_max) {
                left.insert(xid);
                continue;
            }
            taken += signals.len();
            page.signals.extend(signals);
        }
        page.signals.sort_by_key(|(_, signal)| signal.position);
        page.more = !left.is_empty();
        page.cursor = match &self.cut {
            Cut::Position(_) if page.more => {
                let last = page.signals.last().map(|(_, signal)| signal.position);
                Cut::Position(last.expect("a page that leaves something out has rows"))
            }
            Cut::Snapshot {
                xmin,
                xmax,
                in_progress,
            } => Cut::Snapshot {
                xmin: left.first().map_or(*xmin, |first| (*first).min(*xmin)),
                xmax: *xmax,
                in_progress: in_progress.iter().chain(&left).copied().collect(),
            },
            cut @ Cut::Position(_) => cut.clone(),
        };
        page
    }

    /// Transactions with visible ledger rows that a cursor did not see, in order of their first positions where positions
    /// are commit order, else of their ids.
    fn unseen_xids(&self, after: &Cut) -> Vec<u64> {
        let mut xids: Vec<u64> = Vec::new();
        let mut known = BTreeSet::new();
        for entry in self.state.ledger.values() {
            let stamp = Stamp {
                position: entry.row.position,
                xid: entry.xid,
            };
            if !after.covers(&stamp) && known.insert(entry.xid) {
                xids.push(entry.xid);
            }
        }
        if self.has_xids {
            xids.sort_unstable();
        }
        xids
    }

    /// Hides the ledger rows that the cut does not cover, for the variant whose cursor is the lowest transaction in progress.
    pub(super) fn hide_above_cut(&mut self) {
        let cut = self.cut.clone();
        Arc::make_mut(&mut self.state.ledger).retain(|_, entry| {
            let stamp = Stamp {
                position: entry.row.position,
                xid: entry.xid,
            };
            cut.covers(&stamp)
        });
    }

    /// The present ledger position, for cursors of the variant that orders rows by it.
    pub(super) fn newest_position(&self) -> Position {
        self.state.newest_position()
    }
}
