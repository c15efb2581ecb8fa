// SPDX-License-Identifier: Apache-2.0
//! What an owner has begun and cannot end: a hand-over, a change of the record, a return. I/O goes
//! on afterwards, and nobody is told of an error that is none.

use crate::cluster::{Cluster, OBJECT, put, record_on};
use directory::ComponentState;
use object::Mutations;
use sim::DiskFault;
use std::rc::Rc;
use std::time::Duration;

const OWNER: usize = 0;

/// Starts a write through a host; nobody waits for it.
fn begin_put(cluster: &Cluster, at: usize, block: usize) {
    let (objects, oracle) = (cluster.objects(at).unwrap(), Rc::clone(&cluster.oracle));
    let env = cluster.world.env(cluster.hosts[at].key).unwrap();
    let failures = Rc::clone(&cluster.failures);
    std::mem::forget(env.clone().spawn("write", async move {
        if let Err(failure) = put(&env, &objects, &oracle, block).await {
            failures.borrow_mut().push(failure);
        }
    }));
}

/// Whether writes complete now.
fn goes_on(cluster: &Cluster, seconds: f64) -> bool {
    let before = cluster.oracle.borrow().writes;
    cluster.run(seconds);
    cluster.oracle.borrow().writes > before
}

/// Rule 53: a hand-over waits for the writes in flight, and is called off if they take too long.
#[test]
fn an_owner_whose_hand_over_was_called_off_serves_again() {
    let cluster = Cluster::new(41, Mutations::default());
    cluster.create_as(record_on(&[3]));
    let objects = cluster.objects(OWNER).unwrap();
    let owned =
        cluster.on(OWNER, Duration::from_secs(20), async move { objects.acquire(OBJECT).await });
    assert_eq!(owned, Some(Ok(())));
    let term = cluster.record().term;
    // A write that does not end, and somebody who asks for the object meanwhile.
    cluster.world.disk_error(cluster.hosts[2].key, "cache", DiskFault::Freeze(true));
    begin_put(&cluster, OWNER, 3);
    cluster.run(0.5);
    cluster.objects(1).unwrap().set_attached(OBJECT, true);
    begin_put(&cluster, 1, 4);
    cluster.run(6.5);
    assert_eq!(cluster.oracle.borrow().writes, 0, "the only copy answers nobody");
    cluster.objects(1).unwrap().set_attached(OBJECT, false);
    cluster.world.disk_error(cluster.hosts[2].key, "cache", DiskFault::Freeze(false));
    cluster.run(2.0);
    begin_put(&cluster, OWNER, 5);
    cluster.run(4.0);
    assert_eq!(cluster.oracle.borrow().writes, 3, "all three are answered");
    assert_eq!(cluster.record().term, term, "nothing was handed over");
    assert_eq!(cluster.owner(), Some(OWNER));
}

/// Rule 16: the record says what the owner asked for, so the change has landed, although nobody
/// said so.
#[test]
fn a_change_whose_answer_was_lost_is_no_other_owners() {
    let cluster = Cluster::new(42, Mutations::default());
    cluster.create();
    cluster.clients(OWNER, 2, Duration::from_secs(60));
    cluster.run(1.0);
    let before = cluster.record();
    let (owner, directory) = (cluster.hosts[OWNER].key, cluster.directory);
    // It hears what it is asked, and is not heard.
    cluster.world.cut_one_way(directory, owner, true);
    cluster.kill(2);
    cluster.run(4.0);
    let landed = cluster.record();
    assert_eq!(landed.components[2].state, ComponentState::Absent, "it landed");
    let status = cluster.objects(OWNER).unwrap().status(OBJECT).unwrap();
    assert_eq!(status.components[2].state, ComponentState::Active, "and that is not known");
    cluster.world.cut_one_way(directory, owner, false);
    cluster.run(8.0);
    let status = cluster.objects(OWNER).unwrap().status(OBJECT).unwrap();
    assert_eq!(status.components[2].state, ComponentState::Absent, "now it is");
    assert_eq!((cluster.owner(), cluster.record().term), (Some(OWNER), before.term));
    assert!(goes_on(&cluster, 1.0));
}

