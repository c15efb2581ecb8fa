// SPDX-License-Identifier: Apache-2.0
//! Whole hosts that run out of space, without other faults.

mod access;
mod affinity;
mod answers;
mod balance;
mod caches;
mod domains;
mod hanging;
mod kinds;
mod labels;
pub(in crate::cluster) mod life;
mod links;
mod maintenance;
mod places;
mod policies;
mod rebuild;
mod recovery;
mod redundancy;
mod releases;
mod removal;
mod repair;
mod reserves;
mod resync;
mod rotten;
mod shards;
mod stripes;
mod writers;

use super::*;
use directory::Writers;
use diskgroup::GroupOptions;
use object::ObjectOptions;
use operator::{GroupDetail, Health, NewVolume, SpaceReport, StatusReport, VolumeReport};
use sim::DiskFault;
use std::time::Duration;
use volume::{Device, VolumeError};

pub(super) const MIB: u64 = 1 << 20;
/// Time for destage, discards, and messages to owners, until freed space can be taken again.
const SETTLE: Duration = Duration::from_secs(20);

pub(super) fn start(seed: u64) -> Cluster {
    start_with(seed, 1)
}

/// A cluster of three hosts, each with so many groups.
pub(super) fn start_with(seed: u64, groups: u32) -> Cluster {
    start_hosts(seed, 3, groups)
}

pub(super) fn start_hosts(seed: u64, hosts: u32, groups: u32) -> Cluster {
    start_pairs(seed, hosts, groups, 0)
}

/// On so many machines two hosts.
pub(super) fn start_pairs(seed: u64, hosts: u32, groups: u32, pairs: u32) -> Cluster {
    let cluster = Cluster::new(&calm(seed, hosts, groups, pairs), None);
    cluster.boot_directory();
    (0..cluster.machines.len()).for_each(|index| cluster.boot(index, |_, _| async {}));
    wait_for_hosts(&cluster);
    cluster
}

/// So many hosts, on so many machines two of them, to which nothing happens by itself.
fn calm(seed: u64, hosts: u32, groups: u32, pairs: u32) -> Plan {
    let mut plan = Plan { pairs, ..Plan::of_seed(seed) };
    (plan.hosts, plan.groups, plan.devices, plan.drift_ppm) = (hosts, groups, 1, Vec::new());
    plan.sizes = CreateSizes { cache: 24 * MIB, capacity: 160 * MIB };
    (plan.group, plan.object) = (GroupOptions::default(), ObjectOptions::default());
    (plan.directory, plan.quirks) = Default::default();
    plan
}

pub(super) fn wait_for_hosts(cluster: &Cluster) {
    let is_up = || (0..cluster.machines.len()).all(|index| cluster.node(index).is_some());
    assert!(cluster.world.run_until(Duration::from_secs(60), is_up), "the hosts start");
}

impl Cluster {
    pub(super) fn on<T: 'static>(
        &self,
        index: usize,
        work: impl AsyncFnOnce(Env) -> T + 'static,
    ) -> T {
        let env = self.world.env(self.machines[index].key).expect("it runs");
        let result = Rc::new(RefCell::new(None));
        let (place, inner) = (Rc::clone(&result), env.clone());
        let task = env.spawn("test", async move {
            let value = work(inner).await;
            *place.borrow_mut() = Some(value);
        });
        let is_done = self.world.run_until(Duration::from_secs(600), || result.borrow().is_some());
        assert!(is_done, "it ends");
        drop(task);
        result.take().expect("it is done")
    }

    pub(super) fn ask(&self, index: usize, command: Command) -> Result<serde_json::Value, String> {
        match self.answer_to(index, command, Duration::from_secs(600)) {
            Some(CommandReply::Ok(value)) => Ok(value),
            Some(CommandReply::Error(failure)) => Err(failure.message),
            None => panic!("host{} does not answer", index + 1),
        }
    }

    pub(super) fn create(&self, name: &str, mib: u64, reserve_percent: u8) -> Result<(), String> {
        self.create_on(3, name, mib, reserve_percent).map(drop)
    }

    /// Creates a volume. Returns the names of the hosts that got its copies.
    pub(super) fn create_on(
        &self,
        hosts: u8,
        name: &str,
        mib: u64,
        reserve_percent: u8,
    ) -> Result<Vec<String>, String> {
        let (size_bytes, ftt) = (mib * MIB, hosts - 1);
        let create = Command::VolumeCreate(NewVolume {
            reserve_percent,
            writers: Some(Writers::Any),
            ..NewVolume::new(name, size_bytes, ftt)
        });
        let made: VolumeReport = serde_json::from_value(self.ask(0, create)?).expect("a volume");
        Ok(made.components.into_iter().map(|component| component.host).collect())
    }

    pub(super) fn status(&self, index: usize) -> StatusReport {
        let status = self.ask(index, Command::Status).expect("a status");
        serde_json::from_value(status).expect("a status")
    }

    fn space(&self, index: usize) -> SpaceReport {
        let status = self.status(index);
        let device = &status.groups[0].devices[1];
        let space = device.space.expect("of a capacity device");
        let chunks = space.allocated_bytes + space.reserved_bytes + space.promised_bytes;
        let rest = space.freeing_bytes + space.free_bytes + space.metadata_bytes;
        assert_eq!(chunks + rest + space.unusable_bytes, device.size_bytes);
        space
    }

    /// Writes one block of each MiB until there is no space. Returns how many were written.
    pub(super) fn fill(&self, name: &'static str, from: u64, to: u64) -> u64 {
        let node = self.node(0).expect("it runs");
        self.on(0, async move |env| {
            let device = node.exports().attach(name).expect("a volume");
            for at in from..to {
                let mut block = env.buf(4096);
                block.fill(9);
                match device.write(at * MIB, block.freeze()).await {
                    Ok(()) => {}
                    Err(VolumeError::Full) => return at - from,
                    Err(error) => panic!("MiB {at} of {name}: {error}"),
                }
            }
            to - from
        })
    }
}

