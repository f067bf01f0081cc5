//! Finds the rules that scripts name. A script names rules in a comment line of its own, `# rules: …` in Python and
//! `// rules: …` in JavaScript, inside a function, a `test("…", …)` call or below a comment `section: …`. Indentation decides
//! what is inside, so the scripts have to be indented.

use super::{Claims, ids};

/// Functions whose first argument, a text, names a test.
const TEST_CALLS: [&str; 4] = ["test", "it", "check", "scenario"];

/// The rules named in a script.
pub(super) fn claims(source: &str, python: bool) -> Claims {
    let marker = if python { "#" } else { "//" };
    let lines: Vec<&str> = source.lines().collect();
    let mut claims = Claims::default();
    let mut named: Vec<(usize, String, usize, Vec<String>)> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(list) = comment(line, marker).and_then(|text| text.strip_prefix("rules:")) else {
            continue;
        };
        let words: Vec<String> = list
            .split_whitespace()
            .map(|word| word.trim_end_matches(',').to_owned())
            .collect();
        for word in words.iter().filter(|word| !ids::is_id(word)) {
            claims
                .faults
                .push((index + 1, format!("{word:?} is not a rule id")));
        }
        let Some((opened, name)) = enclosing(&lines[..index], indent(line), marker, python) else {
            claims.faults.push((
                index + 1,
                "rules are named outside a function or section".to_owned(),
            ));
            continue;
        };
        match named.iter_mut().find(|(at, ..)| *at == opened) {
            Some((.., ids)) => ids.extend(words),
            None => named.push((opened, name, index + 1, words)),
        }
    }
    for (_, name, line, words) in named {
        claims.add(&name, line, words);
    }
    claims
}

/// Line index and name of the innermost function, test call or section around a line that follows `above`.
fn enclosing(
    above: &[&str],
    mut depth: usize,
    marker: &str,
    python: bool,
) -> Option<(usize, String)> {
    for (index, line) in above
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let section = comment(line, marker).and_then(|text| text.strip_prefix("section:"));
        if let Some(name) = section.filter(|_| indent(line) <= depth) {
            return Some((index, name.trim().to_owned()));
        }
        if indent(line) < depth {
            depth = indent(line);
            let name = if python {
                python_function(line.trim())
            } else {
                script_function(line.trim())
            };
            if let Some(name) = name {
                return Some((index, name));
            }
        }
    }
    None
}

/// The text of a line that is a comment and nothing else.
fn comment<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    line.trim().strip_prefix(marker).map(str::trim)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn python_function(line: &str) -> Option<String> {
    let rest = line
        .strip_prefix("async ")
        .unwrap_or(line)
        .strip_prefix("def ")?;
    Some(rest.split('(').next()?.trim().to_owned())
}

fn script_function(line: &str) -> Option<String> {
    let mut rest = line;
    for word in ["export ", "default ", "async ", "await "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    if let Some(rest) = rest.strip_prefix("function ") {
        return Some(rest.split('(').next()?.trim().to_owned());
    }
    let (callee, arguments) = rest.split_once('(')?;
    if let Some((name, value)) = callee
        .strip_prefix("const ")
        .and_then(|rest| rest.split_once('='))
    {
        let is_function = rest.contains("=>") && matches!(value.trim(), "" | "async");
        return is_function.then(|| name.trim().to_owned());
    }
    if !TEST_CALLS.contains(&callee.rsplit('.').next()?) {
        return None;
    }
    let quote = arguments
        .chars()
        .next()
        .filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
    Some(arguments[1..].split(quote).next()?.to_owned())
}
