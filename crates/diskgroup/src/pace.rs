// SPDX-License-Identifier: Apache-2.0
//! How fast destage goes and when appends wait for it: pure arithmetic (docs/store.md).
//!
//! The *fill* is the part of the log's ring that is in use, or of its index if that is more, in
//! thousandths. What destage has written counts as free. What happens depends on the fill alone;
//! [`Levels`] names the fills at which something changes.
//!
//! - **The fill counts blocks.** A block that destage has written counts as free at once, although
//!   its segment is freed later ([`Pace::done`]). Segments are freed whole and several at a time:
//!   if the fill counted segments it would stand still for seconds of a magnetic disk and then
//!   jump. Whether there is room in the ring is another question. The log itself looks at that,
//!   and the levels leave enough room for the jumps.
//! - **Appends pay for destage.** Each appended block grants destage tokens: none below `low`, one
//!   at `equilibrium`, 2.5 at `gate`. Above the gate destage goes as fast as it can.
//! - **Above the gate appends pay with time.** A block of data costs `x / rate`. x rises with the
//!   fill: 0 at the gate, 1 at `target`, and about 2 at `full` (down to 1.5 in small rings of
//!   hybrid groups, whose levels lie closer). The rate is that of destage, measured lately while
//!   only its devices held it up.
//! - **Above `target` commits keep a distance**, so that each carries more behind its header.
//! - **No commit waits longer** than [`WAIT_MAX`] for this. At `full` appends stand still.
//!
//! What follows: when clients offer more than capacity takes, the fill comes to rest at `target`.
//! It does so from either side and without a swing, since appends slow down as x rises. When they
//! offer less, nobody waits unless x is above destage's rate divided by theirs. A pause of destage,
//! for a journal record or a checkpoint, costs a little fill and nobody's time.

use base::Instant;
use std::time::Duration;

/// Thousandths of a block.
const UNIT: i64 = 1000;
/// The most tokens that may be saved up: the blocks of one segment of the default size.
const CREDIT_MAX: i64 = 1024 * UNIT;
/// While destage keeps up it has one in so many of its writes in flight.
const DEPTH_SHARE: usize = 3;
/// Segments that the log keeps free, whatever is appended.
const KEPT_SEGMENTS: i64 = 3;
/// Segments below those that small rings have free at `low`, `equilibrium`, `gate`, `target` and
/// `full`.
const SPARES: [i64; 5] = [5, 4, 3, 2, 1];
/// Likewise where a sweep goes over several segments.
const SPARES_OF_SWEEP: [i64; 5] = [8, 7, 6, 4, 3];
/// The most time that appends may have saved up. A burst of this length is as fast as below the
/// gate.
const SAVED_MAX: Duration = Duration::from_millis(100);
/// The longest that one commit makes the next one wait. What larger appends should have waited is
/// left to the fill.
const WAIT_MAX: Duration = Duration::from_millis(150);
/// Above the gate a commit takes about as much as is destaged in this time, so that its appends do
/// not all come at once.
const COMMIT_NS: u64 = 20_000_000;
/// But so many blocks at least: its header takes one.
const COMMIT_BLOCKS_MIN: u64 = 4;
/// A header takes room as a block of data does, and costs capacity nothing. So a log of single
/// blocks fills faster than it should. Above the target the pause between commits is the time of
/// this many blocks, times `x - 1`; each commit carries what comes meanwhile.
const SPACE_BLOCKS: u64 = 20;
/// Blocks that destage deals with in a row before their time counts.
const SAMPLE_BLOCKS: u64 = 64;
/// After two samples in a row that are this many times as slow as the average, the average is
/// dropped and begins anew.
const SLOW_TIMES: u128 = 2;
/// When the average covers more busy time than this, both of its sums are halved.
const HORIZON_NS: u64 = 10_000_000_000;

/// A part of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferPart {
    /// Of the ring.
    pub(crate) bytes: u64,
    /// Blocks of data in it, superseded ones too.
    pub(crate) data: u64,
}

/// What destage is about.
#[derive(Debug, Default)]
struct Work {
    all: BufferPart,
    /// To be written for that, and what of it is.
    writes: u64,
    written: u64,
}

impl Work {
    /// What is done.
    fn done(&self) -> BufferPart {
        let part = |all: u64| {
            let part = u128::from(all) * u128::from(self.written) / u128::from(self.writes.max(1));
            u64::try_from(part).unwrap_or(all)
        };
        BufferPart { bytes: part(self.all.bytes), data: part(self.all.data) }
    }
}

/// How fast destage gets on while only its devices hold it up.
#[derive(Debug, Default)]
struct Drain {
    blocks: u64,
    ns: u64,
    /// Of what goes on: it counts once it is long enough.
    sample: (u64, u64),
    /// The last one that counted, if it was far slower than those before.
    slow: Option<(u64, u64)>,
    /// Since when it is on the next blocks; `None`: it rests.
    since: Option<Instant>,
}

