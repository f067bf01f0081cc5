//! A recorder that goes blind for one event, so that a right run must be found wrong. Nothing else is falsified here.

use std::collections::BTreeMap;

use holdfast_checker::History;
use holdfast_checker::format::Record;

/// Takes the first EVENT of the first complete initial set out of a history. Says whether there was one.
pub fn blind(history: &mut History) -> bool {
    let mut first_events = BTreeMap::new();
    let mut found = None;
    for (at, line) in history.lines.iter().enumerate() {
        match &line.record {
            Record::Event { attempt, .. } => {
                first_events.entry(*attempt).or_insert(at);
            }
            Record::Eose { attempt, .. } => found = first_events.get(attempt).copied(),
            _ => {}
        }
        if found.is_some() {
            break;
        }
    }
    if let Some(at) = found {
        history.lines.remove(at);
    }
    found.is_some()
}
