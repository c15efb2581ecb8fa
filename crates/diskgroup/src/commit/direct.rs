// SPDX-License-Identifier: Apache-2.0
//! Direct writes: large appends of an all-flash group whose data goes to capacity at once.
//!
//! The data goes to a chunk that nobody has, durably. Then the entry of the log says where it is:
//! store rule 15. What comes behind of the same component waits for the data, so that entries stand
//! in the log in the order of the appends (store rule 16). Other components do not wait.

use crate::limits::GroupLimits;
use crate::log::build::{is_fraction, to_usize};
use crate::log::queue::Deferred;
use crate::state::{GroupInner, GroupState};
use base::{BLOCK_SECTORS, CHUNK_SECTORS, CHUNK_SIZE, SECTOR_SIZE, SectorRange};
use env::{Durability, Env, Slice};
use format::EntryKind;
use std::rc::Rc;

/// The data of one append, and the device chunk that it goes to.
pub(super) struct DirectWrite {
    pub(super) serial: u32,
    pub(super) ticket: u64,
    pub(super) device: usize,
    pub(super) chunk: u32,
    pub(super) range: SectorRange,
    pub(super) payload: Slice,
}

impl GroupState {
    /// The device chunk that an append of data goes to at once; none where it goes through the log.
    pub(super) fn stage(
        &mut self,
        (key, device): (u64, usize),
        range: SectorRange,
        limits: &GroupLimits,
    ) -> Option<u32> {
        let is_direct = !is_fraction(range) && range.count / BLOCK_SECTORS >= limits.direct_blocks;
        let now = self.log.last_append;
        is_direct.then(|| self.store.stage((key, device), range.blocks(), now)).flatten()
    }
}

impl GroupState {
    /// An append waits behind direct writes of its component, or is one itself, to a device chunk:
    /// what goes there first.
    pub(super) fn put_behind(
        &mut self,
        env: &Env,
        mut append: Deferred,
        device: usize,
        chunk: Option<u32>,
    ) -> Option<DirectWrite> {
        base::hit_if(chunk.is_none(), base::Probe::DirectAwaited);
        let write = chunk.map(|chunk| {
            let (serial, ticket, range) = (append.serial, append.ticket, append.range);
            append.kind = EntryKind::Direct { chunk };
            self.counters.direct_bytes += range.bytes();
            let payload = std::mem::replace(&mut append.payload, env.buf(0).freeze());
            DirectWrite { serial, ticket, device, chunk, range, payload }
        });
        self.log.put_behind(append);
        write
    }
}

/// The data of a direct write is on its way, whoever waits for it.
pub(super) fn begin(inner: &Rc<GroupInner>, write: DirectWrite) {
    inner.state.borrow_mut().direct_under_way += 1;
    let of = Rc::clone(inner);
    inner.directs.spawn(&inner.env, "direct write", async move {
        let (serial, ticket) = (write.serial, write.ticket);
        if of.options.mutations.record_before_data() {
            go_on(&of, serial, ticket);
        }
        let is_written = put(&of, write).await;
        of.state.borrow_mut().direct_under_way -= 1;
        if is_written {
            go_on(&of, serial, ticket);
        }
        of.progress.notify();
    });
}

/// Writes it durably; a device that does not is fenced (store rule 3).
async fn put(inner: &GroupInner, write: DirectWrite) -> bool {
    let blocks = write.range.count / BLOCK_SECTORS;
    let _room = inner.direct_room.acquire(blocks).await;
    if inner.check_open().is_err() {
        return false;
    }
    let handle = &inner.devices[write.device];
    let within = write.range.start % CHUNK_SECTORS * SECTOR_SIZE;
    let at = handle.layout.chunk_start + u64::from(write.chunk) * CHUNK_SIZE + within;
    let mut bytes = inner.env.buf(to_usize(write.range.bytes()));
    bytes.copy_from_slice(&write.payload);
    inner.count(|requests| requests.direct += 1);
    let written = handle.disk().write(at, bytes.freeze(), Durability::Durable).await;
    match written {
        Ok(()) => true,
        Err(error) => {
            let _ = inner.fence(&handle.path, &error);
            false
        }
    }
}

/// The data is where its entry will say: the entry, and what waits behind it, may go to the log.
fn go_on(inner: &GroupInner, serial: u32, ticket: u64) {
    let mut state = inner.state.borrow_mut();
    if state.is_over() {
        return;
    }
    let ready = state.log.take_ready(serial, ticket);
    state.admit(&inner.env, ready);
    let is_idle = !state.log.is_writing;
    drop(state);
    if is_idle {
        inner.log_kick.notify();
    }
}
