// SPDX-License-Identifier: Apache-2.0
//! What every [`Driver`](crate::Driver) must do: one suite, run against each implementation.
//!
//! Each function panics with a sentence if the driver breaks its contract. How fast the driver is
//! does not matter. [`network`] needs addresses at which nobody listens yet. [`disk`] needs a path
//! where nothing stands; nothing may stand there with the suffix `-none` either.

use crate::channel::oneshot;
use crate::{
    Address, Buf, Disk, Durability, Either, Env, IoError, Link, Listener, OpenDisk, Slice, TaskSet,
    join, join_all, select,
};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// Size of the disk that the suite creates, bytes.
pub const DISK_SIZE: u64 = 4 << 20;
/// Bytes that go each way in the stream test: more than a socket buffer holds.
const STREAM_BYTES: usize = 3 << 20;
/// The largest piece of the stream test. The pieces differ in size on purpose.
const PIECE_MAX: usize = 300_000;

/// Bytes that depend on their place and on `seed`, so that misplaced or old data is noticed.
fn pattern(len: usize, seed: u64) -> impl Iterator<Item = u8> {
    (0..len as u64).map(move |at| (at.wrapping_mul(31) ^ (at >> 9) ^ seed.wrapping_mul(157)) as u8)
}

fn filled(env: &Env, len: usize, seed: u64) -> Slice {
    let mut buf = env.buf(len);
    for (place, byte) in buf.iter_mut().zip(pattern(len, seed)) {
        *place = byte;
    }
    buf.freeze()
}

fn assert_filled(bytes: &[u8], seed: u64, what: &str) {
    let wrong = bytes.iter().zip(pattern(bytes.len(), seed)).position(|(is, want)| *is != want);
    assert_eq!(wrong, None, "{what}: first wrong byte of {}", bytes.len());
}

/// Tests every operation on disks. Leaves a file of [`DISK_SIZE`] at `path`.
pub async fn disk(env: &Env, path: &str) {
    disk_open(env, path).await;
    let disk = open(env, path).await;
    disk_transfers(env, &disk).await;
    disk_concurrency(env, &disk).await;
    disk_discard(env, &disk).await;
    drop(disk);
    disk_detached(env, path).await;
}

fn existing(path: &str) -> OpenDisk {
    OpenDisk { path: path.to_owned(), create: None }
}

async fn open(env: &Env, path: &str) -> Disk {
    env.open_disk(existing(path)).await.expect("an existing disk that nobody uses opens")
}

/// Opens a disk as soon as operations that were left under way have ended.
async fn open_when_free(env: &Env, path: &str) -> Disk {
    loop {
        match env.open_disk(existing(path)).await {
            Ok(disk) => return disk,
            Err(IoError::Busy) => env.sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("reopening failed: {error}"),
        }
    }
}

async fn disk_open(env: &Env, path: &str) {
    let none = format!("{path}-none");
    let missing = env.open_disk(existing(&none)).await.err();
    assert_eq!(missing, Some(IoError::NotFound), "a missing disk is not created by accident");

    let create = OpenDisk { path: path.to_owned(), create: Some(DISK_SIZE) };
    let disk = env.open_disk(create.clone()).await.expect("a new disk is created");
    let info = disk.info();
    assert_eq!((info.size, info.is_file, info.is_new), (DISK_SIZE, true, true));
    let content = disk.read(0, env.buf(DISK_SIZE as usize)).await.expect("a new disk reads");
    assert!(content.iter().all(|byte| *byte == 0), "a new disk is all zeros");

    for options in [existing(path), create] {
        let second = env.open_disk(options).await.err();
        assert_eq!(second, Some(IoError::Busy), "a disk in use opened twice");
    }
    let clone = disk.clone();
    drop(disk);
    assert_eq!(env.open_disk(existing(path)).await.err(), Some(IoError::Busy), "a clone keeps it");
    drop(clone);

    let larger = OpenDisk { path: path.to_owned(), create: Some(DISK_SIZE * 2) };
    let disk = env.open_disk(larger).await.expect("closed means free");
    let info = disk.info();
    assert_eq!((info.size, info.is_new), (DISK_SIZE, false), "what stands there keeps its size");
}

