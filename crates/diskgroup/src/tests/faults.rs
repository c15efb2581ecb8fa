// SPDX-License-Identifier: Apache-2.0
//! Devices that fail, lie and rot, under the random load.
//!
//! What is promised differs by what goes wrong. After errors, pauses and slowness nothing at all
//! is lost. Damaged data is named, and nothing but what was hit is. Damage that looks like the torn
//! end of something (the log's last commit, the journal's last record, a page of a row) may
//! take what is newest back to what was there before; it never brings what was never written.

use super::campaign::{Case, Signs};
use super::*;
use format::{CapacityLayout, DeviceKind, Superblock};
use sim::DiskFault;

/// Where on the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Area {
    Superblock,
    Log,
    Summary,
    Table,
    Journal,
    Map,
    Crc,
    Chunks,
    /// Of a hybrid group: what says what lines hold, and what they hold.
    Headers,
    Lines,
}

/// How much is promised of what is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Promise {
    /// All of it.
    All,
    /// Right, or named as bad: at most so many blocks.
    Named(usize),
    /// Something that was written once, or named as bad.
    Older,
}

const AREAS: [Area; 10] = [
    Area::Superblock,
    Area::Log,
    Area::Summary,
    Area::Table,
    Area::Journal,
    Area::Map,
    Area::Crc,
    Area::Chunks,
    Area::Headers,
    Area::Lines,
];

fn superblock(case: &Case, path: &str) -> Superblock {
    let slots = format::SUPERBLOCK_SLOTS.map(|at| case.world.read_raw(case.host, path, at, 4096));
    let newest = slots.iter().filter_map(|page| Superblock::decode(page).ok());
    newest.max_by_key(|found| found.sequence).expect("a superblock")
}

fn capacity_layout(case: &Case, path: &str) -> CapacityLayout {
    match superblock(case, path).kind {
        DeviceKind::Capacity(layout) => layout,
        DeviceKind::Cache { .. } => panic!("{path} is the cache device"),
    }
}

/// The device of an area and its bytes there: start and length of each stretch.
fn stretches(case: &mut Case, area: Area) -> (String, Vec<(u64, u64)>) {
    let device = case.rng.below(case.setup.devices as u64);
    let capacity = format!("capacity{device}");
    let layout = capacity_layout(case, &capacity);
    let segments = case.setup.segments;
    let segment = |n: u64| (1 << 20) + n * (64 << 10);
    let summary = 4 << 10;
    match area {
        Area::Superblock if case.rng.below(2) == 0 => {
            (capacity, format::SUPERBLOCK_SLOTS.map(|at| (at, 4096)).to_vec())
        }
        Area::Superblock => {
            ("cache".to_owned(), format::SUPERBLOCK_SLOTS.map(|at| (at, 4096)).to_vec())
        }
        Area::Log => {
            let all = (0..segments).map(|n| (segment(n), (64 << 10) - summary));
            ("cache".to_owned(), all.collect())
        }
        Area::Summary => {
            let all = (0..segments).map(|n| (segment(n + 1) - summary, summary));
            ("cache".to_owned(), all.collect())
        }
        Area::Table => (capacity, vec![(layout.table_start, u64::from(layout.rows) * 8192)]),
        Area::Journal => (capacity, vec![(layout.journal_start, layout.journal_size)]),
        Area::Map => (capacity, vec![(layout.map_start, layout.map_pages() * 8192)]),
        Area::Crc => (capacity, vec![(layout.crc_start, layout.chunk_start - layout.crc_start)]),
        Area::Chunks => (capacity, vec![(layout.chunk_start, u64::from(layout.chunks) << 20)]),
        Area::Headers | Area::Lines => {
            let found = match superblock(case, "cache").kind {
                DeviceKind::Cache { read_cache: Some(cache), .. } if area == Area::Headers => {
                    vec![(cache.headers_start, u64::from(cache.lines) * 4096)]
                }
                DeviceKind::Cache { read_cache: Some(cache), .. } => {
                    vec![(cache.data_start, u64::from(cache.lines) << 20)]
                }
                _ => Vec::new(),
            };
            ("cache".to_owned(), found)
        }
    }
}

/// Pages of an area that hold something.
fn used_pages(case: &mut Case, area: Area) -> (String, Vec<u64>) {
    let (path, stretches) = stretches(case, area);
    let mut used = Vec::new();
    for (start, length) in stretches {
        let bytes = case.world.read_raw(case.host, &path, start, length as usize);
        let pages = (start..).step_by(4096).zip(bytes.chunks(4096));
        used.extend(pages.filter(|(_, p)| p.iter().any(|byte| *byte != 0)).map(|(at, _)| at));
    }
    (path, used)
}

