//! The bodies of `/query` and `/count`: an array of filters, or the one artifact filter. Reading one filter is the core's.

use holdfast_core::limits::FILTERS_MAX;
use holdfast_core::nostr::filter::{AnyFilter, AnyFilterError};
use holdfast_core::nostr::{ArtifactFilter, ArtifactFilterError, Filter, FilterError};
use serde_json::value::RawValue;

/// What a body asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// 1 to [`FILTERS_MAX`] ordinary filters.
    Plain(Vec<Filter>),
    /// One artifact filter.
    Artifact(ArtifactFilter),
}

/// Reads a body.
///
/// # Errors
/// The text for a 400: artifact errors stand alone, all others follow `invalid filters: `.
pub(super) fn read(body: &[u8]) -> Result<Asked, String> {
    let invalid = |why: &dyn std::fmt::Display| format!("invalid filters: {why}");
    let text = std::str::from_utf8(body).map_err(|_| invalid(&"the body is not UTF-8"))?;
    let raw: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| {
        if error.is_data() {
            invalid(&"expected JSON array")
        } else {
            invalid(&error)
        }
    })?;
    let (mut plain, mut artifact, mut problem) = (Vec::new(), None, None);
    for filter in &raw {
        match AnyFilter::from_json(filter.get()) {
            Ok(AnyFilter::Plain(filter)) => plain.push(filter),
            Ok(AnyFilter::Artifact(filter)) => artifact = Some(Ok(filter)),
            Err(AnyFilterError::Artifact(error)) => artifact = Some(Err(error)),
            Err(AnyFilterError::Plain(error)) => problem = problem.or(Some(error)),
        }
    }
    if let Some(artifact) = artifact {
        if raw.len() != 1 {
            return Err(ArtifactFilterError::NotAlone.to_string());
        }
        return artifact
            .map(Asked::Artifact)
            .map_err(|error| error.to_string());
    }
    match problem {
        _ if raw.is_empty() => Err(invalid(&"at least one filter is required")),
        _ if raw.len() > FILTERS_MAX => {
            let count = raw.len();
            Err(invalid(&format_args!(
                "{count} filters, maximum is {FILTERS_MAX}"
            )))
        }
        Some(FilterError::LongTagName) => Err(LONG_TAG_NAME.to_owned()),
        Some(error) => Err(invalid(&error)),
        None => Ok(Asked::Plain(plain)),
    }
}

/// Buzz's text, which its clients know; it stands alone like the other artifact errors.
const LONG_TAG_NAME: &str = "multi-character tag predicates on artifacts require an artifact query";

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> String {
        read(body.as_bytes()).expect_err(body)
    }

    #[test]
    fn artifact_errors_stand_alone_and_all_others_are_prefixed() {
        let cases = [
            ("[]", "invalid filters: at least one filter is required"),
            ("{}", "invalid filters: expected JSON array"),
            ("[1]", "invalid filters: filter must be one object"),
            (
                "[{\"kind\":1}]",
                "invalid filters: unknown filter field kind",
            ),
            (
                "[{\"#project\":[\"x\"]}]",
                "multi-character tag predicates on artifacts require an artifact query",
            ),
            (
                "[{\"artifact\":\"current\"},{}]",
                "artifact queries require exactly one filter",
            ),
            (
                "[{},{\"artifact\":7}]",
                "artifact queries require exactly one filter",
            ),
            (
                "[{\"artifact\":\"all\"}]",
                "artifact must be \"current\", \"history\" or \"head\"",
            ),
            (
                "[{\"artifact\":\"current\",\"kinds\":[9]}]",
                "artifact queries accept only kinds [45010]",
            ),
            (
                "[{\"artifact\":\"current\",\"since\":1}]",
                "unsupported artifact predicate",
            ),
            ("[{\"artifact\":\"history\"}]", "history requires #d"),
        ];
        for (body, expected) in cases {
            let text = refusal(body);
            assert!(text.starts_with(expected), "{body}: {text}");
        }
        assert!(refusal("[").starts_with("invalid filters: EOF"));
        assert_eq!(
            read(b"[\xff]"),
            Err("invalid filters: the body is not UTF-8".to_owned())
        );
    }

    #[test]
    fn as_many_filters_as_allowed_are_read() {
        let filters = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
        let Ok(Asked::Plain(read_filters)) = read(filters(FILTERS_MAX).as_bytes()) else {
            panic!("{FILTERS_MAX} filters are allowed");
        };
        assert_eq!(read_filters.len(), FILTERS_MAX);
        assert_eq!(
            refusal(&filters(FILTERS_MAX + 1)),
            "invalid filters: 11 filters, maximum is 10"
        );
    }
}
