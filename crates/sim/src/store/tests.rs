// SPDX-License-Identifier: Apache-2.0
//! The store of contents against plain byte arrays.

use super::{ContentStore, Layer, StoredPiece};
use crate::page::{PAGE, Page, SECTOR, ZEROS};
use base::Rng;

/// Pages of the device: three chunks and a part of a fourth one.
const PAGES: usize = 3 * super::CHUNK_PAGES + 5;
const SECTORS: usize = PAGES * PAGE / SECTOR;
const LAYERS: [Layer; 2] = [Layer::Current, Layer::Stable];

/// What the store must hold, without sharing anything.
#[derive(Clone)]
struct Plain {
    bytes: [Vec<u8>; 2],
    /// Which pages hold something, by layer.
    holds: [Vec<bool>; 2],
    seqs: Vec<u64>,
}

impl Plain {
    fn new() -> Self {
        let bytes = || vec![0; PAGES * PAGE];
        let holds = || vec![false; PAGES];
        Self { bytes: [bytes(), bytes()], holds: [holds(), holds()], seqs: vec![0; SECTORS] }
    }

    /// Writes the sectors of `bytes`, zeros if there are none. In the stable layer newer ones stay.
    fn put(&mut self, layer: Layer, first: usize, count: usize, seq: u64, bytes: Option<&[u8]>) {
        for at in 0..count {
            let sector = first + at;
            if layer == Layer::Stable {
                if self.seqs[sector] >= seq {
                    continue;
                }
                self.seqs[sector] = seq;
            }
            let place = &mut self.bytes[layer as usize][sector * SECTOR..(sector + 1) * SECTOR];
            match bytes {
                Some(bytes) => {
                    place.copy_from_slice(&bytes[at * SECTOR..(at + 1) * SECTOR]);
                    self.holds[layer as usize][sector * SECTOR / PAGE] = true;
                }
                None => place.fill(0),
            }
        }
        if bytes.is_none() && count > 0 {
            for page in first * SECTOR / PAGE..=(first + count - 1) * SECTOR / PAGE {
                let content = &self.bytes[layer as usize][page * PAGE..(page + 1) * PAGE];
                self.holds[layer as usize][page] &= content != ZEROS;
            }
        }
    }

    fn revert(&mut self) {
        let [current, stable] = &mut self.bytes;
        current.copy_from_slice(stable);
        let [current, stable] = &mut self.holds;
        current.copy_from_slice(stable);
    }

    fn check(&self, store: &ContentStore, offset: usize, len: usize, what: &str) {
        for layer in LAYERS {
            let mut found = vec![7; len];
            store.read(layer, offset as u64, &mut found);
            let wanted = &self.bytes[layer as usize][offset..offset + len];
            assert!(found == wanted, "{what}: the wrong content in {offset}..{}", offset + len);
        }
    }

    fn check_all(&self, store: &ContentStore, what: &str) {
        self.check(store, 0, PAGES * PAGE, what);
        let wanted = (0..PAGES as u64).filter(|page| self.holds[0][*page as usize]);
        assert_eq!(store.written(), wanted.collect::<Vec<_>>(), "{what}");
    }
}

/// A write that is in the cache.
struct Pending {
    seq: u64,
    first: usize,
    bytes: Vec<u8>,
    pieces: Vec<StoredPiece>,
}

/// A range of sectors. Half of all ranges lie in a few pages, so that they overlap.
fn range(rng: &mut Rng) -> (usize, usize) {
    let all = if rng.below(2) == 0 { 40 } else { SECTORS };
    let first = rng.below(all as u64 - 1) as usize;
    let most = [1, 8, 24, 600][rng.below(4) as usize].min(SECTORS - first);
    match rng.below(3) {
        0 if first >= 8 => (first / 8 * 8, 8),
        _ => (first, 1 + rng.below(most as u64) as usize),
    }
}

