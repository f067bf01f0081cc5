//! Any order of inputs keeps what every connection is promised; equal inputs give equal effects.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::nostr::RelayFrame;

/// One step of a random run; indices choose among what is in flight.
#[derive(Clone, Debug)]
enum Move {
    Req(u8, u8, u8),
    Close(u8, u8),
    Event(u8),
    Confirm,
    Page(u8, bool, u8),
    Announce(u8),
    Live(u8, bool),
    Submitted(u8),
    Published(u8, bool),
    Ledger(u8, bool),
    Drain(u8),
    BusDown,
    BusUp,
    Wait(u16),
    Reconnect(u8),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (0..2u8, 0..3u8, 0..3u8).prop_map(|(c, s, f)| Move::Req(c, s, f)),
        2 => (0..2u8, 0..3u8).prop_map(|(c, s)| Move::Close(c, s)),
        3 => (0..2u8).prop_map(Move::Event),
        4 => Just(Move::Confirm),
        5 => (any::<u8>(), any::<bool>(), 0..3u8).prop_map(|(n, last, rows)| Move::Page(n, last, rows)),
        5 => (0..40u8).prop_map(Move::Announce),
        5 => (any::<u8>(), prop::bool::weighted(0.8)).prop_map(|(n, ok)| Move::Live(n, ok)),
        3 => any::<u8>().prop_map(Move::Submitted),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(n, ok)| Move::Published(n, ok)),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(n, ok)| Move::Ledger(n, ok)),
        4 => (0..2u8).prop_map(Move::Drain),
        1 => Just(Move::BusDown),
        1 => Just(Move::BusUp),
        2 => (0..3000u16).prop_map(Move::Wait),
        1 => (0..2u8).prop_map(Move::Reconnect),
    ];
    prop::collection::vec(one, 1..150)
}

/// What a driver and two clients would know.
#[derive(Default)]
struct Outside {
    histories: Vec<OpId>,
    lives: Vec<OpId>,
    submits: Vec<OpId>,
    publishes: Vec<OpId>,
    ledgers: Vec<OpId>,
    topics: Vec<Topic>,
    generation: u64,
    queued: BTreeMap<ConnId, Vec<(Option<Generation>, RelayFrame)>>,
    live_generation: BTreeMap<(ConnId, SubId), Generation>,
    eose: BTreeMap<Generation, usize>,
    ended: BTreeMap<Generation, bool>,
    credits: BTreeMap<ConnId, i64>,
}

impl Outside {
    fn take(&mut self, effects: Vec<Effect>, queue_bytes: usize) {
        for effect in effects {
            match effect {
                Effect::OpenHistory { op, .. } | Effect::NextPage { op, .. } => {
                    assert!(
                        !self.histories.contains(&op),
                        "one page of a history at a time"
                    );
                    self.histories.push(op);
                }
                Effect::EndHistory { op } => self.histories.retain(|other| *other != op),
                Effect::ReadLive { op, .. } => self.lives.push(op),
                Effect::Submit { op, .. } => self.submits.push(op),
                Effect::Publish { op, .. } => self.publishes.push(op),
                Effect::ReadLedger { op, .. } => self.ledgers.push(op),
                Effect::Subscribe { topic } => self.topics.push(topic),
                Effect::Credit { conn } => *self.credits.entry(conn).or_default() -= 1,
                Effect::Purge { conn, generation } => {
                    self.ended.insert(generation, true);
                    if let Some(queue) = self.queued.get_mut(&conn) {
                        queue.retain(|(of, _)| *of != Some(generation));
                    }
                }
                Effect::Send {
                    conn,
                    generation,
                    frame,
                } => self.sent(conn, generation, frame, queue_bytes),
                _ => {}
            }
        }
    }

