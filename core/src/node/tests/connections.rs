//! Authentication, events and their answers, closing.

use super::*;
use crate::accept::Rejection;
use crate::limits::RETRY_DELAY_MS;
use crate::limits::{AUTH_TRIES_MAX, KEYS_MAX};
use crate::nostr::FrameProblem;

#[test]
fn the_challenge_is_sent_at_connect() {
    let mut bench = Bench::new(Profile::Workspace);
    assert_eq!(
        frames(&bench.connect(1)),
        vec![format!(r#"["AUTH","{}"]"#, "c".repeat(64))]
    );
}

#[test]
fn keys_accumulate_up_to_four() {
    let mut bench = Bench::new(Profile::Workspace);
    bench.connect(1);
    for key in 1..=KEYS_MAX as u8 {
        let effects = bench.auth(1, key);
        assert!(frames(&effects)[0].ends_with(r#",true,""]"#), "{effects:?}");
    }
    let again = bench.auth(1, 1);
    assert!(
        frames(&again)[0].contains("true"),
        "a key that is there may prove itself again"
    );
    let fifth = bench.auth(1, 9);
    assert!(
        frames(&fifth)[0].contains(r#"false,"restricted: at most 4 keys"#),
        "{fifth:?}"
    );
    let effects = bench.req(1, "s", &[r#"{"kinds":[9]}"#]);
    bench.step(Input::TopicActive {
        topic: Topic::Community(community()),
        generation: BusGeneration(1),
    });
    assert!(
        frames(&effects).is_empty(),
        "a failed AUTH changes nothing: {effects:?}"
    );
}

#[test]
fn a_failed_auth_may_be_repeated_eight_times_on_the_same_challenge() {
    let mut bench = Bench::new(Profile::Workspace);
    bench.connect(1);
    let mut wrong = bench.auth_event(1);
    wrong = Draft {
        created_at: wrong.created_at,
        kind: wrong.kind,
        tags: vec![],
        content: String::new(),
    }
    .sign(&secret(1));
    for _ in 1..AUTH_TRIES_MAX {
        let effects = bench.say(1, ClientMessage::Auth(Box::new(wrong.clone())));
        assert!(
            frames(&effects)[0].contains(r#"false,"auth-required: verification failed"#),
            "{effects:?}"
        );
        assert!(
            !effects
                .iter()
                .any(|effect| matches!(effect, Effect::Close { .. }))
        );
    }
    let mut spared = Bench {
        node: bench.node.clone(),
        now: bench.now,
    };
    assert!(
        frames(&spared.auth(1, 1))[0].contains("true"),
        "the challenge stays valid"
    );
    let last = bench.say(1, ClientMessage::Auth(Box::new(wrong)));
    assert!(last.contains(&Effect::Close {
        conn: ConnId(1),
        reason: CloseReason::AuthTries
    }));
}

#[test]
fn a_workspace_connection_without_a_key_is_closed_after_the_timeout() {
    let mut config = config(Profile::Workspace);
    config.sweep_interval_ms = 0;
    let mut bench = Bench::with(config);
    bench.connect(1);
    bench.connect(2);
    bench.auth(2, 2);
    let wakeup = bench
        .node
        .next_wakeup()
        .expect("the deadline wakes the node");
    assert_eq!(wakeup.reason, WakeReason::AuthDeadline);
    let effects = bench.after(wakeup.at_mono_ms - bench.now.mono_ms);
    let closed: Vec<_> = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Close { .. }))
        .collect();
    assert_eq!(
        closed,
        vec![&Effect::Close {
            conn: ConnId(1),
            reason: CloseReason::AuthTimeout
        }]
    );
}

#[test]
fn an_open_profile_connection_needs_no_key() {
    let mut bench = Bench::new(Profile::Open);
    bench.connect(1);
    let effects = bench.after(60_000);
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Close { .. }))
    );
}

#[test]
fn nothing_is_served_before_authentication() {
    let mut bench = Bench::new(Profile::Workspace);
    bench.connect(1);
    let event = note(1, bench.now.wall_secs, &[&["h", CHANNEL]], "x");
    let ok = bench.say(1, ClientMessage::Event(Box::new(event.clone())));
    assert_eq!(
        frames(&ok),
        vec![format!(
            r#"["OK","{}",false,"auth-required: not authenticated"]"#,
            event.id
        )]
    );
    assert!(submit_op(&ok).is_none());
    let req = bench.req(1, "s", &[r#"{"kinds":[9]}"#]);
    assert_eq!(
        frames(&req),
        vec![r#"["CLOSED","s","auth-required: not authenticated"]"#]
    );
    let filters = vec![Filter::from_json("{}").expect("an empty filter")];
    let count = bench.say(
        1,
        ClientMessage::Count {
            sub: sub("c"),
            filters,
        },
    );
    assert_eq!(
        frames(&count),
        vec![r#"["CLOSED","c","auth-required: not authenticated"]"#]
    );
}

#[test]
fn a_bad_frame_is_answered_and_the_connection_lives() {
    let mut bench = Bench::member(Profile::Workspace);
    let problem = FrameProblem::Notice {
        text: "invalid message: expected JSON array".to_owned(),
    };
    let effects = bench.step(Input::Message {
        conn: ConnId(1),
        message: Err(problem),
    });
    assert_eq!(
        frames(&effects),
        vec![r#"["NOTICE","invalid message: expected JSON array"]"#]
    );
    assert_eq!(credits(&effects), 1);
    assert!(
        bench
            .req(1, "s", &[r#"{"kinds":[9]}"#])
            .iter()
            .any(|effect| matches!(effect, Effect::Subscribe { .. }))
    );
}

#[test]
fn an_event_is_answered_once_its_commit_is_known() {
    let mut bench = Bench::member(Profile::Workspace);
    let event = note(1, bench.now.wall_secs, &[&["h", CHANNEL]], "x");
    for (outcome, answer) in [
        (
            SubmitOutcome::Stored {
                message: String::new(),
                signals: vec![],
            },
            r#"true,"""#,
        ),
        (
            SubmitOutcome::Already {
                message: "duplicate: already have this event".to_owned(),
            },
            r#"true,"duplicate: "#,
        ),
        (
            SubmitOutcome::Rejected(Rejection::Conflict(
                "conflict: artifact head changed".into(),
            )),
            r#"false,"conflict: "#,
        ),
        (SubmitOutcome::Busy, r#"false,"error: "#),
        (
            SubmitOutcome::Failed,
            r#"false,"error: internal server error""#,
        ),
        (
            SubmitOutcome::Unknown {
                xid: 7,
                signals: vec![],
            },
            r#"false,"error: the outcome"#,
        ),
    ] {
        let effects = bench.say(1, ClientMessage::Event(Box::new(event.clone())));
        assert!(
            frames(&effects).is_empty() && credits(&effects) == 0,
            "no answer before the store's"
        );
        let op = submit_op(&effects).expect("the event goes to the store");
        let effects = bench.step(Input::Submitted { op, outcome });
        assert!(
            frames(&effects)[0].starts_with(&format!(r#"["OK","{}",{answer}"#, event.id)),
            "{effects:?}"
        );
        assert_eq!(credits(&effects), 1);
    }
}

fn published(effects: &[Effect]) -> Vec<Topic> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Publish { topic, .. } => Some(*topic),
            _ => None,
        })
        .collect()
}

fn settle_op(effects: &[Effect]) -> Option<OpId> {
    effects.iter().find_map(|effect| match effect {
        Effect::Settle { op, xid: 1 } => Some(*op),
        _ => None,
    })
}

#[test]
fn a_commit_is_published_even_when_its_sender_is_gone() {
    let mut bench = Bench::member(Profile::Workspace);
    let event = note(1, bench.now.wall_secs, &[&["h", CHANNEL]], "x");
    let effects = bench.say(1, ClientMessage::Event(Box::new(event)));
    let op = submit_op(&effects).expect("the event goes to the store");
    bench.step(Input::Disconnected { conn: ConnId(1) });
    let effects = bench.step(Input::Submitted {
        op,
        outcome: SubmitOutcome::Stored {
            message: String::new(),
            signals: vec![signal(5, Change::Event)],
        },
    });
    assert_eq!(
        published(&effects),
        vec![Topic::Community(community()), topic()]
    );
    assert!(has_note(&effects, Note::LateAnswer) && frames(&effects).is_empty());
}

/// The signals of a commit that may still happen wait until the store can tell: published earlier, they would be used up by
/// reads that do not see it (H12).
#[test]
fn signals_of_an_unknown_commit_wait_until_it_is_settled() {
    for (outcome, is_published) in [
        (Settled::Committed, true),
        (Settled::Forgotten, true),
        (Settled::Aborted, false),
    ] {
        let mut bench = Bench::member(Profile::Workspace);
        let event = note(1, bench.now.wall_secs, &[&["h", CHANNEL]], "x");
        let effects = bench.say(1, ClientMessage::Event(Box::new(event)));
        let op = submit_op(&effects).expect("the event goes to the store");
        let signals = vec![signal(5, Change::Event)];
        let effects = bench.step(Input::Submitted {
            op,
            outcome: SubmitOutcome::Unknown { xid: 1, signals },
        });
        assert!(published(&effects).is_empty());
        assert!(frames(&effects)[0].contains("error: "), "never a conflict");
        let op = settle_op(&effects).expect("the store is asked");
        let open = Settled::Open;
        let effects = bench.step(Input::Settled { op, outcome: open });
        assert!(published(&effects).is_empty() && !bench.node.is_idle());
        let effects = bench.after(RETRY_DELAY_MS.0);
        let op = settle_op(&effects).expect("the store is asked again");
        let effects = bench.step(Input::Settled { op, outcome });
        assert_eq!(!published(&effects).is_empty(), is_published, "{outcome:?}");
    }
}

#[test]
fn stop_says_restarting_and_refuses_newcomers() {
    let mut bench = Bench::member(Profile::Workspace);
    let effects = bench.step(Input::Stop);
    assert!(effects.contains(&Effect::Close {
        conn: ConnId(1),
        reason: CloseReason::Restarting
    }));
    let effects = bench.connect(2);
    assert!(effects.contains(&Effect::Close {
        conn: ConnId(2),
        reason: CloseReason::Restarting
    }));
}

#[test]
fn an_unread_queue_closes_its_own_connection_only() {
    let mut bench = Bench::member(Profile::Workspace);
    bench.connect(2);
    let mut closed = Vec::new();
    for n in 0..200_000u32 {
        let id = format!("{n:064}");
        let message = Err(FrameProblem::Notice { text: id });
        let effects = bench.step(Input::Message {
            conn: ConnId(1),
            message,
        });
        closed.extend(
            effects
                .into_iter()
                .filter(|effect| matches!(effect, Effect::Close { .. })),
        );
        if !closed.is_empty() {
            break;
        }
    }
    assert_eq!(
        closed,
        vec![Effect::Close {
            conn: ConnId(1),
            reason: CloseReason::SlowReader
        }]
    );
    assert!(
        frames(&bench.auth(2, 2))[0].contains("true"),
        "the other connection is served"
    );
    let effects = bench.req(1, "s", &["{}"]);
    assert!(
        effects.is_empty(),
        "nothing more is taken from a connection that is being closed"
    );
}

#[test]
fn a_request_that_is_refused_as_it_is_read_ends_what_its_id_named() {
    let history = format!(r##"{{"artifact":"history","#h":["{CHANNEL}"],"#d":["{CHANNEL}"]}}"##);
    let two = format!(r##"{{"kinds":[9]}},{{"artifact":"current","#h":["{CHANNEL}"]}}"##);
    for filters in [history.as_str(), two.as_str(), r#"{"kinds":"all"}"#, ""] {
        let mut bench = Bench::member(Profile::Workspace);
        let op = bench.open(1, "s");
        bench.end_history(op, 0);
        let frame = format!(r#"["REQ","s",{filters}]"#).replace(",]", "]");
        let effects = bench.step(Input::Message {
            conn: ConnId(1),
            message: ClientMessage::parse(&frame),
        });
        let sent = frames(&effects);
        assert!(
            sent.len() == 1 && sent[0].starts_with(r#"["CLOSED","s","#),
            "{sent:?}"
        );
        assert!(
            effects.contains(&Effect::Unsubscribe { topic: topic() }),
            "{frame}"
        );
        let later = bench.announce(&[7]);
        assert!(
            live_op(&later).is_none() && frames(&later).is_empty(),
            "{frame}"
        );
    }
}
