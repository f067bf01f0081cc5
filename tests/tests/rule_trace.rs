//! The rule check on this repository, and on small made-up repositories that each break it in one way.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use holdfast_tests::trace::{PAGE_PATH, RULES_TOTAL, Report, trace, workspace_root};

#[test]
fn the_page_and_the_tests_agree() {
    let report = trace(&workspace_root(), RULES_TOTAL).expect("the repository can be read");
    let findings = report.findings();
    assert!(
        findings.is_empty(),
        "{}\n`cargo run -p holdfast-tests --bin rules` mends what is generated",
        findings.join("\n")
    );
}

/// A page without faults. `@` stands for the first two letters of an id in every text of this file, because ids that do not
/// exist would otherwise fail the check of this repository.
const PAGE: &str = "# Rules

<!-- todo allowed -->

**Totals:** 4 rules: 1 done, 1 todo, 2 later.

| group | rules | done | todo | later |
| --- | --- | --- | --- | --- |
| @-X | 2 | 1 | 1 | 0 |
| @-X-Y-1..2 | 2 | 0 | 0 | 2 |
| total | 4 | 1 | 1 | 2 |

## @-X: first

| id | rule | state | tests |
| --- | --- | --- | --- |
| @-X-1 | The first. | done | `core/src/lib.rs::one` |
| @-X-2 | The second. | todo |  |

## @-X-Y-1..2: second

| id | rule | state | tests |
| --- | --- | --- | --- |
| @-X-Y-1a | The third. | later: sync |  |
| @-X-Y-2 | The fourth. | later: client |  |
";

const CODE: &str = r#"
#[test]
fn one() {
    rules!("@-X-1");
}
"#;

/// A repository in a temporary folder, removed at the end of the test.
struct Repository {
    root: PathBuf,
}

impl Repository {
    /// A repository without findings.
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("holdfast-rules-{}-{number}", std::process::id());
        let repository = Self {
            root: std::env::temp_dir().join(name),
        };
        for folder in ["runtime", "sim", "tests"] {
            fs::create_dir_all(repository.root.join(folder)).expect("the folder can be made");
        }
        repository.write(PAGE_PATH, PAGE);
        repository.write("core/src/lib.rs", CODE);
        repository
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("it can be made");
        fs::write(path, text.replace('@', "AR")).expect("the file can be written");
    }

    fn trace(&self) -> Report {
        trace(&self.root, 4).expect("the repository can be read")
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.root).expect("the folder is still there");
    }
}

/// Asserts that these are the faults, written with `@`, and that nothing is stale.
#[track_caller]
fn assert_faults(report: &Report, expected: &[&str]) {
    let expected: Vec<String> = expected
        .iter()
        .map(|text| text.replace('@', "AR"))
        .collect();
    assert_eq!(report.faults, expected);
    assert_eq!(report.stale, Vec::<String>::new());
}

/// Asserts the faults after one replacement in the page.
#[track_caller]
fn assert_page_faults(from: &str, to: &str, expected: &[&str]) {
    assert_eq!(
        PAGE.matches(from).count(),
        1,
        "{from:?} has to stand on the page once"
    );
    let repository = Repository::new();
    repository.write(PAGE_PATH, &PAGE.replace(from, to));
    assert_faults(&repository.trace(), expected);
}

/// Asserts the faults after a further Rust file has come.
#[track_caller]
fn assert_code_faults(source: &str, expected: &[&str]) {
    let repository = Repository::new();
    repository.write("sim/src/more.rs", source);
    assert_faults(&repository.trace(), expected);
}

#[test]
fn a_repository_without_faults_passes() {
    let repository = Repository::new();
    assert_eq!(repository.trace().findings(), Vec::<String>::new());
    assert_eq!(repository.trace().page, PAGE.replace('@', "AR"));
}

