// SPDX-License-Identifier: Apache-2.0
//! Why bytes are not a frame.

use thiserror::Error;

/// Why bytes are not a frame. Each of these means that the peer or the network is broken. The
/// connection is dropped, because nobody knows where the next frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// the header does not begin as ours does
    #[error("not a frame: magic {found:08x}")]
    Magic {
        /// The four bytes found.
        found: u32,
    },
    /// another version than was agreed on for the link, or a frame before one was
    #[error("frame of kind {kind} is of version {found}, which was not agreed on for this link")]
    Version {
        /// The frame's kind.
        kind: u8,
        /// The version found.
        found: u8,
    },
    /// the header's checksum is wrong
    #[error("frame header damaged")]
    HeaderCrc,
    /// the body's checksum is wrong
    #[error("frame body of kind {kind} damaged")]
    BodyCrc {
        /// The frame's kind.
        kind: u8,
    },
    /// unknown frame kind
    #[error("unknown frame kind {kind}")]
    Kind {
        /// The kind found.
        kind: u8,
    },
    /// a body or payload beyond its limit
    #[error("frame too long: body {body}, payload {payload} bytes")]
    TooLong {
        /// Bytes of the body.
        body: u32,
        /// Bytes of the payload.
        payload: u32,
    },
    /// the body ends early
    #[error("body of kind {kind} is too short")]
    Short {
        /// The frame's kind.
        kind: u8,
    },
    /// bytes behind the last field
    #[error("body of kind {kind} is {count} bytes too long")]
    Trailing {
        /// The frame's kind.
        kind: u8,
        /// Bytes too many.
        count: u32,
    },
    /// a field with a value that it cannot have
    #[error("field '{field}' of a frame of kind {kind} is invalid")]
    Value {
        /// The frame's kind.
        kind: u8,
        /// The field's name.
        field: &'static str,
    },
}
