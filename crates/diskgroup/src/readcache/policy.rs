// SPDX-License-Identifier: Apache-2.0
//! Which piece comes into the read cache, and which goes for it: S3-FIFO, the main queue a clock.
//!
//! While slots are free, every piece that is read gets one. Later a piece that is not remembered
//! begins in the *small queue*, a tenth of the slots. If it is read again before it comes to the
//! end of that queue, it moves to the *main queue*. If not, it is evicted, and its mark is
//! remembered for a while. A piece that comes back while its mark is remembered begins in the main
//! queue. There the hand of a clock goes round: it takes one use from each slot that it passes, and
//! evicts the first slot that has none. So a scan passes through the small queue alone.
//!
//! When pieces in the small queue are seldom read again, most of them would be written to the
//! device for nothing. Then only one in [`SAMPLE`] of the pieces that are not remembered comes in,
//! to see whether this is still so. The others are only remembered, and come in when they are read
//! once more.
//!
//! Slots that components keep ([`super::owners`]) are passed by, and age as others do: what a
//! component keeps is what it used lately.
//!
//! No I/O, no clock, nothing random; 3 to 4 bytes of memory per slot.

use std::collections::VecDeque;

/// Part of the slots that the small queue has.
const SMALL_SHARE: u32 = 10;
/// Uses that a slot has at most.
const USES_MAX: u8 = 3;
/// The most slots that the hand passes for one piece; a sixteenth of all slots, if that is more.
/// If none of them is without uses, the least used one goes.
const PASSES_MAX: u32 = 4096;
/// Of so many pieces that nobody knows one comes in, where few are asked for again.
const SAMPLE: u32 = 16;
/// What "seldom" is: one of eight, of [`WORTH_ONE`].
const WORTH_LEAST: u32 = WORTH_ONE / 8;
const WORTH_ONE: u32 = 1 << 16;
/// The worth of the small queue goes by about so many of the pieces that left it last.
const WORTH_LAST: u32 = 64;
/// Marks of one set of what is remembered: the oldest of its set goes.
const SET: usize = 8;
/// How many of the pieces that were kept out last are known by their keys. If one of them is read
/// again so soon, it is most likely by the same reader, which goes on in small steps: the piece
/// begins in the small queue after all. As many as the fills that may be under way, times the
/// blocks of a piece.
const RECENT_MAX: usize = 256;

/// What [`Policy::marks`] say of a slot: its queue, and uses above.
const NONE: u8 = 0;
const SMALL: u8 = 1;
const MAIN: u8 = 2;
const QUEUE: u8 = 3;
const USE: u8 = 4;

/// Mixes the bits of a key; not secret, and the same everywhere.
pub(super) fn mix(key: u64) -> u64 {
    let a = (key ^ key >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let b = (a ^ a >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    b ^ b >> 32
}

/// A number below `count`, by the upper half of a mixed key.
pub(super) fn bucket(mixed: u64, count: usize) -> usize {
    (((mixed >> 32) * count as u64) >> 32) as usize
}

/// What is remembered of pieces that went, or did not come in: 16 bits of each, in sets of which
/// each is a queue. That it takes one for another now and then does no harm.
struct Ghosts(Vec<u16>);

impl Ghosts {
    fn new(count: u32) -> Self {
        Self(vec![0; (count as usize).next_multiple_of(SET)])
    }

    fn set(&mut self, key: u64) -> (&mut [u16], u16) {
        let mixed = mix(key);
        let at = bucket(mixed, self.0.len() / SET) * SET;
        (&mut self.0[at..at + SET], (mixed as u16).max(1))
    }

    fn add(&mut self, key: u64) {
        let (set, mark) = self.set(key);
        set.copy_within(..SET - 1, 1);
        set[0] = mark;
    }

    fn take(&mut self, key: u64) -> bool {
        let (set, mark) = self.set(key);
        let Some(at) = set.iter().position(|other| *other == mark) else { return false };
        set.copy_within(at + 1.., at);
        set[SET - 1] = 0;
        true
    }
}

/// Where a piece begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FirstQueue {
    /// In the small queue.
    Small,
    /// Among the others.
    Main,
}

/// Why a slot does not go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stays {
    /// Somebody reads or writes it: for a moment.
    Pinned,
    /// Its component keeps it.
    Kept,
}

/// See the module.
pub(crate) struct Policy {
    marks: Vec<u8>,
    queued: u32,
    /// Slots of the small queue, and some that left it since.
    small: VecDeque<u32>,
    small_most: usize,
    hand: u32,
    ghosts: Ghosts,
    /// How many of those that leave the small queue were asked for there, of [`WORTH_ONE`].
    worth: u32,
    unknown: u32,
    recent: VecDeque<u64>,
}

impl Policy {
    /// For so many slots, of which none is there yet: see [`Policy::grow`].
    pub(crate) fn new(slots: u32) -> Self {
        let small_most = (slots / SMALL_SHARE).max(1);
        Self {
            marks: Vec::with_capacity(slots as usize),
            queued: 0,
            small: VecDeque::with_capacity(small_most as usize + 1),
            small_most: small_most as usize,
            hand: 0,
            ghosts: Ghosts::new(slots),
            worth: WORTH_ONE,
            unknown: 0,
            recent: VecDeque::with_capacity(RECENT_MAX),
        }
    }

