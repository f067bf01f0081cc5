//! Derived ids and the set digest against the computed vectors and their definitions.

use std::str::FromStr;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::{ARTIFACT, HOME, ID_A, ID_B};
use crate::artifact::{derive_id, set_digest};
use crate::ids::{ArtifactId, ChannelId, Uuid};
use crate::nostr::EventId;
use crate::rules;

const SECOND: &str = "22222222-2222-4222-8222-222222222222";

fn heads(pairs: &[(&str, &str)]) -> Vec<(ArtifactId, EventId)> {
    pairs
        .iter()
        .map(|(d, head)| (d.parse().unwrap(), head.parse().unwrap()))
        .collect()
}

fn any_uuid() -> impl Strategy<Value = Uuid> {
    any::<[u8; 16]>().prop_filter_map("not nil", |bytes| Uuid::from_bytes(bytes).ok())
}

fn any_heads() -> impl Strategy<Value = Vec<(ArtifactId, EventId)>> {
    prop::collection::btree_map(
        any_uuid().prop_map(ArtifactId),
        any::<[u8; 32]>().prop_map(EventId::from_bytes),
        0..12,
    )
    .prop_map(|set| set.into_iter().collect())
}

#[test]
fn digest_vectors_v1_to_v3() {
    rules!("AR-DIGEST-1", "AR-DIGEST-2", "AR-DIGEST-4");
    for (set, expected) in [
        (
            heads(&[]),
            "ad9386697e8ac814baa034f7cc6e3401cea4069e717d4d85bb423e02236cd7ae",
        ),
        (
            heads(&[(ARTIFACT, ID_A)]),
            "2d6926a7c2b19373b5558ae0b39340b86813a9e79678ae3fedc54dd5e7118a4c",
        ),
        (
            heads(&[(SECOND, ID_B), (ARTIFACT, ID_A)]),
            "a78cebbc340da818d4cc7a5d05a00403dc41268e3c6c2745b820d1044162c744",
        ),
    ] {
        assert_eq!(set_digest(set).to_string(), expected);
    }
}

proptest! {
    #[test]
    fn digest_is_one_hash_over_sorted_lines_in_any_order_of_arrival(
        (sorted, shuffled) in any_heads().prop_flat_map(|set| (Just(set.clone()), Just(set).prop_shuffle())),
    ) {
        rules!("AR-DIGEST-1", "AR-DIGEST-2", "AR-DIGEST-3", "AR-DIGEST-4", "AR-DIGEST-5");
        let mut lines: Vec<String> = sorted.iter().map(|(d, head)| format!("{d}:{head}\n")).collect();
        lines.sort();
        let hash = Sha256::digest(format!("nip-ar-set-v1\0{}", lines.concat()));
        let expected: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        prop_assert_eq!(set_digest(shuffled).to_string(), expected);
    }

    #[test]
    fn digest_of_a_part_depends_on_the_heads_of_that_part_alone(set in any_heads(), more in any_heads(), split in any::<u8>()) {
        rules!("AR-DIGEST-5");
        let in_part = |d: &ArtifactId| d.0.as_bytes()[0] < split;
        let part: Vec<_> = set.iter().copied().filter(|(d, _)| in_part(d)).collect();
        let grown = set.iter().chain(more.iter().filter(|(d, _)| !in_part(d))).copied();
        prop_assert_eq!(set_digest(grown.filter(|(d, _)| in_part(d))), set_digest(part));
    }

    #[test]
    fn digest_changes_with_any_head(set in any_heads(), at in any::<prop::sample::Index>(), other in any::<[u8; 32]>()) {
        rules!("AR-DIGEST-1");
        prop_assume!(!set.is_empty());
        let at = at.index(set.len());
        prop_assume!(set[at].1 != EventId::from_bytes(other));
        let mut changed = set.clone();
        changed[at].1 = EventId::from_bytes(other);
        prop_assert_ne!(set_digest(changed), set_digest(set));
    }

    #[test]
    fn derived_ids_carry_version_8_and_the_rfc_variant_and_else_the_hash(home in any_uuid(), kind in "[a-z]{1,4}\\.[a-z]{1,4}", key in ".*") {
        rules!("AR-DRV-1", "AR-DRV-2", "AR-DRV-3");
        let derived = derive_id(ChannelId(home), &kind, &key);
        let text = derived.to_string();
        prop_assert_eq!(&text[14..15], "8");
        prop_assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"));
        let hash = Sha256::digest(format!("nip-ar-artifact\0{home}\0{kind}\0{key}"));
        for (at, (kept, hashed)) in derived.0.as_bytes().iter().zip(hash.iter()).enumerate() {
            let mask = match at { 6 => 0x0f, 8 => 0x3f, _ => 0xff };
            prop_assert_eq!(kept & mask, hashed & mask);
        }
        prop_assert_eq!(ArtifactId::from_str(&text).unwrap(), derived);
    }
}

#[test]
fn derivation_vectors_v4_to_v6() {
    rules!("AR-DRV-1", "AR-DRV-2", "AR-DRV-3");
    for (key, expected) in [
        ("config/main", "8460c5ac-0f06-829d-bc40-37ffbee3d8b1"),
        ("é", "9a60bfc5-9176-8772-be3d-3d9f7efdcc89"),
        ("", "8371746d-3ae1-8e04-a12a-a13945e90af2"),
    ] {
        assert_eq!(
            derive_id(HOME.parse().unwrap(), "buzz.task", key).to_string(),
            expected
        );
    }
}

#[test]
fn a_derived_id_follows_from_creation_home_type_and_key_alone() {
    rules!("AR-DRV-4", "AR-DRV-5");
    let (home, destination): (ChannelId, ChannelId) =
        (HOME.parse().unwrap(), SECOND.parse().unwrap());
    let name = derive_id(home, "buzz.task", "config/main");
    // After a move the client still derives from the home at creation.
    assert_eq!(derive_id(home, "buzz.task", "config/main"), name);
    for other in [
        derive_id(destination, "buzz.task", "config/main"),
        derive_id(home, "buzz.project", "config/main"),
        derive_id(home, "buzz.task", "config/other"),
    ] {
        assert_ne!(other, name);
    }
}
