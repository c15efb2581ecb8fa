// SPDX-License-Identifier: Apache-2.0
//! Data to capacity, many writes in flight, at the pace that appends allow.

use super::batch::{BlockWrite, DestageBatch};
use super::wait::wait;
use crate::caching::Update;
use crate::keys::chunk_key;
use crate::log::build::to_usize;
use crate::log::held::Overlay;
use crate::standing::WaitsFor;
use crate::state::{GroupInner, GroupState};
use crate::types::GroupError;
use base::{BLOCK_SIZE, CHUNK_BLOCKS, CHUNK_SIZE, Set};
use env::{Durability, IoError, Slice, join};
use format::Item;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Chunks that are looked at with one batch, whether they lost their last block: the page of each
/// may have to be read.
const EMPTIED_MAX: usize = 256;

/// Writes blocks to a device, with neighbours merged and many writes in flight. Returns the blocks
/// that were written. A block that was superseded meanwhile is left out, unless it belongs to a new
/// chunk of a file, which is written in one piece.
pub(super) async fn write_data(
    inner: &Rc<GroupInner>,
    device: usize,
    writes: Vec<BlockWrite>,
    sources: &[Slice],
) -> Result<Vec<BlockWrite>, GroupError> {
    let mut running = VecDeque::new();
    let mut written = Vec::with_capacity(writes.len());
    let mut rest = writes.into_iter().peekable();
    // Blocks that are written or superseded, and that the pace has not been told of yet.
    let mut finished = 0;
    let mut run = Vec::new();
    while let Some(first) = rest.next() {
        run.push(first);
        while let Some(next) = rest.next_if(|next| {
            let last = &run[run.len() - 1];
            let is_next = next.block == last.block.wrapping_add(1) && next.block != 0;
            next.chunk == last.chunk && (last.is_fresh || is_next)
        }) {
            run.push(next);
        }
        wait_for_tokens(inner).await?;
        let blocks = run.len();
        {
            // Store rule 7: looked at again when the write is issued.
            let state = inner.state.borrow();
            let keeps_fresh = run.first().is_some_and(|write| is_whole(inner, device, write));
            let mutations = inner.options.mutations;
            if !keeps_fresh && !mutations.skip_liveness() && !mutations.skip_recheck() {
                run.retain(|write| state.log.index.is_live(write.key, write.place));
            }
        }
        finished += blocks - run.len();
        for part in contiguous(&run) {
            running.push_back(issue(inner, device, part, sources));
            let most = depth(inner);
            if running.len() >= most {
                // Half of the depth is set free at once, so that the next writes go out together.
                while running.len() > most / 2 {
                    finished += finish(inner, device, running.pop_front()).await?;
                }
            }
        }
        written.append(&mut run);
        let mut state = inner.state.borrow_mut();
        let now = inner.env.now();
        state.pace.destaged(i64::try_from(blocks).unwrap_or(0));
        state.pace.finished(now, std::mem::take(&mut finished) as u64);
        state.destage.progressed_at = now;
        let must_kick = std::mem::take(&mut state.log.is_pressed);
        drop(state);
        if must_kick {
            inner.log_kick.notify();
        }
    }
    while !running.is_empty() {
        finished += finish(inner, device, running.pop_front()).await?;
    }
    inner.state.borrow_mut().pace.finished(inner.env.now(), finished as u64);
    Ok(written)
}

/// Writes that may be in flight now.
fn depth(inner: &GroupInner) -> usize {
    let state = inner.state.borrow();
    match state.destage.drains_all {
        true => inner.options.destage_depth,
        false => state.pace.depth(state.fill(), inner.options.destage_depth),
    }
}

impl GroupState {
    /// What is on capacity is not needed in the log any more.
    pub(super) fn forget_batch(&mut self, written: Vec<BlockWrite>, batch: DestageBatch) {
        for write in written {
            self.forget_block(write.key, write.place);
        }
        let placed = u64::try_from(batch.placed.len()).unwrap_or(0);
        self.counters.mapped_blocks += placed;
        self.counters.destaged_blocks += placed;
        for (key, place) in batch.placed {
            self.forget_block(key, place);
        }
        self.pace.forgotten();
        for (key, place, lsn) in batch.zeros {
            self.store.remember_block(key, lsn);
            self.forget_block(key, place);
        }
        for (key, device, place, lsn) in batch.clears {
            self.store.remember_chunk(key, lsn);
            self.forget_clear(key, device, place);
        }
    }
}

/// Whether the chunk of `first` is written in full, zeros around what is to be written. That is so
/// with the first write to a chunk of a file, so that later writes need no new extents. A sparse
/// file is to take no more space than what is written.
fn is_whole(inner: &GroupInner, device: usize, first: &BlockWrite) -> bool {
    let info = inner.devices[device].disk().info();
    first.is_fresh && info.is_file && !info.is_sparse
}

/// Cuts a run where blocks are missing. A fresh chunk stays in one piece.
fn contiguous(run: &[BlockWrite]) -> impl Iterator<Item = &[BlockWrite]> {
    run.chunk_by(|last, next| last.is_fresh || last.block.checked_add(1) == Some(next.block))
}

