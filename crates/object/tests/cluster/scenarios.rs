// SPDX-License-Identifier: Apache-2.0
//! Stories: given, then faults, then promise.

use crate::cluster::{BLOCKS, Cluster, HOSTS, OBJECT, get, put, record_on};
use base::{ComponentId, LateFrame, ObjectId, SectorRange};
use directory::ComponentState;
use object::{Mutations, ObjectError};
use std::rc::Rc;
use std::time::Duration;

/// How long the directory's answers are held back.
const HELD: Duration = Duration::from_secs(1);

fn whole(seed: u64) -> Cluster {
    let cluster = Cluster::new(seed, Mutations::default());
    cluster.create();
    cluster
}

#[test]
fn what_was_written_is_read_from_every_host() {
    let cluster = whole(1);
    for at in 0..HOSTS {
        cluster.clients(at, 2, Duration::from_secs(2));
    }
    cluster.run(3.0);
    let (writes, reads) = (cluster.oracle.borrow().writes, cluster.oracle.borrow().reads);
    assert!(writes > 500 && reads > 1000, "{writes} writes, {reads} reads");
    cluster.verify();
}

/// The owner's own clients come by no frame whose ranges were looked at.
#[test]
fn a_range_that_is_empty_or_ends_behind_the_object_is_refused_and_the_owner_goes_on() {
    let cluster = whole(22);
    let end = cluster.record().sectors;
    let objects = cluster.objects(0).unwrap();
    let done = cluster.on(0, Duration::from_secs(20), async move {
        objects.acquire(OBJECT).await.expect("an owner");
        for (start, count) in [(0, 0), (8, 0), (end - 8, 16), (end, 8)] {
            let range = SectorRange::new(start, count);
            let read = objects.read(OBJECT, range).await;
            assert!(matches!(read, Err(ObjectError::Io)), "{range:?}");
        }
        objects.read(OBJECT, SectorRange::new(end - 8, 8)).await.is_ok()
    });
    assert_eq!(done, Some(true));
}

#[test]
fn a_killed_replica_stops_writes_for_a_moment_and_comes_back() {
    for seed in 0..3 {
        let cluster = whole(seed);
        cluster.clients(0, 3, Duration::from_secs(30));
        cluster.run(1.0);
        assert_eq!(cluster.owner(), Some(0));
        cluster.kill(2);
        let before = cluster.oracle.borrow().writes;
        cluster.run(3.0);
        let after = cluster.oracle.borrow().writes;
        assert!(after > before + 100, "seed {seed}: writes went on: {before} -> {after}");
        let status = cluster.objects(0).unwrap().status(OBJECT).unwrap();
        assert_eq!(status.components[2].state, ComponentState::Absent);
        cluster.boot(2);
        cluster.run(20.0);
        cluster.settle(30.0);
        let written = cluster.oracle.borrow().writes;
        cluster.run(3.0);
        assert!(cluster.oracle.borrow().writes > written);
        cluster.run(10.0);
        cluster.verify();
    }
}

/// Rules 22 and 27.
#[test]
fn a_dead_owner_is_succeeded_and_nothing_is_lost() {
    for seed in 0..4 {
        let mut cluster = whole(seed);
        for at in 0..HOSTS {
            cluster.clients(at, 2, Duration::from_secs(40));
        }
        let wait = cluster.rng.below(1000);
        cluster.run(1.0 + wait as f64 / 1000.0);
        let owner = cluster.owner().expect("somebody serves");
        cluster.crash(owner);
        cluster.run(20.0);
        let next = cluster.owner().expect("somebody else serves");
        assert_ne!(next, owner);
        let before = cluster.oracle.borrow().writes;
        cluster.run(2.0);
        assert!(cluster.oracle.borrow().writes > before, "seed {seed}: I/O goes on");
        cluster.boot(owner);
        cluster.run(25.0);
        cluster.verify();
    }
}

