// SPDX-License-Identifier: Apache-2.0
//! Destage: the oldest closed segment goes to capacity and becomes free.
//!
//! Order of one segment (store rules 6 to 12):
//! 1. wait until every entry in it is at or below K, or move what is not to the log's head;
//! 2. data to capacity, in place; 3. a journal record, flushed, which covers 2 as well;
//! 4. index entries that still point into the segment are removed; 5. the segment is free.
//!
//! Why data may be overwritten in place before 3: between 2 and 3 the block has new bytes and an old
//! checksum on capacity, but until 4 the log holds the whole block, also after a crash, so it is
//! never read from capacity in that state. That is true of *whole* blocks only. A block that the log
//! holds in parts is therefore never destaged: it is folded, that is merged with what is below and
//! appended to the log as a whole block, and destaged with that entry's segment.

use crate::build::to_usize;
use crate::capacity::page_of;
use crate::chunks::{block_key, chunk_key};
use crate::index::{Place, View};
use crate::log::{Move, Still};
use crate::state::{Inner, State};
use crate::types::GroupError;
use base::{
    BLOCK_SECTORS, BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SECTORS, CHUNK_SIZE, Instant, Lsn, Map,
    SECTOR_SIZE, SectorRange, Set, crc32c,
};
use env::{Buf, Durability, Either, IoError, select};
use format::{Commit, Entry, EntryKind, Item};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of one read-back: larger ones delay the log's writes (STORE.md section 4).
const READ_BACK: u64 = 128 << 10;
/// Read-backs in flight, for the same reason.
const READ_BACKS: usize = 2;
/// The buffer counts as drained below this fill, thousandths.
const DRAINED: i64 = 50;

/// An entry of the segment, its payload's place in it, its checksums.
struct Found {
    entry: Entry,
    /// Bytes from the segment's start; for entries without payload: of their commit.
    at: u64,
    crcs: Vec<u32>,
}

/// One whole block on its way to capacity.
struct BlockWrite {
    key: u64,
    place: Place,
    /// Bytes from the segment's start.
    from: u64,
    crc: u32,
    lsn: Lsn,
    chunk: u32,
    block: u8,
    is_fresh: bool,
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
    zeros: Vec<(u64, Place)>,
    /// Chunks likewise.
    clears: Vec<(u64, usize, Place)>,
}

/// The destage task of a group.
pub(crate) async fn destage(inner: Rc<Inner>) {
    loop {
        for device in 0..inner.devices.len() {
            inner.reclaim(device).await;
        }
        if !wait_for_work(&inner).await {
            return;
        }
        let segment = inner.state.borrow().log.tail;
        match destage_segment(&inner, segment).await {
            Ok(()) => {}
            Err(GroupError::Device { device, source }) => {
                let _ = inner.fence(&device, &source);
                return;
            }
            Err(GroupError::Corrupt { .. } | GroupError::BadCrc { .. }) => {
                // What the log holds cannot be found any more: stop before it is overwritten.
                let _ = inner.fence(&inner.cache_path, &IoError::Device { errno: 5 });
                return;
            }
            Err(_) => return,
        }
    }
}

enum Work {
    Go,
    Stop,
    Close(Option<(u64, env::Slice)>),
    Wait(Option<Instant>),
}

fn next_work(inner: &Inner) -> Work {
    let mut state = inner.state.borrow_mut();
    if state.fenced.is_some() || state.is_closed {
        return Work::Stop;
    }
    let now = inner.env.now();
    let idle = now.since(state.last_append);
    let has_content = state.log.tail < state.log.head || state.log.offset > 0;
    let is_over = state.log.fill() > DRAINED || state.drain_all;
    let idle_after = inner.options.idle_after;
    let is_draining = has_content && (state.drain_all || (is_over && idle >= idle_after));
    if state.log.tail < state.log.head {
        let fill = state.fill();
        if is_draining || state.pace.may_destage(fill) {
            return Work::Go;
        }
    } else if is_draining
        && (state.drain_all || idle >= 2 * idle_after)
        && let Some(summary) = state.log.close_early(inner.env.pool())
    {
        return Work::Close(summary);
    }
    let at = state.last_append + if idle < idle_after { idle_after } else { 2 * idle_after };
    Work::Wait((has_content && is_over && at > now).then_some(at))
}

