// SPDX-License-Identifier: Apache-2.0
//! One task per leg: opens sessions again, and gives a component up when that fails (rules 14-18).

use super::fence::{Fence, FenceAnswer};
use crate::owner::change::ChangeError;
use crate::owner::leg::{Leg, LegRole, LegState};
use crate::owner::state::{Owner, Phase};
use crate::record::{self, Leave};
use base::{ComponentId, Incarnation, Instant, Lsn, ShardId};
use std::rc::Rc;
use std::time::Duration;

/// Between two attempts to open a session again.
const RETRY: Duration = Duration::from_millis(50);
/// How often a live leg is looked at for lack of progress.
const LOOK: Duration = Duration::from_secs(1);

/// What a keeper has to know about its leg.
struct View {
    link: LegState,
    role: LegRole,
    seat: base::Seat,
    session: base::Session,
    waiting_since: Option<Instant>,
    shard: ShardId,
    /// Which run of its host was fenced, and at which grant epoch.
    run: Option<Incarnation>,
    epoch: u64,
}

impl Owner {
    /// Keeps the leg of `component` until it is given up or the owner ends.
    pub(crate) fn keep(self: &Rc<Self>, component: ComponentId) {
        let owner = Rc::clone(self);
        self.spawn("leg", async move { owner.keep_leg(component).await });
    }

    fn view(&self, component: ComponentId) -> Option<View> {
        let state = self.state.borrow();
        let leg = state.leg(component)?;
        let (link, role, seat, session) = (leg.link, leg.role, leg.seat, leg.session);
        let (waiting_since, shard) = (leg.waiting_since(), leg.shard);
        let run = leg.fenced.and_then(|fenced| fenced.incarnation);
        let epoch = leg.fenced.map_or(u64::MAX, |fenced| fenced.grant_epoch);
        Some(View { link, role, seat, session, waiting_since, shard, run, epoch })
    }

    async fn keep_leg(self: Rc<Self>, component: ComponentId) {
        let mut gone_since: Option<Instant> = None;
        loop {
            let changed = self.changed.wait();
            let Some(view) = self.view(component) else { return };
            match view.link {
                LegState::Live => {
                    let late = view
                        .waiting_since
                        .is_some_and(|since| self.now().since(since) >= self.options().progress);
                    if late {
                        self.break_leg(component, view.session, "no progress");
                        continue;
                    }
                    // A later run knows no session, and perhaps not even the component: nobody else
                    // would notice while nothing is read or written.
                    let is_anew =
                        view.run.is_some() && self.context.peers.incarnation(view.shard) > view.run;
                    if is_anew {
                        self.break_leg(component, view.session, "its host was started anew");
                        continue;
                    }
                    // Nor does one whose disk group was closed.
                    if self.context.leases.has_closed_since(view.shard, view.run, view.epoch) {
                        self.break_leg(component, view.session, "a disk group there was closed");
                        continue;
                    }
                    // Rule 18: while nobody waits for it a host may come and go for a while. Writes
                    // end the session by themselves; reads wait for the host's grant.
                    let is_gone = !self.context.peers.is_up(view.shard);
                    gone_since = is_gone.then(|| gone_since.unwrap_or(self.now()));
                    let is_wanted = self.reads_waiting.get() > 0;
                    let patience = if is_wanted { Duration::ZERO } else { self.options().idle };
                    if gone_since.is_some_and(|at| self.now().since(at) >= patience) {
                        gone_since = None;
                        self.break_leg(component, view.session, "its host is gone");
                        continue;
                    }
                    env::select(changed, self.env().sleep(LOOK)).await;
                }
                LegState::Broken(_) if view.role == LegRole::Active => self.revive(component).await,
                // A leg on its way back belongs to its resync, which gives up and begins again.
                LegState::Broken(_) => changed.await,
            }
        }
    }

    /// Tries to open a session again at the same term (rule 14). Past the stall time, after a while
    /// without any link, or where the answer calls for it, it also begins to mark the component as
    /// not active. Meanwhile it goes on trying to open a session: without a directory nothing can
    /// be marked, and the way back must stay open (rule 51).
    async fn revive(self: &Rc<Self>, component: ComponentId) {
        let mut no_link_since: Option<Instant> = None;
        loop {
            let Some(view) = self.view(component) else { return };
            let LegState::Broken(since) = view.link else { return };
            let limit = self.options().stall;
            let answer = self.fence(component, view.seat, false, limit).await;
            let now = self.now();
            let mut leave = None;
            let mut pause = RETRY;
            match answer {
                FenceAnswer::Fenced(fence) => {
                    leave = self.worse_than_known(component, &fence);
                    if leave.is_none() && self.open_session(component, &fence) {
                        return;
                    }
                }
                FenceAnswer::HigherTerm(_) => return self.step_down("a fence was refused"),
                FenceAnswer::FromTheFuture => {
                    self.doubt().await;
                    return self.step_down("the directory went back in time");
                }
                FenceAnswer::Unknown => leave = Some(Leave::Lost(Lsn::ZERO)),
                FenceAnswer::Closed => leave = Some(Leave::Absent),
                FenceAnswer::Wait(wait) => pause = wait.clamp(RETRY, limit),
                FenceAnswer::Unreachable => {
                    let dead_since = *no_link_since.get_or_insert(now);
                    if now.since(dead_since) >= self.options().dead_after {
                        leave = Some(Leave::Absent);
                    }
                }
                FenceAnswer::Outdated if !self.may_leave(component) => {
                    base::hit(base::Probe::SteppedDownOutdated);
                    return self.step_down("its last copy failed a write of this term");
                }
                FenceAnswer::Silent | FenceAnswer::Outdated => no_link_since = None,
            }
            if now.since(since) >= self.options().stall {
                leave = leave.or(Some(Leave::Absent));
            }
            if let Some(leave) = leave {
                self.begin_leave(component, leave);
            }
            self.env().sleep(pause).await;
        }
    }

