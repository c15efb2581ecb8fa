// SPDX-License-Identifier: Apache-2.0
//! Liveness in the middle of a round: while enough of the cluster is undisturbed, clients get their
//! answers (promise 5). It only looks: a run with it has the digest of a run without it.
//!
//! A volume is *well enough* for the clients of a host since the last of these began:
//! - The directory runs, and loses no requests and no answers.
//! - That host is sound.
//! - Each host that the volume has to do with is sound, or is gone: off, or cut off from everybody.
//!   Those are the hosts with its components, its owner's, and those with its clients. They have
//!   been the same hosts.
//! - Sound hosts reach each other and the directory, at full speed.
//! - A component that counts is on a sound host.
//!
//! A host is *sound* while its process runs and is never paused, its devices have no fault and were
//! not damaged, and all its disk groups are open and whole.
//!
//! If the directory goes away from all of them after [`Bounds::recover`], the volume stays well
//! enough as long as nothing else changes: no host is gone, and none has to become the owner (rules
//! 51 and 52).
//!
//! Not looked at: plans whose directory loses answers or leases, rounds in which the directory was
//! set back, what goes beyond the contract, and plans whose devices may take long over a flush.

use crate::cluster::Cluster;
use crate::plan::{Plan, VolumePlan};
use crate::waits::{ClientWait, WaitOver};
use crate::workload::VolumeLoad;
use base::{Instant, Map, Set, ShardId};
use directory::{ComponentState, ObjectRecord};
use sim::{HostCondition, HostKey, PathCondition};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use volume::VolumeError;

/// How often the cluster is looked at.
pub const LOOK: Duration = Duration::from_millis(500);
/// A link to a host that is silent ends after this time (`SILENCE_MAX` and `TICK` of crate `peer`).
const SILENCE: Duration = Duration::from_millis(2250);
/// The directory takes a host for dead after this time (`LEASE_TTL` of crate `host`).
const ALIVE: Duration = Duration::from_secs(3);
/// The longest pause between two attempts to reach the owner or to become it (`RETRY_MAX` of crate
/// `object`, `RETRY_PAUSE_MAX` of crate `volume`).
const PAUSES: Duration = Duration::from_millis(1500);
/// Calls of the directory that a take-over makes one after the other.
const CALLS: u32 = 6;
/// The most that quirks add to one attempt. Each lingers for a second at most.
const LINGERS: Duration = Duration::from_secs(4);

/// Where flushes and discards may take longer than this without a fault, nothing is asked of how
/// soon clients are answered.
const LONG_MAX: Duration = Duration::from_millis(250);
/// Flushes of devices that an attempt waits for one after the other.
const FLUSHES: u32 = 8;

/// How long clients may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// What has waited for this long, while the volume was well enough all the time, is answered.
    pub recover: Duration,
    /// What begins after that is answered within this time, and without an error.
    pub answer: Duration,
}

impl Bounds {
    /// From the time-outs of a plan. One attempt to find an owner, or to become it, takes at most:
    /// the silence after which a link ends, the time after which the directory takes a host for
    /// dead, a call of the directory that is never answered and the others that are late, a grant
    /// that has to run out (rule 52b), the stall time after which a component is given up (rule
    /// 14), and pauses. That is what any operation may take. An attempt that was under way when the
    /// last fault ended may fail and be made again. So recovery takes two of them.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Self {
        let late = plan.directory.late_max * CALLS + plan.directory.expiry_late_max;
        let lingers = if plan.quirks.fire_ppm > 0 { LINGERS } else { Duration::ZERO };
        let answer = SILENCE
            + ALIVE
            + directory::CALL_TIMEOUT
            + late
            + plan.object.lease_ttl
            + plan.object.stall
            + PAUSES
            + plan.freedom.long_max * FLUSHES
            + lingers;
        Self { recover: answer * 2, answer }
    }
}

/// How a host is, for clients that need it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fitness {
    Sound(Instant),
    Gone(Instant),
    Disturbed,
}

