//! The events that the relay signs about a channel: its state (39000-39002) and the notices to its members (44100, 44101).
//! When they are published is decided in the files beside this one.

use serde::Serialize;

use super::{Channel, ChannelType, Member, Visibility};
use crate::accept::{RelayKey, SlotFacts};
use crate::ids::{ChannelId, Position, UnixSeconds};
use crate::nostr::{Draft, Event, Kind, PubKey, Tag, kinds};

/// The channel's 39000 (CL-ID-1 to CL-ID-11, CL-SYS-4).
pub fn metadata_tags(channel: &Channel) -> Vec<Tag> {
    let mut tags = vec![
        pair("d", &channel.id.to_string()),
        pair("name", &channel.name),
    ];
    push_identity(&mut tags, channel);
    push_text(&mut tags, "about", &channel.about);
    tags.push(match channel.visibility {
        Visibility::Open => bare("public"),
        Visibility::Private => bare("private"),
    });
    if channel.channel_type == ChannelType::System && channel.visibility == Visibility::Private {
        tags.push(bare("hidden"));
    }
    // Nobody is let in on request: an open channel is joined without asking, a private one by invitation.
    tags.push(bare("closed"));
    push_text(&mut tags, "topic", &channel.topic);
    push_text(&mut tags, "purpose", &channel.purpose);
    if channel.archived {
        tags.push(pair("archived", "true"));
    }
    tags.push(pair("created_at", &channel.created_at.to_string()));
    tags
}

/// The channel's 39001: owners and admins in roster order.
pub fn admins_tags(channel: &Channel, roster: &[Member]) -> Vec<Tag> {
    let mut tags = member_list_head(channel);
    let elevated = roster.iter().filter(|member| member.role.is_elevated());
    tags.extend(
        elevated.map(|member| strings(&["p", &member.pubkey.to_string(), member.role.as_str()])),
    );
    tags
}

/// The channel's 39002: every active member in roster order, none left out (B14, S15).
pub fn members_tags(channel: &Channel, roster: &[Member]) -> Vec<Tag> {
    let mut tags = member_list_head(channel);
    tags.extend(
        roster
            .iter()
            .map(|member| strings(&["p", &member.pubkey.to_string(), "", member.role.as_str()])),
    );
    tags
}

/// Signs a state event that is later than the one it replaces (H33).
pub fn signed_state(
    kind: Kind,
    tags: Vec<Tag>,
    clock_secs: UnixSeconds,
    previous: Option<SlotFacts>,
    key: &RelayKey,
) -> Event {
    let created_at = previous.map_or(clock_secs, |stored| clock_secs.max(stored.created_at + 1));
    Draft {
        created_at,
        kind,
        tags,
        content: String::new(),
    }
    .sign(key.secret())
}

/// What a notice tells its recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    /// 44100.
    Added,
    /// 44101.
    Removed,
}

/// A notice to one member or former member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Notice<'a> {
    /// What it tells.
    pub kind: NoticeKind,
    /// Where.
    pub channel: &'a Channel,
    /// Whom.
    pub recipient: PubKey,
    /// Who did it.
    pub actor: PubKey,
    /// The ledger position of the notice. It stands in the content, so that two equal notices of one second are two events
    /// (H33).
    pub position: Position,
}

/// The content of a notice, in the order in which it is written.
#[derive(Serialize)]
struct NoticeContent {
    r#type: &'static str,
    channel_id: ChannelId,
    actor: PubKey,
    position: Position,
}

impl Notice<'_> {
    /// Signs the notice with the channel's type in its `t` tag (CL-NTC-1, CL-NTC-2). It is not older than the recipient's newest
    /// one, so a client that asks `since` its newest misses none (CL-NTC-21).
    pub fn sign(
        &self,
        clock_secs: UnixSeconds,
        newest: Option<UnixSeconds>,
        key: &RelayKey,
    ) -> Event {
        let (kind, name) = match self.kind {
            NoticeKind::Added => (kinds::MEMBER_ADDED, "member_added"),
            NoticeKind::Removed => (kinds::MEMBER_REMOVED, "member_removed"),
        };
        let tags = vec![
            pair("p", &self.recipient.to_string()),
            pair("h", &self.channel.id.to_string()),
            pair("t", self.channel.channel_type.as_str()),
        ];
        let content = NoticeContent {
            r#type: name,
            channel_id: self.channel.id,
            actor: self.actor,
            position: self.position,
        };
        let content =
            serde_json::to_string(&content).expect("strings and numbers always serialise");
        let created_at = newest.map_or(clock_secs, |stored| clock_secs.max(stored));
        Draft {
            created_at,
            kind,
            tags,
            content,
        }
        .sign(key.secret())
    }
}

fn member_list_head(channel: &Channel) -> Vec<Tag> {
    let mut tags = vec![pair("d", &channel.id.to_string())];
    push_identity(&mut tags, channel);
    tags
}

/// The identity block, before any other `t` or `P` (CL-ID-2, CL-ID-3). Without a record of the creator there is no `P` (H31).
fn push_identity(tags: &mut Vec<Tag>, channel: &Channel) {
    tags.push(pair("t", channel.channel_type.as_str()));
    tags.extend(
        channel
            .creator
            .map(|creator| pair("P", &creator.to_string())),
    );
}

fn push_text(tags: &mut Vec<Tag>, name: &str, text: &str) {
    if !text.is_empty() {
        tags.push(pair(name, text));
    }
}

fn strings(elements: &[&str]) -> Tag {
    elements
        .iter()
        .map(|element| (*element).to_owned())
        .collect()
}

fn pair(name: &str, value: &str) -> Tag {
    strings(&[name, value])
}

fn bare(name: &str) -> Tag {
    strings(&[name])
}
