// SPDX-License-Identifier: Apache-2.0
//! A frame: header, body, payload.

use crate::codec::{Fields, body_of, kind_of, message_from};
use crate::error::WireError;
use crate::message::{Message, Request, Response};
use crate::{BODY_MAX, PAYLOAD_MAX};
use base::crc32c;
use env::Slice;

/// Bytes of the header.
pub const HEADER_LEN: usize = 64;
/// The version of all layouts in this crate. Hosts of another version are not talked to.
pub const VERSION: u8 = 4;
const MAGIC: u32 = u32::from_le_bytes(*b"GBNW");
const ZEROS: [u8; 32] = [0; 32];

const KIND_AT: usize = 5;
const LENGTHS_AT: usize = 8;
const CRC_AT: usize = 60;

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
    /// Reads a header.
    ///
    /// # Errors
    /// [`WireError`]. The stream cannot be read any further: nobody knows where the next frame is.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, WireError> {
        let mut fields = Fields::new(0, bytes);
        let magic = fields.u32()?;
        if magic != MAGIC {
            return Err(WireError::Magic { found: magic });
        }
        let version = fields.u8()?;
        if version != VERSION {
            return Err(WireError::Version { found: version });
        }
        let kind = fields.u8()?;
        let flags = fields.u16()?;
        let body_len = fields.u32()?;
        let payload_len = fields.u32()?;
        let id = fields.u64()?;
        let body_crc = fields.u32()?;
        let reserved = fields.take(ZEROS.len())?;
        if crc32c(&bytes[..CRC_AT]) != fields.u32()? {
            return Err(WireError::HeaderCrc);
        }
        if flags != 0 || reserved != ZEROS {
            return Err(WireError::Value { kind, field: "reserved" });
        }
        if body_len as usize > BODY_MAX || payload_len as usize > PAYLOAD_MAX {
            return Err(WireError::TooLong { body: body_len, payload: payload_len });
        }
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

/// Appends header and body of `message` to `out`. The caller sends [`Message::payload`] behind
/// them.
///
/// Panics where a length is beyond its limit, or a range, its checksums and its data do not fit
/// each other. That is an error of ours.
pub fn encode(message: &Message, id: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&[VERSION, kind_of(message), 0, 0]);
    out.extend_from_slice(&ZEROS[..8]);
    out.extend_from_slice(&id.to_le_bytes());
    out.resize(start + HEADER_LEN, 0);
    body_of(message, out);
    let (header, body) = out[start..].split_at_mut(HEADER_LEN);
    let payload_len = message.payload().map_or(0, |payload| payload.len());
    assert!(body.len() <= BODY_MAX, "a body beyond its limit");
    assert!(payload_len <= PAYLOAD_MAX, "a payload beyond its limit");
    let mut put = |at: usize, value: u32| {
        header[at..at + 4].copy_from_slice(&value.to_le_bytes());
    };
    put(LENGTHS_AT, u32_of(body.len()));
    put(LENGTHS_AT + 4, u32_of(payload_len));
    put(LENGTHS_AT + 16, crc32c(body));
    let crc = crc32c(&header[..CRC_AT]);
    header[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    debug_assert_eq!(header[KIND_AT], kind_of(message));
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
