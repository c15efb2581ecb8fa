// SPDX-License-Identifier: Apache-2.0
//! Layouts of the protocol, and its error numbers. All integers are big-endian. Pure.

use crate::numbers::{
    BASE_ALLOCATION_ID, CHUNK_MAGIC, REQUEST_MAGIC, REQUEST_SIZE, SIMPLE_MAGIC, chunk,
};
use crate::options::STRING_MAX;

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
