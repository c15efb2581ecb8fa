// SPDX-License-Identifier: Apache-2.0
//! Hosts of different releases: what their links speak, and who has none.

use super::*;
use crate::peers::NAMED_MAX;
use sim::HostKey;

fn speaks(min: u8, max: u8) -> PeerOptions {
    let versions = Versions::new(min, max).expect("the lower one comes first");
    PeerOptions { versions, ..PeerOptions::default() }
}

/// Hosts 1 and 2 that speak these, and know each other's address.
fn two(seed: u64, first: (u8, u8), second: (u8, u8)) -> (World, Node, Node) {
    let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
    let (mut a, mut b) = (Node::new(&world, 1), Node::new(&world, 2));
    (a.options, b.options) = (speaks(first.0, first.1), speaks(second.0, second.1));
    a.boot(&world, 1, &[2]);
    b.boot(&world, 1, &[1]);
    (world, a, b)
}

/// The versions of the links between the two, in both directions.
fn spoken(a: &Node, b: &Node) -> [Option<u8>; 2] {
    [a.peers().version(ShardId(2)), b.peers().version(ShardId(1))]
}

/// Whether a write of `from` is answered by host `to`.
fn is_answered(world: &World, from: &Node, to: u32, number: u64) -> bool {
    let (env, tasks) = (world.env(from.key).expect("it runs"), TaskSet::default());
    let call = from.peers().call(ShardId(to), write(&env, number, 8));
    let outcome = follow(&env, &tasks, call);
    world.run_until(MINUTE, || outcome.borrow().is_some()) && is_durable(&outcome, number)
}

#[test]
fn two_hosts_talk_in_the_newest_version_of_both() {
    for (seed, (first, second, agreed)) in (0..).zip([
        ((6, 6), (6, 6), 6),
        ((6, 6), (6, 7), 6),
        ((6, 8), (7, 9), 8),
        ((6, 9), (7, 8), 8),
        ((200, 255), (1, 201), 201),
    ]) {
        let (world, a, b) = two(seed, first, second);
        assert!(world.run_until(MINUTE, || a.is_up(2) && b.is_up(1)), "{first:?}, {second:?}");
        assert_eq!(spoken(&a, &b), [Some(agreed); 2], "{first:?} and {second:?}");
        assert!(is_answered(&world, &a, 2, 1) && is_answered(&world, &b, 1, 2));
        world.run_for(Duration::from_secs(30));
        for (node, newest) in [(&a, first.1), (&b, second.1)] {
            let (peers, stats) = (node.peers(), node.peers().stats());
            assert_eq!((stats.links, stats.malformed, stats.incompatible), (2, 0, 0), "{stats:?}");
            assert_eq!(peers.version(ShardId(node.id)), Some(newest), "with itself");
            assert_eq!(peers.version(ShardId(9)), None, "there is none");
            assert_eq!(peers.incompatible(), []);
        }
        world.kill(b.key);
        assert!(world.run_until(MINUTE, || !a.is_up(2)));
        assert_eq!(a.peers().version(ShardId(2)), None, "the link is over");
    }
}

#[test]
fn hosts_without_a_version_in_common_have_no_link_and_say_what_the_other_one_speaks() {
    for seed in 0..8 {
        let (world, a, b) = two(seed, (6, 7), (8, 9));
        world.run_for(Duration::from_secs(20));
        assert_eq!(spoken(&a, &b), [None; 2], "seed {seed}");
        for (node, other, theirs) in [(&a, 2, (8, 9)), (&b, 1, (6, 7))] {
            let (peers, stats) = (node.peers(), node.peers().stats());
            assert!(!peers.is_up(ShardId(other)) && stats.links == 0, "seed {seed}");
            assert!((20..200).contains(&stats.incompatible), "tried twice a second: {stats:?}");
            assert_eq!((stats.malformed, stats.strangers, stats.silent), (0, 0, 0), "seed {seed}");
            let theirs = speaks(theirs.0, theirs.1).versions;
            assert_eq!(peers.incompatible(), [(ShardId(other), theirs)], "seed {seed}");
            assert_eq!(peers.incarnation(ShardId(other)), Some(Incarnation(1)));
        }
        // One end dials alone: both know all the same.
        world.kill(a.key);
        a.boot(&world, 2, &[]);
        let said = || a.peers().incompatible().len() == 1;
        assert!(world.run_until(MINUTE, || a.peers.borrow().is_some() && said()), "seed {seed}");
        b.peers().revoke(ShardId(1));
        assert_eq!(b.peers().incompatible(), [], "it is no member any more");
    }
}

