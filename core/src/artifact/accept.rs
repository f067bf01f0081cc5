//! Acceptance of a revision: the locks and the view it needs, the checks in their order, and what its acceptance writes.
//!
//! What one event alone may say is judged in `envelope`; who may write in a channel is judged by the write gate that chat
//! messages pass. Nothing here reads a body of an earlier revision: the head record holds what is compared (H21).

use super::envelope::{Envelope, Op};
use crate::accept::{
    Decision, Head, Known, Plan, Policy, Rejection, RelayKey, StoredEvent, Submission, View, Write,
    WriteList, deleted, gate,
};
use crate::ids::{ArtifactId, ChannelId, Position, UnixSeconds};
use crate::nostr::{Draft, Event, EventId, kinds};

/// Adds what the decision about a revision needs: the artifact alone for itself, the named channel shared with other posts,
/// and the view of both, of the artifact's home and of the root.
///
/// The tags are read as far as they can be; a revision they mislead is refused for its envelope.
pub fn plan_into(event: &Event, plan: &mut Plan) {
    let home = event.channel_tag();
    let artifact = event.first_value("d").and_then(|d| d.parse().ok());
    plan.locks.shared_channels.extend(home);
    plan.locks.artifacts.extend(artifact);
    plan.view.channels.extend(home);
    plan.view.artifact = artifact;
    plan.view.anchor = event.first_value("root").and_then(|root| root.parse().ok());
    // A move also announces the removal from its source.
    let moves = event.first_value("op") == Some(Op::Move.as_str());
    plan.view.positions += if moves { 2 } else { 1 };
}

/// Decides about a revision in the order of H18: a resubmission first, then what any message must satisfy in the named
/// channel, the envelope, the identity with `prev`, and last what the head and the root allow.
pub fn decide(submission: &Submission, view: &View, policy: &Policy) -> Decision {
    if view.known == Known::Accepted {
        // Whatever has become of the artifact, the author learns only that the revision was accepted (AR-ID-13, H19).
        return Decision::Already {
            message: String::new(),
        };
    }
    if view.deleted {
        // A kind 5 has no power over an accepted revision; this one was deleted by its author before it came.
        return Decision::Reject(deleted());
    }
    match judge(submission, view, policy) {
        Ok(step) => step.writes(&submission.event, view, policy),
        Err(rejection) => Decision::Reject(rejection),
    }
}

/// A revision that may be accepted, and what it follows.
struct Step<'v> {
    envelope: Envelope,
    /// The head it replaces; none for a creation.
    replaced: Option<&'v Head>,
}

fn judge<'v>(
    submission: &Submission,
    view: &'v View,
    policy: &Policy,
) -> Result<Step<'v>, Rejection> {
    let event = &submission.event;
    gate::window(submission, policy)?;
    gate::content_size(event)?;
    match event.channel_tag() {
        Some(home) => gate::write_gate(view, home).map(drop)?,
        // The envelope refuses a revision without a home, but not before its author may write at all.
        None => gate::standing(view, gate::SCOPE_MESSAGES_WRITE)?,
    }
    let envelope = Envelope::parse(event).map_err(invalid)?;
    let replaced = match envelope.prev {
        None => unused_identity(view).map(|()| None)?,
        Some(prev) => Some(replaced_head(&envelope, prev, view)?),
    };
    check_root(&envelope, replaced, view)?;
    Ok(Step { envelope, replaced })
}

/// A creation needs an id that was never used, whatever became of its artifact and whoever may read it (AR-ID-5, AR-ID-18).
fn unused_identity(view: &View) -> Result<(), Rejection> {
    match view.head {
        None => Ok(()),
        Some(_) => Err(conflict("artifact identity is taken")),
    }
}

