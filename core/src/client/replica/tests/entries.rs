//! What heads, removals and breaches do to the sets.

use super::*;
use crate::artifact::set_digest;
use crate::nostr::{RelayFrame, SubIdText};

#[test]
fn frames_about_subscriptions_are_taken_from_what_the_relay_says() {
    rules!("AR-SYNC-7c");
    let sub = SubId::new("t1").unwrap();
    let read = |text: &str| SyncFrame::of(RelayFrame::parse(text).unwrap());
    let said = format!(r#"["EVENT","t1",{}]"#, head(1, 10).to_json());
    let event = SyncFrame::Event {
        sub: sub.clone(),
        event: head(1, 10),
    };
    assert_eq!(read(&said), Ok(Some(event)));
    assert_eq!(read(r#"["EOSE","t1"]"#), Ok(Some(SyncFrame::Eose { sub })));
    let closed = SyncFrame::Closed {
        sub: "t1".to_owned(),
        message: "resync: x".to_owned(),
    };
    let frame = RelayFrame::Closed {
        sub: SubIdText::new("t1"),
        message: "resync: x".to_owned(),
    };
    assert_eq!(SyncFrame::of(frame), Ok(Some(closed)));
    for other in [
        r#"["NOTICE","x"]"#,
        r#"["AUTH","c"]"#,
        r#"["COUNT","t1",{"count":0}]"#,
    ] {
        assert_eq!(read(other), Ok(None));
    }
    assert!(read(r#"["EVENT","t1",{"id":"x"}]"#).is_err());
}

#[test]
fn the_local_set_is_replaced_at_eose_and_not_before() {
    rules!("AR-SYNC-7a", "AR-SYNC-REQ-20", "AR-DIGEST-9");
    let mut desk = Desk::live(config(), &[head(1, 10), head(2, 20)]);
    let digest = desk.replica.set().unwrap().digest();
    desk.hear_closed("resync: signals");
    desk.wake_when_due();
    for entry in [head(3, 30), head(3, 31), head(1, 11)] {
        assert_eq!(desk.hear_event(entry), []);
        assert_eq!(desk.held(), ids(&[(1, 10), (2, 20)]));
        assert_eq!(
            desk.replica.set().unwrap().digest(),
            digest,
            "no digest of a part"
        );
    }
    assert_eq!(desk.hear_eose(), [Effect::Replaced]);
    assert_eq!(
        desk.held(),
        ids(&[(1, 11), (3, 31)]),
        "2 is gone, 3 has its last head"
    );
    assert_eq!(Desk::new(config()).replica.set(), None);
}

#[test]
fn entries_after_eose_are_applied_as_they_arrive() {
    rules!("AR-SYNC-7c", "AR-SYNC-REQ-20");
    let mut desk = Desk::live(config(), &[head(1, 10)]);
    let upserted = |n, head: Arc<Event>| Effect::Upserted {
        artifact: artifact(n),
        head,
    };
    assert_eq!(desk.hear_event(head(1, 11)), [upserted(1, head(1, 11))]);
    assert_eq!(desk.held(), ids(&[(1, 11)]));
    assert_eq!(desk.hear_event(head(2, 20)), [upserted(2, head(2, 20))]);
    assert_eq!(desk.held(), ids(&[(1, 11), (2, 20)]));
    assert_eq!(desk.hear_event(head(2, 20)), [Effect::Note(Note::SameHead)]);
    assert_eq!(desk.hear_eose(), [Effect::Note(Note::RepeatedEose)]);
    assert_eq!(desk.held(), ids(&[(1, 11), (2, 20)]));
}

#[test]
fn a_head_that_is_a_deletion_or_does_not_match_leaves_the_set() {
    rules!("AR-SYNC-REQ-19");
    let leaving = [
        revision(1, 11, "delete", CHANNEL, "A"),
        revision(1, 11, "update", CHANNEL, "C"),
        revision(1, 11, "move", ELSEWHERE, "A"),
        event(
            11,
            kinds::ARTIFACT,
            &[["d", &artifact(1).to_string()], ["h", CHANNEL]],
        ),
    ];
    for entry in leaving {
        let mut desk = Desk::live(config(), &[head(1, 10), head(2, 20)]);
        assert_eq!(
            desk.hear_event(Arc::clone(&entry)),
            [Effect::Removed {
                artifact: artifact(1)
            }]
        );
        assert_eq!(desk.held(), ids(&[(2, 20)]));
        assert_eq!(
            desk.hear_event(Arc::clone(&entry)),
            [Effect::Note(Note::NothingToRemove)]
        );
        let desk = Desk::live(config(), &[head(1, 10), entry]);
        assert_eq!(desk.held(), ids(&[]), "in an initial set as well");
    }
}

#[test]
fn a_match_is_the_name_and_the_first_value_of_one_tag() {
    rules!("AR-SYNC-REQ-19");
    let with = |further: &[&[&str]]| {
        let mut head = Arc::unwrap_or_clone(revision(1, 11, "update", CHANNEL, "C"));
        let tags = further
            .iter()
            .map(|tag| tag.iter().map(|&part| part.to_owned()).collect());
        head.tags.extend(tags);
        Arc::new(head)
    };
    for (tags, stays) in [
        (&[&["project", "B", "x"][..]][..], true),
        (&[&["project", "x", "B"][..]], false),
        (&[&["Project", "B"][..]], false),
        (&[&["project"][..], &["B"]], false),
    ] {
        let mut desk = Desk::live(config(), &[head(1, 10)]);
        desk.hear_event(with(tags));
        assert_eq!(desk.held() == ids(&[(1, 11)]), stays, "{tags:?}");
    }
}

#[test]
fn a_removal_removes_by_d_whatever_revision_is_held() {
    rules!("AR-SYNC-REQ-23");
    let mut desk = Desk::live(config(), &[head(1, 10), head(2, 20)]);
    assert_eq!(
        desk.hear_event(moved(1)),
        [Effect::Removed {
            artifact: artifact(1)
        }]
    );
    assert_eq!(
        desk.hear_event(moved(1)),
        [Effect::Note(Note::NothingToRemove)]
    );
    assert_eq!(
        desk.hear_event(moved(3)),
        [Effect::Note(Note::NothingToRemove)]
    );
    assert_eq!(desk.held(), ids(&[(2, 20)]));
    desk.hear_event(head(1, 12));
    assert_eq!(desk.held(), ids(&[(1, 12), (2, 20)]), "it may come back");
}

#[test]
fn equal_heads_have_equal_digests_at_every_client() {
    rules!("AR-DIGEST-5", "AR-DIGEST-9");
    let one = Desk::live(config(), &[head(1, 10), head(2, 20), head(3, 30)]);
    let mut other = Desk::live(config(), &[head(2, 19)]);
    for entry in [
        head(3, 30),
        head(1, 9),
        head(2, 20),
        head(4, 40),
        head(1, 10),
        moved(4),
    ] {
        other.hear_event(entry);
    }
    let [one, other] = [&one, &other].map(|desk| desk.replica.set().unwrap());
    assert_eq!(one.digest(), other.digest());
    let part = |set: &LocalSet| {
        let heads: Vec<_> = set
            .iter()
            .take(2)
            .map(|(artifact, head)| (artifact, head.id))
            .collect();
        set_digest(heads)
    };
    assert_eq!(part(one), part(other));
    assert_ne!(part(one), one.digest());
}

#[test]
fn what_a_relay_must_not_send_ends_the_attempt_and_spoils_no_set() {
    rules!("AR-SYNC-7b", "AR-SYNC-8b");
    let odd = |tags: &[[&str; 2]]| event(90, kinds::ARTIFACT, tags);
    let d = artifact(1).to_string();
    let cases = [
        (event(90, 9, &[["d", &d]]), Breach::Kind),
        (odd(&[["h", CHANNEL]]), Breach::NoArtifact),
        (odd(&[["d", "x"]]), Breach::NoArtifact),
        (odd(&[["d", &d], ["d", &d]]), Breach::NoArtifact),
    ];
    for (entry, breach) in cases {
        for is_live in [false, true] {
            let mut desk = Desk::live(config(), &[head(1, 10)]);
            if !is_live {
                desk.hear_closed("resync: signals");
                desk.wake_when_due();
            }
            let sub = desk.sub();
            let effects = desk.hear_event(Arc::clone(&entry));
            let failed = Effect::Failed(Failure::Breach(breach));
            assert_eq!(effects[..2], [Effect::Close { sub }, failed]);
            assert_eq!(desk.held(), ids(&[(1, 10)]));
            request(&desk.wake_when_due());
        }
    }
}

#[test]
fn removals_before_eose_unreadable_frames_and_too_many_artifacts_are_breaches() {
    rules!("AR-SYNC-7b", "AR-SYNC-8b");
    let failed =
        |effects: &[Effect], breach| effects.contains(&Effect::Failed(Failure::Breach(breach)));
    let mut desk = Desk::new(config());
    desk.open(Mode::Follow);
    desk.hear_event(head(1, 10));
    assert!(failed(&desk.hear_event(moved(1)), Breach::EarlyRemoval));
    desk.wake_when_due();
    assert!(failed(&desk.step(Input::Unreadable), Breach::Unreadable));
    assert_eq!(
        desk.step(Input::Unreadable),
        [Effect::Note(Note::NothingRuns)]
    );
    assert_eq!(desk.held(), None);

    for is_live in [false, true] {
        let mut desk = Desk::new(config());
        desk.start(Mode::Follow);
        desk.step(Input::Connected { sync: offer(2) });
        desk.hear_event(head(1, 10));
        desk.hear_event(head(2, 20));
        if is_live {
            desk.hear_eose();
        }
        assert!(
            !failed(&desk.hear_event(head(2, 21)), Breach::TooMany),
            "no more than before"
        );
        assert!(failed(&desk.hear_event(head(3, 30)), Breach::TooMany));
        assert_eq!(
            desk.held(),
            if is_live {
                ids(&[(1, 10), (2, 21)])
            } else {
                None
            }
        );
    }
}
