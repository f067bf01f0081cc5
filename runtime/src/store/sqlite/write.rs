//! Applies the writes of a decision: the only file that changes stored state. A write that does not fit what is stored is an
//! error, and the caller undoes the whole decision (S2). What is written is not decided here.

use holdfast_core::accept::{Head, LedgerRow, StoredEvent, TombstoneTarget, WithheldCause, Write};
use holdfast_core::channel::{Channel, Member};
use holdfast_core::ids::{ArtifactId, ChannelId, Position, UnixSeconds};
use holdfast_core::node::Signal;
use holdfast_core::nostr::{Event, EventId, PubKey, kinds};
use rusqlite::{Connection, OptionalExtension, params};

use super::codes::{self, int};
use super::view::Moment;

/// Why a list of writes could not be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The database refused: a constraint, a full disk, a lock.
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    /// The list contradicts itself or what is stored.
    #[error("a decision does not fit what is stored: {0}")]
    Wrong(&'static str),
}

type Result<T> = std::result::Result<T, WriteError>;

/// Applies a list in order and returns the signals of its ledger rows. The caller holds a savepoint.
///
/// # Errors
/// After any error part of the list may be applied; the caller rolls back to its savepoint.
pub(super) fn apply(tx: &Connection, at: &Moment, writes: &[Write]) -> Result<Vec<Signal>> {
    check_ledger(at, writes)?;
    let mut signals = Vec::new();
    for write in writes {
        match write {
            Write::Store(stored) => store(tx, at, stored)?,
            Write::Withhold { event, cause } => withhold(tx, at, event, *cause)?,
            Write::Tombstone {
                author,
                target,
                until,
            } => {
                tombstone(tx, at, author, target, *until)?;
            }
            Write::CreateChannel(channel) => create_channel(tx, at, channel)?,
            Write::UpdateChannel(channel) => update_channel(tx, at, channel)?,
            Write::PutMember { channel, member } => put_member(tx, at, *channel, member)?,
            Write::RemoveMember {
                channel,
                pubkey,
                access_stamp,
            } => {
                remove_member(tx, at, *channel, pubkey, *access_stamp)?;
            }
            Write::CreateHead { artifact, head } => {
                create_head(tx, at, *artifact, head, stored_as(writes, *artifact, head)?)?;
            }
            Write::AdvanceHead {
                artifact,
                prev,
                head,
            } => {
                advance_head(
                    tx,
                    at,
                    *artifact,
                    prev,
                    head,
                    stored_as(writes, *artifact, head)?,
                )?;
            }
            Write::Accept {
                event,
                artifact,
                author,
                position,
            } => {
                tx.prepare_cached(
                    "INSERT INTO revision (community, event, artifact, author, position) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![
                    at.community,
                    event.as_bytes(),
                    artifact.0.as_bytes(),
                    author.as_bytes(),
                    int(position.0)
                ])?;
            }
            Write::NoticeStamp {
                recipient,
                created_at,
            } => {
                notice_stamp(tx, at, recipient, *created_at)?;
            }
            Write::Ledger(row) => signals.push(ledger(tx, at, row)?),
        }
    }
    Ok(signals)
}

/// The ledger rows take the reserved positions one after the other, and every stored event has its row among them (S5).
fn check_ledger(at: &Moment, writes: &[Write]) -> Result<()> {
    let rows = || {
        writes.iter().filter_map(|write| match write {
            Write::Ledger(row) => Some(row),
            _ => None,
        })
    };
    if rows().next().is_none() {
        return Err(WriteError::Wrong("no ledger row"));
    }
    let mut next = at.first_position;
    for row in rows() {
        if row.position != next {
            return Err(WriteError::Wrong("ledger positions with a gap"));
        }
        next = next.plus(1);
    }
    for write in writes {
        if let Write::Store(stored) = write {
            let announces = |row: &LedgerRow| {
                row.position == stored.position && row.event == Some(stored.event.id)
            };
            if !rows().any(announces) {
                return Err(WriteError::Wrong("a stored event without its ledger row"));
            }
        }
    }
    Ok(())
}

/// Position of the revision that a head names; it is stored by the same decision, as that artifact's, in the head's home.
fn stored_as(writes: &[Write], artifact: ArtifactId, head: &Head) -> Result<Position> {
    writes
        .iter()
        .find_map(|write| match write {
            Write::Store(stored)
                if stored.event.id == head.event
                    && stored.event.kind == kinds::ARTIFACT
                    && stored.artifact == Some(artifact)
                    && stored.channel == Some(head.home) =>
            {
                Some(stored.position)
            }
            _ => None,
        })
        .ok_or(WriteError::Wrong("a head without its revision"))
}

