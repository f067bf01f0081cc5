//! Runs compiled plans and the fixed read statements: pages, counts, live rows, the ledger, channel access. What only syncs read is
//! `sync`'s. Every function works inside the transaction of its caller, so that one call sees one snapshot (S1). Which rows a plan admits is `plan_sql`'s.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_core::channel::{Channel, Role};
use holdfast_core::ids::{ArtifactId, ChannelId, CommunityId, Position};
use holdfast_core::node::{
    HistoryPage, HistoryRow, LedgerPage, LiveQuery, LiveRows, ReadFailure, Settled, Signal,
    StoredRow,
};
use holdfast_core::nostr::{Event, EventId, PubKey};
use holdfast_core::scope::{Cut, ReadPlan, Stamp};
use holdfast_core::sync::StoreGeneration;
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use super::budget::{Budget, failure};
use super::codes::{self, CHANNEL_COLUMNS, int};
use super::paged::Paged;
use super::plan_sql::{
    self, PARAM_FIRST_BOUND, PARAM_FLOOR, PARAM_KIND, PARAM_LIMIT, PARAM_VALUE, Part, Probes,
    Purpose,
};

/// Rows of one ledger page.
const LEDGER_PAGE_ROWS_MAX: usize = 1_000;
/// Bytes of all rows of one query answer; a larger answer is a failure, since nothing partial is returned (AR-CUR-23).
pub(super) const QUERY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why a read ended without an answer.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The database failed, or stopped at the end of the budget.
    Database(rusqlite::Error),
    /// The budget is over.
    OutOfBudget,
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> ReadError {
        ReadError::Database(error)
    }
}

impl From<ReadError> for ReadFailure {
    fn from(error: ReadError) -> ReadFailure {
        match error {
            ReadError::Database(error) => failure(&error),
            ReadError::OutOfBudget => ReadFailure::Budget,
        }
    }
}

/// What a read gives.
pub(super) type Result<T> = std::result::Result<T, ReadError>;

/// The present, in microseconds since the Unix epoch: the database clock of an embedded store.
pub(super) fn clock_us() -> u64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

/// The present in seconds, for expiry.
pub(super) fn clock_secs() -> u64 {
    clock_us() / 1_000_000
}

/// The newest committed ledger position that the transaction sees.
pub(super) fn newest_position(tx: &Connection) -> rusqlite::Result<Position> {
    tx.prepare_cached("SELECT coalesce(max(position), 0) FROM ledger")?
        .query_row([], |row| codes::position(row, 0))
}

/// The plans of one call in one snapshot, read page by page.
#[derive(Debug)]
pub(super) struct Snapshot {
    plans: VecDeque<ReadPlan>,
    community: i64,
    clock_secs: u64,
    cut: Cut,
    readable: BTreeSet<ChannelId>,
    /// Positions of rows that are found and not yet returned.
    found: VecDeque<i64>,
    /// Positions of all rows that were found.
    seen: BTreeSet<i64>,
}

impl Snapshot {
    /// Begins the snapshot: the first statement of the transaction.
    pub(super) fn open(tx: &Connection, community: i64, plans: Vec<ReadPlan>) -> Result<Snapshot> {
        let cut = Cut::Position(newest_position(tx)?);
        Ok(Snapshot {
            readable: readable(tx, community, &plans)?,
            plans: plans.into(),
            community,
            clock_secs: clock_secs(),
            cut,
            found: VecDeque::new(),
            seen: BTreeSet::new(),
        })
    }

    /// Goes on to the next plan with rows that are new, once all rows found are returned.
    fn find_more(&mut self, tx: &Connection, budget: &Budget) -> Result<()> {
        while self.found.is_empty() {
            let Some(plan) = self.plans.pop_front() else {
                break;
            };
            for position in first_rows(tx, budget, &plan, self.community, self.clock_secs)? {
                if self.seen.insert(position) {
                    self.found.push_back(position);
                }
            }
        }
        Ok(())
    }
}

/// Bounds of one page of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageBounds {
    /// Most rows, at least 1.
    pub(super) rows_max: u32,
    /// Most bytes of serialised events; one row is always let through.
    pub(super) bytes_max: usize,
}

impl Paged for Snapshot {
    type Want = PageBounds;
    type Page = HistoryPage;

