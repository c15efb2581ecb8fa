// SPDX-License-Identifier: Apache-2.0
//! Capacity devices that are out of their group: it was opened without them.
//!
//! What is on such a device is not known meanwhile, and what the log holds of it cannot go there.
//!
//! 1. **Nothing is dropped.** The oldest segment that holds an entry of a component which nobody
//!    knows stays, and all behind it. So a device that comes back finds everything.
//! 2. **Until somebody says that it may be** ([`DiskGroup::give_up_out`]): whoever knows that the
//!    other copies have all of it. Which devices that is about is durable in both slots of the
//!    cache device's superblock, read back, before the first entry goes.
//! 3. **A device that was given up comes back partial.** Before anything of it is used, both pages
//!    of each of its rows say so ([`crate::ComponentInfo::partial`]), read back; then the
//!    superblock, with the new incarnation, says that it is back. A crash in between leaves it
//!    given up, and the next opening marks its rows once more.
//! 4. **No component is made while a device is out.** Its serial might be one that stands on the
//!    device, and it might be there itself.
//!
//! The place of a device in the group is what it is, out or not. Its lines of the read cache are
//! none while it is out, for its chunk map is not known; on the media they stay what they are,
//! copies of chunks that nobody changes.

use crate::devices::guard::guarded_by;
use crate::devices::replace::{Rows, mark_partial};
use crate::devices::superblock::{ANSWER_MAX, OpenCapacity, open_capacity, write_superblock};
use crate::failure::GroupFailure;
use crate::state::DiskGroup;
use crate::state::{CapacityDevice, GroupInner};
use crate::types::GroupError;
use base::{ComponentId, GroupId, Map, Version};
use env::{Disk, Env, IoError};
use format::{CapacityLayout, DeviceKind, PAGE_SIZE, SUPERBLOCK_SLOTS};

/// Of a device that is not there.
const NO_LAYOUT: CapacityLayout = CapacityLayout {
    table_start: 0,
    rows: 0,
    journal_start: 0,
    journal_size: 0,
    halves_from: 0,
    map_start: 0,
    crc_start: 0,
    chunk_start: 0,
    chunks: 0,
};

/// A capacity device that is out of its group.
#[derive(Clone, Debug)]
pub struct OutDevice {
    /// Its number in the group, from 0.
    pub at: usize,
    /// Its path.
    pub path: String,
    /// Why it is out.
    pub cause: GroupError,
    /// Entries of the log that it needs may have been dropped.
    pub is_given_up: bool,
}

/// What opening a group does about capacity devices that do not open.
#[derive(Clone, Debug, Default)]
pub struct Tolerance {
    /// Devices that are left out whatever they are like, and why.
    pub left_out: Vec<(usize, GroupError)>,
    /// Others that do not open are left out too, if one does. Otherwise the group does not open.
    pub is_tolerant: bool,
    /// Also those that somebody has open.
    pub leaves_busy: bool,
    /// Components of which others have everything, with the version of the record that says so: a
    /// group that holds no other ones, and none that saw a newer record, begins its log anew where
    /// that is damaged, and they are partial ([`crate::ComponentInfo::partial`]).
    pub may_lose_log: Map<ComponentId, Version>,
}

impl Tolerance {
    /// The group is opened with what opens.
    #[must_use]
    pub fn whatever_opens() -> Self {
        Self { is_tolerant: true, ..Self::default() }
    }

    fn takes(&self, error: &GroupError) -> bool {
        let is_busy = matches!(error, GroupError::Device { source: IoError::Busy, .. });
        self.is_tolerant && (self.leaves_busy || !is_busy)
    }
}

/// Opens the capacity device of a group that has this id there.
async fn open_own(
    env: &Env,
    path: &str,
    (id, group): (u64, GroupId),
) -> Result<(Disk, CapacityLayout), GroupError> {
    let OpenCapacity { disk, superblock, layout, .. } = open_capacity(env, path).await?;
    if superblock.device != id || superblock.group != group {
        return Err(GroupError::WrongGroup { device: path.to_owned() });
    }
    Ok((disk, layout))
}

/// What the cache device says of a capacity device.
pub(crate) struct Named {
    pub(crate) id: u64,
    pub(crate) group: GroupId,
    pub(crate) is_given_up: bool,
}

/// Opens a capacity device, or leaves it out. One that was given up has marked rows then (step 3).
pub(crate) async fn open_or_leave(
    env: &Env,
    path: &str,
    named: Named,
    left_out: Option<GroupError>,
) -> CapacityDevice {
    let Named { id, group, is_given_up } = named;
    let mut layout = NO_LAYOUT;
    let open = async {
        if let Some(error) = left_out {
            return Err(error);
        }
        let (disk, found) = open_own(env, path, (id, group)).await?;
        layout = found;
        if is_given_up {
            base::hit(base::Probe::DeviceCameBack);
            let rows = Rows { path, disk: &disk, device: id, layout: &found };
            guarded_by(env, (path, &disk), ANSWER_MAX, mark_partial(env, &rows)).await?;
        }
        Ok(disk)
    };
    let opened = open.await;
    CapacityDevice { path: path.to_owned(), id, layout, opened }
}

