//! Many revisions by several authors in any order, against a model of the chain written on its own.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use super::desk::{Desk, furnished, hall, home, refusal, room, vault};
use super::{OPS, Rev, SIGNED_AT, key};
use crate::accept::{Change, Decision, Rejection};
use crate::channel::Role;
use crate::ids::ChannelId;
use crate::nostr::{Event, EventId, PubKey, kinds};
use crate::rules;

const ARTIFACTS: [&str; 3] = [
    "04737c81-e5e8-4412-bb47-f446813cfeba",
    "66666666-6666-4666-8666-666666666666",
    "77777777-7777-4777-8777-777777777777",
];
const TYPES: [&str; 2] = ["buzz.task", "buzz.project"];

fn channels() -> [ChannelId; 4] {
    [home(), room(), hall(), vault()]
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    /// A revision is sent.
    Send(Drawn),
    /// An event sent before is sent again.
    Resend(Index),
    /// A revision sent before is redacted.
    Redact(Index),
    /// Every body but those of current revisions is lost to retention.
    Expire,
    /// A channel is archived or unarchived.
    Archive(usize, bool),
    /// A channel is deleted; seldom, as it ends everything in it.
    DeleteChannel(usize),
    /// A key's role in a channel changes.
    Role(u8, usize, Option<Role>),
}

/// The parts of a revision by chance. All of them but the `wild` ones are then set right as far as the model knows, so that
/// long chains arise and every check is met alone.
#[derive(Clone, Debug)]
struct Drawn {
    author: u8,
    artifact: usize,
    op: &'static str,
    home: usize,
    kind: usize,
    prev: Index,
    root: Option<Index>,
    wild: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Author,
    Op,
    Home,
    Kind,
    Prev,
    Root,
}

const PARTS: [Part; 6] = [
    Part::Author,
    Part::Op,
    Part::Home,
    Part::Kind,
    Part::Prev,
    Part::Root,
];

fn drawn() -> impl Strategy<Value = Drawn> {
    let wild = prop_oneof![
        5 => Just(Vec::new()),
        4 => prop::sample::select(&PARTS[..]).prop_map(|part| vec![part]),
        1 => Just(PARTS.to_vec()),
    ];
    let who = (
        1u8..5,
        0..ARTIFACTS.len(),
        prop::sample::select(&OPS[..]),
        0..4usize,
    );
    let what = (
        0..TYPES.len(),
        any::<Index>(),
        prop::option::of(any::<Index>()),
        wild,
    );
    (who, what).prop_map(
        |((author, artifact, op, home), (kind, prev, root, wild))| Drawn {
            author,
            artifact,
            op,
            home,
            kind,
            prev,
            root,
            wild,
        },
    )
}

fn happenings() -> impl Strategy<Value = Happening> {
    let role = prop::option::weighted(
        0.8,
        prop::sample::select(&[Role::Owner, Role::Member, Role::Bot, Role::Guest][..]),
    );
    prop_oneof![
        40 => drawn().prop_map(Happening::Send),
        3 => any::<Index>().prop_map(Happening::Resend),
        2 => any::<Index>().prop_map(Happening::Redact),
        1 => Just(Happening::Expire),
        2 => (0..4usize, any::<bool>()).prop_map(|(channel, on)| Happening::Archive(channel, on)),
        1 => (1..4usize).prop_map(Happening::DeleteChannel),
        3 => (1u8..5, 0..4usize, role).prop_map(|(author, channel, role)| Happening::Role(author, channel, role)),
    ]
}

/// One accepted revision as the model remembers it.
#[derive(Clone, Debug)]
struct Link {
    id: EventId,
    op: String,
    kind: String,
    home: ChannelId,
    root: Option<String>,
}

/// What a relay must remember of the chains, and nothing of how.
#[derive(Clone, Debug, Default)]
struct Model {
    chains: BTreeMap<String, Vec<Link>>,
}

fn tag(event: &Event, name: &str) -> Option<String> {
    event
        .tags
        .iter()
        .find(|tag| tag[0] == name)
        .map(|tag| tag[1].clone())
}

fn may_read(desk: &Desk, channel: ChannelId, author: PubKey) -> bool {
    let stored = &desk.channels[&channel];
    !stored.deleted && (channel == hall() || desk.role(channel, author).is_some())
}

