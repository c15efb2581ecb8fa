// SPDX-License-Identifier: Apache-2.0
//! Changes of an object's directory record, pure: record in, next record out.
//!
//! Every change goes through [`checked`], which asserts what docs/protocol.md#asserted-at-run-time
//! says of a record: the version rises by one, an owner, at least one active component, states move
//! only as drawn, `left` never rises except by becoming active, and no component vanishes without
//! being noted as removed.
//!
//! ```text
//!             mark (15)                 begin_resync (31)
//!   active -------------> absent ------------------------> resyncing --+
//!     |  ^                  ^  ^                             |  ^  |   | seat + 1 (a new owner
//!     |  |                  |  +------ abort_resync (36) ----+  +--+   | begins again)
//!     |  +------------------+----------- activate (35) ----------------+
//!     +--> degraded (7, 19) --- begin_resync, once its host answers for it again ---> resyncing
//! ```
//!
//! A new component begins as absent ([`add`], rule 38). One leaves when the one that replaces it
//! becomes active (rule 39), or by [`remove`] or [`take_out`] (rule 40).

use base::{ComponentId, GroupId, Lsn, Map, Seat, ShardId, Term, Version, WriterEpoch};
use directory::{
    CLAIMS_MAX, COMPONENTS_MAX, Claim, ComponentRecord, ComponentState, ObjectRecord, OwnerRecord,
    REMOVED_MAX, RemovedComponent,
};

/// Why a component leaves the active ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leave {
    /// It does not answer and may come back (rule 15); its `left` is the K given with the change.
    Absent,
    /// Its device failed (rule 7); it keeps what it had durable up to K.
    Degraded,
    /// It admits to have lost what is above this lsn (rule 19).
    Lost(Lsn),
}

/// The claims that `record` descends from, as a Fence carries them.
pub(crate) fn claims(record: &ObjectRecord) -> wire::Claims {
    let claim = |claim: &Claim| wire::WireClaim {
        term: claim.term,
        version: claim.version,
        owner: wire::OwnerId { shard: claim.owner.shard, incarnation: claim.owner.incarnation },
    };
    wire::Claims::new(&record.claims.iter().map(claim).collect::<Vec<_>>())
}

/// The component `id` of `record`.
pub(crate) fn component(record: &ObjectRecord, id: ComponentId) -> Option<&ComponentRecord> {
    record.components.iter().find(|component| component.id == id)
}

/// Whether `id` is active in `record`.
pub(crate) fn is_active(record: &ObjectRecord, id: ComponentId) -> bool {
    component(record, id).is_some_and(|component| component.state == ComponentState::Active)
}

/// How many components are active.
pub(crate) fn active_count(record: &ObjectRecord) -> usize {
    let active = |component: &&ComponentRecord| component.state == ComponentState::Active;
    record.components.iter().filter(active).count()
}

/// Take-over (rule 22): `me` becomes the owner in a new term, which is above `used` too.
pub(crate) fn take_over(record: &ObjectRecord, used: Term, me: OwnerRecord) -> ObjectRecord {
    let mut next = record.clone();
    next.handover = None;
    next.term = record.term.max(used);
    claimed(record, next, me)
}

/// Hand-over (rule 53): `to` becomes the owner in a new term, and everything up to `commit` is
/// everywhere.
pub(crate) fn hand_over(record: &ObjectRecord, to: OwnerRecord, commit: Lsn) -> ObjectRecord {
    let mut next = record.clone();
    next.handover = Some(commit);
    claimed(record, next, to)
}

/// A new owner in a new term, which the record remembers (rule 25).
fn claimed(before: &ObjectRecord, mut next: ObjectRecord, owner: OwnerRecord) -> ObjectRecord {
    next.owner = Some(owner);
    next.term = Term(next.term.0 + 1);
    let mut next = checked(before, next);
    next.claims.push(Claim { term: next.term, version: next.version, owner });
    let surplus = next.claims.len().saturating_sub(CLAIMS_MAX);
    next.claims.drain(..surplus);
    next
}

/// A component knows of another history (rule 25): nobody is to claim the record, nor to believe
/// it. `None` where it says so already.
pub(crate) fn doubt(record: &ObjectRecord) -> Option<ObjectRecord> {
    let next = ObjectRecord { is_doubted: true, ..record.clone() };
    (!record.is_doubted).then(|| checked(record, next))
}

