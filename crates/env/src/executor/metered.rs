// SPDX-License-Identifier: Apache-2.0
//! Operations on devices, which are measured and may be given up.

use super::{Env, OpFuture, OpState};
use crate::driver::Op;
use crate::meter::{Meter, Metered};
use std::rc::Rc;

impl Env {
    /// As `submit`, of an operation that is measured until its completion.
    pub(crate) fn submit_metered(&self, op: Op, metered: Metered) -> OpFuture {
        let future = self.submit(op);
        let index = (future.token.0 & u64::from(u32::MAX)) as usize;
        if let Some(slot) = self.0.ops.borrow_mut().get_mut(index) {
            slot.metered = Some(metered);
        }
        future
    }

    /// Whoever waits for an operation of this meter's device has waited long enough. The operations
    /// stay with the driver until they complete.
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
