//! The way of a channel command: what it needs to know, who decides it, and what every decision writes alike. The rules of
//! the single commands are in `members`, `settings` and `removal`.

use super::command::{Action, Command};
use super::state::{self, Notice, NoticeKind};
use super::{Channel, Member, Role, members, removal, settings};
use crate::accept::{
    Change, Decision, LedgerRow, Plan, Policy, Rejection, SlotFacts, StoredEvent, Submission,
    TargetFacts, View, WithheldCause, Write, WriteList, gate,
};
use crate::ids::{ChannelId, Position};
use crate::nostr::{Event, Kind, PubKey, Tag, kinds};
use crate::scope::Audience;

/// Adds to a plan what a command needs. An event that is no command adds nothing: [`decide`] refuses it.
pub fn plan_into(event: &Event, plan: &mut Plan) {
    let Ok(Command {
        channel: Some(channel),
        action,
    }) = Command::parse(event)
    else {
        return;
    };
    plan.locks.exclusive_channels.insert(channel);
    plan.view.channels.insert(channel);
    // Beside the command itself: at most three state events, and for each change of state one row.
    match action {
        Action::PutUser { target, .. } | Action::RemoveUser { target } => {
            plan_membership(channel, target, plan);
        }
        Action::Join | Action::Leave => plan_membership(channel, event.pubkey, plan),
        Action::Create { .. } => {
            plan.view.positions += 7;
            notify(event.pubkey, plan);
        }
        Action::Edit(wanted) => {
            plan.view.state = Some(channel);
            plan.view.positions += 5;
            if wanted.archived == Some(false) {
                plan.view.roster = Some(channel);
                plan.view.roster_notices = true;
            }
        }
        Action::Delete => {
            plan.view.state = Some(channel);
            plan.view.roster = Some(channel);
            plan.view.roster_notices = true;
            plan.view.positions += 2;
        }
        Action::RemoveEvent { target } => {
            plan.locks.events.insert(target);
            plan.view.targets.insert(target);
            plan.view.positions += 2;
        }
    }
}

fn plan_membership(channel: ChannelId, target: PubKey, plan: &mut Plan) {
    plan.view.state = Some(channel);
    plan.view.roster = Some(channel);
    plan.view.positions += 5;
    notify(target, plan);
}

fn notify(recipient: PubKey, plan: &mut Plan) {
    plan.locks.recipients.insert(recipient);
    plan.view.recipients.insert(recipient);
}

/// Decides a command.
///
/// # Errors
/// The refusal: the tags; then whether the sender may write at all; then, for a channel that does not exist or that the
/// sender cannot read, one text for all (B13); then what the command itself demands; then the archive.
pub fn decide(
    submission: &Submission,
    view: &View,
    policy: &Policy,
) -> Result<Decision, Rejection> {
    let Command { channel, action } = Command::parse(&submission.event)?;
    gate::standing(view, scope_of(&action))?;
    let mut script = Script::new(submission, view, policy);
    let named = || channel.ok_or_else(gate::not_a_member);
    let found = || gate::readable(view, named()?);
    let done = match action {
        Action::PutUser { target, role } => members::put(&mut script, found()?, target, role)?,
        Action::RemoveUser { target } => members::remove(&mut script, found()?, target)?,
        Action::Join => members::join(&mut script, found())?,
        Action::Leave => members::remove(&mut script, found()?, submission.event.pubkey)?,
        Action::Edit(wanted) => settings::edit(&mut script, found()?, wanted)?,
        Action::Create {
            channel_type,
            settings,
        } => settings::create(&mut script, named()?, channel_type, settings)?,
        Action::Delete => settings::delete(&mut script, found()?)?,
        Action::RemoveEvent { target } => removal::remove(&mut script, named()?, target)?,
    };
    Ok(match done {
        Done::Changed => script.list.decision(),
        Done::Unchanged(message) => Decision::Already {
            message: message.to_owned(),
        },
    })
}

/// The token scope that a command needs.
fn scope_of(action: &Action) -> &'static str {
    match action {
        Action::PutUser { .. } | Action::RemoveUser { .. } | Action::Delete => "admin:channels",
        Action::Edit(wanted) if wanted.archived.is_some() => "admin:channels",
        Action::Edit(_) | Action::Create { .. } => "channels:write",
        Action::Join | Action::Leave => "channels:read",
        Action::RemoveEvent { .. } => gate::SCOPE_MESSAGES_WRITE,
    }
}