/// The components in `gone` leave the active ones with `left` := `commit` (rules 15, 17, 26, 28).
/// `None` where nothing would change, or where no active one would be left: the last is never
/// marked (rules 15, 41).
pub(crate) fn mark(
    record: &ObjectRecord,
    gone: &[(ComponentId, Leave)],
    commit: Lsn,
) -> Option<ObjectRecord> {
    let mut next = record.clone();
    let mut changed = false;
    for component in &mut next.components {
        let Some((_, leave)) = gone.iter().find(|(id, _)| *id == component.id) else { continue };
        if component.state != ComponentState::Active {
            continue;
        }
        changed = true;
        (component.state, component.left) = match leave {
            Leave::Absent => (ComponentState::Absent, commit),
            Leave::Degraded => (ComponentState::Degraded, commit),
            Leave::Lost(kept) => (ComponentState::Degraded, commit.min(*kept)),
        };
    }
    (changed && active_count(&next) > 0).then(|| checked(record, next))
}

/// A component that is not active begins to come back (rule 31): seat + 1, `left` unchanged.
pub(crate) fn begin_resync(record: &ObjectRecord, id: ComponentId) -> Option<ObjectRecord> {
    let mut next = record.clone();
    let component = next.components.iter_mut().find(|component| component.id == id)?;
    if component.state == ComponentState::Active {
        return None;
    }
    component.state = ComponentState::Resyncing;
    component.seat.0 += 1;
    Some(checked(record, next))
}

/// A resync ended without success (rule 36): absent again, `left` unchanged, or lowered to what
/// the component admits to have kept (rule 19).
pub(crate) fn abort_resync(
    record: &ObjectRecord,
    id: ComponentId,
    kept: Option<Lsn>,
) -> Option<ObjectRecord> {
    let mut next = record.clone();
    let component = next.components.iter_mut().find(|component| component.id == id)?;
    if component.state != ComponentState::Resyncing {
        return None;
    }
    component.state = ComponentState::Absent;
    component.left = kept.map_or(component.left, |kept| component.left.min(kept));
    Some(checked(record, next))
}

/// The commit point of a resync (rule 35). The component that this one replaces leaves with it
/// (rule 39).
pub(crate) fn activate(record: &ObjectRecord, id: ComponentId) -> Option<ObjectRecord> {
    let mut next = record.clone();
    let component = next.components.iter_mut().find(|component| component.id == id)?;
    if component.state != ComponentState::Resyncing {
        return None;
    }
    component.state = ComponentState::Active;
    component.left = Lsn::ZERO;
    if let Some(old) = component.replaces.take() {
        leave_out(&mut next, old);
    }
    Some(checked(record, next))
}

/// The component that `id` is to take the place of, once it is active.
pub(crate) fn replaced_by(record: &ObjectRecord, id: ComponentId) -> Option<ComponentId> {
    component(record, id)?.replaces
}

/// Whether a component can be added on a host that has none of the object, and take the place of
/// `old` if one is named. `None`: it can.
pub(crate) fn why_not_add(
    record: &ObjectRecord,
    old: Option<ComponentId>,
    shard: ShardId,
) -> Option<CannotReplace> {
    let components = &record.components;
    match () {
        () if old.is_some_and(|old| component(record, old).is_none()) => {
            Some(CannotReplace::Unknown)
        }
        () if old.is_some_and(|old| is_changing(record, old)) => Some(CannotReplace::Busy),
        () if components.iter().any(|component| component.shard == shard) => {
            Some(CannotReplace::SameHost)
        }
        () if components.len() >= COMPONENTS_MAX || is_note_full(record) => {
            Some(CannotReplace::TooMany)
        }
        () => None,
    }
}

/// Whether a component can leave that none takes the place of. `None`: it can.
pub(crate) fn why_not_take_out(record: &ObjectRecord, id: ComponentId) -> Option<CannotReplace> {
    match () {
        () if component(record, id).is_none() => Some(CannotReplace::Unknown),
        () if is_changing(record, id) => Some(CannotReplace::Busy),
        // The last one that counts never leaves.
        () if is_active(record, id) && active_count(record) == 1 => Some(CannotReplace::Busy),
        () if is_note_full(record) => Some(CannotReplace::TooMany),
        () => None,
    }
}

/// Whether a component is to take the place of another one, or another one that of it.
fn is_changing(record: &ObjectRecord, id: ComponentId) -> bool {
    let is_of =
        |one: &ComponentRecord| one.id == id && one.replaces.is_some() || one.replaces == Some(id);
    record.components.iter().any(is_of)
}

