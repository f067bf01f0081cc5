//! What a channel command asks for, read from its tags alone. Whether the sender may have it is decided in the files beside
//! this one.

use sha2::{Digest, Sha256};

use super::{ChannelType, Role, Visibility};
use crate::accept::Rejection;
use crate::accept::gate::{self, Place};
use crate::ids::{ChannelId, Uuid};
use crate::limits;
use crate::nostr::{Event, EventId, PubKey, Tag, kinds};

/// Characters of a sender's own value that a refusal repeats.
const SHOWN_CHARS_MAX: usize = 64;
/// Tags that speak of settings this relay does not have; to ignore one would let its sender believe it was obeyed.
const UNSUPPORTED_SETTINGS: [&str; 18] = [
    "t",
    "ttl",
    "unlisted",
    "auto_join",
    "picture",
    "banner",
    "private",
    "public",
    "open",
    "closed",
    "restricted",
    "unrestricted",
    "hidden",
    "livekit",
    "no-text",
    "supported_kinds",
    "parent",
    "child",
];

/// One channel command (kinds 9000, 9001, 9002, 9005, 9007, 9008, 9021, 9022).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command {
    /// The channel; none when the `h` tag names one that cannot exist, which is answered like one that does not exist.
    pub channel: Option<ChannelId>,
    /// What shall happen to it.
    pub action: Action,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// 9000: adds a member or changes a role.
    PutUser {
        /// Whom.
        target: PubKey,
        /// As what; absent: the role the target has, or member.
        role: Option<Role>,
    },
    /// 9001: removes a member.
    RemoveUser {
        /// Whom.
        target: PubKey,
    },
    /// 9002: changes settings.
    Edit(Settings),
    /// 9005: removes one event.
    RemoveEvent {
        /// Which.
        target: EventId,
    },
    /// 9007: creates the channel.
    Create {
        /// Its type for ever (CL-NTC-3); system channels are private unless said otherwise (CL-SYS-2).
        channel_type: ChannelType,
        /// The rest; `name` is present.
        settings: Settings,
    },
    /// 9008: deletes the channel.
    Delete,
    /// 9021: the sender joins.
    Join,
    /// 9022: the sender leaves.
    Leave,
}

/// The settings that a command names; absent ones stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Settings {
    /// Display name, stripped of leading `#` and spaces, not empty.
    pub name: Option<String>,
    /// Description.
    pub about: Option<String>,
    /// Topic.
    pub topic: Option<String>,
    /// Purpose.
    pub purpose: Option<String>,
    /// Who may read without membership.
    pub visibility: Option<Visibility>,
    /// Whether writes are refused; never present on a creation.
    pub archived: Option<bool>,
}

impl Command {
    /// Reads a command. `event` is of one of the command kinds.
    ///
    /// # Errors
    /// What is wrong with the tags, or a setting this relay does not have; a store has no part in it.
    pub fn parse(event: &Event) -> Result<Command, Rejection> {
        if event.kind == kinds::GROUP_CREATE {
            return parse_creation(event);
        }
        let channel = match gate::place(event)? {
            Place::Channel(channel) => Some(channel),
            Place::Nowhere => None,
            Place::Global if event.kind == kinds::GROUP_JOIN => {
                return Err(invalid("join request must include an h tag"));
            }
            Place::Global => return Err(gate::missing_channel()),
        };
        let action = match event.kind {
            kinds::GROUP_PUT_USER => Action::PutUser {
                target: target_key(event)?,
                role: wanted_role(event)?,
            },
            kinds::GROUP_REMOVE_USER => Action::RemoveUser {
                target: target_key(event)?,
            },
            kinds::GROUP_EDIT => Action::Edit(parse_edit(event)?),
            kinds::GROUP_DELETE_EVENT => Action::RemoveEvent {
                target: target_event(event)?,
            },
            kinds::GROUP_DELETE => Action::Delete,
            kinds::GROUP_JOIN => Action::Join,
            kinds::GROUP_LEAVE => Action::Leave,
            other => return Err(invalid(&format!("not supported: kind {other}"))),
        };
        Ok(Command { channel, action })
    }
}

/// The id of a channel whose creator named none. It depends on the creating event alone, so a repeated decision gives the
/// same channel.
pub fn derived_channel_id(creation: EventId) -> ChannelId {
    let mut hasher = Sha256::new();
    hasher.update(b"holdfast-channel-id\0");
    hasher.update(creation.as_bytes());
    ChannelId(Uuid::from_hash(&hasher.finalize().into()))
}

/// A refusal of the event itself.
pub(super) fn invalid(reason: &str) -> Rejection {
    Rejection::Invalid(format!("invalid: {reason}"))
}

fn shown(value: &str) -> String {
    value.chars().take(SHOWN_CHARS_MAX).collect()
}

fn parse_creation(event: &Event) -> Result<Command, Rejection> {
    let channel = match gate::place(event)? {
        Place::Channel(channel) => channel,
        Place::Global => derived_channel_id(event.id),
        Place::Nowhere => return Err(invalid("h must be a canonical lowercase UUID")),
    };
    refuse_unsupported(event)?;
    if single(event, "archived")?.is_some() {
        return Err(invalid("not supported: archived tag on kind:9007"));
    }
    let channel_type = match single(event, "channel_type")? {
        None => ChannelType::Stream,
        Some("dm") => return Err(invalid("not supported: channel_type dm")),
        Some(name) => match ChannelType::from_stored(name) {
            ChannelType::Later(name) => {
                return Err(invalid(&format!("invalid channel_type: {}", shown(&name))));
            }
            known => known,
        },
    };
    let settings = Settings {
        visibility: visibility(event, |value| format!("invalid visibility: {value}"))?,
        ..texts(event)?
    };
    if settings.name.is_none() {
        return Err(invalid("channel name is required"));
    }
    Ok(Command {
        channel: Some(channel),
        action: Action::Create {
            channel_type,
            settings,
        },
    })
}

