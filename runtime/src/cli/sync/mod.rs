//! `holdfast sync`: drives the core's replica over one WebSocket at a time.
//!
//! What belongs here: arguments, the loop between replica and connection, exit codes. What must not: when to sync anew, what an
//! entry does to the set, which subscription a frame belongs to; all of that is the replica's.

mod link;
mod show;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use holdfast_core::client::SyncCapability;
use holdfast_core::client::replica::{self, Config, Effect, Input, Mode, Outcome, Replica};
use holdfast_core::ids::Now;
use holdfast_core::nostr::ArtifactFilter;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::client::{Client, ClientArgs, Which, now_secs};
use super::exit::{Exit, Failure};
use crate::random;
use link::{Link, Word};
use show::Show;

/// What the subscription ids begin with; a number follows.
const SUB_PREFIX: &str = "sync-";

/// Arguments of `sync`.
#[derive(clap::Args)]
pub(super) struct SyncArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// The filter as a JSON object with "artifact":"current" and "#h"
    #[arg(value_name = "FILTER", conflicts_with_all = ["h", "artifact_type", "tag"])]
    filter: Option<String>,
    #[command(flatten)]
    which: Which,
    /// Prints the complete set and ends
    #[arg(long, conflicts_with = "follow")]
    once: bool,
    /// Prints the set and then each change, until it is stopped [default]
    #[arg(long)]
    follow: bool,
    /// Syncs anew after this many milliseconds, however well all goes
    #[arg(long, value_name = "MS", conflicts_with = "once")]
    refresh_ms: Option<u64>,
}

/// Syncs until the set is there or somebody stops it.
pub(super) fn sync(args: SyncArgs) -> Result<Exit, Failure> {
    let config = args.config()?;
    let client = args.client.client()?;
    let mode = if args.once { Mode::Once } else { Mode::Follow };
    client.block_on(async {
        let mut run = Run::new(&client, config)?;
        let jitter = jitter()?;
        let mut input = Input::Start { mode, jitter };
        loop {
            if let Some(exit) = run.step(input).await? {
                return Ok(exit);
            }
            input = run.next_input().await?;
        }
    })
}

impl SyncArgs {
    fn config(&self) -> Result<Config, Failure> {
        let filter = match &self.filter {
            Some(text) => text.clone(),
            None => {
                let mut filter = Map::from_iter([("artifact".to_owned(), json!("current"))]);
                let predicates = self.which.predicates().into_iter();
                filter.extend(predicates.map(|(name, values)| (name, json!(values))));
                Value::Object(filter).to_string()
            }
        };
        let filter = ArtifactFilter::from_json(&filter)
            .map_err(|error| Failure::usage(format_args!("filter: {error}")))?;
        let mut config = Config::new(filter, SUB_PREFIX)
            .map_err(|error| Failure::usage(format_args!("{error}: see --h and FILTER")))?;
        config.silence_ms = self.client.timeout_ms();
        config.refresh_ms = self.refresh_ms;
        Ok(config)
    }
}

fn jitter() -> Result<u64, Failure> {
    random::number().map_err(|error| Failure::new(Exit::Refused, error))
}

