// SPDX-License-Identifier: Apache-2.0
//! Devices before they are a group: formatting and superblocks.

use super::guard::{guarded, guarded_by};
use crate::memory::{MemoryParts, StoreMemory};
use crate::types::{
    CreateSizes, GroupError, GroupKind, GroupOptions, GroupShape, GroupSpec, Structure,
    device_error,
};
use base::{GroupId, Incarnation};
use env::{Boxed, Disk, Durability, Env, IoError, OpenDisk, try_join_at_most};
use format::{
    CAPACITY_DEVICES_MAX, CacheLayout, CapacityLayout, DeviceKind, FormatError, MapPage, PAGE_SIZE,
    ReadCacheLayout, SUPERBLOCK_SLOTS, Superblock,
};
use std::time::Duration;

/// Bytes at a device's start that must be zero before it is taken.
const LABEL_AREA: usize = 1 << 20;
/// Bytes of one write of zeros, and how many are in flight.
const ZERO_STEP: u64 = 1 << 20;
const ZEROS_IN_FLIGHT: usize = 8;

/// What stands at the start of a device that is not empty.
fn recognise(label: &[u8]) -> Option<&'static str> {
    let has = |at: usize, what: &[u8]| label.get(at..at + what.len()) == Some(what);
    let known: [(usize, &[u8], &str); 9] = [
        (0, b"GBSB", "a gabion device"),
        (64 << 10, b"GBSB", "a gabion device"),
        (1080, &[0x53, 0xEF], "an ext2, ext3 or ext4 file system"),
        (0, b"XFSB", "an XFS file system"),
        (65_600, b"_BHRfS_M", "a btrfs file system"),
        (512, b"LABELONE", "an LVM physical volume"),
        (0, b"LUKS\xBA\xBE", "an encrypted volume (LUKS)"),
        (512, b"EFI PART", "a GPT partition table"),
        (510, &[0x55, 0xAA], "an MBR partition table or boot sector"),
    ];
    let found = known.iter().find(|(at, what, _)| has(*at, what)).map(|(_, _, name)| *name);
    found.or_else(|| label.iter().any(|byte| *byte != 0).then_some("unknown data"))
}

/// Longest wait for a device that is opened, and for each I/O of its superblocks: what the kernel
/// gives an I/O before it resets the device. One that does not answer by then counts as away.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Opens a device that is there.
pub(crate) async fn open_disk(env: &Env, path: &str) -> Result<Disk, GroupError> {
    let opening = env.open_disk(OpenDisk { path: path.to_owned(), create: None });
    let opened = env.timeout(ANSWER_MAX, opening).await.unwrap_or(Err(IoError::NoAnswer));
    opened.map_err(device_error(path))
}

/// A capacity device, as its superblock says.
pub(crate) struct OpenCapacity {
    pub(crate) path: String,
    pub(crate) disk: Disk,
    pub(crate) superblock: Superblock,
    /// Where its newest superblock is.
    pub(crate) slot: usize,
    pub(crate) layout: CapacityLayout,
}

/// Opens a capacity device of whatever group.
pub(super) async fn open_capacity(env: &Env, path: &str) -> Result<OpenCapacity, GroupError> {
    let disk = open_disk(env, path).await?;
    let read = read_superblock(env, path, &disk, "capacity");
    let (superblock, slot) = guarded_by(env, (path, &disk), ANSWER_MAX, read).await?;
    let DeviceKind::Capacity(layout) = superblock.kind else {
        return Err(GroupError::NotFormatted { device: path.to_owned(), wanted: "capacity" });
    };
    Ok(OpenCapacity { path: path.to_owned(), disk, superblock, slot, layout })
}

/// Opens a device to be formatted; refuses one that is not empty.
pub(super) async fn open_new(
    env: &Env,
    path: &str,
    create: Option<u64>,
    wipe: bool,
) -> Result<Disk, GroupError> {
    let disk = match create {
        // Making a large file may take long.
        Some(_) => {
            let opened = env.open_disk(OpenDisk { path: path.to_owned(), create }).await;
            opened.map_err(device_error(path))?
        }
        None => open_disk(env, path).await?,
    };
    if disk.info().is_new || wipe {
        return Ok(disk);
    }
    if disk.info().size < LABEL_AREA as u64 {
        return Err(GroupError::TooSmall { device: path.to_owned() });
    }
    let read = disk.read(0, env.buf(LABEL_AREA));
    let label = guarded(env, &[&disk], ANSWER_MAX, read).await.map_err(device_error(path))?;
    match recognise(&label) {
        Some(what) => Err(GroupError::ForeignData { device: path.to_owned(), what }),
        None => Ok(disk),
    }
}

