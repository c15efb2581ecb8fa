// SPDX-License-Identifier: Apache-2.0
//! What a client sends and what it is sent, as bytes. All integers are big-endian. Pure.

use nbd::numbers::{
    BASE_ALLOCATION_ID, CHUNK_MAGIC, FIXED_NEWSTYLE, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    REQUEST_MAGIC, REQUEST_SIZE, SIMPLE_MAGIC, chunk, info, reply,
};

/// Bytes of what a server says first.
pub const GREETING_SIZE: usize = 18;
/// Bytes of a reply to an option, without its data.
pub const OPTION_REPLY_SIZE: usize = 20;
/// Bytes of a simple reply, without the data of a read. A chunk has its length behind them.
pub const REPLY_SIZE: usize = 16;

/// One request. The data of a write follows.
pub fn request(
    command: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    length: u32,
) -> [u8; REQUEST_SIZE] {
    let mut bytes = [0; REQUEST_SIZE];
    bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&command.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&offset.to_be_bytes());
    bytes[24..28].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// One option with its data.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(length_of(data).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A text with its length before it.
pub fn string(text: &str) -> Vec<u8> {
    [length_of(text.as_bytes()).to_be_bytes().as_slice(), text.as_bytes()].concat()
}

/// The data of the options INFO and GO: the export and the informations that are asked for.
pub fn go_data(name: &str, infos: &[u16]) -> Vec<u8> {
    let count = u16::try_from(infos.len()).expect("a handful of informations");
    let mut bytes = string(name);
    bytes.extend(count.to_be_bytes());
    bytes.extend(infos.iter().flat_map(|info| info.to_be_bytes()));
    bytes
}

/// The data of the options LIST_META_CONTEXT and SET_META_CONTEXT: the export and the queries.
pub fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let count = u32::try_from(queries.len()).expect("a handful of queries");
    let mut bytes = string(name);
    bytes.extend(count.to_be_bytes());
    bytes.extend(queries.iter().flat_map(|query| string(query)));
    bytes
}

fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a test sends less than 4 GiB")
}

/// The handshake flags of a server, from what it says first. Nothing where it is no fixed newstyle
/// NBD server.
pub fn greeting(bytes: &[u8; GREETING_SIZE]) -> Option<u32> {
    let mut fields = Fields(bytes);
    let is_server = fields.u64()? == MAGIC && fields.u64()? == OPTION_MAGIC;
    let flags = u32::from(fields.u16()?);
    (is_server && flags & FIXED_NEWSTYLE != 0).then_some(flags)
}

/// A reply to an option, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReply {
    /// The option that it answers.
    pub option: u32,
    /// What it is, see [`nbd::numbers::reply`].
    pub kind: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionReply {
    /// The reply, or nothing where the bytes are none.
    pub fn decode(bytes: &[u8; OPTION_REPLY_SIZE]) -> Option<Self> {
        let mut fields = Fields(bytes);
        if fields.u64()? != OPTION_REPLY_MAGIC {
            return None;
        }
        Some(Self { option: fields.u32()?, kind: fields.u32()?, length: fields.u32()? })
    }

    /// Whether no reply to the same option follows.
    pub fn is_last(&self) -> bool {
        self.kind == reply::ACK || self.is_error()
    }

    /// Whether the option was refused.
    pub fn is_error(&self) -> bool {
        self.kind & reply::ERR != 0
    }
}

/// What an INFO reply says of an export: its size in bytes and its transmission flags. Nothing
/// where the reply tells something else.
pub fn export_info(data: &[u8]) -> Option<(u64, u16)> {
    let mut fields = Fields(data);
    (fields.u16()? == info::EXPORT).then_some((fields.u64()?, fields.u16()?))
}

/// The first bytes of a reply: whose it is, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// The request that it answers.
    pub cookie: u64,
    /// Simple reply or chunk.
    pub kind: ReplyKind,
}

/// The two kinds of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// The data of a read that succeeded follows.
    Simple {
        /// Zero is success.
        errno: u32,
    },
    /// Four bytes of length follow, and so much data. See [`nbd::numbers::chunk`].
    Chunk {
        /// Flags.
        flags: u16,
        /// What the data is.
        kind: u16,
    },
}