/// Whether no more components can be noted as removed: each one that is to take the place of
/// another may have to be.
fn is_note_full(record: &ObjectRecord) -> bool {
    let on_the_way = record.components.iter().filter(|one| one.replaces.is_some()).count();
    record.removed.len() + on_the_way >= REMOVED_MAX
}

/// Why a component is not replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CannotReplace {
    /// The record does not have it (any more).
    Unknown,
    /// It is being replaced already, or is itself to take the place of another one.
    Busy,
    /// The host has a component of the object.
    SameHost,
    /// Too many were replaced that are not deleted yet.
    TooMany,
}

/// A new component, of which nothing is promised (rule 38). It takes the place of `old`, if one is
/// named, when it becomes active. `None` where [`why_not_add`] says why.
pub(crate) fn add(
    record: &ObjectRecord,
    (id, shard, group): (ComponentId, ShardId, GroupId),
    old: Option<ComponentId>,
) -> Option<ObjectRecord> {
    if why_not_add(record, old, shard).is_some() {
        return None;
    }
    let mut next = record.clone();
    let (state, seat, left) = (ComponentState::Absent, Seat(0), Lsn::ZERO);
    next.components.push(ComponentRecord { id, shard, group, state, seat, left, replaces: old });
    Some(checked(record, next))
}

/// A component that was to take the place of another one does not (rule 40): it is taken out.
/// `None` where it is no such component, or is active already.
pub(crate) fn remove(record: &ObjectRecord, id: ComponentId) -> Option<ObjectRecord> {
    replaced_by(record, id)?;
    let mut next = record.clone();
    leave_out(&mut next, id);
    Some(checked(record, next))
}

/// A component leaves, and none takes its place (rule 40). `None` where [`why_not_take_out`] says
/// why.
pub(crate) fn take_out(record: &ObjectRecord, id: ComponentId) -> Option<ObjectRecord> {
    if why_not_take_out(record, id).is_some() {
        return None;
    }
    let mut next = record.clone();
    leave_out(&mut next, id);
    Some(checked(record, next))
}

fn leave_out(next: &mut ObjectRecord, id: ComponentId) {
    let Some(at) = next.components.iter().position(|component| component.id == id) else { return };
    let gone = next.components.remove(at);
    next.removed.push(RemovedComponent { id, shard: gone.shard });
}

/// Components that were taken out are deleted. `None` where the record names none of them.
pub(crate) fn forget_removed(record: &ObjectRecord, gone: &[ComponentId]) -> Option<ObjectRecord> {
    let mut next = record.clone();
    next.removed.retain(|removed| !gone.contains(&removed.id));
    (next != *record).then(|| checked(record, next))
}

/// Components are on these disk groups. `None` where the record says so already.
pub(crate) fn regroup(
    record: &ObjectRecord,
    groups: &Map<ComponentId, GroupId>,
) -> Option<ObjectRecord> {
    let mut next = record.clone();
    for component in &mut next.components {
        component.group = groups.get(&component.id).copied().unwrap_or(component.group);
    }
    (next != *record).then(|| checked(record, next))
}

/// No write of an epoch before this one takes effect any more (rule 55). `None` where the record
/// says so already.
pub(crate) fn bring_in(record: &ObjectRecord, epoch: WriterEpoch) -> Option<ObjectRecord> {
    let next = ObjectRecord { writer_epoch: epoch, ..record.clone() };
    (epoch > record.writer_epoch).then(|| checked(record, next))
}

