//! What one connection says and gets: authentication, events, their answers. Subscriptions are in `subs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::conn::Conn;
use super::io::{CloseReason, ConnId, Effect, Note, OpId, Reply, SubmitOutcome};
use super::{Deadline, Node, Owner};
use crate::accept::{self, Rejection, Submission};
use crate::ids::{CommunityId, UnixSeconds};
use crate::limits::{AUTH_TRIES_MAX, KEYS_MAX, RETRY_DELAY_MS};
use crate::nostr::auth::check_auth;
use crate::nostr::kinds::is_ephemeral;
use crate::nostr::{
    ClientMessage, Event, EventId, FrameProblem, PubKey, RelayFrame, SubId, WebUrl,
};

/// Text for a client whose write was rolled back or failed for reasons of the relay's own.
const INTERNAL: &str = "error: internal server error";
/// Text for a client whose write was not attempted.
const BUSY: &str = "error: the relay is busy, try again";
/// Text for a client whose commit may or may not have happened; the same event sent again is answered truly (AR-ID-11).
const UNKNOWN: &str = "error: the outcome of the write is not known, send the same event again";

impl Node {
    pub(super) fn connected(
        &mut self,
        conn: ConnId,
        community: CommunityId,
        relay_url: WebUrl,
        challenge: String,
        effects: &mut Vec<Effect>,
    ) {
        let auth_deadline = (!self.is_open_profile())
            .then(|| self.at(self.config.auth_timeout_ms, Deadline::Auth(conn)));
        let state = Conn {
            community,
            relay_url,
            challenge: challenge.clone(),
            keys: BTreeSet::new(),
            failed_tries: 0,
            auth_deadline,
            last_key: None,
            subs: BTreeMap::new(),
            syncs: BTreeMap::new(),
            queued_bytes: 0,
            queued_frames: 0,
            reserved_bytes: 0,
            reserved_frames: 0,
            closing: false,
        };
        let former = self.conns.insert(conn, state);
        assert!(former.is_none(), "connection names are never reused");
        self.send(conn, None, RelayFrame::Auth { challenge }, effects);
        if self.stopping {
            self.close(conn, CloseReason::Restarting, effects);
        }
    }

    pub(super) fn disconnected(&mut self, conn: ConnId, effects: &mut Vec<Effect>) {
        self.end_all_subs(conn, effects);
        match self.conns.remove(&conn) {
            Some(state) => {
                if let Some(at) = state.auth_deadline {
                    self.deadlines.remove(&(at, Deadline::Auth(conn)));
                }
            }
            None => effects.push(Effect::Note(Note::UnknownConnection)),
        }
    }

    pub(super) fn drained(
        &mut self,
        conn: ConnId,
        bytes: usize,
        frames: usize,
        effects: &mut Vec<Effect>,
    ) {
        let Some(state) = self.conns.get_mut(&conn) else {
            effects.push(Effect::Note(Note::UnknownConnection));
            return;
        };
        state.queued_bytes = state.queued_bytes.saturating_sub(bytes);
        state.queued_frames = state.queued_frames.saturating_sub(frames);
        self.use_room(conn, effects);
    }

    pub(super) fn auth_deadline(&mut self, conn: ConnId, effects: &mut Vec<Effect>) {
        if let Some(state) = self.conns.get_mut(&conn) {
            state.auth_deadline = None;
            if state.keys.is_empty() {
                self.close(conn, CloseReason::AuthTimeout, effects);
            }
        }
    }

    pub(super) fn message(
        &mut self,
        conn: ConnId,
        message: Result<ClientMessage, FrameProblem>,
        effects: &mut Vec<Effect>,
    ) {
        match self.conns.get(&conn) {
            None => {
                effects.push(Effect::Note(Note::UnknownConnection));
                return;
            }
            Some(state) if state.closing => return,
            Some(_) => {}
        }
        let answered_later = match message {
            Err(problem) => {
                effects.push(Effect::Note(Note::BadFrame));
                if let FrameProblem::Closed { sub, .. } = &problem
                    && let Some(sub) = SubId::new(sub.as_str())
                {
                    // For the client CLOSED ends what the id named, so nothing of that may follow.
                    self.replace(conn, &sub, effects);
                }
                self.send(conn, None, problem.into_frame(), effects);
                false
            }
            Ok(ClientMessage::Auth(event)) => {
                self.auth(conn, &event, effects);
                false
            }
            Ok(ClientMessage::Event(event)) => self.event(conn, *event, effects),
            Ok(ClientMessage::Req { sub, filters }) => {
                self.req(conn, sub, &filters, effects);
                false
            }
            Ok(ClientMessage::ArtifactReq { sub, filter }) => {
                self.sync_req(conn, sub, filter, effects);
                false
            }
            Ok(ClientMessage::Count { sub, filters }) => self.count(conn, sub, &filters, effects),
            Ok(ClientMessage::Close { sub }) => {
                self.close_sub(conn, &sub, effects);
                false
            }
        };
        if !answered_later {
            effects.push(Effect::Credit { conn });
        }
    }

