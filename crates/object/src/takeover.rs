// SPDX-License-Identifier: Apache-2.0
//! Take-over (rules 22-29) and the receiving side of a hand-over (53).
//!
//! 1. [`claim`]: the CAS that makes me the owner in a new term.
//! 2. [`bring_up`]: fence all active components; the unreached leave by CAS; tails are made equal;
//!    first I/O. A crash anywhere before the end leaves a record from which the next one starts
//!    with 1.

use crate::context::Context;
use crate::dirty::DirtySet;
use crate::history::is_made_anew;
use crate::owner::{
    Cas, ChangeError, Fence, FenceAnswer, LegRole, Owner, ReadSource, SourceAnswer, Ticket,
    WriteContent, compare_and_swap,
};
use crate::record::{self, Leave};
use base::{
    CHUNK_BLOCKS, ComponentId, Lsn, MARKS_MAX, Mark, ObjectId, Quirk, Seat, SectorRange, Term,
    Version,
};
use directory::{AliveRecord, ComponentState, Expect, ObjectRecord, alive_key, object_key};
use env::join_all;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use wire::Marks;

/// Between two Fences to one component.
const FENCE_RETRY: Duration = Duration::from_millis(50);
/// Between two attempts to mark the unreached absent while the directory is away.
const MARK_RETRY: Duration = Duration::from_millis(300);
/// Blocks of one reconciliation copy: a whole chunk, so that no write of the tail is copied in
/// parts and what it says about requests is as true as its data (rule 46).
const COPY_BLOCKS: u64 = CHUNK_BLOCKS;

/// Why a take-over did not lead to a serving owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// Another owner lives.
    Alive(directory::OwnerRecord, Term),
    /// The object is gone.
    Deleted,
    /// The directory does not answer, or its record makes no sense.
    Unavailable,
    /// No active component can be reached (rule 25).
    Inaccessible,
    /// Something changed; begin again, with this component as the source if one is named.
    Again(Option<ComponentId>),
    /// A replica or this host knows this term: the record must show a later owner.
    Outranked(Term),
    /// The directory has forgotten what it once held (rule 25): an operator has to decide.
    RolledBack,
}

/// The newest term in which this process was the owner, and the record's version then.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Used {
    pub(crate) term: Term,
    pub(crate) version: Version,
}

/// Makes me the owner in a new term (rule 22), or finds that I already am in a term that nobody
/// has used: by a hand-over, or by a CAS that landed late (rule 23).
pub(crate) async fn claim(
    context: &Context,
    id: ObjectId,
    used: Used,
) -> Result<(ObjectRecord, u64), Failed> {
    let directory = &context.directory;
    let entry = directory.get(&object_key(id)).await.map_err(|_| Failed::Unavailable)?;
    let Some(entry) = entry else { return Err(Failed::Deleted) };
    let record = ObjectRecord::decode(&entry.value).map_err(|error| {
        tracing::error!(object = %id, %error, "the record in the directory makes no sense");
        Failed::Unavailable
    })?;
    if record.is_doubted {
        return Err(Failed::RolledBack); // rule 25: it is for an operator to make it anew
    }
    let me = context.me_as_owner();
    if record.owner == Some(me) && record.term > used.term {
        return Ok((record, entry.revision));
    }
    let mut also = Vec::new();
    match record.owner {
        // Never owned.
        None => {}
        // By me, who has stepped down in that term and kept nothing of it. Whoever can reach none
        // of the data would claim term after term for nothing, and a record remembers few.
        Some(owner) if owner == me => check_reach(context, &record)?,
        // My own host's earlier run: proven dead by the device lock that I hold.
        Some(owner) if owner.shard == me.shard && owner.incarnation < me.incarnation => {}
        Some(owner) => {
            let key = alive_key(owner.shard);
            let alive = directory.get(&key).await.map_err(|_| Failed::Unavailable)?;
            also.push(match alive {
                None => (key, Expect::Absent),
                Some(alive) => match AliveRecord::decode(&alive.value) {
                    Ok(now) if now.incarnation != owner.incarnation && owner.shard != me.shard => {
                        (key, Expect::Revision(alive.revision))
                    }
                    _ => return Err(Failed::Alive(owner, record.term)),
                },
            });
            // Its key may be gone because it lost the directory alone. Whoever cannot reach any of
            // the data would only stop it, and serve nothing itself.
            check_reach(context, &record)?;
        }
    }
    // Made anew of what its components say, who may not know of every term that was claimed.
    let is_made_anew = is_made_anew(used.version, record.version);
    let next = record::take_over(&record, if is_made_anew { used.term } else { Term(0) }, me);
    if next.term <= used.term {
        // The directory has forgotten a term in which this very process was the owner. Perhaps no
        // component heard of that term, so nobody else can tell.
        return Err(doubt(context, &record, entry.revision).await);
    }
    match compare_and_swap(context, id, entry.revision, &next, &also).await {
        Cas::Won(revision) => {
            base::hit(base::Probe::TakeOverClaimed);
            Ok((next, revision))
        }
        Cas::Lost => Err(Failed::Again(None)),
        Cas::NotSent => Err(Failed::Unavailable),
    }
}

