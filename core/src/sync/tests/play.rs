//! One session among an owner that carries out its wishes, a store that answers whenever it likes, and a client that follows
//! the rules. Everything the session says is compared with what the rules ask for at that moment; a difference is a breach of
//! a named invariant. Scenes and random runs are in the files beside this one.

use std::collections::{BTreeMap, BTreeSet};

use super::client::{Breach, Client, Verdict, breach, must};
use super::world::*;
use crate::ids::{ArtifactId, ChannelId};
use crate::scope::Stamp;
use crate::seeded::Seeded;
use crate::sync::{
    Ending, HeadRows, ResyncCause, SyncError, SyncOutput, SyncPage, SyncSession, SyncSignal,
    SyncWant,
};

/// A head read on its way.
#[derive(Clone, Debug)]
struct Read {
    asked: BTreeSet<ArtifactId>,
    markers: BTreeSet<(ArtifactId, ChannelId)>,
    /// For each artifact asked: how many of its signals had come when the read began.
    signals: BTreeMap<Art, u64>,
    /// The truth it saw, once it happened.
    saw: Option<Truth>,
}

/// What the session must say now.
#[derive(Clone, Debug, Default)]
struct Due {
    said: Vec<Said>,
    ending: Option<Ending>,
    /// The ending comes before or after the last thing said.
    is_last_free: bool,
}

impl Due {
    fn end(ending: Ending) -> Due {
        Due {
            ending: Some(ending),
            ..Due::default()
        }
    }
}

/// The whole scene.
#[derive(Clone, Debug)]
pub(super) struct Play {
    pub(super) truth: Truth,
    pub(super) session: SyncSession,
    pub(super) client: Client,
    max_events: usize,
    /// Signals on their way.
    pub(super) wire: Vec<(SyncSignal, Stamp)>,
    /// The owner opened the snapshot.
    is_open: bool,
    /// What the snapshot saw, once it did, and the last `d` that was read from it.
    snapshot: Option<(Truth, Option<Art>)>,
    is_first_page_read: bool,
    is_page_asked: bool,
    is_set_read: bool,
    reads: Vec<Read>,
    /// Artifacts that wait to be read: held before EOSE, dirty after it.
    waiting: BTreeSet<Art>,
    /// Signals that came, for each artifact.
    signals: BTreeMap<Art, u64>,
    /// Artifacts whose retirement was heard before the first page, with the newest position.
    retired_early: BTreeMap<Art, u64>,
    /// The position of the newest access signal about this reader that was heard before EOSE.
    access_heard: u64,
}

impl Play {
    pub(super) fn new(max_events: usize, seeded: Seeded) -> Play {
        Play {
            truth: Truth::new(),
            session: SyncSession::new(plan(), max_events, seeded),
            client: Client::default(),
            max_events,
            wire: Vec::new(),
            is_open: false,
            snapshot: None,
            is_first_page_read: false,
            is_page_asked: false,
            is_set_read: false,
            reads: Vec::new(),
            waiting: BTreeSet::new(),
            signals: BTreeMap::new(),
            retired_early: BTreeMap::new(),
            access_heard: 0,
        }
    }

    /// A scene in which EOSE was said and everything on its way has come.
    pub(super) fn live(max_events: usize, begin: &[Change]) -> Play {
        let mut play = Play::new(max_events, Seeded::default());
        for change in begin {
            play.commit(*change);
        }
        play.rest();
        assert!(play.client.has_eose, "{:?}", play.client.closed);
        play.client.heard.clear();
        play
    }

    /// [`Play::settle`] for scenes that break nothing; returns what was said meanwhile.
    pub(super) fn rest(&mut self) -> Vec<Said> {
        let before = self.client.heard.len();
        self.settle().unwrap_or_else(|breach| panic!("{breach}"));
        self.client.heard[before..].to_vec()
    }

    /// Commits a change, lets it settle, and returns what was said about it.
    pub(super) fn tell(&mut self, change: Change) -> Vec<Said> {
        self.commit(change);
        self.rest()
    }

    /// Everything on the wire arrives, in order.
    pub(super) fn deliver(&mut self) {
        for (signal, stamp) in std::mem::take(&mut self.wire) {
            self.hear(signal, stamp)
                .unwrap_or_else(|breach| panic!("{breach}"));
        }
    }

