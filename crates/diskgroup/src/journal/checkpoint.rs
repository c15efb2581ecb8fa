// SPDX-License-Identifier: Apache-2.0
//! Checkpoints: pages and rows to the device, so that the journal can begin anew.

use crate::journal::writeback::image_steps;
use crate::state::GroupInner;
use crate::store::capacity::{CapacityState, PAGES_IN_FLIGHT, RowState};
use crate::types::GroupError;
use base::Quirk;
use env::{Durability, try_join_at_most};
use format::{ChunkEntry, ComponentRow, MAP_PAGE_CHUNKS, MapPage, NO_COMPONENT, PAGE_SIZE};

const PAGE: u64 = PAGE_SIZE as u64;
/// Rows that are looked at between two rests.
const ROWS_STEP: usize = 256;

impl GroupInner {
    /// Writes all changed pages to their older slots, then starts the journal anew (store rule 10).
    ///
    /// First CRC pages, flushed; then map pages, flushed: a chunk that the map calls allocated has
    /// a CRC page; then the next record overwrites the journal's first. A crash before that replays
    /// records that the pages hold already: each page says up to which record, they are skipped.
    pub(crate) async fn checkpoint(&self, device: usize) -> Result<(), GroupError> {
        base::hit(base::Probe::Checkpoint);
        self.write_back(device).await?;
        let (map_images, written) = self.take_map_images(device).await;
        self.write_images(device, &map_images, true, |requests| requests.map_pages += 1).await?;
        self.write_rows(device).await?;
        self.env.linger(Quirk::CheckpointLingers).await;
        let mut state = self.state.borrow_mut();
        let capacity = &mut state.store.capacity[device];
        capacity.journal.position = 0;
        // What is dirty by now changed since the images were made; other pages did not change.
        let dirty = (0..).zip(&capacity.map_meta).filter(|(_, meta)| meta.is_dirty);
        let changed: Vec<usize> = dirty.map(|(number, _)| number).chain(written).collect();
        self.env.count_steps(changed.len() as u64);
        for number in changed {
            let first = number * MAP_PAGE_CHUNKS;
            let last = (first + MAP_PAGE_CHUNKS).min(capacity.map.len());
            for chunk in first..last {
                capacity.settled[chunk] = capacity.map[chunk].serial != NO_COMPONENT;
            }
        }
        Ok(())
    }

    /// The images, and the numbers of their pages. A deletion may change the map meanwhile: its
    /// pages are dirty again then, and either image is right.
    async fn take_map_images(&self, device: usize) -> (Vec<(u64, env::Slice)>, Vec<usize>) {
        let handle = &self.devices[device];
        let single = self.options.mutations.single_page_slot();
        let mut taken: Vec<usize> = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            let capacity = &mut state.store.capacity[device];
            let applied = capacity.journal.sequence.saturating_sub(1);
            // The first page always: it remembers how far the journal's sequence has come.
            capacity.map_meta[0].is_dirty = true;
            let all = capacity.map_meta.iter_mut().enumerate();
            for (number, meta) in all.filter(|(_, meta)| meta.is_dirty) {
                meta.is_dirty = false;
                meta.newest = if single { 0 } else { 1 - meta.newest };
                meta.sequence += 1;
                meta.applied = applied;
                taken.push(number);
                base::hit_if(number > 0, base::Probe::SecondMapPage);
            }
        }
        base::hit_if(
            taken.len() > self.options.limits.checkpoint_pages,
            base::Probe::CheckpointPart,
        );
        let mut images = Vec::with_capacity(taken.len());
        for some in taken.chunks(self.options.limits.checkpoint_pages) {
            for number in some {
                let (page, newest) = self.state.borrow().store.capacity[device].map_page(*number);
                let mut buf = self.env.buf(PAGE_SIZE);
                page.encode(handle.id, &mut buf);
                let slot = u64::from(page.number) * 2 + newest as u64;
                images.push((handle.layout.map_start + slot * PAGE, buf.freeze()));
            }
            self.env.spend_steps(image_steps(some.len())).await;
        }
        (images, taken)
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
    /// A page of the map as it is now, and its slot.
    fn map_page(&self, number: usize) -> (MapPage, usize) {
        let meta = self.map_meta[number];
        let first = number * MAP_PAGE_CHUNKS;
        let last = (first + MAP_PAGE_CHUNKS).min(self.map.len());
        let mut chunks = self.map[first..last].to_vec();
        chunks.resize(MAP_PAGE_CHUNKS, ChunkEntry::default());
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let (sequence, applied) = (meta.sequence, meta.applied);
        (MapPage { number, sequence, applied, chunks }, meta.newest)
    }
}

impl RowState {
    /// Whether both of its pages say what the row says.
    fn is_kept(&self, row: &ComponentRow) -> bool {
        self.is_twice && self.kept.as_deref() == Some(row)
    }
}
