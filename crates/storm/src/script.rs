// SPDX-License-Identifier: Apache-2.0
//! Tells the stories of a round. A story gives roles to the hosts: the owner, a replica, the rest.
//! Many faults come at an event (a term rises, a component becomes active), not at a random time.

use crate::campaign::{SeedRun, Violation};
use crate::fault::Fault;
use crate::plan::VolumePlan;
use crate::story::Story;
use base::ShardId;
use directory::{ComponentRecord, ComponentState, ObjectRecord};
use sim::DiskFault;
use std::time::Duration;

/// Longest wait for an event that a story needs. The story goes on even if the event does not come.
const EVENT_MAX: Duration = Duration::from_secs(25);

/// Which machine has which role, by index.
pub(crate) struct Roles {
    pub(crate) owner: usize,
    /// Holds an active component and is not the owner.
    pub(crate) replica: usize,
    /// Neither owner nor replica.
    pub(crate) rest: usize,
}

impl SeedRun {
    /// Tells `story`, or random faults if no host has the roles. The caller heals the faults that
    /// are left at its end.
    pub(crate) fn tell(&mut self, story: Story) -> Result<(), Violation> {
        let roles = self.roles();
        let Some(roles) = roles.filter(|_| story != Story::Random) else {
            return self.random(false);
        };
        match story {
            Story::Random => self.random(false),
            Story::Severed => self.severed(&roles),
            Story::Isolated => self.isolated(&roles),
            Story::LateIsolation => self.late_isolation(&roles),
            Story::HalfBlind => self.half_blind(&roles),
            Story::LoneReplica => self.lone_replica(&roles),
            Story::ForgottenGrant => self.forgotten_grant(&roles),
            Story::BlindReturn => self.blind_return(&roles),
            Story::JoinFault => self.join_fault(&roles),
            Story::ResyncFault => self.resync_fault(&roles),
            Story::Flaps => self.flaps(&roles),
            Story::OldOwner => self.old_owner(&roles),
            Story::HeldWrites => self.held_writes(&roles),
            Story::PingPong => self.ping_pong(),
            Story::TakeOverFault => self.take_over_fault(&roles),
            Story::Slow => self.random(true),
            Story::LongOutage => self.long_outage(&roles),
            Story::LongAbsence => self.long_absence(&roles),
            Story::HandOverFault => self.hand_over_fault(&roles),
            Story::Trimmed => self.trimmed(&roles),
            Story::DyingDevice => self.dying_device(&roles),
            Story::DeviceOut => self.device_out(&roles),
            Story::LateDevice => self.late_device(&roles),
            Story::SlowJoiner => self.slow_joiner(&roles),
            Story::Damage => self.damage(&roles),
            Story::RottenData => self.rotten_data(&roles),
            Story::RottenLog => self.rotten_log(&roles),
            Story::LostDevice => self.lost_device(&roles),
            Story::LossAfterReturn => self.loss_after_return(&roles),
            Story::OldBackup => self.old_backup(&roles),
            Story::EtcdSnapshot => self.etcd_snapshot(&roles),
            Story::LateGrants => self.late_grants(&roles),
            Story::QueuedRival => self.queued_rival(),
            Story::LyingFlush => self.lying_flush(&roles),
            Story::Moves => self.moves(),
            Story::Twins => self.twins(),
            Story::WildClock => self.wild_clock(&roles),
        }
    }

    pub(crate) fn roles(&self) -> Option<Roles> {
        let record = self.record()?;
        let index = |shard: ShardId| shard.0 as usize - 1;
        let owner = index(record.owner?.shard);
        let active = record.components.iter().filter(|c| c.state == ComponentState::Active);
        let mut hosts = active.map(|c| index(c.shard));
        let replica = hosts.find(|host| *host != owner)?;
        let rest = (0..self.cluster.machines.len()).find(|at| *at != owner && *at != replica)?;
        Some(Roles { owner, replica, rest })
    }

    /// The volume that the round is about.
    fn volume(&self) -> String {
        VolumePlan::name(self.focus)
    }

    /// The present record of the object that the round is about.
    pub(crate) fn record(&self) -> Option<ObjectRecord> {
        self.cluster.records.object(&self.volume(), self.focus_object)
    }

    pub(crate) fn term(&self) -> u64 {
        self.cluster.records.term(&self.volume(), self.focus_object)
    }

    /// Lets a random time pass, between `least` and `most` milliseconds.
    pub(crate) fn pass(&mut self, least: u64, most: u64) -> Result<(), Violation> {
        let micros = self.rng.between(least * 1000, most * 1000);
        self.run_for(Duration::from_micros(micros))
    }

