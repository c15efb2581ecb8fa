// SPDX-License-Identifier: Apache-2.0
//! Recovery: capacity's pages and journal, then the log (docs/store.md).
//!
//! The order matters in two places. The component table comes before the log, for entries of
//! components that no row names are dropped. The new incarnation is durable before the first append
//! (store rule 1).

use crate::journal::areas::{FoundJournal, Stretch, has_later};
use crate::recovery::settle::{JournalEnds, settle_capacity};
use crate::state::{GroupInner, GroupState};
use crate::store::capacity::{MapMeta, PAGES_IN_FLIGHT, RowState, pages_touched};
use crate::store::components::Component;
use crate::store::rows::{newer, newest_row};
use crate::types::{GroupError, Structure, device_error};
use base::{CHUNK_SECTORS, Set};
use env::try_join_at_most;
use format::{
    FormatError, Item, JOURNAL_HEAD_SLOTS, JournalHead, JournalRecord, MAP_PAGE_CHUNKS, MapPage,
    PAGE_SIZE, RECORD_ITEMS_MAX,
};
use std::cell::RefCell;

/// Bytes of the journal that are read at a time, and that are looked at behind its end: several of
/// the longest records.
const LOOK_BEHIND: u64 = 4 << 20;
const _: () = assert!(LOOK_BEHIND as usize >= 2 * JournalRecord::size_of(RECORD_ITEMS_MAX));
const PAGE: u64 = PAGE_SIZE as u64;
/// Map pages that are read and looked at before the next: 4 MiB.
const MAP_STEP: usize = 512;
/// What one page counts for that is decoded: 10 us.
const PAGE_STEPS: u64 = 32;
/// Chunks of the map that are looked at between two rests.
const MAP_TURN: u32 = 1024;
/// Bytes of one read of table, map and journal.
const READ_STEP: u64 = 1 << 20;

/// Reads `bytes` from `start`, a few large reads at a time.
async fn read_area(
    inner: &GroupInner,
    device: usize,
    start: u64,
    bytes: u64,
) -> Result<Vec<u8>, GroupError> {
    let handle = &inner.devices[device];
    let out = RefCell::new(vec![0; bytes as usize]);
    let reads = (0..bytes).step_by(READ_STEP as usize).map(async |offset| {
        let length = READ_STEP.min(bytes - offset) as usize;
        let part = handle.disk().read(start + offset, inner.env.buf(length)).await?;
        let at = offset as usize;
        out.borrow_mut()[at..at + length].copy_from_slice(&part);
        Ok(())
    });
    let done = try_join_at_most(PAGES_IN_FLIGHT / 8, reads).await;
    done.map_err(device_error(&handle.path))?;
    Ok(out.into_inner())
}

pub(super) async fn recover_capacity(inner: &GroupInner, device: usize) -> Result<(), GroupError> {
    recover_table(inner, device).await?;
    recover_map(inner, device).await?;
    forget_pages(inner, device).await;
    let journal = recover_journal(inner, device).await?;
    check_map(inner, device).await?;
    settle_capacity(inner, device, journal).await?;
    give_chunks(inner, device).await;
    let mut state = inner.state.borrow_mut();
    state.store.count_promised(device);
    for serial in state.store.components.serials() {
        if let Some(component) = state.store.components.get_mut(serial) {
            // What is on capacity was committed (store rule 6).
            component.row.commit = component.row.commit.max(component.row.destaged);
            component.row.durable = component.row.durable.max(component.row.destaged);
        }
    }
    Ok(())
}

/// Calls `look` with each chunk of the map and what else is known, in turns of bounded length: a
/// device has millions of them.
async fn each_chunk(inner: &GroupInner, device: usize, mut look: impl FnMut(&mut GroupState, u32)) {
    let chunks =
        u32::try_from(inner.state.borrow().store.capacity[device].map.len()).unwrap_or(u32::MAX);
    for first in (0..chunks).step_by(MAP_TURN as usize) {
        let end = chunks.min(first.saturating_add(MAP_TURN));
        {
            let mut state = inner.state.borrow_mut();
            (first..end).for_each(|chunk| look(&mut state, chunk));
        }
        inner.env.spend_steps(u64::from(end - first)).await;
    }
}

