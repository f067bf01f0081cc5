//! A tiny truth to sync from: six channels, one reader, a few artifacts with their chains. It says what rows a store would
//! return, which signals a change causes, and, by its own few lines and not by those under test, what belongs to the set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::channel::{Channel, ChannelType, Role, Visibility};
use crate::ids::{ArtifactId, ChannelId, CommunityId, Position, Uuid};
use crate::nostr::{ArtifactFilter, Event, EventId, PubKey, Signature, Tag, kinds};
use crate::scope::{Cut, ReadPlan, Stamp, compile_artifact};
use crate::sync::{
    AccessRows, HeadRow, HeadRows, Membership, SnapshotFacts, StoreGeneration, SyncRow, SyncSignal,
};

pub(super) const READER: PubKey = PubKey::from_bytes([0xb2; 32]);
pub(super) const OTHER: PubKey = PubKey::from_bytes([0xe3; 32]);
const AUTHOR: PubKey = PubKey::from_bytes([0xa1; 32]);

/// A channel by its number in [`Truth::channels`].
pub(super) type Chan = usize;
/// An artifact by its number; the order of numbers is the order of `d`.
pub(super) type Art = usize;

/// Named by the filter: open, the reader is no member.
pub(super) const HALL: Chan = 0;
/// Named by the filter: private, the reader is a member.
pub(super) const DEN: Chan = 1;
/// Not named: open and listed, so that the reader's scope reaches it.
pub(super) const PLAZA: Chan = 2;
/// Not named: private, without the reader.
pub(super) const CLUB: Chan = 3;
/// Not named: open and unlisted.
pub(super) const SIDE: Chan = 4;
/// Not named: an open system channel.
pub(super) const VAULT: Chan = 5;
pub(super) const CHANNELS: usize = 6;
pub(super) const ARTIFACTS: usize = 5;
pub(super) const NAMED: [Chan; 2] = [HALL, DEN];

pub(super) fn channel_id(number: Chan) -> ChannelId {
    ChannelId(Uuid::from_bytes([0xc0 + small(number); 16]).expect("not nil"))
}

pub(super) fn artifact_id(number: Art) -> ArtifactId {
    ArtifactId(Uuid::from_bytes([0xa0 + small(number); 16]).expect("not nil"))
}

pub(super) fn number_of(artifact: ArtifactId) -> Art {
    usize::from(artifact.0.as_bytes()[0] - 0xa0)
}

fn number_of_channel(channel: ChannelId) -> Chan {
    usize::from(channel.0.as_bytes()[0] - 0xc0)
}

fn small(number: usize) -> u8 {
    u8::try_from(number).expect("numbers of these tests are small")
}

/// The plan of the filter `#h` = hall and den, `#label` = wanted.
pub(super) fn plan() -> ReadPlan {
    let text = format!(
        r##"{{"artifact":"current","#h":["{}","{}"],"#label":["wanted"]}}"##,
        channel_id(HALL),
        channel_id(DEN)
    );
    let filter = ArtifactFilter::from_json(&text).expect("a valid filter");
    let community = CommunityId(Uuid::from_bytes([7; 16]).expect("not nil"));
    compile_artifact(community, &BTreeSet::from([READER]), &filter).expect("never refused")
}

/// One accepted revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    pub(super) home: Chan,
    pub(super) is_deletion: bool,
    /// Its `label` tag has the wanted first value.
    pub(super) is_wanted: bool,
    pub(super) is_redacted: bool,
}

/// One thing that can happen to the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Creates, updates, moves or restores, as the artifact's state allows.
    Write {
        artifact: Art,
        home: Chan,
        is_wanted: bool,
    },
    Delete(Art),
    /// Redacts the revision this many steps behind the head.
    Redact(Art, usize),
    Visibility(Chan, Visibility),
    /// The reader's role in a channel; none ends the membership.
    Member(Chan, Option<Role>),
    OtherJoins(Chan),
    Archive(Chan),
    Unlist(Chan),
    DeleteChannel(Chan),
    /// Another database takes over.
    Failover,
}

/// What the store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Truth {
    pub(super) position: u64,
    pub(super) store: u64,
    pub(super) channels: Vec<Channel>,
    pub(super) members: BTreeMap<Chan, Membership>,
    pub(super) chains: BTreeMap<Art, Vec<Revision>>,
    /// For (artifact, source): the number of the revision that left.
    pub(super) left: BTreeMap<(Art, Chan), usize>,
    /// Where each channel's access last changed for the reader.
    pub(super) access_moved: [u64; CHANNELS],
}