fn may_write(desk: &Desk, channel: ChannelId, author: PubKey) -> bool {
    let guest = desk.role(channel, author) == Some(Role::Guest);
    may_read(desk, channel, author) && !guest && !desk.channels[&channel].archived
}

impl Model {
    /// The answer to a well-formed revision: accepted, or refused as a conflict or otherwise.
    fn answer(&self, desk: &Desk, event: &Event) -> Result<(), &'static str> {
        let op = tag(event, "op").unwrap();
        let home: ChannelId = tag(event, "h").unwrap().parse().unwrap();
        let root = tag(event, "root");
        if !may_write(desk, home, event.pubkey) {
            return Err("refused");
        }
        let last = self
            .chains
            .get(&tag(event, "d").unwrap())
            .and_then(|chain| chain.last());
        let root_is_new = match last {
            None if op == "create" => true,
            Some(_) if op == "create" => return Err("conflict"),
            None => return Err("conflict"),
            Some(last) if !may_read(desk, last.home, event.pubkey) => return Err("conflict"),
            Some(last) if tag(event, "prev") != Some(last.id.to_string()) => {
                return Err("conflict");
            }
            Some(last) => {
                let moves = op == "move";
                let wrong = last.kind != tag(event, "type").unwrap()
                    || (last.op == "delete") != (op == "restore")
                    || (last.home != home) != moves
                    || (moves && !may_write(desk, last.home, event.pubkey))
                    || (op == "delete" && last.root != root);
                if wrong {
                    return Err("refused");
                }
                moves || last.root != root
            }
        };
        match root.filter(|_| root_is_new) {
            Some(root) if !is_anchor(desk, &root, home) => Err("refused"),
            _ => Ok(()),
        }
    }

    fn accepted(&mut self, event: &Event) {
        self.chains
            .entry(tag(event, "d").unwrap())
            .or_default()
            .push(Link {
                id: event.id,
                op: tag(event, "op").unwrap(),
                kind: tag(event, "type").unwrap(),
                home: tag(event, "h").unwrap().parse().unwrap(),
                root: tag(event, "root"),
            });
    }
}

fn is_anchor(desk: &Desk, root: &str, home: ChannelId) -> bool {
    let id: EventId = root.parse().unwrap();
    let readable = desk.events.get(&id).filter(|kept| kept.withheld.is_none());
    readable.map(|kept| &kept.stored).is_some_and(|body| {
        [9, 40002, 45001, 45003].contains(&body.event.kind)
            && tag(&body.event, "h") == Some(home.to_string())
    })
}

/// What runs: the store, the model, and everything sent so far.
struct Run {
    desk: Desk,
    model: Model,
    anchors: Vec<EventId>,
    sent: Vec<Event>,
    /// Accepted revisions in their order.
    order: Vec<EventId>,
    removals: Vec<(ChannelId, EventId)>,
}

