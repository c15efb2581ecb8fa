// SPDX-License-Identifier: Apache-2.0
//! Bodies, field by field. All numbers are little-endian; there is no padding.

mod fields;
mod request;
mod response;

pub(crate) use fields::Fields;
pub(crate) use request::since;

use crate::error::WireError;
use crate::message::{Hello, Message, OwnerId};
use crate::versions::Versions;
use env::Slice;
use fields::put_owner;

pub(crate) const HELLO: u8 = 1;
const PING: u8 = 2;
const PONG: u8 = 3;
/// The first kind of a request.
const REQUESTS: u8 = 16;
/// The first kind of a response.
const RESPONSES: u8 = 128;

pub(crate) fn kind_of(message: &Message) -> u8 {
    match message {
        Message::Hello(_) => HELLO,
        Message::Ping => PING,
        Message::Pong => PONG,
        Message::Request(request) => request::kind_of(request),
        Message::Response(response) => response::kind_of(response),
    }
}

pub(crate) fn body_of(message: &Message, out: &mut Vec<u8>) {
    match message {
        Message::Hello(hello) => {
            out.extend_from_slice(&hello.cluster.to_le_bytes());
            put_owner(out, hello.me);
            out.extend_from_slice(&[hello.versions.min(), hello.versions.max()]);
        }
        Message::Ping | Message::Pong => {}
        Message::Request(request) => request::put(request, out),
        Message::Response(response) => response::put(response, out),
    }
}

pub(crate) fn message_from(fields: &mut Fields<'_>, payload: Slice) -> Result<Message, WireError> {
    let kind = fields.kind();
    let has_payload = request::takes_payload(kind) || response::takes_payload(kind);
    if !has_payload && !payload.is_empty() {
        return Err(fields.invalid("payload"));
    }
    match kind {
        HELLO => {
            let cluster = fields.u64()?;
            let me: OwnerId = fields.owner()?;
            let (min, max) = (fields.u8()?, fields.u8()?);
            let versions = Versions::new(min, max).ok_or_else(|| fields.invalid("versions"))?;
            // What a later version says here besides.
            fields.skip_rest();
            Ok(Message::Hello(Hello { cluster, me, versions }))
        }
        PING => Ok(Message::Ping),
        PONG => Ok(Message::Pong),
        REQUESTS..RESPONSES => request::take(fields, payload).map(Message::Request),
        RESPONSES.. => response::take(fields, payload).map(Message::Response),
        _ => Err(WireError::Kind { kind }),
    }
}
