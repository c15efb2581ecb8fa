// SPDX-License-Identifier: Apache-2.0
//! Objects that nobody uses: what happens to their hosts is noticed all the same, for the day when
//! somebody does.

use crate::cluster::{Cluster, OBJECT};
use directory::ComponentState;
use object::Mutations;
use std::time::Duration;

const OWNER: usize = 0;

/// An object with a little in it, whose clients have left.
fn unused(seed: u64) -> Cluster {
    let cluster = Cluster::new(seed, Mutations::default());
    cluster.create();
    cluster.clients(OWNER, 2, Duration::from_secs(1));
    cluster.run(2.0);
    assert_eq!(cluster.owner(), Some(OWNER));
    cluster.objects(OWNER).unwrap().set_attached(OBJECT, false);
    cluster
}

/// Rule 18: its redundancy is looked after, and the next client finds an owner.
#[test]
fn an_object_whose_owner_died_is_taken_over_though_no_client_asks() {
    let cluster = unused(80);
    let term = cluster.record().term;
    cluster.kill(OWNER);
    // Its key in the directory lives for six seconds.
    cluster.run(15.0);
    assert!(cluster.owner().is_some(), "no host serves it");
    assert_eq!(cluster.record().term.0, term.0 + 1, "one host took it over, and once");
    cluster.boot(OWNER);
    cluster.verify();
}

/// A copy's host comes back so soon that nobody missed it, and lacks the copy: the owner asks, and
/// the copy is made again.
#[test]
fn a_copy_that_a_later_run_of_its_host_lacks_is_missed_though_nobody_writes() {
    for seed in 90..96 {
        let cluster = unused(seed);
        cluster.crash(2);
        cluster.hosts[2].is_formatted.set(false);
        cluster.boot(2);
        let is = |state| cluster.record().components[2].state == state;
        let missed = || !is(ComponentState::Active);
        assert!(cluster.world.run_until(Duration::from_secs(10), missed), "seed {seed}");
        cluster.run(1.0); // its owner learns that the change landed
        cluster.verify();
    }
}
