//! Fixtures: small histories written by hand, good and bad, each with what must be said about it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use holdfast_checker::Invariant::{self, *};
use holdfast_checker::{History, HistoryError, Report, judge};

/// Histories of a relay that keeps the rules. Those whose names begin with `n` are the situations that look wrong and are not.
const GOOD: &[&str] = &[
    "good-access",
    "good-archive-and-role",
    "good-backlog",
    "good-final-state",
    "good-live",
    "good-move-out-of-sight",
    "good-move-to-a-readable-channel",
    "good-replica",
    "good-restricted",
    "good-retired",
    "good-seen-from-outside",
    "good-too-large",
    "n01-crash-before-publish",
    "n02-head-repeated",
    "n03-revision-skipped",
    "n04-every-sync-resynced",
    "n05-late-retry",
    "n06-held-change-in-snapshot",
    "n07-stop-before-publish",
    "n08-bus-down",
    "n09-leaving-head",
    "n10-old-revision-redacted",
];

/// Histories that break a rule: which invariants are broken, and the first rule and line in the report.
const BAD: &[(&str, &[Invariant], &str, usize)] = &[
    ("bad-access-deletion", &[AccessResync], "AR-SYNC-9c", 27),
    ("bad-access-membership", &[AccessResync], "AR-SYNC-9a", 27),
    ("bad-access-visibility", &[AccessResync], "AR-SYNC-9b", 27),
    ("bad-atomic-no-removal", &[Atomic], "AR-MOVE-4", 18),
    ("bad-atomic-removal-alone", &[Atomic], "AR-MOVE-4", 18),
    ("bad-bound-bytes", &[Bound], "AR-SYNC-8c", 25),
    ("bad-bound-held", &[Bound], "AR-SYNC-1j", 23),
    ("bad-bound-large-set", &[Bound], "AR-SYNC-8a", 34),
    ("bad-bound-snapshot", &[Bound], "AR-SYNC-2j", 23),
    ("bad-cause-archive", &[Cause], "AR-SYNC-9e", 27),
    (
        "bad-cause-backlog-counts-changes",
        &[Cause],
        "AR-SYNC-1k",
        46,
    ),
    ("bad-cause-budget", &[Cause], "AR-SYNC-2l", 20),
    ("bad-cause-hang-up", &[Cause], "AR-SYNC-5i", 25),
    ("bad-cause-no-loss", &[Cause], "AR-SYNC-5h", 25),
    (
        "bad-cause-old-revision-redacted",
        &[Cause],
        "AR-SYNC-6a",
        32,
    ),
    ("bad-cause-registering", &[Cause], "AR-SYNC-1d", 22),
    ("bad-cause-role", &[Cause], "AR-SYNC-9e", 27),
    ("bad-cause-unknown-text", &[Cause], "AR-SYNC-REQ-29", 25),
    ("bad-chain-ok-without-commit", &[Chain], "AR-ID-8", 19),
    ("bad-chain-resubmission-refused", &[Chain], "AR-ID-11", 19),
    ("bad-chain-two-winners", &[Chain], "AR-ID-7", 23),
    ("bad-chain-update-after-delete", &[Chain], "AR-DEL-7", 23),
    ("bad-chain-final-head", &[Chain], "AR-CUR-1", 26),
    ("bad-digest-of-the-store", &[Digest], "AR-DIGEST-4", 26),
    ("bad-clean-session", &[Clean], "AR-SYNC-8d", 27),
    ("bad-clean-snapshot", &[Clean], "AR-SYNC-8d", 23),
    (
        "bad-client-delay-does-not-grow",
        &[Client],
        "AR-SYNC-7e",
        33,
    ),
    ("bad-client-id-used-again", &[Client], "AR-SYNC-7d", 30),
    ("bad-client-no-delay", &[Client], "AR-SYNC-7e", 29),
    (
        "bad-client-not-stale-after-error",
        &[Client],
        "AR-SYNC-REQ-28",
        35,
    ),
    ("bad-client-set-before-eose", &[Client], "AR-SYNC-7a", 34),
    (
        "bad-client-set-lost-with-the-connection",
        &[Client],
        "AR-SYNC-7a",
        29,
    ),
    (
        "bad-client-wrong-digest",
        &[Client, Digest],
        "AR-DIGEST-1",
        26,
    ),
    ("bad-cut-artifact-missing", &[Cut], "AR-SYNC-2g", 23),
    ("bad-cut-mixed-moments", &[Cut], "AR-SYNC-2g", 32),
    ("bad-cut-two-snapshots", &[Cut], "AR-SYNC-2m", 26),
    (
        "bad-digest-entry-not-applied",
        &[Client, Digest],
        "AR-SYNC-7a",
        31,
    ),
    ("bad-fresh", &[Fresh], "AR-SYNC-2d", 23),
    (
        "bad-head-never-accepted",
        &[NeverOlder],
        "AR-SYNC-REQ-18",
        25,
    ),
    ("bad-live-never-at-rest", &[Live], "AR-SYNC-5k", 19),
    ("bad-live-not-published", &[Live], "AR-SYNC-5k", 22),
    ("bad-live-not-served", &[Live], "AR-SYNC-7d", 20),
    ("bad-loss-beside-a-crash", &[NoLoss], "AR-SYNC-5a", 33),
    ("bad-loss-dead-interest", &[LossResync], "AR-SYNC-1d", 27),
    ("bad-loss-lookup-ignored", &[LossResync], "AR-SYNC-5e", 26),
    ("bad-loss-of-a-deletion", &[NoLoss], "AR-SYNC-5a", 29),
    ("bad-loss-of-a-leaving-head", &[NoLoss], "AR-SYNC-5a", 29),
    ("bad-loss-of-a-move", &[NoLoss], "AR-SYNC-5a", 29),
    (
        "bad-loss-of-the-bus-unnoticed",
        &[LossResync],
        "AR-SYNC-5b",
        28,
    ),
    (
        "bad-loss-published-before-a-crash",
        &[NoLoss],
        "AR-SYNC-5a",
        30,
    ),
    (
        "bad-loss-queue-full-and-open",
        &[LossResync],
        "AR-SYNC-5f",
        26,
    ),
    ("bad-loss-that-the-sweep-finds", &[NoLoss], "AR-SYNC-5a", 29),
    (
        "bad-loss-undecodable-skipped",
        &[LossResync],
        "AR-SYNC-5d",
        26,
    ),
    ("bad-loss", &[NoLoss], "AR-SYNC-5a", 29),
    (
        "bad-older-head-after-newer",
        &[NeverOlder],
        "AR-SYNC-4a",
        30,
    ),
    ("bad-older-head-read", &[NeverOlder], "AR-SYNC-4g", 30),
    (
        "bad-older-head-than-the-cut",
        &[NeverOlder],
        "AR-SYNC-4a",
        29,
    ),
    ("bad-order-after-closed", &[Order], "AR-SYNC-REQ-24", 27),
    (
        "bad-order-live-before-eose",
        &[Cut, Order],
        "AR-SYNC-2g",
        29,
    ),
    (
        "bad-order-malformed-filter-served",
        &[Order],
        "AR-SYNC-REQ-15",
        22,
    ),
    (
        "bad-order-removal-before-eose",
        &[Order],
        "AR-SYNC-REQ-21",
        33,
    ),
    ("bad-order-second-eose", &[Order], "AR-SYNC-REQ-24", 25),
    (
        "bad-privacy-conflict-names-the-head",
        &[Privacy],
        "AR-MOD-9",
        19,
    ),
    (
        "bad-privacy-hidden-differs-from-unknown",
        &[Privacy],
        "AR-ACC-18",
        25,
    ),
    (
        "bad-privacy-moved-out-of-sight",
        &[Privacy],
        "AR-SYNC-3e",
        29,
    ),
    (
        "bad-privacy-removal-names-the-destination",
        &[Privacy],
        "AR-MOVE-6",
        29,
    ),
    (
        "bad-privacy-removal-of-an-unknown-hop",
        &[Privacy],
        "AR-SYNC-3d",
        33,
    ),
    ("bad-privacy-two-texts", &[Privacy], "AR-SYNC-REQ-27", 23),
    (
        "bad-privacy-unreadable-channel-served",
        &[Privacy],
        "AR-SYNC-2n",
        24,
    ),
    ("bad-retire-current-denied", &[Retire], "AR-MOD-6", 18),
    ("bad-retire-redacted-head-sent", &[Retire], "AR-MOD-5", 30),
    ("bad-retire-silent", &[Retire], "AR-SYNC-6a", 27),
    ("bad-scope-left-before", &[Scope], "AR-SYNC-3j", 34),
    ("bad-scope-never-matched", &[Scope], "AR-SYNC-3j", 29),
    (
        "bad-scope-removal-of-a-readable-head",
        &[Scope],
        "AR-SYNC-3b",
        29,
    ),
];

