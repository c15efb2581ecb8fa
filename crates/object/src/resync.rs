// SPDX-License-Identifier: Apache-2.0
//! Return of a component (rules 30-37): when, and the worker that copies.

mod copy;
mod list;

use crate::away::{Aborted, Away, Due};
use crate::context::HostRun;
use crate::owner::{ChangeError, FenceAnswer, FencedAt, LegRole, LegState, Owner, Phase, Resync};
use crate::rate::CopyRate;
use crate::record;
use base::{ComponentId, Instant, Lsn, Map, Quirk, Seat, Set, ShardId};
use directory::ComponentState;
use env::{Either, Permit, select};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use wire::{Request, Response};

/// How often the components that are not active are looked at, at least.
const LOOK: Duration = Duration::from_secs(1);
/// The longest damping pause (rule 18).
const DAMPING_MAX: Duration = Duration::from_secs(600);
/// The longest pause behind a return that failed: it may go on failing for days, where a disk group
/// is out of service.
const FAILED_MAX: Duration = Duration::from_secs(60);
/// After so long without an absence the damping begins anew (rule 18).
const DAMPING_FORGET: Duration = Duration::from_secs(3600);
/// Between two attempts of a CAS that the directory did not take.
const RETRY: Duration = Duration::from_millis(300);

/// A return that is over.
type Ended = (ComponentId, Result<(), Aborted>);

/// Rule 18: a component that comes and goes waits longer each time. One whose return failed waits
/// longer each time, too. Failed returns are forgotten once the host was started anew or wrote its
/// record anew: somebody did something there, so the next return may go well.
#[derive(Default)]
struct Damping {
    absences: Map<ComponentId, (u32, Instant)>,
    failures: Map<ComponentId, (u32, HostRun)>,
}

impl Damping {
    /// Counts an absence and says when its return may begin.
    fn absent(&mut self, id: ComponentId, now: Instant, step: Duration) -> Instant {
        let (count, last) = self.absences.entry(id).or_insert((0, now));
        if now.since(*last) > DAMPING_FORGET {
            *count = 0;
        }
        let pause = step.saturating_mul(1 << (*count).min(16)).min(DAMPING_MAX);
        *count += 1;
        *last = now;
        now + pause
    }

    /// Counts a return that failed, with the component's host as it is, and says when the next may
    /// begin.
    fn failed(&mut self, id: ComponentId, run: HostRun, now: Instant, step: Duration) -> Instant {
        let (count, of) = self.failures.entry(id).or_insert((0, run));
        let pause = step.saturating_mul(1 << (*count).min(16)).min(FAILED_MAX);
        *count += 1;
        *of = run;
        now + pause
    }

    /// Whether returns failed, and the component's host changed since: they are forgotten then.
    fn is_past(&mut self, id: ComponentId, run: HostRun) -> bool {
        let is_other = self.failures.get(&id).is_some_and(|(_, of)| *of != run);
        if is_other {
            self.failures.remove(&id);
        }
        is_other
    }

    /// It is active again.
    fn returned(&mut self, id: ComponentId) {
        self.failures.remove(&id);
    }
}

/// Starts the return of every component that is not active and whose host can be reached. Ends
/// with the owner.
pub(crate) async fn watch_returns(owner: Rc<Owner>) {
    let mut damping = Damping::default();
    let running: Rc<RefCell<Set<ComponentId>>> = Rc::default();
    let ended: Rc<RefCell<Vec<Ended>>> = Rc::default();
    while !owner.is_stopped() {
        let changed = owner.changed.wait();
        let links = owner.context.peers.changes();
        let links = links.wait();
        let (now, step) = (owner.now(), owner.options().damping);
        let away = away(&owner);
        for (component, outcome) in ended.take() {
            let shard = away.iter().find(|(id, _)| *id == component).map(|(_, shard)| *shard);
            let mut due = owner.due.borrow_mut();
            due.remove(&component);
            match (shard, outcome) {
                (Some(shard), Err(failure)) => {
                    let run = owner.context.run(shard);
                    let at = damping.failed(component, run, now, step);
                    due.insert(component, Due { at, failure: Some(failure) });
                }
                _ => damping.returned(component),
            }
        }
        let is_away = |id: &ComponentId| away.iter().any(|(component, _)| component == id);
        owner.due.borrow_mut().retain(|id, _| is_away(id));
        for (component, shard) in away {
            if running.borrow().contains(&component) {
                continue;
            }
            let at = {
                let mut due = owner.due.borrow_mut();
                if damping.is_past(component, owner.context.run(shard)) {
                    due.insert(component, Due { at: now, failure: None });
                }
                let first = || Due { at: damping.absent(component, now, step), failure: None };
                due.entry(component).or_insert_with(first).at
            };
            if now < at || !is_up(&owner, shard) || owner.phase() != Phase::Serving {
                continue;
            }
            running.borrow_mut().insert(component);
            let (owner2, running) = (Rc::clone(&owner), Rc::clone(&running));
            let ended = Rc::clone(&ended);
            owner.spawn("resync", async move {
                let outcome = bring_back(&owner2, component).await;
                tracing::info!(object = %owner2.id, %component, ?outcome, "resync ended");
                running.borrow_mut().remove(&component);
                ended.borrow_mut().push((component, outcome));
                owner2.changed.notify();
            });
        }
        let event = env::select(changed, links);
        env::select(event, owner.env().sleep(LOOK)).await;
    }
}