    /// One more slot is there, and holds nothing.
    pub(super) fn grow(&mut self) {
        self.marks.push(NONE);
    }

    /// Slots that hold something.
    pub(crate) fn len(&self) -> usize {
        self.queued as usize
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        let queues = self.small.capacity() * 4 + self.recent.capacity() * 8;
        self.marks.capacity() + queues + self.ghosts.0.capacity() * 2
    }

    /// Where a piece begins that was read of capacity while no slot is free; nowhere, if it is not
    /// worth another's slot. It is remembered then.
    pub(crate) fn place(&mut self, key: u64) -> Option<FirstQueue> {
        if self.ghosts.take(key) {
            let is_recent = self.recent.contains(&key);
            return Some(if is_recent { FirstQueue::Small } else { FirstQueue::Main });
        }
        self.unknown += 1;
        if self.worth >= WORTH_LEAST || self.unknown >= SAMPLE {
            self.unknown = 0;
            return Some(FirstQueue::Small);
        }
        self.ghosts.add(key);
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(key);
        None
    }

    /// A slot got a piece.
    pub(crate) fn insert(&mut self, slot: u32, place: FirstQueue) {
        assert!(self.marks[slot as usize] & QUEUE == NONE, "a slot is in one queue");
        self.queued += 1;
        self.marks[slot as usize] = match place {
            FirstQueue::Main => MAIN,
            FirstQueue::Small => SMALL,
        };
        if place == FirstQueue::Small {
            self.small.push_back(slot);
        }
    }

    /// What a slot holds was asked for again.
    pub(crate) fn touch(&mut self, slot: u32) {
        let mark = &mut self.marks[slot as usize];
        if *mark & QUEUE != NONE && *mark / USE < USES_MAX {
            *mark += USE;
        }
    }

    /// The slot holds nothing any more.
    pub(crate) fn remove(&mut self, slot: u32) {
        let mark = &mut self.marks[slot as usize];
        if *mark & QUEUE != NONE {
            *mark = NONE;
            self.queued -= 1;
        }
    }

    /// Takes out the slot that goes first; none where all that the hand comes by stay.
    pub(super) fn evict(
        &mut self,
        stays: impl Fn(u32) -> Option<Stays>,
        key_of: impl Fn(u32) -> u64,
    ) -> Option<u32> {
        let mut slot = None;
        if self.small.len() >= self.small_most {
            slot = self.evict_small(&stays, &key_of);
        }
        let slot = slot
            .or_else(|| self.evict_main(&stays))
            .or_else(|| self.evict_small(&stays, &key_of))?;
        self.remove(slot);
        Some(slot)
    }

    fn evict_small(
        &mut self,
        stays: &impl Fn(u32) -> Option<Stays>,
        key_of: &impl Fn(u32) -> u64,
    ) -> Option<u32> {
        for _ in 0..self.small.len() {
            let slot = self.small.pop_front()?;
            let mark = self.marks[slot as usize];
            if mark & QUEUE != SMALL {
                continue; // it went before
            }
            match stays(slot) {
                Some(Stays::Pinned) => {
                    self.small.push_back(slot);
                    continue;
                }
                // It stays for long: nobody is to come by it here again and again.
                Some(Stays::Kept) => {
                    self.move_on(slot, mark / USE);
                    continue;
                }
                None => {}
            }
            let is_used = mark >= USE;
            self.worth -= self.worth / WORTH_LAST;
            if is_used {
                self.worth += WORTH_ONE / WORTH_LAST;
                // The slot keeps one use: the hand may come by at once, and would evict it without.
                self.move_on(slot, 1);
                continue;
            }
            self.ghosts.add(key_of(slot));
            return Some(slot);
        }
        None
    }

    /// From the small queue to the main one, with so many uses.
    fn move_on(&mut self, slot: u32, uses: u8) {
        self.marks[slot as usize] = MAIN + uses * USE;
    }

    fn evict_main(&mut self, stays: &impl Fn(u32) -> Option<Stays>) -> Option<u32> {
        let count = u32::try_from(self.marks.len()).ok()?;
        let mut least: Option<(u8, u32)> = None;
        let passes = count.saturating_mul(u32::from(USES_MAX) + 1).min(PASSES_MAX.max(count / 16));
        for _ in 0..passes {
            let slot = self.hand % count;
            self.hand = (slot + 1) % count;
            let mark = &mut self.marks[slot as usize];
            if *mark & QUEUE != MAIN {
                continue;
            }
            let uses = *mark / USE;
            if uses == 0 {
                match stays(slot) {
                    None => return Some(slot),
                    Some(_) => continue,
                }
            }
            if least.is_none_or(|(other, _)| uses < other) && stays(slot).is_none() {
                least = Some((uses, slot));
            }
            *mark -= USE;
        }
        least.map(|(_, slot)| slot)
    }
}
