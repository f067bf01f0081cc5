//! A random database and a random plan, with a plain model of what is stored. Events carry no real signatures, since no
//! statement looks at them.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_core::accept::Change;
use holdfast_core::accept::{Head, LedgerRow, Slot, StoredEvent, WithheldCause, Write};
use holdfast_core::channel::{Channel, ChannelType, Member, Role, Visibility};
use holdfast_core::ids::{ArtifactId, ChannelId, CommunityId, Position, Uuid};
use holdfast_core::nostr::{Event, EventId, Kind, PubKey, Signature, Tag, kinds};
use holdfast_core::scope::{Audience, Page, PlanView, ReadPlan, Scope};
use rusqlite::Connection;

use crate::store::sqlite::view::Moment;
use crate::store::sqlite::write::{self, WriteError};
use crate::store::sqlite::{open, read};

/// Seconds of the clock by which the tests judge expiry.
pub(super) const CLOCK_SECS: u64 = 1_000;
const KINDS: [Kind; 16] = [
    0, 1, 4, 5, 7, 9, 1059, 9005, 30_000, 39_000, 39_002, 44_100, 44_101, 45_001, 45_010, 45_011,
];
const WORDS: [&str; 6] = ["stream", "dm", "system", "x-later", "label", "other"];

/// A small generator (splitmix64): equal seeds give equal worlds.
#[derive(Clone, Debug)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).expect("31 bits fit") % bound
    }

    pub(super) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// One to three of the values, sometimes none at all.
    fn some<T: Clone + Ord>(&mut self, from: &[T]) -> BTreeSet<T> {
        let most = if self.one_in(12) {
            0
        } else {
            1 + self.below(3)
        };
        (0..most).map(|_| self.pick(from)).collect()
    }
}

/// One row as the model knows it.
#[derive(Clone, Debug)]
pub(super) struct ModelRow {
    pub(super) event: Event,
    pub(super) channel: Option<ChannelId>,
    pub(super) audience: Audience,
    pub(super) position: Position,
}

/// A database file and the model of it.
#[derive(Debug)]
pub(super) struct World {
    _dir: tempfile::TempDir,
    pub(super) writer: Connection,
    pub(super) reader: Connection,
    pub(super) chance: Chance,
    pub(super) rows: Vec<ModelRow>,
    pub(super) channels: BTreeMap<ChannelId, Channel>,
    pub(super) roles: BTreeMap<(ChannelId, PubKey), Role>,
    pub(super) heads: BTreeMap<ArtifactId, EventId>,
    slots: BTreeMap<Slot, EventId>,
    pub(super) keys: Vec<PubKey>,
}

pub(super) fn channel_id(number: u8) -> ChannelId {
    ChannelId(Uuid::from_bytes([number; 16]).expect("not nil"))
}

pub(super) fn artifact_id(number: u8) -> ArtifactId {
    ArtifactId(Uuid::from_bytes([number; 16]).expect("not nil"))
}

impl World {
    /// An empty database with one community.
    pub(super) fn empty(seed: u64) -> World {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = open::database_path(dir.path());
        let patience = std::time::Duration::ZERO;
        let relay = PubKey::from_bytes([99; 32]);
        let mut writer = open::writing_connection(&path, patience).expect("opens");
        // Nothing here is about durability.
        writer
            .pragma_update(None, "synchronous", "off")
            .expect("a pragma");
        open::prepare(&mut writer, dir.path(), relay).expect("migrates");
        writer
            .execute(
                "INSERT INTO community (id, host) VALUES (?1, 'a'), (?2, 'b')",
                [[1; 16], [2; 16]],
            )
            .expect("two communities");
        World {
            reader: open::reading_connection(&path, patience).expect("opens"),
            _dir: dir,
            writer,
            chance: Chance(seed),
            rows: Vec::new(),
            channels: BTreeMap::new(),
            roles: BTreeMap::new(),
            heads: BTreeMap::new(),
            slots: BTreeMap::new(),
            keys: (1..=4).map(|byte| PubKey::from_bytes([byte; 32])).collect(),
        }
    }