/// Tells the components which chunks they have, and the device which are free.
async fn give_chunks(inner: &GroupInner, device: usize) {
    let mut free = Vec::new();
    each_chunk(inner, device, |state, chunk| {
        if state.store.take_over(device, chunk) {
            free.push(chunk);
        }
    })
    .await;
    free.reverse();
    inner.state.borrow_mut().store.capacity[device].free = free;
}

/// The journal tells block by block what came after the pages; what they hold already is known by
/// chunk only.
async fn forget_pages(inner: &GroupInner, device: usize) {
    each_chunk(inner, device, |state, chunk| {
        let entry = state.store.entry(device, chunk);
        let component = state.store.components.get_mut(entry.serial);
        if let Some(component) = component.filter(|component| component.device == device) {
            component.remembered_from = component.remembered_from.max(entry.lsn);
        }
    })
    .await;
}

/// A chunk behind the end of its component was never written: its number would lead into another
/// component's part of the chunk map.
async fn check_map(inner: &GroupInner, device: usize) -> Result<(), GroupError> {
    let mut wrong = None;
    each_chunk(inner, device, |state, chunk| {
        let entry = state.store.entry(device, chunk);
        let owner = state.store.components.get(entry.serial);
        let is_sound =
            owner.is_none_or(|owner| u64::from(entry.index) * CHUNK_SECTORS < owner.row.sectors);
        if !is_sound {
            wrong.get_or_insert(chunk as usize);
        }
    })
    .await;
    wrong.map_or(Ok(()), |chunk| {
        let page = u32::try_from(chunk / MAP_PAGE_CHUNKS).unwrap_or(u32::MAX);
        Err(GroupError::corrupt(
            &inner.devices[device].path,
            Structure::MapPage(page),
            FormatError::Field { name: "chunk of the component" },
        ))
    })
}

async fn recover_table(inner: &GroupInner, device: usize) -> Result<(), GroupError> {
    let handle = &inner.devices[device];
    let rows = handle.layout.rows;
    let bytes =
        read_area(inner, device, handle.layout.table_start, u64::from(rows) * 2 * PAGE).await?;
    let mut state = inner.state.borrow_mut();
    for (place, pages) in bytes.chunks(2 * PAGE_SIZE).enumerate() {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let found = newest_row(handle.id, place, pages)
            .map_err(|source| GroupError::corrupt(&handle.path, Structure::Row(place), source))?;
        let newest = found.as_ref().map_or(1, |(_, newest)| *newest);
        let mut known = RowState { newest, ..RowState::default() };
        if let Some((row, _)) = found {
            known.sequence = row.sequence;
            state.store.note_serial(row.serial);
            if !row.is_deleted {
                known.serial = row.serial;
                state.store.components.insert(Component::new(row, device, place));
            }
        }
        state.store.capacity[device].rows.push(known);
    }
    Ok(())
}

async fn recover_map(inner: &GroupInner, device: usize) -> Result<(), GroupError> {
    let layout = inner.devices[device].layout;
    let pages = layout.map_pages();
    {
        let mut state = inner.state.borrow_mut();
        let capacity = &mut state.store.capacity[device];
        capacity.map.reserve_exact(pages as usize * MAP_PAGE_CHUNKS);
        capacity.map_meta.reserve_exact(pages as usize);
    }
    // A part at a time: together the two slots of all pages are twice what is kept in memory.
    for first in (0..pages).step_by(MAP_STEP) {
        let count = (pages - first).min(MAP_STEP as u64);
        let start = layout.map_start + first * 2 * PAGE;
        let bytes = read_area(inner, device, start, count * 2 * PAGE).await?;
        for (number, both) in (first..).zip(bytes.chunks(2 * PAGE_SIZE)) {
            recover_map_page(inner, device, u32::try_from(number).unwrap_or(u32::MAX), both)?;
            inner.env.spend_steps(PAGE_STEPS).await;
        }
    }
    let mut state = inner.state.borrow_mut();
    let capacity = &mut state.store.capacity[device];
    capacity.map.truncate(layout.chunks as usize);
    capacity.settled = capacity.map.iter().map(|entry| entry.serial != 0).collect();
    Ok(())
}

