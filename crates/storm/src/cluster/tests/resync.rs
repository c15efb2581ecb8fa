// SPDX-License-Identifier: Apache-2.0
//! What is being copied, as operators see it.

use super::repair::{is_whole, pass, places, volume, wait_until, with_copies};
use super::*;
use operator::{ResyncReason, ResyncReport};

/// What the owners on all hosts are copying.
fn resyncs(cluster: &Cluster) -> Vec<ResyncReport> {
    let up = (0..3).filter(|at| cluster.node(*at).is_some());
    up.flat_map(|at| cluster.status(at).resyncs).collect()
}

/// Waits until a copy is half done, and returns what is said of it.
fn half_done(cluster: &Cluster) -> ResyncReport {
    for _ in 0..2000 {
        cluster.world.run_for(Duration::from_millis(50));
        let found = resyncs(cluster).into_iter().find(|one| one.percent() >= 50);
        if let Some(one) = found {
            return one;
        }
    }
    panic!("nothing is copied: {:?}", volume(cluster));
}

/// Writes 8 MiB without a gap.
fn write_much(cluster: &Cluster) {
    let node = cluster.node(0).expect("it runs");
    cluster.on(0, async move |env| {
        let device = node.exports().attach("v").expect("a volume");
        for at in 0..8 {
            let mut payload = env.buf(1 << 20);
            payload.fill(9);
            device.write(at * MIB, payload.freeze()).await.expect("a write");
        }
    });
}

fn has_slow_devices(cluster: &Cluster, index: usize, is_slow: bool) {
    for device in cluster.devices() {
        let fault = if is_slow { DiskFault::Slow(2000) } else { DiskFault::Clear };
        cluster.fault(index, &device, fault);
    }
}

#[test]
fn what_is_copied_says_why_how_far_it_is_and_when_it_ends() {
    let (cluster, other) = with_copies(111, Some(10));
    let third = 3 - other;
    let name = |at: usize| format!("host{}", at + 1);
    write_much(&cluster);
    pass(&cluster, 5);
    assert_eq!(resyncs(&cluster), []);
    let look = |at: usize, reason: ResyncReason| {
        let one = half_done(&cluster);
        assert_eq!((&*one.volume, &one.host, &one.reason), ("v", &name(at), &reason), "{one:?}");
        assert_eq!((&one.waits, one.object), (&None, 0), "{one:?}");
        let all = one.bytes_copied + one.bytes_left;
        assert!((7 * MIB..=17 * MIB).contains(&all), "{one:?}");
        assert!(one.bytes_per_second > MIB / 4, "{one:?}");
        assert_eq!(one.seconds_left, Some(one.bytes_left.div_ceil(one.bytes_per_second)));
        has_slow_devices(&cluster, at, false);
        wait_until(&cluster, 120, is_whole);
        assert_eq!(resyncs(&cluster), []);
    };

    has_slow_devices(&cluster, third, true);
    let (from, to) = (name(other), Some(name(third)));
    let moved = Command::VolumeMove { name: "v".to_owned(), from: from.clone(), to };
    cluster.ask(0, moved).expect("it begins");
    look(third, ResyncReason::Moves { from });
    assert_eq!(places(&cluster), [0, third]);

    cluster.take_down(third, true);
    pass(&cluster, 3);
    write_much(&cluster);
    cluster.boot(third, |_, _| async {});
    has_slow_devices(&cluster, third, true);
    look(third, ResyncReason::Returns);

    cluster.take_down(third, true);
    has_slow_devices(&cluster, other, true);
    look(other, ResyncReason::Repairs { from: name(third) });
    assert_eq!(places(&cluster), [0, other]);

    cluster.boot(third, |_, _| async {});
    wait_for_hosts(&cluster);
    pass(&cluster, 30);
    has_slow_devices(&cluster, third, true);
    let more = Command::VolumeRedundancy { name: "v".to_owned(), ftt: 2, force: false };
    cluster.ask(0, more).expect("three hosts are up");
    let one = half_done(&cluster);
    assert_eq!((one.host, one.reason), (name(third), ResyncReason::OneMore));
}

