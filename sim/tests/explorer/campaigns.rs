//! Campaigns, failure folders and exit codes, with a fake in the place of the simulator.

use std::fs;
use std::path::Path;

use crate::fake::{Said, Scratch, good, say, violate};
use holdfast_sim::explore::Run;
use holdfast_sim::options::Options;
use holdfast_sim::outcome::Outcome;
use holdfast_sim::tape::Tape;
use serde_json::Value;

fn explore(run: Run, scratch: &Scratch, more: &[&str]) -> (Said, Value) {
    let out = scratch.path("failures");
    let mut args = vec!["explore", "--out", &out];
    args.extend(more);
    let said = say(run, &args);
    let mut summary: Value = serde_json::from_str(&said.out).expect("a summary");
    summary
        .as_object_mut()
        .expect("a JSON object")
        .remove("speed");
    (said, summary)
}

#[test]
fn a_green_campaign_is_the_same_with_one_thread_and_with_many() {
    let scratch = Scratch::new("campaign-jobs");
    let (one, first) = explore(good, &scratch, &["--seeds", "1000", "--jobs", "1"]);
    let (many, second) = explore(good, &scratch, &["--seeds", "1000", "--jobs", "8"]);
    assert_eq!((one.exit, many.exit), (0, 0), "{first}");
    assert_eq!(first.to_string(), second.to_string());
    assert_eq!(first["seeds"], 1000);
    let (_, other) = explore(good, &scratch, &["--seeds", "1000", "--from", "2"]);
    assert_ne!(first["trace_hash"], other["trace_hash"]);
    assert!(!Path::new(&scratch.path("failures")).exists());
}

#[test]
fn the_summary_is_written_to_a_file_as_well() {
    let scratch = Scratch::new("campaign-json");
    let json = scratch.path("summary.json");
    let (said, _) = explore(good, &scratch, &["--seeds", "5", "--json", &json]);
    assert_eq!(said.exit, 0);
    assert_eq!(fs::read_to_string(&json).unwrap(), said.out);
}

