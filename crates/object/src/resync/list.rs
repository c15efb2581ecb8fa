// SPDX-License-Identifier: Apache-2.0
//! What a returning component has to get (rules 30, 33).

use super::{Aborted, check_joined};
use crate::owner::Owner;
use base::{CHUNK_SECTORS, ComponentId, HostId, Lsn, SectorRange};
use std::rc::Rc;
use std::time::Duration;
use wire::{Request, Response, Target};

/// Attempts with a source that does not answer, before the resync is given up.
const TRIES_MAX: usize = 20;
/// Between two of them.
const RETRY: Duration = Duration::from_millis(100);

/// The answer of one component: ranges changed since, and which chunks it holds.
struct Listed {
    ranges: Vec<SectorRange>,
    held: Vec<u64>,
}

impl Listed {
    fn holds(&self, chunk: usize) -> bool {
        self.held.get(chunk / 64).is_some_and(|word| word >> (chunk % 64) & 1 == 1)
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
    let (host, target) = {
        let state = owner.state.borrow();
        let leg = state.leg(component).ok_or(Aborted::Failed)?;
        (leg.host, leg.target(owner.id, owner.term))
    };
    let own = page_through(owner, host, target, left).await.ok_or(Aborted::Failed)?;
    check_joined(owner, component)?;
    let mutations = owner.options().mutations;
    let (forget_own, forget_discarded) = (mutations.forget_own_tail, mutations.forget_discarded);
    let mut state = owner.state.borrow_mut();
    let resync = state.resyncs.get_mut(&component).ok_or(Aborted::Stopped)?;
    for range in source.ranges.iter().chain(own.ranges.iter().filter(|_| !forget_own)) {
        resync.dirty.insert(*range);
    }
    let chunks = usize::try_from(owner.sectors.div_ceil(CHUNK_SECTORS)).unwrap_or(usize::MAX);
    for chunk in 0..chunks {
        if own.holds(chunk) != source.holds(chunk) && !forget_discarded {
            let start = chunk as u64 * CHUNK_SECTORS;
            let count = CHUNK_SECTORS.min(owner.sectors - start);
            resync.dirty.insert(SectorRange::new(start, count));
        }
    }
    tracing::trace!(object = %owner.id, ?source.ranges, ?own.ranges, "changed");
    tracing::info!(
        object = %owner.id, %component, %left, bytes = resync.dirty.bytes(), "resync begins"
    );
    Ok(())
}

/// From any active component; another one when it fails (rule 36).
async fn from_source(
    owner: &Rc<Owner>,
    component: ComponentId,
    left: Lsn,
) -> Result<Listed, Aborted> {
    for _ in 0..TRIES_MAX {
        check_joined(owner, component)?;
        if let Some(source) = owner.source(0) {
            if let Some(listed) = page_through(owner, source.host, source.target, left).await {
                return Ok(listed);
            }
            // Without client I/O nobody else notices that it does not know the session any more.
            owner.break_leg(source.component, source.session, "a list failed");
        }
        owner.env().sleep(RETRY).await;
    }
    Err(Aborted::Failed)
}

async fn page_through(
    owner: &Rc<Owner>,
    host: HostId,
    target: Target,
    since: Lsn,
) -> Option<Listed> {
    let mut listed = Listed { ranges: Vec::new(), held: Vec::new() };
    let chunks = owner.sectors.div_ceil(CHUNK_SECTORS);
    let words = usize::try_from(chunks.div_ceil(64)).unwrap_or(usize::MAX);
    listed.held.resize(words, 0);
    let mut cursor = 0;
    loop {
        let request = Request::ListChanged { target, since, cursor };
        let answer = owner.context.peers.call(host, request).await;
        let Ok(Response::Changed { ranges, held, next }) = answer else {
            tracing::debug!(object = %owner.id, ?host, ?answer, "no list of changes");
            return None;
        };
        listed.ranges.extend(ranges);
        for (at, bits) in held.iter().enumerate() {
            for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
                let chunk = cursor + at as u64 * 64 + bit;
                let word = usize::try_from(chunk / 64).unwrap_or(usize::MAX);
                if let Some(word) = listed.held.get_mut(word) {
                    *word |= 1 << (chunk % 64);
                }
            }
        }
        match next {
            None => return Some(listed),
            // A cursor that does not move on would never end.
            Some(next) if next > cursor && next < chunks => cursor = next,
            Some(_) => return None,
        }
    }
}
