//! From options to configurations: node, store, bus, bounds, and where a seeded bug goes. Nothing runs here.

use holdfast_core::accept::{Policy, Profile, RelayKey};
use holdfast_core::ids::{CommunityId, Uuid};
use holdfast_core::node::{Bounds, Config, SyncConfig};
use holdfast_core::nostr::SecretKey;
use holdfast_core::seeded::Seeded;
use holdfast_world::bus::{self, BusConfig};
use holdfast_world::store::{self, Engine, StoreConfig};

use crate::options::{Family, Options};

/// Bytes of the largest simulated event with its frame.
const FRAME_BYTES_MAX: usize = 1_400;
/// Bytes of one page.
const PAGE_BYTES_MAX: usize = 1_600;
/// Milliseconds a stalled reader is borne.
pub(super) const STALL_MS: u64 = 3_000;
/// Milliseconds until the beacon finds a half-open connection.
pub(super) const BEACON_MS: u64 = 3_000;
/// Pages read ahead of a slow reader.
pub(super) const AHEAD_MAX: usize = 2;
/// Messages of one connection that may wait for their answers.
pub(super) const CREDITS: u32 = 16;

/// The one community.
pub(super) fn community() -> CommunityId {
    let mut bytes = [0x11; 16];
    bytes[6] = 0x81;
    CommunityId(Uuid::from_bytes(bytes).expect("not nil"))
}

/// A seeded bug by its name, and where it is seeded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bug {
    pub(super) core: Seeded,
    pub(super) store: store::Variant,
    pub(super) bus: bus::Variant,
    /// M22: the signals go out before the commit, the OK after it.
    pub(super) holds_ok: bool,
    /// M39: a replica takes events over before EOSE.
    pub(super) client: bool,
}

impl Bug {
    /// The bug of this name; `None` for a name that is none.
    #[cfg(feature = "mutants")]
    pub(super) fn named(name: &str) -> Option<Bug> {
        use holdfast_core::seeded::Mutant;
        use holdfast_world::bus::BusVariant;
        use holdfast_world::store::StoreVariant;
        let core = |mutant| Bug {
            core: Seeded::with(mutant),
            ..Bug::default()
        };
        let store = |line| Bug {
            store: store::Variant::broken(line),
            ..Bug::default()
        };
        let bus = |line| Bug {
            bus: bus::Variant::broken(line),
            ..Bug::default()
        };
        Some(match name {
            "M01" => core(Mutant::M01),
            "M02" => core(Mutant::M02),
            "M03" => core(Mutant::M03),
            "M04" => core(Mutant::M04),
            "M05" => core(Mutant::M05),
            "M06" => store(StoreVariant::PagesOnNewSnapshot),
            "M07" => store(StoreVariant::KeysetSkipsOne),
            "M08" => store(StoreVariant::StaleSyncSnapshots),
            "M09" => core(Mutant::M09),
            "M10" => core(Mutant::M10),
            "M11" => core(Mutant::M11),
            "M12" => core(Mutant::M12),
            "M13" => core(Mutant::M13),
            "M14" => core(Mutant::M14),
            "M15" => core(Mutant::M15),
            "M16" => core(Mutant::M16),
            "M17" => bus(BusVariant::ReconnectsSilently),
            "M18" => bus(BusVariant::LagUnreported),
            "M19" => core(Mutant::M19),
            "M20" => core(Mutant::M20),
            "M21" => core(Mutant::M21),
            "M22" => Bug {
                holds_ok: true,
                ..store(StoreVariant::AnswerBeforeVisible)
            },
            "M23" => core(Mutant::M23),
            "M24" => core(Mutant::M24),
            "M25" => store(StoreVariant::HeadCheckNotAtomic),
            "M27" => core(Mutant::M27),
            "M39" => Bug {
                client: true,
                ..Bug::default()
            },
            "M42" => core(Mutant::M42),
            "M48" => store(StoreVariant::MoveInTwoTransactions),
            "MX1" => core(Mutant::MX1),
            "MX2" => store(StoreVariant::XminWatermarkCursor),
            "MX3" => core(Mutant::MX3),
            "MX4" => core(Mutant::MX4),
            _ => return None,
        })
    }

    /// No bug can be seeded in this build.
    #[cfg(not(feature = "mutants"))]
    pub(super) fn named(_name: &str) -> Option<Bug> {
        None
    }
}

pub(super) fn policy() -> Policy {
    let secret = SecretKey::from_bytes([200; 32]).expect("a small number is a secret key");
    Policy {
        profile: Profile::Workspace,
        relay_key: RelayKey::new(secret),
    }
}

/// The configuration of every node.
pub(super) fn node(options: &Options, bug: Bug) -> Config {
    let frames = options.queue_frames as usize;
    let frame_rows = options.page_rows.min(options.queue_frames).max(1);
    let budget_ms = options.budget_ms;
    Config {
        send_queue_bytes: FRAME_BYTES_MAX + PAGE_BYTES_MAX,
        sweep_interval_ms: options.sweep_interval_ms,
        bounds: Bounds {
            frame_bytes_max: FRAME_BYTES_MAX,
            page_rows_max: 1,
            page_bytes_max: PAGE_BYTES_MAX,
            send_queue_frames_max: frames,
            control_reserve_bytes: 1_200,
        },
        sync: SyncConfig {
            is_enabled: true,
            max_events: options.max_events as usize,
            snapshots_max: options.snapshots as usize,
            snapshot_budget_ms: budget_ms,
            delivery_budget_ms: 2 * budget_ms,
            page_rows_max: frame_rows,
            page_bytes_max: PAGE_BYTES_MAX,
            heads_max: (options.heads as usize).min(frames).max(1),
            heads_bytes_max: PAGE_BYTES_MAX,
            waiting_max: 1_000,
        },
        seeded: bug.core,
        ..Config::new(policy())
    }
}

pub(super) fn store(options: &Options, bug: Bug) -> StoreConfig {
    let mut config = StoreConfig::new(policy(), Engine::ManyWriters, [community()]);
    config.batch_max = 4;
    config.ledger_rows_max = 8;
    if options.has(Family::Failover) {
        config.failover_lost_max = 3;
    }
    config.variant = bug.store;
    config
}

pub(super) fn bus(bug: Bug) -> BusConfig {
    BusConfig {
        buffer_max: 40,
        variant: bug.bus,
    }
}
