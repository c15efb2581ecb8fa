// SPDX-License-Identifier: Apache-2.0
//! The requests of this host to one object that are under way (rule 46): each has a slot and, in
//! every attempt, the same number.

use base::{CLIENT_SLOTS, HostId, Incarnation, RequestId};
use env::{Permit, Semaphore};
use std::cell::RefCell;
use std::rc::Rc;

const _: () = assert!(CLIENT_SLOTS == 128, "one bit per slot in a u128");

/// The slots of one object.
pub(crate) struct Requests {
    room: Semaphore,
    slots: RefCell<Slots>,
}

struct Slots {
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
    id: Option<RequestId>,
    slot: u8,
    of: Rc<Requests>,
    _room: Permit,
}

impl Requests {
    /// Counts begin behind `base`. It has to be no less than any count that this run gave for the
    /// object before. A number given twice would make a new write look like one that was carried
    /// out already.
    pub(crate) fn new(base: u64) -> Rc<Self> {
        let slots = Slots { free: u128::MAX, counts: Vec::new(), base };
        let room = Semaphore::new(CLIENT_SLOTS as u64);
        Rc::new(Self { room, slots: RefCell::new(slots) })
    }

    /// The highest count given.
    pub(crate) fn highest(&self) -> u64 {
        let slots = self.slots.borrow();
        slots.counts.iter().copied().max().unwrap_or(slots.base)
    }

    /// Waits for a slot; the lowest free one, so that tables at the replicas stay short.
    pub(crate) async fn begin(self: Rc<Self>, client: HostId, run: Incarnation) -> WriteRequest {
        let room = self.room.acquire(1).await;
        let (slot, count) = {
            let mut slots = self.slots.borrow_mut();
            let slot = slots.free.trailing_zeros();
            assert!(slot < u128::BITS, "as many permits as slots");
            slots.free &= !(1 << slot);
            let slot = slot as u8;
            if slots.counts.len() <= usize::from(slot) {
                let base = slots.base;
                slots.counts.resize(usize::from(slot) + 1, base);
            }
            let count = &mut slots.counts[usize::from(slot)];
            *count += 1;
            (slot, *count)
        };
        let id = RequestId::new(client, run, slot, count);
        WriteRequest { id, slot, of: self, _room: room }
    }
}

impl WriteRequest {
    pub(crate) fn id(&self) -> Option<RequestId> {
        self.id
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
        let mut begun = Box::pin(Rc::clone(requests).begin(HostId(2), Incarnation(3)));
        match begun.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(request) => Some(request),
            Poll::Pending => None,
        }
    }

    #[test]
    fn slots_are_given_lowest_first_and_each_counts_its_own() {
        let requests = Requests::new(0);
        let mut held: Vec<_> = (0..CLIENT_SLOTS).filter_map(|_| begin(&requests)).collect();
        assert_eq!(held.len(), CLIENT_SLOTS);
        for (slot, request) in held.iter().enumerate() {
            let id = RequestId::new(HostId(2), Incarnation(3), slot as u8, 1);
            assert_eq!(request.id(), id);
        }
        assert!(begin(&requests).is_none(), "all are taken");
        drop(held.remove(90));
        drop(held.remove(7));
        let next = begin(&requests).and_then(|request| request.id());
        assert_eq!(next, RequestId::new(HostId(2), Incarnation(3), 7, 2));
        let later = Requests::new(requests.highest());
        let first = begin(&later).and_then(|request| request.id());
        assert_eq!(first, RequestId::new(HostId(2), Incarnation(3), 0, 3));
    }
}
