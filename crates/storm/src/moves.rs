// SPDX-License-Identifier: Apache-2.0
//! Copies of volumes are moved to other hosts, and called back, while hosts, links and devices fail
//! (rules 38-40).

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use crate::maintenance::MAINTENANCE_FROM;
use crate::plan::shards::DOMAINS_FROM;
use crate::plan::{VolumePlan, balance};
use base::{ComponentId, ShardId};
use directory::{ComponentState, ObjectRecord};
use object::MemberChange;
use operator::{Command, CommandReply, PolicyRules, RateLimit};
use std::time::Duration;

/// The random numbers of this story.
const STREAM: u64 = 25;
/// Seeds from here on also change how many copies volumes have.
const COPIES_FROM: u64 = 274_000_000;

/// Seeds from here on also say how many by a policy.
const POLICIES_FROM: u64 = 276_000_000;

/// Seeds from here on also have limits in these policies.
const LIMITS_FROM: u64 = 280_000_000;

/// What happens next to a replacement that was asked for.
struct Asked {
    owner: Option<usize>,
    old: usize,
    new: usize,
    component: ComponentId,
}

impl SeedRun {
    /// A host is asked to move a random copy of a random object to a random host, or to call that
    /// off.
    pub(crate) fn move_copy(&mut self, index: usize) {
        let records: Vec<ObjectRecord> = self.records().collect();
        let Some(record) = self.any_from(&records) else { return };
        let Some(component) = self.any_from(&record.components) else { return };
        let shards: Vec<ShardId> =
            self.cluster.machines.iter().map(|m| ShardId(m.number)).collect();
        let to = self.any_from(&shards).copied();
        let to = to.filter(|_| self.rng.below(5) > 0);
        let to = to.filter(|to| self.is_alone(record, *to, Some(component.id)));
        let change = match to {
            Some(to) => MemberChange::Replace { old: component.id, to, members: record.members() },
            None => MemberChange::Keep(component.id),
        };
        self.cluster.change_members(index, record.id, change);
    }

    /// A volume of three copies is to have two from now on, or three again. Whoever decides about
    /// repair has its objects follow.
    fn change_copies(&mut self, is_back: bool) -> Result<(), Violation> {
        if self.plan.seed < COPIES_FROM {
            return Ok(());
        }
        for at in 0..self.plan.volumes.len() {
            let asked = self.plan.volumes[at].ftt;
            if asked < 2 || !is_back && self.one_of(2) == 0 {
                continue;
            }
            let ftt = if is_back || self.one_of(2) == 0 { asked } else { asked - 1 };
            let is_by_policy = self.plan.seed >= POLICIES_FROM && self.one_of(2) == 0;
            if !self.ask_for_copies(at, ftt, is_by_policy) && is_back {
                self.wait("as many copies as before", |run| {
                    run.end_maintenance();
                    run.make_room();
                    run.ask_for_copies(at, ftt, is_by_policy)
                })?;
            }
        }
        Ok(())
    }

    /// Whether volume number `at` is surely to have so many failures to tolerate from now on.
    fn ask_for_copies(&mut self, at: usize, ftt: u8, is_by_policy: bool) -> bool {
        let name = VolumePlan::name(at);
        if !is_by_policy {
            let host = self.any_host();
            return self.is_done(host, Command::VolumeRedundancy { name, ftt, force: false });
        }
        // Each volume has a policy of its own, of the same name.
        let reserve_percent = Some(self.plan.volumes[at].reserve_percent);
        let rules = PolicyRules { ftt: Some(ftt), reserve_percent, ..self.limits() };
        let policy = Some(name.clone());
        let (one, two, three) = (self.any_host(), self.any_host(), self.any_host());
        // It is there already, but for the first time.
        self.is_done(one, Command::PolicyCreate { name: name.clone(), rules });
        self.is_done(two, Command::PolicyEdit { name: name.clone(), rules })
            && self.is_done(three, Command::VolumeSetPolicy { name, policy })
    }

