// SPDX-License-Identifier: Apache-2.0
//! A new device in the place of one that was lost (docs/store.md, "A lost cache device").
//!
//! A lost cache device takes the write buffer along and nothing else: what is on capacity stays,
//! and each component says from then on that it is whole up to its W only, until it was made whole
//! again. A lost capacity device takes its own components along; the group forgets them.
//!
//! The group gets a new id, one more than before: an old cache device that comes back some day
//! belongs to no group, and power loss half-way leaves devices of two ids that follow each other,
//! which the next attempt recognises.

use crate::devices::readback::hold;
use crate::devices::superblock::{
    OpenCapacity, format_capacity, init_cache, open_capacity, open_disk, open_new, read_superblock,
    settle_slot, write_superblock,
};
use crate::memory::{MemoryParts, StoreMemory};
use crate::state::DiskGroup;
use crate::store::rows::newest_row;
use crate::types::{
    CreateSizes, GroupError, GroupKind, GroupOptions, GroupShape, GroupSpec, Structure,
    device_error,
};
use base::{ComponentId, GroupId, Seat};
use env::{Boxed, Disk, Durability, Env};
use format::{
    CAPACITY_DEVICES_MAX, CapacityLayout, ComponentRow, DeviceKind, PAGE_SIZE, SUPERBLOCK_SLOTS,
};

const PAGE: u64 = PAGE_SIZE as u64;

/// What a replacement did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Components that are still there.
    pub kept: u64,
}

impl OpenCapacity {
    fn rows(&self) -> Rows<'_> {
        let (disk, layout) = (&self.disk, &self.layout);
        Rows { path: &self.path, disk, device: self.superblock.device, layout }
    }
}

/// The id that a group gets. Devices of two ids: power failed while they got the second one.
fn next_id(kept: &[OpenCapacity]) -> Result<GroupId, GroupError> {
    let ids = || kept.iter().map(|device| device.superblock.group.0);
    let (least, most) = (ids().min().unwrap_or(0), ids().max().unwrap_or(0));
    match most - least {
        0 => Ok(GroupId(most.wrapping_add(1).max(1))),
        1 => Ok(GroupId(most)),
        _ => Err(GroupError::WrongGroup { device: kept[0].path.clone() }),
    }
}

/// Both slots, the older one first: one of them is whole at any time.
async fn rename(env: &Env, device: &OpenCapacity, group: GroupId) -> Result<(), GroupError> {
    let mut superblock = device.superblock;
    superblock.group = group;
    settle_slot(env, &device.path, &device.disk, SUPERBLOCK_SLOTS[device.slot]).await?;
    for slot in [1 - device.slot, device.slot] {
        superblock.sequence += 1;
        write_superblock(env, &device.path, &device.disk, slot, &superblock).await?;
    }
    Ok(())
}

/// The component table of a capacity device.
pub(crate) struct Rows<'a> {
    pub(crate) path: &'a str,
    pub(crate) disk: &'a Disk,
    /// Its id.
    pub(crate) device: u64,
    pub(crate) layout: &'a CapacityLayout,
}

/// Writes into both pages of every living component's row that its write buffer was lost: how many
/// they are.
pub(crate) async fn mark_partial(env: &Env, device: &Rows<'_>) -> Result<u64, GroupError> {
    let mut marked = 0;
    for place in 0..device.layout.rows {
        let at = device.layout.table_start + u64::from(place) * 2 * PAGE;
        let read = device.disk.read(at, env.buf(2 * PAGE_SIZE)).await;
        let pages = read.map_err(device_error(device.path))?;
        let found = newest_row(device.device, place, &pages)
            .map_err(|source| GroupError::corrupt(device.path, Structure::Row(place), source))?;
        let Some((mut row, newest)) = found.filter(|(row, _)| !row.is_deleted) else { continue };
        row.lost_at = Some(row.meta.seat);
        let slots = [at, at + PAGE];
        settle_slot(env, device.path, device.disk, slots[newest]).await?;
        for slot in [1 - newest, newest] {
            row.sequence += 1;
            let mut page = env.buf(PAGE_SIZE);
            row.encode(device.device, place, &mut page);
            let (offset, page) = (slots[slot], page.freeze());
            let write = device.disk.write(offset, page.clone(), Durability::Durable);
            write.await.map_err(device_error(device.path))?;
            hold(env, device.path, device.disk, offset, &page).await?;
        }
        marked += 1;
    }
    Ok(marked)
}

