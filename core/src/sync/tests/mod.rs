//! Tests of the sync session, written from the rules. `world` is the truth, `client` a client, `play` an owner
//! and a store around one session that check everything it says; the other files are scenes and the property over random scenes.

mod client;
mod live;
#[cfg(feature = "mutants")]
mod mutants;
mod play;
mod property;
mod reading;
mod world;
