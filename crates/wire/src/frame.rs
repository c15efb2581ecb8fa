// SPDX-License-Identifier: Apache-2.0
//! A frame: header, body, payload.

use crate::codec::{Fields, HELLO, body_of, kind_of, message_from, since};
use crate::error::WireError;
use crate::message::{Message, Request, Response};
use crate::{BODY_MAX, HELLO_VERSION, PAYLOAD_MAX};
use base::crc32c;
use env::Slice;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute_ref};

/// Bytes of the header.
pub const HEADER_LEN: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"GBNW");

/// A header as it travels: numbers and bytes without padding, so that any 64 bytes are one.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: U32,
    version: u8,
    kind: u8,
    flags: U16,
    body_len: U32,
    payload_len: U32,
    id: U64,
    body_crc: U32,
    reserved: [u8; 32],
    /// Of all before it.
    crc: U32,
}

const CRC_AT: usize = offset_of!(RawHeader, crc);
const _: () = {
    assert!(size_of::<RawHeader>() == HEADER_LEN);
    assert!(offset_of!(RawHeader, version) == 4);
    assert!(offset_of!(RawHeader, kind) == 5);
    assert!(offset_of!(RawHeader, flags) == 6);
    assert!(offset_of!(RawHeader, body_len) == 8);
    assert!(offset_of!(RawHeader, payload_len) == 12);
    assert!(offset_of!(RawHeader, id) == 16);
    assert!(offset_of!(RawHeader, body_crc) == 24);
    assert!(offset_of!(RawHeader, reserved) == 28);
    assert!(CRC_AT == 60);
};

/// The first [`HEADER_LEN`] bytes of a frame, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    kind: u8,
    id: u64,
    body_len: u32,
    payload_len: u32,
    body_crc: u32,
}

impl Header {
    /// Reads a header, on a link whose ends agreed on a version. `None`: they did not yet, so it
    /// must be that of a `Hello`.
    ///
    /// # Errors
    /// [`WireError`]. The stream cannot be read any further: nobody knows where the next frame is.
    pub fn decode(bytes: &[u8; HEADER_LEN], agreed: Option<u8>) -> Result<Self, WireError> {
        let raw: &RawHeader = transmute_ref!(bytes);
        if raw.magic.get() != MAGIC {
            return Err(WireError::Magic { found: raw.magic.get() });
        }
        if crc32c(&bytes[..CRC_AT]) != raw.crc.get() {
            return Err(WireError::HeaderCrc);
        }
        let (kind, version) = (raw.kind, raw.version);
        if version_of(kind, agreed) != Some(version) || since(kind) > version {
            return Err(WireError::Version { kind, found: version });
        }
        if raw.flags.get() != 0 || raw.reserved != [0; 32] {
            return Err(WireError::Value { kind, field: "reserved" });
        }
        let (body_len, payload_len) = (raw.body_len.get(), raw.payload_len.get());
        if body_len as usize > BODY_MAX || payload_len as usize > PAYLOAD_MAX {
            return Err(WireError::TooLong { body: body_len, payload: payload_len });
        }
        let (id, body_crc) = (raw.id.get(), raw.body_crc.get());
        Ok(Self { kind, id, body_len, payload_len, body_crc })
    }

    /// The number that binds an answer to its request. The asker chooses it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Bytes of the body, which follows the header; at most [`BODY_MAX`].
    #[must_use]
    pub fn body_len(&self) -> usize {
        self.body_len as usize
    }

    /// Bytes of the payload, which follows the body; at most [`PAYLOAD_MAX`].
    #[must_use]
    pub fn payload_len(&self) -> usize {
        self.payload_len as usize
    }

    /// Bytes of the whole frame.
    #[must_use]
    pub fn frame_len(&self) -> usize {
        HEADER_LEN + self.body_len() + self.payload_len()
    }
}

/// Decodes the frame of `header`. The payload is kept as it is. It is not copied and not compared
/// with its checksums.
///
/// # Errors
/// [`WireError`]. Panics only where `body` or `payload` is not as long as the header says.
pub fn decode(header: &Header, body: &[u8], payload: Slice) -> Result<Message, WireError> {
    assert_eq!(body.len(), header.body_len(), "a body of another length than its header says");
    assert_eq!(payload.len(), header.payload_len(), "a payload of another length");
    if crc32c(body) != header.body_crc {
        return Err(WireError::BodyCrc { kind: header.kind });
    }
    let mut fields = Fields::new(header.kind, body);
    let message = message_from(&mut fields, payload)?;
    fields.end()?;
    Ok(message)
}

/// What a header of this kind says on a link whose ends agreed on a version.
fn version_of(kind: u8, agreed: Option<u8>) -> Option<u8> {
    if kind == HELLO { Some(HELLO_VERSION) } else { agreed }
}

/// Appends header and body of `message` to `out`, for a link whose ends agreed on a version. The
/// caller sends [`Message::payload`] behind them.
///
/// Panics before they agreed, where it is no `Hello`. Panics where a length is beyond its limit, or
/// a range, its checksums and its data do not fit each other. These are errors of ours.
pub fn encode(message: &Message, agreed: Option<u8>, id: u64, out: &mut Vec<u8>) {
    let kind = kind_of(message);
    let version = version_of(kind, agreed)
        .unwrap_or_else(|| panic!("a frame of kind {kind} before a version was agreed on"));
    let start = out.len();
    out.resize(start + HEADER_LEN, 0);
    body_of(message, out);
    let (to_header, body) = out[start..].split_at_mut(HEADER_LEN);
    let payload_len = message.payload().map_or(0, |payload| payload.len());
    assert!(body.len() <= BODY_MAX, "a body beyond its limit");
    assert!(payload_len <= PAYLOAD_MAX, "a payload beyond its limit");
    let mut header = RawHeader {
        magic: MAGIC.into(),
        version,
        kind,
        flags: 0.into(),
        body_len: u32_of(body.len()).into(),
        payload_len: u32_of(payload_len).into(),
        id: id.into(),
        body_crc: crc32c(body).into(),
        reserved: [0; 32],
        crc: 0.into(),
    };
    header.crc = crc32c(&header.as_bytes()[..CRC_AT]).into();
    to_header.copy_from_slice(header.as_bytes());
}

fn u32_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or_else(|_| unreachable!("lengths have limits far below 4 GiB"))
}

impl Message {
    /// The data that travels behind header and body. `None` where there is none.
    #[must_use]
    pub fn payload(&self) -> Option<&Slice> {
        let payload = match self {
            Self::Request(
                Request::Write { payload, .. } | Request::ClientWrite { payload, .. },
            )
            | Self::Response(Response::Data { payload, .. }) => payload,
            _ => return None,
        };
        (!payload.is_empty()).then_some(payload)
    }
}
