// SPDX-License-Identifier: Apache-2.0
//! Checkpoints: pages and rows to the device, so that the journal can begin anew.

use crate::capacity::PAGES_IN_FLIGHT;
use crate::state::{Inner, State};
use crate::types::GroupError;
use base::{Lsn, Quirk};
use env::{Durability, join_all};
use format::{ChunkEntry, ComponentRow, MAP_PAGE_CHUNKS, MapPage, NO_COMPONENT, PAGE_SIZE};

const PAGE: u64 = PAGE_SIZE as u64;

impl Inner {
    /// Writes all changed pages to their older slots, then starts the journal anew (store rule 10).
    ///
    /// First CRC pages, flushed; then map pages, flushed: a chunk that the map calls allocated has
    /// a CRC page; then the next record overwrites the journal's first. A crash before that replays
    /// records that the pages hold already: each page says up to which record, they are skipped.
    pub(crate) async fn checkpoint(&self, device: usize) -> Result<(), GroupError> {
        base::hit(base::Probe::Checkpoint);
        let crc_images = self.take_crc_images(device);
        let has_flush = !self.options.mutations.map_beside_crc_pages;
        self.write_pages(device, crc_images, has_flush).await?;
        self.state.borrow_mut().capacity[device].images_are_written();
        let map_images = self.take_map_images(device);
        self.write_pages(device, map_images, true).await?;
        self.write_rows(device).await?;
        self.env.linger(Quirk::CheckpointLingers).await;
        let mut state = self.state.borrow_mut();
        let capacity = &mut state.capacity[device];
        capacity.journal.position = 0;
        capacity.settled = capacity.map.iter().map(|entry| entry.serial != NO_COMPONENT).collect();
        Ok(())
    }

    async fn write_pages(
        &self,
        device: usize,
        images: Vec<(u64, env::Slice)>,
        has_flush: bool,
    ) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        for some in images.chunks(PAGES_IN_FLIGHT) {
            let writes = some.iter().map(|(offset, bytes)| {
                handle.disk().write(*offset, bytes.clone(), Durability::Cached)
            });
            for result in join_all(writes.collect()).await {
                result.map_err(|error| self.fence(&handle.path, &error))?;
            }
        }
        if !has_flush || self.options.mutations.early_journal_reuse {
            return Ok(());
        }
        handle.disk().flush().await.map_err(|error| self.fence(&handle.path, &error))?;
        self.read_back(device, &images).await
    }

    fn take_crc_images(&self, device: usize) -> Vec<(u64, env::Slice)> {
        let handle = &self.devices[device];
        let single = self.options.mutations.single_page_slot;
        let mut state = self.state.borrow_mut();
        let capacity = &mut state.capacity[device];
        let applied = capacity.journal.sequence.saturating_sub(1);
        capacity.dirty = 0;
        let mut images = Vec::new();
        for cached in capacity.pages.iter_mut().filter(|cached| cached.is_dirty) {
            cached.is_dirty = false;
            cached.is_being_written = true;
            cached.newest = if single { 0 } else { 1 - cached.newest };
            cached.page.sequence += 1;
            cached.page.applied = applied;
            let mut buf = self.env.buf(PAGE_SIZE);
            cached.page.encode(handle.id, &mut buf);
            let slot = u64::from(cached.page.number) * 2 + cached.newest as u64;
            images.push((handle.layout.crc_start + slot * PAGE, buf.freeze()));
        }
        images.sort_unstable_by_key(|(offset, _)| *offset);
        images
    }

    fn take_map_images(&self, device: usize) -> Vec<(u64, env::Slice)> {
        let handle = &self.devices[device];
        let single = self.options.mutations.single_page_slot;
        let mut state = self.state.borrow_mut();
        let capacity = &mut state.capacity[device];
        let applied = capacity.journal.sequence.saturating_sub(1);
        let mut images = Vec::new();
        // The first page always: it remembers how far the journal's sequence has come.
        capacity.map_meta[0].is_dirty = true;
        for (number, meta) in capacity.map_meta.iter_mut().enumerate() {
            if !std::mem::take(&mut meta.is_dirty) {
                continue;
            }
            meta.newest = if single { 0 } else { 1 - meta.newest };
            meta.sequence += 1;
            meta.applied = applied;
            let first = number * MAP_PAGE_CHUNKS;
            let last = (first + MAP_PAGE_CHUNKS).min(capacity.map.len());
            let mut chunks = capacity.map[first..last].to_vec();
            chunks.resize(MAP_PAGE_CHUNKS, ChunkEntry::default());
            let number = number as u32;
            let page = MapPage { number, sequence: meta.sequence, applied, chunks };
            let mut buf = self.env.buf(PAGE_SIZE);
            page.encode(handle.id, &mut buf);
            let slot = u64::from(number) * 2 + meta.newest as u64;
            images.push((handle.layout.map_start + slot * PAGE, buf.freeze()));
        }
        images
    }

    /// Writes every living component's row: W, K and the highest lsn outlive the journal so.
    async fn write_rows(&self, device: usize) -> Result<(), GroupError> {
        let _permit = self.table.acquire(1).await;
        let rows: Vec<(u32, ComponentRow)> = {
            let state = self.state.borrow();
            let all = state.components.serials().into_iter();
            let mine = all.filter_map(|serial| state.components.get(serial));
            mine.filter(|c| c.device == device).map(|c| (c.place, c.row.clone())).collect()
        };
        let kept: Vec<_> = rows.iter().map(|(_, row)| (row.serial, row.durable)).collect();
        let mut images = Vec::new();
        for (place, row) in rows {
            images.push(self.put_row(device, place, row, Durability::Cached).await?);
        }
        let handle = &self.devices[device];
        if !self.options.mutations.early_journal_reuse {
            handle.disk().flush().await.map_err(|error| self.fence(&handle.path, &error))?;
            self.read_back(device, &images).await?;
        }
        let mut state = self.state.borrow_mut();
        kept.into_iter().for_each(|(serial, durable)| state.keep_marks(serial, durable));
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
        let (serial, durable) = (row.serial, row.durable);
        let image = self.put_row(device, place, row, Durability::Durable).await?;
        self.read_back(device, &[image]).await?;
        self.state.borrow_mut().keep_marks(serial, durable);
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
            let known = &mut state.capacity[device].rows[place as usize];
            known.sequence += 1;
            let single = self.options.mutations.single_row_slot;
            known.newest = if single { 0 } else { 1 - known.newest };
            row.sequence = known.sequence;
            let mut buf = self.env.buf(PAGE_SIZE);
            row.encode(handle.id, place, &mut buf);
            let slot = u64::from(place) * 2 + known.newest as u64;
            (handle.layout.table_start + slot * PAGE, buf.freeze())
        };
        let write = handle.disk().write(offset, bytes.clone(), durability);
        write.await.map_err(|error| self.fence(&handle.path, &error))?;
        Ok((offset, bytes))
    }
}

impl State {
    /// The component's row on the device says what entries up to `durable` said about requests.
    fn keep_marks(&mut self, serial: u32, durable: Lsn) {
        if let Some(component) = self.components.get_mut(serial) {
            component.marks_kept = component.marks_kept.max(durable);
        }
    }
}
