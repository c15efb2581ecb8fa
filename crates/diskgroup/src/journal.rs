// SPDX-License-Identifier: Apache-2.0
//! Changes of the chunk map and the checksums: durable in a device's journal first, then applied.

mod checkpoint;
mod pages;

use crate::state::{GroupInner, GroupState};
use crate::store::capacity::{page_of, pages_touched};
use crate::store::chunks::{block_key, chunk_key};
use crate::types::GroupError;
use base::{CHUNK_BLOCKS, Lsn};
use env::Durability;
use format::{
    ChunkEntry, Item, JOURNAL_HEAD_SLOTS, JournalHead, JournalRecord, MAP_PAGE_CHUNKS,
    NO_COMPONENT, PAGE_SIZE, RECORD_ITEMS_MAX,
};

impl GroupInner {
    /// Makes changes durable in the journal, then applies them (store rule 9). The flush covers the
    /// data writes that completed before on the same device too. Loads the pages.
    ///
    /// A record may reach the media before that data does, if power fails in between: the log still
    /// holds every block of it, so nothing is read by its checksums before it is destaged again.
    pub(crate) async fn journal(&self, device: usize, items: &[Item]) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        for part in items.chunks(self.record_items(device)) {
            let size = JournalRecord::size_of(part.len()) as u64;
            let is_full = {
                let state = self.state.borrow();
                state.store.capacity[device].journal.position + size > handle.layout.journal_size
            };
            if is_full {
                self.checkpoint(device).await?;
            }
            self.load_pages(device, &pages_touched(part)).await?;
            let guard = self.guard_headers(device, part).await?;
            let (offset, sequence, bytes, crc) = {
                let state = self.state.borrow();
                let journal = &state.store.capacity[device].journal;
                let record = JournalRecord {
                    sequence: journal.sequence,
                    previous: journal.previous,
                    items: part.to_vec(),
                };
                let mut buf = self.env.buf(size as usize);
                let crc = record.encode(handle.id, &mut buf);
                let offset = handle.layout.journal_start + journal.position;
                (offset, journal.sequence, buf.freeze(), crc)
            };
            self.state.borrow_mut().counters.records += 1;
            if !self.options.mutations.skip_journal() {
                let write = handle.disk().write(offset, bytes.clone(), Durability::Cached);
                write.await.map_err(|error| self.fence(&handle.path, &error))?;
            }
            if !self.options.mutations.skip_destage_flush() {
                let mut flushed = handle.disk().flush().await;
                while flushed.is_err() && self.options.mutations.retry_after_failure() {
                    self.env.sleep(std::time::Duration::from_millis(1)).await;
                    flushed = handle.disk().flush().await;
                }
                flushed.map_err(|error| self.fence(&handle.path, &error))?;
            }
            let mutations = &self.options.mutations;
            if !mutations.skip_journal() && !mutations.skip_destage_flush() {
                self.read_back(device, &[(offset, bytes)]).await?;
                self.write_head(device, sequence).await?;
            }
            let mut state = self.state.borrow_mut();
            let journal = &mut state.store.capacity[device].journal;
            journal.position += size;
            journal.sequence += 1;
            journal.previous = crc;
            for item in part {
                state.apply_item(device, item, sequence);
            }
            drop(state);
            // Another device's record may be under way: what is frozen for it stays so.
            if guard.is_some() || self.options.mutations.thaw_for_others() {
                self.thaw_headers();
            }
        }
        Ok(())
    }

    /// Durable with the next flush, of the next record or when destage is idle.
    async fn write_head(&self, device: usize, record: u64) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        let mut page = self.env.buf(PAGE_SIZE);
        JournalHead { record }.encode(handle.id, &mut page);
        let slot = JOURNAL_HEAD_SLOTS[(record % 2) as usize];
        let write = handle.disk().write(slot, page.freeze(), Durability::Cached);
        write.await.map_err(|error| self.fence(&handle.path, &error))?;
        self.state.borrow_mut().store.capacity[device].has_loose_head = true;
        Ok(())
    }

    /// Makes journal heads durable that no later record did.
    pub(crate) async fn flush_heads(&self) -> Result<(), GroupError> {
        for (device, handle) in self.devices.iter().enumerate() {
            let is_loose =
                std::mem::take(&mut self.state.borrow_mut().store.capacity[device].has_loose_head);
            if is_loose {
                handle.disk().flush().await.map_err(|error| self.fence(&handle.path, &error))?;
            }
        }
        Ok(())
    }

    fn record_items(&self, device: usize) -> usize {
        let room = self.devices[device].layout.journal_size / 4;
        RECORD_ITEMS_MAX.min(room as usize / 32)
    }
}