fn is_up(owner: &Owner, shard: ShardId) -> bool {
    shard == owner.context.me.shard || owner.context.peers.is_up(shard)
}

impl Owner {
    /// Why a component is not active; nothing where it is, or is on its way.
    pub(crate) fn away(&self, component: &directory::ComponentRecord) -> Option<Away> {
        if component.state == ComponentState::Active {
            return self.unheard(component.id);
        }
        if !is_up(self, component.shard) {
            return Some(Away::Unreachable);
        }
        let is_returning = self.state.borrow().resyncs.contains_key(&component.id);
        let due = self.due.borrow().get(&component.id).copied().filter(|_| !is_returning)?;
        let left = due.at.since(self.now());
        match due.failure {
            Some(Aborted::Closed) => Some(Away::GroupClosed(left)),
            Some(_) => Some(Away::Failed(left)),
            None if left > Duration::ZERO => Some(Away::Paused(left)),
            None => None,
        }
    }

    fn unheard(&self, component: ComponentId) -> Option<Away> {
        let state = self.state.borrow();
        let pending = state.pending.as_ref();
        let is_leaving = pending.is_some_and(|next| !record::is_active(next, component));
        match state.leg(component)?.link {
            _ if state.phase != Phase::Serving => None,
            LegState::Broken(since) => Some(Away::Unheard(self.now().since(since))),
            LegState::Live => is_leaving.then_some(Away::Unheard(Duration::ZERO)),
        }
    }
}

/// Components that are not active, with their hosts.
fn away(owner: &Owner) -> Vec<(ComponentId, ShardId)> {
    let state = owner.state.borrow();
    let away = state.record.components.iter().filter(|c| c.state != ComponentState::Active);
    away.map(|component| (component.id, component.shard)).collect()
}

/// One attempt, from absent to active.
async fn bring_back(owner: &Rc<Owner>, component: ComponentId) -> Result<(), Aborted> {
    let _turn = turn(owner).await;
    change(owner, |record| record::begin_resync(record, component)).await?; // rule 31
    let outcome = run(owner, component).await;
    let Err(aborted) = outcome else {
        base::hit(base::Probe::ResyncJoined);
        return Ok(());
    };
    base::hit(base::Probe::ResyncFailed);
    // Rule 36: resyncing -> absent, `left` unchanged. It was not required (or its CAS surely did
    // not land), so its writes may complete without it at once.
    owner.remove_leg(component);
    owner.state.borrow_mut().resyncs.remove(&component);
    if aborted != Aborted::Stopped {
        let kept = if let Aborted::Lost(kept) = aborted { Some(kept) } else { None };
        // Not needed for safety: the next attempt begins at 31 from any state.
        change(owner, |record| record::abort_resync(record, component, kept)).await?;
    }
    Err(aborted)
}

/// Waits for a turn: few return at a time per host, and those first of whose object the fewest
/// copies are whole. Whoever waits here holds nothing.
async fn turn(owner: &Owner) -> Permit {
    let room = &owner.context.resync_room;
    base::hit_if(room.in_use() >= owner.options().limits.resyncs, base::Probe::ResyncWaited);
    let whole = || record::active_count(&owner.state.borrow().record);
    loop {
        let copies = whole();
        let is_other = async || {
            loop {
                let changed = owner.changed.wait();
                if whole() != copies {
                    return;
                }
                changed.await;
            }
        };
        // Another place in the queue for whoever lost a copy meanwhile.
        if let Either::First(turn) = select(room.acquire_after(1, copies), is_other()).await {
            return turn;
        }
    }
}

async fn change(
    owner: &Rc<Owner>,
    compose: impl Fn(&directory::ObjectRecord) -> Option<directory::ObjectRecord>,
) -> Result<(), Aborted> {
    match owner.change(|state| compose(&state.record)).await {
        Ok(()) => Ok(()),
        Err(ChangeError::Stopped) => Err(Aborted::Stopped),
        Err(ChangeError::Unavailable) => Err(Aborted::Unavailable),
        Err(ChangeError::Nothing) => Err(Aborted::Failed),
    }
}