impl ReplyHead {
    /// The head, or nothing where the bytes are none.
    pub fn decode(bytes: &[u8; REPLY_SIZE]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let kind = match fields.u32()? {
            SIMPLE_MAGIC => ReplyKind::Simple { errno: fields.u32()? },
            CHUNK_MAGIC => ReplyKind::Chunk { flags: fields.u16()?, kind: fields.u16()? },
            _ => return None,
        };
        Some(Self { cookie: fields.u64()?, kind })
    }
}

/// What came back for one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NbdReply {
    /// The request that it answers.
    pub cookie: u64,
    /// Zero is success.
    pub errno: u32,
    /// The data of a read.
    pub data: Vec<u8>,
    /// Bytes and state of each extent, of a block status.
    pub extents: Vec<(u32, u32)>,
}

impl NbdReply {
    /// The reply that one chunk is, with its data. Nothing where no server of ours sends that.
    pub fn of_chunk(cookie: u64, kind: u16, mut body: Vec<u8>) -> Option<Self> {
        let mut reply = Self { cookie, ..Self::default() };
        let mut fields = Fields(&body);
        match kind {
            chunk::NONE if body.is_empty() => {}
            chunk::OFFSET_DATA if body.len() >= 8 => reply.data = body.split_off(8),
            chunk::BLOCK_STATUS if fields.u32()? == BASE_ALLOCATION_ID => {
                while !fields.0.is_empty() {
                    reply.extents.push((fields.u32()?, fields.u32()?));
                }
            }
            chunk::ERROR => reply.errno = fields.u32()?,
            _ => return None,
        }
        Some(reply)
    }
}

/// Takes fields off the front of bytes; nothing where they are too short.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nbd::numbers::{command, flag};

    #[test]
    fn requests_and_options_are_framed_as_the_protocol_says() {
        let bytes = request(command::WRITE_ZEROES, flag::NO_HOLE, 1, 0x0102_0304_0506_0708, 512);
        assert_eq!(bytes[..8], [0x25, 0x60, 0x95, 0x13, 0, 2, 0, 6]);
        assert_eq!(bytes[8..], [0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 2, 0]);
        let go = option(nbd::numbers::option::GO, &go_data("web", &[info::BLOCK_SIZE]));
        assert_eq!(go, b"IHAVEOPT\0\0\0\x07\0\0\0\x0b\0\0\0\x03web\0\x01\0\x03");
        assert_eq!(meta_data("a", &["b"]), b"\0\0\0\x01a\0\0\0\x01\0\0\0\x01b");
    }

    #[test]
    fn answers_are_read_as_the_protocol_says() {
        assert_eq!(greeting(b"NBDMAGICIHAVEOPT\0\x03"), Some(3));
        assert_eq!(greeting(b"NBDMAGICIHAVEOPT\0\x02"), None, "not fixed");
        let info = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\x80\0\0\x06\0\0\0\x09";
        let refused = OptionReply { option: 7, kind: reply::ERR_UNKNOWN, length: 9 };
        assert_eq!(OptionReply::decode(info), Some(refused));
        let simple = ReplyHead::decode(b"\x67\x44\x66\x98\0\0\0\x05\0\0\0\0\0\0\0\x4d");
        let expected = ReplyHead { cookie: 77, kind: ReplyKind::Simple { errno: 5 } };
        assert_eq!(simple, Some(expected));
        let chunk = ReplyHead::decode(b"\x66\x8e\x33\xef\0\x01\x80\x01\0\0\0\0\0\0\0\x4d");
        let kind = ReplyKind::Chunk { flags: chunk::DONE, kind: chunk::ERROR };
        assert_eq!(chunk, Some(ReplyHead { cookie: 77, kind }));
        assert_eq!(ReplyHead::decode(&[0; REPLY_SIZE]), None);
        let cut = NbdReply::of_chunk(1, chunk::BLOCK_STATUS, vec![0, 0, 0, 1, 0, 0, 2, 0]);
        assert_eq!(cut, None, "half an extent");
    }
}
