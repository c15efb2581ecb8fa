// SPDX-License-Identifier: Apache-2.0
//! Numbers of the protocol, for the server and for whoever tests one. All are big-endian on the
//! wire; `docs/formats/nbd.md` says what is done with them.

/// What a server says first.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Before each option, and behind [`MAGIC`].
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before a simple reply.
pub const SIMPLE_MAGIC: u32 = 0x6744_6698;
/// Before a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag: fixed newstyle. The same bit both ways.
pub const FIXED_NEWSTYLE: u32 = 1;
/// Handshake flag: no zeroes behind the answer to EXPORT_NAME. The same bit both ways.
pub const NO_ZEROES: u32 = 2;

/// The one metadata context that a server of ours knows.
pub const BASE_ALLOCATION: &str = "base:allocation";
/// Its number.
pub const BASE_ALLOCATION_ID: u32 = 1;
/// Block status of base:allocation: a hole that reads as zeros.
pub const STATE_HOLE_ZERO: u32 = 3;

/// Bytes of a request, without the data of a write.
pub const REQUEST_SIZE: usize = 28;
/// Bytes of an option, without its data.
pub const OPTION_SIZE: usize = 16;

/// Options of a client.
#[allow(missing_docs, reason = "the names are the protocol's")]
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
#[allow(missing_docs, reason = "the names are the protocol's")]
pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    /// The bit that all errors have.
    pub const ERR: u32 = 1 << 31;
    pub const ERR_UNSUP: u32 = ERR + 1;
    pub const ERR_POLICY: u32 = ERR + 2;
    pub const ERR_INVALID: u32 = ERR + 3;
    pub const ERR_UNKNOWN: u32 = ERR + 6;
    pub const ERR_SHUTDOWN: u32 = ERR + 7;
    pub const ERR_TOO_BIG: u32 = ERR + 9;
}

/// What an INFO reply tells.
#[allow(missing_docs, reason = "the names are the protocol's")]
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export can do.
#[allow(missing_docs, reason = "the names are the protocol's")]
pub mod transmission {
    pub const HAS_FLAGS: u16 = 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// What a request asks for.
#[allow(missing_docs, reason = "the names are the protocol's")]
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of a request.
#[allow(missing_docs, reason = "the names are the protocol's")]
pub mod flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 2;
    pub const DF: u16 = 4;
    pub const REQ_ONE: u16 = 8;
    pub const FAST_ZERO: u16 = 16;
}

/// Kinds of chunks, and the flag of the last one.
#[allow(missing_docs, reason = "the names are the protocol's")]
pub mod chunk {
    pub const DONE: u16 = 1;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = (1 << 15) + 1;
}