/// The newest commit of the log or record of a journal: it may be torn as far as anybody can tell.
fn newest(case: &Case, path: &str, area: Area, pages: &[u64]) -> std::ops::Range<u64> {
    let device = superblock(case, path).device;
    let size = if path == "cache" { case.setup.cache_size() } else { CAPACITY };
    let found = pages.iter().filter_map(|at| {
        let most = (64 << 10).min(size - at);
        let bytes = case.world.read_raw(case.host, path, *at, most as usize);
        let (sequence, length) = match area {
            Area::Log => {
                let (commit, ..) = format::Commit::decode(device, &bytes).ok()?;
                (commit.sequence, u64::from(commit.length))
            }
            _ => {
                let (record, size, _) = format::JournalRecord::decode(device, &bytes).ok()?;
                (record.sequence, size as u64)
            }
        };
        Some((sequence, *at..at + length))
    });
    found.max_by_key(|(sequence, _)| *sequence).map_or(0..0, |(_, range)| range)
}

impl Case {
    /// One whole life with what is promised of it; false: it did not open.
    pub(super) fn live_with(&mut self, promise: Promise) -> bool {
        self.cut_off_openings();
        self.live_now(promise)
    }

    /// The same without openings that are cut off.
    pub(super) fn live_now(&mut self, promise: Promise) -> bool {
        let signs = Signs::default();
        signs.may_fail.set(promise != Promise::All);
        signs.may_be_bad.set(promise != Promise::All);
        signs.may_be_stale.set(promise == Promise::Older);
        self.signs = Rc::new(signs);
        self.begin_now();
        let refused = self.signs.refused.borrow().clone();
        if let Some(error) = refused {
            let is_named = matches!(error, GroupError::Corrupt { .. } | GroupError::Device { .. });
            assert!(is_named, "{error}");
            self.world.kill(self.host);
            return false;
        }
        if let Promise::Named(most) = promise {
            let bad = self.signs.bad.borrow().len();
            assert!(bad <= most, "{bad} blocks are bad, {most} were hit");
        }
        self.run_to_a_moment();
        true
    }

    fn commits_begun(&self) -> u64 {
        let group = self.signs.group.borrow();
        group.as_ref().map_or(0, |group| group.shared().state.borrow().log.sequence)
    }

    fn some_device(&mut self) -> String {
        match self.rng.below(2) {
            0 => "cache".to_owned(),
            _ => format!("capacity{}", self.rng.below(self.setup.devices as u64)),
        }
    }

    /// Errors, pauses, slowness: nothing that was acknowledged is lost, whatever comes after.
    pub(super) fn with_errors(mut self) {
        assert!(self.live_with(Promise::All));
        let path = self.some_device();
        let fault = match self.rng.below(8) {
            0..=3 => DiskFault::FailWrites,
            4 => DiskFault::FailFlush,
            5 => DiskFault::FailReads,
            6 => DiskFault::Freeze(true),
            _ => DiskFault::Slow(100),
        };
        let is_error = !matches!(fault, DiskFault::Freeze(_) | DiskFault::Slow(_));
        self.signs.may_fail.set(is_error);
        self.signs.may_be_bad.set(fault == DiskFault::FailReads);
        self.world.disk_error(self.host, &path, fault);
        let bits = self.rng.between(8, 18);
        let before = self.commits_begun();
        self.world.run_for(Duration::from_micros(self.rng.below(1 << bits)));
        let has_begun = self.commits_begun() > before;
        let must_fence = has_begun && fault == DiskFault::FailWrites && path == "cache";
        if must_fence {
            self.world.run_for(Duration::from_millis(50));
        }
        let is_fenced = {
            let group = self.signs.group.borrow();
            group.as_ref().is_some_and(|group| group.status().fenced.is_some())
        };
        assert!(is_fenced || !must_fence, "a commit failed and nothing is fenced");
        assert!(is_fenced || !self.signs.has_failed.get(), "an append failed without a fence");
        assert!(is_error || !is_fenced, "fenced by {fault:?}");
        self.world.disk_error(self.host, &path, DiskFault::Clear);
        self.signs.is_fenced.set(is_fenced);
        let before = self.oracle.borrow().appends;
        self.world.run_for(Duration::from_millis(2));
        if !is_error {
            self.rest();
        }
        let after = self.oracle.borrow().appends;
        assert!(!is_fenced || after == before, "an append behind a fence");
        self.signs.may_be_bad.set(false);
        if is_fenced && self.rng.below(4) > 0 {
            // Only the process begins anew: what the failed write left is still in the cache.
            drop(self.signs.group.borrow_mut().take());
            self.world.kill(self.host);
        } else {
            self.end();
        }
        for _ in 0..3 {
            assert!(self.live_with(Promise::All));
            self.end();
        }
        assert!(self.live_with(Promise::All));
        self.rest();
        self.end();
    }

