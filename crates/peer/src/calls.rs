// SPDX-License-Identifier: Apache-2.0
//! Requests under way, by number. They are kept in a slab, so that a call allocates nothing.

use crate::PeerError;
use crate::answers::{AnswerQueue, CallOutcome};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Calls under way on one link, at most; further ones fail as [`PeerError::Overloaded`]. An owner
/// has far fewer writes in flight; the bound keeps a runaway caller from eating the memory.
pub(crate) const CALLS_MAX: usize = 65_536;

/// The calls of one link.
#[derive(Default)]
pub(crate) struct Calls(RefCell<Slab>);

#[derive(Default)]
struct Slab {
    slots: Vec<CallSlot>,
    free: Vec<u32>,
}

struct CallSlot {
    generation: u32,
    toll: Toll,
    state: CallState,
}

/// What a call takes of its link until it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Toll {
    /// The lane.
    pub(crate) lane: usize,
    /// Bytes of its share; none while the request waits.
    pub(crate) window: u64,
}

enum CallState {
    Free,
    Waiting(Option<Waker>),
    /// The answer goes into a queue, under this number.
    Queued(Rc<AnswerQueue>, u64),
    /// Nobody waits for the answer any more; it still comes.
    Abandoned,
    Done(CallOutcome),
}

impl Slab {
    fn slot(&mut self, id: u64) -> Option<&mut CallSlot> {
        let index = usize::try_from(id & u64::from(u32::MAX)).ok()?;
        let slot = self.slots.get_mut(index)?;
        (u64::from(slot.generation) == id >> 32).then_some(slot)
    }

    fn release(&mut self, id: u64) {
        if let Some(slot) = self.slot(id) {
            slot.state = CallState::Free;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(u32::try_from(id & u64::from(u32::MAX)).unwrap_or(u32::MAX));
        }
    }
}

impl Calls {
    /// A new call. It takes nothing of the link so far. Its answer goes into `queue`, under the
    /// number there; without one a [`Call`] waits for it. `None` where there are too many.
    pub(crate) fn open(&self, queue: Option<(&Rc<AnswerQueue>, u64)>) -> Option<u64> {
        let mut slab = self.0.borrow_mut();
        let index = match slab.free.pop() {
            Some(index) => index,
            None if slab.slots.len() >= CALLS_MAX => return None,
            None => {
                slab.slots.push(CallSlot {
                    generation: 0,
                    toll: Toll::default(),
                    state: CallState::Free,
                });
                u32::try_from(slab.slots.len() - 1).ok()?
            }
        };
        let slot = &mut slab.slots[index as usize];
        slot.toll = Toll::default();
        slot.state = match queue {
            Some((queue, number)) => CallState::Queued(Rc::clone(queue), number),
            None => CallState::Waiting(None),
        };
        Some(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// The request of call `id` is sent. It takes `toll` from now on.
    pub(crate) fn depart(&self, id: u64, toll: Toll) {
        if let Some(slot) = self.0.borrow_mut().slot(id) {
            slot.toll = toll;
        }
    }

    /// The call is given up before its request is sent.
    pub(crate) fn cancel(&self, id: u64) {
        self.0.borrow_mut().release(id);
    }

    /// The answer to call `id` has come. Returns what the call took, or `None` where no such call
    /// is open.
    pub(crate) fn finish(&self, id: u64, answer: CallOutcome) -> Option<Toll> {
        let mut slab = self.0.borrow_mut();
        let slot = slab.slot(id)?;
        let toll = slot.toll;
        match &mut slot.state {
            CallState::Waiting(waker) => {
                let waker = waker.take();
                slot.state = CallState::Done(answer);
                drop(slab);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            CallState::Queued(queue, number) => {
                let (queue, number) = (Rc::clone(queue), *number);
                slab.release(id);
                drop(slab);
                queue.push(number, answer);
            }
            CallState::Abandoned => slab.release(id),
            CallState::Free | CallState::Done(_) => return None,
        }
        Some(toll)
    }

    /// Whether an answer is awaited, or not taken yet.
    pub(crate) fn is_any_open(&self) -> bool {
        let slab = self.0.borrow();
        slab.slots.len() > slab.free.len()
    }

    /// Every call that has no answer ends with `error`.
    pub(crate) fn fail_all(&self, error: PeerError) {
        let ids: Vec<u64> = {
            let slab = self.0.borrow();
            let numbered = slab.slots.iter().zip(0_u64..);
            let waiting = numbered.filter(|(s, _)| !matches!(s.state, CallState::Free));
            waiting.map(|(slot, index)| u64::from(slot.generation) << 32 | index).collect()
        };
        for id in ids {
            let _ = self.finish(id, Err(error));
        }
    }

    fn poll(&self, id: u64, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        let mut slab = self.0.borrow_mut();
        let Some(slot) = slab.slot(id) else { unreachable!("a call polled after its end") };
        if let CallState::Waiting(waker) = &mut slot.state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        let CallState::Done(answer) = std::mem::replace(&mut slot.state, CallState::Free) else {
            unreachable!("a call polled after its end")
        };
        slab.release(id);
        Poll::Ready(answer)
    }

    fn abandon(&self, id: u64) {
        let mut slab = self.0.borrow_mut();
        let Some(slot) = slab.slot(id) else { return };
        let answer = std::mem::replace(&mut slot.state, CallState::Abandoned);
        if matches!(answer, CallState::Done(_)) {
            slab.release(id);
        }
        // Dropping the answer may give a buffer back to its pool. That must not happen while the
        // slab is borrowed.
        drop(slab);
        drop(answer);
    }
}

/// The answer to one call. The request is sent, or waits for its share of the link, whether or not
/// this is polled. Dropping this only means that nobody waits for the answer.
#[must_use = "the answer says whether it was done"]
pub struct Call(Stage);

enum Stage {
    Known(Option<CallOutcome>),
    Under { calls: Rc<Calls>, id: u64 },
}

impl Call {
    pub(crate) fn known(answer: CallOutcome) -> Self {
        Self(Stage::Known(Some(answer)))
    }

    pub(crate) fn under(calls: Rc<Calls>, id: u64) -> Self {
        Self(Stage::Under { calls, id })
    }
}

impl Future for Call {
    type Output = CallOutcome;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallOutcome> {
        match &mut self.0 {
            Stage::Known(answer) => match answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => unreachable!("a call polled after its end"),
            },
            Stage::Under { calls, id } => {
                let poll = calls.poll(*id, cx);
                if poll.is_ready() {
                    self.0 = Stage::Known(None);
                }
                poll
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Stage::Under { calls, id } = &self.0 {
            calls.abandon(*id);
        }
    }
}
