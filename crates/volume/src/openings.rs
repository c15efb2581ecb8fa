// SPDX-License-Identifier: Apache-2.0
//! Which objects of a volume are in use here. An object is opened when it is touched: a volume of
//! 62 TiB has 249 of them, and most requests touch one.

use env::Semaphore;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

/// Most objects of one volume that are opened at once. There is a bound, because each opening may
/// read and copy what the object's components hold above K. It is high, so that a few objects whose
/// components are away do not keep the others waiting.
pub(crate) const OPENINGS_MAX: u64 = 64;

/// The objects of a volume, by number.
pub(crate) struct Openings {
    gates: RefCell<Vec<Rc<Gate>>>,
    room: Semaphore,
}

/// Lets one acquisition of an object run at a time. Callers that waited meanwhile do not acquire
/// the object once more.
struct Gate {
    turn: Semaphore,
    finished: Cell<u64>,
    is_touched: Cell<bool>,
}

impl Gate {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            turn: Semaphore::new(1),
            finished: Cell::new(0),
            is_touched: Cell::new(false),
        })
    }
}

impl Openings {
    pub(crate) fn new(objects: usize) -> Self {
        let openings = Self { gates: RefCell::default(), room: Semaphore::new(OPENINGS_MAX) };
        openings.grow(objects);
        openings
    }

    /// Has so many objects from now on, at least as many as before.
    pub(crate) fn grow(&self, objects: usize) {
        let mut gates = self.gates.borrow_mut();
        assert!(gates.len() <= objects, "a volume does not lose objects");
        gates.resize_with(objects, Gate::new);
    }

    fn gate(&self, object: usize) -> Rc<Gate> {
        Rc::clone(&self.gates.borrow()[object])
    }

    /// Notes that an object is used. Returns whether this is the first time.
    pub(crate) fn touch(&self, object: usize) -> bool {
        !self.gates.borrow()[object].is_touched.replace(true)
    }

    /// The numbers of the objects that were used.
    pub(crate) fn touched(&self) -> Vec<usize> {
        let gates = self.gates.borrow();
        let touched = gates.iter().enumerate().filter(|(_, gate)| gate.is_touched.get());
        touched.map(|(number, _)| number).collect()
    }

    /// How many acquisitions of an object have ended.
    pub(crate) fn finished(&self, object: usize) -> u64 {
        self.gates.borrow()[object].finished.get()
    }

    /// Runs `acquire` when no other acquisition of the object runs. `seen` is what
    /// [`Self::finished`] said before the caller's attempt. If an acquisition has ended since, this
    /// one does not run: the attempt can be repeated at once.
    pub(crate) async fn acquire<E>(
        &self,
        object: usize,
        seen: u64,
        acquire: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        let gate = self.gate(object);
        let _turn = gate.turn.acquire(1).await;
        if gate.finished.get() != seen {
            return Ok(());
        }
        let _room = self.room.acquire(1).await;
        let acquired = acquire.await;
        gate.finished.set(gate.finished.get() + 1);
        acquired
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::{Notify, join_all};
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn objects_are_opened_once_when_touched_and_so_many_at_a_time() {
        const OBJECTS: usize = 249;
        let openings = Openings::new(OBJECTS);
        assert!(openings.touched().is_empty(), "a volume that is only looked at");
        assert!(openings.touch(200) && !openings.touch(200));
        assert_eq!(openings.touched(), [200]);
        openings.grow(OBJECTS + 1);
        assert!(openings.touch(OBJECTS) && !openings.touch(200), "what is known stays known");

        let (running, most, opened) = (Cell::new(0), Cell::new(0), RefCell::new(vec![0; OBJECTS]));
        let go = Notify::default();
        let acquire = |object: usize| {
            let (running, most, opened, go) = (&running, &most, &opened, &go);
            async move {
                running.set(running.get() + 1);
                most.set(most.get().max(running.get()));
                go.wait().await;
                running.set(running.get() - 1);
                opened.borrow_mut()[object] += 1;
                Ok::<(), ()>(())
            }
        };
        // Two requests of each object.
        let all = (0..OBJECTS).chain(0..OBJECTS);
        let all = all.map(|object| openings.acquire(object, 0, acquire(object)));
        let mut all = pin!(join_all(all.collect()));
        let mut rounds = 0;
        while all.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            go.notify();
            rounds += 1;
            assert!(rounds < OBJECTS, "it never ends");
        }
        assert_eq!(most.get(), OPENINGS_MAX);
        assert!(opened.borrow().iter().all(|count| *count == 1));
        assert!((0..OBJECTS).all(|object| openings.finished(object) == 1));
    }
}
