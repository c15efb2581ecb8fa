// SPDX-License-Identifier: Apache-2.0
//! A small NBD client: fixed newstyle, `NBD_OPT_GO`, simple replies, many requests under way.
//!
//! It exists so that the campaign knows exactly which requests were answered before a connection
//! ended: nothing between it and the socket sends again, caches or changes the order.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_ERROR: u32 = 1 << 31;
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;
const NO_HOLE: u16 = 2;
/// Longest answer to an option that makes sense; ours are below a hundred bytes.
const OPTION_BYTES_MAX: u32 = 64 << 10;

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// Read the range: the answer brings its data.
    Read,
    /// Write the range: the data follows the request.
    Write,
    /// The client goes. What it sent before is finished and answered.
    Disconnect,
    /// The range may lose its space and reads as zeros.
    Trim,
    /// The range becomes zeros and keeps its space.
    Zeroes,
}

impl Command {
    fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Trim => 4,
            Self::Zeroes => 6,
        }
    }

    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Disconnect => "disconnect",
            Self::Trim => "trim",
            Self::Zeroes => "write-zeroes",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A connection whose handshake is done.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    size: u64,
}

/// The head of an answer; the data of a read that succeeded follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
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

/// One request as it goes over the wire; the payload of a write follows.
pub fn request(command: Command, cookie: u64, offset: u64, length: u32) -> [u8; 28] {
    let flags = if command == Command::Zeroes { NO_HOLE } else { 0 };
    let mut bytes = [0; 28];
    bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&command.number().to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&offset.to_be_bytes());
    bytes[24..28].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Waits for the head of the next answer.
///
/// # Errors
/// As the stream's; `InvalidData` where this is no simple reply.
pub fn receive(stream: &mut impl Read) -> io::Result<Reply> {
    let magic = u32::from_be_bytes(array(stream)?);
    if magic != REPLY_MAGIC {
        return Err(foreign("no simple reply"));
    }
    let errno = u32::from_be_bytes(array(stream)?);
    let cookie = u64::from_be_bytes(array(stream)?);
    Ok(Reply { cookie, errno })
}

fn shake_hands(stream: &mut (impl Read + Write), export: &str) -> io::Result<u64> {
    let (magic, option) = (u64::from_be_bytes(array(stream)?), u64::from_be_bytes(array(stream)?));
    let flags = u16::from_be_bytes(array(stream)?);
    if (magic, option) != (MAGIC, OPTION_MAGIC) || flags & FIXED_NEWSTYLE == 0 {
        return Err(foreign("not a fixed newstyle NBD server"));
    }
    let name = u32::try_from(export.len()).map_err(|_| foreign("a name that long"))?;
    let mut hello = Vec::new();
    hello.extend(u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES)).to_be_bytes());
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend(OPTION_GO.to_be_bytes());
    hello.extend((4 + name + 2).to_be_bytes());
    hello.extend(name.to_be_bytes());
    hello.extend(export.as_bytes());
    hello.extend(0_u16.to_be_bytes());
    stream.write_all(&hello)?;
    let mut size = None;
    loop {
        let (kind, body) = option_reply(stream)?;
        match kind {
            REPLY_ACK => return size.ok_or_else(|| foreign("no size was told")),
            REPLY_INFO if body.len() >= 10 && body[..2] == [0, 0] => {
                let number = body[2..10].try_into().map_err(|_| foreign("a short answer"))?;
                size = Some(u64::from_be_bytes(number));
            }
            kind if kind & REPLY_ERROR != 0 => {
                return Err(foreign(&format!("refused: {}", String::from_utf8_lossy(&body))));
            }
            _ => {}
        }
    }
}

fn option_reply(stream: &mut impl Read) -> io::Result<(u32, Vec<u8>)> {
    if u64::from_be_bytes(array(stream)?) != OPTION_REPLY_MAGIC {
        return Err(foreign("malformed answer to an option"));
    }
    let _option = u32::from_be_bytes(array(stream)?);
    let kind = u32::from_be_bytes(array(stream)?);
    let length = u32::from_be_bytes(array(stream)?);
    if length > OPTION_BYTES_MAX {
        return Err(foreign("an answer to an option that long"));
    }
    let mut body = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    stream.read_exact(&mut body)?;
    Ok((kind, body))
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
mod tests {
    use super::*;
    use std::thread;

    /// A server of one export of 1 MiB that answers as told.
    fn server(mut stream: UnixStream, is_known: bool) -> Vec<u8> {
        let mut hello = Vec::new();
        hello.extend(MAGIC.to_be_bytes());
        hello.extend(OPTION_MAGIC.to_be_bytes());
        hello.extend(3_u16.to_be_bytes());
        stream.write_all(&hello).unwrap();
        let mut asked = vec![0; 4 + 8 + 4 + 4 + 4 + 3 + 2];
        stream.read_exact(&mut asked).unwrap();
        let mut answer = |kind: u32, body: &[u8]| {
            let mut bytes = Vec::new();
            bytes.extend(OPTION_REPLY_MAGIC.to_be_bytes());
            bytes.extend(OPTION_GO.to_be_bytes());
            bytes.extend(kind.to_be_bytes());
            bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
            bytes.extend(body);
            stream.write_all(&bytes).unwrap();
        };
        if !is_known {
            answer(REPLY_ERROR | 6, b"no such export");
            return asked;
        }
        let mut info = vec![0, 0];
        info.extend((1_u64 << 20).to_be_bytes());
        info.extend([0, 1]);
        answer(REPLY_INFO, &[0, 3, 0, 0]);
        answer(REPLY_INFO, &info);
        answer(REPLY_ACK, b"");
        let mut sent = [0; 28];
        stream.read_exact(&mut sent).unwrap();
        let mut reply = Vec::new();
        reply.extend(REPLY_MAGIC.to_be_bytes());
        reply.extend(5_u32.to_be_bytes());
        reply.extend(&sent[8..16]);
        stream.write_all(&reply).unwrap();
        asked
    }

    #[test]
    fn a_handshake_tells_the_size_and_an_answer_names_its_request() {
        let (mut mine, theirs) = UnixStream::pair().unwrap();
        let served = thread::spawn(|| server(theirs, true));
        assert_eq!(shake_hands(&mut mine, "web").unwrap(), 1 << 20);
        mine.write_all(&request(Command::Trim, 77, 4096, 512)).unwrap();
        assert_eq!(receive(&mut mine).unwrap(), Reply { cookie: 77, errno: 5 });
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

    #[test]
    fn a_request_is_framed_as_the_protocol_says() {
        let bytes = request(Command::Zeroes, 1, 0x0102_0304_0506_0708, 512);
        assert_eq!(bytes[..8], [0x25, 0x60, 0x95, 0x13, 0, 2, 0, 6]);
        assert_eq!(bytes[16..], [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 2, 0]);
    }
}
