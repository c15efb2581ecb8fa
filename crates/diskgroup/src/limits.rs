// SPDX-License-Identifier: Apache-2.0
//! Bounds of lists, steps and parallelism of a disk group.

use base::{BLOCK_SECTORS, CHUNK_BLOCKS, CHUNK_SECTORS};

/// Bounds that production never meets with small volumes. Only tests change them. Each is at least
/// 1, unless its field says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Chunks that one list of changes looks at, 1024 at most: a page of the answer has so many.
    pub list_chunks: u64,
    /// Ranges that one list of changes has, about: the chunk that crosses it is finished.
    pub list_ranges: usize,
    /// Looks into index and history for one list of changes, about. In production as many as 64
    /// chunks take that the log holds blocks of. A look is 0.1 us, so that a list takes 2 ms.
    pub list_looks: u64,
    /// Blocks that the history of what was destaged remembers at most: 40 MiB of memory for the
    /// million of production. It has no more than the log has either.
    pub history_blocks: u64,
    /// Chunks of one leaf of the chunk map, as a power of two: 6 at most.
    pub leaf_bits: u32,
    /// Sectors of one step of scrub, whole blocks of one chunk. In production 128 KiB: longer reads
    /// hold the log's writes up (docs/store.md, "Destage and pace").
    pub scrub_sectors: u64,
    /// Chunks without data that one step of scrub passes over, at most: a bound of its time.
    pub scrub_passed: u64,
    /// Chunks of a deleted component, and blocks of theirs in the log, that are looked at between
    /// two rests.
    pub deleted_chunks: u64,
    /// Chunks that are given back to the device at a time, so that a deleted component does not
    /// hold destage up.
    pub reclaimed_chunks: usize,
    /// Pages that a checkpoint encodes between two rests.
    pub checkpoint_pages: usize,
    /// Pages that a checkpoint has in memory for their images: 2 MiB with these. Each such band has
    /// a flush of its own, so the band is not smaller than that in production.
    pub band_pages: usize,
    /// Bytes of records that a half of the journal takes, unless its size says less. One record is
    /// always taken.
    pub half_bytes: u64,
    /// The most segments that the sweep of a hybrid group gathers.
    pub sweep_segments: usize,
    /// Fills of the read cache, from the read of capacity to the write of the slots. What would be
    /// one more is only read. The 16 of production hold 16 MiB at most.
    pub fills: usize,
    /// Headers of the read cache in one batch that are out of date: so many lines a second keep
    /// warm.
    pub header_lines: usize,
    /// Sectors that are read in a row before the rest counts as a stream. In production 256 KiB,
    /// more than any single request of a random load.
    pub stream_sectors: u64,
    /// A stream has checksums of what it comes to loaded ahead, in one so many-th of the pages that
    /// its device may hold. In production that leaves each stream room that is followed.
    pub ahead_part: usize,
    /// Blocks of the smallest append that is a direct write: its data goes to capacity at once.
    /// More than a chunk has: none is. In production 256 KiB: for less the write of the log that it
    /// saves costs less than what its own requests cost.
    pub direct_blocks: u64,
    /// Chunks of a device that direct writes leave to others, beyond a sixteenth of them: half as
    /// many again as owners leave free.
    pub direct_spare: u64,
    /// Chunks of a device that direct writes left and whose space is kept for the next ones, at
    /// most; 0: none. A load that goes on takes as many as it leaves, so a few lots of destage are
    /// enough. What a full log leaves when it drains is more, and most of that goes back.
    pub stock_chunks: usize,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self {
            list_chunks: 1024,
            list_ranges: 4096,
            list_looks: 64 * CHUNK_BLOCKS,
            history_blocks: 1 << 20,
            leaf_bits: 6,
            scrub_sectors: 256,
            scrub_passed: 4096,
            deleted_chunks: 1024,
            reclaimed_chunks: 256,
            checkpoint_pages: 64,
            band_pages: 256,
            half_bytes: u64::MAX,
            sweep_segments: 8,
            fills: 16,
            header_lines: 256,
            stream_sectors: 512,
            ahead_part: 16,
            direct_blocks: 64,
            direct_spare: 24,
            stock_chunks: 256,
        }
    }
}

impl GroupLimits {
    /// Asserts that each limit is within its bounds.
    pub(crate) fn check(&self) {
        assert!((1..=1024).contains(&self.list_chunks), "chunks of a list that fits a frame");
        assert!(self.leaf_bits <= 6, "bits of a leaf");
        let is_whole = self.scrub_sectors.is_multiple_of(BLOCK_SECTORS);
        let is_step = is_whole && (1..=CHUNK_SECTORS).contains(&self.scrub_sectors);
        assert!(is_step, "sectors of a step of scrub");
        let numbers = self.list_looks.min(self.history_blocks);
        let numbers = numbers.min(self.half_bytes).min(self.scrub_passed);
        let numbers = numbers.min(self.deleted_chunks).min(self.direct_blocks);
        let counts = self.list_ranges.min(self.reclaimed_chunks).min(self.checkpoint_pages);
        let counts = counts
            .min(self.band_pages)
            .min(self.sweep_segments)
            .min(self.fills)
            .min(self.header_lines)
            .min(self.ahead_part);
        assert!(numbers > 0 && counts > 0, "a limit that lets nothing pass: {self:?}");
    }
}
