//! When ensure has nothing left to do.

use super::{ID_B, Rev, key};
use crate::artifact::same_content_and_tags;
use crate::rules;

const ELSEWHERE: &str = "22222222-2222-4222-8222-222222222222";

fn wanted() -> Rev {
    Rev::new("create")
        .set("root", ID_B)
        .push(&["project", "p1", "note"])
        .push(&["label", "a"])
        .push(&["label", "b"])
}

/// The same record as an update by someone else.
fn head() -> Rev {
    Rev {
        tags: wanted().tags,
        ..Rev::new("update")
    }
    .set("op", "update")
    .set("prev", ID_B)
}

#[test]
fn a_head_with_the_same_content_and_tags_needs_nothing() {
    rules!("AR-DRV-10");
    let create = wanted().event();
    let authless = head();
    let attested = head().push(&["auth", "owner", "", "signature"]);
    let mut reordered_envelope = head();
    reordered_envelope
        .tags
        .sort_by_key(|tag| !matches!(tag[0].as_str(), "title" | "type"));
    for rev in [wanted(), authless, attested, reordered_envelope] {
        assert!(same_content_and_tags(&rev.by(&key(2)), &create), "{rev:?}");
    }
}

#[test]
fn a_moved_head_keeps_its_home_and_root() {
    rules!("AR-DRV-10");
    let create = wanted().event();
    for moved in [
        head().set("h", ELSEWHERE).without("root"),
        head().set("h", ELSEWHERE).set("root", super::ID_A),
    ] {
        assert!(same_content_and_tags(&moved.event(), &create));
        assert!(!same_content_and_tags(
            &moved.clone().content("else").event(),
            &create
        ));
    }
    assert!(
        !same_content_and_tags(&head().without("root").event(), &create),
        "not moved, so the root counts"
    );
}

#[test]
fn any_other_difference_is_one() {
    rules!("AR-DRV-10");
    let create = wanted().event();
    let mut swapped = head();
    let labels = swapped
        .tags
        .iter()
        .position(|tag| tag[0] == "label")
        .unwrap();
    swapped.tags.swap(labels, labels + 1);
    for rev in [
        head().content("{\"status\":\"done\"}"),
        head().set("title", "Another title"),
        head().set("type", "buzz.project"),
        head().set("d", ELSEWHERE),
        head().set("root", super::ID_A),
        head().without("project"),
        head().set("project", "p1"),
        head().push(&["label", "c"]),
        head().without("label").push(&["label", "a"]),
        swapped,
        Rev::new("delete").set("root", ID_B),
    ] {
        assert!(!same_content_and_tags(&rev.event(), &create), "{rev:?}");
    }
}
