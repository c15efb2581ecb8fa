// SPDX-License-Identifier: Apache-2.0
//! The index of the write buffer: which entry of the log is the newest of each block.
//!
//! One hash map, sized once for the whole buffer and never iterated but by an audit. A block that
//! the log holds in parts has a side record with one owner per sector. Within a block the higher
//! lsn wins, the later commit where lsns are equal: so an entry written again at the log's head
//! (same lsn) takes the place of its first copy, and never that of something newer.

use crate::mutations::Mutations;
use base::FixedMap;

const TAG: u32 = 3 << 30;
const TAG_ZERO: u32 = 1 << 30;
const TAG_PARTS: u32 = 2 << 30;
const TAG_DIRECT: u32 = 3 << 30;

/// Where an entry is in the log: sectors from the start of segment 0, and whether it has payload.
/// An entry without payload is named by the place of its commit. So is a direct write, whose data
/// is on capacity already ([`crate::store::staged`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogPlace(u32);

impl LogPlace {
    pub(crate) fn data(sector: u32) -> Self {
        assert!(sector & TAG == 0, "a position beyond 512 GiB");
        Self(sector)
    }

    pub(crate) fn zero(sector: u32) -> Self {
        assert!(sector & TAG == 0, "a position beyond 512 GiB");
        Self(sector | TAG_ZERO)
    }

    pub(crate) fn direct(sector: u32) -> Self {
        assert!(sector & TAG == 0, "a position beyond 512 GiB");
        Self(sector | TAG_DIRECT)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.0 & TAG == TAG_ZERO
    }

    pub(crate) fn is_direct(self) -> bool {
        self.0 & TAG == TAG_DIRECT
    }

    pub(crate) fn sector(self) -> u32 {
        self.0 & !TAG
    }
}

#[derive(Clone, Copy)]
struct IndexSlot {
    place: u32,
    crc: u32,
    lsn: u64,
}

/// Sectors of one block as one entry of the log holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexPiece {
    /// First sector within the block.
    pub(crate) start: u8,
    /// Sectors.
    pub(crate) count: u8,
    pub(crate) place: LogPlace,
    /// CRC32C of exactly these sectors.
    pub(crate) crc: u32,
    pub(crate) lsn: u64,
}

const BELOW: u8 = u8::MAX;

/// A block that the log holds in parts. At most eight pieces: each owns a sector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) pieces: Vec<IndexPiece>,
    owner: [u8; 8],
}

impl Parts {
    fn add(&mut self, piece: IndexPiece, ignores_lsn: bool) {
        let id = self.pieces.len() as u8;
        self.pieces.push(piece);
        for sector in piece.start..piece.start + piece.count {
            let owner = &mut self.owner[usize::from(sector)];
            let is_newer = *owner == BELOW || self.pieces[usize::from(*owner)].lsn <= piece.lsn;
            if is_newer || ignores_lsn {
                *owner = id;
            }
        }
        self.compact();
    }

    /// Drops pieces that own nothing.
    fn compact(&mut self) {
        let mut kept = Vec::with_capacity(self.pieces.len());
        for (id, piece) in self.pieces.iter().enumerate() {
            let mut owns = false;
            for owner in &mut self.owner {
                if usize::from(*owner) == id && *owner != BELOW {
                    // Renumbering down never meets an id that is still to come.
                    *owner = kept.len() as u8;
                    owns = true;
                }
            }
            if owns {
                kept.push(*piece);
            }
        }
        self.pieces = kept;
    }

    fn drop_up_to(&mut self, lsn: u64) {
        for owner in &mut self.owner {
            if *owner != BELOW && self.pieces[usize::from(*owner)].lsn <= lsn {
                *owner = BELOW;
            }
        }
        self.compact();
    }

    fn drop_place(&mut self, place: LogPlace) {
        for owner in &mut self.owner {
            if *owner != BELOW && self.pieces[usize::from(*owner)].place == place {
                *owner = BELOW;
            }
        }
        self.compact();
    }

    /// The piece that holds a sector of the block; `None`: what is below the log.
    pub(crate) fn owner(&self, sector: usize) -> Option<&IndexPiece> {
        self.pieces.get(usize::from(self.owner[sector]))
    }

