// SPDX-License-Identifier: Apache-2.0
//! Links whose ends prove themselves, beside those whose ends do not.

use super::*;

impl Node {
    /// The same, known by an authority. Its links are encrypted from the start or not.
    pub(super) fn known_by(self, authority: &SimulatedAuthority, is_encrypted: bool) -> Self {
        let identity = Some(authority.identity(ShardId(self.id)));
        Self { security: LinkSecurity { identity, is_encrypted }, ..self }
    }
}

/// Hosts 1 and 2, whose links are encrypted from the start or not.
fn two(seed: u64, one: bool, two: bool) -> (World, Node, Node) {
    let world = World::new(WorldOptions { seed, ..WorldOptions::default() });
    let authority = SimulatedAuthority::new();
    let a = Node::new(&world, 1).known_by(&authority, one);
    let b = Node::new(&world, 2).known_by(&authority, two);
    a.boot(&world, 1, &[2]);
    b.boot(&world, 1, &[1]);
    (world, a, b)
}

fn encrypted(node: &Node) -> u64 {
    node.peers().stats().encrypted
}

#[test]
fn a_cluster_changes_over_in_use() {
    for seed in 0..10 {
        let (world, a, b) = two(seed, false, false);
        let are_up = || a.is_up(2) && b.is_up(1);
        assert!(world.run_until(MINUTE, are_up));
        assert_eq!((encrypted(&a), encrypted(&b)), (0, 0));

        // One learns of it before the other. What is not encrypted ends; what is lives on.
        a.peers().encrypt(true);
        world.run_for(Duration::from_millis(seed * 100));
        b.peers().encrypt(true);
        world.run_for(Duration::from_millis(10));
        assert!(world.run_until(Duration::from_secs(2), are_up), "seed {seed}");
        assert!(encrypted(&a) >= 2 && encrypted(&b) >= 2);
        let env = world.env(a.key).expect("it runs");
        let (peers, tasks) = (a.peers(), TaskSet::default());
        let call = follow(&env, &tasks, peers.call(ShardId(2), write(&env, 1, 1000)));
        assert!(world.run_until(MINUTE, || is_durable(&call, 1)), "seed {seed}");

        // And back. One that says it again changes nothing.
        b.peers().encrypt(false);
        world.run_for(Duration::from_millis(seed * 100));
        a.peers().encrypt(false);
        world.run_for(Duration::from_secs(2));
        assert!(are_up(), "seed {seed}");
        let (before, links) = (encrypted(&a), a.peers().stats().links);
        a.peers().encrypt(false);
        world.run_for(Duration::from_secs(2));
        assert!(are_up() && a.peers().stats().links == links, "seed {seed}");
        assert_eq!(encrypted(&a), before, "seed {seed}");
    }
}

#[test]
fn where_links_are_encrypted_no_other_is_taken() {
    let (world, a, b) = two(4, true, false);
    world.run_for(Duration::from_secs(10));
    assert!(a.is_up(2), "who can encrypt takes what is encrypted");
    assert!(!b.is_up(1), "a link that is not is refused");
    assert!(a.peers().stats().unproven >= 5, "each time that it is dialled");
    assert_eq!(b.seen.borrow().len() + a.seen.borrow().len(), 0);
}

#[test]
fn a_host_without_a_certificate_is_shut_out_and_says_so() {
    let world = World::new(WorldOptions { seed: 5, ..WorldOptions::default() });
    let a = Node::new(&world, 1).known_by(&SimulatedAuthority::new(), true);
    let mut b = Node::new(&world, 2);
    b.security.is_encrypted = true;
    a.boot(&world, 1, &[2]);
    b.boot(&world, 1, &[1]);
    world.run_for(Duration::from_secs(10));
    assert!(!a.is_up(2) && !b.is_up(1));
    let why = b.peers().unproven();
    assert_eq!(why.len(), 1);
    assert!(why[0].0 == ShardId(1) && why[0].1.contains("ca-key.pem"), "{why:?}");
    assert!(!a.peers().unproven().is_empty(), "the other one says that nobody answered it");
}

#[test]
fn a_host_of_another_authority_is_shut_out() {
    let world = World::new(WorldOptions { seed: 6, ..WorldOptions::default() });
    let (ours, theirs) = (SimulatedAuthority::new(), SimulatedAuthority::new());
    let a = Node::new(&world, 1).known_by(&ours, true);
    let b = Node::new(&world, 2).known_by(&theirs, true);
    a.boot(&world, 1, &[2]);
    b.boot(&world, 1, &[1]);
    world.run_for(Duration::from_secs(10));
    assert!(!a.is_up(2) && !b.is_up(1));
    assert!(a.peers().unproven()[0].1.contains("not let in"), "{:?}", a.peers().unproven());
    let dialled = a.peers().stats().unproven;
    assert!((10..60).contains(&dialled), "twice a second each way, not more: {dialled}");
}

#[test]
fn a_host_is_believed_to_be_none_but_itself() {
    // Host 3 has a certificate of the cluster, and says that it is host 2.
    let world = World::new(WorldOptions { seed: 7, ..WorldOptions::default() });
    let authority = SimulatedAuthority::new();
    let a = Node::new(&world, 1).known_by(&authority, true);
    let mut b = Node::new(&world, 2);
    b.security =
        LinkSecurity { identity: Some(authority.identity(ShardId(3))), is_encrypted: true };
    a.boot(&world, 1, &[2]);
    b.boot(&world, 9, &[1]);
    world.run_for(Duration::from_secs(10));
    assert!(!a.is_up(2) && !b.is_up(1));
    assert!(a.peers().stats().strangers >= 5, "what it dialled is dropped at its introduction");
    assert_eq!(a.peers().incarnation(ShardId(2)), None, "nothing that it says is believed");
    assert!(a.peers().unproven()[0].1.contains("not let in"));
}

#[test]
fn silence_before_anybody_is_known_ends() {
    let world = World::new(WorldOptions { seed: 8, ..WorldOptions::default() });
    let a = Node::new(&world, 1).known_by(&SimulatedAuthority::new(), true);
    a.boot(&world, 1, &[]);
    let stranger = world.add_host("stranger", ip(9));
    let ended = Rc::new(Cell::new(0));
    let count = Rc::clone(&ended);
    world.boot(stranger, move |env| {
        Box::pin(async move {
            for first in [&b""[..], &[0x16], &[0x16, 3, 1, 2, 0], b"GET / HTTP/1.1\r\n"] {
                let link = env.dial(address(1)).await.expect("it listens");
                let mut buf = env.buf(first.len());
                buf.copy_from_slice(first);
                link.send(buf.freeze()).await.expect("sent");
                let gone = env.timeout(Duration::from_secs(3), link.recv(env.buf(64), 0)).await;
                // An alert of TLS may come first.
                if gone.is_ok() {
                    count.set(count.get() + 1);
                }
            }
        })
    });
    assert!(world.run_until(MINUTE, || ended.get() == 4));
}
