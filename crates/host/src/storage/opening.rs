// SPDX-License-Identifier: Apache-2.0
//! Opening groups. A host that starts opens all of its groups at once. It waits [`START_MAX`] at
//! most, then serves without the groups that are not open yet; each joins when it is open.

use super::{BUSY_MAX, BUSY_RETRY, Storage};
use crate::config::HostConfig;
use diskgroup::{DiskGroup, GroupError, GroupOptions, GroupSpec, StoreMemory, Tolerance};
use env::{Env, IoError, Notify, Permit, Task};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Longest wait for all groups of a host that starts: twice what it waits for devices that somebody
/// has open.
const START_MAX: Duration = Duration::from_secs(10);

/// A group of the configuration, opened or not.
pub(crate) type GroupOpening = (GroupSpec, Opening);

/// How far opening a group has come.
pub(crate) enum Opening {
    /// It is over.
    Done(Result<DiskGroup, GroupError>),
    /// A device has not answered yet.
    UnderWay(Pending),
}

/// An opening under way; dropped, it ends.
pub(crate) struct Pending {
    result: Rc<RefCell<Option<Result<DiskGroup, GroupError>>>>,
    done: Notify,
    _task: Task,
}

impl Pending {
    fn begin(
        env: &Env,
        open: impl Future<Output = Result<DiskGroup, GroupError>> + 'static,
    ) -> Self {
        let (result, done) = (Rc::new(RefCell::new(None)), Notify::default());
        let (place, told) = (Rc::clone(&result), done.clone());
        let task = env.spawn("open a group", async move {
            let opened = open.await;
            *place.borrow_mut() = Some(opened);
            told.notify();
        });
        Self { result, done, _task: task }
    }

    async fn wait(&self) {
        loop {
            let done = self.done.wait();
            if self.result.borrow().is_some() {
                return;
            }
            done.await;
        }
    }

    async fn result(self) -> Result<DiskGroup, GroupError> {
        self.wait().await;
        match self.result.take() {
            Some(result) => result,
            None => unreachable!("it is there once it was waited for"),
        }
    }
}

/// A group that is being opened while its host serves others already, and its turn.
pub(crate) struct LateOpening {
    pub(super) spec: GroupSpec,
    pub(super) pending: Pending,
    pub(super) turn: Option<Permit>,
}

/// Opens all groups of a configuration, each on its own.
pub(crate) async fn open_all(
    env: &Env,
    config: &HostConfig,
    options: &GroupOptions,
    memory: &StoreMemory,
) -> Vec<GroupOpening> {
    let begin = |group: &operator::GroupConfig| {
        let spec = crate::config::group_spec(group);
        let (own, options, wanted) = (env.clone(), options.clone(), spec.clone());
        let memory = memory.clone();
        let pending = Pending::begin(env, async move {
            let tolerance = Tolerance::whatever_opens();
            open_group(&own, &wanted, &options, &memory, tolerance).await
        });
        (spec, pending)
    };
    let openings: Vec<_> = config.groups.iter().map(begin).collect();
    let all = async {
        for (_, pending) in &openings {
            pending.wait().await;
        }
    };
    // Those that are not open by then come later.
    let _ = env.timeout(START_MAX, all).await;
    let mut opened = Vec::new();
    for (spec, pending) in openings {
        let result = pending.result.borrow_mut().take();
        opened.push((spec, result.map_or(Opening::UnderWay(pending), Opening::Done)));
    }
    opened
}

/// Opens a group. A device may be in use for a moment: the kernel frees the devices of a killed
/// process only when their I/O has ended, and this host frees those of a group that it closed only
/// when the group's reads have ended. So a device in use is tried again for [`BUSY_MAX`]. Where
/// `tolerance` allows it, some capacity devices are left out.
pub(super) async fn open_group(
    env: &Env,
    spec: &GroupSpec,
    options: &GroupOptions,
    memory: &StoreMemory,
    mut tolerance: Tolerance,
) -> Result<DiskGroup, GroupError> {
    let begun = env.now();
    loop {
        tolerance.leaves_busy = env.now().since(begun) >= BUSY_MAX;
        match DiskGroup::open_within(env, spec, options.clone(), &tolerance, memory).await {
            Err(GroupError::Device { source: IoError::Busy, .. }) if !tolerance.leaves_busy => {
                env.sleep(BUSY_RETRY).await;
            }
            opened => return opened,
        }
    }
}

impl Storage {
    /// Puts a group into service that was not open when the host was ready.
    pub(super) async fn finish_late(self, late: LateOpening) {
        let LateOpening { spec, pending, turn } = late;
        let opened = pending.result().await;
        // Where it does not open, that is shown.
        drop(self.0.started(&spec, &spec, opened));
        drop(turn);
    }
}