#[test]
fn a_full_cluster_says_so_keeps_its_promises_and_takes_what_is_given_back() {
    let cluster = start(1);
    cluster.create("thin", 1024, 0).expect("there is room");
    cluster.create("kept", 64, 50).expect("there is room");
    let promised = cluster.space(1).promised_bytes / MIB;
    assert_eq!(promised, u64::from(object::reserve_chunks(64 * MIB / 512, 50)));

    let filled = cluster.fill("thin", 0, 1024);
    assert!((20..130).contains(&filled), "{filled} MiB");
    assert!(cluster.fill("kept", 0, 64) >= 32, "half of it is kept for it");
    for index in 0..3 {
        let status = cluster.status(index);
        let device = &status.groups[0].devices[1];
        assert_eq!(device.state, "full");
        assert_eq!(status.health, Health::Yellow, "it takes no new volumes");
        let [line] = status.groups[0].attention.as_slice() else { panic!("{status:?}") };
        assert!(line.contains(&device.path) && line.contains(&status.groups[0].id), "{line}");
    }
    let refused = cluster.create("more", 1, 0).expect_err("too full");
    assert!(refused.contains("none on host1, host2, host3 (every device is 90 %"), "{refused}");

    let node = cluster.node(0).expect("it runs");
    cluster.on(0, async move |env| {
        let device = node.exports().attach("thin").expect("a volume");
        let mut block = env.buf(8192);
        block.fill(7);
        device.write(3 * MIB, block.freeze()).await.expect("an overwrite");
        let read = device.read(3 * MIB, 8192).await.expect("a read");
        assert!(read.iter().all(|piece| piece.iter().all(|byte| *byte == 7)));
        device.write_zeroes(3 * MIB, 4096).await.expect("zeros");
        device.discard(0, 1024 * MIB).await.expect("a discard");
    });
    cluster.world.run_for(SETTLE);
    assert_eq!(cluster.fill("thin", 1024 - filled, 1024), filled, "what was discarded is usable");

    cluster.delete("thin");
    cluster.world.run_for(SETTLE);
    cluster.create("more", 1, 0).expect("there is room again");
    assert!(cluster.is_green());
}

#[test]
fn thin_volumes_spread_over_hosts_before_anything_is_written() {
    let cluster = start(8);
    let mut seconds = [0; 2];
    for number in 0..6 {
        let hosts = cluster.create_on(2, &format!("vm{number}"), 40, 0).expect("there is room");
        assert!(hosts.contains(&"host1".to_owned()), "where it is made: {hosts:?}");
        let found = ["host2", "host3"].map(|host| u32::from(hosts.contains(&host.to_owned())));
        seconds = [seconds[0] + found[0], seconds[1] + found[1]];
    }
    assert_eq!(seconds, [3, 3]);
}

