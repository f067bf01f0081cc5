//! Any text is a client message or a problem with a bounded answer; an answer is one JSON array.
#![no_main]

use holdfast_core::nostr::ClientMessage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(problem) = ClientMessage::parse(text) {
        let frame = problem.into_frame();
        let answer = frame.to_text();
        assert_eq!(answer.len(), frame.len_bytes());
        assert!(answer.len() < 8_192, "the answer's length does not follow the frame's");
        assert!(answer.starts_with('[') && answer.ends_with(']'));
    }
});
