//! Translates a [`ReadPlan`] into statements: the only file that does, and it agrees with `scope::admits` row by row (S9).
//!
//! A plan becomes parts. Each part is driven by one index and runs once per probe, that is per value of the condition that the
//! index serves; the rows of one probe come in the plan's order where the index has it. All other conditions stand in the
//! statement, so that they hold before any limit (AR-CUR-14, AR-CUR-15, CL-FIND-7). Running the parts, merging their rows and
//! cutting pages belongs to `read`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::LazyLock;

use holdfast_core::channel::LEGACY_TYPE_NAMES;
use holdfast_core::ids::{ArtifactId, ChannelId};
use holdfast_core::nostr::{Kind, PubKey, kinds};
use holdfast_core::scope::{Gate, PlanView, ReadPlan, gate_of};
use rusqlite::types::{ToSql, ToSqlOutput, Value};
use rusqlite::vtab::array::Array;

use super::codes::int;
use super::driver::{Driver, drivers, is_notice, may_be, may_match_untyped};

/// Number of the parameter that holds the lowest rank still wanted, or the artifact behind which rows are wanted.
pub(super) const PARAM_FLOOR: usize = 1;
/// Number of the parameter that holds the most rows of one run; -1 is all.
pub(super) const PARAM_LIMIT: usize = 2;
/// Number of the parameter that holds the probed value.
pub(super) const PARAM_VALUE: usize = 3;
/// Number of the parameter that holds the probed kind.
pub(super) const PARAM_KIND: usize = 4;
/// Number of the first of the other parameters, the community.
pub(super) const PARAM_FIRST_BOUND: usize = 5;

/// Kinds named in a filter up to which each is probed; with more, only those are probed that occur.
const KINDS_PROBED_MAX: usize = 16;

/// Kinds that only some keys may read.
static GATED_KINDS: LazyLock<Vec<(Kind, Gate)>> = LazyLock::new(|| {
    (0..=Kind::MAX)
        .filter_map(|kind| gate_of(kind).map(|gate| (kind, gate)))
        .collect()
});

/// What is wanted of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The first ones in the plan's order.
    Page,
    /// All, in any order.
    Count,
    /// Artifacts of an artifact view in ascending order of their ids, behind one.
    ByArtifact,
}

/// A bound parameter.
#[derive(Clone, Debug)]
pub(super) enum Bind {
    /// One value.
    One(Value),
    /// A list for `rarray`.
    Many(Array),
}

impl ToSql for Bind {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Bind::One(value) => value.to_sql(),
            Bind::Many(values) => values.to_sql(),
        }
    }
}

/// Which runs a part needs.
#[derive(Clone, Debug)]
pub(super) enum Probes {
    /// One run without probed values.
    Once,
    /// One run per value.
    Values(Vec<Value>),
    /// One run per value and kind.
    Kinds {
        /// The values; none for the whole community.
        values: Option<Vec<Value>>,
        /// The wanted kinds; none for all.
        kinds: Option<BTreeSet<Kind>>,
        /// Statement that lists the kinds that occur for a value (parameters: community, value). Absent when all wanted kinds
        /// are to be probed.
        occurring: Option<&'static str>,
    },
}

/// One statement and its runs. Columns: position, rank (created_at or position, highest first) or artifact id, id.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The statement.
    pub(super) sql: String,
    /// Parameters from [`PARAM_FIRST_BOUND`] on.
    pub(super) binds: Vec<Bind>,
    /// The runs.
    pub(super) probes: Probes,
}

/// Compiles a plan. No part: nothing can match.
pub(super) fn compile(
    plan: &ReadPlan,
    community: i64,
    clock_secs: u64,
    purpose: Purpose,
) -> Vec<Part> {
    if matches_nothing(plan) {
        return Vec::new();
    }
    drivers(plan)
        .into_iter()
        .map(|driver| Sql::new(plan, driver, purpose, community, clock_secs).part())
        .collect()
}

/// The lowest rank a plan wants.
pub(super) fn lowest_rank(plan: &ReadPlan) -> i64 {
    match plan.view {
        PlanView::Events => int(plan.since.unwrap_or(0)),
        PlanView::Current | PlanView::Head | PlanView::History => 0,
    }
}

