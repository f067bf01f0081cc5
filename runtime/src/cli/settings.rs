//! The settings of `holdfast serve`: flags, then `HOLDFAST_*` variables, then the TOML file, then the default.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::builder::{ArgAction, BoolishValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, ValueEnum};
use holdfast_core::limits::{
    AUTH_TIMEOUT_MS_DEFAULT, SEND_QUEUE_BYTES_DEFAULT, SWEEP_INTERVAL_MS_DEFAULT,
    SYNC_DELIVERY_BUDGET_MS, SYNC_MAX_EVENTS_DEFAULT, SYNC_SNAPSHOT_BUDGET_MS_DEFAULT,
    SYNC_WAITING_MAX,
};
use holdfast_core::node::{Config, SyncConfig};
use holdfast_core::nostr::host::normalise_host;
use holdfast_core::nostr::url::Scheme;
use holdfast_core::nostr::{SecretKey, WebUrl};
use serde::Deserialize;

use super::exit::Failure;
use super::files;

/// Arguments of `serve`; the TOML file has the same names.
#[derive(clap::Args, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct ServeArgs {
    /// TOML file with settings of the same names; flags and variables go before it
    #[arg(long, env = "HOLDFAST_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,
    /// Address to listen on; port 0 takes a free one [default: 127.0.0.1:7447]
    #[arg(long, env = "HOLDFAST_LISTEN", value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// URL under which clients reach the relay; needed with a wildcard --listen [default: ws://<listen>]
    #[arg(long, env = "HOLDFAST_RELAY_URL", value_name = "URL")]
    relay_url: Option<String>,
    /// Directory of the database and the relay key; made if it does not exist [default: ./holdfast-data]
    #[arg(long, env = "HOLDFAST_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Secret key of the relay, 64 hex characters; better given as a variable or a file [default: relay.key in the data directory]
    #[arg(
        long,
        env = "HOLDFAST_RELAY_SECRET_KEY",
        value_name = "HEX",
        hide_env_values = true
    )]
    relay_secret_key: Option<String>,
    /// File with the secret key of the relay
    #[arg(long, env = "HOLDFAST_RELAY_SECRET_KEY_FILE", value_name = "FILE")]
    relay_secret_key_file: Option<PathBuf>,
    /// Who may read and write, and which kinds [default: workspace]
    #[arg(long, env = "HOLDFAST_PROFILE")]
    profile: Option<Profile>,
    /// A further host, each a community of its own; may be repeated
    #[arg(
        long,
        env = "HOLDFAST_COMMUNITY_HOST",
        value_name = "HOST",
        value_delimiter = ','
    )]
    #[serde(default)]
    community_host: Vec<String>,
    /// Milliseconds a connection of the workspace profile may stay without a key [default: 10000]
    #[arg(long, env = "HOLDFAST_AUTH_TIMEOUT_MS", value_name = "MS")]
    auth_timeout_ms: Option<u64>,
    /// Bytes of events that may wait for one slow client [default: 4194304]
    #[arg(long, env = "HOLDFAST_SEND_QUEUE_BYTES", value_name = "BYTES")]
    send_queue_bytes: Option<usize>,
    /// Whether sync requests and the head view are served [default: true]
    #[arg(
        long,
        env = "HOLDFAST_ARTIFACT_SYNC_ENABLED",
        value_name = "BOOL",
        value_parser = BoolishValueParser::new(),
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    artifact_sync_enabled: Option<bool>,
    /// Artifacts of the largest set that a sync serves [default: 4096]
    #[arg(long, env = "HOLDFAST_SYNC_MAX_EVENTS", value_name = "COUNT")]
    sync_max_events: Option<usize>,
    /// Milliseconds that a sync may take to read its initial set [default: 30000]
    #[arg(long, env = "HOLDFAST_SYNC_SNAPSHOT_BUDGET_MS", value_name = "MS")]
    sync_snapshot_budget_ms: Option<u64>,
    /// Milliseconds between two readings of the ledger for changes that no signal brought; 0 is off [default: 2000]
    #[arg(long, env = "HOLDFAST_SWEEP_INTERVAL_MS", value_name = "MS")]
    sweep_interval_ms: Option<u64>,
}

/// The two profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Profile {
    /// Every connection authenticates; channels and a fixed table of kinds.
    Workspace,
    /// Anyone reads, and writes what belongs to no channel, without authentication.
    Open,
}

/// Where the relay's key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeySource {
    /// Given.
    Given(Box<SecretKey>),
    /// The file in the data directory, made at the first start.
    DataDir,
}

