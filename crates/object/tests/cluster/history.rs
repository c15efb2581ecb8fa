// SPDX-License-Identifier: Apache-2.0
//! A directory that holds what it held before (rule 25).

use crate::cluster::{Cluster, HOSTS, OBJECT, record_on};
use base::ShardId;
use directory::store::Snapshot;
use directory::{ComponentState, ObjectRecord};
use object::Mutations;
use std::time::Duration;

fn state(record: &ObjectRecord, at: usize) -> ComponentState {
    record.components[at].state
}

/// The second host alone has what was written last; the backup calls all three copies active.
fn written_since_a_backup(seed: u64, mutations: Mutations) -> (Cluster, Snapshot) {
    let cluster = Cluster::new(seed, mutations);
    cluster.create();
    cluster.clients(0, 2, Duration::from_secs(3));
    cluster.run(4.0);
    let backup = cluster.backup();
    cluster.kill(2);
    cluster.run(3.0);
    cluster.kill(0);
    cluster.run(15.0);
    assert_eq!(cluster.owner(), Some(1), "seed {seed}");
    cluster.clients(1, 2, Duration::from_secs(2));
    cluster.run(3.0);
    (cluster, backup)
}

/// One copy misses writes, and the record of before calls it active. Its host claims that record
/// alone, so often that its version and term are above all that the others ever saw.
#[test]
fn a_record_of_before_is_not_believed_however_often_it_was_claimed() {
    for seed in 0..3 {
        let (cluster, backup) = written_since_a_backup(seed, Mutations::default());
        let (written, last) = (cluster.content(1), cluster.record());
        cluster.kill(1);
        cluster.go_back(backup);
        for _ in 0..6 {
            cluster.boot(2);
            cluster.run(15.0);
            assert_eq!(cluster.owner(), Some(2), "seed {seed}: nobody else is there");
            cluster.kill(2);
        }
        let claimed = cluster.record();
        assert!(claimed.version > last.version && claimed.term > last.term, "seed {seed}");
        assert_eq!(state(&claimed, 1), ComponentState::Absent, "seed {seed}");
        (0..HOSTS).for_each(|at| cluster.boot(at));
        cluster.run(40.0);
        assert!(cluster.content(1) == written, "seed {seed}: nothing was copied over it");
        assert!(cluster.record().is_doubted, "seed {seed}: {:?}", cluster.record());
        assert_eq!(cluster.owner(), None, "seed {seed}: nobody serves what is in doubt");
        // Nor after a restart, nor by whoever has the newest writes.
        (0..HOSTS).for_each(|at| cluster.kill(at));
        (0..HOSTS).for_each(|at| cluster.boot(at));
        cluster.run(20.0);
        assert_eq!(cluster.owner(), None, "seed {seed}");
        assert!(cluster.content(1) == written, "seed {seed}");
    }
}

/// One copy that misses writes is alone until its record's numbers are above all that others
/// saw. Then the copy that has all writes is there too, and waits for a grant to run out while
/// hosts claim, and die in turn. Whether nothing was copied over it, and nobody serves.
fn is_refused_in_turn(seed: u64, mutations: Mutations) -> bool {
    let (cluster, backup) = written_since_a_backup(seed, mutations);
    let (written, last) = (cluster.content(1), cluster.record());
    cluster.crash(1);
    cluster.go_back(backup);
    for _ in 0..4 {
        cluster.boot(2);
        cluster.run(15.0);
        cluster.crash(2);
    }
    let claimed = cluster.record();
    assert!(claimed.version > last.version && claimed.term > last.term, "seed {seed}");
    assert!(!claimed.is_doubted, "seed {seed}: nobody could know yet");
    for round in 0..6_u64 {
        let first = usize::try_from(round % 3).expect("small");
        (0..HOSTS).for_each(|at| cluster.boot(at));
        cluster.run(1.0 + (round as f64) * 0.4);
        (0..HOSTS).map(|at| (first + at) % HOSTS).for_each(|at| {
            cluster.crash(at);
            cluster.run(0.3);
        });
    }
    (0..HOSTS).for_each(|at| cluster.boot(at));
    cluster.run(40.0);
    let is_kept = cluster.content(1) == written;
    is_kept && cluster.owner().is_none() && cluster.record().is_doubted
}

