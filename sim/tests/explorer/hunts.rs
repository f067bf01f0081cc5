//! The test of the tester, with a fake in the place of the simulator.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::fake::{Scratch, good, violate};
use holdfast_sim::explore::{Run, run_seed};
use holdfast_sim::matrix::{CONTROLS, Hunt, Judgement, MUTANTS, Report, find, judge, page};
use holdfast_sim::options::Options;
use holdfast_sim::outcome::Outcome;
use holdfast_sim::tape::Tape;

fn hunt(name: &str, run: Run, jobs: usize, only: &[&str]) -> Report {
    let scratch = Scratch::new(name);
    let hunt = Hunt {
        seeds: 30,
        jobs,
        stall: Duration::from_secs(60),
        only: only.iter().map(|id| (*id).to_owned()).collect(),
        draw: Options::draw,
        run,
        out: scratch.path("failures").into(),
    };
    hunt.hunt(&mut |_, _| {}).expect("folders can be written")
}

#[test]
fn a_hunt_finds_every_bug_and_is_the_same_with_many_threads() {
    let report = hunt("hunt-all", finds_all, 1, &[]);
    assert!(report.is_green(), "{}", page(&report));
    assert_eq!(report.mutants.len(), MUTANTS.len());
    assert_eq!(report.controls.len(), CONTROLS.len());
    assert!(report.mutants.iter().all(|tried| tried.kills.len() == 3));
    let text = page(&report);
    assert!(!text.contains("Problems"));
    assert_eq!(text, page(&hunt("hunt-all-jobs", finds_all, 6, &[])));
}

/// Every listed invariant fires, not only the first.
fn finds_all(options: &Options, tape: Tape) -> Outcome {
    let mut outcome = good(options, tape);
    if let Some(mutant) = options.mutant.as_deref().and_then(find)
        && outcome.has_failed()
    {
        for invariant in &mutant.killers[1..] {
            violate(&mut outcome, invariant, 9);
        }
    }
    outcome
}

fn survives(options: &Options, tape: Tape) -> Outcome {
    let is_deaf = options.mutant.as_deref() == Some("M06");
    let options = Options {
        mutant: options.mutant.clone().filter(|_| !is_deaf),
        ..options.clone()
    };
    good(&options, tape)
}

#[test]
fn a_survivor_is_named_with_what_it_needed() {
    let report = hunt("hunt-survivor", survives, 2, &["M06", "M07"]);
    assert!(!report.is_green());
    let green: Vec<bool> = report.mutants.iter().map(|m| m.is_green()).collect();
    assert_eq!(green, [false, true]);
    let text = page(&report);
    assert!(text.contains("M06: survived 3 of 3 ranges"), "{text}");
    assert!(
        text.contains("page-border-change was reached in 90 clean runs"),
        "{text}"
    );
}

fn wrong_reason(options: &Options, tape: Tape) -> Outcome {
    let mut outcome = good(options, tape);
    if options.mutant.is_some() && outcome.has_failed() {
        violate(&mut outcome, "ORDER", 2);
    }
    outcome
}

#[test]
fn a_bug_found_by_an_unlisted_invariant_is_not_found() {
    let report = hunt("hunt-reason", wrong_reason, 2, &["M25"]);
    let tried = &report.mutants[0];
    assert!(!report.is_green());
    assert!(tried.kills.iter().all(Option::is_none));
    assert!(tried.wrong_reasons.iter().all(|(_, name)| name == "ORDER"));
    assert!(!tried.wrong_reasons.is_empty());
}

fn flags_all(options: &Options, tape: Tape) -> Outcome {
    let mut outcome = good(options, tape);
    violate(&mut outcome, "CAUSE", 4);
    outcome
}

fn lacks_situation(options: &Options, tape: Tape) -> Outcome {
    let mut outcome = good(options, tape);
    outcome.goals.insert("leaving-head", 0);
    outcome
}

#[test]
fn the_build_without_the_bug_must_pass_and_controls_must_contain_their_situation() {
    let flagged = hunt("hunt-flagged", flags_all, 2, &["M27", "N3"]);
    assert!(!flagged.mutants[0].is_green() && !flagged.controls[0].is_green());
    assert_eq!(flagged.mutants[0].clean_failures[0].failure, "CAUSE");
    let empty = hunt("hunt-empty", lacks_situation, 2, &["N9", "N10"]);
    let green: Vec<bool> = empty.controls.iter().map(|c| c.is_green()).collect();
    assert_eq!(green, [false, true]);
    assert!(page(&empty).contains("N9: no run contained it"));
}

fn never_fresh(options: &Options, tape: Tape) -> Outcome {
    let mut outcome = finds_all(options, tape);
    outcome.verdict.remove("FRESH");
    outcome
}

#[test]
fn an_invariant_that_finds_no_bug_is_idle() {
    let report = hunt("hunt-idle", never_fresh, 2, &[]);
    assert_eq!(report.idle, ["FRESH"]);
    assert!(!report.is_green());
}

#[test]
fn a_run_is_judged_by_what_fired_first() {
    let mutant = find("M12").unwrap();
    assert_eq!(mutant.killers, ["NO-LOSS"]);
    let judged = |violations: &[(&str, u64)], broken: bool| {
        let clean = Options::draw(1);
        let mut outcome = run_seed(good, &clean);
        for (name, line) in violations {
            violate(&mut outcome, name, *line);
        }
        outcome.broken = broken.then(|| "panic".to_owned());
        judge(mutant, &outcome)
    };
    let wrong = |name: &str| Judgement::WrongReason(name.to_owned());
    assert_eq!(judged(&[], false), Judgement::Unharmed);
    assert_eq!(judged(&[], true), Judgement::Lethal);
    assert_eq!(judged(&[("NO-LOSS", 5)], true), Judgement::Killed);
    assert_eq!(judged(&[("DIGEST", 5)], false), Judgement::Beside);
    assert_eq!(
        judged(&[("DIGEST", 4), ("NO-LOSS", 5)], false),
        Judgement::Killed
    );
    assert_eq!(
        judged(&[("CUT", 6), ("NO-LOSS", 5)], false),
        Judgement::Killed
    );
    assert_eq!(judged(&[("CUT", 4), ("NO-LOSS", 5)], false), wrong("CUT"));
    assert_eq!(judged(&[("CUT", 4)], false), wrong("CUT"));
    let names: BTreeSet<&str> = MUTANTS.iter().map(|mutant| mutant.id).collect();
    assert!(names.contains("MX4") && find("M999").is_none());
}
