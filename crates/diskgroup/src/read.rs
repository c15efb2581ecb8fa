// SPDX-License-Identifier: Apache-2.0
//! Reads: the log's overlay first, capacity below, every byte checked.
//!
//! Why a mismatch is looked at again before it is reported: a read that found a block on capacity
//! may have its device read overtaken by destage of a newer version of that block, in place. The
//! newer version is in the index until map and checksums say the same, so a second look finds it
//! there, or finds the new checksum. Only a block that fails every look is bad.
//!
//! In a hybrid group slots of the read cache may stand in for capacity, see `readcache`.

mod cached;
mod changed;
pub(crate) mod salvage;

use self::cached::Origin;
use crate::keys::{block_key, chunk_key};
use crate::log::build::to_usize;
use crate::log::index::LogView;
use crate::state::{GroupInner, GroupState};
use crate::types::{GroupError, ReadData};
use base::{
    BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, CHUNK_SIZE, ComponentId, SECTOR_SIZE,
    SectorRange, crc32c,
};
use env::{Disk, IoError, Slice, join_all};
use std::rc::Rc;

/// Looks at a block before it is called bad: each lets one overtaking destage pass.
pub(crate) const LOOKS_MAX: usize = 4;

/// Who reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// A client, and whether the read goes on with a stream.
    Client { is_stream: bool },
    /// Destage, which merges parts of blocks.
    Destage,
}

/// Where some sectors of one block come from.
#[derive(Clone, Copy)]
enum Source {
    Zero,
    /// A piece of the log: where it starts, all that it stores, its checksum.
    Log {
        sector: u32,
        stored: SectorRange,
        crc: u32,
    },
    /// A block of a direct write, which the log names: its number and its checksum.
    Staged {
        block: u64,
        crc: u32,
    },
    /// Not in the log.
    Below,
}

#[derive(Clone, Copy)]
struct Unit {
    want: SectorRange,
    source: Source,
}

/// A lookup's result; holds the segments that it points to (store rule 11).
pub(crate) struct ReadPlan {
    inner: Rc<GroupInner>,
    serial: u32,
    device: usize,
    range: SectorRange,
    units: Vec<Unit>,
    /// The device chunk below, as looked up.
    chunk: Option<u32>,
    /// The one with the data of direct writes.
    staged: Option<u32>,
    pinned: Vec<usize>,
}

impl Drop for ReadPlan {
    fn drop(&mut self) {
        self.unpin();
    }
}

impl ReadPlan {
    /// Whether a device that it needs answers nothing any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.inner.is_given_up(self.device)
    }

    /// Lets go of the log, for who wants only what is below it.
    pub(crate) fn unpin(&mut self) {
        if self.pinned.is_empty() {
            return;
        }
        let mut state = self.inner.state.borrow_mut();
        for segment in self.pinned.drain(..) {
            state.log.unpin(segment);
        }
        let must_kick = std::mem::take(&mut state.log.is_pressed);
        drop(state);
        if must_kick {
            self.inner.log_kick.notify();
        }
    }
}

/// What a plan brought.
struct Fetched {
    bytes: Slice,
    /// Its checksums, where they are known as they are stored.
    crcs: Option<wire::Crcs>,
}

/// One device read and the blocks in it: what is stored, what is wanted of it, checksum.
pub(crate) struct ReadRun {
    pub(crate) disk: Disk,
    pub(crate) offset: u64,
    pub(crate) stored: SectorRange,
    pub(crate) checks: Vec<(SectorRange, SectorRange, u32)>,
    origin: Origin,
}

/// What came of one look.
enum Look {
    Done(Fetched),
    /// This part failed its checksum or could not be read.
    Bad(SectorRange),
    /// As `Bad`, but of the read cache.
    BadCache,
    /// The chunk is somewhere else by now.
    Moved,
}

/// Adds sectors that are stored at a byte of a device, to the last read where they follow it.
fn add_run(
    runs: &mut Vec<ReadRun>,
    disk: &Disk,
    offset: u64,
    check: (SectorRange, SectorRange, u32),
) {
    let (stored, ..) = check;
    match runs.last_mut() {
        Some(last)
            if last.offset + last.stored.bytes() == offset && last.stored.end() == stored.start =>
        {
            last.stored.count += stored.count;
            last.checks.push(check);
        }
        _ => {
            let (disk, checks, origin) = (disk.clone(), vec![check], Origin::Device);
            runs.push(ReadRun { disk, offset, stored, checks, origin });
        }
    }
}

