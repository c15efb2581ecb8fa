// SPDX-License-Identifier: Apache-2.0
//! Going on from a copy that is behind, where no whole one comes back (rule 41a).
//!
//! The protocol never does this by itself: what was acknowledged since that copy left is given up.
//! So an operator has to say it, of one volume, and for each of its objects no host that is up may
//! have a whole copy. The object's record is made anew, as an adoption does it (rule 25): a version
//! and a term that nobody can have reached, no owner, no claims.
//!
//! The whole copies are left out of the record, and are not noted as removed, so nobody deletes
//! them. Where their hosts come back after all, they are kept and not served, and the operator can
//! still decide for them (`gabion orphan`).

use super::{DECIDE_MAX, Undecided, decide, directory_away, unknown};
use crate::cluster::seen::Answers;
use crate::operations::{Operations, Outcome, failed, usage};
use base::{ComponentId, Lsn, ObjectId, ShardId, Term, Version};
use directory::{
    ComponentRecord, ComponentState, Entry, Expect, ObjectRecord, Transaction, VolumeRecord,
    object_key,
};
use env::join_all;
use object::ADOPTION_LEAP;
use operator::{StalePart, StaleReport};

/// An object that can go on from a copy that is behind.
struct Behind {
    record: ObjectRecord,
    revision: u64,
    /// Where it goes on from.
    chosen: ComponentRecord,
    /// Hosts of whole copies that are not up.
    down: Vec<ShardId>,
}

impl Operations {
    /// Has each object of a volume that has no whole copy within reach go on from the best of the
    /// others; with `is_check` says only what would be done.
    pub(crate) async fn recover(&self, name: &str, is_check: bool) -> Outcome<StaleReport> {
        placement::check_name(name).map_err(usage)?;
        let (volume, _) = self.volume_entry(name).await?;
        let parts = 1_u32..;
        let looks = volume.objects.iter().zip(parts.clone());
        let looks = looks.map(|(id, part)| Box::pin(self.look_at_part(*id, part)));
        let mut old = Vec::new();
        for (found, part) in join_all(looks.collect()).await.into_iter().zip(parts) {
            if let Some(behind) = found? {
                old.push((behind, part));
            }
        }
        if old.is_empty() {
            return Err(failed(format!(
                "volume '{name}' was not changed: each part of it has a whole copy on a host that \
                 is up; 'gabion volume show {name}' shows them"
            )));
        }
        if !is_check {
            for (behind, _) in &old {
                self.go_on_from(&volume, behind).await?;
            }
        }
        Ok(StaleReport {
            volume: volume.name,
            parts: volume.objects.iter().map(|_| 1).sum(),
            old: old.iter().map(|(behind, part)| self.recovered_part(behind, *part)).collect(),
            is_done: !is_check,
        })
    }

    fn recovered_part(&self, behind: &Behind, part: u32) -> StalePart {
        let is_whole = |one: &&ComponentRecord| one.state == ComponentState::Active;
        let given_up = behind.record.components.iter().filter(is_whole);
        StalePart {
            part,
            from: self.view.shard_name(behind.chosen.shard),
            given_up: given_up.map(|one| self.view.shard_name(one.shard)).collect(),
            was_returning: behind.chosen.state == ComponentState::Resyncing,
        }
    }

    /// None where a host that is up has a whole copy.
    async fn look_at_part(&self, id: ObjectId, part: u32) -> Outcome<Option<Behind>> {
        let entry = self.directory.get(&object_key(id)).await.map_err(directory_away)?;
        let Some(entry) = entry else {
            return Err(failed(format!("nothing was changed: part {part} is being deleted")));
        };
        let record = ObjectRecord::decode(&entry.value).map_err(|error| {
            failed(format!("nothing was changed: the record of part {part} is damaged: {error}"))
        })?;
        if record.is_doubted {
            return Err(failed(format!(
                "nothing was changed: the directory went back in time, and what its copies know \
                 decides about part {part}: see 'gabion orphan list' and 'gabion orphan adopt'"
            )));
        }
        let mut down = Vec::new();
        for whole in record.components.iter().filter(|one| one.state == ComponentState::Active) {
            let is_up = self.view.alive(whole.shard).is_some();
            match self.seen.host(whole.shard) {
                Answers::Yes if self.has_copy(whole).await => return Ok(None),
                // Its disk group is not open, or has lost the copy.
                Answers::Yes => {}
                Answers::No(_) if !is_up => down.push(whole.shard),
                Answers::No(_) => {
                    let host = self.view.shard_name(whole.shard);
                    return Err(failed(format!(
                        "nothing was changed: {host} has a whole copy of part {part} and may be \
                         up, for it holds its lease: end its daemon first (systemctl disable --now \
                         gabion on that machine), and try again some seconds later"
                    )));
                }
            }
        }
        let mut best: Option<ComponentRecord> = None;
        for one in record.components.iter().filter(|one| has_something(one)) {
            let is_better = best.is_none_or(|best| rank(&best) < rank(one));
            let is_here = self.seen.host(one.shard) == Answers::Yes;
            if is_better && is_here && self.has_copy(one).await {
                best = Some(*one);
            }
        }
        let Some(chosen) = best else {
            return Err(failed(format!(
                "nothing was changed: no host that is up has an older copy of part {part} either; \
                 start the hosts that have one ('gabion volume show'), or restore a backup of the \
                 data into a new volume"
            )));
        };
        Ok(Some(Behind { record, revision: entry.revision, chosen, down }))
    }

    /// Whether a host has a copy on a disk group that is open.
    async fn has_copy(&self, one: &ComponentRecord) -> bool {
        self.objects.reserve_limit(one.shard, one.id).await.is_ok()
    }

