// SPDX-License-Identifier: Apache-2.0
//! The NBD server: sessions with a few changes, and requests of every kind whose answers are read.

#[path = "../../../nbd/tests/common/memory.rs"]
#[allow(clippy::unwrap_used, reason = "shared with the tests of its crate")]
mod memory;

use crate::streams::{address, send, take, tell, with_server};
use env::Env;
use fuzz::Source;
use memory::{MemoryDevice, MemoryExports};
use nbd::{Server, ServerOptions};

const SIZE: u64 = 8 << 20;
/// Bytes of the largest request that is sent or asked for, but for lengths that are refused.
const DATA_MAX: u64 = 256 << 10;

fuzz::targets! {
    nbd_session: 1000, sessions(), session_of;
    nbd_requests: 600, Vec::new(), requests_of;
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [b"IHAVEOPT", number.to_be_bytes().as_slice(), &length, data].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// Up to the transmission phase, with structured replies and a context.
fn handshake() -> Vec<u8> {
    let context = [text("disk"), 1_u32.to_be_bytes().to_vec(), text("base:allocation")].concat();
    let go = [text("disk"), vec![0, 2, 0, 1, 0, 3]].concat();
    let flags = 3_u32.to_be_bytes();
    [&flags, &*option(8, &[]), &*option(10, &context), &*option(7, &go)].concat()
}

fn sessions() -> Vec<Vec<u8>> {
    let context = [text("disk"), 1_u32.to_be_bytes().to_vec(), text("base:")].concat();
    let info = [text("other"), vec![0, 0]].concat();
    let options = [
        3_u32.to_be_bytes().to_vec(),
        option(3, &[]),
        option(6, &info),
        option(8, &[]),
        option(9, &context),
        option(5, &[]),
        option(7, &[text("nope"), vec![0, 0]].concat()),
        option(2, &[]),
    ];
    let transmission = [
        handshake(),
        request(1, 1, 1, 4096, 512),
        vec![7; 512],
        request(0, 4, 2, 0, 8192),
        request(7, 8, 3, 0, 65536),
        request(6, 18, 4, 512, 512),
        request(4, 0, 5, 1 << 20, 1 << 20),
        request(3, 0, 6, 0, 0),
        request(5, 0, 7, 0, 4096),
        request(2, 0, 8, 0, 0),
    ];
    let old = [1_u32.to_be_bytes().to_vec(), option(1, b"disk"), request(0, 0, 1, 0, 512)];
    vec![options.concat(), transmission.concat(), old.concat(), handshake()]
}

async fn serve(env: Env) {
    let export = |name: &str, size| (name.to_owned(), MemoryDevice::new(&env, size));
    let exports = MemoryExports(vec![export("disk", SIZE), export("other", 1 << 20)]);
    let server = Server::new(&env, exports, ServerOptions::default());
    let listener = env.listen(address()).await.expect("a listener");
    server.serve(listener).await;
}

fn session_of(input: &[u8]) {
    let input = input.to_vec();
    with_server(serve, |env| async move {
        let _ = tell(&env, &input).await;
        // The same behind a good handshake.
        let _ = tell(&env, &[handshake(), input].concat()).await;
        let answered = tell(&env, &[handshake(), request(0, 0, 9, 0, 512)].concat()).await;
        assert_eq!(answers(&answered[start(&answered)..]), [(9, 0, 520)], "others are served");
    });
}

/// Where the answers to a handshake end: behind the acknowledgement of GO.
fn start(bytes: &[u8]) -> usize {
    let mut at = 18;
    while let Some(head) = bytes.get(at..at + 20) {
        let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| head[at + n]));
        at += 20 + number(16) as usize;
        if (number(8), number(12)) == (7, 1) {
            return at;
        }
    }
    panic!("no answer to GO in {} bytes", bytes.len());
}

/// Cookie, error and bytes of data of each answer. Panics where it is none.
fn answers(mut bytes: &[u8]) -> Vec<(u64, u32, usize)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let magic = u32::from_be_bytes([0, 1, 2, 3].map(|n| bytes[n]));
        let mut from = bytes;
        let mut number = |count: usize| {
            let (head, tail) = from.split_at(count);
            from = tail;
            head.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
        };
        let _ = number(4);
        if magic == 0x6744_6698 {
            let (error, cookie) = (number(4), number(8));
            found.push((cookie, error as u32, 0));
            bytes = from;
            continue;
        }
        assert_eq!(magic, 0x668e_33ef, "an answer of a known kind");
        let (flags, kind, cookie, length) = (number(2), number(2), number(8), number(4) as usize);
        assert_eq!(flags, 1, "one chunk each");
        let data = &from[..length];
        bytes = &from[length..];
        let error = match kind {
            0 | 1 | 5 => 0,
            0x8001 => u32::from_be_bytes([0, 1, 2, 3].map(|n| data[n])),
            other => panic!("chunk of kind {other}"),
        };
        found.push((cookie, error, length));
    }
    found
}

/// One request and what must come of it: whether it may succeed, and its data then.
fn some_request(from: &mut Source<'_>, cookie: u64) -> (Vec<u8>, bool, usize) {
    let command = u16::from(from.u8() % 9);
    let flags = if !from.u8().is_multiple_of(4) { 0 } else { from.u16() % 64 };
    let is_sane = !from.u8().is_multiple_of(4);
    let offset = if is_sane { from.below(SIZE / 512) * 512 } else { from.edge() };
    let length = match is_sane {
        true => (from.below(DATA_MAX / 512) * 512) as u32,
        false => from.edge() as u32,
    };
    // What follows a write's header must be there, or the stream is out of step.
    let length = if command == 1 { length % (DATA_MAX as u32 + 1024) } else { length };
    let length = if command == 0 { length % (33 << 20) } else { length };
    let command = if command == 2 { 3 } else { command };
    let mut bytes = request(command, flags, cookie, offset, length);
    if command == 1 {
        bytes.resize(bytes.len() + length as usize, 0x5A);
    }
    let is_aligned = offset.is_multiple_of(512) && length.is_multiple_of(512);
    let is_inside = offset.checked_add(length.into()).is_some_and(|end| end <= SIZE);
    let may_succeed = command == 3 || is_aligned && is_inside && command < 8;
    let data = if command == 0 && length > 0 { 8 + length as usize } else { 0 };
    (bytes, may_succeed, data)
}

fn requests_of(input: &[u8]) {
    let mut from = Source::new(input);
    let requests: Vec<_> = (1..2 + from.below(12)).map(|n| some_request(&mut from, n)).collect();
    with_server(serve, |env| async move {
        let bytes: Vec<u8> = requests.iter().flat_map(|(bytes, _, _)| bytes.clone()).collect();
        let link = env.dial(address()).await.expect("the server listens");
        let all = [handshake(), bytes].concat();
        let (sent, taken) = env::join(send(&env, &link, &all), take(&env, &link)).await;
        assert!(sent, "the server takes every request");
        let mut found = answers(&taken[start(&taken)..]);
        found.sort_unstable();
        assert_eq!(found.len(), requests.len(), "one answer to each request");
        for ((cookie, error, length), (number, request)) in found.iter().zip((1..).zip(&requests)) {
            assert_eq!(*cookie, number, "each is answered once");
            let (_, may_succeed, data) = request;
            assert!(*error != 0 || *may_succeed, "request {number} cannot be done");
            assert!(*error != 0 || *data == 0 || length == data, "data of another length");
        }
    });
}