    /// The next page: bodies of the rows found, one plan after the other, each event once.
    fn next_page(
        &mut self,
        tx: &Connection,
        budget: &Budget,
        PageBounds {
            rows_max,
            bytes_max,
        }: PageBounds,
    ) -> Result<HistoryPage> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            self.find_more(tx, budget)?;
            let Some(position) = self.found.front().copied() else {
                break;
            };
            if rows.len() >= rows_max.max(1) as usize {
                break;
            }
            let row = history_row(tx, position)?;
            if !rows.is_empty() && bytes + row.json.len() > bytes_max {
                break;
            }
            bytes += row.json.len();
            rows.push(row);
            self.found.pop_front();
        }
        let end = self.found.is_empty().then(|| self.cut.clone());
        Ok(HistoryPage {
            rows,
            end,
            readable: self.readable.clone(),
        })
    }

    fn is_last(page: &HistoryPage) -> bool {
        page.end.is_some()
    }
}

fn history_row(tx: &Connection, position: i64) -> Result<HistoryRow> {
    let mut statement = tx.prepare_cached("SELECT id, body FROM event WHERE position = ?1")?;
    Ok(statement.query_row([position], |row| {
        Ok(HistoryRow {
            id: codes::event_id(row, 0)?,
            json: Arc::from(row.get_ref(1)?.as_str()?),
        })
    })?)
}

/// Number of distinct events over all plans.
pub(super) fn count(
    tx: &Connection,
    budget: &Budget,
    community: i64,
    clock_secs: u64,
    plans: &[ReadPlan],
) -> Result<u64> {
    let mut positions = Vec::new();
    for plan in plans {
        for part in plan_sql::compile(plan, community, clock_secs, Purpose::Count) {
            run(tx, budget, community, &part, |statement| {
                statement.raw_bind_parameter(PARAM_FLOOR, plan_sql::lowest_rank(plan))?;
                statement.raw_bind_parameter(PARAM_LIMIT, -1)?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next()? {
                    positions.push(row.get::<_, i64>(0)?);
                }
                Ok(())
            })?;
        }
    }
    positions.sort_unstable();
    positions.dedup();
    Ok(positions.len() as u64)
}

/// Positions of the rows of a plan's page, in the plan's order.
pub(super) fn first_rows(
    tx: &Connection,
    budget: &Budget,
    plan: &ReadPlan,
    community: i64,
    clock_secs: u64,
) -> Result<Vec<i64>> {
    let offset = plan.page.offset as usize;
    let most = offset + plan.page.limit as usize;
    if plan.page.limit == 0 {
        return Ok(Vec::new());
    }
    // Rank descending, then id ascending: the order of every view, as ranks of artifact views are unique.
    let mut first: BTreeMap<(Reverse<i64>, EventId), i64> = BTreeMap::new();
    let mut floor = plan_sql::lowest_rank(plan);
    for part in plan_sql::compile(plan, community, clock_secs, Purpose::Page) {
        run(tx, budget, community, &part, |statement| {
            statement.raw_bind_parameter(PARAM_FLOOR, floor)?;
            statement.raw_bind_parameter(PARAM_LIMIT, most as i64)?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                let key = (Reverse(row.get(1)?), codes::event_id(row, 2)?);
                first.insert(key, row.get(0)?);
                if first.len() > most && first.pop_last().is_some_and(|(last, _)| last == key) {
                    break;
                }
            }
            // Of a full page the last rank is the lowest that still matters.
            if first.len() == most
                && let Some(((Reverse(rank), _), _)) = first.last_key_value()
            {
                floor = floor.max(*rank);
            }
            Ok(())
        })?;
    }
    Ok(first.into_values().skip(offset).collect())
}

/// The first rows of an artifact plan behind one artifact, in ascending order of their ids: artifacts and the positions of their
/// revisions. The view has one revision of each artifact; the page bounds of the plan are ignored.
pub(super) fn by_artifact(
    tx: &Connection,
    budget: &Budget,
    plan: &ReadPlan,
    (community, clock_secs): (i64, u64),
    after: Option<ArtifactId>,
    most: usize,
) -> Result<Vec<(ArtifactId, i64)>> {
    // Every id is behind the empty one.
    let after = after.map_or_else(Vec::new, |artifact| artifact.0.as_bytes().to_vec());
    let mut first: BTreeMap<ArtifactId, i64> = BTreeMap::new();
    for part in plan_sql::compile(plan, community, clock_secs, Purpose::ByArtifact) {
        run(tx, budget, community, &part, |statement| {
            statement.raw_bind_parameter(PARAM_FLOOR, &after)?;
            statement.raw_bind_parameter(PARAM_LIMIT, int(most as u64))?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                let artifact = codes::artifact_id(row, 1)?;
                first.insert(artifact, row.get(0)?);
                if first.len() > most && first.pop_last().is_some_and(|(last, _)| last == artifact)
                {
                    break;
                }
            }
            Ok(())
        })?;
    }
    Ok(first.into_iter().collect())
}

