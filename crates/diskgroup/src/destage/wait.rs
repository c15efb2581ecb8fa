// SPDX-License-Identifier: Apache-2.0
//! What destage waits for.

use super::batch::Found;
use crate::standing::{DestageWait, WaitsFor};
use crate::state::GroupInner;
use crate::types::GroupError;
use base::{Instant, Lsn, Map};
use env::{Either, select};

/// Waits for a kick, or for a time.
pub(super) async fn wait(
    inner: &GroupInner,
    kick: impl Future<Output = ()>,
    what: WaitsFor,
    until: Option<Instant>,
) {
    {
        let mut state = inner.state.borrow_mut();
        state.destage.wait = Some(DestageWait { what, has_timer: until.is_some() });
        state.pace.rest();
    }
    match until {
        Some(at) => match select(kick, inner.env.sleep_until(at)).await {
            Either::First(()) | Either::Second(()) => {}
        },
        None => kick.await,
    }
    let mut state = inner.state.borrow_mut();
    state.destage.wait = None;
    state.pace.go_on(inner.env.now());
    if what == WaitsFor::Work {
        state.destage.progressed_at = inner.env.now();
    }
}

/// Waits until nothing live in the segment is above K, or until appends are held back: then such
/// entries are moved.
pub(super) async fn wait_for_commit(
    inner: &GroupInner,
    segment: u64,
    found: &[Found],
) -> Result<(), GroupError> {
    if inner.options.mutations.destage_uncommitted() {
        return Ok(());
    }
    let mut highest: Map<u32, Lsn> = Map::new();
    {
        let state = inner.state.borrow();
        for found in found {
            let serial = found.entry.serial;
            let commit = state.store.components.get(serial).map_or(Lsn::MAX, |c| c.row.commit);
            if found.entry.lsn > commit && found.is_live(&state, segment) {
                let lsn = highest.entry(serial).or_default();
                *lsn = (*lsn).max(found.entry.lsn);
            }
        }
    }
    loop {
        let kick = inner.destage_kick.wait();
        inner.check_open()?;
        {
            let mut state = inner.state.borrow_mut();
            highest.retain(|serial, lsn| {
                state.store.components.get(*serial).is_some_and(|c| c.row.commit < *lsn)
            });
            // Segments that are written but not free count as full here: they may be all the room
            // that appends wait for.
            let fill = state.fill_of_segments();
            // Moving frees nothing if the whole ring holds only entries above K.
            let moved = state.destage.moved_in_row;
            let may_move = moved < u64::from(state.log.layout.segments) * 2;
            if highest.is_empty() || (state.pace.is_pressed(fill) && may_move) {
                state.destage.moved_in_row = if highest.is_empty() { 0 } else { moved + 1 };
                return Ok(());
            }
            base::hit(base::Probe::DestageWaited);
        }
        wait(inner, kick, WaitsFor::Commit, None).await;
        inner.state.borrow_mut().destage.moved_in_row = 0;
    }
}