    pub(crate) fn one_of(&mut self, ways: u64) -> u64 {
        self.rng.below(ways)
    }

    /// Runs until the record is as wanted, or for [`EVENT_MAX`].
    pub(crate) fn until(
        &mut self,
        wanted: impl Fn(&ObjectRecord) -> bool,
    ) -> Result<(), Violation> {
        let records = std::rc::Rc::clone(&self.cluster.records);
        let (volume, number) = (self.volume(), self.focus_object);
        let mut seen = None;
        self.run_until(EVENT_MAX, || {
            // The world asks after every event. Look at the record only if some record has changed.
            let changes = records.changes();
            let is_new = seen.replace(changes) != Some(changes);
            is_new && records.object(&volume, number).is_some_and(|record| wanted(&record))
        })?;
        self.check()
    }

    pub(crate) fn until_state(
        &mut self,
        index: usize,
        wanted: ComponentState,
    ) -> Result<(), Violation> {
        let shard = ShardId(self.cluster.machines[index].number);
        self.until(move |record| {
            record.components.iter().any(|c| c.shard == shard && c.state == wanted)
        })
    }

    /// Runs until the term in the record rises above `term`.
    pub(crate) fn until_term(&mut self, term: u64) -> Result<(), Violation> {
        self.until(move |record| u64::from(record.term.0) > term)
    }

    pub(crate) fn take_down_somehow(&mut self, index: usize) {
        let is_crash = self.one_of(2) == 0;
        self.take_down(index, is_crash);
    }

    fn severed(&mut self, roles: &Roles) -> Result<(), Violation> {
        let (owner, replica) = (roles.owner, roles.replica);
        match self.one_of(2) {
            0 => self.cut(owner, replica, true),
            _ => self.cluster.world.cut_one_way(self.key(owner), self.key(replica), true),
        }
        self.pass(5, 1500)?;
        self.decisive();
        self.take_down_somehow(owner);
        self.pass(0, 300)?;
        self.cluster.world.heal_all();
        self.pass(0, 14_000)?;
        self.boot_if_down(owner);
        self.pass(0, 3000)
    }

    fn isolated(&mut self, roles: &Roles) -> Result<(), Violation> {
        let term = self.term();
        self.isolate(roles.owner);
        if self.one_of(2) == 0 {
            // What the owner has sent may arrive when there is another owner.
            self.pass(1000, 25_000)?;
        } else {
            self.until_term(term)?;
            self.pass(100, 8000)?;
        }
        self.decisive();
        Ok(())
    }

    fn late_isolation(&mut self, roles: &Roles) -> Result<(), Violation> {
        let (owner, replica) = (roles.owner, roles.replica);
        self.cut_directory(owner, true);
        self.pass(3500, 6500)?;
        if self.one_of(2) == 0 {
            // The replica forgets what it granted when it starts again (rule 52b).
            self.take_down(replica, false);
            self.isolate(owner);
            self.boot_if_down(replica);
        }
        self.isolate(owner);
        self.pass(4000, 9000)
    }

    fn half_blind(&mut self, roles: &Roles) -> Result<(), Violation> {
        self.cut_directory(roles.owner, true);
        let other = if self.one_of(3) == 0 { roles.rest } else { roles.replica };
        self.cut(roles.owner, other, true);
        self.pass(6000, 35_000)
    }

    fn lone_replica(&mut self, roles: &Roles) -> Result<(), Violation> {
        self.cut_directory(roles.owner, true);
        for other in (0..self.cluster.machines.len()).filter(|other| *other != roles.replica) {
            self.cut(roles.replica, other, true);
        }
        let term = self.term();
        self.until_term(term)?;
        self.pass(3000, 15_000)
    }

    fn forgotten_grant(&mut self, roles: &Roles) -> Result<(), Violation> {
        // The owner keeps only the replica, so that its grant is fresh when another host claims.
        let term = self.term();
        self.isolate(roles.owner);
        self.cut(roles.owner, roles.replica, false);
        self.until_term(term)?;
        self.pass(0, 200)?;
        self.take_down_somehow(roles.replica);
        self.cut(roles.owner, roles.replica, true);
        self.boot_if_down(roles.replica);
        self.pass(1000, 9000)
    }