/// Refuses where no component that has everything is here or can be asked now.
fn check_reach(context: &Context, record: &ObjectRecord) -> Result<(), Failed> {
    let mut active = record.components.iter().filter(|c| c.state == ComponentState::Active);
    let can_reach = active.any(|c| c.shard == context.me.shard || context.peers.is_up(c.shard));
    if can_reach { Ok(()) } else { Err(Failed::Inaccessible) }
}

/// Refuses a record that is older than a term that a replica knows: whoever fenced it in that term
/// had won the record first, so the directory has forgotten it (rule 25).
pub(crate) async fn check_history(
    context: &Context,
    id: ObjectId,
    seen: Term,
) -> Result<(), Failed> {
    let Ok(Some(entry)) = context.directory.get(&object_key(id)).await else { return Ok(()) };
    match ObjectRecord::decode(&entry.value) {
        Ok(record) if record.term < seen => Err(doubt(context, &record, entry.revision).await),
        _ => Ok(()),
    }
}

/// Rule 25: the directory has forgotten what this host knows of. Has the record say so, so that
/// nobody claims it or serves by it. Where that fails, the next attempt to claim finds out again.
async fn doubt(context: &Context, record: &ObjectRecord, revision: u64) -> Failed {
    let (id, term) = (record.id, record.term.0);
    tracing::error!(object = %id, term, "the directory went back in time");
    let Some(next) = record::doubt(record) else { return Failed::RolledBack };
    let told = compare_and_swap(context, id, revision, &next, &[]);
    match context.env.timeout(context.options.stall, told).await {
        Ok(Cas::Won(_)) => Failed::RolledBack,
        Ok(Cas::Lost) => Failed::Again(None),
        Ok(Cas::NotSent) | Err(_) => Failed::Unavailable,
    }
}

/// From the claimed record to the first I/O (rules 24-29). `prefer` is the source of the
/// reconciliation if it is reached. On failure the owner must be stepped down; nobody has seen
/// anything of it.
pub(crate) async fn bring_up(owner: &Rc<Owner>, prefer: Option<ComponentId>) -> Result<(), Failed> {
    owner.env().linger(Quirk::ClaimLingers).await;
    let (reached, gone) = fence_all(owner).await?;
    let commit = reached.iter().map(|(_, fence)| fence.commit).max();
    let Some(commit) = commit else { return Err(Failed::Inaccessible) };
    for (component, fence) in &reached {
        let (durable, tail) = (fence.durable, fence.tail.len());
        tracing::info!(
            object = %owner.id, term = owner.term.0, %component, %durable,
            commit = %fence.commit, destaged = %fence.destaged, tail, "fenced"
        );
    }
    {
        let mut state = owner.state.borrow_mut();
        let handover = state.record.handover.unwrap_or(Lsn::ZERO);
        // Rule 26; after a hand-over everything up to its K is everywhere (rule 53). An lsn of
        // this term can be neither: nobody but me may give one.
        state.fence_commit = commit.max(handover).min(Lsn::new(owner.term, 0));
    }
    if !gone.is_empty() && !owner.options().mutations.serve_before_absent() {
        mark_gone(owner, &gone).await?;
    }
    if owner.is_stopped() {
        return Err(again(owner)); // legs of an owner that is over would never be given up
    }
    for (component, fence) in &reached {
        owner.add_leg(*component, LegRole::Active);
        if !owner.open_session(*component, fence) {
            return Err(Failed::Again(None));
        }
        owner.keep(*component); // rule 28
    }
    let chosen = choose(owner, &reached, prefer);
    reconcile(owner, &reached, chosen).await?;
    let mut knows = chosen;
    if owner.options().mutations.clients_of_another() {
        let mut others = reached.iter().map(|(component, _)| *component);
        knows = others.find(|component| *component != chosen).unwrap_or(chosen);
    }
    if let Some((_, fence)) = reached.into_iter().find(|(component, _)| *component == knows) {
        owner.state.borrow_mut().clients = fence.clients; // rule 46
    }
    if owner.is_stopped() {
        return Err(again(owner));
    }
    owner.serve(crate::resync::watch_returns(Rc::clone(owner)));
    Ok(())
}

