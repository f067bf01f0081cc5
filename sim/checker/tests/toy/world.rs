//! The toy's store: the state after every commit, and the changes that lead there.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checker::format::{
    Change, EndChannel, EndDigest, EndHead, EndState, Filter, Intent, Node, Op, Record, RevisionOp,
    Visibility,
};
use sha2::{Digest, Sha256};

use super::Toy;

pub(crate) const CHANNELS: [&str; 3] = ["c1", "c2", "c3"];
pub(crate) const KEYS: [&str; 3] = ["alice", "bob", "carol"];
const ARTIFACTS: u64 = 6;

/// The head of an artifact.
#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) rev: String,
    pub(crate) h: String,
    pub(crate) project: String,
    pub(crate) deleted: bool,
    pub(crate) redacted: bool,
    pub(crate) k: u64,
}

/// A channel.
#[derive(Clone)]
pub(crate) struct Room {
    pub(crate) private: bool,
    pub(crate) deleted: bool,
    pub(crate) members: BTreeSet<String>,
}

/// The state after a commit.
#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) k: u64,
    pub(crate) heads: BTreeMap<String, Head>,
    /// Newest removal per artifact and source: its id and commit.
    pub(crate) markers: BTreeMap<(String, String), (String, u64)>,
    pub(crate) rooms: BTreeMap<String, Room>,
    pub(crate) accepted: BTreeSet<String>,
    /// Replaced revisions that are not redacted, with their artifact.
    pub(crate) replaced: Vec<(String, String)>,
}

/// What a node announces.
#[derive(Clone)]
pub(crate) enum Signal {
    Changed {
        channel: String,
        d: String,
    },
    Retired {
        channel: String,
        d: String,
        k: u64,
    },
    Access {
        channel: String,
        key: Option<String>,
        k: u64,
    },
}

pub(crate) fn matches(filter: &Filter, head: &Head) -> bool {
    let wanted = filter.tags.get("project");
    !head.deleted
        && !head.redacted
        && filter.h.contains(&head.h)
        && wanted.is_none_or(|wanted| wanted.contains(&head.project))
}

impl World {
    pub(crate) fn reads(&self, reader: &str, channel: &str) -> bool {
        self.rooms
            .get(channel)
            .is_some_and(|room| !room.deleted && (!room.private || room.members.contains(reader)))
    }

    pub(crate) fn admits(&self, reader: &str, filter: &Filter) -> bool {
        filter.h.iter().all(|channel| self.reads(reader, channel))
    }

    pub(crate) fn set(&self, filter: &Filter) -> Vec<(String, Head)> {
        let heads = self.heads.iter().filter(|(_, head)| matches(filter, head));
        heads.map(|(d, head)| (d.clone(), head.clone())).collect()
    }

    pub(crate) fn end_state(&self, filters: BTreeSet<Filter>) -> EndState {
        let heads = self.heads.iter().map(|(d, head)| EndHead {
            d: d.clone(),
            rev: head.rev.clone(),
            h: head.h.clone(),
            deleted: head.deleted,
            redacted: head.redacted,
        });
        let channels = self.rooms.iter().map(|(channel, room)| EndChannel {
            channel: channel.clone(),
            visibility: if room.private {
                Visibility::Private
            } else {
                Visibility::Open
            },
            deleted: room.deleted,
            unlisted: false,
            members: if room.deleted {
                Vec::new()
            } else {
                room.members.iter().cloned().collect()
            },
        });
        let digests = filters.into_iter().map(|filter| {
            let set = self
                .set(&filter)
                .into_iter()
                .map(|(d, head)| (d, head.rev))
                .collect();
            EndDigest {
                digest: digest(&set),
                filter,
            }
        });
        EndState {
            heads: heads.collect(),
            channels: channels.collect(),
            digests: digests.collect(),
        }
    }
}

