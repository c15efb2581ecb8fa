// SPDX-License-Identifier: Apache-2.0
//! The requests of this host to one object that are under way (rule 46): each has a slot and, in
//! every attempt, the same number.
//!
//! A write gets its number when it is sent for the first time: by then the object's owner has said
//! which requests of this host it knows. The numbers of one that it knows are never given again,
//! also where the directory forgot a run of this host and gave its number to this one.

use base::{CLIENT_SLOTS, ClientTable, Incarnation, RequestId, ShardId, WriterEpoch};
use env::{Permit, Semaphore};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

const _: () = assert!(CLIENT_SLOTS == 128, "one bit per slot in a u128");

/// The slots of one object.
pub(crate) struct Requests {
    client: ShardId,
    room: Semaphore,
    slots: RefCell<Slots>,
}

struct Slots {
    /// Of this host, or a later one that an owner knows of.
    run: Incarnation,
    /// One bit per free slot.
    free: u128,
    /// Requests begun, per slot; counts go on for as long as this run of the host.
    counts: Vec<u64>,
    /// What a slot's count begins behind.
    base: u64,
}

/// A write from its first attempt until it was answered or given up.
pub struct WriteRequest {
    /// Without one the write may be carried out twice.
    id: OnceCell<Option<RequestId>>,
    slot: u8,
    /// In which this host took it (rule 54).
    epoch: WriterEpoch,
    of: Rc<Requests>,
    _room: Permit,
}

impl Slots {
    /// The highest count given.
    fn highest(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(self.base)
    }

    fn next(&mut self, slot: u8) -> u64 {
        if self.counts.len() <= usize::from(slot) {
            self.counts.resize(usize::from(slot) + 1, self.base);
        }
        let count = &mut self.counts[usize::from(slot)];
        *count += 1;
        *count
    }
}

impl Requests {
    /// The requests of this run of the host `client`. Counts begin behind `base`. It has to be no
    /// less than any count that this run gave for the object before. A number given twice would
    /// make a new write look like one that was carried out already.
    pub(crate) fn new(client: ShardId, run: Incarnation, base: u64) -> Rc<Self> {
        let slots = Slots { run, free: u128::MAX, counts: Vec::new(), base };
        let room = Semaphore::new(CLIENT_SLOTS as u64);
        Rc::new(Self { client, room, slots: RefCell::new(slots) })
    }

    /// The highest count given.
    pub(crate) fn highest(&self) -> u64 {
        self.slots.borrow().highest()
    }

    /// An owner knows no newer request of this host than `last`. Its number and those before it, of
    /// whatever slot, are not given from here on. Mostly this run gave it, and nothing changes.
    pub(crate) fn learn(&self, last: RequestId) {
        assert_eq!(last.client, self.client, "requests of another host");
        let mut slots = self.slots.borrow_mut();
        let (run, is_ours) = (slots.run, last.count <= slots.highest());
        if last.run < run || last.run == run && is_ours {
            return;
        }
        tracing::warn!(
            %run, known = %last.run,
            "an owner knows writes of a run of this host that the directory has forgotten; theirs \
             are told apart from those of now"
        );
        base::hit(base::Probe::RunKnownTwice);
        slots.run = last.run;
        slots.counts.clear();
        slots.base = last.count;
    }

    /// Takes a write in an epoch, and waits for a slot; the lowest free one, so that tables at the
    /// replicas stay short.
    pub(crate) async fn begin(self: Rc<Self>, epoch: WriterEpoch) -> WriteRequest {
        let room = self.room.acquire(1).await;
        let slot = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.free.trailing_zeros();
            assert!(slot < u128::BITS, "as many permits as slots");
            slots.free &= !(1 << slot);
            slot as u8
        };
        WriteRequest { id: OnceCell::new(), slot, epoch, of: self, _room: room }
    }
}

impl WriteRequest {
    /// Its number, the same from the first call on.
    pub(crate) fn id(&self) -> Option<RequestId> {
        *self.id.get_or_init(|| {
            let mut slots = self.of.slots.borrow_mut();
            let count = slots.next(self.slot);
            RequestId::new(self.of.client, slots.run, self.slot, count)
        })
    }

    /// In which this host took it.
    pub(crate) fn epoch(&self) -> WriterEpoch {
        self.epoch
    }

    /// Its number, given behind what the owner on this host knows.
    pub(crate) fn id_behind(&self, known: &ClientTable) -> Option<RequestId> {
        if self.id.get().is_none()
            && let Some(last) = known.last_of(self.of.client)
        {
            self.of.learn(last);
        }
        self.id()
    }
}

impl Drop for WriteRequest {
    fn drop(&mut self) {
        self.of.slots.borrow_mut().free |= 1 << self.slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    fn begin(requests: &Rc<Requests>) -> Option<WriteRequest> {
        let mut begun = Box::pin(Rc::clone(requests).begin(WriterEpoch::ANY));
        match begun.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(request) => Some(request),
            Poll::Pending => None,
        }
    }

    #[test]
    fn slots_are_given_lowest_first_and_each_counts_its_own() {
        let requests = Requests::new(ShardId(2), Incarnation(3), 0);
        let mut held: Vec<_> = (0..CLIENT_SLOTS).filter_map(|_| begin(&requests)).collect();
        assert_eq!(held.len(), CLIENT_SLOTS);
        for (slot, request) in held.iter().enumerate() {
            let id = RequestId::new(ShardId(2), Incarnation(3), slot as u8, 1);
            assert_eq!(request.id(), id);
        }
        assert!(begin(&requests).is_none(), "all are taken");
        drop(held.remove(90));
        drop(held.remove(7));
        let next = begin(&requests).and_then(|request| request.id());
        assert_eq!(next, RequestId::new(ShardId(2), Incarnation(3), 7, 2));
        let later = Requests::new(ShardId(2), Incarnation(3), requests.highest());
        let first = begin(&later).and_then(|request| request.id());
        assert_eq!(first, RequestId::new(ShardId(2), Incarnation(3), 0, 3));
    }
}