    fn blind_return(&mut self, roles: &Roles) -> Result<(), Violation> {
        let term = self.term();
        self.isolate(roles.owner);
        self.until_term(term)?;
        self.pass(1000, 9000)?;
        for other in (0..self.cluster.machines.len()).filter(|other| *other != roles.owner) {
            self.cut(roles.owner, other, false);
        }
        self.pass(500, 4000)
    }

    /// Lets the replica die, be marked absent, and start again, mostly over slow links.
    fn depart(&mut self, roles: &Roles) -> Result<(), Violation> {
        self.take_down_somehow(roles.replica);
        self.until_state(roles.replica, ComponentState::Absent)?;
        self.pass(0, 2000)?;
        if self.one_of(3) > 0 {
            let delay = Duration::from_micros(self.rng.between(100, 300_000));
            self.cluster.world.clog(self.key(roles.owner), self.key(roles.replica), delay);
        }
        self.boot_if_down(roles.replica);
        Ok(())
    }

    fn join_fault(&mut self, roles: &Roles) -> Result<(), Violation> {
        self.depart(roles)?;
        if self.one_of(2) == 0 {
            // The directory's answer about the commit point is slow too.
            let delay = Duration::from_micros(self.rng.between(100, 200_000));
            self.cluster.world.clog(self.key(roles.owner), self.cluster.directory, delay);
        }
        self.until_state(roles.replica, ComponentState::Active)?;
        if self.one_of(2) == 0 {
            self.pass(0, 100)?;
        }
        self.decisive();
        // Power loss also loses what the owner has sent. Its successor then learns from the replica
        // alone.
        let is_crash = self.one_of(4) > 0;
        self.take_down(roles.owner, is_crash);
        self.pass(4000, 14_000)
    }

    fn resync_fault(&mut self, roles: &Roles) -> Result<(), Violation> {
        if self.one_of(2) == 0 {
            self.slow_cache(roles.owner);
        }
        self.depart(roles)?;
        if self.one_of(3) == 0 {
            // There is no fault. The load ends early, so that later writes do not cover what was in
            // flight when the replica returned.
            self.until_state(roles.replica, ComponentState::Resyncing)?;
            self.pass(0, 20)?;
            self.decisive();
            return self.pass(0, 2000);
        }
        for _ in 0..1 + self.one_of(3) {
            self.until_state(roles.replica, ComponentState::Resyncing)?;
            self.pass(0, 400)?;
            let (owner, replica) = (self.key(roles.owner), self.key(roles.replica));
            let world = self.cluster.world.clone();
            match self.one_of(5) {
                0 => world.reset_links(owner, replica),
                1 => world.partition(owner, replica, true),
                2 => self.take_down_somehow(roles.replica),
                3 => world.cut_one_way(owner, replica, true),
                _ => {
                    self.decisive();
                    self.take_down_somehow(roles.owner);
                }
            }
            self.pass(0, 4000)?;
            world.heal_all();
            self.boot_if_down(roles.replica);
            self.boot_if_down(roles.owner);
        }
        Ok(())
    }

    /// The replica's devices are slow, or its process stands still for nine tenths of the time.
    /// This lasts until the replica is active again, but for ten minutes at most.
    fn slow_joiner(&mut self, roles: &Roles) -> Result<(), Violation> {
        self.depart(roles)?;
        let is_slow = self.one_of(2) == 0;
        if is_slow {
            self.slow_cache(roles.replica);
        }
        let (shard, key) =
            (ShardId(self.cluster.machines[roles.replica].number), self.key(roles.replica));
        for _ in 0..600 {
            if !is_slow && self.cluster.world.is_up(key) {
                self.cluster.world.pause(key, Duration::from_millis(900));
            }
            self.run_for(Duration::from_secs(1))?;
            let record = self.record();
            let is_back =
                |c: &ComponentRecord| c.shard != shard || c.state == ComponentState::Active;
            if record.is_some_and(|record| record.components.iter().all(is_back)) {
                break;
            }
        }
        self.decisive();
        match self.one_of(4) {
            0 => self.take_down_somehow(roles.owner),
            1 => self.take_down_somehow(roles.replica),
            _ => {}
        }
        self.pass(0, 4000)?;
        self.clear_disks(roles.replica);
        Ok(())
    }

    fn flaps(&mut self, roles: &Roles) -> Result<(), Violation> {
        for _ in 0..2 + self.one_of(4) {
            match self.one_of(3) {
                0 => self.cut(roles.owner, roles.replica, true),
                1 => self.isolate(roles.replica),
                _ => self.take_down_somehow(roles.replica),
            }
            self.pass(50, 3500)?;
            self.cluster.world.heal_all();
            self.boot_if_down(roles.replica);
            self.pass(50, 5000)?;
        }
        Ok(())
    }

