// SPDX-License-Identifier: Apache-2.0
//! The bytes between a shard and its directory, described in
//! `docs/formats/directory-protocol.md`.
//!
//! Guarantees: no input makes decoding panic or allocate more than the frame's own length times a
//! small constant; every decoded message encodes to the same bytes. Non-guarantee: no message is
//! authenticated. The file permissions of the socket decide who may connect.

mod codec;

use crate::types::{DirectoryError, Entry, LeaseId, Listing, Transacted, Transaction, WatchEvent};
use base::crc32c_append;
use codec::{Reader, Writer};
use thiserror::Error;

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a frame's body, at most.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Bytes of entries in one part of a listing: longer listings come in several frames.
pub const PART_BYTES_MAX: usize = 1 << 20;
/// Version of the protocol.
pub const PROTOCOL_VERSION: u16 = 1;
/// `GDIR` in memory.
const MAGIC: [u8; 4] = *b"GDIR";

/// Why bytes are not a frame. The connection is dropped.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// not this protocol
    #[error("not a frame of the directory protocol")]
    Magic,
    /// another version of it
    #[error("directory protocol version {found} is not {PROTOCOL_VERSION}")]
    Version {
        /// The other side's version.
        found: u16,
    },
    /// longer than any frame
    #[error("a frame of {found} bytes is longer than any")]
    Length {
        /// Bytes announced.
        found: u32,
    },
    /// damaged on the way
    #[error("a frame's checksum does not match")]
    Checksum,
    /// the body is not a message
    #[error("a frame's body is not a message")]
    Body,
}

/// From a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named in each variant's text")]
pub enum DirectoryRequest {
    /// Is anybody there? Answered with [`Answer::Done`].
    Ping,
    /// One key, linearizable. Answered with [`Answer::Entry`].
    Get { key: String },
    /// All keys with a prefix, linearizable. Answered with [`Answer::Part`]s.
    List { prefix: String },
    /// Answered with [`Answer::Transacted`].
    Transact(Transaction),
    /// A lease of `ttl_ms` milliseconds. Answered with [`Answer::Lease`].
    LeaseGrant { ttl_ms: u64 },
    /// A full time to live again. Answered with [`Answer::Done`].
    LeaseKeep { lease: LeaseId },
    /// Ends it and deletes its keys. Answered with [`Answer::Done`].
    LeaseRevoke { lease: LeaseId },
    /// Watches a prefix. Answered, as often as there is something to tell, with [`Answer::Part`]s
    /// (together a reset) and [`Answer::Events`].
    Watch { prefix: String },
    /// Ends the watch that was asked for under this number. Not answered.
    Unwatch { watch: u64 },
}

/// From a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named in each variant's text")]
pub enum Answer {
    /// Done.
    Done,
    /// What stands under the key.
    Entry(Option<Entry>),
    /// A part of a listing; `has_more`: the next part follows under the same number.
    Part { listing: Listing, has_more: bool },
    /// What came of a transaction.
    Transacted(Transacted),
    /// The new lease.
    Lease(LeaseId),
    /// Changes that a watch tells, in order; never a reset.
    Events(Vec<WatchEvent>),
    /// The request was not carried out, for this reason.
    Failed(DirectoryError),
}

/// What a header promises of the body behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHeader {
    /// Bytes of the body.
    pub body_bytes: usize,
    crc: u32,
}

