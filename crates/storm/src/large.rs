// SPDX-License-Identifier: Apache-2.0
//! A large cluster: many machines with several hosts each, thousands of volumes, and a client on
//! each machine. What it costs to be large, and whether what holds for three hosts holds there too:
//! copies in different racks, none lost with a rack, no write that fails or is lost.

use crate::cluster::Cluster;
use crate::plan::Plan;
use base::{Map, ObjectId, ShardId};
use directory::{ComponentRecord, ComponentState, ObjectRecord, Writers};
use diskgroup::{CreateSizes, GroupOptions};
use env::Env;
use host::{BalanceOptions, MaintenanceMode};
use object::ObjectOptions;
use operator::{Command, CommandReply, MaintenanceReport, NewVolume};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use volume::Device;

/// Longest wait for anything.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Hosts that are asked to make volumes at a time.
const ASKED_AT_ONCE: u32 = 16;
/// Time between looks at what is waited for.
const LOOK: Duration = Duration::from_millis(500);
/// A client's pause between two writes.
const THINK: Duration = Duration::from_millis(200);
/// How long a rack is away.
const AWAY: Duration = Duration::from_secs(30);
/// Machines that are restarted from one line of what is told to the next.
const RESTARTS_TOLD: usize = 16;

/// How large the cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeOptions {
    /// The seed of all that is left to chance.
    pub seed: u64,
    /// Machines.
    pub machines: u32,
    /// Hosts on each machine, of one disk group each.
    pub shards: u32,
    /// Racks, to which the machines are assigned in turn.
    pub racks: u32,
    /// Volumes of two copies, at least one for each host.
    pub volumes: u32,
    /// Machines that enter maintenance and are restarted, one after the other.
    pub rolling: u32,
}

/// What the clients did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargeLoad {
    /// Writes that were answered, and read back.
    pub writes: u64,
    /// Those that failed, or were not there afterwards.
    pub failed: u64,
    /// The longest write.
    pub longest: Duration,
}

/// What was done, and what it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeStep {
    /// What was done.
    pub what: &'static str,
    /// Time of the world.
    pub took: Duration,
    /// Changes of records of objects.
    pub changes: u64,
    /// Links that were connected.
    pub links: u64,
    /// Messages that were sent, those of the directory included.
    pub sends: u64,
}

/// Makes the cluster, fills it with volumes, takes a rack away and brings it back, does without two
/// machines for good, and restarts others in maintenance. Calls `done` after each step.
///
/// # Errors
/// A text that says what did not hold.
pub fn run_large(
    options: &LargeOptions,
    done: &mut dyn FnMut(LargeStep),
) -> Result<LargeLoad, String> {
    let mut run = LargeRun::new(options);
    run.step("hosts up", done, LargeRun::boot)?;
    run.step("racks made", done, LargeRun::make_racks)?;
    run.step("volumes made", done, LargeRun::make_volumes)?;
    run.step("a minute at rest", done, |run| {
        run.cluster.world.run_for(Duration::from_secs(60));
        run.check()
    })?;
    run.step("a minute with clients", done, |run| {
        (0..run.options.machines).for_each(|machine| run.start_client(machine));
        run.cluster.world.run_for(Duration::from_secs(60));
        run.check()
    })?;
    run.step("a rack lost", done, |run| {
        run.rack(0).for_each(|host| run.cluster.take_down(host, true));
        run.cluster.world.run_for(AWAY);
        run.check()
    })?;
    run.step("the rack back", done, |run| {
        run.rack(0).for_each(|host| run.boot_host(host));
        run.wait("hosts of the rack", |run| run.rack(0).all(|host| run.is_up(host)))?;
        run.wait("whole copies", LargeRun::is_whole)?;
        run.check()
    })?;
    run.step("two lost for good", done, |run| {
        // Both at once would be more than two copies survive.
        run.lose(run.options.machines - 1)?;
        run.lose(run.options.machines - 2)
    })?;
    let rolling: Vec<u32> = (0..options.rolling).filter(|one| run.is_there(*one)).collect();
    for some in rolling.chunks(RESTARTS_TOLD) {
        run.step("hosts restarted", done, |run| some.iter().try_for_each(|one| run.restart(*one)))?;
    }
    Ok(*run.load.borrow())
}

