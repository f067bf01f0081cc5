//! One sync session: a pure state machine that knows neither sockets nor other sessions. All transitions are in this file.
//!
//! | phase | holds | leaves when |
//! | --- | --- | --- |
//! | Registering | nothing | the owner opens the snapshot → Reading; its deadlines → `error:` |
//! | Reading | what was sent, the held `d`s, the snapshot's facts | a loss before the first page → Registering; the last frame is queued and no access read is due → EOSE, Live; a later loss, a changed access, a retirement after the cut → `resync:`, no EOSE; held > `max_events` → `resync: backlog`; set > `max_events`, read failed, budget over → `error:`; a named channel unreadable → `restricted:` |
//! | Live | the copy, the dirty `d`s, at most one head read | a loss, a changed access, a retirement in the copy → `resync:`; dirty > `max_events` → `resync: backlog`; copy > `max_events` → `error: too-large` |
//! | Ended | nothing | never |
//!
//! The owner tells what happens (signals, losses, answers) and asks [`SyncSession::wants`] what to read next. A read is
//! started only when its largest result has room, so a result is sent at once and never stored: rule 4 holds by construction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::copy::Copy;
use super::io::{Ending, HeadRow, HeadRows, ResyncCause, StoreGeneration, SyncError, SyncPage};
use crate::ids::{ArtifactId, ChannelId, Position};
use crate::nostr::PubKey;
use crate::scope::{self, Access, Audience, Cut, ReadPlan, Row, Stamp};
use crate::seeded::{Mutant, Seeded};

/// What a signal says about a sync's channels (AR-SYNC-5m: a hint, never the truth).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncSignal {
    /// The artifact has a new revision, or left a channel.
    Changed(ArtifactId),
    /// A current revision was redacted.
    Retired(ArtifactId),
    /// Access to the channel changed for one key, or for all.
    Access(ChannelId, Option<PubKey>),
}

/// What the session says to its client, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SyncOutput {
    /// One event as JSON: a head or a move marker.
    Event(Arc<str>),
    /// The initial set is complete.
    Eose,
    /// Nothing is said: the snapshot that was asked for is given up, and another one is wanted once the topics are confirmed.
    Restart,
    /// The last word; the session is over.
    Closed(Ending),
}

/// What the session wants to read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncWant {
    /// Nothing now.
    Nothing,
    /// To open its snapshot, once every topic is confirmed.
    Snapshot,
    /// The next page of its snapshot.
    Page,
    /// Heads of dirty artifacts, with access.
    Heads,
    /// Access only: nothing is sent for it.
    Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    Registering,
    /// `page`: one is being read; `is_complete`: the last one came.
    Reading {
        page: bool,
        is_complete: bool,
    },
    Live,
    Ended,
}

/// What the snapshot told about itself, kept while it matters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Facts {
    /// The access stamp of each named channel, in the order of `named`.
    stamps: Vec<Position>,
    /// What the snapshot saw; none once the initial read is over.
    cut: Option<Cut>,
    store: StoreGeneration,
}

/// The state of one sync.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SyncSession {
    plan: ReadPlan,
    /// The channels of `#h`, sorted; a home is its number here.
    named: Vec<ChannelId>,
    max_events: usize,
    seeded: Seeded,
    phase: Phase,
    facts: Option<Facts>,
    copy: Copy,
    /// Held before EOSE, dirty after it, those being read included.
    dirty: BTreeSet<ArtifactId>,
    /// Of the artifacts being read: those that changed again meanwhile (H11).
    again: BTreeSet<ArtifactId>,
    /// A head or access read is in flight, for these artifacts.
    read: Option<BTreeSet<ArtifactId>>,
    /// An access signal waits for a read that begins after it.
    access_due: bool,
    /// Artifacts whose retirement was announced before the snapshot's facts came, each with the newest stamp: changes of one
    /// artifact are committed in order, so a snapshot that saw the newest saw them all.
    early_retired: BTreeMap<ArtifactId, Stamp>,
    /// Changes held, for the seeded bug that counts them.
    changes: usize,
    /// Where each dirty artifact's newest announced change is stored, for the seeded bug that reads it instead of the head.
    #[cfg(feature = "mutants")]
    announced: BTreeMap<ArtifactId, Position>,
}