async fn disk_transfers(env: &Env, disk: &Disk) {
    let places =
        [(0, 512), (512, 4096), (8192, 65_536), (1 << 20, 1 << 20), (DISK_SIZE - 512, 512)];
    for (seed, (offset, len)) in (1..).zip(places) {
        for durability in [Durability::Cached, Durability::Durable] {
            let seed = seed * 2 + u64::from(durability == Durability::Durable);
            let from = filled(env, len, seed);
            disk.write(offset, from, durability).await.expect("a write succeeds");
            let back = disk.read(offset, env.buf(len)).await.expect("a read succeeds");
            assert_eq!(back.len(), len, "a read keeps its buffer's length");
            assert_filled(&back, seed, "read back");
        }
    }
    disk.flush().await.expect("a flush succeeds");
    for (seed, (offset, len)) in (1..).zip(places) {
        let back = disk.read(offset, env.buf(len)).await.expect("a read succeeds");
        assert_filled(&back, seed * 2 + 1, "neighbouring writes stay apart");
    }

    // A part of a larger buffer goes to the disk without its neighbours.
    let whole = filled(env, 16_384, 77);
    let part = whole.slice(4096..12_288);
    disk.write(262_144, part, Durability::Durable).await.expect("a part is written");
    let back = disk.read(262_144, env.buf(8192)).await.expect("a part reads");
    assert_eq!(&back[..], &whole[4096..12_288], "the right part was written");
}

/// Two tasks write in turns, and many operations are in flight at once.
async fn disk_concurrency(env: &Env, disk: &Disk) {
    let tasks = TaskSet::default();
    let mut ends = Vec::new();
    for half in 0..2_u64 {
        let (end, ended) = oneshot();
        let (env2, disk) = (env.clone(), disk.clone());
        tasks.spawn(env, "writer", async move {
            for round in 0..16_u64 {
                let offset = (round * 2 + half) * 4096;
                let seed = 1000 + round * 2 + half;
                let write = disk.write(offset, filled(&env2, 4096, seed), Durability::Durable);
                write.await.expect("an interleaved write");
                let back = disk.read(offset, env2.buf(4096)).await.expect("an interleaved read");
                assert_filled(&back, seed, "interleaved");
            }
            end.send(());
        });
        ends.push(ended);
    }
    for ended in ends {
        assert_eq!(ended.recv().await, Some(()), "a writer finished");
    }

    // More operations at once than a submission queue holds.
    let writes: Vec<_> = (0..1024_u64)
        .map(|at| disk.write(at * 512, filled(env, 512, at), Durability::Cached))
        .collect();
    for result in join_all(writes).await {
        result.expect("one of many writes");
    }
    disk.flush().await.expect("a flush after many");
    let reads: Vec<_> = (0..1024_u64).map(|at| disk.read(at * 512, env.buf(512))).collect();
    for (at, back) in (0..).zip(join_all(reads).await) {
        assert_filled(&back.expect("one of many reads"), at, "one of many");
    }
}

async fn disk_discard(env: &Env, disk: &Disk) {
    let (offset, bytes) = (1_u64 << 20, 65_536_u64);
    let size = bytes as usize;
    let writes = [(offset - 4096, 4096, 1), (offset, size, 2), (offset + bytes, 4096, 3)];
    for (at, len, seed) in writes {
        disk.write(at, filled(env, len, seed), Durability::Durable).await.expect("a write");
    }
    disk.discard(offset, bytes).await.expect("a discard succeeds");
    let back = disk.read(offset, env.buf(size)).await.expect("discarded space reads");
    let old: Vec<u8> = pattern(size, 2).collect();
    let sectors = back.chunks(512).zip(old.chunks(512));
    for (is, was) in sectors {
        assert!(
            is == was || is.iter().all(|b| *b == 0),
            "discarded space holds zeros or as before"
        );
    }
    for (at, len, seed) in [writes[0], writes[2]] {
        let back = disk.read(at, env.buf(len)).await.expect("a read");
        assert_filled(&back, seed, "the discard's neighbour");
    }
    disk.write(offset, filled(env, size, 9), Durability::Durable).await.expect("writable again");
    let back = disk.read(offset, env.buf(size)).await.expect("a read");
    assert_filled(&back, 9, "rewritten after a discard");
}