/// Waits until there is a closed segment to destage; false when the group is over.
async fn wait_for_work(inner: &Inner) -> bool {
    loop {
        let kick = inner.destage_kick.wait();
        match next_work(inner) {
            Work::Go => return true,
            Work::Stop => return false,
            Work::Close(summary) => {
                if let Some((at, bytes)) = summary {
                    drop(inner.cache.write(at, bytes, Durability::Cached));
                }
            }
            Work::Wait(until) => {
                if inner.state.borrow().capacity.iter().any(|c| !c.freeing.is_empty()) {
                    for device in 0..inner.devices.len() {
                        inner.reclaim(device).await;
                    }
                    continue;
                }
                wait(inner, kick, until).await;
            }
        }
    }
}

async fn wait(inner: &Inner, kick: impl Future<Output = ()>, until: Option<Instant>) {
    {
        let mut state = inner.state.borrow_mut();
        state.is_destage_waiting = true;
        state.is_timer_armed = until.is_some();
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
}

async fn destage_segment(inner: &Rc<Inner>, segment: u64) -> Result<(), GroupError> {
    let (bytes, found) = read_back(inner, segment).await?;
    let mut unpaid = i64::try_from(bytes.len() / 4096).unwrap_or(0);
    // Again where something changed under way: a newer part on top of a block that was whole, or a
    // fold that came too late. Each round leaves fewer live entries, for none are added.
    while has_live(inner, segment, &found) {
        wait_for_commit(inner, segment, &found).await?;
        let mut batch = plan(inner, segment, &found, &bytes);
        fold(inner, segment, &found, &bytes, &mut batch).await?;
        move_to_head(inner, std::mem::take(&mut batch.moves)).await?;
        let writes = batch.writes.iter().map(Vec::len).sum::<usize>();
        unpaid -= i64::try_from(writes).unwrap_or(0);
        let mut written: Vec<BlockWrite> = Vec::new();
        for device in 0..inner.devices.len() {
            written.extend(write_batch(inner, device, &mut batch, &bytes).await?);
        }
        let mut state = inner.state.borrow_mut();
        state.counters.destaged_blocks += written.len() as u64;
        let blocks = written.iter().map(|write| (write.key, write.place));
        for (key, place) in blocks.chain(batch.zeros) {
            state.forget_block(key, place);
        }
        for (key, device, place) in batch.clears {
            state.forget_clear(key, device, place);
        }
    }
    {
        let mut state = inner.state.borrow_mut();
        let fill = state.fill();
        state.pace.destaged(unpaid.max(0), fill);
        state.free_oldest(segment, &found);
    }
    inner.log_kick.notify();
    Ok(())
}

/// Data, then the journal record, of one device (store rules 7 to 10).
async fn write_batch(
    inner: &Inner,
    device: usize,
    batch: &mut Batch,
    bytes: &Buf,
) -> Result<Vec<BlockWrite>, GroupError> {
    let writes = std::mem::take(&mut batch.writes[device]);
    let done = write_data(inner, device, writes, bytes).await?;
    let mut items = std::mem::take(&mut batch.items[device]);
    add_emptied(inner, device, &mut items).await?;
    items.extend(done.iter().map(|write| Item::Block {
        chunk: write.chunk,
        block: write.block,
        crc: write.crc,
        lsn: write.lsn,
    }));
    if !items.is_empty() {
        add_watermarks(inner, device, &mut items);
        if inner.wants_checkpoint(device) {
            inner.checkpoint(device).await?;
        }
        inner.journal(device, &items).await?;
    }
    Ok(done)
}

/// Whether the log still needs anything of the segment.
fn has_live(inner: &Inner, segment: u64, found: &[Found]) -> bool {
    let state = inner.state.borrow();
    let is_known = |found: &Found| state.components.get(found.entry.serial).is_some();
    found.iter().any(|found| is_known(found) && found.is_live(&state, segment))
}

/// Reads the segment and finds its entries.
async fn read_back(inner: &Inner, segment: u64) -> Result<(Buf, Vec<Found>), GroupError> {
    let (start, used) = {
        let state = inner.state.borrow();
        (state.log.segment_start(segment), u64::from(state.log.infos[0].used))
    };
    let mut bytes = inner.env.buf(to_usize(used));
    let mut running = VecDeque::new();
    let (mut asked, mut got) = (0, 0);
    while got < used {
        while asked < used && running.len() < READ_BACKS {
            let length = READ_BACK.min(used - asked);
            let read = inner.cache.read(start + asked, inner.env.buf(to_usize(length)));
            running.push_back(Box::pin(read));
            asked += length;
        }
        let Some(read) = running.pop_front() else { break };
        let part = read
            .await
            .map_err(|source| GroupError::Device { device: inner.cache_path.clone(), source })?;
        bytes[to_usize(got)..to_usize(got) + part.len()].copy_from_slice(&part);
        got += part.len() as u64;
    }
    let found = parse(inner, segment, &bytes)?;
    Ok((bytes, found))
}

fn parse(inner: &Inner, segment: u64, bytes: &[u8]) -> Result<Vec<Found>, GroupError> {
    let device = inner.state.borrow().log.device;
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let decoded = Commit::decode(device, &bytes[at..]).and_then(|(commit, _, _)| {
            let fits = commit.segment == segment && commit.position as usize == at;
            let ends = at + commit.length as usize <= bytes.len();
            let field = format::FormatError::Field { name: "position" };
            if fits && ends { Ok(commit) } else { Err(field) }
        });
        let commit = decoded.map_err(|source| GroupError::Corrupt {
            device: inner.cache_path.clone(),
            structure: crate::types::Structure::Segment(segment),
            source,
        })?;
        let mut crcs = commit.crcs.as_slice();
        for entry in commit.entries {
            let (mine, rest) = crcs.split_at(entry.crc_count());
            crcs = rest;
            let payload = at as u64 + u64::from(entry.payload) * SECTOR_SIZE;
            found.push(Found { entry, at: payload, crcs: mine.to_vec() });
        }
        at += commit.length as usize;
    }
    Ok(found)
}

