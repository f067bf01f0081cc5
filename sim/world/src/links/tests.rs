//! Links against random readers, windows and purges: no byte and no frame appears, vanishes or changes its place unseen.

use std::collections::BTreeMap;

use holdfast_core::nostr::SubId;
use proptest::prelude::*;

use super::*;

const CONN: ConnId = ConnId(1);
const STALL_MS: u64 = 3_000;

fn notice(text: &str) -> RelayFrame {
    RelayFrame::Notice {
        text: text.to_owned(),
    }
}

fn event(json: &str) -> RelayFrame {
    RelayFrame::Event {
        sub: SubId::new("s").expect("short"),
        json: json.into(),
    }
}

fn send(links: &mut Links, generation: Option<u64>, frame: RelayFrame) {
    links.perform(&Effect::Send {
        conn: CONN,
        generation: generation.map(Generation),
        frame,
    });
}

fn one_link(credits: u32, window_bytes: usize) -> Links {
    let mut links = Links::new(credits, STALL_MS);
    links.set_window(window_bytes);
    links.open(CONN);
    links
}

/// A frame that the relay cannot read.
fn nonsense() -> Sent {
    ClientMessage::parse("nonsense")
}

#[test]
fn a_frame_counts_as_sent_when_all_of_it_is_written() {
    let mut links = one_link(1, 0);
    links.set_reader(CONN, Reader::Slow { bytes: 10 });
    let frame = notice("twenty bytes of text");
    let length = frame.len_bytes();
    send(&mut links, None, frame.clone());
    let mut steps = 0;
    let last = loop {
        assert_eq!(links.unsent(CONN), (length, 1));
        steps += 1;
        let outcome = links.step(LinkStep::Flush(CONN));
        if !outcome.inputs.is_empty() {
            break outcome;
        }
        assert!(outcome.read.is_empty());
    };
    assert_eq!(steps, length.div_ceil(10));
    assert_eq!(last.read, [(None, frame)]);
    let drained = Input::Drained {
        conn: CONN,
        bytes: length,
        frames: 1,
    };
    assert_eq!(last.inputs, [drained]);
    assert_eq!(
        (links.unsent(CONN), links.runnable(0)),
        ((0, 0), Vec::new())
    );
}

#[test]
fn what_lies_in_the_window_is_sent_for_the_relay_and_cannot_be_purged() {
    let mut links = one_link(1, 1_000);
    links.set_reader(CONN, Reader::Stalled);
    send(&mut links, Some(1), event("1"));
    let outcome = links.step(LinkStep::Flush(CONN));
    assert_eq!(outcome.inputs.len(), 1, "drained though nobody has read");
    send(&mut links, Some(1), event("2"));
    let purge = Effect::Purge {
        conn: CONN,
        generation: Generation(1),
    };
    let purged = Input::Drained {
        conn: CONN,
        bytes: event("2").len_bytes(),
        frames: 1,
    };
    assert_eq!(links.perform(&purge), [purged]);
    assert!(
        links.perform(&purge).is_empty(),
        "nothing is reported twice"
    );
    assert!(!links.is_quiet());
    links.set_reader(CONN, Reader::Fast);
    assert_eq!(links.runnable(0), [LinkStep::Read(CONN)]);
    let read = links.step(LinkStep::Read(CONN)).read;
    assert_eq!(read, [(Some(Generation(1)), event("1"))]);
    assert!(links.is_quiet());
}

#[test]
fn a_stalled_reader_costs_its_connection_after_the_stall_time_and_a_slow_one_does_not() {
    for window_bytes in [0, 8] {
        let mut links = one_link(1, window_bytes);
        links.set_reader(CONN, Reader::Stalled);
        send(&mut links, None, notice("something longer than the window"));
        if window_bytes > 0 {
            links.step(LinkStep::Flush(CONN));
        }
        links.tell_time(500);
        assert_eq!(links.next_deadline_ms(), Some(500 + STALL_MS));
        assert_eq!(links.runnable(499 + STALL_MS), []);
        assert_eq!(links.runnable(500 + STALL_MS), [LinkStep::End(CONN)]);
        links.set_reader(CONN, Reader::Slow { bytes: 1 });
        links.tell_time(1_000);
        assert_eq!(links.next_deadline_ms(), None);
        assert_eq!(links.runnable(9_000).len(), 1, "it moves on");
        assert_ne!(links.runnable(9_000), [LinkStep::End(CONN)]);
    }
}

