// SPDX-License-Identifier: Apache-2.0
//! Operations on devices. They are measured, and whoever waits for them may be told to give up.

use super::{Env, OpFuture, OpState};
use crate::driver::Op;
use crate::meter::{Meter, Metered};
use std::rc::Rc;

impl Env {
    /// As `submit`; the operation is measured until its completion.
    pub(crate) fn submit_metered(&self, op: Op, metered: Metered) -> OpFuture {
        let future = self.submit(op);
        let index = (future.token.0 & u64::from(u32::MAX)) as usize;
        if let Some(slot) = self.0.ops.borrow_mut().get_mut(index) {
            slot.metered = Some(metered);
        }
        future
    }

    /// Ends the wait for every operation of this meter's device: whoever waits is told that there
    /// is no answer. The operations stay with the driver until they complete.
    pub(crate) fn give_up(&self, meter: &Rc<Meter>) {
        let mut wakers = Vec::new();
        for slot in self.0.ops.borrow_mut().iter_mut() {
            let is_meant = slot.metered.as_ref().is_some_and(|of| Rc::ptr_eq(&of.meter, meter));
            if let OpState::Waiting(waker) = &mut slot.state
                && is_meant
            {
                wakers.extend(waker.take());
                slot.state = OpState::GivenUp;
            }
        }
        for waker in wakers {
            waker.wake();
        }
    }
}