/// Counts the change and asserts what must hold between two versions of a record.
fn checked(before: &ObjectRecord, mut after: ObjectRecord) -> ObjectRecord {
    use ComponentState::{Absent, Active, Degraded, Resyncing};
    after.version = Version(before.version.0 + 1);
    // Nobody but an owner changes more than that. A directory that went back to before the first
    // claim is doubted too (rule 25).
    let is_doubt = after.is_doubted && !before.is_doubted;
    let is_epoch = after.writer_epoch > before.writer_epoch;
    assert!(after.owner.is_some() || is_doubt || is_epoch, "a change without an owner");
    assert!(after.writer_epoch >= before.writer_epoch, "the epoch fell");
    assert!(after.owner.is_some() || before.owner.is_none(), "an owner vanished");
    assert!(after.term >= before.term, "the term fell");
    assert!(
        after.owner == before.owner || after.term > before.term,
        "a new owner needs a new term"
    );
    assert!(active_count(&after) > 0, "no active component would be left");
    for old in &before.components {
        let is_kept = component(&after, old.id).is_some();
        let is_noted = after.removed.iter().any(|one| (one.id, one.shard) == (old.id, old.shard));
        assert!(is_kept || is_noted, "a component vanished");
    }
    for new in &after.components {
        let Some(old) = component(before, new.id) else {
            let is_new = before.removed.iter().all(|removed| removed.id != new.id);
            assert!(is_new, "a component that was taken out is back");
            assert!(new.state == Absent && new.left == Lsn::ZERO, "a new component has something");
            continue;
        };
        let legal = match (old.state, new.state) {
            (Active, Active | Absent | Degraded) | (Absent, Absent) | (Degraded, Degraded) => true,
            (Absent | Degraded | Resyncing, Resyncing) | (Resyncing, Absent | Active) => true,
            (Absent | Degraded, Active) | (Active, Resyncing) => false,
            (Absent | Resyncing, Degraded) | (Degraded, Absent) => false,
        };
        assert!(legal, "component state {:?} -> {:?}", old.state, new.state);
        assert!(new.seat >= old.seat, "a seat fell");
        if old.state != Active && new.state != Active {
            assert!(new.left <= old.left, "left rose without becoming active");
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{GroupId, Incarnation, ObjectId, Rng, Seat, ShardId, VolumeId, WriterEpoch};

    fn fresh(copies: u32) -> ObjectRecord {
        let components = (1..=copies).map(|n| ComponentRecord {
            id: ComponentId(u64::from(n)),
            shard: ShardId(n),
            group: GroupId(u64::from(n)),
            state: ComponentState::Active,
            seat: Seat(1),
            left: Lsn::ZERO,
            replaces: None,
        });
        ObjectRecord {
            id: ObjectId(1),
            volume: VolumeId(1),
            sectors: 4096,
            version: Version(1),
            term: Term(0),
            owner: None,
            handover: None,
            components: components.collect(),
            removed: Vec::new(),
            claims: Vec::new(),
            is_doubted: false,
            writer_epoch: WriterEpoch::ANY,
        }
    }

    #[test]
    fn any_sequence_of_changes_keeps_the_invariants() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let me = OwnerRecord { shard: ShardId(1), incarnation: Incarnation(1) };
            let mut record = take_over(&fresh(3), Term(0), me);
            for step in 0..60_u64 {
                let id = record.components[rng.below(record.components.len() as u64) as usize].id;
                let left = Lsn::new(record.term, step);
                let before = record.clone();
                let next = match rng.below(12) {
                    0 => Some(take_over(&record, Term(0), me)),
                    1 => mark(&record, &[(id, Leave::Absent)], left),
                    2 => mark(&record, &[(id, Leave::Lost(Lsn::ZERO))], left),
                    3 => begin_resync(&record, id),
                    4 => abort_resync(&record, id, None),
                    5 => {
                        let group = GroupId(rng.below(3));
                        let next = regroup(&record, &[(id, group)].into_iter().collect());
                        let there = next.as_ref().and_then(|next| component(next, id));
                        assert!(there.is_none_or(|there| there.group == group));
                        next
                    }
                    6 => {
                        let shard = ShardId(rng.between(1, 6) as u32);
                        let new = (ComponentId(100 + step), shard, GroupId(1));
                        let old = Some(id).filter(|_| rng.below(2) == 0);
                        let next = add(&record, new, old);
                        assert_eq!(next.is_none(), why_not_add(&record, old, shard).is_some());
                        next
                    }
                    7 => remove(&record, id),
                    8 => take_out(&record, id),
                    9 => {
                        let gone: Vec<_> = record.removed.iter().map(|one| one.id).collect();
                        forget_removed(&record, &gone[..gone.len().min(1)])
                    }
                    10 => bring_in(&record, WriterEpoch(rng.below(60) as u32)),
                    _ => activate(&record, id),
                };
                let Some(next) = next else { continue };
                assert_eq!(next.version.0, before.version.0 + 1);
                assert!(active_count(&next) > 0);
                assert!(next.check().is_ok(), "{:?}", next.check());
                record = next;
            }
        }
    }

    /// Rules 38 to 40.
    #[test]
    fn a_component_takes_the_place_of_another_one_when_it_becomes_active() {
        let me = OwnerRecord { shard: ShardId(1), incarnation: Incarnation(1) };
        let record = take_over(&fresh(2), Term(0), me);
        let new = (ComponentId(9), ShardId(3), GroupId(3));
        let why = |old, host| why_not_add(&record, Some(ComponentId(old)), ShardId(host));
        assert_eq!(why(7, 3), Some(CannotReplace::Unknown));
        assert_eq!(why(1, 2), Some(CannotReplace::SameHost));
        let added = add(&record, new, Some(ComponentId(1))).expect("there is room");
        let again = |old| why_not_add(&added, Some(ComponentId(old)), ShardId(4));
        assert_eq!([again(1), again(9)], [Some(CannotReplace::Busy); 2]);
        let out = |id| why_not_take_out(&added, ComponentId(id));
        assert_eq!([out(1), out(9)], [Some(CannotReplace::Busy); 2]);
        assert!(remove(&added, ComponentId(1)).is_none(), "only what was to replace another one");
        let given_up = remove(&added, ComponentId(9)).expect("it is not active");
        assert_eq!(given_up.components, record.components);
        let filled = begin_resync(&added, ComponentId(9)).expect("it is absent");
        let replaced = activate(&filled, ComponentId(9)).expect("it is filled");
        let ids: Vec<u64> = replaced.components.iter().map(|component| component.id.0).collect();
        assert_eq!(ids, [2, 9]);
        let removed = RemovedComponent { id: ComponentId(1), shard: ShardId(1) };
        assert_eq!(replaced.removed, [removed]);
        assert_eq!(replaced.check().ok(), Some(()));
        assert_eq!(forget_removed(&replaced, &[ComponentId(2)]), None);
        let deleted = forget_removed(&replaced, &[ComponentId(1)]).expect("it is named");
        assert_eq!(deleted.removed, []);
    }

    /// Rules 38 and 40, where nothing is replaced.
    #[test]
    fn copies_become_more_and_fewer_but_the_last_one_that_counts_stays() {
        let me = OwnerRecord { shard: ShardId(1), incarnation: Incarnation(1) };
        let record = take_over(&fresh(1), Term(0), me);
        let first = ComponentId(1);
        assert_eq!(why_not_take_out(&record, first), Some(CannotReplace::Busy));
        let more = add(&record, (ComponentId(2), ShardId(2), GroupId(2)), None).expect("room");
        assert!(take_out(&more, first).is_none(), "the other one holds nothing yet");
        let filled = begin_resync(&more, ComponentId(2)).expect("it is absent");
        let two = activate(&filled, ComponentId(2)).expect("it is filled");
        assert_eq!((active_count(&two), two.removed.len()), (2, 0));
        let one = take_out(&two, first).expect("there is another one");
        assert_eq!(one.removed, [RemovedComponent { id: first, shard: ShardId(1) }]);
        assert_eq!(why_not_take_out(&one, first), Some(CannotReplace::Unknown));
        let given_up = take_out(&more, ComponentId(2)).expect("it does not count yet");
        assert_eq!(given_up.components, record.components);
    }

    /// The directory may go back to before the first claim: the record of a volume just created.
    #[test]
    fn a_record_that_nobody_has_claimed_can_be_doubted() {
        let before = fresh(2);
        let doubted = doubt(&before).expect("not doubted yet");
        let told = ObjectRecord { is_doubted: true, version: Version(2), ..before };
        assert_eq!(doubted, told);
        assert!(doubt(&doubted).is_none());
    }

    #[test]
    fn the_last_active_one_is_never_marked() {
        let me = OwnerRecord { shard: ShardId(1), incarnation: Incarnation(1) };
        let record = take_over(&fresh(2), Term(0), me);
        let both = [(ComponentId(1), Leave::Absent), (ComponentId(2), Leave::Degraded)];
        assert!(mark(&record, &both, Lsn::ZERO).is_none());
        let Some(one) = mark(&record, &both[..1], Lsn::new(Term(1), 7)) else { unreachable!() };
        assert_eq!(one.components[0].left, Lsn::new(Term(1), 7));
        assert!(mark(&one, &both, Lsn::ZERO).is_none());
        // Rule 37: only what went through a resync becomes active.
        assert!(activate(&one, ComponentId(1)).is_none());
        let Some(two) = begin_resync(&one, ComponentId(1)) else { unreachable!() };
        assert_eq!(two.components[0].seat, Seat(2));
        assert_eq!(two.components[0].left, Lsn::new(Term(1), 7));
    }
}
