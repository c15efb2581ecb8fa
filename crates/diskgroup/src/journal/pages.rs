// SPDX-License-Identifier: Apache-2.0
//! The checksum pages that are in memory, and how they get there.
//!
//! A page is its newest image on the device and its pending changes. So it may be evicted at any
//! time, but while its image is being written.

use crate::devices::runs::{READ_GAP, Run, runs};
use crate::log::build::to_usize;
use crate::state::GroupInner;
use crate::store::CapacityStore;
use crate::store::capacity::page_of;
use crate::store::rows::newer;
use crate::types::{GroupError, Structure, device_error};
use base::CHUNK_SIZE;
use env::{Buf, try_join_at_most};
use format::{CRC_PAGE_CHUNKS, CrcPage, FormatError, PAGE_SIZE};
use std::cell::Cell;

const PAGE: u64 = PAGE_SIZE as u64;
/// Requests for neighbouring pages under way, of 512 KiB at most.
const RUNS_IN_FLIGHT: usize = 8;
/// Pages that are loaded ahead at once: with the gaps between them they take no more memory than
/// the chunk for which they are, which is read behind them.
const PAGES_AHEAD_MAX: u64 = CHUNK_SIZE / (2 * PAGE + READ_GAP);
/// What a run counts for, of 64 pages that are decoded at most.
const RUN_STEPS: u64 = 1024;

/// A page and the slot of its newest image.
type Chosen = (Box<CrcPage>, usize);

impl GroupInner {
    /// The images of pages that were kept for it are durable.
    pub(super) fn images_are_written(&self, device: usize) {
        let limit = self.memory.page_limit(device);
        self.state.borrow_mut().store.capacity[device].images_are_written(limit);
        self.tell_pages(device);
    }

    /// Evicts what is above the shares of its devices.
    pub(crate) fn give_up_pages(&self) {
        for device in 0..self.devices.len() {
            let limit = self.memory.page_limit(device);
            {
                let capacity = &mut self.state.borrow_mut().store.capacity[device];
                base::hit_if(capacity.pages_held().0 > limit, base::Probe::PagesGivenUp);
                capacity.give_up(limit);
            }
            self.tell_pages(device);
        }
    }

    /// Has the host's memory know how many pages a device holds.
    fn tell_pages(&self, device: usize) {
        let (held, _) = self.state.borrow().store.capacity[device].pages_held();
        self.memory.holds(device, held);
    }

    /// Makes sure that the checksums of a chunk are in memory, for now.
    pub(crate) async fn load_checksums(&self, device: usize, chunk: u32) -> Result<(), GroupError> {
        let (handle, number) = (&self.devices[device], page_of(chunk).0);
        loop {
            let epoch = {
                let mut state = self.state.borrow_mut();
                let capacity = &mut state.store.capacity[device];
                if capacity.page(number).is_some() {
                    return Ok(());
                }
                capacity.epoch
            };
            base::hit(base::Probe::PageLoaded);
            let both = match self.read_page(device, number).await {
                // As for data: a device that does not answer says nothing of its content.
                Err(_) if self.is_given_up(device) => return Err(GroupError::Fenced),
                read => read.map_err(device_error(&handle.path))?,
            };
            let taken = self.take_in(device, (number, &both), epoch);
            taken.map_err(|error| self.fence(&handle.path, &error))?;
            self.tell_pages(device);
        }
    }

    /// Takes a page that was read at some epoch into memory, unless it is there, or what was read
    /// may be half of an image that was on its way to the device. Then the page was in memory.
    fn take_in(
        &self,
        device: usize,
        (number, both): (u32, &[u8]),
        epoch: u64,
    ) -> Result<(), GroupError> {
        let mut state = self.state.borrow_mut();
        let capacity = &mut state.store.capacity[device];
        if capacity.page(number).is_none() && capacity.epoch == epoch {
            let chosen = self.choose(&mut state.store, device, number, both)?;
            let limit = self.memory.page_limit(device);
            state.store.capacity[device].insert(chosen, limit);
        }
        Ok(())
    }

