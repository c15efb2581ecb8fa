// SPDX-License-Identifier: Apache-2.0
//! What opening has read is made durable before anything builds on it.
//!
//! After a failed write or flush a device may give the new bytes back for a while and lose them
//! with the power. No later flush vouches for them. So bytes that recovery reads are not
//! necessarily durable: the last write to their place may have failed. Everything submitted before
//! that write was durable, for nothing is submitted behind a failure (store rule 3). In doubt are
//! only the newest superblock, the log's last commit, the journal's last record, rows, and the
//! pages of a checkpoint after which the closed half of the journal was not written again.
//!
//! Recovery writes the bytes that it read there once more, at the same place, and flushes. If power
//! fails meanwhile, nothing is lost: the older slot of a page and the end of the log are as before.
//!
//! CRC pages are not written again: the next checkpoint writes over the image in doubt, and leaves
//! the other one, see `GroupInner::choose`.

use crate::state::GroupInner;
use crate::store::capacity::PAGES_IN_FLIGHT;
use crate::types::GroupError;
use crate::types::device_error;
use env::{Disk, Durability, try_join_at_most};
use format::PAGE_SIZE;

/// Bytes of a device: start and length.
type Stretch = (u64, usize);
/// Bytes to be read there and written here.
type Copy = (Stretch, u64);

/// What was found of a capacity device's journal.
#[derive(Clone, Copy)]
pub(super) struct JournalEnds {
    /// Pages that hold this record or a later one may not be durable.
    pub(super) doubt_from: Option<u64>,
    /// Where its last record stands.
    pub(super) last: Option<Stretch>,
}

/// Writes again what a capacity device may not have made durable.
pub(super) async fn settle_capacity(
    inner: &GroupInner,
    device: usize,
    journal: JournalEnds,
) -> Result<(), GroupError> {
    if inner.options.mutations.trust_what_is_read() {
        return Ok(());
    }
    let handle = &inner.devices[device];
    let mut copies: Vec<Copy> = Vec::new();
    {
        let state = inner.state.borrow();
        let capacity = &state.store.capacity[device];
        let at = |start: u64, number: u64, slot: usize| {
            start + (number * 2 + slot as u64) * PAGE_SIZE as u64
        };
        let mut add = |start: u64, number: u64, newest: usize| {
            let place = at(start, number, newest);
            copies.push(((place, PAGE_SIZE), place));
        };
        for (place, row) in (0..).zip(&capacity.rows).filter(|(_, row)| row.sequence > 0) {
            add(handle.layout.table_start, place, row.newest);
        }
        let first = journal.doubt_from.unwrap_or(u64::MAX);
        for (number, meta) in (0..).zip(&capacity.map_meta).filter(|(_, m)| m.applied >= first) {
            add(handle.layout.map_start, number, meta.newest);
        }
        // A slot that a checkpoint tore gets the other slot's image. If it stayed torn it would
        // look like damage later, when other records stand in the journal.
        let torn = (0..).zip(&capacity.map_meta).filter(|(_, meta)| meta.is_in_doubt);
        let start = handle.layout.map_start;
        copies.extend(torn.map(|(number, meta)| {
            let newest = at(start, number, meta.newest);
            ((newest, PAGE_SIZE), at(start, number, 1 - meta.newest))
        }));
    }
    copies.extend(journal.last.map(|last| (last, last.0)));
    write_again(inner, &handle.path, handle.disk(), &copies).await
}

/// Writes the log's last commit again.
pub(super) async fn settle_log(
    inner: &GroupInner,
    last: Option<Stretch>,
) -> Result<(), GroupError> {
    match last {
        Some(last) if !inner.options.mutations.trust_what_is_read() => {
            write_again(inner, &inner.cache_path, &inner.cache, &[(last, last.0)]).await
        }
        _ => Ok(()),
    }
}

async fn write_again(
    inner: &GroupInner,
    path: &str,
    disk: &Disk,
    copies: &[Copy],
) -> Result<(), GroupError> {
    if copies.is_empty() {
        return Ok(());
    }
    let copies = copies.iter().map(|((from, length), to)| async move {
        let bytes = disk.read(*from, inner.env.buf(*length)).await?;
        disk.write(*to, bytes.freeze(), Durability::Cached).await
    });
    try_join_at_most(PAGES_IN_FLIGHT, copies).await.map_err(device_error(path))?;
    disk.flush().await.map_err(device_error(path))
}
