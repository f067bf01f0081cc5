//! A person in a test: one key with a WebSocket connection and an HTTP caller on one relay, and the steps that most tests need.
//! What must be refused, and why, is written in the tests.

use holdfast_core::ids::{ArtifactId, ChannelId};
use holdfast_core::nostr::{Event, EventId, PubKey, SecretKey};
use serde_json::{Value, json};

use crate::build::{self, Revision};
use crate::client::{Client, Endpoint, Verdict};
use crate::http::Caller;

/// One key that is logged in.
pub struct Person {
    /// The secret key.
    pub key: SecretKey,
    /// The public key.
    pub pubkey: PubKey,
    /// The connection, authenticated.
    pub ws: Client,
    /// The same key over HTTP.
    pub http: Caller,
}

impl Person {
    /// A new key that logs in.
    pub async fn arrive(endpoint: &Endpoint) -> Person {
        Person::with_key(endpoint, build::fresh_key()).await
    }

    /// This key logs in.
    ///
    /// # Panics
    /// If the relay refuses it.
    pub async fn with_key(endpoint: &Endpoint, key: SecretKey) -> Person {
        Person {
            pubkey: key.public_key(),
            ws: Client::login(endpoint, &key).await,
            http: Caller::new(endpoint, &key),
            key,
        }
    }

    /// Creates an open channel.
    ///
    /// # Panics
    /// If the relay refuses it, as all these steps do.
    pub async fn open_channel(&mut self) -> ChannelId {
        let channel = build::fresh_channel();
        let event = build::create_channel(&self.key, channel, &[]);
        self.ws.accept(event).await;
        channel
    }

    /// Creates a private channel with these members.
    pub async fn private_channel(&mut self, members: &[PubKey]) -> ChannelId {
        let channel = build::fresh_channel();
        let event = build::create_private(&self.key, channel);
        self.ws.accept(event).await;
        for &member in members {
            self.add(channel, member, None).await;
        }
        channel
    }

    /// Adds a member, or changes a member's role where one is given.
    pub async fn add(&mut self, channel: ChannelId, who: PubKey, role: Option<&str>) {
        let event = build::put_user(&self.key, channel, who, role);
        self.ws.accept(event).await;
    }

    /// Removes a member.
    pub async fn remove(&mut self, channel: ChannelId, who: PubKey) {
        let event = build::remove_user(&self.key, channel, who);
        self.ws.accept(event).await;
    }

    /// Posts a chat message.
    pub async fn chat(&mut self, channel: ChannelId, content: &str) -> Event {
        let event = build::chat(&self.key, channel, content);
        self.ws.accept(event).await
    }

    /// Writes a revision that must be accepted.
    #[track_caller]
    pub fn write(&mut self, revision: &Revision) -> impl Future<Output = Event> {
        let event = revision.sign(&self.key);
        self.ws.accept(event)
    }

    /// Writes a revision that must be refused, and returns the reason.
    #[track_caller]
    pub fn refused(&mut self, revision: &Revision) -> impl Future<Output = String> {
        let event = revision.sign(&self.key);
        self.ws.refuse(event)
    }

    /// Writes a revision, whatever the relay says.
    pub async fn try_write(&mut self, revision: &Revision) -> Verdict {
        let event = revision.sign(&self.key);
        self.ws.publish(&event).await
    }

    /// Creates an artifact of the plain form of [`Revision::create`].
    pub async fn artifact(&mut self, home: ChannelId) -> Event {
        self.write(&Revision::create(build::fresh_artifact(), home))
            .await
    }

    /// `/query` of current artifacts with these further keys of the filter.
    pub async fn current(&self, filter: Value) -> Vec<Event> {
        self.http.rows(view("current", filter)).await
    }

    /// `/count` of current artifacts with these further keys of the filter.
    pub async fn current_count(&self, filter: Value) -> u64 {
        self.http.count(&[view("current", filter)]).await.count()
    }

    /// `/query` of the head of one artifact.
    pub async fn head(&self, d: ArtifactId) -> Vec<Event> {
        self.http.rows(view("head", json!({"#d": [d]}))).await
    }

    /// `/query` of the history of one artifact.
    pub async fn history(&self, d: ArtifactId) -> Vec<Event> {
        self.http.rows(view("history", json!({"#d": [d]}))).await
    }
}

/// A filter with the key `artifact` added.
///
/// # Panics
/// If `filter` is no object.
pub fn view(name: &str, mut filter: Value) -> Value {
    filter
        .as_object_mut()
        .expect("a filter is an object")
        .insert("artifact".to_owned(), json!(name));
    filter
}

/// The artifact a revision is of.
///
/// # Panics
/// If the event has no `d` of an artifact.
pub fn artifact_of(revision: &Event) -> ArtifactId {
    revision
        .first_value("d")
        .and_then(|d| d.parse().ok())
        .expect("a revision names its artifact")
}

/// The ids of events, sorted, for comparisons that do not look at the order.
pub fn ids<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<EventId> {
    let mut ids: Vec<EventId> = events.into_iter().map(|event| event.id).collect();
    ids.sort();
    ids
}

/// A list of this one event, for comparisons with an answer.
pub fn only(event: &Event) -> &[Event] {
    std::slice::from_ref(event)
}
