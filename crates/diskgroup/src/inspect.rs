// SPDX-License-Identifier: Apache-2.0
//! Looking at one device that nobody uses: every structure is read and checked, each on its own, so
//! that damage in one does not hide the others. Nothing is written.
//!
//! What opening a group would do with the same bytes is said as the effect of each finding. A
//! device is looked at alone: what its group's other devices hold is not known here, so a block of
//! a capacity device that fails its checksum may be one that the log holds newer.

mod cache;
mod capacity;
mod lines;

use crate::types::{GroupError, Structure, device_error};
use base::{ComponentId, Lsn, ObjectId};
use env::{Boxed, Buf, Disk, Env, OpenDisk};
use format::{DeviceKind, PAGE_SIZE, SUPERBLOCK_SLOTS, Superblock};

/// Findings that are kept; what is beyond is counted.
const FINDINGS_MAX: usize = 1000;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Expected after power loss, or made up for by a second copy.
    Remark,
    /// Something that was written is gone.
    Damage,
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Which structure.
    pub structure: Structure,
    /// Where it stands, bytes from the device's start.
    pub offset: u64,
    /// What is wrong with it.
    pub what: String,
    /// What follows from it.
    pub effect: &'static str,
}

/// What a device says of itself.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Bytes of the device.
    pub size: u64,
    /// The superblock that counts.
    pub superblock: Option<Superblock>,
    /// What stands behind it.
    pub content: Content,
    /// What is wrong, in the order of the device's structures; the first thousand.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub more_findings: u64,
    /// How many of all findings are damage.
    pub damages: u64,
}

impl Inspection {
    /// Whether nothing that was written is gone.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.damages == 0
    }
}

/// What stands on a device.
#[derive(Clone, Debug)]
pub enum Content {
    /// Nothing that can be read without a superblock.
    Unknown,
    /// A log.
    Cache(CacheContent),
    /// Components.
    Capacity(CapacityContent),
}

/// A log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheContent {
    /// Segments that opening would replay, oldest first; the last one is open.
    pub segments: Vec<SegmentContent>,
    /// Segments in all.
    pub segments_total: u32,
    /// Capacity devices, by their places from 0, that were out of the group when entries were
    /// dropped that they need.
    pub given_up: Vec<u32>,
    /// What stands behind the log, in a hybrid group.
    pub read_cache: Option<ReadCacheContent>,
}

/// A read cache. Nothing in it is anything but a copy, so nothing wrong with it is damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCacheContent {
    /// Part of the device that was asked for, percent.
    pub percent: u8,
    /// Lines in all.
    pub lines: u32,
    /// Slots of which a header says what they hold. What opening believes of it, the chunk maps
    /// tell.
    pub slots_used: u32,
    /// Blocks of data that they hold.
    pub blocks: u64,
    /// Blocks that were compared with their checksums.
    pub blocks_checked: u64,
}

/// One log segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentContent {
    /// Its absolute number.
    pub number: u64,
    /// Where it stands, bytes from the device's start.
    pub offset: u64,
    /// Commits that follow one another.
    pub commits: u64,
    /// Their entries.
    pub entries: u64,
    /// Of them, those of direct writes: their data stands on capacity.
    pub direct_entries: u64,
    /// Bytes of them, headers included.
    pub used: u64,
    /// Whether a summary spares opening the scan.
    pub has_summary: bool,
}

/// Components and their chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityContent {
    /// By row.
    pub components: Vec<ComponentContent>,
    /// Chunks of the device.
    pub chunks: u64,
    /// Of those, in use by a component.
    pub allocated: u64,
    /// Blocks that hold data.
    pub blocks: u64,
    /// Blocks whose data was compared with its checksum.
    pub blocks_checked: u64,
    /// Journal records since the last checkpoint.
    pub journal_records: u64,
}

/// One component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentContent {
    /// Its id.
    pub id: ComponentId,
    /// Its object.
    pub object: ObjectId,
    /// Its number on this device.
    pub serial: u32,
    /// Its length.
    pub sectors: u64,
    /// Its chunks here.
    pub chunks: u64,
    /// W: everything up to it is on this device.
    pub destaged: Lsn,
}

/// Looks at a device. With `check_data` every block that holds data is read and compared with its
/// checksum, otherwise the structures alone are.
///
/// # Errors
/// Where the device cannot be opened (it is in use, or not there), or is none of Gabion's.
pub fn inspect<'a>(
    env: &'a Env,
    path: &'a str,
    check_data: bool,
) -> Boxed<'a, Result<Inspection, GroupError>> {
    Box::pin(look_at(env, path, check_data))
}