impl Truth {
    pub(super) fn new() -> Truth {
        let channel = |number: Chan| Channel {
            id: channel_id(number),
            channel_type: match number {
                VAULT => ChannelType::System,
                _ => ChannelType::Stream,
            },
            visibility: match number {
                DEN | CLUB => Visibility::Private,
                _ => Visibility::Open,
            },
            unlisted: number == SIDE,
            name: String::new(),
            about: String::new(),
            topic: String::new(),
            purpose: String::new(),
            creator: Some(AUTHOR),
            created_at: 1,
            archived: false,
            deleted: false,
            access_stamp: Position(1),
        };
        let member = Membership {
            role: Some(Role::Member),
            stamp: Position(1),
        };
        Truth {
            position: 1,
            store: 1,
            channels: (0..CHANNELS).map(channel).collect(),
            members: BTreeMap::from([(DEN, member)]),
            chains: BTreeMap::new(),
            left: BTreeMap::new(),
            access_moved: [1; CHANNELS],
        }
    }

    fn next(&mut self) -> u64 {
        self.position += 1;
        self.position
    }

    /// Commits a change; returns the signals that a listener of the named channels hears about it, in no order that matters.
    /// A change that the relay would refuse, or that changes nothing, does nothing.
    pub(super) fn commit(&mut self, change: Change) -> Vec<(SyncSignal, Stamp)> {
        let mut signals = Vec::new();
        let mut tell = |channel: Chan, signal: SyncSignal, position: u64| {
            if NAMED.contains(&channel) {
                let stamp = Stamp {
                    position: Position(position),
                    xid: 0,
                };
                signals.push((signal, stamp));
            }
        };
        match change {
            Change::Write {
                artifact,
                home,
                is_wanted,
            } => {
                let head = self.head(artifact);
                let home = match head {
                    Some(head) if head.is_deletion => head.home,
                    _ => home,
                };
                if self.channels[home].deleted {
                    return signals;
                }
                let at = self.next();
                self.push(artifact, home, false, is_wanted);
                tell(home, SyncSignal::Changed(artifact_id(artifact)), at);
                if let Some(from) = head.map(|head| head.home).filter(|from| *from != home) {
                    let at = self.next();
                    let arrived = self.chains[&artifact].len() - 1;
                    self.left.insert((artifact, from), arrived);
                    tell(from, SyncSignal::Changed(artifact_id(artifact)), at);
                }
            }
            Change::Delete(artifact) => {
                let Some(head) = self.head(artifact).filter(|head| !head.is_deletion) else {
                    return signals;
                };
                let at = self.next();
                self.push(artifact, head.home, true, head.is_wanted);
                tell(head.home, SyncSignal::Changed(artifact_id(artifact)), at);
            }
            Change::Redact(artifact, back) => {
                let Some(chain) = self.chains.get_mut(&artifact) else {
                    return signals;
                };
                let Some(number) = chain.len().checked_sub(1 + back) else {
                    return signals;
                };
                let was = std::mem::replace(&mut chain[number].is_redacted, true);
                let home = chain[number].home;
                if !was {
                    let at = self.next();
                    if back == 0 {
                        tell(home, SyncSignal::Retired(artifact_id(artifact)), at);
                    }
                }
            }
            Change::Visibility(channel, visibility) => {
                let is_new = self.channels[channel].visibility != visibility;
                if is_new && !self.channels[channel].deleted {
                    self.channels[channel].visibility = visibility;
                    let at = self.move_access(channel);
                    tell(channel, SyncSignal::Access(channel_id(channel), None), at);
                }
            }
            Change::Member(channel, role) => {
                let former = self.members.get(&channel).and_then(|member| member.role);
                if former.is_some() == role.is_some() {
                    if let (Some(member), Some(_)) = (self.members.get_mut(&channel), role) {
                        member.role = role;
                        self.next();
                    }
                    return signals;
                }
                let at = self.next();
                self.access_moved[channel] = at;
                let stamp = Position(at);
                self.members.insert(channel, Membership { role, stamp });
                let signal = SyncSignal::Access(channel_id(channel), Some(READER));
                tell(channel, signal, at);
            }
            Change::OtherJoins(channel) => {
                let at = self.next();
                let signal = SyncSignal::Access(channel_id(channel), Some(OTHER));
                tell(channel, signal, at);
            }
            Change::Archive(channel) => {
                self.next();
                self.channels[channel].archived ^= true;
            }
            Change::Unlist(channel) => {
                self.next();
                self.channels[channel].unlisted ^= true;
            }
            Change::DeleteChannel(channel) => {
                if !self.channels[channel].deleted {
                    self.channels[channel].deleted = true;
                    let at = self.move_access(channel);
                    tell(channel, SyncSignal::Access(channel_id(channel), None), at);
                }
            }
            Change::Failover => self.store += 1,
        }
        signals
    }

