// SPDX-License-Identifier: Apache-2.0
//! Full devices: components that no record accounts for take the room that writes need. Hosts give
//! up some of them, but never the last copy.

use super::*;

/// Seconds, longer than the quarantine in which no orphan is given up.
const QUARANTINE: i64 = 8 * 24 * 3600;
/// Time in which hosts give up everything that they may give up at once.
const SOON: Duration = Duration::from_secs(60);

impl Cluster {
    /// Makes a volume on so many hosts, the asked one first, and writes `mib` MiB of it. Then sets
    /// the directory back, so that it knows nothing of the volume. Returns the names of the hosts.
    fn lose(&self, name: &'static str, hosts: u8, mib: u64) -> Vec<String> {
        let backup = self.backup();
        let hosts = self.create_on(hosts, name, mib, 0).expect("there is room");
        assert_eq!(self.fill(name, 0, mib), mib);
        self.run(DESCRIBED);
        self.go_back(backup);
        self.run(LONG);
        hosts
    }

    fn pass_quarantine(&self) {
        for machine in &self.machines {
            self.world.wall_jump(machine.key, QUARANTINE);
        }
    }

    /// Hosts that still have something of a volume that is in no record.
    fn keepers(&self, name: &str) -> Vec<String> {
        self.told(name, false)
    }

    /// Hosts that gave up what they had of such a volume.
    fn givers(&self, name: &str) -> Vec<String> {
        self.told(name, true)
    }

    fn told(&self, name: &str, is_given_up: bool) -> Vec<String> {
        let of = |o: &OrphanReport| {
            o.volume.as_deref() == Some(name) && o.given_up.is_some() == is_given_up
        };
        let mut hosts: Vec<_> = self.orphans().into_iter().filter(of).map(|o| o.host).collect();
        hosts.sort();
        hosts
    }

    /// How many components one host holds.
    fn held_on(&self, index: usize) -> usize {
        let node = self.node(index).expect("it runs");
        node.groups().iter().map(|group| group.components().len()).sum()
    }
}

#[test]
fn a_full_device_gives_up_the_oldest_that_another_host_has_and_takes_writes() {
    let cluster = start(51);
    let first = cluster.lose("first", 2, 20);
    let second = cluster.lose("second", 2, 20);
    assert_eq!((first[0].as_str(), second[0].as_str()), ("host1", "host1"));
    cluster.create_on(1, "live", 1024, 0).expect("there is room");
    let mut filled = cluster.fill("live", 0, 1024);
    assert!(filled > 16, "{filled} MiB");
    cluster.run(SOON);
    assert_eq!(cluster.fill("live", filled, 1024), 0, "both are in quarantine");
    assert_eq!(cluster.held_on(0), 3);

    cluster.pass_quarantine();
    cluster.run(SOON);
    assert_eq!(cluster.givers("first"), ["host1"]);
    assert_eq!(cluster.givers("second"), [""; 0], "there is room enough");
    let more = cluster.fill("live", filled, 1024);
    assert!((15..=22).contains(&more), "{more} MiB");
    filled += more;
    cluster.run(SOON);
    assert_eq!(cluster.givers("second"), ["host1"]);
    let more = cluster.fill("live", filled, 1024);
    assert!((15..=22).contains(&more), "{more} MiB");
    filled += more;
    cluster.run(LONG);
    assert_eq!(cluster.fill("live", filled, 1024), 0, "nothing is left to give");
    assert_eq!((cluster.held_on(0), cluster.held()), (1, 3), "the other hosts keep theirs");

    let status = cluster.status(1);
    let is_told = |line: &String| line.contains("'first'") && line.contains("1 more gave up");
    assert!(status.alarms.iter().any(is_told), "{:?}", status.alarms);
    cluster.adopt("first").expect("what is left is whole, and nobody went on without it");
    cluster.run(Duration::from_secs(2));
    assert_eq!(cluster.read(1, "first"), Some(9));
    cluster.run(LONG);
    assert_eq!(cluster.givers("first"), [""; 0], "it is accounted for");
}