impl GroupInner {
    /// A device stays out, if that is tolerated and another one is in.
    pub(crate) fn leave_out(
        &mut self,
        at: usize,
        error: GroupError,
        tolerance: &Tolerance,
    ) -> Result<(), GroupError> {
        let is_tolerated = tolerance.takes(&error);
        let device = &mut self.devices[at];
        (device.layout, device.opened) = (NO_LAYOUT, Err(error.clone()));
        let is_any_in = self.devices.iter().any(|device| !device.is_out());
        if is_tolerated && is_any_in { Ok(()) } else { Err(error) }
    }

    /// Checks those that did not open.
    pub(crate) fn check_outs(&self, tolerance: &Tolerance) -> Result<(), GroupError> {
        let is_any_in = self.devices.iter().any(|device| !device.is_out());
        for (at, device) in self.devices.iter().enumerate() {
            let Err(error) = &device.opened else { continue };
            let is_chosen = tolerance.left_out.iter().any(|(left, _)| *left == at);
            if !is_any_in || !is_chosen && !tolerance.takes(error) {
                return Err(error.clone());
            }
        }
        Ok(())
    }

    /// One bit per device that is out.
    pub(crate) fn outs(&self) -> u16 {
        let outs = self.devices.iter().enumerate().filter(|(_, device)| device.is_out());
        outs.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// Whether an entry of a component that nobody knows may be of a device that comes back whole.
    pub(crate) fn holds_unknown(&self) -> bool {
        self.outs() & !self.state.borrow().store.given_up != 0
    }

    /// Says durably that the devices that are out were given up (step 2). The caller has the
    /// table's permit.
    async fn write_given_up(&self, given_up: u16) -> Result<(), GroupError> {
        for _ in 0..2 {
            let (superblock, slot) = {
                let mut label = self.label.borrow_mut();
                let (superblock, newest) = &mut *label;
                superblock.sequence += 1;
                if let DeviceKind::Cache { given_up: bits, .. } = &mut superblock.kind {
                    *bits = given_up;
                }
                *newest = 1 - *newest;
                (*superblock, *newest)
            };
            let (path, cache) = (&self.cache_path, &self.cache);
            let written = write_superblock(&self.env, path, cache, slot, &superblock).await;
            if let Err(GroupError::Device { source, .. }) = &written {
                return Err(self.fence(path, source));
            }
            written?;
            let mut page = self.env.buf(PAGE_SIZE);
            superblock.encode(&mut page);
            let written = [(SUPERBLOCK_SLOTS[slot], page.freeze())];
            self.read_back_of(path, cache, &written).await?;
        }
        Ok(())
    }
}

impl DiskGroup {
    /// Capacity devices that the group was opened without.
    #[must_use]
    pub fn out_devices(&self) -> Vec<OutDevice> {
        let given_up = self.shared().state.borrow().store.given_up;
        let devices = self.shared().devices.iter().enumerate();
        let outs = devices.filter_map(|(at, device)| {
            let cause = device.opened.as_ref().err()?.clone();
            let is_given_up = given_up >> at & 1 == 1;
            Some(OutDevice { at, path: device.path.clone(), cause, is_given_up })
        });
        outs.collect()
    }

    /// Whether a component that nobody knows may be on a device of this group that is out.
    #[must_use]
    pub fn is_any_out(&self) -> bool {
        self.shared().outs() != 0
    }

    /// Why the group takes no more writes, if it does not.
    #[must_use]
    pub fn failure(&self) -> Option<GroupFailure> {
        self.shared().state.borrow().fenced.clone()
    }

    /// Whether destage stands still, for what the log holds next may be needed by a device that is
    /// out.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.shared().state.borrow().is_held()
    }

    /// Whether something in the log may be needed by a device that is out.
    #[must_use]
    pub fn holds_for_out(&self) -> bool {
        self.shared().state.borrow().log.segments().any(|info| info.is_held)
    }

    /// The devices that are out may lose what the log holds for them: all of it is elsewhere. Their
    /// components are partial when they come back. Durable on return.
    ///
    /// # Errors
    /// [`GroupError::Fenced`], [`GroupError::Closed`]: nothing was given up, as far as anybody may
    /// rely on it.
    pub async fn give_up_out(&self) -> Result<(), GroupError> {
        let inner = self.shared();
        let _permit = inner.table.acquire(1).await;
        inner.check_open()?;
        let given_up = inner.state.borrow().store.given_up | inner.outs();
        if given_up == inner.state.borrow().store.given_up {
            return Ok(());
        }
        base::hit(base::Probe::DeviceGivenUp);
        if !inner.options.mutations.give_up_unmarked() {
            inner.write_given_up(given_up).await?;
        }
        let mut state = inner.state.borrow_mut();
        state.store.given_up = given_up;
        state.log.segments_mut().for_each(|info| info.is_held = false);
        drop(state);
        inner.destage_kick.notify();
        Ok(())
    }

    /// Whether a device that is out can be opened again and is the one that it was.
    pub async fn is_back(&self, at: usize) -> bool {
        let inner = self.shared();
        let Some(device) = inner.devices.get(at).filter(|device| device.is_out()) else {
            return false;
        };
        open_own(&inner.env, &device.path, (device.id, inner.id)).await.is_ok()
    }
}
