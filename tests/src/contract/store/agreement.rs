//! Every way of reading returns what the core's evaluator admits, on random events, readers and filters (S9). The facts that the
//! evaluator needs come from live reads of the same store.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::accept::Profile;
use holdfast_core::channel::Role;
use holdfast_core::ids::{ArtifactId, ChannelId, Position};
use holdfast_core::node::{LiveRows, SubmitOutcome};
use holdfast_core::nostr::{
    ArtifactFilter, ArtifactView, Draft, Event, EventId, Filter, PubKey, SecretKey, kinds,
};
use holdfast_core::scope::{
    Access, Page, PlanView, ReadPlan, Row, admits, compile, compile_artifact,
};
use holdfast_core::sync::SyncRequest;

use super::{AMPLE_MS, Bounds, Subject, Subjects, live_query, syncs};
use crate::build::{self, Revision, now, tag};

const EVENTS: usize = 400;
const FILTERS: usize = 400;
const WORDS: [&str; 5] = ["stream", "dm", "system", "x", "y"];
const KINDS: [u16; 9] = [1, 4, 7, 9, 1059, 30_023, 39_000, 39_002, 45_010];

/// A small generator (splitmix64): equal seeds give equal choices.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).expect("31 bits fit") % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn some<T: Clone + Ord>(&mut self, from: &[T]) -> BTreeSet<T> {
        (0..1 + self.below(3)).map(|_| self.pick(from)).collect()
    }

    fn maybe_some<T: Clone + Ord>(&mut self, bound: usize, from: &[T]) -> Option<BTreeSet<T>> {
        self.one_in(bound).then(|| self.some(from))
    }
}

struct World {
    subject: Subject,
    chance: Chance,
    people: Vec<SecretKey>,
    channels: Vec<ChannelId>,
    /// The current revision of each artifact.
    heads: BTreeMap<ArtifactId, Event>,
    sent: Vec<Event>,
}

/// Builds a community by chance and compares rows, counts and pages of random filters with the evaluator.
pub fn every_read_agrees_with_the_evaluator(subjects: &dyn Subjects) {
    let mut world = World::build(subjects, 1);
    let facts = world.facts();
    let mut found = 0;
    for _ in 0..FILTERS {
        let plan = world.random_plan(&facts);
        let expected = admitted(&facts, &world.heads, &plan);
        let page = &expected[..expected.len().min(plan.page.limit as usize)];
        let rows: Vec<EventId> = world
            .subject
            .rows(vec![plan.clone()])
            .into_iter()
            .map(|row| row.id)
            .collect();
        assert_eq!(rows, page, "{plan:#?}");
        let pages = world
            .subject
            .pages(vec![plan.clone()], 17, usize::MAX)
            .expect("pages");
        let rows: Vec<EventId> = pages
            .into_iter()
            .flat_map(|page| page.rows)
            .map(|row| row.id)
            .collect();
        assert_eq!(rows, page, "{plan:#?}");
        assert_eq!(
            world.subject.count(vec![plan.clone()]),
            expected.len() as u64,
            "{plan:#?}"
        );
        found += expected.len();
    }
    assert!(found > 5 * FILTERS, "{found} rows: the data is too thin");
}

/// Compares the initial sets of random syncs with the current view and with the evaluator.
pub fn initial_sets_agree_with_the_evaluator(subjects: &dyn Subjects) {
    let mut world = World::build(subjects, 2);
    let facts = world.facts();
    let channels: Vec<String> = world.channels.iter().map(ToString::to_string).collect();
    let people: Vec<PubKey> = world.people.iter().map(SecretKey::public_key).collect();
    let mut found = 0;
    for number in 0..FILTERS {
        let mut filter = world.artifact_filter();
        filter.view = ArtifactView::Current;
        if !world.chance.one_in(4) {
            filter.predicates.remove("d");
        }
        let named = world.chance.some(&channels);
        filter.predicates.insert("h".to_owned(), named);
        let reader = match world.chance.below(8) {
            0 => None,
            1..4 => Some(people[0]),
            _ => Some(world.chance.pick(&people)),
        };
        let readers = reader.into_iter().collect();
        let plan = compile_artifact(world.subject.one, &readers, &filter).expect("a plan");
        let plan = ReadPlan {
            page: Page {
                limit: 1_000,
                offset: 0,
            },
            ..plan
        };
        let expected: BTreeSet<EventId> =
            admitted(&facts, &world.heads, &plan).into_iter().collect();
        let current = world.subject.rows(vec![plan.clone()]);
        let current: BTreeSet<EventId> = current.into_iter().map(|row| row.id).collect();
        assert_eq!(current, expected, "{plan:#?}");
        let request = SyncRequest {
            plan,
            rows_max: 1 + number as u32 % 5,
            bytes_max: usize::MAX,
            budget_ms: AMPLE_MS,
        };
        let pages = syncs::pages(&world.subject, request.clone());
        let rows: Vec<_> = pages.iter().flat_map(|page| &page.rows).collect();
        assert!(rows.is_sorted_by_key(|row| row.artifact));
        for row in &rows {
            let head = &world.heads[&row.artifact];
            assert_eq!((row.event, &*row.json), (head.id, &*head.to_json()));
            assert_eq!(Some(row.home), head.channel_tag());
        }
        assert_eq!(rows.len(), expected.len(), "{request:#?}");
        assert!(rows.iter().all(|row| expected.contains(&row.event)));
        found += rows.len();
    }
    assert!(found > FILTERS, "{found} rows: the data is too thin");
}

