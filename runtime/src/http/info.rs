//! The NIP-11 document. Every number comes from the constant that is enforced, and a NIP stands in the list only where tests
//! demonstrate it.

use holdfast_core::accept::Profile;
use holdfast_core::limits;
use holdfast_core::node::SyncConfig;
use holdfast_core::nostr::PubKey;
use holdfast_core::nostr::kinds;
use serde::Serialize;

/// NIPs that hold in both profiles.
const NIPS: [u16; 9] = [1, 9, 11, 29, 40, 42, 45, 70, 98];

/// The document of this relay, as JSON. It is the same for every Host.
pub fn document(profile: Profile, relay_key: PubKey, sync: &SyncConfig) -> String {
    let document = Document {
        name: "Holdfast",
        description: "A Nostr relay for channels and their artifacts",
        relay_key,
        supported_nips: NIPS,
        supported_extensions: ["nip-ar"],
        version: env!("CARGO_PKG_VERSION"),
        limitation: Limitation::of(profile),
        artifacts: Artifacts::of(sync),
    };
    serde_json::to_string(&document).expect("strings, numbers and lists always serialise")
}

#[derive(Serialize)]
struct Document {
    name: &'static str,
    description: &'static str,
    #[serde(rename = "self")]
    relay_key: PubKey,
    supported_nips: [u16; 9],
    supported_extensions: [&'static str; 1],
    version: &'static str,
    limitation: Limitation,
    artifacts: Artifacts,
}

#[derive(Serialize)]
struct Limitation {
    max_message_length: usize,
    max_subscriptions: usize,
    max_filters: usize,
    max_limit: u32,
    default_limit: u32,
    max_subid_length: usize,
    max_event_tags: usize,
    /// Enforced in UTF-8 bytes.
    max_content_length: usize,
    /// Seconds that `created_at` may lie in the past; absent where it may be any.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at_lower_limit: Option<u64>,
    /// Seconds that `created_at` may lie in the future.
    created_at_upper_limit: u64,
    auth_required: bool,
    restricted_writes: bool,
    payment_required: bool,
}

impl Limitation {
    fn of(profile: Profile) -> Limitation {
        let is_workspace = profile == Profile::Workspace;
        Limitation {
            max_message_length: limits::FRAME_BYTES_MAX,
            max_subscriptions: limits::SUBSCRIPTIONS_MAX,
            max_filters: limits::FILTERS_MAX,
            max_limit: limits::LIMIT_MAX,
            default_limit: limits::LIMIT_MAX,
            max_subid_length: limits::SUB_ID_CHARS_MAX,
            max_event_tags: limits::EVENT_TAGS_MAX,
            max_content_length: limits::CONTENT_BYTES_MAX,
            created_at_lower_limit: is_workspace.then_some(limits::EVENT_WINDOW_SECS),
            created_at_upper_limit: limits::EVENT_WINDOW_SECS,
            auth_required: is_workspace,
            restricted_writes: is_workspace,
            payment_required: false,
        }
    }
}

/// What NIP-AR asks a relay to advertise. The head view goes with sync (AR-HEAD-1), and neither is named where it is switched off
/// (AR-SYNC-REQ-2). The budgets of a sync are not advertised (AR-INFO-8).
#[derive(Serialize)]
struct Artifacts {
    version: u8,
    revision_kind: u16,
    removal_kind: u16,
    query: &'static str,
    count: &'static str,
    modes: &'static [&'static str],
    websocket_query_extensions: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sync: Option<Sync>,
    max_tags: usize,
    max_tag_name_bytes: usize,
    max_tag_value_bytes: usize,
    max_tag_bytes: usize,
    max_predicates: usize,
    max_values: usize,
    max_page_size: u32,
    max_offset: u32,
    max_filters: u8,
    query_timeout_ms: u64,
}

/// The Sync subscription (AR-INFO-2).
#[derive(Serialize)]
struct Sync {
    version: u8,
    max_events: usize,
}

impl Artifacts {
    fn of(sync: &SyncConfig) -> Artifacts {
        Artifacts {
            version: 1,
            revision_kind: kinds::ARTIFACT,
            removal_kind: kinds::ARTIFACT_MOVED,
            query: "/query",
            count: "/count",
            modes: if sync.is_enabled {
                &["current", "history", "head"]
            } else {
                &["current", "history"]
            },
            websocket_query_extensions: sync.is_enabled,
            sync: sync.is_enabled.then_some(Sync {
                version: 1,
                max_events: sync.max_events,
            }),
            max_tags: limits::ARTIFACT_TAGS_MAX,
            max_tag_name_bytes: limits::ARTIFACT_TAG_NAME_BYTES_MAX,
            max_tag_value_bytes: limits::ARTIFACT_TAG_VALUE_BYTES_MAX,
            max_tag_bytes: limits::ARTIFACT_TAG_BYTES_MAX,
            max_predicates: limits::ARTIFACT_PREDICATES_MAX,
            max_values: limits::ARTIFACT_VALUES_MAX,
            max_page_size: limits::ARTIFACT_PAGE_MAX,
            max_offset: limits::ARTIFACT_OFFSET_MAX,
            max_filters: 1,
            query_timeout_ms: limits::ARTIFACT_QUERY_BUDGET_MS,
        }
    }
}
