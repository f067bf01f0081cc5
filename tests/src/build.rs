//! Signed events for tests: keys from small numbers, channel commands, messages and artifact revisions. What a relay makes of
//! them does not belong here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use holdfast_core::ids::{ArtifactId, ChannelId, UnixSeconds, Uuid};
use holdfast_core::nostr::{Draft, Event, EventId, Kind, PubKey, SecretKey, Tag, kinds};
use sha2::{Digest, Sha256};

/// The secret key whose value is `n`, from 1 upwards.
///
/// # Panics
/// For 0.
pub fn key(n: u64) -> SecretKey {
    let mut bytes = [0; 32];
    bytes[24..].copy_from_slice(&n.to_be_bytes());
    SecretKey::from_bytes(bytes).expect("a small number above 0 is a secret key")
}

/// A key that nothing else in this process uses, unless it names a number above a million itself.
pub fn fresh_key() -> SecretKey {
    key(1_000_000 + next_number())
}

/// A channel id that nothing else in this process uses.
pub fn fresh_channel() -> ChannelId {
    ChannelId(fresh_uuid())
}

/// An artifact id that nothing else in this process uses.
pub fn fresh_artifact() -> ArtifactId {
    ArtifactId(fresh_uuid())
}

fn fresh_uuid() -> Uuid {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    bytes[6] = 0x40;
    bytes[8..].copy_from_slice(&next_number().to_be_bytes());
    bytes[8] = 0x80;
    Uuid::from_bytes(bytes).expect("the version is not nil")
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The wall clock in seconds.
pub fn now() -> UnixSeconds {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970")
        .as_secs()
}

/// A tag.
pub fn tag(elements: &[&str]) -> Tag {
    elements.iter().map(|&element| element.to_owned()).collect()
}

/// An event of this second.
pub fn event(key: &SecretKey, kind: Kind, tags: Vec<Tag>, content: &str) -> Event {
    Draft {
        created_at: now(),
        kind,
        tags,
        content: content.to_owned(),
    }
    .sign(key)
}

fn in_channel(channel: ChannelId, further: &[&[&str]]) -> Vec<Tag> {
    let mut tags = vec![tag(&["h", &channel.to_string()])];
    tags.extend(further.iter().map(|elements| tag(elements)));
    tags
}

/// A command. Its content is a number, so that one given twice in one second is two events.
fn command(key: &SecretKey, kind: Kind, tags: Vec<Tag>) -> Event {
    event(key, kind, tags, &next_number().to_string())
}

/// Kind 9: a chat message.
pub fn chat(key: &SecretKey, channel: ChannelId, content: &str) -> Event {
    event(key, kinds::CHAT, in_channel(channel, &[]), content)
}

/// A chat message in reply to another message.
pub fn reply(key: &SecretKey, channel: ChannelId, to: EventId, content: &str) -> Event {
    let to = to.to_string();
    let tags = in_channel(channel, &[&["e", &to, "", "reply"]]);
    event(key, kinds::CHAT, tags, content)
}

/// Kind 9007: creates a channel with this id, a name and further tags.
pub fn create_channel(key: &SecretKey, channel: ChannelId, further: &[&[&str]]) -> Event {
    let mut tags = in_channel(channel, &[&["name", "a channel"]]);
    tags.extend(further.iter().map(|elements| tag(elements)));
    command(key, kinds::GROUP_CREATE, tags)
}

/// Kind 9007: creates a private channel.
pub fn create_private(key: &SecretKey, channel: ChannelId) -> Event {
    create_channel(key, channel, &[&["visibility", "private"]])
}

/// Kind 9002: edits a channel.
pub fn edit_channel(key: &SecretKey, channel: ChannelId, edits: &[&[&str]]) -> Event {
    command(key, kinds::GROUP_EDIT, in_channel(channel, edits))
}

/// Kind 9002: archives or unarchives a channel.
pub fn archive(key: &SecretKey, channel: ChannelId, archived: bool) -> Event {
    let value = if archived { "true" } else { "false" };
    edit_channel(key, channel, &[&["archived", value]])
}

/// Kind 9000: adds a member, or changes a member's role where one is given.
pub fn put_user(key: &SecretKey, channel: ChannelId, who: PubKey, role: Option<&str>) -> Event {
    let who = who.to_string();
    let mut tags = in_channel(channel, &[&["p", &who]]);
    tags.extend(role.map(|role| tag(&["role", role])));
    command(key, kinds::GROUP_PUT_USER, tags)
}

/// Kind 9001: removes a member.
pub fn remove_user(key: &SecretKey, channel: ChannelId, who: PubKey) -> Event {
    let tags = in_channel(channel, &[&["p", &who.to_string()]]);
    command(key, kinds::GROUP_REMOVE_USER, tags)
}

/// Kind 9008: deletes a channel.
pub fn delete_channel(key: &SecretKey, channel: ChannelId) -> Event {
    command(key, kinds::GROUP_DELETE, in_channel(channel, &[]))
}

/// Kind 9021: joins a channel.
pub fn join(key: &SecretKey, channel: ChannelId) -> Event {
    command(key, kinds::GROUP_JOIN, in_channel(channel, &[]))
}

/// Kind 9022: leaves a channel.
pub fn leave(key: &SecretKey, channel: ChannelId) -> Event {
    command(key, kinds::GROUP_LEAVE, in_channel(channel, &[]))
}

/// Kind 9005: removes an event of a channel.
pub fn remove_event(key: &SecretKey, channel: ChannelId, target: EventId) -> Event {
    let tags = in_channel(channel, &[&["e", &target.to_string()]]);
    command(key, kinds::GROUP_DELETE_EVENT, tags)
}

/// Kind 5: asks for the deletion of these events.
pub fn deletion(key: &SecretKey, targets: &[EventId]) -> Event {
    let tags = targets
        .iter()
        .map(|target| tag(&["e", &target.to_string()]))
        .collect();
    event(key, kinds::DELETION, tags, "")
}

/// A NIP-OA tag: the owner's word that `agent` acts for it under these conditions.
pub fn owner_auth(owner: &SecretKey, agent: PubKey, conditions: &str) -> Tag {
    let preimage = format!("nostr:agent-auth:{agent}:{conditions}");
    let sig = owner.sign(&Sha256::digest(preimage).into());
    tag(&[
        "auth",
        &owner.public_key().to_string(),
        conditions,
        &sig.to_string(),
    ])
}

/// An artifact revision that is about to be signed. The fields are written as tags in the order of the struct; a field that is
/// `None` gives no tag. Values may be ill-formed on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// Envelope version.
    pub ar: Option<String>,
    /// Artifact id.
    pub d: Option<String>,
    /// Home channel.
    pub h: Option<String>,
    /// Type.
    pub kind_of: Option<String>,
    /// Title.
    pub title: Option<String>,
    /// Operation.
    pub op: Option<String>,
    /// Conversation anchor.
    pub root: Option<String>,
    /// Previous revision.
    pub prev: Option<String>,
    /// Tags after the envelope.
    pub further: Vec<Tag>,
    /// Content.
    pub content: String,
    /// Seconds since the Unix epoch.
    pub created_at: UnixSeconds,
}

