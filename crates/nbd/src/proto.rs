// SPDX-License-Identifier: Apache-2.0
//! Numbers and layouts of the protocol. All integers are big-endian. Pure.

use crate::options::STRING_MAX;

pub(crate) const MAGIC: u64 = 0x4e42_444d_4147_4943;
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_MAGIC: u32 = 0x6744_6698;
pub(crate) const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags. Server and client use the same bits.
pub(crate) const FIXED_NEWSTYLE: u32 = 1;
pub(crate) const NO_ZEROES: u32 = 2;

pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

pub(crate) mod reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    const ERR: u32 = 1 << 31;
    pub(crate) const ERR_UNSUP: u32 = ERR + 1;
    pub(crate) const ERR_POLICY: u32 = ERR + 2;
    pub(crate) const ERR_INVALID: u32 = ERR + 3;
    pub(crate) const ERR_UNKNOWN: u32 = ERR + 6;
    pub(crate) const ERR_SHUTDOWN: u32 = ERR + 7;
    pub(crate) const ERR_TOO_BIG: u32 = ERR + 9;
}

pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags.
pub(crate) mod transmission {
    const HAS_FLAGS: u16 = 1;
    const SEND_FLUSH: u16 = 1 << 2;
    const SEND_FUA: u16 = 1 << 3;
    const SEND_TRIM: u16 = 1 << 5;
    const SEND_WRITE_ZEROES: u16 = 1 << 6;
    const SEND_DF: u16 = 1 << 7;
    const CAN_MULTI_CONN: u16 = 1 << 8;
    const SEND_CACHE: u16 = 1 << 10;
    const SEND_FAST_ZERO: u16 = 1 << 11;

    /// The transmission flags of an export. CAN_MULTI_CONN tells a client that it may use several
    /// connections at once. `can_multi_conn` says whether rule 47 allows that here.
    pub(crate) const fn flags(is_structured: bool, can_multi_conn: bool) -> u16 {
        let always = HAS_FLAGS
            | SEND_FLUSH
            | SEND_FUA
            | SEND_TRIM
            | SEND_WRITE_ZEROES
            | SEND_CACHE
            | SEND_FAST_ZERO;
        let multi = if can_multi_conn { CAN_MULTI_CONN } else { 0 };
        let whole = if is_structured { SEND_DF } else { 0 };
        always | multi | whole
    }
}

pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISC: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Command flags.
pub(crate) mod flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 2;
    pub(crate) const DF: u16 = 4;
    pub(crate) const REQ_ONE: u16 = 8;
    pub(crate) const FAST_ZERO: u16 = 16;
}

pub(crate) mod chunk {
    pub(crate) const DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const ERROR: u16 = (1 << 15) + 1;
}

/// Error numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    /// The device failed.
    Io,
    /// The request is malformed or out of range.
    Invalid,
    /// The device is full, or a write went beyond its end.
    NoSpace,
    /// A read that may not be fragmented is too long.
    Overflow,
    /// The export is gone.
    ShuttingDown,
}

impl Errno {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Io => 5,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::ShuttingDown => 108,
        }
    }
}

/// The one metadata context that we know, and its number.
pub(crate) const BASE_ALLOCATION: &str = "base:allocation";
pub(crate) const BASE_ALLOCATION_ID: u32 = 1;
/// Block status flags of base:allocation: a hole that reads as zeros.
pub(crate) const STATE_HOLE_ZERO: u32 = 3;

pub(crate) const REQUEST_SIZE: usize = 28;
pub(crate) const OPTION_SIZE: usize = 16;

/// The header of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Header {
    /// The header. `None` where the magic is wrong.
    pub(crate) fn decode(bytes: &[u8; REQUEST_SIZE]) -> Option<Self> {
        let mut fields = Fields(bytes);
        if fields.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(Self {
            flags: fields.u16()?,
            command: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            length: fields.u32()?,
        })
    }
}

/// Takes fields off the front of the bytes. Each method returns `None` where too few bytes are
/// left.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// A string behind its length. `None` where it is longer than [`STRING_MAX`] bytes or not
    /// UTF-8.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        let length = self.u32().filter(|length| *length <= STRING_MAX)?;
        let (head, tail) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = tail;
        std::str::from_utf8(head).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The header of a reply. The array has room for the longest one, a chunk with an offset.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    bytes: [u8; 28],
    len: usize,
}

impl Head {
    fn new() -> Self {
        Self { bytes: [0; 28], len: 0 }
    }

    fn put(mut self, field: &[u8]) -> Self {
        self.bytes[self.len..self.len + field.len()].copy_from_slice(field);
        self.len += field.len();
        self
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The header of a simple reply. `error` 0 means success.
pub(crate) fn simple_reply(cookie: u64, error: u32) -> Head {
    Head::new()
        .put(&SIMPLE_MAGIC.to_be_bytes())
        .put(&error.to_be_bytes())
        .put(&cookie.to_be_bytes())
}

fn chunk_head(cookie: u64, kind: u16, length: u32) -> Head {
    Head::new()
        .put(&CHUNK_MAGIC.to_be_bytes())
        .put(&chunk::DONE.to_be_bytes())
        .put(&kind.to_be_bytes())
        .put(&cookie.to_be_bytes())
        .put(&length.to_be_bytes())
}

/// The header of a structured reply with data. It is one chunk, with `bytes` bytes of data behind
/// the header.
pub(crate) fn data_chunk(cookie: u64, offset: u64, bytes: u32) -> Head {
    chunk_head(cookie, chunk::OFFSET_DATA, bytes + 8).put(&offset.to_be_bytes())
}

/// A structured reply without data, in one chunk.
pub(crate) fn none_chunk(cookie: u64) -> Head {
    chunk_head(cookie, chunk::NONE, 0)
}

/// A structured reply with an error and no text, in one chunk.
pub(crate) fn error_chunk(cookie: u64, error: u32) -> Head {
    chunk_head(cookie, chunk::ERROR, 6).put(&error.to_be_bytes()).put(&0u16.to_be_bytes())
}

/// The header of a structured reply with block status. It is one chunk, with `count` descriptors of
/// 8 bytes behind the header.
pub(crate) fn status_chunk(cookie: u64, count: u32) -> Head {
    chunk_head(cookie, chunk::BLOCK_STATUS, 4 + count * 8).put(&BASE_ALLOCATION_ID.to_be_bytes())
}
