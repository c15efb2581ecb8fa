// SPDX-License-Identifier: Apache-2.0
//! The client-side range lock (rule 46): requests that overlap are never under way together.
//!
//! First come, first served: a request waits for every earlier one, granted or waiting, that
//! overlaps it, unless both only read. So a request that is resent keeps its place before those
//! that came later. Whoever waits is bounded by its caller's time-out.

use base::SectorRange;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// How a range is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Alongside other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// The ranges in use of one volume, in sectors of the volume. Cheap to clone.
#[derive(Clone, Default)]
pub struct RangeLock(Rc<RefCell<Table>>);

#[derive(Default)]
struct Table {
    /// In order of arrival; short (as many as requests under way), so it is scanned.
    entries: Vec<Entry>,
    ticket: u64,
    waiting: usize,
}

struct Entry {
    ticket: u64,
    range: SectorRange,
    mode: Mode,
    is_granted: bool,
    waker: Option<Waker>,
}

impl Entry {
    fn conflicts(&self, range: SectorRange, mode: Mode) -> bool {
        (self.mode == Mode::Exclusive || mode == Mode::Exclusive) && self.range.overlaps(range)
    }
}

/// A place in the order, and once [`Locked::granted`] resolved, the range itself. Left on drop.
pub struct Locked {
    lock: RangeLock,
    ticket: u64,
}

impl RangeLock {
    /// Takes a place for `range`; the order is fixed at this call.
    #[must_use]
    pub fn lock(&self, range: SectorRange, mode: Mode) -> Locked {
        let mut table = self.0.borrow_mut();
        let is_granted = !table.entries.iter().any(|entry| entry.conflicts(range, mode));
        table.ticket += 1;
        let ticket = table.ticket;
        table.waiting += usize::from(!is_granted);
        table.entries.push(Entry { ticket, range, mode, is_granted, waker: None });
        Locked { lock: self.clone(), ticket }
    }

    /// Ranges held and waited for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.borrow().entries.len()
    }

    /// Whether no range is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Locked {
    /// Waits until the range is held.
    pub async fn granted(&self) {
        poll_fn(|cx| {
            let mut table = self.lock.0.borrow_mut();
            let entry = table.entries.iter_mut().find(|entry| entry.ticket == self.ticket);
            let Some(entry) = entry else { unreachable!("a place stays until it is dropped") };
            if entry.is_granted {
                return Poll::Ready(());
            }
            entry.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut table = self.lock.0.borrow_mut();
        let Some(at) = table.entries.iter().position(|entry| entry.ticket == self.ticket) else {
            return;
        };
        let gone = table.entries.remove(at);
        if !gone.is_granted {
            table.waiting -= 1;
        }
        let mut woken = Vec::new();
        if table.waiting > 0 {
            table.grant(at, gone.range, &mut woken);
        }
        drop(table);
        for waker in woken {
            waker.wake();
        }
    }
}

impl Table {
    /// Grants what waited only for a range that is gone; `at` is where the gone one stood.
    fn grant(&mut self, at: usize, gone: SectorRange, woken: &mut Vec<Waker>) {
        for index in at..self.entries.len() {
            let (earlier, rest) = self.entries.split_at_mut(index);
            let Some(entry) = rest.first_mut() else { return };
            if entry.is_granted || !entry.range.overlaps(gone) {
                continue;
            }
            if earlier.iter().any(|other| other.conflicts(entry.range, entry.mode)) {
                continue;
            }
            entry.is_granted = true;
            self.waiting -= 1;
            woken.extend(entry.waker.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_granted(locked: &Locked) -> bool {
        let table = locked.lock.0.borrow();
        table.entries.iter().any(|entry| entry.ticket == locked.ticket && entry.is_granted)
    }

    proptest! {
        /// Whatever comes and goes: exactly those hold their range whom no earlier one keeps out.
        #[test]
        fn grants_follow_the_order_of_arrival(
            steps in prop::collection::vec((0u64..20, 1u64..6, any::<bool>(), 0usize..3), 1..60),
        ) {
            let lock = RangeLock::default();
            let mut held: Vec<(SectorRange, Mode, Locked)> = Vec::new();
            for (start, count, is_write, drops) in steps {
                let range = SectorRange::new(start, count);
                let mode = if is_write { Mode::Exclusive } else { Mode::Shared };
                held.push((range, mode, lock.lock(range, mode)));
                for _ in 0..drops {
                    if !held.is_empty() {
                        held.remove((start as usize * 7 + count as usize) % held.len());
                    }
                }
                for (index, (range, mode, locked)) in held.iter().enumerate() {
                    let kept_out = held[..index].iter().any(|(other, other_mode, _)| {
                        other.overlaps(*range)
                            && (*mode == Mode::Exclusive || *other_mode == Mode::Exclusive)
                    });
                    prop_assert_eq!(is_granted(locked), !kept_out);
                }
            }
            held.clear();
            prop_assert!(lock.is_empty());
            prop_assert_eq!(lock.0.borrow().waiting, 0);
        }
    }
}
