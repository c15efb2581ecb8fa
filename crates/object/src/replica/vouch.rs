// SPDX-License-Identifier: Apache-2.0
//! Whether a component of this host can stand for one that another host wants to give up, because
//! no record accounts for it and its device is full.
//!
//! Guarantee: of the components that can stand for each other, one stays, whatever hosts ask,
//! delete, stop and start at the same time. The argument:
//! 1. Who wants to give a component up notes that ([`Replicas::begin_giving_up`]), then asks, and
//!    deletes only after a yes; from the first step until the deletion is durable, or will not be,
//!    this host does not stand for that component.
//! 2. Let X be deleted because Y stood for it. Y was there then, and nobody had begun to give it up
//!    in a way that led to its deletion, or the answer had been no. So if Y was deleted at all, its
//!    giving up began after X's.
//! 3. If all were deleted, going from each to the one that stood for it would come round to the
//!    first: each began after the one before, and the first after itself.
//! 4. A crash ends what was begun, and either the deletion is on the disk, and the component is not
//!    there to stand for anything, or it is not, and the old answers are forgotten with the run.
//!    Where a deletion failed nobody knows which, and the host stands for the component no more.
//!
//! No clock is in it, and no order among hosts.

use super::Replicas;
use base::{ComponentId, Term};
use diskgroup::{ComponentInfo, Description, Worth};
use wire::{Holding, OwnerId, Refusal, Response};

impl Replicas {
    /// From now on this host does not stand for `component`.
    pub(crate) fn begin_giving_up(&self, component: ComponentId) {
        self.giving_up.borrow_mut().insert(component);
    }

    /// It does again, if it is there: for whoever knows that nothing deletes it any more.
    pub(crate) fn end_giving_up(&self, component: ComponentId) {
        self.giving_up.borrow_mut().remove(&component);
    }

    pub(super) fn vouch(&self, holding: &Holding) -> Response {
        let mut reason = self.not_here();
        for group in self.disks.open() {
            // What a group holds that took a device error is known when it is opened again.
            if group.failure().is_some() {
                continue;
            }
            for id in group.components() {
                let of_object = |info: &ComponentInfo| info.object == holding.object;
                let Some(info) = group.component(id).filter(of_object) else { continue };
                let about = group.description(id);
                if !about.is_some_and(|about| can_stand_for(id, &info, &about, holding)) {
                    continue;
                }
                if !self.giving_up.borrow().contains(&id) {
                    return Response::Done;
                }
                reason = Refusal::NotReady;
            }
        }
        Response::Refused { reason }
    }
}

