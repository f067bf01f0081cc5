//! Ordinary subscriptions: registration, history, EOSE, live delivery, replacement, closing, room.

use super::*;
use crate::limits::{
    HELD_POSITIONS_MAX, HISTORY_BUDGET_MS, REGISTER_DEADLINE_MS, SEND_QUEUE_FRAMES_MAX,
    SUBSCRIPTIONS_MAX,
};

fn filter() -> String {
    format!(r##"{{"kinds":[9],"#h":["{CHANNEL}"]}}"##)
}

#[test]
fn no_history_is_read_before_the_topic_is_confirmed_on_the_present_connection() {
    let mut bench = Bench::member(Profile::Workspace);
    let effects = bench.req(1, "s", &[&filter()]);
    assert!(effects.contains(&Effect::Subscribe { topic: topic() }));
    assert!(history_op(&effects).is_none());
    let stale = bench.step(Input::TopicActive {
        topic: topic(),
        generation: BusGeneration(0),
    });
    assert!(history_op(&stale).is_none() && has_note(&stale, Note::StaleConfirmation));
    let effects = bench.step(Input::TopicActive {
        topic: topic(),
        generation: BusGeneration(1),
    });
    assert!(history_op(&effects).is_some());
}

#[test]
fn unconfirmed_interest_ends_with_closed_at_its_deadline() {
    let mut bench = Bench::member(Profile::Workspace);
    bench.req(1, "s", &[&filter()]);
    let effects = bench.after(REGISTER_DEADLINE_MS);
    assert_eq!(
        frames(&effects),
        vec![r#"["CLOSED","s","error: live delivery is not available, try again"]"#]
    );
    assert!(effects.contains(&Effect::Unsubscribe { topic: topic() }));
}

#[test]
fn stored_events_come_before_eose_and_each_once() {
    let mut bench = Bench::member(Profile::Workspace);
    let (a, b) = (
        note(1, 10, &[&["h", CHANNEL]], "a"),
        note(1, 9, &[&["h", CHANNEL]], "b"),
    );
    let op = bench.open(1, "s");
    let page = HistoryPage {
        rows: history_rows(&[&a]),
        end: None,
        readable: [channel_id()].into(),
    };
    let effects = bench.step(Input::Page { op, page: Ok(page) });
    assert_eq!(frames(&effects).len(), 1);
    assert!(
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::NextPage { op: next, .. } if *next == op))
    );
    let effects = bench.step(Input::Page {
        op,
        page: Ok(last_page(&[&a, &b], 3)),
    });
    let sent = frames(&effects);
    assert_eq!(
        sent.len(),
        2,
        "the row that a second filter returns again is not repeated: {sent:?}"
    );
    assert!(sent[0].contains(&b.id.to_string()) && sent[1] == r#"["EOSE","s"]"#);
}

#[test]
fn a_failed_history_is_closed_and_never_eose() {
    for (failure, text) in [
        (ReadFailure::Busy, "error: the relay is busy, try again"),
        (ReadFailure::Budget, "error: history budget exceeded"),
        (ReadFailure::SnapshotLost, "error: database error"),
        (ReadFailure::Store, "error: database error"),
    ] {
        let mut bench = Bench::member(Profile::Workspace);
        let op = bench.open(1, "s");
        let effects = bench.step(Input::Page {
            op,
            page: Err(failure),
        });
        assert_eq!(
            frames(&effects),
            vec![format!(r#"["CLOSED","s","{text}"]"#)]
        );
    }
}

#[test]
fn a_history_that_takes_too_long_is_closed_and_its_snapshot_ended() {
    let mut bench = Bench::member(Profile::Workspace);
    let op = bench.open(1, "s");
    let effects = bench.after(HISTORY_BUDGET_MS);
    assert_eq!(
        frames(&effects),
        vec![r#"["CLOSED","s","error: history budget exceeded"]"#]
    );
    assert!(effects.contains(&Effect::EndHistory { op }));
}

#[test]
fn a_subscription_that_names_only_unreadable_channels_is_refused_without_eose() {
    let mut bench = Bench::member(Profile::Workspace);
    let op = bench.open(1, "s");
    let page = HistoryPage {
        rows: vec![],
        end: Some(Cut::Position(Position(0))),
        readable: BTreeSet::new(),
    };
    let effects = bench.step(Input::Page { op, page: Ok(page) });
    assert_eq!(
        frames(&effects),
        vec![r#"["CLOSED","s","restricted: not a channel member"]"#]
    );
}

#[test]
fn what_is_announced_during_the_history_follows_eose_once() {
    let mut bench = Bench::member(Profile::Workspace);
    let (old, new) = (
        note(1, 10, &[&["h", CHANNEL]], "old"),
        note(1, 11, &[&["h", CHANNEL]], "new"),
    );
    let op = bench.open(1, "s");
    let read = live_op(&bench.announce(&[4, 5])).expect("a signal is read");
    let effects = bench.live(read, &[(4, &old), (5, &new)]);
    assert!(frames(&effects).is_empty(), "nothing live before EOSE");
    let effects = bench.step(Input::Page {
        op,
        page: Ok(last_page(&[&old], 4)),
    });
    assert_eq!(
        frames(&effects).last().map(String::as_str),
        Some(r#"["EOSE","s"]"#)
    );
    let release = live_op(&effects).expect("held positions are read after EOSE");
    let effects = bench.live(release, &[(4, &old), (5, &new)]);
    let sent = frames(&effects);
    assert_eq!(
        sent.len(),
        1,
        "what the snapshot saw is not sent again: {sent:?}"
    );
    assert!(sent[0].contains(&new.id.to_string()));
    let effects = bench.announce(&[5]);
    assert!(live_op(&effects).is_none() && has_note(&effects, Note::SignalRepeated));
}

#[test]
fn what_is_announced_while_held_positions_are_read_is_held_and_sent_as_well() {
    let mut bench = Bench::member(Profile::Workspace);
    let (first, second) = (
        note(1, 10, &[&["h", CHANNEL]], "first"),
        note(1, 11, &[&["h", CHANNEL]], "second"),
    );
    let op = bench.open(1, "s");
    let read = live_op(&bench.announce(&[4])).expect("a signal is read");
    bench.live(read, &[(4, &first)]);
    let release = live_op(&bench.end_history(op, 3)).expect("held positions are read after EOSE");
    let read = live_op(&bench.announce(&[5])).expect("a signal is read");
    assert!(frames(&bench.live(read, &[(5, &second)])).is_empty());
    let effects = bench.live(release, &[(4, &first)]);
    assert!(frames(&effects)[0].contains(&first.id.to_string()));
    let release = live_op(&effects).expect("what came meanwhile is read");
    let effects = bench.live(release, &[(5, &second)]);
    assert!(frames(&effects)[0].contains(&second.id.to_string()));
}

#[test]
fn an_event_announced_on_two_topics_is_sent_once() {
    let mut bench = Bench::member(Profile::Workspace);
    let event = note(1, 10, &[&["h", CHANNEL]], "x");
    let effects = bench.req(1, "s", &[&filter(), r#"{"kinds":[9]}"#]);
    assert_eq!(
        effects
            .iter()
            .filter(|effect| matches!(effect, Effect::Subscribe { .. }))
            .count(),
        2
    );
    let all = Topic::Community(community());
    bench.step(Input::TopicActive {
        topic: topic(),
        generation: BusGeneration(1),
    });
    let effects = bench.step(Input::TopicActive {
        topic: all,
        generation: BusGeneration(1),
    });
    let op = history_op(&effects).expect("opens after the last confirmation");
    bench.end_history(op, 0);
    let first = live_op(&bench.announce(&[1])).expect("read");
    let signals = BusMessage::Signals(vec![signal(1, Change::Event)]);
    let second = live_op(&bench.step(Input::BusMessage {
        topic: all,
        message: signals,
    }))
    .expect("read");
    assert_eq!(frames(&bench.live(first, &[(1, &event)])).len(), 1);
    assert_eq!(frames(&bench.live(second, &[(1, &event)])).len(), 0);
}

#[test]
fn access_is_judged_at_delivery() {
    crate::rules!("AR-ACC-4");
    let mut bench = Bench::member(Profile::Workspace);
    let event = note(2, 10, &[&["h", CHANNEL]], "secret");
    let op = bench.open(1, "s");
    bench.end_history(op, 0);
    let key = secret(1).public_key();
    for (roles, delivered) in [(vec![(key, Role::Guest)], 1), (vec![], 0)] {
        let mut bench = Bench {
            node: bench.node.clone(),
            now: bench.now,
        };
        let read = live_op(&bench.announce(&[1])).expect("read");
        let rows = rows(&[(1, &event)], Visibility::Private, &roles);
        assert_eq!(
            frames(&bench.step(Input::Live {
                op: read,
                rows: Ok(rows)
            }))
            .len(),
            delivered
        );
    }
}

#[test]
fn losing_every_named_channel_ends_the_subscription_and_drops_what_is_queued() {
    let mut bench = Bench::member(Profile::Workspace);
    let op = bench.open(1, "s");
    bench.end_history(op, 0);
    for change in [
        Change::Membership,
        Change::Visibility,
        Change::ChannelDeleted,
    ] {
        let mut bench = Bench {
            node: bench.node.clone(),
            now: bench.now,
        };
        let message = BusMessage::Signals(vec![signal(1, change)]);
        let read = live_op(&bench.step(Input::BusMessage {
            topic: topic(),
            message,
        }))
        .expect("access is read");
        let effects = bench.step(Input::Live {
            op: read,
            rows: Ok(rows(&[], Visibility::Private, &[])),
        });
        assert_eq!(
            frames(&effects),
            vec![r#"["CLOSED","s","restricted: channel access revoked"]"#]
        );
        assert!(
            effects
                .iter()
                .any(|effect| matches!(effect, Effect::Purge { .. }))
        );
    }
}

#[test]
fn archive_and_role_changes_end_nothing() {
    let mut bench = Bench::member(Profile::Workspace);
    let op = bench.open(1, "s");
    bench.end_history(op, 0);
    for change in [
        Change::Archive,
        Change::Role,
        Change::Metadata,
        Change::Withheld,
    ] {
        let message = BusMessage::Signals(vec![signal(1, change)]);
        assert!(
            bench
                .step(Input::BusMessage {
                    topic: topic(),
                    message
                })
                .is_empty()
        );
    }
}

#[test]
fn replacing_purges_the_old_generation_and_gives_one_eose() {
    let mut bench = Bench::member(Profile::Workspace);
    let event = note(1, 10, &[&["h", CHANNEL]], "x");
    let old = bench.open(1, "s");
    let effects = bench.req(1, "s", &[&filter()]);
    assert!(effects.contains(&Effect::EndHistory { op: old }));
    let purge = effects
        .iter()
        .position(|effect| matches!(effect, Effect::Purge { .. }))
        .expect("purged");
    assert!(frames(&effects[..purge]).is_empty());
    let effects_late = bench.step(Input::Page {
        op: old,
        page: Ok(last_page(&[&event], 9)),
    });
    assert!(frames(&effects_late).is_empty() && has_note(&effects_late, Note::LateAnswer));
    let new = match history_op(&effects) {
        Some(op) => op,
        None => history_op(&bench.step(Input::TopicActive {
            topic: topic(),
            generation: BusGeneration(1),
        }))
        .expect("the new one waits for its own confirmation"),
    };
    let sent = frames(&bench.end_history(new, 9));
    assert_eq!(sent, vec![r#"["EOSE","s"]"#]);
}

#[test]
fn close_gets_no_answer_and_ends_the_read() {
    let mut bench = Bench::member(Profile::Workspace);
    let op = bench.open(1, "s");
    let effects = bench.say(1, ClientMessage::Close { sub: sub("s") });
    assert!(frames(&effects).is_empty());
    assert!(effects.contains(&Effect::EndHistory { op }));
    let effects = bench.end_history(op, 3);
    assert!(frames(&effects).is_empty() && has_note(&effects, Note::LateAnswer));
    let unknown = bench.say(1, ClientMessage::Close { sub: sub("never") });
    assert_eq!(unknown, vec![Effect::Credit { conn: ConnId(1) }]);
}

#[test]
fn the_bound_of_subscriptions_answers_on_the_id() {
    let mut bench = Bench::member(Profile::Workspace);
    for n in 0..SUBSCRIPTIONS_MAX {
        bench.req(1, &format!("s{n}"), &[&filter()]);
    }
    let effects = bench.req(1, "one more", &[&filter()]);
    assert_eq!(
        frames(&effects),
        vec![r#"["CLOSED","one more","error: too many subscriptions"]"#]
    );
    assert!(
        frames(&bench.req(1, "s0", &[&filter()])).is_empty(),
        "replacing is no addition"
    );
}

#[test]
fn a_full_queue_delays_pages_and_holds_live_events() {
    let mut config = config(Profile::Workspace);
    config.send_queue_bytes = Config::SEND_QUEUE_BYTES_MIN;
    let mut bench = Bench::with(config);
    bench.connect(1);
    bench.auth(1, 1);
    let op = bench.open(1, "s");
    let content = "x".repeat(200_000);
    let events: Vec<Event> = (0..4)
        .map(|n| note(1, 100 + n, &[&["h", CHANNEL]], &content))
        .collect();
    let page = HistoryPage {
        rows: history_rows(&[&events[0], &events[1]]),
        end: None,
        readable: [channel_id()].into(),
    };
    let effects = bench.step(Input::Page { op, page: Ok(page) });
    let queued: usize = bytes(&effects);
    assert!(!asks_page(&effects), "no page is asked for without room");
    let effects = bench.step(Input::Drained {
        conn: ConnId(1),
        bytes: queued,
        frames: 2,
    });
    assert!(asks_page(&effects), "room brings the next page");
    bench.end_history(op, 0);
    let read = live_op(&bench.announce(&[1, 2, 3])).expect("read");
    let rows = [(1, &events[1]), (2, &events[2]), (3, &events[3])];
    let effects = bench.live(read, &rows);
    let fit = frames(&effects).len();
    assert!(fit >= 1 && has_note(&effects, Note::LiveHeld) || fit == 3);
    let mut sent = fit;
    let mut queued = bytes(&effects);
    for _ in 0..6 {
        let effects = bench.step(Input::Drained {
            conn: ConnId(1),
            bytes: queued,
            frames: 8,
        });
        queued = bytes(&effects);
        if let Some(op) = live_op(&effects) {
            let effects = bench.live(op, &rows);
            sent += frames(&effects).len();
            queued += bytes(&effects);
        }
    }
    assert_eq!(sent, 3, "everything arrives once there is room, once");
}

fn bytes(effects: &[Effect]) -> usize {
    effects
        .iter()
        .map(|effect| match effect {
            Effect::Send { frame, .. } => frame.len_bytes(),
            _ => 0,
        })
        .sum()
}

fn asks_page(effects: &[Effect]) -> bool {
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::NextPage { .. }))
}

#[test]
fn many_subscriptions_that_catch_up_at_once_share_the_room_of_their_connection() {
    const SUBS: u64 = 100;
    const HELD: u64 = 100;
    let mut bench = Bench::member(Profile::Workspace);
    for number in 0..SUBS {
        let op = bench.open(1, &number.to_string());
        bench.end_history(op, 0);
    }
    let events: Vec<Event> = (0..=HELD)
        .map(|n| note(1, 100 + n, &[&["h", CHANNEL]], "x"))
        .collect();
    let at = |from: u64, to: u64| -> Vec<(u64, &Event)> {
        (from..to)
            .map(|n| (n, &events[(n % HELD) as usize]))
            .collect()
    };
    // Enough for all subscriptions to use up the frames of the queue, then as much again to be held by each.
    let filling = SEND_QUEUE_FRAMES_MAX as u64 / SUBS + 1;
    let first: Vec<u64> = (1..=filling).collect();
    let read = live_op(&bench.announce(&first)).expect("read");
    let queued = bench.live(read, &at(1, filling + 1));
    // All but what the answers to the requests take.
    let room = frames(&queued).len();
    assert!(room < SEND_QUEUE_FRAMES_MAX && room + 2 * SUBS as usize > SEND_QUEUE_FRAMES_MAX);
    let second: Vec<u64> = (filling + 1..=filling + HELD).collect();
    let read = live_op(&bench.announce(&second)).expect("read");
    let rows = at(filling + 1, filling + HELD + 1);
    assert_eq!(frames(&bench.live(read, &rows)).len(), 0);
    let effects = bench.step(Input::Drained {
        conn: ConnId(1),
        bytes: bytes(&queued),
        frames: room,
    });
    let reads: Vec<OpId> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::ReadLive { op, .. } => Some(*op),
            _ => None,
        })
        .collect();
    assert_eq!(reads.len() as u64, SUBS, "all catch up at once");
    let mut sent = 0;
    for read in reads {
        let effects = bench.live(read, &rows);
        let is_close = |effect: &Effect| matches!(effect, Effect::Close { .. });
        assert!(!effects.iter().any(is_close), "after {sent} frames");
        sent += frames(&effects).len();
    }
    assert_eq!(sent, room);
}

#[test]
fn holding_too_much_ends_the_subscription_loudly() {
    let mut bench = Bench::member(Profile::Workspace);
    bench.open(1, "s");
    let event = note(1, 10, &[&["h", CHANNEL]], "x");
    let mut closed = Vec::new();
    let mut position = 0;
    while closed.is_empty() && position <= 2 * HELD_POSITIONS_MAX as u64 {
        position += 1;
        let read = live_op(&bench.announce(&[position])).expect("read");
        closed = frames(&bench.live(read, &[(position, &event)]));
    }
    assert_eq!(
        closed,
        vec![r#"["CLOSED","s","error: too many events wait for this subscription"]"#]
    );
    assert_eq!(position, HELD_POSITIONS_MAX as u64 + 1);
}

#[test]
fn ephemeral_events_wait_for_eose_and_come_once() {
    let mut bench = Bench::member(Profile::Workspace);
    let tags = vec![vec!["h".to_owned(), CHANNEL.to_owned()]];
    let event = Draft {
        created_at: 5,
        kind: 20_100,
        tags,
        content: "typing".into(),
    }
    .sign(&secret(2));
    let filter = format!(r##"{{"kinds":[20100],"#h":["{CHANNEL}"]}}"##);
    bench.req(1, "s", &[&filter]);
    let effects = bench.step(Input::TopicActive {
        topic: topic(),
        generation: BusGeneration(1),
    });
    let op = history_op(&effects).expect("opens");
    let message = BusMessage::Ephemeral {
        channel: Some(channel_id()),
        event: Arc::new(event.clone()),
    };
    let read = live_op(&bench.step(Input::BusMessage {
        topic: topic(),
        message: message.clone(),
    }))
    .expect("access is read");
    assert!(frames(&bench.live(read, &[])).is_empty());
    let effects = bench.end_history(op, 0);
    let read = live_op(&effects).expect("access is read again");
    assert!(frames(&bench.live(read, &[]))[0].contains(&event.id.to_string()));
    let read = live_op(&bench.step(Input::BusMessage {
        topic: topic(),
        message,
    }))
    .expect("access is read");
    assert!(
        frames(&bench.live(read, &[])).is_empty(),
        "a repeated message is not delivered again"
    );
}

#[test]
fn a_sync_request_is_refused_on_its_id_where_sync_is_switched_off() {
    let mut config = config(Profile::Workspace);
    config.sync.is_enabled = false;
    let mut bench = Bench::with(config);
    bench.connect(1);
    bench.auth(1, 1);
    let text = format!(r##"["REQ","s",{{"artifact":"current","#h":["{CHANNEL}"]}}]"##);
    let message = ClientMessage::parse(&text).expect("a readable frame");
    let sent = frames(&bench.say(1, message));
    assert_eq!(sent.len(), 1);
    assert!(
        sent[0].starts_with(r#"["CLOSED","s","error: filter: not supported"#),
        "{sent:?}"
    );
}

#[test]
fn a_count_is_answered_with_a_number_or_closed() {
    let mut bench = Bench::member(Profile::Workspace);
    let ask = |bench: &mut Bench| {
        let filters = vec![Filter::from_json("{}").expect("an empty filter")];
        let effects = bench.say(
            1,
            ClientMessage::Count {
                sub: sub("c"),
                filters,
            },
        );
        effects
            .iter()
            .find_map(|effect| match effect {
                Effect::Query {
                    op,
                    kind: QueryKind::Count,
                    ..
                } => Some(*op),
                _ => None,
            })
            .expect("a count is a query")
    };
    let op = ask(&mut bench);
    let effects = bench.step(Input::Answer {
        op,
        answer: Ok(QueryAnswer::Count(3)),
    });
    assert_eq!(frames(&effects), vec![r#"["COUNT","c",{"count":3}]"#]);
    let op = ask(&mut bench);
    let effects = bench.step(Input::Answer {
        op,
        answer: Err(ReadFailure::Store),
    });
    assert_eq!(
        frames(&effects),
        vec![r#"["CLOSED","c","error: database error"]"#]
    );
}
