//! What must hold for every plan and every row: more is never less, no key sees through another's eyes, nothing leaks.

use std::cell::Cell;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::test_runner::TestRunner;

use super::*;
use crate::scope::{PlanView, gate_of, index_terms};

const KINDS: [Kind; 9] = [1, 4, 9, 1_059, 39_000, 39_002, 44_100, 45_010, 45_011];
const NAMES: [&str; 6] = ["t", "p", "P", "d", "h", "project"];
const ROLES: [Role; 3] = [Role::Owner, Role::Member, Role::Guest];

fn person() -> impl Strategy<Value = PubKey> {
    select(vec![ANN, BOB, EVE])
}

/// Tag values from so few that filters and events often meet.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(vec!["stream", "system", "kanban", "a", ""]).prop_map(str::to_owned),
        2 => person().prop_map(|key| key.to_string()),
        2 => select(vec!["plaza", "vault", "board"]).prop_map(|name| id(name).to_string()),
    ]
}

fn tag() -> impl Strategy<Value = Tag> {
    (select(NAMES.to_vec()), vec(value(), 0..3)).prop_map(|(name, values)| {
        let mut tag = vec![name.to_owned()];
        tag.extend(values);
        tag
    })
}

fn stored() -> impl Strategy<Value = Stored> {
    let content = (
        1..9u8,
        select(KINDS.to_vec()),
        person(),
        0..6u64,
        vec(tag(), 0..5),
    );
    let place = weighted(0.7, select(CHANNELS.map(|entry| entry.0).to_vec()));
    let audience = prop_oneof![5 => Just(Audience::Readers), 1 => Just(Audience::Moderators)];
    (content, place, audience, any::<bool>()).prop_map(
        |((number, kind, author, created_at, tags), place, audience, is_head)| {
            let mut made = event(number, kind, author, &[]);
            made.tags = tags;
            made.created_at = created_at;
            Stored {
                channel: place.map(id).filter(|_| kind != 44_100),
                audience,
                is_head: is_head && kind == 45_010,
                ..Stored::global("row", made)
            }
        },
    )
}

fn filter() -> impl Strategy<Value = Filter> {
    let ids = weighted(
        0.1,
        btree_set((1..9u8).prop_map(|n| EventId::from_bytes([n; 32])), 0..6),
    );
    let authors = weighted(0.2, btree_set(person(), 0..3));
    let kinds = weighted(0.6, subsequence(KINDS.to_vec(), 0..=KINDS.len()));
    let tags = btree_map(
        select(vec!["t", "p", "P", "d", "h"]).prop_map(str::to_owned),
        btree_set(value(), 0..5),
        0..3,
    );
    let times = (weighted(0.2, 0..6u64), weighted(0.2, 0..6u64));
    (ids, authors, kinds, tags, times).prop_map(|(ids, authors, kinds, tags, (since, until))| {
        Filter {
            ids,
            authors,
            kinds: kinds.map(|list| list.into_iter().collect()),
            since,
            until,
            limit: None,
            tags,
        }
    })
}

/// A plan of any view: that of a filter, or one of an artifact view with the filter's `d` and `t` and a longer name.
fn any_plan() -> impl Strategy<Value = ReadPlan> {
    let readers = subsequence(vec![ANN, BOB, EVE], 0..=3);
    let view = prop_oneof![
        4 => Just(PlanView::Events),
        1 => Just(PlanView::Current),
        1 => Just(PlanView::Head),
        1 => Just(PlanView::History),
    ];
    (filter(), readers, view).prop_filter_map("a refused filter", |(filter, readers, view)| {
        let mut plan = compile(community(), &keys(&readers), &filter).ok()?;
        plan.view = view;
        Some(plan)
    })
}

/// The town's channels with any memberships.
fn any_town() -> impl Strategy<Value = Town> {
    let names = select(CHANNELS.map(|entry| entry.0).to_vec());
    btree_map(
        (names.prop_map(id), person()),
        select(ROLES.to_vec()),
        0..12,
    )
    .prop_map(|roles| Town {
        channels: Town::new().channels,
        roles,
        rows: Vec::new(),
    })
}

/// A plan made for its row: the filter asks for what the row is, so that many cases match.
fn any_case() -> impl Strategy<Value = (Town, ReadPlan, Stored)> {
    let aimed = (any_town(), any_plan(), stored(), any::<bool>());
    aimed.prop_map(|(town, mut plan, row, aim)| {
        if aim {
            plan.kinds = None;
            plan.terms
                .retain(|name, values| row.event.tag_values(name).any(|it| values.contains(it)));
            plan.scope.named.extend(row.channel);
            plan.channels = plan
                .channels
                .filter(|wanted| row.channel.is_some_and(|at| wanted.contains(&at)));
        }
        (town, plan, row)
    })
}