    /// Loads the checksums of these chunks, which somebody is about to read one after the other, in
    /// as few requests as that takes. Only so many pages that a few such readers leave each other
    /// room. What cannot be read is left to the reader, who says what it means.
    pub(crate) async fn load_ahead(&self, device: usize, chunks: &[u32]) {
        let most = self.memory.page_limit(device) / self.options.limits.ahead_part;
        let (mut missing, epoch) = {
            let mut state = self.state.borrow_mut();
            let capacity = &mut state.store.capacity[device];
            let mut missing: Vec<u32> = Vec::new();
            for number in chunks.iter().map(|chunk| page_of(*chunk).0) {
                if !missing.contains(&number) && capacity.page(number).is_none() {
                    missing.push(number);
                }
            }
            (missing, capacity.epoch)
        };
        missing.truncate(most.min(to_usize(PAGES_AHEAD_MAX)));
        // One alone the reader loads as fast.
        if missing.len() < 2 {
            return;
        }
        missing.sort_unstable();
        base::hit(base::Probe::PagesLoadedAhead);
        let look = |number, both: &[u8]| self.take_in(device, (number, both), epoch);
        let _ = self.look_at_pages(device, &missing, look).await;
        self.tell_pages(device);
    }

    /// Has pages in memory, and keeps them there until their images are written. They are in order.
    pub(super) async fn pin_pages(&self, device: usize, pages: &[u32]) -> Result<(), GroupError> {
        let missing: Vec<u32> = {
            let mut state = self.state.borrow_mut();
            let capacity = &mut state.store.capacity[device];
            pages.iter().copied().filter(|number| !capacity.pin(*number)).collect()
        };
        let look = |number, both: &[u8]| {
            let mut state = self.state.borrow_mut();
            // A reader may have loaded it meanwhile.
            if !state.store.capacity[device].pin(number) {
                let chosen = self.choose(&mut state.store, device, number, both)?;
                state.store.capacity[device].insert_for_image(chosen);
            }
            Ok(())
        };
        let looked = self.look_at_pages(device, &missing, look).await;
        self.tell_pages(device);
        looked
    }

    /// Whether the newest image of each of these pages holds a record.
    pub(crate) async fn pages_hold(
        &self,
        device: usize,
        pages: &[u32],
        record: u64,
    ) -> Result<bool, GroupError> {
        let hold = Cell::new(true);
        let look = |number, both: &[u8]| {
            let newest = newer(self.decode(device, number, both), |page| page.sequence);
            let is_held = newest.is_ok_and(|(page, _)| page.applied >= record);
            hold.set(hold.get() && is_held);
            Ok(())
        };
        self.look_at_pages(device, pages, look).await?;
        Ok(hold.get())
    }

