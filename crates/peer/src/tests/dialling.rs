// SPDX-License-Identifier: Apache-2.0
//! What the end that dials does: whom it dials, and what it takes before the introduction.

use super::*;

#[test]
fn a_host_that_was_taken_out_is_a_stranger_until_it_has_an_address_anew() {
    for seed in 0..4 {
        let (world, a, b) = pair(seed);
        let peers = a.peers();
        for _ in 0..2 {
            assert!(a.is_up(2) && b.is_up(1), "seed {seed}");
            peers.revoke(ShardId(2));
            assert!(!a.is_up(2), "seed {seed}: its links end");
            let strangers = peers.stats().strangers;
            world.run_for(Duration::from_secs(10));
            assert!(!a.is_up(2) && !b.is_up(1), "seed {seed}: it is no member any more");
            assert!(peers.stats().strangers > strangers, "seed {seed}: it dials in vain");
            peers.set_address(ShardId(2), address(2));
            let are_up = || a.is_up(2) && b.is_up(1);
            assert!(world.run_until(MINUTE, are_up), "seed {seed}: it is one again");
        }
    }
}

/// What host 2 counted, and whether its link was up, when it dialled host 1 and got these frames.
fn answered_by_hand(frames: Vec<Vec<u8>>) -> (crate::PeerStats, bool) {
    let world = World::new(WorldOptions::default());
    let (a, b) = (Node::new(&world, 1), Node::new(&world, 2));
    world.boot(a.key, |env| {
        Box::pin(async move {
            let listener = env.listen(address(1)).await.expect("a free port");
            while let Ok(link) = listener.accept().await {
                let bytes = frames.concat();
                let mut buf = env.buf(bytes.len());
                buf.copy_from_slice(&bytes);
                let _ = link.send(buf.freeze()).await;
                listen(&env, &link, &RefCell::default()).await;
            }
        })
    });
    b.boot(&world, 1, &[1]);
    world.run_for(Duration::from_secs(1));
    (b.peers().stats(), b.is_up(1))
}

#[test]
fn nothing_is_taken_before_the_host_that_was_dialled_has_introduced_itself() {
    let good = hello(CLUSTER, 1, 1);
    let (stats, is_up) = answered_by_hand(vec![good.clone(), frame(&Message::Ping)]);
    assert_eq!((stats.malformed, stats.links, is_up), (0, 1, true));
    for early in [
        Message::Ping,
        Message::Pong,
        Message::Response(Response::Done),
        Message::Request(Request::Release),
    ] {
        let (stats, is_up) = answered_by_hand(vec![frame(&early), good.clone()]);
        assert!(stats.malformed > 0, "{early:?} is out of place");
        assert_eq!((stats.links, is_up), (0, false), "{early:?}");
    }
}