fn store(tx: &Connection, at: &Moment, stored: &StoredEvent) -> Result<()> {
    let event = &stored.event;
    if stored
        .slot
        .as_ref()
        .is_some_and(|slot| slot.kind != event.kind || slot.author != event.pubkey)
    {
        return Err(WriteError::Wrong(
            "an event in a slot of another kind or author",
        ));
    }
    let is_notice = matches!(event.kind, kinds::MEMBER_ADDED | kinds::MEMBER_REMOVED);
    let untyped_notice = is_notice && !stored.terms.iter().any(|(name, _)| name == "t");
    let (position, created_at) = (int(stored.position.0), int(event.created_at));
    tx.prepare_cached(
        "INSERT INTO event (position, community, id, pubkey, created_at, kind, audience, channel, expires_at, artifact,
                            untyped_notice, slot_d, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        position,
        at.community,
        event.id.as_bytes(),
        event.pubkey.as_bytes(),
        created_at,
        event.kind,
        codes::audience_code(stored.audience),
        stored.channel.map(|channel| *channel.0.as_bytes()),
        stored.expires_at.map(int),
        stored.artifact.map(|artifact| *artifact.0.as_bytes()),
        untyped_notice,
        stored.slot.as_ref().map(|slot| slot.d.as_str()),
        event.to_json(),
    ])?;
    if stored.terms.is_empty() {
        return Ok(());
    }
    let mut insert = tx.prepare_cached(
        "INSERT OR IGNORE INTO event_tag (community, name, value, created_at, position) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (name, value) in &stored.terms {
        insert.execute(params![at.community, name, value, created_at, position])?;
    }
    Ok(())
}

/// A withheld event is served to nobody, so neither its body nor its index terms are kept.
fn withhold(tx: &Connection, at: &Moment, id: &EventId, cause: WithheldCause) -> Result<()> {
    let (position, body): (i64, String) = tx
        .prepare_cached(
            "SELECT position, body FROM event WHERE community = ?1 AND id = ?2 AND withheld IS NULL",
        )?
        .query_row(params![at.community, id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or(WriteError::Wrong("withholds an event that is not there"))?;
    let event =
        Event::from_json(&body).map_err(|_| WriteError::Wrong("a stored body is no event"))?;
    let mut delete = tx.prepare_cached(
        "DELETE FROM event_tag
         WHERE community = ?1 AND name = ?2 AND value = ?3 AND created_at = ?4 AND position = ?5",
    )?;
    for tag in &event.tags {
        if let [name, value, ..] = tag.as_slice() {
            delete.execute(params![
                at.community,
                name,
                value,
                int(event.created_at),
                position
            ])?;
        }
    }
    tx.prepare_cached("UPDATE event SET withheld = ?2, body = NULL WHERE position = ?1")?
        .execute(params![position, codes::cause_code(cause)])?;
    Ok(())
}

fn tombstone(
    tx: &Connection,
    at: &Moment,
    author: &PubKey,
    target: &TombstoneTarget,
    until: UnixSeconds,
) -> Result<()> {
    match target {
        TombstoneTarget::Event(event) => tx
            .prepare_cached(
                "INSERT INTO tombstone_event (community, event, author, until) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET until = max(until, excluded.until)",
            )?
            .execute(params![at.community, event.as_bytes(), author.as_bytes(), int(until)])?,
        TombstoneTarget::Slot(slot) => tx
            .prepare_cached(
                "INSERT INTO tombstone_slot (community, author, kind, d, until) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET until = max(until, excluded.until)",
            )?
            .execute(params![at.community, author.as_bytes(), slot.kind, slot.d, int(until)])?,
    };
    Ok(())
}

fn create_channel(tx: &Connection, at: &Moment, channel: &Channel) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO channel (community, id, channel_type, visibility, unlisted, archived, deleted, created_at,
                              access_stamp, creator, name, about, topic, purpose)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        at.community,
        channel.id.0.as_bytes(),
        channel.channel_type.as_str(),
        channel.visibility.as_str(),
        channel.unlisted,
        channel.archived,
        channel.deleted,
        int(channel.created_at),
        int(channel.access_stamp.0),
        channel.creator.map(|creator| *creator.as_bytes()),
        channel.name,
        channel.about,
        channel.topic,
        channel.purpose,
    ])?;
    Ok(())
}