    fn old_owner(&mut self, roles: &Roles) -> Result<(), Violation> {
        let (owner, replica) = (roles.owner, roles.replica);
        let term = self.term();
        self.isolate(owner);
        self.until_term(term)?;
        self.pass(7000, 12_000)?;
        self.take_down_somehow(replica);
        // The successor cannot reach the replica in time, unless the replica's own host is it.
        self.cut(replica, roles.rest, true);
        self.cut(owner, replica, false);
        self.pass(0, 200)?;
        self.boot_if_down(replica);
        self.pass(300, 6000)?;
        self.decisive();
        Ok(())
    }

    fn held_writes(&mut self, roles: &Roles) -> Result<(), Violation> {
        self.slow_cache(roles.owner);
        self.all_caches(roles.replica, DiskFault::Freeze(true));
        self.pass(1, 60)?;
        self.decisive();
        self.take_down(roles.owner, false);
        if self.one_of(4) > 0 {
            self.boot_if_down(roles.owner);
        }
        self.clear_disks(roles.owner);
        let term = self.term();
        if self.one_of(2) == 0 {
            self.until_term(term)?;
            self.pass(0, 500)?;
        } else {
            self.pass(100, 3000)?;
        }
        self.clear_disks(roles.replica);
        self.pass(0, 4000)
    }

    fn ping_pong(&mut self) -> Result<(), Violation> {
        for _ in 0..4 + self.one_of(10) {
            let hosts = self.plan.volumes[self.focus].clients.clone();
            let host = hosts[usize::try_from(self.one_of(hosts.len() as u64)).unwrap_or(0)];
            self.admit(Some(&[host]));
            if self.one_of(3) == 0 {
                let most_ms = [100, 1500][self.rng.below(2) as usize];
                self.clog_some(most_ms);
            }
            self.pass(30, 900)?;
            if self.one_of(8) == 0 {
                // What this host has sent may reach owners that came after its death.
                self.take_down_somehow(host);
            }
        }
        self.admit(None);
        if self.one_of(2) == 0 {
            self.decisive();
            let host = self.any_host();
            self.take_down_somehow(host);
        }
        self.pass(0, 9000)
    }

    /// The owner's clients leave, clients of a second host have writes under way, and clients of a
    /// third host come. So the owner hands over. Then the second host dies, and nobody sends its
    /// writes again.
    fn hand_over_fault(&mut self, roles: &Roles) -> Result<(), Violation> {
        let clients = self.plan.volumes[self.focus].clients.clone();
        let others = clients.into_iter().filter(|host| *host != roles.owner);
        let (replicas, rest): (Vec<_>, Vec<_>) = others.partition(|host| *host == roles.replica);
        let all: Vec<_> = rest.into_iter().chain(replicas).collect();
        let [writer, .., next] = all[..] else { return Ok(()) };
        self.admit(Some(&[roles.owner, writer]));
        self.pass(50, 2000)?;
        let term = self.term();
        for host in (0..self.cluster.machines.len()).filter(|host| *host != roles.owner) {
            let delay = Duration::from_micros(self.rng.between(100, 300_000));
            self.cluster.world.clog(self.key(roles.owner), self.key(host), delay);
        }
        self.admit(Some(&[writer, next]));
        self.until_term(term)?;
        self.pass(0, 20)?;
        self.decisive();
        self.take_down_somehow(writer);
        self.admit(None);
        self.pass(0, 4000)
    }

    /// From now on only clients of these hosts work; `None`: of all hosts.
    pub(crate) fn admit(&self, hosts: Option<&[usize]>) {
        let hosts = hosts.map(<[usize]>::to_vec);
        for shared in &self.shared {
            shared.only.borrow_mut().clone_from(&hosts);
        }
    }

    fn take_over_fault(&mut self, roles: &Roles) -> Result<(), Violation> {
        if self.one_of(2) == 0 {
            self.cut(roles.owner, roles.replica, true);
            self.pass(1, 800)?;
        }
        let term = self.term();
        self.take_down_somehow(roles.owner);
        self.cluster.world.heal_all();
        if self.one_of(2) == 0 {
            self.boot_if_down(roles.owner);
        }
        self.clog_some(50);
        self.until_term(term)?;
        self.pass(0, 250)?;
        self.decisive();
        let victim = match self.one_of(3) {
            0 => roles.replica,
            1 => roles.rest,
            _ => self.any_host(),
        };
        match self.one_of(4) {
            0 => self.isolate(victim),
            _ => self.take_down_somehow(victim),
        }
        self.pass(0, 300)?;
        self.boot_if_down(victim);
        self.boot_if_down(roles.owner);
        self.pass(0, 12_000)
    }

