//! What the stepper writes into the history, in the checker's words. Translation only: nothing is judged or left out here.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checker::Line;
use holdfast_checker::format::{
    self, Attempt, Change, Filter, Intent, Op, Record, RevisionOp, Visibility,
};
use holdfast_core::channel;
use holdfast_core::nostr::{ArtifactFilter, Event};
use holdfast_world::truth::{Commit, CommittedChange, What};

/// Tags that belong to the envelope of a revision and are no tags of its own.
const ENVELOPE: [&str; 8] = ["ar", "d", "h", "type", "title", "op", "root", "prev"];

/// The history as it grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    lines: Vec<Line>,
    commits: u64,
}

impl Recorder {
    pub(super) fn write(&mut self, at_ms: u64, record: Record) {
        self.lines.push(Line { at_ms, record });
    }

    /// All lines. Announcements of changes that were never committed are left out: a commit that the store has forgotten is
    /// announced although it may not have happened.
    pub(super) fn into_lines(mut self, committed: &BTreeSet<u64>) -> Vec<Line> {
        self.lines.retain_mut(|line| match &mut line.record {
            Record::Published { positions, .. } => {
                positions.retain(|position| committed.contains(position));
                !positions.is_empty()
            }
            _ => true,
        });
        self.lines
    }

    /// A commit that others can see from here on.
    pub(super) fn commit(&mut self, at_ms: u64, node: u32, ops: Vec<Op>, commit: &Commit) {
        self.commits += 1;
        let record = Record::Commit {
            index: self.commits,
            ops,
            node,
            changes: commit.changes.iter().map(change).collect(),
        };
        self.write(at_ms, record);
    }
}

/// One committed change.
pub(super) fn change(committed: &CommittedChange) -> Change {
    let pos = committed.position.0;
    match &committed.what {
        What::Revision {
            artifact,
            event,
            prev,
            op,
            home,
            artifact_type,
            root,
            author,
            tags,
        } => Change::Revision {
            pos,
            d: artifact.to_string(),
            rev: event.to_string(),
            prev: prev.map(|prev| prev.to_string()),
            op: operation(op),
            h: home.to_string(),
            artifact_type: artifact_type.clone(),
            tags: tags
                .iter()
                .filter(|tag| tag.len() >= 2 && !ENVELOPE.contains(&tag[0].as_str()))
                .map(|tag| (tag[0].clone(), tag[1].clone()))
                .collect(),
            author: author.to_string(),
            root: root.map(|root| root.to_string()),
        },
        What::MoveSource {
            artifact,
            source,
            marker,
            replaced,
        } => Change::MoveSource {
            pos,
            d: artifact.to_string(),
            h: source.to_string(),
            marker: marker.to_string(),
            replaced: replaced.clone(),
        },
        What::Redaction {
            artifact,
            event,
            current,
        } => Change::Redaction {
            pos,
            rev: event.to_string(),
            d: artifact.to_string(),
            current: *current,
        },
        What::Membership {
            channel, key, role, ..
        } => Change::Membership {
            pos,
            channel: channel.to_string(),
            key: key.to_string(),
            role: role.map(|role| role.as_str().to_owned()),
        },
        What::Visibility {
            channel,
            visibility,
        } => Change::Visibility {
            pos,
            channel: channel.to_string(),
            visibility: visible(*visibility),
        },
        What::Archive { channel, archived } => Change::Archive {
            pos,
            channel: channel.to_string(),
            archived: *archived,
        },
        What::Created {
            channel,
            channel_type,
            visibility,
            unlisted,
        } => Change::ChannelCreated {
            pos,
            channel: channel.to_string(),
            channel_type: channel_type.as_str().to_owned(),
            visibility: visible(*visibility),
            unlisted: *unlisted,
        },
        What::Deleted { channel } => Change::ChannelDeleted {
            pos,
            channel: channel.to_string(),
        },
        What::Metadata { channel } => Change::Other {
            pos,
            event: format!("metadata of {channel}"),
        },
        What::Event { event, .. } | What::Withheld { event, .. } => Change::Other {
            pos,
            event: event.to_string(),
        },
    }
}

pub(super) fn visible(visibility: channel::Visibility) -> Visibility {
    match visibility {
        channel::Visibility::Open => Visibility::Open,
        channel::Visibility::Private => Visibility::Private,
    }
}

fn operation(op: &str) -> RevisionOp {
    match op {
        "create" => RevisionOp::Create,
        "update" => RevisionOp::Update,
        "move" => RevisionOp::Move,
        "delete" => RevisionOp::Delete,
        "restore" => RevisionOp::Restore,
        other => panic!("the relay accepted an op it does not know: {other}"),
    }
}

/// What a client's event wants, if it is a revision.
pub(super) fn intent(event: &Event) -> Option<Intent> {
    if event.kind != holdfast_core::nostr::kinds::ARTIFACT {
        return None;
    }
    Some(Intent {
        d: event.first_value("d")?.to_owned(),
        op: operation(event.first_value("op")?),
        prev: event.first_value("prev").map(str::to_owned),
        h: event.first_value("h")?.to_owned(),
    })
}

/// A well-formed sync filter.
pub(super) fn filter(filter: &ArtifactFilter) -> Filter {
    let mut tags: BTreeMap<String, BTreeSet<String>> = filter.predicates.clone();
    let h = tags.remove("h").unwrap_or_default();
    Filter {
        h,
        tags,
        malformed: None,
    }
}

/// A filter that a relay must refuse.
pub(super) fn malformed(what: &str) -> Filter {
    Filter {
        h: BTreeSet::new(),
        tags: BTreeMap::new(),
        malformed: Some(what.to_owned()),
    }
}

/// The result of a write as its client learns it.
pub(super) fn outcome(accepted: bool, text: &str) -> format::Outcome {
    match (accepted, text) {
        (true, "") => format::Outcome::Ok,
        (true, _) => format::Outcome::Duplicate,
        (false, text) if text.starts_with("conflict:") => format::Outcome::Conflict,
        (false, text) if text.starts_with("error:") => format::Outcome::Error,
        (false, _) => format::Outcome::Refused,
    }
}

/// Which attempt a frame belongs to, by the relay's own names.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempts {
    next: Attempt,
}

impl Attempts {
    pub(super) fn fresh(&mut self) -> Attempt {
        self.next += 1;
        self.next
    }
}
