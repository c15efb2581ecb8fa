// SPDX-License-Identifier: Apache-2.0
//! All that a group knows, in one cell, and the shell's handles around it.

use crate::build::Build;
use crate::capacity::CapacityState;
use crate::chunks::Chunks;
use crate::components::Components;
use crate::delete::Deletion;
use crate::history::History;
use crate::index::Index;
use crate::latency::Watched;
use crate::log::Log;
use crate::mutations::Mutations;
use crate::out::{DevicePlace, GroupFailure};
use crate::pace::Pace;
use crate::readcache::ReadCache;
use crate::types::{GroupError, GroupOptions, RecoveryReport};
use base::{GroupId, Instant, Quirk};
use env::{Disk, Env, Notify, Semaphore, TaskSet, select};
use format::{CapacityLayout, Superblock};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Display;
use std::rc::Rc;

/// What is counted.
#[derive(Default)]
pub(crate) struct GroupCounters {
    pub(crate) commits: u64,
    pub(crate) appends: u64,
    /// Of data, taken in.
    pub(crate) appended_bytes: u64,
    pub(crate) destaged_blocks: u64,
    pub(crate) moved_entries: u64,
    pub(crate) bad_blocks: u64,
    /// Rotten places of the log that were got around.
    pub(crate) rotten: u64,
    /// Segments that were destaged together with others.
    pub(crate) gathered: u64,
    /// Journal records begun.
    pub(crate) records: u64,
}

/// See the module. Never borrowed across an await.
pub(crate) struct GroupState {
    pub(crate) index: Index,
    pub(crate) chunks: Chunks,
    pub(crate) components: Components,
    /// Components that are gone, of which chunks are still to come back.
    pub(crate) deletions: VecDeque<Deletion>,
    pub(crate) history: History,
    pub(crate) log: Log,
    pub(crate) capacity: Vec<CapacityState>,
    pub(crate) pace: Pace,
    /// In a hybrid group.
    pub(crate) read_cache: Option<Box<ReadCache>>,
    pub(crate) fenced: Option<GroupFailure>,
    pub(crate) is_closed: bool,
    pub(crate) is_recovering: bool,
    /// The log's task waits for destage.
    pub(crate) is_pressed: bool,
    /// Destage waits for tokens, K or time.
    pub(crate) is_destage_waiting: bool,
    /// Destage will look again by itself when appends have paused.
    pub(crate) is_timer_armed: bool,
    /// The oldest segment holds entries above K.
    pub(crate) is_waiting_for_commit: bool,
    /// The last segment that holds a discard or zeros.
    pub(crate) last_discard: Option<u64>,
    /// Drain everything now, however little it is.
    pub(crate) drain_all: bool,
    pub(crate) stalled_moves: Option<Build>,
    /// The commit in flight is one of moved entries.
    pub(crate) is_moving: bool,
    /// Segments in a row that were freed by moving; appends and K start it anew.
    pub(crate) moved_in_row: u64,
    pub(crate) last_append: Instant,
    /// Destage last got something done, or had nothing to do.
    pub(crate) destage_moved: Instant,
    pub(crate) counters: GroupCounters,
    pub(crate) serial_next: u32,
    /// One bit per device that was out when entries that it needs were dropped, and still is.
    pub(crate) given_up: u16,
    pub(crate) report: RecoveryReport,
    pub(crate) mutations: Mutations,
}

/// A capacity device's handle.
pub(crate) struct CapacityDevice {
    pub(crate) path: String,
    pub(crate) id: u64,
    pub(crate) layout: CapacityLayout,
    /// Or why it is out of the group.
    pub(crate) opened: Result<Disk, GroupError>,
}

