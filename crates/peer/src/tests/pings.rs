// SPDX-License-Identifier: Apache-2.0
//! Who is silent is noticed: on a link in use soon, and on one at rest once it is used.

use super::*;

/// A link at rest is pinged after 8 s, and over after 32.
const RARELY: PeerOptions = PeerOptions {
    waiting_bytes_max: 256 << 20,
    ping_spacing: Duration::from_secs(4), // two links
    versions: Versions::SPOKEN,
};
/// After so long without a frame but pings, a link is at rest.
const AT_REST: Duration = Duration::from_secs(30);

fn resting_pair(seed: u64) -> (World, Node, Node) {
    let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
    let with = |id| Node { options: RARELY, ..Node::new(&world, id) };
    let (a, b) = (with(1), with(2));
    a.boot(&world, 1, &[2]);
    b.boot(&world, 1, &[1]);
    assert!(world.run_until(MINUTE, || a.is_up(2) && b.is_up(1)), "seed {seed}");
    world.run_for(AT_REST + Duration::from_millis(seed * 37));
    (world, a, b)
}

/// A call to a host that was cut off ends with its link, after about two seconds.
fn assert_soon_reset(world: &World, a: &Node, seed: u64) {
    let env = world.env(a.key).expect("it runs");
    let (tasks, start) = (TaskSet::default(), env.now());
    let call = follow(&env, &tasks, a.peers().call(ShardId(2), write(&env, 1, 8)));
    assert!(world.run_until(MINUTE, || call.borrow().is_some()));
    assert_eq!(error(&call), Some(PeerError::Reset));
    let after = call.borrow().as_ref().map(|(_, at)| at.since(start)).unwrap_or_default();
    assert!(after > Duration::from_millis(1200), "seed {seed}: {after:?}");
    assert!(after < Duration::from_millis(2400), "seed {seed}: {after:?}");
}

#[test]
fn a_host_that_is_cut_off_is_noticed_after_two_seconds() {
    for seed in 0..10 {
        let (world, a, b) = pair(seed);
        world.run_for(Duration::from_secs(seed));
        b.mode.set(Mode::Hold);
        world.partition(a.key, b.key, true);
        assert_soon_reset(&world, &a, seed);
        assert!(a.peers().stats().silent >= 1);
        world.run_for(Duration::from_secs(7));
        world.heal_all();
        let back = || a.is_up(2) && b.is_up(1);
        assert!(world.run_until(Duration::from_secs(4), back), "seed {seed}");
        assert!(b.seen.borrow().is_empty(), "seed {seed}: a dead link's request came late");
    }
}

#[test]
fn links_at_rest_live_and_cost_little() {
    let (world, a, b) = resting_pair(1);
    let before = a.peers().stats().frames_sent;
    world.run_for(Duration::from_secs(240));
    assert!(a.is_up(2) && b.is_up(1));
    assert_eq!((a.peers().stats().links, a.peers().stats().silent), (2, 0), "never replaced");
    let sent = a.peers().stats().frames_sent - before;
    assert!((30..=120).contains(&sent), "a ping or a pong or both on two links in 8 s: {sent}");
    assert_eq!(a.peers().heard_every(), Duration::from_secs(8));
    assert!(a.peers().silent_for(ShardId(2)) < Duration::from_secs(9));
}

#[test]
fn who_uses_a_link_that_was_at_rest_learns_soon_that_it_is_dead() {
    for seed in 0..10 {
        let (world, a, b) = resting_pair(seed);
        world.partition(a.key, b.key, true);
        world.run_for(Duration::from_secs(7));
        assert!(a.is_up(2), "seed {seed}: nobody missed anything so far");
        assert_soon_reset(&world, &a, seed);
    }
}

#[test]
fn a_link_on_which_an_answer_is_awaited_is_in_use() {
    for seed in 0..10 {
        let (world, a, b) = resting_pair(seed);
        b.mode.set(Mode::Hold);
        let env = world.env(a.key).expect("it runs");
        let (peers, tasks) = (a.peers(), TaskSet::default());
        let call = follow(&env, &tasks, peers.call(ShardId(2), write(&env, 1, 8)));
        world.run_for(AT_REST);
        assert!(call.borrow().is_none(), "seed {seed}: it is answered late, and that is no fault");
        world.partition(a.key, b.key, true);
        let is_known = || call.borrow().is_some();
        assert!(world.run_until(Duration::from_millis(2400), is_known), "seed {seed}");
        assert_eq!(error(&call), Some(PeerError::Reset));
    }
}

#[test]
fn a_silent_link_at_rest_ends() {
    let (world, a, b) = resting_pair(1);
    world.partition(a.key, b.key, true);
    assert!(world.run_until(Duration::from_secs(45), || !a.is_up(2) && !b.is_up(1)));
    world.heal_all();
    assert!(world.run_until(Duration::from_secs(4), || a.is_up(2) && b.is_up(1)));
}
