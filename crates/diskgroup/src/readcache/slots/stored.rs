// SPDX-License-Identifier: Apache-2.0
//! Slots and their headers on the device: what those say, and which are to be written.

use super::*;

/// What the slots of a line hold, by the keys of their pieces.
pub(crate) type LineKeys = [Option<u64>; PIECES];

impl Slots {
    /// The header of a slot's line is to be written.
    pub(super) fn soil(&mut self, slot: u32) {
        let (line, _) = line_of(slot);
        match std::mem::replace(&mut self.is_dirty[line as usize], Dirt::Dirty) {
            Dirt::Clean => self.dirty.push_back(line),
            Dirt::Dirty | Dirt::Written => {}
        }
    }

    fn is_frozen(&self, line: u32) -> bool {
        !self.frozen.is_empty()
            && self
                .claims(line, &Map::new())
                .iter()
                .flatten()
                .any(|key| self.frozen.contains(&whole_of(*key)))
    }

    /// Lines whose header is to be written now: so many of those that name what went, since no
    /// more may go before, and so many that are out of date. Those of frozen chunks stay.
    pub(crate) fn take_dirty(&mut self, stale: usize, outdated: usize) -> Vec<u32> {
        self.soiled = None;
        let mut lines: Vec<u32> = Vec::new();
        for slot in self.stale.keys() {
            let (line, _) = line_of(*slot);
            if lines.len() == stale {
                break;
            }
            if lines.last() != Some(&line) && !self.is_frozen(line) {
                lines.push(line);
            }
        }
        for line in &lines {
            let dirt = &mut self.is_dirty[*line as usize];
            if *dirt == Dirt::Dirty {
                *dirt = Dirt::Written;
            }
        }
        let most = lines.len() + outdated;
        for _ in 0..self.dirty.len() {
            if lines.len() >= most {
                break;
            }
            let Some(line) = self.dirty.pop_front() else { break };
            if self.is_frozen(line) {
                self.dirty.push_back(line);
                continue;
            }
            let dirt = std::mem::replace(&mut self.is_dirty[line as usize], Dirt::Clean);
            if dirt == Dirt::Dirty {
                lines.push(line);
            }
        }
        lines
    }

    /// What the slots of a line hold, but for pieces that are to be left out, by their chunks.
    pub(crate) fn claims(&self, line: u32, without: &Map<u64, u16>) -> LineKeys {
        let first = line as usize * PIECES;
        std::array::from_fn(|place| {
            let slot = self.slots.get(first + place)?;
            let is_out = without
                .get(&whole_of(slot.key()))
                .is_some_and(|bits| bits >> slot.piece() & 1 == 1);
            (slot.is(HELD) && slot.known != 0 && !is_out).then(|| slot.key())
        })
    }

    /// The header of a slot, on a device of the group and of a chunk with that map entry.
    pub(crate) fn header(
        &self,
        (line, place): (u32, usize),
        capacity: u64,
        entry: format::ChunkEntry,
    ) -> SlotHeader {
        let slot = &self.slots[line as usize * PIECES + place];
        let (known, data, mut crcs) = (slot.known, slot.data, slot.crcs);
        // Nothing else stands where there is no data: what was there is nobody's.
        for (block, crc) in crcs.iter_mut().enumerate() {
            *crc *= u32::from(data >> block & 1);
        }
        let (chunk, piece) = (slot.chunk, slot.piece() as u8);
        SlotHeader { capacity, chunk, piece, entry, known, data, crcs }
    }

    /// The header on the device says this of a line, and nothing else can be read there.
    pub(crate) fn set_stored(&mut self, line: u32, claims: &LineKeys) {
        for (slot, claim) in (line * PIECES as u32..).zip(claims) {
            let Some(of) = self.slots.get_mut(slot as usize) else { continue };
            of.flags &= !STORED;
            self.stale.remove(&slot);
            match claim {
                Some(key) if of.is(HELD) && of.key() == *key => of.flags |= STORED,
                Some(key) => _ = self.stale.insert(slot, *key),
                None => {
                    let is_busy = self.busy.contains_key(&u64::from(slot));
                    if of.is(HELD) && of.known == 0 && !is_busy {
                        self.release(slot);
                    }
                }
            }
        }
    }

    /// Lines with headers on the device that name any of these pieces, given by their chunks.
    pub(crate) fn lines_naming(&self, pieces: &Map<u64, u16>) -> Vec<u32> {
        let mut lines = base::Set::new();
        for (chunk, bits) in pieces {
            for slot in self.of_chunk(*chunk) {
                let of = &self.slots[slot as usize];
                if of.is(STORED) && bits >> of.piece() & 1 == 1 {
                    lines.insert(line_of(slot).0);
                }
            }
        }
        for (slot, key) in &self.stale {
            let bits = pieces.get(&whole_of(*key)).copied().unwrap_or(0);
            if bits >> (*key & 15) & 1 == 1 {
                lines.insert(line_of(*slot).0);
            }
        }
        lines.into_iter().collect()
    }

    /// Those of the chunks of which a header on the device names one of these pieces.
    pub(crate) fn named(&self, pieces: &Map<u64, u16>) -> base::Set<u64> {
        let is_named = |(chunk, bits): (&u64, &u16)| {
            let is_stored = self.of_chunk(*chunk).any(|slot| {
                let of = self.slot(slot);
                of.is(STORED) && bits >> of.piece() & 1 == 1
            });
            is_stored.then_some(*chunk)
        };
        let is_asked = |key: &&u64| {
            pieces.get(&whole_of(**key)).is_some_and(|bits| bits >> (**key & 15) & 1 == 1)
        };
        let stale = self.stale.values().filter(is_asked).map(|key| whole_of(*key));
        pieces.iter().filter_map(is_named).chain(stale).collect()
    }

    /// Whether no more slots may be given away until headers were written.
    pub(crate) fn is_crowded(&self) -> bool {
        self.stale.len() >= self.stale_most
    }

    /// No headers of these chunks until [`Slots::thaw`].
    pub(crate) fn freeze(&mut self, chunks: impl Iterator<Item = u64>) {
        self.frozen = chunks.collect();
    }

    pub(crate) fn thaw(&mut self) {
        self.frozen.clear();
    }

    /// At opening: the next slot holds nothing, or what its header says, which is of the piece
    /// `key`. A header that is not believed names what may be believed some day: it goes.
    pub(crate) fn install(&mut self, header: Option<(&SlotHeader, u64)>, is_believed: bool) {
        let slot = self.slots.len() as u32;
        assert!((slot as usize) < self.heads.len(), "a slot is known once");
        self.slots.push(CacheSlot::EMPTY);
        self.policy.grow();
        self.owners.grow();
        let Some((header, key)) = header else { return self.add_free(slot) };
        if !is_believed || self.find(key).is_some() {
            self.stale.insert(slot, key);
            return self.add_free(slot);
        }
        self.link(slot, key);
        self.owners.give(slot, header.entry.serial);
        self.policy.insert(slot, FirstQueue::Main);
        let of = &mut self.slots[slot as usize];
        of.flags |= STORED;
        (of.known, of.data, of.crcs) = (header.known, header.data, header.crcs);
    }
}
