// SPDX-License-Identifier: Apache-2.0
//! Three hosts with a mirrored volume whose copies rot, and operators that let them be scrubbed.

use super::ScrubOptions;
use crate::{HostConfig, MemoryConfig, Node, NodeOptions, Tuning, call, found};
use base::{BLOCK_SECTORS, GroupId, ObjectId, SectorRange, WriterEpoch};
use directory::{ClusterKind, Writers};
use directory::{MemoryBackend, ServerFaults, serve_with};
use diskgroup::{CreateSizes, DiskGroup, GroupSpec};
use env::{Address, Env};
use object::ObjectError;
use operator::{Command, CommandReply, GroupConfig, Health, NewVolume, ScrubReport, StatusReport};
use serde::de::DeserializeOwned;
use sim::{DiskFault, HostKey, World, WorldOptions};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const CLUSTER: u64 = 7;
const HOUR: Duration = Duration::from_secs(3600);
const CONTROL: &str = "/control.sock";
/// Blocks that are written.
const BLOCKS: u64 = 40;

fn ip(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
}

fn directory_address() -> Address {
    Address::Tcp(SocketAddr::from((ip(100), 7000)))
}

fn config(number: u8) -> HostConfig {
    HostConfig {
        name: format!("host{number}"),
        id: u32::from(number),
        machine: None,
        cluster: CLUSTER,
        peer: format!("tcp:10.0.0.{number}:7000"),
        nbd: vec!["unix:/nbd.sock".to_owned()],
        nbd_socket: crate::SocketConfig::default(),
        control: format!("unix:{CONTROL}"),
        api: None,
        directory: "tcp:10.0.0.100:7000".to_owned(),
        etcd: Vec::new(),
        kind: ClusterKind::AllFlash,
        groups: vec![GroupConfig {
            cache: "cache".to_owned(),
            capacity: vec!["capacity".to_owned()],
            kind: None,
        }],
        memory: MemoryConfig::default(),
        tuning: Tuning::default(),
    }
}

async fn serve_directory(env: Env) {
    let listener = env.listen(directory_address()).await.expect("a listener");
    let inner = env.clone();
    let _founding = env.spawn("found", async move {
        found(&inner, directory_address(), CLUSTER, ClusterKind::AllFlash)
            .await
            .expect("an empty directory");
    });
    let backend = Rc::new(MemoryBackend::default());
    let end = serve_with(&env, listener, backend, ServerFaults::default()).await;
    panic!("the directory ended: {end:?}");
}

struct Machine {
    key: HostKey,
    number: u8,
    node: Rc<RefCell<Option<Rc<Node>>>>,
}

impl Machine {
    fn boot(&self, world: &World, options: ScrubOptions, is_new: bool) {
        let (place, number) = (Rc::clone(&self.node), self.number);
        world.boot(self.key, move |env| {
            Box::pin(async move {
                let capacity = vec!["capacity".to_owned()];
                let spec = GroupSpec { cache: "cache".to_owned(), capacity };
                let sizes = Some(CreateSizes { cache: 4 << 20, capacity: 80 << 20 });
                let id = GroupId(u64::from(number));
                if is_new {
                    DiskGroup::format_with(&env, &spec, sizes, true, id, 64 << 10)
                        .await
                        .expect("new devices");
                }
                let options = NodeOptions { scrub: options, ..NodeOptions::default() };
                let node = Node::start(&env, &config(number), options).await;
                *place.borrow_mut() = Some(Rc::new(node.expect("it starts")));
                std::future::pending::<()>().await;
            })
        });
    }
}

struct Cluster {
    world: World,
    machines: Vec<Machine>,
    /// The volume's object, and the machines of its two components: the owner's is the first.
    object: ObjectId,
    copies: [usize; 2],
}

