//! HTTP requests: the same admission, the same plans and the same store reads as the socket, answered once.

use std::collections::BTreeSet;

use super::io::{
    Effect, Note, OpId, QueryAnswer, QueryKind, ReadFailure, Reply, Request, TicketId,
};
use super::{Node, Owner};
use crate::ids::CommunityId;
use crate::limits::{ARTIFACT_QUERY_BUDGET_MS, NAMED_CHANNELS_MAX, QUERY_BUDGET_MS};
use crate::nostr::kinds::is_ephemeral;
use crate::nostr::message::named_channels;
use crate::nostr::{ArtifactFilter, ArtifactView, Filter, PubKey, RelayFrame};
use crate::scope::{self, ReadPlan};

impl Node {
    pub(super) fn request(
        &mut self,
        ticket: TicketId,
        community: CommunityId,
        keys: BTreeSet<PubKey>,
        request: Request,
        effects: &mut Vec<Effect>,
    ) {
        match request {
            Request::Submit(event) => match self.admitted(community, keys, *event) {
                Ok(submission) => {
                    let ephemeral = is_ephemeral(submission.event.kind)
                        .then(|| Box::new(submission.event.clone()));
                    let op = self.op(Owner::Ticket {
                        ticket,
                        community,
                        ephemeral,
                    });
                    effects.push(Effect::Note(Note::SubmitStarted));
                    effects.push(Effect::Submit { op, submission });
                }
                Err(rejection) => {
                    effects.push(Effect::Note(Note::SubmitRefused));
                    effects.push(Effect::Reply {
                        ticket,
                        reply: Reply::Rejected(rejection),
                    });
                }
            },
            Request::Query(filters) => {
                self.plain(ticket, community, &keys, &filters, QueryKind::Rows, effects)
            }
            Request::Count(filters) => self.plain(
                ticket,
                community,
                &keys,
                &filters,
                QueryKind::Count,
                effects,
            ),
            Request::ArtifactQuery(filter) => {
                self.artifact(ticket, community, &keys, &filter, QueryKind::Rows, effects);
            }
            Request::ArtifactCount(filter) => {
                self.artifact(ticket, community, &keys, &filter, QueryKind::Count, effects);
            }
        }
    }

    fn plain(
        &mut self,
        ticket: TicketId,
        community: CommunityId,
        keys: &BTreeSet<PubKey>,
        filters: &[Filter],
        kind: QueryKind,
        effects: &mut Vec<Effect>,
    ) {
        if named_channels(filters) > NAMED_CHANNELS_MAX {
            let reply = Reply::Refused {
                denied: false,
                text: "too many explicit channels".to_owned(),
            };
            effects.push(Effect::Reply { ticket, reply });
            return;
        }
        let plans: Result<Vec<ReadPlan>, _> = filters
            .iter()
            .map(|filter| scope::compile(community, keys, filter))
            .collect();
        match plans {
            Ok(plans) => self.query(ticket, plans, kind, QUERY_BUDGET_MS, false, effects),
            Err(refusal) => {
                let reply = Reply::Refused {
                    denied: true,
                    text: refusal.query_text().to_owned(),
                };
                effects.push(Effect::Reply { ticket, reply });
            }
        }
    }

    fn artifact(
        &mut self,
        ticket: TicketId,
        community: CommunityId,
        keys: &BTreeSet<PubKey>,
        filter: &ArtifactFilter,
        kind: QueryKind,
        effects: &mut Vec<Effect>,
    ) {
        if filter.view == ArtifactView::Head && !self.config.sync.is_enabled {
            // The head view goes with sync (AR-HEAD-1); what is not advertised is not served either (AR-SYNC-REQ-2).
            let reply = Reply::Refused {
                denied: false,
                text: "invalid: not supported: the head view is switched off".to_owned(),
            };
            effects.push(Effect::Reply { ticket, reply });
            return;
        }
        match scope::compile_artifact(community, keys, filter) {
            Ok(plan) => self.query(
                ticket,
                vec![plan],
                kind,
                ARTIFACT_QUERY_BUDGET_MS,
                true,
                effects,
            ),
            Err(refusal) => {
                let reply = Reply::Refused {
                    denied: true,
                    text: refusal.query_text().to_owned(),
                };
                effects.push(Effect::Reply { ticket, reply });
            }
        }
    }

    fn query(
        &mut self,
        ticket: TicketId,
        plans: Vec<ReadPlan>,
        kind: QueryKind,
        budget_ms: u64,
        artifact: bool,
        effects: &mut Vec<Effect>,
    ) {
        let op = self.op(Owner::TicketQuery { ticket, artifact });
        effects.push(Effect::Query {
            op,
            kind,
            plans,
            budget_ms,
        });
    }

    pub(super) fn answered(
        &mut self,
        op: OpId,
        answer: Result<QueryAnswer, ReadFailure>,
        effects: &mut Vec<Effect>,
    ) {
        match self.ops.remove(&op) {
            Some(Owner::TicketQuery { ticket, artifact }) => {
                let reply = match answer {
                    Ok(QueryAnswer::Rows(rows)) => Reply::Rows(rows),
                    Ok(QueryAnswer::Count(count)) => Reply::Count(count),
                    Err(_) if artifact => Reply::Unavailable(
                        "artifact query failed or execution budget exceeded".to_owned(),
                    ),
                    Err(_) => {
                        Reply::Unavailable("query failed or execution budget exceeded".to_owned())
                    }
                };
                effects.push(Effect::Reply { ticket, reply });
            }
            Some(Owner::Count { conn, sub }) => {
                if !self.conns.contains_key(&conn) {
                    effects.push(Effect::Note(Note::LateAnswer));
                    return;
                }
                match answer {
                    Ok(QueryAnswer::Count(count)) => {
                        self.send(conn, None, RelayFrame::Count { sub, count }, effects)
                    }
                    Ok(QueryAnswer::Rows(_)) => unreachable!("a count is answered with a number"),
                    Err(ReadFailure::Budget) => {
                        let text = "restricted: count filter requires narrower constraints";
                        self.send_closed(conn, sub.into(), None, text, effects);
                    }
                    Err(_) => {
                        self.send_closed(conn, sub.into(), None, "error: database error", effects)
                    }
                }
                effects.push(Effect::Credit { conn });
            }
            _ => effects.push(Effect::Note(Note::LateAnswer)),
        }
    }
}