/// Fences every component that is active in the record (rule 24). Returns those that answered and
/// can be relied on, and those that have to leave. Ends early only when somebody else is the owner.
async fn fence_all(
    owner: &Rc<Owner>,
) -> Result<(Vec<(ComponentId, Fence)>, Vec<(ComponentId, Leave)>), Failed> {
    let active: Vec<_> = {
        let state = owner.state.borrow();
        let components = state.record.components.iter();
        let active = components.filter(|component| component.state == ComponentState::Active);
        active.map(|component| (component.id, component.seat)).collect()
    };
    let patience = Rc::new(Cell::new(0));
    let fence = |(component, seat)| fence_one(owner, component, seat, Rc::clone(&patience));
    let answers = join_all(active.into_iter().map(fence).collect()).await;
    let (mut reached, mut gone) = (Vec::new(), Vec::new());
    for (component, answer) in answers {
        match answer? {
            Reached::Good(fence) => reached.push((component, fence)),
            Reached::Gone(leave) => {
                base::hit(base::Probe::TakeOverGone);
                gone.push((component, leave));
            }
        }
    }
    Ok((reached, gone))
}

enum Reached {
    Good(Fence),
    Gone(Leave),
}

/// One component: tried until it answers, or for the stall time. One that answers "later" is
/// reached (a grant has to run out, 52b), and while there is such a one the others are tried too.
async fn fence_one(
    owner: &Rc<Owner>,
    component: ComponentId,
    seat: Seat,
    patience: Rc<Cell<usize>>,
) -> (ComponentId, Result<Reached, Failed>) {
    let options = owner.options();
    let begun = owner.now();
    let wait_max = options.lease_ttl * 2 + options.stall;
    let shard = {
        let state = owner.state.borrow();
        record::component(&state.record, component).map(|component| component.shard)
    };
    loop {
        let answer = owner.fence(component, seat, false, options.stall).await;
        let elapsed = owner.now().since(begun);
        let is_late = elapsed >= options.stall && patience.get() == 0;
        let mut pause = FENCE_RETRY;
        match answer {
            FenceAnswer::Fenced(fence) => {
                let reached = match fence.kept {
                    Some(kept) => Reached::Gone(Leave::Lost(kept)), // rule 19
                    None => Reached::Good(fence),
                };
                return (component, Ok(reached));
            }
            FenceAnswer::HigherTerm(term) => {
                base::hit(base::Probe::FenceOutranked);
                return (component, Err(Failed::Outranked(term)));
            }
            FenceAnswer::FromTheFuture => return (component, Err(Failed::RolledBack)),
            FenceAnswer::Unknown => {
                return (component, Ok(Reached::Gone(Leave::Lost(Lsn::ZERO))));
            }
            FenceAnswer::Wait(_) if elapsed >= wait_max => {
                return (component, Ok(Reached::Gone(Leave::Absent)));
            }
            FenceAnswer::Closed => return (component, Ok(Reached::Gone(Leave::Absent))),
            FenceAnswer::Wait(wait) => {
                patience.set(patience.get() + 1);
                pause = wait.clamp(FENCE_RETRY, options.lease_ttl);
                owner.env().sleep(pause).await;
                patience.set(patience.get() - 1);
                pause = Duration::ZERO;
            }
            FenceAnswer::Unreachable | FenceAnswer::Silent | FenceAnswer::Outdated => {
                let alive = owner.context.alive.borrow();
                let is_dead = shard.is_some_and(|shard| !alive.contains_key(&shard));
                drop(alive);
                let is_dead = is_dead && elapsed >= options.dead_after && patience.get() == 0;
                if is_late || is_dead && matches!(answer, FenceAnswer::Unreachable) {
                    return (component, Ok(Reached::Gone(Leave::Absent)));
                }
            }
        }
        owner.env().sleep(pause).await;
        if owner.is_stopped() {
            return (component, Err(Failed::Again(None)));
        }
    }
}

