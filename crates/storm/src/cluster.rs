// SPDX-License-Identifier: Apache-2.0
//! A cluster of production hosts in a simulated world, and the directory that they share.

use crate::mutation::Mutation;
use crate::plan::{HostMemory, HostPages, LinkPlan, Plan};
use crate::records::Records;
use crate::releases::Releases;
use base::{GroupId, Incarnation, Map, ObjectId, ShardId};
use directory::{Level, ServeOptions};
use diskgroup::{CHECKSUM_BYTES_MIN, CreateSizes, DiskGroup, GroupError, GroupShape, GroupSpec};
use env::{Address, Env, TaskSet};
use host::{
    HostConfig, MachineMemory, MemoryConfig, NewCluster, Node, NodeOptions, StorageError, Tuning,
};
use object::MemberChange;
use operator::{Command, CommandReply, GroupConfig};
use peer::PeerOptions;
use reopening::Reopening;
use sim::{DiskModel, HostKey, World, WorldOptions};
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;
use tls::Identity;
use wire::Versions;

/// The cluster's id.
pub(crate) const CLUSTER: u64 = 0x5707;
/// The TCP port at which the directory listens, and each host for other hosts.
const PORT: u16 = 7000;
/// The wait between a failed start and the next attempt.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// Bytes of a checksum page.
const LEAST_PAGE: u64 = 4096;

/// One data host: the machine and, while its process runs, its node.
pub struct Machine {
    /// The machine in the world.
    pub key: HostKey,
    /// The host's id in the cluster.
    pub number: u32,
    node: Rc<RefCell<Option<Rc<Node>>>>,
    /// Groups that get new devices before the next start, named by their cache devices.
    unformatted: Rc<RefCell<Map<String, New>>>,
    boots: Cell<u64>,
    /// What the release knows that it is started with.
    level: Cell<Level>,
    /// What that one speaks, where a test says it.
    versions: Cell<Option<Versions>>,
    /// The highest incarnation of the host that was ready.
    last_run: Rc<Cell<Incarnation>>,
    /// Whether its disks said which run that was, when it was ready or when it ended.
    says_run: Rc<Cell<bool>>,
    /// Tasks that do what an operator would do on this machine.
    orders: RefCell<TaskSet>,
    /// Groups that one of these closed and has not tried to open yet, named by their cache devices.
    reopening: Rc<RefCell<Vec<String>>>,
}

impl Machine {
    /// Whether the disks of a running host say which run this is: what says so may have gone to
    /// another host since it began. `None`: it does not run.
    fn says_its_run(&self) -> Option<bool> {
        let node = self.node.borrow().clone()?;
        let me = ShardId(self.number);
        let says = |group: DiskGroup| group.incarnation_seen(me) >= node.incarnation();
        Some(node.groups().into_iter().any(says))
    }
}

/// The cluster under test.
pub struct Cluster {
    /// The simulated world.
    pub world: World,
    /// The data hosts, host 1 first.
    pub machines: Vec<Machine>,
    /// The machine of the directory.
    pub directory: HostKey,
    /// The content of the directory.
    pub records: Rc<Records>,
    plan: Plan,
    mutation: Option<Mutation>,
    releases: Releases,
    /// What hosts prove themselves with, by index; none where links are never encrypted.
    identities: Vec<Identity>,
    /// A host has a number below that of an earlier run.
    lower_run: Rc<Cell<bool>>,
}

fn ip(number: u32) -> IpAddr {
    // That of the directory lies between those of small clusters and of large ones.
    let net = if number < DIRECTORY { 0 } else { 1 << 16 };
    IpAddr::V4(Ipv4Addr::from_bits((10 << 24) + net + number))
}

/// The last part of the directory's address.
const DIRECTORY: u32 = 100;

fn directory_ip() -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits((10 << 24) + DIRECTORY))
}

pub(crate) fn directory_address() -> Address {
    Address::Tcp((directory_ip(), PORT).into())
}

