//! A run that is made wrong on purpose turns a campaign red, with its exit code and its folder. If this passes silently, nothing
//! that the simulator calls green means anything.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn an_event_missing_from_the_history_is_found_and_leaves_its_folder() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("canary");
    let _ = std::fs::remove_dir_all(&out);
    let sim = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast-sim"));
        let output = command.args(args).output().expect("the simulator starts");
        let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (output.status.code(), value)
    };
    let path = out.display().to_string();
    let clean = sim(&["explore", "--seeds", "4", "--out", &path]);
    assert_eq!(clean.0, Some(0), "{}", clean.1["failures"]);
    let (code, summary) = sim(&["explore", "--seeds", "4", "--out", &path, "--canary"]);
    assert_eq!(code, Some(5), "{}", summary["failures"]);
    let failures = summary["failures"].as_array().expect("a list");
    assert!(!failures.is_empty());
    for failure in failures {
        assert!(failure.get("broken").is_none(), "{failure}");
        let folder = failure["folder"].as_str().expect("a folder");
        for name in [
            "seed",
            "options.json",
            "tape.json",
            "history.jsonl",
            "verdict.json",
            "README.md",
        ] {
            let file = std::fs::metadata(Path::new(folder).join(name)).expect("a file");
            assert!(file.len() > 0, "{name}");
        }
        let (code, compared) = sim(&["replay", folder]);
        assert_eq!(
            (code, &compared["compared"]),
            (Some(5), &Value::from("same"))
        );
    }
    let _ = std::fs::remove_dir_all(&out);
}
