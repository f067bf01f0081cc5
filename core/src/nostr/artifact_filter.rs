//! The filter of NIP-AR's views: current, history and head. One reading serves HTTP and REQ (AR-SYNC-REQ-6), so what only one
//! of them allows stays visible in the value. Which artifacts match is decided in `artifact`, who may see them in `scope`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::value::RawValue;

use super::Kind;
use super::json::{self, Entries};
use super::kinds::ARTIFACT;
use crate::limits::{
    ARTIFACT_OFFSET_MAX, ARTIFACT_PAGE_MAX, ARTIFACT_PREDICATES_MAX, ARTIFACT_TAG_NAME_BYTES_MAX,
    ARTIFACT_TAG_VALUE_BYTES_MAX, ARTIFACT_VALUES_MAX,
};

/// Which revisions an artifact query returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ArtifactView {
    /// The current revision of each artifact that is not deleted.
    Current,
    /// Every revision of the named artifacts (AR-CUR-5).
    History,
    /// The current revision of each named artifact, deletions included (AR-HEAD-4).
    Head,
}

/// A filter with the key `artifact`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactFilter {
    /// The view. History and head always come with a `d` predicate.
    pub view: ArtifactView,
    /// Every `#name` by its name, `h`, `d` and `type` included; no list is empty. At most [`ARTIFACT_PREDICATES_MAX`] names
    /// and [`ARTIFACT_VALUES_MAX`] values. Names are ANDed, the values of one name ORed (AR-CUR-11, AR-CUR-12).
    pub predicates: BTreeMap<String, BTreeSet<String>>,
    /// Rows of the page, 1 to [`ARTIFACT_PAGE_MAX`], where the request says.
    pub limit: Option<u32>,
    /// Rows before the page, at most [`ARTIFACT_OFFSET_MAX`], where the request says.
    pub offset: Option<u32>,
    /// Whether the request has `kinds`; it is then `[45010]`.
    pub kinds_given: bool,
}

/// Why an artifact filter is refused. The text carries no prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ArtifactFilterError {
    /// The text is not one JSON object.
    #[error("filter must be one object: {0}")]
    Malformed(String),
    /// The request has other filters beside this one (AR-SYNC-REQ-5).
    #[error("artifact queries require exactly one filter")]
    NotAlone,
    /// `artifact` is missing or names no view.
    #[error("artifact must be \"current\", \"history\" or \"head\"")]
    View,
    /// `kinds` is not `[45010]`.
    #[error("artifact queries accept only kinds [45010]")]
    Kinds,
    /// A key occurs twice.
    #[error("duplicate artifact query field {0}")]
    RepeatedField(String),
    /// A key that artifact queries do not have (AR-CUR-22).
    #[error("unsupported artifact predicate")]
    UnknownField,
    /// A predicate's name is empty or too long.
    #[error("invalid predicate name size")]
    NameSize,
    /// A predicate's value is no list, or an empty one.
    #[error("predicate values must be non-empty arrays")]
    NotValues,
    /// A predicate's list has a value that is no string.
    #[error("predicate values must be strings")]
    NotStrings,
    /// A value is longer than any tag value can be.
    #[error("predicate value too large")]
    ValueSize,
    /// Too many predicates or values.
    #[error("artifact predicate limits exceeded")]
    TooMany,
    /// `limit` or `offset` is no integer of its range; `limit` starts at 1.
    #[error("invalid limit or offset")]
    BadPage,
    /// `limit` or `offset` is above its maximum.
    #[error("artifact page limit exceeded")]
    PageLimit,
    /// A history query without `#d`.
    #[error("history requires #d")]
    HistoryWithoutId,
    /// A head query without `#d` (AR-HEAD-2).
    #[error("head requires #d")]
    HeadWithoutId,
}

impl ArtifactFilter {
    /// Reads one artifact filter.
    ///
    /// # Errors
    /// [`ArtifactFilterError`], the first in the order of the keys; what concerns the whole filter comes last.
    pub fn from_json(text: &str) -> Result<ArtifactFilter, ArtifactFilterError> {
        let entries = json::object(text)
            .map_err(|error| ArtifactFilterError::Malformed(json::reason(&error)))?;
        ArtifactFilter::from_entries(&entries)
    }

    /// The filter as a request writes it: one JSON object that [`ArtifactFilter::from_json`] reads as this filter.
    pub fn to_json(&self) -> String {
        let mut object = serde_json::Map::new();
        object.insert("artifact".to_owned(), self.view.as_str().into());
        if self.kinds_given {
            object.insert("kinds".to_owned(), vec![ARTIFACT].into());
        }
        for (name, values) in &self.predicates {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            object.insert(format!("#{name}"), values.into());
        }
        for (name, number) in [("limit", self.limit), ("offset", self.offset)] {
            if let Some(number) = number {
                object.insert(name.to_owned(), number.into());
            }
        }
        serde_json::Value::Object(object).to_string()
    }

