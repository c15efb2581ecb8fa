// SPDX-License-Identifier: Apache-2.0
//! Every object has as many copies as its volume is to have. One that stays away is made again on
//! another host (docs/operations/repair.md). There are more, or fewer, where the volume's failures
//! to tolerate were changed (docs/operations/redundancy.md). Copies leave hosts in maintenance
//! (docs/operations/maintenance.md), fault domains with another copy
//! (docs/operations/fault-domains.md), and hosts that are not the one that their volume is kept on
//! (docs/operations/affinity.md).
//!
//! Every host looks at all records and remembers since when each copy is missed, so that it can say
//! what will become of a volume, and go on where another host stopped. The living host with the
//! lowest number carries the plan out: it asks the owners to replace components (rules 38-40).
//! Whether two hosts do so at once for a while makes no difference: a component is replaced by one
//! other at a time. Nothing that is begun here has to be finished here.
//!
//! A copy that is back before its replacement is whole stays, and the replacement goes, if the host
//! that began it still runs. Otherwise the replacement goes on like a move.

mod leaving;
mod plan;
#[cfg(test)]
mod tests;

use crate::cluster::room::Rooms;
use crate::cluster::view::View;
use crate::storage::Storage;
use base::{ComponentId, Incarnation, Instant, Map, ObjectId, Set, ShardId};
use directory::{ComponentState, Directory, ObjectRecord, OwnerRecord, ShardRecord};
use diskgroup::DiskGroup;
use env::Env;
pub(crate) use leaving::{has_place, is_to_leave, is_too_close, left_without};
use object::{MemberChange, Objects};
pub(crate) use plan::Outlook;
use plan::{Facts, Missed, RepairStep, plan};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tracing::{info, warn};

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(2);
/// How long an object rests whose owner did not do what it was asked for.
const REST: Duration = Duration::from_secs(30);
/// How long an object has no owner before it gets one: an owner that the directory did not hear of
/// for a moment goes on, and others take over for their clients.
const UNOWNED_FOR: Duration = Duration::from_secs(60);
/// Owners that are asked at a time.
const ASKED_AT_ONCE: usize = 8;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Repairs(Rc<RepairsInner>);

struct RepairsInner {
    env: Env,
    me: ShardId,
    directory: Directory,
    objects: Objects,
    storage: Storage,
    view: View,
    state: RefCell<RepairState>,
    /// The view's turn at which a look at all objects found that none lacks anything.
    calm_at: Cell<Option<u64>>,
}

#[derive(Default)]
struct RepairState {
    missed: Missed,
    outlooks: Map<ObjectId, Outlook>,
    /// Components that this host had replaced, each with its object.
    begun: Map<ComponentId, ObjectId>,
    /// Objects that are left alone until then.
    resting: Map<ObjectId, Instant>,
    /// Objects that lack an owner, since when.
    unowned: Map<ObjectId, Instant>,
}

/// What a repair on demand came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repaired {
    /// The objects of which a copy is made again, each with the host that it is made on.
    pub(crate) begun: Vec<(ObjectId, ShardId)>,
    /// Why others are not, by object.
    pub(crate) refused: Vec<(ObjectId, String)>,
}

impl Repairs {
    pub(crate) fn new(
        env: &Env,
        me: ShardId,
        directory: &Directory,
        objects: &Objects,
        (storage, view): (&Storage, &View),
    ) -> Self {
        Self(Rc::new(RepairsInner {
            env: env.clone(),
            me,
            directory: directory.clone(),
            objects: objects.clone(),
            storage: storage.clone(),
            view: view.clone(),
            state: RefCell::default(),
            calm_at: Cell::default(),
        }))
    }

    /// Runs for ever.
    pub(crate) async fn run(self) {
        loop {
            self.0.env.sleep(ROUND).await;
            let Some((steps, unowned, first)) = self.0.look() else { continue };
            self.0.own(self.0.held_up_here()).await;
            if first == Some(self.0.me) {
                self.0.own(unowned).await;
                self.0.carry_out(steps).await;
            }
        }
    }

    /// When a missing copy of an object is made again, or why it is not. `None`: none is missing,
    /// or it is being made.
    pub(crate) fn outlook(&self, object: ObjectId) -> Option<Outlook> {
        self.0.state.borrow().outlooks.get(&object).copied()
    }

