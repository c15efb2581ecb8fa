// SPDX-License-Identifier: Apache-2.0
//! What each part of a loose operation does to its device, and when.

use crate::core::Core;
use crate::disk::{Body, Silent, SimDisk};
use crate::diskops::EIO;
use crate::loose::index;
use crate::page::Page;
use crate::store::{Layer, StoredPiece};
use crate::under_way::{DiskOp, DiskWork};
use base::{Rng, crc32c};
use env::{Buf, Durability, IoError};
use std::ops::Range;

impl DiskOp {
    /// The writes and discards that this operation has not done yet. For when it is cut off.
    pub(crate) fn unfinished(self, zeros: &Page) -> Vec<(Body, Durability)> {
        let Some(loose) = self.loose else { return Vec::new() };
        let parts = loose.parts.into_iter().filter(|part| !part.is_empty());
        match self.work {
            DiskWork::Write { offset, from, durability } => {
                let Some(place) = loose.place.unwrap_or(Some(offset)) else { return Vec::new() };
                parts.map(|part| (data(place, &from, &part, zeros), durability)).collect()
            }
            DiskWork::Discard { offset, .. } => {
                let zero = |range: Range<u64>| (zeroed(offset, &range), Durability::Cached);
                parts.flatten().map(zero).collect()
            }
            DiskWork::Read { .. } | DiskWork::Flush { .. } => Vec::new(),
        }
    }
}

fn data(place: u64, from: &[u8], part: &[Range<u64>], zeros: &Page) -> Body {
    let piece = |range: &Range<u64>| {
        let bytes = &from[index(range.start)..index(range.end)];
        StoredPiece::cut(place + range.start, bytes, zeros)
    };
    Body::Data(part.iter().flat_map(piece).collect())
}

fn zeroed(offset: u64, range: &Range<u64>) -> Body {
    Body::Zero { offset: offset + range.start, bytes: range.end - range.start }
}

/// What a part of an operation does to a device.
fn take_effect(disk: &mut SimDisk, op: &mut DiskOp, part: usize, zeros: &Page, rng: &mut Rng) {
    let Some(loose) = &mut op.loose else { return };
    let part = std::mem::take(&mut loose.parts[part]);
    if part.is_empty() {
        return;
    }
    match &mut op.work {
        DiskWork::Read { offset, into, at } => {
            for range in part {
                let bytes = &mut into[*at + index(range.start)..*at + index(range.end)];
                disk.store.read(Layer::Current, *offset + range.start, bytes);
            }
        }
        DiskWork::Write { offset, from, .. } => {
            let place = loose.place.get_or_insert_with(|| match disk.faults.take_silent(*offset) {
                Some(Silent::Lost) => None,
                Some(Silent::Elsewhere(other)) => Some(other),
                None => Some(*offset),
            });
            if let Some(place) = *place {
                disk.land(data(place, from, &part, zeros), op.serial);
            }
        }
        DiskWork::Discard { offset, .. } => {
            for range in part {
                match rng.below(6) {
                    0 => {}
                    1 => disk.land_unseen(zeroed(*offset, &range), op.serial),
                    _ => disk.land(zeroed(*offset, &range), op.serial),
                }
            }
        }
        DiskWork::Flush { .. } => {}
    }
}

impl Core {
    /// A part takes effect before its operation ends. A device that fails does nothing here: the
    /// end of the operation decides what is left.
    pub(crate) fn part_event(&mut self, slot: u32, serial: u64, part: u8) {
        let entry = self.disk_ops.get_mut(index(slot.into())).and_then(Option::as_mut);
        let Some(op) = entry.filter(|op| op.serial == serial) else { return };
        let disk = &mut self.disks[index(op.disk.into())];
        let is_failing = match op.work {
            DiskWork::Read { .. } => disk.faults.fail_reads,
            _ => disk.faults.fail_writes,
        };
        if !is_failing {
            take_effect(disk, op, part.into(), &self.zeros, &mut self.rng.loose);
        }
    }

    /// The end of an operation that takes effect in parts: what is not done yet is done now.
    pub(crate) fn perform_loose(&mut self, mut op: DiskOp) -> (Result<(), IoError>, Option<Buf>) {
        let disk = &mut self.disks[index(op.disk.into())];
        let parts = op.loose.as_ref().map_or(0, |loose| loose.parts.len());
        let (zeros, rng) = (&self.zeros, &mut self.rng.loose);
        if let DiskWork::Read { offset, into, at } = &op.work {
            self.stats.reads += 1;
            let bytes = (into.len() - at).try_into().unwrap_or(u64::MAX);
            let is_failing = disk.faults.fail_reads || disk.is_bad(*offset, bytes);
            if !is_failing {
                (0..parts).for_each(|part| take_effect(disk, &mut op, part, zeros, rng));
            }
            let DiskWork::Read { into, .. } = op.work else { return (Err(EIO), None) };
            return (if is_failing { Err(EIO) } else { Ok(()) }, Some(into));
        }
        if disk.faults.fail_writes {
            // What a failed write leaves is unspecified: of the parts, any.
            for part in 0..parts {
                if rng.below(2) == 0 {
                    take_effect(disk, &mut op, part, zeros, rng);
                }
            }
            disk.answer_failed(op.serial);
            return (Err(EIO), None);
        }
        (0..parts).for_each(|part| take_effect(disk, &mut op, part, zeros, rng));
        match &op.work {
            DiskWork::Write { offset, from, durability } => {
                let place = op.loose.as_ref().and_then(|loose| loose.place);
                let Some(place) = place.unwrap_or(Some(*offset)) else { return (Ok(()), None) };
                let len = from.len().try_into().unwrap_or(u64::MAX);
                disk.heal(place, len);
                match durability {
                    Durability::Durable if !disk.faults.lies => disk.answer_durable(op.serial),
                    _ => disk.answer(op.serial),
                }
                let mark = u64::from(crc32c(from)) << 32 | u64::from(op.disk);
                self.wrote(place, len, mark);
            }
            _ => disk.answer(op.serial),
        }
        (Ok(()), None)
    }
}