/// Rules 12, 20 and 52a.
#[test]
fn an_owner_that_is_cut_off_answers_nothing_stale() {
    for seed in 0..4 {
        let cluster = whole(seed);
        for at in 0..HOSTS {
            cluster.clients(at, 2, Duration::from_secs(50));
        }
        cluster.run(1.0);
        let owner = cluster.owner().expect("somebody serves");
        cluster.isolate(owner, true, true);
        cluster.run(25.0);
        let next = cluster.owner();
        assert!(next.is_some(), "seed {seed}: the others go on");
        cluster.world.heal_all();
        cluster.run(30.0);
        cluster.verify();
    }
}

#[test]
fn without_a_directory_io_goes_on_as_long_as_nothing_else_fails() {
    let cluster = whole(5);
    cluster.clients(0, 2, Duration::from_secs(40));
    cluster.run(1.0);
    cluster.world.kill(cluster.directory);
    cluster.run(10.0);
    let before = cluster.oracle.borrow().writes;
    cluster.run(2.0);
    assert!(cluster.oracle.borrow().writes > before + 100, "rule 52");
    // Now a replica dies: it cannot be marked absent, so writes wait (rule 51).
    cluster.kill(1);
    cluster.run(5.0);
    let stuck = cluster.oracle.borrow().writes;
    cluster.run(3.0);
    assert_eq!(cluster.oracle.borrow().writes, stuck, "rule 15: nothing completes without it");
    cluster.boot_directory();
    cluster.run(8.0);
    assert!(cluster.oracle.borrow().writes > stuck, "with the directory it goes on");
    cluster.boot(1);
    cluster.run(25.0);
    cluster.verify();
}

#[test]
fn a_replica_that_comes_back_is_taken_in_while_the_directory_is_silent() {
    let cluster = whole(6);
    cluster.clients(0, 2, Duration::from_secs(40));
    cluster.run(1.0);
    assert_eq!(cluster.owner(), Some(0));
    // Whether the CAS that marks it absent lands is in doubt for as long as nobody answers.
    cluster.world.partition(cluster.hosts[0].key, cluster.directory, true);
    cluster.kill(1);
    cluster.run(4.0);
    let stuck = cluster.oracle.borrow().writes;
    cluster.boot(1);
    cluster.run(15.0);
    let after = cluster.oracle.borrow().writes;
    assert!(after > stuck + 100, "it answers again, all components have it: {stuck} -> {after}");
    cluster.world.partition(cluster.hosts[0].key, cluster.directory, false);
    cluster.run(30.0);
    cluster.verify();
}

#[test]
fn an_idle_objects_lost_component_is_marked_after_a_minute() {
    let cluster = whole(7);
    cluster.clients(0, 2, Duration::from_secs(1));
    cluster.run(2.0);
    cluster.kill(2);
    let state = || cluster.objects(0).unwrap().status(OBJECT).unwrap().components[2].state;
    cluster.run(40.0);
    assert_eq!(state(), ComponentState::Active, "rule 18: its host may come back");
    cluster.run(40.0);
    assert_eq!(state(), ComponentState::Absent, "rule 18");
}

#[test]
fn ownership_follows_the_client() {
    let cluster = whole(6);
    let work = |at: usize| {
        let objects = cluster.objects(at).unwrap();
        let env = cluster.world.env(cluster.hosts[at].key).unwrap();
        let oracle = Rc::clone(&cluster.oracle);
        cluster.on(at, Duration::from_secs(20), async move {
            let begun = env.now();
            objects.set_attached(OBJECT, true);
            for block in 0..20 {
                put(&env, &objects, &oracle, block).await.unwrap();
                get(&env, &objects, &oracle, block).await.unwrap();
            }
            objects.set_attached(OBJECT, false);
            env.now().since(begun)
        })
    };
    assert!(work(0).is_some());
    assert_eq!(cluster.owner(), Some(0));
    for at in [1, 2, 0, 1] {
        let took = work(at).expect("in time");
        assert_eq!(cluster.owner(), Some(at));
        assert!(took < Duration::from_secs(2), "a hand-over waits for no grant: {took:?}");
    }
    cluster.verify();
}