/// See `DiskGroup::format`. Nothing is written before every device was opened and looked at; the
/// cache device's superblock, without which nothing opens, comes last.
pub(crate) fn format<'a>(
    env: &'a Env,
    spec: &'a GroupSpec,
    sizes: Option<CreateSizes>,
    wipe: bool,
    group: (GroupId, GroupShape),
    memory: Option<&'a StoreMemory>,
) -> Boxed<'a, Result<(), GroupError>> {
    Box::pin(format_all(env, spec, sizes, wipe, group, memory))
}

async fn format_all(
    env: &Env,
    spec: &GroupSpec,
    sizes: Option<CreateSizes>,
    wipe: bool,
    (id, shape): (GroupId, GroupShape),
    memory: Option<&StoreMemory>,
) -> Result<(), GroupError> {
    if spec.capacity.is_empty() || spec.capacity.len() > CAPACITY_DEVICES_MAX {
        return Err(GroupError::NotFormatted { device: spec.cache.clone(), wanted: "cache" });
    }
    let cache = open_new(env, &spec.cache, sizes.map(|s| s.cache), wipe).await?;
    let too_small = |path: &str| GroupError::TooSmall { device: path.to_owned() };
    let planned = plan_cache(cache.info().size, shape).ok_or_else(|| too_small(&spec.cache))?;
    let mut devices = Vec::new();
    for path in &spec.capacity {
        let disk = open_new(env, path, sizes.map(|s| s.capacity), wipe).await?;
        let layout = CapacityLayout::plan(disk.info().size).ok_or_else(|| too_small(path))?;
        devices.push((path, disk, layout));
    }
    if let Some(memory) = memory {
        let layouts: Vec<_> = devices.iter().map(|(_, _, layout)| *layout).collect();
        let (log, read_cache) = &planned;
        let options = GroupOptions::default();
        let needed = MemoryParts::needed(log, read_cache.as_ref(), &layouts, &options);
        memory.check(&spec.cache, needed.sum())?;
    }
    let mut capacity = [0; CAPACITY_DEVICES_MAX];
    for (place, (path, disk, layout)) in capacity.iter_mut().zip(&devices) {
        *place = env.random() | 1;
        format_capacity(env, path, disk, layout, *place, id).await?;
    }
    let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
    init_cache(env, &spec.cache, &cache, id, (capacity, count), shape).await
}

/// The layout of a cache device; none where it is too small.
pub(crate) fn plan_cache(
    size: u64,
    shape: GroupShape,
) -> Option<(CacheLayout, Option<ReadCacheLayout>)> {
    match shape.kind {
        GroupKind::AllFlash => Some((CacheLayout::plan(size, shape.segment_size)?, None)),
        GroupKind::Hybrid { read_cache_percent } => {
            let planned = ReadCacheLayout::plan(size, shape.segment_size, read_cache_percent)?;
            Some((planned.0, Some(planned.1)))
        }
    }
}

/// An empty log, and last the superblock that names the capacity devices.
pub(super) async fn init_cache(
    env: &Env,
    path: &str,
    cache: &Disk,
    group: GroupId,
    (capacity, count): ([u64; CAPACITY_DEVICES_MAX], u32),
    shape: GroupShape,
) -> Result<(), GroupError> {
    let size = cache.info().size;
    let (layout, read_cache) =
        plan_cache(size, shape).ok_or_else(|| GroupError::TooSmall { device: path.to_owned() })?;
    // On a file, the first durable write of an extent costs a journal commit of the file system
    // below, milliseconds instead of a fraction of one: all of the log is written once, now.
    // The read cache's lines are not written durably; headers of another group are none of this.
    let is_new_file = cache.info().is_new && cache.info().is_file;
    let written = read_cache.map_or(size, |read_cache| read_cache.data_start);
    let end = if is_new_file { written } else { LABEL_AREA as u64 };
    zero(env, path, cache, 0, end).await?;
    let superblock = Superblock {
        device: env.random() | 1,
        group,
        sequence: 1,
        incarnation: Incarnation(0),
        size,
        kind: DeviceKind::Cache {
            layout,
            read_cache,
            capacity,
            count,
            given_up: 0,
            has_direct: false,
        },
    };
    write_superblock(env, path, cache, 0, &superblock).await
}