impl Run {
    fn new() -> Run {
        let mut desk = furnished();
        desk.join(hall(), &key(3), Role::Guest);
        desk.join(vault(), &key(1), Role::Admin);
        let anchors = channels()
            .map(|channel| desk.message(channel, kinds::CHAT))
            .to_vec();
        Run {
            desk,
            model: Model::default(),
            anchors,
            sent: Vec::new(),
            order: Vec::new(),
            removals: Vec::new(),
        }
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Send(drawn) => {
                let event = self.revision(drawn);
                self.send(&event);
            }
            Happening::Resend(at) => self.resend(at),
            Happening::Redact(at) if !self.order.is_empty() => {
                let revision = *at.get(&self.order);
                self.desk.withhold(revision);
            }
            Happening::Redact(_) => {}
            Happening::Expire => {
                self.desk.expire();
                self.anchors = channels()
                    .map(|channel| self.desk.message(channel, kinds::CHAT))
                    .to_vec();
            }
            Happening::Archive(channel, on) => self
                .desk
                .edit(channels()[*channel], |channel| channel.archived = *on),
            Happening::DeleteChannel(channel) => self
                .desk
                .edit(channels()[*channel], |channel| channel.deleted = true),
            Happening::Role(author, channel, None) => {
                self.desk.leave(channels()[*channel], &key(*author))
            }
            Happening::Role(author, channel, Some(role)) => {
                self.desk.join(channels()[*channel], &key(*author), *role)
            }
        }
    }

    fn revision(&self, drawn: &Drawn) -> Event {
        let tame = |part| !drawn.wild.contains(&part);
        let d = ARTIFACTS[drawn.artifact];
        let last = self.model.chains.get(d).and_then(|chain| chain.last());
        let (mut op, mut home, mut kind) = (drawn.op, drawn.home, TYPES[drawn.kind]);
        let mut prev = match self.sent.is_empty() {
            true => self.anchors[0],
            false => drawn.prev.get(&self.sent).id,
        };
        if tame(Part::Op) {
            op = match last {
                None => "create",
                Some(last) if last.op == "delete" => "restore",
                Some(_) if matches!(op, "create" | "restore") => "update",
                Some(_) => op,
            };
        }
        if let Some(last) = last {
            let at = channels()
                .iter()
                .position(|channel| *channel == last.home)
                .unwrap();
            if tame(Part::Home) && op != "move" {
                home = at;
            } else if tame(Part::Home) && home == at {
                home = (at + 1) % 4;
            }
            if tame(Part::Kind) {
                kind = &last.kind;
            }
            if tame(Part::Prev) {
                prev = last.id;
            }
        }
        let mut root = drawn.root.map(|root| root.get(&self.anchors).to_string());
        if tame(Part::Root) {
            root = match last {
                Some(last) if op == "delete" || drawn.prev.index(2) == 0 => last.root.clone(),
                _ => root.map(|_| self.anchors[home].to_string()),
            };
        }
        let mut rev = Rev::new(op)
            .set("d", d)
            .at(channels()[home])
            .set("type", kind);
        if op != "create" {
            rev = rev.after(prev);
        }
        if let Some(root) = root {
            rev = rev.set("root", &root);
        }
        // Every event differs, and times go up and down.
        rev.created_at = SIGNED_AT - 400 + (self.sent.len() as u64 * 377) % 800;
        let author = match tame(Part::Author) {
            true => self.writer(drawn.author, channels()[home], last.map(|last| last.home)),
            false => drawn.author,
        };
        rev.by(&key(author))
    }

    /// Someone who may write in both channels, the wanted one if possible.
    fn writer(&self, wanted: u8, home: ChannelId, source: Option<ChannelId>) -> u8 {
        let writes = |author: &u8| {
            let author = key(*author).public_key();
            may_write(&self.desk, home, author)
                && source.is_none_or(|source| may_write(&self.desk, source, author))
        };
        [wanted, 1, 2, 3, 4]
            .into_iter()
            .find(writes)
            .unwrap_or(wanted)
    }

    fn send(&mut self, event: &Event) {
        let before = self.desk.clone();
        self.check_disclosure(event);
        let replaced = self
            .model
            .chains
            .get(&tag(event, "d").unwrap())
            .and_then(|chain| chain.last())
            .cloned();
        let expected = self.model.answer(&before, event);
        let decision = self.desk.submit(event);
        match (expected, &decision) {
            (Ok(()), Decision::Write { .. }) => {
                self.model.accepted(event);
                self.order.push(event.id);
                if tag(event, "op").unwrap() == "move" {
                    let replaced = replaced.expect("a move follows something");
                    self.removals.push((replaced.home, replaced.id));
                }
            }
            (Err("conflict"), Decision::Reject(Rejection::Conflict(_))) => {
                assert_eq!(self.desk, before)
            }
            (Err("refused"), Decision::Reject(Rejection::Invalid(_) | Rejection::Denied(_))) => {
                assert_eq!(self.desk, before);
            }
            (expected, decision) => panic!("expected {expected:?}, got {decision:?} for {event:?}"),
        }
        self.sent.push(event.clone());
    }

    /// Where the author cannot read the artifact's home, the answer is that of an artifact that never was.
    fn check_disclosure(&self, event: &Event) {
        let d = tag(event, "d").unwrap();
        let hidden = self.model.chains.get(&d).and_then(|chain| chain.last());
        if hidden.is_some_and(|last| !may_read(&self.desk, last.home, event.pubkey)) {
            let mut unknown = self.desk.clone();
            unknown.heads.remove(&d.parse().unwrap());
            let (with, without) = (self.desk.decide(event), unknown.decide(event));
            if tag(event, "op").unwrap() == "create" {
                assert!(
                    with == without || refusal(&with) == "conflict: artifact identity is taken"
                );
            } else {
                assert_eq!(with, without);
            }
        }
    }

    fn resend(&mut self, at: &Index) {
        if self.sent.is_empty() {
            return;
        }
        let event = at.get(&self.sent).clone();
        if self
            .model
            .chains
            .values()
            .flatten()
            .any(|link| link.id == event.id)
        {
            let before = self.desk.clone();
            assert_eq!(
                self.desk.submit(&event),
                Decision::Already {
                    message: String::new()
                }
            );
            assert_eq!(self.desk, before);
        }
    }

    /// What must be true at any time.
    fn check(&self) {
        assert_eq!(self.desk.heads.len(), self.model.chains.len());
        for (d, chain) in &self.model.chains {
            let (first, last) = (&chain[0], chain.last().expect("a chain has a link"));
            let head = &self.desk.heads[&d.parse().unwrap()];
            assert_eq!(head.event, last.id, "the head is the last accepted");
            assert_eq!((head.home, &head.artifact_type), (last.home, &first.kind));
            assert_eq!(
                (head.deleted, head.root.map(|root| root.to_string())),
                (last.op == "delete", last.root.clone())
            );
            assert!(
                chain.iter().all(|link| link.kind == first.kind),
                "the type is immutable"
            );
            assert!(chain.iter().skip(1).all(|link| link.op != "create"));
        }
        let accepted: BTreeSet<EventId> = self.order.iter().copied().collect();
        let mut prevs: Vec<_> = self
            .sent
            .iter()
            .filter(|event| accepted.contains(&event.id))
            .filter_map(|event| tag(event, "prev"))
            .collect();
        let followed = prevs.len();
        prevs.sort();
        prevs.dedup();
        assert_eq!(prevs.len(), followed, "one successor per revision");
        let announced: Vec<_> = self
            .desk
            .ledger
            .iter()
            .filter(|row| row.change == Change::MoveSource)
            .map(|row| row.channel.unwrap())
            .collect();
        assert_eq!(
            announced,
            self.removals
                .iter()
                .map(|(source, _)| *source)
                .collect::<Vec<_>>()
        );
        let revisions = self
            .desk
            .ledger
            .iter()
            .filter(|row| row.change == Change::Revision)
            .map(|row| row.event.unwrap());
        assert_eq!(
            revisions.collect::<Vec<_>>(),
            self.order,
            "the ledger keeps the order of acceptance"
        );
        for body in self
            .desk
            .events
            .values()
            .map(|kept| &kept.stored)
            .filter(|body| body.event.kind == kinds::ARTIFACT_MOVED)
        {
            let told = (
                body.channel.unwrap(),
                tag(&body.event, "prev").unwrap().parse().unwrap(),
            );
            assert!(
                self.removals.contains(&told),
                "a removal follows from a move"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_history_is_that_of_the_model(happenings in prop::collection::vec(happenings(), 1..60)) {
        rules!("AR-ID-7", "AR-ID-9", "AR-ID-2", "AR-CUR-1", "AR-MOD-6", "AR-MOVE-5");
        let mut run = Run::new();
        for happening in &happenings {
            run.happen(happening);
            run.check();
        }
    }

    #[test]
    fn histories_keep_identities_reserved_and_resubmissions_silent(happenings in prop::collection::vec(happenings(), 20..60)) {
        rules!("AR-ID-5", "AR-ID-11", "AR-ID-12", "AR-ACC-18", "AR-MOD-13", "AR-DEL-7");
        let mut run = Run::new();
        happenings.iter().for_each(|happening| run.happen(happening));
        for (d, chain) in &run.model.chains {
            let create = Rev::new("create").set("d", d).at(home()).set("title", "Once more");
            if may_write(&run.desk, home(), key(1).public_key()) {
                assert_eq!(refusal(&run.desk.decide(&create.event())), "conflict: artifact identity is taken");
            }
            for link in chain {
                let event = run.sent.iter().find(|event| event.id == link.id).unwrap();
                assert_eq!(run.desk.decide(event), Decision::Already { message: String::new() });
            }
        }
    }
}