    /// A database with channels, members and events of all sorts.
    pub(super) fn random(seed: u64) -> World {
        let mut world = World::empty(seed);
        for number in 1..=8 {
            world.add_channel(number);
        }
        for _ in 0..150 {
            world.add_event();
        }
        world
    }

    pub(super) fn moment(&self) -> Moment {
        Moment {
            community: 1,
            relay: PubKey::from_bytes([99; 32]),
            clock_us: CLOCK_SECS * 1_000_000,
            first_position: read::newest_position(&self.writer)
                .expect("a ledger")
                .plus(1),
        }
    }

    /// Applies writes as the writer does, with ledger rows for what is stored and for the list itself.
    pub(super) fn apply(&self, mut writes: Vec<Write>) -> Result<(), WriteError> {
        let at = self.moment();
        let ledger: Vec<Write> = writes
            .iter()
            .filter_map(|write| match write {
                Write::Store(stored) => Some((stored.position, Some(stored.event.id))),
                _ => None,
            })
            .map(|(position, event)| ledger_row(position, event))
            .collect();
        if ledger.is_empty() {
            writes.push(ledger_row(at.first_position, None));
        }
        writes.extend(ledger);
        self.writer.execute_batch("BEGIN IMMEDIATE")?;
        match write::apply(&self.writer, &at, &writes) {
            Ok(_) => Ok(self.writer.execute_batch("COMMIT")?),
            Err(error) => {
                self.writer.execute_batch("ROLLBACK")?;
                Err(error)
            }
        }
    }

    pub(super) fn add_channel(&mut self, number: u8) {
        let types = ["stream", "forum", "dm", "workflow", "system", "x-later"];
        let channel = Channel {
            id: channel_id(number),
            channel_type: ChannelType::from_stored(self.chance.pick(&types)),
            visibility: self.chance.pick(&[Visibility::Open, Visibility::Private]),
            unlisted: self.chance.one_in(3),
            name: String::new(),
            about: String::new(),
            topic: String::new(),
            purpose: String::new(),
            creator: None,
            created_at: 1,
            archived: self.chance.one_in(4),
            deleted: self.chance.one_in(8),
            access_stamp: Position(1),
        };
        let mut writes = vec![Write::CreateChannel(Box::new(channel.clone()))];
        for key in self.keys.clone() {
            if self.chance.one_in(2) {
                let role = self.chance.pick(&[
                    Role::Owner,
                    Role::Admin,
                    Role::Member,
                    Role::Bot,
                    Role::Guest,
                ]);
                let member = Member {
                    joined_at_us: 1,
                    pubkey: key,
                    role,
                    access_stamp: Position(1),
                };
                writes.push(Write::PutMember {
                    channel: channel.id,
                    member,
                });
                if self.chance.one_in(4) {
                    let access_stamp = Position(2);
                    writes.push(Write::RemoveMember {
                        channel: channel.id,
                        pubkey: key,
                        access_stamp,
                    });
                } else {
                    self.roles.insert((channel.id, key), role);
                }
            }
        }
        self.channels.insert(channel.id, channel);
        self.apply(writes).expect("a channel");
    }

