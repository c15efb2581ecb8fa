// SPDX-License-Identifier: Apache-2.0
//! The client over a Unix socket of the operating system: GO, simple replies, many requests under
//! way. One thread may send while another one receives.

use crate::frames::{
    GREETING_SIZE, OPTION_REPLY_SIZE, OptionReply, REPLY_SIZE, ReplyHead, ReplyKind, export_info,
    go_data, greeting, option,
};
use nbd::numbers::{FIXED_NEWSTYLE, NO_ZEROES, option as options, reply};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest answer to an option that makes sense; ours are below a hundred bytes.
const OPTION_BYTES_MAX: u32 = 64 << 10;

/// A connection whose handshake is done.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    size: u64,
}

/// The head of an answer; the data of a read that succeeded follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleReply {
    /// The request that it answers.
    pub cookie: u64,
    /// Zero is success.
    pub errno: u32,
}

impl Connection {
    /// Connects to `export` behind the socket at `path`; no step of the handshake may take longer
    /// than `patience`.
    ///
    /// # Errors
    /// As the socket's; `InvalidData` where the server speaks otherwise or refuses.
    #[expect(clippy::disallowed_methods, reason = "for programs beside the data path")]
    pub fn open(path: &Path, export: &str, patience: Duration) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(patience))?;
        let size = shake_hands(&mut stream, export)?;
        stream.set_read_timeout(None)?;
        Ok(Self { stream, size })
    }

    /// Size of the volume, bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Another handle on the socket, so that one thread can send while another one receives.
    ///
    /// # Errors
    /// Out of descriptors.
    pub fn stream(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }
}

/// Waits for the head of the next answer.
///
/// # Errors
/// As the stream's; `InvalidData` where this is no simple reply.
pub fn receive(stream: &mut impl Read) -> io::Result<SimpleReply> {
    let head = ReplyHead::decode(&array::<REPLY_SIZE>(stream)?);
    match head.map(|head| (head.cookie, head.kind)) {
        Some((cookie, ReplyKind::Simple { errno })) => Ok(SimpleReply { cookie, errno }),
        Some((_, ReplyKind::Chunk { .. })) | None => Err(foreign("no simple reply")),
    }
}

fn shake_hands(stream: &mut (impl Read + Write), export: &str) -> io::Result<u64> {
    let flags = greeting(&array::<GREETING_SIZE>(stream)?)
        .ok_or_else(|| foreign("not a fixed newstyle NBD server"))?;
    let mut hello = (flags & (FIXED_NEWSTYLE | NO_ZEROES)).to_be_bytes().to_vec();
    hello.extend(option(options::GO, &go_data(export, &[])));
    stream.write_all(&hello)?;
    let mut size = None;
    loop {
        let (head, body) = option_reply(stream)?;
        match head.kind {
            reply::ACK => return size.ok_or_else(|| foreign("no size was told")),
            reply::INFO => size = export_info(&body).map(|(size, _)| size).or(size),
            _ if head.is_error() => {
                return Err(foreign(&format!("refused: {}", String::from_utf8_lossy(&body))));
            }
            _ => {}
        }
    }
}

fn option_reply(stream: &mut impl Read) -> io::Result<(OptionReply, Vec<u8>)> {
    let head = OptionReply::decode(&array::<OPTION_REPLY_SIZE>(stream)?)
        .ok_or_else(|| foreign("malformed answer to an option"))?;
    if head.length > OPTION_BYTES_MAX {
        return Err(foreign("an answer to an option that long"));
    }
    let mut body = vec![0; usize::try_from(head.length).unwrap_or(usize::MAX)];
    stream.read_exact(&mut body)?;
    Ok((head, body))
}

fn array<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn foreign(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a server of a few lines needs its own thread")]
mod tests {
    use super::*;
    use crate::frames::request;
    use nbd::numbers::command;
    use std::thread;

    /// What a server says of an export of 1 MiB: to the handshake and to one request.
    const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\0\x03";
    const OPTION_REPLY: &[u8] = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07";
    const BLOCK_SIZES: &[u8] = b"\0\0\0\x03\0\0\0\x04\0\x03\0\0";
    const EXPORT: &[u8] = b"\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\x10\0\0\0\x01";
    const ACK: &[u8] = b"\0\0\0\x01\0\0\0\0";
    const NO_SUCH: &[u8] = b"\x80\0\0\x06\0\0\0\x0eno such export";

    /// A server that answers as told; what it was asked.
    fn server(mut stream: UnixStream, is_known: bool) -> Vec<u8> {
        stream.write_all(GREETING).unwrap();
        let mut asked = vec![0; 4 + 8 + 4 + 4 + 4 + 3 + 2];
        stream.read_exact(&mut asked).unwrap();
        if !is_known {
            stream.write_all(&[OPTION_REPLY, NO_SUCH].concat()).unwrap();
            return asked;
        }
        for answer in [BLOCK_SIZES, EXPORT, ACK] {
            stream.write_all(&[OPTION_REPLY, answer].concat()).unwrap();
        }
        let mut sent = [0; 28];
        stream.read_exact(&mut sent).unwrap();
        stream.write_all(&[b"\x67\x44\x66\x98\0\0\0\x05", &sent[8..16]].concat()).unwrap();
        asked
    }

    #[test]
    fn a_handshake_tells_the_size_and_an_answer_names_its_request() {
        let (mut mine, theirs) = UnixStream::pair().unwrap();
        let served = thread::spawn(|| server(theirs, true));
        assert_eq!(shake_hands(&mut mine, "web").unwrap(), 1 << 20);
        mine.write_all(&request(command::TRIM, 0, 77, 4096, 512)).unwrap();
        assert_eq!(receive(&mut mine).unwrap(), SimpleReply { cookie: 77, errno: 5 });
        let asked = served.join().unwrap();
        assert!(asked.ends_with(b"web\0\0"), "{asked:?}");
        assert!(receive(&mut mine).is_err(), "the server has left");
    }

    #[test]
    fn a_refusal_says_why() {
        let (mut mine, theirs) = UnixStream::pair().unwrap();
        let served = thread::spawn(|| server(theirs, false));
        let error = shake_hands(&mut mine, "web").unwrap_err();
        assert!(error.to_string().contains("no such export"), "{error}");
        served.join().unwrap();
    }
}
