// SPDX-License-Identifier: Apache-2.0
//! Destage: the oldest closed segment goes to capacity and becomes free.
//!
//! The steps for one segment, in this order (store rules 6 to 12):
//! 1. Wait until every live entry in it is at or below K, or move the others to the log's head.
//! 2. Write the data to capacity, in place.
//! 3. Write a journal record and flush. The flush makes the data of step 2 durable too.
//! 4. Remove the index entries that still point into the segment.
//! 5. The segment is free.
//!
//! Why may step 2 overwrite data in place? Between steps 2 and 3 a block on capacity has new bytes
//! and an old checksum. Nobody reads it there in that state: until step 4 the log holds the whole
//! block, also after a crash. This holds for *whole* blocks only. So a block that the log holds in
//! parts is never destaged as it is. It is *folded*: the parts are merged with what is below, and
//! the whole block is appended to the log and destaged with the segment of that new entry.

use crate::build::to_usize;
use crate::capacity::page_of;
use crate::chunks::{block_key, chunk_key};
use crate::index::{LogPlace, View};
use crate::log::{Move, Still};
use crate::state::{GroupInner, GroupState};
use crate::types::GroupError;
use base::{
    BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, CHUNK_SIZE, Instant, Lsn, Map, Quirk,
    SECTOR_SIZE, SectorRange, Set, crc32c,
};
use env::{Durability, Either, IoError, Slice, join, join_all, select};
use format::{Commit, Entry, EntryKind, Item};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

mod elevator;
mod known;
mod plan;
mod segment;
mod write;

use elevator::{Spot, Window, sweep};
use known::{condemn, known, wait_for_k};
use plan::{fold, move_to_head, plan};
use segment::{Segment, disagreement, is_open, read_ahead, read_back};
use write::{add_emptied, write_data};

/// Bytes of one read-back, one after the other: larger ones delay the log's writes (docs/store.md,
/// "Destage and pace").
const READ_BACK: u64 = 128 << 10;
/// The buffer counts as drained below this fill, thousandths.
const DRAINED: i64 = 50;

/// An entry of the segment, its payload's place in it, its checksums.
struct Found {
    entry: Entry,
    /// Bytes from the segment's start; for entries without payload: of their commit.
    at: u64,
    crcs: wire::Crcs,
}

/// One whole block on its way to capacity.
struct BlockWrite {
    key: u64,
    place: LogPlace,
    /// Where the data is in memory: the number of the segment among those that are destaged
    /// together, and the first byte in it.
    source: usize,
    from: u64,
    crc: u32,
    lsn: Lsn,
    chunk: u32,
    block: u8,
    is_fresh: bool,
}

impl BlockWrite {
    fn item(&self) -> Item {
        Item::Block { chunk: self.chunk, block: self.block, crc: self.crc, lsn: self.lsn }
    }
}

/// What is to be done with a segment.
#[derive(Default)]
struct Batch {
    writes: Vec<Vec<BlockWrite>>,
    items: Vec<Vec<Item>>,
    moves: Vec<Move>,
    folds: Set<(u32, u64)>,
    fresh: Map<u64, u32>,
    /// Blocks that read as zeros on capacity once the items are journaled.
    zeros: Vec<(u64, LogPlace, Lsn)>,
    /// Whole chunks that read as zeros on capacity once the items are journaled.
    clears: Vec<(u64, usize, LogPlace, Lsn)>,
    /// The segment that is being planned, of those that are destaged together.
    source: usize,
}

impl Batch {
    fn new(inner: &GroupInner) -> Self {
        let mut batch = Self::default();
        batch.writes.resize_with(inner.devices.len(), Vec::new);
        batch.items.resize_with(inner.devices.len(), Vec::new);
        batch
    }

    fn is_empty(&self) -> bool {
        self.writes.iter().all(Vec::is_empty)
            && self.items.iter().all(Vec::is_empty)
            && self.moves.is_empty()
            && self.zeros.is_empty()
            && self.clears.is_empty()
    }

    /// Blocks that are to be dealt with.
    fn blocks(&self) -> u64 {
        let writes = self.writes.iter().map(Vec::len).sum::<usize>();
        (writes + self.moves.len() + self.folds.len()) as u64
    }
}