    pub(super) fn from_entries(
        entries: &Entries<'_>,
    ) -> Result<ArtifactFilter, ArtifactFilterError> {
        if let Some(key) = json::repeated_key(entries) {
            return Err(ArtifactFilterError::RepeatedField(json::echo(key)));
        }
        let mut view = None;
        let mut predicates = BTreeMap::new();
        let (mut limit, mut offset, mut kinds_given) = (None, None, false);
        let mut values_left = ARTIFACT_VALUES_MAX;
        for (key, value) in entries {
            match key.as_str() {
                "artifact" => view = Some(read_view(value)?),
                "kinds" => {
                    check_kinds(value)?;
                    kinds_given = true;
                }
                "limit" => limit = Some(page_number(value, 1, ARTIFACT_PAGE_MAX)?),
                "offset" => offset = Some(page_number(value, 0, ARTIFACT_OFFSET_MAX)?),
                _ => {
                    let name = key
                        .strip_prefix('#')
                        .ok_or(ArtifactFilterError::UnknownField)?;
                    let values = predicate(name, value, &mut values_left)?;
                    predicates.insert(name.to_owned(), values);
                    if predicates.len() > ARTIFACT_PREDICATES_MAX {
                        return Err(ArtifactFilterError::TooMany);
                    }
                }
            }
        }
        let view = view.ok_or(ArtifactFilterError::View)?;
        let without_id = match view {
            ArtifactView::Current => None,
            ArtifactView::History => Some(ArtifactFilterError::HistoryWithoutId),
            ArtifactView::Head => Some(ArtifactFilterError::HeadWithoutId),
        };
        match without_id {
            Some(error) if !predicates.contains_key("d") => Err(error),
            _ => Ok(ArtifactFilter {
                view,
                predicates,
                limit,
                offset,
                kinds_given,
            }),
        }
    }
}

impl ArtifactView {
    /// The value of the key `artifact`.
    pub fn as_str(self) -> &'static str {
        match self {
            ArtifactView::Current => "current",
            ArtifactView::History => "history",
            ArtifactView::Head => "head",
        }
    }
}

fn read_view(value: &RawValue) -> Result<ArtifactView, ArtifactFilterError> {
    match serde_json::from_str::<String>(value.get()).as_deref() {
        Ok("current") => Ok(ArtifactView::Current),
        Ok("history") => Ok(ArtifactView::History),
        Ok("head") => Ok(ArtifactView::Head),
        Ok(_) | Err(_) => Err(ArtifactFilterError::View),
    }
}

fn check_kinds(value: &RawValue) -> Result<(), ArtifactFilterError> {
    match serde_json::from_str::<Vec<Kind>>(value.get()).as_deref() {
        Ok([ARTIFACT]) => Ok(()),
        Ok(_) | Err(_) => Err(ArtifactFilterError::Kinds),
    }
}

fn page_number(value: &RawValue, min: u32, max: u32) -> Result<u32, ArtifactFilterError> {
    let number: u64 =
        serde_json::from_str(value.get()).map_err(|_| ArtifactFilterError::BadPage)?;
    if number < u64::from(min) {
        return Err(ArtifactFilterError::BadPage);
    }
    u32::try_from(number)
        .ok()
        .filter(|number| *number <= max)
        .ok_or(ArtifactFilterError::PageLimit)
}

fn predicate(
    name: &str,
    value: &RawValue,
    left: &mut usize,
) -> Result<BTreeSet<String>, ArtifactFilterError> {
    if name.is_empty() || name.len() > ARTIFACT_TAG_NAME_BYTES_MAX {
        return Err(ArtifactFilterError::NameSize);
    }
    let list: Vec<&RawValue> =
        serde_json::from_str(value.get()).map_err(|_| ArtifactFilterError::NotValues)?;
    if list.is_empty() {
        return Err(ArtifactFilterError::NotValues);
    }
    *left = left
        .checked_sub(list.len())
        .ok_or(ArtifactFilterError::TooMany)?;
    list.into_iter()
        .map(|item| {
            let text: String =
                serde_json::from_str(item.get()).map_err(|_| ArtifactFilterError::NotStrings)?;
            if text.len() > ARTIFACT_TAG_VALUE_BYTES_MAX {
                Err(ArtifactFilterError::ValueSize)
            } else {
                Ok(text)
            }
        })
        .collect()
}
