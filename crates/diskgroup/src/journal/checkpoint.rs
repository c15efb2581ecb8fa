// SPDX-License-Identifier: Apache-2.0
//! Checkpoints: pages and rows to the device, so that a half of the journal can be written again.

use crate::devices::superblock::mark_halved;
use crate::journal::writeback::image_steps;
use crate::state::GroupInner;
use crate::store::capacity::{CapacityState, PAGES_IN_FLIGHT, RowState};
use crate::types::{DeviceRequests, GroupError};
use base::Quirk;
use env::{Durability, try_join_at_most};
use format::{ChunkEntry, ComponentRow, MAP_PAGE_CHUNKS, MapPage, PAGE_SIZE};
use std::rc::Rc;

const PAGE: u64 = PAGE_SIZE as u64;
/// Rows that are looked at between two rests.
const ROWS_STEP: usize = 256;
/// What a person is told of that ended.
const TASK: &str = "checkpointing";

/// Brings what a closed half of a device's journal changed to the pages, each time that there is
/// one, until the group is over.
pub(crate) async fn keep_checkpoints(inner: Rc<GroupInner>, device: usize) {
    // Power may have failed between the two superblocks that say so.
    let is_linear = inner.state.borrow().store.capacity[device].journal.is_linear;
    if !is_linear && let Err(error) = inner.halve(device).await {
        return inner.stop(TASK, error);
    }
    loop {
        let kick = inner.checkpoint_kick.wait();
        let (is_over, is_due) = {
            let state = inner.state.borrow();
            let journal = &state.store.capacity[device].journal;
            // Images of the checkpoint are known by a record of the open half that they hold.
            (state.is_over(), journal.has_closed && journal.position > 0)
        };
        match (is_over, is_due) {
            (true, _) => return,
            (false, false) => kick.await,
            (false, true) => {
                if let Err(error) = inner.checkpoint(device).await {
                    inner.stop(TASK, error);
                    return;
                }
            }
        }
    }
}

impl GroupInner {
    /// Writes all pages that the closed half changed to their older slots; then that half may be
    /// written again (store rule 10).
    ///
    /// First CRC pages, flushed; then map pages, flushed: a chunk that the map calls allocated has
    /// a CRC page, or the open half allocates it. Then rows, flushed; the map's first page comes
    /// last. A crash before that replays records that pages hold already: each page says up to
    /// which record, they are skipped.
    pub(crate) async fn checkpoint(&self, device: usize) -> Result<(), GroupError> {
        base::hit(base::Probe::Checkpoint);
        self.write_back(device).await?;
        let dirty = self.dirty_map_pages(device);
        self.write_map(device, &dirty).await?;
        self.write_rows(device).await?;
        // The first page always, and last: it says how far the journal's sequence has come, and
        // that all else is durable.
        self.write_map(device, &[0]).await?;
        self.env.linger(Quirk::CheckpointLingers).await;
        if self.state.borrow().store.capacity[device].journal.is_linear {
            self.halve(device).await?;
        }
        self.state.borrow_mut().store.capacity[device].journal.has_closed = false;
        self.checkpoint_kick.notify();
        Ok(())
    }

