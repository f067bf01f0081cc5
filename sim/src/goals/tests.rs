//! Small histories and the goals they must show.

use std::collections::{BTreeMap, BTreeSet};

use holdfast_checker::format::{
    Change, Commits, FORMAT, Filter, Header, ReadResult, Record, RevisionOp, Tier, Visibility,
};
use holdfast_checker::{History, Line};

use super::*;
use crate::options::Options;

const READER: &str = "reader";

fn history(records: Vec<Record>) -> History {
    let lines = records
        .into_iter()
        .map(|record| Line { at_ms: 0, record })
        .collect();
    let header = Header {
        format: FORMAT,
        tier: Tier::Stepper,
        seed: 0,
        commits: Commits::InPlace,
        knows: BTreeSet::new(),
        judges: BTreeSet::new(),
        nodes: BTreeSet::from([1]),
        max_events: 8,
        snapshot_budget_ms: 0,
        delivery_budget_ms: 0,
        register_deadline_ms: 0,
        snapshots_max: 1,
        queue_frames_max: 1,
        queue_bytes_max: 1,
        sweep_ms: None,
        signal_delay_ms: 0,
        slack_ms: 0,
    };
    History { header, lines }
}

/// The goals of a history that were reached, but for those that its frame shows.
fn reached(records: Vec<Record>) -> BTreeSet<&'static str> {
    let mut options = Options::draw(1);
    (options.page_rows, options.queue_frames) = (1, 4);
    let counts = observe(&history(records), &options);
    assert_eq!(counts.len(), ALL.len());
    let reached = counts.into_iter().filter(|(_, times)| *times > 0);
    reached.map(|(name, _)| name).collect()
}

fn commit(index: u64, changes: Vec<Change>) -> Record {
    Record::Commit {
        index,
        ops: vec![index],
        node: 1,
        changes,
    }
}

fn revision(pos: u64, rev: &str, op: RevisionOp, h: &str, status: &str) -> Change {
    Change::Revision {
        pos,
        d: "d1".to_owned(),
        rev: rev.to_owned(),
        prev: None,
        op,
        h: h.to_owned(),
        artifact_type: "task".to_owned(),
        tags: vec![("status".to_owned(), status.to_owned())],
        author: "author".to_owned(),
        root: None,
    }
}

fn channel(pos: u64, channel: &str, visibility: Visibility) -> Change {
    Change::ChannelCreated {
        pos,
        channel: channel.to_owned(),
        channel_type: "stream".to_owned(),
        visibility,
        unlisted: false,
    }
}

fn membership(pos: u64, role: Option<&str>) -> Change {
    Change::Membership {
        pos,
        channel: "a".to_owned(),
        key: READER.to_owned(),
        role: role.map(str::to_owned),
    }
}

fn event(kind: u32, id: &str) -> Record {
    Record::Event {
        conn: 1,
        sub: "s".to_owned(),
        attempt: Some(1),
        kind,
        id: id.to_owned(),
        d: "d1".to_owned(),
        h: "a".to_owned(),
        raw: None,
    }
}

/// A channel `a` of the reader's, a channel `b` of others, and an artifact in `a`.
fn founded() -> Vec<Record> {
    let changes = vec![
        channel(1, "a", Visibility::Private),
        channel(2, "b", Visibility::Private),
        membership(3, Some("member")),
        revision(4, "r1", RevisionOp::Create, "a", "new"),
    ];
    vec![
        commit(1, changes),
        Record::NodeUp { node: 1 },
        Record::Connect { conn: 1, node: 1 },
    ]
}

fn asked() -> Vec<Record> {
    let filter = Filter {
        h: BTreeSet::from(["a".to_owned()]),
        tags: BTreeMap::from([("status".to_owned(), BTreeSet::from(["new".to_owned()]))]),
        malformed: None,
    };
    vec![
        Record::Req {
            attempt: 1,
            conn: 1,
            sub: "s".to_owned(),
            reader: Some(READER.to_owned()),
            replica: None,
            filter,
        },
        Record::Received { attempt: 1 },
    ]
}

/// A sync with `r1` in its set, live.
fn live() -> Vec<Record> {
    let mut records = founded();
    records.extend(asked());
    records.extend([
        Record::SnapshotOpen {
            attempt: 1,
            index: 1,
        },
        event(45_010, "r1"),
        Record::SnapshotClosed { attempt: 1 },
        Record::Eose {
            conn: 1,
            sub: "s".to_owned(),
            attempt: Some(1),
        },
    ]);
    records
}

fn after_live(further: Vec<Record>) -> BTreeSet<&'static str> {
    let mut records = live();
    records.extend(further);
    reached(records)
}

#[test]
fn names_are_distinct_and_plain() {
    assert_eq!(none_reached().len(), ALL.len());
    for goal in ALL {
        let plain = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(goal.name.chars().all(plain), "{}", goal.name);
        assert!(goal.what.ends_with('.'), "{}", goal.what);
    }
    let known = none_reached();
    assert!(TOLD.iter().all(|name| known.contains_key(name)));
}

#[test]
fn a_quiet_sync_reaches_nothing() {
    assert_eq!(reached(founded()), BTreeSet::new());
    assert_eq!(reached(live()), BTreeSet::new());
}