    fn move_access(&mut self, channel: Chan) -> u64 {
        let at = self.next();
        self.channels[channel].access_stamp = Position(at);
        self.access_moved[channel] = at;
        at
    }

    fn push(&mut self, artifact: Art, home: Chan, is_deletion: bool, is_wanted: bool) {
        self.chains.entry(artifact).or_default().push(Revision {
            home,
            is_deletion,
            is_wanted,
            is_redacted: false,
        });
    }

    /// The current revision.
    pub(super) fn head(&self, artifact: Art) -> Option<Revision> {
        self.chains.get(&artifact)?.last().copied()
    }

    /// The number of the current revision in its chain.
    pub(super) fn head_number(&self, artifact: Art) -> Option<usize> {
        self.chains.get(&artifact)?.len().checked_sub(1)
    }

    /// Whether the reader may read the channel at all.
    pub(super) fn is_open_to_reader(&self, channel: Chan) -> bool {
        let row = &self.channels[channel];
        !row.deleted && (row.visibility == Visibility::Open || self.is_member(channel))
    }

    /// Whether the reader may see, in this sync, what lives in the channel: a named one that it can read, or one that its query
    /// would reach without naming it.
    pub(super) fn is_seen(&self, channel: Chan) -> bool {
        let row = &self.channels[channel];
        let is_reached =
            row.channel_type == ChannelType::Stream && (!row.unlisted || self.is_member(channel));
        self.is_open_to_reader(channel) && (NAMED.contains(&channel) || is_reached)
    }

    fn is_member(&self, channel: Chan) -> bool {
        self.members
            .get(&channel)
            .is_some_and(|member| member.role.is_some())
    }

    /// Whether every named channel is readable.
    pub(super) fn is_all_readable(&self) -> bool {
        NAMED
            .into_iter()
            .all(|channel| self.is_open_to_reader(channel))
    }

    /// Where the reader's access to any named channel last changed.
    pub(super) fn named_access_moved(&self) -> [u64; 2] {
        NAMED.map(|channel| self.access_moved[channel])
    }

    /// Whether the current revision belongs to the set.
    pub(super) fn is_in_set(&self, artifact: Art) -> bool {
        self.head(artifact).is_some_and(|head| {
            !head.is_redacted
                && !head.is_deletion
                && head.is_wanted
                && NAMED.contains(&head.home)
                && self.is_open_to_reader(head.home)
        })
    }

    /// The set: each artifact with the number of its head.
    pub(super) fn set(&self) -> BTreeMap<Art, usize> {
        let all = self
            .chains
            .iter()
            .map(|(artifact, chain)| (*artifact, chain.len() - 1));
        all.filter(|(artifact, _)| self.is_in_set(*artifact))
            .collect()
    }

    /// What a snapshot taken now says about itself.
    pub(super) fn facts(&self) -> SnapshotFacts {
        SnapshotFacts {
            access: self.access(NAMED.into_iter()),
            cut: Cut::Position(Position(self.position)),
        }
    }

    pub(super) fn store(&self) -> StoreGeneration {
        StoreGeneration(self.store)
    }

    /// One row of the initial set.
    pub(super) fn row(&self, artifact: Art, number: usize) -> SyncRow {
        let home = channel_id(self.chains[&artifact][number].home);
        SyncRow {
            artifact: artifact_id(artifact),
            home,
            event: event_id(artifact, number),
            json: Said::Head { artifact, number }.json(),
        }
    }

