// SPDX-License-Identifier: Apache-2.0
//! Stories about devices that fail and come back, devices whose content is damaged, devices that
//! lie, and clocks that are wrong.
//!
//! Content is damaged on one host at a time, at a moment when every volume is whole. Nothing else
//! is damaged until every copy was read and repaired. So each sector has a good copy elsewhere, and
//! whatever is lost all the same is a bug. No map of the damaged sectors is needed.
//!
//! Only capacity devices lose or misdirect writes. If a cache device lost the newest commit of its
//! log, an acknowledged write would go with it. Nobody could know that it is missing if the owner
//! died as well.

use crate::campaign::{SeedRun, Violation};
use crate::cluster::New;
use crate::fault::Fault;
use crate::plan::VolumePlan;
use crate::script::Roles;
use directory::{ComponentRecord, ComponentState};
use diskgroup::GroupLimits;
use sim::DiskFault;
use std::time::Duration;

/// The unit of a device's content in which damage is placed.
const PAGE: u64 = 4096;
/// Largest write of a disk group, bytes. A misdirected write must fit behind its wrong place.
const WRITE_MAX: u64 = 4 << 20;
/// After this time an operator opens a group that lacks a device, if that device is well.
const OPERATOR_LOOKS: Duration = Duration::from_secs(60);
/// How often a disk group that stopped is opened again before it gets new devices.
const OPENED_MAX: u32 = 6;
/// Largest drift of a clock in a story beyond the contract, in parts per million.
const WILD_PPM: u64 = 200_000;

impl SeedRun {
    /// Devices of one host fail and work again. Sometimes the host is started again meanwhile. The
    /// heal at the end opens its groups anew in any case, or starts the host anew.
    pub(crate) fn dying_device(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = if self.one_of(2) == 0 { roles.owner } else { roles.replica };
        self.has_failed_devices[host] = true;
        for _ in 0..1 + self.one_of(3) {
            let (fault, disk) = match self.one_of(4) {
                0 => (Fault::FailReads, DiskFault::FailReads),
                1 => (Fault::FailWrites, DiskFault::FailWrites),
                2 => (Fault::FailFlushes, DiskFault::FailFlush),
                _ => (Fault::FreezeDisk, DiskFault::Freeze(true)),
            };
            self.faults.add(fault);
            let device = self.any_device();
            self.disk_fault(host, &device, disk);
            self.pass(0, 6000)?;
        }
        self.decisive();
        match self.one_of(4) {
            0 => self.take_down_somehow(host),
            1 => {
                // The devices work again. But this process must not use those that failed before
                // their group is opened anew.
                self.clear_disks(host);
                self.pass(0, 3000)?;
                self.take_down_somehow(host);
            }
            2 => self.take_down_somehow(roles.rest_of(host)),
            _ => {}
        }
        self.pass(0, 4000)?;
        self.boot_if_down(host);
        self.pass(0, 6000)
    }

    /// One capacity device of a host leaves its group, with or without an error. It comes back by
    /// itself, by an operator, or with the next start of its host.
    pub(crate) fn device_out(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = if self.one_of(2) == 0 { roles.owner } else { roles.replica };
        for _ in 0..1 + self.one_of(3) {
            let device = self.any_capacity();
            let (fault, disk) = match self.one_of(5) {
                0 => (Fault::FailReads, DiskFault::FailReads),
                1 => (Fault::FailWrites, DiskFault::FailWrites),
                2 => (Fault::FailFlushes, DiskFault::FailFlush),
                _ => (Fault::DeviceAway, DiskFault::Unlink),
            };
            self.faults.add(fault);
            self.has_failed_devices[host] |= fault != Fault::DeviceAway || self.plan.devices == 1;
            self.disk_fault(host, &device, disk);
            self.pass(0, 14_000)?;
            match self.one_of(4) {
                0 => self.take_down_somehow(host),
                1 => self.take_down_somehow(roles.rest_of(host)),
                _ => {}
            }
            self.pass(0, 5000)?;
            // A host that starts meanwhile finds the device in that state.
            self.boot_if_down(host);
            self.pass(0, 4000)?;
            self.disk_fault(host, &device, DiskFault::Clear);
            match self.one_of(3) {
                0 => (0..self.plan.groups)
                    .for_each(|group| self.cluster.reopen(host, group, Duration::ZERO)),
                1 => self.take_down_somehow(host),
                _ => {}
            }
            self.pass(0, 12_000)?;
            self.boot_if_down(host);
            self.boot_if_down(roles.rest_of(host));
            self.pass(0, 6000)?;
        }
        self.decisive();
        self.pass(0, 3000)
    }

