//! HTTP requests: the same admission and plans as the socket, one reply each, nothing partial.

use super::*;
use crate::accept::Rejection;
use crate::nostr::{AnyFilter, ArtifactFilter};
use crate::scope::PlanView;

fn keys() -> BTreeSet<PubKey> {
    [secret(1).public_key()].into()
}

fn ask(bench: &mut Bench, request: Request) -> Vec<Effect> {
    bench.step(Input::Request {
        ticket: TicketId(1),
        community: community(),
        keys: keys(),
        request,
    })
}

fn query(effects: &[Effect]) -> (OpId, QueryKind, Vec<crate::scope::ReadPlan>) {
    let found = effects.iter().find_map(|effect| match effect {
        Effect::Query {
            op, kind, plans, ..
        } => Some((*op, *kind, plans.clone())),
        _ => None,
    });
    found.expect("the request reads the store")
}

fn artifact_filter(text: &str) -> ArtifactFilter {
    match AnyFilter::from_json(text) {
        Ok(AnyFilter::Artifact(filter)) => filter,
        other => panic!("{text} is no artifact filter: {other:?}"),
    }
}

fn reply(effects: &[Effect]) -> Reply {
    let mut replies = effects.iter().filter_map(|effect| match effect {
        Effect::Reply {
            ticket: TicketId(1),
            reply,
        } => Some(reply.clone()),
        _ => None,
    });
    let first = replies.next().expect("the request is answered");
    assert!(replies.next().is_none(), "one reply per request");
    first
}

#[test]
fn rows_and_counts_are_passed_on() {
    let mut bench = Bench::new(Profile::Workspace);
    let event = note(1, 10, &[&["h", CHANNEL]], "x");
    let filters = vec![Filter::from_json(r#"{"kinds":[9]}"#).expect("a valid filter")];
    let (op, kind, plans) = query(&ask(&mut bench, Request::Query(filters.clone())));
    assert_eq!(
        (kind, plans.len(), plans[0].readers.clone()),
        (QueryKind::Rows, 1, keys())
    );
    let rows = history_rows(&[&event]);
    let effects = bench.step(Input::Answer {
        op,
        answer: Ok(QueryAnswer::Rows(rows.clone())),
    });
    assert_eq!(reply(&effects), Reply::Rows(rows));
    let (op, kind, _) = query(&ask(&mut bench, Request::Count(filters)));
    assert_eq!(kind, QueryKind::Count);
    let effects = bench.step(Input::Answer {
        op,
        answer: Ok(QueryAnswer::Count(7)),
    });
    assert_eq!(reply(&effects), Reply::Count(7));
}

#[test]
fn artifact_views_are_read_within_their_budget() {
    crate::rules!("AR-CUR-20");
    let mut bench = Bench::new(Profile::Workspace);
    for (view, plan_view) in [
        ("current", PlanView::Current),
        ("history", PlanView::History),
        ("head", PlanView::Head),
    ] {
        let text =
            format!(r##"{{"artifact":"{view}","#d":["04737c81-e5e8-4412-bb47-f446813cfeba"]}}"##);
        let effects = ask(&mut bench, Request::ArtifactQuery(artifact_filter(&text)));
        let (_, kind, plans) = query(&effects);
        assert_eq!((kind, plans[0].view), (QueryKind::Rows, plan_view));
        assert!(effects.iter().any(|effect| matches!(
            effect,
            Effect::Query {
                budget_ms: 2_000,
                ..
            }
        )));
    }
}

#[test]
fn without_sync_there_is_no_head_view() {
    crate::rules!("AR-SYNC-REQ-2");
    let mut config = config(Profile::Workspace);
    config.sync.is_enabled = false;
    let mut bench = Bench::with(config);
    let filter = |view: &str| {
        let d = "04737c81-e5e8-4412-bb47-f446813cfeba";
        artifact_filter(&format!(r##"{{"artifact":"{view}","#d":["{d}"]}}"##))
    };
    for request in [Request::ArtifactQuery, Request::ArtifactCount] {
        let text = "invalid: not supported: the head view is switched off".to_owned();
        let refused = Reply::Refused {
            denied: false,
            text,
        };
        assert_eq!(reply(&ask(&mut bench, request(filter("head")))), refused);
        for view in ["current", "history"] {
            query(&ask(&mut bench, request(filter(view))));
        }
    }
}

#[test]
fn a_failed_read_is_an_error_and_never_an_empty_answer() {
    crate::rules!("AR-CUR-23");
    let mut bench = Bench::new(Profile::Workspace);
    for failure in [
        ReadFailure::Busy,
        ReadFailure::Budget,
        ReadFailure::SnapshotLost,
        ReadFailure::Store,
    ] {
        let filter = artifact_filter(r#"{"artifact":"current"}"#);
        for request in [
            Request::ArtifactQuery(filter.clone()),
            Request::ArtifactCount(filter.clone()),
        ] {
            let (op, ..) = query(&ask(&mut bench, request));
            let effects = bench.step(Input::Answer {
                op,
                answer: Err(failure),
            });
            let text = "artifact query failed or execution budget exceeded".to_owned();
            assert_eq!(reply(&effects), Reply::Unavailable(text));
        }
        let filters = vec![Filter::from_json("{}").expect("an empty filter")];
        let (op, ..) = query(&ask(&mut bench, Request::Query(filters)));
        let effects = bench.step(Input::Answer {
            op,
            answer: Err(failure),
        });
        assert!(matches!(reply(&effects), Reply::Unavailable(_)));
    }
}

#[test]
fn a_gated_filter_for_another_key_is_denied() {
    let mut bench = Bench::new(Profile::Workspace);
    let other = secret(2).public_key();
    let text = format!(r##"{{"kinds":[44100],"#p":["{other}"]}}"##);
    for request in [Request::Query as fn(Vec<Filter>) -> Request, Request::Count] {
        let filters = vec![Filter::from_json(&text).expect("a valid filter")];
        let effects = ask(&mut bench, request(filters));
        assert!(
            matches!(reply(&effects), Reply::Refused { denied: true, text } if text.starts_with("restricted: "))
        );
    }
}

#[test]
fn submissions_take_the_way_of_the_socket() {
    let mut bench = Bench::new(Profile::Workspace);
    let foreign = note(2, bench.now.wall_secs, &[&["h", CHANNEL]], "x");
    let effects = ask(&mut bench, Request::Submit(Box::new(foreign)));
    assert!(submit_op(&effects).is_none());
    let text = "invalid: event pubkey does not match authenticated identity".to_owned();
    assert_eq!(reply(&effects), Reply::Rejected(Rejection::Denied(text)));
    let own = note(1, bench.now.wall_secs, &[&["h", CHANNEL]], "x");
    for (outcome, expected) in [
        (
            SubmitOutcome::Already {
                message: "duplicate: x".into(),
            },
            Reply::Accepted {
                message: "duplicate: x".into(),
            },
        ),
        (
            SubmitOutcome::Rejected(Rejection::Conflict("conflict: x".into())),
            Reply::Rejected(Rejection::Conflict("conflict: x".into())),
        ),
        (
            SubmitOutcome::Failed,
            Reply::Unavailable("error: internal server error".into()),
        ),
    ] {
        let op =
            submit_op(&ask(&mut bench, Request::Submit(Box::new(own.clone())))).expect("submitted");
        assert_eq!(
            reply(&bench.step(Input::Submitted { op, outcome })),
            expected
        );
    }
}