pub(super) async fn format_capacity(
    env: &Env,
    path: &str,
    disk: &Disk,
    layout: &CapacityLayout,
    device: u64,
    group: GroupId,
) -> Result<(), GroupError> {
    // A leftover page with a broken checksum would look like damage: no old page may stay. In a new
    // file it is for speed, as above.
    zero(env, path, disk, 0, layout.chunk_start).await?;
    let writes = (0..layout.map_pages()).map(|number| {
        let mut page = env.buf(PAGE_SIZE);
        MapPage::empty(u32::try_from(number).unwrap_or(u32::MAX)).encode(device, &mut page);
        let offset = layout.map_start + number * 2 * PAGE_SIZE as u64;
        disk.write(offset, page.freeze(), Durability::Cached)
    });
    try_join_at_most(ZEROS_IN_FLIGHT, writes).await.map_err(device_error(path))?;
    disk.flush().await.map_err(device_error(path))?;
    let superblock = Superblock {
        device,
        group,
        sequence: 1,
        incarnation: Incarnation(0),
        size: disk.info().size,
        kind: DeviceKind::Capacity(*layout),
    };
    // It is hardly ever written again: two copies from the beginning.
    write_superblock(env, path, disk, 1, &superblock).await?;
    write_superblock(env, path, disk, 0, &superblock).await
}

/// Zeros from `start` to `end`, flushed.
async fn zero(env: &Env, path: &str, disk: &Disk, start: u64, end: u64) -> Result<(), GroupError> {
    let zeros = env.pool().zeroed(ZERO_STEP as usize).freeze();
    let writes = (start..end).step_by(ZERO_STEP as usize).map(|offset| {
        let length = ZERO_STEP.min(end - offset) as usize;
        disk.write(offset, zeros.slice(0..length), Durability::Cached)
    });
    try_join_at_most(ZEROS_IN_FLIGHT, writes).await.map_err(device_error(path))?;
    disk.flush().await.map_err(device_error(path))
}

/// Writes one slot durably.
pub(crate) async fn write_superblock(
    env: &Env,
    path: &str,
    disk: &Disk,
    slot: usize,
    superblock: &Superblock,
) -> Result<(), GroupError> {
    let mut page = env.buf(PAGE_SIZE);
    superblock.encode(&mut page);
    let write = disk.write(SUPERBLOCK_SLOTS[slot], page.freeze(), Durability::Durable);
    write.await.map_err(device_error(path))
}

/// Makes the page at `offset` durable before its other slot is written over: what was read there a
/// failed write may have left, to go with the power (store rule 3).
pub(crate) async fn settle_slot(
    env: &Env,
    path: &str,
    disk: &Disk,
    offset: u64,
) -> Result<(), GroupError> {
    let page = disk.read(offset, env.buf(PAGE_SIZE)).await.map_err(device_error(path))?;
    let write = disk.write(offset, page.freeze(), Durability::Durable);
    write.await.map_err(device_error(path))
}

/// Has both superblocks of a capacity device say that its journal is in halves from a record on, if
/// they do not. A build that knows no halves must find none that it would open the device by.
pub(crate) async fn mark_halved(
    env: &Env,
    path: &str,
    disk: &Disk,
    from: u64,
) -> Result<(), GroupError> {
    let (mut superblock, newest) = read_superblock(env, path, disk, "capacity").await?;
    if let DeviceKind::Capacity(layout) = &mut superblock.kind
        && layout.halves_from == 0
    {
        layout.halves_from = from;
    }
    // The older one first: one of them is whole at any time.
    settle_slot(env, path, disk, SUPERBLOCK_SLOTS[newest]).await?;
    for slot in [1 - newest, newest] {
        let read = disk.read(SUPERBLOCK_SLOTS[slot], env.buf(PAGE_SIZE));
        if Superblock::is_before_halves(&read.await.map_err(device_error(path))?) {
            superblock.sequence += 1;
            write_superblock(env, path, disk, slot, &superblock).await?;
        }
    }
    Ok(())
}

/// The newer valid superblock and its slot.
pub(crate) async fn read_superblock(
    env: &Env,
    path: &str,
    disk: &Disk,
    wanted: &'static str,
) -> Result<(Superblock, usize), GroupError> {
    if disk.info().size < LABEL_AREA as u64 {
        return Err(GroupError::TooSmall { device: path.to_owned() });
    }
    let mut best: Option<(Superblock, usize)> = None;
    let mut damage = FormatError::Magic;
    for (slot, offset) in SUPERBLOCK_SLOTS.into_iter().enumerate() {
        let page = disk.read(offset, env.buf(PAGE_SIZE)).await.map_err(device_error(path))?;
        match Superblock::decode(&page) {
            Ok(found) => {
                if best.as_ref().is_none_or(|(old, _)| found.sequence > old.sequence) {
                    best = Some((found, slot));
                }
            }
            Err(FormatError::Magic) => {}
            Err(error) => damage = error,
        }
    }
    match best {
        Some((found, _)) if found.size > disk.info().size => {
            Err(GroupError::TooSmall { device: path.to_owned() })
        }
        Some(found) => Ok(found),
        None if damage == FormatError::Magic => {
            Err(GroupError::NotFormatted { device: path.to_owned(), wanted })
        }
        None => Err(GroupError::corrupt(path, Structure::Superblock, damage)),
    }
}