fn parse_edit(event: &Event) -> Result<Settings, Rejection> {
    refuse_unsupported(event)?;
    if event.tags_named("channel_type").next().is_some() {
        return Err(invalid("not supported: channel_type tag on kind:9002"));
    }
    let archived = match single(event, "archived")? {
        None => None,
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(other) => {
            let text = shown(other);
            return Err(invalid(&format!(
                "invalid archived value: {text} (must be \"true\" or \"false\")"
            )));
        }
    };
    let settings = Settings {
        visibility: visibility(event, |value| {
            format!("invalid visibility value: {value} (must be \"open\" or \"private\")")
        })?,
        archived,
        ..texts(event)?
    };
    if settings == Settings::default() {
        return Err(invalid(
            "kind:9002 must include at least one metadata tag (name, about, topic, purpose, visibility, archived)",
        ));
    }
    Ok(settings)
}

fn refuse_unsupported(event: &Event) -> Result<(), Rejection> {
    let asked = |name: &&&str| event.tags_named(name).next().is_some();
    match UNSUPPORTED_SETTINGS.iter().find(asked) {
        Some(name) => Err(invalid(&format!(
            "not supported: {name} tag on kind:{}",
            event.kind
        ))),
        None => Ok(()),
    }
}

/// The value of a setting that may be named once; a tag without a value is the empty string.
fn single<'e>(event: &'e Event, name: &'e str) -> Result<Option<&'e str>, Rejection> {
    let mut tags = event.tags_named(name);
    let first = tags.next();
    if tags.next().is_some() {
        return Err(invalid(&format!("more than one {name} tag")));
    }
    Ok(first.map(|tag| tag.get(1).map_or("", String::as_str)))
}

/// The settings that are free text.
fn texts(event: &Event) -> Result<Settings, Rejection> {
    let name = match single(event, "name")? {
        None => None,
        Some(raw) => {
            let name = raw
                .trim_start_matches(|c: char| c == '#' || c.is_whitespace())
                .trim_end();
            if name.is_empty() {
                return Err(invalid("channel name is required"));
            }
            Some(bounded("name", name, limits::CHANNEL_NAME_BYTES_MAX)?)
        }
    };
    let text = |label: &'static str| match single(event, label)? {
        None => Ok(None),
        Some(value) => bounded(label, value, limits::CHANNEL_TEXT_BYTES_MAX).map(Some),
    };
    Ok(Settings {
        name,
        about: text("about")?,
        topic: text("topic")?,
        purpose: text("purpose")?,
        visibility: None,
        archived: None,
    })
}

fn bounded(label: &str, value: &str, bytes_max: usize) -> Result<String, Rejection> {
    if value.len() > bytes_max {
        return Err(invalid(&format!("{label} exceeds {bytes_max} bytes")));
    }
    Ok(value.to_owned())
}

fn visibility(
    event: &Event,
    refusal: impl FnOnce(String) -> String,
) -> Result<Option<Visibility>, Rejection> {
    match single(event, "visibility")? {
        None => Ok(None),
        Some(value) => match value.parse() {
            Ok(visibility) => Ok(Some(visibility)),
            Err(()) => Err(invalid(&refusal(shown(value)))),
        },
    }
}

fn only_p_tag(event: &Event) -> Result<&Tag, Rejection> {
    let mut tags = event.tags_named("p");
    match (tags.next(), tags.next()) {
        (None, _) => Err(invalid("missing p tag")),
        (Some(_), Some(_)) => Err(invalid("not supported: more than one p tag")),
        (Some(tag), None) => Ok(tag),
    }
}

fn target_key(event: &Event) -> Result<PubKey, Rejection> {
    let value = only_p_tag(event)?
        .get(1)
        .ok_or_else(|| invalid("missing p tag"))?;
    value
        .parse()
        .map_err(|_| invalid("p tag must name a public key in 64 lowercase hex characters"))
}

/// The role from the third element of `p` (NIP-29) or from a `role` tag; when both are there they agree.
fn wanted_role(event: &Event) -> Result<Option<Role>, Rejection> {
    let read = |text: &str| {
        text.parse::<Role>()
            .map_err(|()| invalid(&format!("invalid role: {}", shown(text))))
    };
    let in_p = match only_p_tag(event)?.get(2).map(String::as_str) {
        None | Some("") => None,
        Some(text) => Some(read(text)?),
    };
    let in_tag = single(event, "role")?.map(read).transpose()?;
    match (in_p, in_tag) {
        (Some(a), Some(b)) if a != b => {
            Err(invalid("the role in the p tag and the role tag differ"))
        }
        (in_p, in_tag) => Ok(in_p.or(in_tag)),
    }
}

fn target_event(event: &Event) -> Result<EventId, Rejection> {
    let (e_tags, a_tags) = (event.tags_named("e").count(), event.tags_named("a").count());
    if e_tags + a_tags != 1 {
        return Err(invalid(&format!(
            "deletion events must reference exactly one target via e or a tag (got e={e_tags}, a={a_tags})"
        )));
    }
    let id = event
        .first_value("e")
        .ok_or_else(|| invalid("missing e tag for target event"))?;
    id.parse()
        .map_err(|_| invalid("e tag must name an event in 64 lowercase hex characters"))
}