/// A dropped future leaves its operation under way, and the memory of the operation untouched.
async fn disk_detached(env: &Env, path: &str) {
    let disk = open(env, path).await;
    for at in 0..64_u64 {
        drop(disk.write(at * 4096, filled(env, 4096, 500 + at), Durability::Durable));
        drop(disk.read(at * 4096, env.buf(4096)));
        // If the memory of the dropped read were recycled too early, the read would overwrite this.
        let mut fresh = env.buf(4096);
        fresh.fill(0xEE);
        env.yield_now().await;
        assert!(fresh.iter().all(|byte| *byte == 0xEE), "memory in use was recycled");
    }
    let flush = disk.flush();
    drop(disk); // closes with everything still in flight
    let _ = flush.await;
    let disk = open_when_free(env, path).await;
    for at in 0..64_u64 {
        let back = disk.read(at * 4096, env.buf(4096)).await.expect("a read");
        assert_filled(&back, 500 + at, "a detached write still happens");
    }
}

/// Tests every operation on connections, over both kinds of address.
pub async fn network(env: &Env, unix: Address, tcp: Address) {
    for address in [unix, tcp] {
        listeners(env, &address).await;
        streams(env, &address).await;
        endings(env, &address).await;
        cancellations(env, &address).await;
        many_links(env, &address).await;
        sooner_sleeps(env, &address).await;
    }
}

/// While the driver waits for a long sleep, a shorter one begins. The shorter one must end first.
async fn sooner_sleeps(env: &Env, address: &Address) {
    let listener = listen(env, address).await;
    let (dialled, accepted) = pair(env, &listener).await;
    for round in 0..3 {
        let later = env.sleep(Duration::from_secs(10));
        let sooner = async {
            // The driver waits here, and knows of the later sleep only.
            let (sent, got) =
                join(dialled.send(filled(env, 64, round)), accepted.recv(env.buf(64), 0)).await;
            sent.expect("a send");
            got.expect("a receive");
            env.sleep(Duration::from_millis(1)).await;
        };
        let first = select(later, sooner).await;
        assert!(matches!(first, Either::Second(())), "a later sleep held up a sooner one");
    }
}

async fn listen(env: &Env, address: &Address) -> Listener {
    env.listen(address.clone()).await.expect("a free address can be listened at")
}

/// A connected pair: the dialler's end, the listener's end.
async fn pair(env: &Env, listener: &Listener) -> (Link, Link) {
    let dial = env.dial(listener.address().clone());
    let (dialled, accepted) = join(dial, listener.accept()).await;
    (dialled.expect("a dial succeeds"), accepted.expect("an accept succeeds"))
}

async fn assert_nobody(env: &Env, address: &Address) {
    let error = env.dial(address.clone()).await.err();
    let nobody = matches!(error, Some(IoError::Refused | IoError::NotFound));
    assert!(nobody, "dialling where nobody listens brought {error:?}");
}

async fn listeners(env: &Env, address: &Address) {
    let listener = listen(env, address).await;
    let real = listener.address().clone();
    let second = env.listen(real.clone()).await.err();
    assert_eq!(second, Some(IoError::AddressInUse), "two listeners at one address");
    pair(env, &listener).await;
    drop(listener);
    assert_nobody(env, &real).await;

    // The same address can be listened at again at once, even after an accept was given up.
    let listener = Rc::new(listen(env, &real).await);
    assert_eq!(listener.address(), &real);
    let waiting = Rc::clone(&listener);
    let task = env.spawn("accept", async move { drop(waiting.accept().await) });
    env.sleep(Duration::from_millis(1)).await;
    drop(task);
    let Ok(listener) = Rc::try_unwrap(listener) else { panic!("the task is gone") };
    drop(listener);
    assert_nobody(env, &real).await;
    let listener = listen(env, &real).await;
    pair(env, &listener).await;
}

async fn send_all(env: &Env, link: &Link, seed: u64) {
    let whole = filled(env, STREAM_BYTES, seed);
    let (mut at, mut step) = (0, 1);
    while at < whole.len() {
        let end = (at + step).min(whole.len());
        link.send(whole.slice(at..end)).await.expect("a send");
        at = end;
        step = (step * 3 + 1).min(PIECE_MAX);
    }
}

