// SPDX-License-Identifier: Apache-2.0
//! Devices before they are a group: formatting, superblocks, and zeros ahead of the log's head.

use crate::state::Inner;
use crate::types::{CreateSizes, GroupError, GroupSpec, Structure};
use base::{GroupId, Incarnation};
use env::{Disk, Durability, Env, IoError, OpenDisk, join_all};
use format::{
    CAPACITY_DEVICES_MAX, CacheLayout, CapacityLayout, DeviceKind, FormatError, MapPage, PAGE_SIZE,
    SUPERBLOCK_SLOTS, Superblock,
};
use std::rc::Rc;

/// Bytes at a device's start that must be zero before it is taken.
const LABEL_AREA: usize = 1 << 20;
/// Bytes of one write of zeros, and how many are in flight.
const ZERO_STEP: u64 = 1 << 20;
const ZEROS_IN_FLIGHT: usize = 8;

pub(crate) fn device_error(path: &str) -> impl Fn(IoError) -> GroupError + '_ {
    move |source| GroupError::Device { device: path.to_owned(), source }
}

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

/// Opens a device to be formatted; refuses one that is not empty.
async fn open_new(
    env: &Env,
    path: &str,
    create: Option<u64>,
    wipe: bool,
) -> Result<Disk, GroupError> {
    let opened = env.open_disk(OpenDisk { path: path.to_owned(), create }).await;
    let disk = opened.map_err(device_error(path))?;
    if disk.info().is_new || wipe {
        return Ok(disk);
    }
    if disk.info().size < LABEL_AREA as u64 {
        return Err(GroupError::TooSmall { device: path.to_owned() });
    }
    let label = disk.read(0, env.buf(LABEL_AREA)).await.map_err(device_error(path))?;
    match recognise(&label) {
        Some(what) => Err(GroupError::ForeignData { device: path.to_owned(), what }),
        None => Ok(disk),
    }
}

/// See `DiskGroup::format`. Nothing is written before every device was opened and looked at; the
/// cache device's superblock, without which nothing opens, comes last.
pub(crate) async fn format(
    env: &Env,
    spec: &GroupSpec,
    sizes: Option<CreateSizes>,
    wipe: bool,
    id: GroupId,
    segment_size: u64,
) -> Result<(), GroupError> {
    if spec.capacity.is_empty() || spec.capacity.len() > CAPACITY_DEVICES_MAX {
        return Err(GroupError::NotFormatted { device: spec.cache.clone(), wanted: "cache" });
    }
    let cache = open_new(env, &spec.cache, sizes.map(|s| s.cache), wipe).await?;
    let too_small = |path: &str| GroupError::TooSmall { device: path.to_owned() };
    let layout =
        CacheLayout::plan(cache.info().size, segment_size).ok_or_else(|| too_small(&spec.cache))?;
    let mut devices = Vec::new();
    for path in &spec.capacity {
        let disk = open_new(env, path, sizes.map(|s| s.capacity), wipe).await?;
        let layout = CapacityLayout::plan(disk.info().size).ok_or_else(|| too_small(path))?;
        devices.push((path, disk, layout));
    }
    let mut capacity = [0; CAPACITY_DEVICES_MAX];
    zero(env, &spec.cache, &cache, 0, LABEL_AREA as u64).await?;
    for (place, (path, disk, layout)) in capacity.iter_mut().zip(&devices) {
        *place = env.random() | 1;
        format_capacity(env, path, disk, layout, *place, id).await?;
    }
    let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
    let superblock = Superblock {
        device: env.random() | 1,
        group: id,
        sequence: 1,
        incarnation: Incarnation(0),
        size: cache.info().size,
        kind: DeviceKind::Cache { layout, capacity, count },
    };
    write_superblock(env, &spec.cache, &cache, 0, &superblock).await
}

async fn format_capacity(
    env: &Env,
    path: &str,
    disk: &Disk,
    layout: &CapacityLayout,
    device: u64,
    group: GroupId,
) -> Result<(), GroupError> {
    // A leftover page with a broken checksum would look like damage: no old page may stay.
    let end = if disk.info().is_new { layout.table_start } else { layout.chunk_start };
    zero(env, path, disk, 0, end).await?;
    for first in (0..layout.map_pages()).step_by(ZEROS_IN_FLIGHT) {
        let last = (first + ZEROS_IN_FLIGHT as u64).min(layout.map_pages());
        let writes = (first..last).map(|number| {
            let mut page = env.buf(PAGE_SIZE);
            MapPage::empty(u32::try_from(number).unwrap_or(u32::MAX)).encode(device, &mut page);
            let offset = layout.map_start + number * 2 * PAGE_SIZE as u64;
            disk.write(offset, page.freeze(), Durability::Cached)
        });
        for result in join_all(writes.collect()).await {
            result.map_err(device_error(path))?;
        }
    }
    disk.flush().await.map_err(device_error(path))?;
    let superblock = Superblock {
        device,
        group,
        sequence: 1,
        incarnation: Incarnation(0),
        size: disk.info().size,
        kind: DeviceKind::Capacity(*layout),
    };
    write_superblock(env, path, disk, 0, &superblock).await
}

/// Zeros from `start` to `end`, flushed.
async fn zero(env: &Env, path: &str, disk: &Disk, start: u64, end: u64) -> Result<(), GroupError> {
    let zeros = env.pool().zeroed(ZERO_STEP as usize).freeze();
    let offsets: Vec<u64> = (start..end).step_by(ZERO_STEP as usize).collect();
    for some in offsets.chunks(ZEROS_IN_FLIGHT) {
        let writes = some.iter().map(|offset| {
            let length = ZERO_STEP.min(end - offset) as usize;
            disk.write(*offset, zeros.slice(0..length), Durability::Cached)
        });
        for result in join_all(writes.collect()).await {
            result.map_err(device_error(path))?;
        }
    }
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
        None => Err(GroupError::Corrupt {
            device: path.to_owned(),
            structure: Structure::Superblock,
            source: damage,
        }),
    }
}

/// On a file, the first write of an extent costs a journal commit of the file system below. During
/// the first lap zeros are written one segment ahead of the head. Only for speed: nothing needs
/// it, and after a restart it starts again. The segment is pinned meanwhile: the head waits.
pub(crate) async fn zero_ahead(inner: Rc<Inner>) {
    if !inner.cache.info().is_file {
        return;
    }
    let zeros = inner.env.pool().zeroed(ZERO_STEP as usize).freeze();
    let mut zeroed = inner.state.borrow().log.head;
    loop {
        let progress = inner.progress.wait();
        let next = {
            let mut state = inner.state.borrow_mut();
            let is_over = state.fenced.is_some() || state.is_closed;
            let log = &mut state.log;
            if is_over || zeroed + 1 >= u64::from(log.layout.segments) {
                return;
            }
            zeroed = zeroed.max(log.head);
            let is_wanted = zeroed < log.head + 2;
            is_wanted.then(|| {
                zeroed += 1;
                log.pins[zeroed as usize] += 1;
                (log.segment_start(zeroed), log.layout.segment_size)
            })
        };
        let Some((start, size)) = next else {
            progress.await;
            continue;
        };
        let mut at = 0;
        while at < size {
            let length = ZERO_STEP.min(size - at);
            let part = zeros.slice(0..length as usize);
            let write = inner.cache.write(start + at, part, Durability::Cached);
            if write.await.is_err() {
                break; // the log will meet the device's error by itself
            }
            at += length;
        }
        inner.state.borrow_mut().log.pins[zeroed as usize] -= 1;
        inner.log_kick.notify();
    }
}
