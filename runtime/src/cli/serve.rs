//! `holdfast serve`: puts the parts of a relay together, runs them, and stops them in order.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdfast_core::accept::{Policy, Profile, RelayKey};
use holdfast_core::ids::CommunityId;
use holdfast_core::node::{Config, Node};
use holdfast_core::nostr::host::{is_loopback, normalise_host};
use holdfast_core::nostr::{SecretKey, WebUrl};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::exit::{Exit, Failure};
use super::files;
use super::settings::{self, KeySource, ServeArgs, Settings};
use crate::bus::local::LocalBus;
use crate::exec::{TokioClock, TokioSpawn};
use crate::guard::local::{KEYS_MAX, LocalGuard};
use crate::http::{self, App, Hosts};
use crate::links::Registry;
use crate::node::{Driver, DriverHandle, NoteCounts, Ports};
use crate::store::sqlite::{OpenError, SqliteSettings, SqliteStore};
use crate::verify::VerifyPool;

/// The relay key in the data directory.
const KEY_FILE: &str = "relay.key";
/// The host under which the community of a loopback URL is kept, whatever the port; no Host is written so.
const LOOPBACK_COMMUNITY: &str = "loopback:*";
/// How long a stop waits for what is in flight and for the peers to hear of it.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Runs a relay until a signal stops it.
pub(super) fn serve(args: ServeArgs) -> Result<Exit, Failure> {
    refuse_seeded_bugs(holdfast_core::seeded::IS_COMPILED_IN)?;
    let settings = args.resolve()?;
    start_log();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(internal)?;
    let served = runtime.block_on(run(settings));
    // What a stop waited for is done; what it did not wait for is not waited for here either.
    runtime.shutdown_background();
    served
}

/// A build that can be told to break the protocol serves nobody.
fn refuse_seeded_bugs(is_compiled_in: bool) -> Result<(), Failure> {
    if is_compiled_in {
        return Err(Failure::usage(
            "this build contains seeded protocol bugs for the simulator and does not serve; build it without the feature mutants",
        ));
    }
    Ok(())
}

fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("HOLDFAST_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
}

async fn run(settings: Settings) -> Result<Exit, Failure> {
    let listener = TcpListener::bind(settings.listen).await.map_err(|error| {
        let exit = match error.kind() {
            ErrorKind::AddrInUse => Exit::Conflict,
            _ => Exit::Unreachable,
        };
        let text = format!("cannot listen on {}: {error}", settings.listen);
        Failure::new(exit, text)
    })?;
    let address = listener.local_addr().map_err(internal)?;
    let own_url = || format!("ws://{address}").parse();
    let relay_url = match settings.relay_url.clone() {
        Some(url) => url,
        None => own_url().expect("an address makes a URL"),
    };
    let relay = Relay::start(&settings, relay_url).await?;
    // Nobody needs to read it; a closed standard output does not stop a relay.
    let _ = writeln!(io::stdout(), "listening on ws://{address}");
    relay.run(listener).await
}

/// The parts of a running relay.
struct Relay {
    app: Arc<App>,
    driver: JoinHandle<()>,
    handle: DriverHandle,
}

impl Relay {
    async fn start(settings: &Settings, relay_url: WebUrl) -> Result<Relay, Failure> {
        let profile = match settings.profile {
            settings::Profile::Workspace => Profile::Workspace,
            settings::Profile::Open => Profile::Open,
        };
        let relay_key = RelayKey::new(relay_key(&settings.key, &settings.data_dir)?);
        let public_key = relay_key.public();
        let policy = Policy { profile, relay_key };
        let store_settings = SqliteSettings::new(&settings.data_dir, policy.clone());
        let store = SqliteStore::open(store_settings).map_err(not_opened)?;
        let store = Arc::new(store);
        let guard = LocalGuard::open(&settings.data_dir, KEYS_MAX);
        let guard = guard.map_err(Failure::unreachable)?;
        let hosts = bind_hosts(&store, relay_url, &settings.community_hosts).await?;
        let links = Arc::new(Registry::default());
        let clock = Arc::new(TokioClock::default());
        let node = Node::new(Config {
            auth_timeout_ms: settings.auth_timeout_ms,
            send_queue_bytes: settings.send_queue_bytes,
            sweep_interval_ms: settings.sweep_interval_ms,
            sync: settings.sync,
            ..Config::new(policy)
        });
        let ports = Ports {
            store: store.clone(),
            bus: Arc::new(LocalBus::default()),
            links: links.clone(),
            clock: clock.clone(),
            spawn: Arc::new(TokioSpawn),
            notes: Arc::new(NoteCounts::default()),
        };
        let (driver, handle) = Driver::new(node, ports);
        let app = Arc::new(App {
            hosts,
            info: http::info_document(profile, public_key, &settings.sync),
            profile,
            settings: http::Settings::default(),
            driver: handle.clone(),
            links,
            verify: VerifyPool::start().map_err(internal)?,
            guard: Arc::new(guard),
            clock,
            store,
            stopping: AtomicBool::new(false),
        });
        Ok(Relay {
            app,
            driver: tokio::spawn(driver.run()),
            handle,
        })
    }

