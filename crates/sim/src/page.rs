// SPDX-License-Identifier: Apache-2.0
//! The content of one page of a device, packed where it repeats.
//!
//! Most of what a campaign's clients write repeats within each sector. Every other 64-bit word is
//! the same. The words between are the same but for their place in the sector, which stands in
//! their uppermost 16 bits (`oracle::fill`) or not at all (zeros). Such a sector takes 24 bytes.
//! The product's own buffers hold real bytes: packing happens behind the device's interface, and
//! what is read is what was written, whatever it was.

use std::rc::Rc;

pub(crate) const PAGE: usize = 4096;
pub(crate) const SECTOR: usize = 512;
pub(crate) const PAGE_SECTORS: usize = PAGE / SECTOR;
pub(crate) const ZEROS: [u8; PAGE] = [0; PAGE];

/// Where a word of a sector has its place.
const PLACE_BIT: u32 = 48;

/// A sector that repeats. The default is one of zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repeat {
    even: u64,
    odd: u64,
    /// All bits if the odd words tell their place, else none.
    placed: u64,
}

impl Repeat {
    /// How such a sector repeats; `None` if it does not.
    fn of(sector: &[u8]) -> Option<Self> {
        let (words, _) = sector.as_chunks::<8>();
        let word = |at: usize| Some(u64::from_le_bytes(*words.get(at)?));
        let (even, first) = (word(0)?, word(1)?);
        if word(2)? != even {
            return None; // soon, for content of all other kinds
        }
        let placed = match word(3)? ^ first {
            0 => 0,
            step if step == place(1) ^ place(3) => u64::MAX,
            _ => return None,
        };
        let repeat = Self { even, odd: first ^ (place(1) & placed), placed };
        // Compares all words, even when the first ones differ: so the compiler can compare many at
        // once.
        let (pairs, _) = words.as_chunks::<2>();
        let differs = |(at, [low, high]): (u64, &[[u8; 8]; 2])| {
            let wanted = repeat.pair(at);
            (u64::from_le_bytes(*low) ^ wanted.0) | (u64::from_le_bytes(*high) ^ wanted.1)
        };
        let difference = (0..).zip(pairs).map(differs).fold(0, |sum, word| sum | word);
        (difference == 0).then_some(repeat)
    }

    /// Words `2 * at` and `2 * at + 1`.
    fn pair(self, at: u64) -> (u64, u64) {
        (self.even, self.odd ^ (place(2 * at + 1) & self.placed))
    }

    /// Writes the sector's bytes.
    fn expand(self, into: &mut [u8]) {
        let (words, _) = into.as_chunks_mut::<8>();
        let (pairs, _) = words.as_chunks_mut::<2>();
        for (at, pair) in (0..).zip(pairs) {
            let (even, odd) = self.pair(at);
            *pair = [even.to_le_bytes(), odd.to_le_bytes()];
        }
    }
}

fn place(word: u64) -> u64 {
    word << PLACE_BIT
}

/// The content of a page, or of a part of one. A clone shares the memory.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    /// By sector of the page; those beside a part are zeros.
    Packed(Rc<[Repeat; PAGE_SECTORS]>),
    /// The bytes of the page, or of the part alone.
    Raw(Rc<[u8]>),
}

impl Page {
    pub(crate) fn zeros() -> Self {
        Self::Packed(Rc::default())
    }

    /// The content of a part of a page that begins with sector `first`: whole sectors.
    pub(crate) fn of(first: usize, bytes: &[u8]) -> Self {
        let mut sectors = [Repeat::default(); PAGE_SECTORS];
        for (sector, content) in sectors[first..].iter_mut().zip(bytes.chunks(SECTOR)) {
            match Repeat::of(content) {
                Some(repeat) => *sector = repeat,
                None => return Self::Raw(Rc::from(bytes)),
            }
        }
        Self::Packed(Rc::new(sectors))
    }

    /// Whether both share their memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Packed(one), Self::Packed(other)) => Rc::ptr_eq(one, other),
            (Self::Raw(one), Self::Raw(other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Copies what is at byte `from`. For whole pages.
    pub(crate) fn read(&self, from: usize, into: &mut [u8]) {
        let sectors = match self {
            Self::Raw(bytes) => return into.copy_from_slice(&bytes[from..from + into.len()]),
            Self::Packed(sectors) => sectors,
        };
        let (mut from, mut rest) = (from, into);
        while !rest.is_empty() {
            let (sector, skip) = (sectors[from / SECTOR], from % SECTOR);
            let (now, later) = rest.split_at_mut(rest.len().min(SECTOR - skip));
            if now.len() == SECTOR {
                sector.expand(now);
            } else {
                let mut whole = [0; SECTOR];
                sector.expand(&mut whole);
                now.copy_from_slice(&whole[skip..skip + now.len()]);
            }
            from += now.len();
            rest = later;
        }
    }

    /// The bytes of a whole page, to be changed. It is packed no more.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if let Self::Packed(_) = self {
            let mut bytes = ZEROS;
            self.read(0, &mut bytes);
            *self = Self::Raw(Rc::from(&bytes[..]));
        }
        match self {
            Self::Raw(bytes) => Rc::make_mut(bytes),
            Self::Packed(_) => unreachable!("it was unpacked"),
        }
    }

    /// Replaces a sector of a whole page by that of a part, which begins with sector `first`.
    pub(crate) fn copy_sector(&mut self, sector: usize, part: &Self, first: usize) {
        let place = sector * SECTOR..(sector + 1) * SECTOR;
        match (&mut *self, part) {
            (Self::Packed(mine), Self::Packed(part)) => Rc::make_mut(mine)[sector] = part[sector],
            (_, Self::Packed(part)) => part[sector].expand(&mut self.bytes_mut()[place]),
            (_, Self::Raw(part)) => {
                let from = (sector - first) * SECTOR;
                self.bytes_mut()[place].copy_from_slice(&part[from..from + SECTOR]);
            }
        }
    }

    /// Makes a sector of a whole page zeros.
    pub(crate) fn zero_sector(&mut self, sector: usize) {
        match self {
            Self::Packed(sectors) => Rc::make_mut(sectors)[sector] = Repeat::default(),
            Self::Raw(bytes) => {
                Rc::make_mut(bytes)[sector * SECTOR..(sector + 1) * SECTOR].fill(0);
            }
        }
    }

    /// Whether a whole page is zeros.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Packed(sectors) => sectors.iter().all(|sector| *sector == Repeat::default()),
            Self::Raw(bytes) => bytes[..] == ZEROS,
        }
    }
}