    fn as_whole(&self) -> Option<IndexPiece> {
        match self.pieces.as_slice() {
            [one] if one.count == 8 && self.owner == [0; 8] => Some(*one),
            _ => None,
        }
    }
}

/// What the log holds of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogView<'a> {
    /// All of it, in one entry.
    Whole(IndexPiece),
    /// Parts of it.
    Parts(&'a Parts),
}

/// Where the log has a block.
pub(crate) struct Places {
    pub(crate) is_parts: bool,
    pub(crate) all: Vec<LogPlace>,
}

/// See the module.
pub(crate) struct Index {
    map: FixedMap<IndexSlot>,
    parts: Vec<Option<Box<Parts>>>,
    unused: Vec<u32>,
    limit: usize,
    pub(crate) mutations: Mutations,
}

impl Index {
    pub(crate) fn new(limit: usize) -> Self {
        let map = FixedMap::with_capacity_and_hasher(limit, Default::default());
        Self { map, parts: Vec::new(), unused: Vec::new(), limit, mutations: Mutations::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Bytes of its table, without side records.
    pub(crate) fn table_bytes(&self) -> usize {
        self.map.allocation_size()
    }

    /// Entries that it was sized for; appends wait beyond that.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn get(&self, key: u64) -> Option<LogView<'_>> {
        let slot = self.map.get(&key)?;
        if slot.place & TAG == TAG_PARTS {
            let parts = self.parts[(slot.place & !TAG) as usize].as_deref();
            return parts.map(LogView::Parts);
        }
        let IndexSlot { place, crc, lsn } = *slot;
        Some(LogView::Whole(IndexPiece { start: 0, count: 8, place: LogPlace(place), crc, lsn }))
    }

    /// All blocks and where the log has them, for counting: in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, Places)> {
        self.map.keys().filter_map(|key| {
            let places = match self.get(*key)? {
                LogView::Whole(piece) => Places { is_parts: false, all: vec![piece.place] },
                LogView::Parts(parts) => {
                    let all = parts.pieces.iter().map(|piece| piece.place).collect();
                    Places { is_parts: true, all }
                }
            };
            Some((*key, places))
        })
    }

    /// How many side records there are, and how many of them are unused.
    pub(crate) fn side_records(&self) -> (usize, usize) {
        (self.parts.len(), self.unused.len())
    }

    /// Puts a piece of a block; whether the block is new here.
    pub(super) fn put(&mut self, key: u64, piece: IndexPiece) -> bool {
        let new = IndexSlot { place: piece.place.0, crc: piece.crc, lsn: piece.lsn };
        let Some(slot) = self.map.get_mut(&key) else {
            let slot = if piece.count == 8 {
                new
            } else {
                let mut parts = Parts { pieces: Vec::with_capacity(2), owner: [BELOW; 8] };
                parts.add(piece, false);
                Self::store(&mut self.parts, &mut self.unused, parts)
            };
            self.map.insert(key, slot);
            return true;
        };
        if slot.place & TAG == TAG_PARTS {
            let at = (slot.place & !TAG) as usize;
            let Some(parts) = self.parts[at].as_deref_mut() else {
                unreachable!("a side record that is in use")
            };
            parts.add(piece, self.mutations.ignore_lsn());
            if let Some(whole) = parts.as_whole() {
                *slot = IndexSlot { place: whole.place.0, crc: whole.crc, lsn: whole.lsn };
                self.parts[at] = None;
                self.unused.push(at as u32);
            }
            return false;
        }
        if slot.lsn > piece.lsn && !self.mutations.ignore_lsn() {
            return false;
        }
        if piece.count == 8 {
            *slot = new;
            return false;
        }
        let base = IndexPiece {
            start: 0,
            count: 8,
            place: LogPlace(slot.place),
            crc: slot.crc,
            lsn: slot.lsn,
        };
        let mut parts = Parts { pieces: vec![base], owner: [0; 8] };
        parts.add(piece, self.mutations.ignore_lsn());
        *slot = Self::store(&mut self.parts, &mut self.unused, parts);
        false
    }

    fn store(all: &mut Vec<Option<Box<Parts>>>, unused: &mut Vec<u32>, parts: Parts) -> IndexSlot {
        let at = match unused.pop() {
            Some(at) => {
                all[at as usize] = Some(Box::new(parts));
                at
            }
            None => {
                all.push(Some(Box::new(parts)));
                all.len() as u32 - 1
            }
        };
        IndexSlot { place: at | TAG_PARTS, crc: 0, lsn: 0 }
    }

