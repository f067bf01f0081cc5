//! What a rule id looks like, and where a text mentions one. Whether the id exists is decided by the caller.

/// A rule id, or a range of them, as it stands in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mention {
    /// Line, counted from 1.
    pub(super) line: usize,
    /// The whole mention, a range with both ends.
    pub(super) text: String,
    /// The id, and for a range the one at its other end.
    pub(super) ids: Vec<String>,
}

/// Whether a text is a rule id and nothing else, such as group, hyphen and number with at most one small letter.
pub(super) fn is_id(text: &str) -> bool {
    matches!(mention_at(text), Some((length, ids)) if length == text.len() && ids.len() == 1)
}

/// Every mention of a rule in a text, in order.
pub(super) fn mentions(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut from = 0;
        while let Some(start) = next_start(line, from) {
            from = start + 1;
            if let Some((length, ids)) = mention_at(&line[start..]) {
                found.push(Mention {
                    line: index + 1,
                    text: line[start..start + length].to_owned(),
                    ids,
                });
                from = start + length;
            }
        }
    }
    found
}

/// The next place where a group name may begin: `AR-` or `CL-` that is not the tail of a longer word.
fn next_start(line: &str, from: usize) -> Option<usize> {
    let bytes = line.as_bytes();
    (from..line.len()).find(|&at| {
        let begins = bytes[at..].starts_with(b"AR-") || bytes[at..].starts_with(b"CL-");
        begins
            && (at == 0
                || !(bytes[at - 1].is_ascii_alphanumeric() || matches!(bytes[at - 1], b'-' | b'_')))
    })
}

/// Length in bytes and ids of the mention with which a text begins.
fn mention_at(text: &str) -> Option<(usize, Vec<String>)> {
    let mut at = "AR-".len();
    if !(text.starts_with("AR-") || text.starts_with("CL-")) {
        return None;
    }
    loop {
        let part = run(&text[at..], |byte| {
            byte.is_ascii_uppercase() || byte.is_ascii_digit()
        });
        if part == 0
            || !text.as_bytes()[at].is_ascii_uppercase()
            || text.as_bytes().get(at + part) != Some(&b'-')
        {
            return None;
        }
        at += part + 1;
        if text.as_bytes().get(at).is_some_and(u8::is_ascii_digit) {
            break;
        }
    }
    // A tail such as that of `…-4th` belongs to the word: the whole is then an id that no page has.
    let end = at + run(&text[at..], |byte| byte.is_ascii_alphanumeric());
    let id = text[..end].to_owned();
    let Some(rest) = text[end..].strip_prefix("..") else {
        return Some((end, vec![id]));
    };
    let other = run(rest, |byte| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit()
    });
    if other == 0 {
        return Some((end, vec![id]));
    }
    let number = at + run(&text[at..], |byte| byte.is_ascii_digit());
    let kept = if rest.as_bytes()[0].is_ascii_digit() {
        at
    } else {
        number
    };
    let last = format!("{}{}", &text[..kept], &rest[..other]);
    Some((end + "..".len() + other, vec![id, last]))
}

/// How many bytes at the beginning of a text satisfy a condition.
fn run(text: &str, accepts: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|&byte| accepts(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids in these texts do not exist; they are put together here so that the check does not find them in this file.
    fn found(text: &str) -> Vec<(usize, Vec<String>)> {
        mentions(&text.replace('@', "AR"))
            .into_iter()
            .map(|mention| (mention.line, mention.ids))
            .collect()
    }

    fn ids(list: &[&str]) -> Vec<String> {
        list.iter().map(|id| id.replace('@', "AR")).collect()
    }

    #[test]
    fn an_id_is_group_and_number() {
        for good in ["@-X-1", "@-X-12", "@-X-1a", "@-X-YZ-3"] {
            assert!(is_id(&good.replace('@', "AR")), "{good}");
        }
        for bad in [
            "", "@-X", "@-X-", "@-X-a", "@-x-1", "x@-X-1", "@-X-1 ", "@-X-1..2", "@-1", "BR-X-1",
        ] {
            assert!(!is_id(&bad.replace('@', "AR")), "{bad}");
        }
    }

    #[test]
    fn mentions_stand_anywhere_in_a_line() {
        assert_eq!(
            found("a\n// see (@-X-1), @-Y-2."),
            [(2, ids(&["@-X-1"])), (2, ids(&["@-Y-2"]))]
        );
        assert_eq!(found("é@-X-1é"), [(1, ids(&["@-X-1"]))]);
    }

    #[test]
    fn a_range_mentions_both_ends() {
        assert_eq!(found("@-X-2..14"), [(1, ids(&["@-X-2", "@-X-14"]))]);
        assert_eq!(found("@-X-2a..2f"), [(1, ids(&["@-X-2a", "@-X-2f"]))]);
        assert_eq!(found("@-X-2a..f."), [(1, ids(&["@-X-2a", "@-X-2f"]))]);
        assert_eq!(found("@-X-2..."), [(1, ids(&["@-X-2"]))]);
    }

    #[test]
    fn other_words_are_no_mentions() {
        assert_eq!(found("NIP-@-X-1 C@-X-1 @- @-X @-X-y n@-x-1"), []);
        assert_eq!(found("@-X-4th"), [(1, ids(&["@-X-4th"]))]);
    }
}