impl World {
    fn build(subjects: &dyn Subjects, seed: u64) -> World {
        let mut world = World {
            subject: subjects.open(Bounds {
                profile: Profile::Open,
                ..Bounds::ample()
            }),
            chance: Chance(seed),
            people: (0..4).map(|_| build::fresh_key()).collect(),
            channels: Vec::new(),
            heads: BTreeMap::new(),
            sent: Vec::new(),
        };
        for number in 0..8 {
            world.add_channel(
                ["stream", "forum", "system", "workflow"][number % 4],
                number / 4 == 0,
            );
        }
        for _ in 0..EVENTS {
            world.add_event();
        }
        let owner = world.people[0].clone();
        world
            .subject
            .stored(&build::delete_channel(&owner, world.channels[7]));
        world
    }

    fn add_channel(&mut self, channel_type: &str, open: bool) {
        let owner = self.people[0].clone();
        let visibility = if open { "open" } else { "private" };
        let tags: [&[&str]; 2] = [&["channel_type", channel_type], &["visibility", visibility]];
        let channel = self.subject.channel(&owner, &tags);
        self.channels.push(channel);
        let others = self.people[1..].iter().map(SecretKey::public_key);
        for person in others.collect::<Vec<_>>() {
            if self.chance.one_in(2) {
                let role = self.chance.pick(&["member", "admin", "guest"]);
                self.subject
                    .stored(&build::put_user(&owner, channel, person, Some(role)));
                if self.chance.one_in(4) {
                    self.subject
                        .stored(&build::remove_user(&owner, channel, person));
                }
            }
        }
    }

    /// Submits something that may well be refused; what is stored is read back later.
    fn add_event(&mut self) {
        let author = self.chance.pick(&self.people.clone());
        let channel = self.chance.pick(&self.channels.clone());
        let event = match self.chance.below(10) {
            0 | 1 => self.revision(&author, channel),
            2 if !self.sent.is_empty() => {
                let target = self.chance.pick(&self.sent.clone());
                match target.channel_tag() {
                    Some(channel) => build::remove_event(&author, channel, target.id),
                    None => build::deletion(&author, &[target.id]),
                }
            }
            _ => self.message(&author, channel),
        };
        let outcome = self.subject.submit(event.clone());
        if !matches!(outcome, SubmitOutcome::Stored { .. }) {
            return;
        }
        if event.kind == kinds::ARTIFACT {
            let artifact = event.d_value().parse().expect("an accepted revision");
            self.heads.insert(artifact, event.clone());
        }
        self.sent.push(event);
    }

    fn revision(&mut self, author: &SecretKey, channel: ChannelId) -> Event {
        let heads: Vec<Event> = self.heads.values().cloned().collect();
        let word = self.chance.pick(&WORDS);
        if heads.is_empty() || self.chance.one_in(4) {
            let revision = Revision::create(build::fresh_artifact(), channel);
            return revision.with(&["project", word]).sign(author);
        }
        let head = self.chance.pick(&heads);
        let deleted = head.first_value("op") == Some("delete");
        let revision = match self.chance.below(4) {
            _ if deleted => Revision::restore(&head, "restored"),
            0 => Revision::delete(&head),
            1 => Revision::move_to(&head, channel),
            _ => Revision::update(&head, "updated").only_with(&[&["project", word], &["t", word]]),
        };
        revision.sign(author)
    }

    fn message(&mut self, author: &SecretKey, channel: ChannelId) -> Event {
        let kind = self.chance.pick(&[1, 4, 7, 9, 9, 1059, 30_023]);
        let mut tags = Vec::new();
        if kind == 9 || self.chance.one_in(3) {
            tags.push(tag(&["h", &channel.to_string()]));
        }
        for _ in 0..self.chance.below(4) {
            let person = self
                .chance
                .pick(&self.people.clone())
                .public_key()
                .to_string();
            let word = self.chance.pick(&WORDS);
            tags.push(match self.chance.below(4) {
                0 => tag(&["p", &person]),
                1 => tag(&["t", word, "z"]),
                2 => tag(&["d", word]),
                _ => tag(&["P", word]),
            });
        }
        let created_at = now() - self.chance.below(30) as u64;
        let content = format!("message {}", self.sent.len());
        Draft {
            created_at,
            kind,
            tags,
            content,
        }
        .sign(author)
    }

