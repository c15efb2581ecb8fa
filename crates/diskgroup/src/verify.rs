// SPDX-License-Identifier: Apache-2.0
//! Scrub: what lies on capacity is read and compared with its checksums.
//!
//! Looked at is what a read would take from capacity. A block that the log holds whole is left out:
//! what capacity has of it is older, and is written again by destage. Nothing is repaired here:
//! that takes another replica, and its owner.
//!
//! A mismatch is looked at again for the reason that `read` gives: destage may have overtaken the
//! device's read, and the next look then finds the block in the log, or its new checksum. Only what
//! fails every look is bad. A look that meets a chunk on its way elsewhere says nothing.

pub(crate) mod audit;
pub(crate) mod lines;
mod staged;

use crate::keys::chunk_key;
use crate::log::build::to_usize;
use crate::read::{LOOKS_MAX, ReadRun, plan};
use crate::state::{DiskGroup, GroupInner};
use crate::types::{BadCause, BadRange, CapacityStatus, GroupError, Verified};
use base::{BLOCK_SECTORS, CHUNK_SECTORS, ComponentId, Probe, SectorRange, crc32c};
use std::rc::Rc;

/// A part that is not known to be good; without a cause nothing was found out about it.
type Suspect = (SectorRange, Option<BadCause>);

/// What one look at a part brought.
struct Look {
    blocks: u64,
    suspects: Vec<Suspect>,
}

impl DiskGroup {
    /// Verifies the next part of a component that capacity holds, from sector `from` on. It reads
    /// 128 KiB at most. A device that does not give a block fences nothing, as for reads.
    ///
    /// # Errors
    /// [`GroupError::UnknownComponent`], [`GroupError::Closed`].
    pub async fn verify(&self, id: ComponentId, from: u64) -> Result<Verified, GroupError> {
        verify(self.shared(), id, from).await
    }

    /// The capacity devices, in the order of the group's specification.
    #[must_use]
    pub fn capacity(&self) -> Vec<CapacityStatus> {
        let inner = self.shared();
        let state = inner.state.borrow();
        let devices = inner.devices.iter().zip(&state.store.capacity);
        let status = devices.map(|(device, capacity)| {
            let free = capacity.listed().count();
            let used_chunks = capacity.map.len().saturating_sub(free) as u64;
            CapacityStatus { path: device.path.clone(), used_chunks }
        });
        status.collect()
    }

    /// Which of [`DiskGroup::capacity`] holds a component.
    #[must_use]
    pub fn device_of(&self, id: ComponentId) -> Option<usize> {
        self.shared().state.borrow().store.components.by_id(id).map(|component| component.device)
    }
}

async fn verify(
    inner: &Rc<GroupInner>,
    id: ComponentId,
    from: u64,
) -> Result<Verified, GroupError> {
    let step = next_step(inner, id, from)?;
    let Some(range) = step.range else { return Ok(step) };
    let looks = if inner.options.mutations.single_look() { 1 } else { LOOKS_MAX };
    let mut blocks = 0;
    let mut suspects: Vec<Suspect> = vec![(range, None)];
    for _ in 0..looks {
        let mut left = Vec::new();
        for (suspect, _) in suspects {
            match look_at(inner, id, suspect).await? {
                Some(look) => {
                    // The first look that says anything is one at all of it.
                    blocks = look.blocks.max(blocks);
                    left.extend(look.suspects);
                }
                None => left.push((suspect, None)),
            }
        }
        suspects = left;
    }
    let mut bad: Vec<BadRange> = Vec::new();
    for (range, cause) in suspects {
        let Some(cause) = cause else { continue };
        match bad.last_mut() {
            Some(last) if last.cause == cause && last.range.end() == range.start => {
                last.range.count += range.count;
            }
            _ => bad.push(BadRange { range, cause }),
        }
    }
    let mismatches = bad.iter().filter(|bad| bad.cause == BadCause::Checksum);
    let mismatches: u64 = mismatches.map(|bad| bad.range.count.div_ceil(BLOCK_SECTORS)).sum();
    inner.state.borrow_mut().counters.bad_blocks += mismatches;
    Ok(Verified { blocks, bad, ..step })
}