impl Cluster {
    /// A volume whose first blocks are on the capacity devices of two hosts.
    fn new(seed: u64, options: ScrubOptions) -> Self {
        let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
        let directory = world.add_host("directory", ip(100));
        world.boot(directory, |env| Box::pin(serve_directory(env)));
        world.run_for(Duration::from_millis(50));
        let machines = (1..=3).map(|number| {
            let key = world.add_host(&format!("host{number}"), ip(number));
            let machine = Machine { key, number, node: Rc::default() };
            machine.boot(&world, options, true);
            machine
        });
        let machines: Vec<Machine> = machines.collect();
        let object = ObjectId(0);
        let mut cluster = Self { world, machines, object, copies: [0, 0] };
        let nodes = cluster.machines.iter().map(|machine| Rc::clone(&machine.node));
        let nodes: Vec<_> = nodes.collect();
        let is_up = || nodes.iter().all(|node| node.borrow().is_some());
        assert!(cluster.world.run_until(HOUR, is_up), "the hosts start");
        cluster.create();
        cluster
    }

    fn node(&self, at: usize) -> Rc<Node> {
        self.machines[at].node.borrow().clone().expect("it is up")
    }

    /// Runs `work` on a machine to its end.
    fn on<T: 'static>(&self, at: usize, work: impl Future<Output = T> + 'static) -> T {
        let result = Rc::new(RefCell::new(None));
        let place = Rc::clone(&result);
        let env = self.world.env(self.machines[at].key).expect("it is up");
        let _task = env.spawn("test", async move {
            let value = work.await;
            *place.borrow_mut() = Some(value);
        });
        assert!(self.world.run_until(HOUR, || result.borrow().is_some()), "it never ends");
        result.take().expect("it ended")
    }

    fn ask<T: DeserializeOwned + 'static>(&self, at: usize, command: Command) -> T {
        let env = self.world.env(self.machines[at].key).expect("it is up");
        self.on(at, async move {
            let link = env.dial(Address::Unix(CONTROL.to_owned())).await.expect("a door");
            match call(&env, &link, &command).await.expect("an answer") {
                CommandReply::Ok(value) => serde_json::from_value(value).expect("as promised"),
                CommandReply::Error(failure) => panic!("{command:?}: {}", failure.message),
            }
        })
    }

    fn create(&mut self) {
        // The hosts have to hear of one another's room first.
        self.world.run_for(Duration::from_secs(5));
        let new = NewVolume::new("vm", 8 << 20, 1);
        let create = Command::VolumeCreate(NewVolume { writers: Some(Writers::Any), ..new });
        drop(self.ask::<serde_json::Value>(0, create));
        self.world.run_for(Duration::from_secs(1));
        let record = self.node(0).objects().records().into_iter().next().expect("an object");
        self.object = record.id;
        let at = |place: usize| record.components[place].shard.0 as usize - 1;
        self.copies = [at(0), at(1)];
        self.write_all();
        self.to_capacity();
    }

    fn write_all(&self) {
        let (at, object) = (self.copies[0], self.object);
        let objects = self.node(at).objects().clone();
        let env = self.world.env(self.machines[at].key).expect("it is up");
        self.on(at, async move {
            objects.set_attached(object, true);
            objects.acquire(object).await.expect("an owner");
            for block in 0..BLOCKS {
                let range = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
                let mut payload = env.buf(4096);
                payload.copy_from_slice(&content(block));
                let payload = payload.freeze();
                let crcs = wire::crcs_of(range, &payload);
                let request = objects.begin_write(object, WriterEpoch::ANY).await;
                let kind = wire::WriteKind::Data;
                let written = objects.write(object, &request, range, kind, crcs, payload).await;
                written.expect("a write");
            }
        });
    }

    fn to_capacity(&self) {
        self.world.run_for(Duration::from_secs(1));
        for at in self.copies {
            let node = self.node(at);
            let group = &node.groups()[0];
            group.drain_buffer(true);
            let is_drained = || group.status().buffer_fill == 0.0;
            assert!(self.world.run_until(HOUR, is_drained), "it is destaged");
            group.drain_buffer(false);
        }
    }

    /// Where a block lies on the capacity device of a machine.
    fn place(&self, at: usize, block: u64) -> u64 {
        let key = self.machines[at].key;
        let size = self.world.disk_size(key, "capacity");
        let is_there =
            |from: &u64| self.world.read_raw(key, "capacity", *from, 4096) == content(block);
        (0..size).step_by(4096).find(is_there).expect("the block is on capacity")
    }

    fn rot(&self, at: usize, block: u64) {
        let place = self.place(at, block);
        self.world.flip_bits(self.machines[at].key, "capacity", place + 100, 3);
    }

    /// A whole pass by order; the device's report after it.
    fn scrub(&self, at: usize) -> ScrubReport {
        let _: Vec<ScrubReport> =
            self.ask(at, Command::ScrubStart { bytes_per_second: Some(1 << 30) });
        for _ in 0..100 {
            self.world.run_for(Duration::from_millis(500));
            let report = self.report(at);
            if report.state == "idle" {
                return report;
            }
        }
        panic!("the pass does not end: {:?}", self.report(at));
    }

    fn report(&self, at: usize) -> ScrubReport {
        let reports: Vec<ScrubReport> = self.ask(at, Command::ScrubStatus);
        let [report] = <[ScrubReport; 1]>::try_from(reports).expect("one device");
        report
    }

    fn attention(&self, at: usize) -> (Health, Vec<String>) {
        let status: StatusReport = self.ask(at, Command::Status);
        (status.health, status.groups[0].attention.clone())
    }

    /// What a client reads.
    fn read(&self, block: u64) -> Result<Vec<u8>, ObjectError> {
        let (at, object) = (self.copies[0], self.object);
        let objects = self.node(at).objects().clone();
        self.on(at, async move {
            let range = SectorRange::new(block * BLOCK_SECTORS, BLOCK_SECTORS);
            objects.read(object, range).await.map(|data| data.payload.to_vec())
        })
    }
}