impl Cluster {
    /// A cluster of machines of which none is started yet.
    #[must_use]
    pub fn new(plan: &Plan, mutation: Option<Mutation>) -> Self {
        let world = World::new(WorldOptions {
            seed: plan.seed,
            quirks: plan.quirks,
            disk: DiskModel { freedom: plan.freedom, ..DiskModel::default() },
            ..WorldOptions::default()
        });
        let directory = world.add_host("directory", directory_ip());
        let machines = (1..=plan.hosts).map(|number| Machine {
            key: world.add_host(&format!("host{number}"), ip(number)),
            number,
            node: Rc::default(),
            unformatted: Rc::new(RefCell::new(
                (0..plan.groups).map(|group| (format!("cache{group}"), New::All)).collect(),
            )),
            boots: Cell::default(),
            level: Cell::default(),
            versions: Cell::default(),
            last_run: Rc::default(),
            says_run: Rc::default(),
            orders: RefCell::default(),
            reopening: Rc::default(),
        });
        let machines: Vec<_> = machines.collect();
        for (machine, drift) in machines.iter().zip(&plan.drift_ppm) {
            world.clock_drift(machine.key, *drift);
        }
        let number = |index: &usize| ShardId(machines[*index].number);
        let on_one = (0..machines.len())
            .filter_map(|index| plan.machine_of(index).map(|machine| (number(&index), machine)));
        let records = Rc::new(Records::on_machines(on_one.collect()));
        let plan = plan.clone();
        let identities = plan.links.identities(plan.hosts);
        let (releases, lower_run) = (Releases::of(plan.seed, plan.limits.is_mixed), Rc::default());
        Self {
            world,
            machines,
            directory,
            records,
            plan,
            mutation,
            releases,
            identities,
            lower_run,
        }
    }

    /// Starts the directory's process. The directory's content outlives the process.
    pub fn boot_directory(&self) {
        self.boot_directory_with(true);
    }

    /// As [`Self::boot_directory`], but nobody founds a cluster in it.
    pub fn boot_empty_directory(&self) {
        self.boot_directory_with(false);
    }

    fn boot_directory_with(&self, is_founded: bool) {
        let backend = Rc::clone(&self.records);
        let encrypt_links = self.plan.links == LinkPlan::Encrypted;
        let new = NewCluster { kind: self.plan.kind, encrypt_links };
        let options = ServeOptions { faults: self.plan.directory, ..self.plan.limits.server };
        self.world.boot(self.directory, move |env: Env| {
            Box::pin(async move {
                let Ok(listener) = env.listen(directory_address()).await else { return };
                let inner = env.clone();
                let _founding = env.spawn("found", async move {
                    // If an answer is lost, try again: founding twice changes nothing.
                    while is_founded
                        && let Err(error) =
                            host::found(&inner, directory_address(), CLUSTER, new).await
                    {
                        tracing::info!(?error, "not founded");
                        inner.sleep(RESTART_PAUSE).await;
                    }
                });
                if let Err(error) = directory::serve_with(&env, listener, backend, options).await {
                    panic!("the directory does not serve: {error}");
                }
            })
        });
    }

    /// What a host is started with that its configuration does not say.
    fn options(&self, index: usize) -> NodeOptions {
        let machine = &self.machines[index];
        let mut options = NodeOptions {
            group: self.plan.group.clone(),
            object: self.plan.object.clone(),
            scrub: self.plan.scrub,
            volume: self.plan.limits.volume.clone(),
            directory: self.plan.limits.client,
            creation: self.plan.limits.creation,
            balance: self.plan.balance,
            peer: PeerOptions {
                versions: machine.versions.get().unwrap_or_else(|| self.releases.next()),
                ..self.plan.limits.peer
            },
            identity: self.identities.get(index).cloned(),
            memory: self.memory(index),
            level: machine.level.get(),
            mutations: host::Mutations::default(),
        };
        if let Some(mutation) = self.mutation {
            mutation.apply(&mut options);
        }
        options
    }

