//! The goals that requests, frames and reads of syncs show.

use holdfast_checker::format::{Attempt, Filter, ReadResult, Record, RevisionOp};

use super::observe::{Observer, Phase, Sync};
use crate::goals;

impl<'h> Observer<'h> {
    /// Takes a record that is about one sync.
    pub(super) fn take_sync(&mut self, record: &'h Record) {
        match record {
            Record::Req { .. } => self.asked(record),
            Record::Received { attempt } => self.received(*attempt),
            Record::Close { attempt } => self.close(*attempt),
            Record::SnapshotOpen { attempt, index } => {
                if let Some(sync) = self.syncs.get_mut(attempt)
                    && sync.phase == Phase::Registering
                {
                    sync.phase = Phase::Reading(*index);
                    sync.opened_at = Some(*index);
                }
            }
            Record::SnapshotClosed { attempt } => {
                if let Some(sync) = self.syncs.get_mut(attempt) {
                    sync.is_snapshot_closed = true;
                }
            }
            Record::Held { attempt, .. } => {
                if let Some(sync) = self.syncs.get_mut(attempt) {
                    sync.has_held = true;
                    self.reach(goals::CHANGE_HELD);
                }
            }
            Record::Dirty { count, .. } => {
                let batch = self.options.heads.min(self.options.queue_frames);
                self.reach_if(goals::HEAD_BATCH_CUT, *count > u64::from(batch.max(1)));
            }
            Record::ReadBegin { attempt, ds } => self.read_begins(*attempt, ds),
            Record::ReadEnd {
                attempt, d, result, ..
            } => self.read_ended(*attempt, d, result),
            Record::Event {
                conn,
                sub,
                attempt,
                kind,
                id,
                d,
                ..
            } => {
                if let Some(attempt) = self.attempt(*attempt, *conn, sub) {
                    self.event(attempt, *kind, id, d);
                }
            }
            Record::Eose { conn, sub, attempt } => {
                if let Some(attempt) = self.attempt(*attempt, *conn, sub) {
                    self.eose(attempt);
                }
            }
            Record::Closed {
                conn,
                sub,
                attempt,
                text,
            } => {
                if let Some(attempt) = self.attempt(*attempt, *conn, sub) {
                    self.closed(attempt, text);
                }
            }
            _ => {}
        }
    }

    fn asked(&mut self, record: &'h Record) {
        let Record::Req {
            attempt,
            conn,
            sub,
            reader,
            replica,
            filter,
        } = record
        else {
            return;
        };
        self.reach_if(goals::MALFORMED_SYNC, filter.malformed.is_some());
        let former = self.name(*conn, sub, *attempt);
        let former = former.and_then(|former| self.syncs.get_mut(&former));
        let was_reading = former.is_some_and(|sync| {
            let was_reading = sync.is_reading();
            sync.phase = Phase::Ended;
            was_reading
        });
        self.reach_if(goals::REREQ_WHILE_READING, was_reading);
        let acknowledged = self.acknowledged();
        self.reach_if(
            goals::REQ_AFTER_OK,
            acknowledged.is_some_and(|home| filter.h.contains(home)),
        );
        if let Some(node) = self.node_of(*conn) {
            let sync = new_sync(*conn, node, reader.as_deref(), *replica, filter);
            self.syncs.insert(*attempt, sync);
        }
    }

    fn received(&mut self, attempt: Attempt) {
        let Some(sync) = self.syncs.get_mut(&attempt) else {
            return;
        };
        sync.is_received = true;
        let node = sync.node;
        self.reach_if(goals::SYNC_WAITS_BUS_DOWN, self.is_bus_down(node));
    }

    fn close(&mut self, attempt: Attempt) {
        let Some(sync) = self.syncs.get_mut(&attempt) else {
            return;
        };
        let (was_reading, has_read) = (sync.is_reading(), !sync.being_read.is_empty());
        sync.phase = Phase::Ended;
        self.reach_if(goals::CLOSE_WHILE_READING, was_reading);
        self.reach_if(goals::CLOSE_DURING_HEAD_READ, has_read);
    }

    fn read_begins(&mut self, attempt: Attempt, ds: &'h [String]) {
        let Some(sync) = self.syncs.get_mut(&attempt) else {
            return;
        };
        let is_drain = sync.has_held && !sync.has_read_heads;
        sync.has_read_heads = true;
        sync.being_read.extend(ds.iter().map(String::as_str));
        self.reach_if(goals::HELD_DRAINED, is_drain);
    }

    fn read_ended(&mut self, attempt: Attempt, d: &'h str, result: &ReadResult) {
        let Some(sync) = self.syncs.get_mut(&attempt) else {
            return;
        };
        sync.being_read.remove(d);
        let opened_at = sync.opened_at;
        let is_outside = self.world.head(d).is_some_and(|head| {
            let is_named = sync.filter.h.contains(head.home);
            is_named && !head.matches(sync.filter)
        });
        match result {
            ReadResult::Head(rev) => {
                let revision = self.world.revision(rev);
                let is_old = revision.zip(opened_at).is_some_and(|(r, at)| r.index <= at);
                self.reach_if(goals::HELD_ALREADY_IN_SNAPSHOT, is_old);
                self.reach_if(goals::HEAD_READ_BEFORE_PUBLISH, self.is_unpublished(rev));
            }
            ReadResult::Nothing => self.reach_if(goals::NEVER_MATCHING_SILENT, is_outside),
            ReadResult::Marker(_) | ReadResult::Left | ReadResult::Ends | ReadResult::Failed => {}
        }
    }