    /// Makes again what the objects that are meant miss of hosts that are down, however short they
    /// have been so and however many they are.
    pub(crate) async fn repair_now(&self, is_meant: impl Fn(ObjectId) -> bool) -> Repaired {
        let inner = &self.0;
        let (mut facts, mut records) = inner.facts();
        records.retain(|record| is_meant(record.id));
        facts.hurries = true;
        let mut missed = Missed::default();
        missed.look(&records, &facts);
        let (steps, outlooks) = plan(&records, &missed, facts, |_| false);
        let mut repaired = inner.carry_out(steps).await;
        let hindered = outlooks.into_iter().filter_map(|(object, outlook)| match outlook {
            Outlook::Never(hindrance) => Some((object, hindrance.to_string())),
            Outlook::At(_) => None,
        });
        repaired.refused.extend(hindered);
        repaired
    }
}

impl RepairsInner {
    /// What is so now, and the objects of which a component is away or was taken out: mostly few.
    fn facts(&self) -> (Facts, Vec<ObjectRecord>) {
        let shards = self.view.shards();
        let run = |shard: ShardId| Some((shard, self.view.alive(shard)?.incarnation));
        let alive: Map<ShardId, Incarnation> =
            shards.iter().filter_map(|shard| run(shard.id)).collect();
        let machines: Set<&str> = shards.iter().map(ShardRecord::machine).collect();
        let is_up = |shard: &&ShardRecord| alive.contains_key(&shard.id);
        let up: Set<&str> = shards.iter().filter(is_up).map(ShardRecord::machine).collect();
        let (machines, machines_missing) = (machines.len(), machines.difference(&up).count());
        let delay = self.view.settings().repair_delay.map(Duration::from_secs);
        let (now, rooms) = (self.env.now(), Rooms::default());
        let removed = self.view.removed();
        let mut facts = Facts {
            now,
            delay,
            alive,
            machines,
            machines_missing,
            removed,
            rooms,
            wanted: Map::new(),
            maintenance: self.view.maintenance(),
            domains: self.view.host_domains(),
            hurries: false,
        };
        let mut records = Vec::new();
        let turn = Some(self.view.turn());
        if self.calm_at.get() == turn {
            return (facts, records);
        }
        facts.wanted = self.view.wanted();
        self.view.for_each_object(|record| {
            let mut components = record.components.iter();
            let is_changing =
                components.any(|one| one.state != ComponentState::Active || facts.is_missed(one));
            let any_leaves = record.components.iter().any(|one| facts.leaves(record, one));
            if any_leaves || is_changing || !record.removed.is_empty() || facts.lacks(record) != 0 {
                records.push(record.clone());
            }
        });
        // It takes a look at all records: only where somebody may need room.
        if !records.is_empty() {
            facts.rooms = Rooms::of(&self.view);
        }
        self.calm_at.set(turn.filter(|_| records.is_empty()));
        (facts, records)
    }

    /// Brings what is remembered up to date. Returns the steps to take, the objects that lack an
    /// owner, and the host that carries the steps out. `None`: the directory is away, and nobody
    /// knows.
    fn look(&self) -> Option<(Vec<RepairStep>, Vec<ObjectId>, Option<ShardId>)> {
        if !self.directory.is_connected() || !self.view.is_complete() {
            return None;
        }
        let (facts, records) = self.facts();
        let (now, first) = (facts.now, facts.alive.keys().next().copied());
        let state = &mut *self.state.borrow_mut();
        state.missed.look(&records, &facts);
        state.resting.retain(|_, until| *until > now);
        let is_on_its_way = |old: &ComponentId, object: &mut ObjectId| {
            let record = records.iter().find(|record| record.id == *object);
            record.is_some_and(|r| r.components.iter().any(|c| c.replaces == Some(*old)))
        };
        state.begun.retain(is_on_its_way);
        let begun = &state.begun;
        let before = std::mem::take(&mut state.unowned);
        for record in records.iter().filter(|record| facts.lacks_owner(record)) {
            let since = before.get(&record.id).copied().unwrap_or(now);
            state.unowned.insert(record.id, since);
        }
        let (mut steps, outlooks) =
            plan(&records, &state.missed, facts, |old| begun.contains_key(&old));
        state.outlooks = outlooks;
        let rests = |object: &ObjectId| state.resting.contains_key(object);
        steps.retain(|step| !rests(&step.object));
        let due = state.unowned.iter().filter(|(_, since)| now.since(**since) >= UNOWNED_FOR);
        let unowned = due.map(|(object, _)| *object).filter(|object| !rests(object)).collect();
        Some((steps, unowned, first))
    }