/// SIGINT and SIGTERM.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn new() -> Result<Stop, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::new(Exit::Refused, error));
        Ok(Stop {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The replica and what it lives on.
struct Run<'c> {
    client: &'c Client,
    replica: Replica,
    began: Instant,
    link: Option<Link>,
    wants_link: bool,
    /// Some connection was made: from then on the relay may come and go.
    was_linked: bool,
    /// Why the last connection was not made.
    trouble: Option<Failure>,
    /// What happened while effects were performed.
    happened: VecDeque<Input>,
    failed: Option<replica::Failure>,
    stop: Stop,
    show: Show,
}

impl<'c> Run<'c> {
    fn new(client: &'c Client, config: Config) -> Result<Run<'c>, Failure> {
        Ok(Run {
            client,
            replica: Replica::new(config),
            began: Instant::now(),
            link: None,
            wants_link: false,
            was_linked: false,
            trouble: None,
            happened: VecDeque::new(),
            failed: None,
            stop: Stop::new()?,
            show: Show::new(client.json),
        })
    }

    /// Tells the replica, performs what it wants done, and says whether that was all.
    async fn step(&mut self, input: Input) -> Result<Option<Exit>, Failure> {
        let mono_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now = Now {
            mono_ms,
            wall_secs: now_secs(),
        };
        let mut effects = Vec::new();
        self.replica.step(now, input, &mut effects);
        // The relay must not wait for whoever reads the output.
        for effect in &effects {
            self.perform(effect).await;
        }
        if let Some(received) = self.replica.received() {
            self.show.loading(received);
        }
        let mut exit = None;
        for effect in effects {
            if let Some(last) = self.tell(effect, mono_ms)? {
                exit = Some(last);
            }
        }
        if exit.is_some()
            && let Some(link) = self.link.take()
        {
            link.close(self.client.timeout).await;
        }
        Ok(exit)
    }

    /// The part of an effect that concerns the connection.
    async fn perform(&mut self, effect: &Effect) {
        match effect {
            Effect::Connect => self.wants_link = true,
            Effect::HangUp => self.link = None,
            Effect::Req { .. } | Effect::Close { .. } => {
                if let (Some(link), Some(text)) = (&mut self.link, effect.frame_text())
                    && !link.send(text, self.client.timeout).await
                {
                    self.link = None;
                    self.happened.push_back(Input::Disconnected);
                }
            }
            _ => {}
        }
    }

    /// The part of an effect that concerns the user; the exit, if it was the last one.
    fn tell(&mut self, effect: Effect, mono_ms: u64) -> Result<Option<Exit>, Failure> {
        let is_read = match effect {
            Effect::Replaced => {
                let set = self.replica.set().expect("it was replaced");
                self.show.set(set)
            }
            Effect::Upserted { artifact, head } => self.show.upsert(artifact, &head),
            Effect::Removed { artifact } => self.show.remove(artifact),
            Effect::Failed(failure) => {
                self.failed = Some(failure);
                true
            }
            Effect::RetryAt { at_mono_ms } => {
                let failure = self.failed.take().expect("a retry follows a failure");
                if self.is_hopeless(&failure) {
                    return Err(self.failure(&failure));
                }
                let wait = Duration::from_millis(at_mono_ms.saturating_sub(mono_ms));
                let has_set = self.replica.set().is_some();
                let text = self.failure(&failure).text;
                self.show.failed(&failure, &text, has_set, wait)
            }
            Effect::Done(Outcome::Complete | Outcome::Stopped) => return Ok(Some(Exit::Done)),
            Effect::Done(Outcome::GaveUp(failure)) => return Err(self.failure(&failure)),
            Effect::Connect
            | Effect::HangUp
            | Effect::Req { .. }
            | Effect::Close { .. }
            | Effect::Stale
            | Effect::Note(_) => true,
        };
        // Whoever read the output has seen enough.
        Ok((!is_read).then_some(Exit::Done))
    }

    /// Whether waiting is pointless: there never was a set, and the relay or the channel is most likely the wrong one.
    fn is_hopeless(&self, failure: &replica::Failure) -> bool {
        let is_refused = match failure {
            replica::Failure::Restricted(_) | replica::Failure::Unsupported => true,
            replica::Failure::Error(text) => {
                self.client.key.is_none() && text.starts_with("auth-required:")
            }
            _ => false,
        };
        is_refused && self.replica.set().is_none()
    }

    /// A failed attempt as the command tells of it.
    fn failure(&self, failure: &replica::Failure) -> Failure {
        match (failure, &self.trouble) {
            (replica::Failure::Disconnected, Some(trouble)) => trouble.clone(),
            (replica::Failure::Disconnected | replica::Failure::Silent, _) => {
                self.client.unreachable(failure)
            }
            _ => Failure::new(Exit::Refused, failure),
        }
    }

    /// Waits for what happens next.
    async fn next_input(&mut self) -> Result<Input, Failure> {
        if let Some(input) = self.happened.pop_front() {
            return Ok(input);
        }
        if std::mem::take(&mut self.wants_link) {
            return self.connect().await;
        }
        loop {
            let wakeup = self.replica.next_wakeup();
            let due = wakeup.and_then(|wakeup| {
                self.began
                    .checked_add(Duration::from_millis(wakeup.at_mono_ms))
            });
            let word = tokio::select! {
                () = self.stop.asked() => return Ok(Input::Stop),
                () = until(due) => return Ok(Input::Woken { jitter: jitter()? }),
                word = next_word(&mut self.link) => word,
            };
            if let Some(input) = self.heed(word).await {
                return Ok(input);
            }
        }
    }

    /// What a word of the relay means to the replica.
    async fn heed(&mut self, word: Word) -> Option<Input> {
        let link = self.link.as_mut()?;
        let is_sent = match word {
            Word::Frame(frame) => {
                let is_ours = self
                    .replica
                    .sub()
                    .is_some_and(|sub| sub.as_str() == frame.sub());
                // Who else's event it is does not matter here.
                let is_signed = !is_ours || link::is_signed(&frame);
                return Some(if is_signed {
                    Input::Heard(frame)
                } else {
                    Input::Unreadable
                });
            }
            Word::Unreadable => return Some(Input::Unreadable),
            Word::Challenge(challenge) => match &self.client.key {
                Some(key) => link.answer(key, &challenge, self.client).await.is_some(),
                None => true,
            },
            Word::Quiet => link.ping(self.client.timeout).await,
            Word::Answer { .. } | Word::Other => true,
            Word::Lost => false,
        };
        if is_sent {
            return None;
        }
        self.link = None;
        Some(Input::Disconnected)
    }

    /// Makes the connection that the replica asked for. That the very first one cannot be made ends the command.
    async fn connect(&mut self) -> Result<Input, Failure> {
        let made = tokio::select! {
            () = self.stop.asked() => return Ok(Input::Stop),
            made = open(self.client) => made,
        };
        self.trouble = None;
        match made {
            Ok((link, sync)) => {
                self.link = link;
                self.was_linked = true;
                Ok(Input::Connected { sync })
            }
            Err(failure) if self.was_linked => {
                self.trouble = Some(failure);
                Ok(Input::Disconnected)
            }
            Err(failure) => Err(failure),
        }
    }
}

/// Asks the relay what it offers, and connects if that is sync (AR-SYNC-REQ-4).
async fn open(client: &Client) -> Result<(Option<Link>, Option<SyncCapability>), Failure> {
    let document = client.document().await?.served()?;
    let sync = SyncCapability::of_document(&document)
        .map_err(|error| Failure::new(Exit::Refused, error))?;
    let link = match sync {
        Some(_) => Some(Link::open(client).await?),
        None => None,
    };
    Ok((link, sync))
}

async fn next_word(link: &mut Option<Link>) -> Word {
    match link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