/// Rule 26: those that did not answer leave by CAS before the first I/O, with `left` := K.
async fn mark_gone(owner: &Rc<Owner>, gone: &[(ComponentId, Leave)]) -> Result<(), Failed> {
    owner.env().linger(Quirk::GoneLingers).await;
    loop {
        match owner.mark(gone).await {
            Ok(()) => return Ok(()),
            Err(ChangeError::Stopped) => return Err(again(owner)),
            // Nobody reached is good enough to be left alone with the data.
            Err(ChangeError::Nothing) => return Err(Failed::Inaccessible),
            Err(ChangeError::Unavailable) => owner.env().sleep(MARK_RETRY).await,
        }
    }
}

/// Rule 27: whatever is in anyone's tail above K is read from one chosen component and copied to
/// all others. Rolling forward or back is the same thing here.
async fn reconcile(
    owner: &Rc<Owner>,
    reached: &[(ComponentId, Fence)],
    chosen: ComponentId,
) -> Result<(), Failed> {
    let commit = owner.commit();
    let mut dirty = DirtySet::new(owner.sectors);
    let tails = reached.iter().flat_map(|(_, fence)| &fence.tail);
    for (range, _) in tails.filter(|(_, lsn)| *lsn > commit) {
        dirty.insert(*range);
    }
    let mutations = owner.options().mutations;
    let is_handed_over = owner.state.borrow().record.handover.is_some();
    let is_left = mutations.no_reconcile() || mutations.hand_over_undrained() && is_handed_over;
    // One alone has nothing to be made equal to.
    if is_left || reached.len() < 2 || dirty.is_empty() {
        return Ok(());
    }
    if owner.options().mutations.raise_commit_early() {
        owner.state.borrow_mut().fence_commit = Lsn::new(owner.term, 0);
    }
    base::hit(base::Probe::TakeOverReconciled);
    tracing::info!(
        object = %owner.id, term = owner.term.0, %commit, bytes = dirty.bytes(), %chosen,
        "making tails equal"
    );
    for lot in 0_u64.. {
        base::hit_if(lot > 0, base::Probe::SecondLot);
        for _ in 0..owner.options().limits.tail_copies {
            let Some(range) = dirty.take(COPY_BLOCKS) else { break };
            let marks = marks_of(owner, reached, chosen, range);
            copy(owner, chosen, range, &marks).await?;
        }
        drain(owner).await?;
        owner.env().linger(Quirk::ReconcileLingers).await;
        if dirty.is_empty() {
            break;
        }
    }
    Ok(())
}

/// The source for the entire take-over: the one asked for, else the local one, else the first.
fn choose(
    owner: &Rc<Owner>,
    reached: &[(ComponentId, Fence)],
    prefer: Option<ComponentId>,
) -> ComponentId {
    let state = owner.state.borrow();
    let me = owner.context.me.shard;
    let is_local = |id: ComponentId| state.leg(id).is_some_and(|leg| leg.shard == me);
    let mut ids = reached.iter().map(|(id, _)| *id);
    let wanted = ids.clone().find(|id| Some(*id) == prefer);
    let local = || ids.clone().find(|id| is_local(*id));
    let Some(chosen) = wanted.or_else(local).or_else(|| ids.next()) else {
        unreachable!("reconciling without a component")
    };
    chosen
}