    /// Starts a host. `then` runs on it when it is ready.
    pub fn boot<F>(&self, index: usize, then: impl FnOnce(Env, Rc<Node>) -> F + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let machine = &self.machines[index];
        let config = self.config(index);
        let options = self.options(index);
        let drift = self.plan.drift_ppm.get(index).copied().unwrap_or(0);
        let place = Rc::clone(&machine.node);
        let segment_size = self.plan.segment_size;
        let shape = GroupShape { kind: config.tuning.group_kind(config.kind), segment_size };
        let unformatted = Rc::clone(&machine.unformatted);
        machine.boots.set(machine.boots.get() + 1);
        let last_run = Rc::clone(&machine.last_run);
        let says_run = Rc::clone(&machine.says_run);
        let lower_run = Rc::clone(&self.lower_run);
        let sizes = self.plan.sizes;
        self.world.boot(machine.key, move |env: Env| {
            Box::pin(async move {
                for (number, group) in (1..).zip(&config.groups) {
                    let new = unformatted.borrow().get(&group.cache).copied();
                    if let Some(new) = new {
                        let id = GroupId((u64::from(config.id) * 16 + number) << 16);
                        format_group(&env, group, new, id, sizes, shape).await;
                        unformatted.borrow_mut().remove(&group.cache);
                    }
                }
                let node = loop {
                    match Node::start(&env, &config, options.clone()).await {
                        Ok(node) => break Rc::new(node),
                        // Try again, as a supervisor does. A host that never starts is noticed as
                        // stuck.
                        Err(error) => tracing::warn!(name = config.name, %error, "does not start"),
                    }
                    env.sleep(RESTART_PAUSE).await;
                };
                let run = node.incarnation();
                let me = ShardId(config.id);
                says_run.set(node.groups().iter().any(|group| group.incarnation_seen(me) >= run));
                let last = last_run.replace(run);
                if run < last {
                    lower_run.set(true);
                }
                if run <= last {
                    let is_short = !node.closed_groups().is_empty();
                    assert!(is_short, "{}: run {run} is not the first", config.name);
                    base::hit(base::Probe::RunRepeated);
                }
                *place.borrow_mut() = Some(Rc::clone(&node));
                then(env, node).await;
            })
        });
        // The clock of a machine that was off is exact again, so set its drift.
        self.world.clock_drift(machine.key, drift);
    }

    /// Hosts whose disks said which run their last one was, when it began.
    pub(crate) fn hosts_that_say_their_run(&self) -> base::Set<ShardId> {
        let says =
            |machine: &&Machine| machine.says_its_run().unwrap_or_else(|| machine.says_run.get());
        let machines = self.machines.iter().filter(says);
        machines.map(|machine| ShardId(machine.number)).collect()
    }

    /// Whether the directory gave a host a number below that of an earlier run, while the disk
    /// group that knows better was out of service.
    pub(crate) fn has_lower_run(&self) -> bool {
        self.lower_run.get()
    }

    fn host_memory(&self, index: usize) -> HostMemory {
        self.plan.limits.memory.get(index).copied().unwrap_or_default()
    }

    /// As many checksum pages for each capacity device as the plan says; all of a host share them.
    fn memory(&self, index: usize) -> MachineMemory {
        let HostMemory { pages, is_tight } = self.host_memory(index);
        let devices = u64::from(self.plan.groups) * u64::from(self.plan.devices);
        let each = u64::try_from(self.plan.group.crc_cache_bytes).unwrap_or(u64::MAX);
        MachineMemory {
            checksum_bytes: match pages {
                HostPages::Plan => Some(each * devices),
                HostPages::LeastSaid => None,
                HostPages::Least => Some(LEAST_PAGE * devices),
            },
            table_bytes: is_tight.then(|| self.table_bytes()),
            ..MachineMemory::default()
        }
    }

    /// What the tables of a host's groups take when all of them are full.
    fn table_bytes(&self) -> u64 {
        u64::from(self.plan.groups) * self.needed_by(self.plan.sizes)
    }

    /// The same, of one group whose devices are of these sizes.
    fn needed_by(&self, sizes: CreateSizes) -> u64 {
        let config = self.config(0);
        let kind = config.tuning.group_kind(config.kind);
        let shape = GroupShape { kind, segment_size: self.plan.segment_size };
        let devices = usize::try_from(self.plan.devices).unwrap_or(usize::MAX);
        let needed = DiskGroup::memory_of_new(sizes, devices, shape, &self.plan.group);
        needed.map_or(0, |parts| parts.sum())
    }

    /// On a host without a byte to spare: to make a group that needs more than all that there is.
    fn greedy(&self, index: usize) -> Option<Command> {
        if !self.host_memory(index).is_tight {
            return None;
        }
        let sizes = |bytes| CreateSizes { cache: bytes, capacity: bytes };
        let is_too_large = |bytes: &u64| self.needed_by(sizes(*bytes)) > self.table_bytes();
        Some(Command::GroupCreate {
            kind: None,
            cache: "greedy-cache".to_owned(),
            capacity: (0..self.plan.devices).map(|at| format!("greedy-capacity{at}")).collect(),
            create_bytes: (26..40).map(|bits| 1 << bits).find(is_too_large),
            wipe: false,
            ignore_device_kind: true,
        })
    }