impl SyncSession {
    /// A session that waits for its topics.
    ///
    /// `plan` has the view `Current`, at most one reader and at least one named channel; `max_events` bounds the set, the copy
    /// and the held and dirty artifacts (AR-INFO-6).
    ///
    /// # Panics
    /// If the plan names no channels.
    pub fn new(plan: ReadPlan, max_events: usize, seeded: Seeded) -> SyncSession {
        let named: Vec<ChannelId> = plan
            .channels
            .as_ref()
            .map(|channels| channels.iter().copied().collect())
            .unwrap_or_default();
        assert!(!named.is_empty(), "a sync names its channels");
        SyncSession {
            plan,
            named,
            max_events,
            seeded,
            phase: Phase::Registering,
            facts: None,
            copy: Copy::default(),
            dirty: BTreeSet::new(),
            again: BTreeSet::new(),
            read: None,
            access_due: false,
            early_retired: BTreeMap::new(),
            changes: 0,
            #[cfg(feature = "mutants")]
            announced: BTreeMap::new(),
        }
    }

    /// Where the newest announced change of an artifact is stored.
    #[cfg(feature = "mutants")]
    pub fn announced(&self, artifact: ArtifactId) -> Option<Position> {
        self.announced.get(&artifact).copied()
    }

    /// The compiled filter.
    pub fn plan(&self) -> &ReadPlan {
        &self.plan
    }

    /// The one reader; none is an anonymous one.
    pub fn reader(&self) -> Option<PubKey> {
        self.plan.readers.first().copied()
    }

    /// The channels of `#h`, sorted.
    pub fn named(&self) -> &[ChannelId] {
        &self.named
    }

    /// Waits for its topics or for a snapshot.
    pub fn is_registering(&self) -> bool {
        self.phase == Phase::Registering
    }

    /// EOSE was said and no CLOSED.
    pub fn is_live(&self) -> bool {
        self.phase == Phase::Live
    }

    /// Over.
    pub fn is_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Artifacts held or dirty, for the process-wide bound.
    pub fn waiting(&self) -> usize {
        self.dirty.len()
    }

    /// Artifacts in the copy, and the bytes it takes.
    pub fn copy_len_and_bytes(&self) -> (usize, usize) {
        (self.copy.len(), self.copy.bytes())
    }

    /// What to read next. One head read is in flight at a time (AR-SYNC-4e), and a page is asked for only after the page before
    /// it is queued.
    pub fn wants(&self) -> SyncWant {
        let overlap = self.seeded.is(Mutant::M16) && !self.again.is_empty();
        match self.phase {
            Phase::Registering => SyncWant::Snapshot,
            Phase::Reading { page, is_complete } => {
                let is_free = self.facts.is_some() && self.read.is_none();
                if is_free && self.seeded.is(Mutant::M03) && !self.dirty.is_empty() {
                    SyncWant::Heads
                } else if is_free && self.access_due {
                    SyncWant::Access
                } else if !page && !is_complete {
                    SyncWant::Page
                } else {
                    SyncWant::Nothing
                }
            }
            Phase::Live if self.read.is_some() && !overlap => SyncWant::Nothing,
            Phase::Live if !self.dirty.is_empty() => SyncWant::Heads,
            Phase::Live if self.access_due => SyncWant::Access,
            Phase::Live | Phase::Ended => SyncWant::Nothing,
        }
    }

    /// The owner opens the snapshot and asks for its first page: every topic is confirmed on the bus connection that is up.
    pub fn snapshot_opens(&mut self) {
        debug_assert_eq!(self.phase, Phase::Registering);
        self.phase = Phase::Reading {
            page: true,
            is_complete: false,
        };
    }

    /// The owner asks for the next page.
    pub fn page_starts(&mut self) {
        if let Phase::Reading { page, .. } = &mut self.phase {
            *page = true;
        }
    }