/// The destage task of a group.
pub(crate) async fn destage(inner: Rc<GroupInner>) {
    let mut window = Window::default();
    loop {
        inner.reclaim_due().await;
        if !wait_for_work(&inner).await {
            return;
        }
        match destage_oldest(&inner, &mut window).await {
            Ok(()) => {}
            Err(GroupError::Device { device, source }) => {
                let _ = inner.fence(&device, &source);
                return;
            }
            Err(GroupError::Corrupt { device, structure, source }) => {
                // What the log holds cannot be found any more: stop before it is overwritten.
                let _ = inner.fence(&device, &format!("{structure} is damaged: {source}"));
                return;
            }
            Err(GroupError::Fenced | GroupError::Closed) => return,
            // Without destage the group is over: who looks at it is told why.
            Err(error) => {
                let _ = inner.fence(&inner.cache_path, &format!("destage ended: {error}"));
                return;
            }
        }
    }
}

enum Work {
    Go,
    Stop,
    Close(Option<(u64, env::Slice)>),
    FlushHeads,
    Wait(Option<Instant>),
}

fn next_work(inner: &GroupInner) -> Work {
    let mut state = inner.state.borrow_mut();
    if state.fenced.is_some() || state.is_closed {
        return Work::Stop;
    }
    let now = inner.env.now();
    let idle = now.since(state.last_append);
    let has_content = state.log.tail < state.log.head || state.log.offset > 0;
    let is_now = state.drain_all || state.wants_space();
    let is_over = state.log.fill(0) > DRAINED || is_now;
    let idle_after = inner.options.idle_after;
    let is_draining = has_content && (is_now || (is_over && idle >= idle_after));
    if state.is_held() {
        base::hit(base::Probe::DestageHeld);
    } else if state.log.tail < state.log.head {
        let fill = state.fill();
        if is_draining || state.pace.may_destage(fill) {
            return Work::Go;
        }
    } else if is_draining
        && (is_now || idle >= 2 * idle_after)
        && let Some(summary) = state.log.close_early(inner.env.pool())
    {
        return Work::Close(summary);
    }
    let has_loose_heads = state.capacity.iter().any(|capacity| capacity.has_loose_head);
    if has_loose_heads && idle >= idle_after {
        return Work::FlushHeads;
    }
    let at = state.last_append + if idle < idle_after { idle_after } else { 2 * idle_after };
    let must_look = has_loose_heads || has_content && is_over;
    Work::Wait((must_look && at > now).then_some(at))
}

/// Waits until there is a closed segment to destage; false when the group is over.
async fn wait_for_work(inner: &Rc<GroupInner>) -> bool {
    loop {
        let kick = inner.destage_kick.wait();
        match next_work(inner) {
            Work::Go => return true,
            Work::Stop => return false,
            Work::Close(summary) => {
                if let Some((at, bytes)) = summary {
                    crate::state::write_summary(inner, at, bytes);
                }
            }
            Work::FlushHeads => {
                if inner.flush_heads().await.is_err() {
                    return false;
                }
            }
            Work::Wait(until) => {
                let reclaim = inner.state.borrow().reclaims_next();
                if reclaim.is_some_and(|at| at <= inner.env.now()) {
                    inner.reclaim_due().await;
                } else {
                    wait(inner, kick, until.into_iter().chain(reclaim).min()).await;
                }
            }
        }
    }
}

async fn wait(inner: &GroupInner, kick: impl Future<Output = ()>, until: Option<Instant>) {
    {
        let mut state = inner.state.borrow_mut();
        state.is_destage_waiting = true;
        state.is_timer_armed = until.is_some();
        state.pace.rest();
    }
    match until {
        Some(at) => match select(kick, inner.env.sleep_until(at)).await {
            Either::First(()) | Either::Second(()) => {}
        },
        None => kick.await,
    }
    let mut state = inner.state.borrow_mut();
    state.is_destage_waiting = false;
    state.is_timer_armed = false;
    state.pace.go_on(inner.env.now());
    if !state.is_waiting_for_commit {
        state.destage_moved = inner.env.now();
    }
}

/// Destages the oldest segment, which may be in memory already, and reads the next one meanwhile;
/// in a hybrid group a part of several.
async fn destage_oldest(inner: &Rc<GroupInner>, window: &mut Window) -> Result<(), GroupError> {
    if inner.is_hybrid {
        return sweep(inner, window).await;
    }
    let number = inner.state.borrow().log.tail;
    let segment = match window.segments.pop_front().filter(|segment| segment.number == number) {
        Some(segment) => segment,
        None => read_back(inner, number).await?,
    };
    let (done, next) = join(destage_segment(inner, segment), read_ahead(inner, number + 1)).await;
    window.segments.extend(next);
    done
}

