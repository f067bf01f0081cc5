//! What a relay's information document (NIP-11) says about sync. Fetching the document does not belong here.

use std::num::NonZeroU32;

use serde::Deserialize;
use serde_json::Value;

/// The version of sync that this crate speaks.
const VERSION: u64 = 1;

/// `artifacts.sync` of a relay: it serves sync (AR-INFO-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncCapability {
    /// The largest set a sync serves, in artifacts (AR-INFO-5).
    pub max_events: NonZeroU32,
}

/// Why a document says nothing that can be relied on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CapabilityError {
    /// The text is no JSON object.
    #[error("the relay information document is no JSON object")]
    NoDocument,
    /// `artifacts.sync` is there, but not of the form that NIP-AR gives it.
    #[error("artifacts.sync of the relay information document cannot be read")]
    Malformed,
}

#[derive(Deserialize)]
struct Sync {
    version: u64,
    max_events: Option<NonZeroU32>,
}

impl SyncCapability {
    /// Reads a relay information document. `None`: the relay does not offer sync, or only in another version; no other
    /// capability stands in for it (AR-SYNC-REQ-4).
    ///
    /// # Errors
    /// [`CapabilityError`].
    pub fn of_document(text: &str) -> Result<Option<SyncCapability>, CapabilityError> {
        let document: Value =
            serde_json::from_str(text).map_err(|_| CapabilityError::NoDocument)?;
        let document = document.as_object().ok_or(CapabilityError::NoDocument)?;
        let Some(sync) = document.get("artifacts").and_then(|all| all.get("sync")) else {
            return Ok(None);
        };
        let sync = Sync::deserialize(sync).map_err(|_| CapabilityError::Malformed)?;
        if sync.version != VERSION {
            return Ok(None);
        }
        let max_events = sync.max_events.ok_or(CapabilityError::Malformed)?;
        Ok(Some(SyncCapability { max_events }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules;

    fn read(text: &str) -> Result<Option<u32>, CapabilityError> {
        SyncCapability::of_document(text).map(|found| found.map(|sync| sync.max_events.get()))
    }

    #[test]
    fn sync_is_offered_by_its_own_key_alone() {
        rules!("AR-SYNC-REQ-4");
        let offered =
            r#"{"name":"x","artifacts":{"version":1,"sync":{"version":1,"max_events":4096}}}"#;
        assert_eq!(read(offered), Ok(Some(4_096)));
        for without in [
            "{}",
            r#"{"artifacts":{"version":1,"modes":["current","history","head"],"websocket_query_extensions":true}}"#,
            r#"{"artifacts":{"incremental":{"version":1,"overlapSeconds":120}}}"#,
            r#"{"sync":{"version":1,"max_events":4096}}"#,
            r#"{"artifacts":{"sync":{"version":2,"max_rows":1}}}"#,
        ] {
            assert_eq!(read(without), Ok(None), "{without}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for text in ["", "[]", "<html>", "3"] {
            assert_eq!(read(text), Err(CapabilityError::NoDocument), "{text}");
        }
        for sync in [
            "true",
            "{}",
            r#"{"version":1}"#,
            r#"{"version":1,"max_events":0}"#,
            r#"{"version":1,"max_events":"4096"}"#,
            r#"{"version":"1","max_events":1}"#,
        ] {
            let text = format!(r#"{{"artifacts":{{"sync":{sync}}}}}"#);
            assert_eq!(read(&text), Err(CapabilityError::Malformed), "{text}");
        }
    }
}