/// Between the CAS of 31 and that of 35.
async fn run(owner: &Rc<Owner>, component: ComponentId) -> Result<(), Aborted> {
    let (seat, left, is_new) = {
        let state = owner.state.borrow();
        let record = record::component(&state.record, component).ok_or(Aborted::Failed)?;
        (record.seat, record.left, record.replaces.is_some())
    };
    open(owner, component, seat, left).await?;
    owner.env().linger(Quirk::ListLingers).await;
    if !(is_new && owner.options().mutations.join_unfilled()) {
        list::fill(owner, component, left).await?; // rule 33: after the session stands
    }
    copy::run(owner, component).await?; // rules 32, 34
    finish(owner, component).await // rule 35
}

/// Fences the target at its new seat; from that moment (S) every new write goes to it or is dirty
/// there, and what is in flight counts as dirty (rules 31, 32).
async fn open(
    owner: &Rc<Owner>,
    component: ComponentId,
    seat: Seat,
    left: Lsn,
) -> Result<(), Aborted> {
    let limit = owner.options().lease_ttl * 2;
    let begun = owner.now();
    let fence = loop {
        // Nothing is promised of a component with `left` zero: it may be made anew.
        let create = left == Lsn::ZERO;
        match owner.fence(component, seat, create, owner.options().stall).await {
            FenceAnswer::Fenced(fence) => break fence,
            FenceAnswer::HigherTerm(_) => {
                owner.step_down("a returning component refuses this term");
                return Err(Aborted::Stopped);
            }
            FenceAnswer::FromTheFuture => {
                owner.doubt().await;
                owner.step_down("the directory went back in time");
                return Err(Aborted::Stopped);
            }
            FenceAnswer::Unknown => return Err(Aborted::Lost(Lsn::ZERO)),
            FenceAnswer::Closed => return Err(Aborted::Closed),
            FenceAnswer::Wait(pause) if owner.now().since(begun) < limit => {
                owner.env().sleep(pause.clamp(RETRY, limit)).await;
            }
            _ => return Err(Aborted::Failed),
        }
    };
    if let Some(kept) = fence.kept.filter(|kept| *kept < left) {
        return Err(Aborted::Lost(kept)); // rule 19
    }
    if owner.is_stopped() {
        return Err(Aborted::Stopped);
    }
    if record::component(&owner.state.borrow().record, component).is_none() {
        return Err(Aborted::Failed); // taken out of the record meanwhile
    }
    owner.add_leg(component, LegRole::Joining);
    {
        let mut state = owner.state.borrow_mut();
        let mut dirty = crate::dirty::DirtySet::new(owner.sectors);
        let forgets = owner.options().mutations.forget_missed_write();
        for range in state.window.in_flight().filter(|_| !forgets) {
            dirty.insert(range);
        }
        let rate = CopyRate::new(owner.now());
        state.resyncs.insert(component, Resync { dirty, copies: 0, copies_bytes: 0, rate });
    }
    if !owner.open_session(component, &fence) {
        return Err(Aborted::Failed);
    }
    owner.keep(component);
    Ok(())
}

/// Whether the target's session still stands (rule 36).
fn check_joined(owner: &Owner, component: ComponentId) -> Result<(), Aborted> {
    let state = owner.state.borrow();
    if state.phase == Phase::Stopped {
        return Err(Aborted::Stopped);
    }
    match state.leg(component) {
        Some(leg) if leg.link == LegState::Live => Ok(()),
        _ => Err(Aborted::Failed),
    }
}

/// Rule 35: required first, then everything answered, then the CAS.
async fn finish(owner: &Rc<Owner>, component: ComponentId) -> Result<(), Aborted> {
    check_joined(owner, component)?;
    let switched_at = {
        let mut guard = owner.state.borrow_mut();
        let state = &mut *guard;
        let clean = state.resyncs.get(&component).is_some_and(|r| r.dirty.is_empty());
        assert!(clean, "a resync ends with something left to copy");
        let Some(leg) = state.legs.iter_mut().find(|leg| leg.component == component) else {
            return Err(Aborted::Failed);
        };
        assert!(state.window.all_sent_to(leg.bit), "a write in flight does not know the target");
        leg.role = LegRole::Required;
        state.window.given()
    };
    // What was sent up to the switch is answered by the target; what comes later requires it.
    loop {
        let (drained, changed) = (owner.drained.wait(), owner.changed.wait());
        check_joined(owner, component)?;
        let is_granted = is_granted(owner, component)?;
        if is_granted && is_answered(owner, component, switched_at) {
            break;
        }
        let granted = owner.context.leases.changed().wait();
        let event = env::select(env::select(drained, changed), granted);
        env::select(event, owner.env().sleep(RETRY)).await;
    }
    tell_clients(owner, component).await?;
    let replaced = record::replaced_by(&owner.state.borrow().record, component);
    if let Some(old) = replaced {
        owner.take_out_too_early(old).await;
    }
    owner.env().linger(Quirk::JoinLingers).await;
    loop {
        // Required stays in force from before the CAS is sent until its outcome is known.
        match change(owner, |record| record::activate(record, component)).await {
            Ok(()) => break,
            Err(Aborted::Unavailable) => {
                owner.env().sleep(RETRY).await;
                check_joined(owner, component)?;
            }
            Err(other) => return Err(other),
        }
    }
    {
        let mut state = owner.state.borrow_mut();
        state.resyncs.remove(&component);
        let Some(leg) = state.leg_mut(component) else { return Err(Aborted::Stopped) };
        leg.role = LegRole::Active;
    }
    if let Some(old) = replaced {
        base::hit(base::Probe::ComponentReplaced);
        tracing::info!(object = %owner.id, %old, new = %component, "a component was replaced");
        owner.lose(old); // rule 39: only now
    }
    owner.changed.notify();
    Ok(())
}