    async fn go_on_from(&self, volume: &VolumeRecord, behind: &Behind) -> Outcome<()> {
        let next = recovered(&behind.record, behind.chosen.id);
        next.check().map_err(|error| failed(format!("its record makes no sense: {error}")))?;
        let key = object_key(next.id);
        let value = next.encode();
        let write = Transaction::new()
            .expect(directory::volume_key(&volume.name), Expect::Present)
            .expect(directory::deleted_key(volume.id), Expect::Absent)
            .expect(&key, Expect::Revision(behind.revision))
            .put(&key, value.clone());
        let is_down = |write: Transaction, shard: &ShardId| {
            write.expect(directory::alive_key(*shard), Expect::Absent)
        };
        let write = behind.down.iter().fold(write, is_down);
        let until = self.env.now() + DECIDE_MAX;
        let landed = |entry: Option<&Entry>| entry.is_some_and(|entry| entry.value == value);
        match decide(&self.env, &self.directory, &write, &key, landed, until).await {
            Ok(true) => {
                tracing::warn!(
                    volume = volume.name, object = %next.id, component = %behind.chosen.id,
                    "it goes on from a copy that is behind, by an operator's word"
                );
                Ok(())
            }
            Ok(false) => Err(failed(format!(
                "a host with a copy of volume '{0}' came up, or its copies changed meanwhile: see \
                 'gabion volume show {0}', then try again",
                volume.name
            ))),
            Err(Undecided::Away(error)) => Err(directory_away(error)),
            Err(Undecided::Unknown) => {
                Err(unknown(&format!("volume '{}' goes on from older copies", volume.name)))
            }
        }
    }
}

/// Whether a component that is not active is known to have held something once. A new one, or one
/// that lost everything, does not (rules 19, 38).
fn has_something(one: &ComponentRecord) -> bool {
    one.state != ComponentState::Active && one.left > Lsn::ZERO
}

/// The better one is the higher: one that is not in the middle of a copy, for such a one is partly
/// of now and partly of before; among these, the one that left last.
fn rank(one: &ComponentRecord) -> (bool, Lsn) {
    (one.state != ComponentState::Resyncing, one.left)
}

/// The record of an object that goes on from `chosen`. Whole copies are left out; all others are
/// copied anew in full (`left` is zero).
fn recovered(record: &ObjectRecord, chosen: ComponentId) -> ObjectRecord {
    let kept = record.components.iter().filter(|one| one.state != ComponentState::Active);
    let mut components: Vec<_> = kept
        .map(|one| {
            let is_chosen = one.id == chosen;
            let state = if is_chosen { ComponentState::Active } else { ComponentState::Absent };
            ComponentRecord { state, left: Lsn::ZERO, replaces: None, ..*one }
        })
        .collect();
    components.sort_by_key(|one| one.id != chosen);
    ObjectRecord {
        version: Version(record.version.0.saturating_add(ADOPTION_LEAP)),
        term: Term(record.term.0 + 1),
        owner: None,
        handover: None,
        claims: Vec::new(),
        components,
        ..record.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{GroupId, Incarnation, Seat, VolumeId, WriterEpoch};
    use directory::{Claim, OwnerRecord};

    fn one(id: u64, state: ComponentState, left: u64) -> ComponentRecord {
        ComponentRecord {
            id: ComponentId(id),
            shard: ShardId(id as u32),
            group: GroupId(id),
            state,
            seat: Seat(id as u32),
            left: if left == 0 { Lsn::ZERO } else { Lsn::new(Term(1), left) },
            replaces: None,
        }
    }

    /// Rule 41a.
    #[test]
    fn whole_copies_are_left_out_and_nobody_deletes_them() {
        let owner = OwnerRecord { shard: ShardId(1), incarnation: Incarnation(1) };
        let mut fresh = one(3, ComponentState::Absent, 0);
        fresh.replaces = Some(ComponentId(2));
        let record = ObjectRecord {
            id: ObjectId(1),
            volume: VolumeId(1),
            sectors: 4096,
            version: Version(7),
            term: Term(3),
            owner: Some(owner),
            handover: None,
            components: vec![
                one(1, ComponentState::Active, 0),
                one(2, ComponentState::Absent, 5),
                fresh,
            ],
            removed: Vec::new(),
            claims: vec![Claim { term: Term(3), version: Version(7), owner }],
            is_doubted: false,
            writer_epoch: WriterEpoch::ANY,
        };
        let next = recovered(&record, ComponentId(2));
        assert!(next.check().is_ok(), "{:?}", next.check());
        let states: Vec<_> = next.components.iter().map(|one| (one.id.0, one.state)).collect();
        assert_eq!(states, [(2, ComponentState::Active), (3, ComponentState::Absent)]);
        assert!(next.components.iter().all(|one| (one.left, one.replaces) == (Lsn::ZERO, None)));
        assert!(next.removed.is_empty() && next.claims.is_empty() && next.owner.is_none());
        assert!(next.version.0 >= 7 + ADOPTION_LEAP && next.term > record.term);
    }

    #[test]
    fn one_that_left_last_is_the_best_unless_it_was_being_copied() {
        let (late, early) = (one(1, ComponentState::Absent, 9), one(2, ComponentState::Absent, 5));
        let mixed = one(3, ComponentState::Resyncing, 20);
        let lost = one(4, ComponentState::Degraded, 0);
        assert!(rank(&late) > rank(&early) && rank(&early) > rank(&mixed));
        assert!(has_something(&mixed) && !has_something(&lost));
        assert!(!has_something(&one(5, ComponentState::Active, 0)));
    }
}
