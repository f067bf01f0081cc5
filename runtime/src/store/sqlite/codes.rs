//! How values of the core are written in columns, and read back. Every stored number and every conversion stands here once;
//! statements stand elsewhere.

use std::str::FromStr;

use holdfast_core::accept::{Change, WithheldCause};
use holdfast_core::channel::{Channel, ChannelType, Role, Visibility};
use holdfast_core::ids::{ArtifactId, ChannelId, Position, Uuid};
use holdfast_core::nostr::{EventId, PubKey};
use holdfast_core::scope::Audience;
use rusqlite::types::Type;
use rusqlite::{Error, Result, Row};

/// The columns of a channel `c`, in the order of [`channel`].
pub(super) const CHANNEL_COLUMNS: &str = "c.id, c.channel_type, c.visibility, c.unlisted, c.archived, c.deleted, \
     c.created_at, c.access_stamp, c.creator, c.name, c.about, c.topic, c.purpose";

/// A number as SQLite holds it; what does not fit is as far away as can be.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The stored number of a kind of change.
pub(super) fn change_code(change: Change) -> i64 {
    match change {
        Change::Event => 1,
        Change::Revision => 2,
        Change::MoveSource => 3,
        Change::Redaction { current: false } => 4,
        Change::Redaction { current: true } => 5,
        Change::Withheld => 6,
        Change::Membership => 7,
        Change::Role => 8,
        Change::Visibility => 9,
        Change::Metadata => 10,
        Change::Archive => 11,
        Change::Created => 12,
        Change::ChannelDeleted => 13,
    }
}

/// The kind of change in a column.
pub(super) fn change(row: &Row<'_>, column: usize) -> Result<Change> {
    Ok(match row.get::<_, i64>(column)? {
        1 => Change::Event,
        2 => Change::Revision,
        3 => Change::MoveSource,
        4 => Change::Redaction { current: false },
        5 => Change::Redaction { current: true },
        6 => Change::Withheld,
        7 => Change::Membership,
        8 => Change::Role,
        9 => Change::Visibility,
        10 => Change::Metadata,
        11 => Change::Archive,
        12 => Change::Created,
        13 => Change::ChannelDeleted,
        _ => return Err(corrupt(column, "kind of change")),
    })
}

/// The stored number of a cause.
pub(super) fn cause_code(cause: WithheldCause) -> i64 {
    match cause {
        WithheldCause::Superseded => 1,
        WithheldCause::Deleted => 2,
        WithheldCause::Removed => 3,
    }
}

/// The stored number of an audience.
pub(super) fn audience_code(audience: Audience) -> i64 {
    match audience {
        Audience::Readers => 0,
        Audience::Moderators => 1,
    }
}

/// The audience in a column.
pub(super) fn audience(row: &Row<'_>, column: usize) -> Result<Audience> {
    match row.get::<_, i64>(column)? {
        0 => Ok(Audience::Readers),
        1 => Ok(Audience::Moderators),
        _ => Err(corrupt(column, "audience")),
    }
}

/// The unsigned number in a column.
pub(super) fn number(row: &Row<'_>, column: usize) -> Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|_| corrupt(column, "number"))
}

/// The ledger position in a column.
pub(super) fn position(row: &Row<'_>, column: usize) -> Result<Position> {
    number(row, column).map(Position)
}

/// The event id in a column.
pub(super) fn event_id(row: &Row<'_>, column: usize) -> Result<EventId> {
    row.get(column).map(EventId::from_bytes)
}

/// The key in a column.
pub(super) fn pubkey(row: &Row<'_>, column: usize) -> Result<PubKey> {
    row.get(column).map(PubKey::from_bytes)
}

/// The key in a column that may be empty.
pub(super) fn optional_pubkey(row: &Row<'_>, column: usize) -> Result<Option<PubKey>> {
    Ok(row
        .get::<_, Option<[u8; 32]>>(column)?
        .map(PubKey::from_bytes))
}

/// The event id in a column that may be empty.
pub(super) fn optional_event_id(row: &Row<'_>, column: usize) -> Result<Option<EventId>> {
    Ok(row
        .get::<_, Option<[u8; 32]>>(column)?
        .map(EventId::from_bytes))
}

/// The channel id in a column.
pub(super) fn channel_id(row: &Row<'_>, column: usize) -> Result<ChannelId> {
    uuid(row.get(column)?, column).map(ChannelId)
}

/// The channel id in a column that may be empty.
pub(super) fn optional_channel_id(row: &Row<'_>, column: usize) -> Result<Option<ChannelId>> {
    let bytes: Option<[u8; 16]> = row.get(column)?;
    bytes
        .map(|bytes| uuid(bytes, column).map(ChannelId))
        .transpose()
}

/// The artifact id in a column.
pub(super) fn artifact_id(row: &Row<'_>, column: usize) -> Result<ArtifactId> {
    uuid(row.get(column)?, column).map(ArtifactId)
}

/// The artifact id in a column that may be empty.
pub(super) fn optional_artifact_id(row: &Row<'_>, column: usize) -> Result<Option<ArtifactId>> {
    let bytes: Option<[u8; 16]> = row.get(column)?;
    bytes
        .map(|bytes| uuid(bytes, column).map(ArtifactId))
        .transpose()
}

/// The role in a column that may be empty.
pub(super) fn optional_role(row: &Row<'_>, column: usize) -> Result<Option<Role>> {
    let name: Option<String> = row.get(column)?;
    name.map(|name| Role::from_str(&name).map_err(|()| corrupt(column, "role")))
        .transpose()
}

/// The role in a column.
pub(super) fn role(row: &Row<'_>, column: usize) -> Result<Role> {
    optional_role(row, column)?.ok_or_else(|| corrupt(column, "role"))
}

/// A channel whose row begins with [`CHANNEL_COLUMNS`].
pub(super) fn channel(row: &Row<'_>) -> Result<Channel> {
    let visibility: String = row.get(2)?;
    Ok(Channel {
        id: channel_id(row, 0)?,
        channel_type: ChannelType::from_stored(&row.get::<_, String>(1)?),
        visibility: Visibility::from_str(&visibility).map_err(|()| corrupt(2, "visibility"))?,
        unlisted: row.get(3)?,
        archived: row.get(4)?,
        deleted: row.get(5)?,
        created_at: number(row, 6)?,
        access_stamp: position(row, 7)?,
        creator: optional_pubkey(row, 8)?,
        name: row.get(9)?,
        about: row.get(10)?,
        topic: row.get(11)?,
        purpose: row.get(12)?,
    })
}

/// The error of a column that holds what no release wrote.
pub(super) fn corrupt(column: usize, what: &'static str) -> Error {
    Error::FromSqlConversionFailure(column, Type::Null, format!("not a stored {what}").into())
}

pub(super) fn uuid(bytes: [u8; 16], column: usize) -> Result<Uuid> {
    Uuid::from_bytes(bytes).map_err(|_| corrupt(column, "id"))
}
