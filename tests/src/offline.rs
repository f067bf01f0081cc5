//! The database of an embedded relay while that relay is stopped. Here a test makes what no command can make: a channel of a type
//! that a later release invents, state and notices as an earlier release signed them. Reading what a relay stored over its
//! public paths belongs to `client` and `http`.

use holdfast_core::ids::ChannelId;
use holdfast_core::nostr::{Event, PubKey, kinds};
use holdfast_core::scope::index_terms;
use rusqlite::{Connection, params};

use crate::build::now;
use crate::relay::RelayProcess;

/// The file inside a data directory.
pub const DATABASE_FILE: &str = "holdfast.sqlite";

/// An open database. The relay is stopped when this is made; restart it after dropping this.
pub struct Offline {
    db: Connection,
}

impl Offline {
    /// Stops the relay in the orderly way and opens its database.
    ///
    /// # Panics
    /// If the relay does not stop or the file is not there.
    #[track_caller]
    pub fn open(relay: &mut RelayProcess) -> Offline {
        let status = relay.terminate();
        assert!(status.success(), "a stopped relay says {status}");
        let path = relay.data_dir().join(DATABASE_FILE);
        assert!(path.exists(), "no database at {}", path.display());
        Offline {
            db: Connection::open(path).expect("the database opens"),
        }
    }

    /// Gives a channel another type, as if a later release had created it. Stored state events keep what they say until the
    /// channel changes next.
    ///
    /// # Panics
    /// If the channel is not there.
    pub fn set_type(&self, channel: ChannelId, name: &str) {
        self.change_channel("channel_type = ?2", channel, Some(name));
    }

    /// Forgets who created a channel, as for one from before creators were recorded.
    ///
    /// # Panics
    /// If the channel is not there.
    pub fn forget_creator(&self, channel: ChannelId) {
        self.change_channel("creator = ?2", channel, None);
    }

    /// Makes people plain members of a channel, without state events or notices: the roster is signed again when the channel's
    /// membership changes next.
    ///
    /// # Panics
    /// If the database refuses it.
    pub fn add_members(&self, channel: ChannelId, people: &[PubKey]) {
        let community: i64 = self.number("SELECT number FROM community");
        let joined_at_us =
            i64::try_from(now() * 1_000_000).expect("the clock is before the year 200000");
        let mut insert = self
            .db
            .prepare(
                "INSERT INTO member (community, channel, pubkey, removed, role, joined_at_us, access_stamp)
                 VALUES (?1, ?2, ?3, 0, 'member', ?4, 1)",
            )
            .expect("the members can be prepared");
        self.db
            .execute_batch("BEGIN")
            .expect("a transaction begins");
        for (at, who) in (0..).zip(people) {
            let at_us: i64 = joined_at_us + at;
            insert
                .execute(params![
                    community,
                    channel.0.as_bytes(),
                    who.as_bytes(),
                    at_us
                ])
                .expect("the members take a row");
        }
        self.db
            .execute_batch("COMMIT")
            .expect("the transaction ends");
    }

    /// Changes what is fixed for life, so the trigger that fixes it is set aside and put back.
    fn change_channel(&self, assignment: &str, channel: ChannelId, value: Option<&str>) {
        let trigger: String = self
            .db
            .query_row(
                "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = 'channel_is_bound'",
                [],
                |row| row.get(0),
            )
            .expect("channels are bound by a trigger");
        self.db
            .execute_batch("DROP TRIGGER channel_is_bound")
            .expect("a trigger can be dropped");
        let changed = self
            .db
            .execute(
                &format!("UPDATE channel SET {assignment} WHERE id = ?1"),
                params![channel.0.as_bytes(), value],
            )
            .expect("a channel can be changed");
        assert_eq!(changed, 1, "one channel has the id {channel}");
        self.db
            .execute_batch(&trigger)
            .expect("the trigger can be put back");
    }

    /// Stores an event as it is, with its ledger row and its index terms. Its signature is the caller's matter.
    ///
    /// # Panics
    /// If the database refuses it.
    pub fn insert(&self, event: &Event, channel: Option<ChannelId>) {
        let channel = channel.map(|channel| *channel.0.as_bytes());
        let community: i64 = self.number("SELECT number FROM community");
        let position: i64 = self.number("SELECT coalesce(max(position), 0) + 1 FROM ledger");
        let is_notice = matches!(event.kind, kinds::MEMBER_ADDED | kinds::MEMBER_REMOVED);
        let untyped_notice = is_notice && event.first_value("t").is_none();
        let stamp_us =
            i64::try_from(now() * 1_000_000).expect("the clock is before the year 200000");
        let created_at = i64::try_from(event.created_at).expect("a time of a test is small");
        self.db
            .execute(
                "INSERT INTO ledger (position, stamp_us, community, change, channel, event)
                 VALUES (?1, ?2, ?3, 1, ?4, ?5)",
                params![position, stamp_us, community, channel, event.id.as_bytes()],
            )
            .expect("the ledger takes a row");
        self.db
            .execute(
                "INSERT INTO event (position, community, id, pubkey, created_at, kind, audience, untyped_notice, channel, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7, ?8, ?9)",
                params![
                    position,
                    community,
                    event.id.as_bytes(),
                    event.pubkey.as_bytes(),
                    created_at,
                    event.kind,
                    untyped_notice,
                    channel,
                    event.to_json(),
                ],
            )
            .expect("the events take a row");
        for (name, value) in index_terms(event) {
            self.db
                .execute(
                    "INSERT INTO event_tag (community, name, value, created_at, position) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![community, name, value, created_at, position],
                )
                .expect("the terms take a row");
        }
    }

    fn number(&self, statement: &str) -> i64 {
        self.db
            .query_row(statement, [], |row| row.get(0))
            .expect("the statement gives one number")
    }
}