    fn access(&self, channels: impl Iterator<Item = Chan>) -> AccessRows {
        let mut rows = AccessRows::default();
        for channel in channels {
            let id = channel_id(channel);
            rows.channels.insert(id, self.channels[channel].clone());
            if let Some(member) = self.members.get(&channel) {
                rows.members.insert((id, READER), *member);
            }
        }
        rows
    }

    /// What a head read that happens now returns; after `most` artifacts the byte bound is reached.
    pub(super) fn heads(
        &self,
        asked: &BTreeSet<ArtifactId>,
        markers: &BTreeSet<(ArtifactId, ChannelId)>,
        most: usize,
    ) -> HeadRows {
        let mut rows = HeadRows {
            clock_secs: 1_800_000_000,
            store: self.store(),
            left: asked.iter().skip(most).copied().collect(),
            ..HeadRows::default()
        };
        let mut homes: BTreeSet<Chan> = BTreeSet::from(NAMED);
        for id in asked.iter().take(most) {
            let artifact = number_of(*id);
            if let Some(number) = self.head_number(artifact) {
                let head = self.chains[&artifact][number];
                homes.insert(head.home);
                let json = Said::Head { artifact, number }.json();
                let body = (Arc::new(event(artifact, number, head)), json);
                rows.heads.insert(
                    *id,
                    HeadRow {
                        event: event_id(artifact, number),
                        home: channel_id(head.home),
                        body: (!head.is_redacted).then_some(body),
                    },
                );
            }
            for (of, source) in markers.iter().filter(|(of, _)| of == id) {
                let from = number_of_channel(*source);
                if let Some(number) = self.left.get(&(artifact, from)).copied() {
                    let said = Said::Removal {
                        artifact,
                        from,
                        number,
                    };
                    rows.markers.insert((*of, *source), said.json());
                }
            }
        }
        rows.access = self.access(homes.into_iter());
        rows
    }
}

fn event_id(artifact: Art, number: usize) -> EventId {
    let mut bytes = [small(artifact); 32];
    bytes[1] = small(number);
    EventId::from_bytes(bytes)
}

/// The revision as an event. A revision that is not wanted has the wanted word where it does not count.
fn event(artifact: Art, number: usize, revision: Revision) -> Event {
    let tag = |parts: &[&str]| -> Tag { parts.iter().map(|part| (*part).to_owned()).collect() };
    let op = match (revision.is_deletion, number) {
        (true, _) => "delete",
        (false, 0) => "create",
        (false, _) => "update",
    };
    let label: &[&str] = match revision.is_wanted {
        true => &["label", "wanted"],
        false => &["label", "other", "wanted"],
    };
    Event {
        id: event_id(artifact, number),
        pubkey: AUTHOR,
        created_at: 1_700_000_000,
        kind: kinds::ARTIFACT,
        tags: vec![
            tag(&["d", &artifact_id(artifact).to_string()]),
            tag(&["h", &channel_id(revision.home).to_string()]),
            tag(&["op", op]),
            tag(&["wanted", "label"]),
            tag(label),
        ],
        content: String::new(),
        sig: Signature::from_bytes([0; 64]),
    }
}

/// What an EVENT of a sync is about, as these tests write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Said {
    /// Kind 45010: revision `number` of the artifact.
    Head { artifact: Art, number: usize },
    /// Kind 45011, stored in `from` when revision `number` left it.
    Removal {
        artifact: Art,
        from: Chan,
        number: usize,
    },
}

impl Said {
    pub(super) fn json(self) -> Arc<str> {
        match self {
            Said::Head { artifact, number } => format!("45010 {artifact} {number}").into(),
            Said::Removal {
                artifact,
                from,
                number,
            } => format!("45011 {artifact} {number} {from}").into(),
        }
    }

    pub(super) fn read(json: &str) -> Said {
        let mut parts = json.split(' ').map(|part| part.parse().expect("a number"));
        let mut next = || -> usize { parts.next().expect("one more number") };
        let (kind, artifact, number) = (next(), next(), next());
        match kind {
            45_010 => Said::Head { artifact, number },
            _ => Said::Removal {
                artifact,
                from: next(),
                number,
            },
        }
    }

    pub(super) fn artifact(self) -> Art {
        match self {
            Said::Head { artifact, .. } | Said::Removal { artifact, .. } => artifact,
        }
    }

    /// The revision that was current when this was said.
    pub(super) fn number(self) -> usize {
        match self {
            Said::Head { number, .. } | Said::Removal { number, .. } => number,
        }
    }
}
