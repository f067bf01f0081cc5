//! A history as JSON lines: written one record at a time, read whole and strictly.
//!
//! What belongs here: the frame around a record, its number and time, and what makes a file unreadable. What must not: whether
//! the records make sense together (`replay`) or keep the rules (`judges`).

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::format::{Commits, FORMAT, Header, Record};

/// One record with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Simulated or monotonic time in milliseconds. It never goes back, except in commits that stand at the end.
    pub at_ms: u64,
    /// The record.
    pub record: Record,
}

/// A complete history in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The first record.
    pub header: Header,
    /// All other records. Record `i` stands on line `i + 2` of the file.
    pub lines: Vec<Line>,
}

/// A file that cannot be judged.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct HistoryError {
    /// Line of the file, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: Unreadable,
}

/// Why a file cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The file could not be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The line is no record of this version.
    #[error("not a record of history format {FORMAT}: {0}")]
    Malformed(String),
    /// The first line is no header.
    #[error("the history does not begin with a header")]
    NoHeader,
    /// The history was written by a newer program.
    #[error("history format {0} is newer than {FORMAT}, the newest this program knows")]
    Newer(u64),
    /// The history has no such format.
    #[error("history format {0} does not exist")]
    NoSuchFormat(u64),
    /// A line is missing, doubled or moved.
    #[error("record {found} stands where record {expected} belongs: lines were lost or reordered")]
    Reordered {
        /// The number that belongs here.
        expected: u64,
        /// The number that stands here.
        found: u64,
    },
    /// Time went back.
    #[error("time goes back from {before_ms} ms to {at_ms} ms: lines were reordered")]
    TimeGoesBack {
        /// Time of the record before.
        before_ms: u64,
        /// Time of this record.
        at_ms: u64,
    },
    /// The file ends in the middle.
    #[error("the history is cut: {0}")]
    Cut(&'static str),
    /// The history is complete, and yet something follows.
    #[error("a record follows the end of the history")]
    AfterEnd,
    /// The record contradicts the records before it or the header.
    #[error("{0}")]
    Inconsistent(String),
}

/// The frame of a record on its line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Framed {
    n: u64,
    at_ms: u64,
    r: Record,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FramedHeader {
    n: u64,
    #[serde(rename = "at_ms")]
    _at_ms: u64,
    r: HeaderRecord,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderRecord {
    header: Header,
}

#[derive(Serialize)]
struct Frame<'a, R> {
    n: u64,
    at_ms: u64,
    r: &'a R,
}

/// Writes a history, one line per record. The file is complete once `end` was written and the writer flushed.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    next: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a history.
    ///
    /// # Errors
    /// What the output says.
    pub fn new(out: W, header: &Header) -> io::Result<Writer<W>> {
        #[derive(Serialize)]
        struct First<'a> {
            header: &'a Header,
        }
        let mut writer = Writer { out, next: 0 };
        writer.line(0, &First { header })?;
        Ok(writer)
    }

    /// Writes the next record.
    ///
    /// # Errors
    /// What the output says.
    pub fn write(&mut self, at_ms: u64, record: &Record) -> io::Result<()> {
        self.line(at_ms, record)
    }

    /// Flushes and gives the output back.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn line<R: Serialize>(&mut self, at_ms: u64, r: &R) -> io::Result<()> {
        let n = self.next;
        serde_json::to_writer(&mut self.out, &Frame { n, at_ms, r })?;
        self.out.write_all(b"\n")?;
        self.next += 1;
        Ok(())
    }
}

impl History {
    /// Reads a complete history.
    ///
    /// # Errors
    /// [`HistoryError`] with the first line that is wrong. A file that is cut, even between two lines, is an error.
    pub fn read(mut input: impl BufRead) -> Result<History, HistoryError> {
        let mut text = String::new();
        let wrong = |line, what| HistoryError { line, what };
        if !next_line(&mut input, &mut text).map_err(|what| wrong(1, what))? {
            return Err(wrong(1, Unreadable::NoHeader));
        }
        let header = read_header(&text).map_err(|what| wrong(1, what))?;
        let mut reader = LineReader {
            at_end: header.commits == Commits::AtEnd,
            lines: Vec::new(),
            before_ms: 0,
            ended: false,
        };
        let mut number = 2;
        while next_line(&mut input, &mut text).map_err(|what| wrong(number, what))? {
            reader.take(&text).map_err(|what| wrong(number, what))?;
            number += 1;
        }
        if !reader.ended {
            return Err(wrong(number - 1, Unreadable::Cut("it has no end record")));
        }
        let lines = reader.lines;
        Ok(History { header, lines })
    }

    /// Writes the whole history.
    ///
    /// # Errors
    /// What the output says.
    pub fn write<W: Write>(&self, out: W) -> io::Result<W> {
        let mut writer = Writer::new(out, &self.header)?;
        for line in &self.lines {
            writer.write(line.at_ms, &line.record)?;
        }
        writer.finish()
    }
}

struct LineReader {
    at_end: bool,
    lines: Vec<Line>,
    before_ms: u64,
    ended: bool,
}

impl LineReader {
    fn take(&mut self, text: &str) -> Result<(), Unreadable> {
        if self.ended {
            return Err(Unreadable::AfterEnd);
        }
        let framed: Framed = serde_json::from_str(text).map_err(malformed)?;
        let expected = self.lines.len() as u64 + 1;
        if framed.n != expected {
            let found = framed.n;
            return Err(Unreadable::Reordered { expected, found });
        }
        let timeless = self.at_end && matches!(framed.r, Record::Commit { .. });
        if !timeless {
            let (before_ms, at_ms) = (self.before_ms, framed.at_ms);
            if at_ms < before_ms {
                return Err(Unreadable::TimeGoesBack { before_ms, at_ms });
            }
            self.before_ms = at_ms;
        }
        self.ended = matches!(framed.r, Record::End { .. });
        let (at_ms, record) = (framed.at_ms, framed.r);
        self.lines.push(Line { at_ms, record });
        Ok(())
    }
}

/// Reads one line with its newline; false at the end of the file.
fn next_line(input: &mut impl BufRead, text: &mut String) -> Result<bool, Unreadable> {
    text.clear();
    if input.read_line(text)? == 0 {
        return Ok(false);
    }
    if !text.ends_with('\n') {
        return Err(Unreadable::Cut("its last line has no newline"));
    }
    Ok(true)
}

fn read_header(text: &str) -> Result<Header, Unreadable> {
    let value: Value = serde_json::from_str(text).map_err(malformed)?;
    let header = &value["r"]["header"];
    if !header.is_object() {
        return Err(Unreadable::NoHeader);
    }
    match header["format"].as_u64() {
        Some(format) if format > u64::from(FORMAT) => return Err(Unreadable::Newer(format)),
        Some(format) if format < u64::from(FORMAT) => {
            return Err(Unreadable::NoSuchFormat(format));
        }
        _ => {}
    }
    let framed: FramedHeader = serde_json::from_str(text).map_err(malformed)?;
    if framed.n != 0 {
        let (expected, found) = (0, framed.n);
        return Err(Unreadable::Reordered { expected, found });
    }
    Ok(framed.r.header)
}

fn malformed(error: serde_json::Error) -> Unreadable {
    Unreadable::Malformed(error.to_string())
}
