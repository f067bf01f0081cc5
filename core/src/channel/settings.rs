//! The life of a channel: creation, settings, archive and deletion (9007, 9002, 9008). Its members do not belong here.

use super::command::{Settings, invalid};
use super::decide::{Done, Script, not_archived};
use super::state::{self, NoticeKind};
use super::{Channel, ChannelType, Role, Visibility};
use crate::accept::{Change, ChannelView, Rejection, WithheldCause, Write};
use crate::ids::ChannelId;
use crate::nostr::kinds;
use crate::scope::Audience;

/// Kind 9007. Any author creates a channel and becomes its owner and, for ever, its creator (CL-ID-6). An id that was ever used is
/// refused with one text, whether or not the sender can read its channel.
pub(super) fn create(
    script: &mut Script<'_>,
    id: ChannelId,
    channel_type: ChannelType,
    settings: Settings,
) -> Result<Done, Rejection> {
    if script.view.channels.contains_key(&id) {
        return Err(Rejection::Invalid(
            "duplicate: channel already exists".to_owned(),
        ));
    }
    let by_default = match channel_type {
        ChannelType::System => Visibility::Private,
        _ => Visibility::Open,
    };
    let channel = Channel {
        id,
        channel_type,
        visibility: settings.visibility.unwrap_or(by_default),
        unlisted: false,
        name: settings.name.unwrap_or_default(),
        about: settings.about.unwrap_or_default(),
        topic: settings.topic.unwrap_or_default(),
        purpose: settings.purpose.unwrap_or_default(),
        creator: Some(script.actor()),
        created_at: script.view.clock_secs(),
        archived: false,
        deleted: false,
        access_stamp: script.next(),
    };
    script.push(Write::CreateChannel(Box::new(channel.clone())));
    script.announce(Change::Created, id, None);
    let owner = script.new_member(script.actor(), Role::Owner);
    script.push(Write::PutMember {
        channel: id,
        member: owner.clone(),
    });
    script.announce(Change::Membership, id, Some(owner.pubkey));
    script.store_command(id, Audience::Readers);
    script.publish(
        id,
        kinds::CHANNEL_METADATA,
        state::metadata_tags(&channel),
        None,
    );
    script.publish_roster(&channel, &[], std::slice::from_ref(&owner));
    script.notify(NoticeKind::Added, &channel, owner.pubkey);
    Ok(Done::Changed)
}

/// Kind 9002. Owners and admins change everything, other members but guests topic and purpose. In an archived channel only an edit
/// that ends the archive is taken; it sends 44100 to every member, as a hint to subscribe again.
pub(super) fn edit(
    script: &mut Script<'_>,
    found: &ChannelView,
    wanted: Settings,
) -> Result<Done, Rejection> {
    let before = &found.channel;
    may_edit(found.role, &wanted)?;
    if wanted.archived != Some(false) {
        not_archived(before)?;
    }
    let texts = |channel: &Channel| {
        let Channel {
            name,
            about,
            topic,
            purpose,
            ..
        } = channel;
        [name, about, topic, purpose].map(String::clone)
    };
    let mut after = applied(before, wanted);
    let visibility = after.visibility != before.visibility;
    let archive = after.archived != before.archived;
    let metadata = texts(&after) != texts(before);
    if !(visibility || archive || metadata) {
        return Ok(Done::Unchanged("duplicate: nothing to change"));
    }
    script.store_command(after.id, Audience::Readers);
    if visibility {
        // The row of the visibility comes first among those that follow.
        after.access_stamp = script.next();
    }
    script.push(Write::UpdateChannel(Box::new(after.clone())));
    let rows = [
        (visibility, Change::Visibility),
        (archive, Change::Archive),
        (metadata, Change::Metadata),
    ];
    for (_, change) in rows.into_iter().filter(|(changed, _)| *changed) {
        script.announce(change, after.id, None);
    }
    let stored = script.view.state.metadata;
    script.publish(
        after.id,
        kinds::CHANNEL_METADATA,
        state::metadata_tags(&after),
        stored,
    );
    if archive && !after.archived {
        for member in &script.view.roster {
            script.notify(NoticeKind::Added, &after, member.pubkey);
        }
    }
    Ok(Done::Changed)
}

/// Kind 9008. Its owners delete a channel; its rows stay, so that its id stays used and every read is refused.
pub(super) fn delete(script: &mut Script<'_>, found: &ChannelView) -> Result<Done, Rejection> {
    if found.role != Some(Role::Owner) {
        return Err(invalid("only owner can delete group"));
    }
    not_archived(&found.channel)?;
    let id = found.channel.id;
    script.store_command(id, Audience::Readers);
    let channel = Channel {
        deleted: true,
        access_stamp: script.next(),
        ..found.channel.clone()
    };
    script.push(Write::UpdateChannel(Box::new(channel.clone())));
    script.announce(Change::ChannelDeleted, id, None);
    let stamps = script.view.state;
    for stored in [stamps.metadata, stamps.admins, stamps.members] {
        script.supersede(stored, WithheldCause::Removed);
    }
    for member in &script.view.roster {
        script.notify(NoticeKind::Removed, &channel, member.pubkey);
    }
    Ok(Done::Changed)
}

fn may_edit(role: Option<Role>, wanted: &Settings) -> Result<(), Rejection> {
    let Settings {
        name,
        about,
        topic,
        purpose,
        visibility,
        archived,
    } = wanted;
    let elevated = name.is_some() || about.is_some() || visibility.is_some() || archived.is_some();
    if elevated && !role.is_some_and(Role::is_elevated) {
        return Err(invalid(
            "actor not authorized for name/about/archived/visibility/ttl changes",
        ));
    }
    let shared = topic.is_some() || purpose.is_some();
    if shared && matches!(role, None | Some(Role::Guest)) {
        return Err(invalid("not a member"));
    }
    Ok(())
}

fn applied(before: &Channel, wanted: Settings) -> Channel {
    let Settings {
        name,
        about,
        topic,
        purpose,
        visibility,
        archived,
    } = wanted;
    let before = before.clone();
    Channel {
        name: name.unwrap_or(before.name),
        about: about.unwrap_or(before.about),
        topic: topic.unwrap_or(before.topic),
        purpose: purpose.unwrap_or(before.purpose),
        visibility: visibility.unwrap_or(before.visibility),
        archived: archived.unwrap_or(before.archived),
        ..before
    }
}