    /// The artifacts that the next head read of this session is about, at most `most`, in order of `d`.
    pub fn next_heads(&self, most: usize) -> impl Iterator<Item = ArtifactId> + '_ {
        let is_live = self.phase == Phase::Live || self.seeded.is(Mutant::M03);
        let source = if self.read.is_some() {
            &self.again
        } else {
            &self.dirty
        };
        source.iter().copied().take(if is_live { most } else { 0 })
    }

    /// The home that the copy remembers for an artifact, for which the read must bring the newest 45011.
    pub fn home_in_copy(&self, artifact: ArtifactId) -> Option<ChannelId> {
        let home = self.copy.home(artifact)?;
        self.named.get(usize::from(home)).copied()
    }

    /// The owner starts a head or access read for these artifacts (none: access only). Whatever was signalled before is answered
    /// by it, since it begins later (S4).
    pub fn read_starts(&mut self, artifacts: BTreeSet<ArtifactId>) {
        debug_assert!(self.read.is_none() || self.seeded.is(Mutant::M16));
        self.again.retain(|artifact| !artifacts.contains(artifact));
        self.access_due = false;
        self.read = Some(artifacts);
    }

    /// Takes a signal with the stamp of the change it announces.
    pub fn signal(&mut self, signal: SyncSignal, stamp: Stamp, out: &mut Vec<SyncOutput>) {
        #[cfg(feature = "mutants")]
        if let SyncSignal::Changed(artifact) = signal {
            self.announced.insert(artifact, stamp.position);
        }
        match self.phase {
            // The snapshot opens later and sees the change (S4).
            Phase::Registering | Phase::Ended => {}
            Phase::Reading { .. } => self.signal_reading(signal, stamp, out),
            Phase::Live => match signal {
                SyncSignal::Retired(_) if self.seeded.is(Mutant::M23) => {}
                SyncSignal::Changed(artifact) | SyncSignal::Retired(artifact) => {
                    self.make_dirty(artifact, out)
                }
                SyncSignal::Access(channel, key) => self.access_signal(channel, key),
            },
        }
    }

    fn signal_reading(&mut self, signal: SyncSignal, stamp: Stamp, out: &mut Vec<SyncOutput>) {
        let cut = self.facts.as_ref().and_then(|facts| facts.cut.as_ref());
        if cut.is_some_and(|cut| cut.covers(&stamp)) {
            // The snapshot saw it: the set already says so (AR-SYNC-1i).
            return;
        }
        match signal {
            SyncSignal::Changed(artifact) => self.make_dirty(artifact, out),
            SyncSignal::Retired(_) if self.seeded.is(Mutant::M23) => {}
            SyncSignal::Retired(_) if cut.is_some() => {
                self.end(Ending::Resync(ResyncCause::Retired), out)
            }
            SyncSignal::Retired(artifact) => {
                let newest = self.early_retired.entry(artifact).or_insert(stamp);
                *newest = stamp.max(*newest);
                if self.early_retired.len() > self.max_events {
                    self.end(Ending::Resync(ResyncCause::Backlog), out);
                }
            }
            SyncSignal::Access(channel, key) => self.access_signal(channel, key),
        }
    }

    fn access_signal(&mut self, channel: ChannelId, key: Option<PubKey>) {
        let is_named = self.named.binary_search(&channel).is_ok();
        let is_reader = key.is_none() || key == self.reader();
        if is_named && is_reader {
            self.access_due = true;
        }
    }

    fn make_dirty(&mut self, artifact: ArtifactId, out: &mut Vec<SyncOutput>) {
        self.changes += 1;
        self.dirty.insert(artifact);
        if self
            .read
            .as_ref()
            .is_some_and(|read| read.contains(&artifact))
        {
            self.again.insert(artifact);
        }
        let waiting = if self.seeded.is(Mutant::M27) {
            self.changes
        } else {
            self.dirty.len()
        };
        if waiting > self.max_events {
            if self.seeded.is(Mutant::M05) {
                self.dirty.pop_first();
            } else {
                self.end(Ending::Resync(ResyncCause::Backlog), out);
            }
        }
    }

    /// Something was lost that this sync may have needed (AR-SYNC-5a). A sync whose snapshot has said nothing yet misses nothing by
    /// it: its registration begins again, and so does the snapshot.
    pub fn lost(&mut self, cause: ResyncCause, out: &mut Vec<SyncOutput>) {
        match self.phase {
            Phase::Registering | Phase::Ended => {}
            Phase::Reading { .. } if self.facts.is_none() => {
                self.phase = Phase::Registering;
                self.dirty.clear();
                self.early_retired.clear();
                self.access_due = false;
                self.changes = 0;
                out.push(SyncOutput::Restart);
            }
            Phase::Reading { .. } | Phase::Live => self.end(Ending::Resync(cause), out),
        }
    }

    /// The owner's deadlines and refusals.
    pub fn fail(&mut self, error: SyncError, out: &mut Vec<SyncOutput>) {
        let is_reading = matches!(self.phase, Phase::Reading { .. });
        if self.seeded.is(Mutant::M09) && is_reading && error == SyncError::Budget {
            // The budget is over, and the reading goes on.
        } else if self.seeded.is(Mutant::M09) && is_reading && self.facts.is_some() {
            self.complete(out);
        } else if self.phase != Phase::Ended {
            self.end(Ending::Error(error), out);
        }
    }

    /// A page came, or the reason why none will (AR-SYNC-2l, AR-SYNC-2m).
    pub fn page(&mut self, page: Result<SyncPage, SyncError>, out: &mut Vec<SyncOutput>) {
        let Phase::Reading { page: asked, .. } = &mut self.phase else {
            return;
        };
        *asked = false;
        let page = match page {
            Ok(page) => page,
            Err(error) => return self.fail(error, out),
        };
        if let Some(ending) = self.take_facts(&page) {
            self.end(ending, out);
            return;
        }
        for row in page.rows {
            if self.copy.len() >= self.max_events {
                self.end(Ending::Error(SyncError::TooLarge), out);
                return;
            }
            if let Some(home) = self.number(row.home) {
                self.copy.put(row.artifact, home);
                out.push(SyncOutput::Event(row.json));
            }
        }
        if page.is_last {
            self.complete(out);
        }
    }

    /// Judges what the first page says about the snapshot, in the order: store, access, what was signalled before it came.
    fn take_facts(&mut self, page: &SyncPage) -> Option<Ending> {
        match (&self.facts, &page.opened) {
            (Some(facts), _) if facts.store != page.store => {
                Some(Ending::Resync(ResyncCause::Store))
            }
            (Some(_), None) => None,
            // A snapshot that does not say what it saw proves nothing, and one that says so twice is another one (AR-SYNC-2m).
            (None, None) | (Some(_), Some(_)) => Some(Ending::Error(SyncError::Store)),
            (None, Some(opened)) => {
                let reader = self.reader();
                let stamps = self
                    .named
                    .iter()
                    .map(|channel| opened.access.readable_stamp(*channel, reader))
                    .collect::<Option<Vec<Position>>>();
                let Some(stamps) = stamps else {
                    return Some(Ending::Restricted);
                };
                let retired = self
                    .early_retired
                    .values()
                    .any(|stamp| !opened.cut.covers(stamp));
                self.early_retired.clear();
                self.facts = Some(Facts {
                    stamps,
                    cut: Some(opened.cut.clone()),
                    store: page.store,
                });
                retired.then_some(Ending::Resync(ResyncCause::Retired))
            }
        }
    }

    fn complete(&mut self, out: &mut Vec<SyncOutput>) {
        self.phase = Phase::Reading {
            page: false,
            is_complete: true,
        };
        self.try_eose(out);
    }

    /// EOSE certifies a set that the reader may still read, so it waits for the access read that a signal asked for (H2).
    fn try_eose(&mut self, out: &mut Vec<SyncOutput>) {
        let is_complete = matches!(
            self.phase,
            Phase::Reading {
                is_complete: true,
                ..
            }
        );
        if !is_complete || self.access_due || self.read.is_some() {
            return;
        }
        self.phase = Phase::Live;
        self.copy.shrink();
        self.changes = 0;
        if let Some(facts) = &mut self.facts {
            facts.cut = None;
        }
        if self.seeded.is(Mutant::M04) {
            self.dirty.clear();
        }
        out.push(SyncOutput::Eose);
    }

    /// A head or access read for `asked` came back; `None` says that it failed (AR-SYNC-5e).
    pub fn heads(
        &mut self,
        asked: &BTreeSet<ArtifactId>,
        rows: Option<&HeadRows>,
        out: &mut Vec<SyncOutput>,
    ) {
        if matches!(self.phase, Phase::Registering | Phase::Ended) {
            return;
        }
        self.read = None;
        let again = if self.seeded.is(Mutant::M16) {
            self.again.clone()
        } else {
            std::mem::take(&mut self.again)
        };
        let Some(rows) = rows else {
            if self.seeded.is(Mutant::M19) {
                self.dirty.retain(|artifact| !asked.contains(artifact));
                self.try_eose(out);
            } else {
                self.end(Ending::Resync(ResyncCause::Lookup), out);
            }
            return;
        };
        if let Some(cause) = self.judge_access(rows) {
            self.end(Ending::Resync(cause), out);
            return;
        }
        for artifact in asked {
            if rows.left.contains(artifact) {
                continue;
            }
            if !again.contains(artifact) {
                self.dirty.remove(artifact);
            }
            if let Some(ending) = self.judge(*artifact, rows, out) {
                self.end(ending, out);
                return;
            }
        }
        self.try_eose(out);
    }

    /// A named channel that this reader cannot read any more, or could not read in between (AR-SYNC-9a to AR-SYNC-9d, H3).
    fn judge_access(&self, rows: &HeadRows) -> Option<ResyncCause> {
        let facts = self.facts.as_ref()?;
        if facts.store != rows.store {
            return Some(ResyncCause::Store);
        }
        let reader = self.reader();
        let is_same = self
            .named
            .iter()
            .zip(&facts.stamps)
            .all(|(channel, stamp)| rows.access.readable_stamp(*channel, reader) == Some(*stamp));
        (!is_same && !self.seeded.is(Mutant::M24)).then_some(ResyncCause::Access)
    }

    /// One artifact, read: what is said about it, and whether that ends the sync (AR-SYNC-3a to AR-SYNC-3l, H4 to H9).
    fn judge(
        &mut self,
        artifact: ArtifactId,
        rows: &HeadRows,
        out: &mut Vec<SyncOutput>,
    ) -> Option<Ending> {
        let before = self.home_in_copy(artifact);
        let head = rows.heads.get(&artifact);
        let body = head.and_then(|head| Some((head, head.body.as_ref()?)));
        let Some((head, (event, json))) = body else {
            let is_retired = before.is_some() && !self.seeded.is(Mutant::M23);
            return is_retired.then_some(Ending::Resync(ResyncCause::Retired));
        };
        let (is_readable, is_after) = self.match_head(head, event, rows);
        let home = self.number(head.home).filter(|_| is_after);
        if let (true, Some(home)) = (is_readable, home) {
            if before.is_none() && self.copy.len() >= self.max_events {
                // The client keeps the set it has, which the relay said is the largest it serves (H7).
                return Some(Ending::Error(SyncError::TooLarge));
            }
            out.push(SyncOutput::Event(Arc::clone(json)));
            if !self.seeded.is(Mutant::M12) {
                self.copy.put(artifact, home);
            }
            return None;
        }
        let Some(source) = before else {
            if self.seeded.is(Mutant::M13) && is_readable {
                out.push(SyncOutput::Event(Arc::clone(json)));
            }
            return None;
        };
        if is_readable || self.seeded.is(Mutant::M15) {
            if !self.seeded.is(Mutant::M11) {
                out.push(SyncOutput::Event(Arc::clone(json)));
            }
            self.copy.remove(artifact);
            return None;
        }
        if self.seeded.is(Mutant::M14) {
            self.copy.remove(artifact);
            return None;
        }
        // The artifact has left the home that the copy remembers, so the newest 45011 there is newer than the copy.
        match rows.markers.get(&(artifact, source)) {
            Some(marker) if head.home != source => {
                out.push(SyncOutput::Event(Arc::clone(marker)));
                self.copy.remove(artifact);
                None
            }
            _ if self.seeded.is(Mutant::M24) => {
                self.copy.remove(artifact);
                None
            }
            _ => Some(Ending::Resync(ResyncCause::Access)),
        }
    }

    /// Whether this sync may read the head, and whether the head belongs to its set.
    fn match_head(
        &self,
        head: &HeadRow,
        event: &crate::nostr::Event,
        rows: &HeadRows,
    ) -> (bool, bool) {
        let roles = |key: PubKey| rows.access.role(head.home, key);
        let access = Access {
            channel: rows.access.channels.get(&head.home),
            roles: &roles,
        };
        let row = Row {
            event,
            channel: Some(head.home),
            audience: Audience::Readers,
            is_head: true,
            live: false,
        };
        let is_readable = scope::is_readable(&self.plan, &row, &access);
        let is_after = scope::admits(&self.plan, &row, &access, rows.clock_secs);
        (is_readable, is_after)
    }

    fn number(&self, home: ChannelId) -> Option<u16> {
        let at = self.named.binary_search(&home).ok()?;
        u16::try_from(at).ok()
    }

    fn end(&mut self, ending: Ending, out: &mut Vec<SyncOutput>) {
        self.phase = Phase::Ended;
        self.facts = None;
        self.copy = Copy::default();
        self.dirty = BTreeSet::new();
        self.again = BTreeSet::new();
        self.early_retired = BTreeMap::new();
        self.read = None;
        self.access_due = false;
        out.push(SyncOutput::Closed(ending));
    }
}
