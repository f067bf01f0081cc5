//! Channel commands from the sender's answer to the state that the relay signs.

mod any_order;
mod members;
mod notices;
mod removal;
mod settings;
mod state;

use crate::accept::Profile;
use crate::accept::model::{Model, channel_id, pubkey};
use crate::ids::ChannelId;
use crate::nostr::{Event, Tag};

const OWNER: u8 = 1;
const ADMIN: u8 = 2;
const MEMBER: u8 = 3;
const BOT: u8 = 4;
const GUEST: u8 = 5;
const STRANGER: u8 = 6;
const EVERYONE: [u8; 6] = [OWNER, ADMIN, MEMBER, BOT, GUEST, STRANGER];

const NOT_A_MEMBER: &str = "restricted: not a channel member";
const ARCHIVED: &str = "invalid: channel is archived";

/// A workspace with the open channel [`open`], the private one [`private`] and the deleted one [`gone`]; each has an owner, an
/// admin, a member, a bot and a guest.
fn community() -> Model {
    let mut model = Model::new(Profile::Workspace);
    for (channel, visibility) in [(open(), "open"), (private(), "private"), (gone(), "open")] {
        create(&mut model, channel, &[&["visibility", visibility]]);
        for (who, role) in [
            (ADMIN, "admin"),
            (MEMBER, "member"),
            (BOT, "bot"),
            (GUEST, "guest"),
        ] {
            assert_eq!(put(&mut model, OWNER, channel, who, role), done());
        }
    }
    assert_eq!(
        model.send(OWNER, 9008, &[&["h", &gone().to_string()]]),
        done()
    );
    model
}

fn open() -> ChannelId {
    channel_id(1)
}

fn private() -> ChannelId {
    channel_id(2)
}

fn gone() -> ChannelId {
    channel_id(3)
}

/// Creates a channel of the owner with these tags besides its id and name.
fn create(model: &mut Model, channel: ChannelId, tags: &[&[&str]]) {
    let h = channel.to_string();
    let mut all: Vec<&[&str]> = vec![&["name", "general"]];
    let own: [&str; 2] = ["h", &h];
    all.push(&own);
    all.extend(tags);
    assert_eq!(model.send(OWNER, 9007, &all), done());
}

/// 9000 with a role in the `p` tag; an empty role is none.
fn put(
    model: &mut Model,
    by: u8,
    channel: ChannelId,
    target: u8,
    role: &str,
) -> Result<String, String> {
    let (h, p) = (channel.to_string(), pubkey(target).to_string());
    model.send(by, 9000, &[&["h", &h], &["p", &p, role]])
}

/// 9001.
fn remove(model: &mut Model, by: u8, channel: ChannelId, target: u8) -> Result<String, String> {
    let (h, p) = (channel.to_string(), pubkey(target).to_string());
    model.send(by, 9001, &[&["h", &h], &["p", &p]])
}

/// 9002 with one tag.
fn edit(model: &mut Model, by: u8, channel: ChannelId, tag: &[&str]) -> Result<String, String> {
    model.send(by, 9002, &[&["h", &channel.to_string()], tag])
}

/// A command that has only a channel.
fn bare(model: &mut Model, by: u8, kind: u16, channel: ChannelId) -> Result<String, String> {
    model.send(by, kind, &[&["h", &channel.to_string()]])
}

fn done() -> Result<String, String> {
    Ok(String::new())
}

fn refused(text: &str) -> Result<String, String> {
    Err(text.to_owned())
}

fn unchanged(text: &str) -> Result<String, String> {
    Ok(format!("duplicate: {text}"))
}

fn values<'e>(event: &'e Event, name: &'e str) -> Vec<&'e str> {
    event.tag_values(name).collect()
}

fn tags(list: &[&[&str]]) -> Vec<Tag> {
    list.iter()
        .map(|elements| crate::accept::model::tag(elements))
        .collect()
}