/// The newer of a map page's two slots.
fn recover_map_page(
    inner: &GroupInner,
    device: usize,
    number: u32,
    both: &[u8],
) -> Result<(), GroupError> {
    let handle = &inner.devices[device];
    let slots = [0, 1].map(|slot| {
        MapPage::decode(handle.id, number, &both[slot * PAGE_SIZE..(slot + 1) * PAGE_SIZE])
    });
    let is_alone = slots.iter().any(Result::is_err);
    let (page, newest) = newer(slots, |page| page.sequence).map_err(|[source, _]| {
        GroupError::corrupt(&handle.path, Structure::MapPage(number), source)
    })?;
    let (sequence, applied) = (page.sequence, page.applied);
    // The second slot stays empty until the first checkpoint.
    let other = &both[(1 - newest) * PAGE_SIZE..(2 - newest) * PAGE_SIZE];
    let is_in_doubt = is_alone && other.iter().any(|byte| *byte != 0);
    let meta = MapMeta { sequence, newest, applied, is_dirty: false, is_in_doubt };
    let mut state = inner.state.borrow_mut();
    let capacity = &mut state.store.capacity[device];
    capacity.map_meta.push(meta);
    capacity.journal.sequence = capacity.journal.sequence.max(applied + 1);
    capacity.map.extend(page.chunks.iter().take(MAP_PAGE_CHUNKS));
    Ok(())
}

/// The last record that is known to have been durable.
async fn read_head(inner: &GroupInner, device: usize) -> Option<u64> {
    let handle = &inner.devices[device];
    let mut reached = None;
    for slot in JOURNAL_HEAD_SLOTS {
        // Never written, torn, not readable: the other one is older by a record.
        let page = handle.disk().read(slot, inner.env.buf(PAGE_SIZE)).await;
        let head = page.ok().and_then(|page| JournalHead::decode(handle.id, &page).ok());
        reached = reached.max(head.map(|head| head.record));
    }
    reached
}

/// What stands in an area of the journal, and the bytes that were read of it: only as far as
/// records go and a little behind, for it may be large.
async fn read_stretch(
    inner: &GroupInner,
    device: usize,
    (start, size): (u64, u64),
) -> Result<(Stretch, Vec<u8>), GroupError> {
    let (mut stretch, mut bytes): (Stretch, Vec<u8>) = Default::default();
    while (bytes.len() as u64) < size.min(stretch.position + LOOK_BEHIND) {
        let at = bytes.len() as u64;
        let length = LOOK_BEHIND.min(size - at);
        bytes.extend(read_area(inner, device, start + at, length).await?);
        stretch.follow(inner.devices[device].id, &bytes);
    }
    Ok((stretch, bytes))
}

/// Finds what of the journal counts, and replays it.
async fn recover_journal(inner: &GroupInner, device: usize) -> Result<JournalEnds, GroupError> {
    let handle = &inner.devices[device];
    let lost = |record, error| GroupError::corrupt(&handle.path, Structure::Journal(record), error);
    let areas = handle.layout.journal_areas();
    let (mut stretches, mut read) = (Vec::new(), Vec::new());
    for area in &areas {
        let (stretch, bytes) = read_stretch(inner, device, *area).await?;
        stretches.push(stretch);
        read.push(bytes);
    }
    let (paged, checkpointed) = {
        let capacity = &inner.state.borrow().store.capacity[device];
        (capacity.journal.sequence.max(1), capacity.map_meta[0].applied)
    };
    let is_torn_taken = inner.options.mutations.truncate_damage();
    let from = handle.layout.halves_from;
    let found = match FoundJournal::of_areas(stretches, from, (paged, checkpointed)) {
        Ok(found) => found,
        Err(_) if is_torn_taken => FoundJournal::default(),
        Err(record) => return Err(lost(record, FormatError::Checksum)),
    };
    // A build that wrote one area left records that pages hold.
    let ended = found.next().unwrap_or(paged).max(paged);
    let is_later = |bytes: &Vec<u8>| has_later(handle.id, bytes, ended);
    if read.iter().any(is_later) && !is_torn_taken {
        return Err(lost(ended, FormatError::Checksum));
    }
    drop(read);
    let records = || found.closed.records.iter().chain(&found.open.records);
    for record in records() {
        check_items(inner, device, &record.items)?;
    }
    check_doubts(inner, device, &found).await?;
    let head = read_head(inner, device).await.filter(|_| !inner.options.mutations.ignore_head());
    let mut state = inner.state.borrow_mut();
    state.report.journal_records += records().count() as u64;
    state.replay_records(device, &found.closed.records);
    state.store.capacity[device].pending.turn();
    state.replay_records(device, &found.open.records);
    let capacity = &mut state.store.capacity[device];
    capacity.pending.is_recovered(found.doubt_from);
    capacity.journal = found.stands(&handle.layout, ended);
    drop(state);
    if let Some(reached) = head.filter(|reached| *reached >= ended) {
        return Err(lost(reached, FormatError::Magic));
    }
    // A page is written when its records are durable, so the journal has them.
    if found.next().unwrap_or(handle.layout.halves_from) < paged
        && handle.layout.halves_from > 0
        && !is_torn_taken
    {
        return Err(lost(paged - 1, FormatError::Magic));
    }
    let last = match found.open.records.is_empty() {
        true => (areas[0].0, &found.closed),
        false => {
            (handle.layout.journal_start + found.half * handle.layout.half_size(), &found.open)
        }
    };
    Ok(JournalEnds { doubt_from: found.doubt_from, last: last_of(last) })
}

