// SPDX-License-Identifier: Apache-2.0
//! The range locks of an object (rules 1, 10, 34): shared for reads, exclusive for writes and
//! copies.
//!
//! One [`RangeLock`] for each chunk of 1 MiB in use, because no request crosses a chunk and
//! thousands of requests may be under way.

use base::{CHUNK_SECTORS, FixedMap, SectorRange};
use env::{LockMode, LockedRange, RangeLock};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

/// Empty locks that are kept for the next chunk, at most.
const SPARE_MAX: usize = 1024;

/// Locks on sector ranges of one object.
#[derive(Clone, Default)]
pub(crate) struct ChunkLocks(Rc<RefCell<LocksInUse>>);

#[derive(Default)]
struct LocksInUse {
    chunks: FixedMap<RangeLock>,
    /// Of chunks that nobody uses any more. Random requests seldom meet in one chunk: without these
    /// each would make a lock of its own.
    spare: Vec<RangeLock>,
}

impl LocksInUse {
    fn of(&mut self, chunk: u64) -> &RangeLock {
        let spare = &mut self.spare;
        self.chunks.entry(chunk).or_insert_with(|| spare.pop().unwrap_or_default())
    }

    /// Puts the lock of a chunk away if nobody uses it.
    fn put_away(&mut self, chunk: u64) {
        if !self.chunks.get(&chunk).is_some_and(RangeLock::is_empty) {
            return;
        }
        let lock = self.chunks.remove(&chunk);
        if self.spare.len() < SPARE_MAX {
            self.spare.extend(lock);
        }
    }
}

impl ChunkLocks {
    /// Takes a place in the queue *now*; the future resolves when the range is held. Dropping the
    /// future leaves the queue. `range` must lie within one chunk.
    pub(crate) fn lock(
        &self,
        range: SectorRange,
        mode: LockMode,
    ) -> impl Future<Output = ChunkGuard> + use<> {
        assert!(!range.is_empty(), "an empty range needs no lock");
        let chunk = range.start / CHUNK_SECTORS;
        assert!((range.end() - 1) / CHUNK_SECTORS == chunk, "a lock across a chunk boundary");
        let place = self.0.borrow_mut().of(chunk).lock(range, mode);
        let guard = ChunkGuard { locks: self.clone(), chunk, place: Some(place) };
        async move {
            if let Some(place) = &guard.place {
                place.granted().await;
            }
            guard
        }
    }

    /// Whether somebody waits for a part of `range`, which must lie within one chunk.
    pub(crate) fn is_wanted(&self, range: SectorRange) -> bool {
        let locks = self.0.borrow();
        locks.chunks.get(&(range.start / CHUNK_SECTORS)).is_some_and(|lock| lock.is_wanted(range))
    }

    /// Whether somebody waits for any range.
    pub(crate) fn is_any_wanted(&self) -> bool {
        self.0.borrow().chunks.values().any(RangeLock::is_any_wanted)
    }

    /// Holders and waiters.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().chunks.values().map(RangeLock::len).sum()
    }
}

/// A range that is held, or a place in the queue; given back on drop.
pub(crate) struct ChunkGuard {
    locks: ChunkLocks,
    chunk: u64,
    /// Taken on drop alone.
    place: Option<LockedRange>,
}

impl Drop for ChunkGuard {
    fn drop(&mut self) {
        drop(self.place.take());
        self.locks.0.borrow_mut().put_away(self.chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    type Waiting = (SectorRange, LockMode, Pin<Box<dyn Future<Output = ChunkGuard>>>);

    fn poll(waiting: &mut Waiting) -> Option<ChunkGuard> {
        match waiting.2.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => Some(guard),
            Poll::Pending => None,
        }
    }

    fn conflict(a: (SectorRange, LockMode), b: (SectorRange, LockMode)) -> bool {
        a.0.overlaps(b.0) && (a.1 == LockMode::Exclusive || b.1 == LockMode::Exclusive)
    }

    /// Rules 1 and 10.
    #[test]
    fn held_locks_never_conflict_and_none_overtakes() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let lock = ChunkLocks::default();
            let mut held: Vec<(SectorRange, LockMode, ChunkGuard)> = Vec::new();
            let mut waiting: Vec<Waiting> = Vec::new();
            for _ in 0..200 {
                match rng.below(4) {
                    0 | 1 => {
                        let start = rng.below(2) * CHUNK_SECTORS + rng.below(40);
                        let range = SectorRange::new(start, rng.between(1, 12));
                        let mode =
                            if rng.below(2) == 0 { LockMode::Shared } else { LockMode::Exclusive };
                        waiting.push((range, mode, Box::pin(lock.lock(range, mode))));
                    }
                    2 if !held.is_empty() => {
                        let at = usize::try_from(rng.below(held.len() as u64)).unwrap();
                        drop(held.swap_remove(at));
                    }
                    3 if !waiting.is_empty() && rng.below(4) == 0 => {
                        let at = usize::try_from(rng.below(waiting.len() as u64)).unwrap();
                        drop(waiting.remove(at));
                    }
                    _ => {}
                }
                let mut at = 0;
                while at < waiting.len() {
                    let (range, mode) = (waiting[at].0, waiting[at].1);
                    let free = !held.iter().any(|h| conflict((h.0, h.1), (range, mode)))
                        && !waiting[..at].iter().any(|w| conflict((w.0, w.1), (range, mode)));
                    match poll(&mut waiting[at]) {
                        Some(guard) => {
                            assert!(free, "seed {seed}: a lock was given too early");
                            held.push((range, mode, guard));
                            drop(waiting.remove(at));
                        }
                        None => {
                            assert!(!free, "seed {seed}: a free lock was not given");
                            at += 1;
                        }
                    }
                }
            }
            drop(held);
            drop(waiting);
            assert_eq!(lock.len(), 0, "seed {seed}: places left over");
        }
    }
}
