// SPDX-License-Identifier: Apache-2.0
//! Every byte between two hosts: frames, their bodies, and the checksums that travel with data.
//!
//! The layout is described in `docs/formats/wire.md`.
//!
//! Guarantees: encoding and decoding are inverse; bytes from outside never panic, they are a
//! [`WireError`]; what was decoded keeps the limits below, its ranges do not overflow, and its
//! checksum list has the length that its range demands. Non-guarantees: the payload's bytes are
//! *not* compared with their checksums here ([`verify`] does that, where the data is used), and
//! nothing is authenticated.
#![forbid(unsafe_code)]

mod codec;
mod crcs;
mod error;
mod few;
mod frame;
mod message;
#[doc(hidden)]
pub mod samples;
#[cfg(test)]
mod tests;

pub use crcs::{Crcs, crcs_of, verify};
pub use error::WireError;
pub use few::Few;
pub use frame::{HEADER_LEN, Header, VERSION, decode, encode};
pub use message::{
    Claim, Claims, Failure, Fenced, Health, Hello, Holding, Marks, Message, Owner, RESERVE_LIMIT,
    Refusal, Request, Response, Target, WriteKind,
};

/// Bytes of the largest body (everything but data); larger ones are refused.
pub const BODY_MAX: usize = 1 << 20;
/// Bytes of the largest payload: one chunk.
pub const PAYLOAD_MAX: usize = 1 << 20;
/// Entries of the longest list in a body: what fits [`BODY_MAX`] at 24 bytes each, with room.
/// Senders merge or cut their lists to this.
pub const LIST_MAX: usize = 32_768;
/// Claims that come with a `Fence`: those that an object's record has.
pub const CLAIMS_MAX: usize = 32;
/// Requests of a component's tail in the answer to a `Fence`: more than a client table holds.
pub const OPEN_MAX: usize = 1024;