/// See [`DiskGroup::replace_cache`].
fn put_cache<'a>(
    env: &'a Env,
    spec: &'a GroupSpec,
    sizes: Option<CreateSizes>,
    wipe: bool,
    shape: GroupShape,
) -> Boxed<'a, Result<Replaced, GroupError>> {
    Box::pin(async move {
        if spec.capacity.is_empty() || spec.capacity.len() > CAPACITY_DEVICES_MAX {
            return Err(GroupError::NotFormatted { device: spec.cache.clone(), wanted: "cache" });
        }
        let mut kept = Vec::new();
        for path in &spec.capacity {
            kept.push(open_capacity(env, path).await?);
        }
        let group = next_id(&kept)?;
        let cache = open_new(env, &spec.cache, sizes.map(|sizes| sizes.cache), wipe).await?;
        let mut marked = 0;
        for device in &kept {
            marked += mark_partial(env, &device.rows()).await?;
        }
        let mut capacity = [0; CAPACITY_DEVICES_MAX];
        for (place, device) in capacity.iter_mut().zip(&kept) {
            *place = device.superblock.device;
            rename(env, device, group).await?;
        }
        let count = u32::try_from(kept.len()).unwrap_or(u32::MAX);
        init_cache(env, &spec.cache, &cache, group, (capacity, count), shape).await?;
        Ok(Replaced { kept: marked })
    })
}

/// Makes number `at` of the group's capacity devices an empty one, where the cache device names
/// `known` of them so far.
fn put_capacity<'a>(
    env: &'a Env,
    spec: &'a GroupSpec,
    place: (usize, usize),
    new: (Option<u64>, bool),
    memory: Option<(&'a StoreMemory, MemoryParts)>,
) -> Boxed<'a, Result<(), GroupError>> {
    Box::pin(put_new_capacity(env, spec, place, new, memory))
}

async fn put_new_capacity(
    env: &Env,
    spec: &GroupSpec,
    (at, known): (usize, usize),
    (size, wipe): (Option<u64>, bool),
    memory: Option<(&StoreMemory, MemoryParts)>,
) -> Result<(), GroupError> {
    let path = &spec.capacity[at];
    let cache = open_disk(env, &spec.cache).await?;
    let (mut superblock, slot) = read_superblock(env, &spec.cache, &cache, "cache").await?;
    let DeviceKind::Cache { layout, read_cache, mut capacity, count, given_up, has_direct } =
        superblock.kind
    else {
        return Err(GroupError::NotFormatted { device: spec.cache.clone(), wanted: "cache" });
    };
    if count as usize != known || at >= CAPACITY_DEVICES_MAX {
        return Err(GroupError::WrongGroup { device: spec.cache.clone() });
    }
    let disk = open_new(env, path, size, wipe).await?;
    let planned = CapacityLayout::plan(disk.info().size);
    let planned = planned.ok_or_else(|| GroupError::TooSmall { device: path.clone() })?;
    if let Some((memory, held)) = memory {
        let added = MemoryParts::needed_by_device(&planned, &GroupOptions::default());
        memory.check(path, held.plus(added).sum())?;
    }
    let device = env.random() | 1;
    format_capacity(env, path, &disk, &planned, device, superblock.group).await?;
    capacity[at] = device;
    let count = count + u32::from(at == known);
    // The new one lacks nothing: there is nothing on it.
    let given_up = given_up & !(1 << at);
    superblock.kind =
        DeviceKind::Cache { layout, read_cache, capacity, count, given_up, has_direct };
    settle_slot(env, &spec.cache, &cache, SUPERBLOCK_SLOTS[slot]).await?;
    for slot in [1 - slot, slot] {
        superblock.sequence += 1;
        write_superblock(env, &spec.cache, &cache, slot, &superblock).await?;
    }
    Ok(())
}

