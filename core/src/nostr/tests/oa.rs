//! NIP-OA: owner attestations.

use super::{secret, tags};
use crate::nostr::oa::{Attestation, KindClauses, OaError, signed_message};
use crate::nostr::{Draft, Event, SecretKey, Tag, Verifier};

const CONDITIONS: &str = "kind=1&created_at<1713957000";
const SIG: &str = "8b7df2575caf0a108374f8471722b233c53f9ff827a8b0f91861966c3b9dd5cb\
                   2e189eae9f49d72187674c2f5bd244145e10ff86c9f257ffe65a1ee5f108b369";

fn owner() -> SecretKey {
    secret(1)
}

fn agent() -> SecretKey {
    secret(2)
}

/// A tag by which the owner vouches for the agent under any conditions, well formed or not.
fn tag(conditions: &str) -> Tag {
    let sig = owner().sign(&signed_message(&agent().public_key(), conditions));
    vec![
        "auth".to_owned(),
        owner().public_key().to_string(),
        conditions.to_owned(),
        sig.to_string(),
    ]
}

fn verify(tag: &Tag, created_at: u64, kinds: KindClauses) -> Result<(), OaError> {
    let owner_found =
        Attestation::from_tag(tag)?.verify(&agent().public_key(), created_at, kinds, &Verifier)?;
    assert_eq!(owner_found, owner().public_key());
    Ok(())
}

#[test]
fn the_published_vector_verifies() {
    assert_eq!(
        owner().public_key().to_string(),
        "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
    );
    assert_eq!(
        agent().public_key().to_string(),
        "c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"
    );
    let message: String = signed_message(&agent().public_key(), CONDITIONS)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        message,
        "08cdecd55af4c28d3801fd69615dcf5cc04fab3bc134b38a840bf157197069a6"
    );

    let vector = vec![
        "auth".to_owned(),
        owner().public_key().to_string(),
        CONDITIONS.to_owned(),
        SIG.to_owned(),
    ];
    assert_eq!(
        verify(&vector, 1_713_956_400, KindClauses::Judge(1)),
        Ok(())
    );

    let event = Event {
        id: "d892a65e7677e0554ebb70ee16deeb6a0727dba46450fb4bc001291d7bff971b"
            .parse()
            .unwrap(),
        pubkey: agent().public_key(),
        created_at: 1_713_956_400,
        kind: 1,
        tags: vec![vector],
        content: "owner-attested agent event".to_owned(),
        sig: "7fd38992b70b5e9e113644e51b4c8ee2227f3bdd402b1855f8786c0600394ab3\
              ec2621742a7bad0b0000b93d4d1ae6e39525f286a3c1029f43f46c3359a6c76f"
            .parse()
            .unwrap(),
    };
    assert_eq!(event.verify(&Verifier), Ok(()));
    let attestation = Attestation::of_event(&event).unwrap().unwrap();
    let found = attestation.verify(
        &event.pubkey,
        event.created_at,
        KindClauses::Judge(event.kind),
        &Verifier,
    );
    assert_eq!(found, Ok(owner().public_key()));
}

#[test]
fn an_event_has_at_most_one() {
    let event = |list: Vec<Tag>| {
        Draft {
            created_at: 5,
            kind: 1,
            tags: list,
            content: String::new(),
        }
        .sign(&agent())
    };
    assert_eq!(
        Attestation::of_event(&event(tags(&[&["t", "x"]]))),
        Ok(None)
    );
    assert!(
        Attestation::of_event(&event(vec![tag("")]))
            .unwrap()
            .is_some()
    );
    assert_eq!(
        Attestation::of_event(&event(vec![tag(""), tag("")])),
        Err(OaError::Repeated)
    );
    assert_eq!(
        Attestation::of_event(&event(vec![tag(""), vec!["auth".to_owned()]])),
        Err(OaError::Repeated)
    );
    assert_eq!(
        Attestation::of_event(&event(vec![vec!["auth".to_owned()]])),
        Err(OaError::Malformed)
    );
}