impl GroupState {
    /// Looks a range up; entries above `limit` count as not there.
    fn units(&self, serial: u32, range: SectorRange, limit: u64) -> Vec<Unit> {
        let mut units: Vec<Unit> = Vec::new();
        let mut add = |want: SectorRange, source: Source| match (units.last_mut(), source) {
            (Some(Unit { want: last, source: Source::Zero }), Source::Zero)
            | (Some(Unit { want: last, source: Source::Below }), Source::Below) => {
                last.count += want.count;
            }
            _ => units.push(Unit { want, source }),
        };
        let key = chunk_key(serial, range.start / CHUNK_SECTORS);
        if self.log.over(key).is_none_or(|over| over.live == 0) {
            add(range, Source::Below);
            return units;
        }
        let source = |piece: &crate::log::index::IndexPiece, block: u64| match piece.place.is_zero()
        {
            _ if piece.lsn > limit => Source::Below,
            true => Source::Zero,
            false if piece.place.is_direct() => Source::Staged { block, crc: piece.crc },
            false => {
                let start = block * BLOCK_SECTORS + u64::from(piece.start);
                let stored = SectorRange::new(start, u64::from(piece.count));
                Source::Log { sector: piece.place.sector(), stored, crc: piece.crc }
            }
        };
        for want in range.split_at_multiples(BLOCK_SECTORS) {
            let block = want.start / BLOCK_SECTORS;
            match self.log.index.get(block_key(serial, block)) {
                None => add(want, Source::Below),
                Some(LogView::Whole(piece)) => add(want, source(&piece, block)),
                Some(LogView::Parts(parts)) => {
                    let mut at = want.start;
                    while at < want.end() {
                        let owner = parts.owner((at % BLOCK_SECTORS) as usize);
                        let mut end = at + 1;
                        while end < want.end()
                            && parts.owner((end % BLOCK_SECTORS) as usize) == owner
                        {
                            end += 1;
                        }
                        let source = owner.map_or(Source::Below, |piece| source(piece, block));
                        add(SectorRange::new(at, end - at), source);
                        at = end;
                    }
                }
            }
        }
        units
    }
}

/// Looks up a range within one chunk; entries above `limit` count as not there.
pub(crate) fn plan(
    inner: &Rc<GroupInner>,
    serial: u32,
    range: SectorRange,
    limit: u64,
) -> Option<ReadPlan> {
    let mut state = inner.state.borrow_mut();
    let device = state.store.components.get(serial)?.device;
    let units = state.units(serial, range, limit);
    let key = chunk_key(serial, range.start / CHUNK_SECTORS);
    let cleared = state.log.cleared(key);
    let is_cleared = cleared.is_some_and(|(_, lsn)| lsn <= limit);
    let chunk = if is_cleared { None } else { state.store.base(key) };
    let staged = state.store.staged(key).map(|staged| staged.chunk);
    let mut pinned = Vec::new();
    for unit in &units {
        if let Source::Log { sector, .. } = unit.source {
            let segment = state.log.physical(crate::log::index::LogPlace::data(sector));
            if !pinned.contains(&segment) {
                state.log.pin(segment);
                pinned.push(segment);
            }
        }
    }
    drop(state);
    Some(ReadPlan { inner: Rc::clone(inner), serial, device, range, units, chunk, staged, pinned })
}

impl ReadPlan {
    /// Whether any of it is read from capacity.
    fn is_below(&self) -> bool {
        self.units.iter().any(|unit| matches!(unit.source, Source::Below))
    }

    /// Device reads of the log's part, neighbours merged.
    fn log_runs(&self) -> Vec<ReadRun> {
        let start = self.inner.state.borrow().log.layout.start;
        let mut runs: Vec<ReadRun> = Vec::new();
        for unit in &self.units {
            let Source::Log { sector, stored, crc } = unit.source else { continue };
            let offset = start + u64::from(sector) * SECTOR_SIZE;
            add_run(&mut runs, &self.inner.cache, offset, (stored, unit.want, crc));
        }
        runs
    }