fn update_channel(tx: &Connection, at: &Moment, channel: &Channel) -> Result<()> {
    let changed = tx
        .prepare_cached(
            "UPDATE channel SET channel_type = ?3, visibility = ?4, unlisted = ?5, archived = ?6, deleted = ?7,
                                created_at = ?8, access_stamp = ?9, creator = ?10, name = ?11, about = ?12, topic = ?13,
                                purpose = ?14
             WHERE community = ?1 AND id = ?2",
        )?
        .execute(params![
            at.community,
            channel.id.0.as_bytes(),
            channel.channel_type.as_str(),
            channel.visibility.as_str(),
            channel.unlisted,
            channel.archived,
            channel.deleted,
            int(channel.created_at),
            int(channel.access_stamp.0),
            channel.creator.map(|creator| *creator.as_bytes()),
            channel.name,
            channel.about,
            channel.topic,
            channel.purpose,
        ])?;
    one_row(changed, "updates a channel that is not there")
}

fn put_member(tx: &Connection, at: &Moment, channel: ChannelId, member: &Member) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO member (community, channel, pubkey, removed, role, joined_at_us, access_stamp)
         VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET removed = 0, role = excluded.role, joined_at_us = excluded.joined_at_us,
                                   access_stamp = excluded.access_stamp",
    )?
    .execute(params![
        at.community,
        channel.0.as_bytes(),
        member.pubkey.as_bytes(),
        member.role.as_str(),
        int(member.joined_at_us),
        int(member.access_stamp.0),
    ])?;
    Ok(())
}

fn remove_member(
    tx: &Connection,
    at: &Moment,
    channel: ChannelId,
    pubkey: &PubKey,
    access_stamp: Position,
) -> Result<()> {
    let changed = tx
        .prepare_cached(
            "UPDATE member SET removed = 1, access_stamp = ?4
             WHERE community = ?1 AND channel = ?2 AND pubkey = ?3 AND removed = 0",
        )?
        .execute(params![
            at.community,
            channel.0.as_bytes(),
            pubkey.as_bytes(),
            int(access_stamp.0)
        ])?;
    one_row(changed, "removes a member that is not there")
}

fn create_head(
    tx: &Connection,
    at: &Moment,
    artifact: ArtifactId,
    head: &Head,
    position: Position,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO head (community, artifact, event, position, home, deleted, artifact_type, root)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        at.community,
        artifact.0.as_bytes(),
        head.event.as_bytes(),
        int(position.0),
        head.home.0.as_bytes(),
        head.deleted,
        head.artifact_type,
        head.root.map(|root| *root.as_bytes()),
    ])?;
    Ok(())
}

/// Advances the head only from `prev` (AR-ID-7, AR-ID-9).
fn advance_head(
    tx: &Connection,
    at: &Moment,
    artifact: ArtifactId,
    prev: &EventId,
    head: &Head,
    position: Position,
) -> Result<()> {
    let changed = tx
        .prepare_cached(
            "UPDATE head SET event = ?4, position = ?5, home = ?6, deleted = ?7, artifact_type = ?8, root = ?9
             WHERE community = ?1 AND artifact = ?2 AND event = ?3",
        )?
        .execute(params![
            at.community,
            artifact.0.as_bytes(),
            prev.as_bytes(),
            head.event.as_bytes(),
            int(position.0),
            head.home.0.as_bytes(),
            head.deleted,
            head.artifact_type,
            head.root.map(|root| *root.as_bytes()),
        ])?;
    one_row(changed, "advances a head whose current revision is another")
}

fn notice_stamp(
    tx: &Connection,
    at: &Moment,
    recipient: &PubKey,
    created_at: UnixSeconds,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO notice_stamp (community, recipient, created_at) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET created_at = max(created_at, excluded.created_at)",
    )?
    .execute(params![at.community, recipient.as_bytes(), int(created_at)])?;
    Ok(())
}

fn ledger(tx: &Connection, at: &Moment, row: &LedgerRow) -> Result<Signal> {
    tx.prepare_cached(
        "INSERT INTO ledger (position, stamp_us, community, change, channel, key, artifact, event)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        int(row.position.0),
        int(at.clock_us),
        at.community,
        codes::change_code(row.change),
        row.channel.map(|channel| *channel.0.as_bytes()),
        row.key.map(|key| *key.as_bytes()),
        row.artifact.map(|artifact| *artifact.0.as_bytes()),
        row.event.map(|event| *event.as_bytes()),
    ])?;
    Ok(Signal {
        position: row.position,
        xid: 0,
        change: row.change,
        channel: row.channel,
        artifact: row.artifact,
        key: row.key,
    })
}

fn one_row(changed: usize, otherwise: &'static str) -> Result<()> {
    if changed == 1 {
        Ok(())
    } else {
        Err(WriteError::Wrong(otherwise))
    }
}
