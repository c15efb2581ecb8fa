// SPDX-License-Identifier: Apache-2.0
//! Every byte between two hosts: frames, their bodies, and the checksums that travel with data.
//!
//! The layout is described in `docs/formats/wire.md`.
//!
//! Guarantees:
//! - Decoding gives back what was encoded.
//! - Every build reads the [`Hello`] of every other one. All other frames are of the version that
//!   the two ends of a link have agreed on.
//! - Bytes from outside never panic: they are a message or a [`WireError`].
//! - A message that was decoded keeps the limits below. Its ranges do not overflow. Each list of
//!   checksums has a length that fits its data.
//!
//! Non-guarantees: the bytes of the payload are *not* compared with their checksums here.
//! [`verify`] does that where the data is used. Nothing is authenticated.
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
mod versions;

pub use crcs::{Crcs, crcs_of, verify};
pub use error::WireError;
pub use few::Few;
pub use frame::{HEADER_LEN, Header, decode, encode};
pub use message::{
    Claims, CopyHealth, Failure, Fenced, Hello, Holding, Marks, MemberChange, Message, OwnerId,
    RESERVE_LIMIT, Refusal, Request, Response, Target, WireClaim, WriteKind,
};
pub use versions::{HELLO_VERSION, VERSION, VERSION_MIN, Versions};

/// Bytes of the largest body, which is all of a frame but header and payload. A larger one is
/// refused.
pub const BODY_MAX: usize = 1 << 20;
/// Bytes of the largest payload: one chunk. A larger one is refused.
pub const PAYLOAD_MAX: usize = 1 << 20;
/// Entries of the longest list in a body. So many of 24 bytes each fit [`BODY_MAX`], with room to
/// spare. Senders merge or cut their lists to this length.
pub const LIST_MAX: usize = 32_768;
/// Most claims in a `Fence`: those that the record of an object lists.
pub const CLAIMS_MAX: usize = 32;
/// Most requests of the tail in the answer to a `Fence`: more than a client table holds.
pub const OPEN_MAX: usize = 1024;