    /// A device of the owner, or of the replica, becomes hundreds of times slower. This lasts long
    /// enough for the device to be called slow. Then a host may fail as well.
    pub(crate) fn late_device(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = if self.one_of(3) > 0 { roles.owner } else { roles.replica };
        let device = self.any_device();
        self.faults.add(Fault::SlowDisk);
        let times = 200 << self.one_of(5);
        self.disk_fault(host, &device, DiskFault::Slow(times));
        self.pass(60_000, 150_000)?;
        match self.one_of(4) {
            0 => self.take_down_somehow(host),
            1 => self.take_down_somehow(roles.rest_of(host)),
            _ => {}
        }
        self.pass(0, 20_000)?;
        self.boot_if_down(host);
        self.boot_if_down(roles.rest_of(host));
        self.pass(0, 20_000)?;
        self.disk_fault(host, &device, DiskFault::Clear);
        self.decisive();
        self.pass(0, 5000)
    }

    /// Waits until all copies are whole. Meanwhile no device is silent for longer than a component
    /// is waited for: where some are again and again, one copy leaves before another is back.
    pub(crate) fn whole_before_damage(&mut self) -> Result<(), Violation> {
        self.whole_and_calm()?;
        self.cluster.world.set_freedom(self.plan.freedom);
        Ok(())
    }

    /// The same for a story in which devices stay calm.
    fn whole_and_calm(&mut self) -> Result<(), Violation> {
        self.cluster.world.set_freedom(self.plan.healed_freedom());
        self.run_for(self.plan.late_for())?;
        self.wait("whole before damage", Self::is_whole)
    }

    /// Damages the content of one host's devices, while other hosts have it whole.
    pub(crate) fn damage(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = if self.one_of(2) == 0 { roles.owner } else { roles.replica };
        self.whole_before_damage()?;
        if !self.is_spare(host) {
            return Ok(());
        }
        self.excuse(host);
        for _ in 0..1 + self.one_of(8) {
            self.damage_once(host);
            self.pass(0, 500)?;
        }
        self.decisive();
        if self.one_of(2) == 0 {
            self.take_down_somehow(host);
            self.pass(0, 200)?;
            self.boot_if_down(host);
        }
        self.pass(0, 4000)
    }

    /// Data of one host's capacity devices rots, but no metadata. That may cost these blocks and
    /// nothing else. Other hosts read slowly, so that repairs take long.
    pub(crate) fn rotten_data(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = if self.one_of(2) == 0 { roles.owner } else { roles.replica };
        self.pass(100, 8000)?;
        // A copy that is left because it is slow needs what changed meanwhile. With a short history
        // that is whole chunks, and what rots here is in them: no good copy is left, by two faults.
        let production = GroupLimits::default().history_blocks;
        let is_long = self.plan.group.limits.history_blocks == production;
        // Nor does a device fall silent for so long that its copies leave: until they are back
        // nothing else is a good copy of what rots.
        self.whole_and_calm()?;
        if !self.is_spare(host) {
            return Ok(());
        }
        self.excuse(host);
        if is_long {
            self.slow_others(host);
        }
        for _ in 0..1 + self.one_of(4) {
            // One that has left meanwhile, for it is slow, lacks what was written since.
            if !self.is_spare(host) {
                break;
            }
            for device in self.cluster.devices() {
                self.rot_data(host, &device);
            }
            self.pass(0, 4000)?;
        }
        self.decisive();
        self.pass(0, 4000)
    }

    /// Makes the capacity devices of all other hosts slow, up to 128 times.
    fn slow_others(&mut self, host: usize) {
        let times = 1 << self.one_of(8);
        for other in (0..self.cluster.machines.len()).filter(|other| *other != host) {
            for device in self.cluster.devices().iter().filter(|name| name.starts_with("cap")) {
                self.disk_fault(other, device, DiskFault::Slow(times));
            }
        }
    }

