// SPDX-License-Identifier: Apache-2.0
//! All that a group knows, in one cell, and the shell's handles around it.

use crate::failure::{DevicePlace, GroupFailure};
use crate::latency::Watched;
use crate::log::Log;
use crate::memory::MemoryPlace;
use crate::mutations::Mutations;
use crate::pace::Pace;
use crate::readcache::ReadCache;
use crate::standing::DestageState;
use crate::store::CapacityStore;
use crate::types::{DeviceRequests, GroupError, GroupOptions, RecoveryReport, Structure};
use base::GroupId;
use env::{Disk, Env, Notify, Semaphore, TaskSet};
use format::{CapacityLayout, FormatError, Superblock};
use std::cell::RefCell;
use std::fmt::Display;
use std::rc::Rc;
use std::task::Waker;

/// What is counted.
#[derive(Default)]
pub(crate) struct GroupCounters {
    pub(crate) appends: u64,
    /// Appends, taken in, that are not whole aligned blocks.
    pub(crate) unaligned_writes: u64,
    /// Of data, taken in.
    pub(crate) appended_bytes: u64,
    /// Of that, in direct writes.
    pub(crate) direct_bytes: u64,
    /// Blocks of direct writes that destage mapped where they were.
    pub(crate) mapped_blocks: u64,
    pub(crate) destaged_blocks: u64,
    pub(crate) moved_entries: u64,
    pub(crate) bad_blocks: u64,
    /// Rotten places of the log that were got around.
    pub(crate) rotten: u64,
    /// Segments that were destaged together with others.
    pub(crate) gathered: u64,
    /// Begun, by what they are for.
    pub(crate) requests: DeviceRequests,
}

/// See the module. Never borrowed across an await.
pub(crate) struct GroupState {
    pub(crate) log: Log,
    pub(crate) store: CapacityStore,
    pub(crate) pace: Pace,
    pub(crate) destage: DestageState,
    /// In a hybrid group.
    pub(crate) read_cache: Option<Box<ReadCache>>,
    pub(crate) fenced: Option<GroupFailure>,
    pub(crate) is_closed: bool,
    pub(crate) counters: GroupCounters,
    /// Direct writes whose data is on its way to capacity.
    pub(crate) direct_under_way: u64,
    pub(crate) report: RecoveryReport,
    pub(crate) mutations: Mutations,
}

impl GroupState {
    /// Whether nothing is written any more.
    pub(crate) fn is_over(&self) -> bool {
        self.fenced.is_some() || self.is_closed
    }
}

/// A capacity device's handle.
pub(crate) struct CapacityDevice {
    pub(crate) path: String,
    pub(crate) id: u64,
    pub(crate) layout: CapacityLayout,
    /// Or why it is out of the group.
    pub(crate) opened: Result<Disk, GroupError>,
}

impl CapacityDevice {
    /// Its handle: only of a device that is in.
    pub(crate) fn disk(&self) -> &Disk {
        match &self.opened {
            Ok(disk) => disk,
            Err(_) => unreachable!("nothing is known of what is on a device that is out"),
        }
    }

    pub(crate) fn is_out(&self) -> bool {
        self.opened.is_err()
    }
}

/// What the tasks and the public handle share.
pub(crate) struct GroupInner {
    /// What it has of the host's memory. It is given back before the devices are free.
    pub(crate) memory: Rc<MemoryPlace>,
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
    /// For checkpoints, and for records that wait for one: a record is durable, a checkpoint is
    /// over, a record waits.
    pub(crate) checkpoint_kick: Notify,
    /// A commit is durable, chunks came back, or the group is fenced.
    pub(crate) progress: Notify,
    /// Only one device's destage at a time waits for the pace.
    pub(crate) pacing: Semaphore,
    /// One writer of table rows at a time.
    pub(crate) table: Semaphore,
    /// Room for blocks of direct writes on their way to capacity.
    pub(crate) direct_room: Semaphore,
    /// These.
    pub(crate) directs: TaskSet,
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
        let wakers = state.log.take_all_waiters();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        self.kick_all();
        GroupError::Fenced
    }

    /// Counts requests to devices.
    pub(crate) fn count(&self, add: impl FnOnce(&mut DeviceRequests)) {
        add(&mut self.state.borrow_mut().counters.requests);
    }

    /// The error for a segment of the log that is damaged.
    pub(crate) fn damaged_segment(&self, segment: u64, source: FormatError) -> GroupError {
        GroupError::corrupt(&self.cache_path, Structure::Segment(segment), source)
    }

    pub(crate) fn kick_all(&self) {
        self.log_kick.notify();
        self.destage_kick.notify();
        self.progress.notify();
        self.checkpoint_kick.notify();
        self.cache_kick.notify();
    }

    /// Waits until the state is so. It is looked at whenever there is progress.
    pub(crate) async fn until(&self, is_so: impl Fn(&GroupState) -> bool) {
        loop {
            let progress = self.progress.wait();
            if is_so(&self.state.borrow()) {
                return;
            }
            progress.await;
        }
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

/// One disk group. Cheap to clone; the last clone stops its tasks.
#[derive(Clone)]
pub struct DiskGroup(Rc<Handle>);

struct Handle {
    inner: Rc<GroupInner>,
    tasks: TaskSet,
    /// It is being closed, whoever waits for that.
    closing: TaskSet,
}

impl DiskGroup {
    /// A group that is open, and its tasks.
    pub(crate) fn of(inner: Rc<GroupInner>, tasks: TaskSet) -> Self {
        Self(Rc::new(Handle { inner, tasks, closing: TaskSet::default() }))
    }

    /// What the group shares with its tasks.
    pub(crate) fn shared(&self) -> &Rc<GroupInner> {
        &self.0.inner
    }

    /// Runs what closes the group, which keeps it until then.
    pub(crate) fn spawn_closing(&self, closing: impl Future<Output = ()> + 'static) {
        self.0.closing.spawn(&self.0.inner.env, "close a disk group", closing);
    }

    /// Ends its tasks.
    pub(crate) fn end_tasks(&self) {
        self.0.tasks.clear();
    }
}
