//! The tenants of the database and their numbers, kept in memory. Binding a request's Host to one of them belongs to the HTTP
//! adapter.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast_core::ids::CommunityId;
use rusqlite::{Connection, OptionalExtension, params};

use super::codes;

/// All communities of the database; clones share one list.
#[derive(Clone, Debug, Default)]
pub(super) struct Communities {
    known: Arc<Mutex<BTreeMap<CommunityId, Community>>>,
}

#[derive(Clone, Debug)]
struct Community {
    number: i64,
    host: String,
}

impl Communities {
    /// Reads the list.
    ///
    /// # Errors
    /// What SQLite says.
    pub(super) fn load(db: &Connection) -> rusqlite::Result<Communities> {
        let communities = Communities::default();
        let mut statement = db.prepare("SELECT id, number, host FROM community")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id = CommunityId(codes::uuid(row.get(0)?, 0)?);
            let community = Community {
                number: row.get(1)?,
                host: row.get(2)?,
            };
            communities.lock().insert(id, community);
        }
        Ok(communities)
    }

    /// Number of a community.
    pub(super) fn number(&self, id: CommunityId) -> Option<i64> {
        self.lock().get(&id).map(|community| community.number)
    }

    /// Hosts and ids, by host.
    pub(super) fn list(&self) -> BTreeMap<String, CommunityId> {
        self.lock()
            .iter()
            .map(|(id, community)| (community.host.clone(), *id))
            .collect()
    }

    /// The community of a host; it is made if there is none. Runs on the writing connection.
    ///
    /// # Errors
    /// What SQLite says.
    pub(super) fn ensure(&self, db: &Connection, host: &str) -> rusqlite::Result<CommunityId> {
        if let Some(id) = self.list().get(host) {
            return Ok(*id);
        }
        // An unused random id; SQLite is the only source of chance that this room needs.
        let bytes: [u8; 16] = db.query_row("SELECT randomblob(16)", [], |row| row.get(0))?;
        let id = CommunityId(codes::uuid(bytes, 0)?);
        let number: Option<i64> = db
            .query_row(
                "INSERT INTO community (id, host) VALUES (?1, ?2) RETURNING number",
                params![bytes, host],
                |row| row.get(0),
            )
            .optional()?;
        let number = number.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        self.lock().insert(
            id,
            Community {
                number,
                host: host.to_owned(),
            },
        );
        Ok(id)
    }

    /// A panic while the lock is held leaves the list as it was.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<CommunityId, Community>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