#[test]
fn a_refusal_is_news_once_for_each_run_of_the_other_host() {
    let (world, a, _b) = two(5, (6, 7), (8, 9));
    world.run_for(Duration::from_secs(5));
    let remote = a.peers().0.remote(ShardId(2));
    let (theirs, others) = (speaks(8, 9).versions, speaks(8, 8).versions);
    assert!(!remote.is_refused_anew(Incarnation(1), theirs), "it was told of the first time");
    for (run, versions) in [(2, theirs), (2, others), (3, theirs)] {
        assert!(remote.is_refused_anew(Incarnation(run), versions), "{run}: {versions}");
        assert!(!remote.is_refused_anew(Incarnation(run), versions), "{run}: {versions}");
    }
}

#[test]
fn a_host_that_comes_back_in_another_release_agrees_anew() {
    let (world, a, mut b) = two(3, (6, 8), (6, 6));
    for (run, range, agreed) in
        [(1, (6, 6), Some(6)), (2, (6, 7), Some(7)), (3, (9, 9), None), (4, (7, 9), Some(8))]
    {
        if run > 1 {
            world.kill(b.key);
            b.options = speaks(range.0, range.1);
            b.boot(&world, run, &[1]);
        }
        let is_known = || {
            a.peers.borrow().is_some()
                && a.peers().incarnation(ShardId(2)) == Some(Incarnation(run))
                && (agreed.is_none() || (a.is_up(2) && b.is_up(1)))
        };
        assert!(world.run_until(MINUTE, is_known), "run {run}");
        world.run_for(Duration::from_secs(5));
        assert_eq!(spoken(&a, &b), [agreed; 2], "run {run}");
        let refused = a.peers().incompatible();
        let theirs = (ShardId(2), b.options.versions);
        assert_eq!(refused, if agreed.is_none() { vec![theirs] } else { vec![] }, "run {run}");
        if agreed.is_some() {
            assert!(is_answered(&world, &a, 2, run) && is_answered(&world, &b, 1, 100 + run));
        }
    }
}

#[test]
#[should_panic(expected = "a link has one version for its life")]
fn a_link_has_one_version_for_its_life() {
    let (_world, a, _b) = pair(1);
    let out = a.peers().0.live(ShardId(2)).expect("it is up");
    out.port.agree(VERSION);
}

#[test]
fn frames_of_another_version_than_agreed_end_the_link() {
    let theirs = Versions::new(7, 9).expect("the lower one comes first");
    let good = hello_of(theirs, CLUSTER, 1, 1);
    for version in 5..=10 {
        let frames = vec![good.clone(), frame_of(version, &Message::Ping)];
        let (peers, bytes, was_closed) = by_hand_to(1, (Mode::AtOnce, speaks(6, 8)), frames);
        let ours = speaks(6, 8).versions;
        let greeting = hello_of(ours, CLUSTER, 2, 1);
        assert!(bytes.starts_with(&greeting), "an introduction is of no version");
        let is_agreed = version == 8;
        let malformed = u64::from(!is_agreed);
        assert_eq!((was_closed, peers.stats().malformed), (!is_agreed, malformed), "{version}");
        let pong = frame_of(8, &Message::Pong);
        assert_eq!(bytes[greeting.len()..].starts_with(&pong), is_agreed, "{version}");
    }
}

