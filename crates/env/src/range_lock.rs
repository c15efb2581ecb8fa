// SPDX-License-Identifier: Apache-2.0
//! The range lock: requests whose ranges overlap never hold them together, unless both only read.
//!
//! First come, first served. A request waits for every earlier request that overlaps it, also for
//! one that still waits itself. So nobody starves, and a request that is sent again keeps its place
//! before those that came later. The lock has no time-out of its own: the caller bounds the wait.

use base::SectorRange;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// How a range is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// For a reader: others may hold the range in this mode too.
    Shared,
    /// For a writer: nobody else holds the range.
    Exclusive,
}

/// The ranges in use of one thing, such as a volume, in its sectors. Cheap to clone.
#[derive(Clone, Default)]
pub struct RangeLock(Rc<RefCell<Table>>);

#[derive(Default)]
struct Table {
    /// In order of arrival. Scanned from end to end: one entry for each request that holds its
    /// range or waits for it, so whoever has thousands of these keeps several locks.
    entries: Vec<Entry>,
    ticket: u64,
    waiting: usize,
    /// Whom a drop wakes; empty in between. Kept so that its memory is used again.
    woken: Vec<Waker>,
}

struct Entry {
    ticket: u64,
    range: SectorRange,
    mode: LockMode,
    is_granted: bool,
    waker: Option<Waker>,
}

impl Entry {
    fn conflicts(&self, range: SectorRange, mode: LockMode) -> bool {
        (self.mode == LockMode::Exclusive || mode == LockMode::Exclusive)
            && self.range.overlaps(range)
    }
}

/// A request's place in the order of arrival. Once [`LockedRange::granted`] has resolved, it
/// holds the range. Dropping this gives up the place or the range.
pub struct LockedRange {
    lock: RangeLock,
    ticket: u64,
}

impl RangeLock {
    /// Takes a place for `range`; the order is fixed at this call.
    #[must_use]
    pub fn lock(&self, range: SectorRange, mode: LockMode) -> LockedRange {
        let mut table = self.0.borrow_mut();
        let is_granted = !table.entries.iter().any(|entry| entry.conflicts(range, mode));
        table.ticket += 1;
        let ticket = table.ticket;
        table.waiting += usize::from(!is_granted);
        table.entries.push(Entry { ticket, range, mode, is_granted, waker: None });
        LockedRange { lock: self.clone(), ticket }
    }

    /// How many requests hold a range or wait for one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.borrow().entries.len()
    }

    /// Whether somebody waits for a part of `range`.
    #[must_use]
    pub fn is_wanted(&self, range: SectorRange) -> bool {
        let table = self.0.borrow();
        table.entries.iter().any(|entry| !entry.is_granted && entry.range.overlaps(range))
    }

    /// Whether somebody waits for any range.
    #[must_use]
    pub fn is_any_wanted(&self) -> bool {
        self.0.borrow().waiting > 0
    }

    /// Whether no range is held or waited for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl LockedRange {
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

impl Drop for LockedRange {
    fn drop(&mut self) {
        let mut table = self.lock.0.borrow_mut();
        let Some(at) = table.entries.iter().position(|entry| entry.ticket == self.ticket) else {
            return;
        };
        let gone = table.entries.remove(at);
        if !gone.is_granted {
            table.waiting -= 1;
        }
        if table.waiting == 0 {
            return;
        }
        let mut woken = std::mem::take(&mut table.woken);
        table.grant(at, gone.range, &mut woken);
        drop(table);
        woken.drain(..).for_each(Waker::wake);
        self.lock.0.borrow_mut().woken = woken;
    }
}

impl Table {
    /// Grants the requests that waited for nothing but the range `gone`, which was just given up;
    /// `at` is where its entry stood. Only later entries can have waited for it.
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

    fn is_granted(locked: &LockedRange) -> bool {
        let table = locked.lock.0.borrow();
        table.entries.iter().any(|entry| entry.ticket == locked.ticket && entry.is_granted)
    }

    proptest! {
        /// Requests come and go at random. A request must hold its range if and only if no earlier
        /// request conflicts with it.
        #[test]
        fn grants_follow_the_order_of_arrival(
            steps in prop::collection::vec((0u64..20, 1u64..6, any::<bool>(), 0usize..3), 1..60),
        ) {
            let lock = RangeLock::default();
            let mut held: Vec<(SectorRange, LockMode, LockedRange)> = Vec::new();
            for (start, count, is_write, drops) in steps {
                let range = SectorRange::new(start, count);
                let mode = if is_write { LockMode::Exclusive } else { LockMode::Shared };
                held.push((range, mode, lock.lock(range, mode)));
                for _ in 0..drops {
                    if !held.is_empty() {
                        held.remove((start as usize * 7 + count as usize) % held.len());
                    }
                }
                for (index, (range, mode, locked)) in held.iter().enumerate() {
                    let kept_out = held[..index].iter().any(|(other, other_mode, _)| {
                        other.overlaps(*range)
                            && (*mode == LockMode::Exclusive || *other_mode == LockMode::Exclusive)
                    });
                    prop_assert_eq!(is_granted(locked), !kept_out);
                    prop_assert!(!kept_out || lock.is_wanted(*range) && lock.is_any_wanted());
                }
            }
            held.clear();
            prop_assert!(lock.is_empty());
            prop_assert_eq!(lock.0.borrow().waiting, 0);
        }
    }
}
