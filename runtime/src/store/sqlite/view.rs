//! Reads the view of one submission: the only file that turns a [`ViewSpec`] into statements. What follows from the view does
//! not belong here.

use std::collections::BTreeMap;

use holdfast_core::accept::{
    AnchorFacts, ChannelView, Head, Known, Slot, SlotFacts, Standing, StateStamps, Submission,
    TargetFacts, View, ViewSpec,
};
use holdfast_core::channel::Member;
use holdfast_core::ids::{ArtifactId, ChannelId, Position, UnixSeconds};
use holdfast_core::nostr::{Event, EventId, PubKey, kinds};
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::codes::{self, CHANNEL_COLUMNS, int};

/// Where and when a submission is decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Number of the community.
    pub(super) community: i64,
    /// The relay's own key, which fills the slots of channel state.
    pub(super) relay: PubKey,
    /// Database clock in microseconds.
    pub(super) clock_us: u64,
    /// First free ledger position.
    pub(super) first_position: Position,
}

/// Reads everything `spec` asks for, inside the transaction that will write.
pub(super) fn read(
    tx: &Connection,
    at: &Moment,
    submission: &Submission,
    spec: &ViewSpec,
) -> Result<View> {
    let event = &submission.event;
    let head = match spec.artifact {
        Some(artifact) => head(tx, at, artifact)?,
        None => None,
    };
    let mut channels = BTreeMap::new();
    let home = head.as_ref().map(|head| head.home);
    for &id in spec.channels.iter().chain(&home) {
        if let Some(found) = channel(tx, at, id, &event.pubkey)? {
            channels.insert(id, found);
        }
    }
    let roster = match spec.roster {
        Some(channel) => roster(tx, at, channel)?,
        None => Vec::new(),
    };
    let mut target_slots = BTreeMap::new();
    for wanted in &spec.target_slots {
        if let Some(found) = slot(tx, at, wanted)? {
            target_slots.insert(wanted.clone(), found);
        }
    }
    let (slot, slot_deleted_until) = match &spec.slot {
        Some(own) => (slot(tx, at, own)?, slot_deleted_until(tx, at, own)?),
        None => (None, None),
    };
    let (known, deleted) = known(tx, at, event)?;
    Ok(View {
        clock_us: at.clock_us,
        first_position: at.first_position,
        standing: Standing::fine(),
        known,
        deleted,
        channels,
        head,
        anchor: match spec.anchor {
            Some(id) => anchor(tx, at, id)?,
            None => None,
        },
        targets: targets(tx, at, spec)?,
        target_slots,
        slot,
        slot_deleted_until,
        state: match spec.state {
            Some(channel) => state(tx, at, channel)?,
            None => StateStamps::default(),
        },
        notice_stamps: notice_stamps(tx, at, spec, &roster)?,
        roster,
    })
}

/// How much is known of the event's id, and whether its author deleted it.
fn known(tx: &Connection, at: &Moment, event: &Event) -> Result<(Known, bool)> {
    let id = event.id.as_bytes();
    let author = event.pubkey.as_bytes();
    let (stored, deleted): (bool, bool) = tx
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM event WHERE community = ?1 AND id = ?2 AND pubkey = ?3),
                    EXISTS (SELECT 1 FROM tombstone_event WHERE community = ?1 AND event = ?2 AND author = ?3)",
        )?
        .query_row(params![at.community, id, author], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let accepted = stored || (event.kind == kinds::ARTIFACT && is_revision(tx, at, event)?);
    Ok((
        if accepted {
            Known::Accepted
        } else {
            Known::New
        },
        deleted,
    ))
}

/// Whether the event was accepted as a revision whose body is gone (H19).
fn is_revision(tx: &Connection, at: &Moment, event: &Event) -> Result<bool> {
    tx.prepare_cached("SELECT 1 FROM revision WHERE community = ?1 AND event = ?2 AND author = ?3")?
        .exists(params![
            at.community,
            event.id.as_bytes(),
            event.pubkey.as_bytes()
        ])
}

fn channel(
    tx: &Connection,
    at: &Moment,
    id: ChannelId,
    author: &PubKey,
) -> Result<Option<ChannelView>> {
    tx.prepare_cached(&format!(
        "SELECT {CHANNEL_COLUMNS}, m.role FROM channel c
         LEFT JOIN member m ON m.community = c.community AND m.channel = c.id AND m.pubkey = ?3 AND m.removed = 0
         WHERE c.community = ?1 AND c.id = ?2"
    ))?
    .query_row(params![at.community, id.0.as_bytes(), author.as_bytes()], |row| {
        Ok(ChannelView { channel: codes::channel(row)?, role: codes::optional_role(row, 13)? })
    })
    .optional()
}

fn head(tx: &Connection, at: &Moment, artifact: ArtifactId) -> Result<Option<Head>> {
    tx.prepare_cached(
        "SELECT h.event, h.home, h.artifact_type, h.root, h.deleted, e.withheld IS NOT NULL
         FROM head h JOIN event e ON e.position = h.position
         WHERE h.community = ?1 AND h.artifact = ?2",
    )?
    .query_row(params![at.community, artifact.0.as_bytes()], |row| {
        Ok(Head {
            event: codes::event_id(row, 0)?,
            home: codes::channel_id(row, 1)?,
            artifact_type: row.get(2)?,
            root: codes::optional_event_id(row, 3)?,
            deleted: row.get(4)?,
            redacted: row.get(5)?,
        })
    })
    .optional()
}