#[test]
fn an_id_in_code_has_to_exist() {
    let unknown = |at| format!("{at}: @-X-9 is not a rule of docs/rules.md");
    assert_code_faults("// See @-X-9.\n", &[&unknown("sim/src/more.rs:1")]);
    assert_code_faults("/* @-X-1..9 */\n", &[&unknown("sim/src/more.rs:1")]);
    assert_code_faults(
        "const A: &str = \"@-X-9\";\n",
        &[&unknown("sim/src/more.rs:1")],
    );
    assert_code_faults("/// @-X, @-X-1..2, @-X-Y-1..2, @-X-Y-1a.\nfn a() {}\n", &[]);

    let repository = Repository::new();
    repository.write(
        "sim/src/more.rs",
        "#[test]\nfn two() { rules!(\"@-X-9\"); }\n",
    );
    repository.write("tests/a.py", "# @-X-9\n");
    assert_faults(
        &repository.trace(),
        &[&unknown("sim/src/more.rs:2"), &unknown("tests/a.py:1")],
    );
}

#[test]
fn a_text_that_is_no_id_is_refused() {
    let source = "#[test]\nfn two() { rules!(\"first\"); }\n";
    assert_code_faults(
        source,
        &["sim/src/more.rs:2: first is not a rule of docs/rules.md"],
    );
    let source = "#[test]\nfn two() { rules!(FIRST); }\n";
    assert_code_faults(
        source,
        &[
            "sim/src/more.rs:2: `rules!` takes texts only, not Word(\"FIRST\")",
            "sim/src/more.rs:2: `two` names no rule",
        ],
    );
}

#[test]
fn a_test_names_at_most_six_rules() {
    let list = |count| vec!["\"@-X-1\""; count].join(", ");
    let twice = "sim/src/more.rs:2: `two` names a rule twice";
    let report = |source: String| {
        let repository = Repository::new();
        repository.write("sim/src/more.rs", &source);
        repository.trace().faults
    };
    let six = format!("#[test]\nfn two() {{ rules!({}); }}\n", list(6));
    assert_eq!(report(six), [twice]);
    let many = "sim/src/more.rs:2: `two` names 7 rules, 6 at most";
    let seven = format!("#[test]\nfn two() {{ rules!({}); }}\n", list(7));
    assert_eq!(report(seven), [many, twice]);
    let in_two_calls = format!(
        "#[test]\nfn two() {{ rules!({}); rules!({}); }}\n",
        list(3),
        list(4)
    );
    assert_eq!(report(in_two_calls), [many, twice]);
}

#[test]
fn rules_are_named_inside_tests_only() {
    assert_code_faults(
        "rules!(\"@-X-1\");\n",
        &["sim/src/more.rs:1: `rules!` stands outside a function"],
    );
    let after = "#[test]\nfn two() {}\nrules!(\"@-X-1\");\n";
    assert_code_faults(
        after,
        &["sim/src/more.rs:3: `rules!` stands outside a function"],
    );
    let helper = "#[test]\nfn two() {}\nfn three() { rules!(\"@-X-1\"); }\n";
    assert_code_faults(
        helper,
        &["sim/src/more.rs:3: `three` names rules but is not a test"],
    );
    let nested = "#[test]\nfn two() {\n    fn three() { rules!(\"@-X-1\"); }\n}\n";
    assert_code_faults(
        nested,
        &["sim/src/more.rs:3: `three` names rules but is not a test"],
    );
    let other = "#[cfg(test)]\nfn two() { rules!(\"@-X-1\"); }\n";
    assert_code_faults(
        other,
        &["sim/src/more.rs:2: `two` names rules but is not a test"],
    );
}

#[test]
fn a_test_that_is_switched_off_demonstrates_nothing() {
    for off in [
        "#[ignore]",
        "#[ignore = \"slow\"]",
        "#[cfg_attr(unix, ignore)]",
    ] {
        let source = format!("#[test]\n{off}\nfn two() {{ rules!(\"@-X-1\"); }}\n");
        assert_code_faults(
            &source,
            &["sim/src/more.rs:3: `two` names rules but is switched off"],
        );
    }
}

#[test]
fn comments_texts_and_the_definition_are_no_calls() {
    let source = r####"
//! rules!("@-X-1")
/* /* */ rules!("@-X-1"); */
macro_rules! rules { ($($id:literal),+) => { rules!("@-X-1") }; }
const A: &str = "\"rules!(";
const B: &str = r#" " rules!("@-X-1"); "#;
fn two<'a>(rules: &'a [char]) -> bool { rules != ['"', '\'', '{'] }
"####;
    assert_code_faults(source, &[]);
}

