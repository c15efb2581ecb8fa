// SPDX-License-Identifier: Apache-2.0
//! When copies move so that hosts are filled alike.

use base::Rng;
use host::BalanceOptions;
use std::time::Duration;

/// Seeds from here on have such moves, in one of two.
const BALANCE_FROM: u64 = 294_000_000;

/// They begin with little: volumes of a campaign take a small part of the devices.
pub(super) fn options(seed: u64) -> BalanceOptions {
    let mut rng = Rng::stream(seed, 30);
    if seed < BALANCE_FROM || rng.below(2) == 0 {
        return never();
    }
    let begin = 4 << rng.below(4);
    BalanceOptions {
        begin,
        end: rng.below(begin),
        full: 800,
        round: Duration::from_millis(500 << rng.below(3)),
        settle: Duration::from_millis(1000 << rng.below(3)),
    }
}

/// No copy moves for this.
pub(crate) fn never() -> BalanceOptions {
    BalanceOptions { begin: 1000, end: 1000, full: 1000, ..BalanceOptions::default() }
}

/// Whether copies move for this.
pub(crate) fn is_wanted(options: &BalanceOptions) -> bool {
    options.begin < 1000
}