/// Files that cannot be judged: the line, and a part of the reason.
const UNREADABLE: &[(&str, usize, &str)] = &[
    (
        "unreadable-closed-for-nobody",
        18,
        "connection 1 has no subscription s1",
    ),
    (
        "unreadable-commit-gap",
        19,
        "commit 7 stands where commit 6 belongs",
    ),
    (
        "unreadable-connection-outlives-its-node",
        26,
        "connection 1 is still open, and its node is gone",
    ),
    (
        "unreadable-cut-line",
        26,
        "the history is cut: its last line has no newline",
    ),
    (
        "unreadable-frame-after-disconnect",
        26,
        "connection 1 has ended",
    ),
    (
        "unreadable-newer-version",
        1,
        "history format 2 is newer than 1, the newest this program knows",
    ),
    (
        "unreadable-no-end",
        25,
        "the history is cut: it has no end record",
    ),
    (
        "unreadable-outcome-of-nothing",
        18,
        "operation 77 was not submitted",
    ),
    (
        "unreadable-reordered",
        21,
        "record 21 stands where record 20 belongs: lines were lost or reordered",
    ),
    (
        "unreadable-unannounced-record",
        20,
        "the header does not announce records of the kind Gauges",
    ),
];

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn verdict(name: &str) -> Result<Report, HistoryError> {
    let path = directory().join(format!("{name}.jsonl"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    judge(&History::read(text.as_slice())?)
}

#[test]
fn good_histories_have_no_violation() {
    for name in GOOD {
        let report = verdict(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let violations: Vec<_> = report
            .verdicts
            .iter()
            .flat_map(|verdict| &verdict.violations)
            .collect();
        assert!(violations.is_empty(), "{name}: {violations:#?}");
    }
}

#[test]
fn bad_histories_break_exactly_what_they_are_about() {
    for (name, broken, rule, line) in BAD {
        let report = verdict(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(report.violated(), *broken, "{name}");
        let first = &report.of(broken[0]).violations[0];
        assert_eq!((first.rule, first.line), (*rule, *line), "{name}");
        assert!(
            first.story.len() >= 2,
            "{name}: a story says what happened and what the rule wants"
        );
    }
}

#[test]
fn files_that_tell_no_whole_story_have_no_verdict() {
    for (name, line, part) in UNREADABLE {
        let error = verdict(name).expect_err(name);
        assert_eq!(error.line, *line, "{name}: {error}");
        assert!(error.to_string().contains(part), "{name}: {error}");
    }
}

#[test]
fn every_fixture_is_in_a_table_and_every_invariant_has_a_bad_one() {
    let listed = GOOD
        .iter()
        .copied()
        .chain(BAD.iter().map(|row| row.0))
        .chain(UNREADABLE.iter().map(|row| row.0));
    let listed: BTreeSet<String> = listed.map(|name| format!("{name}.jsonl")).collect();
    let files = std::fs::read_dir(directory()).expect("the directory is part of the crate");
    let names = files.map(|file| {
        file.expect("it can be listed")
            .file_name()
            .into_string()
            .expect("ASCII")
    });
    assert_eq!(names.collect::<BTreeSet<_>>(), listed);
    for invariant in Invariant::ALL {
        assert!(
            BAD.iter().any(|(_, broken, ..)| *broken == [invariant]),
            "{invariant} has no fixture of its own"
        );
    }
}

/// Counts how often each invariant was looked at, so that zero is seen.
#[test]
fn a_verdict_says_how_often_it_was_evaluated() {
    let report = verdict("good-live").expect("it is complete");
    let evaluated = |invariant| report.of(invariant).evaluated;
    assert_eq!(
        (evaluated(Cut), evaluated(Fresh), evaluated(NoLoss)),
        (1, 1, 1)
    );
    assert_eq!(
        (evaluated(Cause), evaluated(Atomic), evaluated(Retire)),
        (0, 0, 0)
    );
    let outside = verdict("good-seen-from-outside").expect("it is complete");
    assert_eq!(
        outside.of(LossResync).status,
        holdfast_checker::Status::NotApplicable
    );
}