#[test]
fn copies_keep_to_the_limit_that_an_operator_sets_while_they_run() {
    let (cluster, other) = with_copies(113, None);
    write_much(&cluster);
    let limit = |bytes_per_second| {
        let limit = Command::ResyncLimit { bytes_per_second };
        let report = cluster.ask(0, limit)?;
        assert_eq!(report["resync_bytes_per_second"], serde_json::json!(bytes_per_second));
        Ok::<_, String>(())
    };
    let moved = |from: usize, to: usize| {
        let (from, to) = (format!("host{}", from + 1), Some(format!("host{}", to + 1)));
        let moved = Command::VolumeMove { name: "v".to_owned(), from, to };
        cluster.ask(0, moved).expect("it begins");
    };
    let refused = limit(Some(1000)).expect_err("it is too low");
    assert!(refused.contains("from 1MiB"), "{refused}");
    limit(Some(MIB)).expect("the directory is there");
    let third = 3 - other;
    moved(other, third);
    pass(&cluster, 5);
    assert!(!is_whole(&cluster) || places(&cluster) == [0, other], "8 MiB take 8 s");
    let one = resyncs(&cluster).pop().expect("it is under way");
    assert!((MIB / 2..=MIB * 5 / 4).contains(&one.bytes_per_second), "{one:?}");
    assert!((2 * MIB..=6 * MIB).contains(&one.bytes_copied), "{one:?}");
    // Another setting leaves it as it is.
    cluster.ask(0, Command::ClusterSet { repair_delay_seconds: Some(77) }).expect("it is set");
    let settings = cluster.ask(1, Command::ClusterShow).expect("an answer");
    assert_eq!(settings["resync_bytes_per_second"], serde_json::json!(MIB));
    limit(None).expect("the directory is there");
    pass(&cluster, 2);
    assert!(is_whole(&cluster) && places(&cluster) == [0, third], "{:?}", volume(&cluster));
}

/// Four return at a time. Volumes of three copies can wait longer than one of two.
#[test]
fn what_has_the_fewest_whole_copies_is_copied_first() {
    const MANY: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let cluster = start(114);
    for name in MANY {
        cluster.create_on(3, name, 2, 0).expect("there is room");
    }
    let hosts = cluster.create_on(2, "z", 2, 0).expect("there is room");
    let other = (1..3).find(|at| hosts.contains(&format!("host{}", at + 1)));
    let other = other.expect("a second copy");
    let write_all = || {
        for name in MANY.into_iter().chain(["z"]) {
            let node = cluster.node(0).expect("it runs");
            cluster.on(0, async move |env| {
                let device = node.exports().attach(name).expect("a volume");
                let mut payload = env.buf(1 << 20);
                payload.fill(9);
                device.write(0, payload.freeze()).await.expect("a write");
            });
        }
    };
    let is_whole = |name: &str| {
        let show = Command::VolumeShow { name: name.to_owned() };
        let report = cluster.ask(0, show).expect("it is there");
        let report: VolumeReport = serde_json::from_value(report).expect("a volume");
        report.components.iter().all(|copy| copy.state == "active")
    };
    write_all();
    cluster.take_down(other, true);
    pass(&cluster, 5);
    write_all();
    let limit = Command::ResyncLimit { bytes_per_second: Some(MIB) };
    cluster.ask(0, limit).expect("the directory is there");
    assert!(!MANY.into_iter().chain(["z"]).any(is_whole));
    cluster.boot(other, |_, _| async {});
    let is_z_whole = (0..120).any(|_| {
        cluster.world.run_for(Duration::from_millis(500));
        is_whole("z")
    });
    assert!(is_z_whole, "not within a minute");
    let before = MANY.into_iter().filter(|name| is_whole(name)).count();
    assert!(before <= 8, "{before} of those that could wait were copied before it");
}