    /// Device reads of direct writes that the log names, neighbours merged.
    fn staged_runs(&self) -> Vec<ReadRun> {
        let mut runs: Vec<ReadRun> = Vec::new();
        let Some(chunk) = self.staged else { return runs };
        let handle = &self.inner.devices[self.device];
        let start = handle.layout.chunk_start + u64::from(chunk) * CHUNK_SIZE;
        for unit in &self.units {
            let Source::Staged { block, crc } = unit.source else { continue };
            let offset = start + block % CHUNK_BLOCKS * BLOCK_SIZE;
            let stored = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
            add_run(&mut runs, handle.disk(), offset, (stored, unit.want, crc));
        }
        runs
    }

    /// Device reads of capacity's part; what holds no data is left out. `None`: the chunk is
    /// somewhere else by now.
    pub(crate) async fn capacity_runs(&self) -> Result<Option<Vec<ReadRun>>, GroupError> {
        let Some(chunk) = self.chunk.filter(|_| self.is_below()) else {
            return Ok(Some(Vec::new()));
        };
        self.inner.load_checksums(self.device, chunk).await?;
        let handle = &self.inner.devices[self.device];
        let mut state = self.inner.state.borrow_mut();
        let key = chunk_key(self.serial, self.range.start / CHUNK_SECTORS);
        if state.store.base(key) != Some(chunk) {
            return Ok(None);
        }
        let Some((page, place)) = state.store.checksums(self.device, chunk) else {
            return Ok(None);
        };
        let start = handle.layout.chunk_start + u64::from(chunk) * CHUNK_SIZE;
        let place_of = |within| {
            let crc = page.get(place, within)?;
            Some((start + within as u64 * BLOCK_SIZE, crc))
        };
        Ok(Some(self.runs_below(handle.disk(), place_of)))
    }

    /// Device reads of what is below the log, of blocks whose place and checksum are told, those
    /// that follow one another merged; blocks without are left out.
    fn runs_below(
        &self,
        disk: &Disk,
        place_of: impl Fn(usize) -> Option<(u64, u32)>,
    ) -> Vec<ReadRun> {
        let mut runs: Vec<ReadRun> = Vec::new();
        for unit in self.units.iter().filter(|unit| matches!(unit.source, Source::Below)) {
            for want in unit.want.split_at_multiples(BLOCK_SECTORS) {
                let block = want.start / BLOCK_SECTORS;
                let Some((offset, crc)) = place_of(to_usize(block % CHUNK_BLOCKS)) else {
                    continue;
                };
                let stored = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
                add_run(&mut runs, disk, offset, (stored, want, crc));
            }
        }
        runs
    }

    /// Reads and checks.
    async fn fetch(&self, asker: Asker, uses_cache: bool) -> Result<Look, GroupError> {
        let mut runs = self.log_runs();
        runs.extend(self.staged_runs());
        let below = match self.inner.is_hybrid {
            true => self.hybrid_runs(asker, uses_cache).await?,
            false => self.capacity_runs().await?,
        };
        let Some(below) = below else { return Ok(Look::Moved) };
        runs.extend(below);
        let env = &self.inner.env;
        let reads: Vec<_> = runs.iter().map(|run| run.read(env)).collect();
        if let ([run], [_]) = (runs.as_slice(), reads.as_slice())
            && run.stored == self.range
            && run.is_gapless()
            && run.checks.iter().all(|(stored, want, _)| stored == want)
        {
            // The common case: one read brings exactly what is wanted.
            let Some(read) = reads.into_iter().next() else { return Ok(Look::Moved) };
            let crcs = self.stored_crcs(run);
            let bytes = match self.check(run, read.await) {
                Ok(bytes) => bytes,
                Err(range) => return Ok(self.bad(run, range)),
            };
            runs.into_iter().for_each(|run| run.fill(&bytes));
            return Ok(Look::Done(Fetched { bytes, crcs }));
        }
        let mut out = env.pool().zeroed(to_usize(self.range.bytes()));
        for (run, read) in runs.into_iter().zip(join_all(reads).await) {
            let bytes = match self.check(&run, read) {
                Ok(bytes) => bytes,
                Err(range) => return Ok(self.bad(&run, range)),
            };
            for (_, want, _) in &run.checks {
                let from = to_usize((want.start - run.stored.start) * SECTOR_SIZE);
                let to = to_usize((want.start - self.range.start) * SECTOR_SIZE);
                let length = to_usize(want.bytes());
                out[to..to + length].copy_from_slice(&bytes[from..from + length]);
            }
            run.fill(&bytes);
        }
        Ok(Look::Done(Fetched { bytes: out.freeze(), crcs: None }))
    }