    /// Rule 19: damage that it admits, or that shows because less is durable than it had answered.
    fn worse_than_known(&self, component: ComponentId, fence: &Fence) -> Option<Leave> {
        let acked = self.state.borrow().leg(component).map_or(Lsn::ZERO, |leg| leg.acked);
        let kept = fence.kept.or((fence.durable < acked).then_some(fence.destaged))?;
        base::hit(base::Probe::AdmittedLoss);
        tracing::warn!(object = %self.id, %component, %kept, "a component admits a loss");
        Some(Leave::Lost(kept))
    }

    /// Gives `component` up beside the attempts to reach it: where the directory does not answer
    /// the CAS stays in doubt, and the way back must stay open (rules 16, 51).
    fn begin_leave(self: &Rc<Self>, component: ComponentId, leave: Leave) {
        {
            let mut state = self.state.borrow_mut();
            let Some(leg) = state.leg_mut(component) else { return };
            if std::mem::replace(&mut leg.is_leaving, true) {
                return;
            }
        }
        let owner = Rc::clone(self);
        self.spawn("leave", async move {
            owner.give_up(component, leave).await;
            if let Some(leg) = owner.state.borrow_mut().leg_mut(component) {
                leg.is_leaving = false;
            }
        });
    }

    /// Takes `component` out of the active ones: CAS, and only after its success was learned the
    /// leg is removed and writes complete without it (rule 15). Does nothing for the last active
    /// one, and nothing where the directory is not reached (rule 51).
    pub(crate) async fn give_up(self: &Rc<Self>, component: ComponentId, leave: Leave) {
        if self.options().mutations.complete_before_absent() && self.may_leave(component) {
            self.remove_leg(component);
        }
        if self.mark(&[(component, leave)]).await.is_ok() {
            self.remove_leg(component);
        }
    }

    fn may_leave(&self, component: ComponentId) -> bool {
        let state = self.state.borrow();
        record::mark(&state.record, &[(component, Leave::Absent)], state.commit()).is_some()
    }

    /// One CAS that takes `gone` out of the active ones, with `left` := K at that moment (rule 17).
    pub(crate) async fn mark(
        self: &Rc<Self>,
        gone: &[(ComponentId, Leave)],
    ) -> Result<(), ChangeError> {
        let wrong = self.options().mutations.left_from_new_term();
        let marked = self
            .change(|state| {
                let left = if wrong { state.window.given() } else { state.commit() };
                record::mark(&state.record, gone, left)
            })
            .await;
        if marked.is_ok() {
            for (component, leave) in gone {
                base::hit(base::Probe::MarkedAbsent);
                tracing::warn!(object = %self.id, %component, ?leave, "component left");
            }
        }
        marked
    }

    /// Rule 7: a device failed. The last active one cannot leave: its writes fail.
    pub(crate) async fn degrade(self: Rc<Self>, component: ComponentId) {
        let role = self.state.borrow().leg(component).map(|leg| leg.role);
        if role != Some(LegRole::Active) {
            return; // its resync notices the broken leg
        }
        loop {
            match self.mark(&[(component, Leave::Degraded)]).await {
                Ok(()) => return self.remove_leg(component),
                Err(ChangeError::Stopped) => return,
                Err(ChangeError::Nothing) => return self.fail_writes(component),
                Err(ChangeError::Unavailable) => self.env().sleep(RETRY).await,
            }
            if self.view(component).is_none_or(|view| view.link == LegState::Live) {
                return;
            }
        }
    }

    /// The only component left cannot take writes: with a single copy the range is equal
    /// everywhere by itself, so the clients may learn of it (rule 7). K stays below for good.
    fn fail_writes(&self, component: ComponentId) {
        let tickets = {
            let mut state = self.state.borrow_mut();
            let active = |leg: &&Leg| leg.role != LegRole::Joining;
            if state.legs.iter().filter(active).any(|leg| leg.component != component) {
                return;
            }
            if state.phase != Phase::Serving {
                return;
            }
            state.prefer = None;
            state.window.drain()
        };
        for ticket in tickets {
            ticket.finish(Err(crate::status::ObjectError::Io));
        }
        self.step_down("the only component left has failed");
    }
}