/// What the tasks and the public handle share.
pub(crate) struct GroupInner {
    pub(crate) env: Env,
    pub(crate) id: GroupId,
    pub(crate) cache_path: String,
    pub(crate) cache: Disk,
    /// What the cache device's newer superblock says, and its slot.
    pub(crate) label: RefCell<(Superblock, usize)>,
    pub(crate) devices: Vec<CapacityDevice>,
    pub(crate) options: GroupOptions,
    pub(crate) state: RefCell<GroupState>,
    /// For the log's task: something to write, or room.
    pub(crate) log_kick: Notify,
    /// For destage: tokens, K, fill.
    pub(crate) destage_kick: Notify,
    /// For the task that gives chunks of deleted components back.
    pub(crate) delete_kick: Notify,
    /// A commit is durable, chunks came back, or the group is fenced.
    pub(crate) progress: Notify,
    /// Only one device's destage at a time waits for the pace. The flags that say whether and how
    /// destage waits, such as [`GroupState::is_destage_waiting`], are there once for the group.
    pub(crate) pacing: Semaphore,
    /// One writer of table rows at a time.
    pub(crate) table: Semaphore,
    /// Summaries on their way.
    pub(crate) summaries: TaskSet,
    /// Whether there is a read cache.
    pub(crate) is_hybrid: bool,
    /// Fills of the read cache, and reads ahead.
    pub(crate) fills: TaskSet,
    /// One batch of line headers, or one record that must not meet one, at a time.
    pub(crate) headers: Semaphore,
    /// A chunk was read ahead, all headers were read, lines are few, or the group is over.
    pub(crate) cache_kick: Notify,
    /// How each device answers, the cache device first.
    pub(crate) latency: RefCell<Vec<Watched>>,
}

impl GroupInner {
    /// A device failed: nothing is written any more, everything that waits fails (store rule 3).
    pub(crate) fn fence(&self, device: &str, error: &impl Display) -> GroupError {
        self.fence_as(device, error, false)
    }

    /// The same for a device that may have gone away without an error.
    pub(crate) fn fence_as(&self, path: &str, error: &impl Display, is_away: bool) -> GroupError {
        let mut state = self.state.borrow_mut();
        if state.fenced.is_none() {
            let at = self.devices.iter().position(|device| device.path == path);
            let device = at.map_or(DevicePlace::Cache, DevicePlace::Capacity);
            state.fenced = Some(GroupFailure { device, is_away, text: format!("{path}: {error}") });
        }
        let last = state.log.ticket_last;
        let done = state.log.ticket_done;
        let wakers = state.take_waiters(last);
        state.log.ticket_done = done;
        drop(state);
        for waker in wakers {
            waker.wake();
        }
        self.kick_all();
        GroupError::Fenced
    }

    pub(crate) fn kick_all(&self) {
        self.log_kick.notify();
        self.destage_kick.notify();
        self.progress.notify();
        self.cache_kick.notify();
    }

    /// Refuses where nothing may be written any more.
    pub(crate) fn check_open(&self) -> Result<(), GroupError> {
        let state = self.state.borrow();
        match (&state.fenced, state.is_closed) {
            (Some(_), _) => Err(GroupError::Fenced),
            (None, true) => Err(GroupError::Closed),
            (None, false) => Ok(()),
        }
    }
}

/// The log's task: one commit in flight, whatever arrives meanwhile goes into the next.
pub(crate) async fn write_log(inner: Rc<GroupInner>) {
    use crate::log::LogStep;
    use env::Durability;
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
                    state.is_pressed && state.is_destage_waiting
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
                    acknowledge(&inner, sealed.ticket);
                }
                if mutations.index_before_durable() {
                    inner.state.borrow_mut().index_commit(segment, offset, &sealed, true);
                }
                let bytes = sealed.bytes.clone();
                inner.env.linger(Quirk::LogLingers).await;
                let write = inner.cache.write(offset, bytes, Durability::Durable);
                let (written, second) =
                    crate::mutations::write_commit(&inner, offset, &sealed, write).await;
                if let Err(error) = written {
                    let _ = inner.fence(&inner.cache_path, &error);
                    return;
                }
                let must_kick = {
                    let mut state = inner.state.borrow_mut();
                    state.complete(segment, offset, &sealed, is_move);
                    let may = state.pace.may_destage(state.fill());
                    state.is_destage_waiting && (may || !state.is_timer_armed)
                };
                if !is_move {
                    acknowledge(&inner, sealed.ticket);
                }
                crate::mutations::complete_second(&inner, segment, second);
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
    let write = inner.cache.write(at, bytes, env::Durability::Cached);
    let of = Rc::clone(inner);
    inner.summaries.spawn(&inner.env, "summary", async move {
        if let Err(error) = write.await {
            let _ = of.fence(&of.cache_path, &error);
        }
    });
}

/// Wakes the appends up to a ticket, in order.
pub(crate) fn acknowledge(inner: &GroupInner, ticket: u64) {
    let wakers = inner.state.borrow_mut().take_waiters(ticket);
    for waker in wakers {
        waker.wake();
    }
}
