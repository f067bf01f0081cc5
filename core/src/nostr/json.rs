//! Strict reading of JSON objects whose keys decide what they are. Depth is no concern here: values are skipped without
//! recursion and read only into flat types. What a key means does not belong here.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Characters of a peer's own text, or of a parser's message that may repeat it, in a reason; the rest is cut, so that no
/// answer grows with the request.
const REASON_CHARS_MAX: usize = 200;

/// One object: its keys in the order written, repetitions included, with the unread text of each value.
pub(crate) type Entries<'a> = Vec<(String, &'a RawValue)>;

/// The entries of `text`, which must be one JSON object and nothing else.
pub(crate) fn object(text: &str) -> Result<Entries<'_>, serde_json::Error> {
    struct ObjectVisitor;

    impl<'de> Visitor<'de> for ObjectVisitor {
        type Value = Entries<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(text);
    let entries = deserializer.deserialize_map(ObjectVisitor)?;
    deserializer.end()?;
    Ok(entries)
}

/// The first key that occurs a second time.
pub(crate) fn repeated_key<'e>(entries: &'e Entries<'_>) -> Option<&'e str> {
    let mut seen = BTreeSet::new();
    entries
        .iter()
        .map(|(key, _)| key.as_str())
        .find(|key| !seen.insert(*key))
}

/// A parser's message, bounded.
pub(crate) fn reason(error: &serde_json::Error) -> String {
    cut(&error.to_string(), REASON_CHARS_MAX).to_owned()
}

/// The peer's own text as a reason may repeat it.
pub(crate) fn echo(text: &str) -> String {
    cut(text, REASON_CHARS_MAX).to_owned()
}

/// The first `chars_max` characters of `text`.
pub(crate) fn cut(text: &str, chars_max: usize) -> &str {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
