//! What a revision locks and reads before it is decided.

use super::desk::{home, room};
use super::{ARTIFACT, ID_B, OPS, Rev};
use crate::accept::{Plan, ViewSpec};
use crate::artifact::plan_into;
use crate::ids::ArtifactId;

fn planned(rev: &Rev) -> Plan {
    let mut plan = Plan::default();
    plan_into(&rev.event(), &mut plan);
    plan
}

#[test]
fn competing_revisions_exclude_each_other_and_read_head_home_and_root() {
    let artifact: ArtifactId = ARTIFACT.parse().unwrap();
    for op in OPS {
        let plan = planned(&Rev::new(op).at(room()).set("root", ID_B));
        assert_eq!(plan.locks.artifacts, [artifact].into());
        assert_eq!(plan.locks.shared_channels, [room()].into());
        assert!(
            plan.locks.exclusive_channels.is_empty(),
            "posts in a channel go on beside it"
        );
        let expected = ViewSpec {
            channels: [room()].into(),
            artifact: Some(artifact),
            anchor: Some(ID_B.parse().unwrap()),
            positions: if op == "move" { 2 } else { 1 },
            ..ViewSpec::default()
        };
        assert_eq!(plan.view, expected);
    }
}

#[test]
fn tags_that_cannot_be_read_ask_for_nothing() {
    let rev = Rev::new("update")
        .set("d", "x")
        .set("h", "x")
        .set("root", "x");
    let plan = planned(&rev);
    assert!(plan.locks.artifacts.is_empty() && plan.locks.shared_channels.is_empty());
    assert_eq!((plan.view.artifact, plan.view.anchor), (None, None));
    // The gate judges the first h that is a channel id.
    let named = planned(&rev.push(&["h", &home().to_string()]));
    assert_eq!(named.view.channels, [home()].into());
}
