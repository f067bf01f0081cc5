//! The bus: publishes until they succeed, topics that come and go, losses and how they are made good.

use super::*;
use crate::limits::LIVE_RETRY_DEADLINE_MS;

fn publishes(effects: &[Effect]) -> Vec<(OpId, Topic, BusMessage)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Publish { op, topic, message } => Some((*op, *topic, message.clone())),
            _ => None,
        })
        .collect()
}

fn commit(bench: &mut Bench, position: u64) -> Vec<Effect> {
    let event = note(
        1,
        bench.now.wall_secs,
        &[&["h", CHANNEL]],
        &position.to_string(),
    );
    let op = submit_op(&bench.say(1, ClientMessage::Event(Box::new(event)))).expect("submitted");
    let signals = vec![signal(position, Change::Event)];
    bench.step(Input::Submitted {
        op,
        outcome: SubmitOutcome::Stored {
            message: String::new(),
            signals,
        },
    })
}

#[test]
fn a_refused_publish_is_repeated_until_it_is_taken() {
    let mut bench = Bench::member(Profile::Workspace);
    let mut sent = publishes(&commit(&mut bench, 1));
    assert_eq!(sent.len(), 2, "community and channel");
    for _ in 0..20 {
        for (op, ..) in &sent {
            bench.step(Input::Published { op: *op, ok: false });
        }
        assert!(!bench.node.is_idle());
        let wakeup = bench.node.next_wakeup().expect("a retry is due");
        assert!(
            wakeup.at_mono_ms - bench.now.mono_ms <= 5_000,
            "the delay is bounded"
        );
        sent = publishes(&bench.after(10_000));
        assert_eq!(sent.len(), 2, "no attempt is the last");
    }
    for (op, _, message) in &sent {
        assert_eq!(
            *message,
            BusMessage::Signals(vec![signal(1, Change::Event)])
        );
        bench.step(Input::Published { op: *op, ok: true });
    }
    assert!(bench.node.is_idle());
}

#[test]
fn commits_during_a_publish_leave_together_afterwards() {
    let mut bench = Bench::member(Profile::Workspace);
    let first = publishes(&commit(&mut bench, 1));
    assert!(publishes(&commit(&mut bench, 2)).is_empty());
    assert!(publishes(&commit(&mut bench, 3)).is_empty());
    let effects = bench.step(Input::Published {
        op: first[0].0,
        ok: true,
    });
    let next = publishes(&effects);
    assert_eq!(next.len(), 1);
    assert_eq!(
        next[0].2,
        BusMessage::Signals(vec![signal(2, Change::Event), signal(3, Change::Event)])
    );
}