async fn destage_segment(inner: &Rc<GroupInner>, segment: Segment) -> Result<(), GroupError> {
    let size = inner.state.borrow().log.layout.segment_size;
    let (rest, mut is_counted) = (segment.rest(size), false);
    let Segment { number: segment, bytes, found, named, written, .. } = segment;
    let mutations = inner.options.mutations;
    if mutations.free_before_destage() {
        keep_marks(inner, segment).await?;
        inner.state.borrow_mut().free_oldest(segment, &found);
        inner.log_kick.notify();
    }
    let sources = [bytes.clone()];
    let mut k_until = None;
    let mut unpaid = i64::try_from(bytes.len() / 4096).unwrap_or(0) - written;
    // One round may not be enough. A newer part may come on top of a block that was whole, or a
    // block may change before its fold is in the log. The rounds end: each leaves fewer live
    // entries, and a closed segment gets no new ones.
    while has_live(inner, segment, &found) {
        wait_for_commit(inner, segment, &found).await?;
        let mut batch = plan(inner, segment, &found, &bytes);
        if !std::mem::replace(&mut is_counted, true) {
            inner.state.borrow_mut().pace.begin(inner.env.now(), rest, batch.blocks());
        }
        fold(inner, segment, &found, &bytes, &mut batch).await?;
        let has_open_rot = condemn(inner, segment, &bytes, &mut batch)?;
        if batch.is_empty() && has_live(inner, segment, &found) {
            if !has_open_rot {
                return Err(disagreement(inner, segment));
            }
            wait_for_k(inner, segment, &mut k_until).await?;
            continue;
        }
        let moves = batch.moves.len() as u64;
        move_to_head(inner, std::mem::take(&mut batch.moves)).await?;
        inner.state.borrow_mut().pace.finished(inner.env.now(), moves);
        let writes = batch.writes.iter().map(Vec::len).sum::<usize>();
        unpaid -= i64::try_from(writes).unwrap_or(0);
        let written = write_batch(inner, &mut batch, &sources).await?;
        let mut state = inner.state.borrow_mut();
        state.counters.destaged_blocks += written.len() as u64;
        if mutations.skip_forget() {
            break;
        }
        state.forget_batch(written, batch);
    }
    if mutations.free_before_destage() {
        inner.state.borrow_mut().pace.freed(inner.env.now(), size);
        return Ok(());
    }
    move_to_head(inner, still_open(inner, &named)).await?;
    keep_marks(inner, segment).await?;
    {
        let (mut state, now) = (inner.state.borrow_mut(), inner.env.now());
        state.pace.destaged(unpaid.max(0));
        if !is_counted {
            state.pace.begin(now, rest, 0);
        }
        state.pace.freed(now, size);
        state.free_oldest(segment, &found);
    }
    inner.note_destage();
    inner.log_kick.notify();
    Ok(())
}

/// Marks that say which requests the entries above K carry out. They go to the log's head before
/// their segment is freed: the next owner may have to undo these entries, and names them by their
/// requests (rule 46).
fn still_open(inner: &GroupInner, named: &[Entry]) -> Vec<Move> {
    if inner.options.mutations.forget_open() {
        return Vec::new();
    }
    let state = inner.state.borrow();
    let move_of = |entry: &Entry| Move {
        serial: entry.serial,
        kind: EntryKind::Done,
        is_copy: false,
        range: entry.range,
        lsn: entry.lsn,
        crcs: Vec::new(),
        payload: Vec::new(),
        id: entry.id,
        still: Still::Open,
    };
    named.iter().filter(|entry| is_open(&state, entry)).map(move_of).collect()
}

/// Writes what the segment says about requests into the components' rows, before the segment is
/// freed (rule 46). A row takes along everything that is known by then, so a row is written about
/// once per lap of the log and not once per segment.
async fn keep_marks(inner: &GroupInner, segment: u64) -> Result<(), GroupError> {
    if inner.options.mutations.forget_marks() {
        return Ok(());
    }
    let marked = {
        let state = inner.state.borrow();
        state.log.infos[to_usize(segment - state.log.tail)].marked.clone()
    };
    for (serial, highest) in marked {
        let _permit = inner.table.acquire(1).await;
        let found = {
            let state = inner.state.borrow();
            let component = state.components.get(serial);
            let component = component.filter(|component| component.marks_kept < highest);
            component.map(|c| (c.device, c.place, c.row.clone()))
        };
        if let Some((device, place, row)) = found {
            base::hit(base::Probe::DestageKeptMarks);
            inner.write_row(device, place, row).await?;
        }
    }
    Ok(())
}