impl Found {
    fn is_clear(&self) -> bool {
        self.entry.kind != EntryKind::Data && self.entry.range.count == CHUNK_SECTORS
    }

    /// Where a block of the entry is in the log.
    fn place(&self, state: &State, segment: u64, block: u64) -> Place {
        let first = state.log.sector(segment, self.at);
        match self.entry.kind {
            EntryKind::Data => {
                let number = block - self.entry.range.start / BLOCK_SECTORS;
                Place::data(first + (number * BLOCK_SECTORS) as u32)
            }
            EntryKind::Zero | EntryKind::Discard => Place::zero(first),
        }
    }

    /// Whether any of it is still the newest.
    fn is_live(&self, state: &State, segment: u64) -> bool {
        let serial = self.entry.serial;
        if self.is_clear() {
            let key = chunk_key(serial, self.entry.range.start / CHUNK_SECTORS);
            let place = Place::zero(state.log.sector(segment, self.at));
            let cleared = state.chunks.over(key).and_then(|over| over.cleared);
            return cleared.is_some_and(|(at, _)| at == place);
        }
        self.entry.range.blocks().any(|block| {
            state.index.is_live(block_key(serial, block), self.place(state, segment, block))
        })
    }
}

/// Waits until nothing live in the segment is above K, or until appends are held back: then such
/// entries are moved.
async fn wait_for_commit(inner: &Inner, segment: u64, found: &[Found]) -> Result<(), GroupError> {
    if inner.options.mutations.destage_uncommitted {
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
            let fill = state.fill();
            // Moving pays only if the ring is not full of such entries alone.
            let moved = state.moved_in_row;
            let may_move = moved < u64::from(state.log.layout.segments) * 2;
            if highest.is_empty() || (state.pace.is_pressed(fill) && may_move) {
                state.moved_in_row = if highest.is_empty() { 0 } else { moved + 1 };
                return Ok(());
            }
            state.is_waiting_for_commit = true;
        }
        wait(inner, kick, None).await;
        let mut state = inner.state.borrow_mut();
        state.is_waiting_for_commit = false;
        state.moved_in_row = 0;
    }
}