/// The head that a later revision replaces.
///
/// An artifact whose home the author cannot read is as unknown as an id that was never used, whatever `prev` says
/// (AR-ACC-18, AR-MOVE-13). Of a readable one a stale `prev` is a conflict before anything else is judged (AR-ID-14), so that
/// an author who has not seen the newest revision learns of that first.
fn replaced_head<'v>(
    envelope: &Envelope,
    prev: EventId,
    view: &'v View,
) -> Result<&'v Head, Rejection> {
    let readable = |head: &&Head| gate::readable(view, head.home).is_ok();
    let head = view
        .head
        .as_ref()
        .filter(readable)
        .ok_or_else(|| conflict("artifact head unavailable"))?;
    if head.event != prev {
        return Err(conflict("artifact head changed"));
    }
    if head.artifact_type != envelope.artifact_type {
        return Err(invalid("artifact type is immutable"));
    }
    if head.deleted != (envelope.op == Op::Restore) {
        return Err(invalid(
            "deleted artifacts require restore; live artifacts cannot restore",
        ));
    }
    if (head.home != envelope.home) != (envelope.op == Op::Move) {
        return Err(invalid("only move changes home and move must change home"));
    }
    if envelope.op == Op::Move {
        // The stored home counts, not what the event says of it (AR-ACC-12, AR-MOVE-12).
        gate::write_gate(view, head.home)?;
    }
    if envelope.op == Op::Delete && head.root != envelope.root {
        return Err(invalid("delete preserves root"));
    }
    Ok(head)
}

/// A root that is new to the artifact or to the home must be a conversation message there that can still be read; one that
/// was accepted before is kept whatever became of the message (AR-ID-21, AR-ID-22, AR-ID-23, AR-MOVE-2, H23).
fn check_root(envelope: &Envelope, replaced: Option<&Head>, view: &View) -> Result<(), Rejection> {
    let kept =
        replaced.is_some_and(|head| (head.root, head.home) == (envelope.root, envelope.home));
    if envelope.root.is_none() || kept {
        return Ok(());
    }
    let found = view.anchor.is_some_and(|anchor| {
        kinds::ANCHORS.contains(&anchor.kind)
            && anchor.channel == Some(envelope.home)
            && !anchor.withheld
    });
    if found {
        Ok(())
    } else {
        Err(invalid(
            "root must be an existing conversation anchor in home",
        ))
    }
}

impl Step<'_> {
    /// Everything the acceptance writes, in one transaction (AR-MOVE-4): the revision, its entry among the accepted ones, the
    /// head, and for a move the removal from the source. The ledger announces the revision before the removal.
    fn writes(&self, event: &Event, view: &View, policy: &Policy) -> Decision {
        let Envelope { artifact, home, .. } = self.envelope;
        let head = Box::new(Head {
            event: event.id,
            home,
            artifact_type: self.envelope.artifact_type.clone(),
            root: self.envelope.root,
            deleted: self.envelope.op == Op::Delete,
            redacted: false,
        });
        let mut list = WriteList::new(view);
        let position = list.store(|position| stored(event.clone(), home, artifact, position));
        list.push(Write::Accept {
            event: event.id,
            artifact,
            author: event.pubkey,
            position,
        });
        list.push(match self.replaced {
            None => Write::CreateHead { artifact, head },
            Some(Head { event: prev, .. }) => Write::AdvanceHead {
                artifact,
                prev: *prev,
                head,
            },
        });
        if let Some(source) = self.replaced.filter(|_| self.envelope.op == Op::Move) {
            let removal = removal(artifact, source, view.clock_secs(), &policy.relay_key);
            list.store(|position| stored(removal, source.home, artifact, position));
        }
        list.decision()
    }
}

/// The relay's word to the readers of the source that an artifact left (AR-MOVE-5, AR-MOVE-6). It names what they know, the
/// source and the revision they had, and nothing of the destination.
fn removal(
    artifact: ArtifactId,
    source: &Head,
    created_at: UnixSeconds,
    relay_key: &RelayKey,
) -> Event {
    let tags = [
        ("ar", "1".to_owned()),
        ("d", artifact.to_string()),
        ("h", source.home.to_string()),
        ("reason", "moved".to_owned()),
        ("prev", source.event.to_string()),
    ];
    Draft {
        created_at,
        kind: kinds::ARTIFACT_MOVED,
        tags: tags
            .map(|(name, value)| vec![name.to_owned(), value])
            .into(),
        content: String::new(),
    }
    .sign(relay_key.secret())
}

fn stored(event: Event, channel: ChannelId, artifact: ArtifactId, at: Position) -> StoredEvent {
    StoredEvent {
        artifact: Some(artifact),
        ..StoredEvent::new(event, Some(channel), at)
    }
}

fn invalid(reason: impl std::fmt::Display) -> Rejection {
    Rejection::Invalid(format!("invalid: {reason}"))
}

fn conflict(reason: &str) -> Rejection {
    Rejection::Conflict(format!("conflict: {reason}"))
}
