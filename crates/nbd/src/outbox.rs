// SPDX-License-Identifier: Apache-2.0
//! Replies that wait to be sent. Small parts are copied into one buffer; large payloads are sent
//! from the memory that they are in.

use crate::options::{GATHER_SIZE, PAYLOAD_LARGE};
use env::{Buf, Env, Slice};
use std::collections::VecDeque;

/// What waits for the writer. It is bounded by the requests and bytes that a connection may have
/// under way: a request gives its room back only when its reply is sent.
#[derive(Default)]
pub(crate) struct Outbox {
    sealed: VecDeque<Slice>,
    open: Option<Buf>,
    requests: usize,
    bytes: u64,
}

/// Everything that waited when the writer looked, and the room to give back once it is sent.
pub(crate) struct Batch {
    pub(crate) parts: VecDeque<Slice>,
    pub(crate) requests: usize,
    pub(crate) bytes: u64,
}

impl Outbox {
    /// Appends a copy of `bytes`.
    pub(crate) fn push(&mut self, env: &Env, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let open = self.open.get_or_insert_with(|| {
                let mut buf = env.buf(GATHER_SIZE);
                buf.set_len(0);
                buf
            });
            let room = GATHER_SIZE - open.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            open.push(now);
            bytes = later;
            if open.len() == GATHER_SIZE {
                self.seal();
            }
        }
    }

    /// Appends a payload. A large one is not copied.
    pub(crate) fn push_payload(&mut self, env: &Env, payload: &Slice) {
        if payload.len() < PAYLOAD_LARGE {
            return self.push(env, payload);
        }
        self.seal();
        self.sealed.push_back(payload.clone());
    }

    /// Counts a reply as complete. Its request held `bytes` of room.
    pub(crate) fn end_reply(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }

    /// Takes everything that waits. `None` where nothing does.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        self.seal();
        if self.sealed.is_empty() {
            return None;
        }
        Some(Batch {
            parts: std::mem::take(&mut self.sealed),
            requests: std::mem::take(&mut self.requests),
            bytes: std::mem::take(&mut self.bytes),
        })
    }

    fn seal(&mut self) {
        if let Some(buf) = self.open.take() {
            self.sealed.push_back(buf.freeze());
        }
    }
}