#[test]
fn a_commit_between_req_and_snapshot_is_the_gap() {
    let change = revision(5, "r2", RevisionOp::Update, "a", "new");
    let mut records = founded();
    records.extend(asked());
    records.push(commit(2, vec![change.clone()]));
    assert_eq!(reached(records), BTreeSet::from([CONFIRM_GAP_COMMIT]));
    let elsewhere = revision(5, "r9", RevisionOp::Create, "b", "new");
    assert_eq!(after_live(vec![commit(2, vec![change])]), BTreeSet::new());
    assert!(after_live(vec![commit(2, vec![elsewhere])]).contains(UNREADABLE_CHANGED));
}

#[test]
fn heads_that_leave_stay_or_enter_are_told_apart() {
    let changed = |op, status: &str| {
        let change = revision(5, "r2", op, "a", status);
        after_live(vec![commit(2, vec![change]), event(45_010, "r2")])
    };
    assert_eq!(
        changed(RevisionOp::Update, "new"),
        BTreeSet::from([LIVE_UPDATE])
    );
    assert_eq!(
        changed(RevisionOp::Update, "done"),
        BTreeSet::from([LEAVING_HEAD])
    );
    assert_eq!(
        changed(RevisionOp::Delete, "new"),
        BTreeSet::from([LIVE_DELETE])
    );
    let again = after_live(vec![event(45_010, "r1")]);
    assert_eq!(again, BTreeSet::from([SAME_HEAD_TWICE]));
}

#[test]
fn a_move_to_where_the_reader_cannot_read_shows_with_its_marker() {
    let change = revision(5, "r2", RevisionOp::Move, "b", "new");
    let got = after_live(vec![commit(2, vec![change]), event(45_011, "m")]);
    assert_eq!(
        got,
        BTreeSet::from([MOVE_OUT_UNREADABLE, MARKER_SENT, UNREADABLE_CHANGED])
    );
}

#[test]
fn access_roles_and_redactions_count_while_a_sync_is_open() {
    let one = |change| after_live(vec![commit(2, vec![change])]);
    assert_eq!(one(membership(5, None)), BTreeSet::from([ACCESS_LOST]));
    assert_eq!(
        one(membership(5, Some("admin"))),
        BTreeSet::from([ROLE_CHANGED])
    );
    let redaction = |current| Change::Redaction {
        pos: 5,
        rev: "r1".to_owned(),
        d: "d1".to_owned(),
        current,
    };
    assert_eq!(one(redaction(true)), BTreeSet::from([RETIRED_IN_COPY]));
    assert_eq!(
        one(redaction(false)),
        BTreeSet::from([OLD_REVISION_REDACTED])
    );
    let mut ended = live();
    ended.push(Record::Close { attempt: 1 });
    ended.push(commit(2, vec![redaction(true)]));
    assert_eq!(reached(ended), BTreeSet::new());
}

#[test]
fn a_crash_before_the_publish_and_a_late_signal_are_seen() {
    let change = revision(5, "r2", RevisionOp::Update, "a", "new");
    let next = revision(6, "r3", RevisionOp::Update, "a", "new");
    let crash = Record::NodeCrash { node: 1 };
    let published = |pos| Record::Published {
        node: 1,
        positions: vec![pos],
    };
    let got = after_live(vec![commit(2, vec![change.clone()]), crash.clone()]);
    assert_eq!(got, BTreeSet::from([COMMIT_PUBLISH_CRASH]));
    let told = after_live(vec![commit(2, vec![change.clone()]), published(5), crash]);
    assert_eq!(told, BTreeSet::new());
    let late = after_live(vec![
        commit(2, vec![change]),
        commit(3, vec![next]),
        published(5),
    ]);
    assert_eq!(late, BTreeSet::from([LATE_SIGNAL]));
}

#[test]
fn a_change_while_its_head_is_read_counts_for_that_artifact() {
    let begin = Record::ReadBegin {
        attempt: 1,
        ds: vec!["d1".to_owned()],
    };
    let end = Record::ReadEnd {
        attempt: 1,
        d: "d1".to_owned(),
        index: 1,
        result: ReadResult::Head("r1".to_owned()),
    };
    let change = commit(2, vec![revision(5, "r2", RevisionOp::Update, "a", "new")]);
    let during = after_live(vec![begin.clone(), change.clone(), end.clone()]);
    let both = BTreeSet::from([CHANGED_DURING_HEAD_READ, HELD_ALREADY_IN_SNAPSHOT]);
    assert_eq!(during, both);
    let after = after_live(vec![begin, end, change]);
    assert_eq!(after, BTreeSet::from([HELD_ALREADY_IN_SNAPSHOT]));
}

#[test]
fn a_loss_of_the_bus_is_told_by_what_the_sync_was_doing() {
    let down = Record::BusDown { node: 1 };
    assert_eq!(
        after_live(vec![down.clone()]),
        BTreeSet::from([BUS_LOST_WHILE_LIVE])
    );
    let mut registering = founded();
    registering.push(down.clone());
    registering.extend(asked());
    assert_eq!(reached(registering), BTreeSet::from([SYNC_WAITS_BUS_DOWN]));
    let mut waiting = founded();
    waiting.extend(asked());
    waiting.push(down);
    assert_eq!(
        reached(waiting),
        BTreeSet::from([BUS_LOST_WHILE_REGISTERING])
    );
}