    fn is_over(&self) -> bool {
        self.client.closed.is_some()
    }

    fn is_reading(&self) -> bool {
        self.is_open && !self.client.has_eose && !self.is_over()
    }

    /// The position up to which the session knows that its snapshot saw everything.
    fn known_cut(&self) -> Option<u64> {
        let (saw, _) = self.snapshot.as_ref()?;
        (self.is_first_page_read && !self.client.has_eose).then_some(saw.position)
    }

    /// Commits a change and puts its signals on the wire.
    pub(super) fn commit(&mut self, change: Change) {
        let signals = self.truth.commit(change);
        self.wire.extend(signals);
    }

    /// A signal arrives.
    pub(super) fn hear(&mut self, signal: SyncSignal, stamp: Stamp) -> Verdict {
        let due = self.due_for_signal(signal, stamp.position.0);
        let mut out = Vec::new();
        self.session.signal(signal, stamp, &mut out);
        self.judge(out, due, false)
    }

    fn due_for_signal(&mut self, signal: SyncSignal, position: u64) -> Due {
        let is_reading = self.is_reading();
        if self.is_over() || !self.is_open || self.known_cut().is_some_and(|cut| position <= cut) {
            return Due::default();
        }
        match signal {
            SyncSignal::Retired(artifact) if is_reading => {
                if self.is_first_page_read {
                    return Due::end(Ending::Resync(ResyncCause::Retired));
                }
                let newest = self.retired_early.entry(number_of(artifact)).or_default();
                *newest = position.max(*newest);
            }
            SyncSignal::Changed(artifact) | SyncSignal::Retired(artifact) => {
                self.waiting.insert(number_of(artifact));
                *self.signals.entry(number_of(artifact)).or_default() += 1;
            }
            SyncSignal::Access(_, key) if key.is_none_or(|key| key == READER) => {
                if is_reading {
                    self.access_heard = self.access_heard.max(position);
                }
            }
            SyncSignal::Access(..) => {}
        }
        if self.waiting.len().max(self.retired_early.len()) > self.max_events {
            return Due::end(Ending::Resync(ResyncCause::Backlog));
        }
        Due::default()
    }

    /// Something is lost that may have concerned this sync.
    pub(super) fn lose(&mut self, cause: ResyncCause) -> Verdict {
        self.wire.clear();
        // Until the first page came, a loss only begins the registration anew.
        let is_hit = self.is_open && self.is_first_page_read && !self.is_over();
        let due = match is_hit {
            true => Due::end(Ending::Resync(cause)),
            false => Due::default(),
        };
        let mut out = Vec::new();
        self.session.lost(cause, &mut out);
        self.judge(out, due, false)
    }

    /// A deadline of the owner passes; there is none after EOSE.
    pub(super) fn fail(&mut self, error: SyncError) -> Verdict {
        if self.client.has_eose {
            return Ok(());
        }
        let due = match self.is_over() {
            true => Due::default(),
            false => Due::end(Ending::Error(error)),
        };
        let mut out = Vec::new();
        self.session.fail(error, &mut out);
        self.judge(out, due, false)
    }

    /// The owner does what the session wants next; a head read takes at most `most` artifacts. False when it wants nothing.
    pub(super) fn serve(&mut self, most: usize) -> Result<bool, Breach> {
        let want = self.session.wants();
        match want {
            SyncWant::Nothing => {}
            SyncWant::Snapshot => {
                self.session.snapshot_opens();
                (self.is_open, self.is_page_asked) = (true, true);
            }
            SyncWant::Page => {
                must(!self.is_page_asked, "CUT", || "two pages at once".into())?;
                self.session.page_starts();
                self.is_page_asked = true;
            }
            SyncWant::Heads | SyncWant::Access => {
                let is_heads = want == SyncWant::Heads;
                let most = if is_heads { most } else { 0 };
                let asked: BTreeSet<ArtifactId> = self.session.next_heads(most).collect();
                must(asked.is_empty() != is_heads, "NO-LOSS", || {
                    format!("{want:?} asks for {asked:?}")
                })?;
                let home = |id: &ArtifactId| Some((*id, self.session.home_in_copy(*id)?));
                let markers = asked.iter().filter_map(home).collect();
                let count = |id: &ArtifactId| {
                    let artifact = number_of(*id);
                    (artifact, self.signals.get(&artifact).copied().unwrap_or(0))
                };
                self.reads.push(Read {
                    signals: asked.iter().map(count).collect(),
                    markers,
                    saw: None,
                    asked: asked.clone(),
                });
                self.session.read_starts(asked);
            }
        }
        Ok(want != SyncWant::Nothing)
    }