/// Rule 46: what the copies brought. Every write in flight was sent to the target before this, so
/// that it has, or gets before this is durable, the effect of all requests in the table; later
/// ones say so themselves.
async fn tell_clients(owner: &Rc<Owner>, component: ComponentId) -> Result<(), Aborted> {
    if owner.options().mutations.forget_clients() {
        return Ok(());
    }
    let ((road, class), request) = {
        let state = owner.state.borrow();
        let leg = state.leg(component).ok_or(Aborted::Failed)?;
        let way = leg.way().ok_or(Aborted::Failed)?;
        assert!(state.window.all_sent_to(leg.bit), "a write in flight does not know the target");
        let target = leg.target(owner.id, owner.term);
        (way, Request::SetClients { target, clients: state.clients.clone() })
    };
    // Behind the writes: it must not be durable before them.
    let told = road.call(class, request);
    match owner.env().timeout(owner.options().progress, told).await {
        Ok(Ok(Response::Done)) => check_joined(owner, component),
        _ => Err(Aborted::Failed),
    }
}

fn is_answered(owner: &Owner, component: ComponentId, upto: Lsn) -> bool {
    let state = owner.state.borrow();
    state.leg(component).is_some_and(|leg| leg.unacked.front().is_none_or(|f| f.lsn > upto))
}

/// Rule 52a: the joining target grants before the CAS. A grant of a later epoch than that of its
/// fence never counts for it (see [`crate::grants`]): it has to be fenced again.
fn is_granted(owner: &Owner, component: ComponentId) -> Result<bool, Aborted> {
    let (shard, fenced) = {
        let state = owner.state.borrow();
        let leg = state.leg(component).ok_or(Aborted::Failed)?;
        (leg.shard, leg.fenced.ok_or(Aborted::Failed)?)
    };
    let leases = &owner.context.leases;
    let FencedAt { at, incarnation, grant_epoch } = fenced;
    if shard == owner.context.me.shard || leases.covers(shard, incarnation, grant_epoch) {
        return Ok(true);
    }
    if leases.has_newer(shard, at, incarnation, grant_epoch) {
        return Err(Aborted::Failed);
    }
    leases.hurry(shard);
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Incarnation;

    #[test]
    fn each_absence_waits_twice_as_long_up_to_ten_minutes() {
        let mut damping = Damping::default();
        let (id, step) = (ComponentId(1), Duration::from_secs(1));
        let mut now = Instant(1);
        let waits: Vec<u64> = (0..12)
            .map(|_| {
                let at = damping.absent(id, now, step);
                let wait = at.since(now).as_secs();
                now = now + Duration::from_secs(60);
                wait
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        now = now + Duration::from_secs(4000);
        assert_eq!(damping.absent(id, now, step).since(now).as_secs(), 1);
    }

    #[test]
    fn a_return_that_failed_waits_up_to_a_minute_or_until_its_host_changes() {
        let mut damping = Damping::default();
        let (id, step, now) = (ComponentId(1), Duration::from_secs(1), Instant(1));
        let run = |number| HostRun { incarnation: Some(Incarnation(number)), record: 7 };
        let failed = |damping: &mut Damping, number| {
            damping.failed(id, run(number), now, step).since(now).as_secs()
        };
        assert!(!damping.is_past(id, run(1)), "nothing failed");
        let waits: Vec<u64> = (0..8).map(|_| failed(&mut damping, 1)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(!damping.is_past(id, run(1)));
        assert!(damping.is_past(id, run(2)), "somebody did something");
        assert_eq!(failed(&mut damping, 2), 1);
        assert!(damping.is_past(id, HostRun { record: 8, ..run(2) }), "it has other disk groups");
        damping.returned(id);
        assert_eq!(failed(&mut damping, 2), 1);
        assert_eq!(damping.absent(id, now, step).since(now).as_secs(), 1, "no absence so far");
    }
}