/// As when a guest moves: its new host uses the volume while the old one still does.
#[test]
fn ownership_follows_a_guest_that_moves() {
    let cluster = whole(8);
    let use_from = |at: usize| {
        let objects = cluster.objects(at).unwrap();
        let env = cluster.world.env(cluster.hosts[at].key).unwrap();
        let oracle = Rc::clone(&cluster.oracle);
        objects.set_attached(OBJECT, true);
        cluster.on(at, Duration::from_secs(20), async move {
            put(&env, &objects, &oracle, at).await.unwrap();
            get(&env, &objects, &oracle, at).await.unwrap();
        })
    };
    assert!(use_from(0).is_some());
    assert!(use_from(1).is_some());
    cluster.run(20.0);
    assert_eq!(cluster.owner(), Some(0), "its own clients are not left alone");
    cluster.objects(0).unwrap().set_attached(OBJECT, false);
    cluster.run(10.0);
    assert!(use_from(1).is_some());
    assert_eq!(cluster.owner(), Some(1), "nobody uses it elsewhere");
    // Who leaves and comes again does not wait for its turn to ask.
    cluster.objects(1).unwrap().set_attached(OBJECT, false);
    assert!(use_from(0).is_some());
    cluster.run(1.0);
    assert!(use_from(0).is_some());
    assert_eq!(cluster.owner(), Some(0));
    cluster.verify();
}

/// A deposed owner steps down and consents (rules 20, 52b).
#[test]
fn an_object_given_away_waits_for_no_grant_that_another_object_renews() {
    let cluster = Cluster::new(9, Mutations::default());
    cluster.create_as(record_on(&[2, 3]));
    let mut other = record_on(&[2, 3]);
    other.id = ObjectId(OBJECT.0 + 1);
    for component in &mut other.components {
        component.id = ComponentId(component.id.0 + 100);
    }
    let other_id = other.id;
    cluster.create_as(other);
    let objects = cluster.objects(0).unwrap();
    let owned = cluster.on(0, Duration::from_secs(20), async move {
        (objects.acquire(OBJECT).await, objects.acquire(other_id).await)
    });
    assert_eq!(owned, Some((Ok(()), Ok(()))));
    assert_eq!(cluster.owner(), Some(0));
    // It steps down by its watch, and goes on renewing for the other one.
    cluster.give_to(1);
    let objects = cluster.objects(1).unwrap();
    let env = cluster.world.env(cluster.hosts[1].key).unwrap();
    let oracle = Rc::clone(&cluster.oracle);
    let done =
        cluster.on(1, Duration::from_secs(5), async move { put(&env, &objects, &oracle, 3).await });
    assert_eq!(done, Some(Ok(())), "in less than the time of a grant");
    assert_eq!(cluster.owner(), Some(1));
}

/// The news of a later claim comes before the answer to the own one (rules 23, 52b; the storm
/// campaign's seed 370004591). Whoever has consented to another owner must not become one.
#[test]
fn a_claim_that_was_overtaken_makes_no_owner() {
    let (late, next, copy) = (0, 1, 2);
    for seed in 10..18 {
        let cluster = Cluster::new(seed, Mutations::default());
        cluster.create_as(record_on(&[3]));
        cluster.world.late_frames(cluster.directory, LateFrame::DirectoryAnswer, HELD);
        let objects = cluster.objects(late).unwrap();
        let env = cluster.world.env(cluster.hosts[late].key).unwrap();
        let _attempt = env.spawn("acquire", async move {
            let _ = objects.acquire(OBJECT).await;
        });
        let is_claimed = || cluster.record().owner.is_some();
        assert!(cluster.world.run_until(HELD * 3, is_claimed), "seed {seed}: it claims");
        cluster.world.late_frames(cluster.directory, LateFrame::DirectoryAnswer, Duration::ZERO);
        // It hears of the next owner first, and has to tell a component that is not there.
        cluster.kill(copy);
        cluster.give_to(next);
        cluster.run(HELD.as_secs_f64());
        cluster.boot(copy);
        let objects = cluster.objects(next).unwrap();
        let env = cluster.world.env(cluster.hosts[next].key).unwrap();
        let oracle = Rc::clone(&cluster.oracle);
        let write = async move { put(&env, &objects, &oracle, 3).await };
        let done = cluster.on(next, Duration::from_secs(20), write);
        assert_eq!(done, Some(Ok(())), "seed {seed}: nobody renews a grant for the claim");
        assert_eq!(cluster.owner(), Some(next));
    }
}