/// What became of an admissible command.
pub(super) enum Done {
    /// The script holds its writes.
    Changed,
    /// All is as it asks; the answer says so. Such a command is not stored.
    Unchanged(&'static str),
}

/// Refuses commands in an archived channel; the only one it takes ends the archive.
pub(super) fn not_archived(channel: &Channel) -> Result<(), Rejection> {
    if channel.archived {
        Err(gate::archived())
    } else {
        Ok(())
    }
}

/// The writes of one command.
pub(super) struct Script<'a> {
    pub(super) event: &'a Event,
    pub(super) view: &'a View,
    policy: &'a Policy,
    list: WriteList,
}

impl<'a> Script<'a> {
    fn new(submission: &'a Submission, view: &'a View, policy: &'a Policy) -> Script<'a> {
        Script {
            event: &submission.event,
            view,
            policy,
            list: WriteList::new(view),
        }
    }

    /// Whoever signed the command.
    pub(super) fn actor(&self) -> PubKey {
        self.event.pubkey
    }

    /// The position of the next row.
    pub(super) fn next(&self) -> Position {
        self.list.next()
    }

    /// Appends a write without a row of its own.
    pub(super) fn push(&mut self, write: Write) {
        self.list.push(write);
    }

    /// Announces a change of a channel or, with `key`, of one membership in it.
    pub(super) fn announce(&mut self, change: Change, channel: ChannelId, key: Option<PubKey>) {
        self.list.row(|position| LedgerRow {
            position,
            change,
            channel: Some(channel),
            key,
            artifact: None,
            event: None,
        });
    }

    /// Withholds an event of the channel, and announces it.
    pub(super) fn remove(&mut self, facts: &TargetFacts, change: Change) {
        self.list.withhold(
            facts.id,
            facts.channel,
            facts.artifact,
            WithheldCause::Removed,
            change,
        );
    }

    /// A membership that begins with the next row.
    pub(super) fn new_member(&self, pubkey: PubKey, role: Role) -> Member {
        Member {
            joined_at_us: self.view.clock_us,
            pubkey,
            role,
            access_stamp: self.next(),
        }
    }

    /// Stores the command itself in its channel.
    pub(super) fn store_command(&mut self, channel: ChannelId, audience: Audience) {
        self.list.store(|position| StoredEvent {
            audience,
            ..StoredEvent::new(self.event.clone(), Some(channel), position)
        });
    }

    /// Signs one state event of a channel and stores it in the place of the former one.
    pub(super) fn publish(
        &mut self,
        channel: ChannelId,
        kind: Kind,
        tags: Vec<Tag>,
        previous: Option<SlotFacts>,
    ) {
        self.supersede(previous, WithheldCause::Superseded);
        let clock_secs = self.view.clock_secs();
        let event = state::signed_state(kind, tags, clock_secs, previous, &self.policy.relay_key);
        self.list
            .store(|position| StoredEvent::new(event, Some(channel), position));
    }

    /// Withholds a stored state event, if there is one.
    pub(super) fn supersede(&mut self, stored: Option<SlotFacts>, cause: WithheldCause) {
        if let Some(SlotFacts { id: event, .. }) = stored {
            self.list.push(Write::Withhold { event, cause });
        }
    }

    /// Publishes the member lists after a change of the roster; 39001 only when it differs.
    pub(super) fn publish_roster(
        &mut self,
        channel: &Channel,
        before: &[Member],
        after: &[Member],
    ) {
        let stamps = self.view.state;
        let admins = state::admins_tags(channel, after);
        if stamps.admins.is_none() || admins != state::admins_tags(channel, before) {
            self.publish(channel.id, kinds::CHANNEL_ADMINS, admins, stamps.admins);
        }
        let members = state::members_tags(channel, after);
        self.publish(channel.id, kinds::CHANNEL_MEMBERS, members, stamps.members);
    }

    /// Sends a notice to one key. It lives in no channel, since its recipient may have lost the channel; its row names the
    /// channel, so that whoever listens there alone hears of it.
    pub(super) fn notify(&mut self, kind: NoticeKind, channel: &Channel, recipient: PubKey) {
        let notice = Notice {
            kind,
            channel,
            recipient,
            actor: self.actor(),
            position: self.next(),
        };
        let newest = self.view.notice_stamps.get(&recipient).copied();
        let event = notice.sign(self.view.clock_secs(), newest, &self.policy.relay_key);
        let created_at = event.created_at;
        let row = LedgerRow {
            position: self.next(),
            change: Change::Event,
            channel: Some(channel.id),
            key: Some(recipient),
            artifact: None,
            event: Some(event.id),
        };
        self.list.push(Write::Store(Box::new(StoredEvent::new(
            event,
            None,
            self.next(),
        ))));
        self.list.row(|_| row);
        self.list.push(Write::NoticeStamp {
            recipient,
            created_at,
        });
    }
}
