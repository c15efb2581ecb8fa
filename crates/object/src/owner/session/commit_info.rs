// SPDX-License-Identifier: Apache-2.0
//! K for replicas that no frame tells it (rules 6, 17).

use crate::owner::leg::{Leg, LegState};
use crate::owner::state::Owner;
use std::rc::Rc;

impl Owner {
    /// Tells K to the replicas when no frame did for a while, so that they can destage.
    pub(in crate::owner) async fn tell_commit(self: Rc<Self>) {
        loop {
            self.env().sleep(self.options().commit_idle).await;
            self.send_commit();
        }
    }

    /// One CommitInfo to every live leg that has not been told the current K, and to those that are
    /// full: they say when they are not any more.
    pub(crate) fn send_commit(self: &Rc<Self>) {
        let (commit, requests): (_, Vec<_>) = {
            let mut state = self.state.borrow_mut();
            let commit = state.commit();
            let stale =
                |leg: &&mut Leg| leg.link == LegState::Live && (leg.told < commit || leg.is_full());
            let legs = state.legs.iter_mut().filter(stale);
            let requests = legs.map(|leg| {
                let before = std::mem::replace(&mut leg.told, commit);
                let target = leg.target(self.id, self.term);
                (leg.host, before, target, wire::Request::CommitInfo { target, commit })
            });
            (commit, requests.collect())
        };
        for (host, before, target, request) in requests {
            let call = self.context.ask(host, request);
            let owner = Rc::clone(self);
            self.spawn("commit info", async move {
                let answer = call.await;
                let mut state = owner.state.borrow_mut();
                let leg = state.leg_mut(target.component);
                let Some(leg) = leg.filter(|leg| leg.session == target.session) else { return };
                match answer {
                    Ok(wire::Response::Durable { free_chunks, .. }) => {
                        leg.free_chunks = free_chunks;
                    }
                    // The session may outlive a link that is reset: the next turn tells it again.
                    Err(_) if leg.told == commit => leg.told = before,
                    // A later frame told it more, or there is no session any more.
                    _ => {}
                }
            });
        }
    }
}
