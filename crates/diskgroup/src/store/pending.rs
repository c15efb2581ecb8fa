// SPDX-License-Identifier: Apache-2.0
//! Changes of checksums that the journal has and the pages on the device may lack.
//!
//! What a page says is its newest image on the device and all of its pending changes, in order. A
//! change sets what it is about, whatever was there. So an image may hold any number of the first
//! ones already: the last change of a block decides, and it is applied again.

use base::FixedMap;
use format::{CrcPage, Item};
use std::ops::Range;

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

/// Changes of one half of the journal: 24 bytes there for each 12 here.
#[derive(Default)]
struct HalfChanges {
    parts: Vec<Vec<Change>>,
    /// Changes in all parts, with those of pages that were written since.
    len: u32,
    /// First and last change of each page.
    pages: FixedMap<(u32, u32)>,
    /// The first changes, so many, are of the journal that opening found.
    recovered: u32,
}

impl HalfChanges {
    fn push(&mut self, number: u32, change: Change) {
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

    fn first_of(&self, number: u32) -> Option<u32> {
        self.pages.get(&u64::from(number)).map(|(first, _)| *first)
    }

    fn apply_to(&self, page: &mut CrcPage) {
        let mut at = self.first_of(page.number).unwrap_or(NONE);
        while at != NONE {
            let (part, place) = split(at);
            let change = &self.parts[part][place];
            change.apply(page);
            at = change.next;
        }
    }

    fn forget(&mut self, number: u32) {
        let was_there = self.pages.remove(&u64::from(number)).is_some();
        if was_there && self.pages.is_empty() {
            *self = Self::default();
        }
    }

    fn table_bytes(&self) -> usize {
        self.parts.len() * PART * size_of::<Change>() + self.pages.allocation_size()
    }
}

/// See the module. Each half of the journal has its own: the checkpoint of the closed half goes
/// through the pages of that one, while changes of the open half come in. An image has all that is
/// pending of its page at that moment, of both.
#[derive(Default)]
pub(crate) struct PendingChanges {
    closed: HalfChanges,
    open: HalfChanges,
    /// Images that hold this record or a later one may not be durable, though opening read them.
    doubt_from: Option<u64>,
}

impl PendingChanges {
    /// A change of a page that is durable in the journal's open half.
    pub(crate) fn push(&mut self, number: u32, place: usize, item: &Item) {
        if let Some(change) = Change::of(item, place) {
            self.open.push(number, change);
        }
    }

    /// The open half is closed, and the other one is open. Nothing is pending of that one.
    pub(crate) fn turn(&mut self) {
        assert!(self.closed.pages.is_empty(), "the checkpoint of the other half is over");
        self.closed = std::mem::take(&mut self.open);
    }

    /// Makes an image of a page what the page is.
    pub(crate) fn apply_to(&self, page: &mut CrcPage) {
        self.closed.apply_to(page);
        self.open.apply_to(page);
    }

    /// An image of the page was made that has all of its changes. The page stays in memory until
    /// the image is durable. Those of the open half stay: its own checkpoint writes every page that
    /// it changed, and opening relies on that.
    pub(crate) fn forget_closed(&mut self, number: u32) {
        self.closed.forget(number);
    }

    /// Bytes of its tables.
    pub(crate) fn table_bytes(&self) -> usize {
        self.closed.table_bytes() + self.open.table_bytes()
    }

    /// Pages with changes of the closed half, in order.
    pub(crate) fn closed_pages(&self) -> Vec<u32> {
        Self::in_order(self.closed.pages.keys())
    }

    /// Pages with changes of either, in order.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        Self::in_order(self.closed.pages.keys().chain(self.open.pages.keys()))
    }

    fn in_order<'a>(numbers: impl Iterator<Item = &'a u64>) -> Vec<u32> {
        let numbers = numbers.map(|number| u32::try_from(*number).unwrap_or(u32::MAX));
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Changes that are held, of the closed half and of the open one.
    pub(crate) fn changes(&self) -> [u32; 2] {
        [self.closed.len, self.open.len]
    }

    /// What is pending now was found in the journal by opening.
    pub(crate) fn is_recovered(&mut self, doubt_from: Option<u64>) {
        self.closed.recovered = self.closed.len;
        self.doubt_from = doubt_from;
    }

    /// Whether a checkpoint that did not come to its end may have torn a slot of the page: opening
    /// found changes of it in the closed half, and it was not written since.
    pub(crate) fn may_be_torn(&self, number: u32) -> bool {
        self.closed.first_of(number).is_some_and(|first| first < self.closed.recovered)
    }

    /// Whether the damaged slot of a page is what such a checkpoint tore, and no rot of the newer
    /// image: then the journal has all changes since the other slot. See [`is_checkpoints`]; `next`
    /// is the record that does not exist yet.
    pub(crate) fn is_torn(
        &self,
        number: u32,
        kept: (u64, u64),
        first: Option<(u64, u64)>,
        next: u64,
    ) -> bool {
        let open = self.doubt_from.unwrap_or(next)..next;
        self.may_be_torn(number) && is_checkpoints(kept, first, &open)
    }

    /// Whether such a checkpoint may have written an image of the page with all records up to this
    /// one, and not made it durable.
    pub(crate) fn is_in_doubt(&self, number: u32, applied: u64) -> bool {
        self.may_be_torn(number) && self.doubt_from.is_some_and(|first| applied >= first)
    }
}

