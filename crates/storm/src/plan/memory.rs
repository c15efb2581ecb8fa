// SPDX-License-Identifier: Apache-2.0
//! How much memory each host has for its disk groups: for some no page and no byte more than they
//! cannot do without. Hosts of one cluster differ.

use super::{Plan, small};
use base::Rng;

/// The first seed in which hosts are short of memory.
const MEMORY_FIRST: u64 = 270_000_000;

/// What one host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// Checksum pages.
    pub pages: HostPages,
    /// Tables have as much as its groups need, and no byte more. Otherwise they have plenty.
    pub is_tight: bool,
}

/// How many checksum pages a host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostPages {
    /// What the plan says for each device.
    #[default]
    Plan,
    /// The least that a configuration may say.
    LeastSaid,
    /// One for each of its devices.
    Least,
}

/// Draws it for each host of the later seeds, apart from all else.
pub(super) fn draw(plan: &mut Plan) {
    if plan.seed < MEMORY_FIRST {
        return;
    }
    let mut rng = Rng::stream(plan.seed, 23);
    let pages = [HostPages::Plan, HostPages::Plan, HostPages::LeastSaid, HostPages::Least];
    let draw = |_| HostMemory {
        pages: pages[small::index(&mut rng, pages.len())],
        is_tight: rng.below(2) == 0,
    };
    plan.limits.memory = (0..plan.hosts).map(draw).collect();
}
