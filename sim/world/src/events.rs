//! Events of simulated people: true ids, no signatures, since signatures are checked before anything that is simulated here.
//! What a relay makes of them does not belong here.

use holdfast_core::ids::{ArtifactId, ChannelId, UnixSeconds, Uuid};
use holdfast_core::nostr::{Event, EventId, Kind, PubKey, Signature, Tag, kinds};

/// The key of person `n`, from 1 upwards.
pub fn person(n: u8) -> PubKey {
    PubKey::from_bytes([n; 32])
}

/// A UUID of version 8 named by a sort and a number; sorts and numbers keep their order.
fn numbered(sort: u8, n: u32) -> Uuid {
    let mut hash = [0u8; 32];
    hash[0] = sort;
    hash[2..6].copy_from_slice(&n.to_be_bytes());
    Uuid::from_hash(&hash)
}

/// Channel number `n`.
pub fn channel(n: u32) -> ChannelId {
    ChannelId(numbered(0xc0, n))
}

/// Artifact number `n`.
pub fn artifact(n: u32) -> ArtifactId {
    ArtifactId(numbered(0xa0, n))
}

/// A tag.
pub fn tag(elements: &[&str]) -> Tag {
    elements
        .iter()
        .map(|element| (*element).to_owned())
        .collect()
}

/// An event with its true id.
pub fn event(
    author: PubKey,
    created_at: UnixSeconds,
    kind: Kind,
    tags: Vec<Tag>,
    content: String,
) -> Event {
    let mut event = Event {
        id: EventId::from_bytes([0; 32]),
        pubkey: author,
        created_at,
        kind,
        tags,
        content,
        sig: Signature::from_bytes([0; 64]),
    };
    event.id = event.compute_id();
    event
}

/// A group command of one channel; `serial` makes it unlike every other.
pub fn command(
    author: PubKey,
    created_at: UnixSeconds,
    kind: Kind,
    channel: ChannelId,
    further: Vec<Tag>,
    serial: u64,
) -> Event {
    let mut tags = vec![tag(&["h", &channel.to_string()])];
    tags.extend(further);
    event(author, created_at, kind, tags, serial.to_string())
}

/// The proof of a key for a connection.
pub fn auth(author: PubKey, created_at: UnixSeconds, relay: &str, challenge: &str) -> Event {
    let tags = vec![tag(&["relay", relay]), tag(&["challenge", challenge])];
    event(author, created_at, kinds::AUTH, tags, String::new())
}

/// What a revision says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision {
    /// The artifact.
    pub artifact: ArtifactId,
    /// The channel it names.
    pub home: ChannelId,
    /// The operation.
    pub op: &'static str,
    /// The revision it replaces.
    pub prev: Option<EventId>,
    /// Value of the tag that syncs filter by; a deletion has none.
    pub status: Option<String>,
}

/// Type of every simulated artifact.
pub const TYPE: &str = "sim.note";
/// Name of the tag that syncs filter by.
pub const STATUS: &str = "status";

impl Revision {
    /// The event; `serial` makes it unlike every other.
    pub fn event(&self, author: PubKey, created_at: UnixSeconds, serial: u64) -> Event {
        let mut tags = vec![
            tag(&["ar", "1"]),
            tag(&["d", &self.artifact.to_string()]),
            tag(&["h", &self.home.to_string()]),
            tag(&["type", TYPE]),
        ];
        if self.op != "delete" {
            tags.push(tag(&["title", "a note"]));
        }
        tags.push(tag(&["op", self.op]));
        tags.extend(self.prev.map(|prev| tag(&["prev", &prev.to_string()])));
        if self.op != "delete" {
            // A second tag of the same name, whose value decoys a filter that looks at more than first values.
            tags.extend(
                self.status
                    .iter()
                    .map(|status| tag(&[STATUS, status, "decoy"])),
            );
        }
        let content = if self.op == "delete" {
            String::new()
        } else {
            serial.to_string()
        };
        // A deletion has no content to be unlike by, so its time is.
        event(author, created_at, kinds::ARTIFACT, tags, content)
    }
}
