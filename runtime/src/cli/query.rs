//! `holdfast query`.

use std::collections::BTreeMap;

use clap::ValueEnum;
use holdfast_core::ids::UnixSeconds;
use holdfast_core::nostr::{Event, Kind};
use serde_json::{Map, Value, json};

use super::client::{ClientArgs, Which, printable, say};
use super::exit::{Exit, Failure};

/// Arguments of `query`.
#[derive(clap::Args)]
pub(super) struct QueryArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Filters as JSON objects; events that match any of them
    #[arg(value_name = "FILTER", conflicts_with_all = ["kind", "author", "id", "h", "artifact_type", "tag", "view", "since", "until", "limit"])]
    filters: Vec<String>,
    /// Prints only how many there are
    #[arg(long)]
    count: bool,
    /// A kind; may be repeated
    #[arg(long)]
    kind: Vec<Kind>,
    /// An author, 64 hex characters; may be repeated
    #[arg(long, value_name = "KEY")]
    author: Vec<String>,
    /// An event id, 64 hex characters; may be repeated
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    #[command(flatten)]
    which: Which,
    /// Asks for artifacts and says which revisions [default with --type: current]
    #[arg(long)]
    view: Option<View>,
    /// Earliest created_at, seconds since 1970
    #[arg(long, value_name = "SECONDS")]
    since: Option<UnixSeconds>,
    /// Latest created_at, seconds since 1970
    #[arg(long, value_name = "SECONDS")]
    until: Option<UnixSeconds>,
    /// Most events
    #[arg(long)]
    limit: Option<u32>,
}

/// The views of artifacts (NIP-AR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum View {
    /// The current revision of each artifact that is not deleted
    Current,
    /// Every revision of the artifacts named by --tag d=ID
    History,
    /// The current revision of the artifacts named by --tag d=ID, deletions too
    Head,
}

impl View {
    fn name(self) -> &'static str {
        match self {
            View::Current => "current",
            View::History => "history",
            View::Head => "head",
        }
    }
}

/// Asks the relay and prints the events, one a line, or their number.
pub(super) fn query(args: QueryArgs) -> Result<Exit, Failure> {
    let client = args.client.client()?;
    let body = args.body()?;
    let path = if args.count { "/count" } else { "/query" };
    let answer = client.post(path, body)?.served()?;
    let unexpected = |error| Failure::unreachable(format_args!("unexpected answer: {error}"));
    if args.count {
        let counted: BTreeMap<String, u64> = serde_json::from_str(&answer).map_err(unexpected)?;
        match counted.get("count") {
            Some(count) if !client.json => say(count),
            _ => say(&answer),
        }
        return Ok(Exit::Done);
    }
    let events: Vec<Event> = serde_json::from_str(&answer).map_err(unexpected)?;
    for event in &events {
        if client.json {
            say(event.to_json());
        } else {
            print_for_people(event);
        }
    }
    Ok(Exit::Done)
}

fn print_for_people(event: &Event) {
    let Event {
        id,
        pubkey,
        created_at,
        kind,
        ..
    } = event;
    say(format_args!(
        "kind {kind} at {created_at} by {pubkey}\n  id {id}"
    ));
    for tag in &event.tags {
        say(format_args!("  {}", printable(&tag.join(" "))));
    }
    if !event.content.is_empty() {
        say(format_args!("  {}", printable(&event.content)));
    }
    say("");
}

impl QueryArgs {
    fn body(&self) -> Result<String, Failure> {
        if self.filters.is_empty() {
            return Ok(Value::from(vec![self.one_filter()]).to_string());
        }
        for filter in &self.filters {
            serde_json::from_str::<Map<String, Value>>(filter)
                .map_err(|error| Failure::usage(format_args!("FILTER: {error}")))?;
        }
        Ok(format!("[{}]", self.filters.join(",")))
    }

    fn one_filter(&self) -> Value {
        let mut filter = Map::new();
        let mut list = |name: String, values: &[String]| {
            if !values.is_empty() {
                filter.insert(name, json!(values));
            }
        };
        list("authors".to_owned(), &self.author);
        list("ids".to_owned(), &self.id);
        for (name, values) in self.which.predicates() {
            list(name, &values);
        }
        if !self.kind.is_empty() {
            filter.insert("kinds".to_owned(), json!(self.kind));
        }
        let numbers = [("since", self.since), ("until", self.until)];
        for (name, number) in numbers {
            if let Some(number) = number {
                filter.insert(name.to_owned(), json!(number));
            }
        }
        if let Some(limit) = self.limit {
            filter.insert("limit".to_owned(), json!(limit));
        }
        let view = self.view.map(View::name);
        let default_view = self.which.has_type().then_some("current");
        if let Some(view) = view.or(default_view) {
            filter.insert("artifact".to_owned(), json!(view));
        }
        Value::Object(filter)
    }
}
