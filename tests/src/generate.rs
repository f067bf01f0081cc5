//! Random events and filters of NIP-01, for tests that compare two readings of a filter. Values come from so few that events
//! and filters often meet and often miss each other. What matches is not decided here, and nothing here has a channel, a gate or
//! an expiry.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use holdfast_core::nostr::{Draft, Event, Kind, SecretKey, Tag};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value, json};

/// First and last created_at of the events, in seconds.
pub const CREATED_AT: RangeInclusive<u64> = 1_700_000_000..=1_700_000_006;

/// Most events of one case.
pub const EVENTS_MAX: usize = 16;

/// Kinds that are stored one beside the other and that everyone may read.
const KINDS: [Kind; 4] = [1, 7, 1_111, 30];

/// Tag names; the longer ones and the one that is no ASCII letter cannot be asked for.
const NAMES: [&str; 9] = ["t", "T", "p", "P", "e", "d", "tt", "project", "é"];

/// Tag conditions of the filters; no event has a tag `x`.
const CONDITIONS: [&str; 7] = ["t", "T", "p", "P", "e", "d", "x"];

/// Values that a careless reader takes for hex, folds to one case, trims, or takes for the end of a text.
const VALUES: [&str; 9] = [
    "abc", "abcd", "ABCD", "", " abc", "é", "a\"b\\", "\u{0}", "0",
];

/// Events without repetitions, and filters made for them.
#[derive(Clone, Debug)]
pub struct Case {
    /// Events signed by a few keys, in no order.
    pub events: Vec<Event>,
    /// Filters as JSON objects. Lists may be empty, `until` before `since`, `limit` 0.
    pub filters: Vec<Value>,
}

/// A case with one to [`EVENTS_MAX`] events and one to four filters.
pub fn case() -> impl Strategy<Value = Case> {
    (vec(event(), 1..=EVENTS_MAX), vec(filter(), 1..=4)).prop_map(|(events, filters)| {
        let mut known = BTreeSet::new();
        let events: Vec<Event> = events
            .into_iter()
            .filter(|event| known.insert(event.id))
            .collect();
        let filters = filters.iter().map(|filter| filter.json(&events)).collect();
        Case { events, filters }
    })
}

/// One of the keys that sign the events of these cases.
///
/// # Panics
/// For 0, which is no key.
pub fn key(number: u8) -> SecretKey {
    SecretKey::from_bytes([number; 32]).expect("small numbers but zero are keys")
}

/// A signed event.
pub fn event() -> impl Strategy<Value = Event> {
    let content = select(vec![
        "",
        "hello",
        "line\nbreak",
        "\u{1}\u{7f}\"\\/",
        "κόσμε 🌍",
    ]);
    (
        1..=3u8,
        select(KINDS.to_vec()),
        CREATED_AT,
        vec(tag(), 0..5),
        content,
    )
        .prop_map(|(author, kind, created_at, tags, content)| {
            let content = content.to_owned();
            Draft {
                created_at,
                kind,
                tags,
                content,
            }
            .sign(&key(author))
        })
}

fn tag() -> impl Strategy<Value = Tag> {
    (select(NAMES.to_vec()), vec(value(), 0..3)).prop_map(|(name, values)| {
        let mut tag = vec![name.to_owned()];
        tag.extend(values);
        tag
    })
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(VALUES.to_vec()).prop_map(str::to_owned),
        1 => (1..=3u8).prop_map(|number| key(number).public_key().to_string()),
        1 => (1..=3u8).prop_map(|number| key(number).public_key().to_string().to_uppercase()),
    ]
}

/// A filter before its events are known: it looks at one event, its model, and asks for what that is or for something else.
#[derive(Clone, Debug)]
struct Aim {
    model: Index,
    ids: Option<List<Index>>,
    authors: Option<List<u8>>,
    kinds: Option<List<Kind>>,
    tags: Vec<(Index, &'static str, List<String>)>,
    since: Option<u64>,
    until: Option<u64>,
    limit: Option<usize>,
}

/// The values of one condition.
#[derive(Clone, Debug)]
struct List<T> {
    /// The model's own value is among them.
    own: bool,
    others: Vec<T>,
}

fn list<T: Clone + std::fmt::Debug>(
    values: impl Strategy<Value = T>,
    most: usize,
) -> impl Strategy<Value = List<T>> {
    (weighted(0.8), vec(values, 0..=most)).prop_map(|(own, others)| List { own, others })
}

fn filter() -> impl Strategy<Value = Aim> {
    use proptest::option::weighted as option;
    let ids = option(0.15, list(any::<Index>(), EVENTS_MAX));
    let authors = option(0.25, list(1..=3u8, 2));
    let kinds = option(0.4, list(select(KINDS.to_vec()), 3));
    let condition = || {
        (
            any::<Index>(),
            select(CONDITIONS.to_vec()),
            list(value(), 6),
        )
    };
    let tags = prop_oneof![
        2 => Just(Vec::new()),
        2 => vec(condition(), 1),
        1 => vec(condition(), 2..=3),
    ];
    let times = (option(0.2, CREATED_AT), option(0.2, CREATED_AT));
    let limit = option(0.3, 0..EVENTS_MAX);
    (any::<Index>(), ids, authors, kinds, tags, times, limit).prop_map(
        |(model, ids, authors, kinds, tags, (since, until), limit)| Aim {
            model,
            ids,
            authors,
            kinds,
            tags,
            since,
            until,
            limit,
        },
    )
}

impl Aim {
    /// The filter for these events, of which there is at least one.
    fn json(&self, events: &[Event]) -> Value {
        let model = self.model.get(events);
        let mut filter = Map::new();
        if let Some(list) = &self.ids {
            let own = list.own.then_some(model.id);
            let ids = list.others.iter().map(|at| at.get(events).id).chain(own);
            filter.insert("ids".to_owned(), ids.map(|id| id.to_string()).collect());
        }
        if let Some(list) = &self.authors {
            let own = list.own.then_some(model.pubkey);
            let authors = list
                .others
                .iter()
                .map(|number| key(*number).public_key())
                .chain(own);
            filter.insert(
                "authors".to_owned(),
                authors.map(|key| key.to_string()).collect(),
            );
        }
        if let Some(list) = &self.kinds {
            let kinds = list
                .others
                .iter()
                .copied()
                .chain(list.own.then_some(model.kind));
            filter.insert("kinds".to_owned(), kinds.collect());
        }
        for (at, other_name, list) in &self.tags {
            let askable = |tag: &&Tag| CONDITIONS.contains(&tag[0].as_str()) && tag.len() > 1;
            let own: Vec<&Tag> = model.tags.iter().filter(askable).collect();
            let own = (list.own && !own.is_empty()).then(|| *at.get(&own));
            let name = own.map_or(*other_name, |tag| tag[0].as_str());
            let values = list
                .others
                .iter()
                .cloned()
                .chain(own.map(|tag| tag[1].clone()));
            filter.insert(format!("#{name}"), values.collect());
        }
        for (name, number) in [("since", self.since), ("until", self.until)] {
            filter.extend(number.map(|number| (name.to_owned(), json!(number))));
        }
        filter.extend(self.limit.map(|limit| ("limit".to_owned(), json!(limit))));
        Value::Object(filter)
    }
}