fn content(block: u64) -> Vec<u8> {
    (block << 32 | 0xABCD).to_le_bytes().repeat(512)
}

/// Found, repaired, not repaired, not read.
fn counts(report: &ScrubReport) -> (u64, u64, u64, u64) {
    let unrepaired = report.unrepaired_blocks;
    (report.bad_blocks, report.repaired_blocks, unrepaired, report.read_errors)
}

#[test]
fn what_rotted_is_repaired_by_a_pass_without_clients() {
    // The component at the owner's host, and the one that is not.
    for (seed, copy) in [(1, 0), (2, 1)] {
        let cluster = Cluster::new(seed, ScrubOptions::default());
        let at = cluster.copies[copy];
        let clean = cluster.scrub(at);
        assert_eq!((clean.verified_blocks, counts(&clean)), (BLOCKS, (0, 0, 0, 0)));
        assert_eq!(cluster.attention(at), (Health::Green, Vec::new()));
        [0, 1, 30].into_iter().for_each(|block| cluster.rot(at, block));
        let offset = cluster.place(at, 9);
        let bad = DiskFault::BadRange { offset, len: 4096 };
        cluster.world.disk_error(cluster.machines[at].key, "capacity", bad);

        let dirty = cluster.scrub(at);
        assert_eq!(counts(&dirty), (4, 4, 0, 1), "seed {seed}");
        let (health, attention) = cluster.attention(at);
        assert_eq!(health, Health::Green);
        assert!(matches!(&attention[..], [line] if line.contains("on capacity")), "{attention:?}");
        cluster.to_capacity();
        let again = cluster.scrub(at);
        assert_eq!(again.verified_blocks, dirty.verified_blocks + BLOCKS, "seed {seed}");
        assert_eq!(counts(&again), (4, 4, 0, 1), "seed {seed}");
        // On the medium itself; nobody has read it through the volume.
        [0, 1, 9, 30].into_iter().for_each(|block| assert!(cluster.place(at, block) > 0));
        cluster.scrub(at);
        assert_eq!(cluster.attention(at).1, Vec::<String>::new(), "two clean passes");
    }
}

#[test]
fn what_rotted_on_all_copies_is_counted_and_nothing_is_made_up() {
    let cluster = Cluster::new(3, ScrubOptions::default());
    let [first, second] = cluster.copies;
    // Side by side: one is lost, the others have a good copy each.
    [4, 5].into_iter().for_each(|block| cluster.rot(first, block));
    [5, 6].into_iter().for_each(|block| cluster.rot(second, block));
    for at in [first, second] {
        assert_eq!(counts(&cluster.scrub(at)), (2, 1, 1, 0));
        let (health, attention) = cluster.attention(at);
        assert_eq!(health, Health::Yellow);
        assert!(attention[0].contains("could not repair 1 block(s) of 4 KiB on capacity"));
    }
    assert_eq!(cluster.read(5), Err(ObjectError::Io), "the lost block");
    [4, 6].into_iter().for_each(|block| assert_eq!(cluster.read(block), Ok(content(block))));
    // Written again, as from a backup, all is well.
    cluster.write_all();
    cluster.to_capacity();
    for at in [first, second] {
        assert_eq!(counts(&cluster.scrub(at)), (2, 1, 0, 0));
        assert_eq!(cluster.attention(at).0, Health::Green);
    }
    assert_eq!(cluster.read(5), Ok(content(5)));
}

