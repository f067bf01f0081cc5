//! Deletion and restoring against a running relay.

use holdfast_tests::build::{self, Revision, fresh_artifact};
use holdfast_tests::lookup::{deletion, live, older, shown};
use holdfast_tests::person::{Person, artifact_of, ids, only};
use holdfast_tests::relay::{Profile, RelayProcess};
use holdfast_tests::rules;
use serde_json::json;

const TAKEN: &str = "conflict: artifact identity is taken";
const CHANGED: &str = "conflict: artifact head changed";
const RESTORE: &str = "invalid: deleted artifacts require restore; live artifacts cannot restore";
const ROOT: &str = "invalid: delete preserves root";

#[tokio::test]
async fn a_deletion_is_a_revision_that_leaves_only_the_views_of_current_state() {
    rules!("AR-DEL-1", "AR-DEL-5", "AR-DEL-6", "AR-CUR-3", "AR-HEAD-4");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let mut eve = Person::arrive(&relay.endpoint()).await;
    let home = ann.private_channel(&[bob.pubkey]).await;
    let create = Revision::create(fresh_artifact(), home)
        .with(&["project", "p"])
        .content("content");
    let first = ann.write(&create).await;
    let stays = ann.artifact(home).await;
    let d = artifact_of(&first);
    let views = [
        json!({"#h": [home]}),
        json!({"#d": [d]}),
        json!({"#project": ["p"]}),
    ];
    for (filter, count) in views.iter().zip([2, 1, 1]) {
        assert_eq!(bob.current_count(filter.clone()).await, count);
    }
    let gone = ann.write(&Revision::delete(&first)).await;
    assert_eq!(gone.content, "");
    assert_eq!(gone.first_value("title"), None);
    for (filter, count) in views.iter().zip([1, 0, 0]) {
        assert_eq!(bob.current_count(filter.clone()).await, count);
        let rows = bob.current(filter.clone()).await;
        assert_eq!(rows.len() as u64, count);
    }
    assert_eq!(bob.current(json!({"#h": [home]})).await, [stays]);
    assert_eq!(shown(&mut bob, &gone).await, deletion());
    assert_eq!(shown(&mut bob, &first).await, older());
    assert_eq!(bob.head(d).await, only(&gone));
    assert_eq!(ids(&bob.history(d).await), ids([&first, &gone]));
    for revision in [&first, &gone] {
        assert_eq!(shown(&mut eve, revision).await, [].into());
    }
    for content in ["x", " "] {
        let full = Revision::delete(&gone).content(content);
        let reason = "invalid: delete must omit title and have empty content";
        assert_eq!(ann.refused(&full).await, reason);
    }
}

#[tokio::test]
async fn a_deletion_keeps_type_home_and_root() {
    rules!("AR-DEL-2", "AR-DEL-3");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let anchor = ann.chat(home, "an anchor").await.id;
    let another = ann.chat(home, "another anchor").await.id;
    let create = Revision::create(fresh_artifact(), home)
        .root(Some(anchor))
        .with(&["project", "p"]);
    let rooted = ann.write(&create).await;
    let bare = ann.artifact(home).await;
    let delete = Revision::delete(&rooted);
    for (wrong, reason) in [
        (delete.clone().root(None), ROOT),
        (delete.clone().root(Some(another)), ROOT),
        (Revision::delete(&bare).root(Some(anchor)), ROOT),
        (
            delete.clone().home(other),
            "invalid: only move changes home and move must change home",
        ),
        (
            delete.clone().of_type("test.other"),
            "invalid: artifact type is immutable",
        ),
        (
            delete.clone().with(&["project", "p"]),
            "invalid: delete allows only envelope and verified auth tags",
        ),
    ] {
        assert_eq!(ann.refused(&wrong).await, reason);
    }
    assert_eq!(shown(&mut ann, &rooted).await, live());
    for whole in [delete, Revision::delete(&bare)] {
        let gone = ann.write(&whole).await;
        assert_eq!(shown(&mut ann, &gone).await, deletion());
    }
}

