//! The rule check: compares `docs/rules.md` with the tests that name rules, and writes the generated parts of that page.
//!
//! What belongs here: reading the repository's own text files and comparing them. What must not: running tests, judging
//! whether a test demonstrates what it names, or any dependency beyond std, because the check has to build in seconds.
//!
//! A test names its rules with `rules!("…", …)` in its body. A script below `tests/` names them in a comment line
//! `rules: …` inside a function, a test call or a `section: …` (see `script`). Everything else in the code that looks like a
//! rule id has to be one.

mod ids;
mod page;
mod rust;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use page::{Page, State};

/// Rules in NIP-AR and NIP-CL together. The page's own totals have to add up to this number.
pub const RULES_TOTAL: usize = 712;

/// The page, relative to the workspace root.
pub const PAGE_PATH: &str = "docs/rules.md";

/// Most rules one test may name, over all its `rules!` calls.
const RULES_PER_TEST_MAX: usize = 6;

/// Folders that are read; each has to exist, so that a renamed one cannot drop out of the check unseen.
const CODE_FOLDERS: [&str; 4] = ["core", "runtime", "sim", "tests"];

/// Folders of other people's or generated code, at any depth.
const SKIPPED_FOLDERS: [&str; 4] = ["target", "node_modules", "__pycache__", "venv"];

/// What the check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Contradictions that a person has to resolve, as `path:line: text`, in the order of path and line.
    pub faults: Vec<String>,
    /// Lines of the page whose generated part is out of date, as `path:line: text`.
    pub stale: Vec<String>,
    /// The page with every generated part up to date; the rest is as it was.
    pub page: String,
}

impl Report {
    /// Faults and stale lines together; empty means that page and tests agree.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        self.faults.iter().chain(&self.stale).cloned().collect()
    }
}

/// What one code file says about rules; lines count from 1.
#[derive(Debug, Default)]
struct Claims {
    tests: Vec<Claim>,
    faults: Vec<(usize, String)>,
}

impl Claims {
    /// Takes the rules a test names, or the reason why they do not count.
    fn add(&mut self, test: &str, line: usize, ids: Vec<String>) {
        let distinct: BTreeSet<&String> = ids.iter().collect();
        if distinct.len() < ids.len() {
            self.faults
                .push((line, format!("`{test}` names a rule twice")));
        }
        if ids.is_empty() {
            self.faults.push((line, format!("`{test}` names no rule")));
        }
        if ids.len() > RULES_PER_TEST_MAX {
            self.faults.push((
                line,
                format!(
                    "`{test}` names {} rules, {RULES_PER_TEST_MAX} at most",
                    ids.len()
                ),
            ));
        }
        if test.contains(['|', '`']) {
            self.faults
                .push((line, format!("the name {test:?} does not fit into a table")));
        }
        self.tests.push(Claim {
            test: test.to_owned(),
            line,
            ids,
        });
    }
}

/// A test and the rules it names.
#[derive(Debug)]
struct Claim {
    test: String,
    /// Line of the first naming.
    line: usize,
    ids: Vec<String>,
}

/// The folder of the workspace this crate was compiled in.
#[must_use]
pub fn workspace_root() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder
        .parent()
        .expect("the manifest of a member lies in a folder below the workspace root")
        .to_owned()
}

/// Checks the repository at `root`, whose page has to list `rules_total` rules. Changes nothing.
///
/// # Errors
///
/// When the page or a code folder is missing, or a file cannot be read as UTF-8; the message names the path.
pub fn trace(root: &Path, rules_total: usize) -> io::Result<Report> {
    let text = read(root, PAGE_PATH)?;
    let page = Page::parse(&text);
    let mut faults: BTreeSet<(String, usize, String)> = BTreeSet::new();
    let mut tests_by_rule: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();

    for path in code_files(root)? {
        let source = read(root, &path)?;
        let claims = if path.ends_with(".rs") {
            rust::claims(&source)
        } else {
            script::claims(&source, path.ends_with(".py"))
        };
        for (line, text) in claims.faults {
            faults.insert((path.clone(), line, text));
        }
        for claim in claims.tests {
            for id in claim.ids {
                if page.row(&id).is_none() {
                    faults.insert((path.clone(), claim.line, unknown(&id)));
                }
                tests_by_rule
                    .entry(id)
                    .or_default()
                    .insert(format!("{path}::{}", claim.test));
            }
        }
        for mention in ids::mentions(&source) {
            if page.has_group(&mention.text) {
                continue;
            }
            for id in mention.ids.iter().filter(|id| page.row(id).is_none()) {
                faults.insert((path.clone(), mention.line, unknown(id)));
            }
        }
    }

    for (line, text) in page.faults(rules_total) {
        faults.insert((PAGE_PATH.to_owned(), line, text));
    }
    for row in page
        .rows()
        .filter(|row| row.state == State::Done && !tests_by_rule.contains_key(&row.id))
    {
        faults.insert((
            PAGE_PATH.to_owned(),
            row.line,
            format!("{} is done, but no test names it", row.id),
        ));
    }

    let generated = page.generate(&tests_by_rule);
    let stale = differing_lines(&text, &generated);
    Ok(Report {
        faults: faults
            .into_iter()
            .map(|(path, line, text)| format!("{path}:{line}: {text}"))
            .collect(),
        stale,
        page: generated,
    })
}

fn unknown(id: &str) -> String {
    format!("{id} is not a rule of {PAGE_PATH}")
}

/// The lines of the page that generation changes; it never adds or removes one.
fn differing_lines(current: &str, generated: &str) -> Vec<String> {
    current
        .lines()
        .zip(generated.lines())
        .enumerate()
        .filter(|(_, (is, should))| is != should)
        .map(|(index, _)| {
            format!(
                "{PAGE_PATH}:{}: the generated part is out of date",
                index + 1
            )
        })
        .collect()
}

fn read(root: &Path, path: &str) -> io::Result<String> {
    fs::read_to_string(root.join(path))
        .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

/// Paths of all Rust files, and of all scripts below `tests`, relative to the root with `/` between parts, sorted.
fn code_files(root: &Path) -> io::Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    let mut folders: Vec<String> = CODE_FOLDERS
        .iter()
        .map(|&folder| folder.to_owned())
        .collect();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder))
            .map_err(|error| io::Error::new(error.kind(), format!("{folder}: {error}")))?;
        for entry in entries {
            let entry = entry?;
            let name = entry
                .file_name()
                .into_string()
                .map_err(|name| io::Error::other(format!("{folder}: {name:?} is not UTF-8")))?;
            let path = format!("{folder}/{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !name.starts_with('.') && !SKIPPED_FOLDERS.contains(&name.as_str())
            {
                folders.push(path);
            } else if kind.is_file() && is_code(&path) {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

fn is_code(path: &str) -> bool {
    path.ends_with(".rs")
        || (path.starts_with("tests/") && (path.ends_with(".mjs") || path.ends_with(".py")))
}