#[test]
fn a_topic_that_is_left_and_wanted_again_waits_for_its_later_confirmation() {
    let mut bench = Bench::member(Profile::Workspace);
    let filter = format!(r##"{{"kinds":[9],"#h":["{CHANNEL}"]}}"##);
    bench.req(1, "a", &[&filter]);
    bench.say(1, ClientMessage::Close { sub: sub("a") });
    let effects = bench.req(1, "b", &[&filter]);
    assert!(effects.contains(&Effect::Subscribe { topic: topic() }));
    let first = bench.step(Input::TopicActive {
        topic: topic(),
        generation: BusGeneration(1),
    });
    assert!(
        history_op(&first).is_none(),
        "this confirms the request that was given up"
    );
    let second = bench.step(Input::TopicActive {
        topic: topic(),
        generation: BusGeneration(1),
    });
    assert!(history_op(&second).is_some());
}

#[test]
fn a_loss_restarts_registration_and_is_made_good_from_the_ledger() {
    let mut bench = Bench::member(Profile::Workspace);
    let event = note(1, 10, &[&["h", CHANNEL]], "missed");
    let op = bench.open(1, "s");
    bench.end_history(op, 2);
    bench.step(Input::BusDown);
    assert!(
        ledger_op(&bench.after(100)).is_none(),
        "nothing is recovered before the bus is back"
    );
    let effects = bench.step(Input::BusUp {
        generation: BusGeneration(2),
    });
    assert!(effects.contains(&Effect::Subscribe { topic: topic() }));
    assert!(
        ledger_op(&effects).is_none(),
        "not before the topics are confirmed again"
    );
    let effects = bench.step(Input::TopicActive {
        topic: topic(),
        generation: BusGeneration(2),
    });
    let op = ledger_op(&effects).expect("the ledger tells what was missed");
    let signals = vec![
        (community(), signal(2, Change::Event)),
        (community(), signal(3, Change::Event)),
    ];
    let page = LedgerPage {
        store: StoreGeneration(0),
        signals,
        cursor: Cut::Position(Position(3)),
        more: false,
    };
    let effects = bench.step(Input::Ledger { op, page: Ok(page) });
    assert!(has_note(&effects, Note::LedgerCaughtUp));
    let read = live_op(&effects).expect("missed positions are read");
    assert!(
        frames(&bench.live(read, &[(2, &event)])).is_empty(),
        "the snapshot had position 2"
    );
}

#[test]
fn missed_positions_are_delivered_once_also_when_the_signal_comes_late() {
    let mut bench = Bench::member(Profile::Workspace);
    let event = note(1, 10, &[&["h", CHANNEL]], "missed");
    let op = bench.open(1, "s");
    bench.end_history(op, 0);
    bench.step(Input::BusDown);
    bench.step(Input::BusUp {
        generation: BusGeneration(2),
    });
    let effects = bench.step(Input::TopicActive {
        topic: topic(),
        generation: BusGeneration(2),
    });
    let op = ledger_op(&effects).expect("recovery");
    let page = LedgerPage {
        store: StoreGeneration(0),
        signals: vec![(community(), signal(1, Change::Event))],
        cursor: Cut::Position(Position(1)),
        more: false,
    };
    let read = live_op(&bench.step(Input::Ledger { op, page: Ok(page) })).expect("read");
    assert_eq!(frames(&bench.live(read, &[(1, &event)])).len(), 1);
    let late = bench.announce(&[1]);
    assert!(live_op(&late).is_none() && has_note(&late, Note::SignalRepeated));
}

#[test]
fn a_loss_that_cannot_be_made_good_ends_subscriptions_loudly() {
    let mut bench = Bench::member(Profile::Workspace);
    let op = bench.open(1, "s");
    bench.end_history(op, 2);
    bench.step(Input::BusDown);
    bench.step(Input::BusUp {
        generation: BusGeneration(2),
    });
    let mut effects = bench.step(Input::TopicActive {
        topic: topic(),
        generation: BusGeneration(2),
    });
    let mut closed = Vec::new();
    let mut waited = 0;
    while closed.is_empty() && waited <= 2 * LIVE_RETRY_DEADLINE_MS {
        if let Some(op) = ledger_op(&effects) {
            effects = bench.step(Input::Ledger {
                op,
                page: Err(ReadFailure::Store),
            });
            closed = frames(&effects);
        } else {
            waited += 100;
            effects = bench.after(100);
        }
    }
    assert_eq!(
        closed,
        vec![r#"["CLOSED","s","error: live delivery was interrupted, subscribe again"]"#]
    );
}

#[test]
fn live_reads_are_repeated_and_in_the_end_given_up_loudly() {
    let mut bench = Bench::member(Profile::Workspace);
    let event = note(1, 10, &[&["h", CHANNEL]], "x");
    let op = bench.open(1, "s");
    bench.end_history(op, 0);
    let mut effects = bench.announce(&[1]);
    let mut tries = 0;
    let mut closed = Vec::new();
    let mut once = None;
    while closed.is_empty() {
        match live_op(&effects) {
            Some(op) => {
                tries += 1;
                once.get_or_insert_with(|| {
                    Bench {
                        node: bench.node.clone(),
                        now: bench.now,
                    }
                    .live(op, &[(1, &event)])
                });
                effects = bench.step(Input::Live {
                    op,
                    rows: Err(ReadFailure::Store),
                });
                closed = frames(&effects);
            }
            None => effects = bench.after(100),
        }
    }
    assert!(tries > 10, "a failed read is tried again");
    assert_eq!(
        closed,
        vec![r#"["CLOSED","s","error: live delivery failed, subscribe again"]"#]
    );
    assert_eq!(once.map(|effects| frames(&effects).len()), Some(1));
}
