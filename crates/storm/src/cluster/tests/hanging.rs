// SPDX-License-Identifier: Apache-2.0
//! A device that hangs while its group opens, closes or discards holds up that group alone.

use super::*;
use env::{Hardware, Task};
use sim::DeviceCall;
use std::ops::Range;

/// Far longer than any time-out.
const LATE: Duration = Duration::from_secs(4000);

/// The longest write or read of a load since this was last read.
type Longest = Rc<Cell<Duration>>;

/// The groups of host 1: the one with the volume's copy, and those that hold nothing.
fn groups(cluster: &Cluster) -> (u32, Vec<u32>) {
    let node = cluster.node(0).expect("it runs");
    let number = |path: &str| path.trim_start_matches("cache").parse().expect("a number");
    let (used, free): (Vec<_>, Vec<_>) =
        node.groups().into_iter().partition(|group| !group.components().is_empty());
    let [used] = used.as_slice() else { panic!("one group has the volume's copy") };
    let free = free.iter().map(|group| number(group.cache_path()));
    (number(used.cache_path()), free.collect())
}

impl Cluster {
    fn calls_hang(&self, devices: &[String], calls: &[DeviceCall]) {
        for device in devices {
            for call in calls {
                self.world.call_takes(self.machines[0].key, device, *call, LATE);
            }
        }
    }

    fn are_well(&self, devices: &[String]) {
        devices.iter().for_each(|device| self.fault(0, device, DiskFault::Clear));
    }

    /// Gives commands to host 1, one after the other, and does not wait for their end.
    fn order(&self, commands: Vec<Command>) -> Task {
        let env = self.world.env(self.machines[0].key).expect("it runs");
        let inner = env.clone();
        env.spawn("operator", async move {
            for command in commands {
                let _ = ask(&inner, command).await;
            }
        })
    }

    /// Writes and reads `db` on host 1 without end.
    fn load(&self) -> (Task, Longest) {
        let env = self.world.env(self.machines[0].key).expect("it runs");
        let device = self.node(0).expect("it runs").exports().attach("db").expect("a volume");
        let longest = Longest::default();
        let (inner, most) = (env.clone(), Rc::clone(&longest));
        let task = env.spawn("load", async move {
            for at in (0..64).cycle() {
                let begun = inner.now();
                let mut block = inner.buf(4096);
                block.fill(9);
                device.write(at * MIB, block.freeze()).await.expect("a write");
                device.read(at * MIB, 4096).await.expect("a read");
                most.set(most.get().max(inner.now().since(begun)));
                inner.sleep(Duration::from_millis(5)).await;
            }
        });
        (task, longest)
    }

    /// Checks that everything on all other groups goes on and takes no longer than usual.
    fn others_go_on(&self, group: u32, longest: &Longest) {
        longest.take();
        let GroupConfig { cache, .. } = self.group(group);
        let begun = self.world.now();
        self.status(0);
        let close = Command::GroupClose { group: cache.clone(), stop_volumes: false };
        self.ask(0, close).expect("it closes");
        self.ask(0, Command::GroupOpen { group: cache, devices: None }).expect("it opens");
        let took = self.world.now().since(begun);
        assert!(took < Duration::from_secs(2), "another group waited for {took:?}");
        self.world.run_for(Duration::from_secs(5));
        assert!(longest.get() > Duration::ZERO, "the load goes on");
        assert!(longest.take() < Duration::from_millis(50), "a write waited");
    }

    fn until_green(&self, seconds: Range<u64>) {
        let begun = self.world.now();
        while !self.is_green() {
            let took = self.world.now().since(begun).as_secs();
            assert!(took < seconds.end, "{:?}", self.status(0).groups);
            self.world.run_for(Duration::from_secs(1));
        }
        assert!(self.world.now().since(begun).as_secs() >= seconds.start);
    }

    fn state_of(&self, group: u32) -> String {
        let GroupConfig { cache, .. } = self.group(group);
        let groups = self.status(0).groups;
        let of = groups.into_iter().find(|group| group.devices[0].path == cache);
        of.expect("a group").state
    }
}

fn close_and_open(cluster: &Cluster, group: u32) -> Vec<Command> {
    let GroupConfig { cache, .. } = cluster.group(group);
    let close = Command::GroupClose { group: cache.clone(), stop_volumes: true };
    vec![close, Command::GroupOpen { group: cache, devices: None }]
}

#[test]
fn a_group_that_hangs_while_it_closes_or_opens_holds_up_itself_alone() {
    for (seed, calls) in
        [(20, [DeviceCall::Open]), (21, [DeviceCall::Close]), (22, [DeviceCall::Look])]
    {
        let cluster = start_with(seed, 3);
        cluster.create("db", 64, 0).expect("there is room");
        let (_load, longest) = cluster.load();
        let (_, free) = groups(&cluster);
        let [hangs, other] = free[..] else { panic!("three groups") };
        let GroupConfig { cache, capacity, .. } = cluster.group(hangs);
        let devices: Vec<_> = std::iter::once(cache).chain(capacity).collect();
        cluster.calls_hang(&devices, &calls);
        let _order = cluster.order(close_and_open(&cluster, hangs));
        for wait in [1, 10, 50, 100] {
            cluster.world.run_for(Duration::from_secs(wait));
            cluster.others_go_on(other, &longest);
        }
        let state = cluster.state_of(hangs);
        let said = match calls {
            [DeviceCall::Open] => "no answer from the device",
            [DeviceCall::Close] => "in use",
            _ => "ok",
        };
        assert!(state.contains(said), "{calls:?}: {state}");
        cluster.are_well(&devices);
        cluster.until_green(0..120);
    }
}

