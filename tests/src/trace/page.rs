//! Reads `docs/rules.md` and writes its generated parts: the line of totals, the counts in the table of groups, and the
//! column of tests. Everything else on the page is written by people and is kept as it is.

use std::collections::{BTreeMap, BTreeSet};

use super::ids;

/// The line that allows the state `todo`; it goes away before a release.
const TODO_MARKER: &str = "<!-- todo allowed -->";

/// Beginning of the line of totals.
const TOTALS_START: &str = "**Totals:**";

/// Beginning of the heading of the table of groups, up to the columns that are generated.
const GROUPS_START: &str = "| group | rules |";

/// Heading of the table of each group.
const RULES_HEADING: &str = "| id | rule | state | tests |";

/// The parts of the product that come later, by the word that stands behind `later:`.
const SURFACES: [&str; 10] = [
    "sync",
    "nodes",
    "quota",
    "moderation",
    "tokens",
    "DM",
    "search",
    "retention",
    "incremental",
    "client",
];

/// How far a rule has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// A test demonstrates it.
    Done,
    /// It belongs to what is being built and is not demonstrated.
    Todo,
    /// It belongs to a later part.
    Later,
}

/// One rule of the page.
#[derive(Debug)]
pub(super) struct Row {
    /// Line, counted from 1.
    pub(super) line: usize,
    pub(super) id: String,
    pub(super) state: State,
    /// Index of its group.
    group: usize,
    /// Its line without the column of tests.
    written: String,
}

/// A group as its heading names it.
#[derive(Debug)]
struct Group {
    line: usize,
    name: String,
}

/// How many rules a group should have, as the table of groups says.
#[derive(Debug)]
struct Expected {
    line: usize,
    name: String,
    rules: usize,
}

/// The page, as far as it could be read.
#[derive(Debug, Default)]
pub(super) struct Page {
    lines: Vec<String>,
    todo_allowed: bool,
    totals_line: Option<usize>,
    groups_line: Option<usize>,
    expected: Vec<Expected>,
    groups: Vec<Group>,
    rows: Vec<Row>,
    /// Index into `rows` by id; of duplicates the first.
    by_id: BTreeMap<String, usize>,
    faults: Vec<(usize, String)>,
}