/// Runs a part once per probe; `each` binds floor and limit and takes the rows.
fn run(
    tx: &Connection,
    budget: &Budget,
    community: i64,
    part: &Part,
    mut each: impl FnMut(&mut CachedStatement<'_>) -> rusqlite::Result<()>,
) -> Result<()> {
    let mut statement = tx.prepare_cached(&part.sql)?;
    for (at, bind) in part.binds.iter().enumerate() {
        statement.raw_bind_parameter(PARAM_FIRST_BOUND + at, bind)?;
    }
    let mut probe = |value: Option<&Value>, kind: Option<u16>| {
        if budget.is_over() {
            return Err(ReadError::OutOfBudget);
        }
        if let Some(value) = value {
            statement.raw_bind_parameter(PARAM_VALUE, value)?;
        }
        if let Some(kind) = kind {
            statement.raw_bind_parameter(PARAM_KIND, kind)?;
        }
        Ok(each(&mut statement)?)
    };
    match &part.probes {
        Probes::Once => probe(None, None)?,
        Probes::Values(values) => {
            for value in values {
                probe(Some(value), None)?;
            }
        }
        Probes::Kinds {
            values,
            kinds,
            occurring,
        } => {
            let values: Vec<Option<&Value>> = match values {
                Some(values) => values.iter().map(Some).collect(),
                None => vec![None],
            };
            for value in values {
                let wanted = kinds.iter().flatten().copied();
                let kinds: Vec<u16> = match occurring {
                    None => wanted.collect(),
                    Some(sql) => occurring_kinds(tx, sql, community, value)?
                        .into_iter()
                        .filter(|kind| kinds.as_ref().is_none_or(|kinds| kinds.contains(kind)))
                        .collect(),
                };
                for kind in kinds {
                    probe(value, Some(kind))?;
                }
            }
        }
    }
    Ok(())
}

fn occurring_kinds(
    tx: &Connection,
    sql: &str,
    community: i64,
    value: Option<&Value>,
) -> rusqlite::Result<Vec<u16>> {
    let mut statement = tx.prepare_cached(sql)?;
    statement.raw_bind_parameter(1, community)?;
    if let Some(value) = value {
        statement.raw_bind_parameter(2, value)?;
    }
    let mut rows = statement.raw_query();
    let mut kinds = Vec::new();
    while let Some(row) = rows.next()? {
        kinds.push(row.get(0)?);
    }
    Ok(kinds)
}

/// The named channels that some reader of the naming plan may read (AR-ACC-1).
fn readable(tx: &Connection, community: i64, plans: &[ReadPlan]) -> Result<BTreeSet<ChannelId>> {
    let mut readable = BTreeSet::new();
    for plan in plans {
        for &id in &plan.scope.named {
            let Some(channel) = channel(tx, community, id)? else {
                continue;
            };
            let anonymous = plan.readers.is_empty() && channel.readable_by(None);
            let mut readers = plan.readers.iter();
            let by_reader = readers.try_fold(false, |found, reader| {
                let role = if found {
                    None
                } else {
                    role(tx, community, id, reader)?
                };
                Ok::<bool, rusqlite::Error>(found || channel.readable_by(role))
            })?;
            if anonymous || by_reader {
                readable.insert(id);
            }
        }
    }
    Ok(readable)
}

/// A channel, also a deleted one.
pub(super) fn channel(
    tx: &Connection,
    community: i64,
    id: ChannelId,
) -> rusqlite::Result<Option<Channel>> {
    tx.prepare_cached(&format!(
        "SELECT {CHANNEL_COLUMNS} FROM channel c WHERE c.community = ?1 AND c.id = ?2"
    ))?
    .query_row(params![community, id.0.as_bytes()], codes::channel)
    .optional()
}

fn role(
    tx: &Connection,
    community: i64,
    channel: ChannelId,
    key: &PubKey,
) -> rusqlite::Result<Option<Role>> {
    tx.prepare_cached(
        "SELECT role FROM member WHERE community = ?1 AND channel = ?2 AND pubkey = ?3 AND removed = 0",
    )?
    .query_row(params![community, channel.0.as_bytes(), key.as_bytes()], |row| codes::role(row, 0))
    .optional()
}

/// Events by position, their channels, and the roles of the asked keys in them.
pub(super) fn live(
    tx: &Connection,
    budget: &Budget,
    community: i64,
    query: &LiveQuery,
) -> Result<LiveRows> {
    let mut answer = LiveRows {
        clock_secs: clock_secs(),
        ..LiveRows::default()
    };
    let mut bytes = 0;
    for &position in &query.positions {
        if bytes >= query.bytes_max && !answer.rows.is_empty() {
            answer.left.insert(position);
            continue;
        }
        if let Some((row, len)) = stored_row(tx, community, position, answer.clock_secs)? {
            bytes += len;
            answer.rows.insert(position, row);
        }
    }
    let of_rows = answer.rows.values().filter_map(|row| row.channel);
    let wanted: BTreeSet<ChannelId> = query.channels.iter().copied().chain(of_rows).collect();
    for id in wanted {
        let Some(channel) = channel(tx, community, id)? else {
            continue;
        };
        answer.channels.insert(id, channel);
        for key in &query.keys {
            if budget.is_over() {
                return Err(ReadError::OutOfBudget);
            }
            if let Some(role) = role(tx, community, id, key)? {
                answer.roles.insert((id, *key), role);
            }
        }
    }
    Ok(answer)
}

/// A stored event that is neither withheld nor expired, with the bytes of its body.
fn stored_row(
    tx: &Connection,
    community: i64,
    position: Position,
    clock_secs: u64,
) -> rusqlite::Result<Option<(StoredRow, usize)>> {
    tx.prepare_cached(
        "SELECT body, channel, audience FROM event
         WHERE position = ?1 AND community = ?2 AND withheld IS NULL AND (expires_at IS NULL OR expires_at > ?3)",
    )?
    .query_row(params![int(position.0), community, int(clock_secs)], |row| {
        let body = row.get_ref(0)?.as_str()?;
        let event = Event::from_json(body).map_err(|_| codes::corrupt(0, "event"))?;
        let row = StoredRow {
            stamp: Stamp { position, xid: 0 },
            event: Arc::new(event),
            channel: codes::optional_channel_id(row, 1)?,
            audience: codes::audience(row, 2)?,
        };
        Ok((row, body.len()))
    })
    .optional()
}

/// The ledger rows after a position, in position order, which is commit order here (S6); without one, only the present cursor.
pub(super) fn ledger(tx: &Connection, after: Option<Position>) -> Result<LedgerPage> {
    let Some(after) = after else {
        let cursor = Cut::Position(newest_position(tx)?);
        return Ok(LedgerPage {
            signals: Vec::new(),
            cursor,
            more: false,
            store: StoreGeneration::default(),
        });
    };
    let mut statement = tx.prepare_cached(
        "SELECT l.position, c.id, l.change, l.channel, l.key, l.artifact
         FROM ledger l JOIN community c ON c.number = l.community
         WHERE l.position > ?1 ORDER BY l.position LIMIT ?2",
    )?;
    let rows = statement.query_map(
        params![int(after.0), LEDGER_PAGE_ROWS_MAX as i64 + 1],
        |row| Ok((CommunityId(codes::uuid(row.get(1)?, 1)?), signal(row)?)),
    )?;
    let mut signals = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let more = signals.len() > LEDGER_PAGE_ROWS_MAX;
    signals.truncate(LEDGER_PAGE_ROWS_MAX);
    let last = signals.last().map_or(after, |(_, signal)| signal.position);
    Ok(LedgerPage {
        signals,
        cursor: Cut::Position(last),
        more,
        store: StoreGeneration::default(),
    })
}

fn signal(row: &Row<'_>) -> rusqlite::Result<Signal> {
    Ok(Signal {
        position: codes::position(row, 0)?,
        xid: 0,
        change: codes::change(row, 2)?,
        channel: codes::optional_channel_id(row, 3)?,
        key: codes::optional_pubkey(row, 4)?,
        artifact: codes::optional_artifact_id(row, 5)?,
    })
}

/// What became of the submission that was stamped so (S3). Asked after its transaction has ended one way or the other: what a
/// reader does not see then can come to light only by the recovery of another process. Stamps rise with positions, and no
/// two submissions have the same; 0 is none.
pub(super) fn settled(tx: &Connection, stamp_us: u64) -> Result<Settled> {
    if stamp_us == 0 {
        return Ok(Settled::Forgotten);
    }
    let found: Option<bool> = tx
        .prepare_cached(
            "SELECT stamp_us = ?1 FROM ledger WHERE stamp_us <= ?1 ORDER BY position DESC LIMIT 1",
        )?
        .query_row([int(stamp_us)], |row| row.get(0))
        .optional()?;
    Ok(if found == Some(true) {
        Settled::Committed
    } else {
        Settled::Aborted
    })
}