/// Begins a write: how many blocks of the batch it carries, and its end. The future is not boxed,
/// for under random load there is one for nearly every block.
fn issue(
    inner: &Rc<GroupInner>,
    device: usize,
    part: &[BlockWrite],
    sources: &[Slice],
) -> (usize, impl Future<Output = Result<(), IoError>> + use<>) {
    let handle = &inner.devices[device];
    let (first, last) = (&part[0], &part[part.len() - 1]);
    let (start, count) = match is_whole(inner, device, first) {
        true => (0, CHUNK_BLOCKS),
        false => (u64::from(first.block), u64::from(last.block) - u64::from(first.block) + 1),
    };
    let offset =
        handle.layout.chunk_start + u64::from(first.chunk) * CHUNK_SIZE + start * BLOCK_SIZE;
    let data = match in_place(part, sources).filter(|data| data.len() as u64 == count * BLOCK_SIZE)
    {
        Some(data) => data,
        None => gathered(inner, part, sources, (start, count)),
    };
    inner.count(|requests| requests.blocks += 1);
    let write = handle.disk().write(offset, data.clone(), Durability::Cached);
    // What stays in the read cache is written there as well, for whoever reads it next.
    let update = match inner.is_hybrid && !first.is_fresh {
        true => inner.update_slots(&Update {
            device,
            chunk: first.chunk,
            first: first.block,
            bytes: data,
            crcs: part.iter().map(|write| write.crc).collect(),
        }),
        false => None,
    };
    let update = update.map(Box::pin);
    let done = async move {
        match update {
            None => write.await,
            Some(update) => join(write, update).await.0,
        }
    };
    (part.len(), done)
}

/// The blocks as they lie in their segment, where they follow each other there as well.
fn in_place(part: &[BlockWrite], sources: &[Slice]) -> Option<Slice> {
    let is_next = |pair: &[BlockWrite]| {
        pair[1].source == pair[0].source
            && pair[1].from == pair[0].from + BLOCK_SIZE
            && pair[0].block.checked_add(1) == Some(pair[1].block)
    };
    let from = to_usize(part[0].from);
    let end = from + part.len() * to_usize(BLOCK_SIZE);
    part.windows(2).all(is_next).then(|| sources[part[0].source].slice(from..end))
}

/// `count` blocks from `start` of a chunk on; those that are not among the writes are zeros.
fn gathered(
    inner: &GroupInner,
    part: &[BlockWrite],
    sources: &[Slice],
    (start, count): (u64, u64),
) -> Slice {
    let mut buf = inner.env.buf(to_usize(count * BLOCK_SIZE));
    if count != part.len() as u64 {
        buf.fill(0);
    }
    for write in part {
        let at = to_usize((u64::from(write.block) - start) * BLOCK_SIZE);
        let from = to_usize(write.from);
        buf[at..at + 4096].copy_from_slice(&sources[write.source][from..from + 4096]);
    }
    buf.freeze()
}

/// Waits for one; the blocks of it.
async fn finish(
    inner: &GroupInner,
    device: usize,
    writing: Option<(usize, impl Future<Output = Result<(), IoError>>)>,
) -> Result<usize, GroupError> {
    let Some((blocks, writing)) = writing else { return Ok(0) };
    let written = writing.await;
    written.map(|()| blocks).map_err(|error| inner.fence(&inner.devices[device].path, &error))
}

/// Waits for the pace; appends that pause make it free.
async fn wait_for_tokens(inner: &GroupInner) -> Result<(), GroupError> {
    let _turn = inner.pacing.acquire(1).await;
    loop {
        let kick = inner.destage_kick.wait();
        inner.check_open()?;
        let until = {
            let state = inner.state.borrow();
            let idle_at = state.log.last_append + inner.options.idle_after;
            let fill = state.fill();
            let is_now = state.destage.drains_all || state.wants_space();
            if is_now || state.pace.may_destage(fill) || inner.env.now() >= idle_at {
                return Ok(());
            }
            idle_at
        };
        wait(
            inner,
            kick,
            WaitsFor::Work,
            Some(until.max(inner.env.now() + Duration::from_nanos(1))),
        )
        .await;
    }
}

/// Chunks that lost their last block are freed with this batch.
pub(super) async fn add_emptied(
    inner: &GroupInner,
    device: usize,
    items: &mut Vec<Item>,
) -> Result<(), GroupError> {
    let emptied = inner.state.borrow_mut().store.capacity[device].take_emptied(EMPTIED_MAX);
    let touched: Set<u32> = items
        .iter()
        .filter_map(|item| match item {
            Item::Free { chunk } | Item::Clear { chunk, .. } | Item::Unset { chunk, .. } => {
                Some(*chunk)
            }
            _ => None,
        })
        .collect();
    for chunk in emptied {
        inner.load_checksums(device, chunk).await?;
        let mut state = inner.state.borrow_mut();
        let entry = state.store.entry(device, chunk);
        let key = chunk_key(entry.serial, u64::from(entry.index));
        let has_blocks = state.log.over(key).is_some_and(Overlay::has_blocks);
        let is_empty =
            state.store.checksums(device, chunk).is_some_and(|(page, place)| page.is_empty(place));
        if entry.serial != 0 && !has_blocks && is_empty && !touched.contains(&chunk) {
            items.push(Item::Free { chunk });
        }
    }
    Ok(())
}