/// Data, then the journal record, of all devices side by side: none of them waits for another.
async fn write_batch(
    inner: &Rc<GroupInner>,
    batch: &mut Batch,
    sources: &[Slice],
) -> Result<Vec<BlockWrite>, GroupError> {
    let parts = std::mem::take(&mut batch.writes).into_iter().zip(std::mem::take(&mut batch.items));
    let writing = parts.enumerate().map(|(device, part)| write_part(inner, device, part, sources));
    let written = join_all(writing.collect()).await;
    let mut all = Vec::new();
    for written in written {
        all.append(&mut written?);
    }
    inner.end_updates();
    inner.env.linger(Quirk::DestageLingersOnJournal).await;
    Ok(all)
}

/// The part of one device (store rules 7 to 10).
async fn write_part(
    inner: &Rc<GroupInner>,
    device: usize,
    (writes, mut items): (Vec<BlockWrite>, Vec<Item>),
    sources: &[Slice],
) -> Result<Vec<BlockWrite>, GroupError> {
    if inner.options.mutations.journal_before_data() {
        items.extend(writes.iter().map(BlockWrite::item));
        if !items.is_empty() {
            add_watermarks(inner, device, &mut items);
            inner.journal(device, &items).await?;
        }
        return write_data(inner, device, writes, sources).await;
    }
    let done = write_data(inner, device, writes, sources).await?;
    inner.env.linger(Quirk::DestageLingersOnData).await;
    add_emptied(inner, device, &mut items).await?;
    items.extend(done.iter().map(BlockWrite::item));
    if !items.is_empty() {
        add_watermarks(inner, device, &mut items);
        if inner.wants_checkpoint(device) || inner.env.quirk(Quirk::CheckpointEarly) {
            inner.checkpoint(device).await?;
        }
        inner.journal(device, &items).await?;
    }
    Ok(done)
}

/// Whether the log still needs anything of the segment.
fn has_live(inner: &GroupInner, segment: u64, found: &[Found]) -> bool {
    let state = inner.state.borrow();
    let is_known = |found: &Found| state.components.get(found.entry.serial).is_some();
    found.iter().any(|found| is_known(found) && found.is_live(&state, segment))
}

/// Waits until nothing live in the segment is above K, or until appends are held back: then such
/// entries are moved.
async fn wait_for_commit(
    inner: &GroupInner,
    segment: u64,
    found: &[Found],
) -> Result<(), GroupError> {
    if inner.options.mutations.destage_uncommitted() {
        return Ok(());
    }
    let mut highest: Map<u32, Lsn> = Map::new();
    {
        let state = inner.state.borrow();
        for found in found {
            let serial = found.entry.serial;
            let commit = state.components.get(serial).map_or(Lsn::MAX, |c| c.row.commit);
            if found.entry.lsn > commit && found.is_live(&state, segment) {
                let lsn = highest.entry(serial).or_default();
                *lsn = (*lsn).max(found.entry.lsn);
            }
        }
    }
    loop {
        let kick = inner.destage_kick.wait();
        inner.check_open()?;
        {
            let mut state = inner.state.borrow_mut();
            highest.retain(|serial, lsn| {
                state.components.get(*serial).is_some_and(|c| c.row.commit < *lsn)
            });
            // Segments that are written but not free count as full here: they may be all the room
            // that appends wait for.
            let fill = state.fill_of_segments();
            // Moving frees nothing if the whole ring holds only entries above K.
            let moved = state.moved_in_row;
            let may_move = moved < u64::from(state.log.layout.segments) * 2;
            if highest.is_empty() || (state.pace.is_pressed(fill) && may_move) {
                state.moved_in_row = if highest.is_empty() { 0 } else { moved + 1 };
                return Ok(());
            }
            base::hit(base::Probe::DestageWaited);
            state.is_waiting_for_commit = true;
        }
        wait(inner, kick, None).await;
        let mut state = inner.state.borrow_mut();
        state.is_waiting_for_commit = false;
        state.moved_in_row = 0;
    }
}

/// Adds W to a record, for the components whose W rose since the journal last said it. This W is
/// that of the batches before this one (store rule 9).
fn add_watermarks(inner: &GroupInner, device: usize, items: &mut Vec<Item>) {
    if inner.options.mutations.watermark_ahead() {
        let mut state = inner.state.borrow_mut();
        let serials = state.log.infos[0].serials.clone();
        serials.into_iter().for_each(|serial| state.raise_destaged(serial, 1));
    }
    let mut state = inner.state.borrow_mut();
    let GroupState { components, capacity, .. } = &mut *state;
    // A component stays in `risen` until the journal has its W: if this record does not come
    // about, the next one says it.
    capacity[device].risen.retain(|serial| {
        let component = components.get(*serial);
        let risen = component.filter(|c| c.row.destaged > c.destaged_logged);
        items.extend(risen.map(|c| Item::Watermark { serial: *serial, lsn: c.row.destaged }));
        risen.is_some()
    });
}

