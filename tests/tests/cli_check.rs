//! `holdfast check` as people and scripts meet it: verdicts in a pipe, exit codes, files without a verdict.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use holdfast_tests::relay::binary;
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/checker/tests/fixtures");
    fixtures.join(format!("{name}.jsonl"))
}

fn check(file: &Path, further: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("check").arg(file).args(further);
    command.output().expect("the binary runs")
}

fn verdicts(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect()
}

#[test]
fn a_good_history_has_a_verdict_per_invariant_and_exits_with_zero() {
    for further in [&[][..], &["--json"][..]] {
        let output = check(&fixture("good-live"), further);
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(output.stderr, b"");
        let verdicts = verdicts(&output);
        let names: Vec<_> = verdicts
            .iter()
            .filter_map(|verdict| verdict["invariant"].as_str())
            .collect();
        let all = [
            "CUT",
            "FRESH",
            "NEVER-OLDER",
            "NO-LOSS",
            "ORDER",
            "SCOPE",
            "PRIVACY",
            "BOUND",
            "LOSS->RESYNC",
            "ACCESS->RESYNC",
            "RETIRE",
            "CHAIN",
            "ATOMIC",
            "CAUSE",
            "CLIENT",
            "DIGEST",
            "CLEAN",
            "LIVE",
        ];
        assert_eq!(names, all);
        assert!(
            verdicts
                .iter()
                .all(|verdict| verdict["verdict"] == "evaluated" && verdict["found"] == 0)
        );
        // What the history gives no occasion to break is seen as such.
        assert_eq!(
            (&verdicts[0]["evaluated"], &verdicts[12]["evaluated"]),
            (&Value::from(1), &Value::from(0))
        );
    }
}

#[test]
fn what_a_tier_cannot_judge_is_not_called_evaluated() {
    let output = check(&fixture("good-seen-from-outside"), &[]);
    assert_eq!(output.status.code(), Some(0));
    let verdicts = verdicts(&output);
    let of = |name: &str| {
        verdicts
            .iter()
            .find(|verdict| verdict["invariant"] == name)
            .expect(name)["verdict"]
            .clone()
    };
    assert_eq!(
        (of("LOSS->RESYNC"), of("CUT")),
        (Value::from("not applicable"), Value::from("evaluated"))
    );
}

#[test]
fn a_violation_is_told_with_rule_line_and_story_and_exits_with_five() {
    let output = check(&fixture("bad-loss"), &[]);
    assert_eq!(output.status.code(), Some(5));
    let verdicts = verdicts(&output);
    let broken: Vec<_> = verdicts
        .iter()
        .filter(|verdict| verdict["verdict"] == "violated")
        .collect();
    assert_eq!(broken.len(), 1);
    assert_eq!(
        (&broken[0]["invariant"], &broken[0]["found"]),
        (&Value::from("NO-LOSS"), &Value::from(1))
    );
    let violation = &broken[0]["violations"][0];
    assert_eq!(
        (&violation["rule"], &violation["line"]),
        (&Value::from("AR-SYNC-5a"), &Value::from(29))
    );
    assert!(
        violation["story"]
            .as_array()
            .is_some_and(|story| story.len() >= 2)
    );
}

#[test]
fn a_file_without_a_verdict_exits_with_two_and_names_the_line() {
    let files = [
        ("unreadable-no-end", "line 25: the history is cut"),
        ("unreadable-cut-line", "line 26: the history is cut"),
        (
            "unreadable-reordered",
            "line 21: record 21 stands where record 20 belongs",
        ),
        (
            "unreadable-newer-version",
            "line 1: history format 2 is newer than 1",
        ),
        (
            "unreadable-closed-for-nobody",
            "line 18: connection 1 has no subscription s1",
        ),
    ];
    for (name, part) in files {
        let output = check(&fixture(name), &[]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert_eq!(output.stdout, b"", "{name}");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(
            text.starts_with("holdfast: ") && text.contains(part),
            "{name}: {text}"
        );
        assert_eq!(text.lines().count(), 1, "{name}: {text}");
    }
}

#[test]
fn a_file_that_is_no_text_and_one_that_is_not_there_are_told_apart() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let path = directory.path().join("noise");
    std::fs::write(&path, [0xff, 0xfe, b'\n']).expect("it can be written");
    assert_eq!(check(&path, &[]).status.code(), Some(2));
    assert_eq!(
        check(&directory.path().join("missing"), &[]).status.code(),
        Some(3)
    );
    let help = Command::new(binary())
        .args(["check", "--help"])
        .output()
        .expect("the binary runs");
    let text = String::from_utf8(help.stdout).expect("UTF-8");
    let codes = "Exit codes: 0 no violation, 2 wrong usage or a file that cannot be judged, 3 no such file, 5 violation found.";
    assert!(text.contains(codes), "{text}");
}
