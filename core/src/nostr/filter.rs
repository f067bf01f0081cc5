//! The filter of NIP-01, and which kind of filter a JSON object is. Matching and access are decided in `scope`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::CREATED_AT_MAX;
use super::json::{self, Entries};
use super::{ArtifactFilter, ArtifactFilterError, EventId, Kind, PubKey};
use crate::ids::UnixSeconds;
use crate::limits::{FILTER_VALUES_MAX, LIMIT_MAX};

/// A NIP-01 filter. All fields that are present must match; a list that is present and empty matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    /// Event ids, at most [`FILTER_VALUES_MAX`] values over all lists.
    pub ids: Option<BTreeSet<EventId>>,
    /// Authors.
    pub authors: Option<BTreeSet<PubKey>>,
    /// Kinds.
    pub kinds: Option<BTreeSet<Kind>>,
    /// Earliest `created_at`, inclusive, in seconds.
    pub since: Option<UnixSeconds>,
    /// Latest `created_at`, inclusive, in seconds; may be before `since`, then nothing matches.
    pub until: Option<UnixSeconds>,
    /// Most stored events to return, at most [`LIMIT_MAX`]; larger requests were cut to it. 0 returns none.
    pub limit: Option<u32>,
    /// Tag conditions by the tag's name, one ASCII letter in its own case; values are compared as they stand.
    pub tags: BTreeMap<String, BTreeSet<String>>,
}

/// Why a JSON object is no plain filter. The text carries no prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FilterError {
    /// The text is not one JSON object.
    #[error("filter must be one object: {0}")]
    Malformed(String),
    /// The filter has the key `artifact`, whatever else is wrong with it: it is for [`ArtifactFilter`] to judge.
    #[error("artifact queries require HTTP /query or /count")]
    Artifact,
    /// A key occurs twice.
    #[error("duplicate filter field {0}")]
    RepeatedField(String),
    /// A key that NIP-01 does not define.
    #[error("unknown filter field {0}")]
    UnknownField(String),
    /// A `#` key with several characters.
    #[error("multi-character tag predicates need an artifact query")]
    LongTagName,
    /// Full-text search (NIP-50).
    #[error("not supported")]
    Search,
    /// A list is no list, or one of its values has the wrong form.
    #[error("{field} must be a list of {form}")]
    BadList {
        /// The key.
        field: String,
        /// What each value must be.
        form: &'static str,
    },
    /// A number is none, or out of range.
    #[error("{field} must be an integer between 0 and {max}")]
    BadNumber {
        /// The key.
        field: &'static str,
        /// The largest number that is accepted.
        max: u64,
    },
    /// More than [`FILTER_VALUES_MAX`] values over all lists.
    #[error("too many filter values, maximum is {FILTER_VALUES_MAX}")]
    TooManyValues,
}

impl Filter {
    /// Reads one filter.
    ///
    /// # Errors
    /// [`FilterError`]; [`FilterError::Artifact`] comes before every other finding about the keys.
    pub fn from_json(text: &str) -> Result<Filter, FilterError> {
        let entries =
            json::object(text).map_err(|error| FilterError::Malformed(json::reason(&error)))?;
        Filter::from_entries(&entries)
    }

    fn from_entries(entries: &Entries<'_>) -> Result<Filter, FilterError> {
        if is_artifact(entries) {
            return Err(FilterError::Artifact);
        }
        if let Some(key) = json::repeated_key(entries) {
            return Err(FilterError::RepeatedField(json::echo(key)));
        }
        let mut filter = Filter::default();
        let mut values = Values {
            left: FILTER_VALUES_MAX,
        };
        for (key, value) in entries {
            match key.as_str() {
                "ids" => {
                    filter.ids =
                        Some(values.list(key, value, "64 lowercase hex characters each")?)
                }
                "authors" => {
                    filter.authors =
                        Some(values.list(key, value, "64 lowercase hex characters each")?)
                }
                "kinds" => {
                    filter.kinds = Some(values.list(key, value, "integers between 0 and 65535")?)
                }
                "since" => filter.since = Some(number("since", value, CREATED_AT_MAX)?),
                "until" => filter.until = Some(number("until", value, CREATED_AT_MAX)?),
                "limit" => {
                    let asked = number("limit", value, u64::MAX)?;
                    filter.limit = Some(u32::try_from(asked).unwrap_or(u32::MAX).min(LIMIT_MAX));
                }
                "search" => return Err(FilterError::Search),
                _ => {
                    let name = tag_name(key)?;
                    filter
                        .tags
                        .insert(name.to_owned(), values.list(key, value, "strings")?);
                }
            }
        }
        Ok(filter)
    }
}

/// One filter of either kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnyFilter {
    /// A NIP-01 filter.
    Plain(Filter),
    /// A filter with the key `artifact` (NIP-AR).
    Artifact(ArtifactFilter),
}

/// Why a JSON object is no filter, by the kind it claims to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AnyFilterError {
    /// It has no key `artifact`; never [`FilterError::Artifact`].
    #[error(transparent)]
    Plain(#[from] FilterError),
    /// It has the key `artifact`.
    #[error(transparent)]
    Artifact(#[from] ArtifactFilterError),
}

impl AnyFilter {
    /// Reads one filter; the key `artifact` decides which kind it is.
    ///
    /// # Errors
    /// [`AnyFilterError`].
    pub fn from_json(text: &str) -> Result<AnyFilter, AnyFilterError> {
        let entries =
            json::object(text).map_err(|error| FilterError::Malformed(json::reason(&error)))?;
        if is_artifact(&entries) {
            Ok(AnyFilter::Artifact(ArtifactFilter::from_entries(&entries)?))
        } else {
            Ok(AnyFilter::Plain(Filter::from_entries(&entries)?))
        }
    }
}

fn is_artifact(entries: &Entries<'_>) -> bool {
    entries.iter().any(|(key, _)| key == "artifact")
}

/// The values that the lists of one filter may still have, repetitions counted.
struct Values {
    left: usize,
}

impl Values {
    fn list<'a, T: Deserialize<'a> + Ord>(
        &mut self,
        field: &str,
        value: &'a RawValue,
        form: &'static str,
    ) -> Result<BTreeSet<T>, FilterError> {
        let list: Vec<T> = serde_json::from_str(value.get()).map_err(|_| FilterError::BadList {
            field: field.to_owned(),
            form,
        })?;
        self.left = self
            .left
            .checked_sub(list.len())
            .ok_or(FilterError::TooManyValues)?;
        Ok(list.into_iter().collect())
    }
}

fn number(field: &'static str, value: &RawValue, max: u64) -> Result<u64, FilterError> {
    let bad = FilterError::BadNumber { field, max };
    match serde_json::from_str::<u64>(value.get()) {
        Ok(number) if number <= max => Ok(number),
        Ok(_) | Err(_) => Err(bad),
    }
}

fn tag_name(key: &str) -> Result<&str, FilterError> {
    match key.strip_prefix('#') {
        Some(name) if name.len() == 1 && name.as_bytes()[0].is_ascii_alphabetic() => Ok(name),
        Some(name) if name.chars().nth(1).is_some() => Err(FilterError::LongTagName),
        _ => Err(FilterError::UnknownField(json::echo(key))),
    }
}
