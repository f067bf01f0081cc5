//! Any sequence of inputs against a naive model of the rules.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// One input; frames name the open subscription, an earlier one, or one that never was.
#[derive(Clone, Debug)]
enum Move {
    Start(bool),
    Stop,
    Connected(bool),
    Disconnected,
    Event { whose: u8, n: u8, id: u8, form: u8 },
    Eose { whose: u8 },
    Closed { whose: u8, prefix: u8 },
    Unreadable,
    Pass { ms: u64 },
    Woken { due: bool },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let whose = || prop_oneof![8 => Just(0u8), 1 => Just(1), 1 => Just(2)];
    let one = prop_oneof![
        2 => prop::bool::weighted(0.7).prop_map(Move::Start),
        1 => Just(Move::Stop),
        6 => prop::bool::weighted(0.9).prop_map(Move::Connected),
        2 => Just(Move::Disconnected),
        14 => (whose(), 1..6u8, 1..9u8, 0..12u8)
            .prop_map(|(whose, n, id, form)| Move::Event { whose, n, id: 10 * n + id, form }),
        6 => whose().prop_map(|whose| Move::Eose { whose }),
        3 => (whose(), 0..5u8).prop_map(|(whose, prefix)| Move::Closed { whose, prefix }),
        1 => Just(Move::Unreadable),
        3 => (0..40_000u64).prop_map(|ms| Move::Pass { ms }),
        8 => prop::bool::weighted(0.9).prop_map(|due| Move::Woken { due }),
    ];
    prop::collection::vec(one, 1..200)
}

/// What the rules say a client has and has sent, in the plainest form.
#[derive(Default)]
struct Model {
    /// The open subscription, what it brought so far, and whether its EOSE has come.
    open: Option<(SubId, BTreeMap<ArtifactId, EventId>, bool)>,
    set: Option<BTreeMap<ArtifactId, EventId>>,
    used: BTreeSet<String>,
    earlier: Vec<SubId>,
    /// The user has asked and got no last word yet.
    is_busy: bool,
    failures_in_row: u32,
}

impl Model {
    fn name(&self, whose: u8) -> SubId {
        let other = || SubId::new("elsewhere").unwrap();
        match whose {
            0 => self
                .open
                .as_ref()
                .map_or_else(other, |(sub, ..)| sub.clone()),
            1 => self.earlier.last().cloned().unwrap_or_else(other),
            _ => other(),
        }
    }

    fn is_open(&self, name: &str) -> bool {
        self.open
            .as_ref()
            .is_some_and(|(sub, ..)| sub.as_str() == name)
    }

    fn is_live(&self) -> bool {
        self.open.as_ref().is_some_and(|(.., is_live)| *is_live)
    }

    /// A head or removal that the open subscription brought.
    fn entry(&mut self, event: &Event, belongs: bool) {
        let artifact: ArtifactId = event.only_value("d").unwrap().parse().unwrap();
        let Some((_, received, is_live)) = &mut self.open else {
            return;
        };
        let target = match (is_live, &mut self.set) {
            (true, Some(set)) => set,
            _ => received,
        };
        if belongs {
            target.insert(artifact, event.id);
        } else {
            target.remove(&artifact);
        }
    }

    fn eose(&mut self) {
        if let Some((_, received, is_live)) = &mut self.open
            && !std::mem::replace(is_live, true)
        {
            self.set = Some(received.clone());
            self.failures_in_row = 0;
        }
    }

    /// Takes up what the replica asked for, and checks it.
    fn heed(&mut self, desk: &Desk, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Req { sub, .. } => {
                    assert!(self.used.insert(sub.to_string()), "an id is used once");
                    assert!(self.open.is_none(), "one sync at a time");
                    self.open = Some((sub.clone(), BTreeMap::new(), false));
                }
                Effect::Close { sub } => {
                    assert!(self.is_open(sub.as_str()), "only what is open is closed")
                }
                Effect::Failed(_) => self.failures_in_row += 1,
                Effect::Done(_) => self.is_busy = false,
                Effect::RetryAt { at_mono_ms } => {
                    let (least, greatest) = config().backoff.range_ms(self.failures_in_row);
                    let delay_ms = at_mono_ms - desk.now_ms;
                    assert!(
                        (least..=greatest).contains(&delay_ms),
                        "after {} failures",
                        self.failures_in_row
                    );
                }
                _ => {}
            }
            // What ends a sync at the client forgets what it brought.
            if matches!(effect, Effect::Close { .. } | Effect::Failed(_))
                && let Some((sub, ..)) = self.open.take()
            {
                self.earlier.push(sub);
            }
        }
    }
}

/// The event of a move, and whether it belongs to the set.
fn entry(n: u8, id: u8, form: u8) -> (Arc<Event>, bool) {
    match form {
        0 => (moved(n), false),
        1 => (revision(n, id, "delete", CHANNEL, "A"), false),
        2 => (revision(n, id, "update", CHANNEL, "C"), false),
        3 => (revision(n, id, "move", ELSEWHERE, "B"), false),
        4 => (revision(n, id, "restore", CHANNEL, "B"), true),
        _ => (head(n, id), true),
    }
}

