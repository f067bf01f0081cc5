//! The client's copy as one sync sent it (AR-SYNC-3h): each `d` with its home at that time, packed and sorted. Nothing else
//! belongs here; what enters and leaves the copy is the session's decision.

use crate::ids::{ArtifactId, Uuid};

/// Bytes of one entry: sixteen of `d`, two of the home's number.
const ENTRY_BYTES: usize = 18;

/// A sorted set of artifacts, 18 bytes each, with the number of each one's home among the named channels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Copy {
    packed: Vec<u8>,
}

impl Copy {
    /// Artifacts in the copy.
    pub(super) fn len(&self) -> usize {
        self.packed.len() / ENTRY_BYTES
    }

    /// The number of the artifact's home, if it is in the copy.
    pub(super) fn home(&self, artifact: ArtifactId) -> Option<u16> {
        let at = self.search(artifact).ok()?;
        let entry = &self.packed[at * ENTRY_BYTES..(at + 1) * ENTRY_BYTES];
        Some(u16::from_be_bytes([entry[16], entry[17]]))
    }

    /// Puts an artifact, or gives it another home.
    pub(super) fn put(&mut self, artifact: ArtifactId, home: u16) {
        let mut entry = [0u8; ENTRY_BYTES];
        entry[..16].copy_from_slice(artifact.0.as_bytes());
        entry[16..].copy_from_slice(&home.to_be_bytes());
        match self.search(artifact) {
            Ok(at) => self.packed[at * ENTRY_BYTES..(at + 1) * ENTRY_BYTES].copy_from_slice(&entry),
            Err(at) => {
                self.packed
                    .splice(at * ENTRY_BYTES..at * ENTRY_BYTES, entry);
            }
        }
    }

    /// Takes an artifact out.
    pub(super) fn remove(&mut self, artifact: ArtifactId) {
        if let Ok(at) = self.search(artifact) {
            self.packed.drain(at * ENTRY_BYTES..(at + 1) * ENTRY_BYTES);
        }
    }

    /// Gives spare memory back, once the initial set is complete.
    pub(super) fn shrink(&mut self) {
        self.packed.shrink_to_fit();
    }

    /// Allocated bytes.
    pub(super) fn bytes(&self) -> usize {
        self.packed.capacity()
    }

    fn search(&self, artifact: ArtifactId) -> Result<usize, usize> {
        let wanted: &Uuid = &artifact.0;
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            let found = &self.packed[middle * ENTRY_BYTES..middle * ENTRY_BYTES + 16];
            match found.cmp(wanted.as_bytes().as_slice()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn artifact(n: u8) -> ArtifactId {
        let mut bytes = [n.wrapping_mul(37); 16];
        bytes[15] = n | 1;
        bytes[0] = n;
        ArtifactId(Uuid::from_bytes(bytes).expect("not nil"))
    }

    proptest! {
        #[test]
        fn a_copy_behaves_as_an_ordered_map(ops in prop::collection::vec((0u8..40, any::<u16>(), any::<bool>()), 0..200)) {
            let mut copy = Copy::default();
            let mut model = BTreeMap::new();
            for (n, home, is_put) in ops {
                if is_put {
                    copy.put(artifact(n), home);
                    model.insert(artifact(n), home);
                } else {
                    copy.remove(artifact(n));
                    model.remove(&artifact(n));
                }
                prop_assert_eq!(copy.len(), model.len());
                for n in 0..40 {
                    prop_assert_eq!(copy.home(artifact(n)), model.get(&artifact(n)).copied());
                }
            }
        }
    }
}