    fn random_tags(&mut self, kind: Kind) -> Vec<Tag> {
        let mut tags = Vec::new();
        for _ in 0..self.chance.below(5) {
            let channel = 1 + self.chance.below(10);
            let channel = channel_id(u8::try_from(channel).expect("small")).to_string();
            let (name, value) = match self.chance.below(7) {
                0 | 1 => ("p", self.chance.pick(&self.keys.clone()).to_string()),
                2 => ("h", channel),
                3 | 4 => ("t", self.chance.pick(&WORDS).to_owned()),
                5 => ("P", self.chance.pick(&WORDS).to_owned()),
                _ => ("e", self.chance.pick(&WORDS).to_owned()),
            };
            tags.push(vec![name.to_owned(), value, "more".to_owned()]);
        }
        if kind == 39_000 || self.chance.one_in(8) {
            let channel = 1 + self.chance.below(8);
            let d = channel_id(u8::try_from(channel).expect("small")).to_string();
            tags.push(vec!["d".to_owned(), d]);
        }
        if self.chance.one_in(6) {
            let at = self
                .chance
                .pick(&[CLOCK_SECS - 1, CLOCK_SECS, CLOCK_SECS + 1]);
            tags.push(vec!["expiration".to_owned(), at.to_string()]);
        }
        if self.chance.one_in(10) {
            tags.push(vec!["t".to_owned()]);
        }
        tags
    }

    fn add_event(&mut self) {
        let kind = self.chance.pick(&KINDS);
        let mut tags = self.random_tags(kind);
        let artifact_kind = matches!(kind, kinds::ARTIFACT | kinds::ARTIFACT_MOVED);
        let number = u8::try_from(1 + self.chance.below(8)).expect("small");
        let channel = (artifact_kind || !self.chance.one_in(3)).then(|| channel_id(number));
        let artifact = artifact_id(u8::try_from(1 + self.chance.below(9)).expect("small"));
        let deletes = self.chance.one_in(4);
        if artifact_kind {
            tags.retain(|tag| tag[0] != "d");
            tags.push(vec!["d".to_owned(), artifact.to_string()]);
            tags.push(vec![
                "op".to_owned(),
                if deletes { "delete" } else { "update" }.to_owned(),
            ]);
            tags.push(vec![
                "project".to_owned(),
                self.chance.pick(&WORDS).to_owned(),
            ]);
        }
        let mut id = [0; 32];
        id[..8].copy_from_slice(&(self.chance.below(1 << 30) as u64).to_be_bytes());
        id[8..16].copy_from_slice(&(self.rows.len() as u64).to_be_bytes());
        let event = Event {
            id: EventId::from_bytes(id),
            pubkey: self.chance.pick(&self.keys.clone()),
            created_at: 990 + self.chance.below(20) as u64,
            kind,
            tags,
            content: "text \u{0} \"quoted\" \u{2028}".to_owned(),
            sig: Signature::from_bytes([0; 64]),
        };
        let stored = StoredEvent {
            audience: if self.chance.one_in(6) {
                Audience::Moderators
            } else {
                Audience::Readers
            },
            artifact: artifact_kind.then_some(artifact),
            ..StoredEvent::new(event, channel, self.moment().first_position)
        };
        self.store(stored, artifact, deletes);
        if self.chance.one_in(8) {
            self.withhold_one();
        }
    }

    fn store(&mut self, stored: StoredEvent, artifact: ArtifactId, deleted: bool) {
        let event = stored.event.clone();
        let mut writes = Vec::new();
        if let Some(before) = stored
            .slot
            .clone()
            .and_then(|slot| self.slots.insert(slot, event.id))
        {
            writes.push(Write::Withhold {
                event: before,
                cause: WithheldCause::Superseded,
            });
            self.rows.retain(|row| row.event.id != before);
        }
        self.rows.push(ModelRow {
            event: event.clone(),
            channel: stored.channel,
            audience: stored.audience,
            position: stored.position,
        });
        let (position, home) = (stored.position, stored.channel);
        writes.push(Write::Store(Box::new(stored)));
        if event.kind == kinds::ARTIFACT {
            let head = Box::new(Head {
                event: event.id,
                home: home.expect("artifacts have a home"),
                artifact_type: "x.y".to_owned(),
                root: None,
                deleted,
                redacted: false,
            });
            writes.push(match self.heads.insert(artifact, event.id) {
                None => Write::CreateHead { artifact, head },
                Some(prev) => Write::AdvanceHead {
                    artifact,
                    prev,
                    head,
                },
            });
            writes.push(Write::Accept {
                event: event.id,
                artifact,
                author: event.pubkey,
                position,
            });
        }
        self.apply(writes).expect("an event");
    }

