// SPDX-License-Identifier: Apache-2.0
//! One segment, from its first live entry to the last. An all-flash group destages so, and a hybrid
//! one what is left of a segment in the end.

use super::apply::write_batch;
use super::batch::Found;
use super::direct::place;
use super::free::keep_marks;
use super::known::{condemn, wait_for_k};
use super::plan::{fold, move_to_head, plan};
use super::segment::{Segment, is_open};
use super::wait::wait_for_commit;
use crate::log::queue::{Move, Still};
use crate::state::GroupInner;
use crate::types::GroupError;
use format::{EntryKind, FormatError, LogEntry};
use std::rc::Rc;

/// Destages one segment that is in memory, and frees it.
pub(super) async fn destage_segment(
    inner: &Rc<GroupInner>,
    segment: Segment,
) -> Result<(), GroupError> {
    let size = inner.state.borrow().log.layout.segment_size;
    let (rest, mut is_counted, mut k_until) = (segment.rest(size), false, None);
    let Segment { number: segment, bytes, found, named, written, .. } = segment;
    let mutations = inner.options.mutations;
    if mutations.free_before_destage() {
        keep_marks(inner, segment).await?;
        inner.state.borrow_mut().free_oldest(segment);
        inner.log_kick.notify();
    }
    let mut unpaid = blocks_of(&bytes, &found) - written;
    // One round may not be enough. A newer part may come on top of a block that was whole, or a
    // block may change before its fold is in the log. The rounds end: each leaves fewer live
    // entries, and a closed segment gets no new ones.
    while has_live(inner, segment, &found) {
        wait_for_commit(inner, segment, &found).await?;
        let mut batch = plan(inner, segment, &found, &bytes);
        if !std::mem::replace(&mut is_counted, true) {
            inner.state.borrow_mut().pace.begin(inner.env.now(), rest, batch.blocks());
        }
        fold(inner, segment, &found, &bytes, &mut batch).await?;
        // What is condemned goes to the chunk that capacity has, which must not be replaced then.
        let has_open_rot = condemn(inner, segment, &bytes, &mut batch)?;
        let sources = place(inner, &mut batch, &bytes).await?;
        if batch.is_empty() && has_live(inner, segment, &found) {
            if !has_open_rot {
                // The index needs an entry of it, but no step follows from the entry as the segment
                // has it: the summary, of which the index was made, says something else.
                let source = FormatError::Field { name: "entries" };
                return Err(inner.damaged_segment(segment, source));
            }
            wait_for_k(inner, segment, &mut k_until).await?;
            continue;
        }
        let ready = (batch.moves.len() + batch.placed.len()) as u64;
        move_to_head(inner, std::mem::take(&mut batch.moves)).await?;
        inner.state.borrow_mut().pace.finished(inner.env.now(), ready);
        let writes = batch.writes.iter().map(Vec::len).sum::<usize>();
        unpaid -= i64::try_from(writes).unwrap_or(0);
        let written = write_batch(inner, &mut batch, &sources).await?;
        let mut state = inner.state.borrow_mut();
        state.counters.destaged_blocks += written.len() as u64;
        if mutations.skip_forget() {
            break;
        }
        state.forget_batch(written, batch);
    }
    if mutations.free_before_destage() {
        inner.state.borrow_mut().pace.freed(inner.env.now(), size);
        return Ok(());
    }
    move_to_head(inner, still_open(inner, &named)).await?;
    keep_marks(inner, segment).await?;
    {
        let (mut state, now) = (inner.state.borrow_mut(), inner.env.now());
        state.pace.destaged(unpaid.max(0));
        if !is_counted {
            state.pace.begin(now, rest, 0);
        }
        state.pace.freed(now, size);
        state.free_oldest(segment);
    }
    inner.note_destage();
    inner.log_kick.notify();
    Ok(())
}

/// Blocks that a segment counts for: its own, and those of the direct writes that it records.
fn blocks_of(bytes: &[u8], found: &[Found]) -> i64 {
    let direct = found.iter().filter(|f| matches!(f.entry.kind, EntryKind::Direct { .. }));
    let direct: usize = direct.map(|found| found.crcs.len()).sum();
    i64::try_from(bytes.len() / 4096 + direct).unwrap_or(0)
}

/// Marks that say which requests the entries above K carry out. They go to the log's head before
/// their segment is freed: the next owner may have to undo these entries, and names them by their
/// requests (rule 46).
fn still_open(inner: &GroupInner, named: &[LogEntry]) -> Vec<Move> {
    if inner.options.mutations.forget_open() {
        return Vec::new();
    }
    let state = inner.state.borrow();
    let move_of = |entry: &LogEntry| Move {
        kind: EntryKind::Done,
        id: entry.id,
        ..Move::of(entry, Still::Open)
    };
    named.iter().filter(|entry| is_open(&state, entry)).map(move_of).collect()
}

/// Whether the log still needs anything of the segment.
fn has_live(inner: &GroupInner, segment: u64, found: &[Found]) -> bool {
    let state = inner.state.borrow();
    let is_known = |found: &Found| state.store.components.get(found.entry.serial).is_some();
    found.iter().any(|found| is_known(found) && found.is_live(&state, segment))
}
