// SPDX-License-Identifier: Apache-2.0
//! Whose pieces the slots of the read cache hold, and how many of them each component keeps.
//!
//! While a component has no more slots than it keeps, none of them goes for another's piece. One
//! goes for a piece of its own, so that what it keeps is what it read lately. Slots beyond that are
//! as everybody's. What nobody uses yet of what is kept others may use: it is taken back from them
//! piece by piece.
//!
//! No I/O; two bytes of memory per slot.

use crate::log::build::to_usize;
use base::Map;

/// Part of the slots that components may keep together, percent: the others are for what nothing is
/// kept for.
pub const CACHE_KEPT_MAX_PERCENT: u64 = 90;

/// A component with slots, or one that keeps some.
struct Owner {
    serial: u32,
    slots: OwnerSlots,
}

/// Slots of a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnerSlots {
    /// That it has.
    pub(crate) held: u64,
    /// That were asked for it.
    pub(crate) asked: u64,
    /// That it keeps.
    pub(crate) kept: u64,
}

impl Owner {
    fn is_gone(&self) -> bool {
        self.slots.held == 0 && self.slots.asked == 0
    }
}

/// See the module.
pub(super) struct Owners {
    /// One more than the place in `all` of each slot's owner; 0 is nobody.
    of_slot: Vec<u16>,
    all: Vec<Owner>,
    /// Where each is in `all`, by serial.
    places: Map<u32, u16>,
    /// Places in `all` that nobody has.
    unused: Vec<u16>,
}

impl Owners {
    /// For so many slots, of which none is there yet: see [`Owners::grow`].
    pub(super) fn new(slots: usize) -> Self {
        Self {
            of_slot: Vec::with_capacity(slots),
            all: Vec::new(),
            places: Map::new(),
            unused: Vec::new(),
        }
    }

    /// One more slot is there, nobody's.
    pub(super) fn grow(&mut self) {
        self.of_slot.push(0);
    }

    /// Bytes of memory that it takes, but for what it knows of components.
    pub(super) fn memory(&self) -> usize {
        self.of_slot.capacity() * 2
    }

    /// The slot is this component's from now on. It is nobody's where too many have some.
    pub(super) fn give(&mut self, slot: u32, serial: u32) {
        self.take(slot);
        if let Some(place) = self.place(serial) {
            self.all[usize::from(place)].slots.held += 1;
            self.of_slot[at(slot)] = place + 1;
        }
    }

    /// The slot is nobody's from now on.
    pub(super) fn take(&mut self, slot: u32) {
        let before = std::mem::take(&mut self.of_slot[at(slot)]);
        let Some(place) = before.checked_sub(1) else { return };
        let owner = &mut self.all[usize::from(place)];
        owner.slots.held -= 1;
        if owner.is_gone() {
            self.places.remove(&owner.serial);
            self.unused.push(place);
        }
    }

    fn place(&mut self, serial: u32) -> Option<u16> {
        if let Some(place) = self.places.get(&serial) {
            return Some(*place);
        }
        let owner = Owner { serial, slots: OwnerSlots::default() };
        let place = match self.unused.pop() {
            Some(place) => {
                self.all[usize::from(place)] = owner;
                place
            }
            None => {
                // One more than a place is still a number of 16 bits.
                let place = u16::try_from(self.all.len()).ok().filter(|place| *place < u16::MAX)?;
                self.all.push(owner);
                place
            }
        };
        self.places.insert(serial, place);
        Some(place)
    }

    fn owner(&self, serial: u32) -> Option<&Owner> {
        self.places.get(&serial).map(|place| &self.all[usize::from(*place)])
    }

    /// Whether a component has fewer slots than it keeps.
    pub(super) fn lacks(&self, serial: u32) -> bool {
        self.owner(serial).is_some_and(|owner| owner.slots.held < owner.slots.kept)
    }

    /// Whether a slot does not go for a piece of this component: another one keeps it.
    pub(super) fn is_kept_from(&self, slot: u32, serial: u32) -> bool {
        let place = self.of_slot[at(slot)].checked_sub(1);
        place.is_some_and(|place| {
            let owner = &self.all[usize::from(place)];
            owner.serial != serial && owner.slots.held <= owner.slots.kept
        })
    }

    /// From now on these components keep so many of `slots` slots, others none. Where all of them
    /// are more than [`CACHE_KEPT_MAX_PERCENT`], each keeps the same part of what it asked for.
    pub(super) fn keep(&mut self, wanted: &[(u32, u64)], slots: u64) {
        for owner in &mut self.all {
            (owner.slots.asked, owner.slots.kept) = (0, 0);
        }
        let most = slots * CACHE_KEPT_MAX_PERCENT / 100;
        let asked = wanted.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        for (serial, count) in wanted {
            let part = match asked <= most {
                true => *count,
                false => scaled(*count, most, asked),
            };
            let Some(place) = self.place(*serial) else { continue };
            let slots = &mut self.all[usize::from(place)].slots;
            (slots.asked, slots.kept) = (*count, part);
        }
        let (all, unused) = (&self.all, &mut self.unused);
        self.places.retain(|_, place| {
            let is_gone = all[usize::from(*place)].is_gone();
            unused.extend(is_gone.then_some(*place));
            !is_gone
        });
    }

    /// Slots of a component.
    pub(super) fn of(&self, serial: u32) -> OwnerSlots {
        self.owner(serial).map_or_else(OwnerSlots::default, |owner| owner.slots)
    }

    /// Slots that components asked to keep, and those that they keep.
    pub(super) fn sums(&self) -> (u64, u64) {
        let of = |(asked, kept): (u64, u64), owner: &Owner| {
            (asked.saturating_add(owner.slots.asked), kept + owner.slots.kept)
        };
        self.all.iter().fold((0, 0), of)
    }

    /// Whether what is counted is so, and whose slot each is.
    pub(super) fn is_consistent(&self, is_held: impl Fn(usize) -> bool) -> bool {
        let mut held = vec![0; self.all.len()];
        for (slot, owner) in self.of_slot.iter().enumerate() {
            if let Some(place) = owner.checked_sub(1) {
                held[usize::from(place)] += 1;
                if !is_held(slot) {
                    return false;
                }
            }
        }
        let is_counted = |(owner, held): (&Owner, &u64)| owner.slots.held == *held;
        let is_known = |(serial, place): (&u32, &u16)| {
            let owner = &self.all[usize::from(*place)];
            owner.serial == *serial && !owner.is_gone()
        };
        let places = self.places.len() + self.unused.len() == self.all.len();
        places && self.all.iter().zip(&held).all(is_counted) && self.places.iter().all(is_known)
    }
}

/// The place of a slot.
fn at(slot: u32) -> usize {
    to_usize(u64::from(slot))
}

/// `count * part / whole`, for a part that is less than the whole.
fn scaled(count: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(count) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
