//! Any text is an event or an error; an event survives its own serialisation with the same id, and its envelope is judged.
#![no_main]

use holdfast_core::artifact::Envelope;
use holdfast_core::nostr::Event;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(event) = Event::from_json(text) {
        let again = Event::from_json(&event.to_json()).expect("what is served can be read");
        assert_eq!(again, event);
        assert_eq!(again.compute_id(), event.compute_id());
        let _ = Envelope::parse(&event);
    }
});