impl Revision {
    /// A create of type `test.note` with a title, no client tags and empty content.
    pub fn create(d: ArtifactId, h: ChannelId) -> Revision {
        Revision {
            ar: Some("1".to_owned()),
            d: Some(d.to_string()),
            h: Some(h.to_string()),
            kind_of: Some("test.note".to_owned()),
            title: Some("a note".to_owned()),
            op: Some("create".to_owned()),
            root: None,
            prev: None,
            further: Vec::new(),
            content: String::new(),
            created_at: now(),
        }
    }

    /// A revision with this `op` on top of `prev` that keeps everything else, client tags and content included.
    fn after(prev: &Event, op: &str) -> Revision {
        let value = |name: &str| prev.first_value(name).map(str::to_owned);
        let envelope = ["ar", "d", "h", "type", "title", "op", "root", "prev"];
        Revision {
            ar: value("ar"),
            d: value("d"),
            h: value("h"),
            kind_of: value("type"),
            title: value("title"),
            op: Some(op.to_owned()),
            root: value("root"),
            prev: Some(prev.id.to_string()),
            further: prev
                .tags
                .iter()
                .filter(|tag| !envelope.contains(&tag[0].as_str()))
                .cloned()
                .collect(),
            content: prev.content.clone(),
            created_at: now(),
        }
    }

    /// An update of `prev` that changes the content to `content`.
    pub fn update(prev: &Event, content: &str) -> Revision {
        Revision::after(prev, "update").content(content)
    }

    /// A move of `prev` into `h`, without a root.
    pub fn move_to(prev: &Event, h: ChannelId) -> Revision {
        Revision::after(prev, "move").home(h).root(None)
    }

    /// A deletion of `prev`: envelope only, no title, no content.
    pub fn delete(prev: &Event) -> Revision {
        let mut revision = Revision::after(prev, "delete").content("");
        revision.title = None;
        revision.further.clear();
        revision
    }

    /// A restore of the deletion `prev` with a title and this content.
    pub fn restore(prev: &Event, content: &str) -> Revision {
        Revision::after(prev, "restore")
            .title("a note, restored")
            .content(content)
    }

    /// With another home.
    pub fn home(mut self, h: ChannelId) -> Revision {
        self.h = Some(h.to_string());
        self
    }

    /// With another type.
    pub fn of_type(mut self, name: &str) -> Revision {
        self.kind_of = Some(name.to_owned());
        self
    }

    /// With another title.
    pub fn title(mut self, title: &str) -> Revision {
        self.title = Some(title.to_owned());
        self
    }

    /// With another root, or none.
    pub fn root(mut self, root: Option<EventId>) -> Revision {
        self.root = root.map(|root| root.to_string());
        self
    }

    /// With another `prev`.
    pub fn prev(mut self, prev: EventId) -> Revision {
        self.prev = Some(prev.to_string());
        self
    }

    /// With one more tag after the envelope.
    pub fn with(mut self, elements: &[&str]) -> Revision {
        self.further.push(tag(elements));
        self
    }

    /// With these tags after the envelope and no others.
    pub fn only_with(mut self, tags: &[&[&str]]) -> Revision {
        self.further = tags.iter().map(|elements| tag(elements)).collect();
        self
    }

    /// With another content.
    pub fn content(mut self, content: &str) -> Revision {
        self.content = content.to_owned();
        self
    }

    /// With another time.
    pub fn at(mut self, created_at: UnixSeconds) -> Revision {
        self.created_at = created_at;
        self
    }

    /// The tags that the revision is signed with.
    pub fn tags(&self) -> Vec<Tag> {
        let envelope = [
            ("ar", &self.ar),
            ("d", &self.d),
            ("h", &self.h),
            ("type", &self.kind_of),
            ("title", &self.title),
            ("op", &self.op),
            ("root", &self.root),
            ("prev", &self.prev),
        ];
        envelope
            .into_iter()
            .filter_map(|(name, value)| value.as_ref().map(|value| tag(&[name, value])))
            .chain(self.further.iter().cloned())
            .collect()
    }

    /// The signed event.
    pub fn sign(&self, key: &SecretKey) -> Event {
        Draft {
            created_at: self.created_at,
            kind: kinds::ARTIFACT,
            tags: self.tags(),
            content: self.content.clone(),
        }
        .sign(key)
    }
}