#[test]
fn the_relay_takes_as_many_messages_as_it_has_credits_for() {
    let mut links = one_link(2, 0);
    for _ in 0..3 {
        links.send(CONN, nonsense());
    }
    for number in [1, 2] {
        assert_eq!(links.step(LinkStep::Receive(CONN)).received, Some(number));
    }
    assert_eq!(links.runnable(0), []);
    links.perform(&Effect::Credit { conn: CONN });
    assert_eq!(links.step(LinkStep::Receive(CONN)).received, Some(3));
}

#[test]
fn a_close_lets_control_frames_out_first_and_then_ends() {
    let mut links = one_link(1, 1_000);
    send(&mut links, Some(1), event("never"));
    send(&mut links, None, notice("bye"));
    links.send(CONN, nonsense());
    links.perform(&Effect::Close {
        conn: CONN,
        reason: CloseReason::SlowReader,
    });
    assert_eq!(links.runnable(0), [LinkStep::Flush(CONN)]);
    assert!(links.step(LinkStep::Flush(CONN)).read.is_empty());
    assert!(links.runnable(0).contains(&LinkStep::End(CONN)));
    let end = links.step(LinkStep::End(CONN));
    assert_eq!(end.read, [(None, notice("bye"))]);
    assert_eq!(end.inputs, [Input::Disconnected { conn: CONN }]);
    assert!(end.is_over && !links.is_open(CONN));
}