/// What is remembered of a volume from look to look.
#[derive(Default)]
struct VolumeSeen {
    /// The hosts that it has to do with, and since when these.
    hosts: Set<usize>,
    hosts_since: Instant,
    /// Since when a component that counts has been on a sound host.
    copy_since: Option<Instant>,
    /// For the clients of each host: since when it was well enough, once that was for so long that
    /// everything is answered.
    settled: Map<usize, Instant>,
}

/// The oracle.
pub(crate) struct Liveness {
    bounds: Bounds,
    is_on: bool,
    /// Nothing is asked of what was before.
    from: Cell<Instant>,
    is_excused: Cell<bool>,
    /// For each host: since when its disk groups have been open and whole.
    whole_since: RefCell<Vec<Option<Instant>>>,
    volumes: RefCell<Vec<VolumeSeen>>,
    longest: Cell<Duration>,
    watched: Cell<Duration>,
}

impl Liveness {
    pub(crate) fn new(plan: &Plan) -> Self {
        let faults = &plan.directory;
        let is_deaf = faults.drop_before_ppm + faults.drop_after_ppm + faults.lose_lease_ppm > 0;
        Self {
            bounds: Bounds::of_plan(plan),
            is_on: !is_deaf && !plan.is_beyond() && plan.freedom.long_max <= LONG_MAX,
            from: Cell::default(),
            is_excused: Cell::default(),
            whole_since: RefCell::new((0..plan.hosts).map(|_| None).collect()),
            volumes: RefCell::new(plan.volumes.iter().map(|_| VolumeSeen::default()).collect()),
            longest: Cell::default(),
            watched: Cell::default(),
        }
    }

    /// Asks nothing until the next round: the directory is set back, and what is served then is an
    /// operator's decision.
    pub(crate) fn excuse(&self) {
        self.is_excused.set(true);
    }

    /// A round begins.
    pub(crate) fn begin_round(&self, now: Instant) {
        if self.is_excused.replace(false) {
            self.from.set(now);
        }
    }

    /// The longest wait of an operation that began when everything had been well enough for long.
    pub(crate) fn longest(&self) -> Duration {
        self.longest.get()
    }

    /// For how long clients had to be answered within [`Bounds::answer`], summed up over volumes
    /// and hosts with clients.
    pub(crate) fn watched(&self) -> Duration {
        self.watched.get()
    }

    /// Looks at what clients wait for.
    ///
    /// # Errors
    /// Who waits for what, for how long, and how the cluster is.
    pub(crate) fn look(
        &self,
        plan: &Plan,
        cluster: &Cluster,
        shared: &[Rc<VolumeLoad>],
        is_damaged: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        if !self.is_on || self.is_excused.get() {
            shared.iter().for_each(|shared| drop(shared.waits.take_over()));
            return Ok(());
        }
        self.look_at_groups(cluster, is_damaged);
        let mut volumes = self.volumes.borrow_mut();
        for ((seen, shared), (volume, planned)) in
            volumes.iter_mut().zip(shared).zip((0..).zip(&plan.volumes))
        {
            // A volume is as well as all of its objects together.
            let records = cluster.records.all_objects(&VolumePlan::name(volume));
            let Some(records) = records.into_iter().collect::<Option<Vec<_>>>() else { continue };
            let view = View { cluster, whole_since: &self.whole_since.borrow() };
            let owner_stays = shared.only.borrow().is_none();
            view.follow(seen, &records, &planned.clients);
            let is_notable = shared.waits.is_notable();
            let over = shared.waits.take_over();
            for host in planned.clients.iter().copied() {
                let mut owners = records.iter().map(|record| record.owner);
                let stays = owner_stays
                    && owners.all(|owner| {
                        owner.is_some_and(|owner| planned.clients.contains(&index(owner.shard)))
                    });
                let since = self.well_since(&view, seen, host, stays);
                let Some(since) = since else { continue };
                let since = since.max(self.from.get());
                let is_open = shared.is_open.get();
                if is_open && cluster.world.now().since(since) >= self.bounds.recover {
                    self.watched.set(self.watched.get() + LOOK);
                }
                if !is_notable {
                    continue;
                }
                let found = self.judge(shared, &over, host, since, cluster.world.now());
                found.map_err(|what| {
                    let Bounds { recover, answer } = self.bounds;
                    let well = cluster.world.now().since(since);
                    let how = view.describe(seen);
                    format!(
                        "{what}; well enough for {well:.1?}, bounds {recover:.1?} and \
                         {answer:.1?}; {how}; {records:?}"
                    )
                })?;
            }
        }
        Ok(())
    }

