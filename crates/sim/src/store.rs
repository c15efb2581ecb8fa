// SPDX-License-Identifier: Apache-2.0
//! The content of one device in two layers: what reads see, and what survives power loss.
//!
//! Structure:
//! - A *page* is 4 KiB of content, packed where it repeats (`page.rs`). Pages never change while
//!   they are shared: a write that covers a whole page puts a new one in its place, every other
//!   write changes a page in place or copies it first.
//! - For each page of the device there is an *entry*: a page for each layer, and for each stable
//!   sector the number of the write that it came from. Where both layers have the same content,
//!   they mostly share one page.
//! - Entries stand in *chunks* of 32. A chunk is made at the first write to it, so what was never
//!   written needs no memory.
//! - A *piece* is the part of a write that falls on one page. It holds the bytes that it writes and
//!   no more. If these are a whole page, then all layers that it is written to share it: such a
//!   write is copied once. Zeros share one page of the whole world.
//!
//! A layer that holds nothing at a page reads as zeros there. This differs from zeros that were
//! written: damage looks for pages that hold something ([`ContentStore::written`]).

use crate::page::{PAGE, PAGE_SECTORS, Page, SECTOR, ZEROS};
use std::ops::Range;

/// Pages of a chunk: 128 KiB of the device.
const CHUNK_PAGES: usize = 32;

/// The part of a write that falls on one page.
#[derive(Clone)]
pub(crate) struct StoredPiece {
    page: u64,
    /// What it writes: sectors of the page.
    sectors: Range<usize>,
    /// The sector of the page at which `data` begins.
    first: usize,
    data: Page,
}

impl StoredPiece {
    /// Cuts a write into its pieces. Offset and length are multiples of a sector.
    /// All zeros share the memory of `zeros`.
    pub(crate) fn cut(offset: u64, bytes: &[u8], zeros: &Page) -> Vec<Self> {
        let mut pieces = Vec::with_capacity(bytes.len() / PAGE + 1);
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let from = (offset % PAGE as u64) as usize;
            let (now, later) = rest.split_at(rest.len().min(PAGE - from));
            let sectors = from / SECTOR..(from + now.len()) / SECTOR;
            let (first, data) = match ZEROS.starts_with(now) {
                true => (0, zeros.clone()),
                false => (sectors.start, Page::of(sectors.start, now)),
            };
            pieces.push(Self { page: offset / PAGE as u64, sectors, first, data });
            offset += now.len() as u64;
            rest = later;
        }
        pieces
    }

    pub(crate) fn sector_count(&self) -> usize {
        self.sectors.len()
    }

    /// Asks `keep` for each sector, and adds a piece to `out` for each sector that is kept.
    pub(crate) fn sift(&self, mut keep: impl FnMut() -> bool, out: &mut Vec<Self>) {
        for sector in self.sectors.clone() {
            if keep() {
                out.push(Self { sectors: sector..sector + 1, ..self.clone() });
            }
        }
    }

    /// Writes some of its sectors.
    fn place(&self, slot: &mut Option<Page>, sectors: Range<usize>) {
        if sectors == (0..PAGE_SECTORS) {
            *slot = Some(self.data.clone());
            return;
        }
        let page = slot.get_or_insert_with(Page::zeros);
        sectors.for_each(|sector| page.copy_sector(sector, &self.data, self.first));
    }
}

#[derive(Clone, Default)]
struct Entry {
    current: Option<Page>,
    stable: Option<Page>,
    /// Which write each stable sector came from. An older write never replaces a newer one.
    seqs: [u64; PAGE_SECTORS],
}

impl Entry {
    /// Whether both layers hold nothing, or share one page.
    fn is_shared(&self) -> bool {
        match (&self.current, &self.stable) {
            (Some(current), Some(stable)) => current.is_same(stable),
            (None, None) => true,
            _ => false,
        }
    }

    /// A write that is newer than all others and goes to both layers. Layers that shared a page
    /// still do so.
    fn write_through(&mut self, piece: &StoredPiece, seq: u64) {
        self.seqs[piece.sectors.clone()].fill(seq);
        if self.is_shared() {
            self.stable = None; // else the page would be copied before it is changed
            piece.place(&mut self.current, piece.sectors.clone());
            self.stable.clone_from(&self.current);
            return;
        }
        piece.place(&mut self.current, piece.sectors.clone());
        piece.place(&mut self.stable, piece.sectors.clone());
    }

    fn write_stable(&mut self, piece: &StoredPiece, seq: u64) {
        let seqs = &mut self.seqs[piece.sectors.clone()];
        if seqs.iter().all(|old| *old < seq) {
            seqs.fill(seq);
            return piece.place(&mut self.stable, piece.sectors.clone());
        }
        for sector in piece.sectors.clone() {
            if self.seqs[sector] < seq {
                self.seqs[sector] = seq;
                piece.place(&mut self.stable, sector..sector + 1);
            }
        }
    }

