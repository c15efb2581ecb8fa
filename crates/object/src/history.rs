// SPDX-License-Identifier: Apache-2.0
//! Whether a record can be of the history that a component knows of (rule 25).
//!
//! A directory that is set back to a backup begins another history: claims raise version and term
//! of the old record, and after some of them its numbers are above all that components saw. So
//! numbers alone prove nothing. A record lists the claims that it descends from; a component
//! knows one of them by its term and owner, and how far the record had come in it.

use base::{Term, Version};
use directory::{Claim, ObjectRecord, OwnerRecord};
use diskgroup::{ComponentInfo, ComponentMeta, Description};
use std::cmp::Ordering;

/// Versions that a record leaps over when it is made anew of what the components say. Claims of a
/// record that went back in time raise it by one each, far fewer in all.
pub const ADOPTION_LEAP: u64 = 1 << 20;

/// What a component knows of its record.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// By the fences that it answered: versions rise with terms, but a deposed owner that lets go
    /// tells a term and no version.
    pub meta: ComponentMeta,
    /// Version and term of the newest record that its host saw, by its description.
    pub about: Option<(Version, Term)>,
    /// The same of the newest one of a term up to that in which the component was fenced, where
    /// the newest of all is of a later one.
    pub part: Option<(Version, Term)>,
    /// Its record was older than this once.
    pub went_back: bool,
}

impl Known {
    /// What a component knows that stands so in its row, and is described so.
    #[must_use]
    pub fn new(info: &ComponentInfo, said: Option<&Description>) -> Self {
        Self {
            meta: info.meta,
            about: said.map(|said| (said.version, said.term)),
            part: said.and_then(|said| said.part),
            went_back: info.went_back,
        }
    }

    /// What the description of `record` has to keep of what the one before said, as
    /// [`Description::part`].
    #[must_use]
    pub fn part_beside(&self, record: &ObjectRecord) -> Option<(Version, Term)> {
        let now = (record.version, record.term);
        let seen = [self.part, self.about, Some(now)].into_iter().flatten();
        let part = seen.filter(|(_, term)| *term <= self.meta.term).max();
        part.filter(|(version, _)| *version < record.version)
    }

    /// The highest version.
    #[must_use]
    pub fn version(&self) -> Version {
        let about = self.about.map_or(Version(0), |(version, _)| version);
        about.max(self.meta.version)
    }

    /// Whether `record`, read after all this was known, can only be of a directory that was set
    /// back to what it held before.
    #[must_use]
    pub fn is_after(&self, record: &ObjectRecord) -> bool {
        let now = (record.version, record.term);
        record.version < self.meta.version
            || self.about.is_some_and(|seen| is_of_before(seen, self.went_back, now))
            || self.is_of_other(record)
    }

    /// Whether `record` is of another history than what the component saw.
    #[must_use]
    pub fn is_of_other(&self, record: &ObjectRecord) -> bool {
        self.is_other(record.version, &record.claims)
    }

    /// Whether a record of `version` that descends from `claims` does not descend from what the
    /// component saw. `version` may be behind what its host saw: news come in any order.
    pub(crate) fn is_other(&self, version: Version, claims: &[Claim]) -> bool {
        let fenced = (self.meta.version, self.meta.term);
        let owner =
            OwnerRecord { shard: self.meta.owner_shard, incarnation: self.meta.owner_incarnation };
        let is_fenced = self.meta.term > Term(0);
        let had_begun =
            |seen: (Version, Term)| began(claims, seen.0).is_none_or(|c| c.term <= seen.1);
        let is_same =
            |seen: (Version, Term)| began(claims, seen.0).is_none_or(|c| c.term == seen.1);
        let of_term = claims.iter().rev().find(|claim| claim.term <= self.meta.term);
        let is_of_owner = of_term.is_none_or(|c| c.term == self.meta.term && c.owner == owner);
        let is_known = |seen| had_begun(seen) && (seen.0 > version || is_same(seen));
        (is_fenced && !(had_begun(fenced) && is_of_owner))
            || [self.about, self.part].into_iter().flatten().any(|seen| !is_known(seen))
    }
}

/// The claim in whose term a record of `version` was; `None`: before all that are listed.
fn began(claims: &[Claim], version: Version) -> Option<&Claim> {
    claims.iter().rev().find(|claim| claim.version <= version)
}

/// Whether a record of version and term `now` is older than one that was `seen` (rule 25), by the
/// numbers. Versions and terms rise together in one history, and one version has one term. Where
/// it `went_back` once, only one that was made anew is believed.
#[must_use]
fn is_of_before(seen: (Version, Term), went_back: bool, now: (Version, Term)) -> bool {
    let is_other = match now.0.cmp(&seen.0) {
        Ordering::Less => true,
        Ordering::Equal => now.1 != seen.1,
        Ordering::Greater => now.1 < seen.1,
    };
    is_other || (went_back && !is_made_anew(seen.0, now.0))
}

/// Whether a record of version `now` was made anew of what components say, after `seen`.
pub(crate) fn is_made_anew(seen: Version, now: Version) -> bool {
    now.0 >= seen.0.saturating_add(ADOPTION_LEAP / 2)
}

#[cfg(test)]
mod tests;
