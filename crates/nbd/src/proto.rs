// SPDX-License-Identifier: Apache-2.0
//! Layouts of the protocol, and its error numbers. All integers are big-endian. Pure.

use crate::numbers::{
    BASE_ALLOCATION_ID, CHUNK_MAGIC, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, OPTION_SIZE,
    REQUEST_MAGIC, REQUEST_SIZE, SIMPLE_MAGIC, chunk, info,
};
use crate::options::{PAYLOAD_MAX, STRING_MAX};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute_ref};

/// Error numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    /// Another host writes to the volume.
    NotPermitted,
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
            Self::NotPermitted => 1,
            Self::Io => 5,
            Self::Invalid => 22,
            Self::NoSpace => 28,
            Self::Overflow => 75,
            Self::ShuttingDown => 108,
        }
    }
}

// What travels is made of the structs named `Raw`, big-endian numbers without padding. Strings and
// what follows them are read by `OptionFields`.

/// How the server begins.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawGreeting {
    magic: U64,
    option_magic: U64,
    flags: U16,
}

const _: () = assert!(size_of::<RawGreeting>() == 18);

pub(crate) fn greeting() -> impl IntoBytes + Immutable {
    const FLAGS: u16 = 3; // FIXED_NEWSTYLE and NO_ZEROES
    RawGreeting { magic: MAGIC.into(), option_magic: OPTION_MAGIC.into(), flags: FLAGS.into() }
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawOption {
    magic: U64,
    option: U32,
    length: U32,
}

const _: () = assert!(size_of::<RawOption>() == OPTION_SIZE);

/// An option and the length of its data. `None` where the magic is wrong.
pub(crate) fn option_of(bytes: &[u8; OPTION_SIZE]) -> Option<(u32, u32)> {
    let raw: &RawOption = transmute_ref!(bytes);
    (raw.magic.get() == OPTION_MAGIC).then(|| (raw.option.get(), raw.length.get()))
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawOptionReply {
    magic: U64,
    option: U32,
    kind: U32,
    length: U32,
}

const _: () = assert!(size_of::<RawOptionReply>() == 20);

/// The head of an answer to an option, with `length` bytes behind it.
pub(crate) fn option_reply(option: u32, kind: u32, length: u32) -> impl IntoBytes + Immutable {
    RawOptionReply {
        magic: OPTION_REPLY_MAGIC.into(),
        option: option.into(),
        kind: kind.into(),
        length: length.into(),
    }
}

/// An export as the answer to EXPORT_NAME describes it.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawExport {
    size: U64,
    flags: U16,
}

const _: () = assert!(size_of::<RawExport>() == 10);

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawExportInfo {
    kind: U16,
    export: RawExport,
}

const _: () = assert!(size_of::<RawExportInfo>() == 12);

/// The answer to EXPORT_NAME.
pub(crate) fn export(size: u64, flags: u16) -> impl IntoBytes + Immutable {
    RawExport { size: size.into(), flags: flags.into() }
}

/// The same in an answer to INFO and GO.
pub(crate) fn export_info(size: u64, flags: u16) -> impl IntoBytes + Immutable {
    let export = RawExport { size: size.into(), flags: flags.into() };
    RawExportInfo { kind: info::EXPORT.into(), export }
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawBlockSizes {
    kind: U16,
    minimum: U32,
    preferred: U32,
    maximum: U32,
}

const _: () = assert!(size_of::<RawBlockSizes>() == 14);

/// The block sizes in an answer to INFO and GO.
pub(crate) fn block_sizes() -> impl IntoBytes + Immutable {
    RawBlockSizes {
        kind: info::BLOCK_SIZE.into(),
        minimum: 512.into(),
        preferred: 4096.into(),
        maximum: PAYLOAD_MAX.into(),
    }
}

#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRequest {
    magic: U32,
    flags: U16,
    command: U16,
    cookie: U64,
    offset: U64,
    length: U32,
}

const _: () = assert!(size_of::<RawRequest>() == REQUEST_SIZE);

/// The header of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl RequestHeader {
    /// The header. `None` where the magic is wrong.
    pub(crate) fn decode(bytes: &[u8; REQUEST_SIZE]) -> Option<Self> {
        let raw: &RawRequest = transmute_ref!(bytes);
        (raw.magic.get() == REQUEST_MAGIC).then(|| Self {
            flags: raw.flags.get(),
            command: raw.command.get(),
            cookie: raw.cookie.get(),
            offset: raw.offset.get(),
            length: raw.length.get(),
        })
    }
}

