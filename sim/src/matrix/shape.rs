//! What a run is narrowed to so that a situation occurs in few seeds: the fault families, limits and workload that it needs.
//! Narrowing only; every value is one that a drawn run could have.

use crate::options::{Family, Options};

/// Exactly these fault families.
pub(super) fn only(options: &mut Options, families: &[Family]) {
    options.families = families.to_vec();
    options.families.sort();
    if !families.is_empty() {
        options.fault_percent = options.fault_percent.max(5);
    }
}

/// Small pages out of sets that take several of them.
pub(super) fn many_pages(options: &mut Options) {
    options.page_rows = 1;
    options.artifacts = options.artifacts.max(6);
    options.max_events = 8;
}

/// Several values of the filtered tag, so that artifacts enter and leave.
pub(super) fn entering_and_leaving(options: &mut Options) {
    options.tag_values = 3;
    options.artifacts = options.artifacts.max(4);
    options.max_events = 8;
    options.workload.update = 14;
}

/// Moves between channels that not everybody can read.
pub(super) fn moving(options: &mut Options) {
    options.channels = options.channels.max(3);
    options.artifacts = options.artifacts.max(4);
    options.max_events = 8;
    options.workload.relocate = 10;
    options.workload.membership = 2;
}

/// Memberships and visibilities that change.
pub(super) fn access(options: &mut Options) {
    options.channels = options.channels.max(2);
    options.workload.membership = 6;
    options.workload.channel = 2;
}

/// Redactions.
pub(super) fn redacting(options: &mut Options) {
    options.workload.redact = 6;
    options.max_events = 8;
}

/// Quick changes of few artifacts.
pub(super) fn quick(options: &mut Options) {
    options.artifacts = 3;
    options.writers = 4;
    options.max_events = 8;
    options.workload.update = 16;
}

/// The sweep runs.
pub(super) fn sweeping(options: &mut Options) {
    if options.sweep_interval_ms == 0 {
        options.sweep_interval_ms = 500;
    }
}

/// At least two nodes.
pub(super) fn two_nodes(options: &mut Options) {
    options.nodes = options.nodes.max(2);
}
