// SPDX-License-Identifier: Apache-2.0
//! Changes of the chunk map and the checksums: durable in a device's journal first, then applied.

pub(crate) mod areas;
mod checkpoint;
mod pages;
mod writeback;

pub(crate) use checkpoint::keep_checkpoints;

use crate::log::held::Overlay;
use crate::state::{GroupInner, GroupState};
use crate::types::GroupError;
use env::Durability;
use format::{Item, JOURNAL_HEAD_SLOTS, JournalHead, JournalRecord, PAGE_SIZE, RECORD_ITEMS_MAX};

impl GroupInner {
    /// Makes changes durable in the journal, then applies them (store rule 9). The flush covers the
    /// data writes that completed before on the same device too. No page is read for it.
    ///
    /// A record may reach the media before that data does, if power fails in between: the log still
    /// holds every block of it, so nothing is read by its checksums before it is destaged again.
    pub(crate) async fn journal(&self, device: usize, items: &[Item]) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        for part in items.chunks(self.record_items(device)) {
            let size = JournalRecord::size_of(part.len()) as u64;
            if self.is_full(device, size) {
                self.turn(device).await?;
            }
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
                let half = journal.half * handle.layout.half_size();
                let offset = handle.layout.journal_start + half + journal.position;
                (offset, journal.sequence, buf.freeze(), crc)
            };
            self.count(|requests| requests.records += 1);
            if !self.options.mutations.skip_journal() {
                let write = handle.disk().write(offset, bytes.clone(), Durability::Cached);
                write.await.map_err(|error| self.fence(&handle.path, &error))?;
            }
            if !self.options.mutations.skip_destage_flush() {
                self.count(|requests| requests.flushes += 1);
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
            self.checkpoint_kick.notify();
            // Another device's record may be under way: what is frozen for it stays so.
            if guard.is_some() || self.options.mutations.thaw_for_others() {
                self.thaw_headers();
            }
        }
        Ok(())
    }

    /// Bytes of records that a half takes.
    fn half_bytes(&self, device: usize) -> u64 {
        self.devices[device].layout.half_size().min(self.options.limits.half_bytes)
    }

    /// Whether the open half has no room for a record of so many bytes.
    fn is_full(&self, device: usize, size: u64) -> bool {
        let position = self.state.borrow().store.capacity[device].journal.position;
        position > 0 && position + size > self.half_bytes(device)
    }

    /// Has the other half take the records. Its checkpoint must be over; the checkpoint of the one
    /// that was open until now begins when the first record in the other is durable.
    pub(crate) async fn turn(&self, device: usize) -> Result<(), GroupError> {
        loop {
            let kick = self.checkpoint_kick.wait();
            self.check_open()?;
            {
                let capacity = &mut self.state.borrow_mut().store.capacity[device];
                if !capacity.journal.has_closed {
                    base::hit(base::Probe::JournalTurned);
                    capacity.turn();
                    return Ok(());
                }
                if !std::mem::replace(&mut capacity.journal.is_awaited, true) {
                    base::hit(base::Probe::TurnWaits);
                    self.checkpoint_kick.notify();
                    continue;
                }
            }
            kick.await;
        }
    }

    /// Durable with the next flush, of the next record or when destage is idle.
    async fn write_head(&self, device: usize, record: u64) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        let mut page = self.env.buf(PAGE_SIZE);
        JournalHead { record }.encode(handle.id, &mut page);
        let slot = JOURNAL_HEAD_SLOTS[(record % 2) as usize];
        self.count(|requests| requests.heads += 1);
        let write = handle.disk().write(slot, page.freeze(), Durability::Cached);
        write.await.map_err(|error| self.fence(&handle.path, &error))?;
        self.state.borrow_mut().store.capacity[device].has_loose_head = true;
        Ok(())
    }

    /// Makes journal heads durable that no later record did.
    pub(crate) async fn flush_heads(&self) -> Result<(), GroupError> {
        for device in 0..self.devices.len() {
            let is_loose =
                std::mem::take(&mut self.state.borrow_mut().store.capacity[device].has_loose_head);
            if is_loose {
                self.flush_device(device).await?;
            }
        }
        Ok(())
    }

    /// All that was written to a capacity device is durable, or the group is fenced.
    async fn flush_device(&self, device: usize) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        self.count(|requests| requests.flushes += 1);
        handle.disk().flush().await.map_err(|error| self.fence(&handle.path, &error))
    }

    /// Items of one record of a device, at most.
    pub(crate) fn record_items(&self, device: usize) -> usize {
        let room = self.devices[device].layout.journal_size / 4;
        RECORD_ITEMS_MAX.min(room as usize / 32)
    }
}

impl GroupState {
    /// Applies a durable item to all that says what capacity holds.
    pub(crate) fn apply_item(&mut self, device: usize, item: &Item, sequence: u64) {
        let has_blocks = |key| self.log.over(key).is_some_and(Overlay::has_blocks);
        let has_changed = self.store.apply(device, item, sequence, has_blocks);
        if has_changed && !self.store.is_recovering {
            self.tell_cache(device, item);
        }
    }
}
