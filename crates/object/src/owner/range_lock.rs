// SPDX-License-Identifier: Apache-2.0
//! The range lock (rules 1, 10, 34): shared for reads, exclusive for writes and copies.
//!
//! Guarantees: two locks that overlap are held together only if both are shared; whoever came
//! first among overlapping ones gets it first, so nobody starves. Dropping the future that waits
//! leaves the queue. Kept by 1 MiB chunk, because no request crosses one.

use base::{CHUNK_SECTORS, SectorRange};
use hashbrown::HashMap;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Whether others may hold it too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// With other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// Locks on sector ranges of one object.
#[derive(Clone, Default)]
pub(crate) struct RangeLock(Rc<RefCell<Table>>);

#[derive(Default)]
struct Table {
    ticket: u64,
    chunks: HashMap<u64, Vec<Entry>, BuildHasherDefault<ChunkHasher>>,
}

/// Chunk numbers are spread well enough by one multiplication; the map is never iterated.
#[derive(Default)]
struct ChunkHasher(u64);

impl Hasher for ChunkHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
}

/// In order of arrival within its chunk; an entry waits while an earlier one conflicts.
struct Entry {
    ticket: u64,
    range: SectorRange,
    mode: Mode,
    held: bool,
    waker: Option<Waker>,
}

impl Entry {
    fn conflicts(&self, range: SectorRange, mode: Mode) -> bool {
        let exclusive = self.mode == Mode::Exclusive || mode == Mode::Exclusive;
        exclusive && self.range.overlaps(range)
    }
}

impl RangeLock {
    /// Takes a place in the queue *now*; the future resolves when the lock is held. `range` must
    /// lie within one chunk.
    pub(crate) fn lock(
        &self,
        range: SectorRange,
        mode: Mode,
    ) -> impl Future<Output = RangeGuard> + use<> {
        assert!(!range.is_empty(), "an empty range needs no lock");
        let chunk = range.start / CHUNK_SECTORS;
        assert!((range.end() - 1) / CHUNK_SECTORS == chunk, "a lock across a chunk boundary");
        let mut table = self.0.borrow_mut();
        table.ticket += 1;
        let ticket = table.ticket;
        let entries = table.chunks.entry(chunk).or_default();
        let held = !entries.iter().any(|earlier| earlier.conflicts(range, mode));
        entries.push(Entry { ticket, range, mode, held, waker: None });
        drop(table);
        let mut guard = Some(RangeGuard { lock: self.clone(), chunk, ticket });
        poll_fn(move |cx| {
            let Some(place) = &guard else { unreachable!("a lock polled after its end") };
            let mut table = place.lock.0.borrow_mut();
            let entries = table.chunks.get_mut(&chunk);
            let mine = entries.and_then(|list| list.iter_mut().find(|e| e.ticket == ticket));
            let Some(entry) = mine else { unreachable!("a waiting lock lost its place") };
            if !entry.held {
                entry.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            drop(table);
            guard.take().map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// Holders and waiters.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().chunks.values().map(Vec::len).sum()
    }
}

/// A lock held, or a place in the queue; given back on drop.
pub(crate) struct RangeGuard {
    lock: RangeLock,
    chunk: u64,
    ticket: u64,
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        let mut woken = Vec::new();
        {
            let mut table = self.lock.0.borrow_mut();
            let Some(entries) = table.chunks.get_mut(&self.chunk) else { return };
            entries.retain(|entry| entry.ticket != self.ticket);
            if entries.is_empty() {
                table.chunks.remove(&self.chunk);
                return;
            }
            for at in 0..entries.len() {
                let (earlier, rest) = entries.split_at_mut(at);
                let Some(entry) = rest.first_mut() else { break };
                if entry.held || earlier.iter().any(|e| e.conflicts(entry.range, entry.mode)) {
                    continue;
                }
                entry.held = true;
                woken.extend(entry.waker.take());
            }
        }
        for waker in woken {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;
    use std::pin::Pin;
    use std::task::Context;

    type Waiting = (SectorRange, Mode, Pin<Box<dyn Future<Output = RangeGuard>>>);

    fn poll(waiting: &mut Waiting) -> Option<RangeGuard> {
        match waiting.2.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => Some(guard),
            Poll::Pending => None,
        }
    }

    fn conflict(a: (SectorRange, Mode), b: (SectorRange, Mode)) -> bool {
        a.0.overlaps(b.0) && (a.1 == Mode::Exclusive || b.1 == Mode::Exclusive)
    }

    /// Rules 1 and 10.
    #[test]
    fn held_locks_never_conflict_and_none_overtakes() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let lock = RangeLock::default();
            let mut held: Vec<(SectorRange, Mode, RangeGuard)> = Vec::new();
            let mut waiting: Vec<Waiting> = Vec::new();
            for _ in 0..200 {
                match rng.below(4) {
                    0 | 1 => {
                        let start = rng.below(2) * CHUNK_SECTORS + rng.below(40);
                        let range = SectorRange::new(start, rng.between(1, 12));
                        let mode = if rng.below(2) == 0 { Mode::Shared } else { Mode::Exclusive };
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
