//! Every way to ask a relay for one artifact revision, and which of them show it to a person. What a person ought to see is
//! written in the tests.

use std::collections::BTreeSet;

use holdfast_core::nostr::Event;
use serde_json::{Value, json};

use crate::client::End;
use crate::person::{Person, artifact_of, view};

/// The ways that show current artifacts and no deletions.
pub const CURRENT_FORMS: [&str; 3] = ["current", "current by h", "current by d"];
/// The ways that show the current revision, deletions included.
pub const HEAD_FORMS: [&str; 5] = ["head", "REQ by h", "REQ by d", "/query by h", "/query by d"];
/// The ways that show a revision whether it is current or not.
pub const REVISION_FORMS: [&str; 5] = ["history", "REQ by id", "/query by id", "COUNT", "/count"];

/// What shows the current revision of an artifact that is not deleted.
pub fn live() -> BTreeSet<&'static str> {
    CURRENT_FORMS.into_iter().chain(deletion()).collect()
}

/// What shows the deletion of an artifact.
pub fn deletion() -> BTreeSet<&'static str> {
    HEAD_FORMS.into_iter().chain(older()).collect()
}

/// What shows a revision that is not current any more.
pub fn older() -> BTreeSet<&'static str> {
    REVISION_FORMS.into()
}

/// The ways in which this person gets to see the revision. A refusal of a channel that the person cannot read shows nothing.
pub async fn shown(person: &mut Person, revision: &Event) -> BTreeSet<&'static str> {
    let d = artifact_of(revision);
    let h = revision.first_value("h").expect("a revision has a home");
    let by_id = json!({"ids": [revision.id]});
    let by_h = json!({"kinds": [45010], "#h": [h]});
    let by_d = json!({"kinds": [45010], "#d": [d]});
    let artifact_views = [
        ("current", view("current", json!({"limit": 1000}))),
        (
            "current by h",
            view("current", json!({"#h": [h], "limit": 1000})),
        ),
        ("current by d", view("current", json!({"#d": [d]}))),
        ("head", view("head", json!({"#d": [d]}))),
        ("history", view("history", json!({"#d": [d]}))),
        ("/query by h", by_h.clone()),
        ("/query by d", by_d.clone()),
        ("/query by id", by_id.clone()),
    ];
    let mut shown = BTreeSet::new();
    for (form, filter) in artifact_views {
        if person.http.rows(filter).await.contains(revision) {
            shown.insert(form);
        }
    }
    for (form, filter) in [
        ("REQ by h", by_h),
        ("REQ by d", by_d),
        ("REQ by id", by_id.clone()),
    ] {
        if req(person, filter).await.contains(revision) {
            shown.insert(form);
        }
    }
    if person.ws.count(&by_id).await == Ok(1) {
        shown.insert("COUNT");
    }
    if person.http.count(&by_id).await.count() == 1 {
        shown.insert("/count");
    }
    shown
}

async fn req(person: &mut Person, filter: Value) -> Vec<Event> {
    let sub = person.ws.fresh_sub();
    let (events, end) = person.ws.req(&sub, &[filter]).await;
    match end {
        End::Eose => person.ws.close(&sub).await,
        End::Closed(message) => {
            assert_eq!(message, "restricted: not a channel member");
            assert!(events.is_empty(), "a refused subscription shows nothing");
        }
    }
    events
}
