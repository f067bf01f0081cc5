//! Any order of commands and messages by a few people in a few channels: what then holds.
//!
//! The in-memory store checks on its way: writes were locked, ids are new, slots hold one readable event, positions and access
//! stamps rise, a decision repeats exactly.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::accept::{Change, Write};
use crate::channel::{Role, state};
use crate::nostr::kinds;
use crate::rules;

const PEOPLE: u8 = 5;
const CHANNELS: u8 = 3;

/// One step: who does what, where, to whom, and how long after the step before.
#[derive(Clone, Debug)]
struct Step {
    by: u8,
    action: u8,
    channel: u8,
    target: u8,
    detail: u8,
    wait_us: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![Just(0u64), Just(1), Just(2_000_000)];
    let step = (1..=PEOPLE, 0u8..16, 1..=CHANNELS, 1..=PEOPLE, 0u8..8, wait).prop_map(
        |(by, action, channel, target, detail, wait_us)| Step {
            by,
            action,
            channel,
            target,
            detail,
            wait_us,
        },
    );
    prop::collection::vec(step, 1..60)
}

/// The event of a step; creations are frequent, deletions of channels rare.
fn event_of(model: &mut Model, step: &Step) -> Event {
    let h = channel_id(step.channel).to_string();
    let p = pubkey(step.target).to_string();
    let h: &[&str] = &["h", &h];
    let pick = |from: &[&'static str]| from[usize::from(step.detail) % from.len()];
    let role = pick(&["", "owner", "admin", "member", "bot", "guest"]);
    let setting: [&str; 2] = match step.detail {
        0 => ["archived", "true"],
        1 | 2 => ["archived", "false"],
        3 => ["visibility", "private"],
        4 => ["visibility", "open"],
        5 => ["topic", "t"],
        6 => ["name", "a"],
        _ => ["name", "b"],
    };
    let target = model
        .visible()
        .iter()
        .rev()
        .filter(|stored| stored.channel == Some(channel_id(step.channel)))
        .nth(usize::from(step.detail))
        .map_or_else(|| "ab".repeat(32), |stored| stored.event.id.to_string());
    let by = step.by;
    match step.action {
        0..=2 => {
            let channel_type = pick(&["stream", "system"]);
            model.event(
                by,
                9007,
                &[h, &["name", "x"], &["channel_type", channel_type]],
            )
        }
        3..=6 => model.event(by, 9000, &[h, &["p", &p, role]]),
        7 | 8 => model.event(by, 9001, &[h, &["p", &p]]),
        9 | 10 => model.event(by, 9002, &[h, &setting]),
        11 => model.event(by, 9021, &[h]),
        12 => model.event(by, 9022, &[h]),
        13 => model.event(by, 9005, &[h, &["e", &target]]),
        14 if step.detail == 0 => model.event(by, 9008, &[h]),
        14 => model.event(by, 5, &[h, &["e", &target]]),
        _ => model.event(by, kinds::CHAT, &[h]),
    }
}

/// Tags and roster of every channel, as its newest state events must tell them.
fn check_state(model: &Model) {
    for (id, channel) in &model.channels {
        let roster = model.roster(*id);
        let told = [39000, 39001, 39002].map(|kind| model.newest(kind, *id));
        if channel.deleted {
            assert_eq!(told, [None, None, None]);
            continue;
        }
        assert!(
            roster.iter().any(|member| member.role == Role::Owner),
            "an owner stays"
        );
        let told = told.map(|event| event.expect("a channel has its state").tags);
        let expected = [
            state::metadata_tags(channel),
            state::admins_tags(channel, &roster),
            state::members_tags(channel, &roster),
        ];
        assert_eq!(told, expected);
        let listed: BTreeSet<&str> = told[2]
            .iter()
            .filter(|tag| tag[0] == "p")
            .map(|tag| tag[1].as_str())
            .collect();
        assert_eq!(listed.len(), roster.len());
    }
}

/// Memberships as the notices alone tell them: the last word of each (channel, key).
fn check_notices(model: &Model) {
    let mut told: BTreeMap<(ChannelId, String), u16> = BTreeMap::new();
    for row in model
        .ledger
        .iter()
        .filter(|row| row.change == Change::Event)
    {
        let event = &model.events[&row.event.unwrap()].stored.event;
        if event.kind >= 44100 {
            let channel = event.channel_tag().unwrap();
            told.insert(
                (channel, event.first_value("p").unwrap().to_owned()),
                event.kind,
            );
        }
    }
    for ((channel, key), kind) in told {
        let member = model.members.contains_key(&(channel, key.parse().unwrap()));
        let expected = member && !model.channels[&channel].deleted;
        assert_eq!(kind == 44100, expected, "{key} in {channel}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn state_notices_and_rosters_agree_after_any_order_of_commands(steps in steps()) {
        rules!("CL-ID-1", "CL-NTC-2");
        let mut model = Model::new(Profile::Workspace);
        let mut accepted: Vec<Event> = vec![];
        let mut stamps: BTreeMap<ChannelId, u64> = BTreeMap::new();
        for step in &steps {
            model.clock_us += step.wait_us;
            let event = event_of(&mut model, step);
            let before = model.clone();
            match model.submit(event.clone()) {
                Ok(text) if text.is_empty() => accepted.push(event),
                Ok(text) => {
                    prop_assert!(text.starts_with("duplicate: "), "{}", text);
                    prop_assert_eq!(&model.ledger, &before.ledger);
                }
                Err(_) => prop_assert_eq!(
                    (&model.ledger, &model.events, &model.members),
                    (&before.ledger, &before.events, &before.members)
                ),
            }
            check_state(&model);
            for (id, channel) in &model.channels {
                let last = stamps.insert(*id, channel.access_stamp.0).unwrap_or(0);
                prop_assert!(last <= channel.access_stamp.0);
            }
        }
        check_notices(&model);
        // Whatever was accepted is known for ever and changes nothing again.
        let before = model.ledger.len();
        for event in accepted {
            let answer = model.submit(event);
            let deleted = Err("blocked: this event was deleted by its author".to_owned());
            prop_assert!(answer == unchanged("already have this event") || answer == deleted);
        }
        prop_assert_eq!(model.ledger.len(), before);
    }

    #[test]
    fn every_stored_event_has_exactly_one_row_of_its_own(steps in steps()) {
        let mut model = Model::new(Profile::Workspace);
        for step in &steps {
            model.clock_us += step.wait_us;
            let event = event_of(&mut model, step);
            let keys = BTreeSet::from([event.pubkey]);
            let decision = model.submit_as(event, keys);
            if let crate::accept::Decision::Write { writes, .. } = decision {
                let stored = writes.iter().filter(|write| matches!(write, Write::Store(_))).count();
                let rows = |write: &&Write| matches!(write, Write::Ledger(row) if row.change == Change::Event);
                prop_assert_eq!(stored, writes.iter().filter(rows).count());
            }
        }
        let announced: BTreeSet<_> = model.ledger.iter()
            .filter(|row| row.change == Change::Event)
            .map(|row| row.event.unwrap())
            .collect();
        prop_assert_eq!(announced, model.events.keys().copied().collect::<BTreeSet<_>>());
    }
}
