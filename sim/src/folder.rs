//! The folder that a failing run leaves: all that is needed to repeat it, and what it looked like. Its layout and nothing about
//! campaigns.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::options::{OPTIONS_VERSION, Options};
use crate::outcome::{Judged, Outcome};

/// Version of the layout.
pub const FOLDER_VERSION: u32 = 1;

/// Where failures go unless told otherwise.
pub const FAILURES_DIR: &str = "holdfast-sim-failures";

/// Name of a failure that is no violation of an invariant.
pub const BROKEN: &str = "BROKEN";

const SEED: &str = "seed";
const OPTIONS: &str = "options.json";
const TAPE: &str = "tape.json";
const HISTORY: &str = "history.jsonl";
const VERDICT: &str = "verdict.json";
const README: &str = "README.md";

/// What a run concluded, as it stands in `verdict.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Version of the folder.
    pub folder_version: u32,
    /// Version of the options.
    pub options_version: u32,
    /// The failure that names the folder.
    pub failure: String,
    /// SHA-256 over the steps of the run, in hex; empty if a panic ended it.
    pub trace_hash: String,
    /// What was wrong beside the invariants.
    pub broken: Option<String>,
    /// Every invariant that was judged.
    pub invariants: BTreeMap<String, Judged>,
}

impl Verdict {
    /// That of a run.
    pub fn of(outcome: &Outcome) -> Verdict {
        Verdict {
            folder_version: FOLDER_VERSION,
            options_version: OPTIONS_VERSION,
            failure: failure(outcome).unwrap_or_default(),
            trace_hash: outcome.trace_hash.clone(),
            broken: outcome.broken.clone(),
            invariants: outcome.verdict.clone(),
        }
    }
}

/// What to call a failed run: the invariant that was violated first, or [`BROKEN`]; none if nothing is wrong with it.
pub fn failure(outcome: &Outcome) -> Option<String> {
    match first_violated(outcome) {
        Some((_, invariant)) => Some(invariant.to_owned()),
        None => outcome.broken.as_ref().map(|_| BROKEN.to_owned()),
    }
}

/// The line of the first violation and its invariant; of several in one line the first by name.
pub fn first_violated(outcome: &Outcome) -> Option<(u64, &str)> {
    let lines = outcome.verdict.iter().flat_map(|(invariant, judged)| {
        let line = |violation: &crate::outcome::Violation| (violation.line, invariant.as_str());
        judged.violations.iter().map(line)
    });
    lines.min()
}

/// Why a folder cannot be written or read, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderError(pub String);

fn wrong(path: &Path, error: impl std::fmt::Display) -> FolderError {
    FolderError(format!("{}: {error}", path.display()))
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain values without maps of odd keys");
    text.push(b'\n');
    text
}

/// Writes the folder of a failed run below `parent` and returns its path. A folder of the same name is replaced.
///
/// # Errors
/// A file that cannot be written.
pub fn write(parent: &Path, outcome: &Outcome) -> Result<PathBuf, FolderError> {
    let seed = outcome.options.seed;
    let failure = failure(outcome).unwrap_or_else(|| "NOTHING".to_owned());
    let dir = parent.join(format!("{}-{seed}", failure.replace("->", "-")));
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(|error| wrong(&dir, error))?;
    }
    fs::create_dir_all(&dir).map_err(|error| wrong(&dir, error))?;
    let tape = serde_json::to_vec(&outcome.tape).expect("a list of numbers");
    let files: [(&str, Vec<u8>); 6] = [
        (SEED, format!("{seed}\n").into_bytes()),
        (OPTIONS, json(&outcome.options)),
        (TAPE, tape),
        (HISTORY, outcome.history.clone()),
        (VERDICT, json(&Verdict::of(outcome))),
        (README, readme(&dir, outcome, &failure).into_bytes()),
    ];
    for (name, bytes) in files {
        let path = dir.join(name);
        fs::write(&path, bytes).map_err(|error| wrong(&path, error))?;
    }
    Ok(dir)
}

fn readme(dir: &Path, outcome: &Outcome, failure: &str) -> String {
    use std::fmt::Write;
    let mut text = format!(
        "# {failure}, seed {}\n\nRepeat it:\n\n    {} replay {}\n\n",
        outcome.options.seed,
        program(outcome.options.mutant.is_some()),
        dir.display(),
    );
    if let Some(broken) = &outcome.broken {
        let _ = writeln!(text, "The run broke: {broken}\n");
    }
    for (invariant, judged) in &outcome.verdict {
        for violation in &judged.violations {
            let (rule, line) = (&violation.rule, violation.line);
            let _ = writeln!(
                text,
                "## {invariant} ({rule}), line {line} of {HISTORY}\n\n{}\n",
                violation.story
            );
        }
    }
    text.push_str(
        "`options.json` and `tape.json` repeat the run exactly with the revision that wrote them; an edited tape may be shorter, the rest then comes from the seed.\n",
    );
    text
}

/// How the simulator is started from a checkout.
fn program(has_mutant: bool) -> &'static str {
    if has_mutant {
        "cargo run -q -p holdfast-sim --features mutants --"
    } else {
        "cargo run -q -p holdfast-sim --"
    }
}

/// A failure that was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// What the run was made of.
    pub options: Options,
    /// Its choices; empty if a panic ended it, and the seed gives them again.
    pub tape: Vec<u32>,
    /// What it concluded.
    pub verdict: Verdict,
}

/// Reads a folder.
///
/// # Errors
/// A missing or damaged file, and a folder of another version.
pub fn read(dir: &Path) -> Result<Recorded, FolderError> {
    #[derive(Deserialize)]
    struct Versions {
        folder_version: u32,
        options_version: u32,
    }
    let path = dir.join(VERDICT);
    let bytes = fs::read(&path).map_err(|error| wrong(&path, error))?;
    let versions: Versions = serde_json::from_slice(&bytes).map_err(|error| wrong(&path, error))?;
    if (versions.folder_version, versions.options_version) != (FOLDER_VERSION, OPTIONS_VERSION) {
        let text = format!(
            "written by another version (folder {}, options {}; this one reads {FOLDER_VERSION} and {OPTIONS_VERSION})",
            versions.folder_version, versions.options_version
        );
        return Err(wrong(dir, text));
    }
    Ok(Recorded {
        verdict: serde_json::from_slice(&bytes).map_err(|error| wrong(&path, error))?,
        options: read_json(&dir.join(OPTIONS))?,
        tape: read_json(&dir.join(TAPE))?,
    })
}

/// Reads one JSON file.
///
/// # Errors
/// A missing or damaged file.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, FolderError> {
    let bytes = fs::read(path).map_err(|error| wrong(path, error))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(path, error))
}
