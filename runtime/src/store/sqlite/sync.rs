//! What a sync reads: its initial set, page by page in one snapshot, and heads with access at one moment. Which rows belong to the
//! set is `plan_sql`'s; what a sync says of them is the core's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use holdfast_core::ids::{ArtifactId, ChannelId};
use holdfast_core::nostr::{Event, PubKey};
use holdfast_core::scope::Cut;
use holdfast_core::sync::{
    AccessRows, HeadQuery, HeadRow, HeadRows, Membership, SnapshotFacts, StoreGeneration, SyncPage,
    SyncRequest, SyncRow,
};
use rusqlite::types::Value;
use rusqlite::vtab::array::Array;
use rusqlite::{Connection, OptionalExtension, params};

use super::budget::Budget;
use super::codes;
use super::driver::is_indexed_by_artifact;
use super::paged::Paged;
use super::read::{self, ReadError, Result, clock_secs, newest_position};

/// Pages found by one search where no index has the rows in order: each search reads all rows of its index.
const PAGES_PER_SEARCH: usize = 16;

/// The initial read of one sync.
#[derive(Debug)]
pub(super) struct InitialSet {
    request: SyncRequest,
    community: i64,
    /// The moment by which expiry is judged on all pages.
    clock_secs: u64,
    /// What the first page says beside its rows.
    facts: Option<SnapshotFacts>,
    /// Artifacts that are found and not yet returned, with the positions of their heads; ascending.
    found: VecDeque<(ArtifactId, i64)>,
    /// The last artifact that was found.
    after: Option<ArtifactId>,
    /// No artifact is left to be found.
    is_searched: bool,
}

impl InitialSet {
    /// Begins the snapshot: access is read by the first statement of the transaction (H1).
    pub(super) fn open(
        tx: &Connection,
        budget: &Budget,
        community: i64,
        request: SyncRequest,
    ) -> Result<InitialSet> {
        let plan = &request.plan;
        let access = access(tx, budget, community, &plan.scope.named, &plan.readers)?;
        let cut = Cut::Position(newest_position(tx)?);
        Ok(InitialSet {
            request,
            community,
            clock_secs: clock_secs(),
            facts: Some(SnapshotFacts { access, cut }),
            found: VecDeque::new(),
            after: None,
            is_searched: false,
        })
    }

    /// Searches on behind the last artifact found, once all of these are returned (AR-SYNC-2e, AR-SYNC-2f).
    fn search(&mut self, tx: &Connection, budget: &Budget) -> Result<()> {
        if self.is_searched || !self.found.is_empty() {
            return Ok(());
        }
        let plan = &self.request.plan;
        let pages = if is_indexed_by_artifact(plan) {
            1
        } else {
            PAGES_PER_SEARCH
        };
        let most = self.request.rows_max.max(1) as usize * pages;
        let at = (self.community, self.clock_secs);
        self.found = read::by_artifact(tx, budget, plan, at, self.after, most)?.into();
        self.is_searched = self.found.len() < most;
        self.after = self.found.back().map(|(artifact, _)| *artifact);
        Ok(())
    }
}

impl Paged for InitialSet {
    type Want = ();
    type Page = SyncPage;

    fn next_page(&mut self, tx: &Connection, budget: &Budget, (): ()) -> Result<SyncPage> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            self.search(tx, budget)?;
            let Some((artifact, position)) = self.found.front().copied() else {
                break;
            };
            if rows.len() >= self.request.rows_max.max(1) as usize {
                break;
            }
            if budget.is_over() {
                return Err(ReadError::OutOfBudget);
            }
            let row = sync_row(tx, artifact, position)?;
            if !rows.is_empty() && bytes + row.json.len() > self.request.bytes_max {
                break;
            }
            bytes += row.json.len();
            rows.push(row);
            self.found.pop_front();
        }
        Ok(SyncPage {
            rows,
            is_last: self.found.is_empty(),
            opened: self.facts.take(),
            store: StoreGeneration::default(),
        })
    }

    fn is_last(page: &SyncPage) -> bool {
        page.is_last
    }
}

/// A current revision; it is stored in its artifact's home.
fn sync_row(tx: &Connection, artifact: ArtifactId, position: i64) -> Result<SyncRow> {
    let mut statement =
        tx.prepare_cached("SELECT id, channel, body FROM event WHERE position = ?1")?;
    Ok(statement.query_row([position], |row| {
        Ok(SyncRow {
            artifact,
            home: codes::channel_id(row, 1)?,
            event: codes::event_id(row, 0)?,
            json: Arc::from(row.get_ref(2)?.as_str()?),
        })
    })?)
}

