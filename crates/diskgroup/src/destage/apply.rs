// SPDX-License-Identifier: Apache-2.0
//! A batch is carried out: data and records of all devices side by side.

use super::batch::{BlockWrite, DestageBatch};
use super::write::{add_emptied, write_data};
use crate::state::GroupInner;
use crate::types::GroupError;
use base::Quirk;
use env::{Slice, join_all};
use format::Item;
use std::rc::Rc;

/// Items for one device: single ones, and groups that must each stay within one record.
type Records = (Vec<Item>, Vec<Vec<Item>>);

/// Data, then the journal record, of all devices side by side: none of them waits for another.
pub(super) async fn write_batch(
    inner: &Rc<GroupInner>,
    batch: &mut DestageBatch,
    sources: &[Slice],
) -> Result<Vec<BlockWrite>, GroupError> {
    let items =
        std::mem::take(&mut batch.items).into_iter().zip(std::mem::take(&mut batch.replaced));
    let parts = std::mem::take(&mut batch.writes).into_iter().zip(items);
    let writing = parts.enumerate().map(|(device, part)| write_part(inner, device, part, sources));
    let written = join_all(writing.collect()).await;
    let mut all = Vec::new();
    for written in written {
        all.append(&mut written?);
    }
    inner.end_updates();
    inner.env.linger(Quirk::DestageLingersOnJournal).await;
    Ok(all)
}

/// The part of one device (store rules 7 to 10).
async fn write_part(
    inner: &Rc<GroupInner>,
    device: usize,
    (writes, (mut items, replaced)): (Vec<BlockWrite>, Records),
    sources: &[Slice],
) -> Result<Vec<BlockWrite>, GroupError> {
    if inner.options.mutations.journal_before_data() {
        items.extend(writes.iter().map(BlockWrite::item));
        if !items.is_empty() {
            add_watermarks(inner, device, &mut items);
            inner.journal(device, &items).await?;
        }
        return write_data(inner, device, writes, sources).await;
    }
    let done = write_data(inner, device, writes, sources).await?;
    inner.env.linger(Quirk::DestageLingersOnData).await;
    add_emptied(inner, device, &mut items).await?;
    items.extend(done.iter().map(BlockWrite::item));
    if !items.is_empty() || !replaced.is_empty() {
        add_watermarks(inner, device, &mut items);
        if inner.env.quirk(Quirk::CheckpointEarly) {
            inner.turn(device).await?;
        }
        inner.journal(device, &items).await?;
        write_replaced(inner, device, replaced).await?;
    }
    Ok(done)
}

/// Records of chunks that take the place of others: all that one of them says is in one record
/// (store rule 17), and a record has several where there is room.
async fn write_replaced(
    inner: &Rc<GroupInner>,
    device: usize,
    replaced: Vec<Vec<Item>>,
) -> Result<(), GroupError> {
    let most = inner.record_items(device);
    let mut record: Vec<Item> = Vec::new();
    for items in replaced {
        assert!(items.len() <= most, "a chunk's items fit one record");
        if inner.options.mutations.free_before_replaced() {
            let (freed, rest): (Vec<Item>, Vec<Item>) =
                items.into_iter().partition(|item| matches!(item, Item::Free { .. }));
            inner.journal(device, &freed).await?;
            inner.journal(device, &rest).await?;
            continue;
        }
        if record.len() + items.len() > most {
            inner.journal(device, &std::mem::take(&mut record)).await?;
        }
        record.extend(items);
    }
    match record.is_empty() {
        true => Ok(()),
        false => inner.journal(device, &record).await,
    }
}

/// Adds W to a record, for the components whose W rose since the journal last said it. This W is
/// that of the batches before this one (store rule 9).
fn add_watermarks(inner: &GroupInner, device: usize, items: &mut Vec<Item>) {
    if inner.options.mutations.watermark_ahead() {
        let mut state = inner.state.borrow_mut();
        let serials = state.log.segment(state.log.tail).serials.clone();
        serials.into_iter().for_each(|serial| state.raise_destaged(serial, 1));
    }
    inner.state.borrow_mut().store.add_risen(device, items);
}