impl GroupState {
    /// Store rule 11: the block is read from capacity from now on, unless something newer is here.
    fn forget_block(&mut self, key: u64, place: LogPlace) {
        if !self.index.forget(key, place) {
            return;
        }
        let (serial, block) = ((key >> 40) as u32, key & ((1 << 40) - 1));
        let Some(device) = self.components.get(serial).map(|c| c.device) else { return };
        let chunk = chunk_key(serial, block / CHUNK_BLOCKS);
        self.note_erased(serial, chunk);
        self.chunks.over_mut(chunk).live -= 1;
        self.settle(chunk, device);
    }

    /// Notes that zeros or a discard leave the log, which is all that can leave it for a chunk that
    /// capacity does not hold. No other trace of them is left for a component that was away
    /// meanwhile and asks what changed (rule 30).
    fn note_erased(&mut self, serial: u32, chunk: u64) {
        if self.chunks.base(chunk).is_some() {
            return;
        }
        let lsn = Lsn(self.chunks.over(chunk).map_or(0, |over| over.lsn));
        if let Some(component) = self.components.get_mut(serial) {
            component.erased = component.erased.max(lsn);
        }
    }

    fn forget_clear(&mut self, key: u64, device: usize, place: LogPlace) {
        if self.chunks.over(key).and_then(|over| over.cleared).is_some_and(|(at, _)| at == place) {
            self.note_erased((key >> 32) as u32, key);
            self.chunks.over_mut(key).cleared = None;
            self.settle(key, device);
        }
    }

    /// Store rule 12: nothing points into the segment any more ([`has_live`] has just said so), it
    /// may be written again.
    fn free_oldest(&mut self, segment: u64, found: &[Found]) {
        for found in found {
            let serial = found.entry.serial;
            let is_known = self.components.get(serial).is_some();
            if !is_known && !found.is_clear() {
                // Of a deleted component.
                found.entry.range.blocks().for_each(|block| {
                    self.index.clear(block_key(serial, block), u64::MAX);
                });
            }
        }
        assert!(self.log.tail == segment, "segments are freed in order");
        assert!(!self.is_held(), "a segment is freed that a device needs which is out");
        self.log.tail = segment + 1;
        let Some(info) = self.log.infos.pop_front() else { return };
        for serial in info.serials {
            self.raise_destaged(serial, 0);
        }
    }

    /// Whether the oldest segment of the log may hold something that a device needs which is out.
    /// If no segment is closed, the oldest one is the open one.
    pub(crate) fn is_held(&self) -> bool {
        let is_held = self.log.infos.front().is_some_and(|info| info.is_held);
        is_held && !self.mutations.free_held()
    }

    /// W: everything below the lowest lsn that the log, without so many of its oldest segments,
    /// still needs of a component.
    pub(crate) fn raise_destaged(&mut self, serial: u32, without: usize) {
        let first = self.log.tail + without as u64;
        // A component that lost its write buffer gets a delta of everything above W. While the
        // component comes back from an absence, and while copies for it are in the log, it still
        // lacks writes with lower lsns. So W stays where it was when the component was last active.
        let may_rise = !self.has_copies(serial, without) || self.mutations.forget_copies();
        let is_any = self.mutations.raise_inactive();
        let Some(component) = self.components.get_mut(serial) else { return };
        component.lowest.forget_before(self.log.tail);
        let lowest = component.lowest.from(first);
        let is_whole = component.row.lost_at.is_none();
        if may_rise && is_whole && (component.is_active || is_any) {
            let destaged = lowest.map_or(component.row.durable, |lsn| Lsn(lsn.saturating_sub(1)));
            // Everything that has left the log was at or below K, so K bounds W. Without this bound
            // W could be one less than the first lsn of a new term, which K never reached.
            let destaged = destaged.min(component.row.commit);
            component.row.destaged = component.row.destaged.max(destaged);
            if component.row.destaged > component.destaged_logged {
                self.capacity[component.device].risen.insert(serial);
            }
        }
    }

    /// Whether the log, without so many of its oldest segments, holds a copy of a component.
    pub(crate) fn has_copies(&self, serial: u32, without: usize) -> bool {
        let first = self.log.tail + without as u64;
        self.components.get(serial).is_some_and(|c| c.lowest.has_copies(first))
    }
}
