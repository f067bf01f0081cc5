//! Tests of this room, written from the rules. This file builds the revisions they share.

mod access;
mod chain;
mod deleting;
mod derive_digest;
mod desk;
mod disclosure;
mod ensure;
mod envelope;
mod identity;
mod moving;
mod planning;

use crate::accept::model::BEGIN_SECS;
use crate::ids::ChannelId;
use crate::nostr::{Draft, Event, EventId, SecretKey, Tag, kinds, oa};

pub(super) use crate::accept::model::key;

pub(super) const ARTIFACT: &str = "04737c81-e5e8-4412-bb47-f446813cfeba";
pub(super) const HOME: &str = "9b353519-f4fe-4757-aef4-bec6cc0ae54c";
pub(super) const ID_A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
pub(super) const ID_B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
pub(super) const OPS: [&str; 5] = ["create", "update", "move", "delete", "restore"];

/// The time all revisions of these tests are signed at, unless they say otherwise.
pub(super) const SIGNED_AT: u64 = BEGIN_SECS;

/// A revision to be signed. It begins valid; tests then spoil it.
#[derive(Clone, Debug)]
pub(super) struct Rev {
    pub(super) tags: Vec<Tag>,
    pub(super) content: String,
    pub(super) created_at: u64,
}

impl Rev {
    /// A valid revision with this op; later ones follow [`ID_A`].
    pub(super) fn new(op: &str) -> Rev {
        let mut rev = Rev {
            tags: Vec::new(),
            content: String::new(),
            created_at: SIGNED_AT,
        };
        for (name, value) in [
            ("ar", "1"),
            ("d", ARTIFACT),
            ("h", HOME),
            ("type", "buzz.task"),
            ("op", op),
        ] {
            rev = rev.set(name, value);
        }
        if op != "delete" {
            rev = rev.set("title", "Fix the payment timeout");
            rev.content = "{\"status\":\"open\"}".to_owned();
        }
        if op == "create" {
            rev
        } else {
            rev.set("prev", ID_A)
        }
    }

    /// Gives the first tag of this name exactly this value, or appends one.
    pub(super) fn set(mut self, name: &str, value: &str) -> Rev {
        let tag = vec![name.to_owned(), value.to_owned()];
        match self.tags.iter_mut().find(|tag| tag[0] == name) {
            Some(old) => *old = tag,
            None => self.tags.push(tag),
        }
        self
    }

    /// Names the revision it follows.
    pub(super) fn after(self, prev: EventId) -> Rev {
        self.set("prev", &prev.to_string())
    }

    /// Names another home.
    pub(super) fn at(self, home: ChannelId) -> Rev {
        self.set("h", &home.to_string())
    }

    /// Takes away every tag of this name.
    pub(super) fn without(mut self, name: &str) -> Rev {
        self.tags.retain(|tag| tag[0] != name);
        self
    }

    /// Appends a tag.
    pub(super) fn push(mut self, tag: &[&str]) -> Rev {
        self.tags
            .push(tag.iter().map(|&element| element.to_owned()).collect());
        self
    }

    /// Appends the attestation by which `owner` vouches for `agent` under these conditions.
    pub(super) fn attested(self, owner: &SecretKey, agent: &SecretKey, conditions: &str) -> Rev {
        let sig = owner.sign(&oa::signed_message(&agent.public_key(), conditions));
        self.push(&[
            "auth",
            &owner.public_key().to_string(),
            conditions,
            &sig.to_string(),
        ])
    }

    /// Replaces the content.
    pub(super) fn content(mut self, content: &str) -> Rev {
        self.content = content.to_owned();
        self
    }

    /// The event, signed by this key.
    pub(super) fn by(&self, author: &SecretKey) -> Event {
        let Rev {
            tags,
            content,
            created_at,
        } = self.clone();
        Draft {
            created_at,
            kind: kinds::ARTIFACT,
            tags,
            content,
        }
        .sign(author)
    }

    /// The event, signed by the first key.
    pub(super) fn event(&self) -> Event {
        self.by(&key(1))
    }
}