    fn remove(&mut self, key: u64) {
        if let Some(slot) = self.map.remove(&key)
            && slot.place & TAG == TAG_PARTS
        {
            let at = slot.place & !TAG;
            self.parts[at as usize] = None;
            self.unused.push(at);
        }
    }

    /// Takes out what one place holds of a block, if it is still the newest of any sector: capacity
    /// has it by now. Whether nothing is left of the block here.
    pub(super) fn forget(&mut self, key: u64, place: LogPlace) -> bool {
        let Some(slot) = self.map.get(&key) else { return false };
        let is_gone = if slot.place & TAG == TAG_PARTS {
            self.parts[(slot.place & !TAG) as usize].as_deref_mut().is_none_or(|parts| {
                parts.drop_place(place);
                parts.pieces.is_empty()
            })
        } else {
            slot.place == place.0
        };
        if is_gone {
            self.remove(key);
        }
        is_gone
    }

    /// Takes out everything of a block up to an lsn; whether nothing is left of it.
    pub(super) fn clear(&mut self, key: u64, lsn: u64) -> bool {
        let Some(slot) = self.map.get(&key) else { return false };
        let is_gone = if slot.place & TAG == TAG_PARTS {
            let at = (slot.place & !TAG) as usize;
            self.parts[at].as_deref_mut().is_none_or(|parts| {
                parts.drop_up_to(lsn);
                parts.pieces.is_empty()
            })
        } else {
            slot.lsn <= lsn
        };
        if is_gone {
            self.remove(key);
        }
        is_gone
    }

    /// Whether `place` holds something that is still the newest of its block.
    pub(crate) fn is_live(&self, key: u64, place: LogPlace) -> bool {
        match self.get(key) {
            None => false,
            Some(LogView::Whole(piece)) => piece.place == place,
            Some(LogView::Parts(parts)) => parts.pieces.iter().any(|piece| piece.place == place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: u8, count: u8, at: u32, lsn: u64) -> IndexPiece {
        IndexPiece { start, count, place: LogPlace::data(at), crc: at, lsn }
    }

    fn owners(index: &Index, key: u64) -> Vec<Option<u32>> {
        (0..8)
            .map(|sector| match index.get(key) {
                None => None,
                Some(LogView::Whole(piece)) => Some(piece.place.sector()),
                Some(LogView::Parts(parts)) => parts.owner(sector).map(|p| p.place.sector()),
            })
            .collect()
    }

    #[test]
    fn sectors_belong_to_the_highest_lsn() {
        // Against a model that keeps one owner per sector.
        let mut rng = base::Rng::new(1);
        for _ in 0..2000 {
            let (mut index, mut model) = (Index::new(8), [(None, 0); 8]);
            for step in 1..12 {
                let lsn = step + rng.below(3);
                if rng.below(8) == 0 {
                    index.clear(7, lsn);
                    for (owner, held) in &mut model {
                        if *held <= lsn {
                            *owner = None;
                            *held = 0;
                        }
                    }
                } else {
                    let whole = rng.below(4) == 0;
                    let start = if whole { 0 } else { rng.below(8) };
                    let count = if whole { 8 } else { rng.between(1, 8 - start) };
                    index.put(7, piece(start as u8, count as u8, step as u32, lsn));
                    for (owner, held) in &mut model[start as usize..(start + count) as usize] {
                        if *held <= lsn {
                            *owner = Some(step as u32);
                            *held = lsn;
                        }
                    }
                }
                let expected: Vec<_> = model.iter().map(|(owner, _)| *owner).collect();
                assert_eq!(owners(&index, 7), expected);
            }
        }
    }

    #[test]
    fn only_the_same_place_is_forgotten() {
        let mut index = Index::new(8);
        assert!(index.put(1, piece(0, 8, 100, 1)));
        assert!(!index.put(1, piece(0, 8, 200, 2)));
        assert!(!index.forget(1, LogPlace::data(100)));
        assert!(index.forget(1, LogPlace::data(200)));
        assert_eq!(index.len(), 0);
    }
}
