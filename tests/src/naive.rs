//! A plain reading of the filters of NIP-01 and of current-state queries, to compare the relay with. It works on JSON and knows nothing of the relay: whoever
//! changes it reads NIP-01 or NIP-AR, not the code it is compared with. Access, channels and the rules of other documents do not belong
//! here.

use serde_json::Value;

/// Whether the event matches the filter: every condition that is present holds (NIP-01). `limit` is no condition.
///
/// # Panics
/// When event or filter has another form than NIP-01 gives it, or the filter has a key that NIP-01 does not define.
pub fn matches(filter: &Value, event: &Value) -> bool {
    let conditions = filter.as_object().expect("a filter is an object");
    for (key, wanted) in conditions {
        let holds = match key.as_str() {
            "ids" => is_listed(wanted, &event["id"]),
            "authors" => is_listed(wanted, &event["pubkey"]),
            "kinds" => is_listed(wanted, &event["kind"]),
            "since" => seconds(&event["created_at"]) >= seconds(wanted),
            "until" => seconds(&event["created_at"]) <= seconds(wanted),
            "limit" => true,
            _ => has_tag(event, tag_letter(key), wanted),
        };
        if !holds {
            return false;
        }
    }
    true
}

/// The events that an initial query returns: those that match, the newest first and of one second the one with the lowest id
/// first, and of these at most `limit`.
///
/// # Panics
/// As [`matches`].
pub fn answer<'a>(filter: &Value, events: &'a [Value]) -> Vec<&'a Value> {
    let mut found = Vec::new();
    for event in events {
        if matches(filter, event) {
            found.push(event);
        }
    }
    found.sort_by(|one, other| {
        let by_time = seconds(&other["created_at"]).cmp(&seconds(&one["created_at"]));
        by_time.then_with(|| text(&one["id"]).cmp(text(&other["id"])))
    });
    if let Some(limit) = filter.get("limit") {
        let limit = usize::try_from(seconds(limit)).expect("a limit fits into memory");
        found.truncate(limit);
    }
    found
}

/// Whether the newest revision of an artifact, in a channel that the reader can read, is in the answer of a current-state query: it
/// is no deletion, and for every `#name` one of its tags has this name and a listed first value (NIP-AR).
///
/// # Panics
/// When the filter has another key than `artifact` and `#name`, or as [`matches`].
pub fn is_current(filter: &Value, newest: &Value) -> bool {
    let conditions = filter.as_object().expect("a filter is an object");
    let mut holds = conditions.iter().filter(|(key, _)| *key != "artifact");
    let is_deleted = has_tag(newest, "op", &Value::from(vec!["delete"]));
    !is_deleted
        && holds.all(|(key, wanted)| {
            let name = key.strip_prefix('#').expect("a tag condition");
            has_tag(newest, name, wanted)
        })
}

fn is_listed(list: &Value, value: &Value) -> bool {
    let list = list.as_array().expect("a condition is a list");
    list.contains(value)
}

/// Whether a tag with this name has a listed value; only the first value of a tag counts, and a tag without one has none.
fn has_tag(event: &Value, name: &str, list: &Value) -> bool {
    let tags = event["tags"].as_array().expect("tags are a list");
    for tag in tags {
        if tag[0] == *name && is_listed(list, &tag[1]) {
            return true;
        }
    }
    false
}

fn tag_letter(key: &str) -> &str {
    let name = key.strip_prefix('#').expect("a key that NIP-01 defines");
    let one_letter = name.len() == 1 && name.chars().all(|letter| letter.is_ascii_alphabetic());
    assert!(one_letter, "{key} is no tag condition of NIP-01");
    name
}

fn seconds(value: &Value) -> u64 {
    value.as_u64().expect("a number that is not negative")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