#[test]
fn who_was_refused_may_say_nothing_more_and_is_not_kept() {
    let good = hello_of(speaks(8, 9).versions, CLUSTER, 1, 1);
    let greeting = hello_of(speaks(6, 7).versions, CLUSTER, 2, 1);
    for more in [
        good.clone(),
        frame_of(8, &Message::Ping),
        frame_of(7, &Message::Request(Request::Release)),
    ] {
        let frames = vec![good.clone(), more];
        let (peers, bytes, was_closed) = by_hand_to(1, (Mode::AtOnce, speaks(6, 7)), frames);
        let stats = peers.stats();
        assert_eq!((stats.incompatible, stats.malformed, stats.links), (1, 1, 0), "{stats:?}");
        assert!(was_closed && greeting.starts_with(&bytes), "at most an introduction");
    }
    // Nor is one that stays and says nothing.
    let world = World::new(WorldOptions::default());
    let (a, mut b) = (Node::new(&world, 1), Node::new(&world, 2));
    b.options = speaks(6, 7);
    b.boot(&world, 1, &[]);
    world.run_for(Duration::from_millis(1));
    let heard = dial_with(&world, a.key, vec![good]);
    world.run_for(Duration::from_secs(5));
    assert_eq!(heard.borrow()[0], (greeting, true), "told, and then dropped");
    assert_eq!(b.peers().stats().silent, 1);
}

#[test]
fn so_many_refused_hosts_are_named() {
    let world = World::new(WorldOptions::default());
    let (a, b) = (Node::new(&world, 1), Node::new(&world, 2));
    b.boot(&world, 1, &[]);
    world.run_for(Duration::from_millis(1));
    let theirs = speaks(VERSION + 1, VERSION + 1).versions;
    let hellos = (10..110).map(|host| hello_of(theirs, CLUSTER, host, 1)).collect();
    drop(dial_with(&world, a.key, hellos));
    assert!(world.run_until(10 * MINUTE, || b.peers().stats().incompatible == 100));
    assert_eq!(b.peers().incompatible().len(), NAMED_MAX);
}

type Heard = Rc<RefCell<Vec<(Vec<u8>, bool)>>>;

/// Dials host 2 with each of these introductions. What each link brought, and whether it ended.
fn dial_with(world: &World, key: HostKey, hellos: Vec<Vec<u8>>) -> Heard {
    let heard = Heard::default();
    let place = Rc::clone(&heard);
    world.boot(key, |env| {
        Box::pin(async move {
            for hello in hellos {
                let link = env.dial(address(2)).await.expect("it listens");
                let mut buf = env.buf(hello.len());
                buf.copy_from_slice(&hello);
                let _ = link.send(buf.freeze()).await;
                let one = RefCell::default();
                listen(&env, &link, &one).await;
                place.borrow_mut().push(one.take());
            }
        })
    });
    heard
}

#[test]
fn nothing_but_an_introduction_is_said_before_there_is_a_version() {
    // The listener takes its time. The host that dialled must not ping it meanwhile.
    let world = World::new(WorldOptions::default());
    let (a, b) = (Node::new(&world, 1), Node::new(&world, 2));
    let heard: Rc<RefCell<(Vec<u8>, bool)>> = Rc::default();
    let place = Rc::clone(&heard);
    world.boot(a.key, |env| {
        Box::pin(async move {
            let listener = env.listen(address(1)).await.expect("a free port");
            let link = listener.accept().await.expect("a caller");
            listen(&env, &link, &place).await;
        })
    });
    b.boot(&world, 1, &[1]);
    world.run_for(Duration::from_secs(10));
    let (bytes, was_closed) = heard.take();
    assert_eq!(bytes, hello(CLUSTER, 2, 1));
    assert!(was_closed, "who is silent is dropped all the same");
}
