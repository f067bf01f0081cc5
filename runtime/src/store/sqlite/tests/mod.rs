//! Tests of the statements beside what the store contract asks of every store: agreement with the core's evaluator on rows that no
//! client can make, query plans, and constraints.

mod agreement;
mod explain;
mod wall;
mod world;