    /// Both superblocks of the device say that its journal is in halves from the next record on,
    /// before there is one: a build of before would look for it in one area.
    async fn halve(&self, device: usize) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        let from = self.state.borrow().store.capacity[device].journal.sequence;
        mark_halved(&self.env, &handle.path, handle.disk(), from).await?;
        self.state.borrow_mut().store.capacity[device].journal.is_linear = false;
        Ok(())
    }

    /// Map pages that changed, but the first.
    fn dirty_map_pages(&self, device: usize) -> Vec<usize> {
        let state = self.state.borrow();
        let all = state.store.capacity[device].map_meta.iter().enumerate().skip(1);
        all.filter(|(_, meta)| meta.is_dirty).map(|(number, _)| number).collect()
    }

    /// Writes map pages, in bands as CRC pages.
    async fn write_map(&self, device: usize, pages: &[usize]) -> Result<(), GroupError> {
        for band in pages.chunks(self.options.limits.band_pages) {
            base::hit_if(pages[0] > 0, base::Probe::SecondMapPage);
            self.check_open()?;
            let images = self.take_map_images(device, band).await;
            let count = |requests: &mut DeviceRequests| requests.map_pages += 1;
            self.write_images(device, &images, true, count).await?;
        }
        Ok(())
    }

    /// Images of map pages. Each holds all records up to its own moment; what changes it later
    /// makes it dirty again.
    async fn take_map_images(&self, device: usize, band: &[usize]) -> Vec<(u64, env::Slice)> {
        let handle = &self.devices[device];
        let is_single = self.options.mutations.single_page_slot();
        let step = self.options.limits.checkpoint_pages;
        base::hit_if(band.len() > step, base::Probe::CheckpointPart);
        let mut images = Vec::with_capacity(band.len());
        for some in band.chunks(step) {
            for number in some {
                let mut state = self.state.borrow_mut();
                let (page, slot) = state.store.capacity[device].map_image(*number, is_single);
                drop(state);
                let mut buf = self.env.buf(PAGE_SIZE);
                page.encode(handle.id, &mut buf);
                let slot = u64::from(page.number) * 2 + slot as u64;
                images.push((handle.layout.map_start + slot * PAGE, buf.freeze()));
            }
            self.env.spend_steps(image_steps(some.len())).await;
        }
        images
    }

    /// Writes every living component's row: W, K and the highest lsn outlive the journal so. Those
    /// of which both pages say it already stay as they are.
    async fn write_rows(&self, device: usize) -> Result<(), GroupError> {
        let _permit = self.table.acquire(1).await;
        let serials = self.state.borrow().store.components.serials();
        let mut rows: Vec<(u32, ComponentRow)> = Vec::new();
        for some in serials.chunks(ROWS_STEP) {
            {
                let state = self.state.borrow();
                let mine = some.iter().filter_map(|serial| state.store.components.get(*serial));
                let known = &state.store.capacity[device].rows;
                let changed = mine.filter(|c| c.device == device).filter(|c| {
                    let is_single = self.options.mutations.single_row_slot();
                    is_single || !known[c.place as usize].is_kept(&c.row)
                });
                rows.extend(changed.map(|c| (c.place, c.row.clone())));
            }
            self.env.spend_steps(some.len() as u64).await;
        }
        if rows.is_empty() {
            return Ok(());
        }
        let puts = rows
            .iter()
            .map(|(place, row)| self.put_row(device, *place, row.clone(), Durability::Cached));
        let images = try_join_at_most(PAGES_IN_FLIGHT, puts).await?;
        if !self.options.mutations.early_journal_reuse() {
            self.flush_device(device).await?;
            self.read_back(device, &images).await?;
        }
        let mut state = self.state.borrow_mut();
        rows.into_iter().for_each(|(place, row)| state.store.row_is_kept(device, place, row));
        Ok(())
    }

    /// Writes a row's older page, and returns when it is durable. The caller holds the table's
    /// permit.
    pub(crate) async fn write_row(
        &self,
        device: usize,
        place: u32,
        row: ComponentRow,
    ) -> Result<(), GroupError> {
        let image = self.put_row(device, place, row.clone(), Durability::Durable).await?;
        self.read_back(device, &[image]).await?;
        self.state.borrow_mut().store.row_is_kept(device, place, row);
        Ok(())
    }

    /// Writes both pages of a row: what it says outlives the rot of either, and a row of which one
    /// page is damaged and the other was never written is a creation that power loss cut off.
    pub(crate) async fn write_row_twice(
        &self,
        device: usize,
        place: u32,
        row: &ComponentRow,
    ) -> Result<(), GroupError> {
        for _ in 0..2 {
            self.write_row(device, place, row.clone()).await?;
        }
        Ok(())
    }

    /// Writes a row's older page: where, and what.
    async fn put_row(
        &self,
        device: usize,
        place: u32,
        mut row: ComponentRow,
        durability: Durability,
    ) -> Result<(u64, env::Slice), GroupError> {
        let handle = &self.devices[device];
        let (offset, bytes) = {
            let mut state = self.state.borrow_mut();
            let known = &mut state.store.capacity[device].rows[place as usize];
            // Until this is known to be durable, nobody knows what the page says.
            (known.before, known.is_twice) = (known.kept.take(), false);
            known.sequence += 1;
            let single = self.options.mutations.single_row_slot();
            known.newest = if single { 0 } else { 1 - known.newest };
            row.sequence = known.sequence;
            let mut buf = self.env.buf(PAGE_SIZE);
            row.encode(handle.id, place, &mut buf);
            let slot = u64::from(place) * 2 + known.newest as u64;
            (handle.layout.table_start + slot * PAGE, buf.freeze())
        };
        self.count(|requests| requests.rows += 1);
        let write = handle.disk().write(offset, bytes.clone(), durability);
        write.await.map_err(|error| self.fence(&handle.path, &error))?;
        Ok((offset, bytes))
    }
}

impl CapacityState {
    /// The next image of a page of the map, of all records up to the last one, and its slot.
    fn map_image(&mut self, number: usize, is_single: bool) -> (MapPage, usize) {
        let applied = self.journal.sequence.saturating_sub(1);
        let meta = &mut self.map_meta[number];
        meta.is_dirty = false;
        meta.newest = if is_single { 0 } else { 1 - meta.newest };
        meta.sequence += 1;
        meta.applied = applied;
        let (sequence, newest) = (meta.sequence, meta.newest);
        let first = number * MAP_PAGE_CHUNKS;
        let last = (first + MAP_PAGE_CHUNKS).min(self.map.len());
        let mut chunks = self.map[first..last].to_vec();
        chunks.resize(MAP_PAGE_CHUNKS, ChunkEntry::default());
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        (MapPage { number, sequence, applied, chunks }, newest)
    }
}

impl RowState {
    /// Whether both of its pages say what the row says.
    fn is_kept(&self, row: &ComponentRow) -> bool {
        self.is_twice && self.kept.as_deref() == Some(row)
    }
}