    fn sent(
        &mut self,
        conn: ConnId,
        generation: Option<Generation>,
        frame: RelayFrame,
        queue_bytes: usize,
    ) {
        if let Some(generation) = generation {
            let closed = matches!(frame, RelayFrame::Closed { .. });
            let ended = self.ended.insert(generation, closed);
            // A purge may precede the CLOSED of the same generation; an event or EOSE after either is a late frame.
            assert!(
                closed || ended != Some(true),
                "a late frame of an ended subscription: {frame:?}"
            );
            if let RelayFrame::Eose { .. } = frame {
                let count = self.eose.entry(generation).or_default();
                *count += 1;
                assert_eq!(*count, 1, "one EOSE per subscription");
            }
            if let RelayFrame::Event { sub, .. } = &frame {
                let newest = self
                    .live_generation
                    .entry((conn, sub.clone()))
                    .or_insert(generation);
                assert!(generation >= *newest, "a frame of a replaced subscription");
                *newest = generation;
            }
        }
        let queue = self.queued.entry(conn).or_default();
        queue.push((generation, frame));
        let bytes: usize = queue.iter().map(|(_, frame)| frame.len_bytes()).sum();
        assert!(
            bytes <= queue_bytes + crate::limits::CONTROL_RESERVE_BYTES,
            "the queue is bounded"
        );
    }
}

fn pick(list: &mut Vec<OpId>, n: u8) -> Option<OpId> {
    if list.is_empty() {
        None
    } else {
        Some(list.remove(n as usize % list.len()))
    }
}