/// Where the last record of an area stands.
fn last_of((start, stretch): (u64, &Stretch)) -> Option<(u64, usize)> {
    let size = usize::try_from(stretch.last_size).ok().filter(|size| *size > 0)?;
    Some((start + stretch.position - stretch.last_size, size))
}

impl GroupState {
    /// Applies records that opening found, to what pages say.
    fn replay_records(&mut self, device: usize, records: &[JournalRecord]) {
        for record in records {
            base::hit(base::Probe::RecoveryJournal);
            for item in &record.items {
                if let Item::Allocate { serial, .. } | Item::Watermark { serial, .. } = item {
                    self.store.note_serial(*serial);
                }
                self.apply_item(device, item, record.sequence);
            }
        }
        self.store.capacity[device].are_unsettled(records);
    }
}

/// A map page with one damaged slot is what the other one says only if a checkpoint tore it that is
/// not over: the closed half counts. Map pages are written when the CRC pages are on the device, so
/// in a checkpoint that came so far every CRC page that the closed half changed holds the first
/// record of the open one. Otherwise the damaged slot may have been the newer one, and chunks given
/// away or taken since would read as what they were.
async fn check_doubts(
    inner: &GroupInner,
    device: usize,
    found: &FoundJournal,
) -> Result<(), GroupError> {
    let (doubts, first) = {
        let metas = &inner.state.borrow().store.capacity[device].map_meta;
        (metas.iter().position(|meta| meta.is_in_doubt), metas[0])
    };
    let (Some(number), false) = (doubts, inner.options.mutations.trust_older_map()) else {
        return Ok(());
    };
    // The checkpoint before wrote the first page, whatever changed. So what is left of that page
    // tells by itself: the torn slot is the older one.
    let is_old = first.is_in_doubt && !found.is_checkpointed_by(first.applied);
    if let Some(written_from) = found.written_from.filter(|_| !is_old) {
        let records = &found.closed.records;
        let pages: Set<u32> = records.iter().flat_map(|r| pages_touched(&r.items)).collect();
        let pages: Vec<u32> = pages.into_iter().collect();
        if inner.pages_hold(device, &pages, written_from).await? {
            return Ok(());
        }
    }
    Err(GroupError::corrupt(
        &inner.devices[device].path,
        Structure::MapPage(u32::try_from(number).unwrap_or(u32::MAX)),
        FormatError::Checksum,
    ))
}

/// Numbers in items against the device's geometry.
fn check_items(inner: &GroupInner, device: usize, items: &[Item]) -> Result<(), GroupError> {
    let chunks = inner.devices[device].layout.chunks;
    let is_sound = items.iter().filter_map(Item::chunk).all(|chunk| chunk < chunks);
    match is_sound {
        true => Ok(()),
        false => Err(GroupError::corrupt(
            &inner.devices[device].path,
            Structure::MapPage(0),
            FormatError::Field { name: "chunk" },
        )),
    }
}