/// Checked settings with all defaults but the URL's, which needs the real port.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) listen: SocketAddr,
    pub(super) relay_url: Option<WebUrl>,
    pub(super) data_dir: PathBuf,
    pub(super) key: KeySource,
    pub(super) profile: Profile,
    /// Normalised, without repetition.
    pub(super) community_hosts: Vec<String>,
    pub(super) auth_timeout_ms: u64,
    pub(super) send_queue_bytes: usize,
    pub(super) sync: SyncConfig,
    pub(super) sweep_interval_ms: u64,
}

impl ServeArgs {
    /// Puts flags, variables, the file and the defaults together and checks them.
    ///
    /// # Errors
    /// A [`Failure`] that names the setting.
    pub(super) fn resolve(self) -> Result<Settings, Failure> {
        let file = match &self.config {
            Some(path) => ServeArgs::read(path)?,
            None => ServeArgs::default(),
        };
        self.over(file).check()
    }

    fn read(path: &Path) -> Result<ServeArgs, Failure> {
        let text = fs::read_to_string(path).map_err(|error| files::unusable(path, &error))?;
        // Only the message: the whole error would repeat the line, which may hold the key.
        toml::from_str(&text).map_err(|error| {
            Failure::usage(format_args!("{}: {}", path.display(), error.message()))
        })
    }

    /// These settings, and those of `under` where these say nothing.
    fn over(self, under: ServeArgs) -> ServeArgs {
        let has_key = self.relay_secret_key.is_some() || self.relay_secret_key_file.is_some();
        let (under_key, under_key_file) = if has_key {
            (None, None)
        } else {
            (under.relay_secret_key, under.relay_secret_key_file)
        };
        ServeArgs {
            config: self.config,
            listen: self.listen.or(under.listen),
            relay_url: self.relay_url.or(under.relay_url),
            data_dir: self.data_dir.or(under.data_dir),
            relay_secret_key: self.relay_secret_key.or(under_key),
            relay_secret_key_file: self.relay_secret_key_file.or(under_key_file),
            profile: self.profile.or(under.profile),
            community_host: if self.community_host.is_empty() {
                under.community_host
            } else {
                self.community_host
            },
            auth_timeout_ms: self.auth_timeout_ms.or(under.auth_timeout_ms),
            send_queue_bytes: self.send_queue_bytes.or(under.send_queue_bytes),
            artifact_sync_enabled: self.artifact_sync_enabled.or(under.artifact_sync_enabled),
            sync_max_events: self.sync_max_events.or(under.sync_max_events),
            sync_snapshot_budget_ms: self
                .sync_snapshot_budget_ms
                .or(under.sync_snapshot_budget_ms),
            sweep_interval_ms: self.sweep_interval_ms.or(under.sweep_interval_ms),
        }
    }

    fn check(self) -> Result<Settings, Failure> {
        let listen = self
            .listen
            .unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 7447)));
        let relay_url = self.relay_url.as_deref().map(read_relay_url).transpose()?;
        if relay_url.is_none() && listen.ip().is_unspecified() {
            let text = "--relay-url is needed when --listen is a wildcard address";
            return Err(Failure::usage(text));
        }
        let sync = self.sync()?;
        let key = read_key(self.relay_secret_key, self.relay_secret_key_file)?;
        let send_queue_bytes = self.send_queue_bytes.unwrap_or(SEND_QUEUE_BYTES_DEFAULT);
        if send_queue_bytes < Config::SEND_QUEUE_BYTES_MIN {
            return Err(Failure::usage(format_args!(
                "--send-queue-bytes must be at least {}",
                Config::SEND_QUEUE_BYTES_MIN
            )));
        }
        let auth_timeout_ms = self.auth_timeout_ms.unwrap_or(AUTH_TIMEOUT_MS_DEFAULT);
        if auth_timeout_ms == 0 {
            return Err(Failure::usage("--auth-timeout-ms must be at least 1"));
        }
        Ok(Settings {
            listen,
            relay_url,
            data_dir: self.data_dir.unwrap_or_else(|| "./holdfast-data".into()),
            key,
            profile: self.profile.unwrap_or(Profile::Workspace),
            community_hosts: read_hosts(&self.community_host)?,
            auth_timeout_ms,
            send_queue_bytes,
            sync,
            sweep_interval_ms: self.sweep_interval_ms.unwrap_or(SWEEP_INTERVAL_MS_DEFAULT),
        })
    }

    /// What syncs are served, and within which bounds.
    fn sync(&self) -> Result<SyncConfig, Failure> {
        let max_events = self.sync_max_events.unwrap_or(SYNC_MAX_EVENTS_DEFAULT);
        if !(1..=SYNC_WAITING_MAX).contains(&max_events) {
            return Err(Failure::usage(format_args!(
                "--sync-max-events must be at least 1 and at most {SYNC_WAITING_MAX}"
            )));
        }
        let snapshot_budget_ms = self
            .sync_snapshot_budget_ms
            .unwrap_or(SYNC_SNAPSHOT_BUDGET_MS_DEFAULT);
        if !(1..=SYNC_DELIVERY_BUDGET_MS).contains(&snapshot_budget_ms) {
            return Err(Failure::usage(format_args!(
                "--sync-snapshot-budget-ms must be at least 1 and at most {SYNC_DELIVERY_BUDGET_MS}"
            )));
        }
        Ok(SyncConfig {
            is_enabled: self.artifact_sync_enabled.unwrap_or(true),
            max_events,
            snapshot_budget_ms,
            ..SyncConfig::default()
        })
    }
}