async fn look_at(env: &Env, path: &str, check_data: bool) -> Result<Inspection, GroupError> {
    let opened = env.open_disk(OpenDisk { path: path.to_owned(), create: None }).await;
    let disk = opened.map_err(device_error(path))?;
    let size = disk.info().size;
    let mut look = Look { env, disk, check_data, findings: Vec::new(), more: 0, damages: 0 };
    let Some(superblock) = look.superblock().await else {
        if look.damages == 0 {
            return Err(GroupError::NotFormatted { device: path.to_owned(), wanted: "gabion" });
        }
        return Ok(look.done(size, None, Content::Unknown));
    };
    if superblock.size > size {
        let what = format!("the device has {size} bytes, {} when formatted", superblock.size);
        let effect = "the group does not open; put the whole device back, or give this one up";
        look.damage(Structure::Superblock, SUPERBLOCK_SLOTS[0], what, effect);
    }
    let content = match superblock.kind {
        DeviceKind::Cache { layout, read_cache, given_up, .. } => {
            let mut content = look.cache(superblock.device, &layout).await;
            content.given_up = (0..u16::BITS).filter(|at| given_up >> at & 1 == 1).collect();
            if let Some(layout) = read_cache {
                content.read_cache = Some(look.lines(superblock.device, &layout).await);
            }
            Content::Cache(content)
        }
        DeviceKind::Capacity(layout) => {
            Content::Capacity(look.capacity(superblock.device, &layout).await)
        }
    };
    Ok(look.done(size, Some(superblock), content))
}

/// A device that is looked at.
struct Look<'a> {
    env: &'a Env,
    disk: Disk,
    check_data: bool,
    findings: Vec<Finding>,
    more: u64,
    damages: u64,
}

impl Look<'_> {
    fn done(self, size: u64, superblock: Option<Superblock>, content: Content) -> Inspection {
        let Self { findings, more, damages, .. } = self;
        Inspection { size, superblock, content, findings, more_findings: more, damages }
    }

    fn damage(
        &mut self,
        structure: Structure,
        offset: u64,
        what: impl ToString,
        effect: &'static str,
    ) {
        self.damages += 1;
        self.found(Severity::Damage, structure, offset, what, effect);
    }

    fn remark(
        &mut self,
        structure: Structure,
        offset: u64,
        what: impl ToString,
        effect: &'static str,
    ) {
        self.found(Severity::Remark, structure, offset, what, effect);
    }

    fn found(
        &mut self,
        severity: Severity,
        structure: Structure,
        offset: u64,
        what: impl ToString,
        effect: &'static str,
    ) {
        if self.findings.len() == FINDINGS_MAX {
            self.more += 1;
            return;
        }
        let what = what.to_string();
        self.findings.push(Finding { severity, structure, offset, what, effect });
    }

    /// Bytes of the device; what cannot be read is a finding.
    async fn read(
        &mut self,
        structure: Structure,
        offset: u64,
        bytes: usize,
        effect: &'static str,
    ) -> Option<Buf> {
        match self.disk.read(offset, self.env.buf(bytes)).await {
            Ok(read) => Some(read),
            Err(error) => {
                self.damage(structure, offset, format!("cannot be read: {error}"), effect);
                None
            }
        }
    }

    /// The slot that counts.
    async fn superblock(&mut self) -> Option<Superblock> {
        let effect = "the group opens with the other copy, if that one is whole";
        let mut best: Option<Superblock> = None;
        let mut blank = 0;
        for offset in SUPERBLOCK_SLOTS {
            let Some(page) = self.read(Structure::Superblock, offset, PAGE_SIZE, effect).await
            else {
                continue;
            };
            match Superblock::decode(&page) {
                Ok(found) if best.is_none_or(|best| found.sequence > best.sequence) => {
                    best = Some(found);
                }
                Ok(_) => {}
                Err(format::FormatError::Magic) => blank += 1,
                Err(error) => self.damage(Structure::Superblock, offset, error, effect),
            }
        }
        // The second slot of a cache device is empty until the group was opened once.
        let is_new = best.is_some_and(|best| {
            matches!(best.kind, DeviceKind::Cache { .. }) && best.sequence == 1
        });
        if best.is_some() && blank > 0 && !is_new {
            let what = "one of the two copies is not there";
            self.damage(Structure::Superblock, SUPERBLOCK_SLOTS[0], what, effect);
        }
        best
    }
}

/// Bytes as a buffer's length.
fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