#[test]
fn every_way_to_write_a_test_counts() {
    let source = r##"
mod tests {
    #[test]
    fn plain() {
        let _ = ['{', '\'', '"'];
        crate::rules!("@-X-1");
    }

    #[tokio::test(flavor = "multi_thread")]
    pub(crate) async fn with_runtime<'a>() -> Result<(), [u8; { 3 }]> {
        let text = r#"} fn "other"() {"#;
        async move { rules!["@-X-1", "@-X-2",] }
    }

    proptest! {
        #![proptest_config(config())]

        /// A property.
        #[test]
        fn property(count in 0..3_usize, call: fn(u8) -> u8) {
            if count > 1 { helper(); }
            holdfast_core::rules!("@-X-Y-2");
        }
    }
}
"##;
    let repository = Repository::new();
    repository.write("sim/src/more.rs", source);
    let page = repository.trace().page.replace("AR", "@");
    for row in [
        "| @-X-1 | The first. | done | `core/src/lib.rs::one`, `sim/src/more.rs::plain`, `sim/src/more.rs::with_runtime` |",
        "| @-X-2 | The second. | todo | `sim/src/more.rs::with_runtime` |",
        "| @-X-Y-2 | The fourth. | later: client | `sim/src/more.rs::property` |",
    ] {
        assert!(page.contains(row), "{row}\nis missing in\n{page}");
    }
    assert_eq!(repository.trace().faults, Vec::<String>::new());
}

#[test]
fn scripts_name_rules_in_comment_lines() {
    let repository = Repository::new();
    let python = "async def first():\n    if x:\n        # rules: @-X-1, @-X-2\n        y()\n";
    repository.write("tests/clients/a.py", python);
    let script = "await test('second one', async () => {\n  // rules: @-X-2\n});\n\
        // section: third\n// rules: @-X-Y-1a\nexport const fourth = async () => {\n\n  // rules: @-X-Y-2\n};\n";
    repository.write("tests/clients/b.mjs", script);
    repository.write("tests/node_modules/c.mjs", "// rules: @-X-1\n");
    repository.write("core/d.py", "# rules: @-X-1\n");
    let report = repository.trace();
    assert_eq!(report.faults, Vec::<String>::new());
    let page = report.page.replace("AR", "@");
    for row in [
        "| @-X-1 | The first. | done | `core/src/lib.rs::one`, `tests/clients/a.py::first` |",
        "| @-X-2 | The second. | todo | `tests/clients/a.py::first`, `tests/clients/b.mjs::second one` |",
        "| @-X-Y-1a | The third. | later: sync | `tests/clients/b.mjs::third` |",
        "| @-X-Y-2 | The fourth. | later: client | `tests/clients/b.mjs::fourth` |",
    ] {
        assert!(page.contains(row), "{row}\nis missing in\n{page}");
    }
}

#[test]
fn faults_of_scripts_are_found() {
    let repository = Repository::new();
    repository.write("tests/a.py", "def first():\n    pass\n# rules: @-X-1\n");
    repository.write("tests/b.py", "def first():\n    # rules: @-X-1 second\n");
    let many = "@-X-1 ".repeat(7);
    repository.write(
        "tests/c.mjs",
        &format!("function first() {{\n  // rules: {many}\n}}\n"),
    );
    repository.write(
        "tests/d.mjs",
        "test(\"a | b\", () => {\n  // rules: @-X-1\n});\n",
    );
    repository.write(
        "tests/e.mjs",
        "other(\"a\", () => {\n  // rules: @-X-1\n});\n",
    );
    let faults = repository.trace().faults;
    let expected = [
        "tests/a.py:3: rules are named outside a function or section",
        "tests/b.py:2: \"second\" is not a rule id",
        "tests/b.py:2: second is not a rule of docs/rules.md",
        "tests/c.mjs:2: `first` names 7 rules, 6 at most",
        "tests/c.mjs:2: `first` names a rule twice",
        "tests/d.mjs:2: the name \"a | b\" does not fit into a table",
        "tests/e.mjs:2: rules are named outside a function or section",
    ];
    assert_eq!(faults, expected);
}

