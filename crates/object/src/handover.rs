// SPDX-License-Identifier: Apache-2.0
//! The giving side of a hand-over (rule 53).

use crate::owner::{ChangeError, Leg, LegState, Owner, Phase};
use crate::record;
use base::{Quirk, Session, ShardId, Term, Version};
use env::join_all;
use std::rc::Rc;
use std::time::Duration;
use wire::{Request, Target};

/// How long writes in flight may take to end before the hand-over is called off.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// How long the components may take to learn whose they are.
const CONSENT_MAX: Duration = Duration::from_secs(1);

/// How long the directory may take to show that it is there.
const DIRECTORY_MAX: Duration = Duration::from_millis(500);

/// Stops taking I/O, waits until the writes in flight are complete, and makes `to` the owner.
///
/// True once the CAS is known to have landed: this owner is over then. False where nothing was
/// handed over: this owner goes on serving, or is over for another reason.
pub(crate) async fn hand_over(owner: &Rc<Owner>, to: directory::OwnerRecord) -> bool {
    // Without the directory the CAS below cannot land. So it is asked first, before I/O stops for
    // nothing.
    let key = directory::object_key(owner.id);
    let asked = owner.context.directory.get(&key);
    if !matches!(owner.env().timeout(DIRECTORY_MAX, asked).await, Ok(Ok(_))) {
        return false;
    }
    {
        let mut state = owner.state.borrow_mut();
        if state.phase != Phase::Serving {
            return false;
        }
        state.phase = Phase::HandingOver;
    }
    owner.changed.notify();
    let undrained = owner.options().mutations.hand_over_undrained();
    let is_drained = undrained || owner.env().timeout(DRAIN_MAX, owner.drain()).await.is_ok();
    if is_drained {
        owner.send_commit();
        owner.env().linger(Quirk::HandOverLingers).await;
        let changed = owner
            .change(|state| {
                let is_empty = undrained || state.window.live() == 0;
                let is_clean = state.phase == Phase::HandingOver && is_empty;
                is_clean.then(|| record::hand_over(&state.record, to, state.commit()))
            })
            .await;
        match changed {
            Ok(()) => {
                consent(owner, to).await;
                owner.step_down("handed over");
                return true;
            }
            Err(ChangeError::Stopped) => return false,
            Err(ChangeError::Unavailable | ChangeError::Nothing) => {}
        }
    }
    let mut state = owner.state.borrow_mut();
    if state.phase == Phase::HandingOver {
        state.phase = Phase::Serving;
    }
    drop(state);
    owner.changed.notify();
    false
}

/// Tells every component whose it is now ([`consents`]).
async fn consent(owner: &Rc<Owner>, to: directory::OwnerRecord) {
    if owner.env().quirk(Quirk::ConsentSkipped) {
        return;
    }
    let (version, term, claims) = {
        let state = owner.state.borrow();
        assert!(state.phase != Phase::Serving, "consent of an owner that still answers");
        (state.record.version, state.record.term, crate::record::claims(&state.record))
    };
    let to = wire::OwnerId { shard: to.shard, incarnation: to.incarnation };
    let peers = &owner.context.peers;
    let requests = consents(owner, version, term, to, &claims).into_iter();
    let calls = requests.map(|(shard, request)| peers.call(shard, request)).collect();
    // Best effort: a component that misses it makes the new owner wait, no more.
    drop(owner.env().timeout(CONSENT_MAX, join_all(calls)).await);
}

/// The old owner's consent (rule 52b: "or the old one consented"): a Fence on behalf of the new
/// owner `to`, one for each component with a session. The old owner sends them once it has stopped
/// answering.
///
/// Without consent the new owner would have to wait until the grants of this host run out, which go
/// on being renewed for its other objects. The session of these Fences is below every one that the
/// new owner uses, so they outdate none of them.
pub(crate) fn consents(
    owner: &Owner,
    version: Version,
    term: Term,
    to: wire::OwnerId,
    claims: &wire::Claims,
) -> Vec<(ShardId, Request)> {
    let state = owner.state.borrow();
    let live = state.legs.iter().filter(|leg| leg.link == LegState::Live);
    let fence = |leg: &Leg| {
        let target = Target { term, session: Session(0), ..leg.target(owner.id, term) };
        let claims = claims.clone();
        (leg.shard, Request::Fence { target, version, owner: to, create: None, claims })
    };
    live.map(fence).collect()
}