/// Every plan that asks for one more thing than this one, or leaves one condition out. For a condition whose absence is no
/// less than its presence: `#t` is none, as notices match it by their own rule, and `ids` is none on revisions.
fn wider(plan: &ReadPlan, pick: &Index, row: &Stored) -> Vec<ReadPlan> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut ReadPlan)| {
        let mut wide = plan.clone();
        change(&mut wide);
        all.push(wide);
    };
    let channel = id(CHANNELS[pick.index(CHANNELS.len())].0);
    let reader = [ANN, BOB, EVE][pick.index(3)];
    with(&|wide| wide.readers.extend([reader]));
    with(&|wide| wide.scope.named.extend([channel]));
    with(&|wide| wide.scope.system = true);
    with(&|wide| wide.authors.iter_mut().for_each(|set| set.extend([reader])));
    with(&|wide| {
        wide.channels
            .iter_mut()
            .for_each(|set| set.extend([channel]))
    });
    with(&|wide| {
        wide.ids
            .iter_mut()
            .for_each(|set| set.extend([EventId::from_bytes([9; 32])]))
    });
    with(&|wide| {
        wide.kinds
            .iter_mut()
            .for_each(|set| set.extend([KINDS[pick.index(KINDS.len())]]))
    });
    with(&|wide| {
        wide.t_values
            .iter_mut()
            .for_each(|set| set.extend(["forum".to_owned()]))
    });
    with(&|wide| {
        wide.terms
            .values_mut()
            .for_each(|set| set.extend(["x".to_owned()]))
    });
    with(&|wide| wide.terms.clear());
    with(&|wide| wide.authors = None);
    with(&|wide| wide.kinds = None);
    with(&|wide| wide.channels = None);
    with(&|wide| wide.since = wide.since.map(|since| since.saturating_sub(1)));
    with(&|wide| wide.until = wide.until.map(|until| until + 1));
    with(&|wide| (wide.since, wide.until) = (None, None));
    if row.event.kind != 45_010 {
        with(&|wide| wide.ids = None);
    }
    if row.event.kind != 44_100 {
        with(&|wide| wide.t_values = None);
    }
    all
}