    /// Damage while nobody looks, then lives with it.
    pub(super) fn with_damage(mut self, number: u64) {
        let area = AREAS[number as usize % AREAS.len()];
        assert!(self.live_with(Promise::All));
        if self.rng.below(3) == 0 {
            self.rest();
        }
        self.end();
        let (path, used) = used_pages(&mut self, area);
        if used.is_empty() {
            return;
        }
        let torn = match area {
            Area::Log | Area::Journal => newest(&self, &path, area, &used),
            _ => 0..0,
        };
        let mut hits_newest = false;
        let count = match area {
            Area::Chunks | Area::Lines => self.rng.between(1, 40),
            _ => 1,
        };
        for _ in 0..count {
            let at = used[self.rng.below(used.len() as u64) as usize];
            hits_newest |= torn.contains(&at);
            match self.rng.below(4) {
                0 if matches!(area, Area::Chunks | Area::Log | Area::Headers | Area::Lines) => {
                    let bad = DiskFault::BadRange { offset: at, len: 4096 };
                    self.world.disk_error(self.host, &path, bad);
                }
                _ => {
                    let bits = if self.rng.below(2) == 0 { 1 } else { 300 };
                    let byte = self.rng.below(4096 - bits);
                    self.world.flip_bits(self.host, &path, at + byte, bits as usize);
                }
            }
        }
        let promise = match area {
            // One copy, a cache, or data with checksums beside it.
            Area::Superblock | Area::Summary | Area::Headers | Area::Lines => Promise::All,
            Area::Chunks => Promise::Named(count as usize),
            // All that one page has checksums of.
            Area::Crc => Promise::Named(768),
            Area::Map => Promise::Named(0),
            Area::Log | Area::Journal if !hits_newest => Promise::Named(256),
            Area::Log | Area::Table | Area::Journal => Promise::Older,
        };
        for _ in 0..2 {
            if !self.live_with(promise) {
                return;
            }
            // Blocks that are merged with what is damaged, or moved, become no more than they were.
            if let Some(group) = self.signs.group.borrow().as_ref() {
                group.drain_buffer(true);
            }
            self.world.run_for(Duration::from_millis(20));
            self.end();
        }
    }

    /// A write that a device takes and does not do, or does elsewhere.
    pub(super) fn with_a_lie(mut self, number: u64) {
        let areas = [
            Area::Chunks,
            Area::Log,
            Area::Journal,
            Area::Crc,
            Area::Map,
            Area::Table,
            Area::Headers,
            Area::Lines,
        ];
        let area = areas[number as usize % areas.len()];
        assert!(self.live_with(Promise::All));
        let (path, stretches) = stretches(&mut self, area);
        if stretches.is_empty() {
            return; // not a hybrid group
        }
        let (offset, len) = stretches[self.rng.below(stretches.len() as u64) as usize];
        let is_lost = self.rng.below(2) == 0;
        let fault = match is_lost {
            true => DiskFault::LoseNextWriteIn { offset, len },
            false => {
                let (other, chunks) = super::faults::stretches(&mut self, Area::Chunks);
                // Elsewhere on the same device, where a write of a chunk still fits.
                let (start, length) = match other == path {
                    true => chunks[0],
                    false => (offset, len),
                };
                let room = length.saturating_sub(2 << 20).max(4096) / 4096;
                let to = start + self.rng.below(room) * 4096;
                DiskFault::MisdirectNextWriteIn { offset, len, to }
            }
        };
        let promise = match area {
            // The newest commit of a log that lies is like one that was torn.
            Area::Log => Promise::Older,
            // A row that another one was written over has its older page: W, K and marks go back.
            Area::Table => Promise::Older,
            // Data has checksums, and structures are read back.
            _ => Promise::Named(1024),
        };
        self.signs.may_fail.set(true);
        self.signs.may_be_bad.set(true);
        self.signs.may_be_stale.set(promise == Promise::Older);
        self.world.disk_error(self.host, &path, fault);
        self.run_to_a_moment();
        self.end();
        for _ in 0..2 {
            if !self.live_with(promise) {
                return;
            }
            self.end();
        }
    }
}

#[test]
fn errors_and_pauses_lose_nothing() {
    for seed in seeds() {
        Case::new(seed, Mutations::default()).with_errors();
    }
}

#[test]
fn damage_is_named() {
    for seed in seeds() {
        Case::new(seed, Mutations::default()).with_damage(seed);
    }
}

#[test]
fn devices_that_lie_are_found_out() {
    for seed in seeds() {
        Case::new(seed, Mutations::default()).with_a_lie(seed);
    }
}