/// What copying `range` from the chosen component says about requests (rule 46): the others get the
/// effect of those that it has, and lose that of those that it has not. Undone ones come first:
/// a request that is not known is written again, one that is known and is not there is lost.
fn marks_of(
    owner: &Rc<Owner>,
    reached: &[(ComponentId, Fence)],
    chosen: ComponentId,
    range: SectorRange,
) -> Vec<Mark> {
    let Some((_, source)) = reached.iter().find(|(component, _)| *component == chosen) else {
        unreachable!("the chosen component was reached");
    };
    if owner.options().mutations.unmarked_copies() {
        return Vec::new();
    }
    let commit = owner.commit();
    let open_in = |fence: &Fence| {
        let open = fence
            .open
            .iter()
            .filter(|(wrote, lsn, _)| *lsn > commit && !wrote.intersect(range).is_empty());
        open.map(|(.., id)| *id).collect::<Vec<_>>()
    };
    let others = reached.iter().filter(|(component, _)| *component != chosen);
    let lost = others.flat_map(|(_, fence)| open_in(fence)).filter(|id| !source.clients.has(*id));
    let mut marks: Vec<Mark> = Vec::new();
    for mark in lost.map(Mark::Undone).chain(open_in(source).into_iter().map(Mark::Done)) {
        if !marks.contains(&mark) {
            base::hit(match mark {
                Mark::Done(_) => base::Probe::MarkDone,
                Mark::Undone(_) => base::Probe::MarkUndone,
            });
            marks.push(mark);
        }
    }
    marks
}

/// Reads one range from the chosen component and sends it to all others, durable when the window
/// is empty again.
async fn copy(
    owner: &Rc<Owner>,
    chosen: ComponentId,
    range: SectorRange,
    marks: &[Mark],
) -> Result<(), Failed> {
    let data = loop {
        let changed = owner.changed.wait();
        let source = match source_of(owner, chosen) {
            Some(source) => source,
            // Rule 28: the chosen one is gone, so the choice is void: a new term.
            None if owner.state.borrow().leg(chosen).is_none() => return Err(again(owner)),
            None => {
                changed.await;
                continue;
            }
        };
        match owner.ask(&source, range).await {
            SourceAnswer::Data(data) => break data,
            SourceAnswer::Bad => {
                let state = owner.state.borrow();
                let other = state.legs.iter().find(|leg| leg.component != chosen);
                return Err(Failed::Again(other.map(|leg| leg.component)));
            }
            SourceAnswer::Again => owner.env().sleep(FENCE_RETRY).await,
        }
    };
    let others = {
        let state = owner.state.borrow();
        let others = state.legs.iter().filter(|leg| leg.component != chosen);
        others.fold(0, |mask, leg| mask | leg.bit)
    };
    if owner.is_stopped() {
        return Err(again(owner));
    }
    if others != 0 {
        // Nearly always one copy; more marks than one carries make it several.
        let parts = marks.chunks(MARKS_MAX).chain(marks.is_empty().then_some([].as_slice()));
        for part in parts {
            let mut content = WriteContent::copy_of(data.clone());
            content.marks = Marks::new(part);
            owner.submit(range, content, Some(others), Ticket::new(None, None));
        }
    }
    Ok(())
}

fn source_of(owner: &Rc<Owner>, chosen: ComponentId) -> Option<ReadSource> {
    let avoid = {
        let state = owner.state.borrow();
        let others = state.legs.iter().filter(|leg| leg.component != chosen);
        others.fold(0, |mask, leg| mask | leg.bit)
    };
    owner.source(avoid)
}

/// Until every copy sent so far is durable on all components that are still there.
async fn drain(owner: &Rc<Owner>) -> Result<(), Failed> {
    loop {
        let drained = owner.drained.wait();
        if owner.is_stopped() {
            return Err(again(owner));
        }
        if owner.state.borrow().window.live() == 0 {
            return Ok(());
        }
        drained.await;
    }
}

fn again(owner: &Rc<Owner>) -> Failed {
    Failed::Again(owner.state.borrow().prefer)
}
