//! The page of public bug reports: it has every case, and every test that it names exists.

use std::fs;

use holdfast_tests::trace::workspace_root;

fn page() -> String {
    fs::read_to_string(workspace_root().join("docs/bug-reports.md")).expect("the page is there")
}

/// The cases of the page with what it says about each.
fn cases(page: &str) -> Vec<(String, String)> {
    let lines = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let case = cells.next()?.to_owned();
        let is_case = case.len() == 3 && case[1..].parse::<u32>().is_ok();
        Some((case, cells.last()?.to_owned())).filter(|_| is_case)
    });
    lines.collect()
}

#[test]
fn every_case_has_a_test_or_a_reason() {
    let cases = cases(&page());
    let names: Vec<&str> = cases.iter().map(|(case, _)| case.as_str()).collect();
    let expected: Vec<String> = (1..=28)
        .map(|n| format!("B{n:02}"))
        .chain((1..=24).map(|n| format!("S{n:02}")))
        .collect();
    assert_eq!(names, expected);
    for (case, here) in &cases {
        let tested = here.contains("::");
        let reasoned = here.contains("later, ");
        assert!(tested || reasoned, "{case}: {here}");
    }
}

#[test]
fn every_test_that_the_page_names_exists() {
    let root = workspace_root();
    let page = page();
    let names = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| name.contains("::"));
    let mut looked_up = 0;
    for name in names.filter(|name| *name != "file::function") {
        let (file, function) = name.split_once("::").expect("the name has both parts");
        let path = if file.contains('/') {
            root.join(file)
        } else {
            root.join("tests/tests").join(format!("{file}.rs"))
        };
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            text.contains(&format!("fn {function}(")),
            "{name} does not exist"
        );
        looked_up += 1;
    }
    assert!(looked_up > 50, "only {looked_up} names were found");
}