    /// The snapshot sees the truth as it is now.
    pub(super) fn take_snapshot(&mut self) {
        if self.is_open && self.snapshot.is_none() {
            self.snapshot = Some((self.truth.clone(), None));
        }
    }

    /// The page that was asked for comes with at most `rows_max` rows; with `is_lazy` the store finds out only afterwards that
    /// no row is left.
    pub(super) fn page(&mut self, rows_max: usize, is_lazy: bool) -> Verdict {
        if !std::mem::replace(&mut self.is_page_asked, false) {
            return Ok(());
        }
        self.take_snapshot();
        let Some((saw, after)) = &mut self.snapshot else {
            return Ok(());
        };
        let set = saw.set();
        let left: Vec<(Art, usize)> = set
            .into_iter()
            .filter(|(artifact, _)| after.is_none_or(|after| *artifact > after))
            .collect();
        let rows = &left[..rows_max.min(left.len())];
        let is_last = rows.len() == left.len() && (!is_lazy || rows.is_empty());
        *after = rows.last().map(|(artifact, _)| *artifact).or(*after);
        let page = SyncPage {
            rows: rows
                .iter()
                .map(|(a, number)| saw.row(*a, *number))
                .collect(),
            is_last,
            opened: (!self.is_first_page_read).then(|| saw.facts()),
            store: saw.store(),
        };
        let due = self.due_for_page(&page);
        (self.is_first_page_read, self.is_set_read) = (true, is_last);
        let mut out = Vec::new();
        self.session.page(Ok(page), &mut out);
        self.judge(out, due, true)
    }

    fn due_for_page(&self, page: &SyncPage) -> Due {
        let Some((saw, _)) = self.snapshot.as_ref().filter(|_| !self.is_over()) else {
            return Due::default();
        };
        if page.opened.is_some() {
            if !saw.is_all_readable() {
                return Due::end(Ending::Restricted);
            }
            if self.retired_early.values().any(|at| *at > saw.position) {
                return Due::end(Ending::Resync(ResyncCause::Retired));
            }
        }
        let said: Vec<Said> = page.rows.iter().map(|row| Said::read(&row.json)).collect();
        let room = self.max_events - self.client.holds.len();
        let is_too_large = said.len() > room;
        Due {
            ending: is_too_large.then_some(Ending::Error(SyncError::TooLarge)),
            said: said.into_iter().take(room).collect(),
            is_last_free: is_too_large,
        }
    }

    /// The page that was asked for cannot be read.
    pub(super) fn page_fails(&mut self, error: SyncError) -> Verdict {
        if !std::mem::replace(&mut self.is_page_asked, false) {
            return Ok(());
        }
        let due = match self.is_over() {
            true => Due::default(),
            false => Due::end(Ending::Error(error)),
        };
        let mut out = Vec::new();
        self.session.page(Err(error), &mut out);
        self.judge(out, due, false)
    }

    /// A head read happens now; its answer comes later.
    pub(super) fn execute(&mut self, read: usize) {
        if let Some(read) = self.reads.get_mut(read)
            && read.saw.is_none()
        {
            read.saw = Some(self.truth.clone());
        }
    }

    /// The answer of a head read comes; the store reached `most` of its artifacts.
    pub(super) fn answer(&mut self, read: usize, most: usize) -> Verdict {
        self.execute(read);
        if read >= self.reads.len() {
            return Ok(());
        }
        let read = self.reads.remove(read);
        let Some(saw) = &read.saw else {
            return Ok(());
        };
        let rows = saw.heads(&read.asked, &read.markers, most.max(1));
        let due = self.due_for_heads(&read, saw, &rows);
        let mut out = Vec::new();
        self.session.heads(&read.asked, Some(&rows), &mut out);
        self.judge(out, due, false)
    }