    /// A host comes back with a new cache device, or a new capacity device, in one of its groups.
    /// It may go down again while its copies come back. Then it may lose another device.
    pub(crate) fn lost_device(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = if self.one_of(2) == 0 { roles.owner } else { roles.replica };
        for _ in 0..1 + self.one_of(3) {
            self.whole_before_damage()?;
            if !self.is_spare(host) {
                return Ok(());
            }
            let new = match self.one_of(3) {
                0 => self.new_capacity(),
                _ => New::Cache,
            };
            self.lose_device(host, new);
            self.pass(0, 4000)?;
            for _ in 0..self.one_of(3) {
                self.boot_if_down(host);
                self.pass(0, 3000)?;
                self.take_down_somehow(host);
            }
            self.pass(0, 1000)?;
            self.boot_if_down(host);
            self.pass(0, 3000)?;
        }
        self.decisive();
        self.pass(0, 3000)
    }

    /// A replica is away while the others go on, and comes back. When it has just become active
    /// again, it loses a cache device. The data that it missed came as copies, and it may be that
    /// only the write buffer held those.
    pub(crate) fn loss_after_return(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = roles.replica;
        for _ in 0..1 + self.one_of(2) {
            self.whole_before_damage()?;
            // With slow sources, destage goes on while copies are still to come, and between two
            // attempts to return.
            self.slow_others(host);
            self.take_down_somehow(host);
            self.pass(500, 8000)?;
            for _ in 0..self.one_of(3) {
                self.boot_if_down(host);
                self.until_state(host, ComponentState::Resyncing)?;
                self.pass(0, 60)?;
                self.take_down_somehow(host);
                self.pass(0, 2000)?;
            }
            self.boot_if_down(host);
            self.until_state(host, ComponentState::Active)?;
            let most = [0, 20, 200, 2000][usize::try_from(self.one_of(4)).unwrap_or(0)];
            self.pass(0, most)?;
            if !self.is_spare(host) {
                return Ok(());
            }
            self.lose_device(host, New::Cache);
            self.pass(0, 3000)?;
            self.boot_if_down(host);
            self.pass(0, 3000)?;
            // The other copies are slow: one may have left in the very moment, and these are two
            // faults at once.
            if self.has_lost_the_last(host) {
                tracing::info!("no copy is left that counts and is whole");
                self.is_over = true;
                return Ok(());
            }
        }
        self.decisive();
        self.pass(0, 3000)
    }

    fn new_capacity(&mut self) -> New {
        let at = self.one_of(self.plan.devices.into());
        New::Capacity(usize::try_from(at).unwrap_or(0))
    }

    /// Takes a host down. When it starts again, a device of one of its groups is new.
    fn lose_device(&mut self, host: usize, new: New) {
        self.excuse(host);
        self.faults.add(Fault::LostDevice);
        let cache = format!("cache{}", self.one_of(self.plan.groups.into()));
        self.cluster.replace_devices(host, vec![cache], new);
    }

    fn rot_data(&mut self, host: usize, device: &str) {
        let (key, world) = (self.key(host), self.cluster.world.clone());
        let layout = format::CapacityLayout::plan(world.disk_size(key, device));
        let Some(layout) = layout.filter(|_| device.starts_with("capacity")) else { return };
        let mut pages = world.written(key, device);
        pages.retain(|page| page * PAGE >= layout.chunk_start);
        for page in pages {
            match self.one_of(6) {
                0 => {
                    self.faults.add(Fault::BitRot);
                    let at = page * PAGE + self.one_of(PAGE);
                    world.flip_bits(key, device, at, 1);
                }
                1 => {
                    self.faults.add(Fault::LatentError);
                    let fault = DiskFault::BadRange { offset: page * PAGE, len: PAGE };
                    self.disk_fault(host, device, fault);
                }
                _ => {}
            }
        }
    }

