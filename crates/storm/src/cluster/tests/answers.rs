// SPDX-License-Identifier: Apache-2.0
//! What a host reports of others that do not answer, and of volumes that lack copies.

use super::*;
use operator::{Health, HostState};

fn pass(cluster: &Cluster, time: Duration) {
    cluster.on(0, async move |env| env.sleep(time).await);
}

/// What host 1 reports of host 3, of the volume `v`, and of the cluster's health.
fn seen(cluster: &Cluster) -> (HostState, Option<u64>, VolumeReport, Health) {
    let status = cluster.status(0);
    let host = status.hosts.iter().find(|host| host.name == "host3").expect("it is known");
    let volume = status.volumes.into_iter().find(|volume| volume.name == "v").expect("it is there");
    (host.state, host.silent_seconds, volume, status.health)
}

fn wait_until_green(cluster: &Cluster) {
    for _ in 0..600 {
        pass(cluster, Duration::from_millis(100));
        let (state, silent, volume, health) = seen(cluster);
        if health == Health::Green {
            assert_eq!((state, silent, volume.reduced_seconds), (HostState::Up, None, None));
            return;
        }
    }
    panic!("it is never green: {:?}", cluster.status(0));
}

/// Takes host 3 down and asks host 1 after `time`, long before the lease ends.
fn told_after(is_crash: bool, time: Duration) {
    let cluster = start(11);
    cluster.create("v", 64, 0).expect("there is room");
    wait_until_green(&cluster);
    cluster.take_down(2, is_crash);
    pass(&cluster, time);
    let (state, silent, volume, health) = seen(&cluster);
    assert_eq!(state, HostState::NotAnswering);
    assert!(silent.is_some_and(|silent| silent <= 1), "{silent:?}");
    assert_eq!((volume.health, health), (Health::Yellow, Health::Yellow));
    assert!(volume.reduced_seconds.is_some_and(|since| since <= 1), "{volume:?}");
    let component = volume.components.iter().find(|c| c.host == "host3").expect("a copy");
    assert_eq!(component.why.as_deref(), Some("host3 does not answer"));

    pass(&cluster, Duration::from_secs(20));
    let (state, silent, volume, _) = seen(&cluster);
    assert_eq!(state, HostState::Down);
    let told = [silent, volume.reduced_seconds];
    assert!(told.iter().all(|since| since.is_some_and(|s| (20..=22).contains(&s))), "{told:?}");

    cluster.boot(2, |_, _| async {});
    wait_for_hosts(&cluster);
    wait_until_green(&cluster);
}

#[test]
fn a_killed_host_does_not_answer_at_once() {
    told_after(false, Duration::from_millis(50));
}

#[test]
fn a_silent_host_does_not_answer_after_a_second() {
    told_after(true, Duration::from_millis(1300));
}

/// The owner marks a copy absent that did not answer, but does not learn whether the record was
/// changed. Meanwhile the copy is back. It takes no part until the owner knows.
#[test]
fn a_copy_that_its_owner_may_have_given_up_is_not_there() {
    let cluster = start(14);
    cluster.create("v", 64, 0).expect("there is room");
    wait_until_green(&cluster);
    assert_eq!(cluster.fill("v", 0, 3), 3);
    let (owner, copy) = (cluster.machines[0].key, cluster.machines[2].key);
    let node = cluster.node(0).expect("it runs");
    let env = cluster.world.env(owner).expect("it runs");
    let inner = env.clone();
    let _write = env.spawn("write", async move {
        let device = node.exports().attach("v").expect("a volume");
        inner.sleep(Duration::from_secs(1)).await;
        let mut block = inner.buf(4096);
        block.fill(7);
        let _ = device.write(0, block.freeze()).await;
    });
    pass(&cluster, Duration::from_millis(900));
    cluster.world.partition(owner, copy, true);
    cluster.world.cut_one_way(cluster.directory, owner, true);
    pass(&cluster, Duration::from_secs(4));
    cluster.world.partition(owner, copy, false);
    pass(&cluster, Duration::from_millis(1500));
    let (host, _, volume, health) = seen(&cluster);
    assert_eq!(host, HostState::Up, "it answers");
    assert_eq!((volume.health, health), (Health::Yellow, Health::Yellow), "{volume:?}");
    assert!(volume.reduced_seconds.is_some(), "{volume:?}");
    let component = volume.components.iter().find(|c| c.host == "host3").expect("a copy");
    let why = component.why.as_deref().expect("it says why");
    assert!(component.state == "active" && why.contains("has not answered the volume's owner"));
    cluster.world.cut_one_way(cluster.directory, owner, false);
    wait_until_green(&cluster);
}

#[test]
fn an_idle_cluster_stays_green() {
    let cluster = start(12);
    cluster.create("v", 64, 0).expect("there is room");
    wait_until_green(&cluster);
    for _ in 0..200 {
        pass(&cluster, Duration::from_millis(37));
        let (state, _, volume, health) = seen(&cluster);
        assert_eq!((state, health, volume.reduced_seconds), (HostState::Up, Health::Green, None));
    }
}

#[test]
fn a_thousandfold_overcommitment_is_pointed_out() {
    let cluster = start(13);
    let create = |name: &str, size_bytes| {
        let create = Command::VolumeCreate(NewVolume::new(name, size_bytes, 1));
        let made = cluster.ask(0, create).expect("there is room");
        serde_json::from_value::<VolumeReport>(made).expect("a volume").note
    };
    assert_eq!(create("small", 64 * MIB), None);
    let note = create("large", 160 << 30).expect("it is far more than there is");
    assert!(note.contains("may grow to 160.06GiB together, 1064 times the "), "{note}");
    assert!(create("after", MIB).is_some(), "it does not get better");
}

/// Every write passes each stage once on the hosts that it has to do with.
#[test]
fn a_host_says_where_the_time_of_writes_goes() {
    let cluster = start(13);
    cluster.create("v", 64, 0).expect("there is room");
    wait_until_green(&cluster);
    assert_eq!(cluster.fill("v", 0, 40), 40);
    let passed = |index: usize, stage: &str| {
        let [writes] = cluster.status(index).writes.try_into().expect("the asked host's alone");
        let of = writes.stages.into_iter().find(|of| of.stage == stage).expect("a stage");
        assert_eq!(of.measured, of.passed.div_ceil(100), "{of:?}");
        assert_eq!(of.measured > 0 && stage != "turn", of.mean_us > 0.0, "{of:?}");
        of.passed
    };
    assert_eq!(["turn", "copy here", "copy there"].map(|stage| passed(0, stage)), [40, 40, 80]);
    assert_eq!([0, 1, 2].map(|index| passed(index, "append")), [40; 3]);
    let others = ["request", "turn", "copy here", "copy there"].map(|stage| passed(1, stage));
    assert_eq!(others, [0; 4], "these are the owner's and the door's");
    assert!([0, 1, 2].iter().all(|index| passed(*index, "commit") >= 40));
}