/// The digest of a set (AR-DIGEST-1).
pub(crate) fn digest(set: &BTreeMap<String, String>) -> String {
    let mut hasher = Sha256::new();
    hasher.update("nip-ar-set-v1\0");
    for (d, rev) in set {
        hasher.update(format!("{d}:{rev}\n"));
    }
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

impl Toy {
    pub(crate) fn found_channels(&mut self) {
        for (index, channel) in CHANNELS.into_iter().enumerate() {
            let private = index == 2;
            let members = if private {
                [KEYS[0], KEYS[1]].map(str::to_owned).into()
            } else {
                BTreeSet::new()
            };
            let created = Change::ChannelCreated {
                pos: self.fresh(),
                channel: channel.to_owned(),
                channel_type: "stream".to_owned(),
                visibility: if private {
                    Visibility::Private
                } else {
                    Visibility::Open
                },
                unlisted: false,
            };
            let mut changes = vec![created];
            for key in &members {
                let (pos, channel, key) = (self.fresh(), channel.to_owned(), key.clone());
                changes.push(Change::Membership {
                    pos,
                    channel,
                    key,
                    role: Some("member".to_owned()),
                });
            }
            let room = Room {
                private,
                deleted: false,
                members,
            };
            self.world.rooms.insert(channel.to_owned(), room);
            self.commit(1, vec![], changes);
        }
    }

    /// Records a commit and keeps its signals for publication.
    pub(crate) fn commit(&mut self, node: Node, ops: Vec<Op>, changes: Vec<Change>) {
        self.world.k += 1;
        let k = self.world.k;
        for change in &changes {
            let signal = match change {
                Change::Revision { h, d, .. } | Change::MoveSource { h, d, .. } => {
                    Signal::Changed {
                        channel: h.clone(),
                        d: d.clone(),
                    }
                }
                Change::Redaction {
                    d, current: true, ..
                } => Signal::Retired {
                    channel: self.world.heads[d].h.clone(),
                    d: d.clone(),
                    k,
                },
                Change::Redaction { d, .. } => Signal::Changed {
                    channel: self.world.heads[d].h.clone(),
                    d: d.clone(),
                },
                Change::Membership { channel, key, .. } => Signal::Access {
                    channel: channel.clone(),
                    key: Some(key.clone()),
                    k,
                },
                Change::Visibility { channel, .. } | Change::ChannelDeleted { channel, .. } => {
                    Signal::Access {
                        channel: channel.clone(),
                        key: None,
                        k,
                    }
                }
                _ => continue,
            };
            self.pending
                .entry(node)
                .or_default()
                .push((change.pos(), signal));
        }
        self.record(Record::Commit {
            index: k,
            ops,
            node,
            changes,
        });
    }

    /// A revision that may be accepted; sometimes one that names an old head.
    pub(crate) fn intend(&mut self) -> (Intent, String) {
        let d = format!("d{}", self.dice.roll(ARTIFACTS));
        let project = format!("p{}", self.dice.roll(3));
        let open: Vec<&str> = CHANNELS
            .into_iter()
            .filter(|channel| !self.world.rooms[*channel].deleted)
            .collect();
        let channel = (*self.dice.pick(&open)).to_owned();
        let Some(head) = self.world.heads.get(&d).cloned() else {
            let intent = Intent {
                d,
                op: RevisionOp::Create,
                prev: None,
                h: channel,
            };
            return (intent, project);
        };
        let op = match self.dice.roll(5) {
            _ if head.deleted => RevisionOp::Restore,
            0 if channel != head.h => RevisionOp::Move,
            1 => RevisionOp::Delete,
            _ => RevisionOp::Update,
        };
        let h = if op == RevisionOp::Move {
            channel
        } else {
            head.h
        };
        (
            Intent {
                d,
                op,
                prev: Some(head.rev),
                h,
            },
            project,
        )
    }

    /// Accepts a revision if its `prev` is the head.
    pub(crate) fn accept(
        &mut self,
        node: Node,
        op: Op,
        event: &str,
        author: &str,
        intent: &Intent,
        project: &str,
    ) -> bool {
        let head = self.world.heads.get(&intent.d).cloned();
        if head.as_ref().map(|head| &head.rev) != intent.prev.as_ref() {
            return false;
        }
        let k = self.world.k + 1;
        if let Some(head) = head.as_ref().filter(|head| !head.redacted) {
            self.world
                .replaced
                .push((intent.d.clone(), head.rev.clone()));
        }
        let project = match (intent.op, &head) {
            (RevisionOp::Delete, _) => String::new(),
            _ => project.to_owned(),
        };
        let mut changes = vec![Change::Revision {
            pos: self.fresh(),
            d: intent.d.clone(),
            rev: event.to_owned(),
            prev: intent.prev.clone(),
            op: intent.op,
            h: intent.h.clone(),
            artifact_type: "buzz.task".to_owned(),
            tags: if project.is_empty() {
                vec![]
            } else {
                vec![("project".to_owned(), project.clone())]
            },
            author: author.to_owned(),
            root: None,
        }];
        if let Some(head) = head.filter(|_| intent.op == RevisionOp::Move) {
            let marker = format!("m{}", self.fresh());
            self.world
                .markers
                .insert((intent.d.clone(), head.h.clone()), (marker.clone(), k));
            let pos = self.fresh();
            changes.push(Change::MoveSource {
                pos,
                d: intent.d.clone(),
                h: head.h,
                marker,
                replaced: head.rev,
            });
        }
        let (deleted, redacted) = (intent.op == RevisionOp::Delete, false);
        let head = Head {
            rev: event.to_owned(),
            h: intent.h.clone(),
            project,
            deleted,
            redacted,
            k,
        };
        self.world.heads.insert(intent.d.clone(), head);
        self.world.accepted.insert(event.to_owned());
        self.commit(node, vec![op], changes);
        true
    }

    /// A change of access, a redaction, an archive.
    pub(crate) fn change_something(&mut self) {
        let channel = (*self.dice.pick(&CHANNELS)).to_owned();
        let (pos, node) = (self.fresh(), *self.dice.pick(&super::NODES));
        let room = self.world.rooms.get_mut(&channel).expect("it was founded");
        if room.deleted {
            return;
        }
        let change = match self.dice.roll(12) {
            0..=3 => {
                let key = (*self.dice.pick(&KEYS)).to_owned();
                let joins = !room.members.remove(&key);
                if joins {
                    room.members.insert(key.clone());
                }
                Change::Membership {
                    pos,
                    channel,
                    key,
                    role: joins.then(|| "member".to_owned()),
                }
            }
            4 => {
                room.private = !room.private;
                let visibility = if room.private {
                    Visibility::Private
                } else {
                    Visibility::Open
                };
                Change::Visibility {
                    pos,
                    channel,
                    visibility,
                }
            }
            5 => Change::Archive {
                pos,
                channel,
                archived: true,
            },
            7 | 8 if !self.world.replaced.is_empty() => {
                let (d, rev) = self.world.replaced.swap_remove(0);
                let current = false;
                Change::Redaction {
                    pos,
                    rev,
                    d,
                    current,
                }
            }
            6 if channel == "c2" && self.dice.once_in(4) => {
                room.deleted = true;
                Change::ChannelDeleted { pos, channel }
            }
            _ => match self.redact_head(pos) {
                Some(change) => change,
                None => return,
            },
        };
        self.commit(node, vec![], vec![change]);
    }

    fn redact_head(&mut self, pos: u64) -> Option<Change> {
        let heads: Vec<String> = self.world.heads.keys().cloned().collect();
        if heads.is_empty() {
            return None;
        }
        let d = self.dice.pick(&heads).clone();
        let head = self.world.heads.get_mut(&d).filter(|head| !head.redacted)?;
        head.redacted = true;
        let (rev, current) = (head.rev.clone(), true);
        Some(Change::Redaction {
            pos,
            rev,
            d,
            current,
        })
    }
}
