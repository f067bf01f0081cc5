//! Judges a recorded history with its own reading of the rules.
//!
//! What will live here: the history format and one judge per named invariant, linear in the history. What must not: any
//! dependency on another crate of this workspace, since a judge that shares code with the accused proves nothing.
