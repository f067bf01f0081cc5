//! The contract of [`Store`]: S1 to S9 of the port's page.
//!
//! What belongs here: a store under test and the questions every test asks of it. The tests are in `writes`, `reads`, `syncs`
//! and `agreement`.

pub mod agreement;
pub mod reads;
pub mod syncs;
pub mod writes;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use holdfast_core::accept::{Policy, Profile, RelayKey, Submission};
use holdfast_core::ids::{ChannelId, CommunityId, Position};
use holdfast_core::limits::SYNC_SNAPSHOTS_MAX;
use holdfast_core::node::{
    HistoryPage, HistoryRow, LiveQuery, LiveRows, QueryAnswer, QueryKind, ReadFailure, Signal,
    SubmitOutcome,
};
use holdfast_core::nostr::{Event, Filter, PubKey, SecretKey};
use holdfast_core::scope::{Cut, ReadPlan, compile};
use holdfast_relay::node::ports::Store;

use super::wait;
use crate::build::{self, now};

/// Milliseconds of budget that no query of these tests needs.
pub const AMPLE_MS: u64 = 60_000;

/// What a test wants of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The profile of its policy.
    pub profile: Profile,
    /// Histories open at a time.
    pub snapshots_max: usize,
    /// Initial reads of syncs open at a time.
    pub sync_snapshots_max: usize,
    /// Milliseconds a read waits for a place.
    pub wait_ms: u64,
    /// Milliseconds a history may stay open.
    pub snapshot_budget_ms: u64,
}

impl Bounds {
    /// Bounds that no test meets by accident.
    pub fn ample() -> Bounds {
        Bounds {
            profile: Profile::Open,
            snapshots_max: 4,
            sync_snapshots_max: SYNC_SNAPSHOTS_MAX,
            wait_ms: 5_000,
            snapshot_budget_ms: AMPLE_MS,
        }
    }
}

/// Makes empty stores with the communities `one.example` and `two.example`.
pub trait Subjects {
    /// A new one, with the policy of [`policy`].
    fn open(&self, bounds: Bounds) -> Subject;
}

/// The policy of every store under test.
pub fn policy(profile: Profile) -> Policy {
    Policy {
        profile,
        relay_key: RelayKey::new(build::key(999_999)),
    }
}

/// A store under test.
pub struct Subject {
    /// The store.
    pub store: Arc<dyn Store>,
    /// `one.example`.
    pub one: CommunityId,
    /// `two.example`.
    pub two: CommunityId,
    /// Whatever has to live as long, such as a directory or a server; dropped after the store.
    pub holds: Box<dyn Any>,
}

/// The submission of an event by its own author.
pub fn by_author(community: CommunityId, event: Event) -> Submission {
    Submission {
        community,
        keys: BTreeSet::from([event.pubkey]),
        event,
        received_at: now(),
    }
}

impl Subject {
    /// Submits to `one.example` and waits.
    pub fn submit(&self, event: Event) -> SubmitOutcome {
        wait(self.store.submit(by_author(self.one, event)))
    }

    /// Submits to `one.example` what has to be stored, and returns its signals.
    ///
    /// # Panics
    /// When it is not stored.
    pub fn stored(&self, event: &Event) -> Vec<Signal> {
        match self.submit(event.clone()) {
            SubmitOutcome::Stored { signals, .. } => signals,
            other => panic!("not stored: {other:?}\n{event:?}"),
        }
    }

    /// A new channel of `owner` in `one.example`.
    pub fn channel(&self, owner: &SecretKey, further: &[&[&str]]) -> ChannelId {
        let channel = build::fresh_channel();
        self.stored(&build::create_channel(owner, channel, further));
        channel
    }

    /// The plan of a filter in `one.example`.
    pub fn plan(&self, readers: &[PubKey], filter: &str) -> ReadPlan {
        let filter = Filter::from_json(filter).expect("a filter");
        compile(self.one, &readers.iter().copied().collect(), &filter).expect("a plan")
    }

    /// The rows of these plans.
    pub fn rows(&self, plans: Vec<ReadPlan>) -> Vec<HistoryRow> {
        match wait(self.store.query(QueryKind::Rows, plans, AMPLE_MS)) {
            Ok(QueryAnswer::Rows(rows)) => rows,
            other => panic!("no rows: {other:?}"),
        }
    }

    /// The number of rows of these plans.
    pub fn count(&self, plans: Vec<ReadPlan>) -> u64 {
        match wait(self.store.query(QueryKind::Count, plans, AMPLE_MS)) {
            Ok(QueryAnswer::Count(count)) => count,
            other => panic!("no count: {other:?}"),
        }
    }

    /// Every page of a history.
    pub fn pages(
        &self,
        plans: Vec<ReadPlan>,
        rows_max: u32,
        bytes_max: usize,
    ) -> Result<Vec<HistoryPage>, ReadFailure> {
        let mut history = wait(self.store.open_history(plans))?;
        let mut pages = Vec::new();
        loop {
            let page = wait(history.next(rows_max, bytes_max))?;
            let is_last = page.end.is_some();
            pages.push(page);
            if is_last {
                return Ok(pages);
            }
        }
    }

    /// The whole ledger, read page by page.
    pub fn ledger(&self) -> Vec<(CommunityId, Signal)> {
        let mut rows = Vec::new();
        let mut cursor = Cut::Position(Position(0));
        loop {
            let page = wait(self.store.ledger(Some(cursor))).expect("a ledger page");
            rows.extend(page.signals);
            if !page.more {
                return rows;
            }
            cursor = page.cursor;
        }
    }

    /// A live read in `one.example`.
    pub fn live(&self, query: LiveQuery) -> LiveRows {
        wait(self.store.live(self.one, query)).expect("live rows")
    }
}

/// A live query for these positions, without byte bound.
pub fn live_query(positions: impl IntoIterator<Item = Position>) -> LiveQuery {
    LiveQuery {
        positions: positions.into_iter().collect(),
        bytes_max: usize::MAX,
        ..LiveQuery::default()
    }
}

/// The rows as texts, in order.
pub fn texts<'r>(rows: impl IntoIterator<Item = &'r HistoryRow>) -> Vec<String> {
    rows.into_iter().map(|row| row.json.to_string()).collect()
}

/// Notes of kind 1 with these times, by one key.
pub fn notes(key: &SecretKey, times: impl IntoIterator<Item = u64>) -> Vec<Event> {
    times
        .into_iter()
        .enumerate()
        .map(|(number, created_at)| {
            let draft = holdfast_core::nostr::Draft {
                created_at,
                kind: 1,
                tags: Vec::new(),
                content: format!("note {number} of {created_at}"),
            };
            draft.sign(key)
        })
        .collect()
}

/// Signals by position.
pub fn by_position(signals: &[Signal]) -> BTreeMap<Position, Signal> {
    signals
        .iter()
        .map(|signal| (signal.position, signal.clone()))
        .collect()
}
