// SPDX-License-Identifier: Apache-2.0
//! CRC pages with pending changes go to their older slots (store rule 10).
//!
//! They go in order of address, in *bands*: so memory is bounded, and neighbours share requests.
//! The pages of a band stay in memory from before their slots are written until the images are
//! durable and read back. Then the device says what they said, and their changes are forgotten.
//! A crash between two bands leaves pages with all changes and pages with none: the journal has all
//! of them until the checkpoint is over.

use crate::devices::runs::runs;
use crate::memory::BANDS;
use crate::state::GroupInner;
use crate::store::capacity::PAGES_IN_FLIGHT;
use crate::types::{DeviceRequests, GroupError};
use env::{Durability, Slice, try_join_at_most};
use format::PAGE_SIZE;

const PAGE: u64 = PAGE_SIZE as u64;
/// What encoding one page counts for: 5 us.
const IMAGE_STEPS: u64 = 16;

/// What goes to a device: where, and what.
type Image = (u64, Slice);

/// What encoding so many pages counts for.
pub(super) fn image_steps(pages: usize) -> u64 {
    u64::try_from(pages).unwrap_or(u64::MAX).saturating_mul(IMAGE_STEPS)
}

impl GroupInner {
    /// Makes the pages on the device say all that is pending.
    pub(super) async fn write_back(&self, device: usize) -> Result<(), GroupError> {
        let has_flush = !self.options.mutations.map_beside_crc_pages();
        let numbers = self.state.borrow().store.capacity[device].pending.numbers();
        for band in numbers.chunks((self.options.pages_pending_max / BANDS).max(1)) {
            self.pin_pages(device, band).await?;
            let images = self.take_crc_images(device, band).await;
            let count = |requests: &mut DeviceRequests| requests.pages_written += 1;
            self.write_images(device, &images, has_flush, count).await?;
            self.images_are_written(device);
        }
        Ok(())
    }

    /// Images of pages that are kept in memory, in order of address. Nothing is applied to them
    /// meanwhile: that is up to whoever writes the journal, and waits for the checkpoint.
    async fn take_crc_images(&self, device: usize, band: &[u32]) -> Vec<Image> {
        let handle = &self.devices[device];
        let single = self.options.mutations.single_page_slot();
        let mut images = Vec::with_capacity(band.len());
        let step = self.options.limits.checkpoint_pages;
        base::hit_if(band.len() > step, base::Probe::CheckpointPart);
        for some in band.chunks(step) {
            {
                let mut state = self.state.borrow_mut();
                let capacity = &mut state.store.capacity[device];
                let applied = capacity.journal.sequence.saturating_sub(1);
                for number in some {
                    let Some(cached) = capacity.cached(*number) else {
                        unreachable!("a page is kept until its image is written")
                    };
                    cached.newest = if single { 0 } else { 1 - cached.newest };
                    cached.page.sequence += 1;
                    cached.page.applied = applied;
                    let mut buf = self.env.buf(PAGE_SIZE);
                    cached.page.encode(handle.id, &mut buf);
                    let at = handle.layout.crc_start + u64::from(*number) * 2 * PAGE;
                    let at = if cached.newest == 0 { at } else { at + PAGE };
                    images.push((at, buf.freeze()));
                }
            }
            self.env.spend_steps(image_steps(some.len())).await;
        }
        images
    }

    /// Writes images, in order of address, those that touch in one request; then flushes and reads
    /// them back. Each write is counted.
    pub(super) async fn write_images(
        &self,
        device: usize,
        images: &[Image],
        has_flush: bool,
        count: fn(&mut DeviceRequests),
    ) -> Result<(), GroupError> {
        let handle = &self.devices[device];
        let places = images.iter().map(|(at, bytes)| (*at, bytes.len()));
        let runs = runs(places, 0);
        let writes = runs.iter().map(|run| {
            let bytes = match &images[run.places.clone()] {
                [(_, alone)] => alone.clone(),
                several => {
                    let mut buf = self.env.buf(run.length());
                    let parts = buf.chunks_mut(PAGE_SIZE).zip(several);
                    parts.for_each(|(part, (_, bytes))| part.copy_from_slice(bytes));
                    buf.freeze()
                }
            };
            self.count(count);
            handle.disk().write(run.bytes.start, bytes, Durability::Cached)
        });
        let written = try_join_at_most(PAGES_IN_FLIGHT, writes).await;
        written.map_err(|error| self.fence(&handle.path, &error))?;
        if has_flush && !self.options.mutations.early_journal_reuse() {
            self.flush_device(device).await?;
            self.read_back(device, images).await?;
        }
        Ok(())
    }
}