#[tokio::test]
async fn the_auth_tag_of_a_deletion_is_verified() {
    rules!("AR-DEL-4");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let home = ann.open_channel().await;
    let head = ann.artifact(home).await;
    let owner = build::fresh_key();
    let unverified = "invalid: unverified artifact auth tag";
    let delete = |tags: Vec<Vec<String>>| {
        let mut delete = Revision::delete(&head);
        delete.further = tags;
        delete
    };
    let auth = |conditions: &str| build::owner_auth(&owner, ann.pubkey, conditions);
    let valid = auth("");
    let mut forged = valid.clone();
    forged[3] = "00".repeat(64);
    let for_another = build::owner_auth(&owner, owner.public_key(), "");
    let own = build::owner_auth(&ann.key, ann.pubkey, "");
    let wrong = [
        (vec![forged], unverified),
        (vec![for_another], unverified),
        (vec![own], unverified),
        (vec![auth("created_at<1000")], unverified),
        (vec![valid.clone(), valid.clone()], unverified),
        (vec![valid[..3].to_vec()], unverified),
        (vec![auth("kind=9")], "invalid: artifact auth kind mismatch"),
    ]
    .map(|(tags, reason)| (delete(tags), reason));
    let right = delete(vec![auth("kind=45010")]);
    for (revision, reason) in wrong {
        assert_eq!(
            ann.refused(&revision).await,
            reason,
            "{:?}",
            revision.further
        );
    }
    assert_eq!(ann.head(artifact_of(&head)).await, only(&head));
    let gone = ann.write(&right).await;
    assert_eq!(ann.head(artifact_of(&head)).await, [gone]);
}

#[tokio::test]
async fn only_a_restore_follows_a_deletion() {
    rules!("AR-DEL-7", "AR-DEL-8", "AR-DEL-12", "AR-DRV-14");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let first = ann.artifact(home).await;
    let d = artifact_of(&first);
    let gone = ann.write(&Revision::delete(&first)).await;
    let titled = Revision::restore(&gone, "x");
    let with_op = |op: &str| {
        let mut revision = titled.clone();
        revision.op = Some(op.to_owned());
        revision
    };
    for wrong in [
        with_op("update"),
        with_op("move").home(other),
        Revision::delete(&gone),
    ] {
        assert_eq!(ann.refused(&wrong).await, RESTORE);
    }
    let stale = Revision::restore(&gone, "x").prev(first.id);
    assert_eq!(ann.refused(&stale).await, CHANGED);
    // Neither its creator nor anybody else begins it again: not with the same content, not in another channel, not as
    // another type, and a flow that derives its id finds it taken and the deletion as the head.
    let mut bob = Person::arrive(&relay.endpoint()).await;
    for person in [&mut ann, &mut bob] {
        for again in [
            Revision::create(d, home).content("again"),
            Revision::create(d, other),
            Revision::create(d, home).of_type("test.other"),
        ] {
            assert_eq!(person.refused(&again).await, TAKEN);
        }
        assert_eq!(person.head(d).await, only(&gone));
    }
    assert_eq!(ann.history(d).await.len(), 2);
}

#[tokio::test]
async fn a_restore_brings_the_whole_state_back_into_the_same_home() {
    rules!("AR-DEL-9", "AR-DEL-10", "AR-DEL-11");
    let relay = RelayProcess::start(Profile::Workspace, &[]);
    let mut ann = Person::arrive(&relay.endpoint()).await;
    let mut bob = Person::arrive(&relay.endpoint()).await;
    let (home, other) = (ann.open_channel().await, ann.open_channel().await);
    let first = ann.artifact(home).await;
    let d = artifact_of(&first);
    assert_eq!(ann.refused(&Revision::restore(&first, "x")).await, RESTORE);
    let gone = ann.write(&Revision::delete(&first)).await;
    let elsewhere = Revision::restore(&gone, "x").home(other);
    assert_eq!(
        ann.refused(&elsewhere).await,
        "invalid: only move changes home and move must change home"
    );
    let mut untitled = Revision::restore(&gone, "x");
    untitled.title = None;
    assert_eq!(
        ann.refused(&untitled).await,
        "invalid: title must be nonblank and at most 512 UTF-8 bytes"
    );
    let back = Revision::restore(&gone, "restored").with(&["project", "p"]);
    let back = bob.write(&back).await;
    assert_eq!(shown(&mut ann, &back).await, live());
    assert_eq!(shown(&mut ann, &gone).await, older());
    assert_eq!(bob.current(json!({"#project": ["p"]})).await, only(&back));
    assert_eq!(bob.current_count(json!({"#d": [d]})).await, 1);
    assert_eq!(ann.refused(&Revision::restore(&back, "x")).await, RESTORE);
    let edited = ann.write(&Revision::update(&back, "and edited")).await;
    assert_eq!(ann.head(d).await, [edited]);
}
