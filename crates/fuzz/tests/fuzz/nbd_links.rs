// SPDX-License-Identifier: Apache-2.0
//! The NBD server: sessions with a few changes, and requests of every kind whose answers are read.

#[path = "../../../nbd/tests/common/memory.rs"]
#[allow(clippy::unwrap_used, reason = "shared with the tests of its crate")]
mod memory;

use crate::streams::{address, send, take, tell, with_server};
use env::Env;
use fuzz::Source;
use memory::{MemoryDevice, MemoryExports};
use nbd::numbers::{
    BASE_ALLOCATION, FIXED_NEWSTYLE, NO_ZEROES, chunk, command, flag, info, option as options,
    reply,
};
use nbd::{NbdServer, ServerOptions};
use nbdclient::frames::{
    GREETING_SIZE, NbdReply, OPTION_REPLY_SIZE, OptionReply, ReplyHead, ReplyKind, go_data,
    meta_data, option, request,
};

const SIZE: u64 = 8 << 20;
/// Bytes of the largest request that is sent or asked for, but for lengths that are refused.
const DATA_MAX: u64 = 256 << 10;
/// An option that the server does not know.
const STARTTLS: u32 = 5;

fuzz::targets! {
    nbd_session: 1000, sessions(), session_of;
    nbd_requests: 600, Vec::new(), requests_of;
}

/// Up to the transmission phase, with structured replies and a context.
fn handshake() -> Vec<u8> {
    let flags = (FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes();
    let structured = option(options::STRUCTURED_REPLY, &[]);
    let context = option(options::SET_META_CONTEXT, &meta_data("disk", &[BASE_ALLOCATION]));
    let go = option(options::GO, &go_data("disk", &[info::NAME, info::BLOCK_SIZE]));
    [&flags, &*structured, &*context, &*go].concat()
}

fn sessions() -> Vec<Vec<u8>> {
    let negotiation = [
        (FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes().to_vec(),
        option(options::LIST, &[]),
        option(options::INFO, &go_data("other", &[])),
        option(options::STRUCTURED_REPLY, &[]),
        option(options::LIST_META_CONTEXT, &meta_data("disk", &["base:"])),
        option(STARTTLS, &[]),
        option(options::GO, &go_data("nope", &[])),
        option(options::ABORT, &[]),
    ];
    let sent = |command, flags, cookie, offset, length| {
        request(command, flags, cookie, offset, length).to_vec()
    };
    let zeroes = flag::NO_HOLE | flag::FAST_ZERO;
    let transmission = [
        handshake(),
        sent(command::WRITE, flag::FUA, 1, 4096, 512),
        vec![7; 512],
        sent(command::READ, flag::DF, 2, 0, 8192),
        sent(command::BLOCK_STATUS, flag::REQ_ONE, 3, 0, 65536),
        sent(command::WRITE_ZEROES, zeroes, 4, 512, 512),
        sent(command::TRIM, 0, 5, 1 << 20, 1 << 20),
        sent(command::FLUSH, 0, 6, 0, 0),
        sent(command::CACHE, 0, 7, 0, 4096),
        sent(command::DISC, 0, 8, 0, 0),
    ];
    let old = [
        FIXED_NEWSTYLE.to_be_bytes().to_vec(),
        option(options::EXPORT_NAME, b"disk"),
        sent(command::READ, 0, 1, 0, 512),
    ];
    vec![negotiation.concat(), transmission.concat(), old.concat(), handshake()]
}

async fn serve(env: Env) {
    let export = |name: &str, size| (name.to_owned(), MemoryDevice::new(&env, size));
    let exports = MemoryExports(vec![export("disk", SIZE), export("other", 1 << 20)]);
    let server = NbdServer::new(&env, exports, ServerOptions::default());
    let listener = env.listen(address()).await.expect("a listener");
    server.serve(listener).await;
}

fn session_of(input: &[u8]) {
    let input = input.to_vec();
    with_server(serve, |env| async move {
        let _ = tell(&env, &input).await;
        // The same behind a good handshake.
        let _ = tell(&env, &[handshake(), input].concat()).await;
        let answered =
            tell(&env, &[&*handshake(), &request(command::READ, 0, 9, 0, 512)].concat()).await;
        assert_eq!(answers(&answered[start(&answered)..]), [(9, 0, 520)], "others are served");
    });
}

/// Where the answers to a handshake end: behind the acknowledgement of GO.
fn start(bytes: &[u8]) -> usize {
    let mut at = GREETING_SIZE;
    while let Some(head) = bytes[at..].first_chunk() {
        let head = OptionReply::decode(head).expect("an answer to an option");
        at += OPTION_REPLY_SIZE + head.length as usize;
        if (head.option, head.kind) == (options::GO, reply::ACK) {
            return at;
        }
    }
    panic!("no answer to GO in {} bytes", bytes.len());
}

/// Cookie, error and bytes behind the head of each answer. Panics where it is none.
fn answers(mut bytes: &[u8]) -> Vec<(u64, u32, usize)> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk() {
        let head = ReplyHead::decode(head).expect("an answer of a known kind");
        bytes = rest;
        match head.kind {
            ReplyKind::Simple { errno } => found.push((head.cookie, errno, 0)),
            ReplyKind::Chunk { flags, kind } => {
                assert_eq!(flags, chunk::DONE, "one chunk each");
                let (length, rest) = bytes.split_first_chunk().expect("the length of a chunk");
                let (body, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
                bytes = rest;
                let answer = NbdReply::of_chunk(head.cookie, kind, body.to_vec());
                let errno = answer.expect("a chunk of a known kind").errno;
                found.push((head.cookie, errno, body.len()));
            }
        }
    }
    assert!(bytes.is_empty(), "half an answer");
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
    let length = if command == command::WRITE { length % (DATA_MAX as u32 + 1024) } else { length };
    let length = if command == command::READ { length % (33 << 20) } else { length };
    let command = if command == command::DISC { command::FLUSH } else { command };
    let mut bytes = request(command, flags, cookie, offset, length).to_vec();
    if command == command::WRITE {
        bytes.resize(bytes.len() + length as usize, 0x5A);
    }
    let is_aligned = offset.is_multiple_of(512) && length.is_multiple_of(512);
    let is_inside = offset.checked_add(length.into()).is_some_and(|end| end <= SIZE);
    let may_succeed = command == command::FLUSH || is_aligned && is_inside && command < 8;
    let data = if command == command::READ && length > 0 { 8 + length as usize } else { 0 };
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