/// Whether the damaged slot of a page may be what a checkpoint tore that is not over, by what its
/// first sector says. `kept` is what the other slot says: sequence of the image, and the last
/// record in it.
///
/// A device does not tear sectors. So the first one is of the image that the checkpoint wrote, or
/// of the one that it wrote over, which is older than the other slot's. An image of the checkpoint
/// has a record of the `open` half; one of a checkpoint before has none.
pub(crate) fn is_checkpoints(
    kept: (u64, u64),
    first: Option<(u64, u64)>,
    open: &Range<u64>,
) -> bool {
    first.is_some_and(|(sequence, applied)| {
        let is_written_over = sequence < kept.0 && applied < kept.1;
        is_written_over || (sequence > kept.0 && open.contains(&applied))
    })
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
            if rng.below(PART as u64) == 0 {
                for number in pending.closed_pages() {
                    images.insert(number, pages[&number].clone());
                    pending.forget_closed(number);
                }
                pending.turn();
            }
        }
        assert!(!pending.closed_pages().is_empty() && !pending.open.pages.is_empty());
        for (number, page) in &pages {
            let mut image = images.remove(number).unwrap_or_else(|| CrcPage::empty(*number));
            pending.apply_to(&mut image);
            for (place, block) in (0..3).flat_map(|place| (0..256).map(move |b| (place, b))) {
                assert_eq!(image.get(place, block), page.get(place, block));
            }
            pending.forget_closed(*number);
        }
        assert_eq!((pending.closed_pages().len(), pending.changes()[0]), (0, 0));
        pending.turn();
        pages.keys().for_each(|number| pending.forget_closed(*number));
        assert_eq!(pending.table_bytes(), PendingChanges::default().table_bytes());
    }

    #[test]
    fn what_a_checkpoint_may_have_torn_is_told_until_it_is_written() {
        let mut pending = PendingChanges::default();
        let item = Item::Unset { chunk: 0, block: 1, lsn: Lsn(1) };
        [3, 5].into_iter().for_each(|number| pending.push(number, 0, &item));
        pending.turn();
        [5, 7].into_iter().for_each(|number| pending.push(number, 0, &item));
        pending.is_recovered(Some(11));
        pending.push(6, 0, &item);
        pending.forget_closed(3);
        pending.push(3, 0, &item);
        // 7 was changed behind the checkpoint's records alone: it wrote no image of it.
        let told = [3, 5, 6, 7, 8].map(|number| pending.may_be_torn(number));
        assert_eq!(told, [false, true, false, false, false]);
        assert_eq!([10, 11].map(|applied| pending.is_in_doubt(5, applied)), [false, true]);
        assert!(!pending.is_in_doubt(7, 11));
    }

    #[test]
    fn what_rotted_is_not_taken_for_torn_while_a_checkpoint_is_not_over() {
        let mut pending = PendingChanges::default();
        pending.push(5, 0, &Item::Unset { chunk: 0, block: 1, lsn: Lsn(1) });
        pending.turn();
        pending.is_recovered(Some(11));
        // Image 4 has all up to record 6; the checkpoint wrote image 5, or part of it.
        let told = |first| pending.is_torn(5, (4, 6), first, 14);
        assert!(told(Some((5, 11))) && told(Some((5, 13))), "of that checkpoint");
        assert!(told(Some((3, 2))) && told(Some((0, 0))), "of what it wrote over");
        assert!(!told(Some((5, 9))), "of the checkpoint before: it was the newer one");
        assert!(!told(Some((5, 14))) && !told(Some((3, 6))), "of none at all");
        assert!(!told(None), "nobody can tell");
        assert!(!pending.is_torn(6, (4, 6), Some((3, 2)), 14), "the checkpoint is not of it");
    }
}