    fn look_at_groups(&self, cluster: &Cluster, is_damaged: impl Fn(usize) -> bool) {
        let now = cluster.world.now();
        for (index, since) in self.whole_since.borrow_mut().iter_mut().enumerate() {
            let is_whole = !is_damaged(index)
                && cluster.node(index).is_some_and(|node| {
                    let is_whole =
                        |g: &diskgroup::DiskGroup| !g.is_any_out() && g.status().fenced.is_none();
                    node.closed_groups().is_empty() && node.groups().iter().all(is_whole)
                });
            *since = is_whole.then(|| since.unwrap_or(now));
        }
    }

    /// Since when a volume is well enough for the clients of `host`. `stays`: nobody else wants to
    /// become its owner.
    fn well_since(
        &self,
        view: &View<'_>,
        seen: &mut VolumeSeen,
        host: usize,
        stays: bool,
    ) -> Option<Instant> {
        let now = view.cluster.world.now();
        if let Some(since) = view.well_since(seen, host, true) {
            if now.since(since) >= self.bounds.recover {
                seen.settled.insert(host, since);
            } else {
                seen.settled.remove(&host);
            }
            return Some(since);
        }
        let before = seen.settled.get(&host).copied();
        let alone = view.well_since(seen, host, false).filter(|_| stays);
        let is_still = alone.is_some_and(|alone| before.is_some_and(|before| alone <= before));
        if !is_still {
            seen.settled.remove(&host);
        }
        before.filter(|_| is_still)
    }

    /// Judges the operations of the clients of one host. For these the volume has been well enough
    /// since `since`.
    fn judge(
        &self,
        shared: &VolumeLoad,
        over: &[WaitOver],
        host: usize,
        since: Instant,
        now: Instant,
    ) -> Result<(), String> {
        let Bounds { recover, answer } = self.bounds;
        let is_late = |wait: &ClientWait| wait.begun >= since + recover;
        for WaitOver { wait, ended, error } in over.iter().filter(|over| over.wait.host == host) {
            if !is_late(wait) {
                continue;
            }
            let took = ended.since(wait.begun);
            self.longest.set(self.longest.get().max(took));
            // Another host writes: whether any can is asked at rest (`take_all_over`).
            let error = error.filter(|error| *error != VolumeError::NotWriter);
            if let Some(error) = error {
                return Err(format!("a {wait} failed after {took:.1?}: {error}"));
            }
            if took > answer {
                return Err(format!("a {wait} took {took:.1?}"));
            }
        }
        for wait in shared.waits.open().iter().filter(|wait| wait.host == host) {
            let waits = now.since(wait.begun);
            let is_over = match is_late(wait) {
                true => waits > answer,
                false => waits > recover && now.since(since) > recover,
            };
            if is_over {
                return Err(format!("a {wait} has no answer after {waits:.1?}"));
            }
        }
        Ok(())
    }
}

/// How the cluster is at one moment.
struct View<'a> {
    cluster: &'a Cluster,
    whole_since: &'a [Option<Instant>],
}

