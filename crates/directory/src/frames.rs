// SPDX-License-Identifier: Apache-2.0
//! Frames from a link: used by the client and by the server.

use crate::protocol::{BODY_BYTES_MAX, FrameError, HEADER_BYTES, ServerHeader};
use env::{Buf, Env, IoError, Link};
use thiserror::Error;

/// Room for reading; larger frames get a larger buffer for as long as they are under way.
const READ_BYTES: usize = 64 << 10;

/// Why no frame came.
#[derive(Debug, Error)]
pub enum ReadError {
    /// the link broke
    #[error("the connection broke")]
    Link {
        /// How.
        #[source]
        source: IoError,
    },
    /// the other side closed the link
    #[error("the connection was closed")]
    End,
    /// the bytes are not frames
    #[error("the other side does not keep to the protocol")]
    Frame {
        /// Why not.
        #[source]
        source: FrameError,
    },
}

/// Cuts the bytes of one link into frames.
pub struct FrameReader {
    env: Env,
    link: Link,
    /// `buf[start..filled]` is what has come and was not handed out.
    buf: Option<Buf>,
    start: usize,
    filled: usize,
}

impl FrameReader {
    /// Reads from `link`, of which it must be the only reader.
    #[must_use]
    pub fn new(env: &Env, link: Link) -> Self {
        Self { env: env.clone(), link, buf: None, start: 0, filled: 0 }
    }

    /// The next frame, decoded by `decode`. Not cancel-safe: dropping the future may lose bytes, so
    /// it is dropped only when the link is given up.
    ///
    /// # Errors
    /// [`ReadError`]; the link is of no further use.
    pub async fn next<T>(
        &mut self,
        decode: impl Fn(&ServerHeader, &[u8]) -> Result<T, FrameError>,
    ) -> Result<T, ReadError> {
        loop {
            let wanted = match self.header()? {
                None => HEADER_BYTES,
                Some(header) => {
                    let body = self.start + HEADER_BYTES;
                    let end = body + header.body_bytes;
                    if let (Some(buf), true) = (&self.buf, end <= self.filled) {
                        let decoded = decode(&header, &buf[body..end]);
                        self.start = end;
                        return decoded.map_err(|source| ReadError::Frame { source });
                    }
                    HEADER_BYTES + header.body_bytes
                }
            };
            assert!(wanted <= HEADER_BYTES + BODY_BYTES_MAX, "the header was checked");
            self.receive(wanted).await?;
        }
    }

    fn header(&self) -> Result<Option<ServerHeader>, ReadError> {
        let Some(buf) = &self.buf else { return Ok(None) };
        let Some(bytes) = buf[self.start..self.filled].first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        ServerHeader::decode(bytes).map(Some).map_err(|source| ReadError::Frame { source })
    }

    /// Receives at least a byte, into a buffer in which `wanted` bytes from `start` have room.
    async fn receive(&mut self, wanted: usize) -> Result<(), ReadError> {
        let mut buf = match self.buf.take() {
            Some(buf) if self.start + wanted <= buf.len() => buf,
            old => {
                let mut buf = self.env.buf(wanted.max(READ_BYTES));
                if let Some(old) = old {
                    let rest = &old[self.start..self.filled];
                    buf[..rest.len()].copy_from_slice(rest);
                }
                (self.start, self.filled) = (0, self.filled - self.start);
                buf
            }
        };
        if self.start == self.filled {
            (self.start, self.filled) = (0, 0);
        }
        assert!(self.filled < buf.len(), "room for at least a byte");
        let received = self.link.recv(buf, self.filled).await;
        let (back, count) = received.map_err(|source| ReadError::Link { source })?;
        if count == 0 {
            return Err(ReadError::End);
        }
        buf = back;
        self.filled += count;
        self.buf = Some(buf);
        Ok(())
    }
}

/// The frames as one buffer for one send.
pub fn join(env: &Env, frames: &[Vec<u8>]) -> Buf {
    let mut buf = env.buf(frames.iter().map(Vec::len).sum());
    let mut at = 0;
    for frame in frames {
        buf[at..at + frame.len()].copy_from_slice(frame);
        at += frame.len();
    }
    buf
}