async fn recv_exact(env: &Env, link: &Link, len: usize) -> Buf {
    let (mut into, mut at) = (env.buf(len), 0);
    while at < len {
        let (buf, count) = link.recv(into, at).await.expect("a receive");
        assert_eq!(buf.len(), len, "a receive keeps its buffer's length");
        assert!(count > 0 && at + count <= len, "{count} bytes received at {at} of {len}");
        (into, at) = (buf, at + count);
    }
    into
}

async fn streams(env: &Env, address: &Address) {
    let listener = listen(env, address).await;
    let (left, right) = pair(env, &listener).await;
    let mut ends = Vec::new();
    let tasks = TaskSet::default();
    for (link, mine, theirs) in [(left.clone(), 1, 2), (right.clone(), 2, 1)] {
        let (env1, link1) = (env.clone(), link.clone());
        let (end, ended) = oneshot();
        tasks.spawn(env, "send", async move {
            send_all(&env1, &link1, mine).await;
            end.send(());
        });
        ends.push(ended);
        let (env2, (end, ended)) = (env.clone(), oneshot());
        tasks.spawn(env, "recv", async move {
            let got = recv_exact(&env2, &link, STREAM_BYTES).await;
            assert_filled(&got, theirs, "a stream in both directions");
            end.send(());
        });
        ends.push(ended);
    }
    for ended in ends {
        assert_eq!(ended.recv().await, Some(()), "a stream's end");
    }

    // A receive into the middle changes no bytes before or behind. It ends when some bytes came.
    left.send(filled(env, 3, 5)).await.expect("a small send");
    let mut into = env.buf(4096);
    into.fill(0xAB);
    let (into, count) = right.recv(into, 100).await.expect("a receive into the middle");
    assert!((1..=3).contains(&count), "{count} of 3 bytes");
    assert!(into[..100].iter().all(|byte| *byte == 0xAB), "bytes before `at` were touched");
    assert!(into[100 + count..].iter().all(|byte| *byte == 0xAB), "bytes behind were touched");
    left.send(env.buf(0).freeze()).await.expect("an empty send does nothing");
}

async fn endings(env: &Env, address: &Address) {
    let listener = listen(env, address).await;
    let (left, right) = pair(env, &listener).await;
    left.send(filled(env, 10_000, 3)).await.expect("a send before the close");
    left.close();
    assert_filled(&recv_exact(env, &right, 10_000).await, 3, "what was sent before the close");
    let (_, count) = right.recv(env.buf(100), 0).await.expect("the end of the stream");
    assert_eq!(count, 0, "a closed peer means 0 bytes");

    // After our own close operations fail. A second close and the close on drop do no harm.
    let sent = left.send(filled(env, 10, 1)).await;
    assert_eq!(sent, Err(IoError::Closed), "sending on a closed link");
    let received = left.recv(env.buf(10), 0).await.map(|(_, count)| count);
    assert_eq!(received, Err(IoError::Closed), "receiving on a closed link");
    left.close();
    left.close();
    drop((left, right));

    // The double close of an old connection must not hit a new one.
    let (left, right) = pair(env, &listener).await;
    left.send(filled(env, 10, 4)).await.expect("a send");
    assert_filled(&recv_exact(env, &right, 10).await, 4, "a new link after a double close");

    // Sending to a peer that is gone fails sooner or later.
    drop(right);
    let gone = async {
        loop {
            if let Err(error) = left.send(filled(env, 65_536, 1)).await {
                return error;
            }
        }
    };
    assert_eq!(gone.await, IoError::Reset, "sending to a closed peer");

    // A local close ends a receive that is in flight.
    let (left, _right) = pair(env, &listener).await;
    let recv = left.recv(env.buf(100), 0);
    let close = async {
        env.sleep(Duration::from_millis(1)).await;
        left.close();
    };
    let (received, ()) = join(recv, close).await;
    assert!(received.is_err(), "a receive survived its link");
}

