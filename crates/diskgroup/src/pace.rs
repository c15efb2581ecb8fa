// SPDX-License-Identifier: Apache-2.0
//! How fast destage goes and when appends wait for it: pure arithmetic (STORE.md section 4).
//!
//! Each appended block grants destage tokens by the buffer's fill: none below `low`, one at
//! `equilibrium`, 2.5 at `gate`. Above the gate appends are paid from destage's progress instead.
//! No integral term and no timers, hence no oscillation. All fills are in thousandths.

/// Thousandths of a block.
const UNIT: i64 = 1000;
/// Tokens that may be saved up: one default segment of blocks.
const CREDIT_MAX: i64 = 1024 * UNIT;
/// The part of its depth that destage uses while it keeps up: one in so many.
const DEPTH_SHARE: usize = 3;
/// Appends that may be paid in advance above the gate, one commit of 1 MiB.
const ALLOWANCE_MAX: i64 = 256 * UNIT;

/// See the module.
#[derive(Debug)]
pub(crate) struct Pace {
    low: i64,
    equilibrium: i64,
    gate: i64,
    full: i64,
    credit: i64,
    allowance: i64,
}

impl Pace {
    /// For a ring of `segments`. The reserve above the gate holds several segments also in small
    /// rings.
    pub(crate) fn new(segments: u32) -> Self {
        let n = i64::from(segments);
        let without = |spare: i64| (n - spare).max(1) * 1000 / n;
        Self {
            low: 800.min(without(6)),
            equilibrium: 880.min(without(5)),
            gate: 950.min(without(4)),
            full: 980.min(without(3)),
            credit: 0,
            allowance: 0,
        }
    }

    /// Tokens per appended block, thousandths.
    fn rate(&self, fill: i64) -> i64 {
        let line = |from: i64, to: i64, low: i64, high: i64| {
            low + (high - low) * (fill - from) / (to - from).max(1)
        };
        match fill {
            f if f <= self.low => 0,
            f if f <= self.equilibrium => line(self.low, self.equilibrium, 0, UNIT),
            f if f <= self.gate => line(self.equilibrium, self.gate, UNIT, 2500),
            _ => 2500,
        }
    }

    /// `blocks` went into the log.
    pub(crate) fn appended(&mut self, blocks: i64, fill: i64) {
        self.credit = (self.credit + blocks * self.rate(fill)).min(CREDIT_MAX);
        if fill >= self.gate {
            self.allowance -= blocks * UNIT;
        } else {
            self.allowance = 0;
        }
    }

    /// Destage dealt with `blocks` of the log.
    pub(crate) fn destaged(&mut self, blocks: i64, fill: i64) {
        self.credit = (self.credit - blocks * UNIT).max(-CREDIT_MAX);
        let span = (self.full - self.gate).max(1);
        let over = (fill - self.gate).clamp(0, span);
        let factor = 1600 - 800 * over / span;
        self.allowance = (self.allowance + blocks * factor).min(ALLOWANCE_MAX);
    }

    /// Whether destage may write now.
    pub(crate) fn may_destage(&self, fill: i64) -> bool {
        fill >= self.gate || (fill > self.low && self.credit > 0)
    }

    /// Writes of destage in flight, at most `most`. Each commit of the log waits behind them on a
    /// shared disk, so they are few while destage keeps up and all when it does not.
    pub(crate) fn depth(&self, fill: i64, most: usize) -> usize {
        let few = most.div_ceil(DEPTH_SHARE);
        let span = (self.gate - self.equilibrium).max(1);
        let over = (fill - self.equilibrium).clamp(0, span);
        few + (most - few) * usize::try_from(over).unwrap_or(0) / usize::try_from(span).unwrap_or(1)
    }

    /// How far the fill may rise before appends stand still, thousandths.
    pub(crate) fn room(&self, fill: i64) -> i64 {
        (self.full - fill).max(0)
    }

    /// Whether destage goes on segment by segment.
    pub(crate) fn is_steady(&self, fill: i64) -> bool {
        fill > self.low
    }

    /// Whether a commit may be written now.
    pub(crate) fn may_append(&self, fill: i64) -> bool {
        fill < self.gate || (fill < self.full && self.allowance > 0)
    }

    /// Whether appends are held back: what blocks destage must be moved out of its way.
    pub(crate) fn is_pressed(&self, fill: i64) -> bool {
        fill >= self.gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_settles_between_equilibrium_and_gate() {
        // A destager that uses every token, and one that is slower than the appends.
        for cost in [1, 3] {
            let mut pace = Pace::new(256);
            let (mut fill_blocks, total) = (0_i64, 256 * 1024);
            let (mut appended, mut turn) = (0, 0);
            while turn < 2_000_000 {
                turn += 1;
                let fill = fill_blocks * 1000 / total;
                if pace.may_append(fill) {
                    pace.appended(1, fill);
                    fill_blocks += 1;
                    appended += 1;
                }
                if turn % cost == 0 && pace.may_destage(fill) && fill_blocks > 0 {
                    pace.destaged(1, fill);
                    fill_blocks -= 1;
                }
                assert!(fill_blocks < total, "the buffer overflows");
            }
            let fill = fill_blocks * 1000 / total;
            assert!((860..=985).contains(&fill), "cost {cost}: fill {fill}");
            assert!(appended > turn / (cost + 1), "cost {cost}: {appended} of {turn}");
        }
    }
}
