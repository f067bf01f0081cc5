//! A client that follows the rules, and the names of what can be broken. What is due to it is decided in `play`.

use std::collections::BTreeMap;
use std::fmt;

use super::world::*;
use crate::sync::Ending;

/// What was broken and how it showed.
#[derive(Clone, Debug)]
pub(super) struct Breach {
    pub(super) invariant: &'static str,
    detail: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

pub(super) type Verdict = Result<(), Breach>;

pub(super) fn breach(invariant: &'static str, detail: impl Into<String>) -> Verdict {
    Err(Breach {
        invariant,
        detail: detail.into(),
    })
}

pub(super) fn must(holds: bool, invariant: &'static str, detail: impl Fn() -> String) -> Verdict {
    if holds {
        Ok(())
    } else {
        breach(invariant, detail())
    }
}

/// A client that follows the rules, and what it was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    /// Its set: each artifact with the number of the revision it holds; before EOSE what has arrived of it.
    pub(super) holds: BTreeMap<Art, usize>,
    pub(super) has_eose: bool,
    pub(super) closed: Option<Ending>,
    /// The newest revision it was told about, for each artifact.
    newest: BTreeMap<Art, usize>,
    /// Everything it was told, in order.
    pub(super) heard: Vec<Said>,
}

impl Client {
    /// Hears one event and applies it.
    pub(super) fn take(&mut self, truth: &Truth, said: Said) -> Verdict {
        let newest = self.newest.entry(said.artifact()).or_insert(said.number());
        must(said.number() >= *newest, "NEVER-OLDER", || {
            format!("{said:?} after {newest}")
        })?;
        *newest = said.number();
        self.heard.push(said);
        match said {
            Said::Head { artifact, number } => {
                let revision = truth.chains[&artifact][number];
                let belongs =
                    !revision.is_deletion && revision.is_wanted && NAMED.contains(&revision.home);
                if belongs {
                    self.holds.insert(artifact, number);
                } else {
                    self.holds.remove(&artifact);
                }
            }
            Said::Removal { artifact, .. } => {
                must(self.has_eose, "ORDER", || "a removal before EOSE".into())?;
                self.holds.remove(&artifact);
            }
        }
        Ok(())
    }
}
