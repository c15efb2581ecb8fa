// SPDX-License-Identifier: Apache-2.0
//! Changes of checksums that the journal has and the pages on the device may lack.
//!
//! What a page says is its newest image on the device and all of its pending changes, in order. A
//! change sets what it is about, whatever was there. So an image may hold any number of the first
//! ones already: the last change of a block decides, and it is applied again.

use base::FixedMap;
use format::{CrcPage, Item};

/// Changes that are allocated at a time: 48 KiB. One vector that grows would move all of them.
const PART: usize = 4096;
/// Stands for no change: a journal has room for fewer.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
enum What {
    Set,
    Unset,
    Clear,
}

/// A change of one page: 12 bytes.
#[derive(Clone, Copy)]
struct Change {
    /// The next one of the same page.
    next: u32,
    crc: u32,
    /// Which of the page's chunks.
    place: u8,
    block: u8,
    what: What,
}

impl Change {
    fn of(item: &Item, place: usize) -> Option<Self> {
        let (what, block, crc) = match *item {
            Item::Allocate { .. } | Item::Clear { .. } => (What::Clear, 0, 0),
            Item::Block { block, crc, .. } => (What::Set, block, crc),
            Item::Unset { block, .. } => (What::Unset, block, 0),
            Item::Free { .. } | Item::Watermark { .. } => return None,
        };
        let place = u8::try_from(place).ok()?;
        Some(Self { next: NONE, crc, place, block, what })
    }

    fn apply(&self, page: &mut CrcPage) {
        let (place, block) = (usize::from(self.place), usize::from(self.block));
        match self.what {
            What::Set => page.set(place, block, Some(self.crc)),
            What::Unset => page.set(place, block, None),
            What::Clear => page.clear(place),
        }
    }
}

/// The part of a change, and its place there.
fn split(at: u32) -> (usize, usize) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    (at / PART, at % PART)
}

/// See the module. It holds at most what the journal holds: 24 bytes there for each change here.
#[derive(Default)]
pub(crate) struct PendingChanges {
    parts: Vec<Vec<Change>>,
    /// Changes in all parts, with those of pages that were written since.
    len: u32,
    /// First and last change of each page.
    pages: FixedMap<(u32, u32)>,
    /// The first changes, so many, are of the journal that opening found.
    recovered: u32,
    /// The first record of that journal.
    recovered_from: u64,
}

impl PendingChanges {
    /// A change of a page that is durable in the journal.
    pub(crate) fn push(&mut self, number: u32, place: usize, item: &Item) {
        let Some(change) = Change::of(item, place) else { return };
        let at = self.len;
        assert!(at < NONE, "a journal does not hold so many changes");
        self.len += 1;
        match self.parts.last_mut().filter(|part| part.len() < PART) {
            Some(part) => part.push(change),
            None => {
                let mut part = Vec::with_capacity(PART);
                part.push(change);
                self.parts.push(part);
            }
        }
        let (_, last) = self.pages.entry(u64::from(number)).or_insert((at, NONE));
        let before = std::mem::replace(last, at);
        if before != NONE {
            let (part, place) = split(before);
            self.parts[part][place].next = at;
        }
    }

    /// Makes an image of a page what the page is.
    pub(crate) fn apply_to(&self, page: &mut CrcPage) {
        let first = self.pages.get(&u64::from(page.number)).map_or(NONE, |(first, _)| *first);
        let mut at = first;
        while at != NONE {
            let (part, place) = split(at);
            let change = &self.parts[part][place];
            change.apply(page);
            at = change.next;
        }
    }

    /// An image of the page that has all of its changes is durable.
    pub(crate) fn forget(&mut self, number: u32) {
        self.pages.remove(&u64::from(number));
        if self.pages.is_empty() {
            self.clear();
        }
    }

    /// The pages on the device hold everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Bytes of its tables.
    pub(crate) fn table_bytes(&self) -> usize {
        self.parts.len() * PART * size_of::<Change>() + self.pages.allocation_size()
    }

    /// Pages with changes.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Their numbers, in order.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let numbers = self.pages.keys().map(|number| u32::try_from(*number).unwrap_or(u32::MAX));
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    /// Changes that are held.
    pub(crate) fn changes(&self) -> u32 {
        self.len
    }

    /// What is pending now was found in the journal by opening, whose first record this is.
    pub(crate) fn is_recovered(&mut self, first: u64) {
        self.recovered = self.len;
        self.recovered_from = first;
    }

    /// The first record of the journal that opening found, where it changes the page and the page
    /// was not written since.
    pub(crate) fn recovered_from(&self, number: u32) -> Option<u64> {
        let (first, _) = self.pages.get(&u64::from(number))?;
        (*first < self.recovered).then_some(self.recovered_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Lsn, Map, Rng};

    fn some_item(rng: &mut Rng) -> Item {
        let (chunk, lsn) = (0, Lsn(1));
        let (block, crc) = (rng.below(256) as u8, rng.next_u64() as u32);
        match rng.below(40) {
            0 => Item::Clear { chunk, lsn },
            1 => Item::Allocate { chunk, serial: 1, index: 1, lsn },
            2 => Item::Free { chunk },
            3..10 => Item::Unset { chunk, block, lsn },
            _ => Item::Block { chunk, block, crc, lsn },
        }
    }

    /// Whatever of them an image holds already, from the first one on.
    #[test]
    fn an_image_and_its_changes_are_the_page() {
        let mut rng = Rng::stream(1, 1);
        let mut pending = PendingChanges::default();
        let (mut pages, mut images): (Map<u32, CrcPage>, Map<u32, CrcPage>) = Default::default();
        for _ in 0..3 * PART {
            let (number, place) = (rng.below(20) as u32, rng.below(3) as usize);
            let item = some_item(&mut rng);
            let page = pages.entry(number).or_insert_with(|| CrcPage::empty(number));
            item.apply(page, place);
            pending.push(number, place, &item);
            if rng.below(200) == 0 {
                images.insert(number, page.clone());
            }
        }
        assert!(pending.numbers().iter().eq(pages.keys()));
        for (number, page) in &pages {
            let mut image = images.remove(number).unwrap_or_else(|| CrcPage::empty(*number));
            pending.apply_to(&mut image);
            for (place, block) in (0..3).flat_map(|place| (0..256).map(move |b| (place, b))) {
                assert_eq!(image.get(place, block), page.get(place, block));
            }
            pending.forget(*number);
        }
        assert_eq!((pending.pages(), pending.changes()), (0, 0));
    }

    #[test]
    fn pages_of_the_journal_that_was_found_are_told_until_they_are_written() {
        let mut pending = PendingChanges::default();
        let item = Item::Unset { chunk: 0, block: 1, lsn: Lsn(1) };
        [3, 5, 7].into_iter().for_each(|number| pending.push(number, 0, &item));
        pending.is_recovered(11);
        pending.push(5, 0, &item);
        pending.push(6, 0, &item);
        pending.forget(3);
        pending.push(3, 0, &item);
        let told = [3, 5, 6, 7, 8].map(|number| pending.recovered_from(number));
        assert_eq!(told, [None, Some(11), None, Some(11), None]);
    }
}