    /// Reads pages, both slots of each, neighbours in one request. They are in order.
    async fn look_at_pages(
        &self,
        device: usize,
        pages: &[u32],
        look: impl Fn(u32, &[u8]) -> Result<(), GroupError>,
    ) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        let places = pages.iter().map(|number| (self.page_start(device, *number), 2 * PAGE_SIZE));
        let runs = runs(places, READ_GAP);
        let reads = runs.iter().map(async |run: &Run| {
            let some = &pages[run.places.clone()];
            self.count(|requests| requests.pages_read += 1);
            let read = handle.disk().read(run.bytes.start, self.env.buf(run.length())).await;
            for number in some {
                let alone;
                let both = match &read {
                    Ok(bytes) => {
                        let at = self.page_start(device, *number) - run.bytes.start;
                        &bytes[usize::try_from(at).unwrap_or(usize::MAX)..][..2 * PAGE_SIZE]
                    }
                    // What cannot be read may be in between.
                    Err(_) => {
                        let read = self.read_page(device, *number).await;
                        alone = read.map_err(device_error(&handle.path))?;
                        &alone[..]
                    }
                };
                look(*number, both)?;
            }
            self.env.spend_steps(RUN_STEPS).await;
            Ok(())
        });
        try_join_at_most(RUNS_IN_FLIGHT, reads).await.map(drop)
    }

    /// Both slots of a page.
    async fn read_page(&self, device: usize, number: u32) -> Result<Buf, env::IoError> {
        self.count(|requests| requests.pages_read += 1);
        let (start, buf) = (self.page_start(device, number), self.env.buf(2 * PAGE_SIZE));
        self.devices[device].disk().read(start, buf).await
    }

    fn page_start(&self, device: usize, number: u32) -> u64 {
        self.devices[device].layout.crc_start + u64::from(number) * 2 * PAGE
    }

    fn decode(&self, device: usize, number: u32, both: &[u8]) -> [Result<CrcPage, FormatError>; 2] {
        let id = self.devices[device].id;
        [0, 1].map(|at| CrcPage::decode(id, number, slot_of(both, at)))
    }

    /// The newer valid slot, with what is pending. Where a page that must exist is lost, every
    /// block of its chunks is marked so that reads give `BadCrc` until it is rewritten: never
    /// zeros.
    pub(crate) fn choose(
        &self,
        store: &mut CapacityStore,
        device: usize,
        number: u32,
        both: &[u8],
    ) -> Result<Chosen, GroupError> {
        let slots = self.decode(device, number, both);
        let capacity = &store.capacity[device];
        let next = capacity.journal.sequence;
        let are_sound = [&slots[0], &slots[1]].map(Result::is_ok);
        let best = newer(slots, |page| page.sequence).ok();
        // A torn checkpoint leaves a damaged slot, but then the journal that opening found has all
        // changes since the other one. At any other time a damaged slot may have been the newer.
        let is_lost = best.as_ref().is_none_or(|(page, newest)| {
            let other = slot_of(both, 1 - newest);
            // What was never written is zeros.
            let is_damaged = !are_sound[1 - newest] && other.iter().any(|byte| *byte != 0);
            let first = CrcPage::first_sector(self.devices[device].id, number, other);
            let kept = (page.sequence, page.applied);
            let is_torn = match self.options.mutations.trust_older_page() {
                true => capacity.pending.may_be_torn(number),
                false => capacity.pending.is_torn(number, kept, first, next),
            };
            is_damaged && !is_torn
        });
        let (mut page, mut newest) = best.unwrap_or((CrcPage::empty(number), 1));
        if page.applied >= next {
            // A page holds records that were durable before it was written, so the journal has lost
            // its end. Opening finds that by the journal's heads. It need not ask each page: what
            // is pending is applied to this one all the same, and here it is noticed.
            let (path, name) = (&self.devices[device].path, Structure::Journal(next));
            return Err(GroupError::corrupt(path, name, FormatError::Checksum));
        }
        // An image that a checkpoint wrote which did not come to its end may go with the power: its
        // flush may have failed. The other slot was durable when that checkpoint began, and the
        // journal has all changes since. So the image in doubt is the one that is written over, and
        // until then nothing rests on it.
        let is_in_doubt = capacity.pending.is_in_doubt(number, page.applied);
        if is_in_doubt && !self.options.mutations.trust_what_is_read() {
            newest = 1 - newest;
        }
        if is_lost {
            mark_lost(store, device, &mut page);
        }
        store.capacity[device].pending.apply_to(&mut page);
        Ok((Box::new(page), newest))
    }
}

/// One of two slots.
fn slot_of(both: &[u8], slot: usize) -> &[u8] {
    &both[slot * PAGE_SIZE..(slot + 1) * PAGE_SIZE]
}

/// Makes all blocks bad of the chunks of a page that were allocated when it was lost.
fn mark_lost(store: &mut CapacityStore, device: usize, page: &mut CrcPage) {
    for place in 0..CRC_PAGE_CHUNKS {
        let chunk = page.number as usize * CRC_PAGE_CHUNKS + place;
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