    /// A head read fails.
    pub(super) fn answer_fails(&mut self, read: usize) -> Verdict {
        if read >= self.reads.len() {
            return Ok(());
        }
        let read = self.reads.remove(read);
        let due = match self.is_over() {
            true => Due::default(),
            false => Due::end(Ending::Resync(ResyncCause::Lookup)),
        };
        let mut out = Vec::new();
        self.session.heads(&read.asked, None, &mut out);
        self.judge(out, due, false)
    }

    /// What a read obliges to: rules 3, 6 and 9, for each artifact that was reached.
    fn due_for_heads(&mut self, read: &Read, saw: &Truth, rows: &HeadRows) -> Due {
        let mut due = Due::default();
        let Some((snapshot, _)) = self.snapshot.as_ref().filter(|_| !self.is_over()) else {
            return due;
        };
        if snapshot.store != saw.store {
            return Due::end(Ending::Resync(ResyncCause::Store));
        }
        if snapshot.named_access_moved() != saw.named_access_moved() || !saw.is_all_readable() {
            return Due::end(Ending::Resync(ResyncCause::Access));
        }
        let mut holds = self.client.holds.clone();
        for id in read.asked.iter().filter(|id| !rows.left.contains(id)) {
            let artifact = number_of(*id);
            if self.signals.get(&artifact) == read.signals.get(&artifact) {
                self.waiting.remove(&artifact);
            }
            let before = holds.get(&artifact).copied();
            let Some((head, number)) = saw.head(artifact).zip(saw.head_number(artifact)) else {
                continue;
            };
            if head.is_redacted {
                if before.is_some() {
                    due.ending = Some(Ending::Resync(ResyncCause::Retired));
                    return due;
                }
            } else if saw.is_seen(head.home) {
                if before.is_some() || saw.is_in_set(artifact) {
                    due.said.push(Said::Head { artifact, number });
                }
            } else if let Some(held) = before {
                let from = self.truth.chains[&artifact][held].home;
                let number = saw.left[&(artifact, from)];
                due.said.push(Said::Removal {
                    artifact,
                    from,
                    number,
                });
            }
            if saw.is_in_set(artifact) {
                holds.insert(artifact, number);
            } else {
                holds.remove(&artifact);
            }
            if holds.len() > self.max_events {
                due.ending = Some(Ending::Error(SyncError::TooLarge));
                due.is_last_free = true;
                return due;
            }
        }
        due
    }

    /// Compares what was said with what was due, and lets the client hear it.
    fn judge(&mut self, out: Vec<SyncOutput>, due: Due, is_page: bool) -> Verdict {
        let was_over = self.is_over();
        let before = self.client.heard.len();
        for output in out {
            must(!was_over && !self.is_over(), "ORDER", || {
                format!("{output:?} after CLOSED")
            })?;
            match output {
                SyncOutput::Event(json) => {
                    must(is_page || self.client.has_eose, "ORDER", || {
                        format!("{json} before EOSE")
                    })?;
                    self.client.take(&self.truth, Said::read(&json))?;
                }
                SyncOutput::Eose => self.judge_eose()?,
                SyncOutput::Restart => {
                    must(self.client.heard.is_empty(), "CUT", || {
                        "a snapshot is given up after its rows were sent".to_owned()
                    })?;
                    (self.is_open, self.is_page_asked) = (false, false);
                    self.snapshot = None;
                    self.waiting.clear();
                    self.retired_early.clear();
                    self.access_heard = 0;
                }
                SyncOutput::Closed(ending) => self.client.closed = Some(ending),
            }
        }
        let ended = self.client.closed.filter(|_| !was_over);
        self.compare(&due, before, ended)?;
        self.look()
    }

    fn compare(&self, due: &Due, before: usize, ended: Option<Ending>) -> Verdict {
        let said = &self.client.heard[before..];
        let wanted = due.said.as_slice();
        let shorter = &wanted[..wanted.len().saturating_sub(1)];
        if said != wanted && !(due.is_last_free && said == shorter) {
            let detail = format!("said {said:?}, due {wanted:?}");
            let at = said.iter().zip(wanted).take_while(|(a, b)| a == b).count();
            return match (said.get(at), wanted.get(at)) {
                (None, _) => breach("NO-LOSS", detail),
                (Some(Said::Head { artifact, number }), _)
                    if !self
                        .truth
                        .is_seen(self.truth.chains[artifact][*number].home) =>
                {
                    breach("PRIVACY", detail)
                }
                (Some(one), Some(other)) if one.artifact() >= other.artifact() => {
                    breach("NO-LOSS", detail)
                }
                _ => breach("SCOPE", detail),
            };
        }
        match (due.ending, ended) {
            (due, ended) if due == ended => Ok(()),
            (Some(due), None) => breach(invariant_of(due), format!("{due} is due")),
            (due, ended) => breach("CAUSE", format!("{ended:?}, due {due:?}")),
        }
    }

