//! One question asked on every read path. What the answer must be belongs to the tests.

use holdfast_core::nostr::{Event, EventId};
use serde_json::Value;

use crate::client::Filters;
use crate::person::{Person, ids};

/// The stored events that match, sorted by id: REQ and `/query` must return the same ones, COUNT and `/count` must count them.
/// Filters with a `limit` are not counted, as counts ignore it.
///
/// # Panics
/// If two paths disagree or one refuses the filters.
pub async fn everywhere(person: &mut Person, filters: &(impl Filters + ?Sized)) -> Vec<Event> {
    let filters = filters.list();
    let mut by_req = person.ws.stored(filters).await;
    let by_query = person.http.query(filters).await.events();
    assert_eq!(
        ids(&by_req),
        ids(&by_query),
        "REQ and /query disagree about {filters:?}"
    );
    if filters.iter().all(|filter| filter.get("limit").is_none()) {
        let stored = by_req.len() as u64;
        let by_count = person.ws.count(filters).await;
        assert_eq!(by_count, Ok(stored), "COUNT disagrees about {filters:?}");
        let by_http = person.http.count(filters).await.count();
        assert_eq!(by_http, stored, "/count disagrees about {filters:?}");
    }
    by_req.sort_by_key(|event| event.id);
    by_req
}

/// The ids of [`everywhere`], sorted.
pub async fn ids_everywhere(
    person: &mut Person,
    filters: &(impl Filters + ?Sized),
) -> Vec<EventId> {
    ids(&everywhere(person, filters).await)
}

/// The channels that the state events of [`everywhere`] are about, sorted by id, each as often as it occurs.
///
/// # Panics
/// If an event has no `d`.
pub async fn channels_everywhere(
    person: &mut Person,
    filters: &(impl Filters + ?Sized),
) -> Vec<String> {
    let mut channels: Vec<String> = everywhere(person, filters)
        .await
        .iter()
        .map(|event| {
            let d = event.first_value("d");
            d.expect("channel state names its channel").to_owned()
        })
        .collect();
    channels.sort();
    channels
}

/// A filter with the keys of another one added.
///
/// # Panics
/// If one of them is no object.
pub fn with(mut filter: Value, more: &Value) -> Value {
    let keys = more.as_object().expect("a filter is an object").clone();
    filter
        .as_object_mut()
        .expect("a filter is an object")
        .extend(keys);
    filter
}