impl Page {
    /// Reads the page; what cannot be read is remembered as a fault.
    pub(super) fn parse(text: &str) -> Self {
        let mut page = Self {
            lines: text.split('\n').map(str::to_owned).collect(),
            ..Self::default()
        };
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            if text == TODO_MARKER {
                page.todo_allowed = true;
            } else if text.starts_with(TOTALS_START) {
                page.totals_line = Some(line);
            } else if text.starts_with(GROUPS_START) {
                page.groups_line = Some(line);
            } else if let Some(heading) = text.strip_prefix("## ") {
                page.heading(line, heading);
            } else if text.starts_with('|') && !text.starts_with("| ---") && text != RULES_HEADING {
                let read = if page.groups.is_empty() {
                    page.expectation(line, text)
                } else {
                    page.rule(line, text)
                };
                if let Err(fault) = read {
                    page.faults.push((line, fault));
                }
            }
        }
        page
    }

    /// The rule with this id.
    pub(super) fn row(&self, id: &str) -> Option<&Row> {
        self.by_id.get(id).map(|&index| &self.rows[index])
    }

    /// All rules in the order of the page.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Whether the page has a group of this name.
    pub(super) fn has_group(&self, name: &str) -> bool {
        self.groups.iter().any(|group| group.name == name)
    }

    /// What is wrong with the page itself, with line numbers.
    pub(super) fn faults(&self, rules_total: usize) -> Vec<(usize, String)> {
        let mut faults = self.faults.clone();
        if self.totals_line.is_none() {
            faults.push((
                1,
                format!("a line that begins with `{TOTALS_START}` is missing"),
            ));
        }
        if self.groups_line.is_none() {
            faults.push((
                1,
                format!("a table that begins with `{GROUPS_START}` is missing"),
            ));
        }
        if self.rows.len() != rules_total {
            faults.push((
                1,
                format!("{} rules instead of {rules_total}", self.rows.len()),
            ));
        }
        let sum: usize = self.expected_groups().map(|expected| expected.rules).sum();
        let stated = self
            .expected
            .iter()
            .find(|expected| expected.name == "total");
        if sum != rules_total || stated.map(|expected| expected.rules) != Some(rules_total) {
            let stated = stated.map_or("nothing".to_owned(), |expected| expected.rules.to_string());
            let line = self.groups_line.unwrap_or(1);
            faults.push((
                line,
                format!(
                    "the groups add up to {sum} and the total says {stated}; it has to be {rules_total}"
                ),
            ));
        }
        self.group_faults(&mut faults);
        faults
    }

    fn expected_groups(&self) -> impl Iterator<Item = &Expected> {
        self.expected
            .iter()
            .filter(|expected| expected.name != "total")
    }

    /// Compares the table of groups with the groups: same names, same order, same numbers of rules.
    fn group_faults(&self, faults: &mut Vec<(usize, String)>) {
        let headings: Vec<&str> = self
            .groups
            .iter()
            .map(|group| group.name.as_str())
            .collect();
        let table: Vec<&str> = self
            .expected_groups()
            .map(|expected| expected.name.as_str())
            .collect();
        if headings != table {
            let differing = (0..)
                .find(|&at| headings.get(at) != table.get(at))
                .expect("unequal lists differ somewhere");
            let line = self.groups.get(differing).map_or(1, |group| group.line);
            let (heading, entry) = (headings.get(differing), table.get(differing));
            faults.push((
                line,
                format!("the heading {heading:?} stands where the table of groups has {entry:?}"),
            ));
        }
        for expected in self.expected_groups() {
            let found = self
                .rows
                .iter()
                .filter(|row| self.groups[row.group].name == expected.name)
                .count();
            if found != expected.rules {
                faults.push((
                    expected.line,
                    format!(
                        "{} has {found} rules instead of {}",
                        expected.name, expected.rules
                    ),
                ));
            }
        }
    }

    /// The text of the page with every generated part made anew from its rows and from the tests that name each rule.
    pub(super) fn generate(&self, tests_by_rule: &BTreeMap<String, BTreeSet<String>>) -> String {
        let mut lines = self.lines.clone();
        if let Some(line) = self.totals_line {
            let [done, todo, later] = self.count(|_| true);
            let todo = if self.todo_allowed {
                format!(", {todo} todo")
            } else {
                String::new()
            };
            lines[line - 1] = format!(
                "{TOTALS_START} {} rules: {done} done{todo}, {later} later.",
                self.rows.len()
            );
        }
        if let Some(line) = self.groups_line {
            let todo = if self.todo_allowed { " todo |" } else { "" };
            lines[line - 1] = format!("{GROUPS_START} done |{todo} later |");
            let columns = if self.todo_allowed { 5 } else { 4 };
            if let Some(separator) = lines.get_mut(line) {
                *separator = format!("|{}", " --- |".repeat(columns));
            }
        }
        for expected in &self.expected {
            let total = expected.name == "total";
            let [done, todo, later] =
                self.count(|row| total || self.groups[row.group].name == expected.name);
            let todo = if self.todo_allowed {
                format!(" {todo} |")
            } else {
                String::new()
            };
            lines[expected.line - 1] = format!(
                "| {} | {} | {done} |{todo} {later} |",
                expected.name, expected.rules
            );
        }
        for row in &self.rows {
            let tests = tests_by_rule.get(&row.id).into_iter().flatten();
            let tests: Vec<String> = tests.map(|test| format!("`{test}`")).collect();
            lines[row.line - 1] = format!("{} {} |", row.written, tests.join(", "));
        }
        lines.join("\n")
    }

    /// Rows per state, among those that satisfy a condition.
    fn count(&self, counts: impl Fn(&Row) -> bool) -> [usize; 3] {
        [State::Done, State::Todo, State::Later].map(|state| {
            self.rows
                .iter()
                .filter(|row| row.state == state && counts(row))
                .count()
        })
    }

    /// Reads the heading `GROUP: title`.
    fn heading(&mut self, line: usize, heading: &str) {
        let name = heading.split_once(": ").map_or(heading, |(name, _)| name);
        if name == heading {
            self.faults
                .push((line, format!("the heading {heading:?} has no title")));
        }
        if self.has_group(name) {
            self.faults
                .push((line, format!("the group {name} is there twice")));
        }
        self.groups.push(Group {
            line,
            name: name.to_owned(),
        });
    }

    /// Reads a row of the table of groups.
    fn expectation(&mut self, line: usize, text: &str) -> Result<(), String> {
        let cells = cells(text);
        let [name, rules, ..] = cells.as_slice() else {
            return Err("a group needs a name and a number of rules".to_owned());
        };
        let rules = rules
            .parse()
            .map_err(|_| format!("{rules:?} is not a number of rules"))?;
        self.expected.push(Expected {
            line,
            name: (*name).to_owned(),
            rules,
        });
        Ok(())
    }

    /// Reads a row of the table of a group.
    fn rule(&mut self, line: usize, text: &str) -> Result<(), String> {
        let cells = cells(text);
        let [id, rule, state, _tests] = cells.as_slice() else {
            return Err(format!("a rule has 4 cells and not {}", cells.len()));
        };
        let group = self.groups.len() - 1;
        if !ids::is_id(id) {
            return Err(format!("{id:?} is not a rule id"));
        }
        if self.group_of(id) != Some(&self.groups[group].name) {
            return Err(format!(
                "{id} does not belong to {}",
                self.groups[group].name
            ));
        }
        if !rule.ends_with('.') {
            return Err(format!("{id} has no sentence"));
        }
        if self.by_id.contains_key(*id) {
            return Err(format!("{id} is there twice"));
        }
        let parsed = self.state(state)?;
        self.by_id.insert((*id).to_owned(), self.rows.len());
        let written = format!("| {id} | {rule} | {state} |");
        self.rows.push(Row {
            line,
            id: (*id).to_owned(),
            state: parsed,
            group,
            written,
        });
        Ok(())
    }

    fn state(&self, text: &str) -> Result<State, String> {
        match text {
            "done" => Ok(State::Done),
            "todo" if self.todo_allowed => Ok(State::Todo),
            "todo" => Err(format!(
                "`todo` needs the line `{TODO_MARKER}` above the tables"
            )),
            _ => match text.strip_prefix("later: ") {
                Some(surface) if SURFACES.contains(&surface) => Ok(State::Later),
                Some(surface) => Err(format!("{surface:?} is none of {}", SURFACES.join(", "))),
                None => Err(format!("{text:?} is not a state")),
            },
        }
    }

    /// The group of the table whose name, without a range of numbers at its end, is the longest beginning of an id.
    fn group_of(&self, id: &str) -> Option<&str> {
        let named = self
            .expected_groups()
            .map(|expected| (expected.name.as_str(), stem(&expected.name)));
        let fitting = named.filter(|(_, stem)| {
            id.strip_prefix(stem)
                .is_some_and(|rest| rest.starts_with('-'))
        });
        fitting
            .max_by_key(|(_, stem)| stem.len())
            .map(|(name, _)| name)
    }
}

/// The beginning that a group's ids have in common: the name, or what stands before a range such as `-1..9`.
fn stem(name: &str) -> &str {
    match name.split_once("..") {
        Some((first, _)) => first.rsplit_once('-').map_or(first, |(stem, _)| stem),
        None => name,
    }
}

/// The cells of a table row, without the white space around them.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    row.strip_suffix('|')
        .unwrap_or(row)
        .split('|')
        .map(str::trim)
        .collect()
}