/// The key of the relay; at most one of the two may be given.
fn read_key(given: Option<String>, file: Option<PathBuf>) -> Result<KeySource, Failure> {
    match (given, file) {
        (None, None) => Ok(KeySource::DataDir),
        (None, Some(path)) => Ok(KeySource::Given(Box::new(files::read_key(&path)?))),
        (Some(text), None) => {
            let key = text.trim().parse();
            let key =
                key.map_err(|error| Failure::usage(format_args!("--relay-secret-key: {error}")))?;
            Ok(KeySource::Given(Box::new(key)))
        }
        (Some(_), Some(_)) => {
            let text = "give --relay-secret-key or --relay-secret-key-file, not both";
            Err(Failure::usage(text))
        }
    }
}

fn read_relay_url(text: &str) -> Result<WebUrl, Failure> {
    let url: WebUrl = text
        .parse()
        .map_err(|error| Failure::usage(format_args!("--relay-url {text}: {error}")))?;
    if !matches!(url.scheme(), Scheme::Ws | Scheme::Wss) {
        return Err(Failure::usage(
            "--relay-url must begin with ws:// or wss://",
        ));
    }
    Ok(url)
}

fn read_hosts(texts: &[String]) -> Result<Vec<String>, Failure> {
    // Only asked whether a text is a host with or without a port.
    let any_url: WebUrl = "ws://localhost".parse().expect("this is a URL");
    let mut hosts = Vec::new();
    for text in texts {
        let is_host = any_url.at_authority(text.trim()).is_ok();
        let host = normalise_host(text).filter(|_| is_host).ok_or_else(|| {
            Failure::usage(format_args!(
                "--community-host {text}: expected a host, with or without a port"
            ))
        })?;
        if hosts.contains(&host) {
            return Err(Failure::usage(format_args!(
                "--community-host {host} is given twice"
            )));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

/// Settings of parts that this version does not have: flag, variable, and the values that ask for nothing.
const LATER: [(&str, &str, &[&str]); 10] = [
    ("database-url", "HOLDFAST_DATABASE_URL", &[]),
    ("redis-url", "HOLDFAST_REDIS_URL", &[]),
    ("owner-pubkey", "HOLDFAST_OWNER_PUBKEY", &[]),
    ("require-membership", "HOLDFAST_REQUIRE_MEMBERSHIP", OFF),
    ("no-migrate", "HOLDFAST_NO_MIGRATE", OFF),
    ("admin-listen", "HOLDFAST_ADMIN_LISTEN", &[]),
    ("quota", "HOLDFAST_QUOTA", &["off"]),
    (
        "artifact-incremental-enabled",
        "HOLDFAST_ARTIFACT_INCREMENTAL_ENABLED",
        OFF,
    ),
    (
        "membership-snapshot-enabled",
        "HOLDFAST_MEMBERSHIP_SNAPSHOT_ENABLED",
        OFF,
    ),
    (
        "membership-public-enabled",
        "HOLDFAST_MEMBERSHIP_PUBLIC_ENABLED",
        OFF,
    ),
];
const OFF: &[&str] = &["0", "false", "no", "off"];

/// Adds the arguments of [`LATER`], which are only there to be refused by name.
pub(super) fn with_later_arguments(serve: Command) -> Command {
    LATER.iter().fold(serve, |serve, (name, variable, _)| {
        serve.arg(
            Arg::new(*name)
                .long(*name)
                .env(*variable)
                .hide(true)
                .action(ArgAction::Set)
                .num_args(0..=1)
                .default_missing_value("on"),
        )
    })
}

/// Refuses the first of [`LATER`] that is asked for.
///
/// # Errors
/// One line that names it as it was given.
pub(super) fn refuse_later_arguments(serve: &ArgMatches) -> Result<(), Failure> {
    for (name, variable, asks_nothing) in LATER {
        let Some(value) = serve.get_one::<String>(name) else {
            continue;
        };
        if asks_nothing.contains(&value.as_str()) {
            continue;
        }
        let given = match serve.value_source(name) {
            Some(ValueSource::EnvVariable) => variable.to_owned(),
            _ => format!("--{name}"),
        };
        return Err(Failure::usage(format_args!(
            "{given} is for a part that this version does not have"
        )));
    }
    Ok(())
}
