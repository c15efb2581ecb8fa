// SPDX-License-Identifier: Apache-2.0
//! K for replicas that no frame tells it (rules 6, 17).

use crate::owner::leg::{Leg, LegState};
use crate::owner::state::{Owner, Phase};
use base::{ComponentId, Lsn, Map, Session, ShardId};
use directory::ComponentState;
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use wire::{Request, Target};

/// A Fence that is not answered by then waits for something.
const FENCE_SLOW: Duration = Duration::from_millis(300);
/// How often components that are not active are told K.
const AWAY: Duration = Duration::from_secs(1);

impl Owner {
    /// Tells K to the replicas when no frame did for a while, so that they can destage.
    pub(in crate::owner) async fn tell_commit(self: Rc<Self>) {
        let told: Rc<RefCell<Map<ComponentId, Lsn>>> = Rc::default();
        let mut away_at = self.now();
        loop {
            self.env().sleep(self.options().commit_idle).await;
            self.send_commit();
            if self.now() >= away_at {
                away_at = self.now() + AWAY;
                self.send_commit_to_away(&told);
            }
        }
    }

    /// Tells K to components that are not active, once for each K. They have no session, and what
    /// they have above K fills their log: no other component of their disk group may find room
    /// before they return, and without room none does. `told`: what they were told last.
    fn send_commit_to_away(self: &Rc<Self>, told: &Rc<RefCell<Map<ComponentId, Lsn>>>) {
        let (commit, away) = {
            let state = self.state.borrow();
            let is_live = |id| state.leg(id).is_some_and(|leg| leg.link == LegState::Live);
            let components = state.record.components.iter();
            let away = components.filter(|c| c.state != ComponentState::Active && !is_live(c.id));
            let away: Vec<_> = away.map(|c| (c.id, c.shard, c.seat)).collect();
            (state.commit(), away)
        };
        told.borrow_mut().retain(|id, _| away.iter().any(|(component, ..)| component == id));
        for (component, shard, seat) in away {
            let is_up = shard == self.context.me.shard || self.context.peers.is_up(shard);
            if !is_up || told.borrow().get(&component) == Some(&commit) {
                continue;
            }
            let target =
                Target { object: self.id, component, term: self.term, seat, session: Session(0) };
            let call = self.context.ask(shard, Request::CommitInfo { target, commit });
            let told = Rc::clone(told);
            self.spawn("commit info", async move {
                // It has no session, and says so.
                if call.await.is_ok() {
                    told.borrow_mut().insert(component, commit);
                }
            });
        }
    }

    /// Tells K to a component that is slow to answer its Fence, again and again; never ends. A full
    /// log makes room by what is at or below K alone, the Fence waits for appends that wait for
    /// room, and before it is answered no frame tells K. During a take-over nothing is known of K.
    pub(in crate::owner) async fn tell_while_fencing(
        &self,
        shard: ShardId,
        target: Target,
    ) -> Infallible {
        loop {
            self.env().sleep(FENCE_SLOW).await;
            if self.phase() == Phase::Serving {
                let commit = self.commit();
                // It is answered as one without a session; what it says is heard.
                drop(self.context.peers.call(shard, Request::CommitInfo { target, commit }));
            }
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
                (leg.shard, before, target, Request::CommitInfo { target, commit })
            });
            (commit, requests.collect())
        };
        for (shard, before, target, request) in requests {
            let call = self.context.ask(shard, request);
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