impl Drain {
    fn took(&mut self, now: Instant, blocks: u64) {
        let ns = self.since.replace(now).map_or(0, |since| nanos(now.since(since)));
        self.sample = (self.sample.0 + blocks, self.sample.1 + ns);
        if self.sample.0 < SAMPLE_BLOCKS {
            return;
        }
        let sample = std::mem::take(&mut self.sample);
        // One may have met a checkpoint. After two in a row the load is another: after a stream a
        // magnetic disk seems a hundred times as fast as it is for what comes now.
        let is_slow = u128::from(sample.1) * u128::from(self.blocks)
            > SLOW_TIMES * u128::from(self.ns) * u128::from(sample.0);
        let before = self.slow.take();
        if let Some(before) = before.filter(|_| is_slow) {
            (self.blocks, self.ns) = before;
        }
        self.slow = is_slow.then_some(sample);
        self.blocks += sample.0;
        self.ns += sample.1;
        if self.ns > HORIZON_NS {
            self.ns /= 2;
            self.blocks = self.blocks.div_ceil(2);
        }
    }

    /// Nanoseconds per block, silence since the last one included; 0 where nothing is known.
    fn block_ns(&self, now: Instant) -> u64 {
        let silence = self.since.map_or(0, |since| nanos(now.since(since)));
        (self.ns + self.sample.1 + silence).checked_div(self.blocks).unwrap_or(0)
    }
}

/// Fills at which something changes, thousandths.
#[derive(Debug)]
struct Levels {
    low: i64,
    equilibrium: i64,
    gate: i64,
    target: i64,
    full: i64,
    /// Where the log itself finds no room.
    end: i64,
}

impl Levels {
    /// In small rings the levels keep their distances in segments: above `target` there is room for
    /// what is freed late. In tiny ones the distances shrink.
    fn new(segments: u32, spares: [i64; 5]) -> Self {
        let n = i64::from(segments);
        let usable = (n - KEPT_SEGMENTS).max(1);
        let least = 2 * spares[0];
        let without =
            |spare: i64| (usable * least - spare * usable.min(least)) * 1000 / (n * least);
        Self {
            low: 800.min(without(spares[0])),
            equilibrium: 880.min(without(spares[1])),
            gate: 950.min(without(spares[2])),
            target: 965.min(without(spares[3])),
            full: 980.min(without(spares[4])),
            end: without(0),
        }
    }

    /// Between the gate and the target.
    fn span(&self) -> u64 {
        u64::try_from(self.target - self.gate).unwrap_or(0).max(1)
    }
}

/// When a commit may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Now,
    /// Then, if nothing changes.
    At(Instant),
    /// Not before destage has made room.
    Never,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pace {
    levels: Levels,
    credit: i64,
    /// Above the gate the next commit may be written when what was written is paid for, and not
    /// too soon behind the last one.
    paid: Instant,
    spaced: Instant,
    work: Work,
    /// See [`Pace::done`].
    done: u64,
    /// Blocks that destage has written and the index still holds.
    indexed: u64,
    drain: Drain,
}

impl Pace {
    /// For a ring of `segments`.
    pub(crate) fn new(segments: u32) -> Self {
        let levels = Levels::new(segments, SPARES);
        let (drain, work, paid, spaced) = Default::default();
        Self { levels, credit: 0, paid, spaced, work, done: 0, indexed: 0, drain }
    }

    /// From now on several segments are destaged at a time, which needs more room in the ring.
    pub(crate) fn make_room(&mut self, segments: u32) {
        self.levels = Levels::new(segments, SPARES_OF_SWEEP);
    }

    /// Tokens per appended block, thousandths.
    fn rate(&self, fill: i64) -> i64 {
        let line = |from: i64, to: i64, low: i64, high: i64| {
            low + (high - low) * (fill - from) / (to - from).max(1)
        };
        match fill {
            f if f <= self.levels.low => 0,
            f if f <= self.levels.equilibrium => {
                line(self.levels.low, self.levels.equilibrium, 0, UNIT)
            }
            f if f <= self.levels.gate => {
                line(self.levels.equilibrium, self.levels.gate, UNIT, 2500)
            }
            _ => 2500,
        }
    }

    /// `blocks` were appended to the log.
    pub(crate) fn appended(&mut self, blocks: i64, fill: i64) {
        self.credit = (self.credit + blocks * self.rate(fill)).min(CREDIT_MAX);
    }

    /// Destage has taken `blocks` of the log in hand.
    pub(crate) fn destaged(&mut self, blocks: i64) {
        self.credit = (self.credit - blocks * UNIT).max(-CREDIT_MAX);
    }

    /// Destage begins with a part of the log, of which it has to write so many blocks.
    pub(crate) fn begin(&mut self, now: Instant, all: BufferPart, writes: u64) {
        self.complete(now);
        self.work = Work { all, writes, written: 0 };
        if writes == 0 {
            self.complete(now);
        }
    }