    fn check(&self, run: &ReadRun, read: Result<Slice, IoError>) -> Result<Slice, SectorRange> {
        let wanted = |stored: SectorRange| {
            let first = stored.start / BLOCK_SECTORS * BLOCK_SECTORS;
            let last = stored.end().next_multiple_of(BLOCK_SECTORS);
            SectorRange::new(first, last - first).intersect(self.range)
        };
        // A sector that cannot be read is as good as one that reads wrong: repaired by a write.
        let bytes = read.map_err(|_| wanted(run.stored))?;
        for (stored, _, crc) in &run.checks {
            let from = to_usize((stored.start - run.stored.start) * SECTOR_SIZE);
            if crc32c(&bytes[from..from + to_usize(stored.bytes())]) != *crc {
                return Err(wanted(*stored));
            }
        }
        Ok(bytes)
    }

    /// The checksums that are stored, where they are those of the range: one per touched block.
    fn stored_crcs(&self, run: &ReadRun) -> Option<wire::Crcs> {
        let cut = self.range.split_at_multiples(BLOCK_SECTORS);
        let is_same = run.checks.iter().map(|(_, want, _)| *want).eq(cut);
        is_same.then(|| run.checks.iter().map(|(_, _, crc)| *crc).collect())
    }
}

/// Reads a range as of a plan, looking again where a checksum does not match. What fails in the
/// cache is read from capacity, and takes no look away.
async fn read_planned(first: ReadPlan, limit: u64, asker: Asker) -> Result<Fetched, GroupError> {
    let mut plan = first;
    let mut bad = plan.range;
    let mut looks = if plan.inner.options.mutations.single_look() { 1 } else { LOOKS_MAX };
    let mut uses_cache = true;
    while looks > 0 {
        looks -= 1;
        match plan.fetch(asker, uses_cache).await? {
            Look::Done(fetched) => return Ok(fetched),
            Look::Bad(range) => bad = range,
            Look::BadCache => {
                uses_cache = false;
                looks += 1;
            }
            Look::Moved => {}
        }
        let (inner, serial, range) = (Rc::clone(&plan.inner), plan.serial, plan.range);
        let Some(next) = self::plan(&inner, serial, range, limit) else {
            return Err(GroupError::BadCrc { range: bad });
        };
        plan = next;
    }
    if plan.is_given_up() {
        return Err(GroupError::Fenced);
    }
    plan.inner.state.borrow_mut().counters.bad_blocks += 1;
    Err(GroupError::BadCrc { range: bad })
}

/// The bytes of a range as of K, for a fold of a block's parts.
pub(crate) async fn read_committed(
    inner: &Rc<GroupInner>,
    serial: u32,
    range: SectorRange,
    commit: u64,
) -> Result<Slice, GroupError> {
    match plan(inner, serial, range, commit) {
        Some(plan) => Ok(read_planned(plan, commit, Asker::Destage).await?.bytes),
        None => Err(GroupError::BadCrc { range }),
    }
}

/// See `DiskGroup::read`.
pub(crate) fn read(
    inner: Rc<GroupInner>,
    id: ComponentId,
    range: SectorRange,
) -> impl Future<Output = Result<ReadData, GroupError>> + use<> {
    let planned = look_up(&inner, id, range);
    let is_stream = planned.as_ref().is_ok_and(ReadPlan::is_stream);
    async move {
        let asker = Asker::Client { is_stream };
        let Fetched { bytes, crcs } = read_planned(planned?, u64::MAX, asker).await?;
        let crcs = crcs.unwrap_or_else(|| wire::crcs_of(range, &bytes));
        Ok(ReadData { payload: bytes, crcs })
    }
}

fn look_up(
    inner: &Rc<GroupInner>,
    id: ComponentId,
    range: SectorRange,
) -> Result<ReadPlan, GroupError> {
    let unknown = GroupError::UnknownComponent { component: id };
    let serial = {
        let state = inner.state.borrow();
        if state.is_closed {
            return Err(GroupError::Closed);
        }
        let Some(component) = state.store.components.by_id(id) else { return Err(unknown) };
        let fits = range.end() <= component.row.sectors
            && range.start % CHUNK_SECTORS + range.count <= CHUNK_SECTORS;
        if range.is_empty() || !fits {
            return Err(GroupError::Range { range });
        }
        component.row.serial
    };
    plan(inner, serial, range, u64::MAX).ok_or(unknown)
}
