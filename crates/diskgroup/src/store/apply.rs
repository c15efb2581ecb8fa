// SPDX-License-Identifier: Apache-2.0
//! What is durable on a device, or leaves the log for one, becomes what is known of it.

use crate::keys::{block_key, chunk_key};
use crate::store::CapacityStore;
use crate::store::capacity::page_of;
use base::{CHUNK_BLOCKS, Lsn};
use format::{ChunkEntry, ComponentRow, Item, MAP_PAGE_CHUNKS, NO_COMPONENT};

impl CapacityStore {
    /// Applies a durable item to map and checksums; whether the map took it. Map pages that hold
    /// the record already stay as they are; at run time none does. The log says of which chunks it
    /// has blocks.
    pub(crate) fn apply(
        &mut self,
        device: usize,
        item: &Item,
        sequence: u64,
        has_blocks: impl Fn(u64) -> bool,
    ) -> bool {
        if let Item::Watermark { serial, lsn } = *item
            && let Some(component) = self.components.get_mut(serial)
        {
            component.row.destaged = component.row.destaged.max(lsn);
            component.destaged_logged = component.destaged_logged.max(lsn);
        }
        let Some(chunk) = item.chunk() else { return false };
        self.apply_to_page(device, item, chunk);
        let capacity = &mut self.capacity[device];
        let meta = &mut capacity.map_meta[chunk as usize / MAP_PAGE_CHUNKS];
        if sequence <= meta.applied {
            return false;
        }
        meta.is_dirty = true;
        let is_in_place = match *item {
            Item::Allocate { serial, index, .. } => {
                self.chunks.base(chunk_key(serial, u64::from(index))).is_some()
            }
            _ => false,
        };
        let before = self.entry(device, chunk);
        let is_allocated = matches!(item, Item::Allocate { .. });
        if before.serial == NO_COMPONENT && !is_allocated && !self.is_recovering {
            // Its component was deleted while it was destaged: nobody's chunk stays nobody's.
            return false;
        }
        self.capacity[device].map[chunk as usize] = item.after(before);
        match *item {
            Item::Allocate { serial, index, .. } if !self.is_recovering => {
                self.allocated(device, chunk, serial, index);
            }
            Item::Free { .. } if !self.is_recovering && before.serial != NO_COMPONENT => {
                let key = chunk_key(before.serial, u64::from(before.index));
                self.freed(device, chunk, before, has_blocks(key));
            }
            _ => {}
        }
        // A chunk that takes the place of another brings what changed as blocks.
        if !is_in_place {
            self.remember(device, chunk, item);
        }
        true
    }

    /// What the journal says of blocks. This run's discards say so themselves when they leave the
    /// log, for they may leave nothing in the journal. For those of earlier runs the items have to
    /// do, and, where nothing was on capacity, the lsn with which the chunk came there.
    fn remember(&mut self, device: usize, chunk: u32, item: &Item) {
        let ChunkEntry { serial, index, .. } = self.capacity[device].map[chunk as usize];
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
                let before = self.components.get(serial).map_or(Lsn::ZERO, |c| c.erased_before);
                self.remember_chunk(key, before);
            }
            _ => {}
        }
    }

    /// A block leaves the log: what it holds since `lsn` is on capacity, zeros as well.
    pub(crate) fn remember_block(&mut self, key: u64, lsn: Lsn) {
        self.history.block(&mut self.components, key, lsn);
    }

    /// All of a chunk was discarded by an entry that leaves the log.
    pub(crate) fn remember_chunk(&mut self, key: u64, lsn: Lsn) {
        self.history.chunk(&mut self.components, key, lsn);
    }

    /// The page is what its image and all pending changes say. If it is in memory, the change is
    /// applied there as well.
    fn apply_to_page(&mut self, device: usize, item: &Item, chunk: u32) {
        let (number, place) = page_of(chunk);
        let capacity = &mut self.capacity[device];
        capacity.pending.push(number, place, item);
        let mut may_be_empty = matches!(item, Item::Unset { .. });
        if let Some(cached) = capacity.cached(number) {
            item.apply(&mut cached.page, place);
            may_be_empty &= cached.page.is_empty(place);
        }
        if may_be_empty {
            capacity.emptied.insert(chunk);
        }
    }

    /// A page of a row is durable. With the same in the other one the rot of neither takes anything
    /// away, and the row need not be written again before it changes.
    pub(crate) fn row_is_kept(&mut self, device: usize, place: u32, row: ComponentRow) {
        if let Some(component) = self.components.get_mut(row.serial) {
            // The row says what entries up to there said about requests.
            component.marks_kept = component.marks_kept.max(row.durable);
        }
        let known = &mut self.capacity[device].rows[place as usize];
        known.is_twice = known.before.take().as_deref() == Some(&row);
        known.kept = Some(Box::new(row));
    }

    /// Zeros or a discard leave the log by an lsn up to this one, for a chunk that capacity does
    /// not hold. No other trace of them is left for a component that was away meanwhile and asks
    /// what changed (rule 30).
    pub(crate) fn note_erased(&mut self, serial: u32, lsn: Lsn) {
        if let Some(component) = self.components.get_mut(serial) {
            component.erased = component.erased.max(lsn);
        }
    }

    /// W: everything below the lowest lsn that the log's segments from `first` on still need of a
    /// component. Nothing is known any more of those before `tail`.
    pub(crate) fn raise_destaged(&mut self, serial: u32, tail: u64, first: u64) {
        // A component that lost its write buffer gets a delta of everything above W. While the
        // component comes back from an absence, and while copies for it are in the log, it still
        // lacks writes with lower lsns. So W stays where it was when the component was last active.
        let may_rise = !self.has_copies(serial, first) || self.mutations.forget_copies();
        let is_any = self.mutations.raise_inactive();
        let Some(component) = self.components.get_mut(serial) else { return };
        component.lowest.forget_before(tail);
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

    /// Whether the log's segments from `first` on hold a copy of a component.
    pub(crate) fn has_copies(&self, serial: u32, first: u64) -> bool {
        self.components.get(serial).is_some_and(|c| c.lowest.has_copies(first))
    }

    /// Adds W of the components whose W rose above what the journal says. A component stays among
    /// them until the journal has its W: if this record does not come about, the next one says it.
    pub(crate) fn add_risen(&mut self, device: usize, items: &mut Vec<Item>) {
        let components = &self.components;
        self.capacity[device].risen.retain(|serial| {
            let component = components.get(*serial);
            let risen = component.filter(|c| c.row.destaged > c.destaged_logged);
            items.extend(risen.map(|c| Item::Watermark { serial: *serial, lsn: c.row.destaged }));
            risen.is_some()
        });
    }
}