#[test]
fn several_hosts_that_claim_a_record_of_before_in_turn_are_all_refused() {
    let believing = Mutations { believe_any_record: true, ..Mutations::default() };
    for seed in 10..13 {
        assert!(is_refused_in_turn(seed, Mutations::default()), "seed {seed}");
        assert!(!is_refused_in_turn(seed, believing), "seed {seed}: by numbers alone");
    }
}

/// A copy that was away and came back has a seat that the record of before does not know of. Its
/// host claims that record alone: the copy proves at once that it is of before.
#[test]
fn a_copy_that_returned_since_refuses_a_record_of_before_its_return() {
    for seed in 20..23 {
        let cluster = Cluster::new(seed, Mutations::default());
        cluster.create();
        cluster.clients(0, 2, Duration::from_secs(30));
        cluster.run(4.0);
        let (backup, seat) = (cluster.backup(), cluster.record().components[2].seat);
        cluster.kill(2);
        cluster.run(15.0);
        cluster.boot(2);
        cluster.run(20.0);
        let last = cluster.record();
        assert_eq!(state(&last, 2), ComponentState::Active, "seed {seed}");
        assert!(last.components[2].seat > seat, "seed {seed}: it returned: {last:?}");
        (0..HOSTS).for_each(|at| cluster.kill(at));
        cluster.go_back(backup);
        cluster.boot(2);
        cluster.run(15.0);
        assert!(cluster.record().is_doubted, "seed {seed}: {:?}", cluster.record());
    }
}

/// Host 1 claims the object, no copy hears of it, and the directory goes back to before. Whether
/// the record is doubted in the end. `None`: the copy was faster.
fn is_doubted_by_its_claimant(seed: u64) -> Option<bool> {
    let cluster = Cluster::new(seed, Mutations::default());
    cluster.create_as(record_on(&[3]));
    cluster.clients(0, 2, Duration::from_secs(3));
    cluster.run(4.0);
    let (backup, before) = (cluster.backup(), cluster.record());
    assert_eq!(cluster.owner(), Some(0), "seed {seed}");
    cluster.kill(0);
    cluster.clients(1, 2, Duration::from_secs(60));
    for _ in 0..1000 {
        if cluster.record().term > before.term {
            break;
        }
        cluster.run(0.02);
    }
    assert_eq!(cluster.record().owner.map(|owner| owner.shard), Some(ShardId(2)), "seed {seed}");
    if cluster.owner().is_some() {
        return None;
    }
    // The copy waits for the grant of the owner before, and dies. The take-over fails.
    cluster.kill(2);
    cluster.run(8.0);
    cluster.go_back(backup);
    cluster.boot(0);
    cluster.boot(2);
    cluster.run(30.0);
    Some(cluster.record().is_doubted)
}

/// A host whose claim no copy heard of is the only one that can know of it. It says so: else others
/// would go on with the record, while it waits for ever for one that is made anew.
#[test]
fn a_host_whose_own_claim_was_forgotten_has_the_record_doubted() {
    let found: Vec<bool> = (30..50).filter_map(is_doubted_by_its_claimant).take(3).collect();
    assert_eq!(found, [true; 3]);
}

/// The directory goes back to when the volume had just been created: its record has no owner. A
/// host that owned it since, in the same run, says that the record is of before, and nobody claims
/// it.
#[test]
fn a_record_of_before_the_first_claim_is_doubted() {
    for seed in 50..53 {
        let cluster = Cluster::new(seed, Mutations::default());
        cluster.create();
        let (backup, before) = (cluster.backup(), cluster.record());
        assert_eq!((before.owner, before.term), (None, base::Term(0)), "seed {seed}");
        cluster.clients(0, 2, Duration::from_secs(3));
        cluster.run(5.0);
        assert_eq!(cluster.owner(), Some(0), "seed {seed}");
        // Ownership follows the clients, so that host 0 is no owner any more when it looks again.
        cluster.objects(0).unwrap().set_attached(OBJECT, false);
        cluster.objects(1).unwrap().set_attached(OBJECT, true);
        cluster.run(10.0);
        cluster.clients(1, 2, Duration::from_secs(3));
        cluster.run(10.0);
        assert_eq!(cluster.owner(), Some(1), "seed {seed}");
        cluster.kill(1);
        cluster.go_back(backup);
        cluster.clients(0, 2, Duration::from_secs(3));
        cluster.run(30.0);
        assert!(cluster.record().is_doubted, "seed {seed}: {:?}", cluster.record());
        assert_eq!(cluster.owner(), None, "seed {seed}: nobody serves what is in doubt");
    }
}
