//! Deletion, restoration, redaction and retention, as far as they decide about later revisions.

use super::desk::{Desk, furnished, home, refusal, room};
use super::{ID_B, Rev, key};
use crate::accept::{Change, Decision};
use crate::nostr::{EventId, kinds};
use crate::rules;

const ONLY_RESTORE: &str =
    "invalid: deleted artifacts require restore; live artifacts cannot restore";

fn created() -> (Desk, EventId) {
    let mut desk = furnished();
    let first = desk.accept(&Rev::new("create").event());
    (desk, first)
}

fn delete(prev: EventId) -> Rev {
    Rev::new("delete").after(prev)
}

#[test]
fn a_deletion_is_a_stored_revision_and_keeps_the_record() {
    rules!("AR-DEL-1", "AR-DEL-4", "AR-DEL-6");
    let (mut desk, first) = created();
    let (author, owner) = (key(2), key(9));
    let deletion = delete(first)
        .attested(&owner, &author, "kind=45010")
        .by(&author);
    desk.accept(&deletion);
    assert_eq!(desk.body(deletion.id).event, deletion);
    assert!(desk.events.contains_key(&first));
    let head = desk.head();
    assert_eq!(
        (head.event, head.home, head.artifact_type.as_str()),
        (deletion.id, home(), "buzz.task")
    );
    assert!(head.deleted && !head.redacted);
    assert_eq!(desk.ledger.last().unwrap().change, Change::Revision);
    let forged = delete(deletion.id)
        .attested(&owner, &key(3), "")
        .by(&author);
    assert_eq!(
        refusal(&desk.decide(&forged)),
        "invalid: unverified artifact auth tag"
    );
}

#[test]
fn a_deletion_keeps_type_home_and_root() {
    rules!("AR-DEL-2");
    let mut desk = furnished();
    let anchor = desk.message(home(), kinds::CHAT);
    let rooted = |rev: Rev| rev.set("root", &anchor.to_string());
    let first = desk.accept(&rooted(Rev::new("create")).event());
    for (rev, text) in [
        (delete(first), "invalid: delete preserves root"),
        (
            delete(first).set("root", ID_B),
            "invalid: delete preserves root",
        ),
        (
            rooted(delete(first)).at(room()),
            "invalid: only move changes home and move must change home",
        ),
        (
            rooted(delete(first)).set("type", "buzz.project"),
            "invalid: artifact type is immutable",
        ),
    ] {
        assert_eq!(refusal(&desk.decide(&rev.event())), text);
    }
    desk.accept(&rooted(delete(first)).event());
    let (mut rootless, first) = created();
    assert_eq!(
        refusal(&rootless.decide(&rooted(delete(first)).event())),
        "invalid: delete preserves root"
    );
    rootless.accept(&delete(first).event());
}

#[test]
fn after_a_deletion_only_restore_is_accepted() {
    rules!("AR-DEL-7", "AR-DEL-12", "AR-DEL-11");
    let (mut desk, first) = created();
    assert_eq!(
        refusal(&desk.decide(&Rev::new("restore").after(first).event())),
        ONLY_RESTORE
    );
    let deletion = desk.accept(&delete(first).event());
    for rev in [
        Rev::new("update"),
        Rev::new("delete"),
        Rev::new("move").at(room()),
    ] {
        assert_eq!(
            refusal(&desk.decide(&rev.after(deletion).event())),
            ONLY_RESTORE
        );
    }
    assert_eq!(
        refusal(&desk.decide(&Rev::new("create").set("title", "Again").event())),
        "conflict: artifact identity is taken"
    );
    let restored = desk.accept(&Rev::new("restore").after(deletion).event());
    assert_eq!(
        refusal(&desk.decide(&Rev::new("restore").after(restored).content("x").event())),
        ONLY_RESTORE
    );
}

#[test]
fn a_restore_brings_a_whole_snapshot_back_to_the_same_home() {
    rules!("AR-DEL-8", "AR-DEL-9", "AR-DEL-10", "AR-ENV-9");
    let (mut desk, first) = created();
    let deletion = desk.accept(&delete(first).event());
    let restore = Rev::new("restore")
        .after(deletion)
        .set("title", "Back")
        .content("whole");
    assert_eq!(
        refusal(&desk.decide(&restore.clone().at(room()).event())),
        "invalid: only move changes home and move must change home"
    );
    assert_eq!(
        refusal(&desk.decide(&restore.clone().without("title").event())),
        "invalid: title must be nonblank and at most 512 UTF-8 bytes"
    );
    assert_eq!(
        refusal(&desk.decide(&restore.clone().after(first).event())),
        "conflict: artifact head changed"
    );
    let restored = desk.accept(&restore.by(&key(2)));
    assert_eq!(desk.body(restored).event.content, "whole");
    assert_eq!((desk.head().event, desk.head().deleted), (restored, false));
}

#[test]
fn redaction_changes_neither_the_head_nor_its_place_in_the_chain() {
    rules!("AR-MOD-6", "AR-MOD-7", "AR-MOD-9");
    let (mut desk, first) = created();
    let second = desk.accept(&Rev::new("update").after(first).event());
    desk.withhold(second);
    assert_eq!(desk.head().event, second);
    // Who does not hold the redacted id learns it from no answer.
    for op in ["create", "update", "delete", "restore"] {
        let rev = if op == "create" {
            Rev::new(op).content("x")
        } else {
            Rev::new(op).after(first).set("op", op)
        };
        let decision = desk.decide(&rev.by(&key(2)));
        assert!(matches!(decision, Decision::Reject(_)));
        assert!(!refusal(&decision).contains(&second.to_string()));
    }
    let third = desk.accept(&Rev::new("update").after(second).content("again").event());
    assert_eq!((desk.head().event, desk.head().redacted), (third, false));
}

#[test]
fn the_chain_needs_no_body() {
    rules!("AR-MOD-13", "AR-DEL-2", "AR-ID-2", "AR-ID-23");
    let mut desk = furnished();
    let anchor = desk.message(home(), kinds::CHAT);
    let rooted = |rev: Rev| rev.set("root", &anchor.to_string());
    let create = rooted(Rev::new("create")).event();
    let first = desk.accept(&create);
    let second = desk.accept(&rooted(Rev::new("update").after(first)).event());
    desk.withhold(second);
    desk.expire();
    assert_eq!(
        desk.decide(&create),
        Decision::Already {
            message: String::new()
        }
    );
    assert_eq!(
        refusal(&desk.decide(&Rev::new("create").content("x").event())),
        "conflict: artifact identity is taken"
    );
    let retyped = rooted(Rev::new("update").after(second).set("type", "buzz.project"));
    assert_eq!(
        refusal(&desk.decide(&retyped.event())),
        "invalid: artifact type is immutable"
    );
    assert_eq!(
        refusal(&desk.decide(&delete(second).event())),
        "invalid: delete preserves root"
    );
    let third = desk.accept(&rooted(Rev::new("update").after(second).content("third")).event());
    desk.accept(&rooted(delete(third)).event());
}