#[test]
fn passes_come_by_themselves_and_stop_by_order() {
    let (first_after, period) = (Duration::from_secs(60), Some(Duration::from_secs(100)));
    let cluster = Cluster::new(4, ScrubOptions { first_after, period });
    let at = cluster.copies[0];
    assert_eq!(cluster.report(at).last_pass_seconds, None);
    cluster.world.run_for(Duration::from_secs(90));
    let passed = cluster.report(at);
    assert_eq!((passed.state.as_str(), passed.verified_blocks), ("idle", BLOCKS));
    assert!(passed.next_pass_seconds.is_some_and(|seconds| seconds <= 100), "{passed:?}");
    let _: Vec<ScrubReport> = cluster.ask(at, Command::ScrubPause);
    cluster.rot(at, 2);
    cluster.world.run_for(Duration::from_secs(500));
    let paused = cluster.report(at);
    assert_eq!((paused.state.as_str(), paused.bad_blocks), ("paused", 0));
    // As slow as it gets: 40 blocks in two steps.
    let _: Vec<ScrubReport> =
        cluster.ask(at, Command::ScrubStart { bytes_per_second: Some(64 << 10) });
    cluster.world.run_for(Duration::from_secs(1));
    let running = cluster.report(at);
    assert_eq!((running.state.as_str(), running.bad_blocks), ("running", 1), "{running:?}");
    assert_eq!(running.verified_blocks, BLOCKS + 32, "faster than its rate");
    let _: Vec<ScrubReport> = cluster.ask(at, Command::ScrubPause);
    cluster.world.run_for(Duration::from_secs(50));
    assert_eq!(cluster.report(at).verified_blocks, BLOCKS + 32, "paused within a pass");
    assert_eq!(cluster.report(at).progress, Some(0.0));
    assert_eq!(counts(&cluster.scrub(at)), (1, 1, 0, 0));
}

#[test]
fn a_pass_goes_on_after_a_restart_and_reaches_the_end() {
    let first_after = Duration::from_secs(60);
    let options = ScrubOptions { first_after, period: Some(HOUR * 1000) };
    let cluster = Cluster::new(5, options);
    let at = cluster.copies[1];
    assert_eq!(cluster.report(at).oldest_unverified_seconds, None);
    cluster.world.run_for(Duration::from_secs(100));
    let before = cluster.report(at);
    assert!(before.last_pass_seconds_ago.is_some(), "{before:?}");
    cluster.world.run_for(HOUR);
    let slow = Command::ScrubStart { bytes_per_second: Some(64 << 10) };
    let _: Vec<ScrubReport> = cluster.ask(at, slow);
    cluster.world.run_for(Duration::from_secs(1));
    assert_eq!(cluster.report(at).verified_blocks, BLOCKS + 32, "one of two steps");
    let _: Vec<ScrubReport> = cluster.ask(at, Command::ScrubPause);
    cluster.world.run_for(Duration::from_secs(1));

    let machine = &cluster.machines[at];
    cluster.world.kill(machine.key);
    drop(machine.node.borrow_mut().take());
    machine.boot(&cluster.world, options, false);
    assert!(cluster.world.run_until(HOUR, || machine.node.borrow().is_some()), "it starts");
    // What a crash brings back into the log is not looked at on capacity.
    cluster.to_capacity();
    let idle = cluster.report(at);
    let age = idle.oldest_unverified_seconds.expect("known from the directory");
    assert!(age >= 3600, "since the beginning of the pass that reached its end: {age}");
    cluster.world.run_for(Duration::from_secs(120));
    let after = cluster.report(at);
    assert_eq!(after.state, "idle");
    assert_eq!(after.verified_blocks, BLOCKS - 32, "only what was left");
    let age = after.oldest_unverified_seconds.expect("two whole passes");
    assert!((120..300).contains(&age), "since the beginning in the first run: {age}");
}