#[test]
fn a_device_that_answers_no_read_while_its_group_opens_is_given_up() {
    let cluster = start_with(23, 3);
    cluster.create("db", 64, 0).expect("there is room");
    let (_load, longest) = cluster.load();
    let (_, free) = groups(&cluster);
    let [hangs, other] = free[..] else { panic!("three groups") };
    for device in [cluster.group(hangs).cache, cluster.group(hangs).capacity.remove(0)] {
        let [close, open] = &mut *close_and_open(&cluster, hangs) else { panic!("two") };
        cluster.ask(0, close.clone()).expect("it closes");
        cluster.fault(0, &device, DiskFault::Freeze(true));
        let _order = cluster.order(vec![open.clone()]);
        cluster.others_go_on(other, &longest);
        cluster.world.run_for(Duration::from_secs(60));
        let state = cluster.state_of(hangs);
        assert!(state.contains(&device) && state.contains("no answer"), "{state}");
        cluster.others_go_on(other, &longest);
        cluster.fault(0, &device, DiskFault::Clear);
        cluster.until_green(0..120);
    }
}

#[test]
fn a_host_starts_without_the_group_that_hangs_and_gets_it_when_it_answers() {
    let cluster = start_with(24, 2);
    cluster.create("db", 64, 0).expect("there is room");
    assert_eq!(cluster.fill("db", 0, 20), 20);
    let (_, free) = groups(&cluster);
    let hangs = free[0];
    let devices = [cluster.group(hangs).cache];
    for answers_after in [5, 20, 200] {
        cluster.take_down(0, false);
        cluster.calls_hang(&devices, &[DeviceCall::Open]);
        cluster.boot(0, |_, _| async {});
        cluster.world.run_for(Duration::from_secs(15));
        cluster.node(0).expect("it serves the others");
        assert!(cluster.read_filled("db", 20) < 1000);
        cluster.world.run_for(Duration::from_secs(answers_after));
        assert!(!cluster.is_green());
        cluster.are_well(&devices);
        cluster.until_green(0..60);
    }
}

#[test]
fn discards_that_hang_hold_up_their_device_alone() {
    let cluster = start_with(25, 2);
    cluster.create("db", 64, 0).expect("there is room");
    cluster.create("gone", 512, 0).expect("there is room");
    let on_group = |name: &str, group: u32| {
        let id = cluster.group(group).cache;
        let detail = cluster.ask(0, Command::GroupShow { group: id }).expect("a group");
        let detail: GroupDetail = serde_json::from_value(detail).expect("a group");
        detail.components.iter().any(|held| held.volume.as_deref() == Some(name))
    };
    let at = u32::from(on_group("gone", 1));
    assert!(on_group("gone", at) && !on_group("db", at), "each on a group of its own");
    assert!(cluster.fill("gone", 0, 60) == 60);
    cluster.settle_on_capacity();
    let capacity = cluster.group(at).capacity;
    cluster.world.call_takes(
        cluster.machines[0].key,
        &capacity[0],
        DeviceCall::Discard,
        Duration::from_secs(20),
    );
    let (_load, longest) = cluster.load();
    cluster
        .ask(0, Command::VolumeDelete { name: "gone".to_owned(), for_good: true })
        .expect("it is deleted");
    cluster.world.run_for(Duration::from_secs(15));
    assert!(longest.take() < Duration::from_millis(50), "a write waited");
    let _order = cluster.order(close_and_open(&cluster, at));
    cluster.world.run_for(Duration::from_secs(100));
    assert!(longest.take() < Duration::from_millis(50), "a write waited");
    cluster.are_well(&capacity);
    cluster.until_green(0..120);
}

#[test]
fn what_a_device_is_is_asked_beside_everything_else() {
    let cluster = start(26);
    let key = cluster.machines[0].key;
    let model = |name: &str| Hardware { is_rotational: Some(false), model: Some(name.to_owned()) };
    cluster.world.set_hardware(key, "capacity0.0", model("ACME 1"));
    let shown = || cluster.status(0).groups[0].devices[1].model.clone();
    assert_eq!(shown().as_deref(), Some("ACME 1"), "the first who looks is told");
    cluster.world.set_hardware(key, "capacity0.0", model("ACME 2"));
    cluster.world.run_for(Duration::from_secs(20));
    assert_eq!(shown().as_deref(), Some("ACME 2"), "another device stands there");

    // While a device hangs, its old description is shown, and nobody waits long for a new one.
    cluster.world.set_hardware(key, "capacity0.0", model("ACME 3"));
    cluster.calls_hang(&["cache0".to_owned(), "capacity0.0".to_owned()], &[DeviceCall::Look]);
    cluster.world.run_for(Duration::from_secs(20));
    let begun = cluster.world.now();
    assert_eq!(shown().as_deref(), Some("ACME 2"));
    let took = cluster.world.now().since(begun);
    assert!(took < Duration::from_millis(200), "the status waited for {took:?}");

    // A command that may refuse a device because of its kind does wait for the answer.
    let platters = Hardware { is_rotational: Some(true), model: None };
    cluster.world.set_hardware(key, "capacity0.1", platters);
    cluster.world.call_takes(key, "capacity0.1", DeviceCall::Look, Duration::from_secs(1));
    let (group, device) = ("cache0".to_owned(), "capacity0.1".to_owned());
    let (create_bytes, wipe, ignore_device_kind) = (Some(64 * MIB), false, false);
    let extend = Command::GroupExtend { group, device, create_bytes, wipe, ignore_device_kind };
    let refused = cluster.ask(0, extend).expect_err("an all-flash cluster");
    assert!(refused.contains("capacity0.1") && refused.contains("platters"), "{refused}");
}