/// Rule 36: the source fails, and the target's return goes on.
#[test]
fn a_source_that_restarts_unnoticed_does_not_hold_up_a_return() {
    let (first, second, owner) = (0, 1, 2);
    let cluster = Cluster::new(8, Mutations::default());
    cluster.create_as(record_on(&[1, 2]));
    let write = |block: usize| {
        let objects = cluster.objects(owner).unwrap();
        let env = cluster.world.env(cluster.hosts[owner].key).unwrap();
        let oracle = Rc::clone(&cluster.oracle);
        let done = cluster.on(owner, Duration::from_secs(20), async move {
            put(&env, &objects, &oracle, block).await
        });
        assert_eq!(done, Some(Ok(())));
    };
    write(1);
    assert_eq!(cluster.owner(), Some(owner), "it holds no component itself");
    cluster.kill(first);
    write(2);
    // No I/O from here on: nothing but the return asks the source for anything.
    cluster.kill(second);
    cluster.boot(second);
    cluster.boot(first);
    cluster.settle(60.0);
    write(3);
}

#[test]
fn one_copy_waits_for_its_host() {
    let cluster = Cluster::new(7, Mutations::default());
    cluster.create_as(record_on(&[2]));
    cluster.clients(0, 2, Duration::from_secs(30));
    cluster.run(2.0);
    let before = cluster.oracle.borrow().writes;
    assert!(before > 50);
    cluster.crash(1);
    cluster.run(5.0);
    let stuck = cluster.oracle.borrow().writes;
    cluster.boot(1);
    cluster.run(15.0);
    assert!(cluster.oracle.borrow().writes > stuck, "rule 41: I/O goes on");
    let status = cluster.objects(0).unwrap().status(OBJECT).unwrap();
    assert_eq!(status.components[0].state, ComponentState::Active);
    cluster.check();
}

/// Uneven links: components get the same write at different times, one of them far too late.
fn clog(cluster: &mut Cluster) {
    for a in 0..HOSTS {
        for b in (0..HOSTS).filter(|b| *b != a) {
            let worst = [0, 500, 5_000, 200_000][usize::try_from(cluster.rng.below(4)).unwrap()];
            let delay = Duration::from_micros(cluster.rng.below(worst + 1));
            cluster.world.clog(cluster.hosts[a].key, cluster.hosts[b].key, delay);
        }
    }
}

/// Random faults on random hosts, at most one host away at a time plus partitions.
fn campaign(seed: u64, mutations: Mutations, steps: usize) {
    let mut cluster = Cluster::new(seed, mutations);
    cluster.create();
    for at in 0..HOSTS {
        cluster.clients(at, 6, Duration::from_secs(600));
    }
    cluster.run(1.0);
    for _ in 0..steps {
        clog(&mut cluster);
        let at = usize::try_from(cluster.rng.below(HOSTS as u64)).unwrap();
        let fault = cluster.rng.below(6);
        match fault {
            0 => cluster.kill(at),
            1 => cluster.crash(at),
            2 => cluster.isolate(at, true, true),
            3 => cluster.isolate(at, false, true),
            4 => cluster.world.reset_links(cluster.hosts[at].key, cluster.hosts[(at + 1) % 3].key),
            _ => cluster.world.pause(cluster.hosts[at].key, Duration::from_secs(9)),
        }
        let wait = cluster.rng.below(12_000);
        cluster.run(wait as f64 / 1000.0);
        cluster.world.heal_all();
        if !cluster.world.is_up(cluster.hosts[at].key) {
            cluster.boot(at);
            let host = Rc::clone(&cluster.hosts[at]);
            let up = || host.objects.borrow().is_some();
            assert!(cluster.world.run_until(Duration::from_secs(20), up), "host starts");
            cluster.clients(at, 6, Duration::from_secs(600));
        }
        clog(&mut cluster);
        let rest = cluster.rng.below(15_000);
        cluster.run(1.0 + rest as f64 / 1000.0);
    }
    for at in 0..HOSTS {
        drop(cluster.objects(at));
    }
    // The last fault comes without any later write that could hide what it did.
    clog(&mut cluster);
    cluster.run(1.0);
    let owner = cluster.owner();
    cluster.stop.set(true);
    if let Some(owner) = owner {
        cluster.crash(owner);
    }
    cluster.run(12.0);
    cluster.world.heal_all();
    if let Some(owner) = owner {
        cluster.boot(owner);
    }
    cluster.run(10.0);
    cluster.verify();
    let oracle = cluster.oracle.borrow();
    assert!(oracle.writes > 100 && oracle.reads > 100, "{BLOCKS} blocks were used");
}

