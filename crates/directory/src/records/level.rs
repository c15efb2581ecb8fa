// SPDX-License-Identifier: Apache-2.0
//! What releases know: a cluster uses what is new once all of its hosts know it.

use super::error::{RecordError, ensure};
use super::json::OTHER_FORMAT;
use std::fmt::{self, Display, Formatter};

/// The format of the record of a cluster above the first level, whatever else it has.
pub const FORMAT_CLUSTER_LEVEL: u32 = 3;
/// The format of the record of a host that runs and knows more than the first level.
pub const FORMAT_ALIVE_LEVEL: u32 = 2;

/// What a release knows of all that it shares with others: the formats of records, and what they
/// stand for. Each release that adds a format of a record has the next level; one of a lower level
/// cannot read such a record (`docs/formats/directory-records.md`).
///
/// A cluster has a level too. It is at most that of each of its hosts, so that a host can go back
/// to the release before until an operator raises it (`gabion cluster upgrade`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u32);

impl Level {
    /// All formats up to 27 November 2026. Records that name no level are of this one.
    pub const FIRST: Self = Self(1);
    /// Labels of volumes ([`super::FORMAT_LABELS`]).
    pub const LABELS: Self = Self(2);
    /// One writing host at a time ([`super::FORMAT_WRITERS`], [`super::FORMAT_WRITER`]).
    pub const WRITERS: Self = Self(3);
    /// Volumes that are kept on one host ([`super::FORMAT_AFFINITY`]), and policies that say so.
    pub const AFFINITY: Self = Self(4);
    /// Volumes for which read cache is kept ([`super::FORMAT_CACHE`]), and policies that say so.
    pub const CACHE: Self = Self(5);
    /// A cluster whose kind changes, and disk groups of the other kind: hosts of before end where
    /// the cluster is not what they were told.
    pub const KINDS: Self = Self(6);
    /// Tokens for the API ([`super::AccessRecord`]).
    pub const ACCESS: Self = Self(7);
    /// Links between shards that are encrypted ([`super::FORMAT_ENCRYPT_LINKS`]).
    pub const LINKS: Self = Self(8);
    /// What this release knows.
    pub const NEWEST: Self = Self::LINKS;

    /// A level of this number, also one of later releases; `None` for zero.
    #[must_use]
    pub fn new(number: u32) -> Option<Self> {
        (number > 0).then_some(Self(number))
    }

    /// Its number, 1 and up.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    /// As records store it: nothing for the first one.
    pub(super) fn stored(self) -> Option<u32> {
        (self > Self::FIRST).then_some(self.0)
    }
}

/// That of this release.
impl Default for Level {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl Display for Level {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, to)
    }
}

/// Whether a stored level is there where the format has one, and only there.
pub(super) fn check_level(stored: Option<u32>, has_level: bool) -> Result<(), RecordError> {
    let is_above = stored.and_then(Level::new).is_some_and(|level| level > Level::FIRST);
    let is_right = if has_level { is_above } else { stored.is_none() };
    ensure(is_right, "level", OTHER_FORMAT)
}

/// The level of a record that [`check_level`] found well.
pub(super) fn level_of(stored: Option<u32>) -> Level {
    stored.and_then(Level::new).unwrap_or(Level::FIRST)
}