    fn config(&self, index: usize) -> HostConfig {
        let number = self.machines[index].number;
        let peer: std::net::SocketAddr = (ip(number), PORT).into();
        HostConfig {
            name: format!("host{number}"),
            id: number,
            machine: self.plan.machine_of(index),
            cluster: CLUSTER,
            peer: format!("tcp:{peer}"),
            nbd: vec!["unix:/nbd.sock".to_owned()],
            nbd_socket: host::SocketConfig::default(),
            control: "unix:/control.sock".to_owned(),
            api: None,
            directory: format!("tcp:{}:{PORT}", directory_ip()),
            etcd: Vec::new(),
            kind: self.plan.kind,
            groups: (0..self.plan.groups).map(|group| self.group(group)).collect(),
            memory: MemoryConfig {
                write_bytes: Some(self.plan.object.write_bytes),
                link_bytes: Some(256 << 20),
                checksum_bytes: Some(CHECKSUM_BYTES_MIN),
                ..MemoryConfig::default()
            },
            tuning: Tuning {
                io_timeout_seconds: self.plan.io_timeout.as_secs(),
                stall_ms: u64::try_from(self.plan.object.stall.as_millis()).unwrap_or(2000),
                read_cache_percent: self.plan.read_cache_percent,
                device_stuck_seconds: self.plan.device_stuck_seconds(),
                ..Tuning::default()
            },
        }
    }

    fn group(&self, group: u32) -> GroupConfig {
        GroupConfig {
            cache: format!("cache{group}"),
            capacity: (0..self.plan.devices).map(|at| format!("capacity{group}.{at}")).collect(),
            kind: None,
        }
    }

    /// The paths of a host's devices, the same on each.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        let groups = (0..self.plan.groups).map(|group| self.group(group));
        groups.flat_map(|group| std::iter::once(group.cache).chain(group.capacity)).collect()
    }

    /// Ends a host: by power loss if `is_crash`, else by the end of its process.
    pub fn take_down(&self, index: usize, is_crash: bool) {
        let machine = &self.machines[index];
        if let Some(says) = machine.says_its_run() {
            machine.says_run.set(says);
        }
        if is_crash {
            self.world.crash(machine.key);
        } else {
            self.world.kill(machine.key);
        }
        machine.orders.take();
        // The node belongs to the executor that has just ended.
        let node = machine.node.borrow_mut().take();
        drop(node);
    }

    /// Closes a disk group of a running host, and opens it again after `pause`. If it does not
    /// open, that is tried again and again.
    pub fn reopen(&self, index: usize, group: u32, pause: Duration) {
        let machine = &self.machines[index];
        let (Some(env), Some(node)) = (self.world.env(machine.key), self.node(index)) else {
            return;
        };
        let GroupConfig { cache, .. } = self.group(group);
        let greedy = self.greedy(index);
        let inner = env.clone();
        let mut reopening = Some(Reopening::new(&machine.reopening, &cache));
        machine.orders.borrow().spawn(&env, "operator", async move {
            if let Err(error) = node.close_group(&cache).await {
                return tracing::warn!(%error, "not closed");
            }
            // Whoever asks for too much takes nothing of what the closed group needs again.
            if let Some(greedy) = greedy
                && let Some(CommandReply::Ok(_)) = ask(&inner, greedy).await
            {
                panic!("a disk group was made for which there is no memory");
            }
            inner.sleep(pause).await;
            loop {
                match node.open_group(&cache).await {
                    Ok(()) | Err(StorageError::IsOpen { .. }) => return,
                    Err(error) => tracing::warn!(%error, "not opened"),
                }
                reopening.take();
                inner.sleep(RESTART_PAUSE).await;
            }
        });
    }

    /// The groups of a running host that are out of service, and that nobody is about to open.
    pub(crate) fn given_up_groups(&self, index: usize) -> Vec<String> {
        let mut closed = self.node(index).map(|node| node.closed_groups()).unwrap_or_default();
        let reopening = self.machines[index].reopening.borrow();
        closed.retain(|cache| !reopening.contains(cache));
        closed
    }

    /// Asks a host that is up to change which components an object has.
    pub fn change_members(&self, index: usize, object: ObjectId, change: MemberChange) {
        let machine = &self.machines[index];
        let (Some(env), Some(node)) = (self.world.env(machine.key), self.node(index)) else {
            return;
        };
        machine.orders.borrow().spawn(&env, "mover", async move {
            let asked = node.objects().change_members(object, change).await;
            tracing::info!(%object, ?change, ?asked, "a copy is to move");
        });
    }

    /// Puts a device that is away back after `pause`, unless the host's process ends before.
    pub fn put_back(&self, index: usize, device: &str, pause: Duration) {
        let machine = &self.machines[index];
        let Some(env) = self.world.env(machine.key) else { return };
        let (inner, world, key) = (env.clone(), self.world.clone(), machine.key);
        let device = device.to_owned();
        machine.orders.borrow().spawn(&env, "hands", async move {
            inner.sleep(pause).await;
            world.disk_error(key, &device, sim::DiskFault::Clear);
        });
    }

    /// Gives a host new devices in some groups, which are named by their cache devices. The host
    /// goes down for that and has to be started again.
    pub fn replace_devices(&self, index: usize, caches: Vec<String>, new: New) {
        self.take_down(index, true);
        let caches = caches.into_iter().map(|cache| (cache, new));
        self.machines[index].unformatted.borrow_mut().extend(caches);
    }

    /// Asks a host, and runs the world until it has answered or `patience` is over.
    pub(crate) fn answer_to(
        &self,
        index: usize,
        command: Command,
        patience: Duration,
    ) -> Option<CommandReply> {
        let asked = self.asked(index, command)?;
        self.world.run_until(patience, || asked.is_over());
        asked.take()
    }

    /// Asks a host; the world is to run until there is an answer. `None`: the host is down.
    pub(crate) fn asked(&self, index: usize, command: Command) -> Option<Asking> {
        let env = self.world.env(self.machines[index].key)?;
        let reply = Rc::new(RefCell::new(None));
        let (place, inner) = (Rc::clone(&reply), env.clone());
        let task = env.spawn("operator", async move {
            let answer = ask(&inner, command).await;
            *place.borrow_mut() = Some(answer);
        });
        Some(Asking { reply, _task: task })
    }

    /// What operators call the host of each shard.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        (0..self.machines.len()).map(|index| self.plan.host_of(index)).collect()
    }

    /// How often a host was started.
    #[must_use]
    pub fn boots(&self, index: usize) -> u64 {
        self.machines[index].boots.get()
    }

    /// The node of a host; `None` until the host is ready.
    #[must_use]
    pub fn node(&self, index: usize) -> Option<Rc<Node>> {
        self.machines[index].node.borrow().clone()
    }
}