    /// Objects without an owner whose writes a write buffer of this host cannot destage: nobody
    /// tells it that the other copies have them. So it is after an adoption, or after a restart of
    /// all hosts, until somebody uses the volume.
    fn held_up_here(&self) -> Vec<ObjectId> {
        let is_held_up = |group: &DiskGroup| {
            let pressure = group.status().pressure;
            pressure.waits_for_copies && pressure.stuck.is_some_and(|since| since >= UNOWNED_FOR)
        };
        let mut objects = Set::default();
        for group in self.storage.groups().into_iter().filter(is_held_up) {
            let components = group.components().into_iter().filter_map(|id| group.component(id));
            objects.extend(components.filter(|one| one.durable > one.commit).map(|one| one.object));
        }
        let resting = &self.state.borrow().resting;
        let rests = |id: &ObjectId| resting.contains_key(id);
        objects.into_iter().filter(|id| !rests(id) && self.is_unowned(*id)).collect()
    }

    fn is_unowned(&self, object: ObjectId) -> bool {
        let record = self.view.object(object).filter(|record| !record.is_doubted);
        record.is_some_and(|record| !record.owner.is_some_and(|owner| self.is_up(owner)))
    }

    /// Whether a step names a version of the record, and the object has no owner. An owner's claim
    /// would outdate that version. So the object gets its owner first, and the next round decides.
    fn waits_for_owner(&self, step: &RepairStep) -> bool {
        let names_version =
            matches!(step.change, MemberChange::Add { .. } | MemberChange::TakeOut { .. });
        names_version && self.is_unowned(step.object)
    }

    /// Whether the run of a host that owns something is the one that is up.
    fn is_up(&self, owner: OwnerRecord) -> bool {
        self.view.alive(owner.shard).is_some_and(|alive| alive.incarnation == owner.incarnation)
    }

    /// Objects that nobody uses get an owner, which goes on with what is to be done.
    async fn own(&self, unowned: Vec<ObjectId>) {
        let one = async |object: ObjectId| {
            if let Err(error) = self.objects.acquire(object).await {
                warn!(%object, %error, "it has no owner, so it stays as it is for now");
                self.state.borrow_mut().resting.insert(object, self.env.now() + REST);
            }
            Ok::<_, ()>(())
        };
        let _ = env::try_join_at_most(ASKED_AT_ONCE, unowned.into_iter().map(one)).await;
    }

    async fn carry_out(&self, steps: Vec<RepairStep>) -> Repaired {
        let (waiting, steps): (Vec<_>, Vec<_>) =
            steps.into_iter().partition(|step| self.waits_for_owner(step));
        self.own(waiting.into_iter().map(|step| step.object).collect()).await;
        let one = async |step: RepairStep| {
            let done = self.objects.change_members(step.object, step.change).await;
            Ok::<_, ()>((step, done))
        };
        let all = env::try_join_at_most(ASKED_AT_ONCE, steps.into_iter().map(one)).await;
        let mut repaired = Repaired::default();
        let state = &mut *self.state.borrow_mut();
        for (RepairStep { object, change }, done) in all.unwrap_or_default() {
            match (done, change) {
                (Ok(()), MemberChange::Replace { old, to, .. }) => {
                    base::hit(base::Probe::RepairBegun);
                    info!(%object, %old, host = %to, "a copy is made elsewhere");
                    state.begun.insert(old, object);
                    repaired.begun.push((object, to));
                }
                (Ok(()), MemberChange::Keep(old)) => {
                    base::hit(base::Probe::RepairCalledOff);
                    info!(%object, %old, "a copy is back, or its replacement is not to be had");
                    state.begun.remove(&old);
                }
                (Ok(()), MemberChange::Add { to: shard, .. }) => {
                    info!(%object, %shard, "the object gets one more copy");
                    repaired.begun.push((object, shard));
                }
                (Ok(()), MemberChange::TakeOut { component: old, .. }) => {
                    info!(%object, %old, "the object has one copy less");
                }
                (Err(error), _) => {
                    warn!(%object, ?change, %error, "its copies are not changed; tried again");
                    state.resting.insert(object, self.env.now() + REST);
                    repaired.refused.push((object, error.to_string()));
                }
            }
        }
        repaired
    }
}