#[test]
fn random_faults_leave_every_promise_intact() {
    for seed in 100..103 {
        campaign(seed, Mutations::default(), 5);
    }
}

/// A campaign that cannot find a broken rule proves nothing.
fn finds(mutations: Mutations) -> bool {
    let fails = |seed| {
        let run = move || campaign(seed, mutations, 5);
        std::panic::catch_unwind(run).is_err()
    };
    (200..212).any(fails)
}

#[test]
fn tails_that_are_not_reconciled_are_noticed() {
    assert!(finds(Mutations { no_reconcile: true, ..Mutations::default() }), "rule 27");
}

#[test]
fn answers_before_all_components_have_it_are_noticed() {
    assert!(finds(Mutations { answer_before_all: true, ..Mutations::default() }), "rule 5");
}

#[test]
fn serving_before_the_unreached_are_marked_is_noticed() {
    assert!(finds(Mutations { serve_before_absent: true, ..Mutations::default() }), "rule 26");
}

/// Rule 22; and a lease key that is gone is a hint, no more (rule 52d).
#[test]
fn nobody_takes_over_what_it_cannot_reach() {
    let cluster = Cluster::new(11, Mutations::default());
    cluster.create_as(record_on(&[1, 2]));
    cluster.clients(0, 2, Duration::from_secs(60));
    cluster.run(1.0);
    assert_eq!(cluster.owner(), Some(0));
    let term = || cluster.objects(1).unwrap().status(OBJECT).unwrap().term;
    let before = term();
    // The other copy is marked absent; then the owner's lease key goes, for it lost the directory.
    let [owner, other] = [0, 1].map(|at| cluster.hosts[at].key);
    cluster.world.partition(owner, other, true);
    cluster.run(4.0);
    cluster.world.partition(owner, cluster.directory, true);
    cluster.clients(1, 1, Duration::from_secs(20));
    cluster.run(15.0);
    cluster.world.partition(owner, cluster.directory, false);
    cluster.run(2.0);
    assert_eq!((term(), cluster.owner()), (before, Some(0)), "its owner serves it all the time");
    cluster.world.heal_all();
    cluster.run(20.0);
    let status = cluster.objects(0).unwrap().status(OBJECT).unwrap();
    assert!(status.components.iter().all(|c| c.state == ComponentState::Active), "{status:?}");
}

/// Rule 18: a host that goes away while nothing is written is left alone, but not while reads wait
/// for its grant. It says nothing any more, so nothing but time tells that it is gone.
#[test]
fn reads_alone_do_not_wait_for_a_copy_that_is_gone() {
    let cluster = whole(70);
    cluster.clients(0, 2, Duration::from_secs(2));
    cluster.run(4.0);
    assert_eq!(cluster.owner(), Some(0));
    cluster.isolate(1, true, true);
    cluster.run(1.0);
    let objects = cluster.objects(0).unwrap();
    let env = cluster.world.env(cluster.hosts[0].key).unwrap();
    let oracle = Rc::clone(&cluster.oracle);
    let took = cluster.on(0, Duration::from_secs(100), async move {
        let begun = env.now();
        // Some are answered by the grant that is left; each waits for as long as clients do.
        for block in 0..20 {
            while get(&env, &objects, &oracle, block % 8).await.is_err() {}
            env.sleep(Duration::from_millis(500)).await;
        }
        env.now().since(begun)
    });
    let took = took.expect("all are answered");
    assert!(took < Duration::from_secs(30), "{took:?}, 10 s of it between the reads");
}