#[test]
fn tags_have_four_elements_of_their_own_form() {
    let good = tag("");
    assert_eq!(verify(&good, 5, KindClauses::Ignore), Ok(()));
    let three = good[..3].to_vec();
    let five = [good.clone(), vec![String::new()]].concat();
    let mut upper_owner = good.clone();
    upper_owner[1] = upper_owner[1].to_uppercase();
    let mut short_sig = good.clone();
    short_sig[3].pop();
    let mut other_name = good.clone();
    other_name[0] = "Auth".to_owned();
    for bad in [three, five, upper_owner, short_sig, other_name] {
        assert_eq!(
            Attestation::from_tag(&bad),
            Err(OaError::Malformed),
            "{bad:?}"
        );
    }
}

#[test]
fn conditions_are_canonical() {
    for good in [
        "",
        "kind=0",
        "kind=65535",
        "created_at<4294967295",
        "created_at>0",
        "kind=1&kind=1&created_at>0",
    ] {
        assert!(Attestation::from_tag(&tag(good)).is_ok(), "{good}");
    }
    for bad in [
        "kind=1&",
        "&kind=1",
        "kind=1&&kind=1",
        "kind=01",
        "kind=",
        "kind=65536",
        "kind=+1",
        "kind=-1",
        "kind= 1",
        " kind=1",
        "Kind=1",
        "kind<1",
        "kind=1.0",
        "created_at=5",
        "created_at<4294967296",
        "created_at<00",
        "created_at>0x1",
        "created_at<=5",
        "p=x",
        "&",
        "kind=1;kind=2",
        "kind=١",
    ] {
        assert_eq!(
            Attestation::from_tag(&tag(bad)),
            Err(OaError::Condition),
            "{bad}"
        );
    }
}

#[test]
fn every_condition_holds_for_the_event_it_comes_with() {
    let judge = KindClauses::Judge;
    assert_eq!(verify(&tag("created_at<10"), 9, judge(1)), Ok(()));
    assert_eq!(
        verify(&tag("created_at<10"), 10, judge(1)),
        Err(OaError::CreatedAt),
        "strictly before"
    );
    assert_eq!(verify(&tag("created_at>10"), 11, judge(1)), Ok(()));
    assert_eq!(
        verify(&tag("created_at>10"), 10, judge(1)),
        Err(OaError::CreatedAt),
        "strictly after"
    );
    assert_eq!(
        verify(&tag("created_at>5&created_at<10"), 12, judge(1)),
        Err(OaError::CreatedAt)
    );
    assert_eq!(verify(&tag("kind=45010"), 5, judge(45_010)), Ok(()));
    assert_eq!(verify(&tag("kind=1"), 5, judge(45_010)), Err(OaError::Kind));
    assert_eq!(
        verify(&tag("kind=1&kind=2"), 5, judge(1)),
        Err(OaError::Kind)
    );
    assert_eq!(
        verify(&tag("kind=1"), 5, KindClauses::Ignore),
        Ok(()),
        "on a connection kinds are not judged"
    );
    assert_eq!(
        verify(&tag("kind=1&created_at<5"), 5, KindClauses::Ignore),
        Err(OaError::CreatedAt)
    );
}

#[test]
fn the_owner_signed_for_this_agent_and_these_conditions() {
    let attestation = Attestation::from_tag(&tag("kind=1")).unwrap();
    let verify =
        |key: &SecretKey| attestation.verify(&key.public_key(), 5, KindClauses::Ignore, &Verifier);
    assert_eq!(
        verify(&secret(3)),
        Err(OaError::BadSignature),
        "another agent"
    );
    assert_eq!(verify(&owner()), Err(OaError::SelfOwned));
    let mut widened = tag("kind=1");
    widened[2] = String::new();
    let widened = Attestation::from_tag(&widened).unwrap();
    assert_eq!(
        widened.verify(&agent().public_key(), 5, KindClauses::Ignore, &Verifier),
        Err(OaError::BadSignature)
    );
}

#[test]
fn the_header_is_the_tag_as_json() {
    let text = serde_json::to_string(&tag("kind=1")).unwrap();
    assert_eq!(
        Attestation::from_json(&text),
        Attestation::from_tag(&tag("kind=1"))
    );
    for bad in ["", "[]", "{}", "null", "[1,2,3,4]", "[\"auth\"]"] {
        assert_eq!(
            Attestation::from_json(bad),
            Err(OaError::Malformed),
            "{bad}"
        );
    }
}