/// A question to a host.
pub(crate) struct Asking {
    reply: Rc<RefCell<Option<Option<CommandReply>>>>,
    _task: env::Task,
}

impl Asking {
    /// Whether there is an answer, or will be none.
    pub(crate) fn is_over(&self) -> bool {
        self.reply.borrow().is_some()
    }

    /// The answer, where there is one.
    pub(crate) fn take(self) -> Option<CommandReply> {
        self.reply.borrow_mut().take().flatten()
    }
}

/// Which devices of a group are new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum New {
    /// All devices: the group is formatted anew.
    All,
    /// The cache device. What only the write buffer held is lost.
    Cache,
    /// One capacity device, with the components on it.
    Capacity(usize),
}

async fn format_group(
    env: &Env,
    group: &GroupConfig,
    new: New,
    id: GroupId,
    sizes: CreateSizes,
    shape: GroupShape,
) {
    let spec = GroupSpec { cache: group.cache.clone(), capacity: group.capacity.clone() };
    // If it fails, it is done again. If power fails meanwhile, the next start begins it again.
    loop {
        let made = match new {
            New::All => DiskGroup::format_with(env, &spec, Some(sizes), true, id, shape).await,
            New::Cache => {
                let replaced = DiskGroup::replace_cache_with(env, &spec, None, true, shape);
                replaced.await.map(drop)
            }
            New::Capacity(at) => DiskGroup::replace_capacity(env, &spec, at, None, true).await,
        };
        match made {
            Ok(()) => return,
            Err(error @ GroupError::TooSmall { .. }) => panic!("no plan has such sizes: {error}"),
            Err(error) => tracing::warn!(%error, "not formatted"),
        }
        env.sleep(RESTART_PAUSE).await;
    }
}

/// Asks a host through its control socket. `env` must be of a process on the host's machine.
pub async fn ask(env: &Env, command: Command) -> Option<CommandReply> {
    let link = env.dial(Address::Unix("/control.sock".to_owned())).await.ok()?;
    host::call(env, &link, &command).await.ok()
}

#[cfg(test)]
mod orphans;
mod reopening;
#[cfg(test)]
mod tests;