    /// Hosts are filled alike from now on, where the plan says so.
    pub(crate) fn let_copies_move(&mut self) {
        if balance::is_wanted(&self.plan.balance) {
            let asked = self.any_host();
            self.is_done(asked, Command::Rebalance { on: true });
        }
    }

    /// Copies stay where they are from now on, so that the cluster comes to rest.
    pub(crate) fn keep_copies_in_place(&mut self) -> Result<(), Violation> {
        if !balance::is_wanted(&self.plan.balance) {
            return Ok(());
        }
        self.wait("copies that stay where they are", |run| {
            let asked = run.any_host();
            run.is_done(asked, Command::Rebalance { on: false })
        })
    }

    /// Hosts copy at most so much from now on: little enough that copies wait, and so much that no
    /// volume of a campaign takes long.
    fn change_resync_limit(&mut self) {
        if self.plan.seed >= DOMAINS_FROM && self.one_of(3) == 0 {
            let limits = [None, Some(16 << 20), Some(64 << 20)];
            let bytes_per_second = self.any_from(&limits).copied().flatten();
            let asked = self.any_host();
            self.is_done(asked, Command::ResyncLimit { bytes_per_second });
        }
    }

    /// Limits of requests that a policy may have: none, or some that the load meets.
    fn limits(&mut self) -> PolicyRules {
        if self.plan.seed < LIMITS_FROM {
            return PolicyRules::default();
        }
        let iops = [32, 200, 2000].get(usize::try_from(self.one_of(6)).unwrap_or(usize::MAX));
        let bytes = [1 << 20, 16 << 20].get(usize::try_from(self.one_of(6)).unwrap_or(usize::MAX));
        let limit =
            |limit: Option<&u64>| limit.map_or(RateLimit::None, |rate| RateLimit::At(*rate));
        let (iops, bytes_per_second) = (Some(limit(iops)), Some(limit(bytes)));
        PolicyRules { iops, bytes_per_second, ..PolicyRules::default() }
    }

    /// Whether a host says that it did what it was asked for.
    pub(crate) fn is_done(&mut self, host: usize, change: Command) -> bool {
        let answer = self.ask(host, change.clone());
        tracing::info!(?change, ?answer, "asked for");
        matches!(answer, Some(CommandReply::Ok(_)))
    }

    /// Copies that stay away are made again after the time that the plan says.
    pub(crate) fn set_repair_delay(&mut self) -> Result<(), Violation> {
        let Some(delay) = self.plan.repair_delay else { return Ok(()) };
        let set = Command::ClusterSet { repair_delay_seconds: Some(delay) };
        for _ in 0..20 {
            let host = self.any_host();
            if let Some(CommandReply::Ok(_)) = self.ask(host, set.clone()) {
                return Ok(());
            }
            self.cluster.world.run_for(Duration::from_millis(500));
        }
        Err(Violation::Stuck("the repair delay cannot be set".to_owned()))
    }