#[test]
fn a_done_rule_needs_a_test() {
    let repository = Repository::new();
    let page = PAGE
        .replace("1 done, 1 todo", "2 done, 0 todo")
        .replace("| 1 | 1 |", "| 2 | 0 |")
        .replace("| The second. | todo |", "| The second. | done |");
    repository.write(PAGE_PATH, &page);
    assert_faults(
        &repository.trace(),
        &["docs/rules.md:18: @-X-2 is done, but no test names it"],
    );
}

#[test]
fn every_generated_part_is_compared() {
    for (from, to, line) in [
        ("4 rules: 1 done", "4 rules: 2 done", 5),
        (
            "| group | rules | done | todo | later |",
            "| group | rules | done | later |",
            7,
        ),
        ("| @-X | 2 | 1 | 1 | 0 |", "| @-X | 2 | 1 | 1 | 1 |", 9),
        ("| total | 4 | 1 | 1 | 2 |", "| total | 4 |", 11),
        ("`core/src/lib.rs::one`", "`core/src/lib.rs::two`", 17),
        (
            "| The second. | todo |  |",
            "| The second. | todo | `a` |",
            18,
        ),
        (
            "| The third. | later: sync |  |",
            "| The third. | later: sync | `a` |",
            24,
        ),
    ] {
        assert_eq!(PAGE.matches(from).count(), 1, "{from}");
        let repository = Repository::new();
        repository.write(PAGE_PATH, &PAGE.replace(from, to));
        let report = repository.trace();
        assert_eq!(
            report.stale,
            [format!(
                "docs/rules.md:{line}: the generated part is out of date"
            )],
            "{to}"
        );
        assert_eq!(report.findings(), report.stale, "{to}");
        assert_eq!(report.page, PAGE.replace('@', "AR"), "{to}");
    }
}

#[test]
fn a_test_that_goes_leaves_the_page_stale() {
    let repository = Repository::new();
    repository.write("core/src/lib.rs", "");
    let report = repository.trace();
    assert_eq!(
        report.faults,
        ["docs/rules.md:17: @-X-1 is done, but no test names it".replace('@', "AR")]
    );
    assert_eq!(
        report.stale,
        ["docs/rules.md:17: the generated part is out of date"]
    );
}

#[test]
fn without_the_marker_nothing_is_todo() {
    let repository = Repository::new();
    repository.write(PAGE_PATH, &PAGE.replace("<!-- todo allowed -->\n", ""));
    let report = repository.trace();
    let refused =
        "docs/rules.md:17: `todo` needs the line `<!-- todo allowed -->` above the tables";
    assert!(
        report.faults.contains(&refused.to_owned()),
        "{:?}",
        report.faults
    );
    let columns = report
        .page
        .lines()
        .filter(|line| line.contains("todo"))
        .count();
    assert_eq!(
        columns, 1,
        "only the refused rule still says todo:\n{}",
        report.page
    );
    assert!(
        report
            .page
            .contains("**Totals:** 3 rules: 1 done, 2 later."),
        "{}",
        report.page
    );
}

#[test]
fn states_and_surfaces_are_closed_lists() {
    let rest = [
        "docs/rules.md:1: 3 rules instead of 4",
        "docs/rules.md:9: @-X has 1 rules instead of 2",
    ];
    for (state, fault) in [
        ("Done", "docs/rules.md:18: \"Done\" is not a state"),
        ("later", "docs/rules.md:18: \"later\" is not a state"),
        ("", "docs/rules.md:18: \"\" is not a state"),
        (
            "later: soon",
            "docs/rules.md:18: \"soon\" is none of sync, nodes, quota, moderation, tokens, DM, search, retention, \
            incremental, client",
        ),
    ] {
        let repository = Repository::new();
        let row = format!("| The second. | {state} |  |");
        repository.write(PAGE_PATH, &PAGE.replace("| The second. | todo |  |", &row));
        let expected: Vec<String> = rest
            .iter()
            .copied()
            .chain([fault])
            .map(|text| text.replace('@', "AR"))
            .collect();
        assert_eq!(repository.trace().faults, expected, "{state}");
    }
}