struct LargeRun {
    cluster: Cluster,
    options: LargeOptions,
    load: Rc<RefCell<LargeLoad>>,
    /// The client on each machine that has one.
    clients: Map<u32, env::Task>,
}

impl LargeRun {
    fn new(options: &LargeOptions) -> Self {
        let hosts = options.machines * options.shards;
        let mut plan = Plan::of_seed(options.seed);
        (plan.hosts, plan.groups, plan.devices, plan.drift_ppm) = (hosts, 1, 1, Vec::new());
        (plan.pairs, plan.shards) = (options.machines, options.shards);
        plan.sizes = CreateSizes { cache: 24 << 20, capacity: 512 << 20 };
        (plan.group, plan.object) = (GroupOptions::default(), ObjectOptions::default());
        (plan.directory, plan.quirks) = Default::default();
        plan.balance = BalanceOptions::default();
        let cluster = Cluster::new(&plan, None);
        Self { cluster, options: *options, load: Rc::default(), clients: Map::new() }
    }

    /// Does one step, and tells what it took.
    fn step(
        &mut self,
        what: &'static str,
        done: &mut dyn FnMut(LargeStep),
        act: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let world = self.cluster.world.clone();
        let (begun, before) = (world.now(), world.stats());
        let changes = self.cluster.records.changes();
        act(self).map_err(|why| format!("{what}: {why}"))?;
        if let Some(why) = self.cluster.records.wrong() {
            return Err(format!("{what}: {why}"));
        }
        let changes = self.cluster.records.changes() - changes;
        let (took, stats) = (world.now().since(begun), world.stats());
        let (links, sends) = (stats.links - before.links, stats.sends - before.sends);
        done(LargeStep { what, took, changes, links, sends });
        Ok(())
    }

    fn boot(&mut self) -> Result<(), String> {
        self.cluster.boot_directory();
        self.all().for_each(|host| self.boot_host(host));
        self.wait("hosts", |run| run.all().all(|host| run.is_up(host)))
    }

    fn boot_host(&self, host: usize) {
        self.cluster.boot(host, |_, _| async {});
    }

    fn is_up(&self, host: usize) -> bool {
        self.cluster.node(host).is_some()
    }

    fn all(&self) -> std::ops::Range<usize> {
        0..self.cluster.machines.len()
    }

    /// The hosts of a rack.
    fn rack(&self, rack: u32) -> impl Iterator<Item = usize> + use<> {
        let LargeOptions { shards, racks, .. } = self.options;
        let of = move |host: &usize| u32::try_from(*host).unwrap_or(0) / shards % racks == rack;
        self.all().filter(of)
    }

    /// The hosts of a machine.
    fn machine(&self, machine: u32) -> impl Iterator<Item = usize> + use<> {
        let shards = self.options.shards;
        self.all().filter(move |host| u32::try_from(*host).unwrap_or(0) / shards == machine)
    }

    /// Whether a machine was not lost.
    fn is_there(&self, machine: u32) -> bool {
        self.machine(machine).all(|host| self.is_up(host))
    }

    /// A client on a machine writes to the volume that was made through the machine's first host.
    fn start_client(&mut self, machine: u32) {
        let Some(host) = self.machine(machine).next() else { return };
        let Some(env) = self.cluster.world.env(self.cluster.machines[host].key) else { return };
        let Some(device) = self
            .cluster
            .node(host)
            .and_then(|node| node.exports().attach(&format!("v{host}")).ok())
        else {
            return;
        };
        let (inner, load) = (env.clone(), Rc::clone(&self.load));
        let task = env.spawn("client", async move { client(inner, device, load).await });
        self.clients.insert(machine, task);
    }

