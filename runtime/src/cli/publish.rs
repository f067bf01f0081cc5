//! `holdfast publish`.

use std::io::{self, Read};

use holdfast_core::ids::UnixSeconds;
use holdfast_core::nostr::{Draft, Event, Kind, SecretKey, Tag};
use serde::Deserialize;

use super::client::{ClientArgs, name_and_value, now_secs, say};
use super::exit::{Exit, Failure};

/// Arguments of `publish`.
#[derive(clap::Args)]
pub(super) struct PublishArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// A signed event, or an object with kind, tags, content and created_at of which only kind is needed; - reads it from standard input
    #[arg(value_name = "EVENT", conflicts_with_all = ["kind", "content", "h", "tag", "created_at"])]
    event: Option<String>,
    /// The kind
    #[arg(long, required_unless_present = "event")]
    kind: Option<Kind>,
    /// The content
    #[arg(long, default_value = "")]
    content: String,
    /// The channel
    #[arg(long, value_name = "CHANNEL")]
    h: Option<String>,
    /// A tag; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    tag: Vec<(String, String)>,
    /// Seconds since 1970 [default: the present]
    #[arg(long, value_name = "SECONDS")]
    created_at: Option<UnixSeconds>,
}

/// An event without id and signature, as people write it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsigned {
    kind: Kind,
    #[serde(default)]
    tags: Vec<Tag>,
    #[serde(default)]
    content: String,
    created_at: Option<UnixSeconds>,
}

/// What the relay says about an event it took.
#[derive(Deserialize)]
struct Submitted {
    event_id: String,
    accepted: bool,
    message: String,
}

/// Signs the event where it is not signed, publishes it, and prints the answer.
pub(super) fn publish(args: PublishArgs) -> Result<Exit, Failure> {
    let client = args.client.client()?;
    let event = args.signed(client.key.as_ref())?;
    let body = client.post("/events", event.to_json())?.served()?;
    let submitted: Submitted = serde_json::from_str(&body)
        .map_err(|error| Failure::unreachable(format_args!("unexpected answer: {error}")))?;
    if client.json {
        say(&body);
    } else {
        let verdict = if submitted.accepted {
            "accepted"
        } else {
            "refused"
        };
        let line = format!("{verdict} {} {}", submitted.event_id, submitted.message);
        say(line.trim_end());
    }
    Ok(if submitted.accepted {
        Exit::Done
    } else {
        Exit::Refused
    })
}

impl PublishArgs {
    fn signed(self, key: Option<&SecretKey>) -> Result<Event, Failure> {
        let unsigned = match &self.event {
            Some(text) => {
                let text = if text == "-" {
                    &read_standard_input()?
                } else {
                    text
                };
                if let Ok(event) = Event::from_json(text) {
                    return Ok(event);
                }
                serde_json::from_str(text)
                    .map_err(|error| Failure::usage(format_args!("EVENT: {error}")))?
            }
            None => self.unsigned(),
        };
        let key = key.ok_or_else(|| Failure::usage("--key-file is needed to sign the event"))?;
        if unsigned.tags.iter().any(Vec::is_empty) {
            return Err(Failure::usage("EVENT: a tag needs one or more strings"));
        }
        let draft = Draft {
            created_at: unsigned.created_at.unwrap_or_else(now_secs),
            kind: unsigned.kind,
            tags: unsigned.tags,
            content: unsigned.content,
        };
        Ok(draft.sign(key))
    }

    fn unsigned(self) -> Unsigned {
        let channel = self.h.map(|channel| ("h".to_owned(), channel));
        let tags = channel.into_iter().chain(self.tag);
        Unsigned {
            kind: self.kind.expect("required where there is no event"),
            tags: tags.map(|(name, value)| vec![name, value]).collect(),
            content: self.content,
            created_at: self.created_at,
        }
    }
}

fn read_standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::unreachable(format_args!("standard input: {error}")))?;
    Ok(text)
}
