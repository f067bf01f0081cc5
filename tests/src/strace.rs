//! Reads what `strace -f -y` wrote: which system call began and ended where in the common order of all threads. Which order a
//! relay has to keep belongs to the tests.
//!
//! strace stops each thread at the beginning and at the end of a call and writes a line before it lets the thread go on. So
//! whatever one thread learns from another stands in the file after what it learned.

use std::collections::BTreeMap;

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The thread.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// The arguments as strace writes them, file names of descriptors included.
    pub args: String,
    /// The line on which it began, from 0.
    pub began: usize,
    /// The line on which it ended, which is the same where nothing came between; `None` if it did not.
    pub ended: Option<usize>,
    /// What it returned; `None` if it did not or if that was no number.
    pub result: Option<i64>,
}

impl Call {
    /// Whether its first argument is a file whose path ends so.
    pub fn on_file(&self, end_of_path: &str) -> bool {
        let descriptor = self.args.split(", ").next().unwrap_or_default();
        descriptor
            .trim_end_matches(')')
            .strip_suffix('>')
            .is_some_and(|path| path.ends_with(end_of_path))
    }
}

/// The calls of a trace, in the order in which they began. Lines about signals and exits are passed over.
///
/// # Panics
/// On a line that is none of strace's.
pub fn calls(trace: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open: BTreeMap<u32, usize> = BTreeMap::new();
    for (at, line) in trace.lines().enumerate() {
        let (thread, rest) = thread_and_rest(line);
        if rest.starts_with("---") || rest.starts_with("+++") {
            continue;
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some(began) = open.remove(&thread) else {
                panic!("line {at} resumes nothing: {line}");
            };
            let (_, more) = resumed
                .split_once(" resumed>")
                .unwrap_or_else(|| panic!("line {at} is cut: {line}"));
            let call = &mut calls[began];
            call.args.push_str(before_result(more));
            call.ended = Some(at);
            call.result = result_of(more);
            continue;
        }
        let (name, more) = rest
            .split_once('(')
            .unwrap_or_else(|| panic!("line {at} is no call: {line}"));
        let unfinished = more.strip_suffix(" <unfinished ...>");
        if unfinished.is_some() {
            open.insert(thread, calls.len());
        }
        calls.push(Call {
            thread,
            name: name.to_owned(),
            args: unfinished.unwrap_or_else(|| before_result(more)).to_owned(),
            began: at,
            ended: unfinished.is_none().then_some(at),
            result: unfinished.is_none().then(|| result_of(more)).flatten(),
        });
    }
    calls
}

/// The thread id, which strace writes in front of each line of a trace of several threads.
fn thread_and_rest(line: &str) -> (u32, &str) {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    match first.parse() {
        Ok(thread) => (thread, rest.trim_start()),
        Err(_) => panic!("no thread id: {line}"),
    }
}

fn before_result(text: &str) -> &str {
    text.rsplit_once(" = ")
        .map_or(text, |(before, _)| before.trim_end())
}

fn result_of(text: &str) -> Option<i64> {
    let (_, result) = text.rsplit_once(" = ")?;
    result.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"101  pwrite64(9</d/x.sqlite-wal>, "a = b, (c)"..., 4096, 32) = 4096
102  sendto(7<TCP:[127.0.0.1:1->127.0.0.1:2]>, "[\"OK\"]", 6, MSG_NOSIGNAL, NULL, 0 <unfinished ...>
101  fdatasync(9</d/x.sqlite-wal> <unfinished ...>
102  <... sendto resumed>)  = 6
103  --- SIGTERM {si_signo=SIGTERM} ---
101  <... fdatasync resumed>)          = 0
102  write(1<pipe:[4]>, "x", 1)      = -1 EPIPE (Broken pipe)
101  fdatasync(9</d/x.sqlite-wal> <unfinished ...>
101  +++ killed by SIGKILL +++
"#;

    #[test]
    fn calls_are_joined_over_interruptions_and_keep_their_order() {
        let calls = calls(TRACE);
        let facts: Vec<_> = calls
            .iter()
            .map(|call| {
                (
                    call.name.as_str(),
                    call.thread,
                    call.began,
                    call.ended,
                    call.result,
                )
            })
            .collect();
        assert_eq!(
            facts,
            [
                ("pwrite64", 101, 0, Some(0), Some(4096)),
                ("sendto", 102, 1, Some(3), Some(6)),
                ("fdatasync", 101, 2, Some(5), Some(0)),
                ("write", 102, 6, Some(6), Some(-1)),
                ("fdatasync", 101, 7, None, None),
            ]
        );
        assert!(calls[0].on_file("-wal") && calls[2].on_file(".sqlite-wal"));
        assert!(!calls[1].on_file("-wal") && !calls[3].on_file("-wal"));
        assert!(calls[0].args.contains("a = b, (c)"));
    }
}