    /// A machine does not come back, and is taken out of the cluster.
    fn lose(&mut self, machine: u32) -> Result<(), String> {
        self.clients.remove(&machine);
        self.machine(machine).for_each(|host| self.cluster.take_down(host, true));
        self.cluster.world.run_for(AWAY);
        self.check()?;
        let host = format!("machine{}", machine + 1);
        self.order(0, Command::HostRemove { host, lost: true })?;
        self.wait("whole copies", Self::is_whole)?;
        self.check()
    }

    /// A machine enters maintenance, is stopped once it may be, and takes part again.
    fn restart(&mut self, machine: u32) -> Result<(), String> {
        let host = format!("machine{}", machine + 1);
        // Any other one is asked.
        let machines = self.options.machines;
        let mut others = (1..machines).map(|by| (machine + by) % machines);
        let other = others.find(|other| self.is_there(*other)).unwrap_or(0);
        let asked = self.machine(other).next().unwrap_or(0);
        let mode = MaintenanceMode::EnsureAccessibility;
        self.order(asked, Command::MaintenanceEnter { host: host.clone(), mode })?;
        let check = Command::MaintenanceCheck { host: host.clone(), mode: None };
        let until = self.cluster.world.now() + WAIT_MAX;
        while !is_ready(self.cluster.answer_to(asked, check.clone(), WAIT_MAX)) {
            if self.cluster.world.now() > until {
                return Err(format!("{host} may not be stopped"));
            }
            self.cluster.world.run_for(LOOK);
        }
        self.clients.remove(&machine);
        self.machine(machine).for_each(|host| self.cluster.take_down(host, false));
        self.cluster.world.run_for(Duration::from_secs(2));
        self.check()?;
        self.machine(machine).for_each(|host| self.boot_host(host));
        self.wait("the host", |run| run.machine(machine).all(|host| run.is_up(host)))?;
        self.order(asked, Command::MaintenanceExit { host })?;
        self.wait("whole copies", Self::is_whole)?;
        self.start_client(machine);
        self.check()
    }

    fn is_whole(&self) -> bool {
        let is_whole = |record: &ObjectRecord| {
            let active = |one: &ComponentRecord| one.state == ComponentState::Active;
            record.components.iter().all(active) && self.is_member(record)
        };
        self.records().iter().all(is_whole)
    }

    /// Whether all components are on hosts that are up.
    fn is_member(&self, record: &ObjectRecord) -> bool {
        let at = |id: ShardId| self.cluster.machines.iter().position(|one| one.number == id.0);
        record.components.iter().all(|one| at(one.shard).is_some_and(|host| self.is_up(host)))
    }

    fn make_racks(&mut self) -> Result<(), String> {
        for rack in 0..self.options.racks {
            let name = format!("rack{rack}");
            self.order(0, Command::DomainCreate { name: name.clone(), within: None })?;
            let hosts = self.rack(rack).map(|host| format!("host{}", host + 1)).collect();
            let assign = Command::DomainAssign { hosts, domain: Some(name), check: false };
            self.order(0, assign)?;
        }
        Ok(())
    }

    /// Each volume is made through another host.
    fn make_volumes(&mut self) -> Result<(), String> {
        let hosts = self.all().len();
        let at = |volume: u32| usize::try_from(volume).unwrap_or(0) % hosts;
        let create = |volume: u32| {
            Command::VolumeCreate(NewVolume {
                writers: Some(Writers::Any),
                ..NewVolume::new(format!("v{volume}"), 4 << 20, 1)
            })
        };
        for first in (0..self.options.volumes).step_by(usize::try_from(ASKED_AT_ONCE).unwrap_or(1))
        {
            let some = first..self.options.volumes.min(first + ASKED_AT_ONCE);
            let asked: Vec<_> = some.map(|v| self.cluster.asked(at(v), create(v))).collect();
            let is_over = || asked.iter().all(|one| one.as_ref().is_none_or(|one| one.is_over()));
            self.cluster.world.run_until(WAIT_MAX, is_over);
            for one in asked {
                made(one.and_then(|one| one.take()))?;
            }
        }
        Ok(())
    }