/// Data: some sectors are zeros, some repeat in one way or the other, some nearly do, and some are
/// random.
fn content(sectors: usize, rng: &mut Rng) -> Vec<u8> {
    let kinds = 1 + rng.below(6);
    let (tag, number) = (rng.next_u64(), rng.below(1 << 40));
    let mut bytes = vec![0; sectors * SECTOR];
    for (at, sector) in (0..).zip(bytes.chunks_mut(SECTOR)) {
        let kind = rng.below(kinds);
        match kind {
            0 => {}
            5 => rng.fill(sector),
            _ => {
                for (word, place) in (0_u64..).zip(sector.chunks_mut(8)) {
                    let odd = (number + at) ^ if kind == 1 { 0 } else { word << 48 };
                    let word = if word.is_multiple_of(2) { tag } else { odd };
                    place.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        if kind == 4 {
            sector[rng.below(SECTOR as u64) as usize] ^= 1 << rng.below(8);
        }
    }
    bytes
}

#[test]
fn the_store_holds_what_plain_bytes_hold() {
    let zeros = Page::zeros();
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (mut store, mut plain) = (ContentStore::default(), Plain::new());
        let mut snapshot = (store.clone(), plain.clone());
        let (mut pending, mut seq) = (Vec::<Pending>::new(), 0);
        for step in 0..300 {
            let what = format!("seed {seed}, step {step}");
            let (first, count) = range(&mut rng);
            let offset = (first * SECTOR) as u64;
            seq += 1;
            match rng.below(20) {
                0..5 => {
                    let bytes = content(count, &mut rng);
                    store.write_through(&StoredPiece::cut(offset, &bytes, &zeros), seq);
                    LAYERS.iter().for_each(|l| plain.put(*l, first, count, seq, Some(&bytes)));
                }
                5..10 => {
                    let bytes = content(count, &mut rng);
                    let mut pieces = StoredPiece::cut(offset, &bytes, &zeros);
                    if rng.below(3) == 0 {
                        let whole = std::mem::take(&mut pieces);
                        whole.iter().for_each(|piece| piece.sift(|| true, &mut pieces));
                    }
                    store.write_current(&pieces);
                    plain.put(Layer::Current, first, count, seq, Some(&bytes));
                    pending.push(Pending { seq, first, bytes, pieces });
                }
                10..15 if !pending.is_empty() => {
                    // In any order: an older one after a newer one changes nothing.
                    let at = rng.below(pending.len() as u64) as usize;
                    let Pending { seq, first, bytes, pieces } = pending.swap_remove(at);
                    store.write_stable(&pieces, seq);
                    plain.put(Layer::Stable, first, bytes.len() / SECTOR, seq, Some(&bytes));
                }
                15 | 16 => {
                    let layer = LAYERS[rng.below(2) as usize];
                    store.zero(layer, offset, (count * SECTOR) as u64, seq);
                    plain.put(layer, first, count, seq, None);
                }
                17 => {
                    let (at, len) = (rng.below(4000) as usize, 1 + rng.below(5000) as usize);
                    let mask = rng.between(1, 255) as u8;
                    store.poke(at as u64, len, |_, byte| *byte ^= mask);
                    for layer in &mut plain.bytes {
                        layer[at..at + len].iter_mut().for_each(|byte| *byte ^= mask);
                    }
                    for layer in &mut plain.holds {
                        layer[at / PAGE..=(at + len - 1) / PAGE].fill(true);
                    }
                }
                18 if rng.below(4) == 0 => {
                    store.revert();
                    plain.revert();
                    pending.clear();
                }
                19 => snapshot = (store.clone(), plain.clone()),
                _ => {}
            }
            let at = rng.below((PAGES * PAGE) as u64) as usize;
            let len = rng.below(20_000) as usize;
            plain.check(&store, at, len.min(PAGES * PAGE - at), &what);
            plain.check(&store, 0, 6 * PAGE, &what);
        }
        plain.check_all(&store, &format!("seed {seed}"));
        snapshot.1.check_all(&snapshot.0, &format!("the snapshot of seed {seed}"));
    }
}

/// What the store's price rests on: a page is in memory once, however it was written through.
#[test]
fn layers_share_what_was_written_through() {
    let zeros = Page::zeros();
    let mut store = ContentStore::default();
    let write = |store: &mut ContentStore, offset, len, byte, seq| {
        store.write_through(&StoredPiece::cut(offset, &vec![byte; len], &zeros), seq);
        store.chunks[0].iter().flatten().all(super::Entry::is_shared)
    };
    assert!(write(&mut store, 0, 2 * PAGE, 1, 1), "two whole pages");
    assert!(write(&mut store, 512, PAGE, 2, 2), "parts of pages that are there");
    assert!(write(&mut store, 5 * PAGE as u64 + 512, 1024, 3, 3), "a part of a new page");
    assert!(write(&mut store, 7 * PAGE as u64, PAGE, 0, 4), "zeros");
    store.write_current(&StoredPiece::cut(512, &[4; 512], &zeros));
    assert!(!store.chunks[0].as_ref().is_some_and(|chunk| chunk[0].is_shared()), "a cached write");
}