#[test]
fn the_last_known_copy_stays_and_writes_are_refused() {
    let cluster = start(52);
    cluster.lose("only", 1, 20);
    let pair = cluster.lose("pair", 2, 20);
    let other = usize::from(pair[1] == "host3") + 1;
    cluster.create_on(1, "live", 1024, 0).expect("there is room");
    let filled = cluster.fill("live", 0, 1024);
    cluster.take_down(other, true);
    cluster.run(Duration::from_secs(20));
    cluster.pass_quarantine();
    cluster.run(LONG);
    assert_eq!(cluster.fill("live", filled, 1024), 0, "a host that is away may have lost its copy");
    assert_eq!(cluster.held_on(0), 3);

    cluster.boot(other, |_, _| async {});
    wait_for_hosts(&cluster);
    cluster.run(LONG);
    assert_eq!(cluster.givers("pair"), ["host1"], "now it says so itself");
    assert_eq!((cluster.keepers("only"), cluster.held_on(0)), (vec!["host1".to_owned()], 2));
    let more = cluster.fill("live", filled, 1024);
    assert!((15..=22).contains(&more), "{more} MiB");
    cluster.run(LONG);
    assert_eq!(cluster.fill("live", filled + more, 1024), 0);
    assert_eq!((cluster.givers("only"), cluster.held_on(0)), (Vec::new(), 2));
}

#[test]
fn of_hosts_that_are_all_full_one_keeps_what_the_others_give_up() {
    for seed in 53..57 {
        let cluster = start(seed);
        cluster.lose("pair", 2, 4);
        cluster.lose("three", 3, 4);
        cluster.create("live", 1024, 0).expect("there is room");
        let told = (cluster.keepers("pair").len(), cluster.keepers("three").len());
        assert_eq!(told, (2, 3), "all are in quarantine");
        cluster.pass_quarantine();
        assert_eq!(cluster.held(), 8);
        let mut filled = 0;
        for round in 0..6_u64 {
            filled += cluster.fill("live", filled, 1024);
            // Hosts may be at any point of giving up.
            cluster.run(Duration::from_millis(250 * (seed - 53) + 450 * round));
            let index = usize::try_from(round % 3).expect("small");
            cluster.take_down(index, round % 2 == 0);
            cluster.boot(index, |_, _| async {});
            wait_for_hosts(&cluster);
            cluster.run(SOON);
        }
        // Now with all hosts up: a fill ends where a host goes away, and a host that asked while
        // others were down asks again only after minutes.
        for _ in 0..3 {
            filled += cluster.fill("live", filled, 1024);
            cluster.run(LONG);
        }
        let counts = |name: &str| (cluster.keepers(name).len(), cluster.givers(name).len());
        assert_eq!(counts("pair"), (1, 1), "seed {seed}");
        assert_eq!(counts("three"), (1, 2), "seed {seed}");
        assert_eq!(cluster.held(), 5, "seed {seed}: one of each, and those of the live volume");
        assert_eq!(cluster.fill("live", filled, 1024), 0, "seed {seed}: the last copies stay");
        let mut counts = base::probe_counts().into_iter();
        let counted = counts.find(|(probe, _)| probe.name() == "orphan-given-up");
        assert!(counted.is_some_and(|(_, count)| count >= 3));
    }
}

#[test]
fn hosts_that_ask_each_other_at_the_same_moment_do_not_both_believe_the_answer() {
    for copies in [2_u8, 3] {
        let cluster = start(60 + u64::from(copies));
        cluster.lose("gone", copies, 4);
        cluster.create("live", 1024, 0).expect("there is room");
        cluster.fill("live", 0, 1024);
        // With these delays a question takes as long as hosts wait between two looks.
        for (a, b) in [(0, 1), (1, 2), (0, 2)] {
            let key = |index: usize| cluster.machines[index].key;
            cluster.world.clog(key(a), key(b), Duration::from_millis(500));
        }
        cluster.pass_quarantine();
        cluster.run(LONG);
        let counts = (cluster.keepers("gone").len(), cluster.givers("gone").len());
        assert_eq!(counts, (1, usize::from(copies) - 1));
        assert_eq!(cluster.held(), 4);
    }
}
