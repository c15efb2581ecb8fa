// SPDX-License-Identifier: Apache-2.0
//! The content of one device in two layers: what reads see, and what survives power loss. Pages
//! that were never written need no memory. Both layers share pages, so a durable write is copied
//! once.

use std::ops::Range;
use std::rc::Rc;

pub(crate) const PAGE: usize = 4096;
pub(crate) const SECTOR: usize = 512;
const PAGE_SECTORS: usize = PAGE / SECTOR;
const CHUNK_PAGES: usize = 256;

pub(crate) type Page = Rc<[u8; PAGE]>;

pub(crate) const ZEROS: [u8; PAGE] = [0; PAGE];

/// The part of a write that falls on one page: the sectors `sectors` of `data`.
#[derive(Clone)]
pub(crate) struct StoredPiece {
    page: u64,
    sectors: Range<usize>,
    data: Page,
}

impl StoredPiece {
    /// Cuts a write into its pieces. Offset and length are multiples of a sector.
    /// All pages of zeros share the memory of `zeros`.
    pub(crate) fn cut(offset: u64, bytes: &[u8], zeros: &Page) -> Vec<Self> {
        let mut pieces = Vec::with_capacity(bytes.len() / PAGE + 1);
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let from = (offset % PAGE as u64) as usize;
            let (now, later) = rest.split_at(rest.len().min(PAGE - from));
            let data = match now == ZEROS {
                true => Rc::clone(zeros),
                false => {
                    let mut page = ZEROS;
                    page[from..from + now.len()].copy_from_slice(now);
                    Rc::new(page)
                }
            };
            let sectors = from / SECTOR..(from + now.len()) / SECTOR;
            pieces.push(Self { page: offset / PAGE as u64, sectors, data });
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
                let sectors = sector..sector + 1;
                out.push(Self { page: self.page, sectors, data: Rc::clone(&self.data) });
            }
        }
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
                Rc::make_mut(page)[sector * SECTOR..(sector + 1) * SECTOR].fill(0);
            }
        }
        if slot.as_ref().is_some_and(|page| page.iter().all(|byte| *byte == 0)) {
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

fn place(slot: &mut Option<Page>, piece: &StoredPiece, sectors: Range<usize>) {
    if sectors == (0..PAGE_SECTORS) {
        *slot = Some(Rc::clone(&piece.data));
        return;
    }
    let bytes = sectors.start * SECTOR..sectors.end * SECTOR;
    let page = slot.get_or_insert_with(|| Rc::new([0; PAGE]));
    Rc::make_mut(page)[bytes.clone()].copy_from_slice(&piece.data[bytes]);
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
                Some(page) => now.copy_from_slice(&page[from..from + len]),
                None => now.fill(0),
            }
            offset += len as u64;
            rest = later;
        }
    }

    pub(crate) fn write_current(&mut self, pieces: &[StoredPiece]) {
        for piece in pieces {
            place(&mut self.entry_mut(piece.page).current, piece, piece.sectors.clone());
        }
    }

    /// Writes to the stable layer. Sectors that hold a newer write than `seq` stay as they are.
    pub(crate) fn write_stable(&mut self, pieces: &[StoredPiece], seq: u64) {
        for piece in pieces {
            let entry = self.entry_mut(piece.page);
            let seqs = &mut entry.seqs[piece.sectors.clone()];
            if seqs.iter().all(|old| *old < seq) {
                seqs.fill(seq);
                place(&mut entry.stable, piece, piece.sectors.clone());
                continue;
            }
            for sector in piece.sectors.clone() {
                if entry.seqs[sector] < seq {
                    entry.seqs[sector] = seq;
                    place(&mut entry.stable, piece, sector..sector + 1);
                }
            }
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
                let page = slot.get_or_insert_with(|| Rc::new([0; PAGE]));
                change(at, &mut Rc::make_mut(page)[byte]);
            }
        }
    }
}