#[test]
fn new_volumes_go_round_a_host_with_a_group_that_is_out_of_service() {
    let cluster = start_with(13, 2);
    let close = Command::GroupClose { group: "cache0".to_owned(), stop_volumes: false };
    cluster.ask(1, close).expect("nothing is on it");
    for number in 0..4 {
        let hosts = cluster.create_on(2, &format!("vm{number}"), 40, 0).expect("there is room");
        assert!(!hosts.contains(&"host2".to_owned()), "{hosts:?}");
    }
    let refused = cluster.create("everywhere", 40, 0).expect_err("one host too few");
    assert!(refused.contains("none on host2 (") && refused.contains("out of service"), "{refused}");
    cluster
        .ask(1, Command::GroupOpen { group: "cache0".to_owned(), devices: None })
        .expect("opens");
    cluster.create("everywhere", 40, 0).expect("there is room");
}

#[test]
fn a_group_that_opens_while_its_hosts_record_is_written_is_in_the_record() {
    for seed in 30..34 {
        let cluster = start_with(seed, 1);
        let (host, directory) = (cluster.machines[1].key, cluster.directory);
        cluster.world.partition(host, directory, true);
        let close = Command::GroupClose { group: "cache0".to_owned(), stop_volumes: false };
        cluster.ask(1, close).expect("nothing is on it");
        let open = Command::GroupOpen { group: "cache0".to_owned(), devices: None };
        cluster.ask(1, open).expect("it opens");
        cluster.world.partition(host, directory, false);
        cluster.world.run_for(Duration::from_secs(3));
        cluster.create("everywhere", 40, 0).expect("there is room on all hosts");
    }
}

#[test]
fn a_volume_says_why_a_copy_is_missing() {
    let cluster = start(14);
    cluster.create("db", 64, 0).expect("there is room");
    assert_eq!(cluster.fill("db", 0, 3), 3);
    let close = Command::GroupClose { group: "cache0".to_owned(), stop_volumes: false };
    let begun = cluster.world.now();
    cluster.ask(1, close).expect("others have it");
    assert!(cluster.world.now().since(begun) < Duration::from_secs(1), "nobody holds its devices");
    let why = |host: &str| {
        let volume = cluster.status(0).volumes.remove(0);
        let component = volume.components.into_iter().find(|c| c.host == host);
        component.expect("it has a copy there").why.unwrap_or_default()
    };
    cluster.world.run_for(Duration::from_secs(20));
    assert!(why("host2").contains("of host2 is out of service"), "{}", why("host2"));
    cluster
        .ask(1, Command::GroupOpen { group: "cache0".to_owned(), devices: None })
        .expect("opens");
    cluster.take_down(2, false);
    cluster.world.run_for(Duration::from_secs(20));
    assert_eq!([why("host1"), why("host2"), why("host3")], ["", "", "host3 is down"]);
}

#[test]
fn a_reserve_that_does_not_fit_everywhere_is_refused_and_leaves_nothing() {
    let cluster = start(2);
    let refused = cluster.create("large", 1024, 100).expect_err("more than there is");
    assert!(refused.contains("the reserve of 1GiB"), "{refused}");
    assert!((0..3).all(|index| cluster.space(index).promised_bytes == 0));
    cluster.create("large", 1024, 5).expect("so much there is");
    let id = cluster.status(1).groups[0].id.clone();
    let detail = cluster.ask(1, Command::GroupShow { group: id }).expect("a group");
    let detail: GroupDetail = serde_json::from_value(detail).expect("a group");
    let [held] = detail.components.as_slice() else { panic!("{detail:?}") };
    assert_eq!((held.volume.as_deref(), held.used_bytes), (Some("large"), 0));
    assert_eq!(held.reserve_bytes, cluster.space(1).promised_bytes);
    assert_eq!(held.size_bytes, 1024 * MIB);
}

#[test]
fn new_devices_get_the_reserves_of_the_components_that_come_back() {
    let cluster = start(3);
    cluster.create("kept", 64, 50).expect("there is room");
    assert_eq!(cluster.fill("kept", 0, 3), 3);
    let before = cluster.space(1);
    let cache = cluster.config(1).groups[0].cache.clone();
    cluster.replace_devices(1, vec![cache], New::All);
    cluster.boot(1, |_, _| async {});
    wait_for_hosts(&cluster);
    assert_eq!(cluster.space(1).promised_bytes, 0);
    let is_back = || cluster.node(1).is_some_and(|node| !node.groups()[0].components().is_empty());
    assert!(cluster.world.run_until(Duration::from_secs(300), is_back), "it is made again");
    cluster.world.run_for(Duration::from_secs(60));
    let after = cluster.space(1);
    assert_eq!(after.promised_bytes, before.promised_bytes);
    // What comes back in large pieces is staged, beside what is set aside for it.
    let held = |s: SpaceReport| s.allocated_bytes + s.reserved_bytes;
    let expected = held(before)..=2 * held(before);
    assert!(expected.contains(&held(after)), "{before:?}, {after:?}");
}