    fn auth(&mut self, conn: ConnId, event: &Event, effects: &mut Vec<Effect>) {
        let now = self.now.wall_secs;
        let Some(state) = self.conns.get_mut(&conn) else {
            return;
        };
        let verdict = check_auth(event, &state.challenge, &state.relay_url, now)
            .map_err(|problem| problem.to_string());
        let verdict = verdict.and_then(|key| {
            if state.keys.len() >= KEYS_MAX && !state.keys.contains(&key) {
                Err(format!(
                    "restricted: at most {KEYS_MAX} keys per connection"
                ))
            } else {
                Ok(key)
            }
        });
        match verdict {
            Ok(key) => {
                state.keys.insert(key);
                state.last_key = Some(key);
                if let Some(at) = state.auth_deadline.take() {
                    self.deadlines.remove(&(at, Deadline::Auth(conn)));
                }
                effects.push(Effect::Note(Note::Authenticated));
                self.ok(conn, event.id, true, String::new(), effects);
            }
            Err(message) => {
                state.failed_tries += 1;
                let tries = state.failed_tries;
                effects.push(Effect::Note(Note::AuthRefused));
                self.ok(conn, event.id, false, message, effects);
                if tries >= AUTH_TRIES_MAX {
                    self.close(conn, CloseReason::AuthTries, effects);
                }
            }
        }
    }

    fn ok(
        &mut self,
        conn: ConnId,
        id: EventId,
        accepted: bool,
        message: String,
        effects: &mut Vec<Effect>,
    ) {
        self.send(
            conn,
            None,
            RelayFrame::Ok {
                id,
                accepted,
                message,
            },
            effects,
        );
    }

    /// Takes an EVENT; true when its answer comes later.
    fn event(&mut self, conn: ConnId, event: Event, effects: &mut Vec<Effect>) -> bool {
        let Some(state) = self.conns.get(&conn) else {
            return false;
        };
        let (community, keys) = (state.community, state.keys.clone());
        if keys.is_empty() && !self.is_open_profile() {
            effects.push(Effect::Note(Note::SubmitRefused));
            self.ok(
                conn,
                event.id,
                false,
                "auth-required: not authenticated".to_owned(),
                effects,
            );
            return false;
        }
        let id = event.id;
        match self.admitted(community, keys, event) {
            Ok(submission) => {
                let ephemeral =
                    is_ephemeral(submission.event.kind).then(|| Box::new(submission.event.clone()));
                let op = self.op(Owner::Event {
                    conn,
                    community,
                    id: submission.event.id,
                    ephemeral,
                });
                effects.push(Effect::Note(Note::SubmitStarted));
                effects.push(Effect::Submit { op, submission });
                true
            }
            Err(rejection) => {
                effects.push(Effect::Note(Note::SubmitRefused));
                self.ok(conn, id, false, rejection.text().to_owned(), effects);
                false
            }
        }
    }

    /// What of an event can be judged without the store; the one gate of both transports.
    pub(super) fn admitted(
        &self,
        community: CommunityId,
        keys: BTreeSet<PubKey>,
        event: Event,
    ) -> Result<Box<Submission>, Rejection> {
        let received_at: UnixSeconds = self.now.wall_secs;
        let submission = Submission {
            community,
            event,
            keys,
            received_at,
        };
        match accept::admit(&submission, &self.config.policy) {
            Ok(()) => Ok(Box::new(submission)),
            Err(rejection) => Err(rejection),
        }
    }

    pub(super) fn submitted(
        &mut self,
        op: OpId,
        outcome: SubmitOutcome,
        effects: &mut Vec<Effect>,
    ) {
        let (community, ephemeral) = match self.ops.get_mut(&op) {
            Some(
                Owner::Event {
                    community,
                    ephemeral,
                    ..
                }
                | Owner::Ticket {
                    community,
                    ephemeral,
                    ..
                },
            ) => (*community, ephemeral.take()),
            _ => {
                effects.push(Effect::Note(Note::LateAnswer));
                return;
            }
        };
        let Some(owner) = self.ops.remove(&op) else {
            return;
        };
        let verdict = match outcome {
            SubmitOutcome::Stored { message, signals } => {
                self.publisher
                    .announce(community, signals, &mut self.next_op, effects);
                Ok(message)
            }
            SubmitOutcome::Unknown { xid, signals } => {
                self.settle(community, xid, signals, RETRY_DELAY_MS.0, effects);
                Err(Failure::Relay(UNKNOWN))
            }
            SubmitOutcome::Already { message } => Ok(message),
            SubmitOutcome::Ephemeral { channel } => {
                if let Some(event) = ephemeral {
                    self.publisher.announce_ephemeral(
                        community,
                        channel,
                        Arc::new(*event),
                        &mut self.next_op,
                        effects,
                    );
                }
                Ok(String::new())
            }
            SubmitOutcome::Rejected(rejection) => Err(Failure::Sender(rejection)),
            SubmitOutcome::Busy => Err(Failure::Relay(BUSY)),
            SubmitOutcome::Failed => Err(Failure::Relay(INTERNAL)),
        };
        match owner {
            Owner::Event { conn, id, .. } => {
                if !self.conns.contains_key(&conn) {
                    effects.push(Effect::Note(Note::LateAnswer));
                    return;
                }
                let accepted = verdict.is_ok();
                let message = verdict.unwrap_or_else(|failure| failure.text().to_owned());
                self.send(
                    conn,
                    None,
                    RelayFrame::Ok {
                        id,
                        accepted,
                        message,
                    },
                    effects,
                );
                effects.push(Effect::Credit { conn });
            }
            Owner::Ticket { ticket, .. } => {
                let reply = match verdict {
                    Ok(message) => Reply::Accepted { message },
                    Err(Failure::Sender(rejection)) => Reply::Rejected(rejection),
                    Err(Failure::Relay(text)) => Reply::Unavailable(text.to_owned()),
                };
                effects.push(Effect::Reply { ticket, reply });
            }
            _ => unreachable!("only submissions reach this point"),
        }
    }
}

/// Why a submission was not accepted: the sender's doing or the relay's.
enum Failure {
    Sender(Rejection),
    Relay(&'static str),
}

impl Failure {
    fn text(&self) -> &str {
        match self {
            Failure::Sender(rejection) => rejection.text(),
            Failure::Relay(text) => text,
        }
    }
}