#[test]
fn a_cut_loses_everything_and_a_hang_up_only_what_the_client_did_not_read() {
    for is_cut in [true, false] {
        let mut links = one_link(4, 1_000);
        send(&mut links, None, notice("unread"));
        links.step(LinkStep::Flush(CONN));
        links.send(CONN, nonsense());
        if is_cut {
            links.cut(CONN);
        } else {
            links.hang_up(CONN);
            assert_eq!(links.runnable(0), [LinkStep::Receive(CONN)]);
            assert_eq!(links.step(LinkStep::Receive(CONN)).inputs.len(), 1);
        }
        assert_eq!(links.send(CONN, nonsense()), None);
        assert_eq!(links.runnable(0), [LinkStep::End(CONN)]);
        let end = links.step(LinkStep::End(CONN));
        assert_eq!(end.inputs, [Input::Disconnected { conn: CONN }]);
        assert!(end.read.is_empty());
        assert_eq!(links.conns().count(), 0);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(Option<u64>, usize),
    Purge(u64),
    Reader(Reader),
    Step(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let reader = prop_oneof![
        Just(Reader::Fast),
        (0usize..40).prop_map(|bytes| Reader::Slow { bytes }),
        Just(Reader::Stalled),
    ];
    prop_oneof![
        4 => (prop::option::of(0u64..3), 0usize..50).prop_map(|(lane, size)| Op::Send(lane, size)),
        1 => (0u64..3).prop_map(Op::Purge),
        1 => reader.prop_map(Op::Reader),
        6 => (0usize..4).prop_map(Op::Step),
    ]
}

/// What was put in and what came out.
#[derive(Default)]
struct Ledger {
    queued: Tally,
    drained: Tally,
    purged_frames: usize,
    purged: BTreeMap<u64, usize>,
    sent: BTreeMap<Option<u64>, Vec<RelayFrame>>,
    read: BTreeMap<Option<u64>, Vec<RelayFrame>>,
    read_frames: usize,
}

impl Ledger {
    fn take(&mut self, inputs: &[Input]) {
        for input in inputs {
            let Input::Drained { bytes, frames, .. } = input else {
                panic!("only drained frames are reported here: {input:?}");
            };
            self.drained.bytes += bytes;
            self.drained.frames += frames;
        }
    }
}

proptest! {
    /// Every byte that was queued is unsent or was reported exactly once; every frame that was sent is read once, in the order of
    /// its generation; a purged frame is not read.
    #[test]
    fn bytes_frames_and_order_are_kept(ops in prop::collection::vec(op(), 0..160), window_bytes in 0usize..120) {
        let mut links = one_link(1, window_bytes);
        let mut ledger = Ledger::default();
        for (serial, op) in ops.into_iter().enumerate() {
            match op {
                Op::Send(lane, size) => {
                    let frame = event(&format!("{serial}{}", "x".repeat(size)));
                    ledger.queued.add(&frame);
                    ledger.sent.entry(lane).or_default().push(frame.clone());
                    send(&mut links, lane, frame);
                }
                Op::Purge(lane) => {
                    let inputs = links.perform(&Effect::Purge { conn: CONN, generation: Generation(lane) });
                    let before = ledger.drained.frames;
                    ledger.take(&inputs);
                    let purged = ledger.drained.frames - before;
                    // The purged frames are the newest of their lane: what is written or being written goes out.
                    let sent = ledger.sent.entry(Some(lane)).or_default();
                    prop_assert!(purged <= sent.len());
                    sent.truncate(sent.len() - purged);
                    ledger.purged_frames += purged;
                    *ledger.purged.entry(lane).or_default() += purged;
                }
                Op::Reader(reader) => links.set_reader(CONN, reader),
                Op::Step(which) => {
                    let steps = links.runnable(0);
                    if !steps.is_empty() {
                        let outcome = links.step(steps[which % steps.len()]);
                        ledger.take(&outcome.inputs);
                        for (generation, frame) in outcome.read {
                            let lane = generation.map(|generation| generation.0);
                            ledger.read.entry(lane).or_default().push(frame);
                            ledger.read_frames += 1;
                        }
                    }
                }
            }
            let (bytes, frames) = links.unsent(CONN);
            prop_assert_eq!(ledger.queued.bytes, ledger.drained.bytes + bytes);
            prop_assert_eq!(ledger.queued.frames, ledger.drained.frames + frames);
            prop_assert!(ledger.read_frames + ledger.purged_frames <= ledger.drained.frames, "read before it was sent");
            prop_assert_eq!(links.unsent_generations().count() == 0, !ledger_has_lanes(&links));
        }
        links.set_reader(CONN, Reader::Fast);
        while let Some(step) = links.runnable(0).first().copied() {
            let outcome = links.step(step);
            ledger.take(&outcome.inputs);
            for (generation, frame) in outcome.read {
                ledger.read.entry(generation.map(|generation| generation.0)).or_default().push(frame);
            }
        }
        prop_assert!(links.is_quiet());
        ledger.sent.retain(|_, frames| !frames.is_empty());
        prop_assert_eq!(ledger.read, ledger.sent);
        prop_assert_eq!(ledger.drained, ledger.queued);
    }

    /// Frames without generation are never behind frames of a generation that were not being written when they came.
    #[test]
    fn control_frames_go_first(before in 0usize..5, controls in 1usize..4) {
        let mut links = one_link(1, 0);
        for n in 0..before {
            send(&mut links, Some(n as u64 % 2), event(&n.to_string()));
        }
        for n in 0..controls {
            send(&mut links, None, notice(&n.to_string()));
        }
        let read = links.step(LinkStep::Flush(CONN)).read;
        prop_assert!(read[..controls].iter().all(|(generation, _)| generation.is_none()));
        prop_assert_eq!(read.len(), before + controls);
    }
}

/// Frames of a generation wait or are being written.
fn ledger_has_lanes(links: &Links) -> bool {
    let link = &links.links[&CONN];
    let is_current = matches!(&link.current, Some(((Some(_), _), _)));
    is_current || link.queue.generations().next().is_some()
}