fn filters(n: u8) -> Vec<String> {
    let named = format!(r##"{{"kinds":[9],"#h":["{CHANNEL}"]}}"##);
    match n {
        0 => vec![named],
        1 => vec![r#"{"kinds":[9]}"#.to_owned()],
        _ => vec![named, r#"{"kinds":[9],"limit":1}"#.to_owned()],
    }
}

fn event_at(position: u64) -> Event {
    let size = if position.is_multiple_of(7) {
        150_000
    } else {
        10
    };
    note(1, 100 + position, &[&["h", CHANNEL]], &"x".repeat(size))
}

/// Plays the moves and returns every effect; the promises are asserted on the way.
fn play(moves: &[Move]) -> Vec<Effect> {
    let mut config = config(Profile::Open);
    config.send_queue_bytes = Config::SEND_QUEUE_BYTES_MIN;
    let queue_bytes = config.send_queue_bytes;
    let mut bench = Bench {
        node: Node::new(config),
        now: Now {
            mono_ms: 1,
            wall_secs: 1_800_000_000,
        },
    };
    let mut outside = Outside::default();
    let mut all = Vec::new();
    let mut conns = [1u64, 2];
    let mut next_conn = 3;
    let mut begin = bench.connect(1);
    begin.extend(bench.connect(2));
    outside.take(begin, queue_bytes);
    for one in moves {
        let effects = match one {
            Move::Req(c, s, f) => {
                let conn = conns[*c as usize];
                *outside.credits.entry(ConnId(conn)).or_default() += 1;
                let texts = filters(*f);
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                bench.req(conn, &format!("s{s}"), &texts)
            }
            Move::Close(c, s) => {
                let conn = conns[*c as usize];
                *outside.credits.entry(ConnId(conn)).or_default() += 1;
                bench.say(
                    conn,
                    ClientMessage::Close {
                        sub: sub(&format!("s{s}")),
                    },
                )
            }
            Move::Event(c) => {
                let conn = conns[*c as usize];
                *outside.credits.entry(ConnId(conn)).or_default() += 1;
                let draft = Draft {
                    created_at: 1_800_000_000,
                    kind: 1,
                    tags: vec![],
                    content: "x".into(),
                };
                bench.say(conn, ClientMessage::Event(Box::new(draft.sign(&secret(3)))))
            }
            Move::Confirm => match outside.topics.pop() {
                Some(topic) => bench.step(Input::TopicActive {
                    topic,
                    generation: BusGeneration(outside.generation),
                }),
                None => vec![],
            },
            Move::Page(n, last, rows) => match pick(&mut outside.histories, *n) {
                Some(op) => {
                    let events: Vec<Event> = (0..u64::from(*rows)).map(event_at).collect();
                    let refs: Vec<&Event> = events.iter().collect();
                    let mut page = last_page(&refs, 5);
                    if !last {
                        page.end = None;
                    }
                    bench.step(Input::Page { op, page: Ok(page) })
                }
                None => vec![],
            },
            Move::Announce(position) => bench.announce(&[u64::from(*position)]),
            Move::Live(n, ok) => match pick(&mut outside.lives, *n) {
                Some(op) => {
                    let events: Vec<(u64, Event)> = (0..40).map(|p| (p, event_at(p))).collect();
                    let refs: Vec<(u64, &Event)> = events.iter().map(|(p, e)| (*p, e)).collect();
                    let rows = if *ok {
                        Ok(rows(&refs, Visibility::Open, &[]))
                    } else {
                        Err(ReadFailure::Store)
                    };
                    bench.step(Input::Live { op, rows })
                }
                None => vec![],
            },
            Move::Submitted(n) => match pick(&mut outside.submits, *n) {
                Some(op) => {
                    let signals = vec![signal(u64::from(*n), Change::Event)];
                    bench.step(Input::Submitted {
                        op,
                        outcome: SubmitOutcome::Stored {
                            message: String::new(),
                            signals,
                        },
                    })
                }
                None => vec![],
            },
            Move::Published(n, ok) => match pick(&mut outside.publishes, *n) {
                Some(op) => bench.step(Input::Published { op, ok: *ok }),
                None => vec![],
            },
            Move::Ledger(n, ok) => match pick(&mut outside.ledgers, *n) {
                Some(op) => {
                    let page = LedgerPage {
                        store: StoreGeneration(0),
                        signals: vec![(community(), signal(u64::from(*n), Change::Event))],
                        cursor: Cut::Position(Position(u64::from(*n))),
                        more: false,
                    };
                    bench.step(Input::Ledger {
                        op,
                        page: if *ok {
                            Ok(page)
                        } else {
                            Err(ReadFailure::Busy)
                        },
                    })
                }
                None => vec![],
            },
            Move::Drain(c) => {
                let conn = ConnId(conns[*c as usize]);
                let queue = std::mem::take(outside.queued.entry(conn).or_default());
                let bytes = queue.iter().map(|(_, frame)| frame.len_bytes()).sum();
                bench.step(Input::Drained {
                    conn,
                    bytes,
                    frames: queue.len(),
                })
            }
            Move::BusDown => {
                outside.topics.clear();
                bench.step(Input::BusDown)
            }
            Move::BusUp => {
                outside.topics.clear();
                outside.generation += 1;
                bench.step(Input::BusUp {
                    generation: BusGeneration(outside.generation),
                })
            }
            Move::Wait(ms) => bench.after(u64::from(*ms)),
            Move::Reconnect(c) => {
                let former = ConnId(std::mem::replace(&mut conns[*c as usize], next_conn));
                let mut effects = bench.step(Input::Disconnected { conn: former });
                outside.credits.remove(&former);
                outside.queued.remove(&former);
                effects.extend(bench.connect(next_conn));
                next_conn += 1;
                effects
            }
        };
        all.extend(effects.iter().cloned());
        let purged = purge_bytes(&outside, &effects);
        outside.take(effects, queue_bytes);
        for (conn, bytes, frames) in purged {
            let effects = bench.step(Input::Drained {
                conn,
                bytes,
                frames,
            });
            all.extend(effects.iter().cloned());
            outside.take(effects, queue_bytes);
        }
    }
    // Every message is credited once its answer is known: what is left are the events whose commit is open.
    let open = outside.submits.len() as i64;
    let owed: i64 = outside
        .credits
        .iter()
        .filter(|(conn, _)| conns.contains(&conn.0))
        .map(|(_, owed)| owed)
        .sum();
    assert!(owed >= 0 && owed <= open, "owed {owed}, open {open}");
    all
}

/// What the purges among these effects take out of the queues, to be reported as drained.
fn purge_bytes(outside: &Outside, effects: &[Effect]) -> Vec<(ConnId, usize, usize)> {
    effects
        .iter()
        .filter_map(|effect| {
            let Effect::Purge { conn, generation } = effect else {
                return None;
            };
            let queue = outside.queued.get(conn)?;
            let gone: Vec<usize> = queue
                .iter()
                .filter(|(of, _)| *of == Some(*generation))
                .map(|(_, frame)| frame.len_bytes())
                .collect();
            (!gone.is_empty()).then(|| (*conn, gone.iter().sum(), gone.len()))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_order_keeps_the_promises_and_is_repeatable(moves in moves()) {
        prop_assert_eq!(play(&moves), play(&moves));
    }
}