#[test]
fn many_cases_are_admitted_and_many_are_not() {
    let mut runner = TestRunner::deterministic();
    let (admitted, refused) = (Cell::new(0u32), Cell::new(0u32));
    runner
        .run(&(any_case(), any::<bool>()), |((town, plan, row), live)| {
            let count = if town.admits(&plan, &row, live) {
                &admitted
            } else {
                &refused
            };
            count.set(count.get() + 1);
            Ok(())
        })
        .unwrap();
    let total = admitted.get() + refused.get();
    assert!(
        admitted.get() * 10 >= total,
        "{} of {total} admitted",
        admitted.get()
    );
    assert!(
        refused.get() * 10 >= total,
        "{} of {total} refused",
        refused.get()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_wider_plan_never_returns_less((town, plan, row) in any_case(), live: bool, pick: Index) {
        if town.admits(&plan, &row, live) {
            for wide in wider(&plan, &pick, &row) {
                prop_assert!(town.admits(&wide, &row, live), "{wide:?}");
            }
        }
    }

    #[test]
    fn several_keys_see_what_each_of_them_sees((town, plan, row) in any_case(), live: bool) {
        let alone = |reader: PubKey| {
            let plan = ReadPlan { readers: keys(&[reader]), ..plan.clone() };
            town.admits(&plan, &row, live)
        };
        let together = town.admits(&plan, &row, live);
        if plan.readers.is_empty() {
            for reader in [ANN, BOB, EVE] {
                prop_assert!(!together || alone(reader), "a key sees what an anonymous reader sees");
            }
        } else {
            prop_assert_eq!(together, plan.readers.iter().copied().any(alone));
        }
    }

    #[test]
    fn what_is_returned_may_be_read((town, plan, row) in any_case(), live: bool) {
        crate::rules!("AR-ACC-1", "CL-SYS-6", "CL-SYS-19", "CL-NTC-18", "CL-UNL-1");
        if !town.admits(&plan, &row, live) {
            return Ok(());
        }
        if let Some(at) = row.channel {
            let channel = &town.channels[&at];
            let member = plan.readers.iter().any(|reader| town.roles.contains_key(&(at, *reader)));
            prop_assert!(!channel.deleted);
            prop_assert!(member || channel.visibility == Visibility::Open);
            if !plan.scope.named.contains(&at) {
                prop_assert!(member || !channel.unlisted);
                match channel.channel_type.as_str() {
                    "stream" | "forum" | "dm" | "workflow" => {}
                    "system" => prop_assert!(plan.scope.system),
                    later => prop_assert!(false, "{later}"),
                }
            }
        }
        if gate_of(row.event.kind).is_some() {
            let named: Vec<&str> = row.event.tag_values("p").collect();
            let passes = |reader: &PubKey| {
                named.contains(&reader.to_string().as_str())
                    || (row.event.kind == 4 && row.event.pubkey == *reader)
            };
            prop_assert!(plan.readers.iter().any(passes));
        }
        if row.audience == Audience::Moderators {
            let moderates = |reader: &PubKey| {
                let role = row.channel.and_then(|at| town.roles.get(&(at, *reader)));
                row.event.pubkey == *reader || role == Some(&Role::Owner)
            };
            prop_assert!(plan.readers.iter().any(moderates));
        }
    }

    #[test]
    fn live_and_stored_differ_in_older_revisions_only((town, plan, row) in any_case()) {
        let (stored, live) = (town.admits(&plan, &row, false), town.admits(&plan, &row, true));
        prop_assert!(!stored || live);
        if stored != live {
            prop_assert_eq!(plan.view, PlanView::Events);
            prop_assert!(row.event.kind == 45_010 && !row.is_head && plan.ids.is_none());
        }
    }

    #[test]
    fn a_naming_plan_reaches_no_further_than_its_names_and_the_ordinary_types(
        filter in filter(), town in any_town(), row in stored(), live: bool,
    ) {
        crate::rules!("CL-SYS-13", "CL-SYS-14", "CL-SYS-15", "CL-ASK-5");
        let Ok(plan) = compile(community(), &keys(&[ANN]), &filter) else { return Ok(()) };
        let listed = |name: &str| filter.tags.get(name).into_iter().flatten().cloned().collect::<Vec<_>>();
        let state_only = filter.kinds.as_ref().is_some_and(|kinds| {
            !kinds.is_empty() && kinds.iter().all(|kind| (39_000..=39_003).contains(kind))
        });
        let Some(channel) = row.channel.map(|at| &town.channels[&at]) else { return Ok(()) };
        let here = channel.id.to_string();
        let named = listed("h").contains(&here) || (state_only && listed("d").contains(&here));
        let asked = state_only && (listed("t").contains(&"system".to_owned()) || !listed("P").is_empty());
        let system = channel.channel_type == ChannelType::System;
        if town.admits(&plan, &row, live) {
            prop_assert!(named || channel.channel_type.is_legacy() || (asked && system));
        }
    }

    #[test]
    fn index_terms_are_enough_to_judge_every_tag_condition((_, plan, row) in any_case()) {
        // A store knows the terms and nothing else of the tags.
        let terms = index_terms(&row.event);
        let has = |name: &str, values: &BTreeSet<String>| {
            terms.iter().any(|(at, value)| at == name && values.contains(value))
        };
        let types = LegacyOr::of(&plan, &terms);
        let by_terms = plan.terms.iter().all(|(name, values)| has(name, values))
            && match row.event.kind {
                44_100 => types.meet(),
                _ => plan.t_values.as_ref().is_none_or(|values| has("t", values)),
            };
        let free = ReadPlan {
            readers: keys(&[]),
            ids: None,
            authors: None,
            kinds: None,
            since: None,
            until: None,
            channels: None,
            view: PlanView::Events,
            ..plan
        };
        // Tags alone decide once the row is everyone's: no channel, no gate, no audience.
        let mut open = Stored { channel: None, audience: Audience::Readers, ..row };
        let gated = gate_of(open.event.kind).is_some();
        let reader = if gated { open.event.tag_values("p").find_map(|key| key.parse().ok()) } else { None };
        if gated && reader.is_none() {
            return Ok(());
        }
        let free = ReadPlan { readers: reader.into_iter().collect(), ..free };
        open.is_head = true;
        prop_assert_eq!(Town::default().admits(&free, &open, false), by_terms);
    }
}

/// The notice rule as a store applies it: the types among the terms, and the types that the plan knows.
struct LegacyOr<'a> {
    types: Vec<&'a str>,
    known: Vec<&'a str>,
}

impl<'a> LegacyOr<'a> {
    const LEGACY: [&'static str; 4] = ["stream", "forum", "dm", "workflow"];

    fn of(plan: &'a ReadPlan, terms: &'a [(String, String)]) -> LegacyOr<'a> {
        let types = terms.iter().filter(|(name, _)| name == "t");
        LegacyOr {
            types: types.map(|(_, value)| value.as_str()).collect(),
            known: match &plan.t_values {
                Some(values) => values.iter().map(String::as_str).collect(),
                None => Self::LEGACY.to_vec(),
            },
        }
    }

    fn meet(&self) -> bool {
        let types = if self.types.is_empty() {
            &Self::LEGACY[..]
        } else {
            &self.types
        };
        types.iter().any(|name| self.known.contains(name))
    }
}