    /// Everything that is stored, with all channels and roles.
    fn facts(&self) -> LiveRows {
        let positions: Vec<Position> = self
            .subject
            .ledger()
            .into_iter()
            .map(|(_, signal)| signal.position)
            .collect();
        let mut query = live_query(positions);
        query.channels = self.channels.iter().copied().collect();
        query.keys = self.people.iter().map(SecretKey::public_key).collect();
        self.subject.live(query)
    }

    fn random_plan(&mut self, facts: &LiveRows) -> ReadPlan {
        let people: Vec<PubKey> = self.people.iter().map(SecretKey::public_key).collect();
        let readers = if self.chance.one_in(8) {
            BTreeSet::new()
        } else {
            self.chance.some(&people)
        };
        loop {
            let plan = if self.chance.one_in(4) {
                let filter = self.artifact_filter();
                compile_artifact(self.subject.one, &readers, &filter)
            } else {
                let filter = self.filter(facts, &people);
                compile(self.subject.one, &readers, &filter)
            };
            if let Ok(plan) = plan {
                let limit = 1 + u32::try_from(self.chance.below(60)).expect("small");
                return ReadPlan {
                    page: Page { limit, offset: 0 },
                    ..plan
                };
            }
        }
    }

    fn filter(&mut self, facts: &LiveRows, people: &[PubKey]) -> Filter {
        let ids: Vec<EventId> = facts.rows.values().map(|row| row.event.id).collect();
        let words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
        let channels: Vec<String> = self.channels.iter().map(ToString::to_string).collect();
        let names: Vec<String> = people.iter().map(ToString::to_string).collect();
        let chance = &mut self.chance;
        let mut tags = BTreeMap::new();
        for (name, bound, values) in [
            ("h", 3, &channels),
            ("p", 6, &names),
            ("t", 5, &words),
            ("P", 8, &words),
            ("d", 8, if chance.one_in(2) { &words } else { &channels }),
        ] {
            tags.extend(
                chance
                    .maybe_some(bound, values)
                    .map(|some| (name.to_owned(), some)),
            );
        }
        Filter {
            ids: chance.maybe_some(10, &ids),
            authors: chance.maybe_some(4, people),
            kinds: chance.maybe_some(2, &KINDS),
            since: chance.one_in(4).then(|| now() - chance.below(30) as u64),
            until: chance.one_in(4).then(|| now() - chance.below(30) as u64),
            limit: None,
            tags,
        }
    }

    fn artifact_filter(&mut self) -> ArtifactFilter {
        let words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
        let channels: Vec<String> = self.channels.iter().map(ToString::to_string).collect();
        let artifacts: Vec<String> = self.heads.keys().map(ToString::to_string).collect();
        let view = self.chance.pick(&[
            ArtifactView::Current,
            ArtifactView::Head,
            ArtifactView::History,
        ]);
        let mut predicates = BTreeMap::new();
        if view != ArtifactView::Current || self.chance.one_in(4) {
            predicates.insert("d".to_owned(), self.chance.some(&artifacts));
        }
        for (name, bound, values) in [
            ("h", 2, &channels),
            ("project", 3, &words),
            ("t", 5, &words),
        ] {
            let some = self.chance.maybe_some(bound, values);
            predicates.extend(some.map(|some| (name.to_owned(), some)));
        }
        ArtifactFilter {
            view,
            predicates,
            limit: None,
            offset: None,
            kinds_given: false,
        }
    }
}

/// Ids of all rows that the evaluator admits, in the plan's order.
fn admitted(
    facts: &LiveRows,
    heads: &BTreeMap<ArtifactId, Event>,
    plan: &ReadPlan,
) -> Vec<EventId> {
    let mut rows: Vec<_> = facts
        .rows
        .iter()
        .filter(|(_, stored)| {
            let channel = stored.channel;
            let roles = |key: PubKey| -> Option<Role> {
                facts
                    .roles
                    .get(&(channel.expect("asked only with a channel"), key))
                    .copied()
            };
            let access = Access {
                channel: channel.and_then(|id| facts.channels.get(&id)),
                roles: &roles,
            };
            let row = Row {
                event: &stored.event,
                channel,
                audience: stored.audience,
                is_head: stored.event.kind == kinds::ARTIFACT
                    && heads.values().any(|head| head.id == stored.event.id),
                live: false,
            };
            admits(plan, &row, &access, facts.clock_secs)
        })
        .collect();
    match plan.view {
        PlanView::Events => {
            rows.sort_by_key(|(_, row)| (Reverse(row.event.created_at), row.event.id));
        }
        PlanView::Current | PlanView::Head | PlanView::History => {
            rows.sort_by_key(|(position, _)| Reverse(**position));
        }
    }
    rows.into_iter().map(|(_, row)| row.event.id).collect()
}
