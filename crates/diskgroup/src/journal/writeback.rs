// SPDX-License-Identifier: Apache-2.0
//! CRC pages with pending changes go to their older slots (store rule 10).
//!
//! They go in order of address, in *bands*: so memory is bounded, and neighbours share requests.
//! The pages of a band stay in memory from before their slots are written until the images are
//! durable and read back. Destage goes on meanwhile: what changes behind an image is pending for
//! the next one. A crash between two bands leaves pages with all changes and pages with none: the
//! journal has all of them until the checkpoint is over.
//!
//! The bands are spread over the time in which the open half fills, its first part. So the device
//! has them beside much else, and a record hardly ever waits for the last one.

use crate::devices::runs::runs;
use crate::state::GroupInner;
use crate::store::capacity::PAGES_IN_FLIGHT;
use crate::types::{DeviceRequests, GroupError};
use env::{Durability, Slice, try_join_at_most};
use format::PAGE_SIZE;

const PAGE: u64 = PAGE_SIZE as u64;
/// What encoding one page counts for: 5 us.
const IMAGE_STEPS: u64 = 16;

/// A checkpoint is to be over when one part in so many of what was free of the open half is filled.
const SPREAD: u64 = 2;
/// Writes of pages in flight while destage goes on.
const WRITES_BESIDE: usize = 8;

/// What goes to a device: where, and what.
type Image = (u64, Slice);

/// What encoding so many pages counts for.
pub(super) fn image_steps(pages: usize) -> u64 {
    u64::try_from(pages).unwrap_or(u64::MAX).saturating_mul(IMAGE_STEPS)
}

impl GroupInner {
    /// Makes the pages on the device say all that the closed half changed.
    pub(super) async fn write_back(&self, device: usize) -> Result<(), GroupError> {
        let has_flush = !self.options.mutations.map_beside_crc_pages();
        let numbers = self.state.borrow().store.capacity[device].pending.closed_pages();
        let bands = numbers.chunks(self.options.limits.band_pages);
        let (all, from) = (bands.len() as u64, self.open_bytes(device));
        for (done, band) in (0..).zip(bands) {
            self.rest_before_band(device, (done, all), from).await;
            self.check_open()?;
            self.pin_pages(device, band).await?;
            let images = self.take_crc_images(device, band).await;
            let count = |requests: &mut DeviceRequests| requests.pages_written += 1;
            self.write_images(device, &images, has_flush, count).await?;
            self.images_are_written(device);
        }
        Ok(())
    }

    /// Bytes of records in the open half.
    fn open_bytes(&self, device: usize) -> u64 {
        self.state.borrow().store.capacity[device].journal.position
    }

    /// Waits until as large a part of what was free of the open half is filled as of the bands is
    /// done, unless a record waits for the end.
    async fn rest_before_band(&self, device: usize, (done, all): (u64, u64), from: u64) {
        let free = self.half_bytes(device).saturating_sub(from);
        loop {
            let kick = self.checkpoint_kick.wait();
            let filled = self.open_bytes(device).saturating_sub(from);
            let is_due = done * free <= filled.saturating_mul(SPREAD * all);
            if is_due || self.is_awaited(device) || self.state.borrow().is_over() {
                return;
            }
            base::hit(base::Probe::CheckpointRests);
            kick.await;
        }
    }

    /// Whether a record waits for the checkpoint.
    fn is_awaited(&self, device: usize) -> bool {
        self.state.borrow().store.capacity[device].journal.is_awaited
    }

    /// Images of pages that are kept in memory, in order of address.
    async fn take_crc_images(&self, device: usize, band: &[u32]) -> Vec<Image> {
        let handle = &self.devices[device];
        let is_single = self.options.mutations.single_page_slot();
        let mut images = Vec::with_capacity(band.len());
        let step = self.options.limits.checkpoint_pages;
        base::hit_if(band.len() > step, base::Probe::CheckpointPart);
        for some in band.chunks(step) {
            {
                let mut state = self.state.borrow_mut();
                let capacity = &mut state.store.capacity[device];
                for number in some {
                    let Some((page, slot)) = capacity.image_of(*number, is_single) else {
                        unreachable!("a page is kept until its image is written")
                    };
                    let mut buf = self.env.buf(PAGE_SIZE);
                    page.encode(handle.id, &mut buf);
                    let at = handle.layout.crc_start + u64::from(*number) * 2 * PAGE;
                    images.push((at + slot as u64 * PAGE, buf.freeze()));
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
        // Fewer beside destage than where it waits.
        let is_awaited = self.is_awaited(device);
        let depth = if is_awaited { PAGES_IN_FLIGHT } else { WRITES_BESIDE };
        let written = try_join_at_most(depth, writes).await;
        written.map_err(|error| self.fence(&handle.path, &error))?;
        if has_flush && !self.options.mutations.early_journal_reuse() {
            self.flush_device(device).await?;
            self.read_back(device, images).await?;
        }
        Ok(())
    }
}