fn input(model: &Model, desk: &mut Desk, step: &Move) -> Option<Input> {
    let jitter = desk.random();
    Some(match *step {
        Move::Start(follow) => Input::Start {
            mode: if follow { Mode::Follow } else { Mode::Once },
            jitter,
        },
        Move::Stop => Input::Stop,
        Move::Connected(offers) => Input::Connected {
            sync: offer(if offers { 100 } else { 0 }),
        },
        Move::Disconnected => Input::Disconnected,
        Move::Event { whose, n, id, form } => Input::Heard(SyncFrame::Event {
            sub: model.name(whose),
            event: entry(n, id, form).0,
        }),
        Move::Eose { whose } => Input::Heard(SyncFrame::Eose {
            sub: model.name(whose),
        }),
        Move::Closed { whose, prefix } => Input::Heard(SyncFrame::Closed {
            sub: model.name(whose).to_string(),
            message: ["resync: x", "restricted: x", "error: x", "odd: x", "x"][prefix as usize]
                .to_owned(),
        }),
        Move::Unreadable => Input::Unreadable,
        Move::Pass { ms } => {
            desk.now_ms += ms;
            return None;
        }
        Move::Woken { due } => {
            if due && let Some(wakeup) = desk.replica.next_wakeup() {
                desk.now_ms = desk.now_ms.max(wakeup.at_mono_ms);
            }
            Input::Woken { jitter }
        }
    })
}

/// Takes one step: first the model, by the rules, then the replica, whose effects the model checks.
fn advance(desk: &mut Desk, model: &mut Model, step: &Move) -> Vec<Effect> {
    let Some(input) = input(model, desk, step) else {
        return Vec::new();
    };
    match (step, &input) {
        // A removal before EOSE is no entry but a breach.
        (Move::Event { n, id, form, .. }, Input::Heard(frame))
            if model.is_open(frame.sub()) && (*form != 0 || model.is_live()) =>
        {
            let (event, belongs) = entry(*n, *id, *form);
            model.entry(&event, belongs);
        }
        (Move::Eose { .. }, Input::Heard(frame)) if model.is_open(frame.sub()) => model.eose(),
        (Move::Start(_), _) if !std::mem::replace(&mut model.is_busy, true) => {
            model.failures_in_row = 0;
        }
        _ => {}
    }
    let effects = desk.step(input);
    model.heed(desk, &effects);
    effects
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_local_set_is_what_the_rules_say(steps in moves()) {
        rules!("AR-SYNC-7a", "AR-SYNC-7b", "AR-SYNC-7c", "AR-SYNC-7e", "AR-SYNC-REQ-20", "AR-SYNC-8b");
        let (mut desk, mut model) = (Desk::new(config()), Model::default());
        for step in &steps {
            let effects = advance(&mut desk, &mut model, step);
            prop_assert_eq!(desk.held(), model.set.clone(), "after {:?}", step);
            prop_assert_eq!(desk.replica.sub(), model.open.as_ref().map(|(sub, ..)| sub));
            prop_assert_eq!(desk.replica.failures_in_row(), model.failures_in_row);
            prop_assert_eq!(desk.replica.is_live(), model.is_live());
            if effects.contains(&Effect::Replaced) {
                prop_assert!(desk.replica.stale().is_none());
            }
            if effects.iter().any(|effect| matches!(effect, Effect::Failed(_))) {
                prop_assert_eq!(desk.replica.stale().is_some(), model.set.is_some());
            }
        }
    }

    #[test]
    fn equal_inputs_give_equal_states_and_effects(steps in moves()) {
        rules!("AR-SYNC-7e");
        let run = || {
            let (mut desk, mut model) = (Desk::new(config()), Model::default());
            let effects: Vec<_> = steps.iter().flat_map(|step| advance(&mut desk, &mut model, step)).collect();
            (desk.replica, effects)
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn a_replica_left_alone_with_a_good_relay_reaches_the_set(steps in moves()) {
        rules!("AR-SYNC-REQ-25", "AR-SYNC-5j", "AR-SYNC-7d");
        let (mut desk, mut model) = (Desk::new(config()), Model::default());
        for step in &steps {
            advance(&mut desk, &mut model, step);
        }
        let mut effects = desk.start(Mode::Follow);
        for _ in 0..3 {
            if desk.replica.sub().is_some() {
                break;
            }
            effects = if desk.replica.next_wakeup().is_some() {
                desk.wake_when_due()
            } else {
                desk.step(Input::Connected { sync: offer(100) })
            };
        }
        request(&effects);
        desk.hear_event(head(1, 10));
        desk.hear_eose();
        prop_assert_eq!(desk.held(), ids(&[(1, 10)]));
        prop_assert!(desk.replica.is_live());
    }
}
