//! Owner attestations (NIP-OA): an owner key vouches for an agent key. What an attested agent may do does not belong here.

use sha2::{Digest, Sha256};

use super::{Event, Kind, PubKey, Signature, Tag, Verifier};
use crate::ids::UnixSeconds;

/// The largest number a `created_at` clause may name.
const CLAUSE_SECS_MAX: u64 = u32::MAX as u64;

/// A well-formed attestation. It proves nothing before [`Attestation::verify`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attestation {
    owner: PubKey,
    /// Exactly as signed.
    conditions: String,
    clauses: Vec<Clause>,
    sig: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Clause {
    Kind(Kind),
    CreatedBefore(UnixSeconds),
    CreatedAfter(UnixSeconds),
}

/// Why an attestation does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum OaError {
    /// More than one `auth` tag: none of them counts.
    #[error("more than one auth tag")]
    Repeated,
    /// Not `["auth", owner, conditions, signature]` with the canonical forms.
    #[error("malformed auth tag")]
    Malformed,
    /// A condition that NIP-OA does not define, or not in its canonical form.
    #[error("malformed auth condition")]
    Condition,
    /// The owner is the agent itself.
    #[error("auth owner is the author")]
    SelfOwned,
    /// The signature is not the owner's.
    #[error("auth signature does not verify")]
    BadSignature,
    /// A `created_at` clause does not hold.
    #[error("auth created_at condition does not hold")]
    CreatedAt,
    /// A `kind` clause does not hold.
    #[error("auth kind condition does not hold")]
    Kind,
}

/// Whether `kind=` clauses are judged: on an artifact revision they are, on a connection they are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KindClauses {
    /// Against this kind.
    Judge(Kind),
    /// Not at all.
    Ignore,
}

impl Attestation {
    /// Reads one `auth` tag.
    ///
    /// # Errors
    /// [`OaError::Malformed`] or [`OaError::Condition`].
    pub fn from_tag(tag: &Tag) -> Result<Attestation, OaError> {
        let [name, owner, conditions, sig] = tag.as_slice() else {
            return Err(OaError::Malformed);
        };
        if name != "auth" {
            return Err(OaError::Malformed);
        }
        Ok(Attestation {
            owner: owner.parse().map_err(|_| OaError::Malformed)?,
            conditions: conditions.clone(),
            clauses: read_conditions(conditions)?,
            sig: sig.parse().map_err(|_| OaError::Malformed)?,
        })
    }

    /// Reads the `x-auth-tag` header of an HTTP request: the tag as a JSON array.
    ///
    /// # Errors
    /// As [`Attestation::from_tag`].
    pub fn from_json(text: &str) -> Result<Attestation, OaError> {
        let tag: Tag = serde_json::from_str(text).map_err(|_| OaError::Malformed)?;
        Attestation::from_tag(&tag)
    }

    /// The attestation an event carries, if it carries one.
    ///
    /// # Errors
    /// [`OaError::Repeated`], or as [`Attestation::from_tag`].
    pub fn of_event(event: &Event) -> Result<Option<Attestation>, OaError> {
        let mut tags = event.tags_named("auth");
        match (tags.next(), tags.next()) {
            (None, _) => Ok(None),
            (Some(tag), None) => Attestation::from_tag(tag).map(Some),
            (Some(_), Some(_)) => Err(OaError::Repeated),
        }
    }

    /// The owner that vouches for `agent`, whose signed time is `created_at`.
    ///
    /// The event the attestation comes with must have been verified itself.
    ///
    /// # Errors
    /// [`OaError`], the first in the order of its variants.
    pub fn verify(
        &self,
        agent: &PubKey,
        created_at: UnixSeconds,
        kinds: KindClauses,
        verifier: &Verifier,
    ) -> Result<PubKey, OaError> {
        if self.owner == *agent {
            return Err(OaError::SelfOwned);
        }
        if !verifier.verifies(
            &signed_message(agent, &self.conditions),
            &self.owner,
            &self.sig,
        ) {
            return Err(OaError::BadSignature);
        }
        let in_time = |clause: &Clause| match clause {
            Clause::CreatedBefore(bound) => created_at < *bound,
            Clause::CreatedAfter(bound) => created_at > *bound,
            Clause::Kind(_) => true,
        };
        if !self.clauses.iter().all(in_time) {
            return Err(OaError::CreatedAt);
        }
        let of_kind = |clause: &Clause| match (clause, kinds) {
            (Clause::Kind(wanted), KindClauses::Judge(kind)) => *wanted == kind,
            _ => true,
        };
        if self.clauses.iter().all(of_kind) {
            Ok(self.owner)
        } else {
            Err(OaError::Kind)
        }
    }
}

/// What an owner signs to vouch for `agent` under `conditions`: SHA-256 of `nostr:agent-auth:<agent>:<conditions>`.
pub fn signed_message(agent: &PubKey, conditions: &str) -> [u8; 32] {
    Sha256::digest(format!("nostr:agent-auth:{agent}:{conditions}")).into()
}

fn read_conditions(conditions: &str) -> Result<Vec<Clause>, OaError> {
    if conditions.is_empty() {
        return Ok(Vec::new());
    }
    conditions
        .split('&')
        .map(|clause| read_clause(clause).ok_or(OaError::Condition))
        .collect()
}

fn read_clause(clause: &str) -> Option<Clause> {
    if let Some(digits) = clause.strip_prefix("kind=") {
        Some(Clause::Kind(Kind::try_from(decimal(digits)?).ok()?))
    } else if let Some(digits) = clause.strip_prefix("created_at<") {
        decimal(digits)
            .filter(|secs| *secs <= CLAUSE_SECS_MAX)
            .map(Clause::CreatedBefore)
    } else if let Some(digits) = clause.strip_prefix("created_at>") {
        decimal(digits)
            .filter(|secs| *secs <= CLAUSE_SECS_MAX)
            .map(Clause::CreatedAfter)
    } else {
        None
    }
}

/// A decimal without sign, blanks and leading zeros.
fn decimal(digits: &str) -> Option<u64> {
    let canonical = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    if canonical { digits.parse().ok() } else { None }
}