fn anchor(tx: &Connection, at: &Moment, id: EventId) -> Result<Option<AnchorFacts>> {
    tx.prepare_cached(
        "SELECT kind, channel, withheld IS NOT NULL OR coalesce(expires_at <= ?3, 0)
         FROM event WHERE community = ?1 AND id = ?2",
    )?
    .query_row(
        params![at.community, id.as_bytes(), clock_secs(at)],
        |row| {
            Ok(AnchorFacts {
                kind: row.get(0)?,
                channel: codes::optional_channel_id(row, 1)?,
                withheld: row.get(2)?,
            })
        },
    )
    .optional()
}

fn targets(
    tx: &Connection,
    at: &Moment,
    spec: &ViewSpec,
) -> Result<BTreeMap<EventId, TargetFacts>> {
    let mut found = BTreeMap::new();
    for &id in &spec.targets {
        let facts = tx
            .prepare_cached(
                "SELECT e.pubkey, e.kind, e.created_at, e.channel,
                        e.withheld IS NOT NULL OR coalesce(e.expires_at <= ?3, 0),
                        CASE e.kind WHEN 45010 THEN e.artifact END,
                        EXISTS (SELECT 1 FROM head h WHERE h.community = e.community AND h.position = e.position)
                 FROM event e WHERE e.community = ?1 AND e.id = ?2",
            )?
            .query_row(params![at.community, id.as_bytes(), clock_secs(at)], |row| {
                Ok(TargetFacts {
                    id,
                    author: codes::pubkey(row, 0)?,
                    kind: row.get(1)?,
                    created_at: codes::number(row, 2)?,
                    channel: codes::optional_channel_id(row, 3)?,
                    withheld: row.get(4)?,
                    artifact: codes::optional_artifact_id(row, 5)?,
                    current: row.get(6)?,
                })
            })
            .optional()?;
        found.extend(facts.map(|facts| (id, facts)));
    }
    Ok(found)
}

fn slot(tx: &Connection, at: &Moment, slot: &Slot) -> Result<Option<SlotFacts>> {
    tx.prepare_cached(
        "SELECT id, created_at, channel FROM event
         WHERE community = ?1 AND pubkey = ?2 AND kind = ?3 AND slot_d = ?4 AND withheld IS NULL",
    )?
    .query_row(
        params![at.community, slot.author.as_bytes(), slot.kind, slot.d],
        |row| {
            Ok(SlotFacts {
                id: codes::event_id(row, 0)?,
                created_at: codes::number(row, 1)?,
                channel: codes::optional_channel_id(row, 2)?,
            })
        },
    )
    .optional()
}

fn slot_deleted_until(tx: &Connection, at: &Moment, slot: &Slot) -> Result<Option<UnixSeconds>> {
    tx.prepare_cached(
        "SELECT until FROM tombstone_slot WHERE community = ?1 AND author = ?2 AND kind = ?3 AND d = ?4",
    )?
    .query_row(params![at.community, slot.author.as_bytes(), slot.kind, slot.d], |row| {
        codes::number(row, 0)
    })
    .optional()
}

fn roster(tx: &Connection, at: &Moment, channel: ChannelId) -> Result<Vec<Member>> {
    tx.prepare_cached(
        "SELECT joined_at_us, pubkey, role, access_stamp FROM member
         WHERE community = ?1 AND channel = ?2 AND removed = 0 ORDER BY joined_at_us, pubkey",
    )?
    .query_map(params![at.community, channel.0.as_bytes()], |row| {
        Ok(Member {
            joined_at_us: codes::number(row, 0)?,
            pubkey: codes::pubkey(row, 1)?,
            role: codes::role(row, 2)?,
            access_stamp: codes::position(row, 3)?,
        })
    })?
    .collect()
}

fn state(tx: &Connection, at: &Moment, channel: ChannelId) -> Result<StateStamps> {
    let stamp = |kind| {
        slot(
            tx,
            at,
            &Slot {
                kind,
                author: at.relay,
                d: channel.to_string(),
            },
        )
    };
    Ok(StateStamps {
        metadata: stamp(kinds::CHANNEL_METADATA)?,
        admins: stamp(kinds::CHANNEL_ADMINS)?,
        members: stamp(kinds::CHANNEL_MEMBERS)?,
    })
}

fn notice_stamps(
    tx: &Connection,
    at: &Moment,
    spec: &ViewSpec,
    roster: &[Member],
) -> Result<BTreeMap<PubKey, UnixSeconds>> {
    let members: &[Member] = if spec.roster_notices { roster } else { &[] };
    let mut stamps = BTreeMap::new();
    for recipient in spec
        .recipients
        .iter()
        .chain(members.iter().map(|member| &member.pubkey))
    {
        let stamp = tx
            .prepare_cached(
                "SELECT created_at FROM notice_stamp WHERE community = ?1 AND recipient = ?2",
            )?
            .query_row(params![at.community, recipient.as_bytes()], |row| {
                codes::number(row, 0)
            })
            .optional()?;
        stamps.extend(stamp.map(|stamp| (*recipient, stamp)));
    }
    Ok(stamps)
}

fn clock_secs(at: &Moment) -> i64 {
    int(at.clock_us / 1_000_000)
}
