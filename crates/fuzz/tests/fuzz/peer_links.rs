// SPDX-License-Identifier: Apache-2.0
//! Links between hosts, sent anything: by a caller, and by the host that was dialled.

use crate::streams::{SERVER, address, send, take, tell, with_server};
use crate::wire_frames::{frame, resealed, samples};
use base::{Incarnation, ShardId};
use env::Env;
use fuzz::Source;
use peer::{NotReady, PeerId, Peers};
use std::rc::Rc;
use std::time::Duration;
use wire::{Hello, Message, OwnerId, Request, Versions};

pub(crate) const CLUSTER: u64 = 77;

fuzz::targets! {
    peer_caller: 1500, sequences(), caller_of;
    peer_called: 1500, sequences(), called_of;
}

/// Introductions of the other host.
pub(crate) fn hello(incarnation: u64) -> Vec<u8> {
    let me = OwnerId { shard: ShardId(2), incarnation: Incarnation(incarnation) };
    frame(&Message::Hello(Hello { cluster: CLUSTER, me, versions: Versions::SPOKEN }), 0)
}

fn sequences() -> Vec<Vec<u8>> {
    let samples = samples();
    let mut sequences = vec![[hello(1), samples.concat()].concat(), [hello(9), hello(8)].concat()];
    sequences.extend(samples.iter().map(|sample| [hello(1), sample.clone()].concat()));
    sequences
}

/// The input as frames with the right checksums: cut where it says that frames begin.
fn sealed_frames(input: &[u8]) -> Vec<u8> {
    let found = input.windows(4).enumerate().filter(|(_, window)| window == b"GBNW");
    let mut starts: Vec<usize> = found.map(|(at, _)| at).collect();
    starts.push(input.len());
    starts.windows(2).flat_map(|pair| resealed(&input[pair[0]..pair[1]])).collect()
}

fn peers(env: &Env, host: u32, incarnation: u64) -> Peers {
    let me = PeerId { shard: ShardId(host), incarnation: Incarnation(incarnation) };
    Peers::new(env, me, CLUSTER, Rc::new(NotReady))
}

fn caller_of(input: &[u8]) {
    let input = input.to_vec();
    let serve = |env: Env| async move {
        let peers = peers(&env, 1, 1);
        peers.listen(address()).await.expect("a listener");
        std::future::pending::<()>().await;
    };
    with_server(serve, |env| async move {
        for bytes in [input.clone(), sealed_frames(&input)] {
            let _ = tell(&env, &bytes).await;
            let _ = tell(&env, &[hello(3), bytes].concat()).await;
        }
        // A later run of the host that was spoken for is taken in, and answered.
        let renew = Message::Request(Request::Release);
        let answered = tell(&env, &[hello(u64::MAX), frame(&renew, 7)].concat()).await;
        assert!(answered.len() > 128, "the listener is gone");
    });
}

fn called_of(input: &[u8]) {
    let mut from = Source::new(input);
    let (is_introduced, is_sealed) = (!from.u8().is_multiple_of(8), !from.u8().is_multiple_of(8));
    let mut answers = if is_sealed { sealed_frames(input) } else { input.to_vec() };
    if is_introduced {
        answers.splice(0..0, hello(1));
    }
    let serve = |env: Env| async move {
        let listener = env.listen(address()).await.expect("a listener");
        let tasks = env::TaskSet::default();
        while let Ok(link) = listener.accept().await {
            let (inner, answers) = (env.clone(), answers.clone());
            tasks.spawn(&env, "bad host", async move {
                let _ = env::join(send(&inner, &link, &answers), take(&inner, &link)).await;
            });
        }
    };
    with_server(serve, |env| async move {
        let peers = peers(&env, 1, 1);
        peers.set_address(ShardId(2), address());
        for _ in 0..20 {
            let call = peers.call(ShardId(2), Request::Release);
            let _ = env.timeout(Duration::from_secs(3), call).await;
            env.sleep(Duration::from_millis(100)).await;
        }
        let _ = (peers.stats(), peers.silent_for(ShardId(2)), SERVER);
    });
}