impl Cluster {
    fn change(&self, index: usize, name: &str, reserve_percent: u8) -> Result<(), String> {
        self.ask(index, Command::VolumeChange { name: name.into(), reserve_percent }).map(drop)
    }

    /// Chunks that a host reserves for its components, those included that they already have.
    fn kept(&self, index: usize) -> u64 {
        let id = self.status(index).groups[0].id.clone();
        let detail = self.ask(index, Command::GroupShow { group: id }).expect("a group");
        let detail: GroupDetail = serde_json::from_value(detail).expect("a group");
        detail.components.iter().map(|held| held.reserve_bytes / MIB).sum()
    }

    fn kept_by_all(&self) -> Vec<u64> {
        (0..3).map(|index| self.kept(index)).collect()
    }

    fn percent(&self, name: &str) -> u8 {
        let volumes = self.status(0).volumes;
        volumes.iter().find(|v| v.name == name).expect("it exists").reserve_percent
    }
}

fn part(mib: u64, percent: u8) -> u64 {
    object::reserve_chunks(mib * MIB / 512, percent).into()
}

impl Cluster {
    fn device_state(&self, index: usize, path: &str) -> String {
        let status = self.status(index);
        let device = status.groups[0].devices.iter().find(|device| device.path == path);
        device.expect("a device").state.clone()
    }

    /// Runs until a device is in this state. Returns how many seconds that took.
    fn until_device(&self, index: usize, path: &str, state: &str) -> u64 {
        for seconds in 0..300 {
            if self.device_state(index, path) == state {
                return seconds;
            }
            self.world.run_for(Duration::from_secs(1));
        }
        panic!("{path} of host{} is {}", index + 1, self.device_state(index, path));
    }

    /// Reads the blocks that `fill` wrote, one after the other. Returns how long the longest read
    /// took, in milliseconds.
    fn read_filled(&self, name: &'static str, count: u64) -> u128 {
        let node = self.node(0).expect("it runs");
        self.on(0, async move |env| {
            let device = node.exports().attach(name).expect("a volume");
            let mut longest = 0;
            for at in 0..count {
                let begin = env.now();
                let read = device.read(at * MIB, 4096).await.expect("a read");
                assert!(read.iter().all(|piece| piece.iter().all(|byte| *byte == 9)));
                longest = longest.max(env.now().since(begin).as_millis());
                env.sleep(Duration::from_millis(100)).await;
            }
            longest
        })
    }

    fn fault(&self, index: usize, device: &str, fault: DiskFault) {
        self.world.disk_error(self.machines[index].key, device, fault);
    }

    /// Destages everything that was written, so that reads go to capacity.
    fn settle_on_capacity(&self) {
        for node in (0..3).filter_map(|index| self.node(index)) {
            node.groups().iter().for_each(|group| group.drain_buffer(true));
        }
        self.world.run_for(SETTLE);
    }

    fn is_green(&self) -> bool {
        self.status(0).health == Health::Green
    }
}

