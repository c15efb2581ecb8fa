// SPDX-License-Identifier: Apache-2.0
//! Destage: the oldest closed segment goes to capacity and becomes free.
//!
//! The steps for one segment, in this order (store rules 6 to 12):
//! 1. Wait until every live entry in it is at or below K, or move the others to the log's head.
//! 2. Write the data to capacity, in place.
//! 3. Write a journal record and flush. The flush makes the data of step 2 durable too.
//! 4. Remove the index entries that still point into the segment.
//! 5. The segment is free.
//!
//! Why may step 2 overwrite data in place? Between steps 2 and 3 a block on capacity has new bytes
//! and an old checksum. Nobody reads it there in that state: until step 4 the log holds the whole
//! block, also after a crash. This holds for *whole* blocks only. So a block that the log holds in
//! parts is never destaged as it is. It is *folded*: the parts are merged with what is below, and
//! the whole block is appended to the log and destaged with the segment of that new entry.

mod apply;
mod batch;
mod direct;
mod elevator;
mod free;
mod known;
mod plan;
mod pressure;
mod segment;
mod wait;
mod whole;
mod write;

use crate::standing::WaitsFor;
use crate::state::GroupInner;
use crate::types::GroupError;
use base::Instant;
use elevator::{Window, sweep};
use env::join;
use segment::{read_ahead, read_back};
use std::rc::Rc;
use wait::wait;
use whole::destage_segment;

/// The buffer counts as drained below this fill, thousandths.
const DRAINED: i64 = 50;

/// The destage task of a group.
pub(crate) async fn destage(inner: Rc<GroupInner>) {
    let mut window = Window::default();
    loop {
        inner.reclaim_due().await;
        if !wait_for_work(&inner).await {
            return;
        }
        if let Err(error) = destage_oldest(&inner, &mut window).await {
            inner.stop("destage", error);
            return;
        }
    }
}

impl GroupInner {
    /// A task cannot go on: the group is fenced, and says which it was and why.
    pub(crate) fn stop(&self, task: &str, error: GroupError) {
        let _ = match error {
            GroupError::Device { device, source } => self.fence(&device, &source),
            // What the log holds cannot be found any more: stop before it is overwritten.
            GroupError::Corrupt { device, structure, source } => {
                self.fence(&device, &format!("{structure} is damaged: {source}"))
            }
            GroupError::Fenced | GroupError::Closed => return,
            // Without the task the group is over: who looks at it is told why.
            error => self.fence(&self.cache_path, &format!("{task} ended: {error}")),
        };
    }
}

enum Work {
    Go,
    Stop,
    Close(Option<(u64, env::Slice)>),
    FlushHeads,
    Wait(Option<Instant>),
}

fn next_work(inner: &GroupInner) -> Work {
    let mut state = inner.state.borrow_mut();
    if state.is_over() {
        return Work::Stop;
    }
    let now = inner.env.now();
    let idle = now.since(state.log.last_append);
    let has_content = state.log.tail < state.log.head || state.log.offset > 0;
    let is_now = state.destage.drains_all || state.wants_space();
    let is_over = state.log.fill(0) > DRAINED || is_now;
    let idle_after = inner.options.idle_after;
    let is_draining = has_content && (is_now || (is_over && idle >= idle_after));
    if state.is_held() {
        base::hit(base::Probe::DestageHeld);
    } else if state.log.tail < state.log.head {
        let fill = state.fill();
        if is_draining || state.pace.may_destage(fill) || state.waits_for_room(now) {
            return Work::Go;
        }
    } else if is_draining
        && (is_now || idle >= 2 * idle_after)
        && let Some(summary) = state.log.close_early(inner.env.pool())
    {
        return Work::Close(summary);
    } else if state.waits_for_room(now)
        && let Some(summary) = state.log.close_for_room(inner.env.pool())
    {
        base::hit(base::Probe::LogClosedForRoom);
        return Work::Close(summary);
    }
    let has_loose_heads = state.store.capacity.iter().any(|capacity| capacity.has_loose_head);
    if has_loose_heads && idle >= idle_after {
        return Work::FlushHeads;
    }
    let at = state.log.last_append + if idle < idle_after { idle_after } else { 2 * idle_after };
    let must_look = has_loose_heads || has_content && is_over;
    Work::Wait((must_look && at > now).then_some(at))
}

/// Waits until there is a closed segment to destage; false when the group is over.
async fn wait_for_work(inner: &Rc<GroupInner>) -> bool {
    loop {
        let kick = inner.destage_kick.wait();
        match next_work(inner) {
            Work::Go => return true,
            Work::Stop => return false,
            Work::Close(summary) => {
                if let Some((at, bytes)) = summary {
                    crate::commit::write_summary(inner, at, bytes);
                }
            }
            Work::FlushHeads => {
                if inner.flush_heads().await.is_err() {
                    return false;
                }
            }
            Work::Wait(until) => {
                let reclaim = inner.state.borrow().store.reclaims_next();
                if reclaim.is_some_and(|at| at <= inner.env.now()) {
                    inner.reclaim_due().await;
                } else {
                    wait(inner, kick, WaitsFor::Work, until.into_iter().chain(reclaim).min()).await;
                }
            }
        }
    }
}

/// Destages the oldest segment, which may be in memory already, and reads the next one meanwhile;
/// in a hybrid group a part of several.
async fn destage_oldest(inner: &Rc<GroupInner>, window: &mut Window) -> Result<(), GroupError> {
    if inner.is_hybrid {
        return sweep(inner, window).await;
    }
    let number = inner.state.borrow().log.tail;
    let segment = match window.segments.pop_front().filter(|segment| segment.number == number) {
        Some(segment) => segment,
        None => read_back(inner, number).await?,
    };
    let (done, next) = join(destage_segment(inner, segment), read_ahead(inner, number + 1)).await;
    window.segments.extend(next);
    done
}
