// SPDX-License-Identifier: Apache-2.0
//! Changes of an object's directory record, pure: record in, next record out.
//!
//! Every change goes through [`checked`], which asserts what docs/protocol.md#asserted-at-run-time
//! says of a record: the version rises by one, an owner, at least one active component, states move
//! only as drawn, `left` never rises except by becoming active.
//!
//! ```text
//!             mark (15)                 begin_resync (31)
//!   active -------------> absent ------------------------> resyncing --+
//!     |  ^                  ^  ^                             |  ^  |   | seat + 1 (a new owner
//!     |  |                  |  +------ abort_resync (36) ----+  +--+   | begins again)
//!     |  +------------------+----------- activate (35) ----------------+
//!     +--> degraded (7, 19) --- begin_resync, once its host answers for it again ---> resyncing
//! ```

use base::{ComponentId, GroupId, Lsn, Map, Term, Version};
use directory::{CLAIMS_MAX, Claim, ComponentRecord, ComponentState, ObjectRecord, OwnerRecord};

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
        owner: wire::OwnerId { host: claim.owner.host, incarnation: claim.owner.incarnation },
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

/// The commit point of a resync (rule 35).
pub(crate) fn activate(record: &ObjectRecord, id: ComponentId) -> Option<ObjectRecord> {
    let mut next = record.clone();
    let component = next.components.iter_mut().find(|component| component.id == id)?;
    if component.state != ComponentState::Resyncing {
        return None;
    }
    component.state = ComponentState::Active;
    component.left = Lsn::ZERO;
    Some(checked(record, next))
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

/// Counts the change and asserts what must hold between two versions of a record.
fn checked(before: &ObjectRecord, mut after: ObjectRecord) -> ObjectRecord {
    use ComponentState::{Absent, Active, Degraded, Resyncing};
    after.version = Version(before.version.0 + 1);
    // Nobody but an owner changes more than that. A directory that went back to before the first
    // claim is doubted too (rule 25).
    let is_doubt = after.is_doubted && !before.is_doubted;
    assert!(after.owner.is_some() || is_doubt, "a change without an owner");
    assert!(after.owner.is_some() || before.owner.is_none(), "an owner vanished");
    assert!(after.term >= before.term, "the term fell");
    assert!(
        after.owner == before.owner || after.term > before.term,
        "a new owner needs a new term"
    );
    assert!(active_count(&after) > 0, "no active component would be left");
    assert!(after.components.len() == before.components.len(), "a component vanished");
    for (old, new) in before.components.iter().zip(&after.components) {
        assert!(old.id == new.id, "components changed their order");
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
    use base::{GroupId, HostId, Incarnation, ObjectId, Rng, Seat, VolumeId};

    fn fresh(copies: u32) -> ObjectRecord {
        let components = (1..=copies).map(|n| ComponentRecord {
            id: ComponentId(u64::from(n)),
            host: HostId(n),
            group: GroupId(u64::from(n)),
            state: ComponentState::Active,
            seat: Seat(1),
            left: Lsn::ZERO,
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
            claims: Vec::new(),
            is_doubted: false,
        }
    }

    #[test]
    fn any_sequence_of_changes_keeps_the_invariants() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let me = OwnerRecord { host: HostId(1), incarnation: Incarnation(1) };
            let mut record = take_over(&fresh(3), Term(0), me);
            for step in 0..60_u64 {
                let id = ComponentId(rng.between(1, 3));
                let left = Lsn::new(record.term, step);
                let before = record.clone();
                let next = match rng.below(7) {
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
                    _ => activate(&record, id),
                };
                let Some(next) = next else { continue };
                assert_eq!(next.version.0, before.version.0 + 1);
                assert!(active_count(&next) > 0);
                record = next;
            }
        }
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
        let me = OwnerRecord { host: HostId(1), incarnation: Incarnation(1) };
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
