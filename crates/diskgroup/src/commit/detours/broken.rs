// SPDX-License-Identifier: Apache-2.0
//! The detours themselves.

use crate::commit::acknowledge;
use crate::commit::step::LogStep;
use crate::log::build::Sealed;
use crate::state::GroupInner;
use base::SectorRange;
use env::{Durability, IoError, join};
use std::rc::Rc;
use std::time::Duration;

/// Where a second commit went, and what it is.
pub(crate) type Second = (u64, Box<Sealed>);

/// Writes a commit, as far as the rules say that are not removed.
pub(crate) async fn write_commit(
    inner: &Rc<GroupInner>,
    offset: u64,
    sealed: &Sealed,
    write: impl Future<Output = Result<(), IoError>>,
) -> (Result<(), IoError>, Option<Second>) {
    let mutations = inner.options.mutations;
    let (written, second) = match mutations.overlap_commits() || mutations.ack_out_of_order() {
        true => write_two(inner, write).await,
        false => (write.await, None),
    };
    (retry(inner, offset, sealed, written).await, second)
}

/// Submits the next commit while one is in flight, if there is one that fits the segment. Both are
/// awaited here.
async fn write_two(
    inner: &Rc<GroupInner>,
    first: impl Future<Output = Result<(), IoError>>,
) -> (Result<(), IoError>, Option<Second>) {
    let of = Rc::clone(inner);
    let second = async move {
        of.env.sleep(Duration::from_micros(20)).await;
        let step = {
            let mut state = of.state.borrow_mut();
            let log = &state.log;
            let room = log.usable() - u64::from(log.offset);
            if log.has_moves() || log.build.is_empty() || log.build.length() as u64 > room {
                return Ok(None);
            }
            state.log.is_writing = false;
            let step = state.next_step(&of.env);
            state.log.is_writing = true;
            step
        };
        let LogStep::Write { offset, sealed, .. } = step else { return Ok(None) };
        of.cache.write(offset, sealed.bytes.clone(), Durability::Durable).await?;
        if of.options.mutations.ack_out_of_order() {
            let first = of.state.borrow().log.ticket_done + 1;
            let last = sealed.tickets.last().copied().unwrap_or_default();
            acknowledge(&of, &(first..=last).collect::<Vec<_>>());
        }
        Ok(Some((offset, sealed)))
    };
    let (first, second) = join(Box::pin(first), Box::pin(second)).await;
    match second {
        Ok(second) => (first, second),
        Err(error) => (Err(error), None),
    }
}

/// The first of two is complete, so the second is.
pub(crate) fn complete_second(inner: &GroupInner, segment: u64, second: Option<Second>) {
    if let Some((offset, sealed)) = second {
        inner.state.borrow_mut().complete(segment, offset, &sealed, false);
        acknowledge(inner, &sealed.tickets);
    }
}

/// Writes a commit again until that succeeds, where failures do not fence.
async fn retry(
    inner: &GroupInner,
    offset: u64,
    sealed: &Sealed,
    written: Result<(), IoError>,
) -> Result<(), IoError> {
    let mut written = written;
    while written.is_err() && inner.options.mutations.retry_after_failure() {
        inner.env.sleep(Duration::from_millis(1)).await;
        written = inner.cache.write(offset, sealed.bytes.clone(), Durability::Durable).await;
    }
    written
}

/// A block as its parts say, with zeros where what is below fails its checksum. `None` where the
/// rule against that is kept.
pub(crate) async fn merge_blindly(
    inner: &Rc<GroupInner>,
    serial: u32,
    block: u64,
    commit: u64,
) -> Option<Vec<u8>> {
    if !inner.options.mutations.merge_unverified() {
        return None;
    }
    let mut whole = vec![0; 4096];
    for (at, part) in whole.chunks_mut(512).enumerate() {
        let range = SectorRange::new(block * 8 + at as u64, 1);
        if let Ok(bytes) = crate::read::read_committed(inner, serial, range, commit).await {
            part.copy_from_slice(&bytes);
        }
    }
    Some(whole)
}