    /// Whether every volume with a copy on this host has a whole one elsewhere.
    pub(crate) fn is_spare(&self, host: usize) -> bool {
        let number = self.cluster.machines[host].number;
        let names = (0..self.plan.volumes.len()).map(VolumePlan::name);
        names.flat_map(|name| self.cluster.records.all_objects(&name)).all(|record| {
            record.is_some_and(|record| {
                let active = |c: &&ComponentRecord| c.state == ComponentState::Active;
                let elsewhere = record.components.iter().filter(active);
                elsewhere.filter(|component| component.shard.0 != number).count() > 0
            })
        })
    }

    /// Whether this host has the only copy that counts of something, and lost a part of it.
    fn has_lost_the_last(&self, host: usize) -> bool {
        let groups = self.cluster.node(host).into_iter().flat_map(|node| node.groups());
        let partial = groups.flat_map(|group| {
            let ids = group.components().into_iter();
            let partial = ids.filter(|id| group.component(*id).is_some_and(|info| info.partial));
            partial.collect::<Vec<_>>()
        });
        let partial: base::Set<_> = partial.collect();
        let names = (0..self.plan.volumes.len()).map(VolumePlan::name);
        names.flat_map(|name| self.cluster.records.all_objects(&name)).flatten().any(|record| {
            let mut active = record.components.iter().filter(|c| c.state == ComponentState::Active);
            let only = active.next().filter(|_| active.next().is_none());
            only.is_some_and(|only| partial.contains(&only.id))
        })
    }

    fn damage_once(&mut self, host: usize) {
        let mut device = self.any_device();
        let kind = self.one_of(4);
        if kind >= 2 && device.starts_with("cache") {
            device = device.replace("cache", "capacity") + ".0";
        }
        let (key, world) = (self.key(host), self.cluster.world.clone());
        let mut pages = world.written(key, &device);
        pages.retain(|page| !self.is_newest(host, &device, page * PAGE, kind));
        if pages.is_empty() {
            return;
        }
        let page = pages[usize::try_from(self.one_of(pages.len() as u64)).unwrap_or(0)] * PAGE;
        tracing::info!(host = host + 1, device, kind, page, "damage");
        match kind {
            0 => {
                self.faults.add(Fault::BitRot);
                let len = [1, 8, 512, 4096][usize::try_from(self.one_of(4)).unwrap_or(0)];
                let at = page + self.one_of(PAGE - len + 1);
                world.flip_bits(key, &device, at, usize::try_from(len).unwrap_or(1));
            }
            1 => {
                self.faults.add(Fault::LatentError);
                let len = 512 << self.one_of(6);
                self.disk_fault(host, &device, DiskFault::BadRange { offset: page, len });
            }
            2 => {
                self.faults.add(Fault::LostWrite);
                self.disk_fault(host, &device, DiskFault::LoseNextWrite);
            }
            _ => {
                let size = world.disk_size(key, &device);
                let offset = page.min(size.saturating_sub(WRITE_MAX) / PAGE * PAGE);
                self.faults.add(Fault::MisdirectedWrite);
                self.disk_fault(host, &device, DiskFault::MisdirectNextWrite { offset });
            }
        }
    }

    /// Whether a page may hold the newest record of a journal, or the newest commit of a log, when
    /// the damage comes. Damage there looks like a torn write, and nobody can tell them apart
    /// (docs/faults.md, "Devices"). A misdirected write comes later. By then any page of a journal
    /// may be the newest.
    fn is_newest(&self, host: usize, device: &str, at: u64, kind: u64) -> bool {
        let size = self.cluster.world.disk_size(self.key(host), device);
        let Some(node) = self.cluster.node(host) else { return true };
        let has = |group: &&diskgroup::DiskGroup| group.devices().iter().any(|d| d.path == device);
        let groups = node.groups();
        let group = groups.iter().find(has);
        let Some(group) = group else { return true };
        match format::CapacityLayout::plan(size).filter(|_| device.starts_with("capacity")) {
            Some(layout) if kind == 3 => {
                let journal = layout.journal_start..layout.journal_start + layout.journal_size;
                journal.contains(&at)
            }
            _ => group.newest_writes(device).contains(&at),
        }
    }