#[test]
fn reads_leave_a_slow_device_and_its_state_says_why() {
    let cluster = start(7);
    cluster.create("db", 64, 0).expect("there is room");
    assert_eq!(cluster.fill("db", 0, 20), 20);
    cluster.settle_on_capacity();
    for _ in 0..40 {
        assert!(cluster.read_filled("db", 20) < 20);
    }
    cluster.fault(0, "capacity0.0", DiskFault::Slow(3000));
    assert!(cluster.read_filled("db", 20) > 100, "its owner reads what it has itself");
    let mut rounds = 0;
    while cluster.device_state(0, "capacity0.0") != "slow" {
        rounds += 1;
        assert!(rounds < 100, "it is never called slow");
        cluster.read_filled("db", 20);
    }
    assert!(cluster.read_filled("db", 20) < 20, "others have it too, and are not slow");
    let status = cluster.status(0);
    let [line] = status.groups[0].attention.as_slice() else { panic!("{status:?}") };
    for part in ["capacity device capacity0.0", "answers late", "usually", "of db,", "disk replace"]
    {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!((status.health, status.groups[0].health), (Health::Yellow, Health::Yellow));
    assert_eq!(status.volumes[0].health, Health::Green, "nothing was taken out of service");
    cluster.fault(0, "capacity0.0", DiskFault::Clear);
    let took = cluster.until_device(0, "capacity0.0", "ok");
    assert!((90..200).contains(&took), "{took} s");
    assert!(cluster.status(0).groups[0].attention.is_empty() && cluster.is_green());
}

#[test]
fn a_group_that_takes_no_writes_is_yellow_by_itself() {
    let cluster = start(15);
    cluster.create("db", 64, 0).expect("there is room");
    assert_eq!(cluster.fill("db", 0, 3), 3);
    assert!(cluster.is_green());
    cluster.fault(0, "cache0", DiskFault::Freeze(true));
    cluster.world.run_for(Duration::from_secs(1));
    assert_eq!(cluster.fill("db", 0, 3), 3);
    cluster.world.run_for(Duration::from_secs(60));
    let delete = Command::VolumeDelete { name: "db".to_owned(), for_good: true };
    cluster.ask(1, delete).expect("deletion works");
    cluster.world.run_for(SETTLE);
    let status = cluster.status(0);
    assert!(status.volumes.is_empty() && status.alarms.is_empty(), "{status:?}");
    assert!(status.groups[0].is_open && status.groups[0].state.contains("takes no writes"));
    assert_eq!((status.health, status.groups[0].health), (Health::Yellow, Health::Yellow));
    assert_eq!(cluster.status(1).health, Health::Green, "each host speaks for its own groups");
}

#[test]
fn a_group_is_extended_while_its_devices_are_busy() {
    let cluster = start(12);
    cluster.create("db", 64, 0).expect("there is room");
    for device in ["cache0", "capacity0.0"] {
        cluster.fault(0, device, DiskFault::Slow(30));
    }
    let env = cluster.world.env(cluster.machines[0].key).expect("it runs");
    let device = cluster.node(0).expect("it runs").exports().attach("db").expect("a volume");
    let load = |part: u64| {
        let (inner, device) = (env.clone(), device.clone());
        env.spawn("load", async move {
            for at in 0_u64.. {
                let mut block = inner.buf(4096);
                block.fill(9);
                let offset = (at * 8 + part) * 7 * 4096 % (64 * MIB);
                device.write(offset, block.freeze()).await.expect("a write");
            }
        })
    };
    let _load: Vec<env::Task> = (0..8).map(load).collect();
    for number in 1..6 {
        cluster.world.run_for(Duration::from_secs(3));
        let (group, device) = ("cache0".to_owned(), format!("capacity0.{number}"));
        let (create_bytes, wipe, ignore_device_kind) = (Some(64 * MIB), false, false);
        let extend = Command::GroupExtend { group, device, create_bytes, wipe, ignore_device_kind };
        let begun = cluster.world.now();
        cluster.ask(0, extend).unwrap_or_else(|error| panic!("number {number}: {error}"));
        let took = cluster.world.now().since(begun);
        assert!(took < Duration::from_secs(4), "{took:?}: what is in flight ends sooner");
    }
}

#[test]
fn a_device_that_does_not_answer_stops_its_group_and_opens_it_when_it_has() {
    for (seed, device) in [(9, "capacity0.0"), (11, "cache0")] {
        let cluster = start(seed);
        cluster.create("db", 64, 0).expect("there is room");
        assert_eq!(cluster.fill("db", 0, 20), 20);
        for round in 0..4 {
            cluster.settle_on_capacity();
            cluster.fault(0, device, DiskFault::Freeze(true));
            // Everything goes on, though late, because the copies of other hosts answer.
            let longest = cluster.read_filled("db", 20);
            assert!(longest < 40_000, "{longest} ms");
            assert_eq!(cluster.fill("db", 0, 20), 20);
            cluster.world.run_for(Duration::from_secs(60));
            let state = cluster.status(0).groups[0].state.clone();
            assert!(state.contains(&format!("{device}: no answer to an I/O for 30 s")), "{state}");
            assert_eq!(cluster.device_state(0, device), "stuck");
            assert!(!cluster.is_green());
            cluster.fault(0, device, DiskFault::Clear);
            cluster.world.run_for(Duration::from_secs(60));
            let state = cluster.status(0).groups[0].state.clone();
            assert_eq!(state == "ok", round < 3, "round {round}: {state}");
        }
        // The group stopped too often within an hour. Now only an operator can open it.
        let id = cluster.status(0).groups[0].id.clone();
        let open = Command::GroupOpen { group: id, devices: None };
        cluster.ask(0, open).expect("it answers");
        for _ in 0..900 {
            if cluster.is_green() {
                break;
            }
            cluster.world.run_for(Duration::from_secs(1));
        }
        assert!(cluster.is_green(), "its copies are back");
        assert!(cluster.read_filled("db", 20) < 1000);
    }
}