/// Heads and markers up to the byte bound, and access to the channels asked for and to the homes found.
pub(super) fn heads(
    tx: &Connection,
    budget: &Budget,
    community: i64,
    query: &HeadQuery,
) -> Result<HeadRows> {
    let mut answer = HeadRows {
        clock_secs: clock_secs(),
        store: StoreGeneration::default(),
        ..HeadRows::default()
    };
    let mut sources: BTreeMap<ArtifactId, Vec<ChannelId>> = BTreeMap::new();
    for (artifact, source) in &query.markers {
        sources.entry(*artifact).or_default().push(*source);
    }
    let mut bytes = 0;
    for (number, &artifact) in query.artifacts.iter().enumerate() {
        if bytes >= query.bytes_max && number > 0 {
            answer.left.insert(artifact);
            continue;
        }
        if budget.is_over() {
            return Err(ReadError::OutOfBudget);
        }
        if let Some(head) = head(tx, community, artifact)? {
            bytes += head.body.as_ref().map_or(0, |(_, json)| json.len());
            answer.heads.insert(artifact, head);
        }
        for &source in sources.get(&artifact).into_iter().flatten() {
            if let Some(json) = marker(tx, community, artifact, source)? {
                bytes += json.len();
                answer.markers.insert((artifact, source), json);
            }
        }
    }
    let homes = answer.heads.values().map(|head| head.home);
    let channels = query.channels.iter().copied().chain(homes).collect();
    answer.access = access(tx, budget, community, &channels, &query.keys)?;
    Ok(answer)
}

/// The current revision of an artifact; a redacted one has no body.
fn head(
    tx: &Connection,
    community: i64,
    artifact: ArtifactId,
) -> rusqlite::Result<Option<HeadRow>> {
    tx.prepare_cached(
        "SELECT h.event, h.home, e.body FROM head h JOIN event e ON e.position = h.position
         WHERE h.community = ?1 AND h.artifact = ?2",
    )?
    .query_row(params![community, artifact.0.as_bytes()], |row| {
        let json: Option<Arc<str>> = row.get(2)?;
        let body = match json {
            Some(json) => {
                let event = Event::from_json(&json).map_err(|_| codes::corrupt(2, "event"))?;
                Some((Arc::new(event), json))
            }
            None => None,
        };
        Ok(HeadRow {
            event: codes::event_id(row, 0)?,
            home: codes::channel_id(row, 1)?,
            body,
        })
    })
    .optional()
}

/// The newest 45011 of an artifact that a move left in a channel, unless it is withheld.
fn marker(
    tx: &Connection,
    community: i64,
    artifact: ArtifactId,
    source: ChannelId,
) -> rusqlite::Result<Option<Arc<str>>> {
    tx.prepare_cached(
        "SELECT body FROM event INDEXED BY event_by_artifact
         WHERE community = ?1 AND artifact = ?2 AND kind = 45011 AND channel = ?3 AND withheld IS NULL
         ORDER BY position DESC LIMIT 1",
    )?
    .query_row(
        params![community, artifact.0.as_bytes(), source.0.as_bytes()],
        |row| Ok(Arc::from(row.get_ref(0)?.as_str()?)),
    )
    .optional()
}

/// The channels, deleted ones included, and the memberships of these keys in them, ended ones included.
fn access(
    tx: &Connection,
    budget: &Budget,
    community: i64,
    channels: &BTreeSet<ChannelId>,
    keys: &BTreeSet<PubKey>,
) -> Result<AccessRows> {
    let wanted = keys.iter().map(|key| Value::Blob(key.as_bytes().to_vec()));
    let wanted: Array = Rc::new(wanted.collect());
    let mut access = AccessRows::default();
    for &id in channels {
        if budget.is_over() {
            return Err(ReadError::OutOfBudget);
        }
        let Some(channel) = read::channel(tx, community, id)? else {
            continue;
        };
        access.channels.insert(id, channel);
        let mut statement = tx.prepare_cached(
            "SELECT m.pubkey, m.removed, m.role, m.access_stamp FROM rarray(?3) k CROSS JOIN member m
             ON m.community = ?1 AND m.channel = ?2 AND m.pubkey = k.value",
        )?;
        let mut rows = statement.query(params![community, id.0.as_bytes(), wanted])?;
        while let Some(row) = rows.next()? {
            let role = codes::role(row, 2)?;
            let membership = Membership {
                role: (!row.get::<_, bool>(1)?).then_some(role),
                stamp: codes::position(row, 3)?,
            };
            access
                .members
                .insert((id, codes::pubkey(row, 0)?), membership);
        }
    }
    Ok(access)
}