impl DiskGroup {
    /// Gives a group a new cache device in the place of a lost one. Its capacity devices keep their
    /// components; each is whole up to its W from then on and says so
    /// ([`crate::ComponentInfo::partial`]).
    /// Nothing is written before every device was looked at; the new device's superblock, without
    /// which nothing opens, comes last. What kind of group it was only the lost device knew:
    /// whoever replaces it says it again.
    ///
    /// # Errors
    /// As [`DiskGroup::format`], and [`GroupError::Corrupt`] where a component's row is damaged.
    pub async fn replace_cache(
        env: &Env,
        spec: &GroupSpec,
        sizes: Option<CreateSizes>,
        wipe: bool,
        kind: GroupKind,
    ) -> Result<Replaced, GroupError> {
        Self::replace_cache_with(env, spec, sizes, wipe, kind).await
    }

    /// As [`DiskGroup::replace_cache`], also with segments of another size.
    ///
    /// # Errors
    /// As there.
    #[doc(hidden)]
    pub async fn replace_cache_with(
        env: &Env,
        spec: &GroupSpec,
        sizes: Option<CreateSizes>,
        wipe: bool,
        shape: impl Into<GroupShape>,
    ) -> Result<Replaced, GroupError> {
        put_cache(env, spec, sizes, wipe, shape.into()).await
    }

    /// Gives a group a new, empty capacity device in the place of number `at`. The components that
    /// were on the old one are unknown from then on; all others stay as they are. The cache
    /// device's superblock, which names the new device, comes last.
    ///
    /// # Errors
    /// As [`DiskGroup::format`], and [`GroupError::WrongGroup`] where the cache device names
    /// another number of capacity devices.
    pub async fn replace_capacity(
        env: &Env,
        spec: &GroupSpec,
        at: usize,
        sizes: Option<CreateSizes>,
        wipe: bool,
    ) -> Result<(), GroupError> {
        let new = (sizes.map(|sizes| sizes.capacity), wipe);
        put_capacity(env, spec, (at, spec.capacity.len()), new, None).await
    }

    /// Adds an empty capacity device, the last of `spec`, to a group that is closed. The cache
    /// device's superblock, which names the new device, comes last.
    ///
    /// # Errors
    /// As [`DiskGroup::replace_capacity`]; [`GroupError::NoMemory`] where the group, which needed
    /// that much while it was open, would need more than is left with the new device.
    pub async fn add_capacity(
        env: &Env,
        spec: &GroupSpec,
        size: Option<u64>,
        wipe: bool,
        memory: (&StoreMemory, MemoryParts),
    ) -> Result<(), GroupError> {
        let Some(last) = spec.capacity.len().checked_sub(1) else {
            return Err(GroupError::WrongGroup { device: spec.cache.clone() });
        };
        put_capacity(env, spec, (last, last), (size, wipe), Some(memory)).await
    }

    /// Forgets that the component was damaged: everything in it is about to be written again. What
    /// is not stays unreadable, block by block.
    pub fn begin_anew(&self, id: ComponentId) {
        if let Some(component) = self.shared().state.borrow_mut().store.components.by_id_mut(id) {
            component.is_damaged = false;
        }
    }

    /// Whether the component is one of its object's active ones. While it is not, its W stays, and
    /// then catches up. Nothing is known of it when a group is opened.
    pub fn set_active(&self, id: ComponentId, is_active: bool) {
        let mut state = self.shared().state.borrow_mut();
        let Some(component) = state.store.components.by_id_mut(id) else { return };
        let was_active = std::mem::replace(&mut component.is_active, is_active);
        let serial = component.row.serial;
        if is_active && !was_active {
            state.raise_destaged(serial, 0);
        }
    }

    /// The component is active with `seat`: if that is a later one than the one at which its write
    /// buffer was lost, it was made whole since. Durable on return.
    ///
    /// # Errors
    /// [`GroupError::Fenced`].
    pub async fn is_whole_at(&self, id: ComponentId, seat: Seat) -> Result<(), GroupError> {
        let inner = self.shared();
        let _permit = inner.table.acquire(1).await;
        inner.check_open()?;
        let partial = {
            let state = inner.state.borrow();
            let component = state.store.components.by_id(id);
            let component = component.filter(|c| c.row.lost_at.is_some_and(|lost| seat > lost));
            component.map(|c| (c.device, c.place, ComponentRow { lost_at: None, ..c.row.clone() }))
        };
        let Some((device, place, row)) = partial else { return Ok(()) };
        inner.write_row_twice(device, place, &row).await?;
        if let Some(component) = inner.state.borrow_mut().store.components.by_id_mut(id) {
            component.row.lost_at = None;
        }
        Ok(())
    }
}