/// Sorts what is live in the segment into writes, map changes, moves and folds.
fn plan(inner: &Inner, segment: u64, found: &[Found], bytes: &[u8]) -> Batch {
    let mut state = inner.state.borrow_mut();
    let devices = inner.devices.len();
    let mut batch = Batch::default();
    batch.writes.resize_with(devices, Vec::new);
    batch.items.resize_with(devices, Vec::new);
    let may_all = inner.options.mutations.destage_uncommitted;
    for found in found {
        let entry = &found.entry;
        let Some(component) = state.components.get(entry.serial) else { continue };
        let (device, commit) = (component.device, component.row.commit);
        let is_committed = entry.lsn <= commit || may_all;
        if found.is_clear() {
            if found.is_live(&state, segment) {
                state.plan_clear(segment, found, device, is_committed, &mut batch);
            }
            continue;
        }
        for block in entry.range.blocks() {
            let key = block_key(entry.serial, block);
            let place = found.place(&state, segment, block);
            if !state.index.is_live(key, place) {
                continue;
            }
            // A clear of the chunk that was moved ahead hides whatever is on capacity: a newer block
            // follows it through the log.
            let is_under_clear = state.is_cleared_elsewhere(entry.serial, block, segment);
            if !is_committed || is_under_clear {
                batch.moves.push(move_of(found, block, key, place, bytes));
                continue;
            }
            match state.index.get(key) {
                Some(View::Parts(_)) => {
                    batch.folds.insert((entry.serial, block));
                }
                _ => state.plan_block(found, device, block, place, bytes, &mut batch),
            }
        }
    }
    drop(state);
    for writes in &mut batch.writes {
        writes.sort_by_key(|write| (write.chunk, write.block));
    }
    batch
}

/// An entry's part of one block, to be appended again as it is.
fn move_of(found: &Found, block: u64, key: u64, place: Place, bytes: &[u8]) -> Move {
    let whole = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
    let range = found.entry.range.intersect(whole);
    let number = to_usize(block - found.entry.range.start / BLOCK_SECTORS);
    let from = to_usize(found.at) + number * to_usize(BLOCK_SIZE);
    let is_data = found.entry.kind == EntryKind::Data;
    let end = if is_data { from + to_usize(range.bytes()) } else { from };
    Move {
        serial: found.entry.serial,
        kind: found.entry.kind,
        range,
        lsn: found.entry.lsn,
        crcs: found.crcs.get(number).copied().into_iter().collect(),
        payload: bytes.get(from..end).unwrap_or_default().to_vec(),
        still: Still::Live(key, place),
    }
}

impl State {
    /// Whether the chunk of a block was cleared by an entry of another segment that is still live.
    fn is_cleared_elsewhere(&self, serial: u32, block: u64, segment: u64) -> bool {
        let key = chunk_key(serial, block / CHUNK_BLOCKS);
        let cleared = self.chunks.over(key).and_then(|over| over.cleared);
        let physical = (segment % u64::from(self.log.layout.segments)) as usize;
        cleared.is_some_and(|(place, _)| self.log.physical(place) != physical)
    }

    fn plan_clear(
        &mut self,
        segment: u64,
        found: &Found,
        device: usize,
        is_committed: bool,
        batch: &mut Batch,
    ) {
        let entry = &found.entry;
        let key = chunk_key(entry.serial, entry.range.start / CHUNK_SECTORS);
        if !is_committed {
            let place = Place::zero(self.log.sector(segment, found.at));
            batch.moves.push(Move {
                serial: entry.serial,
                kind: entry.kind,
                range: entry.range,
                lsn: entry.lsn,
                crcs: Vec::new(),
                payload: Vec::new(),
                still: Still::Cleared(key, place),
            });
            return;
        }
        let place = Place::zero(self.log.sector(segment, found.at));
        batch.clears.push((key, device, place));
        let Some(chunk) = self.chunks.base(key) else { return };
        let is_wanted = self.chunks.over(key).is_some_and(|o| o.live > 0 || o.queued > 0);
        batch.items[device].push(match is_wanted {
            true => Item::Clear { chunk, lsn: entry.lsn },
            false => Item::Free { chunk },
        });
    }

