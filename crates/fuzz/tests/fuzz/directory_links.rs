// SPDX-License-Identifier: Apache-2.0
//! The directory's server sent anything, and its client answered anything.

use crate::records::{frames, resealed};
use crate::streams::{address, send, take, tell, with_server};
use directory::protocol::{DirectoryRequest, encode_request};
use directory::{Directory, MemoryBackend, ServerFaults, serve_with};
use env::Env;
use fuzz::Source;
use std::rc::Rc;
use std::time::Duration;

fuzz::targets! {
    directory_server: 1500, sequences(), server_of;
    directory_client: 800, sequences(), client_of;
}

/// Frames one behind the other.
fn sequences() -> Vec<Vec<u8>> {
    let frames = frames();
    let mut sequences = vec![frames[..9].concat(), frames[9..].concat(), frames.concat()];
    sequences.extend(frames);
    sequences
}

/// The input as frames with the right checksums: cut where it says that frames begin.
fn sealed_frames(input: &[u8]) -> Vec<u8> {
    let mut starts: Vec<usize> = input
        .windows(4)
        .enumerate()
        .filter(|(_, window)| window == b"GDIR")
        .map(|(at, _)| at)
        .collect();
    starts.push(input.len());
    starts.windows(2).flat_map(|pair| resealed(&input[pair[0]..pair[1]])).collect()
}

async fn serve(env: Env) {
    let listener = env.listen(address()).await.expect("a listener");
    let (backend, faults) = (Rc::new(MemoryBackend::default()), ServerFaults::default());
    let end = serve_with(&env, listener, backend, faults).await;
    panic!("the server ended: {end:?}");
}

fn server_of(input: &[u8]) {
    let input = input.to_vec();
    with_server(serve, |env| async move {
        for bytes in [input.clone(), sealed_frames(&input)] {
            let _ = tell(&env, &bytes).await;
        }
        // Others are served as before.
        let answered = tell(&env, &encode_request(1, &DirectoryRequest::Ping)).await;
        assert!(!answered.is_empty(), "the server is gone");
    });
}

/// Answers whatever is asked with the input, again and again.
async fn answer_badly(env: Env, input: Vec<u8>) {
    let listener = env.listen(address()).await.expect("a listener");
    let tasks = env::TaskSet::default();
    loop {
        let Ok(link) = listener.accept().await else { return };
        let (inner, input) = (env.clone(), input.clone());
        tasks.spawn(&env, "bad answers", async move {
            let _ = inner.timeout(Duration::from_millis(5), take(&inner, &link)).await;
            let _ = send(&inner, &link, &input).await;
            let _ = take(&inner, &link).await;
        });
    }
}

fn client_of(input: &[u8]) {
    let is_sealed = !Source::new(input).u8().is_multiple_of(4);
    let answers = if is_sealed { sealed_frames(input) } else { input.to_vec() };
    let serve = |env: Env| answer_badly(env, answers);
    with_server(serve, |env| async move {
        let directory = Directory::connect(&env, address());
        let mut watch = directory.watch("/gabion/");
        // Every call ends, with an answer or an error; a watch may wait for ever.
        let _ = directory.get("/gabion/volume/vm").await;
        let _ = directory.list("/gabion/").await;
        let _ = directory.lease_grant(Duration::from_secs(5)).await;
        let put = directory::Transaction::new().put("/gabion/a", [1]);
        let _ = directory.transact(put).await;
        let _ = env.timeout(Duration::from_secs(1), watch.next()).await;
    });
}