/// Takes fields off the front of the bytes. Each method returns `None` where too few bytes are
/// left.
pub(crate) struct OptionFields<'a>(pub(crate) &'a [u8]);

impl<'a> OptionFields<'a> {
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

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawSimpleReply {
    magic: U32,
    error: U32,
    cookie: U64,
}

const _: () = assert!(size_of::<RawSimpleReply>() == 16);

/// A simple reply: `error` 0 is success.
pub(crate) fn simple_reply(cookie: u64, error: u32) -> impl IntoBytes + Immutable {
    RawSimpleReply { magic: SIMPLE_MAGIC.into(), error: error.into(), cookie: cookie.into() }
}

/// How the chunks of a structured reply begin.
#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawChunk {
    magic: U32,
    flags: U16,
    kind: U16,
    cookie: U64,
    length: U32,
}

const _: () = assert!(size_of::<RawChunk>() == 20);

fn chunk_head(cookie: u64, kind: u16, length: u32) -> RawChunk {
    RawChunk {
        magic: CHUNK_MAGIC.into(),
        flags: chunk::DONE.into(),
        kind: kind.into(),
        cookie: cookie.into(),
        length: length.into(),
    }
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawDataChunk {
    head: RawChunk,
    offset: U64,
}

const _: () = assert!(size_of::<RawDataChunk>() == 28);

/// The only chunk of a structured reply that brings data.
pub(crate) fn data_chunk(cookie: u64, offset: u64, bytes: u32) -> impl IntoBytes + Immutable {
    let head = chunk_head(cookie, chunk::OFFSET_DATA, bytes + 8);
    RawDataChunk { head, offset: offset.into() }
}

/// The only chunk of a structured reply that brings nothing.
pub(crate) fn none_chunk(cookie: u64) -> impl IntoBytes + Immutable {
    chunk_head(cookie, chunk::NONE, 0)
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawErrorChunk {
    head: RawChunk,
    error: U32,
    text_length: U16,
}

const _: () = assert!(size_of::<RawErrorChunk>() == 26);

/// The only chunk of a structured reply that failed; no text.
pub(crate) fn error_chunk(cookie: u64, error: u32) -> impl IntoBytes + Immutable {
    let head = chunk_head(cookie, chunk::ERROR, 6);
    RawErrorChunk { head, error: error.into(), text_length: U16::ZERO }
}

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawStatusChunk {
    head: RawChunk,
    context: U32,
}

const _: () = assert!(size_of::<RawStatusChunk>() == 24);

#[derive(IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawStatus {
    bytes: U32,
    state: U32,
}

const _: () = assert!(size_of::<RawStatus>() == 8);

/// The head of a block status chunk with `count` descriptors, each a [`status`], behind it.
pub(crate) fn status_chunk(cookie: u64, count: u32) -> impl IntoBytes + Immutable {
    let head = chunk_head(cookie, chunk::BLOCK_STATUS, 4 + count * 8);
    RawStatusChunk { head, context: BASE_ALLOCATION_ID.into() }
}

/// The state of so many bytes.
pub(crate) fn status(bytes: u32, state: u32) -> impl IntoBytes + Immutable {
    RawStatus { bytes: bytes.into(), state: state.into() }
}