    fn plan_block(
        &mut self,
        found: &Found,
        device: usize,
        block: u64,
        place: Place,
        bytes: &[u8],
        batch: &mut Batch,
    ) {
        let entry = &found.entry;
        let chunk_at = block / CHUNK_BLOCKS;
        let key = chunk_key(entry.serial, chunk_at);
        let within = (block % CHUNK_BLOCKS) as u8;
        let base = self.chunks.base(key);
        if entry.kind != EntryKind::Data {
            if let Some(chunk) = base {
                batch.items[device].push(Item::Unset { chunk, block: within, lsn: entry.lsn });
            }
            batch.zeros.push((block_key(entry.serial, block), place));
            return;
        }
        let fresh = batch.fresh.get(&key).copied();
        let chunk = base.or(fresh).or_else(|| {
            let chunk = self.capacity[device].free.pop()?;
            batch.fresh.insert(key, chunk);
            batch.items[device].push(Item::Allocate {
                chunk,
                serial: entry.serial,
                index: chunk_at as u32,
                lsn: entry.lsn,
            });
            Some(chunk)
        });
        let key = block_key(entry.serial, block);
        let Some(chunk) = chunk else {
            // Freed chunks still wait for their discard: keep the block in the log for a lap.
            batch.moves.push(move_of(found, block, key, place, bytes));
            return;
        };
        let number = block - entry.range.start / BLOCK_SECTORS;
        batch.writes[device].push(BlockWrite {
            key,
            place,
            from: found.at + number * BLOCK_SIZE,
            crc: found.crcs[to_usize(number)],
            lsn: entry.lsn,
            chunk,
            block: within,
            is_fresh: base.is_none(),
        });
    }
}

