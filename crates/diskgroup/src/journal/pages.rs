// SPDX-License-Identifier: Apache-2.0
//! The checksum pages that are in memory, and how they get there.

use crate::state::GroupInner;
use crate::store::CapacityStore;
use crate::store::capacity::{PAGES_IN_FLIGHT, page_of};
use crate::store::rows::newer;
use crate::types::{GroupError, device_error};
use env::try_join_at_most;
use format::{CRC_PAGE_CHUNKS, CrcPage, FormatError, PAGE_SIZE};

const PAGE: u64 = PAGE_SIZE as u64;

impl GroupInner {
    fn page_limit(&self) -> usize {
        (self.options.crc_cache_bytes / PAGE_SIZE).max(1)
    }

    /// Whether destage should write the pages back before it goes on.
    pub(crate) fn wants_checkpoint(&self, device: usize) -> bool {
        let state = self.state.borrow();
        let capacity = &state.store.capacity[device];
        capacity.journal.position * 2 > self.devices[device].layout.journal_size
            || capacity.dirty > self.page_limit() / 2
    }

    /// Makes sure that the checksums of a chunk are in memory, for now.
    pub(crate) async fn load_checksums(&self, device: usize, chunk: u32) -> Result<(), GroupError> {
        self.load_page(device, page_of(chunk).0, false).await
    }

    /// Makes sure that a CRC page is in memory; `hold` keeps it there until the next checkpoint.
    async fn load_page(&self, device: usize, number: u32, hold: bool) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        loop {
            let (epoch, is_replay) = {
                let mut state = self.state.borrow_mut();
                let is_replay = state.store.is_recovering;
                let capacity = &mut state.store.capacity[device];
                let is_here = match hold {
                    true => capacity.hold(number),
                    false => capacity.page(number).is_some(),
                };
                if is_here {
                    return Ok(());
                }
                (capacity.epoch, is_replay)
            };
            base::hit(base::Probe::PageLoaded);
            let offset = handle.layout.crc_start + u64::from(number) * 2 * PAGE;
            let read = handle.disk().read(offset, self.env.buf(2 * PAGE_SIZE)).await;
            let both = read.map_err(device_error(&handle.path))?;
            let slots = [0, 1].map(|slot| {
                CrcPage::decode(handle.id, number, &both[slot * PAGE_SIZE..(slot + 1) * PAGE_SIZE])
            });
            let mut state = self.state.borrow_mut();
            if state.store.capacity[device].epoch != epoch {
                continue; // a checkpoint may have written a newer image meanwhile
            }
            let (page, newest) = self.choose(&mut state.store, device, number, slots, is_replay);
            state.store.capacity[device].insert(Box::new(page), newest, self.page_limit());
        }
    }

    /// The newer valid slot. Where a page that must exist is lost, every block of its chunks is
    /// marked so that reads give `BadCrc` until it is rewritten: never zeros.
    fn choose(
        &self,
        store: &mut CapacityStore,
        device: usize,
        number: u32,
        slots: [Result<CrcPage, FormatError>; 2],
        is_replay: bool,
    ) -> (CrcPage, usize) {
        // A torn checkpoint leaves a damaged slot, but then the journal holds all of it and the
        // page is loaded by replay. At any other time a damaged slot may have been the newer one.
        let errors = slots.iter().filter_map(|slot| slot.as_ref().err());
        let any_damaged = errors.into_iter().any(|error| *error != FormatError::Magic);
        let best = newer(slots, |page| page.sequence).ok();
        let is_lost = best.is_none() || (any_damaged && !is_replay);
        let (mut page, newest) = best.unwrap_or((CrcPage::empty(number), 1));
        if is_lost {
            for place in 0..CRC_PAGE_CHUNKS {
                let chunk = number as usize * CRC_PAGE_CHUNKS + place;
                let capacity = &store.capacity[device];
                if capacity.settled.get(chunk).copied().unwrap_or(false) {
                    page.present[place] = [u64::MAX; 4];
                    page.crcs[place] = [0xBAD0_BAD0; 256];
                    let serial = capacity.map[chunk].serial;
                    if let Some(component) = store.components.get_mut(serial) {
                        component.is_damaged = true;
                    }
                }
            }
        }
        (page, newest)
    }

    /// Loads pages, many at a time.
    pub(crate) async fn load_pages(&self, device: usize, pages: &[u32]) -> Result<(), GroupError> {
        let loads = pages.iter().map(|number| self.load_page(device, *number, true));
        try_join_at_most(PAGES_IN_FLIGHT, loads).await.map(drop)
    }
}
