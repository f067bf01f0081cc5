//! The comparison on which the ensure flow ends. The flow itself, with its requests and retries, is a client's.

use super::envelope::is_envelope_tag;
use crate::nostr::{Event, Tag};

/// Whether a live head already says what `wanted` would say, so that ensure has nothing to send (AR-DRV-10, H25).
///
/// Compared are `d`, type, title, root, content, and the client-defined tags as an ordered list. `op`, `prev` and `auth` say
/// how a revision came about and are ignored. A head whose home differs from the wanted one was moved; it keeps its home, and
/// its root, which belongs to that home, is not compared either. A deletion has no title and so never equals a wanted record.
pub fn same_content_and_tags(head: &Event, wanted: &Event) -> bool {
    let same = |name| head.first_value(name) == wanted.first_value(name);
    let moved = !same("h");
    head.content == wanted.content
        && ["d", "type", "title"].into_iter().all(same)
        && (moved || same("root"))
        && client_tags(head).eq(client_tags(wanted))
}

fn client_tags(event: &Event) -> impl Iterator<Item = &Tag> {
    event.tags.iter().filter(|tag| {
        tag.first()
            .is_none_or(|name| !is_envelope_tag(name) && name != "auth")
    })
}