    /// Gives new devices to disk groups that do not open, or have stopped, because of damage. Their
    /// content comes back from other hosts. A group may have stopped for want of a device that is
    /// well, and then its copies may be the only whole ones: it is opened again first.
    pub(crate) fn replace_damaged(&mut self) {
        for host in 0..self.cluster.machines.len() {
            let Some(node) = self.cluster.node(host).filter(|_| self.is_excused(host)) else {
                continue;
            };
            let groups = node.groups();
            let stopped = groups.iter().filter(|group| group.status().fenced.is_some());
            let stopped: Vec<_> = stopped.map(|group| group.cache_path().to_owned()).collect();
            let mut caches = self.cluster.given_up_groups(host);
            drop(groups);
            for cache in stopped {
                if !self.open_stopped(host, &cache) {
                    caches.push(cache);
                }
            }
            let out = node.out_devices().into_iter().next();
            if let (Some((cache, at)), true) = (out, caches.is_empty()) {
                drop(node);
                tracing::info!(host = host + 1, cache, at, "a new capacity device");
                self.replaced_groups += 1;
                self.cluster.replace_devices(host, vec![cache], New::Capacity(at));
                self.clear_disks(host);
                self.boot(host);
                continue;
            }
            if !caches.is_empty() {
                drop(node);
                tracing::info!(host = host + 1, ?caches, "new devices");
                self.replaced_groups += caches.len() as u64;
                self.cluster.replace_devices(host, caches, New::All);
                self.clear_disks(host);
                self.boot(host);
            }
        }
    }

    /// Has a disk group that stopped opened again, as an operator would. Not for ever.
    fn open_stopped(&mut self, host: usize, cache: &str) -> bool {
        let number = cache.strip_prefix("cache").and_then(|number| number.parse().ok());
        let Some(group) = number.filter(|group| *group < self.plan.groups) else { return false };
        let count = self.opened.entry((host, group)).or_insert(0);
        *count += 1;
        let is_tried = *count <= OPENED_MAX;
        if is_tried {
            tracing::info!(host = host + 1, cache, "a group that stopped is opened again");
            self.cluster.reopen(host, group, Duration::ZERO);
        }
        is_tried
    }

    /// Does what an operator would: opens the groups anew of a host that lacks a device for long.
    pub(crate) fn open_what_is_out(&mut self) {
        let now = self.cluster.world.now();
        for host in 0..self.cluster.machines.len() {
            let outs = self.cluster.node(host).map(|node| node.out_devices()).unwrap_or_default();
            if outs.is_empty() || self.is_excused(host) {
                self.outs_since[host] = None;
                continue;
            }
            let since = *self.outs_since[host].get_or_insert(now);
            if now.since(since) > OPERATOR_LOOKS {
                self.outs_since[host] = None;
                (0..self.plan.groups)
                    .for_each(|group| self.cluster.reopen(host, group, Duration::ZERO));
            }
        }
    }

    /// One host's devices report flushes that they do not do. Then its power fails.
    pub(crate) fn lying_flush(&mut self, roles: &Roles) -> Result<(), Violation> {
        let host = if self.one_of(2) == 0 { roles.owner } else { roles.replica };
        self.excuse(host);
        self.faults.add(Fault::LyingFlush);
        for device in self.cluster.devices() {
            self.disk_fault(host, &device, DiskFault::LieAboutFlush);
        }
        self.pass(100, 6000)?;
        self.take_down(host, true);
        self.pass(0, 3000)?;
        self.boot_if_down(host);
        self.pass(100, 6000)
    }

    /// The owner's clock loses up to a fifth of its time, and the owner is cut off.
    pub(crate) fn wild_clock(&mut self, roles: &Roles) -> Result<(), Violation> {
        self.faults.add(Fault::WildClock);
        let ppm = self.one_of(WILD_PPM) as i64;
        self.cluster.world.clock_drift(self.key(roles.owner), -ppm);
        self.pass(100, 5000)?;
        self.isolate(roles.owner);
        self.pass(5000, 20_000)?;
        self.cluster.world.clock_drift(self.key(roles.owner), 0);
        self.run_for(Duration::ZERO)
    }
}

impl Roles {
    /// The replica if `host` is the owner, else the owner.
    fn rest_of(&self, host: usize) -> usize {
        if host == self.owner { self.replica } else { self.owner }
    }
}