async fn cancellations(env: &Env, address: &Address) {
    let listener = listen(env, address).await;
    let (left, right) = pair(env, &listener).await;
    // A receive is given up by time-out. Then the link is closed.
    let timed = env.timeout(Duration::from_millis(2), right.recv(env.buf(4096), 0)).await;
    assert!(timed.is_err(), "a receive without a sender ended");
    drop(right);
    let (_, count) = left.recv(env.buf(10), 0).await.expect("the end of the stream");
    assert_eq!(count, 0, "closing behind a cancelled receive reaches the peer");

    // An accept is given up. The next caller belongs to the next accept.
    let timed = env.timeout(Duration::from_millis(2), listener.accept()).await;
    assert!(timed.is_err(), "an accept without a caller ended");
    let (left, right) = pair(env, &listener).await;
    left.send(filled(env, 10, 6)).await.expect("a send");
    assert_filled(&recv_exact(env, &right, 10).await, 6, "the link after a cancelled accept");

    // A dial is given up. If the cancellation comes first, there is no caller. Otherwise the link
    // is closed again, and its other end sees the end of the stream.
    match select(env.dial(listener.address().clone()), env.yield_now()).await {
        Either::First(result) => drop(result),
        Either::Second(()) => {}
    }
    if let Ok(orphan) = env.timeout(Duration::from_millis(20), listener.accept()).await {
        let orphan = orphan.expect("an accept");
        let end = orphan.recv(env.buf(10), 0).await.map(|(_, count)| count);
        assert!(matches!(end, Ok(0) | Err(IoError::Reset)), "an orphan brought {end:?}");
    }

    // A send whose future is dropped still sends everything.
    {
        let mut send = Box::pin(left.send(filled(env, 100_000, 8)));
        let once = poll_fn(|cx| Poll::Ready(send.as_mut().poll(cx)));
        let _ = once.await;
    }
    assert_filled(&recv_exact(env, &right, 100_000).await, 8, "a detached send");
}

/// Several callers come at once. Each gets a link of its own.
async fn many_links(env: &Env, address: &Address) {
    const LINKS: u64 = 16;
    let listener = listen(env, address).await;
    let tasks = TaskSet::default();
    for seed in 0..LINKS {
        let (env2, to) = (env.clone(), listener.address().clone());
        tasks.spawn(env, "caller", async move {
            let link = env2.dial(to).await.expect("a dial");
            let mut hello = env2.buf(8);
            hello.copy_from_slice(&seed.to_le_bytes());
            link.send(hello.freeze()).await.expect("a hello");
            let back = recv_exact(&env2, &link, 5000).await;
            assert_filled(&back, seed, "the answer to this caller");
        });
    }
    let mut seen = [false; LINKS as usize];
    for _ in 0..LINKS {
        let link = listener.accept().await.expect("an accept");
        let hello = recv_exact(env, &link, 8).await;
        let seed = hello.iter().rev().fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        assert!(!std::mem::replace(&mut seen[seed as usize], true), "one caller came twice");
        link.send(filled(env, 5000, seed)).await.expect("an answer");
        let buf = env.buf(1);
        tasks.spawn(env, "linger", async move {
            drop(link.recv(buf, 0).await); // until the caller closes
        });
    }
    while !tasks.is_empty() {
        env.sleep(Duration::from_millis(1)).await;
    }
}

/// Tests that sleeps last at least as long as asked, and end in the order of their times.
pub async fn timers(env: &Env) {
    let start = env.now();
    assert_eq!(env.now(), start, "time stands still within a turn");
    env.sleep(Duration::ZERO).await;
    for micros in [1, 300, 2000, 10_000] {
        let (before, wanted) = (env.now(), Duration::from_micros(micros));
        env.sleep(wanted).await;
        assert!(env.now().since(before) >= wanted, "a sleep of {micros} us ended early");
    }

    let order = Rc::new(Cell::new(0_u64));
    let tasks = TaskSet::default();
    for (rank, millis) in [(3, 9), (1, 3), (2, 6)] {
        let (env2, order) = (env.clone(), Rc::clone(&order));
        tasks.spawn(env, "sleeper", async move {
            env2.sleep(Duration::from_millis(millis)).await;
            order.set(order.get() * 10 + rank);
        });
    }
    while !tasks.is_empty() {
        env.sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(order.get(), 123, "sleeps ended in the order of their times");

    let never = env.timeout(Duration::from_millis(2), std::future::pending::<()>()).await;
    assert!(never.is_err(), "a time-out of something that never ends");
    let at_once = env.timeout(Duration::from_secs(3600), env.yield_now()).await;
    assert!(at_once.is_ok(), "a time-out that is not needed");
    let _ = env.wall();
}
