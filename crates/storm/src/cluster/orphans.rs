// SPDX-License-Identifier: Apache-2.0
//! Whole hosts with a directory that does not say what it said before.

use super::tests::{MIB, start, wait_for_hosts};
use super::*;
use directory::Backend;
use directory::store::Snapshot;
use volume::Device;

/// Until everything that cleans up has looked several times.
const LONG: Duration = Duration::from_secs(400);

impl Cluster {
    fn backup(&self) -> Snapshot {
        self.records.load().expect("it is in memory")
    }

    /// The directory is started with what it held before.
    fn go_back(&self, backup: Snapshot) {
        self.world.kill(self.directory);
        self.records.go_back(backup);
        self.boot_directory();
    }

    fn run(&self, time: Duration) {
        let never = self.world.run_until(time, || false);
        assert!(!never, "it is never true");
    }

    /// Components on all hosts that run.
    fn held(&self) -> usize {
        let nodes = (0..self.machines.len()).filter_map(|index| self.node(index));
        let groups = nodes.flat_map(|node| node.groups());
        groups.map(|group| group.components().len()).sum()
    }

    fn delete(&self, name: &str) {
        self.ask(0, Command::VolumeDelete { name: name.to_owned() }).expect("deleted");
    }

    fn write(&self, name: &'static str, fill: u8) {
        let node = self.node(0).expect("it runs");
        self.on(0, async move |env| {
            let device = node.exports().attach(name).expect("a volume");
            let mut block = env.buf(4096);
            block.fill(fill);
            device.write(MIB, block.freeze()).await.expect("it is written");
        });
    }
}

#[test]
fn what_a_backup_of_before_does_not_know_is_kept() {
    let cluster = start(31);
    cluster.create("old", 8, 0).expect("there is room");
    cluster.write("old", 1);
    let backup = cluster.backup();
    cluster.create("young", 8, 0).expect("there is room");
    cluster.write("young", 2);
    assert_eq!(cluster.held(), 6);
    cluster.go_back(backup);
    cluster.run(LONG);
    assert_eq!(cluster.held(), 6, "nothing says that the younger volume was deleted");
    cluster.take_down(1, true);
    cluster.boot(1, |_, _| async {});
    wait_for_hosts(&cluster);
    cluster.run(LONG);
    assert_eq!(cluster.held(), 6, "nor after a restart");
}

#[test]
fn a_deleted_volume_goes_at_once_and_on_a_host_that_was_down_when_it_is_back() {
    let cluster = start(32);
    cluster.create("web", 8, 0).expect("there is room");
    cluster.write("web", 1);
    cluster.take_down(2, true);
    cluster.run(Duration::from_secs(20));
    cluster.delete("web");
    cluster.run(Duration::from_secs(5));
    assert_eq!(cluster.held(), 0, "its hosts delete at once what a record says is deleted");
    cluster.boot(2, |_, _| async {});
    wait_for_hosts(&cluster);
    cluster.run(Duration::from_secs(60));
    assert_eq!(cluster.held(), 0, "so does the one that was down");
    let entries = cluster.backup().entries;
    let left = entries.iter().filter(|(key, ..)| key.starts_with(directory::DELETED_PREFIX));
    assert_eq!(left.count(), 0, "nobody has anything of it any more");
}
