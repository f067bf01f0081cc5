//! Who joins, leaves and gets which role (9000, 9001, 9021, 9022). Settings of the channel itself do not belong here.

use super::command::invalid;
use super::decide::{Done, Script, not_archived};
use super::state::NoticeKind;
use super::{Channel, Member, Role};
use crate::accept::{Change, ChannelView, Rejection, Write};
use crate::limits;
use crate::nostr::PubKey;
use crate::scope::Audience;

/// Kind 9000. In an open channel anyone but its guests adds members, in a private one its members but guests; only owners and
/// admins give elevated roles or change a role.
pub(super) fn put(
    script: &mut Script<'_>,
    found: &ChannelView,
    target: PubKey,
    role: Option<Role>,
) -> Result<Done, Rejection> {
    if found.role == Some(Role::Guest) {
        return Err(invalid("actor not authorized"));
    }
    let current = member(&script.view.roster, target);
    let wanted = role
        .or(current.map(|member| member.role))
        .unwrap_or(Role::Member);
    let changes = current.is_none_or(|member| member.role != wanted);
    if changes && !found.role.is_some_and(Role::is_elevated) {
        if wanted.is_elevated() {
            return Err(invalid("only owners/admins may grant elevated roles"));
        }
        if current.is_some() {
            return Err(invalid(
                "only owners/admins may change an active member's role",
            ));
        }
    }
    if wanted != Role::Owner && is_last_owner(&script.view.roster, target) {
        return Err(invalid(
            "cannot demote the last owner — transfer ownership first",
        ));
    }
    not_archived(&found.channel)?;
    if !changes {
        return Ok(Done::Unchanged(
            "duplicate: already a member with this role",
        ));
    }
    admit(script, &found.channel, target, wanted)
}

/// Kind 9021. Anyone joins an open channel. A private one refuses like one that does not exist, so that asking discloses nothing
/// (B13).
pub(super) fn join(
    script: &mut Script<'_>,
    found: Result<&ChannelView, Rejection>,
) -> Result<Done, Rejection> {
    let found =
        found.map_err(|_| Rejection::Invalid("restricted: channel is private".to_owned()))?;
    not_archived(&found.channel)?;
    if found.role.is_some() {
        return Ok(Done::Unchanged("duplicate: already a member"));
    }
    admit(script, &found.channel, script.actor(), Role::Member)
}

/// Kind 9001, and 9022 with the sender as target. Members leave, owners and admins remove others, and one owner stays.
pub(super) fn remove(
    script: &mut Script<'_>,
    found: &ChannelView,
    target: PubKey,
) -> Result<Done, Rejection> {
    let Some(role) = found.role else {
        return Err(invalid("actor is not an active member"));
    };
    if target != script.actor() && !role.is_elevated() {
        return Err(invalid("actor not authorized"));
    }
    let before = &script.view.roster;
    if is_last_owner(before, target) {
        return Err(invalid("cannot remove the last owner"));
    }
    not_archived(&found.channel)?;
    if member(before, target).is_none() {
        return Ok(Done::Unchanged("duplicate: not a member"));
    }
    let channel = &found.channel;
    script.store_command(channel.id, Audience::Readers);
    let access_stamp = script.next();
    script.push(Write::RemoveMember {
        channel: channel.id,
        pubkey: target,
        access_stamp,
    });
    script.announce(Change::Membership, channel.id, Some(target));
    let after: Vec<Member> = before
        .iter()
        .filter(|member| member.pubkey != target)
        .cloned()
        .collect();
    script.publish_roster(channel, before, &after);
    script.notify(NoticeKind::Removed, channel, target);
    Ok(Done::Changed)
}

/// Begins a membership, or gives a member another role: that moves no access, as every role reads alike.
fn admit(
    script: &mut Script<'_>,
    channel: &Channel,
    target: PubKey,
    role: Role,
) -> Result<Done, Rejection> {
    let before = &script.view.roster;
    let current = member(before, target);
    if current.is_none() && before.len() >= limits::CHANNEL_MEMBERS_MAX {
        return Err(invalid("channel is full"));
    }
    script.store_command(channel.id, Audience::Readers);
    let (change, entry) = match current {
        Some(member) => (
            Change::Role,
            Member {
                role,
                ..member.clone()
            },
        ),
        None => (Change::Membership, script.new_member(target, role)),
    };
    script.push(Write::PutMember {
        channel: channel.id,
        member: entry.clone(),
    });
    script.announce(change, channel.id, Some(target));
    let mut after: Vec<Member> = before
        .iter()
        .filter(|member| member.pubkey != target)
        .cloned()
        .collect();
    after.push(entry);
    after.sort_unstable();
    script.publish_roster(channel, before, &after);
    script.notify(NoticeKind::Added, channel, target);
    Ok(Done::Changed)
}

fn member(roster: &[Member], key: PubKey) -> Option<&Member> {
    roster.iter().find(|member| member.pubkey == key)
}

fn is_last_owner(roster: &[Member], key: PubKey) -> bool {
    let mut owners = roster.iter().filter(|member| member.role == Role::Owner);
    owners.next().is_some_and(|owner| owner.pubkey == key) && owners.next().is_none()
}