    /// Injects random faults at random moments. If `is_slow`, links and devices are slow as well.
    fn random(&mut self, is_slow: bool) -> Result<(), Violation> {
        for _ in 0..self.plan.steps {
            if is_slow && self.one_of(2) == 0 {
                self.clog_some(1500);
                self.inject(Fault::SlowDisk);
            }
            let fault = self.plan.weights.next(&mut self.rng);
            self.inject(fault);
            let micros = 1 + self.rng.below(self.plan.step_max.as_micros() as u64);
            self.run_for(Duration::from_micros(micros))?;
        }
        if self.one_of(2) == 0 {
            self.decisive();
            let host = self.any_host();
            self.inject_at(Fault::Crash, host);
            self.pass(0, 9000)?;
        }
        Ok(())
    }

    /// Gives every pair of hosts another delay, up to `most_ms`; half of them get none.
    fn clog_some(&mut self, most_ms: u64) {
        let count = self.cluster.machines.len();
        for a in 0..count {
            for b in a + 1..count {
                let micros = if self.one_of(2) == 0 { 0 } else { self.rng.below(most_ms * 1000) };
                let delay = Duration::from_micros(micros);
                self.cluster.world.clog(self.key(a), self.key(b), delay);
            }
        }
    }

    /// Makes a host's cache devices much slower, so that more writes are in flight.
    pub(crate) fn slow_cache(&mut self, host: usize) {
        let times = 10 << self.one_of(7);
        self.all_caches(host, DiskFault::Slow(times));
    }

    fn all_caches(&self, host: usize, fault: DiskFault) {
        for device in self.cluster.devices().iter().filter(|device| device.starts_with("cache")) {
            self.disk_fault(host, device, fault);
        }
    }

    fn is_slow(&self) -> bool {
        !self.plan.volumes[self.focus].load.is_fast()
    }

    /// Nobody reaches the directory for up to minutes. Meanwhile another fault may come.
    fn long_outage(&mut self, roles: &Roles) -> Result<(), Violation> {
        let away = if self.one_of(2) == 0 { Fault::DirectoryAway } else { Fault::DirectoryCut };
        self.inject_at(away, roles.owner);
        self.pass(100, if self.is_slow() { 200_000 } else { 20_000 })?;
        match self.one_of(5) {
            0 => self.take_down_somehow(roles.replica),
            1 => self.take_down_somehow(roles.owner),
            2 => self.inject_at(Fault::Reset, roles.owner),
            3 => self.cut(roles.owner, roles.replica, true),
            _ => {}
        }
        self.pass(100, if self.is_slow() { 60_000 } else { 8000 })
    }

    /// While the replica is away, clients discard whole chunks. The replica stays away until the
    /// discards may have left the log; then the log does not tell of them any more.
    fn trimmed(&mut self, roles: &Roles) -> Result<(), Violation> {
        self.take_down_somehow(roles.replica);
        self.until_state(roles.replica, ComponentState::Absent)?;
        self.trim(true);
        self.pass(100, 4000)?;
        let is_writing_again = self.one_of(2) == 0;
        self.trim(!is_writing_again);
        self.decisive();
        self.pass(0, 20_000)?;
        self.trim(false);
        self.boot_if_down(roles.replica);
        self.until_state(roles.replica, ComponentState::Active)
    }

    fn trim(&self, is_trimming: bool) {
        self.shared.iter().for_each(|shared| shared.is_trimming.set(is_trimming));
    }

    /// One host is away, mostly for longer than any time-out.
    fn long_absence(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = if self.one_of(3) == 0 { roles.owner } else { roles.replica };
        match self.one_of(3) {
            0 => self.isolate(host),
            _ => self.take_down_somehow(host),
        }
        let most = if self.is_slow() { 600_000 } else { 30_000 };
        self.pass(5000, most)?;
        if self.one_of(2) == 0 {
            // Another fault comes in the first moments of the host's return.
            self.cluster.world.heal_all();
            self.boot_if_down(host);
            self.pass(0, 3000)?;
            self.decisive();
            let other = if host == roles.owner { roles.replica } else { roles.owner };
            if self.one_of(2) == 0 {
                self.take_down_somehow(other);
            }
        }
        Ok(())
    }
}