    /// So many of these blocks are written.
    pub(crate) fn finished(&mut self, now: Instant, writes: u64) {
        self.indexed += writes;
        let before = self.work.done();
        self.work.written = (self.work.written + writes).min(self.work.writes);
        let after = self.work.done();
        self.done += after.bytes - before.bytes;
        self.drain.took(now, after.data - before.data);
    }

    /// The whole part of the log is done: its blocks, and what else was in it.
    fn complete(&mut self, now: Instant) {
        let before = self.work.done();
        let work = std::mem::take(&mut self.work);
        self.done += work.all.bytes - before.bytes;
        self.drain.took(now, work.all.data - before.data);
    }

    /// The index has forgotten the blocks that were written.
    pub(crate) fn forgotten(&mut self) {
        self.indexed = 0;
    }

    /// So many bytes of the ring became free.
    pub(crate) fn freed(&mut self, now: Instant, bytes: u64) {
        self.complete(now);
        self.done = self.done.saturating_sub(bytes);
    }

    /// Bytes of the ring that are in use but count as free: destage has written what they hold.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Blocks of the index that count as gone, for the same reason.
    pub(crate) fn indexed(&self) -> u64 {
        self.indexed
    }

    /// Destage begins to wait for something else than its devices. That time says nothing of them.
    pub(crate) fn rest(&mut self) {
        self.drain.since = None;
        self.drain.sample = (0, 0);
    }

    /// Destage goes on.
    pub(crate) fn go_on(&mut self, now: Instant) {
        self.drain.since = Some(now);
    }

    /// Whether destage may write now.
    pub(crate) fn may_destage(&self, fill: i64) -> bool {
        fill >= self.levels.gate || (fill > self.levels.low && self.credit > 0)
    }

    /// Writes of destage in flight, at most `most`. Each commit of the log waits behind them on a
    /// shared disk, so they are few while destage keeps up and all when it does not.
    pub(crate) fn depth(&self, fill: i64, most: usize) -> usize {
        let few = most.div_ceil(DEPTH_SHARE);
        let span = (self.levels.gate - self.levels.equilibrium).max(1);
        let over = (fill - self.levels.equilibrium).clamp(0, span);
        few + (most - few) * usize::try_from(over).unwrap_or(0) / usize::try_from(span).unwrap_or(1)
    }

    /// How much of the ring is left, thousandths, once appends have filled it to the target.
    pub(crate) fn room(&self, fill: i64) -> u64 {
        u64::try_from(self.levels.end - fill.max(self.levels.target)).unwrap_or(0)
    }

    /// Whether there is enough in the log for destage to go on without a pause.
    pub(crate) fn is_steady(&self, fill: i64) -> bool {
        fill > self.levels.low
    }

    /// Nanoseconds that a block of data costs.
    fn cost_ns(&self, now: Instant, fill: i64) -> u64 {
        let levels = &self.levels;
        let over = u64::try_from(fill - levels.gate).unwrap_or(0);
        self.drain.block_ns(now).saturating_mul(over) / levels.span()
    }

    /// Nanoseconds between two commits.
    fn space_ns(&self, now: Instant, fill: i64) -> u64 {
        let levels = &self.levels;
        let over = u64::try_from(fill - levels.target).unwrap_or(0);
        let space = self.drain.block_ns(now).saturating_mul(SPACE_BLOCKS * over) / levels.span();
        space.min(COMMIT_NS)
    }

    /// A commit with so many blocks of data is about to be written.
    pub(crate) fn charge(&mut self, now: Instant, blocks: u64, fill: i64) {
        let cost = self.cost_ns(now, fill).saturating_mul(blocks);
        let paid = self.paid.max(now - SAVED_MAX) + Duration::from_nanos(cost);
        self.paid = paid.min(now + WAIT_MAX);
        self.spaced = now + Duration::from_nanos(self.space_ns(now, fill));
    }

    /// When a commit may be written.
    pub(crate) fn admission(&self, now: Instant, fill: i64) -> Admission {
        let due = self.paid.max(self.spaced);
        match fill {
            f if f >= self.levels.full => Admission::Never,
            f if f >= self.levels.gate && due > now => Admission::At(due),
            _ => Admission::Now,
        }
    }

    /// Blocks of data that one commit takes, at most.
    pub(crate) fn commit_blocks(&self, now: Instant, fill: i64) -> u64 {
        let most = COMMIT_NS.checked_div(self.cost_ns(now, fill));
        most.map_or(u64::MAX, |most| most.max(COMMIT_BLOCKS_MIN))
    }

    /// Whether appends are held back: what blocks destage must be moved out of its way.
    pub(crate) fn is_pressed(&self, fill: i64) -> bool {
        fill >= self.levels.gate
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