impl ServerHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// [`FrameError`]: not a header of this protocol, or too long a body.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let [m0, m1, m2, m3, v0, v1, r0, r1, l0, l1, l2, l3, c0, c1, c2, c3] = *bytes;
        if [m0, m1, m2, m3] != MAGIC || [r0, r1] != [0, 0] {
            return Err(FrameError::Magic);
        }
        let found = u16::from_le_bytes([v0, v1]);
        if found != PROTOCOL_VERSION {
            return Err(FrameError::Version { found });
        }
        let found = u32::from_le_bytes([l0, l1, l2, l3]);
        let body_bytes = found as usize;
        if body_bytes > BODY_BYTES_MAX {
            return Err(FrameError::Length { found });
        }
        Ok(Self { body_bytes, crc: u32::from_le_bytes([c0, c1, c2, c3]) })
    }

    fn check(&self, body: &[u8]) -> Result<(), FrameError> {
        let length = u32::try_from(body.len()).map_err(|_| FrameError::Checksum)?;
        let matches = body.len() == self.body_bytes && checksum(length, body) == self.crc;
        if matches { Ok(()) } else { Err(FrameError::Checksum) }
    }

    /// The number and request in the body.
    ///
    /// # Errors
    /// [`FrameError`]: damaged, or not a request.
    pub fn decode_request(&self, body: &[u8]) -> Result<(u64, DirectoryRequest), FrameError> {
        self.check(body)?;
        codec::read_all(body, |from: &mut Reader<'_>| Some((from.u64()?, from.request()?)))
            .ok_or(FrameError::Body)
    }

    /// The number and answer in the body.
    ///
    /// # Errors
    /// [`FrameError`]: damaged, or not an answer.
    pub fn decode_answer(&self, body: &[u8]) -> Result<(u64, Answer), FrameError> {
        self.check(body)?;
        codec::read_all(body, |from: &mut Reader<'_>| Some((from.u64()?, from.answer()?)))
            .ok_or(FrameError::Body)
    }
}

fn checksum(length: u32, body: &[u8]) -> u32 {
    crc32c_append(&[&length.to_le_bytes(), body])
}

/// The frame of a request; answers carry the same number.
#[must_use]
pub fn encode_request(number: u64, request: &DirectoryRequest) -> Vec<u8> {
    encode(|to| {
        to.u64(number);
        to.request(request);
    })
}

/// The frame of an answer to request `number`.
#[must_use]
pub fn encode_answer(number: u64, answer: &Answer) -> Vec<u8> {
    encode(|to| {
        to.u64(number);
        to.answer(answer);
    })
}

fn encode(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::after_header(HEADER_BYTES);
    write(&mut writer);
    let mut frame = writer.into_bytes();
    let body = &frame[HEADER_BYTES..];
    assert!(body.len() <= BODY_BYTES_MAX, "a frame that its receiver would refuse");
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let crc = checksum(length, body);
    frame[0..4].copy_from_slice(&MAGIC);
    frame[4..6].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    frame[8..12].copy_from_slice(&length.to_le_bytes());
    frame[12..16].copy_from_slice(&crc.to_le_bytes());
    frame
}

/// Cuts a listing into parts of at most about `part_bytes` bytes, [`PART_BYTES_MAX`] at most; at
/// least one part.
#[must_use]
pub fn split_listing(listing: Listing, part_bytes: usize) -> Vec<Answer> {
    let revision = listing.revision;
    let mut parts: Vec<Vec<(String, Entry)>> = vec![Vec::new()];
    let mut bytes = 0;
    for (key, entry) in listing.entries {
        let size = key.len() + entry.value.len() + codec::ENTRY_OVERHEAD;
        bytes += size;
        if bytes > part_bytes {
            parts.push(Vec::new());
            bytes = size;
        }
        if let Some(part) = parts.last_mut() {
            part.push((key, entry));
        }
    }
    let last = parts.len() - 1;
    let part = |(index, entries)| Answer::Part {
        listing: Listing { entries, revision },
        has_more: index < last,
    };
    parts.into_iter().enumerate().map(part).collect()
}

/// Cuts changes into answers of at most about `part_bytes` bytes, [`PART_BYTES_MAX`] at most.
#[must_use]
pub fn split_events(events: Vec<WatchEvent>, part_bytes: usize) -> Vec<Answer> {
    let mut answers = Vec::new();
    let (mut part, mut bytes) = (Vec::new(), 0);
    for event in events {
        let size = codec::ENTRY_OVERHEAD
            + match &event {
                WatchEvent::Put(key, entry) => key.len() + entry.value.len(),
                WatchEvent::Delete(key, _) => key.len(),
                WatchEvent::Reset(_) => unreachable!("a reset travels as parts of a listing"),
            };
        if bytes + size > part_bytes && !part.is_empty() {
            answers.push(Answer::Events(std::mem::take(&mut part)));
            bytes = 0;
        }
        bytes += size;
        part.push(event);
    }
    if !part.is_empty() {
        answers.push(Answer::Events(part));
    }
    answers
}

#[cfg(test)]
mod tests;