    /// Serves until a signal comes, then stops: no new connection, every open one closed, every write decided.
    async fn run(mut self, listener: TcpListener) -> Result<Exit, Failure> {
        let mut terminate = signal(SignalKind::terminate()).map_err(internal)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(internal)?;
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(http::serve(listener, Arc::clone(&self.app), stopped));
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            ended = &mut self.driver => {
                let text = match ended {
                    Ok(()) => "the relay's driver ended by itself".to_owned(),
                    Err(error) => format!("the relay's driver failed: {error}"),
                };
                return Err(Failure::new(Exit::Refused, text));
            }
        }
        tracing::info!("stopping");
        self.app.stopping.store(true, Ordering::Relaxed);
        // An error would say that the server has ended already.
        let _ = stop.send(true);
        let grace_ms = u64::try_from(STOP_GRACE.as_millis()).unwrap_or(u64::MAX);
        let ended = async {
            self.handle.stop(grace_ms).await;
            let ended = tokio::join!(self.driver, server);
            if let (Err(error), _) | (_, Err(error)) = ended {
                tracing::error!(%error, "a task failed while stopping");
            }
        };
        tokio::select! {
            () = ended => {}
            () = tokio::time::sleep(STOP_GRACE) => tracing::warn!("stopped before everything had ended"),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(Exit::Done)
    }
}

/// The relay's key: the given one, or that of the data directory, which the first start makes.
fn relay_key(source: &KeySource, data_dir: &Path) -> Result<SecretKey, Failure> {
    if let KeySource::Given(key) = source {
        return Ok(key.as_ref().clone());
    }
    fs::create_dir_all(data_dir).map_err(|error| files::unusable(data_dir, &error))?;
    let path = data_dir.join(KEY_FILE);
    if !path.exists() {
        let key = crate::random::secret_key().map_err(internal)?;
        match files::write_new_key(&path, &key) {
            Ok(()) => return Ok(key),
            // Another process made it at the same moment.
            Err(failure) if failure.exit == Exit::Conflict => {}
            Err(failure) => return Err(failure),
        }
    }
    files::read_key(&path)
}

/// The communities of all configured hosts; they are made where the database does not have them.
async fn bind_hosts(
    store: &SqliteStore,
    relay_url: WebUrl,
    further: &[String],
) -> Result<Hosts, Failure> {
    let relay_host = normalise_host(&relay_url.authority()).expect("a URL has a host");
    if further.contains(&relay_host) {
        let text = format!("--community-host {relay_host} is the host of the relay itself");
        return Err(Failure::usage(text));
    }
    let kept_as = if is_loopback(&relay_host) {
        LOOPBACK_COMMUNITY.to_owned()
    } else {
        relay_host.clone()
    };
    let mut communities: BTreeMap<String, CommunityId> = BTreeMap::new();
    let named = further.iter().map(|host| (host.clone(), host.clone()));
    for (host, kept_as) in std::iter::once((relay_host, kept_as)).chain(named) {
        let community = store.ensure_community(kept_as).await;
        communities.insert(host, community.map_err(internal)?);
    }
    Ok(Hosts {
        communities,
        relay_url,
    })
}

fn not_opened(error: OpenError) -> Failure {
    let exit = match error {
        OpenError::InUse { .. } | OpenError::OtherKey { .. } => Exit::Conflict,
        OpenError::Directory { .. } | OpenError::Database { .. } | OpenError::Migration { .. } => {
            Exit::Unreachable
        }
    };
    Failure::new(exit, error)
}

fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Refused, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_with_seeded_bugs_does_not_serve_and_says_why() {
        let refused = refuse_seeded_bugs(true).expect_err("nothing is served");
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.text.contains("seeded protocol bugs"));
        assert_eq!(refuse_seeded_bugs(false), Ok(()));
    }
}
