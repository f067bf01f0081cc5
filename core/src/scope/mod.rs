//! The read-scope engine: which rows a filter of one reader may return, on every read path.
//!
//! What belongs here: the compilation of a filter and its reader into a [`ReadPlan`], and the evaluation of a plan on one row
//! and the access facts of the moment. What must not: SQL (each store translates a plan in one file), and any second opinion
//! about access elsewhere (S9).

mod compile;
mod eval;
mod index;
mod plan;
#[cfg(test)]
mod tests;

pub use compile::{Refusal, compile, compile_artifact};
pub use eval::{Access, Row, admits, head_matches, is_readable};
pub use index::{expires_at, index_terms};
pub use plan::{Audience, Cut, Gate, Page, PlanView, ReadPlan, Scope, Stamp, gate_of};
