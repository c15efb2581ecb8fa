// SPDX-License-Identifier: Apache-2.0
//! Space that is kept for volumes, and changed while they are in use.

use super::*;

#[test]
fn a_reserve_is_changed_on_all_hosts_or_on_none() {
    let cluster = start(4);
    cluster.create("db", 64, 0).expect("there is room");
    cluster.create("other", 1024, 0).expect("there is room");
    assert_eq!(cluster.fill("db", 0, 20), 20);
    cluster.change(1, "db", 50).expect("there is room");
    assert_eq!((cluster.percent("db"), cluster.kept_by_all()), (50, vec![part(64, 50); 3]));
    cluster.change(0, "db", 50).expect("the same again");
    cluster.change(2, "db", 100).expect("there is room");
    assert_eq!(cluster.kept_by_all(), vec![part(64, 100); 3]);

    let refused = cluster.change(0, "other", 50).expect_err("more than there is");
    for said in ["'other' was not changed", "host1", "host2", "host3", "527MiB", "are missing on"] {
        assert!(refused.contains(said), "{said}: {refused}");
    }
    assert!(refused.contains("capacity0.0"), "its own device has a name: {refused}");
    assert_eq!((cluster.percent("other"), cluster.kept_by_all()), (0, vec![part(64, 100); 3]));

    // Others fill what is left. The reserved space is still there.
    cluster.fill("other", 0, 1024);
    assert_eq!(cluster.fill("db", 20, 64), 44, "it was kept");
    let refused = cluster.change(0, "other", 100).expect_err("all is taken");
    assert!(refused.contains("missing"), "{refused}");
    cluster.change(0, "db", 0).expect("less always works");
    assert_eq!((cluster.percent("db"), cluster.kept_by_all()), (0, vec![0; 3]));
    for (name, percent, said) in [("db", 101, "101"), ("none", 5, "no volume"), ("A", 5, "name")] {
        let refused = cluster.change(0, name, percent).expect_err("nonsense");
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn a_reserve_that_one_host_has_no_room_for_is_kept_by_none() {
    let cluster = start(5);
    cluster.create("db", 64, 0).expect("there is room");
    // Only host 3 has no room, because of a component that only it holds.
    let node = cluster.node(2).expect("it runs");
    cluster.on(2, async move |_| {
        let group = node.groups().remove(0);
        let (id, object) = (base::ComponentId(77), base::ObjectId(77));
        group.create_component(id, object, 1 << 20).await.expect("a component");
        let room = group.reserve_limit(id).expect("it is there") - 10;
        group.reserve_space(id, room, diskgroup::Reserve::IfFree).await.expect("there is room");
    });
    let (before, rest) = (cluster.kept(2), cluster.kept(0));
    let refused = cluster.change(0, "db", 100).expect_err("host 3 has no room");
    let [host1, host3] = ["host1", "host3"].map(|host| refused.contains(host));
    assert_eq!((host1, host3), (false, true), "{refused}");
    assert!(refused.contains("79MiB") && refused.contains("69MiB are missing"), "{refused}");
    assert_eq!((cluster.kept(2), cluster.kept(0), cluster.kept(1)), (before, rest, rest));
    assert_eq!(cluster.percent("db"), 0);
}

#[test]
fn a_host_that_was_away_learns_of_a_changed_reserve() {
    let cluster = start(6);
    cluster.create("db", 64, 100).expect("there is room");
    assert_eq!(cluster.fill("db", 0, 3), 3);
    for percent in [10, 80, 0] {
        cluster.take_down(1, percent == 80);
        cluster.world.run_for(Duration::from_secs(20));
        cluster.change(0, "db", percent).expect("the others have room");
        assert_eq!((cluster.kept(0), cluster.kept(2)), (part(64, percent), part(64, percent)));
        cluster.boot(1, |_, _| async {});
        wait_for_hosts(&cluster);
        let is_so = || cluster.kept(1) == part(64, percent);
        for _ in 0..100 {
            if is_so() {
                break;
            }
            cluster.world.run_for(Duration::from_secs(1));
        }
        assert!(is_so(), "{percent} %: {}", cluster.kept(1));
    }
}

/// The host that changes a reserve ends at any moment. If the command is given again, the change is
/// finished. If it is not, no host keeps more space than the record says.
#[test]
fn a_change_that_is_interrupted_is_finished_or_taken_back() {
    for seed in 0..12 {
        let cluster = start(100 + seed);
        cluster.create("db", 64, 20).expect("there is room");
        let env = cluster.world.env(cluster.machines[0].key).expect("it runs");
        let inner = env.clone();
        let percent = if seed % 2 == 0 { 90 } else { 5 };
        let command = Command::VolumeChange { name: "db".to_owned(), reserve_percent: percent };
        let task = env.spawn("operator", async move { drop(ask(&inner, command).await) });
        cluster.world.run_for(Duration::from_micros(seed * seed * 60));
        drop(task);
        cluster.take_down(0, seed % 3 == 0);
        cluster.world.run_for(Duration::from_secs(5));
        cluster.boot(0, |_, _| async {});
        wait_for_hosts(&cluster);
        if seed % 4 < 2 {
            // A host that was killed may still look alive for a moment.
            cluster.world.run_for(Duration::from_secs(30));
            cluster.change(2, "db", percent).expect("it finishes");
            assert_eq!(cluster.percent("db"), percent);
            assert_eq!(cluster.kept_by_all(), vec![part(64, percent); 3], "seed {seed}");
        }
        cluster.world.run_for(Duration::from_secs(100));
        let recorded = cluster.percent("db");
        assert!([20, percent].contains(&recorded));
        assert_eq!(cluster.kept_by_all(), vec![part(64, recorded); 3], "seed {seed}");
    }
}
