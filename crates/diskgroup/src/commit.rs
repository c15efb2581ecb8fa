// SPDX-License-Identifier: Apache-2.0
//! An append's way into the log: the queue, one commit in flight, what a durable commit changes.

pub(crate) mod append;
pub(crate) mod detours;
pub(crate) mod direct;
mod durable;
pub(crate) mod step;

use crate::state::GroupInner;
use base::Quirk;
use env::{Durability, WriteStage, select};
use std::rc::Rc;
use std::task::Waker;
use step::LogStep;

/// The log's task: one commit in flight, whatever arrives meanwhile goes into the next.
pub(crate) async fn write_log(inner: Rc<GroupInner>) {
    loop {
        let kick = inner.log_kick.wait();
        let step = inner.state.borrow_mut().next_step(&inner.env);
        match step {
            LogStep::Again => inner.progress.notify(),
            LogStep::DeadEnd => {
                // Destage waits for these moves, and nobody else makes room: no log that was
                // written as it should be comes here.
                let _ = inner.fence(&inner.cache_path, &"the log has no room for what has to move");
                return;
            }
            LogStep::Idle => {
                let wants_destage = {
                    let state = inner.state.borrow();
                    state.log.is_pressed && state.destage.wait.is_some()
                };
                if wants_destage {
                    inner.destage_kick.notify();
                }
                kick.await;
            }
            LogStep::Wait(until) => {
                // Destage that gets on faster kicks as well.
                select(kick, inner.env.sleep_until(until)).await;
            }
            LogStep::Write { offset, segment, sealed, summary, is_move } => {
                if let Some((at, bytes)) = summary {
                    write_summary(&inner, at, bytes);
                }
                let mutations = inner.options.mutations;
                if mutations.ack_before_durable() && !is_move {
                    acknowledge(&inner, &sealed.tickets);
                }
                if mutations.index_before_durable() {
                    inner.state.borrow_mut().index_commit(segment, offset, &sealed, true);
                }
                let bytes = sealed.bytes.clone();
                inner.env.linger(Quirk::LogLingers).await;
                let since = inner.env.now();
                let write = inner.cache.write(offset, bytes, Durability::Durable);
                let (written, second) = detours::write_commit(&inner, offset, &sealed, write).await;
                if let Err(error) = written {
                    let _ = inner.fence(&inner.cache_path, &error);
                    return;
                }
                let must_kick = {
                    let mut state = inner.state.borrow_mut();
                    state.complete(segment, offset, &sealed, is_move);
                    let may = state.pace.may_destage(state.fill());
                    state.destage.wait.is_some_and(|wait| may || !wait.has_timer)
                };
                if !is_move {
                    inner.env.passed(WriteStage::Commit, since);
                    acknowledge(&inner, &sealed.tickets);
                }
                detours::complete_second(&inner, segment, second);
                inner.progress.notify();
                if must_kick {
                    inner.destage_kick.notify();
                }
            }
        }
    }
}

/// Writes a segment's summary beside the commits, which do not wait for it (store rule 5): it is
/// only a cache. A device that fails the write is fenced all the same (store rule 3).
pub(crate) fn write_summary(inner: &Rc<GroupInner>, at: u64, bytes: env::Slice) {
    if inner.env.quirk(Quirk::SummarySkipped) {
        return;
    }
    let write = inner.cache.write(at, bytes, Durability::Cached);
    let of = Rc::clone(inner);
    inner.summaries.spawn(&inner.env, "summary", async move {
        if let Err(error) = write.await {
            let _ = of.fence(&of.cache_path, &error);
        }
    });
}

/// Wakes these appends, in order.
pub(crate) fn acknowledge(inner: &GroupInner, tickets: &[u64]) {
    let wakers = inner.state.borrow_mut().log.take_waiters(tickets);
    wakers.into_iter().for_each(Waker::wake);
}