/// Merges blocks that the log holds in parts into whole ones (store rule 14). Where what is below
/// fails its checksum the parts are moved as they are: they stay in the log, lap for lap, until a
/// repair covers the block; nothing is merged into bad data.
async fn fold(
    inner: &Rc<Inner>,
    segment: u64,
    found: &[Found],
    bytes: &[u8],
    batch: &mut Batch,
) -> Result<(), GroupError> {
    let folds = std::mem::take(&mut batch.folds);
    for (serial, block) in folds {
        let key = block_key(serial, block);
        let (commit, pieces) = {
            let state = inner.state.borrow();
            let Some(component) = state.components.get(serial) else { continue };
            let commit = component.row.commit.0;
            let Some(View::Parts(parts)) = state.index.get(key) else {
                // Covered meanwhile by a newer whole block.
                continue;
            };
            let old = parts.pieces.iter().filter(|piece| piece.lsn <= commit);
            (commit, old.copied().collect::<Vec<_>>())
        };
        let Some(lsn) = pieces.iter().map(|piece| piece.lsn).max() else { continue };
        match crate::read::read_committed(inner, serial, block, commit).await {
            Ok(whole) => batch.moves.push(Move {
                serial,
                kind: EntryKind::Data,
                range: SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS),
                lsn: Lsn(lsn),
                crcs: vec![crc32c(&whole)],
                payload: whole.to_vec(),
                still: Still::Pieces(key, pieces.iter().map(|piece| piece.place).collect()),
            }),
            Err(GroupError::BadCrc { .. }) => {
                let state = inner.state.borrow();
                for found in found.iter().filter(|f| f.entry.serial == serial && !f.is_clear()) {
                    if !found.entry.range.blocks().contains(&block) {
                        continue;
                    }
                    let place = found.place(&state, segment, block);
                    if state.index.is_live(key, place) {
                        batch.moves.push(move_of(found, block, key, place, bytes));
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Hands entries to the log's task and waits until they are durable at its head.
async fn move_to_head(inner: &Inner, moves: Vec<Move>) -> Result<(), GroupError> {
    if moves.is_empty() {
        return Ok(());
    }
    inner.state.borrow_mut().log.moves.extend(moves);
    inner.log_kick.notify();
    loop {
        let progress = inner.progress.wait();
        inner.check_open()?;
        let is_done = {
            let state = inner.state.borrow();
            state.log.moves.is_empty() && state.stalled_moves.is_none() && !state.is_moving
        };
        if is_done {
            return Ok(());
        }
        progress.await;
    }
}

type Writing = Pin<Box<dyn Future<Output = Result<(), IoError>>>>;

/// Writes blocks to a device, neighbours merged, many in flight; those that were still live.
async fn write_data(
    inner: &Inner,
    device: usize,
    writes: Vec<BlockWrite>,
    bytes: &Buf,
) -> Result<Vec<BlockWrite>, GroupError> {
    let mut running: VecDeque<(Writing, i64)> = VecDeque::new();
    let mut written = Vec::with_capacity(writes.len());
    let mut rest = writes.into_iter().peekable();
    while let Some(first) = rest.next() {
        let mut run = vec![first];
        while let Some(next) = rest.next_if(|next| {
            let last = &run[run.len() - 1];
            let is_next = next.block == last.block.wrapping_add(1) && next.block != 0;
            next.chunk == last.chunk && (last.is_fresh || is_next)
        }) {
            run.push(next);
        }
        wait_for_tokens(inner).await?;
        let blocks = i64::try_from(run.len()).unwrap_or(0);
        {
            // Store rule 7: looked at again when the write is issued.
            let state = inner.state.borrow();
            let is_file = inner.devices[device].disk.info().is_file;
            let keeps_fresh = is_file && run.first().is_some_and(|write| write.is_fresh);
            if !keeps_fresh {
                run.retain(|write| state.index.is_live(write.key, write.place));
            }
        }
        for part in contiguous(run) {
            running.push_back((issue(inner, device, &part, bytes), part.len() as i64));
            written.extend(part);
            if running.len() >= inner.options.destage_depth {
                finish(inner, device, running.pop_front()).await?;
            }
        }
        let mut state = inner.state.borrow_mut();
        let fill = state.fill();
        state.pace.destaged(blocks, fill);
        let must_kick = std::mem::take(&mut state.is_pressed);
        drop(state);
        if must_kick {
            inner.log_kick.notify();
        }
    }
    while !running.is_empty() {
        finish(inner, device, running.pop_front()).await?;
    }
    Ok(written)
}

/// Cuts a run where blocks are missing. A fresh chunk of a file stays in one piece: it is written
/// in full, once, so that later writes need no new extents.
fn contiguous(run: Vec<BlockWrite>) -> Vec<Vec<BlockWrite>> {
    let mut parts: Vec<Vec<BlockWrite>> = Vec::new();
    for write in run {
        match parts.last_mut() {
            Some(part)
                if part
                    .last()
                    .is_some_and(|l| l.is_fresh || l.block.checked_add(1) == Some(write.block)) =>
            {
                part.push(write);
            }
            _ => parts.push(vec![write]),
        }
    }
    parts
}

fn issue(inner: &Inner, device: usize, part: &[BlockWrite], bytes: &Buf) -> Writing {
    let handle = &inner.devices[device];
    let (first, last) = (&part[0], &part[part.len() - 1]);
    let is_whole = first.is_fresh && handle.disk.info().is_file;
    let (start, count) = match is_whole {
        true => (0, CHUNK_BLOCKS),
        false => (u64::from(first.block), u64::from(last.block) - u64::from(first.block) + 1),
    };
    let mut buf = inner.env.buf(to_usize(count * BLOCK_SIZE));
    if count != part.len() as u64 {
        buf.fill(0);
    }
    for write in part {
        let at = to_usize((u64::from(write.block) - start) * BLOCK_SIZE);
        let from = to_usize(write.from);
        buf[at..at + 4096].copy_from_slice(&bytes[from..from + 4096]);
    }
    let offset =
        handle.layout.chunk_start + u64::from(first.chunk) * CHUNK_SIZE + start * BLOCK_SIZE;
    Box::pin(handle.disk.write(offset, buf.freeze(), Durability::Cached))
}

async fn finish(
    inner: &Inner,
    device: usize,
    writing: Option<(Writing, i64)>,
) -> Result<(), GroupError> {
    let Some((writing, _)) = writing else { return Ok(()) };
    writing.await.map_err(|error| inner.fence(&inner.devices[device].path, &error))
}

/// Waits for the pace; appends that pause make it free.
async fn wait_for_tokens(inner: &Inner) -> Result<(), GroupError> {
    loop {
        let kick = inner.destage_kick.wait();
        inner.check_open()?;
        let until = {
            let state = inner.state.borrow();
            let idle_at = state.last_append + inner.options.idle_after;
            let fill = state.fill();
            if state.drain_all || state.pace.may_destage(fill) || inner.env.now() >= idle_at {
                return Ok(());
            }
            idle_at
        };
        wait(inner, kick, Some(until.max(inner.env.now() + Duration::from_nanos(1)))).await;
    }
}

/// Chunks that lost their last block are freed with this batch.
async fn add_emptied(
    inner: &Inner,
    device: usize,
    items: &mut Vec<Item>,
) -> Result<(), GroupError> {
    let emptied = std::mem::take(&mut inner.state.borrow_mut().capacity[device].emptied);
    for chunk in emptied {
        let (number, place) = page_of(chunk);
        inner.load_page(device, number, false).await?;
        let mut state = inner.state.borrow_mut();
        let entry = state.capacity[device].map[chunk as usize];
        let key = chunk_key(entry.serial, u64::from(entry.index));
        let is_idle = state.chunks.over(key).is_none_or(|o| o.live == 0 && o.queued == 0);
        let is_touched = items.iter().any(|item| {
            matches!(item, Item::Free { chunk: c } | Item::Clear { chunk: c, .. } | Item::Unset { chunk: c, .. } if *c == chunk)
        });
        let is_empty =
            state.capacity[device].page(number).is_some_and(|cached| cached.page.is_empty(place));
        if entry.serial != 0 && is_idle && is_empty && !is_touched {
            items.push(Item::Free { chunk });
        }
    }
    Ok(())
}

/// W of the batches before this one, for the components where it rose.
fn add_watermarks(inner: &Inner, device: usize, items: &mut Vec<Item>) {
    let state = inner.state.borrow();
    for serial in state.components.serials() {
        if let Some(component) = state.components.get(serial)
            && component.device == device
            && component.row.destaged > component.destaged_logged
        {
            items.push(Item::Watermark { serial, lsn: component.row.destaged });
        }
    }
}

impl State {
    /// Store rule 11: the block is read from capacity from now on, unless something newer is here.
    fn forget_block(&mut self, key: u64, place: Place) {
        if !self.index.forget(key, place) {
            return;
        }
        let (serial, block) = ((key >> 40) as u32, key & ((1 << 40) - 1));
        let Some(device) = self.components.get(serial).map(|c| c.device) else { return };
        let chunk = chunk_key(serial, block / CHUNK_BLOCKS);
        self.chunks.over_mut(chunk).live -= 1;
        self.settle(chunk, device);
    }

    fn forget_clear(&mut self, key: u64, device: usize, place: Place) {
        if self.chunks.over(key).and_then(|over| over.cleared).is_some_and(|(at, _)| at == place) {
            self.chunks.over_mut(key).cleared = None;
            self.settle(key, device);
        }
    }

    /// Store rule 12: nothing points into the segment any more, it may be written again.
    fn free_oldest(&mut self, segment: u64, found: &[Found]) {
        for found in found {
            let serial = found.entry.serial;
            let is_known = self.components.get(serial).is_some();
            if is_known {
                assert!(!found.is_live(self, segment), "a segment is freed that is still needed");
                continue;
            }
            if !found.is_clear() {
                // Of a deleted component.
                found.entry.range.blocks().for_each(|block| {
                    self.index.clear(block_key(serial, block), u64::MAX);
                });
            }
        }
        assert!(self.log.tail == segment, "segments are freed in order");
        self.log.tail = segment + 1;
        let Some(info) = self.log.infos.pop_front() else { return };
        for (serial, _) in info.lowest {
            self.raise_destaged(serial);
        }
    }

    /// W: everything below the lowest lsn that the log still needs of a component.
    fn raise_destaged(&mut self, serial: u32) {
        let of = |info: &crate::log::SegmentInfo| {
            info.lowest.iter().find(|(s, _)| *s == serial).map(|(_, lsn)| *lsn)
        };
        let lowest = self.log.infos.iter().filter_map(of).min();
        if let Some(component) = self.components.get_mut(serial) {
            let destaged = lowest.map_or(component.row.durable, |lsn| Lsn(lsn.saturating_sub(1)));
            component.row.destaged = component.row.destaged.max(destaged);
        }
    }
}