#[test]
fn the_number_of_rules_of_a_group_is_fixed() {
    assert_page_faults(
        "| @-X-Y-1..2 | 2 |",
        "| @-X-Y-1..2 | 3 |",
        &[
            "docs/rules.md:7: the groups add up to 5 and the total says 4; it has to be 4",
            "docs/rules.md:10: @-X-Y-1..2 has 2 rules instead of 3",
        ],
    );
    assert_page_faults(
        "| total | 4 |",
        "| total | 5 |",
        &["docs/rules.md:7: the groups add up to 4 and the total says 5; it has to be 4"],
    );
    let repository = Repository::new();
    let report = trace(&repository.root, 5).expect("the repository can be read");
    assert_eq!(
        report.faults,
        [
            "docs/rules.md:1: 4 rules instead of 5",
            "docs/rules.md:7: the groups add up to 4 and the total says 4; it has to be 5",
        ]
    );
}

#[test]
fn a_rule_stands_once_and_in_its_group() {
    let replaced = |from: &str, to: &str| {
        let repository = Repository::new();
        repository.write(PAGE_PATH, &PAGE.replace(from, to));
        repository
            .trace()
            .faults
            .into_iter()
            .map(|fault| fault.replace("AR", "@"))
            .collect::<Vec<_>>()
    };
    for (id, fault) in [
        ("| @-X-1 | ", "docs/rules.md:18: @-X-1 is there twice"),
        (
            "| @-X-Y-3 | ",
            "docs/rules.md:18: @-X-Y-3 does not belong to @-X",
        ),
        (
            "| @-Z-1 | ",
            "docs/rules.md:18: @-Z-1 does not belong to @-X",
        ),
        (
            "| second | ",
            "docs/rules.md:18: \"second\" is not a rule id",
        ),
        (
            "| @-X-2 | | ",
            "docs/rules.md:18: a rule has 4 cells and not 5",
        ),
    ] {
        let faults = replaced("| @-X-2 | ", id);
        assert!(faults.contains(&fault.to_owned()), "{faults:?}");
    }
    let faults = replaced("The second.", "");
    assert!(
        faults.contains(&"docs/rules.md:18: @-X-2 has no sentence".to_owned()),
        "{faults:?}"
    );
}

#[test]
fn headings_and_table_of_groups_agree() {
    assert_page_faults(
        "## @-X: first",
        "## @-X",
        &["docs/rules.md:13: the heading \"@-X\" has no title"],
    );
    let unequal = "docs/rules.md:13: the heading Some(\"@-W\") stands where the table of groups has Some(\"@-X\")";
    let repository = Repository::new();
    repository.write(PAGE_PATH, &PAGE.replace("## @-X: first", "## @-W: first"));
    let faults = repository.trace().faults;
    assert!(faults.contains(&unequal.replace('@', "AR")), "{faults:?}");
    repository.write(PAGE_PATH, &format!("{PAGE}\n## @-X: again\n"));
    let faults = repository.trace().faults;
    assert!(
        faults.contains(&"docs/rules.md:27: the group @-X is there twice".replace('@', "AR")),
        "{faults:?}"
    );
}

#[test]
fn generated_parts_cannot_be_left_out() {
    assert_page_faults(
        "**Totals:**",
        "Totals:",
        &["docs/rules.md:1: a line that begins with `**Totals:**` is missing"],
    );
    let repository = Repository::new();
    repository.write(PAGE_PATH, &PAGE.replace("| group | rules |", "| a | b |"));
    let missing =
        "docs/rules.md:1: a table that begins with `| group | rules |` is missing".to_owned();
    assert!(repository.trace().faults.contains(&missing));
}

#[test]
fn a_missing_folder_or_page_is_an_error() {
    for path in ["sim", "tests"] {
        let repository = Repository::new();
        fs::remove_dir(repository.root.join(path)).expect("the folder is empty");
        let error = trace(&repository.root, 4).expect_err("a folder is missing");
        assert!(error.to_string().starts_with(path), "{error}");
    }
    let repository = Repository::new();
    fs::remove_file(repository.root.join(PAGE_PATH)).expect("the page is there");
    let error = trace(&repository.root, 4).expect_err("the page is missing");
    assert!(error.to_string().starts_with(PAGE_PATH), "{error}");
}
