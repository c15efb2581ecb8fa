// SPDX-License-Identifier: Apache-2.0
//! The giving side of a hand-over (rule 53).

use crate::owner::{ChangeError, Owner, Phase};
use crate::record;
use std::rc::Rc;
use std::time::Duration;

/// How long writes in flight may take to end before the hand-over is called off.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Stops taking I/O, lets what is in flight end, and makes `to` the owner. True when that is
/// learned; this owner is over then. False: it serves on, or is over for another reason.
pub(crate) async fn hand_over(owner: &Rc<Owner>, to: directory::Owner) -> bool {
    {
        let mut state = owner.state.borrow_mut();
        if state.phase != Phase::Serving {
            return false;
        }
        state.phase = Phase::HandingOver;
    }
    owner.changed.notify();
    let is_drained = owner.env().timeout(DRAIN_MAX, drain(owner)).await.is_ok();
    if is_drained {
        owner.send_commit();
        let changed = owner
            .change(|state| {
                let is_clean = state.phase == Phase::HandingOver && state.window.live() == 0;
                is_clean.then(|| record::hand_over(&state.record, to, state.commit()))
            })
            .await;
        match changed {
            Ok(()) => {
                owner.step_down("handed over");
                return true;
            }
            Err(ChangeError::Stopped) => return false,
            Err(ChangeError::Unavailable | ChangeError::Nothing) => {}
        }
    }
    let mut state = owner.state.borrow_mut();
    if state.phase == Phase::HandingOver {
        state.phase = Phase::Serving;
    }
    drop(state);
    owner.changed.notify();
    false
}

async fn drain(owner: &Rc<Owner>) {
    loop {
        let drained = owner.drained.wait();
        if owner.state.borrow().window.live() == 0 {
            return;
        }
        drained.await;
    }
}
