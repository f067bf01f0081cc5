//! How attempts begin, fail and follow one another.

use super::*;

#[test]
fn a_set_asked_for_once_is_req_eose_close() {
    rules!("AR-SYNC-ONE-1", "AR-SYNC-ONE-3");
    let mut desk = Desk::new(config());
    let sub = desk.open(Mode::Once);
    let req = Effect::Req {
        sub: sub.clone(),
        filter: Arc::new(filter()),
    };
    let text = format!(r#"["REQ","{sub}",{}]"#, filter().to_json());
    assert_eq!(req.frame_text(), Some(text), "the same request as any sync");
    desk.hear_event(head(1, 10));
    assert_eq!(
        desk.hear_eose(),
        [
            Effect::Replaced,
            Effect::Close { sub: sub.clone() },
            Effect::Done(Outcome::Complete)
        ]
    );
    assert_eq!(
        Effect::Close { sub: sub.clone() }.frame_text(),
        Some(format!(r#"["CLOSE","{sub}"]"#))
    );
    let late = Input::Heard(SyncFrame::Event {
        sub,
        event: head(1, 11),
    });
    assert_eq!(desk.step(late), [Effect::Note(Note::UnknownSub)]);
    assert_eq!(
        desk.held(),
        ids(&[(1, 10)]),
        "changes after the cut are not seen"
    );
    assert_eq!(desk.replica.next_wakeup(), None);
}

#[test]
fn resync_waits_and_asks_for_the_whole_set_again() {
    rules!("AR-SYNC-REQ-25", "AR-SYNC-7d", "AR-SYNC-7e");
    let mut desk = Desk::live(config(), &[head(1, 10)]);
    let first = desk.sub();
    let effects = desk.hear_closed("resync: signals");
    let failure = Failure::Resync("signals".to_owned());
    let Some(Effect::RetryAt { at_mono_ms }) = effects.last() else {
        panic!("a retry: {effects:?}");
    };
    assert_eq!(
        effects[..2],
        [Effect::Failed(failure.clone()), Effect::Stale]
    );
    let (least, greatest) = config().backoff.range_ms(1);
    assert!((desk.now_ms + least..=desk.now_ms + greatest).contains(at_mono_ms));
    assert_eq!(desk.replica.stale(), Some(&failure));

    desk.now_ms = at_mono_ms - 1;
    assert_eq!(
        desk.wake(),
        [Effect::Note(Note::EarlyWake)],
        "not before its time"
    );
    let effects = desk.wake_when_due();
    let second = request(&effects);
    assert_ne!(second, first);
    let filter = Arc::new(filter());
    assert_eq!(
        effects,
        [Effect::Req {
            sub: second,
            filter
        }],
        "no cursor, no part"
    );
    assert_eq!(desk.held(), ids(&[(1, 10)]));
    assert_eq!(desk.hear_eose(), [Effect::Replaced]);
    assert_eq!(desk.held(), ids(&[]));
    assert_eq!(desk.replica.stale(), None);
}

#[test]
fn a_lost_connection_is_a_new_sync_wherever_it_is_lost() {
    rules!("AR-SYNC-5j", "AR-SYNC-7b", "AR-SYNC-7d", "AR-SYNC-8b");
    for received in 0..4 {
        for is_live in [false, true] {
            let mut desk = Desk::live(config(), &[head(1, 10), head(2, 20)]);
            if !is_live {
                desk.hear_closed("resync: backlog");
                desk.wake_when_due();
                for n in 0..received {
                    desk.hear_event(head(n, 30 + n));
                }
            }
            let old = desk.sub();
            let effects = desk.step(Input::Disconnected);
            assert_eq!(effects[0], Effect::Failed(Failure::Disconnected));
            assert_eq!(
                desk.held(),
                ids(&[(1, 10), (2, 20)]),
                "what was received is dropped"
            );
            assert!(desk.replica.stale().is_some());
            assert_eq!(desk.wake_when_due(), [Effect::Connect]);
            let new = desk.connect();
            assert_ne!(new, old);
            assert_eq!(desk.replica.received(), Some(0));
        }
    }
}

#[test]
fn an_error_keeps_the_last_complete_set_and_says_that_it_may_be_stale() {
    rules!("AR-SYNC-REQ-28", "AR-SYNC-8b");
    for message in [
        "error: budget",
        "restricted: no",
        "auth-required: who",
        "error",
        "",
    ] {
        let failure = Failure::of_message(message);
        let mut desk = Desk::live(config(), &[head(1, 10)]);
        let effects = desk.hear_closed(message);
        assert_eq!(
            effects[..2],
            [Effect::Failed(failure.clone()), Effect::Stale]
        );
        desk.wake_when_due();
        desk.hear_event(head(2, 20));
        let effects = desk.hear_closed(message);
        assert_eq!(effects[0], Effect::Failed(failure.clone()));
        assert!(!effects.contains(&Effect::Stale), "it was stale already");
        assert_eq!(desk.held(), ids(&[(1, 10)]));
        assert_eq!(desk.replica.stale(), Some(&failure));

        let mut desk = Desk::new(config());
        desk.open(Mode::Follow);
        desk.hear_closed(message);
        assert_eq!(desk.held(), None, "no set is not an empty set");
        assert_eq!(
            desk.replica.stale(),
            None,
            "there is nothing that could be stale"
        );
    }
}

#[test]
fn an_unknown_prefix_is_read_as_error() {
    rules!("AR-SYNC-REQ-28");
    for (message, failure) in [
        ("resync: access", Failure::Resync("access".to_owned())),
        ("restricted: x: y", Failure::Restricted("x: y".to_owned())),
        ("error: too-large", Failure::Error("too-large".to_owned())),
        (
            "rate-limited: slow",
            Failure::Error("rate-limited: slow".to_owned()),
        ),
        ("Resync: x", Failure::Error("Resync: x".to_owned())),
        ("resynced", Failure::Error("resynced".to_owned())),
        ("", Failure::Error(String::new())),
    ] {
        assert_eq!(Failure::of_message(message), failure);
    }
}

#[test]
fn delays_grow_with_each_failure_in_a_row_and_begin_anew_after_a_success() {
    rules!("AR-SYNC-7e", "AR-SYNC-REQ-25");
    let mut desk = Desk::new(config());
    desk.open(Mode::Follow);
    let mut last_ms = 0;
    for failures in 1..=12 {
        let effects = if failures % 2 == 0 {
            desk.hear_closed("error: store")
        } else {
            desk.hear_closed("resync: lookup")
        };
        assert_eq!(desk.replica.failures_in_row(), failures);
        let Some(Effect::RetryAt { at_mono_ms }) = effects.last() else {
            panic!("a retry: {effects:?}");
        };
        let delay_ms = at_mono_ms - desk.now_ms;
        let (least, greatest) = config().backoff.range_ms(failures);
        assert!((least..=greatest).contains(&delay_ms), "{delay_ms}");
        assert!(delay_ms >= last_ms || least == config().backoff.range_ms(99).0);
        last_ms = delay_ms;
        desk.wake_when_due();
    }
    desk.hear_eose();
    assert_eq!(desk.replica.failures_in_row(), 0);
    desk.hear_closed("resync: signals");
    let wait_ms = desk.replica.next_wakeup().unwrap().at_mono_ms - desk.now_ms;
    assert!(wait_ms <= config().backoff.range_ms(1).1);
}

#[test]
fn equal_failures_of_two_clients_wait_differently_long() {
    rules!("AR-SYNC-7e");
    let waits = |jitter| {
        let mut desk = Desk::new(config());
        desk.step(Input::Start {
            mode: Mode::Follow,
            jitter,
        });
        desk.step(Input::Disconnected);
        desk.replica.next_wakeup().unwrap().at_mono_ms
    };
    let distinct: std::collections::BTreeSet<u64> = (0..50).map(waits).collect();
    assert_eq!(distinct.len(), 50);
}

#[test]
fn a_relay_without_sync_is_never_asked_for_it() {
    rules!("AR-SYNC-REQ-4");
    for mode in [Mode::Once, Mode::Follow] {
        let mut desk = Desk::new(config());
        desk.start(mode);
        let effects = desk.step(Input::Connected { sync: None });
        let failed = Effect::Failed(Failure::Unsupported);
        assert_eq!(effects[..2], [Effect::HangUp, failed]);
        let is_over = effects[2] == Effect::Done(Outcome::GaveUp(Failure::Unsupported));
        let waits = matches!(effects[2], Effect::RetryAt { .. });
        assert_eq!(
            (effects.len(), is_over, waits),
            (3, mode == Mode::Once, mode == Mode::Follow)
        );
    }
}

#[test]
fn a_new_sync_on_a_schedule_keeps_the_set_until_its_own_eose() {
    rules!("AR-SYNC-5p", "AR-SYNC-7a", "AR-DIGEST-7");
    let mut config = config();
    config.refresh_ms = Some(60_000);
    let mut desk = Desk::live(config, &[head(1, 10)]);
    let (old, digest) = (desk.sub(), desk.replica.set().unwrap().digest());
    let due = desk.replica.next_wakeup().unwrap();
    assert_eq!(
        (due.at_mono_ms, due.reason),
        (desk.now_ms + 60_000, WakeReason::Refresh)
    );
    let effects = desk.wake_when_due();
    assert_eq!(effects[0], Effect::Close { sub: old });
    request(&effects);
    assert_eq!((desk.held(), desk.replica.stale()), (ids(&[(1, 10)]), None));
    desk.hear_event(head(1, 10));
    assert_eq!(desk.hear_eose(), [Effect::Replaced]);
    assert_eq!(
        desk.replica.set().unwrap().digest(),
        digest,
        "an unchanged set"
    );
    let bare = Desk::live(super::config(), &[]);
    assert_eq!(
        bare.replica.next_wakeup(),
        None,
        "only where it is asked for"
    );
}

#[test]
fn silence_before_eose_ends_an_attempt_and_its_connection() {
    rules!("AR-SYNC-8b", "AR-SYNC-7b");
    let mut desk = Desk::live(config(), &[head(1, 10)]);
    assert_eq!(
        desk.replica.next_wakeup(),
        None,
        "silence after EOSE is no failure"
    );
    desk.hear_closed("resync: store");
    desk.wake_when_due();
    desk.now_ms += config().silence_ms - 1;
    desk.hear_event(head(2, 20));
    let due = desk.replica.next_wakeup().unwrap();
    assert_eq!(
        (due.at_mono_ms, due.reason),
        (desk.now_ms + config().silence_ms, WakeReason::Silence)
    );
    let effects = desk.wake_when_due();
    assert_eq!(
        effects[..2],
        [Effect::HangUp, Effect::Failed(Failure::Silent)]
    );
    assert_eq!(desk.held(), ids(&[(1, 10)]));
    assert_eq!(
        desk.wake_when_due(),
        [Effect::Connect],
        "another connection"
    );
}

#[test]
fn once_is_given_up_after_its_tries_or_when_access_is_refused() {
    rules!("AR-SYNC-8b", "AR-SYNC-7e");
    let mut desk = Desk::new(config());
    desk.start(Mode::Once);
    let tries = config().once_tries_max;
    for failures in 1..=tries {
        let effects = desk.step(Input::Disconnected);
        let gave_up = Effect::Done(Outcome::GaveUp(Failure::Disconnected));
        assert_eq!(effects.contains(&gave_up), failures == tries);
        if failures < tries {
            assert_eq!(desk.wake_when_due(), [Effect::Connect]);
        }
    }
    assert_eq!((desk.held(), desk.replica.next_wakeup()), (None, None));

    let mut desk = Desk::new(config());
    desk.open(Mode::Once);
    let failure = Failure::Restricted("no".to_owned());
    assert_eq!(
        desk.hear_closed("restricted: no"),
        [
            Effect::Failed(failure.clone()),
            Effect::Done(Outcome::GaveUp(failure))
        ]
    );
}

#[test]
fn asking_again_begins_a_new_sync_and_cuts_no_wait_short() {
    rules!("AR-SYNC-7d", "AR-SYNC-7e");
    let mut desk = Desk::live(config(), &[head(1, 10)]);
    let old = desk.sub();
    let effects = desk.start(Mode::Once);
    assert_eq!(effects[0], Effect::Close { sub: old.clone() });
    assert_ne!(request(&effects), old);
    desk.hear_closed("resync: signals");
    assert_eq!(
        desk.start(Mode::Follow),
        [Effect::Note(Note::AlreadyTrying)]
    );
    desk.wake_when_due();
    assert_eq!(
        desk.hear_eose(),
        [Effect::Replaced],
        "the newer wish is followed"
    );
    assert!(desk.replica.is_live());
}

#[test]
fn a_stop_closes_the_subscription_and_stays_stopped() {
    rules!("AR-SYNC-7b");
    let mut desk = Desk::live(config(), &[head(1, 10)]);
    let sub = desk.sub();
    let stopped = Effect::Done(Outcome::Stopped);
    assert_eq!(
        desk.step(Input::Stop),
        [Effect::Close { sub }, stopped.clone()]
    );
    assert_eq!(desk.step(Input::Stop), [Effect::Note(Note::NothingRuns)]);
    assert_eq!(desk.step(Input::Disconnected), []);
    assert_eq!(desk.replica.next_wakeup(), None);

    let mut desk = Desk::new(config());
    desk.start(Mode::Follow);
    assert_eq!(desk.step(Input::Stop), std::slice::from_ref(&stopped));
    assert_eq!(desk.step(Input::Connected { sync: offer(9) }), []);
    let effects = desk.start(Mode::Follow);
    request(&effects);
    desk.hear_closed("resync: signals");
    assert_eq!(desk.step(Input::Stop), [stopped], "a wait is given up too");
    assert_eq!(
        desk.step(Input::Connected { sync: offer(9) }),
        [Effect::Note(Note::UnaskedLink)]
    );
}

#[test]
fn frames_of_other_subscriptions_change_nothing() {
    rules!("AR-SYNC-7b");
    let mut desk = Desk::live(config(), &[head(1, 10)]);
    let old = desk.sub();
    desk.hear_closed("resync: signals");
    desk.wake_when_due();
    let noted = [Effect::Note(Note::UnknownSub)];
    let before = desk.replica.clone();
    let frames = [
        SyncFrame::Event {
            sub: old.clone(),
            event: head(5, 50),
        },
        SyncFrame::Eose { sub: old.clone() },
        SyncFrame::Closed {
            sub: old.to_string(),
            message: "resync: x".to_owned(),
        },
        SyncFrame::Closed {
            sub: String::new(),
            message: "error: x".to_owned(),
        },
    ];
    for frame in frames {
        assert_eq!(desk.step(Input::Heard(frame)), noted);
    }
    assert_eq!(desk.replica, before, "an old EOSE would certify half a set");
}

#[test]
fn only_current_views_of_named_channels_without_pages_make_a_replica() {
    rules!("AR-SYNC-REQ-4");
    let made = |text: &str, prefix: &str| {
        let filter = ArtifactFilter::from_json(text).unwrap();
        Config::new(filter, prefix).map(|_| ())
    };
    let good = r##"{"artifact":"current","kinds":[45010],"#h":["x"],"#d":["y"]}"##;
    assert_eq!(made(good, "a"), Ok(()));
    assert_eq!(made(good, &"é".repeat(44)), Ok(()));
    assert_eq!(made(good, &"é".repeat(45)), Err(ConfigError::Prefix));
    for (text, error) in [
        (r#"{"artifact":"current"}"#, ConfigError::NoChannel),
        (
            r##"{"artifact":"head","#h":["x"],"#d":["y"]}"##,
            ConfigError::View,
        ),
        (
            r##"{"artifact":"current","#h":["x"],"limit":5}"##,
            ConfigError::Paged,
        ),
        (
            r##"{"artifact":"current","#h":["x"],"offset":0}"##,
            ConfigError::Paged,
        ),
    ] {
        assert_eq!(made(text, "a"), Err(error));
    }
}
