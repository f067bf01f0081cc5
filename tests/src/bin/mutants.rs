//! Seeded faults: applies the one-line changes of `tests/mutants.toml` one by one to a copy of the tracked files and expects the
//! named test of each to fail.
//!
//! `cargo run -p holdfast-tests --bin mutants` runs all, `-- RULE…` only those of these rules; `-- --page` rewrites
//! `docs/mutants.md` from the list without running anything, `-- --check-page` only compares it. Progress goes to standard error,
//! one line per mutant to standard output. Exit codes: 0 every mutant was killed, 1 one survived or a test fails without any
//! change, 2 the list is wrong.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::Deserialize;

/// The list as a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// How the rules were drawn, for the page.
    drawn: String,
    mutant: Vec<Mutant>,
}

/// One change and the test that must notice it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    rule: String,
    /// What the change makes wrong, in words.
    what: String,
    file: String,
    /// Occurs exactly once in the file.
    from: String,
    to: String,
    package: String,
    /// `--lib`, or `--test NAME`.
    target: String,
    /// The whole path of the test in that target.
    test: String,
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests crate lies in the workspace")
        .to_owned();
    let list = match read(&root) {
        Ok(list) => list,
        Err(why) => {
            eprintln!("tests/mutants.toml: {why}");
            return ExitCode::from(2);
        }
    };
    let args: BTreeSet<String> = std::env::args().skip(1).collect();
    let page_path = root.join("docs/mutants.md");
    if args.contains("--page") {
        std::fs::write(&page_path, page(&list)).expect("docs/mutants.md can be written");
        return ExitCode::SUCCESS;
    }
    if args.contains("--check-page") {
        let same = std::fs::read_to_string(&page_path).is_ok_and(|text| text == page(&list));
        if !same {
            eprintln!(
                "docs/mutants.md is out of date: run cargo run -p holdfast-tests --bin mutants -- --page"
            );
        }
        return if same {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let chosen: Vec<&Mutant> = list
        .mutant
        .iter()
        .filter(|mutant| args.is_empty() || args.contains(&mutant.rule))
        .collect();
    if chosen.is_empty() {
        eprintln!(
            "no mutant for {args:?}; rules of the list: {:?}",
            list.mutant.iter().map(|m| &m.rule).collect::<Vec<_>>()
        );
        return ExitCode::from(2);
    }
    let copy = root.join("target/mutants/copy");
    copy_tracked(&root, &copy);
    let mut failed = 0;
    let tests: BTreeSet<(&str, &str, &str)> = chosen
        .iter()
        .map(|m| (m.package.as_str(), m.target.as_str(), m.test.as_str()))
        .collect();
    for (n, (package, target, test)) in tests.iter().enumerate() {
        eprintln!("unchanged {}/{}: {test}", n + 1, tests.len());
        if run(&copy, package, target, test) != Outcome::Passed {
            println!("FAILS UNCHANGED {package} {target} {test}");
            failed += 1;
        }
    }
    for (n, mutant) in chosen.iter().enumerate() {
        eprintln!("mutant {}/{}: {}", n + 1, chosen.len(), mutant.rule);
        let file = copy.join(&mutant.file);
        let text = std::fs::read_to_string(&file).expect("the list was checked");
        std::fs::write(&file, text.replacen(&mutant.from, &mutant.to, 1))
            .expect("the copy can be written");
        let outcome = run(&copy, &mutant.package, &mutant.target, &mutant.test);
        std::fs::write(&file, text).expect("the copy can be written");
        let word = match outcome {
            Outcome::Failed => "killed",
            Outcome::Passed => "SURVIVED",
            Outcome::Other => "NOT BUILT",
        };
        failed += usize::from(outcome != Outcome::Failed);
        println!("{word} {} {} ({})", mutant.rule, mutant.test, mutant.what);
    }
    println!("{} mutants, {failed} faults", chosen.len());
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn read(root: &Path) -> Result<List, String> {
    let text = std::fs::read_to_string(root.join("tests/mutants.toml"))
        .map_err(|error| error.to_string())?;
    let list: List = toml::from_str(&text).map_err(|error| error.to_string())?;
    let mut rules = BTreeSet::new();
    for mutant in &list.mutant {
        let source = std::fs::read_to_string(root.join(&mutant.file))
            .map_err(|error| format!("{}: {error}", mutant.file))?;
        let found = source.matches(&mutant.from).count();
        if found != 1 {
            return Err(format!(
                "{}: `{}` occurs {found} times in {}",
                mutant.rule, mutant.from, mutant.file
            ));
        }
        if mutant.from == mutant.to || !rules.insert(&mutant.rule) {
            return Err(format!("{}: listed twice, or changes nothing", mutant.rule));
        }
    }
    Ok(list)
}

/// Brings the copy to the state of the tracked files; unchanged files keep their time, so that little is built again.
fn copy_tracked(root: &Path, copy: &Path) {
    let output = Command::new("git")
        .arg("ls-files")
        .current_dir(root)
        .output()
        .expect("git lists the tracked files");
    assert!(output.status.success(), "git ls-files failed");
    for name in String::from_utf8(output.stdout)
        .expect("file names are UTF-8")
        .lines()
    {
        let (from, to) = (root.join(name), copy.join(name));
        let Ok(bytes) = std::fs::read(&from) else {
            continue;
        };
        if std::fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        std::fs::create_dir_all(to.parent().expect("a file has a folder"))
            .expect("the copy can be made");
        std::fs::write(to, bytes).expect("the copy can be written");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    /// It was not built, or the test does not exist.
    Other,
}

fn run(copy: &Path, package: &str, target: &str, test: &str) -> Outcome {
    let target_dir: PathBuf = copy.parent().expect("the copy has a folder").join("build");
    if package == "holdfast-tests" {
        // End-to-end tests start the relay binary of the same build.
        let built = Command::new("cargo")
            .args(["build", "-q", "-p", "holdfast-relay"])
            .current_dir(copy)
            .env("CARGO_TARGET_DIR", &target_dir)
            .stderr(Stdio::null())
            .status();
        if !built.is_ok_and(|status| status.success()) {
            return Outcome::Other;
        }
    }
    let output = Command::new("cargo")
        .args(["test", "-q", "-p", package])
        .args(target.split(' '))
        .args(["--", "--exact", test])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", &target_dir)
        .env("HOLDFAST_BIN", target_dir.join("debug/holdfast"))
        .output()
        .expect("cargo can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    let counted =
        |line: &str, wanted: &str| line.starts_with("test result:") && line.contains(wanted);
    if text
        .lines()
        .any(|line| counted(line, " 0 passed; 1 failed"))
    {
        Outcome::Failed
    } else if text
        .lines()
        .any(|line| counted(line, " 1 passed; 0 failed"))
    {
        Outcome::Passed
    } else {
        Outcome::Other
    }
}

fn page(list: &List) -> String {
    let mut text = String::from(
        "# Mutants\n\nOne-line changes that break one rule each, and the test that fails for it. `./mutants` applies them one by one to a \
         copy of the\nsources and expects the failure; this page is made from `tests/mutants.toml`.\n\n",
    );
    let _ = writeln!(text, "{}\n", list.drawn.trim());
    text.push_str(
        "| rule | what is wrong then | change | failing test |\n| --- | --- | --- | --- |\n",
    );
    let cell = |text: &str| {
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace('|', "\\|")
    };
    for mutant in &list.mutant {
        let _ = writeln!(
            text,
            "| {} | {} | `{}` → `{}` in `{}` | `{}` |",
            mutant.rule,
            cell(&mutant.what),
            cell(&mutant.from),
            cell(&mutant.to),
            mutant.file,
            mutant.test
        );
    }
    text
}