    fn withhold_one(&mut self) {
        let row = self.rows.remove(self.chance.below(self.rows.len()));
        if let Some(slot) = Slot::of(&row.event) {
            self.slots.remove(&slot);
        }
        let withhold = Write::Withhold {
            event: row.event.id,
            cause: WithheldCause::Removed,
        };
        self.apply(vec![withhold]).expect("is there");
    }

    /// A plan with each condition present or absent by chance.
    pub(super) fn random_plan(&mut self) -> ReadPlan {
        let view = match self.chance.below(7) {
            0 => PlanView::Current,
            1 => PlanView::Head,
            2 => PlanView::History,
            _ => PlanView::Events,
        };
        let keys = self.keys.clone();
        let channels: Vec<ChannelId> = (1..=9).map(channel_id).collect();
        let ids: Vec<EventId> = self.rows.iter().map(|row| row.event.id).collect();
        let words: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
        let mut terms = BTreeMap::new();
        for (name, values) in [
            ("p", keys.iter().map(ToString::to_string).collect()),
            ("P", words.clone()),
            ("e", words.clone()),
            (
                "d",
                (1..=9)
                    .map(|n| channel_id(n).to_string())
                    .chain(words.clone())
                    .collect(),
            ),
            ("op", vec!["update".to_owned(), "delete".to_owned()]),
            ("project", words.clone()),
        ] {
            if self.chance.one_in(6) {
                let values: Vec<String> = values;
                terms.insert(name.to_owned(), self.chance.some(&values));
            }
        }
        let chance = &mut self.chance;
        let mut maybe = |bound: usize| chance.one_in(bound);
        let (by_id, by_author, by_kind) = (maybe(8), maybe(4), maybe(2));
        let (by_since, by_until, by_channel, by_t) = (maybe(4), maybe(4), maybe(3), maybe(5));
        let readers = if maybe(8) {
            BTreeSet::new()
        } else {
            self.chance.some(&keys)
        };
        ReadPlan {
            community: CommunityId(Uuid::from_bytes([1; 16]).expect("not nil")),
            readers,
            view,
            ids: by_id.then(|| self.chance.some(&ids)),
            authors: by_author.then(|| self.chance.some(&keys)),
            kinds: by_kind.then(|| self.random_kinds(view)),
            since: by_since.then(|| 990 + self.chance.below(20) as u64),
            until: by_until.then(|| 990 + self.chance.below(20) as u64),
            channels: by_channel.then(|| self.chance.some(&channels)),
            terms,
            t_values: by_t.then(|| self.chance.some(&words)),
            scope: Scope {
                named: if self.chance.one_in(2) {
                    self.chance.some(&channels)
                } else {
                    BTreeSet::new()
                },
                system: self.chance.one_in(3),
            },
            page: Page {
                limit: u32::try_from(self.chance.below(40)).expect("small"),
                offset: if view == PlanView::Events || self.chance.one_in(2) {
                    0
                } else {
                    2
                },
            },
        }
    }

    fn random_kinds(&mut self, view: PlanView) -> BTreeSet<Kind> {
        match self.chance.below(8) {
            0 => KINDS.into_iter().chain(20_000..20_020).collect(),
            1..=4 if view != PlanView::Events => BTreeSet::from([kinds::ARTIFACT]),
            _ => self.chance.some(&KINDS),
        }
    }
}

fn ledger_row(position: Position, event: Option<EventId>) -> Write {
    Write::Ledger(LedgerRow {
        position,
        change: Change::Event,
        channel: None,
        key: None,
        artifact: None,
        event,
    })
}