fn matches_nothing(plan: &ReadPlan) -> bool {
    let artifact_view = plan.view != PlanView::Events;
    plan.ids.as_ref().is_some_and(BTreeSet::is_empty)
        || plan.authors.as_ref().is_some_and(BTreeSet::is_empty)
        || plan.channels.as_ref().is_some_and(BTreeSet::is_empty)
        || plan.t_values.as_ref().is_some_and(BTreeSet::is_empty)
        || plan.terms.values().any(BTreeSet::is_empty)
        || plan
            .since
            .is_some_and(|since| i64::try_from(since).is_err())
        || plan.kinds.as_ref().is_some_and(|wanted| {
            wanted.is_empty() || (artifact_view && !wanted.contains(&kinds::ARTIFACT))
        })
}

/// A statement under construction.
struct Sql<'a> {
    plan: &'a ReadPlan,
    driver: Driver<'a>,
    purpose: Purpose,
    binds: Vec<Bind>,
    conditions: String,
}

impl<'a> Sql<'a> {
    fn new(
        plan: &'a ReadPlan,
        driver: Driver<'a>,
        purpose: Purpose,
        community: i64,
        clock_secs: u64,
    ) -> Sql<'a> {
        let mut sql = Sql {
            plan,
            driver,
            purpose,
            binds: Vec::new(),
            conditions: String::new(),
        };
        let community = sql.bind(Value::Integer(community));
        let clock = sql.bind(Value::Integer(int(clock_secs)));
        let _ = write!(
            sql.conditions,
            "e.community = {community} AND e.withheld IS NULL AND (e.expires_at IS NULL OR e.expires_at > {clock})"
        );
        sql
    }

    fn bind(&mut self, value: Value) -> String {
        self.binds.push(Bind::One(value));
        format!("?{}", PARAM_FIRST_BOUND + self.binds.len() - 1)
    }

    /// `= ?` for one value, `IN rarray(?)` for more.
    fn one_of(&mut self, mut values: Vec<Value>) -> String {
        match values.pop() {
            Some(value) if values.is_empty() => format!("= {}", self.bind(value)),
            Some(value) => {
                values.push(value);
                self.binds.push(Bind::Many(Rc::new(values)));
                format!("IN rarray(?{})", PARAM_FIRST_BOUND + self.binds.len() - 1)
            }
            None => "IN ()".to_owned(),
        }
    }

    fn and(&mut self, condition: &str) {
        self.conditions.push_str(" AND ");
        self.conditions.push_str(condition);
    }

    fn part(mut self) -> Part {
        let (from, rank) = self.source();
        self.fields();
        self.tags();
        self.view();
        self.access();
        let (floor, order) = match (self.purpose, self.plan.view) {
            (Purpose::Count, _) => (">=", String::new()),
            (Purpose::Page, PlanView::Events) => (">=", format!(" ORDER BY {rank} DESC, e.id")),
            (Purpose::Page, _) => (">=", format!(" ORDER BY {rank} DESC")),
            (Purpose::ByArtifact, _) => (">", format!(" ORDER BY {rank}")),
        };
        let probes = self.probes();
        Part {
            sql: format!(
                "SELECT e.position, {rank}, e.id FROM {from} WHERE {conditions} AND {rank} {floor} ?{PARAM_FLOOR}{order} LIMIT ?{PARAM_LIMIT}",
                conditions = self.conditions
            ),
            binds: self.binds,
            probes,
        }
    }

    /// The tables with their index, and the column of the rank; the conditions of the probe are added.
    fn source(&mut self) -> (&'static str, &'static str) {
        let by_artifact = self.purpose == Purpose::ByArtifact;
        let (of_event, of_term, of_head) = match self.plan.view {
            _ if by_artifact => ("e.artifact", "e.artifact", "h.artifact"),
            PlanView::Events => ("e.created_at", "t.created_at", "h.position"),
            _ => ("e.position", "e.position", "h.position"),
        };
        let (from, rank, probe) = match self.driver {
            Driver::Ids => ("event e", of_event, format!("e.id = ?{PARAM_VALUE}")),
            Driver::Authors => (
                "event e INDEXED BY event_by_author",
                of_event,
                format!("e.pubkey = ?{PARAM_VALUE} AND e.kind = ?{PARAM_KIND}"),
            ),
            Driver::Channels => (
                "event e INDEXED BY event_by_channel",
                of_event,
                format!("e.channel = ?{PARAM_VALUE} AND e.kind = ?{PARAM_KIND}"),
            ),
            Driver::Kinds => (
                "event e INDEXED BY event_by_kind",
                of_event,
                format!("e.kind = ?{PARAM_KIND}"),
            ),
            Driver::Revisions => (
                "event e INDEXED BY event_by_artifact",
                of_event,
                format!("e.artifact = ?{PARAM_VALUE}"),
            ),
            Driver::ChannelTags => (
                TERM_SOURCE,
                of_term,
                format!(
                    "{TERM_COMMUNITY} AND t.name = 'h' AND t.value = ?{PARAM_VALUE} AND e.channel IS NULL"
                ),
            ),
            Driver::Term(name, _) => {
                let name = self.bind(Value::Text(name.to_owned()));
                let probe =
                    format!("{TERM_COMMUNITY} AND t.name = {name} AND t.value = ?{PARAM_VALUE}");
                (TERM_SOURCE, of_term, probe)
            }
            Driver::Heads => {
                let probe = format!("{HEAD_COMMUNITY} AND h.artifact = ?{PARAM_VALUE}");
                (
                    "head h CROSS JOIN event e ON e.position = h.position",
                    of_head,
                    probe,
                )
            }
            Driver::Homes => (
                if by_artifact {
                    "head h INDEXED BY head_by_home_artifact CROSS JOIN event e ON e.position = h.position"
                } else {
                    "head h INDEXED BY head_by_home CROSS JOIN event e ON e.position = h.position"
                },
                of_head,
                format!("{HEAD_COMMUNITY} AND h.home = ?{PARAM_VALUE}"),
            ),
            Driver::AllHeads => (
                if by_artifact {
                    "head h NOT INDEXED CROSS JOIN event e ON e.position = h.position"
                } else {
                    "head h INDEXED BY head_by_position CROSS JOIN event e ON e.position = h.position"
                },
                of_head,
                HEAD_COMMUNITY.to_owned(),
            ),
        };
        self.and(&probe);
        (from, rank)
    }

    fn probes(&self) -> Probes {
        let plan = self.plan;
        let channels = || plan.channels.iter().flatten();
        let by_kind = |values: Option<Vec<Value>>, occurring: &'static str| {
            let kinds = match plan.view {
                PlanView::Events => plan.kinds.clone(),
                PlanView::Current | PlanView::Head | PlanView::History => {
                    Some(BTreeSet::from([kinds::ARTIFACT]))
                }
            };
            let few = kinds
                .as_ref()
                .is_some_and(|kinds| kinds.len() <= KINDS_PROBED_MAX);
            Probes::Kinds {
                values,
                kinds,
                occurring: (!few).then_some(occurring),
            }
        };
        match self.driver {
            Driver::Ids => Probes::Values(
                plan.ids
                    .iter()
                    .flatten()
                    .map(|id| blob(id.as_bytes()))
                    .collect(),
            ),
            Driver::Authors => {
                let authors = plan
                    .authors
                    .iter()
                    .flatten()
                    .map(|key| blob(key.as_bytes()));
                by_kind(Some(authors.collect()), KINDS_OF_AUTHOR)
            }
            Driver::Channels => by_kind(
                Some(channels().map(channel_blob).collect()),
                KINDS_OF_CHANNEL,
            ),
            Driver::Kinds => by_kind(None, KINDS_OF_COMMUNITY),
            Driver::Term(_, values) => Probes::Values(texts(values)),
            Driver::ChannelTags => Probes::Values(
                channels()
                    .map(|channel| Value::Text(channel.to_string()))
                    .collect(),
            ),
            Driver::Homes => Probes::Values(channels().map(channel_blob).collect()),
            Driver::Heads | Driver::Revisions => {
                let named = plan.terms.get("d").into_iter().flatten();
                let artifacts = named.filter_map(|d| d.parse::<ArtifactId>().ok());
                Probes::Values(
                    artifacts
                        .map(|artifact| blob(artifact.0.as_bytes()))
                        .collect(),
                )
            }
            Driver::AllHeads => Probes::Once,
        }
    }

    /// Authors, kinds, times and channels, as far as the driver does not meet them. Ids always drive.
    fn fields(&mut self) {
        let plan = self.plan;
        if let (Some(authors), false) = (&plan.authors, matches!(self.driver, Driver::Authors)) {
            let list = self.one_of(authors.iter().map(|key| blob(key.as_bytes())).collect());
            self.and(&format!("e.pubkey {list}"));
        }
        if !matches!(
            self.driver,
            Driver::Authors | Driver::Channels | Driver::Kinds
        ) {
            if plan.view != PlanView::Events {
                self.and("e.kind = 45010");
            } else if let Some(kinds) = &plan.kinds {
                let list = self.one_of(kinds.iter().map(|kind| Value::from(*kind)).collect());
                self.and(&format!("e.kind {list}"));
            }
        }
        if let Some(until) = plan.until {
            let until = self.bind(Value::Integer(int(until)));
            self.and(&format!("e.created_at <= {until}"));
        }
        if let (Some(since), true) = (plan.since, plan.view != PlanView::Events) {
            let since = self.bind(Value::Integer(int(since)));
            self.and(&format!("e.created_at >= {since}"));
        }
        if let (Some(channels), false) = (
            &plan.channels,
            matches!(self.driver, Driver::Channels | Driver::ChannelTags),
        ) {
            let stored = self.one_of(channels.iter().map(channel_blob).collect());
            let named = channels
                .iter()
                .map(|channel| Value::Text(channel.to_string()));
            let named = self.one_of(named.collect());
            self.and(&format!(
                "CASE WHEN e.channel IS NULL THEN {} ELSE e.channel {stored} END",
                has_term("'h'", &named)
            ));
        }
    }

    /// Terms, and `#t` by the rule of the row's kind.
    fn tags(&mut self) {
        let plan = self.plan;
        for (name, values) in &plan.terms {
            if matches!(self.driver, Driver::Term(driving, _) if driving == name) {
                continue;
            }
            let name = self.bind(Value::Text(name.clone()));
            let list = self.one_of(texts(values));
            self.and(&has_term(&name, &list));
        }
        // An untyped notice counts as every legacy type, a typed one is matched by its `t` like any event; without `#t` the legacy
        // types are asked of notices only.
        match &plan.t_values {
            Some(_) if matches!(self.driver, Driver::Term("t", _)) => {}
            Some(values) => {
                let list = self.one_of(texts(values));
                let typed = has_term("'t'", &list);
                let untyped = if may_match_untyped(plan) {
                    " OR e.untyped_notice = 1"
                } else {
                    ""
                };
                self.and(&format!("({typed}{untyped})"));
            }
            None if may_be(plan, is_notice) => {
                let typed = has_term("'t'", &format!("IN ({})", quoted(&LEGACY_TYPE_NAMES)));
                self.and(&format!(
                    "(e.kind NOT IN (44100, 44101) OR e.untyped_notice = 1 OR {typed})"
                ));
            }
            None => {}
        }
    }

    /// Which revisions of artifacts belong to the view.
    fn view(&mut self) {
        let is_head = |deleted: &str| {
            format!(
                "EXISTS (SELECT 1 FROM head x WHERE x.community = e.community AND x.position = e.position{deleted})"
            )
        };
        let driven_by_head = matches!(
            self.driver,
            Driver::Heads | Driver::Homes | Driver::AllHeads
        );
        match self.plan.view {
            PlanView::Events => {
                if self.plan.ids.is_none() && may_be(self.plan, |kind| kind == kinds::ARTIFACT) {
                    self.and(&format!("(e.kind <> 45010 OR {})", is_head("")));
                }
            }
            PlanView::Current if driven_by_head => self.and("h.deleted = 0"),
            PlanView::Current => self.and(&is_head(" AND x.deleted = 0")),
            PlanView::Head if driven_by_head => {}
            PlanView::Head => self.and(&is_head("")),
            PlanView::History => {}
        }
    }

    /// Some one reader may read the row: its channel, its gate and its audience.
    fn access(&mut self) {
        let named = &self.plan.scope.named;
        let named =
            (!named.is_empty()).then(|| self.one_of(named.iter().map(channel_blob).collect()));
        let readers: Vec<Option<PubKey>> = if self.plan.readers.is_empty() {
            vec![None]
        } else {
            self.plan.readers.iter().copied().map(Some).collect()
        };
        let each: Vec<String> = readers
            .into_iter()
            .map(|reader| self.readable_by(reader, named.as_deref()))
            .collect();
        self.and(&format!("({})", each.join(" OR ")));
    }

    /// Whether one reader, none for an anonymous one, may read the row.
    fn readable_by(&mut self, reader: Option<PubKey>, named: Option<&str>) -> String {
        let key = self.bind(reader.map_or(Value::Null, |key| blob(key.as_bytes())));
        let mut types = quoted(&LEGACY_TYPE_NAMES);
        if self.plan.scope.system {
            types.push_str(", 'system'");
        }
        let unnamed =
            format!("(c.unlisted = 0 OR m.pubkey IS NOT NULL) AND c.channel_type IN ({types})");
        let reached = match named {
            Some(named) => format!("(c.id {named} OR {unnamed})"),
            None => unnamed,
        };
        let mut readable = format!(
            "CASE WHEN e.channel IS NULL THEN e.audience = 0 OR e.pubkey = {key} ELSE EXISTS (\
             SELECT 1 FROM channel c LEFT JOIN member m \
             ON m.community = c.community AND m.channel = c.id AND m.pubkey = {key} AND m.removed = 0 \
             WHERE c.community = e.community AND c.id = e.channel AND c.deleted = 0 \
             AND (c.visibility = 'open' OR m.pubkey IS NOT NULL) AND {reached} \
             AND (e.audience = 0 OR e.pubkey = {key} OR m.role IN ('owner', 'admin'))) END"
        );
        let gated: Vec<(Kind, Gate)> = GATED_KINDS
            .iter()
            .copied()
            .filter(|(kind, _)| may_be(self.plan, |other| other == *kind))
            .collect();
        if !gated.is_empty() {
            let text = self.bind(reader.map_or(Value::Null, |key| Value::Text(key.to_string())));
            let of_recipient = has_term("'p'", &format!("= {text}"));
            let kinds = |wanted: &[(Kind, Gate)]| {
                wanted
                    .iter()
                    .map(|(kind, _)| kind.to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let by_author: Vec<(Kind, Gate)> = gated
                .iter()
                .copied()
                .filter(|(_, gate)| *gate == Gate::RecipientOrAuthor)
                .collect();
            let _ = write!(
                readable,
                " AND (e.kind NOT IN ({}) OR {of_recipient} OR (e.kind IN ({}) AND e.pubkey = {key}))",
                kinds(&gated),
                kinds(&by_author)
            );
        }
        format!("({readable})")
    }
}

const TERM_SOURCE: &str = "event_tag t CROSS JOIN event e ON e.position = t.position";
/// [`PARAM_FIRST_BOUND`] is the community.
const TERM_COMMUNITY: &str = "t.community = ?5";
const HEAD_COMMUNITY: &str = "h.community = ?5";

/// Statement that lists the kinds occurring in a range of an index, one seek for each.
macro_rules! occurring_kinds {
    ($index:literal, $range:literal) => {
        concat!(
            "WITH RECURSIVE k (kind) AS (SELECT (SELECT kind FROM event INDEXED BY ",
            $index,
            " WHERE ",
            $range,
            " ORDER BY kind LIMIT 1) UNION ALL SELECT (SELECT kind FROM event INDEXED BY ",
            $index,
            " WHERE ",
            $range,
            " AND kind > k.kind ORDER BY kind LIMIT 1) FROM k WHERE k.kind IS NOT NULL)",
            " SELECT kind FROM k WHERE kind IS NOT NULL"
        )
    };
}

const KINDS_OF_AUTHOR: &str = occurring_kinds!(
    "event_by_author",
    "community = ?1 AND pubkey = ?2 AND withheld IS NULL"
);
const KINDS_OF_CHANNEL: &str = occurring_kinds!(
    "event_by_channel",
    "community = ?1 AND channel = ?2 AND withheld IS NULL"
);
const KINDS_OF_COMMUNITY: &str =
    occurring_kinds!("event_by_kind", "community = ?1 AND withheld IS NULL");

/// The row has a term with this name and one of these values.
fn has_term(name: &str, values: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM event_tag g WHERE g.community = e.community AND g.name = {name} AND g.value {values} \
         AND g.created_at = e.created_at AND g.position = e.position)"
    )
}

fn quoted(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!("'{name}'"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn blob(bytes: &[u8]) -> Value {
    Value::Blob(bytes.to_vec())
}

fn channel_blob(channel: &ChannelId) -> Value {
    blob(channel.0.as_bytes())
}

fn texts(values: &BTreeSet<String>) -> Vec<Value> {
    values.iter().cloned().map(Value::Text).collect()
}