/// Rule 14: what breaks a session is told to whoever opens the next one. A second later it would
/// look by itself: clients would wait that much longer.
#[test]
fn a_link_that_breaks_under_a_write_costs_it_no_second() {
    let cluster = Cluster::new(43, Mutations::default());
    cluster.create();
    begin_put(&cluster, OWNER, 0);
    cluster.run(2.0);
    let (owner, replica) = (cluster.hosts[OWNER].key, cluster.hosts[2].key);
    for (round, moment) in (0..20).map(|round| (round, Duration::from_micros(round * 40))) {
        cluster.run(1.0 + 0.07 * round as f64); // at various moments between two looks
        begin_put(&cluster, OWNER, 3);
        cluster.world.run_for(moment);
        cluster.world.reset_links(owner, replica);
        let written = round + 2;
        let is_done = || cluster.oracle.borrow().writes == written;
        let waited = Duration::from_millis(400);
        assert!(cluster.world.run_until(waited, is_done), "round {round}: it waits for a look");
    }
    cluster.verify();
}

/// Rule 7: writes fail where the last copy cannot take them. Two ways lead out of the active ones
/// for a copy whose device fails, and whoever comes second must not take it for the last.
#[test]
fn a_device_that_fails_beside_good_copies_is_no_error_for_clients() {
    for seed in 0..3 {
        let cluster = Cluster::new(50 + seed, Mutations::default());
        cluster.create();
        cluster.clients(OWNER, 3, Duration::from_secs(60));
        cluster.run(1.0);
        let term = cluster.record().term;
        // Both ways try again and again until the directory is back.
        cluster.world.kill(cluster.directory);
        cluster.run(1.0);
        cluster.world.disk_error(cluster.hosts[2].key, "cache", DiskFault::FailWrites);
        cluster.run(3.0);
        cluster.boot_directory();
        cluster.run(8.0);
        assert_ne!(cluster.record().components[2].state, ComponentState::Active, "seed {seed}");
        assert_eq!(cluster.record().term, term, "seed {seed}: its owner went on");
        assert!(goes_on(&cluster, 1.0), "seed {seed}");
    }
}

/// Rule 36: a target whose session breaks holds nobody up, in whatever step of its return. In the
/// last ones writes need its answer.
#[test]
fn a_target_that_dies_at_the_end_of_its_return_holds_up_no_write() {
    let tick = TRAVEL / 4;
    let returning = || {
        let cluster = Cluster::new(60, Mutations::default());
        cluster.create();
        cluster.clients(OWNER, 3, Duration::from_secs(60));
        cluster.run(1.0);
        cluster.kill(2);
        cluster.run(3.0);
        cluster.boot(2);
        // Each step takes as long as an answer.
        cluster.world.clog(cluster.hosts[2].key, cluster.hosts[OWNER].key, TRAVEL);
        let begins = || cluster.record().components[2].state == ComponentState::Resyncing;
        assert!(cluster.world.run_until(Duration::from_secs(20), begins));
        cluster
    };
    let is = |cluster: &Cluster, state| cluster.record().components[2].state == state;
    let undisturbed = returning();
    let mut ticks = 0;
    while is(&undisturbed, ComponentState::Resyncing) {
        undisturbed.world.run_for(tick);
        ticks += 1;
    }
    assert!(is(&undisturbed, ComponentState::Active) && ticks > 16, "{ticks} ticks");
    for before in (1..15).step_by(2) {
        // The same history up to here.
        let cluster = returning();
        cluster.world.run_for(tick * (ticks - before));
        assert!(is(&cluster, ComponentState::Resyncing), "{before} ticks before its end");
        cluster.kill(2);
        cluster.run(5.0);
        assert!(goes_on(&cluster, 1.0), "{before} ticks before its end");
    }
}

/// Less than the time after which an idle link is pinged.
const TRAVEL: Duration = Duration::from_millis(300);
