// SPDX-License-Identifier: Apache-2.0
//! What a returning component has to get (rules 30, 33).

use super::check_joined;
use crate::away::Aborted;
use crate::owner::Owner;
use base::{CHUNK_SECTORS, ComponentId, Lsn, SectorRange, ShardId};
use std::rc::Rc;
use std::time::Duration;
use wire::{Request, Response, Target};

/// Attempts with a source that does not answer, before the resync is given up.
const TRIES_MAX: usize = 20;
/// Between two of them.
const RETRY: Duration = Duration::from_millis(100);

/// Which chunks a component holds.
struct Held(Vec<u64>);

impl Held {
    fn none_of(chunks: u64) -> Self {
        Self(vec![0; usize::try_from(chunks.div_ceil(64)).unwrap_or(usize::MAX)])
    }

    fn holds(&self, chunk: usize) -> bool {
        self.0.get(chunk / 64).is_some_and(|word| word >> (chunk % 64) & 1 == 1)
    }

    /// Notes the bits of one page, which begins at chunk `first`.
    fn note(&mut self, first: u64, bits: &[u64]) {
        for (at, bits) in bits.iter().enumerate() {
            for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
                let chunk = first + at as u64 * 64 + bit;
                let word = usize::try_from(chunk / 64).unwrap_or(usize::MAX);
                if let Some(word) = self.0.get_mut(word) {
                    *word |= 1 << (chunk % 64);
                }
            }
        }
    }
}

/// dirty := the source's changes > left UNION the target's own changes > left (33), and the chunks
/// that only one of them holds (30): a discard leaves no trace once it is destaged, neither one
/// that the target missed nor one of a dead term that only the target has.
pub(super) async fn fill(
    owner: &Rc<Owner>,
    component: ComponentId,
    left: Lsn,
) -> Result<(), Aborted> {
    let source = from_source(owner, component, left).await?;
    let (shard, target) = {
        let state = owner.state.borrow();
        let leg = state.leg(component).ok_or(Aborted::Failed)?;
        (leg.shard, leg.target(owner.id, owner.term))
    };
    let forget_own = owner.options().mutations.forget_own_tail();
    let notes = if forget_own { None } else { Some(component) };
    let own = page_through(owner, shard, target, left, notes).await.ok_or(Aborted::Failed)?;
    check_joined(owner, component)?;
    let forget_discarded = owner.options().mutations.forget_discarded();
    let chunks = usize::try_from(owner.sectors.div_ceil(CHUNK_SECTORS)).unwrap_or(usize::MAX);
    for chunk in 0..chunks {
        owner.env().spend_steps(1).await;
        if own.holds(chunk) != source.holds(chunk) && !forget_discarded {
            let start = chunk as u64 * CHUNK_SECTORS;
            let count = CHUNK_SECTORS.min(owner.sectors - start);
            mark(owner, component, SectorRange::new(start, count)).await?;
        }
    }
    check_joined(owner, component)?;
    let bytes = owner.state.borrow().resyncs.get(&component).map_or(0, |r| r.dirty.bytes());
    tracing::info!(
        object = %owner.id, %component, %left, bytes, "resync begins"
    );
    Ok(())
}

/// Marks a range dirty, in turns of bounded length: a component has up to 261,120 chunks.
async fn mark(
    owner: &Rc<Owner>,
    component: ComponentId,
    range: SectorRange,
) -> Result<(), Aborted> {
    let chunks = range.count / CHUNK_SECTORS + 1;
    {
        let mut state = owner.state.borrow_mut();
        state.resyncs.get_mut(&component).ok_or(Aborted::Stopped)?.dirty.insert(range);
    }
    owner.env().spend_steps(chunks).await;
    Ok(())
}

/// From any active component; another one when it fails (rule 36).
async fn from_source(
    owner: &Rc<Owner>,
    component: ComponentId,
    left: Lsn,
) -> Result<Held, Aborted> {
    for _ in 0..TRIES_MAX {
        check_joined(owner, component)?;
        if let Some(source) = owner.source(0) {
            if let Some(held) =
                page_through(owner, source.shard, source.target, left, Some(component)).await
            {
                return Ok(held);
            }
            // Without client I/O nobody else notices that it does not know the session any more.
            owner.break_leg(source.component, source.session, "a list failed");
        }
        owner.env().sleep(RETRY).await;
    }
    Err(Aborted::Failed)
}

/// What changed on one component since `since` is dirty for `component`, page by page, so that a
/// long list needs no more memory than what is dirty. Where the list ends early, too much is.
async fn page_through(
    owner: &Rc<Owner>,
    shard: ShardId,
    target: Target,
    since: Lsn,
    component: Option<ComponentId>,
) -> Option<Held> {
    let chunks = owner.sectors.div_ceil(CHUNK_SECTORS);
    let mut all = Held::none_of(chunks);
    let mut cursor = 0;
    loop {
        let request = Request::ListChanged { target, since, cursor };
        let answer = owner.context.ask(shard, request).await;
        let Ok(Response::Changed { ranges, held, next }) = answer else {
            tracing::debug!(object = %owner.id, ?shard, ?answer, "no list of changes");
            return None;
        };
        tracing::trace!(object = %owner.id, ?target.component, ?ranges, "changed");
        if let Some(component) = component {
            let mut state = owner.state.borrow_mut();
            let resync = state.resyncs.get_mut(&component)?;
            ranges.into_iter().for_each(|range| resync.dirty.insert(range));
        }
        all.note(cursor, &held);
        match next {
            None => return Some(all),
            // A cursor that does not move on would never end.
            Some(next) if next > cursor && next < chunks => cursor = next,
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 30 compares what source and target hold: chunk by chunk, at the edges of words too.
    #[test]
    fn what_was_noted_is_held_and_nothing_beside() {
        let mut held = Held::none_of(200);
        held.note(0, &[1 | 1 << 63]);
        held.note(64, &[1 << 3, 1 << 1]);
        // Behind the end: pages come from another host.
        held.note(256, &[u64::MAX]);
        let found: Vec<usize> = (0..400).filter(|chunk| held.holds(*chunk)).collect();
        assert_eq!(found, [0, 63, 67, 129]);
    }
}