    fn zero(&mut self, layer: Layer, sectors: Range<usize>, seq: u64) {
        let slot = match layer {
            Layer::Current => &mut self.current,
            Layer::Stable => &mut self.stable,
        };
        for sector in sectors {
            if layer == Layer::Stable {
                if self.seqs[sector] >= seq {
                    continue;
                }
                self.seqs[sector] = seq;
            }
            if let Some(page) = slot {
                page.zero_sector(sector);
            }
        }
        if slot.as_ref().is_some_and(Page::is_zero) {
            *slot = None;
        }
    }
}

/// The content of one device.
#[derive(Clone, Default)]
pub(crate) struct ContentStore {
    chunks: Vec<Option<Vec<Entry>>>,
}

/// Which of the two layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// What reads see: the media and the device's cache.
    Current,
    /// What survives power loss.
    Stable,
}

impl ContentStore {
    fn entry(&self, page: u64) -> Option<&Entry> {
        let chunk = self.chunks.get(page as usize / CHUNK_PAGES)?.as_ref()?;
        chunk.get(page as usize % CHUNK_PAGES)
    }

    /// The numbers of the pages that hold something in the current layer. Zeros that were written
    /// count as something.
    pub(crate) fn written(&self) -> Vec<u64> {
        let mut pages = Vec::new();
        for (number, chunk) in self.chunks.iter().enumerate() {
            for (at, entry) in chunk.iter().flatten().enumerate() {
                if entry.current.is_some() {
                    pages.push((number * CHUNK_PAGES + at) as u64);
                }
            }
        }
        pages
    }

    fn entry_mut(&mut self, page: u64) -> &mut Entry {
        let index = page as usize / CHUNK_PAGES;
        if index >= self.chunks.len() {
            self.chunks.resize_with(index + 1, || None);
        }
        let chunk = self.chunks[index]
            .get_or_insert_with(|| (0..CHUNK_PAGES).map(|_| Entry::default()).collect());
        &mut chunk[page as usize % CHUNK_PAGES]
    }

    /// Copies what `layer` holds at `offset`. Offset and length need no alignment.
    pub(crate) fn read(&self, layer: Layer, offset: u64, into: &mut [u8]) {
        let (mut offset, mut rest) = (offset, into);
        while !rest.is_empty() {
            let from = (offset % PAGE as u64) as usize;
            let len = rest.len().min(PAGE - from);
            let (now, later) = rest.split_at_mut(len);
            let entry = self.entry(offset / PAGE as u64);
            let page = entry.and_then(|entry| match layer {
                Layer::Current => entry.current.as_ref(),
                Layer::Stable => entry.stable.as_ref(),
            });
            match page {
                Some(page) => page.read(from, now),
                None => now.fill(0),
            }
            offset += len as u64;
            rest = later;
        }
    }

    pub(crate) fn write_current(&mut self, pieces: &[StoredPiece]) {
        for piece in pieces {
            piece.place(&mut self.entry_mut(piece.page).current, piece.sectors.clone());
        }
    }

    /// Writes to the stable layer. Sectors that hold a newer write than `seq` stay as they are.
    pub(crate) fn write_stable(&mut self, pieces: &[StoredPiece], seq: u64) {
        for piece in pieces {
            self.entry_mut(piece.page).write_stable(piece, seq);
        }
    }

    /// Writes to both layers. No write may have had a higher number than `seq`.
    pub(crate) fn write_through(&mut self, pieces: &[StoredPiece], seq: u64) {
        for piece in pieces {
            self.entry_mut(piece.page).write_through(piece, seq);
        }
    }

    /// Zeroes whole sectors of one layer. In the stable layer, sectors that hold a newer write than
    /// `seq` stay as they are. The cost depends on what is stored there, not on `bytes`.
    pub(crate) fn zero(&mut self, layer: Layer, offset: u64, bytes: u64, seq: u64) {
        let (from, to) = (offset / SECTOR as u64, (offset + bytes) / SECTOR as u64);
        let chunk_sectors = (CHUNK_PAGES * PAGE_SECTORS) as u64;
        for index in from / chunk_sectors..=to / chunk_sectors {
            let Some(Some(chunk)) = self.chunks.get_mut(index as usize) else { continue };
            for (at, entry) in (0..).zip(chunk) {
                let first = index * chunk_sectors + at * PAGE_SECTORS as u64;
                let start = from.clamp(first, first + PAGE_SECTORS as u64) - first;
                let end = to.clamp(first, first + PAGE_SECTORS as u64) - first;
                if start < end {
                    entry.zero(layer, start as usize..end as usize, seq);
                }
            }
        }
    }

    /// Power loss: from now on reads see what was stable.
    pub(crate) fn revert(&mut self) {
        for entry in self.chunks.iter_mut().flatten().flatten() {
            entry.current.clone_from(&entry.stable);
        }
    }

    /// Changes bytes in both layers, as damage does. `change` gets each byte, and its place counted
    /// from `offset`.
    pub(crate) fn poke(&mut self, offset: u64, len: usize, mut change: impl FnMut(usize, &mut u8)) {
        for at in 0..len {
            let position = offset + at as u64;
            let entry = self.entry_mut(position / PAGE as u64);
            let byte = (position % PAGE as u64) as usize;
            for slot in [&mut entry.current, &mut entry.stable] {
                let page = slot.get_or_insert_with(Page::zeros);
                change(at, &mut page.bytes_mut()[byte]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