impl GroupState {
    /// Applies a durable item to map and checksums. Pages that hold the record already stay as they
    /// are; at run time none does.
    pub(crate) fn apply_item(&mut self, device: usize, item: &Item, sequence: u64) {
        if let Item::Watermark { serial, lsn } = *item
            && let Some(component) = self.store.components.get_mut(serial)
        {
            component.row.destaged = component.row.destaged.max(lsn);
            component.destaged_logged = component.destaged_logged.max(lsn);
        }
        let Some(chunk) = item.chunk() else { return };
        self.apply_to_page(device, item, sequence, chunk);
        let capacity = &mut self.store.capacity[device];
        let meta = &mut capacity.map_meta[chunk as usize / MAP_PAGE_CHUNKS];
        if sequence <= meta.applied {
            return;
        }
        meta.is_dirty = true;
        let entry = &mut capacity.map[chunk as usize];
        let before = *entry;
        *entry = item.after(before);
        match *item {
            Item::Allocate { serial, index, .. } if !self.is_recovering => {
                self.allocated(device, chunk, serial, index);
            }
            Item::Free { .. } if !self.is_recovering && before.serial != NO_COMPONENT => {
                self.freed(device, chunk, before);
            }
            _ => {}
        }
        self.remember(device, chunk, item);
        if !self.is_recovering {
            self.tell_cache(device, item);
        }
    }

    /// What the journal says of blocks. This run's discards say so themselves when they leave the
    /// log, for they may leave nothing in the journal. For those of earlier runs the items have to
    /// do, and, where nothing was on capacity, the lsn with which the chunk came there.
    fn remember(&mut self, device: usize, chunk: u32, item: &Item) {
        let ChunkEntry { serial, index, .. } = self.store.capacity[device].map[chunk as usize];
        let key = chunk_key(serial, index.into());
        let at = |block: u8| block_key(serial, u64::from(index) * CHUNK_BLOCKS + u64::from(block));
        match *item {
            Item::Block { block, lsn, .. } => self.remember_block(at(block), lsn),
            Item::Unset { block, lsn, .. } if self.is_recovering => {
                self.remember_block(at(block), lsn);
            }
            Item::Clear { lsn, .. } if self.is_recovering => self.remember_chunk(key, lsn),
            Item::Allocate { lsn, .. } if self.is_recovering => self.remember_chunk(key, lsn),
            Item::Allocate { .. } => {
                let before =
                    self.store.components.get(serial).map_or(Lsn::ZERO, |c| c.erased_before);
                self.remember_chunk(key, before);
            }
            _ => {}
        }
    }

    /// A block leaves the log: what it holds since `lsn` is on capacity, zeros as well.
    pub(crate) fn remember_block(&mut self, key: u64, lsn: Lsn) {
        self.store.history.block(&mut self.store.components, key, lsn);
    }

    /// All of a chunk was discarded by an entry that leaves the log.
    pub(crate) fn remember_chunk(&mut self, key: u64, lsn: Lsn) {
        self.store.history.chunk(&mut self.store.components, key, lsn);
    }

    fn apply_to_page(&mut self, device: usize, item: &Item, sequence: u64, chunk: u32) {
        let (number, place) = page_of(chunk);
        let capacity = &mut self.store.capacity[device];
        if matches!(item, Item::Free { .. }) {
            return;
        }
        let Some(cached) = capacity.page(number) else {
            unreachable!("pages are held before their items apply")
        };
        if sequence <= cached.page.applied {
            return;
        }
        item.apply(&mut cached.page, place);
        if matches!(item, Item::Unset { .. }) && cached.page.is_empty(place) {
            capacity.emptied.insert(chunk);
        }
    }

    fn allocated(&mut self, device: usize, chunk: u32, serial: u32, index: u32) {
        let key = chunk_key(serial, u64::from(index));
        self.store.capacity[device].in_hand -= 1;
        if self.store.components.get(serial).is_none() {
            // Deleted while it was destaged.
            self.store.capacity[device].map[chunk as usize] = ChunkEntry::default();
            if !self.mutations.leak_deleted() {
                self.store.capacity[device].freeing.push_back(chunk);
            }
            return;
        }
        self.store.chunks.set_base(key, Some(chunk));
        if self.store.chunks.over(key).is_some_and(|over| over.is_reserved) {
            self.store.chunks.over_mut(key).is_reserved = false;
            self.store.capacity[device].reserved -= 1;
        } else {
            self.hold(serial);
        }
    }

    fn freed(&mut self, device: usize, chunk: u32, was: ChunkEntry) {
        let key = chunk_key(was.serial, u64::from(was.index));
        self.store.chunks.set_base(key, None);
        self.let_go(was.serial);
        if let Some(component) = self.store.components.get_mut(was.serial) {
            component.erased = component.erased.max(was.lsn);
        }
        if !self.mutations.leak_discarded() {
            self.store.capacity[device].freeing.push_back(chunk);
        }
        // Appends that came meanwhile counted on this chunk: set one aside for them.
        if self.store.chunks.over(key).is_some_and(|over| over.live > 0 || over.queued > 0) {
            self.store.chunks.over_mut(key).is_reserved = true;
            self.store.capacity[device].reserved += 1;
            self.hold(was.serial);
        }
    }
}