impl View<'_> {
    fn key(&self, host: usize) -> HostKey {
        self.cluster.machines[host].key
    }

    fn path(&self, a: HostKey, b: HostKey) -> PathCondition {
        self.cluster.world.path_condition(a, b)
    }

    /// Notes which hosts a volume has to do with, and whether there is a copy to go on with.
    fn follow(&self, seen: &mut VolumeSeen, records: &[ObjectRecord], clients: &[usize]) {
        let now = self.cluster.world.now();
        let components = records.iter().flat_map(|record| &record.components);
        let mut hosts: Set<usize> = components.map(|c| index(c.shard)).collect();
        let owners = records.iter().filter_map(|record| record.owner);
        hosts.extend(owners.map(|owner| index(owner.shard)));
        hosts.extend(clients.iter().copied());
        if hosts != seen.hosts {
            (seen.hosts, seen.hosts_since) = (hosts, now);
        }
        let is_sound = |shard| matches!(self.fitness(index(shard), &seen.hosts), Fitness::Sound(_));
        let has_copy = records.iter().all(|record| {
            let mut counted = record.components.iter();
            !record.is_doubted
                && counted.any(|c| c.state == ComponentState::Active && is_sound(c.shard))
        });
        seen.copy_since = has_copy.then(|| seen.copy_since.unwrap_or(now));
    }

    fn fitness(&self, host: usize, among: &Set<usize>) -> Fitness {
        match (self.cluster.world.condition(self.key(host)), self.whole_since[host]) {
            (HostCondition::Off(since), _) => Fitness::Gone(since),
            (HostCondition::Sound(since), Some(whole)) => {
                let cut = self.cut_off_since(host, among);
                cut.map_or(Fitness::Sound(since.max(whole)), Fitness::Gone)
            }
            (HostCondition::Sound(_), None) | (HostCondition::Disturbed, _) => Fitness::Disturbed,
        }
    }

    /// Since when a host hears nobody of these and not the directory, if that is so.
    fn cut_off_since(&self, host: usize, among: &Set<usize>) -> Option<Instant> {
        let others = among.iter().filter(|other| **other != host).map(|other| self.key(*other));
        let mut last = None;
        for other in others.chain([self.cluster.directory]) {
            let PathCondition::Cut(since) = self.path(self.key(host), other) else { return None };
            last = last.max(Some(since));
        }
        last
    }

    /// Since when a volume is well enough for the clients of `host`. Without the directory: since
    /// when it would be if the directory were not needed, while nobody reaches that.
    fn well_since(&self, seen: &VolumeSeen, host: usize, with_directory: bool) -> Option<Instant> {
        let mut since = seen.copy_since?.max(seen.hosts_since);
        let mut sound = Vec::new();
        for at in seen.hosts.iter().copied() {
            match self.fitness(at, &seen.hosts) {
                Fitness::Sound(of) => {
                    since = since.max(of);
                    sound.push(self.key(at));
                }
                Fitness::Gone(of) if at != host && with_directory => since = since.max(of),
                Fitness::Gone(_) | Fitness::Disturbed => return None,
            }
        }
        for (number, a) in sound.iter().enumerate() {
            for b in &sound[number + 1..] {
                let PathCondition::Clear(of) = self.path(*a, *b) else { return None };
                since = since.max(of);
            }
        }
        let directory = self.cluster.directory;
        let state = self.cluster.world.condition(directory);
        if !with_directory {
            let is_cut =
                |host: &HostKey| matches!(self.path(*host, directory), PathCondition::Cut(_));
            let is_away = matches!(state, HostCondition::Off(_)) || sound.iter().all(is_cut);
            return is_away.then_some(since);
        }
        let HostCondition::Sound(of) = state else { return None };
        since = since.max(of);
        for host in &sound {
            let PathCondition::Clear(of) = self.path(*host, directory) else { return None };
            since = since.max(of);
        }
        Some(since)
    }

    fn describe(&self, seen: &VolumeSeen) -> String {
        let now = self.cluster.world.now();
        let host = |at: &usize| {
            let (how, since) = match self.fitness(*at, &seen.hosts) {
                Fitness::Sound(since) => ("sound", since),
                Fitness::Gone(since) => ("gone", since),
                Fitness::Disturbed => ("disturbed", now),
            };
            format!("host{} {how} for {:.1?}", at + 1, now.since(since))
        };
        let mut parts: Vec<_> = seen.hosts.iter().map(host).collect();
        let directory = self.cluster.world.condition(self.cluster.directory);
        parts.push(format!("directory {directory:?} at {now:?}"));
        parts.join(", ")
    }
}

fn index(shard: ShardId) -> usize {
    usize::try_from(shard.0).map_or(usize::MAX, |number| number.saturating_sub(1))
}