    fn order(&self, host: usize, command: Command) -> Result<(), String> {
        made(self.cluster.answer_to(host, command, WAIT_MAX))
    }

    fn wait(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<(), String> {
        // Looking costs more than a moment of the world.
        let until = self.cluster.world.now() + WAIT_MAX;
        while !is_so(self) {
            if self.cluster.world.now() > until {
                return Err(format!("{what}: not within {} s", WAIT_MAX.as_secs()));
            }
            self.cluster.world.run_for(LOOK);
        }
        Ok(())
    }

    fn records(&self) -> Vec<ObjectRecord> {
        self.cluster.records.all()
    }

    /// Two copies of each object, in different racks, of which one counts whose host is up.
    fn check(&mut self) -> Result<(), String> {
        let mut rack_of: Map<ShardId, u32> = Map::new();
        for rack in 0..self.options.racks {
            let hosts = self.rack(rack).map(|host| ShardId(self.cluster.machines[host].number));
            rack_of.extend(hosts.map(|shard| (shard, rack)));
        }
        let up: Vec<ShardId> = self
            .all()
            .filter(|host| self.is_up(*host))
            .map(|host| ShardId(self.cluster.machines[host].number))
            .collect();
        let records = self.records();
        if records.len() != usize::try_from(self.options.volumes).unwrap_or(0) {
            return Err(format!("{} records of objects", records.len()));
        }
        for record in &records {
            let racks: Vec<_> =
                record.components.iter().map(|one| rack_of.get(&one.shard)).collect();
            let is_apart = racks.len() == 2 && racks[0] != racks[1];
            let mut components = record.components.iter();
            let is_there = components
                .any(|one| one.state == ComponentState::Active && up.contains(&one.shard));
            if !is_apart || !is_there {
                let ObjectId(id) = record.id;
                return Err(format!("object {id:x} is not as it should be: {record:?}"));
            }
        }
        Ok(())
    }
}

fn is_ready(reply: Option<CommandReply>) -> bool {
    let Some(CommandReply::Ok(report)) = reply else { return false };
    serde_json::from_value::<MaintenanceReport>(report).is_ok_and(|report| report.ready)
}

/// Writes a block, reads it, and does so again a little later.
async fn client(env: Env, device: impl Device, load: Rc<RefCell<LargeLoad>>) {
    for count in 0_u64.. {
        let fill = count.to_le_bytes()[0];
        let (begun, mut block) = (env.now(), env.buf(4096));
        block.fill(fill);
        let written = device.write(0, block.freeze()).await;
        let took = env.now().since(begun);
        let is_there = match device.read(0, 4096).await {
            Ok(read) => read.iter().flat_map(|part| part.iter()).all(|byte| *byte == fill),
            Err(_) => false,
        };
        {
            let mut load = load.borrow_mut();
            load.writes += 1;
            load.failed += u64::from(written.is_err() || !is_there);
            load.longest = load.longest.max(took);
        }
        env.sleep(THINK).await;
    }
}

fn made(reply: Option<CommandReply>) -> Result<(), String> {
    match reply {
        Some(CommandReply::Ok(_)) => Ok(()),
        Some(CommandReply::Error(failure)) => Err(failure.message),
        None => Err("a host did not answer".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_copy_is_lost_with_a_rack_or_a_machine_and_nobody_sees_a_restart() {
        let options =
            LargeOptions { seed: 1, machines: 6, shards: 2, racks: 3, volumes: 24, rolling: 2 };
        let mut steps = Vec::new();
        let load = run_large(&options, &mut |step| steps.push(step)).expect("it holds");
        assert_eq!((load.failed, steps.len()), (0, 9), "{load:?}");
        assert!(load.writes > 1000, "{load:?}");
        let links = steps.iter().map(|step| step.links).max();
        assert!(links > Some(12 * 11 / 2), "each with each, and with the directory");
    }
}