    fn eose(&mut self, attempt: Attempt) {
        let Some(sync) = self.syncs.get_mut(&attempt) else {
            return;
        };
        sync.had_eose = true;
        if sync.phase != Phase::Ended {
            sync.phase = Phase::Live;
        }
        let loaded = sync.loaded;
        let replica = sync.replica;
        let rows = self.options.page_rows.min(self.options.queue_frames).max(1);
        self.reach_if(goals::MANY_PAGES, loaded > 2 * u64::from(rows));
        self.reach_if(goals::EMPTY_SET, loaded == 0);
        let was_resynced = replica.is_some_and(|replica| self.resynced.remove(&replica));
        self.reach_if(goals::RESYNCED_CLEAN, was_resynced);
    }

    fn closed(&mut self, attempt: Attempt, text: &str) {
        let Some(sync) = self.syncs.get_mut(&attempt) else {
            return;
        };
        let (had_eose, node, replica) = (sync.had_eose, sync.node, sync.replica);
        sync.phase = Phase::Ended;
        if text.starts_with("resync: ")
            && let Some(replica) = replica
        {
            self.resynced.insert(replica);
        }
        let goal = match (text, had_eose) {
            ("resync: backlog", false) => goals::HELD_OVERFLOW,
            ("resync: backlog", true) => goals::DIRTY_OVERFLOW,
            ("resync: lookup", _) => goals::LOOKUP_FAILED,
            ("resync: store", _) => goals::STORE_CHANGED,
            ("error: too-large", false) => goals::TOO_LARGE,
            ("error: too-large", true) => goals::COPY_OUTGROWN,
            ("error: budget", _) => goals::BUDGET_OVER,
            ("error: bus", _) => goals::REGISTER_DEADLINE,
            ("error: busy", _) => goals::BUSY,
            ("error: store", _) => goals::STORE_FAILED,
            (text, _) if text.starts_with("restricted: ") => goals::RESTRICTED,
            ("resync: signals", _) => {
                let view = self.nodes.entry(node).or_default();
                view.resynced += 1;
                let is_second = view.resynced == 2;
                self.reach_if(goals::NODE_WIDE_RESYNC, is_second);
                return;
            }
            _ => return,
        };
        self.reach(goal);
    }

    fn event(&mut self, attempt: Attempt, kind: u32, id: &'h str, d: &'h str) {
        let revision = self.world.revision(id);
        let Some(sync) = self.syncs.get_mut(&attempt) else {
            return;
        };
        if !sync.had_eose {
            sync.loaded += 1;
            sync.copy.insert(d, id);
            sync.sent.insert(d, id);
            let is_late = sync.is_snapshot_closed;
            self.reach_if(goals::SPOOLED, is_late);
            return;
        }
        if kind == 45_011 {
            sync.copy.remove(d);
            self.reach(goals::MARKER_SENT);
            return;
        }
        let Some(revision) = revision else {
            return;
        };
        let former = sync.copy.get(d).copied();
        let last = sync.sent.insert(d, id);
        let is_member = revision.matches(sync.filter);
        let is_named = sync.filter.h.contains(revision.home);
        let has_entered = sync.entered.contains(d);
        if is_member {
            sync.copy.insert(d, id);
            if former.is_none() {
                sync.entered.insert(d);
            }
        } else {
            sync.copy.remove(d);
            sync.entered.remove(d);
        }
        let last = last.and_then(|last| self.world.revision(last));
        let former_home = former
            .and_then(|rev| self.world.revision(rev))
            .map(|r| r.home);
        let is_skip = last.is_some_and(|last| last.place + 1 < revision.place);
        self.reach_if(goals::REVISIONS_SKIPPED, is_skip);
        self.reach_if(
            goals::SAME_HEAD_TWICE,
            last.is_some_and(|last| last.rev == id),
        );
        let goal = match (former.is_some(), is_member, revision.op) {
            (false, true, RevisionOp::Create) => goals::LIVE_CREATE,
            (false, true, RevisionOp::Restore) => goals::RESTORE_ENTERS,
            (false, true, RevisionOp::Move) => goals::MOVE_IN,
            (true, true, RevisionOp::Update) => goals::LIVE_UPDATE,
            (true, true, RevisionOp::Move) if former_home != Some(revision.home) => {
                goals::MOVE_BETWEEN_NAMED
            }
            (true, false, RevisionOp::Delete) => goals::LIVE_DELETE,
            (true, false, _) if !is_named => goals::MOVE_OUT_READABLE,
            (true, false, _) => goals::LEAVING_HEAD,
            _ => return,
        };
        self.reach(goal);
        self.reach_if(
            goals::ENTERED_LIVE_THEN_LEFT,
            has_entered && goal == goals::LEAVING_HEAD,
        );
    }
}

fn new_sync<'h>(
    conn: u64,
    node: u32,
    reader: Option<&'h str>,
    replica: Option<u64>,
    filter: &'h Filter,
) -> Sync<'h> {
    Sync {
        conn,
        node,
        reader,
        replica,
        filter,
        phase: Phase::Registering,
        is_received: false,
        is_snapshot_closed: false,
        opened_at: None,
        had_eose: false,
        loaded: 0,
        has_held: false,
        has_read_heads: false,
        changed: Default::default(),
        being_read: Default::default(),
        copy: Default::default(),
        sent: Default::default(),
        entered: Default::default(),
    }
}