/// Whether a component surely has all that was ever acknowledged of what another one holds.
///
/// The newest record that its host saw calls it active, with the seat that it has, and lost is
/// nothing: so it had everything when it was last in a session at that seat. Both were fenced last
/// by one claim: they are of one history, whatever directories said since (rule 25). If it was left
/// behind in that term, either the other one knows a newer record, or it has a later write: the
/// versions and the durable lsns tell.
fn can_stand_for(
    id: ComponentId,
    info: &ComponentInfo,
    about: &Description,
    other: &Holding,
) -> bool {
    let owner = OwnerId { shard: info.meta.owner_shard, incarnation: info.meta.owner_incarnation };
    let is_copy =
        id != other.component && info.object == other.object && info.sectors == other.sectors;
    let is_of_claim =
        info.meta.term > Term(0) && (info.meta.term, owner) == (other.term, other.owner);
    let me = about.siblings.iter().find(|sibling| sibling.id == id);
    let was_active = me.is_some_and(|me| me.worth == Worth::Active && me.seat == info.meta.seat);
    let is_whole = !info.damaged && !info.partial && was_active;
    let is_as_new = about.version >= other.version && info.durable >= other.durable;
    is_copy && is_of_claim && is_whole && is_as_new
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{GroupId, Incarnation, Lsn, ObjectId, Seat, ShardId, Version, VolumeId};
    use diskgroup::{ComponentMeta, Sibling};

    const ME: ComponentId = ComponentId(1);

    fn lsn(counter: u64) -> Lsn {
        Lsn::new(Term(3), counter)
    }

    fn owner() -> OwnerId {
        OwnerId { shard: ShardId(2), incarnation: Incarnation(9) }
    }

    fn info() -> ComponentInfo {
        ComponentInfo {
            object: ObjectId(7),
            sectors: 2048,
            meta: ComponentMeta {
                term: Term(3),
                owner_shard: owner().shard,
                owner_incarnation: owner().incarnation,
                seat: Seat(4),
                version: Version(11),
            },
            durable: lsn(40),
            commit: lsn(40),
            destaged: lsn(40),
            held: 1,
            reserve: 0,
            damaged: false,
            partial: false,
            orphaned: None,
            went_back: false,
        }
    }

    fn about(version: u64, worth: Worth, seat: u32) -> Description {
        let (shard, group) = (ShardId(1), GroupId(1));
        Description {
            volume: VolumeId(9),
            name: "web".to_owned(),
            size_bytes: 1 << 20,
            ftt: 1,
            reserve_percent: 0,
            index: 0,
            objects: 1,
            column: 0,
            width: 1,
            version: Version(version),
            term: Term(3),
            part: None,
            incarnation: Incarnation(1),
            siblings: vec![Sibling { id: ME, shard, group, seat: Seat(seat), worth }],
        }
    }

    fn other() -> Holding {
        Holding {
            object: ObjectId(7),
            component: ComponentId(2),
            sectors: 2048,
            term: Term(3),
            owner: owner(),
            version: Version(11),
            durable: lsn(40),
        }
    }

    #[test]
    fn only_a_whole_copy_of_the_same_claim_that_is_as_new_stands_for_another() {
        let good = about(11, Worth::Active, 4);
        let stands = |info: &ComponentInfo, about: &Description, other: &Holding| {
            can_stand_for(ME, info, about, other)
        };
        assert!(stands(&info(), &good, &other()));
        assert!(stands(&info(), &about(12, Worth::Active, 4), &other()), "a newer record");
        assert!(stands(&ComponentInfo { durable: lsn(41), ..info() }, &good, &other()));

        for (bad, why) in [
            (Holding { component: ME, ..other() }, "itself, on a disk that was copied"),
            (Holding { object: ObjectId(8), ..other() }, "of another object"),
            (Holding { sectors: 4096, ..other() }, "of another size"),
            (Holding { durable: lsn(41), ..other() }, "it has a later write"),
            (Holding { version: Version(12), ..other() }, "it knows a newer record"),
            (Holding { term: Term(2), ..other() }, "of another term: perhaps another history"),
            (Holding { term: Term(4), durable: Lsn::ZERO, ..other() }, "of a later term"),
            (
                Holding { owner: OwnerId { incarnation: Incarnation(8), ..owner() }, ..other() },
                "the same term in another history",
            ),
        ] {
            assert!(!stands(&info(), &good, &bad), "{why}");
        }
        for worth in [Worth::Absent, Worth::Degraded, Worth::Resyncing] {
            assert!(!stands(&info(), &about(11, worth, 4), &other()), "{worth:?}");
        }
        assert!(!stands(&info(), &about(11, Worth::Active, 3), &other()), "away since");
        let nobody = Description { siblings: Vec::new(), ..good.clone() };
        assert!(!stands(&info(), &nobody, &other()), "it is in no record that it saw");
        for lost in
            [ComponentInfo { damaged: true, ..info() }, ComponentInfo { partial: true, ..info() }]
        {
            assert!(!stands(&lost, &good, &other()));
        }
        let unused = ComponentMeta { term: Term(0), ..info().meta };
        let unused = ComponentInfo { meta: unused, durable: Lsn::ZERO, ..info() };
        let empty = Holding { term: Term(0), durable: Lsn::ZERO, ..other() };
        assert!(!stands(&unused, &good, &empty), "nobody ever fenced it");
    }
}
