// SPDX-License-Identifier: Apache-2.0
//! Hosts of two releases, as while a cluster is upgraded one host after the other.
//!
//! The newer one is made up: it speaks one version more than this build, with the same layouts.

use base::Rng;
use std::cell::RefCell;
use wire::Versions;

/// Seeds from here on may have hosts of two releases.
const RELEASES_FROM: u64 = 306_000_000;
/// The random numbers of which seeds these are.
const SEEDS_STREAM: u64 = 37;
/// Those of the starts of their hosts.
const STARTS_STREAM: u64 = 38;

/// Whether the hosts of a seed are of two releases: in half of the seeds.
pub(crate) fn are_mixed(seed: u64) -> bool {
    seed >= RELEASES_FROM && Rng::stream(seed, SEEDS_STREAM).below(2) == 0
}

/// Which release each start of a host is of.
pub(crate) struct Releases {
    is_mixed: bool,
    rng: RefCell<Rng>,
}

impl Releases {
    pub(crate) fn of(seed: u64, is_mixed: bool) -> Self {
        Self { is_mixed, rng: RefCell::new(Rng::stream(seed, STARTS_STREAM)) }
    }

    /// What a host speaks that starts now. A release may go back as well as forth.
    pub(crate) fn next(&self) -> Versions {
        let older = Versions::SPOKEN;
        let newer = Versions::new(older.min(), older.max() + 1).unwrap_or(older);
        let is_newer = self.is_mixed && self.rng.borrow_mut().below(2) == 0;
        if is_newer { newer } else { older }
    }
}