/// What is to be looked at next, from sector `from` on, and where the one after it begins.
fn next_step(inner: &GroupInner, id: ComponentId, from: u64) -> Result<Verified, GroupError> {
    let state = inner.state.borrow();
    if state.is_closed {
        return Err(GroupError::Closed);
    }
    let component = state.store.components.by_id(id);
    let row = &component.ok_or(GroupError::UnknownComponent { component: id })?.row;
    let (serial, sectors) = (row.serial, row.sectors);
    let mut at = from / BLOCK_SECTORS * BLOCK_SECTORS;
    let mut range = None;
    let limits = inner.options.limits;
    for _ in 0..limits.scrub_passed {
        if at >= sectors || range.is_some() {
            break;
        }
        let chunk = at / CHUNK_SECTORS;
        let mut end = sectors.min((chunk + 1) * CHUNK_SECTORS);
        if state.store.base(chunk_key(serial, chunk)).is_some() {
            end = end.min(at + limits.scrub_sectors);
            base::hit_if(!at.is_multiple_of(CHUNK_SECTORS), Probe::ScrubSecondStep);
            range = Some(SectorRange::new(at, end - at));
        }
        at = end;
    }
    base::hit_if(range.is_none() && at < sectors, Probe::ScrubPassed);
    Ok(Verified { range, next: (at < sectors).then_some(at), ..Verified::default() })
}

/// Reads what capacity holds of a range within one chunk, and compares. `None`: its chunk is
/// somewhere else by now.
async fn look_at(
    inner: &Rc<GroupInner>,
    id: ComponentId,
    range: SectorRange,
) -> Result<Option<Look>, GroupError> {
    let unknown = GroupError::UnknownComponent { component: id };
    let Some(serial) = inner.state.borrow().store.components.serial(id) else {
        return Err(unknown);
    };
    let Some(mut plan) = plan(inner, serial, range, u64::MAX) else { return Err(unknown) };
    plan.unpin();
    let mut look = Look { blocks: 0, suspects: Vec::new() };
    let runs = match plan.capacity_runs().await {
        Ok(Some(runs)) => runs,
        Ok(None) => return Ok(None),
        Err(GroupError::Device { .. }) if !plan.is_given_up() => {
            look.suspects.push((range, Some(BadCause::Metadata)));
            return Ok(Some(look));
        }
        Err(error) => return Err(error),
    };
    let mut last = None;
    for run in &runs {
        for (block, cause) in compare(inner, run).await {
            // What is newer may cut one block into parts: it is read for each of them.
            if last.replace(block) == Some(block) {
                continue;
            }
            look.blocks += 1;
            if cause.is_some() {
                look.suspects.push((block.intersect(range), cause));
            }
        }
    }
    // What a device did not answer is not bad.
    if plan.is_given_up() { Err(GroupError::Fenced) } else { Ok(Some(look)) }
}

/// The blocks of one device read, each with what is wrong with it.
async fn compare(inner: &GroupInner, run: &ReadRun) -> Vec<Suspect> {
    let length = to_usize(run.stored.bytes());
    let read = run.disk.read(run.offset, inner.env.buf(length)).await;
    let verdict = |(stored, _, crc): &(SectorRange, SectorRange, u32)| {
        let Ok(bytes) = &read else { return (*stored, Some(BadCause::Unreadable)) };
        let from = to_usize((stored.start - run.stored.start) * base::SECTOR_SIZE);
        let block = &bytes[from..from + to_usize(stored.bytes())];
        (*stored, (crc32c(block) != *crc).then_some(BadCause::Checksum))
    };
    run.checks.iter().map(verdict).collect()
}