    fn judge_eose(&mut self) -> Verdict {
        must(!self.client.has_eose, "ORDER", || "a second EOSE".into())?;
        self.client.has_eose = true;
        let Some((saw, _)) = &self.snapshot else {
            return breach("CUT", "EOSE without a snapshot");
        };
        must(
            self.client.holds == saw.set() && self.is_set_read,
            "CUT",
            || format!("{:?} is not {:?}", self.client.holds, saw.set()),
        )?;
        must(saw.is_all_readable(), "PRIVACY", || {
            "EOSE on unreadable channels".into()
        })?;
        must(self.access_heard <= saw.position, "ACCESS", || {
            "EOSE after a change of access was heard".into()
        })?;
        let retired = self.retired_early.values().any(|at| *at > saw.position);
        must(!retired, "RETIRE", || {
            "EOSE after a retirement was heard".into()
        })
    }

    /// What holds at every moment of a sync that is open.
    fn look(&self) -> Verdict {
        must(self.session.is_ended() == self.is_over(), "ORDER", || {
            "the session and its client disagree about the end".into()
        })?;
        if self.is_over() {
            return must(self.session.waiting() == 0, "CLEAN", || {
                "something waits".into()
            });
        }
        must(self.session.waiting() <= self.max_events, "BOUND", || {
            format!("{} wait", self.session.waiting())
        })?;
        must(
            self.session.waiting() == self.waiting.len(),
            "NO-LOSS",
            || format!("{} wait, not {:?}", self.session.waiting(), self.waiting),
        )?;
        for artifact in 0..ARTIFACTS {
            let home = self.session.home_in_copy(artifact_id(artifact));
            let held = self.client.holds.get(&artifact);
            let held = held.map(|number| channel_id(self.truth.chains[&artifact][*number].home));
            must(home == held, "COPY", || {
                format!("{artifact} is at {home:?} and held at {held:?}")
            })?;
        }
        Ok(())
    }

    /// Everything on its way arrives and every wish is fulfilled; then the client holds the set, or knows that it does not.
    pub(super) fn settle(&mut self) -> Verdict {
        while let Some((signal, stamp)) = self.wire.pop() {
            self.hear(signal, stamp)?;
        }
        let mut turns = 0;
        loop {
            let is_served = self.serve(2)?;
            if !is_served && self.reads.is_empty() && !self.is_page_asked {
                break;
            }
            self.page(2, false)?;
            self.answer(0, 2)?;
            turns += 1;
            must(turns < 1_000, "LIVE", || "no rest".into())?;
        }
        if self.is_over() {
            return Ok(());
        }
        must(
            self.client.has_eose && self.session.is_live(),
            "LIVE",
            || "no EOSE".into(),
        )?;
        let saw = self
            .snapshot
            .as_ref()
            .map(|(saw, _)| saw.named_access_moved());
        must(
            saw == Some(self.truth.named_access_moved()),
            "ACCESS",
            || "access changed and the sync is open".into(),
        )?;
        must(self.client.holds == self.truth.set(), "NO-LOSS", || {
            format!("{:?} is not {:?}", self.client.holds, self.truth.set())
        })
    }
}

/// The invariant that is broken when this ending is due and does not come.
fn invariant_of(ending: Ending) -> &'static str {
    match ending {
        Ending::Resync(ResyncCause::Signals | ResyncCause::Lookup | ResyncCause::Store) => "LOSS",
        Ending::Resync(ResyncCause::Access) => "ACCESS",
        Ending::Resync(ResyncCause::Retired) => "RETIRE",
        Ending::Resync(ResyncCause::Backlog) | Ending::Error(_) => "BOUND",
        Ending::Restricted => "PRIVACY",
    }
}
