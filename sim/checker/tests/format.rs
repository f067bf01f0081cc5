//! The file format: what is written is read again, and what is not a complete history of this version is refused with its line.

use holdfast_checker::format::{
    Change, Commits, FORMAT, Filter, Header, Record, RevisionOp, Tier, Visibility,
};
use holdfast_checker::{History, HistoryError, Invariant, Line, Unreadable};

fn header() -> Header {
    Header {
        format: FORMAT,
        tier: Tier::Stepper,
        seed: 7,
        commits: Commits::InPlace,
        knows: [].into(),
        judges: Invariant::ALL.into(),
        nodes: [1].into(),
        max_events: 4,
        snapshot_budget_ms: 100,
        delivery_budget_ms: 200,
        register_deadline_ms: 50,
        snapshots_max: 2,
        queue_frames_max: 4,
        queue_bytes_max: 4_096,
        sweep_ms: None,
        signal_delay_ms: 10,
        slack_ms: 0,
    }
}

fn history() -> History {
    let created = Change::ChannelCreated {
        pos: 1,
        channel: "c1".to_owned(),
        channel_type: "stream".to_owned(),
        visibility: Visibility::Open,
        unlisted: false,
    };
    let revision = Change::Revision {
        pos: 2,
        d: "d1".to_owned(),
        rev: "r1".to_owned(),
        prev: None,
        op: RevisionOp::Create,
        h: "c1".to_owned(),
        artifact_type: "buzz.task".to_owned(),
        tags: vec![("project".to_owned(), "p".to_owned())],
        author: "alice".to_owned(),
        root: None,
    };
    let filter = Filter {
        h: ["c1".to_owned()].into(),
        tags: [("type".to_owned(), ["buzz.task".to_owned()].into())].into(),
        malformed: None,
    };
    let commit = |index, change| Record::Commit {
        index,
        ops: vec![],
        node: 1,
        changes: vec![change],
    };
    let req = Record::Req {
        attempt: 1,
        conn: 1,
        sub: "s1".to_owned(),
        reader: Some("alice".to_owned()),
        replica: None,
        filter,
    };
    let records = [
        commit(1, created),
        Record::Connect { conn: 1, node: 1 },
        req,
        commit(2, revision),
        Record::Settled {},
        Record::End {
            state: None,
            open: None,
        },
    ];
    let lines = (0..).zip(records);
    let lines = lines.map(|(at_ms, record)| Line { at_ms, record });
    History {
        header: header(),
        lines: lines.collect(),
    }
}

fn text() -> String {
    let bytes = history().write(Vec::new()).expect("memory takes it");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

fn refused(text: &str) -> HistoryError {
    History::read(text.as_bytes()).expect_err("it must be refused")
}

/// The text with line `number`, from 1, replaced.
fn with_line(number: usize, change: impl Fn(&str) -> String) -> String {
    let line = |(index, line): (usize, &str)| {
        let changed = index + 1 == number;
        let line = if changed {
            change(line)
        } else {
            line.to_owned()
        };
        line + "\n"
    };
    text().lines().enumerate().map(line).collect()
}

#[test]
fn a_history_reads_as_it_was_written() {
    let read = History::read(text().as_bytes()).expect("it is complete");
    assert_eq!(read, history());
}

#[test]
fn every_cut_is_noticed() {
    let text = text();
    for end in 0..text.len() {
        assert!(text.is_char_boundary(end), "the sample is ASCII");
        History::read(&text.as_bytes()[..end]).expect_err("it is cut");
    }
    let without_end = text.lines().count() - 1;
    let cut: String = text
        .lines()
        .take(without_end)
        .map(|line| format!("{line}\n"))
        .collect();
    let error = refused(&cut);
    assert_eq!(error.line, without_end);
    assert!(matches!(error.what, Unreadable::Cut(_)), "{error}");
}

#[test]
fn lost_doubled_and_moved_lines_are_noticed() {
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    for index in 1..lines.len() - 1 {
        let mut lost = lines.clone();
        lost.remove(index);
        let mut doubled = lines.clone();
        doubled.insert(index, lines[index]);
        let mut moved = lines.clone();
        moved.swap(index, index + 1);
        for (changed, line) in [(lost, index + 1), (doubled, index + 2), (moved, index + 1)] {
            let error = refused(&(changed.join("\n") + "\n"));
            assert_eq!(error.line, line);
            assert!(
                matches!(error.what, Unreadable::Reordered { .. }),
                "{error}"
            );
        }
    }
}

#[test]
fn time_does_not_go_back() {
    let error = refused(&with_line(4, |line| {
        line.replace("\"at_ms\":2", "\"at_ms\":0")
    }));
    assert_eq!(error.line, 4);
    assert!(matches!(
        error.what,
        Unreadable::TimeGoesBack {
            before_ms: 1,
            at_ms: 0
        }
    ));
}

#[test]
fn unknown_records_and_fields_are_refused() {
    let unknown: [(usize, &str, &str); 5] = [
        (1, "\"seed\":7", "\"seed\":7,\"colour\":1"),
        (2, "\"index\":1", "\"index\":1,\"colour\":1"),
        (2, "\"pos\":1", "\"pos\":1,\"colour\":1"),
        (4, "{\"req\":", "{\"ask\":"),
        (5, "\"n\":4", "\"n\":4,\"colour\":1"),
    ];
    for (number, from, to) in unknown {
        let changed = with_line(number, |line| line.replace(from, to));
        assert_ne!(changed, text());
        let error = refused(&changed);
        assert_eq!(error.line, number);
        assert!(matches!(error.what, Unreadable::Malformed(_)), "{error}");
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let version = |format: u32| {
        with_line(1, |line| {
            line.replace("\"format\":1", &format!("\"format\":{format}"))
        })
    };
    let newer = refused(&version(2).replace("\"seed\"", "\"unheard_of\"")).to_string();
    assert_eq!(
        newer,
        "line 1: history format 2 is newer than 1, the newest this program knows"
    );
    assert!(matches!(
        refused(&version(0)).what,
        Unreadable::NoSuchFormat(0)
    ));
    let headless = text()
        .lines()
        .skip(1)
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    assert!(matches!(refused(&headless).what, Unreadable::NoHeader));
}

#[test]
fn nothing_follows_the_end() {
    let text = text() + "{\"n\":7,\"at_ms\":9,\"r\":{\"settled\":{}}}\n";
    let error = refused(&text);
    assert_eq!(error.line, 8);
    assert!(matches!(error.what, Unreadable::AfterEnd), "{error}");
}