    pub(crate) fn any_from<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(all.len()).ok().filter(|count| *count > 0)?;
        all.get(usize::try_from(self.rng.below(count)).ok()?)
    }

    /// Copies of one object move. At a chosen moment of each move something fails, or somebody
    /// changes his mind.
    pub(crate) fn moves(&mut self) -> Result<(), Violation> {
        self.with_stream(STREAM, |run| {
            for _ in 0..2 + run.one_of(4) {
                run.change_copies(false)?;
                run.change_domains();
                run.grow_volume();
                run.change_resync_limit();
                if run.plan.seed >= MAINTENANCE_FROM && run.one_of(3) == 0 {
                    run.one_maintenance()?;
                } else {
                    run.one_move()?;
                }
                run.pass(0, 5000)?;
                if run.one_of(3) > 0 {
                    run.cluster.world.heal_all();
                    run.boot_what_is_down(false);
                }
            }
            run.heal_for_copies();
            run.change_copies(true)
        })
    }

    /// Three copies again are refused as long as too few hosts are up.
    fn heal_for_copies(&mut self) {
        if self.plan.seed >= COPIES_FROM {
            self.cluster.world.heal_all();
            self.boot_what_is_down(true);
            self.end_maintenance();
        }
    }

    fn one_move(&mut self) -> Result<(), Violation> {
        let Some(asked) = self.ask_for_a_move() else {
            return self.pass(0, 3000);
        };
        let component = asked.component;
        let is_new = move |record: &ObjectRecord, wanted: Option<ComponentState>| {
            let components = &mut record.components.iter();
            components.any(|c| {
                c.replaces == Some(component) && wanted.is_none_or(|wanted| c.state == wanted)
            })
        };
        match self.one_of(5) {
            0 => self.pass(0, 300)?,
            1 => self.until(move |record| is_new(record, None))?,
            2 => self.until(move |record| is_new(record, Some(ComponentState::Resyncing)))?,
            3 => {
                self.until(move |record| is_new(record, Some(ComponentState::Resyncing)))?;
                self.pass(0, 200)?;
            }
            _ => self.until(move |record| record.components.iter().all(|c| c.id != component))?,
        }
        self.decisive();
        self.disturb(&asked);
        Ok(())
    }

    /// Asks some host to move a copy of the round's object to one that has none.
    fn ask_for_a_move(&mut self) -> Option<Asked> {
        let record = self.record()?;
        let machines = &self.cluster.machines;
        let index = |shard: ShardId| machines.iter().position(|m| m.number == shard.0);
        let taken: Vec<usize> = record.components.iter().filter_map(|c| index(c.shard)).collect();
        let is_free = |at: &usize| {
            !taken.contains(at) && self.is_alone(&record, ShardId(machines[*at].number), None)
        };
        let free: Vec<usize> = (0..machines.len()).filter(is_free).collect();
        let owner = record.owner.and_then(|owner| index(owner.shard));
        let new = *self.any_from(&free)?;
        let old = *self.any_from(&record.components)?;
        let (at, machines) = (self.any_host(), &self.cluster.machines);
        let to = ShardId(machines[new].number);
        let old_at = machines.iter().position(|m| m.number == old.shard.0)?;
        let change = MemberChange::Replace { old: old.id, to, members: record.members() };
        self.cluster.change_members(at, record.id, change);
        Some(Asked { owner, old: old_at, new, component: old.id })
    }

    /// Whether no component but the one that is `leaving` is on the machine of `host`: whoever asks
    /// an owner for another component sees to that.
    fn is_alone(
        &self,
        record: &ObjectRecord,
        shard: ShardId,
        leaving: Option<ComponentId>,
    ) -> bool {
        let machine = self.machine_of(shard);
        let others = record.components.iter().filter(|one| Some(one.id) != leaving);
        machine.is_none() || others.map(|one| self.machine_of(one.shard)).all(|on| on != machine)
    }

    fn disturb(&mut self, asked: &Asked) {
        let owner = asked.owner.unwrap_or(asked.old);
        match self.one_of(9) {
            0 => self.take_down_somehow(owner),
            1 => self.take_down_somehow(asked.old),
            2 => self.take_down_somehow(asked.new),
            3 => self.isolate(owner),
            4 => self.isolate(asked.new),
            5 => {
                let Some(record) = self.record() else { return };
                let at = self.any_host();
                let change = MemberChange::Keep(asked.component);
                self.cluster.change_members(at, record.id, change);
            }
            6 => {
                let at = self.any_host();
                self.inject_at(Fault::MoveCopy, at);
            }
            7 => self.inject(Fault::DirectoryCut),
            _ => {}
        }
    }

    /// Whether every object has as many components as it is to have, all of them active and apart,
    /// and what was taken out is deleted.
    pub(crate) fn is_settled(&self) -> bool {
        if !self.is_spare_settled() {
            return false;
        }
        let volumes = self.plan.volumes.iter().enumerate();
        volumes.into_iter().all(|(at, volume)| {
            let records = self.cluster.records.all_objects(&VolumePlan::name(at));
            let records: Vec<ObjectRecord> = records.into_iter().flatten().collect();
            records.iter().all(|record| {
                let mut components = record.components.iter();
                record.removed.is_empty()
                    && components.len() == usize::from(volume.ftt) + 1
                    && components.all(|c| c.state == ComponentState::Active)
            }) && self.are_apart(&records)
        })
    }
}