#[test]
fn a_canary_turns_a_campaign_red_and_leaves_all_that_repeats_it() {
    let scratch = Scratch::new("campaign-canary");
    let (said, summary) = explore(good, &scratch, &["--seeds", "3", "--canary"]);
    assert_eq!(said.exit, 5);
    assert_eq!(summary["failures"].as_array().unwrap().len(), 3);
    let folder = Path::new(&scratch.path("failures")).join("NO-LOSS-2");
    for name in [
        "seed",
        "options.json",
        "tape.json",
        "history.jsonl",
        "verdict.json",
    ] {
        assert!(fs::metadata(folder.join(name)).unwrap().len() > 0, "{name}");
    }
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    let command = format!("-- replay {}\n", folder.display());
    assert!(readme.contains(&command), "{readme}");

    let dir = folder.display().to_string();
    let replay = |run: Run| say(run, &["replay", &dir]);
    let same = replay(good);
    assert_eq!(same.exit, 5, "{}", same.err);
    assert!(same.out.contains(r#""compared":"same""#), "{}", same.out);
    assert_eq!(replay(healed).exit, 0);
    let differs = replay(other_failure);
    assert_eq!(differs.exit, 6);
    assert!(differs.out.contains(r#""compared":"differs""#));
}

fn healed(options: &Options, tape: Tape) -> Outcome {
    let options = Options {
        canary: false,
        ..options.clone()
    };
    good(&options, tape)
}

fn other_failure(options: &Options, tape: Tape) -> Outcome {
    let mut outcome = healed(options, tape);
    violate(&mut outcome, "CUT", 3);
    outcome
}

#[test]
fn a_folder_of_another_version_is_one_line_and_wrong_usage() {
    let scratch = Scratch::new("campaign-version");
    explore(good, &scratch, &["--seeds", "1", "--canary"]);
    let folder = Path::new(&scratch.path("failures")).join("NO-LOSS-1");
    let verdict = folder.join("verdict.json");
    let text = fs::read_to_string(&verdict).unwrap();
    let other = text.replace("\"folder_version\": 1", "\"folder_version\": 2");
    assert_ne!(other, text);
    fs::write(&verdict, other).unwrap();
    let said = say(good, &["replay", &folder.display().to_string()]);
    assert_eq!(said.exit, 2);
    assert_eq!(said.err.lines().count(), 1);
    assert!(said.err.contains("another version"), "{}", said.err);
    let nowhere = say(good, &["replay", &scratch.path("nowhere")]);
    assert_eq!((nowhere.exit, nowhere.err.lines().count()), (2, 1));
}

fn panics_at_three(options: &Options, tape: Tape) -> Outcome {
    assert!(options.seed != 3, "the third seed is unlucky");
    good(options, tape)
}

#[test]
fn a_panic_is_the_failure_of_its_seed_alone() {
    let scratch = Scratch::new("campaign-panic");
    let (said, summary) = explore(panics_at_three, &scratch, &["--seeds", "6"]);
    assert_eq!((said.exit, &summary["seeds"]), (5, &Value::from(6)));
    let failures = summary["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1);
    assert_eq!(
        (&failures[0]["seed"], &failures[0]["failure"]),
        (&Value::from(3), &Value::from("BROKEN"))
    );
    let broken = failures[0]["broken"].as_str().unwrap();
    assert!(broken.contains("the third seed is unlucky") && broken.contains("campaigns.rs"));
    let dir = Path::new(&scratch.path("failures")).join("BROKEN-3");
    assert_eq!(
        say(panics_at_three, &["replay", &dir.display().to_string()]).exit,
        5
    );
    assert_eq!(say(good, &["replay", &dir.display().to_string()]).exit, 0);
}

fn hangs_at_two(options: &Options, tape: Tape) -> Outcome {
    if options.seed != 2 {
        return good(options, tape);
    }
    loop {
        std::thread::park();
    }
}

#[test]
fn a_run_that_hangs_is_a_failure_and_the_campaign_ends() {
    let scratch = Scratch::new("campaign-hang");
    let more = ["--seeds", "9", "--jobs", "2", "--stall", "1"];
    let (said, summary) = explore(hangs_at_two, &scratch, &more);
    assert_eq!(said.exit, 5);
    let failure = &summary["failures"][0];
    assert_eq!(failure["seed"], 2);
    assert!(failure["broken"].as_str().unwrap().starts_with("hangs"));
}

fn idle(options: &Options, tape: Tape) -> Outcome {
    let mut outcome = good(options, tape);
    (outcome.writes, outcome.eoses, outcome.competing_edits) = (39, 3, 0);
    outcome.faults.clear();
    outcome.resyncs = [("signals".to_owned(), 1)].into();
    outcome
}

fn blind(options: &Options, tape: Tape) -> Outcome {
    let mut outcome = good(options, tape);
    outcome.goals.insert("held-overflow", 0);
    outcome.verdict.remove("FRESH");
    outcome
}

#[test]
fn a_campaign_that_proves_too_little_is_not_green() {
    let scratch = Scratch::new("campaign-little");
    let reasons = |run: Run, seeds: &str, exit: u8| {
        let (said, summary) = explore(run, &scratch, &["--seeds", seeds]);
        assert_eq!(said.exit, exit, "{summary}");
        let reasons = summary["too_little"].as_array().unwrap();
        let text = |reason: &Value| reason.as_str().unwrap().to_owned();
        reasons.iter().map(text).collect::<Vec<_>>()
    };
    let means = reasons(idle, "100", 6);
    for what in [
        "accepted writes",
        "EOSE",
        "faults",
        "competing edits",
        "undisturbed",
    ] {
        assert!(
            means.iter().any(|reason| reason.contains(what)),
            "{means:?}"
        );
    }
    assert_eq!(means.len(), 5);
    let unseen = reasons(blind, "1000", 6);
    assert_eq!(
        unseen,
        [
            "goal held-overflow never reached",
            "invariant FRESH never evaluated"
        ]
    );
    assert!(reasons(blind, "999", 0).is_empty());
    assert_eq!(reasons(good, "0", 6), ["no seed was run"]);
}

#[test]
fn one_seed_is_run_with_given_options_and_leaves_its_history() {
    let scratch = Scratch::new("single");
    let (options, history) = (scratch.path("options.json"), scratch.path("h.jsonl"));
    let mut drawn = Options::draw(5);
    fs::write(&options, serde_json::to_vec(&drawn).unwrap()).unwrap();
    let plain = say(good, &["run", "--seed", "5"]);
    let given = say(
        good,
        &[
            "run",
            "--seed",
            "5",
            "--options",
            &options,
            "--history",
            &history,
        ],
    );
    assert_eq!((plain.exit, given.exit), (0, 0));
    assert_eq!(plain.out, given.out);
    assert!(fs::metadata(&history).unwrap().len() > 0);
    assert_eq!(say(good, &["run", "--seed", "5", "--canary"]).exit, 5);

    drawn.version = 99;
    fs::write(&options, serde_json::to_vec(&drawn).unwrap()).unwrap();
    for args in [
        &["run", "--seed", "5", "--options", options.as_str()][..],
        &["run", "--seed", "5", "--mutant", "M999"],
        &["run", "--seed", "five"],
        &["run"],
        &["explore", "--jobs", "0"],
    ] {
        let said = say(good, args);
        assert_eq!((said.exit, said.out.as_str()), (2, ""), "{args:?}");
        assert!(!said.err.is_empty());
    }
}

#[cfg(not(feature = "mutants"))]
#[test]
fn a_build_without_seeded_bugs_says_so_in_one_line() {
    for args in [&["mutants"][..], &["run", "--seed", "1", "--mutant", "M01"]] {
        let said = say(good, args);
        assert_eq!((said.exit, said.err.lines().count()), (2, 1));
        assert!(said.err.contains("--features mutants"), "{}", said.err);
    }
}
